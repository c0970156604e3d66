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
    struct group_spec g = {.tile_n = CASCADE_TILE_N};
    int32_t n;
    int32_t *node = live_by_level(nf, &n);
    plan_reserve(p, n, n);
    struct sel sel = {0};
    for (int32_t begin = 0, end; begin < n; begin = end) {
        int64_t rows = 0;
        for (end = begin; end < n && nf->depth[node[end]] == nf->depth[node[begin]]; end++)
            rows += (int64_t)(nf->q1[node[end]] - nf->q0[node[end]]) * env_gqa(env);
        g.tile_m = cascade_tile_m((double)rows / (end - begin));
        g.launch = plan_launch(p, "level", LAUNCH_SERIAL);
        for (int32_t i = begin; i < end; i++) {
            sel_clear(&sel);
            sel_queries(&sel, nf->q0[node[i]], nf->q1[node[i]]);
            sel_run(&sel, node[i], 0, nf->len[node[i]]);
            plan_group(p, &sel, &g);
        }
    }
    if (n > 0)
        plan_merge_levels(p, "merge level");
    else
        plan_merge_flat(p, "merge level", true); /* no level to merge after, but outputs are owed */
    sel_free(&sel);
    free(node);
    return p;
}

const struct strategy strategy_cascade = {
    .name = "cascade",
    .source = "FastTree 6.1",
    .about = "A group per node, a launch per level, merged level by level.",
    .plan = plan_cascade,
};
