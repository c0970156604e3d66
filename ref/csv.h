/*
 * csv.h - the one reader of comma-separated values: a heading, then rows, columns found by name.
 *
 * A field may be quoted ("1,2,64"; "" is a quotation mark). A quoted field ends on its line. Empty lines say nothing.
 * Lines that begin with # are notes. A marker of a conflict that nobody resolved is an error. A row may be shorter than the heading; asking such a row for a cell is an error.
 * Who wants no such row asks csv_whole as well.
 */
#ifndef TREEATTN_REF_CSV_H
#define TREEATTN_REF_CSV_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CSV_MAX_BYTES = 1 << 28 };

struct csv {
    char *name; /* of the file, for messages */
    int32_t n_columns;
    int64_t n_rows, n_notes;
    char **column;  /* [n_columns], unquoted */
    char **cell;    /* rows one after the other; row i is cell[start[i]] .. cell[start[i + 1] - 1] */
    int64_t *start; /* [n_rows + 1] */
    int32_t *line;  /* [n_rows], from 1 */
    char **note;    /* [n_notes], without # and the blanks behind it */
    char *text;     /* owns the characters */
    int64_t cap_cell, cap_start, cap_line, cap_note;
    int32_t empty_line; /* the first line that is empty; 0: none is */
    int32_t n_lines;    /* of the text */
    bool cut;           /* the last of them has no end */
};

/* Text that holds a heading and one row at least. It is copied. `name` appears in messages. False with *e set
 * ("name:line: what is wrong (what was expected)"). Free with csv_clear, which also takes what failed. */
bool csv_parse(const char *text, size_t size, const char *name, struct csv *out, struct err *e);
/* The same from a file of CSV_MAX_BYTES at most; its path is the name. */
bool csv_read(const char *path, struct csv *out, struct err *e);
void csv_clear(struct csv *c);

/* Nothing is missing: the last line has an end, every row has as many fields as the heading, no line is empty, and there
 * are as many rows as the note "rows: N" says, where there is one. */
bool csv_whole(const struct csv *c, struct err *e);

/* Verdicts of measured rows (gpu_verdict_name in verify/bench). */
#define CSV_VERDICTS "PASS, MARGINAL, FAIL, SKIP, INVALID"
/* Every cell of that column says one of these words, which ", " parts: else the row would be left out without a word. A heading
 * between rows, where files were joined, is passed over. True if there is no such column. */
bool csv_words(const struct csv *c, const char *column, const char *words, struct err *e);

/* "name:line: sentence", what is not printable ASCII made '?'; returns false. */
bool csv_error(struct err *e, const char *name, int32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Cut the next field off *rest, unquoted in place. *rest is NULL when no comma follows. NULL with *e set where quotes are
 * wrong; the sentence names no line. */
char *csv_field(char **rest, struct err *e);

/* Number of a column, or -1. */
int32_t csv_find(const struct csv *c, const char *column);
/* The same; -1 with *e set if there is none. */
int32_t csv_column(const struct csv *c, const char *column, struct err *e);
/* What stands behind "KEY: " in a note, or NULL. */
const char *csv_note(const struct csv *c, const char *key);

/* The text of a cell, "" where the row ends before it. */
const char *csv_peek(const struct csv *c, int64_t row, int32_t column);
/* The same of the column of that name, "" where there is none. */
const char *csv_text(const struct csv *c, int64_t row, const char *column);
/* The text of a cell; NULL with *e set if the row is shorter than the heading. */
const char *csv_cell(const struct csv *c, int64_t row, int32_t column, struct err *e);
/* A finite number. */
bool csv_f64(const struct csv *c, int64_t row, int32_t column, double *out, struct err *e);
/* A whole number in [lo, hi]. */
bool csv_i64(const struct csv *c, int64_t row, int32_t column, int64_t lo, int64_t hi, int64_t *out,
             struct err *e);

#ifdef __cplusplus
}
#endif

#endif
