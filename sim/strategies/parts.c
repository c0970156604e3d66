/* parts.c - orders of live nodes, the common prefix, cutting and the split rule; see parts.h. */
#include "sim/strategies/parts.h"
#include "sim/strategies/planners.h"

#include <math.h>
#include <stdlib.h>

/* Places are counted instead of walking down: two passes in id order, in which parents precede children. A walk would
 * need a stack, as the input decides how deep the tree is, and would jump about the child lists. */
int32_t *live_depth_first(const struct nform *nf, int32_t *n)
{
    int32_t *below = xcalloc((size_t)nf->n_nodes, sizeof *below); /* live nodes of the subtree */
    for (int32_t v = nf->n_nodes - 1; v >= 0; v--) {
        below[v] += node_live(nf, v);
        if (nf->parent[v] >= 0)
            below[nf->parent[v]] += below[v];
    }
    *n = 0;
    for (int32_t r = 0; r < nf->n_roots; r++)
        *n += below[nf->root[r]];
    int32_t *out = xcalloc((size_t)*n, sizeof *out), roots = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        int32_t *next = nf->parent[v] < 0 ? &roots : &below[nf->parent[v]]; /* where the next child starts */
        int32_t at = *next;
        *next += below[v];
        if (node_live(nf, v))
            out[at++] = v;
        below[v] = at; /* from here on: where v's next child starts */
    }
    free(below);
    return out;
}

/* Parents precede children, so one pass gives every path; walking up from each query would cost its depth. */
int64_t *query_contexts(const struct nform *nf)
{
    int64_t *path = xcalloc((size_t)nf->n_nodes, sizeof *path); /* tokens from the root to the node's end */
    for (int32_t v = 0; v < nf->n_nodes; v++)
        path[v] = nf->len[v] + (nf->parent[v] < 0 ? 0 : path[nf->parent[v]]);
    int64_t *out = xcalloc((size_t)nf->n_queries, sizeof *out);
    for (int32_t q = 0; q < nf->n_queries; q++)
        out[q] = nf->at[q] < 0 ? 0 : path[nf->at[q]];
    free(path);
    return out;
}

int64_t count_path_runs(const struct nform *nf)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        sum += nf->len[v] > 0 ? nf->q1[v] - nf->q0[v] : 0;
    return sum;
}

void sel_queries_below(struct sel *s, const struct nform *nf, int32_t v)
{
    int32_t done = s->n_qr > 0 ? s->qr[s->n_qr - 1].end : 0;
    int32_t begin = nf->q0[v] > done ? nf->q0[v] : done;
    if (begin < nf->q1[v])
        sel_queries(s, begin, nf->q1[v]);
}

void sel_live_tree(struct sel *s, const struct nform *nf)
{
    sel_clear(s);
    int32_t n;
    int32_t *node = live_depth_first(nf, &n);
    for (int32_t i = 0; i < n; i++) {
        sel_queries_below(s, nf, node[i]);
        sel_run(s, node[i], 0, nf->len[node[i]]);
    }
    free(node);
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
int32_t sel_common_prefix(struct sel *s, const struct nform *nf)
{
    sel_clear(s);
    if (nform_live_roots(nf) != 1)
        return -1;
    int32_t v = 0; /* the one first-level prefix precedes all other live nodes in topological order */
    while (!node_live(nf, v))
        v++;
    sel_queries(s, nf->q0[v], nf->q1[v]);
    int32_t last = v;
    for (; v >= 0; v = only_child(nf, v)) {
        sel_run(s, v, 0, nf->len[v]);
        last = v;
    }
    return last;
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
    return true;
}

int64_t group_pieces(struct plan *p, const struct sel *s, const struct group_spec *g, int64_t chunk)
{
    if (s->n_kv <= chunk)
        return plan_group(p, s, g);
    int64_t added = 0;
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
    int32_t *node = live_depth_first(nf, &n);
    for (int32_t i = 0; i < n; i++)
        levels = nf->depth[node[i]] >= levels ? nf->depth[node[i]] + 1 : levels;
    int64_t *nodes = xcalloc((size_t)levels, sizeof *nodes),
            *queries = xcalloc((size_t)levels, sizeof *queries);
    for (int32_t i = 0; i < n; i++) {
        nodes[nf->depth[node[i]]]++;
        queries[nf->depth[node[i]]] += nf->q1[node[i]] - nf->q0[node[i]];
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
        sel_queries(&sel, nf->q0[node[i]], nf->q1[node[i]]);
        sel_run(&sel, node[i], 0, nf->len[node[i]]);
        plan_group(p, &sel, &level[nf->depth[node[i]]]);
    }
    sel_free(&sel);
    free(level);
    free(queries);
    free(nodes);
    free(node);
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
