/*
 * quality.h - how good predictions are: errors, rankings, and the folds that keep rows back.
 *
 * Rows belong to configurations (one tree, heads, head size, type): `config[i]` is a number from 0. All rows
 * of a configuration fall in the same fold, so that no tree is both learnt from and tested on.
 */
#ifndef TREEATTN_SIM_FIT_QUALITY_H
#define TREEATTN_SIM_FIT_QUALITY_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kendall's tau-b of n pairs (ties in x or y counted as such), in O(n log n); NaN if all x or all y are
 * equal. */
double kendall_tau(int64_t n, const double *x, const double *y);

/* Configurations to folds 0 .. folds-1, shuffled by the seed, sizes that differ by one at most. */
void fold_assign(int32_t n_configs, int32_t folds, uint64_t seed, int32_t *fold);

/* Fits the rows with use[i] and predicts all rows. False with *e set if there is no fit. */
typedef bool fold_fit(const void *rows, const bool *use, double *predicted, struct err *e);

/* predicted[n], every row by a fit that has not seen its configuration: `folds` fits over the others, 2 ..
 * n_configs. done is called after each; it may be NULL. */
bool fold_held_out(const void *rows, fold_fit *fit, int64_t n, const int32_t *config, int32_t n_configs,
                   int32_t folds, uint64_t seed, double *predicted, void (*done)(void *), void *arg,
                   struct err *e);

/* row[n]: rows sorted by configuration, otherwise as they come. Those of configuration k begin at place start[k] and end at
 * start[k + 1]; the caller frees what comes back. */
int64_t *rows_by_config(int64_t n, const int32_t *config, int32_t n_configs, int64_t *row);

/* Medians of measured times repeat within this share; predictions repeat exactly. Two measured times closer
 * than that count as the same. */
#define SCORE_REPEAT 0.01

struct score {
    int64_t n;
    double median, p90; /* of |predicted - measured| / measured */
    int64_t ranked;     /* configurations where a tau exists */
    double tau;         /* mean over them */
    int64_t contested;  /* configurations with at least two rows */
    int64_t right;      /* of them: what is predicted fastest is measured fastest, within SCORE_REPEAT */
    double regret; /* mean over them: measured time of what is predicted fastest, over the fastest, less 1 */
};

/* measured[i] > 0. Where several rows of a configuration are predicted equally fast, the slowest of them
 * counts. */
struct score score_of(int64_t n, const double *measured, const double *predicted, const int32_t *config,
                      int32_t n_configs);

#ifdef __cplusplus
}
#endif

#endif
