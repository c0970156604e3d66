/*
 * guard_cpu.h - one run of a kernel that may be anybody's: it writes O and LSE and nothing else that it is given.
 *
 * O and LSE lie between canaries. Q, the pages of K and V that have tokens, and the page table must have the
 * same sums before and after a run. The problem's numbers, the tree, its normal form and the plan are
 * compared with copies, and the rounding mode of the calling thread with what it was. A problem belongs to
 * one thread at a time, and every run is checked when it ends. So what was written was written by the kernel
 * that ran last.
 */
#ifndef TREEATTN_VERIFY_JUDGE_GUARD_CPU_H
#define TREEATTN_VERIFY_JUDGE_GUARD_CPU_H

#include "kernels/kernel.h"
#include "sim/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

enum guarded_input { GUARDED_OFFSETS, GUARDED_PAGES, GUARDED_Q, GUARDED_K, GUARDED_V, N_GUARDED };

/* Sums of what a run only reads. */
struct guarded {
    uint64_t sum[N_GUARDED];
};
struct guarded guarded_inputs(const struct problem *p);
/* The first of them that is not as it was, in words; NULL: none. */
const char *guarded_change(const struct guarded *before, const struct problem *p);

/* strategy_plan, and how long it took. What it wrote to that is not its own, in words, in *wrote (NULL: nothing), and that is as
 * before: others use it. */
struct plan *guarded_plan(const struct strategy_use *use, const struct nform *nf, const struct plan_env *env,
                          char *why, double *plan_s, const char **wrote);

/* Whether k can run the plan on p; if not, a sentence in why[WHY_MAX]. */
bool guarded_supports(const struct kernel *k, const struct problem *p, const struct plan *plan, char *why);

/* Run the plan; `before` is of p. False with *e set if the kernel failed, or said so, wrote to its inputs, or beside its
 * outputs, or left another rounding mode. Sums that changed are for the caller to make good; all else is as before, but for the plan.
 * Returns what the kernel took, in seconds, in *run_s unless that is NULL. */
bool guarded_kernel(const struct kernel *k, const struct problem *p, const struct guarded *before,
                    const struct plan *plan, struct output *out, struct ledger *counted, double *run_s,
                    struct err *e);

#ifdef __cplusplus
}
#endif

#endif
