/*
 * deft.h - the two JSON formats of DeFT's release: reasoning templates and speculative records; internal to
 * traces/.
 */
#ifndef TREEATTN_TRACES_FORMATS_DEFT_H
#define TREEATTN_TRACES_FORMATS_DEFT_H

#include "traces/steps.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest file that is read, 15 times the largest of the release. A parsed document may take a hundred times
 * as much memory as its text, so this bounds that too. */
enum { DEFT_MAX_BYTES = 1 << 24 };

/* Text in memory to a trace: an array holds reasoning templates, an object holds speculative records. `name`
 * appears in messages, `source` in the title. */
struct trace *deft_open(const char *text, size_t size, const char *name, const char *source,
                        const struct trace_opts *o, struct err *e);

/* The same formats out, one node or record a line. The speculative file also states the tokens of the prompt,
 * which the release leaves to a tokenizer. False if writing fails. */
bool deft_write_reasoning(FILE *f, const struct reasoning *const *item, int32_t n_items, const char *prompt);
bool deft_write_speculative(FILE *f, const struct speculative *s, const char *prompt);

#ifdef __cplusplus
}
#endif

#endif
