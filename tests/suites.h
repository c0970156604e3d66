/*
 * suites.h - tests that enrol themselves. TEST(name) { .. } is a test of the suite that its file is named after:
 * check_plan.c holds suite `plan`. Every tests/check_*.c includes this, and by it what most of them need.
 */
#ifndef TREEATTN_TESTS_SUITES_H
#define TREEATTN_TESTS_SUITES_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A test, or what those behind it in its file share: set-up and tear-down, a time limit, what they need. */
struct enrolled {
    const char *file;
    const TTest *test; /* NULL: the tests behind share what follows */
    int times, exit_code;
    void (*setup)(void), (*teardown)(void);
    bool (*wanted)(void); /* where it says false, those behind are left out */
    bool once;            /* for all tests together, not for each of them */
    int seconds;          /* 0: what run.c says */
    struct enrolled *next;
};
/* *x is kept. */
void enrol(struct enrolled *x);

#define TREEATTN_TEST(name, times_, exit_code_)                                                              \
    static void name##_fn(int);                                                                              \
    static const TTest name##_test = {#name, name##_fn, __FILE__, __LINE__};                                 \
    __attribute__((constructor)) static void name##_enrol(void)                                              \
    {                                                                                                        \
        static struct enrolled x = {.file = __FILE__, .test = &name##_test, .exit_code = exit_code_};        \
        x.times = times_;                                                                                    \
        enrol(&x);                                                                                           \
    }                                                                                                        \
    static void name##_fn(int _i __attribute__((unused)))

#define TEST(name) TREEATTN_TEST(name, 1, 0)
/* _i counts from 0 to times - 1. */
#define LOOP_TEST(name, times) TREEATTN_TEST(name, times, 0)
/* It must end the process, with this code. */
#define EXIT_TEST(name, exit_code) TREEATTN_TEST(name, 1, exit_code)
/* FROM_HERE(name, .setup = .., .teardown = ..): tests behind it share these. */
#define FROM_HERE(name, ...)                                                                                 \
    __attribute__((constructor)) static void name##_enrol(void)                                              \
    {                                                                                                        \
        static struct enrolled x = {.file = __FILE__, __VA_ARGS__};                                          \
        enrol(&x);                                                                                           \
    }

/* ck_assert_msg for every element of something large: that one sends word to the runner also when all is well,
 * hundreds of megabytes of it, which every later test then inherits. */
#define check_each(condition, ...)                                                                           \
    do                                                                                                       \
        if (!(condition))                                                                                    \
            ck_abort_msg(__VA_ARGS__);                                                                       \
    while (0)

/* What a function gives that must be good; its last parameter is where it says what is wrong, which fails the test:
 * tr = MUST(trace_open, spec, &opts). */
#define MUST(function, ...)                                                                                  \
    __extension__({                                                                                          \
        struct err must_say = {0};                                                                           \
        __typeof__(function(__VA_ARGS__, &must_say)) must_give = function(__VA_ARGS__, &must_say);           \
        ck_assert_msg(must_give, "%s", must_say.msg);                                                        \
        must_give;                                                                                           \
    })

/* What must not be good, with these words in what it says, or with this whole message. */
#define FAILS(words, function, ...)                                                                          \
    do {                                                                                                     \
        struct err must_say = {0};                                                                           \
        ck_assert(!function(__VA_ARGS__, &must_say));                                                        \
        ck_assert_msg(strstr(must_say.msg, words), "%s (expected: %s)", must_say.msg, words);                \
    } while (0)
#define FAILS_WITH(message, function, ...)                                                                   \
    do {                                                                                                     \
        struct err must_say = {0};                                                                           \
        ck_assert(!function(__VA_ARGS__, &must_say));                                                        \
        ck_assert_str_eq(must_say.msg, message);                                                             \
    } while (0)

#endif
