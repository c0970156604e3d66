/* lab4_draw.c - see lab4_draw.h. */
#include "verify/lab/lab4_draw.h"

#include "sim/draw/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    GAP = 40, /* between both trees */
    WIDE = (SVG_WIDTH - 2 * SVG_MARGIN - GAP) / 2,
    LEVEL_HIGH = 58,
    NODE_HIGH = 20,
    NODE_WIDE = 30,
    MOST_NAMED = 14 /* edges that differ: more are counted */
};

static const struct svg_font text_font = {.size = 13}, head_font = {.size = 15, .bold = true},
                             node_font = {.size = 12, .bold = true, .anchor = SVG_MIDDLE},
                             side_font = {.size = 11, .plate = true},
                             size_font = {.size = 11, .anchor = SVG_MIDDLE, .plate = true};

struct drawing {
    struct svg s;
    const struct lab_shape *shape;
    double *x; /* [n_nodes] from 0 to 1 */
    int *depth, deepest;
    double node_wide;
};

/* Leaves stand side by side, a parent above the middle of its children. */
static void place(struct drawing *d)
{
    const struct lab_shape *s = d->shape;
    int *children = xcalloc((size_t)s->n_nodes, sizeof *children),
        *order = xcalloc((size_t)s->n_nodes, sizeof *order), n = 0, leaves = 0;
    double *sum = xcalloc((size_t)s->n_nodes, sizeof *sum);
    for (int i = 0; i < s->n_nodes; i++)
        if (s->parent[i] >= 0)
            children[s->parent[i]]++;
    for (int i = 0; i < s->n_nodes; i++) { /* depth first: a child directly behind its parent's part */
        int at = n;
        while (at > 0 && s->parent[i] >= 0 && order[at - 1] != s->parent[i]) {
            int up = order[at - 1];
            while (up > s->parent[i])
                up = s->parent[up];
            if (up == s->parent[i])
                break;
            at--;
        }
        for (int k = n++; k > at; k--)
            order[k] = order[k - 1];
        order[at] = i;
        d->depth[i] = s->parent[i] < 0 ? 0 : d->depth[s->parent[i]] + 1;
        d->deepest = d->depth[i] > d->deepest ? d->depth[i] : d->deepest;
        leaves += children[i] == 0;
    }
    int leaf = 0;
    for (int k = 0; k < n; k++)
        if (children[order[k]] == 0)
            d->x[order[k]] = (leaf++ + 0.5) / leaves;
    for (int i = s->n_nodes - 1; i >= 0; i--) {
        if (children[i] > 0)
            d->x[i] = sum[i] / children[i];
        if (s->parent[i] >= 0)
            sum[s->parent[i]] += d->x[i];
    }
    d->node_wide = fmin(NODE_WIDE, 0.9 * WIDE / leaves);
    free(children);
    free(order);
    free(sum);
}

static double left_of(const struct drawing *d, int side, int node)
{
    return SVG_MARGIN + side * (WIDE + GAP) + d->x[node] * WIDE;
}

static void draw_edge(struct drawing *d, double y, int side, int node, bool joined, bool differs)
{
    int up = d->shape->parent[node];
    double x0 = left_of(d, side, up), x1 = left_of(d, side, node),
           y0 = y + d->depth[up] * LEVEL_HIGH + NODE_HIGH, y1 = y + d->depth[node] * LEVEL_HIGH;
    char more[160];
    snprintf(more, sizeof more, "class=\"%s%s\" stroke=\"%s\" stroke-width=\"%s\"%s",
             joined ? "joined" : "apart", differs ? " differs" : "", differs ? SVG_RED : "#000000",
             joined ? "5" : "1.5", joined ? "" : " stroke-dasharray=\"4 3\"");
    svg_line(&d->s, x0, y0, x1, y1, more);
    if (!differs)
        return;
    double x = (x0 + x1) / 2, at = (y0 + y1) / 2, r = 6; /* red, and crossed, where colours are not seen */
    svg_line(&d->s, x - r, at - r, x + r, at + r, "stroke=\"" SVG_RED "\" stroke-width=\"2\"");
    svg_line(&d->s, x - r, at + r, x + r, at - r, "stroke=\"" SVG_RED "\" stroke-width=\"2\"");
}

static void draw_node(struct drawing *d, double y, int side, int node)
{
    const struct lab_shape *s = d->shape;
    double x = left_of(d, side, node), top = y + d->depth[node] * LEVEL_HIGH;
    char text[80];
    snprintf(text, sizeof text, "node %d: %" PRId64 " tokens, %d queries at it or below it", node,
             s->len[node], s->queries[node]);
    struct svg_box box = {x - d->node_wide / 2, top, d->node_wide, NODE_HIGH};
    svg_rect(&d->s, box, "#FFFFFF", "rx=\"5\" stroke=\"#000000\" stroke-width=\"1.2\"", text);
    snprintf(text, sizeof text, "%d", node);
    svg_text_if_free(&d->s, x, top + 14, &node_font, &box, text);
    snprintf(text, sizeof text, "%" PRId64 " t, %d q", s->len[node], s->queries[node]);
    if (!svg_text_if_free(&d->s, x + d->node_wide / 2 + 4, top + 14, &side_font, NULL, text))
        svg_text_if_free(&d->s, x, top + NODE_HIGH + 12, &size_font, NULL, text);
}

static void draw_tree(struct drawing *d, double y, int side, const unsigned char *join,
                      const unsigned char *other)
{
    const struct lab_shape *s = d->shape;
    for (int i = 0; i < s->n_nodes; i++)
        if (s->parent[i] >= 0)
            draw_edge(d, y, side, i, join[i], join[i] != other[i]);
    for (int i = 0; i < s->n_nodes; i++)
        draw_node(d, y, side, i);
}

/* "join[3], join[7] differ"; the caller frees. */
static char *differences(const struct lab_shape *s, const unsigned char *const join[2])
{
    char *text = xstrdup("");
    int n = 0;
    for (int i = 0; i < s->n_nodes; i++)
        if (join[0][i] != join[1][i] && n++ < MOST_NAMED)
            xappend(&text, "%sjoin[%d] should be %d", n > 1 ? ", " : "", i, join[1][i]);
    if (n > MOST_NAMED)
        xappend(&text, ", and %d more", n - MOST_NAMED);
    return text;
}

void lab4_draw(FILE *out, const struct lab_shape *s, const unsigned char *const join[2], const double cost[2])
{
    struct drawing d = {.shape = s,
                        .x = xcalloc((size_t)s->n_nodes, sizeof(double)),
                        .depth = xcalloc((size_t)s->n_nodes, sizeof(int))};
    char *yours = xasprintf("Yours: %.6g", cost[0]), *least = xasprintf("The least: %.6g", cost[1]),
         *differ = differences(s, join),
         *note =
             xasprintf("Thick: a node is joined to its parent. Dashed: it is apart. Red and crossed: both "
                       "differ there. t: tokens, q: "
                       "queries at a node or below it. To get from yours to this one of the cheapest, %s.",
                       differ);
    place(&d);
    svg_begin(&d.s);
    double y = svg_title(&d.s, "Which nodes are read with their parents", "");
    y = svg_paragraph(&d.s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, note) + 14;
    svg_text(&d.s, SVG_MARGIN, y, &head_font, yours);
    svg_text(&d.s, SVG_MARGIN + WIDE + GAP, y, &head_font, least);
    for (int side = 0; side < 2; side++)
        draw_tree(&d, y + 16, side, join[side], join[!side]);
    svg_end(&d.s, out, y + 16 + d.deepest * LEVEL_HIGH + NODE_HIGH + 24,
            "Which nodes are read with their parents", note);
    free(yours);
    free(least);
    free(differ);
    free(note);
    free(d.x);
    free(d.depth);
}
