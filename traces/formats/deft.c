/*
 * deft.c - the two JSON formats of DeFT's release, told apart by their outermost bracket.
 */
#include "traces/formats/deft_items.h"

#include <stdlib.h>

struct trace *deft_open(const char *text, size_t size, const char *name, const char *source,
                        const struct trace_opts *o, struct err *e)
{
    struct json_doc doc;
    if (!json_doc_read(&doc, text, size, name, 1, e))
        return NULL;
    struct trace *tr =
        json_is_array(doc.root) ? deft_reasoning(&doc, source, o, e) : deft_speculative(&doc, source, o, e);
    json_doc_clear(&doc);
    return tr;
}

struct trace *trace_open_deft(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    size_t size;
    char *text = trace_slurp(arg, DEFT_MAX_BYTES, &size, e);
    if (!text)
        return NULL;
    struct trace *tr = deft_open(text, size, arg, spec, o, e);
    free(text);
    return tr;
}
