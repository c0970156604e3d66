/* fuzz_text.c - the project's own tree text, masks, and telling them from FastTree's. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct tree *t = tree_text_parse((const char *)data, size, FUZZ_FILE, &e);
    fuzz_verdict(t, &e, false);
    struct err e2 = {0};
    struct tree *either = tree_file_parse((const char *)data, size, FUZZ_FILE, &e2);
    fuzz_verdict(either, &e2, false);
    struct err e3 = {0};
    struct tree *mask = mask_text_parse((const char *)data, size, FUZZ_FILE, &e3);
    fuzz_verdict(mask, &e3, false);
    if (mask)
        fuzz_tree(mask);
    tree_free(mask);
    if (t) {
        fuzz_tree(t);
        fuzz_same_tree(t, either);
    }
    tree_free(t);
    tree_free(either);
    return 0;
}
