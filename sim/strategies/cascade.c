/*
 * cascade.c - FlashInfer's multi-level cascade attention: a group per node, a launch per level of the tree,
 * and after each level but a query's first a merge of what the query has so far with the level's partial
 * (FastTree 6.1).
 *
 * FlashInfer picks the Q tile of a launch from the average number of packed rows (queries x query heads of
 * a KV head) of its requests: 16, 64 or 128 rows. The KV tile has 64 tokens.
 * DEVIATION: FlashInfer also splits long KV inside a launch, by the grid; the papers that measure the cascade
 * do not say how, and nodes stay whole here. DEVIATION: a level is a depth of the normal form, which cuts
 * nodes where a query ends inside them.
 */
#include "sim/strategies/parts.h"

#include <stdlib.h>

enum { CASCADE_TILE_N = 64 };

/* Rows of the Q tile for groups of `rows` rows on average. */
static int32_t cascade_tile_m(double rows)
{
    return rows <= 16 ? 16 : rows <= 64 ? 64 : 128;
}

static struct plan *plan_cascade(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                                 const double *opt)
{
    (void)opt;
    struct plan *p = plan_new(nf, s->name);
    int32_t n, levels;
    int64_t *nodes, *queries = level_queries(nf, &levels, &nodes);
    struct group_spec *level = xcalloc((size_t)levels, sizeof *level);
    for (int32_t k = 0; k < levels; k++)
        if (nodes[k] > 0)
            level[k] = (struct group_spec){
                .tile_m = cascade_tile_m((double)(queries[k] * env_gqa(env)) / (double)nodes[k]),
                .tile_n = CASCADE_TILE_N,
                .launch = plan_launch(p, "level", LAUNCH_SERIAL),
            };
    /* Depth first, whatever the launch: a query's partials then stand together. */
    int32_t *node = live_depth_first(nf, &n);
    plan_reserve(p, n, n);
    struct sel sel = {0};
    for (int32_t i = 0; i < n; i++) {
        sel_clear(&sel);
        sel_queries(&sel, nf->q0[node[i]], nf->q1[node[i]]);
        sel_run(&sel, node[i], 0, nf->len[node[i]]);
        plan_group(p, &sel, &level[nf->depth[node[i]]]);
    }
    if (n > 0)
        plan_merge_levels(p, "merge level");
    else
        plan_merge_flat(p, "merge level", true); /* no level to merge after, but outputs are owed */
    sel_free(&sel);
    free(node);
    free(level);
    free(nodes);
    free(queries);
    return p;
}

const struct strategy strategy_cascade = {
    .name = "cascade",
    .source = "FastTree 6.1",
    .about = "A group per node, a launch per level, merged level by level.",
    .plan = plan_cascade,
};
