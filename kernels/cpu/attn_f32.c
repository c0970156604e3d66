/* Work items in float, for all storage but double: what differs from double, then attn_body.h. */
#include "kernels/cpu/attn.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/convert.h"

#include <string.h>

typedef float real;
#define ATTN_OPS attn_f32
static const enum dtype real_dtype = DT_F32;

static inline real real_fma(real a, real b, real c)
{
    return fma_f32(a, b, c);
}

static inline real real_exp(real x)
{
    return fast_expf(x);
}

static inline real real_tanh(real x)
{
    return tanhf(x);
}

/* n elements of storage, from element `first` on. */
static void load_elements(enum dtype t, const void *src, int64_t first, real *dst, int64_t n)
{
    const uint16_t *half = src;
    const uint8_t *byte = src;
    if (t == DT_F32) {
        memcpy(dst, (const real *)src + first, (size_t)n * sizeof *dst);
    } else if (t == DT_F16) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_f16(half[first + i]);
    } else if (t == DT_BF16) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_bf16(half[first + i]);
    } else if (t == DT_E4M3) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_e4m3(byte[first + i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_e5m2(byte[first + i]);
    }
}

static void store_elements(enum dtype t, void *dst, int64_t first, const real *src, int64_t n)
{
    uint16_t *half = dst;
    if (t == DT_F32) {
        memcpy((real *)dst + first, src, (size_t)n * sizeof *src);
    } else if (t == DT_F16) {
        for (int64_t i = 0; i < n; i++)
            half[first + i] = f16_from_f32(src[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            half[first + i] = bf16_from_f32(src[i]);
    }
}

/* c[m][n] = alpha * a[m][k] b + beta * c, with b[k][n], or b[n][k] read transposed. */
static void gemm(enum CBLAS_TRANSPOSE trans_b, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
                 int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    blas.sgemm(CblasRowMajor, CblasNoTrans, trans_b, (blasint)m, (blasint)n, (blasint)k, alpha, a,
               (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

#include "kernels/cpu/attn_body.h"
