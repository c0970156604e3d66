/*
 * judge.h - one case from end to end: tree, problem and oracle made once; then any number of strategies and
 * kernels planned, checked for coverage, run and compared.
 */
#ifndef TREEATTN_VERIFY_JUDGE_JUDGE_H
#define TREEATTN_VERIFY_JUDGE_JUDGE_H

#include "kernels/kernel.h"
#include "verify/cases/case.h"
#include "verify/compare/error_map.h"
#include "verify/judge/guard_cpu.h"
#include "verify/judge/result.h"

BEGIN_C

/* What a right kernel outside may hold or not, and how often it was asked and did. It is no matter of its verdict. */
enum outside_property {
    TOLERATES_NAN,     /* in the tails of pages, behind the last token */
    SAME_BITS,         /* in three runs */
    SAME_ALONE,        /* the bits of a query do not depend on the others */
    SAME_IN_GRAPH,     /* the bits of a replayed CUDA graph, whose inputs were others when it was recorded */
    ALLOCATES_NOTHING, /* asked once more, it asks for no memory */
    N_OUTSIDE_PROPERTIES
};
struct outside_tally {
    int64_t asked[N_OUTSIDE_PROPERTIES], held[N_OUTSIDE_PROPERTIES];
};

/* What all strategies of a case share. */
struct test_case {
    const struct case_spec *c;
    struct tree *tree;
    struct nform *nf;
    struct problem *p; /* a run that writes to it fails, and it is made anew for the next */
    struct guarded inputs;
    struct oracle *orc; /* NULL where a kernel outside is to answer first */
    struct plan_env env;
    bool fresh;                  /* a kernel outside runs in a process that ran nothing before */
    bool no_cause;               /* why numbers are wrong is not asked: that takes longer than to see it */
    struct error_map *map;       /* the caller's, of the answer that is wrong; or NULL */
    struct outside_tally *tally; /* the caller's, of properties that are asked for; or NULL */
    struct repeat *repeat; /* changes it in place; NULL: it is too large for that (verify/judge/repeat.h) */
};

/* NULL with *e set if the tree cannot be had, the heads are not valid, or memory would not do. The tree is
 * loaded from c->src unless given, aligned if c says so, and owned either way; c must outlive the result. */
struct test_case *test_case_new(const struct case_spec *c, struct tree *tree, struct err *e);
void test_case_free(struct test_case *b);

/* Plan, check, run, compare; of a small case twice more, changed in place. */
struct result judge_case(const struct test_case *b, const struct strategy_use *use, const struct kernel *k);

/* Coverage first, then the run under guard, then what the kernel counted. What the kernel wrote, to be freed with
 * output_free; `inputs` is of p. NULL if it did not run, or not well: then verdict, stage and sentence of *r say why. *r
 * is zero at first and gets the run's figures. */
struct output *run_plan(const struct problem *p, const struct guarded *inputs, const struct plan *plan,
                        const struct kernel *k, struct result *r);

/* The part of judge_case that follows a plan: run_plan (`inputs` is of p), then the comparison with orc. */
struct output *judge_plan(const struct problem *p, const struct guarded *inputs, const struct oracle *orc,
                          const struct plan *plan, const struct kernel *k, struct result *r);

/* What *out is worth, into *r. */
void judge_written(const struct problem *p, const struct oracle *orc, const struct output *out,
                   const struct arithmetic *a, struct result *r);

/* An answer to a problem that differs in K and V alone, to be freed with output_free; NULL: there is none. */
typedef struct output *answers_again(const struct problem *p, void *context);
/* Why numbers that judge_written found wrong are so, into *r. plan: NULL where the kernel was given none. NaN, once read, hides
 * where it was read: the kernel is asked again with numbers in its place. */
void explain_numbers(const struct problem *p, const struct oracle *orc, const struct plan *plan,
                     const struct kernel *k, const struct output *out, const struct arithmetic *a,
                     answers_again *again, void *context, struct result *r);

/* Does that law of attention hold? It needs no oracle. */
struct result judge_law(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                        const struct property *law);
/* All laws: those that do not hold into broken[n_properties], their number returned; *held grows by those that do. A
 * case with narrow partials has none. */
int32_t judge_laws(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                   struct result *broken, int64_t *held);

/* run(context, i) for i = 0 .. n - 1. Stretches come one after the other; within one, up to 16 threads take its cases in
 * any order. These have a core each, so what the threads of a kernel do to each other would never be seen. The last case
 * of a stretch therefore runs alone, with all threads. Of fewer than 16 cases one is alone, of more at most 24. */
void run_parallel(int64_t n, void (*run)(void *context, int64_t i), void *context);

END_C

#endif
