#include "sim/plan_extend.h"

#include <string.h>

static bool same(const int32_t *a, const int32_t *b, int32_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

bool plan_extends(const struct nform *old, const struct nform *now)
{
    int32_t n = old->n_nodes;
    if (old->since || now->since) /* windows move on */
        return false;
    bool good = n == now->n_nodes && old->n_queries == now->n_queries && same(old->parent, now->parent, n) &&
                same(old->q0, now->q0, n) && same(old->q1, now->q1, n) &&
                same(old->at, now->at, old->n_queries) && same(old->orig, now->orig, old->n_queries);
    for (int32_t i = 0; i < n && good; i++)
        good = old->len[i] == now->len[i] || (old->len[i] > 0 && old->len[i] < now->len[i]);
    return good;
}

struct plan *plan_extend(const struct plan *old, const struct nform *nf)
{
    struct plan *p = plan_copy(old);
    p->nf = nf;
    for (int64_t i = 0; i < p->n_groups; i++) {
        struct group *g = &p->group[i];
        for (int64_t r = g->run0; r < g->run1; r++) {
            struct run *run = &p->run[r];
            if (run->end < old->nf->len[run->node])
                continue;
            g->n_kv += nf->len[run->node] - run->end;
            run->end = nf->len[run->node];
        }
    }
    return p;
}
