/* trees.c - the trees of lab 7: five ways in which requests share. */
#include "verify/lab/beat/lab7.h"

#include "ref/rng.h"

#include <stdlib.h>

/* What is being made. */
struct making {
    struct tree *t;
    uint64_t seed;
    uint64_t drawn; /* numbers so far */
};

static int64_t between(struct making *m, int64_t least, int64_t most)
{
    return least + rng_below(m->seed, 71, m->drawn++, most - least + 1);
}

static int32_t add_node(struct making *m, int32_t parent, int64_t len)
{
    struct tree *t = m->t;
    t->parent = xrealloc(t->parent, (size_t)t->n_nodes + 1, sizeof *t->parent);
    t->len = xrealloc(t->len, (size_t)t->n_nodes + 1, sizeof *t->len);
    t->parent[t->n_nodes] = parent;
    t->len[t->n_nodes] = len;
    return t->n_nodes++;
}

static void add_query(struct making *m, int32_t node, int64_t upto)
{
    struct tree *t = m->t;
    t->query = xrealloc(t->query, (size_t)t->n_queries + 1, sizeof *t->query);
    t->query[t->n_queries++] = (struct query){node, upto};
}

/* A long prefix with examples, and an answer for each of many questions. */
static void few_shot(struct making *m, int64_t size)
{
    int32_t root = add_node(m, -1, between(m, 600, 1400) * size);
    for (int64_t n = between(m, 4, 8) * size; n > 0; n--) {
        int64_t len = between(m, 10, 300);
        add_query(m, add_node(m, root, len), len);
    }
}

/* A context, and tokens that were guessed behind it: a query on each. */
static void speculative(struct making *m, int64_t size)
{
    int32_t first = add_node(m, -1, between(m, 400, 1000) * size);
    add_query(m, first, m->t->len[first]);
    for (int64_t n = between(m, 6, 8) * size; n > 0; n--) {
        int32_t parent = (int32_t)between(m, max_i64(first, m->t->n_nodes - 9), m->t->n_nodes - 1);
        add_query(m, add_node(m, parent, 1), 1);
    }
}

/* Users with turn after turn below a system prompt; some ask for two answers. */
static void conversations(struct making *m, int64_t size)
{
    int32_t system = add_node(m, -1, between(m, 100, 1500));
    for (int64_t users = between(m, 2, 4) * size; users > 0; users--) {
        int32_t at = system;
        for (int64_t turns = between(m, 2, 6); turns > 0; turns--)
            at = add_node(m, at, between(m, 30, 400));
        for (int64_t answers = between(m, 1, 2); answers > 0; answers--) {
            int64_t len = between(m, 5, 200);
            add_query(m, add_node(m, at, len), len);
        }
    }
}

/* Requests that share nothing, a few of which ask twice. */
static void short_roots(struct making *m, int64_t size)
{
    for (int64_t n = between(m, 8, 16) * size; n > 0; n--) {
        int64_t len = between(m, 0, 3) ? between(m, 20, 300) : between(m, 300, 1500);
        int32_t root = add_node(m, -1, len);
        add_query(m, root, len);
        if (between(m, 0, 4) == 0)
            add_query(m, root, between(m, 1, len));
    }
}

static void think(struct making *m, int32_t at, int32_t depth)
{
    for (int64_t n = depth == 0 ? 0 : between(m, 1, 4); n > 0; n--) {
        int64_t len = between(m, 30, 250);
        int32_t child = add_node(m, at, len);
        if (depth == 1)
            add_query(m, child, len);
        else if (between(m, 0, 2) == 0) /* a value of a thought, asked for in its middle */
            add_query(m, child, between(m, 1, len));
        think(m, child, depth - 1);
    }
}

/* Thoughts below a prompt, with queries on inner nodes, too. */
static void thoughts(struct making *m, int64_t size)
{
    int32_t prompt = add_node(m, -1, between(m, 200, 800) * size);
    add_query(m, prompt, m->t->len[prompt]);
    for (int64_t n = 1 + size / 2; n > 0; n--)
        think(m, prompt, size < 4 ? 2 : 3);
}

struct tree *lab7_tree(uint64_t seed, int32_t family, int32_t i)
{
    static void (*const make[LAB7_FAMILIES])(struct making * m, int64_t size) = {
        few_shot, speculative, conversations, short_roots, thoughts};
    struct making m = {.t = tree_new(0, 0), .seed = rng_u64(seed, 70, (uint64_t)(family * LAB7_TREES + i))};
    static const int64_t size[LAB7_TREES] = {1, 3, 8, 12};
    make[family](&m, size[i]);
    CK(tree_check(m.t, NULL));
    return m.t;
}
