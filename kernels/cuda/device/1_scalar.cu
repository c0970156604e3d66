/*
 * 1_scalar.cu - the first rung: one warp for each query and head, no shared memory, no tensor cores.
 *
 * Idea     a warp holds one row of Q in registers, d / 32 numbers a lane, and walks over the group's tokens:
 *          dot product by shuffles, online softmax, O in registers (warp_row.cuh).
 * Grid     one CTA per item and KV head, as the other rungs; its warps share the rows of the item.
 * CTA      warp w takes rows w, w + 4, ...: K and V of the group are read from memory once per row.
 * Outline  1. Find the item and the KV head of this CTA.
 *          2. For each row of this warp (attend_row in warp_row.cuh):
 *             a. load the row of Q;
 *             b. for each token: look up its page, multiply, fold its score into maximum, sum and O;
 *             c. write O and the weight to the row's slot, or O and LSE to the output.
 * Floor    bytes: rows x n_kv x 2 d x 2 through L1 and L2; for 64 1024 at 32/32, where no rows share them, 1.07 GB,
 *          238 us of memory. Latency: five shuffles a token and two exponentials, each of which waits for the one before,
 *          about 200 cycles for 512 bytes (d = 128) if K and V are there already. With 48 working warps an SM (12 CTAs)
 *          that is 0.12 KB a cycle, over 132 SMs at 1.75 GHz 28 TB/s; with 12, as at 32/32 (one row an item), 7 TB/s.
 * Predicted  64 1024 at 32/32: 450 us, by a slip: 0.33 KB a cycle and SM were multiplied to 2.4 TB/s, not to 75, and
 *          shuffles and warps were counted wrong as well.
 * Measured   1,944 us on an H200 (553 GB/s): in two waves of 12 CTAs an SM, 0.95 us a token, some 1,700 cycles. Likely
 *          a chain of latencies: page-table entry, K, shuffles, softmax and V of a token wait for each other.
 */
#include "kernels/cuda/device/warp_row.cuh"
#include "kernels/cuda/device/typed.cuh"

namespace treeattn {

enum { SCALAR_WARPS = 4 };

template <typename T, int D, typename KV>
/* 12 CTAs an SM: left to itself, ptxas takes 32 registers on sm_80, and spills. */
__global__ __launch_bounds__(32 * SCALAR_WARPS, D > 128 ? 8 : 12) void scalar_kernel(const __grid_constant__ cuda_group_args a)
{
    /* 1. */
    const int lane = threadIdx.x % 32, item = blockIdx.x / a.h_kv, kv_head = blockIdx.x - item * a.h_kv;
    const cuda_item it = load_item(a.item + item);
    /* 2. */
    for (int r = threadIdx.x / 32; r < it.n_rows; r += SCALAR_WARPS)
        attend_row<T, D, true, KV>(a, it, kv_head, r, lane);
}

template <typename T, int D, typename KV> static int launch_scalar(const cuda_group_args &a, cudaStream_t stream)
{
    scalar_kernel<T, D, KV><<<(unsigned)((int64_t)a.n_items * a.h_kv), 32 * SCALAR_WARPS, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace treeattn

static int32_t scalar_smem(const cuda_shape *, bool, bool, int32_t)
{
    return 0;
}

static int scalar_launch(const cuda_shape *s, const cuda_group_args *a, int, void *stream)
{
    using namespace treeattn;
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        using T = decltype(t);
        constexpr int D = decltype(d)::value;
        return s->fp8 ? launch_scalar<T, D, fp8>(*a, (cudaStream_t)stream) : launch_scalar<T, D, T>(*a, (cudaStream_t)stream);
    });
}

const cuda_launcher cuda_launcher_scalar = {NULL, scalar_smem, scalar_launch};
