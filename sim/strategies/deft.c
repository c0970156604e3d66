/*
 * deft.c - DeFT: groups made from the KV side, so that shared tokens are read once (DeFT 3.3,
 * algorithms 1-4).
 *
 * - deft-node        a group per node, with all queries below it (algorithms 1 and 2), tile 32x16
 * - deft-node-chunk  the same, nodes cut every 128 tokens
 * - deft-flatten     the tree's tokens depth first, children by id, cut every 128 tokens wherever that falls; a
 *                    block's queries are all that see any of it, and a mask of bits tells who sees which node
 *                    (algorithms 3 and 4), tile 32x128, or 32xB for blocks of B < 128 tokens
 *
 * All of them write partials and reduce in a second kernel, also where a query has only one (figure 9).
 *
 * - rule=paper     mask: one 64-bit integer per node of the block (algorithm 3), hence at most 64 queries a group
 * - rule=artifact  mask: one 64-bit integer per token, and at most 32 queries a group, one thread block each
 *
 * The release counts a block's KV once however many groups read it; a ledger counts it once per group.
 * DEVIATION: the paper does not say what becomes of more than 64 queries on a block; they make further
 * groups, each of which reads the whole block, as the release does at 32. DEVIATION: the kernels run a thread
 * block per query head; a group here runs once per KV head with the query heads that share it as rows, so
 * under GQA its Q tile of 32 rows holds 32 / g queries.
 */
#include "sim/strategies/tree_parts.h"
#include "sim/time/tiles.h"

#include <stdlib.h>

enum { DEFT_BLOCK = 128 };

struct deft_node {
    bool cut;
};

static const struct strategy_opt chunk_opts[] = {
    {"block", DEFT_BLOCK, 1, 1 << 30, "tokens at which a node is cut", NULL},
    {0},
};

static struct plan *plan_deft_node(const struct nform *nf, const struct plan_env *env,
                                   const struct strategy *s, const double *opt)
{
    (void)env;
    const struct deft_node *c = s->config;
    struct plan *p = plan_new(nf, s->name);
    struct group_spec g = {.tile_m = 32, .tile_n = 16};
    g.launch = plan_launch(p, "attention", LAUNCH_SERIAL);
    int32_t n;
    struct live *live = live_depth_first(nf, &n);
    plan_reserve(p, n, n);
    struct sel sel = {0};
    for (const struct live *v = live; v < live + n; v++) {
        sel_clear(&sel);
        sel_queries(&sel, v->q0, v->q1);
        sel_run(&sel, v->node, 0, v->len);
        group_pieces(p, &sel, &g, c->cut ? (int64_t)opt[0] : sel.n_kv);
    }
    plan_merge_flat(p, "reduce", false);
    sel_free(&sel);
    free(live);
    return p;
}

enum { OPT_RULE, OPT_BLOCK };

static const struct strategy_opt flatten_opts[] = {
    {"rule", RULE_PAPER, 0, 1,
     "paper: 64 queries a group, a mask word per node; artifact: 32, a word per token", rule_names},
    {"block", DEFT_BLOCK, 1, 1 << 30, "tokens of a block", NULL},
    {0},
};

/* The groups of one block: its queries in parts of at most `most`, each with all of the block's tokens. */
static void add_block(struct plan *p, struct sel *block, struct group_spec g, int64_t most)
{
    for (int64_t q = 0; q < block->nq; q += most) {
        g.q_begin = q;
        g.q_end = min_i64(q + most, block->nq);
        plan_group(p, block, &g);
    }
    sel_clear(block);
}

static struct plan *plan_deft_flatten(const struct nform *nf, const struct plan_env *env,
                                      const struct strategy *s, const double *opt)
{
    (void)env;
    enum { SOON = 12 };
    bool artifact = opt[OPT_RULE] == RULE_ARTIFACT;
    int64_t size = (int64_t)opt[OPT_BLOCK], most = artifact ? 32 : 64, n_blocks = 0;
    struct plan *p = plan_new(nf, s->name);
    struct group_spec g = {.tile_m = 32, .tile_n = 128};
    while (g.tile_n > TILE_MIN && g.tile_n / 2 >= size) /* no tile is half empty */
        g.tile_n /= 2;
    g.mask = artifact ? MASK_TOKEN_WORDS : MASK_RUN_WORDS; /* read also where it hides nothing */
    g.launch = plan_launch(p, "attention", LAUNCH_SERIAL);
    int32_t n;
    struct live *live = live_depth_first(nf, &n);
    plan_reserve(p, n, n);
    struct sel block = {0};
    for (const struct live *v = live; v < live + n; v++) {
        int32_t soon = v[live + n - v > SOON ? SOON : 0].node; /* its mask will ask for these */
        fetch(&nf->q0[soon]);
        fetch(&nf->q1[soon]);
        for (int64_t begin = 0; begin < v->len;) {
            int64_t end = min_i64(v->len, begin + size - block.n_kv);
            sel_queries_below(&block, v);
            sel_run(&block, v->node, begin, end);
            begin = end;
            if (block.n_kv == size || (v == live + n - 1 && end == v->len)) {
                add_block(p, &block, g, most);
                n_blocks++;
            }
        }
    }
    plan_merge_flat(p, "reduce", false);
    plan_note(p, "%lld blocks", (long long)n_blocks);
    sel_free(&block);
    free(live);
    return p;
}

const struct strategy strategy_deft_node = {
    .name = "deft-node",
    .source = "DeFT algorithms 1-2",
    .about = "A group per node with all queries below it, then a reduction.",
    .config = &(const struct deft_node){.cut = false},
    .plan = plan_deft_node,
};
const struct strategy strategy_deft_node_chunk = {
    .name = "deft-node-chunk",
    .source = "DeFT 3.3",
    .about = "deft-node with nodes cut every 128 tokens.",
    .opts = chunk_opts,
    .config = &(const struct deft_node){.cut = true},
    .plan = plan_deft_node,
};
const struct strategy strategy_deft_flatten = {
    .name = "deft-flatten",
    .source = "DeFT algorithms 3-4",
    .about =
        "The tree's tokens depth first in blocks of 128 across nodes, with a bit mask, then a reduction.",
    .opts = flatten_opts,
    .plan = plan_deft_flatten,
};
