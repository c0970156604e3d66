/* sha256.h - the digest that names a list of cases, as sha256sum prints it (FIPS 180-4). */
#ifndef TREEATTN_VERIFY_IO_SHA256_H
#define TREEATTN_VERIFY_IO_SHA256_H

#include "ref/base.h"

BEGIN_C

enum { SHA256_BYTES = 32, SHA256_TEXT = 65 };
void sha256(const void *data, size_t size, uint8_t out[SHA256_BYTES]);
/* The same in hexadecimal digits. Returns out. */
const char *sha256_text(const void *data, size_t size, char out[SHA256_TEXT]);

END_C

#endif
