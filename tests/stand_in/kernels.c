/*
 * kernels.c - what the kernels compute, in plain C. It reads the arrays of launch.h as they are on the device, and nothing else
 * that items.c and calls.c know.
 *
 * Emulated   which CTA takes which item, and which of its teams which heads; rows, runs, pieces, pages, mask words; slots in fp32
 *            and fp16, with an LSE or with maximum and sum; merges; exact attention and data of the bench.
 *            Sums are in double, one token after the other. Results are rounded once.
 *            A launch is refused that needs more shared memory than a CTA has, or a kernel that the card does not have.
 * Not        tiles of tokens and the order of sums, probabilities in 16 bits, the L2, speed.
 */
#include "kernels/cuda/device/exact_launch.h"
#include "ref/rng.h"
#include "tests/stand_in/item.h"
#include "tests/stand_in/stand_in.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARP_ROWS = 16, SMEM_ROWS = 128, SMEM_TOKENS = 32, HOPPER = 90, BREAKING_TOKENS = 300 };

/* ---- an item ------------------------------------------------------------------------------------------------ */

struct place item_row(const struct cuda_group_args *a, const struct cuda_item *it, int32_t kv_head, int32_t r)
{
    int32_t row = it->row0 + r, query = row / a->gqa, k = query - it->row0 / a->gqa;
    return (struct place){.query = it->query_one >= 0 ? it->query_one + k : a->query[it->query0 + k],
                          .head = kv_head * a->gqa + row % a->gqa,
                          .k = k};
}

int64_t item_token(const struct cuda_group_args *a, const struct cuda_item *it, int32_t t, int32_t *run)
{
    int64_t at = it->base + t;
    *run = 0;
    if (it->n_runs > 1) {
        struct cuda_kv_run r = a->piece[it->piece0 + t / CUDA_PIECE];
        while (t >= r.end) {
            CK(r.run >= 0 && r.run + 1 < it->n_runs);
            r = a->run[it->run0 + r.run + 1];
        }
        at = r.base + t;
        *run = r.run;
    }
    return (int64_t)a->page_table[at / a->page_size] * a->page_size + at % a->page_size;
}

bool item_sees(const struct cuda_group_args *a, const struct cuda_item *it, int32_t k, int32_t run)
{
    return it->mask0 < 0 || stand_in_fault("mask") ||
           (a->mask[it->mask0 + (int64_t)run * it->mask_words + k / 32] >> k % 32 & 1);
}

/* Writes columns of a row, times a factor. */
static void store(enum dtype t, void *to, int64_t row, int32_t d, const double *o, double factor)
{
    for (int32_t c = 0; c < d; c++)
        dtype_store(t, to, row * d + c, o[c] * factor);
}

static double log2_of(const struct row *r)
{
    return r->sum == 0 ? -INFINITY : r->max + log2(r->sum);
}

/* In a slot with maximum and sum, the maximum is a whole number, and O and sum are relative to it. */
static void store_slot(void *slot_o, float *slot_w, int64_t row, bool f16, bool max_sum, int32_t d,
                       const struct row *r)
{
    double top = ceil(r->max), factor = max_sum ? exp2(r->max - top) : 1 / r->sum;
    if (r->sum == 0)
        factor = 0;
    store(f16 ? DT_F16 : DT_F32, slot_o, row, d, r->o, factor);
    if (max_sum) {
        slot_w[2 * row] = (float)top;
        slot_w[2 * row + 1] = (float)(r->sum * factor);
    } else {
        slot_w[row] = (float)log2_of(r);
    }
}

/* Adds what a slot has to a row. In the slot O is relative to its weight; the sum is 0 where it is empty. */
static void add_slot(struct row *all, const void *slot_o, const float *slot_w, int64_t row, bool f16,
                     bool max_sum, int32_t d)
{
    double weight = (double)slot_w[max_sum ? 2 * row : row];
    double its_sum = max_sum ? (double)slot_w[2 * row + 1] : weight > -INFINITY || isnan(weight);
    if (its_sum == 0)
        return;
    double top = fmax(all->max, weight), old = all->sum == 0 ? 0 : exp2(all->max - top),
           its = exp2(weight - top);
    all->max = top;
    all->sum = all->sum * old + its_sum * its;
    for (int32_t c = 0; c < d; c++)
        all->o[c] = all->o[c] * old + dtype_load(f16 ? DT_F16 : DT_F32, slot_o, row * d + c) * its;
}

static void store_out(enum dtype t, void *o, float *lse, int64_t row, int32_t d, const struct row *r)
{
    store(t, o, row, d, r->o, r->sum == 0 ? 0 : 1 / r->sum);
    lse[row] = (float)(log2_of(r) * M_LN2);
}

void item_store(const struct cuda_group_args *a, enum dtype t, int32_t d, const struct cuda_item *it,
                const struct place *p, const struct row *r)
{
    if (it->slot0 < 0)
        store_out(t, a->o, a->lse, p->query * a->h_q + p->head, d, r);
    else
        store_slot(a->slot_o, a->slot_w, (int64_t)(it->slot0 + p->k) * a->h_q + p->head, a->slot_f16,
                   a->slot_max_sum, d, r);
}

/* ---- groups ------------------------------------------------------------------------------------------------- */

struct group_work {
    struct cuda_group_args a;
    enum dtype t, kv; /* of Q and O; of K and V */
    int32_t d, m;
    int32_t teams; /* of a CTA of the group kernel; 0: the kernel takes one item and head a CTA */
    enum cuda_wide wide;
    int32_t meet; /* CTAs of a cluster, or 0 */
};

/* Tokens of an item as a KV head has them. */
struct tokens {
    float *k, *v; /* [n_kv][d] */
    int32_t *run;
};

static struct tokens load_tokens(const struct group_work *w, const struct cuda_item *it, int32_t head)
{
    const struct cuda_group_args *a = &w->a;
    size_t n = (size_t)it->n_kv * (size_t)w->d;
    struct tokens x = {xcalloc(n, sizeof *x.k), xcalloc(n, sizeof *x.v),
                       xcalloc((size_t)it->n_kv, sizeof *x.run)};
    if (stand_in_fault("lost") && it->n_kv > BREAKING_TOKENS)
        stand_in_break();
    for (int32_t t = 0; t < it->n_kv; t++) {
        int64_t from = (item_token(a, it, t, &x.run[t]) * a->h_kv + head) * w->d;
        dtype_to_float(w->kv, a->k, from, x.k + (int64_t)t * w->d, w->d);
        dtype_to_float(w->kv, a->v, from, x.v + (int64_t)t * w->d, w->d);
        for (int32_t c = 0; c < w->d && w->kv != w->t; c++) {
            x.k[(int64_t)t * w->d + c] *= a->fp8.k_scale[stand_in_fault("scale") ? 0 : head];
            x.v[(int64_t)t * w->d + c] *= a->fp8.v_scale[head];
        }
    }
    return x;
}

static void free_tokens(struct tokens *x)
{
    free(x->k);
    free(x->v);
    free(x->run);
}

/* Most of the time goes here. The arrays are the stand-in's own, so sanitizers need not watch them. */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

UNWATCHED double stand_in_dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

UNWATCHED static void add_weighted(double *to, double weight, const float *x, int32_t n)
{
#pragma omp simd
    for (int32_t i = 0; i < n; i++)
        to[i] += weight * (double)x[i];
}

/* Attention of a row over the tokens that it sees. A NaN never becomes the maximum. */
static void attend(const struct group_work *w, const struct cuda_item *it, const struct tokens *x,
                   const struct place *p, double *score, struct row *r)
{
    int32_t d = w->d;
    float q[MOST_D];
    *r = (struct row){.max = -INFINITY};
    dtype_to_float(w->t, w->a.q, (p->query * w->a.h_q + p->head) * d, q, d);
    for (int32_t t = 0; t < it->n_kv; t++) {
        if (!item_sees(&w->a, it, p->k, x->run[t])) {
            score[t] = -INFINITY;
            continue;
        }
        score[t] = stand_in_dot(q, x->k + (int64_t)t * d, d);
        if (w->a.cap_scale != 0 && !stand_in_fault("cap"))
            score[t] = tanh(score[t] * (double)w->a.cap_scale);
        score[t] *= (double)w->a.scale_log2;
        r->max = fmax(r->max, score[t]);
    }
    for (int32_t t = 0; t < it->n_kv; t++) {
        if (score[t] == -INFINITY)
            continue;
        double weight = exp2(score[t] - r->max);
        r->sum += weight;
        add_weighted(r->o, weight, x->v + (int64_t)t * d, d);
    }
}

/* Computes an item with tokens that were loaded for it, or for another item over the same tokens. */
static void run_rows(const struct group_work *w, int32_t item, int32_t head, const struct tokens *x)
{
    const struct cuda_item *it = w->a.item + item;
    double *score = xcalloc((size_t)it->n_kv, sizeof *score);
    for (int32_t r = 0; r < it->n_rows; r++) {
        struct place p = item_row(&w->a, it, head, r);
        struct row row;
        attend(w, it, x, &p, score, &row);
        item_store(&w->a, w->t, w->d, it, &p, &row);
    }
    free(score);
}

static void run_item(const struct group_work *w, int32_t item, int32_t head)
{
    CK(item < w->a.n_items && head < w->a.h_kv);
    if (stand_in_fault("item") && item == w->a.n_items - 1)
        return;
    struct tokens x = load_tokens(w, w->a.item + item, head);
    run_rows(w, item, head, &x);
    free_tokens(&x);
}

/* Where a CTA of the grid finds its items, counted as its kernel does, and its first head. */
struct cta_place {
    const struct cuda_segment *g;
    int32_t item, head_group;
};

static struct cta_place place_cta(const struct cuda_group_args *a, int32_t cta)
{
    int32_t s = 0;
    for (int32_t i = 1; i < CUDA_SEGMENTS; i++)
        s += cta >= a->segment[i].cta0;
    const struct cuda_segment *g = &a->segment[s];
    int32_t of_segment = cta - g->cta0;
    int32_t item = g->head_shift >= 0 ? of_segment >> g->head_shift : of_segment / g->head_groups;
    return (struct cta_place){
        .g = g, .item = g->item0 + item, .head_group = of_segment - item * g->head_groups};
}

/* The same in a cluster, whose CTAs have a head. */
static struct cta_place place_in_cluster(const struct group_work *w, int32_t cta)
{
    int32_t cluster = cta / w->meet, rows = cluster / w->a.h_kv;
    CK(w->a.n_ctas % w->meet == 0 && w->a.segment[1].cta0 == INT32_MAX);
    return (struct cta_place){
        .g = &w->a.segment[0], .item = rows * w->meet + cta % w->meet, .head_group = cluster % w->a.h_kv};
}

/* Is each run that a CTA reads seen by one of its rows? A single run need not be. */
static bool reads_what_it_sees(const struct cuda_group_args *a, const struct cuda_item *it, int32_t n_items)
{
    int32_t n_runs = it->n_runs > 1 ? it->n_runs : 0;
    for (int32_t r = 0; r < n_runs; r++) {
        uint32_t any = 0;
        for (int32_t i = 0; i < n_items; i++)
            for (int32_t w = 0; w < it[i].mask_words && it[i].n_rows > 0; w++)
                any |= it[i].mask0 < 0 ? 1 : a->mask[it[i].mask0 + (int64_t)r * it[i].mask_words + w];
        if (any == 0)
            return false;
    }
    return true;
}

/* A CTA of the group kernel: its item, with the heads of each of its teams. */
static void run_cta(const struct group_work *w, int32_t cta)
{
    const struct cuda_group_args *a = &w->a;
    struct cta_place at = place_cta(a, cta);
    const struct cuda_item *it = a->item + at.item;
    CK(it->n_rows <= w->m && it->mask_words <= ceil_div(w->m, 32) && (it->mask0 < 0 || a->masked));
    CK(min_i64(it->n_rows, WARP_ROWS) <= a->q_rows);
    CK(reads_what_it_sees(a, it, 1));
    if (!a->by_head) {
        run_item(w, at.item, at.head_group);
        return;
    }
    for (int32_t team = 0; team < w->teams; team++) {
        int32_t first = at.head_group * w->teams + team;
        for (int32_t i = 0; i < at.g->team_heads + (first < at.g->teams_more); i++)
            run_item(w, at.item, first + i * at.g->head_groups * w->teams);
    }
}

/* A CTA of the kernel of wide tiles: an item, or two, with some heads. The second has as many tokens as the first, or no rows. */
static void run_wide(const struct group_work *w, int32_t cta)
{
    const struct cuda_group_args *a = &w->a;
    struct cta_place at = w->meet > 0 ? place_in_cluster(w, cta) : place_cta(a, cta);
    int32_t each = w->wide == CUDA_WIDE_PAIRS ? 2 : 1, first = at.item * each, head = at.head_group;
    int32_t heads = w->meet > 0 ? 1 : at.g->team_heads + (at.head_group < at.g->teams_more);
    CK(first + each <= a->n_items && a->item[first].n_rows > 0);
    bool of_two_groups = each == 2 && a->item[first + 1].n_rows > 0 && a->item[first + 1].row0 == 0;
    CK(of_two_groups || reads_what_it_sees(a, &a->item[first], each));
    for (int32_t k = 0; k < heads; k++) {
        CK(head < a->h_kv && (k == 0 || w->wide == CUDA_WIDE_PAIRS));
        struct tokens x = load_tokens(w, &a->item[first], head);
        for (int32_t i = first; i < first + each; i++) {
            const struct cuda_item *it = &a->item[i];
            CK(it->n_rows == 0 || (it->n_rows <= CUDA_WIDE_ROWS && it->n_kv == a->item[first].n_kv));
            CK(it->n_rows == 0 || it->mask0 < 0 ||
               (it->mask_words <= ceil_div(CUDA_WIDE_ROWS, 32) && a->masked));
            if (it->n_rows > 0 && !(stand_in_fault("item") && i == a->n_items - 1))
                run_rows(w, i, head, &x);
        }
        free_tokens(&x);
        head += at.g->head_groups;
    }
}

/* Merges what the CTAs of a cluster, from this one on, have left in slots. */
static void merge_cluster(const struct group_work *w, int32_t cta)
{
    const struct cuda_group_args *a = &w->a;
    struct cta_place at = place_in_cluster(w, cta);
    int32_t each = w->wide == CUDA_WIDE_PAIRS ? 2 : 1, parts = w->meet - stand_in_fault("merge");
    for (int32_t t = 0; t < each; t++) {
        const struct cuda_item *it = &a->item[at.item * each + t];
        for (int32_t r = 0; r < it->n_rows; r++) {
            struct place p = item_row(a, it, at.head_group, r);
            struct row all = {.max = -INFINITY};
            for (int32_t j = 0; j < parts; j++) {
                const struct cuda_item *of = &it[j * each];
                CK(of->n_rows == it->n_rows && of->row0 == it->row0 && of->slot0 >= 0);
                add_slot(&all, a->slot_o, a->slot_w, (int64_t)(of->slot0 + p.k) * a->h_q + p.head,
                         a->slot_f16, a->slot_max_sum, w->d);
            }
            store_out(w->t, a->o, a->lse, p.query * a->h_q + p.head, w->d, &all);
        }
    }
}

static void run_group(const void *args)
{
    const struct group_work *w = args;
    int32_t ctas = w->wide || w->teams > 0 ? w->a.n_ctas : w->a.n_items * w->a.h_kv;
#pragma omp parallel for schedule(dynamic, 1)
    for (int32_t i = 0; i < ctas; i++) {
        if (w->wide)
            run_wide(w, i);
        else if (w->teams > 0)
            run_cta(w, i);
        else
            run_item(w, i / w->a.h_kv, i % w->a.h_kv);
    }
    for (int32_t i = 0; w->meet > 0 && i < ctas; i += w->meet)
        merge_cluster(w, i);
}

/* A tile of shapes.def, wgmma_shapes.def, shapes_256.def, shapes_cap.def or shapes_fp8.def. */
struct tile {
    int32_t m, n, rows, teams, chunk, stages; /* rows: warps of a team; chunk: tokens of a team's step */
};
enum tile_set { TILES, TILES_WGMMA, TILES_256, TILES_CAP, TILES_FP8, TILE_SETS };
static const struct tile tiles[TILE_SETS][16] = {
    {
#define SHAPE(M, N, WM, WN, NC, STAGES, RESIDENT) {M, N, WM, WN, NC, STAGES},
#include "kernels/cuda/device/shapes.def"
    },
    {
#include "kernels/cuda/device/wgmma_shapes.def"
    },
    {
#include "kernels/cuda/device/shapes_256.def"
    },
    {
#include "kernels/cuda/device/shapes_cap.def"
    },
    {
#include "kernels/cuda/device/shapes_fp8.def"
#undef SHAPE
    },
};

static const struct tile *tile_of(enum tile_set set, int32_t m, int32_t n)
{
    const struct tile *t = tiles[set];
    while (t->m != 0 && (t->m != m || t->n != n))
        t++;
    CK(t->m == m);
    return t;
}

/* Shared memory as 3_group.cuh lays it out: the ring of K and V, a row of zeros, mask words, Q, which a team that has it for itself
 * has twice if it does not fit registers. */
static int32_t smem_of(const struct tile *t, int32_t d, bool fp8, bool masked, bool q_shared, int32_t q_rows)
{
    int32_t row = 2 * d, ring = t->stages * t->teams * 2 * t->chunk * row / (fp8 ? 2 : 1),
            line = row > 256 ? row : 256;
    int64_t words = (int64_t)t->stages * t->n * ceil_div(t->m, 32);
    return ring + line + (masked ? (int32_t)ceil_div(words * 4, line) * line : 0) +
           t->rows * (q_shared ? 1 : t->teams * (d > 128 ? 2 : 1)) * q_rows * row;
}

/* The type of K and V beside Q of type t. */
static enum dtype kv_of(const struct cuda_group_args *a, enum dtype t, bool fp8)
{
    return !fp8 ? t : a->fp8.e5m2 ? DT_E5M2 : DT_E4M3;
}

/* kind: the enum cuda_half of Q, K, V and O; of TILES_FP8 whether K and V are e5m2, and then Q and O are as the launch says. */
static int launch_group(int kind, int32_t d, enum tile_set set, int32_t m, int32_t n,
                        const struct cuda_group_args *a, bool early, void *stream)
{
    const struct stand_in_card *card = stand_in_card();
    const struct tile *t = tile_of(set, m, n);
    struct group_work w = {
        .a = *a, .t = kind == CUDA_F16 ? DT_F16 : DT_BF16, .d = d, .m = m, .teams = t->teams};
    CK(a->cap_scale == 0 || set == TILES_256 || set == TILES_CAP || set == TILES_FP8);
    if (set == TILES_FP8) {
        CK(kind == a->fp8.e5m2);
        w.t = a->fp8.bf16 ? DT_BF16 : DT_F16;
    }
    w.kv = kv_of(a, w.t, set == TILES_FP8);
    if ((set == TILES_WGMMA && card->arch != HOPPER) || (early && card->arch < HOPPER))
        return stand_in_fail(cudaErrorNoKernelImageForDevice);
    if (a->n_ctas <= 0 ||
        smem_of(t, d, set == TILES_FP8, a->masked, a->q_shared, a->q_rows) > card->smem_per_cta)
        return stand_in_fail(cudaErrorInvalidValue);
    /* Each type, head size and tile is a kernel of its own. */
    static const char kernel[2][2][TILE_SETS][16];
    return stand_in_launch("group kernel", &kernel[kind][d == 128][set][t - tiles[set]], run_group, &w,
                           sizeof w, early && a->beside, stream);
}

/* The functions that group_dispatch.c calls for a type and a head size. */
#define GROUP(NAME, KIND, D, SET)                                                                            \
    int cuda_prepare_##NAME(int32_t m, int32_t n);                                                           \
    int cuda_smem_##NAME(int32_t m, int32_t n, int32_t masked, int32_t q_shared, int32_t q_rows);            \
    int cuda_group_##NAME(int32_t m, int32_t n, const struct cuda_group_args *a, int early, void *stream);   \
    int cuda_prepare_##NAME(int32_t m, int32_t n)                                                            \
    {                                                                                                        \
        tile_of(SET, m, n);                                                                                  \
        return stand_in_call("preparation of a group kernel");                                               \
    }                                                                                                        \
    int cuda_smem_##NAME(int32_t m, int32_t n, int32_t masked, int32_t q_shared, int32_t q_rows)             \
    {                                                                                                        \
        return smem_of(tile_of(SET, m, n), D, SET == TILES_FP8, masked, q_shared, q_rows);                   \
    }                                                                                                        \
    int cuda_group_##NAME(int32_t m, int32_t n, const struct cuda_group_args *a, int early, void *stream)    \
    {                                                                                                        \
        return launch_group(KIND, D, SET, m, n, a, early, stream);                                           \
    }
GROUP(f16_64, CUDA_F16, 64, TILES)
GROUP(f16_128, CUDA_F16, 128, TILES)
GROUP(bf16_64, CUDA_BF16, 64, TILES)
GROUP(bf16_128, CUDA_BF16, 128, TILES)
GROUP(wgmma_f16_64, CUDA_F16, 64, TILES_WGMMA)
GROUP(wgmma_f16_128, CUDA_F16, 128, TILES_WGMMA)
GROUP(wgmma_bf16_64, CUDA_BF16, 64, TILES_WGMMA)
GROUP(wgmma_bf16_128, CUDA_BF16, 128, TILES_WGMMA)
GROUP(f16_256, CUDA_F16, 256, TILES_256)
GROUP(bf16_256, CUDA_BF16, 256, TILES_256)
GROUP(cap_f16_64, CUDA_F16, 64, TILES_CAP)
GROUP(cap_f16_128, CUDA_F16, 128, TILES_CAP)
GROUP(cap_bf16_64, CUDA_BF16, 64, TILES_CAP)
GROUP(cap_bf16_128, CUDA_BF16, 128, TILES_CAP)
GROUP(fp8_e4m3_64, 0, 64, TILES_FP8)
GROUP(fp8_e4m3_128, 0, 128, TILES_FP8)
GROUP(fp8_e5m2_64, 1, 64, TILES_FP8)
GROUP(fp8_e5m2_128, 1, 128, TILES_FP8)

/* Shared memory as 4_wide.cuh lays it out: Q of a tile or two, and as many stages as there is room for. A stage has 64 tokens
 * and two barriers, and with masks the words of each token and four runs. Teams of one tile have the same number of stages each.
 * Of K and V in 8 bits there are four stages, and room for two chunks in 8 bits. */
static int32_t wide_smem(const struct cuda_shape *s, bool masked, bool q_shared, int32_t q_rows)
{
    (void)q_shared, (void)q_rows;
    int32_t teams = s->wide == CUDA_WIDE_SHARED ? 2 : 1, q_tiles = 2 / teams, row = 2 * s->d;
    int32_t q = q_tiles * CUDA_WIDE_ROWS * row + 8,
            mask = masked ? CUDA_WIDE_STEP * q_tiles * 2 * 4 + 4 * 4 : 0,
            stage = CUDA_WIDE_STEP * 2 * row + mask + 2 * 8;
    if (s->fp8)
        return q + 4 * stage + 2 * CUDA_WIDE_STEP * row;
    return q + (227 * 1024 - q) / stage / teams * teams * stage;
}

static int wide_prepare(const struct cuda_shape *s)
{
    CK(s->wide != CUDA_WIDE_NOT);
    return stand_in_call("preparation of the kernel of wide tiles");
}

static int wide_launch(const struct cuda_shape *s, const struct cuda_group_args *a, int early, void *stream)
{
    const struct stand_in_card *card = stand_in_card();
    struct group_work w = {
        .a = *a, .t = s->t == CUDA_F16 ? DT_F16 : DT_BF16, .d = s->d, .wide = (enum cuda_wide)s->wide};
    CK(a->cap_scale == 0);
    w.kv = kv_of(a, w.t, s->fp8);
    w.meet = s->meet;
    if (card->arch != HOPPER)
        return stand_in_fail(cudaErrorNoKernelImageForDevice);
    if (a->n_ctas <= 0 || s->meet > CUDA_MEET_MOST || wide_smem(s, a->masked, false, 0) > card->smem_per_cta)
        return stand_in_fail(cudaErrorInvalidValue);
    static const char kernel[2][2][3][2];
    return stand_in_launch("kernel of wide tiles", &kernel[w.t == DT_F16][s->d == 128][s->wide][s->meet > 0],
                           run_group, &w, sizeof w, early && a->beside, stream);
}

/* Clusters as a card of GPCs of 16 SMs has them. Asked once, so it is no call that may fail. */
int cuda_wide_clusters(int ctas, int *clusters)
{
    *clusters = 16 / ctas * (stand_in_card()->sms / 16);
    return cudaSuccess;
}

/* The earlier rungs, and any other kernel whose CTAs have one size. They differ in shared memory only. */
static int32_t rung_smem(enum cuda_kernel kernel, const struct cuda_shape *s)
{
    /* K, V, O, Q, maximum and sum, as 2_smem.cu has them */
    return kernel != CUDA_SMEM ? 0
                               : 4 * (2 * SMEM_TOKENS * (s->d / 2 + 1) + SMEM_ROWS * s->d +
                                      SMEM_ROWS * s->d / 2 + 2 * SMEM_ROWS);
}

static int rung_launch(enum cuda_kernel kernel, const char *name, const struct cuda_shape *s,
                       const struct cuda_group_args *a, void *stream)
{
    struct group_work w = {.a = *a, .t = s->t == CUDA_F16 ? DT_F16 : DT_BF16, .d = s->d};
    w.kv = kv_of(a, w.t, s->fp8);
    if (rung_smem(kernel, s) > stand_in_card()->smem_per_cta)
        return stand_in_fail(cudaErrorInvalidValue);
    return stand_in_launch(name, name, run_group, &w, sizeof w, false, stream);
}

#define KERNEL(id, symbol, name, narrow, about)                                                              \
    static int32_t symbol##_rung_smem(const struct cuda_shape *s, bool masked, bool q_shared,                \
                                      int32_t q_rows)                                                        \
    {                                                                                                        \
        (void)masked, (void)q_shared, (void)q_rows;                                                          \
        return rung_smem(CUDA_##id, s);                                                                      \
    }                                                                                                        \
    static int symbol##_rung_launch(const struct cuda_shape *s, const struct cuda_group_args *a, int early,  \
                                    void *stream)                                                            \
    {                                                                                                        \
        (void)early;                                                                                         \
        return rung_launch(CUDA_##id, name, s, a, stream);                                                   \
    }
#include "kernels/cuda/device/kernels.def"
#undef KERNEL

/* Replaces the function of device/kernels.c. */
const struct cuda_launcher *cuda_launcher_of(enum cuda_kernel kernel)
{
    static const struct cuda_launcher wide = {wide_prepare, wide_smem, wide_launch}, rung[] = {
#define KERNEL(id, symbol, name, narrow, about) {.smem = symbol##_rung_smem, .launch = symbol##_rung_launch},
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
                                                                                     };
    return kernel == CUDA_GROUP ? &cuda_launcher_group : kernel == CUDA_WIDE ? &wide : &rung[kernel];
}

/* ---- merges ------------------------------------------------------------------------------------------------- */

struct merge_work {
    struct cuda_merge_args a;
    enum dtype t;
    int32_t d;
};

static void run_merge_row(const struct merge_work *w, const struct cuda_merge_step *s, int32_t head)
{
    const struct cuda_merge_args *a = &w->a;
    struct row all = {.max = -INFINITY};
    for (int32_t i = 0; i < s->n_in - (stand_in_fault("merge") && s->n_in > 1); i++)
        add_slot(&all, a->slot_o, a->slot_w, (int64_t)a->merge_in[s->in0 + i] * a->h_q + head, a->slot_f16,
                 a->slot_max_sum, w->d);
    if (s->out < 0)
        store_out(w->t, a->o, a->lse, (int64_t)s->query * a->h_q + head, w->d, &all);
    else
        store_slot(a->slot_o, a->slot_w, (int64_t)s->out * a->h_q + head, a->slot_f16, a->slot_max_sum, w->d,
                   &all);
}

static void run_merge(const void *args)
{
    const struct merge_work *w = args;
#pragma omp parallel for
    for (int64_t i = 0; i < w->a.n_steps; i++)
        for (int32_t h = 0; h < w->a.h_q; h++)
            run_merge_row(w, &w->a.step[i], h);
}

int cuda_launch_merge(const struct cuda_shape *s, const struct cuda_merge_args *a, int early, void *stream)
{
    struct merge_work w = {.a = *a, .t = s->t == CUDA_F16 ? DT_F16 : DT_BF16, .d = s->d};
    if (early && stand_in_card()->arch < HOPPER)
        return stand_in_fail(cudaErrorNoKernelImageForDevice);
    return stand_in_launch("merge kernel", cuda_launch_merge, run_merge, &w, sizeof w, false, stream);
}

static void run_sinks(const void *args)
{
    const struct cuda_sink_args *a = args;
    for (int32_t h = 0; h < a->h_q; h++) {
        int64_t row = a->slot * a->h_q + h;
        double weight = stand_in_fault("sink") ? -INFINITY : (double)a->sink[h] * M_LOG2E;
        dtype_fill(a->slot_f16 ? DT_F16 : DT_F32, (char *)a->slot_o + row * a->d * (a->slot_f16 ? 2 : 4),
                   a->d, 0);
        a->slot_w[a->slot_max_sum ? 2 * row : row] = (float)weight;
        if (a->slot_max_sum)
            a->slot_w[2 * row + 1] = weight > -INFINITY;
    }
}

int cuda_launch_sinks(const struct cuda_sink_args *a, void *stream)
{
    return stand_in_launch("kernel for sinks", cuda_launch_sinks, run_sinks, a, sizeof *a, false, stream);
}

/* ---- of the bench ------------------------------------------------------------------------------------------- */

static void run_nothing(const void *args)
{
    (void)args;
}

int cuda_launch_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream)
{
    CK(stand_in_on_device(dev, bytes) && stand_in_on_device(scratch_64k, 1 << 16));
    return stand_in_launch("read kernel", cuda_launch_read, run_nothing, &way, sizeof way, false, stream);
}

struct random_work {
    int64_t n;
    void *to;
    uint64_t seed, series;
    enum dtype t;
};

static void run_random(const void *args)
{
    const struct random_work *w = args;
    double times = w->t == DT_E4M3 || w->t == DT_E5M2 ? CUDA_RANDOM_FP8 : 1;
    for (int64_t i = 0; i < w->n; i++)
        dtype_store(w->t, w->to, i, times * rng_bell(w->seed, w->series, (uint64_t)i));
}

static enum dtype type_of(enum cuda_stored t)
{
    static const enum dtype of[] = {DT_F16, DT_BF16, DT_E4M3, DT_E5M2};
    return of[t];
}

int cuda_launch_random(enum cuda_stored t, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream)
{
    struct random_work w = {.n = n, .to = dev, .seed = seed, .series = series, .t = type_of(t)};
    CK(stand_in_on_device(dev, dtype_size[w.t] * n));
    return stand_in_launch("random data", cuda_launch_random, run_random, &w, sizeof w, false, stream);
}

struct same_work {
    const void *a, *b;
    int64_t bytes;
    int32_t *flag;
};

static void run_same(const void *args)
{
    const struct same_work *w = args;
    if (memcmp(w->a, w->b, (size_t)w->bytes) != 0)
        *w->flag = 1;
}

int cuda_launch_same(const void *a, const void *b, int64_t bytes, int32_t *flag, void *stream)
{
    struct same_work w = {a, b, bytes, flag};
    return stand_in_launch("comparison", cuda_launch_same, run_same, &w, sizeof w, false, stream);
}

struct truth_work {
    struct cuda_truth_args a;
    enum dtype t, kv;
    int32_t d;
};

static void run_truth(const void *args)
{
    const struct truth_work *w = args;
    const struct cuda_truth_args *a = &w->a;
    int32_t d = w->d;
    for (int64_t row = 0; row < (int64_t)a->n_queries * a->h_q; row++) {
        int64_t query = row / a->h_q, kv_head = row % a->h_q / (a->h_q / a->h_kv);
        double q[MOST_D], k[MOST_D], v[MOST_D], o[MOST_D] = {0}, abs_o[MOST_D] = {0}, sq_o[MOST_D] = {0};
        double max = -INFINITY, sum = 0, logit = 0, abs_dot = 0;
        dtype_to_double(w->t, a->q, row * d, q, d);
        for (int64_t t = a->first[query]; t < a->first[query + 1]; t++) {
            int64_t from = ((int64_t)a->slot[t] * a->h_kv + kv_head) * d;
            double dot = 0, mag = 0;
            dtype_to_double(w->kv, a->k, from, k, d);
            dtype_to_double(w->kv, a->v, from, v, d);
            for (int32_t c = 0; c < d; c++) {
                k[c] *= w->kv == w->t ? 1 : (double)a->k_scale[kv_head];
                v[c] *= w->kv == w->t ? 1 : (double)a->v_scale[kv_head];
                dot += q[c] * k[c];
                mag += fabs(q[c] * k[c]);
            }
            dot *= a->scale;
            logit = fmax(logit, fabs(dot));
            abs_dot = fmax(abs_dot, a->scale * mag);
            double top = fmax(max, dot), old = exp(max - top), weight = exp(dot - top);
            max = top;
            sum = sum * old + weight;
            for (int32_t c = 0; c < d; c++) {
                o[c] = o[c] * old + weight * v[c];
                abs_o[c] = abs_o[c] * old + fabs(weight * v[c]);
                sq_o[c] = sq_o[c] * old * old + weight * v[c] * weight * v[c];
            }
        }
        for (int32_t c = 0; c < d; c++) {
            a->o[row * d + c] = sum > 0 ? o[c] / sum : 0;
            a->abs_o[row * d + c] = sum > 0 ? abs_o[c] / sum : 0;
            a->rms_o[row * d + c] = sum > 0 ? sqrt(sq_o[c]) / sum : 0;
        }
        a->lse[row] = max + log(sum);
        a->logit[row] = logit;
        a->abs_dot[row] = abs_dot;
    }
}

int cuda_launch_truth(enum cuda_stored t, enum cuda_stored kv, int32_t d, const struct cuda_truth_args *a,
                      void *stream)
{
    struct truth_work w = {.a = *a, .t = type_of(t), .kv = type_of(kv), .d = d};
    return stand_in_launch("exact attention", cuda_launch_truth, run_truth, &w, sizeof w, false, stream);
}
