#include "sim/engine/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A library that is loaded late gets room for so few bytes when it is loaded; of another model, when a thread first
 * asks. */
static _Thread_local struct arena *current __attribute__((tls_model("initial-exec")));

/* In front of each block, which stays aligned to 16 bytes. */
struct head {
    size_t size; /* that was asked for */
    size_t class;
};
enum { LEAST_CLASS = 5 }; /* 32 bytes */

void arena_enter(struct arena *a)
{
    a->used = 0;
    memset(a->freed, 0, sizeof a->freed);
    a->code = TA_DONE;
    a->why[0] = 0;
    current = a;
}

enum ta_code arena_leave(struct arena *a)
{
    current = NULL;
    return a->code;
}

void arena_fail(enum ta_code code, const char *fmt, ...)
{
    struct arena *a = current;
    va_list ap;
    va_start(ap, fmt);
    a->code = code;
    vsnprintf(a->why, sizeof a->why, fmt, ap);
    va_end(ap);
    longjmp(a->out, 1);
}

/* ---- in the place of ref/memory.c ---------------------------------------------------------------------- */

void ck_fail(const char *file, int line, const char *expr)
{
    arena_fail(TA_BROKEN, "%s:%d: internal check failed: %s", file, line, expr);
}

bool memory_ran_out;

static _Noreturn void no_room(size_t n, size_t size)
{
    arena_fail(TA_NO_ROOM, "planning asks for %zu x %zu bytes more than work_bytes of ta_limits, %zu", n,
               size, current->size);
}

void *xmalloc(size_t size)
{
    struct arena *a = current;
    size_t class = LEAST_CLASS;
    if (size > a->size)
        no_room(1, size);
    if (size + sizeof(struct head) > (size_t)1 << LEAST_CLASS)
        class = 64 - (size_t)__builtin_clzll(size + sizeof(struct head) - 1);
    struct head *h = a->freed[class];
    if (h) {
        memcpy(&a->freed[class], h + 1, sizeof(void *));
    } else {
        if ((size_t)1 << class > a->size - a->used)
            no_room(1, size);
        h = (struct head *)(void *)(a->memory + a->used);
        a->used += (size_t)1 << class;
        a->peak = a->used > a->peak ? a->used : a->peak;
    }
    *h = (struct head){.size = size, .class = class};
    return h + 1;
}

void __wrap_free(void *p);
void __real_free(void *p);

/* What no arena gave is the system's. */
void __wrap_free(void *p)
{
    struct arena *a = current;
    if (!a || (uintptr_t)p - (uintptr_t)a->memory >= a->size) {
        __real_free(p);
        return;
    }
    struct head *h = (struct head *)p - 1;
    memcpy(p, &a->freed[h->class], sizeof(void *));
    a->freed[h->class] = h;
}

void *xcalloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        no_room(n, size);
    return memset(xmalloc(bytes), 0, bytes);
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        no_room(n, size);
    struct head *h = p ? (struct head *)p - 1 : NULL;
    if (h && bytes <= ((size_t)1 << h->class) - sizeof *h) {
        h->size = bytes;
        return p;
    }
    void *q = xmalloc(bytes);
    if (h) {
        memcpy(q, p, h->size < bytes ? h->size : bytes);
        __wrap_free(p);
    }
    return q;
}

void xlimit(int64_t n, size_t size)
{
    if ((uint64_t)n > current->size / size)
        no_room((size_t)n, size);
}

void *xgrow_now(void *p, int64_t *cap, int64_t need, size_t size)
{
    int64_t n = *cap < 8 ? 8 : *cap;
    xlimit(need, size);
    while (n < need)
        n *= 2;
    *cap = n;
    return xrealloc(p, (size_t)n, size);
}

/* ---- in the place of glibc's --------------------------------------------------------------------------- */

void __wrap_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));

/* Merges runs of 1, 2, 4 .. elements. Equal elements keep their order. */
void __wrap_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    if (n < 2)
        return;
    char *from = base, *to = xmalloc(n * size), *memory = to;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = middle + width < n ? middle + width : n;
            for (size_t i = begin, j = middle, k = begin; k < end; k++) {
                bool left = j == end || (i < middle && compare(from + i * size, from + j * size) <= 0);
                memcpy(to + k * size, from + (left ? i++ : j++) * size, size);
            }
        }
        char *swap = from;
        from = to;
        to = swap;
    }
    if (from == memory)
        memcpy(base, memory, n * size);
    __wrap_free(memory);
}
