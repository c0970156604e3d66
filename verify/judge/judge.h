/*
 * judge.h - one case from end to end: tree, problem and oracle made once; then any number of strategies and
 * kernels planned, checked for coverage, run and compared.
 */
#ifndef TREEATTN_VERIFY_JUDGE_JUDGE_H
#define TREEATTN_VERIFY_JUDGE_JUDGE_H

#include "kernels/kernel.h"
#include "verify/judge/case.h"
#include "verify/judge/compare.h"
#include "verify/judge/guard_cpu.h"

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

struct result {
    enum verdict verdict;
    const char *strategy, *kernel;
    const struct strategy_use *use; /* the caller's, if it keeps it */
    bool planned;                   /* the strategy applies; a plan was made */
    char tile[32];                  /* "64x128", "+" appended where groups differ, "-" without a plan */
    bool ran;                       /* the kernel did, on what the verdict is of; so there is run_s */
    bool compared;                  /* what it wrote was held against the truth; so there is */
    struct comparison cmp;
    struct ledger ledger;
    int64_t n_groups, n_launches;
    double plan_s, run_s;
    char why[600];   /* FAIL, SKIP: one sentence; what a kernel's machine lacks is a SKIP */
    char guess[128]; /* wrong numbers: what they look like (verify/judge/diagnose.h), or "" */
};

/* Did it run, on a kernel that counts? Else the ledger's zeros are none. */
bool result_is_counted(const struct result *r);

/* Plan, check, run, compare. */
struct result judge(const struct test_case *b, const struct strategy_use *use, const struct kernel *k);

/* How kernel k computed that ran this plan on this problem: accumulation in f64 for f64 problems, else f32.
 */
struct arithmetic judge_arithmetic(const struct problem *p, const struct plan *plan, const struct kernel *k);

#ifdef __cplusplus
}
#endif

#endif
