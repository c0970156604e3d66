/* The group kernel for bf16, d = 64, with soft caps. */
#define GROUP_T __nv_bfloat16
#define GROUP_D 64
#define GROUP_CAPPED
#define GROUP_PREPARE cuda_prepare_cap_bf16_64
#define GROUP_SMEM cuda_smem_cap_bf16_64
#define GROUP_LAUNCH cuda_group_cap_bf16_64
#include "kernels/cuda/device/group_launch.cuh"
