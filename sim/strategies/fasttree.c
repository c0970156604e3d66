/*
 * fasttree.c - FastTree (Pan et al., MLSys 2025).
 *
 * Greedy edge assignment makes a virtual tree (section 4.1, algorithm 1, equations 3-11); each virtual node
 * is a group; long contexts are split until the GPU is full (section 4.3); groups of many queries run with a
 * large query tile, the others with a small one, as two launches, if each fills the SMs (section 5); then a
 * launch reduces the partial results of all groups. The factor d is common to all costs and left out.
 *
 * Paper (rule=paper) against released code (rule=artifact), which ../shared/golden pins down:
 *
 *                         paper                                  artifact
 *   padding costs         as printed                             multiplied by the GQA ratio
 *   KV padding (eq. 6)    Pad(TS, min(len, TS)): 0 at len 0      max(0, TS - len): TS at len 0
 *   edges planned         once                                   again after the tiles have changed
 *   filling the GPU       a CTA per SM (large), four (small)     132 and 528 CTAs, published for an H100
 *   one phase only        if both phases are in use and one      if any phase in use has less than a CTA per
 *                         has less than a CTA per SM             SM: changes the tile of a lone phase, too
 *   queries of a group    stay together, the kernel tiles them   cut at the query tile of the large phase; a
 *                                                                cut is a group, in the phase of its own size
 *   forests               every root                             not applicable: the walk starts at node 0
 *
 * Both always write partials and reduce them, also of queries that only one group serves.
 *
 * What the paper leaves open, both rules do as the code does:
 * DEVIATION: equations 5-6 name one query tile; the large one for more queries than the small one holds.
 * DEVIATION: the threshold of section 4.3 is 1024 tokens, 128 in a phase that does not fill the GPU.
 * DEVIATION: one phase takes the small tile when the large phase falls short, else the large one.
 * DEVIATION: tiles are rows, the cost model counts queries: rows / GQA ratio, at least one. A tile has room
 *            for one query's heads, which makes it larger than stated at ratios over 16.
 */
#include "sim/strategies/edge_planners.h"

#include <stdlib.h>

enum {
    OPT_RULE,
    OPT_ALPHA,
    OPT_BETA,
    OPT_GAMMA,
    OPT_LARGE,
    OPT_SMALL,
    OPT_TILE_KV,
    OPT_SPLIT,
    OPT_SPLIT_SHORT,
    OPT_FILL_LARGE,
    OPT_FILL_SMALL,
    N_OPTS
};

static const struct strategy_opt opts[] = {
    [OPT_RULE] = {"rule", RULE_PAPER, 0, 1, "paper, or artifact: as the released planner decides",
                  rule_names},
    [OPT_ALPHA] = {"alpha", 0.66, -1e9, 1e9, "price of a padded query per token (equation 7)", any_number},
    [OPT_BETA] = {"beta", 0.33, -1e9, 1e9, "price of a padded token per query (equation 7)", any_number},
    [OPT_GAMMA] = {"gamma", 0.1, -1e9, 1e9, "price of a partial result (equation 10)", any_number},
    [OPT_LARGE] = {"large", 64, 1, 4096, "rows of the large query tile", NULL},
    [OPT_SMALL] = {"small", 16, 1, 4096, "rows of the small query tile", NULL},
    [OPT_TILE_KV] = {"kv", 32, 1, 4096, "tokens of a KV tile", NULL},
    [OPT_SPLIT] = {"split", 1024, 1, 1e12, "contexts longer than this are split", NULL},
    [OPT_SPLIT_SHORT] = {"split_short", 128, 1, 1e12, "the same in a phase that does not fill the GPU", NULL},
    [OPT_FILL_LARGE] = {"fill_large", 0, 0, 1e9, "CTAs that fill the GPU with large tiles; 0: one per SM",
                        NULL},
    [OPT_FILL_SMALL] = {"fill_small", 0, 0, 1e9, "CTAs that fill the GPU with small tiles; 0: four per SM",
                        NULL},
    [N_OPTS] = {0},
};

/* What tells the ablation of section 6.1 from FastTree. */
struct config {
    bool greedy;
};

enum { H100_SMS = 132, CTAS_PER_SM_LARGE = 1, CTAS_PER_SM_SMALL = 4 };

/* ---- cost model ------------------------------------------------------------------------------------- */

/* Equation 3; nothing needs no padding. */
static int32_t padding(int32_t tile, int32_t n)
{
    return n == 0 ? 0 : tile - ((n - 1) % tile + 1);
}

/* Equations 5-7. The products keep the order of the released code: ties are decided by rounding. */
double fasttree_pad_cost(const struct fasttree_cost *c, int32_t nq, int64_t len)
{
    int32_t tile = c->tile_q[nq > c->tile_q[1] ? 0 : 1];
    int32_t short_len = (int32_t)min_i64(len, c->tile_kv);
    int32_t pad_kv = padding(c->tile_kv, short_len);
    double heads = 1;
    if (c->rule == RULE_ARTIFACT) {
        pad_kv = c->tile_kv - short_len;
        heads = c->gqa;
    }
    return c->alpha * padding(tile, nq) * heads * (double)len + c->beta * pad_kv * nq * heads;
}

void fasttree_edges(const struct nform *nf, const struct fasttree_cost *c, uint8_t *joined)
{
    int32_t *left = xcalloc((size_t)nf->n_nodes, sizeof *left); /* queries that no child took so far */
    int64_t *acc =
        xcalloc((size_t)nf->n_nodes, sizeof *acc); /* L of algorithm 1: tokens, inherited ones too */
    /* A decision needs those on its parent's own edge and on its elder siblings: id order has them made as
     * breadth first would, without a queue. */
    for (int32_t l = 0; l < nf->n_nodes; l++) {
        int32_t v = nf->parent[l], nq_l = nform_seeing(nf, l), of_v = nform_seeing_above(nf, l);
        int64_t len_l = nf->len[l];
        joined[l] = 0;
        left[l] = nq_l;
        acc[l] = len_l;
        if (v < 0)
            continue;
        int64_t inherited = min_i64(acc[v], nform_reach(nf, l));
        double split_kv =
            fasttree_pad_cost(c, left[v], acc[v]) + fasttree_pad_cost(c, nq_l, len_l) + c->gamma * of_v;
        double split_q =
            fasttree_pad_cost(c, left[v] - of_v, acc[v]) + fasttree_pad_cost(c, nq_l, len_l + inherited);
        if (split_kv > split_q) {
            joined[l] = 1;
            acc[l] += inherited;
            left[v] -= of_v;
        }
    }
    free(left);
    free(acc);
}

struct fasttree_cost fasttree_default_cost(int32_t rule, int32_t gqa)
{
    return (struct fasttree_cost){
        .rule = rule,
        .gqa = gqa,
        .tile_q = {(int32_t)max_i64(1, (int64_t)opts[OPT_LARGE].def / gqa),
                   (int32_t)max_i64(1, (int64_t)opts[OPT_SMALL].def / gqa)},
        .tile_kv = (int32_t)opts[OPT_TILE_KV].def,
        .alpha = opts[OPT_ALPHA].def,
        .beta = opts[OPT_BETA].def,
        .gamma = opts[OPT_GAMMA].def,
    };
}

/* ---- phases and splitting --------------------------------------------------------------------------- */

static void set_tiles(struct fasttree_prep *f, int32_t large_rows, int32_t small_rows)
{
    f->tile_rows[0] = large_rows;
    f->tile_rows[1] = small_rows;
    for (int ph = 0; ph < 2; ph++)
        f->cost.tile_q[ph] = (int32_t)max_i64(1, f->tile_rows[ph] / f->cost.gqa);
}

static int phase_of(const struct fasttree_prep *f, int64_t nq)
{
    return nq > f->cost.tile_q[1] ? 0 : 1;
}

/* CTAs of either phase. */
static void measure(struct fasttree_prep *f, const struct nform *nf, int32_t h_kv)
{
    f->parallelism[0] = f->parallelism[1] = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        if (f->nq[v] == 0)
            continue;
        int ph = phase_of(f, f->nq[v]);
        f->parallelism[ph] +=
            h_kv * ceil_div(f->len[v], f->split[ph]) * ceil_div(f->nq[v], f->cost.tile_q[ph]);
    }
}

static void plan_edges(struct fasttree_prep *f, const struct nform *nf, bool greedy)
{
    if (greedy)
        fasttree_edges(nf, &f->cost, f->joined);
    vnode_sizes(nf, f->joined, f->nq, f->len);
}

static bool falls_short(int64_t parallelism, int64_t enough)
{
    return parallelism > 0 && parallelism < enough;
}

struct fasttree_prep fasttree_prepare(const struct nform *nf, const struct plan_env *env,
                                      const struct strategy *s, const double *opt)
{
    const struct config *cfg = s->config;
    bool artifact = opt[OPT_RULE] == RULE_ARTIFACT;
    int64_t sms = artifact ? H100_SMS : env->machine->sms;
    int64_t enough[2] = {(int64_t)opt[OPT_FILL_LARGE], (int64_t)opt[OPT_FILL_SMALL]};
    if (enough[0] == 0)
        enough[0] = sms * CTAS_PER_SM_LARGE;
    if (enough[1] == 0)
        enough[1] = sms * CTAS_PER_SM_SMALL;
    int32_t large = (int32_t)opt[OPT_LARGE], small = (int32_t)opt[OPT_SMALL];

    struct fasttree_prep f = {
        .joined = xcalloc((size_t)nf->n_nodes, sizeof *f.joined),
        .nq = xcalloc((size_t)nf->n_nodes, sizeof *f.nq),
        .len = xcalloc((size_t)nf->n_nodes, sizeof *f.len),
        .cost = fasttree_default_cost(artifact ? RULE_ARTIFACT : RULE_PAPER, heads_gqa(&env->heads)),
        .split = {(int64_t)opt[OPT_SPLIT], (int64_t)opt[OPT_SPLIT]},
    };
    f.cost.tile_kv = (int32_t)opt[OPT_TILE_KV];
    f.cost.alpha = opt[OPT_ALPHA];
    f.cost.beta = opt[OPT_BETA];
    f.cost.gamma = opt[OPT_GAMMA];
    set_tiles(&f, large, small);
    plan_edges(&f, nf, cfg->greedy);
    measure(&f, nf, env->heads.h_kv);

    bool resplit = false;
    for (int ph = 0; ph < 2; ph++)
        if (falls_short(f.parallelism[ph], enough[ph])) {
            f.split[ph] = (int64_t)opt[OPT_SPLIT_SHORT];
            resplit = true;
        }
    if (!resplit)
        return f;
    measure(&f, nf, env->heads.h_kv);

    bool may_change = artifact || (f.parallelism[0] > 0 && f.parallelism[1] > 0);
    if (may_change && falls_short(f.parallelism[0], enough[0]))
        set_tiles(&f, small, small);
    else if (may_change && falls_short(f.parallelism[1], enough[0])) /* one per SM, as for the large phase */
        set_tiles(&f, large, large);
    else
        return f;
    if (artifact)
        plan_edges(&f, nf, cfg->greedy);
    measure(&f, nf, env->heads.h_kv);
    return f;
}

void fasttree_prep_free(struct fasttree_prep *f)
{
    free(f->joined);
    free(f->nq);
    free(f->len);
}

/* ---- plan ------------------------------------------------------------------------------------------- */

static bool applicable(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                       const double *opt, char *why)
{
    (void)env;
    (void)s;
    int32_t roots = nform_live_roots(nf);
    if (opt[OPT_RULE] == RULE_ARTIFACT && roots > 1)
        return why_not(why, "the released planner walks from node 0 only and this forest has %d roots",
                       roots);
    if (opt[OPT_SMALL] > opt[OPT_LARGE])
        return why_not(why, "the small query tile (%g rows) is larger than the large one (%g)",
                       opt[OPT_SMALL], opt[OPT_LARGE]);
    return true;
}

/* Rows of the kernel's tile: it holds at least one query's heads. */
static int32_t tile_m(int32_t rows, int32_t gqa)
{
    while (rows < gqa)
        rows *= 2;
    return rows;
}

/* Groups of a node, in the launch of their phase: launch[0] is there if it is needed; launch[1], which also
 * serves when there is one phase only, is made for its first group. */
static void add_pieces(struct plan *p, const struct fasttree_prep *f, struct pieces *it, int32_t *launch)
{
    while (pieces_next(it)) {
        bool two_phases = f->cost.tile_q[0] != f->cost.tile_q[1];
        int ph = two_phases ? phase_of(f, it->piece.nq) : 1;
        if (ph == 1 && launch[1] < 0)
            launch[1] = plan_launch(p, two_phases ? "small tiles" : "attention", LAUNCH_SERIAL);
        struct group_spec g = {
            .tile_m = tile_m(f->tile_rows[ph], f->cost.gqa),
            .tile_n = f->cost.tile_kv,
            .launch = launch[ph],
        };
        plan_group(p, &it->piece, &g);
    }
}

static struct plan *plan(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt)
{
    struct plan *p = plan_new(nf, s->name);
    plan_reserve(p, nf->n_nodes, nf->n_nodes);
    struct fasttree_prep f = fasttree_prepare(nf, env, s, opt);
    bool artifact = opt[OPT_RULE] == RULE_ARTIFACT;
    int32_t launch[2] = {-1, -1};
    int64_t joined = 0, groups = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++) { /* the large tiles go first, if there are any */
        int64_t most = artifact ? min_i64(f.nq[v], f.cost.tile_q[0]) : f.nq[v];
        if (launch[0] < 0 && f.len[v] > 0 && f.cost.tile_q[0] != f.cost.tile_q[1] && phase_of(&f, most) == 0)
            launch[0] = plan_launch(p, "large tiles", LAUNCH_SERIAL);
        joined += f.joined[v];
        groups += f.nq[v] > 0 && f.len[v] > 0;
    }
    struct sel sel = {0};
    struct pieces it = {0};
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        if (f.nq[v] == 0 || f.len[v] == 0)
            continue;
        vtree_select(nf, f.joined, v, &sel);
        CK(sel.nq == f.nq[v] && sel.n_kv == f.len[v]);
        pieces_reset(&it, &sel, artifact ? f.cost.tile_q[0] : sel.nq, f.split[phase_of(&f, sel.nq)], false);
        add_pieces(p, &f, &it, launch);
    }
    pieces_free(&it);
    sel_free(&sel);
    plan_note(
        p,
        "%lld edges joined, %lld virtual nodes; tiles of %d and %d queries; contexts cut at %lld and %lld; "
        "%lld and %lld CTAs",
        (long long)joined, (long long)groups, f.cost.tile_q[0], f.cost.tile_q[1], (long long)f.split[0],
        (long long)f.split[1], (long long)f.parallelism[0], (long long)f.parallelism[1]);
    plan_merge_flat(p, "merge", false);
    fasttree_prep_free(&f);
    return p;
}

static const struct config greedy = {.greedy = true};
static const struct config direct = {.greedy = false};

const struct strategy strategy_fasttree = {
    .name = "fasttree",
    .source = "FastTree algorithm 1, equations 3-11, sections 4.2-5",
    .about = "Greedy edge assignment makes a virtual tree, a group per virtual node, in two phases of tiles.",
    .opts = opts,
    .config = &greedy,
    .applicable = applicable,
    .plan = plan,
};

const struct strategy strategy_fasttree_no_greedy = {
    .name = "fasttree-no-greedy",
    .source = "FastTree section 6.1, ablation",
    .about = "FastTree without edge assignment: a group per node, still with splitting and phases.",
    .opts = opts,
    .config = &direct,
    .applicable = applicable,
    .plan = plan,
};
