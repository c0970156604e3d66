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

/* Five times the larger of the released traces. It bounds all sums of tokens too: with half of it block ids
 * and MOONCAKE_MAX_OUTPUT for each of BATCH_MAX requests, a tree stays far below TREE_MAX_TOKENS. */
enum { MOONCAKE_MAX_BYTES = 1 << 24, MOONCAKE_MAX_OUTPUT = 1 << 20 };

/* Text in memory (at most MOONCAKE_MAX_BYTES) to requests; NULL with *e set. Free with requests_free. */
struct requests *mooncake_read(const char *text, size_t size, const char *name, struct err *e);

/* The same format out, a request a line. False if writing fails. */
bool mooncake_write(FILE *f, const struct requests *r);

#ifdef __cplusplus
}
#endif

#endif
