/*
 * nccl.h - collectives between the GPUs of one host by NCCL, loaded when the first group is made: $TREEATTN_NCCL, else
 * libnccl.so.2. One thread drives each GPU; all enqueue the same collectives in the same order. NVLink multicast stays off
 * (NCCL_NVLS_ENABLE=0). The few functions used are declared in nccl_cuda.c, as nccl.h of NCCL 2 has them: its ABI is stable.
 */
#ifndef TREEATTN_KERNELS_DECODE_NCCL_H
#define TREEATTN_KERNELS_DECODE_NCCL_H

#include "kernels/cuda/host/device.h"
#include "kernels/decode/link.h"

/* A name for a group of GPUs, made by one of them. False with EXIT_MISSING where there is no NCCL. */
bool nccl_name(char id[LINK_ID], struct err *e);

struct nccl; /* a GPU's place in a group */
/* The current GPU becomes number `rank` of n; waits for the others. NULL with *e set. */
struct nccl *nccl_join(const char id[LINK_ID], int32_t n, int32_t rank, struct err *e);
/* broken: others may never do what this one waits for. */
void nccl_leave(struct nccl *x, bool broken);

/* On the stream: x[n] becomes the sum over all GPUs; all[n GPUs][bytes] gets every GPU's part, its own being in place already. */
bool nccl_sum(struct nccl *x, float *data, int64_t n, cudaStream_t stream, struct err *e);
bool nccl_gather(struct nccl *x, void *all, int64_t bytes, cudaStream_t stream, struct err *e);

#endif
