/*
 * mask_text.c - a mask that says a tree: who sees which token.
 *
 *   mask QUERIES TOKENS
 *   1101                      QUERIES lines of TOKENS digits: 1 where the query sees the token
 *
 * Tokens stand in the order of their paths, as in the masks of speculative decoding. It is a tree if all queries that see a token
 * see the same tokens before it; two rows that differ there are named, for no plan here could say them. Tokens that no row sees are
 * left out. A query that sees nothing stands on the first node.
 */
#include "traces/formats/formats.h"
#include "traces/formats/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 4 };

/* What the rows so far say of the tokens. */
struct seen {
    int32_t *by;     /* [n] the first row that sees it; -1: none */
    int32_t *before; /* [n] the token before it; -1: none */
    int32_t *after;  /* [n] how many have it before them */
    int32_t *last;   /* [rows] the last token of a row; -1: none */
};

/* Row q sees token t, and `before` just before it. */
static bool see(struct seen *s, const char *name, int line, int32_t q, int32_t t, int32_t before, struct err *e)
{
    if (s->by[t] < 0) {
        s->by[t] = q;
        s->before[t] = before;
        if (before >= 0)
            s->after[before]++;
        return true;
    }
    int32_t was = s->before[t], odd = was > before ? was : before;
    return was == before ||
           err_set(e,
                   "%s:%d: this mask is no tree: rows %" PRId32 " and %" PRId32 " both see token %" PRId32
                   ", and row %" PRId32 " alone sees token %" PRId32 " before it (expected one path to a token)",
                   name, line, s->by[t], q, t, odd == before ? q : s->by[t], odd);
}

static bool read_rows(struct text *text, const char *name, int32_t rows, int32_t n, struct seen *s,
                      struct err *e)
{
    char quote[TEXT_QUOTE];
    struct word w[MAX_WORDS];
    for (int32_t q = 0; q < rows; q++) {
        int32_t words = text_line(text, w, MAX_WORDS);
        if (words == 0)
            return err_set(e, "%s:%d: the file ends early (expected row %" PRId32 " of %" PRId32 ")", name,
                           text->line, q, rows);
        size_t digits = 0;
        while (digits < w[0].n && (w[0].p[digits] == '0' || w[0].p[digits] == '1'))
            digits++;
        if (words != 1 || w[0].n != (size_t)n || digits < w[0].n)
            return err_set(e, "%s:%d: \"%s\" (expected %" PRId32 " digits, 0 or 1)", name, text->line,
                           word_quote(quote, w[0]), n);
        s->last[q] = -1;
        for (int32_t t = 0; t < n; t++)
            if (w[0].p[t] == '1') {
                if (!see(s, name, text->line, q, t, s->last[q], e))
                    return false;
                s->last[q] = t;
            }
    }
    return text_line(text, w, MAX_WORDS) == 0 ||
           err_set(e, "%s:%d: more lines than the first one says (expected %" PRId32 " rows)", name, text->line,
                   rows);
}

/* Tokens that follow each other and nothing else are one node. */
static struct tree *tree_of(const struct seen *s, int32_t rows, int32_t n)
{
    struct tree *t = tree_new(n > 0 ? n : 1, rows);
    int32_t *node = xcalloc((size_t)n, sizeof *node);
    int64_t *end = xcalloc((size_t)n, sizeof *end); /* tokens of its node up to it */
    t->n_nodes = 0;
    for (int32_t k = 0; k < n; k++) {
        if (s->by[k] < 0)
            continue;
        int32_t up = s->before[k];
        bool goes_on = up >= 0 && s->after[up] == 1;
        node[k] = goes_on ? node[up] : t->n_nodes++;
        if (!goes_on)
            t->parent[node[k]] = up < 0 ? -1 : node[up];
        end[k] = ++t->len[node[k]];
    }
    t->n_nodes += t->n_nodes == 0;
    for (int32_t q = 0; q < rows; q++)
        if (s->last[q] >= 0)
            t->query[q] = (struct query){node[s->last[q]], end[s->last[q]]};
    free(node);
    free(end);
    return t;
}

struct tree *mask_text_parse(const char *text, size_t size, const char *name, struct err *e)
{
    struct text lines = {.p = text, .end = text + size};
    struct word w[MAX_WORDS];
    int64_t rows, n;
    if (text_line(&lines, w, MAX_WORDS) != 3 || w[0].n != strlen("mask") || memcmp(w[0].p, "mask", w[0].n) != 0 ||
        !word_int(w[1], 0, TREE_MAX_QUERIES, &rows) || !word_int(w[2], 1, TREE_MAX_NODES, &n)) {
        err_set(e, "%s:%d: no mask begins so (expected `mask QUERIES TOKENS`, with 1 to %d tokens)", name,
                lines.line > 0 ? lines.line : 1, TREE_MAX_NODES);
        return NULL;
    }
    if (rows * (n + 1) > (int64_t)size || (rows == 0 && n > 1)) {
        err_set(e, "%s:%d: %" PRId64 " rows of %" PRId64 " digits do not fit in %zu bytes (expected a line for each)",
                name, lines.line, rows, n, size);
        return NULL;
    }
    struct seen s = {.by = xcalloc((size_t)n, sizeof *s.by),
                     .before = xcalloc((size_t)n, sizeof *s.before),
                     .after = xcalloc((size_t)n, sizeof *s.after),
                     .last = xcalloc((size_t)rows, sizeof *s.last)};
    memset(s.by, -1, (size_t)n * sizeof *s.by);
    struct tree *t = NULL;
    if (read_rows(&lines, name, (int32_t)rows, (int32_t)n, &s, e))
        t = tree_of(&s, (int32_t)rows, (int32_t)n);
    free(s.by);
    free(s.before);
    free(s.after);
    free(s.last);
    return t;
}
