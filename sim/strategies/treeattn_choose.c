/*
 * treeattn_choose.c - which cut and which pieces cost least, by the model of sim/time/treeattn_cost.h.
 *
 * Every bound of bundles and of blocks that could differ is tried, with and without trunks, and with each of them pieces of
 * several lengths and tiles of several heights, and parts of equal cost. What the options say is not varied.
 */
#include "sim/strategies/treeattn_planner.h"

#include <math.h>
#include <string.h>

enum {
    BUNDLE_PIECE = 1024, /* tokens of a bundle's part, at most, where the options do not say */
    TRUNK_TOKENS = 256,  /* of a trunk's node, at least, where the options do not say */
    MANY_RUNS = 16       /* a node and query: a cut with more runs is not priced if another cut was */
};

/* Pieces that are tried with every cut. All of them are, because a price goes up and down with waves of CTAs. */
static const int64_t pieces[] = {128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, INT64_C(1) << 40};
enum { N_PIECES = sizeof pieces / sizeof pieces[0] };
/* And these, if the best of those is one of the two shortest and its price is less than `nearly` times the best of all cuts. The
 * first two of these only if it is the shortest. */
static const int64_t short_pieces[] = {64, 96, 192};
enum { N_SHORT = sizeof short_pieces / sizeof short_pieces[0] };
/* Pieces of bundles that are tried with the best piece of blocks, on the same condition. */
static const int64_t bundle_pieces[] = {128, 256, 512, BUNDLE_PIECE};
enum { N_BUNDLE_PIECES = sizeof bundle_pieces / sizeof bundle_pieces[0] };
static const double nearly = 1.15;
/* Parts of equal cost must be better by this factor. What prices promised below it was not there when it was measured. */
static const double even_over = 1.005;
/* They are tried as many as fill all SMs so many times. Unless asked for they have so many tokens at least: shorter ones took up to
 * 1.13 of the time of others. */
static const int waves[] = {2, 1};
enum { N_WAVES = sizeof waves / sizeof waves[0], EVEN_LEAST = 256 };
/* The model was not fitted to tiles of 64 rows where 16 would do, and prices them too low (kernels/ has the measurements). So they
 * must be better by this factor, and their CTAs must be one wave: in several waves they take up to 1.3 times the price. */
static const double tallest_over = 1.07;

/* ---- what is asked for --------------------------------------------------------------------------------- */

/* What the options say; ANY: nothing. */
struct asked {
    int64_t low, high, piece, bundle, trunk, tall, even;
};
enum { ANY = -1 };

static int64_t told(double value, double nothing)
{
    return value <= nothing ? ANY : (int64_t)value;
}

/* Tokens of a bundle's part, if it is to be as long as a block's. */
static int64_t as_blocks(int64_t piece)
{
    return min_i64(piece, BUNDLE_PIECE);
}

bool treeattn_chooses(const double *opt)
{
    return opt[OPT_LOW] < 0 || opt[OPT_HIGH] <= 0 || opt[OPT_PIECE] <= 0;
}

static struct asked asked_of(const double *opt)
{
    struct asked a = {.low = told(opt[OPT_LOW], -1),
                      .high = told(opt[OPT_HIGH], 0),
                      .piece = told(opt[OPT_PIECE], 0),
                      .bundle = told(opt[OPT_BUNDLE], 0),
                      .trunk = told(opt[OPT_TRUNK], -1),
                      .tall = told(opt[OPT_TALL], -1),
                      .even = told(opt[OPT_EVEN], -1)};
    if (!treeattn_chooses(opt)) { /* plans stay as they were before these options were added */
        a.bundle = a.bundle == ANY ? as_blocks(a.piece) : a.bundle;
        a.trunk = a.trunk == ANY ? 0 : a.trunk;
        a.tall = a.tall == ANY ? 0 : a.tall;
        a.even = a.even == ANY ? 0 : a.even;
    }
    return a;
}

/* No trunks and no tall tiles unless they are asked for. */
static struct cut cut_of(const struct asked *a, int64_t low, int64_t high)
{
    return (struct cut){
        .low = low, .high = high, .trunk = max_i64(a->trunk, 0), .tall = (int)max_i64(a->tall, 0)};
}

/* Is nothing left to choose? */
static bool is_told(const struct asked *a)
{
    return a->low != ANY && a->high != ANY && a->piece != ANY && a->bundle != ANY && a->trunk != ANY &&
           a->tall != ANY && a->even != ANY;
}

/* ---- the cheapest -------------------------------------------------------------------------------------- */

/* The cheapest choices, best first. */
struct shortlist {
    int most, n;
    struct choice at[TREEATTN_MOST_RANKS];
};

/* Choices of equal price are taken for the same plan, and the first one stays. */
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

static bool has_price(const struct shortlist *l, double price)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i].price == price)
            return true;
    return false;
}

/* ---- the bill of a plan -------------------------------------------------------------------------------- */

/* Do they cost the same? */
static bool alike(const struct block *x, const struct block *y)
{
    return x->kind == y->kind && x->q1 - x->q0 == y->q1 - y->q0 && x->shared == y->shared &&
           x->own == y->own && x->few == y->few && x->pairs == y->pairs;
}

/* Neighbours that cost the same, and the first of them. */
struct like_blocks {
    const struct block *b;
    double times;
    bool alone;   /* their queries are in no other block */
    int64_t like; /* tokens that a neighbour begins with, too */
};

/* Adds part k, and those behind it in the same run if it is within one run; returns the next part. */
static int64_t add_parts(struct tile_bill *bill, const struct treeattn_planner *p,
                         const struct like_blocks *x, int64_t k, struct sel_place *at)
{
    const int64_t *end = p->parts.end;
    const struct qrange *by = &p->seen.by[at->run];
    int64_t begin = k == 0 ? 0 : end[k - 1], left = p->seen.sel.run[at->run].end - at->off;
    if (end[k] - begin > left) {
        struct tile_part part = treeattn_next_part(p, x->b, at, end[k] - begin);
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
    tile_bill_add_stretches(bill, &s, treeattn_tile_rows(p, x->b, nq), nq, p->gqa, x->times);
    return k;
}

/* Adds the blocks to the bills of n pieces, ascending. A block that is one part with a piece is one part with all that follow. */
static void bill_blocks(struct tile_bill *bill, struct treeattn_planner *p, const struct like_blocks *x,
                        const struct piece *piece, int n)
{
    int i = 0;
    treeattn_see(p, x->b);
    for (; i < n; i++) {
        struct sel_place at = {0};
        treeattn_find_parts(p, x->b, &piece[i]);
        if (p->parts.n == 1)
            break;
        for (int64_t k = 0; k < p->parts.n;)
            k = add_parts(&bill[i], p, x, k, &at);
    }
    struct sel_place at = {0};
    struct tile_part all = treeattn_next_part(p, x->b, &at, p->seen.sel.n_kv);
    for (; i < n; i++)
        tile_bill_add(&bill[i], &all, p->gqa, x->times, x->alone, all.n_kv <= x->like);
}

/* Tokens that two plain blocks begin with. */
static int64_t tokens_of_both(const struct treeattn_planner *p, const struct block *x, const struct block *y)
{
    int32_t i = p->nf->since ? -1 : x->top; /* windows begin at other tokens */
    while (i >= 0 && (p->live[i].q0 > y->q0 || p->live[i].q1 < y->q1 || p->live[i].q1 < x->q1))
        i = p->up[i];
    return i < 0 ? 0 : p->above[i];
}

static int64_t tokens_alike(const struct treeattn_planner *p, const struct block *b)
{
    int64_t n = 0;
    if (b->kind == PLAIN && b > p->block)
        n = tokens_of_both(p, b, b - 1);
    if (b->kind == PLAIN && b + 1 < p->block + p->n_blocks && b[1].kind == PLAIN)
        n = max_i64(n, tokens_of_both(p, b, b + 1));
    return n;
}

/* The bills of the planner's blocks in n pieces, ascending. Returns the tokens of the longest plain block or trunk, and of the
 * longest bundle. */
static struct piece find_bills(struct treeattn_planner *p, const struct piece *piece, int n,
                               struct tile_bill *bill)
{
    struct piece longest = {0};
    const struct block *end = p->block + p->n_blocks;
    bool alone = p->n_blocks <= 1 || (p->block->kind == end[-1].kind && p->block->kind != TRUNK);
    for (int i = 0; i < n; i++)
        bill[i] = (struct tile_bill){.tokens = (double)p->tokens, .queries = p->n_queries};
    for (const struct block *b = p->block, *next; b < end; b = next) {
        for (next = b + 1; next < end && alike(b, next);) /* neighbours often are */
            next++;
        struct like_blocks x = {
            .b = b, .times = (double)(next - b), .alone = alone, .like = tokens_alike(p, b)};
        bill_blocks(bill, p, &x, piece, n);
        int64_t *most = b->kind == BUNDLE ? &longest.bundle : &longest.block;
        *most = max_i64(*most, b->shared + b->own);
    }
    return longest;
}

/* ---- what is tried ------------------------------------------------------------------------------------- */

/* Tries tiles as tall as asked for, or of any height. */
static void try_talls(const struct treeattn_planner *p, const struct asked *a, const struct tile_bill *bill,
                      struct piece piece, struct shortlist *best)
{
    bool any = a->tall == ANY;
    int least = any ? 0 : p->cut.tall, most = any ? TILE_TALLEST : least;
    for (int tall = least; tall <= most; tall++) {
        if (any && !tile_bill_grows(bill, tall)) /* the same tiles as with one less */
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

/* Tries n pieces, ascending. */
static void try_pieces(struct treeattn_planner *p, const struct asked *a, const struct piece *piece, int n,
                       struct shortlist *best)
{
    struct tile_bill bill[N_PIECES];
    struct piece longest = find_bills(p, piece, n, bill);
    bool is_whole = false; /* are all blocks whole, so that longer pieces change nothing? */
    for (int i = 0; i < n && !is_whole; i++) {
        try_talls(p, a, &bill[i], piece[i], best);
        is_whole = piece[i].block >= longest.block && piece[i].bundle >= longest.bundle;
    }
}

/* Tries pieces of blocks, with bundles in pieces as asked for, or as long as those of blocks. */
static void try_block_pieces(struct treeattn_planner *p, const struct asked *a, const int64_t *block, int n,
                             struct shortlist *best)
{
    struct piece piece[N_PIECES];
    for (int i = 0; i < n; i++)
        piece[i] = (struct piece){block[i], a->bundle == ANY ? as_blocks(block[i]) : a->bundle, false};
    try_pieces(p, a, piece, n, best);
}

static void try_bundle_pieces(struct treeattn_planner *p, const struct asked *a, struct shortlist *best)
{
    struct piece piece[N_BUNDLE_PIECES];
    for (int i = 0; i < N_BUNDLE_PIECES; i++)
        piece[i] = (struct piece){best->at[0].piece.block, bundle_pieces[i], false};
    try_pieces(p, a, piece, N_BUNDLE_PIECES, best);
}

static bool has(const struct treeattn_planner *p, enum block_kind kind)
{
    for (const struct block *b = p->block; b < p->block + p->n_blocks; b++)
        if (b->kind == kind)
            return true;
    return false;
}

/* CTAs of plain blocks and trunks in parts of so many tokens. */
static int64_t ctas_in(const struct treeattn_planner *p, int64_t most)
{
    int64_t n = 0;
    for (const struct block *b = p->block; b < p->block + p->n_blocks; b++) {
        int64_t nq = b->q1 - b->q0, m = treeattn_tile_rows(p, b, nq);
        n += b->kind == BUNDLE ? 0 : ceil_div(b->shared + b->own, most) * ceil_div(nq * p->gqa, m);
    }
    return n * (int64_t)p->price.h_kv;
}

/* The fewest tokens of a part with which no more CTAs than `most` are needed, `longest` at most. */
static int64_t piece_for(const struct treeattn_planner *p, int64_t longest, int64_t most)
{
    int64_t low = 1, high = longest;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (ctas_in(p, mid) <= most)
            high = mid;
        else
            low = mid + 1;
    }
    return high;
}

/* Tries parts of equal cost: of the piece that is asked for, or as many as fill all SMs. Unless they are asked for, only where some
 * tokens are hidden, and so few that they join the shared ones before them. Where many are, or none, parts that end as nodes do were
 * faster than their prices (kernels/LOG.md). */
static void try_even(struct treeattn_planner *p, const struct asked *a, struct shortlist *best)
{
    struct piece piece[N_WAVES + 1];
    int64_t longest = 1, own = 0, bundle = a->bundle == ANY ? BUNDLE_PIECE : a->bundle;
    int n = 0;
    for (const struct block *b = p->block; b < p->block + p->n_blocks; b++) {
        longest = b->kind == BUNDLE ? longest : max_i64(longest, b->shared + b->own);
        own = max_i64(own, b->own);
    }
    bool any = a->even == ANY;
    if (any && (own == 0 || TREEATTN_SLIVERS * own > longest || has(p, BUNDLE)))
        return;
    for (int i = 0; i < N_WAVES && a->piece == ANY; i++) {
        int64_t most = piece_for(p, longest, waves[i] * (int64_t)p->price.sms);
        bool is_new = most > (n == 0 ? 0 : piece[n - 1].block) && most < longest;
        if (is_new && (!any || (most >= EVEN_LEAST && TREEATTN_SLIVERS * own <= most)))
            piece[n++] = (struct piece){most, bundle, true};
    }
    if (a->piece != ANY || !any)
        piece[n++] = (struct piece){a->piece != ANY ? a->piece : longest, bundle, true};
    if (n > 0)
        try_pieces(p, a, piece, n, best);
}

/* What was found: plans whose parts end where nodes do, and plans with parts of equal cost. */
struct found {
    struct shortlist best, even;
};

/* Tries the planner's blocks in the piece that is asked for, or in all. */
static void try_cut(struct treeattn_planner *p, const struct asked *a, struct found *found)
{
    struct shortlist here, *best = &found->best;
    here.most = best->most;
    here.n = 0;
    bool any = a->piece == ANY, is_near = true;
    if (a->even != 1) {
        try_block_pieces(p, a, any ? pieces : &a->piece, any ? N_PIECES : 1, &here);
        is_near = best->n == 0 || here.at[0].price < nearly * best->at[0].price;
        if (any && is_near && here.at[0].piece.block <= pieces[1]) {
            int first = here.at[0].piece.block == pieces[0] ? 0 : 2;
            try_block_pieces(p, a, short_pieces + first, N_SHORT - first, &here);
        }
        if (a->bundle == ANY && is_near && has(p, BUNDLE))
            try_bundle_pieces(p, a, &here);
    }
    for (int i = 0; i < here.n; i++)
        enlist(best, &here.at[i]);
    if (a->even != 0 && is_near)
        try_even(p, a, &found->even);
}

/* Rows of the largest bundle, or of the largest other block; 0: there is none. */
static int64_t most_rows(const struct treeattn_planner *p, bool bundle)
{
    int64_t most = 0;
    for (const struct block *b = p->block; b < p->block + p->n_blocks; b++)
        most = (b->kind == BUNDLE) == bundle ? max_i64(most, (int64_t)(b->q1 - b->q0) * p->gqa) : most;
    return most;
}

/* Tries one bound for bundles, with the bound for blocks that is asked for, or all. before: the bound for bundles that was tried
 * before, which is smaller. */
static void try_blocks(struct treeattn_planner *p, int64_t low, int64_t before, const struct asked *a,
                       struct found *found)
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
        treeattn_find_blocks(p, cut);
        if (most_rows(p, true) <= before) /* the same bundles as before */
            return;
        largest = most_rows(p, false);
        if (found->best.n + found->even.n == 0 || p->n_runs <= many)
            try_cut(p, a, found);
        if (a->trunk != ANY)
            continue;
        cut.trunk = TRUNK_TOKENS;
        treeattn_find_blocks(p, cut);
        if (has(p, TRUNK) && p->n_runs <= many)
            try_cut(p, a, found);
    }
}

/* The last of those asked for by rank. Where bundles are cheapest, parts of equal cost are not compared with them: bundles keep long
 * groups free of masks, and a price does not know what the mask of one group costs the others of its kernel. */
static struct choice best_of(struct found *found)
{
    struct shortlist *best = &found->best;
    bool bundles = best->n > 0 && best->at[0].cut.low > 0, none = best->n == 0;
    for (int i = 0; i < found->even.n && !bundles; i++) {
        struct choice x = found->even.at[i];
        if (has_price(best, x.price)) /* the same plan */
            continue;
        x.price *= none ? 1 : even_over;
        enlist(best, &x);
    }
    return best->at[best->n - 1];
}

struct choice treeattn_choose(struct treeattn_planner *p, const double *opt)
{
    static const int64_t lows[] = {0, 16, 32, 64};
    struct asked a = asked_of(opt);
    struct found found;
    found.best.most = found.even.most = (int)opt[OPT_RANK];
    found.best.n = found.even.n = 0;
    if (is_told(&a))
        enlist(&found.best, &(struct choice){.cut = cut_of(&a, a.low, max_i64(a.high, a.low)),
                                             .piece = {a.piece, a.bundle, a.even == 1}});
    else if (a.low != ANY)
        try_blocks(p, a.low, -1, &a, &found);
    for (size_t i = 0; i < sizeof lows / sizeof lows[0] && a.low == ANY; i++)
        if (lows[i] == 0 || lows[i] >= p->gqa)
            try_blocks(p, lows[i], i > 0 ? lows[i - 1] : -1, &a, &found);
    if (found.best.n + found.even.n == 0) { /* the low asked for is no smaller than any bound of blocks */
        treeattn_find_blocks(p, cut_of(&a, a.low, max_i64(a.low, TILE_MAX)));
        try_cut(p, &a, &found);
    }
    struct choice chosen = best_of(&found);
    treeattn_find_blocks(p, chosen.cut);
    return chosen;
}

struct tile_bill treeattn_bill(const struct nform *nf, const struct plan_env *env, const double *opt)
{
    struct tile_bill bill;
    struct treeattn_planner p = treeattn_planner_new(nf, env);
    struct choice best = treeattn_choose(&p, opt);
    find_bills(&p, &best.piece, 1, &bill);
    treeattn_planner_free(&p);
    return tile_bill_tall(&bill, best.cut.tall);
}

void treeattn_write_options(const struct choice *x, const double *opt, double *chosen)
{
    chosen[OPT_LOW] = (double)x->cut.low;
    chosen[OPT_HIGH] = (double)x->cut.high;
    chosen[OPT_PIECE] = fmin((double)x->piece.block, TREEATTN_MOST_TOKENS);
    chosen[OPT_BUNDLE] = (double)x->piece.bundle;
    chosen[OPT_TRUNK] = (double)x->cut.trunk;
    chosen[OPT_TALL] = x->cut.tall;
    chosen[OPT_EVEN] = x->piece.even;
    chosen[OPT_TURNS] = opt[OPT_TURNS];
    chosen[OPT_RANK] = 1;
}
