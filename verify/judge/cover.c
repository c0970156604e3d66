/*
 * cover.c - the coverage invariant; see cover.h.
 *
 * Four passes, each of which may trust what the ones before it established:
 *   1 groups   every index of every group, run, mask and launch is in range and the totals add up
 *   2 cover    the visible (query range x token range) rectangles of each node tile [q0, q1) x [0, len) exactly
 *   3 slots    every slot has one writer and one reader, of the same query, the reader in a later stage
 *   4 output   every query's output is written once
 * Because a slot is read once and outputs are written once, 3 and 4 make every partial of a query flow into
 * its output: no reachability search is needed. Cost: proportional to what the plan lists, plus sorting.
 *
 * What exists is named by its number in the tree, as a user wrote it; an index that is out of range can only be
 * named in the normal form.
 */
#include "verify/judge/cover.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A piece of a node that a group computes for a range of queries. */
struct rect {
    int64_t begin, end; /* tokens */
    int64_t group;
    int32_t q_begin, q_end;
    int32_t node;
};

struct rects {
    struct rect *at;
    int64_t n, cap;
    struct plan_pair wrong; /* what the complaint is about */
};

/* ---- 1: groups ---------------------------------------------------------------------------------------- */

static bool check_header(const struct plan *p, struct err *e)
{
    if (p->n_groups < 0 || p->n_qr < 0 || p->n_runs < 0 || p->n_mask < 0 || p->n_slots < 0 ||
        p->n_merges < 0 || p->n_merge_in < 0 || p->n_launches < 0)
        return err_set(e, "plan: a count is negative");
    if ((unsigned)p->slot_o > SLOT_O_F16 || (unsigned)p->slot_weight > SLOT_MAX_SUM ||
        (unsigned)p->storage > STORAGE_REPLICATED_SUFFIX)
        return err_set(e, "plan: slot format or storage is not one that exists");
    for (int32_t l = 0; l < p->n_launches; l++) {
        if (!p->launch[l].name)
            return err_set(e, "launch %" PRId32 ": has no name", l);
        if ((unsigned)p->launch[l].order > LAUNCH_CONCURRENT)
            return err_set(e, "launch %" PRId32 ": neither serial nor concurrent", l);
    }
    return true;
}

#define NORMAL " of the normal form"

/* Of the group or merge step i: is x one of 0 .. n - 1? */
static bool check_index(struct err *e, const char *of, int64_t i, const char *what, const char *whose,
                        int64_t x, int64_t n)
{
    return (x >= 0 && x < n) || err_set(e, "%s %" PRId64 ": %s %" PRId64 "%s (expected 0 to %" PRId64 ")", of,
                                        i, what, x, whose, n - 1);
}

/* Are begin .. end - 1 some of 0 .. n - 1? */
static bool check_span(struct err *e, const char *of, int64_t i, const char *what, const char *whose,
                       int64_t begin, int64_t end, int64_t n)
{
    return (begin >= 0 && begin < end && end <= n) ||
           err_set(e, "%s %" PRId64 ": %s %" PRId64 " to %" PRId64 "%s (expected some of 0 to %" PRId64 ")",
                   of, i, what, begin, end, whose, n);
}

static bool check_queries(const struct plan *p, int64_t gi, struct err *e)
{
    const struct group *g = &p->group[gi];
    int64_t nq = 0;
    if (!check_span(e, "group", gi, "query ranges", "", g->qr0, g->qr1, p->n_qr))
        return false;
    for (int64_t i = g->qr0; i < g->qr1; i++) {
        const struct qrange *r = &p->qr[i];
        if (!check_span(e, "group", gi, "queries", NORMAL, r->begin, r->end, p->nf->n_queries))
            return false;
        nq += r->end - r->begin;
    }
    return nq == g->nq ||
           err_set(e, "group %" PRId64 ": says %" PRId32 " queries, its ranges hold %" PRId64, gi, g->nq, nq);
}

static bool check_runs(const struct plan *p, int64_t gi, struct err *e)
{
    const struct group *g = &p->group[gi];
    int64_t n_kv = 0;
    if (!check_span(e, "group", gi, "runs", "", g->run0, g->run1, p->n_runs))
        return false;
    for (int64_t i = g->run0; i < g->run1; i++) {
        const struct run *r = &p->run[i];
        if (!check_index(e, "group", gi, "node", NORMAL, r->node, p->nf->n_nodes))
            return false;
        if (r->begin < 0 || r->begin >= r->end || r->end > p->nf->len[r->node])
            return err_set(e,
                           "group %" PRId64 ": tokens %" PRId64 " to %" PRId64 " of node %" PRId32 NORMAL
                           " (expected some of 0 to %" PRId64 ")",
                           gi, r->begin, r->end, r->node, p->nf->len[r->node]);
        if (__builtin_add_overflow(n_kv, r->end - r->begin, &n_kv))
            return err_set(e, "group %" PRId64 ": more tokens than fit 63 bits", gi);
    }
    return n_kv == g->n_kv || err_set(e, "group %" PRId64 ": says %" PRId64 " tokens, its runs hold %" PRId64,
                                      gi, g->n_kv, n_kv);
}

static bool check_group(const struct plan *p, int64_t gi, struct err *e)
{
    const struct group *g = &p->group[gi];
    if (!check_queries(p, gi, e) || !check_runs(p, gi, e))
        return false;
    if ((unsigned)g->mask >= N_MASK_KINDS)
        return err_set(e, "group %" PRId64 ": mask kind %d does not exist", gi, (int)g->mask);
    int64_t bits;
    if (g->mask != MASK_NONE && (__builtin_mul_overflow((int64_t)g->nq, g->run1 - g->run0, &bits) ||
                                 g->mask0 < 0 || bits > p->n_mask || g->mask0 > p->n_mask - bits))
        return err_set(e, "group %" PRId64 ": its mask lies outside the plan's %" PRId64 " bits", gi,
                       p->n_mask);
    if (g->tile_m < 0 || g->tile_n < 0)
        return err_set(e,
                       "group %" PRId64 ": tile %" PRId32 " x %" PRId32 " (expected sizes, or 0 for whole)",
                       gi, g->tile_m, g->tile_n);
    if (!check_index(e, "group", gi, "launch", "", g->launch, p->n_launches))
        return false;
    if (g->slot0 != PLAN_NO_SLOT && (g->slot0 < 0 || g->nq > p->n_slots || g->slot0 > p->n_slots - g->nq))
        return err_set(e,
                       "group %" PRId64 ": slots from %" PRId64 " for %" PRId32
                       " queries (expected some of 0 to %" PRId64 ")",
                       gi, g->slot0, g->nq, p->n_slots);
    return true;
}

/* ---- 2: cover ----------------------------------------------------------------------------------------- */

/* Queries [q_begin, q_end) of group gi compute run r; all of them must see its node. */
static bool add_rect(struct rects *rs, const struct plan *p, int64_t gi, const struct run *r, int32_t q_begin,
                     int32_t q_end, struct err *e)
{
    int32_t lo = p->nf->q0[r->node], hi = p->nf->q1[r->node];
    int32_t blind = q_begin < lo || q_begin >= hi ? q_begin : (int32_t)min_i64(hi, q_end);
    for (int32_t q = q_begin; q < blind && p->nf->since; q++)
        if (!nform_in_window(p->nf, q, r->node))
            blind = q;
    if (blind < q_end) {
        struct run x = plan_tree_run(p, r);
        rs->wrong = (struct plan_pair){blind, *r};
        return err_set(e,
                       "group %" PRId64 ": query %" PRId32 " reads tokens %" PRId64 " to %" PRId64
                       " of node %" PRId32 ", which it does not see",
                       gi, p->nf->orig[blind], x.begin, x.end, x.node);
    }
    rs->at = xgrow(rs->at, &rs->cap, rs->n + 1, sizeof *rs->at);
    rs->at[rs->n++] = (struct rect){
        .begin = r->begin, .end = r->end, .group = gi, .q_begin = q_begin, .q_end = q_end, .node = r->node};
    return true;
}

/* A masked group: bits are read row by row, as stored; open[r] is where run r's current range of visible
 * queries began, or -1. `last` is one past the latest query, so ranges never reach across a gap. */
static bool masked_rects(struct rects *rs, const struct plan *p, int64_t gi, struct err *e)
{
    const struct group *g = &p->group[gi];
    int64_t nr = g->run1 - g->run0;
    int32_t *open = xmalloc((size_t)nr * sizeof *open);
    const uint8_t *bit = p->mask + g->mask0;
    bool good = true;
    for (int64_t i = g->qr0; i < g->qr1 && good; i++) {
        for (int64_t r = 0; r < nr; r++)
            open[r] = -1;
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end && good; q++, bit += nr)
            for (int64_t r = 0; r < nr && good; r++) {
                if (bit[r] && open[r] < 0) {
                    open[r] = q;
                } else if (!bit[r] && open[r] >= 0) {
                    good = add_rect(rs, p, gi, &p->run[g->run0 + r], open[r], q, e);
                    open[r] = -1;
                }
            }
        for (int64_t r = 0; r < nr && good; r++)
            if (open[r] >= 0)
                good = add_rect(rs, p, gi, &p->run[g->run0 + r], open[r], p->qr[i].end, e);
    }
    free(open);
    return good;
}

static bool plain_rects(struct rects *rs, const struct plan *p, int64_t gi, struct err *e)
{
    const struct group *g = &p->group[gi];
    for (int64_t i = g->qr0; i < g->qr1; i++)
        for (int64_t r = g->run0; r < g->run1; r++)
            if (!add_rect(rs, p, gi, &p->run[r], p->qr[i].begin, p->qr[i].end, e))
                return false;
    return true;
}

static int by_node_then_token(const void *pa, const void *pb)
{
    const struct rect *a = pa, *b = pb;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->q_begin < b->q_begin ? -1 : a->q_begin > b->q_begin;
}

static bool read_twice(const struct plan *p, const struct plan_pair *w, int64_t one, int64_t two,
                       struct err *e)
{
    struct run x = plan_tree_run(p, &w->run);
    return err_set(e,
                   "query %" PRId32 " reads tokens %" PRId64 " to %" PRId64 " of node %" PRId32
                   " twice: in groups %" PRId64 " and %" PRId64,
                   p->nf->orig[w->query], x.begin, x.end, x.node, one, two);
}

static bool read_never(const struct plan *p, const struct plan_pair *w, struct err *e)
{
    struct run x = plan_tree_run(p, &w->run);
    return err_set(e,
                   "query %" PRId32 ": tokens %" PRId64 " to %" PRId64 " of node %" PRId32 " are in no group",
                   p->nf->orig[w->query], x.begin, x.end, x.node);
}

/* The rectangles of one node, by first token, must extend every query's covered prefix without gap or
 * overlap. reach[q]: tokens of the node covered so far for query q; by[q]: the group that covered the last of
 * them. */
static bool check_node(const struct plan *p, int32_t node, const struct rect *r, int64_t n, int64_t *reach,
                       int64_t *by, struct plan_pair *wrong, struct err *e)
{
    int32_t lo = p->nf->q0[node], hi = p->nf->q1[node];
    int64_t len = p->nf->len[node];
    for (int32_t q = lo; q < hi; q++)
        reach[q] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int32_t q = r[i].q_begin; q < r[i].q_end; q++) {
            if (reach[q] > r[i].begin) {
                *wrong = (struct plan_pair){q, {node, r[i].begin, min_i64(reach[q], r[i].end)}};
                return read_twice(p, wrong, by[q], r[i].group, e);
            }
            if (reach[q] < r[i].begin) {
                *wrong = (struct plan_pair){q, {node, reach[q], r[i].begin}};
                return read_never(p, wrong, e);
            }
            reach[q] = r[i].end;
            by[q] = r[i].group;
        }
    for (int32_t q = lo; q < hi; q++)
        if (reach[q] != len && nform_in_window(p->nf, q, node)) {
            *wrong = (struct plan_pair){q, {node, reach[q], len}};
            return read_never(p, wrong, e);
        }
    return true;
}

static bool check_cover(const struct plan *p, struct plan_pair *wrong, struct err *e)
{
    struct rects rs = {.wrong.query = -1};
    size_t n_q = (size_t)p->nf->n_queries;
    int64_t *reach = xcalloc(n_q, sizeof *reach), *by = xcalloc(n_q, sizeof *by);
    bool good = true;
    for (int64_t gi = 0; gi < p->n_groups && good; gi++)
        good = p->group[gi].mask == MASK_NONE ? plain_rects(&rs, p, gi, e) : masked_rects(&rs, p, gi, e);
    if (good && rs.n > 1)
        qsort(rs.at, (size_t)rs.n, sizeof *rs.at, by_node_then_token);
    int64_t next = 0;
    for (int32_t node = 0; node < p->nf->n_nodes && good; node++) {
        int64_t first = next;
        while (next < rs.n && rs.at[next].node == node)
            next++;
        const struct rect *at = rs.n > 0 ? rs.at + first : NULL; /* a plan may read nothing at all */
        good = check_node(p, node, at, next - first, reach, by, &rs.wrong, e);
    }
    *wrong = rs.wrong;
    free(rs.at);
    free(reach);
    free(by);
    return good;
}

/* ---- 3, 4: slots and output --------------------------------------------------------------------------- */

struct slot_state {
    int32_t query; /* whose partial; -1: not written yet */
    int32_t launch;
    bool by_group, read;
};

struct flow {
    const struct plan *p;
    struct slot_state *slot; /* [n_slots] */
    uint8_t *done;           /* [n_queries] the output was written */
    int32_t *stage;          /* [n_launches] launches of one stage run concurrently */
};

static bool write_slot(struct flow *f, int64_t s, struct slot_state w, struct err *e)
{
    int32_t before = f->slot[s].query;
    f->slot[s] = w;
    return before < 0 || err_set(e, "slot %" PRId64 " is written twice: for queries %" PRId32 " and %" PRId32,
                                 s, f->p->nf->orig[before], f->p->nf->orig[w.query]);
}

static bool write_output(struct flow *f, int32_t q, struct err *e)
{
    if (f->done[q])
        return err_set(e, "query %" PRId32 ": its output is written twice%s", f->p->nf->orig[q],
                       f->p->n_merges > 0 ? ""
                                          : ", and the plan has no merge steps (expected a last call of "
                                            "plan_merge_flat or its like)");
    f->done[q] = 1;
    return true;
}

static bool group_writes(struct flow *f, int64_t gi, struct err *e)
{
    const struct group *g = &f->p->group[gi];
    int64_t s = g->slot0;
    for (int64_t i = g->qr0; i < g->qr1; i++)
        for (int32_t q = f->p->qr[i].begin; q < f->p->qr[i].end; q++) {
            struct slot_state w = {.query = q, .launch = g->launch, .by_group = true};
            if (!(s == PLAN_NO_SLOT ? write_output(f, q, e) : write_slot(f, s++, w, e)))
                return false;
        }
    return true;
}

static bool check_step(const struct plan *p, int64_t mi, struct err *e)
{
    const struct merge_step *m = &p->merge[mi];
    if (m->in0 < 0 || m->in0 > m->in1 || m->in1 > p->n_merge_in)
        return err_set(
            e, "merge %" PRId64 ": inputs %" PRId64 " to %" PRId64 " (expected some of 0 to %" PRId64 ")", mi,
            m->in0, m->in1, p->n_merge_in);
    return check_index(e, "merge", mi, "query", NORMAL, m->query, p->nf->n_queries) &&
           check_index(e, "merge", mi, "launch", "", m->launch, p->n_launches) &&
           (m->out == PLAN_NO_SLOT || check_index(e, "merge", mi, "output slot", "", m->out, p->n_slots));
}

static bool merge_writes(struct flow *f, int64_t mi, struct err *e)
{
    const struct merge_step *m = &f->p->merge[mi];
    struct slot_state w = {.query = m->query, .launch = m->launch};
    return m->out == PLAN_NO_SLOT ? write_output(f, m->query, e) : write_slot(f, m->out, w, e);
}

/* One input of a merge step. A slot that stays on the chip comes from a group of the step's own launch; any
 * other was written in an earlier stage. */
static bool read_slot(struct flow *f, int64_t mi, int64_t s, struct err *e)
{
    const struct merge_step *m = &f->p->merge[mi];
    if (!check_index(e, "merge", mi, "reads slot", "", s, f->p->n_slots))
        return false;
    struct slot_state *x = &f->slot[s];
    if (x->query < 0)
        return err_set(e, "merge %" PRId64 ": reads slot %" PRId64 ", which nothing writes", mi, s);
    if (x->query != m->query)
        return err_set(e,
                       "merge %" PRId64 " of query %" PRId32 ": reads slot %" PRId64
                       ", which belongs to query %" PRId32,
                       mi, f->p->nf->orig[m->query], s, f->p->nf->orig[x->query]);
    if (x->read)
        return err_set(e, "merge %" PRId64 ": reads slot %" PRId64 ", which was read before", mi, s);
    x->read = true;
    if (s == m->onchip) {
        if (!x->by_group || x->launch != m->launch)
            return err_set(e,
                           "merge %" PRId64 ": slot %" PRId64
                           " is to stay on the chip but no group of launch %" PRId32 " writes it",
                           mi, s, m->launch);
    } else if (f->stage[x->launch] >= f->stage[m->launch]) {
        return err_set(e,
                       "merge %" PRId64 ": reads slot %" PRId64 " in launch %" PRId32
                       ", which does not wait for launch %" PRId32 " that writes it",
                       mi, s, m->launch, x->launch);
    }
    return true;
}

static bool merge_reads(struct flow *f, int64_t mi, struct err *e)
{
    const struct merge_step *m = &f->p->merge[mi];
    bool onchip_seen = m->onchip == PLAN_NO_SLOT;
    for (int64_t i = m->in0; i < m->in1; i++) {
        if (!read_slot(f, mi, f->p->merge_in[i], e))
            return false;
        onchip_seen = onchip_seen || f->p->merge_in[i] == m->onchip;
    }
    return onchip_seen ||
           err_set(e,
                   "merge %" PRId64 ": slot %" PRId64 " is to stay on the chip but is not among its inputs",
                   mi, m->onchip);
}

static bool check_flow(struct flow *f, struct err *e)
{
    const struct plan *p = f->p;
    for (int32_t l = 1; l < p->n_launches; l++)
        f->stage[l] = f->stage[l - 1] + (p->launch[l].order == LAUNCH_SERIAL);
    for (int64_t s = 0; s < p->n_slots; s++)
        f->slot[s].query = -1;
    for (int64_t gi = 0; gi < p->n_groups; gi++)
        if (!group_writes(f, gi, e))
            return false;
    for (int64_t mi = 0; mi < p->n_merges; mi++)
        if (!check_step(p, mi, e) || !merge_writes(f, mi, e))
            return false;
    for (int64_t mi = 0; mi < p->n_merges; mi++)
        if (!merge_reads(f, mi, e))
            return false;
    for (int64_t s = 0; s < p->n_slots; s++)
        if (f->slot[s].query < 0 || !f->slot[s].read)
            return err_set(e, "slot %" PRId64 " is never %s", s, f->slot[s].query < 0 ? "written" : "read");
    for (int32_t q = 0; q < p->nf->n_queries; q++)
        if (!f->done[q])
            return err_set(e, "query %" PRId32 ": its output is never written", p->nf->orig[q]);
    return true;
}

/* Before anything of that size is allocated: each slot needs a writer of its own. */
static bool check_slot_count(const struct plan *p, struct err *e)
{
    int64_t writers = p->n_merges;
    for (int64_t gi = 0; gi < p->n_groups; gi++)
        writers += p->group[gi].slot0 == PLAN_NO_SLOT ? 0 : p->group[gi].nq;
    return p->n_slots <= writers ||
           err_set(e, "plan: %" PRId64 " slots but only %" PRId64 " partials to write", p->n_slots, writers);
}

static bool check_all_groups(const struct plan *p, struct err *e)
{
    for (int64_t gi = 0; gi < p->n_groups; gi++)
        if (!check_group(p, gi, e))
            return false;
    return true;
}

bool cover_structure(const struct plan *p, struct err *e)
{
    if (!check_header(p, e) || !check_all_groups(p, e) || !check_slot_count(p, e))
        return false;
    for (int64_t mi = 0; mi < p->n_merges; mi++)
        if (!check_step(p, mi, e))
            return false;
    return true;
}

bool cover_check(const struct plan *p, struct err *e)
{
    return cover_check_pair(p, &(struct plan_pair){0}, e);
}

bool cover_check_pair(const struct plan *p, struct plan_pair *pair, struct err *e)
{
    pair->query = -1;
    if (!check_header(p, e) || !check_all_groups(p, e) || !check_cover(p, pair, e) || !check_slot_count(p, e))
        return false;
    struct flow f = {
        .p = p,
        .slot = xcalloc((size_t)p->n_slots, sizeof *f.slot),
        .done = xcalloc((size_t)p->nf->n_queries, 1),
        .stage = xcalloc((size_t)p->n_launches, sizeof *f.stage),
    };
    bool good = check_flow(&f, e);
    free(f.slot);
    free(f.done);
    free(f.stage);
    return good;
}

bool cover_check_of(const struct plan *p, const char *strategy, struct err *e, const char *fmt, ...)
{
    struct err x = {0};
    char of[64];
    va_list ap;
    if (cover_check(p, &x))
        return true;
    va_start(ap, fmt);
    vsnprintf(of, sizeof of, fmt, ap);
    va_end(ap);
    err_set(e, "the plan of %s for %s is wrong: %s", strategy, of, x.msg);
    if (e)
        e->code = EXIT_FAILED;
    return false;
}
