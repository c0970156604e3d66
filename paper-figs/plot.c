/* plot.c - a figure as a gnuplot script: every place of title, legend, panels and caption is computed here. */
#include "paper-figs/figure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pixels; a letter is about LETTER wide. Readable at half the width. */
enum {
    WIDTH = 1000,
    EDGE = 16,
    LEFT = 114,
    RIGHT = 28,
    LETTER = 10,
    SMALL_LETTER = 8,
    LINE = 24,
    PANEL = 340,
    TITLE = 44
};

struct box {
    double left, right, top, bottom; /* pixels from the left and from the top */
};

struct labels {
    int32_t n;
    const char **text;
};

/* Different strings in the order they come. */
static int32_t labels_add(struct labels *l, const char *text)
{
    for (int32_t i = 0; i < l->n; i++)
        if (strcmp(l->text[i], text) == 0)
            return i;
    l->text = xrealloc(l->text, (size_t)l->n + 1, sizeof *l->text);
    l->text[l->n] = text;
    return l->n++;
}

static void put_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++)
        if (*s == '\n')
            fputs("\\n", out);
        else {
            if (*s == '"' || *s == '\\')
                fputc('\\', out);
            fputc(*s, out);
        }
    fputc('"', out);
}

/* Break at blanks so that no line is longer than `width` letters, as far as words allow. Returns the lines. */
static int wrap(char *s, int width)
{
    int lines = 1;
    for (char *start = s, *blank = NULL; *s; s++) {
        if (*s == ' ')
            blank = s;
        if (s - start >= width && blank) {
            *blank = '\n';
            start = blank + 1;
            blank = NULL;
            lines++;
        }
    }
    return lines;
}

static int longest_word(const char *s)
{
    int most = 0, n = 0;
    for (; *s; s++) {
        n = *s == ' ' ? 0 : n + 1;
        most = n > most ? n : most;
    }
    return most;
}

/* ---- a panel ---------------------------------------------------------------------------------------- */

struct drawing {
    FILE *out;
    const struct figure *f;
    int32_t panel;
    struct labels series, at; /* of this panel */
    double lo, hi, x_lo, x_hi;
};

static const struct point *point_of(const struct drawing *d, int32_t i)
{
    return d->f->point[i].panel == d->panel ? &d->f->point[i] : NULL;
}

static void drawing_start(struct drawing *d, const struct figure *f, int32_t panel, FILE *out)
{
    *d = (struct drawing){out, f, panel, {0}, {0}, INFINITY, -INFINITY, INFINITY, -INFINITY};
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

static void drawing_end(struct drawing *d)
{
    free(d->series.text);
    free(d->at.text);
}

/* Whether clusters are of markers. */
static bool has_dots(const struct panel *p)
{
    return p->plot == BARS && p->flags & LOG_Y;
}

/* Where the bar, line or cell of a point stands. */
static double x_of(const struct drawing *d, const struct point *p)
{
    const struct panel *panel = &d->f->panel[d->panel];
    if (panel->plot != BARS)
        return p->x;
    struct labels series = d->series, at = d->at;
    double width = 0.8 / series.n;
    return labels_add(&at, p->at) + 1 + (labels_add(&series, p->series) - (series.n - 1) / 2.0) * width;
}

static void put_data(const struct drawing *d)
{
    for (int32_t s = 0; s < d->series.n; s++)
        for (int k = 0; k < 2; k++) {
            fprintf(d->out, "$p%ds%d%s << EOD\n", (int)d->panel, (int)s, k ? "paper" : "");
            for (int32_t i = 0; i < d->f->n_points; i++) {
                const struct point *p = point_of(d, i);
                double v = p ? (k ? p->paper : p->ours) : NAN;
                if (isnan(v) || strcmp(p->series, d->series.text[s]) != 0)
                    continue;
                struct labels at = d->at;
                fprintf(d->out, "%.6g %.6g %d\n", x_of(d, p), v, (int)labels_add(&at, p->at) + 1);
            }
            fprintf(d->out, "EOD\n");
        }
}

static bool has_data(const struct drawing *d, const char *series, bool paper)
{
    bool log_y = d->f->panel[d->panel].flags & LOG_Y;
    for (int32_t i = 0; i < d->f->n_points; i++) {
        const struct point *p = point_of(d, i);
        double v = p ? (paper ? p->paper : p->ours) : NAN;
        if (!isnan(v) && !(log_y && v <= 0) && (!series || strcmp(p->series, series) == 0))
            return true;
    }
    return false;
}

/* The same marker without a filling. */
static int hollow(int marker)
{
    return marker >= 5 && marker <= 15 && marker % 2 ? marker - 1 : marker;
}

static void put_look(FILE *out, const struct panel *p, const struct series *s, bool many)
{
    enum plot plot = p->plot;
    char fill[24] = "solid 0.9";
    if (s->fill)
        snprintf(fill, sizeof fill, "pattern %d", s->fill);
    if (has_dots(p))
        fprintf(out, "with points lc rgb '%s' pt %d ps 1.5", s->colour, s->marker);
    else if (plot == BARS || plot == MAP)
        fprintf(out, "with boxes lc rgb '%s' fs %s border rgb '#333333'", s->colour, fill);
    else if (plot == SCATTER)
        fprintf(out, "with points lc rgb '%s' pt %d ps 0.8", s->colour, s->marker);
    else
        fprintf(out, "with %s lc rgb '%s' lw 2.5 dt %d%s", many ? "lines" : "linespoints", s->colour, s->dash,
                many ? "" : " pt ");
    if (plot == LINES && !many)
        fprintf(out, "%d", s->marker);
}

static bool many_points(const struct drawing *d)
{
    return d->at.n > 40;
}

static void put_ranges(const struct drawing *d)
{
    const struct panel *p = &d->f->panel[d->panel];
    bool log_y = p->flags & LOG_Y, log_x = p->flags & LOG_X;
    double lo = d->lo, hi = d->hi;
    if (log_y) {
        lo /= 1.3;
        hi *= 1.3;
    } else {
        double room = 0.07 * (hi - fmin(lo, 0));
        lo = p->plot == BARS || lo > 0 ? fmin(lo < 0 ? lo - room : 0, 0) : lo - room;
        hi = fmax(hi + room, lo + 1e-9);
    }
    fprintf(d->out, "%sset logscale y\nset format y '%%.6g'\n", log_y ? "" : "un");
    if (p->plot == MAP)
        fprintf(d->out, "set yrange [%d.5:0.5]\nset xrange [%.6g:%.6g]\n", (int)d->at.n, d->x_lo - 0.5,
                d->x_hi + 0.5);
    else
        fprintf(d->out, "set yrange [%.6g:%.6g]\n", lo, hi);
    fprintf(d->out, log_x ? "set logscale x 2\n" : "unset logscale x\n");
    if (p->plot == BARS)
        fprintf(d->out, "set xrange [0.4:%.6g]\n", d->at.n + 0.6);
    else if (p->plot == LINES || p->plot == SCATTER) {
        double x_lo = d->x_lo, x_hi = d->x_hi, room = 0.03 * (x_hi - x_lo);
        fprintf(d->out, "set xrange [%.6g:%.6g]\n", log_x ? x_lo / 1.12 : x_lo - room,
                log_x ? x_hi * 1.12 : x_hi + room);
    }
}

/* How the labels of bars are set: broken at blanks, smaller where that makes words fit, else slanted. */
struct label_style {
    double height; /* pixels below the axis */
    int letters;   /* of a line */
    bool slanted, small;
};

static struct label_style label_style(const struct drawing *d, double width)
{
    struct label_style style = {0};
    int word = 0, all = 0, lines = 1;
    for (int32_t i = 0; i < d->at.n; i++) {
        int w = longest_word(d->at.text[i]), n = (int)strlen(d->at.text[i]);
        word = w > word ? w : word;
        all = n > all ? n : all;
    }
    double slot = width / d->at.n;
    style.small = word * (LETTER + 0.5) > slot;
    style.slanted = word * SMALL_LETTER > slot;
    style.letters = (int)(slot / (style.small ? SMALL_LETTER : LETTER)) - 1;
    for (int32_t i = 0; i < d->at.n; i++) {
        char *copy = xstrdup(d->at.text[i]);
        int n = wrap(copy, style.letters);
        lines = n > lines ? n : lines;
        free(copy);
    }
    style.height = style.slanted ? 0.62 * SMALL_LETTER * all + 24 : lines * (style.small ? 17 : 21) + 8;
    return style;
}

/* 1, 2, 5, 10, .. where powers of ten alone would be too few. */
static void put_log_tics(const struct drawing *d)
{
    if (!(d->hi < 200 * d->lo))
        return;
    const char *comma = "";
    fprintf(d->out, "set ytics nomirror (");
    for (double ten = pow(10, floor(log10(d->lo))); ten <= d->hi; ten *= 10)
        for (int i = 0; i < 3; i++, comma = ", ")
            fprintf(d->out, "%s%g", comma, ten * (i == 0 ? 1 : i == 1 ? 2 : 5));
    fprintf(d->out, ")\n");
}

/* A tic at every x that occurs, with its `at` (of a map: the number) where that leaves room. */
static void put_point_tics(const struct drawing *d, double width)
{
    const struct panel *p = &d->f->panel[d->panel];
    bool log_x = p->flags & LOG_X;
    double span = log_x ? log(d->x_hi / d->x_lo) : d->x_hi - d->x_lo,
           *end = xcalloc((size_t)d->f->n_points, 2 * sizeof *end);
    int32_t n = 0;
    const char *comma = "";
    fprintf(d->out, "set xtics nomirror scale 0.6 (");
    for (int32_t i = 0; i < d->f->n_points; i++) {
        const struct point *q = point_of(d, i);
        int32_t k = 0;
        while (k < i && !(q && point_of(d, k) && d->f->point[k].x == q->x))
            k++;
        if (!q || k < i)
            continue;
        double middle = width * (log_x ? log(q->x / d->x_lo) : q->x - d->x_lo) / span;
        double half = (double)strlen(q->at) * LETTER / 2 + 3;
        bool room = true;
        for (k = 0; k < n; k++)
            room &= middle + half < end[2 * k] || middle - half > end[2 * k + 1];
        fprintf(d->out, "%s", comma);
        comma = ", ";
        if (p->plot == LINES && room) {
            put_string(d->out, q->at);
            end[2 * n] = middle - half;
            end[2 * n++ + 1] = middle + half;
        } else if (p->plot == LINES)
            put_string(d->out, "");
        fprintf(d->out, " %.6g", q->x);
    }
    fprintf(d->out, ")\n");
    free(end);
}

static void put_tics(const struct drawing *d, struct label_style style, double width)
{
    const struct panel *p = &d->f->panel[d->panel];
    FILE *out = d->out;
    fprintf(out, "set xtics font ',' nomirror norotate autojustify autofreq\nset ytics nomirror autofreq\n");
    if (p->flags & LOG_Y)
        put_log_tics(d);
    if (p->plot == BARS) {
        fprintf(out, "set xtics font %s nomirror scale 0 %s (", style.small ? "small_font" : "','",
                style.slanted ? "rotate by 35 right" : "norotate autojustify");
        for (int32_t i = 0; i < d->at.n; i++) {
            char *copy = xstrdup(d->at.text[i]);
            if (!style.slanted)
                wrap(copy, style.letters);
            fprintf(out, "%s", i ? ", " : "");
            put_string(out, copy);
            fprintf(out, " %d", (int)i + 1);
            free(copy);
        }
        fprintf(out, ")\n");
    } else if ((p->plot == LINES && d->at.n <= 12) || p->plot == MAP) {
        put_point_tics(d, width);
    }
    if (p->plot == MAP) {
        fprintf(out, "set ytics nomirror scale 0 (");
        for (int32_t i = 0; i < d->at.n; i++) {
            fprintf(out, "%s", i ? ", " : "");
            put_string(out, d->at.text[i]);
            fprintf(out, " %d", (int)i + 1);
        }
        fprintf(out, ")\n");
    }
}

static void put_panel(struct drawing *d, struct box b, double height)
{
    const struct panel *p = &d->f->panel[d->panel];
    FILE *out = d->out;
    double width = b.right - b.left - LEFT - RIGHT;
    struct label_style style = label_style(d, width);
    double below = (p->plot == BARS ? style.height : 28) + (*p->x_label ? 54 : 18);
    put_data(d);
    fprintf(out, "set lmargin at screen %.4f\nset rmargin at screen %.4f\n", (b.left + LEFT) / WIDTH,
            (b.right - RIGHT) / WIDTH);
    fprintf(out, "set tmargin at screen %.4f\nset bmargin at screen %.4f\n",
            1 - (b.top + (*p->name ? 34 : 10)) / height, 1 - (b.bottom - below) / height);
    put_ranges(d);
    put_tics(d, style, width);
    fprintf(out, "set title ");
    put_string(out, p->name);
    fprintf(out, " offset 0,-0.4\nset xlabel ");
    put_string(out, p->x_label);
    fprintf(out, " offset 0,0.2\nset ylabel ");
    char *y_label = xasprintf("%s%s", p->y_label, has_dots(p) ? ", log axis" : "");
    put_string(out, y_label);
    free(y_label);
    fprintf(out, "\nset boxwidth %.4f absolute\nplot ", p->plot == BARS ? 0.74 / d->series.n : 1.0);
    const char *comma = "";
    for (int32_t s = 0; s < d->series.n; s++) {
        const struct series *look = series_find(d->series.text[s]);
        char data[40];
        snprintf(data, sizeof data, "$p%ds%d", (int)d->panel, (int)s);
        if (has_data(d, look->name, false)) {
            fprintf(out, "%s%s ", comma, data);
            if (p->plot == MAP) {
                fprintf(
                    out,
                    "using 1:3:(0.5):(0.5) with boxxyerror fs solid 0.55 border rgb '#FFFFFF' lc rgb '%s'",
                    look->colour);
                fprintf(out, ", %s using 1:3:(sprintf('%%.3g', $2)) with labels font small_font", data);
            } else {
                fprintf(out, "using 1:2 ");
                put_look(out, p, look, many_points(d));
            }
            comma = ", ";
        }
        if (!has_data(d, look->name, true))
            continue;
        if (p->plot == BARS)
            fprintf(out,
                    "%s%spaper using 1:2 with points pt 13 ps 1.7 lc rgb '#000000', %spaper using 1:2 with "
                    "points pt 13 ps 1.0 "
                    "lc rgb '#FFFFFF'",
                    comma, data, data);
        else
            fprintf(out, "%s%spaper using 1:2 with points pt %d ps 1.7 lw 2 lc rgb '%s'", comma, data,
                    hollow(look->marker), look->colour);
        comma = ", ";
    }
    if (p->plot == SCATTER)
        fprintf(out, "%sx ls 90", comma);
    fprintf(out, "\n");
}

/* ---- the whole -------------------------------------------------------------------------------------- */

/* What stands below: how ours came about, and where the paper's numbers come from. */
static void caption(const struct figure *f, char *out, size_t size)
{
    bool paper = false;
    for (int32_t i = 0; i < f->n_points; i++)
        paper |= !isnan(f->point[i].paper);
    snprintf(out, size, "Ours: %s%s%s.", source_names[f->def->source],
             f->def->source == ANALYTIC ? "" : " on ",
             f->def->source != ANALYTIC || *f->def->machine ? f->def->machine : ", counted from plans");
    for (int32_t i = 0; paper && i < f->n_tables; i++) {
        const char *machine = csv_note(f->table[i], "machine"), *place = csv_note(f->table[i], "place");
        size_t n = strlen(out);
        if (place)
            snprintf(out + n, size - n, " Hollow: %s, %s%s%s%s.", f->def->paper, place,
                     machine ? " (machine: " : "", machine ? machine : "", machine ? ")" : "");
    }
}

/* Whose numbers the hollow marks are: where the paper prints none, those of its release. */
static const char *hollow_title(const struct figure *f)
{
    for (int32_t i = 0; i < f->n_tables; i++)
        if (strncmp(f->table[i]->name, "paper/", 6) == 0)
            return "the paper's";
    return "the release's";
}

/* hollow: NULL where there are no such marks. */
static void put_legend(FILE *out, const struct labels *series, const struct panel *const *in, int columns,
                       const char *hollow, double top, double height)
{
    fprintf(out,
            "set lmargin at screen 0.01\nset rmargin at screen 0.99\nset tmargin at screen 0.99\nset bmargin "
            "at screen 0.98\n"
            "unset border\nunset tics\nunset grid\nset xrange [0:1]\nset yrange [0:1]\n"
            "set key at screen 0.5, screen %.4f center top horizontal maxcols %d samplen 2 spacing 1.1 Left "
            "reverse\nplot ",
            1 - top / height, columns);
    for (int32_t s = 0; s < series->n; s++) {
        const struct series *look = series_find(series->text[s]);
        fprintf(out, "keyentry ");
        put_look(out, in[s], look, false);
        fprintf(out, " title ");
        put_string(out, look->label);
        fprintf(out, ", ");
    }
    if (hollow)
        fprintf(out, "keyentry with points pt 12 ps 1.5 lw 2 lc rgb '#000000' title \"%s\", ", hollow);
    fprintf(out, "-1 notitle\nunset label\nunset key\nset border 3\nset tics nomirror out\n"
                 "set grid ytics lc rgb '#CCCCCC' lw 1\n");
}

static void put_script(FILE *out, const struct figure *f)
{
    struct labels series = {0};
    const struct panel *in[64]; /* the first that has it */
    bool paper = false, wide = false;
    int longest = 12;
    for (int32_t i = 0; i < f->n_points; i++) {
        const struct point *p = &f->point[i];
        int32_t k = series.n, s = labels_add(&series, p->series);
        CK(series.n < 64);
        if (s == k)
            in[s] = &f->panel[p->panel];
        int n = (int)strlen(series_find(p->series)->label);
        longest = n > longest ? n : longest;
        paper |= !isnan(p->paper);
    }
    for (int32_t p = 0; p < f->n_panels; p++) {
        struct drawing d;
        drawing_start(&d, f, p, out);
        wide |= f->panel[p].plot == BARS ? d.at.n * d.series.n > 16 || d.at.n > 6 : d.at.n > 100;
        drawing_end(&d);
    }
    char title[400], text[1200];
    snprintf(title, sizeof title, "%s, %s: %s", f->def->paper, f->def->place, f->def->shows);
    int title_lines = wrap(title, 88);
    caption(f, text, sizeof text);
    int caption_lines = wrap(text, (WIDTH - 2 * EDGE) / SMALL_LETTER);
    int columns = (int)((WIDTH - 20) / ((longest + 8) * 10.8)), n_keys = series.n + paper;
    columns = columns > n_keys ? n_keys : columns;
    int across = f->n_panels == 1 || wide ? 1 : 2, down = (f->n_panels + across - 1) / across;
    double legend_top = EDGE + title_lines * LINE + 6,
           panels_top = legend_top + ceil((double)n_keys / columns) * LINE + 14;
    double panel_height = down == 1 ? PANEL * 1.25 : PANEL;
    double height = panels_top + down * panel_height + caption_lines * 20 + EDGE;

    fprintf(out, "# made by figures for %s\nwidth = %d\nheight = %.0f\nload style\nset multiplot\n",
            f->def->id, WIDTH, height);
    fprintf(out, "set label 1 at screen 0.5, screen %.4f center font title_font ", 1 - (EDGE + 10) / height);
    put_string(out, title);
    fprintf(out, "\nset label 2 at screen %.4f, screen %.4f left font caption_font tc rgb '#444444' ",
            (double)EDGE / WIDTH, (caption_lines * 20 + EDGE - 14) / height);
    put_string(out, text);
    fprintf(out, "\n");
    put_legend(out, &series, in, columns, paper ? hollow_title(f) : NULL, legend_top, height);
    for (int32_t p = 0; p < f->n_panels; p++) {
        struct drawing d;
        drawing_start(&d, f, p, out);
        double w = (double)WIDTH / across, left = p % across * w,
               top = panels_top + p / across * panel_height;
        put_panel(&d, (struct box){left, left + w, top, top + panel_height}, height);
        drawing_end(&d);
    }
    fprintf(out, "unset multiplot\nunset output\n");
    free(series.text);
}

bool figure_write_plot(const struct figure *f, struct err *e)
{
    char *path = xasprintf("%s/%s.gp", f->places->scratch, f->def->id);
    FILE *out = fopen(path, "w");
    if (!out)
        err_missing(e, "%s: %s", path, strerror(errno));
    else {
        put_script(out, f);
        if (fclose(out) != 0)
            err_missing(e, "%s: cannot be written: %s", path, strerror(errno));
    }
    free(path);
    return !e->code;
}
