#include "kernels/decode/decode.h"
#include "kernels/decode/decode_cards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct decoder_type *const decoder_types[] = {&decoder_cpu, &decoder_cuda, NULL};

const struct decoder_type *decoder_type_find(const char *name, struct err *e)
{
    for (int32_t i = 0; decoder_types[i]; i++)
        if (strcmp(decoder_types[i]->name, name) == 0)
            return decoder_types[i];
    err_set(e, "unknown decoder '%.60s' (there are cpu and cuda)", name);
    return NULL;
}

char *decoder_cards_name(const struct decoder_spec *s, const char *card, char out[DECODER_CARDS_NAME])
{
    char which[24] = "";
    if (s->alone)
        snprintf(which, sizeof which, "card %" PRId32 " of ", s->rank);
    if (decoder_cards(s) > 1)
        snprintf(out, DECODER_CARDS_NAME, "%s%" PRId32 " x %.60s, %s", which, s->n_cards, card,
                 parallel_name[s->parallel]);
    else
        snprintf(out, DECODER_CARDS_NAME, "%.60s", card);
    return out;
}

struct heads_part decoder_heads(const struct decoder_spec *s)
{
    struct heads all = model_heads(s->model, s->dtype);
    struct heads_part part = {.n_q = all.h_q, .n_kv = all.h_kv};
    if (s->card)
        CK(cards_heads(&all, s->parallel, s->n_cards, s->rank, &part, NULL));
    return part;
}

struct heads_part decoder_outputs(const struct decoder_spec *s)
{
    int32_t n = decoder_share(s, s->model->h_q);
    return (struct heads_part){.q0 = s->card ? s->rank * n : 0, .n_q = n};
}

struct weight_part decoder_weight(const struct decoder_spec *s, enum weight w)
{
    const struct model *m = s->model;
    struct weight_spec all = model_weight(m, w);
    struct weight_part p = {.whole = all, .rows = all.rows, .cols = all.cols, .n = 1, .n_rows = {all.rows}};
    struct heads_part h = decoder_heads(s), o = decoder_outputs(s);
    int64_t d = m->d, ffn = decoder_share(s, m->ffn), words = decoder_share(s, m->vocab);
    switch (w) {
    case W_QKV:
        p.n = 3;
        p.rows = (h.n_q + 2 * (int64_t)h.n_kv) * d;
        p.row0[0] = h.q0 * d;
        p.n_rows[0] = h.n_q * d;
        for (int32_t i = 1; i < 3; i++) {
            p.row0[i] = (m->h_q + (int64_t)(i - 1) * m->h_kv + h.kv0) * d;
            p.n_rows[i] = h.n_kv * d;
        }
        break;
    case W_O:
        p.col = o.q0 * d;
        p.cols = o.n_q * d;
        break;
    case W_GATE_UP:
        p.n = 2;
        p.rows = 2 * ffn;
        for (int32_t i = 0; i < 2; i++) {
            p.row0[i] = (int64_t)i * m->ffn + (s->card ? s->rank * ffn : 0);
            p.n_rows[i] = ffn;
        }
        break;
    case W_DOWN:
        p.col = s->card ? s->rank * ffn : 0;
        p.cols = ffn;
        break;
    case W_HEAD:
        p.rows = p.n_rows[0] = words;
        p.row0[0] = s->card ? s->rank * words : 0;
        break;
    default:
        break;
    }
    return p;
}

struct decoder_bytes decoder_bytes(const struct decoder_spec *s)
{
    const struct model *m = s->model;
    struct heads_part h = decoder_heads(s);
    int64_t n = s->max_queries, qkv = ((int64_t)h.n_q + 2 * h.n_kv) * m->d, q = (int64_t)h.n_q * m->d,
            weights = 0;
    for (int w = 0; w < N_WEIGHTS; w++) {
        struct weight_part x = decoder_weight(s, (enum weight)w);
        weights += x.rows * x.cols * (x.whole.per_layer ? m->layers : 1) * dtype_size[s->dtype];
    }
    return (struct decoder_bytes){
        .weights = weights,
        .pool = 2 * m->layers * decoder_layer_elements(s) * dtype_size[s->dtype],
        /* residual stream and logits in f32, the rest as stored: input of a product, its result, Q and O, both halves of
         * the MLP */
        .rest = n * (4 * ((int64_t)m->hidden + m->vocab) +
                     dtype_size[s->dtype] * (2 * (int64_t)m->hidden + qkv + 2 * q + 3 * (int64_t)m->ffn)),
    };
}

void decoder_several_gpus(void)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

struct decoder *decoder_open(const struct decoder_type *type, const struct decoder_spec *s, struct err *e)
{
    CK(s->page_size > 0 && s->n_pages > 0 && s->max_queries > 0);
    if (type->ready && !type->ready(e))
        return NULL;
    if (decoder_cards(s) > 1 && !s->card)
        return decoder_cards_open(type, s, e);
    struct decoder *d = type->open(s, e);
    if (d) {
        d->type = type;
        d->spec = *s;
    }
    return d;
}

void decoder_close(struct decoder *d)
{
    if (d)
        d->type->close(d);
}

bool decoder_step(struct decoder *d, const struct decode_step *s, struct err *e)
{
    const struct model *m = d->spec.model;
    const struct problem *p = s->p;
    CK(p->tree->n_queries > 0 && p->tree->n_queries <= d->spec.max_queries);
    struct heads heads = model_heads(m, d->spec.dtype);
    heads.h_q = decoder_heads(&d->spec).n_q;
    heads.h_kv = decoder_heads(&d->spec).n_kv;
    CK(heads_equal(&p->heads, &heads));
    CK(p->page_size == d->spec.page_size && p->n_pages == d->spec.n_pages);
    for (int32_t q = 0; q < p->tree->n_queries; q++) {
        CK(s->token[q] >= 0 && s->token[q] < m->vocab && s->position[q] >= 0);
        CK(s->slot[q] >= 0 && s->slot[q] < p->n_pages * p->page_size);
    }
    CK(d->under_way < DECODE_AHEAD);
    d->n = p->tree->n_queries;
    bool good = d->type->step(d, s, e);
    d->under_way += good;
    return good;
}

bool decoder_finish(struct decoder *d, struct err *e)
{
    return d->under_way == 0 || !d->type->finish || d->type->finish(d, e);
}

bool decoder_wait(struct decoder *d, struct decode_time *t, struct err *e)
{
    struct decode_time unused;
    CK(d->under_way > 0);
    d->under_way--;
    return d->type->wait(d, t ? t : &unused, e);
}

static void check_slots(const struct decoder *d, int64_t n, const int64_t *slot)
{
    for (int64_t i = 0; i < n; i++)
        CK(slot[i] >= 0 && slot[i] < d->spec.n_pages * d->spec.page_size);
}

bool decoder_move(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    check_slots(d, n, from);
    check_slots(d, n, to);
    return n == 0 || d->type->move(d, n, from, to, e);
}

bool decoder_copy(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    check_slots(d, n, from);
    check_slots(d, n, to);
    return n == 0 || d->type->copy(d, n, from, to, e);
}

bool decoder_fill(struct decoder *d, int64_t first, int64_t n, struct err *e)
{
    CK(first >= 0 && n >= 0 && first + n <= d->spec.n_pages * d->spec.page_size);
    return n == 0 || d->type->fill(d, first, n, e);
}

bool decoder_logits(struct decoder *d, double *out, struct err *e)
{
    CK(d->n > 0 && d->under_way == 0);
    return d->type->logits(d, out, d->n, e);
}

bool decoder_kept(struct decoder *d, int32_t layer, void *q, void *o, double *lse, struct err *e)
{
    CK(layer >= 0 && layer < d->spec.model->layers && d->n > 0 && d->under_way == 0);
    return d->type->kept(d, layer, d->n, q, o, lse, e);
}

bool decoder_kv(struct decoder *d, int32_t layer, int64_t first, int64_t n, void *k, void *v, struct err *e)
{
    CK(layer >= 0 && layer < d->spec.model->layers);
    CK(first >= 0 && n >= 0 && first + n <= d->spec.n_pages * d->spec.page_size);
    return n == 0 || d->type->kv(d, layer, first, n, k, v, e);
}
