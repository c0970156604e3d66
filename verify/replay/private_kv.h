/*
 * private_kv.h - storage in which every query has a copy of its whole path, as flash-decoding has it: from step to step of
 * a trace, which copy is whose, and which tokens it lacks.
 *
 * Copies lie in lanes, each of as many consecutive pages as the longest path takes. A query that goes on
 * keeps its lane. A new query takes the free lane that holds the most of its path already: that of a leaf
 * which has branched, or of a candidate of the step before. What it lacks is copied from the pool that all
 * strategies share, but for the query's own token, which the step itself writes.
 */
#ifndef TREEATTN_VERIFY_REPLAY_PRIVATE_KV_H
#define TREEATTN_VERIFY_REPLAY_PRIVATE_KV_H

#include "traces/trace.h"

BEGIN_C

struct private_kv_spec {
    int32_t page_size;
    int64_t first_page; /* of lane 0 */
    int64_t pages;      /* of a lane */
    int32_t lanes;      /* at least as many as a step has queries */
};
/* Raise lanes and pages to what the step needs. */
void private_kv_fit(struct private_kv_spec *s, const struct tree *tree);

struct private_kv; /* opaque */
struct private_kv *private_kv_new(const struct private_kv_spec *spec);
void private_kv_free(struct private_kv *c);

/* To the next step. page_off and page_table: of the shared pool. Token from[i] goes to to[i], slots as in ref/problem.h, in
 * any order: none is in both. The arrays are c's and last until the next step. */
struct private_kv_step {
    int64_t n;
    const int64_t *from, *to;
};
struct private_kv_step private_kv_advance(struct private_kv *c, const struct tree *tree,
                                          const struct trace_parts *parts, const int64_t *page_off,
                                          const int32_t *page_table);

/* The step's tree as it is in this storage: a root for each query, of all that it sees. Free with tree_free. */
struct tree *tree_apart(const struct tree *tree);
/* Its page table: page_off[n_queries + 1] and *page_table, which grows as needed (*cap entries). */
void private_kv_table(const struct private_kv *c, const struct tree *apart, int64_t *page_off,
                      int32_t **page_table, int64_t *cap);

END_C

#endif
