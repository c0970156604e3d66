/* What stands in for busy.c in a build without nvcc. */
#include "kernels/cuda/busy.h"

bool gpu_busy_begin(struct err *e)
{
    return err_missing(e, "built without nvcc: nothing to trace");
}

bool gpu_busy_end(struct gpu_busy *out, struct err *e)
{
    *out = (struct gpu_busy){0};
    return err_missing(e, "built without nvcc: nothing to trace");
}
