/*
 * formats.c - tree files of all kinds.
 */
#include "traces/formats/formats.h"

#include "ref/file.h"
#include "traces/formats/text.h"

#include <stdlib.h>
#include <string.h>

/* Room for TREE_MAX_NODES lines of 32 bytes, and as many queries. */
#define TREE_FILE_MAX_BYTES ((size_t)1 << 30)

struct tree *tree_file_parse(const char *text, size_t size, const char *name, struct err *e)
{
    struct text lines = {.p = text, .end = text + size};
    struct word w = {.p = "", .n = 0};
    int32_t n;
    while ((n = text_line(&lines, &w, 1)) > 0 && w.p[0] == '#')
        ;
    if (n > 0 && (w.p[0] == '-' || (w.p[0] >= '0' && w.p[0] <= '9')))
        return fasttree_file_parse(text, size, name, e);
    if (n > 0 && w.n == strlen("tree") && memcmp(w.p, "tree", w.n) == 0)
        return tree_text_parse(text, size, name, e);
    if (n > 0 && w.n == strlen("mask") && memcmp(w.p, "mask", w.n) == 0)
        return mask_text_parse(text, size, name, e);
    char quote[TEXT_QUOTE];
    if (n > 0)
        err_set(e, "%s:%d: begins with \"%s\" (expected a node count, `tree NODES QUERIES` or `mask QUERIES TOKENS`)", name,
                lines.line, word_quote(quote, w));
    else
        err_set(e, "%s:%d: empty (expected a node count, `tree NODES QUERIES` or `mask QUERIES TOKENS`)", name,
                lines.line > 0 ? lines.line : 1);
    return NULL;
}

struct tree *tree_file_read(const char *path, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, TREE_FILE_MAX_BYTES, &size, e);
    if (!text)
        return NULL;
    struct tree *t = tree_file_parse(text, size, path, e);
    free(text);
    return t;
}
