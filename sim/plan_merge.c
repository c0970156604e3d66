/* plan_merge.c - how a plan's partials become outputs: in one step, level by level, or fused. */
#include "sim/plan.h"

#include <stdlib.h>

/* A slot with the launch that fills it above it, while slots are wired. */
enum { SLOT_BITS = 40 };
#define SLOT_MASK ((INT64_C(1) << SLOT_BITS) - 1)

/* The entries of in[] are slots, whatever they carry above. */
static void add_step(struct plan *p, struct merge_step m, const int64_t *in, int64_t n_in)
{
    m.in0 = p->n_merge_in;
    p->merge_in = xgrow(p->merge_in, &p->cap_merge_in, p->n_merge_in + n_in, sizeof *p->merge_in);
    for (int64_t i = 0; i < n_in; i++)
        p->merge_in[p->n_merge_in++] = in[i] & SLOT_MASK;
    m.in1 = p->n_merge_in;
    p->merge = xgrow(p->merge, &p->cap_merge, p->n_merges + 1, sizeof *p->merge);
    p->merge[p->n_merges++] = m;
}

/*
 * Give every group its slots, except groups that may write the output themselves, and list each query's slots in group
 * order: slots of query q are list[ptr[q] .. ptr[q + 1]). If asked for, an entry carries the launch that fills its slot
 * as well: an array beside the list would be touched once more for each partial.
 */
struct wiring {
    int64_t *ptr;
    int64_t *list;
    uint8_t *done; /* the query's output is written by a group */
};

static struct wiring wire(struct plan *p, bool direct, bool launches)
{
    int32_t nq = p->nf->n_queries;
    struct wiring w = {
        .ptr = xcalloc((size_t)nq + 2, sizeof *w.ptr),
        .done = xcalloc((size_t)nq, 1),
    };
    /* Shifted by two: the prefix sum in place makes ptr[q + 1] the start of q's list, filling it the end. */
    int64_t *count = w.ptr + 2, *next = w.ptr + 1;
    for (int64_t i = 0; i < p->n_qr; i++)
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
            count[q]++;
    for (int64_t g = 0; g < p->n_groups; g++) {
        struct group *x = &p->group[g];
        bool alone = direct;
        for (int64_t i = x->qr0; i < x->qr1 && alone; i++)
            for (int32_t q = p->qr[i].begin; q < p->qr[i].end && alone; q++)
                alone = count[q] == 1;
        if (!alone) {
            x->slot0 = p->n_slots;
            p->n_slots += x->nq;
            continue;
        }
        for (int64_t i = x->qr0; i < x->qr1; i++)
            for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
                w.done[q] = 1;
    }
    for (int32_t q = 0; q < nq; q++)
        count[q] = w.done[q] ? 0 : count[q];
    for (int32_t q = 0; q < nq; q++)
        next[q + 1] += next[q];
    w.list = xrealloc(NULL, (size_t)next[nq], sizeof *w.list);
    CK(p->n_slots <= SLOT_MASK && p->n_launches < 1 << (63 - SLOT_BITS));
    const struct group *g = p->group;
    int64_t slot = 0; /* numbered as groups stand and so their ranges, which are all this needs to read */
    for (int64_t i = 0; i < p->n_qr; i++) {
        for (; launches && g->qr1 <= i; g++)
            ;
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++) {
            if (w.done[q])
                continue;
            w.list[next[q]++] = slot++ | (launches ? (int64_t)g->launch << SLOT_BITS : 0);
        }
    }
    return w;
}

static void unwire(struct wiring *w)
{
    free(w->ptr);
    free(w->list);
    free(w->done);
}

void plan_merge_flat(struct plan *p, const char *name, bool direct)
{
    struct wiring w = wire(p, direct, false);
    int32_t launch = -1, nq = p->nf->n_queries;
    for (int32_t q = 0; q < nq; q++)
        p->cap_merge += !w.done[q];
    p->merge = xrealloc(NULL, (size_t)p->cap_merge, sizeof *p->merge);
    for (int32_t q = 0; q < nq; q++) {
        if (w.done[q])
            continue;
        if (launch < 0)
            launch = plan_launch(p, name, LAUNCH_SERIAL);
        p->merge[p->n_merges++] = (struct merge_step){.in0 = w.ptr[q],
                                                      .in1 = w.ptr[q + 1],
                                                      .out = PLAN_NO_SLOT,
                                                      .query = q,
                                                      .launch = launch,
                                                      .onchip = PLAN_NO_SLOT};
    }
    p->merge_in = w.list; /* the lists stand in query order already */
    p->n_merge_in = p->cap_merge_in = w.ptr[nq];
    w.list = NULL;
    unwire(&w);
}

static int32_t launch_of(int64_t entry)
{
    return (int32_t)(entry >> SLOT_BITS);
}

/* Order the slots of a query by the launch that fills them; few per query, already nearly sorted. */
static void sort_by_launch(int64_t *list, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && launch_of(list[j]) < launch_of(list[j - 1]); j--) {
            int64_t s = list[j];
            list[j] = list[j - 1];
            list[j - 1] = s;
        }
}

/*
 * Launches are renumbered so that a merge launch follows each attention launch but the first: attention
 * launches 0, 1, 2 become 0, 1, 3 and their merges 2, 4.
 */
void plan_merge_levels(struct plan *p, const char *name)
{
    struct wiring w = wire(p, true, true);
    if (p->n_launches == 0) /* nothing to read at all: only empty outputs are owed */
        plan_launch(p, "attention", LAUNCH_SERIAL);
    int32_t nq = p->nf->n_queries, levels = p->n_launches;
    struct launch *old = p->launch;
    p->launch = NULL;
    p->n_launches = 0;
    for (int32_t l = 0; l < levels; l++) {
        plan_launch(p, old[l].name, old[l].order);
        if (l > 0)
            plan_launch(p, name, LAUNCH_SERIAL);
    }
    if (levels == 1)
        plan_launch(p, name, LAUNCH_SERIAL); /* for queries that see nothing, if any */
    free(old);
    for (int64_t g = 0; g < p->n_groups; g++)
        p->group[g].launch = p->group[g].launch == 0 ? 0 : 2 * p->group[g].launch - 1;

    int32_t last = p->n_launches - 1;
    p->cap_merge = w.ptr[nq]; /* at most one step per slot, or one for a query without any */
    for (int32_t q = 0; q < nq; q++)
        p->cap_merge += w.ptr[q + 1] == w.ptr[q];
    p->merge = xrealloc(NULL, (size_t)p->cap_merge, sizeof *p->merge);
    p->cap_merge_in = 2 * w.ptr[nq];
    p->merge_in = xrealloc(NULL, (size_t)p->cap_merge_in, sizeof *p->merge_in);
    for (int32_t q = 0; q < nq; q++) {
        int64_t *in = w.list + w.ptr[q], n = w.ptr[q + 1] - w.ptr[q];
        if (w.done[q])
            continue;
        sort_by_launch(in, n);
        struct merge_step m = {.out = PLAN_NO_SLOT, .query = q, .launch = last, .onchip = PLAN_NO_SLOT};
        if (n <= 1) { /* nothing to combine: an output is still owed */
            if (n == 1)
                m.launch = launch_of(in[0]) == 0 ? 1 + (levels > 1) : 2 * launch_of(in[0]);
            add_step(p, m, in, n);
            continue;
        }
        int64_t so_far = in[0];
        for (int64_t i = 1; i < n; i++) {
            int64_t pair[2] = {so_far, in[i]};
            m.launch = 2 * launch_of(in[i]);
            m.out = i + 1 < n ? p->n_slots++ : PLAN_NO_SLOT;
            add_step(p, m, pair, 2);
            so_far = m.out;
        }
    }
    if (levels == 1 && p->n_merges == 0)
        p->n_launches = 1;
    unwire(&w);
}

void plan_merge_fused(struct plan *p)
{
    struct wiring w = wire(p, true, true);
    int32_t empty = -1; /* launch for queries that see nothing */
    for (int32_t q = 0; q < p->nf->n_queries; q++) {
        int64_t *in = w.list + w.ptr[q], n = w.ptr[q + 1] - w.ptr[q];
        if (w.done[q])
            continue;
        sort_by_launch(in, n);
        struct merge_step m = {.out = PLAN_NO_SLOT, .query = q, .onchip = PLAN_NO_SLOT};
        if (n > 0) {
            m.launch = launch_of(in[n - 1]);
            m.onchip = in[n - 1] & SLOT_MASK;
            CK(n == 1 || launch_of(in[n - 2]) < m.launch); /* the others must be complete by then */
        } else {
            if (empty < 0)
                empty = plan_launch(p, "empty outputs", LAUNCH_SERIAL);
            m.launch = empty;
        }
        add_step(p, m, in, n);
    }
    unwire(&w);
}
