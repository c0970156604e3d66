#include "ref/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Reads in pieces, so that a pipe works too and nothing larger than the limit is ever allocated. */
static char *read_all(FILE *f, const char *path, size_t max_bytes, size_t *size, struct err *e)
{
    int64_t cap = 0;
    size_t n = 0;
    char *buf = NULL;
    for (;;) {
        buf = xgrow(buf, &cap, (int64_t)n + 65537, 1);
        size_t got = fread(buf + n, 1, 65536, f);
        n += got;
        if (n > max_bytes) {
            err_set(e, "%s: larger than %zu bytes (expected a smaller file)", path, max_bytes);
            break;
        }
        if (got == 0 && ferror(f)) {
            err_set(e, "%s: cannot be read: %s", path, strerror(errno));
            break;
        }
        if (got == 0) {
            buf[n] = '\0';
            *size = n;
            return buf;
        }
    }
    free(buf);
    return NULL;
}

char *file_slurp(const char *path, size_t max_bytes, size_t *size, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        err_set(e, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    struct stat st;
    char *buf = NULL;
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode))
        err_set(e, "%s: is a directory (expected a file)", path);
    else
        buf = read_all(f, path, max_bytes, size, e);
    fclose(f);
    if (!buf)
        return NULL;

    /* All our formats are text; a zero byte would hide the rest from anything that takes a C string. */
    const char *zero = memchr(buf, '\0', *size);
    if (zero) {
        int line = 1;
        for (const char *p = buf; p < zero; p++)
            line += *p == '\n';
        err_set(e, "%s:%d: zero byte at offset %td (expected a text file)", path, line, zero - buf);
        free(buf);
        return NULL;
    }
    return buf;
}
