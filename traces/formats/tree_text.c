/*
 * tree_text.c - the project's own text format, which can say whatever a tree can.
 *
 *   tree NODES QUERIES
 *   node ID PARENT LENGTH     NODES lines, ids 0, 1, 2 ... in order; PARENT is -1 or an id before
 *   query NODE UPTO           QUERIES lines, in the order in which the queries are numbered
 *
 * Words stand between blanks or tabs; lines end with LF or CR LF. Blank lines are ignored, and so is the rest
 * of a line from a word that begins with #. The two counts come first, so that a file that was cut short is
 * noticed.
 */
#include "traces/formats/formats.h"
#include "traces/formats/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The shortest lines, without their ends: a short file cannot ask for much memory. */
enum { NODE_LINE = sizeof "node 0 0 0" - 1, QUERY_LINE = sizeof "query 0 0" - 1 };
enum { MAX_WORDS = 4 + 1 }; /* a # behind the longest line is seen */

struct reader {
    struct text text;
    const char *name;
    struct word w[MAX_WORDS];
    struct tree *tree;
    int64_t tokens;
};

/* The next line that says something; returns how many words it has, 0 at the end. */
static int32_t next_words(struct reader *r)
{
    int32_t n, all;
    do {
        all = text_line(&r->text, r->w, MAX_WORDS);
        for (n = 0; n < all && n < MAX_WORDS && r->w[n].p[0] != '#'; n++)
            continue;
    } while (n == 0 && all > 0);
    return n < MAX_WORDS ? n : all;
}

/* The next line must be `form`: its first word, and n - 1 fields after it. */
static bool next_line(struct reader *r, const char *form, int32_t n, struct err *e)
{
    char first[TEXT_QUOTE];
    int32_t words = next_words(r);
    if (words == 0)
        return err_set(e, "%s:%d: the file ends early (expected `%s`)", r->name,
                       r->text.line > 0 ? r->text.line : 1, form);
    size_t keyword = strcspn(form, " ");
    if (r->w[0].n != keyword || memcmp(r->w[0].p, form, keyword) != 0)
        return err_set(e, "%s:%d: \"%s\" (expected `%s`)", r->name, r->text.line, word_quote(first, r->w[0]),
                       form);
    if (words != n)
        return err_set(e, "%s:%d: %s than %d words (expected `%s`)", r->name, r->text.line,
                       words < n ? "fewer" : "more", n, form);
    return true;
}

static bool field(const struct reader *r, int32_t i, const char *what, int64_t lo, int64_t hi, int64_t *out,
                  struct err *e)
{
    char quote[TEXT_QUOTE];
    return word_int(r->w[i], lo, hi, out) ||
           err_set(e, "%s:%d: %s is \"%s\" (expected an integer from %" PRId64 " to %" PRId64 ")", r->name,
                   r->text.line, what, word_quote(quote, r->w[i]), lo, hi);
}

static bool parent_field(const struct reader *r, int32_t i, int64_t *out, struct err *e)
{
    char quote[TEXT_QUOTE];
    return word_int(r->w[2], -1, i - 1, out) ||
           err_set(e,
                   "%s:%d: the parent is \"%s\" (expected -1, or the id of a node before node %" PRId32 ")",
                   r->name, r->text.line, word_quote(quote, r->w[2]), i);
}

static bool read_header(struct reader *r, size_t size, struct err *e)
{
    int64_t n_nodes, n_queries;
    if (!next_line(r, "tree NODES QUERIES", 3, e) ||
        !field(r, 1, "the number of nodes", 0, TREE_MAX_NODES, &n_nodes, e) ||
        !field(r, 2, "the number of queries", 0, n_nodes > 0 ? TREE_MAX_QUERIES : 0, &n_queries, e))
        return false;
    if (n_nodes * NODE_LINE + n_queries * QUERY_LINE > (int64_t)size)
        return err_set(e,
                       "%s:%d: %" PRId64 " nodes and %" PRId64 " queries do not fit in %zu bytes "
                       "(expected a line for each)",
                       r->name, r->text.line, n_nodes, n_queries, size);
    r->tree = tree_new((int32_t)n_nodes, (int32_t)n_queries);
    return true;
}

static bool read_node(struct reader *r, int32_t i, struct err *e)
{
    int64_t id, parent, len;
    if (!next_line(r, "node ID PARENT LENGTH", 4, e) || !field(r, 1, "the id", i, i, &id, e) ||
        !parent_field(r, i, &parent, e) || !field(r, 3, "the length", 0, TREE_MAX_TOKENS, &len, e))
        return false;
    r->tokens += len;
    if (r->tokens > TREE_MAX_TOKENS)
        return err_set(e, "%s:%d: more than %" PRId64 " tokens (expected fewer)", r->name, r->text.line,
                       TREE_MAX_TOKENS);
    r->tree->parent[i] = (int32_t)parent;
    r->tree->len[i] = len;
    return true;
}

static bool read_query(struct reader *r, int32_t q, struct err *e)
{
    int64_t node, upto;
    if (!next_line(r, "query NODE UPTO", 3, e) ||
        !field(r, 1, "the query's node", 0, r->tree->n_nodes - 1, &node, e) ||
        !field(r, 2, "upto", 0, r->tree->len[node], &upto, e))
        return false;
    r->tree->query[q] = (struct query){.node = (int32_t)node, .upto = upto};
    return true;
}

static bool read_tree(struct reader *r, size_t size, struct err *e)
{
    if (!read_header(r, size, e))
        return false;
    for (int32_t i = 0; i < r->tree->n_nodes; i++)
        if (!read_node(r, i, e))
            return false;
    for (int32_t q = 0; q < r->tree->n_queries; q++)
        if (!read_query(r, q, e))
            return false;
    return next_words(r) == 0 ||
           err_set(e, "%s:%d: more lines than the first one says (expected %d nodes and %d queries)", r->name,
                   r->text.line, r->tree->n_nodes, r->tree->n_queries);
}

struct tree *tree_text_parse(const char *text, size_t size, const char *name, struct err *e)
{
    struct reader r = {.text = {.p = text, .end = text + size}, .name = name};
    if (read_tree(&r, size, e))
        return r.tree;
    tree_free(r.tree);
    return NULL;
}

bool tree_text_write(FILE *f, const struct tree *t, struct err *e)
{
    fprintf(f, "tree %" PRId32 " %" PRId32 "\n", t->n_nodes, t->n_queries);
    for (int32_t i = 0; i < t->n_nodes; i++)
        fprintf(f, "node %" PRId32 " %" PRId32 " %" PRId64 "\n", i, t->parent[i], t->len[i]);
    for (int32_t q = 0; q < t->n_queries; q++)
        fprintf(f, "query %" PRId32 " %" PRId64 "\n", t->query[q].node, t->query[q].upto);
    return !ferror(f) || err_set(e, "the tree cannot be written");
}
