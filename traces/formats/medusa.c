/*
 * medusa.c - Medusa's token-tree topologies, {"NAME": [[0], [0, 0], [1], ...], ...} (Medusa, section 2.1.2
 * and the choices its release ships).
 *
 * Paths come in any order; every prefix of a path must be listed (token_tree.h). What does not begin like a JSON object is read as
 * Python (python_lists.h). A list may also be a string, as vLLM's configurations have it, and stand two objects deep.
 */
#include "traces/formats/medusa.h"

#include "traces/formats/python_lists.h"
#include "traces/formats/text.h"
#include "traces/formats/token_tree.h"

#include <stdlib.h>
#include <string.h>

/* Is it a string that holds a list? */
static bool is_list_text(const json_t *value)
{
    const char *s = json_string_value(value);
    return s && strchr("[(", s[strspn(s, " \t\r\n")]) && s[strspn(s, " \t\r\n")];
}

/* The list that a member is, or holds as text; NULL with *e set. A reference of the caller's. */
static json_t *list_of(json_t *value, const char *what, const struct json_at *at, struct err *e)
{
    if (!is_list_text(value))
        return json_incref(value);
    struct err why = {0};
    char *text = python_list_json(json_string_value(value), &why);
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    if (!list)
        json_err(at, e, "%s: %s", what,
                 why.msg[0] ? why.msg : "a number is too large (expected 0 to 2147483647)");
    return list;
}

/* The paths of the topology at `at`, the last key of which is its name; NULL with *e set. */
static struct speculative *read_topology(const struct json_at *at, json_t *value, struct err *e)
{
    const char *name = at->path[at->depth - 1].key;
    char quote[TEXT_QUOTE], what[TEXT_QUOTE + 2];
    word_quote(quote, (struct word){name, strlen(name)});
    snprintf(what, sizeof what, "\"%s\"", quote);
    json_t *list = list_of(value, what, at, e);
    if (!list)
        return NULL;
    size_t n = json_array_size(list); /* 0 for what is no array */
    struct speculative *s = NULL;
    if (!json_is_array(list)) {
        json_err(
            at, e,
            "%s is %s (expected a list of paths; one list among other things is read by its name, FILE,NAME)",
            what, json_type_name(list));
    } else if (n < 1 || n >= TOKEN_TREE_MAX) {
        json_err(at, e, "%s is %s (expected 1 to %d paths, as [[0], [0, 0]])", what,
                 n < 1 ? "an empty list" : "too long", TOKEN_TREE_MAX - 1);
    } else { /* one step, which accepts nothing before it */
        s = speculative_new((int32_t)n + 1, 1);
        if (!token_tree_read(list, s->parent, at, what, e)) {
            speculative_free(s);
            s = NULL;
        }
    }
    json_decref(list);
    return s;
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
    json_object_foreach(doc->root, name, list) if (json_is_array(list) || is_list_text(list))
        listing_add(names, sizeof names, word_quote(quote, (struct word){name, strlen(name)}));
    return json_err(&at, e, "no topology \"%s\" (expected %s%s)",
                    word_quote(quote, (struct word){pick, strlen(pick)}),
                    names[0] ? "one of: " : "name -> list of paths", names);
}

/* The member of that name, of the object at `at` or of one in it, and where it is; NULL if there is none. */
static json_t *find_member(json_t *object, const char *pick, struct json_at *at)
{
    enum { DEEPEST = 2 }; /* {"speculative_config": {"eagle_choices": [..]}} */
    json_t *found = json_object_get(object, pick), *inner;
    const char *name;
    struct json_step *step = &at->path[at->depth++];
    step->key = pick;
    if (!found && at->depth <= DEEPEST)
        json_object_foreach(object, name, inner)
        {
            step->key = name;
            if ((found = find_member(inner, pick, at)))
                return found;
        }
    at->depth -= !found;
    return found;
}

static struct speculative *read_document(const struct json_doc *doc, const char *pick, int32_t index,
                                         struct err *e)
{
    const struct json_at at = {.doc = doc, .label = ""};
    struct json_at where = at;
    struct speculative *found = NULL;
    const char *name;
    json_t *list;
    int64_t k = 0;
    if (!json_is_object(doc->root)) {
        json_err(&at, e, "the file holds %s (expected an object, name -> list of paths)",
                 json_type_name(doc->root));
        return NULL;
    }
    if (pick[0] && (list = find_member(doc->root, pick, &where)))
        return read_topology(&where, list, e);
    if (!pick[0])
        json_object_foreach(doc->root, name, list)
        {
            where = (struct json_at){.doc = doc, .label = "", .depth = 1, .path = {{.key = name}}};
            struct speculative *s = read_topology(&where, list, e);
            if (!s) {
                speculative_free(found);
                return NULL;
            }
            if (k++ == index)
                found = s;
            else
                speculative_free(s);
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
    char *python = NULL;
    size_t blank = 0;
    while (blank < size && strchr(" \t\r\n", text[blank]) && text[blank])
        blank++;
    if (blank == size || text[blank] != '{') {
        if (!(python = python_lists_json(text, size, name, e)))
            return NULL;
        text = python;
        size = strlen(python);
    }
    if (!json_doc_read(&doc, text, size, name, 1, e)) {
        free(python);
        return NULL;
    }
    struct speculative *s = read_document(&doc, pick, o->tree_index, e);
    int64_t n_items = pick[0] ? 1 : (int64_t)json_object_size(doc.root);
    json_doc_clear(&doc);
    free(python);
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
