/*
 * kernel_cuda.c - the GPU's kernels as the registry knows them: upload a problem, run a plan on it, download.
 *
 * For verification. Who times a plan keeps it on the device and uses cuda.h itself.
 */
#include "kernels/cuda/cuda.h"

#include <stdlib.h>

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

/* A device buffer that holds `bytes` of host, or, where host is NULL, NaNs in any float type. */
static void *put(const void *host, int64_t bytes, struct err *e)
{
    void *dev = gpu_alloc(bytes > 0 ? bytes : 1, e);
    if (dev && !(host ? gpu_upload(dev, host, bytes, e) : gpu_fill(dev, 0xFF, bytes, NULL, e))) {
        gpu_free(dev);
        return NULL;
    }
    return dev;
}

static bool run_once(struct cuda_plan *cp, const struct problem *p, struct output *out, struct err *e)
{
    int64_t size = dtype_size[p->dtype], rows = out->n_rows;
    int64_t pool = p->n_pages * p->page_size * p->h_kv * p->d * size;
    int64_t table = p->page_off[p->tree->n_nodes] * (int64_t)sizeof *p->page_table;
    void *q = put(p->q, rows * p->d * size, e), *k = put(p->k, pool, e), *v = put(p->v, pool, e);
    void *pages = put(p->page_table, table, e), *work = put(NULL, cuda_workspace(cp), e);
    void *o = put(NULL, rows * p->d * size, e), *lse = put(NULL, rows * (int64_t)sizeof(float), e);
    struct cuda_args a = {.q = q, .k = k, .v = v, .page_table = pages, .o = o, .lse = lse, .workspace = work};
    bool good = q && k && v && pages && work && o && lse && cuda_run(cp, &a, NULL, e) && gpu_sync(e) &&
                gpu_download(out->o, o, rows * p->d * size, e) &&
                gpu_download(out->lse, lse, rows * (int64_t)sizeof(float), e);
    void *all[] = {q, k, v, pages, work, o, lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        gpu_free(all[i]);
    return good;
}

static bool rung_supports(enum cuda_rung rung, const struct problem *p, const struct plan *plan, char *why)
{
    struct cuda_options opt = {.rung = rung, .arch = forced_arch};
    return cuda_supports(p, plan, &opt, why);
}

static bool rung_run(enum cuda_rung rung, const struct problem *p, const struct plan *plan,
                     struct output *out, struct err *e)
{
    struct cuda_options opt = {.rung = rung, .arch = forced_arch};
    if (!cuda_check_pages(p, plan, e))
        return false;
    struct cuda_plan *cp = cuda_plan_new(p, plan, &opt, e);
    bool good = cp && run_once(cp, p, out, e);
    cuda_plan_free(cp);
    return good;
}

static bool mma_supports(const struct problem *p, const struct plan *plan, char *why)
{
    return rung_supports(CUDA_MMA, p, plan, why);
}

static bool mma_run(const struct problem *p, const struct plan *plan, struct output *out,
                    struct ledger *counted, struct err *e)
{
    (void)counted;
    return rung_run(CUDA_MMA, p, plan, out, e);
}

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
    return rung_run(CUDA_SMEM, p, plan, out, e);
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
    return rung_run(CUDA_SCALAR, p, plan, out, e);
}

const struct kernel kernel_cuda_scalar = {
    .name = "cuda-scalar",
    .about = "on a GPU, for reading: a warp for each query and head, K and V straight from memory",
    .ready = gpu_ready,
    .narrow_p = false,
    .supports = scalar_supports,
    .run = scalar_run,
};
