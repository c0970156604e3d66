#include "kernels/cuda/host/cupti.h"

#if __has_include(<cupti.h>)

#include "kernels/cuda/host/device.h"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdlib.h>

enum { BUFFER = 8 << 20 };

/* Functions of CUPTI, in the order in which they are looked up. */
#define FUNCTIONS(X)                                                                                         \
    X(cuptiActivityRegisterCallbacks)                                                                        \
    X(cuptiActivityEnable)                                                                                   \
    X(cuptiActivityDisable)                                                                                  \
    X(cuptiActivityFlushAll)                                                                                 \
    X(cuptiActivityGetNextRecord)

struct interval {
    uint64_t begin, end; /* nanoseconds */
};

static struct {
    bool loaded;
    struct interval *kernel;
    int64_t n, cap;
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} cupti;

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records)
{
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer ? BUFFER : 0;
    *records = 0; /* as many as fit */
}

/* CUPTI calls this from a thread of its own, too. */
static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid)
{
    (void)context, (void)stream, (void)size;
    CUpti_Activity *record = NULL;
#pragma omp critical(cupti)
    while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const CUpti_ActivityKernel9 *k = (const CUpti_ActivityKernel9 *)record;
            cupti.kernel = xgrow(cupti.kernel, &cupti.cap, cupti.n + 1, sizeof *cupti.kernel);
            cupti.kernel[cupti.n++] = (struct interval){k->start, k->end};
        }
    free(buffer);
}

static bool load(struct err *e)
{
    if (cupti.loaded)
        return true;
    void *lib = cuda_library("libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64");
    if (!lib)
        return err_missing(e, "tracing kernels wants CUPTI, and libcupti.so is not found here");
#define X(name)                                                                                              \
    if (!(*(void **)&cupti.name = dlsym(lib, #name)))                                                        \
        return err_missing(e, "libcupti.so lacks %s", #name);
    FUNCTIONS(X)
#undef X
    cupti.loaded = cupti.cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
    return cupti.loaded || err_missing(e, "CUPTI does not start on this GPU");
}

bool cupti_busy_begin(struct err *e)
{
    if (!load(e))
        return false;
    cupti.n = 0;
    return cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS ||
           err_missing(e, "CUPTI refuses to trace kernels on this GPU");
}

static int by_begin(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

bool cupti_busy_end(struct cupti_busy *out, struct err *e)
{
    uint64_t end = 0, busy = 0;
    *out = (struct cupti_busy){0};
    if (!cupti.loaded)
        return err_missing(e, "kernels were not traced");
    bool good = cudaDeviceSynchronize() == cudaSuccess &&
                cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS &&
                cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS;
    qsort(cupti.kernel, (size_t)cupti.n, sizeof *cupti.kernel, by_begin);
    for (int64_t i = 0; i < cupti.n; i++) {
        const struct interval *k = &cupti.kernel[i];
        uint64_t from = k->begin > end ? k->begin : end;
        busy += k->end > from ? k->end - from : 0;
        end = k->end > end ? k->end : end;
    }
    *out = (struct cupti_busy){
        .kernels = cupti.n,
        .busy_us = 1e-3 * (double)busy,
        .span_us = cupti.n > 0 ? 1e-3 * (double)(end - cupti.kernel[0].begin) : 0,
    };
    free(cupti.kernel);
    cupti.kernel = NULL;
    cupti.n = cupti.cap = 0;
    return good || err_missing(e, "CUPTI lost what it recorded");
}

#else

bool cupti_busy_begin(struct err *e)
{
    return err_missing(e, "built without CUPTI's headers: nothing to trace");
}

bool cupti_busy_end(struct cupti_busy *out, struct err *e)
{
    *out = (struct cupti_busy){0};
    return err_missing(e, "built without CUPTI's headers: nothing to trace");
}

#endif
