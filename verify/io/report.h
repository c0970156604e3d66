/*
 * report.h - where results go: text for eyes, CSV, JSON; a file of the user's or standard output.
 */
#ifndef TREEATTN_VERIFY_IO_REPORT_H
#define TREEATTN_VERIFY_IO_REPORT_H

#include "verify/judge/judge.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum style { STYLE_TEXT, STYLE_CSV, STYLE_JSON };

/* Standard output, or a file under a temporary name that is renamed when everything went well. Links are followed; what
 * is there and no file, a device or a pipe, is written to as it is. */
struct outfile {
    FILE *f;
    char *path; /* NULL for standard output */
    char *tmp;  /* NULL for what is written to as it is */
};
/* Is it "-"? NULL: no. */
bool outfile_is_stdout(const char *path);
/* Before any work: can all of these be written (NULL: not asked for), and is none of them another? */
bool outfiles_check(const char *const *path, int32_t n, struct err *e);
/* Nor one that is only read (either may be NULL)? */
bool outfile_spares(const char *path, const char *read, struct err *e);
bool outfile_open(struct outfile *o, const char *path, struct err *e);
/* Flush and rename if `keep`, else remove. False with *e set if the bytes did not reach the file. */
bool outfile_close(struct outfile *o, bool keep, struct err *e);

/*
 * A table whose rows are printed as they come. Text: tab-separated, a header line first; CSV: quoted where
 * needed; JSON: an array of objects, numbers as numbers.
 */
struct table {
    FILE *f;
    enum style style;
    const char *const *column; /* NULL-terminated */
    const char *only;          /* "A,B,..": columns that are printed, in their own order; NULL: all */
    int64_t rows;
    int32_t at;   /* next column of the current row, */
    bool behind;  /* and one was printed before it */
    bool aligned; /* text only: columns padded to `width`, for people */
    const int32_t *width;
    bool open; /* the header is out */
};
/* Are all names of a list columns? */
bool table_knows(const char *const *column, const char *list, struct err *e);
void table_text(struct table *t, const char *s);
void table_i64(struct table *t, int64_t x);
/* %.*g in text, all digits elsewhere; NaN and infinities are null in JSON, whose numbers have none. */
void table_f64(struct table *t, double x, int digits);
/* %.*g everywhere: what was measured has no more digits. */
void table_measured(struct table *t, double x, int digits);
/* Bytes: MiB with two decimals in aligned text, else as they are. */
void table_bytes(struct table *t, int64_t bytes);
/* A number that there is not: "-" in text, empty in CSV, null in JSON. */
void table_none(struct table *t);
/* The number, or that. */
void table_i64_if(struct table *t, bool there, int64_t x);
void table_f64_if(struct table *t, bool there, double x, int digits);
void table_measured_if(struct table *t, bool there, double x, int digits);
void table_bytes_if(struct table *t, bool there, int64_t bytes);
void table_end(struct table *t);

/* Totals of a verify run. */
struct totals {
    int64_t n[4]; /* by verdict */
    double worst;
};
int64_t totals_cases(const struct totals *t);
/* "verify: C cases, P passed, M marginal, F failed, K skipped" */
void totals_print(FILE *f, const char *name, const struct totals *t);

/* The result table of `verify`: one row a case. What was not planned, run or compared has no numbers. */
extern const char *const result_columns[];
void result_row(struct table *t, const struct result *r, enum dtype dtype, const char *case_text);

#ifdef __cplusplus
}
#endif

#endif
