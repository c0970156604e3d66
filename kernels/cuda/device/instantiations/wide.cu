/* The kernel of wide tiles, of every storage type, and head sizes up to 128. */
#include "kernels/cuda/device/wide_launch.cuh"

using namespace treeattn;

using encoder = decltype(&cuTensorMapEncodeTiled);

/* The driver's: it is not linked with. NULL if it has none. */
static encoder find_encoder()
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
    return (encoder)found;
}

/* K or V, of any number of slots, as the copy engine takes boxes of it: 64 columns of WIDE_BOX_ROWS slots, laid out as wgmma.cuh wants
 * them. Returns a cudaError_t. */
static int make_map(const struct cuda_shape *s, const void *kv, int h_kv, CUtensorMap *map)
{
    static const encoder encode = find_encoder();
    if (!encode)
        return cudaErrorSymbolNotFound;
    const CUtensorMapDataType type =
        s->t == CUDA_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const cuuint64_t size[] = {(cuuint64_t)h_kv * s->d, (cuuint64_t)1 << 31}, slot_bytes = size[0] * 2;
    const cuuint32_t box[] = {64, WIDE_BOX_ROWS}, every[] = {1, 1};
    const CUresult status = encode(map, type, 2, (void *)kv, size, &slot_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/* launch(kernel, its bytes of shared memory) */
template <typename F> static int for_kernel(const struct cuda_shape *s, bool masked, F launch)
{
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return for_wide<decltype(t), decltype(d)::value, false>(s, masked, launch);
    });
}

static int32_t wide_smem(const cuda_shape *s, bool masked, bool, int32_t)
{
    return s->fp8 ? cuda_smem_wide_fp8(s, masked) : for_kernel(s, masked, [](auto, int smem) { return smem; });
}

static int wide_prepare(const cuda_shape *s)
{
    if (s->fp8)
        return cuda_prepare_wide_fp8(s);
    auto prepare = [](auto kernel, int smem) { return allow_smem(kernel, smem); };
    const int status = for_kernel(s, false, prepare);
    return status != cudaSuccess ? status : for_kernel(s, true, prepare);
}

static int wide_launch(const cuda_shape *s, const cuda_group_args *a, int early, void *stream)
{
    if (s->fp8)
        return cuda_launch_wide_fp8(s, a, early, stream);
    return for_kernel(s, a->masked, [&](auto kernel, int smem) {
        CUtensorMap k, v;
        int status = make_map(s, a->k, a->h_kv, &k);
        status = status != cudaSuccess ? status : make_map(s, a->v, a->h_kv, &v);
        return status != cudaSuccess ? status
                                     : launch_dependent(kernel, dim3((unsigned)a->n_ctas), WIDE_THREADS, smem, early,
                                                        (cudaStream_t)stream, *a, k, v);
    });
}

const cuda_launcher cuda_launcher_wide = {wide_prepare, wide_smem, wide_launch};
