/*
 * attn_body.h - one work item, one merge step; included by attn_f32.c and attn_f64.c, which define `real`.
 *
 * Fused item: FlashAttention's loop. For each KV tile S = scale Q K^T, masked pairs to -inf, the running
 * maximum m and sum l of each row move on, and O is rescaled before P V is added; at the end O / l and
 * m + ln l leave, to a slot, to the output, or on chip to a merge step of the same launch. Unfused item: the
 * same attention as a chain of kernels with every intermediate matrix in memory.
 *
 * A row without a visible token keeps m = -inf, l = 0 and leaves as the empty partial (0, -inf). A NaN score
 * fails every comparison, so it never becomes the maximum, but its exp is NaN, so l, O and LSE of the row are
 * NaN.
 *
 * DEVIATION: between merges the LSE of a slot (or its maximum and sum) is a double, counted as the format
 * says. A float LSE of 14 has steps of 1e-6: rounded at each of the 60 levels of a deep cascade it alone
 * spends the error that a whole attention in fp32 is allowed.
 *
 * DEVIATION: unfused scores are kept in `real`, not in the storage type, so that the plan is judged and not a
 * half's range; they are counted as stored elements (2 bytes for half and bfloat16).
 */

/* Below this many rows the library's packing costs more than the product itself. Measured on one core with
 * d = 128 and 128 tokens, in GFLOP/s: library 8, 19, 21, 38, 106 at 1, 2, 3, 4, 64 rows, the loops here 17,
 * 41, 47 at 1, 2, 3. */
#define GEMM_MIN_ROWS 4
#define GEMM_MIN_SCORES 32

/* Q K^T is summed over at most this many dimensions at a time, as matrix units do. The library adds term
 * after term: at d = 128 a logit of 13 in float was off by up to 1e-5, where its last place is 1e-6, and O
 * with it; in stretches of 16 by 2e-6, for 3 to 6 % of the time of a tile. */
#define QK_DEPTH 16

/* And so are partial results: equal ones round alike, so that 500 added in order are off by 40 units in the last place. */
#define MERGE_DEPTH 16

/* Weights, and with them V, are summed over at most this many tokens at a time: equal ones, added one by one to a long sum,
 * all round the same way. A row of 4,400 tokens whose sum the compiler had not split among vector lanes was off by 1.2e-5. */
#define SUM_BLOCK 256

/* Scratch with its real type. */
struct tile {
    const struct attn *a;
    const struct item *it;
    struct ledger *ledger;
    int32_t d, d_v;
    int64_t rows;      /* of the item */
    real *q, *s, *acc; /* [rows][d], [rows][ld_s], [rows][d_v] */
    real *part, *lost; /* as in struct scratch */
    int64_t ld_s;
    real *max, *sum;  /* [rows] */
    uint8_t *visible; /* [queries][cols] of the current KV tile */
    struct segment *seg;
    real *k_buf, *v_buf; /* [cols][d] */
};

/* Tokens of one KV tile, rows of d with distance ld: gathered, or in the pool itself. */
struct kv_rows {
    const real *at;
    int64_t ld;
};

/* ---- products ---------------------------------------------------------------------------------------- */

/* s[rows][cols] = scale * q k^T */
static void product_qk(const struct tile *t, struct kv_rows k, int64_t cols, real scale, real *s)
{
    int32_t d = t->d;
    if (t->rows >= GEMM_MIN_ROWS && t->rows * cols >= GEMM_MIN_SCORES) {
        for (int32_t i = 0; i < d; i += QK_DEPTH)
            gemm(CblasTrans, t->rows, cols, min_i64(QK_DEPTH, d - i), scale, t->q + i, d, k.at + i, k.ld,
                 i > 0 ? 1 : 0, s, t->ld_s);
        return;
    }
    int64_t j = 0;
    for (; j + 4 <= cols; j += 4) {
        const real *k0 = k.at + j * k.ld, *k1 = k0 + k.ld, *k2 = k1 + k.ld, *k3 = k2 + k.ld;
        for (int64_t row = 0; row < t->rows; row++) {
            const real *q = t->q + row * d;
            real s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
            for (int32_t i = 0; i < d; i++) {
                s0 += q[i] * k0[i];
                s1 += q[i] * k1[i];
                s2 += q[i] * k2[i];
                s3 += q[i] * k3[i];
            }
            real *to = s + row * t->ld_s + j;
            to[0] = scale * s0;
            to[1] = scale * s1;
            to[2] = scale * s2;
            to[3] = scale * s3;
        }
    }
    for (; j < cols; j++) {
        const real *kj = k.at + j * k.ld;
        for (int64_t row = 0; row < t->rows; row++) {
            const real *q = t->q + row * d;
            real dot = 0;
#pragma omp simd reduction(+ : dot)
            for (int32_t i = 0; i < d; i++)
                dot += q[i] * kj[i];
            s[row * t->ld_s + j] = scale * dot;
        }
    }
}

/* What a product of Q and stored K is multiplied by. */
static real logit_scale(const struct tile *t)
{
    return (real)(t->a->p->scale * problem_k_scale(t->a->p, t->it->kv_head));
}

/* The soft cap, over n scores. */
static void cap_scores(const struct problem *p, real *s, int64_t n)
{
    const real cap = (real)p->soft_cap;
    for (int64_t i = 0; i < n && cap > 0; i++)
        s[i] = cap * real_tanh(s[i] / cap);
}

/* to[rows][d_v] += s v, or = s v for the first tile of a row's tokens */
static void product_pv(const struct tile *t, struct kv_rows v, int64_t cols, const real *s, real *to,
                       bool first)
{
    int32_t d = t->d_v;
    if (t->rows >= GEMM_MIN_ROWS && t->rows * cols >= GEMM_MIN_SCORES) {
        gemm(CblasNoTrans, t->rows, d, cols, 1, s, t->ld_s, v.at, v.ld, first ? 0 : 1, to, d);
        return;
    }
    if (first)
        memset(to, 0, (size_t)(t->rows * d) * sizeof *to);
    for (int64_t row = 0; row < t->rows; row++) {
        const real *p = s + row * t->ld_s;
        for (int64_t j0 = 0; j0 < cols; j0 += SUM_BLOCK) {
            real part[PROBLEM_MAX_ROW] = {0};
            int64_t j = j0, j1 = min_i64(cols, j0 + SUM_BLOCK);
            for (; j + 4 <= j1; j += 4) {
                const real *v0 = v.at + j * v.ld, *v1 = v0 + v.ld, *v2 = v1 + v.ld, *v3 = v2 + v.ld;
                real p0 = p[j], p1 = p[j + 1], p2 = p[j + 2], p3 = p[j + 3];
#pragma omp simd
                for (int32_t i = 0; i < d; i++)
                    part[i] += real_fma(p1, v1[i], p0 * v0[i]) + real_fma(p3, v3[i], p2 * v2[i]);
            }
            for (; j < j1; j++) {
                const real *vj = v.at + j * v.ld;
#pragma omp simd
                for (int32_t i = 0; i < d; i++)
                    part[i] = real_fma(p[j], vj[i], part[i]);
            }
            real *acc = to + row * d;
            for (int32_t i = 0; i < d; i++)
                acc[i] += part[i];
        }
    }
}

/* acc += part, with what the additions before lost (Kahan 1965). Weights that were divided by their sum are no whole numbers:
 * equal ones of 150,000 tokens, added step after step, were off by more than the bound. */
static void add_part(const struct tile *t, bool first)
{
    int64_t n = t->rows * t->d_v;
    for (int64_t i = 0; i < n; i++) {
        real x = t->part[i] - (first ? 0 : t->lost[i]), old = first ? 0 : t->acc[i], sum = old + x;
        t->lost[i] = (sum - old) - x;
        t->acc[i] = sum;
    }
}

/* ---- softmax ----------------------------------------------------------------------------------------- */

/* Largest of the numbers in s[n], -inf if there is none; NaN is passed over (its exp will tell). In
 * independent lanes, which is how the loop becomes vector code without permission to reorder comparisons. */
static real row_max(const real *s, int64_t n)
{
    enum { LANES = 16 };
    real lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = -INFINITY;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] = s[j + i] > lane[i] ? s[j + i] : lane[i];
    for (; j < n; j++)
        lane[0] = s[j] > lane[0] ? s[j] : lane[0];
    real best = lane[0];
    for (int i = 1; i < LANES; i++)
        best = lane[i] > best ? lane[i] : best;
    return best;
}

/* s becomes exp(s - m) for the new running maximum m, which with the sum moves on; returns the factor by
 * which what was summed before has to shrink. */
static real softmax_row(real *s, int64_t n, real *max, real *sum)
{
    real best = row_max(s, n);
    real m = best > *max ? best : *max;
    real shift = m == -INFINITY ? 0 : m; /* nothing visible yet: exp(-inf - 0) = 0 instead of NaN */
    real total = 0;
    for (int64_t j0 = 0; j0 < n; j0 += SUM_BLOCK) {
        int64_t j1 = min_i64(n, j0 + SUM_BLOCK);
        real part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t j = j0; j < j1; j++) {
            s[j] = real_exp(s[j] - shift);
            part += s[j];
        }
        total += part;
    }
    real shrink = real_exp(*max - shift);
    *sum = *sum * shrink + total;
    *max = m;
    return shrink;
}

static void hide_row(real *s, const uint8_t *visible, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        s[j] = visible[j] ? s[j] : -INFINITY;
}

/* ---- loads -------------------------------------------------------------------------------------------- */

static struct tile tile_open(const struct attn *a, const struct item *it, struct scratch *sc)
{
    return (struct tile){.a = a,
                         .it = it,
                         .ledger = &sc->ledger,
                         .d = a->p->heads.d,
                         .d_v = heads_d_v(&a->p->heads),
                         .rows = it->row1 - it->row0,
                         .q = sc->q,
                         .s = sc->s,
                         .acc = sc->acc,
                         .part = sc->part,
                         .lost = sc->lost,
                         .max = sc->max,
                         .sum = sc->sum,
                         .visible = sc->visible,
                         .seg = sc->seg,
                         .k_buf = sc->k,
                         .v_buf = sc->v};
}

/* Query (normal form) and head of a row of the item's group. */
static int32_t row_query(const struct tile *t, int64_t row)
{
    return t->a->query[t->a->query_at[t->it->group] + row / t->a->gqa];
}
static int32_t row_head(const struct tile *t, int64_t row)
{
    return t->it->kv_head * t->a->gqa + (int32_t)(row % t->a->gqa);
}

static void load_q(struct tile *t)
{
    const struct problem *p = t->a->p;
    for (int64_t i = 0; i < t->rows; i++) {
        int64_t orig = t->a->plan->nf->orig[row_query(t, t->it->row0 + i)];
        int64_t row = orig * p->heads.h_q + row_head(t, t->it->row0 + i);
        load_elements(p->heads.dtype, p->q, row * t->d, t->q + i * t->d, t->d);
        t->max[i] = -INFINITY;
        t->sum[i] = 0;
    }
    t->ledger->q += t->rows * t->d * t->a->elt_bytes;
    t->ledger->pad_rows += t->it->g->tile_m ? t->it->g->tile_m - t->rows : 0;
}

/* K or V of the tile's segments, without their scales: in place when they are one stretch of numbers of our type, else gathered. */
static struct kv_rows load_kv(struct tile *t, const void *pool, int32_t d, int64_t n_seg, int64_t cols, real *buf)
{
    const struct problem *p = t->a->p;
    enum dtype type = heads_kv_dtype(&p->heads);
    int64_t ld = (int64_t)p->heads.h_kv * t->d, head = (int64_t)t->it->kv_head * t->d;
    /* A whole tile is one read of K and V, however many blocks of rows the library makes of it. */
    t->ledger->kv += t->it->first ? cols * d * t->a->kv_bytes : 0;
    if (n_seg == 1 && type == real_dtype)
        return (struct kv_rows){.at = (const real *)pool + t->seg[0].slot * ld + head, .ld = ld};
    real *to = buf;
    for (int64_t i = 0; i < n_seg; i++) {
        int64_t from = t->seg[i].slot * ld + head, n = t->seg[i].n;
        if (p->heads.h_kv == 1) {
            load_elements(type, pool, from, to, n * t->d);
        } else {
            for (int64_t j = 0; j < n; j++)
                load_elements(type, pool, from + j * ld, to + j * t->d, t->d);
        }
        to += n * t->d;
    }
    return (struct kv_rows){.at = buf, .ld = t->d};
}

/* The group's mask for the tile, applied to its scores; returns how many of the pairs are visible. */
static int64_t apply_mask(struct tile *t, struct cursor *c, int64_t t0, int64_t t1, real *s)
{
    const struct attn *a = t->a;
    const struct item *it = t->it;
    int64_t cols = t1 - t0, n_visible = 0;
    int32_t k0 = (int32_t)(it->row0 / a->gqa), k1 = (int32_t)ceil_div(it->row1, a->gqa);
    int64_t bytes = mask_read(it->g, a->mask + a->mask_at[it->group], c, k0, k1, t0, t1, t->visible, cols);
    /* Words over queries serve the whole Q tile; the two per-query forms belong to the block's own queries.
     */
    bool per_query = it->g->mask == MASK_QUERY_WORDS || it->g->mask == MASK_DENSE;
    t->ledger->mask += it->first || per_query ? bytes : 0;
    for (int64_t i = 0; i < t->rows; i++) {
        const uint8_t *visible = t->visible + ((it->row0 + i) / a->gqa - k0) * cols;
        hide_row(s + i * t->ld_s, visible, cols);
        for (int64_t j = 0; j < cols; j++)
            n_visible += visible[j];
    }
    return n_visible;
}

/* Multiply-adds (d for QK^T and d_v for PV a pair) and padding of one KV tile. */
static void count_tile(struct tile *t, int64_t cols, int64_t n_visible)
{
    const struct group *g = t->it->g;
    int64_t pairs = t->rows * cols, per_pair = (int64_t)t->d + t->d_v;
    int64_t full = (g->tile_m ? g->tile_m : t->rows) * (g->tile_n ? g->tile_n : cols);
    t->ledger->mac_useful += n_visible * per_pair;
    t->ledger->mac_masked += (pairs - n_visible) * per_pair;
    t->ledger->mac_padded += (full - pairs) * per_pair;
    t->ledger->pad_tokens += t->it->first && g->tile_n ? g->tile_n - cols : 0;
}

/* ---- stores ------------------------------------------------------------------------------------------- */

/* o[d] = from[d] / sum, d of V; sum = 0 means that nothing was visible. */
static void normalise(real *o, const real *from, real sum, int32_t d)
{
    for (int32_t i = 0; i < d; i++)
        o[i] = sum == 0 ? 0 : from[i] / sum;
}

static double row_lse(double max, real sum)
{
    return sum == 0 ? -INFINITY : max + log((double)sum);
}

/* The row's sink as one more token of V = 0: what the sum and O shrink by is returned. */
static real add_sink(const struct problem *p, int32_t head, double *max, real *sum)
{
    double sink = problem_sink(p, head), top = sink > *max ? sink : *max;
    if (sink == -INFINITY)
        return 1;
    real shrink = *sum == 0 ? 0 : real_exp((real)(*max - top));
    *sum = *sum * shrink + real_exp((real)(sink - top));
    *max = top;
    return shrink;
}

/* O and LSE of a row into the output; o is not normalised. */
static void store_output(const struct attn *a, struct ledger *ledger, int32_t query, int32_t head,
                         const real *o, double max, real sum)
{
    const struct problem *p = a->p;
    real done[PROBLEM_MAX_ROW] = {0};
    int64_t row = (int64_t)a->plan->nf->orig[query] * p->heads.h_q + head;
    real shrink = add_sink(p, head, &max, &sum);
    int32_t d = heads_d_v(&p->heads);
    normalise(done, o, sum, d);
    for (int32_t i = 0; i < d && shrink != 1; i++)
        done[i] = shrink == 0 ? 0 : done[i] * shrink;
    store_elements(p->heads.dtype, a->out->o, row * d, done, d);
    ((real *)a->out->lse)[row] = (real)row_lse(max, sum);
    ledger->out += (int64_t)d * a->elt_bytes + a->word_bytes;
}

/* The same into a slot, in the plan's slot format, or into the row of an on-chip slot as it is. */
static void store_slot(const struct attn *a, struct ledger *ledger, int64_t slot, int32_t head, const real *o,
                       double max, real sum)
{
    int32_t h_q = a->p->heads.h_q, d = heads_d_v(&a->p->heads);
    if (a->chip_of && a->chip_of[slot] >= 0) {
        int64_t row = (int64_t)a->chip_of[slot] * h_q + head;
        memcpy((real *)a->chip_o + row * d, o, (size_t)d * sizeof *o);
        a->chip_w[row] = (struct weight){max, sum};
        return;
    }
    int64_t row = slot * h_q + head;
    if (a->plan->slot_weight == SLOT_MAX_SUM) {
        store_elements(a->slot_dtype, a->slot_o, row * d, o, d);
        a->slot_w[row] = (struct weight){max, sum};
    } else {
        real done[PROBLEM_MAX_ROW] = {0};
        normalise(done, o, sum, d);
        store_elements(a->slot_dtype, a->slot_o, row * d, done, d);
        a->slot_w[row] = (struct weight){row_lse(max, sum), sum == 0 ? 0 : 1};
    }
    ledger->partial_o_write += (int64_t)d * dtype_size[a->slot_dtype];
    ledger->partial_w_write += (int64_t)a->slot_words * a->word_bytes;
}

static void store_rows(struct tile *t)
{
    const struct group *g = t->it->g;
    const real v_scale = (real)problem_v_scale(t->a->p, t->it->kv_head);
    for (int64_t i = 0; i < t->rows * t->d_v && v_scale != 1; i++)
        t->acc[i] *= v_scale;
    for (int64_t i = 0; i < t->rows; i++) {
        int64_t row = t->it->row0 + i;
        if (g->slot0 == PLAN_NO_SLOT)
            store_output(t->a, t->ledger, row_query(t, row), row_head(t, row), t->acc + i * t->d_v, t->max[i],
                         t->sum[i]);
        else
            store_slot(t->a, t->ledger, g->slot0 + row / t->a->gqa, row_head(t, row), t->acc + i * t->d_v,
                       t->max[i], t->sum[i]);
    }
}

/* ---- work items --------------------------------------------------------------------------------------- */

static bool item_fused(struct tile *t, struct err *e)
{
    const struct problem *p = t->a->p;
    const struct group *g = t->it->g;
    int64_t step = g->tile_n ? g->tile_n : FREE_TILE_N;
    struct cursor kv = {.run = t->a->plan->run + g->run0}, mask = kv;
    for (int64_t t0 = 0, t1; t0 < g->n_kv; t0 = t1) {
        t1 = min_i64(t0 + step, g->n_kv);
        int64_t cols = t1 - t0, n_seg, n_visible = t->rows * cols;
        if (!kv_segments(p, t->a->plan->nf, &kv, cols, t->seg, &n_seg, e))
            return false;
        t->ld_s = cols;
        struct kv_rows k = load_kv(t, p->k, t->d, n_seg, cols, t->k_buf);
        product_qk(t, k, cols, logit_scale(t), t->s);
        cap_scores(p, t->s, t->rows * cols);
        if (g->mask != MASK_NONE)
            n_visible = apply_mask(t, &mask, t0, t1, t->s);
        for (int64_t i = 0; i < t->rows; i++) {
            real shrink = softmax_row(t->s + i * cols, cols, &t->max[i], &t->sum[i]);
            if (t0 > 0 && shrink != 1)
                for (int32_t c = 0; c < t->d_v; c++)
                    t->acc[i * t->d_v + c] *= shrink;
        }
        product_pv(t, heads_v_in_k(&p->heads) ? k : load_kv(t, p->v, t->d_v, n_seg, cols, t->v_buf), cols,
                   t->s, t->acc, t0 == 0);
        count_tile(t, cols, n_visible);
    }
    store_rows(t);
    return true;
}

/* Kernel 4 of the unfused chain, a whole row at a time; its maximum and sum become (LSE, 1), or stay empty.
 */
static void softmax_stage(struct tile *t)
{
    int64_t n = t->it->g->n_kv;
    for (int64_t i = 0; i < t->rows; i++) {
        real *s = t->s + i * n;
        softmax_row(s, n, &t->max[i], &t->sum[i]);
        if (t->sum[i] == 0)
            continue;
        for (int64_t j = 0; j < n; j++)
            s[j] /= t->sum[i];
        t->max[i] = (real)row_lse(t->max[i], t->sum[i]);
        t->sum[i] = 1;
    }
}

/* QK^T, scale, mask (where the group has one), softmax, PV: each reads what the one before it wrote. */
static bool item_unfused(struct tile *t, struct err *e)
{
    const struct problem *p = t->a->p;
    const struct group *g = t->it->g;
    struct ledger *ledger = t->ledger;
    int64_t step = g->tile_n ? g->tile_n : FREE_TILE_N, n_seg, t0, t1;
    int64_t score_bytes = t->rows * g->n_kv * t->a->elt_bytes;
    struct cursor start = {.run = t->a->plan->run + g->run0}, c = start;

    t->ld_s = g->n_kv;
    for (t0 = 0; t0 < g->n_kv; t0 = t1) {
        t1 = min_i64(t0 + step, g->n_kv);
        if (!kv_segments(p, t->a->plan->nf, &c, t1 - t0, t->seg, &n_seg, e))
            return false;
        product_qk(t, load_kv(t, p->k, t->d, n_seg, t1 - t0, t->k_buf), t1 - t0, 1, t->s + t0);
        if (g->mask == MASK_NONE)
            count_tile(t, t1 - t0, t->rows * (t1 - t0));
    }
    ledger->qk_write += score_bytes;

    for (int64_t i = 0; i < t->rows * g->n_kv; i++)
        t->s[i] *= logit_scale(t);
    cap_scores(p, t->s, t->rows * g->n_kv);
    ledger->qk_read += score_bytes;
    ledger->scaled_write += score_bytes;

    if (g->mask != MASK_NONE) {
        for (t0 = 0, c = start; t0 < g->n_kv; t0 = t1) {
            t1 = min_i64(t0 + step, g->n_kv);
            count_tile(t, t1 - t0, apply_mask(t, &c, t0, t1, t->s + t0));
        }
        ledger->masked_write += score_bytes;
        ledger->masked_read += score_bytes;
    }
    ledger->scaled_read += score_bytes; /* by the mask kernel if there is one, else by the softmax */

    softmax_stage(t);
    ledger->softmax_write += score_bytes;

    for (t0 = 0, c = start; t0 < g->n_kv; t0 = t1) {
        t1 = min_i64(t0 + step, g->n_kv);
        if (!kv_segments(p, t->a->plan->nf, &c, t1 - t0, t->seg, &n_seg, e))
            return false;
        product_pv(t, load_kv(t, heads_v_in_k(&p->heads) ? p->k : p->v, t->d_v, n_seg, t1 - t0, t->v_buf), t1 - t0,
                   t->s + t0, t->part, true);
        add_part(t, t0 == 0);
    }
    ledger->softmax_read += score_bytes;
    store_rows(t);
    return true;
}

static bool run_item(const struct attn *a, const struct item *it, struct scratch *sc, struct err *e)
{
    struct tile t = tile_open(a, it, sc);
    load_q(&t);
    return a->plan->unfused ? item_unfused(&t, e) : item_fused(&t, e);
}

/* ---- merge -------------------------------------------------------------------------------------------- */

static struct weight load_weight(const struct attn *a, int64_t slot, int32_t head)
{
    bool chip = a->chip_of && a->chip_of[slot] >= 0;
    return chip ? a->chip_w[(int64_t)a->chip_of[slot] * a->p->heads.h_q + head]
                : a->slot_w[slot * a->p->heads.h_q + head];
}

/* acc += factor * O of that row. */
static void add_row(const struct attn *a, int64_t slot, int32_t head, real factor, real *acc)
{
    int32_t d = heads_d_v(&a->p->heads);
    real o[PROBLEM_MAX_ROW];
    if (a->chip_of && a->chip_of[slot] >= 0)
        load_elements(real_dtype, a->chip_o, ((int64_t)a->chip_of[slot] * a->p->heads.h_q + head) * d, o, d);
    else
        load_elements(a->slot_dtype, a->slot_o, (slot * a->p->heads.h_q + head) * d, o, d);
    for (int32_t i = 0; i < d; i++)
        acc[i] = real_fma(factor, o[i], acc[i]);
}

struct sums {
    real o[PROBLEM_MAX_ROW], total; /* O not normalised, and what it is to be divided by */
};

/* Of the first d columns; what is added is cleared. */
static void add_sums(struct sums *x, struct sums *to, int32_t d)
{
    for (int32_t i = 0; i < d; i++) {
        to->o[i] += x->o[i];
        x->o[i] = 0;
    }
    to->total += x->total;
    x->total = 0;
}

/* Hydragen equations 4-5 with a running-free form: the maximum over all inputs first, then one pass of sums.
 * An empty input changes nothing, so it is left out; a NaN one has a NaN factor. */
static void merge_row(const struct attn *a, const struct merge_step *step, int32_t head,
                      struct ledger *ledger)
{
    const int64_t *in = a->plan->merge_in;
    double best = -INFINITY;
    struct sums all = {.total = 0}, few = {.total = 0};
    for (int64_t i = step->in0; i < step->in1; i++) {
        double max = load_weight(a, in[i], head).max;
        best = max > best ? max : best;
    }
    double shift = best == -INFINITY ? 0 : best;
    for (int64_t i = step->in0; i < step->in1; i++) {
        struct weight w = load_weight(a, in[i], head);
        if (!a->chip_of || a->chip_of[in[i]] < 0) {
            ledger->partial_o_read += (int64_t)heads_d_v(&a->p->heads) * dtype_size[a->slot_dtype];
            ledger->partial_w_read += (int64_t)a->slot_words * a->word_bytes;
        }
        if (w.sum == 0)
            continue;
        real factor = real_exp((real)(w.max - shift));
        few.total += factor * (real)w.sum;
        add_row(a, in[i], head, factor, few.o);
        if ((i - step->in0) % MERGE_DEPTH == MERGE_DEPTH - 1)
            add_sums(&few, &all, heads_d_v(&a->p->heads));
    }
    add_sums(&few, &all, heads_d_v(&a->p->heads));
    if (step->out == PLAN_NO_SLOT)
        store_output(a, ledger, step->query, head, all.o, best, all.total);
    else
        store_slot(a, ledger, step->out, head, all.o, best, all.total);
}

static void run_merge(const struct attn *a, const struct merge_step *step, struct scratch *sc)
{
    for (int32_t head = 0; head < a->p->heads.h_q; head++)
        merge_row(a, step, head, &sc->ledger);
}

const struct attn_ops ATTN_OPS = {.real_bytes = sizeof(real), .item = run_item, .merge = run_merge};
