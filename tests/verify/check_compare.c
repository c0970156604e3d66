/* check_compare.c - the comparator: it accepts what is right to the last bit it may ask for, and nothing
 * else. */
#include "verify/compare/compare.h"
#include "kernels/kernel.h"

#include "tests/suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct arithmetic f32_math = {.accumulate = DT_F32, .partial_o = DT_F32};
static const struct arithmetic f64_math = {.accumulate = DT_F64, .partial_o = DT_F64};

struct fixture {
    struct tree *t;
    struct problem *p;
    struct oracle *orc;
    struct output *out;
    struct arithmetic a;
};

/* A root of `len` tokens with three children, one of them empty; and a query that sees nothing. The output is
 * the oracle's, rounded once to the storage type. */
static struct fixture make(int64_t len, enum dtype dtype, enum fill fill)
{
    struct fixture f = {.t = tree_new(4, 0), .a = dtype == DT_F64 ? f64_math : f32_math};
    f.t->len[0] = len;
    f.t->len[1] = 30;
    f.t->len[2] = 7;
    for (int32_t i = 1; i < 4; i++)
        f.t->parent[i] = 0;
    tree_query_leaves(f.t);
    f.t->query = xrealloc(f.t->query, 4, sizeof *f.t->query);
    f.t->query[f.t->n_queries++] = (struct query){.node = 0, .upto = 0};
    struct problem_spec s = {
        .heads = {4, 2, 64, dtype}, .page_size = 16, .poison = true, .fill = fill, .seed = 3};
    f.p = problem_new(f.t, &s, NULL);
    f.orc = oracle_new(f.p);
    f.out = output_new(f.p);
    for (int64_t i = 0; i < f.orc->n_rows * f.orc->d; i++)
        dtype_store(dtype, f.out->o, i, f.orc->o[i]);
    for (int64_t r = 0; r < f.orc->n_rows; r++)
        output_set_lse(f.out, r, f.orc->lse[r]);
    return f;
}

static void drop(struct fixture *f)
{
    output_free(f->out);
    oracle_free(f->orc);
    problem_free(f->p);
    tree_free(f->t);
}

static struct comparison compared(const struct fixture *f)
{
    return compare_output(f->p, f->orc, f->out, &f->a);
}

/* Element (row, col) becomes x; the verdict must be FAIL there. */
static void fails_at(struct fixture *f, int64_t row, int32_t col, double x)
{
    double old = dtype_load(f->out->dtype, f->out->o, row * f->out->d + col);
    dtype_store(f->out->dtype, f->out->o, row * f->out->d + col, x);
    struct comparison c = compared(f);
    ck_assert_int_eq(c.verdict, V_FAIL);
    ck_assert(c.row == row && c.col == col && c.why[0]);
    dtype_store(f->out->dtype, f->out->o, row * f->out->d + col, old);
}

TEST(the_rounded_oracle_passes)
{
    for (int fill = 0; fill < N_FILLS; fill++)
        for (int t = 0; t < N_DTYPES; t++) {
            struct fixture f = make(500, (enum dtype)t, (enum fill)fill);
            struct comparison c = compared(&f);
            ck_assert_int_eq(c.verdict, V_PASS);
            ck_assert_msg(c.worst < 0.2, "%s %s: %g", fill_name[fill], dtype_name[t], c.worst);
            ck_assert(c.rel_l2 <= dtype_unit[t] && c.why[0] == 0);
            drop(&f);
        }
}

TEST(what_is_not_finite_never_passes)
{
    for (int t = 0; t < N_DTYPES; t++) {
        struct fixture f = make(100, (enum dtype)t, FILL_RANDOM);
        static const double bad[] = {NAN, INFINITY, -INFINITY};
        for (int i = 0; i < 3; i++) {
            fails_at(&f, 0, 0, bad[i]);
            fails_at(&f, 5, 63, bad[i]);
            fails_at(&f, f.orc->n_rows - 1, 7, bad[i]); /* the query that sees nothing */
            double old = output_lse(f.out, 2);
            output_set_lse(f.out, 2, bad[i]);
            ck_assert_int_eq(compared(&f).verdict, V_FAIL);
            output_set_lse(f.out, 2, old);
        }
        ck_assert_int_eq(compared(&f).verdict, V_PASS);
        drop(&f);
    }
}

TEST(an_empty_context_is_exact)
{
    struct fixture f = make(100, DT_F32, FILL_RANDOM);
    int64_t row = f.orc->n_rows - 1;
    ck_assert(isinf(f.orc->lse[row]));
    fails_at(&f, row, 0, 1e-30);
    static const double wrong[] = {0, INFINITY, NAN, -1e30};
    for (int i = 0; i < 4; i++) {
        output_set_lse(f.out, row, wrong[i]);
        ck_assert_int_eq(compared(&f).verdict, V_FAIL);
    }
    drop(&f);
}

TEST(shapes_come_first)
{
    struct fixture f = make(100, DT_F32, FILL_RANDOM);
    f.out->n_rows--;
    ck_assert_int_eq(compared(&f).verdict, V_FAIL);
    f.out->n_rows++;
    f.out->d--;
    ck_assert_int_eq(compared(&f).verdict, V_FAIL);
    f.out->d++;
    f.out->dtype = DT_F16;
    ck_assert_int_eq(compared(&f).verdict, V_FAIL);
    f.out->dtype = DT_F32;
    ck_assert_int_eq(compared(&f).verdict, V_PASS);
    drop(&f);
}

TEST(absolute_figures_hold)
{
    static const struct {
        enum dtype t;
        double just_over;
    } cap[] = {{DT_F64, 1.1e-12}, {DT_F32, 5.2e-6}};
    for (int i = 0; i < 2; i++) {
        struct fixture f = make(100, cap[i].t, FILL_RANDOM);
        ck_assert(f.orc->logit[0] <= 32);
        double top = 0;
        for (int32_t e = 0; e < f.orc->d; e++)
            top = fmax(top, fabs(f.orc->o[e]));
        fails_at(&f, 0, 9, f.orc->o[9] + cap[i].just_over * top);
        output_set_lse(f.out, 1, f.orc->lse[1] * (1 + cap[i].just_over));
        struct comparison c = compared(&f);
        ck_assert(c.verdict == V_FAIL && c.col == -1 && c.row == 1);
        /* where the derived bound is far above them, they alone decide: of LSE for float alone, whose figure is less */
        f.orc->abs_dot[1] = 24;
        c = compared(&f);
        ck_assert_msg(c.verdict == V_FAIL && c.row == 1, "%g: %s", c.worst, c.why);
        ck_assert(c.worst > 1 && (c.worst < 1.2 || cap[i].t == DT_F64));
        output_set_lse(f.out, 1, f.orc->lse[1] * (1 + (cap[i].t == DT_F32 ? 0.9 : 1e-3) * cap[i].just_over));
        c = compared(&f);
        ck_assert_msg(c.worst < 0.8, "%g: %s", c.worst, c.why);
        output_set_lse(f.out, 1, f.orc->lse[1]);
        f.orc->abs_o[9] = 1e5 * top;
        dtype_store(cap[i].t, f.out->o, 9, f.orc->o[9] + cap[i].just_over * top);
        c = compared(&f);
        ck_assert_msg(c.verdict == V_FAIL && c.row == 0 && c.col == 9, "%g: %s", c.worst, c.why);
        ck_assert(c.worst > 1 && c.worst < 1.2);
        dtype_store(cap[i].t, f.out->o, 9, f.orc->o[9] + 0.9 * cap[i].just_over * top);
        c = compared(&f);
        ck_assert_msg(c.verdict == V_PASS, "%g: %s", c.worst, c.why);
        drop(&f);
    }
}

/* Beyond a sum of 24 they grow by what the larger products of a dot product may be off: LSE's by that, O's by twice that, of the
 * |v| that are weighed. No other row is judged more mildly. */
TEST(absolute_figures_grow_with_products_that_cancel)
{
    struct fixture f = make(100, DT_F32, FILL_RANDOM);
    double more = dtype_unit[DT_F32] * 3 * sqrt(f.p->heads.d) * 40, top = 0;
    for (int32_t e = 0; e < f.orc->d; e++)
        top = fmax(top, fabs(f.orc->o[e]));
    f.orc->abs_dot[0] = f.orc->abs_dot[1] = 64;
    fails_at(&f, 0, 9, f.orc->o[9] + 1.02 * (5e-6 * top + 2 * more * f.orc->abs_o[9]));
    dtype_store(DT_F32, f.out->o, 9, f.orc->o[9] + 0.98 * (5e-6 * top + 2 * more * f.orc->abs_o[9]));
    output_set_lse(f.out, 1, f.orc->lse[1] + 0.98 * (5e-6 * f.orc->lse[1] + more));
    struct comparison c = compared(&f);
    ck_assert_msg(c.verdict == V_MARGINAL && c.worst <= 1, "%g: %s", c.worst, c.why);
    output_set_lse(f.out, 1, f.orc->lse[1] + 1.02 * (5e-6 * f.orc->lse[1] + more));
    c = compared(&f);
    ck_assert(c.verdict == V_FAIL && c.row == 1 && c.col == -1);
    output_set_lse(f.out, 1, f.orc->lse[1]);
    output_set_lse(f.out, 2, f.orc->lse[2] * (1 + 5.2e-6));
    c = compared(&f);
    ck_assert(c.verdict == V_FAIL && c.row == 2 && c.col == -1);
    drop(&f);
}

/* Keys that are alike, and no scale: the logit is small, its products are not. Summed one by one in float they are off by more than
 * 5e-6, which no kernel that sums so can help. The oracle's O is right whatever the logit. */
TEST(dot_products_in_float_are_no_fault)
{
    double worst = 0, rel_lse = 0;
    int32_t judged = 0;
    struct tree *t = tree_new(1, 1);
    t->len[0] = t->query[0].upto = 2;
    for (int i = 0; i < 600; i++) {
        struct problem_spec s = {.heads = {2, 2, 64 << i % 3, i % 2 ? DT_F32 : DT_BF16},
                                 .page_size = 16,
                                 .fill = i % 4 < 2 ? FILL_IDENTICAL : FILL_RANDOM,
                                 .seed = (uint64_t)i,
                                 .scale = 1};
        struct fixture f = {.t = t, .p = problem_new(t, &s, NULL), .a = f32_math};
        f.orc = oracle_new(f.p);
        f.out = output_new(f.p);
        for (int64_t e = 0; e < f.orc->n_rows * f.orc->d; e++)
            dtype_store(s.heads.dtype, f.out->o, e, f.orc->o[e]);
        for (int32_t h = 0; h < 2; h++) {
            float logit[2];
            for (int j = 0; j < 2; j++) {
                float dot = 0;
                for (int32_t e = 0; e < s.heads.d; e++) {
                    volatile float product = (float)dtype_load(s.heads.dtype, f.p->q, (int64_t)h * s.heads.d + e) *
                                             (float)problem_k(f.p, (problem_slot(f.p, 0, j) * 2 + h) * s.heads.d + e);
                    dot += product;
                }
                logit[j] = dot;
            }
            float top = fmaxf(logit[0], logit[1]);
            output_set_lse(f.out, h, top + log1pf(expf(fminf(logit[0], logit[1]) - top)));
        }
        struct comparison c = compared(&f);
        ck_assert_msg(c.verdict == V_PASS || c.verdict == V_MARGINAL, "seed %d: %g: %s", i, c.worst, c.why);
        worst = fmax(worst, c.worst);
        rel_lse = c.max_logit <= 32 ? fmax(rel_lse, c.rel_lse) : rel_lse;
        judged += c.max_logit <= 32;
        output_free(f.out);
        oracle_free(f.orc);
        problem_free(f.p);
    }
    ck_assert_msg(rel_lse > 1e-5 && judged > 300, "%g, %d cases", rel_lse, (int)judged); /* or it says nothing of the figures */
    ck_assert_msg(worst < 0.5, "%g", worst);
    tree_free(t);
}

/* Removing one token of `len` moves LSE by about 1 / len: even a half-precision output cannot hide it. */
TEST(one_lost_token_fails)
{
    for (int t = 0; t < N_DTYPES; t++) {
        struct fixture f = make(4000, (enum dtype)t, FILL_COUNT);
        output_set_lse(f.out, 0, log((double)f.orc->ctx[0] - 1));
        ck_assert_int_eq(compared(&f).verdict, V_FAIL);
        output_set_lse(f.out, 0, f.orc->lse[0] / log(2)); /* base 2 */
        ck_assert_int_eq(compared(&f).verdict, V_FAIL);
        drop(&f);
    }
}

/* In half precision a neighbour of the right number is wrong, unless the exact result lies between the two.
 */
TEST(half_precision_is_judged_to_the_last_bit)
{
    struct fixture f = make(50, DT_BF16, FILL_RANDOM);
    uint16_t *o = f.out->o;
    int64_t failed = 0, n = 0;
    for (int64_t i = 0; i < f.out->d; i++) {
        if (fabs(f.orc->o[i]) < 0.01) /* its last bit is below the bound, which is relative to the row */
            continue;
        n++;
        uint16_t old = o[i];
        o[i] = (uint16_t)(old + 2);
        failed += compared(&f).verdict == V_FAIL;
        o[i] = old;
    }
    ck_assert(n > 32 && failed == n);
    drop(&f);
}

TEST(swapped_heads_fail)
{
    for (int t = 0; t < N_DTYPES; t++) {
        struct fixture f = make(300, (enum dtype)t, FILL_RANDOM);
        char row[64 * sizeof(double)];
        size_t size = (size_t)f.out->d * (size_t)dtype_size[t];
        char *o = f.out->o;
        memcpy(row, o, size);
        memcpy(o, o + size, size);
        memcpy(o + size, row, size);
        ck_assert_int_eq(compared(&f).verdict, V_FAIL);
        drop(&f);
    }
}

TEST(narrow_partials_widen_the_bound)
{
    struct fixture f = make(100, DT_F32, FILL_RANDOM);
    float *o = f.out->o;
    for (int64_t i = 0; i < f.orc->n_rows * f.orc->d; i++)
        o[i] = (float)f16_to_double(f16_from_double(f.orc->o[i]));
    ck_assert_int_eq(compared(&f).verdict, V_FAIL);
    f.a.partial_o = DT_F16;
    ck_assert_int_eq(compared(&f).verdict, V_PASS);
    f.a.partial_o = DT_F32;
    f.a.probability = DT_F16;
    ck_assert_int_eq(compared(&f).verdict, V_PASS);
    drop(&f);
}

/* What a matrix unit makes of a row: logits in float; probabilities against the running maximum of tiles of 32 tokens,
 * rounded to type t before they meet V; their sum as it was. */
static void narrow_row(const struct fixture *f, int64_t row, enum dtype t)
{
    const struct problem *p = f->p;
    const struct query *x = &p->tree->query[row / p->heads.h_q];
    int64_t head = row % p->heads.h_q / heads_gqa(&p->heads), root = x->node == 0 ? 0 : p->tree->len[0],
            ctx = root + x->upto;
    double o[PROBLEM_MAX_D] = {0}, sum = 0, max = -INFINITY;
    for (int64_t first = 0; first < ctx; first += 32) {
        double logit[32], old = max;
        int64_t at[32], n = first + 32 < ctx ? 32 : ctx - first;
        for (int64_t j = 0; j < n; j++) {
            int64_t token = first + j;
            at[j] = (problem_slot(p, token < root ? 0 : x->node, token < root ? token : token - root) *
                         p->heads.h_kv +
                     head) *
                    p->heads.d;
            double dot = 0;
            for (int32_t e = 0; e < p->heads.d; e++)
                dot += dtype_load(p->heads.dtype, p->q, row * p->heads.d + e) *
                       dtype_load(p->heads.dtype, p->k, at[j] + e);
            logit[j] = (float)(p->scale * dot);
            max = fmax(max, logit[j]);
        }
        for (int32_t e = 0; e < p->heads.d; e++)
            o[e] *= exp(old - max);
        sum *= exp(old - max);
        for (int64_t j = 0; j < n; j++) {
            double weight = (float)exp(logit[j] - max), narrow;
            dtype_store(t, &narrow, 0, weight);
            narrow = dtype_load(t, &narrow, 0);
            sum += weight;
            for (int32_t e = 0; e < p->heads.d; e++)
                o[e] += narrow * dtype_load(p->heads.dtype, p->v, at[j] + e);
        }
    }
    for (int32_t e = 0; e < p->heads.d; e++)
        dtype_store(p->heads.dtype, f->out->o, row * p->heads.d + e, ctx > 0 ? o[e] / sum : 0);
    output_set_lse(f->out, row, ctx > 0 ? max + log(sum) : -INFINITY);
}

/* Where all probabilities are 1 / n and V is 0 or 1, o is the mean of V and rms_o its root over n; where one token has
 * all the weight, it is |o|. */
TEST(the_oracle_reports_what_roundings_add_up_to)
{
    struct fixture f = make(700, DT_F32, FILL_COUNT);
    for (int64_t i = 0; i < f.orc->n_rows * f.orc->d; i++) {
        int64_t n = f.orc->ctx[i / f.orc->d / f.p->heads.h_q];
        ck_assert_double_eq_tol(f.orc->rms_o[i], n > 0 ? sqrt(f.orc->o[i] / (double)n) : 0, 1e-14);
    }
    drop(&f);
    f = make(50, DT_F64, FILL_HUGE);
    for (int64_t r = 0; r < f.orc->n_rows; r++)
        if (f.orc->logit[r] > 1000 && f.orc->lse[r] == f.orc->logit[r]) /* no second token counts */
            for (int32_t e = 0; e < f.orc->d; e++)
                ck_assert_double_eq_tol(f.orc->rms_o[r * f.orc->d + e], fabs(f.orc->o[r * f.orc->d + e]),
                                        1e-14);
    drop(&f);
}

/* Narrow probabilities pass where they were declared, with room, and only there; ten times their roundoff, or any in LSE, is
 * not forgiven. */
TEST(narrow_probabilities_have_a_bound_of_their_own)
{
    static const enum dtype types[] = {DT_F16, DT_BF16};
    for (int fill = 0; fill < N_FILLS; fill++)
        for (int i = 0; i < 2; i++) {
            struct fixture f = make(3000, types[i], (enum fill)fill);
            for (int64_t r = 0; r < f.out->n_rows; r++)
                narrow_row(&f, r, types[i]);
            if (fill == FILL_RANDOM)
                ck_assert_int_eq(compared(&f).verdict, V_FAIL);
            f.a.probability = types[i];
            struct comparison c = compared(&f);
            ck_assert_msg(c.worst < 0.5, "%s %s: %g at row %d col %d", fill_name[fill], dtype_name[types[i]],
                          c.worst, (int)c.row, (int)c.col);
            int32_t at = 0;
            for (int32_t e = 0; e < f.orc->d; e++)
                at = fabs(f.orc->o[e]) > fabs(f.orc->o[at]) ? e : at;
            if (c.max_logit <= 32) { /* large logits have larger errors of their own */
                fails_at(&f, 0, at, f.orc->o[at] * (1 + 10 * dtype_unit[types[i]]));
                output_set_lse(f.out, 1, f.orc->lse[1] + dtype_unit[types[i]]); /* the sum was not narrowed */
                ck_assert_int_eq(compared(&f).verdict, V_FAIL);
            }
            drop(&f);
        }
}

/* A column of small numbers does not hide behind one of large ones, not even where probabilities are narrow. Below the normal
 * numbers of float a GPU may have 0; fp16 has few digits near its smallest numbers. */
TEST(columns_of_any_size_are_judged)
{
    for (int t = 0; t < N_DTYPES; t++)
        for (int narrow = 0; narrow < 2 && (t > DT_F32 || !narrow); narrow++) {
            struct fixture f = make(900, (enum dtype)t, FILL_SPAN);
            f.a.probability = narrow ? (enum dtype)t : DT_F64;
            for (int32_t e = 0; e < f.orc->d; e++)
                if (f.orc->max_v[e] > (t == DT_F16 ? 1e-5 : 1e-37))
                    fails_at(&f, 0, e, f.orc->o[e] + 0.02 * f.orc->max_v[e]);
            ck_assert(t == DT_F16 || t == DT_F64 || f.orc->max_v[7] < 0x1p-126);
            dtype_store((enum dtype)t, f.out->o, 7, t == DT_F16 ? f.orc->o[7] : 0);
            ck_assert_int_eq(compared(&f).verdict,
                             t == DT_F64 && f.orc->max_v[7] > DBL_MIN ? V_FAIL : V_PASS);
            drop(&f);
        }
}

/* The bound must stay sharp where the figures for small logits do not hold: errors that rounding cannot
 * explain, relative to the row, fail in every kind of input. */
TEST(bounds_stay_sharp)
{
    static const struct {
        enum fill fill;
        enum dtype dtype;
        int32_t merges;
        double o, lse; /* relative errors that must fail */
    } all[] = {
        {FILL_RANDOM, DT_F32, 1, 6e-6, 6e-6},    {FILL_RANDOM, DT_F64, 1, 1.1e-12, 1.1e-12},
        {FILL_RANDOM, DT_F32, 512, 1e-3, 1e-4},  {FILL_COUNT, DT_F32, 1, 6e-6, 6e-6},
        {FILL_IDENTICAL, DT_F32, 1, 6e-6, 6e-6}, {FILL_ONEHOT, DT_F32, 1, 1e-3, 1e-5},
        {FILL_ONEHOT, DT_F64, 1, 1e-11, 1e-13},  {FILL_HUGE, DT_F32, 1, 6e-6, 2e-5},
        {FILL_HUGE, DT_F64, 1, 1e-11, 1e-13},    {FILL_VAST, DT_F32, 512, 6e-6, 2e-5},
        {FILL_VAST, DT_F64, 1, 1e-11, 1e-13},    {FILL_SPAN, DT_F32, 1, 6e-6, 6e-6},
        {FILL_ONESIGN, DT_F32, 1, 6e-6, 6e-6},   {FILL_ONESIGN, DT_F64, 1, 1.1e-12, 1.1e-12},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct fixture f = make(900, all[i].dtype, all[i].fill);
        f.a.merges = all[i].merges;
        int32_t at = 0;
        for (int32_t e = 0; e < f.orc->d; e++)
            at = fabs(f.orc->o[e]) > fabs(f.orc->o[at]) ? e : at;
        fails_at(&f, 0, at, f.orc->o[at] * (1 + all[i].o));
        output_set_lse(f.out, 1, f.orc->lse[1] * (1 + all[i].lse));
        ck_assert_msg(compared(&f).verdict == V_FAIL, "LSE of %s %s", fill_name[all[i].fill],
                      dtype_name[all[i].dtype]);
        drop(&f);
    }
}

/* Where a rounded logit may take any place among the others, O still lies between the smallest V and the largest; of a query
 * that sees one token it is that token's, whatever the logit is. */
TEST(no_weights_leave_the_range_of_v)
{
    struct fixture f = make(300, DT_F32, FILL_VAST);
    int64_t d = f.orc->d;
    ck_assert(f.orc->gap[0] > 1e8 && f.orc->logit[0] > 1e8);
    fails_at(&f, 0, 3, f.orc->o[3] + 1e-3 * f.orc->range_o[3]);
    f.orc->gap[0] = 1; /* less than a float's steps there */
    for (int i = 0; i < 2; i++) {
        dtype_store(DT_F32, f.out->o, 3, f.orc->o[3] + (i ? 0.99 : -0.99) * f.orc->range_o[3]);
        ck_assert_int_ne(compared(&f).verdict, V_FAIL);
    }
    fails_at(&f, 0, 3, f.orc->o[3] + 1.01 * f.orc->range_o[3]);
    fails_at(&f, 0, 3, f.orc->o[3] - 1.01 * f.orc->range_o[3]);
    drop(&f);
    f = make(1, DT_F16, FILL_VAST);
    f.a.probability = DT_F16;
    f.t->query[3].upto = 1; /* the one that saw nothing */
    oracle_free(f.orc);
    f.orc = oracle_new(f.p);
    int64_t row = 3 * f.p->heads.h_q;
    for (int64_t i = row * d; i < f.orc->n_rows * d; i++)
        dtype_store(DT_F16, f.out->o, i, f.orc->o[i]);
    for (int64_t r = row; r < f.orc->n_rows; r++) {
        ck_assert(f.orc->gap[r] == INFINITY);
        output_set_lse(f.out, r, f.orc->lse[r]);
    }
    ck_assert_int_eq(compared(&f).verdict, V_PASS);
    fails_at(&f, row, 1, 0);
    drop(&f);
}

/* Attention of query q in float, token by token, as the shortest loop has it. */
static void add_in_order(const struct fixture *f, int32_t q)
{
    const struct problem *p = f->p;
    int64_t n = f->orc->ctx[q];
    int32_t d = p->heads.d;
    int64_t *slot = xcalloc((size_t)n, sizeof *slot);
    problem_path_slots(p, q, n, slot);
    for (int32_t h = 0; h < p->heads.h_q; h++) {
        int64_t row = (int64_t)q * p->heads.h_q + h;
        const float *query = (const float *)p->q + row * d;
        float max = -INFINITY, sum = 0, o[PROBLEM_MAX_D] = {0};
        for (int64_t j = 0; j < n; j++) {
            int64_t at = (slot[j] * p->heads.h_kv + h / heads_gqa(&p->heads)) * d;
            float logit = 0;
            for (int32_t i = 0; i < d; i++)
                logit += (float)p->scale * query[i] * ((const float *)p->k)[at + i];
            float most = fmaxf(max, logit), keep = expf(max - most), add = expf(logit - most);
            for (int32_t i = 0; i < d; i++)
                o[i] = keep * o[i] + add * ((const float *)p->v)[at + i];
            sum = keep * sum + add;
            max = most;
        }
        for (int32_t i = 0; i < d; i++)
            ((float *)f->out->o)[row * d + i] = o[i] / sum;
        output_set_lse(f->out, row, max + logf(sum));
    }
    free(slot);
}

/* A plain loop is right where the kernel says nothing of its sums, and wrong where it says that it adds in tiles. */
TEST(sums_in_order_are_right_unless_tiles_are_declared)
{
    static const enum fill fills[] = {FILL_RANDOM, FILL_COUNT, FILL_SUNK};
    bool tiled_fails = false;
    for (size_t k = 0; k < sizeof fills / sizeof fills[0]; k++) {
        struct fixture f = make(70000, DT_F32, fills[k]);
        struct kernel silent = {.name = "silent"}, tiled = {.sum_run = 128, .merges_at_once = true};
        struct plan plan = {.n_slots = 0};
        add_in_order(&f, 0);
        f.a = arithmetic_of(f.p, &plan, &silent);
        struct comparison c = compared(&f);
        ck_assert_msg(c.verdict == V_PASS, "%s: %g %s", fill_name[fills[k]], c.worst, c.why);
        f.a = arithmetic_of(f.p, &plan, &tiled);
        tiled_fails = tiled_fails || compared(&f).verdict == V_FAIL;
        drop(&f);
    }
    ck_assert(tiled_fails);
}

/* Partial results that may be merged one after the other count one by one. */
TEST(merges_in_order_count_their_inputs)
{
    struct merge_step merge = {.in1 = 9, .out = PLAN_NO_SLOT};
    int64_t in[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct plan plan = {.n_slots = 9, .n_launches = 1, .n_merges = 1, .merge = &merge, .merge_in = in};
    struct fixture f = make(40, DT_F32, FILL_RANDOM);
    struct kernel silent = {.name = "silent"}, at_once = {.merges_at_once = true};
    ck_assert_int_eq(arithmetic_of(f.p, &plan, &silent).merges, 8);
    ck_assert_int_eq(arithmetic_of(f.p, &plan, &at_once).merges, 1);
    drop(&f);
}

/* Every constant, a second time: whoever raises one does so in two places, with a measurement in the commit. The
 * figures 5e-6 and 1e-12 hide most of the derived bound from the tests above. */
TEST(no_constant_is_looser_than_measured)
{
#define TOL(name, value, reason) const double TOL_##name = value;
#include "verify/compare/tolerances.def"
#undef TOL
    const struct {
        const char *name;
        double value, most;
    } all[] = {
        {"DOT", TOL_DOT, 3},
        {"LOGIT", TOL_LOGIT, 2},
        {"LOGIT_CAPPED", TOL_LOGIT_CAPPED, 4},
        {"LOGIT_STORED", TOL_LOGIT_STORED, 2},
        {"SUM_BASE", TOL_SUM_BASE, 12},
        {"SUM_LOG", TOL_SUM_LOG, 4},
        {"SUM_TILE", TOL_SUM_TILE, 128},
        {"SUM_RUN", TOL_SUM_RUN, 8},
        {"SUM_DRIFT", TOL_SUM_DRIFT, 0.05},
        {"MERGE_DRIFT", TOL_MERGE_DRIFT, 1},
        {"LSE_BASE", TOL_LSE_BASE, 4},
        {"LSE_LOG", TOL_LSE_LOG, 2},
        {"LSE_OWN", TOL_LSE_OWN, 2},
        {"MERGE", TOL_MERGE, 2},
        {"ORACLE", TOL_ORACLE, 0.25},
        {"UNDERFLOW", TOL_UNDERFLOW, 2},
        {"BELL", TOL_BELL, 4},
        {"PARTIAL", TOL_PARTIAL, 2.5},
        {"PROB", TOL_PROB, 2.5},
        {"PROB_SAME", TOL_PROB_SAME, 2},
        {"PROB_SUM", TOL_PROB_SUM, 2},
        {"PROB_WALK", TOL_PROB_WALK, 8},
        {"CAP_MIN_D", TOL_CAP_MIN_D, 16},
        {"CAP_F64", TOL_CAP_F64, 1e-12},
        {"CAP_F32", TOL_CAP_F32, 5e-6},
        {"MARGINAL", TOL_MARGINAL, 0.5},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_msg(all[i].value <= all[i].most, "%s is %g, measured was %g", all[i].name, all[i].value,
                      all[i].most);
    ck_assert(TOL_CAP_LOGIT >= 32); /* a smaller one would exempt more cases from the figures */
    ck_assert(TOL_CAP_DOT >= 24);   /* a smaller one would make them grow for more rows */
}

/* The error of a dot product grows with the root of its length. Logits of FILL_HUGE are beyond the figures. */
TEST(a_dot_product_counts_its_elements)
{
    struct fixture f = make(100, DT_F32, FILL_HUGE);
    output_set_lse(f.out, 3, f.orc->lse[3] + 1e6);
    struct comparison before = compared(&f);
    f.orc->abs_dot[3] += 1e6;
    struct comparison c = compared(&f);
    ck_assert(before.row == 3 && c.row == 3);
    double more = dtype_unit[DT_F32] * 3 * sqrt(f.p->heads.d) * 1e6;
    ck_assert_double_eq_tol(c.bound - before.bound, more, 1e-6 * more);
    drop(&f);
}

TEST(between_half_and_all_of_the_bound_is_marginal)
{
    struct fixture f = make(100, DT_F32, FILL_RANDOM);
    output_set_lse(f.out, 3, f.orc->lse[3] + 1e-3);
    struct comparison c = compared(&f);
    ck_assert_int_eq(c.verdict, V_FAIL);
    output_set_lse(f.out, 3, f.orc->lse[3] + 0.75 * c.bound);
    ck_assert_int_eq(compared(&f).verdict, V_MARGINAL);
    output_set_lse(f.out, 3, f.orc->lse[3] + 0.25 * c.bound);
    ck_assert_int_eq(compared(&f).verdict, V_PASS);
    drop(&f);
}
