#include "verify/replay/steps.h"

#include "sim/plan_extend.h"
#include "sim/plan_ledger.h"
#include "verify/judge/cover.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void kept_clear(struct kept_plan *k)
{
    plan_free(k->plan);
    nform_free_with_tree(k->nf);
    *k = (struct kept_plan){0};
}

void steps_clear(struct pass *ps)
{
    for (int32_t i = 0; ps->kept && i < ps->r->n_use; i++)
        kept_clear(&ps->kept[i]);
    kept_clear(&ps->shape);
    step_free(&ps->ahead);
}

void sample_clear(struct sample *s)
{
    step_free(&s->step);
    tree_free(s->apart);
    free(s->outcome);
    *s = (struct sample){0};
}

/* The tree of step `from` as plans see it. */
static struct tree *tree_of(const struct pass *ps, const struct sample *s, int64_t from)
{
    if (from == s->step.t)
        return tree_copy(s->apart ? s->apart : s->step.tree);
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
                      struct kept_plan *k, char *why)
{
    bool keeps = keeps_choice(ps->r, use), anew = keeps && s->from == from;
    struct strategy_use u = keeps && !anew ? old_choice(ps, s, use) : ps->r->use[use];
    struct tree *tree = tree_of(ps, s, from);
    double start = thread_s();
    k->from = from;
    k->nf = nform_new(tree);
    if (anew)
        u = strategy_chosen(&u, k->nf, &ps->r->env);
    k->plan = strategy_plan(&u, k->nf, &ps->r->env, why);
    k->plan_s = thread_s() - start;
    if (keeps && ps->choice)
        ps->choice[use] = (struct step_choice){s->from, u};
    return k->plan != NULL;
}

static void count_row(const struct replay *r, const struct sample *s, const struct plan *p,
                      struct replay_row *row)
{
    struct ledger l = ledger_of_plan(p, &r->env.heads);
    struct trace_count count = trace_count_tree(s->step.tree);
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
}

/* What the executor says, beside what the host took: x->cache_s, extend_s, plan_s and exposed_s are not its own. */
static void set_times(const struct replay *r, const struct step_times *x, struct replay_row *row)
{
    struct step_times t = *x, *host = &row->time;
    /* what runs has moved the tokens of all steps since the last one looked at */
    t.moves_s = simulated(r->exec) ? x->moves_s : x->moves_s / (double)row->weight;
    t.step_s = x->step_s - x->moves_s + t.moves_s;
    t.cache_s = host->cache_s;
    t.extend_s = host->extend_s;
    t.plan_s = host->plan_s;
    t.exposed_s = r->replan == REPLAN_ASYNC ? fmax(0, t.plan_s - t.step_s) : t.plan_s;
    row->time = t;
}

static bool simulate(const struct pass *ps, const struct step *s, struct replay_row *row, struct err *e)
{
    const struct executor *x = ps->r->exec;
    struct step_times times;
    bool good = x->run(x->self, s, &times, e);
    if (good)
        set_times(ps->r, &times, row);
    return good;
}

bool steps_collect(struct pass *ps, struct err *e)
{
    const struct executor *x = ps->r->exec;
    struct step_times times;
    if (!ps->pending)
        return true;
    bool good = x->collect(x->self, &times, e);
    if (good)
        set_times(ps->r, &times, ps->pending);
    ps->pending = NULL;
    return good;
}

/* The one before has run, or runs meanwhile. */
static bool start(struct pass *ps, const struct step *s, struct replay_row *row, struct err *e)
{
    const struct executor *x = ps->r->exec;
    if (!x->start(x->self, s, e) || !steps_collect(ps, e))
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

static bool run_plan(struct pass *ps, const struct sample *s, struct plan *p, struct replay_row *row,
                     struct err *e)
{
    const struct replay *r = ps->r;
    struct step step = s->step;
    step.tree = s->apart ? s->apart : step.tree;
    step.plan = p;
    step.use = &r->use[row->use];
    step.page_off = ps->page_off;
    step.page_table = ps->page_table;
    if (!simulated(r->exec) && !start(ps, &step, row, e))
        return false;
    count_row(r, s, p, row);
    return simulated(r->exec) ? simulate(ps, &step, row, e) : wait_for(ps, step.t, e);
}

/* One strategy on one step. 1: a row; 0: does not apply, why[] says why; -1: failed, *e says how. */
static int run_use(struct pass *ps, const struct sample *s, int32_t use, struct replay_row *row, char *why,
                   struct err *e)
{
    const struct strategy *strategy = ps->r->use[use].s;
    struct kept_plan own = {0}, *k = ps->kept ? &ps->kept[use] : &own;
    int64_t from = ps->r->replan == REPLAN_SHAPE ? s->from : s->step.t;
    struct kept_plan longer = {0};
    bool keeps = ps->r->replan == REPLAN_SHAPE || keeps_choice(ps->r, use);
    *row = s->row;
    row->use = use;
    row->time.extend_s = keeps ? s->kept_s : 0;
    if (k->from != from) {
        kept_clear(k);
        if (!make_plan(ps, s, use, from, k, why)) {
            kept_clear(k);
            return 0;
        }
    }
    if (from != s->step.t) {
        struct tree *tree = tree_of(ps, s, s->step.t);
        double start = thread_s();
        longer.nf = nform_new(tree);
        longer.plan = plan_extend(k->plan, longer.nf);
        row->time.extend_s +=
            (thread_s() - start) * (double)(row->weight - row->planned) / (double)row->weight;
    }
    struct plan *p = longer.plan ? longer.plan : k->plan;
    row->time.plan_s = k->plan_s;
    bool good = !s->covered ||
                strategy == &replay_no_attention || /* what counts and runs it trusts its indices */
                cover_check_of(p, strategy->name, e, "step %" PRId64, s->step.t);
    struct err lacks = {0};
    bool ran = good && run_plan(ps, s, p, row, &lacks);
    /* a part of the tree, on one of several cards, may be none for the strategy */
    bool inapplicable = good && !ran && lacks.code == EXIT_MISSING && simulated(ps->r->exec);
    if (inapplicable)
        snprintf(why, WHY_MAX, "%.255s", lacks.msg);
    else if (good && !ran && !e->code)
        *e = lacks;
    good = good && ran;
    kept_clear(&longer);
    kept_clear(&own);
    return good ? 1 : inapplicable ? 0 : -1;
}

bool sample_run(struct pass *ps, struct sample *s)
{
    bool good = true;
    for (int32_t i = ps->first; i < ps->last && good; i++) {
        struct outcome *o = &s->outcome[i];
        if (ps->total[i].fate != FATE_RAN)
            continue;
        o->result = (int8_t)run_use(ps, s, i, &o->row, o->why, &s->e);
        good = o->result >= 0;
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
    ps->shape = (struct kept_plan){.from = t, .nf = nf};
    return t;
}

static void make_table(struct pass *ps, const struct step *s)
{
    ps->page_off = xgrow(ps->page_off, &ps->off_cap, s->tree->n_nodes + 1, sizeof *ps->page_off);
    pool_table(ps->pool, s->tree, &s->parts, ps->page_off, &ps->page_table, &ps->table_cap);
}

/* The pool, and the device, from the step before to step t, which becomes *sample. */
static bool advance(struct pass *ps, struct sample *sample, int64_t t, struct err *e)
{
    const struct executor *x = ps->r->exec;
    struct step *s = &sample->step;
    sample_clear(sample);
    if (ps->ahead.t == t) {
        *s = ps->ahead;
        ps->ahead = (struct step){0};
    } else {
        *s = (struct step){.t = t};
        s->tree = trace_step(ps->src->trace, t, &s->parts);
    }
    double start = thread_s();
    if (!pool_advance(ps->pool, s->tree, &s->parts, t, &s->moved, e))
        return false;
    s->pool_s = thread_s() - start;
    for (int64_t i = 0; i < s->moved.n_moves && ps->placement; i++)
        placement_follow(ps->placement, (int32_t)(s->moved.move[i].from / ps->r->page_size),
                         (int32_t)(s->moved.move[i].to / ps->r->page_size));
    start = thread_s();
    sample->from = kept_from(ps, s->tree, t);
    sample->kept_s = thread_s() - start;
    if (ps->copies) {
        start = thread_s();
        make_table(ps, s);
        s->copied = private_kv_advance(ps->copies, s->tree, &s->parts, ps->page_off, ps->page_table);
        s->pool_s += thread_s() - start;
    }
    return simulated(x) || x->advance(x->self, s, e);
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

/* The step's pages on cards. */
static void deal_out(struct pass *ps, struct step *s)
{
    int32_t n = ps->r->n_cards, size = ps->r->page_size;
    placement_advance(ps->placement, s->tree, ps->page_off, ps->page_table, size);
    s->n_views = n;
    s->view = xcalloc((size_t)n, sizeof *s->view);
    for (int32_t c = 0; c < n; c++)
        s->view[c] = placement_view(ps->placement, c, s->tree, ps->page_off, ps->page_table, size, true);
}

/* What the step is for all strategies. The page table is made, and is the host's work, too. */
static void look_at(struct pass *ps, struct sample *s, int64_t weight)
{
    struct step *step = &s->step;
    double start = thread_s();
    if (ps->copies) {
        s->apart = tree_apart(step->tree);
        ps->page_off = xgrow(ps->page_off, &ps->off_cap, s->apart->n_nodes + 1, sizeof *ps->page_off);
        private_kv_table(ps->copies, s->apart, ps->page_off, &ps->page_table, &ps->table_cap);
    } else {
        make_table(ps, step);
    }
    if (ps->placement)
        deal_out(ps, step);
    s->row = (struct replay_row){.source = ps->src->number,
                                 .step = step->t,
                                 .weight = weight,
                                 .pages = pool_stats(ps->pool).in_use,
                                 .time.cache_s = thread_s() - start};
    step->check = ps->r->check > 0 && ps->executed % ps->r->check == 0;
    s->covered = ps->executed % COVER_EVERY == 0;
    s->outcome = xcalloc((size_t)ps->r->n_use, sizeof *s->outcome);
    ps->executed++;
}

bool steps_take(struct pass *ps, int64_t first, int64_t last, bool run, struct sample *s, struct err *e)
{
    int64_t place = place_of(ps->r->every, first, last);
    struct replay_row all = {0}; /* what all steps come to */
    struct sample now = {0};
    bool good = true;
    for (int64_t t = first; t <= last && good; t++) {
        if (!(good = advance(ps, &now, t, e)))
            break;
        all.prefill += now.step.moved.fresh_tokens - now.step.tree->n_queries;
        all.moves += now.step.moved.n_moves;
        all.copied += now.step.copied.n;
        all.planned += ps->r->replan != REPLAN_SHAPE || now.from == t;
        all.time.cache_s += now.step.pool_s;
        if (t != place || !run)
            continue;
        look_at(ps, &now, last - first + 1);
        *s = now;
        now = (struct sample){0};
        if (!simulated(ps->r->exec))
            good = sample_run(ps, s);
        s->step.moved.move = NULL; /* the pool's, and gone with the next step */
        s->step.moved.fresh = NULL;
    }
    sample_clear(&now);
    if (run) {
        s->row.prefill = all.prefill;
        s->row.moves = all.moves;
        s->row.copied = all.copied;
        s->row.planned = all.planned;
        s->row.time.cache_s += all.time.cache_s / (double)(last - first + 1);
    }
    return good;
}
