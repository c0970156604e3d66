/*
 * tree_builder.c - growing random trees.
 *
 * Lengths favour the values around the edges of tiles and pages, where kernels go wrong. A function makes
 * at most one draw per argument list: C leaves the order of arguments open, and a seed must mean one tree
 * everywhere.
 */
#include "traces/generate/tree_builder.h"

#include "ref/rng.h"

#include <stdlib.h>

/* ---- draws --------------------------------------------------------------------------------------------- */

int32_t grow_draw(struct grower *g, int32_t lo, int32_t hi)
{
    return lo + (int32_t)rng_below(g->seed, g->stream, g->draw++, (int64_t)hi - lo + 1);
}

bool grow_chance(struct grower *g, int32_t percent)
{
    return grow_draw(g, 0, 99) < percent;
}

int64_t grow_draw_len(struct grower *g, int32_t lo, int32_t hi)
{
    static const int32_t edge[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
    if (grow_chance(g, 50)) {
        int32_t x = edge[grow_draw(g, 0, sizeof edge / sizeof edge[0] - 1)];
        if (x >= lo && x <= hi)
            return x;
    }
    return grow_draw(g, lo, hi);
}

/* ---- growth -------------------------------------------------------------------------------------------- */

int32_t grow_node(struct grower *g, int32_t parent, int64_t len)
{
    struct tree *t = g->t;
    int64_t cap = g->node_cap;
    t->parent = xgrow(t->parent, &cap, t->n_nodes + 1, sizeof *t->parent);
    t->len = xgrow(t->len, &g->node_cap, t->n_nodes + 1, sizeof *t->len);
    t->parent[t->n_nodes] = parent;
    t->len[t->n_nodes] = len;
    return t->n_nodes++;
}

int32_t grow_child(struct grower *g, int32_t parent, int32_t lo, int32_t hi)
{
    if (g->fine) {
        int64_t len = min_i64(g->fine_left, grow_draw(g, 0, 2));
        g->fine_left -= len;
        return grow_node(g, parent, len);
    }
    return grow_node(g, parent, grow_chance(g, 4) ? 0 : grow_draw_len(g, lo, hi));
}

int32_t grow_prefix(struct grower *g, int32_t hi)
{
    if (g->fine)
        return grow_node(g, -1, grow_draw_len(g, 400, 1100));
    return grow_node(g, -1, grow_draw_len(g, 255, g->large ? 400 : hi));
}

void grow_query(struct grower *g, int32_t node, int64_t upto)
{
    struct tree *t = g->t;
    t->query = xgrow(t->query, &g->query_cap, t->n_queries + 1, sizeof *t->query);
    t->query[t->n_queries++] = (struct query){.node = node, .upto = upto};
}

static int32_t draw_children(struct grower *g, int32_t room)
{
    return (int32_t)min_i64(grow_draw(g, 2, 6), room);
}

/* Level by level under `root`: the first of each level branches, so that `levels` is reached, others by
 * chance, until `nodes` have been added. */
void grow_bushy(struct grower *g, int32_t root, int32_t levels, int32_t nodes, int32_t lo, int32_t hi)
{
    int32_t begin = root, end = root + 1;
    CK(end == g->t->n_nodes);
    for (int32_t level = 1; level < levels && nodes >= 2; level++) {
        for (int32_t i = begin; i < end && nodes >= 2; i++) {
            if (i > begin && !grow_chance(g, g->large ? 90 : 65))
                continue;
            for (int32_t k = draw_children(g, nodes); k > 0; k--, nodes--)
                grow_child(g, i, lo, hi);
        }
        begin = end;
        end = g->t->n_nodes;
    }
}

void grow_wide(struct grower *g, int32_t root, int32_t leaves, int32_t lo, int32_t hi)
{
    if (grow_chance(g, 50)) {
        for (int32_t i = 0; i < leaves; i++)
            grow_child(g, root, lo, hi);
        return;
    }
    for (int32_t groups = grow_draw(g, 2, 6); groups > 0; groups--) {
        int32_t middle = grow_child(g, root, lo, 2 * hi), share = leaves / groups;
        for (int32_t i = 0; i < share; i++)
            grow_child(g, middle, lo, hi);
        leaves -= share;
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

/* Queries that see ever more of the node: several tokens decoded at once, as in a chunk of prefill. */
static void query_chain(struct grower *g, int32_t node, int32_t n)
{
    for (int64_t upto = max_i64(0, g->t->len[node] - n + 1); upto <= g->t->len[node]; upto++)
        grow_query(g, node, upto);
}

void grow_queries(struct grower *g, int32_t inner_percent)
{
    const struct tree *t = g->t;
    uint8_t *dead = xcalloc((size_t)t->n_nodes, 1), *inner = xcalloc((size_t)t->n_nodes, 1);
    if (t->n_nodes > 8 && grow_chance(g, 25))
        dead[grow_draw(g, t->n_nodes / 2, t->n_nodes - 1)] = 1;
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0) {
            inner[t->parent[i]] = 1;
            dead[i] |= dead[t->parent[i]];
        }
    for (int32_t i = 0; i < t->n_nodes; i++) {
        if (dead[i] || (inner[i] && !grow_chance(g, inner_percent)))
            continue;
        int32_t how = grow_draw(g, 0, 99);
        if (how < 4)
            query_chain(g, i, grow_draw(g, 2, 5));
        else if (how < 8)
            grow_query(g, i, grow_draw(g, 0, (int32_t)t->len[i]));
        else if (how < 12)
            grow_query(g, i, t->len[i]);
        if (how >= 8)
            grow_query(g, i, t->len[i]);
    }
    if (t->n_queries == 0)
        grow_query(g, 0, t->len[0]);
    free(dead);
    free(inner);
}

void grow_more_queries(struct grower *g)
{
    int32_t had = g->t->n_queries, want = grow_draw(g, 129, 200);
    while (g->t->n_queries < want) {
        int32_t node = g->t->query[grow_draw(g, 0, had - 1)].node;
        grow_query(g, node, grow_chance(g, 50) ? g->t->len[node] : grow_draw(g, 0, (int32_t)g->t->len[node]));
    }
}
