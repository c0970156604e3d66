/*
 * compare.c - the comparator; see compare.h for the order of its checks, tolerances.def for every constant.
 *
 * The bound of an element is derived from what the oracle reports about its row. O kept in a type narrower
 * than the accumulation type needs no share of it: a stored number stands for all the numbers that round to
 * it, so its error is the distance from the exact result to that interval. What half precision cannot show is
 * forgiven exactly and nothing else is.
 */
#include "verify/compare/compare.h"
#include "kernels/kernel.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOL(name, value, reason) static const double TOL_##name = value;
#include "verify/compare/tolerances.def"
#undef TOL

const char *const verdict_name[] = {"PASS", "MARGINAL", "FAIL", "SKIP"};

/* The longest chain of merges; in_order: a step of n inputs is n - 1 of them. Steps are taken launch by launch: a step's inputs
 * are of earlier launches. */
static int32_t merge_chain(const struct plan *p, bool in_order)
{
    int32_t *chain = xcalloc((size_t)p->n_slots, sizeof *chain), longest = 0;
    int64_t *first = xcalloc((size_t)p->n_launches, sizeof *first),
            *next = xcalloc((size_t)p->n_merges, sizeof *next);
    for (int32_t l = 0; l < p->n_launches; l++)
        first[l] = -1;
    for (int64_t m = 0; m < p->n_merges; m++) {
        next[m] = first[p->merge[m].launch];
        first[p->merge[m].launch] = m;
    }
    for (int32_t l = 0; l < p->n_launches; l++)
        for (int64_t m = first[l]; m >= 0; m = next[m]) {
            int64_t n_in = p->merge[m].in1 - p->merge[m].in0;
            int32_t before = 0, own = in_order ? (int32_t)max_i64(1, n_in - 1) : 1;
            for (int64_t i = p->merge[m].in0; i < p->merge[m].in1; i++)
                before = (int32_t)max_i64(before, chain[p->merge_in[i]]);
            if (p->merge[m].out != PLAN_NO_SLOT)
                chain[p->merge[m].out] = before + own;
            longest = (int32_t)max_i64(longest, before + own);
        }
    free(chain);
    free(first);
    free(next);
    return longest;
}

struct arithmetic arithmetic_of(const struct problem *p, const struct plan *plan, const struct kernel *k)
{
    struct arithmetic a = {.accumulate = p->heads.dtype == DT_F64 ? DT_F64 : DT_F32,
                           .partial_o = p->heads.dtype == DT_F64 ? DT_F64 : DT_F32,
                           .scores_stored = plan->unfused,
                           .sum_run = k->sum_run ? k->sum_run : INT64_MAX,
                           .in_order = !k->merges_at_once,
                           .merges = merge_chain(plan, !k->merges_at_once)};
    if (p->heads.dtype != DT_F64 && plan->slot_o == SLOT_O_F16 && plan->n_slots > 0)
        a.partial_o = DT_F16;
    if (k->narrow_p)
        a.probability = k->narrow_p_fp8 && heads_fp8(&p->heads) ? k->narrow_p_fp8 : p->heads.dtype;
    return a;
}

struct arithmetic arithmetic_declared(const struct kernel *k, const struct plan *plan, enum dtype inputs)
{
    const struct kernel_arithmetic *d = k->declared;
    int64_t merges = plan && k->point == POINT_ATTENTION ? merge_chain(plan, true) : 0;
    return (struct arithmetic){.accumulate = d->accumulate,
                               .partial_o = d->partial_o == N_DTYPES ? inputs : d->partial_o,
                               .probability = d->probability == N_DTYPES ? inputs : d->probability,
                               .sum_narrow = d->sum_narrow,
                               .sum_run = d->sum_run ? d->sum_run : INT64_MAX,
                               .in_order = true,
                               .lse_scaled = d->lse_scaled,
                               .merges = (int32_t)min_i64(max_i64(merges, d->merge_chain), INT32_MAX)};
}

/* Smallest positive number of each type: under it, spacing is no longer relative. */
static const double dtype_tiny[N_DTYPES] = {0x1p-1074, 0x1p-149, 0x1p-24, 0x1p-133};

/* What the bound of one row is made of. */
struct row_bound {
    /* Relative to abs_o[e]: errors of the weights, which add up to 1 whatever they are; all others. */
    double weights, rest;
    double others;         /* relative to range_o[e]: what all weights but the largest may add up to */
    double partial, prob;  /* roundoff of narrower partials, relative to abs_o[e], and of probabilities */
    double partial_tiny;   /* absolute: narrower partials below their type's normal numbers */
    double lse;            /* absolute */
    double narrow_lse;     /* absolute, beyond any cap: a sum of narrow probabilities */
    double prob_sum;       /* relative to |o[e]|: the same, in what O is divided by */
    double underflow;      /* relative to max_v[e], or to 1 if that is more */
    double vanish;         /* relative to max_v[e]: narrow probabilities below their type's normal numbers */
    double cap_o, cap_lse; /* absolute figures that hold besides; +inf where none does */
    double cap_weights;    /* relative to abs_o[e], what cap_o grows by: dot products of large terms */
};

/* How a number was rounded when it was stored: half the gap to its neighbours is u * its power of two. */
struct rounding {
    double u, half_tiny; /* both 0: stored as computed */
};

static struct rounding rounding_of(enum dtype stored, enum dtype computed)
{
    struct rounding r = {0, 0};
    if (dtype_unit[stored] > dtype_unit[computed])
        r = (struct rounding){dtype_unit[stored], dtype_tiny[stored] / 2};
    return r;
}

/* LSE is f64 for f64, else f32. In base 2, half a gap of a number up to 2 x / ln 2 comes to 1.4 of one of x; the number that is
 * then ours is rounded once more. */
static struct rounding rounding_of_lse(enum dtype output, const struct arithmetic *a)
{
    struct rounding r = rounding_of(output == DT_F64 ? DT_F64 : DT_F32, a->accumulate);
    double scale = a->lse_scaled ? 2.5 : 1;
    return (struct rounding){r.u * scale, r.half_tiny * scale};
}

/* Distance from `want` to the interval of numbers that are stored as `got`; both are finite. */
static inline double error_of(double got, double want, struct rounding r)
{
    double err = fabs(got - want);
    if (r.u == 0)
        return err;
    uint64_t bits;
    double pow2;
    memcpy(&bits, &got, sizeof bits);
    bits &= UINT64_C(0x7FF0000000000000);
    memcpy(&pow2, &bits, sizeof pow2);
    double half = r.u * pow2 > r.half_tiny ? r.u * pow2 : r.half_tiny;
    return err <= half ? 0 : err - half;
}

/* err in units of bound, or of the cap if it exceeds that. No error needs no bound; NaN stays NaN. */
static inline double ratio_of(double err, double bound, double cap)
{
    double ratio = err == 0 ? 0 : err / bound;
    return err > cap && err / cap > ratio ? err / cap : ratio;
}

static double row_max(const double *x, int64_t n)
{
    double m = 0;
    for (int64_t e = 0; e < n; e++)
        m = fabs(x[e]) > m ? fabs(x[e]) : m;
    return m;
}

/* The absolute figure that every row of the case must keep; 0 if none holds. */
static double cap_of(const struct oracle *orc, const struct arithmetic *a, double max_logit)
{
    if (!(max_logit <= TOL_CAP_LOGIT) || orc->d < TOL_CAP_MIN_D)
        return 0;
    return a->accumulate == DT_F64 ? TOL_CAP_F64 : TOL_CAP_F32;
}

/* The bound of row r, from the oracle's report alone: never from the output under test. */
static struct row_bound bound_of(const struct problem *p, const struct oracle *orc, int64_t r, int64_t ctx, const struct arithmetic *a,
                                 double cap)
{
    ctx += orc->sinks;
    double u = dtype_unit[a->accumulate], steps = log2(1 + (double)ctx);
    double logit = orc->logit[r], lse = isfinite(orc->lse[r]) ? fabs(orc->lse[r]) : 0;
    double stored = (a->scores_stored ? TOL_LOGIT_STORED : 0) + (orc->capped ? TOL_LOGIT_CAPPED : 0);
    double dot = u * TOL_DOT * sqrt(p->heads.d); /* relative to abs_dot */
    double delta = dot * orc->abs_dot[r] + u * (TOL_LOGIT + stored) * logit;
    double n = fmin(a->merges + orc->sinks, (double)ctx); /* what is empty is merged without an error */
    double merges = fmax(TOL_MERGE * sqrt(n), a->in_order ? TOL_MERGE_DRIFT * n : 0);
    double chain = u * merges * (1 + lse), weights = 2 * delta + chain;
    double oracle = dtype_unit[DT_F64] * TOL_ORACLE * (double)ctx;
    double in_order = fmax(0, fmin((double)a->sum_run, (double)ctx) - TOL_SUM_TILE);
    double run = u * (TOL_SUM_RUN * sqrt(in_order) + TOL_SUM_DRIFT * in_order);
    struct row_bound b = {
        .weights = weights,
        .rest = u * (TOL_SUM_BASE + TOL_SUM_LOG * steps) + run + oracle,
        .others = orc->gap ? fmin(1, fmax(0, (double)ctx - 1) * exp(weights - orc->gap[r])) : INFINITY,
        .underflow = TOL_UNDERFLOW * (double)ctx * (a->accumulate == DT_F64 ? DBL_MIN : FLT_MIN),
        .cap_o = INFINITY,
        .cap_lse = INFINITY,
        .lse = delta + u * (TOL_LSE_BASE + TOL_LSE_LOG * steps + TOL_LSE_OWN * lse) + run + chain + oracle,
    };
    if (dtype_unit[a->partial_o] > u)
        b.partial = TOL_PARTIAL * dtype_unit[a->partial_o];
    if (b.partial > 0)
        b.partial_tiny = TOL_PARTIAL * dtype_tiny[a->partial_o] / 2;
    if (dtype_unit[a->probability] > u) {
        /* Probabilities are relative to the largest logit; in O they count divided by their sum, at least e^(lse - logit). */
        b.prob = dtype_unit[a->probability];
        b.vanish = TOL_UNDERFLOW * (double)ctx * dtype_tiny[a->probability] / 2 *
                   fmin(1, exp(orc->logit[r] - orc->lse[r]));
    }
    if (a->sum_narrow) /* what vanishes is missing in it, too */
        b.narrow_lse = b.prob_sum = TOL_PROB_SUM * b.prob + b.vanish;
    if (cap > 0) {
        double beyond = dot * fmax(0, orc->abs_dot[r] - TOL_CAP_DOT);
        cap += run + (a->in_order ? chain : 0);
        b.cap_o = cap * row_max(orc->o + r * orc->d, orc->d);
        b.cap_weights = 2 * beyond;
        b.cap_lse = cap * fmax(1, lse) + beyond;
    }
    return b;
}

static inline double max_v(const struct oracle *orc, int64_t i)
{
    return orc->max_v ? orc->max_v[i] : TOL_BELL;
}

static inline double underflow_of(const struct row_bound *b, const struct oracle *orc, int64_t i)
{
    return b->underflow * fmax(1, max_v(orc, i));
}

/* What narrower partials and probabilities may add to element i of the oracle's O: beyond any cap. */
static inline double narrow_of(const struct row_bound *b, const struct oracle *orc, int64_t i)
{
    double narrow = b->partial * orc->abs_o[i] + b->partial_tiny;
    if (b->prob == 0)
        return narrow;
    double prob = TOL_PROB * orc->abs_o[i];
    if (orc->rms_o)
        prob = fmin(prob, TOL_PROB_SAME * fabs(orc->o[i]) + TOL_PROB_WALK * orc->rms_o[i]);
    return narrow + b->prob * prob + b->vanish * max_v(orc, i) + b->prob_sum * fabs(orc->o[i]);
}

/* What errors of logits and merges, and additions, may do to element i of the oracle's O. However wrong the weights are, O lies
 * between the largest and the smallest v. */
static inline double accumulated_of(const struct row_bound *b, const struct oracle *orc, int64_t i)
{
    double moved = b->weights * orc->abs_o[i], most = orc->range_o ? b->others * orc->range_o[i] : INFINITY;
    if (most < moved) /* what is moved is rounded as the rest is */
        moved = most * (1 + b->rest + TOL_PROB * b->prob + b->partial);
    return moved + b->rest * orc->abs_o[i];
}

double compare_bound(const struct problem *p, const struct oracle *orc, const struct arithmetic *a,
                     int64_t row, double *bound_o)
{
    struct row_bound b = bound_of(p, orc, row, orc->ctx[row / p->heads.h_q], a, 0);
    struct rounding o = rounding_of(p->heads.dtype, a->accumulate);
    for (int64_t e = 0, i = row * orc->d; e < orc->d; e++, i++)
        bound_o[e] = accumulated_of(&b, orc, i) + narrow_of(&b, orc, i) + underflow_of(&b, orc, i) +
                     fmax(o.u * fabs(orc->o[i]), o.half_tiny);
    struct rounding lse = rounding_of_lse(p->heads.dtype, a);
    return b.lse + b.narrow_lse +
           (isfinite(orc->lse[row]) ? fmax(lse.u * fabs(orc->lse[row]), lse.half_tiny) : 0);
}

double compare_weights(const struct problem *p, const struct oracle *orc, int64_t row, int64_t ctx, const struct arithmetic *a)
{
    return bound_of(p, orc, row, ctx, a, 0).weights;
}

/* Error of element i of O, in units of what is allowed, which is in *allowed. */
static inline double ratio_o(const struct row_bound *b, const struct oracle *orc, int64_t i, double got,
                             struct rounding round, double *allowed)
{
    double narrow = narrow_of(b, orc, i) + underflow_of(b, orc, i),
           bound = accumulated_of(b, orc, i) + narrow,
           cap = b->cap_o + b->cap_weights * orc->abs_o[i] + narrow;
    *allowed = fmin(bound, cap);
    return ratio_of(error_of(got, orc->o[i], round), bound, cap);
}

/* Remember the worst place so far; a ratio that is NaN counts as infinitely bad. */
static void note(struct comparison *c, double ratio, int64_t row, int32_t col, double got, double want,
                 double bound)
{
    if (!(ratio <= DBL_MAX))
        ratio = INFINITY;
    double *own = col < 0 ? &c->worst_lse : &c->worst_o;
    if (ratio > *own)
        *own = ratio;
    if (ratio > c->worst || c->row < 0) {
        c->worst = ratio;
        c->row = row;
        c->col = col;
        c->got = got;
        c->want = want;
        c->bound = bound;
    }
}

/* NaN, +inf and -inf sit where the oracle has them; else *c is filled and false returned. */
static bool check_kind(struct comparison *c, int64_t row, int32_t col, double got, double want)
{
    if (isfinite(want) ? isfinite(got) : isnan(want) ? isnan(got) : got == want)
        return true;
    c->row = -1;
    note(c, INFINITY, row, col, got, want, 0);
    return false;
}

/* One row of O. w_l2, e_l2 gather the whole array's squares. */
static bool compare_row(struct comparison *c, const struct oracle *orc, int64_t r, const double *got,
                        const struct row_bound *b, struct rounding round, double *e_l2, double *w_l2)
{
    int32_t d = orc->d;
    const double *want = orc->o + r * d;
    double max_err = 0, max_want = 0, worst = 0, sum_e = 0, sum_w = 0, allowed;
    bool good = true; /* every error and ratio compares <= DBL_MAX, which NaN does not */
    for (int32_t e = 0; e < d; e++) {
        double raw = fabs(got[e] - want[e]);
        double ratio = ratio_o(b, orc, r * d + e, got[e], round, &allowed);
        good = good && raw <= DBL_MAX && ratio <= DBL_MAX;
        if (ratio > worst)
            worst = ratio;
        max_err = raw > max_err ? raw : max_err;
        max_want = fabs(want[e]) > max_want ? fabs(want[e]) : max_want;
        sum_e += raw * raw;
        sum_w += want[e] * want[e];
    }
    if (!good || worst > c->worst_o || c->row < 0) {
        for (int32_t e = 0; e < d; e++) {
            if (!check_kind(c, r, e, got[e], want[e]))
                return false;
            double ratio = ratio_o(b, orc, r * d + e, got[e], round, &allowed);
            note(c, ratio, r, e, got[e], want[e], allowed);
        }
    }
    if (max_err > 0)
        c->rel_o = fmax(c->rel_o, max_err / max_want);
    *e_l2 += sum_e;
    *w_l2 += sum_w;
    return true;
}

static bool compare_lse(struct comparison *c, const struct oracle *orc, int64_t r, double got,
                        const struct row_bound *b, struct rounding round)
{
    double want = orc->lse[r];
    if (!check_kind(c, r, -1, got, want))
        return false;
    if (!isfinite(want))
        return true;
    double bound = b->lse + b->narrow_lse, cap = b->cap_lse + b->narrow_lse;
    note(c, ratio_of(error_of(got, want, round), bound, cap), r, -1, got, want, fmin(bound, cap));
    c->rel_lse = fmax(c->rel_lse, fabs(got - want) / fmax(1, fabs(want)));
    return true;
}

static bool shapes_agree(struct comparison *c, const struct problem *p, const struct oracle *orc,
                         const struct output *out)
{
    int64_t rows = (int64_t)p->tree->n_queries * p->heads.h_q;
    if (out->n_rows == rows && orc->n_rows == rows && out->d == heads_d_v(&p->heads) && orc->d == heads_d_v(&p->heads) &&
        out->dtype == p->heads.dtype)
        return true;
    c->worst = c->worst_o = c->worst_lse = INFINITY;
    c->verdict = V_FAIL;
    snprintf(c->why, sizeof c->why,
             "shape: output %lld x %d %s, oracle %lld x %d, problem %lld x %d %s (expected the problem's)",
             (long long)out->n_rows, out->d, dtype_name[out->dtype], (long long)orc->n_rows, orc->d,
             (long long)rows, heads_d_v(&p->heads), dtype_name[p->heads.dtype]);
    return false;
}

void compare_tell(struct comparison *c, int32_t h_q, const char *of_nan)
{
    char where[32] = "LSE";
    if (c->col >= 0)
        snprintf(where, sizeof where, "O[%d]", c->col);
    int digits = fabs(c->got - c->want) < 1e-7 * fabs(c->want) ? 17 : 9; /* so that they differ */
    if (isnan(c->got))                                                   /* whose sign says nothing */
        snprintf(c->why, sizeof c->why, "query %lld head %lld %s is nan%s%s%s, oracle has %.*g",
                 (long long)(c->row / h_q), (long long)(c->row % h_q), where, *of_nan ? " (" : "", of_nan,
                 *of_nan ? ")" : "", digits, c->want);
    else
        snprintf(c->why, sizeof c->why,
                 "query %lld head %lld %s is %.*g, oracle has %.*g (error allowed: %.3g)",
                 (long long)(c->row / h_q), (long long)(c->row % h_q), where, digits, c->got, digits, c->want,
                 c->bound);
}

static void decide(struct comparison *c, int32_t h_q)
{
    static const char *const of[] = {[NAN_COMPUTED] = "",
                                     [NAN_UNWRITTEN] = "never written",
                                     [NAN_POISON] = "read from memory that is nobody's"};
    c->verdict = V_FAIL;
    if (c->worst <= 1)
        c->verdict = c->worst <= TOL_MARGINAL ? V_PASS : V_MARGINAL;
    if (c->verdict == V_FAIL)
        compare_tell(c, h_q, isnan(c->got) ? of[nan_kind(c->got)] : "");
}

struct comparison compare_output(const struct problem *p, const struct oracle *orc, const struct output *out,
                                 const struct arithmetic *a)
{
    struct comparison c = {.row = -1, .col = -1};
    if (!shapes_agree(&c, p, orc, out))
        return c;
    struct rounding round_o = rounding_of(out->dtype, a->accumulate);
    struct rounding round_lse = rounding_of_lse(out->dtype, a);
    double got[PROBLEM_MAX_ROW], e_l2 = 0, w_l2 = 0;
    c.max_logit = row_max(orc->capped ? orc->abs_dot : orc->logit, orc->n_rows);
    double cap = cap_of(orc, a, c.max_logit);
    bool finite = true;
    for (int64_t r = 0; r < orc->n_rows && finite; r++) {
        struct row_bound b = bound_of(p, orc, r, orc->ctx[r / p->heads.h_q], a, cap);
        dtype_to_double(out->dtype, out->o, r * out->d, got, out->d);
        finite = compare_row(&c, orc, r, got, &b, round_o, &e_l2, &w_l2) &&
                 compare_lse(&c, orc, r, output_lse(out, r), &b, round_lse);
    }
    c.rel_l2 = e_l2 == 0 ? 0 : sqrt(e_l2 / w_l2);
    decide(&c, p->heads.h_q);
    return c;
}

double compare_row_error(const struct problem *p, const struct oracle *orc, const struct output *out,
                         const struct arithmetic *a, const struct comparison *c, int64_t r)
{
    struct comparison one = {.row = -1, .col = -1};
    struct row_bound b = bound_of(p, orc, r, orc->ctx[r / p->heads.h_q], a, cap_of(orc, a, c->max_logit));
    double got[PROBLEM_MAX_ROW], ignored = 0;
    dtype_to_double(out->dtype, out->o, r * out->d, got, out->d);
    if (compare_row(&one, orc, r, got, &b, rounding_of(out->dtype, a->accumulate), &ignored, &ignored))
        compare_lse(&one, orc, r, output_lse(out, r), &b, rounding_of_lse(out->dtype, a));
    return one.worst;
}
