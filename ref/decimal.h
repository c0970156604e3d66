/*
 * decimal.h - decimal numbers in text that somebody else wrote, and in text that is read back.
 */
#ifndef TREEATTN_REF_DECIMAL_H
#define TREEATTN_REF_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A finite decimal number and nothing else: no blanks, no hexadecimal digits, no nan or inf. On failure *out is
 * untouched. */
bool decimal_parse(const char *s, double *out);
/* The same for a whole number. */
bool decimal_i64(const char *s, int64_t *out);

/* The shortest of %g, %.15g and %.17g that reads back as x. */
enum { DECIMAL_SIZE = 32 };
const char *decimal_print(char buf[DECIMAL_SIZE], double x);

#ifdef __cplusplus
}
#endif

#endif
