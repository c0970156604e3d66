/*
 * deft.c - the two JSON formats of DeFT's release, told apart by their outermost bracket.
 */
#include "traces/deft_items.h"
#include "traces/json.h"

struct trace *deft_open(const char *text, size_t size, const char *name, const char *source,
                        const struct trace_opts *o, struct err *e)
{
    json_t *doc = json_read(text, size, name, e);
    if (!doc)
        return NULL;
    struct trace *tr = json_is_array(doc) ? deft_reasoning(doc, name, source, o, e)
                                          : deft_speculative(doc, name, source, o, e);
    json_decref(doc);
    return tr;
}
