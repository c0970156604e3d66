/*
 * auto.h - what is freed where its block ends: AUTO(plan) p = strategy_plan(..).
 */
#ifndef TREEATTN_TESTS_AUTO_H
#define TREEATTN_TESTS_AUTO_H

#include "ref/oracle.h"
#include "sim/plan.h"
#include "traces/pool.h"
#include "traces/steps.h"
#include "traces/trace.h"

#include <stdlib.h>
#include <string.h>

/* CLEARED_BY(csv_clear) struct csv c. */
#define CLEARED_BY(release) __attribute__((cleanup(release)))
/* CLEARED(grid) g: a struct grid, which grid_free() frees. */
#define CLEARED(type) CLEARED_BY(type##_free) struct type
/* FREED char *text = xasprintf(..): what free() frees, whatever it points to. */
#define FREED CLEARED_BY(auto_free_pointer)
static inline void auto_free_pointer(void *at)
{
    void *pointer;
    memcpy(&pointer, at, sizeof pointer);
    free(pointer);
}

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
AUTO_FREE(output, output, output_free)
AUTO_FREE(pool, pool, pool_free)
AUTO_FREE(reasoning, reasoning, reasoning_free)
AUTO_FREE(requests, requests, requests_free)
AUTO_FREE(speculative, speculative, speculative_free)
AUTO_FREE(trace, trace, trace_close)

#endif
