/*
 * trace_open.c - spec strings to traces, and the list of all that can be read.
 */
#include "traces/formats/text.h"
#include "traces/trace_kind.h"

#include <string.h>

static const struct {
    const char *prefix;
    trace_opener *open;
} kinds[] = {
#define TRACE_KIND(word, argument, about) {#word ":", trace_open_##word},
#include "traces/trace_kinds.def"
#undef TRACE_KIND
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

const struct format_info formats[] = {
    {"levels", "--levels \"1,4,16 1024,256,32\"", "nodes per level and tokens per node of each level"},
    {"fasttree", "--tree-file FILE", "FastTree's file: node count, then `parent id length children` a line"},
    {"text", "--tree-file FILE",
     "ours: `tree NODES QUERIES`, a line `node ID PARENT LENGTH` per node, `query NODE UPTO` per query; # "
     "begins a comment"},
    {"mask", "--tree-file FILE",
     "`mask QUERIES TOKENS`, a line of digits per query: 1 where it sees the token; refused where it is no tree"},
    {"family", "--gen FAMILY[:SEED]", "a seeded random tree of one of the families"},
#define TRACE_KIND(word, argument, about) {#word, "--trace " #word ":" argument, about},
#include "traces/trace_kinds.def"
#undef TRACE_KIND
};
const int32_t n_formats = sizeof formats / sizeof formats[0];

/* Bounds on what no kind allows; what a kind asks for on top is its replay's business. */
static bool check_opts(const char *spec, const struct trace_opts *o, struct err *e)
{
    if (o->tree_index < 0)
        return err_set(e, "%s: tree index %d (expected 0 or more)", spec, o->tree_index);
    if (o->prompt < 0 || o->prompt > TREE_MAX_TOKENS || o->max_seq < 0 || o->max_seq > TREE_MAX_TOKENS)
        return err_set(e, "%s: prompt %lld and max_seq %lld (expected each from 0 to %lld)", spec,
                       (long long)o->prompt, (long long)o->max_seq, (long long)TREE_MAX_TOKENS);
    if (o->batch < 0 || o->batch > TRACE_MAX_BATCH || o->step_ms < 0 || o->step_ms > INT32_MAX)
        return err_set(e, "%s: batch %d and step_ms %lld (expected 1 to %d, and 0 to %d)", spec, o->batch,
                       (long long)o->step_ms, TRACE_MAX_BATCH, INT32_MAX);
    return true;
}

/* Options that only some kinds have. Known only now: a deft: file says inside what it is. */
static bool check_kind(const struct trace *tr, const char *spec, const struct trace_opts *o, struct err *e)
{
    if (o->topology && !tr->kind->has_topology)
        return err_set(e, "%s: no token tree to hang (expected a speculative trace)", spec);
    if ((o->batch > 0 || o->step_ms > 0) && !tr->kind->has_places)
        return err_set(e, "%s: batch or step_ms, and no requests (expected a request trace)", spec);
    return true;
}

static void no_such_kind(const char *spec, struct err *e)
{
    char quote[TEXT_QUOTE], prefixes[256] = "";
    for (int32_t i = 0; i < N_KINDS; i++)
        listing_add(prefixes, sizeof prefixes, kinds[i].prefix);
    err_set(e, "trace \"%s\": unknown kind (expected one of %s)",
            word_quote(quote, (struct word){spec, strlen(spec)}), prefixes);
}

struct trace *trace_open(const char *spec, const struct trace_opts *opts, struct err *e)
{
    if (!check_opts(spec, opts, e))
        return NULL;
    for (int32_t i = 0; i < N_KINDS; i++) {
        size_t n = strlen(kinds[i].prefix);
        if (strncmp(spec, kinds[i].prefix, n) != 0)
            continue;
        struct trace *tr = kinds[i].open(spec + n, spec, opts, e);
        if (tr && !check_kind(tr, spec, opts, e)) {
            trace_close(tr);
            return NULL;
        }
        return tr;
    }
    no_such_kind(spec, e);
    return NULL;
}
