/*
 * group_launch.cuh - all shapes of the group kernel for one storage type and head size, GROUP_T and GROUP_D,
 * under the names GROUP_PREPARE, GROUP_SMEM and GROUP_LAUNCH: one such file each, to be compiled side by side. With
 * GROUP_WGMMA, the shapes that sm_90a runs with wgmma; with GROUP_CAPPED, those for soft caps; with GROUP_FP8, those for K and V of such a
 * type of 8 bits, soft caps or not.
 */
#include "kernels/cuda/device/3_group.cuh"

#ifdef GROUP_WGMMA
#define SHAPES "kernels/cuda/device/wgmma_shapes.def"
enum { WGMMA = true };
#else
#if defined GROUP_CAPPED
#define SHAPES "kernels/cuda/device/shapes_cap.def"
#elif defined GROUP_FP8
#define SHAPES "kernels/cuda/device/shapes_fp8.def"
#elif GROUP_D > 128
#define SHAPES "kernels/cuda/device/shapes_256.def"
#else
#define SHAPES "kernels/cuda/device/shapes.def"
#endif
enum { WGMMA = false };
#endif
#ifdef GROUP_FP8
using kv_type = treeattn::GROUP_FP8;
enum { KV_BYTES = 1 };
#else
using kv_type = void;
enum { KV_BYTES = 2 };
#endif
#if defined GROUP_CAPPED || defined GROUP_FP8 || GROUP_D > 128
enum { CAPS = true };
#else
enum { CAPS = false };
#endif

using namespace treeattn;

extern "C" int GROUP_PREPARE(int32_t m, int32_t n)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return prepare_group<GROUP_T, GROUP_D, compiled<team_shape<__VA_ARGS__>, WGMMA, CAPS, kv_type>>();
#include SHAPES
#undef SHAPE
    return cudaErrorInvalidValue;
}

extern "C" int GROUP_SMEM(int32_t m, int32_t n, int32_t masked, int32_t q_shared, int32_t q_rows)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return layout<team_shape<__VA_ARGS__>, GROUP_D, KV_BYTES>::bytes(masked, q_shared, q_rows);
#include SHAPES
#undef SHAPE
    return 0;
}

extern "C" int GROUP_LAUNCH(int32_t m, int32_t n, const cuda_group_args *a, int early, void *stream)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return launch_group<GROUP_T, GROUP_D, compiled<team_shape<__VA_ARGS__>, WGMMA, CAPS, kv_type>>(                 \
            *a, early, (cudaStream_t)stream);
#include SHAPES
#undef SHAPE
    return cudaErrorInvalidValue;
}
