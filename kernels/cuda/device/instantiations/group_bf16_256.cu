/* The group kernel for bf16, d = 256. */
#define GROUP_T __nv_bfloat16
#define GROUP_D 256
#define GROUP_PREPARE cuda_prepare_bf16_256
#define GROUP_SMEM cuda_smem_bf16_256
#define GROUP_LAUNCH cuda_group_bf16_256
#include "kernels/cuda/device/group_launch.cuh"
