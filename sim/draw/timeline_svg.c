#include "sim/draw/timeline_svg.h"
#include "sim/draw/axis.h"
#include "sim/draw/raster.h"
#include "sim/draw/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    MOST_ROWS = 160,
    MOST_COLS = 400,
    LEAST_COLS = 50,
    MOST_BARS = 6000,
    ROW_HIGH = 26,
    HIGH = 480, /* of all rows, where these are many */
    LEFT = 80,
    RIGHT = 30,
    USE_HIGH = 70, /* of the strip below */
    LEVELS = 8,    /* of heights of bars */
    CUT_HIGH = 8,
    MOST_CUTS = 1000
};
#define MERGE_COLOUR "#000000"

static const struct svg_font text_font = {.size = 12}, tick_font = {.size = 10, .anchor = SVG_MIDDLE},
                             launch_font = {.size = 10}, row_font = {.size = 10, .anchor = SVG_END},
                             group_font = {.size = 10, .bold = true, .anchor = SVG_MIDDLE, .halo = true};

struct timeline {
    struct svg *s;
    const struct time_model *c;
    const struct plan *p;
    double end;       /* seconds of the last CTA's end */
    double sms, most; /* of the machine; CTAs on one of them */
    double *x, *y;    /* lines of the raster: seconds, SMs */
    int64_t cols, rows;
    double top, row_high;
};

static double place(const struct timeline *t, double seconds)
{
    return LEFT + seconds / t->end * (SVG_WIDTH - LEFT - RIGHT);
}

/* ---- the raster ----------------------------------------------------------------------------------------- */

static void find_extent(struct timeline *t, const struct machine *mc)
{
    t->sms = mc->sms;
    for (const struct time_model_cta *a = t->c->cta; a < t->c->cta + t->c->n_cta; a++) {
        t->end = fmax(t->end, a->end);
        t->most = fmax(t->most, a->slot + 1);
        t->sms = fmax(t->sms, a->sm + 1);
    }
}

/* Rows are whole SMs: as many in each as it takes. */
static void set_rows(struct timeline *t)
{
    double each = ceil(t->sms / MOST_ROWS);
    t->rows = (int64_t)ceil(t->sms / each);
    t->y = xcalloc((size_t)t->rows + 1, sizeof *t->y);
    for (int64_t i = 0; i <= t->rows; i++)
        t->y[i] = fmin((double)i * each, t->sms);
    t->row_high = fmin(ROW_HIGH, (double)HIGH / (double)t->rows);
}

/* Where CTAs begin and end, or even ones if these are more. */
static void set_cols(struct timeline *t, int64_t most)
{
    const struct time_model *c = t->c;
    int64_t n = 0;
    t->x = xcalloc((size_t)max_i64(2 * c->n_cta, most) + 1, sizeof *t->x);
    for (int64_t i = 0; i < c->n_cta; i++) {
        t->x[n++] = c->cta[i].start;
        t->x[n++] = c->cta[i].end;
    }
    n = raster_lines(t->x, n);
    if (n - 1 > most) {
        n = most + 1;
        for (int64_t i = 0; i < n; i++)
            t->x[i] = t->end * (double)i / (double)most;
    }
    t->cols = n - 1;
}

/* By group; all merge steps behind them. */
static int by_group(const void *pa, const void *pb)
{
    const struct time_model_cta *a = *(struct time_model_cta *const *)pa,
                                *b = *(struct time_model_cta *const *)pb;
    uint64_t x = (uint64_t)a->group, y = (uint64_t)b->group; /* -1 is the largest */
    return (x > y) - (x < y);
}

static void add_ctas(const struct timeline *t, struct raster *r)
{
    int64_t n = t->c->n_cta;
    const struct time_model_cta **cta = xcalloc((size_t)n, sizeof *cta);
    for (int64_t i = 0; i < n; i++)
        cta[i] = &t->c->cta[i];
    qsort(cta, (size_t)n, sizeof *cta, by_group);
    for (int64_t i = 0; i < n; i++) {
        double at = cta[i]->sm, share = 1.0 / cta[i]->resident;
        raster_add(r, cta[i]->group >= 0 ? cta[i]->group : t->p->n_groups, cta[i]->start, cta[i]->end, at,
                   at + share);
    }
    free(cta);
}

/* Owners become groups, or all merge steps, together with how much of a cell is in use, in LEVELS. */
static void add_levels(struct raster *r)
{
    raster_settle(r);
    for (int32_t row = 0; row < r->rows; row++)
        for (int32_t col = 0; col < r->cols; col++) {
            struct raster_cell *c = &r->cell[(int64_t)row * r->cols + col];
            double all = (r->x[col + 1] - r->x[col]) * (r->y[row + 1] - r->y[row]);
            int64_t level = (int64_t)fmax(0, ceil(LEVELS * c->sum / all - 1e-6) - 1);
            c->owner = c->owner < 0 ? -1 : c->owner * LEVELS + level;
        }
}

static bool is_full(const struct raster_rect *c)
{
    return c->owner % LEVELS == LEVELS - 1;
}

/* One for each row, unless they are full. */
static int64_t bars_of(const struct raster_rect *rect, int64_t n)
{
    int64_t bars = 0;
    for (int64_t i = 0; i < n; i++)
        bars += is_full(&rect[i]) ? 1 : rect[i].r1 - rect[i].r0;
    return bars;
}

/* On as fine a grid as does not make too many bars; it is left in *r. */
static struct raster_rect *find_rects(struct timeline *t, struct raster *r, int64_t *n)
{
    for (int64_t most = MOST_COLS;; most /= 2) {
        set_cols(t, most);
        *r = raster_new((int32_t)t->cols, t->x, (int32_t)t->rows, t->y);
        add_ctas(t, r);
        add_levels(r);
        struct raster_rect *rect = raster_rects(r, n);
        if (bars_of(rect, *n) <= MOST_BARS || most <= LEAST_COLS)
            return rect;
        free(rect);
        raster_free(r);
        free(t->x);
    }
}

/* ---- bars ------------------------------------------------------------------------------------------------ */

/* us: of whole SMs. */
static void draw_bar(const struct timeline *t, const struct svg_box *b, int64_t owner, double us)
{
    bool merge = owner == t->p->n_groups;
    char more[120], told[60];
    snprintf(told, sizeof told, merge ? "merge steps" : "group %" PRId64, owner);
    snprintf(more, sizeof more, "class=\"%s\" data-us=\"%.9g\"", merge ? "merge" : "cta", us);
    svg_rect(t->s, *b, merge ? MERGE_COLOUR : svg_colour(owner), more, told);
}

static void label_bar(const struct timeline *t, const struct svg_box *b, int64_t owner, double us)
{
    char name[40];
    (void)us;
    snprintf(name, sizeof name, "g%" PRId64, owner);
    if (owner < t->p->n_groups)
        svg_text_if_free(t->s, b->x + b->w / 2, b->y + b->h / 2 + 4, &group_font, b, name);
}

/* For each row of a rectangle, or for all of them where it fills them. */
static void each_bar(const struct timeline *t, const struct raster_rect *c,
                     void (*call)(const struct timeline *t, const struct svg_box *b, int64_t owner,
                                  double us))
{
    bool full = is_full(c);
    double share = (double)(c->owner % LEVELS + 1) / LEVELS;
    double left = place(t, t->x[c->c0]), wide = place(t, t->x[c->c1]) - left;
    double least = fmin(1.2, t->row_high), us = 1e6 * c->sum;
    if (full) {
        struct svg_box b = {left, t->top + c->r0 * t->row_high, wide, (c->r1 - c->r0) * t->row_high};
        call(t, &b, c->owner / LEVELS, us);
    }
    for (int32_t row = c->r0; row < c->r1 && !full; row++) {
        struct svg_box b = {left, t->top + row * t->row_high, wide, fmax(least, t->row_high * share)};
        call(t, &b, c->owner / LEVELS, us / (c->r1 - c->r0));
    }
}

static void draw_rows(const struct timeline *t)
{
    int64_t every = (int64_t)fmax(1, ceil(13 / t->row_high));
    double bottom = t->top + (double)t->rows * t->row_high;
    for (int64_t i = 0; i < t->rows; i += every) {
        char name[40];
        double y = t->top + (double)i * t->row_high;
        snprintf(name, sizeof name, "SM %.0f", t->y[i]);
        if (every == 1 || y + 10 < bottom)
            svg_text(t->s, LEFT - 6, every == 1 ? y + t->row_high / 2 + 4 : y + 8, &row_font, name);
    }
    svg_rect(t->s, (struct svg_box){LEFT, t->top, SVG_WIDTH - LEFT - RIGHT, bottom - t->top}, "none",
             "stroke=\"#000000\" stroke-width=\"0.8\"", NULL);
}

/* Where rows are high enough: a white line between any two, and where each CTA begins. */
static void draw_cuts(const struct timeline *t)
{
    double right = SVG_WIDTH - RIGHT;
    static const char line[] = "stroke=\"#FFFFFF\" stroke-width=\"1\"";
    for (int64_t i = 1; i < t->rows && t->row_high >= CUT_HIGH; i++)
        svg_line(t->s, LEFT, t->top + (double)i * t->row_high, right, t->top + (double)i * t->row_high, line);
    for (int64_t i = 0; i < t->c->n_cta && t->row_high >= CUT_HIGH && t->c->n_cta <= MOST_CUTS; i++) {
        double x = place(t, t->c->cta[i].start), y = t->top + t->c->cta[i].sm * t->row_high;
        svg_line(t->s, x, y, x, y + t->row_high, line);
    }
}

/* A line where the first CTA of each launch starts, with the launch's name above the rows. */
static void draw_launches(const struct timeline *t)
{
    double *start = xcalloc((size_t)t->p->n_launches, sizeof *start);
    for (int32_t l = 0; l < t->p->n_launches; l++)
        start[l] = INFINITY;
    for (int64_t i = 0; i < t->c->n_cta; i++)
        start[t->c->cta[i].launch] = fmin(start[t->c->cta[i].launch], t->c->cta[i].start);
    for (int32_t l = 0; l < t->p->n_launches; l++) {
        const char *name = t->p->launch[l].name;
        double x = isfinite(start[l]) ? place(t, start[l]) : 0,
               bottom = t->top + (double)t->rows * t->row_high;
        if (!isfinite(start[l]))
            continue;
        svg_line(t->s, x, t->top - 5, x, bottom,
                 "stroke=\"#000000\" stroke-dasharray=\"3 3\" stroke-width=\"0.8\"");
        struct svg_font font = launch_font;
        font.anchor = x + svg_text_width(&font, name) > SVG_WIDTH - SVG_MARGIN ? SVG_END : SVG_START;
        svg_text_if_free(t->s, x, t->top - 8, &font, NULL, name);
    }
    free(start);
}

static void draw_ticks(const struct timeline *t, double y)
{
    double us = 1e6 * t->end, step = axis_step(us, 8);
    for (int32_t i = 0; i * step <= us; i++) {
        char name[40];
        double x = place(t, 1e-6 * i * step);
        snprintf(name, sizeof name, i == 0 ? "0 us" : "%.10g", i * step);
        svg_line(t->s, x, y, x, y + 4, "stroke=\"#000000\"");
        svg_text_if_free(t->s, x, y + 15, &tick_font, NULL, name);
    }
}

/* ---- what is in use --------------------------------------------------------------------------------------- */

enum use { USE_DRAM, USE_TENSOR, N_USES };
static const char *const use_name[N_USES] = {"DRAM bandwidth in use", "tensor cores in use"};
static const char *const use_line[N_USES] = {
    "stroke=\"#000000\" stroke-width=\"1.5\"",
    "stroke=\"#D55E00\" stroke-width=\"1.5\" stroke-dasharray=\"5 2\""};

static double use_of(const struct time_model_span *x, enum use u)
{
    return u == USE_DRAM ? x->dram : x->ops;
}

/* Means over MOST_COLS even stretches of the time. */
static void mean_use(const struct timeline *t, enum use u, double out[MOST_COLS])
{
    double each = t->end / MOST_COLS;
    for (int i = 0; i < MOST_COLS; i++)
        out[i] = 0;
    for (const struct time_model_span *x = t->c->span; x < t->c->span + t->c->n_span; x++)
        for (int i = (int)fmin(MOST_COLS - 1, floor(x->start / each)); i < MOST_COLS && i * each < x->end;
             i++)
            out[i] += use_of(x, u) * fmax(0, fmin(x->end, (i + 1) * each) - fmax(x->start, i * each)) / each;
}

static void draw_use(const struct timeline *t, double y, enum use u)
{
    double mean[MOST_COLS];
    mean_use(t, u, mean);
    fprintf(t->s->f, "<path class=\"use\" fill=\"none\" %s d=\"", use_line[u]);
    for (int i = 0; i < MOST_COLS; i++)
        fprintf(t->s->f, "%s%.2f,%.2fH%.2f", i == 0 ? "M" : "L", place(t, t->end * i / MOST_COLS),
                y + USE_HIGH * (1 - fmin(1, mean[i])), place(t, t->end * (i + 1) / MOST_COLS));
    fputs("\"/>\n", t->s->f);
}

static double draw_uses(const struct timeline *t, double y)
{
    double x = LEFT;
    for (int u = 0; u < N_USES; u++) {
        svg_line(t->s, x, y - 4, x + 28, y - 4, use_line[u]);
        svg_text(t->s, x + 34, y, &text_font, use_name[u]);
        x += 34 + svg_text_width(&text_font, use_name[u]) + 30;
    }
    y += 10;
    svg_rect(t->s, (struct svg_box){LEFT, y, SVG_WIDTH - LEFT - RIGHT, USE_HIGH}, "none",
             "stroke=\"#888888\" stroke-width=\"0.8\"", NULL);
    svg_text(t->s, LEFT - 6, y + 8, &row_font, "100 %");
    svg_text(t->s, LEFT - 6, y + USE_HIGH, &row_font, "0 %");
    for (int u = 0; u < N_USES; u++)
        draw_use(t, y, u);
    draw_ticks(t, y + USE_HIGH);
    return y + USE_HIGH + 22;
}

/* ---- the picture ------------------------------------------------------------------------------------------ */

static char *words_of(const struct timeline *t, const struct machine *mc)
{
    const struct time_model *c = t->c;
    char *text = xasprintf("Simulated on %s: %.4g us from the start of the first CTA to the end of the last",
                           mc->name, 1e6 * t->end);
    xappend(&text, "; with launches and all else %.4g us. ", 1e6 * c->latency_s);
    xappend(&text, "%" PRId64 " CTAs on %.0f SMs, at most %.0f on one at a time. ", c->ctas, t->sms, t->most);
    xappend(&text, "Without any CTA: %.3g %% of the time of SMs, %.3g %% of that of slots.",
            100 * (1 - c->sm_use), 100 * (1 - c->slot_use));
    return text;
}

static double draw_all(struct timeline *t, double y)
{
    struct raster r;
    int64_t n;
    t->top = y + 16;
    set_rows(t);
    struct raster_rect *rect = find_rects(t, &r, &n);
    for (int64_t i = 0; i < n; i++)
        each_bar(t, &rect[i], draw_bar);
    draw_cuts(t);
    for (int64_t i = 0; i < n; i++)
        each_bar(t, &rect[i], label_bar);
    draw_rows(t);
    draw_launches(t);
    y = t->top + (double)t->rows * t->row_high;
    draw_ticks(t, y);
    free(rect);
    raster_free(&r);
    free(t->x);
    free(t->y);
    return draw_uses(t, y + 40);
}

void time_model_print_svg(FILE *out, const struct time_model *c, const struct plan *p,
                          const struct machine *mc)
{
    struct svg s = {0};
    struct timeline t = {.s = &s, .c = c, .p = p};
    double wide = SVG_WIDTH - 2 * SVG_MARGIN, y;
    find_extent(&t, mc);
    char *words = words_of(&t, mc), *title = xasprintf("%s in time on %s", p->strategy, mc->name);
    svg_begin(&s);
    y = svg_title(&s, title, p->strategy);
    y = svg_paragraph(&s, SVG_MARGIN, y, wide, &text_font, words);
    y = svg_paragraph(
        &s, SVG_MARGIN, y, wide, &text_font,
        "A row is an SM, or several, and a bar the CTAs on it: a colour is a group, black are merge steps, "
        "white is "
        "nothing. A bar is as high as the share of the SM that its CTAs take. Where groups share an SM, the "
        "one with most of it shows. Dashed lines are launches.");
    if (t.end > 0)
        y = draw_all(&t, y);
    svg_end(&s, out, y + SVG_MARGIN, title, words);
    free(words);
    free(title);
}
