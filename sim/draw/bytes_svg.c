#include "sim/draw/bytes_svg.h"
#include "sim/draw/axis.h"
#include "sim/draw/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_HIGH = 26, BAR_HIGH = 16, RIGHT = 190, NAMES_MOST = 260, SWATCH = 12, CUT_AT = 12 };

static const struct svg_font text_font = {.size = 12}, name_font = {.size = 11, .anchor = SVG_END},
                             number_font = {.size = 11}, tick_font = {.size = 10, .anchor = SVG_MIDDLE},
                             grey_font = {.size = 11, .colour = "#555555", .halo = true};

static const char *const part_name[N_BYTES_PARTS] = {
#define X(name, what, field) [BYTES_##name] = what,
    BYTES_PARTS(X)
#undef X
};
/* Apart in brightness, and two of them by a pattern, too. */
static const char *const part_fill[N_BYTES_PARTS] = {[BYTES_KV] = "#0072B2",
                                                     [BYTES_QO] = "#56B4E9",
                                                     [BYTES_MASKS] = SVG_HIDDEN,
                                                     [BYTES_SCORES] = "#F0E442",
                                                     [BYTES_PARTIALS] = SVG_PADDING};

struct bytes_bar bytes_bar_of(const char *name, const struct ledger *l, double times)
{
    struct bytes_bar b = {.name = name};
#define X(part_, what, field) b.part[BYTES_##part_] = (double)(field)*times;
    BYTES_PARTS(X)
#undef X
    return b;
}

static double total_of(const struct bytes_bar *b)
{
    double sum = 0;
    for (int i = 0; i < N_BYTES_PARTS; i++)
        sum += b->part[i];
    return sum;
}

struct bars {
    struct svg *s;
    const struct bytes_bar *bar;
    int32_t n;
    double floor;
    double end;        /* bytes at the right end of the scale */
    double left, wide; /* of the scale */
    double unit;       /* bytes */
    const char *unit_name;
};

static double place(const struct bars *x, double bytes)
{
    return x->left + x->wide * fmin(1, bytes / x->end);
}

static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
enum { N_UNITS = sizeof units / sizeof units[0] };

/* The unit in which a number of bytes has up to three digits before its point. */
static double unit_of(double bytes, const char **name)
{
    double unit = 1;
    int u = 0;
    for (; u < N_UNITS - 1 && bytes >= 1000 * unit; u++)
        unit *= 1000;
    *name = units[u];
    return unit;
}

/* To the largest bar, or to CUT_AT times the smallest if that is less. */
static void set_scale(struct bars *x)
{
    double most = x->floor, least = INFINITY, wide = 0;
    for (int32_t i = 0; i < x->n; i++) {
        wide = fmax(wide, fmin(NAMES_MOST, svg_text_width(&name_font, x->bar[i].name)));
        if (x->bar[i].why || total_of(&x->bar[i]) <= 0)
            continue;
        most = fmax(most, total_of(&x->bar[i]));
        least = fmin(least, total_of(&x->bar[i]));
    }
    x->end = fmax(1, least < INFINITY ? fmin(most, CUT_AT * fmax(least, x->floor)) : most);
    x->left = SVG_MARGIN + SWATCH + 6 + wide + 8;
    x->wide = SVG_WIDTH - RIGHT - x->left;
    x->unit = unit_of(x->end, &x->unit_name);
}

/* As much of a name as there is room for. */
static void draw_name(const struct bars *x, double y, const char *name)
{
    char *text = xstrdup(name);
    size_t n = strlen(text);
    while (n > 3 && svg_text_width(&name_font, text) > NAMES_MOST) {
        text[--n] = 0;
        memcpy(text + n - 2, "..", 2);
    }
    const char *colour = svg_strategy_colour(name);
    if (colour)
        svg_rect(x->s, (struct svg_box){SVG_MARGIN, y - 10, SWATCH, SWATCH}, colour,
                 "stroke=\"#000000\" stroke-width=\"0.6\"", NULL);
    svg_text(x->s, x->left - 8, y, &name_font, text);
    free(text);
}

/* Parts from left to right; what is beyond the scale is cut off. */
static void draw_parts(const struct bars *x, double y, const struct bytes_bar *b)
{
    double at = 0;
    for (int i = 0; i < N_BYTES_PARTS; i++) {
        if (b->part[i] == 0)
            continue;
        double left = place(x, at), right = place(x, at + b->part[i]);
        char more[160];
        char *told = xasprintf("%s: %.0f B", part_name[i], b->part[i]);
        snprintf(more, sizeof more,
                 "class=\"part\" data-bytes=\"%.17g\" stroke=\"#000000\" stroke-width=\"0.5\"", b->part[i]);
        svg_rect(x->s, (struct svg_box){left, y, right - left, BAR_HIGH}, part_fill[i], more, told);
        free(told);
        at += b->part[i];
    }
    for (int i = 0; i < 2 && at > x->end; i++) {
        double right = x->left + x->wide - 14 + 5 * i;
        svg_line(x->s, right, y + BAR_HIGH + 2, right + 5, y - 2, "stroke=\"#FFFFFF\" stroke-width=\"2.5\"");
    }
}

/* As much of the reason as there is room for. */
static void draw_reason(const struct bars *x, double y, const struct bytes_bar *b)
{
    char *why = xasprintf("does not apply: %s", b->why);
    double room = SVG_WIDTH - SVG_MARGIN - x->left;
    bool fits = svg_text_width(&grey_font, why) < room;
    svg_text(x->s, x->left + 4, y + 12, &grey_font, fits ? why : "does not apply");
    free(why);
}

/* "2.4 GB, 1.7 x floor" behind a bar, in the scale's unit unless that makes too many digits; the caller frees. */
static char *size_text(const struct bars *x, double bytes)
{
    const char *name = x->unit_name;
    double unit = bytes < 1e4 * x->unit ? x->unit : unit_of(bytes, &name), ratio = bytes / x->floor;
    char *text = xasprintf("%.4g %s", bytes / unit, name);
    if (x->floor > 0)
        xappend(&text,
                ratio < 100   ? ", %.3g x floor"
                : ratio < 1e6 ? ", %.0f x floor"
                              : ", %.1e x floor",
                ratio);
    return text;
}

static void draw_bar(const struct bars *x, double y, const struct bytes_bar *b)
{
    char *text = size_text(x, total_of(b));
    draw_parts(x, y, b);
    svg_text(x->s, SVG_WIDTH - RIGHT + 8, y + 12, &number_font, text);
    free(text);
}

static double draw_key(const struct bars *x, double y)
{
    double at = SVG_MARGIN;
    for (int i = 0; i < N_BYTES_PARTS; i++) {
        svg_rect(x->s, (struct svg_box){at, y - 11, 22, 14}, part_fill[i],
                 "stroke=\"#000000\" stroke-width=\"0.6\"", NULL);
        svg_text(x->s, at + 28, y, &text_font, part_name[i]);
        at += 28 + svg_text_width(&text_font, part_name[i]) + 22;
    }
    return y + 34;
}

static void draw_floor(const struct bars *x, double top, double bottom)
{
    static const struct svg_font font = {.size = 11, .bold = true, .anchor = SVG_MIDDLE};
    double at = place(x, x->floor);
    char *text = xasprintf("floor %.4g %s", x->floor / x->unit, x->unit_name);
    double half = svg_text_width(&font, text) / 2;
    svg_line(x->s, at, top - 4, at, bottom,
             "class=\"floor\" stroke=\"#000000\" stroke-width=\"1.6\" stroke-dasharray=\"6 3\"");
    svg_text(x->s, fmax(SVG_MARGIN + half, at), top - 8, &font, text);
    free(text);
}

static void draw_ticks(const struct bars *x, double y)
{
    double step = axis_step(x->end / x->unit, 8);
    for (int i = 0; i * step <= x->end / x->unit; i++) {
        double at = place(x, i * step * x->unit);
        char name[40];
        snprintf(name, sizeof name, "%.10g%s%s", i * step, i == 0 ? " " : "", i == 0 ? x->unit_name : "");
        svg_line(x->s, at, y, at, y + 4, "stroke=\"#000000\"");
        svg_text_if_free(x->s, at, y + 15, &tick_font, NULL, name);
    }
}

static bool any_strategy(const struct bars *x)
{
    for (int32_t i = 0; i < x->n; i++)
        if (svg_strategy_colour(x->bar[i].name))
            return true;
    return false;
}

static bool any_cut(const struct bars *x)
{
    for (int32_t i = 0; i < x->n; i++)
        if (!x->bar[i].why && total_of(&x->bar[i]) > x->end)
            return true;
    return false;
}

void bytes_print_svg(FILE *out, const char *what, const struct bytes_bar *bar, int32_t n, double floor)
{
    static const char title[] = "What plans move";
    struct svg s = {0};
    struct bars x = {.s = &s, .bar = bar, .n = n, .floor = floor};
    double wide = SVG_WIDTH - 2 * SVG_MARGIN;
    set_scale(&x);
    char *words = xasprintf(
        "%s%s%s%s", what, any_strategy(&x) ? " Squares have the strategy's colour in all figures." : "",
        floor > 0
            ? " Floor: K and V of each token that some query sees, read once; Q read, O and LSE written."
            : "",
        any_cut(&x) ? " Bars with two white strokes are cut." : "");
    svg_begin(&s);
    double y = svg_title(&s, title, "");
    y = svg_paragraph(&s, SVG_MARGIN, y, wide, &text_font, words);
    y = draw_key(&x, y + 6);
    double top = y;
    for (int32_t i = 0; i < n; i++, y += ROW_HIGH)
        if (!bar[i].why)
            draw_bar(&x, y, &bar[i]);
    if (floor > 0)
        draw_floor(&x, top, y);
    for (int32_t i = 0; i < n; i++) {
        draw_name(&x, top + i * ROW_HIGH + 12, bar[i].name);
        if (bar[i].why)
            draw_reason(&x, top + i * ROW_HIGH, &bar[i]);
    }
    svg_line(&s, x.left, y, x.left + x.wide, y, "stroke=\"#000000\"");
    draw_ticks(&x, y);
    svg_end(&s, out, y + 36, title, words);
    free(words);
}
