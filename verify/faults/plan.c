/*
 * plan.c - finding places in a plan, editing it, and faults in who computes what: groups, runs, queries, masks.
 *
 * Each fault leaves the rest of the plan consistent (slots renumbered, partials merged), so that only the
 * rule that it breaks can give it away.
 */
#include "verify/faults/kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- places ------------------------------------------------------------------------------------------ */

/* Places are numbered group by group, query by query, run by run; the first one is uniform among them. */
int64_t place_first(const struct plan *p, struct broken *b, struct place *x)
{
    int64_t total = 0;
    for (int64_t g = 0; g < p->n_groups; g++)
        total += p->group[g].nq * (p->group[g].run1 - p->group[g].run0);
    if (total == 0)
        return 0;
    int64_t at = fault_draw(b, total), size;
    x->g = 0;
    while (at >= (size = p->group[x->g].nq * (p->group[x->g].run1 - p->group[x->g].run0))) {
        at -= size;
        x->g++;
    }
    int64_t nr = p->group[x->g].run1 - p->group[x->g].run0;
    x->k = (int32_t)(at / nr);
    x->r = at % nr;
    return total;
}

/* The place behind it; behind the last is the first. */
static void place_next(const struct plan *p, struct place *x)
{
    const struct group *g = &p->group[x->g];
    if (++x->r < g->run1 - g->run0)
        return;
    x->r = 0;
    if (++x->k < g->nq)
        return;
    x->k = 0;
    do { /* groups without queries or runs have no place */
        x->g = (x->g + 1) % p->n_groups;
        g = &p->group[x->g];
    } while (g->nq == 0 || g->run0 == g->run1);
}

/* Every place once, from a random one on. */
#define EACH_PLACE(p, b, x) for (int64_t left = place_first(p, b, x); left > 0; left--, place_next(p, x))

static const struct run *place_run(const struct plan *p, const struct place *x)
{
    return &p->run[p->group[x->g].run0 + x->r];
}

/* Do its tokens matter to the query, visible or not? */
static bool place_matters(const struct fault_case *fc, const struct place *x)
{
    const struct run *r = place_run(fc->plan, x);
    return fault_seen(fc, plan_query(fc->plan, &fc->plan->group[x->g], x->k), r->node, r->begin, r->end);
}

/* Visible, and its tokens matter to the query. */
static bool place_seen(const struct fault_case *fc, const struct place *x)
{
    return plan_visible(fc->plan, &fc->plan->group[x->g], x->k, x->r) && place_matters(fc, x);
}

/* A random place that is seen. */
static bool place_draw(const struct fault_case *fc, struct broken *b, struct place *x)
{
    EACH_PLACE (fc->plan, b, x)
        if (place_seen(fc, x))
            return true;
    return false;
}

/* ---- slots and edits --------------------------------------------------------------------------------- */

/* Groups first, then steps: in a sound plan no slot has two writers or two readers. */
struct slot_use *slots_map(const struct plan *p)
{
    struct slot_use *map = xcalloc((size_t)p->n_slots, sizeof *map);
    for (int64_t s = 0; s < p->n_slots; s++)
        map[s] = (struct slot_use){.group = -1, .reader = -1};
    for (int64_t g = 0; g < p->n_groups; g++)
        for (int32_t k = 0; p->group[g].slot0 != PLAN_NO_SLOT && k < p->group[g].nq; k++) {
            map[p->group[g].slot0 + k].group = g;
            map[p->group[g].slot0 + k].k = k;
        }
    for (int64_t m = 0; m < p->n_merges; m++) {
        const struct merge_step *step = &p->merge[m];
        for (int64_t i = step->in0; i < step->in1; i++) {
            struct slot_use *use = &map[p->merge_in[i]];
            use->reader = m;
            use->pos = i;
            use->onchip = step->onchip == p->merge_in[i];
        }
    }
    return map;
}

/* One visible run that matters is enough. */
bool slot_seen(const struct fault_case *fc, const struct slot_use *use)
{
    struct place x = {.g = use->group, .k = use->k};
    if (use->group < 0)
        return false;
    for (; x.r < fc->plan->group[x.g].run1 - fc->plan->group[x.g].run0; x.r++)
        if (place_seen(fc, &x))
            return true;
    return false;
}

int64_t edit_add_slots(struct plan *p, int64_t n)
{
    p->n_slots += n;
    return p->n_slots - n;
}

int64_t edit_add_merge(struct plan *p, int32_t query, int32_t launch)
{
    p->merge = xgrow(p->merge, &p->cap_merge, p->n_merges + 1, sizeof *p->merge);
    p->merge[p->n_merges] =
        (struct merge_step){.out = PLAN_NO_SLOT, .query = query, .launch = launch, .onchip = PLAN_NO_SLOT};
    return p->n_merges++;
}

/* The inputs of a step must be consecutive: they move to the end, the old ones stay behind unread. */
void edit_add_input(struct plan *p, int64_t m, int64_t slot)
{
    struct merge_step *step = &p->merge[m];
    int64_t n = step->in1 - step->in0, to = p->n_merge_in;
    p->merge_in = xgrow(p->merge_in, &p->cap_merge_in, to + n + 1, sizeof *p->merge_in);
    memcpy(p->merge_in + to, p->merge_in + step->in0, (size_t)n * sizeof *p->merge_in);
    p->merge_in[to + n] = slot;
    p->n_merge_in += n + 1;
    step->in0 = to;
    step->in1 = to + n + 1;
}

/* The order of the other inputs stays, and with it the order of rounding. */
void edit_drop_input(struct plan *p, int64_t m, int64_t pos)
{
    struct merge_step *step = &p->merge[m];
    memmove(p->merge_in + pos, p->merge_in + pos + 1, (size_t)(step->in1 - pos - 1) * sizeof *p->merge_in);
    step->in1--;
}

/* A group that writes the output goes through slots and a merge launch of its own instead. Still exact: merging one
 * partial gives it back. */
static void edit_through_slots(struct plan *p, int64_t g)
{
    int32_t nq = p->group[g].nq, *q = xcalloc((size_t)nq, sizeof *q);
    plan_queries(p, &p->group[g], q);
    p->group[g].slot0 = edit_add_slots(p, nq);
    int32_t launch = plan_launch(p, "merge", LAUNCH_SERIAL);
    for (int32_t k = 0; k < nq; k++)
        edit_add_input(p, edit_add_merge(p, q[k], launch), p->group[g].slot0 + k);
    free(q);
}

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
    EACH_PLACE (fc->plan, b, &x) {
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
    EACH_PLACE (p, b, &x) {
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
    EACH_PLACE (fc->plan, b, &x) {
        const struct run *r = place_run(fc->plan, &x);
        int32_t to = -1;
        EACH_INDEX (b, node, fc->nf->n_nodes)
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
    EACH_PLACE (p, b, &x) {
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
    EACH_PLACE (p, b, &x) {
        EACH_INDEX (b, q, fc->nf->n_queries)
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
    EACH_PLACE (fc->plan, b, x) {
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
    EACH_PLACE (p, b, &x) {
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
    EACH_PLACE (p, b, &x) {
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
