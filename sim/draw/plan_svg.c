#include "sim/draw/plan_svg.h"
#include "sim/draw/plan_parts.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct svg_font text_font = {.size = 12},
                             wrong_font = {.size = 14, .bold = true, .colour = SVG_RED};

static void add_count(char **text, int64_t n, const char *one, const char *many, const char *end)
{
    xappend(text, "%" PRId64 " %s%s", n, n == 1 ? one : many, end);
}

/* "Tree: 6 queries, 9 nodes, .."; the caller frees. */
static char *counts_of(const struct plan *p, const struct heads *heads)
{
    const struct tree *t = p->nf->tree;
    char *text = xstrdup("Tree: ");
    add_count(&text, t->n_queries, "query", "queries", ", ");
    add_count(&text, t->n_nodes, "node", "nodes", ", ");
    add_count(&text, tree_tokens(t), "token", "tokens", ". Heads: ");
    xappend(&text, "%" PRId32 " of queries on %" PRId32 " of K and V. Plan: ", heads->h_q, heads->h_kv);
    add_count(&text, p->n_groups, "group", "groups", ", ");
    add_count(&text, p->n_slots, "partial result", "partial results", ", ");
    add_count(&text, p->n_merges, "merge", "merges", ".");
    return text;
}

/* Nothing where there is no text. */
static double say(struct svg *s, double y, const char *what, const char *text, const struct svg_font *font)
{
    if (!text[0])
        return y;
    char *whole = xasprintf("%s%s", what, text);
    y = svg_paragraph(s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, font, whole);
    free(whole);
    return y;
}

void plan_print_svg(FILE *out, const struct plan *p, const struct heads *heads, const struct plan_flaw *flaw)
{
    struct svg s = {0};
    double wide = SVG_WIDTH - 2 * SVG_MARGIN, y;
    char *name =
        xasprintf("%s%s%s%s", p->strategy, p->params[0] ? " (" : "", p->params, p->params[0] ? ")" : "");
    char *counts = counts_of(p, heads);
    char *title = xasprintf("%slan %s", flaw ? "Wrong p" : "P", name);
    char *words = xasprintf(
        "%s%s%s Above: queries by tokens of their paths, in the colours of the groups that compute "
        "them. Below: rows by tokens of each group, and how much of its tiles is hidden by masks or "
        "padding.",
        flaw ? flaw->why : "", flaw ? ". " : "", counts);
    svg_begin(&s);
    y = svg_title(&s, p->strategy, p->strategy);
    y = say(&s, y, "Options: ", p->params, &text_font);
    y = svg_paragraph(&s, SVG_MARGIN, y, wide, &text_font, counts);
    y = say(&s, y, "Note: ", p->note, &text_font);
    if (flaw)
        y = say(&s, y + 4, "This plan is wrong: ", flaw->why, &wrong_font);
    y = plan_draw_matrix(&s, y + 16, p, flaw);
    y = plan_draw_tiles(&s, y + 16, p, heads);
    svg_end(&s, out, y + SVG_MARGIN, title, words);
    free(name);
    free(counts);
    free(title);
    free(words);
}
