/* The group kernel for bf16, d = 128. */
#define GROUP_T __nv_bfloat16
#define GROUP_D 128
#define GROUP_PREPARE cuda_prepare_bf16_128
#define GROUP_SMEM cuda_smem_bf16_128
#define GROUP_LAUNCH cuda_group_bf16_128
#include "kernels/cuda/device/group_launch.cuh"
