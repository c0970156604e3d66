#include "sim/fit/models.h"

#include "sim/fit/fit_time_model.h"
#include "sim/fit/fit_treeattn_cost.h"

#include <string.h>

/* ---- of a group --------------------------------------------------------------------------------------- */

struct shape {
    int64_t rows, tokens;      /* of one KV head */
    int64_t m, n;              /* tile */
    int64_t q_tiles, kv_tiles; /* of one KV head */
};

/* Products that a library tiles as it likes count as tiles of this size. */
enum { LIBRARY_TILE = 128 };

static struct shape shape_of(const struct group *g, const struct heads *heads)
{
    struct shape s = {.rows = (int64_t)g->nq * heads_gqa(heads), .tokens = g->n_kv};
    s.m = g->tile_m ? g->tile_m : LIBRARY_TILE;
    s.n = g->tile_n ? g->tile_n : LIBRARY_TILE;
    s.q_tiles = ceil_div(s.rows, s.m);
    s.kv_tiles = ceil_div(s.tokens, s.n);
    return s;
}

/* ---- linear ------------------------------------------------------------------------------------------- */

enum { BASE, SERIAL, DRAM, KV, PARTIAL, OPS, USEFUL, CTAS, TILES, LONGEST, CHAIN, MERGES, N_LINEAR };

static const struct trait linear_traits[N_LINEAR] = {
    [BASE] = {"base", "s", "every call", 0, 0, 0},
    [SERIAL] = {"serial", "s", "serial launches", 0, 0, 0},
    [DRAM] = {"dram", "", "visible KV once, Q and output / bandwidth", 0, 0, 0},
    [KV] = {"kv", "", "KV that all Q tiles read / bandwidth", 0, 0, 0},
    [PARTIAL] = {"partial", "", "partial results, masks and scores / bandwidth", 0, 0, 0},
    [OPS] = {"ops", "", "operations of whole tiles / tensor peak", 0, 0, 0},
    [USEFUL] = {"useful", "", "operations of visible pairs / tensor peak", 0, 0, 0},
    [CTAS] = {"ctas", "s", "CTAs / SMs", 0, 0, 0},
    [TILES] = {"tiles", "s", "KV tiles of all CTAs / SMs", 0, 0, 0},
    [LONGEST] = {"longest", "s", "KV tiles of the longest CTA", 0, 0, 0},
    [CHAIN] = {"chain", "s", "KV tiles of the largest group, its Q tiles in turn", 0, 0, 0},
    [MERGES] = {"merges", "s", "merge steps / SMs", 0, 0, 0},
};

/* Bytes of the tokens that some query sees, each once. */
static double visible_bytes(const struct plan *p, const struct heads *heads)
{
    int64_t tokens = 0;
    for (int32_t v = 0; v < p->nf->n_nodes; v++)
        tokens += p->nf->q1[v] > p->nf->q0[v] ? p->nf->len[v] : 0;
    return (double)tokens * (double)heads_token_bytes(heads);
}

static void linear_of(const struct plan *p, const struct heads *heads, const struct machine *mc,
                      const double *inner, double *out)
{
    (void)inner;
    struct ledger l = ledger_of_plan(p, heads);
    double sms = mc->sms, ctas = 0, tiles = 0, longest = 0, chain = 0, serial = 0;
    for (int64_t i = 0; i < p->n_groups; i++) {
        struct shape s = shape_of(&p->group[i], heads);
        ctas += (double)(s.q_tiles * heads->h_kv);
        tiles += (double)(s.q_tiles * s.kv_tiles * heads->h_kv);
        longest = (double)max_i64((int64_t)longest, s.kv_tiles);
        chain = (double)max_i64((int64_t)chain, s.q_tiles * s.kv_tiles);
    }
    for (int32_t i = 0; i < p->n_launches; i++)
        serial += p->launch[i].order == LAUNCH_SERIAL;
    out[BASE] = 1;
    out[SERIAL] = serial;
    out[DRAM] = (visible_bytes(p, heads) + (double)(l.q + l.out)) / mc->bandwidth;
    out[KV] = (double)l.kv / mc->bandwidth;
    out[PARTIAL] = (double)(ledger_partials(&l) + ledger_scores(&l) + l.mask) / mc->bandwidth;
    out[OPS] = 2 * (double)(l.mac_useful + l.mac_masked + l.mac_padded) / mc->tensor_flops;
    out[USEFUL] = 2 * (double)l.mac_useful / mc->tensor_flops;
    out[CTAS] = ctas / sms;
    out[TILES] = tiles / sms;
    out[LONGEST] = longest;
    out[CHAIN] = chain;
    out[MERGES] = (double)p->n_merges / sms;
}

/* ---- FastTree's cost ---------------------------------------------------------------------------------- */

/* Equations 3-11 of the paper without their common factor d, summed over groups, heads and rows. The paper
 * counts queries where we count rows, which leaves the ratios of alpha, beta and gamma as they are. */
enum { FT_BASE, FT_USEFUL, FT_ALPHA, FT_BETA, FT_GAMMA, N_FASTTREE };

static const struct trait fasttree_traits[N_FASTTREE] = {
    [FT_BASE] = {"base", "s", "every call", 0, 0, 0},
    [FT_USEFUL] = {"useful", "s", "rows x tokens of all groups", 0, 0, 0},
    [FT_ALPHA] = {"alpha", "s", "padded rows x tokens (equation 5)", 0, 0, 0},
    [FT_BETA] = {"beta", "s", "rows x padded tokens (equation 6)", 0, 0, 0},
    [FT_GAMMA] = {"gamma", "s", "rows of partial results (equation 10)", 0, 0, 0},
};

static void fasttree_of(const struct plan *p, const struct heads *heads, const struct machine *mc,
                        const double *inner, double *out)
{
    (void)mc;
    (void)inner;
    memset(out, 0, N_FASTTREE * sizeof *out);
    out[FT_BASE] = 1;
    for (int64_t i = 0; i < p->n_groups; i++) {
        struct shape s = shape_of(&p->group[i], heads);
        double h_kv = heads->h_kv;
        out[FT_USEFUL] += h_kv * (double)s.rows * (double)s.tokens;
        out[FT_ALPHA] += h_kv * (double)(s.q_tiles * s.m - s.rows) * (double)s.tokens;
        out[FT_BETA] += h_kv * (double)(s.kv_tiles * s.n - s.tokens) * (double)s.rows;
    }
    out[FT_GAMMA] = (double)p->n_slots * heads->h_q;
}

/* ---- the clock ---------------------------------------------------------------------------------------- */

/* Bounds as in time_model.h. */
static const struct trait time_model_traits[N_CLOCKFIT] = {
    [CLOCKFIT_KERNEL] = {"kernel", "", "simulated seconds of all CTAs", 1e-6, 1e6, 0},
    [CLOCKFIT_LAUNCH] = {"launch", "", "serial launches, in the machine's launch_ns", 0, 1e6, 0},
    [CLOCKFIT_BASE] = {"base", "s", "every call", 0, 1, 0},
    [CLOCKFIT_CONCURRENT] = {"concurrent", "", "concurrent launches, in the machine's launch_ns", 0, 1e6, 0},
};

static const struct trait time_model_inner[N_CLOCKFIT_INNER] = {
    [CLOCKFIT_latency] = {"latency", "", "round trip of a KV tile, in the machine's latency_ns", 1e-3, 1e6,
                          0},
    [CLOCKFIT_l2_latency] = {"l2_latency", "", "the same when it hits the L2, as a share of that", 1e-3, 1,
                             0},
    [CLOCKFIT_start] = {"start", "", "a CTA's time around its tiles, in round trips", 0, 1e6, 0},
    [CLOCKFIT_tensor] = {"tensor", "", "share of the tensor peak that is reached", 1e-3, 1, 0},
    [CLOCKFIT_l2] = {"l2", "", "share of the L2's bandwidth that reads reach", 1e-3, 1, 0},
    [CLOCKFIT_stages] = {"stages", "", "K or V tiles that a CTA has room for", 2, 16, 0},
    [CLOCKFIT_unseen] = {"unseen", "", "share that is read of what no row of a Q tile sees", 0, 1, 0},
};

static void time_model_built_in(double *value)
{
    struct time_model_coefs c = time_model_coefs_default();
    value[CLOCKFIT_KERNEL] = c.kernel;
    value[CLOCKFIT_LAUNCH] = c.launch;
    value[CLOCKFIT_BASE] = c.base;
    value[CLOCKFIT_CONCURRENT] = c.concurrent;
    time_model_fit_point(0, value + N_CLOCKFIT);
}

/* ---- treeattn ----------------------------------------------------------------------------------------- */

static void tile_built_in(double *value)
{
    memcpy(value, &tile_coefs, sizeof tile_coefs);
}

/* ---- registry ----------------------------------------------------------------------------------------- */

const struct fit_model fit_models[] = {
    {.name = "linear",
     .about = "bytes, operations, CTAs, tiles and launches, weighted",
     .trait = linear_traits,
     .n = N_LINEAR,
     .of = linear_of},
    {.name = "fasttree",
     .about = "FastTree's cost: padding and partial results, weighted by alpha, beta, gamma",
     .trait = fasttree_traits,
     .n = N_FASTTREE,
     .of = fasttree_of},
    {.name = "clock",
     .about = "the coefficients of `treeattn sim --time`",
     .trait = time_model_traits,
     .n = N_CLOCKFIT,
     .of = time_model_fit_of,
     .inner = time_model_inner,
     .n_inner = N_CLOCKFIT_INNER,
     .point = time_model_fit_point,
     .built_in = time_model_built_in},
    {.name = "treeattn",
     .about = "what treeattn chooses its plans by: CTAs and tokens by kind of tile, bytes, launches",
     .trait = tile_traits,
     .n = N_TILE_COEFS,
     .tiles = true,
     .built_in = tile_built_in},
};
const int32_t n_trait_models = (int32_t)(sizeof fit_models / sizeof fit_models[0]);

const struct fit_model *fit_model_find(const char *name, struct err *e)
{
    char list[128] = "";
    for (int32_t i = 0; i < n_trait_models; i++) {
        if (strcmp(fit_models[i].name, name) == 0)
            return &fit_models[i];
        listing_add(list, sizeof list, fit_models[i].name);
    }
    err_set(e, "no model '%.40s' (expected one of %s)", name, list);
    return NULL;
}
