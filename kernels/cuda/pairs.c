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

/* Groups over the same tokens, first .. end of the sorted list, that have so many tiles: two at least. */
struct alike {
    int64_t first, end, tiles;
};

/* All that there are, in the order of the list; returns how many. */
static int64_t find_alike(struct alike *alike, const int64_t *group, int64_t n, const struct plan *plan,
                          int32_t gqa)
{
    int64_t found = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        const struct group *g = &plan->group[group[i]];
        int64_t tiles = 0;
        for (end = i; end < n && by_tokens(plan, g, &plan->group[group[end]]) == 0; end++)
            tiles +=
                ceil_div((int64_t)plan->group[group[end]].nq * gqa, pairs_rows(&plan->group[group[end]]));
        if (tiles > 1)
            alike[found++] = (struct alike){i, end, tiles};
    }
    return found;
}

/* What decides of a launch. */
struct crowd {
    int64_t groups, single; /* of all groups those that run in other tiles in any case */
    int64_t tiles;          /* that are not high and may be pairs */
    /* Does its launch hold up groups in other tiles? A CTA of a pair begins on an empty SM only, and what comes behind when all
     * of them have begun: it waits for such groups that run before, and others behind for those that run beside it. */
    bool in_chain;
};

static void count_crowd(struct crowd *crowd, const struct alike *alike, int64_t n_alike, const int64_t *group,
                        const struct plan *plan)
{
    for (int64_t i = 0; i < plan->n_groups; i++) {
        crowd[plan->group[i].launch].groups++;
        crowd[plan->group[i].launch].single++;
    }
    for (const struct alike *x = alike; x < alike + n_alike; x++) {
        const struct group *g = &plan->group[group[x->first]];
        crowd[g->launch].single -= x->end - x->first;
        crowd[g->launch].tiles += is_high(g) ? 0 : x->tiles;
    }
    int64_t before = 0, single_before = 0;
    for (int32_t l = 0, end; l < plan->n_launches; l = end) { /* launches l .. end run side by side */
        int64_t groups = 0, single = 0;
        for (end = l; end < plan->n_launches && (end == l || plan->launch[end].order == LAUNCH_CONCURRENT);
             end++) {
            groups += crowd[end].groups;
            single += crowd[end].single;
        }
        before += groups;
        for (int32_t i = l; i < end; i++)
            crowd[i].in_chain = single_before > 0 || (single > 0 && before < plan->n_groups);
        single_before += single;
    }
}

/* Should tiles that are not high be pairs? A CTA of a pair has an SM to itself, and takes less than two thirds of the time of
 * two CTAs there. */
static bool worth_it(const struct pairs_card *c, const struct crowd *crowd, int64_t n_kv)
{
    int64_t ctas = crowd->tiles * c->h_kv;
    return ctas > c->sms || (4 * ctas > 3 * c->sms && n_kv < FEW_TOKENS && !crowd->in_chain);
}

void pairs_none(struct pairs *p, const struct plan *plan)
{
    *p = (struct pairs){.ctas = xcalloc((size_t)plan->n_groups, sizeof *p->ctas)};
    for (int64_t i = 0; i < plan->n_groups; i++)
        p->ctas[i] = -1;
}

static void add_alike(struct pairs *p, const int64_t *group, const struct alike *x)
{
    for (int64_t i = x->first; i < x->end; i++) {
        p->ctas[group[i]] = i == x->first ? ceil_div(x->tiles, 2) : 0;
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
    struct alike *alike = xcalloc((size_t)n, sizeof *alike);
    int64_t n_alike = find_alike(alike, group, n, plan, c->gqa);
    struct crowd *crowd = xcalloc((size_t)plan->n_launches, sizeof *crowd);
    count_crowd(crowd, alike, n_alike, group, plan);
    p->group = xcalloc((size_t)n, sizeof *p->group);
    for (const struct alike *x = alike; x < alike + n_alike; x++) {
        const struct group *g = &plan->group[group[x->first]];
        if (c->everywhere || is_high(g) || worth_it(c, &crowd[g->launch], g->n_kv))
            add_alike(p, group, x);
    }
    free(crowd);
    free(alike);
    free(group);
}

void pairs_free(struct pairs *p)
{
    free(p->group);
    free(p->ctas);
}
