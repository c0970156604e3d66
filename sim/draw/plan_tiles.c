/* plan_tiles.c - what each group computes: its rows and tokens, used or hidden by a mask, in tiles that may be larger. */
#include "sim/draw/plan_parts.h"
#include "sim/draw/raster.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_KINDS = 20, /* are drawn, those with the largest tiles */
    MOST_LINES =
        64, /* rows or columns that the inside of a box is cut into, fewer if it gets MOST_RECTS pieces */
    LEAST_LINES = 16,
    MOST_RECTS = LEAST_LINES * LEAST_LINES,
    WIDEST = 210,
    HIGHEST = 110,
    SMALLEST = 26,
    LINEAR = 8, /* sizes that differ more are drawn by their square root */
    GAP = 18,
    LABEL_HIGH = 13
};

static const struct svg_font head_font = {.size = 14, .bold = true}, text_font = {.size = 12},
                             name_font = {.size = 11, .bold = true}, size_font = {.size = 10};

/* Groups that compute the same: alike in sizes, and in what their masks hide. */
struct kind {
    int64_t first, alike;           /* group; how many */
    int64_t rows, tokens, m, n;     /* a tile is m x n */
    int64_t tile_rows, tile_tokens; /* of all its tiles */
    int64_t used, pairs;            /* in one KV head; pairs are rows x tokens */
    uint64_t hidden;                /* a hash of lengths of runs and of who sees them; 0: nothing is hidden */
    int32_t nq, gqa;
};

struct kinds {
    const struct plan *p;
    struct kind *at;
    int64_t n, drawn; /* the first `drawn` */
    bool coarse;
    struct kind
        rest; /* sums of the others: alike, used, pairs, and tile_rows the pairs that all of their tiles hold */
};

static int64_t held(const struct kind *k)
{
    return k->tile_rows * k->tile_tokens;
}

/* ---- kinds ---------------------------------------------------------------------------------------------- */

static int64_t used_pairs(const struct plan *p, const struct group *g, int32_t gqa)
{
    int64_t sum = 0;
    if (g->mask == MASK_NONE)
        return gqa * g->nq * g->n_kv;
    for (int32_t k = 0; k < g->nq; k++)
        for (int64_t r = 0; r < g->run1 - g->run0; r++)
            if (plan_visible(p, g, k, r))
                sum += p->run[g->run0 + r].end - p->run[g->run0 + r].begin;
    return gqa * sum;
}

/* FNV-1a; not 0. */
static uint64_t hash_of_mask(const struct plan *p, const struct group *g)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t r = 0; r < g->run1 - g->run0; r++) {
        h = (h ^ (uint64_t)(p->run[g->run0 + r].end - p->run[g->run0 + r].begin)) * UINT64_C(0x100000001b3);
        for (int32_t k = 0; k < g->nq; k++)
            h = (h ^ plan_visible(p, g, k, r)) * UINT64_C(0x100000001b3);
    }
    return h | 1;
}

static struct kind kind_of(const struct plan *p, int64_t gi, int32_t gqa)
{
    const struct group *g = &p->group[gi];
    struct kind k = {
        .first = gi, .alike = 1, .rows = (int64_t)g->nq * gqa, .tokens = g->n_kv, .nq = g->nq, .gqa = gqa};
    k.m = g->tile_m ? g->tile_m : k.rows;
    k.n = g->tile_n ? g->tile_n : k.tokens;
    k.tile_rows = ceil_div(k.rows, k.m) * k.m;
    k.tile_tokens = ceil_div(k.tokens, k.n) * k.n;
    k.used = used_pairs(p, g, gqa);
    k.pairs = k.rows * k.tokens;
    k.hidden = k.used < k.pairs ? hash_of_mask(p, g) : 0;
    return k;
}

/* Kinds by what makes them different. */
static int order(const struct kind *a, const struct kind *b)
{
    const int64_t x[] = {a->rows, a->tokens, a->m, a->n, a->used},
                  y[] = {b->rows, b->tokens, b->m, b->n, b->used};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return (a->hidden > b->hidden) - (a->hidden < b->hidden);
}

static double weight(const struct kind *k)
{
    return (double)held(k) * (double)k->alike;
}

static int by_weight(const void *pa, const void *pb)
{
    const struct kind *a = pa, *b = pb;
    double x = weight(a), y = weight(b);
    return x != y ? (x > y ? -1 : 1) : (a->first > b->first) - (a->first < b->first);
}

static int by_group(const void *pa, const void *pb)
{
    const struct kind *a = pa, *b = pb;
    return (a->first > b->first) - (a->first < b->first);
}

static int by_kind(const void *pa, const void *pb)
{
    int x = order(pa, pb);
    return x ? x : by_group(pa, pb);
}

static struct kinds find_kinds(const struct plan *p, int32_t gqa)
{
    struct kinds k = {.p = p, .at = xcalloc((size_t)p->n_groups, sizeof *k.at)};
    for (int64_t i = 0; i < p->n_groups; i++)
        k.at[i] = kind_of(p, i, gqa);
    qsort(k.at, (size_t)p->n_groups, sizeof *k.at, by_kind);
    for (int64_t i = 0; i < p->n_groups; i++)
        if (k.n > 0 && order(&k.at[k.n - 1], &k.at[i]) == 0)
            k.at[k.n - 1].alike++;
        else
            k.at[k.n++] = k.at[i];
    k.drawn = min_i64(k.n, MOST_KINDS);
    if (k.n > MOST_KINDS)
        qsort(k.at, (size_t)k.n, sizeof *k.at, by_weight);
    for (int64_t i = k.drawn; i < k.n; i++) {
        k.rest.alike += k.at[i].alike;
        k.rest.used += k.at[i].used * k.at[i].alike;
        k.rest.pairs += k.at[i].pairs * k.at[i].alike;
        k.rest.tile_rows += held(&k.at[i]) * k.at[i].alike;
    }
    qsort(k.at, (size_t)k.drawn, sizeof *k.at, by_group);
    return k;
}

/* ---- one box -------------------------------------------------------------------------------------------- */

struct scale {
    double most;
    double pixels;
    bool root;
};

static struct scale scale_of(const struct kinds *k, bool rows)
{
    double most = 0, least = INFINITY;
    for (int64_t i = 0; i < k->drawn; i++) {
        double x = (double)(rows ? k->at[i].tile_rows : k->at[i].tile_tokens);
        most = fmax(most, x);
        least = fmin(least, x);
    }
    return (struct scale){most, rows ? HIGHEST : WIDEST, most > LINEAR * least};
}

static double scaled(const struct scale *s, int64_t x)
{
    double share = (double)x / s->most;
    return fmax(SMALLEST, s->pixels * (s->root ? sqrt(share) : share));
}

/* Grid lines of a box: ends of runs, or every query's rows; even ones where these are more than `most`. */
static int64_t token_lines(const struct plan *p, const struct group *g, int64_t most, double *x)
{
    int64_t n = 1;
    x[0] = 0;
    if (g->run1 - g->run0 > most)
        return raster_even(x, most, (double)g->n_kv) - 1;
    for (int64_t r = g->run0; r < g->run1; r++, n++)
        x[n] = x[n - 1] + (double)(p->run[r].end - p->run[r].begin);
    return n - 1;
}

static int64_t row_lines(const struct kind *k, int64_t most, double *y)
{
    if (k->nq > most)
        return raster_even(y, most, (double)k->rows) - 1;
    for (int32_t i = 0; i <= k->nq; i++)
        y[i] = (double)i * k->gqa;
    return k->nq;
}

static void add_pairs(struct raster *r, const struct plan *p, const struct kind *kind, bool hidden)
{
    const struct group *g = &p->group[kind->first];
    double gqa = kind->gqa;
    for (int32_t k = 0; k < g->nq; k++) {
        double at = 0;
        for (int64_t i = g->run0; i < g->run1; i++) {
            double len = (double)(p->run[i].end - p->run[i].begin);
            if (plan_visible(p, g, k, i - g->run0) != hidden)
                raster_add(r, hidden, at, at + len, k * gqa, (k + 1) * gqa);
            at += len;
        }
    }
}

static void draw_pairs(struct svg *s, const struct svg_box *b, const struct kind *k,
                       const struct raster_rect *c, const struct raster *r)
{
    double sx = b->w / (double)k->tile_tokens, sy = b->h / (double)k->tile_rows;
    double wide = sx * (r->x[c->c1] - r->x[c->c0]), high = sy * (r->y[c->r1] - r->y[c->r0]), seen = 4;
    struct svg_box in = {b->x + sx * r->x[c->c0], b->y + sy * r->y[c->r0], fmax(wide, c->owner ? 0 : seen),
                         fmax(high, c->owner ? 0 : seen)};
    in.x = fmin(in.x, b->x + b->w - in.w);
    in.y = fmin(in.y, b->y + b->h - in.h);
    char more[120];
    snprintf(more, sizeof more, "class=\"%s\" data-pairs=\"%.0f\" data-alike=\"%" PRId64 "\"",
             c->owner ? "hidden" : "used", c->sum, k->alike);
    svg_rect(s, in, c->owner ? SVG_HIDDEN : svg_colour(k->first), more, NULL);
}

/* Grid lines of a box, and what is between them. */
struct inside {
    double x[MOST_LINES + 1], y[MOST_LINES + 1];
    struct raster r;
    struct raster_rect *rect;
    int64_t n;
    bool coarse;
};

/* Where a mask hides pairs, each query and each run apart, if these are not too many. */
static void find_inside(struct inside *in, const struct plan *p, const struct kind *k)
{
    const struct group *g = &p->group[k->first];
    for (int64_t most = k->used == k->pairs ? 1 : MOST_LINES;; most /= 2) {
        int64_t cols = token_lines(p, g, most, in->x), rows = row_lines(k, most, in->y);
        in->r = raster_new((int32_t)cols, in->x, (int32_t)rows, in->y);
        if (most == 1) {
            raster_add(&in->r, 0, 0, (double)k->tokens, 0, (double)k->rows);
        } else {
            add_pairs(&in->r, p, k, false);
            add_pairs(&in->r, p, k, true);
            in->coarse = k->nq > most || g->run1 - g->run0 > most;
        }
        in->rect = raster_rects(&in->r, &in->n);
        if (in->n <= MOST_RECTS || most <= LEAST_LINES)
            return;
        free(in->rect);
        raster_free(&in->r);
    }
}

/* Is it drawn as it is? */
static bool draw_inside(struct svg *s, const struct svg_box *b, const struct plan *p, const struct kind *k)
{
    struct inside in = {.coarse = false};
    find_inside(&in, p, k);
    for (int64_t i = 0; i < in.n; i++)
        draw_pairs(s, b, k, &in.rect[i], &in.r);
    free(in.rect);
    raster_free(&in.r);
    return !in.coarse;
}

/* Edges of tiles, where they are not too close. */
static void draw_edges(struct svg *s, const struct svg_box *b, const struct kind *k)
{
    double sx = b->w * (double)k->n / (double)k->tile_tokens, sy = b->h * (double)k->m / (double)k->tile_rows;
    static const char line[] = "stroke=\"#000000\" stroke-width=\"0.6\" stroke-dasharray=\"2 2\"";
    for (double x = sx; sx >= 5 && x < b->w - 1; x += sx)
        svg_line(s, b->x + x, b->y, b->x + x, b->y + b->h, line);
    for (double y = sy; sy >= 5 && y < b->h - 1; y += sy)
        svg_line(s, b->x, b->y + y, b->x + b->w, b->y + y, line);
    svg_rect(s, *b, "none", "stroke=\"#000000\"", NULL);
}

enum { LABELS = 3 };

/* The lines below a box; the caller frees each. */
static void label_texts(const struct kind *k, char *text[LABELS])
{
    int64_t down = k->tile_rows / k->m, across = k->tile_tokens / k->n;
    text[0] = k->alike > 1 ? xasprintf("g%" PRId64 " and %" PRId64 " alike", k->first, k->alike - 1)
                           : xasprintf("g%" PRId64, k->first);
    text[1] = xasprintf("%" PRId64 " x %" PRId64 " of %" PRId64 " x %" PRId64, k->rows, k->tokens,
                        k->tile_rows, k->tile_tokens);
    text[2] = down * across > 1 ? xasprintf("%" PRId64 " x %" PRId64 " tiles of %" PRId64 " x %" PRId64, down,
                                            across, k->m, k->n)
                                : xstrdup("");
}

static const struct svg_font *label_font(int i)
{
    return i == 0 ? &name_font : &size_font;
}

static double labels_width(char *const text[LABELS])
{
    double w = 0;
    for (int i = 0; i < LABELS; i++)
        w = fmax(w, svg_text_width(label_font(i), text[i]));
    return w;
}

/* Is it drawn as it is? */
static bool draw_kind(struct svg *s, const struct svg_box *b, const struct plan *p, const struct kind *k,
                      char *const text[LABELS])
{
    char more[120];
    char *told = xasprintf("group %" PRId64 ": %s %s", k->first, text[1], text[2]);
    snprintf(more, sizeof more, "class=\"padding\" data-pairs=\"%" PRId64 "\" data-alike=\"%" PRId64 "\"",
             held(k) - k->pairs, k->alike);
    svg_rect(s, *b, SVG_PADDING, more, told);
    bool fine = draw_inside(s, b, p, k);
    draw_edges(s, b, k);
    for (int i = 0; i < LABELS; i++)
        svg_text(s, b->x, b->y + b->h + LABEL_HIGH * (i + 1), label_font(i), text[i]);
    free(told);
    return fine;
}

/* ---- the part --------------------------------------------------------------------------------------------- */

/* Boxes side by side, as many as there is room for. */
static double draw_kinds(struct svg *s, double y, struct kinds *k)
{
    struct scale across = scale_of(k, false), down = scale_of(k, true);
    double x = SVG_MARGIN, high = 0;
    for (int64_t i = 0; i < k->drawn; i++) {
        char *text[LABELS];
        label_texts(&k->at[i], text);
        struct svg_box b = {x, y, scaled(&across, k->at[i].tile_tokens), scaled(&down, k->at[i].tile_rows)};
        double wide = fmax(b.w, labels_width(text));
        if (x > SVG_MARGIN && x + wide > SVG_WIDTH - SVG_MARGIN) {
            y += high + LABELS * LABEL_HIGH + GAP;
            b.x = SVG_MARGIN;
            b.y = y;
            high = 0;
        }
        k->coarse |= !draw_kind(s, &b, k->p, &k->at[i], text);
        high = fmax(high, b.h);
        x = b.x + wide + GAP;
        for (int l = 0; l < LABELS; l++)
            free(text[l]);
    }
    return y + high + LABELS * LABEL_HIGH + GAP;
}

static double draw_key(struct svg *s, double y)
{
    static const char *const name[] = {"computed and used", "computed, hidden by the mask",
                                       "padding of the tile"};
    double x = SVG_MARGIN;
    for (int i = 0; i < 3; i++) {
        svg_rect(s, (struct svg_box){x, y - 11, 22, 14},
                 i == 0   ? svg_colour(0)
                 : i == 1 ? SVG_HIDDEN
                          : SVG_PADDING,
                 "stroke=\"#000000\" stroke-width=\"0.6\"", NULL);
        svg_text(s, x + 28, y, &text_font, name[i]);
        x += 28 + svg_text_width(&text_font, name[i]) + 24;
    }
    return y + 14;
}

/* Of all pairs that the tiles hold: "70 % used, 10 % hidden by masks, 20 % padding". */
static char *shares(const struct kinds *k)
{
    double used = (double)k->rest.used, pairs = (double)k->rest.pairs, all = (double)k->rest.tile_rows;
    for (int64_t i = 0; i < k->drawn; i++) {
        used += (double)k->at[i].used * (double)k->at[i].alike;
        pairs += (double)k->at[i].pairs * (double)k->at[i].alike;
        all += weight(&k->at[i]);
    }
    if (all == 0)
        return xstrdup("There is nothing to compute.");
    return xasprintf(
        "Of all pairs that tiles compute, %.1f %% are used, %.1f %% hidden by masks, %.1f %% padding.",
        100 * used / all, 100 * (pairs - used) / all, 100 * (1 - pairs / all));
}

static double say_what_is_drawn(struct svg *s, double y, const struct kinds *k, const struct heads *heads)
{
    bool root = k->drawn > 0 && (scale_of(k, false).root || scale_of(k, true).root);
    char *share = shares(k);
    char *text = xasprintf(
        "Rows x tokens, of those that the group's tiles hold; once a KV head, of which there %s %" PRId32
        ". A row is a query and a query head; %" PRId32 " of these share%s a KV head.%s %s",
        heads->h_kv == 1 ? "is" : "are", heads->h_kv, heads_gqa(heads), heads_gqa(heads) == 1 ? "s" : "",
        root ? " Sides that differ much are drawn by their square root, none too small to see." : "", share);
    y = svg_paragraph(s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, text);
    free(text);
    free(share);
    return y;
}

static double say_what_is_not(struct svg *s, double y, const struct kinds *k)
{
    char *text = xstrdup(k->coarse ? "Boxes of very many pieces are drawn coarsely." : "");
    if (k->drawn < k->n)
        xappend(&text,
                "%sNot drawn: %" PRId64 " groups of %" PRId64
                " smaller kinds. In one KV head their tiles compute %" PRId64 " pairs that are used, %" PRId64
                " that are hidden, %" PRId64 " of padding.",
                k->coarse ? " " : "", k->rest.alike, k->n - k->drawn, k->rest.used,
                k->rest.pairs - k->rest.used, k->rest.tile_rows - k->rest.pairs);
    y = svg_paragraph(s, SVG_MARGIN, y, SVG_WIDTH - 2 * SVG_MARGIN, &text_font, text);
    free(text);
    return y;
}

double plan_draw_tiles(struct svg *s, double y, const struct plan *p, const struct heads *heads)
{
    struct kinds k = find_kinds(p, heads_gqa(heads));
    svg_text(s, SVG_MARGIN, y, &head_font, "What each group computes");
    y = say_what_is_drawn(s, y + 18, &k, heads);
    y = draw_key(s, y + 4);
    y = draw_kinds(s, y, &k);
    y = say_what_is_not(s, y, &k);
    free(k.at);
    return y;
}
