/*
 * merge.cu - partial results to a slot or to the output.
 *
 * Idea     O = sum_i w_i O_i / sum_i w_i with w_i = 2^(lse_i - max lse). A thread has 4 columns of a row (merge step,
 *          query head), or of two rows, and takes some inputs at a time, weights and O together: no lane waits for another.
 * Grid     8 warps a CTA, which take some heads of one step, neighbours in every slot; a row belongs to D / 4 lanes,
 *          or to two, four or eight times as many, that share its inputs, where steps have many inputs and there are few rows.
 * Floor    inputs read once, outputs written once; they were written moments ago and fit the L2, so a merge is
 *          a chain of latencies: step, input list, then weights and O. The first two do not depend on the kernel
 *          before and are loaded before it ends. Of two inputs, as most steps have, it is bound by instructions.
 * L2       what was read leaves it first: others' inputs are yet to be read. Where kernels follow that leave as many
 *          partial results again, it is dropped there, so that it is not written to memory for nobody.
 * Sinks    are the weights of one more slot, of which O is 0: every step to the output has it among its inputs. A kernel of its own
 *          writes it.
 *
 * Empty partials (-inf) weigh nothing; a step without inputs, or with empty ones only, leaves O = 0, LSE = -inf.
 */
#include <cuda_runtime.h>

#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/typed.cuh"

namespace treeattn {

enum { MERGE_THREADS = 256, COLS = 4, MOST_OF_Y = 65535 };
enum slot_format { LSE_F32, LSE_F16, MAX_SUM_F32 };

/* PARTS threads share the inputs of a row, or one takes those of HEADS rows; AT_ONCE inputs at a time. */
template <int PARTS_, int HEADS_, int AT_ONCE_> struct merge_shape {
    static constexpr int PARTS = PARTS_, HEADS = HEADS_, AT_ONCE = AT_ONCE_;
};
typedef merge_shape<8, 1, 5> merge_by_eight; /* 40 inputs in one round */
typedef merge_shape<4, 1, 4> merge_by_four;
typedef merge_shape<2, 1, 4> merge_by_two;
typedef merge_shape<1, 1, 4> merge_few_rows;
typedef merge_shape<1, 2, 2> merge_many_rows;

/* What a slot has of a row: columns of O, and maximum (base 2) and sum, or an LSE, which is a maximum whose sum is 1. */
template <slot_format F> struct slot_types {
    typedef float element, weight;
    typedef float4 columns;
};
template <> struct slot_types<LSE_F16> {
    typedef __half element;
    typedef float weight;
    typedef uint2 columns;
};
template <> struct slot_types<MAX_SUM_F32> {
    typedef float element;
    typedef float2 weight;
    typedef float4 columns;
};

/* Loads that stay where they are written, so that those of several inputs are under way together: left to itself the
 * compiler waits for weights before it asks for O, which it may not need. They go past L1, which no kernel before this
 * one has written to. What is not valid gives 0 and weighs nothing. */
__device__ inline void load(float4 &x, const float *from, bool valid)
{
    x = make_float4(0, 0, 0, 0);
    asm volatile("{ .reg .pred p; .reg .b64 policy; setp.ne.b32 p, %5, 0; mov.b64 policy, {0, %6}; "
                 "@p ld.global.cg.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], policy; }"
                 : "+f"(x.x), "+f"(x.y), "+f"(x.z), "+f"(x.w)
                 : "l"(from), "r"((int)valid), "r"(EVICT_FIRST));
}

__device__ inline void load(uint2 &x, const __half *from, bool valid)
{
    x = make_uint2(0, 0);
    asm volatile("{ .reg .pred p; .reg .b64 policy; setp.ne.b32 p, %3, 0; mov.b64 policy, {0, %4}; "
                 "@p ld.global.cg.L2::cache_hint.v2.b32 {%0, %1}, [%2], policy; }"
                 : "+r"(x.x), "+r"(x.y)
                 : "l"(from), "r"((int)valid), "r"(EVICT_FIRST));
}

/* What a line of global memory holds nobody wants any more: it need not be written there from the L2. */
__device__ inline void drop_line(const void *line)
{
    asm volatile("discard.global.L2 [%0], %1;" : : "l"(line), "n"(CUDA_LINE) : "memory");
}

__device__ inline void load_weight(float2 &x, const float *from, bool valid)
{
    x = make_float2(-INFINITY, 0);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.cg.v2.f32 {%0, %1}, [%2]; }"
                 : "+f"(x.x), "+f"(x.y)
                 : "l"(from), "r"((int)valid));
}

__device__ inline void load_weight(float &x, const float *from, bool valid)
{
    x = -INFINITY;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.cg.f32 %0, [%1]; }"
                 : "+f"(x)
                 : "l"(from), "r"((int)valid));
}

__device__ inline float4 floats(float4 x)
{
    return x;
}

__device__ inline float4 floats(uint2 x)
{
    const float2 y = __half22float2(*(const __half2 *)&x.x), z = __half22float2(*(const __half2 *)&x.y);
    return make_float4(y.x, y.y, z.x, z.y);
}

__device__ inline float2 max_and_sum(float2 weight)
{
    return make_float2(weight.y == 0 ? -INFINITY : weight.x, weight.y);
}

__device__ inline float2 max_and_sum(float lse)
{
    return make_float2(lse, 1);
}

/* Larger of two, NaN if either is. */
__device__ inline float max_nan(float x, float y)
{
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

/* What a thread has of a row: O, which is not divided yet, maximum and sum. */
struct merged {
    float o[COLS], max, sum;

    __device__ void empty()
    {
#pragma unroll
        for (int c = 0; c < COLS; c++)
            o[c] = 0;
        max = -INFINITY;
        sum = 0;
    }

    __device__ void add(float4 x, float x_sum, float factor)
    {
        if (factor == 0) /* whatever x is */
            return;
        sum = fmaf(factor, x_sum, sum);
        o[0] = fmaf(factor, x.x, o[0]);
        o[1] = fmaf(factor, x.y, o[1]);
        o[2] = fmaf(factor, x.z, o[2]);
        o[3] = fmaf(factor, x.w, o[3]);
    }

    /* To a maximum that is no lower. Returns what weights are relative to: -inf minus it is -inf. */
    __device__ float raise(float top)
    {
        const float base = top == -INFINITY ? 0 : top, factor = exp2_fast(max - base);
        max = top;
        sum *= factor;
#pragma unroll
        for (int c = 0; c < COLS; c++)
            o[c] *= factor;
        return base;
    }
};

/* Heads that a CTA takes at a time. */
template <int D, class S> struct merge_rows {
    static constexpr int n = MERGE_THREADS / (D / COLS) / S::PARTS;
};

template <typename T, int D, slot_format F, class S>
__global__ __launch_bounds__(MERGE_THREADS, 4) void merge_kernel(const __grid_constant__ cuda_merge_args a)
{
    typedef typename slot_types<F>::element element;
    typedef typename slot_types<F>::weight weight;
    constexpr int WEIGHTS = sizeof(weight) / sizeof(float);
    constexpr int LANES = D / COLS, ROWS = merge_rows<D, S>::n, PARTS = S::PARTS, HEADS = S::HEADS, AT_ONCE = S::AT_ONCE;
    __shared__ merged shared[PARTS > 1 ? MERGE_THREADS : 1];
    let_next_start();
    const int lane = threadIdx.x % LANES, part = threadIdx.x / LANES % PARTS, col = lane * COLS;
    const int64_t step_no = (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
    if (step_no >= a.n_steps)
        return;
    const int head0 = blockIdx.x * ROWS * HEADS + threadIdx.x / (LANES * PARTS); /* and ROWS more for the next */
    const int4 step = __ldg((const int4 *)a.step + step_no);
    const int out = step.z, query = step.w, n_in = head0 < a.h_q ? step.y : 0;
    const int first = n_in * part / PARTS, end = n_in * (part + 1) / PARTS; /* this thread's inputs */
    const int32_t *in = a.merge_in + step.x;

    int slot[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
        slot[j] = -1;
    merged m[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++)
        m[h].empty();
    const element *o_at = (const element *)a.slot_o + head0 * D + col;
    const float *w_at = a.slot_w + head0 * WEIGHTS;
    /* A round of no inputs first: it fetches the instructions, while there is nothing but waiting to do. */
    for (int i = first - AT_ONCE; i < end; i += AT_ONCE) {
        if (i == first)
            wait_for_previous();
        typename slot_types<F>::columns o[HEADS][AT_ONCE];
        weight w[HEADS][AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                const bool valid = slot[j] >= 0 && (h == 0 || head0 + h * ROWS < a.h_q);
                load_weight(w[h][j], w_at + (int64_t)slot[j] * (a.h_q * WEIGHTS) + h * ROWS * WEIGHTS, valid);
                load(o[h][j], o_at + (int64_t)slot[j] * (a.h_q * D) + h * ROWS * D, valid);
            }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            slot[j] = i + AT_ONCE + j < end ? __ldg(in + i + AT_ONCE + j) : -1;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float top = m[h].max;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                top = max_nan(top, max_and_sum(w[h][j]).x);
            const float base = m[h].raise(top);
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) { /* O of an LSE slot is divided by its sum, which is 1 */
                const float2 x = max_and_sum(w[h][j]);
                m[h].add(floats(o[h][j]), x.y, exp2_fast(x.x - base));
            }
        }
    }
    wait_for_previous(); /* without inputs, too */
    if (a.whole_lines && out >= 0) {
        constexpr int LINE_LANES = CUDA_LINE / (COLS * sizeof(element));
        static_assert(D * sizeof(element) % CUDA_LINE == 0 && 32 % LINE_LANES == 0, "a row is whole lines, each read by one warp");
        __syncwarp(); /* all of it is read */
        for (int i = first; i < end && lane % LINE_LANES == 0; i++)
#pragma unroll
            for (int h = 0; h < HEADS; h++)
                if (h == 0 || head0 + h * ROWS < a.h_q)
                    drop_line(o_at + (int64_t)__ldg(in + i) * (a.h_q * D) + h * ROWS * D);
    }
    if constexpr (PARTS > 1) {
        shared[threadIdx.x] = m[0];
        __syncthreads();
        if (part > 0)
            return;
        for (int p = 1; p < PARTS; p++) {
            const merged &x = shared[threadIdx.x + p * LANES];
            const float base = m[0].raise(max_nan(m[0].max, x.max));
            m[0].add(make_float4(x.o[0], x.o[1], x.o[2], x.o[3]), x.sum, exp2_fast(x.max - base));
        }
    }

#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        const int head = head0 + h * ROWS;
        const merged &r = m[h];
        if (head >= a.h_q)
            return;
        const int64_t row = (int64_t)(out < 0 ? query : out) * a.h_q + head;
        const float scale = F == MAX_SUM_F32 && out >= 0 ? 1 : r.sum == 0 ? 0 : 1 / r.sum;
        const float o[COLS] = {r.o[0] * scale, r.o[1] * scale, r.o[2] * scale, r.o[3] * scale};
        if (out < 0) {
            *(uint2 *)((T *)a.o + row * D + col) = make_uint2(pack<T>(o[0], o[1]), pack<T>(o[2], o[3]));
            if (lane == 0)
                a.lse[row] = r.sum == 0 ? -INFINITY : r.max * 0.693147180559945f + logf(r.sum);
            continue;
        }
        if (F == LSE_F16)
            *(uint2 *)((__half *)a.slot_o + row * D + col) =
                make_uint2(pack<__half>(o[0], o[1]), pack<__half>(o[2], o[3]));
        else
            *(float4 *)((float *)a.slot_o + row * D + col) = make_float4(o[0], o[1], o[2], o[3]);
        if (lane == 0 && F == MAX_SUM_F32)
            *(float2 *)(a.slot_w + row * 2) = make_float2(r.max, r.sum);
        else if (lane == 0)
            a.slot_w[row] = r.sum == 0 ? -INFINITY : r.max + log2f(r.sum);
    }
}

__global__ void sinks_kernel(const __grid_constant__ cuda_sink_args a)
{
    const int64_t first = a.slot * a.h_q, row = first * a.d;
    for (int i = threadIdx.x; i < a.h_q * a.d; i += blockDim.x) {
        if (a.slot_f16)
            ((__half *)a.slot_o)[row + i] = __float2half(0);
        else
            ((float *)a.slot_o)[row + i] = 0;
    }
    for (int h = threadIdx.x; h < a.h_q; h += blockDim.x) {
        const float log2_weight = a.sink[h] * 1.44269504088896f;
        if (a.slot_max_sum)
            *(float2 *)(a.slot_w + (first + h) * 2) = make_float2(log2_weight, 1);
        else
            a.slot_w[first + h] = log2_weight;
    }
}

template <typename T, int D, slot_format F, class S>
static int launch_shape(const cuda_merge_args &a, int early, cudaStream_t stream)
{
    constexpr int HEADS = merge_rows<D, S>::n * S::HEADS;
    const int64_t z = (a.n_steps + MOST_OF_Y - 1) / MOST_OF_Y;
    const dim3 grid((unsigned)((a.h_q + HEADS - 1) / HEADS), (unsigned)((a.n_steps + z - 1) / z), (unsigned)z);
    return launch_dependent(merge_kernel<T, D, F, S>, grid, MERGE_THREADS, 0, early, stream, a);
}

template <typename T, int D, slot_format F>
static int launch_format(const cuda_merge_args &a, int early, cudaStream_t stream)
{
    constexpr bool holds_eight = merge_rows<D, merge_by_eight>::n > 0; /* does a CTA hold a row of eight warps whole? */
    return a.warps > 4   ? launch_shape<T, D, F, std::conditional_t<holds_eight, merge_by_eight, merge_by_four>>(a, early, stream)
           : a.warps > 2 ? launch_shape<T, D, F, merge_by_four>(a, early, stream)
           : a.warps > 1 ? launch_shape<T, D, F, merge_by_two>(a, early, stream)
           : a.many_rows ? launch_shape<T, D, F, merge_many_rows>(a, early, stream)
                         : launch_shape<T, D, F, merge_few_rows>(a, early, stream);
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
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return launch_merge<decltype(t), decltype(d)::value>(*a, early, (cudaStream_t)stream);
    });
}

extern "C" int cuda_launch_sinks(const cuda_sink_args *a, void *stream)
{
    treeattn::sinks_kernel<<<1, 1024, 0, (cudaStream_t)stream>>>(*a);
    return cudaGetLastError();
}
