/*
 * paper_sets.h - the trees of the papers' kernel benchmarks, and the sets of trees and heads that a benchmark is.
 */
#ifndef TREEATTN_TRACES_PAPER_SETS_H
#define TREEATTN_TRACES_PAPER_SETS_H

#include "ref/base.h"

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
    int32_t h_q, h_kv; /* 0: the caller's own */
};

/* The cases of a list of sets, "fasttree-fig9,pat-fig9,speculative": an array of *n, which the caller frees. With own_heads
 * a tree is one case; else it is one for each heads of its set. number > 0: only that tree. NULL with *e set where a set is
 * unknown, or there is no such tree. */
struct paper_case *paper_sets(const char *list, bool own_heads, int64_t number, int32_t *n, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
