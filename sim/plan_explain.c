#include "sim/plan_explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* What lines add up to. */
enum sum {
    SUM_KV,
    SUM_Q,
    SUM_MASK,
    SUM_SCORES,
    SUM_WRITTEN,
    SUM_READ,
    SUM_OUT,
    SUM_USED,
    SUM_HIDDEN,
    SUM_PADDING,
    SUM_ROWS,
    SUM_TOKENS,
    N_SUMS
};
static const struct {
    const char *what, *unit; /* "": it is in the name */
} sums[N_SUMS] = {
    [SUM_KV] = {"K and V read", "B"},
    [SUM_Q] = {"Q read", "B"},
    [SUM_MASK] = {"masks read", "B"},
    [SUM_SCORES] = {"scores written and read", "B"},
    [SUM_WRITTEN] = {"partial results written", "B"},
    [SUM_READ] = {"partial results read", "B"},
    [SUM_OUT] = {"output written", "B"},
    [SUM_USED] = {"multiply-adds that count", ""},
    [SUM_HIDDEN] = {"multiply-adds that masks hide", ""},
    [SUM_PADDING] = {"multiply-adds of padding", ""},
    [SUM_ROWS] = {"padded rows", ""},
    [SUM_TOKENS] = {"padded tokens", ""},
};

struct explain {
    FILE *f;
    const struct plan *p;
    const struct heads *h;
    int64_t sum[N_SUMS];
    uint8_t *onchip; /* [n_slots] never in memory */
};

/* ---- products ------------------------------------------------------------------------------------------- */

/* "64 tokens x 2 KV heads", and what that is. */
struct product {
    char *text;
    int64_t value;
};

/* One factor more, as the text says it. */
static void times_text(struct product *x, int64_t value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void times_text(struct product *x, int64_t value, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!x->text) {
        *x = (struct product){xstrdup(""), 1};
        xappend(&x->text, "%s", text);
    } else {
        xappend(&x->text, " x %s", text);
    }
    x->value *= value;
}

/* "1 token", "2 tokens". */
static void times(struct product *x, int64_t n, const char *one, const char *many)
{
    times_text(x, n, "%" PRId64 " %s", n, n == 1 ? one : many);
}

static void times_heads(struct product *x, const struct heads *h)
{
    times(x, h->h_kv, "KV head", "KV heads");
}

static void times_bytes(struct product *x, int64_t bytes)
{
    times_text(x, bytes, "%" PRId64 " B", bytes);
}

/* "65,536 B" and the end of the line. */
static void print_result(FILE *f, int64_t x, const char *unit)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, x);
    for (size_t i = 0, n = strlen(digits); i < n; i++)
        fprintf(f, "%s%c", i > 0 && (n - i) % 3 == 0 ? "," : "", digits[i]);
    fprintf(f, "%s%s\n", unit[0] ? " " : "", unit);
}

/* The line, unless its result is 0. */
static void print_product(struct explain *e, enum sum s, struct product *x)
{
    if (x->value != 0) {
        fprintf(e->f, "  %s: %s = ", sums[s].what, x->text);
        print_result(e->f, x->value, sums[s].unit);
    }
    e->sum[s] += x->value;
    free(x->text);
    *x = (struct product){0};
}

/* ---- a group -------------------------------------------------------------------------------------------- */

/* Sizes of a group; padded ones are of all its tiles. */
struct sizes {
    int64_t gqa, rows, q_tiles, kv_tiles, padded_rows, padded_tokens;
};

static struct sizes sizes_of(const struct group *g, const struct heads *h)
{
    struct sizes x = {.gqa = heads_gqa(h)};
    x.rows = g->nq * x.gqa;
    int64_t m = g->tile_m ? g->tile_m : x.rows, n = g->tile_n ? g->tile_n : g->n_kv;
    x.q_tiles = ceil_div(x.rows, m);
    x.kv_tiles = ceil_div(g->n_kv, n);
    x.padded_rows = x.q_tiles * m;
    x.padded_tokens = x.kv_tiles * n;
    return x;
}

static void print_tiles(struct explain *e, const char *what, int64_t n, const char *of, int32_t tile)
{
    if (tile > 0)
        fprintf(e->f, "  %s tiles: %" PRId64 " %s / %" PRId32 " a tile, rounded up = %" PRId64 "\n", what, n,
                of, tile, ceil_div(n, tile));
}

static void print_tiling(struct explain *e, const struct group *g, const struct sizes *z)
{
    fprintf(e->f, "  rows: %" PRId32 " %s x %" PRId64 " query heads a KV head = %" PRId64 "\n", g->nq,
            g->nq == 1 ? "query" : "queries", z->gqa, z->rows);
    print_tiles(e, "Q", z->rows, "rows", g->tile_m);
    print_tiles(e, "KV", g->n_kv, "tokens", g->tile_n);
}

static void explain_reads(struct explain *e, const struct group *g, const struct sizes *z)
{
    struct product x = {0};
    times(&x, g->n_kv, "token", "tokens");
    times_text(&x, 2, "2 (K, V)");
    times(&x, e->h->d, "number", "numbers");
    times_bytes(&x, heads_kv_bytes(e->h));
    times(&x, z->q_tiles, "Q tile", "Q tiles");
    times_heads(&x, e->h);
    print_product(e, SUM_KV, &x);
    times(&x, z->rows, "row", "rows");
    times(&x, e->h->d, "number", "numbers");
    times_bytes(&x, heads_elt_bytes(e->h));
    times_heads(&x, e->h);
    print_product(e, SUM_Q, &x);
}

/* Queries in all Q tiles: one whose rows lie in two tiles counts twice. */
static int64_t queries_in_tiles(const struct group *g, const struct sizes *z)
{
    int64_t m = g->tile_m ? g->tile_m : z->rows, sum = 0;
    for (int64_t r0 = 0; r0 < z->rows; r0 += m)
        sum += (min_i64(r0 + m, z->rows) - 1) / z->gqa - r0 / z->gqa + 1;
    return sum;
}

/* Words with a bit for each of n. */
static void times_words(struct product *x, int64_t n, const char *what)
{
    times_text(x, ceil_div(n, 64), "(%" PRId64 " %s / 64 a word, rounded up)", n, what);
}

static void explain_mask(struct explain *e, const struct group *g, const struct sizes *z)
{
    struct product x = {0};
    bool words = g->mask == MASK_RUN_WORDS || g->mask == MASK_TOKEN_WORDS;
    if (g->mask == MASK_NONE)
        return;
    if (words) {
        if (g->mask == MASK_RUN_WORDS)
            times(&x, g->run1 - g->run0, "run", "runs");
        else
            times(&x, g->n_kv, "token", "tokens");
        times_words(&x, g->nq, "queries");
        times_bytes(&x, 8);
        times(&x, z->q_tiles, "Q tile", "Q tiles");
    } else {
        times(&x, queries_in_tiles(g, z), "query in its tile", "queries in their tiles");
        if (g->mask == MASK_QUERY_WORDS)
            times_words(&x, g->n_kv, "tokens");
        else
            times(&x, g->n_kv, "token", "tokens");
        times_bytes(&x, g->mask == MASK_QUERY_WORDS ? 8 : 2);
    }
    times_heads(&x, e->h);
    print_product(e, SUM_MASK, &x);
}

/* Of a plan that is not fused. */
static void explain_scores(struct explain *e, const struct group *g, const struct sizes *z)
{
    struct product x = {0};
    bool masked = g->mask != MASK_NONE;
    if (!e->p->unfused)
        return;
    times(&x, z->rows, "row", "rows");
    times(&x, g->n_kv, "token", "tokens");
    times_bytes(&x, heads_elt_bytes(e->h));
    times_text(&x, masked ? 4 : 3, masked ? "4 (QK, scaled, masked, softmax)" : "3 (QK, scaled, softmax)");
    times_text(&x, 2, "2 (written, read)");
    times_heads(&x, e->h);
    print_product(e, SUM_SCORES, &x);
}

/* Pairs of a query and a token that the query sees. */
static int64_t seen_pairs(const struct plan *p, const struct group *g)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < g->nq; k++)
        for (int64_t r = 0; r < g->run1 - g->run0; r++)
            if (plan_visible(p, g, k, r))
                sum += p->run[g->run0 + r].end - p->run[g->run0 + r].begin;
    return sum;
}

/* 2 for QK^T and PV. */
static void times_pair(struct product *x, const struct heads *h)
{
    times_text(x, 2, "2 (QK, PV)");
    times(x, h->d, "number", "numbers");
    times_heads(x, h);
}

static void explain_work(struct explain *e, const struct group *g, const struct sizes *z)
{
    struct product x = {0};
    int64_t all = g->nq * g->n_kv, seen = seen_pairs(e->p, g);
    if (seen < all) {
        times(&x, seen, "pair of a query and a token that it sees",
              "pairs of a query and a token that it sees");
    } else {
        times(&x, g->nq, "query", "queries");
        times(&x, g->n_kv, "token", "tokens");
    }
    times(&x, z->gqa, "query head", "query heads");
    times_pair(&x, e->h);
    print_product(e, SUM_USED, &x);
    times_text(&x, all - seen, "(%" PRId32 " queries x %" PRId64 " tokens - %" PRId64 " pairs)", g->nq,
               g->n_kv, seen);
    times(&x, z->gqa, "query head", "query heads");
    times_pair(&x, e->h);
    print_product(e, SUM_HIDDEN, &x);
    times_text(&x, z->padded_rows * z->padded_tokens - z->rows * g->n_kv,
               "(%" PRId64 " rows x %" PRId64 " tokens of all tiles - %" PRId64 " rows x %" PRId64 " tokens)",
               z->padded_rows, z->padded_tokens, z->rows, g->n_kv);
    times_pair(&x, e->h);
    print_product(e, SUM_PADDING, &x);
    times_text(&x, z->padded_rows - z->rows, "(%" PRId64 " rows of all tiles - %" PRId64 ")", z->padded_rows,
               z->rows);
    times_heads(&x, e->h);
    print_product(e, SUM_ROWS, &x);
    times_text(&x, z->padded_tokens - g->n_kv, "(%" PRId64 " tokens of all tiles - %" PRId64 ")",
               z->padded_tokens, g->n_kv);
    times(&x, z->q_tiles, "Q tile", "Q tiles");
    times_heads(&x, e->h);
    print_product(e, SUM_TOKENS, &x);
}

/* ---- partial results ------------------------------------------------------------------------------------- */

/* Of a query head: O, and LSE or maximum and sum. */
static void times_partial(struct product *x, const struct explain *e)
{
    int64_t number = e->p->slot_o == SLOT_O_F16 && heads_float_bytes(e->h) == 4 ? 2 : heads_float_bytes(e->h);
    int64_t weights = e->p->slot_weight == SLOT_MAX_SUM ? 2 : 1, weight = heads_float_bytes(e->h);
    times(x, e->h->h_q, "query head", "query heads");
    times_text(x, e->h->d * number + weights * weight,
               "(%" PRId32 " numbers x %" PRId64 " B + %" PRId64 " %s x %" PRId64 " B)", e->h->d, number,
               weights, weights == 2 ? "of maximum and sum" : "LSE", weight);
}

static void times_output(struct product *x, const struct explain *e)
{
    int64_t number = heads_elt_bytes(e->h), lse = heads_float_bytes(e->h);
    times(x, e->h->h_q, "query head", "query heads");
    times_text(x, e->h->d * number + lse, "(%" PRId32 " numbers x %" PRId64 " B + 1 LSE x %" PRId64 " B)",
               e->h->d, number, lse);
}

static void explain_writes(struct explain *e, const struct group *g)
{
    struct product x = {0};
    int64_t stored = g->nq;
    for (int32_t k = 0; k < g->nq && g->slot0 != PLAN_NO_SLOT; k++)
        stored -= e->onchip[g->slot0 + k];
    if (g->slot0 == PLAN_NO_SLOT) {
        times(&x, g->nq, "query", "queries");
        times_output(&x, e);
        print_product(e, SUM_OUT, &x);
        return;
    }
    times(&x, stored, "query", "queries");
    times_partial(&x, e);
    print_product(e, SUM_WRITTEN, &x);
    if (stored < g->nq)
        fprintf(e->f, "  %" PRId64 " partial results stay on the chip\n", g->nq - stored);
}

static void explain_group(struct explain *e, int64_t gi)
{
    const struct group *g = &e->p->group[gi];
    struct sizes z = sizes_of(g, e->h);
    fprintf(e->f, "group %" PRId64 ": %" PRId32 " %s x %" PRId64 " %s, tile ", gi, g->nq,
            g->nq == 1 ? "query" : "queries", g->n_kv, g->n_kv == 1 ? "token" : "tokens");
    fprintf(e->f, "%" PRId32 "x%" PRId32 "%s, mask %s, launch %" PRId32 " %s\n", g->tile_m, g->tile_n,
            g->tile_m && g->tile_n ? "" : " (0: whole)", mask_name[g->mask], g->launch,
            e->p->launch[g->launch].name);
    print_tiling(e, g, &z);
    explain_reads(e, g, &z);
    explain_mask(e, g, &z);
    explain_scores(e, g, &z);
    explain_writes(e, g);
    explain_work(e, g, &z);
}

/* Merge steps of a launch. */
static void explain_merges(struct explain *e, int32_t launch)
{
    struct product x = {0};
    int64_t steps = 0, read = 0, written = 0, outputs = 0;
    for (const struct merge_step *m = e->p->merge; m < e->p->merge + e->p->n_merges; m++) {
        if (m->launch != launch)
            continue;
        steps++;
        read += m->in1 - m->in0 - (m->onchip != PLAN_NO_SLOT);
        outputs += m->out == PLAN_NO_SLOT;
        written += m->out != PLAN_NO_SLOT && !e->onchip[m->out];
    }
    if (steps == 0)
        return;
    fprintf(e->f, "launch %" PRId32 " %s: %" PRId64 " merge step%s\n", launch, e->p->launch[launch].name,
            steps, steps == 1 ? "" : "s");
    times(&x, read, "partial result", "partial results");
    times_partial(&x, e);
    print_product(e, SUM_READ, &x);
    times(&x, written, "partial result", "partial results");
    times_partial(&x, e);
    print_product(e, SUM_WRITTEN, &x);
    times(&x, outputs, "output", "outputs");
    times_output(&x, e);
    print_product(e, SUM_OUT, &x);
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static void mark_onchip(struct explain *e)
{
    e->onchip = xcalloc((size_t)e->p->n_slots, 1);
    for (const struct merge_step *m = e->p->merge; m < e->p->merge + e->p->n_merges; m++)
        if (m->onchip >= 0 && m->onchip < e->p->n_slots)
            e->onchip[m->onchip] = 1;
}

void plan_print_explain(FILE *f, const struct plan *p, const struct heads *heads)
{
    struct explain e = {.f = f, .p = p, .h = heads};
    mark_onchip(&e);
    fprintf(f, "plan %s%s%s%s, explained\n", p->strategy, p->params[0] ? " (" : "", p->params,
            p->params[0] ? ")" : "");
    for (int64_t i = 0; i < p->n_groups; i++)
        explain_group(&e, i);
    for (int32_t l = 0; l < p->n_launches; l++)
        explain_merges(&e, l);
    fprintf(f, "in all\n");
    for (int s = 0; s < N_SUMS; s++) {
        fprintf(f, "  %s: ", sums[s].what);
        print_result(f, e.sum[s], sums[s].unit);
    }
    fprintf(f, "  launches: %" PRId32 "\n", p->n_launches);
    free(e.onchip);
}
