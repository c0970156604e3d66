/*
 * kernels.h - the kernels of kernels.def by number.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_KERNELS_H
#define TREEATTN_KERNELS_CUDA_DEVICE_KERNELS_H

enum cuda_kernel {
#define KERNEL(id, symbol, name, narrow, about) CUDA_##id,
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
    N_CUDA_KERNELS
};

#endif
