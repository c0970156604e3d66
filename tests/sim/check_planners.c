/* check_planners.c - FastTree and PAT: where paper and release differ, splitting, phases, tiles, ablations.
 */
#include "ref/rng.h"
#include "sim/strategies/tree_parts.h"
#include "sim/strategies/edge_planners.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"
#include "verify/judge/cover.h"

/* `roots` nodes of len[0] tokens, then levels of equal fan-out below each; a query on each leaf. */
static struct tree *even_tree(int32_t levels, const int32_t *count, const int64_t *len)
{
    int32_t n = 0, above = 0, at = 0;
    for (int32_t i = 0; i < levels; i++)
        n += count[i];
    struct tree *t = tree_new(n, 0);
    for (int32_t i = 0; i < levels; i++) {
        for (int32_t k = 0; k < count[i]; k++, at++) {
            t->parent[at] = i == 0 ? -1 : above + (int32_t)((int64_t)k * count[i - 1] / count[i]);
            t->len[at] = len[i];
        }
        above = at - count[i];
    }
    tree_query_leaves(t);
    return t;
}

/* Random forest: now and then a new root, an empty node, a query inside a node. */
static struct tree *random_tree(uint64_t seed)
{
    int32_t n = 1 + (int32_t)rng_below(seed, 0, 0, 120), nq = 1 + (int32_t)rng_below(seed, 0, 1, 150);
    struct tree *t = tree_new(n, nq);
    for (int32_t i = 0; i < n; i++) {
        bool root = i == 0 || rng_below(seed, 1, (uint64_t)i, 40) == 0;
        t->parent[i] = root ? -1 : (int32_t)rng_below(seed, 2, (uint64_t)i, i);
        t->len[i] = rng_below(seed, 3, (uint64_t)i, 4) ? rng_below(seed, 4, (uint64_t)i, 3000)
                                                       : rng_below(seed, 5, (uint64_t)i, 3);
    }
    for (int32_t q = 0; q < nq; q++) {
        int32_t node = (int32_t)rng_below(seed, 6, (uint64_t)q, n);
        bool whole = rng_below(seed, 7, (uint64_t)q, 3) != 0;
        t->query[q].node = node;
        t->query[q].upto = whole ? t->len[node] : rng_below(seed, 8, (uint64_t)q, t->len[node] + 1);
    }
    return t;
}

/* ---- orders ----------------------------------------------------------------------------------------- */

/* The same tree with windows for three seeds of four, which end in most nodes. */
static struct nform *random_form(uint64_t seed)
{
    static const int64_t window[] = {0, 40, 700, 9000};
    struct tree *t = random_tree(seed);
    tree_set_window(t, window[seed % 4]);
    return nform_new(t);
}

/* Nodes of which the query sees tokens, leaf first, into out; how many. */
static int32_t walk_up(const struct nform *nf, int32_t q, int32_t *out)
{
    int32_t n = 0;
    for (int32_t v = nf->at[q]; v >= 0 && nform_in_window(nf, q, v); v = nf->parent[v])
        if (nf->len[v] > 0)
            out[n++] = v;
    return n;
}

TEST(paths_are_those_of_the_tree)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        AUTO_WITH_TREE nf = random_form(seed);
        int32_t n_live, *up = xcalloc((size_t)nf->n_nodes, sizeof *up);
        FREED struct live *live = live_depth_first(nf, &n_live);
        FREED int64_t *context = query_contexts(nf);
        CLEARED(paths) paths = paths_of(nf, 0);
        int32_t place = 0, stride = 1 + (int32_t)(seed % 3); /* queries may be left out */
        for (int32_t q = 0; q < nf->n_queries; q += stride) {
            const struct sel *s = paths_next(&paths, q);
            int32_t n = walk_up(nf, q, up);
            ck_assert_int_eq(context[q], nform_context(nf, q));
            ck_assert_int_eq(s->n_kv, context[q]);
            ck_assert_int_eq(s->n_runs, n);
            ck_assert(s->nq == 1 && s->n_qr == 1 && s->qr[0].begin == q);
            for (int32_t i = 0; i < n; i++)
                ck_assert(s->run[i].node == up[n - 1 - i] && s->run[i].begin == 0 &&
                          s->run[i].end == nf->len[s->run[i].node]);
            for (int32_t i = 0; i < n && stride == 1 && !nf->since;
                 i++) /* nodes come when their first query does, root first */
                if (nf->q0[s->run[i].node] == q)
                    ck_assert_int_eq(live[place++].node, s->run[i].node);
        }
        ck_assert(stride > 1 || nf->since || place == n_live);
        for (int32_t i = 0; i < n_live; i++) {
            int32_t v = live[i].node;
            ck_assert(live[i].len == nf->len[v] && live[i].depth == nf->depth[v] && live[i].q0 == nf->q0[v] &&
                      live[i].q1 == nf->q1[v]);
        }
        free(up);
    }
}

/* ---- pieces ----------------------------------------------------------------------------------------- */

TEST(pieces_partition_a_selection)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        CLEARED(sel) s = {0};
        for (int32_t i = 0, q = 0; i < 5; i++) {
            int32_t n = (int32_t)rng_below(seed, 0, (uint64_t)i, 9);
            sel_queries(&s, q, q + n);
            q += n + (int32_t)rng_below(seed, 1, (uint64_t)i, 2);
            sel_run(&s, i, 2, 2 + rng_below(seed, 2, (uint64_t)i, 30));
        }
        int64_t q_step = 1 + rng_below(seed, 3, 0, 8), kv_step = 1 + rng_below(seed, 4, 0, 40);
        bool equal = seed % 2;
        int64_t seen = 0, parts = ceil_div(s.n_kv, kv_step), count = 0, shortest = kv_step, longest = 0;
        CLEARED(pieces) it = pieces_of(&s, q_step, kv_step, equal);
        while (pieces_next(&it)) {
            ck_assert_int_le(it.piece.nq, q_step);
            ck_assert_int_le(it.piece.n_kv, kv_step);
            int64_t nq = 0, n_kv = 0;
            for (int64_t i = 0; i < it.piece.n_qr; i++)
                nq += it.piece.qr[i].end - it.piece.qr[i].begin;
            for (int64_t i = 0; i < it.piece.n_runs; i++)
                n_kv += it.piece.run[i].end - it.piece.run[i].begin;
            ck_assert_int_eq(nq, it.piece.nq);
            ck_assert_int_eq(n_kv, it.piece.n_kv);
            shortest = min_i64(shortest, n_kv);
            longest = max_i64(longest, n_kv);
            seen += nq * n_kv;
            count++;
        }
        ck_assert_int_eq(seen, s.nq * s.n_kv);
        ck_assert_int_eq(count, s.n_kv && s.nq ? parts * ceil_div(s.nq, q_step) : 0);
        if (equal && count > 0)
            ck_assert_int_le(longest - shortest, 1);
    }
}

/* ---- FastTree --------------------------------------------------------------------------------------- */

/* 13 + 3 queries below a root of one token, no KV padding: joining the 13 saves 0.3 x 13 = 3.9 and pads
 * 4 queries more, 2.64 as printed and 10.56 at a GQA ratio of 4. */
TEST(gqa_ratio_weighs_padding_only_as_released)
{
    AUTO(tree) t = tree_new(3, 16);
    int64_t len[] = {1, 100, 100};
    memcpy(t->len, len, sizeof len);
    t->parent[1] = t->parent[2] = 0;
    for (int32_t q = 0; q < 16; q++)
        t->query[q] = (struct query){q < 13 ? 1 : 2, 100};
    AUTO(nform) nf = nform_new(t);
    for (int32_t rule = RULE_PAPER; rule <= RULE_ARTIFACT; rule++) {
        struct fasttree_cost c = fasttree_default_cost(rule, 4);
        ck_assert_int_eq(c.tile_q[0], 16);
        ck_assert_int_eq(c.tile_q[1], 4);
        c.tile_kv = 1;
        c.gamma = 0.3;
        uint8_t joined[3];
        fasttree_edges(nf, &c, joined);
        ck_assert_int_eq(joined[0], 0);
        ck_assert_int_eq(joined[1], rule == RULE_PAPER);
    }
}

TEST(released_fasttree_skips_forests)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(2, (int32_t[]){2, 8}, (int64_t[]){100, 50}));
    struct plan_env env = env_h200(8, 8);
    char why[WHY_MAX];
    struct strategy_use u = strategy_of("fasttree:rule=artifact");
    ck_assert_ptr_null(strategy_plan(&u, nf, &env, why));
    ck_assert_ptr_nonnull(strstr(why, "2 roots"));
    AUTO(plan) p = must_plan("fasttree", nf, &env);
    ck_assert_int_gt(p->n_groups, 0);
}

/* 128 CTAs of large tiles: too few for 132 SMs, enough for 108. */
TEST(the_paper_rule_asks_the_machine)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(2, (int32_t[]){4, 256}, (int64_t[]){512, 64}));
    struct plan_env env = env_h200(32, 32);
    struct strategy_use u = strategy_of("fasttree");
    CLEARED(fasttree_prep) f = fasttree_prepare(nf, &env, u.s, u.opt);
    ck_assert_int_eq(f.split[0], 128);
    ck_assert_int_eq(f.split[1], 1024);
    ck_assert_int_eq(f.parallelism[0], 4 * 128);
    fasttree_prep_free(&f);
    env.machine = machine_find("a100-80");
    f = fasttree_prepare(nf, &env, u.s, u.opt);
    ck_assert_int_eq(f.split[0], 1024);
    ck_assert_int_eq(f.parallelism[0], 128);
}

TEST(two_phases_only_when_both_fill_the_sms)
{
    AUTO(tree) full = even_tree(3, (int32_t[]){1, 16, 512}, (int64_t[]){1024, 512, 64});
    AUTO(tree) thin = even_tree(2, (int32_t[]){1, 40}, (int64_t[]){64, 64});
    AUTO(nform) nf = nform_new(full);
    struct plan_env env = env_h200(32, 32);
    AUTO(plan) p = must_plan("fasttree", nf, &env);
    ck_assert_int_eq(p->n_launches, 3);
    ck_assert_str_eq(p->launch[0].name, "large tiles");
    ck_assert_str_eq(p->launch[1].name, "small tiles");
    ck_assert_str_eq(p->launch[2].name, "merge");
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        ck_assert_int_eq(g->tile_m, g->nq > 16 ? 64 : 16);
        ck_assert_int_eq(g->tile_n, 32);
        ck_assert_int_eq(g->launch, g->nq > 16 ? 0 : 1);
        ck_assert(g->slot0 != PLAN_NO_SLOT);
    }
    plan_free(p);
    nform_free(nf);

    nf = nform_new(thin);
    env = env_h200(2, 2);
    p = must_plan("fasttree-no-greedy", nf, &env);
    ck_assert_int_eq(p->n_launches, 2); /* one phase and the merge */
    ck_assert_int_eq(p->n_groups, 41);
    for (int64_t i = 0; i < p->n_groups; i++)
        ck_assert_int_eq(p->group[i].tile_m, 16);
}

TEST(one_long_context_is_split)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(1, (int32_t[]){1}, (int64_t[]){100000}));
    struct plan_env env = env_h200(1, 1);
    static const char *const rule[] = {"fasttree", "fasttree:rule=artifact"};
    for (int i = 0; i < 2; i++) {
        AUTO(plan) p = must_plan(rule[i], nf, &env);
        ck_assert_int_eq(p->n_groups, 782);
        ck_assert_int_eq(p->group[0].n_kv, 128);
        ck_assert_int_eq(p->group[781].n_kv, 100000 - 781 * 128);
    }
}

/* Costs that tie keep nodes apart, whatever the tree. */
TEST(only_a_strictly_cheaper_join_counts)
{
    AUTO_WITH_TREE nf = nform_new(random_tree(3));
    FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
    struct fasttree_cost c = fasttree_default_cost(RULE_PAPER, 1);
    c.alpha = c.beta = c.gamma = 0;
    fasttree_edges(nf, &c, joined);
    for (int32_t v = 0; v < nf->n_nodes; v++)
        ck_assert_int_eq(joined[v], 0);
}

/* One query: the release gives it the large tile for want of CTAs, the paper says nothing of a lone phase.
 * Its partial is written and reduced all the same. */
TEST(a_lonely_phase_changes_tiles_only_as_released)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(1, (int32_t[]){1}, (int64_t[]){100}));
    struct plan_env env = env_h200(1, 1);
    for (int32_t rule = RULE_PAPER; rule <= RULE_ARTIFACT; rule++) {
        AUTO(plan) p = must_plan(rule == RULE_PAPER ? "fasttree" : "fasttree:rule=artifact", nf, &env);
        ck_assert_int_eq(p->n_groups, 1);
        ck_assert_int_eq(p->group[0].tile_m, rule == RULE_PAPER ? 16 : 64);
        ck_assert_int_eq(p->n_merges, 1);
        ck_assert_int_eq(p->n_slots, 1);
    }
}

/* Large tiles just fill 132 SMs once the root is cut at 128, the 64 leaves do not: one phase, large tiles. */
TEST(a_short_small_phase_takes_the_large_tile)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(2, (int32_t[]){1, 64}, (int64_t[]){132 * 128, 100}));
    struct plan_env env = env_h200(1, 1);
    static const char *const name[] = {"fasttree-no-greedy", "fasttree-no-greedy:rule=artifact"};
    for (int i = 0; i < 2; i++) {
        AUTO(plan) p = must_plan(name[i], nf, &env);
        ck_assert_int_eq(p->n_groups, 132 + 64);
        ck_assert_int_eq(p->n_launches, 2);
        for (int64_t g = 0; g < p->n_groups; g++)
            ck_assert_int_eq(p->group[g].tile_m, 64);
    }
}

/* A tile has room for all heads of a query. */
TEST(many_heads_raise_the_tile)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(2, (int32_t[]){1, 8}, (int64_t[]){100, 50}));
    struct plan_env env = env_h200(96, 1);
    AUTO(plan) p = must_plan("fasttree", nf, &env);
    for (int64_t i = 0; i < p->n_groups; i++)
        ck_assert_int_eq(p->group[i].tile_m, 128);
    plan_free(p);
    p = must_plan("pat", nf, &env);
    for (int64_t i = 0; i < p->n_groups; i++)
        ck_assert_int_eq(p->group[i].nq, 1);
}

/* ---- PAT -------------------------------------------------------------------------------------------- */

/* Algorithm 1 on three levels: 4 s_c < l_u keeps apart, equality merges; u's own length decides, not what it
 * inherited. */
TEST(algorithm_1_looks_at_its_own_length)
{
    /* root 16, child 20, grandchildren: 4 and 5 queries; the root's other child has 3 */
    AUTO(tree) t = tree_new(5, 12);
    int64_t len[] = {16, 20, 7, 7, 7};
    int32_t parent[] = {-1, 0, 1, 1, 0}, node[] = {2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4};
    memcpy(t->len, len, sizeof len);
    memcpy(t->parent, parent, sizeof parent);
    for (int32_t q = 0; q < 12; q++)
        t->query[q] = (struct query){node[q], 7};
    AUTO(nform) nf = nform_new(t);
    uint8_t joined[5];
    pat_edges(nf, RULE_PAPER, 64, joined);
    ck_assert_int_eq(joined[1], 1); /* 4 x 9 >= 16 */
    ck_assert_int_eq(joined[2], 0); /* 4 x 4 < 20 */
    ck_assert_int_eq(joined[3], 1); /* 4 x 5 = 20, although 36 tokens have come together */
    ck_assert_int_eq(joined[4], 0); /* 4 x 3 < 16 */
}

TEST(long_packs_are_split_below_the_mean)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        AUTO_WITH_TREE nf = nform_new(random_tree(seed));
        struct plan_env env = env_h200(32, 8);
        AUTO(plan) whole = must_plan("pat:split=0", nf, &env), *cut = must_plan("pat", nf, &env);
        int64_t tokens = 0, want = 0, n = whole->n_groups;
        for (int64_t i = 0; i < n; i++)
            tokens += whole->group[i].n_kv;
        for (int64_t i = 0; i < n; i++) {
            int64_t len = whole->group[i].n_kv;
            want += len * n > tokens ? ceil_div(len, tokens / n) : 1;
        }
        ck_assert_int_eq(cut->n_groups, want);
        for (int64_t i = 0; i < cut->n_groups; i++)
            ck_assert_int_le(cut->group[i].n_kv * n, tokens);
        for (int64_t i = 0, k = 0; i < n; i++) { /* parts of a pack are alike */
            int64_t len = whole->group[i].n_kv, parts = len * n > tokens ? ceil_div(len, tokens / n) : 1;
            for (int64_t end = k + parts; k < end; k++)
                ck_assert(cut->group[k].n_kv == len / parts || cut->group[k].n_kv == ceil_div(len, parts));
        }
    }
}

/* Short contexts and a long one: 5 x the mean of those of more than 256 tokens, or the plain mean. */
TEST(released_pat_splits_at_five_means)
{
    static const char released[] = "pat:rule=artifact,block=1";
    AUTO(tree) t = tree_new(9, 0);
    for (int32_t i = 0; i < 9; i++) {
        t->parent[i] = -1;
        t->len[i] = i == 8 ? 10000 : i < 2 ? 256 : 257;
    }
    tree_query_leaves(t);
    AUTO(nform) nf = nform_new(t);
    struct plan_env env = env_h200(64, 64); /* 4 packs are enough */
    AUTO(plan) p = must_plan(released, nf, &env);
    ck_assert_int_eq(p->n_groups, 8 + 7); /* mean (6 x 257 + 10000) / 7 = 1648.9; 10000 > 8244; 6.06 means */
    ck_assert_int_eq(p->group[8].n_kv, ceil_div(10000, 7));
    plan_free(p);
    p = must_plan("pat:rule=artifact,block=64", nf, &env); /* blocks: mean (6 x 5 + 157) / 7, 5.9 of them */
    ck_assert_int_eq(p->n_groups, 8 + 6);
    ck_assert_int_eq(p->group[8].n_kv, 27 * 64);
    ck_assert_int_eq(p->group[13].n_kv, 10000 - 5 * 27 * 64);
    plan_free(p);
    t->len[8] = 5000; /* mean 934.6: 5000 > 4673 */
    nform_free(nf);
    tree_query_leaves(t);
    nf = nform_new(t);
    p = must_plan(released, nf, &env);
    ck_assert_int_eq(p->n_groups, 8 + 6);
    plan_free(p);
    t->len[8] = 3855; /* mean 771: 3855 = 5 x 771 stays whole; nobody is in two packs, so nothing is merged */
    nform_free(nf);
    tree_query_leaves(t);
    nf = nform_new(t);
    p = must_plan(released, nf, &env);
    ck_assert_int_eq(p->n_groups, 9);
    ck_assert_int_eq(p->n_merges, 0);
    ck_assert_int_eq(p->slot_weight, SLOT_LSE);
    plan_free(p);
    p = must_plan("pat", nf, &env);
    ck_assert_int_eq(p->n_merges, 9);
    ck_assert_int_eq(p->slot_weight, SLOT_MAX_SUM);
}

/* Until there are packs enough, the longest is halved at a block border; not one of 8 blocks, and not beyond 32 packs
 * of a query. */
TEST(released_pat_halves_the_longest)
{
    static const struct {
        int32_t h_kv;
        int64_t wanted;
    } by_heads[] = {{1, 32}, {4, 32}, {5, 27}, {8, 27}, {9, 13}, {16, 13}, {17, 6}, {32, 6}, {33, 4}};
    AUTO(tree) t = tree_new(1, 1);
    t->len[0] = 100000;
    t->query[0] = (struct query){0, 100000};
    AUTO(nform) nf = nform_new(t);
    for (size_t i = 0; i < sizeof by_heads / sizeof by_heads[0]; i++) {
        struct plan_env env = env_h200(by_heads[i].h_kv, by_heads[i].h_kv);
        AUTO(plan) p = must_plan("pat:rule=artifact", nf, &env);
        ck_assert_int_eq(p->n_groups, by_heads[i].wanted); /* of one query: 32 at most */
        ck_assert_int_eq(p->group[0].n_kv % 32, 0);
        plan_free(p);
        p = must_plan("pat:rule=artifact,split=0", nf, &env);
        ck_assert_int_eq(p->n_groups, 1);
    }
    nform_free(nf);
    t->len[0] = t->query[0].upto = 17 * 16 - 1; /* 17 blocks: 9 and 8, then 5, 4 and 8 */
    nf = nform_new(t);
    struct plan_env env = env_h200(8, 8);
    AUTO(plan) p = must_plan("pat:rule=artifact,block=16", nf, &env);
    ck_assert_int_eq(p->n_groups, 3);
    ck_assert_int_eq(p->group[0].n_kv, 8 * 16 - 1);
    ck_assert_int_eq(p->group[1].n_kv, 5 * 16);
    ck_assert_int_eq(p->group[2].n_kv, 4 * 16);
}

TEST(released_tiles)
{
    static const int32_t nq[] = {1, 16, 17, 32, 33, 64}, m[] = {16, 16, 32, 32, 64, 64};
    static const int64_t len[] = {31, 32, 63, 64, 127, 128};
    static const int32_t n[] = {16, 32, 32, 64, 64, 128};
    struct plan_env env = env_h200(8, 8);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            AUTO(tree) t = tree_new(1, nq[i]);
            t->len[0] = len[k];
            for (int32_t q = 0; q < nq[i]; q++)
                t->query[q] = (struct query){0, len[k]};
            AUTO(nform) nf = nform_new(t);
            AUTO(plan) p = must_plan("pat:rule=artifact", nf, &env); /* 8 blocks at most: not halved */
            ck_assert_int_eq(p->n_groups, 1);
            ck_assert_int_eq(p->group[0].tile_m, m[i]);
            ck_assert_int_eq(p->group[0].tile_n, m[i] == 64 ? max_i64(32, n[k]) : n[k]);
        }
}

TEST(a_launch_per_tile)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(3, (int32_t[]){1, 4, 64}, (int64_t[]){2000, 192, 40}));
    struct plan_env env = env_h200(32, 8);
    static const char *const name[] = {"pat", "pat:rule=artifact", "pat-serial", "pat-fixed"};
    for (size_t k = 0; k < sizeof name / sizeof name[0]; k++) {
        AUTO(plan) p = must_plan(name[k], nf, &env);
        int32_t last = p->n_launches - 1;
        for (int32_t l = 0; l <= last; l++) {
            bool serial = l == 0 || l == last || strcmp(name[k], "pat-serial") == 0;
            ck_assert_int_eq(p->launch[l].order, serial ? LAUNCH_SERIAL : LAUNCH_CONCURRENT);
        }
        ck_assert_str_eq(p->launch[last].name, "merge");
        ck_assert_int_eq(p->n_launches > 2, strcmp(name[k], "pat-fixed") != 0);
        for (int64_t i = 0; i < p->n_groups; i++) {
            const struct group *g = &p->group[i];
            FREED char *tile = xasprintf("%dx%d", g->tile_m, g->tile_n);
            ck_assert_str_eq(tile, p->launch[g->launch].name);
            ck_assert_int_le(g->nq * 4, g->tile_m);
        }
    }
}

TEST(ablations_pack_as_they_say)
{
    AUTO_WITH_TREE nf = nform_new(even_tree(4, (int32_t[]){1, 4, 16, 512}, (int64_t[]){1024, 256, 24, 32}));
    struct plan_env env = env_h200(32, 8);
    AUTO(plan) p = must_plan("pat-naive:split=0", nf, &env);
    ck_assert_int_eq(p->n_groups, 32 + 4 * 8 + 16 * 2 + 512);
    for (int64_t i = 0; i < p->n_groups; i++)
        ck_assert_int_eq(p->group[i].run1 - p->group[i].run0, 1);
    plan_free(p);

    FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
    struct fasttree_cost cost = fasttree_default_cost(RULE_PAPER, 4);
    fasttree_edges(nf, &cost, joined);
    int64_t runs = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        CLEARED(sel) s = {0};
        vtree_select(nf, joined, v, &s);
        runs += s.n_runs * ceil_div(s.nq, 16);
    }
    p = must_plan("pat-compute:split=0", nf, &env);
    ck_assert_int_eq(p->n_runs, runs);
    ck_assert_ptr_nonnull(strstr(p->note, "packs of at most 16 queries"));
}

/* ---- windows ---------------------------------------------------------------------------------------- */

/* What planners count of a virtual node is what a plan has of it: queries that see its own tokens, tokens that one of them sees. */
TEST(virtual_nodes_know_windows)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        AUTO_WITH_TREE nf = random_form(seed);
        FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
        FREED int32_t *nq = xcalloc((size_t)nf->n_nodes, sizeof *nq), *seeing = xcalloc((size_t)nf->n_nodes, sizeof *seeing),
                      *above = xcalloc((size_t)nf->n_nodes, sizeof *above);
        FREED int64_t *len = xcalloc((size_t)nf->n_nodes, sizeof *len);
        AUTO(plan) p = plan_new(nf, "test");
        plan_launch(p, "attention", LAUNCH_SERIAL);
        for (int32_t v = 0; v < nf->n_nodes; v++)
            joined[v] = nf->parent[v] >= 0 && rng_below(seed, 20, (uint64_t)v, 2);
        for (int32_t q = 0; q < nf->n_queries; q++)
            for (int32_t v = nf->at[q]; v >= 0; v = nf->parent[v]) {
                seeing[v] += nform_in_window(nf, q, v);
                above[v] += nf->parent[v] >= 0 && nform_in_window(nf, q, nf->parent[v]);
            }
        vnode_sizes(nf, joined, nq, len);
        int64_t pairs = 0, want = 0;
        for (int32_t v = 0; v < nf->n_nodes; v++) {
            CLEARED(sel) s = {0};
            vtree_select(nf, joined, v, &s);
            check_each(s.nq == nq[v] && s.n_kv == (nq[v] > 0 ? len[v] : 0), "seed %d node %d", (int)seed, v);
            check_each(nform_seeing(nf, v) == seeing[v], "seed %d node %d", (int)seed, v);
            check_each(nf->parent[v] < 0 || nform_seeing_above(nf, v) == above[v], "seed %d node %d", (int)seed, v);
            if (plan_group(p, &s, &(struct group_spec){.tile_m = 64, .tile_n = 64}) == 0)
                continue;
            const struct group *g = &p->group[p->n_groups - 1];
            check_each(g->nq == nq[v] && g->n_kv == len[v], "seed %d node %d: %d queries, %d tokens", (int)seed, v,
                       g->nq, (int)g->n_kv);
            for (int32_t k = 0; k < g->nq; k++)
                for (int64_t r = g->run0; r < g->run1; r++)
                    pairs += plan_visible(p, g, k, r - g->run0) ? p->run[r].end - p->run[r].begin : 0;
        }
        for (int32_t q = 0; q < nf->n_queries; q++)
            want += nf->at[q] < 0 ? 0 : nform_context(nf, q);
        check_each(pairs == want, "seed %d: %d pairs, not %d", (int)seed, (int)pairs, (int)want);
    }
}

/* What falls out of every window is planned by nobody, whatever the strategy: each group's tokens are seen by one of its queries. */
TEST(nobody_plans_what_all_windows_left_behind)
{
    for (int32_t i = 0; i < n_strategies; i++) {
        int planned = 0;
        for (uint64_t seed = 1; seed < 60; seed += 1 + (seed % 4 == 3)) { /* those with windows */
            AUTO_WITH_TREE nf = random_form(seed);
            struct strategy_use use = strategy_default(strategies[i]);
            struct plan_env env = env_h200(32, 8);
            char why[WHY_MAX];
            AUTO(plan) p = strategy_plan(&use, nf, &env, why);
            struct err e = {0};
            planned += p != NULL;
            check_each(!p || cover_check(p, &e), "%s, seed %d: %s", strategies[i]->name, (int)seed, e.msg);
            for (int64_t k = 0; p && k < p->n_groups; k++)
                for (int64_t r = p->group[k].run0; r < p->group[k].run1; r++)
                    check_each(plan_any_sees(p, &p->group[k], 0, p->group[k].nq, r - p->group[k].run0),
                               "%s, seed %d: nobody sees run %d of group %d", strategies[i]->name, (int)seed, (int)r,
                               (int)k);
        }
        ck_assert_msg(planned > 0 || strategies[i]->applicable, "%s", strategies[i]->name);
    }
}

/* Requests of several lengths behind a long prompt, and windows that only some of them have left it with. */
TEST(costs_are_of_what_windows_let_through)
{
    AUTO(tree) t = levels_parse("1,8 4096,64", NULL);
    for (int32_t i = 1; i < t->n_nodes; i++)
        t->len[i] = i <= 4 ? 64 : 1000;
    tree_query_leaves(t);
    tree_set_window(t, 512);
    AUTO(nform) nf = nform_new(t);
    struct plan_env env = env_h200(32, 8);
    /* four see 448 tokens of the prompt, and all of their 64; the others the last 512 of 1,000 */
    static const struct {
        const char *strategy;
        int64_t tokens, groups;
    } want[] = {{"cascade", 448 + 4 * 64 + 4 * 512, 9},
                {"deft-node", 448 + 4 * 64 + 4 * 512, 9},
                {"pat:split=0", 448 + 4 * 64 + 4 * 512, 9},
                {"flash-attention", 8 * 512, 8},
                {"radix-attention:chunk=128", 8 * 512, 32}};
    for (size_t k = 0; k < sizeof want / sizeof want[0]; k++) {
        AUTO(plan) p = must_plan(want[k].strategy, nf, &env);
        int64_t tokens = 0;
        for (int64_t g = 0; g < p->n_groups; g++)
            tokens += p->group[g].n_kv;
        ck_assert_msg(tokens == want[k].tokens && p->n_groups == want[k].groups, "%s: %d tokens in %d groups",
                      want[k].strategy, (int)tokens, (int)p->n_groups);
    }
    static const struct {
        const char *strategy, *why;
    } skips[] = {{"optimal", "with windows the tokens of a pack depend on which queries stay in it"},
                 {"hydragen", "4 of 8 queries see the whole prefix"}};
    for (size_t k = 0; k < sizeof skips / sizeof skips[0]; k++) {
        struct strategy_use use = strategy_of(skips[k].strategy);
        char why[WHY_MAX] = "";
        ck_assert_ptr_null(strategy_plan(&use, nf, &env, why));
        ck_assert_msg(strstr(why, skips[k].why), "%s", why);
    }
    tree_set_window(t, 1200); /* all see the end of the prompt, and not from the same token on */
    AUTO(nform) longer = nform_new(t);
    struct strategy_use relay = strategy_of("relay");
    char why[WHY_MAX] = "";
    ck_assert_ptr_null(strategy_plan(&relay, longer, &env, why));
    ck_assert_msg(strstr(why, "4 of 8 queries see the whole prefix; the windows of the others begin in it or behind it"), "%s", why);
}

/* ---- all of them ------------------------------------------------------------------------------------ */

/* Other tests check what the registry makes by default; these are the rest. */
TEST(every_rule_and_option_covers)
{
    static const char *const name[] = {
        "fasttree",           "fasttree:rule=artifact",        "fasttree:split=7,split_short=3",
        "fasttree-no-greedy", "fasttree:large=4,small=2,kv=8", "pat",
        "pat:rule=artifact",  "pat:rule=artifact,max_rows=16", "pat:max_rows=3",
        "pat-compute",        "pat-compute:rule=artifact",     "pat-naive",
        "pat-fixed",          "pat-serial:rule=artifact"};
    static const int32_t gqa[][2] = {{8, 8}, {32, 8}, {16, 1}, {6, 2}};
    for (uint64_t seed = 100; seed < 160; seed++) {
        AUTO_WITH_TREE nf = random_form(seed);
        struct plan_env env = env_h200(gqa[seed % 4][0], gqa[seed % 4][1]);
        for (size_t k = 0; k < sizeof name / sizeof name[0]; k++) {
            if (strstr(name[k], "fasttree:rule=artifact") && nform_live_roots(nf) > 1)
                continue;
            AUTO(plan) p = must_plan(name[k], nf, &env);
            struct err e = {0};
            ck_assert_msg(cover_check(p, &e), "seed %d, %s: %s", (int)seed, name[k], e.msg);
            ck_assert_int_gt((int)strlen(p->note), 0);
        }
    }
}
