/*
 * deft_reasoning.c - DeFT's reasoning templates: [{"incompleted", "prompt", "data"}, ...].
 *
 * `data` maps the decimal id of a node to {"id", "value", "start", "end", "children"}. Items with
 * `incompleted` are passed over before numbering. Of the chosen item everything is checked: ids 0 .. n - 1,
 * value = end - start + 1, the root ends at 0, a child starts when its parent has ended, every node but the
 * root has one parent with a smaller id (so there are no cycles).
 *
 * DEVIATION: DeFT's controller decodes a leaf of value 0 until the run ends, an accident of its bookkeeping;
 * such leaves are dropped here, and the trace's remark says which.
 */
#include "traces/deft_items.h"
#include "traces/json.h"

#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES = 320 };

/* What is being read, for messages. */
struct place {
    const char *name;
    size_t item;
};

static const char *at_item(char where[WHERE_BYTES], const struct place *p)
{
    snprintf(where, WHERE_BYTES, "%s: item %zu", p->name, p->item);
    return where;
}

static const char *at_node(char where[WHERE_BYTES], const struct place *p, int32_t node)
{
    snprintf(where, WHERE_BYTES, "%s: item %zu, node %d", p->name, p->item, node);
    return where;
}

/* id, value, start and end of node i. Bounds first, so that the sums below cannot wrap. */
static bool read_node(json_t *data, int32_t i, struct reasoning_node *node, const struct place *p,
                      struct err *e)
{
    char where[WHERE_BYTES], key[16];
    int64_t id, big = TREE_MAX_TOKENS;
    at_node(where, p, i);
    snprintf(key, sizeof key, "%d", i);
    const json_t *obj = json_object_get(data, key);
    if (!json_is_object(obj))
        return err_set(e, "%s: \"%s\" is %s (expected ids 0 .. n - 1, each an object)", where, key,
                       obj ? "no object" : "missing");
    if (!json_member_int(obj, "id", i, i, &id, where, e) ||
        !json_member_int(obj, "value", i > 0 ? 0 : 1, big, &node->value, where, e) ||
        !json_member_int(obj, "start", -big, big, &node->start, where, e) ||
        !json_member_int(obj, "end", -big, big, &node->end, where, e))
        return false;
    if (node->value != node->end - node->start + 1)
        return err_set(e, "%s: value %lld, start %lld, end %lld (expected value = end - start + 1)", where,
                       (long long)node->value, (long long)node->start, (long long)node->end);
    if (i == 0 && node->end != 0)
        return err_set(e, "%s: the root ends at %lld (expected 0)", where, (long long)node->end);
    return true;
}

/* The children of node i learn their parent. */
static bool read_children(json_t *data, int32_t i, struct reasoning *r, const struct place *p, struct err *e)
{
    char where[WHERE_BYTES], key[16];
    at_node(where, p, i);
    snprintf(key, sizeof key, "%d", i);
    json_t *children = json_member(json_object_get(data, key), "children", JSON_ARRAY, where, e), *value;
    if (!children)
        return false;
    if (json_array_size(children) > 0 && r->node[i].value == 0)
        return err_set(e, "%s: value 0 and children (expected at least one token)", where);
    size_t k;
    json_array_foreach(children, k, value)
    {
        int64_t c;
        if (!json_int(value, 0, r->n_nodes - 1, &c, where, "a child", e))
            return false;
        if (c <= i)
            return err_set(e, "%s: child %d (expected ids larger than the parent's)", where, (int)c);
        if (r->node[c].parent >= 0)
            return err_set(e, "%s: child %d is also a child of node %d (expected one parent)", where, (int)c,
                           r->node[c].parent);
        if (r->node[c].start != r->node[i].end + 1)
            return err_set(e, "%s: child %d starts at %lld (expected %lld, after its parent's end)", where,
                           (int)c, (long long)r->node[c].start, (long long)r->node[i].end + 1);
        r->node[c].parent = i;
    }
    return true;
}

/* Take leaves of value 0 out; returns a remark that lists them, to be freed; NULL if there are none. */
static char *drop_empty(struct reasoning *r)
{
    int32_t *id = xmalloc((size_t)r->n_nodes * sizeof *id), n = 0;
    char *remark = NULL;
    for (int32_t i = 0; i < r->n_nodes; i++) {
        if (r->node[i].value == 0) {
            /* Past some length the list is of no use to a reader, and this stays linear. */
            bool enough = remark && strlen(remark) > 200;
            char *longer =
                enough ? NULL : xasprintf("%s %d", remark ? remark : "dropped nodes of value 0:", i);
            if (longer) {
                free(remark);
                remark = longer;
            }
            continue;
        }
        id[i] = n;
        r->node[n] = r->node[i];
        if (i > 0)
            r->node[n].parent = id[r->node[i].parent];
        n++;
    }
    r->n_nodes = n;
    free(id);
    return remark;
}

static struct reasoning *read_template(json_t *data, const struct place *p, struct err *e)
{
    char where[WHERE_BYTES];
    size_t n = json_object_size(data);
    if (n < 1 || n > TREE_MAX_NODES) {
        err_set(e, "%s: %zu nodes (expected 1 to %d)", at_item(where, p), n, TREE_MAX_NODES);
        return NULL;
    }
    struct reasoning *r = reasoning_new((int32_t)n);
    bool good = true;
    for (int32_t i = 0; i < r->n_nodes && good; i++)
        good = read_node(data, i, &r->node[i], p, e);
    for (int32_t i = 0; i < r->n_nodes && good; i++)
        good = read_children(data, i, r, p, e);
    for (int32_t i = 1; i < r->n_nodes && good; i++)
        if (r->node[i].parent < 0)
            good = err_set(e, "%s: no parent (expected to be some node's child)", at_node(where, p, i));
    if (!good) {
        reasoning_free(r);
        return NULL;
    }
    return r;
}

/* The data of the tree_index-th item that is not incomplete; p->item becomes its place in the file. */
static json_t *find_item(json_t *doc, struct place *p, int32_t tree_index, struct err *e)
{
    char where[WHERE_BYTES];
    int64_t usable = 0;
    json_t *item, *found = NULL;
    size_t k, found_at = 0;
    json_array_foreach(doc, k, item)
    {
        p->item = k;
        at_item(where, p);
        if (!json_is_object(item)) {
            err_set(e, "%s: no object (expected {\"incompleted\", \"prompt\", \"data\"})", where);
            return NULL;
        }
        const json_t *incompleted = json_object_get(item, "incompleted");
        if (!json_is_boolean(incompleted)) {
            err_set(e, "%s: \"incompleted\" is %s (expected true or false)", where,
                    incompleted ? "no boolean" : "missing");
            return NULL;
        }
        if (!json_member(item, "prompt", JSON_STRING, where, e))
            return NULL;
        json_t *data = json_member(item, "data", JSON_OBJECT, where, e);
        if (!data)
            return NULL;
        if (json_is_true(incompleted))
            continue;
        if (usable++ == tree_index) {
            found = data;
            found_at = k;
        }
    }
    p->item = found_at;
    if (!found)
        err_set(e, "%s: no tree %d (expected an index below %lld, the number of complete items)", p->name,
                tree_index, (long long)usable);
    return found;
}

struct trace *deft_reasoning(json_t *doc, const char *name, const char *source, const struct trace_opts *o,
                             struct err *e)
{
    struct place p = {.name = name};
    json_t *data = find_item(doc, &p, o->tree_index, e);
    struct reasoning *r = data ? read_template(data, &p, e) : NULL;
    if (!r)
        return NULL;
    char *remark = drop_empty(r);
    struct trace *tr = replay_reasoning(r, source, remark, o, e);
    free(remark);
    return tr;
}

bool deft_write_reasoning(FILE *f, const struct reasoning *const *item, int32_t n_items, const char *prompt)
{
    json_t *text = json_string(prompt);
    CK(text);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(text);
    CK(quoted);
    for (int32_t k = 0; k < n_items; k++) {
        const struct reasoning *r = item[k];
        fprintf(f, "%s{\"incompleted\": false, \"prompt\": %s, \"data\": {\n", k > 0 ? ",\n" : "[", quoted);
        for (int32_t i = 0; i < r->n_nodes; i++) {
            const struct reasoning_node *node = &r->node[i];
            fprintf(f,
                    "\"%d\": {\"id\": %d, \"value\": %lld, \"start\": %lld, \"end\": %lld, \"children\": [",
                    i, i, (long long)node->value, (long long)node->start, (long long)node->end);
            const char *comma = "";
            for (int32_t c = i + 1; c < r->n_nodes; c++)
                if (r->node[c].parent == i) {
                    fprintf(f, "%s%d", comma, c);
                    comma = ", ";
                }
            fprintf(f, "]}%s\n", i + 1 < r->n_nodes ? "," : "}}");
        }
    }
    fprintf(f, "]\n");
    free(quoted);
    return !ferror(f);
}
