/*
 * base.h - what every file needs: checks, errors, allocation, time.
 *
 * Three kinds of trouble, three answers:
 *   a programmer's error     CK(expr): prints file, line, expression and aborts, in every build
 *   bad data                 a function returns false (or NULL) and fills a struct err
 *   no memory                the allocators below print one line and exit with EXIT_MISSING
 */
#ifndef TREEATTN_REF_BASE_H
#define TREEATTN_REF_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Around the declarations of a header, which C++ may include as well. */
#ifdef __cplusplus
#define BEGIN_C extern "C" {
#define END_C }
#else
#define BEGIN_C
#define END_C
#endif

BEGIN_C

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_MISSING = 3 };

/* What went wrong with somebody's data: one sentence, without the leading "treeattn: ". */
struct err {
    int code; /* an EXIT_ that is not EXIT_GOOD; 0 while nothing went wrong */
    char msg[512];
};

/* Fill *e (e may be NULL) with a sentence; the code is EXIT_BAD_INPUT. Always returns false, so that a
 * failing check reads `return err_set(e, "...")`. The first error stays; later calls change nothing. Control
 * characters become '?'; a sentence that does not fit loses its middle. */
bool err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with EXIT_MISSING: the input is fine, the machine lacks something. */
bool err_missing(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with EXIT_FAILED: the input is fine, what came out of it is not. */
bool err_failed(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds a name to a list for such a sentence: "a, b, c", a string in `size` bytes, 8 at least. If there is no room for it the list
 * ends with "..." and stays as it is from then on. */
void listing_add(char *list, size_t size, const char *name);

void ck_fail(const char *file, int line, const char *expr) __attribute__((noreturn));
#define CK(expr) ((expr) ? (void)0 : ck_fail(__FILE__, __LINE__, #expr))
/* For a place that is never reached; `what` says what would have come before it. */
#define CK_FOUND(what) ck_fail(__FILE__, __LINE__, "not found: " what)

/* True when the allocators below end the program, for those who want to know why it exits. */
extern bool memory_ran_out;

/* Allocators that never return NULL. n * size is checked against overflow; the memory of xcalloc is zero.
 * A size of 0 gives a pointer that may be freed. The caller frees with free(). */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Print behind *text, which is memory of these and may move. */
void xappend(char **text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* End the program, as if there were no memory, unless n elements take an eighth of the machine's memory at most. The
 * system hands out what it does not have, and ends whom it likes when that is written. */
void xlimit(int64_t n, size_t size);
/* Make room for `need` elements of `size` bytes in a growing array, within xlimit; *cap is its capacity in elements. */
void *xgrow_now(void *p, int64_t *cap, int64_t need, size_t size); /* need > *cap */
static inline void *xgrow(void *p, int64_t *cap, int64_t need, size_t size)
{
    return need <= *cap ? p : xgrow_now(p, cap, need, size);
}

/*
 * Ask for memory that is about to be written; what is there is not touched. Arrays that outgrow the caches are written
 * as fast as their lines arrive. In order, hardware asks by itself, but not beyond the end of a page.
 */
static inline void fetch(const void *p)
{
    __builtin_prefetch(p, 1);
}
/* The same for an array written front to back, of which `bytes` bytes are written now at p. */
static inline void fetch_ahead(const void *p, int64_t bytes)
{
    enum { LINE = 64, AHEAD = 1024 }; /* from 256 to 4096 it made no difference */
    for (int64_t i = 0; i < bytes; i += LINE)
        fetch((const void *)((uintptr_t)p + AHEAD + (uintptr_t)i));
}

/* 64-byte aligned memory for tiles; freed with free(). */
void *xaligned(size_t n, size_t size);

/* Ascending; none is NaN, or all are. */
void sort_f64(double *x, int64_t n);
/* The smallest value with at least the share q (0 < q <= 1) of x[n] at or below it; the median of an even
 * count is the mean of the middle two. Sorts x. */
double quantile(double *x, int64_t n, double q);

/* Seconds since some fixed moment; monotonic. */
double now_s(void);
/* Seconds of a processor that this thread has taken: does not see what else the machine does. */
double thread_s(void);

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
/* Of numbers: fmin and fmax are calls that look for NaN, and no loop with them is vectorized. b does not count if it is NaN. */
static inline double min_f64(double a, double b)
{
    return b < a ? b : a;
}
static inline double max_f64(double a, double b)
{
    return b > a ? b : a;
}

END_C

#endif
