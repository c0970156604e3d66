/*
 * run_parallel.h - many cases at once, and now and then one alone.
 *
 * Side by side, each has a core: parallel loops of a kernel's own have one thread there, and what several of them do to each
 * other would never be seen. So the last case of each stretch runs alone, with all threads.
 */
#ifndef TREEATTN_VERIFY_JUDGE_RUN_PARALLEL_H
#define TREEATTN_VERIFY_JUDGE_RUN_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* run(context, i) for i = 0 .. n - 1: those of a stretch in any order, from up to 16 threads, stretches one after the other. Of
 * fewer than 16 one is alone, of more at most 24. */
void side_by_side(int64_t n, void (*run)(void *context, int64_t i), void *context);

#ifdef __cplusplus
}
#endif

#endif
