/*
 * report.h - what `treeattn replay` has computed, for those who print it.
 */
#ifndef TREEATTN_VERIFY_REPLAY_REPORT_H
#define TREEATTN_VERIFY_REPLAY_REPORT_H

#include "verify/replay/run.h"
#include "verify/io/table.h"
#include "traces/workloads.h"

BEGIN_C

/* One item of a trace. */
struct replay_item {
    const struct replay_job *job;
    int32_t index; /* in its file */
    struct trace *trace;
    struct replay_source src;
    struct replay_total *total; /* [n_use] */
    struct replay_pool pool;
};

/* A trace, or a workload: one or several items of a file. */
struct replay_job {
    char *name, *spec;
    char *lacks; /* a file that is not there: no items */
    struct trace_opts opts;
    int32_t tree_last;
    struct replay_item *item; /* [n_items] */
    int32_t n_items;
};

struct replay_run {
    struct replay replay;
    struct replay_job *job;
    int32_t n_jobs;
    struct replay_item *item; /* [n_items] of all jobs, one job's behind the other's */
    int32_t n_items;
    /* Of the time model: a file, or "built-in"; what it does not name; both for titles. NULL where nothing is simulated. */
    const char *coefficients, *built_in;
    char *title;
    bool coefs_told;    /* they were given */
    uint32_t coefs_sum; /* of the values, so that rows of other coefficients are not resumed */
};

/* A row per item and strategy; as text a table a job, with what there is to say of it. */
void replay_print(const struct replay_run *run, FILE *f, enum style style);

END_C

#endif
