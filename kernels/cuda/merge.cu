/*
 * merge.cu - partial results to a slot or to the output.
 *
 * Idea     O = sum_i w_i O_i / sum_i w_i with w_i = 2^(lse_i - max lse). A thread has 4 columns of a row (merge step,
 *          query head) and takes the inputs AT_ONCE at a time, weights and O together: no lane waits for another.
 * Grid     8 warps a CTA, which take some heads of one step, neighbours in every slot; a row belongs to D / 4 lanes,
 *          or to four times as many, that share its inputs, where steps have many inputs and there are few rows.
 * Floor    inputs read once, outputs written once; they were written moments ago and fit the L2, so a merge is
 *          a chain of latencies: step, input list, then weights and O. The first two do not depend on the kernel
 *          before and are loaded before it ends.
 *
 * Empty partials (-inf) weigh nothing; a step without inputs, or with empty ones only, leaves O = 0, LSE = -inf.
 */
#include <cuda_runtime.h>

#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.h"

namespace treeattn {

enum { MERGE_THREADS = 256, MERGE_PARTS = 4, COLS = 4, AT_ONCE = 4 };
enum slot_format { LSE_F32, LSE_F16, MAX_SUM_F32 };

/* A row's columns as this thread has them; loads go past L1, which no kernel before this one has written to. */
template <slot_format F> __device__ inline float4 load_o(const cuda_merge_args &a, int64_t at)
{
    if constexpr (F != LSE_F16)
        return __ldcg((const float4 *)((const float *)a.slot_o + at));
    const uint2 x = __ldcg((const uint2 *)((const __half *)a.slot_o + at));
    const float2 y = __half22float2(*(const __half2 *)&x.x), z = __half22float2(*(const __half2 *)&x.y);
    return make_float4(y.x, y.y, z.x, z.y);
}

/* Maximum (base 2) and sum of a slot's row; an LSE is a maximum whose sum is 1. */
template <slot_format F> __device__ inline float2 load_weight(const cuda_merge_args &a, int64_t row)
{
    return F == MAX_SUM_F32 ? __ldcg((const float2 *)(a.slot_w + row * 2)) : make_float2(__ldcg(a.slot_w + row), 1);
}

/* Larger of two, NaN if either is. */
__device__ inline float max_nan(float x, float y)
{
    return x > y || isnan(x) ? x : y;
}

/* 2^(x - top), 0 for what weighs nothing. */
__device__ inline float weight_of(float x, float top)
{
    return x == -INFINITY ? 0 : exp2f(x - top);
}

/* What a thread has of a row: O, which is not divided yet, maximum and sum. */
struct merged {
    float o[COLS], max, sum;
};

__device__ inline void add(merged &m, float4 o, float factor)
{
    if (factor == 0) /* whatever o is */
        return;
    m.o[0] = fmaf(factor, o.x, m.o[0]);
    m.o[1] = fmaf(factor, o.y, m.o[1]);
    m.o[2] = fmaf(factor, o.z, m.o[2]);
    m.o[3] = fmaf(factor, o.w, m.o[3]);
}

__device__ inline void rescale(merged &m, float top)
{
    const float old = top == -INFINITY ? 1 : exp2f(m.max - top);
    m.max = top;
    m.sum *= old;
#pragma unroll
    for (int c = 0; c < COLS; c++)
        m.o[c] *= old;
}

/* Heads that a CTA takes. */
template <int D, int parts> struct merge_rows {
    static constexpr int n = MERGE_THREADS / (D / COLS) / parts;
};

template <typename T, int D, slot_format F, int parts>
__global__ __launch_bounds__(MERGE_THREADS, 4) void merge_kernel(const __grid_constant__ cuda_merge_args a)
{
    constexpr int LANES = D / COLS, ROWS = merge_rows<D, parts>::n;
    __shared__ merged shared[parts > 1 ? MERGE_THREADS : 1];
    const int lane = threadIdx.x % LANES, part = threadIdx.x / LANES % parts, col = lane * COLS;
    const unsigned blocks = (unsigned)(a.h_q + ROWS - 1) / ROWS, step_no = blockIdx.x / blocks;
    const int head = (int)(blockIdx.x - step_no * blocks) * ROWS + threadIdx.x / (LANES * parts);
    const bool exists = head < a.h_q;
    int4 step = __ldg((const int4 *)a.step + step_no);
    if (!exists)
        step.y = 0;
    const int out = step.z, query = step.w;
    const int first = step.y * part / parts, end = step.y * (part + 1) / parts; /* this thread's inputs */
    const int32_t *in = a.merge_in + step.x;
    let_next_start();

    int slot[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
        slot[j] = first + j < end ? __ldg(in + first + j) : -1;
    wait_for_previous();
    merged m = {{0, 0, 0, 0}, -INFINITY, 0};
    for (int i = first; i < end; i += AT_ONCE) {
        float2 w[AT_ONCE];
        float4 o[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int64_t row = (int64_t)slot[j] * a.h_q + head;
            w[j] = slot[j] < 0 ? make_float2(-INFINITY, 0) : load_weight<F>(a, row);
            o[j] = slot[j] < 0 ? make_float4(0, 0, 0, 0) : load_o<F>(a, row * D + col);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            slot[j] = i + AT_ONCE + j < end ? __ldg(in + i + AT_ONCE + j) : -1;
        float top = m.max;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            top = max_nan(top, w[j].y == 0 ? -INFINITY : w[j].x);
        rescale(m, top);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const float factor = w[j].y == 0 ? 0 : weight_of(w[j].x, top);
            m.sum += factor * w[j].y;
            add(m, o[j], factor); /* O of an LSE slot is divided by its sum, which is 1 */
        }
    }
    if constexpr (parts > 1) {
        shared[threadIdx.x] = m;
        __syncthreads();
        if (part > 0)
            return;
        for (int p = 1; p < parts; p++) {
            const merged other = shared[threadIdx.x + p * LANES];
            const float top = max_nan(m.max, other.max), factor = weight_of(other.max, top);
            rescale(m, top);
            m.sum += factor * other.sum;
            add(m, make_float4(other.o[0], other.o[1], other.o[2], other.o[3]), factor);
        }
    }
    if (!exists)
        return;

    const int64_t row = (out < 0 ? (int64_t)query : (int64_t)out) * a.h_q + head;
    const float scale = F == MAX_SUM_F32 && out >= 0 ? 1 : m.sum == 0 ? 0 : 1 / m.sum;
#pragma unroll
    for (int c = 0; c < COLS; c++)
        m.o[c] *= scale;
    if (out < 0) {
        *(uint2 *)((T *)a.o + row * D + col) = make_uint2(pack<T>(m.o[0], m.o[1]), pack<T>(m.o[2], m.o[3]));
        if (lane == 0)
            a.lse[row] = m.sum == 0 ? -INFINITY : m.max * 0.693147180559945f + logf(m.sum);
        return;
    }
    if (F == LSE_F16)
        *(uint2 *)((__half *)a.slot_o + row * D + col) =
            make_uint2(pack<__half>(m.o[0], m.o[1]), pack<__half>(m.o[2], m.o[3]));
    else
        *(float4 *)((float *)a.slot_o + row * D + col) = make_float4(m.o[0], m.o[1], m.o[2], m.o[3]);
    if (lane == 0 && F == MAX_SUM_F32)
        *(float2 *)(a.slot_w + row * 2) = make_float2(m.max, m.sum);
    else if (lane == 0)
        a.slot_w[row] = m.sum == 0 ? -INFINITY : m.max + log2f(m.sum);
}

template <typename T, int D, slot_format F, int parts>
static int launch_parts(const cuda_merge_args &a, int early, cudaStream_t stream)
{
    cudaLaunchAttribute programmatic = {};
    programmatic.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    programmatic.val.programmaticStreamSerializationAllowed = 1;
    constexpr int ROWS = merge_rows<D, parts>::n;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)(a.n_steps * ((a.h_q + ROWS - 1) / ROWS)));
    c.blockDim = dim3(MERGE_THREADS);
    c.stream = stream;
    c.attrs = &programmatic;
    c.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&c, merge_kernel<T, D, F, parts>, a);
}

template <typename T, int D, slot_format F>
static int launch_format(const cuda_merge_args &a, int early, cudaStream_t stream)
{
    return a.warps > 1 ? launch_parts<T, D, F, MERGE_PARTS>(a, early, stream)
                       : launch_parts<T, D, F, 1>(a, early, stream);
}

template <typename T, int D> static int launch_merge(const cuda_merge_args &a, int early, cudaStream_t stream)
{
    return a.slot_max_sum ? launch_format<T, D, MAX_SUM_F32>(a, early, stream)
           : a.slot_f16   ? launch_format<T, D, LSE_F16>(a, early, stream)
                          : launch_format<T, D, LSE_F32>(a, early, stream);
}

} // namespace treeattn

extern "C" int cuda_launch_merge(const cuda_shape *s, const cuda_merge_args *a, int early, void *stream)
{
    using namespace treeattn;
    cudaStream_t st = (cudaStream_t)stream;
    static_assert(MERGE_THREADS / (128 / COLS) >= MERGE_PARTS, "a CTA holds a row whole");
    if (s->t == CUDA_F16)
        return s->d == 64 ? launch_merge<__half, 64>(*a, early, st) : launch_merge<__half, 128>(*a, early, st);
    return s->d == 64 ? launch_merge<__nv_bfloat16, 64>(*a, early, st)
                      : launch_merge<__nv_bfloat16, 128>(*a, early, st);
}
