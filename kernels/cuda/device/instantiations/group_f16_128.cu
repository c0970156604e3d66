/* The group kernel for f16, d = 128. */
#define GROUP_T __half
#define GROUP_D 128
#define GROUP_PREPARE cuda_prepare_f16_128
#define GROUP_SMEM cuda_smem_f16_128
#define GROUP_LAUNCH cuda_group_f16_128
#include "kernels/cuda/device/group_launch.cuh"
