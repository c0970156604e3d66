/*
 * shared.h - reference data that the project does not ship: files below ../shared, or $TREEATTN_SHARED.
 */
#ifndef TREEATTN_TESTS_SHARED_H
#define TREEATTN_TESTS_SHARED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Path of a file below the shared folder, or NULL after saying that the test skips. The caller frees. */
char *shared_path(const char *name);

/* A CSV file without quotes, whose header names its columns. */
enum { CSV_MAX = 32 };
struct csv {
    FILE *f;
    char *head, *line;
    size_t head_cap, line_cap;
    char *column[CSV_MAX], *field[CSV_MAX];
    int n_columns;
    int64_t row; /* from 1; the header is none */
};
/* False after saying that the test skips. */
bool csv_open(struct csv *c, const char *name);
bool csv_next(struct csv *c);
/* The field of that column in the current row; "" where there is no such column. */
const char *csv_text(const struct csv *c, const char *column);
/* The same as a number; `none` where there is nothing. */
int64_t csv_i64(const struct csv *c, const char *column, int64_t none);
void csv_close(struct csv *c);

#endif
