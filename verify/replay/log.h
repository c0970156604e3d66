/*
 * log.h - the rows of a replay in a file that a later run can go on with.
 */
#ifndef TREEATTN_VERIFY_REPLAY_LOG_H
#define TREEATTN_VERIFY_REPLAY_LOG_H

#include "verify/replay/step.h"

BEGIN_C

/*
 * The rows of a run in a file: `# what` in the first line, `# about` in the second, then a row a step and strategy. After
 * each portion a line says how far it is whole, so that a run can go on: it is PATH.part until complete. One run at a
 * time writes it, and none begins anew where another one was stopped.
 */
struct replay_log_spec {
    const char *path;
    bool resume;         /* go on with what there is, if it is of the same `what` */
    const char *what;    /* all that the rows depend on, in one line */
    const char *about;   /* where and when, in one line */
    char *const *source; /* [n_sources] their names */
    const int64_t *last; /* [n_sources] their steps */
    int32_t n_sources;
    const struct strategy_use *use;
    int32_t n_use;
};
struct replay_log;
struct replay_log *replay_log_open(const struct replay_log_spec *spec, struct err *e);
/* Rename if `complete`, else keep the part if anything was added to it; frees either way. */
bool replay_log_close(struct replay_log *log, bool complete, struct err *e);
/* The last iteration of this source and strategy (-1: all at once) that the file held whole; 0: none. */
int64_t replay_log_done(const struct replay_log *log, int32_t source, int32_t use);
/* Rows that it held when it was opened, in order. */
const struct replay_row *replay_log_rows(const struct replay_log *log, int64_t *n);
void replay_log_row(struct replay_log *log, const struct replay_row *row);
/* The strategy does not apply to that step, nor from then on; and why, if the file said so (else NULL). */
void replay_log_skip(struct replay_log *log, int32_t source, int32_t use, int64_t t, const char *why);
const char *replay_log_skipped(const struct replay_log *log, int32_t source, int32_t use);
/* Everything up to iteration t is written. */
void replay_log_mark(struct replay_log *log, int32_t source, int32_t use, int64_t t);

END_C

#endif
