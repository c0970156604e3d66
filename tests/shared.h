/*
 * shared.h - what several suites need: reference data that the project does not ship, the program, places for files.
 */
#ifndef TREEATTN_TESTS_SHARED_H
#define TREEATTN_TESTS_SHARED_H

#include "sim/strategy.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- reference data: files below ../shared, or $TREEATTN_SHARED ----------------------------------------- */

/* Path of such a file, or NULL after saying that the test skips. The caller frees. */
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

/* ---- the program: $TREEATTN_BIN, by default build/treeattn --------------------------------------------- */

/* False after saying that the test skips. */
bool program_built(void);
/* Absolute, for shells that change their folder; it is there. */
const char *program_path(void);
/* The same program with kernels that fail on purpose (tests/verify/faulty.h), in tests/ beside it. */
const char *faulty_path(void);
/* A shell command; the first size - 1 bytes that it prints in out. Returns its exit code, 128 on a crash. */
int run_shell(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- a strategy that is wrong: flash-decoding with one run less than queries see ------------------------ */

extern const struct strategy forgetful;

/* ---- what tests write; removed when the suite has ended, however that was --------------------------------- */

/* A new folder; the caller frees its path. */
char *scratch_folder(void);
/* A new file in a folder of its own; the caller frees its path. */
char *scratch_file(const void *bytes, size_t size);

#endif
