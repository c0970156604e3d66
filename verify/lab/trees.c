/* trees.c - see trees.h. */
#include "verify/lab/trees.h"

#include "ref/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is drawn of a node or a query: streams of the generator. */
enum { DRAW_SIZE, DRAW_PARENT, DRAW_LEN, DRAW_EMPTY, DRAW_ROOT, DRAW_QUERY, DRAW_UPTO, DRAW_MORE, N_DRAWS };

static int64_t below(uint64_t seed, int32_t tree, int draw, int32_t i, int64_t n)
{
    return rng_below(seed, (uint64_t)(tree * N_DRAWS + draw), (uint64_t)i, n);
}

static void draw_nodes(struct tree *t, uint64_t seed, int32_t at, int32_t kind)
{
    int64_t most = kind & LAB_TREE_LONG ? 3000 : 4 + min_i64(at, 60) * 3;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        bool root = i == 0 || (kind & LAB_TREE_FOREST && below(seed, at, DRAW_ROOT, i, 5) == 0);
        /* near the last nodes, so that trees are deep, or near the first, so that they are wide */
        int64_t near = at % 2 ? min_i64(i, 3) : i;
        t->parent[i] = root ? -1 : (int32_t)(i - 1 - below(seed, at, DRAW_PARENT, i, near));
        bool empty = kind & LAB_TREE_EMPTY && below(seed, at, DRAW_EMPTY, i, 6) == 0;
        t->len[i] = empty ? 0 : 1 + below(seed, at, DRAW_LEN, i, most);
    }
}

/* Beside those of the leaves. */
static void draw_queries(struct tree *t, uint64_t seed, int32_t at, int32_t kind)
{
    int32_t n = 1 + (int32_t)below(seed, at, DRAW_MORE, 0, t->n_nodes + 1), had = t->n_queries;
    t->query = xrealloc(t->query, (size_t)(had + n), sizeof *t->query);
    for (int32_t i = 0; i < n; i++) {
        int32_t node = (int32_t)below(seed, at, DRAW_QUERY, i, t->n_nodes);
        bool none = kind & LAB_TREE_EMPTY && t->parent[node] < 0 && i % 2;
        int64_t upto = none                                    ? 0
                       : below(seed, at, DRAW_UPTO, i, 3) == 0 ? t->len[node]
                       : t->len[node] > 0 ? 1 + below(seed, at, DRAW_UPTO, 1000 + i, t->len[node])
                                          : 0;
        t->query[t->n_queries++] = (struct query){node, upto};
    }
}

struct tree *lab_tree(uint64_t seed, int32_t i, int32_t kind)
{
    int32_t nodes = 1 + (int32_t)below(seed, i, DRAW_SIZE, 0, 2 + min_i64(i, 38));
    if (i < 3)
        nodes = i + 1;
    struct tree *t = tree_new(nodes, 0);
    draw_nodes(t, seed, i, kind);
    tree_query_leaves(t);
    if (kind & LAB_TREE_INNER)
        draw_queries(t, seed, i, kind);
    CK(tree_check(t, NULL));
    return t;
}

/* The four lists of a tree, each between what stands before and behind it. */
static void append_lists(char **text, const struct tree *t, const char *const before[4], const char *end)
{
    for (int k = 0; k < 4; k++) {
        xappend(text, "%s", before[k]);
        for (int32_t i = 0; i < (k < 2 ? t->n_nodes : t->n_queries); i++)
            xappend(text, "%s%" PRId64, i ? ", " : "",
                    k == 0   ? t->parent[i]
                    : k == 1 ? t->len[i]
                    : k == 2 ? t->query[i].node
                             : t->query[i].upto);
    }
    xappend(text, "%s", end);
}

char *lab_tree_text(const struct tree *t)
{
    enum { SHOWN = 6 /* nodes */ };
    static const char *const names[] = {"; parent = {", "}, len = {", "}, query_node = {",
                                        "}, query_upto = {"};
    char *text = xasprintf("a tree of %" PRId32 " node%s, %" PRId64 " token%s, %" PRId32 " quer%s",
                           t->n_nodes, t->n_nodes == 1 ? "" : "s", tree_tokens(t),
                           tree_tokens(t) == 1 ? "" : "s", t->n_queries, t->n_queries == 1 ? "y" : "ies");
    if (t->n_nodes <= SHOWN && t->n_queries <= 2 * SHOWN)
        append_lists(&text, t, names, "}");
    return text;
}

char *lab_tree_code(const struct tree *t)
{
    static const char *const names[] = {"const int parent[] = {", "};\nconst int64_t len[] = {",
                                        "};\nconst int query_node[] = {",
                                        "};\nconst int64_t query_upto[] = {"};
    char *text = xstrdup(""), *end = xasprintf("};\nconst struct lab_tree tree = {%" PRId32 ", %" PRId32
                                               ", parent, len, query_node, query_upto};\n",
                                               t->n_nodes, t->n_queries);
    append_lists(&text, t, names, end);
    free(end);
    return text;
}
