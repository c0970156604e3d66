/*
 * run_plan.h - one plan on one kernel: coverage first, then the run under guard, then what the kernel counted.
 */
#ifndef TREEATTN_VERIFY_JUDGE_RUN_PLAN_H
#define TREEATTN_VERIFY_JUDGE_RUN_PLAN_H

#include "verify/judge/guard_cpu.h"
#include "verify/judge/result.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the kernel wrote, to be freed with output_free; `inputs` is of p. NULL if it did not run, or not well: then
 * verdict, stage and sentence of *r say why. *r is zero at first and gets the run's figures. */
struct output *run_plan(const struct problem *p, const struct guarded *inputs, const struct plan *plan,
                        const struct kernel *k, struct result *r);

#ifdef __cplusplus
}
#endif

#endif
