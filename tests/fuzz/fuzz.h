/*
 * fuzz.h - what the fuzz targets have in common: whatever the bytes are, a parser gives either a thing that
 * keeps its promises or one printable sentence. A broken promise aborts.
 */
#ifndef TREEATTN_TESTS_FUZZ_FUZZ_H
#define TREEATTN_TESTS_FUZZ_FUZZ_H

#include "ref/nform.h"
#include "traces/formats/formats.h"
#include "traces/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry point that libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What targets say the file and the spec are called. */
#define FUZZ_FILE "f.txt"
#define FUZZ_SPEC "spec"

/* A sentence that came whole, and may be shown on a terminal. */
static inline void fuzz_sentence(const struct err *e)
{
    CK(strlen(e->msg) < sizeof e->msg - 1);
    for (const char *p = e->msg; *p; p++)
        CK((unsigned char)*p >= ' ' && *p != 127);
}

/* Either there is a result, and no error, or there is a sentence: printable, about the file and a line in it
 * (or, `spec` being true, about the spec), with what was expected. */
static inline void fuzz_verdict(const void *result, const struct err *e, bool spec)
{
    CK((result != NULL) == (e->code == EXIT_GOOD));
    if (result)
        return;
    const char *msg = e->msg;
    CK(e->code == EXIT_BAD_INPUT && strstr(msg, "(expected ") && strlen(msg) < sizeof e->msg - 1);
    for (const char *p = msg; *p; p++)
        CK(*p >= ' ' && *p <= '~');
    size_t n = strlen(FUZZ_FILE ":");
    bool line = strncmp(msg, FUZZ_FILE ":", n) == 0 && msg[n] >= '1' && msg[n] <= '9';
    CK(line || (spec && strncmp(msg, FUZZ_SPEC ": ", strlen(FUZZ_SPEC ": ")) == 0));
}

static inline void fuzz_same_tree(const struct tree *a, const struct tree *b)
{
    CK(a->n_nodes == b->n_nodes && a->n_queries == b->n_queries);
    for (int32_t i = 0; i < a->n_nodes; i++)
        CK(a->parent[i] == b->parent[i] && a->len[i] == b->len[i]);
    for (int32_t q = 0; q < a->n_queries; q++)
        CK(a->query[q].node == b->query[q].node && a->query[q].upto == b->query[q].upto);
}

/* A tree that a parser made: valid, fit for the normal form, and the same after it was written and read. */
static inline void fuzz_tree(const struct tree *t)
{
    struct err e = {0};
    CK(tree_check(t, &e));
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    CK(f && tree_text_write(f, t, &e) && fclose(f) == 0);
    struct tree *back = tree_text_parse(text, size, FUZZ_FILE, &e);
    CK(back);
    fuzz_same_tree(t, back);
    tree_free(back);
    free(text);
    struct nform *nf = nform_new(t);
    CK(nf->n_queries == t->n_queries);
    nform_free(nf);
}

/* Steps of a trace at both ends and between. Closes it. */
static inline void fuzz_trace(struct trace *tr)
{
    if (!tr)
        return;
    int64_t n = trace_steps(tr);
    CK(n >= 1 && trace_title(tr)[0] && trace_remark(tr));
    const int64_t at[] = {1, (n + 1) / 2, n};
    for (int i = 0; i < 3; i++) {
        struct tree *t = trace_tree(tr, at[i]);
        CK(tree_check(t, NULL));
        struct trace_count c = trace_count_tree(t);
        CK(c.queries == t->n_queries && c.kv_tree <= TREE_MAX_TOKENS);
        tree_free(t);
    }
    trace_close(tr);
}

#endif
