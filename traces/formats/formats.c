/*
 * formats.c - files into memory, tree files of either kind, and the list of what can be read.
 */
#include "traces/formats/formats.h"
#include "traces/formats/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Room for TREE_MAX_NODES lines of 32 bytes, and as many queries. */
#define TREE_FILE_MAX_BYTES ((size_t)1 << 30)

const struct format_info formats[] = {
    {"levels", "--levels \"1,4,16 1024,256,32\"", "nodes per level and tokens per node of each level"},
    {"fasttree", "--tree-file FILE", "FastTree's file: node count, then `parent id length children` a line"},
    {"text", "--tree-file FILE",
     "ours: `tree NODES QUERIES`, a line `node ID PARENT LENGTH` per node, `query NODE UPTO` per query; # "
     "begins a comment"},
    {"family", "--gen FAMILY[:SEED]", "a seeded random tree of one of the families"},
    {"deft", "--trace deft:FILE", "DeFT's reasoning templates (array) or speculative records (object), JSON"},
    {"medusa", "--trace medusa:FILE,NAME",
     "a token tree of Medusa's (object, name -> paths), JSON; needs --prompt"},
    {"mooncake", "--trace mooncake:FILE", "Mooncake's requests, JSON lines, replayed as continuous batching"},
    {"fewshot", "--trace fewshot:W", "W branches off one prompt; needs --prompt and --max-seq"},
    {"embedded", "--trace embedded:NAME",
     "a trace inside the program: reasoning, speculative, medusa, requests"},
    {"reasoning", "--trace reasoning:SEED", "a seeded reasoning trace, ten-way caterpillar of depth ten"},
    {"spec", "--trace spec:T,SEED", "a seeded speculative trace with T tokens to verify at a time"},
    {"requests", "--trace requests:N,SEED", "N seeded requests: conversations on a few system prompts"},
    {"fasttree batch", "--trace fasttree:WHICH,SEED",
     "FastTree's end-to-end benchmarks, 128 requests: prompt, shots, chains or documents (with --batch 128)"},
    {"conversation", "--trace conversation:N,SEED", "N seeded requests of PAT's conversation workload"},
};
const int32_t n_formats = sizeof formats / sizeof formats[0];

/* Reads in pieces, so that a pipe works too and nothing larger than the limit is ever allocated. */
static char *read_all(FILE *f, const char *path, size_t max_bytes, size_t *size, struct err *e)
{
    int64_t cap = 0;
    size_t n = 0;
    char *buf = NULL;
    for (;;) {
        buf = xgrow(buf, &cap, (int64_t)n + 65537, 1);
        size_t got = fread(buf + n, 1, 65536, f);
        n += got;
        if (n > max_bytes) {
            err_set(e, "%s: larger than %zu bytes (expected a smaller file)", path, max_bytes);
            break;
        }
        if (got == 0 && ferror(f)) {
            err_set(e, "%s: cannot be read: %s", path, strerror(errno));
            break;
        }
        if (got == 0) {
            buf[n] = '\0';
            *size = n;
            return buf;
        }
    }
    free(buf);
    return NULL;
}

char *file_slurp(const char *path, size_t max_bytes, size_t *size, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        err_set(e, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    struct stat st;
    char *buf = NULL;
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode))
        err_set(e, "%s: is a directory (expected a file)", path);
    else
        buf = read_all(f, path, max_bytes, size, e);
    fclose(f);
    if (!buf)
        return NULL;

    /* All our formats are text; a zero byte would hide the rest from anything that takes a C string. */
    const char *zero = memchr(buf, '\0', *size);
    if (zero) {
        int line = 1;
        for (const char *p = buf; p < zero; p++)
            line += *p == '\n';
        err_set(e, "%s:%d: zero byte at offset %td (expected a text file)", path, line, zero - buf);
        free(buf);
        return NULL;
    }
    return buf;
}

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
    char quote[TEXT_QUOTE];
    if (n > 0)
        err_set(e, "%s:%d: begins with \"%s\" (expected a node count or `tree NODES QUERIES`)", name,
                lines.line, word_quote(quote, w));
    else
        err_set(e, "%s:%d: empty (expected a node count or `tree NODES QUERIES`)", name,
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
