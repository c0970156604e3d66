/*
 * exact.cu - random data and exact attention, for judging what was timed.
 *
 * Exact attention: a warp for each query and head, d / 32 columns a lane, everything in double: dot product by
 * shuffles, online softmax. About 150 instructions a token and row, so 7e7 of them (the largest of the papers' trees)
 * take some 30 ms. Not for speed, not for reading plans.
 */
#include "kernels/cuda/device/exact_launch.h"
#include "kernels/cuda/device/typed.cuh"
#include "ref/rng.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math_constants.h>

namespace treeattn {

template <typename T> __device__ T from_double(double x);
template <> __device__ inline __half from_double<__half>(double x)
{
    return __double2half(x);
}
template <> __device__ inline __nv_bfloat16 from_double<__nv_bfloat16>(double x)
{
    return __double2bfloat16(x);
}

template <> __device__ inline __nv_fp8_e4m3 from_double<__nv_fp8_e4m3>(double x)
{
    return __nv_fp8_e4m3(x * CUDA_RANDOM_FP8);
}
template <> __device__ inline __nv_fp8_e5m2 from_double<__nv_fp8_e5m2>(double x)
{
    return __nv_fp8_e5m2(x * CUDA_RANDOM_FP8);
}

__device__ inline double widen(__nv_fp8_e4m3 x)
{
    return (double)(float)x;
}
__device__ inline double widen(__nv_fp8_e5m2 x)
{
    return (double)(float)x;
}
__device__ inline double widen(__half x)
{
    return (double)__half2float(x);
}
__device__ inline double widen(__nv_bfloat16 x)
{
    return (double)__bfloat162float(x);
}

template <typename T> __global__ void random_kernel(T *to, int64_t n, uint64_t seed, uint64_t series)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = from_double<T>(rng_bell(seed, series, (uint64_t)i));
}

__global__ void same_kernel(const uint4 *a, const uint4 *b, int64_t n, int32_t *flag)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    bool differ = false;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const uint4 x = a[i], y = b[i];
        differ |= ((x.x ^ y.x) | (x.y ^ y.y) | (x.z ^ y.z) | (x.w ^ y.w)) != 0;
    }
    if (differ)
        *flag = 1;
}

__device__ inline double warp_total(double x)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(~0u, x, i);
    return x;
}

enum { TRUTH_WARPS = 8 };

template <typename T, int D, typename KV>
__global__ __launch_bounds__(32 * TRUTH_WARPS, 1) void truth_kernel(const __grid_constant__ cuda_truth_args a)
{
    constexpr int COLS = D / 32;
    const int64_t row = (int64_t)blockIdx.x * TRUTH_WARPS + threadIdx.x / 32;
    if (row >= (int64_t)a.n_queries * a.h_q)
        return;
    const int lane = threadIdx.x % 32;
    const int64_t query = row / a.h_q;
    const int kv_head = (int)(row - query * a.h_q) / (a.h_q / a.h_kv);
    double q[COLS], o[COLS] = {}, abs_o[COLS] = {}, sq_o[COLS] = {};
    double max = -CUDART_INF, sum = 0, logit = 0, abs_dot = 0;
    const double k_scale = sizeof(KV) == 1 ? a.k_scale[kv_head] : 1, v_scale = sizeof(KV) == 1 ? a.v_scale[kv_head] : 1;
#pragma unroll
    for (int c = 0; c < COLS; c++)
        q[c] = widen(((const T *)a.q)[row * D + lane * COLS + c]);
    for (int64_t t = a.first[query]; t < a.first[query + 1]; t++) {
        const int64_t at = ((int64_t)a.slot[t] * a.h_kv + kv_head) * D + lane * COLS;
        double dot = 0, mag = 0;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const double x = q[c] * (widen(((const KV *)a.k)[at + c]) * k_scale);
            dot += x;
            mag += fabs(x);
        }
        dot = a.scale * warp_total(dot);
        logit = fmax(logit, fabs(dot));
        abs_dot = fmax(abs_dot, a.scale * warp_total(mag));
        const double top = fmax(max, dot), old = exp(max - top), weight = exp(dot - top);
        max = top;
        sum = sum * old + weight;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const double x = weight * (widen(((const KV *)a.v)[at + c]) * v_scale);
            o[c] = o[c] * old + x;
            abs_o[c] = abs_o[c] * old + fabs(x);
            sq_o[c] = sq_o[c] * old * old + x * x;
        }
    }
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const int64_t to = row * D + lane * COLS + c;
        a.o[to] = sum > 0 ? o[c] / sum : 0;
        a.abs_o[to] = sum > 0 ? abs_o[c] / sum : 0;
        a.rms_o[to] = sum > 0 ? sqrt(sq_o[c]) / sum : 0;
    }
    if (lane == 0) {
        a.lse[row] = max + log(sum);
        a.logit[row] = logit;
        a.abs_dot[row] = abs_dot;
    }
}

template <typename T> static int launch_random(void *dev, int64_t n, uint64_t seed, uint64_t series, cudaStream_t st)
{
    random_kernel<T><<<2048, 256, 0, st>>>((T *)dev, n, seed, series);
    return cudaGetLastError();
}

template <typename T, int D, typename KV> static int launch_truth(const cuda_truth_args &a, cudaStream_t st)
{
    const int64_t rows = (int64_t)a.n_queries * a.h_q;
    if (rows > 0)
        truth_kernel<T, D, KV><<<(unsigned)((rows + TRUTH_WARPS - 1) / TRUTH_WARPS), 32 * TRUTH_WARPS, 0, st>>>(a);
    return cudaGetLastError();
}

} // namespace treeattn

extern "C" int cuda_launch_random(cuda_stored t, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream)
{
    using namespace treeattn;
    const cudaStream_t st = (cudaStream_t)stream;
    return t == CUDA_STORED_F16    ? launch_random<__half>(dev, n, seed, series, st)
           : t == CUDA_STORED_BF16 ? launch_random<__nv_bfloat16>(dev, n, seed, series, st)
           : t == CUDA_STORED_E4M3 ? launch_random<__nv_fp8_e4m3>(dev, n, seed, series, st)
                                   : launch_random<__nv_fp8_e5m2>(dev, n, seed, series, st);
}

extern "C" int cuda_launch_same(const void *a, const void *b, int64_t bytes, int32_t *flag, void *stream)
{
    using namespace treeattn;
    const int64_t n = bytes / 16, blocks = (n + 255) / 256;
    if (n > 0)
        same_kernel<<<(unsigned)(blocks < 1024 ? blocks : 1024), 256, 0, (cudaStream_t)stream>>>((const uint4 *)a, (const uint4 *)b, n,
                                                                                                 flag);
    return cudaGetLastError();
}

extern "C" int cuda_launch_truth(cuda_stored t, cuda_stored kv, int32_t d, const cuda_truth_args *a, void *stream)
{
    using namespace treeattn;
    return for_type(t == CUDA_STORED_F16, d, [&](auto type, auto size) {
        using T = decltype(type);
        constexpr int D = decltype(size)::value;
        const cudaStream_t st = (cudaStream_t)stream;
        return kv == CUDA_STORED_E4M3   ? launch_truth<T, D, __nv_fp8_e4m3>(*a, st)
               : kv == CUDA_STORED_E5M2 ? launch_truth<T, D, __nv_fp8_e5m2>(*a, st)
                                        : launch_truth<T, D, T>(*a, st);
    });
}
