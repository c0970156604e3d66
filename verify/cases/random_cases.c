#include "verify/cases/random_cases.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Streams of the generator, one per property, so that a new property changes no other. */
enum { DRAW_D = 1000, DRAW_DTYPE, DRAW_HEADS, DRAW_PAGE, DRAW_FILL, DRAW_DATA };

/* A value and how often it is drawn, in percent; the shares of a list add up to 100. */
struct share {
    int32_t value, percent;
};
/* 64 and 128 are what models have; the others keep the kernels honest. */
static const struct share share_d[] = {{64, 40}, {128, 40}, {16, 5}, {32, 5}, {80, 4}, {96, 3}, {256, 3}};
static const struct share share_dtype[] = {{DT_F64, 15}, {DT_F32, 30}, {DT_F16, 30}, {DT_BF16, 25}};
static const struct share share_page[] = {{1, 20}, {16, 30}, {32, 20}, {64, 20}, {256, 10}};
static const struct share share_fill[] = {{FILL_RANDOM, 60}, {FILL_COUNT, 8},     {FILL_HUGE, 8},
                                          {FILL_ONEHOT, 8},  {FILL_IDENTICAL, 8}, {FILL_VAST, 8}};

static const struct {
    int32_t q, kv;
} head_list[] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}, {4, 1}, {4, 2}, {4, 4},
                 {6, 2}, {7, 1}, {8, 1}, {8, 2}, {8, 8}, {16, 2}};
enum { N_HEADS = sizeof head_list / sizeof head_list[0] };

/* Multiply-adds per product and strategy that a drawn case may cost. Measured: keeps 500 trees under two
 * minutes on 2 cores; a tree too large for it even with one head runs with one head. */
static const double WORK_MAX = 3e7;

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

static void draw_heads(uint64_t seed, int64_t i, double pairs_d, struct problem_spec *s)
{
    int fit = 1;
    for (int h = 0; h < N_HEADS; h++)
        if (pairs_d * head_list[h].q <= WORK_MAX)
            fit = h + 1; /* the list ascends in query heads */
    int64_t pick = rng_below(seed, DRAW_HEADS, (uint64_t)i, fit);
    s->heads.h_q = head_list[pick].q;
    s->heads.h_kv = head_list[pick].kv;
}

void problem_given_apply(const struct problem_given *g, struct problem_spec *s)
{
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
}

struct case_spec random_case(uint64_t seed, int64_t i, const struct problem_given *fixed, struct tree **tree)
{
    struct case_spec c = {.spec = case_default_spec()};
    c.src.kind = SRC_GEN;
    c.src.family = gen_family(seed, i);
    c.src.seed = gen_seed(seed, i);
    *tree = gen_tree(c.src.family, c.src.seed);
    c.spec.heads.d = draw_share(seed, DRAW_D, i, share_d);
    c.spec.heads.dtype = (enum dtype)draw_share(seed, DRAW_DTYPE, i, share_dtype);
    c.spec.page_size = draw_share(seed, DRAW_PAGE, i, share_page);
    c.spec.fill = (enum fill)draw_share(seed, DRAW_FILL, i, share_fill);
    c.spec.seed = rng_u64(seed, DRAW_DATA, (uint64_t)i) >> 40;
    /* of an average strategy: most compute visible pairs, a few all pairs of the tree */
    double all = (double)(*tree)->n_queries * (double)tree_tokens(*tree),
           pairs = 0.8 * (double)visible_pairs(*tree) + 0.2 * all;
    draw_heads(seed, i, pairs * c.spec.heads.d, &c.spec);
    if (fixed)
        problem_given_apply(fixed, &c.spec);
    return c;
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

struct case_spec *sharp_cases(int64_t *n)
{
    static const char *const heads[] = {"1/1", "2/1", "4/4", "8/2", "7/1", "6/2"};
    static const int32_t dim[] = {64, 128, 64, 80, 128};
    struct case_spec *out = xcalloc(N_SHARP + N_FILLS * N_DTYPES + N_LEN * N_PAGE, sizeof *out);
    *n = 0;
    for (int i = 0; i < N_SHARP; i++)
        add_sharp(out, n, xstrdup(sharp_text[i]));
    for (int f = 0; f < N_FILLS; f++)
        for (int t = 0; t < N_DTYPES; t++)
            add_sharp(out, n,
                      xasprintf("tree=levels:1,3,12_150,37,9;heads=4/2;d=%d;dtype=%s;page=16;fill=%s",
                                t % 2 ? 64 : 128, dtype_name[t], fill_name[f]));
    for (int i = 0; i < N_LEN * N_PAGE; i++) {
        int l = i / N_PAGE;
        add_sharp(out, n,
                  xasprintf("tree=levels:1,3,6_%d,%d,%d;heads=%s;d=%d;dtype=%s;page=%d;seed=%d", edge_len[l],
                            edge_len[(l + 5) % N_LEN], edge_len[(l + 9) % N_LEN], heads[i % 6], dim[i % 5],
                            dtype_name[i % N_DTYPES], edge_page[i % N_PAGE], i));
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

void census_add(struct census *c, const struct case_spec *x, const struct tree *t)
{
    const int64_t row[CENSUS_COLUMNS] = {CENSUS(VALUE)};
    c->row = xgrow(c->row, &c->cap, c->n + 1, sizeof *c->row);
    memcpy(c->row[c->n++], row, sizeof row);
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
