/* fuzz_levels.c - level strings. */
#include "tests/fuzz/fuzz.h"

/* A few bytes may ask for sixteen million nodes, which is allowed and slow; such are left to the unit tests. Numbers of
 * nine digits and more are refused at once. */
static bool is_large(const char *text)
{
    enum { NODES = 50000 };
    int64_t sum = 0;
    for (const char *p = text; *p && sum <= NODES;) {
        p += strspn(p, "0"); /* 010995142 is large too */
        size_t digits = strspn(p, "0123456789");
        sum += digits > 0 && digits <= 8 ? atoll(p) : 0;
        p += digits;
        p += strcspn(p, "0123456789");
    }
    return sum > NODES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* They come from a command line: the first zero byte ends them. */
    char *text = xmalloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (!is_large(text)) {
        struct err e = {0};
        struct tree *t = levels_parse(text, &e);
        CK((t != NULL) == (e.code == EXIT_GOOD));
        CK(t || (strncmp(e.msg, "levels", 6) == 0 && strstr(e.msg, "(expected ")));
        if (t) {
            fuzz_tree(t);
            char *again;
            FILE *f = open_memstream(&again, &size);
            CK(levels_write(f, t, &e) && fclose(f) == 0);
            struct tree *back = levels_parse(again, &e);
            fuzz_same_tree(t, back);
            tree_free(back);
            free(again);
        }
        tree_free(t);
    }
    free(text);
    return 0;
}
