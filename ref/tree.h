/*
 * tree.h - trees of KV tokens, and queries on them.
 *
 * A tree is a forest in topological order: parent[i] < i, -1 for a root. Node i holds len[i] >= 0 tokens.
 * A query (node, upto) sees every token of the node's proper ancestors and the first `upto` tokens of the
 * node itself. This one rule says leaves, queries on inner nodes, token trees of speculative decoding and
 * causal chains. With a sliding window it sees the last of these tokens alone.
 */
#ifndef TREEATTN_REF_TREE_H
#define TREEATTN_REF_TREE_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits on what a file may ask for; far above any real trace, far below what would wrap or hang. */
#define TREE_MAX_NODES (INT32_C(1) << 24)
#define TREE_MAX_QUERIES (INT32_C(1) << 24)
#define TREE_MAX_TOKENS (INT64_C(1) << 40)

struct query {
    int32_t node;
    int64_t upto; /* 0 .. len[node] */
};

struct tree {
    int32_t n_nodes, n_queries;
    int32_t *parent;     /* [n_nodes] */
    int64_t *len;        /* [n_nodes] tokens */
    struct query *query; /* [n_queries] */
    /* [n_queries] or NULL: a query sees its path from that position on. Positions count tokens from the root, from 0. */
    int64_t *since;
};

/* Room for n_nodes nodes (parent -1, length 0) and n_queries queries (node 0, upto 0). Free with tree_free.
 */
struct tree *tree_new(int32_t n_nodes, int32_t n_queries);
void tree_free(struct tree *t);
struct tree *tree_copy(const struct tree *t);

/* The first position of its path that query q sees. */
static inline int64_t tree_since(const struct tree *t, int32_t q)
{
    return t->since ? t->since[q] : 0;
}

/* Each query sees the last `window` tokens of its path, and no others; 0: all of it. */
void tree_set_window(struct tree *t, int64_t window);

/* Replace the queries: one at the end of each leaf (node without children), in node order, without a window. */
void tree_query_leaves(struct tree *t);

/*
 * The same queries with the same contexts, stored as an engine stores them that has pages of that many tokens and one list of
 * pages a request: only the last page of a request may be partly filled. Inner nodes are cut to whole pages. Each child has a
 * copy of the tokens that are left over, and so has a new leaf for the queries of the node that see some of them.
 */
struct tree *tree_aligned(const struct tree *t, int32_t page);

/* Topological order, lengths >= 0 and within TREE_MAX_TOKENS together, queries on nodes and within them, windows that begin on the
 * path. */
bool tree_check(const struct tree *t, struct err *e);

int64_t tree_tokens(const struct tree *t);
/* Tokens that each query sees, into out[n_queries]. */
void tree_contexts(const struct tree *t, int64_t *out);
/* Number of nodes on the longest path. */
int32_t tree_depth(const struct tree *t);

/* Nodes from a root down to `node`, both included, into out; none where node < 0. parent: as in struct tree. out NULL:
 * they are only counted. Returns how many. */
int32_t tree_path(const int32_t *parent, int32_t node, int32_t *out);

#ifdef __cplusplus
}
#endif

#endif
