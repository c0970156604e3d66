/*
 * tree_attention.c - the tree attention of speculative decoding: every query meets the whole tree, and a
 * causal mask takes away what it must not see.
 *
 * - tree-vanilla    one fused kernel, all queries x the whole tree, no split, dense mask (DeFT 3.3, Table 2)
 * - tree-medusa     the same by library GEMMs: QK, scale, mask, softmax and PV are kernels, scores and a
 *                   dense mask go through memory (DeFT 3.3, A.4, Table 12)
 * - tree-specinfer  grouped by query: each query reads the whole tree in equal chunks, with one mask bit per
 *                   token (DeFT remark 3.2, A.2, remark A.3)
 *
 * "The whole tree" is its live part: a dead node is not in memory any more. Queries that see nothing take no
 * part, unless `blind` is 1: then their masks hide all, as where a batch is padded, and all of their partials are empty.
 *
 * SpecInfer's bit mask is one 64-bit integer per query, for the tokens of the token tree; the sequence before
 * it is seen by all. So it applies while at most 64 tokens are not visible to every query. Its mask is priced
 * for all tokens as DeFT Table 12 does (l_n * N_tree / 64 words). DEVIATION: DeFT names Flash-Decoding as
 * SpecInfer's way of splitting and gives no tile; flash-decoding's 64x128 and its rule for the number of
 * chunks are used. A chunk that holds nothing for the query runs all the same and leaves an empty partial.
 */
#include "sim/strategies/tree_parts.h"

#include <stdlib.h>

/* The first option of all three. */
enum { OPT_BLIND };
#define BLIND_OPT                                                                                            \
    {                                                                                                        \
        "blind", 0, 0, 1, "1: queries that see nothing take part, wholly masked", NULL                       \
    }

static const struct strategy_opt dense_opts[] = {BLIND_OPT, {0}};

/* The queries that see nothing, which no node has. */
static void sel_blind(struct sel *s, const struct nform *nf)
{
    for (int32_t q = 0; q < nf->n_queries; q++)
        if (nf->at[q] < 0)
            sel_queries(s, q, q + 1);
}

struct tree_dense {
    bool unfused;
    int32_t tile_m, tile_n;
};

enum { MASK_BYTES = 1 << 28 }; /* of a plan, which has one for each query and node */

static bool dense_applicable(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                             const double *opt, char *why)
{
    (void)env;
    (void)s;
    (void)opt;
    int64_t nodes = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        nodes += node_live(nf, v);
    if (nodes * nf->n_queries > MASK_BYTES)
        return why_not(why, "%lld nodes x %d queries: its mask is too large for a plan (at most %d MiB)",
                       (long long)nodes, nf->n_queries, MASK_BYTES >> 20);
    return true;
}

static struct plan *plan_dense(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                               const double *opt)
{
    (void)env;
    const struct tree_dense *c = s->config;
    struct plan *p = plan_new(nf, s->name);
    p->unfused = c->unfused;
    struct group_spec g = {.mask = MASK_DENSE, .tile_m = c->tile_m, .tile_n = c->tile_n};
    g.launch = plan_launch(p, c->unfused ? "QK" : "attention", LAUNCH_SERIAL);
    if (c->unfused) {
        plan_launch(p, "scale", LAUNCH_SERIAL);
        plan_launch(p, "mask", LAUNCH_SERIAL);
        plan_launch(p, "softmax", LAUNCH_SERIAL);
        plan_launch(p, "PV", LAUNCH_SERIAL);
    }
    struct sel sel = {0};
    sel_live_tree(&sel, nf);
    if (opt[OPT_BLIND] != 0)
        sel_blind(&sel, nf);
    plan_group(p, &sel, &g);
    plan_merge_flat(p, "merge", true);
    sel_free(&sel);
    return p;
}

enum { OPT_CHUNK = OPT_BLIND + 1, OPT_RESIDENT };
enum { SPECINFER_BITS = 64, SPECINFER_TILE_M = 64, SPECINFER_TILE_N = 128 };

static const struct strategy_opt specinfer_opts[] = {
    BLIND_OPT,
    {"chunk", 0, 0, 1 << 30, "tokens per chunk; 0: FlashAttention's split heuristic", NULL},
    {"resident", 2, 1, 32, "CTAs that an SM holds at a time, as the heuristic assumes", NULL},
    {0},
};

static bool specinfer_applicable(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                                 const double *opt, char *why)
{
    (void)env;
    (void)s;
    (void)opt;
    int64_t *ctx = query_contexts(nf), hidden = 0;
    int32_t busy = 0;
    for (int32_t q = 0; q < nf->n_queries; q++)
        busy += ctx[q] > 0;
    free(ctx);
    for (int32_t v = 0; v < nf->n_nodes; v++)
        if (node_live(nf, v) && nform_seeing(nf, v) < busy)
            hidden += nf->len[v];
    if (hidden > SPECINFER_BITS)
        return why_not(why, "%lld tokens are not visible to every query (the mask of a query has %d bits)",
                       (long long)hidden, SPECINFER_BITS);
    return true;
}

static struct plan *plan_specinfer(const struct nform *nf, const struct plan_env *env,
                                   const struct strategy *s, const double *opt)
{
    struct plan *p = plan_new(nf, s->name);
    struct group_spec g = {.mask = MASK_QUERY_WORDS, .tile_m = SPECINFER_TILE_M, .tile_n = SPECINFER_TILE_N};
    g.launch = plan_launch(p, "attention", LAUNCH_SERIAL);
    struct sel tree = {0}, one = {0};
    sel_live_tree(&tree, nf);
    if (opt[OPT_BLIND] != 0)
        sel_blind(&tree, nf);
    int64_t chunk = (int64_t)opt[OPT_CHUNK];
    if (chunk == 0) {
        int64_t ctas = tree.nq * env->heads.h_kv * ceil_div(heads_gqa(&env->heads), g.tile_m);
        int64_t parts = split_parts(env, ctas, ceil_div(tree.n_kv, g.tile_n), (int64_t)opt[OPT_RESIDENT]);
        chunk = parts > 1 ? split_chunk(tree.n_kv, parts, g.tile_n) : max_i64(tree.n_kv, 1);
    }
    for (int64_t r = 0; r < tree.n_runs; r++)
        sel_run(&one, tree.run[r].node, tree.run[r].begin, tree.run[r].end);
    for (int64_t i = 0; i < tree.n_qr; i++)
        for (int32_t q = tree.qr[i].begin; q < tree.qr[i].end; q++) {
            one.n_qr = one.nq = 0; /* the runs are the same for all queries: only the query changes */
            sel_queries(&one, q, q + 1);
            group_pieces(p, &one, &g, chunk);
        }
    plan_merge_flat(p, "merge", tree.n_kv <= chunk);
    sel_free(&tree);
    sel_free(&one);
    return p;
}

const struct strategy strategy_tree_vanilla = {
    .name = "tree-vanilla",
    .superlinear = true,
    .source = "DeFT 3.3",
    .about = "All queries times the whole tree in one fused kernel, with a dense mask.",
    .opts = dense_opts,
    .applicable = dense_applicable,
    .config = &(const struct tree_dense){.tile_m = 64, .tile_n = 128},
    .plan = plan_dense,
};
const struct strategy strategy_tree_medusa = {
    .name = "tree-medusa",
    .superlinear = true,
    .source = "DeFT 3.3, A.4",
    .about = "All queries times the whole tree by GEMMs, with scores and a dense mask in memory.",
    .opts = dense_opts,
    .applicable = dense_applicable,
    .config = &(const struct tree_dense){.unfused = true},
    .plan = plan_dense,
};
const struct strategy strategy_tree_specinfer = {
    .name = "tree-specinfer",
    .superlinear = true,
    .source = "DeFT A.2, A.5",
    .about = "Each query times the whole tree in equal chunks, with one mask bit per token.",
    .opts = specinfer_opts,
    .applicable = specinfer_applicable,
    .plan = plan_specinfer,
};
