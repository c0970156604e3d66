/* exact_launch.h - between exact.c and exact.cu. Launchers return a cudaError_t as int. */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_EXACT_LAUNCH_H
#define TREEATTN_KERNELS_CUDA_DEVICE_EXACT_LAUNCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_truth_args {
    const void *q, *k, *v;
    const int64_t *first;
    const int32_t *slot;
    double *o, *abs_o, *rms_o, *lse, *logit, *abs_dot;
    double scale;
    int32_t n_queries, h_q, h_kv;
};
int cuda_launch_random(int bf16, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream);
int cuda_launch_same(const void *a, const void *b, int64_t bytes, int32_t *flag, void *stream);
int cuda_launch_truth(int bf16, int32_t d, const struct cuda_truth_args *a, void *stream);

#ifdef __cplusplus
}
#endif

#endif
