/*
 * verify_run.h - every strategy and kernel against exact attention: what `treeattn verify` runs and reports.
 *
 * Random trees and the sharp list, or steps of a trace, or cases. A case's tree, problem and oracle are made once and shared
 * by all strategies. Most cases run side by side, a core each, some alone; all are reported in order.
 */
#ifndef TREEATTN_VERIFY_JUDGE_VERIFY_RUN_H
#define TREEATTN_VERIFY_JUDGE_VERIFY_RUN_H

#include "verify/io/table.h"
#include "verify/cases/random_cases.h"
#include "verify/report/known.h"
#include "verify/report/reports.h"
#include "verify/report/rows.h"

BEGIN_C

/* What is judged: the first that is given of text, suite, list, src, wide, gpu_cases; else random trees. */
struct verify_job {
    const char *text, *list; /* a case; a file of cases */
    const char *suite;       /* the name of a suite, */
    struct case_spec *cases; /* [n_cases] and what it consists of: the caller's */
    int64_t n_cases;
    struct tree_source src;  /* a tree, or a trace; SRC_NONE: not given */
    int64_t steps;           /* of a trace, spread over it; 0: the step of src */
    bool wide;               /* the wide cases */
    bool gpu_cases;          /* the design of make gpu-check, */
    int64_t sample;          /* one tree in `sample` of it */
    int64_t trees;           /* random ones, */
    bool no_sharp;           /* without the list of sharp cases after them */
    uint64_t seed;
    struct problem_given given; /* in the place of what a case or a draw says */
    struct strategy_use *use;   /* [n_use] for cases that name none */
    int32_t n_use;
    bool chosen;                 /* they are for all cases */
    const struct kernel *kernel; /* NULL: a case's, or all */
    int64_t shard, shards; /* only part number shard, from 0: of lists by the digest of a case, else every shards-th; all: 0 and 1 */
    int64_t max_seconds;   /* then no case is begun any more; 0: any time */
    bool fail_fast;        /* nor behind one that failed */
    struct known *known;   /* failures that do not count, or NULL; the caller's, like */
    struct rows *rows;     /* the file where rows are kept, or NULL, */
    struct reports *reports;  /* and what is made of them at the end, or NULL */
    struct judged_what what; /* for these; what is left open of it, the run fills in */
    bool quiet, properties, no_shrink;
    bool require_all; /* a plan that a kernel does not take is something that is missing */
    const char *error_map; /* a file for the picture of the worst answer; NULL: none */
    enum style style;
    /* The command line that this run is. Printed commands are then run in processes of their own, to see whether they fail. NULL:
     * they are not. */
    const char *command;
};

/*
 * Judge and print. *code is the exit code: EXIT_FAILED if something failed, EXIT_MISSING if every case was skipped, or
 * with require_all a plan by a kernel, or if max_seconds left some out. False
 * with *e set if the run could not be finished; then *code is EXIT_FAILED if a failure was found before.
 */
bool verify_run(const struct verify_job *job, FILE *f, int *code, struct err *e);

END_C

#endif
