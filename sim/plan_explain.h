/* plan_explain.h - the arithmetic of a plan's ledger: where each byte, multiply-add and padded row comes from. */
#ifndef TREEATTN_SIM_PLAN_EXPLAIN_H
#define TREEATTN_SIM_PLAN_EXPLAIN_H

#include "ref/heads.h"
#include "sim/plan.h"

BEGIN_C

/*
 * Text: for each group, for the merge steps of each launch, and for the whole. A line is "  what: FACTOR x FACTOR .. = RESULT",
 * and its result is the product of what is printed. Totals are sums of these results alone; they are the fields of
 * ledger_of_plan (sim/plan_ledger.h), whose sizes must fit 63 bits (price_most).
 */
void plan_print_explain(FILE *f, const struct plan *p, const struct heads *heads);

END_C

#endif
