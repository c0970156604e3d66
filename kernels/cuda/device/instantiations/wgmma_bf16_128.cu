/* Group kernels of bf16, head size 128, with wgmma. */
#define GROUP_T __nv_bfloat16
#define GROUP_D 128
#define GROUP_WGMMA
#define GROUP_PREPARE cuda_prepare_wgmma_bf16_128
#define GROUP_SMEM cuda_smem_wgmma_bf16_128
#define GROUP_LAUNCH cuda_group_wgmma_bf16_128
#include "kernels/cuda/device/group_launch.cuh"
