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
#include "sim/strategies/tree_parts.h"

enum { CASCADE_TILE_N = 64 };

static struct tile cascade_tile(double mean_rows)
{
    return (struct tile){mean_rows <= 16 ? 16 : mean_rows <= 64 ? 64 : 128, CASCADE_TILE_N};
}

static struct plan *plan_cascade(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                                 const double *opt)
{
    (void)opt;
    struct plan *p = plan_new(nf, s->name);
    if (level_groups(p, nf, heads_gqa(&env->heads), cascade_tile) > 0)
        plan_merge_levels(p, "merge level");
    else
        plan_merge_flat(p, "merge level", true); /* no level to merge after, but outputs are owed */
    return p;
}

const struct strategy strategy_cascade = {
    .name = "cascade",
    .source = "FastTree 6.1",
    .about = "A group per node, a launch per level, merged level by level.",
    .plan = plan_cascade,
};
