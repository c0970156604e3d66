/*
 * medusa.h - Medusa's topologies: name -> list of paths, as JSON or as Python; internal to traces/.
 */
#ifndef TREEATTN_TRACES_FORMATS_MEDUSA_H
#define TREEATTN_TRACES_FORMATS_MEDUSA_H

#include "traces/steps.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MEDUSA_MAX_BYTES = 1 << 24 };

/*
 * Text in memory to a trace of one step. Its tree has a prefix of o->prompt tokens, the last accepted token
 * below it, and every candidate below the one it continues. Every token but the prefix's has a query. `pick`
 * names the topology, and no other is looked at; empty: the o->tree_index-th of the file, of which all are checked. The
 * file knows no accepted lengths, so max_seq has nothing to cut, and the prompt's length has to be given.
 */
struct trace *medusa_open(const char *text, size_t size, const char *name, const char *pick,
                          const char *source, const struct trace_opts *o, struct err *e);

/* n topologies in that format; false if writing fails. Names are ASCII. */
bool medusa_write(FILE *f, const char *const *name, const struct speculative *const *tree, int32_t n);

#ifdef __cplusplus
}
#endif

#endif
