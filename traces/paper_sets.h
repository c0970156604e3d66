/*
 * paper_sets.h - the trees of the papers' kernel benchmarks, and the sets of trees and heads that a benchmark is.
 */
#ifndef TREEATTN_TRACES_PAPER_SETS_H
#define TREEATTN_TRACES_PAPER_SETS_H

#include "ref/heads.h"

#ifdef __cplusplus
extern "C" {
#endif

struct paper_tree {
    const char *paper;
    int32_t number;     /* in the paper's figure */
    const char *levels; /* "1,10_4096,416", for levels_parse */
};
extern const struct paper_tree paper_trees[]; /* trees of one paper follow each other */
extern const int32_t n_paper_trees;

/* One row of a benchmark. */
struct paper_case {
    const char *set; /* "fasttree-fig9" */
    const struct paper_tree *tree;
    struct heads heads; /* those of the set, or the caller's own */
};

/* The cases of a list of sets, "fasttree-fig9,pat-fig9,speculative": an array of *n, which the caller frees. heads gives
 * all but the head counts, of which a tree has a case each; own_heads: these as well, in one case. NULL with *e set where a set
 * is unknown. */
struct paper_case *paper_sets(const char *list, const struct heads *heads, bool own_heads, int32_t *n,
                              struct err *e);

#ifdef __cplusplus
}
#endif

#endif
