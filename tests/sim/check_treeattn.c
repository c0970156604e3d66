/* check_treeattn.c - our own strategy: how many groups a query is in, how large they are, what the model of its costs chooses. */
#include "ref/rng.h"
#include "sim/strategies/interleave.h"
#include "sim/strategies/treeattn.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"
#include "traces/generate/tree_builder.h"
#include "verify/judge/cover.h"

#include <math.h>

enum { WHOLE = 1 << 30, TREES = 300 };

static struct plan *plan_as(const struct nform *nf, const struct plan_env *env, const char *options)
{
    char why[WHY_MAX], *text = xasprintf("treeattn:%s", options);
    struct err e = {0};
    struct strategy_use u = strategy_of(text);
    struct plan *p = strategy_plan(&u, nf, env, why);
    ck_assert_msg(p && cover_check(p, &e), "%s: %s", text, p ? e.msg : why);
    free(text);
    return p;
}

/* With an option of treeattn left out where it is negative (low) or 0. */
static struct plan *plan_of(const struct nform *nf, const struct plan_env *env, int64_t low, int64_t high,
                            int64_t piece)
{
    char text[128];
    snprintf(text, sizeof text, "low=%lld,high=%lld,piece=%lld", (long long)low, (long long)high,
             (long long)piece);
    return plan_as(nf, env, text);
}

/* Groups of each query, out[nf->n_queries]; the caller frees. */
static int32_t *groups_of_queries(const struct plan *p)
{
    int32_t *n = xcalloc((size_t)p->nf->n_queries + 1, sizeof *n);
    for (int64_t i = 0; i < p->n_qr; i++)
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
            n[q]++;
    return n;
}

/* One group a query, or with bundles two, unless groups are cut, which bundles of many tokens always are; no more rows a group than
 * asked for, or than one query has; half as many tokens more than asked for at
 * most, in whole units of 64. */
static void check_sizes(const struct plan *p, int32_t gqa, int64_t low, int64_t high, int64_t piece)
{
    int64_t rows = max_i64(max_i64(low, high), gqa);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++) {
        check_each((int64_t)g->nq * gqa <= rows, "a group of %d queries x %d, asked for %lld rows", g->nq,
                   gqa, (long long)rows);
        check_each(g->n_kv <= piece + ceil_div(piece, 2) + 64, "a group of %lld tokens, asked for %lld",
                   (long long)g->n_kv, (long long)piece);
        check_each(g->tile_m >= 16 && g->tile_m <= 128 && (g->tile_m == 16 || g->tile_m / 2 < g->nq * gqa),
                   "a tile of %d rows for %d", g->tile_m, g->nq * gqa);
    }
    if (piece < WHOLE)
        return;
    int32_t *n = groups_of_queries(p), most = low > 0 ? 2 : 1;
    for (int32_t q = 0; q < p->nf->n_queries && (low == 0 || tree_tokens(p->nf->tree) <= 1024); q++)
        check_each(n[q] <= most, "query %d is in %d groups", q, n[q]);
    free(n);
}

LOOP_TEST(groups_are_as_asked_for, 12)
{
    static const struct {
        int32_t h_q, h_kv;
        int64_t low, high, piece;
    } of[] = {{32, 32, 0, 16, WHOLE}, {32, 8, 0, 128, WHOLE},  {64, 8, 0, 64, WHOLE},
              {16, 1, 0, 128, 200},   {32, 8, 16, 128, WHOLE}, {32, 32, 32, 64, WHOLE},
              {32, 8, 64, 128, 300},  {32, 32, 16, 16, WHOLE}, {28, 4, 14, 100, WHOLE},
              {71, 1, 0, 128, WHOLE}, {32, 32, 128, 128, 64},  {32, 8, 12, 20, 1}};
    struct plan_env env = env_h200(of[_i].h_q, of[_i].h_kv);
    for (int64_t i = 0; i < TREES; i++) {
        struct nform *nf =
            nform_new(gen_tree(gen_family(31 + (uint64_t)_i, i), gen_seed(31 + (uint64_t)_i, i)));
        AUTO(plan) p = plan_of(nf, &env, of[_i].low, of[_i].high, of[_i].piece);
        check_sizes(p, heads_gqa(&env.heads), of[_i].low, of[_i].high, of[_i].piece);
        nform_free_with_tree(nf);
    }
}

static struct nform *levels(const char *text)
{
    struct tree *t = MUST(levels_parse, text);
    return nform_new(t);
}

/* Neighbours below a small node are one group with it; what is above them another, of as many as fit. */
TEST(bundles_and_blocks)
{
    struct plan_env env = env_h200(8, 2); /* 4 rows a query */
    AUTO_WITH_TREE nf = levels("1,2,4,16 100,50,20,10");
    AUTO(plan) p = plan_of(nf, &env, 16, 32, WHOLE);
    ck_assert_int_eq(p->n_groups, 2 + 4); /* blocks of 8 queries; bundles of 4 below the third level */
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        ck_assert_int_eq(g->nq, i < 2 ? 8 : 4);
        ck_assert_int_eq(g->n_kv, i < 2 ? 150 : 20 + 4 * 10);
        ck_assert_int_eq(g->mask, i < 2 ? MASK_NONE : MASK_RUN_WORDS);
        ck_assert_int_eq(g->tile_m, i < 2 ? 32 : 16);
    }
    plan_free(p);
    p = plan_of(nf, &env, 0, 128, WHOLE); /* all in one tile: nothing to merge */
    ck_assert_int_eq(p->n_groups, 1);
    ck_assert_int_eq(p->group[0].n_kv, 100 + 2 * 50 + 4 * 20 + 16 * 10);
    ck_assert_int_eq(p->group[0].slot0, PLAN_NO_SLOT);
    ck_assert_int_eq(p->n_merges, 0);
}

/* A block is filled up, across nodes too, where it would have to end before a node of more tokens than the rows that are left are
 * worth; and has all that any of its queries sees, each query of it. */
LOOP_TEST(blocks_go_on, 5)
{
    static const struct {
        const char *tree;
        int32_t n_groups, most_queries;
        int64_t most_tokens;
    } of[] = {
        {"1,11,22 1000,1,1", 5, 5, 1000 + 3 + 5}, /* two queries a node, five a block */
        {"1,11,22 1000,200,1", 5, 5,
         1000 + 600 + 5}, /* a fifth of the tokens above, for a fifth of the rows */
        {"1,11,22 1000,201,1", 6, 4, 1000 + 402 + 4},   /* more */
        {"11,22 5,1", 11, 2, 5 + 2},                    /* nothing above: nothing to save */
        {"1,3,3,9 1000,1,1,1", 2, 5, 1000 + 2 + 2 + 5}, /* where a node and its child go on */
    };
    struct plan_env env = env_h200(16, 2);
    AUTO_WITH_TREE nf = levels(of[_i].tree);
    AUTO(plan) p = plan_of(nf, &env, 0, 40, WHOLE);
    ck_assert_int_eq(p->n_groups, of[_i].n_groups);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        check_each(g->nq <= of[_i].most_queries && g->n_kv <= of[_i].most_tokens, "%d queries, %lld tokens",
                   g->nq, (long long)g->n_kv);
    ck_assert_int_eq(p->n_slots, 0);
}

/* A part of a group has those queries alone that see any of it. */
TEST(parts_have_the_queries_that_see_them)
{
    struct plan_env env = env_h200(4, 4);
    AUTO_WITH_TREE nf = levels("1,4 64,128");
    AUTO(plan) p = plan_of(nf, &env, 0, 16, 64);
    ck_assert_int_eq(p->n_groups, 1 + 4 * 2);
    for (int64_t i = 0; i < p->n_groups; i++) {
        ck_assert_int_eq(p->group[i].nq, i == 0 ? 4 : 1);
        ck_assert_int_eq(p->group[i].mask, MASK_NONE);
    }
}

/* A part ends where a node does, if it can: then it has no mask, and its tokens one address. */
LOOP_TEST(parts_end_where_nodes_end, 9)
{
    static const struct {
        const char *tree;
        int64_t piece;
        int32_t n_groups, n_masked, most_queries_of_a_leaf; /* leaves are the last level */
    } of[] = {
        {"1,10 4000,400", 512, 7 + 10, 0, 1},  /* a root in seven, of up to a quarter more; a leaf in one */
        {"1,10 4000,400", 256, 13 + 20, 0, 1}, /* a leaf in two */
        {"1,10 4000,400", 1024, 4 + 4, 4, 3},  /* leaves two and three at a time */
        {"1,16 2000,32", 512, 4 + 1, 1, 16},   /* all of them */
        {"1,16 2000,7", 512, 4 + 1, 1, 16},    /* fewer than a quarter of a part, but not all see them */
        {"1,2,16 8,256,32", 256, 2 + 2, 3, 8}, /* a root with a node that half of the queries see */
        {"1,64 1000,1", 1024, 1, 1, 64},       /* no more than a quarter too many */
        {"1,64 1000,1", 768, 2 + 1, 1, 64},
        {"1,2,64 40,1000,1", 768, 2 * 2, 3, 64}, /* of a node that not all see the last, too */
    };
    struct plan_env env = env_h200(_i % 2 ? 16 : 8, 8);
    AUTO_WITH_TREE nf = levels(of[_i].tree);
    AUTO(plan) p = plan_of(nf, &env, 0, 128, of[_i].piece);
    int32_t masked = 0, leaf0 = nf->n_nodes - nf->n_queries;
    ck_assert_int_eq(p->n_groups, of[_i].n_groups);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++) {
        masked += g->mask != MASK_NONE;
        if (p->run[g->run0].node >= leaf0)
            check_each(g->nq <= of[_i].most_queries_of_a_leaf, "a part of leaves with %d queries", g->nq);
    }
    ck_assert_int_eq(masked, of[_i].n_masked);
}

/* What a CTA takes for a group, in tokens that all of its queries see. */
static double group_cost(const struct plan *p, const struct group *g, struct tile_weight w)
{
    const struct nform *nf = p->nf;
    double cost = 0;
    for (const struct run *r = p->run + g->run0; r < p->run + g->run1; r++) {
        bool all = nf->q1[r->node] - nf->q0[r->node] >= g->nq;
        cost += (all ? 1 : w.hidden) * (double)(r->end - r->begin) + (all ? 0 : w.run);
    }
    return cost;
}

/* Parts of equal cost: no more of them than asked for, none longer than the mean by more than where a cut may be, and a run. The few
 * tokens of leaves are in the last one, which has fewer tokens than the others. */
LOOP_TEST(parts_take_equally_long, 4)
{
    static const struct {
        const char *tree;
        int32_t h_q;
        int64_t piece;
        int32_t n_parts; /* of each block */
    } of[] = {
        {"1,64 4000,1", 64, 1004, 4},
        {"1,32 4000,16", 32, 1000, 5},
        {"1,16 4000,64", 64, 720, 7},
        {"1,128 4000,1", 32, 2016, 2},
    };
    char options[64];
    struct plan_env env = env_h200(of[_i].h_q, 8);
    AUTO_WITH_TREE nf = levels(of[_i].tree);
    snprintf(options, sizeof options, "low=0,high=128,piece=%lld,even=1,turns=0", (long long)of[_i].piece);
    AUTO(plan) p = plan_as(nf, &env, options);
    ck_assert_int_eq(p->n_groups % of[_i].n_parts, 0);
    for (int64_t i = 0; i < p->n_groups; i += of[_i].n_parts) {
        struct tile_weight w = tile_weight(p->group[i].tile_m); /* the first part has all queries */
        double sum = 0, most = 0;
        for (const struct group *g = p->group + i; g < p->group + i + of[_i].n_parts; g++) {
            double cost = group_cost(p, g, w);
            sum += cost;
            most = fmax(most, cost);
        }
        check_each(most <= sum / of[_i].n_parts + 32 * w.hidden + w.run + 1,
                   "the longest of %d parts takes %g, the mean %g", of[_i].n_parts, most,
                   sum / of[_i].n_parts);
        const struct group *last = &p->group[i + of[_i].n_parts - 1];
        ck_assert_int_ne(last->mask, MASK_NONE);
        check_each(last->n_kv <= last[-1].n_kv, "%lld tokens with leaves, %lld without",
                   (long long)last->n_kv, (long long)last[-1].n_kv);
    }
}

/* Of the token trees of speculative decoding no group has leaves alone, and one wave of CTAs has as many tokens each as it needs. So
 * chosen is what was 4 to 8 % faster on an H200. Where leaves are long, or bundles cheaper, parts end as nodes do. */
LOOP_TEST(few_leaves_join_the_prefix, 7)
{
    static const struct {
        const char *tree;
        int32_t h_q, h_kv, longest; /* 0: parts end as nodes do */
    } of[] = {
        {"1,64 4000,1", 64, 8, 1024},      {"1,128 4000,1", 32, 8, 1088}, {"1,256 4000,1", 32, 8, 2112},
        {"1,64 1016,1", 64, 8, 576},       {"1,64 16000,1", 64, 8, 0},    {"1,2,64 1024,256,256", 32, 8, 0},
        {"1,8,40 2000,128,128", 64, 4, 0},
    };
    struct plan_env env = env_h200(of[_i].h_q, of[_i].h_kv);
    AUTO_WITH_TREE nf = levels(of[_i].tree);
    AUTO(plan) p = plan_of(nf, &env, -1, 0, 0), *apart = plan_as(nf, &env, "even=0");
    bool even = of[_i].longest > 0, same = plan_same(p, apart);
    ck_assert_msg((strstr(p->note, "even=1") != NULL) == even, "%s: %s", of[_i].tree, p->note);
    check_each(same != even, "%s: %s", of[_i].tree, apart->note);
    for (const struct group *g = p->group; g < p->group + p->n_groups && even; g++)
        check_each(g->n_kv <= of[_i].longest && 2 * g->n_kv >= of[_i].longest, "%s: %lld tokens", of[_i].tree,
                   (long long)g->n_kv);
    ck_assert(!even || p->n_groups * of[_i].h_kv <= env.machine->sms);
}

/* What the model should know in any case: deep trees of many queries leave few partial results or none, queries without anything in
 * common are apart, one long prefix is cut. */
TEST(the_model_chooses)
{
    struct plan_env env = env_h200(32, 8);
    AUTO_WITH_TREE nf = levels("1,16,32,64,256,1024 256,128,64,32,32,32");
    AUTO(plan) p = plan_of(nf, &env, -1, 0, 0);
    ck_assert_msg(p->n_slots <= 2 * 1024, "%lld partial results of 1,024 queries", (long long)p->n_slots);
    plan_free(p);
    nform_free_with_tree(nf);

    nf = levels("256 1024");
    p = plan_of(nf, &env, -1, 0, 0);
    ck_assert_int_eq(p->n_groups, 256);
    plan_free(p);
    nform_free_with_tree(nf);

    nf = levels("1,16 16000,1");
    p = plan_of(nf, &env, -1, 0, 0);
    ck_assert_msg(p->n_groups * env.heads.h_kv >= env.machine->sms / 2, "%lld groups of one prefix",
                  (long long)p->n_groups);
}

/* The note of a plan says what was chosen, so that it can be asked for again. */
TEST(what_was_chosen_can_be_asked_for)
{
    static const int32_t of[][2] = {{32, 8}, {32, 32}, {71, 1}};
    int seen[3] = {0}; /* trunks, tall tiles, parts of equal cost */
    for (int64_t i = 0; i < TREES; i++) {
        struct plan_env env = env_h200(of[i % 3][0], of[i % 3][1]);
        AUTO_WITH_TREE nf = nform_new(gen_tree(gen_family(77, i), gen_seed(77, i)));
        AUTO(plan) p = plan_of(nf, &env, -1, 0, 0), *again;
        const char *said = strstr(p->note, ": low=");
        ck_assert_msg(said, "%s", p->note);
        again = plan_as(nf, &env, said + 2);
        ck_assert(!strchr(again->note, ':'));
        check_each(plan_same(p, again), "tree %d: %s", (int)i, said);
        plan_free(again);
        struct strategy_use chosen, any = strategy_default(&strategy_treeattn);
        char why[WHY_MAX];
        chosen = strategy_chosen(&any, nf, &env);
        again = strategy_plan(&chosen, nf, &env, why);
        ck_assert(!treeattn_chooses(chosen.opt));
        check_each(plan_same(p, again), "tree %d: %s", (int)i, again->params);
        seen[0] += strstr(said, "trunk=0") == NULL;
        seen[1] += strstr(said, "tall=1") != NULL;
        seen[2] += strstr(said, "even=1") != NULL;
    }
    ck_assert_msg(seen[0] >= 5 && seen[1] >= 5 && seen[2] >= 2,
                  "%d with trunks, %d of tall tiles, %d of even parts", seen[0], seen[1], seen[2]);
}

/* By rank prices ascend (tiles of 64 rows where 16 would do count for 1.07 of theirs, parts of equal cost for 1.005), plans are others,
 * the first is what is chosen without; behind the last plan there is the last again. */
TEST(ranks_are_plans_by_price)
{
    enum { RANKS = 12 };
    int others = 0, last = 0;
    for (int64_t i = 0; i < TREES; i++) {
        struct plan_env env = i % 2 ? env_h200(32, 8) : env_h200(16, 1);
        struct tile_env tiles = tile_env_of(&env);
        AUTO_WITH_TREE nf = nform_new(gen_tree(gen_family(79, i), gen_seed(79, i)));
        AUTO(plan) before = plan_of(nf, &env, -1, 0, 0);
        double least = 0;
        for (int rank = 1; rank <= RANKS; rank++) {
            char name[32];
            snprintf(name, sizeof name, "treeattn:rank=%d", rank);
            struct strategy_use use = strategy_of(name);
            struct tile_bill bill = treeattn_bill(nf, &env, use.opt);
            double price = tile_price(&bill, &tiles, &tile_coefs);
            struct plan *p = plan_as(nf, &env, strchr(name, ':') + 1);
            price *= strstr(p->note, "tall=2") ? 1.07 : 1;
            price *= strstr(p->note, "even=1") ? 1.005 : 1;
            check_each(price >= least * (1 - 1e-9), "tree %d, rank %d: %g behind %g", (int)i, rank, price,
                       least);
            bool same = plan_same(p, before);
            check_each(rank > 1 || same, "tree %d: %s", (int)i, p->note);
            check_each(!same || rank == 1 || price <= least * (1 + 1e-9), "tree %d, rank %d: the same plan",
                       (int)i, rank);
            others += rank > 1 && !same;
            last += rank > 1 && same;
            least = price;
            plan_free(before);
            before = p;
        }
    }
    ck_assert_msg(others > 5 * TREES && last > 0, "%d others, %d the last", others, last);
}

/* Groups of at most 16 rows have tiles of 64 only where all CTAs of 64 rows and more run at once. */
TEST(tallest_tiles_are_one_wave)
{
    static const int32_t of[][2] = {{16, 1}, {32, 8}, {32, 32}, {14, 2}};
    int seen = 0;
    for (int64_t i = 0; i < 2 * TREES; i++) {
        struct plan_env env = env_h200(of[i % 4][0], of[i % 4][1]);
        AUTO_WITH_TREE nf = nform_new(gen_tree(gen_family(78, i), gen_seed(78, i)));
        AUTO(plan) p = plan_of(nf, &env, -1, 0, 0);
        int64_t ctas = 0, small = 0;
        for (const struct group *g = p->group; g < p->group + p->n_groups; g++) {
            int64_t rows = (int64_t)g->nq * heads_gqa(&env.heads);
            ctas += g->tile_m < 64 ? 0 : ceil_div(rows, g->tile_m) * env.heads.h_kv;
            small += g->tile_m == 64 && rows <= 16;
        }
        check_each(small == 0 || ctas <= env.machine->sms, "tree %d: %lld CTAs", (int)i, (long long)ctas);
        seen += small > 0;
    }
    ck_assert_int_ge(seen, 3);
}

/* A prefix of 512 tokens that 40 queries see, 280 rows at seven heads a KV head: in blocks of 18 queries three times, as a trunk
 * once, in tiles of 128 rows; branches of 30 tokens stay in blocks, a second long node with all its queries in the same trunk. */
TEST(trunks_are_groups_of_their_own)
{
    struct plan_env env = env_h200(28, 4);
    AUTO_WITH_TREE nf = levels("1,1,40 512,300,30");
    AUTO(plan) whole = plan_as(nf, &env, "low=0,high=128,piece=1000000,trunk=0"),
               *trunk = plan_as(nf, &env, "low=0,high=128,piece=1000000,trunk=256"),
               *longer = plan_as(nf, &env, "low=0,high=128,piece=1000000,trunk=301"),
               *low = plan_as(nf, &env, "low=0,high=64,piece=1000000,trunk=256"),
               *bundles = plan_as(nf, &env, "low=128,trunk=256"); /* as large as a block may be */
    for (const struct group *g = bundles->group; g < bundles->group + bundles->n_groups; g++)
        ck_assert(g->nq == 40 || g->n_kv == 30);
    ck_assert_int_eq(whole->n_groups, 3);
    ck_assert_int_eq(whole->n_slots, 0);
    ck_assert_int_eq(trunk->n_groups, 4);
    int found = 0;
    for (const struct group *g = trunk->group; g < trunk->group + trunk->n_groups; g++)
        if (g->n_kv == 812) {
            ck_assert(g->nq == 40 && g->mask == MASK_NONE && g->tile_m == 128);
            found++;
        } else
            ck_assert(g->nq <= 18 && g->n_kv == 30 * g->nq && g->mask != MASK_NONE);
    ck_assert_int_eq(found, 1);
    for (const struct group *g = longer->group; g < longer->group + longer->n_groups; g++)
        if (g->nq == 40) /* the second node is a block's */
            ck_assert_int_eq(g->n_kv, 512);
        else
            ck_assert_int_eq(g->n_kv, 300 + 30 * g->nq);
    for (const struct group *g = low->group; g < low->group + low->n_groups; g++)
        ck_assert(g->nq < 40 || g->tile_m == 64);
}

/* Blocks that go on from one trunk into the next, for the 3,000 tokens above, do without the tokens of either. */
TEST(blocks_go_on_across_trunks)
{
    struct plan_env env = env_h200(28, 4);
    AUTO_WITH_TREE nf = levels("1,1,3,60 1500,1500,1600,30");
    AUTO(plan) p = plan_as(nf, &env, "low=0,high=128,piece=1000000,trunk=1600");
    ck_assert_int_eq(p->n_groups, 3 + 4); /* 60 queries, 18 a block */
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        ck_assert(g->mask == MASK_NONE ? g->n_kv == 1600 && g->nq == 20 : g->n_kv == 3000 + 30 * g->nq);
}

/* Pieces of bundles apart from those of blocks, tiles of 64 rows for 17 to 32, or fewer. */
TEST(bundles_and_tiles_as_asked_for)
{
    struct plan_env env = env_h200(32, 8);
    AUTO_WITH_TREE nf = levels("1,12 1000,900");
    struct plan *p = plan_as(nf, &env, "low=16,high=64,piece=512,bundle=128"),
                *tall = plan_as(nf, &env, "low=32,high=64,piece=512,bundle=300,tall=1");
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        ck_assert(g->nq == 1 ? g->n_kv <= 160 && g->tile_m == 16 : g->n_kv >= 400 && g->n_kv <= 640);
    for (const struct group *g = tall->group; g < tall->group + tall->n_groups; g++)
        ck_assert_int_eq(g->tile_m, g->nq == 1 ? 16 : 64);
    plan_free(p);
    plan_free(tall);
    nform_free_with_tree(nf);

    nf = levels("1,6 1000,90");
    static const char *const asked[] = {"low=0,high=64,piece=512,tall=0", "low=0,high=64,piece=512,tall=1",
                                        "low=0,high=64,piece=512,tall=2"};
    for (int i = 0; i < 3; i++) {
        p = plan_as(nf, &env, asked[i]);
        for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
            ck_assert_int_eq(g->tile_m, g->nq <= 4 ? (i == 2 ? 64 : 16) : i ? 64 : 32);
        plan_free(p);
    }
}

/* Tokens of sort `which` that are among the first n. */
static int64_t tokens_among(const struct sel *s, const uint8_t *sort, int which, int64_t n)
{
    int64_t found = 0, at = 0;
    for (int64_t r = 0; r < s->n_runs && at < n; at += s->run[r].end - s->run[r].begin, r++)
        found += sort[s->run[r].node] == which ? min_i64(s->run[r].end - s->run[r].begin, n - at) : 0;
    return found;
}

/* Runs of nodes 0, 1, .. in turns of `unit`: in units of one sort each, of which any stretch from the first on has as many of each
 * as its share says, but for one; nodes of a sort in their order, each token once; what fills no unit comes last. */
static void check_turns(const struct sel *s, const uint8_t *sort, const int64_t *len, int32_t n, int64_t unit)
{
    int64_t *seen = xcalloc((size_t)n, sizeof *seen), all[INTERLEAVE_SORTS] = {0}, units = 0;
    int32_t last[INTERLEAVE_SORTS] = {0};
    for (int32_t v = 0; v < n; v++)
        all[sort[v]] += len[v];
    for (int64_t r = 0; r < s->n_runs; r++) {
        const struct run *run = &s->run[r];
        ck_assert_int_eq(run->begin, seen[run->node]);
        ck_assert_int_le(last[sort[run->node]], run->node);
        last[sort[run->node]] = run->node;
        seen[run->node] = run->end;
    }
    for (int32_t v = 0; v < n; v++)
        ck_assert_int_eq(seen[v], len[v]);
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        units += all[i] / unit;
    for (int64_t k = 0; k <= units; k++)
        for (int i = 0; i < INTERLEAVE_SORTS; i++) {
            int64_t tokens = tokens_among(s, sort, i, k * unit);
            double share = (double)(all[i] / unit) * (double)k / (double)units;
            ck_assert_int_eq(tokens % unit, 0);
            ck_assert_msg(fabs((double)(tokens / unit) - share) <= 1.5,
                          "%lld units of sort %d among %lld, share %g", (long long)(tokens / unit), i,
                          (long long)k, share);
        }
    free(seen);
}

TEST(sorts_take_turns)
{
    enum { MOST = 40 };
    struct sel s = {.n_kv = 0}, spare[INTERLEAVE_SORTS] = {{.n_kv = 0}};
    for (uint64_t round = 0; round < 400; round++) {
        uint8_t sort[MOST];
        int64_t len[MOST], filled[INTERLEAVE_SORTS] = {0}, unit = 1 + rng_below(77, round, 0, 70);
        int32_t n = 1 + (int32_t)rng_below(77, round, 1, MOST);
        sel_clear(&s);
        for (int32_t v = 0; v < n; v++) {
            uint64_t at = 2 + 3 * (uint64_t)v;
            sort[v] = (uint8_t)rng_below(77, round, at, INTERLEAVE_SORTS);
            len[v] = 1 + rng_below(77, round, at + 1, rng_below(77, round, at + 2, 4) ? 60 : 900);
            filled[sort[v]] += len[v];
            sel_run(&s, v, 0, len[v]);
        }
        interleave(&s, sort, unit, spare);
        if ((filled[0] >= unit) + (filled[1] >= unit) + (filled[2] >= unit) >= 2)
            check_turns(&s, sort, len, n, unit);
        else /* as it was */
            for (int32_t v = 0; v < n; v++)
                ck_assert(s.n_runs == n && s.run[v].node == v && s.run[v].end == len[v]);
    }
    sel_free(&s);
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        sel_free(&spare[i]);
}

/* 1,024 tokens that 16 queries see, 128 rows, and 64 of each: 128 of the first, then 128 of either half of the rows. */
TEST(shared_tokens_take_turns_with_others)
{
    struct plan_env env = env_h200(64, 8);
    AUTO_WITH_TREE nf = levels("1,16 1024,64");
    AUTO(plan) p = plan_as(nf, &env, "low=0,high=128,piece=1000000"),
               *was = plan_as(nf, &env, "low=0,high=128,piece=1000000,turns=0");
    ck_assert_int_eq(was->n_runs, 17);
    ck_assert_int_eq(was->run[0].end, 1024);
    ck_assert_int_eq(p->n_groups, 1);
    int64_t at = 0, of_half[2] = {0}, shared = 0;
    for (int64_t r = 0; r < p->n_runs; r++) {
        const struct run *run = &p->run[r];
        bool is_shared = run->node == 0;
        int half = is_shared ? 0 : nf->q0[run->node] >= 8;
        at += run->end - run->begin;
        shared += is_shared ? run->end - run->begin : 0;
        of_half[half] += is_shared ? 0 : run->end - run->begin;
        if (at % 128 == 0) { /* a half of the turns, a quarter, a quarter */
            ck_assert_int_le(llabs(2 * shared - at), 256);
            ck_assert_int_le(llabs(of_half[0] - of_half[1]), 128);
        }
    }
}

/* Tiles of 64 rows and more, and of 16 with 640 tokens or more; masked ones alone. */
TEST(which_tiles_take_turns)
{
    static const struct {
        const char *tree, *options;
        bool turns;
    } of[] = {
        {"1,4 512,32", "low=0,high=16,piece=100000", true},
        {"1,4 511,32", "low=0,high=16,piece=100000", false},
        {"1,8 1024,64", "low=0,high=32,piece=100000", false},
        {"1,8 1024,64", "low=0,high=32,piece=100000,tall=1", true},
        {"1,16 256,64", "low=0,high=64,piece=100000", true},
        {"1,32 256,64", "low=0,high=128,piece=100000", true},
        {"1,32 256,64", "low=4,high=128,piece=100000", false},
        {"1,16 256,3", "low=0,high=64,piece=100000", false},
        {"1,32 256,64", "low=0,high=128,piece=100000,turns=0", false},
    };
    struct plan_env env = env_h200(32, 8);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        AUTO_WITH_TREE nf = levels(of[i].tree);
        AUTO(plan) p = plan_as(nf, &env, of[i].options);
        for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
            for (int64_t r = g->run0 + 1; r < g->run1; r++)
                if (p->run[r].node < p->run[r - 1].node || p->run[r].begin > 0)
                    ck_assert_msg(of[i].turns, "%s of %s: tokens take turns", of[i].options, of[i].tree);
        bool any = p->n_runs > 0 && p->run[0].end < nf->len[0];
        ck_assert_msg(any == of[i].turns, "%s of %s: the root has %lld tokens in its first run",
                      of[i].options, of[i].tree, (long long)p->run[0].end);
    }
}

/* Trees on which models before chose plans that took 1.1 to 1.6 of the best other plan's time: what is faster on an H200 has few
 * masks, fewer CTAs than SMs, or nothing to merge. */
LOOP_TEST(the_model_chooses_what_was_fast, 8)
{
    static const struct {
        const char *tree;
        int32_t h_q, h_kv, most_masked, most_slots, most_ctas;
    } of[] = {
        {"1,2,64 8,256,32", 32, 8, 16, 192, 1000}, /* leaves by themselves, or four at a time */
        {"1,10 4000,400", 32, 8, 0, 100, 216}, /* short leaves, as many again as SMs: 20.2 us, 20.0 at best */
        {"1,4,256 8,256,32", 16, 1, 1000, 0, 132},      /* four queries with their prefix and leaves */
        {"1,16,64 1024,256,32", 32, 32, 16, 192, 1100}, /* four leaves with the node above them, not 64 */
        {"1,64 1016,1", 32, 32, 2, 192, 132},           {"1,1024 2048,32", 16, 1, 1000, 0, 132},
        {"1,50,250 3700,1,1", 32, 8, 1000, 500, 132}, /* a token tree: neighbours in a tile, in two parts: 42.5 us, whole 43.3 */
        {"1,8,512 32,2048,256", 32, 8, 16, 1024, 5000}, /* long leaves by themselves, or whole: 170.8 us, 167.9 at best */
    };
    struct plan_env env = env_h200(of[_i].h_q, of[_i].h_kv);
    AUTO_WITH_TREE nf = levels(of[_i].tree);
    AUTO(plan) p = plan_of(nf, &env, -1, 0, 0);
    int32_t masked = 0;
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        masked += g->mask != MASK_NONE;
    ck_assert_msg(masked <= of[_i].most_masked && p->n_slots <= of[_i].most_slots &&
                      p->n_groups * env.heads.h_kv <= of[_i].most_ctas,
                  "%s: %lld groups, %d masked, %lld partial results", of[_i].tree, (long long)p->n_groups,
                  masked, (long long)p->n_slots);
}
