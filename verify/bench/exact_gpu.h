/*
 * exact_gpu.h - the data of one tree on a card, the exact answer for it, and who judges by that.
 *
 * The card computes the answer in double (kernels/cuda/host/exact.h). The host computes a sample of its rows from the rule
 * and its own copy of the data: an answer that is wrong judges nothing.
 */
#ifndef TREEATTN_VERIFY_BENCH_EXACT_GPU_H
#define TREEATTN_VERIFY_BENCH_EXACT_GPU_H

#include "ref/oracle.h"
#include "verify/judge/compare.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_data {
    struct problem *p; /* the caller's: no Q, K, V; the page table from gpu_data_draw on */
    uint64_t seed;
    int64_t pool;                      /* elements of K, and of V; from gpu_data_draw on */
    void *q, *k, *v, *pages, *o, *lse; /* on the device */
    struct oracle *truth;              /* on the host, from gpu_exact on */
};
/* Pages, Q, K and V of x->p from x->seed, and room for O and LSE. For after every plan was made. False with *e set if the card fails; gpu_data_free in either case. */
bool gpu_data_draw(struct gpu_data *x, void *stream, struct err *e);
void gpu_data_free(struct gpu_data *x);
/* The exact answer into x->truth, and a sample of it checked. */
bool gpu_exact(struct gpu_data *x, void *stream, struct err *e);
/* What the card wrote against it: all rows, by all cores, some queries at a time. The worst error, in units of its bound, into
 * *worst if it is larger, and into why the first words on the worst verdict. */
enum verdict gpu_exact_compare(const struct gpu_data *x, const struct output *out, const struct arithmetic *a,
                               double *worst, char why[256]);

#ifdef __cplusplus
}
#endif

#endif
