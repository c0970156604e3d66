/*
 * chain.cu - what no decode kernel can do without, one step after the other, and no arithmetic: launch, item of the plan, page,
 * K and V, result; or partial result, and a merge that waits for two of these. How long that takes is no kernel's own.
 *
 * A CTA of one warp on each SM, as a kernel that reads as fast as the card needs one there. K and V are read at the same time.
 */
#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/probe/chain_launch.h"

namespace treeattn {

__device__ inline uint4 mixed(uint4 x, uint4 y)
{
    return make_uint4(x.x ^ y.x, x.y ^ y.y, x.z ^ y.z, x.w ^ y.w);
}

__global__ __launch_bounds__(CHAIN_LANES) void empty_kernel()
{
}

template <gpu_chain_way WAY>
__global__ __launch_bounds__(CHAIN_LANES) void chain_kernel(const __grid_constant__ cuda_chain_args a)
{
    let_next_start();
    const int lane = (int)threadIdx.x;
    const int4 item = __ldg((const int4 *)a.item + blockIdx.x); /* entry, slot, other, step */
    const int32_t page = __ldg(a.page_table + item.x);
    const uint4 *from = (const uint4 *)a.pool + (int64_t)page * CHAIN_PAGE + lane;
    const uint4 x = mixed(__ldg(from), __ldg(from + CHAIN_PAGE / 2));
    uint4 *out = (uint4 *)a.out, *slot = (uint4 *)a.slot;
    if (WAY == CHAIN_DIRECT) {
        out[blockIdx.x * CHAIN_LANES + lane] = x;
        return;
    }
    slot[item.y * CHAIN_LANES + lane] = x;
    if (WAY == CHAIN_MERGE_KERNEL)
        return;
    __threadfence();
    __syncwarp();
    int before = 0;
    if (lane == 0)
        before = atomicAdd(a.arrived + item.w, 1);
    before = __shfl_sync(~0u, before, 0);
    if (before == 0)
        return;
    __threadfence();
    out[item.w * CHAIN_LANES + lane] = mixed(x, __ldcg(slot + item.z * CHAIN_LANES + lane));
    if (lane == 0)
        a.arrived[item.w] = 0;
}

__global__ __launch_bounds__(CHAIN_LANES) void chain_merge_kernel(const __grid_constant__ cuda_chain_args a)
{
    const int lane = (int)threadIdx.x;
    const int2 in = __ldg((const int2 *)a.step + blockIdx.x); /* of the plan: there before any kernel ran */
    wait_for_previous();
    const uint4 *slot = (const uint4 *)a.slot;
    ((uint4 *)a.out)[blockIdx.x * CHAIN_LANES + lane] =
        mixed(__ldcg(slot + in.x * CHAIN_LANES + lane), __ldcg(slot + in.y * CHAIN_LANES + lane));
}

} // namespace treeattn

extern "C" int cuda_launch_chain(gpu_chain_way way, const cuda_chain_args *a, int early, void *stream_)
{
    using namespace treeattn;
    const cudaStream_t stream = (cudaStream_t)stream_;
    const unsigned ctas = (unsigned)a->ctas;
    int status;
    switch (way) {
    case CHAIN_EMPTY:
        empty_kernel<<<ctas, CHAIN_LANES, 0, stream>>>();
        return cudaGetLastError();
    case CHAIN_DIRECT:
        chain_kernel<CHAIN_DIRECT><<<ctas, CHAIN_LANES, 0, stream>>>(*a);
        return cudaGetLastError();
    case CHAIN_MERGE_KERNEL:
        chain_kernel<CHAIN_MERGE_KERNEL><<<ctas, CHAIN_LANES, 0, stream>>>(*a);
        status = cudaGetLastError();
        return status != cudaSuccess
                   ? status
                   : launch_dependent(chain_merge_kernel, dim3(ctas / 2), CHAIN_LANES, 0, early != 0, stream, *a);
    case CHAIN_MERGE_LAST:
        chain_kernel<CHAIN_MERGE_LAST><<<ctas, CHAIN_LANES, 0, stream>>>(*a);
        return cudaGetLastError();
    default:
        return cudaErrorInvalidValue;
    }
}
