/*
 * steps_fewshot.c - W continuations of one prompt, none of which ends before the run does.
 */
#include "traces/formats/text.h"
#include "traces/trace_kind.h"

#include <stdlib.h>
#include <string.h>

/* The prompt is piece 0, branch i piece i. */
static void name_parts(const struct tree *tree, struct trace_parts *parts)
{
    parts_start(parts, tree);
    for (int32_t i = 0; i < tree->n_nodes; i++)
        parts->piece[i].name = i;
    for (int32_t q = 0; q < tree->n_queries; q++)
        parts->query[q] = tree->query[q].node;
}

static struct tree *fewshot_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    const int32_t width = *(const int32_t *)tr->self;
    struct tree *tree = tree_new(width + 1, width);
    tree->len[0] = tr->prompt;
    for (int32_t i = 1; i <= width; i++) {
        tree->parent[i] = 0;
        tree->len[i] = t;
        tree->query[i - 1] = (struct query){.node = i, .upto = t};
    }
    if (parts)
        name_parts(tree, parts);
    return tree;
}

static const struct trace_kind fewshot_kind = {.step = fewshot_step, .close = free};

static struct trace *replay_fewshot(int32_t width, const char *source, const struct trace_opts *o,
                                    struct err *e)
{
    if (o->prompt < 1 || o->max_seq - o->prompt < 2) {
        err_set(e,
                "%s: prompt %lld and max-seq %lld leave no step (expected --prompt and --max-seq, at least 2 "
                "more)",
                source, (long long)o->prompt, (long long)o->max_seq);
        return NULL;
    }
    int64_t n_steps = o->max_seq - o->prompt - 1, tokens;
    if (__builtin_mul_overflow(n_steps, width, &tokens) || tokens > TREE_MAX_TOKENS - o->prompt) {
        err_set(e, "%s: more than %lld tokens in one tree (expected fewer)", source,
                (long long)TREE_MAX_TOKENS);
        return NULL;
    }
    int32_t *self = xmalloc(sizeof *self);
    *self = width;
    struct trace *tr = trace_new(&fewshot_kind, self);
    tr->prompt = o->prompt;
    tr->n_steps = n_steps;
    tr->generated = tokens;
    trace_set_title(tr, "few-shot", source, o);
    return tr;
}

struct trace *trace_open_fewshot(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    int64_t width;
    if (!word_int((struct word){arg, strlen(arg)}, 1, TREE_MAX_QUERIES - 1, &width)) {
        err_set(e, "%s: not a width (expected fewshot:W with W from 1 to %d)", spec, TREE_MAX_QUERIES - 1);
        return NULL;
    }
    return spec_only_tree(spec, o, e) ? replay_fewshot((int32_t)width, spec, o, e) : NULL;
}
