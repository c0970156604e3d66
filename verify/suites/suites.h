/*
 * suites.h - suites: lists of cases that have a name and a digest, and never change once they are released (README.md here).
 */
#ifndef TREEATTN_VERIFY_SUITES_SUITES_H
#define TREEATTN_VERIFY_SUITES_SUITES_H

#include "verify/cases/case.h"
#include "verify/io/sha256.h"

BEGIN_C

struct suite {
    const char *name, *about;
    const char *begin, *end; /* its file, in the program */
};
extern const struct suite suites[];
extern const int32_t n_suites;

/* NULL with *e set: there is none of that name. */
const struct suite *suite_find(const char *name, struct err *e);
/* The digest of its file. Returns out. */
const char *suite_sha256(const struct suite *s, char out[SHA256_TEXT]);
/* Its cases, those of suites that it includes first. *out is an array of *n: free each with case_clear, then the array. False with
 * *e set: name, line, and what is wrong there. */
bool suite_cases(const struct suite *s, struct case_spec **out, int64_t *n, struct err *e);

END_C

#endif
