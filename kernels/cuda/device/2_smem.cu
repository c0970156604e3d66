/*
 * 2_smem.cu - the second rung: a tile of K and V in shared memory, read from memory once for all rows of an item.
 *
 * Idea     all warps of a CTA copy 32 tokens of K and V to shared memory and wait; then each warp takes its rows:
 *          lane t computes the whole dot product with token t, so the softmax of 32 tokens needs one maximum and
 *          one sum over the warp; then lanes turn to columns of V.
 * Grid     one CTA per item and KV head.
 * CTA      warp w takes rows w, w + 8, ... of the item; O, maximum and sum of a row live in shared memory between
 *          tiles.
 * Outline  1. Copy the rows of Q to shared memory; O = 0, maximum = -inf, sum = 0.
 *          2. For each 32 tokens of the item:
 *             a. all warps look up tokens and copy their K and V to shared memory;
 *             b. for each row of this warp: a score a lane, softmax over the warp, O by columns.
 *          3. Write O and the weight of each row to its slot, or O and LSE to the output.
 * Floor    memory: unique bytes, once per Q tile. Arithmetic: 4 d operations a pair on plain fp32 units, 60 TFLOP/s
 *          at most, of which loads from shared memory (one 4-byte word a multiply-add) leave a quarter: a tile
 *          of 64 rows needs 9.2 us for 32 tokens (16 KB), 1.8 GB/s an SM; of 4 rows, one query at 32/8, 0.58 us,
 *          28 GB/s an SM. Copies do not overlap arithmetic.
 * Predicted  64 1024 at 32/8: a quarter of the first rung's time, 250 us.
 * Measured   545 us on an H200; at 32/32, where no row shares a tile, 2,118 us.
 */
#include "kernels/cuda/device/items.cuh"
#include "kernels/cuda/device/softmax.cuh"
#include "kernels/cuda/device/typed.cuh"

namespace treeattn {

enum { SMEM_WARPS = 8, SMEM_TOKENS = 32, SMEM_ROWS = 128 };

template <typename T> struct pair;
template <> struct pair<__half> {
    using type = __half2;
    __device__ static float2 wide(__half2 x)
    {
        return __half22float2(x);
    }
};
template <> struct pair<__nv_bfloat16> {
    using type = __nv_bfloat162;
    __device__ static float2 wide(__nv_bfloat162 x)
    {
        return __bfloat1622float2(x);
    }
};

template <int D> struct smem_layout {
    static constexpr int row = D / 2 + 1; /* 4-byte words: lanes that read column c of 32 tokens meet 32 banks */
    static constexpr int k_at = 0, v_at = SMEM_TOKENS * row, o_at = 2 * SMEM_TOKENS * row,
                         q_at = o_at + SMEM_ROWS * D, weight_at = q_at + SMEM_ROWS * D / 2,
                         words = weight_at + 2 * SMEM_ROWS;
};

template <typename T, int D>
__global__ __launch_bounds__(32 * SMEM_WARPS) void smem_kernel(const __grid_constant__ cuda_group_args a)
{
    using L = smem_layout<D>;
    using T2 = typename pair<T>::type;
    constexpr int COLS = D / 32;
    extern __shared__ __align__(16) uint32_t words[];
    T2 *k = (T2 *)words + L::k_at, *v = (T2 *)words + L::v_at, *q = (T2 *)words + L::q_at;
    float *o = (float *)words + L::o_at, *weight = (float *)words + L::weight_at;
    __shared__ int run_of[SMEM_TOKENS];

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int item = blockIdx.x / a.h_kv, kv_head = blockIdx.x - item * a.h_kv;
    const cuda_item it = load_item(a.item + item);
    /* 1. */
    for (int r = warp; r < it.n_rows; r += SMEM_WARPS) {
        const row_place p = place_row(a, it, kv_head, r);
        for (int c = lane; c < D / 2; c += 32)
            q[r * (D / 2) + c] = ((const T2 *)a.q)[(p.query * a.h_q + p.head) * (D / 2) + c];
        for (int c = lane; c < D; c += 32)
            o[r * D + c] = 0;
        if (lane == 0) {
            weight[2 * r] = -INFINITY;
            weight[2 * r + 1] = 0;
        }
    }
    /* 2. */
    for (int t0 = 0; t0 < it.n_kv; t0 += SMEM_TOKENS) {
        const int n = min(SMEM_TOKENS, it.n_kv - t0);
        __syncthreads();
        /* a. */
        for (int t = warp; t < n; t += SMEM_WARPS) {
            const token x = find_token(a, it, t0 + t);
            const int64_t at = ((int64_t)slot_of(a, x) * a.h_kv + kv_head) * (D / 2);
            for (int c = lane; c < D / 2; c += 32) {
                k[t * L::row + c] = ((const T2 *)a.k)[at + c];
                v[t * L::row + c] = ((const T2 *)a.v)[at + c];
            }
            if (lane == 0)
                run_of[t] = x.run;
        }
        __syncthreads();
        /* b. */
        for (int r = warp; r < it.n_rows; r += SMEM_WARPS) {
            const int query = (it.row0 + r) / a.gqa - it.row0 / a.gqa;
            float s = -INFINITY;
            if (lane < n && sees(a, it, query, run_of[lane])) {
                s = 0;
                for (int c = 0; c < D / 2; c++) {
                    const float2 x = pair<T>::wide(q[r * (D / 2) + c]), y = pair<T>::wide(k[lane * L::row + c]);
                    s = fmaf(x.x, y.x, fmaf(x.y, y.y, s));
                }
                s = (a.cap_scale != 0 ? cap_score(s, a.cap_scale) : s) * a.scale_log2;
            }
            float top = fmaxf(weight[2 * r], s);
#pragma unroll
            for (int i = 16; i > 0; i /= 2)
                top = fmaxf(top, __shfl_xor_sync(~0u, top, i));
            const float old = weight[2 * r] == -INFINITY ? 0 : exp2f(weight[2 * r] - top);
            float w = s == -INFINITY ? 0 : exp2f(s - top), part = w;
#pragma unroll
            for (int i = 16; i > 0; i /= 2)
                part += __shfl_xor_sync(~0u, part, i);
            float x[COLS];
#pragma unroll
            for (int i = 0; i < COLS; i += 2) {
                x[i] = o[r * D + lane * 2 + 32 * i] * old;
                x[i + 1] = o[r * D + lane * 2 + 32 * i + 1] * old;
            }
            for (int t = 0; t < n; t++) {
                const float f = __shfl_sync(~0u, w, t);
#pragma unroll
                for (int i = 0; i < COLS; i += 2) {
                    const float2 y = pair<T>::wide(v[t * L::row + lane + 16 * i]);
                    x[i] = fmaf(f, y.x, x[i]);
                    x[i + 1] = fmaf(f, y.y, x[i + 1]);
                }
            }
#pragma unroll
            for (int i = 0; i < COLS; i += 2) {
                o[r * D + lane * 2 + 32 * i] = x[i];
                o[r * D + lane * 2 + 32 * i + 1] = x[i + 1];
            }
            __syncwarp();
            if (lane == 0) {
                weight[2 * r] = top;
                weight[2 * r + 1] = weight[2 * r + 1] * old + part;
            }
            __syncwarp();
        }
    }
    /* 3. */
    for (int r = warp; r < it.n_rows; r += SMEM_WARPS) {
        const row_place p = place_row(a, it, kv_head, r);
        store_row<T, COLS, false>(a, it.slot0 >= 0, place_out(a, it, p), D, lane * COLS, o + r * D + lane * COLS, weight[2 * r],
                                  weight[2 * r + 1], lane == 0);
    }
}

template <typename T, int D> static int launch_smem(const cuda_group_args &a, cudaStream_t stream)
{
    int bytes = smem_layout<D>::words * 4;
    cudaError_t status =
        cudaFuncSetAttribute(smem_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    smem_kernel<T, D><<<(unsigned)((int64_t)a.n_items * a.h_kv), 32 * SMEM_WARPS, bytes, stream>>>(a);
    return cudaGetLastError();
}

} // namespace treeattn

static int32_t smem_bytes(const cuda_shape *s, bool, bool, int32_t)
{
    using namespace treeattn;
    return for_type(true, s->d, [](auto, auto d) { return smem_layout<decltype(d)::value>::words; }) * 4;
}

static int smem_launch(const cuda_shape *s, const cuda_group_args *a, int, void *stream)
{
    using namespace treeattn;
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return launch_smem<decltype(t), decltype(d)::value>(*a, (cudaStream_t)stream);
    });
}

const cuda_launcher cuda_launcher_smem = {NULL, smem_bytes, smem_launch};
