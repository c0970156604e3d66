/*
 * fasttree_file.c - FastTree's tree files.
 *
 * The first line is the number of nodes n. Each of the n lines after it is `parent id length children`:
 * parent is -1 for a root, children is the number of nodes that name this one as their parent. Every leaf is
 * one query. Lines may come in any order, but ids are 0 .. n - 1 and a parent's id is smaller than its
 * children's: the planners' golden results number nodes that way, and it rules out cycles.
 */
#include "ref/file.h"
#include "traces/formats/formats.h"
#include "traces/formats/text.h"

#include <stdlib.h>

/* Room for TREE_MAX_NODES lines of 32 bytes. */
enum { FASTTREE_MAX_BYTES = 1 << 29 };

struct reader {
    struct text text;
    const char *begin; /* of the text */
    const char *name;
    struct tree *tree;
    int32_t *children; /* [n_nodes] as the file states them, -1 before the node's line */
    int64_t tokens;
};

/* One word of the line as an integer; `what` names it in the message. */
static bool field(const struct reader *r, struct word w, const char *what, int64_t lo, int64_t hi,
                  int64_t *out, struct err *e)
{
    char quote[TEXT_QUOTE];
    if (word_int(w, lo, hi, out))
        return true;
    return err_set(e, "%s:%d: %s is \"%s\" (expected an integer from %lld to %lld)", r->name, r->text.line,
                   what, word_quote(quote, w), (long long)lo, (long long)hi);
}

static bool parent_field(const struct reader *r, struct word w, int64_t id, int64_t *out, struct err *e)
{
    char quote[TEXT_QUOTE];
    if (word_int(w, -1, id - 1, out))
        return true;
    return err_set(e, "%s:%d: the parent is \"%s\" (expected -1, or an id below the node's own, %lld)",
                   r->name, r->text.line, word_quote(quote, w), (long long)id);
}

/* One node's line: its bounds are checked before anything is stored. */
static bool read_node(struct reader *r, struct err *e)
{
    struct tree *t = r->tree;
    struct word w[4];
    int32_t n_words = text_line(&r->text, w, 4);
    int64_t parent, id, len, children;
    if (n_words == 0)
        return err_set(e, "%s:%d: the file ends early (expected %d nodes)", r->name, r->text.line,
                       t->n_nodes);
    if (n_words != 4)
        return err_set(e, "%s:%d: %s than four numbers (expected `parent id length children`)", r->name,
                       r->text.line, n_words < 4 ? "fewer" : "more");
    if (!field(r, w[1], "the id", 0, t->n_nodes - 1, &id, e) || !parent_field(r, w[0], id, &parent, e) ||
        !field(r, w[2], "the length", 0, TREE_MAX_TOKENS, &len, e) ||
        !field(r, w[3], "the number of children", 0, t->n_nodes - 1, &children, e))
        return false;
    if (r->children[id] >= 0)
        return err_set(e, "%s:%d: node %d appears twice (expected each id once)", r->name, r->text.line,
                       (int)id);
    r->tokens += len;
    if (r->tokens > TREE_MAX_TOKENS)
        return err_set(e, "%s:%d: more than %lld tokens (expected fewer)", r->name, r->text.line,
                       (long long)TREE_MAX_TOKENS);
    t->parent[id] = (int32_t)parent;
    t->len[id] = len;
    r->children[id] = (int32_t)children;
    return true;
}

/* The line that gives node `id`, known to be there: it is read again, which only a failure pays for. */
static int line_of_node(const struct reader *r, int32_t id)
{
    struct text again = {.p = r->begin, .end = r->text.end};
    struct word w[4];
    int64_t x;
    text_line(&again, w, 4);
    while (text_line(&again, w, 4) > 0 && !word_int(w[1], id, id, &x))
        ;
    return again.line;
}

/* The stated numbers of children against the parents. */
static bool check_children(struct reader *r, struct err *e)
{
    const struct tree *t = r->tree;
    int32_t *found = xcalloc((size_t)t->n_nodes, sizeof *found);
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0)
            found[t->parent[i]]++;
    bool good = true;
    for (int32_t i = 0; i < t->n_nodes && good; i++)
        if (found[i] != r->children[i])
            good = err_set(e, "%s:%d: node %d states %d children (expected %d, as many as name it)", r->name,
                           line_of_node(r, i), i, r->children[i], found[i]);
    free(found);
    return good;
}

static bool read_nodes(struct reader *r, struct err *e)
{
    struct word w[1];
    for (int32_t i = 0; i < r->tree->n_nodes; i++)
        if (!read_node(r, e))
            return false;
    if (text_line(&r->text, w, 1) > 0)
        return err_set(e, "%s:%d: more lines than nodes (expected %d nodes)", r->name, r->text.line,
                       r->tree->n_nodes);
    return check_children(r, e);
}

struct tree *fasttree_file_parse(const char *text, size_t size, const char *name, struct err *e)
{
    struct reader r = {.text = {.p = text, .end = text + size}, .begin = text, .name = name};
    struct word w[1];
    int64_t n;
    int32_t n_words = text_line(&r.text, w, 1);
    if (n_words == 0) {
        err_set(e, "%s:1: empty (expected the number of nodes)", name);
        return NULL;
    }
    if (n_words > 1) {
        err_set(e, "%s:%d: more than one number (expected the number of nodes)", name, r.text.line);
        return NULL;
    }
    if (!field(&r, w[0], "the number of nodes", 1, TREE_MAX_NODES, &n, e))
        return NULL;
    /* A line takes 8 bytes at least, so a short file cannot ask for much memory. */
    if (n > (int64_t)size / 8 + 1) {
        err_set(e, "%s:%d: %lld nodes do not fit in %zu bytes (expected a line a node)", name, r.text.line,
                (long long)n, size);
        return NULL;
    }
    r.tree = tree_new((int32_t)n, 0);
    r.children = xmalloc((size_t)n * sizeof *r.children);
    for (int64_t i = 0; i < n; i++)
        r.children[i] = -1;
    bool good = read_nodes(&r, e);
    free(r.children);
    if (!good) {
        tree_free(r.tree);
        return NULL;
    }
    tree_query_leaves(r.tree);
    return r.tree;
}

struct tree *fasttree_file_read(const char *path, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, FASTTREE_MAX_BYTES, &size, e);
    if (!text)
        return NULL;
    struct tree *t = fasttree_file_parse(text, size, path, e);
    free(text);
    return t;
}

bool fasttree_file_write(FILE *f, const struct tree *t, struct err *e)
{
    int32_t *children = xcalloc((size_t)t->n_nodes, sizeof *children);
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0)
            children[t->parent[i]]++;
    /* The format has no place for queries: they must be what a reader will put there. */
    bool good = t->n_nodes > 0 && tree_has_leaf_queries(t);
    if (!good)
        err_set(
            e,
            "this tree's queries cannot be said in a tree file (expected one query at the end of each leaf)");
    if (good) {
        fprintf(f, "%d\n", t->n_nodes);
        for (int32_t i = 0; i < t->n_nodes; i++)
            fprintf(f, "%d %d %lld %d\n", t->parent[i], i, (long long)t->len[i], children[i]);
    }
    free(children);
    return good && (!ferror(f) || err_set(e, "the tree file cannot be written"));
}
