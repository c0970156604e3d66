/*
 * tiling.h - which compiled tile runs the items of a kernel, in which order items and kernels begin, and what shares a CTA.
 *
 * These decisions were measured (tiling.def), not computed. No result depends on them, only the time. There is no CUDA here, so
 * that they are tested where there is none.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_TILING_H
#define TREEATTN_KERNELS_CUDA_HOST_TILING_H

#include "kernels/cuda/host/segments.h"

/* The thresholds of tiling.def. */
enum {
#define RULE(name, value, decides, gain) name = value,
#include "kernels/cuda/host/tiling.def"
#undef RULE
};

/* Tokens of all these items together. */
int64_t tiling_tokens(const struct cuda_item *item, int64_t n_items);

/* Items of one tile shape, longest first, that become one kernel or two, and what decides how they run. */
struct tiling {
    const struct cuda_item *item;
    int64_t n_items;        /* > 0 */
    int64_t tokens_beside;  /* of all items of the launches that run side by side, these included */
    int64_t tokens_behind;  /* the same, and those of the launches after them, which begin before they end */
    int64_t tokens_of_plan; /* of all items */
    int32_t h_kv, d, sms;
    int32_t m;       /* of shapes.def, and of shapes_256.def, shapes_cap.def and shapes_fp8.def */
    int32_t longest; /* tokens of the longest item with as many rows, in all launches */
    /* The n of the plan's first kernel whose tiles have 64 rows and are full, or 0. */
    int32_t n_before;
    bool capped; /* there is a soft cap */
    bool fp8;    /* K and V are in 8 bits */
    bool wgmma;  /* the card runs wgmma_shapes.def */
    bool masked; /* any item has a mask that hides something */
};

/* The n of a compiled tile with which the items run, for the n of the plan, rounded up to 16, 32, 64 or 128. */
int32_t tiling_n(const struct tiling *t, int32_t n);
/* The n_before of the kernels after these, if these run with n. */
int32_t tiling_n_after(const struct tiling *t, int32_t n);
/* CTAs of m x n, not yet shared out. slots is what registers allow; shared memory may hold fewer. */
struct cuda_ctas tiling_ctas(const struct tiling *t, int32_t n);
/* From which item on CTAs take several heads, as a kernel of their own; n_items: none does. */
int64_t tiling_first_by_head(const struct tiling *t, int32_t n);

/* Compares for qsort, longest first. Tokens from one power of two to the next count as equal. */
int tiling_longer(int32_t a, int32_t b);
/* Sorts items into the order in which they begin: longest first, then most rows first, then as in the plan. */
void tiling_sort(struct cuda_item *item, int64_t n_items);
/* The same for items that share a CTA two by two. Both of a pair have as many tokens. */
void tiling_sort_pairs(struct cuda_item *item, int64_t n_items);
/*
 * Sorts the items of less than 64 tokens anew, once their tile is chosen: of about equals, within a factor of two, those with
 * fewest rows first. Full tiles leave most of what a merge will read. The later they leave it, the more of it is in the L2 when
 * the merge comes. Nothing changes in tiles of less than 64 rows, whose fill differs little, nor where the partial results of
 * the plan, partial_bytes, are more than one and a half times the L2.
 */
void tiling_full_last(struct cuda_item *item, int64_t n_items, int32_t m, int64_t partial_bytes,
                      int64_t l2_bytes);

/* Should a kernel of these items let the L2 drop K and V that no other item reads? bytes: of K and V of a token. */
bool tiling_kv_once(const struct cuda_item *item, int64_t n_items, int64_t bytes);

/* Kernels that run side by side. Start from zeros but for sms, then tiling_add each. */
struct tiling_set {
    int32_t sms;
    int64_t ctas;
    double card;   /* share of the card that all of them take at once; 1 is all of it */
    double shared; /* the share of those of which an SM holds several */
};
void tiling_add(struct tiling_set *s, const struct cuda_ctas *c);
/* Do all their CTAs run at once, some of them on one SM? */
bool tiling_share_sms(const struct tiling_set *s);

/* Does a kernel of the set begin before others whose items are about as long? Yes if each of its CTAs needs an SM and others take
 * half of the card. Those find room between its CTAs, but an SM is not empty before all that is on it has ended. longest:
 * tokens. */
bool tiling_goes_first(const struct tiling_set *s, const struct cuda_ctas *c, int32_t longest);

/* Does a kernel hold up those behind it, which wait for all of its CTAs to begin? Yes if they are more than fit at once, and most
 * items are short beside a few long ones. longest, mean: tokens. */
bool tiling_holds_up(const struct cuda_ctas *c, int32_t longest, int32_t mean);

/* How many tokens of a group of few rows one CTA multiplies for a KV head, where scores are materialised: a power of two times
 * SKINNY_STEP. tokens: of all such groups. */
int32_t tiling_skinny_tokens(int64_t tokens, int32_t h_kv, int32_t sms);

#endif
