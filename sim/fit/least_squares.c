#include "sim/fit/least_squares.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Singular values below this share of the largest, columns scaled to length 1, count as zero: a coefficient
 * would rest on the last six digits of a double. */
#define RANK_TOLERANCE 1e-10
/* Columns with at least this share in a direction that moves nothing are named as dependent on each other. */
#define NAMED_SHARE 1e-3

/* GSL's own handler aborts. Every status is looked at here, but what could not be allocated is used at once. */
static void on_gsl_error(const char *reason, const char *file, int line, int status)
{
    (void)file, (void)line;
    if (status != GSL_ENOMEM)
        return;
    fprintf(stderr, "treeattn: out of memory: %s\n", reason);
    exit(EXIT_MISSING);
}

/* Rows and columns scaled: x[i][j] sqrt(w[i]) / length[j]. */
struct scaled {
    gsl_matrix *x;
    gsl_vector *y;
    double length[FIT_MAX_COEF];
};

static void scaled_free(struct scaled *s)
{
    gsl_matrix_free(s->x);
    gsl_vector_free(s->y);
}

static bool scale(const struct fit_data *d, struct scaled *s, struct err *e)
{
    if (d->n <= d->p)
        return err_set(e, "%lld rows for %d coefficients (expected more rows than coefficients)",
                       (long long)d->n, (int)d->p);
    for (int32_t j = 0; j < d->p; j++) {
        double norm = 0;
        for (int64_t i = 0; i < d->n; i++)
            norm = hypot(norm, d->x[i * d->p + j] * (d->weight ? sqrt(d->weight[i]) : 1));
        if (norm == 0)
            return err_set(e, "column '%s' is 0 in every row (expected columns that differ from 0)",
                           d->name[j]);
        if (!isfinite(norm))
            return err_set(e, "column '%s' is too large to be fitted (expected a sum of squares below 1e308)",
                           d->name[j]);
        s->length[j] = norm;
    }
    s->x = gsl_matrix_alloc((size_t)d->n, (size_t)d->p);
    s->y = gsl_vector_alloc((size_t)d->n);
    CK(s->x && s->y);
    for (int64_t i = 0; i < d->n; i++) {
        double w = d->weight ? sqrt(d->weight[i]) : 1;
        gsl_vector_set(s->y, (size_t)i, w * d->y[i]);
        for (int32_t j = 0; j < d->p; j++)
            gsl_matrix_set(s->x, (size_t)i, (size_t)j, w * d->x[i * d->p + j] / s->length[j]);
    }
    return true;
}

/* The columns in the flattest direction, by name: "a, b and c". */
static char *name_dependent(const struct fit_data *d, const gsl_multifit_linear_workspace *w)
{
    char *list = xstrdup("");
    int32_t left = 0;
    for (int32_t j = 0; j < d->p; j++)
        left += fabs(gsl_matrix_get(w->Q, (size_t)j, (size_t)d->p - 1)) >= NAMED_SHARE;
    for (int32_t j = 0; j < d->p; j++) {
        if (fabs(gsl_matrix_get(w->Q, (size_t)j, (size_t)d->p - 1)) < NAMED_SHARE)
            continue;
        xappend(&list, "%s'%s'", !list[0] ? "" : left == 1 ? " and " : ", ", d->name[j]);
        left--;
    }
    return list;
}

/* Singular values of the scaled columns; false if they do not have full rank. */
static bool check_rank(const struct fit_data *d, const struct scaled *s, double *condition, struct err *e)
{
    gsl_multifit_linear_workspace *w = gsl_multifit_linear_alloc((size_t)d->n, (size_t)d->p);
    CK(w);
    bool good = gsl_multifit_linear_svd(s->x, w) == GSL_SUCCESS;
    CK(good);
    double most = gsl_vector_get(w->S, 0), least = gsl_vector_get(w->S, (size_t)d->p - 1);
    *condition = most / least;
    if (least < RANK_TOLERANCE * most) {
        char *list = name_dependent(d, w);
        good = err_set(e, "columns %s depend on each other (expected independent ones; leave one out)", list);
        free(list);
    }
    gsl_multifit_linear_free(w);
    return good;
}

/* Least squares over the columns with use[j]: coefficients and their errors, 0 elsewhere. */
static void solve(const struct scaled *s, int32_t p, const bool *use, double *coef, double *error)
{
    size_t n = s->y->size, k = 0, column[FIT_MAX_COEF];
    for (int32_t j = 0; j < p; j++) {
        coef[j] = error[j] = 0;
        if (use[j])
            column[k++] = (size_t)j;
    }
    if (k == 0)
        return;
    gsl_matrix *x = gsl_matrix_alloc(n, k), *cov = gsl_matrix_alloc(k, k);
    gsl_vector *c = gsl_vector_alloc(k);
    gsl_multifit_linear_workspace *w = gsl_multifit_linear_alloc(n, k);
    CK(x && cov && c && w);
    for (size_t a = 0; a < k; a++) {
        gsl_vector_const_view from = gsl_matrix_const_column(s->x, column[a]);
        gsl_matrix_set_col(x, a, &from.vector);
    }
    double chisq;
    CK(gsl_multifit_linear(x, s->y, c, cov, &chisq, w) == GSL_SUCCESS);
    for (size_t a = 0; a < k; a++) {
        coef[column[a]] = gsl_vector_get(c, a);
        error[column[a]] = sqrt(gsl_matrix_get(cov, a, a));
    }
    gsl_multifit_linear_free(w);
    gsl_vector_free(c);
    gsl_matrix_free(cov);
    gsl_matrix_free(x);
}

static double residual(const struct scaled *s, int32_t p, const double *coef, size_t i)
{
    double r = gsl_vector_get(s->y, i);
    for (int32_t j = 0; j < p; j++)
        r -= coef[j] * gsl_matrix_get(s->x, i, (size_t)j);
    return r;
}

/* The column outside that lowers the error most when its coefficient grows from 0; -1 if none does. */
static int32_t most_wanted(const struct scaled *s, int32_t p, const bool *use, const double *coef)
{
    double gain[FIT_MAX_COEF] = {0}, norm = 0, most = 0;
    int32_t best = -1;
    for (size_t i = 0; i < s->y->size; i++) {
        double r = residual(s, p, coef, i);
        norm = hypot(norm, gsl_vector_get(s->y, i));
        for (int32_t j = 0; j < p; j++)
            gain[j] += r * gsl_matrix_get(s->x, i, (size_t)j);
    }
    for (int32_t j = 0; j < p; j++)
        if (!use[j] && gain[j] > fmax(most, 1e-10 * norm)) { /* less is rounding */
            most = gain[j];
            best = j;
        }
    return best;
}

/*
 * Lawson and Hanson, Solving Least Squares Problems, 1974, algorithm NNLS. Columns enter one at a time. Where
 * the solution over those inside has a coefficient that is not positive, go towards it until the first
 * coefficient arrives at 0, and take its column out.
 */
static void solve_nonneg(const struct scaled *s, int32_t p, bool *use, double *coef, double *error)
{
    double want[FIT_MAX_COEF];
    int32_t enter;
    for (int32_t j = 0; j < p; j++) {
        use[j] = false;
        coef[j] = 0;
    }
    for (int32_t turn = 0; turn < 3 * p && (enter = most_wanted(s, p, use, coef)) >= 0; turn++) {
        use[enter] = true;
        for (;;) {
            int32_t leave = -1;
            double step = 1;
            solve(s, p, use, want, error);
            for (int32_t j = 0; j < p; j++) {
                double reach = use[j] && want[j] <= 0 ? coef[j] / (coef[j] - want[j]) : 1;
                if (reach < step) {
                    step = reach;
                    leave = j;
                }
            }
            for (int32_t j = 0; j < p; j++)
                coef[j] += step * (want[j] - coef[j]);
            if (leave < 0)
                break;
            use[leave] = false;
            coef[leave] = 0;
        }
    }
    solve(s, p, use, coef, error);
}

/* What is left, and its share of what the weighted mean leaves. */
static void quality_of(const struct fit_data *d, struct fit *f)
{
    double sum = 0, weight = 0, total = 0;
    for (int64_t i = 0; i < d->n; i++) {
        double w = d->weight ? d->weight[i] : 1;
        weight += w;
        sum += w * d->y[i];
    }
    for (int64_t i = 0; i < d->n; i++) {
        double w = d->weight ? d->weight[i] : 1, predicted, off = d->y[i] - sum / weight;
        fit_predict(f, 1, d->x + i * d->p, &predicted);
        f->squares += w * (d->y[i] - predicted) * (d->y[i] - predicted);
        total += w * off * off;
    }
    f->r2 = total > 0 ? 1 - f->squares / total : NAN;
}

bool fit_linear(const struct fit_data *d, bool nonneg, struct fit *out, struct err *e)
{
    CK(d->p >= 1 && d->p <= FIT_MAX_COEF);
    gsl_set_error_handler(on_gsl_error);
    struct scaled s = {0};
    bool use[FIT_MAX_COEF];
    *out = (struct fit){.p = d->p};
    if (!scale(d, &s, e))
        return false;
    bool good = check_rank(d, &s, &out->condition, e);
    if (good) {
        for (int32_t j = 0; j < d->p; j++)
            use[j] = true;
        if (nonneg)
            solve_nonneg(&s, d->p, use, out->coef, out->error);
        else
            solve(&s, d->p, use, out->coef, out->error);
        for (int32_t j = 0; j < d->p; j++) {
            out->coef[j] /= s.length[j];
            out->error[j] /= s.length[j];
            out->held[j] = !use[j];
        }
        quality_of(d, out);
    }
    scaled_free(&s);
    return good;
}

void fit_predict(const struct fit *f, int64_t n, const double *x, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0;
        for (int32_t j = 0; j < f->p; j++)
            out[i] += f->coef[j] * x[i * f->p + j];
    }
}

/* ---- minima ------------------------------------------------------------------------------------------- */

/* The first step, of all logits together. A step may end where the function is this much flatter than where
 * the step begins. More exact steps end at the first kink, and the functions of fit_treeattn_cost.c have
 * many. */
#define SEARCH_STEP 1
#define SEARCH_TOLERANCE 0.5
/* A search begins no nearer to a bound than this share of the way between the bounds: nearer, nothing moves.
 * */
#define SEARCH_MARGIN 1e-3

static double way_between(const struct fit_search *s, int32_t j)
{
    return log(s->most[j] / s->least[j]);
}

/* The whole way between its bounds over what is done of it. */
static double whole_over_done(const gsl_vector *z, int32_t j)
{
    return 1 + exp(-gsl_vector_get(z, (size_t)j));
}

static void unlogit(const struct fit_search *s, const gsl_vector *z, double *x)
{
    for (int32_t j = 0; j < s->p; j++)
        x[j] = s->least[j] * exp(way_between(s, j) / whole_over_done(z, j));
}

/* g may be NULL. */
static void search_fdf(const gsl_vector *z, void *data, double *f, gsl_vector *g)
{
    const struct fit_search *s = data;
    double x[FIT_MAX_COEF], slope[FIT_MAX_COEF];
    unlogit(s, z, x);
    *f = s->of(x, slope, s->data);
    for (int32_t j = 0; j < s->p && g; j++) {
        double at = 1 / whole_over_done(z, j);
        gsl_vector_set(g, (size_t)j, slope[j] * way_between(s, j) * at * (1 - at));
    }
}

static double search_f(const gsl_vector *z, void *data)
{
    double f;
    search_fdf(z, data, &f, NULL);
    return f;
}

static void search_df(const gsl_vector *z, void *data, gsl_vector *g)
{
    double f;
    search_fdf(z, data, &f, g);
}

double fit_search(const struct fit_search *s, double *x)
{
    gsl_error_handler_t *handler = gsl_set_error_handler(on_gsl_error);
    struct fit_search copy = *s;
    gsl_multimin_function_fdf f = {
        .f = search_f, .df = search_df, .fdf = search_fdf, .n = (size_t)s->p, .params = &copy};
    gsl_vector *z = gsl_vector_alloc((size_t)s->p);
    gsl_multimin_fdfminimizer *m =
        gsl_multimin_fdfminimizer_alloc(gsl_multimin_fdfminimizer_vector_bfgs2, (size_t)s->p);
    CK(z && m);
    for (int32_t j = 0; j < s->p; j++) {
        double at = log(x[j] / s->least[j]) / way_between(s, j);
        at = fmin(fmax(at, SEARCH_MARGIN), 1 - SEARCH_MARGIN);
        gsl_vector_set(z, (size_t)j, log(at / (1 - at)));
    }
    CK(gsl_multimin_fdfminimizer_set(m, &f, z, SEARCH_STEP, SEARCH_TOLERANCE) == GSL_SUCCESS);
    for (int32_t i = 0; i < s->steps && gsl_multimin_fdfminimizer_iterate(m) == GSL_SUCCESS; i++)
        ;
    unlogit(s, m->x, x);
    double least = m->f;
    gsl_multimin_fdfminimizer_free(m);
    gsl_vector_free(z);
    gsl_set_error_handler(handler);
    return least;
}
