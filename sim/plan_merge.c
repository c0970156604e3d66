/* plan_merge.c - how a plan's partials become outputs: in one step, level by level, or fused. */
#include "sim/plan.h"

#include <stdlib.h>
#include <string.h>

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
    if (n_in > 0)
        fetch_ahead(p->merge_in + m.in0, n_in * (int64_t)sizeof *p->merge_in);
    p->merge = xgrow(p->merge, &p->cap_merge, p->n_merges + 1, sizeof *p->merge);
    fetch_ahead(p->merge + p->n_merges, sizeof m);
    p->merge[p->n_merges++] = m;
}

/*
 * Give every group its slots, except groups that may write the output themselves. List each query's slots in
 * group order: slots of query q are list[ptr[q] .. ptr[q + 1]). If asked for, an entry carries the launch
 * that fills its slot as well.
 *
 * Queries are swept in order, with the spans that hold the query at hand. So lists are written front to back,
 * with one jump in memory for each span. Going through the groups would jump once for each partial.
 */
struct wiring {
    int64_t *ptr;
    int64_t *list;
    uint8_t *done; /* the query's output is written by a group */
};

/* A query range of a group. Slots are numbered as groups stand: of spans that share a query, the one of the group that
 * stands first has the smallest key. */
struct span {
    int64_t key; /* slot of query q, less q */
    int32_t end, launch;
};

/*
 * Number the slots: a group all of whose queries are in no other gets none if `direct`, and its queries are done.
 * Returns all spans by first query, then as groups stand; those of query q end before end[q], [nq + 1], zero on entry.
 */
static struct span *number_slots(struct plan *p, bool direct, uint8_t *done, int64_t *end)
{
    enum { SOON = 16 };
    int32_t nq = p->nf->n_queries, groups = 0;                 /* that the query is in */
    int32_t *change = xcalloc((size_t)nq + 1, sizeof *change); /* of that, from the query before */
    int32_t *shared = xcalloc((size_t)nq + 1, sizeof *shared); /* queries before that are in several groups */
    for (int64_t i = 0; i < p->n_qr; i++) {
        end[p->qr[i].begin + 1]++;
        change[p->qr[i].begin]++;
        change[p->qr[i].end]--;
    }
    for (int32_t q = 0; q < nq; q++) {
        end[q + 1] += end[q];
        groups += change[q];
        shared[q + 1] = shared[q] + (groups > 1);
    }
    struct span *out = xrealloc(NULL, (size_t)p->n_qr, sizeof *out);
    for (int64_t k = 0; k < p->n_groups; k++) {
        struct group *g = &p->group[k];
        bool alone = direct;
        for (int64_t i = g->qr0; i < g->qr1 && alone; i++)
            alone = shared[p->qr[i].end] == shared[p->qr[i].begin];
        int64_t slot = p->n_slots;
        if (!alone) {
            g->slot0 = slot;
            p->n_slots += g->nq;
        }
        for (int64_t i = g->qr0; i < g->qr1; i++) {
            struct qrange r = p->qr[i];
            if (alone)
                memset(done + r.begin, 1, (size_t)(r.end - r.begin));
            if (i + SOON < p->n_qr)
                fetch(&out[end[p->qr[i + SOON].begin]]);
            out[end[r.begin]++] = (struct span){slot - r.begin, r.end, g->launch};
            slot += r.end - r.begin;
        }
    }
    free(change);
    free(shared);
    return out;
}

/* Drop the spans that end before query q; returns how many stay. */
static int64_t close_spans(struct span *open, int64_t n, int32_t q)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (open[i].end > q)
            open[kept++] = open[i];
    return kept;
}

/* Merge the spans more[n_more] into open[n], which has room for them, by key. */
static void open_spans(struct span *open, int64_t n, const struct span *more, int64_t n_more)
{
    while (n_more > 0) {
        bool later = n > 0 && open[n - 1].key > more[n_more - 1].key;
        open[n + n_more - 1] = later ? open[n - 1] : more[n_more - 1];
        n -= later;
        n_more -= !later;
    }
}

static struct wiring wire(struct plan *p, bool direct, bool launches)
{
    int32_t nq = p->nf->n_queries;
    struct wiring w = {
        .ptr = xcalloc((size_t)nq + 1, sizeof *w.ptr),
        .done = xcalloc((size_t)nq, 1),
    };
    int64_t *end = xcalloc((size_t)nq + 1, sizeof *end);
    struct span *span = number_slots(p, direct, w.done, end), *next = span, *open = NULL;
    CK(p->n_slots <= SLOT_MASK && p->n_launches < 1 << (63 - SLOT_BITS));
    int64_t n = 0, cap = 0;
    xlimit(p->n_slots, sizeof *w.list);
    w.list = xrealloc(NULL, (size_t)p->n_slots, sizeof *w.list);
    int64_t *out = w.list;
    for (int32_t q = 0; q < nq; next = span + end[q++]) {
        w.ptr[q] = out - w.list;
        if (w.done[q]) /* by its only span, which has no slots */
            continue;
        int64_t more = span + end[q] - next;
        n = close_spans(open, n, q);
        open = xgrow(open, &cap, n + more, sizeof *open);
        open_spans(open, n, next, more);
        n += more;
        fetch_ahead(out, n * (int64_t)sizeof *out);
        for (int64_t i = 0; i < n; i++)
            *out++ = (open[i].key + q) | (launches ? (int64_t)open[i].launch << SLOT_BITS : 0);
    }
    w.ptr[nq] = out - w.list;
    free(open);
    free(span);
    free(end);
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
        fetch_ahead(p->merge + p->n_merges, sizeof *p->merge);
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
 * Launches are renumbered so that a merge launch follows each attention launch but the first. Attention
 * launches 0, 1, 2 become 0, 1, 3, and their merges 2, 4.
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
