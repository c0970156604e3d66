/*
 * shared.h - what several suites need: reference data that the project does not ship, the program, places for files.
 */
#ifndef TREEATTN_TESTS_SHARED_H
#define TREEATTN_TESTS_SHARED_H

#include "ref/csv.h"
#include "sim/strategy.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- reference data: files below ../shared, or $TREEATTN_SHARED ----------------------------------------- */

/* Path of such a file, or NULL after saying that the test skips. The caller frees. */
char *shared_path(const char *name);

/* Such a CSV file, of which nothing is missing. False after saying that the test skips; else free with csv_clear. */
bool shared_csv(struct csv *c, const char *name);
/* A whole number, by its column's name; `none` where the cell is empty or there is no such column. */
int64_t csv_number(const struct csv *c, int64_t row, const char *column, int64_t none);

/* All of a README from `phrase` on, whose blanks may be line ends there; NULL where none has it. The caller frees. */
char *told_from(const char *phrase);

/* ---- the program: $TREEATTN_BIN, by default build/treeattn --------------------------------------------- */

/* False after saying that the test skips. */
bool program_built(void);
/* Absolute; it is there. */
const char *program_file(void);
/* `path` in quotes, for shells: `quoted`. */
const char *quote(const char *path, char quoted[4 * PATH_MAX + 3]);
/* program_file() in quotes. */
const char *program_path(void);
/* The same program with kernels that fail on purpose (tests/verify/faulty.h), in tests/ beside it; in quotes. */
const char *faulty_path(void);
/* A plug-in of tests/plugin, in tests/plugin/ beside the program; in quotes. */
const char *plugin_path(const char *name);
/* A shell command; the first size - 1 bytes that it prints in out. Returns its exit code, 128 on a crash. */
int run_shell(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- how much ------------------------------------------------------------------------------------------- */

/* Is $TREEATTN_QUICK set, as under sanitizers? */
bool in_a_hurry(void);
/* `few` then, else `all`. */
int64_t fewer(int64_t few, int64_t all);

/* ---- trees ---------------------------------------------------------------------------------------------- */

/* n nodes and nq queries of these arrays; nq = 0: a query at the end of every leaf. The caller frees. */
struct tree *tree_of(int32_t n, const int32_t *parent, const int64_t *len, int32_t nq,
                     const struct query *query);
void assert_same_tree(const struct tree *a, const struct tree *b);

/* ---- strategies and plans that must be good ------------------------------------------------------------- */

struct strategy_use strategy_of(const char *text);
/* The caller frees. */
struct plan *must_plan(const char *text, const struct nform *nf, const struct plan_env *env);
/* Heads of 128, f16, on an H200. */
struct plan_env env_h200(int32_t h_q, int32_t h_kv);

/* ---- a strategy that is wrong: flash-decoding with one run less than queries see ------------------------ */

extern const struct strategy forgetful;

/* ---- files --------------------------------------------------------------------------------------------- */

/* All of a file, which must be there and be no larger than 64 MB of text; the caller frees. */
char *file_text(const char *path);
void write_bytes(const char *path, const void *bytes, size_t size);

/* ---- what tests write; removed when the suite has ended, however that was --------------------------------- */

/* A new folder; the caller frees its path. */
char *scratch_folder(void);
/* A new file in a folder of its own; the caller frees its path. */
char *scratch_file(const void *bytes, size_t size);

#endif
