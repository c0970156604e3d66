/* check_optimal.c - the exact minimum against brute force, and never above a greedy planner. */
#include "ref/rng.h"
#include "sim/strategies/optimal.h"
#include "tests/auto.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"

#include <inttypes.h>
#include <math.h>

enum { TREES = 10000, NODES = 12 };

static const struct plan_env settings[] = {
    {.heads = {32, 32, 128, DT_F16}},
    {.heads = {32, 8, 128, DT_F16}},
    {.heads = {16, 1, 64, DT_F32}},
};

/* A random forest of 1 to NODES nodes, zero lengths and shared places included. */
static struct tree *small_tree(uint64_t seed)
{
    int32_t n = 1 + (int32_t)rng_below(seed, 0, 0, NODES), nq = 1 + (int32_t)rng_below(seed, 0, 1, 40);
    struct tree *t = tree_new(n, nq);
    for (int32_t i = 0; i < n; i++) {
        t->parent[i] = i == 0 ? -1 : (int32_t)rng_below(seed, 1, (uint64_t)i, i + (n > 6)) - (n > 6);
        t->len[i] = rng_below(seed, 2, (uint64_t)i, 4) == 0 ? rng_below(seed, 3, (uint64_t)i, 5)
                                                            : rng_below(seed, 3, (uint64_t)i, 300);
    }
    for (int32_t q = 0; q < nq; q++) {
        int32_t node = (int32_t)rng_below(seed, 4, (uint64_t)q, n);
        t->query[q] = (struct query){node, t->len[node]}; /* no cut: at most NODES nodes in normal form */
    }
    CK(tree_check(t, NULL));
    return t;
}

static double brute(const struct nform *nf, const struct objective_env *o)
{
    uint8_t joined[NODES];
    double best = INFINITY;
    for (uint32_t bits = 0; bits < UINT32_C(1) << nf->n_nodes; bits++) {
        bool root_joined = false;
        for (int32_t v = 0; v < nf->n_nodes; v++) {
            joined[v] = bits >> v & 1;
            root_joined = root_joined || (joined[v] && nf->parent[v] < 0);
        }
        if (!root_joined)
            best = fmin(best, objective_cost(nf, o, joined));
    }
    return best;
}

TEST(exact_and_below_every_greedy_planner)
{
    int64_t strict = 0, trees = getenv("TREEATTN_QUICK") ? TREES / 20 : TREES;
    for (int64_t i = 0; i < trees; i++) {
        AUTO_WITH_TREE nf = nform_new(small_tree(rng_u64(11, 0, (uint64_t)i)));
        struct plan_env env = settings[i % 3];
        env.machine = machine_default();
        struct objective_env o = objective_of((enum objective)(i / 3 % N_OBJECTIVES), &env, 64);
        uint8_t joined[NODES];
        double best = optimal_edges(nf, &o, joined);
        ck_assert_msg(fabs(best - objective_cost(nf, &o, joined)) <= 1e-9 * (1 + fabs(best)),
                      "tree %" PRId64 ": the minimum is %.17g, its assignment costs %.17g", i, best,
                      objective_cost(nf, &o, joined));
        for (int g = 0; g < 5; g++) {
            uint8_t greedy[NODES] = {0};
            if (g < 2)
                pat_edges(nf, g == 0 ? RULE_PAPER : RULE_ARTIFACT, o.pack, greedy);
            else if (g < 4) {
                struct fasttree_cost c =
                    fasttree_default_cost(g == 2 ? RULE_PAPER : RULE_ARTIFACT, heads_gqa(&env.heads));
                fasttree_edges(nf, &c, greedy);
            }
            double cost = objective_cost(nf, &o, greedy);
            ck_assert_msg(best <= cost * (1 + 1e-12) + 1e-9,
                          "tree %" PRId64 ", planner %d: %.17g is below %.17g", i, g, cost, best);
            strict += best < cost * (1 - 1e-9);
        }
        double exact = brute(nf, &o);
        ck_assert_msg(fabs(best - exact) <= 1e-9 * (1 + fabs(exact)),
                      "tree %" PRId64 ": %.17g, brute force %.17g", i, best, exact);
    }
    ck_assert(strict > 0); /* else the greedy planners would be exact and this test could not see much */
}

TEST(the_papers_trees_are_solvable)
{
    static const char *const levels[] = {"1,4,16,64,256,1024 256,32,256,64,32,256", "1,1024 2048,32",
                                         "1,2,4,8,16,32,64,128,1024 256,128,64,16,16,16,16,16,16",
                                         "4,16,256,512 512,32,128,32"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        AUTO(tree) t = MUST(levels_parse, levels[i]);
        AUTO(nform) nf = nform_new(t);
        struct plan_env env = settings[1];
        FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
        char why[WHY_MAX];
        ck_assert(optimal_solvable(nf, why));
        for (int k = 0; k < N_OBJECTIVES; k++) {
            struct objective_env o = objective_of((enum objective)k, &env, 64);
            double t0 = now_s();
            optimal_edges(nf, &o, joined);
            ck_assert(now_s() - t0 < 10);
        }
    }
}

TEST(a_tree_too_large_is_refused_with_numbers)
{
    AUTO(tree) t = tree_new(20000, 0); /* a chain: states grow with the square */
    for (int32_t i = 0; i < t->n_nodes; i++) {
        t->parent[i] = i - 1;
        t->len[i] = 1;
    }
    tree_query_leaves(t);
    AUTO(nform) nf = nform_new(t);
    char why[WHY_MAX] = "";
    ck_assert(!optimal_solvable(nf, why));
    ck_assert(why[0]);
}
