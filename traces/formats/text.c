#include "traces/formats/text.h"

#include <string.h>

/* Tests by hand, not by <ctype.h>: the locale has no say in what a file means. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Split [p, end) at blanks; returns the word count, max + 1 if there are more. */
static int32_t split(const char *p, const char *end, struct word *w, int32_t max)
{
    int32_t n = 0;
    for (;;) {
        while (p < end && is_blank(*p))
            p++;
        if (p == end)
            return n;
        if (n == max)
            return max + 1;
        w[n].p = p;
        while (p < end && !is_blank(*p))
            p++;
        w[n].n = (size_t)(p - w[n].p);
        n++;
    }
}

int32_t text_line(struct text *t, struct word *w, int32_t max)
{
    while (t->p < t->end) {
        const char *line = t->p;
        const char *lf = memchr(line, '\n', (size_t)(t->end - line));
        const char *stop = lf ? lf : t->end;
        t->p = lf ? lf + 1 : t->end;
        t->line++;
        if (stop > line && stop[-1] == '\r')
            stop--;
        int32_t n = split(line, stop, w, max);
        if (n > 0)
            return n;
    }
    return 0;
}

bool word_int(struct word w, int64_t lo, int64_t hi, int64_t *out)
{
    bool neg = w.n > 0 && w.p[0] == '-';
    size_t i = neg ? 1 : 0;
    if (i == w.n)
        return false;
    /* Collected as a negative number: its range is the larger one. */
    int64_t v = 0;
    for (; i < w.n; i++) {
        if (w.p[i] < '0' || w.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, w.p[i] - '0', &v))
            return false;
    }
    if (!neg && __builtin_sub_overflow((int64_t)0, v, &v))
        return false;
    *out = v;
    return v >= lo && v <= hi;
}

const char *word_quote(char buf[TEXT_QUOTE], struct word w)
{
    bool cut = w.n > TEXT_QUOTE - 1;
    size_t n = cut ? TEXT_QUOTE - 4 : w.n;
    for (size_t i = 0; i < n; i++)
        buf[i] = w.p[i] >= ' ' && w.p[i] <= '~' ? w.p[i] : '?';
    memcpy(buf + n, cut ? "..." : "", cut ? 4 : 1);
    return buf;
}
