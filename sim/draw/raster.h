/*
 * raster.h - areas by owner, added up on a grid, and drawn as few rectangles: what makes a picture of any plan small enough.
 *
 * A grid whose lines are where owners change shows everything as it is. On a coarser one a cell belongs to the owner that has
 * most of it. Nothing is lost in either: sums of all cells are the areas that were added.
 */
#ifndef TREEATTN_SIM_DRAW_RASTER_H
#define TREEATTN_SIM_DRAW_RASTER_H

#include "ref/base.h"

BEGIN_C

struct raster_cell {
    double sum;            /* area of all owners in it */
    double most;           /* of the owner that has most */
    double now;            /* of the owner that is being added */
    int64_t owner, adding; /* -1: none */
    bool in_rect;
};

struct raster {
    int32_t cols, rows;
    const double *x, *y; /* [cols + 1], [rows + 1] ascending; kept, not owned */
    struct raster_cell *cell;
};

/* Columns row by row of one owner, whose cells have its number. */
struct raster_rect {
    int32_t c0, c1, r0, r1; /* half open */
    int64_t owner;
    double sum;
};

/* Free with raster_free. */
struct raster raster_new(int32_t cols, const double *x, int32_t rows, const double *y);
void raster_free(struct raster *r);
/* Area of an owner (>= 0), which is given whole before that of the next; what is outside of the grid is lost. */
void raster_add(struct raster *r, int64_t owner, double x0, double x1, double y0, double y1);
/* After the last: every cell has its owner, which may be changed until raster_rects. */
void raster_settle(struct raster *r);
/* After the last: every cell that has any area, in rectangles as large as they go. The caller frees; *n of them. Cells then
 * have their owners. */
struct raster_rect *raster_rects(struct raster *r, int64_t *n);

/* Grid lines: x[n] sorted, without doubles; returns how many are left. */
int64_t raster_lines(double *x, int64_t n);
/* Whole numbers from 0 to `most`, n + 1 lines at the most, as even as they go; returns how many. */
int64_t raster_even(double *x, int64_t n, double most);

END_C

#endif
