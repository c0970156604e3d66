/*
 * replay_speculative.c - speculative decoding: the same token tree at every step, under a prefix that grows
 * by what the step before accepted.
 *
 * As DeFT replays it, the token tree is flat: T tokens hang directly off the prefix, each sees the prefix and
 * itself. With `topology` the tokens hang as the file's Tree_Structure says, as a Medusa step does: the last
 * accepted token under the prefix, every candidate under the one it continues. The prefix grows the same way
 * in both.
 */
#include "traces/pyrandom.h"
#include "traces/replay.h"

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
    }
    free(s);
}

static struct tree *flat_step(const struct trace *tr, int64_t t)
{
    int32_t n_tokens = tr->speculative->n_tokens;
    struct tree *tree = tree_new(n_tokens + 1, n_tokens);
    tree->len[0] = tr->root_len[t - 1];
    for (int32_t i = 1; i <= n_tokens; i++) {
        tree->parent[i] = 0;
        tree->len[i] = 1;
        tree->query[i - 1] = (struct query){.node = i, .upto = 1};
    }
    return tree;
}

static struct tree *topology_step(const struct trace *tr, int64_t t)
{
    struct tree *tree = flat_step(tr, t);
    /* Token i is node i + 1; token 0 has parent -1, which is the prefix. */
    for (int32_t i = 0; i < tr->speculative->n_tokens; i++)
        tree->parent[i + 1] = tr->speculative->parent[i] + 1;
    return tree;
}

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
    const struct speculative *s = tr->speculative;
    tr->prompt = o->prompt > 0 ? o->prompt : s->prompt;
    if (tr->prompt < 1)
        return err_set(e, "%s: the records do not say how long the prompt is (expected a prompt length)",
                       source);
    int64_t *accept = run_accept(s, tr->prompt, source, o, &tr->n_steps, e);
    if (!accept)
        return false;

    /* accept[0] belongs to the prefill and is never applied; iteration N applies nothing. */
    tr->root_len = xcalloc((size_t)tr->n_steps, sizeof *tr->root_len);
    tr->root_len[0] = tr->prompt;
    for (int64_t t = 1; t < tr->n_steps; t++)
        tr->root_len[t] = tr->root_len[t - 1] + accept[t];
    free(accept);
    int64_t last = tr->root_len[tr->n_steps - 1];
    tr->generated = s->n_tokens + last - tr->prompt;
    return last <= TREE_MAX_TOKENS - s->n_tokens ||
           err_set(e, "%s: more than %lld tokens in one tree (expected fewer)", source,
                   (long long)TREE_MAX_TOKENS);
}

struct trace *replay_speculative(struct speculative *s, const char *source, const struct trace_opts *o,
                                 struct err *e)
{
    struct trace *tr = xcalloc(1, sizeof *tr);
    tr->speculative = s;
    tr->step = o->topology ? topology_step : flat_step;
    tr->remark = xstrdup("");
    if (!plan_run(tr, source, o, e)) {
        trace_close(tr);
        return NULL;
    }
    trace_set_title(tr, o->topology ? "speculative (token tree)" : "speculative (flat)", source, o);
    return tr;
}
