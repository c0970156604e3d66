#include "ref/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pairs of a row and a token: with fewer, starting threads takes longer than the sums. */
enum { WORTH_THREADS = 20000 };
/* Terms that are summed one by one before their sum is added to the whole. Equal terms round the same way, so that in one long sum
 * their errors would add up: f64 sees that. */
enum { BLOCK = 64 };

/* Scratch of one thread: logits of the g heads that share a KV head, a row of K or V, the queries. */
struct scratch {
    double *logit;      /* [g][ctx] */
    double *row;        /* [d] */
    double *low, *high; /* [d] of V so far */
    double *q;          /* [g][d] */
    double *o;          /* [g][d] of the block */
    int64_t *slot;      /* [ctx] root first */
};

/* The g rows of one query that share KV head h. */
static void attend(const struct problem *p, struct oracle *orc, int32_t q, int32_t h, struct scratch *s)
{
    int32_t d = p->heads.d, d_v = heads_d_v(&p->heads), g = heads_gqa(&p->heads);
    int64_t ctx = orc->ctx[q], first_row = (int64_t)q * p->heads.h_q + (int64_t)h * g;
    problem_path_slots(p, q, ctx, s->slot);
    dtype_to_double(p->heads.dtype, p->q, first_row * d, s->q, (int64_t)g * d);

    for (int64_t j = 0; j < ctx; j++) {
        problem_k_row(p, s->slot[j], h, s->row);
        for (int32_t i = 0; i < g; i++) {
            const double *qi = s->q + (int64_t)i * d, *k = s->row;
            double dot = 0, mag = 0;
#pragma omp simd reduction(+ : dot, mag)
            for (int32_t c = 0; c < d; c++) {
                dot += qi[c] * k[c];
                mag += fabs(qi[c] * k[c]);
            }
            double logit = problem_logit(p, dot);
            s->logit[i * ctx + j] = logit;
            orc->logit[first_row + i] = max_f64(orc->logit[first_row + i], fabs(logit));
            orc->abs_dot[first_row + i] = max_f64(orc->abs_dot[first_row + i], p->scale * mag);
        }
    }

    for (int32_t i = 0; i < g; i++) { /* full softmax: logits become probabilities */
        double sink = problem_sink(p, h * g + i);
        double *l = s->logit + i * ctx, top = sink, second = -INFINITY, sum = 0;
        for (int64_t j = 0; j < ctx; j++) {
            second = max_f64(second, min_f64(top, l[j]));
            top = max_f64(top, l[j]);
        }
        orc->gap[first_row + i] = ctx + orc->sinks > 1 ? top - second : INFINITY;
        for (int64_t j0 = 0; j0 < ctx; j0 += BLOCK) {
            double part = 0;
            for (int64_t j = j0; j < min_i64(ctx, j0 + BLOCK); j++)
                part += l[j] = exp(l[j] - top);
            sum += part;
        }
        sum += orc->sinks ? exp(sink - top) : 0;
        for (int64_t j = 0; j < ctx; j++)
            l[j] /= sum;
        orc->lse[first_row + i] = ctx > 0 ? top + log(sum) : sink;
    }

    for (int32_t c = 0; c < d_v; c++) {
        s->low[c] = orc->sinks ? 0 : INFINITY;
        s->high[c] = orc->sinks ? 0 : -INFINITY;
    }
    memset(s->o, 0, (size_t)g * (size_t)d_v * sizeof *s->o);
    for (int64_t j = 0; j < ctx; j++) {
        bool full = j % BLOCK == BLOCK - 1 || j == ctx - 1;
        problem_v_row(p, s->slot[j], h, s->row);
        for (int32_t c = 0; c < d_v; c++) {
            s->low[c] = min_f64(s->low[c], s->row[c]);
            s->high[c] = max_f64(s->high[c], s->row[c]);
        }
        for (int32_t i = 0; i < g; i++) {
            double pj = s->logit[i * ctx + j];
            int64_t to = (first_row + i) * d_v;
            double *restrict o = s->o + (int64_t)i * d_v, *restrict all = orc->o + to,
                             *restrict abs_o = orc->abs_o + to, *restrict rms_o = orc->rms_o + to;
            for (int32_t c = 0; c < d_v; c++) {
                double part = pj * s->row[c];
                o[c] += part;
                abs_o[c] += fabs(part);
                rms_o[c] += part * part;
            }
            for (int32_t c = 0; c < d_v && full; c++) {
                all[c] += o[c];
                o[c] = 0;
            }
        }
    }
    for (int64_t c = first_row * d_v; c < (first_row + g) * d_v; c++)
        orc->rms_o[c] = sqrt(orc->rms_o[c]);
    for (int64_t c = 0; c < (int64_t)g * d_v && ctx > 0; c++) {
        orc->range_o[first_row * d_v + c] = s->high[c % d_v] - s->low[c % d_v];
        orc->max_v[first_row * d_v + c] = max_f64(-s->low[c % d_v], s->high[c % d_v]);
    }
}

struct oracle *oracle_alloc(const struct problem *p, bool margins)
{
    struct oracle *orc = xcalloc(1, sizeof *orc);
    size_t n_q = (size_t)p->tree->n_queries, rows = n_q * (size_t)p->heads.h_q,
           all = rows * (size_t)heads_d_v(&p->heads);
    *orc = (struct oracle){.n_rows = (int64_t)rows,
                           .d = heads_d_v(&p->heads),
                           .o = xcalloc(all, sizeof(double)),
                           .abs_o = xcalloc(all, sizeof(double)),
                           .rms_o = xcalloc(all, sizeof(double)),
                           .range_o = margins ? xcalloc(all, sizeof(double)) : NULL,
                           .max_v = margins ? xcalloc(all, sizeof(double)) : NULL,
                           .gap = margins ? xcalloc(rows, sizeof(double)) : NULL,
                           .lse = xcalloc(rows, sizeof(double)),
                           .logit = xcalloc(rows, sizeof(double)),
                           .abs_dot = xcalloc(rows, sizeof(double)),
                           .ctx = xcalloc(n_q, sizeof *orc->ctx),
                           .capped = p->soft_cap > 0,
                           .sinks = p->sink != NULL};
    tree_contexts(p->tree, orc->ctx);
    return orc;
}

struct oracle *oracle_new(const struct problem *p)
{
    struct oracle *orc = oracle_alloc(p, true);
    int32_t n_q = p->tree->n_queries, g = heads_gqa(&p->heads);
    int64_t longest = 0;
    for (int32_t q = 0; q < n_q; q++)
        longest = max_i64(longest, orc->ctx[q]);
#pragma omp parallel if (longest * orc->n_rows >= WORTH_THREADS)
    {
        struct scratch s = {
            .logit = xcalloc((size_t)longest * (size_t)g, sizeof(double)),
            .row = xaligned((size_t)p->heads.d, sizeof(double)),
            .low = xaligned((size_t)p->heads.d, sizeof(double)),
            .high = xaligned((size_t)p->heads.d, sizeof(double)),
            .q = xaligned((size_t)g * (size_t)p->heads.d, sizeof(double)),
            .o = xaligned((size_t)g * (size_t)p->heads.d, sizeof(double)),
            .slot = xcalloc((size_t)longest, sizeof(int64_t)),
        };
#pragma omp for schedule(dynamic, 4)
        for (int64_t i = 0; i < (int64_t)n_q * p->heads.h_kv; i++)
            attend(p, orc, (int32_t)(i / p->heads.h_kv), (int32_t)(i % p->heads.h_kv), &s);
        free(s.logit);
        free(s.row);
        free(s.low);
        free(s.high);
        free(s.q);
        free(s.o);
        free(s.slot);
    }
    return orc;
}

void oracle_free(struct oracle *orc)
{
    if (!orc)
        return;
    free(orc->o);
    free(orc->abs_o);
    free(orc->rms_o);
    free(orc->range_o);
    free(orc->max_v);
    free(orc->gap);
    free(orc->lse);
    free(orc->logit);
    free(orc->abs_dot);
    free(orc->ctx);
    free(orc);
}
