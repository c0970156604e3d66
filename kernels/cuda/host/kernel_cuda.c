/*
 * kernel_cuda.c - the kernels of device/kernels.def as the registry knows them: upload a problem, run a plan between canaries,
 * download (guard_gpu.h).
 *
 * For verification. Who times a plan keeps it on the device and uses cuda.h itself.
 */
#include "kernels/cuda/host/guard_gpu.h"

static int32_t forced_arch;

static bool gpu_ready(struct err *e)
{
    struct cuda_caps c;
    return cuda_caps(&c, e);
}

void cuda_force_arch(int32_t arch)
{
    forced_arch = arch;
}

bool cuda_check_pages(const struct problem *p, const struct plan *plan, struct err *e)
{
    for (int64_t r = 0; r < plan->n_runs; r++) {
        struct run run = plan_tree_run(plan, &plan->run[r]);
        for (int64_t i = run.begin / p->page_size; i <= (run.end - 1) / p->page_size; i++)
            if (problem_page(p, run.node, i, e) < 0)
                return false;
    }
    return true;
}

static bool supports(const struct cuda_options *opt, const struct problem *p, const struct plan *plan,
                     char *why)
{
    struct cuda_options here = {.kernel = opt->kernel, .arch = forced_arch};
    return cuda_supports(p, plan, &here, why);
}

static bool run(const struct cuda_options *opt, const struct problem *p, const struct plan *plan,
                struct output *out, struct err *e)
{
    struct cuda_options here = {.kernel = opt->kernel, .arch = forced_arch};
    return cuda_check_pages(p, plan, e) && guarded_run(plan, &here, p, out, e);
}

#define KERNEL(id, symbol, name_, narrow, about_)                                                            \
    static const struct cuda_options symbol##_options = {.kernel = CUDA_##id};                               \
    static bool symbol##_supports(const struct problem *p, const struct plan *plan, char *why)               \
    {                                                                                                        \
        return supports(&symbol##_options, p, plan, why);                                                    \
    }                                                                                                        \
    static bool symbol##_run(const struct problem *p, const struct plan *plan, struct output *out,           \
                             struct ledger *counted, struct err *e)                                          \
    {                                                                                                        \
        (void)counted;                                                                                       \
        return run(&symbol##_options, p, plan, out, e);                                                      \
    }                                                                                                        \
    const struct kernel kernel_cuda_##symbol = {                                                             \
        .name = name_,                                                                                       \
        .about = about_,                                                                                     \
        .on_gpu = true,                                                                                      \
        .features = 1 << FEATURE_SOFT_CAP | 1 << FEATURE_SINKS | 1 << FEATURE_WINDOW | FEATURES_FP8,         \
        .ready = gpu_ready,                                                                                  \
        .narrow_p = narrow,                                                                                  \
        .narrow_p_fp8 = DT_F16, /* fp8.cuh */                                                                \
        .sum_run = 128,                                                                                      \
        .merges_at_once = true,                                                                              \
        .supports = symbol##_supports,                                                                       \
        .run = symbol##_run,                                                                                 \
        .config = &symbol##_options,                                                                         \
    };
#include "kernels/cuda/device/kernels.def"
#undef KERNEL

const struct cuda_options *cuda_options_of(const struct kernel *k)
{
    return k->ready == gpu_ready ? k->config : NULL;
}
