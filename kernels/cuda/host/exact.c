#include "kernels/cuda/host/exact.h"
#include "kernels/cuda/host/device.h"
#include "kernels/cuda/device/exact_launch.h"

_Static_assert(GPU_RANDOM_FP8 == CUDA_RANDOM_FP8, "one number");

static enum cuda_stored stored(enum dtype t)
{
    CK(t == DT_F16 || t == DT_BF16 || t == DT_E4M3 || t == DT_E5M2);
    return t == DT_F16    ? CUDA_STORED_F16
           : t == DT_BF16 ? CUDA_STORED_BF16
           : t == DT_E4M3 ? CUDA_STORED_E4M3
                          : CUDA_STORED_E5M2;
}

bool gpu_random(enum dtype t, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream,
                struct err *e)
{
    return cuda_ok(cuda_launch_random(stored(t), dev, n, seed, series, stream), "random data", e);
}

bool gpu_same(const void *a, const void *b, int64_t bytes, void *flag, bool *same, struct err *e)
{
    int32_t differ = 1;
    CK(bytes % 16 == 0);
    bool good = gpu_fill(flag, 0, sizeof differ, NULL, e) &&
                cuda_ok(cuda_launch_same(a, b, bytes, flag, NULL), "comparison", e) &&
                gpu_download(&differ, flag, sizeof differ, e);
    *same = good && differ == 0;
    return good;
}

bool gpu_truth(const struct gpu_truth *x, void *stream, struct err *e)
{
    CK((x->heads.dtype == DT_F16 || x->heads.dtype == DT_BF16) &&
       (x->heads.d == 64 || x->heads.d == 128 || x->heads.d == 256));
    struct cuda_truth_args a = {.q = x->q,
                                .k = x->k,
                                .v = x->v,
                                .k_scale = x->k_scale,
                                .v_scale = x->v_scale,
                                .first = x->first,
                                .slot = x->slot,
                                .o = x->o,
                                .abs_o = x->abs_o,
                                .rms_o = x->rms_o,
                                .lse = x->lse,
                                .logit = x->logit,
                                .abs_dot = x->abs_dot,
                                .scale = x->scale,
                                .n_queries = x->n_queries,
                                .h_q = x->heads.h_q,
                                .h_kv = x->heads.h_kv};
    return cuda_ok(
        cuda_launch_truth(stored(x->heads.dtype), stored(heads_kv_dtype(&x->heads)), x->heads.d, &a, stream),
        "exact attention", e);
}
