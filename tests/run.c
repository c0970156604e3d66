/*
 * run.c - all Check suites, from suites.def. A suite per module; `tests/run NAME` runs one.
 */
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const char *name;
    Suite *(*make)(void);
};

static const struct entry entries[] = {
#define SUITE(module) {#module, suite_##module},
#include "tests/suites.def"
#undef SUITE
};

int main(int argc, char **argv)
{
    setenv("CK_DEFAULT_TIMEOUT", "120", 0); /* a loaded machine under sanitizers is slow, not wrong */
    SRunner *runner = srunner_create(NULL);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (argc < 2 || strcmp(argv[1], entries[i].name) == 0)
            srunner_add_suite(runner, entries[i].make());
    srunner_run_all(runner, CK_ENV);
    int run = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
