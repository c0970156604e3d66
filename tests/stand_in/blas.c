/*
 * blas.c - the functions of cuBLAS that unfused.c looks up in a library.
 *
 * cuda_library() is wrapped, so that they are found in this program. cuBLASLt is not there. Products are of narrow matrices, in
 * double, columns first as in cuBLAS.
 */
#include "ref/problem.h"
#include "tests/stand_in/stand_in.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *__wrap_cuda_library(const char *name, const char *folder);
void *__wrap_cuda_library(const char *name, const char *folder)
{
    (void)folder;
    return strcmp(name, "libcublas.so") == 0 ? dlopen(NULL, RTLD_NOW) : NULL;
}

static enum dtype type_of(cudaDataType_t t)
{
    CK(t == CUDA_R_16F || t == CUDA_R_16BF || t == CUDA_R_32F);
    return t == CUDA_R_16F ? DT_F16 : t == CUDA_R_16BF ? DT_BF16 : DT_F32;
}

struct matrix {
    const void *p;
    enum dtype t;
    int64_t ld, stride; /* stride: to the next of a batch */
    bool transposed;
};

/* A batch of products C = A B. C is m x n; k is summed over. */
struct product {
    struct matrix a, b, c;
    int64_t m, n, k, batch;
};

/* Matrix number `batch` of rows x cols, one row after the other; the caller frees. */
static float *load(const struct matrix *x, int64_t batch, int64_t rows, int64_t cols)
{
    float *to = xcalloc((size_t)(rows * cols), sizeof *to);
    for (int64_t r = 0; r < rows && x->transposed; r++)
        dtype_to_float(x->t, x->p, batch * x->stride + r * x->ld, to + r * cols, cols);
    for (int64_t i = 0; i < rows * cols && !x->transposed; i++)
        to[i] = (float)dtype_load(x->t, x->p, batch * x->stride + i % cols * x->ld + i / cols);
    return to;
}

static void run_product(const void *args)
{
    const struct product *x = args;
#pragma omp parallel for
    for (int64_t batch = 0; batch < x->batch; batch++) {
        struct matrix b_transposed = x->b; /* numbers that are summed over then lie side by side */
        b_transposed.transposed = !x->b.transposed;
        float *a = load(&x->a, batch, x->m, x->k), *b = load(&b_transposed, batch, x->n, x->k);
        for (int64_t i = 0; i < x->m * x->n; i++) {
            int64_t row = i % x->m, col = i / x->m, at = batch * x->c.stride + col * x->c.ld + row;
            dtype_store(x->c.t, (void *)x->c.p, at, stand_in_dot(a + row * x->k, b + col * x->k, x->k));
        }
        free(a);
        free(b);
    }
}

/* ---- cuBLAS -------------------------------------------------------------------------------------------------- */

struct cublasContext {
    cudaStream_t stream;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = xcalloc(1, sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    (void)handle;
    return (uintptr_t)workspace % 256 == 0 && stand_in_on_device(workspace, (int64_t)bytes)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType type_a, int lda, long long stride_a,
                                          const void *b, cudaDataType type_b, int ldb, long long stride_b,
                                          const void *beta, void *c, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algo)
{
    struct product x = {.a = {a, type_of(type_a), lda, stride_a, op_a == CUBLAS_OP_T},
                        .b = {b, type_of(type_b), ldb, stride_b, op_b == CUBLAS_OP_T},
                        .c = {c, type_of(type_c), ldc, stride_c, false},
                        .m = m,
                        .n = n,
                        .k = k,
                        .batch = batch};
    CK(*(const float *)alpha == 1 && *(const float *)beta == 0 && compute == CUBLAS_COMPUTE_32F &&
       algo == CUBLAS_GEMM_DEFAULT);
    int status = stand_in_launch("cuBLAS product", cublasGemmStridedBatchedEx, run_product, &x, sizeof x,
                                 false, handle->stream);
    if (status == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    cudaGetLastError(); /* cuBLAS has a runtime of its own, which keeps its errors */
    return CUBLAS_STATUS_EXECUTION_FAILED;
}
