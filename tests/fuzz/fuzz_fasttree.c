/* fuzz_fasttree.c - FastTree's tree files. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct tree *t = fasttree_file_parse((const char *)data, size, FUZZ_FILE, &e);
    fuzz_verdict(t, &e, false);
    if (t) {
        fuzz_tree(t);
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);
        CK(fasttree_file_write(f, t, &e) && fclose(f) == 0);
        struct tree *back = tree_file_parse(text, n, FUZZ_FILE, &e);
        fuzz_same_tree(t, back);
        tree_free(back);
        free(text);
    }
    tree_free(t);
    return 0;
}
