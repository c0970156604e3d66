/*
 * unfused.cu - what stands between the products of a plan whose scores are materialised, a kernel for each step.
 *
 * Grid     gather: a CTA for 32 tokens (K and V through the page table into consecutive rows) and one for each
 *          score row (its row of Q); mask: a CTA for each score row, over all of its tokens; the others: a warp for
 *          each, or a CTA where rows are long.
 * Floor    of each kernel: its bytes. Scores are fp32: scale and mask read and write 4 bytes a score, softmax
 *          reads 4, twice where a row is longer than its threads keep, and writes 2. That traffic is what the fused
 *          kernels are there to avoid.
 */
#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/device/items.cuh"
#include "kernels/cuda/device/softmax.cuh"
#include "kernels/cuda/device/typed.cuh"

namespace treeattn {

enum {
    UNFUSED_WARPS = 4,
    UNFUSED_THREADS = 32 * UNFUSED_WARPS,
    KEPT = 8 /* times four scores of a row a lane, between the two passes of a softmax */
};

__global__ __launch_bounds__(UNFUSED_THREADS) void gather_kv_kernel(const __grid_constant__ unfused_args u)
{
    const unfused_block b = u.block[blockIdx.x];
    const cuda_item it = load_item(u.a.item + b.item);
    const int pieces = u.a.h_kv * u.d / 8, n = min(UNFUSED_TOKENS, it.n_kv - b.token);
    for (int t = 0; t < n; t++) {
        const int64_t from = (int64_t)slot_of(u.a, find_token(u.a, it, b.token + t)) * pieces, to = (b.to + t) * pieces;
        for (int i = threadIdx.x; i < pieces; i += UNFUSED_THREADS) {
            ((uint4 *)u.k)[to + i] = __ldg((const uint4 *)u.a.k + from + i);
            ((uint4 *)u.v)[to + i] = __ldg((const uint4 *)u.a.v + from + i);
        }
    }
}

__global__ void gather_q_kernel(const __grid_constant__ unfused_args u)
{
    const unfused_row r = u.row[blockIdx.x];
    const cuda_item it = load_item(u.a.item + r.item);
    const row_place p = place_row(u.a, it, r.kv_head, r.row);
    if (threadIdx.x < u.d / 8)
        ((uint4 *)u.q)[blockIdx.x * (int64_t)(u.d / 8) + threadIdx.x] =
            __ldg((const uint4 *)u.a.q + (p.query * u.a.h_q + p.head) * (u.d / 8) + threadIdx.x);
}

/* Of ROW_WARPS warps that share a row: that row, or one behind the last, and which of their threads this is. */
struct row_share {
    int64_t row;
    int thread;
};

template <int ROW_WARPS> __device__ inline row_share share_row()
{
    constexpr int THREADS = 32 * ROW_WARPS;
    return {blockIdx.x * (int64_t)(UNFUSED_THREADS / THREADS) + threadIdx.x / THREADS, (int)threadIdx.x % THREADS};
}

/* Four scores of a row, which begins at a multiple of 16 bytes; those behind its tokens as `otherwise`, unread. */
__device__ inline float4 load_scores(const float *score, int t, int n, float otherwise)
{
    if (t + 4 <= n)
        return *(const float4 *)(score + t);
    float4 x = {otherwise, otherwise, otherwise, otherwise};
    if (t < n)
        x.x = score[t];
    if (t + 1 < n)
        x.y = score[t + 1];
    if (t + 2 < n)
        x.z = score[t + 2];
    return x;
}

template <int ROW_WARPS>
__global__ __launch_bounds__(UNFUSED_THREADS) void scale_kernel(const __grid_constant__ unfused_args u)
{
    const row_share my = share_row<ROW_WARPS>();
    let_next_start();
    if (my.row >= u.n_rows)
        return;
    const unfused_row r = u.row[my.row];
    float *score = u.score + r.score;
    wait_for_previous();
    if (u.a.cap_scale != 0) {
        for (int t = my.thread; t < r.n; t += 32 * ROW_WARPS)
            score[t] = cap_score(score[t], u.a.cap_scale) * u.scale;
        return;
    }
#pragma unroll 8
    for (int t = 4 * my.thread; t < r.n; t += 128 * ROW_WARPS) {
        const float4 x = load_scores(score, t, r.n, 0);
        *(float4 *)(score + t) = make_float4(x.x * u.scale, x.y * u.scale, x.z * u.scale, x.w * u.scale);
    }
}

__global__ __launch_bounds__(UNFUSED_THREADS) void mask_kernel(const __grid_constant__ unfused_args u)
{
    const unfused_row r = u.row[blockIdx.x];
    const cuda_item it = load_item(u.a.item + r.item);
    const int k = (it.row0 + r.row) / u.a.gqa;
    for (int t = threadIdx.x; t < it.n_kv; t += UNFUSED_THREADS)
        if (!sees(u.a, it, k, find_place(u.a, it, t).run))
            u.score[r.score + t] = -INFINITY;
}

/* Over the warps of a row; every thread gets the result. */
template <int ROW_WARPS> __device__ inline float row_reduce(float x, bool sum)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        float y = __shfl_xor_sync(~0u, x, i);
        x = sum ? x + y : fmaxf(x, y);
    }
    if constexpr (ROW_WARPS > 1) {
        static_assert(ROW_WARPS == UNFUSED_WARPS, "all of a CTA");
        __shared__ float part[UNFUSED_WARPS];
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            part[threadIdx.x / 32] = x;
        __syncthreads();
        x = part[0];
#pragma unroll
        for (int i = 1; i < UNFUSED_WARPS; i++)
            x = sum ? x + part[i] : fmaxf(x, part[i]);
    }
    return x;
}

__device__ inline float max_of(float4 x)
{
    return fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
}

template <typename T, int ROW_WARPS>
__global__ __launch_bounds__(UNFUSED_THREADS) void softmax_kernel(const __grid_constant__ unfused_args u)
{
    constexpr int STEP = 128 * ROW_WARPS;
    const row_share my = share_row<ROW_WARPS>();
    let_next_start();
    if (my.row >= u.n_rows)
        return;
    const unfused_row r = u.row[my.row];
    const float *score = u.score + r.score;
    T *probability = (T *)u.probability + r.score;
    float max = -INFINITY, sum = 0;
    float4 kept[KEPT];
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        kept[i] = load_scores(score, 4 * my.thread + i * STEP, r.n, -INFINITY);
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        max = fmaxf(max, max_of(kept[i]));
    for (int t = 4 * my.thread + KEPT * STEP; t < r.n; t += STEP)
        max = fmaxf(max, max_of(load_scores(score, t, r.n, -INFINITY)));
    max = row_reduce<ROW_WARPS>(max, false);
    auto leave = [&](float4 x, int t) {
        auto probability_of = [&](float y) { return y == -INFINITY ? 0 : expf(y - max); };
        constexpr float biased = 1 / narrow<T>::unbias;
        const float p[4] = {probability_of(x.x), probability_of(x.y), probability_of(x.z), probability_of(x.w)};
        sum += (p[0] + p[1]) + (p[2] + p[3]);
        if (t < r.ld)
            *(uint2 *)(probability + t) =
                make_uint2(pack<T>(p[0] * biased, p[1] * biased), pack<T>(p[2] * biased, p[3] * biased));
    };
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (i * STEP < r.ld)
            leave(kept[i], 4 * my.thread + i * STEP);
    for (int t = 4 * my.thread + KEPT * STEP; t < r.ld; t += STEP)
        leave(load_scores(score, t, r.n, -INFINITY), t);
    sum = row_reduce<ROW_WARPS>(sum, true);
    if (my.thread == 0) {
        u.max[my.row] = max;
        u.sum[my.row] = sum;
    }
}

/* A row's O, divided by its sum, to its slot or to the output. */
template <typename T, int D>
__global__ __launch_bounds__(UNFUSED_THREADS) void store_kernel(const __grid_constant__ unfused_args u)
{
    constexpr int COLS = D / 32;
    const row_share my = share_row<1>();
    let_next_start();
    if (my.row >= u.n_rows)
        return;
    const unfused_row r = u.row[my.row];
    const cuda_item it = load_item(u.a.item + r.item);
    const row_place p = place_row(u.a, it, r.kv_head, r.row);
    float o[COLS] = {0};
    wait_for_previous();
    for (int part = 0; part < r.parts; part++) {
        const float *from = u.o + (r.o + (int64_t)part * r.next) * D + my.thread * COLS;
#pragma unroll
        for (int c = 0; c < COLS; c++)
            o[c] += from[c];
    }
#pragma unroll
    for (int c = 0; c < COLS; c++)
        o[c] *= narrow<T>::unbias;
    store_row<T, COLS, false>(u.a, it.slot0 >= 0, place_out(u.a, it, p), D, my.thread * COLS, o,
                              u.max[my.row] * 1.44269504088896f, u.sum[my.row], my.thread == 0);
}

template <typename T, int D, int ROW_WARPS>
static int launch_unfused(const unfused_args &u, unfused_stage stage, cudaStream_t st)
{
    const unsigned rows = (unsigned)u.n_rows,
                   shared = (unsigned)((u.n_rows * ROW_WARPS + UNFUSED_WARPS - 1) / UNFUSED_WARPS);
    switch (stage) {
    case UNFUSED_GATHER:
        gather_kv_kernel<<<(unsigned)u.n_blocks, UNFUSED_THREADS, 0, st>>>(u);
        gather_q_kernel<<<rows, 32, 0, st>>>(u);
        break;
    case UNFUSED_SCALE:
        return launch_dependent(scale_kernel<ROW_WARPS>, shared, UNFUSED_THREADS, 0, u.early, st, u);
    case UNFUSED_MASK:
        mask_kernel<<<rows, UNFUSED_THREADS, 0, st>>>(u);
        break;
    case UNFUSED_SOFTMAX:
        return launch_dependent(softmax_kernel<T, ROW_WARPS>, shared, UNFUSED_THREADS, 0, u.early, st, u);
    case UNFUSED_STORE:
        return launch_dependent(store_kernel<T, D>, (rows + UNFUSED_WARPS - 1) / UNFUSED_WARPS, UNFUSED_THREADS, 0, u.early,
                                st, u);
    }
    return cudaGetLastError();
}

template <typename T, int D> static int launch_for_length(const unfused_args &u, unfused_stage stage, cudaStream_t st)
{
    return u.most_scores <= 4 * 32 * KEPT ? launch_unfused<T, D, 1>(u, stage, st)
                                          : launch_unfused<T, D, UNFUSED_WARPS>(u, stage, st);
}

} // namespace treeattn

extern "C" int cuda_launch_unfused(const cuda_shape *s, const unfused_args *u, unfused_stage stage, void *stream)
{
    using namespace treeattn;
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return launch_for_length<decltype(t), decltype(d)::value>(*u, stage, (cudaStream_t)stream);
    });
}
