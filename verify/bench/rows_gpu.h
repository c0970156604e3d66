/*
 * rows_gpu.h - rows of `treeattn bench-gpu` for people and programs: columns, the summary, ours against recorded peers.
 */
#ifndef TREEATTN_VERIFY_BENCH_ROWS_GPU_H
#define TREEATTN_VERIFY_BENCH_ROWS_GPU_H

#include "verify/bench/bench_gpu.h"
#include "verify/bench/peers.h"
#include "verify/io/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Time over floor, ours against a peer's, over the rows that both have; the floor of each is its own card's. */
struct gpu_match {
    int64_t n, better;
    double ratio; /* geometric mean of ours / the peer's; under 1 we are nearer to our floor */
};
/* strategy, as strategy_label says it, or NULL: the best of ours on each tree; method NULL: the best of the peers. */
struct gpu_match gpu_match(const struct gpu_row *rows, int64_t n_rows, const struct gpu_peers *peers,
                           const char *strategy, const char *method);

/* The bars of issue and README, in words, each line after `lead`. */
void gpu_summary(FILE *f, const char *lead, const struct gpu_bench *b, const struct gpu_row *rows,
                 int64_t n_rows, const struct gpu_peers *peers);

extern const char *const gpu_columns[];
extern const int32_t gpu_width[];
void gpu_row_print(struct printer *t, const struct gpu_bench *b, const char *device, const struct gpu_row *r);

#ifdef __cplusplus
}
#endif

#endif
