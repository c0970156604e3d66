/*
 * L4-each-query-reads.c
 * why: all nodes are joined to their parents: each leaf's queries read their whole path
 * loses: 2 3 4 5
 */
#include "lab.h"

#include <math.h>

struct solver {
    const struct lab_shape *s;
    const struct lab_price *p;
    double *f;   /* [n][n] by node, and depth of the ancestor */
    int *depth;
    int most;    /* queries of all roots, and 1 */
};

static double group(const struct solver *x, int64_t queries, int64_t tokens)
{
    const struct lab_price alone = {1, x->p->partial};
    return lab_price_of(&alone, queries, tokens);
}

static int64_t tokens_from(const struct solver *x, int v, int depth)
{
    int64_t sum = 0;
    for (; v >= 0 && x->depth[v] >= depth; v = x->s->parent[v])
        sum += x->s->len[v];
    return sum;
}

/* Row i of knap[children + 1][most]: least cost of the first i children, by queries that leave. Returns how many children. */
static int fill(const struct solver *x, int v, int depth, double *knap, int *child)
{
    int n = x->s->n_nodes, count = 0;
    for (int t = 0; t < x->most; t++)
        knap[t] = t == 0 ? 0 : INFINITY;
    for (int c = v + 1; c < n; c++) {
        if (x->s->parent[c] != v)
            continue;
        const double *old = knap + (size_t)count * x->most;
        double *row = knap + (size_t)(count + 1) * x->most;
        for (int t = 0; t < x->most; t++) {
            int takes = x->s->queries[c];
            double apart = old[t] + x->f[c * n + x->depth[c]],
                   joined = t >= takes ? old[t - takes] + x->f[c * n + depth] : INFINITY;
            row[t] = fmin(apart, joined);
        }
        child[count++] = c;
    }
    return count;
}

/* The best number of queries that leave v. */
static int leave(const struct solver *x, int v, int depth, const double *row, double *cost)
{
    int64_t tokens = tokens_from(x, v, depth);
    int best = 0;
    *cost = INFINITY;
    for (int t = 0; t <= x->s->queries[v]; t++) {
        double now = row[t] + group(x, x->s->queries[v] - t, tokens);
        if (now < *cost) {
            *cost = now;
            best = t;
        }
    }
    return best;
}

static void assign(const struct solver *x, int v, int depth, unsigned char *join)
{
    int n = x->s->n_nodes, *child = malloc((size_t)n * sizeof *child);
    double *knap = malloc((size_t)(n + 1) * x->most * sizeof *knap), cost;
    int count = fill(x, v, depth, knap, child), t = leave(x, v, depth, knap + (size_t)count * x->most, &cost);
    for (int i = count; i-- > 0;) {
        int c = child[i], takes = x->s->queries[c];
        const double *old = knap + (size_t)i * x->most;
        join[c] = !(old[t] + x->f[c * n + x->depth[c]] <= knap[(size_t)(i + 1) * x->most + t]);
        t -= join[c] ? takes : 0;
        assign(x, c, join[c] ? depth : x->depth[c], join);
    }
    free(child);
    free(knap);
}

void lab_pack(const struct lab_shape *s, const struct lab_price *p, unsigned char *join)
{
    int n = s->n_nodes, *child = malloc((size_t)n * sizeof *child);
    struct solver x = {s, p, malloc((size_t)n * n * sizeof(double)), malloc((size_t)n * sizeof(int)), 1};
    for (int i = 0; i < n; i++) {
        x.depth[i] = s->parent[i] < 0 ? 0 : x.depth[s->parent[i]] + 1;
        x.most += s->parent[i] < 0 ? s->queries[i] : 0;
    }
    double *knap = malloc((size_t)(n + 1) * x.most * sizeof *knap);
    for (int v = n - 1; v >= 0; v--)
        for (int depth = x.depth[v]; depth >= 0; depth--) {
            int count = fill(&x, v, depth, knap, child);
            leave(&x, v, depth, knap + (size_t)count * x.most, &x.f[v * n + depth]);
        }
    for (int i = 0; i < n; i++)
        if (s->parent[i] < 0)
            assign(&x, i, 0, join);
    free(x.f);
    free(x.depth);
    free(child);
    free(knap);
}
