/*
 * check_mpfr.c - the oracle against attention by its definition in 256 bits (GNU MPFR; tests only).
 *
 * The oracle is the last word on every kernel, in double. Here it is judged in turn, by the bound that judges
 * f64 kernels with half of every constant of verify/compare/tolerances.def. exp(logit) is summed as it stands,
 * without the maximum taken out: the exponents of MPFR have room for it, and the route has nothing of the
 * oracle's.
 */
#include "ref/rng.h"
#include "ref/tails.h"
#include "traces/formats/formats.h"
#include "verify/compare/compare.h"

#include "tests/auto.h"
#include "tests/suites.h"

#include <math.h>
#include <mpfr.h>

enum { BITS = 256, N_CASES = 1000, ROWS_PER_CASE = 4, SEED = 20, MAX_NODES = 16, MAX_QUERIES = 8 };

static const double half = 0.5;                /* share of the bound that the oracle may use */
static const struct arithmetic f64_math = {0}; /* DT_F64 throughout, no partials, no merges */

/* ---- one row by the definition ------------------------------------------------------------------------- */

struct exact {
    int32_t d, d_v;
    mpfr_t o[PROBLEM_MAX_ROW], abs_o[PROBLEM_MAX_ROW], q[PROBLEM_MAX_ROW]; /* the first d are initialised */
    mpfr_t sum, lse;
    mpfr_t logit, mag;  /* largest |logit|, largest scale * sum |q_i k_i| */
    mpfr_t top, second; /* the two largest logits */
    mpfr_t x, y, z, weight;
    double low[PROBLEM_MAX_ROW], high[PROBLEM_MAX_ROW]; /* of V */
    int64_t ctx;
};

static struct exact *exact_new(int32_t d, mpfr_prec_t bits)
{
    struct exact *a = xcalloc(1, sizeof *a);
    a->d = a->d_v = d;
    mpfr_set_emin(mpfr_get_emin_min()); /* e^1e9 is no number by default */
    mpfr_set_emax(mpfr_get_emax_max());
    for (int32_t e = 0; e < d; e++)
        mpfr_inits2(bits, a->o[e], a->abs_o[e], a->q[e], (mpfr_ptr)0);
    mpfr_inits2(bits, a->sum, a->lse, a->logit, a->mag, a->top, a->second, a->x, a->y, a->z, a->weight,
                (mpfr_ptr)0);
    return a;
}

static void exact_free(struct exact *a)
{
    for (int32_t e = 0; e < a->d; e++)
        mpfr_clears(a->o[e], a->abs_o[e], a->q[e], (mpfr_ptr)0);
    mpfr_clears(a->sum, a->lse, a->logit, a->mag, a->top, a->second, a->x, a->y, a->z, a->weight,
                (mpfr_ptr)0);
    free(a);
}

/* Add the token whose K and V start at element `at` of the pool. Of 8 bits they are what is stored there times a scale. */
static void exact_token(struct exact *a, const struct problem *p, int64_t at)
{
    enum dtype kv = heads_kv_dtype(&p->heads);
    int64_t head = at / a->d % p->heads.h_kv;
    double k_scale = p->k_scale ? (double)p->k_scale[head] : 1,
           v_scale = p->v_scale ? (double)p->v_scale[head] : 1;
    mpfr_set_zero(a->y, 1); /* q . k */
    mpfr_set_zero(a->z, 1); /* |q| . |k| */
    for (int32_t e = 0; e < a->d; e++) {
        mpfr_mul_d(a->x, a->q[e], dtype_load(kv, p->k, at + e), MPFR_RNDN);
        mpfr_mul_d(a->x, a->x, k_scale, MPFR_RNDN);
        mpfr_add(a->y, a->y, a->x, MPFR_RNDN);
        mpfr_abs(a->x, a->x, MPFR_RNDN);
        mpfr_add(a->z, a->z, a->x, MPFR_RNDN);
    }
    mpfr_mul_d(a->y, a->y, p->scale, MPFR_RNDN);
    mpfr_mul_d(a->z, a->z, p->scale, MPFR_RNDN);
    if (p->soft_cap > 0) {
        mpfr_div_d(a->y, a->y, p->soft_cap, MPFR_RNDN);
        mpfr_tanh(a->y, a->y, MPFR_RNDN);
        mpfr_mul_d(a->y, a->y, p->soft_cap, MPFR_RNDN);
    }
    mpfr_exp(a->weight, a->y, MPFR_RNDN);
    mpfr_add(a->sum, a->sum, a->weight, MPFR_RNDN);
    mpfr_min(a->x, a->y, a->top, MPFR_RNDN);
    mpfr_max(a->second, a->second, a->x, MPFR_RNDN);
    mpfr_max(a->top, a->top, a->y, MPFR_RNDN);
    mpfr_abs(a->y, a->y, MPFR_RNDN);
    mpfr_max(a->logit, a->logit, a->y, MPFR_RNDN);
    mpfr_max(a->mag, a->mag, a->z, MPFR_RNDN);
    for (int32_t e = 0; e < a->d_v; e++) {
        double v = heads_v_in_k(&p->heads) ? k_scale * dtype_load(kv, p->k, at + e)
                                    : v_scale * dtype_load(kv, p->v, at + e); /* exact: 24 and 4 bits */
        a->low[e] = fmin(a->low[e], v);
        a->high[e] = fmax(a->high[e], v);
        mpfr_mul_d(a->x, a->weight, v, MPFR_RNDN);
        mpfr_add(a->o[e], a->o[e], a->x, MPFR_RNDN);
        mpfr_abs(a->x, a->x, MPFR_RNDN);
        mpfr_add(a->abs_o[e], a->abs_o[e], a->x, MPFR_RNDN);
    }
    a->ctx++;
}

/* Add the head's sink, which has no V. */
static void exact_sink(struct exact *a, double sink)
{
    mpfr_set_d(a->y, sink, MPFR_RNDN);
    mpfr_exp(a->weight, a->y, MPFR_RNDN);
    mpfr_add(a->sum, a->sum, a->weight, MPFR_RNDN);
    mpfr_min(a->x, a->y, a->top, MPFR_RNDN);
    mpfr_max(a->second, a->second, a->x, MPFR_RNDN);
    mpfr_max(a->top, a->top, a->y, MPFR_RNDN);
    for (int32_t e = 0; e < a->d_v; e++) {
        a->low[e] = fmin(a->low[e], 0);
        a->high[e] = fmax(a->high[e], 0);
    }
}

/* o = sum exp(l_j) v_j / sum exp(l_j), lse = log sum exp(l_j), over the tokens that the query sees; of its
 * own node all but the last `lost` ones. Row = query * h_q + head. */
static void exact_row(struct exact *a, const struct problem *p, int64_t row, int64_t lost)
{
    const struct query *query = &p->tree->query[row / p->heads.h_q];
    int64_t kv_head = row % p->heads.h_q / heads_gqa(&p->heads);
    a->d_v = heads_d_v(&p->heads);
    for (int32_t e = 0; e < a->d; e++) {
        mpfr_set_zero(a->o[e], 1);
        mpfr_set_zero(a->abs_o[e], 1);
        a->low[e] = INFINITY;
        a->high[e] = -INFINITY;
        mpfr_set_d(a->q[e], dtype_load(p->heads.dtype, p->q, row * p->heads.d + e), MPFR_RNDN);
    }
    mpfr_set_zero(a->sum, 1);
    mpfr_set_zero(a->logit, 1);
    mpfr_set_zero(a->mag, 1);
    mpfr_set_inf(a->top, -1);
    mpfr_set_inf(a->second, -1);
    a->ctx = 0;
    int64_t left = INT64_MAX; /* of the window, from its end */
    if (p->tree->since) {
        int64_t *seen = xcalloc((size_t)p->tree->n_queries, sizeof *seen);
        tree_contexts(p->tree, seen);
        left = seen[row / p->heads.h_q] - lost;
        free(seen);
    }
    for (int32_t node = query->node; node >= 0; node = p->tree->parent[node]) {
        int64_t end = node == query->node ? query->upto - lost : p->tree->len[node];
        for (int64_t j = end - 1; j >= 0 && left > 0; j--, left--)
            exact_token(a, p, (problem_slot(p, node, j) * p->heads.h_kv + kv_head) * p->heads.d);
    }
    if (p->sink)
        exact_sink(a, p->sink[row % p->heads.h_q]);
    for (int32_t e = 0; e < a->d_v && a->ctx > 0; e++) {
        mpfr_div(a->o[e], a->o[e], a->sum, MPFR_RNDN);
        mpfr_div(a->abs_o[e], a->abs_o[e], a->sum, MPFR_RNDN);
    }
    mpfr_log(a->lse, a->sum, MPFR_RNDN); /* log 0 = -inf */
}

/* ---- the oracle's row in units of its bound ------------------------------------------------------------ */

struct error {
    double o, lse;   /* largest |oracle - exact| / bound; +inf for a wrong NaN or infinity */
    double compared; /* what the comparator says of this row, absolute figures and all */
    /* Of abs_o, logit, abs_dot, gap: relative to O's bound, and to d u abs_dot; +inf for another range_o or max_v. */
    double report;
    double bound_o; /* of element 0, and of the LSE: for tests that move the oracle by so much */
    double bound_lse;
};

/* |got - exact|, rounded up; infinite if only one of the two is finite, or either is NaN. */
static double distance(struct exact *a, double got, mpfr_srcptr exact)
{
    if (!isfinite(got) || !mpfr_number_p(exact))
        return mpfr_inf_p(exact) && got == mpfr_get_d(exact, MPFR_RNDN) ? 0 : INFINITY;
    mpfr_sub_d(a->x, exact, got, MPFR_RNDA);
    mpfr_abs(a->x, a->x, MPFR_RNDA);
    return mpfr_get_d(a->x, MPFR_RNDU);
}

static double in_units(double err, double bound)
{
    return err == 0 ? 0 : err / bound;
}

/* The bound comes from the exact row, not from what the oracle says of itself. a holds the exact row. */
static struct error judge_row(struct exact *a, const struct problem *p, const struct oracle *orc, int64_t row)
{
    double o[PROBLEM_MAX_ROW], abs_o[PROBLEM_MAX_ROW], range_o[PROBLEM_MAX_ROW], max_v[PROBLEM_MAX_ROW],
        bound_o[PROBLEM_MAX_ROW];
    double lse = mpfr_get_d(a->lse, MPFR_RNDN), logit = mpfr_get_d(a->logit, MPFR_RNDU),
           mag = mpfr_get_d(a->mag, MPFR_RNDU);
    for (int32_t e = 0; e < a->d_v; e++) {
        o[e] = mpfr_get_d(a->o[e], MPFR_RNDN);
        abs_o[e] = mpfr_get_d(a->abs_o[e], MPFR_RNDN);
        range_o[e] = a->ctx > 0 ? a->high[e] - a->low[e] : 0;
        max_v[e] = a->ctx > 0 ? fmax(-a->low[e], a->high[e]) : 0;
    }
    mpfr_sub(a->y, a->top, a->second, MPFR_RNDN);
    double gap = a->ctx + orc->sinks > 1 ? mpfr_get_d(a->y, MPFR_RNDN) : INFINITY;
    struct oracle truth = {.n_rows = 1,
                           .d = a->d_v,
                           .o = o,
                           .lse = &lse,
                           .abs_o = abs_o,
                           .range_o = range_o,
                           .max_v = max_v,
                           .gap = &gap,
                           .logit = &logit,
                           .abs_dot = &mag,
                           .ctx = &a->ctx,
                           .capped = orc->capped,
                           .sinks = orc->sinks};
    /* As a problem of one row; the oracle answers in double, whatever the storage of Q, K and V. */
    struct tree one = {.n_queries = 1};
    struct problem as_f64 = {.tree = &one, .heads = {.h_q = 1, .h_kv = 1, .d = a->d, .dtype = DT_F64, .d_v = p->heads.d_v, .v_apart = p->heads.v_apart}};
    struct output out = {
        .dtype = DT_F64, .n_rows = 1, .d = a->d_v, .o = orc->o + row * a->d_v, .lse = orc->lse + row};
    double bound_lse = compare_bound(&as_f64, &truth, &f64_math, 0, bound_o);

    struct error err = {.bound_o = bound_o[0], .bound_lse = bound_lse};
    err.compared = compare_output(&as_f64, &truth, &out, &f64_math).worst;
    err.lse = in_units(distance(a, orc->lse[row], a->lse), bound_lse);
    for (int32_t e = 0; e < a->d_v; e++) {
        int64_t i = row * a->d_v + e;
        err.o = fmax(err.o, in_units(distance(a, orc->o[i], a->o[e]), bound_o[e]));
        err.report = fmax(err.report, in_units(distance(a, orc->abs_o[i], a->abs_o[e]), bound_o[e]));
        if (orc->range_o[i] != range_o[e] || orc->max_v[i] != max_v[e])
            err.report = INFINITY;
    }
    double dot = dtype_unit[DT_F64] * a->d * mag; /* d additions, one rounding each at most */
    err.report = fmax(err.report, in_units(distance(a, orc->logit[row], a->logit), dot));
    err.report = fmax(err.report, in_units(distance(a, orc->abs_dot[row], a->mag), dot));
    err.report = fmax(err.report, in_units(gap == orc->gap[row] ? 0 : fabs(gap - orc->gap[row]), 2 * dot));
    if (orc->ctx[row / p->heads.h_q] != a->ctx)
        err.report = INFINITY;
    return err;
}

/* ---- small cases --------------------------------------------------------------------------------------- */

struct mp_case {
    struct tree *t;
    struct problem_spec spec;
    struct problem *p;
    struct oracle *orc;
};

static int64_t draw(int32_t i, uint64_t what, int64_t n)
{
    return rng_below(SEED, (uint64_t)i, what, n);
}

/* The first nodes of a tree of the seeded families, shortened, with some of their queries. */
static struct tree *small_tree(int32_t i)
{
    AUTO(tree) big = gen_tree(gen_family(SEED, i), gen_seed(SEED, i));
    int64_t longest = draw(i, 0, 8) == 0 ? 400 : draw(i, 1, 3) == 0 ? 100 : 30;
    struct tree *t = tree_new((int32_t)min_i64(big->n_nodes, MAX_NODES), MAX_QUERIES);
    for (int32_t n = 0; n < t->n_nodes; n++) {
        t->parent[n] = big->parent[n];
        t->len[n] = min_i64(big->len[n], 1 + draw(i, 100 + (uint64_t)n, longest));
    }
    t->n_queries = 0;
    for (int32_t q = 0; q < big->n_queries && t->n_queries < MAX_QUERIES; q++) {
        struct query x = big->query[q];
        if (x.node < t->n_nodes)
            t->query[t->n_queries++] = (struct query){x.node, min_i64(x.upto, t->len[x.node])};
    }
    if (t->n_queries < 3)
        tree_query_leaves(t);
    return t;
}

static struct mp_case case_new(int32_t i)
{
    static const int32_t heads[][2] = {{1, 1}, {2, 1}, {4, 2}, {3, 3}, {8, 2}, {7, 1}, {6, 2}, {8, 1}};
    static const int32_t sizes[] = {16, 32, 64, 128}, pages[] = {1, 16, 32, 64};
    const int32_t *h = heads[draw(i, 2, 8)];
    struct mp_case c = {
        .t = small_tree(i),
        .spec = {.heads = {h[0], h[1], (int32_t)(draw(i, 3, 2) ? sizes[draw(i, 4, 4)] : 16 + draw(i, 5, 113)),
                           (enum dtype)(i % N_DTYPES)},
                 .page_size = pages[draw(i, 6, 4)],
                 .scattered = draw(i, 7, 2),
                 .poison = draw(i, 8, 2),
                 .fill = (enum fill)(i / N_DTYPES % N_FILLS),
                 .seed = (uint64_t)i},
    };
    int32_t features = i / (N_DTYPES * N_FILLS) % 8; /* none, each, all */
    c.spec.soft_cap = features & 1 ? draw(i, 9, 2) ? 30 : 4 : 0;
    c.spec.sinks = features & 2;
    if (draw(i, 31, 2)) {
        c.spec.heads.kv_fp8 = draw(i, 32, 2) ? DT_E4M3 : DT_E5M2;
        c.spec.head_scales = draw(i, 33, 2);
    }
    if (draw(i, 34, 6) == 0)
        c.spec.heads.d_v = 1 + (int32_t)draw(i, 35, c.spec.heads.d);
    c.spec.heads.v_apart = c.spec.heads.d_v > 0 && draw(i, 36, 2);
    if (draw(i, 37, 4) == 0)
        tree_set_tails(c.t, 2 + (int32_t)draw(i, 38, 3), NULL);
    tree_set_window(c.t, features & 4 ? 1 + draw(i, 30, 40) : 0);
    c.p = problem_new(c.t, &c.spec, NULL);
    CK(c.p != NULL);
    c.orc = oracle_new(c.p);
    return c;
}

static void case_free(struct mp_case *c)
{
    oracle_free(c->orc);
    problem_free(c->p);
    tree_free(c->t);
}

/* What a case adds to the summary. Each row of a case is drawn, so that all queries and heads come up. */
struct tally {
    double o, lse, report, logit;
    double compared;
    int64_t ctx[ROWS_PER_CASE];
};

static void run_case(int32_t i, struct tally *y)
{
    CLEARED_BY(case_free) struct mp_case c = case_new(i);
    struct exact *a = exact_new(c.p->heads.d, BITS);
    for (int32_t k = 0; k < ROWS_PER_CASE; k++) {
        int64_t row = draw(i, 10 + (uint64_t)k, c.orc->n_rows);
        exact_row(a, c.p, row, 0);
        struct error err = judge_row(a, c.p, c.orc, row);
        y->o = fmax(y->o, err.o);
        y->lse = fmax(y->lse, err.lse);
        y->report = fmax(y->report, err.report);
        y->compared = fmax(y->compared, err.compared);
        y->logit = fmax(y->logit, mpfr_get_d(a->logit, MPFR_RNDN));
        y->ctx[k] = a->ctx;
    }
    exact_free(a);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

TEST(the_oracle_keeps_half_the_bound)
{
    static struct tally tally[N_CASES];
    double start = now_s(), o = 0, lse = 0, report = 0, logit = 0;
#pragma omp parallel if (mpfr_buildopt_tls_p())
    {
#pragma omp for schedule(dynamic, 8)
        for (int32_t i = 0; i < N_CASES; i++)
            run_case(i, &tally[i]);
        mpfr_free_cache();
    }
    static int64_t ctx[N_CASES * ROWS_PER_CASE];
    for (int32_t i = 0; i < N_CASES; i++) {
        const struct tally *y = &tally[i];
        ck_assert_msg(
            y->o <= half && y->lse <= half && y->compared <= half && y->report <= 1,
            "case %d (%s %s): O %.3g, LSE %.3g, %.3g by the comparator (expected at most %g), report %.3g", i,
            dtype_name[i % N_DTYPES], fill_name[i / N_DTYPES % N_FILLS], y->o, y->lse, y->compared, half,
            y->report);
        o = fmax(o, y->o);
        lse = fmax(lse, y->lse);
        report = fmax(report, y->report);
        logit = fmax(logit, y->logit);
        memcpy(ctx + i * ROWS_PER_CASE, y->ctx, sizeof y->ctx);
    }
    int32_t n = N_CASES * ROWS_PER_CASE;
    qsort(ctx, (size_t)n, sizeof *ctx, by_size);
    printf("mpfr: %d cases, %d rows, contexts %ld to %ld (median %ld), |logit| to %.0f, %.1f s: largest "
           "error in "
           "bounds O %.3f, LSE %.3f (allowed %.1f); of the report %.3f\n",
           N_CASES, n, (long)ctx[0], (long)ctx[n - 1], (long)ctx[n / 2], logit, now_s() - start, o, lse, half,
           report);
    fflush(stdout);
    ck_assert(ctx[0] == 0 && ctx[n / 2] >= 20 && ctx[n - 1] >= 300 && logit >= 5000);
    ck_assert_msg(o > 0 && lse > 0, "no error at all: the two are not independent");
}

/* 256 bits are enough if 512 say the same to far below a double's last place. */
TEST(more_bits_change_nothing)
{
    for (int32_t i = 0; i < N_DTYPES * N_FILLS; i++) {
        CLEARED_BY(case_free) struct mp_case c = case_new(i);
        struct exact *a = exact_new(c.p->heads.d, BITS), *b = exact_new(c.p->heads.d, 2 * BITS);
        exact_row(a, c.p, 0, 0);
        exact_row(b, c.p, 0, 0);
        for (int32_t e = -1; e < c.p->heads.d; e++) {
            mpfr_srcptr x = e < 0 ? a->lse : a->o[e], y = e < 0 ? b->lse : b->o[e];
            if (mpfr_equal_p(x, y))
                continue;
            mpfr_sub(b->x, x, y, MPFR_RNDA);
            mpfr_div(b->x, b->x, e < 0 ? b->lse : b->abs_o[e], MPFR_RNDA);
            ck_assert_msg(fabs(mpfr_get_d(b->x, MPFR_RNDA)) < 0x1p-200, "case %d element %d", i, e);
        }
        exact_free(a);
        exact_free(b);
    }
    mpfr_free_cache();
}

/* No certificate for an oracle that is off by 0.8 of the bound (rounding the sum to double may take 0.25 of
 * it back), has a NaN, or misses a token. */
TEST(a_wrong_oracle_is_found)
{
    for (int32_t i = 0; i < N_DTYPES * N_FILLS; i++) {
        CLEARED_BY(case_free) struct mp_case c = case_new(i);
        struct exact *a = exact_new(c.p->heads.d, BITS);
        int64_t row = -1;
        for (int64_t r = 0; r < c.orc->n_rows && row < 0; r++)
            if (c.t->query[r / c.p->heads.h_q].upto > 0)
                row = r;
        if (row >= 0) {
            exact_row(a, c.p, row, 0);
            double *o = c.orc->o + row * c.orc->d, *lse = c.orc->lse + row, o_was = *o, lse_was = *lse;
            struct error was = judge_row(a, c.p, c.orc, row);
            ck_assert(was.o <= half && was.lse <= half);
            *o = mpfr_get_d(a->o[0], MPFR_RNDN) + 0.8 * was.bound_o;
            ck_assert(judge_row(a, c.p, c.orc, row).o > half);
            *o = NAN;
            ck_assert(judge_row(a, c.p, c.orc, row).o > half);
            *o = o_was;
            *lse = mpfr_get_d(a->lse, MPFR_RNDN) + 0.8 * was.bound_lse;
            ck_assert(judge_row(a, c.p, c.orc, row).lse > half);
            *lse = lse_was;
            exact_row(a, c.p, row, 1);
            struct error lost = judge_row(a, c.p, c.orc, row);
            ck_assert(lost.report == INFINITY);
            ck_assert_msg(c.spec.fill == FILL_HUGE || c.spec.fill == FILL_ONEHOT ||
                              c.spec.fill == FILL_VAST || lost.lse > half,
                          "case %d: a lost token goes unseen", i);
        }
        exact_free(a);
    }
    mpfr_free_cache();
}
