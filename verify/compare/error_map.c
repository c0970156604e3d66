#include "verify/compare/error_map.h"
#include "sim/draw/svg.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 160, LEFT = 80, RIGHT = 30, HIGH = 480, LEAST_HIGH = 3, MOST_HIGH = 26, LEGEND_HIGH = 16 };

static const struct svg_font title_font = {.size = 18, .bold = true}, text_font = {.size = 12},
                             tick_font = {.size = 10, .anchor = SVG_MIDDLE},
                             row_font = {.size = 10, .anchor = SVG_END};

/* Of errors. Each is darker than the one before it. */
enum grade { GRADE_RIGHT, GRADE_NEAR, GRADE_WRONG, GRADE_FAR, GRADE_NO_NUMBER, N_GRADES };
static const struct {
    double most;
    const char *fill, *says;
} grades[N_GRADES] = {[GRADE_RIGHT] = {1, "#E8EEF4", "within the bound"},
                      [GRADE_NEAR] = {10, "#F6C26B", "up to 10 times the bound"},
                      [GRADE_WRONG] = {1e4, "#D9702B", "up to 10,000 times"},
                      [GRADE_FAR] = {DBL_MAX, "#7A1F1F", "more"},
                      [GRADE_NO_NUMBER] = {INFINITY, SVG_WRONG, "NaN or infinity on one side alone"}};

static enum grade grade_of(double error)
{
    int g = 0;
    while (g < GRADE_NO_NUMBER && !(error <= grades[g].most))
        g++;
    return (enum grade)g;
}

void error_map_fill(struct error_map *m, const struct problem *p, const struct oracle *orc,
                    const struct output *out, const struct arithmetic *a, const struct comparison *c)
{
    error_map_clear(m);
    m->h_q = p->heads.h_q;
    m->h_kv = p->heads.h_kv;
    m->n_queries = (int32_t)(out->n_rows / m->h_q);
    m->error = xcalloc((size_t)out->n_rows, sizeof *m->error);
    for (int64_t r = 0; r < out->n_rows; r++)
        m->error[r] = (float)compare_row_error(p, orc, out, a, c, r);
}

void error_map_clear(struct error_map *m)
{
    free(m->error);
    *m = (struct error_map){0};
}

/* ---- the picture ---------------------------------------------------------------------------------------- */

struct picture {
    struct svg *s;
    const struct error_map *m;
    int32_t rows;
    double top, wide, high; /* of a cell */
};

/* The largest error of a head, of the queries that row stands for. */
static enum grade cell(const struct picture *x, int32_t row, int32_t head)
{
    const struct error_map *m = x->m;
    int64_t begin = (int64_t)row * m->n_queries / x->rows, end = (int64_t)(row + 1) * m->n_queries / x->rows;
    double most = 0;
    for (int64_t q = begin; q < end; q++)
        most = fmax(most, (double)m->error[q * m->h_q + head]);
    return grade_of(most);
}

/* Heads of one grade beside each other are one box. */
static void draw_row(const struct picture *x, int32_t row)
{
    for (int32_t head = 0, next; head < x->m->h_q; head = next) {
        enum grade g = cell(x, row, head);
        for (next = head + 1; next < x->m->h_q && cell(x, row, next) == g;)
            next++;
        struct svg_box b = {LEFT + head * x->wide, x->top + row * x->high, (next - head) * x->wide, x->high};
        char more[100];
        snprintf(more, sizeof more,
                 "class=\"cell\" shape-rendering=\"crispEdges\" data-class=\"%d\" data-cells=\"%d\"", (int)g,
                 (int)(next - head));
        svg_rect(x->s, b, grades[g].fill, more, NULL);
    }
}

/* The first head of each KV head, and queries as often as there is room. */
static void draw_ticks(const struct picture *x)
{
    const struct error_map *m = x->m;
    int32_t ratio = m->h_q / m->h_kv;
    double bottom = x->top + x->rows * x->high;
    for (int32_t kv = 0; kv < m->h_kv; kv++) {
        char name[40];
        double left = LEFT + kv * ratio * x->wide;
        snprintf(name, sizeof name, kv ? "%d" : "KV head %d", (int)kv);
        svg_text_if_free(x->s, left + ratio * x->wide / 2, x->top - 6, &tick_font, NULL, name);
        if (kv > 0)
            svg_line(x->s, left, x->top, left, bottom, "stroke=\"#FFFFFF\" stroke-width=\"2\"");
    }
    for (int32_t row = 0; row < x->rows; row++) {
        char name[40];
        snprintf(name, sizeof name, "query %" PRId64, (int64_t)row * m->n_queries / x->rows);
        svg_text_if_free(x->s, LEFT - 6, x->top + row * x->high + fmax(8, x->high / 2 + 4), &row_font, NULL,
                         name);
    }
}

/* What the colours mean, with how many rows of the answer are so. */
static double draw_legend(const struct picture *x, double y)
{
    int64_t n[N_GRADES] = {0}, all = (int64_t)x->m->n_queries * x->m->h_q;
    for (int64_t r = 0; r < all; r++)
        n[grade_of((double)x->m->error[r])]++;
    for (int g = 0; g < N_GRADES; g++) {
        char text[100];
        snprintf(text, sizeof text, "%s: %" PRId64 " of %" PRId64 " rows", grades[g].says, n[g], all);
        svg_rect(x->s, (struct svg_box){LEFT, y - 10, 22, 12}, grades[g].fill,
                 "stroke=\"#000000\" stroke-width=\"0.5\"", NULL);
        svg_text(x->s, LEFT + 30, y, &text_font, text);
        y += LEGEND_HIGH;
    }
    return y;
}

void error_map_print_svg(FILE *out, const struct error_map *m, const char *title, const char *why,
                         const char *text)
{
    static const char words[] =
        "One column for each query head, those of a KV head between white lines; one row for each query. "
        "The darker a cell, the larger the error of that row of O or its LSE.";
    struct svg s = {0};
    struct picture x = {.s = &s, .m = m, .rows = (int32_t)min_i64(m->n_queries, MOST_ROWS)};
    double room = SVG_WIDTH - 2 * SVG_MARGIN;
    x.wide = (double)(SVG_WIDTH - LEFT - RIGHT) / m->h_q;
    x.high = fmin(MOST_HIGH, fmax(LEAST_HIGH, (double)HIGH / x.rows));
    svg_begin(&s);
    double y = svg_paragraph(&s, SVG_MARGIN, 34, room, &title_font, title);
    y = svg_paragraph(&s, SVG_MARGIN, y, room, &text_font, why);
    y = svg_paragraph(&s, SVG_MARGIN, y, room, &text_font, text);
    if (x.rows < m->n_queries)
        y = svg_paragraph(&s, SVG_MARGIN, y, room, &text_font,
                          "Rows stand for several queries each, and show the largest error.");
    x.top = y + 24;
    for (int32_t row = 0; row < x.rows; row++)
        draw_row(&x, row);
    draw_ticks(&x);
    y = draw_legend(&x, x.top + x.rows * x.high + 28);
    svg_end(&s, out, y + SVG_MARGIN, title, words);
}
