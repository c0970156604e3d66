/* The group kernel for f16, d = 64. */
#define GROUP_T __half
#define GROUP_D 64
#define GROUP_PREPARE cuda_prepare_f16_64
#define GROUP_SMEM cuda_smem_f16_64
#define GROUP_LAUNCH cuda_group_f16_64
#include "kernels/cuda/device/group_launch.cuh"
