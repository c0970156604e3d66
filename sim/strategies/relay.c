/*
 * relay.c - RelayAttention: the single system prefix once for all queries, everything after it per query,
 * both by FlashAttention's kernel (PAT 8.2).
 *
 *   relay    below the prefix every query has a copy of its tokens
 *   relay++  PAT's extension: blocks that queries share below the prefix are stored once, so that reading
 * them again may hit the L2 cache; the reads are the same
 *
 * DEVIATION: the system prefix is the longest token sequence that all queries start with, whatever nodes it
 * is made of. DEVIATION: the second launch merges as it writes and keeps its own partial results on the chip.
 * PAT does not say how Relay merges; Relay's released code (vllm-ra, relay_fusion) stores the results of both
 * and has a kernel to merge them: here half of the partial results move, and a launch is saved.
 * DEVIATION: a query that ends with the prefix has nothing for the second launch; the first one writes its
 * output.
 */
#include "sim/strategies/tree_parts.h"

struct relay {
    enum storage storage;
};

static struct plan *plan_relay(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                               const double *opt)
{
    (void)env;
    (void)opt;
    const struct relay *c = s->config;
    struct plan *p = plan_new(nf, s->name);
    p->storage = c->storage;
    prefix_then_rest(p, nf, (struct tile){64, 128}, "rest");
    plan_merge_fused(p);
    return p;
}

const struct strategy strategy_relay = {
    .name = "relay",
    .source = "PAT 8.2",
    .about = "The system prefix batched over all queries, the rest per query with a fused merge.",
    .config = &(const struct relay){.storage = STORAGE_REPLICATED_SUFFIX},
    .applicable = has_common_prefix,
    .plan = plan_relay,
};
const struct strategy strategy_relay_pp = {
    .name = "relay++",
    .source = "PAT 8.2",
    .about = "relay with everything below the prefix stored once.",
    .config = &(const struct relay){.storage = STORAGE_SHARED},
    .applicable = has_common_prefix,
    .plan = plan_relay,
};
