/*
 * unfused.h - plans whose scores are materialised.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_UNFUSED_H
#define TREEATTN_KERNELS_CUDA_HOST_UNFUSED_H

#include "kernels/cuda/host/plan.h"

/* Whether such a plan can run; if not, a sentence in why[256]. */
bool unfused_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                      char *why);
/* Makes cp->unfused, or makes it anew, and uploads it on the stream. item: the groups, one item each, in the order in which they
 * are on the device; not kept. sms: of the card. Adds to cp->workspace and cp->bytes. */
bool unfused_fill(struct cuda_plan *cp, const struct cuda_item *item, int64_t n_items, int32_t sms,
                  cudaStream_t stream, struct err *e);
/* Enqueues all kernels of the plan but its merges. */
bool unfused_run(struct cuda_plan *cp, const struct cuda_args *x, cudaStream_t stream, struct err *e);
void unfused_free(struct unfused *u);

#endif
