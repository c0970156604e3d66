/* fuzz_file.h - the bytes of a target as a file in memory, for parsers that are given a path. */
#ifndef TREEATTN_TESTS_FUZZ_FUZZ_FILE_H
#define TREEATTN_TESTS_FUZZ_FUZZ_FILE_H

#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

struct fuzz_path {
    int fd;
    char path[32];
};

static inline struct fuzz_path fuzz_path_open(const uint8_t *data, size_t size)
{
    struct fuzz_path x = {.fd = memfd_create("fuzz", 0)};
    CK(x.fd >= 0 && write(x.fd, data, size) == (ssize_t)size);
    snprintf(x.path, sizeof x.path, "/proc/self/fd/%d", x.fd);
    return x;
}

static inline void fuzz_path_close(struct fuzz_path *x)
{
    close(x->fd);
}

/* Either there is a result, or a sentence about the file, without control characters. */
static inline void fuzz_file_verdict(bool good, const struct err *e, const struct fuzz_path *x)
{
    CK(good == (e->code == EXIT_GOOD));
    if (good)
        return;
    CK(strncmp(e->msg, x->path, strlen(x->path)) == 0);
    fuzz_sentence(e);
}

#endif
