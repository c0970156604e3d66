/*
 * lab5_draw.c - what a CTA of lab 5 was given, as a picture: rows x tokens, with runs, pages, tiles and masks; and which rows are wrong.
 * Or two threads, and what they do between two barriers.
 */
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
    MOST_PAGES = 250, /* more are not drawn */
    LANE_LEFT = 130,  /* of a thread */
    LANE_WIDE = SVG_WIDTH - SVG_MARGIN - LANE_LEFT,
    LANE_HIGH = 54,
    STEP_WIDE = 300,
    STEP_HIGH = 30
};

static const struct svg_font text_font = {.size = 13}, name_font = {.size = 12, .anchor = SVG_END},
                             band_font = {.size = 11, .anchor = SVG_MIDDLE, .plate = true},
                             head_font = {.size = 15, .bold = true},
                             step_font = {.size = 13, .anchor = SVG_MIDDLE, .plate = true},
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

/* ---- two threads ---------------------------------------------------------------------------------------- */

static void draw_step(struct svg *s, double x, double y, int32_t lane, const char *text, bool bad)
{
    double top = y + lane * LANE_HIGH + (LANE_HIGH - STEP_HIGH) / 2.0;
    svg_rect(s, (struct svg_box){x, top, STEP_WIDE, STEP_HIGH}, bad ? SVG_WRONG : "#FFFFFF",
             bad ? "class=\"wrong\" rx=\"5\" stroke=\"" SVG_RED "\" stroke-width=\"2\"" : "rx=\"5\" " EDGE,
             NULL);
    svg_text(s, x + STEP_WIDE / 2.0, top + 20, &step_font, text);
}

/* A time line of two threads, each of which takes one step; the one in `first` is earlier. Returns what is below. */
static double draw_lanes(struct svg *s, double y, const char *head, const int64_t thread[2],
                         char *const step[2], int32_t first)
{
    svg_text(s, SVG_MARGIN, y, &head_font, head);
    y += 12;
    for (int32_t lane = 0; lane < 2; lane++) {
        char text[40];
        double middle = y + (lane + 0.5) * LANE_HIGH;
        snprintf(text, sizeof text, "thread %" PRId64, thread[lane]);
        svg_text(s, SVG_MARGIN, middle + 5, &text_font, text);
        svg_line(s, LANE_LEFT, middle, LANE_LEFT + LANE_WIDE, middle, EDGE);
        draw_step(s, LANE_LEFT + 70 + (lane == first ? 0 : STEP_WIDE + 60), y, lane, step[lane], true);
    }
    for (int32_t i = 0; i < 2; i++) {
        double x = LANE_LEFT + 20 + i * (LANE_WIDE - 40);
        svg_line(s, x, y, x, y + 2 * LANE_HIGH, "class=\"barrier\" stroke=\"#000000\" stroke-width=\"5\"");
    }
    return y + 2 * LANE_HIGH + 26;
}

void lab5_draw_race(FILE *out, const struct cta_said *said)
{
    bool two = said->fault == CTA_TWO_WRITE;
    const int64_t thread[2] = {said->other, said->thread};
    char *step[2] =
        {xasprintf("line %" PRId64 ": %s[%" PRId64 "] = ..", said->other_line, said->array, said->index),
         two ? xasprintf("line %" PRId64 ": %s[%" PRId64 "] = ..", said->line, said->array, said->index)
             : xasprintf("line %" PRId64 ": .. = %s[%" PRId64 "]", said->line, said->array, said->index)},
         *title = xasprintf("Two threads at %s[%" PRId64 "]", said->array, said->index);
    const char *words =
        two ? "Between two barriers, thick lines, nobody says who is first. What stands there in the end "
              "depends on it."
            : "Between two barriers, thick lines, nobody says who is first. What is read depends on it.";
    struct svg s = {0};
    svg_begin(&s);
    double y = svg_title(&s, title, "");
    y = svg_paragraph(&s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, words) + 14;
    y = draw_lanes(&s, y, two ? "This may happen" : "This may happen: the new number is read", thread, step,
                   0);
    y = draw_lanes(&s, y, two ? "And this" : "And this: the old number is read, or none", thread, step, 1);
    svg_end(&s, out, y - 10, title, words);
    free(step[0]);
    free(step[1]);
    free(title);
}
