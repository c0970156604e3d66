#include "verify/cases/random_cases.h"

#include "kernels/kernel.h"
#include "ref/tails.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Streams of the generator, one per property, so that a new property changes no other. */
enum {
    DRAW_D = 1000,
    DRAW_DTYPE,
    DRAW_HEADS,
    DRAW_PAGE,
    DRAW_FILL,
    DRAW_DATA,
    DRAW_SHARING,
    DRAW_SCALE,
    DRAW_ALIGNED,
    DRAW_POOL,
    DRAW_SOFT_CAP,
    DRAW_SINKS,
    DRAW_WINDOW,
    DRAW_Q_LEN,
    DRAW_KV,
    DRAW_HEAD_SCALES,
    DRAW_MIXED
};

/* A value and how often it is drawn, in percent; the shares of a list add up to 100. */
struct share {
    int32_t value, percent;
};
/* 64 and 128 are what most models have; the others keep the kernels honest. */
static const struct share share_d[] = {{64, 38}, {128, 36}, {16, 3},  {32, 3},  {80, 4},
                                       {96, 4},  {112, 3},  {160, 3}, {192, 3}, {256, 3}};
static const struct share share_dtype[] = {{DT_F64, 15}, {DT_F32, 30}, {DT_F16, 30}, {DT_BF16, 25}};
static const struct share share_page[] = {{1, 18}, {2, 6},   {4, 6},   {8, 6},   {16, 24}, {32, 12},
                                          {48, 6}, {64, 10}, {256, 4}, {512, 4}, {528, 4}};
static const struct share share_fill[] = {{FILL_RANDOM, 42}, {FILL_COUNT, 6},     {FILL_HUGE, 6},
                                          {FILL_ONEHOT, 6},  {FILL_IDENTICAL, 6}, {FILL_VAST, 6},
                                          {FILL_SUNK, 6},    {FILL_SPAN, 14},     {FILL_ONESIGN, 8}};
/* In thousandths; 0: 1 / sqrt(d), which none of the others is. */
static const struct share share_scale[] = {{0, 60}, {10, 8}, {50, 8}, {200, 8}, {300, 8}, {1000, 8}};
static const struct share share_aligned[] = {{1, 60}, {0, 40}};
/* Those of Gemma 2 for logits and for attention, and one that bends nearly all. */
static const struct share share_soft_cap[] = {{0, 85}, {30, 5}, {50, 5}, {5, 5}};
static const struct share share_sinks[] = {{0, 85}, {1, 15}};
static const struct share share_window[] = {{0, 85}, {1, 2}, {17, 3}, {64, 5}, {100, 5}};
/* Queries of a request: one, those of multi-token prediction, of a chunk that extends a prompt. */
static const struct share share_q_len[] = {{1, 88}, {2, 4}, {4, 4}, {9, 4}};
static const struct share share_kv[] = {{DT_F64, 85}, {DT_E4M3, 9}, {DT_E5M2, 6}}; /* F64: as Q */
static const struct share share_head_scales[] = {{0, 50}, {1, 50}};
static const struct share share_pool[] = {{1, 50}, {0, 50}};

/* Which query heads share a KV head. Mistakes in that show only where there are several KV heads, and several query heads on
 * each: h mod h_kv is h / g otherwise, or 0. */
enum sharing { SHARING_GROUPS, SHARING_ONE, SHARING_NONE, N_SHARINGS };
static const struct share share_sharing[] = {{SHARING_GROUPS, 74}, {SHARING_ONE, 13}, {SHARING_NONE, 13}};
enum { MAX_HEADS = 24 };
/* Of each the query heads ascend. */
static const struct {
    int32_t q, kv;
} head_list[N_SHARINGS][MAX_HEADS] = {
    [SHARING_GROUPS] = {{4, 2},  {6, 2},  {6, 3},  {8, 2},  {8, 4},  {10, 2}, {12, 2},  {12, 4},
                        {14, 2}, {15, 3}, {16, 2}, {16, 8}, {20, 2}, {24, 2}, {24, 8},  {28, 4},
                        {32, 8}, {40, 8}, {48, 4}, {48, 8}, {64, 8}, {96, 8}, {128, 8}, {128, 64}},
    [SHARING_ONE] = {{2, 1}, {3, 1}, {4, 1}, {5, 1}, {7, 1}, {8, 1}, {12, 1}, {71, 1}},
    [SHARING_NONE] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {8, 8}, {16, 16}, {32, 32}, {64, 64}},
};

/* Multiply-adds per product and strategy that a drawn case may cost. Measured: keeps 500 trees under five
 * minutes on 2 cores; a tree too large for it even with the fewest heads runs with smaller ones. */
static const double WORK_MAX = 1.2e7;
/* Bytes of K: drawn pages become smaller where they would take more. */
static const int64_t POOL_MAX = 1 << 24;
/* Pages of a pool in which the page numbers take more than 16 bits, and its bytes of K: pages are small then. */
enum { LARGE_POOL = 70000 };
static const int64_t LARGE_POOL_MAX = 1 << 26;

/* Draw number i of 0 .. 99, each exactly once in every hundred draws: a run of some hundred trees meets every
 * share as it is stated, whatever the seed. */
static int64_t shuffled(uint64_t seed, int stream, int64_t i)
{
    uint8_t card[100];
    for (int k = 0; k < 100; k++)
        card[k] = (uint8_t)k;
    uint64_t deck = rng_u64(seed, (uint64_t)stream, (uint64_t)(i / 100));
    for (int k = 99; k > 0; k--) {
        int64_t j = rng_below(deck, 0, (uint64_t)k, k + 1);
        uint8_t swap = card[k];
        card[k] = card[j];
        card[j] = swap;
    }
    return card[i % 100];
}

static int32_t draw_share(uint64_t seed, int stream, int64_t i, const struct share *list)
{
    int64_t x = shuffled(seed, stream, i);
    for (; x >= list->percent; list++)
        x -= list->percent;
    return list->value;
}

int64_t visible_pairs(const struct tree *t)
{
    int64_t *ctx = xcalloc((size_t)t->n_queries, sizeof *ctx), sum = 0;
    tree_contexts(t, ctx);
    for (int32_t q = 0; q < t->n_queries; q++)
        sum += ctx[q];
    free(ctx);
    return sum;
}

/* Heads that fit, or the fewest with elements that do. */
static void draw_heads(uint64_t seed, int64_t i, double pairs, struct problem_spec *s)
{
    static const int32_t smaller[] = {96, 80, 64, 32, 16};
    enum sharing sharing = (enum sharing)draw_share(seed, DRAW_SHARING, i, share_sharing);
    int fit = 1;
    for (int k = 0; k < 5 && pairs * s->heads.d * head_list[sharing][0].q > WORK_MAX; k++)
        s->heads.d = (int32_t)min_i64(s->heads.d, smaller[k]);
    for (int h = 0; h < MAX_HEADS && head_list[sharing][h].q > 0; h++)
        if (pairs * s->heads.d * head_list[sharing][h].q <= WORK_MAX)
            fit = h + 1;
    int64_t pick = rng_below(seed, DRAW_HEADS, (uint64_t)i, fit);
    s->heads.h_q = head_list[sharing][pick].q;
    s->heads.h_kv = head_list[sharing][pick].kv;
}

/* As if K were as Q: what is drawn besides does not depend on it. */
static int64_t k_bytes(const struct tree *t, const struct problem_spec *s, int64_t pages)
{
    for (int32_t i = 0; i < t->n_nodes; i++)
        pages += ceil_div(t->len[i], s->page_size);
    return pages * s->page_size * s->heads.h_kv * s->heads.d * heads_elt_bytes(&s->heads);
}

/* Pairs that a strategy computes, on an average: most compute visible pairs, a few all pairs of the tree. */
static double average_pairs(const struct tree *t)
{
    return 0.8 * (double)visible_pairs(t) + 0.2 * (double)t->n_queries * (double)tree_tokens(t);
}

/* May this tree be stored aligned to pages? Copies of what is left over must not be most of the work. */
static bool worth_aligning(const struct tree *t, int32_t page)
{
    struct tree *x = tree_aligned(t, page);
    bool worth = average_pairs(x) <= 2 * average_pairs(t) && page > 1;
    tree_free(x);
    return worth;
}

enum { SOFT_CAP_GIVEN = 30, WINDOW_GIVEN = 64 };

/* A function of the case alone, which may come from a list. */
static uint32_t mixed_features(const struct problem_spec *s)
{
    static const uint32_t kv[] = {0, UINT32_C(1) << FEATURE_E4M3, UINT32_C(1) << FEATURE_E5M2};
    uint64_t at = (uint64_t)s->heads.d + 1000 * (uint64_t)s->page_size + 100000000 * (uint64_t)s->fill,
             x = rng_u64(s->seed, DRAW_MIXED, at);
    uint32_t latent = UINT32_C(1) << FEATURE_LATENT, narrow_v = UINT32_C(1) << FEATURE_NARROW_V,
             some = (uint32_t)x & ~(FEATURES_FP8 | latent | narrow_v) & ((UINT32_C(1) << N_FEATURES) - 1),
             narrow = kv[(x >> 32) % 3];
    some |= (x >> 48) % 4 == 0 ? latent : (x >> 52) % 2 == 0 ? narrow_v : 0; /* fewer: most kernels lack them */
    return some | narrow | (narrow ? (uint32_t)(x >> 63) << FEATURE_HEAD_SCALES : 0);
}

void problem_given_apply(const struct problem_given *g, struct problem_spec *s)
{
    uint32_t only = g->mixed ? mixed_features(s) : g->only;
    if (g->heads) {
        s->heads.h_q = g->spec.heads.h_q;
        s->heads.h_kv = g->spec.heads.h_kv;
    }
    if (g->dtype)
        s->heads.dtype = g->spec.heads.dtype;
    if (g->d)
        s->heads.d = g->spec.heads.d;
    if (g->page)
        s->page_size = g->spec.page_size;
    if (g->fill)
        s->fill = g->spec.fill;
    if (g->features) { /* all of them, and no other */
        problem_spec_restrict(s, only);
        if (only >> FEATURE_SOFT_CAP & 1 && s->soft_cap == 0)
            s->soft_cap = SOFT_CAP_GIVEN;
        s->sinks = only >> FEATURE_SINKS & 1;
        if (only >> FEATURE_WINDOW & 1 && s->window == 0)
            s->window = WINDOW_GIVEN;
        bool e4m3 = only >> FEATURE_E4M3 & 1, e5m2 = only >> FEATURE_E5M2 & 1;
        if ((e4m3 || e5m2) && !heads_fp8(&s->heads)) /* of both one */
            s->heads.kv_fp8 = e4m3 && (!e5m2 || s->seed % 2 == 0) ? DT_E4M3 : DT_E5M2;
        s->head_scales = (e4m3 || e5m2) && (only >> FEATURE_HEAD_SCALES & 1);
        bool latent = only >> FEATURE_LATENT & 1, narrow_v = only >> FEATURE_NARROW_V & 1;
        if ((latent || narrow_v) && s->heads.d_v == 0) {
            s->heads.v_apart = narrow_v && (!latent || s->seed % 2 == 0) && s->heads.d <= PROBLEM_MAX_D;
            s->heads.d_v = problem_usual_d_v(&s->heads);
        }
    }
    if (g->window)
        s->window = g->spec.window;
}

struct case_spec random_case(uint64_t seed, int64_t i, const struct problem_given *fixed, struct tree **tree)
{
    struct case_spec c = {.spec = case_default_spec()};
    c.src.kind = SRC_GEN;
    c.src.family = gen_family(seed, i);
    c.src.seed = gen_seed(seed, i);
    *tree = gen_tree(c.src.family, c.src.seed);
    int32_t q_len = draw_share(seed, DRAW_Q_LEN, i, share_q_len);
    if (q_len > 1 && tree_set_tails(*tree, q_len, NULL))
        c.src.q_len = q_len;
    c.spec.heads.d = draw_share(seed, DRAW_D, i, share_d);
    c.spec.heads.dtype = (enum dtype)draw_share(seed, DRAW_DTYPE, i, share_dtype);
    c.spec.page_size = draw_share(seed, DRAW_PAGE, i, share_page);
    c.spec.fill = (enum fill)draw_share(seed, DRAW_FILL, i, share_fill);
    c.spec.scale = draw_share(seed, DRAW_SCALE, i, share_scale) / 1000.;
    c.spec.seed = rng_u64(seed, DRAW_DATA, (uint64_t)i) >> 40;
    c.spec.soft_cap = draw_share(seed, DRAW_SOFT_CAP, i, share_soft_cap);
    c.spec.sinks = draw_share(seed, DRAW_SINKS, i, share_sinks);
    c.spec.window = draw_share(seed, DRAW_WINDOW, i, share_window);
    c.spec.heads.kv_fp8 = (enum dtype)draw_share(seed, DRAW_KV, i, share_kv);
    c.spec.head_scales = heads_fp8(&c.spec.heads) && draw_share(seed, DRAW_HEAD_SCALES, i, share_head_scales);
    draw_heads(seed, i, average_pairs(*tree), &c.spec);
    while (c.spec.page_size > 1 && k_bytes(*tree, &c.spec, 0) > POOL_MAX)
        c.spec.page_size /= 2;
    if (fixed)
        problem_given_apply(fixed, &c.spec);
    /* a token tree of speculative decoding lies in the pages of one request */
    c.aligned = draw_share(seed, DRAW_ALIGNED, i, share_aligned) && c.src.family != FAM_TOKEN &&
                worth_aligning(*tree, c.spec.page_size);
    if (draw_share(seed, DRAW_POOL, i, share_pool) && k_bytes(*tree, &c.spec, LARGE_POOL) <= LARGE_POOL_MAX)
        c.spec.pool = LARGE_POOL;
    return c;
}

bool case_suit(struct case_spec *c, const struct problem_given *given, struct tree **tree, struct err *e)
{
    const struct kernel *k = c->kernel;
    bool pages = k->suit(k, &c->spec);
    problem_given_apply(given, &c->spec);
    if (!*tree && (*tree = tree_source_load(&c->src, e)) == NULL)
        return false;
    if (pages && !c->aligned && c->spec.page_size > 1) {
        c->aligned = worth_aligning(*tree, c->spec.page_size);
        if (!c->aligned && !given->page)
            c->spec.page_size = 1; /* unless it takes none of these */
        k->suit(k, &c->spec);
        problem_given_apply(given, &c->spec);
    }
    bool sparse = k->sparse && !c->spec.poison; /* all 0 but for the tree's pages */
    if (c->spec.pool > 0 && !sparse && k_bytes(*tree, &c->spec, c->spec.pool) > LARGE_POOL_MAX)
        c->spec.pool = 0;
    return true;
}

/* ---- sharp cases -------------------------------------------------------------------------------------- */

const char *const sharp_text[] = {
#define SHARP(text, why) text,
#include "verify/cases/sharp.def"
#undef SHARP
};
enum { N_SHARP = sizeof sharp_text / sizeof sharp_text[0] };
const int32_t n_sharp_texts = N_SHARP;

/* Lengths on, below and above the edges of the tiles and pages that strategies and kernels use. */
static const int32_t edge_len[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
static const int32_t edge_page[] = {1, 16, 32, 64, 256};
enum { N_LEN = sizeof edge_len / sizeof edge_len[0], N_PAGE = sizeof edge_page / sizeof edge_page[0] };

/* Takes the text. */
static void add_sharp(struct case_spec *out, int64_t *n, char *text)
{
    struct err e = {0};
    CK(case_parse(text, &out[(*n)++], &e));
    free(text);
}

static const char *const wide_text[] = {
#define WIDE(text, why) text,
#include "verify/cases/wide.def"
#undef WIDE
};
const int32_t n_wide_texts = sizeof wide_text / sizeof wide_text[0];

struct case_spec *wide_cases(int64_t *n)
{
    struct case_spec *out = xcalloc((size_t)n_wide_texts, sizeof *out);
    *n = 0;
    for (int32_t i = 0; i < n_wide_texts; i++)
        add_sharp(out, n, xstrdup(wide_text[i]));
    return out;
}

struct case_spec *sharp_cases(int64_t *n)
{
    static const char *const heads[] = {"1/1", "2/1", "4/4", "8/2", "7/1", "6/2"};
    static const int32_t dim[] = {64, 128, 64, 80, 128};
    struct case_spec *out = xcalloc(N_SHARP + N_FILLS * (N_DTYPES + 3) + N_LEN * N_PAGE, sizeof *out);
    *n = 0;
    for (int i = 0; i < N_SHARP; i++)
        add_sharp(out, n, xstrdup(sharp_text[i]));
    for (int f = 0; f < N_FILLS; f++)
        for (int t = 0; t < N_DTYPES; t++)
            add_sharp(
                out, n,
                xasprintf("tree=levels:1,3,12_150,37,9;heads=4/2;d=%d;dtype=%s;page=16;fill=%s;aligned=%d",
                          t % 2 ? 64 : 128, dtype_name[t], fill_name[f], f % 2));
    for (int f = 0; f < N_FILLS; f++)
        add_sharp(
            out, n,
            xasprintf("tree=nodes:-1.140,0.37,0.20,1.9,1.0:0.0,1.30,3.9,2.20;heads=6/3;d=64;dtype=%s;page=%d;"
                      "fill=%s;softcap=%d;sinks=%d",
                      dtype_name[f % N_DTYPES], 1 + 15 * (f % 2), fill_name[f], f % 3 ? 20 : 50, f % 3 != 1));
    for (int f = 0; f < N_FILLS; f++)
        for (int t = 0; t < 2; t++)
            add_sharp(
                out, n,
                xasprintf(
                    "tree=nodes:-1.140,0.37,0.20,1.9,1.0:0.0,1.30,3.9,2.20;heads=6/3;d=%d;dtype=%s;page=%d;"
                    "fill=%s;kv=%s;headscales=%d",
                    f % 2 ? 64 : 128, dtype_name[(f + t) % N_DTYPES], 1 + 15 * (f % 2), fill_name[f],
                    t ? "e5m2" : "e4m3", f % 3 != 1));
    for (int i = 0; i < N_LEN * N_PAGE; i++) {
        int l = i / N_PAGE;
        add_sharp(out, n,
                  xasprintf("tree=levels:1,3,6_%d,%d,%d;heads=%s;d=%d;dtype=%s;page=%d;seed=%d;aligned=%d",
                            edge_len[l], edge_len[(l + 5) % N_LEN], edge_len[(l + 9) % N_LEN], heads[i % 6],
                            dim[i % 5], dtype_name[i % N_DTYPES], edge_page[i % N_PAGE], i, l % 2));
    }
    return out;
}

/* ---- census ------------------------------------------------------------------------------------------- */

/* Name, names of the values (NULL: they are numbers), value in a case x of tree t. */
#define CENSUS(X)                                                                                            \
    X(NODES, "nodes", NULL, t->n_nodes)                                                                      \
    X(QUERIES, "queries", NULL, t->n_queries)                                                                \
    X(TOKENS, "tokens", NULL, tree_tokens(t))                                                                \
    X(FAMILY, "family", family_name, x->src.family)                                                          \
    X(DTYPE, "dtype", dtype_name, x->spec.heads.dtype)                                                       \
    X(DIM, "d", NULL, x->spec.heads.d)                                                                       \
    X(PAGE, "page", NULL, x->spec.page_size)                                                                 \
    X(FILL, "fill", fill_name, x->spec.fill)                                                                 \
    X(GQA, "q/kv", NULL, heads_gqa(&x->spec.heads))
#define COLUMN(id, name, words, value) id,
#define LABEL(id, name, words, value) {name, words},
#define VALUE(id, name, words, value) value,
enum { CENSUS(COLUMN) };
static const struct {
    const char *name;
    const char *const *words;
} census_column[] = {CENSUS(LABEL)};

void census_row(const struct case_spec *x, const struct tree *t, int64_t row[CENSUS_COLUMNS])
{
    const int64_t value[CENSUS_COLUMNS] = {CENSUS(VALUE)};
    memcpy(row, value, sizeof value);
}

void census_add(struct census *c, const int64_t row[CENSUS_COLUMNS])
{
    c->row = xgrow(c->row, &c->cap, c->n + 1, sizeof *c->row);
    memcpy(c->row[c->n++], row, sizeof *c->row);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* x ascends. */
static void print_shares(FILE *f, const char *const *words, const int64_t *x, int64_t n)
{
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && x[end] == x[i];)
            end++;
        if (words)
            fprintf(f, "  %s", words[x[i]]);
        else
            fprintf(f, "  %" PRId64, x[i]);
        fprintf(f, " %.1f%%", 100 * (double)(end - i) / (double)n);
    }
    fputc('\n', f);
}

void census_print(FILE *f, const struct census *c)
{
    int64_t n = c->n, *x = xcalloc((size_t)n, sizeof *x), many = 0;
    if (n > 0)
        fprintf(f, "%" PRId64 " trees drawn\n  %-8s %10s %10s %10s %10s\n", n, "", "min", "median", "p90",
                "max");
    for (int which = 0; which < CENSUS_COLUMNS && n > 0; which++) {
        for (int64_t i = 0; i < n; i++) {
            x[i] = c->row[i][which];
            many += which == QUERIES && x[i] > 128;
        }
        qsort(x, (size_t)n, sizeof *x, ascending);
        fprintf(f, "  %-8s", census_column[which].name);
        if (which <= TOKENS)
            fprintf(f, " %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64 "\n", x[0], x[n / 2],
                    x[n * 9 / 10], x[n - 1]);
        else
            print_shares(f, census_column[which].words, x, n);
        if (which == TOKENS)
            fprintf(f, "  over 128 queries: %.1f%%\n", 100 * (double)many / (double)n);
    }
    free(x);
}
