/*
 * rows.h - a file of rows: what a run came to, written as it goes, one JSON object a line. So a run that was stopped goes on, and
 * one that is over tells the next what failed.
 *
 * The first line says what was judged. Behind it, each row has the columns of a table, and `from`: the case it is of, as it was
 * before a strategy and a kernel were filled in; `row` and `rows`: which of the rows of that case it is, and of how many.
 */
#ifndef TREEATTN_VERIFY_REPORT_ROWS_H
#define TREEATTN_VERIFY_REPORT_ROWS_H

#include "verify/report/outcome.h"

BEGIN_C

enum { ROWS_VERSION = 1 };

struct rows_spec {
    const char *path;
    bool resume;       /* go on with what is there, if it was judged alike */
    bool failed_first; /* read what failed there, then begin anew */
    const char *judged; /* a line for people that is the same where a case would come to the same */
};

struct rows;
/* A file that is there and does not begin as one of rows is left alone, and refused. Of one that was cut, the whole cases count.
 * NULL with *e set: file, line, what is wrong, what was expected. */
struct rows *rows_open(const struct rows_spec *spec, struct err *e);
/* Did that case fail when the file was written? */
bool rows_failed(const struct rows *r, const char *from);
/* The rows of a case that need not be run; NULL: it does. */
const struct row_outcome *rows_done(const struct rows *r, const char *from, int32_t *n);
/* Those of a case that was run, before anything changes them. They are in the file when it returns. */
void rows_add(struct rows *r, const char *from, const struct row_outcome *o, int32_t n);
/* False with *e set if something could not be written. r may be NULL. */
bool rows_close(struct rows *r, struct err *e);

END_C

#endif
