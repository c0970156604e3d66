/*
 * cupti.h - for how long the GPU had a kernel running, by CUPTI, the vendor's tracing library, which is loaded when first used.
 *
 * Every kernel's begin and end are recorded on the device. That makes the time between kernels longer. So take the busy time from
 * here, and the whole time from a run without tracing.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_CUPTI_H
#define TREEATTN_KERNELS_CUDA_HOST_CUPTI_H

#include "ref/base.h"

struct cupti_busy {
    int64_t kernels;
    double busy_us; /* the union of all kernels' times; a kernel that waits for the one before it counts as busy */
    double span_us; /* from the first begin to the last end */
};

/* Records all kernels from now on. False with *e set (EXIT_MISSING) where there is no CUPTI, or was none when this was built. */
bool cupti_busy_begin(struct err *e);
/* Waits for the device, stops recording and sums up. */
bool cupti_busy_end(struct cupti_busy *out, struct err *e);

#endif
