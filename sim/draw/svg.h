/*
 * svg.h - pictures as static SVG: boxes, lines and text. No scripts, and nothing from elsewhere.
 *
 * Lengths are units of the viewBox, which is SVG_WIDTH wide; a reader may scale it. Nobody knows which font a reader has. So
 * widths of text are estimated for a wide one (DejaVu Sans), and no text is placed where it could meet another.
 */
#ifndef TREEATTN_SIM_DRAW_SVG_H
#define TREEATTN_SIM_DRAW_SVG_H

#include "ref/base.h"

#include <stdio.h>

BEGIN_C

enum { SVG_WIDTH = 1000, SVG_MARGIN = 20 };

struct svg_box {
    double x, y, w, h;
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };
struct svg_font {
    double size;
    bool bold;
    enum svg_anchor anchor; /* which point of the text is at x */
    const char *colour;     /* NULL: black */
    bool halo;              /* a white rim, for text on colours */
    bool plate;             /* a white plate behind it, for small text on colours */
};

/* A picture while it is drawn. Zero-initialise; svg_end frees. */
struct svg {
    FILE *f; /* what was drawn, in memory: the head, which comes first, says how high it became */
    char *text;
    size_t size;
    struct svg_box *taken; /* [n_taken] boxes of text */
    int64_t n_taken, cap_taken;
};

void svg_begin(struct svg *s);
/* The picture to `out`, with what it shows in a title and in words, for those who cannot see it. */
void svg_end(struct svg *s, FILE *out, double height, const char *title, const char *words);

/* A fill is a colour, or one of these. Each looks different in black and white. */
#define SVG_PADDING "url(#padding)" /* hatched: computed for nothing, as the tile is larger */
#define SVG_HIDDEN "url(#hidden)"   /* grey with dots: computed, and hidden by a mask */
#define SVG_WRONG "url(#wrong)"     /* red on white, crossed: what must not be */
#define SVG_RED "#C00000"
/* Colours of groups go round. Neighbours in the list differ in brightness as well. */
const char *svg_colour(int64_t i);
/* The colour that a strategy, "pat" or "pat:rule=artifact", has in all figures; NULL: none yet. */
const char *svg_strategy_colour(const char *name);

/* `more`: further attributes, as they are; "": none. told: what is said of the box on pointing at it; NULL: nothing. */
void svg_rect(struct svg *s, struct svg_box b, const char *fill, const char *more, const char *told);
void svg_line(struct svg *s, double x0, double y0, double x1, double y1, const char *more);

/* Any text as XML or HTML, also within double quotes: what these have other uses for is escaped, what is no UTF-8, or no character
 * of a line, becomes '?'. */
void svg_put_text(FILE *f, const char *text);
/* How wide text may be. */
double svg_text_width(const struct svg_font *font, const char *text);
/* Where it will stand with its base line at y. */
struct svg_box svg_text_box(double x, double y, const struct svg_font *font, const char *text);
/* The largest text of a picture, behind a square of that strategy's colour if it has one; returns where a next line is. */
double svg_title(struct svg *s, const char *text, const char *strategy);
/* Any text, as svg_put_text puts it. */
void svg_text(struct svg *s, double x, double y, const struct svg_font *font, const char *text);
/* The same if it keeps within `in` (may be NULL) and meets no other text; else nothing is drawn. Was it drawn? */
bool svg_text_if_free(struct svg *s, double x, double y, const struct svg_font *font,
                      const struct svg_box *in, const char *text);
/* Lines no longer than `width`, the first with its base line at y; returns where that of a next line is. */
double svg_paragraph(struct svg *s, double x, double y, double width, const struct svg_font *font,
                     const char *text);

END_C

#endif
