/*
 * treeattn.c - ours: tiles of neighbouring queries with all that any of them sees, so that few partial results, or none, are
 * ever written.
 *
 * What the other strategies share they pay for with partial results: a query that ends in a leaf of 32 tokens, below nodes of
 * 32, 64 and 128 that other queries see as well, leaves one for each of them, and at 4 query heads a KV head each is written
 * and read again with as many bytes as 8 tokens of K and V have. But a tensor core multiplies 16 rows at least, or 64, and
 * neighbours in the tree fill them for nothing: what one of them does not see a mask hides. So here queries are cut, not nodes.
 *
 *   bundle   all below, and with, a topmost node of at most `low` rows (queries x query heads of a KV head)
 *   block    of what is above: at most `high` rows, with every token between the root and the bundles that any of them sees.
 *            Tokens above are read again for every block, which tiles of a group by itself would do as well, and mostly from
 *            the L2. A block that has no place left for all of a node's rows ends before it if the node costs more than the
 *            rows that are left are worth (goes_on): nearly always where branches are long, hardly ever in the token trees of
 *            speculative decoding, a token a node behind thousands that all see.
 *
 *   trunk    a node of more than `high` rows and at least `trunk` tokens, which blocks then do without: a group of all queries
 *            below it, so that rows fill tiles where heads per KV head are no power of two, and the prefix of a token tree has
 *            tiles of 128 rows whatever blocks have.
 *
 * Blocks and bundles are groups with a bit mask; a query has at most one partial result of either, and none where low = 0 and
 * there is no trunk: one block is all that a query is in then. Those of more than `piece` tokens (bundles: `bundle`) are cut,
 * where nodes end if they can be, in parts that have those queries that see any of it: few, and without a mask, where a part is
 * of one node. Groups of at most 32 rows have tiles of 16 and 32, or of 64 (`tall`), whose products wgmma does and whose tokens two
 * teams of warps share.
 *
 * In a group with a mask tokens that all see and those that some do not take turns (`turns`, interleave.h).
 *
 * Where an option is not given, the plan that costs least by a model of our kernels is taken (sim/time/treeattn_cost.h), or, as the model
 * errs, the second or third (`rank`), which can be timed.
 */
#include "sim/strategies/interleave.h"
#include "sim/strategies/tree_parts.h"
#include "sim/strategies/edge_planners.h"
#include "sim/strategies/treeattn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_LOW, OPT_HIGH, OPT_PIECE, OPT_BUNDLE, OPT_TRUNK, OPT_TALL, OPT_TURNS, OPT_RANK, N_OPTS };

enum {
    BUNDLE_PIECE = 1024,  /* tokens of a bundle's part, at most, where nothing else is said */
    TRUNK_TOKENS = 256,   /* of a trunk's node, where the model says that there should be any */
    BLOCK_UNIT = 64,      /* tokens in which parts of a block's node, */
    BUNDLE_UNIT = 16,     /* and of a bundle's, are counted */
    SLIVERS = 4,          /* so many, or more, in a piece are no parts of their own */
    PAIR_TURN = 128,      /* tokens of a turn in tiles of more than 64 rows, */
    TURN = 64,            /* and in others */
    LEAST_TURNS_16 = 640, /* tokens of a group in tiles of 16 rows, if they take turns */
    MANY_RUNS = 16,       /* a node and query: more than a cut is worth to be priced, if another was */
    MOST_RANKS = 32,      /* plans between which measuring may decide */
    TILE_N = 64
};

static const struct strategy_opt opts[] = {
    [OPT_LOW] = {"low", -1, -1, TILE_MAX,
                 "rows of a bundle at most; 0: no bundles; -1: as the cost model says", NULL},
    [OPT_HIGH] = {"high", 0, 0, TILE_MAX, "rows of a block at most; 0: as the cost model says", NULL},
    [OPT_PIECE] = {"piece", 0, 0, 1 << 30,
                   "tokens of a group, or half as many more where nodes end so; 0: as the cost model says",
                   NULL},
    [OPT_BUNDLE] = {"bundle", 0, 0, 1 << 30,
                    "tokens of a bundle's group; 0: as the cost model says, or, where it says nothing else, "
                    "as `piece`, and 1024 at most",
                    NULL},
    [OPT_TRUNK] =
        {"trunk", -1, -1, 1 << 30,
         "tokens of a trunk's node at least; 0: no trunks; -1: as the cost model says, or, where it "
         "says nothing else, none",
         NULL},
    [OPT_TALL] =
        {"tall", -1, -1, TILE_TALLEST,
         "1: tiles of 64 rows where 32 would do; 2: where 16 would, too; 0: of 16 and 32; -1: as the cost "
         "model says, or, where it says nothing else, of 16 and 32",
         NULL},
    [OPT_TURNS] = {"turns", 1, 0, 1,
                   "1: in tiles of 64 rows and more, and of 16 where tokens are many, those that all see "
                   "and others take turns; 0: tokens as the tree has them",
                   NULL},
    [OPT_RANK] = {"rank", 1, 1, MOST_RANKS,
                  "of the plans by the cost model, cheapest first: the so-manieth, or the last", NULL},
    [N_OPTS] = {0},
};

/* In this order they stand. */
enum sort { BLOCK, TRUNK, BUNDLE };

/* Before it is cut in pieces. */
struct cover {
    enum sort sort;
    int32_t q0, q1;
    /* Of live nodes: a block has the innermost of its own that its first query is below (-1: none), those above that one (up), and
     * of first .. end those that belong to blocks; a bundle has of these those that belong to bundles; a trunk has its innermost
     * and those above that one. */
    int32_t top, first, end;
    int64_t shared;   /* tokens that all of its queries see, */
    int64_t own, few; /* and others; of these, of nodes with at most TILE_TEAM_ROWS rows */
    int64_t pairs;    /* of a query and one of the others */
    int32_t runs;     /* nodes */
};

struct cut {
    int64_t low, high; /* rows */
    int64_t trunk;     /* tokens; 0: none */
    int tall;          /* as tile_bill_tall has it */
};

/* Tokens of a part, of a block (or trunk) and of a bundle. */
struct piece {
    int64_t block, bundle;
};

/* A cover as a selection, with the queries that see each of its runs. */
struct seen {
    struct sel sel;
    struct qrange *by; /* [sel.n_runs]; of the cover's */
    int64_t cap_by;
    int64_t n_shared; /* runs that all of its queries see: depth first, those come first */
};

/* Of a cover's tokens, one run after the other: part i is end[i - 1] .. end[i]. */
struct parts {
    int64_t *end;
    int64_t n, cap;
};

struct planner {
    const struct live *live; /* depth first */
    int32_t n, gqa;
    int64_t tokens;    /* of all of them */
    int32_t n_queries; /* that see any */
    struct cut cut;
    /* [n] Of a node that is not low, -1 for none: the one above it; the innermost that blocks have, itself or above; of one
     * that blocks have the next above that they have, of a trunk's the next above in the same trunk; */
    int32_t *over, *base, *up;
    int64_t *above;      /* [n] tokens from the last `up` to its end, */
    int32_t *depth;      /* [n] and nodes */
    struct cover *cover; /* blocks, then bundles */
    int64_t n_covers, cap_cover;
    int64_t n_runs; /* of all covers */
    struct seen seen;
    struct parts parts;
    struct pieces it; /* over them */
    struct sel spare[INTERLEAVE_SORTS];
    uint8_t *sort; /* of a group's runs */
    int64_t cap_sort;
    struct tile_env price;
};

static int64_t rows_of(const struct planner *p, const struct live *v)
{
    return (int64_t)(v->q1 - v->q0) * p->gqa;
}

static bool is_low(const struct planner *p, const struct live *v)
{
    return rows_of(p, v) <= p->cut.low;
}

static bool is_trunk(const struct planner *p, const struct live *v)
{
    return p->cut.trunk > 0 && v->len >= p->cut.trunk && rows_of(p, v) > p->cut.high;
}

static bool have_same_queries(const struct live *v, const struct live *w)
{
    return v->q0 == w->q0 && v->q1 == w->q1;
}

/* Does a node between first and end belong to the cover? */
static bool belongs(const struct planner *p, const struct cover *c, const struct live *v)
{
    return c->sort == BUNDLE ? is_low(p, v) : !is_low(p, v) && !is_trunk(p, v) && v->q0 < c->q1;
}

/* Queries of the cover that are below a node of it. */
static struct qrange clipped(const struct cover *c, const struct live *v)
{
    return (struct qrange){v->q0 > c->q0 ? v->q0 : c->q0, v->q1 < c->q1 ? v->q1 : c->q1};
}

static void count_node(const struct planner *p, struct cover *c, const struct live *v)
{
    struct qrange by = clipped(c, v);
    int64_t nq = by.end - by.begin;
    bool all = nq == c->q1 - c->q0;
    c->shared += all ? v->len : 0;
    c->own += all ? 0 : v->len;
    c->few += all || nq * p->gqa > TILE_TEAM_ROWS ? 0 : v->len;
    c->pairs += all ? 0 : v->len * nq;
}

static void add_cover(struct planner *p, struct cover c)
{
    if (c.q0 >= c.q1)
        return;
    int32_t all = c.top; /* nodes from there up are above all queries; others end in this block */
    for (; all >= 0 && p->live[all].q1 < c.q1; all = p->up[all])
        count_node(p, &c, &p->live[all]);
    c.shared += all < 0 ? 0 : p->above[all];
    c.runs = c.top < 0 ? 0 : p->depth[c.top];
    for (const struct live *v = p->live + c.first; v < p->live + c.end; v++)
        if (belongs(p, &c, v)) {
            count_node(p, &c, v);
            c.runs++;
        }
    if (c.shared + c.own == 0)
        return;
    p->cover = xgrow(p->cover, &p->cap_cover, p->n_covers + 1, sizeof *p->cover);
    p->cover[p->n_covers++] = c;
    p->n_runs += c.runs;
}

static void find_bundles(struct planner *p)
{
    struct cover c = {.sort = BUNDLE, .top = -1};
    for (int32_t i = 0; i < p->n; i++) {
        const struct live *v = &p->live[i];
        if (!is_low(p, v))
            continue;
        if (v->q0 >= c.q1) { /* not below the node before */
            add_cover(p, c);
            c.q0 = v->q0;
            c.q1 = v->q1;
            c.first = i;
        }
        c.end = i + 1;
    }
    add_cover(p, c);
}

/* The block that is being filled: its queries so far end where it ends. */
struct filling {
    struct planner *p;
    struct cover c;
    int32_t open; /* innermost node that what comes next is below; -1: none */
    int64_t cap;  /* queries that it holds */
};

static bool is_empty(const struct filling *f)
{
    return f->c.q0 == f->c.q1;
}

/* Of nodes that blocks have the innermost that what comes next is below; -1: none. */
static int32_t base_of(const struct filling *f)
{
    return f->open < 0 ? -1 : f->p->base[f->open];
}

/* What comes begins with node i and query q. */
static void close_block(struct filling *f, int32_t i, int32_t q)
{
    f->c.end = i;
    add_cover(f->p, f->c);
    f->c.first = i;
    f->c.q0 = f->c.q1 = q;
    f->c.top = base_of(f);
}

/* Queries up to `end` that no node but those above has. */
static void fill_up_to(struct filling *f, int32_t end, int32_t i)
{
    while (f->c.q1 < end) {
        if (f->c.q1 - f->c.q0 == f->cap)
            close_block(f, i, f->c.q1);
        f->c.q1 = (int32_t)min_i64(end, f->c.q0 + f->cap);
    }
}

/* Does the block take the node's first queries, if it has no place for all? The next one reads the node's tokens, too, and from
 * all other rows of this one they are hidden; but the part of a tile that is left has all that is above, which is saved. */
static bool goes_on(const struct filling *f, const struct live *v)
{
    int64_t left = f->cap - (f->c.q1 - f->c.q0);
    int32_t base = base_of(f);
    double above = base < 0 ? 0 : (double)f->p->above[base];
    return v->q1 - f->c.q0 <= f->cap || (double)v->len * (double)f->cap <= above * (double)left;
}

static void open_node(struct filling *f, int32_t i)
{
    struct planner *p = f->p;
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
        f->c.top = p->base[i];
        f->c.first = i + 1;
        f->c.q0 = f->c.q1 = v->q0;
    }
}

static void find_blocks(struct planner *p)
{
    struct filling f = {.p = p, .c = {.top = -1}, .open = -1, .cap = max_i64(1, p->cut.high / p->gqa)};
    for (int32_t i = 0; i <= p->n; i++) {
        const struct live *v = &p->live[i];
        int32_t q0 = i < p->n ? v->q0 : INT32_MAX;
        if (i < p->n && is_low(p, v))
            continue;
        while (f.open >= 0) { /* queries before it, of nodes above that go on or end */
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

static void find_trunks(struct planner *p)
{
    for (int32_t i = 0; i < p->n && p->cut.trunk > 0; i++) {
        const struct live *v = &p->live[i];
        bool goes_on = i + 1 < p->n && is_trunk(p, v + 1) && have_same_queries(v, v + 1);
        if (is_trunk(p, v) && !goes_on)
            add_cover(p, (struct cover){.sort = TRUNK, .q0 = v->q0, .q1 = v->q1, .top = i});
    }
}

static void find_covers(struct planner *p, struct cut cut)
{
    p->cut = cut;
    p->n_covers = p->n_runs = 0;
    find_blocks(p);
    find_trunks(p);
    find_bundles(p);
}

/* ---- cuts ------------------------------------------------------------------------------------------- */

/* The selection's queries become those that see any of it, of one run after the other. */
static void select_queries(struct sel *s, const struct cover *c, const struct qrange *by)
{
    int32_t done = c->q0;
    s->n_qr = s->nq = 0;
    for (int64_t r = 0; r < s->n_runs && done < c->q1; r++) {
        sel_queries(s, (int32_t)max_i64(by[r].begin, done), by[r].end);
        done = (int32_t)max_i64(done, by[r].end);
    }
}

/* Nodes above, root first, then the rest. */
static void see_cover(struct seen *s, const struct planner *p, const struct cover *c)
{
    int64_t depth = 0;
    sel_clear(&s->sel);
    for (int32_t i = c->top; i >= 0; i = p->up[i])
        depth++;
    s->by = xgrow(s->by, &s->cap_by, depth, sizeof *s->by);
    s->sel.run = xgrow(s->sel.run, &s->sel.cap_run, depth, sizeof *s->sel.run);
    s->sel.n_runs = depth;
    for (int32_t i = c->top; i >= 0; i = p->up[i]) {
        const struct live *v = &p->live[i];
        s->sel.run[--depth] = (struct run){v->node, 0, v->len};
        s->by[depth] = clipped(c, v);
        s->sel.n_kv += v->len;
    }
    for (const struct live *v = p->live + c->first; v < p->live + c->end; v++)
        if (belongs(p, c, v)) {
            s->by = xgrow(s->by, &s->cap_by, s->sel.n_runs + 1, sizeof *s->by);
            s->by[s->sel.n_runs] = clipped(c, v);
            sel_run(&s->sel, v->node, 0, v->len);
        }
    select_queries(&s->sel, c, s->by);
    s->n_shared = 0;
    for (const struct qrange *by = s->by; s->n_shared < s->sel.n_runs && by->end - by->begin == c->q1 - c->q0;
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

/* What is open since the last cut, up to the end of a node of many tokens, which begins at `begin`. */
static void cut_long(struct parts *p, int64_t begin, int64_t end, int64_t most, int64_t unit)
{
    int64_t first = last_cut(p), n = end - first, parts = ceil_div(n, most + most / SLIVERS);
    for (int64_t i = 1; i < parts; i++) {
        int64_t at = begin + ((first + n * i / parts - begin + unit / 2) / unit) * unit;
        if (at > last_cut(p) && at < end)
            cut_at(p, at);
    }
}

/* Nodes of few tokens, run r0 .. r1 of the cover, begin .. end of its tokens: where the node ends that is nearest to an even
 * cut. */
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
 * Parts of about `most` tokens. A node of more than half of that is cut by itself; neighbours of fewer tokens are cut together,
 * where one of them ends, or go with the node beside them where all of them have less than a quarter of a part. But where the
 * first `shared` runs end, which all queries see, is a cut, however few the others have, unless these first are as few: what is
 * cut must be merged anyway, and a part more spares that of the last of the first a mask.
 */
static void find_parts(struct parts *p, const struct sel *sel, int64_t shared, int64_t most, int64_t unit)
{
    p->n = 0;
    int64_t at = 0, sliver = ceil_div(most, SLIVERS);
    for (int64_t r = 0, end; r < sel->n_runs && sel->n_kv > most; r = end) {
        int64_t begin = at, last = r < shared ? shared : sel->n_runs;
        if (r == shared && begin >= sliver && begin > last_cut(p) && sel->n_kv > most + most / SLIVERS)
            cut_at(p, begin);
        for (end = r; end < last && 2 * (sel->run[end].end - sel->run[end].begin) <= most; end++)
            at += sel->run[end].end - sel->run[end].begin;
        if (end > r) { /* short ones */
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

static void find_parts_of(struct planner *p, const struct cover *c, const struct piece *piece)
{
    find_parts(&p->parts, &p->seen.sel, p->seen.n_shared, c->sort == BUNDLE ? piece->bundle : piece->block,
               c->sort == BUNDLE ? BUNDLE_UNIT : BLOCK_UNIT);
}

/* Of a group of so many of the cover's queries, if it is not tall. */
static int32_t rows_of_tile(const struct planner *p, const struct cover *c, int64_t nq)
{
    int32_t m = tile_rows(nq * p->gqa);
    return c->sort == TRUNK && tile_rows(p->cut.high) == TILE_TEAM_ROWS ? TILE_TEAM_ROWS : m;
}

/* The cover's next n_kv tokens; moves on behind them. */
static struct tile_part next_part(const struct planner *p, const struct cover *c, struct sel_place *at,
                                  int64_t n_kv)
{
    struct tile_part x = {.n_kv = n_kv};
    const struct run *first = &p->seen.sel.run[at->run];
    if (first->end - at->off > n_kv) { /* within one run, as most parts of a long prefix: all see all of it */
        at->off += n_kv;
        x.nq = p->seen.by[at->run].end - p->seen.by[at->run].begin;
        x.m = rows_of_tile(p, c, x.nq);
        return x;
    }
    int32_t done = c->q0, most = 0; /* queries that see one run */
    int64_t by_most = 0, runs = 0;  /* tokens that so many see, and their runs */
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
    bool by_all = most == x.nq; /* those that most see, all see; or no run is seen by all */
    x.own = n_kv - (by_all ? by_most : 0);
    x.runs -= by_all ? runs : 0;
    x.few -= by_all && most * p->gqa <= TILE_TEAM_ROWS ? by_most : 0;
    x.m = rows_of_tile(p, c, x.nq);
    return x;
}

/* ---- the choice ------------------------------------------------------------------------------------- */

/* Pieces that are tried with every cut: all, as waves of CTAs make a price go up and down with them. Unless the best of them is not
 * nearly the best yet, short ones where it is short, and other pieces of bundles. */
static const int64_t pieces[] = {128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, INT64_C(1) << 40};
enum { N_PIECES = sizeof pieces / sizeof pieces[0] };
static const int64_t short_pieces[] = {64, 96, 192}; /* the first two where the best is the first of those */
enum { N_SHORT = sizeof short_pieces / sizeof short_pieces[0] };
static const int64_t bundle_pieces[] = {128, 256, 512, BUNDLE_PIECE};
enum { N_BUNDLE_PIECES = sizeof bundle_pieces / sizeof bundle_pieces[0] };
static const double nearly = 1.15;
/* Tiles of 64 rows where 16 would do: the model was not fitted to them and prices them too low (kernels/README.md). So they must be
 * better by so much, and their CTAs one wave: in several they take up to 1.3 times what it says. */
static const double tallest_over = 1.07;

/* What options say; ANY: nothing. */
struct asked {
    int64_t low, high, piece, bundle, trunk, tall;
};
enum { ANY = -1 };

struct choice {
    struct cut cut;
    struct piece piece; /* block 0: none yet */
    double price;
};

static int64_t told(double value, double nothing)
{
    return value <= nothing ? ANY : (int64_t)value;
}

/* Tokens of a bundle's part, if as many as a block's. */
static int64_t as_blocks(int64_t piece)
{
    return min_i64(piece, BUNDLE_PIECE);
}

static struct asked asked_of(const double *opt)
{
    struct asked a = {.low = told(opt[OPT_LOW], -1),
                      .high = told(opt[OPT_HIGH], 0),
                      .piece = told(opt[OPT_PIECE], 0),
                      .bundle = told(opt[OPT_BUNDLE], 0),
                      .trunk = told(opt[OPT_TRUNK], -1),
                      .tall = told(opt[OPT_TALL], -1)};
    if (!treeattn_chooses(opt)) { /* plans as they were before there were these */
        a.bundle = a.bundle == ANY ? as_blocks(a.piece) : a.bundle;
        a.trunk = a.trunk == ANY ? 0 : a.trunk;
        a.tall = a.tall == ANY ? 0 : a.tall;
    }
    return a;
}

/* Without trunks and tall tiles where they are not asked for. */
static struct cut cut_of(const struct asked *a, int64_t low, int64_t high)
{
    return (struct cut){
        .low = low, .high = high, .trunk = max_i64(a->trunk, 0), .tall = (int)max_i64(a->tall, 0)};
}

/* The cheapest, best first. */
struct shortlist {
    int most, n;
    struct choice at[MOST_RANKS];
};

/* Equal prices are taken for the same plan, told in other words. */
static void enlist(struct shortlist *l, const struct choice *x)
{
    int i = l->n;
    while (i > 0 && x->price < l->at[i - 1].price)
        i--;
    if (i == l->most || (i > 0 && x->price == l->at[i - 1].price))
        return;
    l->n += l->n < l->most;
    memmove(&l->at[i + 1], &l->at[i], (size_t)(l->n - 1 - i) * sizeof l->at[0]);
    l->at[i] = *x;
}

/* Do they cost as much as each other? */
static bool alike(const struct cover *x, const struct cover *y)
{
    return x->sort == y->sort && x->q1 - x->q0 == y->q1 - y->q0 && x->shared == y->shared &&
           x->own == y->own && x->few == y->few && x->pairs == y->pairs;
}

/* Covers of which one is seen. */
struct covers {
    const struct cover *c;
    double times;
    bool alone;   /* their queries are in no other */
    int64_t like; /* tokens that are also the first of a neighbour */
};

/* Part k, and those behind it that are in the same run, if it is in one; returns the next. */
static int64_t add_parts(struct tile_bill *bill, const struct planner *p, const struct covers *x, int64_t k,
                         struct sel_place *at)
{
    const int64_t *end = p->parts.end;
    const struct qrange *by = &p->seen.by[at->run];
    int64_t begin = k == 0 ? 0 : end[k - 1], left = p->seen.sel.run[at->run].end - at->off;
    if (end[k] - begin > left) {
        struct tile_part part = next_part(p, x->c, at, end[k] - begin);
        tile_bill_add(bill, &part, p->gqa, x->times, false, end[k] <= x->like);
        return k + 1;
    }
    struct tile_stretches s = {.alone = {0}};
    for (; k < p->parts.n && end[k] - begin <= left; begin = end[k++]) {
        tile_stretch_add(&s, end[k] - begin, end[k] <= x->like);
        at->off += end[k] - begin;
        left -= end[k] - begin;
    }
    if (left == 0)
        *at = (struct sel_place){.run = at->run + 1};
    int64_t nq = by->end - by->begin;
    tile_bill_add_stretches(bill, &s, rows_of_tile(p, x->c, nq), nq, p->gqa, x->times);
    return k;
}

/* To the bills of n pieces, which get longer: when a cover is one part, it is for all that follow. */
static void add_covers(struct tile_bill *bill, struct planner *p, const struct covers *x,
                       const struct piece *piece, int n)
{
    int i = 0;
    see_cover(&p->seen, p, x->c);
    for (; i < n; i++) {
        struct sel_place at = {0};
        find_parts_of(p, x->c, &piece[i]);
        if (p->parts.n == 1)
            break;
        for (int64_t k = 0; k < p->parts.n;)
            k = add_parts(&bill[i], p, x, k, &at);
    }
    struct sel_place at = {0};
    struct tile_part all = next_part(p, x->c, &at, p->seen.sel.n_kv);
    for (; i < n; i++)
        tile_bill_add(&bill[i], &all, p->gqa, x->times, x->alone, all.n_kv <= x->like);
}

/* Tokens that two blocks begin with. */
static int64_t tokens_of_both(const struct planner *p, const struct cover *x, const struct cover *y)
{
    int32_t i = x->top;
    while (i >= 0 && (p->live[i].q0 > y->q0 || p->live[i].q1 < y->q1 || p->live[i].q1 < x->q1))
        i = p->up[i];
    return i < 0 ? 0 : p->above[i];
}

static int64_t tokens_alike(const struct planner *p, const struct cover *c)
{
    int64_t n = 0;
    if (c->sort == BLOCK && c > p->cover)
        n = tokens_of_both(p, c, c - 1);
    if (c->sort == BLOCK && c + 1 < p->cover + p->n_covers && c[1].sort == BLOCK)
        n = max_i64(n, tokens_of_both(p, c, c + 1));
    return n;
}

/* Of the covers, in pieces of so many tokens, n of them, ascending; returns the tokens of the longest block or trunk, and bundle. */
static struct piece find_bills(struct planner *p, const struct piece *piece, int n, struct tile_bill *bill)
{
    struct piece longest = {0};
    const struct cover *end = p->cover + p->n_covers;
    bool alone = p->n_covers <= 1 || (p->cover->sort == end[-1].sort && p->cover->sort != TRUNK);
    for (int i = 0; i < n; i++)
        bill[i] = (struct tile_bill){.tokens = (double)p->tokens, .queries = p->n_queries};
    for (const struct cover *c = p->cover, *next; c < end; c = next) {
        for (next = c + 1; next < end && alike(c, next);) /* neighbours often are */
            next++;
        struct covers x = {.c = c, .times = (double)(next - c), .alone = alone, .like = tokens_alike(p, c)};
        add_covers(bill, p, &x, piece, n);
        int64_t *most = c->sort == BUNDLE ? &longest.bundle : &longest.block;
        *most = max_i64(*most, c->shared + c->own);
    }
    return longest;
}

/* With tiles as tall as asked for, or any. */
static void try_talls(const struct planner *p, const struct asked *a, const struct tile_bill *bill,
                      struct piece piece, struct shortlist *best)
{
    bool any = a->tall == ANY;
    int least = any ? 0 : p->cut.tall, most = any ? TILE_TALLEST : least;
    for (int tall = least; tall <= most; tall++) {
        if (any && !tile_bill_grows(bill, tall)) /* the same tiles as before */
            continue;
        struct tile_bill b = tile_bill_tall(bill, tall);
        bool doubtful = any && tall == TILE_TALLEST;
        if (doubtful && !tile_bill_is_wave(&b, &p->price))
            continue;
        struct choice x = {.cut = p->cut, .piece = piece, .price = tile_price(&b, &p->price, &tile_coefs)};
        x.cut.tall = tall;
        x.price *= doubtful ? tallest_over : 1;
        enlist(best, &x);
    }
}

/* The best of n pieces, ascending, and of what there is. */
static void try_pieces(struct planner *p, const struct asked *a, const struct piece *piece, int n,
                       struct shortlist *best)
{
    struct tile_bill bill[N_PIECES];
    struct piece longest = find_bills(p, piece, n, bill);
    bool is_whole = false; /* are all covers, so that longer pieces are the same? */
    for (int i = 0; i < n && !is_whole; i++) {
        try_talls(p, a, &bill[i], piece[i], best);
        is_whole = piece[i].block >= longest.block && piece[i].bundle >= longest.bundle;
    }
}

/* Bundles in pieces as asked for, or as long as blocks have them. */
static void try_block_pieces(struct planner *p, const struct asked *a, const int64_t *block, int n,
                             struct shortlist *best)
{
    struct piece piece[N_PIECES];
    for (int i = 0; i < n; i++)
        piece[i] = (struct piece){block[i], a->bundle == ANY ? as_blocks(block[i]) : a->bundle};
    try_pieces(p, a, piece, n, best);
}

static void try_bundle_pieces(struct planner *p, const struct asked *a, struct shortlist *best)
{
    struct piece piece[N_BUNDLE_PIECES];
    for (int i = 0; i < N_BUNDLE_PIECES; i++)
        piece[i] = (struct piece){best->at[0].piece.block, bundle_pieces[i]};
    try_pieces(p, a, piece, N_BUNDLE_PIECES, best);
}

static bool has(const struct planner *p, enum sort sort)
{
    for (const struct cover *c = p->cover; c < p->cover + p->n_covers; c++)
        if (c->sort == sort)
            return true;
    return false;
}

/* With the pieces that are asked for, or the best. */
static void try_cut(struct planner *p, const struct asked *a, struct shortlist *best)
{
    struct shortlist here;
    here.most = best->most;
    here.n = 0;
    bool any = a->piece == ANY;
    try_block_pieces(p, a, any ? pieces : &a->piece, any ? N_PIECES : 1, &here);
    bool is_near = best->n == 0 || here.at[0].price < nearly * best->at[0].price;
    if (any && is_near && here.at[0].piece.block <= pieces[1]) {
        int first = here.at[0].piece.block == pieces[0] ? 0 : 2;
        try_block_pieces(p, a, short_pieces + first, N_SHORT - first, &here);
    }
    if (a->bundle == ANY && is_near && has(p, BUNDLE))
        try_bundle_pieces(p, a, &here);
    for (int i = 0; i < here.n; i++)
        enlist(best, &here.at[i]);
}

/* Rows of the largest bundle, or block; 0: there is none. */
static int64_t most_rows(const struct planner *p, bool bundle)
{
    int64_t most = 0;
    for (const struct cover *c = p->cover; c < p->cover + p->n_covers; c++)
        most = (c->sort == BUNDLE) == bundle ? max_i64(most, (int64_t)(c->q1 - c->q0) * p->gqa) : most;
    return most;
}

/* With one bound for bundles, and the block's that is asked for or the best. `before`: a smaller bound for bundles that was tried. */
static void try_blocks(struct planner *p, int64_t low, int64_t before, const struct asked *a,
                       struct shortlist *best)
{
    static const int64_t highs[] = {TILE_MAX, 64, 32, 16}; /* fewest runs first */
    const int64_t many = MANY_RUNS * ((int64_t)p->n + p->n_queries);
    int64_t largest = INT64_MAX;
    for (size_t k = 0; k < (a->high != ANY ? 1 : sizeof highs / sizeof highs[0]); k++) {
        int64_t high = a->high != ANY ? max_i64(a->high, low) : highs[k];
        bool no_block = a->high == ANY && ((high < p->gqa && high < TILE_MAX) || high <= low);
        if (no_block || high >= largest) /* the same blocks as before */
            continue;
        struct cut cut = cut_of(a, low, high);
        find_covers(p, cut);
        if (most_rows(p, true) <= before) /* the same bundles as before */
            return;
        largest = most_rows(p, false);
        if (best->n == 0 || p->n_runs <= many)
            try_cut(p, a, best);
        if (a->trunk != ANY)
            continue;
        cut.trunk = TRUNK_TOKENS;
        find_covers(p, cut);
        if (has(p, TRUNK) && p->n_runs <= many)
            try_cut(p, a, best);
    }
}

/* Is nothing left to choose? */
static bool is_told(const struct asked *a)
{
    return a->low != ANY && a->high != ANY && a->piece != ANY && a->bundle != ANY && a->trunk != ANY &&
           a->tall != ANY;
}

/* The planner's covers are the choice's. */
static struct choice choose(struct planner *p, const double *opt)
{
    static const int64_t lows[] = {0, 16, 32, 64};
    struct asked a = asked_of(opt);
    struct shortlist best;
    best.most = (int)opt[OPT_RANK];
    best.n = 0;
    if (is_told(&a))
        enlist(&best, &(struct choice){.cut = cut_of(&a, a.low, max_i64(a.high, a.low)),
                                       .piece = {a.piece, a.bundle}});
    else if (a.low != ANY)
        try_blocks(p, a.low, -1, &a, &best);
    for (size_t i = 0; i < sizeof lows / sizeof lows[0] && a.low == ANY; i++)
        if (lows[i] == 0 || lows[i] >= p->gqa)
            try_blocks(p, lows[i], i > 0 ? lows[i - 1] : -1, &a, &best);
    if (best.n == 0) { /* low is asked for, and no smaller than any block */
        find_covers(p, cut_of(&a, a.low, max_i64(a.low, TILE_MAX)));
        try_cut(p, &a, &best);
    }
    find_covers(p, best.at[best.n - 1].cut);
    return best.at[best.n - 1];
}

/* ---- the groups ------------------------------------------------------------------------------------- */

/* Tokens that take turns in a tile of so many rows; 0: none do. */
static int64_t tokens_of_turn(int32_t m, int64_t n_kv)
{
    if (m > TILE_TEAM_ROWS)
        return PAIR_TURN;
    return m == TILE_TEAM_ROWS || (m < TILE_TEAM_ROWS / 2 && n_kv >= LEAST_TURNS_16) ? TURN : 0;
}

/* The order of the group's tokens. What some do not see is of one sort, or of two in tiles of more than 64 rows, in each half of
 * which a warpgroup passes over what only the other half sees. by: the queries that see each of its runs. */
static void take_turns(struct planner *p, struct sel *group, const struct tile_part *x,
                       const struct qrange *by)
{
    int64_t turn = tokens_of_turn(x->m, x->n_kv);
    if (turn == 0 || x->own == 0)
        return;
    p->sort = xgrow(p->sort, &p->cap_sort, group->n_runs, sizeof *p->sort);
    for (int64_t r = 0; r < group->n_runs; r++) {
        bool all = by[r].end - by[r].begin == x->nq;
        int64_t first_row = (int64_t)(by[r].begin - group->qr->begin) * p->gqa;
        p->sort[r] = all ? 0 : x->m > TILE_TEAM_ROWS && first_row >= TILE_TEAM_ROWS ? 2 : 1;
    }
    interleave(group, p->sort, turn, p->spare);
}

static void add_groups(struct plan *plan, struct planner *p, const struct cover *c, const struct piece *piece,
                       bool turns)
{
    struct sel_place at = {0};
    see_cover(&p->seen, p, c);
    find_parts_of(p, c, piece);
    pieces_reset_at(&p->it, &p->seen.sel, p->parts.end, p->parts.n);
    for (const struct qrange *by = p->seen.by; pieces_next(&p->it); by = p->seen.by + at.run) {
        struct tile_part x = next_part(p, c, &at, p->it.piece.n_kv);
        x.m = tile_tall_rows(x.m, p->cut.tall);
        select_queries(&p->it.piece, c, by);
        if (turns)
            take_turns(p, &p->it.piece, &x, by);
        struct group_spec g = {
            .mask = x.own > 0 ? MASK_RUN_WORDS : MASK_NONE, .tile_m = x.m, .tile_n = TILE_N, .launch = 0};
        plan_group(plan, &p->it.piece, &g);
    }
}

/* Free with planner_clear. */
static struct planner planner_of(const struct nform *nf, const struct plan_env *env)
{
    struct planner p = {.gqa = heads_gqa(&env->heads), .price = tile_env_of(env)};
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

static void planner_clear(struct planner *p)
{
    pieces_free(&p->it);
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        sel_free(&p->spare[i]);
    free(p->sort);
    sel_free(&p->seen.sel);
    free(p->seen.by);
    free(p->parts.end);
    free(p->cover);
    free(p->over);
    free(p->base);
    free(p->up);
    free(p->above);
    free(p->depth);
    free((void *)p->live);
}

bool treeattn_chooses(const double *opt)
{
    return opt[OPT_LOW] < 0 || opt[OPT_HIGH] <= 0 || opt[OPT_PIECE] <= 0;
}

struct tile_bill treeattn_bill(const struct nform *nf, const struct plan_env *env, const double *opt)
{
    struct tile_bill bill;
    struct planner p = planner_of(nf, env);
    struct choice best = choose(&p, opt);
    find_bills(&p, &best.piece, 1, &bill);
    planner_clear(&p);
    return tile_bill_tall(&bill, best.cut.tall);
}

/* The choice as options. */
static void write_options(const struct choice *x, const double *opt, double *chosen)
{
    chosen[OPT_LOW] = (double)x->cut.low;
    chosen[OPT_HIGH] = (double)x->cut.high;
    chosen[OPT_PIECE] = fmin((double)x->piece.block, opts[OPT_PIECE].max);
    chosen[OPT_BUNDLE] = (double)x->piece.bundle;
    chosen[OPT_TRUNK] = (double)x->cut.trunk;
    chosen[OPT_TALL] = x->cut.tall;
    chosen[OPT_TURNS] = opt[OPT_TURNS];
    chosen[OPT_RANK] = opts[OPT_RANK].def;
}

static void choose_options(const struct nform *nf, const struct plan_env *env, const double *opt,
                           double *chosen)
{
    struct planner p = planner_of(nf, env);
    struct choice best = choose(&p, opt);
    write_options(&best, opt, chosen);
    planner_clear(&p);
}

static struct plan *plan(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt)
{
    struct planner p = planner_of(nf, env);
    struct plan *plan = plan_new(nf, s->name);
    struct choice best = choose(&p, opt);
    plan_launch(plan, "attention", LAUNCH_SERIAL);
    plan_reserve(plan, p.n_covers, p.n);
    int64_t covers[BUNDLE + 1] = {0}, longest = 0;
    for (const struct cover *c = p.cover; c < p.cover + p.n_covers; c++) {
        covers[c->sort]++;
        add_groups(plan, &p, c, &best.piece, opt[OPT_TURNS] == 1);
    }
    for (const struct group *g = plan->group; g < plan->group + plan->n_groups; g++)
        longest = max_i64(longest, g->n_kv);
    plan_merge_flat(plan, "merge", true);
    char chosen[128] = "";
    if (treeattn_chooses(opt)) {
        double x[N_OPTS];
        write_options(&best, opt, x);
        snprintf(chosen, sizeof chosen, ": low=%.0f,high=%.0f,piece=%.0f,bundle=%.0f,trunk=%.0f,tall=%.0f",
                 x[OPT_LOW], x[OPT_HIGH], x[OPT_PIECE], x[OPT_BUNDLE], x[OPT_TRUNK], x[OPT_TALL]);
    }
    plan_note(
        plan,
        "%lld bundles of at most %lld rows, %lld blocks of at most %lld, %lld trunks, in %lld groups of "
        "at most %lld tokens%s",
        (long long)covers[BUNDLE], (long long)best.cut.low, (long long)covers[BLOCK],
        (long long)best.cut.high, (long long)covers[TRUNK], (long long)plan->n_groups, (long long)longest,
        chosen);
    planner_clear(&p);
    return plan;
}

const struct strategy strategy_treeattn = {
    .name = "treeattn",
    .source = "ours",
    .about =
        "Tiles of neighbouring queries with all that any of them sees, masked: few partial results, or none.",
    .opts = opts,
    .plan = plan,
    .choose = choose_options,
};
