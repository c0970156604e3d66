/*
 * attn.h - what the files of the CPU kernel share.
 *
 * cpu.c       prepares a run, hands work items to threads, sums their ledgers
 * kv.c        tokens to slots through the page table, and the masks in the form that a plan asks for
 * attn_f32.c  attn_f64.c  one work item or merge step; the same source, attn_body.h, compiled for float and
 * double
 *
 * A work item is one Q tile of one group on one KV head: rows row0 .. row1 of the group's nq * g rows, where
 * row k * g + h is head kv_head * g + h of the group's k-th query. It is what one CTA of a GPU would do.
 */
#ifndef TREEATTN_KERNELS_CPU_ATTN_H
#define TREEATTN_KERNELS_CPU_ATTN_H

#include "ref/problem.h"
#include "sim/ledger.h"
#include "sim/plan.h"

/* Tokens computed at once where a plan leaves the tile to the library (tile_n = 0). */
#define FREE_TILE_N 128
/* The same for rows, and the most scores that such a block materialises in an unfused plan. */
#define FREE_TILE_M 256
#define FREE_SCORES (INT64_C(1) << 22)

/* What a partial row weighs: the sum of its exp(logit - max). An LSE is a maximum whose sum is 1; the sum of
 * the empty partial is 0. */
struct weight {
    double max, sum;
};

/* A run of the kernel: read by all threads, written (slots, output) each place by one of them. */
struct attn {
    const struct problem *p;
    const struct plan *plan;
    struct output *out;
    int32_t gqa;           /* query heads per KV head */
    int32_t elt_bytes;     /* of Q and O in storage; of a materialised score as it is counted */
    int32_t kv_bytes;      /* of K and V in storage */
    enum dtype slot_dtype; /* element of a partial O in a slot */
    int32_t slot_words; /* what a row of a slot is said to hold besides O: 1 (LSE) or 2 (maximum and sum) */
    int32_t word_bytes; /* such a word; also the LSE of the output */
    int64_t *query_at;  /* [n_groups + 1] into query */
    int32_t *query;     /* queries of each group, in the group's order, as the normal form numbers them */
    int64_t *mask_at;   /* [n_groups + 1] into mask */
    uint64_t *mask;     /* all masks, each group's in the form of its mask_kind */
    void *slot_o;       /* [n_slots][h_q][d_v] float or half (double for DT_F64) */
    struct weight *slot_w; /* [n_slots][h_q] */
    int32_t
        *chip_of; /* [n_slots] row of chip_o for a slot that never leaves the chip, else -1; may be NULL */
    void *chip_o; /* [n_chip][h_q][d_v] float (double for DT_F64), not normalised */
    struct weight *chip_w; /* [n_chip][h_q] */
};

/* Consecutive slots that hold consecutive tokens of a group. */
struct segment {
    int64_t slot;
    int32_t n;
};

/* Where a work item stands in its group's tokens; it only moves forward. */
struct cursor {
    const struct run *run; /* the group's runs */
    int64_t r;             /* the current one */
    int64_t at;            /* tokens of it that are behind the cursor */
};

/* A thread's own memory: sized in cpu.c for the largest work item of the plan. */
struct scratch {
    void *q;              /* [rows][d] */
    void *k, *v;          /* [cols][d] gathered tokens */
    void *s;              /* [rows][cols], or [rows][n_kv] when the scores are materialised */
    void *acc;            /* [rows][d_v] */
    void *part, *lost;    /* [rows][d_v], of materialised scores: a step's product; what rounding added */
    void *max, *sum;      /* [rows] of the online softmax */
    uint8_t *visible;     /* [queries][cols] 1 = this query of the Q tile sees this token */
    struct segment *seg;  /* [cols] */
    struct ledger ledger; /* what this thread has counted */
};

struct item {
    const struct group *g;
    int64_t group; /* its number */
    int32_t kv_head;
    int64_t row0, row1;
    bool first; /* first block of its Q tile; only a tile that the plan left whole has more, and they read K,
                   V and the mask's words over queries out of the same tile, so those count once */
};

/* The next n_tokens of the group as segments into seg, and their number into *n_seg; false with *e set if the
 * page table points outside the pool: nothing is read from there. The cursor moves on. */
bool kv_segments(const struct problem *p, const struct nform *nf, struct cursor *c, int64_t n_tokens,
                 struct segment *seg, int64_t *n_seg, struct err *e);

/* 64-bit words that the mask of a group takes in its own form. */
int64_t mask_words(const struct group *g);
/* Fill them from the plan's bytes. */
void mask_fill(const struct plan *plan, const struct group *g, uint64_t *words);
/* Read the mask for queries [k0, k1) of the group and tokens [t0, t1), keeping a word for as long as later
 * tokens need it; the cursor must stand at t0 and moves to t1. Sets visible[k1 - k0][ld] to 0 or 1 and
 * returns the bytes loaded. */
int64_t mask_read(const struct group *g, const uint64_t *words, struct cursor *c, int32_t k0, int32_t k1,
                  int64_t t0, int64_t t1, uint8_t *visible, int64_t ld);

/* The part that exists in float and in double. */
struct attn_ops {
    int32_t real_bytes;
    bool (*item)(const struct attn *a, const struct item *it, struct scratch *t, struct err *e);
    void (*merge)(const struct attn *a, const struct merge_step *step, struct scratch *t);
};
extern const struct attn_ops attn_f32, attn_f64;

#endif
