/*
 * wide_launch.cuh - from what a launch asks for to a kernel of wide tiles; what instantiations/wide.cu and wide_fp8.cu share.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_WIDE_LAUNCH_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_WIDE_LAUNCH_CUH

#include "kernels/cuda/device/4_wide.cuh"

#include "kernels/cuda/device/typed.cuh"

/* Of K and V in 8 bits. */
extern "C" int cuda_prepare_wide_fp8(const cuda_shape *s);
extern "C" int cuda_smem_wide_fp8(const cuda_shape *s, int32_t masked);
extern "C" int cuda_launch_wide_fp8(const cuda_shape *s, const cuda_group_args *a, int early, void *stream);

namespace treeattn {

/* launch(kernel, its bytes of shared memory) */
template <typename T, int SIZE, bool FP8, typename F> int for_wide(const cuda_shape *s, bool masked, F launch)
{
    constexpr int D = SIZE <= 128 ? SIZE : 128; /* the host has no others run here */
    auto of = [&](auto shares, auto has_mask) {
        constexpr bool SHARED = decltype(shares)::value, MASKED = decltype(has_mask)::value;
        return launch(wide_kernel<T, D, SHARED, MASKED, FP8>, wide_layout<D, SHARED, MASKED, FP8>::bytes);
    };
    const std::true_type yes;
    const std::false_type no;
    return s->wide == CUDA_WIDE_SHARED ? (masked ? of(yes, yes) : of(yes, no)) : masked ? of(no, yes) : of(no, no);
}

} // namespace treeattn

#endif
