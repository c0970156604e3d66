/* chain_launch.h - between chain.c, which makes the arrays, and chain.cu, which walks along them. */
#ifndef TREEATTN_KERNELS_CUDA_PROBE_CHAIN_LAUNCH_H
#define TREEATTN_KERNELS_CUDA_PROBE_CHAIN_LAUNCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* EMPTY: a kernel that does nothing. DIRECT: what was read is the result. MERGE_KERNEL, MERGE_LAST: it is a partial result, and two of
 * these become one: in a kernel that depends on the first, or in the CTA of the two that comes last. */
enum gpu_chain_way { CHAIN_EMPTY, CHAIN_DIRECT, CHAIN_MERGE_KERNEL, CHAIN_MERGE_LAST, N_CHAIN_WAYS };

/* A CTA is a warp. Of K and of V it reads CHAIN_LANES x 16 bytes, and as many of a partial result. */
enum { CHAIN_LANES = 32, CHAIN_PAGE = 1024 }; /* of a page: lines of 16 bytes, half of K and half of V */

struct cuda_chain_item {
    int32_t entry; /* of the page table */
    int32_t slot;  /* where the partial result goes */
    int32_t other; /* the slot that is merged with it */
    int32_t step;  /* of the merge */
};
struct cuda_chain_step {
    int32_t in[2]; /* slots */
};

/* All on the device. ctas: even; the merge has half as many steps. */
struct cuda_chain_args {
    const struct cuda_chain_item *item; /* [ctas] */
    const int32_t *page_table;          /* [ctas] */
    const struct cuda_chain_step *step; /* [ctas / 2] */
    const uint32_t *pool;               /* [ctas][CHAIN_PAGE][4] */
    uint32_t *slot, *out;               /* [ctas][CHAIN_LANES][4] */
    int32_t *arrived;                   /* [ctas / 2] of a step, 0 before and after a run */
    int32_t ctas;
};

/* early: the merge may begin before the first kernel ends, as far as it does not need that one. Returns a cudaError_t. */
int cuda_launch_chain(enum gpu_chain_way way, const struct cuda_chain_args *a, int early, void *stream);

#ifdef __cplusplus
}
#endif

#endif
