/*
 * least_squares.h - least squares and minima by GSL, and what is wrong with a fit.
 *
 * GSL is under the GPL. least_squares.c alone uses it. That file is linked into the program and its tests and
 * is no part of libtreeattn.a, so a kernel that links the library stays free of it. Ranks, folds and quality
 * are plain C (quality.h).
 */
#ifndef TREEATTN_SIM_FIT_LEAST_SQUARES_H
#define TREEATTN_SIM_FIT_LEAST_SQUARES_H

#include "sim/fit/quality.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FIT_MAX_COEF = 96 };

/* y[i] ~ sum over j of coef[j] x[i][j]; an intercept is a column of ones. Everything finite. */
struct fit_data {
    int64_t n;               /* rows, more than p */
    int32_t p;               /* columns, 1 .. FIT_MAX_COEF */
    const double *x;         /* [n][p] */
    const double *y;         /* [n] */
    const double *weight;    /* [n], of the squared residuals, > 0; NULL: all 1 */
    const char *const *name; /* [p], for messages */
};

struct fit {
    int32_t p;
    double coef[FIT_MAX_COEF];
    double error[FIT_MAX_COEF]; /* standard errors; 0 where a bound holds the coefficient */
    bool held[FIT_MAX_COEF];    /* a coefficient that wanted to be negative and was held at 0 */
    double r2;                  /* 1 - sum w residual^2 / sum w (y - weighted mean)^2; NaN if y is constant */
    double squares;             /* sum w residual^2 */
    double condition;           /* largest over smallest singular value, columns scaled to length 1 */
};

/*
 * Weighted linear least squares by singular values (gsl_multifit_linear on rows scaled by sqrt(weight)). With
 * `nonneg` no coefficient is negative (Lawson and Hanson's active set). False with *e set: too few rows, or
 * columns that depend on each other, by name.
 */
bool fit_linear(const struct fit_data *d, bool nonneg, struct fit *out, struct err *e);

/* A function of positive values that is to become small. */
struct fit_search {
    int32_t p;                  /* at most FIT_MAX_COEF */
    const double *least, *most; /* [p] bounds, > 0 */
    /* Finite; slope[p]: how it grows with the logarithm of each. */
    double (*of)(const double *x, double *slope, const void *data);
    const void *data;
    int32_t steps; /* at most */
};

/*
 * Moves x[p] from where it is to a local minimum, and returns the function's value there. x is put inside of
 * its bounds first. BFGS (gsl_multimin) works on logits of where each logarithm lies between its bounds. It
 * ends early where no step makes the function smaller, as at a kink.
 */
double fit_search(const struct fit_search *s, double *x);

/* out[n] = the fitted values of n rows x[n][p]. */
void fit_predict(const struct fit *f, int64_t n, const double *x, double *out);

#ifdef __cplusplus
}
#endif

#endif
