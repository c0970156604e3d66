/*
 * deft_items.h - the two kinds of document that deft.c tells apart; internal to traces/.
 */
#ifndef TREEATTN_TRACES_FORMATS_DEFT_ITEMS_H
#define TREEATTN_TRACES_FORMATS_DEFT_ITEMS_H

#include "traces/formats/deft.h"
#include "traces/formats/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The document is an array. */
struct trace *deft_reasoning(const struct json_doc *doc, const char *source, const struct trace_opts *o,
                             struct err *e);
/* The document is an object. */
struct trace *deft_speculative(const struct json_doc *doc, const char *source, const struct trace_opts *o,
                               struct err *e);

#ifdef __cplusplus
}
#endif

#endif
