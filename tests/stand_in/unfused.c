/*
 * unfused.c - the kernels of plans whose scores are materialised, one stage after the other. Memory is as launch.h lays it out:
 * scores in fp32, probabilities in the storage type, O in parts.
 */
#include "tests/stand_in/item.h"
#include "tests/stand_in/stand_in.h"

#include <math.h>
#include <string.h>

struct unfused_work {
    struct unfused_args u;
    enum dtype t;
    enum unfused_stage stage;
    enum skinny_product product;
};

/* Probabilities are stored times 2^bias. */
static double bias_of(enum dtype t)
{
    return t == DT_F16 ? 0x1p15 : 1;
}

static void gather(const struct unfused_work *w)
{
    const struct unfused_args *u = &w->u;
    size_t token = (size_t)(u->a.h_kv * u->d * 2), row = (size_t)u->d * 2;
    for (int64_t i = 0; i < u->n_blocks; i++) {
        const struct unfused_block *b = &u->block[i];
        const struct cuda_item *it = &u->a.item[b->item];
        for (int32_t t = b->token, run; t < b->token + UNFUSED_TOKENS && t < it->n_kv; t++) {
            size_t from = (size_t)item_token(&u->a, it, t, &run) * token,
                   to = (size_t)(b->to + t - b->token) * token;
            memcpy((char *)u->k + to, (const char *)u->a.k + from, token);
            memcpy((char *)u->v + to, (const char *)u->a.v + from, token);
        }
    }
    for (int64_t i = 0; i < u->n_rows; i++) {
        const struct unfused_row *r = &u->row[i];
        struct place p = item_row(&u->a, &u->a.item[r->item], r->kv_head, r->row);
        memcpy((char *)u->q + (size_t)i * row,
               (const char *)u->a.q + (size_t)(p.query * u->a.h_q + p.head) * row, row);
    }
}

static void scale(const struct unfused_args *u, float *score, int32_t n)
{
    for (int32_t t = 0; t < n; t++) {
        double x = (double)score[t];
        score[t] = (float)((double)u->scale * (u->a.cap_scale != 0 ? tanh(x * (double)u->a.cap_scale) : x));
    }
}

static void mask(const struct unfused_args *u, const struct unfused_row *r)
{
    const struct cuda_item *it = &u->a.item[r->item];
    for (int32_t t = 0, run; t < it->n_kv; t++) {
        item_token(&u->a, it, t, &run);
        if (!item_sees(&u->a, it, (it->row0 + r->row) / u->a.gqa, run))
            u->score[r->score + t] = -INFINITY;
    }
}

/* Behind the tokens there are zeros, up to ld. */
static void softmax(const struct unfused_work *w, int64_t i)
{
    const struct unfused_args *u = &w->u;
    const struct unfused_row *r = &u->row[i];
    double max = -INFINITY, sum = 0;
    for (int32_t t = 0; t < r->n; t++)
        max = fmax(max, (double)u->score[r->score + t]);
    for (int32_t t = 0; t < r->ld; t++) {
        double score = t < r->n ? (double)u->score[r->score + t] : -INFINITY;
        double p = score == -INFINITY ? 0 : exp(score - max);
        sum += p;
        dtype_store(w->t, u->probability, r->score + t, p * bias_of(w->t));
    }
    u->max[i] = (float)max;
    u->sum[i] = (float)sum;
}

/* Writes O, the sum of its parts. */
static void store(const struct unfused_work *w, int64_t i)
{
    const struct unfused_args *u = &w->u;
    const struct unfused_row *r = &u->row[i];
    const struct cuda_item *it = &u->a.item[r->item];
    struct place p = item_row(&u->a, it, r->kv_head, r->row);
    struct row row = {.max = (double)u->max[i] * M_LOG2E, .sum = (double)u->sum[i]};
    for (int32_t part = 0; part < r->parts; part++)
        for (int32_t c = 0; c < u->d; c++)
            row.o[c] += (double)u->o[(r->o + (int64_t)part * r->next) * u->d + c] / bias_of(w->t);
    item_store(&u->a, w->t, u->d, it, &p, &row);
}

static void run_stage(const void *args)
{
    const struct unfused_work *w = args;
    if (w->stage == UNFUSED_GATHER)
        gather(w);
    for (int64_t i = 0; i < w->u.n_rows && w->stage != UNFUSED_GATHER; i++) {
        const struct unfused_row *r = &w->u.row[i];
        if (w->stage == UNFUSED_SCALE)
            scale(&w->u, w->u.score + r->score, r->n);
        else if (w->stage == UNFUSED_MASK)
            mask(&w->u, r);
        else if (w->stage == UNFUSED_SOFTMAX)
            softmax(w, i);
        else
            store(w, i);
    }
}

int cuda_launch_unfused(const struct cuda_shape *s, const struct unfused_args *u, enum unfused_stage stage,
                        void *stream)
{
    static const char kernel[UNFUSED_STORE + 1];
    struct unfused_work w = {.u = *u, .t = s->t == CUDA_F16 ? DT_F16 : DT_BF16, .stage = stage};
    return stand_in_launch("kernel between products", &kernel[stage], run_stage, &w, sizeof w, false, stream);
}

/* ---- products of few rows ----------------------------------------------------------------------------------- */

/* A block of tokens and a KV head; probabilities and scores of the group lie [h_kv][rows][ld]. */
static void run_block(const struct unfused_work *w, const struct skinny_block *b, int32_t head)
{
    const struct unfused_args *u = &w->u;
    const struct cuda_item *it = &u->a.item[b->item];
    int32_t d = u->d, run;
    CK(it->n_rows <= u->most_rows && u->most_rows <= SKINNY_ROWS && b->end <= it->n_kv);
    for (int32_t r = 0; r < it->n_rows; r++) {
        struct place p = item_row(&u->a, it, head, r);
        int64_t score = b->score + ((int64_t)head * it->n_rows + r) * b->ld;
        float q[MOST_D], x[MOST_D];
        double o[MOST_D] = {0};
        dtype_to_float(w->t, u->a.q, (p.query * u->a.h_q + p.head) * d, q, d);
        for (int32_t t = b->token; t < b->end; t++) {
            int64_t from = (item_token(&u->a, it, t, &run) * u->a.h_kv + head) * d;
            double dot = 0,
                   weight = w->product == SKINNY_PV ? dtype_load(w->t, u->probability, score + t) : 0;
            dtype_to_float(w->t, w->product == SKINNY_QK ? u->a.k : u->a.v, from, x, d);
            for (int32_t c = 0; c < d; c++) {
                dot += (double)q[c] * (double)x[c];
                o[c] += weight * (double)x[c];
            }
            if (w->product == SKINNY_QK)
                u->score[score + t] = (float)dot;
        }
        for (int32_t c = 0; c < d && w->product == SKINNY_PV; c++)
            u->o[(b->o + (int64_t)head * it->n_rows + r) * d + c] = (float)o[c];
    }
}

static void run_skinny(const void *args)
{
    const struct unfused_work *w = args;
#pragma omp parallel for
    for (int64_t i = 0; i < w->u.n_skinny; i++)
        for (int32_t h = 0; h < w->u.a.h_kv; h++)
            run_block(w, &w->u.skinny[i], h);
}

int cuda_launch_skinny(const struct cuda_shape *s, const struct unfused_args *u, enum skinny_product product,
                       void *stream)
{
    static const char kernel[SKINNY_PV + 1];
    struct unfused_work w = {.u = *u, .t = s->t == CUDA_F16 ? DT_F16 : DT_BF16, .product = product};
    return stand_in_launch("skinny product", &kernel[product], run_skinny, &w, sizeof w, false, stream);
}
