/*
 * pieces.h - what a plan cuts attention into, as cases of their own: partial results, and their merge.
 */
#ifndef TREEATTN_VERIFY_JUDGE_PIECES_H
#define TREEATTN_VERIFY_JUDGE_PIECES_H

#include "kernels/kernel.h"
#include "ref/oracle.h"

BEGIN_C

/*
 * The groups of a plan as a problem. Each group is a tree of its own, whose queries are those of the group; a node is a run of the
 * plan, behind an empty root. Pages have one token. K and V are those of the problem that was cut.
 */
struct plan_pieces {
    struct tree *tree;
    struct problem *p;
    int32_t *query; /* [tree->n_queries] which query of the tree that was cut */
};
/* False with *why if that would be too large. Free with plan_pieces_free; the problem must live as long. */
bool plan_pieces_new(const struct problem *p, const struct plan *plan, struct plan_pieces *out,
                     struct err *why);
void plan_pieces_free(struct plan_pieces *x);

/*
 * What is to be merged, of exact partial results, rounded to the type of the case: those of each query, side by side, filled up with
 * empty ones in front or behind. Three queries come after those of the tree: all of their partials are empty; all but the last;
 * every second. LSE is what a kernel reads that is given it as a float (a double for f64) in units of `unit`.
 * False with *why if no query has two, or if they are too many. Free with partials_free.
 */
bool partials_new(const struct plan_pieces *x, const struct oracle *orc, int32_t n_queries, double unit,
                  struct partials *out, struct err *why);
void partials_free(struct partials *x);

/* The shape of that merge: a query of a tree of its own for each row, and a token for each partial that is not empty. Free with
 * merge_shape_free. */
struct problem *merge_shape(const struct partials *x);
void merge_shape_free(struct problem *shape);
/* The exact merge, of the numbers as they are given. As attention whose logits are the LSE and whose V are the O, but that no
 * logit is a sum: abs_dot is 0. */
struct oracle *merge_oracle(const struct partials *x, const struct problem *shape);

END_C

#endif
