/* lab5_cases.c - the questions of lab 5 (lab5.h). */
#include "verify/lab/tile/lab5.h"

#include "ref/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EMPTY = 24, ONE = 60, SEVERAL = 72, PAGES = 56, ROWS = 56, MASKS = 68, SCORES = 56, LONGS = 8 };
enum { ALL = EMPTY + ONE + SEVERAL + PAGES + ROWS + MASKS + SCORES + LONGS };

struct draw {
    uint64_t seed, stream; /* of the next numbers */
    struct lab5_call *call;
    int32_t n;
};

static int32_t below(struct draw *w, int32_t n)
{
    return (int32_t)rng_below(w->seed, w->stream++, 0, n);
}

static float *drawn(struct draw *w, int64_t n, double times)
{
    float *x = xcalloc((size_t)n, sizeof *x);
    uint64_t stream = w->stream++;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(times * rng_bell(w->seed, stream, (uint64_t)i));
    return x;
}

/* Pages in an order that is drawn, and some that are nobody's; or one. */
static void draw_pages(struct draw *w, struct lab5_call *c)
{
    int32_t n = (int32_t)ceil_div(c->tokens, c->page_size);
    bool several = c->page_size < c->tokens;
    c->n_pages = several ? n + 2 : 1;
    int64_t *all = xcalloc((size_t)c->n_pages, sizeof *all);
    uint64_t stream = w->stream++;
    for (int32_t i = 0; i < c->n_pages; i++) {
        int64_t k = rng_below(w->seed, stream, (uint64_t)i, i + 1);
        all[i] = all[k];
        all[k] = i;
    }
    c->page_table = all; /* of which the first n count */
}

/* What every question has. K and V of slots that are no token of the group are larger than all others: it shows if they are read. */
static struct lab5_call *add(struct draw *w, const struct lab5_call *like)
{
    struct lab5_call *c = &w->call[w->n++];
    *c = *like;
    c->threads = c->threads ? c->threads : 32;
    c->page_size = c->page_size ? c->page_size : (int32_t)max_i64(c->tokens, 1);
    c->runs = c->runs ? c->runs : c->tokens > 0;
    /* as lab.h says */
    CK(lab5_rows(c) <= 16 && c->d <= 64 && lab5_rows(c) * c->d <= 512 && c->tile_n <= 64);
    c->kv_head = below(w, c->kv_heads);
    c->order = below(w, 1 << 30);
    c->scale = (float)((0.6 + 0.3 * rng_unit(w->seed, w->stream++, 0)) / sqrt(c->d));
    draw_pages(w, c);
    int64_t slots = (int64_t)c->n_pages * c->page_size, row = (int64_t)c->kv_heads * c->d;
    c->q = drawn(w, (int64_t)c->queries * c->ratio * row, 2);
    c->k = drawn(w, slots * row, 30);
    c->v = drawn(w, slots * row, 30);
    for (int32_t t = 0; t < c->tokens; t++) {
        int64_t at = lab5_token(c, t) - (int64_t)c->kv_head * c->d;
        for (int64_t i = at; i < at + row; i++) {
            c->k[i] /= 30;
            c->v[i] /= 30;
        }
    }
    c->run_end = xcalloc((size_t)c->runs + 1, sizeof *c->run_end);
    c->mask = xcalloc((size_t)c->runs + 1, sizeof *c->mask);
    for (int32_t r = 0; r < c->runs; r++) {
        c->run_end[r] = (int64_t)c->tokens * (r + 1) / c->runs;
        c->mask[r] = (INT64_C(1) << c->queries) - 1;
    }
    return c;
}

/* Runs of lengths that are drawn, one token at least. */
static void cut_runs(struct draw *w, struct lab5_call *c)
{
    for (int32_t r = 0, left = c->tokens - c->runs, at = 0; r < c->runs; r++) {
        int32_t more = r + 1 == c->runs ? left : below(w, (int32_t)min_i64(left, 3 * left / c->runs + 1) + 1);
        at += 1 + more;
        left -= more;
        c->run_end[r] = at;
    }
}

/* Moves the scores of a token near s, those of all rows. */
static void aim(struct lab5_call *c, int32_t t, double s)
{
    int64_t stride = c->d;
    for (int32_t i = 0; i < c->queries * c->ratio * c->kv_heads; i++)
        c->q[i * stride] = 2;
    c->k[lab5_token(c, t)] = (float)(s / (2 * (double)c->scale));
}

static const int32_t dims[] = {1, 2, 4, 8, 16};

/* ---- gates ---------------------------------------------------------------------------------------------- */

static void draw_empty(struct draw *w)
{
    for (int32_t i = 0; i < EMPTY; i++) {
        struct lab5_call like = {.gate = LAB5_NOTHING,
                                 .about = i % 2 ? "all tokens hidden from all queries" : "no token",
                                 .queries = 1 + i / 6,
                                 .ratio = 1 + i / 8,
                                 .kv_heads = 1 + i % 3,
                                 .d = dims[i % 5],
                                 .tokens = i % 2 ? 1 + i : 0,
                                 .tile_n = 4 + i % 5};
        struct lab5_call *c = add(w, &like);
        for (int32_t r = 0; r < c->runs; r++)
            c->mask[r] = 0;
    }
}

static void draw_one(struct draw *w)
{
    for (int32_t i = 0; i < ONE; i++) {
        int32_t tile = i < 4 ? 2 + i : 4 + 4 * (i % 8);
        struct lab5_call like = {.gate = LAB5_ONE,
                                 .about = "one tile",
                                 .queries = 1 + i / 12,
                                 .ratio = 1,
                                 .kv_heads = 1,
                                 .d = dims[(i / 3) % 5],
                                 .tokens = i % 3 == 2 ? tile : 1 + below(w, tile),
                                 .tile_n = tile};
        add(w, &like);
    }
}

static void draw_several(struct draw *w)
{
    for (int32_t i = 0; i < SEVERAL; i++) {
        int32_t tile = i < 8 ? 2 + i % 4 : 4 + 4 * (i % 8), full = 1 + i % 5;
        struct lab5_call like = {.gate = LAB5_SEVERAL,
                                 .about = i % 4 == 3   ? "several full tiles"
                                          : i % 4 == 2 ? "several tiles, scores that rise"
                                                       : "several tiles, the last one not full",
                                 .threads = i % 6 == 5 ? 64 : 32,
                                 .queries = 1 + i / 18,
                                 .ratio = 1,
                                 .kv_heads = 1,
                                 .d = dims[i % 5],
                                 .tokens = full * tile + (i % 4 == 3 ? tile : 1 + below(w, tile - 1)),
                                 .tile_n = tile};
        struct lab5_call *c = add(w, &like);
        for (int32_t t = 0; t < c->tokens && i % 4 == 2; t++)
            aim(c, t, 12.0 * t / c->tokens);
    }
}

static void draw_paged(struct draw *w)
{
    static const int32_t pages[] = {1, 2, 3, 4, 8, 16};
    for (int32_t i = 0; i < PAGES; i++) {
        int32_t page = pages[i % 6];
        struct lab5_call like = {.gate = LAB5_PAGES,
                                 .about = "several pages",
                                 .threads = i % 7 == 6 ? 64 : 32,
                                 .queries = 1 + i / 20,
                                 .ratio = 1,
                                 .kv_heads = 1,
                                 .d = dims[(i / 2) % 5],
                                 .tokens = page + 1 + below(w, 2 + i),
                                 .page_size = page,
                                 .tile_n = 4 + 4 * (i % 4)};
        add(w, &like);
    }
}

static void draw_rows(struct draw *w)
{
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t ratio = 1 + i % 4, most = 16 / ratio;
        struct lab5_call like = {.gate = LAB5_ROWS,
                                 .about = "rows of several queries and heads",
                                 .threads = i % 7 == 6 ? 64 : 32,
                                 .queries = (int32_t)min_i64(1 + below(w, 1 + i / 6), most),
                                 .ratio = ratio,
                                 .kv_heads = 1 + (i / 2) % 4,
                                 .d = dims[i % 5],
                                 .tokens = 1 + below(w, 12 + i),
                                 .tile_n = 8};
        add(w, &like);
    }
}

static void draw_masks(struct draw *w)
{
    for (int32_t i = 0; i < MASKS; i++) {
        int32_t runs = 2 + below(w, 1 + i / 10);
        struct lab5_call like = {.gate = LAB5_MASKS,
                                 .about = i % 4 == 1   ? "a mask, the first run hidden from all but one"
                                          : i % 4 == 3 ? "a mask, a query that sees nothing"
                                                       : "a mask",
                                 .queries = 2 + i / 18,
                                 .ratio = 1 + i % 2,
                                 .kv_heads = 1,
                                 .d = dims[(i / 2) % 5],
                                 .tokens = runs + 1 + below(w, 8 + i),
                                 .runs = runs,
                                 .tile_n = 4 + 2 * (i % 4)};
        struct lab5_call *c = add(w, &like);
        cut_runs(w, c);
        for (int32_t r = 0; r < c->runs; r++)
            c->mask[r] = 1 + below(w, (1 << c->queries) - 1);
        if (i % 4 == 1)
            c->mask[0] = 1 << below(w, c->queries);
        int64_t hidden = INT64_C(1) << below(w, c->queries);
        for (int32_t r = 0; r < c->runs && i % 4 == 3; r++)
            c->mask[r] &= ~hidden;
    }
}

/* All levels, with a mask and without; from one token to several tiles. */
static void draw_scores(struct draw *w)
{
    static const struct {
        const char *about;
        double from, to;
    } levels[] = {{"all scores near -50", -50, -50},
                  {"all scores near -300", -300, -300},
                  {"all scores near -3,000", -3000, -3000},
                  {"all scores near -20,000", -20000, -20000},
                  {"all scores near -177,331", -177331, -177331},
                  {"all scores near 100", 100, 100},
                  {"all scores near 1,000", 1000, 1000},
                  {"all scores near 10,000", 10000, 10000},
                  {"scores from -10,000 to 10,000, rising", -10000, 10000},
                  {"scores from -10,000 to 10,000, falling", 10000, -10000},
                  {"scores from -10,002 to -9,998, rising", -10002, -9998},
                  {"scores from -20 to 20, rising", -20, 20},
                  {"scores from -200 to 0, rising", -200, 0},
                  {"scores from 0 to 200, rising", 0, 200}};
    enum { LEVELS = sizeof levels / sizeof levels[0] };
    for (int32_t i = 0; i < SCORES; i++) {
        int32_t l = i % LEVELS;
        struct lab5_call like = {.gate = LAB5_SCORES,
                                 .about = levels[l].about,
                                 .queries = 1 + i / LEVELS,
                                 .ratio = 1,
                                 .kv_heads = 1,
                                 .d = i < LEVELS ? 1 : 4,
                                 .tokens = 3 + i / LEVELS * 5 + below(w, 6),
                                 .runs = i / LEVELS % 2 ? 2 : 1,
                                 .tile_n = 4};
        struct lab5_call *c = add(w, &like);
        for (int32_t t = 0; t < c->tokens; t++)
            aim(c, t, levels[l].from + (levels[l].to - levels[l].from) * t / (c->tokens - 1));
        if (c->runs == 2) {
            cut_runs(w, c);
            c->mask[i % 2] = (INT64_C(1) << c->queries) - 2; /* of one run, the first query sees nothing */
        }
    }
}

static void draw_long(struct draw *w)
{
    static const int32_t sizes[][3] = {{4, 2, 16}, {8, 1, 32}, {2, 4, 64}, {4, 4, 32}};
    for (int32_t i = 0; i < LONGS; i++) {
        const int32_t *size = sizes[i % 4];
        struct lab5_call like = {.gate = LAB5_LONG,
                                 .about = "long context, with all that there is",
                                 .threads = i % 2 ? 64 : 32,
                                 .queries = size[0],
                                 .ratio = size[1],
                                 .kv_heads = 2,
                                 .d = size[2],
                                 .tokens = 900 + below(w, 300) + 100 * i,
                                 .runs = 5 + i,
                                 .page_size = 16,
                                 .tile_n = i % 2 ? 32 : 64};
        struct lab5_call *c = add(w, &like);
        cut_runs(w, c);
        for (int32_t r = 0; r < c->runs; r++)
            c->mask[r] = 1 + below(w, (1 << c->queries) - 1);
        for (int32_t q = 0; q < c->queries; q++) /* who sees nothing is another gate's */
            c->mask[q % c->runs] |= INT64_C(1) << q;
    }
}

int32_t lab5_calls(uint64_t seed, struct lab5_call **out)
{
    struct draw w = {.seed = seed, .call = xcalloc(ALL, sizeof *w.call)};
    draw_empty(&w);
    draw_one(&w);
    draw_several(&w);
    draw_paged(&w);
    draw_rows(&w);
    draw_masks(&w);
    draw_scores(&w);
    draw_long(&w);
    CK(w.n == ALL);
    *out = w.call;
    return w.n;
}

void lab5_call_clear(struct lab5_call *c)
{
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->page_table);
    free(c->run_end);
    free(c->mask);
}

bool lab5_sees(const struct lab5_call *c, int32_t row, int32_t t)
{
    int32_t run = 0;
    while (t >= c->run_end[run])
        run++;
    return c->mask[run] >> (row / c->ratio) & 1;
}
