/* pairs.c - tiles that share a CTA, by how many there are and over how many tokens (thresholds: tiling.def). */
#include "kernels/cuda/host/pairs.h"
#include "kernels/cuda/host/tiling.h"
#include "ref/base.h"

#include <stdlib.h>

int32_t pairs_rows(const struct group *g)
{
    return g->tile_m == 0 || g->tile_m > CUDA_WIDE_ROWS ? CUDA_WIDE_ROWS : g->tile_m;
}

static bool is_high(const struct group *g)
{
    return g->tile_m > CUDA_WIDE_ROWS;
}

static bool is_short(const struct group *g)
{
    return g->n_kv < SHORT_TOKENS && !is_high(g);
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

/* By launch, then longest first. The rest makes groups over the same tokens neighbours, those with high tiles apart. */
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

/* Groups over the same tokens, first .. end of the sorted list. They have two tiles or more. */
struct alike {
    int64_t first, end, tiles;
};

/* Finds all of them, in the order of the list; returns how many. */
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

/* What decides whether the tiles of a launch are pairs. */
struct crowd {
    int64_t tiles;      /* that may be pairs and are neither high nor short */
    int64_t groups;     /* all of them */
    int64_t lone;       /* groups whose one tile is alone over its tokens */
    int64_t short_ones; /* short groups that are not lone */
    int64_t short_ctas; /* CTAs of a head that those would be as pairs */
    /* Are short groups pairs, too? Only if they are many, and no lone group needs a second kernel anyway. */
    bool short_too;
    /* Does the launch hold up groups in other tiles? A CTA of a pair begins on an empty SM only. So it waits for such groups
     * that run before it, and groups behind it wait for those that run beside it. */
    bool in_chain;
};

static void count_launches(struct crowd *crowd, const struct alike *alike, int64_t n_alike,
                           const int64_t *group, const struct plan *plan)
{
    for (int64_t i = 0; i < plan->n_groups; i++) {
        crowd[plan->group[i].launch].groups++;
        crowd[plan->group[i].launch].lone++;
    }
    for (const struct alike *x = alike; x < alike + n_alike; x++) {
        const struct group *g = &plan->group[group[x->first]];
        struct crowd *c = &crowd[g->launch];
        c->lone -= x->end - x->first;
        if (is_short(g)) {
            c->short_ones += x->end - x->first;
            c->short_ctas += ceil_div(x->tiles, 2);
        } else if (!is_high(g)) {
            c->tiles += x->tiles;
        }
    }
}

static void decide_launches(struct crowd *crowd, const struct plan *plan, const struct pairs_card *card)
{
    int64_t before = 0, others_before = 0;                    /* in other tiles */
    for (int32_t l = 0, end; l < plan->n_launches; l = end) { /* launches l .. end run side by side */
        int64_t groups = 0, others = 0;
        for (end = l; end < plan->n_launches && (end == l || plan->launch[end].order == LAUNCH_CONCURRENT);
             end++) {
            struct crowd *c = &crowd[end];
            c->short_too = c->lone == 0 && c->short_ctas * card->h_kv >= (int64_t)MANY_WAVES * card->sms;
            groups += c->groups;
            others += c->lone + (c->short_too ? 0 : c->short_ones);
        }
        before += groups;
        for (int32_t i = l; i < end; i++)
            crowd[i].in_chain = others_before > 0 || (others > 0 && before < plan->n_groups);
        others_before += others;
    }
}

/* Should tiles be pairs? High ones have an SM to themselves in any case. A CTA of a pair has one, too, and takes less than two
 * thirds of the time that two CTAs take there. */
static bool worth_it(const struct pairs_card *card, const struct crowd *c, const struct group *g)
{
    int64_t ctas = c->tiles * card->h_kv;
    if (card->everywhere || is_high(g))
        return true;
    if (is_short(g))
        return c->short_too;
    return ctas > card->sms || (4 * ctas > 3 * card->sms && g->n_kv < FEW_TOKENS && !c->in_chain);
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
    count_launches(crowd, alike, n_alike, group, plan);
    decide_launches(crowd, plan, c);
    p->group = xcalloc((size_t)n, sizeof *p->group);
    for (const struct alike *x = alike; x < alike + n_alike; x++) {
        const struct group *g = &plan->group[group[x->first]];
        if (worth_it(c, &crowd[g->launch], g))
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
