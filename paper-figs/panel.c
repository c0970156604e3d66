/* panel.c - one panel of a figure: its axes, tics and data as gnuplot's commands. */
#include "paper-figs/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RIGHT = 30, TIC = 6, GAP = 8, MOST_TICS = 24, MANY_POINTS = 40, FEW_POINTS = 12, SLANT = 35 };

static const struct point *point_of(const struct drawing *d, int32_t i)
{
    return d->f->point[i].panel == d->panel ? &d->f->point[i] : NULL;
}

static const struct panel *panel_of(const struct drawing *d)
{
    return &d->f->panel[d->panel];
}

bool has_dots(const struct panel *p)
{
    return p->plot == BARS && p->flags & LOG_Y;
}

int hollow(int marker)
{
    return marker >= 5 && marker <= 15 && marker % 2 ? marker - 1 : marker;
}

/* ---- what is on the axes ------------------------------------------------------------------------------ */

/* Values with a tic and what stands at them. */
struct tics {
    int32_t n;
    double at[MOST_TICS];
    char *text[MOST_TICS]; /* owned */
};

static void tics_add(struct tics *t, double at, const char *text)
{
    if (t->n == MOST_TICS)
        return;
    t->at[t->n] = at;
    t->text[t->n++] = xstrdup(text);
}

static void tics_clear(struct tics *t)
{
    for (int32_t i = 0; i < t->n; i++)
        free(t->text[i]);
    t->n = 0;
}

static void tics_number(struct tics *t, double at)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", fabs(at) < 1e-12 ? 0 : at);
    tics_add(t, at, text);
}

/* 0, 5, 10, .. between the two, about `about` of them. */
static void linear_tics(struct tics *t, double lo, double hi, int about)
{
    double step = pow(10, floor(log10((hi - lo) / about)));
    while ((hi - lo) / step > 1.25 * about)
        step *= (hi - lo) / step / 2 <= 1.25 * about ? 2 : (hi - lo) / step / 5 <= 1.25 * about ? 5 : 10;
    for (double k = ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step; k++)
        tics_number(t, k * step);
}

/* Powers of ten, or where those would be too few 1, 2, 5, 10, .. */
static void log_tics(struct tics *t, double lo, double hi, int about)
{
    int every = 1;
    while (log10(hi / lo) / every > about)
        every++;
    bool fine = hi < 200 * lo;
    for (int k = (int)floor(log10(lo)); pow(10, k) <= hi; k += every)
        for (int i = 0; i < (fine ? 3 : 1); i++) {
            double at = pow(10, k) * (i == 0 ? 1 : i == 1 ? 2 : 5);
            if (at >= lo && at <= hi)
                tics_number(t, at);
        }
}

static void y_range(const struct drawing *d, double *lo, double *hi)
{
    const struct panel *p = panel_of(d);
    *lo = d->lo;
    *hi = d->hi;
    if (p->plot == MAP) {
        *lo = 0.5;
        *hi = d->at.n + 0.5;
    } else if (p->flags & LOG_Y) {
        *lo /= 1.3;
        *hi *= 1.3;
    } else {
        double room = 0.07 * (d->hi - fmin(d->lo, 0));
        *lo = p->plot == BARS || d->lo > 0 ? (d->lo < 0 ? d->lo - room : 0) : d->lo - room;
        *hi = fmax(d->hi + room, *lo + 1e-9);
    }
}

static void x_range(const struct drawing *d, double *lo, double *hi)
{
    const struct panel *p = panel_of(d);
    double room = 0.03 * (d->x_hi - d->x_lo);
    *lo = p->plot == BARS    ? 0.4
          : p->plot == MAP   ? d->x_lo - 0.5
          : p->flags & LOG_X ? d->x_lo / 1.12
                             : d->x_lo - room;
    *hi = p->plot == BARS    ? d->at.n + 0.6
          : p->plot == MAP   ? d->x_hi + 0.5
          : p->flags & LOG_X ? d->x_hi * 1.12
                             : d->x_hi + room;
}

static void y_tics(const struct drawing *d, struct tics *t)
{
    double lo, hi;
    t->n = 0;
    y_range(d, &lo, &hi);
    if (panel_of(d)->plot == MAP)
        for (int32_t i = 0; i < d->at.n; i++)
            tics_add(t, i + 1, d->at.text[i]);
    else if (panel_of(d)->flags & LOG_Y)
        log_tics(t, lo, hi, 6);
    else
        linear_tics(t, lo, hi, 5);
}

/* A tic at every x that occurs, with its `at` (of a map: the number) where that leaves room on `width` pixels. */
static void point_tics(const struct drawing *d, double width, struct tics *t)
{
    const struct panel *p = panel_of(d);
    double lo, hi, *end = xcalloc((size_t)d->f->n_points + 1, 2 * sizeof *end);
    int32_t n = 0;
    x_range(d, &lo, &hi);
    for (int32_t i = 0; i < d->f->n_points; i++) {
        const struct point *q = point_of(d, i);
        int32_t k = 0;
        while (q && k < t->n && t->at[k] != q->x)
            k++;
        if (!q || k < t->n)
            continue;
        char number[32];
        snprintf(number, sizeof number, "%.6g", q->x);
        const char *text = p->plot == MAP ? number : q->at;
        double middle = width * (p->flags & LOG_X ? log(q->x / lo) / log(hi / lo) : (q->x - lo) / (hi - lo)),
               half = letters_width(text, SMALL_SIZE) / 2 + GAP / 2.0;
        bool room = true;
        for (k = 0; k < n; k++)
            room &= middle + half < end[2 * k] || middle - half > end[2 * k + 1];
        tics_add(t, q->x, room ? text : "");
        if (room) {
            end[2 * n] = middle - half;
            end[2 * n++ + 1] = middle + half;
        }
    }
    free(end);
}

/* Tics of the x axis, `width` pixels long, but for those of bars. */
static void x_tics(const struct drawing *d, double width, struct tics *t)
{
    const struct panel *p = panel_of(d);
    double lo, hi;
    t->n = 0;
    x_range(d, &lo, &hi);
    if (p->plot == MAP || (p->plot == LINES && d->at.n <= FEW_POINTS))
        point_tics(d, width, t);
    else if (p->flags & LOG_X)
        log_tics(t, lo, hi, (int)(width / 60));
    else
        linear_tics(t, lo, hi, (int)(width / 60));
}

/* ---- labels of bars ------------------------------------------------------------------------------------ */

/* Broken at blanks where that makes them fit, else slanted. */
struct bar_labels {
    double height; /* pixels */
    double slot;   /* of one label */
    bool slanted;
};

static struct bar_labels bar_labels(const struct drawing *d, double width)
{
    struct bar_labels b = {.slot = width / d->at.n - GAP};
    int32_t most = 1;
    double widest = 0;
    for (int32_t i = 0; i < d->at.n; i++) {
        int32_t lines;
        char *wrapped = letters_wrap(d->at.text[i], SMALL_SIZE, b.slot, &lines);
        b.slanted |= letters_widest(wrapped, SMALL_SIZE) > b.slot;
        most = lines > most ? lines : most;
        widest = fmax(widest, letters_width(d->at.text[i], SMALL_SIZE));
        free(wrapped);
    }
    b.height = b.slanted ? sin(SLANT * M_PI / 180) * widest + SMALL_LINE : most * SMALL_LINE;
    return b;
}

bool panel_slants(const struct drawing *d, double panel_width, double left)
{
    return panel_of(d)->plot == BARS && bar_labels(d, panel_width - left - RIGHT).slanted;
}

static void put_bar_labels(const struct drawing *d, struct bar_labels b, double y)
{
    for (int32_t i = 0; i < d->at.n; i++) {
        struct at at = {.x = i + 1, .x_is_value = true, .y = y + SMALL_LINE / 2.0};
        char *wrapped = letters_wrap(d->at.text[i], SMALL_SIZE, b.slanted ? INFINITY : b.slot, NULL);
        put_lines(d->sheet, at, b.slanted ? AT_RIGHT : AT_CENTER, "small_font", NULL, b.slanted ? SLANT : 0,
                  SMALL_LINE, wrapped);
        free(wrapped);
    }
}

/* ---- data ------------------------------------------------------------------------------------------------ */

void drawing_start(struct drawing *d, const struct sheet *sheet, int32_t panel)
{
    const struct figure *f = sheet->f;
    *d = (struct drawing){sheet, f, panel, {0}, {0}, INFINITY, -INFINITY, INFINITY, -INFINITY};
    bool log_y = f->panel[panel].flags & LOG_Y;
    for (int32_t i = 0; i < f->n_points; i++) {
        const struct point *p = point_of(d, i);
        if (!p)
            continue;
        labels_add(&d->series, p->series);
        labels_add(&d->at, p->at);
        for (int k = 0; k < 2; k++) {
            double v = k ? p->paper : p->ours;
            if (!isnan(v) && !(log_y && v <= 0)) {
                d->lo = fmin(d->lo, v);
                d->hi = fmax(d->hi, v);
            }
        }
        if (!isnan(p->x)) {
            d->x_lo = fmin(d->x_lo, p->x);
            d->x_hi = fmax(d->x_hi, p->x);
        }
    }
}

void drawing_end(struct drawing *d)
{
    free(d->series.text);
    free(d->at.text);
}

/* Where the bar, line or cell of a point stands. */
static double x_of(const struct drawing *d, const struct point *p)
{
    if (panel_of(d)->plot != BARS)
        return p->x;
    struct labels series = d->series, at = d->at;
    double width = 0.8 / series.n;
    return labels_add(&at, p->at) + 1 + (labels_add(&series, p->series) - (series.n - 1) / 2.0) * width;
}

static void put_data(const struct drawing *d)
{
    FILE *out = d->sheet->out;
    for (int32_t s = 0; s < d->series.n; s++)
        for (int k = 0; k < 2; k++) {
            fprintf(out, "$p%ds%d%s << EOD\n", (int)d->panel, (int)s, k ? "paper" : "");
            for (int32_t i = 0; i < d->f->n_points; i++) {
                const struct point *p = point_of(d, i);
                double v = p ? (k ? p->paper : p->ours) : NAN;
                if (isnan(v) || strcmp(p->series, d->series.text[s]) != 0)
                    continue;
                struct labels at = d->at;
                fprintf(out, "%.6g %.6g %d\n", x_of(d, p), v, (int)labels_add(&at, p->at) + 1);
            }
            fprintf(out, "EOD\n");
        }
}

static bool has_data(const struct drawing *d, const char *series, bool paper)
{
    bool log_y = panel_of(d)->flags & LOG_Y;
    for (int32_t i = 0; i < d->f->n_points; i++) {
        const struct point *p = point_of(d, i);
        double v = p ? (paper ? p->paper : p->ours) : NAN;
        if (!isnan(v) && !(log_y && v <= 0) && strcmp(p->series, series) == 0)
            return true;
    }
    return false;
}

bool is_crowded(const struct figure *f, int32_t panel, const char *series)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->n_points; i++)
        n += f->point[i].panel == panel && strcmp(f->point[i].series, series) == 0;
    return n > MANY_POINTS;
}

static void put_look(const struct drawing *d, const struct series *s)
{
    const struct panel *p = panel_of(d);
    FILE *out = d->sheet->out;
    if (has_dots(p))
        fprintf(out, "with points lc rgb '%s' pt %d ps 1.4", s->colour, s->marker);
    else if (p->plot == BARS && s->fill)
        fprintf(out, "with boxes lc rgb '%s' fs pattern %d border rgb '#333333'", s->colour, s->fill);
    else if (p->plot == BARS)
        fprintf(out, "with boxes lc rgb '%s' fs solid 0.9 border rgb '#333333'", s->colour);
    else if (p->plot == SCATTER)
        fprintf(out, "with points lc rgb '%s' pt %d ps 0.8", s->colour, s->marker);
    else if (is_crowded(d->f, d->panel, s->name))
        fprintf(out, "with lines lc rgb '%s' lw 2.5 dt %d", s->colour, s->dash);
    else
        fprintf(out, "with linespoints lc rgb '%s' lw 2.5 dt %d pt %d", s->colour, s->dash, s->marker);
}

/* Cells, with the numbers in them. */
static void put_cells(FILE *out, const char *data, const struct series *look)
{
    fprintf(out, "%s using 1:3:(0.5):(0.5) with boxxyerror fs solid 0.55 border rgb '#FFFFFF' lc rgb '%s'",
            data, look->colour);
    fprintf(out, ", %s using 1:3:(sprintf('%%.3g', $2)) with labels font small_font", data);
}

/* All ours, then all of the paper's, which are never hidden. */
static void put_plot(const struct drawing *d)
{
    const struct panel *p = panel_of(d);
    FILE *out = d->sheet->out;
    const char *comma = "";
    fprintf(out, "set boxwidth %.4f absolute\nplot ", p->plot == BARS ? 0.74 / d->series.n : 1.0);
    for (int k = 0; k < 2; k++)
        for (int32_t s = 0; s < d->series.n; s++) {
            const struct series *look = series_find(d->series.text[s]);
            char data[40];
            snprintf(data, sizeof data, "$p%ds%d%s", (int)d->panel, (int)s, k ? "paper" : "");
            if (!has_data(d, look->name, k))
                continue;
            fprintf(out, "%s", comma);
            comma = ", ";
            if (p->plot == MAP)
                put_cells(out, data, look);
            else if (k == 0) {
                fprintf(out, "%s using 1:2 ", data);
                put_look(d, look);
            } else if (p->plot == BARS)
                fprintf(out,
                        "%s using 1:2 with points pt 13 ps 1.5 lc rgb '#000000', %s using 1:2 with points pt "
                        "13 ps "
                        "0.8 lc rgb '#FFFFFF'",
                        data, data);
            else
                fprintf(out, "%s using 1:2 with points pt %d ps 1.7 lw 2 lc rgb '%s'", data,
                        hollow(look->marker), look->colour);
        }
    if (p->plot == SCATTER)
        fprintf(out, "%sx ls 90", comma);
    fprintf(out, "\nunset label\n");
}

/* ---- a panel ----------------------------------------------------------------------------------------------- */

enum { NAME_LINE = 24, TOP = 10, X_LABEL = 26 };

/* The label of the vertical axis as lines that are no longer than the panel is high. The caller frees. */
static char *y_label(const struct drawing *d, double panel_height, int32_t *lines)
{
    const struct panel *p = panel_of(d);
    char *whole = xasprintf("%s%s", p->y_label, has_dots(p) ? ", log axis" : ""),
         *wrapped = letters_wrap(whole, TEXT_SIZE, panel_height - 70, lines);
    free(whole);
    return wrapped;
}

double panel_left(const struct drawing *d, double panel_height)
{
    struct tics t;
    int32_t lines;
    double widest = 0;
    y_tics(d, &t);
    for (int32_t i = 0; i < t.n; i++)
        widest = fmax(widest, letters_width(t.text[i], SMALL_SIZE));
    tics_clear(&t);
    free(y_label(d, panel_height, &lines));
    return EDGE + lines * LINE + GAP + widest + GAP + TIC;
}

static void put_tics(const struct drawing *d, char axis, const struct tics *t, double at)
{
    const struct panel *p = panel_of(d);
    bool bare = p->plot == MAP || (p->plot == BARS && axis == 'x');
    fprintf(d->sheet->out, "set %ctics nomirror out scale %s (", axis, bare ? "0" : "0.6");
    for (int32_t i = 0; i < t->n; i++)
        fprintf(d->sheet->out, "%s'' %.8g", i ? ", " : "", t->at[i]);
    fprintf(d->sheet->out, ")\n");
    for (int32_t i = 0; i < t->n; i++) {
        struct at where =
            axis == 'x' ? (struct at){t->at[i], at, true, false} : (struct at){at, t->at[i], false, true};
        put_text(d->sheet, where, axis == 'x' ? AT_CENTER : AT_RIGHT, "small_font", NULL, 0, t->text[i]);
    }
}

static void put_ranges(const struct drawing *d)
{
    const struct panel *p = panel_of(d);
    FILE *out = d->sheet->out;
    double lo, hi;
    y_range(d, &lo, &hi);
    fprintf(out, "%sset logscale y\nset format y ''\nset format x ''\n", p->flags & LOG_Y ? "" : "un");
    if (p->plot == MAP)
        fprintf(out, "set yrange [%.6g:%.6g]\n", hi, lo); /* the first row on top */
    else
        fprintf(out, "set yrange [%.6g:%.6g]\n", lo, hi);
    x_range(d, &lo, &hi);
    fprintf(out, "%sset logscale x\nset xrange [%.6g:%.6g]\n",
            p->flags & LOG_X && p->plot != BARS ? "" : "un", lo, hi);
}

void put_panel(const struct drawing *d, struct box b, double left)
{
    const struct panel *p = panel_of(d);
    const struct sheet *s = d->sheet;
    struct box in = {b.left + left, b.right - RIGHT, b.top + TOP, b.bottom - EDGE};
    double width = in.right - in.left;
    int32_t lines = 0;
    put_data(d);
    if (*p->name) {
        char *name = letters_wrap(p->name, TEXT_SIZE, b.right - b.left - 2 * EDGE, &lines);
        double half = letters_widest(name, TEXT_SIZE) / 2, middle = (in.left + in.right) / 2;
        middle = fmin(fmax(middle, b.left + half + EDGE), b.right - half - EDGE);
        put_lines(s, (struct at){.x = middle, .y = b.top + LINE / 2.0}, AT_CENTER, "text_font", NULL, 0, LINE,
                  name);
        in.top = b.top + lines * NAME_LINE + TOP;
        free(name);
    }
    struct bar_labels bars =
        p->plot == BARS ? bar_labels(d, width) : (struct bar_labels){.height = SMALL_LINE};
    in.bottom -= bars.height + TIC + GAP + GAP / 2.0 + (*p->x_label ? X_LABEL : 0);
    put_ranges(d);
    fprintf(s->out, "set lmargin at screen %.5f\nset rmargin at screen %.5f\n", in.left / WIDTH,
            in.right / WIDTH);
    fprintf(s->out, "set tmargin at screen %.5f\nset bmargin at screen %.5f\n", 1 - in.top / s->height,
            1 - in.bottom / s->height);
    struct tics t;
    y_tics(d, &t);
    put_tics(d, 'y', &t, in.left - TIC - GAP);
    tics_clear(&t);
    double below = in.bottom + TIC + (p->plot == BARS ? GAP : GAP / 2.0);
    if (p->plot == BARS) {
        put_tics(d, 'x', &t, below);
        put_bar_labels(d, bars, below);
    } else {
        x_tics(d, width, &t);
        put_tics(d, 'x', &t, below + SMALL_LINE / 2.0);
        tics_clear(&t);
    }
    put_text(s, (struct at){.x = (in.left + in.right) / 2, .y = below + bars.height + X_LABEL / 2.0},
             AT_CENTER, "text_font", NULL, 0, p->x_label);
    char *label = y_label(d, b.bottom - b.top, &lines);
    double middle = (in.top + in.bottom) / 2, half = letters_widest(label, TEXT_SIZE) / 2;
    middle = fmin(fmax(middle, b.top + half + 2), b.bottom - half - 2);
    put_lines(s, (struct at){.x = b.left + EDGE + LINE / 2.0, .y = middle}, AT_CENTER, "text_font", NULL, 90,
              LINE, label);
    free(label);
    put_plot(d);
}
