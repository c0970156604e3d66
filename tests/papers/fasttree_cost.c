#include "tests/papers/fasttree_cost.h"
#include "tests/auto.h"

#include <stdlib.h>

int64_t fasttree_pad(int64_t tile, int64_t n)
{
    return tile - ((n - 1) % tile + 1);
}

double fasttree_padding(const struct fasttree_model *m, int64_t nq, int64_t len)
{
    if (nq == 0 || len == 0)
        return 0;
    int64_t tile_q = m->tile_q[nq > m->tile_q[1] ? 0 : 1];
    double rows = (double)(fasttree_pad(tile_q, nq) * len * m->d);                            /* (5) */
    double tokens = (double)(nq * fasttree_pad(m->tile_kv, min_i64(len, m->tile_kv)) * m->d); /* (6) */
    return m->alpha * rows + m->beta * tokens;                                                /* (7) */
}

double fasttree_split_kv(const struct fasttree_model *m, int64_t nq_v, int64_t len_v, int64_t nq_l,
                         int64_t len_l)
{
    double padding = fasttree_padding(m, nq_v, len_v) + fasttree_padding(m, nq_l, len_l); /* (8) */
    double partials = m->gamma * (double)(nq_l * m->d);                                   /* (10) */
    return padding + partials;                                                            /* (11) */
}

double fasttree_split_q(const struct fasttree_model *m, int64_t nq_v, int64_t len_v, int64_t nq_l,
                        int64_t len_l)
{
    return fasttree_padding(m, nq_v - nq_l, len_v) + fasttree_padding(m, nq_l, len_v + len_l); /* (9) */
}

double fasttree_plan_cost(const struct fasttree_model *m, const struct nform *nf, const uint8_t *joined)
{
    FREED int64_t *nq =
        xcalloc((size_t)nf->n_nodes, sizeof *nq); /* queries whose path has a virtual node ending here */
    FREED int64_t *len = xcalloc((size_t)nf->n_nodes, sizeof *len);     /* and its tokens */
    FREED int64_t *below = xcalloc((size_t)nf->n_nodes, sizeof *below); /* queries whose path comes by */
    for (int32_t q = 0; q < nf->n_queries; q++)
        for (int32_t v = nf->at[q]; v >= 0;) {
            int32_t last = v;
            bool more = true;
            nq[last]++;
            for (len[last] = 0; more; v = nf->parent[v]) {
                len[last] += nf->len[v];
                below[v]++;
                more = joined[v];
            }
        }
    double sum = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        sum += fasttree_padding(m, nq[v], len[v]);
        if (nf->parent[v] >= 0 && !joined[v])
            sum += m->gamma * (double)(below[v] * m->d);
    }
    return sum;
}
