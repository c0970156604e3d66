/*
 * score_layout.h - where rows of scores, gathered tokens and parts of O lie in memory, in a plan whose scores are materialised.
 *
 * It also says which groups are gathered for cuBLAS and which are multiplied where they are. There is no CUDA here, so that it is
 * tested where there is none.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_SCORE_LAYOUT_H
#define TREEATTN_KERNELS_CUDA_HOST_SCORE_LAYOUT_H

#include "kernels/cuda/device/launch.h"

struct scores_group {
    int32_t rows; /* of a KV head */
    int32_t n_kv;
    int32_t ld;     /* n_kv rounded up, so that rows of scores begin at 16 bytes */
    bool skinny;    /* at most SKINNY_ROWS rows: multiplied where it is */
    int64_t row0;   /* [h_kv][rows] of rows, over all groups */
    int64_t score0; /* [h_kv][rows][ld] */
    int64_t o0;     /* [parts][h_kv][rows] rows of O */
    int64_t token0; /* over the groups that are gathered */
    int32_t parts;  /* of O; 1 of a group that is gathered */
};

struct scores {
    struct scores_group *group; /* [n_groups], owned */
    int64_t n_groups, n_rows, n_scores, n_o;
    int64_t n_tokens, n_blocks; /* to gather */
    int64_t n_skinny;           /* blocks of the others */
    int32_t h_kv;
    int32_t block_tokens, most_rows; /* of a skinny block, of a skinny group */
    int32_t most_scores;             /* of a row, ld */
    bool masked;
};

/* Is a group with so many rows a KV head multiplied where it is? */
static inline bool scores_skinny(int64_t rows)
{
    return rows <= SKINNY_ROWS;
}

/* Lays out the groups, one item each. sms: of the card. What *s had before is freed. */
void scores_lay_out(struct scores *s, const struct cuda_item *item, int64_t n_items, int32_t h_kv,
                    int32_t sms);
/* Fills the caller's row [n_rows], block [n_blocks] and skinny [n_skinny], in the order of the groups. */
void scores_fill(const struct scores *s, struct unfused_row *row, struct unfused_block *block,
                 struct skinny_block *skinny);
void scores_free(struct scores *s);

#endif
