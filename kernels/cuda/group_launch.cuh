/*
 * group_launch.cuh - all shapes of the group kernel for one storage type and head size, GROUP_T and GROUP_D,
 * under the names GROUP_PREPARE and GROUP_LAUNCH: one such file each, to be compiled side by side.
 */
#include "kernels/cuda/group.cuh"

using namespace treeattn;

extern "C" int GROUP_PREPARE(int32_t m, int32_t n)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return prepare_group<GROUP_T, GROUP_D, team_shape<__VA_ARGS__>>();
#include "kernels/cuda/shapes.def"
#undef SHAPE
    return cudaErrorInvalidValue;
}

extern "C" int GROUP_LAUNCH(int32_t m, int32_t n, const cuda_group_args *a, int early, void *stream)
{
#define SHAPE(M, N, ...)                                                                                     \
    if (m == M && n == N)                                                                                    \
        return launch_group<GROUP_T, GROUP_D, team_shape<__VA_ARGS__>>(*a, early, (cudaStream_t)stream);
#include "kernels/cuda/shapes.def"
#undef SHAPE
    return cudaErrorInvalidValue;
}
