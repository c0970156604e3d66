#include "traces/formats/token_tree.h"

#include <stdlib.h>

struct path {
    int32_t depth;
    int32_t item;  /* where it is listed, from 0 */
    int32_t *step; /* [depth] candidate taken at each head */
};

/* Where the list is, and which of its elements is meant. */
static bool path_err(const struct json_at *at, const char *what, int32_t item, struct err *e,
                     const char *problem)
{
    struct json_at here = *at;
    CK(here.depth < JSON_MAX_PATH);
    here.path[here.depth++] = (struct json_step){.index = (size_t)item};
    return json_err(&here, e, "path %d of %s %s", item, what, problem);
}

/* Shorter first, then by candidates: parents come before children, and siblings in order of rank. */
static int path_compare(const void *a, const void *b)
{
    const struct path *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    for (int32_t i = 0; i < x->depth; i++)
        if (x->step[i] != y->step[i])
            return x->step[i] < y->step[i] ? -1 : 1;
    return 0;
}

/* p->step is to be freed even on failure, if it is not NULL. */
static bool read_path(const json_t *list, int32_t item, struct path *p, const struct json_at *at,
                      const char *what, struct err *e)
{
    size_t depth = json_array_size(list); /* 0 for what is no array */
    if (depth < 1 || depth > TOKEN_TREE_MAX_DEPTH)
        return path_err(at, what, item, e, "is no path (expected an array of 1 to 64 integers)");
    *p = (struct path){(int32_t)depth, item, xmalloc(depth * sizeof *p->step)};
    for (size_t i = 0; i < depth; i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t x = json_integer_value(value);
        if (!json_is_integer(value) || x < 0 || x > INT32_MAX) {
            char problem[96];
            if (json_is_integer(value))
                snprintf(problem, sizeof problem, "has %lld (expected 0 to %d)", (long long)x, INT32_MAX);
            else
                snprintf(problem, sizeof problem, "has %s (expected an integer)", json_type_name(value));
            return path_err(at, what, item, e, problem);
        }
        p->step[i] = (int32_t)x;
    }
    return true;
}

/* Hang each path under its prefix; token i + 1 is path i in sorted order. */
static bool link_paths(struct path *path, int32_t n, int32_t *parent, const struct json_at *at,
                       const char *what, struct err *e)
{
    qsort(path, (size_t)n, sizeof *path, path_compare);
    for (int32_t i = 0; i < n; i++) {
        if (i > 0 && path_compare(&path[i - 1], &path[i]) == 0) {
            int32_t first = path[i - 1].item, second = path[i].item;
            char problem[64];
            snprintf(problem, sizeof problem, "is the same as path %d (expected each once)",
                     first < second ? first : second);
            return path_err(at, what, first < second ? second : first, e, problem);
        }
        parent[i + 1] = 0;
        if (path[i].depth == 1)
            continue;
        /* Shorter paths sort first: the prefix, if it is listed, stands before i. */
        struct path prefix = path[i];
        prefix.depth--;
        const struct path *found = bsearch(&prefix, path, (size_t)i, sizeof *path, path_compare);
        if (!found)
            return path_err(at, what, path[i].item, e,
                            "hangs under a path that is not listed (expected each prefix)");
        parent[i + 1] = (int32_t)(found - path) + 1;
    }
    return true;
}

bool token_tree_read(const json_t *list, int32_t *parent, const struct json_at *at, const char *what,
                     struct err *e)
{
    CK(json_array_size(list) < TOKEN_TREE_MAX);
    int32_t n = (int32_t)json_array_size(list);
    struct path *path = xcalloc((size_t)n, sizeof *path);
    parent[0] = -1;
    bool good = true;
    for (int32_t i = 0; i < n && good; i++)
        good = read_path(json_array_get(list, (size_t)i), i, &path[i], at, what, e);
    good = good && link_paths(path, n, parent, at, what, e);
    for (int32_t i = 0; i < n; i++)
        free(path[i].step);
    free(path);
    return good;
}

/* The path of token i, by walking up. */
static void write_path(FILE *f, const int32_t *parent, const int32_t *rank, int32_t i)
{
    int32_t step[TOKEN_TREE_MAX_DEPTH], depth = 0;
    for (; i > 0; i = parent[i]) {
        CK(depth < TOKEN_TREE_MAX_DEPTH);
        step[depth++] = rank[i];
    }
    for (int32_t k = depth - 1; k >= 0; k--)
        fprintf(f, "%s%d%s", k == depth - 1 ? "[" : ", ", step[k], k == 0 ? "]" : "");
}

void token_tree_write(FILE *f, const int32_t *parent, int32_t n_tokens)
{
    int32_t *rank = xcalloc((size_t)n_tokens, sizeof *rank);
    int32_t *n_children = xcalloc((size_t)n_tokens, sizeof *n_children);
    for (int32_t i = 1; i < n_tokens; i++) {
        rank[i] = n_children[parent[i]]++;
        write_path(f, parent, rank, i);
        fprintf(f, "%s", i + 1 == n_tokens ? "" : i % 8 == 0 ? ",\n" : ", ");
    }
    free(rank);
    free(n_children);
}
