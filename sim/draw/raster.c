#include "sim/draw/raster.h"

#include <math.h>
#include <stdlib.h>

struct raster raster_new(int32_t cols, const double *x, int32_t rows, const double *y)
{
    struct raster r = {.cols = cols, .rows = rows, .x = x, .y = y};
    int64_t n = (int64_t)cols * rows;
    r.cell = xcalloc((size_t)n, sizeof *r.cell);
    for (int64_t i = 0; i < n; i++)
        r.cell[i].owner = r.cell[i].adding = -1;
    return r;
}

void raster_free(struct raster *r)
{
    free(r->cell);
    r->cell = NULL;
}

/* The cell between two lines of which the first is the last that is not above v. */
static int32_t cell_of(const double *line, int32_t cells, double v)
{
    int32_t lo = 0, hi = cells;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        if (line[mid] <= v)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void settle(struct raster_cell *c)
{
    if (c->now > c->most) {
        c->most = c->now;
        c->owner = c->adding;
    }
}

static void add_to_cell(struct raster_cell *c, int64_t owner, double area)
{
    if (area <= 0)
        return;
    if (c->adding != owner) {
        settle(c);
        c->adding = owner;
        c->now = 0;
    }
    c->now += area;
    c->sum += area;
}

void raster_add(struct raster *r, int64_t owner, double x0, double x1, double y0, double y1)
{
    if (r->cols == 0 || r->rows == 0)
        return;
    int32_t c0 = cell_of(r->x, r->cols, x0), r0 = cell_of(r->y, r->rows, y0);
    for (int32_t row = r0; row < r->rows && r->y[row] < y1; row++) {
        double high = fmin(y1, r->y[row + 1]) - fmax(y0, r->y[row]);
        for (int32_t col = c0; col < r->cols && r->x[col] < x1; col++)
            add_to_cell(&r->cell[(int64_t)row * r->cols + col], owner,
                        high * (fmin(x1, r->x[col + 1]) - fmax(x0, r->x[col])));
    }
}

/* Cells of a row from c0 on that belong to `owner` and to no rectangle yet. */
static int32_t same_to(const struct raster *r, int32_t row, int32_t c0, int32_t most, int64_t owner)
{
    const struct raster_cell *c = r->cell + (int64_t)row * r->cols;
    while (c0 < most && c[c0].owner == owner && !c[c0].in_rect)
        c0++;
    return c0;
}

static struct raster_rect grow(struct raster *r, int32_t col, int32_t row)
{
    struct raster_rect x = {.c0 = col, .r0 = row, .owner = r->cell[(int64_t)row * r->cols + col].owner};
    x.c1 = same_to(r, row, col, r->cols, x.owner);
    for (x.r1 = row + 1; x.r1 < r->rows && same_to(r, x.r1, x.c0, x.c1, x.owner) == x.c1; x.r1++)
        continue;
    for (int32_t i = x.r0; i < x.r1; i++)
        for (int32_t k = x.c0; k < x.c1; k++) {
            struct raster_cell *c = &r->cell[(int64_t)i * r->cols + k];
            x.sum += c->sum;
            c->in_rect = true;
        }
    return x;
}

void raster_settle(struct raster *r)
{
    for (int64_t i = 0; i < (int64_t)r->rows * r->cols; i++) {
        settle(&r->cell[i]);
        r->cell[i].now = 0;
    }
}

struct raster_rect *raster_rects(struct raster *r, int64_t *n)
{
    struct raster_rect *out = NULL;
    int64_t cap = 0;
    *n = 0;
    raster_settle(r);
    for (int32_t row = 0; row < r->rows; row++)
        for (int32_t col = 0; col < r->cols; col++) {
            const struct raster_cell *c = &r->cell[(int64_t)row * r->cols + col];
            if (c->owner < 0 || c->in_rect)
                continue;
            out = xgrow(out, &cap, *n + 1, sizeof *out);
            out[(*n)++] = grow(r, col, row);
        }
    return out;
}

int64_t raster_lines(double *x, int64_t n)
{
    int64_t kept = 0;
    sort_f64(x, n);
    for (int64_t i = 0; i < n; i++)
        if (kept == 0 || x[i] > x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

int64_t raster_even(double *x, int64_t n, double most)
{
    for (int64_t i = 0; i <= n; i++)
        x[i] = floor(most * (double)i / (double)n);
    return raster_lines(x, n + 1);
}
