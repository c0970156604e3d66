#include "sim/count.h"

#include <string.h>

const char *const count_mode_name[N_COUNT_MODES] = {"true", "paper", "deft"};

bool count_mode_parse(const char *s, enum count_mode *out)
{
    for (int i = 0; i < N_COUNT_MODES; i++)
        if (strcmp(s, count_mode_name[i]) == 0) {
            *out = (enum count_mode)i;
            return true;
        }
    return false;
}

enum { DEFT_QUERIES = 32 }; /* of a Q tile in DeFT's kernels */

static bool has_query_words(const struct group *g)
{
    return g->mask == MASK_RUN_WORDS || g->mask == MASK_TOKEN_WORDS;
}

/* Group i goes on with the queries of the block of tokens that the group before it began. */
static bool same_block(const struct plan *p, int64_t i)
{
    const struct group *g = &p->group[i], *before = g - 1;
    if (i == 0 || !has_query_words(g) || !has_query_words(before))
        return false;
    const struct run *a = &p->run[before->run0], *b = &p->run[g->run0];
    return a->node == b->node && a->begin == b->begin && before->n_kv == g->n_kv;
}

/* Bits of the group's mask, for all heads together. */
static int64_t mask_bits(const struct group *g)
{
    switch (g->mask) {
    case MASK_RUN_WORDS:
    case MASK_TOKEN_WORDS:
        return 64 * g->n_kv;
    case MASK_QUERY_WORDS:
        return g->nq * g->n_kv;
    case MASK_DENSE:
        return 16 * g->nq * g->n_kv;
    default:
        return 0;
    }
}

struct ledger count_plan(const struct plan *p, const struct heads *heads, enum count_mode mode)
{
    if (mode == COUNT_TRUE)
        return ledger_of_plan(p, heads);
    bool deft = mode == COUNT_DEFT;
    int64_t element = (int64_t)heads->h_q * heads_elt_bytes(heads), /* one for each query head */
        kv_element = (int64_t)heads->h_q * heads_kv_bytes(heads);
    int64_t bits = 0;
    struct ledger sum = {0};
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        if (same_block(p, i))
            continue;
        int64_t reads = deft && g->mask == MASK_NONE ? ceil_div(g->nq, DEFT_QUERIES) : 1;
        sum.kv += reads * g->n_kv * heads_kv_elements(heads) * kv_element;
        bits += mask_bits(g);
        if (!p->unfused)
            continue;
        int64_t scores = g->nq * g->n_kv * element;
        struct ledger l = {
            .qk_write = scores,
            .qk_read = scores,
            .scaled_write = scores,
            .scaled_read = scores,
            .masked_write = g->mask == MASK_NONE ? 0 : scores,
            .masked_read = g->mask == MASK_NONE ? 0 : scores,
            .softmax_write = deft ? 2 * scores : scores,
            .softmax_read = deft ? 2 * scores : scores,
            .q = deft ? (int64_t)g->nq * heads->d * element : 0,
            .out = deft ? (int64_t)g->nq * heads->d * element : 0,
        };
        ledger_add(&sum, &l);
    }
    sum.mask = ceil_div(bits, 8);
    return sum;
}
