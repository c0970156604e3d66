/*
 * csv_read.h - tables that somebody measured: comma-separated, a header line, columns found by name.
 *
 * Fields may be quoted ("1,2,64"; "" is a quotation mark), a quoted field ends on its line. Lines that are
 * empty or begin with # say nothing. A row may be shorter than the header (a note between rows); asking such
 * a row for a cell is an error.
 */
#ifndef TREEATTN_VERIFY_IO_CSV_READ_H
#define TREEATTN_VERIFY_IO_CSV_READ_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHEET_MAX_BYTES = 1 << 28 };

struct sheet {
    char *name; /* of the file, for messages */
    int32_t n_columns;
    int64_t n_rows;
    char **column;  /* [n_columns], unquoted */
    char **cell;    /* rows one after the other; row i is cell[start[i]] .. cell[start[i + 1] - 1] */
    int64_t *start; /* [n_rows + 1] */
    int32_t *line;  /* [n_rows], from 1 */
    char *text;     /* owns the characters */
    int64_t cap_cell, cap_start, cap_line;
};

/* False with *e set ("name:line: ..."); free with sheet_clear. `text` is copied. */
bool sheet_parse(const char *text, size_t size, const char *name, struct sheet *out, struct err *e);
bool sheet_read(const char *path, struct sheet *out, struct err *e);
void sheet_clear(struct sheet *c);

/* "name:line: sentence", what is not printable ASCII made '?'; returns false. */
bool sheet_error(struct err *e, const char *name, int32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Number of a column, or -1. */
int32_t sheet_find(const struct sheet *c, const char *column);
/* The same; -1 with *e set if there is none. */
int32_t sheet_column(const struct sheet *c, const char *column, struct err *e);

/* The text of a cell, "" where the row ends before it. */
const char *sheet_peek(const struct sheet *c, int64_t row, int32_t column);
/* The same; NULL with *e set if the row is shorter than the header. */
const char *sheet_cell(const struct sheet *c, int64_t row, int32_t column, struct err *e);
/* A finite number. */
bool sheet_f64(const struct sheet *c, int64_t row, int32_t column, double *out, struct err *e);
bool sheet_i64(const struct sheet *c, int64_t row, int32_t column, int64_t lo, int64_t hi, int64_t *out,
               struct err *e);

#ifdef __cplusplus
}
#endif

#endif
