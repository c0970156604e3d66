/* plot.c - a figure as a gnuplot script: title, legend, panels and caption, each at a place that is computed here. */
#include "paper-figs/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------------------ */

int32_t labels_add(struct labels *l, const char *text)
{
    for (int32_t i = 0; i < l->n; i++)
        if (strcmp(l->text[i], text) == 0)
            return i;
    l->text = xrealloc(l->text, (size_t)l->n + 1, sizeof *l->text);
    l->text[l->n] = text;
    return l->n++;
}

void put_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

/* A place as gnuplot reads it. */
static void put_at(const struct sheet *s, struct at at)
{
    if (at.x_is_value)
        fprintf(s->out, "first %.8g, ", at.x);
    else
        fprintf(s->out, "screen %.5f, ", at.x / WIDTH);
    if (at.y_is_value)
        fprintf(s->out, "first %.8g", at.y);
    else
        fprintf(s->out, "screen %.5f", 1 - at.y / s->height);
}

void put_text(const struct sheet *s, struct at at, enum anchor anchor, const char *font, const char *colour,
              int degrees, const char *text)
{
    static const char *const names[] = {"left", "center", "right"};
    if (!*text)
        return;
    fprintf(s->out, "set label ");
    put_string(s->out, text);
    fprintf(s->out, " at ");
    put_at(s, at);
    fprintf(s->out, " %s font %s", names[anchor], font);
    if (degrees)
        fprintf(s->out, " rotate by %d", degrees);
    fprintf(s->out, " tc rgb '%s'\n", colour ? colour : "#000000");
}

void put_lines(const struct sheet *s, struct at at, enum anchor anchor, const char *font, const char *colour,
               int degrees, double line, const char *wrapped)
{
    char *copy = xstrdup(wrapped), *rest = copy, *one;
    while ((one = strsep(&rest, "\n"))) {
        put_text(s, at, anchor, font, colour, degrees, one);
        *(degrees == 90 ? &at.x : &at.y) += line;
    }
    free(copy);
}

/* ---- legend ------------------------------------------------------------------------------------------------ */

enum sample { LINE_AND_MARK, LINE_ALONE, MARK, BAR, CELL, PAPER_ALONE, PAPER_DIAMOND, PAPER_HOLLOW };
enum { MOST_ENTRIES = 66, SAMPLE = 44, BESIDE = 8, BETWEEN = 26 };

struct entry {
    enum sample sample;
    const struct series *series; /* NULL: the paper's numbers */
    const char *text;
};

struct legend {
    int32_t n, columns;
    double wide; /* of a column */
    struct entry entry[MOST_ENTRIES];
};

static enum sample sample_of(const struct figure *f, const struct point *first)
{
    const struct panel *p = &f->panel[first->panel];
    return has_dots(p) || p->plot == SCATTER            ? MARK
           : p->plot == BARS                            ? BAR
           : p->plot == MAP                             ? CELL
           : is_crowded(f, first->panel, first->series) ? LINE_ALONE
                                                        : LINE_AND_MARK;
}

/* Whose numbers the white marks are: where the paper prints none, those of its release. */
static bool by_paper(const struct figure *f)
{
    for (int32_t i = 0; i < f->n_tables; i++)
        if (strncmp(f->table[i]->name, "paper/", 6) == 0)
            return true;
    return false;
}

static void legend_add(struct legend *l, enum sample sample, const struct series *series, const char *text)
{
    CK(l->n < MOST_ENTRIES);
    l->entry[l->n++] = (struct entry){sample, series, text};
    l->wide = fmax(l->wide, SAMPLE + BESIDE + letters_width(text, TEXT_SIZE) + BETWEEN);
}

static bool has_ours(const struct figure *f, const char *series)
{
    for (int32_t i = 0; i < f->n_points; i++)
        if (!isnan(f->point[i].ours) && strcmp(f->point[i].series, series) == 0)
            return true;
    return false;
}

/* A line for every series of which something is drawn, and one for each way in which the paper's numbers are. */
static void legend_of(struct legend *l, const struct figure *f)
{
    struct labels seen = {0};
    bool diamonds = false, hollows = false;
    *l = (struct legend){0};
    for (int32_t i = 0; i < f->n_points; i++) {
        const struct point *p = &f->point[i];
        bool bars = f->panel[p->panel].plot == BARS;
        diamonds |= !isnan(p->paper) && bars;
        hollows |= !isnan(p->paper) && !bars;
        int32_t n = seen.n;
        if (isnan(p->ours) && (isnan(p->paper) || bars)) /* no mark of the series' own */
            continue;
        if (labels_add(&seen, p->series) == n)
            legend_add(l, has_ours(f, p->series) ? sample_of(f, p) : PAPER_ALONE, series_find(p->series),
                       series_find(p->series)->label);
    }
    if (diamonds)
        legend_add(l, PAPER_DIAMOND, NULL, by_paper(f) ? "the paper's" : "the release's");
    if (hollows)
        legend_add(l, PAPER_HOLLOW, NULL, by_paper(f) ? "hollow: the paper's" : "hollow: the release's");
    l->columns = (int32_t)((WIDTH - 2 * EDGE + BETWEEN) / fmax(l->wide, 1));
    l->columns = l->columns < 1 ? 1 : l->columns > l->n ? l->n : l->columns;
    free(seen.text);
}

static int32_t legend_rows(const struct legend *l)
{
    return l->n ? (l->n + l->columns - 1) / l->columns : 0;
}

static void put_mark(const struct sheet *s, double x, double y, int marker, double size, const char *colour)
{
    fprintf(s->out, "set label '' at screen %.5f, screen %.5f point pt %d ps %.2g lw 2 lc rgb '%s'\n",
            x / WIDTH, 1 - y / s->height, marker, size, colour);
}

static void put_swatch(const struct sheet *s, double x, double y, const struct series *look, bool cell)
{
    fprintf(s->out,
            "set object rectangle from screen %.5f, screen %.5f to screen %.5f, screen %.5f fc rgb '%s' fs ",
            (x + 8) / WIDTH, 1 - (y + 8) / s->height, (x + SAMPLE - 8) / WIDTH, 1 - (y - 8) / s->height,
            look->colour);
    if (look->fill && !cell)
        fprintf(s->out, "pattern %d border rgb '#333333'\n", look->fill);
    else
        fprintf(s->out, "solid %s border rgb '%s'\n", cell ? "0.55" : "0.9", cell ? "#FFFFFF" : "#333333");
}

/* The sample of an entry, from x on, with its middle at y. */
static void put_sample(const struct sheet *s, const struct entry *e, double x, double y)
{
    double middle = x + SAMPLE / 2.0;
    switch (e->sample) {
    case LINE_AND_MARK:
    case LINE_ALONE:
        fprintf(s->out,
                "set arrow from screen %.5f, screen %.5f to screen %.5f, screen %.5f nohead lc rgb '%s' lw "
                "2.5 dt %d\n",
                x / WIDTH, 1 - y / s->height, (x + SAMPLE) / WIDTH, 1 - y / s->height, e->series->colour,
                e->series->dash);
        if (e->sample == LINE_AND_MARK)
            put_mark(s, middle, y, e->series->marker, 1.1, e->series->colour);
        break;
    case MARK:
        put_mark(s, middle, y, e->series->marker, 1.4, e->series->colour);
        break;
    case BAR:
    case CELL:
        put_swatch(s, x, y, e->series, e->sample == CELL);
        break;
    case PAPER_ALONE:
        put_mark(s, middle, y, hollow(e->series->marker), 1.4, e->series->colour);
        break;
    case PAPER_DIAMOND:
        put_mark(s, middle, y, 13, 1.5, "#000000");
        put_mark(s, middle, y, 13, 0.8, "#FFFFFF");
        break;
    case PAPER_HOLLOW:
        put_mark(s, middle - 10, y, 6, 1.1, "#444444");
        put_mark(s, middle + 10, y, 8, 1.1, "#444444");
    }
}

/* Title, legend and caption: all that is in no panel. */
static void put_frame(const struct sheet *s, const char *title, const struct legend *l, double legend_top,
                      const char *caption, double caption_top)
{
    put_lines(s, (struct at){.x = WIDTH / 2.0, .y = EDGE + LINE / 2.0}, AT_CENTER, "title_font", NULL, 0,
              LINE + 3, title);
    put_lines(s, (struct at){.x = EDGE, .y = caption_top + SMALL_LINE / 2.0}, AT_LEFT, "caption_font",
              "#444444", 0, SMALL_LINE, caption);
    double left = (WIDTH - l->columns * l->wide + BETWEEN) / 2;
    for (int32_t i = 0; i < l->n; i++) {
        double x = left + i % l->columns * l->wide, y = legend_top + (i / l->columns + 0.5) * LINE;
        put_sample(s, &l->entry[i], x, y);
        put_text(s, (struct at){.x = x + SAMPLE + BESIDE, .y = y}, AT_LEFT, "text_font", NULL, 0,
                 l->entry[i].text);
    }
    fprintf(
        s->out,
        "set lmargin at screen 0\nset rmargin at screen 1\nset tmargin at screen 1\nset bmargin at screen 0\n"
        "unset border\nunset tics\nunset grid\nset xrange [0:1]\nset yrange [0:1]\nplot -1 notitle\n"
        "unset label\nunset arrow\nunset object\nset border 3\nset tics nomirror out\n"
        "set grid ytics lc rgb '#CCCCCC' lw 1\n");
}

/* ---- the whole -------------------------------------------------------------------------------------------- */

/* What stands below: how the numbers came about, what is to be known of them, and where the paper's come from. */
static char *caption(const struct figure *f)
{
    static const char *const how[] = {"Ours: counted from plans", "Not ours: recorded by others on",
                                      "Ours: measured on", "Ours: simulated on"};
    bool paper = false;
    char *machine = figure_machine(f), *text = xasprintf("%s%s%s.", how[f->def->source],
                                                         !*machine                    ? ""
                                                         : f->def->source == ANALYTIC ? ", "
                                                                                      : " ",
                                                         machine);
    free(machine);
    for (int32_t i = 0; i < f->n_points; i++)
        paper |= !isnan(f->point[i].paper);
    const char *error = figure_model_error(f->def);
    if (*error) {
        char *longer = xasprintf("%s %s", text, error);
        free(text);
        text = longer;
    }
    for (int32_t i = 0; i < f->n_notes; i++) {
        char *longer = xasprintf("%s %s", text, f->note[i]);
        free(text);
        text = longer;
    }
    for (int32_t i = 0; paper && i < f->n_tables; i++) {
        const char *on = csv_note(f->table[i], "machine"), *place = csv_note(f->table[i], "place");
        if (!place && strcmp(f->table[i]->name, "paper/headlines") == 0 && !strstr(text, "White marks"))
            place = "what it claims";
        if (!place || (f->fitted >> i & 1))
            continue;
        char *longer = xasprintf("%s White marks: %s, %s%s%s%s.", text, f->def->paper, place,
                                 on ? " (machine: " : "", on ? on : "", on ? ")" : "");
        free(text);
        text = longer;
    }
    return text;
}

enum { PANEL = 340 };

/* Panels side by side, unless one has too much in it for half of the width. */
static int panels_across(const struct sheet *s)
{
    const struct figure *f = s->f;
    bool wide = f->n_panels == 1;
    for (int32_t p = 0; p < f->n_panels; p++) {
        struct drawing d;
        drawing_start(&d, s, p);
        wide |= f->panel[p].plot == BARS ? d.at.n * d.series.n > 30 || d.at.n > 6 : d.at.n > 100;
        wide |= panel_slants(&d, WIDTH / 2.0, panel_left(&d, PANEL));
        drawing_end(&d);
    }
    return wide ? 1 : 2;
}

/* The panels below `top`, each `panel_height` high. All axes of a column begin at one place. */
static void put_panels(const struct sheet *s, int across, double top, double panel_height)
{
    double left = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t p = 0; p < s->f->n_panels; p++) {
            struct drawing d;
            double wide = (double)WIDTH / across, x = p % across * wide, y = top + p / across * panel_height;
            drawing_start(&d, s, p);
            if (pass == 0)
                left = fmax(left, panel_left(&d, panel_height));
            else
                put_panel(&d, (struct box){x, x + wide, y, y + panel_height}, left);
            drawing_end(&d);
        }
}

static void put_script(FILE *out, const struct figure *f)
{
    enum { ONE_PANEL = 425, AFTER = 8 };
    struct sheet s = {out, f, 0};
    struct legend legend;
    legend_of(&legend, f);
    int32_t title_lines, caption_lines;
    char *all = xasprintf("%s, %s: %s", f->def->paper, f->def->place, f->def->shows), *below = caption(f),
         *title = letters_wrap(all, TITLE_SIZE, WIDTH - 2 * EDGE, &title_lines),
         *small = letters_wrap(below, CAPTION_SIZE, WIDTH - 2 * EDGE, &caption_lines);
    int across = panels_across(&s), down = (f->n_panels + across - 1) / across;
    double legend_top = EDGE + title_lines * (LINE + 3) + AFTER,
           top = legend_top + legend_rows(&legend) * LINE + 2 * AFTER,
           panel_height = down == 1 ? ONE_PANEL : PANEL, caption_top = top + down * panel_height + AFTER;
    s.height = caption_top + caption_lines * SMALL_LINE + EDGE;
    fprintf(out, "# made by figures for %s\nwidth = %d\nheight = %.0f\nload style\nset multiplot\n",
            f->def->id, WIDTH, s.height);
    s.height = floor(s.height + 0.5);
    put_frame(&s, title, &legend, legend_top, small, caption_top);
    put_panels(&s, across, top, panel_height);
    fprintf(out, "unset multiplot\nunset output\n");
    free(all);
    free(below);
    free(title);
    free(small);
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
