/* tree_parts.c - orders of live nodes, the common prefix, cutting and the split rule; see tree_parts.h. */
#include "sim/strategies/tree_parts.h"
#include "sim/strategies/edge_planners.h"

#include <math.h>
#include <stdlib.h>

/* Queries are numbered depth first, so nodes are depth first when sorted by their first query, and among those of one
 * first query by id. Counting does it, without a stack: the input decides how deep the tree is. */
struct live *live_depth_first(const struct nform *nf, int32_t *n)
{
    enum { SOON = 16 };
    int32_t *at = xcalloc((size_t)nf->n_queries + 1, sizeof *at); /* where nodes with that first query go */
    for (int32_t v = 0; v < nf->n_nodes; v++)
        if (node_live(nf, v))
            at[nf->q0[v] + 1]++;
    for (int32_t q = 0; q < nf->n_queries; q++)
        at[q + 1] += at[q];
    *n = at[nf->n_queries];
    struct live *out = xrealloc(NULL, (size_t)*n, sizeof *out);
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        if (v + SOON < nf->n_nodes)
            fetch(&out[at[nf->q0[v + SOON]]]);
        if (node_live(nf, v))
            out[at[nf->q0[v]]++] = (struct live){v, nf->depth[v], nf->q0[v], nf->q1[v], nf->len[v]};
    }
    free(at);
    return out;
}

struct paths paths_of(const struct nform *nf, int64_t above)
{
    struct paths w = {.at = (int32_t)above, .nf = nf};
    int32_t levels = 1;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        levels = nf->depth[v] >= levels ? nf->depth[v] + 1 : levels;
    w.live = live_depth_first(nf, &w.n);
    w.end = xrealloc(NULL, (size_t)levels, sizeof *w.end);
    w.sel.run = xgrow(NULL, &w.sel.cap_run, levels, sizeof *w.sel.run);
    return w;
}

const struct sel *paths_next(struct paths *w, int32_t q)
{
    struct sel *s = &w->sel;
    while (s->n_runs > 0 && w->end[s->n_runs - 1] <= q)
        s->n_kv -= s->run[--s->n_runs].end;
    for (; w->at < w->n && w->live[w->at].q0 <= q; w->at++) {
        const struct live *v = &w->live[w->at];
        if (v->q1 <= q)
            continue;
        w->end[s->n_runs] = v->q1;
        sel_run(s, v->node, 0, v->len);
    }
    s->n_qr = s->nq = 0;
    sel_queries(s, q, q + 1);
    if (!w->nf->since)
        return s;
    sel_clear(&w->seen);
    sel_queries(&w->seen, q, q + 1);
    for (int64_t r = 0; r < s->n_runs; r++)
        if (nform_in_window(w->nf, q, s->run[r].node))
            sel_run(&w->seen, s->run[r].node, s->run[r].begin, s->run[r].end);
    return &w->seen;
}

void paths_free(struct paths *w)
{
    free(w->live);
    free(w->end);
    sel_free(&w->sel);
    sel_free(&w->seen);
}

/* What a node adds begins with its first query and ends after its last. */
int64_t *query_contexts(const struct nform *nf)
{
    int64_t *out = xcalloc((size_t)nf->n_queries + 1, sizeof *out);
    for (int32_t q = 0; nf->since && q < nf->n_queries; q++)
        out[q] = nf->at[q] < 0 ? 0 : nform_context(nf, q);
    if (nf->since)
        return out;
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        out[nf->q0[v]] += nf->len[v];
        out[nf->q1[v]] -= nf->len[v];
    }
    for (int32_t q = 0; q < nf->n_queries; q++)
        out[q + 1] += out[q];
    return out;
}

int64_t count_path_runs(const struct nform *nf)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        sum += nf->len[v] > 0 ? nf->q1[v] - nf->q0[v] : 0;
    return sum;
}

void sel_queries_below(struct sel *s, const struct live *v)
{
    int32_t done = s->n_qr > 0 ? s->qr[s->n_qr - 1].end : 0;
    sel_queries(s, v->q0 > done ? v->q0 : done, v->q1);
}

void sel_live_tree(struct sel *s, const struct nform *nf)
{
    sel_clear(s);
    int32_t n;
    struct live *live = live_depth_first(nf, &n);
    for (const struct live *v = live; v < live + n; v++) {
        sel_queries_below(s, v);
        sel_run(s, v->node, 0, v->len);
    }
    free(live);
}

/* The child of v that holds all of v's queries, or -1. */
static int32_t only_child(const struct nform *nf, int32_t v)
{
    for (int32_t c = nf->child_ptr[v]; c < nf->child_ptr[v + 1]; c++) {
        int32_t u = nf->child[c];
        if (nf->q0[u] == nf->q0[v] && nf->q1[u] == nf->q1[v])
            return u;
    }
    return -1;
}

/* Down from the first-level prefix for as long as one child has all the queries. Empty nodes on the way add
 * no run but are passed. */
void sel_common_prefix(struct sel *s, const struct nform *nf)
{
    sel_clear(s);
    if (nform_live_roots(nf) != 1)
        return;
    int32_t v = 0; /* the one first-level prefix precedes all other live nodes in topological order */
    while (!node_live(nf, v))
        v++;
    sel_queries(s, nf->q0[v], nf->q1[v]);
    for (; v >= 0; v = only_child(nf, v))
        sel_run(s, v, 0, nf->len[v]);
}

bool has_common_prefix(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                       const double *opt, char *why)
{
    (void)env;
    (void)s;
    (void)opt;
    int32_t n = nform_live_roots(nf);
    if (n == 0)
        return why_not(why, "no query sees a token, so there is no prefix to share");
    if (n > 1)
        return why_not(
            why, "the queries start with %d different prefixes (one prefix that all share is needed)", n);
    struct sel prefix = {0};
    sel_common_prefix(&prefix, nf);
    int32_t seeing = nform_seeing(nf, prefix.run[0].node), all = (int32_t)prefix.nq;
    sel_free(&prefix);
    return seeing == all ||
           why_not(why, "%d of %d queries see the whole prefix; the windows of the others begin in it or behind it", seeing,
                   all);
}

void prefix_then_rest(struct plan *p, const struct nform *nf, struct tile tile, const char *rest)
{
    struct group_spec g = {.tile_m = tile.m, .tile_n = tile.n};
    struct sel prefix = {0};
    sel_common_prefix(&prefix, nf);
    CK(prefix.n_runs > 0);
    struct paths below = paths_of(nf, prefix.n_runs);
    plan_reserve(p, (int64_t)nf->n_queries + 1, count_path_runs(nf));
    g.launch = plan_launch(p, "prefix", LAUNCH_SERIAL);
    plan_group(p, &prefix, &g);
    for (int32_t q = prefix.qr[0].begin; q < prefix.qr[0].end; q++) {
        const struct sel *below_q = paths_next(&below, q);
        if (below_q->n_kv == 0)
            continue;
        if (g.launch == 0)
            g.launch = plan_launch(p, rest, LAUNCH_SERIAL);
        plan_group(p, below_q, &g);
    }
    sel_free(&prefix);
    paths_free(&below);
}

int64_t group_pieces(struct plan *p, const struct sel *s, const struct group_spec *g, int64_t chunk)
{
    if (s->n_kv <= chunk)
        return plan_group(p, s, g);
    int64_t added = 0;
    if (s->n_runs == 1) { /* nothing to walk along */
        struct group_spec piece = *g;
        for (int64_t at = 0; at < s->n_kv; at += chunk) {
            piece.kv_begin = at;
            piece.kv_end = min_i64(at + chunk, s->n_kv);
            added += plan_group(p, s, &piece);
        }
        return added;
    }
    struct pieces it = pieces_of(s, max_i64(s->nq, 1), chunk, false);
    while (pieces_next(&it))
        added += plan_group(p, &it.piece, g);
    pieces_free(&it);
    return added;
}

int32_t level_groups(struct plan *p, const struct nform *nf, int32_t gqa,
                     struct tile (*tile)(double mean_rows))
{
    int32_t n, levels = 0;
    struct live *live = live_depth_first(nf, &n);
    for (int32_t i = 0; i < n; i++)
        levels = live[i].depth >= levels ? live[i].depth + 1 : levels;
    int64_t *nodes = xcalloc((size_t)levels, sizeof *nodes),
            *queries = xcalloc((size_t)levels, sizeof *queries);
    for (int32_t i = 0; i < n; i++) {
        nodes[live[i].depth]++;
        queries[live[i].depth] += nform_seeing(nf, live[i].node);
    }
    struct group_spec *level = xcalloc((size_t)levels, sizeof *level);
    for (int32_t k = 0; k < levels; k++)
        if (nodes[k] > 0) {
            struct tile t = tile((double)(queries[k] * gqa) / (double)nodes[k]);
            level[k] = (struct group_spec){
                .tile_m = t.m, .tile_n = t.n, .launch = plan_launch(p, "level", LAUNCH_SERIAL)};
        }
    plan_reserve(p, n, n);
    struct sel sel = {0};
    for (int32_t i = 0; i < n; i++) {
        sel_clear(&sel);
        sel_queries(&sel, live[i].q0, live[i].q1);
        sel_run(&sel, live[i].node, 0, live[i].len);
        plan_group(p, &sel, &level[live[i].depth]);
    }
    sel_free(&sel);
    free(level);
    free(queries);
    free(nodes);
    free(live);
    return n;
}

/* How full the machine is, averaged over the waves that n CTAs need. */
static double wave_efficiency(int64_t n, int64_t slots)
{
    double waves = (double)n / (double)slots;
    return waves / ceil(waves);
}

/* Whether one part more than parts - 1 makes the parts any shorter. */
static bool shortens(int64_t blocks, int64_t parts)
{
    return parts == 1 || ceil_div(blocks, parts) < ceil_div(blocks, parts - 1);
}

int64_t split_parts(const struct plan_env *env, int64_t ctas, int64_t blocks, int64_t resident)
{
    const int64_t most = 128;        /* parts that its merge kernel takes */
    const double nearly_full = 0.8;  /* of the slots: splitting would gain little and add a merge */
    const double good_enough = 0.85; /* of the best efficiency: fewer parts are preferred */
    int64_t slots = env->machine->sms * resident;
    if (ctas == 0 || (double)ctas >= nearly_full * (double)slots)
        return 1;
    int64_t limit = min_i64(min_i64(most, slots), blocks);
    double best = 0;
    for (int64_t parts = 1; parts <= limit; parts++)
        if (shortens(blocks, parts))
            best = fmax(best, wave_efficiency(ctas * parts, slots));
    for (int64_t parts = 1; parts <= limit; parts++)
        if (shortens(blocks, parts) && wave_efficiency(ctas * parts, slots) >= good_enough * best)
            return parts;
    return 1;
}

int64_t split_chunk(int64_t tokens, int64_t parts, int32_t tile_n)
{
    return ceil_div(ceil_div(tokens, tile_n), parts) * tile_n;
}
