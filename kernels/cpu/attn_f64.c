/* Work items in double, for double storage of Q: what differs from float, then attn_body.h. */
#include "kernels/cpu/attn.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/convert.h"

#include <string.h>

typedef double real;
#define ATTN_OPS attn_f64
static const enum dtype real_dtype = DT_F64;

static inline real real_fma(real a, real b, real c)
{
    return fma_f64(a, b, c);
}

static inline real real_exp(real x)
{
    return exp(x);
}

static inline real real_tanh(real x)
{
    return tanh(x);
}

static void load_elements(enum dtype t, const void *src, int64_t first, real *dst, int64_t n)
{
    const uint8_t *byte = src;
    CK(t == DT_F64 || t == DT_E4M3 || t == DT_E5M2);
    if (t == DT_F64)
        memcpy(dst, (const real *)src + first, (size_t)n * sizeof *dst);
    for (int64_t i = 0; i < n && t != DT_F64; i++)
        dst[i] = (real)(t == DT_E4M3 ? f32_from_e4m3(byte[first + i]) : f32_from_e5m2(byte[first + i]));
}

static void store_elements(enum dtype t, void *dst, int64_t first, const real *src, int64_t n)
{
    CK(t == DT_F64);
    memcpy((real *)dst + first, src, (size_t)n * sizeof *src);
}

/* c[m][n] = alpha * a[m][k] b + beta * c, with b[k][n], or b[n][k] read transposed. */
static void gemm(enum CBLAS_TRANSPOSE trans_b, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
                 int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    blas.dgemm(CblasRowMajor, CblasNoTrans, trans_b, (blasint)m, (blasint)n, (blasint)k, alpha, a,
               (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

#include "kernels/cpu/attn_body.h"
