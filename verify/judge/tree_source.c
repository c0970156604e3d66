#include "verify/judge/tree_source.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a case string may ask for; the files' own limits are in tree.h. */
enum { CHAIN_MAX_DEPTH = 1 << 16, CHAIN_MAX_LEN = 1 << 20 };
enum { MAX_STEP = INT32_MAX, MAX_LEN = INT32_MAX };

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
    } number[] = {{"tree index", 0, INT32_MAX}, {"prompt", 0, MAX_LEN},        {"max-seq", 0, MAX_LEN},
                  {"step", 1, MAX_STEP},        {"batch", 0, TRACE_MAX_BATCH}, {"step-ms", 0, INT32_MAX}};
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

bool tree_source_parse(const char *text, struct tree_source *out, struct err *e)
{
    static const struct {
        const char *name;
        enum tree_source_kind kind;
    } kinds[] = {{"gen", SRC_GEN},     {"levels", SRC_LEVELS},  {"file", SRC_FILE},     {"trace", SRC_TRACE},
                 {"chain", SRC_CHAIN}, {"topology", SRC_TRACE}, {"batched", SRC_TRACE}, {"nodes", SRC_NODES}};
    *out = (struct tree_source){0};
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; colon && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, text, n) == 0)
            out->kind = kinds[i].kind;
    if (out->kind == SRC_NONE)
        return err_set(e, "tree source '%.60s' (expected gen:, levels:, file:, trace:, chain: or nodes:)",
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

char *tree_source_print(const struct tree_source *s)
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
    bool good = true;
    if (!queries || n_nodes < 1 || n_nodes > TREE_MAX_NODES || n_queries > TREE_MAX_QUERIES) {
        good = err_set(e, "tree nodes: '%.60s' (expected nodes:PARENT.LEN,..:NODE.UPTO,..)", text);
        goto done;
    }
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
done:
    free(copy);
    if (!good) {
        tree_free(t);
        return NULL;
    }
    return t;
}

static struct tree *load_trace(const struct tree_source *s, struct err *e)
{
    struct trace *tr = trace_open(s->text, &s->trace, e);
    if (!tr)
        return NULL;
    struct tree *t = NULL;
    if (s->step > trace_steps(tr))
        err_set(e, "%s: step %" PRId64 " (expected 1 to %" PRId64 ")", s->text, s->step, trace_steps(tr));
    else
        t = trace_tree(tr, s->step);
    trace_close(tr);
    return t;
}

struct tree *tree_source_load(const struct tree_source *s, struct err *e)
{
    struct tree *t = NULL;
    switch (s->kind) {
    case SRC_GEN:
        t = gen_tree(s->family, s->seed);
        break;
    case SRC_LEVELS:
        t = levels_parse(s->text, e);
        break;
    case SRC_FILE:
        t = tree_file_read(s->text, e);
        break;
    case SRC_TRACE:
        t = load_trace(s, e);
        break;
    case SRC_CHAIN:
        t = load_chain(s);
        break;
    case SRC_NODES:
        t = load_nodes(s->text, e);
        break;
    case SRC_NONE:
        err_set(e, "no tree given (expected --levels, --tree-file, --gen or --trace)");
        break;
    }
    if (t && !tree_check(t, e)) {
        tree_free(t);
        t = NULL;
    }
    return t;
}

/* ---- command line ------------------------------------------------------------------------------------- */

enum {
    KEY_LEVELS = 0x100,
    KEY_FILE,
    KEY_GEN,
    KEY_TRACE,
    KEY_TREE,
    KEY_PROMPT,
    KEY_MAX_SEQ,
    KEY_STEP,
    KEY_TOPOLOGY,
    KEY_BATCH,
    KEY_STEP_MS,
    KEY_SEED
};

static const struct argp_option options[] = {
    {.doc = "Where the tree comes from:", .group = 1},
    {"levels", KEY_LEVELS, "TEXT", 0, "nodes per level and tokens per node: \"1,4,16 1024,256,32\"", 1},
    {"tree-file", KEY_FILE, "FILE", 0, "a tree file, ours or FastTree's (see treeattn list formats)", 1},
    {"gen", KEY_GEN, "FAMILY[:SEED]", 0,
     "a seeded tree: bushy, deep, wide, caterpillar, forest, token, degenerate", 1},
    {"seed", KEY_SEED, "N", 0, "seed of whatever is drawn (default 1)", 1},
    {"trace", KEY_TRACE, "SPEC", 0,
     "a step of a trace: embedded:reasoning, deft:FILE ... (see treeattn list formats)", 1},
    {"tree", KEY_TREE, "K", 0, "which item of the trace (default 0); sim: or K-L, or all", 1},
    {"prompt", KEY_PROMPT, "P", 0, "tokens of the prompt (0, default: the trace's own)", 1},
    {"max-seq", KEY_MAX_SEQ, "S", 0, "sequence length at which the run ends (0, default: none)", 1},
    {"step", KEY_STEP, "T", 0, "decode step of the trace, from 1 (default 1; sim: all of them)", 1},
    {"topology", KEY_TOPOLOGY, NULL, 0, "speculative records: hang tokens as their tree says, not flat", 1},
    {"batch", KEY_BATCH, "B", 0, "requests: how many are decoded at a time", 1},
    {"step-ms", KEY_STEP_MS, "MS", 0,
     "requests: milliseconds a step takes (0, default: nobody waits for an arrival)", 1},
    {0},
};

static bool set_source(struct tree_source_cli *cli, enum tree_source_kind kind, const char *text)
{
    if (cli->src.kind != SRC_NONE && cli->src.kind != kind)
        return err_set(cli->err, "two trees given (expected one of --levels, --tree-file, --gen, --trace)");
    cli->src.kind = kind;
    free(cli->src.text);
    cli->src.text = text ? xstrdup(text) : NULL;
    return true;
}

static bool set_length(struct tree_source_cli *cli, const char *arg, const char *option, const char *zero,
                       int64_t *out)
{
    return text_i64(arg, option, 0, MAX_LEN, out, NULL) ||
           err_set(cli->err, "%s '%.60s' (expected a whole number from 0 to %d; 0: %s)", option, arg, MAX_LEN,
                   zero);
}

static bool set_gen(struct tree_source_cli *cli, const char *arg)
{
    if (!set_source(cli, SRC_GEN, NULL))
        return false;
    cli->family_only = strchr(arg, ':') == NULL;
    char *text = cli->family_only ? xasprintf("%s:1", arg) : xstrdup(arg);
    bool good = parse_gen(text, &cli->src, cli->err);
    free(text);
    return good;
}

/* "K", and where several trees are allowed "K-L" or "all". */
static bool set_trees(struct tree_source_cli *cli, const char *arg)
{
    int64_t first = 0, last = TREES_ALL;
    char *copy = xstrdup(arg), *rest = copy;
    bool all = cli->many && strcmp(arg, "all") == 0;
    bool good = all || text_i64(cli->many ? text_next(&rest, '-') : arg, "--tree", 0, INT32_MAX - 1, &first,
                                cli->err);
    if (good && !all) {
        last = first;
        good = !cli->many || !rest || text_i64(rest, "--tree", first, INT32_MAX - 1, &last, cli->err);
    }
    free(copy);
    cli->src.trace.tree_index = (int32_t)first;
    cli->tree_last = (int32_t)last;
    return good;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct tree_source_cli *cli = state->input;
    int64_t number;
    bool good = true;
    switch (key) {
    case KEY_LEVELS:
        good = set_source(cli, SRC_LEVELS, arg);
        break;
    case KEY_FILE:
        good = set_source(cli, SRC_FILE, arg);
        break;
    case KEY_GEN:
        good = set_gen(cli, arg);
        break;
    case KEY_TRACE:
        good = set_source(cli, SRC_TRACE, arg);
        break;
    case KEY_TREE:
        good = set_trees(cli, arg);
        break;
    case KEY_PROMPT:
        good = set_length(cli, arg, "--prompt", "the trace's own", &cli->src.trace.prompt);
        break;
    case KEY_MAX_SEQ:
        good = set_length(cli, arg, "--max-seq", "none", &cli->src.trace.max_seq);
        break;
    case KEY_STEP:
        good = text_i64(arg, "--step", 1, MAX_STEP, &cli->src.step, cli->err);
        break;
    case KEY_BATCH:
        good = text_i64(arg, "--batch", 1, TRACE_MAX_BATCH, &number, cli->err);
        if (good)
            cli->src.trace.batch = (int32_t)number;
        break;
    case KEY_STEP_MS:
        good = text_i64(arg, "--step-ms", 0, INT32_MAX, &cli->src.trace.step_ms, cli->err);
        break;
    case KEY_TOPOLOGY:
        cli->src.trace.topology = true;
        break;
    case KEY_SEED:
        cli->has_seed = true;
        good = text_u64(arg, "--seed", &cli->seed, cli->err);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

const struct argp tree_source_argp = {.options = options, .parser = parse_option};

bool tree_source_takes_steps(const struct tree_source_cli *cli, int64_t steps, struct err *e)
{
    if (steps > 0 && cli->src.kind != SRC_TRACE)
        return err_set(e, "--steps belongs to --trace (none was given)");
    return steps == 0 || cli->src.step == 0 || err_set(e, "--step and --steps (expected one of them)");
}

bool tree_source_finish(struct tree_source_cli *cli, bool need, struct err *e)
{
    struct tree_source *s = &cli->src;
    if (!cli->has_seed)
        cli->seed = 1;
    if (need && s->kind == SRC_NONE && cli->has_seed) {
        s->kind = SRC_GEN;
        s->family = (enum family)(cli->seed % N_FAMILIES);
        cli->family_only = true;
    }
    if (s->kind == SRC_GEN && cli->family_only)
        s->seed = cli->seed;
    if (s->kind == SRC_TRACE && s->step == 0 && !cli->many)
        s->step = 1;
    if (need && s->kind == SRC_NONE)
        return err_set(e, "no tree given (expected --levels, --tree-file, --gen, --seed or --trace)");
    const struct trace_opts *o = &s->trace;
    if (s->kind != SRC_TRACE && (s->step || o->prompt || o->max_seq || o->tree_index || cli->tree_last ||
                                 o->topology || o->batch || o->step_ms))
        return err_set(
            e, "--tree, --prompt, --max-seq, --step, --topology, --batch and --step-ms belong to --trace "
               "(none was given)");
    if (o->topology && (o->batch || o->step_ms))
        return err_set(
            e, "--topology is for speculative records, --batch and --step-ms for requests (expected one)");
    return true;
}
