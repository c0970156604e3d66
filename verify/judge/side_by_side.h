/*
 * side_by_side.h - the strategies beside each other: on one tree, and on random ones.
 */
#ifndef TREEATTN_VERIFY_JUDGE_SIDE_BY_SIDE_H
#define TREEATTN_VERIFY_JUDGE_SIDE_BY_SIDE_H

#include "verify/io/table.h"
#include "verify/judge/judge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The strategy on the tree given, and its tally over random trees. */
struct compare_row {
    struct result on_tree;
    int64_t passed, run;
    double worst;
    char *failed;      /* case string of the first failure; NULL: none */
    int64_t failed_at; /* number of the random tree, -1: the tree given */
};

struct compare_run {
    struct strategy_use *use;
    int32_t n_use;
    const struct kernel *kernel;
    int64_t n_random;        /* random trees, of the case's seed; 0: none, and no columns for them */
    struct compare_row *row; /* [n_use], made by compare_strategies, as are those below */
    struct totals totals;
    double query_centric; /* KV bytes of flash-attention on the tree */
};

/* Judge every strategy on the tree of `c` and on random ones. False with *e set if a tree or the memory for it cannot be
 * had. compare_clear in either case. */
bool compare_strategies(struct compare_run *run, const struct case_spec *c, FILE *f, enum style style,
                        struct err *e);
void compare_clear(struct compare_run *run);

#ifdef __cplusplus
}
#endif

#endif
