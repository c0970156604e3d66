/*
 * gpu_matrix.h - the cases of `make gpu-check`: a design, drawn from a seed.
 *
 * Axes: {f16, bf16} x heads {32/32, 32/8, 16/8, 64/8, 16/1, 28/4, 71/1} x d {64, 128} x page {1, 16, 64, 256} x kind of
 * tree x strategy. All 112 combinations of the first four are run, each on two trees. One tree is of the seven random
 * families in turn, the other is one that every strategy can plan. So every strategy meets every combination of the
 * four. Every pair of values of different axes occurs, except where no tree of a family suits a strategy.
 *
 * Beside the design stand other cases: lengths and numbers of queries around every tile and page edge, steps of the
 * four reasoning tasks, token trees of 32 to 256 tokens, every kind of data, and the sharp cases.
 *
 * Every case is a case string (case.h). Tasks and token trees are read from $TREEATTN_SHARED (default ../shared). Where
 * it is absent, seeded and embedded traces stand in for them.
 */
#ifndef TREEATTN_VERIFY_CASES_GPU_MATRIX_H
#define TREEATTN_VERIFY_CASES_GPU_MATRIX_H

#include "verify/cases/case.h"

BEGIN_C

/* Kinds of tree: the random families first. */
enum gpu_kind {
    GPU_PREFIX = N_FAMILIES,        /* one prefix, few private tokens: what every strategy can plan */
    GPU_EDGES,                      /* lengths and numbers of queries around edges of tiles and pages */
    GPU_REASONING,                  /* steps of four reasoning tasks, and of traces of our own */
    GPU_TOKENS = GPU_REASONING + 5, /* steps of speculative decoding, four sizes of tree, and Medusa's */
    GPU_DATA = GPU_TOKENS + 5,      /* every fill */
    GPU_SHARP,                      /* sharp.def */
    N_GPU_KINDS
};
const char *gpu_kind_name(int kind);

/* Values of the four axes that are run in full. */
enum { GPU_TYPES = 2, GPU_HEADS = 7, GPU_DIMS = 2, GPU_PAGES = 4 };
extern const enum dtype gpu_dtypes[GPU_TYPES];
extern const int32_t gpu_heads[GPU_HEADS][2], gpu_dims[GPU_DIMS], gpu_pages[GPU_PAGES];

struct gpu_case {
    struct case_spec c; /* no strategy: every one of them */
    int kind;
};

/* The whole design of that seed; *out is an array of *n, to be freed with gpu_cases_free. *shared: the traces of
 * $TREEATTN_SHARED are among them. False with *e set if a trace is there and cannot be read. */
bool gpu_cases_new(uint64_t seed, struct gpu_case **out, int64_t *n, bool *shared, struct err *e);
void gpu_cases_free(struct gpu_case *list, int64_t n);

END_C

#endif
