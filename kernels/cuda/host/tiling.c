/*
 * tiling.c - tiles and heads of a CTA, and the order of items and kernels, by how many items there are and how long.
 *
 * Every threshold is a line of tiling.def, which says what it gained. A *wave* is as many CTAs as the card holds at once.
 */
#include "kernels/cuda/host/tiling.h"
#include "ref/base.h"

#include <stdlib.h>

enum { STEP = 64 }; /* tokens: the step of shapes.def that n = 128 runs in */

/* ---- the compiled tiles ------------------------------------------------------------------------------ */

struct shape {
    int32_t m, n, teams, resident;
};
#define SHAPE(M, N, WM, WN, NC, STAGES, RESIDENT) {M, N, WN, RESIDENT},
static const struct shape shapes[] = {
#include "kernels/cuda/device/shapes.def"
};
static const struct shape shapes_256[] = {
#include "kernels/cuda/device/shapes_256.def"
};
static const struct shape shapes_cap[] = {
#include "kernels/cuda/device/shapes_cap.def"
};
static const struct shape shapes_fp8[] = {
#include "kernels/cuda/device/shapes_fp8.def"
};
#undef SHAPE
enum { STEP_256 = 32 }; /* tokens: the step of all tiles for such heads */

/* Have heads more elements than most tiles are made for? */
static bool has_wide_heads(const struct tiling *t)
{
    return t->d > 128;
}

/* The tiles that are compiled for such problems. */
static const struct shape *shapes_for(const struct tiling *t)
{
    return t->fp8 ? shapes_fp8 : has_wide_heads(t) ? shapes_256 : t->capped ? shapes_cap : shapes;
}

/* The compiled tile of n tokens. tiling_n returns compiled tiles only, so the search ends. */
static const struct shape *shape_of(const struct tiling *t, int32_t n)
{
    const struct shape *s = shapes_for(t);
    while (s->m != t->m || s->n != n)
        s++;
    return s;
}

/* Teams of warps in a CTA of that tile. */
static int32_t teams_of(const struct tiling *t, int32_t n)
{
    return shape_of(t, n)->teams;
}

/* ---- n ----------------------------------------------------------------------------------------------- */

/* CTAs, if each takes one head of one item. */
static int64_t ctas_of(const struct tiling *t)
{
    return t->n_items * t->h_kv;
}

int64_t tiling_tokens(const struct cuda_item *item, int64_t n_items)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < n_items; i++)
        tokens += item[i].n_kv;
    return tokens;
}

/* CTAs of the tile that the card holds at once, as far as registers allow: a wave. */
static int64_t fit(const struct tiling *t, int32_t n)
{
    return (int64_t)shape_of(t, n)->resident * t->sms;
}

/*
 * Should items have CTAs of twice the warps, each of which needs an SM to itself?
 *
 * That halves the time of the longest item. But such a CTA waits until an SM is empty, and what comes behind cannot begin beside
 * it. So it is worth it in two cases:
 *   the CTAs are at most three quarters of the SMs, and what runs beside takes at most LONGER_BESIDE times the longest item;
 *   the CTAs are fewer than SMs, and what runs beside takes no longer than the longest item.
 * "Longest" is over all items with as many rows: if half of them were wide, one kernel would become two.
 */
static bool wants_wide(const struct tiling *t)
{
    int64_t longest = (int64_t)t->longest * t->sms,
            others = (t->tokens_behind - tiling_tokens(t->item, t->n_items)) * t->h_kv;
    return (4 * ctas_of(t) <= 3 * t->sms && LONGER_BESIDE * longest >= others) ||
           (ctas_of(t) < t->sms && longest >= others);
}

/* Are items long enough for twice the warps, whatever n the plan has? */
static bool are_long(const struct tiling *t)
{
    int32_t longest = t->item[0].n_kv;
    return t->m == 64 && t->wgmma ? longest >= FEW_WIDE_STEPS * STEP : longest > FEW_STEPS * STEP;
}

/* Do tiles run in 4_wide.cuh because of their mask? It asks for the mask of a chunk while the chunk before is multiplied, so
 * it is faster for tiles of 64 rows with more than a step of tokens on average. */
static bool is_masked_wide(const struct tiling *t)
{
    return t->masked && t->wgmma && t->m == 64 && tiling_tokens(t->item, t->n_items) > STEP * t->n_items;
}

/*
 * Should tiles of 16 x 64 be 16 x 32, in CTAs of half the warps? Then twice as many items are under way. That helps
 *   long items that are about as long as each other, beside which nothing runs, if they are one wave so and more else;
 *   long items of many heads with long runs, in several waves: the heads of a token then fill pages of memory;
 *   short items that are too few for a head a team: they get two teams.
 */
static bool wants_narrow(const struct tiling *t)
{
    int64_t an_sm = ctas_of(t) / t->sms, tokens = tiling_tokens(t->item, t->n_items), runs = 0;
    for (int64_t i = 0; i < t->n_items; i++)
        runs += t->item[i].n_runs;
    if (tokens >= LONG_TOKENS * t->n_items) {
        bool even = tokens == t->tokens_beside && 4 * t->n_items * t->item[0].n_kv <= 5 * tokens;
        return (even && ctas_of(t) > fit(t, STEP) && ctas_of(t) <= fit(t, STEP / 2)) ||
               (an_sm >= CTAS_WANTED && t->h_kv >= MANY_HEADS && tokens >= RUN_TOKENS * runs);
    }
    return an_sm >= CTAS_ENOUGH * teams_of(t, STEP / 2) && an_sm < CTAS_ENOUGH * teams_of(t, STEP) &&
           tokens >= STEP * t->n_items;
}

/* Tokens of all items, each rounded up to whole steps. */
static int64_t in_steps(const struct tiling *t, int32_t step)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < t->n_items; i++)
        tokens += ceil_div(t->item[i].n_kv, step) * step;
    return tokens;
}

/* Do half steps round up to a quarter fewer tokens? A twelfth will do where a third of the items fit one half step. */
static bool fewer_in_half_steps(const struct tiling *t)
{
    int64_t now = in_steps(t, STEP), then = in_steps(t, STEP / 2), small = 0;
    for (int64_t i = 0; i < t->n_items; i++)
        small += t->item[i].n_kv <= STEP / 2;
    return 4 * then <= 3 * now || (3 * small >= t->n_items && 12 * then <= 11 * now);
}

/* The step of tiles of 64 x 64. Where items do not fill a step, and CTAs are more than a wave, it is shorter: three CTAs then
 * share an SM, not two. It is 16 tokens where no item has more, else 32. */
static int32_t shorter_step(const struct tiling *t)
{
    if (ctas_of(t) <= fit(t, STEP) || !fewer_in_half_steps(t))
        return STEP;
    return t->item[0].n_kv <= STEP / 4 ? STEP / 4 : STEP / 2;
}

/* The step of tiles of 32 rows. If items are short, and CTAs of one head are more than a wave in steps of 64, it is the longest
 * step in which they are one wave, or else the step of which most CTAs fit. */
static int32_t step_that_fits(const struct tiling *t)
{
    if (t->item[0].n_kv > PLENTY_TOKENS || ctas_of(t) <= fit(t, STEP) ||
        tiling_first_by_head(t, STEP) < t->n_items)
        return STEP;
    return ctas_of(t) <= fit(t, STEP / 2) ? STEP / 2 : STEP / 4;
}

/* The step in place of n < STEP. wgmma is faster and has no step of 16 tokens. CTAs of 16 rows that have the card to
 * themselves, one head each, had better use all of its warps. */
static int32_t longer_step(const struct tiling *t, int32_t n)
{
    int32_t longest = t->item[0].n_kv;
    if (t->m == 64 && t->wgmma && longest > n)
        return STEP / 2;
    if (t->m != 16 || longest <= STEP || ctas_of(t) > fit(t, STEP))
        return n;
    bool alone = tiling_tokens(t->item, t->n_items) == t->tokens_of_plan;
    return alone && tiling_first_by_head(t, n) == t->n_items ? STEP : n;
}

/*
 * Should steps have 64 tokens where the plan asks for fewer? A step is a chain of latencies, however short it is.
 *   tiles of 64 rows: if items are long on average, or rather long and one wave: two CTAs an SM then do as well as three;
 *   tiles of 32 rows: if the longest item takes LONGEST_ALONE times as long as all of them side by side.
 */
static bool wants_long_steps(const struct tiling *t, int32_t n)
{
    int64_t tokens = tiling_tokens(t->item, t->n_items);
    if (t->m == 64 && t->wgmma)
        return tokens > MANY_TOKENS * t->n_items ||
               (tokens > LONG_TOKENS * t->n_items && ctas_of(t) <= fit(t, STEP));
    return t->m == 32 && t->item[0].n_kv >= MANY_TOKENS &&
           t->item[0].n_kv * fit(t, n) >= LONGEST_ALONE * tokens * t->h_kv;
}

/* Should tiles of 32 x 16, whose CTAs take one head each, have steps of 64 tokens? Yes where they still are one wave, and where
 * they are WAVE_AND_MORE to WAVES_FEW waves. In between, one wave would become several. */
static bool wants_fewer_steps(const struct tiling *t, int32_t n)
{
    int64_t ctas = ctas_of(t), wave = fit(t, STEP);
    return t->m == 32 && n == STEP / 4 && tiling_tokens(t->item, t->n_items) > STEP * t->n_items &&
           (ctas <= wave || (ctas >= WAVE_AND_MORE * wave && ctas <= WAVES_FEW * wave)) &&
           tiling_first_by_head(t, n) == t->n_items;
}

/* Do rows fill more than half of their tiles, on average? */
static bool is_full(const struct tiling *t)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < t->n_items; i++)
        rows += t->item[i].n_rows;
    return 2 * rows > t->n_items * t->m;
}

int32_t tiling_n_after(const struct tiling *t, int32_t n)
{
    return t->n_before == 0 && t->m == 64 && n <= STEP && is_full(t) ? n : t->n_before;
}

/* Of K and V in 8 bits: one for each m, and what two teams share in 4_wide.cuh in 16 bits they share here. */
static int32_t n_of_fp8(const struct tiling *t, int32_t n)
{
    struct tiling in_16_bits = *t;
    in_16_bits.fp8 = false;
    return t->m == 64 && t->wgmma && tiling_n(&in_16_bits, n) > STEP ? 2 * STEP : STEP;
}

int32_t tiling_n(const struct tiling *t, int32_t n)
{
    if (t->fp8)
        return n_of_fp8(t, n);
    if (has_wide_heads(t))
        return STEP_256;
    if (t->capped) /* one for each m */
        return t->m == 32 || t->m == 64 ? STEP / 2 : STEP;
    if (is_masked_wide(t))
        return 2 * STEP;
    /* The step of the kernel before, if these are one wave in it: then one kernel runs both. */
    if (t->n_before >= STEP / 2 && t->m == 64 && t->wgmma && ctas_of(t) <= fit(t, t->n_before) && is_full(t))
        return t->n_before;
    if (n < STEP && !wants_long_steps(t, n))
        return wants_fewer_steps(t, n) ? STEP : longer_step(t, n);
    if ((n > STEP || are_long(t)) && (t->m == 32 || t->m == 64) && wants_wide(t))
        return 2 * STEP;
    switch (t->m) {
    case 16:
        return wants_narrow(t) ? STEP / 2 : STEP;
    case 32:
        return step_that_fits(t);
    case 64:
        return shorter_step(t);
    default:
        return STEP;
    }
}

/* ---- heads ------------------------------------------------------------------------------------------- */

struct cuda_ctas tiling_ctas(const struct tiling *t, int32_t n)
{
    int32_t teams = teams_of(t, n);
    return (struct cuda_ctas){
        .h_kv = t->h_kv, .d = t->d, .teams = teams, .chunk = n / teams, .slots = fit(t, n)};
}

/* Would CTAs of a head a team be PLENTY_WAVES waves? Then SMs end evenly even if CTAs take more heads. */
static bool is_plenty(const struct tiling *t, int32_t n)
{
    return ctas_of(t) >= PLENTY_WAVES * teams_of(t, n) * fit(t, n);
}

/* Are CTAs at least nine tenths of those wanted? */
static bool enough(int64_t ctas, int64_t wanted)
{
    return 10 * ctas >= 9 * wanted;
}

/* Should CTAs take several heads one after the other, at least one a team? Loads then run ahead from one short item into the
 * next. It needs CTAs to spare. */
static bool wants_heads(const struct tiling *t, int32_t n)
{
    int32_t teams = teams_of(t, n), heads = teams > 1 ? teams : 2;
    if (t->n_items == 0 || t->h_kv < heads)
        return false;
    bool empty = t->m >= 64 && !is_full(t) && 2 * t->item[0].n_kv <= TOKENS_ENOUGH;
    bool few_do = teams > 1 || empty || (t->m >= 32 && t->item[0].n_kv <= STEP);
    return is_plenty(t, n) ||
           enough(ctas_of(t), (int64_t)heads * (few_do ? CTAS_ENOUGH : CTAS_WANTED) * t->sms);
}

int64_t tiling_first_by_head(const struct tiling *t, int32_t n)
{
    int64_t short_kv = SHORT_STEPS * n, first = 0;
    if (is_masked_wide(t))
        return t->n_items;
    if (is_plenty(t, n))
        short_kv = max_i64(short_kv, PLENTY_TOKENS);
    while (first < t->n_items && t->item[first].n_kv > short_kv)
        first++;
    struct tiling rest = *t;
    rest.item += first;
    rest.n_items -= first;
    return wants_heads(&rest, n) ? first : t->n_items;
}

/* ---- order ------------------------------------------------------------------------------------------- */

/* The order of the plan, which decides among equals. */
static int by_place(const struct cuda_item *a, const struct cuda_item *b)
{
    if (a->query0 != b->query0)
        return a->query0 < b->query0 ? -1 : 1;
    if (a->row0 != b->row0)
        return a->row0 < b->row0 ? -1 : 1;
    return (a->base > b->base) - (a->base < b->base);
}

static int by_tokens(const struct cuda_item *a, const struct cuda_item *b)
{
    return (b->n_kv > a->n_kv) - (b->n_kv < a->n_kv);
}

/* Longest first. x, y: the first items of two pairs. */
static int by_length_of_pair(const void *x, const void *y)
{
    int c = by_tokens(x, y);
    return c ? c : by_place(x, y);
}

static int by_length(const void *x, const void *y)
{
    const struct cuda_item *a = x, *b = y;
    int c = by_tokens(a, b);
    if (c != 0)
        return c;
    return a->n_rows != b->n_rows ? b->n_rows - a->n_rows : by_place(a, b);
}

int tiling_longer(int32_t a, int32_t b)
{
    return __builtin_clz((unsigned)a | 1) - __builtin_clz((unsigned)b | 1);
}

static int by_rows(const void *x, const void *y)
{
    const struct cuda_item *a = x, *b = y;
    int longer = tiling_longer(a->n_kv, b->n_kv);
    if (longer != 0)
        return longer;
    return a->n_rows != b->n_rows ? a->n_rows - b->n_rows : by_length(x, y);
}

void tiling_sort(struct cuda_item *item, int64_t n_items)
{
    qsort(item, (size_t)n_items, sizeof *item, by_length);
}

void tiling_sort_pairs(struct cuda_item *item, int64_t n_items)
{
    qsort(item, (size_t)n_items / 2, 2 * sizeof *item, by_length_of_pair);
}

void tiling_full_last(struct cuda_item *item, int64_t n_items, int32_t m, int64_t partial_bytes,
                      int64_t l2_bytes)
{
    int64_t first = 0;
    if (m < 64 || 2 * partial_bytes > 3 * l2_bytes)
        return;
    while (first < n_items && item[first].n_kv >= STEP)
        first++;
    qsort(item + first, (size_t)(n_items - first), sizeof *item, by_rows);
}

/* ---- kernels ----------------------------------------------------------------------------------------- */

bool tiling_kv_once(const struct cuda_item *item, int64_t n_items, int64_t bytes)
{
    bool some = false;
    for (int64_t i = 0; i < n_items && !some; i++)
        some = item[i].kv_once;
    return some && tiling_tokens(item, n_items) * bytes <= (int64_t)ONCE_MIB << 20;
}

/* Does each of its CTAs need an SM to itself? */
static bool wants_sm(const struct tiling_set *s, const struct cuda_ctas *c)
{
    return c->slots <= s->sms;
}

void tiling_add(struct tiling_set *s, const struct cuda_ctas *c)
{
    double card = (double)c->n / (double)c->slots;
    s->ctas += c->n;
    s->card += card;
    s->shared += wants_sm(s, c) ? 0 : card;
}

bool tiling_share_sms(const struct tiling_set *s)
{
    return s->card <= 1 && s->ctas > s->sms;
}

bool tiling_goes_first(const struct tiling_set *s, const struct cuda_ctas *c, int32_t longest)
{
    return wants_sm(s, c) && longest >= STEP && 2 * s->shared >= 1;
}

bool tiling_holds_up(const struct cuda_ctas *c, int32_t longest, int32_t mean)
{
    return c->n > c->slots && longest >= (int64_t)MOSTLY_SHORT * mean;
}

/* More tokens a CTA mean fewer parts of O to add up, but there must be CTAs for all SMs several times over. */
int32_t tiling_skinny_tokens(int64_t tokens, int32_t h_kv, int32_t sms)
{
    int32_t n = SKINNY_MOST;
    while (n > SKINNY_STEP && tokens / n * h_kv < (int64_t)SKINNY_CTAS * sms)
        n /= 2;
    return n;
}
