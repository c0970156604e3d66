/*
 * table.h - tables whose rows are printed as they come: text for eyes, CSV, JSON.
 */
#ifndef TREEATTN_VERIFY_IO_TABLE_H
#define TREEATTN_VERIFY_IO_TABLE_H

#include "ref/base.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum style { STYLE_TEXT, STYLE_CSV, STYLE_JSON };

/*
 * A table whose rows are printed as they come. Text: tab-separated, a header line first; CSV: quoted where
 * needed; JSON: an array of objects, numbers as numbers.
 */
struct printer {
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
void table_text(struct printer *t, const char *s);
void table_i64(struct printer *t, int64_t x);
/* %.*g in text, all digits elsewhere; NaN and infinities are null in JSON, whose numbers have none. */
void table_f64(struct printer *t, double x, int digits);
/* %.*g everywhere: what was measured has no more digits. */
void table_measured(struct printer *t, double x, int digits);
/* Bytes: MiB with two decimals in aligned text, else as they are. */
void table_bytes(struct printer *t, int64_t bytes);
/* A number that there is not: "-" in text, empty in CSV, null in JSON. */
void table_none(struct printer *t);
/* The number, or that. */
void table_i64_if(struct printer *t, bool there, int64_t x);
void table_f64_if(struct printer *t, bool there, double x, int digits);
void table_measured_if(struct printer *t, bool there, double x, int digits);
void table_bytes_if(struct printer *t, bool there, int64_t bytes);
void table_end(struct printer *t);

#ifdef __cplusplus
}
#endif

#endif
