/* unpack.h - the words of a packed plan (sim/engine/treeattn.h) as the plan and the shape of a problem that cuda.h takes. */
#ifndef TREEATTN_KERNELS_CUDA_ENGINE_UNPACK_H
#define TREEATTN_KERNELS_CUDA_ENGINE_UNPACK_H

#include "ref/problem.h"
#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tree is what the plan says of it: its nodes are those that runs are in, each a root, numbered as in the words; queries have their
 * own numbers. So a page table of p is the words' section of pages. */
struct unpacked {
    struct tree tree;
    struct nform nf;
    struct problem p;
    struct plan *plan;
    int64_t page_at; /* word where that section begins */
};

/* False with *e set where words[0 .. n) are no packed plan; nothing beyond them is read. *x may hold an earlier plan and is filled
 * anew. heads, scale and the like of x->p are the caller's to set. Begin with zeros; free with unpacked_free. */
bool unpack_plan(const int32_t *words, int64_t n, struct unpacked *x, struct err *e);
void unpacked_free(struct unpacked *x);

#ifdef __cplusplus
}
#endif

#endif
