/*
 * L4-one-pass.c
 * why: none
 * loses: some
 */
#include "lab.h"

#include <string.h>

struct search {
    const struct lab_shape *s;
    const struct lab_price *p;
    int64_t *stay, *tokens;
    unsigned char *join, *kept;
};

static double cost(struct search *x)
{
    const struct lab_shape *s = x->s;
    double sum = 0;
    for (int i = 0; i < s->n_nodes; i++) {
        x->stay[i] = s->queries[i];
        x->tokens[i] = s->len[i] + (x->join[i] ? x->tokens[s->parent[i]] : 0);
        if (x->join[i])
            x->stay[s->parent[i]] -= s->queries[i];
    }
    for (int i = 0; i < s->n_nodes; i++)
        sum += lab_price_of(x->p, x->stay[i], x->tokens[i]);
    return sum;
}

/* Sets all edges to the children of a node. */
static void set_children(struct search *x, int node, int to)
{
    for (int c = node + 1; c < x->s->n_nodes; c++)
        if (x->s->parent[c] == node)
            x->join[c] = (unsigned char)to;
}

static double improve(struct search *x)
{
    double best = cost(x);
    for (int again = 1; again;) {
        again = 0;
        for (int move = 0; move < 3 * x->s->n_nodes; move += 3) {
            int i = move / 3;
            if (move % 3 == 0 && x->s->parent[i] < 0)
                continue;
            memcpy(x->kept, x->join, (size_t)x->s->n_nodes);
            if (move % 3 == 0)
                x->join[i] = !x->join[i];
            else
                set_children(x, i, move % 3 - 1);
            double now = cost(x);
            if (now < best - 1e-9) {
                best = now;
            } else {
                memcpy(x->join, x->kept, (size_t)x->s->n_nodes);
            }
        }
    }
    return best;
}

void lab_pack(const struct lab_shape *s, const struct lab_price *p, unsigned char *join)
{
    size_t n = (size_t)s->n_nodes;
    struct search x = {s, p, malloc(n * sizeof *x.stay), malloc(n * sizeof *x.tokens), malloc(n), malloc(n)};
    double best = -1;
    for (int begin = 0; begin < 1; begin++) {
        for (int i = 0; i < s->n_nodes; i++)
            x.join[i] = s->parent[i] >= 0 && (begin == 1 || (begin == 2 && p->partial * s->queries[i] > (double)s->len[s->parent[i]]));
        double now = improve(&x);
        if (best < 0 || now < best) {
            best = now;
            memcpy(join, x.join, n);
        }
    }
    free(x.stay);
    free(x.tokens);
    free(x.join);
    free(x.kept);
}
