/*
 * cupti.h - for how long the GPU had a kernel running, by CUPTI, the vendor's tracing library, loaded when first asked for.
 *
 * Every kernel's begin and end are recorded on the device, which makes the time between kernels longer than it is without:
 * the busy time is what to take from here, the whole from a run without tracing.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_CUPTI_H
#define TREEATTN_KERNELS_CUDA_HOST_CUPTI_H

#include "ref/base.h"

struct cupti_busy {
    int64_t kernels;
    double busy_us; /* the union of all kernels' times: one that waits for the one before it counts, once */
    double span_us; /* from the first begin to the last end */
};

/* Record all kernels from now on. False with *e set (EXIT_MISSING): no CUPTI here, or when this was built. */
bool cupti_busy_begin(struct err *e);
/* Wait for the device, stop recording, sum up. */
bool cupti_busy_end(struct cupti_busy *out, struct err *e);

#endif
