/* kernels.c - the launchers of kernels.def by number. */
#include "kernels/cuda/device/launch.h"

const struct cuda_launcher *cuda_launcher_of(enum cuda_kernel kernel)
{
    static const struct cuda_launcher *const of[] = {
#define KERNEL(id, symbol, name, narrow, about) &cuda_launcher_##symbol,
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
    };
    return of[kernel];
}
