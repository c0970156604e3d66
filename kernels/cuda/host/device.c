/* device.c - the device behind gpu_*: thin over the CUDA runtime, with errors as sentences. */
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/host/device.h"
#include "kernels/cuda/probe/chain.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* Compute capability from which the kernels are compiled. */
enum { OLDEST_ARCH = 80 };

static bool ask_card(struct cuda_caps *got, struct err *e);

/* The status after which every call fails with it until the process ends, or 0. */
static int lost_to;

/* Is it such a status? */
static bool loses_device(int status)
{
    static const cudaError_t faults[] = {cudaErrorECCUncorrectable,   cudaErrorIllegalAddress,
                                         cudaErrorLaunchTimeout,      cudaErrorAssert,
                                         cudaErrorHardwareStackError, cudaErrorIllegalInstruction,
                                         cudaErrorMisalignedAddress,  cudaErrorInvalidAddressSpace,
                                         cudaErrorInvalidPc,          cudaErrorLaunchFailure};
    bool loses = false;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        loses = loses || status == (int)faults[i];
    return loses;
}

bool cuda_ok(int status, const char *what, struct err *e)
{
    if (status == cudaSuccess)
        return true;
    cudaGetLastError(); /* it is reported here and must not show up at the next launch */
    if (loses_device(status))
        __atomic_store_n(&lost_to, status, __ATOMIC_RELAXED);
    if (status == cudaErrorMemoryAllocation)
        return err_missing(e, "the GPU is out of memory (%s)", what);
    if (status == cudaErrorDevicesUnavailable)
        return err_missing(e, "the GPU is not to be had (%s: %s)", what,
                           cudaGetErrorString((cudaError_t)status));
    struct cuda_caps none;
    if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice)
        return ask_card(&none, e) &&
               err_missing(e, "no GPU here (%s)", cudaGetErrorString((cudaError_t)status));
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion ||
        status == cudaErrorJitCompilationDisabled)
        return err_missing(e, "the driver has no way to run these kernels on this GPU (%s: %s)", what,
                           cudaGetErrorString((cudaError_t)status));
    return err_set(e, "CUDA: %s: %s", what,
                   cudaGetErrorString((cudaError_t)status)); /* a fault, not a lack */
}

void *cuda_library(const char *name, const char *folder)
{
    static const char *const version[] = {".13", ".12", ""};
    char path[256];
    for (size_t i = 0; i < sizeof version / sizeof version[0]; i++) {
        snprintf(path, sizeof path, "%s%s", name, version[i]);
        void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (lib)
            return lib;
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

bool cuda_built(void)
{
    return true;
}

bool cuda_caps(struct cuda_caps *c, struct err *e)
{
    size_t mem_free, total;
    if (!cuda_card(c, e) || !cuda_ok(cudaMemGetInfo(&mem_free, &total), "memory query", e))
        return false;
    c->mem_free = (int64_t)mem_free;
    return true;
}

static int32_t clusters[CUDA_MEET_MOST + 1];

/* A size that the driver refuses there is none of. */
static void ask_clusters(void)
{
    for (int32_t ctas = 2; ctas <= CUDA_MEET_MOST; ctas++)
        if (cuda_wide_clusters(ctas, &clusters[ctas]) != cudaSuccess) {
            clusters[ctas] = 0;
            cudaGetLastError(); /* it must not show up at the next launch */
        }
}

const int32_t *cuda_clusters(void)
{
    static pthread_once_t asked = PTHREAD_ONCE_INIT;
    pthread_once(&asked, ask_clusters);
    return clusters;
}

/* Fills *got but for mem_free. */
static bool ask_card(struct cuda_caps *got, struct err *e)
{
    int n = 0, driver = 0, runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaErrorInsufficientDriver && driver > 0)
        return err_missing(e, "the GPU's driver is too old: it runs CUDA %d.%d, this was built with %d.%d",
                           driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (status != cudaSuccess || n == 0)
        return err_missing(e, "no GPU here (%s)",
                           driver == 0 ? "no NVIDIA driver"
                           : status    ? cudaGetErrorString(status)
                                       : "none is visible");
    struct cudaDeviceProp prop;
    if (!cuda_ok(cudaGetDeviceProperties(&prop, 0), "device query", e))
        return false;
    struct cuda_caps card = {.arch = 10 * prop.major + prop.minor,
                             .sms = prop.multiProcessorCount,
                             .driver = driver,
                             .runtime = runtime,
                             .mem_total = (int64_t)prop.totalGlobalMem,
                             .l2_bytes = prop.l2CacheSize,
                             .smem_per_cta = (int64_t)prop.sharedMemPerBlockOptin,
                             .smem_per_sm = (int64_t)prop.sharedMemPerMultiprocessor};
    snprintf(card.name, sizeof card.name, "%.127s", prop.name);
    if (card.arch < OLDEST_ARCH)
        return err_missing(e, "the GPU (%s) has compute capability %d.%d (the kernels want 8.0 or later)",
                           card.name, prop.major, prop.minor);
    *got = card;
    return true;
}

bool cuda_card(struct cuda_caps *c, struct err *e)
{
    static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
    static struct cuda_caps known; /* asked at every plan; the device does not change under us */
    int fault = __atomic_load_n(&lost_to, __ATOMIC_RELAXED);
    if (fault != cudaSuccess) { /* whoever comes next is not to blame */
        *c = (struct cuda_caps){0};
        return err_missing(e, "the GPU does nothing any more in this process, since a kernel went wrong (%s)",
                           cudaGetErrorString((cudaError_t)fault));
    }
    pthread_mutex_lock(&asking);
    bool good = known.sms > 0 || ask_card(&known, e);
    *c = known;
    pthread_mutex_unlock(&asking);
    return good;
}

void *gpu_alloc(int64_t bytes, struct err *e)
{
    struct cuda_caps c;
    void *p = NULL;
    if (!cuda_caps(&c, e))
        return NULL;
    cudaError_t status = cudaMalloc(&p, (size_t)max_i64(bytes, 1));
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* it is reported here and must not show up at the next launch */
        err_missing(e, "the GPU is out of memory: %lld MiB wanted, %lld of %lld free",
                    (long long)(bytes >> 20), (long long)(c.mem_free >> 20), (long long)(c.mem_total >> 20));
        return NULL;
    }
    return cuda_ok(status, "allocation", e) ? p : NULL;
}

void gpu_free(void *p)
{
    if (p)
        cudaFree(p);
}

bool gpu_upload(void *dev, const void *host, int64_t bytes, struct err *e)
{
    return bytes == 0 || cuda_ok(cudaMemcpy(dev, host, (size_t)bytes, cudaMemcpyHostToDevice), "upload", e);
}

bool gpu_download(void *host, const void *dev, int64_t bytes, struct err *e)
{
    return bytes == 0 || cuda_ok(cudaMemcpy(host, dev, (size_t)bytes, cudaMemcpyDeviceToHost), "download", e);
}

bool gpu_copy(void *to, const void *from, int64_t bytes, void *stream, struct err *e)
{
    return bytes == 0 ||
           cuda_ok(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream), "copy", e);
}

bool gpu_fill(void *dev, int byte, int64_t bytes, void *stream, struct err *e)
{
    return bytes == 0 || cuda_ok(cudaMemsetAsync(dev, byte, (size_t)bytes, stream), "fill", e);
}

bool gpu_sync(struct err *e)
{
    return cuda_ok(cudaDeviceSynchronize(), "a kernel", e) && cuda_ok(cudaGetLastError(), "a kernel", e);
}

void *gpu_stream_new(struct err *e)
{
    cudaStream_t s = NULL;
    return cuda_ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream", e) ? s : NULL;
}

void gpu_stream_free(void *stream)
{
    if (stream)
        cudaStreamDestroy(stream);
}

bool gpu_capture_begin(void *stream, struct err *e)
{
    return cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture", e);
}

void *gpu_capture_end(void *stream, struct err *e)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (!cuda_ok(cudaStreamEndCapture(stream, &graph), "capture", e))
        return NULL;
    bool good = cuda_ok(cudaGraphInstantiate(&exec, graph, 0), "graph", e);
    cudaGraphDestroy(graph);
    return good ? exec : NULL;
}

bool gpu_graph_run(void *graph, void *stream, struct err *e)
{
    return cuda_ok(cudaGraphLaunch(graph, stream), "graph", e);
}

void gpu_graph_free(void *graph)
{
    if (graph)
        cudaGraphExecDestroy(graph);
}

void *gpu_event_new(struct err *e)
{
    cudaEvent_t event = NULL;
    return cuda_ok(cudaEventCreate(&event), "event", e) ? event : NULL;
}

void gpu_event_free(void *event)
{
    if (event)
        cudaEventDestroy(event);
}

bool gpu_event_record(void *event, void *stream, struct err *e)
{
    return cuda_ok(cudaEventRecord(event, stream), "event", e);
}

bool gpu_event_us(void *first, void *second, double *us, struct err *e)
{
    float ms = 0;
    bool good = cuda_ok(cudaEventSynchronize(second), "a kernel", e) &&
                cuda_ok(cudaEventElapsedTime(&ms, first, second), "event", e);
    *us = (double)ms * 1e3;
    return good;
}

bool gpu_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream, struct err *e)
{
    return cuda_ok(cuda_launch_read(way, dev, bytes, scratch_64k, stream), "read", e);
}

bool gpu_chain_enqueue(enum gpu_chain_way way, const struct cuda_chain_args *a, void *stream, struct err *e)
{
    struct cuda_caps c;
    return cuda_card(&c, e) && cuda_ok(cuda_launch_chain(way, a, c.arch >= 90, stream), "probe", e);
}
