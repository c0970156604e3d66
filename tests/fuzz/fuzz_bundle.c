/* fuzz_bundle.c - bundles of strangers: whatever is read has a tree that holds, and can be judged. */
#include "tests/fuzz/fuzz_file.h"
#include "verify/bundle/bundle.h"

enum { MOST_JUDGED = 1 << 12 }; /* products of a query and a token, so that an input takes no seconds */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct fuzz_path x = fuzz_path_open(data, size);
    struct problem_spec given = {.heads = {.h_q = 2, .h_kv = 1, .d = 16, .dtype = DT_F16, .kv_fp8 = DT_F64},
                                 .page_size = 4};
    struct bundle b;
    bool good = bundle_read(x.path, &given, &b, &e);
    fuzz_file_verdict(good, &e, &x);
    if (good) {
        fuzz_tree(b.tree);
        int64_t tokens = 0;
        for (int32_t r = 0; r < b.lists.n_requests; r++)
            tokens += b.lists.len[r];
        if (b.p && b.out && tokens * b.tree->n_queries <= MOST_JUDGED) {
            struct bundle_verdict v = bundle_judge(&b);
            CK(v.cmp.verdict != V_SKIP);
        }
        bundle_free(&b);
    }
    fuzz_path_close(&x);
    return 0;
}
