/*
 * decode_job.h - whole decode steps of a trace on a decoder: checked against exact attention and sequences alone, or timed.
 */
#ifndef TREEATTN_VERIFY_REPLAY_DECODE_JOB_H
#define TREEATTN_VERIFY_REPLAY_DECODE_JOB_H

#include "kernels/decode/decode.h"
#include "sim/strategy.h"
#include "verify/io/table.h"
#include "verify/cases/tree_source.h"

BEGIN_C

struct decode_job {
    const struct decoder_type *type;
    const struct model *model; /* NULL: checks take the tiny ones, times llama-3-8b */
    enum dtype dtype;          /* N_DTYPES: f64 on the CPU, bf16 on a GPU */
    struct tree_source src; /* a trace, perhaps from a step on; SRC_NONE: checks take two built-in traces */
    int64_t steps, page;
    uint64_t seed;
    int32_t arch;
    bool graph;   /* a step's kernels as one CUDA graph */
    int64_t gpus; /* over 1: cards that a step is spread over */
    enum parallel parallel;
    bool time, gaps; /* decode_measure is called, and traces the kernels once more */
    const struct strategy_use *use;
    int32_t n_use;
    struct printer *t; /* with the columns below */

    int64_t wrong; /* checks that failed */
    /* while it runs: */
    const struct model *llm;
    struct trace *trace;
    const char *name; /* of the trace */
    int64_t first, last;
};

extern const char *const decode_check_columns[], *const decode_time_columns[];
/* A row per model, trace and strategy. False with *e set if the device or the pool failed, or a trace cannot be had. */
bool decode_check(struct decode_job *j, struct err *e);
/* A row per strategy, and one without attention. */
bool decode_measure(struct decode_job *j, struct err *e);

END_C

#endif
