/*
 * property_run.h - what the properties are made of: a problem rebuilt from another, a run on it with the bounds of all
 * its numbers, and one output held against another.
 *
 * Rebuilt problems have pages of their own: scattered, and poisoned where nobody may read. That storage does
 * not matter is thereby part of every property.
 */
#ifndef TREEATTN_VERIFY_JUDGE_PROPERTY_RUN_H
#define TREEATTN_VERIFY_JUDGE_PROPERTY_RUN_H

#include "verify/judge/properties.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Walk over the tokens that some query sees: zero-initialise but for nf, then while (walk_next(&w)). */
struct walk {
    const struct nform *nf;
    int32_t piece;
    int64_t next;  /* within the piece: one past the token */
    int32_t node;  /* of the tree */
    int64_t token; /* of the node */
};
bool walk_next(struct walk *w);

/* A problem on tree t, which is kept and not owned. Token j of its node i is token off[i] + j of node[i] of c->p. Its
 * query q is query[q] of c->p. Where an array is NULL, nothing changes. Free with problem_free. */
struct problem *property_problem(const struct property_case *c, const struct tree *t, const int32_t *node,
                                 const int64_t *off, const int32_t *query);

/* What came out of one run, and how far each number may be from the exact answer. */
struct property_run {
    int32_t d;
    double *o, *bound_o;     /* [n_rows][d] */
    double *lse, *bound_lse; /* [n_rows] */
};

/* Plan and run. False if the strategy or kernel does not apply, or fails; then *r says why and *t is empty. Free the
 * contents with property_run_free. */
bool property_run_make(struct property_run *t, const struct property_case *c, const struct problem *p,
                       struct result *r);
void property_run_free(struct property_run *t);

/* Row `row` of t is want_o[d] and want, which may be off by slack_o[d] (NULL: exact) and slack. */
void property_hold_o(struct result *r, const struct property_case *c, const struct property_run *t,
                     int64_t row, const double *want_o, const double *slack_o);
void property_hold_lse(struct result *r, const struct property_case *c, const struct property_run *t,
                       int64_t row, double want, double slack);
/* All heads of query q of t are those of query q_want of want. */
void property_hold_query(struct result *r, const struct property_case *c, const struct property_run *t,
                         int64_t q, const struct property_run *want, int64_t q_want);

#ifdef __cplusplus
}
#endif

#endif
