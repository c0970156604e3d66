/*
 * timed_rows.h - rows that somebody timed: a tree, heads, a strategy, a kernel, and seconds.
 *
 * Two kinds of file, told apart by their columns; others are ignored:
 *   measured   tree, heads, d, dtype, strategy, time_us; perhaps verdict, kernel, device, as `treeattn bench
 *              gpu` has them
 *   peers      N, C, hq, hk, dtype, method, timing, status, cold_us: shared/peers; d = 128; methods
 *              as in timed_rows.c
 * Rows are counted and left out where the verdict is not PASS or MARGINAL, the status not `ok`, the timing
 * not `graph`, or where no strategy stands for the method. Rows of two devices are an error. So is a row that
 * is cut off, whatever its verdict: a file that was not written to its end must not be half used.
 */
#ifndef TREEATTN_VERIFY_MODEL_TIMED_ROWS_H
#define TREEATTN_VERIFY_MODEL_TIMED_ROWS_H

#include "verify/cases/case.h"
#include "ref/csv.h"

BEGIN_C

/* Strings numbered from 0 in the order they are first seen. */
struct names {
    char **name;
    int32_t n;
    int64_t cap;
    int32_t *slot; /* open addressing; number + 1 */
    int32_t n_slots;
};
int32_t names_add(struct names *s, const char *name);
void names_clear(struct names *s);

struct timed_row {
    struct tree_source tree;
    struct heads heads;
    struct strategy_use use[2]; /* the first that applies; use[1].s may be NULL */
    double seconds;
    int32_t config, kernel; /* numbers in `configs`, `kernels` */
    const char *file;       /* owned by `files` */
    int32_t line;
};

struct timed_rows {
    int64_t n, cap;
    struct timed_row *row;
    struct names configs, kernels, files, devices;
    int64_t left_out;
};

/* Append the rows of a file; zero-initialise *m first, and clear it whatever comes back. */
bool timed_rows_parse(const char *text, size_t size, const char *name, struct timed_rows *m, struct err *e);
bool timed_rows_read(const char *path, struct timed_rows *m, struct err *e);
void timed_rows_clear(struct timed_rows *m);

/* The normal form of a row's tree, which all rows of its configuration share. Free it with
 * nform_free_with_tree. NULL with *e set ("file:line: ..."). */
struct nform *timed_row_nform(const struct timed_row *r, struct err *e);
/* The plan of a row, made as bench-gpu made it; NULL with *e set ("file:line: ..."). */
struct plan *timed_row_plan(const struct timed_row *r, const struct nform *nf, struct err *e);

END_C

#endif
