/*
 * side_by_side.h - the strategies beside each other: on one tree, and on random ones.
 */
#ifndef TREEATTN_VERIFY_JUDGE_SIDE_BY_SIDE_H
#define TREEATTN_VERIFY_JUDGE_SIDE_BY_SIDE_H

#include "verify/io/table.h"
#include "verify/judge/judge.h"

BEGIN_C

/* What is compared, and by which kernel; the verdicts of all. */
struct compare_run {
    struct strategy_use *use; /* the caller's */
    int32_t n_use;
    const struct kernel *kernel;
    int64_t n_random; /* random trees, of the case's seed; 0: none, and no columns for them */
    struct totals totals;
};

/* Judge every strategy on the tree of `c` and on random ones, and print. False with *e set if a tree or the memory for it
 * cannot be had. */
bool compare_strategies(struct compare_run *run, const struct case_spec *c, FILE *f, enum style style,
                        struct err *e);

END_C

#endif
