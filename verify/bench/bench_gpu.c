/* bench_gpu.c - the measuring half of bench_gpu.h: what runs on the card, and who judges it. */
#include "verify/bench/bench_gpu.h"
#include "kernels/cuda/host/exact.h"
#include "ref/rng.h"
#include "sim/plan_ledger.h"
#include "verify/judge/cover.h"
#include "verify/judge/arithmetic.h"
#include "verify/judge/judge.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLUSH_BYTES (INT64_C(256) << 20)
#define SCRATCH_BYTES (INT64_C(64) << 10) /* behind them */
#define LIMIT_BYTES (INT64_C(16) << 30)
enum { LIMIT_REPS = 20, LIMIT_SIDE = 8192, MIN_REPS = 5, MAX_REPS = 1001, SAMPLE_ROWS = 16, PROBES = 10 };
#define LIMIT_MATRIX ((int64_t)LIMIT_SIDE * LIMIT_SIDE * 2) /* bytes */
/* A row is replayed until this much of the card's time is spent, five times at least. */
static const double ROW_US = 50e3;
/* Seconds that a row waits for memory to be as fast as ever, at most; what of the time that reading takes at best is not. */
static const double SETTLE_S = 3, DISTURBED = 1.02;
/* Seconds that the first row reads to find out what that is. */
static const double FIRST_S = 0.1;
/* Series of the generator. */
enum { SERIES_Q = 1, SERIES_K, SERIES_V, SERIES_PAGES, SERIES_SAMPLE };

/* ---- events ---------------------------------------------------------------------------------------------- */

/* Something enqueued on a stream. */
typedef bool action(void *of, int64_t turn, void *stream, struct err *e);

/* `before` (may be NULL), then `timed` between two events, n times in a row; microseconds of each into us[n]. */
static bool time_each(action *before, action *timed, void *of, int64_t n, void *stream, double *us,
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

/* ---- limits ---------------------------------------------------------------------------------------------- */

struct limit_run {
    uint8_t *from, *to;
    int64_t bytes;
    int way; /* of reading */
};

/* What empties the L2, read: the first way will do. */
static struct limit_run flush_read(const struct gpu_bench *b)
{
    return (struct limit_run){
        .from = b->flush, .to = (uint8_t *)b->flush + FLUSH_BYTES, .bytes = FLUSH_BYTES};
}

static bool do_read(void *of, int64_t turn, void *stream, struct err *e)
{
    struct limit_run *r = of;
    (void)turn;
    return gpu_read(r->way, r->from, r->bytes, r->to, stream, e);
}

static bool do_copy(void *of, int64_t turn, void *stream, struct err *e)
{
    struct limit_run *r = of;
    (void)turn;
    return gpu_copy(r->to, r->from, r->bytes / 2, stream, e);
}

static bool do_product(void *of, int64_t turn, void *stream, struct err *e)
{
    struct limit_run *r = of;
    (void)turn;
    return gpu_gemm(DT_BF16, LIMIT_SIDE, r->from, r->from + LIMIT_MATRIX, r->to, stream, e);
}

/* The fastest: a limit is what the card was seen to do. */
static bool fastest_of(action *what, struct limit_run *r, void *stream, double *us, struct err *e)
{
    double all[LIMIT_REPS];
    if (!time_each(NULL, what, r, 3, stream, all, e) || /* warm */
        !time_each(NULL, what, r, LIMIT_REPS, stream, all, e))
        return false;
    *us = gpu_time_of(all, LIMIT_REPS).min_us;
    return true;
}

/* Of the fastest way to read; the difference of two sizes, as what a launch costs is in both. */
static bool measure_read(const struct limit_run *all, void *stream, double *bps, struct err *e)
{
    struct limit_run whole = *all, eighth = *all;
    double us, part, best = INFINITY;
    eighth.bytes /= 8;
    for (whole.way = 0; whole.way < GPU_READ_WAYS; whole.way++) {
        if (!fastest_of(do_read, &whole, stream, &us, e))
            return false;
        if (us < best) {
            best = us;
            eighth.way = whole.way;
        }
    }
    if (!fastest_of(do_read, &eighth, stream, &part, e))
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
    struct limit_run r = {.bytes = min_i64(LIMIT_BYTES, c.mem_free / 4)};
    if (r.bytes < 2 * LIMIT_MATRIX)
        return err_missing(e, "the bench wants %lld MiB of free GPU memory, there are %lld",
                           (long long)(2 * LIMIT_MATRIX * 4 >> 20), (long long)(c.mem_free >> 20));
    void *stream = gpu_stream_new(e);
    r.from = stream ? gpu_alloc(r.bytes, e) : NULL;
    r.to = r.from ? gpu_alloc(r.bytes / 2, e) : NULL;
    bool good = r.to && gpu_random(DT_BF16, r.from, r.bytes / 2, 1, SERIES_K, stream, e) &&
                fastest_of(do_product, &r, stream, &product, e) && measure_read(&r, stream, &read, e) &&
                fastest_of(do_copy, &r, stream, &copy, e);
    gpu_free(r.from);
    gpu_free(r.to);
    if (stream)
        gpu_stream_free(stream);
    if (good)
        *x = (struct gpu_limits){.read_bps = read,
                                 .copy_bps = (double)(r.bytes / 2 * 2) / copy * 1e6,
                                 .tensor_flops = 2 * pow(LIMIT_SIDE, 3) / product * 1e6};
    return good;
}

/* ---- the bench ------------------------------------------------------------------------------------------- */

bool gpu_bench_open(struct gpu_bench *b, struct err *e)
{
    struct cuda_caps c;
    if (!cuda_caps(&c, e) || !gpu_limits_measure(&b->limits, e))
        return false;
    b->sms = c.sms;
    b->stream = gpu_stream_new(e);
    b->flush = b->stream ? gpu_alloc(FLUSH_BYTES + SCRATCH_BYTES, e) : NULL;
    return b->flush != NULL;
}

void gpu_bench_close(struct gpu_bench *b)
{
    if (b->flush)
        gpu_free(b->flush);
    if (b->stream)
        gpu_stream_free(b->stream);
    b->flush = b->stream = NULL;
}

/* One tree on the card. */
struct bed {
    struct gpu_bench *b;
    struct problem *p; /* no Q, K, V; the page table once it was drawn */
    struct nform *nf;
    int64_t pool; /* elements of K, and of V */
    uint64_t seed;
    void *q, *k, *v, *pages, *o, *lse; /* on the device */
    /* The largest workspace so far: tens of GB that were freed are cleared by the driver while the next plan runs. */
    void *work;
    int64_t work_bytes;
    struct oracle *truth; /* on the host */
};

/* A strategy's plan, on the host and on the card; cp NULL: its row is complete. */
struct job {
    struct plan *plan;
    struct cuda_plan *cp;
    struct gpu_row *row;
    bool stays; /* where only the fastest of a strategy do */
};

static bool is_of_one(const struct gpu_row *x, const struct gpu_row *y)
{
    return x->use->s == y->use->s;
}

static void skip(struct gpu_row *r, const char *why)
{
    r->verdict = GPU_SKIP;
    snprintf(r->why, sizeof r->why, "%.255s", why);
}

static void out_of_memory(struct gpu_row *r, double bytes)
{
    r->verdict = GPU_SKIP;
    snprintf(r->why, sizeof r->why, "OOM (needs %.1f GiB)", bytes / (1 << 30));
}

/* What K, V, Q and O of so many tokens take. */
static double bytes_stored(const struct problem *p, int64_t tokens)
{
    double elt = heads_elt_bytes(&p->heads);
    return elt * p->heads.d *
           (2.0 * (double)tokens * p->heads.h_kv + 2.0 * p->tree->n_queries * p->heads.h_q);
}

static void make_plan(struct bed *x, const struct strategy_use *use, struct job *j)
{
    const struct problem *p = x->p;
    struct gpu_row *r = j->row;
    struct plan_env env = plan_env_default(p->heads);
    char why[WHY_MAX] = "";
    double start = now_s();
    j->plan = strategy_plan(use, x->nf, &env, why);
    r->plan_ms = 1e3 * (now_s() - start);
    if (!j->plan)
        skip(r, why);
}

/* Checked, counted, and on the device. */
static bool send_plan(struct bed *x, struct job *j, struct err *e)
{
    const struct problem *p = x->p;
    struct gpu_row *r = j->row;
    struct cuda_caps c;
    char why[WHY_MAX] = "";
    struct err own = {0};
    if (!cover_check(j->plan, &own)) {
        r->verdict = GPU_FAIL;
        snprintf(r->why, sizeof r->why, "coverage: %.200s", own.msg);
        return true;
    }
    r->ledger = ledger_of_plan(j->plan, &p->heads);
    r->bytes = gpu_ledger_bytes(&r->ledger);
    r->grid = gpu_grid_of(j->plan, p->heads.h_q, p->heads.h_kv);
    double stored = bytes_stored(p, plan_stored_tokens(j->plan));
    if (!cuda_caps(&c, e))
        return false;
    if (stored > (double)c.mem_free) {
        out_of_memory(r, stored);
        return true;
    }
    if (!cuda_supports(p, j->plan, &x->b->opt, why)) {
        skip(r, why);
        return true;
    }
    double start = now_s();
    j->cp = cuda_plan_new(p, j->plan, &x->b->opt, &own);
    bool good = gpu_sync(e);
    r->upload_ms = 1e3 * (now_s() - start);
    if (!j->cp && own.code == EXIT_MISSING)
        skip(r, own.msg);
    else if (!j->cp)
        good = err_set(e, "%s", own.msg);
    return good;
}

/* Is that job's plan one of those before, of the same strategy or of any? */
static bool is_planned(const struct job *job, int32_t n, bool of_any)
{
    for (int32_t i = 0; i < n && job[n].plan; i++)
        if (job[i].plan && (of_any || is_of_one(job[i].row, job[n].row)) &&
            plan_same(job[i].plan, job[n].plan))
            return true;
    return false;
}

static void drop_plan(struct job *j)
{
    cuda_plan_free(j->cp);
    plan_free(j->plan);
    *j = (struct job){.row = NULL};
}

/* ---- data ------------------------------------------------------------------------------------------------ */

/* Device memory for n bytes with what the host has there. */
static void *put(const void *host, int64_t bytes, struct err *e)
{
    void *dev = gpu_alloc(bytes, e);
    if (dev && gpu_upload(dev, host, bytes, e))
        return dev;
    if (dev)
        gpu_free(dev);
    return NULL;
}

/* After every plan was made. */
static bool draw_data(struct bed *x, struct err *e)
{
    struct problem *p = x->p;
    int64_t elt = heads_elt_bytes(&p->heads), rows = (int64_t)p->tree->n_queries * p->heads.h_q;
    void *st = x->b->stream;
    p->page_table = pages_shuffled(p->n_pages, x->seed, SERIES_PAGES); /* longer than the table */
    return (x->q = gpu_alloc(rows * p->heads.d * elt, e)) && (x->k = gpu_alloc(x->pool * elt, e)) &&
           (x->v = gpu_alloc(x->pool * elt, e)) && (x->o = gpu_alloc(rows * p->heads.d * elt, e)) &&
           (x->lse = gpu_alloc(rows * (int64_t)sizeof(float), e)) &&
           (x->pages = put(p->page_table, p->page_off[p->tree->n_nodes] * (int64_t)sizeof(int32_t), e)) &&
           gpu_random(p->heads.dtype, x->q, rows * p->heads.d, x->seed, SERIES_Q, st, e) &&
           gpu_random(p->heads.dtype, x->k, x->pool, x->seed, SERIES_K, st, e) &&
           gpu_random(p->heads.dtype, x->v, x->pool, x->seed, SERIES_V, st, e) && gpu_sync(e);
}

/* ---- the exact answer ------------------------------------------------------------------------------------ */

/* The exact answer, computed on the card and fetched. */
static bool fetch_truth(struct bed *x, struct err *e)
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
                                         .first = d_first,
                                         .slot = d_slot,
                                         .o = dev[0],
                                         .abs_o = dev[1],
                                         .rms_o = dev[2],
                                         .lse = dev[3],
                                         .logit = dev[4],
                                         .abs_dot = dev[5]},
                     x->b->stream, e) &&
           gpu_sync(e);
    for (int i = 0; i < 6; i++) {
        good = good && gpu_download(host[i], dev[i], i < 3 ? all : row, e);
        if (dev[i])
            gpu_free(dev[i]);
    }
    gpu_free(d_first);
    gpu_free(d_slot);
    free(first);
    free(slot);
    return good;
}

/* Element i of a series as the card has it. */
static double element(const struct bed *x, int series, int64_t i)
{
    double v = rng_bell(x->seed, (uint64_t)series, (uint64_t)i);
    return x->p->heads.dtype == DT_F16 ? f16_to_double(f16_from_double(v))
                                       : bf16_to_double(bf16_from_double(v));
}

static bool near(double a, double b, double scale)
{
    return a == b || fabs(a - b) <= 1e-11 * scale; /* either sums at most 1e5 terms in double */
}

/* Row `row` once more, on the host, from the rule: softmax of all logits, then the weighted sum. */
static bool certify_row(const struct bed *x, int64_t row)
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

static bool certify(const struct bed *x, struct err *e)
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

/* ---- timing and judging ---------------------------------------------------------------------------------- */

struct replay {
    const struct bed *x;
    void *graph;
    int64_t o_bytes, lse_bytes, work_bytes;
};

/* O, LSE and partial results poisoned, then the cache emptied: a merge that comes too early would find those of the replay
 * before, which are the same. */
static bool before_replay(void *of, int64_t turn, void *stream, struct err *e)
{
    struct replay *r = of;
    const struct gpu_bench *b = r->x->b;
    struct limit_run read = flush_read(b);
    return gpu_fill(r->x->o, 0xFF, r->o_bytes, stream, e) &&
           gpu_fill(r->x->lse, 0xFF, r->lse_bytes, stream, e) &&
           gpu_fill(r->x->work, 0xFF, r->work_bytes, stream, e) &&
           gpu_fill(b->flush, (int)(turn & 0x7F), FLUSH_BYTES, stream, e) &&
           (!b->flush_reads || do_read(&read, turn, stream, e));
}

static bool do_replay(void *of, int64_t turn, void *stream, struct err *e)
{
    struct replay *r = of;
    (void)turn;
    return gpu_graph_run(r->graph, stream, e);
}

/* How long reading takes, into *us; keeps the least. */
static bool probe(struct gpu_bench *b, double *us, struct err *e)
{
    struct limit_run read = flush_read(b);
    double all[PROBES];
    if (!time_each(NULL, do_read, &read, PROBES, b->stream, all, e))
        return false;
    *us = gpu_time_of(all, PROBES).min_us;
    b->probe_us = b->probe_us > 0 ? fmin(b->probe_us, *us) : *us;
    return true;
}

/* Waits until memory is as fast as ever. If it does not become so, what it is now is what is waited for from here on, and less
 * long: there are machines on which reading is now and then faster than it can be for long. How fast it can be the first row finds
 * out: what data and exact answer no longer need is being cleared by then, so that reads take an eighth longer for some hundredths
 * of a second. */
static bool settle(struct gpu_bench *b, struct err *e)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double begin = now_s(), waited = 0, us;
    bool is_first = b->probe_us == 0, quiet;
    while (is_first && now_s() - begin < FIRST_S)
        if (!probe(b, &us, e))
            return false;
    for (begin = now_s();;) {
        if (!probe(b, &us, e))
            return false;
        quiet = us <= DISTURBED * b->probe_us;
        if (quiet || waited >= SETTLE_S / (double)(1 + b->disturbed))
            break;
        nanosleep(&pause, NULL);
        waited = now_s() - begin;
    }
    b->waits += waited > 0;
    b->waited_s += waited;
    b->disturbed += !quiet;
    b->probe_us = quiet ? b->probe_us : us;
    return true;
}

static bool time_job(const struct bed *x, struct job *j, const struct cuda_args *a, struct err *e)
{
    struct gpu_bench *b = x->b;
    int64_t rows = (int64_t)x->p->tree->n_queries * x->p->heads.h_q;
    struct replay r = {.x = x,
                       .o_bytes = rows * x->p->heads.d * heads_elt_bytes(&x->p->heads),
                       .lse_bytes = rows * (int64_t)sizeof(float),
                       .work_bytes = cuda_workspace(j->cp)};
    double us[MAX_REPS];
    if (!gpu_capture_begin(b->stream, e))
        return false;
    bool good = cuda_run(j->cp, a, b->stream, e);
    r.graph = gpu_capture_end(b->stream, e);
    good = good && r.graph && settle(b, e) &&
           time_each(before_replay, do_replay, &r, 3, b->stream, us, e); /* warm */
    if (good) {
        int64_t n = (int64_t)(ROW_US / fmax(us[2], 1));
        n = max_i64(MIN_REPS, min_i64(n, b->reps));
        good = time_each(before_replay, do_replay, &r, n, b->stream, us, e);
        if (good)
            j->row->time = gpu_time_of(us, n);
    }
    if (r.graph)
        gpu_graph_free(r.graph);
    return good;
}

/* What the card wrote against the exact answer: all rows, by all cores, some queries at a time. */
static int compare_all(const struct bed *x, const struct plan *plan, const struct output *out,
                       struct gpu_row *r)
{
    const struct problem *p = x->p;
    const struct oracle *t = x->truth;
    struct arithmetic a = arithmetic_of(p, plan, x->b->kernel);
    int32_t n_q = p->tree->n_queries, step = 1 + 512 / p->heads.h_q;
    int verdict = V_PASS;
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
        struct comparison c = compare_output(&part, &want, &got, &a);
#pragma omp critical(treeattn_bench_gpu)
        {
            if ((int)c.verdict > verdict) {
                verdict = (int)c.verdict;
                snprintf(r->why, sizeof r->why, "queries %" PRId32 "..: %.200s", q, c.why);
            }
            r->worst = fmax(r->worst, c.worst);
        }
    }
    return verdict;
}

static bool run_job(struct bed *x, struct job *j, struct err *e)
{
    int64_t work = cuda_workspace(j->cp);
    struct err own = {0};
    if (!gpu_grow(&x->work, &x->work_bytes, max_i64(work, 256), max_i64(work, 256), &own)) {
        if (own.code != EXIT_MISSING)
            return err_set(e, "%s", own.msg);
        out_of_memory(j->row, bytes_stored(x->p, x->p->n_pages * x->p->page_size) + (double)work);
        return true;
    }
    struct cuda_args a = {.q = x->q,
                          .k = x->k,
                          .v = x->v,
                          .page_table = x->pages,
                          .o = x->o,
                          .lse = x->lse,
                          .workspace = x->work};
    struct output *out = output_new(x->p);
    bool good = time_job(x, j, &a, e) &&
                gpu_download(out->o, x->o, out->n_rows * out->d * dtype_size[out->dtype], e) &&
                gpu_download(out->lse, x->lse, out->n_rows * (int64_t)sizeof(float), e);
    if (good)
        j->row->verdict =
            gpu_verdict_of(compare_all(x, j->plan, out, j->row), j->row->time.median_us, j->row->floor_us);
    output_free(out);
    return good;
}

/* ---- one tree -------------------------------------------------------------------------------------------- */

static bool run_jobs(struct bed *x, struct job *job, int32_t n, struct err *e)
{
    struct cuda_caps c;
    bool good = cuda_caps(&c, e), any = false;
    double need = bytes_stored(x->p, x->p->n_pages * x->p->page_size);
    for (int32_t i = 0; i < n && good; i++)
        if (job[i].cp && need > 0.9 * (double)c.mem_free) {
            out_of_memory(job[i].row, need);
            cuda_plan_free(job[i].cp);
            job[i].cp = NULL;
        } else {
            any = any || job[i].cp;
        }
    good = good && (!any || (draw_data(x, e) && fetch_truth(x, e) && certify(x, e)));
    for (int32_t i = 0; i < n && good; i++)
        if (job[i].cp)
            good = run_job(x, &job[i], e);
    return good;
}

/* What is wrong first, then what is right, then what did not run. */
static int place_of(const struct gpu_row *r)
{
    return gpu_row_counts(r) ? 1 : r->verdict == GPU_SKIP ? 2 : 0;
}

/* Does x stand for its strategy rather than y? Of what is right the fastest does. */
static bool stands_before(const struct gpu_row *x, const struct gpu_row *y)
{
    if (gpu_row_counts(x) && gpu_row_counts(y))
        return x->time.median_us < y->time.median_us;
    return place_of(x) < place_of(y);
}

/* Of each strategy the fastest of its plans, timed once more: the time it was chosen by is the least of several. Rows of the others
 * go. */
static bool keep_fastest(struct bed *x, struct job *job, struct gpu_row *rows, int32_t *n_rows, struct err *e)
{
    int32_t n = *n_rows, kept = 0;
    bool good = true;
    for (int32_t i = 0; i < n && good; i++) {
        bool is_first = true;
        int32_t best = i, tried = 0;
        for (int32_t k = 0; k < i; k++)
            is_first = is_first && !is_of_one(&rows[k], &rows[i]);
        if (!is_first)
            continue;
        for (int32_t k = i; k < n; k++)
            if (is_of_one(&rows[k], &rows[i])) {
                tried += rows[k].time.reps > 0;
                best = stands_before(&rows[k], &rows[best]) ? k : best;
            }
        struct gpu_row *r = &rows[best];
        if (tried > 1 && gpu_row_counts(r)) {
            r->why[0] = 0;
            good = run_job(x, &job[best], e);
        }
        if (tried > 1 && r->why[0] == 0)
            snprintf(r->why, sizeof r->why, "the fastest of %" PRId32 " plans", tried);
        job[best].stays = true;
    }
    for (int32_t i = 0; i < n; i++)
        if (job[i].stays)
            rows[kept++] = rows[i];
    *n_rows = kept;
    return good;
}

bool gpu_bench_config(struct gpu_bench *b, const struct gpu_config *c, const struct strategy_use *use,
                      int32_t n_use, struct gpu_row *rows, int32_t *n_rows, struct err *e)
{
    struct tree *t = tree_source_load(&c->src, e);
    if (!t)
        return false;
    struct problem_spec spec = c->spec;
    spec.scattered = true;
    struct bed x = {.b = b, .p = problem_shell(t, &spec), .nf = nform_new(t), .seed = b->seed + c->spec.seed};
    struct job *job = xcalloc((size_t)n_use, sizeof *job);
    struct gpu_need need = gpu_need(x.nf, &c->spec);
    x.pool = x.p->n_pages * x.p->page_size * x.p->heads.h_kv * x.p->heads.d;
    bool good = true;
    int32_t n = 0;
    for (int32_t i = 0; i < n_use && good; i++) {
        rows[n] = (struct gpu_row){.config = c,
                                   .use = &use[i],
                                   .need = need,
                                   .unique_kv = gpu_unique_kv(x.nf, &c->spec),
                                   .floor_us = gpu_floor_us(&need, &b->limits)};
        job[n].row = &rows[n];
        make_plan(&x, &use[i], &job[n]);
        if ((b->distinct || b->fastest) && is_planned(job, n, b->distinct)) {
            drop_plan(&job[n]);
            continue;
        }
        good = !job[n].plan || send_plan(&x, &job[n], e);
        n++;
    }
    *n_rows = n;
    good = good && run_jobs(&x, job, n, e) && (!b->fastest || keep_fastest(&x, job, rows, n_rows, e));
    for (int32_t i = 0; i < n; i++)
        drop_plan(&job[i]);
    void *all[] = {x.q, x.k, x.v, x.pages, x.o, x.lse, x.work};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            gpu_free(all[i]);
    oracle_free(x.truth);
    problem_free(x.p);
    free(job);
    nform_free(x.nf);
    tree_free(t);
    return good;
}
