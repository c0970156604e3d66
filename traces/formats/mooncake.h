/*
 * mooncake.h - Mooncake's request traces: JSON lines; internal to traces/.
 */
#ifndef TREEATTN_TRACES_FORMATS_MOONCAKE_H
#define TREEATTN_TRACES_FORMATS_MOONCAKE_H

#include "traces/steps.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Many times the larger of the released traces, and traces with blocks of 16 tokens. It bounds all sums of tokens too: with half
 * of it ids of the largest blocks and MOONCAKE_MAX_OUTPUT for each of TRACE_MAX_BATCH requests, a tree stays below
 * TREE_MAX_TOKENS. */
enum { MOONCAKE_MAX_BYTES = 1 << 27, MOONCAKE_MAX_OUTPUT = 1 << 20, MOONCAKE_MAX_BLOCK = 1 << 12 };

/* What a file does not say, and others that look like Mooncake's do otherwise. */
struct mooncake_form {
    int64_t block;                                          /* tokens that an id of hash_ids stands for */
    enum time_unit { WHOLE_MS, ANY_MS, SECONDS } timestamp; /* rounded to ms */
};

/* Text in memory (at most MOONCAKE_MAX_BYTES) to requests; NULL with *e set. `form` NULL: Mooncake's, blocks of REQUEST_BLOCK and
 * whole ms. Free with requests_free. */
struct requests *mooncake_read(const char *text, size_t size, const char *name,
                               const struct mooncake_form *form, struct err *e);

/* The same format out, a request a line. False if writing fails. */
bool mooncake_write(FILE *f, const struct requests *r);

#ifdef __cplusplus
}
#endif

#endif
