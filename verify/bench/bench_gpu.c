#include "verify/bench/live_peers.h"
#include "sim/plan_ledger.h"
#include "verify/judge/cover.h"
#include "verify/compare/compare.h"
#include "verify/judge/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLUSH_BYTES (INT64_C(256) << 20)
#define SCRATCH_BYTES (INT64_C(64) << 10) /* behind them */
enum { MIN_REPS = 5, MAX_REPS = 1001, PROBES = 10 };
/* A row is replayed until this much of the card's time is spent, five times at least. */
static const double ROW_US = 50e3;
/* Seconds that a row waits for memory to be as fast as ever, at most; what of the time that reading takes at best is not. */
static const double SETTLE_S = 3, DISTURBED = 1.02;
/* What of the least chain no kernel can be without, whatever the probe's own luck. */
static const double CHAIN_SURE = 0.8;
/* Seconds that the first row reads to find out what that is. */
static const double FIRST_S = 0.1;

/* ---- the bench ------------------------------------------------------------------------------------------- */

bool gpu_bench_open(struct gpu_bench *b, struct err *e)
{
    struct cuda_caps c;
    if (!cuda_caps(&c, e) || !gpu_limits_measure(&b->limits, e))
        return false;
    b->sms = c.sms;
    b->stream = gpu_stream_new(e);
    b->flush = b->stream ? gpu_alloc(FLUSH_BYTES + SCRATCH_BYTES, e) : NULL;
    b->probe = b->flush ? gpu_chain_new(b->sms, e) : NULL;
    return b->probe != NULL;
}

void gpu_bench_close(struct gpu_bench *b)
{
    gpu_chain_free(b->probe);
    gpu_free(b->flush);
    gpu_stream_free(b->stream);
    b->flush = b->stream = NULL;
    b->probe = NULL;
}

/* ---- a row ------------------------------------------------------------------------------------------------ */

struct gpu_grid gpu_grid_of(const struct plan *plan, int32_t h_q, int32_t h_kv)
{
    struct gpu_grid g = {0};
    double sum = 0, longest = 0;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *x = &plan->group[i];
        int64_t rows = (int64_t)x->nq * (h_q / h_kv), tiles = x->tile_m > 0 ? ceil_div(rows, x->tile_m) : 1;
        g.ctas += tiles * h_kv;
        sum += (double)(tiles * h_kv) * (double)x->n_kv;
        longest = fmax(longest, (double)x->n_kv);
    }
    g.longest = sum > 0 ? longest * (double)g.ctas / sum : 0;
    return g;
}

/* Are there groups that begin only when others have ended? */
static bool is_serial(const struct plan *plan)
{
    int32_t first = plan->n_launches;
    bool serial = false;
    for (int64_t i = 0; i < plan->n_groups; i++)
        first = plan->group[i].launch < first ? plan->group[i].launch : first;
    for (int64_t i = 0; i < plan->n_groups; i++)
        serial = serial || (plan->group[i].launch > first &&
                            plan->launch[plan->group[i].launch].order == LAUNCH_SERIAL);
    return serial;
}

enum gpu_excuse gpu_excuse_of(const struct plan *plan, int32_t h_q, int32_t h_kv)
{
    double all = 0, alone = 0;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *x = &plan->group[i];
        int64_t rows = (int64_t)x->nq * (h_q / h_kv), tiles = x->tile_m > 0 ? ceil_div(rows, x->tile_m) : 1;
        all += (double)(tiles * x->n_kv);
        alone += rows == 1 ? (double)x->n_kv : 0;
    }
    return plan->unfused     ? EXCUSE_UNFUSED
           : is_serial(plan) ? EXCUSE_SERIAL
           : 2 * alone > all ? EXCUSE_ONE_ROW
                             : EXCUSE_NONE;
}

enum gpu_verdict gpu_verdict_of(enum verdict compared, double median_us, double floor_us, double chain_us)
{
    if (compared == V_FAIL)
        return GPU_FAIL;
    if (!(median_us >= floor_us + CHAIN_SURE * chain_us))
        return GPU_INVALID;
    return compared == V_MARGINAL ? GPU_MARGINAL : GPU_PASS;
}

bool gpu_row_counts(const struct gpu_row *r)
{
    return r->verdict == GPU_PASS || r->verdict == GPU_MARGINAL;
}

/* One tree on the card. */
struct bed {
    struct gpu_bench *b;
    struct nform *nf;
    struct gpu_data d;
    /* The largest workspace so far: tens of GB that were freed are cleared by the driver while the next plan runs. */
    void *work;
    int64_t work_bytes;
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
    char why[WHY_MAX];
    snprintf(why, sizeof why, "OOM (needs %.1f GiB)", bytes / (1 << 30));
    skip(r, why);
}

/* What K, V, Q and O of so many tokens take. */
static double bytes_stored(const struct problem *p, int64_t tokens)
{
    return p->heads.d * (2.0 * heads_kv_bytes(&p->heads) * (double)tokens * p->heads.h_kv +
                         2.0 * heads_elt_bytes(&p->heads) * p->tree->n_queries * p->heads.h_q);
}

static void make_plan(struct bed *x, const struct strategy_use *use, struct job *j)
{
    const struct problem *p = x->d.p;
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
    const struct problem *p = x->d.p;
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
    const struct ledger *a = &r->ledger;
    r->bytes = a->kv + a->q + a->mask + ledger_scores(a) + ledger_partials(a) + a->out;
    r->grid = gpu_grid_of(j->plan, p->heads.h_q, p->heads.h_kv);
    r->excuse = gpu_excuse_of(j->plan, p->heads.h_q, p->heads.h_kv);
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

/* ---- timing and judging ---------------------------------------------------------------------------------- */

/* What empties the L2, read: the first way will do. */
static struct gpu_span flush_read(const struct gpu_bench *b)
{
    return (struct gpu_span){.from = b->flush, .to = (uint8_t *)b->flush + FLUSH_BYTES, .bytes = FLUSH_BYTES};
}

struct replay {
    const struct bed *x;
    void *graph;
    int64_t o_bytes, lse_bytes, work_bytes;
};

bool gpu_flush(const struct gpu_bench *b, int64_t turn, void *stream, struct err *e)
{
    struct gpu_span read = flush_read(b);
    return gpu_fill(b->flush, (int)(turn & 0x7F), FLUSH_BYTES, stream, e) &&
           (!b->flush_reads || gpu_do_read(&read, turn, stream, e));
}

/* O, LSE and partial results poisoned, then the cache emptied: a merge that comes too early would find those of the replay
 * before, which are the same. */
static bool before_replay(void *of, int64_t turn, void *stream, struct err *e)
{
    struct replay *r = of;
    return gpu_fill(r->x->d.o, 0xFF, r->o_bytes, stream, e) &&
           gpu_fill(r->x->d.lse, 0xFF, r->lse_bytes, stream, e) &&
           gpu_fill(r->x->work, 0xFF, r->work_bytes, stream, e) && gpu_flush(r->x->b, turn, stream, e);
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
    struct gpu_span read = flush_read(b);
    double all[PROBES];
    if (!gpu_time_each(NULL, gpu_do_read, &read, PROBES, b->stream, all, e))
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
    int64_t rows = (int64_t)x->d.p->tree->n_queries * x->d.p->heads.h_q;
    struct replay r = {.x = x,
                       .o_bytes = rows * x->d.p->heads.d * heads_elt_bytes(&x->d.p->heads),
                       .lse_bytes = rows * (int64_t)sizeof(float),
                       .work_bytes = cuda_workspace(j->cp)};
    double us[MAX_REPS];
    if (!gpu_capture_begin(b->stream, e))
        return false;
    bool good = cuda_run(j->cp, a, b->stream, e);
    r.graph = gpu_capture_end(b->stream, e);
    good = good && r.graph && settle(b, e) && (b->chain_us[0] > 0 || gpu_chain_measure(b, e)) &&
           gpu_time_each(before_replay, do_replay, &r, 3, b->stream, us, e); /* warm */
    if (good) {
        int64_t n = (int64_t)(ROW_US / fmax(us[2], 1));
        n = max_i64(MIN_REPS, min_i64(n, b->reps));
        good = gpu_time_each(before_replay, do_replay, &r, n, b->stream, us, e);
        if (good)
            j->row->time = gpu_time_of(us, n);
        j->row->chain_us = b->chain_us[j->plan->n_merge_in > 0];
    }
    gpu_graph_free(r.graph);
    return good;
}

static bool run_job(struct bed *x, struct job *j, struct err *e)
{
    int64_t work = cuda_workspace(j->cp);
    struct err own = {0};
    if (!gpu_grow(&x->work, &x->work_bytes, max_i64(work, 256), max_i64(work, 256), &own)) {
        if (own.code != EXIT_MISSING)
            return err_set(e, "%s", own.msg);
        out_of_memory(j->row, bytes_stored(x->d.p, x->d.p->n_pages * x->d.p->page_size) + (double)work);
        return true;
    }
    struct cuda_args a = {.q = x->d.q,
                          .k = x->d.k,
                          .v = x->d.v,
                          .k_scale = x->d.k_scale,
                          .v_scale = x->d.v_scale,
                          .page_table = x->d.pages,
                          .o = x->d.o,
                          .lse = x->d.lse,
                          .workspace = x->work};
    struct output *out = output_new(x->d.p);
    bool good = time_job(x, j, &a, e) &&
                gpu_download(out->o, x->d.o, out->n_rows * out->d * dtype_size[out->dtype], e) &&
                gpu_download(out->lse, x->d.lse, out->n_rows * (int64_t)sizeof(float), e);
    if (good) {
        struct arithmetic made = arithmetic_of(x->d.p, j->plan, x->b->kernel);
        enum verdict v = gpu_exact_compare(&x->d, out, &made, &j->row->worst, j->row->why);
        j->row->verdict = gpu_verdict_of(v, j->row->time.median_us, j->row->floor_us, j->row->chain_us);
    }
    output_free(out);
    return good;
}

/* ---- one tree -------------------------------------------------------------------------------------------- */

static bool run_jobs(struct bed *x, struct job *job, int32_t n, struct err *e)
{
    struct cuda_caps c;
    bool good = cuda_caps(&c, e), any = false;
    double need = bytes_stored(x->d.p, x->d.p->n_pages * x->d.p->page_size);
    for (int32_t i = 0; i < n && good; i++)
        if (job[i].cp && need > 0.9 * (double)c.mem_free) {
            out_of_memory(job[i].row, need);
            cuda_plan_free(job[i].cp);
            job[i].cp = NULL;
        } else {
            any = any || job[i].cp;
        }
    good = good && (!any || (gpu_data_draw(&x->d, x->b->stream, e) && gpu_exact(&x->d, x->b->stream, e)));
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
        if (job[i].stays) {
            rows[kept] = rows[i];
            job[i].row = &rows[kept++];
        }
    *n_rows = kept;
    return good;
}

/* Children on the same data, behind the rows of ours, of which each that has a time is timed again. */
static bool run_live(struct bed *x, struct job *job, int32_t n, struct gpu_row *rows, int32_t *n_rows, struct err *e)
{
    int32_t ours = *n_rows;
    bool good = live_peers_time(x->b->live, x->b, FLUSH_BYTES, &x->d, rows, rows + ours, e);
    for (int32_t i = 0; i < n && good; i++) {
        struct gpu_row *r = job[i].row, again;
        if (!job[i].cp || (x->b->fastest && !job[i].stays) || !gpu_row_counts(r))
            continue;
        again = *r;
        job[i].row = &again;
        good = run_job(x, &job[i], e);
        job[i].row = r;
        r->again_us = again.time.median_us;
    }
    *n_rows += live_peers_n(x->b->live);
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
    struct bed x = {
        .b = b, .nf = nform_new(t), .d = {.p = problem_shell(t, &spec), .seed = b->seed + c->spec.seed}};
    struct job *job = xcalloc((size_t)n_use, sizeof *job);
    struct gpu_need need = gpu_need(x.nf, &c->spec);
    bool good = true;
    int32_t n = 0;
    for (int32_t i = 0; i < n_use && good; i++) {
        rows[n] = (struct gpu_row){.config = c,
                                   .use = &use[i],
                                   .need = need,
                                   .unique_kv = gpu_unique_kv(x.nf, &c->spec),
                                   .again_us = NAN,
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
    good = good && run_jobs(&x, job, n, e) && (!b->fastest || keep_fastest(&x, job, rows, n_rows, e)) &&
           (!b->live || run_live(&x, job, n, rows, n_rows, e));
    for (int32_t i = 0; i < n; i++)
        drop_plan(&job[i]);
    gpu_data_free(&x.d);
    gpu_free(x.work);
    problem_free(x.d.p);
    free(job);
    nform_free_with_tree(x.nf);
    return good;
}
