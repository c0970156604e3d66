/*
 * check_replay.c - replays on the model of a machine: the same bytes and times as the simulator's, whatever is
 * sampled, resumed, or planned late; and what goes wrong, in one line.
 */
#include "sim/plan_extend.h"
#include "verify/cases/case.h"
#include "verify/cli/cmd.h"
#include "verify/judge/cover.h"
#include "verify/replay/on_decoder.h"
#include "verify/replay/log.h"
#include "verify/replay/on_machine.h"
#include "verify/replay/report.h"
#include "verify/model/simulate_steps.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a replay of one trace ----------------------------------------------------------------------------- */

struct setting {
    struct machine mc;
    struct replay_machine sim;
    struct executor exec;
    struct replay replay;
    struct strategy_use *use;
    struct trace *trace;
    struct replay_source src;
    struct replay_total *total;
    struct replay_pool pool;
};

static void set(struct setting *s, const char *machine, const char *model, const char *list, const char *spec,
                struct trace_opts opts)
{
    struct err e = {0};
    *s = (struct setting){0};
    ck_assert_msg(machine_parse(machine, &s->mc, &e), "%s", e.msg);
    const struct model *m = model_find(model, &e);
    ck_assert_ptr_nonnull(m);
    struct replay *r = &s->replay;
    *r = (struct replay){
        .model = m,
        .env = {.heads = model_heads(m, DT_F16), .machine = &s->mc},
        .every = 1,
        .page_size = 16,
        .memory = s->mc.memory,
        .exec = &s->exec,
    };
    ck_assert_msg(case_strategies(list, &s->use, &r->n_use, &e), "%s", e.msg);
    r->use = s->use;
    r->n_pages = replay_pages(r, r->memory);
    s->sim = (struct replay_machine){
        .mc = &s->mc, .model = m, .heads = r->env.heads, .coefs = time_model_coefs_default()};
    s->exec = replay_on_machine(&s->sim);
    s->trace = trace_open(spec, &opts, &e);
    ck_assert_msg(s->trace != NULL, "%s", e.msg);
    s->src = (struct replay_source){.trace = s->trace, .last = trace_steps(s->trace)};
    s->total = xcalloc((size_t)r->n_use, sizeof *s->total);
}

static void setting_free(struct setting *s)
{
    trace_close(s->trace);
    free(s->use);
    free(s->total);
}

static bool go(struct setting *s, struct replay_log *log, struct err *e)
{
    return replay_source(&s->replay, &s->src, log, s->total, &s->pool, NULL, e);
}

static void assert_near(double a, double b, double share, const char *what)
{
    ck_assert_msg(fabs(a - b) <= share * fmax(fabs(a), fabs(b)), "%s: %.17g and %.17g", what, a, b);
}

static const struct {
    const char *spec;
    struct trace_opts opts;
} some_traces[] = {
    {"embedded:reasoning", {.prompt = 500, .max_seq = 700}},
    {"fewshot:20", {.prompt = 4000, .max_seq = 4060}},
    {"spec:64,3", {.prompt = 200, .max_seq = 300}},
    {"spec:64,3", {.prompt = 200, .max_seq = 300, .topology = true}},
    {"requests:24,2", {.batch = 8}},
};
enum { N_TRACES = sizeof some_traces / sizeof some_traces[0] };

/* ---- the simulator's figures --------------------------------------------------------------------------- */

static void assert_same(const struct setting *s, const struct simulated_row *row, int32_t i)
{
    const struct replay_total *x = &s->total[i];
    const struct ledger *l = &row->moved;
    double layers = s->replay.model->layers;
    ck_assert_int_eq(x->fate == FATE_SKIPPED, row->skipped_at > 0);
    if (x->fate != FATE_RAN)
        return;
    ck_assert_int_eq(x->weight, row->steps);
    ck_assert_int_eq(x->looked_at, row->steps);
    ck_assert_int_eq(x->planned, row->steps);
    ck_assert(x->kv == (double)l->kv * layers && x->q == (double)l->q * layers);
    ck_assert(x->mask == (double)l->mask * layers && x->out == (double)l->out * layers);
    ck_assert(x->scores == (double)ledger_scores(l) * layers);
    ck_assert(x->partials == (double)ledger_partials(l) * layers);
    assert_near(x->time.attention_s, row->time.latency_s * layers, 1e-9, s->use[i].s->name);
    assert_near(x->time.step_s, x->time.attention_s + x->time.other_s + x->time.moves_s, 1e-9, "whole");
}

TEST(figures_are_the_simulators)
{
    for (int k = 0; k < N_TRACES; k++) {
        CLEARED(setting) s;
        struct err e = {0};
        set(&s, "h100:memory=1e15", "llama-3-8b", NULL, some_traces[k].spec, some_traces[k].opts);
        struct simulation sweep = {.use = s.use,
                                   .n_use = s.replay.n_use,
                                   .env = s.replay.env,
                                   .mode = COUNT_TRUE,
                                   .timed = true,
                                   .coefs = s.sim.coefs};
        struct simulation_source src = {.trace = s.trace, .first = 1, .last = s.src.last};
        FREED struct simulated_row *row = xcalloc((size_t)s.replay.n_use, sizeof *row);
        MUST(go, &s, NULL);
        ck_assert(simulate_steps(&sweep, &src, s.replay.model->layers, row, NULL, &e));
        int64_t queries = 0, ran = 0;
        for (int64_t t = 1; t <= s.src.last; t++) {
            AUTO(tree) tree = trace_tree(s.trace, t);
            queries += tree->n_queries;
        }
        for (int32_t i = 0; i < s.replay.n_use; i++) {
            assert_same(&s, &row[i], i);
            if (s.total[i].fate == FATE_RAN) {
                ck_assert_int_eq(s.total[i].queries, queries);
                ran++;
            }
        }
        ck_assert_int_gt(ran, 10);
        ck_assert_int_eq(s.pool.leaked, 0);
    }
}

/* Planned at every step, or kept and made longer. */
TEST(a_wrong_plan_is_not_replayed)
{
    for (int when = 0; when < N_REPLANS; when++) {
        CLEARED(setting) s;
        struct err e = {0};
        set(&s, "h200", "llama-3-8b", "pat", some_traces[0].spec, some_traces[0].opts);
        s.use[0] = (struct strategy_use){.s = &forgetful};
        s.replay.replan = (enum replan)when;
        ck_assert(!go(&s, NULL, &e));
        ck_assert_int_eq(e.code, EXIT_FAILED);
        ck_assert_msg(strstr(e.msg, "the plan of forgetful for step 1 is wrong: "), "%s", e.msg);
    }
}

/* The products of a tiny model by hand: 128 wide, heads 4/2 of 64, 192 in the MLP, 256 words, 2 layers. */
TEST(other_kernels_by_hand)
{
    CLEARED(setting) s;
    set(&s, "h100:bandwidth=1e6,launch_ns=0,kernel_ns=0", "tiny", "pat", "fewshot:3",
        (struct trace_opts){.prompt = 50, .max_seq = 60});
    const double n = 3;
    double products = 512 * 128 + n * (512 + 128) + 128 * 256 + n * (128 + 256) + 384 * 128 +
                      n * (384 + 128) + 128 * 192 + n * (128 + 192);
    double between = n * (2 * 3 * 128 + 2 * 512 + 3 * 192);
    double once = n * (2 * 128 + 2 * 128) + 256 * 128 + n * (256 + 128) + n * 256;
    assert_near(replay_other_s(&s.sim, 3), 2e-6 / 0.87 * (2 * (products + between) + once), 1e-12, "bytes");
    /* and where the tensor cores are the limit: 16 rows for 3 queries */
    s.mc.bandwidth = 1e18;
    s.mc.tensor_flops = 1e6;
    assert_near(replay_other_s(&s.sim, 3), model_flops(s.replay.model) * 16 / 0.7e6, 1e-6, "operations");
    /* and where 2 * 8 + 4 kernels take time of their own */
    s.mc.tensor_flops = 1e18;
    s.mc.launch_ns = 1e9;
    s.mc.kernel_ns = 2e9;
    assert_near(replay_other_s(&s.sim, 3), 20 * 3, 1e-6, "kernels");
}

/* The same on two cards: half the heads, the MLP and the words each; 4 sums of 3 rows of 128 in fp32, 2 hops of half of it. */
TEST(cards_by_hand)
{
    CLEARED(setting) s;
    set(&s, "h100:bandwidth=1e6,launch_ns=0,kernel_ns=0,link_bandwidth=1e5,link_ns=7e6,hop_ns=3e6", "tiny", "pat",
        "fewshot:3", (struct trace_opts){.prompt = 50, .max_seq = 60});
    s.sim.n_cards = 2;
    const double n = 3;
    double products = 256 * 128 + n * (256 + 128) + 128 * 128 + n * (128 + 128) + 192 * 128 +
                      n * (192 + 128) + 128 * 96 + n * (128 + 96);
    double between = n * (2 * 3 * 128 + 2 * 256 + 3 * 96);
    double once = n * (2 * 128 + 2 * 128) + 128 * 128 + n * (128 + 128) + n * 128;
    double sum = 7e-3 + 2 * 3e-3 + 2 * (4 * 128 * n / 2) / 1e5;
    assert_near(replay_other_s(&s.sim, 3), 2e-6 / 0.87 * (2 * (products + between) + once) + 4 * sum, 1e-12,
                "two cards");
}

/* What a slower link costs: in each layer the two sums, and, where the tree is spread, what attention of the cards is merged from. */
LOOP_TEST(a_link_costs_what_goes_over_it, N_PARALLEL)
{
    double attention[2], other[2];
    for (int slow = 0; slow < 2; slow++) {
        CLEARED(setting) s;
        set(&s, slow ? "h200:link_ns=1e9" : "h200:link_ns=0", "llama-3-8b", "pat", some_traces[0].spec,
            some_traces[0].opts);
        s.sim.n_cards = s.replay.n_cards = 2;
        s.sim.parallel = s.replay.parallel = (enum parallel)_i;
        s.sim.env = s.replay.env;
        MUST(go, &s, NULL);
        attention[slow] = s.total[0].time.attention_s;
        other[slow] = s.total[0].time.other_s;
        if (slow)
            assert_near(other[1] - other[0], 2.0 * 32 * (double)s.total[0].weight, 1e-6, "sums");
        if (slow)
            assert_near(attention[1] - attention[0],
                        _i == PARALLEL_TENSOR ? 0 : 32 * (double)s.total[0].weight, 1e-6, "gathers");
    }
}

/* Where the link costs nothing, a step takes as long as the slowest of the cards does alone. A card alone has no link. */
LOOP_TEST(the_slowest_card_sets_the_pace, N_PARALLEL)
{
    double attention[3], other[3]; /* of both, of each alone */
    for (int32_t c = 0; c < 3; c++) {
        CLEARED(setting) s;
        set(&s, c > 0 ? "h200" : "h200:link_ns=0,hop_ns=0,link_bandwidth=1e17", "llama-3-8b", "pat", "fewshot:50",
            (struct trace_opts){.prompt = 4000, .max_seq = 4400});
        s.sim.n_cards = s.replay.n_cards = 2;
        s.sim.parallel = s.replay.parallel = (enum parallel)_i;
        s.sim.alone = c > 0;
        s.sim.rank = c > 0 ? c - 1 : 0;
        s.sim.env = s.replay.env;
        s.src.last = 1;
        MUST(go, &s, NULL);
        attention[c] = s.total[0].time.attention_s;
        other[c] = s.total[0].time.other_s;
    }
    if (_i == PARALLEL_CONTEXT || _i == PARALLEL_SUBTREE) /* the first has the prompt, which all queries read */
        ck_assert_double_gt(attention[1], 1.01 * attention[2]);
    assert_near(attention[0], fmax(attention[1], attention[2]), 1e-6, "attention");
    assert_near(other[0], other[1], 1e-6, "other kernels");
    assert_near(other[0], other[2], 1e-6, "other kernels");
}

/* Tokens of two cards at each step. */
enum { DEALT_STEPS = 12 };
struct dealt {
    int64_t tokens[DEALT_STEPS + 1][2];
};

static void count_dealt(struct dealt *x, int64_t t, const struct card_view *view)
{
    for (int32_t c = 0; c < 2; c++)
        for (int32_t v = 0; v < view[c].tree->n_nodes; v++)
            x->tokens[t][c] += view[c].tree->len[v];
}

static bool look_at_views(void *self, const struct step *s, struct step_times *out, struct err *e)
{
    (void)e;
    ck_assert_int_eq(s->n_views, 2);
    count_dealt(self, s->t, s->view);
    *out = (struct step_times){0};
    return true;
}

/* What cards should have, step by step; `anew`: without the steps before. */
static void deal(const struct setting *s, enum parallel way, bool anew, struct dealt *x)
{
    struct err e = {0};
    int64_t most = 1, cap = 0, n = s->replay.n_pages;
    int32_t queries = 1, size = s->replay.page_size, *table = NULL;
    MUST(replay_peak, &s->src, size, n, &most, &queries);
    AUTO(pool) pool = pool_new(size, n);
    struct placement *where = NULL;
    for (int64_t t = 1; t <= s->src.last; t++) {
        struct trace_parts parts;
        struct pool_step moved;
        struct tree *tree = trace_step(s->trace, t, &parts);
        FREED int64_t *off = xcalloc((size_t)tree->n_nodes + 1, sizeof *off);
        ck_assert(pool_advance(pool, tree, &parts, t, &moved, &e));
        pool_table(pool, tree, &parts, off, &table, &cap);
        if (anew) {
            placement_free(where);
            where = NULL;
        }
        where = where ? where : placement_new(way, 2, n, placement_room(way, 2, most));
        for (int64_t i = 0; i < moved.n_moves; i++)
            placement_follow(where, (int32_t)(moved.move[i].from / size), (int32_t)(moved.move[i].to / size));
        placement_advance(where, tree, off, table, size);
        struct card_view view[2];
        for (int32_t c = 0; c < 2; c++)
            view[c] = placement_view(where, c, tree, off, table, size, true);
        count_dealt(x, t, view);
        for (int32_t c = 0; c < 2; c++)
            card_view_clear(&view[c]);
        trace_parts_free(&parts);
        tree_free(tree);
    }
    pool_drain(pool);
    placement_free(where);
    free(table);
}

/* Simulated cards keep the pages that they have, as a decoder's do, and get them where an accepted token goes. */
LOOP_TEST(simulated_cards_keep_their_pages, 2 * 3)
{
    CLEARED(setting) s;
    enum parallel way = (enum parallel)(PARALLEL_CONTEXT + _i % 3);
    set(&s, "h200", "llama-3-8b", "pat", _i < 3 ? "fewshot:9" : "spec:32,1",
        (struct trace_opts){.prompt = 300, .max_seq = 400, .topology = _i >= 3});
    struct dealt got = {0}, kept = {0}, anew = {0};
    s.replay.n_cards = 2;
    s.replay.parallel = way;
    s.replay.n_pages = 200;
    s.src.last = DEALT_STEPS;
    s.exec = (struct executor){.name = "none", .self = &got, .run = look_at_views};
    MUST(go, &s, NULL);
    deal(&s, way, false, &kept);
    deal(&s, way, true, &anew);
    for (int64_t t = 1; t <= DEALT_STEPS; t++)
        for (int32_t c = 0; c < 2; c++)
            ck_assert_int_eq(got.tokens[t][c], kept.tokens[t][c]);
    if (_i == 0)
        ck_assert(memcmp(&kept, &anew, sizeof kept) != 0);
}

/* ---- samples ------------------------------------------------------------------------------------------- */

TEST(samples_stand_for_all)
{
    static const struct {
        const char *spec;
        struct trace_opts opts;
    } whole[] = {{"embedded:reasoning", {.prompt = 4000, .max_seq = 6000}},
                 {"embedded:speculative", {.prompt = 1000}},
                 {"requests:300,2", {.batch = 16}}};
    for (size_t k = 0; k < sizeof whole / sizeof whole[0]; k++) {
        CLEARED(setting) s;
        set(&s, "h100", "llama-3-8b", "radix-attention,deft-flatten,pat", whole[k].spec, whole[k].opts);
        struct replay_total all[3];
        MUST(go, &s, NULL);
        memcpy(all, s.total, sizeof all);
        s.replay.every = 16;
        MUST(go, &s, NULL);
        for (int i = 0; i < 3; i++) {
            const struct replay_total *x = &s.total[i];
            ck_assert_int_eq(x->weight, all[i].weight);
            ck_assert_int_eq(x->looked_at, ceil_div(x->weight, 16));
            ck_assert_int_eq(x->prefill, all[i].prefill);
            ck_assert_int_eq(x->moves, all[i].moves);
            ck_assert_int_eq(x->planned, all[i].planned);
            assert_near(x->time.attention_s, all[i].time.attention_s, 0.02, "attention");
            assert_near(x->time.step_s, all[i].time.step_s, 0.02, "whole");
            assert_near((double)x->kv, (double)all[i].kv, 0.02, "bytes");
        }
    }
}

/* Where in every PERIOD steps those are that are looked at. */
enum { PERIOD = 16 };
static bool note_place(void *self, const struct step *s, struct step_times *out, struct err *e)
{
    (void)e;
    int32_t *met = self;
#pragma omp atomic
    met[s->t % PERIOD]++;
    *out = (struct step_times){.idle_s = NAN, .host_s = NAN, .error = NAN};
    return true;
}

/* What comes back every few steps must not meet the samples always alike: not in K steps, nor in several K. */
TEST(samples_come_to_every_place)
{
    const int32_t every[] = {2, 3, 4, 5, 8, 16}, visits = 12;
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        CLEARED(setting) s;
        int32_t met[PERIOD] = {0};
        set(&s, "h100", "tiny", "pat", "fewshot:2",
            (struct trace_opts){.prompt = 10, .max_seq = 11 + visits * PERIOD * every[i]});
        s.exec = (struct executor){.name = "places", .self = met, .run = note_place};
        s.replay.every = every[i];
        MUST(go, &s, NULL);
        for (int k = 0; k < PERIOD; k++)
            ck_assert_msg(abs(met[k] - visits) <= 3, "every %d: place %d of %d: %d times", every[i], k,
                          PERIOD, met[k]);
    }
}

/* ---- plans kept for longer nodes ----------------------------------------------------------------------- */

/* Every plan of step `from`, as long as shapes allow, at step t: whole, and with all of its groups. */
static int64_t check_extended(const struct trace *tr, int64_t from, int64_t t, const struct plan_env *env)
{
    struct tree *a = trace_tree(tr, from), *b = trace_tree(tr, t);
    struct nform *old = nform_new(a), *now = nform_new(b);
    int64_t checked = 0;
    for (int32_t i = 0; i < n_strategies && plan_extends(old, now); i++) {
        char why[WHY_MAX];
        struct strategy_use use = strategy_default(strategies[i]);
        AUTO(plan) p = strategy_plan(&use, old, env, why);
        if (!p)
            continue;
        AUTO(plan) longer = plan_extend(p, now);
        struct err e = {0};
        ck_assert_msg(cover_check(longer, &e), "%s from step %lld at %lld: %s", strategies[i]->name,
                      (long long)from, (long long)t, e.msg);
        ck_assert_int_eq(longer->n_groups, p->n_groups);
        ck_assert_int_eq(longer->n_merges, p->n_merges);
        checked++;
    }
    nform_free(old);
    nform_free(now);
    tree_free(a);
    tree_free(b);
    return checked;
}

TEST(old_plans_still_cover)
{
    struct plan_env env = plan_env_default((struct heads){32, 8, 128, DT_F16});
    for (int k = 0; k < N_TRACES; k++) {
        struct err e = {0};
        AUTO(trace) tr = trace_open(some_traces[k].spec, &some_traces[k].opts, &e);
        ck_assert_msg(tr != NULL, "%s", e.msg);
        int64_t checked = 0;
        for (int64_t t = 1; t < trace_steps(tr); t += 19)
            for (int64_t ahead = 1; ahead <= 64 && t + ahead <= trace_steps(tr); ahead *= 4)
                checked += check_extended(tr, t, t + ahead, &env);
        ck_assert_int_gt(checked, 60);
    }
}

TEST(late_plans_are_few)
{
    CLEARED(setting) s;
    set(&s, "h100", "llama-3-8b", "radix-attention,deft-flatten,pat", "embedded:reasoning",
        (struct trace_opts){.prompt = 500, .max_seq = 1500});
    int64_t changes = 0;
    for (int64_t t = 1; t <= s.src.last; t++) {
        struct trace_parts now, before = {0};
        struct tree *a = trace_step(s.trace, t, &now),
                    *b = t > 1 ? trace_step(s.trace, t - 1, &before) : NULL;
        bool same = b && a->n_nodes == b->n_nodes && a->n_queries == b->n_queries;
        for (int32_t i = 0; same && i < a->n_nodes; i++)
            same = now.piece[i].name == before.piece[i].name;
        changes += !same;
        trace_parts_free(&now);
        trace_parts_free(&before);
        tree_free(a);
        tree_free(b);
    }
    ck_assert_int_gt(changes, 10);
    MUST(go, &s, NULL);
    double every = s.total[2].time.attention_s, kv = (double)s.total[2].kv;
    for (int mode = REPLAN_SHAPE; mode <= REPLAN_ASYNC; mode++) {
        s.replay.replan = (enum replan)mode;
        MUST(go, &s, NULL);
        ck_assert_int_eq(s.total[2].planned, mode == REPLAN_SHAPE ? changes : s.src.last);
        ck_assert_int_eq(s.total[2].weight, s.src.last);
        ck_assert(s.total[2].time.exposed_s <= s.total[2].time.plan_s);
        if (mode == REPLAN_ASYNC) {
            ck_assert(s.total[2].time.attention_s == every && s.total[2].kv == kv);
            ck_assert(s.total[2].time.exposed_s <
                      0.5 * s.total[2].time.plan_s); /* a step takes milliseconds */
        } else {
            ck_assert(s.total[2].time.exposed_s == s.total[2].time.plan_s);
            assert_near((double)s.total[2].kv, kv, 0.1, "bytes of old plans");
        }
    }
}

/* ---- choices kept for longer nodes, and when is what ---------------------------------------------------- */

/* A strategy that chooses the number of tokens. */
static void choose_tokens(const struct nform *nf, const struct plan_env *env, const double *opt,
                          double *chosen)
{
    (void)env;
    chosen[0] = opt[0] > 0 ? opt[0] : (double)tree_tokens(nf->tree);
}

static struct plan *plan_queries_apart(const struct nform *nf, const struct plan_env *env,
                                       const struct strategy *s, const double *opt)
{
    (void)opt;
    struct err e;
    struct strategy_use apart;
    char why[WHY_MAX];
    ck_assert(strategy_parse("flash-attention", &apart, &e));
    struct plan *p = strategy_plan(&apart, nf, env, why);
    p->strategy = s->name;
    return p;
}

static const struct strategy_opt tokens_opt[] = {{"tokens", 0, 0, 1e9, "of the tree; 0: chosen", NULL}, {0}};
static const struct strategy fickle = {.name = "fickle",
                                       .source = "a test",
                                       .about = "chooses",
                                       .opts = tokens_opt,
                                       .plan = plan_queries_apart,
                                       .choose = choose_tokens};

/* What a replay did, one after the other: a letter of the alphabet for each call, and what was chosen for step t. */
enum { MOST_STEPS = 1024 };
struct seen {
    char did[6 * MOST_STEPS];
    int64_t tokens[MOST_STEPS];
    int64_t started, collected;
};

static void note(struct seen *x, char what)
{
    size_t n = strlen(x->did);
    ck_assert(n + 1 < sizeof x->did);
    x->did[n] = what;
}

static int64_t tokens_of(const struct plan *p)
{
    return strtoll(strchr(p->params, '=') + 1, NULL, 10);
}

static bool see_run(void *self, const struct step *s, struct step_times *out, struct err *e)
{
    (void)e;
    ((struct seen *)self)->tokens[s->t] = tokens_of(s->plan);
    *out = (struct step_times){.idle_s = NAN, .host_s = NAN, .error = NAN};
    return true;
}

static bool see_begin(void *self, struct err *e)
{
    (void)e;
    note(self, 'b');
    return true;
}

static bool see_advance(void *self, const struct step *s, struct err *e)
{
    (void)s, (void)e;
    note(self, 'a');
    return true;
}

static bool see_start(void *self, const struct step *s, struct err *e)
{
    (void)e;
    struct seen *x = self;
    x->started++;
    x->tokens[s->t] = tokens_of(s->plan);
    note(x, 's');
    return true;
}

static bool see_finish(void *self, struct err *e)
{
    (void)e;
    note(self, 'f');
    return true;
}

static bool see_collect(void *self, struct step_times *out, struct err *e)
{
    (void)e;
    struct seen *x = self;
    ck_assert_int_lt(x->collected++, x->started);
    *out = (struct step_times){.step_s = (double)x->collected, .error = NAN};
    note(x, 'c');
    return true;
}

static struct executor seeing(struct seen *x)
{
    return (struct executor){.name = "seen",
                             .self = x,
                             .begin = see_begin,
                             .advance = see_advance,
                             .start = see_start,
                             .finish = see_finish,
                             .collect = see_collect};
}

/* Is the tree of step t that of step `from` with longer nodes? */
static bool is_longer(const struct trace *tr, int64_t from, int64_t t)
{
    struct nform *old = nform_new(trace_tree(tr, from)), *now = nform_new(trace_tree(tr, t));
    bool longer = plan_extends(old, now);
    nform_free_with_tree(old);
    nform_free_with_tree(now);
    return longer;
}

static int64_t tokens_of_step(const struct trace *tr, int64_t t)
{
    AUTO(tree) tree = trace_tree(tr, t);
    int64_t n = tree_tokens(tree);
    return n;
}

/* Tokens that plans of steps 1 .. last are made with where choices are kept: those when the tree got its shape, for eight steps at
 * most. Returns how often it got another. */
static int64_t kept_tokens(const struct trace *tr, int64_t last, int64_t *tokens)
{
    int64_t from = 0, changes = 0;
    for (int64_t t = 1; t <= last; t++) {
        bool fits = from > 0 && is_longer(tr, from, t);
        changes += from > 0 && !fits;
        if (!fits || t - from == 8)
            from = t;
        tokens[t] = tokens_of_step(tr, from);
    }
    return changes;
}

/* Plans are made of what is kept, whoever runs them, and with no other --replan. Steps that are left out choose nothing, but age
 * what was chosen. */
static void check_choices(struct setting *s, enum replan replan, bool runs, int64_t every,
                          const int64_t *tokens)
{
    FREED struct seen *x = xcalloc(1, sizeof *x);
    int64_t looked_at = 0;
    for (int64_t t = 0; t < MOST_STEPS; t++)
        x->tokens[t] = -1;
    s->replay.replan = replan;
    s->replay.every = every;
    s->exec = runs ? seeing(x) : (struct executor){.name = "seen", .self = x, .run = see_run};
    MUST(go, s, NULL);
    ck_assert(replan == REPLAN_SHAPE || s->total[0].planned == s->src.last);
    for (int64_t t = 1; t <= s->src.last; t++) {
        looked_at += x->tokens[t] >= 0;
        if (x->tokens[t] >= 0)
            ck_assert_int_eq(x->tokens[t], replan == REPLAN_CHOICE ? tokens[t] : 0);
    }
    ck_assert_int_eq(looked_at, ceil_div(s->src.last, every));
}

TEST(choices_are_kept)
{
    static const struct {
        const char *spec;
        struct trace_opts opts;
    } of[] = {{"embedded:reasoning", {.prompt = 500, .max_seq = 1500}},
              {"fewshot:5", {.prompt = 50, .max_seq = 100}}};
    for (int k = 0; k < 2; k++) {
        CLEARED(setting) s;
        int64_t tokens[MOST_STEPS];
        set(&s, "h100", "tiny", "pat", of[k].spec, of[k].opts);
        s.use[0] = strategy_default(&fickle);
        ck_assert_int_lt(s.src.last, MOST_STEPS);
        int64_t changes = kept_tokens(s.trace, s.src.last, tokens);
        ck_assert_msg((k == 0) == (changes > 2), "%d: %d changes", k, (int)changes);
        for (int replan = 0; replan < N_REPLANS; replan++)
            for (int how = 0; how < 3; how++)
                check_choices(&s, (enum replan)replan, how > 0, how == 2 ? 3 : 1, tokens);
    }
}

/* A step is waited for before the next one's pages are found, and only then asked how long it took, while the next one runs; with
 * async it runs while the next one is planned. */
TEST(a_step_is_asked_when_the_next_one_runs)
{
    for (int async = 0; async < 2; async++) {
        CLEARED(setting) s;
        FREED struct seen *x = xcalloc(1, sizeof *x);
        set(&s, "h100", "tiny", "pat", "fewshot:2", (struct trace_opts){.prompt = 10, .max_seq = 14});
        ck_assert_int_eq(s.src.last, 3);
        s.use[0] = strategy_default(&fickle);
        s.replay.replan = async ? REPLAN_ASYNC : REPLAN_EVERY;
        s.exec = seeing(x);
        MUST(go, &s, NULL);
        ck_assert_str_eq(x->did, async ? "basascascc" : "basfascfascfc");
        ck_assert(s.total[0].time.step_s == 1 + 2 + 3); /* every row has its own */
    }
}

/* ---- memory -------------------------------------------------------------------------------------------- */

TEST(private_kv_that_do_not_fit_are_foreseen)
{
    CLEARED(setting) s;
    const char *list = "flash-decoding,relay,radix-attention";
    struct trace_opts opts = {.prompt = 1000, .max_seq = 1101};
    set(&s, "h100:memory=1e15", "llama-3-8b", list, "fewshot:8", opts);
    double fixed = replay_weights(&s.replay) + 0x1p30, token = 131072;
    /* the last step: 8 copies of 1,100 tokens; the prompt once and 8 x 100 */
    double flash = fixed + 8 * 1100 * token, relay = fixed + (1000 + 8 * 100) * token;
    MUST(go, &s, NULL);
    ck_assert(s.total[0].fate == FATE_RAN && s.total[1].fate == FATE_RAN);
    s.replay.memory = flash - 1;
    MUST(go, &s, NULL);
    ck_assert(s.total[0].fate == FATE_OOM && s.total[1].fate == FATE_RAN);
    ck_assert(s.total[0].needs == flash);
    ck_assert_str_eq(s.total[0].why, "OOM (needs 17.0 GiB)");
    s.replay.memory = relay - 1;
    MUST(go, &s, NULL);
    ck_assert(s.total[0].fate == FATE_OOM && s.total[1].fate == FATE_OOM && s.total[2].fate == FATE_RAN);
}

TEST(a_full_pool_ends_the_run)
{
    CLEARED(setting) s;
    struct err e = {0};
    set(&s, "h100", "llama-3-8b", "pat", "fewshot:4", (struct trace_opts){.prompt = 100, .max_seq = 200});
    s.replay.n_pages = 20;
    ck_assert(!go(&s, NULL, &e));
    ck_assert_int_eq(e.code, EXIT_MISSING);
    ck_assert_ptr_nonnull(strstr(e.msg, "step 49: the KV pool is full"));
}

/* ---- rows, and going on with them ---------------------------------------------------------------------- */

static struct replay_log *open_log(const struct setting *s, const char *path, bool resume, const char *what,
                                   struct err *e)
{
    static char text[] = "a, \"quoted\" source", *name[] = {text};
    struct replay_log_spec spec = {.path = path,
                                   .what = what,
                                   .about = "about",
                                   .source = name,
                                   .last = &s->src.last,
                                   .n_sources = 1,
                                   .use = s->use,
                                   .n_use = s->replay.n_use,
                                   .resume = resume};
    return replay_log_open(&spec, e);
}

/* A run whose rows go into that file, or that goes on with them, to its end. */
static void run_logged(struct setting *s, const char *path, bool resume)
{
    struct err e = {0};
    struct replay_log *log = open_log(s, path, resume, "run 1", &e);
    ck_assert_msg(log && go(s, log, &e) && replay_log_close(log, true, &e) && !e.code, "%s", e.msg);
}

/* Compare what does not depend on this host's clock. */
static void assert_same_total(const struct replay_total *a, const struct replay_total *b)
{
    ck_assert_int_eq(a->fate, b->fate);
    if (a->fate != FATE_RAN)
        return;
    ck_assert_int_eq(a->weight, b->weight);
    ck_assert_int_eq(a->planned, b->planned);
    ck_assert_int_eq(a->prefill, b->prefill);
    ck_assert(a->kv == b->kv && a->partials == b->partials && a->out == b->out);
    ck_assert(a->time.attention_s == b->time.attention_s && a->time.step_s == b->time.step_s);
}

TEST(a_run_goes_on)
{
    CLEARED(setting) s;
    const char *list = "deft-flatten:block=64,tree-specinfer,pat"; /* specinfer applies only for a while */
    set(&s, "h100", "llama-3-8b", list, "fewshot:4", (struct trace_opts){.prompt = 100, .max_seq = 700});
    FREED char *folder = scratch_folder();
    FREED char *path = xasprintf("%s/rows.csv", folder), *part = xasprintf("%s.part", path);
    run_logged(&s, path, false);
    ck_assert_int_ne(access(part, F_OK), 0);
    struct replay_total whole[3];
    memcpy(whole, s.total, sizeof whole);
    ck_assert_int_eq(whole[1].fate, FATE_SKIPPED);
    FREED char *text = file_text(path);
    size_t n = strlen(text);

    /* cut anywhere, the rest is run again and the same comes out */
    for (size_t k = 0; k <= 16; k++) {
        write_bytes(part, text, n * k / 16);
        run_logged(&s, path, true);
        for (int i = 0; i < 3; i++)
            assert_same_total(&s.total[i], &whole[i]);
        FREED char *again = file_text(path);
        int64_t lines[2] = {0};
        for (const char *c = text; *c; c++)
            lines[0] += *c == '\n';
        for (const char *c = again; *c; c++)
            lines[1] += *c == '\n';
        ck_assert_int_eq(lines[0], lines[1]);
    }
    /* it ends after each portion of 64 steps */
    unlink(path);
    int64_t last = s.src.last;
    for (int64_t done = 0; done < last; done = min_i64(done + 64, last)) {
        s.src.last = min_i64(done + 64, last);
        struct replay_log *log = MUST(open_log, &s, path, true, "run 1");
        ck_assert_int_eq(replay_log_done(log, 0, -1), done);
        MUST(go, &s, log);
        MUST(replay_log_close, log, false);
    }
    run_logged(&s, path, true);
    for (int i = 0; i < 3; i++)
        assert_same_total(&s.total[i], &whole[i]);
    /* complete: it is only read */
    struct replay_log *log = MUST(open_log, &s, path, true, "run 1");
    ck_assert_int_eq(replay_log_done(log, 0, -1), s.src.last);
    MUST(go, &s, log);
    assert_same_total(&s.total[2], &whole[2]);
    MUST(replay_log_close, log, false);
    /* another run's rows, or none of ours, are not taken */
    FAILS("rows.csv:1: rows of another run", open_log, &s, path, true, "run 2");
    ck_assert_int_ne(access(part, F_OK), 0);
    char *bad = strstr(text, "pat,") + 4;
    *bad = 'x';
    write_bytes(part, text, n);
    FAILS("whole number", open_log, &s, path, true, "run 1");
}

/* A device that has no memory for what deft-flatten keeps of step 100. */
static bool lack_start(void *self, const struct step *s, struct err *e)
{
    struct seen *x = self;
    if (s->t == 100 && strcmp(s->plan->strategy, "deft-flatten") == 0)
        return err_missing(e, "the GPU is out of memory");
    x->started++;
    return true;
}

/* A strategy that a device lacks something for is left out, and said to be, also by its rows; others are what they would be. */
TEST(who_lacks_memory_is_left_out)
{
    static const char *const list[] = {"pat,fasttree", "pat,deft-flatten,fasttree", "deft-flatten"};
    struct setting s[3];
    for (int i = 0; i < 3; i++) {
        struct seen x = {.started = 0};
        struct executor lacking = seeing(&x);
        lacking.start = lack_start;
        set(&s[i], "h100", "tiny", list[i], "fewshot:4", (struct trace_opts){.prompt = 100, .max_seq = 300});
        s[i].exec = lacking;
        FREED char *folder = scratch_folder(), *path = xasprintf("%s/rows.csv", folder);
        run_logged(&s[i], path, false);

        /* nothing is run again, for those that were left out as little as for others */
        FREED struct replay_total *ran = s[i].total;
        int64_t started = x.started;
        s[i].total = xcalloc((size_t)s[i].replay.n_use, sizeof *ran);
        run_logged(&s[i], path, true);
        ck_assert_int_eq(x.started, started);
        for (int k = 0; k < s[i].replay.n_use; k++)
            ck_assert(s[i].total[k].fate == ran[k].fate && s[i].total[k].kv == ran[k].kv &&
                      strcmp(s[i].total[k].why, ran[k].why) == 0);
        unlink(path);
        rmdir(folder);
    }
    ck_assert(s[0].total[0].fate == FATE_RAN && s[0].total[1].fate == FATE_RAN);
    for (int k = 0; k < 2; k++) {
        const struct replay_total *x = &s[1].total[2 * k], *y = &s[0].total[k];
        ck_assert(x->fate == FATE_RAN && x->weight == y->weight && x->kv == y->kv &&
                  x->planned == y->planned);
    }
    for (int i = 1; i < 3; i++) {
        const struct replay_total *x = &s[i].total[i == 1];
        ck_assert(x->fate == FATE_SKIPPED && x->weight == 0 && x->kv == 0);
        ck_assert_str_eq(x->why, "the GPU is out of memory");
    }
    for (int i = 0; i < 3; i++)
        setting_free(&s[i]);
}

/* What the file held when it was opened is there after a run that added nothing, however it ended. Its rows are
 * samples: each stands for steps before and behind its own. */
TEST(rows_are_not_lost)
{
    CLEARED(setting) s;
    set(&s, "h100", "llama-3-8b", "pat", "fewshot:4", (struct trace_opts){.prompt = 100, .max_seq = 300});
    s.replay.every = 3;
    FREED char *folder = scratch_folder();
    FREED char *path = xasprintf("%s/rows.csv", folder), *part = xasprintf("%s.part", path);
    FREED char *link = xasprintf("%s/link", folder);
    run_logged(&s, path, false);
    FREED char *text = file_text(path), *cut = xstrdup(text);
    *strstr(cut, "# done 0 -1 192") = '\0';
    ck_assert_int_eq(symlink("rows.csv", link), 0);
    for (int k = 0; k < 2; k++) {
        const char *all = k == 0 ? text : cut;
        write_bytes(path, all, strlen(all));
        for (int linked = 0; linked < 2; linked++) {
            struct err why = {0};
            struct replay_log *log = open_log(&s, linked ? link : path, true, "run 1", &why);
            ck_assert_msg(k == 0 ? log != NULL : strstr(why.msg, "not complete") != NULL, "%s", why.msg);
            if (log)
                ck_assert(replay_log_close(log, false, &why));
            FREED char *now = file_text(path);
            ck_assert_str_eq(now, all);
            ck_assert_int_ne(access(part, F_OK), 0);
        }
    }
    struct stat st;
    ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
}

/* One run writes; another does not begin anew where one was stopped, and nothing stays of one that came to nothing. */
TEST(one_run_writes_rows)
{
    CLEARED(setting) s;
    set(&s, "h100", "llama-3-8b", "pat", "fewshot:4", (struct trace_opts){.prompt = 100, .max_seq = 300});
    FREED char *folder = scratch_folder();
    FREED char *path = xasprintf("%s/rows.csv", folder), *part = xasprintf("%s.part", path);
    struct replay_log *log = MUST(open_log, &s, path, false, "run 1");
    for (int resume = 0; resume < 2; resume++)
        FAILS("another run is writing it", open_log, &s, path, resume, "run 1");
    MUST(go, &s, log);
    MUST(replay_log_close, log, false);
    FREED char *before = file_text(part);
    FAILS("expected --resume", open_log, &s, path, false, "run 1");
    FREED char *after = file_text(part);
    ck_assert_str_eq(before, after);
    unlink(part);
    log = MUST(open_log, &s, path, false, "run 1");
    MUST(replay_log_close, log, false);
    ck_assert_int_ne(access(part, F_OK), 0);
    /* no device, no pipe, no folder */
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    const char *const bad[] = {path, folder, "/dev/zero"};
    for (int i = 0; i < 3; i++)
        for (int resume = 0; resume < 2; resume++)
            FAILS("not a regular file", open_log, &s, bad[i], resume, "run 1");
}

/* ---- on a decoder -------------------------------------------------------------------------------------- */

/* A tiny model in plain C: what is counted is what the model of a machine counts, however steps are run. */
TEST(steps_run_on_a_decoder)
{
    for (int k = 0; k < 2; k++) {
        CLEARED(setting) s;
        struct replay_device device;
        struct err e = {0};
        const char *list = "deft-flatten,pat,treeattn";
        if (k == 0)
            set(&s, "h100", "tiny", list, "embedded:reasoning",
                (struct trace_opts){.prompt = 20, .max_seq = 34});
        else
            set(&s, "h100", "tiny", list, "spec:16,3",
                (struct trace_opts){.prompt = 20, .max_seq = 40, .topology = true});
        struct replay_total simulated[3];
        MUST(go, &s, NULL);
        memcpy(simulated, s.total, sizeof simulated);
        struct decoder_spec spec = {.model = s.replay.model, .dtype = DT_BF16, .page_size = 16, .seed = 1};
        ck_assert(replay_peak(&s.src, 16, 4096, &spec.n_pages, &spec.max_queries, &e));
        ck_assert_int_eq(spec.n_pages, s.pool.peak);
        s.replay.n_pages = spec.n_pages;
        for (int mode = 0; mode < N_REPLANS; mode++)
            for (int64_t every = 1; every <= (mode <= REPLAN_CHOICE ? 4 : 1); every += 3) {
                const struct decoder_type *cpu = decoder_type_find("cpu", &e);
                ck_assert_msg(replay_device_open(&device, cpu, &spec, every == 1, &e), "%s", e.msg);
                s.exec = replay_on_device(&device);
                s.replay.replan = (enum replan)mode;
                s.replay.every = every;
                s.replay.check = 4;
                MUST(go, &s, NULL);
                for (int i = 0; i < 3; i++) {
                    const struct replay_total *x = &s.total[i];
                    ck_assert_int_eq(x->weight, simulated[i].weight);
                    ck_assert_int_eq(x->moves, simulated[i].moves);
                    bool kept = mode == REPLAN_SHAPE || (mode == REPLAN_CHOICE && s.use[i].s->choose);
                    ck_assert(every > 1 || kept || x->kv == simulated[i].kv);
                    ck_assert(x->time.error > 0 && x->time.error <= 1);
                    ck_assert(x->time.attention_s > 0 && x->time.other_s > 0);
                    ck_assert(isnan(x->time.idle_s) == (every > 1));
                    double parts = x->time.attention_s + x->time.other_s + x->time.moves_s +
                                   (every > 1 ? 0 : x->time.idle_s);
                    assert_near(x->time.step_s, parts, 1e-9, "whole");
                }
                ck_assert_int_eq(s.pool.leaked, 0);
                replay_device_close(&device);
            }
    }
}

/* ---- the papers' workloads ----------------------------------------------------------------------------- */

TEST(workloads_open)
{
    FREED char *data = shared_path("traces");
    for (int32_t i = 0; i < n_workloads && data; i++) {
        struct err e = {0};
        char *spec = workload_spec(&workloads[i], data), *lacks = workload_lacks(&workloads[i], data);
        ck_assert_msg(!lacks, "%s", lacks);
        AUTO(trace) tr = trace_open(spec, &workloads[i].opts, &e);
        ck_assert_msg(tr != NULL, "%s: %s", workloads[i].name, e.msg);
        free(spec);
    }
    FREED char *lacks = workload_lacks(&workloads[3], "/nonexistent");
    ck_assert_str_eq(lacks, "/nonexistent/sorting128ToT.json");
}
