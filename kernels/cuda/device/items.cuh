/*
 * items.cuh - an item as every group kernel sees it: where its rows come from, where its tokens are, and where
 * results go.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_ITEMS_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_ITEMS_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/device/fp8.cuh"
#include "kernels/cuda/device/launch.h"

namespace treeattn {

/* As the first CTAs of a run begin: lines of the page table and of the plan's arrays to the L2, for all that come after. */
template <int THREADS> __device__ inline void prefetch_plan(const cuda_group_args &a)
{
    if (const uint32_t line = blockIdx.x * THREADS + threadIdx.x; line < a.table_lines + a.block_lines)
        prefetch_line(line < a.table_lines ? (const char *)a.page_table + line * CUDA_LINE
                                           : (const char *)a.block + (line - a.table_lines) * CUDA_LINE);
}

/* What a CTA takes: of a segment an item, counted from its item0, and the first of its heads, which are head_groups apart. */
struct cta_work {
    const cuda_segment &g;
    int item, head_group;
};

__device__ __forceinline__ cta_work find_work(const cuda_group_args &a)
{
    int segment = 0; /* the last that begins no later */
#pragma unroll
    for (int i = 1; i < CUDA_SEGMENTS; i++)
        segment += (int)blockIdx.x >= a.segment[i].cta0;
    const cuda_segment &g = a.segment[segment];
    const int cta = blockIdx.x - g.cta0, item = g.head_shift >= 0 ? cta >> g.head_shift : cta / g.head_groups;
    return {g, item, cta - item * g.head_groups};
}

/* CTAs of this one's cluster, and its place among them. */
__device__ __forceinline__ int cluster_ctas()
{
    int n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
}

__device__ __forceinline__ int cluster_rank()
{
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* As find_work(), where the CTAs of a cluster have parts of the same rows, for one head. */
__device__ __forceinline__ cta_work find_work_of_cluster(const cuda_group_args &a)
{
    const int ctas = cluster_ctas(), cluster = blockIdx.x / ctas, rows = cluster / a.h_kv;
    return {a.segment[0], rows * ctas + cluster_rank(), cluster - rows * a.h_kv};
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
    int32_t run; /* counted from the item's first */
};

/* What an item of several runs has at a piece: the run, or the last before it, in which token t lies. Nobody waits for it
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
    return load_piece(a.piece + (it.piece0 + t / CUDA_PIECE));
}

/* A token's place in the page table unrolled to tokens; p becomes its run's. */
__device__ inline token find_in_run(const cuda_group_args &a, const cuda_item &it, int t, piece &p)
{
    while (t >= p.end)
        p = load_piece(a.run + (it.run0 + p.run + 1));
    return {p.base + t, 0, p.run};
}

__device__ inline token find_place(const cuda_group_args &a, const cuda_item &it, int t)
{
    if (it.n_runs == 1)
        return {(int32_t)it.base + t, 0, 0};
    piece p = find_piece(a, it, t);
    return find_in_run(a, it, t, p);
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

/* Columns of a row leave, COLS at col, at col + EVERY ... of which there are PIECES, in o STRIDE apart, two by two in o PAIR apart: O
 * as accumulated, its maximum in base 2, its sum; O and sum times 2^bias. */
template <typename T, int COLS, bool BIASED, int PIECES = 1, int STRIDE = 0, int PAIR = 2, int EVERY = 8>
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
                ((uint32_t *)to)[(p * EVERY + i) / 2] = pack<decltype(zero)>(o[p * STRIDE + i / 2 * PAIR] * scale,
                                                                             o[p * STRIDE + i / 2 * PAIR + 1] * scale);
    };
    const int64_t at = row * d + col;
    if (!to_slot) {
        of_stored<T>(a, [&](auto zero) { store_16_bit(zero, (decltype(zero) *)a.o + at); });
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
                to[(p * EVERY + i) / 2] = make_float2(o[p * STRIDE + i / 2 * PAIR] * scale,
                                                      o[p * STRIDE + i / 2 * PAIR + 1] * scale);
    }
    if (with_weight && a.slot_max_sum)
        *(float2 *)(a.slot_w + row * 2) = make_float2(isnan(sum) ? sum : max, whole_sum);
    else if (with_weight)
        a.slot_w[row] = sum == 0 ? -INFINITY : max + log2f(whole_sum);
}

/* Row r of an item for KV head 0: its row of Q, its query of the tile, where it goes. */
__device__ __forceinline__ void place_own_row(const cuda_group_args &a, const cuda_item &it, int r, int &q_row, int &row_k,
                                              int64_t &out_row)
{
    const row_place p = place_row(a, it, 0, r);
    q_row = (int)(p.query * a.h_q + p.head);
    row_k = p.k;
    out_row = place_out(a, it, p);
}

/* K and V of ROWS tokens of a warp to its rows of a stage, a piece of 16 bytes a lane, AT_ONCE rows at a time. to: the place of
 * this lane's piece of K of the first rows; V is v_behind it, or BESIDE it, in the other half of the same 128 bytes. kv_row: in lane
 * i the row of token i. left: from copy_row on, those that there are; the others become zeros. */
template <int ROWS, int AT_ONCE, int ROW_BYTES, bool ONCE, bool BESIDE = false>
__device__ __forceinline__ void copy_rows(uint32_t to, int v_behind, const char *k_piece, const char *v_piece, int kv_row,
                                          int copy_row, int left, uint32_t keep_kv)
{
#pragma unroll
    for (int i = 0; i < ROWS; i += AT_ONCE) {
        const int64_t from = (int64_t)__shfl_sync(~0u, kv_row, i + copy_row) * ROW_BYTES;
        if (ROWS % AT_ONCE != 0 && i + copy_row >= ROWS)
            continue;
        const uint32_t at = (to ^ (i % 8 << 4)) + i * 128;
        copy_async<ONCE>(at, k_piece + from, i, left, keep_kv);
        copy_async<ONCE>(BESIDE ? at ^ 64 : at + v_behind, v_piece + from, i, left, keep_kv);
    }
}

} // namespace treeattn

#endif
