/*
 * merges_svg.h - how a query's partial results become its output, with the weight that each has in it.
 */
#ifndef TREEATTN_SIM_DRAW_MERGES_SVG_H
#define TREEATTN_SIM_DRAW_MERGES_SVG_H

#include "ref/problem.h"
#include "sim/plan.h"

BEGIN_C

/*
 * One SVG of a plan that is right, for one row: a query as the tree numbers it, and a query head. `values` is a problem of the
 * plan's tree. LSE is computed in double from Q and K of it, part by part.
 *
 * Each part has a bar of the class "share", whose data-share is e^(its LSE - that of the output). Of many parts the smallest are
 * left out, with a sentence that says what they have together.
 */
void plan_print_merges_svg(FILE *out, const struct plan *p, const struct problem *values, int32_t query,
                           int32_t head);

END_C

#endif
