/*
 * deft_items.h - the two kinds of document that deft.c tells apart; internal to traces/.
 */
#ifndef TREEATTN_TRACES_DEFT_ITEMS_H
#define TREEATTN_TRACES_DEFT_ITEMS_H

#include "traces/deft.h"

#include <jansson.h>

/* doc is an array. */
struct trace *deft_reasoning(json_t *doc, const char *name, const char *source, const struct trace_opts *o,
                             struct err *e);
/* doc is an object. */
struct trace *deft_speculative(json_t *doc, const char *name, const char *source, const struct trace_opts *o,
                               struct err *e);

#endif
