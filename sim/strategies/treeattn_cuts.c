/*
 * treeattn_cuts.c - the tokens of a block, and the parts that they are cut in.
 *
 * A part is a group of its own, with those of the block's queries that see any of it.
 */
#include "sim/strategies/treeattn_planner.h"

enum {
    BLOCK_UNIT = 64, /* tokens, in which parts of one node are counted, of a plain block or trunk, */
    BUNDLE_UNIT = 16 /* and of a bundle */
};

/* From the first query that sees one of the runs to the last. With windows neither those of the first run nor those of the last
 * hold all others; a plan drops queries between that see none. */
static struct qrange from_first_to_last(const struct qrange *by, int64_t n)
{
    struct qrange x = by[0];
    for (int64_t r = 1; r < n; r++) {
        x.begin = by[r].begin < x.begin ? by[r].begin : x.begin;
        x.end = by[r].end > x.end ? by[r].end : x.end;
    }
    return x;
}

void treeattn_select_queries(const struct treeattn_planner *p, struct sel *s, const struct block *b,
                             const struct qrange *by)
{
    int32_t done = b->q0;
    s->n_qr = s->nq = 0;
    if (p->nf->since && s->n_runs > 0) {
        struct qrange x = from_first_to_last(by, s->n_runs);
        sel_queries(s, x.begin, x.end);
        return;
    }
    for (int64_t r = 0; r < s->n_runs && done < b->q1; r++) {
        sel_queries(s, (int32_t)max_i64(by[r].begin, done), by[r].end);
        done = (int32_t)max_i64(done, by[r].end);
    }
}

/* Does a query of the block see the node? Without windows one does. */
static bool has_queries(const struct treeattn_planner *p, const struct block *b, const struct live *v)
{
    struct qrange x = p->nf->since ? clipped(p, b, v) : (struct qrange){0, 1};
    return x.begin < x.end;
}

void treeattn_see(struct treeattn_planner *p, const struct block *b)
{
    struct seen *s = &p->seen;
    int64_t depth = 0;
    sel_clear(&s->sel);
    for (int32_t i = b->top; i >= 0; i = p->up[i])
        depth += has_queries(p, b, &p->live[i]);
    s->by = xgrow(s->by, &s->cap_by, depth, sizeof *s->by);
    s->sel.run = xgrow(s->sel.run, &s->sel.cap_run, depth, sizeof *s->sel.run);
    s->sel.n_runs = depth;
    for (int32_t i = b->top; i >= 0; i = p->up[i]) {
        const struct live *v = &p->live[i];
        if (!has_queries(p, b, v))
            continue;
        s->sel.run[--depth] = (struct run){v->node, 0, v->len};
        s->by[depth] = clipped(p, b, v);
        s->sel.n_kv += v->len;
    }
    for (const struct live *v = p->live + b->first; v < p->live + b->end; v++)
        if (treeattn_belongs(p, b, v) && has_queries(p, b, v)) {
            s->by = xgrow(s->by, &s->cap_by, s->sel.n_runs + 1, sizeof *s->by);
            s->by[s->sel.n_runs] = clipped(p, b, v);
            sel_run(&s->sel, v->node, 0, v->len);
        }
    treeattn_select_queries(p, &s->sel, b, s->by);
    s->n_shared = 0;
    for (const struct qrange *by = s->by; s->n_shared < s->sel.n_runs && by->end - by->begin == b->q1 - b->q0;
         by++)
        s->n_shared++;
}

static void cut_at(struct parts *p, int64_t token)
{
    p->end = xgrow(p->end, &p->cap, p->n + 1, sizeof *p->end);
    p->end[p->n++] = token;
}

static int64_t last_cut(const struct parts *p)
{
    return p->n == 0 ? 0 : p->end[p->n - 1];
}

/* Cuts the tokens since the last cut up to the end of one long node, begin .. end, into even parts of about `most`. Cuts fall
 * inside the node, at multiples of `unit` from its begin. */
static void cut_long(struct parts *p, int64_t begin, int64_t end, int64_t most, int64_t unit)
{
    int64_t first = last_cut(p), n = end - first, parts = ceil_div(n, most + most / TREEATTN_SLIVERS);
    for (int64_t i = 1; i < parts; i++) {
        int64_t at = begin + ((first + n * i / parts - begin + unit / 2) / unit) * unit;
        if (at > last_cut(p) && at < end)
            cut_at(p, at);
    }
}

/* Cuts runs r0 .. r1, all short, which are tokens begin .. end, into parts of about `most`. Each cut is where a node ends, as near
 * to an even cut as can be. */
static void cut_short(struct parts *p, const struct run *run, int64_t r0, int64_t r1, int64_t begin,
                      int64_t end, int64_t most)
{
    int64_t n = end - begin, parts = ceil_div(n, most), i = 1;
    for (int64_t r = r0, at = begin; r < r1 && i < parts; r++) {
        int64_t next = at + run[r].end - run[r].begin, even = begin + n * i / parts;
        if (next >= even) {
            int64_t nearest = next - even <= even - at ? next : at;
            if (nearest > last_cut(p) && nearest < end)
                cut_at(p, nearest);
            i++;
        }
        at = next;
    }
}

/*
 * Parts of about `most` tokens.
 *
 * A node of more than half of that is cut by itself. Shorter neighbours are cut together, where one of them ends. If all of them
 * have less than a quarter of a part, they go with the node beside them.
 *
 * There is always a cut behind the first `shared` runs, which all queries see, unless those are as few. What is cut must be
 * merged anyway, and this cut spares the last part of shared runs a mask.
 */
static void find_parts(struct parts *p, const struct sel *sel, int64_t shared, int64_t most, int64_t unit)
{
    p->n = 0;
    int64_t at = 0, sliver = ceil_div(most, TREEATTN_SLIVERS);
    for (int64_t r = 0, end; r < sel->n_runs && sel->n_kv > most; r = end) {
        int64_t begin = at, last = r < shared ? shared : sel->n_runs;
        if (r == shared && begin >= sliver && begin > last_cut(p) &&
            sel->n_kv > most + most / TREEATTN_SLIVERS)
            cut_at(p, begin);
        for (end = r; end < last && 2 * (sel->run[end].end - sel->run[end].begin) <= most; end++)
            at += sel->run[end].end - sel->run[end].begin;
        if (end > r) { /* runs r .. end are short */
            if (at - begin < sliver)
                continue;
            if (begin > last_cut(p))
                cut_at(p, begin);
            cut_short(p, sel->run, r, end, begin, at, most);
        } else {
            at += sel->run[r].end - sel->run[r].begin;
            if (begin - last_cut(p) >= sliver)
                cut_at(p, begin);
            cut_long(p, begin, at, most, unit);
            end++;
        }
    }
    cut_at(p, sel->n_kv);
}

/* A block that is seen, and what its tokens cost, in tokens that all of its queries see. */
struct costs {
    const struct seen *seen;
    int32_t nq; /* queries of the block */
    struct tile_weight of;
};

static bool is_hidden(const struct costs *c, int64_t r)
{
    return c->seen->by[r].end - c->seen->by[r].begin < c->nq;
}

static double cost_of_run(const struct costs *c, int64_t r)
{
    double n = (double)(c->seen->sel.run[r].end - c->seen->sel.run[r].begin);
    return is_hidden(c, r) ? c->of.run + c->of.hidden * n : n;
}

/* Cuts the tokens into so many parts of about the same cost. Cuts are at multiples of `unit` tokens from the begin of a node, or at its
 * end. */
static void find_even_parts(struct parts *p, const struct costs *c, int64_t n, int64_t unit)
{
    const struct sel *sel = &c->seen->sel;
    double left = 0, before = 0; /* of the parts that are not ended; of these, up to run r */
    p->n = 0;
    for (int64_t r = 0; r < sel->n_runs; r++)
        left += cost_of_run(c, r);
    for (int64_t r = 0, begin = 0; r < sel->n_runs && n > 1;) {
        int64_t len = sel->run[r].end - sel->run[r].begin;
        double of_run = cost_of_run(c, r), each = of_run / (double)len, even = left / (double)n;
        if (before + of_run < even) {
            before += of_run;
            begin += len;
            r++;
            continue;
        }
        int64_t at = ((int64_t)((even - before) / each) + unit / 2) / unit * unit;
        at = begin + min_i64(at, len);
        if (at > last_cut(p) && at < sel->n_kv)
            cut_at(p, at);
        double done = before + each * (double)(at - begin);
        left -= done;
        before -= done; /* of run r, what lies behind the cut counts again */
        n--;
    }
    cut_at(p, sel->n_kv);
}

void treeattn_find_parts(struct treeattn_planner *p, const struct block *b, const struct piece *piece)
{
    if (piece->even && b->kind != BUNDLE) {
        int32_t nq = b->q1 - b->q0, m = treeattn_tile_rows(p, b, nq);
        struct costs c = {.seen = &p->seen, .nq = nq, .of = tile_weight(m)};
        find_even_parts(&p->parts, &c, ceil_div(p->seen.sel.n_kv, piece->block),
                        m < TILE_TEAM_ROWS ? BUNDLE_UNIT : BLOCK_UNIT);
        return;
    }
    find_parts(&p->parts, &p->seen.sel, p->seen.n_shared, b->kind == BUNDLE ? piece->bundle : piece->block,
               b->kind == BUNDLE ? BUNDLE_UNIT : BLOCK_UNIT);
}

int32_t treeattn_tile_rows(const struct treeattn_planner *p, const struct block *b, int64_t nq)
{
    int32_t m = tile_rows(nq * p->gqa);
    return b->kind == TRUNK && tile_rows(p->cut.high) == TILE_TEAM_ROWS ? TILE_TEAM_ROWS : m;
}

struct tile_part treeattn_next_part(const struct treeattn_planner *p, const struct block *b,
                                    struct sel_place *at, int64_t n_kv)
{
    struct tile_part x = {.n_kv = n_kv};
    const struct run *first = &p->seen.sel.run[at->run];
    if (first->end - at->off >
        n_kv) { /* within one run, as most parts of a long prefix are: all see all of it */
        at->off += n_kv;
        x.nq = p->seen.by[at->run].end - p->seen.by[at->run].begin;
        x.m = treeattn_tile_rows(p, b, x.nq);
        return x;
    }
    int32_t done = b->q0, most = 0; /* the most queries that see one run */
    int64_t by_most = 0, runs = 0;  /* tokens that `most` queries see, and their runs */
    int64_t run0 = at->run;
    for (int64_t left = n_kv, n; left > 0; left -= n) {
        const struct run *run = &p->seen.sel.run[at->run];
        const struct qrange *by = &p->seen.by[at->run];
        int32_t nq = by->end - by->begin;
        n = min_i64(run->end - at->off, left);
        at->off += n;
        if (at->off == run->end)
            *at = (struct sel_place){.run = at->run + 1};
        x.nq += by->end > done ? by->end - (by->begin > done ? by->begin : done) : 0;
        done = by->end > done ? by->end : done;
        x.few += nq * p->gqa <= TILE_TEAM_ROWS ? n : 0;
        by_most = nq > most ? n : by_most + (nq == most ? n : 0);
        runs = nq > most ? 1 : runs + (nq == most ? 1 : 0);
        x.runs++;
        most = nq > most ? nq : most;
    }
    if (p->nf->since) {
        struct qrange all = from_first_to_last(&p->seen.by[run0], at->run + (at->off > 0) - run0);
        x.nq = all.end - all.begin;
    }
    bool by_all = most == x.nq; /* else no run is seen by all */
    x.own = n_kv - (by_all ? by_most : 0);
    x.runs -= by_all ? runs : 0;
    x.few -= by_all && most * p->gqa <= TILE_TEAM_ROWS ? by_most : 0;
    x.m = treeattn_tile_rows(p, b, x.nq);
    return x;
}
