/*
 * L3-node.c
 * why: none
 * says: no group has tokens of two nodes
 * loses: 8
 */
#include "lab.h"

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

/* A group with all queries that see the run. */
static void add_run(const struct lab_tree *t, struct lab_out *out, const struct lab_run *r)
{
    int *query = malloc((size_t)(t->n_queries + 1) * sizeof *query), n = 0;
    for (int q = 0; q < t->n_queries; q++)
        if (sees(t, q, r))
            query[n++] = q;
    if (n > 0)
        lab_group(out, query, n, r, 1);
    free(query);
}

void lab_partition(const struct lab_tree *t, const struct lab_env *env, struct lab_out *out)
{
    for (int i = 0; i < t->n_nodes; i++)
        for (int64_t begin = 0; begin < t->len[i];) {
            int64_t end = t->len[i];
            for (int q = 0; q < t->n_queries; q++)
                if (t->query_node[q] == i && t->query_upto[q] > begin && t->query_upto[q] < end)
                    end = t->query_upto[q];
            end = end < begin + env->most_tokens ? end : begin + env->most_tokens;
            const struct lab_run r = {i, begin, end};
            add_run(t, out, &r);
            begin = end;
        }
}
