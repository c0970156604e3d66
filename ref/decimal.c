#include "ref/decimal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool decimal_parse(const char *s, double *out)
{
    char *end;
    if (!s[0] || strspn(s, "0123456789+-.eE") != strlen(s))
        return false;
    double x = strtod(s, &end);
    if (*end || !isfinite(x))
        return false;
    *out = x;
    return true;
}

bool decimal_i64(const char *s, int64_t *out)
{
    char *end;
    bool digit = isdigit((unsigned char)s[0]) || (s[0] == '-' && isdigit((unsigned char)s[1]));
    errno = 0;
    long long x = digit ? strtoll(s, &end, 10) : 0;
    if (!digit || *end || errno)
        return false;
    *out = x;
    return true;
}

const char *decimal_print(char buf[DECIMAL_SIZE], double x)
{
    static const int digits[] = {6, 15, 17};
    for (int i = 0; i < 3; i++) {
        snprintf(buf, DECIMAL_SIZE, "%.*g", digits[i], x);
        if (strtod(buf, NULL) == x)
            break;
    }
    return buf;
}
