/* card_limits.c - what a card can do, what a tree cannot do without, and how both are timed. */
#include "verify/bench/bench_gpu.h"

#include "kernels/cuda/host/exact.h"

#include <math.h>
#include <stdlib.h>

#define LIMIT_BYTES (INT64_C(16) << 30)
enum { LIMIT_REPS = 20, LIMIT_SIDE = 8192 };
#define LIMIT_MATRIX ((int64_t)LIMIT_SIDE * LIMIT_SIDE * 2) /* bytes */
enum { LIMIT_SERIES = 2 };                                  /* of the generator */

bool gpu_time_each(gpu_action *before, gpu_action *timed, void *of, int64_t n, void *stream, double *us,
                   struct err *e)
{
    void **event = xcalloc((size_t)n * 2, sizeof *event);
    bool good = true;
    for (int64_t i = 0; i < 2 * n && good; i++)
        good = (event[i] = gpu_event_new(e)) != NULL;
    for (int64_t i = 0; i < n && good; i++)
        good = (!before || before(of, i, stream, e)) && gpu_event_record(event[2 * i], stream, e) &&
               timed(of, i, stream, e) && gpu_event_record(event[2 * i + 1], stream, e);
    good = gpu_sync(e) && good;
    for (int64_t i = 0; i < n && good; i++)
        good = gpu_event_us(event[2 * i], event[2 * i + 1], &us[i], e);
    for (int64_t i = 0; i < 2 * n; i++)
        gpu_event_free(event[i]);
    free(event);
    return good;
}

bool gpu_do_read(void *of, int64_t turn, void *stream, struct err *e)
{
    struct gpu_span *r = of;
    (void)turn;
    return gpu_read(r->way, r->from, r->bytes, r->to, stream, e);
}

static bool do_copy(void *of, int64_t turn, void *stream, struct err *e)
{
    struct gpu_span *r = of;
    (void)turn;
    return gpu_copy(r->to, r->from, r->bytes / 2, stream, e);
}

static bool do_product(void *of, int64_t turn, void *stream, struct err *e)
{
    struct gpu_span *r = of;
    (void)turn;
    return gpu_gemm(DT_BF16, LIMIT_SIDE, r->from, r->from + LIMIT_MATRIX, r->to, stream, e);
}

/* The fastest: a limit is what the card was seen to do. */
static bool fastest_of(gpu_action *what, struct gpu_span *r, void *stream, double *us, struct err *e)
{
    double all[LIMIT_REPS];
    if (!gpu_time_each(NULL, what, r, 3, stream, all, e) || /* warm */
        !gpu_time_each(NULL, what, r, LIMIT_REPS, stream, all, e))
        return false;
    *us = gpu_time_of(all, LIMIT_REPS).min_us;
    return true;
}

/* Of the fastest way to read; the difference of two sizes, as what a launch costs is in both. */
static bool measure_read(const struct gpu_span *all, void *stream, double *bps, struct err *e)
{
    struct gpu_span whole = *all, eighth = *all;
    double us, part, best = INFINITY;
    eighth.bytes /= 8;
    for (whole.way = 0; whole.way < GPU_READ_WAYS; whole.way++) {
        if (!fastest_of(gpu_do_read, &whole, stream, &us, e))
            return false;
        if (us < best) {
            best = us;
            eighth.way = whole.way;
        }
    }
    if (!fastest_of(gpu_do_read, &eighth, stream, &part, e))
        return false;
    *bps = (double)(whole.bytes - eighth.bytes) / fmax(best - part, 1e-3) * 1e6;
    return true;
}

bool gpu_limits_measure(struct gpu_limits *x, struct err *e)
{
    struct cuda_caps c;
    double read, copy, product;
    if (!cuda_caps(&c, e))
        return false;
    struct gpu_span r = {.bytes = min_i64(LIMIT_BYTES, c.mem_free / 4)};
    if (r.bytes < 2 * LIMIT_MATRIX)
        return err_missing(e, "the bench wants %lld MiB of free GPU memory, there are %lld",
                           (long long)(2 * LIMIT_MATRIX * 4 >> 20), (long long)(c.mem_free >> 20));
    void *stream = gpu_stream_new(e);
    r.from = stream ? gpu_alloc(r.bytes, e) : NULL;
    r.to = r.from ? gpu_alloc(r.bytes / 2, e) : NULL;
    bool good = r.to && gpu_random(DT_BF16, r.from, r.bytes / 2, 1, LIMIT_SERIES, stream, e) &&
                fastest_of(do_product, &r, stream, &product, e) && measure_read(&r, stream, &read, e) &&
                fastest_of(do_copy, &r, stream, &copy, e);
    gpu_free(r.from);
    gpu_free(r.to);
    gpu_stream_free(stream);
    if (good)
        *x = (struct gpu_limits){.read_bps = read,
                                 .copy_bps = (double)(r.bytes / 2 * 2) / copy * 1e6,
                                 .tensor_flops = 2 * pow(LIMIT_SIDE, 3) / product * 1e6};
    return good;
}

int64_t gpu_unique_kv(const struct nform *nf, const struct problem_spec *s)
{
    return nform_seen_tokens(nf) * heads_token_bytes(&s->heads);
}

struct gpu_need gpu_need(const struct nform *nf, const struct problem_spec *s)
{
    double row = (double)s->heads.d * heads_elt_bytes(&s->heads), pairs = 0;
    for (int32_t q = 0; q < nf->n_queries; q++)
        pairs += (double)nform_context(nf, q);
    return (struct gpu_need){.bytes = (double)gpu_unique_kv(nf, s) + 2.0 * nf->n_queries * s->heads.h_q * row,
                             .operations = 4 * pairs * s->heads.h_q * s->heads.d};
}

double gpu_floor_us(const struct gpu_need *need, const struct gpu_limits *x)
{
    return 1e6 * fmax(need->bytes / x->read_bps, need->operations / x->tensor_flops);
}

struct gpu_time gpu_time_of(double *us, int64_t n)
{
    sort_f64(us, n);
    struct gpu_time t = {
        .median_us = quantile(us, n, 0.5), .min_us = us[0], .p90_us = us[(n * 9 + 9) / 10 - 1], .reps = n};
    double *off = xcalloc((size_t)n, sizeof *off);
    for (int64_t i = 0; i < n; i++)
        off[i] = fabs(us[i] - t.median_us);
    t.mad_us = quantile(off, n, 0.5);
    free(off);
    return t;
}
