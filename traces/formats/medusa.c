/*
 * medusa.c - Medusa's token-tree topologies, {"NAME": [[0], [0, 0], [1], ...], ...} (Medusa, section 2.1.2
 * and the choices its release ships).
 *
 * Paths come in any order; every prefix of a path must be listed (token_tree.h).
 */
#include "traces/formats/medusa.h"

#include "traces/formats/text.h"
#include "traces/formats/token_tree.h"

#include <stdlib.h>
#include <string.h>

/* The paths of one topology; NULL with *e set. */
static struct speculative *read_topology(const struct json_doc *doc, const char *name, const json_t *list,
                                         struct err *e)
{
    char quote[TEXT_QUOTE], what[TEXT_QUOTE + 2];
    word_quote(quote, (struct word){name, strlen(name)});
    snprintf(what, sizeof what, "\"%s\"", quote);
    const struct json_at at = {.doc = doc, .label = "", .depth = 1, .path = {{.key = name}}};
    if (!json_is_array(list) || json_array_size(list) >= TOKEN_TREE_MAX) {
        json_err(&at, e, "%s is %s (expected a list of fewer than %d paths)", what,
                 json_is_array(list) ? "too long" : json_type_name(list), TOKEN_TREE_MAX);
        return NULL;
    }
    /* One step, which accepts nothing before it. */
    struct speculative *s = speculative_new((int32_t)json_array_size(list) + 1, 1);
    if (token_tree_read(list, s->parent, &at, what, e))
        return s;
    speculative_free(s);
    return NULL;
}

/* What there is to choose from, as far as it fits a line. */
static bool no_such(const struct json_doc *doc, const char *pick, int32_t index, struct err *e)
{
    const struct json_at at = {.doc = doc, .label = ""};
    char names[256] = "", quote[TEXT_QUOTE];
    const char *name;
    json_t *list;
    if (!pick[0])
        return json_err(&at, e, "no topology %d (expected an index below %zu)", index,
                        json_object_size(doc->root));
    json_object_foreach(doc->root, name, list)
        listing_add(names, sizeof names, word_quote(quote, (struct word){name, strlen(name)}));
    return json_err(&at, e, "no topology \"%s\" (expected one of: %s)",
                    word_quote(quote, (struct word){pick, strlen(pick)}), names);
}

static struct speculative *read_document(const struct json_doc *doc, const char *pick, int32_t index,
                                         struct err *e)
{
    const struct json_at at = {.doc = doc, .label = ""};
    struct speculative *found = NULL;
    const char *name;
    json_t *list;
    int64_t k = 0;
    if (!json_is_object(doc->root)) {
        json_err(&at, e, "the file holds %s (expected an object, name -> list of paths)",
                 json_type_name(doc->root));
        return NULL;
    }
    json_object_foreach(doc->root, name, list)
    {
        struct speculative *s = read_topology(doc, name, list, e);
        if (!s) {
            speculative_free(found);
            return NULL;
        }
        if (!found && (pick[0] ? strcmp(pick, name) == 0 : k == index))
            found = s;
        else
            speculative_free(s);
        k++;
    }
    if (!found)
        no_such(doc, pick, index, e);
    return found;
}

struct trace *medusa_open(const char *text, size_t size, const char *name, const char *pick,
                          const char *source, const struct trace_opts *o, struct err *e)
{
    if (pick[0] && o->tree_index != 0) {
        err_set(e, "%s: a name and tree index %d (expected one of them)", source, o->tree_index);
        return NULL;
    }
    if (o->max_seq != 0) {
        err_set(e, "%s: max_seq %lld (expected none: a topology says nothing of steps, there is one)", source,
                (long long)o->max_seq);
        return NULL;
    }
    struct json_doc doc;
    if (!json_doc_read(&doc, text, size, name, 1, e))
        return NULL;
    struct speculative *s = read_document(&doc, pick, o->tree_index, e);
    int64_t n_items = pick[0] ? 1 : (int64_t)json_object_size(doc.root);
    json_doc_clear(&doc);
    if (!s)
        return NULL;
    struct trace_opts hang = *o;
    hang.topology = true;
    struct trace *tr = replay_speculative(s, source, &hang, e);
    if (tr)
        tr->n_items = n_items;
    return tr;
}

bool medusa_write(FILE *f, const char *const *name, const struct speculative *const *tree, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        char *quoted = json_quote(name[k]);
        fprintf(f, "%s%s: [\n", k > 0 ? ",\n" : "{\n", quoted);
        free(quoted);
        token_tree_write(f, tree[k]->parent, tree[k]->n_tokens);
        fprintf(f, "]");
    }
    fprintf(f, "%s\n", n > 0 ? "\n}" : "{}");
    return !ferror(f);
}

struct trace *trace_open_medusa(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    const char *pick;
    char *file = spec_file_name(arg, &pick);
    size_t size;
    char *text = trace_slurp(file, MEDUSA_MAX_BYTES, &size, e);
    struct trace *tr = text ? medusa_open(text, size, file, pick, spec, o, e) : NULL;
    free(text);
    free(file);
    return tr;
}
