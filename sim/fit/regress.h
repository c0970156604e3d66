/*
 * regress.h - linear fits of measured rows: one for every part (a kernel, say), judged on configurations they
 * have not seen.
 */
#ifndef TREEATTN_SIM_FIT_REGRESS_H
#define TREEATTN_SIM_FIT_REGRESS_H

#include "sim/fit/least_squares.h"

#ifdef __cplusplus
extern "C" {
#endif

struct regression {
    int64_t n; /* rows */
    int32_t p; /* columns, at most FIT_MAX_COEF */
    /* Columns may depend on coefficients that no linear fit can find, inside of a simulation. Then they come
     * in several variants, and every part takes the one that leaves the least squares on the rows it is
     * fitted to. */
    int32_t n_variants;      /* 1 or more */
    const double *x;         /* [n_variants][n][p] */
    const double *y;         /* [n] */
    const char *const *name; /* [p] */
    const int32_t *config;   /* [n] 0 .. n_configs - 1: rows that folds keep together */
    int32_t n_configs;
    const int32_t *part;          /* [n] 0 .. n_parts - 1: rows that share coefficients */
    int32_t n_parts;              /* 1 or more */
    const char *const *part_name; /* [n_parts], for messages */
    bool relative;                /* minimise errors relative to y, which is > 0; else absolute ones */
    bool nonneg;
    bool drop; /* columns that depend on those before them are left out of a part; else they are an error */
};

/* The fit of a part. */
struct part_fit {
    struct fit fit;
    int32_t variant;
    bool dropped[FIT_MAX_COEF]; /* left out with `drop`: the coefficient is 0 */
};

/* out[n_parts] from the rows with use[i] (NULL: all). */
bool regress(const struct regression *r, const bool *use, struct part_fit *out, struct err *e);

/* predicted[n] by the fit of each row's part. */
void regress_predict(const struct regression *r, const struct part_fit *f, double *predicted);

/* predicted[n], every row by a fit that has not seen its configuration: `folds` fits over the others, 2 ..
 * n_configs. */
bool regress_held_out(const struct regression *r, int32_t folds, uint64_t seed, double *predicted,
                      struct err *e);

#ifdef __cplusplus
}
#endif

#endif
