/* Group kernels of bf16, head size 64, with wgmma. */
#define GROUP_T __nv_bfloat16
#define GROUP_D 64
#define GROUP_WGMMA
#define GROUP_PREPARE cuda_prepare_wgmma_bf16_64
#define GROUP_SMEM cuda_smem_wgmma_bf16_64
#define GROUP_LAUNCH cuda_group_wgmma_bf16_64
#include "kernels/cuda/device/group_launch.cuh"
