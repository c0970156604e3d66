/*
 * upload.h - arrays that the host makes and the device reads, again and again.
 *
 * Device memory grows and never shrinks. Copies are in line with a stream: they go from pinned host memory, which is there
 * several times over, so that the host can go on while copies are under way. An event guards each.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_UPLOAD_H
#define TREEATTN_KERNELS_CUDA_HOST_UPLOAD_H

#include "ref/base.h"

#include <cuda_runtime_api.h>

enum { UPLOAD_STAGES = 4 };
/* Zero-initialise; upload_free. */
struct cuda_upload {
    void *dev;
    int64_t cap; /* of dev, bytes */
    struct {
        void *host;
        int64_t cap;
        cudaEvent_t done; /* recorded behind its last copy */
    } stage[UPLOAD_STAGES];
    int32_t next;
};

/* Room on the host for that many bytes, zeros, or NULL with *e set. Growth waits for the device. */
void *upload_begin(struct cuda_upload *u, int64_t bytes, struct err *e);
/* Copies what was made to the device, on the stream. */
bool upload_end(struct cuda_upload *u, int64_t bytes, cudaStream_t stream, struct err *e);
void upload_free(struct cuda_upload *u);

/* Bytes, rounded up to a multiple of 256: every array on the device begins at one. */
static inline int64_t cuda_align(int64_t bytes)
{
    return ceil_div(bytes, 256) * 256;
}

#endif
