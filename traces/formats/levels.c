/*
 * levels.c - "N1,N2,... C1,C2,...": a tree by the number and the length of the nodes of each level.
 *
 * The notation of FastTree's benchmark and of PAT's. Child j of a level of n nodes hangs under node j * m / n
 * of the level above, which has m nodes; ids run level by level; every leaf is one query.
 */
#include "traces/formats/formats.h"
#include "traces/formats/text.h"

#include <stdlib.h>
#include <string.h>

/* Deeper than any tree that the notation is practical for. */
enum { LEVELS_MAX = 4096 };

static bool levels_err(struct word text, struct err *e, const char *what)
{
    char quote[TEXT_QUOTE];
    return err_set(e, "levels \"%s\": %s", word_quote(quote, text), what);
}

/* Split the text into its two lists: at blanks around at most one ';' or '_'. */
static bool split_lists(struct word text, struct word list[2], struct err *e)
{
    const char *separators = " \t;_";
    const char *p = text.p, *end = text.p + text.n;
    while (p < end && !memchr(separators, *p, 4))
        p++;
    list[0] = (struct word){text.p, (size_t)(p - text.p)};
    int32_t marks = 0;
    while (p < end && memchr(separators, *p, 4))
        marks += *p == ';' || *p == '_', p++;
    list[1] = (struct word){p, (size_t)(end - p)};
    for (; p < end; p++)
        if (memchr(separators, *p, 4))
            return levels_err(text, e, "more than two lists (expected \"N1,N2,... C1,C2,...\")");
    if (marks > 1 || list[0].n == 0 || list[1].n == 0)
        return levels_err(text, e, "not two lists (expected \"N1,N2,... C1,C2,...\")");
    return true;
}

/* Integers between commas, each in lo .. hi; returns how many, -1 on an error. */
static int32_t parse_list(struct word list, const char *what, int64_t lo, int64_t hi, int64_t *out,
                          struct err *e)
{
    const char *p = list.p, *end = list.p + list.n;
    for (int32_t n = 0;; n++) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        struct word w = {p, (size_t)((comma ? comma : end) - p)};
        char quote[TEXT_QUOTE];
        if (n == LEVELS_MAX) {
            err_set(e, "levels: more than %d levels (expected fewer)", LEVELS_MAX);
            return -1;
        }
        if (!word_int(w, lo, hi, &out[n])) {
            err_set(e, "levels: level %d has \"%s\" %s (expected an integer from %lld to %lld)", n + 1,
                    word_quote(quote, w), what, (long long)lo, (long long)hi);
            return -1;
        }
        if (!comma)
            return n + 1;
        p = comma + 1;
    }
}

static struct tree *build(const int64_t *count, const int64_t *tokens, int32_t n_levels, int64_t n_nodes)
{
    struct tree *t = tree_new((int32_t)n_nodes, 0);
    int64_t first = 0; /* of this level */
    for (int32_t l = 0; l < n_levels; l++) {
        for (int64_t j = 0; j < count[l]; j++) {
            if (l > 0)
                t->parent[first + j] = (int32_t)(first - count[l - 1] + j * count[l - 1] / count[l]);
            t->len[first + j] = tokens[l];
        }
        first += count[l];
    }
    tree_query_leaves(t);
    return t;
}

struct tree *levels_parse(const char *text, struct err *e)
{
    struct word w = {text, strlen(text)}, list[2];
    while (w.n > 0 && strchr(" \t\r\n", w.p[w.n - 1]))
        w.n--;
    while (w.n > 0 && strchr(" \t", w.p[0]))
        w.p++, w.n--;
    if (!split_lists(w, list, e))
        return NULL;

    int64_t *count = xcalloc(2 * LEVELS_MAX, sizeof *count), *tokens = count + LEVELS_MAX;
    struct tree *t = NULL;
    int32_t n_levels = parse_list(list[0], "nodes", 1, TREE_MAX_NODES, count, e);
    int32_t n_tokens = n_levels < 0 ? -1 : parse_list(list[1], "tokens", 0, TREE_MAX_TOKENS, tokens, e);
    if (n_tokens < 0)
        goto done;
    if (n_levels != n_tokens) {
        err_set(e, "levels: %d node counts and %d lengths (expected as many of both)", n_levels, n_tokens);
        goto done;
    }
    /* Each count is at most 2^24 and there are at most LEVELS_MAX of them, so only products can overflow. */
    int64_t n_nodes = 0, n_total = 0;
    for (int32_t l = 0; l < n_levels; l++) {
        int64_t here = 0;
        n_nodes += count[l];
        if (__builtin_mul_overflow(count[l], tokens[l], &here) ||
            __builtin_add_overflow(n_total, here, &n_total) || n_total > TREE_MAX_TOKENS) {
            err_set(e, "levels: more than %lld tokens at level %d (expected fewer)",
                    (long long)TREE_MAX_TOKENS, l + 1);
            goto done;
        }
    }
    if (n_nodes > TREE_MAX_NODES) {
        err_set(e, "levels: %lld nodes (expected at most %d)", (long long)n_nodes, TREE_MAX_NODES);
        goto done;
    }
    t = build(count, tokens, n_levels, n_nodes);
done:
    free(count);
    return t;
}

/* ---- back to text -------------------------------------------------------------------------------------- */

bool tree_has_leaf_queries(const struct tree *t)
{
    bool *inner = xcalloc((size_t)t->n_nodes, sizeof *inner);
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0)
            inner[t->parent[i]] = true;
    int32_t q = 0;
    bool good = true;
    for (int32_t i = 0; i < t->n_nodes && good; i++) {
        if (inner[i])
            continue;
        good = q < t->n_queries && t->query[q].node == i && t->query[q].upto == t->len[i];
        q++;
    }
    free(inner);
    return good && q == t->n_queries;
}

/* Node counts and lengths of the levels, if the tree is made of such; returns how many levels, 0 if it is
 * not. A level is a run of nodes whose parents are in the run before it. */
static int32_t find_levels(const struct tree *t, int64_t *count, int64_t *tokens)
{
    int32_t n = 0, above = -1, end; /* above: first node of the level above */
    for (int32_t begin = 0; begin < t->n_nodes; begin = end, n++) {
        for (end = begin; end < t->n_nodes && t->parent[end] >= above && t->parent[end] < begin; end++)
            ;
        if (end == begin || n == LEVELS_MAX)
            return 0;
        count[n] = end - begin;
        tokens[n] = t->len[begin];
        for (int32_t i = begin; i < end; i++)
            if (t->len[i] != tokens[n] ||
                (n > 0 && t->parent[i] != above + (i - begin) * count[n - 1] / count[n]))
                return 0;
        above = begin;
    }
    return n;
}

bool levels_write(FILE *f, const struct tree *t, struct err *e)
{
    int64_t *count = xcalloc(2 * LEVELS_MAX, sizeof *count), *tokens = count + LEVELS_MAX;
    int32_t n = tree_has_leaf_queries(t) ? find_levels(t, count, tokens) : 0;
    for (int32_t l = 0; l < n; l++)
        fprintf(f, "%s%lld", l > 0 ? "," : "", (long long)count[l]);
    for (int32_t l = 0; l < n; l++)
        fprintf(f, "%s%lld", l > 0 ? "," : " ", (long long)tokens[l]);
    free(count);
    if (n == 0)
        return err_set(e,
                       "no level string says this tree (expected levels of equal nodes, evenly hung, queries "
                       "at the ends of the leaves)");
    fprintf(f, "\n");
    return !ferror(f) || err_set(e, "the level string cannot be written");
}
