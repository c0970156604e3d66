/*
 * treeattn_blocks.c - which queries are a block, a trunk or a bundle (treeattn.c says what these are).
 *
 * Plain blocks are found in one walk over the live nodes, depth first. A block is filled with queries until it has no place, or
 * until the tree says that it should end.
 */
#include "sim/strategies/treeattn_planner.h"

#include <stdlib.h>

static int64_t rows_of(const struct treeattn_planner *p, const struct live *v)
{
    return (int64_t)(v->q1 - v->q0) * p->gqa;
}

static bool is_low(const struct treeattn_planner *p, const struct live *v)
{
    return rows_of(p, v) <= p->cut.low;
}

static bool is_trunk(const struct treeattn_planner *p, const struct live *v)
{
    return p->cut.trunk > 0 && v->len >= p->cut.trunk && rows_of(p, v) > p->cut.high;
}

static bool have_same_queries(const struct live *v, const struct live *w)
{
    return v->q0 == w->q0 && v->q1 == w->q1;
}

bool treeattn_belongs(const struct treeattn_planner *p, const struct block *b, const struct live *v)
{
    return b->kind == BUNDLE ? is_low(p, v) : !is_low(p, v) && !is_trunk(p, v) && v->q0 < b->q1;
}

static void count_node(const struct treeattn_planner *p, struct block *b, const struct live *v)
{
    struct qrange by = clipped(p, b, v);
    int64_t nq = by.end - by.begin;
    if (nq == 0)
        return;
    bool all = nq == b->q1 - b->q0;
    b->shared += all ? v->len : 0;
    b->own += all ? 0 : v->len;
    b->few += all || nq * p->gqa > TILE_TEAM_ROWS ? 0 : v->len;
    b->pairs += all ? 0 : v->len * nq;
}

static void add_block(struct treeattn_planner *p, struct block b)
{
    if (b.q0 >= b.q1)
        return;
    int32_t all = b.top; /* from this node up, all are above all queries */
    for (; all >= 0 && (p->nf->since || p->live[all].q1 < b.q1); all = p->up[all])
        count_node(p, &b, &p->live[all]);
    b.shared += all < 0 ? 0 : p->above[all];
    b.runs = b.top < 0 ? 0 : p->depth[b.top];
    for (const struct live *v = p->live + b.first; v < p->live + b.end; v++)
        if (treeattn_belongs(p, &b, v)) {
            count_node(p, &b, v);
            b.runs++;
        }
    if (b.shared + b.own == 0)
        return;
    p->block = xgrow(p->block, &p->cap_block, p->n_blocks + 1, sizeof *p->block);
    p->block[p->n_blocks++] = b;
    p->n_runs += b.runs;
}

static void find_bundles(struct treeattn_planner *p)
{
    struct block b = {.kind = BUNDLE, .top = -1};
    for (int32_t i = 0; i < p->n; i++) {
        const struct live *v = &p->live[i];
        if (!is_low(p, v))
            continue;
        if (v->q0 >= b.q1) { /* not below the node before */
            add_block(p, b);
            b.q0 = v->q0;
            b.q1 = v->q1;
            b.first = i;
        }
        b.end = i + 1;
    }
    add_block(p, b);
}

/* ---- plain blocks -------------------------------------------------------------------------------------- */

/* The block that is being filled. Its q1 is where its queries end so far. */
struct filling {
    struct treeattn_planner *p;
    struct block b;
    int32_t open; /* the innermost node above what comes next; -1: none */
    int64_t cap;  /* queries that it has room for */
};

static bool is_empty(const struct filling *f)
{
    return f->b.q0 == f->b.q1;
}

/* The innermost node of plain blocks above what comes next; -1: none. */
static int32_t base_of(const struct filling *f)
{
    return f->open < 0 ? -1 : f->p->base[f->open];
}

/* Ends the block. What comes next begins with node i and query q. */
static void close_block(struct filling *f, int32_t i, int32_t q)
{
    f->b.end = i;
    add_block(f->p, f->b);
    f->b.first = i;
    f->b.q0 = f->b.q1 = q;
    f->b.top = base_of(f);
}

/* Takes queries up to `end`, which no node has but those above, and ends blocks that are full. */
static void fill_up_to(struct filling *f, int32_t end, int32_t i)
{
    while (f->b.q1 < end) {
        if (f->b.q1 - f->b.q0 == f->cap)
            close_block(f, i, f->b.q1);
        f->b.q1 = (int32_t)min_i64(end, f->b.q0 + f->cap);
    }
}

/* Does the block take a node's first queries if it has no room for all of them? Then the next block reads the node's tokens, too,
 * and from all other rows of this block they are hidden. But the rows that are left share all tokens above, which are read once
 * less. */
static bool goes_on(const struct filling *f, const struct live *v)
{
    int64_t left = f->cap - (f->b.q1 - f->b.q0);
    int32_t base = base_of(f);
    double above = base < 0 ? 0 : (double)min_i64(f->p->above[base], nform_reach(f->p->nf, v->node));
    return v->q1 - f->b.q0 <= f->cap || (double)v->len * (double)f->cap <= above * (double)left;
}

static void open_node(struct filling *f, int32_t i)
{
    struct treeattn_planner *p = f->p;
    const struct live *v = &p->live[i];
    int32_t over = f->open, base = base_of(f);
    bool trunk = is_trunk(p, v);
    p->over[i] = over;
    p->base[i] = trunk ? base : i;
    if (trunk)
        p->up[i] = over >= 0 && base != over && have_same_queries(&p->live[over], v) ? over : -1;
    else
        p->up[i] = base;
    p->above[i] = v->len + (p->up[i] < 0 ? 0 : p->above[p->up[i]]);
    p->depth[i] = 1 + (p->up[i] < 0 ? 0 : p->depth[p->up[i]]);
    if (!is_empty(f) && !goes_on(f, v))
        close_block(f, i, v->q0);
    f->open = i;
    if (is_empty(f)) {
        f->b.top = p->base[i];
        f->b.first = i + 1;
        f->b.q0 = f->b.q1 = v->q0;
    }
}

static void find_plain(struct treeattn_planner *p)
{
    struct filling f = {.p = p, .b = {.top = -1}, .open = -1, .cap = max_i64(1, p->cut.high / p->gqa)};
    for (int32_t i = 0; i <= p->n; i++) {
        const struct live *v = &p->live[i];
        int32_t q0 = i < p->n ? v->q0 : INT32_MAX;
        if (i < p->n && is_low(p, v))
            continue;
        while (f.open >= 0) { /* queries before node i, below nodes that go on or end */
            int32_t end = p->live[f.open].q1;
            fill_up_to(&f, end < q0 ? end : q0, i);
            if (end > q0)
                break;
            f.open = p->over[f.open];
            if (f.open < 0 || is_empty(&f))
                close_block(&f, i, end);
        }
        if (i < p->n)
            open_node(&f, i);
    }
}

/* ---- all blocks ---------------------------------------------------------------------------------------- */

static void find_trunks(struct treeattn_planner *p)
{
    for (int32_t i = 0; i < p->n && p->cut.trunk > 0; i++) {
        const struct live *v = &p->live[i];
        bool goes_on = i + 1 < p->n && is_trunk(p, v + 1) && have_same_queries(v, v + 1);
        if (is_trunk(p, v) && !goes_on)
            add_block(p, (struct block){.kind = TRUNK, .q0 = v->q0, .q1 = v->q1, .top = i});
    }
}

void treeattn_find_blocks(struct treeattn_planner *p, struct cut cut)
{
    p->cut = cut;
    p->n_blocks = p->n_runs = 0;
    find_plain(p);
    find_trunks(p);
    find_bundles(p);
}

struct treeattn_planner treeattn_planner_new(const struct nform *nf, const struct plan_env *env)
{
    struct treeattn_planner p = {.nf = nf, .gqa = heads_gqa(&env->heads), .price = tile_env_of(env)};
    p.live = live_depth_first(nf, &p.n);
    p.over = xcalloc((size_t)p.n, sizeof *p.over);
    p.base = xcalloc((size_t)p.n, sizeof *p.base);
    p.up = xcalloc((size_t)p.n, sizeof *p.up);
    p.above = xcalloc((size_t)p.n, sizeof *p.above);
    p.depth = xcalloc((size_t)p.n, sizeof *p.depth);
    int32_t done = 0;
    for (const struct live *v = p.live; v < p.live + p.n; v++) {
        p.tokens += v->len;
        p.n_queries += (int32_t)max_i64(0, v->q1 - max_i64(v->q0, done));
        done = (int32_t)max_i64(v->q1, done);
    }
    return p;
}

void treeattn_planner_free(struct treeattn_planner *p)
{
    pieces_free(&p->it);
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        sel_free(&p->spare[i]);
    free(p->sort);
    sel_free(&p->seen.sel);
    free(p->seen.by);
    free(p->parts.end);
    free(p->block);
    free(p->over);
    free(p->base);
    free(p->up);
    free(p->above);
    free(p->depth);
    free((void *)p->live);
}
