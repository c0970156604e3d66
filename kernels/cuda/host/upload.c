/* upload.c - copies to the device that the host need not wait for. */
#include "kernels/cuda/host/upload.h"
#include "kernels/cuda/host/device.h"

#include <string.h>

/* Room is made for more than asked: steps grow by a token a query. */
static int64_t roomy(int64_t bytes)
{
    return cuda_align(max_i64(bytes + bytes / 2, 4096));
}

static bool grow_stage(struct cuda_upload *u, int32_t i, int64_t bytes, struct err *e)
{
    if (!u->stage[i].done &&
        !cuda_ok(cudaEventCreateWithFlags(&u->stage[i].done, cudaEventDisableTiming), "event", e))
        return false;
    if (u->stage[i].host && u->stage[i].cap >= bytes)
        return true;
    if (u->stage[i].host)
        cudaFreeHost(u->stage[i].host);
    u->stage[i].host = NULL;
    u->stage[i].cap = 0;
    if (!cuda_ok(cudaHostAlloc(&u->stage[i].host, (size_t)roomy(bytes), cudaHostAllocDefault),
                 "pinned memory", e))
        return false;
    u->stage[i].cap = roomy(bytes);
    return true;
}

void *upload_begin(struct cuda_upload *u, int64_t bytes, struct err *e)
{
    int32_t i = u->next;
    if (u->stage[i].done && !cuda_ok(cudaEventSynchronize(u->stage[i].done), "upload", e))
        return NULL;
    if (!grow_stage(u, i, bytes, e) || !gpu_grow(&u->dev, &u->cap, bytes, roomy(bytes), e))
        return NULL;
    memset(u->stage[i].host, 0, (size_t)bytes);
    return u->stage[i].host;
}

bool upload_end(struct cuda_upload *u, int64_t bytes, cudaStream_t stream, struct err *e)
{
    int32_t i = u->next;
    u->next = (i + 1) % UPLOAD_STAGES;
    return (bytes == 0 || /* there may be no device memory yet */
            cuda_ok(cudaMemcpyAsync(u->dev, u->stage[i].host, (size_t)bytes, cudaMemcpyHostToDevice, stream),
                    "upload", e)) &&
           cuda_ok(cudaEventRecord(u->stage[i].done, stream), "upload", e);
}

void upload_free(struct cuda_upload *u)
{
    gpu_free(u->dev);
    for (int32_t i = 0; i < UPLOAD_STAGES; i++) {
        if (u->stage[i].host)
            cudaFreeHost(u->stage[i].host);
        if (u->stage[i].done)
            cudaEventDestroy(u->stage[i].done);
    }
}
