/* The kernel of wide tiles, of every storage type and head size. */
#include "kernels/cuda/wide.cuh"

#include "kernels/cuda/typed.cuh"

using namespace treeattn;

/* launch(kernel, its bytes of shared memory) */
template <typename F> static int for_kernel(const struct cuda_shape *s, F launch)
{
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        constexpr int D = decltype(d)::value;
        return s->wide == CUDA_WIDE_SHARED
                   ? launch(wide_kernel<decltype(t), D, true>, wide_layout<D, true>::bytes)
                   : launch(wide_kernel<decltype(t), D, false>, wide_layout<D, false>::bytes);
    });
}

extern "C" int cuda_wide_smem(const struct cuda_shape *s)
{
    return for_kernel(s, [](auto, int smem) { return smem; });
}

extern "C" int cuda_prepare_wide(const struct cuda_shape *s)
{
    return for_kernel(s, [](auto kernel, int smem) { return allow_smem(kernel, smem); });
}

extern "C" int cuda_launch_wide(const struct cuda_shape *s, const struct cuda_group_args *a, int early, void *stream)
{
    return for_kernel(s, [&](auto kernel, int smem) {
        return launch_dependent(kernel, dim3((unsigned)a->n_ctas), WIDE_THREADS, smem, early, (cudaStream_t)stream, *a);
    });
}
