/*
 * exact.h - what a bench needs on the device besides kernels: random data, and the exact answer.
 *
 * Data are the numbers of ref/rng.h, so that the host can compute any of them again. The exact answer is attention in double, one
 * warp for each query and head, along the query's own list of slots. It uses no plan, no tiles and no merge. It reports what the
 * oracle reports (ref/oracle.h). Its users certify it against the oracle's rule on samples.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_EXACT_H
#define TREEATTN_KERNELS_CUDA_HOST_EXACT_H

#include "kernels/cuda/host/cuda.h"

/* In 8 bits random numbers are so many times as large. */
enum { GPU_RANDOM_FP8 = 64 };
/* Element i of n at dev becomes rng_bell(seed, series, i), rounded to t (f16, bf16, or 8 bits). */
bool gpu_random(enum dtype t, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream,
                struct err *e);

/* Do two pieces of device memory hold the same? bytes: a multiple of 16. flag: four bytes of device memory. Waits for all that is
 * enqueued. */
bool gpu_same(const void *a, const void *b, int64_t bytes, void *flag, bool *same, struct err *e);

struct gpu_truth { /* pointers to device memory but for n_queries .. scale */
    int32_t n_queries;
    struct heads heads; /* d 64, 128 or 256, f16 or bf16 */
    double scale;
    const void *q, *k, *v; /* as in cuda_args */
    const float *k_scale, *v_scale;
    const int64_t *first;          /* [n_queries + 1] into slot */
    const int32_t *slot;           /* of each token that a query sees, along its path */
    double *o, *abs_o, *rms_o;     /* [n_queries * h_q][d] */
    double *lse, *logit, *abs_dot; /* [n_queries * h_q] */
};
bool gpu_truth(const struct gpu_truth *x, void *stream, struct err *e);

#endif
