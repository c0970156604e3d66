/*
 * deft_speculative.c - DeFT's speculative records:
 * {"Tree_ID", "Tree_Structure", "Token_Tree_size", "Records": [{"prompt", "Accept_length",
 * "Avg_accept_length"}, ...]}.
 *
 * Tree_Structure lists the nodes of the token tree as Medusa's paths (token_tree.h), so T - 1 paths make T
 * tokens. The project's own files add "Prompt_tokens" to a record.
 */
#include "traces/formats/deft_items.h"
#include "traces/formats/token_tree.h"

#include <stdlib.h>

static bool read_structure(const struct json_doc *doc, struct speculative *s, struct err *e)
{
    struct json_at at = {.doc = doc, .label = ""};
    json_t *list = json_member(doc->root, "Tree_Structure", JSON_ARRAY, &at, e);
    if (!list)
        return false;
    at.path[at.depth++] = (struct json_step){.key = "Tree_Structure"};
    if (json_array_size(list) != (size_t)s->n_tokens - 1)
        return json_err(&at, e,
                        "%zu paths in \"Tree_Structure\" (expected %d, one less than \"Token_Tree_size\")",
                        json_array_size(list), s->n_tokens - 1);
    return token_tree_read(list, s->parent, &at, "\"Tree_Structure\"", e);
}

/* "Accept_length" of a record into *s. */
static bool read_accept(const json_t *list, struct speculative *s, const struct json_at *record,
                        struct err *e)
{
    struct json_at at = *record;
    at.path[at.depth++] = (struct json_step){.key = "Accept_length"};
    free(s->accept);
    s->n_accept = (int64_t)json_array_size(list);
    s->accept = xcalloc((size_t)s->n_accept, sizeof *s->accept);
    at.depth++;
    for (int64_t i = 0; i < s->n_accept; i++) {
        char what[48];
        snprintf(what, sizeof what, "entry %lld of \"Accept_length\"", (long long)i);
        at.path[at.depth - 1] = (struct json_step){.index = (size_t)i};
        if (!json_int(json_array_get(list, (size_t)i), 0, s->n_tokens, &s->accept[i], &at, what, e))
            return false;
    }
    return true;
}

/* Accepted lengths (and the prompt's, where it is given) of the chosen record. */
static bool read_record(const struct json_doc *doc, struct speculative *s, int32_t tree_index,
                        size_t *n_records, struct err *e)
{
    char label[32];
    struct json_at at = {.doc = doc, .label = ""};
    json_t *records = json_member(doc->root, "Records", JSON_ARRAY, &at, e);
    if (!records)
        return false;
    at.path[at.depth++] = (struct json_step){.key = "Records"};
    *n_records = json_array_size(records);
    if ((size_t)tree_index >= *n_records)
        return json_err(&at, e, "no record %d (expected an index below %zu)", tree_index, *n_records);
    json_t *record = json_array_get(records, (size_t)tree_index);
    snprintf(label, sizeof label, "record %d", tree_index);
    at.label = label;
    at.path[at.depth++] = (struct json_step){.index = (size_t)tree_index};
    if (!json_is_object(record))
        return json_err(&at, e, "no object (expected {\"prompt\", \"Accept_length\", ...})");
    const json_t *list = json_member(record, "Accept_length", JSON_ARRAY, &at, e);
    if (!list)
        return false;
    const json_t *prompt = json_object_get(record, "Prompt_tokens");
    if (prompt && !json_int(prompt, 1, TREE_MAX_TOKENS, &s->prompt, &at, "\"Prompt_tokens\"", e))
        return false;
    return read_accept(list, s, &at, e);
}

struct trace *deft_speculative(const struct json_doc *doc, const char *source, const struct trace_opts *o,
                               struct err *e)
{
    const struct json_at at = {.doc = doc, .label = ""};
    int64_t n_tokens;
    if (!json_member_int(doc->root, "Token_Tree_size", 1, TOKEN_TREE_MAX, &n_tokens, &at, e))
        return NULL;
    struct speculative *s = speculative_new((int32_t)n_tokens, 0);
    size_t n_records;
    if (!read_structure(doc, s, e) || !read_record(doc, s, o->tree_index, &n_records, e)) {
        speculative_free(s);
        return NULL;
    }
    struct trace *tr = replay_speculative(s, source, o, e);
    if (tr)
        tr->n_items = (int64_t)n_records;
    return tr;
}

bool deft_write_speculative(FILE *f, const struct speculative *s, const char *prompt)
{
    fprintf(f, "{\"Tree_ID\": 0, \"Tree_Structure\": [\n");
    token_tree_write(f, s->parent, s->n_tokens);
    char *quoted = json_quote(prompt);
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
