/*
 * plan.c - faults in who computes what: groups, runs, queries, masks.
 *
 * Each fault leaves the rest of the plan consistent (slots renumbered, partials merged), so that only the
 * rule that it breaks can give it away.
 */
#include "verify/faults/kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The place in words, with the group's query and the run as the tree numbers them. */
static void say_place(const struct fault_case *fc, struct broken *b, const struct place *x, const char *what)
{
    struct run r = plan_tree_run(fc->plan, place_run(fc->plan, x));
    int32_t q = plan_query(fc->plan, &fc->plan->group[x->g], x->k);
    fault_place(b, "%s: group %" PRId64 ", query %" PRId32 ", node %" PRId32 " tokens %" PRId64 "-%" PRId64,
                what, x->g, fc->nf->orig[q], r.node, r.begin, r.end);
}

/* Slots first .. first + n disappear: no step reads them, those above move down. */
static void drop_slots(struct plan *p, int64_t first, int64_t n)
{
    for (int64_t m = 0; m < p->n_merges; m++) {
        struct merge_step *step = &p->merge[m];
        for (int64_t i = step->in1 - 1; i >= step->in0; i--)
            if (p->merge_in[i] >= first && p->merge_in[i] < first + n)
                edit_drop_input(p, m, i);
            else if (p->merge_in[i] >= first + n)
                p->merge_in[i] -= n;
        if (step->onchip >= first && step->onchip < first + n)
            step->onchip = PLAN_NO_SLOT;
        else if (step->onchip >= first + n)
            step->onchip -= n;
        if (step->out >= first + n)
            step->out -= n;
    }
    for (int64_t g = 0; g < p->n_groups; g++)
        if (p->group[g].slot0 >= first + n)
            p->group[g].slot0 -= n;
    p->n_slots -= n;
}

/* ---- groups ------------------------------------------------------------------------------------------ */

/* Its slots go too: all the wiring is sound, only tokens are missing. */
KIND_AT(group_dropped, struct place, place_draw(fc, b, &x))
{
    struct plan *p = fault_edit_plan(fc, b);
    struct group gone = p->group[x->g];
    memmove(p->group + x->g, p->group + x->g + 1, (size_t)(p->n_groups - x->g - 1) * sizeof *p->group);
    p->n_groups--;
    if (gone.slot0 != PLAN_NO_SLOT)
        drop_slots(p, gone.slot0, gone.nq);
    say_place(fc, b, x, "dropped");
    return true;
}

/* The copy runs in the launch of the first; both partials are merged. A group whose partial never leaves the
 * chip is spared: its copy would have to be stored, which is another plan. */
bool plant_group_doubled(const struct fault_case *fc, struct broken *b)
{
    struct place x;
    struct slot_use *map = slots_map(fc->plan);
    bool found = false;
    EACH_PLACE(fc->plan, b, &x)
    {
        int64_t slot0 = fc->plan->group[x.g].slot0;
        found = (slot0 == PLAN_NO_SLOT || !map[slot0 + x.k].onchip) && place_seen(fc, &x);
        if (found)
            break;
    }
    free(map);
    if (!found)
        return false;
    struct plan *p = fault_edit_plan(fc, b);
    if (p->group[x.g].slot0 == PLAN_NO_SLOT)
        edit_through_slots(p, x.g);
    p->group = xgrow(p->group, &p->cap_group, p->n_groups + 1, sizeof *p->group);
    struct group *copy = &p->group[p->n_groups++];
    *copy = p->group[x.g];
    copy->slot0 = edit_add_slots(p, copy->nq);
    map = slots_map(p);
    for (int32_t k = 0; k < copy->nq; k++)
        edit_add_input(p, map[p->group[x.g].slot0 + k].reader, copy->slot0 + k);
    free(map);
    say_place(fc, b, &x, "doubled");
    return true;
}

/* ---- runs -------------------------------------------------------------------------------------------- */

/* The group gets lists of its own in which the run stands twice. Both copies carry the same mask bits, so every
 * query that sees the run counts it twice. */
KIND_AT(run_doubled, struct place, place_draw(fc, b, &x))
{
    struct plan *p = fault_edit_plan(fc, b);
    struct group *g = &p->group[x->g];
    int64_t nr = g->run1 - g->run0, to = p->n_runs, bits = p->n_mask;
    p->run = xgrow(p->run, &p->cap_run, to + nr + 1, sizeof *p->run);
    for (int64_t i = 0; i <= nr; i++)
        p->run[to + i] = p->run[g->run0 + (i <= x->r ? i : i - 1)];
    p->n_runs += nr + 1;
    if (g->mask != MASK_NONE) {
        p->mask = xgrow(p->mask, &p->cap_mask, bits + g->nq * (nr + 1), 1);
        for (int64_t k = 0; k < g->nq; k++)
            for (int64_t i = 0; i <= nr; i++)
                p->mask[bits + k * (nr + 1) + i] = p->mask[g->mask0 + k * nr + (i <= x->r ? i : i - 1)];
        p->n_mask += g->nq * (nr + 1);
        g->mask0 = bits;
    }
    g->run0 = to;
    g->run1 = to + nr + 1;
    g->n_kv += p->run[to + x->r].end - p->run[to + x->r].begin;
    say_place(fc, b, x, "run doubled");
    return true;
}

/* Move one end of a run by one token within its node: one token lost, or one read that another run reads. */
static bool move_end(const struct fault_case *fc, struct broken *b, bool at_begin)
{
    const struct plan *p = fc->plan;
    struct place x;
    EACH_PLACE(p, b, &x)
    {
        const struct run *r = place_run(p, &x);
        int32_t q = plan_query(p, &p->group[x.g], x.k);
        if (!plan_visible(p, &p->group[x.g], x.k, x.r))
            continue;
        int64_t inside = at_begin ? r->begin : r->end - 1, outside = at_begin ? r->begin - 1 : r->end;
        bool lose = r->end - r->begin >= 2 && fault_seen(fc, q, r->node, inside, inside + 1);
        bool gain = outside >= 0 && outside < fc->nf->len[r->node] &&
                    fault_seen(fc, q, r->node, outside, outside + 1);
        if (!lose && !gain)
            continue;
        int64_t step = lose && (!gain || fault_draw(b, 2)) ? -1 : 1;
        struct plan *e = fault_edit_plan(fc, b);
        struct run *moved = &e->run[e->group[x.g].run0 + x.r];
        moved->begin -= at_begin ? step : 0;
        moved->end += at_begin ? 0 : step;
        e->group[x.g].n_kv += step;
        say_place(fc, b, &x, step > 0 ? "one token more" : "one token less");
        return true;
    }
    return false;
}

KIND(run_begin, move_end(fc, b, true))
KIND(run_end, move_end(fc, b, false))

/* As many tokens from the head of another node, so that totals and tiles stay as they were. */
bool plant_run_moved(const struct fault_case *fc, struct broken *b)
{
    struct place x;
    EACH_PLACE(fc->plan, b, &x)
    {
        const struct run *r = place_run(fc->plan, &x);
        int32_t to = -1;
        EACH_INDEX(b, node, fc->nf->n_nodes)
        if (to < 0 && node != r->node && fc->nf->len[node] >= r->end - r->begin)
            to = (int32_t)node;
        if (to < 0 || !place_seen(fc, &x))
            continue;
        fault_edit_plan(fc, b)->run[r - fc->plan->run] = (struct run){.node = to, .end = r->end - r->begin};
        say_place(fc, b, &x, "moved");
        return true;
    }
    return false;
}

/* ---- queries ----------------------------------------------------------------------------------------- */

/* Ranges are few; no need for a set. */
static bool group_has(const struct plan *p, const struct group *g, int32_t q)
{
    for (int64_t i = g->qr0; i < g->qr1; i++)
        if (q >= p->qr[i].begin && q < p->qr[i].end)
            return true;
    return false;
}

/* The range of the group that holds its k-th query. */
static int64_t range_of(const struct plan *p, const struct group *g, int32_t k)
{
    int64_t i = g->qr0;
    for (; k >= p->qr[i].end - p->qr[i].begin; i++)
        k -= p->qr[i].end - p->qr[i].begin;
    return i;
}

/* The range loses one query and takes in a neighbour; partials land in slots of the query beside theirs. */
bool plant_query_shifted(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    struct place x;
    EACH_PLACE(p, b, &x)
    {
        const struct group *g = &p->group[x.g];
        int64_t range = range_of(p, g, x.k);
        int32_t before = p->qr[range].begin - 1, after = p->qr[range].end;
        bool up = after < fc->nf->n_queries && !group_has(p, g, after);
        bool down = before >= 0 && !group_has(p, g, before);
        int32_t step = up && (!down || fault_draw(b, 2)) ? 1 : down ? -1 : 0;
        if (step == 0 || !place_seen(fc, &x))
            continue;
        struct qrange *moved = &fault_edit_plan(fc, b)->qr[range];
        moved->begin += step;
        moved->end += step;
        say_place(fc, b, &x, step > 0 ? "queries + 1" : "queries - 1");
        return true;
    }
    return false;
}

/* The foreign query reads what it does not see, and the one it replaces lacks what it does. */
bool plant_query_foreign(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    struct place x;
    int32_t foreign = -1;
    EACH_PLACE(p, b, &x)
    {
        EACH_INDEX(b, q, fc->nf->n_queries)
        if (foreign < 0 && !group_has(p, &p->group[x.g], (int32_t)q))
            foreign = (int32_t)q;
        if (foreign >= 0 && place_seen(fc, &x))
            break;
        foreign = -1;
    }
    if (foreign < 0)
        return false;
    /* New ranges, one per query: the foreign one takes the k-th place, the others keep theirs. */
    struct plan *e = fault_edit_plan(fc, b);
    struct group *g = &e->group[x.g];
    int32_t *q = xcalloc((size_t)g->nq, sizeof *q);
    plan_queries(e, g, q);
    q[x.k] = foreign;
    e->qr = xgrow(e->qr, &e->cap_qr, e->n_qr + g->nq, sizeof *e->qr);
    g->qr0 = e->n_qr;
    for (int32_t k = 0; k < g->nq; k++)
        e->qr[e->n_qr++] = (struct qrange){q[k], q[k] + 1};
    g->qr1 = e->n_qr;
    free(q);
    say_place(fc, b, &x, "foreign query for");
    return true;
}

/* ---- masks ------------------------------------------------------------------------------------------- */

/* Where the plan keeps the bit of that place. */
static int64_t mask_bit(const struct plan *p, const struct place *x)
{
    const struct group *g = &p->group[x->g];
    return g->mask0 + x->k * (g->run1 - g->run0) + x->r;
}

/* A random place in a masked group with that visibility, whose tokens matter to the query. */
static bool draw_masked(const struct fault_case *fc, struct broken *b, bool visible, struct place *x)
{
    EACH_PLACE(fc->plan, b, x)
    {
        const struct group *g = &fc->plan->group[x->g];
        if (g->mask != MASK_NONE && plan_visible(fc->plan, g, x->k, x->r) == visible && place_matters(fc, x))
            return true;
    }
    return false;
}

static bool flip_bit(const struct fault_case *fc, struct broken *b, bool visible)
{
    struct place x;
    if (!draw_masked(fc, b, visible, &x))
        return false;
    fault_edit_plan(fc, b)->mask[mask_bit(fc->plan, &x)] = !visible;
    say_place(fc, b, &x, visible ? "hidden" : "shown");
    return true;
}

/* A visible run is lost to one query. */
KIND(mask_hidden, flip_bit(fc, b, true))

/* One query reads a run of another branch. */
KIND(mask_shown, flip_bit(fc, b, false))

/* All queries of the group read all of its runs. */
KIND_AT(mask_ignored, struct place, draw_masked(fc, b, false, &x))
{
    fault_edit_plan(fc, b)->group[x->g].mask = MASK_NONE;
    say_place(fc, b, x, "mask ignored");
    return true;
}

/* The group's bits move one place, the last comes first (or the other way round). */
bool plant_mask_shifted(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    struct place x;
    int64_t step = fault_draw(b, 2) ? 1 : -1;
    EACH_PLACE(p, b, &x)
    {
        const struct group *g = &p->group[x.g];
        int64_t bits = g->nq * (g->run1 - g->run0), bit = mask_bit(p, &x) - g->mask0;
        if (g->mask == MASK_NONE || !place_matters(fc, &x))
            continue;
        const uint8_t *old = p->mask + g->mask0;
        if (old[bit] == old[(bit + step + bits) % bits])
            continue;
        struct plan *e = fault_edit_plan(fc, b);
        for (int64_t i = 0; i < bits; i++)
            e->mask[g->mask0 + i] = old[(i + step + bits) % bits];
        say_place(fc, b, &x, "mask shifted");
        return true;
    }
    return false;
}

/* Rows that differ in one bit at least, in a run that matters. */
bool plant_mask_rows_swapped(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    struct place x;
    EACH_PLACE(p, b, &x)
    {
        const struct group *g = &p->group[x.g];
        if (g->mask == MASK_NONE || !place_matters(fc, &x))
            continue;
        int32_t other = 0; /* a query with the opposite bit */
        while (other < g->nq && plan_visible(p, g, other, x.r) == plan_visible(p, g, x.k, x.r))
            other++;
        if (other == g->nq)
            continue;
        struct plan *e = fault_edit_plan(fc, b);
        int64_t nr = g->run1 - g->run0;
        for (int64_t i = 0; i < nr; i++) {
            uint8_t *one = &e->mask[g->mask0 + x.k * nr + i], *two = &e->mask[g->mask0 + other * nr + i],
                    bit = *one;
            *one = *two;
            *two = bit;
        }
        say_place(fc, b, &x, "mask rows swapped");
        return true;
    }
    return false;
}
