/*
 * gen.c - seeded random trees, by family.
 *
 * A generator first grows a tree under a budget of nodes, then hangs queries on it, then trims it: every
 * tree is run by every strategy, so one tree's work, the sum of its queries' contexts, is held within
 * WORK_MAX. One seed in eight (seed % 8 == 0) gives a large tree, with more than 128 queries. Half of the
 * others that have one prefix are fine: a long root and at most FINE_TOKENS tokens below it, as in beam
 * search, so that methods with a limit on the tokens that not every query sees apply to them too.
 */
#include "traces/formats/formats.h"
#include "traces/generate/tree_builder.h"

#include "ref/rng.h"

#include <stdlib.h>
#include <string.h>

#define WORK_MAX INT64_C(150000)
enum { TOKENS_MAX = 3000, QUERIES_MAX = 400, FINE_TOKENS = 56 };

const char *const family_name[N_FAMILIES] = {
    [FAM_BUSHY] = "bushy",
    [FAM_DEEP] = "deep",
    [FAM_WIDE] = "wide",
    [FAM_CATERPILLAR] = "caterpillar",
    [FAM_FOREST] = "forest",
    [FAM_TOKEN] = "token",
    [FAM_DEGENERATE] = "degenerate",
};
const char *const family_about[N_FAMILIES] = {
    [FAM_BUSHY] = "every inner node has two to six children, three to six levels",
    [FAM_DEEP] = "long paths with few branches, queries along them",
    [FAM_WIDE] = "one or two levels of very many children",
    [FAM_CATERPILLAR] = "reasoning: ten children, one of which branches again; some have ended",
    [FAM_FOREST] = "two to six bushy or wide trees side by side",
    [FAM_TOKEN] = "speculative: a long prefix, then single-token nodes with a query on each",
    [FAM_DEGENERATE] = "empty nodes, no tokens, chains, many queries at one place, dead subtrees",
};

bool family_parse(const char *s, enum family *out)
{
    for (int32_t f = 0; f < N_FAMILIES; f++)
        if (strcmp(s, family_name[f]) == 0) {
            *out = (enum family)f;
            return true;
        }
    return false;
}

/* ---- families ------------------------------------------------------------------------------------------ */

static void gen_bushy(struct grower *g)
{
    grow_prefix(g, 700);
    int32_t levels = grow_draw(g, g->large ? 5 : 3, 6);
    int32_t nodes = g->large ? grow_draw(g, 180, 240) : grow_draw(g, 28, 80);
    grow_bushy(g, 0, levels, nodes, 1, 65);
    grow_queries(g, 10);
}

static void gen_deep(struct grower *g)
{
    grow_prefix(g, 700);
    int32_t n_paths = grow_draw(g, 2, 7), nodes = g->large ? grow_draw(g, 80, 120) : grow_draw(g, 28, 60);
    for (int32_t path = 0; path < n_paths; path++) {
        /* Each path leaves an earlier one at any place; the first is the longest. */
        int32_t at = path == 0 ? 0 : grow_draw(g, 0, g->t->n_nodes - 1);
        for (int32_t k = path == 0 ? nodes / 2 : nodes / 2 / (n_paths - 1); k > 0; k--)
            at = grow_child(g, at, 1, 33);
    }
    grow_queries(g, 45);
}

static void gen_wide(struct grower *g)
{
    grow_prefix(g, 700);
    grow_wide(g, 0, g->large ? grow_draw(g, 135, 300) : grow_draw(g, 24, 80), 1, g->large ? 17 : 33);
    grow_queries(g, 5);
}

static void gen_caterpillar(struct grower *g)
{
    enum { FANOUT = 10 };
    int32_t branch = grow_prefix(g, 900);
    for (int32_t level = g->large ? grow_draw(g, 16, 20) : grow_draw(g, 2, 7); level > 0; level--) {
        /* Siblings that have ended are gone. */
        int32_t first = g->t->n_nodes, n = g->large ? FANOUT : grow_draw(g, 4, FANOUT);
        for (int32_t i = 0; i < n; i++)
            grow_child(g, branch, 1, g->large ? 17 : 65);
        branch = grow_draw(g, first, first + n - 1);
    }
    tree_query_leaves(g->t);
    g->query_cap = g->t->n_queries;
}

static void gen_forest(struct grower *g)
{
    int32_t n_roots = grow_draw(g, 2, 6),
            nodes = (g->large ? grow_draw(g, 220, 280) : grow_draw(g, 36, 80)) / n_roots;
    for (int32_t i = 0; i < n_roots; i++) {
        int32_t root = grow_node(g, -1, grow_draw_len(g, 31, 400));
        if (grow_chance(g, 50))
            grow_bushy(g, root, grow_draw(g, 3, 6), nodes, 1, 65);
        else
            grow_wide(g, root, nodes, 1, 33);
    }
    grow_queries(g, 25);
}

static void gen_token(struct grower *g)
{
    int32_t prefix = g->large ? grow_draw(g, 200, 500) : grow_draw(g, 200, 1000), at = -1;
    int32_t n_tokens = g->large            ? grow_draw(g, 130, 256)
                       : grow_chance(g, 8) ? grow_draw(g, 65, 128)
                                           : grow_draw(g, 16, 60);
    if (grow_chance(g, 30)) {
        int32_t cut = grow_draw(g, 1, prefix - 1);
        at = grow_node(g, at, cut);
        prefix -= cut;
    }
    int32_t first = grow_node(g, at, prefix) + 1;
    grow_query(g, grow_node(g, first - 1, 1), 1);
    for (int32_t i = 1; i < n_tokens; i++) {
        /* Likelier candidates come first and are continued more often. */
        int32_t a = grow_draw(g, 0, i - 1), b = grow_draw(g, 0, i - 1);
        grow_query(g, grow_node(g, first + (int32_t)min_i64(a, b), 1), 1);
    }
}

/* Nothing to read at all: every node is empty. */
static void degenerate_no_tokens(struct grower *g)
{
    grow_node(g, -1, 0);
    for (int32_t n = grow_draw(g, 0, 12); n > 0; n--)
        grow_node(g, grow_draw(g, 0, g->t->n_nodes - 1), 0);
    for (int32_t i = 0; i < g->t->n_nodes; i++)
        grow_query(g, i, 0);
}

/* One query, on one node or at the end of a chain. */
static void degenerate_one_query(struct grower *g)
{
    grow_node(g, -1, grow_draw_len(g, 0, 300));
    for (int32_t n = grow_draw(g, 0, 40); n > 0; n--)
        grow_node(g, g->t->n_nodes - 1, grow_draw_len(g, 0, 17));
    grow_query(g, g->t->n_nodes - 1, g->t->len[g->t->n_nodes - 1]);
}

/* A chain of single tokens with a query on each. */
static void degenerate_chain(struct grower *g)
{
    grow_node(g, -1, 1);
    for (int32_t n = grow_draw(g, 20, 80); n > 0; n--)
        grow_node(g, g->t->n_nodes - 1, 1);
    for (int32_t i = 0; i < g->t->n_nodes; i++)
        grow_query(g, i, 1);
}

/* All queries in one node: at every place, or all at the same place. */
static void degenerate_one_node(struct grower *g)
{
    int64_t len = grow_draw_len(g, 1, 129);
    grow_node(g, -1, len);
    bool same = grow_chance(g, 50);
    for (int32_t n = grow_draw(g, 20, 120); n > 0; n--)
        grow_query(g, 0, same ? len : grow_draw(g, 0, (int32_t)len));
}

/* Queries that see nothing beside queries that see something. */
static void degenerate_blind(struct grower *g)
{
    for (int32_t n = grow_draw(g, 1, 4); n > 0; n--) {
        int32_t root = grow_node(g, -1, grow_draw_len(g, 0, 65)),
                child = grow_node(g, root, grow_draw_len(g, 0, 17));
        grow_query(g, root, 0);
        grow_query(g, child, g->t->len[child]);
        grow_query(g, root, 0);
    }
}

/* Only one leaf of many has a query; whole roots without any. */
static void degenerate_dead(struct grower *g)
{
    for (int32_t n = grow_draw(g, 1, 3); n > 0; n--)
        grow_bushy(g, grow_node(g, -1, grow_draw_len(g, 1, 65)), 4, 20, 1, 33);
    int32_t node = grow_draw(g, 0, g->t->n_nodes - 1);
    grow_query(g, node, g->t->len[node]);
}

/* Tokens only every few nodes, empty ones between, queries in reverse order. */
static void degenerate_mostly_empty(struct grower *g)
{
    grow_node(g, -1, grow_draw_len(g, 0, 129));
    for (int32_t n = grow_draw(g, 16, 60); n > 0; n--) {
        int32_t newest = g->t->n_nodes - 1, parent = grow_draw(g, (int32_t)max_i64(0, newest - 7), newest);
        grow_node(g, parent, grow_chance(g, 70) ? 0 : grow_draw_len(g, 1, 33));
    }
    for (int32_t i = g->t->n_nodes - 1; i >= 0; i--)
        grow_query(g, i, grow_draw(g, 0, (int32_t)g->t->len[i]));
}

static void gen_degenerate(struct grower *g)
{
    static void (*const kind[])(struct grower *) = {
        degenerate_no_tokens, degenerate_one_query, degenerate_chain,        degenerate_one_node,
        degenerate_blind,     degenerate_dead,      degenerate_mostly_empty,
    };
    kind[grow_draw(g, 0, sizeof kind / sizeof kind[0] - 1)](g);
}

/* ---- limits -------------------------------------------------------------------------------------------- */

static int64_t work(const struct tree *t)
{
    int64_t sum = 0, *context = xmalloc((size_t)t->n_queries * sizeof *context);
    tree_contexts(t, context);
    for (int32_t q = 0; q < t->n_queries; q++)
        sum += context[q];
    free(context);
    return sum;
}

/* Halve the longest node until tokens and work are within bounds; drop the queries that are too many. */
static void trim(struct tree *t)
{
    t->n_queries = (int32_t)min_i64(t->n_queries, QUERIES_MAX);
    while (tree_tokens(t) > TOKENS_MAX || work(t) > WORK_MAX) {
        int32_t longest = 0;
        for (int32_t i = 1; i < t->n_nodes; i++)
            if (t->len[i] > t->len[longest])
                longest = i;
        t->len[longest] /= 2;
        for (int32_t q = 0; q < t->n_queries; q++)
            t->query[q].upto = min_i64(t->query[q].upto, t->len[t->query[q].node]);
    }
}

struct tree *gen_tree(enum family f, uint64_t seed)
{
    static void (*const generate[N_FAMILIES])(struct grower *) = {
        [FAM_BUSHY] = gen_bushy,
        [FAM_DEEP] = gen_deep,
        [FAM_WIDE] = gen_wide,
        [FAM_CATERPILLAR] = gen_caterpillar,
        [FAM_FOREST] = gen_forest,
        [FAM_TOKEN] = gen_token,
        [FAM_DEGENERATE] = gen_degenerate,
    };
    CK((unsigned)f < N_FAMILIES);
    struct grower g = {.seed = seed, .stream = f, .large = seed % 8 == 0, .t = tree_new(0, 0)};
    g.fine = !g.large && (seed >> 3) % 8 < 4 && f != FAM_FOREST;
    g.fine_left = FINE_TOKENS;
    generate[f](&g);
    if (g.large && g.t->n_queries <= 128)
        grow_more_queries(&g);
    trim(g.t);
    return g.t;
}

/* ---- the mix of a verify run --------------------------------------------------------------------------- */

enum family gen_family(uint64_t seed, int64_t index)
{
    /* Shares in BLOCK trees. Each block of trees is a shuffle of them, so that short runs are mixed well too.
     */
    enum { BLOCK = 50 };
    static const int32_t share[N_FAMILIES] = {
        [FAM_BUSHY] = 9,  [FAM_DEEP] = 6,   [FAM_WIDE] = 7,       [FAM_CATERPILLAR] = 8,
        [FAM_FOREST] = 6, [FAM_TOKEN] = 10, [FAM_DEGENERATE] = 4,
    };
    uint8_t family[BLOCK];
    int32_t n = 0;
    for (int32_t f = 0; f < N_FAMILIES; f++)
        for (int32_t k = 0; k < share[f]; k++)
            family[n++] = (uint8_t)f;
    CK(n == BLOCK && index >= 0);
    uint64_t block = (uint64_t)(index / BLOCK);
    for (int32_t i = BLOCK - 1; i > 0; i--) {
        int64_t j = rng_below(seed, block, (uint64_t)i, i + 1);
        uint8_t swap = family[i];
        family[i] = family[j];
        family[j] = swap;
    }
    return (enum family)family[index % BLOCK];
}

uint64_t gen_seed(uint64_t seed, int64_t index)
{
    /* The lowest three bits count, from a start that the seed sets: exactly one tree in eight is large. The
     * next three count the eights, so that the share of fine trees is steady too. */
    uint64_t bits = rng_u64(seed, UINT64_C(1) << 63, (uint64_t)index) >> 40, start = rng_mix(seed);
    return (bits & ~UINT64_C(63)) | (((uint64_t)index * 9 + start) & 63);
}
