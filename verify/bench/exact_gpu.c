/* exact_gpu.c - the data of one tree on a card, the exact answer for it, and who judges by that. */
#include "verify/bench/bench_gpu.h"

#include "kernels/cuda/host/exact.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_ROWS = 16 };
/* Series of the generator. */
enum { SERIES_Q = 1, SERIES_K, SERIES_V, SERIES_PAGES, SERIES_SAMPLE };

/* Device memory for n bytes with what the host has there. */
static void *put(const void *host, int64_t bytes, struct err *e)
{
    void *dev = gpu_alloc(bytes, e);
    if (dev && gpu_upload(dev, host, bytes, e))
        return dev;
    gpu_free(dev);
    return NULL;
}

/* Scales that make K and V about what they are in 16 bits; not powers of two, and not the same. */
static bool put_scales(struct gpu_data *x, struct err *e)
{
    struct problem *p = x->p;
    for (int32_t h = 0; h < p->heads.h_kv; h++) {
        p->k_scale[h] = 1.1f / GPU_RANDOM_FP8;
        p->v_scale[h] = 0.9f / GPU_RANDOM_FP8;
    }
    int64_t bytes = p->heads.h_kv * (int64_t)sizeof(float);
    return (x->k_scale = put(p->k_scale, bytes, e)) && (x->v_scale = put(p->v_scale, bytes, e));
}

bool gpu_data_draw(struct gpu_data *x, void *stream, struct err *e)
{
    struct problem *p = x->p;
    x->pool = p->n_pages * p->page_size * p->heads.h_kv * p->heads.d;
    int64_t elt = heads_elt_bytes(&p->heads), kv = heads_kv_bytes(&p->heads),
            rows = (int64_t)p->tree->n_queries * p->heads.h_q;
    p->page_table = pages_shuffled(p->n_pages, x->seed, SERIES_PAGES); /* longer than the table */
    return (x->q = gpu_alloc(rows * p->heads.d * elt, e)) && (x->k = gpu_alloc(x->pool * kv, e)) &&
           (x->v = gpu_alloc(x->pool * kv, e)) && (x->o = gpu_alloc(rows * p->heads.d * elt, e)) &&
           (x->lse = gpu_alloc(rows * (int64_t)sizeof(float), e)) &&
           (!heads_fp8(&p->heads) || put_scales(x, e)) &&
           (x->pages = put(p->page_table, p->page_off[p->tree->n_nodes] * (int64_t)sizeof(int32_t), e)) &&
           gpu_random(p->heads.dtype, x->q, rows * p->heads.d, x->seed, SERIES_Q, stream, e) &&
           gpu_random(heads_kv_dtype(&p->heads), x->k, x->pool, x->seed, SERIES_K, stream, e) &&
           gpu_random(heads_kv_dtype(&p->heads), x->v, x->pool, x->seed, SERIES_V, stream, e) && gpu_sync(e);
}

void gpu_data_free(struct gpu_data *x)
{
    void *all[] = {x->q, x->k, x->v, x->pages, x->o, x->lse, x->k_scale, x->v_scale};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        gpu_free(all[i]);
    oracle_free(x->truth);
}

/* The exact answer, computed on the card and fetched. */
static bool fetch_truth(struct gpu_data *x, void *stream, struct err *e)
{
    const struct problem *p = x->p;
    struct oracle *t = x->truth = oracle_alloc(p, false);
    int32_t n_q = p->tree->n_queries;
    int64_t *first = xcalloc((size_t)n_q + 1, sizeof *first);
    for (int32_t q = 0; q < n_q; q++)
        first[q + 1] = first[q] + t->ctx[q];
    int32_t *slot = xcalloc((size_t)first[n_q], sizeof *slot);
#pragma omp parallel for schedule(dynamic, 16)
    for (int32_t q = 0; q < n_q; q++) {
        int64_t *wide = xcalloc((size_t)t->ctx[q], sizeof *wide);
        problem_path_slots(p, q, t->ctx[q], wide);
        for (int64_t j = 0; j < t->ctx[q]; j++)
            slot[first[q] + j] = (int32_t)wide[j]; /* all of them fit a card's memory */
        free(wide);
    }
    int64_t row = t->n_rows * (int64_t)sizeof(double), all = row * t->d;
    double *host[] = {t->o, t->abs_o, t->rms_o, t->lse, t->logit, t->abs_dot}, *dev[6] = {NULL};
    void *d_first = put(first, (n_q + 1) * (int64_t)sizeof *first, e);
    void *d_slot = put(slot, first[n_q] * (int64_t)sizeof *slot, e);
    bool good = d_first && d_slot && gpu_sync(e); /* uploads may still be under way when they return */
    for (int i = 0; i < 6 && good; i++)
        good = (dev[i] = gpu_alloc(i < 3 ? all : row, e)) != NULL;
    good = good &&
           gpu_truth(&(struct gpu_truth){.n_queries = n_q,
                                         .heads = p->heads,
                                         .scale = p->scale,
                                         .q = x->q,
                                         .k = x->k,
                                         .v = x->v,
                                         .k_scale = x->k_scale,
                                         .v_scale = x->v_scale,
                                         .first = d_first,
                                         .slot = d_slot,
                                         .o = dev[0],
                                         .abs_o = dev[1],
                                         .rms_o = dev[2],
                                         .lse = dev[3],
                                         .logit = dev[4],
                                         .abs_dot = dev[5]},
                     stream, e) &&
           gpu_sync(e);
    for (int i = 0; i < 6; i++) {
        good = good && gpu_download(host[i], dev[i], i < 3 ? all : row, e);
        gpu_free(dev[i]);
    }
    gpu_free(d_first);
    gpu_free(d_slot);
    free(first);
    free(slot);
    return good;
}

/* Element i of a series as the card has it; of K and V in 8 bits with its scale. */
static double element(const struct gpu_data *x, int series, int64_t i)
{
    const struct problem *p = x->p;
    double v = rng_bell(x->seed, (uint64_t)series, (uint64_t)i);
    if (series != SERIES_Q && heads_fp8(&p->heads)) {
        double scale = (double)(series == SERIES_K ? p->k_scale : p->v_scale)[i / p->heads.d % p->heads.h_kv];
        v *= GPU_RANDOM_FP8;
        return scale * (p->heads.kv_fp8 == DT_E4M3 ? e4m3_to_double(e4m3_from_double(v))
                                                   : e5m2_to_double(e5m2_from_double(v)));
    }
    return x->p->heads.dtype == DT_F16 ? f16_to_double(f16_from_double(v))
                                       : bf16_to_double(bf16_from_double(v));
}

static bool near(double a, double b, double scale)
{
    return a == b || fabs(a - b) <= 1e-11 * scale; /* either sums at most 1e5 terms in double */
}

/* Row `row` once more, on the host, from the rule: softmax of all logits, then the weighted sum. */
static bool certify_row(const struct gpu_data *x, int64_t row)
{
    const struct problem *p = x->p;
    const struct oracle *t = x->truth;
    int32_t q = (int32_t)(row / p->heads.h_q), d = p->heads.d;
    int64_t ctx = t->ctx[q], head = row % p->heads.h_q / heads_gqa(&p->heads);
    int64_t *slot = xcalloc((size_t)ctx, sizeof *slot);
    double *logit = xcalloc((size_t)ctx, sizeof *logit), query[PROBLEM_MAX_D];
    double top = -INFINITY, sum = 0, largest = 0, mag = 0;
    problem_path_slots(p, q, ctx, slot);
    for (int32_t c = 0; c < d; c++)
        query[c] = element(x, SERIES_Q, row * d + c);
    for (int64_t j = 0; j < ctx; j++) {
        double dot = 0, size = 0;
        for (int32_t c = 0; c < d; c++) {
            double y = query[c] * element(x, SERIES_K, (slot[j] * p->heads.h_kv + head) * d + c);
            dot += y;
            size += fabs(y);
        }
        logit[j] = p->scale * dot;
        top = fmax(top, logit[j]);
        largest = fmax(largest, fabs(logit[j]));
        mag = fmax(mag, p->scale * size);
    }
    double o[PROBLEM_MAX_D] = {0}, abs_o[PROBLEM_MAX_D] = {0}, sq_o[PROBLEM_MAX_D] = {0};
    for (int64_t j = 0; j < ctx; j++)
        sum += exp(logit[j] - top);
    for (int64_t j = 0; j < ctx; j++)
        for (int32_t c = 0; c < d; c++) {
            double y =
                exp(logit[j] - top) / sum * element(x, SERIES_V, (slot[j] * p->heads.h_kv + head) * d + c);
            o[c] += y;
            abs_o[c] += fabs(y);
            sq_o[c] += y * y;
        }
    double lse = ctx > 0 ? top + log(sum) : -INFINITY;
    bool good = near(t->lse[row], lse, 1 + fabs(lse)) && near(t->logit[row], largest, mag) &&
                near(t->abs_dot[row], mag, mag);
    for (int32_t c = 0; c < d && good; c++)
        good = near(t->o[row * d + c], o[c], abs_o[c]) && near(t->abs_o[row * d + c], abs_o[c], abs_o[c]) &&
               near(t->rms_o[row * d + c], sqrt(sq_o[c]), abs_o[c]);
    free(slot);
    free(logit);
    return good;
}

static bool certify(const struct gpu_data *x, struct err *e)
{
    bool good = true;
    int64_t n = x->truth->n_rows;
#pragma omp parallel for schedule(dynamic, 1) reduction(&& : good)
    for (int64_t i = 0; i < min_i64(SAMPLE_ROWS, n); i++)
        good = good && certify_row(x, i == 0   ? 0
                                      : i == 1 ? n - 1
                                               : rng_below(x->seed, SERIES_SAMPLE, (uint64_t)i, n));
    return good ||
           err_set(e, "the exact answer computed on the GPU is not the host's: nothing can be judged by it");
}

bool gpu_exact(struct gpu_data *x, void *stream, struct err *e)
{
    return fetch_truth(x, stream, e) && certify(x, e);
}

enum verdict gpu_exact_compare(const struct gpu_data *x, const struct output *out, const struct arithmetic *a,
                               double *worst, char why[256])
{
    const struct problem *p = x->p;
    const struct oracle *t = x->truth;
    int32_t n_q = p->tree->n_queries, step = 1 + 512 / p->heads.h_q;
    enum verdict verdict = V_PASS;
#pragma omp parallel for schedule(dynamic, 1)
    for (int32_t q = 0; q < n_q; q += step) {
        int64_t row = (int64_t)q * p->heads.h_q, at = row * p->heads.d;
        struct tree some = {.n_queries = (int32_t)min_i64(step, n_q - q)};
        struct problem part = *p;
        part.tree = &some;
        struct oracle want = {.n_rows = (int64_t)some.n_queries * p->heads.h_q,
                              .d = p->heads.d,
                              .o = t->o + at,
                              .abs_o = t->abs_o + at,
                              .rms_o = t->rms_o + at,
                              .lse = t->lse + row,
                              .logit = t->logit + row,
                              .abs_dot = t->abs_dot + row,
                              .ctx = t->ctx + q};
        struct output got = {.dtype = out->dtype,
                             .n_rows = want.n_rows,
                             .d = out->d,
                             .o = (char *)out->o + at * dtype_size[out->dtype],
                             .lse = (float *)out->lse + row};
        struct comparison c = compare_output(&part, &want, &got, a);
#pragma omp critical(treeattn_bench_gpu)
        {
            if (c.verdict > verdict) {
                verdict = c.verdict;
                snprintf(why, 256, "queries %" PRId32 "..: %.200s", q, c.why);
            }
            *worst = fmax(*worst, c.worst);
        }
    }
    return verdict;
}
