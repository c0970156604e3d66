/*
 * steps_speculative.c - speculative decoding: the same token tree at every step, under a prefix that grows
 * by what the step before accepted.
 *
 * As DeFT replays it, the token tree is flat: T tokens hang directly off the prefix, each sees the prefix and
 * itself. With `topology` the tokens hang as the file's Tree_Structure says, as a Medusa step does: the last
 * accepted token under the prefix, every candidate under the one it continues. The prefix grows the same way
 * in both.
 */
#include "traces/generate/pyrandom.h"
#include "traces/steps.h"

#include <stdlib.h>

/* A run's accepted lengths are kept in memory, so G is limited. */
#define SPEC_MAX_GROWTH (INT64_C(1) << 24)

struct speculative *speculative_new(int32_t n_tokens, int64_t n_accept)
{
    struct speculative *s = xmalloc(sizeof *s);
    *s = (struct speculative){.n_tokens = n_tokens,
                              .parent = xmalloc((size_t)n_tokens * sizeof *s->parent),
                              .n_accept = n_accept,
                              .accept = xcalloc((size_t)n_accept, sizeof *s->accept)};
    for (int32_t i = 0; i < n_tokens; i++)
        s->parent[i] = i > 0 ? 0 : -1;
    return s;
}

void speculative_free(struct speculative *s)
{
    if (s) {
        free(s->parent);
        free(s->accept);
        free(s->root_len);
    }
    free(s);
}

/* ---- what a step is made of: the prefix is piece 0, tokens have a new name at every step ---------------- */

static int64_t token_name(const struct speculative *s, int64_t t, int32_t token)
{
    return (t - 1) * s->n_tokens + token + 1;
}

/* The first path of n tokens, or the longest, into out[n_tokens]; returns its length. */
static int32_t first_path(const struct speculative *s, int32_t n, int32_t *out)
{
    int32_t *depth = xmalloc((size_t)s->n_tokens * sizeof *depth), best = 0;
    for (int32_t i = 0; i < s->n_tokens; i++) {
        depth[i] = s->parent[i] >= 0 ? depth[s->parent[i]] + 1 : 1;
        if (depth[i] <= n && depth[i] > depth[best])
            best = i;
    }
    free(depth);
    return tree_path(s->parent, best, out);
}

/* The n tokens that the step before has accepted, in the order in which they follow the prefix. */
static void accepted_tokens(const struct speculative *s, bool topology, int32_t n, int32_t *out)
{
    int32_t *path = xmalloc((size_t)s->n_tokens * sizeof *path);
    int32_t on_path = topology && n > 0 ? first_path(s, n, path) : 0, k = on_path;
    bool *taken = xcalloc((size_t)s->n_tokens, sizeof *taken);
    for (int32_t i = 0; i < on_path; i++) {
        taken[path[i]] = true;
        out[i] = path[i];
    }
    for (int32_t i = 0; k < n; i++)
        if (!taken[i])
            out[k++] = i;
    free(taken);
    free(path);
}

static void name_parts(const struct speculative *s, int64_t t, const struct tree *tree, bool topology,
                       struct trace_parts *parts)
{
    int32_t n_tokens = s->n_tokens;
    parts_start(parts, tree);
    parts->piece[0].name = 0;
    for (int32_t i = 0; i < n_tokens; i++)
        parts->piece[i + 1].name = parts->query[i] = token_name(s, t, i);
    if (t == 1)
        return;
    int64_t grown = s->root_len[t - 1] - s->root_len[t - 2];
    int32_t n = parts->n_accepts = (int32_t)min_i64(grown, n_tokens);
    int32_t *token = xmalloc((size_t)n * sizeof *token);
    accepted_tokens(s, topology, n, token);
    parts->accept = xmalloc((size_t)n * sizeof *parts->accept);
    for (int32_t i = 0; i < n; i++)
        parts->accept[i] = (struct trace_accept){.from = token_name(s, t - 1, token[i]), .to = 0};
    free(token);
}

/* ---- a step's tree ------------------------------------------------------------------------------------- */

static struct tree *make_step(const struct speculative *s, int64_t t)
{
    int32_t n_tokens = s->n_tokens;
    struct tree *tree = tree_new(n_tokens + 1, n_tokens);
    tree->len[0] = s->root_len[t - 1];
    for (int32_t i = 1; i <= n_tokens; i++) {
        tree->parent[i] = 0;
        tree->len[i] = 1;
        tree->query[i - 1] = (struct query){.node = i, .upto = 1};
    }
    return tree;
}

static struct tree *flat_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    struct tree *tree = make_step(tr->self, t);
    if (parts)
        name_parts(tr->self, t, tree, false, parts);
    return tree;
}

static struct tree *topology_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    const struct speculative *s = tr->self;
    struct tree *tree = make_step(s, t);
    /* Token i is node i + 1; token 0 has parent -1, which is the prefix. */
    for (int32_t i = 0; i < s->n_tokens; i++)
        tree->parent[i + 1] = s->parent[i] + 1;
    if (parts)
        name_parts(s, t, tree, true, parts);
    return tree;
}

/* ---- accepted lengths ---------------------------------------------------------------------------------- */

int64_t *accept_expand(const int64_t *list, int64_t n_list, int64_t g, int64_t *n, struct err *e)
{
    int64_t least = n_list > 0 ? list[0] : 0, most = least;
    for (int64_t i = 1; i < n_list; i++) {
        least = min_i64(least, list[i]);
        most = max_i64(most, list[i]);
    }
    if (most < 1) {
        err_set(e, "accepted lengths are all zero or none (expected a positive one)");
        return NULL;
    }
    CK(least >= 0 && most <= INT32_MAX - 1);
    int64_t cap = 0, sum = 0, *out = NULL;
    *n = 0;
    while (*n < n_list && list[*n] <= g - sum) {
        out = xgrow(out, &cap, *n + 1, sizeof *out);
        out[*n] = list[*n];
        sum += list[(*n)++];
    }
    struct pyrandom random;
    pyrandom_seed(&random, 0);
    while (sum < g) {
        int64_t x = pyrandom_randint(&random, least, most);
        out = xgrow(out, &cap, *n + 1, sizeof *out);
        out[*n] = min_i64(x, g - sum);
        sum += out[(*n)++];
    }
    return out;
}

/* The run's accepted lengths: the file's own, or expanded to fill max_seq. */
static int64_t *run_accept(const struct speculative *s, int64_t prompt, const char *source,
                           const struct trace_opts *o, int64_t *n, struct err *e)
{
    int64_t growth = o->max_seq - prompt;
    if (o->max_seq > 0 && (growth < 1 || growth > SPEC_MAX_GROWTH)) {
        err_set(e, "%s: max_seq %lld with a prompt of %lld tokens (expected a difference from 1 to %lld)",
                source, (long long)o->max_seq, (long long)prompt, (long long)SPEC_MAX_GROWTH);
        return NULL;
    }
    if (s->n_accept == 0) {
        err_set(e, "%s: no accepted lengths (expected at least one)", source);
        return NULL;
    }
    if (o->max_seq > 0) {
        struct err cause = {0};
        int64_t *out = accept_expand(s->accept, s->n_accept, growth, n, &cause);
        if (!out)
            err_set(e, "%s: %s", source, cause.msg);
        return out;
    }
    int64_t *accept = xcalloc((size_t)s->n_accept, sizeof *accept);
    for (int64_t i = 0; i < s->n_accept; i++)
        accept[i] = s->accept[i];
    *n = s->n_accept;
    return accept;
}

/* P, N, R(1 .. N) into *tr. */
static bool plan_run(struct trace *tr, const char *source, const struct trace_opts *o, struct err *e)
{
    struct speculative *s = tr->self;
    tr->prompt = o->prompt > 0 ? o->prompt : s->prompt;
    if (tr->prompt < 1)
        return err_set(
            e, "%s: the records do not say how long the prompt is (expected a prompt length: --prompt)",
            source);
    int64_t *accept = run_accept(s, tr->prompt, source, o, &tr->n_steps, e);
    if (!accept)
        return false;

    /* accept[0] belongs to the prefill and is never applied; iteration N applies nothing. */
    s->root_len = xcalloc((size_t)tr->n_steps, sizeof *s->root_len);
    s->root_len[0] = tr->prompt;
    for (int64_t t = 1; t < tr->n_steps; t++)
        s->root_len[t] = s->root_len[t - 1] + accept[t];
    free(accept);
    int64_t last = s->root_len[tr->n_steps - 1];
    tr->generated = s->n_tokens + last - tr->prompt;
    return last <= TREE_MAX_TOKENS - s->n_tokens ||
           err_set(e, "%s: more than %lld tokens in one tree (expected fewer)", source,
                   (long long)TREE_MAX_TOKENS);
}

/* What was accepted, and the token that follows. */
static int64_t path_tokens(const struct trace *tr, int64_t t)
{
    const struct speculative *s = tr->self;
    return s->root_len[t - 1] - tr->prompt + 1;
}

static void close_speculative(void *self)
{
    speculative_free(self);
}

const struct trace_kind flat_kind = {
    .step = flat_step, .close = close_speculative, .path_tokens = path_tokens, .has_topology = true};
const struct trace_kind topology_kind = {
    .step = topology_step, .close = close_speculative, .path_tokens = path_tokens, .has_topology = true};

struct trace *replay_speculative(struct speculative *s, const char *source, const struct trace_opts *o,
                                 struct err *e)
{
    struct trace *tr = trace_new(o->topology ? &topology_kind : &flat_kind, s);
    if (!plan_run(tr, source, o, e)) {
        trace_close(tr);
        return NULL;
    }
    trace_set_title(tr, o->topology ? "speculative (token tree)" : "speculative (flat)", source, o);
    return tr;
}
