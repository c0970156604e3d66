#include "kernels/decode/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* Of NCCL's nccl.h. */
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[LINK_ID];
} ncclUniqueId;
enum { NCCL_INT8 = 0, NCCL_FLOAT32 = 7, NCCL_SUM = 0, NCCL_SUCCESS = 0 };

#define FUNCTIONS(X)                                                                                         \
    X(int, ncclGetUniqueId, (ncclUniqueId *))                                                                \
    X(int, ncclCommInitRank, (ncclComm_t *, int, ncclUniqueId, int))                                         \
    X(int, ncclCommDestroy, (ncclComm_t))                                                                    \
    X(int, ncclCommAbort, (ncclComm_t))                                                                      \
    X(int, ncclAllReduce, (const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t))                \
    X(int, ncclAllGather, (const void *, void *, size_t, int, ncclComm_t, cudaStream_t))                     \
    X(const char *, ncclGetErrorString, (int))

static struct {
    void *lib;
#define X(type, name, args) type(*name) args;
    FUNCTIONS(X)
#undef X
} lib;

struct nccl {
    ncclComm_t comm;
    int32_t rank;
};

static bool load(struct err *e)
{
    const char *path = getenv("TREEATTN_NCCL");
    path = path ? path : "libnccl.so.2";
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_missing(
            e, "several GPUs want NCCL, and %.200s is not found here (TREEATTN_NCCL names another)", path);
#define X(type, name, args)                                                                                  \
    if (!(*(void **)&lib.name = dlsym(handle, #name)))                                                       \
        return err_missing(e, "%.200s lacks %s", path, #name);
    FUNCTIONS(X)
#undef X
    lib.lib = handle;
    return true;
}

static bool ok(int status, const char *what, struct err *e)
{
    return status == NCCL_SUCCESS || err_set(e, "NCCL: %s: %s", what, lib.ncclGetErrorString(status));
}

bool nccl_name(char id[LINK_ID], struct err *e)
{
    static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    pthread_mutex_lock(&loading);
    bool good = lib.lib || load(e);
    pthread_mutex_unlock(&loading);
    return good && ok(lib.ncclGetUniqueId((ncclUniqueId *)id), "a name", e);
}

struct nccl *nccl_join(const char id[LINK_ID], int32_t n, int32_t rank, struct err *e)
{
    struct nccl *x = xcalloc(1, sizeof *x);
    x->rank = rank;
    if (ok(lib.ncclCommInitRank(&x->comm, n, *(const ncclUniqueId *)id, rank), "a group of GPUs", e))
        return x;
    free(x);
    return NULL;
}

void nccl_leave(struct nccl *x, bool broken)
{
    if (!x)
        return;
    if (broken)
        lib.ncclCommAbort(x->comm);
    else
        lib.ncclCommDestroy(x->comm);
    free(x);
}

bool nccl_sum(struct nccl *x, float *data, int64_t n, cudaStream_t stream, struct err *e)
{
    return ok(lib.ncclAllReduce(data, data, (size_t)n, NCCL_FLOAT32, NCCL_SUM, x->comm, stream), "a sum", e);
}

bool nccl_gather(struct nccl *x, void *all, int64_t bytes, cudaStream_t stream, struct err *e)
{
    return ok(
        lib.ncclAllGather((char *)all + x->rank * bytes, all, (size_t)bytes, NCCL_INT8, x->comm, stream),
        "a gather", e);
}
