/*
 * wide_store.cuh - how rows of wide tiles leave their CTA: to the output or to slots, or merged with those of the other CTAs of a
 * cluster.
 *
 * In a cluster each CTA has a part of the tokens of the same rows. It leaves O, maximum and sum of all of them in its shared memory. When
 * all CTAs have, each merges some columns of all rows, which it reads from the shared memory of each, and sends them to the output. So
 * there are no partial results in memory, and there is no merge kernel behind.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_WIDE_STORE_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_WIDE_STORE_CUH

#include "kernels/cuda/device/items.cuh"
#include "kernels/cuda/device/softmax.cuh"
#include "kernels/cuda/device/warp_row.cuh"

namespace treeattn {

/* Of four lanes side by side, lane q gets word q of each, in their order. */
__device__ __forceinline__ void transpose_quad(uint32_t w[4], int q)
{
    const bool odd = q & 1, high = q & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(~0u, odd ? w[i] : w[i + 1], 1);
        w[i] = odd ? got : w[i];
        w[i + 1] = odd ? w[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(~0u, high ? w[i] : w[i + 2], 2);
        w[i] = high ? got : w[i];
        w[i + 2] = high ? w[i + 2] : got;
    }
}

/* 32 columns of a row leave for the output, 16 bytes a lane: of four lanes side by side, q of which is this one, each has every fourth
 * pair of columns, in o from `first` on, before it is divided by the sum. to: this lane's bytes. All lanes come here; those without a
 * row do not store. */
template <typename E, int N>
__device__ __forceinline__ void store_quad(uint4 *to, const float (*o)[N], int first, float scale, int q, bool is_row)
{
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = pack<E>(o[i][first] * scale, o[i][first + 1] * scale);
    transpose_quad(w, q);
    if (is_row)
        *to = make_uint4(w[0], w[1], w[2], w[3]);
}

template <typename T> __device__ __forceinline__ float lse_of(float max, float sum)
{
    return sum == 0 ? -INFINITY : max * 0.693147180559945f + logf(sum * narrow<T>::unbias);
}

/* Rows of a head leave, as store_rows() does it, but eight of a warp, r in this lane, which are row H of each lane in o, max and sum. To
 * the output 16 bytes at a time, as a line that is written in parts takes the longer the more they are; partial results are pieces of
 * 32 bytes anyway. */
template <typename T, int D, int H>
__device__ __forceinline__ void store_eight(const cuda_group_args &a, const cuda_item &it, const float (*o)[4],
                                            const float max[2], float sum[2], int64_t out_row, int head, int r,
                                            int my_rows, int lane)
{
    const int q = lane & 3;
    add_up_quad(sum[H]);
    const int64_t row = __shfl_sync(~0u, out_row, r) + head * a.gqa;
    if (it.slot0 >= 0) {
        if (r < my_rows)
            store_row<T, 2, true, D / 8, 4>(a, true, row, D, q * 2, &o[0][2 * H], max[H], sum[H], q == 0);
        return;
    }
    const float scale = sum[H] == 0 ? 0 : 1 / sum[H]; /* NaN stays NaN */
    of_stored<T>(a, [&](auto zero) {
        uint4 *to = (uint4 *)((decltype(zero) *)a.o + row * D) + q;
#pragma unroll
        for (int ob = 0; ob < D / 8; ob += 4)
            store_quad<decltype(zero)>(to + ob, o + ob, 2 * H, scale, q, r < my_rows);
    });
    if (q == 0 && r < my_rows)
        a.lse[row] = lse_of<T>(max[H], sum[H]);
}

/* ---- in a cluster ---------------------------------------------------------------------------------------- */

/* What all its threads have written before is there for those that waited. Threads that have ended count as having arrived. */
__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
}

/* The address in the shared memory of that CTA of what is at the same place in this one's. */
__device__ __forceinline__ uint32_t address_in_cta(uint32_t address, int rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ __forceinline__ float4 load_there(uint32_t address)
{
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address));
    return x;
}

__device__ __forceinline__ float2 load_pair_there(uint32_t address)
{
    float2 x;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
    return x;
}

__device__ __forceinline__ float4 load_here(uint32_t address)
{
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(address));
    return x;
}

__device__ __forceinline__ float2 load_pair_here(uint32_t address)
{
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
    return x;
}

/* What a CTA of a cluster leaves for the others, of each of THREADS threads. O: of each row that it has, HALVES of them, 32 columns are a
 * unit, which is QUADS times 4 floats a thread. Then maximum and sum of each row. */
template <int D, int HALVES> struct met_layout {
    static constexpr int THREADS = 256, UNITS = D / 32, QUADS = 2 * HALVES;
    static constexpr int weights = UNITS * QUADS * THREADS * 16;
    static constexpr int bytes = weights + HALVES * THREADS * 8;
};

/* Rows of a thread, as CTAs of a cluster have them: columns of a unit, o[row][of four lanes side by side, its pairs of columns]. */
template <int HALVES> struct met_rows {
    float o[HALVES][4][2];
    float2 weight[HALVES]; /* maximum, sum */

    /* Loads unit u of what a CTA has left; of another CTA, or (HERE) of this one. */
    template <typename L, bool HERE> __device__ __forceinline__ void load(uint32_t at, int u)
    {
        float4 x[L::QUADS];
#pragma unroll
        for (int i = 0; i < L::QUADS; i++)
            x[i] = HERE ? load_here(at + ((u * L::QUADS + i) * L::THREADS + threadIdx.x) * 16)
                        : load_there(at + ((u * L::QUADS + i) * L::THREADS + threadIdx.x) * 16);
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            weight[h] = HERE ? load_pair_here(at + L::weights + (h * L::THREADS + threadIdx.x) * 8)
                             : load_pair_there(at + L::weights + (h * L::THREADS + threadIdx.x) * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float4 y = x[HALVES == 2 ? i : i / 2];
            o[0][i][0] = HALVES == 2 || i % 2 == 0 ? y.x : y.z;
            o[0][i][1] = HALVES == 2 || i % 2 == 0 ? y.y : y.w;
            if (HALVES == 2) {
                o[HALVES - 1][i][0] = y.z;
                o[HALVES - 1][i][1] = y.w;
            }
        }
    }

    __device__ __forceinline__ void add(const met_rows &x)
    {
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const float top = fmaxf(weight[h].x, x.weight[h].x);
            const float mine = exp2_whole(weight[h].x, top), its = exp2_whole(x.weight[h].x, top);
            weight[h] = make_float2(top, mine * weight[h].y + its * x.weight[h].y);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int k = 0; k < 2; k++) { /* a weight of 0 makes 0, whatever O is */
                    const float old = mine == 0 ? 0 : mine * o[h][i][k];
                    o[h][i][k] = its == 0 ? old : fmaf(its, x.o[h][i][k], old);
                }
        }
    }
};

/*
 * Merges rows of a head with those of the other CTAs of the cluster, and sends them to the output. As for store_eight(), but of both
 * halves of 16 rows, or (HALVES = 1) of the first in o, max and sum, which is `half` of the 16. q_row: in lane i the row of Q, and so of
 * the output, of row i for KV head 0. at: where in the shared memory of each CTA there is room, which nobody else reads or writes any
 * more. max is NaN in all lanes of a warp whose rows want to be done again. Returns whether any CTA has such rows in this warp, then
 * none is stored. Others read this CTA's shared memory until cluster_arrive() and cluster_wait(), which are up to the caller.
 */
template <typename T, int D, int HALVES>
__device__ __forceinline__ bool meet_in_cluster(const cuda_group_args &a, unsigned char *at, const float (*o)[4],
                                                const float max[2], float sum[2], int q_row, int head, int half, int my_rows,
                                                int lane)
{
    using L = met_layout<D, HALVES>;
    float4 *const mine = (float4 *)at + threadIdx.x;
#pragma unroll
    for (int i = 0; i < L::UNITS * L::QUADS; i++)
        mine[i * L::THREADS] = HALVES == 2 ? make_float4(o[i][0], o[i][1], o[i][2], o[i][3])
                                           : make_float4(o[2 * i][0], o[2 * i][1], o[2 * i + 1][0], o[2 * i + 1][1]);
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        add_up_quad(sum[h]);
        ((float2 *)(at + L::weights))[h * L::THREADS + threadIdx.x] = make_float2(max[h], sum[h]);
    }
    __syncwarp();
    cluster_arrive();
    const int ctas = cluster_ctas(), rank = cluster_rank(), q = lane & 3;
    const uint32_t here = smem_address(at);
    bool far = false;
    cluster_wait();
    /* Also a CTA without units asks once whether rows are far. */
#pragma unroll 1
    for (int u = rank; u < L::UNITS || u == rank; u += ctas) {
        met_rows<HALVES> all, next, x;
        const int of_row = u % L::UNITS;
        int other = rank + 1 == ctas ? 0 : rank + 1;
        next.template load<L, false>(address_in_cta(here, other), of_row);
        all.template load<L, true>(here, of_row);
        far |= isnan(all.weight[0].x);
#pragma unroll 1
        for (int i = 1; i < ctas; i++) {
            x = next;
            other = other + 1 == ctas ? 0 : other + 1;
            if (i + 1 < ctas)
                next.template load<L, false>(address_in_cta(here, other), of_row);
            far |= isnan(x.weight[0].x);
            all.add(x);
        }
        far = __any_sync(~0u, far);
        if (far || u >= L::UNITS)
            break;
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const int r = lane / 4 + 8 * (HALVES == 1 ? half : h);
            const int64_t row = __shfl_sync(~0u, q_row, r) + head * a.gqa;
            const float scale = all.weight[h].y == 0 ? 0 : 1 / all.weight[h].y; /* NaN stays NaN */
            const int64_t to = row * D + u * 32;
            of_stored<T>(a, [&](auto zero) {
                store_quad<decltype(zero)>((uint4 *)((decltype(zero) *)a.o + to) + q, all.o[h], 0, scale, q, r < my_rows);
            });
            if (u == 0 && q == 0 && r < my_rows)
                a.lse[row] = lse_of<T>(all.weight[h].x, all.weight[h].y);
        }
    }
    return far;
}

/* What meet_in_cluster() has not stored of a warp's rows: each CTA of the cluster computes every so many of them anew, over the tokens of
 * all. A call, as redo_rows(). */
template <typename T, int D> __device__ __noinline__ void redo_met_rows(const cuda_group_args &a, stored_rows x)
{
    const cta_work work = find_work_of_cluster(a);
    const int ctas = cluster_ctas(), rank = cluster_rank(), lane = threadIdx.x % 32, head = work.head_group;
    const cuda_item *first = a.item + (work.g.item0 + work.item - rank) * x.items + x.item; /* of the cluster */
    const cuda_item it = load_item(first);
    const int row_first = threadIdx.x / 32 % x.warps * x.block;
#pragma unroll 1
    for (int r = row_first + rank; r < min(row_first + x.block, it.n_rows); r += ctas) {
        warp_row<T, D, false, T> row;
        row.begin(a, it, head, r, lane);
#pragma unroll 1
        for (int j = 0; j < ctas; j++)
            row.attend(a, load_item(first + j * x.items), head, lane);
        row.store(a, false, row.p.query * a.h_q + row.p.head, head, lane);
    }
}

} // namespace treeattn

#endif
