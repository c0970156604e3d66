/*
 * launch.h - what the host side (C) and the kernels (CUDA C++) share: the arrays that a plan becomes, and one
 * launcher per kernel. Launchers return a cudaError_t as int.
 *
 * A Q tile of a group is an item. A CTA takes one item and a KV head, or (3_group.cuh) some heads. A partial result lives in a
 * slot: O in fp32 (or fp16) and one or two floats of weight per query head,
 *     LSE       O / sum and max + log2(sum)          base 2 inside, natural log in the output
 *     max, sum  O, max and sum                       max in base 2, a whole number
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_LAUNCH_H
#define TREEATTN_KERNELS_CUDA_DEVICE_LAUNCH_H

#include "kernels/cuda/device/kernels.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tokens of an item, in order: those of its group, in runs that no row of its CTA sees left out. Run r holds tokens
 * end[r - 1] .. end[r). Token t of it is entry base + t of the page table unrolled to tokens: page_table[(base + t) / page_size],
 * slot (base + t) % page_size of the page. */
struct cuda_kv_run {
    int64_t base;
    int32_t end;
    int32_t run; /* counted from the item's first */
};

/* In an item of several runs there is a copy of the run that each PIECE-th token lies in: most tokens need no other. */
#define CUDA_PIECE 16

/* 56 bytes, read as 7 x 8. */
struct cuda_item {
    int64_t base; /* of the first run */
    int32_t n_kv; /* tokens */
    int32_t n_runs;
    int32_t run0;   /* into the runs */
    int32_t piece0; /* into the pieces, if n_runs > 1 */
    int32_t row0;   /* rows row0 .. row0 + n_rows of the group's nq * g */
    int32_t n_rows;
    int32_t query0;     /* into the queries: the query of row0 */
    int32_t query_one;  /* query of row0 if the tile's queries have consecutive numbers, else -1 */
    int32_t slot0;      /* slot of the query of row0, or -1: rows go to the output */
    int32_t mask0;      /* into the mask words, or -1: all visible */
    int32_t mask_words; /* 32-bit words per run: bit i of word w is query 32 w + i of the tile */
    int32_t kv_once;    /* its K and V may leave the L2 when they were read: no other item reads them */
};

/* Items of a kernel whose CTAs take as many KV heads, one after the other. */
struct cuda_segment {
    int32_t cta0, item0;             /* the first of each; cta0 INT32_MAX: there is no such segment */
    int32_t head_groups, head_shift; /* CTAs of an item, and their log2, or -1 */
    /* Where teams have heads of their own: how many each, and how many teams of an item, the first ones, have one more. */
    int32_t team_heads, teams_more;
};
#define CUDA_SEGMENTS 5

#define CUDA_LINE 128 /* bytes, of the L2 */

/* K and V in 8 bits (fp8.cuh). */
struct cuda_fp8 {
    const float *k_scale, *v_scale; /* [h_kv] */
    int32_t e5m2, bf16;             /* K and V, else e4m3; Q and O, else f16 */
};

struct cuda_group_args {
    const void *q, *k, *v;
    const int32_t *page_table;
    void *o;
    float *lse;
    void *slot_o;                 /* [n_slots][h_q][d] */
    float *slot_w;                /* [n_slots][h_q][1 or 2] */
    const struct cuda_item *item; /* of this launch */
    const struct cuda_kv_run *run, *piece;
    const int32_t *query;
    const uint32_t *mask;
    int32_t n_items;
    int32_t h_q, h_kv;
    int32_t gqa, gqa_shift, page_size, page_shift; /* shifts: log2, or -1 */
    float scale_log2;                              /* scale * log2(e); with a soft cap, cap * log2(e) */
    int32_t slot_f16, slot_max_sum, masked;
    /* Of the group kernel. by_head: the teams of a CTA have heads of their own; else they share the tokens of one. */
    int32_t by_head, n_ctas;
    int32_t q_rows; /* of Q, kept for a warp */
    struct cuda_segment segment[CUDA_SEGMENTS];
    /* Dependent launches: this kernel runs beside the one before, and only its last CTA waits for that one, so that
     * both are complete when this one is. */
    int32_t beside;
    /* Lines of CUDA_LINE bytes, of the page table and of the arrays above, which begin at block: what this kernel asks
     * for, as its CTAs begin, for all that come after them. */
    const void *block;
    uint32_t table_lines, block_lines;
    int32_t kv_once;  /* items may say so of their K and V; else none does */
    int32_t q_shared; /* the teams of a CTA share Q, as they do a head; else each has its own */
    /* A score in base 2 is scale_log2 * (q . k), or with a soft cap scale_log2 * tanh(cap_scale * (q . k)), where cap_scale is
     * scale / cap; without one it is 0. */
    float cap_scale;
    struct cuda_fp8 fp8; /* of kernels for such K and V */
};

struct cuda_merge_step {
    int32_t in0, n_in; /* into merge_in */
    int32_t out;       /* slot, or -1: the output */
    int32_t query;     /* as the tree numbers them */
};

struct cuda_merge_args {
    void *o;
    float *lse;
    void *slot_o;
    float *slot_w;
    const struct cuda_merge_step *step;
    const int32_t *merge_in; /* slots */
    int64_t n_steps;
    int32_t h_q;
    int32_t warps;     /* 1, or 2, 4 or 8 where several share a row */
    int32_t many_rows; /* of one warp: it takes two of them */
    int32_t slot_f16, slot_max_sum;
    int32_t whole_lines; /* slots begin at a multiple of CUDA_LINE */
};

/* Kernel shapes m x n; a launcher picks the one for dtype and d. */
enum { CUDA_SIDES = 4 }; /* 16, 32, 64, 128 */
enum cuda_half { CUDA_F16, CUDA_BF16 };
/* Of K and V; NOT: the type of Q. */
enum cuda_fp8_type { CUDA_FP8_NOT, CUDA_E4M3, CUDA_E5M2 };
/* Of the kernel of wide tiles: rows of an item, at most; tokens of a step. */
#define CUDA_WIDE_ROWS 64
#define CUDA_WIDE_STEP 64
/* Kernels of 4_wide.cuh: of items two by two over the same tokens, the second of which may have no rows, or one by one. In
 * other kernels NOT. */
enum cuda_wide { CUDA_WIDE_NOT, CUDA_WIDE_PAIRS, CUDA_WIDE_SHARED };

struct cuda_shape {
    int32_t m, n;  /* of the tile */
    int32_t d;     /* 64, 128, 256 */
    int32_t t;     /* enum cuda_half */
    int32_t wgmma; /* sm_90a, where there is a kernel for it */
    int32_t wide;  /* enum cuda_wide; then m and n do not count */
    int32_t capped; /* there is a soft cap */
    int32_t fp8;    /* enum cuda_fp8_type */
    /* Of wide tiles: 0, or the CTAs of a cluster. They have a head each, and parts of the tokens of the same rows, which they merge with
     * each other and send to the output, whatever their slots. Items, or pairs of them, stand in the order of clusters. */
    int32_t meet;
};
#define CUDA_MEET_MOST 8 /* CTAs of a cluster, on every card that has clusters */

/* Clusters of so many CTAs, each of which takes an SM, that run at a time. Returns a cudaError_t. */
int cuda_wide_clusters(int ctas, int *clusters);

/* How the host runs a kernel of group items. One for each line of kernels.def. */
struct cuda_launcher {
    /* Allow the kernel its shared memory; before any run. NULL: nothing to do. */
    int (*prepare)(const struct cuda_shape *s);
    /* Bytes of shared memory of a CTA. q_shared, q_rows: as in cuda_group_args. */
    int32_t (*smem)(const struct cuda_shape *s, bool masked, bool q_shared, int32_t q_rows);
    /* early: may start when the kernel before it in the stream comes to its end (programmatic dependent launch), if it can. */
    int (*launch)(const struct cuda_shape *s, const struct cuda_group_args *a, int early, void *stream);
};
#define KERNEL(id, symbol, name, narrow, about) extern const struct cuda_launcher cuda_launcher_##symbol;
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
const struct cuda_launcher *cuda_launcher_of(enum cuda_kernel kernel);

int cuda_launch_merge(const struct cuda_shape *s, const struct cuda_merge_args *a, int early, void *stream);

/* Makes a slot of sinks: O = 0, and of each query head its sink. */
struct cuda_sink_args {
    const float *sink; /* [h_q] base e */
    void *slot_o;      /* of all slots */
    float *slot_w;
    int64_t slot;
    int32_t h_q, d;
    int32_t slot_f16, slot_max_sum;
};
int cuda_launch_sinks(const struct cuda_sink_args *a, void *stream);

/* Plans whose scores are materialised: a score row is (group, KV head, row of the group). */
struct unfused_row {
    int64_t score; /* its first score */
    int64_t o;     /* row of O of its first part, the others of which are `next` apart; O is their sum */
    int32_t item, row, kv_head;
    int32_t n, ld; /* scores; from here to the next row of the same group and head */
    int32_t parts, next;
};

/* Tokens that one CTA gathers. */
#define UNFUSED_TOKENS 32
struct unfused_block {
    int64_t to; /* gathered tokens before */
    int32_t item, token;
};

/* Groups of so few rows a KV head are not gathered: their products read K and V where they are. */
#define SKINNY_ROWS 16
/* Tokens of such a group that a CTA multiplies for a KV head, SKINNY_STEP at a time. */
#define SKINNY_STEP 64
struct skinny_block {
    int64_t score; /* of the group's first row */
    int64_t o;     /* row of O where the block's [h_kv][n_rows] begin */
    int32_t item, token;
    int32_t end; /* the first token that is not of it */
    int32_t ld;
}; /* 32 bytes, read as 2 x 16 */

struct unfused_args {
    struct cuda_group_args a; /* item: one per group */
    const struct unfused_row *row;
    const struct unfused_block *block;
    const struct skinny_block *skinny;
    int64_t n_rows, n_blocks, n_skinny;
    int32_t d;
    int32_t most_rows;   /* of a group that is not gathered */
    int32_t most_scores; /* of a row */
    int32_t early;       /* kernels may start while the one before ends */
    float scale;       /* of scores in base e: scale or cap, as scale_log2 is in base 2 */
    void *q;           /* [n_rows][d] gathered */
    void *k, *v;       /* [tokens][h_kv][d] gathered */
    float *score;      /* QK^T, then scaled, then masked */
    void *probability; /* storage type, times its 2^bias, not normalised; zeros behind a row's, up to ld */
    float *max, *sum;  /* [n_rows] natural log; of the probabilities before rounding */
    float *o;          /* [rows of O][d] */
};
enum unfused_stage { UNFUSED_GATHER, UNFUSED_SCALE, UNFUSED_MASK, UNFUSED_SOFTMAX, UNFUSED_STORE };
int cuda_launch_unfused(const struct cuda_shape *s, const struct unfused_args *u, enum unfused_stage stage,
                        void *stream);
enum skinny_product { SKINNY_QK, SKINNY_PV };
int cuda_launch_skinny(const struct cuda_shape *s, const struct unfused_args *u, enum skinny_product product,
                       void *stream);

int cuda_launch_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream);

#ifdef __cplusplus
}
#endif

#endif
