/*
 * tree.h - trees of KV tokens, queries on them, and the normal form that planners see.
 *
 * A tree is a forest in topological order: parent[i] < i, -1 for a root. Node i holds len[i] >= 0 tokens.
 * A query (node, upto) sees every token of the node's proper ancestors and the first `upto` tokens of the
 * node itself. This one rule says leaves, queries on inner nodes, token trees of speculative decoding and
 * causal chains.
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
};

/* Room for n_nodes nodes (parent -1, length 0) and n_queries queries (node 0, upto 0). Free with tree_free.
 */
struct tree *tree_new(int32_t n_nodes, int32_t n_queries);
void tree_free(struct tree *t);
struct tree *tree_copy(const struct tree *t);

/* Replace the queries: one at the end of each leaf (node without children), in node order. */
void tree_query_leaves(struct tree *t);

/* Topological order, lengths >= 0 and within TREE_MAX_TOKENS together, queries on nodes and within them. */
bool tree_check(const struct tree *t, struct err *e);

int64_t tree_tokens(const struct tree *t);
/* Tokens that each query sees, into out[n_queries]. */
void tree_contexts(const struct tree *t, int64_t *out);
/* Number of nodes on the longest path. */
int32_t tree_depth(const struct tree *t);

/* Nodes from a root down to `node`, both included, into out; none where node < 0. parent: as in struct tree. out NULL:
 * they are only counted. Returns how many. */
int32_t tree_path(const int32_t *parent, int32_t node, int32_t *out);

/*
 * Normal form. Nodes are cut at every distinct `upto` strictly inside them; the pieces of a node stay
 * consecutive and node order is kept, so a tree that needs no cut keeps its node numbers. Every query hangs
 * as a leaf of its own at the end of node at[q] (-1: it sees nothing); these zero-length leaves are not
 * stored. Queries are renumbered depth first (a node's own queries first, then its children in id order;
 * queries that see nothing last), so the queries below node i are the range [q0[i], q1[i]).
 */
struct nform {
    const struct tree *tree;
    int32_t n_nodes, n_queries;
    int32_t *parent;    /* [n_nodes] */
    int64_t *len;       /* [n_nodes] */
    int32_t *src;       /* [n_nodes] node of the tree this is a piece of */
    int64_t *off;       /* [n_nodes] its first token within that node */
    int32_t *depth;     /* [n_nodes] 0 for roots */
    int32_t *q0, *q1;   /* [n_nodes] queries below, half open */
    int32_t *child_ptr; /* [n_nodes + 1] children of node i: child[child_ptr[i] .. child_ptr[i + 1]) */
    int32_t *child;     /* [n_nodes - n_roots] in id order */
    int32_t *root;      /* [n_roots] */
    int32_t n_roots;
    int32_t *at;   /* [n_queries] the node whose end the query hangs on; -1: sees nothing */
    int32_t *orig; /* [n_queries] the query's number in the tree */
};

/* The tree must have passed tree_check and must outlive the result. Free with nform_free. */
struct nform *nform_new(const struct tree *t);
void nform_free(struct nform *nf);
/* The form and the tree it is of. */
void nform_free_with_tree(struct nform *nf);

/* Queries whose own position is the end of node i (not below its children): [q0[i], q0[i] + nform_own). */
int32_t nform_own(const struct nform *nf, int32_t i);
/* Tokens of the query's path. */
int64_t nform_context(const struct nform *nf, int32_t q);
/* Roots that have at least one query below them and tokens to read: the number of first-level prefixes. */
int32_t nform_live_roots(const struct nform *nf);

#ifdef __cplusplus
}
#endif

#endif
