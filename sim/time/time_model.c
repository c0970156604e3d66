/*
 * time_model.c - list scheduling of a plan's CTAs on SM slots that slow each other down.
 *
 * All running CTAs advance at one speed, the largest at which none of DRAM, L2 and tensor cores has to give
 * more than it has. So a CTA that starts when the common progress is v ends when it is v + its time alone,
 * whatever starts and ends in between. One heap of ends, and a few sums, are all the state there is.
 *
 * Why the bounds hold (tests/sim/check_time_model.c). The speed is at most 1, so no CTA is faster than alone,
 * and by its definition no resource gives more than it has. When k CTAs run, each can ask for at most all of
 * a resource. So the speed is at least 1 / k, and k CTAs together do a second of serial work in a second.
 *
 * Where the defaults in time_model.h come from. Measured on an H100 and an H200 (machines.def, probe):
 *
 *   latency, l2_latency   a CTA of 128 threads loads a tile of 8, 16, 32 KB, waits for it and goes on:
 *                         570, 627, 729 ns from DRAM, 224, 271, 374 ns from the L2; a bare load: 350, 145
 *   rates                 all SMs together read 91 to 97 % of the data sheet's bandwidth, and 74 to 86 % of
 *                         what the L2 would give at A100's bytes a clock
 *   concurrent            a second kernel beside the first in a graph costs half of one after it
 *   base                  a graph costs 2.4 us besides its kernels
 *
 * Reasoned:
 *
 *   start                 a CTA reads its description and Q before its first tile, and writes after the last
 *   tensor                softmax between the two products leaves about half of the tensor peak
 *   stages                a tile is used while the next comes
 *   unseen                the papers' kernels with masks read what the mask hides
 */
#include "sim/time/time_model.h"
#include "sim/time/ctas.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *const time_model_feature_name[N_CLOCK_FEATURES] = {
#define X(name, about) #name,
    CLOCK_FEATURES(X)
#undef X
};

struct time_model_coefs time_model_coefs_default(void)
{
    return (struct time_model_coefs){
#define X(name, value, least, most, about) .name = value,
        CLOCK_COEFS(X)
#undef X
    };
}

bool time_model_coefs_check(const struct time_model_coefs *c, struct err *e)
{
#define X(name, value, least, most, about)                                                                   \
    if (!(c->name >= least && c->name <= most))                                                              \
        return err_set(e, "coefficient %s is %g (expected %g to %g)", #name, c->name, (double)least,         \
                       (double)most);
    CLOCK_COEFS(X)
#undef X
    return true;
}

/* ---- SMs ---------------------------------------------------------------------------------------------- */

/* A CTA takes FULL / resident of an SM, which is a whole number for 1 .. 32: the least common multiple of these. */
static const int64_t FULL = INT64_C(144403552893600);
enum { SM_BITS = 15 };

/* The least loaded SM, the first of several, on top of a tournament. */
struct sms {
    int32_t n, leaf;
    int64_t *key;   /* [2 * leaf] load << SM_BITS | SM; [1] is the winner */
    uint32_t *slot; /* [n] bit per slot in use */
    int64_t load;   /* sum over SMs */
    int32_t busy;   /* SMs with any CTA */
};

static void sms_set(struct sms *s, int32_t sm, int64_t load)
{
    int32_t i = s->leaf + sm;
    s->key[i] = load << SM_BITS | sm;
    for (i >>= 1; i >= 1; i >>= 1)
        s->key[i] = min_i64(s->key[2 * i], s->key[2 * i + 1]);
}

static struct sms sms_new(int32_t n)
{
    struct sms s = {.n = n, .leaf = 1};
    while (s.leaf < n)
        s.leaf *= 2;
    s.key = xcalloc(2 * (size_t)s.leaf, sizeof *s.key);
    s.slot = xcalloc((size_t)n, sizeof *s.slot);
    for (int32_t i = 0; i < 2 * s.leaf; i++)
        s.key[i] = INT64_MAX;
    for (int32_t i = 0; i < n; i++)
        sms_set(&s, i, 0);
    return s;
}

static void sms_free(struct sms *s)
{
    free(s->key);
    free(s->slot);
}

static int64_t sms_load(const struct sms *s, int32_t sm)
{
    return s->key[s->leaf + sm] >> SM_BITS;
}

/* Put a CTA on an SM that has room: its place; -1: none has. */
static int32_t sms_take(struct sms *s, int64_t share, int32_t *slot)
{
    int32_t sm = (int32_t)(s->key[1] & ((1 << SM_BITS) - 1));
    int64_t load = sms_load(s, sm);
    if (load + share > FULL)
        return -1;
    *slot = __builtin_ctz(~s->slot[sm]);
    s->slot[sm] |= UINT32_C(1) << *slot;
    s->busy += load == 0;
    s->load += share;
    sms_set(s, sm, load + share);
    return sm;
}

static void sms_give(struct sms *s, int64_t share, int32_t sm, int32_t slot)
{
    int64_t load = sms_load(s, sm) - share;
    s->slot[sm] &= ~(UINT32_C(1) << slot);
    s->busy -= load == 0;
    s->load -= share;
    sms_set(s, sm, load);
}

/* ---- running CTAs ------------------------------------------------------------------------------------- */

/* What a CTA asks of the machine per second of its own time, and in all. */
struct demand {
    double dram, l2, ops;
};

/* CTAs of one batch that started together, and so end together. */
struct flock {
    double end; /* progress at which they end */
    int64_t cta, n;
    int64_t batch;
};

struct sim {
    const struct machine *mc;
    const struct time_model_coefs *coefs;
    struct grid grid;
    double *alone; /* [grid.n] seconds of one CTA of the batch */
    double *trips; /* [grid.n] share of these that round trips take */
    struct sms sms;
    struct flock *heap; /* by end, then cta */
    int64_t n_heap, cap_heap;
    struct demand limit, sum; /* of the machine; of all running CTAs */
    double progress;          /* seconds alone, since the queue's first CTA started */
    double now;
    int64_t running;
    struct time_model *out;
    struct time_model_cta *cta; /* [grid.ctas] */
    int64_t started, cap_span;
    bool spans, attention; /* spans are wanted; the launch has groups */
};

static bool before(const struct flock *a, const struct flock *b)
{
    return a->end < b->end || (a->end == b->end && a->cta < b->cta);
}

static void heap_push(struct sim *s, struct flock f)
{
    s->heap = xgrow(s->heap, &s->cap_heap, s->n_heap + 1, sizeof *s->heap);
    int64_t i = s->n_heap++;
    for (; i > 0 && before(&f, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = f;
}

static struct flock heap_pop(struct sim *s)
{
    struct flock top = s->heap[0], last = s->heap[--s->n_heap];
    int64_t i = 0;
    for (int64_t kid = 1; kid < s->n_heap; kid = 2 * i + 1) {
        if (kid + 1 < s->n_heap && before(&s->heap[kid + 1], &s->heap[kid]))
            kid++;
        if (!before(&s->heap[kid], &last))
            break;
        s->heap[i] = s->heap[kid];
        i = kid;
    }
    s->heap[i] = last;
    return top;
}

/* What one CTA of the batch can draw at most. */
static struct demand most_alone(const struct sim *s, const struct grid_batch *b)
{
    double round_trip = s->coefs->latency * s->mc->latency_ns * 1e-9;
    return (struct demand){
        .dram = fmin(b->flight / round_trip, s->limit.dram),
        .l2 = fmin(b->flight / (round_trip * s->coefs->l2_latency), s->limit.l2),
        .ops = s->limit.ops / s->mc->sms,
    };
}

static double time_alone(const struct sim *s, const struct grid_batch *b, double *trips)
{
    struct demand most = most_alone(s, b);
    double start = s->coefs->start * s->coefs->latency * s->mc->latency_ns * 1e-9;
    double dram = b->dram / most.dram, l2 = b->l2 / most.l2,
           longest = fmax(dram, fmax(l2, b->ops / most.ops));
    bool waits = (dram == longest && most.dram < s->limit.dram) || (l2 == longest && most.l2 < s->limit.l2);
    *trips = start + longest > 0 ? (start + (waits ? longest : 0)) / (start + longest) : 0;
    return start + longest;
}

/* n CTAs of the batch come (n > 0) or go. */
static void change_demand(struct sim *s, int64_t batch, int64_t n)
{
    const struct grid_batch *b = &s->grid.batch[batch];
    double per_second = (double)n / s->alone[batch];
    s->running += n;
    s->sum.dram += b->dram * per_second;
    s->sum.l2 += b->l2 * per_second;
    s->sum.ops += b->ops * per_second;
    if (s->running == 0)
        s->sum = (struct demand){0}; /* no rounding stays behind */
}

static int64_t sm_share(const struct grid_batch *b)
{
    return FULL / b->resident;
}

/* Start CTAs of the batch, of which `done` have started, while there is room; returns how many have now. */
static int64_t start_batch(struct sim *s, int64_t batch, int64_t done)
{
    const struct grid_batch *b = &s->grid.batch[batch];
    struct flock f = {.end = s->progress + s->alone[batch], .cta = s->started, .batch = batch};
    int32_t slot, sm;
    while (done + f.n < b->n && (sm = sms_take(&s->sms, sm_share(b), &slot)) >= 0) {
        s->cta[s->started++] = (struct time_model_cta){
            .start = s->now,
            .dram = b->dram,
            .l2 = b->l2,
            .ops = b->ops,
            .group = b->group,
            .merge = b->merge,
            .tile = b->tile,
            .part = (int32_t)(done + f.n),
            .launch = b->launch,
            .sm = sm,
            .slot = slot,
            .resident = b->resident,
        };
        f.n++;
    }
    if (f.n > 0) {
        heap_push(s, f);
        change_demand(s, batch, f.n);
    }
    return done + f.n;
}

static void end_flock(struct sim *s, const struct flock *f)
{
    const struct grid_batch *b = &s->grid.batch[f->batch];
    for (int64_t i = f->cta; i < f->cta + f->n; i++) {
        s->cta[i].end = s->now;
        sms_give(&s->sms, sm_share(b), s->cta[i].sm, s->cta[i].slot);
    }
    change_demand(s, f->batch, -f->n);
}

/* ---- time --------------------------------------------------------------------------------------------- */

/* Speed of all running CTAs, 1 when they do not hinder each other. */
static double speed(const struct sim *s)
{
    double most = fmax(s->sum.dram / s->limit.dram, fmax(s->sum.l2 / s->limit.l2, s->sum.ops / s->limit.ops));
    return most > 1 ? 1 / most : 1;
}

static const double LOW_USE = 0.05; /* DeFT Table 14 */

/* Until the next CTAs end. Sums of shares x seconds go to *out until finish() divides them. */
static void advance(struct sim *s)
{
    struct time_model *c = s->out;
    double v = speed(s), dt = fmax(0, s->heap[0].end - s->progress) / v;
    double slots = (double)s->sms.load / (double)FULL, tensor = s->sum.ops * v / s->mc->tensor_flops;
    c->sm_use += s->sms.busy * dt;
    c->slot_use += slots * dt;
    c->low_share += s->attention && tensor < LOW_USE ? dt : 0;
    c->trip_s += v < 1 ? 0 : dt * s->trips[s->heap[0].batch];
    c->most_ctas = max_i64(c->most_ctas, s->running);
    if (s->spans && dt > 0) {
        c->span = xgrow(c->span, &s->cap_span, c->n_span + 1, sizeof *c->span);
        c->span[c->n_span++] = (struct time_model_span){
            .start = s->now,
            .end = s->now + dt,
            .dram = s->sum.dram * v / s->mc->bandwidth,
            .l2 = s->sum.l2 * v / s->mc->l2_bandwidth,
            .ops = tensor,
            .ctas = (int32_t)s->running,
            .sms = s->sms.busy,
        };
    }
    s->now += dt;
    s->progress = s->heap[0].end;
}

/* Ends that differ by no more than this, relatively, are one event: rounding must not decide who starts where. */
static const double SAME_TIME = 1e-10;

/* Batches first .. end, as one queue. */
static void run_queue(struct sim *s, int64_t batch, int64_t end)
{
    int64_t done = 0;
    s->progress = 0;
    while (batch < end || s->n_heap > 0) {
        while (batch < end && (done = start_batch(s, batch, done)) == s->grid.batch[batch].n) {
            batch++;
            done = 0;
        }
        advance(s);
        while (s->n_heap > 0 && s->heap[0].end <= s->progress * (1 + SAME_TIME)) {
            struct flock f = heap_pop(s);
            end_flock(s, &f);
        }
    }
}

/* ---- totals ------------------------------------------------------------------------------------------- */

/* Figures of a launch's CTAs by themselves. */
static double sum_launch(struct sim *s, int64_t first, int64_t end)
{
    struct time_model *c = s->out;
    double longest = 0, waves = 0;
    for (int64_t i = first; i < end; i++) {
        const struct grid_batch *b = &s->grid.batch[i];
        double n = (double)b->n;
        s->alone[i] = time_alone(s, b, &s->trips[i]);
        longest = fmax(longest, s->alone[i]);
        waves += n / ((double)b->resident * s->mc->sms);
        c->serial_s += n * s->alone[i];
        c->dram_bytes += n * b->dram;
        c->l2_bytes += n * b->l2;
        c->ops += n * b->ops;
        if (b->merge >= 0)
            c->feature[CLOCK_merge_s] += n * b->l2 / s->mc->bandwidth;
    }
    c->longest_s = fmax(c->longest_s, longest);
    c->feature[CLOCK_waves] += ceil(waves);
    return longest;
}

/* Launches first .. end, the first of them serial, the others concurrent with it. */
static void run_launches(struct sim *s, int32_t first, int32_t end)
{
    struct time_model *c = s->out;
    double longest = 0, began = s->now;
    int64_t b0 = s->grid.first[first], b1 = s->grid.first[end];
    for (int32_t l = first; l < end; l++)
        longest = fmax(longest, sum_launch(s, s->grid.first[l], s->grid.first[l + 1]));
    s->attention = b0 == b1 || s->grid.batch[b0].group >= 0;
    run_queue(s, b0, b1);
    c->feature[CLOCK_longest_s] += longest;
    c->feature[CLOCK_serial] += 1;
    c->feature[CLOCK_concurrent] += end - first - 1;
    *(s->attention ? &c->attention_s : &c->merge_s) += s->now - began;
}

static void finish(struct sim *s, double planning_s)
{
    struct time_model *c = s->out;
    const struct machine *mc = s->mc;
    double t = c->kernel_s = s->now;
    double per_second = t > 0 ? 1 / t : 0;
    c->ctas = s->grid.ctas;
    c->bandwidth_use = c->dram_bytes / mc->bandwidth * per_second;
    c->l2_use = c->l2_bytes / mc->l2_bandwidth * per_second;
    c->tensor_use = c->ops / mc->tensor_flops * per_second;
    c->sm_use *= per_second / mc->sms;
    c->slot_use *= per_second / mc->sms;
    c->low_share *= c->attention_s > 0 ? 1 / c->attention_s : 0;
    c->feature[CLOCK_one] = 1;
    c->feature[CLOCK_kernel_s] = t;
    c->feature[CLOCK_dram_s] = c->dram_bytes / mc->bandwidth;
    c->feature[CLOCK_l2_s] = c->l2_bytes / mc->l2_bandwidth;
    c->feature[CLOCK_ops_s] = c->ops / mc->tensor_flops;
    c->overhead_s = s->coefs->base;
    c->launch_s =
        (c->feature[CLOCK_serial] * s->coefs->launch + c->feature[CLOCK_concurrent] * s->coefs->concurrent) *
        mc->launch_ns * 1e-9;
    c->attention_s *= s->coefs->kernel;
    c->merge_s *= s->coefs->kernel;
    c->planning_s = planning_s;
    c->latency_s = c->overhead_s + c->launch_s + c->attention_s + c->merge_s + c->planning_s;
}

struct time_model time_model_plan(const struct plan *p, const struct heads *heads, const struct machine *mc,
                                  const struct time_model_coefs *coefs, double planning_s, int want)
{
    struct time_model c = {0};
    struct sim s = {
        .mc = mc,
        .coefs = coefs,
        .grid = grid_of(p, heads, mc, &(struct grid_kernel){coefs->stages, coefs->unseen}),
        .sms = sms_new(mc->sms),
        .limit = {mc->bandwidth * coefs->bandwidth, mc->l2_bandwidth * coefs->l2,
                  mc->tensor_flops * coefs->tensor},
        .out = &c,
        .spans = want == CLOCK_TIMELINE,
    };
    s.alone = xcalloc((size_t)s.grid.n, sizeof *s.alone);
    s.trips = xcalloc((size_t)s.grid.n, sizeof *s.trips);
    s.cta = xmalloc((size_t)s.grid.ctas * sizeof *s.cta);
    for (int32_t l = 0, end; l < p->n_launches; l = end) {
        for (end = l + 1; end < p->n_launches && p->launch[end].order == LAUNCH_CONCURRENT; end++)
            ;
        run_launches(&s, l, end);
    }
    CK(s.started == s.grid.ctas);
    finish(&s, planning_s);
    if (want == CLOCK_TIMELINE) {
        c.cta = s.cta;
        c.n_cta = s.started;
    } else {
        free(s.cta);
    }
    free(s.alone);
    free(s.trips);
    free(s.heap);
    sms_free(&s.sms);
    grid_free(&s.grid);
    return c;
}

void time_model_free(struct time_model *c)
{
    free(c->cta);
    free(c->span);
}

/* ---- print -------------------------------------------------------------------------------------------- */

void time_model_print_ctas(FILE *f, const struct time_model *c)
{
    fprintf(f, "launch,sm,slot,start_us,end_us,group,tile,part,merge,dram_bytes,bytes,ops\n");
    for (int64_t i = 0; i < c->n_cta; i++) {
        const struct time_model_cta *x = &c->cta[i];
        fprintf(f,
                "%" PRId32 ",%" PRId32 ",%" PRId32 ",%.6f,%.6f,%" PRId64 ",%" PRId32 ",%" PRId32 ",%" PRId64
                ",%.0f,%.0f,%.0f\n",
                x->launch, x->sm, x->slot, 1e6 * x->start, 1e6 * x->end, x->group, x->tile, x->part, x->merge,
                x->dram, x->l2, x->ops);
    }
}

void time_model_print_spans(FILE *f, const struct time_model *c)
{
    fprintf(f, "start_us,end_us,ctas,sms,bandwidth_use,l2_use,tensor_use\n");
    for (int64_t i = 0; i < c->n_span; i++) {
        const struct time_model_span *x = &c->span[i];
        fprintf(f, "%.6f,%.6f,%" PRId32 ",%" PRId32 ",%.4f,%.4f,%.4f\n", 1e6 * x->start, 1e6 * x->end,
                x->ctas, x->sms, x->dram, x->l2, x->ops);
    }
}
