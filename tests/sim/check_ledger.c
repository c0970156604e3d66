/*
 * check_ledger.c - what the CPU kernel counted at its load and store sites is what the plan was priced at.
 */
#include "kernels/kernel.h"
#include "ref/rng.h"
#include "ref/tails.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"
#include "verify/faults/faults.h"

#include <inttypes.h>

/* Small: queries x tokens, which is what a plan without sharing computes. */
enum { TREES = 1000, QUICK_TREES = 60, SMALL = 6000, LARGE_TREES = 24, QUICK_LARGE_TREES = 6 };

static const struct heads settings[] = {{2, 2, 16, DT_F32},
                                        {8, 2, 8, DT_F16},
                                        {6, 1, 4, DT_F64},
                                        {.h_q = 5, .h_kv = 1, .d = 12, .dtype = DT_BF16, .d_v = 8},
                                        {.h_q = 4, .h_kv = 2, .d = 6, .dtype = DT_F16, .d_v = 4, .v_apart = true}};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static struct problem *problem_of(const struct tree *t, const struct heads *h, bool features)
{
    struct problem_spec spec = {.heads = *h, .page_size = 16, .scattered = true, .poison = true, .seed = 1};
    spec.sinks = features;
    spec.soft_cap = features ? 20 : 0;
    return problem_new(t, &spec, NULL);
}

/* Names the first field that differs, into what[size]; false if there is one. */
static bool same_ledger(const struct ledger *priced, const struct ledger *counted, char *what, size_t size)
{
#define X(field, meaning)                                                                                    \
    if (priced->field != counted->field) {                                                                   \
        snprintf(what, size, #field " priced %" PRId64 ", counted %" PRId64, priced->field, counted->field); \
        return false;                                                                                        \
    }
    LEDGER_FIELDS(X)
#undef X
    return true;
}

/* What happened to the strategies; filled by all threads. */
struct tally {
    int64_t *ran;   /* [n_strategies] */
    char what[400]; /* the first complaint, or "" */
};

static void account_plan(const struct problem *prob, const struct nform *nf, const struct heads *h, int32_t s,
                         int64_t number, struct output *out, struct tally *tally)
{
    struct plan_env env = plan_env_default(*h);
    struct strategy_use u = strategy_default(strategies[s]);
    struct ledger counted = {0};
    struct err e = {0};
    char why[WHY_MAX], what[200] = "";
    AUTO(plan) p = strategy_plan(&u, nf, &env, why);
    if (!p)
        return;
    bool good = kernel_find("cpu")->run(prob, p, out, &counted, &e);
    struct ledger priced = ledger_of_plan(p, h);
    if (!good)
        snprintf(what, sizeof what, "%.180s", e.msg);
    good = good && same_ledger(&priced, &counted, what, sizeof what);
#pragma omp critical
    {
        tally->ran[s]++;
        if (!good && !tally->what[0])
            snprintf(tally->what, sizeof tally->what, "%s on tree %" PRId64 ", heads %d/%d: %s", u.s->name,
                     number, h->h_q, h->h_kv, what);
    }
}

/* With features: requests of two queries, windows, sinks, a soft cap, K and V in 8 bits. */
static void account_tree(const struct tree *own, const struct heads *plain, int64_t number, bool features,
                         struct tally *tally)
{
    AUTO(tree) t = tree_copy(own);
    struct heads h = *plain;
    if (features) {
        tree_set_tails(t, 2, NULL);
        tree_set_window(t, 1 + number % 40);
        h.kv_fp8 = number % 4 < 2 ? DT_E4M3 : DT_E5M2;
    }
    AUTO(nform) nf = nform_new(t);
    AUTO(problem) prob = problem_of(t, &h, features);
    AUTO(output) out = output_new(prob);
    for (int32_t s = 0; s < n_strategies; s++)
        account_plan(prob, nf, &h, s, number, out, tally);
}

static void check_tally(struct tally *tally)
{
    ck_assert_msg(!tally->what[0], "%s", tally->what);
    for (int32_t s = 0; s < n_strategies; s++)
        ck_assert_msg(tally->ran[s] > 0, "%s ran on no tree", strategies[s]->name);
    free(tally->ran);
}

/* A tree of a family with a quarter of its tokens: time goes with tokens, what can go wrong with the shape. */
static struct tree *short_tree(int64_t number)
{
    struct tree *t = gen_tree(gen_family(77, number), gen_seed(77, number));
    for (int32_t i = 0; i < t->n_nodes; i++)
        t->len[i] = ceil_div(t->len[i], 4);
    for (int32_t q = 0; q < t->n_queries; q++)
        t->query[q].upto = ceil_div(t->query[q].upto, 4);
    return t;
}

/* Of these, small ones are kept until there are `n`: their numbers. */
static int64_t *small_trees(int64_t n)
{
    int64_t *number = xcalloc((size_t)n, sizeof *number);
    for (int64_t i = 0, found = 0; found < n; i++) {
        AUTO(tree) t = short_tree(i);
        if (t->n_queries * tree_tokens(t) <= SMALL)
            number[found++] = i;
    }
    return number;
}

TEST(counted_is_priced_on_small_trees)
{
    bool quick = getenv("TREEATTN_QUICK");
    int64_t n = quick ? QUICK_TREES : TREES, *number = small_trees(n);
    struct tally tally = {.ran = xcalloc((size_t)n_strategies, sizeof *tally.ran)};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = short_tree(number[i]);
        for (int h = 0; h < N_SETTINGS; h++)
            account_tree(t, &settings[h], number[i], (number[i] + h) % 2, &tally);
    }
    free(number);
    check_tally(&tally);
    if (quick)
        printf("account: %d of %d trees (TREEATTN_QUICK)\n", QUICK_TREES, TREES);
}

/* Of any size, one setting each. */
TEST(counted_is_priced_on_large_trees)
{
    int64_t n = getenv("TREEATTN_QUICK") ? QUICK_LARGE_TREES : LARGE_TREES;
    struct tally tally = {.ran = xcalloc((size_t)n_strategies, sizeof *tally.ran)};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = gen_tree(gen_family(77, i), rng_u64(77, 1, (uint64_t)i));
        account_tree(t, &settings[i % N_SETTINGS], i, i % 3 == 0, &tally);
    }
    check_tally(&tally);
}

/* A kernel that skips a tile's load, or loads it twice, is a kernel that carries out another plan: one that lacks a
 * piece of a run or a group, or has it twice. What it counts then must not be the price of the plan it was given. */
static int64_t plant_loads(const struct fault_case *fc)
{
    static const char *const kinds[] = {"run_end", "run_doubled", "group_dropped", "group_doubled"};
    const struct problem *p = fc->problem;
    struct ledger priced = ledger_of_plan(fc->plan, &p->heads);
    AUTO(output) out = output_new(p);
    int64_t planted = 0;
    for (uint64_t k = 0; k < 3 * sizeof kinds / sizeof kinds[0]; k++) {
        struct broken b = {.seed = k};
        const struct fault *f = fault_find(kinds[k % 4]);
        struct ledger counted = {0};
        if (!f->plant(fc, &b))
            continue;
        ck_assert(fc->kernel->run(p, b.plan, out, &counted, NULL));
        ck_assert_msg(priced.kv != counted.kv, "%s: %s does not show in what is counted", fc->plan->strategy,
                      f->name);
        plan_free(b.plan);
        planted++;
    }
    return planted;
}

TEST(skipped_and_doubled_loads_are_noticed)
{
    struct fault_tree *ground = fault_tree_new(0, 5, kernel_find("cpu"));
    for (int32_t s = 0; s < n_strategies; s++) {
        struct strategy_use use = strategy_default(strategies[s]);
        CLEARED(fault_case) fc;
        struct result sound;
        if (!fault_case_new(ground, &use, kernel_find("cpu"), &fc, &sound))
            continue;
        ck_assert_msg(plant_loads(&fc) >= 6, "%s: hardly a fault had its place", strategies[s]->name);
    }
    fault_tree_free(ground);
}
