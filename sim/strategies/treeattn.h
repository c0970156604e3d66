/*
 * treeattn.h - what treeattn's model of its cost sees of a plan, for those who fit it.
 */
#ifndef TREEATTN_SIM_STRATEGIES_TREEATTN_H
#define TREEATTN_SIM_STRATEGIES_TREEATTN_H

#include "sim/time/treeattn_cost.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct strategy strategy_treeattn;

/* Is any of it left to the model, with these options (strategy_use.opt)? */
bool treeattn_chooses(const double *opt);

/* The bill of the plan that strategy_treeattn makes with these. */
struct tile_bill treeattn_bill(const struct nform *nf, const struct plan_env *env, const double *opt);

#ifdef __cplusplus
}
#endif

#endif
