/*
 * times.h - times of many kernels on a set of trees and head counts, simulated or measured, and what they say of each
 * other.
 */
#ifndef TREEATTN_PAPER_FIGS_TIMES_H
#define TREEATTN_PAPER_FIGS_TIMES_H

#include "paper-figs/figure.h"

enum { MAX_SERIES = 32, MAX_HEADS = 4, MAX_TREES = 20 };
struct times {
    int32_t n_series, n_heads, n_trees;
    const char *series[MAX_SERIES];              /* of series.def */
    const char *heads[MAX_HEADS];                /* "32/8" */
    double us[MAX_SERIES][MAX_HEADS][MAX_TREES]; /* trees as numbered in the paper, less 1; NAN: none */
};

/* What series.def calls a strategy with its options: "pat:rule=artifact", "fasttree-no-split". */
const char *series_of_strategy(struct figure *f, const char *strategy);

/* Rows of `treeattn sim --sets SET` of table t; column: "latency_ms" (then in us), "dram_bytes", .. */
void times_simulated(struct figure *f, const struct csv *t, const char *set, const char *column,
                     struct times *x);
/* Rows of a file of `treeattn bench-gpu` that passed: our kernel. column: "time_us", or "floor_us". */
void times_measured(struct figure *f, const char *file, const char *set, const char *column, struct times *x);
/* Rows of recorded/h200_peers: released kernels; FlashInfer is the faster of its two for decoding. */
void times_released(struct figure *f, const char *set, struct times *x);
/* FlashInfer's kernel on CUDA cores alone, which does not know every head count, and what it is compared with. */
void times_cuda_core(struct figure *f, const char *set, struct times *x);

/* Number of a series, or of heads; -1. */
int32_t times_series(const struct times *x, const char *series);
int32_t times_heads(const struct times *x, const char *heads);
/* Every time becomes that over the series' own on the same tree and head count. */
void times_divide(struct times *x, const char *series);
/* Without that series, if it is there. */
void times_drop(struct times *x, const char *series);

/* series / over on every tree first .. last (from 1) and head count ("32/32 32/8"; NULL: all) where both are: arithmetic and
 * geometric mean, extremes. */
struct ratio {
    int32_t n, above; /* how many, and how many over 1 */
    double mean, geometric, least, most;
    int32_t most_tree; /* where, from 1 */
};
struct ratio times_ratio(const struct times *x, const char *series, const char *over, const char *heads,
                         int32_t first, int32_t last);

/* A panel per head count: time over that of `base`, a line per series over the trees. */
void times_draw(struct figure *f, const struct times *x, const char *base, const char *const *series,
                const char *x_label);

/* An average that a paper claims: of the times of `series` over the base's. heads: NULL, or the only ones that it is over. */
struct mean_claim {
    const char *series, *headline, *heads;
};
/* A panel of the means, by head count, of all as the paper takes it (arithmetic), and geometric; and the headlines, with these
 * numbers beside them. Claims over series that are not in x are left out. */
void times_means(struct figure *f, const struct times *x, const char *base, const struct mean_claim *claims,
                 int n, int32_t first, int32_t last);

#endif
