/*
 * group_launch.cuh - all shapes of the group kernel for one storage type and head size, GROUP_T and GROUP_D,
 * under the names GROUP_PREPARE, GROUP_SMEM and GROUP_LAUNCH: one such file each, to be compiled side by side. With
 * GROUP_WGMMA, the shapes that sm_90a runs with wgmma; with GROUP_CAPPED, those for soft caps.
 */
#include "kernels/cuda/device/3_group.cuh"

#ifdef GROUP_WGMMA
#define SHAPES "kernels/cuda/device/wgmma_shapes.def"
enum { WGMMA = true };
#else
#ifdef GROUP_CAPPED
#define SHAPES "kernels/cuda/device/shapes_cap.def"
#elif GROUP_D > 128
#define SHAPES "kernels/cuda/device/shapes_256.def"
#else
#define SHAPES "kernels/cuda/device/shapes.def"
#endif
enum { WGMMA = false };
#endif

#if defined GROUP_CAPPED || GROUP_D > 128
enum { CAPS = true };
#else
enum { CAPS = false };
#endif

using namespace treeattn;

extern "C" int GROUP_PREPARE(int32_t m, int32_t n)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return prepare_group<GROUP_T, GROUP_D, compiled<team_shape<__VA_ARGS__>, WGMMA, CAPS>>();
#include SHAPES
#undef SHAPE
    return cudaErrorInvalidValue;
}

extern "C" int GROUP_SMEM(int32_t m, int32_t n, int32_t masked, int32_t q_shared, int32_t q_rows)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return layout<team_shape<__VA_ARGS__>, GROUP_D>::bytes(masked, q_shared, q_rows);
#include SHAPES
#undef SHAPE
    return 0;
}

extern "C" int GROUP_LAUNCH(int32_t m, int32_t n, const cuda_group_args *a, int early, void *stream)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return launch_group<GROUP_T, GROUP_D, compiled<team_shape<__VA_ARGS__>, WGMMA, CAPS>>(*a, early, (cudaStream_t)stream);
#include SHAPES
#undef SHAPE
    return cudaErrorInvalidValue;
}
