/* What stands in for the CUDA side in a build without nvcc: one sentence, EXIT_MISSING. */
#include "kernels/cuda/host/cuda.h"
#include "kernels/cuda/probe/chain.h"

#include <stdio.h>

static bool missing(struct err *e)
{
    return err_missing(e, "this treeattn was built without nvcc, so it has no CUDA kernels: make builds them "
                          "where nvcc is 12.3 or newer");
}

bool cuda_built(void)
{
    return false;
}

bool cuda_caps(struct cuda_caps *c, struct err *e)
{
    *c = (struct cuda_caps){0};
    return missing(e);
}

bool cuda_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                   char *why)
{
    (void)p, (void)plan, (void)opt;
    struct err e = {0};
    missing(&e);
    snprintf(why, 256, "%.255s", e.msg);
    return false;
}

struct cuda_plan *cuda_plan_new(const struct problem *p, const struct plan *plan,
                                const struct cuda_options *opt, struct err *e)
{
    (void)p, (void)plan, (void)opt;
    missing(e);
    return NULL;
}

struct cuda_plan *cuda_plan_empty(const struct cuda_options *opt)
{
    (void)opt;
    return NULL;
}

bool cuda_plan_update(struct cuda_plan *cp, const struct problem *p, const struct plan *plan, void *stream,
                      struct err *e)
{
    (void)cp, (void)p, (void)plan, (void)stream;
    return missing(e);
}

void cuda_plan_free(struct cuda_plan *cp)
{
    (void)cp;
}

int64_t cuda_workspace(const struct cuda_plan *cp)
{
    (void)cp;
    return 0;
}

int64_t cuda_plan_bytes(const struct cuda_plan *cp)
{
    (void)cp;
    return 0;
}

bool cuda_run(struct cuda_plan *cp, const struct cuda_args *a, void *stream, struct err *e)
{
    (void)cp, (void)a, (void)stream;
    return missing(e);
}

void *gpu_alloc(int64_t bytes, struct err *e)
{
    (void)bytes;
    missing(e);
    return NULL;
}

void gpu_free(void *p)
{
    (void)p;
}

bool gpu_upload(void *dev, const void *host, int64_t bytes, struct err *e)
{
    (void)dev, (void)host, (void)bytes;
    return missing(e);
}

bool gpu_download(void *host, const void *dev, int64_t bytes, struct err *e)
{
    (void)host, (void)dev, (void)bytes;
    return missing(e);
}

bool gpu_copy(void *to, const void *from, int64_t bytes, void *stream, struct err *e)
{
    (void)to, (void)from, (void)bytes, (void)stream;
    return missing(e);
}

bool gpu_fill(void *dev, int byte, int64_t bytes, void *stream, struct err *e)
{
    (void)dev, (void)byte, (void)bytes, (void)stream;
    return missing(e);
}

bool gpu_sync(struct err *e)
{
    return missing(e);
}

void *gpu_stream_new(struct err *e)
{
    missing(e);
    return NULL;
}

void gpu_stream_free(void *stream)
{
    (void)stream;
}

bool gpu_capture_begin(void *stream, struct err *e)
{
    (void)stream;
    return missing(e);
}

void *gpu_capture_end(void *stream, struct err *e)
{
    (void)stream;
    missing(e);
    return NULL;
}

bool gpu_graph_run(void *graph, void *stream, struct err *e)
{
    (void)graph, (void)stream;
    return missing(e);
}

void gpu_graph_free(void *graph)
{
    (void)graph;
}

void *gpu_event_new(struct err *e)
{
    missing(e);
    return NULL;
}

void gpu_event_free(void *event)
{
    (void)event;
}

bool gpu_event_record(void *event, void *stream, struct err *e)
{
    (void)event, (void)stream;
    return missing(e);
}

bool gpu_event_us(void *first, void *second, double *us, struct err *e)
{
    (void)first, (void)second;
    *us = 0;
    return missing(e);
}

bool gpu_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream, struct err *e)
{
    (void)way, (void)dev, (void)bytes, (void)scratch_64k, (void)stream;
    return missing(e);
}

bool gpu_gemm(enum dtype t, int32_t n, const void *a, const void *b, void *c, void *stream, struct err *e)
{
    (void)t, (void)n, (void)a, (void)b, (void)c, (void)stream;
    return missing(e);
}

bool gpu_chain_enqueue(enum gpu_chain_way way, const struct cuda_chain_args *a, void *stream, struct err *e)
{
    (void)way, (void)a, (void)stream;
    return missing(e);
}
