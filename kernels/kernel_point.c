/* kernel_point.c - names of what a kernel may stand in for, without the kernels. */
#include "kernels/kernel.h"

const char *const kernel_point_name[N_KERNEL_POINTS] = {"attention", "partial", "merge"};
