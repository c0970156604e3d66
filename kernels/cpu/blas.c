#include "kernels/cpu/blas.h"

#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

struct blas blas;

/* Address space of OpenBLAS 0.3.21, in MiB: itself with what it is linked to and one buffer, and a thread's stack and buffer. */
enum { LIBRARY_MIB = 320, THREAD_MIB = 144 };

static bool has_room(struct err *e)
{
    int threads = omp_get_max_threads();
    int64_t mib = LIBRARY_MIB + (int64_t)threads * THREAD_MIB;
    size_t bytes = (size_t)mib << 20;
    void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return err_missing(e,
                           "OpenBLAS and %d threads take %lld MiB of address space, which are not there "
                           "(expected a higher limit, ulimit -v, or a smaller OMP_NUM_THREADS)",
                           threads, (long long)mib);
    munmap(room, bytes);
    return true;
}

/* One that is not compiled for OpenMP would start threads of its own, in every thread that calls it. */
static void *open_single(void)
{
    static const char name[] = "OPENBLAS_NUM_THREADS";
    const char *was = getenv(name);
    char *kept = was ? xstrdup(was) : NULL;
    setenv(name, "1", 1);
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    if (kept)
        setenv(name, kept, 1);
    else
        unsetenv(name);
    free(kept);
    return lib;
}

static bool load(struct err *e)
{
    if (!has_room(e))
        return false;
    void *lib = open_single();
    if (!lib)
        return err_missing(e, "OpenBLAS cannot be loaded: %s", dlerror());
    struct blas x;
    *(void **)&x.sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)&x.dgemm = dlsym(lib, "cblas_dgemm");
    *(void **)&x.corename = dlsym(lib, "openblas_get_corename");
    if (!x.sgemm || !x.dgemm || !x.corename)
        return err_missing(e, "OpenBLAS cannot be used: %s", dlerror());
    blas = x;
    return true;
}

bool blas_load(struct err *e)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    bool good = blas.sgemm || load(e);
    pthread_mutex_unlock(&lock);
    return good;
}
