/*
 * arithmetic.h - how a kernel computed that ran a plan: what its error bounds rest on.
 */
#ifndef TREEATTN_VERIFY_JUDGE_ARITHMETIC_H
#define TREEATTN_VERIFY_JUDGE_ARITHMETIC_H

#include "kernels/kernel.h"
#include "verify/judge/compare.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Accumulation is in f64 for problems in f64, else in f32. The plan says the rest, and whether k narrows
 * probabilities. */
struct arithmetic arithmetic_of(const struct problem *p, const struct plan *plan, const struct kernel *k);

#ifdef __cplusplus
}
#endif

#endif
