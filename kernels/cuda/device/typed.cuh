/*
 * typed.cuh - from a type and a head size that are known when a plan runs to those that kernels are compiled for.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_TYPED_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_TYPED_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

namespace treeattn {

/* launch(t, d) of arguments whose types say it: decltype(t), and decltype(d)::value, 64 or 128. */
template <typename F> int for_type(bool f16, int d, F launch)
{
    const std::integral_constant<int, 64> d64;
    const std::integral_constant<int, 128> d128;
    if (f16)
        return d == 64 ? launch(__half(), d64) : launch(__half(), d128);
    return d == 64 ? launch(__nv_bfloat16(), d64) : launch(__nv_bfloat16(), d128);
}

} // namespace treeattn

#endif
