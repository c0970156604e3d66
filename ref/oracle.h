/*
 * oracle.h - exact attention, by a route of its own.
 *
 * For each query, along its path in the tree: all logits, their maximum, the full softmax, the weighted sum
 * of V; in double, straight loops in path order. No plan, no normal form, no LSE merge, no shared prefix.
 */
#ifndef TREEATTN_REF_ORACLE_H
#define TREEATTN_REF_ORACLE_H

#include "ref/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows are (query, query head), queries as the tree numbers them. Besides the answer it reports what the
 * error bound of a row is made of (verify/compare/tolerances.def). */
struct oracle {
    int64_t n_rows;
    int32_t d;
    double *o;     /* [n_rows][d] */
    double *lse;   /* [n_rows] natural log; -inf, or the sink, for an empty context, where o = 0 */
    double *abs_o; /* [n_rows][d] sum of p_j |v_j|: what cancellation hides in o */
    double *rms_o; /* [n_rows][d] sqrt(sum of p_j^2 v_j^2): what errors of random sign in each p_j do to o */
    double *range_o; /* [n_rows][d] largest less smallest v_j: O lies between them, whatever the p_j */
    double *max_v;   /* [n_rows][d] largest |v_j|, which a weight that is lost is lost with */
    /* With sinks, these two count a token of V = 0. */
    /* [n_rows] by how much the largest logit exceeds the second largest, which may be as large; +inf if there is none. */
    double *gap;
    double *logit;      /* [n_rows] largest |logit| */
    double *abs_dot;    /* [n_rows] largest scale * sum_i |q_i k_ji| over the keys: >= logit */
    int64_t *ctx;       /* [n_rows / h_q] tokens seen by each query */
    bool capped, sinks; /* logits are soft-capped; a sink is among the terms of each sum */
};

struct oracle *oracle_new(const struct problem *p);
/* Room for the same answer, with contexts filled in and all else zero. Without `margins`, range_o, max_v and gap are NULL: who
 * compares then does without them. */
struct oracle *oracle_alloc(const struct problem *p, bool margins);
void oracle_free(struct oracle *orc);

#ifdef __cplusplus
}
#endif

#endif
