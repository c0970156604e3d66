/*
 * trace.c - spec strings to traces, and what all traces have in common.
 */
#include "traces/trace.h"

#include "ref/file.h"
#include "traces/formats/deft.h"
#include "traces/embedded.h"
#include "traces/formats/formats.h"
#include "traces/generate/gen_trace.h"
#include "traces/formats/medusa.h"
#include "traces/formats/mooncake.h"
#include "traces/steps.h"
#include "traces/formats/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ---------------------------------------------------------------------------------------------- */

char *trace_folder(void)
{
    const char *shared = getenv("TREEATTN_SHARED");
    return xasprintf("%s/traces", shared && *shared ? shared : "../shared");
}

static char *slurp(const char *file, size_t max_bytes, size_t *size, struct err *e)
{
    if (!*file || strchr(file, '/') || access(file, F_OK) == 0)
        return file_slurp(file, max_bytes, size, e);
    char *folder = trace_folder(), *path = xasprintf("%s/%s", folder, file), *text = NULL;
    if (access(path, F_OK) == 0)
        text = file_slurp(path, max_bytes, size, e);
    else
        err_set(e, "%s: cannot be opened: neither here nor in %s", file, folder);
    free(folder);
    free(path);
    return text;
}

/* ---- one opener per kind; `arg` is what follows the colon ---------------------------------------------- */

static struct trace *open_deft(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    size_t size;
    char *text = slurp(arg, DEFT_MAX_BYTES, &size, e);
    if (!text)
        return NULL;
    struct trace *tr = deft_open(text, size, arg, spec, o, e);
    free(text);
    return tr;
}

static struct trace *open_mooncake(const char *arg, const char *spec, const struct trace_opts *o,
                                   struct err *e)
{
    size_t size;
    char *text = slurp(arg, MOONCAKE_MAX_BYTES, &size, e);
    if (!text)
        return NULL;
    struct requests *r = mooncake_read(text, size, arg, e);
    free(text);
    return r ? replay_requests(r, spec, o, e) : NULL;
}

/* FILE,NAME at its last comma; *name is "" if there is none. The caller frees the file's name. */
static char *split_name(const char *arg, const char **name)
{
    char *file = xstrdup(arg), *comma = strrchr(file, ',');
    *name = comma ? arg + (comma + 1 - file) : "";
    if (comma)
        *comma = '\0';
    return file;
}

static struct trace *open_medusa(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    const char *pick;
    char *file = split_name(arg, &pick);
    size_t size;
    char *text = slurp(file, MEDUSA_MAX_BYTES, &size, e);
    struct trace *tr = text ? medusa_open(text, size, file, pick, spec, o, e) : NULL;
    free(text);
    free(file);
    return tr;
}

static void no_such_embedded(const char *spec, struct err *e)
{
    char names[sizeof e->msg] = "";
    for (int32_t i = 0; trace_embedded[i]; i++)
        listing_add(names, sizeof names, trace_embedded[i]);
    err_set(e, "%s: no such trace in the program (expected one of: %s)", spec, names);
}

static struct trace *open_embedded(const char *arg, const char *spec, const struct trace_opts *o,
                                   struct err *e)
{
    /* Parsed like a file, so that a newcomer's first run goes through the code that reads real traces. */
    const char *pick;
    char *name = split_name(arg, &pick);
    const struct embedded *em = embedded_find(name);
    free(name);
    if (!em || (pick[0] && em->kind != EMBEDDED_MEDUSA)) {
        no_such_embedded(spec, e);
        return NULL;
    }
    size_t size = (size_t)(em->end - em->begin);
    if (em->kind == EMBEDDED_DEFT)
        return deft_open(em->begin, size, em->file, spec, o, e);
    if (em->kind == EMBEDDED_MEDUSA)
        return medusa_open(em->begin, size, em->file, pick, spec, o, e);
    struct requests *r = mooncake_read(em->begin, size, em->file, e);
    return r ? replay_requests(r, spec, o, e) : NULL;
}

/* For sources that hold one tree. */
static bool only_tree(const char *spec, const struct trace_opts *o, struct err *e)
{
    return o->tree_index == 0 || err_set(e, "%s: no tree %d (expected 0, there is one)", spec, o->tree_index);
}

static struct trace *open_fewshot(const char *arg, const char *spec, const struct trace_opts *o,
                                  struct err *e)
{
    int64_t width;
    if (!word_int((struct word){arg, strlen(arg)}, 1, TREE_MAX_QUERIES - 1, &width)) {
        err_set(e, "%s: not a width (expected fewshot:W with W from 1 to %d)", spec, TREE_MAX_QUERIES - 1);
        return NULL;
    }
    return only_tree(spec, o, e) ? replay_fewshot((int32_t)width, spec, o, e) : NULL;
}

static struct trace *open_reasoning(const char *arg, const char *spec, const struct trace_opts *o,
                                    struct err *e)
{
    int64_t seed;
    if (!word_int((struct word){arg, strlen(arg)}, 0, INT64_MAX, &seed)) {
        err_set(e, "%s: not a seed (expected reasoning:SEED, an integer from 0)", spec);
        return NULL;
    }
    return only_tree(spec, o, e) ? replay_reasoning(reasoning_gen((uint64_t)seed), spec, NULL, o, e) : NULL;
}

/* N,SEED with N from 1 to `most`. */
static bool parse_count_seed(const char *arg, int64_t most, int64_t *n, int64_t *seed)
{
    const char *comma = strchr(arg, ',');
    return comma && word_int((struct word){arg, (size_t)(comma - arg)}, 1, most, n) &&
           word_int((struct word){comma + 1, strlen(comma + 1)}, 0, INT64_MAX, seed);
}

static struct trace *open_spec(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    enum { MAX_TOKENS = 1 << 16 };
    int64_t n_tokens, seed;
    if (!parse_count_seed(arg, MAX_TOKENS, &n_tokens, &seed)) {
        err_set(e, "%s: not a token count and a seed (expected spec:T,SEED with T from 1 to %d)", spec,
                MAX_TOKENS);
        return NULL;
    }
    if (!only_tree(spec, o, e))
        return NULL;
    return replay_speculative(speculative_gen((int32_t)n_tokens, (uint64_t)seed), spec, o, e);
}

static struct trace *open_requests(const char *arg, const char *spec, const struct trace_opts *o,
                                   struct err *e)
{
    enum { MAX_REQUESTS = 1 << 20 };
    int64_t n, seed;
    if (!parse_count_seed(arg, MAX_REQUESTS, &n, &seed)) {
        err_set(e, "%s: not a count and a seed (expected requests:N,SEED with N from 1 to %d)", spec,
                MAX_REQUESTS);
        return NULL;
    }
    return replay_requests(requests_gen((int32_t)n, (uint64_t)seed), spec, o, e);
}

static struct trace *open_conversation(const char *arg, const char *spec, const struct trace_opts *o,
                                       struct err *e)
{
    enum { MAX_REQUESTS = 1 << 17 };
    int64_t n, seed;
    if (!parse_count_seed(arg, MAX_REQUESTS, &n, &seed)) {
        err_set(e, "%s: not a count and a seed (expected conversation:N,SEED with N from 1 to %d)", spec,
                MAX_REQUESTS);
        return NULL;
    }
    return replay_requests(conversation_gen((int32_t)n, (uint64_t)seed), spec, o, e);
}

static struct trace *open_fasttree(const char *arg, const char *spec, const struct trace_opts *o,
                                   struct err *e)
{
    const char *comma = strchr(arg, ',');
    int64_t seed;
    for (int32_t k = 0; comma && k < N_SERVING_BATCHES; k++) {
        const char *name = serving_batch_name(k);
        size_t n = strlen(name);
        if (n == (size_t)(comma - arg) && strncmp(arg, name, n) == 0 &&
            word_int((struct word){comma + 1, strlen(comma + 1)}, 0, INT64_MAX, &seed))
            return replay_requests(serving_batch_gen(k, (uint64_t)seed), spec, o, e);
    }
    err_set(e,
            "%s: not a benchmark and a seed (expected fasttree:WHICH,SEED with prompt, shots, chains or "
            "documents)",
            spec);
    return NULL;
}

static const struct kind {
    const char *prefix;
    struct trace *(*open)(const char *arg, const char *spec, const struct trace_opts *o, struct err *e);
} kinds[] = {
    {"deft:", open_deft},         {"medusa:", open_medusa},
    {"mooncake:", open_mooncake}, {"fewshot:", open_fewshot},
    {"embedded:", open_embedded}, {"reasoning:", open_reasoning},
    {"spec:", open_spec},         {"requests:", open_requests},
    {"fasttree:", open_fasttree}, {"conversation:", open_conversation},
};

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
    if (o->topology && !tr->speculative)
        return err_set(e, "%s: no token tree to hang (expected a speculative trace)", spec);
    if ((o->batch > 0 || o->step_ms > 0) && !tr->batching)
        return err_set(e, "%s: batch or step_ms, and no requests (expected a request trace)", spec);
    return true;
}

struct trace *trace_open(const char *spec, const struct trace_opts *opts, struct err *e)
{
    if (!check_opts(spec, opts, e))
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
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
    char quote[TEXT_QUOTE];
    err_set(
        e,
        "trace \"%s\": unknown kind (expected deft:, medusa:, mooncake:, fewshot:, embedded:, reasoning:, "
        "spec:, requests:, fasttree: or conversation:)",
        word_quote(quote, (struct word){spec, strlen(spec)}));
    return NULL;
}

void trace_close(struct trace *tr)
{
    if (tr) {
        free(tr->title);
        free(tr->remark);
        reasoning_free(tr->reasoning);
        free(tr->end_below);
        speculative_free(tr->speculative);
        free(tr->root_len);
        batching_free(tr->batching);
    }
    free(tr);
}

void trace_set_title(struct trace *tr, const char *kind, const char *source, const struct trace_opts *o)
{
    char *cap = o->max_seq > 0 ? xasprintf("S = %lld", (long long)o->max_seq) : xstrdup("no length cap");
    tr->title = xasprintf("%s, %s, tree %d, P = %lld, %s, %lld steps", kind, source, o->tree_index,
                          (long long)tr->prompt, cap, (long long)tr->n_steps);
    free(cap);
}

const char *trace_title(const struct trace *tr)
{
    return tr->title;
}

int64_t trace_prompt(const struct trace *tr)
{
    return tr->prompt;
}

int64_t trace_items(const struct trace *tr)
{
    return tr->batching ? 0 : max_i64(tr->n_items, 1);
}

const char *trace_remark(const struct trace *tr)
{
    return tr->remark;
}

int64_t trace_steps(const struct trace *tr)
{
    return tr->n_steps;
}

int64_t trace_spread(int64_t k, int64_t n, int64_t last)
{
    return n > 1 ? 1 + k * (last - 1) / (n - 1) : last;
}

int64_t trace_generated(const struct trace *tr)
{
    return tr->generated;
}

int64_t trace_path_tokens(const struct trace *tr, int64_t t)
{
    CK(t >= 1 && t <= tr->n_steps);
    return tr->speculative ? tr->root_len[t - 1] - tr->prompt + 1 : t;
}

struct tree *trace_tree(const struct trace *tr, int64_t t)
{
    return trace_step(tr, t, NULL);
}

struct tree *trace_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    CK(t >= 1 && t <= tr->n_steps);
    return tr->step(tr, t, parts);
}

void trace_parts_free(struct trace_parts *parts)
{
    free(parts->piece0);
    free(parts->piece);
    free(parts->query);
    free(parts->accept);
    *parts = (struct trace_parts){0};
}

void parts_start(struct trace_parts *parts, const struct tree *tree)
{
    *parts = (struct trace_parts){
        .piece0 = xmalloc(((size_t)tree->n_nodes + 1) * sizeof *parts->piece0),
        .piece = xmalloc((size_t)tree->n_nodes * sizeof *parts->piece),
        .query = xmalloc((size_t)tree->n_queries * sizeof *parts->query),
    };
    for (int32_t i = 0; i <= tree->n_nodes; i++)
        parts->piece0[i] = i;
    for (int32_t i = 0; i < tree->n_nodes; i++)
        parts->piece[i].tokens = tree->len[i];
}

struct trace_count trace_count_tree(const struct tree *t)
{
    enum { QUERY_BLOCK = 32 }; /* DeFT reads a node once per 32 of its queries */
    struct trace_count c = {.queries = t->n_queries, .nodes = t->n_nodes};
    int32_t *below = xcalloc((size_t)t->n_nodes, sizeof *below);
    int64_t *ends = xcalloc((size_t)t->n_nodes, sizeof *ends); /* tokens from the root to the node's end */
    /* Down the tree for contexts, up the tree for queries below. */
    for (int32_t i = 0; i < t->n_nodes; i++)
        ends[i] = t->len[i] + (t->parent[i] >= 0 ? ends[t->parent[i]] : 0);
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t node = t->query[q].node;
        below[node]++;
        c.kv_seq += ends[node] - t->len[node] + t->query[q].upto;
    }
    for (int32_t i = t->n_nodes - 1; i >= 0; i--) {
        c.kv_tree += t->len[i];
        c.kv_node32 += t->len[i] * ceil_div(below[i], QUERY_BLOCK);
        if (t->parent[i] >= 0)
            below[t->parent[i]] += below[i];
    }
    free(below);
    free(ends);
    return c;
}
