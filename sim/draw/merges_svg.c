#include "sim/draw/merges_svg.h"
#include "sim/draw/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    MOST_PARTS = 40,
    ROW_HIGH = 26,
    NAME_X = SVG_MARGIN,
    TOKENS_X = 96,
    LSE_X = 216,
    SHARE_X = 330,
    SHARE_WIDE = 150,
    PERCENT_X = SHARE_X + SHARE_WIDE + 6,
    LINES_X = 545, /* lines to merge steps begin there */
    BOX_WIDE = 92, /* the output's; merges where these are many are smaller */
    FIRST_X = LINES_X + 70,
    LAST_X = SVG_WIDTH - SVG_MARGIN - BOX_WIDE,
    BOX_HIGH = 34
};

static const struct svg_font text_font = {.size = 12}, name_font = {.size = 12, .bold = true},
                             box_font = {.size = 11, .anchor = SVG_MIDDLE},
                             weight_font = {.size = 10, .anchor = SVG_MIDDLE, .plate = true};

/* A partial result of the query: of a group, or of a merge step, whose inputs have it as their parent. */
struct part {
    int64_t group; /* -1: a merge step */
    int64_t tokens;
    double lse;
    int32_t parent,
        height; /* parent: its index, -1: the output; height: merge steps above the deepest group's */
    bool left_out;
    double x, y; /* where its line begins */
};

struct merges {
    const struct plan *p;
    const struct problem *values;
    int32_t query, head; /* query: of the normal form */
    int64_t *writer;     /* [n_slots] the group that writes it, or n_groups + the merge step */
    struct part *at;     /* parents before children */
    int64_t n, cap, parts;
    double wide; /* of a merge step's box */
    double lost; /* share of parts that are left out */
};

/* ---- values --------------------------------------------------------------------------------------------- */

/* Of the logits of a run; *top and *sum as an online softmax has them. */
static void add_run(const struct merges *m, const struct run *run, double *top, double *sum)
{
    const struct problem *v = m->values;
    int32_t d = v->heads.d, kv_head = m->head / heads_gqa(&v->heads);
    struct run r = plan_tree_run(m->p, run);
    int64_t q = ((int64_t)m->p->nf->orig[m->query] * v->heads.h_q + m->head) * d;
    for (int64_t j = r.begin; j < r.end; j++) {
        int64_t k = (problem_slot(v, r.node, j) * v->heads.h_kv + kv_head) * d;
        double dot = 0;
        for (int32_t i = 0; i < d; i++)
            dot += dtype_load(v->heads.dtype, v->q, q + i) * problem_k(v, k + i);
        double logit = dot * v->scale, higher = fmax(*top, logit);
        *sum = *sum * exp(*top - higher) + exp(logit - higher);
        *top = higher;
    }
}

static int32_t place_in_group(const struct plan *p, const struct group *g, int32_t query)
{
    int32_t k = 0;
    while (k < g->nq && plan_query(p, g, k) != query)
        k++;
    return k;
}

static void set_group(struct merges *m, struct part *x)
{
    const struct group *g = &m->p->group[x->group];
    int32_t k = place_in_group(m->p, g, m->query);
    double top = -INFINITY, sum = 0;
    for (int64_t r = 0; r < g->run1 - g->run0 && k < g->nq; r++)
        if (plan_visible(m->p, g, k, r)) {
            x->tokens += m->p->run[g->run0 + r].end - m->p->run[g->run0 + r].begin;
            add_run(m, &m->p->run[g->run0 + r], &top, &sum);
        }
    x->lse = x->tokens > 0 ? top + log(sum) : -INFINITY;
}

/* log(e^a + e^b), where one or both may be nothing. */
static double log_sum(double a, double b)
{
    double top = fmax(a, b);
    return isinf(top) ? top : top + log(exp(a - top) + exp(b - top));
}

/* ---- the tree of merges ----------------------------------------------------------------------------------- */

static void find_writers(struct merges *m)
{
    const struct plan *p = m->p;
    m->writer = xcalloc((size_t)p->n_slots, sizeof *m->writer);
    for (int64_t i = 0; i < p->n_groups; i++)
        for (int32_t k = 0; k < p->group[i].nq && p->group[i].slot0 != PLAN_NO_SLOT; k++)
            m->writer[p->group[i].slot0 + k] = i;
    for (int64_t i = 0; i < p->n_merges; i++)
        if (p->merge[i].out != PLAN_NO_SLOT)
            m->writer[p->merge[i].out] = p->n_groups + i;
}

/* Who writes the query's output. */
static int64_t last_writer(const struct merges *m)
{
    const struct plan *p = m->p;
    for (int64_t i = 0; i < p->n_merges; i++)
        if (p->merge[i].query == m->query && p->merge[i].out == PLAN_NO_SLOT)
            return p->n_groups + i;
    for (int64_t i = 0; i < p->n_groups; i++)
        if (p->group[i].slot0 == PLAN_NO_SLOT && place_in_group(p, &p->group[i], m->query) < p->group[i].nq)
            return i;
    CK_FOUND("who writes the output");
}

/* What the writer makes, and all below it, which a plan that is right ends. Returns its index. */
static int32_t add_part(struct merges *m, int64_t writer, int32_t parent)
{
    bool is_group = writer < m->p->n_groups;
    m->at = xgrow(m->at, &m->cap, m->n + 1, sizeof *m->at);
    int32_t own = (int32_t)m->n++;
    struct part x = {.group = is_group ? writer : -1, .parent = parent, .lse = -INFINITY};
    if (is_group)
        set_group(m, &x);
    m->at[own] = x;
    if (is_group)
        return own;
    const struct merge_step *step = &m->p->merge[writer - m->p->n_groups];
    for (int64_t i = step->in0; i < step->in1; i++) {
        int32_t child = add_part(m, m->writer[m->p->merge_in[i]], own); /* moves m->at */
        x.lse = log_sum(x.lse, m->at[child].lse);
        x.height = (int32_t)max_i64(x.height, m->at[child].height);
    }
    x.height++;
    m->at[own] = x;
    return own;
}

static double share(const struct merges *m, const struct part *x)
{
    return isinf(x->lse) ? 0 : exp(x->lse - m->at[0].lse);
}

static int by_lse(const void *pa, const void *pb)
{
    const struct part *a = *(struct part *const *)pa, *b = *(struct part *const *)pb;
    return a->lse != b->lse ? (a->lse > b->lse ? -1 : 1) : (a > b) - (a < b);
}

/* The smallest parts, where there are too many. */
static void leave_out(struct merges *m)
{
    struct part **groups = xcalloc((size_t)m->n, sizeof *groups);
    for (int64_t i = 0; i < m->n; i++)
        if (m->at[i].group >= 0)
            groups[m->parts++] = &m->at[i];
    qsort(groups, (size_t)m->parts, sizeof *groups, by_lse);
    for (int64_t i = MOST_PARTS; i < m->parts; i++) {
        groups[i]->left_out = true;
        m->lost += share(m, groups[i]);
    }
    free(groups);
}

/* ---- drawing ---------------------------------------------------------------------------------------------- */

static void draw_group(struct svg *s, const struct merges *m, struct part *x, double y)
{
    char text[64], more[80];
    double part = share(m, x);
    snprintf(text, sizeof text, "g%" PRId64, x->group);
    svg_text(s, NAME_X, y + 4, &name_font, text);
    snprintf(text, sizeof text, "%" PRId64 " token%s", x->tokens, x->tokens == 1 ? "" : "s");
    svg_text(s, TOKENS_X, y + 4, &text_font, text);
    snprintf(text, sizeof text, "LSE %.5g", x->lse);
    svg_text(s, LSE_X, y + 4, &text_font, text);
    snprintf(more, sizeof more, "class=\"share\" data-share=\"%.17g\"", part);
    svg_rect(s, (struct svg_box){SHARE_X, y - 7, SHARE_WIDE * part, 14}, svg_colour(x->group), more, NULL);
    svg_rect(s, (struct svg_box){SHARE_X, y - 7, SHARE_WIDE, 14}, "none",
             "stroke=\"#000000\" stroke-width=\"0.6\"", NULL);
    snprintf(text, sizeof text, "%.3g %%", 100 * part);
    svg_text(s, PERCENT_X, y + 4, &text_font, text);
    x->x = LINES_X;
    x->y = y;
}

/* Boxes of merge steps go to the right, by their height; each is at the middle of what it merges. */
static void place_merges(struct merges *m)
{
    int32_t steps = m->at[0].height - 1; /* from the first column to the output */
    double apart = steps > 0 ? (double)(LAST_X - FIRST_X) / steps : LAST_X - FIRST_X;
    m->wide = fmax(8, fmin(BOX_WIDE, apart - 20));
    for (int64_t i = m->n - 1; i >= 0; i--) {
        struct part *x = &m->at[i];
        double low = INFINITY, high = -INFINITY;
        if (x->group >= 0)
            continue;
        for (int64_t k = i + 1; k < m->n; k++)
            if (m->at[k].parent == i && !m->at[k].left_out) {
                low = fmin(low, m->at[k].y);
                high = fmax(high, m->at[k].y);
            }
        x->left_out = isinf(low);
        x->x = i == 0 ? LAST_X : FIRST_X + (x->height - 1) * apart;
        x->y = (low + high) / 2;
    }
}

static void draw_line(struct svg *s, const struct merges *m, const struct part *x)
{
    const struct part *to = &m->at[x->parent];
    double weight = isinf(x->lse) ? 0 : exp(x->lse - to->lse), from = x->group >= 0 ? x->x : x->x + m->wide;
    char more[80], text[32];
    snprintf(more, sizeof more, "stroke=\"#444444\" stroke-width=\"%.2f\"", 0.6 + 6 * weight);
    svg_line(s, from, x->y, to->x, to->y, more);
    snprintf(text, sizeof text, "%.3g", weight);
    bool apart = to->x - from > svg_text_width(&weight_font, text) + 6;
    if (m->at[0].height > 1 && apart) /* with one step it is the share */
        svg_text_if_free(s, (from + to->x) / 2, (x->y + to->y) / 2 + 3, &weight_font, NULL, text);
}

/* With its name and LSE if there is room. */
static void draw_merge(struct svg *s, const struct merges *m, const struct part *x)
{
    char text[40];
    bool last = x == m->at;
    struct svg_box b = {x->x, x->y - BOX_HIGH / 2.0, last ? BOX_WIDE : m->wide, BOX_HIGH};
    svg_rect(s, b, "#FFFFFF", last ? "stroke=\"#000000\" stroke-width=\"2\"" : "stroke=\"#000000\"", NULL);
    svg_text_if_free(s, b.x + b.w / 2, x->y - 3, &box_font, &b, last ? "output" : "merge");
    snprintf(text, sizeof text, "LSE %.5g", x->lse);
    svg_text_if_free(s, b.x + b.w / 2, x->y + 12, &box_font, &b, text);
}

static double draw_parts(struct svg *s, struct merges *m, double y)
{
    double top = y;
    for (int64_t i = 0; i < m->n; i++)
        if (m->at[i].group >= 0 && !m->at[i].left_out) {
            draw_group(s, m, &m->at[i], y + ROW_HIGH / 2.0);
            y += ROW_HIGH;
        }
    place_merges(m);
    if (m->at[0].group < 0 && m->at[0].left_out) /* nothing is merged */
        return top;
    for (int64_t i = 1; i < m->n; i++)
        if (!m->at[i].left_out)
            draw_line(s, m, &m->at[i]);
    for (int64_t i = m->n - 1; i >= 0; i--)
        if (m->at[i].group < 0 && !m->at[i].left_out)
            draw_merge(s, m, &m->at[i]);
    return fmax(y, top + BOX_HIGH);
}

static char *words_of(const struct merges *m)
{
    const struct part *out = &m->at[0];
    char *text = xasprintf("Query %" PRId32 ", query head %" PRId32 ", on drawn values (%s): ",
                           m->p->nf->orig[m->query], m->head, dtype_name[m->values->heads.dtype]);
    if (m->parts == 0)
        xappend(&text, "it sees no token, so its O is 0 and its LSE -inf.");
    else if (out->group >= 0)
        xappend(&text, "group %" PRId64 " sees all that it sees, and writes its output. LSE is %.6g.",
                out->group, out->lse);
    else
        xappend(&text,
                "its softmax has %" PRId64
                " parts, each with an O and an LSE of its own. The bars are their weights in "
                "the output's O, e^(their LSE - %.6g). That is the output's LSE, the logarithm of the sum of "
                "e^(their "
                "LSE).",
                m->parts, out->lse);
    if (m->parts > MOST_PARTS)
        xappend(&text, " Not drawn: the %" PRId64 " parts with the least weight, together %.3g %%.",
                m->parts - MOST_PARTS, 100 * m->lost);
    return text;
}

void plan_print_merges_svg(FILE *out, const struct plan *p, const struct problem *values, int32_t query,
                           int32_t head)
{
    struct svg s = {0};
    struct merges m = {.p = p, .values = values, .head = head};
    while (p->nf->orig[m.query] != query)
        m.query++;
    find_writers(&m);
    add_part(&m, last_writer(&m), -1);
    leave_out(&m);
    char *words = words_of(&m),
         *title = xasprintf("%s: what is merged for query %" PRId32, p->strategy, query);
    svg_begin(&s);
    double y = svg_title(&s, title, p->strategy);
    y = svg_paragraph(&s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, words);
    y = draw_parts(&s, &m, y + 6);
    svg_end(&s, out, y + SVG_MARGIN, title, words);
    free(words);
    free(title);
    free(m.writer);
    free(m.at);
}
