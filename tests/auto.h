/*
 * auto.h - what is freed where its block ends: AUTO(plan) p = strategy_plan(..).
 */
#ifndef TREEATTN_TESTS_AUTO_H
#define TREEATTN_TESTS_AUTO_H

#include "ref/oracle.h"
#include "sim/plan.h"

#define AUTO(type) __attribute__((cleanup(auto_free_##type))) struct type *
/* A normal form that is freed with its tree. */
#define AUTO_WITH_TREE __attribute__((cleanup(auto_free_with_tree))) struct nform *

/* AUTO(name) is a struct `type *`, which release() frees. */
#define AUTO_FREE(name, type, release)                                                                       \
    static inline void auto_free_##name(struct type **x)                                                     \
    {                                                                                                        \
        release(*x);                                                                                         \
    }
AUTO_FREE(tree, tree, tree_free)
AUTO_FREE(nform, nform, nform_free)
AUTO_FREE(with_tree, nform, nform_free_with_tree)
AUTO_FREE(plan, plan, plan_free)
AUTO_FREE(problem, problem, problem_free)
AUTO_FREE(oracle, oracle, oracle_free)

#endif
