/* fuzz_deft.c - DeFT's JSON: reasoning templates (an array) and speculative records (an object). */
#include "tests/fuzz/fuzz_json.h"
#include "traces/formats/deft.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_opts runs[] = {
        {0},
        {.prompt = 9, .max_seq = 40},
        {.tree_index = 1, .prompt = 3, .topology = true},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct err e = {0};
        struct trace *tr = deft_open((const char *)data, size, FUZZ_FILE, FUZZ_SPEC, &runs[i], &e);
        fuzz_verdict(tr, &e, true);
        fuzz_trace(tr);
    }
    return 0;
}
