#include "ref/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tree *tree_new(int32_t n_nodes, int32_t n_queries)
{
    CK(n_nodes >= 0 && n_queries >= 0);
    struct tree *t = xcalloc(1, sizeof *t);
    t->n_nodes = n_nodes;
    t->n_queries = n_queries;
    t->parent = xcalloc((size_t)n_nodes, sizeof *t->parent);
    t->len = xcalloc((size_t)n_nodes, sizeof *t->len);
    t->query = xcalloc((size_t)n_queries, sizeof *t->query);
    for (int32_t i = 0; i < n_nodes; i++)
        t->parent[i] = -1;
    return t;
}

void tree_free(struct tree *t)
{
    if (!t)
        return;
    free(t->parent);
    free(t->len);
    free(t->query);
    free(t->since);
    free(t);
}

/* Of the same queries with the same contexts. */
static void copy_since(struct tree *to, const struct tree *from)
{
    if (!from->since)
        return;
    to->since = xcalloc((size_t)from->n_queries, sizeof *to->since);
    memcpy(to->since, from->since, (size_t)from->n_queries * sizeof *to->since);
}

struct tree *tree_copy(const struct tree *t)
{
    struct tree *c = tree_new(t->n_nodes, t->n_queries);
    memcpy(c->parent, t->parent, (size_t)t->n_nodes * sizeof *t->parent);
    memcpy(c->len, t->len, (size_t)t->n_nodes * sizeof *t->len);
    memcpy(c->query, t->query, (size_t)t->n_queries * sizeof *t->query);
    copy_since(c, t);
    return c;
}

void tree_query_leaves(struct tree *t)
{
    uint8_t *inner = xcalloc((size_t)t->n_nodes, 1);
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0)
            inner[t->parent[i]] = 1;
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        n += !inner[i];
    t->query = xrealloc(t->query, (size_t)n, sizeof *t->query);
    t->n_queries = 0;
    free(t->since);
    t->since = NULL;
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (!inner[i])
            t->query[t->n_queries++] = (struct query){.node = i, .upto = t->len[i]};
    free(inner);
}

static void path_lengths(const struct tree *t, int64_t *out);

/* Of a tree that is right but for that. */
static bool check_since(const struct tree *t, struct err *e)
{
    int64_t *path = xcalloc((size_t)t->n_queries, sizeof *path);
    bool good = true;
    path_lengths(t, path);
    for (int32_t q = 0; q < t->n_queries && t->since && good; q++)
        good = (t->since[q] >= 0 && t->since[q] <= path[q]) ||
               err_set(e,
                       "query %" PRId32 " sees its path from position %" PRId64 " on (expected 0 to %" PRId64
                       ")",
                       q, t->since[q], path[q]);
    free(path);
    return good;
}

bool tree_check(const struct tree *t, struct err *e)
{
    if (t->n_nodes < 0 || t->n_nodes > TREE_MAX_NODES)
        return err_set(e, "%" PRId32 " nodes (expected 0 to %" PRId32 ")", t->n_nodes, TREE_MAX_NODES);
    if (t->n_queries < 0 || t->n_queries > TREE_MAX_QUERIES)
        return err_set(e, "%" PRId32 " queries (expected 0 to %" PRId32 ")", t->n_queries, TREE_MAX_QUERIES);
    int64_t tokens = 0;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        if (t->parent[i] < -1 || t->parent[i] >= i)
            return err_set(e,
                           "node %" PRId32 " has parent %" PRId32 " (expected -1 or a smaller node number)",
                           i, t->parent[i]);
        if (t->len[i] < 0 || t->len[i] > TREE_MAX_TOKENS)
            return err_set(e, "node %" PRId32 " has %" PRId64 " tokens (expected 0 to %" PRId64 ")", i,
                           t->len[i], TREE_MAX_TOKENS);
        tokens += t->len[i];
        if (tokens > TREE_MAX_TOKENS)
            return err_set(e, "more than %" PRId64 " tokens in all at node %" PRId32, TREE_MAX_TOKENS, i);
    }
    for (int32_t q = 0; q < t->n_queries; q++) {
        const struct query *x = &t->query[q];
        if (x->node < 0 || x->node >= t->n_nodes)
            return err_set(e, "query %" PRId32 " is on node %" PRId32 " (expected 0 to %" PRId32 ")", q,
                           x->node, t->n_nodes - 1);
        if (x->upto < 0 || x->upto > t->len[x->node])
            return err_set(e,
                           "query %" PRId32 " sees %" PRId64 " tokens of node %" PRId32
                           " (expected 0 to %" PRId64 ")",
                           q, x->upto, x->node, t->len[x->node]);
    }
    return check_since(t, e);
}

struct tree *tree_aligned(const struct tree *t, int32_t page)
{
    int32_t n = t->n_nodes;
    struct tree *x = tree_new(2 * n, t->n_queries);
    int64_t *rest = xcalloc((size_t)n, sizeof *rest); /* tokens that children copy */
    int32_t *leaf = xcalloc((size_t)n, sizeof *leaf); /* the new leaf below a node; 0: none */
    for (int32_t i = 0; i < n; i++)
        if (t->parent[i] >= 0)
            rest[t->parent[i]] = 1; /* an inner node */
    for (int32_t i = 0; i < n; i++) {
        x->parent[i] = t->parent[i];
        x->len[i] = t->len[i] + (t->parent[i] < 0 ? 0 : rest[t->parent[i]]);
        rest[i] = rest[i] ? x->len[i] % page : 0;
        x->len[i] -= rest[i];
    }
    x->n_nodes = n;
    for (int32_t q = 0; q < t->n_queries; q++) {
        struct query y = t->query[q];
        y.upto += t->parent[y.node] < 0 ? 0 : rest[t->parent[y.node]];
        if (y.upto > x->len[y.node]) {
            if (!leaf[y.node]) {
                leaf[y.node] = x->n_nodes;
                x->parent[x->n_nodes] = y.node;
                x->len[x->n_nodes++] = rest[y.node];
            }
            y.upto -= x->len[y.node];
            y.node = leaf[y.node];
        }
        x->query[q] = y;
    }
    copy_since(x, t);
    free(rest);
    free(leaf);
    return x;
}

int64_t tree_tokens(const struct tree *t)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        sum += t->len[i];
    return sum;
}

/* Tokens of the path of each query, seen or not. */
static void path_lengths(const struct tree *t, int64_t *out)
{
    int64_t *above = xcalloc((size_t)t->n_nodes, sizeof *above); /* tokens of proper ancestors */
    for (int32_t i = 0; i < t->n_nodes; i++)
        above[i] = t->parent[i] < 0 ? 0 : above[t->parent[i]] + t->len[t->parent[i]];
    for (int32_t q = 0; q < t->n_queries; q++)
        out[q] = above[t->query[q].node] + t->query[q].upto;
    free(above);
}

void tree_contexts(const struct tree *t, int64_t *out)
{
    path_lengths(t, out);
    for (int32_t q = 0; q < t->n_queries && t->since; q++)
        out[q] -= t->since[q];
}

void tree_set_window(struct tree *t, int64_t window)
{
    free(t->since);
    t->since = NULL;
    if (window <= 0)
        return;
    t->since = xcalloc((size_t)t->n_queries, sizeof *t->since);
    path_lengths(t, t->since);
    for (int32_t q = 0; q < t->n_queries; q++)
        t->since[q] = max_i64(0, t->since[q] - window);
}

int32_t tree_depth(const struct tree *t)
{
    int32_t deepest = 0;
    int32_t *depth = xcalloc((size_t)t->n_nodes, sizeof *depth);
    for (int32_t i = 0; i < t->n_nodes; i++) {
        depth[i] = t->parent[i] < 0 ? 1 : depth[t->parent[i]] + 1;
        if (depth[i] > deepest)
            deepest = depth[i];
    }
    free(depth);
    return deepest;
}

int32_t tree_path(const int32_t *parent, int32_t node, int32_t *out)
{
    int32_t n = 0;
    for (int32_t i = node; i >= 0; i = parent[i])
        n++;
    for (int32_t i = node, k = n; out && i >= 0; i = parent[i])
        out[--k] = i;
    return n;
}
