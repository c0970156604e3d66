/*
 * plot.h - what plot.c (the whole picture) and panel.c (one panel) share.
 *
 * Every text is a label at a place that is computed here, from letters.h: gnuplot's own places of titles, keys and tics hang on
 * the metrics of its terminal, which for SVG and PNG are not the same.
 */
#ifndef TREEATTN_PAPER_FIGS_PLOT_H
#define TREEATTN_PAPER_FIGS_PLOT_H

#include "paper-figs/figure.h"
#include "paper-figs/letters.h"

#include <stdio.h>

/* Pixels. Readable at three quarters of the width. */
enum { WIDTH = 1000, EDGE = 16, LINE = 23, SMALL_LINE = 18 };

/* gnuplot's script while it is written; height in pixels. */
struct sheet {
    FILE *out;
    const struct figure *f;
    double height;
};

enum anchor { AT_LEFT, AT_CENTER, AT_RIGHT };
/* Where a label is: pixels of the picture from the left and from the top, or a value on that axis of the panel. */
struct at {
    double x, y;
    bool x_is_value, y_is_value;
};

/* A line of text with its middle at that height. font: a name of style.gp; colour: NULL, black; degrees: turned so far. */
void put_text(const struct sheet *s, struct at at, enum anchor anchor, const char *font, const char *colour,
              int degrees, const char *text);
/* Lines, the first with its middle at `at`, the others `line` pixels below each other. Turned by 90 degrees: each to the right
 * of the one before. */
void put_lines(const struct sheet *s, struct at at, enum anchor anchor, const char *font, const char *colour,
               int degrees, double line, const char *wrapped);
/* A script's string, in quotes. */
void put_string(FILE *out, const char *s);

/* Different strings in the order they come; borrowed. */
struct labels {
    int32_t n;
    const char **text;
};
/* The place of a string, which is added if it is new. */
int32_t labels_add(struct labels *l, const char *text);

/* Whether clusters are of markers. */
bool has_dots(const struct panel *p);
/* Whether a series has too many points in a panel for markers on its line. */
bool is_crowded(const struct figure *f, int32_t panel, const char *series);
/* The same marker without a filling: what the paper's numbers are drawn with. */
int hollow(int marker);

struct box {
    double left, right, top, bottom; /* pixels from the left and from the top */
};

/* A panel while it is drawn. */
struct drawing {
    const struct sheet *sheet;
    const struct figure *f;
    int32_t panel;
    struct labels series, at; /* of this panel */
    double lo, hi, x_lo, x_hi;
};
void drawing_start(struct drawing *d, const struct sheet *sheet, int32_t panel);
void drawing_end(struct drawing *d);
/* Pixels that the label and the tics of the vertical axis need, in a panel of that height. */
double panel_left(const struct drawing *d, double panel_height);
/* Whether labels of bars must be slanted in a panel of that width, whose axis begins at `left`. */
bool panel_slants(const struct drawing *d, double panel_width, double left);
/* Draw it into the box; its axis begins `left` pixels from the box. */
void put_panel(const struct drawing *d, struct box b, double left);

#endif
