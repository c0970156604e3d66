/* fuzz_coefs.c - files of coefficients: what is taken is within its bounds. */
#include "tests/fuzz/fuzz.h"
#include "verify/model/coefficient_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct coef_bound bound[] = {{"base", 0, 1}, {"tensor", 1e-3, 1}, {"kernel", 1e-6, 1e6}};
    static const char *const part[] = {NULL, "all"};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        const struct coef_want want = {
            .machine = "h200", .model = "clock", .part = part[i], .n = 3, .coef = bound};
        double value[] = {0.5, 0.5, 0.5};
        struct err e = {0};
        bool good = coefs_parse((const char *)data, size, FUZZ_FILE, &want, value, &e);
        fuzz_verdict(good ? value : NULL, &e, false);
        for (int32_t j = 0; j < want.n; j++)
            CK(value[j] >= bound[j].least && value[j] <= bound[j].most);
    }
    return 0;
}
