/*
 * faults.h - the verifier, verified: break a plan, its data, its output or the comparator's inputs on purpose
 * and see who notices.
 *
 * Two detectors are judged: `cover` (cover_check on the broken plan, no floats) and `numbers` (run the
 * kernel, compare with the oracle). A fault that is safe to execute must be noticed by both where both can
 * see it; one that would read or write out of bounds, or race, is never run.
 */
#ifndef TREEATTN_VERIFY_FAULTS_FAULTS_H
#define TREEATTN_VERIFY_FAULTS_FAULTS_H

#include "verify/judge/judge.h"

BEGIN_C

enum fault_where { FAULT_PLAN, FAULT_DATA, FAULT_OUTPUT, FAULT_JUDGE, N_FAULT_WHERES };
extern const char *const fault_where_name[N_FAULT_WHERES];

/* One sound case, all PASS, that faults are planted in. Borrowed pointers. */
struct fault_case {
    const char *tree;              /* its name, for messages */
    const struct problem *problem; /* the truth */
    const struct oracle *oracle;
    const struct nform *nf;
    const struct plan *plan;
    const struct kernel *kernel;
    const struct output *good; /* what the kernel writes for the sound plan */
    struct arithmetic arith;
};

/* What a fault replaced; owned, NULL: as in the case. */
struct broken {
    struct plan *plan;
    struct problem *problem; /* what the kernel is given; the oracle keeps the truth */
    struct output *output;   /* judged instead of running the kernel */
    struct oracle *oracle;
    bool no_run;    /* not safe to execute: only cover may judge it */
    uint64_t seed;  /* places are drawn from here */
    uint64_t draws; /* so far */
    char place[96]; /* where the fault sits, in words */
};

void broken_clear(struct broken *b);

struct fault {
    const char *name;
    enum fault_where where;
    const char *about;
    /* Break something in *b (empty but for seed) such that the answer changes by more than rounding; false if
     * the case offers no place for it. */
    bool (*plant)(const struct fault_case *fc, struct broken *b);
};
extern const struct fault faults[];
extern const int32_t n_faults;
const struct fault *fault_find(const char *name); /* NULL if there is none */

/* Plant f once and ask both detectors. */
struct fault_result {
    bool planted, run;
    bool cover, numbers; /* noticed */
    double worst;        /* error / bound as the comparator saw it; +inf if the kernel refused to run */
    char place[96];
    char why[256]; /* what the detectors said */
};
struct fault_result fault_try(const struct fault *f, const struct fault_case *fc, uint64_t seed);

/* ---- sound cases of a seed ----------------------------------------------------------------- */

/* A fixed set of tree shapes; lengths are drawn from the seed. On some of them every strategy has a plan with several
 * groups, partials and merges. On some a query sees nothing. */
struct fault_tree {
    const char *name;
    struct case_spec spec; /* of the test case; names no source, the tree is drawn */
    struct test_case *test;
};
extern const int32_t n_fault_trees;
/* Tree i, in types and head sizes that `kernel` has: devices (kernels with ready()) compute in f16 and bf16, d 64 or 128. */
struct fault_tree *fault_tree_new(int32_t i, uint64_t seed, const struct kernel *kernel);
void fault_tree_free(struct fault_tree *t);

/* The case of one strategy on one tree, to be freed with fault_case_free. False if there is none; then *r says why:
 * the strategy has no plan (not planned); the kernel skips it (V_SKIP); or what is sound does not pass (V_FAIL), which is
 * a false alarm of the verifier, or a bug. */
bool fault_case_new(const struct fault_tree *t, const struct strategy_use *use, const struct kernel *kernel,
                    struct fault_case *fc, struct result *r);
void fault_case_free(struct fault_case *fc);

/* ---- the whole self-test ---------------------------------------------------------------------------- */

struct fault_tally {
    int64_t planted, run;           /* run: planted and judged by numbers */
    int64_t cover, numbers, caught; /* caught: by at least one */
    double weakest;                 /* smallest error / bound among those that numbers judged */
};

struct fault_report {
    int32_t n_uses;
    const struct strategy_use *uses;
    struct fault_tally *cell; /* [n_faults][n_uses] */
    int64_t cases;            /* sound cases that faults were planted in */
    int64_t alarms;           /* sound cases that did not pass */
    int64_t refused;          /* cases that the kernel skipped */
    char why[RESULT_SENTENCE]; /* why it skipped the first */
    char **remark; /* one line per false alarm, missed fault, and fault that numbers alone missed */
    int64_t n_remarks, cap_remarks;
};

/* Plant every kind in every use on every tree. tick(context) is called after each of the n_fault_trees * n_uses cases;
 * it may be NULL. Free with fault_report_free. */
struct fault_report *faults_run(const struct strategy_use *uses, int32_t n_uses, const struct kernel *kernel,
                                uint64_t seed, void (*tick)(void *context), void *context);
/* The same with other processes (verify/sweep). NULL in a worker; and in a front with *e set, if they could not do it. */
struct fault_report *faults_run_shared(const struct strategy_use *uses, int32_t n_uses, const struct kernel *kernel, uint64_t seed,
                                       struct err *e);
void fault_report_free(struct fault_report *r);
/* Sum over uses of kind f (-1: all kinds) and use u (-1: all). */
struct fault_tally fault_sum(const struct fault_report *r, int32_t f, int32_t u);

END_C

#endif
