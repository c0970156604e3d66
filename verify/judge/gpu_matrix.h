/*
 * gpu_matrix.h - the cases of `make gpu-check`: a design, drawn from a seed, and what it covers.
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
#ifndef TREEATTN_VERIFY_JUDGE_GPU_MATRIX_H
#define TREEATTN_VERIFY_JUDGE_GPU_MATRIX_H

#include "verify/judge/case.h"
#include "verify/judge/result.h"

#ifdef __cplusplus
extern "C" {
#endif

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

struct gpu_case {
    struct case_spec c; /* no strategy: every one of them */
    int kind;
};

/* The whole design of that seed; *out is an array of *n, to be freed with gpu_cases_free. *shared: the traces of
 * $TREEATTN_SHARED are among them. False with *e set if a trace is there and cannot be read. */
bool gpu_cases_new(uint64_t seed, struct gpu_case **out, int64_t *n, bool *shared, struct err *e);
void gpu_cases_free(struct gpu_case *list, int64_t n);

/* ---- what was run, value by value ------------------------------------------------------------------------ */

enum gpu_axis { AXIS_DTYPE, AXIS_HEADS, AXIS_D, AXIS_PAGE, AXIS_TREE, AXIS_FILL, AXIS_STRATEGY, N_GPU_AXES };

enum { MAX_AXIS_VALUES = 160, MAX_SKIPS = 64 };

struct axis_value {
    enum gpu_axis axis;
    char name[32];
    bool required; /* of the design: must meet all required values of the other axes */
    int64_t n[4];  /* by verdict */
    double worst_o, worst_lse;
};

struct skip_reason {
    char text[160]; /* "strategy: why", digits as # */
    int64_t n;
};

/* Large: on the heap, zero-initialised, then pairs_met_init. */
struct pairs_met {
    int32_t n, n_skips;
    struct axis_value value[MAX_AXIS_VALUES];
    int32_t pair[MAX_AXIS_VALUES][MAX_AXIS_VALUES]; /* cases run with both values; [i][j], i < j */
    struct skip_reason skip[MAX_SKIPS];
};
void pairs_met_init(struct pairs_met *v, const struct strategy_use *use, int32_t n_use);

void pairs_met_add(struct pairs_met *v, const struct gpu_case *x, const struct result *r);
/* Returns the number of required pairs; *met: how many of them were run. A (strategy, tree) pair with nothing but skips
 * is not required. Pairs that were not run are named on f (may be NULL), a line each. */
int64_t pairs_met_pairs(const struct pairs_met *v, int64_t *met, FILE *f);
/* `whole`: the whole design was run, so name the pairs that were not. */
void pairs_met_print(FILE *f, const struct pairs_met *v, bool whole);

#ifdef __cplusplus
}
#endif

#endif
