#include "verify/cases/tree_source.h"
#include "ref/tails.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a case string may ask for; the files' own limits are in tree.h. */
enum { CHAIN_MAX_DEPTH = 1 << 16, CHAIN_MAX_LEN = 1 << 20 };

void tree_source_clear(struct tree_source *s)
{
    free(s->text);
    *s = (struct tree_source){0};
}

struct tree_source tree_source_copy(const struct tree_source *s)
{
    struct tree_source copy = *s;
    copy.text = s->text ? xstrdup(s->text) : NULL;
    return copy;
}

struct tree_source tree_source_from_tree(const struct tree *t)
{
    size_t each = sizeof "-2147483648.-9223372036854775808,";
    size_t size = ((size_t)t->n_nodes + (size_t)t->n_queries) * each + 2;
    char *text = xmalloc(size), *to = text;
    for (int32_t i = 0; i < t->n_nodes; i++)
        to += sprintf(to, "%s%" PRId32 ".%" PRId64, i ? "," : "", t->parent[i], t->len[i]);
    *to++ = ':';
    *to = 0;
    for (int32_t q = 0; q < t->n_queries; q++)
        to += sprintf(to, "%s%" PRId32 ".%" PRId64, q ? "," : "", t->query[q].node, t->query[q].upto);
    CK((size_t)(to - text) < size);
    return (struct tree_source){.kind = SRC_NODES, .text = xrealloc(text, (size_t)(to - text) + 1, 1)};
}

/* ---- parsing ------------------------------------------------------------------------------------------ */

static bool parse_gen(char *rest, struct tree_source *out, struct err *e)
{
    char *name = text_next(&rest, ':');
    if (!family_parse(name, &out->family)) {
        char list[256] = "";
        for (int i = 0; i < N_FAMILIES; i++)
            listing_add(list, sizeof list, family_name[i]);
        return err_set(e, "tree family '%.60s' (expected one of %s)", name, list);
    }
    if (!rest)
        return err_set(e, "gen:%s has no seed (expected gen:FAMILY:SEED)", name);
    return text_u64(rest, "seed", &out->seed, e);
}

/* K:P:S:STEP:SPEC, or K:P:S:STEP:B:MS:SPEC if `batched`; the spec itself may hold colons. */
static bool parse_trace(char *rest, bool batched, struct tree_source *out, struct err *e)
{
    static const struct {
        const char *what;
        int64_t lo, hi;
    } number[] = {{"tree index", 0, INT32_MAX},        {"prompt", 0, TREE_SOURCE_MAX_LEN},
                  {"max-seq", 0, TREE_SOURCE_MAX_LEN}, {"step", 1, TREE_SOURCE_MAX_STEP},
                  {"batch", 0, TRACE_MAX_BATCH},       {"step-ms", 0, INT32_MAX}};
    int64_t x[6] = {0};
    for (int i = 0; i < (batched ? 6 : 4); i++) {
        const char *field = text_next(&rest, ':');
        if (!rest)
            return err_set(e, "trace source is cut short (expected %s:K:P:S:STEP:%sSPEC)",
                           batched ? "batched" : "trace", batched ? "B:MS:" : "");
        if (!text_i64(field, number[i].what, number[i].lo, number[i].hi, &x[i], e))
            return false;
    }
    out->trace.tree_index = (int32_t)x[0];
    out->trace.prompt = x[1];
    out->trace.max_seq = x[2];
    out->step = x[3];
    out->trace.batch = (int32_t)x[4];
    out->trace.step_ms = x[5];
    out->text = xstrdup(rest);
    return true;
}

static bool parse_chain(char *rest, struct tree_source *out, struct err *e)
{
    const char *depth = text_next(&rest, ':');
    if (!rest)
        return err_set(e, "chain has no length (expected chain:DEPTH:LEN)");
    return text_i64(depth, "chain depth", 1, CHAIN_MAX_DEPTH, &out->chain_depth, e) &&
           text_i64(rest, "chain length", 0, CHAIN_MAX_LEN, &out->chain_len, e);
}

/* q_len:N: before a source moves *text behind it. */
static bool parse_q_len(const char **text, int64_t *q_len, struct err *e)
{
    const char *number = *text + strlen("q_len:"), *colon;
    *q_len = 0;
    if (strncmp(*text, "q_len:", strlen("q_len:")) != 0)
        return true;
    colon = strchr(number, ':');
    if (!colon)
        return err_set(e, "q_len: no tree behind it (expected q_len:N:SOURCE)");
    char *first = xasprintf("%.*s", (int)min_i64(colon - number, 60), number);
    bool good = text_i64(first, "q_len", 1, TREE_SOURCE_MAX_Q_LEN, q_len, e);
    free(first);
    *text = colon + 1;
    return good;
}

bool tree_source_parse(const char *text, struct tree_source *out, struct err *e)
{
    int64_t q_len;
    static const struct {
        const char *name;
        enum tree_source_kind kind;
    } kinds[] = {{"gen", SRC_GEN},     {"levels", SRC_LEVELS},  {"file", SRC_FILE},     {"trace", SRC_TRACE},
                 {"chain", SRC_CHAIN}, {"topology", SRC_TRACE}, {"batched", SRC_TRACE}, {"nodes", SRC_NODES}};
    *out = (struct tree_source){0};
    if (!parse_q_len(&text, &q_len, e))
        return false;
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; colon && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, text, n) == 0)
            out->kind = kinds[i].kind;
    if (out->kind == SRC_NONE)
        return err_set(e, "tree source '%.60s' (expected gen:, levels:, file:, trace:, chain: or nodes:, or q_len:N: "
                          "and one of these)",
                       text);
    char *rest = xstrdup(colon + 1);
    bool good = true;
    if (out->kind == SRC_GEN)
        good = parse_gen(rest, out, e);
    else if (out->kind == SRC_TRACE)
        good = parse_trace(rest, strncmp(text, "batched:", 8) == 0, out, e);
    else if (out->kind == SRC_CHAIN)
        good = parse_chain(rest, out, e);
    else
        out->text = xstrdup(rest);
    out->trace.topology = strncmp(text, "topology:", 9) == 0;
    out->q_len = (int32_t)q_len;
    free(rest);
    if (!good)
        tree_source_clear(out);
    return good;
}

/* The shortest of the three forms that says it all. */
static char *print_trace(const struct tree_source *s)
{
    const struct trace_opts *o = &s->trace;
    char *extra =
        o->batch || o->step_ms ? xasprintf("%" PRId32 ":%" PRId64 ":", o->batch, o->step_ms) : xstrdup("");
    char *text = xasprintf("%s:%" PRId32 ":%" PRId64 ":%" PRId64 ":%" PRId64 ":%s%s",
                           extra[0]      ? "batched"
                           : o->topology ? "topology"
                                         : "trace",
                           o->tree_index, o->prompt, o->max_seq, s->step, extra, s->text);
    free(extra);
    return text;
}

static char *print_kind(const struct tree_source *s)
{
    switch (s->kind) {
    case SRC_GEN:
        return xasprintf("gen:%s:%" PRIu64, family_name[s->family], s->seed);
    case SRC_LEVELS: {
        char *text = xasprintf("levels:%s", s->text);
        for (char *c = text; *c; c++)
            if (*c == ' ' || *c == ';')
                *c = '_';
        return text;
    }
    case SRC_FILE:
        return xasprintf("file:%s", s->text);
    case SRC_TRACE:
        return print_trace(s);
    case SRC_CHAIN:
        return xasprintf("chain:%" PRId64 ":%" PRId64, s->chain_depth, s->chain_len);
    case SRC_NODES:
        return xasprintf("nodes:%s", s->text);
    case SRC_NONE:
        break;
    }
    return xstrdup("none");
}

char *tree_source_print(const struct tree_source *s)
{
    char *kind = print_kind(s);
    if (s->q_len == 0)
        return kind;
    char *text = xasprintf("q_len:%" PRId32 ":%s", s->q_len, kind);
    free(kind);
    return text;
}

/* ---- loading ------------------------------------------------------------------------------------------ */

static struct tree *load_chain(const struct tree_source *s)
{
    int32_t n = (int32_t)s->chain_depth;
    struct tree *t = tree_new(n, n);
    for (int32_t i = 0; i < n; i++) {
        t->parent[i] = i - 1;
        t->len[i] = s->chain_len;
        t->query[i] = (struct query){.node = i, .upto = s->chain_len};
    }
    return t;
}

static int64_t count_items(const char *s)
{
    int64_t n = *s != 0;
    for (; *s; s++)
        n += *s == ',';
    return n;
}

/* "A.B" from the front of a comma-separated list, which it shortens. */
static bool next_pair(char **list, int64_t a_min, int64_t *a, int64_t *b, struct err *e)
{
    char *item = text_next(list, ','), *rest = item;
    const char *first = text_next(&rest, '.');
    if (!rest)
        return err_set(e, "tree nodes: '%.60s' (expected NUMBER.NUMBER)", item);
    return text_i64(first, "tree nodes: number", a_min, INT32_MAX, a, e) &&
           text_i64(rest, "tree nodes: number", 0, TREE_MAX_TOKENS, b, e);
}

static struct tree *load_nodes(const char *text, struct err *e)
{
    char *copy = xstrdup(text), *queries = copy;
    char *nodes = text_next(&queries, ':');
    struct tree *t = NULL;
    int64_t n_nodes = count_items(nodes), n_queries = queries ? count_items(queries) : 0;
    bool good = (queries && n_nodes >= 1 && n_nodes <= TREE_MAX_NODES && n_queries <= TREE_MAX_QUERIES) ||
                err_set(e, "tree nodes: '%.60s' (expected nodes:PARENT.LEN,..:NODE.UPTO,..)", text);
    if (good)
        t = tree_new((int32_t)n_nodes, (int32_t)n_queries);
    int64_t a, b;
    for (int64_t i = 0; i < n_nodes && good; i++)
        if ((good = next_pair(&nodes, -1, &a, &b, e))) {
            t->parent[i] = (int32_t)a;
            t->len[i] = b;
        }
    for (int64_t i = 0; i < n_queries && good; i++)
        if ((good = next_pair(&queries, 0, &a, &b, e)))
            t->query[i] = (struct query){.node = (int32_t)a, .upto = b};
    free(copy);
    if (good)
        return t;
    tree_free(t);
    return NULL;
}

struct trace *trace_open_at(const char *spec, const struct trace_opts *opts, int64_t step, struct err *e)
{
    struct trace *tr = trace_open(spec, opts, e);
    if (!tr || step <= trace_steps(tr))
        return tr;
    err_set(e, "%s: step %" PRId64 " (expected 1 to %" PRId64 ")", spec, step, trace_steps(tr));
    trace_close(tr);
    return NULL;
}

static struct tree *load_trace(const struct tree_source *s, struct err *e)
{
    struct trace *tr = trace_open_at(s->text, &s->trace, s->step, e);
    struct tree *t = tr ? trace_tree(tr, s->step) : NULL;
    trace_close(tr);
    return t;
}

static struct tree *load(const struct tree_source *s, struct err *e)
{
    switch (s->kind) {
    case SRC_GEN:
        return gen_tree(s->family, s->seed);
    case SRC_LEVELS:
        return levels_parse(s->text, e);
    case SRC_FILE:
        return tree_file_read(s->text, e);
    case SRC_TRACE:
        return load_trace(s, e);
    case SRC_CHAIN:
        return load_chain(s);
    case SRC_NODES:
        return load_nodes(s->text, e);
    case SRC_NONE:
        break;
    }
    err_set(e, "no tree given (expected --levels, --tree-file, --gen or --trace)");
    return NULL;
}

struct tree *tree_source_load(const struct tree_source *s, struct err *e)
{
    struct tree *t = load(s, e);
    if (!t || (tree_check(t, e) && (s->q_len == 0 || tree_set_tails(t, s->q_len, e))))
        return t;
    tree_free(t);
    return NULL;
}

bool trace_items_open(const char *spec, const struct trace_opts *opts, int64_t last, bool if_there,
                      struct trace ***out, int32_t *n, struct err *e)
{
    struct trace_opts o = *opts;
    int64_t first = o.tree_index, cap = 0;
    *out = NULL;
    *n = 0;
    last = max_i64(first, last);
    for (int64_t k = first; k <= last; k++) {
        o.tree_index = (int32_t)k;
        struct trace *tr = trace_open(spec, &o, e);
        if (!tr)
            return false;
        *out = xgrow(*out, &cap, *n + 1, sizeof **out);
        (*out)[(*n)++] = tr;
        int64_t items = trace_items(tr);
        if (last > first && items == 0)
            return err_set(
                e, "%s: several trees, and these are requests (expected --tree K, the first of them)", spec);
        last = last == TREES_ALL ? items - 1 : last;
        last = if_there && items == 1 ? k : last;
    }
    return true;
}
