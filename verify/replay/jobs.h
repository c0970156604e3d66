/*
 * jobs.h - the traces of a replay: opened, run through the executor, their rows kept in a file, and closed.
 */
#ifndef TREEATTN_VERIFY_REPLAY_JOBS_H
#define TREEATTN_VERIFY_REPLAY_JOBS_H

#include "verify/cases/tree_source.h"
#include "verify/replay/on_decoder.h"
#include "verify/replay/report.h"

BEGIN_C

/* What is replayed. */
struct replay_choice {
    const char *workloads;         /* by name or group; NULL: the trace of src */
    const char *data;              /* where their files are; NULL: trace_folder() */
    const struct tree_source *src; /* its options go before a workload's own */
    int32_t tree_last;             /* the last item of each, TREES_ALL: all of them */
    int64_t max_steps;             /* 0: all */
};
/* Fill run->job. False with *e set; replay_jobs_close in either case. */
bool replay_jobs_open(const struct replay_choice *choice, struct replay_run *run, struct err *e);
void replay_jobs_close(struct replay_run *run);

/* Open a decoder with a pool as large as the traces need, and what it has room for into run->replay. */
bool replay_jobs_device(struct replay_run *run, const struct decoder_type *type, uint64_t seed, bool graph,
                        struct replay_device *device, struct err *e);

/* All that rows depend on, in one line; `where`: on what steps run. The caller frees. */
char *replay_jobs_describe(const struct replay_run *run, const char *where, bool graph);

/* A file of rows; path NULL: none. */
struct replay_rows {
    const char *path;
    bool resume;
    const char *what, *about; /* as of struct replay_log_spec */
};
/* Run all of them with run->replay. */
bool replay_jobs_run(struct replay_run *run, const struct replay_rows *rows, struct err *e);
/* Are all pages of the KV pool back (if not, *e has EXIT_FAILED), and was anything replayed at all? */
bool replay_jobs_check(const struct replay_run *run, struct err *e);

END_C

#endif
