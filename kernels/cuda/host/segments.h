/*
 * segments.h - which items and KV heads a CTA of the group kernel takes. There is no CUDA here, so that it is tested where there
 * is none.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_SEGMENTS_H
#define TREEATTN_KERNELS_CUDA_HOST_SEGMENTS_H

#include "kernels/cuda/device/launch.h"

#include <stdbool.h>

/* CTAs of a kernel. The caller sets the first six and zeroes the rest; see to_segments(). */
struct cuda_ctas {
    int32_t h_kv, d;
    int32_t teams, chunk; /* teams of a CTA; tokens of a team's step */
    int64_t slots;        /* CTAs that fit on the card at once */
    bool by_head; /* teams have heads of their own; else a CTA has one head, whose tokens they share */
    int32_t n, n_segments;
    struct cuda_segment segment[CUDA_SEGMENTS];
};

/* log2, or -1. */
static inline int32_t shift_of(int32_t n)
{
    int32_t shift = 0;
    while (1 << shift < n)
        shift++;
    return 1 << shift == n ? shift : -1;
}

/*
 * Shares out n_items > 0 items, in this order, about longest first, with all KV heads of each. Every (item, head) goes to one
 * CTA, and with by_head to one team of it. n_items * h_kv < 2^31.
 *
 * by_head (teams <= h_kv) uses guided self-scheduling (Polychronopoulos and Kuck, 1987) over the bytes that are left. CTAs take
 * many heads at first, so that loads run ahead, and fewer and fewer later, so that SMs end together. Of the bytes left, a CTA
 * takes at most the share of one of those that fit at once, and a head a team besides. Heads become more again only where items
 * are much shorter.
 */
void to_segments(struct cuda_ctas *c, const struct cuda_item *item, int64_t n_items);

#endif
