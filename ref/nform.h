/*
 * nform.h - the normal form of a tree, which planners see.
 *
 * Nodes are cut at every distinct `upto` strictly inside them, and where a query's window begins; the pieces of a node stay
 * consecutive and node order is kept, so a tree that needs no cut keeps its node numbers. Every query hangs
 * as a leaf of its own at the end of node at[q] (-1: it sees nothing); these zero-length leaves are not
 * stored. Queries are renumbered depth first (a node's own queries first, then its children in id order;
 * queries that see nothing last), so the queries below node i are the range [q0[i], q1[i]).
 */
#ifndef TREEATTN_REF_NFORM_H
#define TREEATTN_REF_NFORM_H

#include "ref/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    /* Of a tree with windows, else NULL. A piece is seen by the queries below it whose window begins at or before it; none that
     * begins behind it sees any piece above. A piece that nobody sees has len 0 here. */
    int64_t *pos;    /* [n_nodes] its first position on the path */
    int64_t *since;  /* [n_queries] */
    int64_t *first;  /* [n_nodes] the least `since` of the queries below; INT64_MAX: there are none */
    int32_t *seeing; /* [n_nodes] queries below that see it, */
    int32_t *above;  /* [n_nodes] and those of them that see its parent, too */
};

/* The tree must have passed tree_check and must outlive the result. Free with nform_free. */
struct nform *nform_new(const struct tree *t);
void nform_free(struct nform *nf);
/* The form and the tree it is of. */
void nform_free_with_tree(struct nform *nf);

/* Does a query below that piece see it? */
static inline bool nform_in_window(const struct nform *nf, int32_t q, int32_t piece)
{
    return !nf->since || nf->pos[piece] >= nf->since[q];
}

/* What planners count, with windows or without: queries that see the piece; those below it that see its parent; tokens on the path
 * above it that some query below it sees. */
static inline int32_t nform_seeing(const struct nform *nf, int32_t v)
{
    return nf->since ? nf->seeing[v] : nf->q1[v] - nf->q0[v];
}
static inline int32_t nform_seeing_above(const struct nform *nf, int32_t v)
{
    return nf->since ? nf->above[v] : nf->q1[v] - nf->q0[v];
}
static inline int64_t nform_reach(const struct nform *nf, int32_t v)
{
    return !nf->since ? INT64_MAX : nf->first[v] < nf->pos[v] ? nf->pos[v] - nf->first[v] : 0;
}

/* Queries whose own position is the end of node i (not below its children): [q0[i], q0[i] + nform_own). */
int32_t nform_own(const struct nform *nf, int32_t i);
/* Tokens that the query sees. */
int64_t nform_context(const struct nform *nf, int32_t q);
/* Tokens that some query sees, each counted once. */
int64_t nform_seen_tokens(const struct nform *nf);
/* Roots that have at least one query below them and tokens to read: the number of first-level prefixes. */
int32_t nform_live_roots(const struct nform *nf);

#ifdef __cplusplus
}
#endif

#endif
