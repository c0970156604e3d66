#include "ref/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A sentence that is too long loses its middle: the file at its start and the expectation at its end stay. */
static void cut_middle(char *msg, size_t size, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *whole = xmalloc((size_t)n + 1);
    vsnprintf(whole, (size_t)n + 1, fmt, again);
    va_end(again);
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
