/*
 * plan.h - what layout.c, runtime.c, unfused.c and device.c share.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_PLAN_H
#define TREEATTN_KERNELS_CUDA_HOST_PLAN_H

#include "kernels/cuda/host/cuda.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/host/segments.h"
#include "kernels/cuda/host/tiling.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>

/* One kernel of group items: those of a launch that have one tile shape. */
struct cuda_call {
    int32_t launch, m, n;
    int32_t q_rows; /* see launch.h */
    int64_t item0, n_items;
    int32_t longest, mean; /* tokens of its items */
    bool masked, q_shared, kv_once;
    bool first; /* of those that run side by side and are about as long */
    enum cuda_wide wide;
    struct cuda_ctas ctas;
};

/* The merge steps of a launch. */
struct cuda_merge {
    int32_t launch, warps;
    bool many_rows;
    int64_t step0, n_steps;
};

/*
 * Arrays that the host makes and the device reads, again and again: device memory that grows and never shrinks, and host
 * memory to make them in. In line with a stream: pinned host memory, several times over so that the host can go on while
 * copies are under way, each guarded by an event. Zero-initialise; upload_free.
 */
enum { UPLOAD_STAGES = 4 };
struct cuda_upload {
    void *dev;
    int64_t cap; /* of dev, bytes */
    struct {
        void *host;
        int64_t cap;
        cudaEvent_t done; /* recorded behind its last copy */
    } stage[UPLOAD_STAGES];
    int32_t next;
};
/* Room for that many bytes, zeros, or NULL with *e set. Growth waits for the device. */
void *upload_begin(struct cuda_upload *u, int64_t bytes, struct err *e);
/* What was made to the device: on the stream. */
bool upload_end(struct cuda_upload *u, int64_t bytes, cudaStream_t stream, struct err *e);
void upload_free(struct cuda_upload *u);

struct cuda_plan {
    enum cuda_rung rung;
    int32_t arch; /* as asked for */
    bool early;   /* kernels may start while the one before ends */
    bool wgmma;   /* of Hopper alone: later cards do not have it */
    bool wide;    /* see cuda_options */
    bool filled;  /* all below is of a plan */
    enum cuda_half t;
    int32_t d, h_q, h_kv, gqa_shift, page_size, page_shift;
    uint32_t table_lines; /* see launch.h */
    float scale_log2;
    bool slot_f16, slot_max_sum, fused;
    int32_t n_launches, n_calls, n_merges;
    bool *concurrent;         /* [n_launches] with the launch before */
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

enum { CUDA_TILE_MAX = 128 }; /* rows, or tokens */

/* layout.c: all arrays of the plan to the device, on the stream, and the kernels that they make; adds to the workspace of
 * unfused plans. */
bool lay_out(struct cuda_plan *cp, const struct problem *p, const struct plan *plan,
             const struct cuda_caps *card, cudaStream_t stream, struct err *e);
int64_t cuda_align(int64_t bytes); /* rounded up to what every array begins at */

/* cuda_caps but for mem_free, which takes the driver its time. */
bool cuda_card(struct cuda_caps *c, struct err *e);

/* Launches launch .. the end returned run side by side. launch: the first of them. */
static inline int32_t end_of_set(const struct cuda_plan *cp, int32_t launch)
{
    int32_t end = launch + 1;
    while (end < cp->n_launches && cp->concurrent[end])
        end++;
    return end;
}

/* The kernel of a call. */
static inline struct cuda_shape shape_of_call(const struct cuda_plan *cp, const struct cuda_call *c)
{
    return (struct cuda_shape){
        .m = c->m, .n = c->n, .d = cp->d, .t = cp->t, .wgmma = cp->wgmma, .wide = c->wide};
}

/* A library of the toolkit, loaded when it is needed, or NULL: name.13, name.12, name as the loader finds them, then in
 * that folder. */
void *cuda_library(const char *name, const char *folder);

/* Turns a cudaError_t into *e; true for cudaSuccess. */
bool cuda_ok(int status, const char *what, struct err *e);

/* unfused.c: plans whose scores are materialised. */
struct unfused;
bool unfused_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                      char *why);
/* Make cp->unfused, or make it anew. item: the groups, one item each, as they are on the device; adds to the workspace. */
bool unfused_fill(struct cuda_plan *cp, const struct cuda_item *item, int64_t n_items, int32_t sms,
                  cudaStream_t stream, struct err *e);
bool unfused_run(struct cuda_plan *cp, const struct cuda_args *x, cudaStream_t stream, struct err *e);
void unfused_free(struct unfused *u);

#endif
