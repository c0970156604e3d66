/*
 * pool.h - the paged KV cache in which a trace's steps live: which pages hold which piece (traces/trace.h), from step
 * to step.
 *
 * A node of a step begins at the beginning of a page and its tokens follow each other, so that the table has the
 * layout of ref/problem.h. Pieces of one node share the page in which one ends and the next begins; where nodes have
 * parted or joined since, a piece may have to begin elsewhere in its page, and its tokens are moved.
 *
 * Between two steps the device must first carry out the moves, which never write where another one reads, then write
 * the fresh tokens: prompts, and each query's own.
 */
#ifndef TREEATTN_TRACES_POOL_H
#define TREEATTN_TRACES_POOL_H

#include "traces/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pool; /* opaque */

/* One token, in all layers: slots as in ref/problem.h. */
struct pool_move {
    int64_t from, to;
};

/* Tokens begin .. end of the step's node have room now and are yet to be written. */
struct pool_fresh {
    int32_t node;
    int64_t begin, end;
};

/* What happened since the step before; the arrays are the pool's and last until the next step. */
struct pool_step {
    int64_t n_moves, n_fresh;
    struct pool_move *move;
    struct pool_fresh *fresh;
    int64_t fresh_tokens;
    int64_t opened, closed; /* pieces that are new, and that are gone */
};

struct pool_stats {
    int64_t pages, in_use, peak; /* of the pool; now; most at any moment */
    int64_t peak_step;           /* when that was first */
    int64_t tokens;              /* held now */
    int64_t fresh, moved;        /* tokens over the whole run */
};

/* n_pages at most INT32_MAX; memory grows with the pages in use. Free with pool_free. */
struct pool *pool_new(int32_t page_size, int64_t n_pages);
void pool_free(struct pool *p);

/* From the step before to step t. False with *e set (EXIT_MISSING) if the pages do not suffice: the pool is of no use
 * any more. Time: the step's pieces and the pages that change. */
bool pool_advance(struct pool *p, const struct tree *tree, const struct trace_parts *parts, int64_t t,
                  struct pool_step *step, struct err *e);

/* The step's page table: page_off[n_nodes + 1] and *page_table, which grows as needed (*cap entries). */
void pool_table(const struct pool *p, const struct tree *tree, const struct trace_parts *parts,
                int64_t *page_off, int32_t **page_table, int64_t *cap);

/* The run is over: every piece goes. Returns the pages that are still in use, which is a leak. */
int64_t pool_drain(struct pool *p);

struct pool_stats pool_stats(const struct pool *p);

#ifdef __cplusplus
}
#endif

#endif
