/*
 * read.cu - memory as fast as it can be read: what bandwidth is measured against. No one way is the fastest on every
 * card and size, so there are several, and the caller takes the best.
 */
#include <cuda_runtime.h>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/launch.h"

namespace treeattn {

/* Through registers: a CTA reads THREADS * UNROLL * 16 bytes in a row, then the same amount a grid further on. */
template <int THREADS, int UNROLL>
__global__ __launch_bounds__(THREADS) void read_kernel(const uint4 *from, int64_t n, uint32_t *scratch)
{
    constexpr int BLOCK = THREADS * UNROLL;
    uint32_t x = 0;
    for (int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x; at < n; at += (int64_t)gridDim.x * BLOCK) {
        uint4 y[UNROLL];
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            y[j] = at + j * THREADS < n ? __ldg(from + at + j * THREADS) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            x ^= y[j].x ^ y[j].y ^ y[j].z ^ y[j].w;
    }
    if (x == 0x9E3779B9) /* practically never, but the compiler cannot know */
        scratch[threadIdx.x] = x;
}

/* By asynchronous copies into shared memory, 16 bytes a thread, as the group kernel does it: a ring of STAGES rows. */
template <int THREADS, int STAGES>
__global__ __launch_bounds__(THREADS) void copy_kernel(const uint4 *from, int64_t n, uint32_t *scratch)
{
    enum { UNROLL = 4, BLOCK = THREADS * UNROLL };
    extern __shared__ __align__(128) uint4 ring[]; /* [STAGES][UNROLL][THREADS] */
    const int64_t step = (int64_t)gridDim.x * BLOCK, first = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    int stage = 0;
    for (int64_t at = first; at < n; at += step) {
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            copy_async(smem_address(ring + (stage * UNROLL + j) * THREADS + threadIdx.x), from + at + j * THREADS,
                       at + j * THREADS < n ? 0 : 1, 1);
        copy_commit();
        copy_wait<STAGES - 1>();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    copy_wait<0>();
    if (ring[threadIdx.x].x == 0x9E3779B9 && ring[threadIdx.x].y == 0x7F4A7C15) /* read by this thread */
        scratch[threadIdx.x] = 1;
}

template <int THREADS, int STAGES>
static int launch_copy(const uint4 *from, int64_t n, int ctas, uint32_t *scratch, cudaStream_t stream)
{
    const int bytes = STAGES * 4 * THREADS * 16;
    cudaError_t status = cudaFuncSetAttribute(copy_kernel<THREADS, STAGES>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    copy_kernel<THREADS, STAGES><<<ctas, THREADS, bytes, stream>>>(from, n, scratch);
    return cudaGetLastError();
}

} // namespace treeattn

extern "C" int cuda_launch_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream_)
{
    using namespace treeattn;
    const uint4 *from = (const uint4 *)dev;
    const int64_t n = bytes / 16;
    uint32_t *scratch = (uint32_t *)scratch_64k;
    cudaStream_t stream = (cudaStream_t)stream_;
    int device, sms;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess)
        return status;
    switch (way) {
    case 0:
        read_kernel<512, 8><<<sms * 4, 512, 0, stream>>>(from, n, scratch);
        return cudaGetLastError();
    case 1:
        read_kernel<256, 8><<<sms * 8, 256, 0, stream>>>(from, n, scratch);
        return cudaGetLastError();
    case 2: /* a CTA for every block: the card's own scheduler is the loop */
        read_kernel<512, 8><<<(unsigned)((n + 4095) / 4096), 512, 0, stream>>>(from, n, scratch);
        return cudaGetLastError();
    case 3:
        return launch_copy<256, 4>(from, n, sms * 2, scratch, stream);
    case 4:
        return launch_copy<128, 3>(from, n, sms * 6, scratch, stream);
    }
    return cudaErrorInvalidValue;
}
