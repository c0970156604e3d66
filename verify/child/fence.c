/* fence.c - see fence.h. */
#include "verify/child/fence.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xa5, ALIGNMENT = 64 };

struct fenced fence(const void *from, int64_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)n_bytes,
           rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
           body = (rounded + page - 1) / page * page;
    struct fenced f = {.map_size = body + 2 * page, .size = size};
    f.map =
        mmap(NULL, f.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CK(f.map != MAP_FAILED);
    mprotect(f.map, page, PROT_NONE);
    mprotect(f.map + page + body, page, PROT_NONE);
    f.data = f.map + page + body - rounded;
    memset(f.map + page, CANARY, body - rounded);
    memset(f.data + size, CANARY, rounded - size);
    if (from)
        memcpy(f.data, from, size);
    return f;
}

void fence_seal(const struct fenced *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mprotect(f->map + page, f->map_size - 2 * page, PROT_READ);
}

bool fence_has(const struct fenced *f, const void *at, int *side)
{
    const char *x = at;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (x < f->map || x >= f->map + f->map_size)
        return false;
    *side = x < f->map + page ? -1 : x >= f->map + f->map_size - page;
    return true;
}

bool fence_holds(const struct fenced *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool whole = true;
    for (const char *c = f->map + page; c < f->data; c++)
        whole = whole && (unsigned char)*c == CANARY;
    for (const char *c = f->data + f->size; c < f->map + f->map_size - page; c++)
        whole = whole && (unsigned char)*c == CANARY;
    return whole;
}

void fence_free(const struct fenced *f)
{
    munmap(f->map, f->map_size);
}
