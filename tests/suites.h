/* suites.h - one Check suite per module, declared from suites.def. Every tests/check_*.c includes this. */
#ifndef TREEATTN_TESTS_SUITES_H
#define TREEATTN_TESTS_SUITES_H

#include <check.h>

#define SUITE(module) Suite *suite_##module(void);
#include "tests/suites.def"
#undef SUITE

#endif
