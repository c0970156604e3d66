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

struct price_env {
    int32_t h_q, h_kv, d;
    int32_t elt_bytes;   /* Q, K, V, O and materialised scores in storage: 8, 4 or 2 */
    int32_t float_bytes; /* LSE, maximum, sum, and partial O in "fp32" slots: 8 for f64 problems, else 4 */
};

static inline struct price_env price_env_of(int32_t h_q, int32_t h_kv, int32_t d, enum dtype dtype)
{
    return (struct price_env){.h_q = h_q,
                              .h_kv = h_kv,
                              .d = d,
                              .elt_bytes = dtype_size[dtype],
                              .float_bytes = dtype == DT_F64 ? 8 : 4};
}

struct ledger ledger_of_plan(const struct plan *p, const struct price_env *env);
/* No field of that is above, nor of the other counts (sim/count.h); before any of them is added up in 64 bits. */
double price_most(const struct plan *p, const struct price_env *env);
/* Bytes of K and V that a mask hides from all rows of the Q tile that reads them: what a kernel may leave out. Unfused plans
 * have none, as their products read everything. */
double price_unseen(const struct plan *p, const struct price_env *env);

#ifdef __cplusplus
}
#endif

#endif
