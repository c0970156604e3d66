/* table.h - tables whose rows are printed as they come: text for eyes, CSV, JSON. */
#ifndef TREEATTN_VERIFY_IO_TABLE_H
#define TREEATTN_VERIFY_IO_TABLE_H

#include "ref/base.h"

#include <stdio.h>

BEGIN_C

enum style { STYLE_TEXT, STYLE_CSV, STYLE_JSON };

/*
 * What prints a table. Text is tab-separated, or padded for people, with a header line. CSV is quoted where needed.
 * JSON is an array of objects, with numbers as numbers.
 */
struct printer {
    FILE *f;
    enum style style;
    const char *const *column; /* NULL-terminated */
    const char *only;          /* "A,B,..": columns that are printed, in their own order; NULL: all */
    const char *notes;         /* whole lines that stand above the heading of CSV, NULL: none */
    int64_t rows;
    int32_t at;   /* next column of the current row */
    bool behind;  /* a column of the current row was printed */
    bool aligned; /* text only: columns padded to `width`, for people */
    const int32_t *width;
    bool open; /* the header was printed */
};
/* Are all names of a list "A,B,.." columns? False with *e naming the first that is none. */
bool table_knows(const char *const *column, const char *list, struct err *e);
/* Each call prints the next cell of the row; the last column ends it. */
void table_text(struct printer *t, const char *s);
void table_i64(struct printer *t, int64_t x);
/* %.*g in text, all digits elsewhere; NaN and infinities are null in JSON, whose numbers have none. */
void table_f64(struct printer *t, double x, int digits);
/* %.*g everywhere: what was measured has no more digits. */
void table_measured(struct printer *t, double x, int digits);
/* Bytes: MiB with two decimals in aligned text, else as they are. */
void table_bytes(struct printer *t, int64_t bytes);
/* No number: "-" in text, empty in CSV, null in JSON. */
void table_none(struct printer *t);
/* The number if it is `there`, else table_none. */
void table_i64_if(struct printer *t, bool there, int64_t x);
void table_f64_if(struct printer *t, bool there, double x, int digits);
/* NaN stands for none. */
void table_number(struct printer *t, double x, int digits);
void table_measured_if(struct printer *t, bool there, double x, int digits);
void table_bytes_if(struct printer *t, bool there, int64_t bytes);
/* After the last row; a table without rows gets its header here. */
void table_end(struct printer *t);

END_C

#endif
