/* The group kernel for K and V in e5m2, heads of 64 elements. */
#define GROUP_T beside_fp8
#define GROUP_D 64
#define GROUP_FP8 fp8_e5m2
#define GROUP_PREPARE cuda_prepare_fp8_e5m2_64
#define GROUP_SMEM cuda_smem_fp8_e5m2_64
#define GROUP_LAUNCH cuda_group_fp8_e5m2_64
#include "kernels/cuda/device/group_launch.cuh"
