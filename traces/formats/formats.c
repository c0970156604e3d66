/*
 * formats.c - tree files of either kind, and the list of what can be read.
 */
#include "traces/formats/formats.h"

#include "ref/file.h"
#include "traces/formats/text.h"

#include <stdlib.h>
#include <string.h>

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
