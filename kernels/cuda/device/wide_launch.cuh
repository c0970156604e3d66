/*
 * wide_launch.cuh - from what a launch asks for to a kernel of wide tiles; what instantiations/wide*.cu share.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_WIDE_LAUNCH_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_WIDE_LAUNCH_CUH

#include "kernels/cuda/device/4_wide.cuh"

#include "kernels/cuda/device/typed.cuh"

/* Of clusters. */
extern "C" int cuda_prepare_wide_meet(const cuda_shape *s);
extern "C" int cuda_launch_wide_meet(const cuda_shape *s, const cuda_group_args *a, int early, void *stream);

/* Of K and V in 8 bits. */
extern "C" int cuda_prepare_wide_fp8(const cuda_shape *s);
extern "C" int cuda_smem_wide_fp8(const cuda_shape *s, int32_t masked);
extern "C" int cuda_launch_wide_fp8(const cuda_shape *s, const cuda_group_args *a, int early, void *stream);

namespace treeattn {

using encoder = decltype(&cuTensorMapEncodeTiled);

/* The driver's: it is not linked with. NULL if it has none. */
inline encoder find_encoder()
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
inline int make_map(const struct cuda_shape *s, const void *kv, int h_kv, CUtensorMap *map)
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
template <typename T, int SIZE, bool FP8, bool MEETS, typename F> int for_wide(const cuda_shape *s, bool masked, F launch)
{
    constexpr int D = SIZE <= 128 ? SIZE : 128; /* the host has no others run here */
    auto of = [&](auto shares, auto has_mask) {
        constexpr bool SHARED = decltype(shares)::value, MASKED = decltype(has_mask)::value;
        return launch(wide_kernel<T, D, SHARED, MASKED, FP8, MEETS>, wide_layout<D, SHARED, MASKED, FP8>::bytes);
    };
    const std::true_type yes;
    const std::false_type no;
    return s->wide == CUDA_WIDE_SHARED ? (masked ? of(yes, yes) : of(yes, no)) : masked ? of(no, yes) : of(no, no);
}

/* Of every storage type of 16 bits. */
template <bool MEETS, typename F> int for_wide_16_bit(const cuda_shape *s, bool masked, F launch)
{
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return for_wide<decltype(t), decltype(d)::value, false, MEETS>(s, masked, launch);
    });
}

template <bool MEETS> int prepare_wide(const cuda_shape *s)
{
    auto prepare = [](auto kernel, int smem) { return allow_smem(kernel, smem); };
    const int status = for_wide_16_bit<MEETS>(s, false, prepare);
    return status != cudaSuccess ? status : for_wide_16_bit<MEETS>(s, true, prepare);
}

template <bool MEETS> int launch_wide(const cuda_shape *s, const cuda_group_args *a, int early, void *stream)
{
    return for_wide_16_bit<MEETS>(s, a->masked, [&](auto kernel, int smem) {
        CUtensorMap k, v;
        int status = make_map(s, a->k, a->h_kv, &k);
        status = status != cudaSuccess ? status : make_map(s, a->v, a->h_kv, &v);
        return status != cudaSuccess ? status
                                     : launch_clusters(kernel, dim3((unsigned)a->n_ctas), WIDE_THREADS, smem, early, s->meet,
                                                       (cudaStream_t)stream, *a, k, v);
    });
}

} // namespace treeattn

#endif
