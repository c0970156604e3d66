/*
 * judge.h - one case from end to end: tree, problem and oracle made once; then any number of strategies and
 * kernels planned, checked for coverage, run and compared.
 */
#ifndef TREEATTN_VERIFY_JUDGE_JUDGE_H
#define TREEATTN_VERIFY_JUDGE_JUDGE_H

#include "kernels/kernel.h"
#include "verify/cases/case.h"
#include "verify/judge/guard_cpu.h"
#include "verify/judge/result.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What all strategies of a case share. */
struct test_case {
    const struct case_spec *c;
    struct tree *tree;
    struct nform *nf;
    struct problem *p; /* a run that writes to it fails, and it is made anew for the next */
    struct guarded inputs;
    struct oracle *orc;
    struct plan_env env;
};

/* NULL with *e set if the tree cannot be had, the heads are not valid, or memory would not do. The tree is
 * loaded from c->src unless given, and owned either way; c must outlive the result. */
struct test_case *test_case_new(const struct case_spec *c, struct tree *tree, struct err *e);
void test_case_free(struct test_case *b);

/* Plan, check, run, compare. */
struct result judge_case(const struct test_case *b, const struct strategy_use *use, const struct kernel *k);

/* The part of it that follows a plan: run_plan (`inputs` is of p), then the comparison with orc. */
struct output *judge_plan(const struct problem *p, const struct guarded *inputs, const struct oracle *orc,
                          const struct plan *plan, const struct kernel *k, struct result *r);

/* Does that law of attention hold? It needs no oracle. */
struct result judge_law(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                        const struct property *law);
/* All laws: those that do not hold into broken[n_properties], their number returned; *held grows by those that do. A
 * case with narrow partials has none. */
int32_t judge_laws(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                   struct result *broken, int64_t *held);

#ifdef __cplusplus
}
#endif

#endif
