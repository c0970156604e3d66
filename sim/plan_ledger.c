#include "sim/plan_ledger.h"

#include <math.h>
#include <stdlib.h>

/* Bytes of one row of a partial. */
static int64_t slot_o_bytes(const struct plan *p, const struct heads *heads)
{
    bool narrow = p->slot_o == SLOT_O_F16 && heads_float_bytes(heads) == 4;
    return (int64_t)heads_d_v(heads) * (narrow ? 2 : heads_float_bytes(heads));
}

static int64_t slot_weight_bytes(const struct plan *p, const struct heads *heads)
{
    return heads_float_bytes(heads) * (p->slot_weight == SLOT_MAX_SUM ? 2 : 1);
}

static int64_t out_row_bytes(const struct heads *heads)
{
    return (int64_t)heads_d_v(heads) * heads_elt_bytes(heads) + heads_float_bytes(heads);
}

/* (query, token) pairs of a group that its mask lets through. */
static int64_t visible_pairs(const struct plan *p, const struct group *g)
{
    if (g->mask == MASK_NONE)
        return g->nq * g->n_kv;
    int64_t sum = 0;
    for (int32_t k = 0; k < g->nq; k++)
        for (int64_t r = g->run0; r < g->run1; r++)
            if (plan_visible(p, g, k, r - g->run0))
                sum += p->run[r].end - p->run[r].begin;
    return sum;
}

static int64_t mask_bytes(const struct group *g, int32_t gqa, int64_t rows, int64_t tile_m)
{
    int64_t sum = 0;
    for (int64_t r0 = 0; r0 < rows; r0 += tile_m) {
        int64_t r1 = min_i64(r0 + tile_m, rows);
        sum += plan_mask_bytes(g, (r1 - 1) / gqa - r0 / gqa + 1);
    }
    return sum;
}

/* All of it once per KV head; the caller multiplies. */
static struct ledger price_group(const struct plan *p, const struct group *g, const struct heads *heads)
{
    int32_t gqa = heads_gqa(heads);
    int64_t rows = (int64_t)g->nq * gqa;
    int64_t m = g->tile_m ? g->tile_m : rows, n = g->tile_n ? g->tile_n : g->n_kv;
    int64_t q_tiles = ceil_div(rows, m), kv_tiles = ceil_div(g->n_kv, n);
    int64_t pair = (int64_t)heads->d + heads_d_v(heads); /* multiply-adds: d for QK^T, d_v for PV */
    int64_t read = p->unfused ? pair : heads_kv_elements(heads); /* a kernel for each product reads K and V for itself */
    struct ledger l = {
        .kv = q_tiles * g->n_kv * read * heads_kv_bytes(heads),
        .q = rows * heads->d * heads_elt_bytes(heads),
        .mask = g->mask == MASK_NONE ? 0 : mask_bytes(g, gqa, rows, m),
        .mac_useful = visible_pairs(p, g) * gqa * pair,
        .mac_padded = (q_tiles * m * kv_tiles * n - rows * g->n_kv) * pair,
        .pad_rows = q_tiles * m - rows,
        .pad_tokens = q_tiles * (kv_tiles * n - g->n_kv),
    };
    l.mac_masked = rows * g->n_kv * pair - l.mac_useful;
    if (p->unfused) {
        int64_t scores = rows * g->n_kv * heads_elt_bytes(heads);
        l.qk_write = l.qk_read = l.scaled_write = l.scaled_read = l.softmax_write = l.softmax_read = scores;
        if (g->mask != MASK_NONE)
            l.masked_write = l.masked_read = scores;
    }
    if (g->slot0 == PLAN_NO_SLOT)
        l.out = rows * out_row_bytes(heads);
    return l;
}

struct ledger ledger_of_plan(const struct plan *p, const struct heads *heads)
{
    struct ledger sum = {0};
    for (int64_t i = 0; i < p->n_groups; i++) {
        struct ledger l = price_group(p, &p->group[i], heads);
        for (int32_t h = 0; h < heads->h_kv; h++)
            ledger_add(&sum, &l);
    }
    int64_t written = p->n_slots, read = 0, outputs = 0;
    for (int64_t i = 0; i < p->n_merges; i++) {
        const struct merge_step *m = &p->merge[i];
        bool onchip = m->onchip != PLAN_NO_SLOT;
        written -= onchip;
        read += m->in1 - m->in0 - onchip;
        outputs += m->out == PLAN_NO_SLOT;
    }
    sum.partial_o_write = written * heads->h_q * slot_o_bytes(p, heads);
    sum.partial_o_read = read * heads->h_q * slot_o_bytes(p, heads);
    sum.partial_w_write = written * heads->h_q * slot_weight_bytes(p, heads);
    sum.partial_w_read = read * heads->h_q * slot_weight_bytes(p, heads);
    sum.out += outputs * heads->h_q * out_row_bytes(heads);
    sum.launches = p->n_launches;
    return sum;
}

/* ---- bounds and shares ---------------------------------------------------------------------------------- */

/* Rows and tokens of whole tiles bound those of the group; every term below is of one KV head. */
static double most_of_group(const struct group *g, const struct heads *heads)
{
    double gqa = heads_gqa(heads), rows = g->nq * gqa, n_kv = (double)g->n_kv;
    double m = g->tile_m ? g->tile_m : rows, n = g->tile_n ? g->tile_n : n_kv;
    double q_tiles = ceil(rows / m), pairs = q_tiles * m * ceil(n_kv / n) * n;
    double words = 8 * (g->nq / 64.0 + 1) * n_kv, bits = 8 * n_kv * fmin(g->nq, m / gqa + 2);
    double mask = g->mask == MASK_NONE ? 0 : q_tiles * fmax(words, bits);
    /* K, V, Q, O, scores and multiply-adds: 2 d a pair of no more than a float; DeFT's mask words are 64 bits a token */
    return pairs * (2.0 * heads->d * heads_float_bytes(heads) + 64) + mask;
}

double price_most(const struct plan *p, const struct heads *heads)
{
    double most = p->n_launches;
    for (int64_t i = 0; i < p->n_groups; i++)
        most += heads->h_kv * most_of_group(&p->group[i], heads);
    return most + ((double)p->n_slots + (double)p->n_merge_in + (double)p->n_merges) * heads->h_q *
                      (8.0 * heads->d + 16);
}

double price_floor(const struct nform *nf, const struct heads *heads)
{
    double seeing = 0, q = (double)heads->h_q * heads->d * heads_elt_bytes(heads);
    uint8_t *any = xmalloc((size_t)nf->n_nodes); /* has a token on its path: who sees nothing reads no Q */
    for (int32_t i = 0; i < nf->n_nodes; i++)
        any[i] = nf->len[i] > 0 || (nf->parent[i] >= 0 && any[nf->parent[i]]);
    for (int32_t k = 0; k < nf->n_queries; k++)
        seeing += nf->at[k] >= 0 && any[nf->at[k]];
    free(any);
    return (double)nform_seen_tokens(nf) * (double)heads_token_bytes(heads) + seeing * q +
           (double)nf->n_queries * heads->h_q * (double)out_row_bytes(heads);
}

double price_unseen(const struct plan *p, const struct heads *heads)
{
    int64_t gqa = heads_gqa(heads);
    double tokens = 0;
    for (const struct group *g = p->group; g < p->group + p->n_groups && !p->unfused; g++) {
        int64_t rows = g->nq * gqa, m = g->tile_m ? g->tile_m : rows;
        for (int64_t r0 = 0; r0 < rows && g->mask != MASK_NONE; r0 += m)
            for (int64_t r = g->run0; r < g->run1; r++)
                if (!plan_any_sees(p, g, r0 / gqa, (min_i64(r0 + m, rows) - 1) / gqa + 1, r - g->run0))
                    tokens += (double)(p->run[r].end - p->run[r].begin);
    }
    return tokens * (double)heads_token_bytes(heads);
}
