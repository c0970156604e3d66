#include "ref/base.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A sentence that is too long loses its middle: the file at its start and the expectation at its end stay. */
static void cut_middle(char *msg, size_t size, const char *fmt, va_list ap)
{
    char *whole = NULL;
    int n = vasprintf(&whole, fmt, ap);
    if (n < 0)
        return; /* the start is there */
    size_t half = size / 2;
    memcpy(msg + half, "...", 3);
    memcpy(msg + half + 3, whole + n - (size - half - 4), size - half - 3);
    free(whole);
}

/* What was quoted from somebody's input must not break the line or reach the terminal's controls. */
static void make_printable(char *msg)
{
    for (; *msg; msg++)
        if ((unsigned char)*msg < ' ' || *msg == 0x7f)
            *msg = '?';
}

static bool err_fill(struct err *e, int code, const char *fmt, va_list ap)
{
    if (!e || e->code != 0)
        return false;
    va_list again;
    va_copy(again, ap);
    e->code = code;
    if (vsnprintf(e->msg, sizeof e->msg, fmt, ap) >= (int)sizeof e->msg)
        cut_middle(e->msg, sizeof e->msg, fmt, again);
    va_end(again);
    make_printable(e->msg);
    return false;
}

bool err_set(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_fill(e, EXIT_BAD_INPUT, fmt, ap);
    va_end(ap);
    return false;
}

bool err_missing(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_fill(e, EXIT_MISSING, fmt, ap);
    va_end(ap);
    return false;
}

bool err_failed(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_fill(e, EXIT_FAILED, fmt, ap);
    va_end(ap);
    return false;
}

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

char *xstrdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CK(n >= 0);
    char *s = xmalloc((size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

void xappend(char **text, const char *fmt, ...)
{
    size_t n = strlen(*text);
    va_list ap;
    va_start(ap, fmt);
    int more = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CK(more >= 0);
    *text = xrealloc(*text, n + (size_t)more + 1, 1);
    va_start(ap, fmt);
    vsnprintf(*text + n, (size_t)more + 1, fmt, ap);
    va_end(ap);
}

void listing_add(char *list, size_t size, const char *name)
{
    static const char between[] = ", ", rest[] = "...";
    size_t n = strlen(list), room = size - sizeof rest - strlen(between);
    if (n >= strlen(rest) && strcmp(list + n - strlen(rest), rest) == 0)
        return;
    strcpy(list + n, n > 0 ? between : "");
    n += strlen(list + n);
    strcpy(list + n, n + strlen(name) <= room ? name : rest);
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

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_f64(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
}

double quantile(double *x, int64_t n, double q)
{
    CK(n > 0 && q > 0 && q <= 1);
    sort_f64(x, n);
    double at = q * (double)n;
    int64_t i = max_i64((int64_t)ceil(at), 1) - 1;
    return q == 0.5 && n % 2 == 0 ? (x[n / 2 - 1] + x[n / 2]) / 2 : x[i];
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_s(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double thread_s(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
