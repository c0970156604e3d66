#include "sim/plan.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const mask_name[N_MASK_KINDS] = {"none", "run-words", "token-words", "query-words", "dense"};

struct plan *plan_new(const struct nform *nf, const char *strategy)
{
    struct plan *p = xcalloc(1, sizeof *p);
    p->nf = nf;
    p->strategy = strategy;
    p->params = xstrdup("");
    p->note = xstrdup("");
    return p;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    free(p->params);
    free(p->note);
    free(p->group);
    free(p->qr);
    free(p->run);
    free(p->mask);
    free(p->merge);
    free(p->merge_in);
    free(p->launch);
    free(p);
}

static void *dup_array(const void *src, int64_t n, size_t size)
{
    void *p = xcalloc((size_t)n, size);
    if (n > 0)
        memcpy(p, src, (size_t)n * size);
    return p;
}

struct plan *plan_copy(const struct plan *p)
{
    struct plan *c = xmalloc(sizeof *c);
    *c = *p;
    c->params = xstrdup(p->params);
    c->note = xstrdup(p->note);
    c->group = dup_array(p->group, p->n_groups, sizeof *p->group);
    c->qr = dup_array(p->qr, p->n_qr, sizeof *p->qr);
    c->run = dup_array(p->run, p->n_runs, sizeof *p->run);
    c->mask = dup_array(p->mask, p->n_mask, sizeof *p->mask);
    c->merge = dup_array(p->merge, p->n_merges, sizeof *p->merge);
    c->merge_in = dup_array(p->merge_in, p->n_merge_in, sizeof *p->merge_in);
    c->launch = NULL;
    c->n_launches = 0;
    for (int32_t l = 0; l < p->n_launches; l++)
        plan_launch(c, p->launch[l].name, p->launch[l].order);
    c->cap_group = p->n_groups;
    c->cap_qr = p->n_qr;
    c->cap_run = p->n_runs;
    c->cap_mask = p->n_mask;
    c->cap_merge = p->n_merges;
    c->cap_merge_in = p->n_merge_in;
    return c;
}

static bool same_array(const void *x, const void *y, int64_t n, size_t size)
{
    return n == 0 || memcmp(x, y, (size_t)n * size) == 0;
}

static bool same_groups(const struct group *x, const struct group *y, int64_t n)
{
    bool same = true;
    for (int64_t i = 0; i < n && same; i++)
        same = x[i].qr0 == y[i].qr0 && x[i].qr1 == y[i].qr1 && x[i].run0 == y[i].run0 &&
               x[i].run1 == y[i].run1 && x[i].mask == y[i].mask && x[i].mask0 == y[i].mask0 &&
               x[i].tile_m == y[i].tile_m && x[i].tile_n == y[i].tile_n && x[i].launch == y[i].launch &&
               x[i].slot0 == y[i].slot0;
    return same;
}

static bool same_runs(const struct run *x, const struct run *y, int64_t n)
{
    bool same = true;
    for (int64_t i = 0; i < n && same; i++)
        same = x[i].node == y[i].node && x[i].begin == y[i].begin && x[i].end == y[i].end;
    return same;
}

static bool same_launches(const struct launch *x, const struct launch *y, int32_t n)
{
    bool same = true;
    for (int32_t i = 0; i < n && same; i++)
        same = x[i].order == y[i].order;
    return same;
}

bool plan_same(const struct plan *x, const struct plan *y)
{
    bool same_counts = x->n_groups == y->n_groups && x->n_qr == y->n_qr && x->n_runs == y->n_runs &&
                       x->n_mask == y->n_mask && x->n_slots == y->n_slots && x->n_merges == y->n_merges &&
                       x->n_merge_in == y->n_merge_in && x->n_launches == y->n_launches;
    return same_counts && x->slot_o == y->slot_o && x->slot_weight == y->slot_weight &&
           x->storage == y->storage && x->unfused == y->unfused &&
           same_launches(x->launch, y->launch, x->n_launches) &&
           same_groups(x->group, y->group, x->n_groups) && same_runs(x->run, y->run, x->n_runs) &&
           same_array(x->qr, y->qr, x->n_qr, sizeof *x->qr) &&
           same_array(x->mask, y->mask, x->n_mask, sizeof *x->mask) &&
           same_array(x->merge, y->merge, x->n_merges, sizeof *x->merge) &&
           same_array(x->merge_in, y->merge_in, x->n_merge_in, sizeof *x->merge_in);
}

void plan_reserve(struct plan *p, int64_t groups, int64_t runs)
{
    p->group = xgrow(p->group, &p->cap_group, groups, sizeof *p->group);
    p->qr = xgrow(p->qr, &p->cap_qr, groups, sizeof *p->qr);
    p->run = xgrow(p->run, &p->cap_run, runs, sizeof *p->run);
}

void plan_note(struct plan *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    free(p->note);
    p->note = xmalloc((size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(p->note, (size_t)n + 1, fmt, ap);
    va_end(ap);
}

int32_t plan_launch(struct plan *p, const char *name, enum launch_order order)
{
    if ((p->n_launches & (p->n_launches - 1)) == 0) /* room is the next power of two */
        p->launch = xrealloc(p->launch, (size_t)max_i64(1, 2 * (int64_t)p->n_launches), sizeof *p->launch);
    p->launch[p->n_launches] = (struct launch){.name = name, .order = order};
    return p->n_launches++;
}

/* ---- selections ------------------------------------------------------------------------------------- */

void sel_clear(struct sel *s)
{
    s->n_qr = s->n_runs = s->nq = s->n_kv = 0;
}

void sel_free(struct sel *s)
{
    free(s->qr);
    free(s->run);
    *s = (struct sel){0};
}

void sel_queries(struct sel *s, int32_t begin, int32_t end)
{
    if (begin >= end)
        return;
    s->nq += end - begin;
    if (s->n_qr > 0 && s->qr[s->n_qr - 1].end == begin) {
        s->qr[s->n_qr - 1].end = end;
        return;
    }
    s->qr = xgrow(s->qr, &s->cap_qr, s->n_qr + 1, sizeof *s->qr);
    s->qr[s->n_qr++] = (struct qrange){begin, end};
}

void sel_run(struct sel *s, int32_t node, int64_t begin, int64_t end)
{
    if (begin >= end)
        return;
    s->n_kv += end - begin;
    if (s->n_runs > 0 && s->run[s->n_runs - 1].node == node && s->run[s->n_runs - 1].end == begin) {
        s->run[s->n_runs - 1].end = end;
        return;
    }
    s->run = xgrow(s->run, &s->cap_run, s->n_runs + 1, sizeof *s->run);
    fetch_ahead(s->run + s->n_runs, sizeof *s->run);
    s->run[s->n_runs++] = (struct run){node, begin, end};
}

void sel_take(struct sel *to, const struct sel *from, struct sel_place *at, int64_t n)
{
    while (n > 0) {
        struct run r = from->run[at->run];
        int64_t begin = r.begin + at->off, take = min_i64(n, r.end - begin);
        sel_run(to, r.node, begin, begin + take);
        n -= take;
        at->off += take;
        if (begin + take == r.end)
            *at = (struct sel_place){.run = at->run + 1};
    }
}

/* ---- groups ----------------------------------------------------------------------------------------- */

static void add_query_piece(struct plan *p, const struct sel *s, int64_t begin, int64_t end)
{
    int64_t at = 0;
    p->qr = xgrow(p->qr, &p->cap_qr, p->n_qr + s->n_qr, sizeof *p->qr);
    fetch_ahead(p->qr + p->n_qr, s->n_qr * (int64_t)sizeof *p->qr);
    for (int64_t i = 0; i < s->n_qr && at < end; i++) {
        int64_t n = s->qr[i].end - s->qr[i].begin;
        int64_t lo = max_i64(begin - at, 0), hi = min_i64(end - at, n);
        if (lo < hi)
            p->qr[p->n_qr++] =
                (struct qrange){(int32_t)(s->qr[i].begin + lo), (int32_t)(s->qr[i].begin + hi)};
        at += n;
    }
}

static void add_kv_piece(struct plan *p, const struct sel *s, int64_t begin, int64_t end)
{
    int64_t at = 0;
    p->run = xgrow(p->run, &p->cap_run, p->n_runs + s->n_runs, sizeof *p->run);
    fetch_ahead(p->run + p->n_runs, s->n_runs * (int64_t)sizeof *p->run);
    if (begin == 0 && end == s->n_kv) {
        if (s->n_runs > 0)
            memcpy(p->run + p->n_runs, s->run, (size_t)s->n_runs * sizeof *p->run);
        p->n_runs += s->n_runs;
        return;
    }
    for (int64_t i = 0; i < s->n_runs && at < end; i++) {
        int64_t n = s->run[i].end - s->run[i].begin;
        int64_t lo = max_i64(begin - at, 0), hi = min_i64(end - at, n);
        if (lo < hi)
            p->run[p->n_runs++] = (struct run){s->run[i].node, s->run[i].begin + lo, s->run[i].begin + hi};
        at += n;
    }
}

/* One byte per (query, run): the query is below the run's node, which is in its window. */
static void add_mask(struct plan *p, struct group *g)
{
    int64_t nr = g->run1 - g->run0, n = nr * g->nq;
    g->mask0 = p->n_mask;
    p->mask = xgrow(p->mask, &p->cap_mask, p->n_mask + n, sizeof *p->mask);
    fetch_ahead(p->mask + p->n_mask, n);
    memset(p->mask + p->n_mask, 0, (size_t)n);
    for (int64_t r = 0; r < nr; r++) {
        int32_t node = p->run[g->run0 + r].node, q0 = p->nf->q0[node], q1 = p->nf->q1[node];
        uint8_t *bit = p->mask + p->n_mask + r; /* of the range's first query */
        for (const struct qrange *x = p->qr + g->qr0; x < p->qr + g->qr1; x++) {
            for (int32_t q = x->begin > q0 ? x->begin : q0; q < x->end && q < q1; q++)
                bit[(q - x->begin) * nr] = nform_in_window(p->nf, q, node);
            bit += (x->end - x->begin) * nr;
        }
    }
    p->n_mask += n;
}

/* Is the query below the run's piece, and its window before it? */
static bool sees_run(const struct nform *nf, int32_t q, int32_t piece)
{
    return q >= nf->q0[piece] && q < nf->q1[piece] && nform_in_window(nf, q, piece);
}

/* Does one of those queries see the piece, does one not? */
static void who_sees(const struct plan *p, const struct qrange *x, const struct qrange *end, int32_t piece,
                     bool *any, bool *all)
{
    *any = false;
    *all = true;
    for (; x < end; x++)
        for (int32_t q = x->begin; q < x->end; q++) {
            bool sees = sees_run(p->nf, q, piece);
            *any = *any || sees;
            *all = *all && sees;
        }
}

/*
 * Windows, of the group that was just added: runs that none of its queries sees go, and so do queries that see none of the runs
 * left. If somebody still does not see something, the group gets a mask, whatever the strategy knows of windows. False if nothing
 * is left. Strategies may count with pieces of the normal form as if all queries below saw them.
 */
static bool apply_windows(struct plan *p, struct group *g)
{
    const struct nform *nf = p->nf;
    bool any, all, hides = false;
    int64_t to = g->run0, n_qr = p->n_qr - g->qr0;
    for (int64_t r = g->run0; r < g->run1; r++) {
        who_sees(p, p->qr + g->qr0, p->qr + g->qr1, p->run[r].node, &any, &all);
        if (any)
            p->run[to++] = p->run[r];
        else
            g->n_kv -= p->run[r].end - p->run[r].begin;
        hides = hides || (any && !all);
    }
    p->n_runs = g->run1 = to;
    struct qrange *old = xmalloc((size_t)n_qr * sizeof *old);
    memcpy(old, p->qr + g->qr0, (size_t)n_qr * sizeof *old);
    p->n_qr = g->qr0;
    g->nq = 0;
    for (int64_t i = 0; i < n_qr; i++)
        for (int32_t q = old[i].begin; q < old[i].end; q++) {
            bool sees = false;
            for (int64_t r = g->run0; r < g->run1 && !sees; r++)
                sees = sees_run(nf, q, p->run[r].node);
            if (!sees)
                continue;
            if (p->n_qr > g->qr0 && p->qr[p->n_qr - 1].end == q) {
                p->qr[p->n_qr - 1].end++;
            } else {
                p->qr = xgrow(p->qr, &p->cap_qr, p->n_qr + 1, sizeof *p->qr);
                p->qr[p->n_qr++] = (struct qrange){q, q + 1};
            }
            g->nq++;
        }
    free(old);
    g->qr1 = p->n_qr;
    if (hides && g->mask == MASK_NONE)
        g->mask = MASK_RUN_WORDS;
    return g->nq > 0;
}

int32_t plan_group(struct plan *p, const struct sel *s, const struct group_spec *spec)
{
    int64_t q_end = spec->q_end == 0 ? s->nq : spec->q_end;
    int64_t kv_end = spec->kv_end == 0 ? s->n_kv : spec->kv_end;
    CK(spec->q_begin >= 0 && spec->q_begin <= q_end && q_end <= s->nq);
    CK(spec->kv_begin >= 0 && spec->kv_begin <= kv_end && kv_end <= s->n_kv);
    CK(spec->launch >= 0 && spec->launch < p->n_launches);
    if (spec->q_begin == q_end || spec->kv_begin == kv_end)
        return 0;
    int64_t qr0 = p->n_qr, run0 = p->n_runs;
    add_query_piece(p, s, spec->q_begin, q_end);
    add_kv_piece(p, s, spec->kv_begin, kv_end);
    p->group = xgrow(p->group, &p->cap_group, p->n_groups + 1, sizeof *p->group);
    struct group *g = &p->group[p->n_groups++];
    fetch_ahead(g, sizeof *g);
    *g = (struct group){
        .qr0 = qr0,
        .qr1 = p->n_qr,
        .run0 = run0,
        .run1 = p->n_runs,
        .nq = (int32_t)(q_end - spec->q_begin),
        .n_kv = kv_end - spec->kv_begin,
        .mask = spec->mask,
        .tile_m = spec->tile_m,
        .tile_n = spec->tile_n,
        .launch = spec->launch,
        .slot0 = PLAN_NO_SLOT,
    };
    if (p->nf->since && !apply_windows(p, g)) {
        p->n_groups--;
        return 0;
    }
    if (g->mask != MASK_NONE)
        add_mask(p, g);
    return 1;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

int32_t plan_query(const struct plan *p, const struct group *g, int32_t k)
{
    for (int64_t i = g->qr0; i < g->qr1; i++) {
        int32_t n = p->qr[i].end - p->qr[i].begin;
        if (k < n)
            return p->qr[i].begin + k;
        k -= n;
    }
    CK_FOUND("a query of the group");
}

void plan_queries(const struct plan *p, const struct group *g, int32_t *out)
{
    for (int64_t i = g->qr0; i < g->qr1; i++)
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
            *out++ = q;
}

int64_t plan_mask_bytes(const struct group *g, int64_t rows_q)
{
    switch (g->mask) {
    case MASK_RUN_WORDS:
        return ceil_div(g->nq, 64) * (g->run1 - g->run0) * 8;
    case MASK_TOKEN_WORDS:
        return ceil_div(g->nq, 64) * g->n_kv * 8;
    case MASK_QUERY_WORDS:
        return ceil_div(g->n_kv, 64) * rows_q * 8;
    case MASK_DENSE:
        return g->n_kv * rows_q * 2;
    default:
        return 0;
    }
}

int64_t plan_stored_tokens(const struct plan *p)
{
    const struct nform *nf = p->nf;
    int64_t sum = 0;
    int32_t seeing = 0; /* queries that see anything: the first prefix is what all of these share */
    for (int32_t q = 0; q < nf->n_queries; q++)
        seeing += nf->at[q] >= 0 && nform_context(nf, q) > 0;
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        int64_t nq = nform_seeing(nf, i);
        bool prefix = nq == seeing;
        if (p->storage == STORAGE_SHARED || (p->storage == STORAGE_REPLICATED_SUFFIX && prefix))
            sum += nq > 0 ? nf->len[i] : 0;
        else
            sum += nq * nf->len[i];
    }
    return sum;
}
