/*
 * plan.h - a plan on the device: struct cuda_plan, and the kernels that run it.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_PLAN_H
#define TREEATTN_KERNELS_CUDA_HOST_PLAN_H

#include "kernels/cuda/host/cuda.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/host/segments.h"
#include "kernels/cuda/host/upload.h"

/* One kernel of group items: those of a launch that have one tile shape. */
struct cuda_call {
    int32_t launch, m, n;
    int32_t q_rows; /* see launch.h */
    int64_t item0, n_items;
    int32_t longest, mean; /* tokens of its items */
    bool masked, q_shared, kv_once;
    bool first;              /* to begin, of those that run side by side and are about as long */
    enum cuda_kernel kernel; /* that the tile is made for: it runs the call, if the host chooses */
    enum cuda_wide wide;     /* of CUDA_WIDE */
    int32_t meet;            /* CTAs of a cluster, or 0; see struct cuda_shape */
    struct cuda_ctas ctas;
};

/* The merge steps of a launch. */
struct cuda_merge {
    int32_t launch, warps;
    bool many_rows;
    int64_t step0, n_steps;
};

struct cuda_plan {
    enum cuda_kernel kernel; /* as asked for, */
    int32_t arch;            /* as is this */
    bool early;              /* kernels may start while the one before ends */
    bool wgmma;              /* Hopper only: later cards do not have it */
    bool filled;             /* what follows belongs to a plan */
    enum cuda_half t;
    struct heads heads;
    int32_t gqa_shift, page_size, page_shift;
    uint32_t table_lines;        /* see launch.h */
    float scale_log2, cap_scale; /* see launch.h */
    struct cuda_fp8 fp8;         /* of K and V in 8 bits, without scales */
    bool slot_f16, slot_max_sum, fused;
    int64_t sink_slot; /* or -1 */
    int32_t n_launches, n_calls, n_merges;
    bool *concurrent;         /* [n_launches] runs beside the launch before */
    struct cuda_call *call;   /* by launch */
    struct cuda_merge *merge; /* by launch */
    struct cuda_upload block; /* on the device: */
    const struct cuda_item *item;
    const struct cuda_kv_run *run, *piece;
    const int32_t *query;
    const uint32_t *mask;
    const struct cuda_merge_step *step;
    const int32_t *merge_in;
    int64_t bytes;     /* of block, and of what unfused has */
    int64_t slot_w_at; /* in the workspace, behind the slots' O */
    int64_t workspace;
    int32_t n_side;
    cudaStream_t *side;
    cudaEvent_t forked, *joined;
    struct unfused *unfused; /* or NULL */
};

/* The end of the launches that run side by side from `launch` on, which is the first of them. */
static inline int32_t end_of_set(const struct cuda_plan *cp, int32_t launch)
{
    int32_t end = launch + 1;
    while (end < cp->n_launches && cp->concurrent[end])
        end++;
    return end;
}

/* Does the host choose a kernel call by call? Else the same one runs all. */
static inline bool chooses_kernel(enum cuda_kernel kernel)
{
    return kernel == CUDA_GROUP || kernel == CUDA_WIDE;
}

/* The tile of a call, as launchers want it. */
static inline struct cuda_shape shape_of_call(const struct cuda_plan *cp, const struct cuda_call *c)
{
    return (struct cuda_shape){.m = c->m,
                               .n = c->n,
                               .d = cp->heads.d,
                               .t = cp->t,
                               .wgmma = cp->wgmma,
                               .wide = c->wide,
                               .meet = c->meet,
                               .capped = cp->cap_scale != 0,
                               .fp8 = !heads_fp8(&cp->heads) ? CUDA_FP8_NOT
                                      : cp->fp8.e5m2         ? CUDA_E5M2
                                                             : CUDA_E4M3};
}

#endif
