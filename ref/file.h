/*
 * file.h - whole files into memory.
 */
#ifndef TREEATTN_REF_FILE_H
#define TREEATTN_REF_FILE_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A whole file in memory, at most max_bytes, with a zero byte behind it. *size is its length in bytes. NULL with *e set
 * where it cannot be read, is larger, or holds a zero byte. The caller frees. */
char *file_slurp(const char *path, size_t max_bytes, size_t *size, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
