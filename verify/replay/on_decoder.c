#include "verify/replay/on_decoder.h"

#include "kernels/cuda/host/cuda.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WARM_STEPS = 2 };

/* Steps whose times nobody wants. */
static void drain(struct replay_device *d)
{
    while (d->decoder && d->decoder->under_way > 0)
        decoder_wait(d->decoder, NULL, NULL);
}

static bool begin(void *self, struct err *e)
{
    struct replay_device *d = self;
    drain(d); /* of a run that did not end well */
    if (d->begun)
        decode_run_close(&d->run);
    d->begun = d->first = true;
    d->n_ready = 0;
    d->cold = WARM_STEPS;
    d->cold_s = 0;
    return decode_run_open(&d->run, d->decoder, true, false, e);
}

static bool advance(void *self, const struct step *s, struct err *e)
{
    struct replay_device *d = self;
    return decode_run_advance(&d->run, s, e) &&
           decoder_copy(d->decoder, s->copied.n, s->copied.from, s->copied.to, e);
}

static bool wait_for(struct replay_device *d, struct step_times *out, struct err *e)
{
    struct decode_time t;
    if (!decoder_wait(d->decoder, &t, e))
        return false;
    double moves_s = t.move_s + d->cold_s;
    d->cold_s = 0;
    *out = (struct step_times){
        .attention_s = t.attention_s,
        .other_s = t.whole_s - t.attention_s,
        .moves_s = moves_s,
        .idle_s = !d->every_step ? NAN
                  : d->first     ? 0
                                 : t.idle_s,
        .host_s = t.layout_s + t.enqueue_s,
        .error = NAN,
    };
    out->step_s = out->attention_s + out->other_s + out->moves_s + (d->every_step ? out->idle_s : 0);
    d->first = false;
    return true;
}

/* A checked step is waited for at once, with all before it: what it was made of does not last. */
static bool check_step(struct replay_device *d, const struct step *s, struct err *e)
{
    while (d->decoder->under_way > 0)
        if (!wait_for(d, &d->ready[d->n_ready++], e))
            return false;
    d->run.attention_worst = 0;
    if (!decode_run_check(&d->run, s, e))
        return false;
    d->ready[d->n_ready - 1].error = d->run.attention_worst;
    return true;
}

static bool start(void *self, const struct step *given, struct err *e)
{
    struct replay_device *d = self;
    struct step s = *given;
    if (s.plan->n_launches == 0)
        s.plan = NULL;
    bool check = s.check && s.plan;
    /* kernels are loaded when they are first launched: that is no part of a decode step */
    for (; d->cold > 0; d->cold--) {
        struct decode_time t;
        if (!decode_run_step(&d->run, &s, true, false, e) || !decoder_wait(d->decoder, &t, e))
            return false;
        d->cold_s += t.move_s;
    }
    return decode_run_step(&d->run, &s, true, check, e) && (!check || check_step(d, &s, e));
}

static bool finish(void *self, struct err *e)
{
    struct replay_device *d = self;
    return decoder_finish(d->decoder, e);
}

static bool collect(void *self, struct step_times *out, struct err *e)
{
    struct replay_device *d = self;
    if (d->n_ready == 0)
        return wait_for(d, out, e);
    *out = d->ready[0];
    d->n_ready--;
    memmove(d->ready, d->ready + 1, (size_t)d->n_ready * sizeof d->ready[0]);
    return true;
}

bool replay_device_open(struct replay_device *d, const struct decoder_type *type,
                        const struct decoder_spec *spec, bool every_step, struct err *e)
{
    struct cuda_caps caps;
    *d = (struct replay_device){.every_step = every_step};
    d->decoder = decoder_open(type, spec, e);
    bool gpu = d->decoder && strcmp(type->name, "cuda") == 0 && cuda_caps(&caps, NULL);
    char name[DECODER_CARDS_NAME];
    snprintf(d->name, sizeof d->name, "%s, measured", decoder_cards_name(spec, gpu ? caps.name : type->name, name));
    return d->decoder != NULL;
}

void replay_device_close(struct replay_device *d)
{
    drain(d);
    if (d->begun)
        decode_run_close(&d->run);
    decoder_close(d->decoder);
}

struct executor replay_on_device(struct replay_device *d)
{
    return (struct executor){.name = d->name,
                             .self = d,
                             .begin = begin,
                             .advance = advance,
                             .start = start,
                             .finish = finish,
                             .collect = collect};
}
