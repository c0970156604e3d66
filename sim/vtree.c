#include "sim/vtree.h"

/* Those of the queries that see v; *first becomes the least of where their windows begin, and of what it was. */
static void select_seeing(struct sel *s, const struct nform *nf, int32_t v, int32_t begin, int32_t end,
                          int64_t *first)
{
    if (!nf->since) {
        sel_queries(s, begin, end);
        return;
    }
    for (int32_t q = begin; q < end; q++)
        if (nform_in_window(nf, q, v)) {
            sel_queries(s, q, q + 1);
            *first = min_i64(*first, nf->since[q]);
        }
}

void vtree_select(const struct nform *nf, const uint8_t *joined, int32_t v, struct sel *s)
{
    sel_clear(s);
    /* What no joined child took away: own queries first, then child after child, in query order. */
    int32_t at = nf->q0[v];
    int64_t first = INT64_MAX;
    for (int32_t c = nf->child_ptr[v]; c < nf->child_ptr[v + 1]; c++) {
        int32_t kid = nf->child[c];
        if (joined[kid]) {
            select_seeing(s, nf, v, at, nf->q0[kid], &first);
            at = nf->q1[kid];
        }
    }
    select_seeing(s, nf, v, at, nf->q1[v], &first);
    if (s->nq == 0)
        return;
    for (int32_t i = v;; i = nf->parent[i]) {
        sel_run(s, i, 0, nf->len[i]);
        if (!joined[i] || (nf->since && nf->pos[nf->parent[i]] < first))
            break;
    }
    for (int64_t a = 0, b = s->n_runs - 1; a < b; a++, b--) { /* root first */
        struct run x = s->run[a];
        s->run[a] = s->run[b];
        s->run[b] = x;
    }
}

int64_t vtree_len(const struct nform *nf, const uint8_t *joined, int32_t v)
{
    int64_t sum = 0;
    for (int32_t i = v;; i = nf->parent[i]) {
        sum += nf->len[i];
        if (!joined[i])
            return sum;
    }
}

int32_t vtree_nq(const struct nform *nf, const uint8_t *joined, int32_t v)
{
    int32_t n = nf->q1[v] - nf->q0[v];
    for (int32_t c = nf->child_ptr[v]; c < nf->child_ptr[v + 1]; c++)
        if (joined[nf->child[c]])
            n -= nf->q1[nf->child[c]] - nf->q0[nf->child[c]];
    return n;
}
