/* lab5_wrong.c - see lab5.h. */
#include "verify/lab/tile/lab5.h"

#include "ref/dtype.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The steps of a tile program. 0 is how each is done rightly. */
enum step {
    END,
    MASK,
    HIDDEN,
    GUARD,
    EMPTY,
    START,
    RESCALE,
    SCALE,
    BASE,
    ROUND,
    PAGES,
    KV_HEAD,
    Q_HEAD,
    DIVIDE,
    LOG,
    TENSOR,
    N_STEPS
};
enum { END_OWN, END_ZEROS, END_STALE, END_FULL, END_FIRST, END_NO_LAST };
enum { MASK_OWN, MASK_NONE, MASK_INVERTED, MASK_TILE, MASK_PLACE, MASK_ROW, MASK_LATE, MASK_SWAPPED };
enum { HIDDEN_OWN, HIDDEN_0, HIDDEN_10000, HIDDEN_1E9, HIDDEN_1E30, HIDDEN_MIN, HIDDEN_BELOW };
enum { GUARD_OWN, GUARD_NONE };
enum { EMPTY_OWN, EMPTY_NAN, EMPTY_ZERO };
enum { START_OWN, START_0, START_1000, START_10000, START_100000, START_NEVER };
enum {
    RESCALE_OWN,
    RESCALE_SUM,
    RESCALE_O,
    RESCALE_NONE,
    RESCALE_LAST,
    RESCALE_O_LAST,
    RESCALE_O_TOKEN,
    RESCALE_SUM_LAST,
    RESCALE_INVERSE
};
enum { SCALE_OWN, SCALE_NONE, SCALE_TWICE, SCALE_ROOT };
enum { BASE_OWN, BASE_2 };
enum { ROUND_OWN, ROUND_BOTH, ROUND_O };
enum { PAGES_OWN, PAGES_NONE, PAGES_TILE, PAGES_BEHIND, PAGES_NEXT, PAGES_SLOT };
enum { KV_HEAD_OWN, KV_HEAD_0, KV_HEAD_ROW };
enum { Q_HEAD_OWN, Q_HEAD_FIRST, Q_HEAD_STRIDE, Q_HEAD_SWAPPED };
enum { DIVIDE_OWN, DIVIDE_NOT, DIVIDE_N };
enum { LOG_OWN, LOG_NO_MAX, LOG_MAX, LOG_2, LOG_NOT };
enum { TENSOR_OWN, TENSOR_K_AS_V, TENSOR_V_AS_K };

static const struct {
    enum step step;
    int32_t value;
    const char *says;
} wrongs[] = {
#define WRONG(step_, value_, sentence) {step_, value_, sentence},
#include "verify/lab/tile/lab5_wrong.def"
#undef WRONG
};
enum { N_WRONGS = sizeof wrongs / sizeof wrongs[0] };

/* A row of a program that does one step wrongly; in float, so that what is too large or too small is so here as well. */
struct row {
    const struct lab5_call *c;
    int32_t of[N_STEPS], row;
    bool by_token;        /* a maximum for each token, not for each tile */
    enum cta_fault fault; /* that the mistake leads to */
    float *o, max, sum;   /* o[d] */
    bool seen;            /* any token counted, as the program has it */
};

/* ---- where things are ----------------------------------------------------------------------------------- */

/* Number 0 of token t of the tile that begins at first, in K and V. */
static int64_t token_at(struct row *w, int32_t first, int32_t t)
{
    const struct lab5_call *c = w->c;
    int64_t size = c->page_size, slot = c->page_table[t / size] * size + t % size;
    int32_t head = c->kv_head;
    switch (w->of[PAGES]) {
    case PAGES_NONE:
        slot = t;
        break;
    case PAGES_TILE:
        slot = c->page_table[first / size] * size + t % size;
        break;
    case PAGES_BEHIND:
        slot = c->page_table[first / size] * size + first % size + t - first;
        break;
    case PAGES_NEXT:
        if (t + 1 >= ceil_div(c->tokens, size) * size)
            w->fault = CTA_BOUNDS; /* of the page table */
        else
            slot = c->page_table[(t + 1) / size] * size + t % size;
        break;
    case PAGES_SLOT:
        slot = c->page_table[t / size] * size + (t - first) % size;
        break;
    default:
        break;
    }
    if (slot >= c->n_pages * size) {
        w->fault = CTA_BOUNDS;
        slot = 0;
    }
    if (w->of[KV_HEAD] == KV_HEAD_0)
        head = 0;
    else if (w->of[KV_HEAD] == KV_HEAD_ROW)
        head = (c->kv_head * c->ratio + w->row % c->ratio) % c->kv_heads;
    return (slot * c->kv_heads + head) * c->d;
}

static int64_t query_at(const struct row *w)
{
    const struct lab5_call *c = w->c;
    int32_t query = w->row / c->ratio, head = w->row % c->ratio, first = c->kv_head * c->ratio;
    switch (w->of[Q_HEAD]) {
    case Q_HEAD_FIRST:
        first = 0;
        break;
    case Q_HEAD_STRIDE:
        first = c->kv_head;
        head *= c->kv_heads;
        break;
    case Q_HEAD_SWAPPED:
        query = w->row % c->queries;
        head = w->row / c->queries;
        break;
    default:
        break;
    }
    return ((int64_t)query * c->kv_heads * c->ratio + first + head) * c->d;
}

/* Beyond the last token is what its run is. */
static bool is_seen(struct row *w, int32_t first, int32_t t)
{
    const struct lab5_call *c = w->c;
    int32_t at = w->of[MASK] == MASK_TILE ? first : t, run = 0, bit = w->row / c->ratio;
    at -= w->of[MASK] == MASK_PLACE ? first : 0;
    while (run < c->runs - 1 && at >= c->run_end[run] + (w->of[MASK] == MASK_LATE))
        run++;
    switch (w->of[MASK]) {
    case MASK_NONE:
        return true;
    case MASK_INVERTED:
        return !(c->mask[run] >> bit & 1);
    case MASK_ROW:
        bit = w->row;
        break;
    case MASK_SWAPPED:
        if (bit >= c->runs)
            w->fault = CTA_BOUNDS;
        return bit < c->runs && (c->mask[bit] >> run & 1);
    default:
        break;
    }
    return c->mask[run] >> bit & 1;
}

/* ---- a tile --------------------------------------------------------------------------------------------- */

/* The place of what stands in slot i of the tile; -1: zeros. */
static int64_t slot_at(struct row *w, int32_t first, int32_t i)
{
    const struct lab5_call *c = w->c;
    if (first + i < c->tokens)
        return token_at(w, first, first + i);
    if (w->of[END] == END_ZEROS)
        return -1;
    if (first == 0) /* no tile was there before */
        w->fault = CTA_UNSET;
    return first > 0 ? token_at(w, first - c->tile_n, first - c->tile_n + i) : -1;
}

static float score(struct row *w, int32_t first, int32_t i, int64_t at)
{
    static const float hidden[] = {-INFINITY, 0, -1e4f, -1e9f, -1e30f, -FLT_MAX, -INFINITY};
    const struct lab5_call *c = w->c;
    if (!is_seen(w, first, first + i))
        return hidden[w->of[HIDDEN]];
    const float *q = c->q + query_at(w), *k = (w->of[TENSOR] == TENSOR_V_AS_K ? c->v : c->k) + at;
    float s = 0;
    for (int32_t x = 0; x < c->d && at >= 0; x++)
        s += q[x] * k[x];
    float scale = w->of[SCALE] == SCALE_NONE    ? 1
                  : w->of[SCALE] == SCALE_TWICE ? c->scale * c->scale
                  : w->of[SCALE] == SCALE_ROOT  ? c->scale / sqrtf((float)c->d)
                                                : c->scale;
    return w->of[HIDDEN] == HIDDEN_BELOW && s * scale <= -1e4f ? -INFINITY : s * scale;
}

static float power(const struct row *w, float x)
{
    return w->of[BASE] == BASE_2 ? exp2f(x) : expf(x);
}

/* How much of a sum is kept. */
static float kept(const struct row *w, bool is_o, float keep)
{
    switch (w->of[RESCALE]) {
    case RESCALE_SUM:
        return is_o ? 1 : keep;
    case RESCALE_O:
        return is_o ? keep : 1;
    case RESCALE_NONE:
        return 1;
    case RESCALE_LAST:
        return 0;
    case RESCALE_O_LAST:
    case RESCALE_O_TOKEN:
        return is_o ? 0 : keep;
    case RESCALE_SUM_LAST:
        return is_o ? keep : 0;
    default:
        return keep;
    }
}

/* Slots [from, to) of the tile that begins at first. */
static void take_slots(struct row *w, int32_t first, int32_t from, int32_t to)
{
    const struct lab5_call *c = w->c;
    float s[64], more = w->max, sum = 0;
    int64_t at[64];
    for (int32_t i = from; i < to; i++) {
        at[i] = slot_at(w, first, i);
        s[i] = score(w, first, i, at[i]);
        w->seen = w->seen || s[i] != -INFINITY;
        more = w->of[START] == START_NEVER ? 0 : fmaxf(more, s[i]);
    }
    bool guarded = w->of[GUARD] == GUARD_OWN;
    float keep = guarded && more == -INFINITY        ? 1
                 : w->of[RESCALE] == RESCALE_INVERSE ? power(w, more - w->max)
                                                     : power(w, w->max - more);
    if (w->of[RESCALE] == RESCALE_INVERSE && w->max == -INFINITY)
        keep = 0;
    for (int32_t x = 0; x < c->d; x++)
        w->o[x] *= kept(w, true, keep);
    for (int32_t i = from; i < to; i++) {
        float p = guarded && s[i] == -INFINITY ? 0 : power(w, s[i] - more), in_o = p;
        if (w->of[ROUND] != ROUND_OWN)
            in_o = (float)f16_to_double(f16_from_double((double)p));
        sum += w->of[ROUND] == ROUND_BOTH ? in_o : p;
        const float *v = (w->of[TENSOR] == TENSOR_K_AS_V ? c->k : c->v) + at[i];
        for (int32_t x = 0; x < c->d && at[i] >= 0; x++)
            w->o[x] += in_o * v[x];
    }
    w->sum = kept(w, false, keep) * w->sum + sum;
    w->max = more;
}

static void take_tiles(struct row *w)
{
    static const float starts[] = {-INFINITY, 0, -1e3f, -1e4f, -1e5f, 0};
    const struct lab5_call *c = w->c;
    w->max = starts[w->of[START]];
    int32_t tokens = c->tokens - (w->of[END] == END_NO_LAST);
    for (int32_t first = 0; first < tokens && !w->fault; first += c->tile_n) {
        int32_t n = (int32_t)min_i64(tokens - first, c->tile_n);
        if ((w->of[END] == END_FULL && n < c->tile_n) || (w->of[END] == END_FIRST && first > 0))
            break;
        if (w->of[END] == END_ZEROS || w->of[END] == END_STALE)
            n = c->tile_n;
        for (int32_t i = 0; i < n; i += w->by_token ? 1 : n)
            take_slots(w, first, i, w->by_token ? i + 1 : n);
    }
}

/* ---- does it fit? --------------------------------------------------------------------------------------- */

static struct lab1_wrong answer_of(const struct row *w)
{
    const struct lab5_call *c = w->c;
    struct lab1_wrong a = {.o = xcalloc((size_t)c->d, sizeof(double)), .lse = -INFINITY};
    if (!(w->sum > 0) || isinf(w->sum)) {
        int32_t how = w->of[EMPTY];
        a.nothing = w->seen || how == EMPTY_NAN || (w->of[GUARD] == GUARD_NONE && c->tokens > 0);
        if (how == EMPTY_ZERO && !w->seen)
            a.lse = 0;
        return a;
    }
    float by = w->of[DIVIDE] == DIVIDE_NOT ? 1 : w->of[DIVIDE] == DIVIDE_N ? (float)c->tokens : w->sum;
    for (int32_t x = 0; x < c->d; x++)
        a.o[x] = (double)(w->o[x] / by);
    float natural = logf(w->sum), max = w->max;
    a.lse = (double)(w->of[LOG] == LOG_NO_MAX ? natural
                     : w->of[LOG] == LOG_MAX  ? max
                     : w->of[LOG] == LOG_2    ? max + log2f(w->sum)
                     : w->of[LOG] == LOG_NOT  ? max + w->sum
                                              : max + natural);
    return a;
}

/* Some are of one way to write the loop alone. */
static bool is_of_variant(int32_t mistake, bool by_token)
{
    if (wrongs[mistake].step != RESCALE)
        return true;
    switch (wrongs[mistake].value) {
    case RESCALE_LAST:
    case RESCALE_O_LAST:
    case RESCALE_SUM_LAST:
        return !by_token;
    case RESCALE_O_TOKEN:
        return by_token;
    default:
        return true;
    }
}

int32_t lab5_mistakes(void)
{
    return N_WRONGS;
}

const char *lab5_mistake_text(int32_t mistake)
{
    return wrongs[mistake].says;
}

enum lab1_fit lab5_gives(const struct lab5_call *c, int32_t mistake, int32_t variant, int64_t fault,
                         const struct lab1_answer *right, const float *o, const float *lse)
{
    if (!is_of_variant(mistake, variant == 1))
        return LAB1_FITS_NOT;
    float *sum = xcalloc((size_t)c->d, sizeof *sum);
    enum lab1_fit all = LAB1_FITS;
    bool fails = false;
    for (int32_t r = 0; r < lab5_rows(c) && all != LAB1_FITS_NOT; r++) {
        struct row w = {.c = c, .row = r, .by_token = variant == 1, .o = sum};
        w.of[wrongs[mistake].step] = wrongs[mistake].value;
        memset(sum, 0, (size_t)c->d * sizeof *sum);
        take_tiles(&w);
        fails = fails || w.fault;
        if (fault) { /* that row or a later one must lead there */
            all = w.fault && w.fault != fault ? LAB1_FITS_NOT : all;
            continue;
        }
        struct lab1_wrong a = answer_of(&w);
        int32_t at = lab5_place(c, r);
        enum lab1_fit fit =
            w.fault ? LAB1_FITS_NOT : lab1_fits(c->d, &a, &right[r], o + (int64_t)at * c->d, lse[at]);
        all = fit == LAB1_FITS ? all : fit;
        free(a.o);
    }
    free(sum);
    return fault && !fails ? LAB1_FITS_NOT : all;
}
