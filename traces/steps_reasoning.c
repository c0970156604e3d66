/*
 * steps_reasoning.c - tree-of-thoughts decoding: leaves grow by a token a step, end, branch, disappear.
 *
 * Node i is present at t iff start <= t <= the last end below it; it is a query's own leaf iff start <= t <=
 * end. A step's tree follows from the templates alone, so any step costs the same, whatever came before it.
 */
#include "traces/steps.h"

#include <stdlib.h>

struct reasoning *reasoning_new(int32_t n_nodes)
{
    struct reasoning *r = xmalloc(sizeof *r);
    *r = (struct reasoning){.n_nodes = n_nodes, .node = xcalloc((size_t)n_nodes, sizeof *r->node)};
    for (int32_t i = 0; i < n_nodes; i++)
        r->node[i].parent = -1;
    return r;
}

void reasoning_free(struct reasoning *r)
{
    if (r) {
        free(r->node);
        free(r->end_below);
    }
    free(r);
}

static bool is_live(const struct reasoning_node *node, int64_t t)
{
    return node->start <= t && t <= node->end;
}

/* Tokens of node i in the KV cache at iteration t, given that it is present. */
static int64_t tokens_at(const struct trace *tr, int32_t i, int64_t t)
{
    const struct reasoning *r = tr->self;
    const struct reasoning_node *node = &r->node[i];
    if (i == 0)
        return tr->prompt;
    return is_live(node, t) ? t - node->start + 1 : node->value;
}

/* Pieces and queries have the names of the template's nodes. */
static void name_parts(const struct reasoning *r, const int32_t *id, const struct tree *tree,
                       struct trace_parts *parts)
{
    parts_start(parts, tree);
    for (int32_t i = 0; i < r->n_nodes; i++)
        if (id[i] >= 0)
            parts->piece[id[i]].name = i;
    for (int32_t q = 0; q < tree->n_queries; q++)
        parts->query[q] = parts->piece[tree->query[q].node].name;
}

static struct tree *reasoning_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    const struct reasoning *r = tr->self;
    int32_t *id =
        xmalloc((size_t)r->n_nodes * sizeof *id); /* number in the tree of the step; -1: not present */
    int32_t n_nodes = 0, n_queries = 0;
    for (int32_t i = 0; i < r->n_nodes; i++) {
        bool present = i == 0 || (r->node[i].start <= t && t <= r->end_below[i]);
        id[i] = present ? n_nodes++ : -1;
        n_queries += i > 0 && is_live(&r->node[i], t);
    }
    struct tree *tree = tree_new(n_nodes, n_queries);
    int32_t q = 0;
    for (int32_t i = 0; i < r->n_nodes; i++) {
        if (id[i] < 0)
            continue;
        tree->parent[id[i]] = i > 0 ? id[r->node[i].parent] : -1;
        tree->len[id[i]] = tokens_at(tr, i, t);
        if (i > 0 && is_live(&r->node[i], t))
            tree->query[q++] = (struct query){.node = id[i], .upto = tree->len[id[i]]};
    }
    if (parts)
        name_parts(r, id, tree, parts);
    free(id);
    return tree;
}

/* Tokens chosen over the run: one per query and step, and one more for each leaf that a cut run leaves behind
 * (its last token is known, its KV not written). Closed form over nodes. */
static int64_t count_generated(const struct reasoning *r, int64_t n_steps, bool cut)
{
    int64_t sum = 0, last = n_steps + (cut ? 1 : 0);
    for (int32_t i = 1; i < r->n_nodes; i++)
        sum += max_i64(0, min_i64(r->node[i].end, last) - r->node[i].start + 1);
    return sum;
}

/* P, N and the sizes of the run into *tr. */
static bool plan_run(struct trace *tr, const char *source, const struct trace_opts *o, struct err *e)
{
    const struct reasoning *r = tr->self;
    tr->prompt = o->prompt > 0 ? o->prompt : r->node[0].value;
    if (o->max_seq > 0 && o->max_seq - tr->prompt < 2)
        return err_set(
            e, "%s: max_seq %lld leaves no step after a prompt of %lld tokens (expected at least %lld)",
            source, (long long)o->max_seq, (long long)tr->prompt, (long long)tr->prompt + 2);

    int64_t tokens = tr->prompt, last = 0;
    for (int32_t i = 1; i < r->n_nodes; i++) {
        if (r->node[i].value > TREE_MAX_TOKENS - tokens)
            return err_set(e, "%s: more than %lld tokens in one tree (expected fewer)", source,
                           (long long)TREE_MAX_TOKENS);
        tokens += r->node[i].value;
        last = max_i64(last, r->node[i].end);
    }
    if (last < 1)
        return err_set(e, "%s: a prompt without branches (expected at least one node to decode)", source);
    tr->n_steps = o->max_seq > 0 ? min_i64(last, o->max_seq - tr->prompt - 1) : last;
    tr->generated = count_generated(r, tr->n_steps, tr->n_steps < last);
    return true;
}

static void close_reasoning(void *self)
{
    reasoning_free(self);
}

const struct trace_kind reasoning_kind = {.step = reasoning_step, .close = close_reasoning};

struct trace *replay_reasoning(struct reasoning *r, const char *source, const struct trace_opts *o,
                               struct err *e)
{
    struct trace *tr = trace_new(&reasoning_kind, r);
    r->end_below = xmalloc((size_t)r->n_nodes * sizeof *r->end_below);
    for (int32_t i = 0; i < r->n_nodes; i++)
        r->end_below[i] = r->node[i].end;
    for (int32_t i = r->n_nodes - 1; i > 0; i--) {
        int64_t *above = &r->end_below[r->node[i].parent];
        *above = max_i64(*above, r->end_below[i]);
    }
    if (!plan_run(tr, source, o, e)) {
        trace_close(tr);
        return NULL;
    }
    trace_set_title(tr, "reasoning", source, o);
    return tr;
}
