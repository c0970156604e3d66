/*
 * plan_svg.h - a plan as a picture: which group computes which pair of a query and a token, and what its tiles compute.
 *
 * Small plans are drawn as they are. Of larger ones rows and columns are put together, and of groups the largest kinds are drawn; the
 * picture says so. So no picture is larger than some hundred kB, whatever the plan.
 */
#ifndef TREEATTN_SIM_DRAW_PLAN_SVG_H
#define TREEATTN_SIM_DRAW_PLAN_SVG_H

#include "ref/heads.h"
#include "sim/plan.h"

BEGIN_C

/* What is wrong with a plan. */
struct plan_flaw {
    const char *why;       /* a sentence */
    struct plan_pair pair; /* that it is about, if any */
};

/*
 * One SVG. No index of the plan may be out of range. flaw: NULL where the plan is right, else its sentence stands on top and
 * its pair is red.
 *
 * Boxes that stand for pairs say of how many in data-pairs: in the matrix pairs of a query and a token, in tiles those of a
 * row and a token, in one KV head of data-alike groups. Their class is "pairs", or "used", "hidden", "padding".
 */
void plan_print_svg(FILE *out, const struct plan *p, const struct heads *heads, const struct plan_flaw *flaw);

END_C

#endif
