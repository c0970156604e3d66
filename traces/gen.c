/*
 * gen.c - seeded random trees, by family.
 *
 * A generator first grows a tree under a budget of nodes, then hangs queries on it, then trims it: every tree
 * is run by every strategy, so one tree's work, the sum of its queries' contexts, is held within WORK_MAX.
 * One seed in eight (seed % 8 == 0) gives a large tree, with more than 128 queries.
 *
 * Lengths favour the values around the edges of tiles and pages, where kernels go wrong.
 */
#include "traces/formats.h"

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

/* ---- draws ------------------------------------------------------------------------------------------------
 */

/* A tree under construction and the stream of draws that makes it. */
struct grower {
    uint64_t seed, stream, draw;
    bool large, fine;
    int64_t fine_left; /* tokens that children may still have, in a fine tree */
    struct tree *t;
    int64_t node_cap, len_cap, query_cap;
};

/* Uniform in lo .. hi, both included. */
static int32_t draw(struct grower *g, int32_t lo, int32_t hi)
{
    return lo + (int32_t)rng_below(g->seed, g->stream, g->draw++, (int64_t)hi - lo + 1);
}

static bool chance(struct grower *g, int32_t percent)
{
    return draw(g, 0, 99) < percent;
}

/* A length in lo .. hi: half of them at the edges of tiles and pages, if the range has such. */
static int64_t draw_len(struct grower *g, int32_t lo, int32_t hi)
{
    static const int32_t edge[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
    if (chance(g, 50)) {
        int32_t x = edge[draw(g, 0, sizeof edge / sizeof edge[0] - 1)];
        if (x >= lo && x <= hi)
            return x;
    }
    return draw(g, lo, hi);
}

/* ---- growth
 * ------------------------------------------------------------------------------------------------ */

static int32_t add_node(struct grower *g, int32_t parent, int64_t len)
{
    struct tree *t = g->t;
    int64_t parents = g->node_cap, lens = g->len_cap;
    t->parent = xgrow(t->parent, &parents, t->n_nodes + 1, sizeof *t->parent);
    t->len = xgrow(t->len, &lens, t->n_nodes + 1, sizeof *t->len);
    g->node_cap = parents;
    g->len_cap = lens;
    t->parent[t->n_nodes] = parent;
    t->len[t->n_nodes] = len;
    return t->n_nodes++;
}

/* A node below an existing one: short, and now and then empty. */
static int32_t add_child(struct grower *g, int32_t parent, int32_t lo, int32_t hi)
{
    if (g->fine) {
        int64_t len = min_i64(g->fine_left, draw(g, 0, 2));
        g->fine_left -= len;
        return add_node(g, parent, len);
    }
    return add_node(g, parent, chance(g, 4) ? 0 : draw_len(g, lo, hi));
}

/* The root of a tree whose queries all share it. */
static int32_t add_prefix(struct grower *g, int32_t hi)
{
    if (g->fine)
        return add_node(g, -1, draw_len(g, 400, 1100));
    return add_node(g, -1, draw_len(g, 255, g->large ? 400 : hi));
}

static void add_query(struct grower *g, int32_t node, int64_t upto)
{
    struct tree *t = g->t;
    t->query = xgrow(t->query, &g->query_cap, t->n_queries + 1, sizeof *t->query);
    t->query[t->n_queries++] = (struct query){.node = node, .upto = upto};
}

static int32_t draw_children(struct grower *g, int32_t room)
{
    return (int32_t)min_i64(draw(g, 2, 6), room);
}

/* Level by level under `root`: the first of each level branches, so that `levels` is reached, others by
 * chance, until `nodes` have been added. */
static void grow_bushy(struct grower *g, int32_t root, int32_t levels, int32_t nodes, int32_t lo, int32_t hi)
{
    int32_t begin = root, end = root + 1;
    CK(end == g->t->n_nodes);
    for (int32_t level = 1; level < levels && nodes >= 2; level++) {
        for (int32_t i = begin; i < end && nodes >= 2; i++) {
            if (i > begin && !chance(g, g->large ? 90 : 65))
                continue;
            for (int32_t k = draw_children(g, nodes); k > 0; k--, nodes--)
                add_child(g, i, lo, hi);
        }
        begin = end;
        end = g->t->n_nodes;
    }
}

static void grow_wide(struct grower *g, int32_t root, int32_t leaves, int32_t lo, int32_t hi)
{
    if (chance(g, 50)) {
        for (int32_t i = 0; i < leaves; i++)
            add_child(g, root, lo, hi);
        return;
    }
    for (int32_t groups = draw(g, 2, 6); groups > 0; groups--) {
        int32_t middle = add_child(g, root, lo, 2 * hi), share = leaves / groups;
        for (int32_t i = 0; i < share; i++)
            add_child(g, middle, lo, hi);
        leaves -= share;
    }
}

/* ---- queries ----------------------------------------------------------------------------------------------
 */

/* A run of queries that see ever more of the node: several tokens decoded at once, as in a chunk of prefill.
 */
static void query_chain(struct grower *g, int32_t node, int32_t n)
{
    for (int64_t upto = max_i64(0, g->t->len[node] - n + 1); upto <= g->t->len[node]; upto++)
        add_query(g, node, upto);
}

/* One query at the end of most leaves; some leaves and inner nodes have several, or causal chains, or one in
 * their middle; one tree in four loses all queries below some node. */
static void query_richly(struct grower *g, int32_t inner_percent)
{
    const struct tree *t = g->t;
    uint8_t *dead = xcalloc((size_t)t->n_nodes, 1), *inner = xcalloc((size_t)t->n_nodes, 1);
    if (t->n_nodes > 8 && chance(g, 25))
        dead[draw(g, t->n_nodes / 2, t->n_nodes - 1)] = 1;
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0) {
            inner[t->parent[i]] = 1;
            dead[i] |= dead[t->parent[i]];
        }
    for (int32_t i = 0; i < t->n_nodes; i++) {
        if (dead[i] || (inner[i] && !chance(g, inner_percent)))
            continue;
        int32_t how = draw(g, 0, 99);
        if (how < 4)
            query_chain(g, i, draw(g, 2, 5));
        else if (how < 8)
            add_query(g, i, draw(g, 0, (int32_t)t->len[i]));
        else if (how < 12)
            add_query(g, i, t->len[i]);
        if (how >= 8)
            add_query(g, i, t->len[i]);
    }
    free(dead);
    free(inner);
}

/* A large tree has more than 128 queries: where the shape gave fewer, more of them on nodes that have some.
 */
static void query_more(struct grower *g)
{
    int32_t had = g->t->n_queries, want = draw(g, 129, 200);
    while (g->t->n_queries < want) {
        int32_t node = g->t->query[draw(g, 0, had - 1)].node;
        add_query(g, node, chance(g, 50) ? g->t->len[node] : draw(g, 0, (int32_t)g->t->len[node]));
    }
}

/* ---- families ---------------------------------------------------------------------------------------------
 */

static void gen_bushy(struct grower *g)
{
    add_prefix(g, 700);
    grow_bushy(g, 0, draw(g, g->large ? 5 : 3, 6), g->large ? draw(g, 180, 240) : draw(g, 28, 80), 1, 65);
    query_richly(g, 10);
}

static void gen_deep(struct grower *g)
{
    add_prefix(g, 700);
    int32_t n_paths = draw(g, 2, 7), nodes = g->large ? draw(g, 80, 120) : draw(g, 28, 60);
    for (int32_t path = 0; path < n_paths; path++) {
        /* Each path leaves an earlier one at any place; the first is the longest. */
        int32_t at = path == 0 ? 0 : draw(g, 0, g->t->n_nodes - 1);
        for (int32_t k = path == 0 ? nodes / 2 : nodes / 2 / (n_paths - 1); k > 0; k--)
            at = add_child(g, at, 1, 33);
    }
    query_richly(g, 45);
}

static void gen_wide(struct grower *g)
{
    add_prefix(g, 700);
    grow_wide(g, 0, g->large ? draw(g, 135, 300) : draw(g, 24, 80), 1, g->large ? 17 : 33);
    query_richly(g, 5);
}

static void gen_caterpillar(struct grower *g)
{
    enum { FANOUT = 10 };
    int32_t branch = add_prefix(g, 900);
    for (int32_t level = g->large ? draw(g, 16, 20) : draw(g, 2, 7); level > 0; level--) {
        /* Siblings that have ended are gone. */
        int32_t first = g->t->n_nodes, n = g->large ? FANOUT : draw(g, 4, FANOUT);
        for (int32_t i = 0; i < n; i++)
            add_child(g, branch, 1, g->large ? 17 : 65);
        branch = draw(g, first, first + n - 1);
    }
    tree_query_leaves(g->t);
    g->query_cap = g->t->n_queries;
}

static void gen_forest(struct grower *g)
{
    int32_t n_roots = draw(g, 2, 6), nodes = (g->large ? draw(g, 220, 280) : draw(g, 36, 80)) / n_roots;
    for (int32_t i = 0; i < n_roots; i++) {
        int32_t root = add_node(g, -1, draw_len(g, 31, 400));
        if (chance(g, 50))
            grow_bushy(g, root, draw(g, 3, 6), nodes, 1, 65);
        else
            grow_wide(g, root, nodes, 1, 33);
    }
    query_richly(g, 25);
}

static void gen_token(struct grower *g)
{
    int32_t prefix = g->large ? draw(g, 200, 500) : draw(g, 200, 1000), at = -1;
    int32_t n_tokens = g->large ? draw(g, 130, 256) : chance(g, 8) ? draw(g, 65, 128) : draw(g, 16, 60);
    if (chance(g, 30)) {
        int32_t cut = draw(g, 1, prefix - 1);
        at = add_node(g, at, cut);
        prefix -= cut;
    }
    int32_t first = add_node(g, at, prefix) + 1;
    add_query(g, add_node(g, first - 1, 1), 1);
    for (int32_t i = 1; i < n_tokens; i++) {
        /* Likelier candidates come first and are continued more often. */
        int32_t a = draw(g, 0, i - 1), b = draw(g, 0, i - 1);
        add_query(g, add_node(g, first + (int32_t)min_i64(a, b), 1), 1);
    }
}

/* Nothing to read at all: every node is empty. */
static void degenerate_no_tokens(struct grower *g)
{
    add_node(g, -1, 0);
    for (int32_t n = draw(g, 0, 12); n > 0; n--)
        add_node(g, draw(g, 0, g->t->n_nodes - 1), 0);
    for (int32_t i = 0; i < g->t->n_nodes; i++)
        add_query(g, i, 0);
}

/* One query, on one node or at the end of a chain. */
static void degenerate_one_query(struct grower *g)
{
    add_node(g, -1, draw_len(g, 0, 300));
    for (int32_t n = draw(g, 0, 40); n > 0; n--)
        add_node(g, g->t->n_nodes - 1, draw_len(g, 0, 17));
    add_query(g, g->t->n_nodes - 1, g->t->len[g->t->n_nodes - 1]);
}

/* A chain of single tokens with a query on each. */
static void degenerate_chain(struct grower *g)
{
    add_node(g, -1, 1);
    for (int32_t n = draw(g, 20, 80); n > 0; n--)
        add_node(g, g->t->n_nodes - 1, 1);
    for (int32_t i = 0; i < g->t->n_nodes; i++)
        add_query(g, i, 1);
}

/* All queries in one node: at every place, or all at the same place. */
static void degenerate_one_node(struct grower *g)
{
    int64_t len = draw_len(g, 1, 129);
    add_node(g, -1, len);
    bool same = chance(g, 50);
    for (int32_t n = draw(g, 20, 120); n > 0; n--)
        add_query(g, 0, same ? len : draw(g, 0, (int32_t)len));
}

/* Queries that see nothing beside queries that see something. */
static void degenerate_blind(struct grower *g)
{
    for (int32_t n = draw(g, 1, 4); n > 0; n--) {
        int32_t root = add_node(g, -1, draw_len(g, 0, 65)), child = add_node(g, root, draw_len(g, 0, 17));
        add_query(g, root, 0);
        add_query(g, child, g->t->len[child]);
        add_query(g, root, 0);
    }
}

/* Only one leaf of many has a query; whole roots without any. */
static void degenerate_dead(struct grower *g)
{
    for (int32_t n = draw(g, 1, 3); n > 0; n--)
        grow_bushy(g, add_node(g, -1, draw_len(g, 1, 65)), 4, 20, 1, 33);
    int32_t node = draw(g, 0, g->t->n_nodes - 1);
    add_query(g, node, g->t->len[node]);
}

/* Tokens only every few nodes, empty ones between, queries in reverse order. */
static void degenerate_mostly_empty(struct grower *g)
{
    add_node(g, -1, draw_len(g, 0, 129));
    for (int32_t n = draw(g, 16, 60); n > 0; n--)
        add_node(g, draw(g, (int32_t)max_i64(0, g->t->n_nodes - 8), g->t->n_nodes - 1),
                 chance(g, 70) ? 0 : draw_len(g, 1, 33));
    for (int32_t i = g->t->n_nodes - 1; i >= 0; i--)
        add_query(g, i, draw(g, 0, (int32_t)g->t->len[i]));
}

static void gen_degenerate(struct grower *g)
{
    static void (*const kind[])(struct grower *) = {
        degenerate_no_tokens, degenerate_one_query, degenerate_chain,        degenerate_one_node,
        degenerate_blind,     degenerate_dead,      degenerate_mostly_empty,
    };
    kind[draw(g, 0, sizeof kind / sizeof kind[0] - 1)](g);
}

/* ---- limits -----------------------------------------------------------------------------------------------
 */

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
        query_more(&g);
    trim(g.t);
    return g.t;
}

/* ---- the mix of a verify run -------------------------------------------------------------------------- */

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
    uint64_t bits = rng_u64(seed, UINT64_C(1) << 63, (uint64_t)index), start = rng_mix(seed);
    return (bits & ~UINT64_C(63)) | (((uint64_t)index * 9 + start) & 63);
}
