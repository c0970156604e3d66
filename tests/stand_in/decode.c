/* decode.c - the kernels of a decode step between its products are not emulated. A decode step says that it cannot run. */
#include "kernels/decode/decode_launch.h"
#include "tests/stand_in/stand_in.h"

#include <cuda_runtime_api.h>

#define REFUSED(NAME, ...)                                                                                   \
    int NAME(__VA_ARGS__)                                                                                    \
    {                                                                                                        \
        return stand_in_fail(cudaErrorNotSupported);                                                         \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSED(decode_launch_begin, const struct decode_args *a, const void *embedding, void *stream)
REFUSED(decode_launch_norm, const struct decode_args *a, const void *weight, void *stream)
REFUSED(decode_launch_heads, const struct decode_args *a, const void *q_norm, const void *k_norm, void *k,
        void *v, void *stream)
REFUSED(decode_launch_gate, const struct decode_args *a, void *stream)
REFUSED(decode_launch_random, bool bf16, void *dev, int64_t n, const struct decode_random *r, void *stream)
REFUSED(decode_launch_merge, const struct decode_merge_args *a, void *stream)
REFUSED(decode_launch_move, void *pool, int64_t stride, int32_t n_pools, int64_t bytes, int64_t n,
        const int64_t *slot, void *held, bool back, void *stream)
REFUSED(decode_launch_copy, void *pool, int64_t stride, int32_t n_pools, int64_t bytes, int64_t n,
        const int64_t *slot, void *stream)

/* Of a step on several cards alone. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_row, const void *from, size_t from_row, size_t width,
                              size_t rows, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return (cudaError_t)stand_in_fail(cudaErrorNotSupported);
}
