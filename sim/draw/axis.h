/*
 * axis.h - a scale from 0 to some number, on which what is short can still be seen.
 *
 * Between its ticks it is even. A stretch that would be too narrow is widened, at the cost of the others.
 */
#ifndef TREEATTN_SIM_DRAW_AXIS_H
#define TREEATTN_SIM_DRAW_AXIS_H

#include "ref/base.h"

BEGIN_C

enum { AXIS_STRETCHES = 24 };

struct axis {
    int32_t n; /* stretches */
    double at[AXIS_STRETCHES + 1], place[AXIS_STRETCHES + 1];
    bool widened;
};

/* Ticks at tick[n] ascending, the first 0 and the last above it, on `width` from `left` on; n - 1 <= AXIS_STRETCHES. */
struct axis axis_of(const double *tick, int64_t n, double left, double width);
double axis_place(const struct axis *a, double v);
/* The least of 1, 2 or 5 times a power of ten that makes at most `most` steps of `all`. */
double axis_step(double all, int32_t most);

END_C

#endif
