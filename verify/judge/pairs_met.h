/*
 * pairs_met.h - what was run of the design of `make gpu-check`: values of every axis, and pairs of them.
 */
#ifndef TREEATTN_VERIFY_JUDGE_PAIRS_MET_H
#define TREEATTN_VERIFY_JUDGE_PAIRS_MET_H

#include "verify/cases/gpu_matrix.h"
#include "verify/judge/result.h"

BEGIN_C

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

END_C

#endif
