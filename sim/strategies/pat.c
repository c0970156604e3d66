/*
 * pat.c - PAT (Yi et al.: prefix-aware attention with a resource-efficient multi-tile kernel).
 *
 * TreeHeuristic decides for each tree of the forest which children are packed together with their parent's
 * tokens (algorithm 1); packs hold at most max_rows rows; every pack gets a tile of its own from those that
 * the machine runs well (section 5.2, sim/time/tiles.h); packs of one tile are a launch and launches run
 * concurrently (section 6); long packs are split (section 6); a last kernel merges (section 7).
 *
 * Paper (rule=paper) against released code (rule=artifact); ../shared/golden pins down the packing of both:
 *
 *                    paper                                 artifact
 *   keep c apart     if 4 s_c < l_u, l_u being the         if the CTAs lost by cutting packs at m queries
 *   from u           tokens of u alone                     cost over 4 s_c, with l_u and what u inherited
 *   split            packs longer than the mean, into      packs longer than 5 x the mean of those of more
 *                    equal parts not longer than it        than 256 tokens, into ceil(length / mean) parts; then,
 *                                                          while there are fewer packs than a number by KV heads,
 *                                                          the longest into halves; lengths in KV blocks
 *   tile             sim/time/tiles.h                           16, 32 or 64 rows; 16, 32, 64 or 128 tokens by
 *                                                          length below 32, 64, 128; 32 at least for 64 rows
 *   partials         O not normalised, maximum and sum;    O normalised and LSE; if no query is in two packs,
 *                    always merged                         they are the outputs and there is no merge
 *
 * Both decide top down, so that inherited lengths are known, where the paper recurses.
 *
 * The release has its scheduler twice; where the two differ, this is the one in Python, whose packs the recorded
 * timings of ../shared/peers ran (its notes count them): in C++ packs count for the mean from 128 tokens on, and
 * one of 8 blocks is still halved.
 *
 * DEVIATION: a pack that inherited tokens has as many blocks as its length makes; the released code adds up those
 *            of its nodes. Of packs equally long, the one that the plan has first is halved, not the one that a
 *            walk over the tree finds first.
 * DEVIATION: queries at inner nodes, which no block table has, stay with their node and count in its size.
 * DEVIATION: the paper leaves the size of a pack to the largest tile; 64 rows is the largest that the
 *            released code compiles and the default here. A query with more heads is a pack by itself.
 */
#include "sim/strategies/edge_planners.h"

#include <math.h>
#include <stdlib.h>

enum { OPT_RULE, OPT_MAX_ROWS, OPT_SPLIT, OPT_BLOCK, N_OPTS };

static const struct strategy_opt opts[] = {
    [OPT_RULE] = {"rule", RULE_PAPER, 0, 1, "paper, or artifact: as the released scheduler decides",
                  rule_names},
    [OPT_MAX_ROWS] = {"max_rows", 64, 1, 4096, "rows of the largest pack", NULL},
    [OPT_SPLIT] = {"split", 1, 0, 1, "1: split long packs", NULL},
    [OPT_BLOCK] = {"block", 32, 1, 4096,
                   "with rule=artifact: tokens of a KV block, at whose borders packs split", NULL},
    [N_OPTS] = {0},
};

/* What tells the ablations of section 8.5 from PAT. */
struct config {
    enum { PACK_PROFIT, PACK_COMPUTE, PACK_NODES } pack;
    struct tile fixed; /* m = 0: selected */
    bool serial;
};

/* ---- packing ---------------------------------------------------------------------------------------- */

/* The released test: queries left at u (all), those of the child that see u (part), and all of the child's (size), per pack; tokens
 * with what u inherited, and those of them that the child's queries see. With no window, part is size and both lengths are one.
 * The release first asks if the child takes all that is left; it follows, as nothing is lost then. */
static bool merge_tile_aware(int32_t all, int32_t part, int32_t size, int32_t pack, int64_t len, int64_t seen)
{
    int64_t saved = (ceil_div(all, pack) - ceil_div(all - part, pack)) * len - ceil_div(size, pack) * seen;
    return saved + INT64_C(4) * part >= 0;
}

void pat_edges(const struct nform *nf, int32_t rule, int32_t pack, uint8_t *joined)
{
    int32_t *left = xcalloc((size_t)nf->n_nodes, sizeof *left); /* queries that no child took so far */
    int64_t *acc = xcalloc((size_t)nf->n_nodes, sizeof *acc);   /* tokens with what was inherited */
    for (int32_t c = 0; c < nf->n_nodes; c++) {                 /* parents and elder siblings have decided */
        int32_t u = nf->parent[c], size = nform_seeing(nf, c), part = nform_seeing_above(nf, c);
        joined[c] = 0;
        left[c] = size;
        acc[c] = nf->len[c];
        if (u < 0 || part == 0)
            continue;
        int64_t inherited = min_i64(acc[u], nform_reach(nf, c));
        if (rule == RULE_ARTIFACT ? merge_tile_aware(left[u], part, size, pack, acc[u], inherited)
                                  : INT64_C(4) * part >= min_i64(nf->len[u], nform_reach(nf, c))) {
            joined[c] = 1;
            acc[c] += inherited;
            left[u] -= part;
        }
    }
    free(left);
    free(acc);
}

static void decide_edges(const struct nform *nf, const struct plan_env *env, const struct config *cfg,
                         int32_t rule, int32_t pack, uint8_t *joined)
{
    struct fasttree_cost cost = fasttree_default_cost(rule, heads_gqa(&env->heads));
    if (cfg->pack == PACK_PROFIT)
        pat_edges(nf, rule, pack, joined);
    else if (cfg->pack == PACK_COMPUTE)
        fasttree_edges(nf, &cost, joined);
}

/* ---- splitting -------------------------------------------------------------------------------------- */

/* The mean of the packs that count for it. */
struct splitter {
    const struct packing *how;
    int64_t packs, length; /* of all together: tokens, or (released rule) KV blocks */
};

/* As released. */
enum {
    COUNTS_ABOVE = 256, /* tokens */
    SPLIT_FACTOR = 5,   /* means */
    HALVED_ABOVE = 8,   /* blocks */
    MOST_PARTIALS = 32  /* of a query, from which on nothing is halved */
};

/* Packs below which the longest are halved. */
static int64_t packs_wanted(int32_t h_kv)
{
    return h_kv <= 4 ? 54 : h_kv <= 8 ? 27 : h_kv <= 16 ? 13 : h_kv <= 32 ? 6 : 4;
}

static struct splitter splitter_of(const struct nform *nf, const int32_t *nq, const int64_t *len,
                                   const struct packing *how)
{
    struct splitter s = {.how = how};
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        if (nq[v] == 0 || len[v] == 0 || (how->rule == RULE_ARTIFACT && len[v] <= COUNTS_ABOVE))
            continue;
        s.packs += ceil_div(nq[v], how->pack);
        s.length +=
            ceil_div(nq[v], how->pack) * (how->rule == RULE_ARTIFACT ? ceil_div(len[v], how->block) : len[v]);
    }
    return s;
}

/* Longest part that a pack of len tokens is cut into; len if it stays whole. */
static int64_t longest_part(const struct splitter *s, int64_t len)
{
    bool released = s->how->rule == RULE_ARTIFACT;
    int64_t length = released ? ceil_div(len, s->how->block) : len;
    double times = (double)length * (double)s->packs / (double)s->length; /* the mean */
    if (!s->how->split || s->packs == 0 || times <= (released ? SPLIT_FACTOR : 1))
        return len;
    /* the paper's mean in whole tokens: at most the mean */
    return released ? ceil_div(length, (int64_t)ceil(times)) * s->how->block : s->length / s->packs;
}

/* ---- tiles and launches ----------------------------------------------------------------------------- */

/* The released selector. */
static struct tile released_tile(int64_t rows, int64_t n_kv)
{
    struct tile t = {.m = rows > 32 ? 64 : rows > 16 ? 32 : 16};
    t.n = n_kv < 32 ? 16 : n_kv < 64 ? 32 : n_kv < 128 ? 64 : 128;
    if (t.m == 64 && t.n < 32)
        t.n = 32;
    return t;
}

static const char *const tile_name[4][4] = {
    {"16x16", "16x32", "16x64", "16x128"},
    {"32x16", "32x32", "32x64", "32x128"},
    {"64x16", "64x32", "64x64", "64x128"},
    {"128x16", "128x32", "128x64", "128x128"},
};

/* 16, 32, 64, 128 to 0 .. 3. */
static int tile_index(int32_t side)
{
    CK(side >= TILE_MIN && side <= TILE_MAX);
    return __builtin_ctz((unsigned)side / TILE_MIN);
}

/* Everything the writing of packs needs. */
struct packer {
    struct plan *plan;
    const struct packing *how;
    struct tile_set tiles;
    int32_t gqa;
    int32_t launch[4][4]; /* of each tile, -1 before its first pack */
};

static void add_pack(struct packer *k, const struct sel *s)
{
    int64_t rows = s->nq * k->gqa;
    struct tile t = k->how->fixed.m                 ? k->how->fixed
                    : k->how->rule == RULE_ARTIFACT ? released_tile(rows, s->n_kv)
                                                    : tiles_select(&k->tiles, rows, s->n_kv);
    int a = tile_index(t.m), b = tile_index(t.n);
    if (k->launch[a][b] < 0) {
        bool first = k->plan->n_launches == 0;
        k->launch[a][b] = plan_launch(k->plan, tile_name[a][b],
                                      first || k->how->serial ? LAUNCH_SERIAL : LAUNCH_CONCURRENT);
    }
    struct group_spec g = {.tile_m = t.m, .tile_n = t.n, .launch = k->launch[a][b]};
    plan_group(k->plan, s, &g);
}

/* Is any query in two groups? */
static bool needs_merge(const struct plan *p, const struct nform *nf)
{
    uint8_t *seen = xcalloc((size_t)nf->n_queries, 1);
    bool twice = false;
    for (int64_t i = 0; i < p->n_qr && !twice; i++)
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end && !twice; q++) {
            twice = seen[q] != 0;
            seen[q] = 1;
        }
    free(seen);
    return twice;
}

/* ---- plan ------------------------------------------------------------------------------------------- */

/* The packs of a plan that has few of them. */
struct few {
    struct sel pack[64]; /* packs_wanted() and one more fit */
    int64_t n;
    int32_t *partials; /* of each query */
    int32_t most;
};

static void keep_pack(struct few *f, const struct sel *s)
{
    CK(f->n < (int64_t)(sizeof f->pack / sizeof *f->pack));
    struct sel *to = &f->pack[f->n++];
    *to = (struct sel){0};
    for (int64_t i = 0; i < s->n_qr; i++) {
        sel_queries(to, s->qr[i].begin, s->qr[i].end);
        for (int32_t q = s->qr[i].begin; q < s->qr[i].end; q++)
            if (++f->partials[q] > f->most)
                f->most = f->partials[q];
    }
    for (int64_t i = 0; i < s->n_runs; i++)
        sel_run(to, s->run[i].node, s->run[i].begin, s->run[i].end);
}

/* The longest pack gives way to its halves, the first one longer by a block if need be; false if none is long. */
static bool halve_longest(struct few *f, int64_t block)
{
    int64_t longest = 0;
    for (int64_t i = 1; i < f->n; i++)
        if (ceil_div(f->pack[i].n_kv, block) > ceil_div(f->pack[longest].n_kv, block))
            longest = i;
    struct sel whole = f->pack[longest];
    int64_t blocks = ceil_div(whole.n_kv, block);
    if (blocks <= HALVED_ABOVE)
        return false;
    for (int64_t i = longest + 1; i < f->n; i++)
        f->pack[i - 1] = f->pack[i];
    f->n--;
    for (int64_t i = 0; i < whole.n_qr; i++)
        for (int32_t q = whole.qr[i].begin; q < whole.qr[i].end; q++)
            f->partials[q]--;
    struct pieces it = pieces_of(&whole, whole.nq, ceil_div(blocks, 2) * block, false);
    while (pieces_next(&it))
        keep_pack(f, &it.piece);
    pieces_free(&it);
    sel_free(&whole);
    return true;
}

static void write_packs(struct packer *k, const struct nform *nf, const uint8_t *joined, int64_t wanted)
{
    int32_t *nq = xcalloc((size_t)nf->n_nodes, sizeof *nq);
    int64_t *len = xcalloc((size_t)nf->n_nodes, sizeof *len);
    vnode_sizes(nf, joined, nq, len);
    struct splitter sp = splitter_of(nf, nq, len, k->how);
    struct sel sel = {0};
    struct pieces it = {0};
    struct few few = {0};
    int64_t packs = 0;
    for (int32_t v = 0; v < nf->n_nodes && packs < wanted; v++)
        if (nq[v] > 0 && len[v] > 0)
            packs += ceil_div(nq[v], k->how->pack) * ceil_div(len[v], longest_part(&sp, len[v]));
    if (packs < wanted)
        few.partials = xcalloc((size_t)nf->n_queries, sizeof *few.partials);
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        if (nq[v] == 0 || len[v] == 0)
            continue;
        vtree_select(nf, joined, v, &sel);
        CK(sel.nq == nq[v] && sel.n_kv == len[v]);
        pieces_reset(&it, &sel, k->how->pack, longest_part(&sp, len[v]), k->how->rule == RULE_PAPER);
        while (pieces_next(&it))
            if (packs < wanted)
                keep_pack(&few, &it.piece);
            else
                add_pack(k, &it.piece);
    }
    while (few.n > 0 && few.n < wanted && few.most < MOST_PARTIALS && halve_longest(&few, k->how->block))
        ;
    for (int64_t i = 0; i < few.n; i++) {
        add_pack(k, &few.pack[i]);
        sel_free(&few.pack[i]);
    }
    pieces_free(&it);
    sel_free(&sel);
    free(few.partials);
    free(nq);
    free(len);
}

struct plan *packs_plan(const struct nform *nf, const struct plan_env *env, const char *name,
                        const struct packing *how, const uint8_t *joined)
{
    struct packer k = {
        .plan = plan_new(nf, name),
        .how = how,
        .tiles = tiles_for(env->machine, env->heads.d, heads_elt_bytes(&env->heads)),
        .gqa = heads_gqa(&env->heads),
        .launch = {{-1, -1, -1, -1}, {-1, -1, -1, -1}, {-1, -1, -1, -1}, {-1, -1, -1, -1}},
    };
    plan_reserve(k.plan, nf->n_nodes, nf->n_nodes);
    write_packs(&k, nf, joined, how->split && how->rule == RULE_ARTIFACT ? packs_wanted(env->heads.h_kv) : 0);
    int64_t merges = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        merges += joined[v];

    bool selects = !how->fixed.m && how->rule == RULE_PAPER;
    plan_note(k.plan, "%lld packs of at most %d queries, %lld nodes merged with their parents%s%s",
              (long long)k.plan->n_groups, how->pack, (long long)merges, selects && k.tiles.note ? "; " : "",
              selects && k.tiles.note ? k.tiles.note : "");
    k.plan->slot_o = SLOT_O_F32;
    k.plan->slot_weight = how->rule == RULE_PAPER ? SLOT_MAX_SUM : SLOT_LSE;
    plan_merge_flat(k.plan, "merge", how->rule == RULE_ARTIFACT && !needs_merge(k.plan, nf));
    return k.plan;
}

static struct plan *plan(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt)
{
    const struct config *cfg = s->config;
    struct packing how = {
        .rule = opt[OPT_RULE] == RULE_ARTIFACT ? RULE_ARTIFACT : RULE_PAPER,
        .pack = (int32_t)max_i64(1, (int64_t)opt[OPT_MAX_ROWS] / heads_gqa(&env->heads)),
        .split = opt[OPT_SPLIT] != 0,
        .block = (int64_t)opt[OPT_BLOCK],
        .fixed = cfg->fixed,
        .serial = cfg->serial,
    };
    uint8_t *joined = xcalloc((size_t)nf->n_nodes, sizeof *joined);
    decide_edges(nf, env, cfg, how.rule, how.pack, joined);
    struct plan *p = packs_plan(nf, env, s->name, &how, joined);
    free(joined);
    return p;
}

static const struct config full = {.pack = PACK_PROFIT};
static const struct config compute = {.pack = PACK_COMPUTE};
static const struct config naive = {.pack = PACK_NODES};
static const struct config fixed = {.pack = PACK_PROFIT, .fixed = {64, 128}};
static const struct config serial = {.pack = PACK_PROFIT, .serial = true};

const struct strategy strategy_pat = {
    .name = "pat",
    .source = "PAT algorithm 1, sections 5-7",
    .about = "Packs queries with shared prefixes to save memory traffic; a tile for each pack, concurrent "
             "launches.",
    .opts = opts,
    .config = &full,
    .plan = plan,
};

const struct strategy strategy_pat_compute = {
    .name = "pat-compute",
    .source = "PAT section 8.5, ablation",
    .about = "PAT with FastTree's cost model deciding what is merged.",
    .opts = opts,
    .config = &compute,
    .plan = plan,
};

const struct strategy strategy_pat_naive = {
    .name = "pat-naive",
    .source = "PAT section 8.5, ablation",
    .about = "PAT with a pack for every node.",
    .opts = opts,
    .config = &naive,
    .plan = plan,
};

const struct strategy strategy_pat_fixed = {
    .name = "pat-fixed",
    .source = "PAT section 8.5, ablation",
    .about = "PAT with tiles of 64x128 for all packs.",
    .opts = opts,
    .config = &fixed,
    .plan = plan,
};

const struct strategy strategy_pat_serial = {
    .name = "pat-serial",
    .source = "PAT section 8.5, ablation",
    .about = "PAT with one launch after the other.",
    .opts = opts,
    .config = &serial,
    .plan = plan,
};
