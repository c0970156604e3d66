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
 *   block    of what is above: at most `high` rows that have the same innermost node of more than `high` rows, with every
 *            token between the root and the bundles that any of them sees. Tokens above are read again for every block, which
 *            tiles of a group by itself would do as well, and mostly from the L2.
 *
 * Both are groups with a bit mask; a query has at most one partial result of either, and none where low = 0: there are no
 * bundles then, and one block is all that a query is in. Groups of more than `piece` tokens are cut in equal parts, each with
 * those queries that see any of it.
 *
 * Where an option is not given, the plan that costs least by a model of our kernels is taken (below). Its coefficients were
 * fitted to measured times of such plans, and of others', on an H200; kernels/README.md says which, and how well they choose.
 * On other machines they follow the tensor cores, the bandwidth and the L2.
 */
#include "sim/strategies/parts.h"
#include "sim/strategies/planners.h"

#include <math.h>
#include <stdlib.h>

enum { OPT_LOW, OPT_HIGH, OPT_PIECE, N_OPTS };

enum {
    TEAM_ROWS = 64,      /* of which a warpgroup has as many; what its rows do not see it passes over */
    BUNDLE_PIECE = 1024, /* tokens of a bundle's piece, at most */
    BLOCK_UNIT = 64,     /* tokens in which pieces of blocks, */
    BUNDLE_UNIT = 16,    /* and of bundles, are counted */
    TILE_N = 64
};

static const struct strategy_opt opts[] = {
    [OPT_LOW] = {"low", -1, -1, TILE_MAX,
                 "rows of a bundle at most; 0: no bundles; -1: as the cost model says", NULL},
    [OPT_HIGH] = {"high", 0, 0, TILE_MAX, "rows of a block at most; 0: as the cost model says", NULL},
    [OPT_PIECE] = {"piece", 0, 0, 1 << 30, "tokens of a group at most; 0: as the cost model says", NULL},
    [N_OPTS] = {0},
};

/* A bundle or a block, before it is cut in pieces. */
struct cover {
    int32_t q0, q1;
    int32_t top; /* innermost of the nodes above that are part of it, as an index of live nodes; -1: none */
    int32_t first, end; /* live nodes of which those are, too, that belong to bundles, or to blocks */
    bool bundle;
    int64_t shared;   /* tokens that all of its queries see, */
    int64_t own, few; /* and others; of these, of nodes with at most TEAM_ROWS rows */
    int64_t pairs;    /* of a query and one of the others */
};

/* Covers side by side that cost as much as each other: rows of their tile, how many tiles, queries and tokens each, as above;
 * work: of `own`, tokens that a warpgroup does not pass over, on average. */
struct tally {
    int32_t m;
    bool bundle;
    double tiles, nq, shared, own, work, pairs, times;
};

struct cut {
    int64_t low, high; /* rows */
};

struct planner {
    const struct plan_env *env;
    const struct live *live; /* depth first */
    int32_t n, gqa;
    int64_t tokens;    /* of all of them */
    int32_t n_queries; /* that see any */
    struct cut cut;
    int32_t *up;         /* [n] of a node with more than `high` rows: the next such above it, or -1 */
    int64_t *above;      /* [n] and tokens from the root to its end */
    struct cover *cover; /* blocks, then bundles */
    int64_t n_covers, cap_cover;
    struct tally *tally;
    int64_t n_tallies, cap_tally;
    const struct machine *h200;
};

static int64_t rows_of(const struct planner *p, const struct live *v)
{
    return (int64_t)(v->q1 - v->q0) * p->gqa;
}

static bool is_low(const struct planner *p, const struct live *v)
{
    return rows_of(p, v) <= p->cut.low;
}

static bool is_top(const struct planner *p, const struct live *v)
{
    return rows_of(p, v) > p->cut.high;
}

/* Does a node between first and end belong to the cover? */
static bool belongs(const struct planner *p, const struct cover *c, const struct live *v)
{
    return c->bundle ? is_low(p, v) : !is_low(p, v) && !is_top(p, v);
}

static void add_cover(struct planner *p, struct cover c)
{
    if (c.q0 >= c.q1)
        return;
    c.shared = c.top < 0 ? 0 : p->above[c.top];
    for (const struct live *v = p->live + c.first; v < p->live + c.end; v++) {
        if (!belongs(p, &c, v))
            continue;
        bool all = v->q0 <= c.q0 && v->q1 >= c.q1;
        c.shared += all ? v->len : 0;
        c.own += all ? 0 : v->len;
        c.few += all || rows_of(p, v) > TEAM_ROWS ? 0 : v->len;
        c.pairs += all ? 0 : v->len * (v->q1 - v->q0);
    }
    if (c.shared + c.own == 0)
        return;
    p->cover = xgrow(p->cover, &p->cap_cover, p->n_covers + 1, sizeof *p->cover);
    p->cover[p->n_covers++] = c;
}

static void find_bundles(struct planner *p)
{
    struct cover c = {.top = -1, .bundle = true};
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
    int64_t cap; /* queries that it holds */
};

/* What comes begins with node i and, if that is of another place, with query q. */
static void close_block(struct filling *f, int32_t i, int32_t q)
{
    f->c.end = i;
    add_cover(f->p, f->c);
    f->c.first = i;
    f->c.q0 = f->c.q1 = q;
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

static void find_blocks(struct planner *p)
{
    struct filling f = {.p = p, .c = {.top = -1}, .cap = max_i64(1, p->cut.high / p->gqa)};
    for (int32_t i = 0; i <= p->n; i++) {
        const struct live *v = &p->live[i];
        int32_t q0 = i < p->n ? v->q0 : INT32_MAX;
        if (i < p->n && (is_low(p, v) || (!is_top(p, v) && q0 < f.c.q1)))
            continue;          /* of a bundle; or below a node that is in the block as a whole */
        while (f.c.top >= 0) { /* queries before it, of nodes above that go on or end */
            int32_t end = p->live[f.c.top].q1;
            fill_up_to(&f, end < q0 ? end : q0, i);
            if (end > q0)
                break;
            close_block(&f, i, end);
            f.c.top = p->up[f.c.top];
        }
        if (i == p->n)
            break;
        if (f.c.top < 0 || is_top(p, v) || v->q1 - f.c.q0 > f.cap)
            close_block(&f, i, q0);
        if (is_top(p, v)) {
            p->up[i] = f.c.top;
            p->above[i] = v->len + (f.c.top < 0 ? 0 : p->above[f.c.top]);
            f.c.top = i;
        } else {
            f.c.q1 = v->q1;
        }
    }
    close_block(&f, p->n, 0); /* of no node above */
}

static void find_covers(struct planner *p, struct cut cut)
{
    p->cut = cut;
    p->n_covers = 0;
    find_blocks(p);
    find_bundles(p);
}

/* ---- the price -------------------------------------------------------------------------------------- */

static int32_t tile_rows(int64_t rows)
{
    int32_t m = TILE_MIN;
    while (m < rows && m < TILE_MAX)
        m *= 2;
    return m;
}

static int64_t most_tokens(const struct cover *c, int64_t piece)
{
    return c->bundle ? min_i64(piece, BUNDLE_PIECE) : piece;
}

/* Kernels of ours, and microseconds of an H200's SM that a CTA of theirs takes of it, others beside it: to begin and end, and
 * for a token that all rows see, or that a mask hides from some; and a token's where few CTAs run and it is waited for, without
 * a mask and with one. */
enum kernel_kind { ROWS_16, ROWS_32, ROWS_64, ROWS_64_TWO_TEAMS, ROWS_128, N_KERNEL_KINDS };
static const struct {
    double begin, token, masked, waiting, masked_waiting;
} of_kind[N_KERNEL_KINDS] = {
    [ROWS_16] = {0.295, 0.0010, 0.0098, 0.0197, 0.0197},
    [ROWS_32] = {0.552, 0.0153, 0.0196, 0.0199, 0.0199},
    [ROWS_64] = {1.843, 0.0079, 0.0323, 0.0054, 0.0579},
    [ROWS_64_TWO_TEAMS] = {3.871, 0.0040, 0.0096, 0.0074, 0.0074},
    [ROWS_128] = {2.382, 0.0202, 0.0220, 0.0115, 0.0115},
};
static const double merge_us = 0.34, kernel_us = 1.96,
                    overlap = 3.2;                       /* overlap: of the three below, as a norm */
static const double of_bandwidth = 0.926, of_l2 = 0.777; /* what is reached of the data sheet's */

static enum kernel_kind kind_of(int32_t m, bool few)
{
    return m == TILE_MIN   ? ROWS_16
           : m == 32       ? ROWS_32
           : m == TILE_MAX ? ROWS_128
           : few           ? ROWS_64_TWO_TEAMS
                           : ROWS_64;
}

/* CTAs that have an SM each end in waves; many come out even. */
static double in_waves(double waves)
{
    return waves <= 1 || waves >= 4 ? waves : fmin(ceil(waves), 1.15 * waves);
}

struct price {
    double cost[N_KERNEL_KINDS], ctas[N_KERNEL_KINDS]; /* of a KV head */
    double reads, slots, q; /* tokens; query rows of partial results, and of Q, for all heads */
    double longest;
};

/* What follows from the number of rows of a cover, and from its tokens. */
static struct tally tally_of(const struct planner *p, const struct cover *c)
{
    int64_t nq = c->q1 - c->q0;
    int32_t m = tile_rows(nq * p->gqa);
    return (struct tally){.m = m,
                          .bundle = c->bundle,
                          .tiles = (double)ceil_div(nq * p->gqa, m),
                          .nq = (double)nq,
                          .shared = (double)c->shared,
                          .own = (double)c->own,
                          .work = (double)c->own - (m == TILE_MAX ? 0.5 * (double)c->few : 0),
                          .pairs = (double)c->pairs,
                          .times = 1};
}

static bool alike(const struct tally *x, const struct tally *y)
{
    return x->m == y->m && x->bundle == y->bundle && x->nq == y->nq && x->shared == y->shared &&
           x->own == y->own && x->work == y->work && x->pairs == y->pairs;
}

/* Covers side by side are often alike: one for all of those. */
static void tally_covers(struct planner *p)
{
    p->n_tallies = 0;
    p->tally = xgrow(p->tally, &p->cap_tally, p->n_covers, sizeof *p->tally);
    for (const struct cover *c = p->cover; c < p->cover + p->n_covers; c++) {
        struct tally t = tally_of(p, c);
        if (p->n_tallies > 0 && alike(&p->tally[p->n_tallies - 1], &t))
            p->tally[p->n_tallies - 1].times++;
        else
            p->tally[p->n_tallies++] = t;
    }
}

static void add_price(struct price *x, const struct tally *t, double most, bool few, bool alone)
{
    double per_part = 1 / most, tokens = t->shared + t->own, parts = ceil(tokens * per_part);
    enum kernel_kind k = kind_of(t->m, few);
    double shared_us = parts == 1 && t->own > 0 ? of_kind[k].masked : of_kind[k].token;
    double us = parts * of_kind[k].begin + t->shared * shared_us + t->work * of_kind[k].masked;
    x->cost[k] += t->times * t->tiles * us;
    x->ctas[k] += t->times * t->tiles * parts;
    x->reads += t->times * t->tiles * tokens;
    double touched = t->nq * parts; /* queries of parts */
    if (parts > 1 && t->own > 0) {
        double of_all = ceil(t->shared * per_part), others = parts - floor(t->shared * per_part);
        touched = t->nq * of_all + fmin(t->nq * others, t->nq + t->pairs * per_part);
    }
    x->q += t->times * touched;
    x->slots += parts == 1 && alone ? 0 : t->times * touched;
    double waiting = t->own > 0 ? of_kind[k].masked_waiting : of_kind[k].waiting;
    x->longest = fmax(x->longest, of_kind[k].begin + fmin(tokens, most) * waiting);
}

/* Microseconds of the plan, less what all plans take. */
static double price_of(const struct planner *p, int64_t piece)
{
    const struct plan_env *env = p->env;
    const struct machine *mc = env->machine;
    const double most[] = {(double)piece,
                           (double)min_i64(piece, BUNDLE_PIECE)}; /* of a block's group, of a bundle's */
    struct price x = {.reads = 0};
    double ctas_64 = 0;
    for (const struct tally *t = p->tally; t < p->tally + p->n_tallies; t++)
        if (t->m == TEAM_ROWS)
            ctas_64 += t->times * ceil((t->shared + t->own) / most[t->bundle]) * env->h_kv;
    bool alone =
        p->n_tallies == 0 || p->tally[0].bundle == p->tally[p->n_tallies - 1].bundle; /* blocks come first */
    for (const struct tally *t = p->tally; t < p->tally + p->n_tallies; t++)
        add_price(&x, t, most[t->bundle], ctas_64 <= mc->sms, alone);
    double sms = 0, kernels = 0, per_sm = p->h200->tensor_flops / p->h200->sms / (mc->tensor_flops / mc->sms);
    for (int k = 0; k < N_KERNEL_KINDS; k++) {
        if (x.ctas[k] == 0)
            continue;
        double waves = x.ctas[k] * env->h_kv / mc->sms;
        bool whole = k == ROWS_64_TWO_TEAMS || k == ROWS_128; /* SMs */
        sms += x.cost[k] / x.ctas[k] * (whole ? in_waves(waves) : waves);
        kernels++;
    }
    double row = (double)env->h_q * env->d * env->elt_bytes,
           token = 2.0 * env->h_kv * env->d * env->elt_bytes;
    double rest = (p->n_queries + x.q) * row + 2 * x.slots * env->h_q * (env->d + 1) * 4.0;
    double memory = 1e6 * ((double)p->tokens * token + rest) / (of_bandwidth * mc->bandwidth);
    double l2 = 1e6 * (x.reads * token + rest) / (of_l2 * mc->l2_bandwidth);
    double work = per_sm * fmax(sms, x.longest);
    return kernels * kernel_us + (x.slots > 0 ? merge_us : 0) +
           pow(pow(memory, overlap) + pow(l2, overlap) + pow(work, overlap), 1 / overlap);
}

/* ---- the choice ------------------------------------------------------------------------------------- */

struct choice {
    struct cut cut;
    int64_t piece;
    double price;
};

/* With the piece that is asked for, or the best. */
static void try_pieces(struct planner *p, int64_t asked, struct choice *best)
{
    enum { LEAST = 128, MOST = 4096 };
    double longest = 0;
    bool whole = false; /* everything is */
    tally_covers(p);
    for (const struct tally *t = p->tally; t < p->tally + p->n_tallies; t++)
        longest = fmax(longest, t->shared + t->own);
    for (int64_t piece = LEAST; !whole; piece *= 2) {
        struct choice x = {.cut = p->cut,
                           .piece = asked > 0      ? asked
                                    : piece > MOST ? INT64_C(1) << 40
                                                   : piece};
        whole = asked > 0 || (double)x.piece >= longest;
        x.price = price_of(p, x.piece);
        if (best->piece == 0 || x.price < best->price)
            *best = x;
    }
}

static struct choice choose(struct planner *p, const double *opt)
{
    static const int64_t lows[] = {0, 16, 32, 64}, highs[] = {16, 64, TILE_MAX};
    const int64_t asked_low = (int64_t)opt[OPT_LOW], asked_high = (int64_t)opt[OPT_HIGH];
    struct choice best = {.piece = 0};
    for (size_t i = 0; i < sizeof lows / sizeof lows[0]; i++)
        for (size_t k = 0; k < sizeof highs / sizeof highs[0]; k++) {
            struct cut cut = {asked_low >= 0 ? asked_low : lows[i], asked_high > 0 ? asked_high : highs[k]};
            bool again = (asked_low >= 0 && i > 0) || (asked_high > 0 && k > 0);
            bool no_bundle = asked_low < 0 && cut.low > 0 && cut.low < p->gqa;
            bool no_block =
                asked_high <= 0 && ((cut.high < p->gqa && cut.high < TILE_MAX) || cut.high <= cut.low);
            if (again || no_bundle || no_block)
                continue;
            cut.high = max_i64(cut.high, cut.low);
            find_covers(p, cut);
            try_pieces(p, (int64_t)opt[OPT_PIECE], &best);
        }
    if (best.piece == 0) { /* low is asked for, and no smaller than any block */
        find_covers(p, (struct cut){asked_low, max_i64(asked_low, TILE_MAX)});
        try_pieces(p, (int64_t)opt[OPT_PIECE], &best);
    }
    find_covers(p, best.cut);
    return best;
}

/* ---- the groups ------------------------------------------------------------------------------------- */

/* A cover as a selection, with the queries that see each of its runs. */
struct seen {
    struct sel sel;
    struct qrange *by; /* [sel.n_runs] */
    int64_t cap_by;
};

static void see(struct seen *s, const struct live *v)
{
    s->by = xgrow(s->by, &s->cap_by, s->sel.n_runs + 1, sizeof *s->by);
    s->by[s->sel.n_runs] = (struct qrange){v->q0, v->q1};
    sel_run(&s->sel, v->node, 0, v->len);
}

/* Nodes above, root first, then the rest. */
static void see_cover(struct seen *s, const struct planner *p, const struct cover *c)
{
    int64_t depth = 0;
    sel_clear(&s->sel);
    sel_queries(&s->sel, c->q0, c->q1);
    for (int32_t i = c->top; i >= 0; i = p->up[i])
        depth++;
    s->by = xgrow(s->by, &s->cap_by, depth, sizeof *s->by);
    s->sel.run = xgrow(s->sel.run, &s->sel.cap_run, depth, sizeof *s->sel.run);
    s->sel.n_runs = depth;
    for (int32_t i = c->top; i >= 0; i = p->up[i]) {
        const struct live *v = &p->live[i];
        s->sel.run[--depth] = (struct run){v->node, 0, v->len};
        s->by[depth] = (struct qrange){v->q0, v->q1};
        s->sel.n_kv += v->len;
    }
    for (const struct live *v = p->live + c->first; v < p->live + c->end; v++)
        if (belongs(p, c, v))
            see(s, v);
}

/* The part's queries become those that see any of it, of one run after the other. Do they differ in what they see? */
static bool select_queries(struct sel *part, const struct cover *c, const struct qrange *by)
{
    int32_t done = c->q0;
    part->n_qr = part->nq = 0;
    for (int64_t r = 0; r < part->n_runs && done < c->q1; r++) {
        int32_t end = (int32_t)min_i64(by[r].end, c->q1);
        sel_queries(part, (int32_t)max_i64(by[r].begin, done), end);
        done = (int32_t)max_i64(done, end);
    }
    for (int64_t r = 0; r < part->n_runs; r++)
        if (min_i64(by[r].end, c->q1) - max_i64(by[r].begin, c->q0) < part->nq)
            return true;
    return false;
}

static void add_groups(struct plan *plan, const struct planner *p, const struct cover *c, int64_t piece,
                       struct seen *s, struct pieces *it)
{
    see_cover(s, p, c);
    int64_t unit = c->bundle ? BUNDLE_UNIT : BLOCK_UNIT, n = s->sel.n_kv;
    int64_t step = ceil_div(ceil_div(n, ceil_div(n, most_tokens(c, piece))), unit) * unit;
    pieces_reset(it, &s->sel, s->sel.nq, step, false);
    for (int64_t first = 0; pieces_next(it); first = it->run) {
        bool masked = select_queries(&it->piece, c, s->by + first);
        struct group_spec g = {.mask = masked ? MASK_RUN_WORDS : MASK_NONE,
                               .tile_m = tile_rows(it->piece.nq * p->gqa),
                               .tile_n = TILE_N,
                               .launch = 0};
        plan_group(plan, &it->piece, &g);
    }
}

static struct plan *plan(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt)
{
    struct planner p = {.env = env, .gqa = env_gqa(env), .h200 = machine_find("h200")};
    struct plan *plan = plan_new(nf, s->name);
    p.live = live_depth_first(nf, &p.n);
    p.up = xcalloc((size_t)p.n, sizeof *p.up);
    p.above = xcalloc((size_t)p.n, sizeof *p.above);
    int32_t done = 0;
    for (const struct live *v = p.live; v < p.live + p.n; v++) {
        p.tokens += v->len;
        p.n_queries += (int32_t)max_i64(0, v->q1 - max_i64(v->q0, done));
        done = (int32_t)max_i64(v->q1, done);
    }
    struct choice best = choose(&p, opt);
    plan_launch(plan, "attention", LAUNCH_SERIAL);
    plan_reserve(plan, p.n_covers, p.n);
    struct seen seen = {.cap_by = 0};
    struct pieces it = {0};
    int64_t bundles = 0, longest = 0;
    for (const struct cover *c = p.cover; c < p.cover + p.n_covers; c++) {
        bundles += c->bundle;
        add_groups(plan, &p, c, best.piece, &seen, &it);
    }
    for (const struct group *g = plan->group; g < plan->group + plan->n_groups; g++)
        longest = max_i64(longest, g->n_kv);
    plan_merge_flat(plan, "merge", true);
    plan_note(plan,
              "%lld bundles of at most %lld rows, %lld blocks of at most %lld, in %lld groups of at most "
              "%lld tokens",
              (long long)bundles, (long long)best.cut.low, (long long)(p.n_covers - bundles),
              (long long)best.cut.high, (long long)plan->n_groups, (long long)longest);
    sel_free(&seen.sel);
    pieces_free(&it);
    free(seen.by);
    free(p.cover);
    free(p.tally);
    free(p.up);
    free(p.above);
    free((void *)p.live);
    return plan;
}

const struct strategy strategy_treeattn = {
    .name = "treeattn",
    .source = "ours",
    .about =
        "Tiles of neighbouring queries with all that any of them sees, masked: few partial results, or none.",
    .opts = opts,
    .plan = plan,
};
