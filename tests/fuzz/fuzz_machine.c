/* fuzz_machine.c - machines with figures of the user's: whatever is taken is within bounds and can be timed on. */
#include "sim/time/machine.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xmalloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    struct machine m;
    struct err e = {0};
    bool good = machine_parse(text, &m, &e);
    CK(good == (e.code == EXIT_GOOD));
    CK(good || strstr(e.msg, "(expected "));
    for (int32_t i = 0; i < N_MACHINE_FIGURES && good; i++) {
        double x = machine_get(&m, i);
        CK(x == 0 || (x >= machine_figures[i].least && x <= machine_figures[i].most));
    }
    free(text);
    return 0;
}
