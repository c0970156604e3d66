/*
 * check_paper_costs.c - the papers' own models, each evaluated on its own, against plans and planners: DeFT's Table 12,
 * PAT's profit (equations 1-2), FastTree's cost (equations 3-11).
 */
#include "ref/rng.h"
#include "sim/count.h"
#include "tests/auto.h"
#include "tests/papers/deft_table12.h"
#include "tests/papers/fasttree_cost.h"
#include "tests/papers/pat_profit.h"
#include "sim/strategies/optimal.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"

#include <math.h>
#include <stdlib.h>

static int64_t n_trees(void)
{
    return getenv("TREEATTN_QUICK") ? 70 : 700;
}

static struct tree *random_tree(int64_t i)
{
    return gen_tree(gen_family(41, i), gen_seed(41, i));
}

/* ---- DeFT Table 12 ------------------------------------------------------------------------------------ */

static bool agree_on_tree(const struct tree *t, const struct nform *nf, enum table12_method m, int64_t i)
{
    struct plan_env env = plan_env_default((struct heads){8, 2, 16, DT_F16});
    struct strategy_use use;
    char why[WHY_MAX];
    ck_assert(strategy_parse(table12_strategy[m], &use, NULL));
    AUTO(plan) p = strategy_plan(&use, nf, &env, why);
    if (!p)
        return false;
    struct ledger l = count_plan(p, &env.heads, COUNT_PAPER);
    struct table12 x = deft_table12(t, m, env.heads.h_q, env.heads.d, heads_elt_bytes(&env.heads));
    const int64_t both[][2] = {{x.kv, l.kv},
                               {x.qk, l.qk_write + l.qk_read},
                               {x.scaled, l.scaled_write + l.scaled_read},
                               {x.mask, l.mask},
                               {x.masked, l.masked_write + l.masked_read},
                               {x.softmax, l.softmax_write + l.softmax_read}};
    for (int k = 0; k < 6; k++)
        ck_assert_msg(both[k][0] == both[k][1],
                      "%s on tree %lld: column %d of Table 12 is %lld, its plan counts %lld",
                      table12_strategy[m], (long long)i, k, (long long)both[k][0], (long long)both[k][1]);
    return true;
}

TEST(table_12_is_what_plans_count)
{
    int64_t agreed[N_TABLE12] = {0};
    for (int64_t i = 0; i < n_trees(); i++) {
        AUTO(tree) t = random_tree(i);
        AUTO(nform) nf = nform_new(t);
        for (int m = 0; m < N_TABLE12; m++)
            agreed[m] += agree_on_tree(t, nf, (enum table12_method)m, i);
    }
    for (int m = 0; m < N_TABLE12; m++)
        ck_assert_msg(agreed[m] >= (m == TABLE12_SPECINFER ? n_trees() / 20 : n_trees()),
                      "%s applied to %lld trees", table12_strategy[m], (long long)agreed[m]);
}

/* ---- PAT equations 1 and 2 ---------------------------------------------------------------------------- */

/* Every virtual node of an assignment is a group. */
static struct plan *plan_of(const struct nform *nf, const uint8_t *joined)
{
    struct plan *p = plan_new(nf, "packs");
    struct group_spec g = {.launch = plan_launch(p, "attention", LAUNCH_SERIAL)};
    struct sel s = {0};
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        vtree_select(nf, joined, v, &s);
        plan_group(p, &s, &g);
    }
    plan_merge_flat(p, "merge", true);
    sel_free(&s);
    return p;
}

static int64_t profit_of(const struct nform *nf, const uint8_t *joined)
{
    AUTO(plan) p = plan_of(nf, joined);
    int64_t profit = pat_profit(p);
    return profit;
}

/* A node u of l_u tokens over `kids` leaves; leaf i has len[i] tokens and size[i] queries. */
static struct tree *node_and_leaves(int32_t kids, int64_t l_u, const int64_t *len, const int32_t *size)
{
    int32_t queries = 0;
    for (int32_t i = 0; i < kids; i++)
        queries += size[i];
    struct tree *t = tree_new(kids + 1, queries);
    t->len[0] = l_u;
    for (int32_t i = 0, q = 0; i < kids; i++) {
        t->parent[i + 1] = 0;
        t->len[i + 1] = len[i];
        for (int32_t k = 0; k < size[i]; k++)
            t->query[q++] = (struct query){i + 1, len[i]};
    }
    return t;
}

/* The equations letter by letter, for a node and its leaves; and the comparison that PAT's scheduler makes. */
TEST(profit_of_a_node_and_its_leaves)
{
    enum { MOST = 8 };
    for (uint64_t seed = 0; seed < 500; seed++) {
        int64_t l_u = 1 + rng_below(seed, 0, 0, 120), len[MOST], s_u = 0;
        int32_t kids = 2 + (int32_t)rng_below(seed, 1, 0, MOST - 1), size[MOST];
        for (int32_t i = 0; i < kids; i++) {
            len[i] = 1 + rng_below(seed, 2, (uint64_t)i, 200);
            size[i] = 1 + (int32_t)rng_below(seed, 3, (uint64_t)i, 30);
            s_u += size[i];
        }
        AUTO_WITH_TREE nf = nform_new(node_and_leaves(kids, l_u, len, size));
        uint8_t joined[MOST + 1] = {0}, decided[MOST + 1];
        int64_t leaves = 0;
        for (int32_t i = 0; i < kids; i++)
            leaves += (size[i] - 1) * len[i];
        int64_t split = (s_u - 1) * l_u - 4 * s_u + leaves; /* (1) */
        ck_assert_int_eq(profit_of(nf, joined), split);
        pat_edges(nf, RULE_PAPER, 1 << 20, decided);
        for (int32_t i = 0; i < kids; i++) {
            int64_t merge = (s_u - size[i] - 1) * l_u - 4 * (s_u - size[i]) + /* (2) */
                            leaves - (size[i] - 1) * len[i] + (size[i] - 1) * (l_u + len[i]);
            joined[i + 1] = 1;
            ck_assert_int_eq(profit_of(nf, joined), merge);
            joined[i + 1] = 0;
            ck_assert(merge == split || decided[i + 1] == (merge > split));
        }
    }
}

static void random_edges(const struct nform *nf, uint64_t seed, uint8_t *joined)
{
    for (int32_t v = 0; v < nf->n_nodes; v++)
        joined[v] = nf->parent[v] >= 0 && rng_below(seed, 9, (uint64_t)v, 3) == 0;
}

/* Any tree, any assignment: profit and the cost that `optimal` minimises add up to what the tree is without
 * packing. */
TEST(profit_against_the_planners_cost)
{
    struct plan_env env = plan_env_default((struct heads){8, 2, 16, DT_F16});
    for (int64_t i = 0; i < n_trees(); i++) {
        AUTO_WITH_TREE nf = nform_new(random_tree(i));
        struct objective_env o = objective_of(OBJECTIVE_PAT, &env, 64);
        o.pack = INT32_MAX; /* the equations know no largest pack */
        FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
        random_edges(nf, (uint64_t)i, joined);
        int64_t alone = 0;
        for (int32_t q = 0; q < nf->n_queries; q++)
            alone += nform_context(nf, q) + (nform_context(nf, q) > 0 ? 4 : 0);
        double cost = objective_cost(nf, &o, joined);
        ck_assert_msg(alone - (int64_t)cost == profit_of(nf, joined), "tree %lld", (long long)i);
    }
}

/* ---- FastTree equations 3 to 11 ----------------------------------------------------------------------- */

static struct fasttree_model model_of(const struct fasttree_cost *c)
{
    return (struct fasttree_model){.tile_q = {c->tile_q[0], c->tile_q[1]},
                                   .tile_kv = c->tile_kv,
                                   .d = 128,
                                   .alpha = c->alpha,
                                   .beta = c->beta,
                                   .gamma = c->gamma};
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

/* Equation 4, and what padding is: up to the next multiple of the tile. */
TEST(padding_is_subadditive)
{
    for (int64_t tile = 1; tile <= 64; tile *= 2)
        for (int64_t m = 1; m <= 150; m++)
            for (int64_t n = 1; n <= 150; n++) {
                int64_t pad = fasttree_pad(tile, m);
                check_each((m + pad) % tile == 0 && pad < tile &&
                               fasttree_pad(tile, m + n) <= pad + fasttree_pad(tile, n),
                           "tile %lld: %lld and %lld queries", (long long)tile, (long long)m, (long long)n);
            }
}

/* Algorithm 1 with equations 9 and 11 decides as the planner does, but for ties; and an assignment's cost is
 * the one that `optimal` minimises, times d. */
TEST(equations_against_the_planner)
{
    struct plan_env env = plan_env_default((struct heads){8, 2, 128, DT_F16});
    static const double gammas[] = {0.1, 3, 40};
    for (int64_t i = 0; i < n_trees(); i++) {
        AUTO_WITH_TREE nf = nform_new(random_tree(i));
        struct objective_env o = objective_of(OBJECTIVE_FASTTREE, &env, 64);
        o.fasttree.gamma = gammas[i % 3];
        struct fasttree_model m = model_of(&o.fasttree);
        FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
        random_edges(nf, (uint64_t)i, joined);
        ck_assert(near(fasttree_plan_cost(&m, nf, joined), 128 * objective_cost(nf, &o, joined)));

        fasttree_edges(nf, &o.fasttree, joined);
        FREED int64_t *left = xcalloc((size_t)nf->n_nodes, sizeof *left),
                      *len = xcalloc((size_t)nf->n_nodes, sizeof *len);
        for (int32_t v = 0; v < nf->n_nodes; v++) {
            int32_t u = nf->parent[v];
            left[v] = nf->q1[v] - nf->q0[v];
            len[v] = nf->len[v];
            if (u < 0)
                continue;
            double c0 = fasttree_split_kv(&m, left[u], len[u], left[v], len[v]);
            double c1 = fasttree_split_q(&m, left[u], len[u], left[v], len[v]);
            ck_assert_msg(near(c0, c1) || joined[v] == (c0 > c1), "tree %lld, node %d", (long long)i, v);
            if (joined[v]) {
                left[u] -= left[v];
                len[v] += len[u];
            }
        }
    }
}
