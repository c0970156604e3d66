/* fuzz_rows.c - files of rows: a run goes on with whole cases alone, and what it adds is read back. */
#include "tests/fuzz/fuzz_file.h"
#include "verify/io/environment.h"
#include "verify/report/rows.h"

/* In the place of the machine's, which needs a driver's library. */
json_t *environment_then(void)
{
    return json_object();
}

static struct rows *opened(const struct fuzz_path *x, bool resume, struct err *e)
{
    struct rows_spec spec = {.path = x->path, .resume = resume, .failed_first = !resume, .judged = "smoke"};
    return rows_open(&spec, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0}, done = {0};
    struct fuzz_path x = fuzz_path_open(data, size);
    struct rows *r = opened(&x, size % 2, &e);
    fuzz_file_verdict(r != NULL, &e, &x);
    if (r) {
        char string[] = "tree=1:1;", label[] = "pat/cpu", kernel[] = "cpu", none[] = "";
        struct row_outcome o = {.verdict = V_FAIL,
                                .code = "LSE",
                                .label = label,
                                .kernel = kernel,
                                .why = none,
                                .cause = none,
                                .string = string};
        int32_t n;
        rows_done(r, "a case", &n);
        CK(n >= 0);
        rows_failed(r, "a case");
        rows_add(r, "one of ours", &o, 1);
        CK(rows_close(r, &done));
        CK(r = opened(&x, true, &e));
        CK(rows_done(r, "one of ours", &n) && n >= 1);
        CK(rows_close(r, &done));
    }
    fuzz_path_close(&x);
    return 0;
}
