/*
 * typed.cuh - from a type and a head size that are known when a plan runs to those that kernels are compiled for.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_TYPED_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_TYPED_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

namespace treeattn {

/* launch(t, d) of arguments whose types say it: decltype(t), and decltype(d)::value, 64, 128 or 256. */
template <typename F> int for_type(bool f16, int d, F launch)
{
    const std::integral_constant<int, 64> d64;
    const std::integral_constant<int, 128> d128;
    const std::integral_constant<int, 256> d256;
    auto of_type = [&](auto t) { return d == 64 ? launch(t, d64) : d == 128 ? launch(t, d128) : launch(t, d256); };
    return f16 ? of_type(__half()) : of_type(__nv_bfloat16());
}

} // namespace treeattn

#endif
