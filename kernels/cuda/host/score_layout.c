/* score_layout.c - one group after the other, nothing shared. */
#include "kernels/cuda/host/score_layout.h"
#include "kernels/cuda/host/tiling.h"
#include "ref/base.h"

#include <stdlib.h>

enum { LD_ALIGN = 8 };

static void add_group(struct scores *s, struct scores_group *g, const struct cuda_item *it)
{
    int64_t rows = (int64_t)it->n_rows * s->h_kv;
    *g = (struct scores_group){.rows = it->n_rows,
                               .n_kv = it->n_kv,
                               .ld = (int32_t)(ceil_div(it->n_kv, LD_ALIGN) * LD_ALIGN),
                               .skinny = scores_skinny(it->n_rows),
                               .row0 = s->n_rows,
                               .score0 = s->n_scores,
                               .o0 = s->n_o,
                               .token0 = s->n_tokens,
                               .parts = 1};
    if (g->skinny) {
        g->parts = (int32_t)ceil_div(it->n_kv, s->block_tokens);
        s->n_skinny += g->parts;
        s->most_rows = g->rows > s->most_rows ? g->rows : s->most_rows;
    } else {
        s->n_tokens += g->n_kv;
        s->n_blocks += ceil_div(g->n_kv, UNFUSED_TOKENS);
    }
    s->n_rows += rows;
    s->n_scores += rows * g->ld;
    s->n_o += rows * g->parts;
    s->most_scores = g->ld > s->most_scores ? g->ld : s->most_scores;
    s->masked = s->masked || it->mask0 >= 0;
}

void scores_lay_out(struct scores *s, const struct cuda_item *item, int64_t n_items, int32_t h_kv,
                    int32_t sms)
{
    int64_t skinny_tokens = 0;
    for (int64_t i = 0; i < n_items; i++)
        skinny_tokens += scores_skinny(item[i].n_rows) ? item[i].n_kv : 0;
    free(s->group);
    *s = (struct scores){.group = xcalloc((size_t)n_items, sizeof *s->group),
                         .n_groups = n_items,
                         .h_kv = h_kv,
                         .block_tokens = tiling_skinny_tokens(skinny_tokens, h_kv, sms)};
    for (int64_t i = 0; i < n_items; i++)
        add_group(s, &s->group[i], &item[i]);
}

static struct unfused_row *fill_rows(const struct scores *s, const struct scores_group *g, int32_t item,
                                     struct unfused_row *row)
{
    int64_t score = g->score0, o = g->o0;
    for (int32_t h = 0; h < s->h_kv; h++)
        for (int32_t r = 0; r < g->rows; r++, score += g->ld, o++)
            *row++ = (struct unfused_row){.score = score,
                                          .o = o,
                                          .item = item,
                                          .row = r,
                                          .kv_head = h,
                                          .n = g->n_kv,
                                          .ld = g->ld,
                                          .parts = g->parts,
                                          .next = g->rows * s->h_kv};
    return row;
}

static struct unfused_block *fill_gathered(const struct scores_group *g, int32_t item,
                                           struct unfused_block *block)
{
    for (int64_t t = 0; t < g->n_kv; t += UNFUSED_TOKENS)
        *block++ = (struct unfused_block){.to = g->token0 + t, .item = item, .token = (int32_t)t};
    return block;
}

static struct skinny_block *fill_skinny(const struct scores *s, const struct scores_group *g, int32_t item,
                                        struct skinny_block *block)
{
    int64_t o = g->o0;
    for (int64_t t = 0; t < g->n_kv; t += s->block_tokens, o += (int64_t)g->rows * s->h_kv)
        *block++ = (struct skinny_block){.score = g->score0,
                                         .o = o,
                                         .item = item,
                                         .token = (int32_t)t,
                                         .end = (int32_t)min_i64(t + s->block_tokens, g->n_kv),
                                         .ld = g->ld};
    return block;
}

void scores_fill(const struct scores *s, struct unfused_row *row, struct unfused_block *block,
                 struct skinny_block *skinny)
{
    for (int64_t i = 0; i < s->n_groups; i++) {
        const struct scores_group *g = &s->group[i];
        row = fill_rows(s, g, (int32_t)i, row);
        if (g->skinny)
            skinny = fill_skinny(s, g, (int32_t)i, skinny);
        else
            block = fill_gathered(g, (int32_t)i, block);
    }
}

void scores_free(struct scores *s)
{
    free(s->group);
    *s = (struct scores){0};
}
