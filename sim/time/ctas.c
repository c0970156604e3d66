#include "sim/time/ctas.h"
#include "sim/time/tiles.h"

#include <math.h>
#include <stdlib.h>

enum {
    LIBRARY_TILE = 128,    /* rows and tokens of a library's tile of scores */
    LIBRARY_RESIDENT = 2,  /* its CTAs on an SM */
    MERGE_FLIGHT = 8192,   /* TILE_THREADS threads with four loads of 16 bytes each */
    BLOCK_TOKENS = 128,    /* least granularity of the L2 model */
    BLOCKS_MOST = 1 << 16, /* blocks besides one a node */
    CTAS_PER_SM_MOST = 32
};

int32_t grid_resident(const struct machine *mc, const struct group *g, const struct heads *heads,
                      double stages)
{
    if (g->tile_m == 0)
        return LIBRARY_RESIDENT;
    struct tile t = {g->tile_m, g->tile_n ? g->tile_n : LIBRARY_TILE};
    struct tile_code code = tile_code(t, heads->d, heads_elt_bytes(heads));
    double smem = (double)tile_smem(t, heads->d, heads_elt_bytes(heads)) +
                  (stages - 1) * t.n * heads->d * heads_kv_bytes(heads);
    return (int32_t)max_i64(1, tile_fit(mc, &code, (int64_t)smem, NULL));
}

/* ---- what the L2 holds -------------------------------------------------------------------------------- */

/* The part of a block of tokens that was read without a gap, and when, counted in bytes fetched and CTAs started. */
struct kept {
    int64_t begin, end;
    double fetched;
    int64_t cta, group;
};

struct cache {
    const struct nform *nf;
    int64_t *first; /* [n_nodes + 1] each node's first block */
    int64_t block;  /* tokens of a block */
    struct kept *kept;
    uint8_t *private; /* [n_nodes] every query has its copy; NULL: none has */
    double size, fetched;
    double token_bytes; /* of all KV heads */
    int64_t cta;        /* CTAs so far */
};

/* Nodes that all queries which see anything share are the first prefix. */
static uint8_t *private_nodes(const struct plan *p)
{
    const struct nform *nf = p->nf;
    if (p->storage == STORAGE_SHARED)
        return NULL;
    uint8_t *private = xcalloc((size_t)nf->n_nodes, 1);
    int64_t *context = xcalloc((size_t)nf->n_nodes, sizeof *context);
    int32_t seeing = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        context[i] = nf->len[i] + (nf->parent[i] < 0 ? 0 : context[nf->parent[i]]);
    for (int32_t q = 0; q < nf->n_queries; q++)
        seeing += nf->at[q] >= 0 && context[nf->at[q]] > 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
    private[i] = p->storage == STORAGE_REPLICATED || nf->q1[i] - nf->q0[i] < seeing;
    free(context);
    return private;
}

static struct cache cache_new(const struct plan *p, const struct heads *heads, const struct machine *mc)
{
    const struct nform *nf = p->nf;
    int64_t tokens = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        tokens += nf->len[i];
    struct cache c = {
        .nf = nf,
        .first = xcalloc((size_t)nf->n_nodes + 1, sizeof *c.first),
        .block = max_i64(BLOCK_TOKENS, tokens / BLOCKS_MOST),
        .private = private_nodes(p),
        .size = mc->l2_bytes,
        .token_bytes = (double)heads_token_bytes(heads),
    };
    for (int32_t i = 0; i < nf->n_nodes; i++)
        c.first[i + 1] = c.first[i] + ceil_div(nf->len[i], c.block);
    c.kept = xcalloc((size_t)c.first[nf->n_nodes], sizeof *c.kept);
    return c;
}

static void cache_free(struct cache *c)
{
    free(c->first);
    free(c->kept);
    free(c->private);
}

/* Reads tokens begin .. end, which lie in the block; returns how many of them hit. */
static int64_t read_block(const struct cache *c, struct kept *k, int64_t begin, int64_t end, int64_t group,
                          bool private, int64_t window)
{
    bool there = k->begin < k->end && (!private || k->group == group) &&
                 (c->cta - k->cta < window || c->fetched - k->fetched <= c->size);
    int64_t hit = there ? max_i64(0, min_i64(end, k->end) - max_i64(begin, k->begin)) : 0;
    bool touches = there && begin <= k->end && k->begin <= end;
    *k = (struct kept){.begin = touches ? min_i64(begin, k->begin) : begin,
                       .end = touches ? max_i64(end, k->end) : end,
                       .fetched = c->fetched,
                       .cta = c->cta,
                       .group = group};
    return hit;
}

/* Reads a run, by all heads of a Q tile, while `window` CTAs run; returns how many tokens miss. */
static int64_t read_run(struct cache *c, const struct run *run, int64_t group, int64_t window)
{
    int64_t missed = 0;
    bool private = c->private && c->private[run->node];
    for (int64_t b = run->begin / c->block; b * c->block < run->end; b++) {
        int64_t begin = max_i64(run->begin, b * c->block), end = min_i64(run->end, (b + 1) * c->block);
        int64_t hit = read_block(c, &c->kept[c->first[run->node] + b], begin, end, group, private, window);
        missed += end - begin - hit;
        c->fetched += (double)(end - begin - hit) * c->token_bytes;
    }
    return missed;
}

/* ---- CTAs --------------------------------------------------------------------------------------------- */

/* Indices sorted by launch, each launch's in order: launch l has order[first[l] .. first[l + 1]). */
struct by_launch {
    int64_t *order, *first;
};

struct build {
    const struct plan *p;
    const struct heads *heads;
    const struct machine *mc;
    const struct grid_kernel *kernel;
    struct grid *grid;
    struct cache cache;
    uint8_t *onchip;          /* [n_slots] never stored; NULL: all are */
    double slot_row, out_row; /* bytes of one row */
    double q_miss, part_miss; /* shares that miss the L2 */
    int32_t n_stages;         /* launches of an unfused plan; 0: fused */
    struct by_launch groups, merges;
};

static void add(struct build *b, struct grid_batch x)
{
    struct grid *g = b->grid;
    g->batch = xgrow(g->batch, &g->cap, g->n + 1, sizeof *g->batch);
    g->batch[g->n++] = x;
    g->ctas += x.n;
}

/* The share of `bytes` that does not fit the L2. */
static double miss_share(const struct build *b, double bytes)
{
    return bytes > b->mc->l2_bytes ? 1 - b->mc->l2_bytes / bytes : 0;
}

/* Rows r0 .. r1 of the group that go to memory. */
static int64_t stored_rows(const struct build *b, const struct group *g, int64_t r0, int64_t r1)
{
    if (!b->onchip || g->slot0 == PLAN_NO_SLOT)
        return r1 - r0;
    int64_t gqa = heads_gqa(b->heads), n = 0;
    for (int64_t row = r0; row < r1; row++)
        n += !b->onchip[g->slot0 + row / gqa];
    return n;
}

/* Tokens of one KV head that a Q tile reads, and those of them that miss the L2. */
struct reading {
    double tokens, missed;
};

/* The group's tokens for its queries q0 .. q1, while `window` CTAs run. */
static struct reading read_group(struct build *b, int64_t group, int64_t q0, int64_t q1, int64_t window)
{
    const struct plan *p = b->p;
    const struct group *g = &p->group[group];
    struct reading x = {0, 0};
    bool all = g->mask == MASK_NONE || b->kernel->unseen == 1;
    for (int64_t r = g->run0; r < g->run1; r++) {
        double share = all || plan_any_sees(p, g, q0, q1, r - g->run0) ? 1 : b->kernel->unseen;
        if (share == 0)
            continue;
        x.tokens += share * (double)(p->run[r].end - p->run[r].begin);
        x.missed += share * (double)read_run(&b->cache, &p->run[r], group, window);
    }
    return x;
}

static void add_group(struct build *b, int64_t group)
{
    const struct group *g = &b->p->group[group];
    const struct heads *heads = b->heads;
    int64_t gqa = heads_gqa(heads), rows = g->nq * gqa;
    int64_t m = g->tile_m ? g->tile_m : rows, n = g->tile_n ? g->tile_n : g->n_kv;
    double row = (double)heads->d * heads_elt_bytes(heads), kv_row = (double)heads->d * heads_kv_bytes(heads),
           token = (double)heads_token_bytes(heads) / heads->h_kv;
    struct grid_batch x = {
        .flight = (b->kernel->stages - 1) * (double)(g->tile_n ? g->tile_n : LIBRARY_TILE) * kv_row,
        .n = heads->h_kv,
        .group = group,
        .merge = -1,
        .launch = g->launch,
        .resident = grid_resident(b->mc, g, heads, b->kernel->stages),
    };
    int64_t slots = (int64_t)b->mc->sms * x.resident;
    int64_t window = (double)slots * x.flight <= b->mc->l2_bytes ? slots : 0;
    for (int64_t r0 = 0; r0 < rows; r0 += m, x.tile++) {
        int64_t r1 = min_i64(r0 + m, rows), q0 = r0 / gqa, q1 = (r1 - 1) / gqa + 1;
        struct reading kv = read_group(b, group, q0, q1, window);
        double q = (double)(r1 - r0) * row;
        double mask = (double)plan_mask_bytes(g, q1 - q0) * (kv.tokens / (double)g->n_kv);
        double written =
            (double)stored_rows(b, g, r0, r1) * (g->slot0 == PLAN_NO_SLOT ? b->out_row : b->slot_row);
        x.ops = (double)m * ceil(kv.tokens / (double)n) * (double)n * 2 * (heads->d + heads_d_v(heads));
        x.l2 = kv.tokens * token + q + mask + written;
        x.dram = kv.missed * token + q * b->q_miss + mask + written;
        add(b, x);
        b->cache.cta += x.n;
    }
}

/* Scores are written by every stage but the last and read by every stage but the first. */
static void add_stage(struct build *b, int64_t group, int32_t stage)
{
    const struct group *g = &b->p->group[group];
    const struct heads *heads = b->heads;
    int64_t rows = (int64_t)g->nq * heads_gqa(heads);
    int64_t tiles = ceil_div(rows, LIBRARY_TILE) * ceil_div(g->n_kv, LIBRARY_TILE);
    bool first = stage == 0, last = stage == b->n_stages - 1, product = first || last;
    double scores = (double)rows * (double)g->n_kv * heads_elt_bytes(heads),
           row = (double)heads->d * heads_elt_bytes(heads), kv_row = (double)heads->d * heads_kv_bytes(heads);
    double all_scores = scores * heads->h_kv;
    double kv = product ? (double)g->n_kv * kv_row : 0, q = first ? (double)rows * row : 0;
    double mask = stage == 2 && !last && g->mask != MASK_NONE ? (double)plan_mask_bytes(g, g->nq) : 0;
    double written = last ? (double)rows * (g->slot0 == PLAN_NO_SLOT ? b->out_row : b->slot_row) : scores;
    double read = first ? 0 : scores;
    struct grid_batch x = {
        .l2 = (kv + q + mask + read + written) / (double)tiles,
        .dram = (kv + q * b->q_miss + mask + read * miss_share(b, all_scores) + written) / (double)tiles,
        .ops = product ? (double)rows * (double)g->n_kv * 2 * heads->d / (double)tiles : 0,
        .flight = (b->kernel->stages - 1) * LIBRARY_TILE * kv_row,
        .n = tiles * heads->h_kv,
        .group = group,
        .merge = -1,
        .launch = stage,
        .resident = LIBRARY_RESIDENT,
    };
    add(b, x);
}

static void add_merge(struct build *b, int64_t merge)
{
    const struct merge_step *s = &b->p->merge[merge];
    double gqa = heads_gqa(b->heads);
    double read = gqa * b->slot_row * (double)(s->in1 - s->in0 - (s->onchip != PLAN_NO_SLOT));
    double written = gqa * (s->out == PLAN_NO_SLOT ? b->out_row : b->slot_row);
    int64_t threads = b->mc->threads_per_sm / TILE_THREADS;
    struct grid_batch x = {
        .l2 = read + written,
        .dram = read * b->part_miss + written,
        .flight = MERGE_FLIGHT,
        .n = b->heads->h_kv,
        .group = -1,
        .merge = merge,
        .launch = s->launch,
        .resident = (int32_t)max_i64(1, min_i64(threads, b->mc->ctas_per_sm)),
    };
    add(b, x);
}

/* ---- the grid ----------------------------------------------------------------------------------------- */

static struct by_launch sort_by_launch(const int32_t *launch, int64_t n, int32_t n_launches)
{
    struct by_launch s = {xcalloc((size_t)n, sizeof *s.order),
                          xcalloc((size_t)n_launches + 2, sizeof *s.first)};
    for (int64_t i = 0; i < n; i++)
        s.first[launch[i] + 2]++;
    for (int32_t l = 0; l < n_launches; l++)
        s.first[l + 2] += s.first[l + 1];
    for (int64_t i = 0; i < n; i++)
        s.order[s.first[launch[i] + 1]++] = i;
    return s;
}

static void sort_launches(struct build *b)
{
    const struct plan *p = b->p;
    int32_t *launch = xcalloc((size_t)max_i64(p->n_groups, p->n_merges), sizeof *launch);
    for (int64_t i = 0; i < p->n_groups; i++)
        launch[i] = p->group[i].launch;
    b->groups = sort_by_launch(launch, p->n_groups, p->n_launches);
    for (int64_t i = 0; i < p->n_merges; i++)
        launch[i] = p->merge[i].launch;
    b->merges = sort_by_launch(launch, p->n_merges, p->n_launches);
    free(launch);
}

static uint8_t *onchip_slots(const struct plan *p)
{
    uint8_t *onchip = NULL;
    for (int64_t i = 0; i < p->n_merges; i++)
        if (p->merge[i].onchip != PLAN_NO_SLOT) {
            if (!onchip)
                onchip = xcalloc((size_t)p->n_slots, 1);
            onchip[p->merge[i].onchip] = 1;
        }
    return onchip;
}

static void build_start(struct build *b)
{
    const struct plan *p = b->p;
    const struct heads *heads = b->heads;
    bool narrow = p->slot_o == SLOT_O_F16 && heads_float_bytes(heads) == 4;
    b->slot_row = (double)heads_d_v(heads) * (narrow ? 2 : heads_float_bytes(heads)) +
                  heads_float_bytes(heads) * (p->slot_weight == SLOT_MAX_SUM ? 2 : 1);
    b->out_row = (double)heads_d_v(heads) * heads_elt_bytes(heads) + heads_float_bytes(heads);
    double q_row = (double)heads->h_q * heads->d * heads_elt_bytes(heads), queries = 0;
    bool masked = false;
    for (int64_t i = 0; i < p->n_groups; i++) {
        queries += p->group[i].nq;
        masked |= p->group[i].mask != MASK_NONE;
    }
    bool fits = (double)p->nf->n_queries * q_row <= b->mc->l2_bytes;
    b->q_miss = fits && queries > 0 ? fmin(1, (double)p->nf->n_queries / queries) : 1;
    b->part_miss = miss_share(b, (double)p->n_slots * heads->h_q * b->slot_row);
    b->n_stages = p->unfused ? 4 + masked : 0;
    b->onchip = onchip_slots(p);
    sort_launches(b);
}

static void build_free(struct build *b)
{
    cache_free(&b->cache);
    free(b->onchip);
    free(b->groups.order);
    free(b->groups.first);
    free(b->merges.order);
    free(b->merges.first);
}

struct grid grid_of(const struct plan *p, const struct heads *heads, const struct machine *mc,
                    const struct grid_kernel *kernel)
{
    struct grid grid = {.first = xcalloc((size_t)p->n_launches + 1, sizeof *grid.first)};
    struct build b = {
        .p = p, .heads = heads, .mc = mc, .kernel = kernel, .grid = &grid, .cache = cache_new(p, heads, mc)};
    build_start(&b);
    CK(b.n_stages <= p->n_launches || p->n_groups == 0);
    for (int32_t l = 0; l < p->n_launches; l++) {
        if (p->launch[l].order == LAUNCH_SERIAL) /* all that ran before has ended */
            b.cache.cta += (int64_t)mc->sms * CTAS_PER_SM_MOST;
        if (l < b.n_stages)
            for (int64_t i = 0; i < p->n_groups; i++)
                add_stage(&b, i, l);
        for (int64_t i = b.groups.first[l]; l >= b.n_stages && i < b.groups.first[l + 1]; i++)
            add_group(&b, b.groups.order[i]);
        for (int64_t i = b.merges.first[l]; i < b.merges.first[l + 1]; i++)
            add_merge(&b, b.merges.order[i]);
        grid.first[l + 1] = grid.n;
    }
    build_free(&b);
    return grid;
}

void grid_free(struct grid *g)
{
    free(g->batch);
    free(g->first);
}
