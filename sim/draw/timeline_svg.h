/*
 * timeline_svg.h - a plan in time as a picture: which CTA runs on which SM, and how much of the machine is in use.
 */
#ifndef TREEATTN_SIM_DRAW_TIMELINE_SVG_H
#define TREEATTN_SIM_DRAW_TIMELINE_SVG_H

#include "sim/plan.h"
#include "sim/time/time_model.h"

BEGIN_C

/*
 * One SVG of the plan p, timed on that machine with CLOCK_TIMELINE. A row is an SM, or several of a larger machine. Bars are as
 * high as the share of its room that CTAs take.
 *
 * Bars have the class "cta", or "merge", and say in data-us how many microseconds of whole SMs they stand for.
 */
void time_model_print_svg(FILE *out, const struct time_model *c, const struct plan *p,
                          const struct machine *mc);

END_C

#endif
