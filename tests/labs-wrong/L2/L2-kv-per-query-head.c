/*
 * L2-kv-per-query-head.c
 * why: K and V are counted once per query head, not once per KV head (DeFT's own counters do that, too)
 * loses: 5
 */
#include "lab.h"

const int64_t lab_answers[3][4] = {
    {7274496, 3080192, 3080192, 3080192},
    {41418752, 12058624, 7143424, 7143424},
    {337510400, 34406400, 50790400, 51576832},
};

static int64_t tiles(int64_t n, int64_t side)
{
    return (n + side - 1) / side;
}

static void count_group(const struct lab_plan *p, const struct lab_plan_group *g, struct lab_bytes *b)
{
    int64_t rows = (int64_t)g->queries * (p->q_heads / p->kv_heads), /* on one KV head */
        q_tiles = tiles(rows, g->tile_m), kv_tiles = tiles(g->tokens, g->tile_n);
    b->kv += p->q_heads * q_tiles * g->tokens * 2 * p->head_dim * p->element_bytes;
    b->q += p->kv_heads * rows * p->head_dim * p->element_bytes;
    if (g->masked)
        b->mask += p->kv_heads * q_tiles * g->runs * tiles(g->queries, 64) * 8;
    if (g->partial)
        b->partials_written += (int64_t)g->queries * p->q_heads * (p->head_dim + p->weight_numbers) * 4;
    else
        b->output += (int64_t)g->queries * p->q_heads * (p->head_dim * p->element_bytes + 4);
    b->padded_rows += p->kv_heads * (q_tiles * g->tile_m - rows);
    b->padded_tokens += p->kv_heads * q_tiles * (kv_tiles * g->tile_n - g->tokens);
}

void lab_count(const struct lab_plan *p, struct lab_bytes *b)
{
    for (int i = 0; i < p->n_groups; i++)
        count_group(p, &p->group[i], b);
    int64_t partial = (int64_t)p->q_heads * (p->head_dim + p->weight_numbers) * 4;
    for (int i = 0; i < p->n_merges; i++) {
        b->partials_read += p->merge[i].inputs * partial;
        if (p->merge[i].to_output)
            b->output += (int64_t)p->q_heads * (p->head_dim * p->element_bytes + 4);
        else
            b->partials_written += partial;
    }
}
