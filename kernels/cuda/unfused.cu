/*
 * unfused.cu - what stands between the GEMMs of a plan whose scores are materialised, a kernel for each step.
 *
 * Grid     gather: a CTA for 32 tokens (K and V through the page table into consecutive rows) and one for each
 *          score row (its row of Q); the others: a CTA for each score row, over all of its tokens.
 * Floor    of each kernel: its bytes. Scores are fp32: scale and mask read and write 4 bytes a score, softmax
 *          reads 4 twice and writes 2. That traffic is what the fused kernels are there to avoid.
 */
#include "kernels/cuda/item.cuh"

namespace treeattn {

enum { UNFUSED_THREADS = 128 };

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

__global__ __launch_bounds__(UNFUSED_THREADS) void scale_kernel(const __grid_constant__ unfused_args u)
{
    const unfused_row r = u.row[blockIdx.x];
    const int n = u.a.item[r.item].n_kv;
    for (int t = threadIdx.x; t < n; t += UNFUSED_THREADS)
        u.score[r.score + t] *= u.scale;
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

/* Over the CTA; every thread gets the result. */
__device__ inline float cta_reduce(float x, bool sum)
{
    __shared__ float part[UNFUSED_THREADS / 32];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        float y = __shfl_xor_sync(~0u, x, i);
        x = sum ? x + y : fmaxf(x, y);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int i = 1; i < UNFUSED_THREADS / 32; i++)
        x = sum ? x + part[i] : fmaxf(x, part[i]);
    return x;
}

template <typename T>
__global__ __launch_bounds__(UNFUSED_THREADS) void softmax_kernel(const __grid_constant__ unfused_args u)
{
    const unfused_row r = u.row[blockIdx.x];
    const int n = u.a.item[r.item].n_kv;
    const float *score = u.score + r.score;
    T *probability = (T *)u.probability + r.score;
    float max = -INFINITY, sum = 0;
    for (int t = threadIdx.x; t < n; t += UNFUSED_THREADS)
        max = fmaxf(max, score[t]);
    max = cta_reduce(max, false);
    for (int t = threadIdx.x; t < r.ld; t += UNFUSED_THREADS) {
        float p = t >= n || score[t] == -INFINITY ? 0 : expf(score[t] - max);
        sum += p;
        uint32_t two = pack<T>(p * (1 / narrow<T>::unbias), 0);
        ((uint16_t *)probability)[t] = (uint16_t)two;
    }
    sum = cta_reduce(sum, true);
    if (threadIdx.x == 0) {
        u.max[blockIdx.x] = max;
        u.sum[blockIdx.x] = sum;
    }
}

/* A row's O, divided by its sum, to its slot or to the output. */
template <typename T, int D>
__global__ __launch_bounds__(32) void store_kernel(const __grid_constant__ unfused_args u)
{
    constexpr int COLS = D / 32;
    const unfused_row r = u.row[blockIdx.x];
    const cuda_item it = load_item(u.a.item + r.item);
    const row_place p = place_row(u.a, it, r.kv_head, r.row);
    float o[COLS];
#pragma unroll
    for (int c = 0; c < COLS; c++)
        o[c] = u.o[blockIdx.x * (int64_t)D + threadIdx.x * COLS + c] * narrow<T>::unbias;
    store_row<T, COLS, false>(u.a, it.slot0 >= 0, place_out(u.a, it, p), D, threadIdx.x * COLS, o, u.max[blockIdx.x] * 1.44269504088896f,
                              u.sum[blockIdx.x], threadIdx.x == 0);
}

template <typename T, int D> static int launch_unfused(const unfused_args &u, unfused_stage stage, cudaStream_t st)
{
    const unsigned rows = (unsigned)u.n_rows;
    switch (stage) {
    case UNFUSED_GATHER:
        gather_kv_kernel<<<(unsigned)u.n_blocks, UNFUSED_THREADS, 0, st>>>(u);
        gather_q_kernel<<<rows, 32, 0, st>>>(u);
        break;
    case UNFUSED_SCALE:
        scale_kernel<<<rows, UNFUSED_THREADS, 0, st>>>(u);
        break;
    case UNFUSED_MASK:
        mask_kernel<<<rows, UNFUSED_THREADS, 0, st>>>(u);
        break;
    case UNFUSED_SOFTMAX:
        softmax_kernel<T><<<rows, UNFUSED_THREADS, 0, st>>>(u);
        break;
    case UNFUSED_STORE:
        store_kernel<T, D><<<rows, 32, 0, st>>>(u);
        break;
    }
    return cudaGetLastError();
}

} // namespace treeattn

extern "C" int cuda_launch_unfused(const cuda_shape *s, const unfused_args *u, unfused_stage stage, void *stream)
{
    using namespace treeattn;
    cudaStream_t st = (cudaStream_t)stream;
    if (s->t == CUDA_F16)
        return s->d == 64 ? launch_unfused<__half, 64>(*u, stage, st) : launch_unfused<__half, 128>(*u, stage, st);
    return s->d == 64 ? launch_unfused<__nv_bfloat16, 64>(*u, stage, st)
                      : launch_unfused<__nv_bfloat16, 128>(*u, stage, st);
}
