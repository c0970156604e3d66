/*
 * edit.c - finding places in a plan, and editing it.
 */
#include "verify/faults/kinds.h"

#include <stdlib.h>
#include <string.h>

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

void place_next(const struct plan *p, struct place *x)
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

const struct run *place_run(const struct plan *p, const struct place *x)
{
    return &p->run[p->group[x->g].run0 + x->r];
}

bool place_matters(const struct fault_case *fc, const struct place *x)
{
    const struct run *r = place_run(fc->plan, x);
    return fault_seen(fc, plan_query(fc->plan, &fc->plan->group[x->g], x->k), r->node, r->begin, r->end);
}

bool place_seen(const struct fault_case *fc, const struct place *x)
{
    return plan_visible(fc->plan, &fc->plan->group[x->g], x->k, x->r) && place_matters(fc, x);
}

bool place_draw(const struct fault_case *fc, struct broken *b, struct place *x)
{
    EACH_PLACE(fc->plan, b, x)
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
        map[s] = (struct slot_use){.group = -1, .writer = -1, .reader = -1};
    for (int64_t g = 0; g < p->n_groups; g++)
        for (int32_t k = 0; p->group[g].slot0 != PLAN_NO_SLOT && k < p->group[g].nq; k++) {
            map[p->group[g].slot0 + k].group = g;
            map[p->group[g].slot0 + k].k = k;
        }
    for (int64_t m = 0; m < p->n_merges; m++) {
        const struct merge_step *step = &p->merge[m];
        if (step->out != PLAN_NO_SLOT)
            map[step->out].writer = m;
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

/* Still exact: merging one partial gives it back. */
void edit_through_slots(struct plan *p, int64_t g)
{
    int32_t nq = p->group[g].nq, *q = xcalloc((size_t)nq, sizeof *q);
    plan_queries(p, &p->group[g], q);
    p->group[g].slot0 = edit_add_slots(p, nq);
    int32_t launch = plan_launch(p, "merge", LAUNCH_SERIAL);
    for (int32_t k = 0; k < nq; k++)
        edit_add_input(p, edit_add_merge(p, q[k], launch), p->group[g].slot0 + k);
    free(q);
}
