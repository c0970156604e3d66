/* plan_parts.h - the parts of a plan's picture, each below the one before: from y on; they return where it goes on. */
#ifndef TREEATTN_SIM_DRAW_PLAN_PARTS_H
#define TREEATTN_SIM_DRAW_PLAN_PARTS_H

#include "sim/draw/plan_svg.h"
#include "sim/draw/svg.h"

BEGIN_C

/* Queries x tokens of their paths. */
double plan_draw_matrix(struct svg *s, double y, const struct plan *p, const struct plan_flaw *flaw);
/* Rows x tokens of each group, with what its tiles compute for nothing. */
double plan_draw_tiles(struct svg *s, double y, const struct plan *p, const struct heads *heads);

END_C

#endif
