#include "kernels/decode/decode.h"

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

struct decoder_bytes decoder_bytes(const struct decoder_spec *s)
{
    const struct model *m = s->model;
    int64_t n = s->max_queries, qkv = ((int64_t)m->h_q + 2 * m->h_kv) * m->d, q = (int64_t)m->h_q * m->d;
    return (struct decoder_bytes){
        .weights = model_weight_bytes(m, s->dtype),
        .pool = s->n_pages * s->page_size * model_kv_bytes(m, s->dtype),
        /* residual stream and logits in f32, the rest as stored: input of a product, its result, Q and O, both halves of
         * the MLP */
        .rest = n * (4 * ((int64_t)m->hidden + m->vocab) +
                     dtype_size[s->dtype] * (2 * (int64_t)m->hidden + qkv + 2 * q + 3 * (int64_t)m->ffn)),
    };
}

struct decoder *decoder_open(const struct decoder_type *type, const struct decoder_spec *s, struct err *e)
{
    CK(s->page_size > 0 && s->n_pages > 0 && s->max_queries > 0);
    if (type->ready && !type->ready(e))
        return NULL;
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
