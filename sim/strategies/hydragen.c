/*
 * hydragen.c - Hydragen: one attention over what all queries share, batched over the queries, one per query
 * over the rest, and a merge by LSE (Hydragen 3.1, 3.2, appendix B).
 *
 *   hydragen       the longest prefix that all queries share, then a suffix per query
 *   hydragen-tree  every node batched over the queries below it, level by level (Hydragen 3.3)
 *
 * The suffix cache is per sequence (appendix B: [batch, suffix_len, ...]), so below the prefix storage is
 * replicated; the hierarchical form stores each node once. DEVIATION: the inner kernels are libraries' (3.5:
 * flash-attn 2.3.6 for the prefix, a Triton kernel of xformers for suffixes) and have tiles and splits that
 * the paper does not give; here 64x128, whole. DEVIATION: which level merges when is not said for the tree;
 * all partials are merged once, at the end. DEVIATION: partial results of those libraries are in the model's
 * 16-bit type; here fp32, so that one error bound holds for all strategies. DEVIATION: a query that ends with
 * the prefix has no suffix; it takes no part in the second launch.
 */
#include "sim/strategies/tree_parts.h"

/* The same for all groups, however many rows they have. */
static struct tile hydragen_tile(double mean_rows)
{
    (void)mean_rows;
    return (struct tile){64, 128};
}

static struct plan *plan_hydragen(const struct nform *nf, const struct plan_env *env,
                                  const struct strategy *s, const double *opt)
{
    (void)env;
    (void)opt;
    struct plan *p = plan_new(nf, s->name);
    p->storage = STORAGE_REPLICATED_SUFFIX;
    prefix_then_rest(p, nf, hydragen_tile(0), "suffix");
    plan_merge_flat(p, "merge", true);
    return p;
}

static struct plan *plan_hydragen_tree(const struct nform *nf, const struct plan_env *env,
                                       const struct strategy *s, const double *opt)
{
    (void)opt;
    struct plan *p = plan_new(nf, s->name);
    level_groups(p, nf, heads_gqa(&env->heads), hydragen_tile);
    plan_merge_flat(p, "merge", true);
    return p;
}

const struct strategy strategy_hydragen = {
    .name = "hydragen",
    .source = "Hydragen 3.1-3.2",
    .about = "The shared prefix batched over all queries, a suffix per query, and a merge.",
    .applicable = has_common_prefix,
    .plan = plan_hydragen,
};
const struct strategy strategy_hydragen_tree = {
    .name = "hydragen-tree",
    .source = "Hydragen 3.3",
    .about = "Every node batched over the queries below it, a launch per level, and a merge.",
    .plan = plan_hydragen_tree,
};
