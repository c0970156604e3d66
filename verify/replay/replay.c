#include "verify/replay/replay.h"

#include "sim/plan_extend.h"
#include "verify/judge/cover.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Processor time of this thread. */
static double host_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

static int64_t token_bytes(const struct replay *r)
{
    return model_kv_bytes(r->model, r->env.heads.dtype);
}

double replay_weights(const struct replay *r)
{
    return (double)model_weight_bytes(r->model, r->env.heads.dtype);
}

int64_t replay_pages(const struct replay *r, double memory)
{
    double room = memory - replay_weights(r) - RESERVE;
    double pages = room / ((double)token_bytes(r) * r->page_size);
    return pages < 1 ? 0 : (int64_t)fmin(pages, INT32_MAX);
}

/* Tokens that replicated storage holds of a step. */
static int64_t stored_tokens(const struct nform *nf, enum storage storage)
{
    struct plan empty = {.nf = nf, .storage = storage};
    return plan_stored_tokens(&empty);
}

/* The most over all steps. */
static int64_t most_stored(const struct replay_source *src, enum storage storage)
{
    int64_t most = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(max : most)
    for (int64_t t = 1; t <= src->last; t++) {
        struct tree *tree = trace_tree(src->trace, t);
        struct nform *nf = nform_new(tree);
        most = max_i64(most, stored_tokens(nf, storage));
        nform_free(nf);
        tree_free(tree);
    }
    return most;
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

void replay_add(struct replay_total *sum, const struct replay_total *x)
{
    if (sum->fate == FATE_RAN && x->fate != FATE_RAN) {
        sum->fate = x->fate;
        memcpy(sum->why, x->why, sizeof sum->why);
    }
    sum->needs = fmax(sum->needs, x->needs);
    sum->peak_pages = max_i64(sum->peak_pages, x->peak_pages);
    sum->error = fmax(sum->error, x->error); /* fmax leaves NaN out */
#define ADD(field) sum->field += x->field
    ADD(steps), ADD(looked_at), ADD(queries), ADD(contexts), ADD(kv_tokens), ADD(prefill), ADD(moves),
        ADD(copied);
    ADD(planned), ADD(kv), ADD(q), ADD(mask), ADD(scores), ADD(partials), ADD(out);
    ADD(attention_s), ADD(other_s), ADD(moves_s), ADD(idle_s), ADD(step_s), ADD(host_s), ADD(cache_s);
    ADD(extend_s), ADD(plan_s), ADD(exposed_s);
#undef ADD
}

static void add_row(struct replay_total *sum, const struct replay_row *x)
{
    double w = (double)x->weight;
    struct replay_total one = {
        .steps = x->weight,
        .looked_at = 1,
        .queries = x->queries * x->weight,
        .contexts = x->contexts * x->weight,
        .kv_tokens = x->kv_tokens * x->weight,
        .prefill = x->prefill,
        .moves = x->moves,
        .copied = x->copied,
        .planned = x->planned,
        .peak_pages = x->pages,
        .error = x->error,
        .plan_s = x->plan_s * (double)x->planned,
        .exposed_s = x->exposed_s * (double)x->planned,
    };
#define WEIGHTED(field) one.field = (double)x->field * w
    WEIGHTED(kv), WEIGHTED(q), WEIGHTED(mask), WEIGHTED(scores), WEIGHTED(partials), WEIGHTED(out);
    WEIGHTED(attention_s), WEIGHTED(other_s), WEIGHTED(moves_s), WEIGHTED(step_s), WEIGHTED(cache_s);
    WEIGHTED(idle_s), WEIGHTED(host_s), WEIGHTED(extend_s);
#undef WEIGHTED
    replay_add(sum, &one);
}

/* ---- a looked-at step ---------------------------------------------------------------------------------- */

struct sample {
    int64_t t, weight;
    int64_t from; /* the plan is made of that step's tree, or what it leaves open was chosen for it */
    int64_t prefill, moves, copied, planned, pages;
    double cache_s, kept_s;    /* kept_s: to see what can be kept */
    struct tree *tree, *apart; /* apart: as plans see it where queries have copies; else NULL */
    struct trace_parts parts;
    struct pool_step moved;
    bool check, covered; /* compare what is computed; see that plans cover their tree */
};

/* A plan, and the tree it is made of. */
struct kept {
    int64_t from;     /* step; 0: none */
    struct nform *nf; /* with its tree */
    struct plan *plan;
    double plan_s;
};

/* A strategy with what it chose. */
struct choice {
    int64_t from; /* step; 0: none */
    struct strategy_use use;
};

/* A step of the trace, before it is its turn. */
struct ahead {
    int64_t t; /* 0: none */
    struct tree *tree;
    struct trace_parts parts;
};

/* Of one replay_source. */
struct pass {
    const struct replay *r;
    const struct replay_source *src;
    int32_t first, last; /* strategies first .. last - 1 */
    const struct replay_total *total;
    struct pool *pool;
    struct private_kv *copies;      /* NULL: all share the pool */
    struct kept *kept;          /* [n_use]; NULL where steps are simulated, at once and in any order */
    struct choice *choice;      /* the same */
    struct replay_row *pending; /* started and not yet collected */
    struct kept shape;          /* the step since which plans, or choices, are kept, without a plan */
    struct ahead ahead;
    int64_t *page_off, table_cap, off_cap;
    int32_t *page_table;
    int64_t executed;
};

static void kept_clear(struct kept *k)
{
    plan_free(k->plan);
    nform_free_with_tree(k->nf);
    *k = (struct kept){0};
}

static void ahead_clear(struct ahead *a)
{
    tree_free(a->tree);
    trace_parts_free(&a->parts);
    *a = (struct ahead){0};
}

static void sample_clear(struct sample *s)
{
    tree_free(s->tree);
    tree_free(s->apart);
    trace_parts_free(&s->parts);
    *s = (struct sample){0};
}

/* The tree of step `from` as plans see it. */
static struct tree *tree_of(const struct pass *ps, const struct sample *s, int64_t from)
{
    if (from == s->t)
        return tree_copy(s->apart ? s->apart : s->tree);
    struct tree *tree = trace_tree(ps->src->trace, from);
    if (ps->copies) {
        struct tree *apart = tree_apart(tree);
        tree_free(tree);
        tree = apart;
    }
    return tree;
}

static bool keeps_choice(const struct replay *r, int32_t use)
{
    return r->replan == REPLAN_CHOICE && r->use[use].s->choose;
}

/* The strategy with what it chose for step s->from, an earlier one. */
static struct strategy_use old_choice(const struct pass *ps, const struct sample *s, int32_t use)
{
    if (ps->choice && ps->choice[use].from == s->from)
        return ps->choice[use].use;
    struct nform *nf = nform_new(tree_of(ps, s, s->from));
    struct strategy_use chosen = strategy_chosen(&ps->r->use[use], nf, &ps->r->env);
    nform_free_with_tree(nf);
    return chosen;
}

/* Plan the tree of step `from` into *k; false with why[] if the strategy does not apply. */
static bool make_plan(const struct pass *ps, const struct sample *s, int32_t use, int64_t from,
                      struct kept *k, char *why)
{
    bool keeps = keeps_choice(ps->r, use), anew = keeps && s->from == from;
    struct strategy_use u = keeps && !anew ? old_choice(ps, s, use) : ps->r->use[use];
    struct tree *tree = tree_of(ps, s, from);
    double start = host_s();
    k->from = from;
    k->nf = nform_new(tree);
    if (anew)
        u = strategy_chosen(&u, k->nf, &ps->r->env);
    k->plan = strategy_plan(&u, k->nf, &ps->r->env, why);
    k->plan_s = host_s() - start;
    if (keeps && ps->choice)
        ps->choice[use] = (struct choice){s->from, u};
    return k->plan != NULL;
}

static void count_row(const struct replay *r, const struct sample *s, const struct plan *p,
                      struct replay_row *row)
{
    struct ledger l = ledger_of_plan(p, &r->env.heads);
    struct trace_count count = trace_count_tree(s->tree);
    int64_t layers = r->model->layers;
    row->groups = p->n_groups;
    row->launches = l.launches;
    row->kv = l.kv * layers;
    row->q = l.q * layers;
    row->mask = l.mask * layers;
    row->scores = ledger_scores(&l) * layers;
    row->partials = ledger_partials(&l) * layers;
    row->out = l.out * layers;
    row->queries = count.queries;
    row->nodes = count.nodes;
    row->kv_tokens = count.kv_tree;
    row->contexts = count.kv_seq;
    row->step = s->t;
    row->weight = s->weight;
    row->pages = s->pages;
    row->prefill = s->prefill;
    row->moves = s->moves;
    row->copied = s->copied;
    row->planned = s->planned;
    row->cache_s = s->cache_s;
}

static double exposed(enum replan replan, double plan_s, double step_s)
{
    return replan == REPLAN_ASYNC ? fmax(0, plan_s - step_s) : plan_s;
}

static void set_times(const struct replay *r, const struct replay_times *x, struct replay_row *row)
{
    row->attention_s = x->attention_s;
    row->other_s = x->other_s;
    /* what runs has moved the tokens of all steps since the last one looked at */
    row->moves_s = simulated(r->exec) ? x->moves_s : x->moves_s / (double)row->weight;
    row->idle_s = x->idle_s;
    row->step_s = x->step_s - x->moves_s + row->moves_s;
    row->host_s = x->host_s;
    row->error = x->error;
    row->exposed_s = exposed(r->replan, row->plan_s, row->step_s);
}

static bool simulate(const struct pass *ps, const struct replay_step *s, const struct plan *p,
                     struct replay_row *row, struct err *e)
{
    const struct executor *x = ps->r->exec;
    struct replay_times times;
    bool good = x->run(x->self, s, p, &times, e);
    if (good)
        set_times(ps->r, &times, row);
    return good;
}

static bool collect(struct pass *ps, struct err *e)
{
    const struct executor *x = ps->r->exec;
    struct replay_times times;
    if (!ps->pending)
        return true;
    bool good = x->collect(x->self, &times, e);
    if (good)
        set_times(ps->r, &times, ps->pending);
    ps->pending = NULL;
    return good;
}

/* The one before has run, or runs meanwhile. */
static bool start(struct pass *ps, const struct replay_step *s, const struct plan *p, struct replay_row *row,
                  struct err *e)
{
    const struct executor *x = ps->r->exec;
    if (!x->start(x->self, s, p, e) || !collect(ps, e))
        return false;
    ps->pending = row;
    return true;
}

/* While the step runs, get the next one of the trace: no engine's steps would wait for that. Then wait for the step, unless the
 * next one is planned meanwhile. */
static bool wait_for(struct pass *ps, int64_t t, struct err *e)
{
    const struct executor *x = ps->r->exec;
    if (t < ps->src->last) {
        ps->ahead.t = t + 1;
        ps->ahead.tree = trace_step(ps->src->trace, t + 1, &ps->ahead.parts);
    }
    return ps->r->replan == REPLAN_ASYNC || x->finish(x->self, e);
}

static bool run_plan(struct pass *ps, const struct sample *s, const struct plan *p, struct replay_row *row,
                     struct err *e)
{
    const struct replay *r = ps->r;
    struct replay_step step = {.t = s->t,
                               .tree = s->apart ? s->apart : s->tree,
                               .parts = &s->parts,
                               .moved = &s->moved,
                               .nf = p->nf,
                               .page_off = ps->page_off,
                               .page_table = ps->page_table,
                               .check = s->check};
    if (!simulated(r->exec) && !start(ps, &step, p, row, e))
        return false;
    count_row(r, s, p, row);
    return simulated(r->exec) ? simulate(ps, &step, p, row, e) : wait_for(ps, s->t, e);
}

/* One strategy on one step. 1: a row; 0: does not apply, why[] says why; -1: failed, *e says how. */
static int run_use(struct pass *ps, const struct sample *s, int32_t use, struct replay_row *row, char *why,
                   struct err *e)
{
    const struct strategy *strategy = ps->r->use[use].s;
    struct kept own = {0}, *k = ps->kept ? &ps->kept[use] : &own;
    int64_t from = ps->r->replan == REPLAN_SHAPE ? s->from : s->t;
    struct kept longer = {0};
    bool keeps = ps->r->replan == REPLAN_SHAPE || keeps_choice(ps->r, use);
    *row = (struct replay_row){.use = use, .source = ps->src->number, .extend_s = keeps ? s->kept_s : 0};
    if (k->from != from) {
        kept_clear(k);
        if (!make_plan(ps, s, use, from, k, why)) {
            kept_clear(k);
            return 0;
        }
    }
    if (from != s->t) {
        struct tree *tree = tree_of(ps, s, s->t);
        double start = host_s();
        longer.nf = nform_new(tree);
        longer.plan = plan_extend(k->plan, longer.nf);
        row->extend_s += (host_s() - start) * (double)(s->weight - s->planned) / (double)s->weight;
    }
    const struct plan *p = longer.plan ? longer.plan : k->plan;
    row->plan_s = k->plan_s;
    bool good = !s->covered ||
                strategy == &replay_no_attention || /* what counts and runs it trusts its indices */
                cover_check_of(p, strategy->name, e, "step %" PRId64, s->t);
    good = good && run_plan(ps, s, p, row, e);
    kept_clear(&longer);
    kept_clear(&own);
    return good ? 1 : -1;
}

/* What a step came to, [n_use] each. */
struct outcome {
    struct replay_row *row;
    int8_t *result;
    char (*why)[WHY_MAX];
    struct err e;
};

static bool run_sample(struct pass *ps, const struct sample *s, struct outcome *o)
{
    bool good = true;
    for (int32_t i = ps->first; i < ps->last && good; i++) {
        if (ps->total[i].fate != FATE_RAN)
            continue;
        o->result[i] = (int8_t)run_use(ps, s, i, &o->row[i], o->why[i], &o->e);
        good = o->result[i] >= 0;
    }
    return good;
}

/* ---- the steps in order -------------------------------------------------------------------------------- */

static bool keeps_any(const struct pass *ps)
{
    bool any = ps->r->replan == REPLAN_SHAPE;
    for (int32_t i = ps->first; i < ps->last && !any; i++)
        any = keeps_choice(ps->r, i);
    return any;
}

/* Whose plan, or choice, is good enough for step t? Since then the tree has had its shape. */
static int64_t kept_from(struct pass *ps, const struct tree *tree, int64_t t)
{
    if (!keeps_any(ps))
        return t;
    struct nform *nf = nform_new(tree_copy(tree));
    bool old = ps->r->replan == REPLAN_CHOICE && t - ps->shape.from >= CHOICE_STEPS;
    if (ps->shape.from && !old && plan_extends(ps->shape.nf, nf)) {
        nform_free_with_tree(nf);
        return ps->shape.from;
    }
    kept_clear(&ps->shape);
    ps->shape = (struct kept){.from = t, .nf = nf};
    return t;
}

static struct tree *take_step(struct pass *ps, int64_t t, struct trace_parts *parts)
{
    if (ps->ahead.t != t)
        return trace_step(ps->src->trace, t, parts);
    struct tree *tree = ps->ahead.tree;
    *parts = ps->ahead.parts;
    ps->ahead = (struct ahead){0};
    return tree;
}

static void make_table(struct pass *ps, const struct sample *s)
{
    ps->page_off = xgrow(ps->page_off, &ps->off_cap, s->tree->n_nodes + 1, sizeof *ps->page_off);
    pool_table(ps->pool, s->tree, &s->parts, ps->page_off, &ps->page_table, &ps->table_cap);
}

/* The pool, and the device, from the step before to step t, which becomes s->tree. */
static bool advance(struct pass *ps, struct sample *s, int64_t t, struct err *e)
{
    const struct executor *x = ps->r->exec;
    struct pool_step moved;
    sample_clear(s);
    s->tree = take_step(ps, t, &s->parts);
    s->t = t;
    double start = host_s();
    if (!pool_advance(ps->pool, s->tree, &s->parts, t, &moved, e))
        return false;
    s->cache_s = host_s() - start;
    s->moved = moved;
    start = host_s();
    s->from = kept_from(ps, s->tree, t);
    s->kept_s = host_s() - start;
    struct private_kv_step copied = {0};
    if (ps->copies) {
        start = host_s();
        make_table(ps, s);
        copied = private_kv_advance(ps->copies, s->tree, &s->parts, ps->page_off, ps->page_table);
        s->cache_s += host_s() - start;
        s->copied = copied.n;
    }
    struct replay_step step = {
        .t = t, .tree = s->tree, .parts = &s->parts, .moved = &s->moved, .copied = &copied};
    return simulated(x) || x->advance(x->self, &step, e);
}

/*
 * Which of steps first .. last, K of them, stands for all. From one K to the next the place moves on by K
 * times the golden ratio, fractions kept, so that it has no period. Some things have one, as how tokens are
 * aligned, which decides what cuBLAS does. A place with the same period would meet them always alike.
 */
static int64_t place_of(int64_t every, int64_t first, int64_t last)
{
    if (last - first + 1 < every)
        return (first + last) / 2;
    uint64_t block = (uint64_t)(first - 1) / (uint64_t)every;
    uint64_t at =
        block * UINT64_C(0x9E3779B97F4A7C15) + (UINT64_C(1) << 63); /* of 2^64: block * 0.618 + 0.5 */
    return first + (int64_t)((at >> 32) * (uint64_t)every >> 32);
}

/*
 * Steps first .. last, one of which is looked at: *s. An executor that does not simulate runs it as soon as
 * it is reached. `run`: they have not been run before.
 */
static bool take_steps(struct pass *ps, int64_t first, int64_t last, bool run, struct sample *s,
                       struct outcome *o, struct err *e)
{
    int64_t place = place_of(ps->r->every, first, last), prefill = 0, moves = 0, copied = 0, planned = 0;
    double cache_s = 0;
    struct sample now = {0};
    bool good = true;
    for (int64_t t = first; t <= last && good; t++) {
        good = advance(ps, &now, t, e);
        if (!good)
            break;
        prefill += now.moved.fresh_tokens - now.tree->n_queries;
        moves += now.moved.n_moves;
        copied += now.copied;
        planned += ps->r->replan != REPLAN_SHAPE || now.from == t;
        cache_s += now.cache_s;
        if (t != place || !run)
            continue;
        double start = host_s();
        if (ps->copies) {
            now.apart = tree_apart(now.tree);
            ps->page_off = xgrow(ps->page_off, &ps->off_cap, now.apart->n_nodes + 1, sizeof *ps->page_off);
            private_kv_table(ps->copies, now.apart, ps->page_off, &ps->page_table, &ps->table_cap);
        } else {
            make_table(ps, &now);
        }
        double table_s = host_s() - start;
        now.weight = last - first + 1;
        now.pages = pool_stats(ps->pool).in_use;
        now.check = ps->r->check > 0 && ps->executed % ps->r->check == 0;
        now.covered = ps->executed % COVER_EVERY == 0;
        ps->executed++;
        *s = now;
        s->cache_s = table_s;
        now = (struct sample){0};
        if (!simulated(ps->r->exec))
            good = run_sample(ps, s, o);
        s->moved.move = NULL; /* the pool's, and gone with the next step */
        s->moved.fresh = NULL;
    }
    sample_clear(&now);
    if (run) {
        s->prefill = prefill;
        s->moves = moves;
        s->copied = copied;
        s->planned = planned;
        s->cache_s += cache_s / (double)(last - first + 1);
    }
    return good;
}

/* The first of the outcomes says what went wrong. */
static bool first_error(const struct outcome *o, int64_t n, struct err *e)
{
    for (int64_t k = 0; k < n && e; k++)
        if (o[k].e.code) {
            *e = o[k].e;
            break;
        }
    return false;
}

static void keep_outcome(const struct pass *ps, const struct sample *s, struct outcome *o,
                         struct replay_log *log, struct replay_total *total)
{
    for (int32_t i = ps->first; i < ps->last; i++) {
        struct replay_row *row = &o->row[i];
        if (total[i].fate != FATE_RAN)
            continue;
        if (o->result[i] == 0) {
            total[i].fate = FATE_SKIPPED;
            snprintf(total[i].why, sizeof total[i].why, "%.200s", o->why[i]);
            if (log)
                replay_log_skip(log, ps->src->number, i, s->t, o->why[i]);
            continue;
        }
        /* known only when the last of the steps it stands for had been seen */
        row->prefill = s->prefill;
        row->moves = s->moves;
        row->copied = s->copied;
        row->planned = s->planned;
        row->cache_s = s->cache_s;
        add_row(&total[i], row);
        if (log)
            replay_log_row(log, row);
    }
}

static struct outcome outcome_new(int32_t n_use)
{
    return (struct outcome){.row = xcalloc((size_t)n_use, sizeof(struct replay_row)),
                            .result = xcalloc((size_t)n_use, sizeof(int8_t)),
                            .why = xcalloc((size_t)n_use, WHY_MAX)};
}

static void outcome_free(struct outcome *o)
{
    free(o->row);
    free(o->result);
    free(o->why);
}

static bool take_portion(struct pass *ps, int64_t first, int64_t last, struct replay_log *log,
                         struct replay_total *total, struct progress *progress, struct err *e)
{
    int64_t n = ceil_div(last - first + 1, ps->r->every);
    struct sample *sample = xcalloc((size_t)n, sizeof *sample);
    struct outcome *o = xcalloc((size_t)n, sizeof *o);
    bool good = true;
    for (int64_t k = 0; k < n; k++)
        o[k] = outcome_new(ps->r->n_use);
    for (int64_t k = 0; k < n && good; k++) {
        int64_t t = first + k * ps->r->every;
        good = take_steps(ps, t, min_i64(t + ps->r->every - 1, last), true, &sample[k], &o[k], e);
        if (!simulated(ps->r->exec) && progress)
            progress_step(progress);
    }
    if (good && simulated(ps->r->exec)) {
#pragma omp parallel for schedule(dynamic, 1) reduction(&& : good)
        for (int64_t k = 0; k < n; k++) {
            good = run_sample(ps, &sample[k], &o[k]) && good;
            if (progress)
#pragma omp critical
                progress_step(progress);
        }
    }
    good = good && collect(ps, e);
    good = good || first_error(o, n, e);
    for (int64_t k = 0; k < n; k++) {
        if (good)
            keep_outcome(ps, &sample[k], &o[k], log, total);
        sample_clear(&sample[k]);
        outcome_free(&o[k]);
    }
    free(sample);
    free(o);
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

static struct private_kv *new_copies(const struct replay *r, const struct replay_source *src)
{
    struct private_kv_spec s = lanes_of(r, src);
    return private_kv_new(&s);
}

/* The storage of the strategy's plan of the first step. */
static enum storage storage_of(const struct replay *r, const struct replay_source *src, int32_t use)
{
    struct tree *tree = trace_tree(src->trace, 1);
    struct nform *nf = nform_new(tree);
    char why[WHY_MAX];
    struct plan *p = strategy_plan(&r->use[use], nf, &r->env, why);
    enum storage storage = p ? p->storage : STORAGE_SHARED;
    plan_free(p);
    nform_free(nf);
    tree_free(tree);
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
    ps->copies = total[ps->first].made ? new_copies(ps->r, ps->src) : NULL;
    ps->executed = 0;
    for (int64_t t = 1; t <= done && good; t++)
        good = take_steps(ps, t, t, false, NULL, NULL, e);
    for (int64_t t = done + 1; t <= ps->src->last && good;) {
        int64_t last = min_i64(t + PORTION * every - 1, ps->src->last);
        good = take_portion(ps, t, last, log, total, progress, e) &&
               (!log || replay_log_mark(log, ps->src->number, name, last));
        t = last + 1;
    }
    pool->peak = max_i64(pool->peak, pool_stats(ps->pool).peak);
    pool->leaked += pool_drain(ps->pool);
    ps->pending = NULL; /* if it failed before that ended */
    pool_free(ps->pool);
    private_kv_free(ps->copies);
    for (int32_t i = 0; ps->kept && i < ps->r->n_use; i++)
        kept_clear(&ps->kept[i]);
    kept_clear(&ps->shape);
    ahead_clear(&ps->ahead);
    return good;
}

/* ---- a source ------------------------------------------------------------------------------------------ */

/* Who cannot run at all, by the first step and by the bytes that storage takes. */
static void find_fates(const struct replay *r, const struct replay_source *src, const struct replay_log *log,
                       struct replay_total *total)
{
    struct tree *tree = trace_tree(src->trace, 1);
    struct nform *nf = nform_new(tree);
    int64_t most[STORAGE_REPLICATED_SUFFIX + 1] = {0};
    bool made = replay_copies(r, src, r->private_kv_pages) > 0;
    for (int32_t i = 0; i < r->n_use; i++) {
        const char *why = log ? replay_log_skipped(log, src->number, i) : NULL;
        total[i] = (struct replay_total){.error = NAN};
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
        double kv = (double)most[p->storage] * (double)token_bytes(r),
               needs = replay_weights(r) + kv + RESERVE;
        if (kv > 0 && needs > r->memory) {
            total[i].fate = FATE_OOM;
            total[i].needs = needs;
            snprintf(total[i].why, sizeof total[i].why, "OOM (needs %.1f GiB)", needs / 0x1p30);
        }
        plan_free(p);
    }
    nform_free(nf);
    tree_free(tree);
}

/* Those that a log holds. They stand for all steps that it says are done. */
static bool add_known_rows(const struct replay *r, const struct replay_log *log, int32_t source,
                           struct replay_total *total, struct err *e)
{
    int64_t n = 0;
    const struct replay_row *row = log ? replay_log_rows(log, &n) : NULL;
    for (int64_t k = 0; k < n; k++)
        if (row[k].source == source && total[row[k].use].fate == FATE_RAN)
            add_row(&total[row[k].use], &row[k]);
    for (int32_t i = 0; i < r->n_use && log; i++) {
        int64_t done = replay_log_done(log, source, simulated(r->exec) ? ALL_AT_ONCE : i);
        if (total[i].fate == FATE_RAN && total[i].steps != done)
            return err_set(e, "rows of %s: %" PRId64 " steps of source %" PRId32 " (expected %" PRId64 ")",
                           r->use[i].s->name, total[i].steps, source, done);
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
static bool leave_out(const struct replay_source *src, int32_t use, const char *why, struct replay_log *log,
                      struct replay_total *total)
{
    *total = (struct replay_total){
        .fate = FATE_SKIPPED, .copies = total->copies, .made = total->made, .error = NAN};
    snprintf(total->why, sizeof total->why, "%.200s", why);
    if (!log)
        return true;
    replay_log_skip(log, src->number, use, src->last, total->why);
    return replay_log_mark(log, src->number, use, src->last);
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
                good = leave_out(src, i, own.msg, log, &total[i]);
                if (progress)
                    progress_drop(progress, left_of(&ps, i, log));
            } else if (!good && own.code)
                *e = own;
        }
        free(ps.kept);
        free(ps.choice);
    }
    free(ps.page_off);
    free(ps.page_table);
    return good;
}
