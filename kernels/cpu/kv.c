/* From tokens to slots, and masks in the form in which a plan asks for them. */
#include "kernels/cpu/attn.h"

#include <string.h>

/* fp16 values of a dense mask. */
enum { DENSE_VISIBLE = 0x0000, DENSE_HIDDEN = 0xFC00 };

/* Tokens left in the cursor's run, after stepping to the next run when there are none. */
static int64_t cursor_left(struct cursor *c)
{
    if (c->at == c->run[c->r].end - c->run[c->r].begin) {
        c->r++;
        c->at = 0;
    }
    return c->run[c->r].end - c->run[c->r].begin - c->at;
}

bool kv_segments(const struct problem *p, const struct nform *nf, struct cursor *c, int64_t n_tokens,
                 struct segment *seg, int64_t *n_seg, struct err *e)
{
    int64_t n = 0;
    while (n_tokens > 0) {
        int64_t take = min_i64(n_tokens, cursor_left(c));
        const struct run *r = &c->run[c->r];
        int32_t node = nf->src[r->node];
        int64_t j = nf->off[r->node] + r->begin + c->at; /* token of the tree's own node */
        int64_t page = j / p->page_size, within = j % p->page_size;
        take = min_i64(take, p->page_size - within);
        int32_t physical = problem_page(p, node, page, e);
        if (physical < 0)
            return false;
        int64_t slot = (int64_t)physical * p->page_size + within;
        if (n > 0 && seg[n - 1].slot + seg[n - 1].n == slot)
            seg[n - 1].n += (int32_t)take;
        else
            seg[n++] = (struct segment){.slot = slot, .n = (int32_t)take};
        c->at += take;
        n_tokens -= take;
    }
    *n_seg = n;
    return true;
}

int64_t mask_words(const struct group *g)
{
    switch (g->mask) {
    case MASK_RUN_WORDS:
        return (g->run1 - g->run0) * ceil_div(g->nq, 64);
    case MASK_TOKEN_WORDS:
        return g->n_kv * ceil_div(g->nq, 64);
    case MASK_QUERY_WORDS:
        return g->nq * ceil_div(g->n_kv, 64);
    case MASK_DENSE:
        return ceil_div(g->nq * g->n_kv, 4);
    default:
        return 0;
    }
}

static void set_bit(uint64_t *words, int64_t bit)
{
    words[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* The pairs of query k and one run, tokens [t0, t1) of the group. */
static void fill_run(const struct group *g, uint64_t *words, int32_t k, int64_t r, int64_t t0, int64_t t1,
                     bool visible)
{
    int64_t per_token = ceil_div(g->nq, 64), per_query = ceil_div(g->n_kv, 64);
    if (g->mask == MASK_DENSE) {
        uint16_t *dense = (uint16_t *)words + k * g->n_kv;
        for (int64_t t = t0; t < t1; t++)
            dense[t] = visible ? DENSE_VISIBLE : DENSE_HIDDEN;
    } else if (visible && g->mask == MASK_RUN_WORDS) {
        set_bit(words + r * per_token, k);
    } else if (visible && g->mask == MASK_TOKEN_WORDS) {
        for (int64_t t = t0; t < t1; t++)
            set_bit(words + t * per_token, k);
    } else if (visible) {
        for (int64_t t = t0; t < t1; t++)
            set_bit(words + k * per_query, t);
    }
}

void mask_fill(const struct plan *plan, const struct group *g, uint64_t *words)
{
    memset(words, 0, (size_t)mask_words(g) * sizeof *words);
    int64_t t0 = 0;
    for (int64_t r = 0; r < g->run1 - g->run0; r++) {
        const struct run *run = &plan->run[g->run0 + r];
        int64_t t1 = t0 + run->end - run->begin;
        for (int32_t k = 0; k < g->nq; k++)
            fill_run(g, words, k, r, t0, t1, plan_visible(plan, g, k, r));
        t0 = t1;
    }
}

/* One set of words per run: loaded when the run begins, kept until it ends. */
static int64_t read_run_words(const struct group *g, const uint64_t *words, struct cursor *c, int32_t k0,
                              int32_t k1, int64_t n, uint8_t *visible, int64_t ld)
{
    int64_t per_run = ceil_div(g->nq, 64), loaded = 0;
    for (int64_t j = 0; j < n;) {
        int64_t take = min_i64(n - j, cursor_left(c));
        loaded += c->at == 0 ? per_run : 0;
        const uint64_t *w = words + c->r * per_run;
        for (int32_t k = k0; k < k1; k++)
            memset(visible + (k - k0) * ld + j, (int)(w[k / 64] >> k % 64 & 1), (size_t)take);
        c->at += take;
        j += take;
    }
    return loaded * (int64_t)sizeof *words;
}

/* One set of words per token. */
static int64_t read_token_words(const struct group *g, const uint64_t *words, int32_t k0, int32_t k1,
                                int64_t t0, int64_t t1, uint8_t *visible, int64_t ld)
{
    int64_t per_token = ceil_div(g->nq, 64);
    for (int32_t k = k0; k < k1; k++) {
        const uint64_t *w = words + t0 * per_token + k / 64;
        uint8_t *row = visible + (k - k0) * ld;
        for (int64_t j = 0; j < t1 - t0; j++)
            row[j] = (uint8_t)(w[j * per_token] >> k % 64 & 1);
    }
    return (t1 - t0) * per_token * (int64_t)sizeof *words;
}

/* A bit per token: a query's word is loaded at the first of its 64 tokens and kept for the others, which may
 * lie in later tiles. */
static int64_t read_query_words(const struct group *g, const uint64_t *words, int32_t k0, int32_t k1,
                                int64_t t0, int64_t t1, uint8_t *visible, int64_t ld)
{
    int64_t per_query = ceil_div(g->n_kv, 64);
    for (int32_t k = k0; k < k1; k++) {
        const uint64_t *w = words + k * per_query;
        uint8_t *row = visible + (k - k0) * ld;
        for (int64_t t = t0; t < t1; t++)
            row[t - t0] = (uint8_t)(w[t / 64] >> t % 64 & 1);
    }
    return (k1 - k0) * (ceil_div(t1, 64) - ceil_div(t0, 64)) * (int64_t)sizeof *words;
}

static int64_t read_dense(const struct group *g, const uint16_t *dense, int32_t k0, int32_t k1, int64_t t0,
                          int64_t t1, uint8_t *visible, int64_t ld)
{
    for (int32_t k = k0; k < k1; k++) {
        const uint16_t *w = dense + k * g->n_kv + t0;
        uint8_t *row = visible + (k - k0) * ld;
        for (int64_t j = 0; j < t1 - t0; j++)
            row[j] = w[j] == DENSE_VISIBLE;
    }
    return (k1 - k0) * (t1 - t0) * (int64_t)sizeof *dense;
}

int64_t mask_read(const struct group *g, const uint64_t *words, struct cursor *c, int32_t k0, int32_t k1,
                  int64_t t0, int64_t t1, uint8_t *visible, int64_t ld)
{
    switch (g->mask) {
    case MASK_RUN_WORDS:
        return read_run_words(g, words, c, k0, k1, t1 - t0, visible, ld);
    case MASK_TOKEN_WORDS:
        return read_token_words(g, words, k0, k1, t0, t1, visible, ld);
    case MASK_QUERY_WORDS:
        return read_query_words(g, words, k0, k1, t0, t1, visible, ld);
    default:
        CK(g->mask == MASK_DENSE);
        return read_dense(g, (const uint16_t *)words, k0, k1, t0, t1, visible, ld);
    }
}
