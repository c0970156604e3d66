/*
 * decode.cu - what a decode step does between its products.
 *
 * Idea     one pass each over activations that a product has just left in the L2: embedding and the table of angles;
 *          norm; heads (norm, rotation, K and V into the paged pool); gate. Residuals are added by the products.
 * Grid     begin, norm: a CTA a query. Heads: a warp for each query and head. Gate: 8 elements a thread.
 * Floor    n * hidden * 6 bytes for a norm, n * (h_q + 2 h_kv) * d * 4 for heads, n * ffn * 6 for a gate: 0.4 to 2 MB at
 *          n = 64 of an 8B model, under a microsecond from the L2. What they cost is their launch; they are launched
 *          early (programmatic dependent launch) and wait before they read.
 */
#include "kernels/decode/decode_launch.h"
#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "ref/rng.h"

namespace treeattn {

enum { NORM_THREADS = 512, MERGE_WARPS = 4, HEAD_WARPS = 4, GATE_THREADS = 256, GATE_COLS = 8, RANDOM_THREADS = 256, COPY_THREADS = 256, COPIES = 8 };

template <typename T> __device__ T from_double(double x);
template <> __device__ inline __half from_double<__half>(double x)
{
    return __double2half(x);
}
template <> __device__ inline __nv_bfloat16 from_double<__nv_bfloat16>(double x)
{
    return __double2bfloat16(x);
}

__device__ inline float widen(__half x)
{
    return __half2float(x);
}
__device__ inline float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* Two neighbours from one word. */
template <typename T> __device__ inline float2 unpack(uint32_t w);
template <> __device__ inline float2 unpack<__half>(uint32_t w)
{
    return __half22float2(*(const __half2 *)&w);
}
template <> __device__ inline float2 unpack<__nv_bfloat16>(uint32_t w)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)&w);
}

__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(~0u, x, i);
    return x;
}

template <typename T>
__global__ __launch_bounds__(NORM_THREADS) void begin_kernel(const __grid_constant__ decode_args a, const T *embedding)
{
    const int q = blockIdx.x, half = a.d / 2;
    const uint32_t *from = (const uint32_t *)(embedding + (int64_t)a.token[q] * a.hidden);
    float2 *x = (float2 *)(a.x + (int64_t)q * a.hidden);
    let_next_start();
    for (int i = threadIdx.x; i < a.hidden / 2; i += blockDim.x)
        x[i] = unpack<T>(from[i]);
    /* in double: an angle of thousands of radians in fp32 has lost the digits that matter */
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        double s, c;
        sincospi(a.position[q] * a.frequency[i], &s, &c);
        ((float2 *)a.turn)[(int64_t)q * half + i] = make_float2((float)c, (float)s);
    }
}

template <typename T>
__global__ __launch_bounds__(NORM_THREADS) void norm_kernel(const __grid_constant__ decode_args a, const T *weight)
{
    __shared__ float part[NORM_THREADS / 32];
    const float2 *x = (const float2 *)(a.x + (int64_t)blockIdx.x * a.hidden);
    uint32_t *h = (uint32_t *)((T *)a.h + (int64_t)blockIdx.x * a.hidden);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0;
    let_next_start();
    wait_for_previous();
    for (int i = threadIdx.x; i < a.hidden / 2; i += blockDim.x)
        sum += x[i].x * x[i].x + x[i].y * x[i].y;
    sum = warp_sum(sum);
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    sum = warp_sum(lane < NORM_THREADS / 32 ? part[lane] : 0);
    const float scale = rsqrtf(sum / a.hidden + a.eps);
    for (int i = threadIdx.x; i < a.hidden / 2; i += blockDim.x) {
        float2 w = unpack<T>(((const uint32_t *)weight)[i]), y = x[i];
        h[i] = pack<T>(y.x * scale * w.x, y.y * scale * w.y);
    }
}

/* A lane has PAIRS pairs of columns: i and i + D / 2 for i from lane * PAIRS on. */
template <typename T, int D>
__global__ __launch_bounds__(32 * HEAD_WARPS) void heads_kernel(const __grid_constant__ decode_args a, const T *q_norm,
                                                                 const T *k_norm, T *k, T *v)
{
    constexpr int PAIRS = D / 64, HALF = D / 2;
    const int lane = threadIdx.x % 32, heads = a.h_q + 2 * a.h_kv;
    const int64_t row = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32;
    const int q = (int)(row / heads), head = (int)(row % heads);
    let_next_start();
    wait_for_previous();
    if (q >= a.n)
        return;
    const bool is_q = head < a.h_q, is_v = head >= a.h_q + a.h_kv;
    const T *from = (const T *)a.qkv + row * D + lane * PAIRS;
    float x[PAIRS], y[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        x[j] = widen(from[j]);
        y[j] = widen(from[HALF + j]);
    }
    if (q_norm && !is_v) {
        const T *weight = (is_q ? q_norm : k_norm) + lane * PAIRS;
        float sum = 0;
#pragma unroll
        for (int j = 0; j < PAIRS; j++)
            sum += x[j] * x[j] + y[j] * y[j];
        const float scale = rsqrtf(warp_sum(sum) / D + a.eps);
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            x[j] *= scale * widen(weight[j]);
            y[j] *= scale * widen(weight[HALF + j]);
        }
    }
    if (!is_v) {
        const float2 *turn = (const float2 *)a.turn + (int64_t)q * HALF + lane * PAIRS;
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            const float2 t = turn[j]; /* cosine, sine */
            const float turned = x[j] * t.x - y[j] * t.y;
            y[j] = y[j] * t.x + x[j] * t.y;
            x[j] = turned;
        }
    }
    T *to = is_q ? (T *)a.q + ((int64_t)q * a.h_q + head) * D
                 : (is_v ? v : k) + (a.slot[q] * a.h_kv + (head - a.h_q) % a.h_kv) * D;
    to += lane * PAIRS;
    if constexpr (PAIRS == 2) {
        *(uint32_t *)to = pack<T>(x[0], x[1]);
        *(uint32_t *)(to + HALF) = pack<T>(y[0], y[1]);
    } else {
        to[0] = T(x[0]);
        to[HALF] = T(y[0]);
    }
}

template <typename T> __device__ inline uint32_t gated(uint32_t gate, uint32_t up)
{
    const float2 g = unpack<T>(gate), u = unpack<T>(up);
    return pack<T>(g.x / (1 + __expf(-g.x)) * u.x, g.y / (1 + __expf(-g.y)) * u.y);
}

template <typename T>
__global__ __launch_bounds__(GATE_THREADS) void gate_kernel(const __grid_constant__ decode_args a)
{
    const int64_t cols = a.ffn / GATE_COLS, i = (int64_t)blockIdx.x * GATE_THREADS + threadIdx.x;
    let_next_start();
    wait_for_previous();
    if (i >= a.n * cols)
        return;
    const int64_t q = i / cols, c = i % cols;
    const uint4 *wide = (const uint4 *)a.wide + q * 2 * cols + c;
    const uint4 g = wide[0], u = wide[cols];
    ((uint4 *)a.mlp)[i] =
        make_uint4(gated<T>(g.x, u.x), gated<T>(g.y, u.y), gated<T>(g.z, u.z), gated<T>(g.w, u.w));
}

template <typename T> __global__ void random_kernel(T *to, int64_t n, const __grid_constant__ decode_random r)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t at = r.first + i / r.cols * r.stride + i % r.cols;
        to[i] = from_double<T>(__dadd_rn(r.mean, __dmul_rn(r.spread, rng_bell(r.seed, r.series, (uint64_t)at))));
    }
}

/* A warp for each query and head; a lane has pairs of columns, 64 apart. The rule of ref/lse.h: a part whose LSE is -inf is
 * empty and counts for nothing. */
template <typename T> __global__ __launch_bounds__(32 * MERGE_WARPS) void cards_kernel(const __grid_constant__ decode_merge_args a)
{
    const int64_t row = (int64_t)blockIdx.x * MERGE_WARPS + threadIdx.x / 32;
    if (row >= (int64_t)a.n * a.n_h)
        return;
    const int64_t from = row / a.n_h * a.h_q + a.h0 + row % a.n_h, rows = (int64_t)a.n * a.h_q;
    const int lane = threadIdx.x % 32;
    float top = -INFINITY, sum = 0;
    for (int c = 0; c < a.cards; c++)
        top = fmaxf(top, ((const float *)((const char *)a.parts + c * a.bytes + rows * a.d * 2))[from]);
    for (int c = 0; c < a.cards && top > -INFINITY; c++)
        sum += expf(((const float *)((const char *)a.parts + c * a.bytes + rows * a.d * 2))[from] - top);
    for (int i = lane; i < a.d / 2; i += 32) {
        float2 o = make_float2(0, 0);
        for (int c = 0; c < a.cards && top > -INFINITY; c++) {
            const char *part = (const char *)a.parts + c * a.bytes;
            const float lse = ((const float *)(part + rows * a.d * 2))[from];
            const float w = expf(lse - top) / sum;
            const float2 x = unpack<T>(((const uint32_t *)part)[from * (a.d / 2) + i]);
            if (lse > -INFINITY || lse != lse) {
                o.x += w * x.x;
                o.y += w * x.y;
            }
        }
        ((uint32_t *)a.o)[row * (a.d / 2) + i] = pack<T>(o.x, o.y);
    }
    if (lane == 0)
        a.lse[row] = top > -INFINITY ? top + logf(sum) : top;
}

__global__ void move_kernel(uint4 *pool, int64_t stride, int64_t words, const int64_t *slot, uint4 *held, bool back)
{
    const int64_t n = gridDim.x;
    uint4 *there = pool + blockIdx.y * stride + slot[blockIdx.x] * words;
    uint4 *here = held + (blockIdx.y * n + blockIdx.x) * words;
    for (int64_t i = threadIdx.x; i < words; i += blockDim.x) {
        if (back)
            there[i] = here[i];
        else
            here[i] = there[i];
    }
}

/* COPIES tokens a CTA */
__global__ __launch_bounds__(COPY_THREADS) void copy_kernel(uint4 *pool, int64_t stride, int64_t words, int64_t n,
                                                            const int64_t *slot)
{
    const int64_t first = (int64_t)blockIdx.x * COPIES;
    const int64_t total = (n - first < COPIES ? n - first : COPIES) * words;
    uint4 *layer = pool + blockIdx.y * stride;
    for (int64_t i = threadIdx.x; i < total; i += COPY_THREADS) {
        const int64_t token = first + i / words, word = i % words;
        layer[slot[n + token] * words + word] = layer[slot[token] * words + word];
    }
}

template <typename... P, typename... A>
static int launch(void (*kernel)(P...), int64_t grid, int threads, bool early, void *stream, const A &...args)
{
    return launch_dependent(kernel, dim3((unsigned)grid), threads, 0, early, (cudaStream_t)stream, args...);
}

template <typename T> static int begin(const decode_args &a, const void *embedding, void *stream)
{
    return launch(begin_kernel<T>, a.n, NORM_THREADS, false, stream, a, (const T *)embedding);
}

template <typename T> static int norm(const decode_args &a, const void *weight, void *stream)
{
    return launch(norm_kernel<T>, a.n, NORM_THREADS, a.early, stream, a, (const T *)weight);
}

template <typename T>
static int heads(const decode_args &a, const void *q_norm, const void *k_norm, void *k, void *v, void *stream)
{
    const int64_t warps = (int64_t)a.n * (a.h_q + 2 * a.h_kv);
    return launch(a.d == 64 ? heads_kernel<T, 64> : heads_kernel<T, 128>, (warps + HEAD_WARPS - 1) / HEAD_WARPS,
                  32 * HEAD_WARPS, a.early, stream, a, (const T *)q_norm, (const T *)k_norm, (T *)k, (T *)v);
}

template <typename T> static int gate(const decode_args &a, void *stream)
{
    const int64_t threads = (int64_t)a.n * (a.ffn / GATE_COLS);
    return launch(gate_kernel<T>, (threads + GATE_THREADS - 1) / GATE_THREADS, GATE_THREADS, a.early, stream, a);
}

template <typename T> static int fill_random(void *dev, int64_t n, const decode_random &r, void *stream)
{
    random_kernel<T><<<132 * 8, RANDOM_THREADS, 0, (cudaStream_t)stream>>>((T *)dev, n, r);
    return cudaGetLastError();
}

template <typename T> static int merge_cards(const decode_merge_args &a, void *stream)
{
    const int64_t rows = (int64_t)a.n * a.n_h;
    cards_kernel<T><<<(unsigned)((rows + MERGE_WARPS - 1) / MERGE_WARPS), 32 * MERGE_WARPS, 0, (cudaStream_t)stream>>>(a);
    return cudaGetLastError();
}

} // namespace treeattn

using namespace treeattn;

extern "C" int decode_launch_begin(const decode_args *a, const void *embedding, void *stream)
{
    return a->bf16 ? begin<__nv_bfloat16>(*a, embedding, stream) : begin<__half>(*a, embedding, stream);
}

extern "C" int decode_launch_norm(const decode_args *a, const void *weight, void *stream)
{
    return a->bf16 ? norm<__nv_bfloat16>(*a, weight, stream) : norm<__half>(*a, weight, stream);
}

extern "C" int decode_launch_heads(const decode_args *a, const void *q_norm, const void *k_norm, void *k, void *v,
                                   void *stream)
{
    return a->bf16 ? heads<__nv_bfloat16>(*a, q_norm, k_norm, k, v, stream)
                   : heads<__half>(*a, q_norm, k_norm, k, v, stream);
}

extern "C" int decode_launch_gate(const decode_args *a, void *stream)
{
    return a->bf16 ? gate<__nv_bfloat16>(*a, stream) : gate<__half>(*a, stream);
}

extern "C" int decode_launch_random(bool bf16, void *dev, int64_t n, const decode_random *r, void *stream)
{
    return bf16 ? fill_random<__nv_bfloat16>(dev, n, *r, stream) : fill_random<__half>(dev, n, *r, stream);
}

extern "C" int decode_launch_merge(const decode_merge_args *a, void *stream)
{
    return a->bf16 ? merge_cards<__nv_bfloat16>(*a, stream) : merge_cards<__half>(*a, stream);
}

extern "C" int decode_launch_move(void *pool, int64_t stride, int32_t n_pools, int64_t bytes, int64_t n,
                                  const int64_t *slot, void *held, bool back, void *stream)
{
    const int64_t words = bytes / 16;
    const int threads = words < 256 ? (int)((words + 31) / 32 * 32) : 256;
    move_kernel<<<dim3((unsigned)n, (unsigned)n_pools), threads, 0, (cudaStream_t)stream>>>(
        (uint4 *)pool, stride / 16, words, slot, (uint4 *)held, back);
    return cudaGetLastError();
}

extern "C" int decode_launch_copy(void *pool, int64_t stride, int32_t n_pools, int64_t bytes, int64_t n,
                                  const int64_t *slot, void *stream)
{
    copy_kernel<<<dim3((unsigned)((n + COPIES - 1) / COPIES), (unsigned)n_pools), COPY_THREADS, 0,
                  (cudaStream_t)stream>>>((uint4 *)pool, stride / 16, bytes / 16, n, slot);
    return cudaGetLastError();
}
