/* lab5_draw.c - what a CTA of lab 5 was given, as a picture: rows x tokens, with runs, pages, tiles and masks; and which rows are wrong. */
#include "verify/lab/tile/lab5.h"

#include "sim/draw/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    LEFT = 136,
    RIGHT = 90,
    WIDE = SVG_WIDTH - LEFT - RIGHT,
    BAND_HIGH = 20, /* of runs, and of pages */
    ROWS_HIGH = 360,
    LEAST_HIGH = 4, /* of a row, and the most */
    MOST_HIGH = 22,
    MOST_PAGES = 250 /* more are not drawn */
};

static const struct svg_font text_font = {.size = 13}, name_font = {.size = 12, .anchor = SVG_END},
                             band_font = {.size = 11, .anchor = SVG_MIDDLE, .plate = true},
                             wrong_font = {.size = 12, .bold = true, .colour = SVG_RED};
#define EDGE "stroke=\"#000000\" stroke-width=\"0.6\""

struct drawing {
    struct svg s;
    const struct lab5_call *c;
    double token_wide, row_high;
    int32_t slots; /* tokens, and what the last tile has beyond them */
};

static double at(const struct drawing *d, int64_t token)
{
    return LEFT + (double)token * d->token_wide;
}

/* A box over tokens with a name in it, if there is room. */
static void band(struct drawing *d, double y, int64_t begin, int64_t end, const char *fill, const char *name)
{
    struct svg_box b = {at(d, begin), y, at(d, end) - at(d, begin), BAND_HIGH};
    svg_rect(&d->s, b, fill, EDGE, name);
    svg_text_if_free(&d->s, b.x + b.w / 2, y + 14, &band_font, &b, name);
}

static double draw_bands(struct drawing *d, double y)
{
    const struct lab5_call *c = d->c;
    int32_t pages = (int32_t)ceil_div(c->tokens, c->page_size);
    char name[40];
    svg_text(&d->s, LEFT - 8, y + 14, &name_font, "run");
    for (int32_t r = 0; r < c->runs; r++) {
        snprintf(name, sizeof name, "%" PRId32, r);
        band(d, y, r ? c->run_end[r - 1] : 0, c->run_end[r], svg_colour(r), name);
    }
    y += BAND_HIGH;
    if (pages > MOST_PAGES)
        return y + 4;
    svg_text(&d->s, LEFT - 8, y + 14, &name_font, "page");
    for (int32_t p = 0; p < pages; p++) {
        snprintf(name, sizeof name, "%" PRId64, c->page_table[p]);
        band(d, y, (int64_t)p * c->page_size, min_i64((int64_t)(p + 1) * c->page_size, c->tokens), "#FFFFFF",
             name);
    }
    return y + BAND_HIGH + 4;
}

/* Rows of a query see the same. */
static void draw_pairs(struct drawing *d, double top)
{
    const struct lab5_call *c = d->c;
    double high = d->row_high * c->ratio, all = d->row_high * lab5_rows(c);
    for (int32_t q = 0; q < c->queries; q++)
        for (int32_t r = 0; r < c->runs; r++) {
            int64_t begin = r ? c->run_end[r - 1] : 0;
            bool seen = begin < c->tokens && lab5_sees(c, q * c->ratio, (int32_t)begin);
            svg_rect(
                &d->s,
                (struct svg_box){at(d, begin), top + q * high, at(d, c->run_end[r]) - at(d, begin), high},
                seen ? svg_colour(r) : SVG_HIDDEN, seen ? "class=\"seen\" " EDGE : "class=\"hidden\" " EDGE,
                NULL);
        }
    if (d->slots > c->tokens)
        svg_rect(&d->s, (struct svg_box){at(d, c->tokens), top, at(d, d->slots) - at(d, c->tokens), all},
                 SVG_PADDING, "class=\"padding\" " EDGE, NULL);
    for (int32_t t = 0; t <= d->slots; t += c->tile_n)
        svg_line(&d->s, at(d, t), top - 6, at(d, t), top + all + 6,
                 "class=\"tile\" stroke=\"#000000\" stroke-width=\"2.4\"");
}

static void draw_rows(struct drawing *d, double top, const bool *wrong)
{
    const struct lab5_call *c = d->c;
    int32_t every = (int32_t)ceil(13 / d->row_high), rows = lab5_rows(c);
    for (int32_t r = 0; r < rows; r++) {
        double y = top + r * d->row_high;
        char name[64];
        snprintf(name, sizeof name, "query %" PRId32 " head %" PRId32, r / c->ratio,
                 c->kv_head * c->ratio + r % c->ratio);
        if (r % every == 0)
            svg_text(&d->s, LEFT - 8, y + fmin(d->row_high, 13) - 1, &name_font, name);
        if (wrong && wrong[r])
            svg_rect(&d->s, (struct svg_box){SVG_WIDTH - RIGHT + 8, y, 24, d->row_high}, SVG_WRONG,
                     "class=\"wrong\" stroke=\"" SVG_RED "\" stroke-width=\"1.5\"", NULL);
    }
    if (wrong)
        svg_text(&d->s, SVG_WIDTH - RIGHT + 38, top + 12, &wrong_font, "wrong");
}

void lab5_draw(FILE *out, const struct lab5_call *c, const bool *wrong)
{
    int32_t rows = lab5_rows(c), tiles = (int32_t)ceil_div(c->tokens, c->tile_n), slots = tiles * c->tile_n;
    struct drawing d = {.c = c,
                        .slots = slots,
                        .token_wide = (double)WIDE / (slots > 0 ? slots : 1),
                        .row_high = fmin(MOST_HIGH, fmax(LEAST_HIGH, (double)ROWS_HIGH / rows))};
    char *title = xasprintf("What this CTA is given: %" PRId32 " row%s x %" PRId32 " token%s in %" PRId32
                            " tile%s of %" PRId32,
                            rows, rows == 1 ? "" : "s", c->tokens, c->tokens == 1 ? "" : "s", tiles,
                            tiles == 1 ? "" : "s", c->tile_n),
         *words = xasprintf("Coloured as its run: a row sees the token. Grey with dots: the mask hides it. "
                            "Hatched: slots of the last "
                            "tile that hold no token. Thick lines: tiles. A page holds %" PRId32
                            " tokens, the page table says which.%s",
                            c->page_size, wrong ? " At the right: rows whose numbers are wrong." : "");
    svg_begin(&d.s);
    double y = svg_title(&d.s, title, "");
    y = svg_paragraph(&d.s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, words) + 6;
    y = draw_bands(&d, y) + 8;
    draw_pairs(&d, y);
    draw_rows(&d, y, wrong);
    svg_end(&d.s, out, y + rows * d.row_high + SVG_MARGIN, title, words);
    free(title);
    free(words);
}
