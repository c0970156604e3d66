/*
 * plan_ledger.h - the ledger of a plan, from the plan alone.
 *
 * What a kernel must move to carry the plan out, by the conventions of sim/ledger.h, group by group and merge
 * by merge. The CPU kernel counts the same at its own load and store sites, with code of its own. Tests
 * demand that both agree to the byte.
 */
#ifndef TREEATTN_SIM_PLAN_LEDGER_H
#define TREEATTN_SIM_PLAN_LEDGER_H

#include "ref/problem.h"
#include "sim/ledger.h"
#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ledger ledger_of_plan(const struct plan *p, const struct heads *heads);
/* No field of that is above, nor of the other counts (sim/count.h); before any of them is added up in 64 bits. */
double price_most(const struct plan *p, const struct heads *heads);
/* Bytes that no plan of the tree is below: K and V of each token that some query sees, read once; Q read, O and LSE written. */
double price_floor(const struct nform *nf, const struct heads *heads);
/* Bytes of K and V that a mask hides from all rows of the Q tile that reads them: what a kernel may leave out. Unfused plans
 * have none, as their products read everything. */
double price_unseen(const struct plan *p, const struct heads *heads);

#ifdef __cplusplus
}
#endif

#endif
