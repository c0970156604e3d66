/* The group kernel for K and V in e4m3, heads of 64 elements. */
#define GROUP_T beside_fp8
#define GROUP_D 64
#define GROUP_FP8 fp8_e4m3
#define GROUP_PREPARE cuda_prepare_fp8_e4m3_64
#define GROUP_SMEM cuda_smem_fp8_e4m3_64
#define GROUP_LAUNCH cuda_group_fp8_e4m3_64
#include "kernels/cuda/device/group_launch.cuh"
