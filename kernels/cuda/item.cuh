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

/* As the first CTAs of a run begin: lines of the page table and of the plan's arrays to the L2, for all that come after. */
template <int THREADS> __device__ inline void prefetch_plan(const cuda_group_args &a)
{
    if (const uint32_t line = blockIdx.x * THREADS + threadIdx.x; line < a.table_lines + a.block_lines)
        prefetch_line(line < a.table_lines ? (const char *)a.page_table + line * CUDA_LINE
                                           : (const char *)a.block + (line - a.table_lines) * CUDA_LINE);
}

/* Where the rows of an item come from and go to. */
struct row_place {
    int64_t query; /* as the tree numbers them */
    int32_t head, k; /* query head; query of the tile */
};

/* Of a row of the group: its query. */
__device__ inline int query_of(const cuda_group_args &a, int row)
{
    return a.gqa_shift >= 0 ? row >> a.gqa_shift : row / a.gqa;
}

__device__ inline row_place place_row(const cuda_group_args &a, const cuda_item &it, int kv_head, int r)
{
    const int row = it.row0 + r, k = query_of(a, row);
    row_place p;
    p.k = k - query_of(a, it.row0);
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

struct token {
    int32_t place; /* in the page table unrolled to tokens, or, with its page known, in the page; < 0: no token */
    int32_t page;
    int32_t run; /* counted from the group's first */
};

/* What a group of several runs has at a piece: the run, or the last before it, in which token t lies. Nobody waits for it
 * until find_in_run(). */
struct piece {
    int32_t base, end, run; /* of base the low bits: what it is added to stays below 2^31 */
};

__device__ inline piece load_piece(const cuda_kv_run *from)
{
    static_assert(sizeof(cuda_kv_run) == 16, "read as one word");
    const int4 x = __ldg((const int4 *)from);
    return {x.x, x.z, x.w};
}

__device__ inline piece find_piece(const cuda_group_args &a, const cuda_item &it, int t)
{
    return load_piece(a.piece + it.piece0 + t / CUDA_PIECE);
}

/* A token's place in the page table unrolled to tokens. */
__device__ inline token find_in_run(const cuda_group_args &a, const cuda_item &it, int t, piece p)
{
    while (t >= p.end)
        p = load_piece(a.run + it.run0 + p.run + 1);
    return {p.base + t, 0, p.run};
}

__device__ inline token find_place(const cuda_group_args &a, const cuda_item &it, int t)
{
    if (it.n_runs == 1)
        return {(int32_t)it.base + t, 0, 0};
    return find_in_run(a, it, t, find_piece(a, it, t));
}

/* From there to its page. Until slot_of() nobody waits for the page table. */
__device__ inline void find_page(const cuda_group_args &a, token &x)
{
    const int page = a.page_shift >= 0 ? x.place >> a.page_shift : x.place / a.page_size;
    x.place -= page * a.page_size;
    x.page = __ldg(a.page_table + page);
}

__device__ inline int slot_of(const cuda_group_args &a, const token &x)
{
    return x.page * a.page_size + x.place;
}

__device__ inline token find_token(const cuda_group_args &a, const cuda_item &it, int t)
{
    token x = find_place(a, it, t);
    find_page(a, x);
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

/* Columns of a row leave, COLS at col, at col + 8 ... of which there are PIECES, in o STRIDE apart: O as accumulated, its
 * maximum in base 2, its sum; O and sum times 2^bias. */
template <typename T, int COLS, bool BIASED, int PIECES = 1, int STRIDE = 0>
__device__ inline void store_row(const cuda_group_args &a, bool to_slot, int64_t row, int d, int col,
                                 const float *o, float max, float sum, bool with_weight)
{
    const float unbias = BIASED ? narrow<T>::unbias : 1, whole_sum = sum * unbias;
    const float scale = to_slot && a.slot_max_sum ? unbias : sum == 0 ? 0 : 1 / sum; /* NaN stays NaN */
    auto store_16_bit = [&](auto zero, void *to) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int i = 0; i < COLS; i += 2)
                ((uint32_t *)to)[(p * 8 + i) / 2] =
                    pack<decltype(zero)>(o[p * STRIDE + i] * scale, o[p * STRIDE + i + 1] * scale);
    };
    const int64_t at = row * d + col;
    if (!to_slot) {
        store_16_bit(T(), (T *)a.o + at);
        if (with_weight)
            a.lse[row] = sum == 0 ? -INFINITY : max * 0.693147180559945f + logf(whole_sum);
        return;
    }
    if (a.slot_f16) {
        store_16_bit(__half(), (__half *)a.slot_o + at);
    } else {
        float2 *to = (float2 *)((float *)a.slot_o + at);
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int i = 0; i < COLS; i += 2)
                to[(p * 8 + i) / 2] = make_float2(o[p * STRIDE + i] * scale, o[p * STRIDE + i + 1] * scale);
    }
    if (with_weight && a.slot_max_sum)
        *(float2 *)(a.slot_w + row * 2) = make_float2(isnan(sum) ? sum : max, whole_sum);
    else if (with_weight)
        a.slot_w[row] = sum == 0 ? -INFINITY : max + log2f(whole_sum);
}

} // namespace treeattn

#endif
