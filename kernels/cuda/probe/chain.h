/*
 * chain.h - the probe of the least chain: steps that depend on each other and that a kernel which runs plans cannot do without.
 *
 * Where they lead is drawn at random and lies in device memory, as a plan and a page table do. So no step can begin before
 * the one before it has ended. gpu_chain_right tells whether all were made.
 */
#ifndef TREEATTN_KERNELS_CUDA_PROBE_CHAIN_H
#define TREEATTN_KERNELS_CUDA_PROBE_CHAIN_H

#include "kernels/cuda/probe/chain_launch.h"
#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a card of so many multiprocessors. NULL with *e set if it has no memory for that. The caller's: gpu_chain_free. */
struct gpu_chain *gpu_chain_new(int32_t sms, struct err *e);
void gpu_chain_free(struct gpu_chain *x);
/* Enqueues it; may be captured in a CUDA graph. */
bool gpu_chain_run(const struct gpu_chain *x, enum gpu_chain_way way, void *stream, struct err *e);
/* Enqueues: results and partial results become none. */
bool gpu_chain_poison(const struct gpu_chain *x, void *stream, struct err *e);
/* Waits. Did the last run, which was in that way, write what it should? An error says that it did not. */
bool gpu_chain_right(const struct gpu_chain *x, enum gpu_chain_way way, struct err *e);

/* The launch, on the device that is there: device.c, or what stands in for it. */
bool gpu_chain_enqueue(enum gpu_chain_way way, const struct cuda_chain_args *a, void *stream, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
