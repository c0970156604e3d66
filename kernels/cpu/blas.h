/*
 * blas.h - OpenBLAS's matrix products. It is loaded when they are first asked for: it takes 300 MB of address space, and waits
 * for ever where a limit (ulimit -v) has none, so a program that needs no product must not have it.
 */
#ifndef TREEATTN_KERNELS_CPU_BLAS_H
#define TREEATTN_KERNELS_CPU_BLAS_H

#include "ref/base.h"

#include <cblas.h>

BEGIN_C

/* Of <cblas.h>, which says what they take. Set once blas_load has returned true. */
struct blas {
    void (*sgemm)(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE trans_a, enum CBLAS_TRANSPOSE trans_b,
                  blasint m, blasint n, blasint k, float alpha, const float *a, blasint lda, const float *b,
                  blasint ldb, float beta, float *c, blasint ldc);
    void (*dgemm)(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE trans_a, enum CBLAS_TRANSPOSE trans_b,
                  blasint m, blasint n, blasint k, double alpha, const double *a, blasint lda,
                  const double *b, blasint ldb, double beta, double *c, blasint ldc);
    char *(*corename)(void); /* the processor that its code is for */
};
extern struct blas blas;

/* Load it, to be called from several threads at once, each of which then computes its products alone. False with *e set if there
 * is none, or not the address space for it and a buffer for each thread that OpenMP may start. May be called again and again, by
 * any thread. */
bool blas_load(struct err *e);

END_C

#endif
