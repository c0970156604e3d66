/*
 * lab1_draw.c - a wrong answer of lab 1 as a picture: where the weights come from, and each number that came beside the one that should
 * have.
 */
#include "verify/lab/lab.h"
#include "verify/lab/lab1_wrong.h"

#include "sim/draw/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    LEFT = 110,
    WIDE = SVG_WIDTH - SVG_MARGIN - LEFT,
    MOST_BARS = 120, /* of tokens: more share one */
    FEW_TOKENS = 10, /* have their numbers */
    SCORES_HIGH = 130,
    WEIGHTS_HIGH = 60,
    MOST_ROWS = 8, /* of elements, the worst first */
    ROW_HIGH = 24,
    BAR_HIGH = 14,
    BAR_LEFT = 560,
    BAR_WIDE = SVG_WIDTH - SVG_MARGIN - 90 - BAR_LEFT,
    MOST_DECADES = 9 /* of times what rounding may do: the bar is then full */
};

static const struct svg_font head_font = {.size = 15, .bold = true}, text_font = {.size = 13},
                             end_font = {.size = 13, .anchor = SVG_END},
                             middle_font = {.size = 12, .anchor = SVG_MIDDLE, .plate = true},
                             wrong_font = {.size = 13, .bold = true, .colour = SVG_RED};
#define LINE_STYLE "stroke=\"#000000\" stroke-width=\"0.6\""
#define SCORE_FILL "#0072B2"

struct drawing {
    struct svg s;
    const struct lab1_call *c;
    const struct lab1_answer *right;
    const float *o;
    float lse;
};

static double say(struct drawing *x, double y, const char *text)
{
    return svg_paragraph(&x->s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, text);
}

static void number(struct drawing *x, double at, double y, const struct svg_font *font, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.7g", lab_plain(value));
    svg_text(&x->s, at, y, font, text);
}

/* ---- tokens --------------------------------------------------------------------------------------------- */

/* Tokens that share a bar. */
struct bar {
    double least, most, running, weight; /* running: the maximum up to and with these */
};

static int32_t bars_of(const struct drawing *x, struct bar bar[MOST_BARS], double *lo, double *hi)
{
    int32_t n = x->c->n, bars = n < MOST_BARS ? n : MOST_BARS;
    double running = -INFINITY;
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int32_t b = 0; b < bars; b++)
        bar[b] = (struct bar){.least = INFINITY, .most = -INFINITY};
    for (int32_t i = 0; i < n; i++) {
        struct bar *at = &bar[(int64_t)i * bars / n];
        double s = lab1_score(x->c, i);
        running = fmax(running, s);
        at->least = fmin(at->least, s);
        at->most = fmax(at->most, s);
        at->running = running;
        at->weight += exp(s - x->right->lse);
        *lo = fmin(*lo, s);
        *hi = fmax(*hi, s);
    }
    if (*lo > 0 && *lo < 2 * (*hi - *lo))
        *lo = 0;
    if (*hi < 0 && -*hi < 2 * (*hi - *lo))
        *hi = 0;
    double room = *hi > *lo ? 0.06 * (*hi - *lo) : fmax(1e-6, 0.01 * fabs(*hi));
    *lo -= room;
    *hi += room;
    return bars;
}

static double draw_scores(struct drawing *x, double y, const struct bar *bar, int32_t bars, double lo,
                          double hi)
{
    double step = (double)WIDE / bars, high = SCORES_HIGH, was = 0;
#define AT(score) (y + high * (1 - ((score)-lo) / (hi - lo)))
    for (int32_t b = 0; b < bars; b++) {
        double left = LEFT + b * step, top = AT(bar[b].most), bottom = AT(bar[b].least),
               running = AT(bar[b].running);
        struct svg_box box = {left + 0.1 * step, fmin(top, bottom - 4), 0.8 * step, fmax(4, bottom - top)};
        svg_rect(&x->s, box, SCORE_FILL, "class=\"score\"", NULL);
        if (b > 0)
            svg_line(&x->s, left, was, left, running,
                     "stroke=\"#000000\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"");
        svg_line(&x->s, left, running, left + step, running,
                 "stroke=\"#000000\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"");
        was = running;
    }
    for (int32_t b = 0; b < bars && x->c->n <= FEW_TOKENS; b++) {
        double top = AT(bar[b].most);
        number(x, LEFT + (b + 0.5) * step, top - y < 20 ? top + 17 : top - 7, &middle_font, bar[b].most);
    }
    svg_line(&x->s, LEFT, y, LEFT, y + high, LINE_STYLE);
    number(x, LEFT - 6, y + 10, &end_font, hi);
    number(x, LEFT - 6, y + high, &end_font, lo);
    if (lo < 0 && hi > 0) {
        svg_line(&x->s, LEFT, AT(0), LEFT + WIDE, AT(0), LINE_STYLE);
        svg_text_if_free(&x->s, LEFT - 6, AT(0) + 4, &end_font, NULL, "0");
    }
#undef AT
    return y + high + 8;
}

static double draw_weights(struct drawing *x, double y, const struct bar *bar, int32_t bars)
{
    double step = (double)WIDE / bars, most = 0, bottom = y + WEIGHTS_HIGH;
    for (int32_t b = 0; b < bars; b++)
        most = fmax(most, bar[b].weight);
    for (int32_t b = 0; b < bars; b++) {
        double high = (WEIGHTS_HIGH - 14) * bar[b].weight / most;
        svg_rect(&x->s, (struct svg_box){LEFT + (b + 0.1) * step, bottom - high, 0.8 * step, high},
                 SVG_PADDING, "class=\"weight\" " LINE_STYLE, NULL);
    }
    for (int32_t b = 0; b < bars && x->c->n <= FEW_TOKENS; b++) {
        char text[40];
        snprintf(text, sizeof text, "%.4g", bar[b].weight);
        svg_text(&x->s, LEFT + (b + 0.5) * step, bottom - (WEIGHTS_HIGH - 14) * bar[b].weight / most - 4,
                 &middle_font, text);
    }
    svg_line(&x->s, LEFT, bottom, LEFT + WIDE, bottom, LINE_STYLE);
    svg_text(&x->s, LEFT - 6, bottom, &end_font, "weights");
    return bottom + 26;
}

static double draw_tokens(struct drawing *x, double y)
{
    struct bar bar[MOST_BARS];
    double lo, hi;
    int32_t bars = bars_of(x, bar, &lo, &hi);
    svg_text(&x->s, SVG_MARGIN, y, &head_font, "What was asked: scores, token by token");
    char *note = xasprintf(
        "Blue: the score of a token. Dashed: the largest so far, which online softmax subtracts. Hatched: "
        "its weight "
        "in O, e^(score - LSE).%s",
        bars < x->c->n ? " Tokens share bars: a bar goes from their least score to their largest." : "");
    y = say(x, y + 18, note) + 4;
    free(note);
    return draw_weights(x, draw_scores(x, y, bar, bars, lo, hi), bar, bars);
}

/* ---- two parts ------------------------------------------------------------------------------------------ */

/* The weight of the first part with which O would be, as near as it goes, that of the student; NaN: none is near. */
static double weight_seen(const struct drawing *x)
{
    const struct lab1_call *c = x->c;
    double up = 0, down = 0, size = 0, off = 0;
    for (int32_t i = 0; i < c->d; i++) {
        double apart = (double)c->o1[i] - (double)c->o2[i];
        up += ((double)x->o[i] - (double)c->o2[i]) * apart;
        down += apart * apart;
        size += (double)x->o[i] * (double)x->o[i];
    }
    double w = up / down;
    for (int32_t i = 0; i < c->d; i++) {
        double is = w * (double)c->o1[i] + (1 - w) * (double)c->o2[i] - (double)x->o[i];
        off += is * is;
    }
    return off <= 1e-6 * size && w >= -0.001 && w <= 1.001 ? w : NAN;
}

static double draw_parts(struct drawing *x, double y)
{
    const struct lab1_call *c = x->c;
    const double lse[2] = {(double)c->lse1, (double)c->lse2};
    double seen = weight_seen(x), high = fmax(lse[0], lse[1]);
    bool none = !(high > -INFINITY);
    svg_text(&x->s, SVG_MARGIN, y, &head_font, "What was asked: two parts, and their weights in O");
    y = say(x, y + 18,
            none          ? "Both parts are empty: there is no weight."
            : isnan(seen) ? "Blue: what a part should weigh, e^(its LSE - LSE of the whole). No weights "
                            "between 0 and 1 give your O."
                          : "Blue: what a part should weigh, e^(its LSE - LSE of the whole). Hatched: the "
                            "weights that give your O.") +
        8;
    for (int i = 0; i < 2 && !none; i++, y += 40) {
        char text[80];
        double should = exp(lse[i] - x->right->lse), is = i ? 1 - seen : seen;
        snprintf(text, sizeof text, "part %d, LSE %.6g", i + 1, lse[i]);
        svg_text(&x->s, SVG_MARGIN, y + 20, &text_font, text);
        for (int k = 0; k < (isnan(seen) ? 1 : 2); k++) {
            double w = k ? is : should;
            svg_rect(&x->s,
                     (struct svg_box){LEFT + 110, y + 16 * k, fmax(1, 560 * fmin(1, fmax(0, w))), BAR_HIGH},
                     k ? SVG_PADDING : SCORE_FILL, LINE_STYLE, NULL);
            snprintf(text, sizeof text, "%.4g%s", w, k ? " in your O" : "");
            svg_text(&x->s, LEFT + 110 + fmax(1, 560 * fmin(1, fmax(0, w))) + 8, y + 16 * k + 12, &text_font,
                     text);
        }
    }
    return y + 20;
}

/* ---- numbers that came ---------------------------------------------------------------------------------- */

/* How far off, in units of what rounding may do; -1: LSE. */
static double off_by(const struct drawing *x, int32_t i)
{
    double is = (double)(i < 0 ? x->lse : x->o[i]), should = i < 0 ? x->right->lse : x->right->o[i],
           allow = i < 0 ? x->right->allow_lse : x->right->allow[i];
    if (is == should || (float)is == (float)should)
        return 0;
    double off = fabs(is - should) / fmax(allow, 1e-300);
    return isnan(off) ? INFINITY : off;
}

/* Of a copy every bit counts. */
static bool is_wrong(const struct drawing *x, int32_t i)
{
    double off = off_by(x, i);
    return off > 1 || (x->c->exact && off > 0);
}

static double draw_number(struct drawing *x, double y, int32_t i)
{
    bool wrong = is_wrong(x, i);
    double off = off_by(x, i), decades = fmin(MOST_DECADES, log10(1 + 9 * fmin(off, 1e300)));
    char text[40];
    snprintf(text, sizeof text, i < 0 ? "LSE" : "O[%" PRId32 "]", i);
    svg_text(&x->s, SVG_MARGIN, y + 12, wrong ? &wrong_font : &text_font, text);
    number(x, 220, y + 12, &end_font, (double)(i < 0 ? x->lse : x->o[i]));
    number(x, 370, y + 12, &end_font, i < 0 ? x->right->lse : x->right->o[i]);
    snprintf(text, sizeof text, "%.2g", i < 0 ? x->right->allow_lse : x->right->allow[i]);
    svg_text(&x->s, 470, y + 12, &end_font, text);
    svg_rect(&x->s, (struct svg_box){BAR_LEFT, y, fmax(1, BAR_WIDE * decades / MOST_DECADES), BAR_HIGH},
             wrong ? SVG_WRONG : SVG_HIDDEN,
             wrong ? "class=\"wrong\" stroke=\"" SVG_RED "\" stroke-width=\"2\"" : LINE_STYLE, NULL);
    if (off <= 1)
        snprintf(text, sizeof text, wrong ? "not the bits" : "right");
    else if (isinf(off))
        snprintf(text, sizeof text, "beyond all");
    else
        snprintf(text, sizeof text, "%.3g x", off);
    svg_text(&x->s, SVG_WIDTH - SVG_MARGIN - 82, y + 12, wrong ? &wrong_font : &text_font, text);
    return y + ROW_HIGH;
}

/* The next one that is farthest off and has not been drawn. */
static int32_t next_worst(const struct drawing *x, const bool *drawn)
{
    int32_t at = -1;
    for (int32_t i = 0; i < x->c->d; i++)
        if (!drawn[i] && (at < 0 || off_by(x, i) > off_by(x, at)))
            at = i;
    return at;
}

/* All elements of O in a row: which are wrong? */
static double draw_strip(struct drawing *x, double y)
{
    double step = (double)WIDE / x->c->d;
    svg_text(&x->s, LEFT - 6, y + 12, &end_font, "all of O");
    for (int32_t i = 0; i < x->c->d; i++)
        svg_rect(&x->s, (struct svg_box){LEFT + i * step, y, step, BAR_HIGH},
                 is_wrong(x, i) ? SVG_WRONG : SVG_HIDDEN, LINE_STYLE, NULL);
    return y + ROW_HIGH;
}

static double draw_numbers(struct drawing *x, double y)
{
    static const char *const head[] = {"yours", "should be", "within"};
    static const double at[] = {220, 370, 470};
    int32_t d = x->c->d;
    bool *drawn = xcalloc((size_t)d, sizeof *drawn);
    svg_text(&x->s, SVG_MARGIN, y, &head_font, "What came");
    for (int i = 0; i < 3; i++)
        svg_text(&x->s, at[i], y + 22, &end_font, head[i]);
    svg_text(&x->s, BAR_LEFT, y + 22, &text_font, "off by, in units of what rounding may do");
    y = draw_number(x, y + 32, -1);
    for (int32_t k = 0; k < d && k < MOST_ROWS; k++) {
        int32_t i = d <= MOST_ROWS ? k : next_worst(x, drawn);
        drawn[i] = true;
        y = draw_number(x, y, i);
    }
    free(drawn);
    if (d > MOST_ROWS)
        y = draw_strip(x, y + 6);
    return say(x, y + 14,
               d > MOST_ROWS
                   ? "Red and crossed: wrong. Grey: right. Bars are 1 step longer for 10 times as much. The "
                     "elements that are farthest off are shown."
                   : "Red and crossed: wrong. Grey: right. Bars are 1 step longer for 10 times as much.");
}

void lab1_draw(FILE *out, const struct lab1_call *c, const struct lab1_answer *right, const float *o,
               float lse)
{
    struct drawing x = {.c = c, .right = right, .o = o, .lse = lse};
    bool attend = c->point == LAB1_ATTEND;
    char *title =
        attend ? xasprintf("lab_attend: %" PRId32 " token%s, d = %" PRId32, c->n, c->n == 1 ? "" : "s", c->d)
               : xasprintf("lab_merge: d = %" PRId32, c->d);
    svg_begin(&x.s);
    double y = svg_title(&x.s, title, "") + 10;
    if (attend && c->n > 0)
        y = draw_tokens(&x, y);
    else if (!attend)
        y = draw_parts(&x, y);
    y = draw_numbers(&x, y);
    svg_end(&x.s, out, y, title,
            "Above: what was asked. Below: each number that came, the one that should have, and how far it "
            "is off.");
    free(title);
}
