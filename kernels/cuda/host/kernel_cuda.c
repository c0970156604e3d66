/*
 * kernel_cuda.c - the GPU's kernels as the registry knows them: upload a problem, run a plan on it between canaries,
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
    const struct nform *nf = plan->nf;
    for (int64_t r = 0; r < plan->n_runs; r++) {
        const struct run *run = &plan->run[r];
        int32_t node = nf->src[run->node];
        int64_t first = (nf->off[run->node] + run->begin) / p->page_size;
        int64_t last = (nf->off[run->node] + run->end - 1) / p->page_size;
        for (int64_t i = first; i <= last; i++) {
            int32_t page = p->page_table[p->page_off[node] + i];
            if (page < 0 || page >= p->n_pages)
                return err_set(e, "page table: page %lld of node %d is %d (expected 0 .. %lld)", (long long)i,
                               node, page, (long long)p->n_pages - 1);
        }
    }
    return true;
}

static bool rung_supports(enum cuda_rung rung, const struct problem *p, const struct plan *plan, char *why)
{
    struct cuda_options opt = {.rung = rung, .arch = forced_arch};
    return cuda_supports(p, plan, &opt, why);
}

static bool rung_run(enum cuda_rung rung, bool wide, const struct problem *p, const struct plan *plan,
                     struct output *out, struct err *e)
{
    struct cuda_options opt = {.rung = rung, .arch = forced_arch, .wide = wide};
    return cuda_check_pages(p, plan, e) && guarded_run(plan, &opt, p, out, e);
}

static bool mma_supports(const struct problem *p, const struct plan *plan, char *why)
{
    return rung_supports(CUDA_MMA, p, plan, why);
}

static bool mma_run(const struct problem *p, const struct plan *plan, struct output *out,
                    struct ledger *counted, struct err *e)
{
    (void)counted;
    return rung_run(CUDA_MMA, false, p, plan, out, e);
}

static bool wide_run(const struct problem *p, const struct plan *plan, struct output *out,
                     struct ledger *counted, struct err *e)
{
    (void)counted;
    return rung_run(CUDA_MMA, true, p, plan, out, e);
}

const struct kernel kernel_cuda_wide = {
    .name = "cuda-wide",
    .about = "on a GPU, for verification: cuda, with Hopper's kernel of wide tiles wherever it may run",
    .ready = gpu_ready,
    .narrow_p = true,
    .supports = mma_supports,
    .run = wide_run,
};

const struct kernel kernel_cuda = {
    .name = "cuda",
    .about = "on a GPU: tensor cores, asynchronous copies, tiles and launches as the plan says; f16 and bf16",
    .ready = gpu_ready,
    .narrow_p = true,
    .supports = mma_supports,
    .run = mma_run,
};

static bool smem_supports(const struct problem *p, const struct plan *plan, char *why)
{
    return rung_supports(CUDA_SMEM, p, plan, why);
}

static bool smem_run(const struct problem *p, const struct plan *plan, struct output *out,
                     struct ledger *counted, struct err *e)
{
    (void)counted;
    return rung_run(CUDA_SMEM, false, p, plan, out, e);
}

const struct kernel kernel_cuda_smem = {
    .name = "cuda-smem",
    .about = "on a GPU, for reading: a tile of K and V in shared memory, a query row a warp, no tensor cores",
    .ready = gpu_ready,
    .narrow_p = false,
    .supports = smem_supports,
    .run = smem_run,
};

static bool scalar_supports(const struct problem *p, const struct plan *plan, char *why)
{
    return rung_supports(CUDA_SCALAR, p, plan, why);
}

static bool scalar_run(const struct problem *p, const struct plan *plan, struct output *out,
                       struct ledger *counted, struct err *e)
{
    (void)counted;
    return rung_run(CUDA_SCALAR, false, p, plan, out, e);
}

const struct kernel kernel_cuda_scalar = {
    .name = "cuda-scalar",
    .about = "on a GPU, for reading: a warp for each query and head, K and V straight from memory",
    .ready = gpu_ready,
    .narrow_p = false,
    .supports = scalar_supports,
    .run = scalar_run,
};
