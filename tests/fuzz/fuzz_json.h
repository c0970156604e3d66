/*
 * fuzz_json.h - jansson seeds its hash tables from the clock; a finding must come again.
 */
#ifndef TREEATTN_TESTS_FUZZ_FUZZ_JSON_H
#define TREEATTN_TESTS_FUZZ_FUZZ_JSON_H

#include "tests/fuzz/fuzz.h"

#include <jansson.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    json_object_seed(1);
    return 0;
}

#endif
