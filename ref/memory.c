/* What ends the program: checks that fail, and allocators that run out of memory. sim/engine/arena.c stands in its
 * place where nothing may. */
#include "ref/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ck_fail(const char *file, int line, const char *expr)
{
    fprintf(stderr, "treeattn: %s:%d: internal check failed: %s\n", file, line, expr);
    abort();
}

bool memory_ran_out;

static _Noreturn void out_of_memory(size_t n, size_t size)
{
    fprintf(stderr, "treeattn: out of memory: %zu x %zu bytes asked for\n", n, size);
    memory_ran_out = true;
    exit(EXIT_MISSING);
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        out_of_memory(n, size);
    return p;
}

void *xmalloc(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p)
        out_of_memory(1, size);
    return p;
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        out_of_memory(n, size);
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(n, size);
    return q;
}

/* Elements that an array may have. */
static int64_t most_elements(size_t size)
{
    return (int64_t)((size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 8 / size);
}

void xlimit(int64_t n, size_t size)
{
    enum { SMALL = 1 << 24 }; /* bytes that any machine has room for */
    if (n < SMALL / (int64_t)size || n <= most_elements(size))
        return;
    fprintf(stderr,
            "treeattn: out of memory: %" PRId64 " x %zu bytes in one array (at most an eighth of all)\n", n,
            size);
    memory_ran_out = true;
    exit(EXIT_MISSING);
}

void *xgrow_now(void *p, int64_t *cap, int64_t need, size_t size)
{
    int64_t n = *cap < 8 ? 8 : *cap;
    xlimit(need, size);
    while (n < need)
        n *= n * (int64_t)size >= 1 << 18 ? 4 : 2; /* untouched room costs nothing, copying does */
    if (n >= 1 << 24)
        n = max_i64(need, min_i64(n, most_elements(size)));
    *cap = n;
    return xrealloc(p, (size_t)n, size);
}

void *xaligned(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - 64)
        out_of_memory(n, size);
    bytes = (bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    if (!p)
        out_of_memory(n, size);
    return p;
}
