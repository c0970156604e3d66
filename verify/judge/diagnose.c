/* diagnose.c - guesses at what went wrong with one row. */
#include "verify/judge/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Far above rounding, far below what any of these mistakes makes. O may be stored in 16 bits, LSE never is. */
#define CLOSE_O 1e-2
#define CLOSE_LSE 1e-4

struct row {
    const struct problem *p;
    const struct oracle *orc;
    const struct comparison *c;
    int64_t r;
    double o[PROBLEM_MAX_D], lse; /* as written */
    char *guess;
    size_t size;
};

/* The guess; returns true. */
__attribute__((format(printf, 2, 3))) static bool says(const struct row *x, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(x->guess, x->size, fmt, ap);
    va_end(ap);
    return true;
}

static bool close_to(double got, double want)
{
    return fabs(got - want) <= CLOSE_LSE * fmax(1, fabs(want));
}

/* Is what was written the oracle's row r times `factor`? */
static bool holds(const struct row *x, int64_t r, double factor)
{
    const double *want = x->orc->o + r * x->orc->d;
    double most = 0;
    for (int32_t e = 0; e < x->orc->d; e++)
        most = fmax(most, fabs(factor * want[e]));
    for (int32_t e = 0; e < x->orc->d; e++)
        if (!(fabs(x->o[e] - factor * want[e]) <= CLOSE_O * most))
            return false;
    return true;
}

static bool is_row(const struct row *x, int64_t r)
{
    return holds(x, r, 1) && close_to(x->lse, x->orc->lse[r]);
}

/* NaN, infinities, zeros. */
static bool guess_kind(const struct row *x)
{
    double want = x->orc->lse[x->r];
    int32_t nans = 0, zeros = 0;
    for (int32_t e = 0; e < x->orc->d; e++) {
        nans += isnan(x->o[e]);
        zeros += x->o[e] == 0;
    }
    if (isinf(want) && (nans || !isinf(x->lse) || x->lse > 0))
        return says(x, "a query that sees nothing is not given O = 0 and LSE = -inf");
    if (nans == x->orc->d && isnan(x->lse))
        return says(x, "a row that nobody wrote, or poison was read");
    if (nans == x->orc->d && close_to(x->lse, want))
        return says(x, "O that nobody wrote, or poison of V was read");
    if (isnan(x->lse) && holds(x, x->r, 1))
        return says(x, "an LSE that nobody wrote");
    if (nans || isnan(x->lse))
        return says(x, "poison was read, or 0 * inf, inf - inf or 0 / 0 computed");
    if (x->lse == -INFINITY && isfinite(want))
        return says(x, "the row says that its query sees nothing: partials lost or overwritten");
    return zeros == x->orc->d && !holds(x, x->r, 1) &&
           says(x, "O is all zeros: not computed, or not written back");
}

/* Another row's answer, O and LSE. */
static bool guess_swap(const struct row *x)
{
    int32_t h = x->p->heads.h_q;
    for (int64_t r = 0; r < x->orc->n_rows && !is_row(x, x->r); r++)
        if (is_row(x, r) && r / h == x->r / h)
            return says(x, "query %" PRId64 ": head %" PRId64 " holds the answer of head %" PRId64, r / h,
                        x->r % h, r % h);
        else if (is_row(x, r))
            return says(
                x, "query %" PRId64 " head %" PRId64 " holds the answer of query %" PRId64 " head %" PRId64,
                x->r / h, x->r % h, r / h, r % h);
    return false;
}

/* Scores so far below 0 that a number which stands for "none" is above them. */
static bool is_sunk(const struct row *x)
{
    double want = x->orc->lse[x->r];
    return isfinite(want) && want < -100; /* e^-104 is 0 in a float */
}

static bool guess_underflow(const struct row *x)
{
    return is_sunk(x) && x->lse == -INFINITY &&
           says(x, "all scores are far below 0, and all weights were 0: does their maximum begin at -inf?");
}

static bool guess_hidden(const struct row *x)
{
    return is_sunk(x) && x->lse > x->orc->lse[x->r] + 100 &&
           says(x, "all scores are far below 0: is that of a hidden token, or of padding, a number and not "
                   "-inf?");
}

/* With Q = 0 the softmax is uniform and LSE says how many tokens were read. */
static bool guess_count(const struct row *x)
{
    double n = exp(x->lse);
    int64_t ctx = x->orc->ctx[x->r / x->p->heads.h_q], read = llround(fmin(n, 1e15));
    if (x->orc->abs_dot[x->r] != 0 || n > 2000 || fabs(n - (double)read) > CLOSE_LSE * n || read == ctx)
        return false;
    return says(x, "%" PRId64 " tokens were counted, the query sees %" PRId64, read, ctx);
}

/* LSE counts tokens where all scores are 0: right whatever else is wrong. */
static bool has_no_scores(const struct row *x)
{
    return x->orc->abs_dot[x->r] == 0;
}

static bool guess_lse(const struct row *x)
{
    double want = x->orc->lse[x->r], off = x->lse - want;
    bool right_o = holds(x, x->r, 1);
    if (!isfinite(x->lse) || close_to(x->lse, want))
        return false;
    if (right_o && close_to(x->lse / want, M_LOG2E))
        return says(x, "LSE in base 2 (1.4427 times what it should be)");
    if (right_o && close_to(x->lse / want, M_LN2))
        return says(x, "LSE turned from base 2 twice (0.6931 times what it should be)");
    if (close_to(off, M_LN2))
        return says(x, "every token counted twice (LSE too large by ln 2)");
    if (close_to(off, -M_LN2))
        return says(x, "half the weight is missing (LSE too small by ln 2)");
    bool one_token = x->orc->ctx[x->r / x->p->heads.h_q] == 1; /* of which O is V, whatever the softmax */
    return right_o && x->c->worst_o <= 1 && !one_token && says(x, "O is right, LSE alone is wrong");
}

/* What the row would be with another scale, which wrong exponentials come down to as well. */
static const struct {
    double factor;
    int to_scale, to_sqrt_d; /* powers: of the problem's scale, which they begin with, and of sqrt(d) */
    const char *says;
} scales[] = {{1, 0, 0, "scores are not divided by sqrt(d), or not multiplied by the scale given"},
              {1, 2, 0, "scores are divided by sqrt(d) twice, or multiplied by the scale given twice"},
              {1, 0, -1, "the scale given is not used: scores are divided by sqrt(d)"},
              {M_LN2, 1, 0, "exp2 where exp should be, or scores lack a factor of log2(e)"},
              {M_LOG2E, 1, 0, "scores have a factor of log2(e) before exp, not exp2"}};

/* The answer of the row's query with scores of another scale; the caller frees. */
static struct oracle *with_scale(const struct row *x, double scale)
{
    int64_t q = x->r / x->p->heads.h_q;
    struct tree one = *x->p->tree;
    struct problem alone = *x->p;
    one.n_queries = 1;
    one.query += q;
    alone.tree = &one;
    alone.q = (char *)x->p->q + q * x->p->heads.h_q * x->p->heads.d * heads_elt_bytes(&x->p->heads);
    alone.scale = scale;
    return oracle_new(&alone);
}

static bool guess_scale(const struct row *x)
{
    if (has_no_scores(x) || is_row(x, x->r))
        return false;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0] && !x->guess[0]; i++) {
        struct oracle *would = with_scale(x, scales[i].factor * pow(x->p->scale, scales[i].to_scale) *
                                                 pow(sqrt(x->p->heads.d), scales[i].to_sqrt_d));
        struct row y = *x;
        int64_t r = x->r % x->p->heads.h_q;
        double lse = would->lse[r];
        if (scales[i].factor == M_LN2 && !close_to(x->lse, lse))
            lse /= M_LN2; /* left in base 2 */
        y.orc = would;
        if (holds(&y, r, 1) && close_to(x->lse, lse) && !close_to(lse, x->orc->lse[x->r]))
            says(x, "%s", scales[i].says);
        oracle_free(would);
    }
    return x->guess[0] != 0;
}

/* O or LSE of another row, the other of the two its own: a layout that differs. */
static bool guess_place(const struct row *x)
{
    bool own_o = holds(x, x->r, 1), own_lse = close_to(x->lse, x->orc->lse[x->r]);
    int64_t h = x->p->heads.h_q;
    if (own_o == own_lse)
        return false;
    for (int64_t r = 0; r < x->orc->n_rows; r++)
        if (own_lse ? holds(x, r, 1) : fabs(x->lse - x->orc->lse[r]) <= 1e-6 * fmax(1, fabs(x->lse)))
            return says(x,
                        "%s of query %" PRId64 " head %" PRId64 " is that of query %" PRId64 " head %" PRId64,
                        own_lse ? "O" : "LSE", x->r / h, x->r % h, r / h, r % h);
    return false;
}

/* LSE right, O not. */
static bool guess_o(const struct row *x)
{
    const double *want = x->orc->o + x->r * x->orc->d;
    double dot = 0, square = 0;
    if (!close_to(x->lse, x->orc->lse[x->r]))
        return false;
    for (int32_t e = 0; e < x->orc->d; e++) {
        dot += x->o[e] * want[e];
        square += want[e] * want[e];
    }
    double factor = dot / square;
    if (square > 0 && fabs(factor - 1) > CLOSE_O && holds(x, x->r, factor))
        return says(x, "O is %.4g times what it should be: a division or a weight is missing", factor);
    if (x->c->worst_lse <= 1 && !has_no_scores(x) && !holds(x, x->r, 1))
        return says(x, "LSE is right, O alone is wrong: V, or how partials are weighted");
    return false;
}

void diagnose(const struct problem *p, const struct oracle *orc, const struct output *out,
              const struct comparison *c, char *guess, size_t size)
{
    guess[0] = 0;
    if (c->row < 0 || c->row >= out->n_rows || out->n_rows != orc->n_rows || out->d != orc->d)
        return;
    struct row x = {.p = p,
                    .orc = orc,
                    .c = c,
                    .r = c->row,
                    .lse = output_lse(out, c->row),
                    .guess = guess,
                    .size = size};
    dtype_to_double(out->dtype, out->o, c->row * out->d, x.o, out->d);
    (void)(guess_underflow(&x) || guess_kind(&x) || guess_swap(&x) || guess_count(&x) || guess_place(&x) ||
           guess_lse(&x) || guess_scale(&x) || guess_hidden(&x) || guess_o(&x));
}
