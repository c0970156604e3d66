/*
 * tiling.h - which of the compiled tiles runs the items of a kernel, in which order they begin, which of them share a CTA,
 * whether the L2 keeps what they read, which of several kernels is first. Decisions that were measured (kernels/README.md), not computed: no plan
 * depends on them, only its time. No CUDA in it, so that it is tested where there is none.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_TILING_H
#define TREEATTN_KERNELS_CUDA_HOST_TILING_H

#include "kernels/cuda/host/segments.h"

/* Of all these items together. */
int64_t tiling_tokens(const struct cuda_item *item, int64_t n_items);

/* Items of one tile shape, longest first: those of a kernel, or of two. */
struct tiling {
    const struct cuda_item *item;
    int64_t n_items;       /* > 0 */
    int64_t tokens_beside; /* of all items of the launches that run side by side, with these */
    int64_t tokens_behind; /* and of the launches after them, which begin before they end */
    int64_t tokens_of_plan;
    int32_t h_kv, d, sms;
    int32_t m;       /* of shapes.def */
    int32_t longest; /* item of as many rows, of all launches */
    /* n of the plan's first kernel whose tiles have 64 rows and are full; 0: there is none yet. */
    int32_t n_before;
    bool wgmma;  /* shapes of wgmma_shapes.def run with it */
    bool masked; /* any item has a mask that hides something */
};

/* The n of shapes.def with which they run, for one that the plan rounds up to (16, 32, 64, 128). */
int32_t tiling_n(const struct tiling *t, int32_t n);
/* The n_before of the kernels that come after these, which run with that n. */
int32_t tiling_n_after(const struct tiling *t, int32_t n);
/* CTAs of m x n. As many fit as registers allow: shared memory may hold fewer. */
struct cuda_ctas tiling_ctas(const struct tiling *t, int32_t n);
/* The first item from which on all take several heads a CTA, as a kernel of its own; n_items: none does. */
int64_t tiling_first_by_head(const struct tiling *t, int32_t n);

/* What qsort wants for longest first, where tokens from one power of two to the next count as equal. */
int tiling_longer(int32_t a, int32_t b);
/* The order in which items begin: longest first, then most rows first, then as in the plan. */
void tiling_sort(struct cuda_item *item, int64_t n_items);
/* The same of items that share a CTA two by two, and have as many tokens. */
void tiling_sort_pairs(struct cuda_item *item, int64_t n_items);
/*
 * Then, once their tile is chosen, those of less than 64 tokens anew: of about equals, within a factor of two, those with
 * fewest rows first. Full tiles leave most of what a merge will read, and the later they do the more of it is in the L2
 * then. So in tiles in which rows may differ much (from 64 on), where the partial results of the plan, partial_bytes, are
 * no more than the L2 and half as many again.
 */
void tiling_full_last(struct cuda_item *item, int64_t n_items, int32_t m, int64_t partial_bytes,
                      int64_t l2_bytes);

/* Should the L2 let go of K and V that no other item reads, in a kernel of these items? bytes: of K and V of a token. */
bool tiling_kv_once(const struct cuda_item *item, int64_t n_items, int64_t bytes);

/* Kernels that run side by side, added to zeroes one by one. */
struct tiling_set {
    int32_t sms;
    int64_t ctas;
    double card;   /* that they want at once: 1 is all of it */
    double shared; /* of it, for those of which an SM holds several */
};
void tiling_add(struct tiling_set *s, const struct cuda_ctas *c);
/* Do all their CTAs run at once, some of them on one SM? */
bool tiling_share_sms(const struct tiling_set *s);

/* Does a kernel of the set begin before others with items of about the same length? If each of its CTAs wants an SM, and others
 * take half of the card: those find room between them, but an SM is not empty before what is on it has ended. longest: tokens. */
bool tiling_goes_first(const struct tiling_set *s, const struct cuda_ctas *c, int32_t longest);

/* Are most items of a kernel short, beside a few long ones, and its CTAs more than fit at once? Kernels behind it wait for all of
 * them to begin. longest, mean: tokens. */
bool tiling_holds_up(const struct cuda_ctas *c, int32_t longest, int32_t mean);

/* Tokens of a group of few rows that a CTA multiplies for a KV head, where scores are materialised; tokens: of all such
 * groups. A power of two times SKINNY_STEP. */
int32_t tiling_skinny_tokens(int64_t tokens, int32_t h_kv, int32_t sms);

#endif
