/* chain.h - what the probe of the least chain computes (kernels/cuda/probe/chain.cu), in plain C. */
#ifndef TREEATTN_TESTS_STAND_IN_CHAIN_H
#define TREEATTN_TESTS_STAND_IN_CHAIN_H

#include "kernels/cuda/probe/chain_launch.h"

static inline void chain_mix(const uint32_t *x, const uint32_t *y, uint32_t *to)
{
    for (int w = 0; w < 4 * CHAIN_LANES; w++)
        to[w] = x[w] ^ y[w];
}

static inline void chain_on_host(enum gpu_chain_way way, const struct cuda_chain_args *a)
{
    enum { ROW = 4 * CHAIN_LANES };
    for (int32_t i = 0; i < a->ctas && way != CHAIN_EMPTY; i++) {
        const struct cuda_chain_item *it = &a->item[i];
        const uint32_t *page = a->pool + (int64_t)a->page_table[it->entry] * CHAIN_PAGE * 4;
        chain_mix(page, page + CHAIN_PAGE / 2 * 4,
                  (way == CHAIN_DIRECT ? a->out + i * ROW : a->slot + it->slot * ROW));
        if (way == CHAIN_MERGE_LAST && a->arrived[it->step]++ == 1) {
            chain_mix(a->slot + it->slot * ROW, a->slot + it->other * ROW, a->out + it->step * ROW);
            a->arrived[it->step] = 0;
        }
    }
    for (int32_t i = 0; i < a->ctas / 2 && way == CHAIN_MERGE_KERNEL; i++)
        chain_mix(a->slot + a->step[i].in[0] * ROW, a->slot + a->step[i].in[1] * ROW, a->out + i * ROW);
}

#endif
