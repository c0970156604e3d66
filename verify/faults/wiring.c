/*
 * wiring.c - faults in where results go: slots, merge steps, launches, indices out of range.
 *
 * What reads unwritten memory, goes out of bounds or races is marked no_run: there the coverage check is the
 * only judge, and must be.
 */
#include "verify/faults/kinds.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- merges ------------------------------------------------------------------------------------------ */

/* A random stored slot whose partial matters to its query, with a reader: its use; false if there is none. */
static bool draw_slot(const struct fault_case *fc, struct broken *b, struct slot_use *use)
{
    struct slot_use *map = slots_map(fc->plan);
    bool found = false;
    EACH_INDEX (b, i, fc->plan->n_slots) {
        *use = map[i];
        found = use->reader >= 0 && !use->onchip && slot_seen(fc, use);
        if (!found)
            continue;
        fault_place(b, "slot %" PRId64 " of merge step %" PRId64, i, use->reader);
        break;
    }
    free(map);
    return found;
}

/* The slot is written and never read. */
KIND_AT(input_dropped, struct slot_use, draw_slot(fc, b, &x))
{
    edit_drop_input(fault_edit_plan(fc, b), x->reader, x->pos);
    return true;
}

/* The partial weighs twice: O moves towards it, LSE grows. */
KIND_AT(input_doubled, struct slot_use, draw_slot(fc, b, &x))
{
    edit_add_input(fault_edit_plan(fc, b), x->reader, fc->plan->merge_in[x->pos]);
    return true;
}

/* The wrong slot must have been written when the step reads it: a group's, in an earlier launch. */
KIND_AT(partial_lost, struct slot_use, draw_slot(fc, b, &x))
{
    const struct plan *p = fc->plan;
    int64_t wrong = -1;
    struct slot_use *map = slots_map(p);
    EACH_INDEX (b, i, p->n_slots) {
        const struct slot_use *use = &map[i];
        if (wrong < 0 && use->group >= 0 && use->reader >= 0 && !use->onchip &&
            p->merge[use->reader].query != p->merge[x->reader].query &&
            p->group[use->group].launch < p->merge[x->reader].launch)
            wrong = i;
    }
    free(map);
    if (wrong < 0)
        return false;
    fault_edit_plan(fc, b)->merge_in[x->pos] = wrong;
    fault_place(b, "slot %" PRId64 " read for slot %" PRId64 " by merge step %" PRId64, wrong,
                p->merge_in[x->pos], x->reader);
    return true;
}

/* A random merge step that writes the output of a query that sees something; -1 if there is none. */
static int64_t draw_last_step(const struct fault_case *fc, struct broken *b, int64_t not_this)
{
    const struct plan *p = fc->plan;
    EACH_INDEX (b, m, p->n_merges)
        if (m != not_this && p->merge[m].out == PLAN_NO_SLOT && nform_context(fc->nf, p->merge[m].query) > 0)
            return m;
    return -1;
}

/* Both outputs are written, each with the other's result. */
bool plant_steps_swapped(const struct fault_case *fc, struct broken *b)
{
    int64_t one = draw_last_step(fc, b, -1), two = one < 0 ? -1 : draw_last_step(fc, b, one);
    if (two < 0)
        return false;
    struct plan *p = fault_edit_plan(fc, b);
    int32_t q = p->merge[one].query;
    p->merge[one].query = p->merge[two].query;
    p->merge[two].query = q;
    fault_place(b, "merge steps %" PRId64 " and %" PRId64, one, two);
    return true;
}

/* Either a merge step or a group that writes directly; the output keeps its NaN. */
bool plant_output_unwritten(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    EACH_INDEX (b, m, p->n_merges + p->n_groups) {
        int64_t g = m - p->n_merges;
        if (g < 0 && p->merge[m].out == PLAN_NO_SLOT) {
            struct plan *e = fault_edit_plan(fc, b);
            e->merge[m].out = edit_add_slots(e, 1);
            fault_place(b, "merge step %" PRId64, m);
            return true;
        }
        if (g >= 0 && p->group[g].slot0 == PLAN_NO_SLOT) {
            struct plan *e = fault_edit_plan(fc, b);
            e->group[g].slot0 = edit_add_slots(e, e->group[g].nq);
            fault_place(b, "group %" PRId64, g);
            return true;
        }
    }
    return false;
}

/* After everything else, so that the order is defined and the plan may run. */
bool plant_output_emptied(const struct fault_case *fc, struct broken *b)
{
    EACH_INDEX (b, q, fc->nf->n_queries) {
        if (nform_context(fc->nf, (int32_t)q) == 0)
            continue;
        struct plan *p = fault_edit_plan(fc, b);
        edit_add_merge(p, (int32_t)q, plan_launch(p, "merge", LAUNCH_SERIAL));
        fault_place(b, "query %" PRId32, fc->nf->orig[q]);
        return true;
    }
    return false;
}

/* ---- order: races, never run ------------------------------------------------------------------------- */

/* On a GPU nothing orders a step behind groups of its own launch. */
KIND_AT(merge_early, struct slot_use, draw_slot(fc, b, &x))
{
    fault_edit_plan(fc, b)->merge[x->reader].launch = fc->plan->group[x->group].launch;
    b->no_run = true;
    return true;
}

/* The launch after its producers no longer waits for them: a race that a CPU run in order would hide. */
bool plant_merge_concurrent(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    struct slot_use *map = slots_map(p);
    EACH_INDEX (b, i, p->n_slots) {
        const struct slot_use *use = &map[i];
        if (use->group < 0 || use->reader < 0 || use->onchip)
            continue;
        int32_t launch = p->merge[use->reader].launch;
        if (p->launch[launch].order != LAUNCH_SERIAL || p->group[use->group].launch != launch - 1)
            continue;
        fault_edit_plan(fc, b)->launch[launch].order = LAUNCH_CONCURRENT;
        fault_place(b, "launch %" PRId32, launch);
        b->no_run = true;
        break;
    }
    free(map);
    return b->no_run;
}

/* The second group overwrites the first one's partials, its own slots stay unwritten. */
bool plant_slots_shared(const struct fault_case *fc, struct broken *b)
{
    const struct plan *p = fc->plan;
    int64_t one = -1;
    EACH_INDEX (b, g, p->n_groups) {
        if (p->group[g].slot0 == PLAN_NO_SLOT)
            continue;
        if (one < 0) {
            one = g;
        } else if (p->group[one].slot0 + p->group[g].nq <= p->n_slots) {
            fault_edit_plan(fc, b)->group[g].slot0 = p->group[one].slot0;
            fault_place(b, "groups %" PRId64 " and %" PRId64, one, g);
            b->no_run = true;
            return true;
        }
    }
    return false;
}

/* ---- indices out of range, never run ----------------------------------------------------------------- */

/* A run of a random group in a node that is none; or ending where it begins, or past the end of its node. */
enum spoil { PAST_END, EMPTY, WILD };

static bool spoil_run(const struct fault_case *fc, struct broken *b, enum spoil how)
{
    struct place x;
    if (place_first(fc->plan, b, &x) == 0)
        return false;
    struct plan *p = fault_edit_plan(fc, b);
    struct run *r = &p->run[p->group[x.g].run0 + x.r];
    if (how == WILD)
        r->node = fault_draw(b, 2) ? fc->nf->n_nodes : -1;
    else
        r->end = how == EMPTY ? r->begin : fc->nf->len[r->node] + 1;
    fault_place(b, "group %" PRId64 ", run %" PRId64, x.g, x.r);
    b->no_run = true;
    return true;
}

/* One token more than there are. */
KIND(run_past_end, spoil_run(fc, b, PAST_END))

/* Would be harmless, but the contract of struct run says never empty, and kernels rely on it. */
KIND(run_empty, spoil_run(fc, b, EMPTY))

KIND(node_wild, spoil_run(fc, b, WILD))

KIND_AT(query_wild, struct place, place_first(fc->plan, b, &x) > 0)
{
    struct plan *p = fault_edit_plan(fc, b);
    const struct group *g = &p->group[x->g];
    struct qrange *last = &p->qr[g->qr1 - 1];
    int32_t by = fc->nf->n_queries + 1 - last->end; /* as many queries as before, the last does not exist */
    last->begin += by;
    last->end += by;
    fault_place(b, "group %" PRId64, x->g);
    b->no_run = true;
    return true;
}

/* One past the last, or negative without being PLAN_NO_SLOT. */
KIND_AT(slot_wild, struct slot_use, draw_slot(fc, b, &x))
{
    fault_edit_plan(fc, b)->merge_in[x->pos] = fault_draw(b, 2) ? fc->plan->n_slots : -2;
    b->no_run = true;
    return true;
}

bool plant_launch_wild(const struct fault_case *fc, struct broken *b)
{
    if (fc->plan->n_groups == 0)
        return false;
    struct plan *p = fault_edit_plan(fc, b);
    int64_t g = fault_draw(b, p->n_groups);
    p->group[g].launch = fault_draw(b, 2) ? p->n_launches : -1;
    fault_place(b, "group %" PRId64, g);
    b->no_run = true;
    return true;
}
