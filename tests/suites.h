/* suites.h - one Check suite per module, declared from suites.def. Every tests/check_*.c includes this. */
#ifndef TREEATTN_TESTS_SUITES_H
#define TREEATTN_TESTS_SUITES_H

#include <check.h>

#define SUITE(module) Suite *suite_##module(void);
#include "tests/suites.def"
#undef SUITE

/* ck_assert_msg for every element of something large: that one sends word to the runner also when all is well,
 * hundreds of megabytes of it, which every later test then inherits. */
#define check_each(condition, ...)                                                                           \
    do                                                                                                       \
        if (!(condition))                                                                                    \
            ck_abort_msg(__VA_ARGS__);                                                                       \
    while (0)

#endif
