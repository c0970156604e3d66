/* bench_cpu.h - what can be timed on a processor: the CPU kernel, and planning. */
#ifndef TREEATTN_VERIFY_BENCH_BENCH_CPU_H
#define TREEATTN_VERIFY_BENCH_BENCH_CPU_H

#include "sim/strategy.h"
#include "verify/io/table.h"

BEGIN_C

/* The CPU kernel beside the matrix products it needs: fp32, one head, every query sees every token. */
enum { BENCH_MAX_REPS = 1001 };
struct bench_cpu {
    int64_t d, threads, reps; /* reps: turns, of which the medians are printed */
};
extern const char *const bench_cpu_columns[];
extern const int32_t bench_cpu_width[];
/* Prints one row per tile. It sets the number of OpenMP threads. */
bool bench_cpu(const struct bench_cpu *a, struct printer *t, struct err *e);

/* Planning time of n strategies: decode steps of a reasoning trace (the mean of 20 of them), the level tree
 * 1,4,16,64,256,1024 (1,365 nodes), two families of random trees and single chains of 10,000 and 100,000 nodes; one core, reps
 * turns. Prints one row per strategy. False with *e set and nothing printed if a strategy's plan of one of these trees
 * is wrong. */
extern const char *const bench_plan_columns[];
extern const int32_t bench_plan_width[];
bool bench_plan(struct printer *t, const struct strategy_use *use, int32_t n, int32_t h_q, int32_t h_kv,
                int64_t reps, struct err *e);

END_C

#endif
