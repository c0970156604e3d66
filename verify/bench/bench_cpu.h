/*
 * bench.h - what `treeattn bench` can time, beside the CPU kernel.
 */
#ifndef TREEATTN_VERIFY_BENCH_BENCH_CPU_H
#define TREEATTN_VERIFY_BENCH_BENCH_CPU_H

#include "sim/strategy.h"
#include "verify/io/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Planning time of n strategies: decode steps of a reasoning trace (the mean of 20 of them), the level tree
 * 1,4,16,64,256,1024 (1,365 nodes), two families of random trees and single chains of 10,000 and 100,000 nodes; one core, reps
 * turns. Prints one row per strategy. False with *e set and nothing printed if a strategy's plan of one of these trees
 * is wrong. */
extern const char *const bench_plan_columns[];
extern const int32_t bench_plan_width[];
bool bench_plan(struct printer *t, const struct strategy_use *use, int32_t n, int32_t h_q, int32_t h_kv,
                int64_t reps, struct err *e);

/* `treeattn bench gpu`, options and all; argv[0] is "bench gpu". Returns the exit code. */
int cmd_bench_gpu(int argc, char **argv);
/* Where the word gpu stands among the options of `bench gpu`; 0: it does not. */
int bench_gpu_word(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
