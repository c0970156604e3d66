/*
 * warp_row.cuh - one row of an item by one warp, all in fp32: what the scalar kernel is made of, and tensor kernels fall back on.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_WARP_ROW_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_WARP_ROW_CUH

#include <type_traits>

#include "kernels/cuda/device/fp8.cuh"
#include "kernels/cuda/device/items.cuh"
#include "kernels/cuda/device/softmax.cuh"

namespace treeattn {

template <typename T> __device__ inline float to_float(T x);
template <> __device__ inline float to_float<__half>(__half x)
{
    return __half2float(x);
}
template <> __device__ inline float to_float<__nv_bfloat16>(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* Number `at` of Q. */
template <typename T> __device__ inline float q_to_float(const cuda_group_args &a, int64_t at)
{
    float x;
    of_stored<T>(a, [&](auto zero) { x = to_float(((const decltype(zero) *)a.q)[at]); });
    return x;
}

/* Number `at` of K or V, whose type is KV, without the scale of its head. */
template <typename KV> __device__ inline float kv_to_float(const cuda_group_args &a, const void *kv, int64_t at)
{
    if constexpr (std::is_same_v<KV, fp8>)
        return fp8_to_float(((const uint8_t *)kv)[at], a.fp8);
    else
        return to_float(((const KV *)kv)[at]);
}

__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(~0u, x, i);
    return x;
}

/* A row that a warp computes token by token. Lane i has columns i D / 32 and on. CAPPED: there may be a soft cap. KV: the type of K and
 * V. */
template <typename T, int D, bool CAPPED, typename KV> struct warp_row {
    static constexpr int COLS = D / 32;
    static constexpr bool FP8 = std::is_same_v<KV, fp8>;
    row_place p;
    bool capped;
    float q[COLS], o[COLS], max, sum;

    /* Row r of an item, and of others that have other tokens of the same rows. No token yet. */
    __device__ __forceinline__ void begin(const cuda_group_args &a, const cuda_item &it, int kv_head, int r, int lane)
    {
        p = place_row(a, it, kv_head, r);
        capped = CAPPED && a.cap_scale != 0;
        max = -INFINITY;
        sum = 0;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            o[c] = 0;
            q[c] = q_to_float<T>(a, (p.query * a.h_q + p.head) * D + lane * COLS + c) * (capped ? 1 : a.scale_log2);
        }
        if constexpr (FP8)
#pragma unroll
            for (int c = 0; c < COLS; c++)
                q[c] *= __ldg(a.fp8.k_scale + kv_head);
    }

    /* The tokens of an item that the row sees. */
    __device__ __forceinline__ void attend(const cuda_group_args &a, const cuda_item &it, int kv_head, int lane)
    {
        for (int t = 0; t < it.n_kv; t++) {
            const token x = find_token(a, it, t);
            if (!sees(a, it, p.k, x.run))
                continue;
            const int64_t at = ((int64_t)slot_of(a, x) * a.h_kv + kv_head) * D + lane * COLS;
            float s = 0;
#pragma unroll
            for (int c = 0; c < COLS; c++)
                s = fmaf(q[c], kv_to_float<KV>(a, a.k, at + c), s);
            s = warp_sum(s);
            if (capped)
                s = cap_score(s, a.cap_scale) * a.scale_log2;
            const float top = fmaxf(max, s); /* a NaN never becomes the maximum */
            const float old = max == -INFINITY ? 0 : exp2f(max - top), weight = exp2f(s - top);
            max = top;
            sum = sum * old + weight;
#pragma unroll
            for (int c = 0; c < COLS; c++)
                o[c] = o[c] * old + weight * kv_to_float<KV>(a, a.v, at + c);
        }
    }

    /* To that row of the slots, or of the output. */
    __device__ __forceinline__ void store(const cuda_group_args &a, bool to_slot, int64_t row, int kv_head, int lane)
    {
        if constexpr (FP8)
#pragma unroll
            for (int c = 0; c < COLS; c++)
                o[c] *= __ldg(a.fp8.v_scale + kv_head);
        store_row<T, COLS, false>(a, to_slot, row, D, lane * COLS, o, max, sum, lane == 0);
    }
};

/* Row r of the item for a KV head, from Q to where it goes. */
template <typename T, int D, bool CAPPED, typename KV = T>
__device__ __forceinline__ void attend_row(const cuda_group_args &a, const cuda_item &it, int kv_head, int r, int lane)
{
    warp_row<T, D, CAPPED, KV> row;
    row.begin(a, it, kv_head, r, lane);
    row.attend(a, it, kv_head, lane);
    row.store(a, it.slot0 >= 0, place_out(a, it, row.p), kv_head, lane);
}

/* What a warp of a CTA has stored. */
struct stored_rows {
    int item, items;     /* one of so many that the CTA has */
    int block, warps;    /* of its rows, blocks of so many, which so many warps take in turn */
    int head, head_step; /* of the CTA's heads, from this one on every so many */
};

/* All that this warp has stored again, in place of it. A call, which finds out anew what it needs, as it is hardly ever wanted:
 * inlined, it takes registers and instruction cache from what is. */
template <typename T, int D, bool CAPPED, typename KV>
__device__ __noinline__ void redo_rows(const cuda_group_args &a, stored_rows x)
{
    const cta_work work = find_work(a);
    const cuda_item it = load_item(a.item + (work.g.item0 + work.item) * x.items + x.item);
    const int row_first = threadIdx.x / 32 % x.warps * x.block;
#pragma unroll 1
    for (int head = work.head_group * x.head_step + x.head; head < a.h_kv; head += work.g.head_groups * x.head_step)
#pragma unroll 1
        for (int first = row_first; first < it.n_rows; first += x.warps * x.block)
#pragma unroll 1
            for (int r = first; r < min(first + x.block, it.n_rows); r++)
                attend_row<T, D, CAPPED, KV>(a, it, head, r, threadIdx.x % 32);
}

/* As a warp ends: is something of what its lanes have stored too far for the softmax of tensor kernels (softmax.cuh)? */
template <typename T, int D, bool CAPPED, typename KV = T>
__device__ __forceinline__ void redo_far_rows(const cuda_group_args &a, bool far, stored_rows x)
{
    if (!__any_sync(~0u, far))
        return;
    /* Other lanes stored what this one is about to. Not in the call: ptxas then compiles all else another way. */
    __syncwarp();
    redo_rows<T, D, CAPPED, KV>(a, x);
}

/* Rows of a head leave from the registers that they were computed in: of a warp's 16 rows, the first my_rows of which there
 * are, as mma.sync accumulates them, or where K and V are in 8 bits as finish_fp8() leaves them. out_row: in lane i where row i goes
 * for KV head 0. Each lane has summed its own tokens. Returns whether a row of this lane is too far, and they want to be done again. */
template <typename T, int D, typename KV = T>
__device__ __forceinline__ bool store_rows(const cuda_group_args &a, const cuda_item &it, const float (*o)[4],
                                           const float max[2], float sum[2], int64_t out_row, int head, int my_rows,
                                           int lane)
{
    bool far = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        add_up_quad(sum[h]);
        const int r = lane / 4 + 8 * h;
        const int64_t row = __shfl_sync(~0u, out_row, r) + head * a.gqa;
        if (r >= my_rows)
            continue;
        far |= is_far(max[h]);
        if constexpr (is_fp8<KV>)
            store_row<T, 4, true, D / 16, 8, 4, 16>(a, it.slot0 >= 0, row, D, (lane & 3) * 4, &o[0][2 * h], max[h], sum[h],
                                                    (lane & 3) == 0);
        else
            store_row<T, 2, true, D / 8, 4>(a, it.slot0 >= 0, row, D, (lane & 3) * 2, &o[0][2 * h], max[h], sum[h],
                                            (lane & 3) == 0);
    }
    return far;
}

} // namespace treeattn

#endif
