/* The group kernel for f16, d = 256. */
#define GROUP_T __half
#define GROUP_D 256
#define GROUP_PREPARE cuda_prepare_f16_256
#define GROUP_SMEM cuda_smem_f16_256
#define GROUP_LAUNCH cuda_group_f16_256
#include "kernels/cuda/device/group_launch.cuh"
