/*
 * diagnose.h - what a wrong output looks like: a guess, in words, for whoever has to find the bug.
 */
#ifndef TREEATTN_VERIFY_JUDGE_DIAGNOSE_H
#define TREEATTN_VERIFY_JUDGE_DIAGNOSE_H

#include "verify/judge/compare.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After compare_output failed with *c. guess gets "" where nothing fits. Looks at the worst row, and at others
 * only to find whose answer it holds. */
void diagnose(const struct problem *p, const struct oracle *orc, const struct output *out,
              const struct comparison *c, char *guess, size_t size);

#ifdef __cplusplus
}
#endif

#endif
