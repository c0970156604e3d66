/*
 * query_centric.c - every query reads its own path; nothing that queries share is read once for all.
 *
 * - naive            attention as a framework writes it: four kernels, scores in memory, a copy of the path
 *                    per query (DeFT Table 12, first row)
 * - flash-attention  one fused kernel, one CTA row per query, whole path (DeFT Table 2; tile 64x128 from
 *                    PAT 8.2)
 * - flash-decoding   paths cut into equal chunks so that few long queries fill the machine, then a merge
 *                    (DeFT 3.1); a copy of the path per query
 * - flashinfer       paths cut into chunks of one length, the shortest with which all CTAs are resident at
 *                    once (PAT 8.2: balanced by dynamic partitioning, tile 16x128)
 * - radix-attention  flash-decoding on shared, paged storage: the same reads (DeFT remark A.4)
 *
 * Chunk lengths are the released systems' rules told anew, because the papers only say that one is chosen:
 * split_parts() for flash-decoding, grid_chunk() below for flashinfer.
 * DEVIATION: FlashInfer searches in pages; a planner here does not know the page size and searches in tokens.
 * DEVIATION: DeFT's Radix Attention is a Triton kernel of SGLang with a split of its own; it gets
 * flash-decoding's, whose traffic the paper equates with it.
 */
#include "sim/strategies/tree_parts.h"

#include <stdlib.h>

enum split { SPLIT_NONE, SPLIT_EQUAL, SPLIT_GRID };

struct query_centric {
    enum split split;
    enum storage storage;
    bool unfused;
    int32_t tile_m, tile_n;
};

/* The options of all that split, in one order. */
enum { OPT_CHUNK, OPT_RESIDENT };

static const struct strategy_opt equal_opts[] = {
    {"chunk", 0, 0, 1 << 30, "tokens per chunk; 0: FlashAttention's split heuristic", NULL},
    {"resident", 2, 1, 32, "CTAs that an SM holds at a time, as the heuristic assumes", NULL},
    {0},
};
static const struct strategy_opt grid_opts[] = {
    {"chunk", 0, 0, 1 << 30, "tokens per chunk; 0: the shortest with which one wave holds all CTAs", NULL},
    {"resident", 2, 1, 32, "CTAs that an SM holds at a time", NULL},
    {0},
};

/* CTAs of one KV chunk of one query: one per KV head and Q tile. */
static int64_t ctas_per_chunk(const struct plan_env *env, const struct query_centric *c)
{
    return env->heads.h_kv * ceil_div(heads_gqa(&env->heads), c->tile_m);
}

static int64_t count_chunks(const int64_t *ctx, int32_t n, int64_t chunk)
{
    int64_t sum = 0;
    for (int32_t q = 0; q < n; q++)
        sum += ceil_div(ctx[q], chunk);
    return sum;
}

/* FlashInfer: binary search for the shortest chunk, at least one KV tile, with which all CTAs fit in one grid
 * of sms * resident. When even whole paths do not fit, paths stay whole. */
static int64_t grid_chunk(const struct plan_env *env, const struct query_centric *c, const int64_t *ctx,
                          int32_t n, int64_t longest, int64_t resident)
{
    int64_t room = env->machine->sms * resident / ctas_per_chunk(env, c);
    int64_t lo = c->tile_n, hi = max_i64(longest, c->tile_n);
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (count_chunks(ctx, n, mid) <= room)
            hi = mid;
        else
            lo = mid + 1;
    }
    return hi;
}

/* Tokens per chunk for every query into chunk[n]; returns whether any query has more than one. FlashAttention
 * takes the number of parts from the longest path and cuts each path into that many. */
static bool choose_chunks(const struct plan_env *env, const struct query_centric *c, const double *opt,
                          const int64_t *ctx, int32_t n, int64_t *chunk)
{
    int64_t longest = 0, n_busy = 0, one = 0, parts = 1;
    for (int32_t q = 0; q < n; q++) {
        longest = max_i64(longest, ctx[q]);
        n_busy += ctx[q] > 0;
    }
    if (c->split != SPLIT_NONE) {
        one = (int64_t)opt[OPT_CHUNK];
        int64_t resident = (int64_t)opt[OPT_RESIDENT];
        if (one == 0 && c->split == SPLIT_GRID)
            one = grid_chunk(env, c, ctx, n, longest, resident);
        else if (one == 0)
            parts = split_parts(env, n_busy * ctas_per_chunk(env, c), ceil_div(longest, c->tile_n), resident);
    }
    bool split = false;
    for (int32_t q = 0; q < n; q++) {
        chunk[q] = one > 0 ? one : parts > 1 ? split_chunk(ctx[q], parts, c->tile_n) : max_i64(ctx[q], 1);
        split |= ctx[q] > chunk[q];
    }
    return split;
}

static struct plan *plan_query_centric(const struct nform *nf, const struct plan_env *env,
                                       const struct strategy *s, const double *opt)
{
    const struct query_centric *c = s->config;
    struct plan *p = plan_new(nf, s->name);
    p->storage = c->storage;
    p->unfused = c->unfused;
    /* All groups of an unfused plan hang on its first launch; the executor runs every stage, and the others
     * are there to be counted and timed. */
    struct group_spec g = {.tile_m = c->tile_m, .tile_n = c->tile_n};
    g.launch = plan_launch(p, c->unfused ? "QK" : "attention", LAUNCH_SERIAL);
    if (c->unfused) {
        plan_launch(p, "scale", LAUNCH_SERIAL);
        plan_launch(p, "softmax", LAUNCH_SERIAL);
        plan_launch(p, "PV", LAUNCH_SERIAL);
    }
    int64_t *ctx = query_contexts(nf), *chunk = xcalloc((size_t)nf->n_queries, sizeof *chunk);
    bool split = choose_chunks(env, c, opt, ctx, nf->n_queries, chunk);
    struct paths paths = paths_of(nf, 0);
    plan_reserve(p, nf->n_queries, count_path_runs(nf));
    for (int32_t q = 0; q < nf->n_queries; q++)
        if (ctx[q] > 0)
            group_pieces(p, paths_next(&paths, q), &g, chunk[q]);
    /* FlashAttention's split kernel writes partials for all queries as soon as one is split; FlashInfer's
     * lets a query with a single chunk write its output. */
    plan_merge_flat(p, "merge", !split || c->split == SPLIT_GRID);
    if (split)
        plan_note(p, "%lld chunks", (long long)p->n_groups);
    paths_free(&paths);
    free(ctx);
    free(chunk);
    return p;
}

const struct strategy strategy_naive = {
    .name = "naive",
    .source = "DeFT Table 12",
    .about =
        "One query at a time, four kernels with scores in memory, every query with its own copy of its path.",
    .config =
        &(const struct query_centric){.split = SPLIT_NONE, .storage = STORAGE_REPLICATED, .unfused = true},
    .plan = plan_query_centric,
};
const struct strategy strategy_flash_attention = {
    .name = "flash-attention",
    .source = "DeFT Table 2, PAT 8.2",
    .about = "One fused kernel, one group per query over its whole path.",
    .config = &(const struct query_centric){.split = SPLIT_NONE, .tile_m = 64, .tile_n = 128},
    .plan = plan_query_centric,
};
const struct strategy strategy_flash_decoding = {
    .name = "flash-decoding",
    .source = "DeFT 3.1",
    .about = "Each query's path in equal chunks, enough of them to fill the machine, then a merge.",
    .opts = equal_opts,
    .config =
        &(const struct query_centric){
            .split = SPLIT_EQUAL, .storage = STORAGE_REPLICATED, .tile_m = 64, .tile_n = 128},
    .plan = plan_query_centric,
};
const struct strategy strategy_flashinfer = {
    .name = "flashinfer",
    .source = "PAT 8.2",
    .about = "Each query's path in chunks of one length, chosen so that one grid holds all CTAs.",
    .opts = grid_opts,
    .config = &(const struct query_centric){.split = SPLIT_GRID, .tile_m = 16, .tile_n = 128},
    .plan = plan_query_centric,
};
const struct strategy strategy_radix_attention = {
    .name = "radix-attention",
    .source = "DeFT A.4",
    .about = "flash-decoding on shared, paged storage.",
    .opts = equal_opts,
    .config = &(const struct query_centric){.split = SPLIT_EQUAL, .tile_m = 64, .tile_n = 128},
    .plan = plan_query_centric,
};
