/*
 * count.h - three ways to count what a plan moves. Published figures differ because their authors count
 * differently; here every count walks the same plan.
 *
 *   true    what a kernel must move: ledger_of_plan (sim/plan_ledger.h)
 *   paper   as DeFT's Tables 12 and 17 count
 *   deft    as the counters of DeFT's release count, which its recorded runs hold
 *
 * paper and deft count K and V once per query head, also where query heads share a KV head; under GQA a
 * kernel reads h_q / h_kv times less. They know nothing of partial results, multiply-adds, padding and
 * launches: these stay 0. The two differ in:
 *
 *                                     paper                    deft
 *   K, V of a group without mask      once                     once per 32 queries
 *   softmax, where scores go through  written and read         twice written and read
 *   memory (as QK^T, scaled, masked)
 *   Q and O of such a plan            not counted              counted
 *
 * Both count a block of tokens that masked groups share (deft-flatten) once, however many groups its queries
 * fill. A mask of such a block is 8 bytes a token, SpecInfer's is a bit, a dense one 2 bytes per (query,
 * token). Masks count once for all heads. Table 12 says that a mask is moved once per head, like all else;
 * Table 17's figures come out only if it is not.
 */
#ifndef TREEATTN_SIM_COUNT_H
#define TREEATTN_SIM_COUNT_H

#include "sim/plan_ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum count_mode { COUNT_TRUE, COUNT_PAPER, COUNT_DEFT, N_COUNT_MODES };
extern const char *const count_mode_name[N_COUNT_MODES]; /* "true" "paper" "deft" */
bool count_mode_parse(const char *s, enum count_mode *out);

/* One layer. */
struct ledger count_plan(const struct plan *p, const struct heads *heads, enum count_mode mode);

#ifdef __cplusplus
}
#endif

#endif
