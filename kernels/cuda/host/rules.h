/* rules.h - the thresholds of tiling.def as constants. */
#ifndef TREEATTN_KERNELS_CUDA_HOST_RULES_H
#define TREEATTN_KERNELS_CUDA_HOST_RULES_H

enum {
#define RULE(name, value, decides, gain) name = value,
#include "kernels/cuda/host/tiling.def"
#undef RULE
};

#endif
