/* pairs.c - tiles that share a CTA, by how many there are and over how many tokens. */
#include "kernels/cuda/pairs.h"
#include "ref/base.h"

#include <stdlib.h>

enum {
    LOW_ROWS = 32,      /* of tiles that run as they are */
    LEAST_TOKENS = 192, /* of a group, and */
    LEAST_HIGH = 64,    /* of one whose tile has more than 64 rows, which has an SM to itself in any case */
    FEW_TOKENS = 1536   /* so many in CTAs that are fewer than SMs: two teams a tile are faster than one */
};

int32_t pairs_rows(const struct group *g)
{
    return g->tile_m == 0 || g->tile_m > CUDA_WIDE_ROWS ? CUDA_WIDE_ROWS : g->tile_m;
}

static bool is_high(const struct group *g)
{
    return g->tile_m > CUDA_WIDE_ROWS;
}

static bool may_pair(const struct group *g, bool everywhere)
{
    return (g->tile_m == 0 || g->tile_m > LOW_ROWS) &&
           (everywhere || g->n_kv >= (is_high(g) ? LEAST_HIGH : LEAST_TOKENS));
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* By launch, then longest first, then whatever makes groups over the same tokens neighbours, high tiles or not. */
static int by_tokens(const struct plan *plan, const struct group *g, const struct group *h)
{
    int64_t n = g->run1 - g->run0;
    int c = compare(g->launch, h->launch);
    c = c ? c : compare(h->n_kv, g->n_kv);
    c = c ? c : compare(is_high(g), is_high(h));
    c = c ? c : compare(n, h->run1 - h->run0);
    for (int64_t i = 0; i < n && c == 0; i++) {
        const struct run *r = &plan->run[g->run0 + i], *s = &plan->run[h->run0 + i];
        c = compare(r->node, s->node);
        c = c ? c : compare(r->begin, s->begin);
        c = c ? c : compare(r->end, s->end);
    }
    return c;
}

static int by_tokens_and_place(const void *x, const void *y, void *plan)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    const struct group *group = ((const struct plan *)plan)->group;
    int c = by_tokens(plan, &group[a], &group[b]);
    return c ? c : compare(a, b);
}

/* Of the sorted list, from one to the end of those over the same tokens: how many tiles they have. */
static int64_t tiles_from(const int64_t *group, int64_t n, const struct plan *plan, int32_t gqa,
                          int64_t first, int64_t *end)
{
    const struct group *g = &plan->group[group[first]];
    int64_t tiles = 0;
    for (*end = first; *end < n && by_tokens(plan, g, &plan->group[group[*end]]) == 0; ++*end)
        tiles += ceil_div((int64_t)plan->group[group[*end]].nq * gqa, pairs_rows(&plan->group[group[*end]]));
    return tiles;
}

/* Should tiles be pairs that are not high, tiles of them in their launch? A CTA of a pair has an SM to itself, and takes less
 * than two thirds of the time of two CTAs there. */
static bool worth_it(const struct pairs_card *c, int64_t tiles, int64_t n_kv)
{
    int64_t ctas = tiles * c->h_kv;
    return c->everywhere || ctas > c->sms || (4 * ctas > 3 * c->sms && n_kv < FEW_TOKENS);
}

void pairs_none(struct pairs *p, const struct plan *plan)
{
    *p = (struct pairs){.ctas = xcalloc((size_t)plan->n_groups, sizeof *p->ctas)};
    for (int64_t i = 0; i < plan->n_groups; i++)
        p->ctas[i] = -1;
}

/* Groups first .. end of the list, with so many tiles. */
static void add_groups(struct pairs *p, const int64_t *group, int64_t first, int64_t end, int64_t tiles)
{
    for (int64_t i = first; i < end; i++) {
        p->ctas[group[i]] = i == first ? ceil_div(tiles, 2) : 0;
        p->group[p->n_groups++] = group[i];
    }
}

void pairs_choose(struct pairs *p, const struct plan *plan, const struct pairs_card *c)
{
    int64_t n = 0, *group = xcalloc((size_t)plan->n_groups, sizeof *group);
    pairs_none(p, plan);
    for (int64_t i = 0; i < plan->n_groups; i++)
        if (may_pair(&plan->group[i], c->everywhere))
            group[n++] = i;
    qsort_r(group, (size_t)n, sizeof *group, by_tokens_and_place, (void *)plan);
    int64_t *tiles =
        xcalloc((size_t)plan->n_launches, sizeof *tiles); /* that are not high and have another */
    for (int64_t i = 0, end; i < n; i = end) {
        int64_t some = tiles_from(group, n, plan, c->gqa, i, &end);
        tiles[plan->group[group[i]].launch] += some > 1 && !is_high(&plan->group[group[i]]) ? some : 0;
    }
    p->group = xcalloc((size_t)n, sizeof *p->group);
    for (int64_t i = 0, end; i < n; i = end) {
        const struct group *g = &plan->group[group[i]];
        int64_t some = tiles_from(group, n, plan, c->gqa, i, &end);
        if (some > 1 && (is_high(g) || worth_it(c, tiles[g->launch], g->n_kv)))
            add_groups(p, group, i, end, some);
    }
    free(tiles);
    free(group);
}

void pairs_free(struct pairs *p)
{
    free(p->group);
    free(p->ctas);
}
