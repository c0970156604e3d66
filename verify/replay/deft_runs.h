/*
 * deft_runs.h - latencies that DeFT's release recorded (shared/traces/golden.csv), and those that the paper prints.
 */
#ifndef TREEATTN_VERIFY_REPLAY_DEFT_RUNS_H
#define TREEATTN_VERIFY_REPLAY_DEFT_RUNS_H

#include "ref/csv.h"

BEGIN_C

/* A recorded run: `file` as its column says, "synthetic:width=20" or a file's name. */
struct deft_run {
    const char *file;
    int32_t tree;
    int64_t prompt, max_seq;
};

/* Seconds of a strategy, attention alone or all of decoding: the mean of that run's rows; -1 if there is none. */
double deft_run_latency(const struct csv *golden, const struct deft_run *run, const char *strategy,
                        bool attention);

/* Seconds that DeFT's table (16: attention, 5: decoding) prints for a strategy on a workload; 0: out of memory; -1: not in
 * the table. */
double deft_latency(int table, const char *strategy, const char *workload);

END_C

#endif
