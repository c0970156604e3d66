/* fuzz_known.c - files of known failures: what is read excuses failures, and nothing that passed. */
#include "tests/fuzz/fuzz_file.h"
#include "verify/report/known.h"

static const char *const codes[] = {"NUMBERS", "LSE", "CRASH"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct fuzz_path x = fuzz_path_open(data, size);
    struct known *k = known_read(x.path, "2027-03-31", &e);
    fuzz_file_verdict(k != NULL, &e, &x);
    for (size_t i = 0; k && i < sizeof codes / sizeof codes[0]; i++) {
        char string[] = "tree=12:1;seed=7;", label[] = "pat/cpu/f16", kernel[] = "cpu", why[] = "x";
        struct row_outcome o = {.verdict = V_FAIL, .label = label, .kernel = kernel, .string = string};
        snprintf(o.code, sizeof o.code, "%s", codes[i]);
        o.why = xstrdup(why);
        o.cause = xstrdup("");
        CK(known_apply(k, &o) == (o.verdict == V_SKIP));
        free(o.why);
        o.why = xstrdup(why);
        o.verdict = V_PASS;
        CK(!known_apply(k, &o) && o.verdict == V_PASS);
        free(o.why);
        free(o.cause);
    }
    if (k) {
        FILE *f = fopen("/dev/null", "w");
        CK(f && known_expired(k) >= 0);
        known_print(f, k, true);
        fclose(f);
    }
    known_free(k);
    fuzz_path_close(&x);
    return 0;
}
