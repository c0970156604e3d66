/*
 * fit_treeattn_cost.h - the coefficients of treeattn_cost.h from measured times.
 *
 * A model that chooses among plans need not be right about bad ones. So the fit has two parts. The first fits
 * all times; plans near the fastest of their configuration weigh most. The second lowers the cost of choosing
 * by the model, as a smooth function: the plans of a configuration count by how near the model has them to
 * the cheapest, sharper each time.
 */
#ifndef TREEATTN_SIM_FIT_FIT_TREEATTN_COST_H
#define TREEATTN_SIM_FIT_FIT_TREEATTN_COST_H

#include "sim/time/treeattn_cost.h"
#include "sim/fit/models.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "rows_16.begin", .., "kernel", .. */
extern const struct trait tile_traits[N_TILE_COEFS];

struct tile_rows {
    int64_t n;
    const struct tile_bill *bill; /* [n] */
    const struct tile_env *env;   /* [n] */
    const double *seconds;        /* [n], > 0 */
    const int32_t *config;        /* [n] 0 .. n_configs - 1: plans that are chosen from */
    int32_t n_configs;
};

/* same[n]: the first row of the configuration that has row i's bill, which may be i. */
void tile_rows_same(const struct tile_rows *r, int64_t *same);

/* coef[N_TILE_COEFS] from the rows with use[i] (NULL: all), of which there is at least one. */
void treeattn_cost_fit(const struct tile_rows *r, const bool *use, double *coef);

/* seconds[n], `base` included. */
void treeattn_cost_predict(const struct tile_rows *r, const double *coef, double *seconds);

/* seconds[n], every row by a fit that has not seen its configuration: `folds` fits over the others, 2 ..
 * n_configs. done is called after each; it may be NULL. */
bool treeattn_cost_held_out(const struct tile_rows *r, int32_t folds, uint64_t seed, double *seconds,
                         void (*done)(void *), void *arg, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
