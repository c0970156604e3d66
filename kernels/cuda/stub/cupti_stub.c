/* What stands in for cupti.c in a build without nvcc. */
#include "kernels/cuda/host/cupti.h"

bool cupti_busy_begin(struct err *e)
{
    return err_missing(e, "built without nvcc: nothing to trace");
}

bool cupti_busy_end(struct cupti_busy *out, struct err *e)
{
    *out = (struct cupti_busy){0};
    return err_missing(e, "built without nvcc: nothing to trace");
}
