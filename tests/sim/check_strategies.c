/*
 * check_strategies.c - every registered strategy on hand-written trees and seeded families: the plan exists
 * or a sentence says why not, it covers exactly what is visible, and it looks the way its paper says.
 */
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include "sim/strategy.h"
#include "traces/formats/formats.h"
#include "traces/trace.h"
#include "verify/judge/cover.h"

/* ---- trees ------------------------------------------------------------------------------------------ */

static struct plan_env llama3_8b(void)
{
    return (struct plan_env){.heads = {32, 8, 128, DT_F16}, .machine = machine_find("h200")};
}

static struct tree *star(int64_t root, int32_t width, int64_t leaf)
{
    struct tree *t = tree_new(width + 1, 0);
    t->len[0] = root;
    for (int32_t i = 1; i <= width; i++) {
        t->parent[i] = 0;
        t->len[i] = leaf;
    }
    tree_query_leaves(t);
    return t;
}

static struct tree *few_shot(void)
{
    return star(4000, 20, 5);
}

static struct tree *many_queries(void)
{
    return star(1000, 200, 3);
}

static struct tree *forest(void)
{
    return tree_of(6, (int32_t[]){-1, -1, 0, 0, 1, 1}, (int64_t[]){100, 300, 20, 7, 5, 129}, 0, NULL);
}

/* Three times ten children of which the fourth branches again. */
static struct tree *caterpillar(void)
{
    struct tree *t = tree_new(31, 0);
    t->len[0] = 700;
    for (int32_t i = 1; i < 31; i++) {
        t->parent[i] = i <= 10 ? 0 : (i - 1) / 10 * 10 - 6;
        t->len[i] = 30 + 7 * i;
    }
    tree_query_leaves(t);
    return t;
}

/* A prefix and a token tree with a query on each of its eight tokens. */
static struct tree *token_tree(void)
{
    struct query query[8];
    for (int32_t i = 0; i < 8; i++)
        query[i] = (struct query){i + 1, 1};
    return tree_of(9, (int32_t[]){-1, 0, 0, 0, 1, 1, 2, 4, 4}, (int64_t[]){1000, 1, 1, 1, 1, 1, 1, 1, 1}, 8,
                   query);
}

static struct tree *chain(void)
{
    enum { N = 600 };
    struct tree *t = tree_new(N, 2);
    for (int32_t i = 0; i < N; i++) {
        t->parent[i] = i - 1;
        t->len[i] = 3;
    }
    t->query[0] = (struct query){N - 1, 3};
    t->query[1] = (struct query){299, 2};
    return t;
}

static struct tree *inside_one_node(void)
{
    return tree_of(1, (int32_t[]){-1}, (int64_t[]){300}, 5,
                   (struct query[]){{0, 300}, {0, 128}, {0, 0}, {0, 128}, {0, 1}});
}

/* Node 1 and what hangs below it belongs to nobody; node 3 is read up to its middle. */
static struct tree *dead_branch(void)
{
    return tree_of(5, (int32_t[]){-1, 0, 1, 0, 3}, (int64_t[]){64, 500, 40, 80, 9}, 2,
                   (struct query[]){{3, 50}, {3, 20}});
}

/* The first level of tokens is below an empty root: two prefixes. */
static struct tree *empty_nodes(void)
{
    return tree_of(6, (int32_t[]){-1, 0, 1, 0, 3, 3}, (int64_t[]){0, 10, 0, 0, 200, 0}, 4,
                   (struct query[]){{2, 0}, {4, 200}, {5, 0}, {1, 10}});
}

static struct tree *no_tokens(void)
{
    return tree_of(2, (int32_t[]){-1, 0}, (int64_t[]){0, 0}, 2, (struct query[]){{1, 0}, {0, 0}});
}

static struct tree *one_token(void)
{
    return tree_of(1, (int32_t[]){-1}, (int64_t[]){1}, 1, (struct query[]){{0, 1}});
}

static struct tree *same_place(void)
{
    return tree_of(2, (int32_t[]){-1, 0}, (int64_t[]){256, 0}, 3,
                   (struct query[]){{0, 256}, {1, 0}, {0, 256}});
}

static struct tree *block_edges(void)
{
    return tree_of(7, (int32_t[]){-1, 0, 0, 1, 1, 2, 2}, (int64_t[]){127, 1, 128, 129, 255, 256, 1}, 0, NULL);
}

/* A long path and a short one, one query each. */
static struct tree *long_and_short(void)
{
    return tree_of(2, (int32_t[]){-1, -1}, (int64_t[]){20000, 100}, 0, NULL);
}

/* What is known of each by counting with pencil and paper. */
static const struct {
    const char *name;
    struct tree *(*make)(void);
    int32_t prefixes; /* first-level ones */
    int64_t prefix;   /* tokens that all queries share, when there is one first-level prefix */
    int64_t live;     /* tokens that some query sees */
    int32_t seeing;   /* queries that see a token */
    int64_t contexts; /* sum over queries of what they see */
} known[] = {
    {"few-shot", few_shot, 1, 4000, 4100, 20, 20 * 4005},
    {"many queries", many_queries, 1, 1000, 1600, 200, 200 * 1003},
    {"forest", forest, 2, 0, 561, 4, 120 + 107 + 305 + 429},
    {"caterpillar", caterpillar, 1, 700, 700 + 900 + 7 * 465, 28, 0},
    {"token tree", token_tree, 1, 1000, 1008, 8, 8 * 1000 + 3 + 3 * 2 + 2 * 3},
    {"chain", chain, 1, 899, 1800, 2, 1800 + 899},
    {"inside one node", inside_one_node, 1, 1, 300, 4, 300 + 128 + 128 + 1},
    {"dead branch", dead_branch, 1, 84, 114, 2, 114 + 84},
    {"empty nodes", empty_nodes, 2, 0, 210, 3, 10 + 200 + 10},
    {"no tokens", no_tokens, 0, 0, 0, 0, 0},
    {"one token", one_token, 1, 1, 1, 1, 1},
    {"same place", same_place, 1, 256, 256, 3, 768},
    {"block edges", block_edges, 1, 127, 897, 4, 257 + 383 + 511 + 256},
};
enum { N_KNOWN = (int)(sizeof known / sizeof known[0]) };

/* ---- facts of any tree, from the tree alone --------------------------------------------------------- */

struct facts {
    int64_t live, contexts;
    int32_t seeing;
};

static struct facts facts_of(const struct tree *t)
{
    struct facts f = {0};
    FREED int64_t *ctx = xcalloc((size_t)t->n_queries, sizeof *ctx);
    FREED int64_t *need =
        xcalloc((size_t)t->n_nodes, sizeof *need); /* tokens of the node that some query sees */
    uint8_t *used = xcalloc((size_t)t->n_nodes, 1);
    tree_contexts(t, ctx);
    for (int32_t q = 0; q < t->n_queries; q++) {
        f.contexts += ctx[q];
        f.seeing += ctx[q] > 0;
        need[t->query[q].node] = max_i64(need[t->query[q].node], t->query[q].upto);
        used[t->query[q].node] = 1;
    }
    for (int32_t i = t->n_nodes - 1; i >= 0; i--) {
        if (used[i] && t->parent[i] >= 0) {
            used[t->parent[i]] = 1;
            need[t->parent[i]] = t->len[t->parent[i]];
        }
        f.live += need[i];
    }
    free(used);
    return f;
}

/* ---- what the papers say of each strategy ------------------------------------------------------------ */

/* What the groups of a plan read in all, each group's tokens counted once. */
enum reads { READS_ANY, READS_PATHS, READS_TREE, READS_TREE_PER_QUERY, READS_PREFIX_AND_RESTS };
enum { ANY_TILE = -1 };

static const struct shape {
    const char *name;
    enum reads reads;
    int32_t nq_max; /* queries of a group; 0: no limit */
    int64_t kv_max; /* tokens of a group; 0: no limit */
    int32_t tile_m, tile_n;
    enum mask_kind mask;
    enum storage storage;
    bool unfused;
} shapes[] = {
    {"naive", READS_PATHS, 1, 0, 0, 0, MASK_NONE, STORAGE_REPLICATED, true},
    {"flash-attention", READS_PATHS, 1, 0, 64, 128, MASK_NONE, STORAGE_SHARED, false},
    {"flash-decoding", READS_PATHS, 1, 0, 64, 128, MASK_NONE, STORAGE_REPLICATED, false},
    {"flashinfer", READS_PATHS, 1, 0, 16, 128, MASK_NONE, STORAGE_SHARED, false},
    {"radix-attention", READS_PATHS, 1, 0, 64, 128, MASK_NONE, STORAGE_SHARED, false},
    {"tree-vanilla", READS_TREE, 0, 0, 64, 128, MASK_DENSE, STORAGE_SHARED, false},
    {"tree-medusa", READS_TREE, 0, 0, 0, 0, MASK_DENSE, STORAGE_SHARED, true},
    {"tree-specinfer", READS_TREE_PER_QUERY, 1, 0, 64, 128, MASK_QUERY_WORDS, STORAGE_SHARED, false},
    {"deft-node", READS_TREE, 0, 0, 32, 16, MASK_NONE, STORAGE_SHARED, false},
    {"deft-node-chunk", READS_TREE, 0, 128, 32, 16, MASK_NONE, STORAGE_SHARED, false},
    {"deft-flatten", READS_ANY, 64, 128, 32, 128, MASK_RUN_WORDS, STORAGE_SHARED, false},
    {"hydragen", READS_PREFIX_AND_RESTS, 0, 0, 64, 128, MASK_NONE, STORAGE_REPLICATED_SUFFIX, false},
    {"hydragen-tree", READS_TREE, 0, 0, 64, 128, MASK_NONE, STORAGE_SHARED, false},
    {"cascade", READS_TREE, 0, 0, ANY_TILE, 64, MASK_NONE, STORAGE_SHARED, false},
    {"relay", READS_PREFIX_AND_RESTS, 0, 0, 64, 128, MASK_NONE, STORAGE_REPLICATED_SUFFIX, false},
    {"relay++", READS_PREFIX_AND_RESTS, 0, 0, 64, 128, MASK_NONE, STORAGE_SHARED, false},
};
enum { N_SHAPES = (int)(sizeof shapes / sizeof shapes[0]) };

static const struct shape *shape_find(const char *name)
{
    for (int i = 0; i < N_SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

static int64_t kv_tokens(const struct plan *p)
{
    int64_t sum = 0;
    for (int64_t g = 0; g < p->n_groups; g++)
        sum += p->group[g].n_kv;
    return sum;
}

/* KV tokens read when every Q tile reads its group's tokens anew. */
static int64_t tile_tokens(const struct plan *p, int32_t gqa)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        sum += g->n_kv * (g->tile_m > 0 ? ceil_div((int64_t)g->nq * gqa, g->tile_m) : 1);
    }
    return sum;
}

static void check_shape(const struct plan *p, const struct shape *x, const struct facts *f, const char *where)
{
    ck_assert_msg(p->storage == x->storage && p->unfused == x->unfused, "%s: storage or fusion", where);
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        ck_assert_msg(x->tile_m == ANY_TILE || g->tile_m == x->tile_m, "%s: tile_m %d", where, g->tile_m);
        ck_assert_msg(g->tile_n == x->tile_n, "%s: tile_n %d", where, g->tile_n);
        ck_assert_msg(g->mask == x->mask, "%s: mask %s", where, mask_name[g->mask]);
        ck_assert_msg(x->nq_max == 0 || g->nq <= x->nq_max, "%s: %d queries", where, g->nq);
        ck_assert_msg(x->kv_max == 0 || g->n_kv <= x->kv_max, "%s: %lld tokens", where, (long long)g->n_kv);
    }
    int64_t got = kv_tokens(p), want = got;
    if (x->reads == READS_PATHS)
        want = f->contexts;
    else if (x->reads == READS_TREE)
        want = f->live;
    else if (x->reads == READS_TREE_PER_QUERY)
        want = f->live * f->seeing;
    else if (x->reads == READS_PREFIX_AND_RESTS && p->n_groups > 0) /* the first group is the prefix */
        want = f->contexts - p->group[0].n_kv * (f->seeing - 1);
    ck_assert_msg(got == want, "%s: reads %lld tokens, not %lld", where, (long long)got, (long long)want);
}

/* The printed forms of a plan, one after the other; the caller frees. */
static char *printed(const struct plan *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    plan_print_text(f, p);
    plan_print_csv(f, p);
    plan_print_json(f, p);
    plan_print_dot(f, p);
    fclose(f);
    ck_assert_msg(strstr(text, p->strategy) && strstr(text, "digraph"), "a plan prints itself");
    return text;
}

/* All that holds for any strategy on any tree. Returns whether it applied. */
static bool check_on(const struct strategy_use *use, const struct tree *t, const struct plan_env *env,
                     const char *tree_name)
{
    struct err e = {0};
    char why[WHY_MAX], where[128];
    snprintf(where, sizeof where, "%s on %s", use->s->name, tree_name);
    ck_assert_msg(tree_check(t, &e), "%s: %s", tree_name, e.msg);
    AUTO(nform) nf = nform_new(t);
    AUTO(plan) p = strategy_plan(use, nf, env, why);
    bool applies = p != NULL;
    if (!applies) {
        ck_assert_msg(strlen(why) > 20, "%s: no sentence says why not", where);
    } else {
        struct facts f = facts_of(t);
        const struct shape *x = shape_find(use->s->name);
        ck_assert_msg(cover_check(p, &e), "%s: %s", where, e.msg);
        if (x)
            check_shape(p, x, &f, where);
        AUTO(plan) again = strategy_plan(use, nf, env, why);
        FREED char *one = printed(p), *two = printed(again);
        ck_assert_msg(strcmp(one, two) == 0, "%s: planned twice, two plans", where);
    }
    return applies;
}

/* ---- tests ------------------------------------------------------------------------------------------- */

LOOP_TEST(known_trees, N_KNOWN)
{
    struct plan_env env = llama3_8b();
    for (int32_t i = 0; i < n_strategies; i++) {
        struct strategy_use use = strategy_default(strategies[i]);
        AUTO(tree) t = known[_i].make();
        bool applies = check_on(&use, t, &env, known[_i].name);
        const char *name = strategies[i]->name;
        if (strcmp(name, "hydragen") == 0 || strncmp(name, "relay", 5) == 0)
            ck_assert_msg(applies == (known[_i].prefixes == 1), "%s on %s", name, known[_i].name);
        else if (strcmp(name, "tree-specinfer") == 0)
            ck_assert_msg(applies == (known[_i].live - known[_i].prefix <= 64), "%s on %s", name,
                          known[_i].name);
        else
            ck_assert_msg(applies, "%s on %s", name, known[_i].name);
    }
}

/* The facts that the other tests lean on, against pencil and paper. */
LOOP_TEST(known_facts, N_KNOWN)
{
    AUTO(tree) t = known[_i].make();
    AUTO(nform) nf = nform_new(t);
    struct facts f = facts_of(t);
    ck_assert_int_eq(f.live, known[_i].live);
    ck_assert_int_eq(f.seeing, known[_i].seeing);
    if (known[_i].contexts > 0)
        ck_assert_int_eq(f.contexts, known[_i].contexts);
    ck_assert_int_eq(nform_live_roots(nf), known[_i].prefixes);
}

/* The prefix of the single-prefix methods, on every tree that has one. */
LOOP_TEST(prefix_length, N_KNOWN)
{
    static const char *const names[] = {"hydragen", "relay", "relay++"};
    struct plan_env env = llama3_8b();
    AUTO_WITH_TREE nf = nform_new(known[_i].make());
    for (int i = 0; i < 3 && known[_i].prefixes == 1; i++) {
        AUTO(plan) p = must_plan(names[i], nf, &env);
        ck_assert_int_eq(p->group[0].n_kv, known[_i].prefix);
        ck_assert_int_eq(p->group[0].nq, known[_i].seeing);
    }
}

static const int32_t head_counts[][2] = {{32, 8}, {8, 8}, {64, 1}};

LOOP_TEST(seeded_trees, N_FAMILIES)
{
    int32_t n_seeds = getenv("TREEATTN_SEEDS") ? atoi(getenv("TREEATTN_SEEDS")) : 6;
    struct plan_env env = llama3_8b();
    for (int32_t seed = 0; seed < n_seeds; seed++) {
        AUTO(tree) t = gen_tree((enum family)_i, (uint64_t)seed);
        char name[64];
        snprintf(name, sizeof name, "%s:%d", family_name[_i], seed);
        env.heads.h_q = head_counts[seed % 3][0];
        env.heads.h_kv = head_counts[seed % 3][1];
        for (int32_t i = 0; i < n_strategies; i++) {
            struct strategy_use use = strategy_default(strategies[i]);
            check_on(&use, t, &env, name);
        }
    }
}

/* Tokens of a tile that a block does not fill are loaded and computed for nothing. */
TEST(tiles_of_deft_are_no_wider_than_its_blocks)
{
    static const int32_t of[][2] = {{1, 16},  {16, 16},  {17, 32},   {32, 32},
                                    {64, 64}, {65, 128}, {128, 128}, {500, 128}};
    struct plan_env env = llama3_8b();
    AUTO_WITH_TREE nf = nform_new(few_shot());
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        for (int rule = 0; rule < 2; rule++) {
            FREED char *use =
                xasprintf("deft-flatten:rule=%s,block=%d", rule ? "artifact" : "paper", (int)of[i][0]);
            AUTO(plan) p = must_plan(use, nf, &env);
            for (int64_t g = 0; g < p->n_groups; g++)
                ck_assert_msg(p->group[g].tile_n == of[i][1], "%s: tiles of %d tokens", use,
                              (int)p->group[g].tile_n);
        }
}

/* Worked examples, g = 4 rows a query, 132 SMs holding two CTAs each: 264 slots, 33 for each of 8 KV heads.
 *   few-shot (root 4000, 20 leaves of 5): flash-decoding has 160 CTAs; three parts fill 480 / 528 = 0.91 of
 *   two waves, within 0.85 of the best (8 parts, 0.97): 11 tiles of 128 a part. flashinfer: 33 chunks are
 *   less than two a query. deft-flatten: block 31 has 32 tokens of the root and 96 of leaves, block 32 has 4.
 *   token tree: 64 CTAs; four parts fill 256 of 264 slots.
 *   20000 and 100: flash-decoding's 14 parts fill 224 of 264 slots (best: 16 parts) with 12 tiles each; both
 *   queries leave partials. flashinfer has 32 chunks of 625 for the long path, and the short one writes its
 *   output. */
static const struct {
    struct tree *(*make)(void);
    const char *strategy;
    int64_t groups, tokens, tile_tokens;
    int32_t launches;
    int64_t slots, merges;
} worked[] = {
    {few_shot, "naive", 20, 80100, 80100, 4, 0, 0},
    {few_shot, "flash-attention", 20, 80100, 80100, 1, 0, 0},
    {few_shot, "flash-decoding", 60, 80100, 80100, 2, 60, 20},
    {few_shot, "flash-decoding:chunk=128", 640, 80100, 80100, 2, 640, 20},
    {few_shot, "flashinfer", 20, 80100, 80100, 1, 0, 0},
    {few_shot, "flashinfer:chunk=1000", 100, 80100, 80100, 2, 100, 20},
    {few_shot, "radix-attention", 60, 80100, 80100, 2, 60, 20},
    {few_shot, "tree-vanilla", 1, 4100, 2 * 4100, 1, 0, 0},
    {few_shot, "tree-medusa", 1, 4100, 4100, 5, 0, 0},
    {few_shot, "deft-node", 21, 4100, 3 * 4000 + 100, 2, 40, 20},
    {few_shot, "deft-node-chunk", 32 + 20, 4100, 3 * 4000 + 100, 2, 32 * 20 + 20, 20},
    {few_shot, "deft-flatten", 33, 4100, 3 * 4096 + 4, 2, 32 * 20 + 1, 20},
    {few_shot, "deft-flatten:rule=artifact", 33, 4100, 3 * 4096 + 4, 2, 32 * 20 + 1, 20},
    {few_shot, "deft-flatten:block=64", 65, 4100, 3 * 4032 + 2 * 64 + 4, 2, 63 * 20 + 14 + 1, 20},
    {few_shot, "hydragen", 21, 4100, 2 * 4000 + 100, 3, 40, 20},
    {few_shot, "hydragen-tree", 21, 4100, 2 * 4000 + 100, 3, 40, 20},
    {few_shot, "cascade", 21, 4100, 4100, 3, 40, 20},
    {few_shot, "relay", 21, 4100, 2 * 4000 + 100, 2, 40, 20},
    {few_shot, "relay++", 21, 4100, 2 * 4000 + 100, 2, 40, 20},
    {long_and_short, "flash-decoding", 14 + 1, 20100, 20100, 2, 15, 2},
    {long_and_short, "flashinfer", 32 + 1, 20100, 20100, 2, 32, 1},
    {long_and_short, "deft-node", 2, 20100, 20100, 2, 2, 2},
    {long_and_short, "hydragen-tree", 2, 20100, 20100, 1, 0, 0},
    {token_tree, "tree-specinfer", 4 * 8, 8 * 1008, 8 * 1008, 2, 32, 8},
    {token_tree, "tree-specinfer:chunk=2000", 8, 8 * 1008, 8 * 1008, 1, 0, 0},
};
enum { N_WORKED = (int)(sizeof worked / sizeof worked[0]) };

LOOP_TEST(worked_example, N_WORKED)
{
    struct plan_env env = llama3_8b();
    struct err e = {0};
    AUTO_WITH_TREE nf = nform_new(worked[_i].make());
    AUTO(plan) p = must_plan(worked[_i].strategy, nf, &env);
    ck_assert_msg(cover_check(p, &e), "%s: %s", worked[_i].strategy, e.msg);
    ck_assert_msg(p->n_groups == worked[_i].groups && kv_tokens(p) == worked[_i].tokens &&
                      tile_tokens(p, heads_gqa(&env.heads)) == worked[_i].tile_tokens &&
                      p->n_launches == worked[_i].launches && p->n_slots == worked[_i].slots &&
                      p->n_merges == worked[_i].merges,
                  "%s: %lld groups, %lld tokens, %lld by tiles, %d launches, %lld slots, %lld merges",
                  worked[_i].strategy, (long long)p->n_groups, (long long)kv_tokens(p),
                  (long long)tile_tokens(p, heads_gqa(&env.heads)), p->n_launches, (long long)p->n_slots,
                  (long long)p->n_merges);
}

/* Launches by name, so that a reader of a timeline finds what the paper calls them. */
TEST(launch_names)
{
    static const char *const names[][6] = {
        {"naive", "QK", "scale", "softmax", "PV"},    {"tree-medusa", "QK", "scale", "mask", "softmax", "PV"},
        {"flash-decoding", "attention", "merge"},     {"deft-flatten", "attention", "reduce"},
        {"hydragen", "prefix", "suffix", "merge"},    {"hydragen-tree", "level", "level", "merge"},
        {"cascade", "level", "level", "merge level"}, {"relay++", "prefix", "rest"},
    };
    struct plan_env env = llama3_8b();
    AUTO_WITH_TREE nf = nform_new(few_shot());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        AUTO(plan) p = must_plan(names[i][0], nf, &env);
        for (int32_t l = 0; l < p->n_launches; l++)
            ck_assert_str_eq(p->launch[l].name, names[i][1 + l]);
    }
}

/* Blocks of deft-flatten: ceil(live / 128) of them, all full but the last, queries in parts of 64 or 32, each
 * of which sees something of the block. */
LOOP_TEST(flatten_blocks, N_KNOWN)
{
    static const char *const rules[] = {"deft-flatten", "deft-flatten:rule=artifact"};
    struct plan_env env = llama3_8b();
    AUTO_WITH_TREE nf = nform_new(known[_i].make());
    for (int rule = 0; rule < 2; rule++) {
        AUTO(plan) p = must_plan(rules[rule], nf, &env);
        int32_t most = rule == 0 ? 64 : 32;
        int64_t blocks = 0, tokens = 0, short_blocks = 0;
        for (int64_t i = 0; i < p->n_groups; i++) {
            const struct group *g = &p->group[i], *before = i > 0 ? g - 1 : NULL;
            const struct run *r = &p->run[g->run0], *b = before ? &p->run[before->run0] : NULL;
            bool same = b && r->node == b->node && r->begin == b->begin;
            ck_assert_int_eq(g->mask, rule == 0 ? MASK_RUN_WORDS : MASK_TOKEN_WORDS);
            ck_assert(g->nq <= most && (!same || before->nq == most));
            blocks += !same;
            tokens += same ? 0 : g->n_kv;
            short_blocks += !same && g->n_kv < 128;
            for (int32_t k = 0; k < g->nq; k++) {
                bool sees = false;
                for (int64_t x = 0; x < g->run1 - g->run0; x++)
                    sees |= plan_visible(p, g, k, x);
                ck_assert_msg(sees, "query %d sees nothing of its block", plan_query(p, g, k));
            }
        }
        ck_assert_int_eq(tokens, known[_i].live);
        ck_assert_int_eq(blocks, ceil_div(known[_i].live, 128));
        ck_assert_int_eq(short_blocks, known[_i].live % 128 != 0);
    }
}

/* flashinfer: the chunk is the shortest with which all CTAs fit: one token less and they do not. */
LOOP_TEST(flashinfer_grid, 20)
{
    struct plan_env env = llama3_8b();
    int64_t root = 100000 + 777 * _i, room = 2 * 132 / 8, chunk = 0;
    AUTO(tree) t = star(root, 3, 11);
    t->query[2] = (struct query){0, 40000};
    AUTO(nform) nf = nform_new(t);
    AUTO(plan) p = must_plan("flashinfer", nf, &env);
    for (int64_t g = 0; g < p->n_groups; g++)
        chunk = max_i64(chunk, p->group[g].n_kv);
    ck_assert_int_le(p->n_groups, room);
    ck_assert_int_gt(2 * ceil_div(root + 11, chunk - 1) + ceil_div(40000, chunk - 1), room);
}

/* Tokens and mask bytes that a plan reads, one row a query as DeFT's release counts. */
struct counted {
    int64_t kv, mask;
};

static struct counted count_plan(const char *strategy, const struct nform *nf)
{
    struct plan_env env = llama3_8b();
    struct counted c = {0};
    env.heads.h_kv = env.heads.h_q;
    AUTO(plan) p = must_plan(strategy, nf, &env);
    c.kv = tile_tokens(p, 1);
    for (int64_t g = 0; g < p->n_groups; g++)
        c.mask += plan_mask_bytes(&p->group[g], p->group[g].nq);
    return c;
}

/* Steps of traces, against the counters that DeFT's release keeps. It counts a block of flatten once even
 * where two groups of 32 queries read it, so flatten is compared on steps of at most 32. */
static const struct {
    const char *spec;
    int64_t prompt, max_seq;
    int32_t steps; /* at most so many, spread over the trace; 0: all */
} replayed[] = {
    {"fewshot:20", 4000, 4400, 0},
    {"fewshot:50", 4000, 4400, 20},
    {"embedded:reasoning", 4000, 6000, 40},
    {"embedded:speculative", 1000, 2000, 20},
};
enum { N_REPLAYED = (int)(sizeof replayed / sizeof replayed[0]) };

LOOP_TEST(release_counters, N_REPLAYED)
{
    struct trace_opts opts = {.prompt = replayed[_i].prompt, .max_seq = replayed[_i].max_seq};
    AUTO(trace) tr = MUST(trace_open, replayed[_i].spec, &opts);
    struct counted seq = {0}, node = {0}, flat = {0};
    int64_t n = trace_steps(tr), steps = replayed[_i].steps > 0 ? min_i64(replayed[_i].steps, n) : n;
    for (int64_t k = 0; k < steps; k++) {
        AUTO(tree) t = trace_tree(tr, 1 + k * n / steps);
        AUTO(nform) nf = nform_new(t);
        struct trace_count want = trace_count_tree(t);
        struct counted s = count_plan("radix-attention", nf), d = count_plan("deft-node", nf);
        struct counted f = count_plan("deft-flatten:rule=artifact", nf), m = count_plan("tree-medusa", nf);
        ck_assert_int_eq(s.kv, want.kv_seq);
        ck_assert_int_eq(d.kv, want.kv_node32);
        ck_assert_int_eq(count_plan("deft-node-chunk", nf).kv, want.kv_node32);
        ck_assert_int_eq(m.kv, want.kv_tree);
        ck_assert_int_eq(m.mask, 2 * want.queries * want.kv_tree);
        if (want.queries <= 32) {
            ck_assert_int_eq(f.kv, want.kv_tree);
            ck_assert_int_eq(f.mask, 8 * want.kv_tree);
        }
        seq.kv += s.kv;
        node.kv += d.kv;
        flat.kv += f.kv;
        flat.mask += f.mask;
    }
    if (_i == 0) { /* as recorded for Llama-3-8B: 32 layers, 32 heads of 128, K and V of 2 bytes */
        const int64_t unit = 2 * 2 * 32 * 128 * 32;
        ck_assert_int_eq(flat.kv * unit, INT64_C(1673527296000));
        ck_assert_int_eq(node.kv * unit, INT64_C(1673527296000));
        ck_assert_int_eq(seq.kv * unit, INT64_C(17572036608000));
        ck_assert_int_eq(flat.mask * 32, INT64_C(817152000));
    }
}

/* cascade: rows of the Q tile by the average rows of the level's groups (4 a query here). */
TEST(cascade_tiles)
{
    static const struct {
        int32_t width, top, leaf;
    } x[] = {{4, 16, 16}, {5, 64, 16}, {16, 64, 16}, {17, 128, 16}};
    struct plan_env env = llama3_8b();
    for (int i = 0; i < 4; i++) {
        AUTO_WITH_TREE nf = nform_new(star(100, x[i].width, 9));
        AUTO(plan) p = must_plan("cascade", nf, &env);
        ck_assert_int_eq(p->group[0].tile_m, x[i].top);
        ck_assert_int_eq(p->group[1].tile_m, x[i].leaf);
    }
}

static struct tree *twenty_thousand(void)
{
    return star(3, 20000, 2);
}

/* The sentences of strategies that do not apply name the number that is too large. */
TEST(not_applicable)
{
    static const struct {
        const char *strategy;
        struct tree *(*make)(void);
        const char *says;
    } x[] = {
        {"hydragen", forest, "2 different prefixes"},       {"relay", forest, "2 different prefixes"},
        {"relay++", empty_nodes, "2 different prefixes"},   {"hydragen", no_tokens, "no query sees a token"},
        {"tree-specinfer", few_shot, "100 tokens are not"}, {"tree-specinfer", forest, "561 tokens are not"},
        {"tree-vanilla", twenty_thousand, "20001 nodes x 20000 queries"}, {"tree-medusa", twenty_thousand, "20001 nodes x 20000 queries"},
    };
    struct plan_env env = llama3_8b();
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        AUTO_WITH_TREE nf = nform_new(x[i].make());
        char why[WHY_MAX];
        struct strategy_use use = strategy_of(x[i].strategy);
        ck_assert_ptr_null(strategy_plan(&use, nf, &env, why));
        ck_assert_msg(strstr(why, x[i].says), "%s says '%s'", x[i].strategy, why);
    }
}

/* Every strategy has what lists and legends print, and no two have one name. */
TEST(registry)
{
    for (int32_t i = 0; i < n_strategies; i++) {
        const struct strategy *s = strategies[i];
        ck_assert_msg(s->name && s->source && s->about && s->plan, "strategy %d", i);
        for (int32_t j = 0; j < i; j++)
            ck_assert_str_ne(s->name, strategies[j]->name);
        for (int k = 0; s->opts && s->opts[k].key; k++) {
            ck_assert_int_lt(k, STRATEGY_MAX_OPTS);
            ck_assert(s->opts[k].about && s->opts[k].min <= s->opts[k].def &&
                      s->opts[k].def <= s->opts[k].max);
        }
    }
    for (int i = 0; i < N_SHAPES; i++) {
        struct strategy_use use;
        ck_assert_msg(strategy_parse(shapes[i].name, &use, NULL), "%s is not registered", shapes[i].name);
    }
}
