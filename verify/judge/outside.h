/*
 * outside.h - judging kernels of somebody else's (verify/child): whole attention, partial results, merges.
 */
#ifndef TREEATTN_VERIFY_JUDGE_OUTSIDE_H
#define TREEATTN_VERIFY_JUDGE_OUTSIDE_H

#include "verify/judge/judge.h"

BEGIN_C

/* Ask k, which has attend, and judge what it answers, into *r; only then the right answer is computed. `plan` is one of
 * b that was checked, where k wants a plan, else NULL. */
void judge_outside(const struct test_case *b, const struct plan *plan, const struct kernel *k,
                   struct result *r);
/* A line for people: what held how often. */
void outside_print(FILE *f, const char *name, const struct outside_tally *t);

/*
 * A case at all points of first, which has attend, into out[n_use * N_KERNEL_POINTS]; returns how many. What wants a plan gets
 * those of use[n_use]. But parts of attention, with `draw`, get that of one, drawn from the case's seed: the next, where
 * one does not apply.
 */
int32_t outside_points(const struct test_case *b, const struct kernel *first, const struct strategy_use *use,
                       int32_t n_use, bool draw, struct result *out);
/* Its point of that name. */
const struct kernel *outside_find(const struct kernel *first, const char *name);

END_C

#endif
