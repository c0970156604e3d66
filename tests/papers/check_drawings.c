/*
 * check_drawings.c - in no drawing that is committed does text meet text, or leave the picture; marks are what the key says.
 *
 * gnuplot writes every text of an SVG with its place, its size and its anchor. Its width is estimated with the widths of a wide
 * font (paper-figs/letters.h), so that what fits here fits in a reader's font.
 */
#include "paper-figs/figure.h"
#include "paper-figs/letters.h"
#include "tests/auto.h"
#include "tests/papers/drawings.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "ref/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- boxes of text --------------------------------------------------------------------------------------- */

/* Four corners, in order, of a box that may be turned. */
struct text_box {
    double x[4], y[4];
    char text[160];
};

struct picture {
    double width, height;
    int32_t n;
    int64_t cap;
    struct text_box *box;
};

/* The characters that XML writes otherwise. */
static void unescape(char *text)
{
    static const char *const from[] = {"&lt;", "&gt;", "&quot;", "&apos;", "&amp;"};
    static const char to[] = "<>\"'&";
    for (int i = 0; i < 5; i++)
        for (char *at; (at = strstr(text, from[i]));) {
            size_t n = strlen(from[i]);
            *at = to[i];
            memmove(at + 1, at + n, strlen(at + n) + 1);
        }
}

static void add_box(struct picture *p, double x, double y, double degrees, double size, const char *anchor,
                    const char *text)
{
    p->box = xgrow(p->box, &p->cap, p->n + 1, sizeof *p->box);
    struct text_box *b = &p->box[p->n++];
    snprintf(b->text, sizeof b->text, "%s", text);
    unescape(b->text);
    double wide = letters_width(b->text, size), turn = degrees * M_PI / 180,
           left = strcmp(anchor, "middle") == 0 ? -wide / 2
                  : strcmp(anchor, "end") == 0  ? -wide
                                                : 0,
           u[4] = {left, left + wide, left + wide, left},
           v[4] = {-LETTERS_ASCENT * size, -LETTERS_ASCENT * size, LETTERS_DESCENT * size,
                   LETTERS_DESCENT * size};
    for (int i = 0; i < 4; i++) {
        b->x[i] = x + u[i] * cos(turn) - v[i] * sin(turn);
        b->y[i] = y + u[i] * sin(turn) + v[i] * cos(turn);
    }
}

/* All texts of an SVG as gnuplot writes them: `<g transform="translate(x,y) rotate(a)" .. font-size="s" text-anchor="a">`,
 * and within it `<text>`. The caller frees the boxes. */
static struct picture picture_of(const char *svg)
{
    struct picture p = {0};
    const char *size = strstr(svg, "viewBox=\"");
    ck_assert(size && sscanf(size, "viewBox=\"0 0 %lf %lf\"", &p.width, &p.height) == 2);
    for (const char *at = svg; (at = strstr(at, "<text>")); at += 6) {
        const char *g = at, *end = strstr(at, "</text>");
        while (g > svg && strncmp(g, "<g transform=\"translate(", 24) != 0)
            g--;
        double x, y, degrees = 0, font = 0;
        char anchor[16] = "", text[160];
        const char *rotate = strstr(g, "rotate("), *font_size = strstr(g, "font-size=\""),
                   *text_anchor = strstr(g, "text-anchor=\"");
        ck_assert(end && sscanf(g, "<g transform=\"translate(%lf,%lf)", &x, &y) == 2);
        if (rotate && rotate < at)
            ck_assert(sscanf(rotate, "rotate(%lf)", &degrees) == 1);
        ck_assert(font_size && font_size < at && sscanf(font_size, "font-size=\"%lf\"", &font) == 1);
        ck_assert(text_anchor && text_anchor < at &&
                  sscanf(text_anchor, "text-anchor=\"%15[a-z]\"", anchor) == 1);
        snprintf(text, sizeof text, "%.*s", (int)(end - at - 6), at + 6);
        add_box(&p, x, y, degrees, font, anchor, text);
    }
    return p;
}

/* Whether a line along a side of a has both boxes on its two sides, but for half a pixel. */
static bool apart_along(const struct text_box *a, const struct text_box *b)
{
    for (int side = 0; side < 2; side++) {
        double dx = a->x[side + 1] - a->x[side], dy = a->y[side + 1] - a->y[side], long_ = hypot(dx, dy),
               lo[2], hi[2];
        for (int k = 0; k < 2; k++) {
            const struct text_box *box = k ? b : a;
            lo[k] = INFINITY;
            hi[k] = -INFINITY;
            for (int i = 0; i < 4; i++) {
                double at = (box->x[i] * dx + box->y[i] * dy) / (long_ > 0 ? long_ : 1);
                lo[k] = fmin(lo[k], at);
                hi[k] = fmax(hi[k], at);
            }
        }
        if (hi[0] < lo[1] + 0.5 || hi[1] < lo[0] + 0.5)
            return true;
    }
    return false;
}

void drawing_fault(const char *svg, char *fault, size_t size, int32_t *n)
{
    struct picture p = picture_of(svg);
    *fault = 0;
    *n = p.n;
    for (int32_t i = 0; i < p.n && !*fault; i++) {
        const struct text_box *a = &p.box[i];
        for (int k = 0; k < 4; k++)
            if (a->x[k] < 0 || a->x[k] > p.width || a->y[k] < 0 || a->y[k] > p.height)
                snprintf(fault, size, "'%s' is cut at (%.0f, %.0f)", a->text, a->x[k], a->y[k]);
        for (int32_t k = 0; k < i && !*fault; k++)
            if (!apart_along(a, &p.box[k]) && !apart_along(&p.box[k], a))
                snprintf(fault, size, "'%s' meets '%s' near (%.0f, %.0f)", a->text, p.box[k].text, a->x[0],
                         a->y[0]);
    }
    free(p.box);
}

/* ---- the drawings ------------------------------------------------------------------------------------------ */

FROM_HERE(drawings)

TEST(no_text_meets_another_or_is_cut)
{
    int drawings = 0;
    int64_t texts = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        if (!figure_defs[i].make)
            continue;
        char fault[500];
        int32_t n;
        FREED char *path = xasprintf("paper-figs/drawn/%s.svg", figure_defs[i].id), *svg = file_text(path);
        drawing_fault(svg, fault, sizeof fault, &n);
        ck_assert_msg(!*fault, "%s: %s", path, fault);
        ck_assert_msg(n >= 5, "%s has %d texts", path, (int)n);
        texts += n;
        drawings++;
    }
    printf("drawings: %d, with %d texts, none of which meets another or is cut\n", drawings, (int)texts);
    ck_assert_int_gt(drawings, 60);
}

/* A drawing with one more text: `place` as gnuplot writes it. */
static void with_text(const char *svg, const char *place, const char *anchor, const char *text, char *fault,
                      size_t size)
{
    const char *end = strstr(svg, "</svg>");
    int32_t n;
    FREED char *more =
        xasprintf("%.*s<g transform=\"%s\" stroke=\"none\" font-family=\"sans-serif\" font-size=\"17.00\"  "
                  "text-anchor=\"%s\">\n<text>%s</text>\n</g></svg>",
                  (int)(end - svg), svg, place, anchor, text);
    drawing_fault(more, fault, size, &n);
}

TEST(a_planted_overlap_is_seen)
{
    FREED char *svg = file_text("paper-figs/drawn/deft_table7.svg");
    struct picture p = picture_of(svg);
    char fault[500], place[80];
    const struct text_box *title = &p.box[0];
    double x = title->x[0], y = title->y[3];
    with_text(svg, "translate(4.00,22.00)", "start", "i", fault, sizeof fault);
    ck_assert_msg(!*fault, "where nothing is: %s", fault);
    snprintf(place, sizeof place, "translate(%.2f,%.2f)", x + 2, y);
    with_text(svg, place, "start", "planted", fault, sizeof fault);
    ck_assert_msg(strstr(fault, "'planted' meets"), "%s", fault);
    snprintf(place, sizeof place, "translate(%.2f,%.2f) rotate(20)", x, y - 6);
    with_text(svg, place, "start", "planted &amp; turned", fault, sizeof fault);
    ck_assert_msg(strstr(fault, "'planted & turned' meets"), "%s", fault);
    with_text(svg, "translate(12.00,200.00) rotate(-90)", "end",
              "a label that is as long as no panel is high, by far", fault, sizeof fault);
    ck_assert_msg(strstr(fault, "cut") || strstr(fault, "meets"), "%s", fault);
    with_text(svg, "translate(2.00,12.00)", "middle", "cut", fault, sizeof fault);
    ck_assert_msg(strstr(fault, "is cut"), "%s", fault);
    free(p.box);
}

/* ---- marks and colours -------------------------------------------------------------------------------------- */

/* Of a colour "#RRGGBB": how much light it gives back, 0 to 1 (WCAG 2). */
static double luminance(const char *colour)
{
    unsigned c[3];
    double sum = 0, weight[3] = {0.2126, 0.7152, 0.0722};
    ck_assert_int_eq(sscanf(colour, "#%2x%2x%2x", &c[0], &c[1], &c[2]), 3);
    for (int i = 0; i < 3; i++) {
        double v = c[i] / 255.0;
        sum += weight[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

TEST(marks_are_what_the_key_says)
{
    for (int32_t i = 0; i < n_series_defs; i++) {
        const struct series *s = &series_defs[i];
        double contrast = 1.05 / (luminance(s->colour) + 0.05);
        ck_assert_msg(contrast >= 2, "%s: %s on white has a contrast of %.2f", s->name, s->colour, contrast);
        ck_assert_msg(s->marker <= 3 || (s->marker % 2 && s->marker <= 15),
                      "%s: marker %d is hollow, as the paper's are", s->name, s->marker);
    }
}

/* The words of the key, in the SVG: a text for every series with a point, and for no other. */
TEST(the_key_names_what_is_drawn)
{
    for (int32_t i = 0; i < n_figure_defs; i++) {
        if (!figure_defs[i].make)
            continue;
        FREED char *csv = xasprintf("paper-figs/drawn/%s.csv", figure_defs[i].id),
                   *path = xasprintf("paper-figs/drawn/%s.svg", figure_defs[i].id), *svg = file_text(path);
        CLEARED_BY(csv_clear) struct csv t;
        MUST(result_read, csv, figure_defs[i].id, &t);
        for (int32_t s = 0; s < n_series_defs; s++) {
            bool drawn = false;
            for (int64_t r = 0; r < t.n_rows; r++)
                drawn |= strcmp(csv_text(&t, r, "kind"), "point") == 0 &&
                         strcmp(csv_text(&t, r, "series"), series_defs[s].name) == 0 &&
                         *csv_text(&t, r, "ours");
            FREED char *text = xasprintf("<text>%s</text>", series_defs[s].label);
            ck_assert_msg(!drawn || strstr(svg, text), "%s: no entry of the key for %s", path,
                          series_defs[s].label);
        }
    }
}
