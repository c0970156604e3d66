#include "kernels/cuda/host/gemm.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 16, ROUNDS = 3, WORKSPACE = 32 << 20, MOST_GPUS = 16 };
#define WORTH_TIMING (INT64_C(1) << 22) /* elements of W */

/* Functions of cuBLASLt, in the order in which they are looked up. */
#define FUNCTIONS(X)                                                                                         \
    X(cublasLtCreate)                                                                                        \
    X(cublasLtMatmul)                                                                                        \
    X(cublasLtMatmulDescCreate)                                                                              \
    X(cublasLtMatmulDescDestroy)                                                                             \
    X(cublasLtMatmulDescSetAttribute)                                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                            \
    X(cublasLtMatrixLayoutDestroy)                                                                           \
    X(cublasLtMatmulPreferenceCreate)                                                                        \
    X(cublasLtMatmulPreferenceDestroy)                                                                       \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)

static struct {
    void *lib;
    struct lt_gpu {
        cublasLtHandle_t handle;
        void *workspace;
    } gpu[MOST_GPUS];
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} lt;

struct gemm {
    struct gemm_shape shape;
    const struct lt_gpu *gpu; /* the one that was current when it was made */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t algo;
};

static bool load(struct err *e)
{
    if (lt.lib)
        return true;
    void *lib = cuda_library("libcublasLt.so", "/usr/local/cuda/lib64");
    if (!lib)
        return err_missing(e, "the decode step wants cuBLAS, and libcublasLt.so is not found here");
#define X(name)                                                                                              \
    if (!(*(void **)&lt.name = dlsym(lib, #name)))                                                           \
        return err_missing(e, "libcublasLt.so lacks %s", #name);
    FUNCTIONS(X)
#undef X
    lt.lib = lib;
    return true;
}

static bool start(struct lt_gpu *g, struct err *e)
{
    g->workspace = g->workspace ? g->workspace : gpu_alloc(WORKSPACE, e);
    if (!g->workspace || g->handle)
        return g->workspace;
    if (lt.cublasLtCreate(&g->handle) == CUBLAS_STATUS_SUCCESS)
        return true;
    g->handle = NULL;
    return err_missing(e, "cuBLASLt does not start on this GPU");
}

/* That of the current GPU; NULL with *e set where it cannot be had. Threads of several GPUs may ask at once. */
static const struct lt_gpu *current_gpu(struct err *e)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    int device = 0;
    if (!cuda_ok(cudaGetDevice(&device), "device query", e))
        return NULL;
    CK(device < MOST_GPUS);
    pthread_mutex_lock(&one);
    bool good = load(e) && start(&lt.gpu[device], e);
    pthread_mutex_unlock(&one);
    return good ? &lt.gpu[device] : NULL;
}

static bool ok(cublasStatus_t status, const struct gemm_shape *s, struct err *e)
{
    return status == CUBLAS_STATUS_SUCCESS ||
           err_set(e, "cuBLASLt refused a product of %lld x %lld with %d rows (status %d)",
                   (long long)s->rows, (long long)s->cols, s->n, (int)status);
}

/* Row-major y[n][rows] = x[n][cols] W[rows][cols]^T is to cuBLAS, which counts columns first, y = W^T x. */
static bool describe(struct gemm *g, struct err *e)
{
    const struct gemm_shape *s = &g->shape;
    cudaDataType_t in = s->t == CUDA_F16 ? CUDA_R_16F : CUDA_R_16BF, out = s->f32 ? CUDA_R_32F : in;
    cublasOperation_t transposed = CUBLAS_OP_T;
    return ok(lt.cublasLtMatmulDescCreate(&g->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), s, e) &&
           ok(lt.cublasLtMatmulDescSetAttribute(g->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                sizeof transposed),
              s, e) &&
           ok(lt.cublasLtMatrixLayoutCreate(&g->w, in, (uint64_t)s->cols, (uint64_t)s->rows, s->cols), s,
              e) &&
           ok(lt.cublasLtMatrixLayoutCreate(&g->x, in, (uint64_t)s->cols, (uint64_t)s->n, s->cols), s, e) &&
           ok(lt.cublasLtMatrixLayoutCreate(&g->y, out, (uint64_t)s->rows, (uint64_t)s->n, s->rows), s, e);
}

static int32_t candidates(struct gemm *g, cublasLtMatmulHeuristicResult_t found[CANDIDATES], struct err *e)
{
    size_t workspace = WORKSPACE;
    int n = 0;
    cublasLtMatmulPreference_t wish = NULL;
    if (!ok(lt.cublasLtMatmulPreferenceCreate(&wish), &g->shape, e))
        return 0;
    lt.cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                            sizeof workspace);
    ok(lt.cublasLtMatmulAlgoGetHeuristic(g->gpu->handle, g->product, g->w, g->x, g->y, g->y, wish, CANDIDATES,
                                         found, &n),
       &g->shape, e);
    lt.cublasLtMatmulPreferenceDestroy(wish);
    return n;
}

/* Microseconds of a product with g->algo, or -1 where it does not run. */
static double time_once(const struct gemm *g, const struct gemm_trial *t, void *begin, void *end)
{
    double us = -1;
    struct err e = {0};
    bool good = gpu_event_record(begin, t->stream, &e);
    for (int32_t i = 0; i < t->n_w && good; i++)
        good = gemm_run(g, t->w[i], t->x, t->y, t->stream, &e);
    if (!good || !gpu_event_record(end, t->stream, &e) || !gpu_event_us(begin, end, &us, &e)) {
        cudaGetLastError();
        return -1;
    }
    return us;
}

static bool choose(struct gemm *g, const struct gemm_trial *t, struct err *e)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int32_t n = candidates(g, found, e), best = 0;
    if (n == 0)
        return err_set(e, "cuBLASLt has no kernel for a product of %lld x %lld with %d rows",
                       (long long)g->shape.rows, (long long)g->shape.cols, g->shape.n);
    g->algo = found[0].algo;
    if (g->shape.rows * g->shape.cols < WORTH_TIMING)
        return true;
    double least[CANDIDATES], fastest = 0;
    void *begin = gpu_event_new(e), *end = gpu_event_new(e);
    for (int32_t i = 0; i < n && begin && end; i++) {
        g->algo = found[i].algo;
        least[i] = -1;
        for (int32_t r = 0; r <= ROUNDS; r++) { /* the first, with its loading of code, does not count */
            double us = time_once(g, t, begin, end);
            if (us < 0)
                break;
            if (r > 0 && (least[i] < 0 || us < least[i]))
                least[i] = us;
        }
        if (least[i] > 0 && (fastest == 0 || least[i] < fastest)) {
            fastest = least[i];
            best = i;
        }
    }
    gpu_event_free(begin);
    gpu_event_free(end);
    g->algo = found[best].algo;
    return begin && end;
}

struct gemm *gemm_new(const struct gemm_shape *s, const struct gemm_trial *trial, struct err *e)
{
    const struct lt_gpu *gpu = current_gpu(e);
    if (!gpu)
        return NULL;
    struct gemm *g = xcalloc(1, sizeof *g);
    g->gpu = gpu;
    g->shape = *s;
    if (describe(g, e) && choose(g, trial, e))
        return g;
    gemm_free(g);
    return NULL;
}

void gemm_free(struct gemm *g)
{
    if (!g)
        return;
    if (g->product)
        lt.cublasLtMatmulDescDestroy(g->product);
    cublasLtMatrixLayout_t layouts[] = {g->w, g->x, g->y};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            lt.cublasLtMatrixLayoutDestroy(layouts[i]);
    free(g);
}

_Static_assert(sizeof(cublasLtMatmulAlgo_t) <= GEMM_CHOICE,
               "a choice has room for what cuBLASLt calls serializable");

void gemm_choice(const struct gemm *g, char choice[GEMM_CHOICE])
{
    memset(choice, 0, GEMM_CHOICE);
    memcpy(choice, &g->algo, sizeof g->algo);
}

void gemm_take(struct gemm *g, const char choice[GEMM_CHOICE])
{
    memcpy(&g->algo, choice, sizeof g->algo);
}

bool gemm_run(const struct gemm *g, const void *w, const void *x, void *y, cudaStream_t stream, struct err *e)
{
    const float one = 1, beta = g->shape.add ? 1 : 0;
    return ok(lt.cublasLtMatmul(g->gpu->handle, g->product, &one, w, g->w, x, g->x, &beta, y, g->y, y, g->y,
                                &g->algo, g->gpu->workspace, WORKSPACE, stream),
              &g->shape, e);
}
