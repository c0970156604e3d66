/*
 * gemm.h - products of a few rows with a large matrix, by cuBLASLt, loaded when the first is made.
 *
 * cuBLASLt's own choice among its kernels is not always the fastest for so few rows. So products of large matrices are timed once
 * with each of its candidates, when they are made. Sums are in fp32. The kernel decides their order, so the last bits may differ
 * from machine to machine and from run to run.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_GEMM_H
#define TREEATTN_KERNELS_CUDA_HOST_GEMM_H

#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/host/device.h"

struct gemm_shape {
    int64_t rows, cols; /* of W */
    int32_t n;          /* rows of x and y */
    enum cuda_half t;   /* of W and x */
    bool f32;           /* y is fp32, else t */
    bool add;           /* y += x W^T, else y = x W^T */
};

struct gemm;
/* What a product is timed with: some matrices of its shape, so that none is still in the L2, and buffers that it may
 * overwrite. NULL with *e set where cuBLASLt is missing or refuses. */
struct gemm_trial {
    const void *const *w;
    int32_t n_w;
    const void *x;
    void *y;
    cudaStream_t stream;
};
struct gemm *gemm_new(const struct gemm_shape *s, const struct gemm_trial *trial, struct err *e);
void gemm_free(struct gemm *g);
/* Which of the kernels it was, for the same product on another GPU of the same model: both then give the same bits. */
enum { GEMM_CHOICE = 64 };
void gemm_choice(const struct gemm *g, char choice[GEMM_CHOICE]);
void gemm_take(struct gemm *g, const char choice[GEMM_CHOICE]);
/* Enqueues the product. W [rows][cols], x [n][cols], y [n][rows]. */
bool gemm_run(const struct gemm *g, const void *w, const void *x, void *y, cudaStream_t stream,
              struct err *e);

#endif
