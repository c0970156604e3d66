#include "verify/replay/private_kv.h"

#include <stdlib.h>

enum { NONE = -1 };

struct lane {
    int64_t query;             /* whose it is, by name */
    bool taken;                /* by a query of this step */
    bool used;                 /* ever */
    struct trace_piece *piece; /* [n] what it holds, root first */
    int64_t n, cap;
};

struct private_kv {
    struct private_kv_spec spec;
    struct lane *lane;
    int32_t *lane_of; /* [queries of the step] */
    int64_t lane_of_cap, from_cap, to_cap;
    int64_t n, *from, *to;
    struct trace_piece *path; /* of a query */
    int64_t n_path, path_cap;
    int32_t *node; /* on that path, root first */
    int64_t n_nodes, node_cap;
};

void private_kv_fit(struct private_kv_spec *s, const struct tree *tree)
{
    int64_t *context = xcalloc((size_t)tree->n_queries, sizeof *context);
    tree_contexts(tree, context);
    for (int32_t q = 0; q < tree->n_queries; q++)
        s->pages = max_i64(s->pages, ceil_div(context[q], s->page_size));
    s->lanes = (int32_t)max_i64(s->lanes, tree->n_queries);
    free(context);
}

struct private_kv *private_kv_new(const struct private_kv_spec *spec)
{
    struct private_kv *c = xcalloc(1, sizeof *c);
    c->spec = *spec;
    c->lane = xcalloc((size_t)spec->lanes, sizeof *c->lane);
    return c;
}

void private_kv_free(struct private_kv *c)
{
    for (int32_t i = 0; c && i < c->spec.lanes; i++)
        free(c->lane[i].piece);
    if (c) {
        free(c->lane);
        free(c->lane_of);
        free(c->from);
        free(c->to);
        free(c->path);
        free(c->node);
    }
    free(c);
}

/* ---- a query's path ------------------------------------------------------------------------------------ */

static void find_path(struct private_kv *c, const struct tree *tree, const struct trace_parts *parts,
                      struct query q)
{
    c->n_path = 0;
    c->n_nodes = tree_path(tree->parent, q.node, NULL);
    c->node = xgrow(c->node, &c->node_cap, c->n_nodes, sizeof *c->node);
    tree_path(tree->parent, q.node, c->node);
    for (int64_t k = 0; k < c->n_nodes; k++) {
        int64_t left = k + 1 < c->n_nodes ? tree->len[c->node[k]] : q.upto;
        for (int32_t i = parts->piece0[c->node[k]]; i < parts->piece0[c->node[k] + 1] && left > 0; i++) {
            struct trace_piece piece = parts->piece[i];
            piece.tokens = min_i64(piece.tokens, left);
            left -= piece.tokens;
            c->path = xgrow(c->path, &c->path_cap, c->n_path + 1, sizeof *c->path);
            c->path[c->n_path++] = piece;
        }
    }
}

/* Tokens from the first on in which the path and what the lane holds agree. */
static int64_t in_common(const struct private_kv *c, const struct lane *lane)
{
    int64_t tokens = 0;
    for (int64_t k = 0; k < c->n_path && k < lane->n && c->path[k].name == lane->piece[k].name; k++) {
        tokens += min_i64(c->path[k].tokens, lane->piece[k].tokens);
        if (c->path[k].tokens != lane->piece[k].tokens)
            break;
    }
    return tokens;
}

/* ---- a step -------------------------------------------------------------------------------------------- */

static void keep_lanes(struct private_kv *c, const struct tree *tree, const struct trace_parts *parts)
{
    CK(tree->n_queries <= c->spec.lanes);
    c->lane_of = xgrow(c->lane_of, &c->lane_of_cap, tree->n_queries, sizeof *c->lane_of);
    for (int32_t i = 0; i < c->spec.lanes; i++)
        c->lane[i].taken = false;
    for (int32_t q = 0; q < tree->n_queries; q++) {
        c->lane_of[q] = NONE;
        for (int32_t i = 0; i < c->spec.lanes && c->lane_of[q] == NONE; i++)
            if (c->lane[i].used && !c->lane[i].taken && c->lane[i].query == parts->query[q])
                c->lane_of[q] = i;
        if (c->lane_of[q] != NONE)
            c->lane[c->lane_of[q]].taken = true;
    }
}

static int32_t best_lane(const struct private_kv *c)
{
    int32_t best = NONE;
    int64_t most = -1;
    for (int32_t i = 0; i < c->spec.lanes; i++) {
        int64_t tokens = c->lane[i].taken ? -1 : in_common(c, &c->lane[i]);
        if (tokens > most) {
            most = tokens;
            best = i;
        }
    }
    return best;
}

static int64_t lane_slot(const struct private_kv *c, int32_t lane, int64_t token)
{
    return (c->spec.first_page + lane * c->spec.pages) * c->spec.page_size + token;
}

/* Copies of the path's tokens begin .. end. */
static void add_copies(struct private_kv *c, const struct tree *tree, const int64_t *page_off,
                       const int32_t *page_table, int32_t lane, int64_t begin, int64_t end)
{
    int64_t size = c->spec.page_size, at = 0;
    c->from = xgrow(c->from, &c->from_cap, c->n + max_i64(0, end - begin), sizeof *c->from);
    c->to = xgrow(c->to, &c->to_cap, c->n + max_i64(0, end - begin), sizeof *c->to);
    for (int64_t k = 0; k < c->n_nodes; k++) {
        int32_t node = c->node[k];
        for (int64_t j = max_i64(0, begin - at); j < tree->len[node] && at + j < end; j++) {
            c->from[c->n] = page_table[page_off[node] + j / size] * size + j % size;
            c->to[c->n++] = lane_slot(c, lane, at + j);
        }
        at += tree->len[node];
    }
}

static void hold_path(struct private_kv *c, struct lane *lane, int64_t query)
{
    lane->piece = xgrow(lane->piece, &lane->cap, c->n_path, sizeof *lane->piece);
    for (int64_t k = 0; k < c->n_path; k++)
        lane->piece[k] = c->path[k];
    lane->n = c->n_path;
    lane->query = query;
    lane->taken = lane->used = true;
}

struct private_kv_step private_kv_advance(struct private_kv *c, const struct tree *tree,
                                          const struct trace_parts *parts, const int64_t *page_off,
                                          const int32_t *page_table)
{
    c->n = 0;
    keep_lanes(c, tree, parts);
    for (int32_t q = 0; q < tree->n_queries; q++) {
        int64_t tokens = 0;
        find_path(c, tree, parts, tree->query[q]);
        for (int64_t k = 0; k < c->n_path; k++)
            tokens += c->path[k].tokens;
        CK(tokens <= c->spec.pages * c->spec.page_size);
        if (c->lane_of[q] == NONE)
            c->lane_of[q] = best_lane(c);
        struct lane *lane = &c->lane[c->lane_of[q]];
        add_copies(c, tree, page_off, page_table, c->lane_of[q], in_common(c, lane), tokens - 1);
        hold_path(c, lane, parts->query[q]);
    }
    return (struct private_kv_step){.n = c->n, .from = c->from, .to = c->to};
}

/* ---- the tree that plans see --------------------------------------------------------------------------- */

struct tree *tree_apart(const struct tree *tree)
{
    struct tree *apart = tree_new(tree->n_queries, tree->n_queries);
    tree_contexts(tree, apart->len);
    for (int32_t q = 0; q < tree->n_queries; q++)
        apart->query[q] = (struct query){.node = q, .upto = apart->len[q]};
    return apart;
}

void private_kv_table(const struct private_kv *c, const struct tree *apart, int64_t *page_off,
                      int32_t **page_table, int64_t *cap)
{
    int64_t n = 0;
    page_off[0] = 0;
    for (int32_t q = 0; q < apart->n_nodes; q++) {
        int64_t pages = ceil_div(apart->len[q], c->spec.page_size);
        *page_table = xgrow(*page_table, cap, n + pages, sizeof **page_table);
        for (int64_t k = 0; k < pages; k++)
            (*page_table)[n++] = (int32_t)(c->spec.first_page + c->lane_of[q] * c->spec.pages + k);
        page_off[q + 1] = n;
    }
}
