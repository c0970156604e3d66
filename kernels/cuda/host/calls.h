/*
 * calls.h - which kernels run the items of a plan, and which kernel merges: what tiling.h decides, applied to one plan.
 *
 * Items of a launch that have one tile shape are one kernel, or two where many items are short and others are not.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_CALLS_H
#define TREEATTN_KERNELS_CUDA_HOST_CALLS_H

#include "kernels/cuda/host/items.h"
#include "kernels/cuda/host/plan.h"

/* Adds to `items` the items and merge steps of the whole plan, launch by launch, and to `cp` the kernels that run them. A plan
 * that materialises scores gets items and merges only. cp->workspace must hold the bytes of partial results. False with *e set
 * where the plan is too large for the kernels. */
bool calls_make(struct cuda_plan *cp, struct items *items, const struct cuda_caps *card, struct err *e);

#endif
