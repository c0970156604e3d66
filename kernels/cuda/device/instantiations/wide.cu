/* The kernel of wide tiles, of every storage type, and head sizes up to 128. */
#include "kernels/cuda/device/wide_launch.cuh"

using namespace treeattn;

static int32_t wide_smem(const cuda_shape *s, bool masked, bool, int32_t)
{
    return s->fp8 ? cuda_smem_wide_fp8(s, masked) : for_wide_16_bit<false>(s, masked, [](auto, int smem) { return smem; });
}

static int wide_prepare(const cuda_shape *s)
{
    return s->fp8 ? cuda_prepare_wide_fp8(s) : s->meet > 0 ? cuda_prepare_wide_meet(s) : prepare_wide<false>(s);
}

static int wide_launch(const cuda_shape *s, const cuda_group_args *a, int early, void *stream)
{
    return s->fp8        ? cuda_launch_wide_fp8(s, a, early, stream)
           : s->meet > 0 ? cuda_launch_wide_meet(s, a, early, stream)
                         : launch_wide<false>(s, a, early, stream);
}

const cuda_launcher cuda_launcher_wide = {wide_prepare, wide_smem, wide_launch};
