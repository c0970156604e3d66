#include "verify/replay/run.h"

#include "verify/replay/log.h"
#include "verify/replay/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const replan_name[N_REPLANS] = {"every", "choice", "shape-change", "async"};

static struct plan *plan_nothing(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                                 const double *opt)
{
    (void)env, (void)opt;
    return plan_new(nf, s->name);
}

const struct strategy replay_no_attention = {
    .name = "no-attention",
    .source = "DeFT Table 5, the bound of its speedups",
    .about = "attention is left out",
    .plan = plan_nothing,
};

enum {
    PORTION = 64,      /* looked-at steps that are executed at once and written together */
    RESERVE = 1 << 30, /* bytes of a device for its driver, libraries, activations, partial results */
    ALL_AT_ONCE = -1   /* the pass of an executor that simulates: all strategies, step by step */
};

/* ---- sizes --------------------------------------------------------------------------------------------- */

double replay_weights(const struct replay *r)
{
    return (double)model_weight_bytes(r->model, r->env.heads.dtype);
}

int64_t replay_pages(const struct replay *r, double memory)
{
    double room = memory - replay_weights(r) - RESERVE;
    double pages = room / ((double)model_kv_bytes(r->model, r->env.heads.dtype) * r->page_size);
    return pages < 1 ? 0 : (int64_t)fmin(pages, INT32_MAX);
}

/* The most tokens that replicated storage holds of a step. */
static int64_t most_stored(const struct replay_source *src, enum storage storage)
{
    int64_t most = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(max : most)
    for (int64_t t = 1; t <= src->last; t++) {
        struct nform *nf = nform_new(trace_tree(src->trace, t));
        most = max_i64(most, plan_stored_tokens(&(struct plan){.nf = nf, .storage = storage}));
        nform_free_with_tree(nf);
    }
    return most;
}

static void keep_outcome(const struct pass *ps, const struct sample *s, struct replay_log *log,
                         struct replay_total *total)
{
    for (int32_t i = ps->first; i < ps->last; i++) {
        struct replay_row *row = &s->outcome[i].row;
        if (total[i].fate != FATE_RAN)
            continue;
        if (s->outcome[i].result == 0) {
            const char *why = s->outcome[i].why;
            total[i].fate = FATE_SKIPPED;
            snprintf(total[i].why, sizeof total[i].why, "%.200s", why);
            if (log)
                replay_log_skip(log, ps->src->number, i, s->step.t, why);
            continue;
        }
        /* known only when the last of the steps it stands for had been seen */
        row->prefill = s->row.prefill;
        row->moves = s->row.moves;
        row->copied = s->row.copied;
        row->planned = s->row.planned;
        row->time.cache_s = s->row.time.cache_s;
        replay_add_row(&total[i], row);
        if (log)
            replay_log_row(log, row);
    }
}

static bool take_portion(struct pass *ps, int64_t first, int64_t last, struct replay_log *log,
                         struct replay_total *total, struct progress *progress, struct err *e)
{
    int64_t n = ceil_div(last - first + 1, ps->r->every);
    struct sample *sample = xcalloc((size_t)n, sizeof *sample);
    bool good = true;
    for (int64_t k = 0; k < n && good; k++) {
        int64_t t = first + k * ps->r->every;
        good = steps_take(ps, t, min_i64(t + ps->r->every - 1, last), true, &sample[k], e);
        if (!simulated(ps->r->exec) && progress)
            progress_step(progress);
    }
    if (good && simulated(ps->r->exec)) {
#pragma omp parallel for schedule(dynamic, 1) reduction(&& : good)
        for (int64_t k = 0; k < n; k++) {
            good = sample_run(ps, &sample[k]) && good;
            if (progress)
#pragma omp critical
                progress_step(progress);
        }
    }
    good = good && steps_collect(ps, e);
    for (int64_t k = 0; k < n; k++) {
        if (good)
            keep_outcome(ps, &sample[k], log, total);
        else if (e && !e->code) /* the first says what went wrong */
            *e = sample[k].e;
        sample_clear(&sample[k]);
    }
    free(sample);
    return good;
}

static struct private_kv_spec lanes_of(const struct replay *r, const struct replay_source *src)
{
    struct private_kv_spec s = {.page_size = r->page_size, .first_page = r->n_pages};
    for (int64_t t = 1; t <= src->last; t++) {
        struct tree *tree = trace_tree(src->trace, t);
        private_kv_fit(&s, tree);
        tree_free(tree);
    }
    return s;
}

/* The storage of the strategy's plan of the first step. */
static enum storage storage_of(const struct replay *r, const struct replay_source *src, int32_t use)
{
    struct nform *nf = nform_new(trace_tree(src->trace, 1));
    char why[WHY_MAX];
    struct plan *p = strategy_plan(&r->use[use], nf, &r->env, why);
    enum storage storage = p ? p->storage : STORAGE_SHARED;
    plan_free(p);
    nform_free_with_tree(nf);
    return storage;
}

int64_t replay_copies(const struct replay *r, const struct replay_source *src, int64_t room)
{
    bool wanted = false;
    for (int32_t i = 0; i < r->n_use && !wanted && room > 0; i++)
        wanted = storage_of(r, src, i) == STORAGE_REPLICATED;
    struct private_kv_spec s = wanted ? lanes_of(r, src) : (struct private_kv_spec){0};
    return s.lanes * s.pages <= room ? s.lanes * s.pages : 0;
}

/* Pages on simulated cards, with as much room as a decoder gives them: what is in use at most decides. */
static bool place_pages(struct pass *ps, struct err *e)
{
    const struct replay *r = ps->r;
    int64_t most = 1;
    int32_t queries = 1;
    if (!simulated(r->exec) || r->n_cards <= 1 || r->parallel == PARALLEL_TENSOR)
        return true;
    if (!replay_peak(ps->src, r->page_size, r->n_pages, &most, &queries, e))
        return false;
    ps->placement =
        placement_new(r->parallel, r->n_cards, r->n_pages, placement_room(r->parallel, r->n_cards, most));
    return true;
}

/* Everything of strategies ps->first .. ps->last - 1. `name`: how the log calls the pass. */
static bool run_pass(struct pass *ps, int32_t name, struct replay_log *log, struct replay_total *total,
                     struct replay_pool *pool, struct progress *progress, struct err *e)
{
    const struct executor *x = ps->r->exec;
    int64_t done = log ? replay_log_done(log, ps->src->number, name) : 0, every = ps->r->every;
    bool good = simulated(x) || x->begin(x->self, e);
    if (progress)
        progress_drop(progress, ceil_div(done, every));
    ps->pool = pool_new(ps->r->page_size, ps->r->n_pages);
    good = good && place_pages(ps, e);
    struct private_kv_spec lanes = {0};
    if (total[ps->first].made)
        lanes = lanes_of(ps->r, ps->src);
    ps->copies = lanes.lanes > 0 ? private_kv_new(&lanes) : NULL;
    ps->executed = 0;
    for (int64_t t = 1; t <= done && good; t++)
        good = steps_take(ps, t, t, false, NULL, e);
    for (int64_t t = done + 1; t <= ps->src->last && good;) {
        int64_t last = min_i64(t + PORTION * every - 1, ps->src->last);
        good = take_portion(ps, t, last, log, total, progress, e);
        if (good && log)
            replay_log_mark(log, ps->src->number, name, last);
        t = last + 1;
    }
    pool->peak = max_i64(pool->peak, pool_stats(ps->pool).peak);
    pool->leaked += pool_drain(ps->pool);
    ps->pending = NULL; /* if it failed before that ended */
    pool_free(ps->pool);
    placement_free(ps->placement);
    ps->placement = NULL;
    private_kv_free(ps->copies);
    steps_clear(ps);
    return good;
}

/* ---- a source ------------------------------------------------------------------------------------------ */

/* Who cannot run at all, by the first step and by the bytes that storage takes. */
static void find_fates(const struct replay *r, const struct replay_source *src, const struct replay_log *log,
                       struct replay_total *total)
{
    struct nform *nf = nform_new(trace_tree(src->trace, 1));
    int64_t most[STORAGE_REPLICATED_SUFFIX + 1] = {0};
    bool made = replay_copies(r, src, r->private_kv_pages) > 0;
    for (int32_t i = 0; i < r->n_use; i++) {
        const char *why = log ? replay_log_skipped(log, src->number, i) : NULL;
        total[i] = (struct replay_total){.time.error = NAN};
        struct plan *p = why ? NULL : strategy_plan(&r->use[i], nf, &r->env, total[i].why);
        if (why)
            snprintf(total[i].why, sizeof total[i].why, "%s", why);
        if (!p) {
            total[i].fate = FATE_SKIPPED;
            continue;
        }
        total[i].copies = p->storage != STORAGE_SHARED;
        total[i].made = made && p->storage == STORAGE_REPLICATED;
        if (total[i].copies && most[p->storage] == 0)
            most[p->storage] = most_stored(src, p->storage);
        double kv = (double)most[p->storage] * (double)model_kv_bytes(r->model, r->env.heads.dtype);
        double needs = replay_weights(r) + kv + RESERVE;
        if (kv > 0 && needs > r->memory) {
            total[i].fate = FATE_OOM;
            total[i].needs = needs;
            snprintf(total[i].why, sizeof total[i].why, "OOM (needs %.1f GiB)", needs / 0x1p30);
        }
        plan_free(p);
    }
    nform_free_with_tree(nf);
}

/* Those that a log holds. They stand for all steps that it says are done. */
static bool add_known_rows(const struct replay *r, const struct replay_log *log, int32_t source,
                           struct replay_total *total, struct err *e)
{
    int64_t n = 0;
    const struct replay_row *row = log ? replay_log_rows(log, &n) : NULL;
    for (int64_t k = 0; k < n; k++)
        if (row[k].source == source && total[row[k].use].fate == FATE_RAN)
            replay_add_row(&total[row[k].use], &row[k]);
    for (int32_t i = 0; i < r->n_use && log; i++) {
        int64_t done = replay_log_done(log, source, simulated(r->exec) ? ALL_AT_ONCE : i);
        if (total[i].fate == FATE_RAN && total[i].weight != done)
            return err_set(e, "rows of %s: %" PRId64 " steps of source %" PRId32 " (expected %" PRId64 ")",
                           r->use[i].s->name, total[i].weight, source, done);
    }
    return true;
}

bool replay_peak(const struct replay_source *src, int32_t page_size, int64_t most, int64_t *pages,
                 int32_t *queries, struct err *e)
{
    struct pool *pool = pool_new(page_size, most);
    bool good = true;
    for (int64_t t = 1; t <= src->last && good; t++) {
        struct trace_parts parts;
        struct pool_step moved;
        struct tree *tree = trace_step(src->trace, t, &parts);
        good = pool_advance(pool, tree, &parts, t, &moved, e);
        *queries = (int32_t)max_i64(*queries, tree->n_queries);
        trace_parts_free(&parts);
        tree_free(tree);
    }
    *pages = max_i64(*pages, pool_stats(pool).peak);
    pool_free(pool);
    return good;
}

/* What the device lacked for a strategy, mostly memory for what it keeps between its kernels, others may not need. */
static void leave_out(const struct replay_source *src, int32_t use, const char *why, struct replay_log *log,
                      struct replay_total *total)
{
    *total = (struct replay_total){
        .fate = FATE_SKIPPED, .copies = total->copies, .made = total->made, .time.error = NAN};
    snprintf(total->why, sizeof total->why, "%.200s", why);
    if (log) {
        replay_log_skip(log, src->number, use, src->last, total->why);
        replay_log_mark(log, src->number, use, src->last);
    }
}

/* Steps of a pass that will not be looked at. */
static int64_t left_of(const struct pass *ps, int32_t name, const struct replay_log *log)
{
    int64_t every = ps->r->every, done = log ? replay_log_done(log, ps->src->number, name) : 0;
    return max_i64(0, ceil_div(ps->src->last, every) - ceil_div(done, every) - ps->executed);
}

int64_t replay_work(const struct replay *r, const struct replay_source *src)
{
    return ceil_div(src->last, r->every) * (simulated(r->exec) ? 1 : r->n_use);
}

bool replay_source(const struct replay *r, const struct replay_source *src, struct replay_log *log,
                   struct replay_total *total, struct replay_pool *pool, struct progress *progress,
                   struct err *e)
{
    find_fates(r, src, log, total);
    *pool = (struct replay_pool){0};
    if (!add_known_rows(r, log, src->number, total, e))
        return false;
    struct pass ps = {.r = r, .src = src, .total = total};
    bool good = true;
    if (simulated(r->exec)) {
        ps.last = r->n_use;
        good = run_pass(&ps, ALL_AT_ONCE, log, total, pool, progress, e);
    } else {
        ps.kept = xcalloc((size_t)r->n_use, sizeof *ps.kept);
        ps.choice = xcalloc((size_t)r->n_use, sizeof *ps.choice);
        for (int32_t i = 0; i < r->n_use && good; i++) {
            ps.first = i;
            ps.last = i + 1;
            struct err own = {0};
            if (total[i].fate == FATE_RAN)
                good = run_pass(&ps, i, log, total, pool, progress, &own);
            else if (progress)
                progress_drop(progress, ceil_div(src->last, r->every));
            if (!good && own.code == EXIT_MISSING) {
                leave_out(src, i, own.msg, log, &total[i]);
                good = true;
                if (progress)
                    progress_drop(progress, left_of(&ps, i, log));
            } else if (!good)
                *e = own;
        }
        free(ps.kept);
        free(ps.choice);
    }
    free(ps.page_off);
    free(ps.page_table);
    return good;
}
