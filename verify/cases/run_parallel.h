/*
 * run_parallel.h - many cases at once, and now and then one alone.
 *
 * Cases that run at once have a core each, so a kernel's own parallel loops have one thread. What its threads do to each
 * other would never be seen. So the last case of each stretch runs alone, with all threads.
 */
#ifndef TREEATTN_VERIFY_CASES_RUN_PARALLEL_H
#define TREEATTN_VERIFY_CASES_RUN_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* run(context, i) for i = 0 .. n - 1. Stretches come one after the other; within one, up to 16 threads take its cases in
 * any order. Of fewer than 16 cases one is alone, of more at most 24. */
void run_parallel(int64_t n, void (*run)(void *context, int64_t i), void *context);

#ifdef __cplusplus
}
#endif

#endif
