/*
 * prefix_tree.h - requests that share pages, as a compact trie that is kept from step to step.
 *
 * A node is a longest stretch of page places in which the same requests go on: only where requests part does a node
 * end, so all but leaves have two children or more (roots hang below node 0, which is none). A request ends in or at
 * the end of a node. What a node's pages are is not stored: they are those of one of its requests, `rep`, in the
 * table that the caller gives at each step.
 */
#ifndef TREEATTN_SIM_ENGINE_PREFIX_TREE_H
#define TREEATTN_SIM_ENGINE_PREFIX_TREE_H

#include "ref/base.h"
#include "sim/engine/treeattn.h"

BEGIN_C

/* A step's lists of pages, as the caller has them. */
struct page_lists {
    const int32_t *pages, *indptr; /* indptr NULL: a block table */
    int64_t stride;
};
static inline const int32_t *page_list(const struct page_lists *l, int32_t r)
{
    return l->pages + (l->indptr ? l->indptr[r] : r * l->stride);
}

struct prefix_node {
    int32_t parent, first_child, next, prev; /* next, prev: siblings; 0: none */
    int32_t begin, end;                      /* places in the lists of its requests; half open */
    int32_t rep;                             /* a request that has all of them */
    int32_t first_row;                       /* of the requests that end in it; -1: none */
    int32_t first_page, hash_next;           /* found by (parent, first_page) */
    int32_t number;                          /* in the step's tree; -1: not yet */
    int32_t depth;
};

struct prefix_row {
    int32_t node; /* it ends in it; 0: it has no pages */
    int32_t pages;
    int32_t next, prev; /* requests that end in the same node; -1: none */
};

struct prefix_tree {
    struct prefix_node *node; /* [2 * most rows + 1] */
    struct prefix_row *row;   /* [most rows] */
    int32_t *bucket, *spare;  /* [n_buckets] hash table; nodes that are not in use */
    int32_t n_rows, n_nodes, n_spare, most_nodes, mask;
    struct page_lists lists;
};

/* Bytes for `rows` requests, and the empty tree in that memory, aligned to 64. */
size_t prefix_tree_bytes(int32_t rows);
void prefix_tree_init(struct prefix_tree *t, int32_t rows, void *memory);
void prefix_tree_clear(struct prefix_tree *t);

/* From the step before to this one: n requests, pages[r] of each, of which the first kept[r] were there (NULL: none). */
void prefix_tree_step(struct prefix_tree *t, const struct page_lists *lists, int32_t n, const int32_t *pages,
                      const int32_t *kept);

END_C

#endif
