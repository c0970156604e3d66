/*
 * deft_speculative.c - DeFT's speculative records:
 * {"Tree_ID", "Tree_Structure", "Token_Tree_size", "Records": [{"prompt", "Accept_length",
 * "Avg_accept_length"}, ...]}.
 *
 * Tree_Structure lists the nodes of the token tree as Medusa's paths: [a, b, c] is candidate c of the third
 * head under [a, b], in any order, each prefix listed too. The root, the last accepted token, is implicit, so
 * T - 1 paths make T tokens. The project's own files add "Prompt_tokens" to a record.
 */
#include "traces/deft_items.h"
#include "traces/json.h"

#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES = 320, PATH_MAX_DEPTH = 64, SPEC_MAX_TOKENS = 1 << 20 };

/* One path of Tree_Structure. */
struct path {
    int32_t depth;
    int32_t item;  /* where it is listed, from 0 */
    int32_t *step; /* [depth] candidate taken at each head */
};

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

/* On failure p->step is still to be freed, or NULL. */
static bool read_path(const json_t *list, int32_t item, struct path *p, const char *where, struct err *e)
{
    char what[48];
    snprintf(what, sizeof what, "path %d of \"Tree_Structure\"", item);
    size_t depth = json_array_size(list); /* 0 for what is no array */
    if (depth < 1 || depth > PATH_MAX_DEPTH)
        return err_set(e, "%s: %s is no path (expected an array of 1 to %d integers)", where, what,
                       PATH_MAX_DEPTH);
    *p = (struct path){(int32_t)depth, item, xmalloc(depth * sizeof *p->step)};
    for (size_t i = 0; i < depth; i++) {
        int64_t step;
        if (!json_int(json_array_get(list, i), 0, INT32_MAX, &step, where, what, e))
            return false;
        p->step[i] = (int32_t)step;
    }
    return true;
}

/* Hang each path under its prefix; token 0 is the root, token i + 1 is path i in sorted order. */
static bool link_paths(struct path *path, int32_t n, int32_t *parent, const char *where, struct err *e)
{
    qsort(path, (size_t)n, sizeof *path, path_compare);
    for (int32_t i = 0; i < n; i++) {
        if (i > 0 && path_compare(&path[i - 1], &path[i]) == 0)
            return err_set(e, "%s: paths %d and %d of \"Tree_Structure\" are the same (expected each once)",
                           where, path[i - 1].item, path[i].item);
        parent[i + 1] = 0;
        if (path[i].depth == 1)
            continue;
        /* Shorter paths sort first: the prefix, if it is listed, stands before i. */
        struct path prefix = path[i];
        prefix.depth--;
        const struct path *found = bsearch(&prefix, path, (size_t)i, sizeof *path, path_compare);
        if (!found)
            return err_set(e,
                           "%s: path %d of \"Tree_Structure\" hangs under a path that is not listed "
                           "(expected each prefix)",
                           where, path[i].item);
        parent[i + 1] = (int32_t)(found - path) + 1;
    }
    return true;
}

static bool read_structure(json_t *doc, struct speculative *s, const char *where, struct err *e)
{
    json_t *list = json_member(doc, "Tree_Structure", JSON_ARRAY, where, e);
    if (!list)
        return false;
    int32_t n = s->n_tokens - 1;
    if (json_array_size(list) != (size_t)n)
        return err_set(e,
                       "%s: %zu paths in \"Tree_Structure\" (expected %d, one less than \"Token_Tree_size\")",
                       where, json_array_size(list), n);
    struct path *path = xcalloc((size_t)n, sizeof *path);
    bool good = true;
    for (int32_t i = 0; i < n && good; i++)
        good = read_path(json_array_get(list, (size_t)i), i, &path[i], where, e);
    good = good && link_paths(path, n, s->parent, where, e);
    for (int32_t i = 0; i < n; i++)
        free(path[i].step);
    free(path);
    return good;
}

/* Accepted lengths (and the prompt's, where it is given) of the chosen record. */
static bool read_record(json_t *doc, struct speculative *s, const char *name, int32_t tree_index,
                        struct err *e)
{
    char where[WHERE_BYTES];
    json_t *records = json_member(doc, "Records", JSON_ARRAY, name, e);
    if (!records)
        return false;
    size_t n_records = json_array_size(records);
    if ((size_t)tree_index >= n_records)
        return err_set(e, "%s: no record %d (expected an index below %zu)", name, tree_index, n_records);
    json_t *record = json_array_get(records, (size_t)tree_index);
    snprintf(where, sizeof where, "%s: record %d", name, tree_index);
    if (!json_is_object(record))
        return err_set(e, "%s: no object (expected {\"prompt\", \"Accept_length\", ...})", where);
    json_t *list = json_member(record, "Accept_length", JSON_ARRAY, where, e);
    if (!list)
        return false;
    const json_t *prompt = json_object_get(record, "Prompt_tokens");
    if (prompt && !json_int(prompt, 1, TREE_MAX_TOKENS, &s->prompt, where, "\"Prompt_tokens\"", e))
        return false;
    free(s->accept);
    s->n_accept = (int64_t)json_array_size(list);
    s->accept = xcalloc((size_t)s->n_accept, sizeof *s->accept);
    for (int64_t i = 0; i < s->n_accept; i++) {
        char what[48];
        snprintf(what, sizeof what, "entry %lld of \"Accept_length\"", (long long)i);
        if (!json_int(json_array_get(list, (size_t)i), 0, s->n_tokens, &s->accept[i], where, what, e))
            return false;
    }
    return true;
}

struct trace *deft_speculative(json_t *doc, const char *name, const char *source, const struct trace_opts *o,
                               struct err *e)
{
    int64_t n_tokens;
    if (!json_member_int(doc, "Token_Tree_size", 1, SPEC_MAX_TOKENS, &n_tokens, name, e))
        return NULL;
    struct speculative *s = speculative_new((int32_t)n_tokens, 0);
    if (!read_structure(doc, s, name, e) || !read_record(doc, s, name, o->tree_index, e)) {
        speculative_free(s);
        return NULL;
    }
    return replay_speculative(s, source, o, e);
}

/* The path of token i, by walking up; candidates are ranks among siblings. */
static void write_path(FILE *f, const struct speculative *s, const int32_t *rank, int32_t i)
{
    int32_t step[PATH_MAX_DEPTH], depth = 0;
    for (; i > 0; i = s->parent[i]) {
        CK(depth < PATH_MAX_DEPTH);
        step[depth++] = rank[i];
    }
    for (int32_t k = depth - 1; k >= 0; k--)
        fprintf(f, "%s%d%s", k == depth - 1 ? "[" : ", ", step[k], k == 0 ? "]" : "");
}

bool deft_write_speculative(FILE *f, const struct speculative *s, const char *prompt)
{
    int32_t *rank = xcalloc((size_t)s->n_tokens, sizeof *rank),
            *n_children = xcalloc((size_t)s->n_tokens, sizeof *rank);
    fprintf(f, "{\"Tree_ID\": 0, \"Tree_Structure\": [\n");
    for (int32_t i = 1; i < s->n_tokens; i++) {
        rank[i] = n_children[s->parent[i]]++;
        write_path(f, s, rank, i);
        fprintf(f, "%s", i + 1 == s->n_tokens ? "" : i % 8 == 0 ? ",\n" : ", ");
    }
    free(rank);
    free(n_children);

    json_t *text = json_string(prompt);
    CK(text);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(text);
    CK(quoted);
    fprintf(f, "],\n\"Token_Tree_size\": %d,\n\"Records\": [\n", s->n_tokens);
    fprintf(f, "{\"prompt\": %s, \"Prompt_tokens\": %lld, \"Accept_length\": [", quoted,
            (long long)s->prompt);
    free(quoted);
    int64_t sum = 0;
    for (int64_t i = 0; i < s->n_accept; i++) {
        fprintf(f, "%s%lld", i == 0 ? "" : i % 40 == 0 ? ",\n" : ", ", (long long)s->accept[i]);
        sum += s->accept[i];
    }
    fprintf(f, "], \"Avg_accept_length\": %.6f}\n]}\n", (double)sum / (double)max_i64(1, s->n_accept));
    return !ferror(f);
}
