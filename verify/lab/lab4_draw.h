/* lab4_draw.h - two assignments of lab 4 side by side. */
#ifndef TREEATTN_VERIFY_LAB_LAB4_DRAW_H
#define TREEATTN_VERIFY_LAB_LAB4_DRAW_H

#include "ref/base.h"
#include "tests/labs/include/lab.h"

#include <stdio.h>

BEGIN_C

/* One SVG: the student's assignment, and one of least cost, of the same shape. Edges that differ are marked. */
void lab4_draw(FILE *out, const struct lab_shape *s, const unsigned char *const join[2],
               const double cost[2]);

END_C

#endif
