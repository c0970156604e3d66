/* plan_matrix.c - queries x tokens of their paths: nodes framed, groups coloured, a wrong pair in red. */
#include "sim/draw/plan_parts.h"
#include "sim/draw/axis.h"
#include "sim/draw/raster.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    MOST_ROWS = 200, /* of the drawn matrix */
    MOST_COLS = 400,
    FEW_QUERIES = 20, /* have rows of ROW_HIGH each; more share HIGH */
    ROW_HIGH = 26,
    HIGH = 480,
    LEFT = 92,
    RIGHT = 72,
    LEAST_FRAME = 3,   /* smaller nodes have no frame */
    FEW_RECTS = 1000,  /* say what they are when they are pointed at */
    MOST_RECTS = 5000, /* with more, columns are put together, down to LEAST_COLS */
    LEAST_COLS = MOST_RECTS / MOST_ROWS
};

static const struct svg_font head_font = {.size = 14, .bold = true}, text_font = {.size = 12},
                             tick_font = {.size = 10, .anchor = SVG_MIDDLE},
                             query_font = {.size = 11, .anchor = SVG_END}, parts_font = {.size = 11},
                             node_font = {.size = 10, .plate = true},
                             group_font = {.size = 11, .bold = true, .anchor = SVG_MIDDLE, .halo = true};

struct matrix {
    struct svg *s;
    const struct plan *p;
    const struct plan_flaw *flaw;
    int64_t *base; /* [n_nodes] tokens above a node on its path */
    double *x, *y; /* lines of the raster: tokens, queries */
    int64_t cols, rows;
    bool binned;
    double tokens; /* of the longest path */
    struct axis axis;
    double top, high; /* of a query */
    bool frames_missing;
};

/* ---- scales --------------------------------------------------------------------------------------------- */

static bool seen(const struct nform *nf, int32_t i)
{
    return nf->q1[i] > nf->q0[i] && nf->len[i] > 0;
}

static void find_base(struct matrix *m)
{
    const struct nform *nf = m->p->nf;
    m->base = xcalloc((size_t)nf->n_nodes, sizeof *m->base);
    for (int32_t i = 0; i < nf->n_nodes; i++)
        m->base[i] = nf->parent[i] < 0 ? 0 : m->base[nf->parent[i]] + nf->len[nf->parent[i]];
}

/* Where nodes that a query sees, and with `runs` where runs begin and end; the caller frees. */
static double *borders(const struct matrix *m, bool runs, int64_t *n)
{
    const struct nform *nf = m->p->nf;
    int64_t most = 2 * (nf->n_nodes + (runs ? m->p->n_runs : 0)) + 1;
    double *x = xcalloc((size_t)most, sizeof *x);
    *n = 1; /* 0 */
    for (int32_t i = 0; i < nf->n_nodes; i++)
        if (seen(nf, i)) {
            x[(*n)++] = (double)m->base[i];
            x[(*n)++] = (double)(m->base[i] + nf->len[i]);
        }
    for (int64_t i = 0; i < m->p->n_runs && runs; i++) {
        const struct run *r = &m->p->run[i];
        x[(*n)++] = (double)(m->base[r->node] + r->begin);
        x[(*n)++] = (double)(m->base[r->node] + r->end);
    }
    *n = raster_lines(x, *n);
    return x;
}

/* Ticks are where nodes and runs begin, if these are few, or nodes alone; else there are just the ends. */
static void set_axis(struct matrix *m)
{
    int64_t n;
    double *tick = borders(m, true, &n);
    m->tokens = fmax(1, tick[n - 1]);
    if (n - 1 > AXIS_STRETCHES) {
        free(tick);
        tick = borders(m, false, &n);
    }
    double ends[2] = {0, m->tokens};
    bool few = n >= 2 && n - 1 <= AXIS_STRETCHES && tick[n - 1] == m->tokens;
    m->axis = axis_of(few ? tick : ends, few ? n : 2, LEFT, SVG_WIDTH - LEFT - RIGHT);
    free(tick);
}

static void set_rows(struct matrix *m)
{
    int64_t nq = m->p->nf->n_queries;
    m->y = xcalloc(MOST_ROWS + 1, sizeof *m->y);
    m->rows = nq > 0 ? raster_even(m->y, min_i64(nq, MOST_ROWS), (double)nq) - 1 : 0;
    m->high = nq <= FEW_QUERIES ? ROW_HIGH : (double)HIGH / (double)nq;
    m->binned = m->rows < nq;
}

/* At most that many. */
static void set_cols(struct matrix *m, int64_t most)
{
    int64_t n;
    m->x = borders(m, true, &n);
    if (n - 1 > most) {
        n = raster_even(m->x, most, m->tokens);
        m->binned = true;
    }
    m->cols = n - 1;
}

static struct svg_box place(const struct matrix *m, double x0, double x1, double q0, double q1)
{
    double left = axis_place(&m->axis, x0);
    return (struct svg_box){left, m->top + q0 * m->high, axis_place(&m->axis, x1) - left,
                            (q1 - q0) * m->high};
}

/* ---- groups --------------------------------------------------------------------------------------------- */

static void add_run(struct raster *r, const struct matrix *m, int64_t gi, int64_t run, int64_t q0, int64_t q1)
{
    const struct run *x = &m->p->run[run];
    double at = (double)m->base[x->node];
    raster_add(r, gi, at + (double)x->begin, at + (double)x->end, (double)q0, (double)q1);
}

static void add_group(struct raster *r, const struct matrix *m, int64_t gi)
{
    const struct plan *p = m->p;
    const struct group *g = &p->group[gi];
    int32_t k = 0;
    for (int64_t i = g->qr0; i < g->qr1; i++) {
        for (int64_t run = g->run0; run < g->run1 && g->mask == MASK_NONE; run++)
            add_run(r, m, gi, run, p->qr[i].begin, p->qr[i].end);
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++, k++)
            for (int64_t run = g->run0; run < g->run1 && g->mask != MASK_NONE; run++)
                if (plan_visible(p, g, k, run - g->run0))
                    add_run(r, m, gi, run, q, q + 1);
    }
}

/* Not too many: on as fine a grid as that allows, which is left in *r. */
static struct raster_rect *find_rects(struct matrix *m, struct raster *r, int64_t *n)
{
    for (int64_t most = MOST_COLS;; most /= 2) {
        set_cols(m, most);
        *r = raster_new((int32_t)m->cols, m->x, (int32_t)m->rows, m->y);
        for (int64_t gi = 0; gi < m->p->n_groups; gi++)
            add_group(r, m, gi);
        struct raster_rect *rect = raster_rects(r, n);
        if (*n <= MOST_RECTS || most <= LEAST_COLS)
            return rect;
        free(rect);
        raster_free(r);
        free(m->x);
    }
}

static void draw_rects(struct matrix *m, const struct raster_rect *rect, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct raster_rect *c = &rect[i];
        struct svg_box b = place(m, m->x[c->c0], m->x[c->c1], m->y[c->r0], m->y[c->r1]);
        char more[120];
        snprintf(more, sizeof more, "class=\"pairs\" data-group=\"%" PRId64 "\" data-pairs=\"%.0f\"",
                 c->owner, c->sum);
        char *told = n > FEW_RECTS
                         ? NULL
                         : xasprintf("group %" PRId64 ": %.0f queries, tokens %.0f to %.0f of their paths",
                                     c->owner, m->y[c->r1] - m->y[c->r0], m->x[c->c0], m->x[c->c1]);
        svg_rect(m->s, b, svg_colour(c->owner), more, told);
        free(told);
    }
}

static int64_t owner_at(const struct raster *r, int32_t row, int32_t col)
{
    return r->cell[(int64_t)row * r->cols + col].owner;
}

/* Left of a cell, or above it: another group's. */
static bool is_border(const struct raster *r, int32_t row, int32_t col, bool above)
{
    int64_t other = owner_at(r, row - above, col - !above), own = owner_at(r, row, col);
    return own >= 0 && other >= 0 && own != other;
}

/* White lines where two groups meet, unless these are too close. */
static void draw_borders(struct matrix *m, const struct raster *r)
{
    bool rows_apart = m->rows > 0 && m->high * m->y[m->rows] / (double)m->rows >= 4;
    fputs("<path fill=\"none\" stroke=\"#FFFFFF\" stroke-width=\"1.2\" d=\"", m->s->f);
    for (int32_t row = 0; row < r->rows; row++)
        for (int32_t col = 0; col < r->cols; col++) {
            struct svg_box b = place(m, m->x[col], m->x[col + 1], m->y[row], m->y[row + 1]);
            if (col > 0 && b.w >= 4 && is_border(r, row, col, false))
                fprintf(m->s->f, "M%.2f,%.2fv%.2f", b.x, b.y, b.h);
            if (row > 0 && rows_apart && is_border(r, row, col, true))
                fprintf(m->s->f, "M%.2f,%.2fh%.2f", b.x, b.y, b.w);
        }
    fputs("\"/>\n", m->s->f);
}

static void label_rects(struct matrix *m, const struct raster_rect *rect, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct raster_rect *c = &rect[i];
        struct svg_box b = place(m, m->x[c->c0], m->x[c->c1], m->y[c->r0], m->y[c->r1]);
        struct svg_font corner = group_font;
        char name[32];
        snprintf(name, sizeof name, "g%" PRId64, c->owner);
        corner.anchor = SVG_END;
        if (!svg_text_if_free(m->s, b.x + b.w / 2, b.y + b.h / 2 + 4, &group_font, &b, name))
            svg_text_if_free(m->s, b.x + b.w - 2, b.y + b.h - 4, &corner, &b, name);
    }
}

/* ---- nodes and queries ------------------------------------------------------------------------------------ */

/* Nodes with a name where the tree's node begins. A node that a query ends in has a line there. */
static void draw_nodes(struct matrix *m)
{
    const struct nform *nf = m->p->nf;
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        if (!seen(nf, i))
            continue;
        double at = (double)m->base[i];
        struct svg_box b = place(m, at, at + (double)nf->len[i], nf->q0[i], nf->q1[i]);
        char name[32];
        if (b.w < LEAST_FRAME || b.h < LEAST_FRAME) {
            m->frames_missing = true;
            continue;
        }
        svg_rect(m->s, b, "none", "stroke=\"#000000\" stroke-width=\"1.3\"", NULL);
        snprintf(name, sizeof name, "n%" PRId32, nf->src[i]);
        if (nf->off[i] == 0)
            svg_text_if_free(m->s, b.x + 3, b.y + 10, &node_font, &b, name);
    }
}

static void draw_row_lines(struct matrix *m)
{
    double x1 = SVG_WIDTH - RIGHT;
    for (int32_t q = 1; q < m->p->nf->n_queries && m->high >= 8; q++)
        svg_line(m->s, LEFT, m->top + q * m->high, x1, m->top + q * m->high,
                 "stroke=\"#FFFFFF\" stroke-width=\"0.7\" stroke-opacity=\"0.7\"");
}

/* Groups that each query is in; the caller frees. */
static int32_t *parts_of_queries(const struct plan *p)
{
    int32_t *parts = xcalloc((size_t)p->nf->n_queries, sizeof *parts);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        for (int64_t i = g->qr0; i < g->qr1; i++)
            for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
                parts[q]++;
    return parts;
}

/* Names at the left and numbers of parts at the right, of as many queries as there is room for. */
static void draw_queries(struct matrix *m)
{
    int32_t *parts = parts_of_queries(m->p), every = (int32_t)fmax(1, ceil(14 / m->high));
    for (int32_t q = 0; q < m->p->nf->n_queries; q += every) {
        double y = m->top + q * m->high + (every == 1 ? m->high / 2 + 4 : 9);
        char name[32], n[32];
        if (every > 1 && y > m->top + m->p->nf->n_queries * m->high)
            break; /* the ticks are there */
        snprintf(name, sizeof name, "q%" PRId32, m->p->nf->orig[q]);
        snprintf(n, sizeof n, "%" PRId32, parts[q]);
        svg_text(m->s, LEFT - 6, y, &query_font, name);
        svg_text(m->s, SVG_WIDTH - RIGHT + 6, y, &parts_font, n);
    }
    free(parts);
}

static void draw_tick(struct matrix *m, double v, double bottom, bool must)
{
    char name[32];
    double x = axis_place(&m->axis, v);
    snprintf(name, sizeof name, "%.0f", v);
    svg_line(m->s, x, bottom, x, bottom + 4, "stroke=\"#000000\"");
    if (must)
        svg_text(m->s, x, bottom + 15, &tick_font, name);
    else
        svg_text_if_free(m->s, x, bottom + 15, &tick_font, NULL, name);
}

/* Tokens of the path: at the ends always, between as there is room. */
static void draw_ticks(struct matrix *m, double bottom)
{
    const struct axis *a = &m->axis;
    double step = axis_step(m->tokens, 8);
    draw_tick(m, 0, bottom, true);
    draw_tick(m, m->tokens, bottom, true);
    for (int32_t i = 1; i < a->n; i++)
        draw_tick(m, a->at[i], bottom, false);
    for (double v = step; v < m->tokens && a->n == 1 && step >= 1; v += step)
        draw_tick(m, v, bottom, false);
}

/* ---- what is wrong ---------------------------------------------------------------------------------------- */

static void draw_flaw(struct matrix *m)
{
    if (!m->flaw || m->flaw->pair.query < 0)
        return;
    const struct run *r = &m->flaw->pair.run;
    double q = m->flaw->pair.query;
    double at = (double)m->base[r->node], least = 8;
    struct svg_box b = place(m, at + (double)r->begin, at + (double)r->end, q, q + 1);
    double wider = fmax(0, least - b.w), higher = fmax(0, least - b.h);
    b = (struct svg_box){b.x - wider / 2, b.y - higher / 2, b.w + wider, b.h + higher};
    svg_rect(m->s, b, "none", "stroke=\"#FFFFFF\" stroke-width=\"7\"",
             NULL); /* apart from dark groups, too */
    svg_rect(m->s, b, SVG_WRONG, "class=\"wrong\" stroke=\"" SVG_RED "\" stroke-width=\"3\"", m->flaw->why);
}

/* ---- the part --------------------------------------------------------------------------------------------- */

static double say_what_is_drawn(struct matrix *m, double y, bool before)
{
    int64_t nq = m->p->nf->n_queries;
    double wide = SVG_WIDTH - 2 * SVG_MARGIN;
    if (before)
        return svg_paragraph(
            m->s, SVG_MARGIN, y, wide, &text_font,
            "A row is a query, a column a token of its path. Black frames are nodes (n), colours are "
            "groups (g). At the right: the groups that a query is in, which is how many parts its "
            "softmax has.");
    char *note =
        xasprintf("Tokens of the path.%s", m->axis.widened ? " Between two numbers the scale is even; short "
                                                             "stretches are drawn wider."
                                                           : "");
    if (m->binned)
        xappend(&note,
                " Binned: %" PRId64 " rows for %" PRId64 " queries, %" PRId64
                " columns for %.0f tokens; a cell has the "
                "colour of the group that computes most of it.",
                m->rows, nq, m->cols, m->tokens);
    if (m->frames_missing)
        xappend(&note, " Nodes too small for a frame have none.");
    y = svg_paragraph(m->s, LEFT, y, SVG_WIDTH - LEFT - SVG_MARGIN, &text_font, note);
    free(note);
    return y;
}

double plan_draw_matrix(struct svg *s, double y, const struct plan *p, const struct plan_flaw *flaw)
{
    struct matrix m = {.s = s, .p = p, .flaw = flaw};
    int64_t n;
    find_base(&m);
    set_axis(&m);
    set_rows(&m);
    svg_text(s, SVG_MARGIN, y, &head_font, "Which group computes which pair");
    y = say_what_is_drawn(&m, y + 18, true);
    m.top = y + 2;
    double bottom = m.top + p->nf->n_queries * m.high;
    struct raster r;
    struct raster_rect *rect = find_rects(&m, &r, &n);
    draw_rects(&m, rect, n);
    draw_borders(&m, &r);
    draw_row_lines(&m);
    draw_flaw(&m);
    draw_nodes(&m);
    label_rects(&m, rect, n);
    draw_queries(&m);
    draw_ticks(&m, bottom);
    y = say_what_is_drawn(&m, bottom + 32, false);
    free(rect);
    raster_free(&r);
    free(m.x);
    free(m.y);
    free(m.base);
    return y;
}
