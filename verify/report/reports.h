/*
 * reports.h - what a run came to, for other programs: files that are written when it is over, whole or not at all.
 *
 * The end of a name says the kind: .xml JUnit as Maven's Surefire writes it, .tap TAP 14, .csv and .json the table.
 * A statement is for release notes: which suite, which kernel, what came of it, and where.
 */
#ifndef TREEATTN_VERIFY_REPORT_REPORTS_H
#define TREEATTN_VERIFY_REPORT_REPORTS_H

#include "verify/report/outcome.h"

BEGIN_C

enum { STATEMENT_VERSION = 1, REPORTS_MOST = 8 };

/* What was judged. Texts are the caller's. */
struct judged_what {
    const char *suite, *sha256;   /* a suite, and the digest of its file; NULL: other cases */
    int64_t cases;                /* of it */
    const char *kernel, *version; /* whose kernel it is */
    const char *how;              /* what brings it about on a command line */
    const char *options;          /* that change cases or what is asked of them, "" if there are none */
    int64_t shard, shards;        /* number shard, from 0 */
    const char *notes;            /* lines above the heading of CSV, NULL: none */
};

struct reports;
/* Nothing to write yet. Free with reports_free. */
struct reports *reports_new(void);
void reports_free(struct reports *r);
/* The path stays the caller's. False with *e set if its end is no kind's, or there are too many. */
bool reports_add_file(struct reports *r, const char *path, struct err *e);
void reports_add_statement(struct reports *r, const char *path);
/* All paths into path[REPORTS_MOST + 1]; their number. */
int32_t reports_paths(const struct reports *r, const char *path[REPORTS_MOST + 1]);

/* Keeps a copy, where somebody wants it. */
void reports_add(struct reports *r, const struct row_outcome *o);
/* The run is over. `left`: cases that were not run; `expired`: lines of known failures. False with *e set. */
bool reports_write(const struct reports *r, const struct judged_what *what, int64_t left, int64_t expired, struct err *e);

END_C

#endif
