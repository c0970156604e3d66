/*
 * trace.c - what all traces have in common.
 */
#include "traces/trace_kind.h"

#include <stdlib.h>

struct trace *trace_new(const struct trace_kind *kind, void *self)
{
    struct trace *tr = xcalloc(1, sizeof *tr);
    *tr = (struct trace){.kind = kind, .self = self, .remark = xstrdup(""), .n_items = 1};
    return tr;
}

void trace_close(struct trace *tr)
{
    if (tr) {
        tr->kind->close(tr->self);
        free(tr->title);
        free(tr->remark);
    }
    free(tr);
}

void trace_set_title(struct trace *tr, const char *what, const char *source, const struct trace_opts *o)
{
    char *cap = o->max_seq > 0 ? xasprintf("S = %lld", (long long)o->max_seq) : xstrdup("no length cap");
    tr->title = xasprintf("%s, %s, tree %d, P = %lld, %s, %lld steps", what, source, o->tree_index,
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
    return tr->n_items;
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
    return tr->kind->path_tokens ? tr->kind->path_tokens(tr, t) : t;
}

struct tree *trace_tree(const struct trace *tr, int64_t t)
{
    return trace_step(tr, t, NULL);
}

struct tree *trace_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    CK(t >= 1 && t <= tr->n_steps);
    return tr->kind->step(tr, t, parts);
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
