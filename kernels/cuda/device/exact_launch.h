/* exact_launch.h - between exact.c and exact.cu. Launchers return a cudaError_t as int. */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_EXACT_LAUNCH_H
#define TREEATTN_KERNELS_CUDA_DEVICE_EXACT_LAUNCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of stored numbers. */
enum cuda_stored { CUDA_STORED_F16, CUDA_STORED_BF16, CUDA_STORED_E4M3, CUDA_STORED_E5M2 };
/* In 8 bits random numbers are so many times as large, so that few are subnormal. */
#define CUDA_RANDOM_FP8 64

struct cuda_truth_args {
    const void *q, *k, *v;
    const float *k_scale, *v_scale; /* [h_kv] of K and V in 8 bits */
    const int64_t *first;
    const int32_t *slot;
    double *o, *abs_o, *rms_o, *lse, *logit, *abs_dot;
    double scale;
    int32_t n_queries, h_q, h_kv;
};
int cuda_launch_random(enum cuda_stored t, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream);
int cuda_launch_same(const void *a, const void *b, int64_t bytes, int32_t *flag, void *stream);
int cuda_launch_truth(enum cuda_stored t, enum cuda_stored kv, int32_t d, const struct cuda_truth_args *a, void *stream);

#ifdef __cplusplus
}
#endif

#endif
