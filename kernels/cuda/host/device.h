/*
 * device.h - what host files that call the CUDA runtime share: errors, what the card is, libraries of the toolkit.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_DEVICE_H
#define TREEATTN_KERNELS_CUDA_HOST_DEVICE_H

#include "kernels/cuda/host/cuda.h"

#include <cuda_runtime_api.h>

/* Turns a cudaError_t into *e; true for cudaSuccess. what: the call, for the sentence. */
bool cuda_ok(int status, const char *what, struct err *e);

/* As cuda_caps, without mem_free, for which the driver takes its time. */
bool cuda_card(struct cuda_caps *c, struct err *e);

/* A library of the toolkit, loaded when it is needed, or NULL. The loader is asked for name.13, name.12 and name, then the
 * folder is searched for them. */
void *cuda_library(const char *name, const char *folder);

/* [CUDA_MEET_MOST + 1] Clusters of so many CTAs of the kernel of wide tiles that run at a time, on a card that has that kernel. The first
 * call asks the card. */
const int32_t *cuda_clusters(void);

#endif
