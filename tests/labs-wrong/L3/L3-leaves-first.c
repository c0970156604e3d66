/*
 * L3-leaves-first.c
 * why: none
 * says: "why": null
 * loses: 8
 */
#include "lab.h"

/* The block that is being filled. */
struct block {
    const struct lab_tree *t;
    const struct lab_env *env;
    struct lab_out *out;
    struct lab_run *run;
    int n_runs, *query;
    int64_t tokens;
};

/* Is node a above node b, or b itself? */
static int above(const struct lab_tree *t, int a, int b)
{
    while (b > a)
        b = t->parent[b];
    return a == b;
}

static int sees(const struct lab_tree *t, int query, const struct lab_run *r)
{
    int node = t->query_node[query];
    return r->node == node ? r->end <= t->query_upto[query] : above(t, r->node, node);
}

static void flush(struct block *b)
{
    int n = 0;
    for (int q = 0; q < b->t->n_queries; q++) {
        int any = 0;
        for (int r = 0; r < b->n_runs; r++)
            any |= sees(b->t, q, &b->run[r]);
        if (any)
            b->query[n++] = q;
    }
    if (n > 0) {
        int g = lab_group(b->out, b->query, n, b->run, b->n_runs);
        for (int k = 0; k < n; k++)
            for (int r = 0; r < b->n_runs; r++)
                if (!sees(b->t, b->query[k], &b->run[r]))
                    lab_hide(b->out, g, k, r);
    }
    b->n_runs = 0;
    b->tokens = 0;
}

/* Tokens of a node between places where a query ends. */
static void add_piece(struct block *b, int node, int64_t begin, int64_t end)
{
    int seen = 0;
    const struct lab_run whole = {node, begin, end};
    for (int q = 0; q < b->t->n_queries; q++)
        seen |= sees(b->t, q, &whole);
    while (begin < end && seen) {
        int64_t room = 2 * b->env->tile_n - b->tokens, n = end - begin < room ? end - begin : room;
        b->run[b->n_runs++] = (struct lab_run){node, begin, begin + n};
        b->tokens += n;
        begin += n;
        if (b->tokens == 2 * b->env->tile_n)
            flush(b);
    }
}

static void walk(struct block *b, int node)
{
    const struct lab_tree *t = b->t;
    for (int c = node + 1; c < t->n_nodes; c++)
        if (t->parent[c] == node)
            walk(b, c);
    for (int64_t begin = 0; begin < t->len[node];) {
        int64_t end = t->len[node];
        for (int q = 0; q < t->n_queries; q++)
            if (t->query_node[q] == node && t->query_upto[q] > begin && t->query_upto[q] < end)
                end = t->query_upto[q];
        add_piece(b, node, begin, end);
        begin = end;
    }
}

void lab_partition(const struct lab_tree *t, const struct lab_env *env, struct lab_out *out)
{
    struct block b = {.t = t, .env = env, .out = out};
    b.run = malloc((size_t)(2 * env->tile_n) * sizeof *b.run);
    b.query = malloc((size_t)(t->n_queries + 1) * sizeof *b.query);
    for (int i = 0; i < t->n_nodes; i++)
        if (t->parent[i] < 0)
            walk(&b, i);
    flush(&b); /* the last one is not full */
    free(b.run);
    free(b.query);
}
