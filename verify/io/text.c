#include "verify/io/text.h"
#include "ref/decimal.h"
#include "ref/problem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool text_i64(const char *s, const char *what, int64_t lo, int64_t hi, int64_t *out, struct err *e)
{
    int64_t x;
    if (!decimal_i64(s, &x) || x < lo || x > hi)
        return err_set(e, "%s '%.60s' (expected a whole number from %" PRId64 " to %" PRId64 ")", what, s, lo,
                       hi);
    *out = x;
    return true;
}

bool text_u64(const char *s, const char *what, uint64_t *out, struct err *e)
{
    char *end;
    errno = 0;
    bool digit = isdigit((unsigned char)s[0]);
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    unsigned long long x = digit ? strtoull(s, &end, hex ? 16 : 10) : 0;
    if (!digit || *end || errno)
        return err_set(e, "%s '%.60s' (expected a whole number from 0 to 2^64 - 1)", what, s);
    *out = x;
    return true;
}

bool text_heads(const char *s, int32_t *h_q, int32_t *h_kv, struct err *e)
{
    char *copy = xstrdup(s), *slash = strchr(copy, '/');
    int64_t q = 0, kv = 0;
    bool good = slash != NULL;
    if (good) {
        *slash = 0;
        good = text_i64(copy, "", 1, INT32_MAX, &q, NULL) && text_i64(slash + 1, "", 1, INT32_MAX, &kv, NULL);
    }
    free(copy);
    if (!good)
        return err_set(e, "heads '%.60s' (expected QUERY/KV, such as 32/8)", s);
    if (!problem_heads_check((int32_t)q, (int32_t)kv, e))
        return false;
    *h_q = (int32_t)q;
    *h_kv = (int32_t)kv;
    return true;
}

char *text_next(char **s, char sep)
{
    if (!*s)
        return NULL;
    char *field = *s, *at = strchr(field, sep);
    if (at)
        *at++ = 0;
    *s = at;
    return field;
}

char *text_entry(char **s, int64_t *number)
{
    for (char *line; (line = text_next(s, '\n'));) {
        ++*number;
        line += strspn(line, " \t");
        for (size_t end = strlen(line); end > 0 && strchr(" \t\r", line[end - 1]);)
            line[--end] = 0;
        if (*line && *line != '#')
            return line;
    }
    return NULL;
}

char *text_escape(const char *s)
{
    char *out = xmalloc(3 * strlen(s) + 1), *to = out;
    for (; *s; s++) {
        if (*s == ';' || *s == '%') {
            memcpy(to, *s == ';' ? "%3B" : "%25", 3);
            to += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
    return out;
}

char *text_unescape(const char *s)
{
    char *out = xmalloc(strlen(s) + 1), *to = out;
    for (; *s; s++) {
        bool semicolon = strncmp(s, "%3B", 3) == 0, percent = strncmp(s, "%25", 3) == 0;
        *to++ = semicolon ? ';' : *s;
        if (semicolon || percent)
            s += 2;
    }
    *to = 0;
    return out;
}

char *text_quote(const char *s)
{
    char *out = xmalloc(4 * strlen(s) + 3), *to = out;
    *to++ = '\'';
    for (; *s; s++)
        if (*s == '\'')
            to = stpcpy(to, "'\\''");
        else
            *to++ = *s;
    strcpy(to, "'");
    return out;
}

char *text_csv(const char *s)
{
    if (!strpbrk(s, ",\"\n"))
        return xstrdup(s);
    char *cell = xcalloc(2 * strlen(s) + 3, 1), *to = cell;
    *to++ = '"';
    for (; *s; s++) {
        if (*s == '"')
            *to++ = '"';
        *to++ = *s;
    }
    *to = '"';
    return cell;
}
