/*
 * scalar.cu - the first rung: one warp for each query and head, no shared memory, no tensor cores.
 *
 * Idea     a warp holds one row of Q in registers, d / 32 numbers a lane, and walks over the group's tokens:
 *          dot product by shuffles, online softmax, O in registers.
 * Grid     one CTA per item and KV head, as the other rungs; its warps share the rows of the item.
 * CTA      warp w takes rows w, w + 4, ...: K and V of the group are read from memory once per row.
 * Floor    rows x n_kv x 2 d x 2 bytes through L1 and L2, and ten shuffles a token: a chain of about 100 cycles
 *          for every 512 bytes (d = 128). With 64 warps an SM that is 0.33 KB a cycle, over 132 SMs 2.4 TB/s
 *          at best, whatever the GQA ratio saves the other rungs.
 * Predicted  64 1024 at 32/32, 1.07 GB: 450 us, latency allowing.
 * Measured   1,944 us on an H200 (553 GB/s): each token also waits for its page-table entry and its softmax.
 */
#include "kernels/cuda/item.cuh"
#include "kernels/cuda/typed.cuh"

namespace treeattn {

enum { SCALAR_WARPS = 4 };

template <typename T> __device__ inline float to_float(T x);
template <> __device__ inline float to_float<__half>(__half x)
{
    return __half2float(x);
}
template <> __device__ inline float to_float<__nv_bfloat16>(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(~0u, x, i);
    return x;
}

template <typename T, int D>
/* 12 CTAs an SM: left to itself, ptxas takes 32 registers on sm_80, and spills. */
__global__ __launch_bounds__(32 * SCALAR_WARPS, 12) void scalar_kernel(const __grid_constant__ cuda_group_args a)
{
    constexpr int COLS = D / 32;
    const int lane = threadIdx.x % 32, item = blockIdx.x / a.h_kv, kv_head = blockIdx.x - item * a.h_kv;
    const cuda_item it = load_item(a.item + item);
    for (int r = threadIdx.x / 32; r < it.n_rows; r += SCALAR_WARPS) {
        const row_place p = place_row(a, it, kv_head, r);
        float q[COLS], o[COLS] = {}, max = -INFINITY, sum = 0;
#pragma unroll
        for (int c = 0; c < COLS; c++)
            q[c] = to_float(((const T *)a.q)[(p.query * a.h_q + p.head) * D + lane * COLS + c]) * a.scale_log2;
        for (int t = 0; t < it.n_kv; t++) {
            const token x = find_token(a, it, t);
            if (!sees(a, it, p.k, x.run))
                continue;
            const int64_t at = ((int64_t)slot_of(a, x) * a.h_kv + kv_head) * D + lane * COLS;
            float s = 0;
#pragma unroll
            for (int c = 0; c < COLS; c++)
                s = fmaf(q[c], to_float(((const T *)a.k)[at + c]), s);
            s = warp_sum(s);
            const float top = fmaxf(max, s); /* a NaN never becomes the maximum */
            const float old = max == -INFINITY ? 0 : exp2f(max - top), weight = exp2f(s - top);
            max = top;
            sum = sum * old + weight;
#pragma unroll
            for (int c = 0; c < COLS; c++)
                o[c] = o[c] * old + weight * to_float(((const T *)a.v)[at + c]);
        }
        store_row<T, COLS, false>(a, it.slot0 >= 0, place_out(a, it, p), D, lane * COLS, o, max, sum, lane == 0);
    }
}

template <typename T, int D> static int launch_scalar(const cuda_group_args &a, cudaStream_t stream)
{
    scalar_kernel<T, D><<<(unsigned)((int64_t)a.n_items * a.h_kv), 32 * SCALAR_WARPS, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace treeattn

extern "C" int cuda_launch_scalar(const cuda_shape *s, const cuda_group_args *a, void *stream)
{
    using namespace treeattn;
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return launch_scalar<decltype(t), decltype(d)::value>(*a, (cudaStream_t)stream);
    });
}
