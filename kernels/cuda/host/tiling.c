/* tiling.c - tiles and heads of a CTA, and the order of items and kernels, by how many items there are and how long. */
#include "kernels/cuda/host/tiling.h"
#include "ref/base.h"

#include <stdlib.h>

enum {
    STEP = 64,           /* shapes.def: what n = 128 runs in */
    SHORT_STEPS = 4,     /* an item of so many steps of its kernel is short */
    CTAS_WANTED = 12,    /* per SM, before CTAs of one team take one head more, or are made smaller */
    CTAS_ENOUGH = 3,     /* per SM, before they take a head a team, or, mostly empty or short, one more */
    PLENTY_WAVES = 4,    /* of CTAs of one head a team, that are more than enough */
    PLENTY_TOKENS = 256, /* an item of so many is short then, whatever its kernel */
    TOKENS_ENOUGH = 256, /* of two heads whose tile is mostly empty, at most */
    LONGER_BESIDE = 4,   /* times the longest item, that what runs beside may take of all SMs */
    LONG_TOKENS = 128,   /* of an item, on average, that is long */
    MANY_TOKENS = 256,   /* and that is longer yet */
    LONGEST_ALONE = 3,   /* times what all items take side by side, that the longest takes */
    RUN_TOKENS = 32,     /* of its runs, on average, if they are not what it waits for */
    MANY_HEADS = 16,     /* of K and V: 4 KB a token at d = 128 */
    ONCE_MIB = 512,      /* of K and V, up to which a kernel asks the L2 to let go of them */
    WAVE_AND_MORE = 4,   /* times the CTAs that fit in steps of 64 (of 16: three times as many), */
    WAVES_FEW = 10,      /* and so many, from and up to which the longer steps are better */
    FEW_STEPS = 8,       /* of an item, that are too few for twice the warps unless the plan wants them, */
    FEW_WIDE_STEPS = 4,  /* or fewer than so many, where a warpgroup more copies (4_wide.cuh) */
    MOSTLY_SHORT = 4,    /* times the mean, that the longest item of a kernel takes whose others are short */
    SKINNY_MOST = 512,   /* tokens of a CTA, where scores are materialised */
    SKINNY_CTAS = 16     /* per SM, before they take as many */
};

/* ---- the compiled tiles ------------------------------------------------------------------------------ */

static const struct {
    int32_t m, n, teams, resident;
} shapes[] = {
#define SHAPE(M, N, WM, WN, NC, STAGES, RESIDENT) {M, N, WN, RESIDENT},
#include "kernels/cuda/device/shapes.def"
#undef SHAPE
};

/* tiling_n() gives none that is not there. */
static int shape_of(int32_t m, int32_t n)
{
    int i = 0;
    while (shapes[i].m != m || shapes[i].n != n)
        i++;
    return i;
}

/* Of a CTA. */
static int32_t teams_of(int32_t m, int32_t n)
{
    return shapes[shape_of(m, n)].teams;
}

/* ---- n ----------------------------------------------------------------------------------------------- */

/* CTAs of one head. */
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

/* CTAs of the tile that fit at once, as registers allow. */
static int64_t fit(const struct tiling *t, int32_t n)
{
    return (int64_t)shapes[shape_of(t->m, n)].resident * t->sms;
}

/* Should items have CTAs of twice the warps, each of which wants an SM? It halves the time of the longest item, but waits
 * for an SM until what runs beside leaves one, and lets what is behind begin on none: where there are few and that is no
 * more than some times the longest, or where the longest takes longer than that. The longest of all with as many rows:
 * half of them wide would be two kernels for one. */
static bool wants_wide(const struct tiling *t)
{
    int64_t longest = (int64_t)t->longest * t->sms,
            others = (t->tokens_behind - tiling_tokens(t->item, t->n_items)) * t->h_kv;
    return (4 * ctas_of(t) <= 3 * t->sms && LONGER_BESIDE * longest >= others) ||
           (ctas_of(t) < t->sms && longest >= others);
}

/* Are items that long, whatever n the plan has? */
static bool are_long(const struct tiling *t)
{
    int32_t longest = t->item[0].n_kv;
    return t->m == 64 && t->wgmma ? longest >= FEW_WIDE_STEPS * STEP : longest > FEW_STEPS * STEP;
}

/* Tiles of 64 rows with a mask, of more than a step on average, are faster so in any case: 4_wide.cuh asks for the mask of a
 * chunk while that before it is multiplied. */
static bool is_masked_wide(const struct tiling *t)
{
    return t->masked && t->wgmma && t->m == 64 && tiling_tokens(t->item, t->n_items) > STEP * t->n_items;
}

/* Should tiles of 16 x 64 be of 16 x 32, in CTAs of half the warps? Twice as many items are then under way, which long
 * ones are the better for where the heads of a token fill pages of memory and CTAs come in several waves, or where
 * nothing runs beside, items are about as long as each other, and their CTAs all fit at once so and not else; and short
 * ones that are too few for a head a team get two teams. */
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
    return an_sm >= CTAS_ENOUGH * teams_of(16, STEP / 2) && an_sm < CTAS_ENOUGH * teams_of(16, STEP) &&
           tokens >= STEP * t->n_items;
}

/* Tokens of items in whole steps. */
static int64_t in_steps(const struct tiling *t, int32_t step)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < t->n_items; i++)
        tokens += ceil_div(t->item[i].n_kv, step) * step;
    return tokens;
}

/* Are tokens in half steps a quarter fewer, or a twelfth where a third of the items have no more than one? */
static bool fewer_in_half_steps(const struct tiling *t)
{
    int64_t now = in_steps(t, STEP), then = in_steps(t, STEP / 2), small = 0;
    for (int64_t i = 0; i < t->n_items; i++)
        small += t->item[i].n_kv <= STEP / 2;
    return 4 * then <= 3 * now || (3 * small >= t->n_items && 12 * then <= 11 * now);
}

/* Of tiles of 64 x 64. Where items do not fill a step and CTAs are more than fit at once, a shorter one, of which three
 * CTAs share an SM, not two: 32 tokens, or 16 where no item has more. */
static int32_t shorter_step(const struct tiling *t)
{
    if (ctas_of(t) <= fit(t, STEP) || !fewer_in_half_steps(t))
        return STEP;
    return t->item[0].n_kv <= STEP / 4 ? STEP / 4 : STEP / 2;
}

/* Of tiles of 32 rows with short items whose CTAs take one head and do not all fit at once in steps of 64: the longest
 * step in which they do, or else that of which most fit. */
static int32_t step_that_fits(const struct tiling *t)
{
    if (t->item[0].n_kv > PLENTY_TOKENS || ctas_of(t) <= fit(t, STEP) ||
        tiling_first_by_head(t, STEP) < t->n_items)
        return STEP;
    return ctas_of(t) <= fit(t, STEP / 2) ? STEP / 2 : STEP / 4;
}

/* For a step shorter than STEP. wgmma has none of 16 tokens, and is the faster. CTAs of 16 rows that have the card to
 * themselves, one head each, had better have all of its warps. */
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

/* Should steps be of 64 tokens where the plan has shorter ones? A step is a chain of latencies however short it is. In tiles
 * of 64 rows, where items have many tokens, or some and CTAs all fit at once, two an SM as well as three; in tiles of 32,
 * where the longest item takes several times as long as all of them side by side. */
static bool wants_long_steps(const struct tiling *t, int32_t n)
{
    int64_t tokens = tiling_tokens(t->item, t->n_items);
    if (t->m == 64 && t->wgmma)
        return tokens > MANY_TOKENS * t->n_items ||
               (tokens > LONG_TOKENS * t->n_items && ctas_of(t) <= fit(t, STEP));
    return t->m == 32 && t->item[0].n_kv >= MANY_TOKENS &&
           t->item[0].n_kv * fit(t, n) >= LONGEST_ALONE * tokens * t->h_kv;
}

/* Of tiles of 32 rows in steps of 16 tokens, whose CTAs take one head each: should steps be of 64? Where CTAs all fit at once
 * then, too, or where in short steps some wait as well, but few. In between one wave would become several. */
static bool wants_fewer_steps(const struct tiling *t, int32_t n)
{
    int64_t ctas = ctas_of(t), wave = fit(t, STEP);
    return t->m == 32 && n == STEP / 4 && tiling_tokens(t->item, t->n_items) > STEP * t->n_items &&
           (ctas <= wave || (ctas >= WAVE_AND_MORE * wave && ctas <= WAVES_FEW * wave)) &&
           tiling_first_by_head(t, n) == t->n_items;
}

/* Do rows fill their tiles, on average by half? */
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

int32_t tiling_n(const struct tiling *t, int32_t n)
{
    if (is_masked_wide(t))
        return 2 * STEP;
    /* One kernel for both, if these all run at once in it. */
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
    int32_t teams = teams_of(t->m, n);
    return (struct cuda_ctas){
        .h_kv = t->h_kv, .d = t->d, .teams = teams, .chunk = n / teams, .slots = fit(t, n)};
}

/* Would CTAs of a head a team be PLENTY_WAVES times those that fit at once? Then more heads leave SMs even. */
static bool is_plenty(const struct tiling *t, int32_t n)
{
    return ctas_of(t) >= PLENTY_WAVES * teams_of(t->m, n) * fit(t, n);
}

/* Are CTAs as many as wanted, or nearly? */
static bool enough(int64_t ctas, int64_t wanted)
{
    return 10 * ctas >= 9 * wanted;
}

/* Should CTAs take several heads one after the other, at least one a team, so that loads run ahead from one short item
 * into the next? Where there are CTAs to spare. */
static bool wants_heads(const struct tiling *t, int32_t n)
{
    int32_t teams = teams_of(t->m, n), heads = teams > 1 ? teams : 2;
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

/* Among equals the order of the plan. */
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

/* x, y: the first items of two pairs. */
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

/* Each of its CTAs? */
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

/* The more tokens the fewer parts of O, but CTAs enough for all SMs several times. */
int32_t tiling_skinny_tokens(int64_t tokens, int32_t h_kv, int32_t sms)
{
    int32_t n = SKINNY_MOST;
    while (n > SKINNY_STEP && tokens / n * h_kv < (int64_t)SKINNY_CTAS * sms)
        n /= 2;
    return n;
}
