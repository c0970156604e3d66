#include "tests/papers/pat_profit.h"

#include <stdlib.h>

int64_t pat_profit(const struct plan *p)
{
    bool *seen = xcalloc((size_t)p->nf->n_queries, sizeof *seen);
    int64_t saved = 0, partials = 0, queries = 0;
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        saved += (g->nq - 1) * g->n_kv;
        partials += g->nq;
        for (int64_t r = g->qr0; r < g->qr1; r++)
            for (int32_t q = p->qr[r].begin; q < p->qr[r].end; q++) {
                queries += !seen[q];
                seen[q] = true;
            }
    }
    free(seen);
    return saved - 4 * (partials - queries);
}
