/*
 * item.cuh - an item as every group kernel sees it: where its rows come from, where its tokens are, and where
 * results go.
 */
#ifndef TREEATTN_KERNELS_CUDA_ITEM_CUH
#define TREEATTN_KERNELS_CUDA_ITEM_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.h"

namespace treeattn {

/* Where the rows of an item come from and go to. */
struct row_place {
    int64_t query; /* as the tree numbers them */
    int32_t head, k; /* query head; query of the tile */
};

__device__ inline row_place place_row(const cuda_group_args &a, const cuda_item &it, int kv_head, int r)
{
    int row = it.row0 + r, k = row / a.gqa;
    row_place p;
    p.k = k - it.row0 / a.gqa;
    p.head = kv_head * a.gqa + row - k * a.gqa;
    p.query = it.query_one >= 0 ? it.query_one + p.k : a.query[it.query0 + p.k];
    return p;
}

__device__ inline cuda_item load_item(const cuda_item *from)
{
    static_assert(sizeof(cuda_item) == 56, "read as 7 words");
    union {
        int2 w[7];
        cuda_item it;
    } u;
#pragma unroll
    for (int i = 0; i < 7; i++)
        u.w[i] = __ldg((const int2 *)from + i);
    return u.it;
}

/* The run of a token, counted from the group's first. */
__device__ inline int find_run(const cuda_group_args &a, const cuda_item &it, int t)
{
    if (it.n_runs == 1)
        return 0;
    int r = __ldg(a.piece + it.piece0 + t / CUDA_PIECE);
    while (t >= __ldg(&a.run[it.run0 + r].end))
        r++;
    return r;
}

struct token {
    int32_t slot, run;
};

__device__ inline token find_token(const cuda_group_args &a, const cuda_item &it, int t)
{
    token x;
    x.run = find_run(a, it, t);
    const int64_t at = (it.n_runs == 1 ? it.base : __ldg(&a.run[it.run0 + x.run].base)) + t;
    if (a.page_shift >= 0)
        x.slot = (__ldg(a.page_table + (at >> a.page_shift)) << a.page_shift) + (int)(at & (a.page_size - 1));
    else
        x.slot = __ldg(a.page_table + at / a.page_size) * a.page_size + (int)(at % a.page_size);
    return x;
}

/* Is the pair of a query of the tile and a run visible? */
__device__ inline bool sees(const cuda_group_args &a, const cuda_item &it, int k, int run)
{
    return it.mask0 < 0 || (__ldg(a.mask + it.mask0 + (int64_t)run * it.mask_words + k / 32) >> k % 32 & 1);
}

/* Where a row goes: of the slots, or of the output. */
__device__ inline int64_t place_out(const cuda_group_args &a, const cuda_item &it, const row_place &p)
{
    return it.slot0 < 0 ? p.query * a.h_q + p.head : (int64_t)(it.slot0 + p.k) * a.h_q + p.head;
}

/* COLS columns of a row leave: O as accumulated, its maximum in base 2, its sum; O and sum times 2^bias. */
template <typename T, int COLS, bool BIASED>
__device__ inline void store_row(const cuda_group_args &a, bool to_slot, int64_t row, int d, int col,
                                 const float *o, float max, float sum, bool with_weight)
{
    float scale = sum == 0 ? 0 : 1 / sum; /* NaN stays NaN */
    float unbias = BIASED ? narrow<T>::unbias : 1, whole_sum = sum * unbias;
    if (!to_slot) {
        uint32_t *to = (uint32_t *)((T *)a.o + row * d + col);
#pragma unroll
        for (int i = 0; i < COLS; i += 2)
            to[i / 2] = pack<T>(o[i] * scale, o[i + 1] * scale);
        if (with_weight)
            a.lse[row] = sum == 0 ? -INFINITY : max * 0.693147180559945f + logf(whole_sum);
        return;
    }
    if (a.slot_max_sum)
        scale = unbias;
    if (a.slot_f16) {
        uint32_t *to = (uint32_t *)((__half *)a.slot_o + row * d + col);
#pragma unroll
        for (int i = 0; i < COLS; i += 2)
            to[i / 2] = pack<__half>(o[i] * scale, o[i + 1] * scale);
    } else {
        float2 *to = (float2 *)((float *)a.slot_o + row * d + col);
#pragma unroll
        for (int i = 0; i < COLS; i += 2)
            to[i / 2] = make_float2(o[i] * scale, o[i + 1] * scale);
    }
    if (with_weight && a.slot_max_sum)
        *(float2 *)(a.slot_w + row * 2) = make_float2(isnan(sum) ? sum : max, whole_sum);
    else if (with_weight)
        a.slot_w[row] = sum == 0 ? -INFINITY : max + log2f(whole_sum);
}

} // namespace treeattn

#endif
