/*
 * guard_cpu.h - one run of a kernel that may be anybody's: it writes O and LSE and nothing else that it is given.
 *
 * O and LSE lie between canaries. Q, the sinks, the scales, the pages of K and V that have tokens, and the page table
 * must have the same sums before and after a run. The problem's numbers, the tree, its normal form and the plan are compared with copies, and the
 * rounding mode of the calling thread with what it was. A problem belongs to one thread at a time, and every run is checked
 * when it ends. So what was written was written by the kernel that ran last.
 */
#ifndef TREEATTN_VERIFY_JUDGE_GUARD_CPU_H
#define TREEATTN_VERIFY_JUDGE_GUARD_CPU_H

#include "kernels/kernel.h"
#include "sim/strategy.h"

BEGIN_C

enum guarded_input {
    GUARDED_OFFSETS,
    GUARDED_PAGES,
    GUARDED_SINKS,
    GUARDED_SCALES,
    GUARDED_Q,
    GUARDED_K,
    GUARDED_V,
    N_GUARDED
};

/* Sums of what a run only reads. */
struct guarded {
    uint64_t sum[N_GUARDED];
};
struct guarded guarded_inputs(const struct problem *p);
/* The first input that changed, in words; NULL: none did. */
const char *guarded_change(const struct guarded *before, const struct problem *p);

/* strategy_plan, and the seconds it took. *wrote names what the planner changed of the tree or its normal form; NULL:
 * nothing. What it changed is put back, since others use it. */
struct plan *guarded_plan(const struct strategy_use *use, const struct nform *nf, const struct plan_env *env,
                          char *why, double *plan_s, const char **wrote);

/* Memory that is free is no longer as it was: what is read before it is written differs from one call to the next. */
void guarded_litter(void);

/* Whether k can run the plan on p; if not, a sentence in why[WHY_MAX]. */
bool guarded_supports(const struct kernel *k, const struct problem *p, const struct plan *plan, char *why);

/* Run the plan. `before` is of p. False with *e set if the kernel failed, wrote to its inputs or beside its outputs, or
 * left another rounding mode. Tree, normal form and the problem's numbers are put back. The plan, and arrays whose sums
 * changed, stay as they are. *run_s gets the kernel's seconds, unless it is NULL. */
bool guarded_kernel(const struct kernel *k, const struct problem *p, const struct guarded *before,
                    const struct plan *plan, struct output *out, struct ledger *counted, double *run_s,
                    struct err *e);

END_C

#endif
