/*
 * cuda.h - running plans on an NVIDIA GPU: a plain C interface over opaque handles.
 *
 * Planning and running are apart. cuda_plan_new checks a plan on the host, lays it out as arrays and copies them to the device.
 * It may be slow, and may be timed by itself. cuda_plan_update is for plans that change at every step.
 *
 * cuda_run only launches. It allocates nothing, waits for nothing, takes a stream and may be captured in a CUDA graph. All
 * buffers that a run reads or writes besides the plan belong to the caller, partial results too (cuda_workspace). So a harness
 * can put canaries around each of them.
 *
 * The planner never sees Q, K, V or what is in the page table. It sees whether there are sinks, not what they are.
 * A plan made once runs on new contents of the same shape.
 *
 * Built without nvcc, or run without a GPU, everything here that needs one fails with one sentence and EXIT_MISSING. A program of
 * your own links with -L/usr/local/cuda/lib64 -lcudart_static -ldl -lrt -lpthread -lstdc++ behind libtreeattn.a.
 *
 * A `stream` is a cudaStream_t; NULL is the default stream. Device pointers come from gpu_alloc or any CUDA allocator.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_CUDA_H
#define TREEATTN_KERNELS_CUDA_HOST_CUDA_H

#include "kernels/cuda/device/kernels.h"
#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is there ---------------------------------------------------------------------------------- */

struct cuda_caps {
    char name[128];   /* "NVIDIA H200" */
    int32_t arch;     /* 10 * major + minor compute capability: 80, 90 */
    int32_t sms;      /* multiprocessors */
    int32_t driver;   /* newest CUDA the driver can run: 13000 is 13.0 */
    int32_t runtime;  /* CUDA this was built with */
    int64_t mem_free; /* bytes */
    int64_t mem_total;
    int64_t l2_bytes;
    int64_t smem_per_cta, smem_per_sm; /* bytes */
};
/* Whether this was built with nvcc at all; needs no GPU. */
bool cuda_built(void);
/* The GPU that runs use, which is the first. False with *e set if this was built without nvcc, if there is no GPU, if it or its
 * driver is too old, or if a kernel has gone so wrong that the GPU is lost to this process. */
bool cuda_caps(struct cuda_caps *c, struct err *e);

/* ---- plans ------------------------------------------------------------------------------------------ */

struct cuda_options {
    /* CUDA_GROUP: 3_group.cuh, and on Hopper 4_wide.cuh where that is faster. CUDA_WIDE, for verification: 4_wide.cuh wherever
     * a plan has tiles of more than 32 rows, on Hopper. CUDA_SMEM, CUDA_SCALAR: earlier rungs of the ladder. */
    enum cuda_kernel kernel;
    int32_t arch; /* 0: the path for the card that is there; 80: the Ampere path, on whatever card */
};
/* The options of a registered kernel that is one of these, or NULL. arch is 0. */
const struct cuda_options *cuda_options_of(const struct kernel *k);

struct cuda_plan; /* device copy of a plan for one shape of problem */

/* Whether the plan can run on problems of p's shape (heads, d, dtype, page size; its Q, K, V and page table
 * are not looked at) on the GPU that is there; if not, a sentence in why[256]. opt may be NULL. */
bool cuda_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                   char *why);
/* NULL with *e set when not supported or out of memory. The plan need not outlive the result. */
struct cuda_plan *cuda_plan_new(const struct problem *p, const struct plan *plan,
                                const struct cuda_options *opt, struct err *e);
void cuda_plan_free(struct cuda_plan *cp);
/* A plan that changes from step to step. It begins empty and is filled any number of times, each time for a problem of any shape.
 * An update is enqueued on the stream, behind what still reads the plan before it. It waits for nothing, unless the device memory
 * must grow. The host may be 4 updates ahead, as many as it has copies of the arrays; then it waits. Graphs captured before an
 * update must not run again. After an update that failed the plan is empty, and cuda_run says so. */
struct cuda_plan *cuda_plan_empty(const struct cuda_options *opt);
bool cuda_plan_update(struct cuda_plan *cp, const struct problem *p, const struct plan *plan, void *stream,
                      struct err *e);
/* Bytes of device memory that a run needs for partial results and materialised scores; may be 0. The memory need not be
 * initialised. Afterwards it holds nothing of use: partial results may never have left the L2. */
int64_t cuda_workspace(const struct cuda_plan *cp);
/* Bytes of the plan's arrays on the device. Its memory there has room for half as many again. */
int64_t cuda_plan_bytes(const struct cuda_plan *cp);

/* Everything on the device; layouts as in ref/problem.h. Alignment: 16 bytes. */
struct cuda_args {
    const void *q;                  /* [n_queries][h_q][d], queries as the tree numbers them */
    const void *k, *v;              /* [n_pages * page_size][h_kv][d] */
    const float *k_scale, *v_scale; /* [h_kv], or NULL where K and V are not in 8 bits */
    const int32_t *page_table; /* [page_off[n_nodes]]; entries the plan reads must be in 0 .. n_pages - 1 */
    const float *sink;         /* [h_q], or NULL where the problem that the plan was made for has none */
    void *o;                   /* [n_queries][h_q][d] of the problem's dtype */
    float *lse;                /* [n_queries][h_q] natural log */
    void *workspace;           /* cuda_workspace bytes, at a multiple of 256 (for cuBLAS; else 16 will do) */
};
/* Enqueues one run on the stream. False with *e set if a launch was refused. What the kernels themselves do wrong shows at the
 * next gpu_sync. A plan may be in one run at a time: partial results are in the caller's workspace, but side streams are the
 * plan's own. Only one thread at a time may run plans that materialise scores: they share a cuBLAS handle. */
bool cuda_run(struct cuda_plan *cp, const struct cuda_args *a, void *stream, struct err *e);

/* Checks every page-table entry that the plan reads, on the host. The device does not check them. */
bool cuda_check_pages(const struct problem *p, const struct plan *plan, struct err *e);

/* The path of the kernels registered by name (cuda_options.arch), whose run() takes no options. Call it before the first run. */
void cuda_force_arch(int32_t arch);

/* ---- the device, for callers that have no CUDA headers ---------------------------------------------- */

void *gpu_alloc(int64_t bytes,
                struct err *e); /* NULL with EXIT_MISSING when out of memory; 256-byte aligned */
void gpu_free(void *p);
bool gpu_upload(void *dev, const void *host, int64_t bytes, struct err *e);
bool gpu_download(void *host, const void *dev, int64_t bytes, struct err *e);
/* Device to device, on the stream. */
bool gpu_copy(void *to, const void *from, int64_t bytes, void *stream, struct err *e);
bool gpu_fill(void *dev, int byte, int64_t bytes, void *stream, struct err *e);
/* Wait for everything; false if a kernel went wrong since the last time. */
bool gpu_sync(struct err *e);
/* Makes *dev hold `bytes`. If its *cap bytes are too few, it becomes `room` bytes: that waits for the device and loses what was
 * there. False with *e set when out of memory; then *dev is NULL and *cap 0. */
static inline bool gpu_grow(void **dev, int64_t *cap, int64_t bytes, int64_t room, struct err *e)
{
    if (*cap >= bytes)
        return true;
    if (!gpu_sync(e))
        return false;
    gpu_free(*dev);
    *dev = gpu_alloc(room, e);
    *cap = *dev ? room : 0;
    return *dev != NULL;
}
void *gpu_stream_new(struct err *e);
void gpu_stream_free(void *stream);
/* What is enqueued on the stream between begin and end becomes a graph instead of running. gpu_capture_end returns NULL with *e
 * set if that failed. */
bool gpu_capture_begin(void *stream, struct err *e);
void *gpu_capture_end(void *stream, struct err *e);
bool gpu_graph_run(void *graph, void *stream, struct err *e);
void gpu_graph_free(void *graph);
/* Events are recorded on a stream. gpu_event_us: microseconds between two of them; it waits for the second. */
void *gpu_event_new(struct err *e);
void gpu_event_free(void *event);
bool gpu_event_record(void *event, void *stream, struct err *e);
bool gpu_event_us(void *first, void *second, double *us, struct err *e);
/* Reads bytes and writes nothing, to measure the read bandwidth. There are several ways, 0 .. GPU_READ_WAYS - 1; the fastest
 * counts. */
enum { GPU_READ_WAYS = 5 };
bool gpu_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream, struct err *e);
/* C[n][n] = A[n][n] B[n][n], f16 or bf16, by cuBLAS, to measure the tensor peak. False with EXIT_MISSING where cuBLAS cannot be
 * loaded. */
bool gpu_gemm(enum dtype t, int32_t n, const void *a, const void *b, void *c, void *stream, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
