#include "kernels/kernel.h"

#include <string.h>

#define KERNEL(symbol) extern const struct kernel symbol;
#include "kernels/kernels.def"
#undef KERNEL

const struct kernel *const kernels[] = {
#define KERNEL(symbol) &symbol,
#include "kernels/kernels.def"
#undef KERNEL
};

const int32_t n_kernels = sizeof kernels / sizeof kernels[0];

const struct kernel *kernel_find(const char *name)
{
    for (int32_t i = 0; i < n_kernels; i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return kernels[i];
    return NULL;
}

bool kernel_has_features(const struct kernel *k, const struct problem *p, struct err *e)
{
    uint32_t lacks = problem_features(p) & ~k->features;
    if (k->attend && k->point == POINT_PARTIAL) /* a row's sink is in none of its partial results */
        lacks &= ~(UINT32_C(1) << FEATURE_SINKS);
    for (int i = 0; i < N_FEATURES; i++)
        if (lacks >> i & 1)
            return err_set(e, "it has no %s", feature_name[i]);
    return true;
}

bool kernel_ready(const struct kernel *k, struct err *e)
{
    struct err own = {0};
    if (!k->ready || k->ready(&own))
        return true;
    if (!own.msg[0])
        err_missing(&own, "kernel %s is not ready, without a reason given", k->name);
    if (!own.code)
        own.code = EXIT_MISSING;
    if (e)
        *e = own;
    return false;
}

const char *const run_end_name[N_RUN_ENDS] = {[RUN_DONE] = "OK",
                                              [RUN_UNSUPPORTED] = "UNSUPPORTED",
                                              [RUN_NO_VIEW] = "NO_VIEW",
                                              [RUN_ERROR] = "ERROR",
                                              [RUN_CRASH] = "CRASH",
                                              [RUN_EXIT] = "EXIT",
                                              [RUN_HANG] = "HANG",
                                              [RUN_DEVICE_FAULT] = "DEVICE_FAULT",
                                              [RUN_MEMORY] = "MEMORY",
                                              [RUN_PROCESSES] = "PROCESSES",
                                              [RUN_PROTOCOL] = "PROTOCOL",
                                              [RUN_SHAPE] = "SHAPE",
                                              [RUN_DTYPE] = "DTYPE",
                                              [RUN_UNWRITTEN] = "UNWRITTEN",
                                              [RUN_WROTE_INPUT] = "WROTE_INPUT",
                                              [RUN_WROTE_OUTSIDE] = "WROTE_OUTSIDE"};
