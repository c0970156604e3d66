/* The kernel of wide tiles for K and V in 8 bits, beside Q and O of either type, and head sizes up to 128. */
#include "kernels/cuda/device/wide_launch.cuh"

using namespace treeattn;

template <typename F> static int for_kernel(const cuda_shape *s, bool masked, F launch)
{
    return s->d == 64 ? for_wide<beside_fp8, 64, true, false>(s, masked, launch)
                      : for_wide<beside_fp8, 128, true, false>(s, masked, launch);
}

extern "C" int cuda_smem_wide_fp8(const cuda_shape *s, int32_t masked)
{
    return for_kernel(s, masked, [](auto, int smem) { return smem; });
}

extern "C" int cuda_prepare_wide_fp8(const cuda_shape *s)
{
    auto prepare = [](auto kernel, int smem) { return allow_smem(kernel, smem); };
    const int status = for_kernel(s, false, prepare);
    return status != cudaSuccess ? status : for_kernel(s, true, prepare);
}

extern "C" int cuda_launch_wide_fp8(const cuda_shape *s, const cuda_group_args *a, int early, void *stream)
{
    return for_kernel(s, a->masked, [&](auto kernel, int smem) {
        const CUtensorMap none = {};
        return launch_dependent(kernel, dim3((unsigned)a->n_ctas), WIDE_THREADS, smem, early, (cudaStream_t)stream, *a, none,
                                none);
    });
}
