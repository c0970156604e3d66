/*
 * lse.h - partial attention results and their merge.
 *
 * A partial is (o, lse) of one row over part of its context: o[d] normalised, lse the natural log of the sum
 * of exp(logit). The empty partial (0, -inf) is the identity: merge(empty, empty) = (0, -inf) and
 * merge(empty, x) = x bit for bit. Hydragen section 3.1 (equations 4-5) and DeFT equation 1, with the
 * empty state that both leave undefined.
 */
#ifndef TREEATTN_REF_LSE_H
#define TREEATTN_REF_LSE_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* (o_a, *lse_a) becomes the merge of itself and (o_b, lse_b); o_a, o_b are [d]. NaN in either stays NaN. */
void lse_merge(double *o_a, double *lse_a, const double *o_b, double lse_b, int32_t d);

#ifdef __cplusplus
}
#endif

#endif
