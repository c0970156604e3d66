/*
 * deft_reasoning.c - DeFT's reasoning templates: [{"incompleted", "prompt", "data"}, ...].
 *
 * `data` maps the decimal id of a node to {"id", "value", "start", "end", "children"}. Items with
 * `incompleted` are passed over before numbering. Of the chosen item everything is checked: ids are 0 .. n -
 * 1; value = end - start + 1; the root ends at 0; a child starts when its parent has ended. Every node but
 * the root has one parent with a smaller id, so there are no cycles.
 *
 * DEVIATION: DeFT's controller decodes a leaf of value 0 until the run ends, an accident of its bookkeeping;
 * such leaves are dropped here, and the trace's remark says which.
 */
#include "traces/formats/deft_items.h"
#include "traces/formats/json.h"

#include <stdlib.h>
#include <string.h>

enum { LABEL_BYTES = 64 };

/* An item of the file or a node of it, for messages; key and label are the caller's room for the words. */
static struct json_at at_item(const struct json_doc *doc, size_t item, char label[LABEL_BYTES])
{
    snprintf(label, LABEL_BYTES, "item %zu", item);
    return (struct json_at){.doc = doc, .label = label, .depth = 1, .path = {{.index = item}}};
}

static struct json_at at_node(const struct json_doc *doc, size_t item, int32_t node, char key[16],
                              char label[LABEL_BYTES])
{
    struct json_at at = at_item(doc, item, label);
    snprintf(label, LABEL_BYTES, "item %zu, node %d", item, node);
    snprintf(key, 16, "%d", node);
    at.path[at.depth++] = (struct json_step){.key = "data"};
    at.path[at.depth++] = (struct json_step){.key = key};
    return at;
}

/* What is being read. */
struct place {
    const struct json_doc *doc;
    size_t item;
    json_t *data; /* of the item */
};

/* id, value, start and end of node i. Bounds first, so that the sums below cannot wrap. */
static bool read_node(const struct place *p, int32_t i, struct reasoning_node *node, struct err *e)
{
    char label[LABEL_BYTES], key[16];
    int64_t id, big = TREE_MAX_TOKENS;
    struct json_at at = at_node(p->doc, p->item, i, key, label);
    const json_t *obj = json_object_get(p->data, key);
    if (!json_is_object(obj))
        return json_err(&at, e, "\"%s\" is %s (expected ids 0 .. n - 1, each an object)", key,
                        obj ? "no object" : "missing");
    if (!json_member_int(obj, "id", i, i, &id, &at, e) ||
        !json_member_int(obj, "value", i > 0 ? 0 : 1, big, &node->value, &at, e) ||
        !json_member_int(obj, "start", -big, big, &node->start, &at, e) ||
        !json_member_int(obj, "end", -big, big, &node->end, &at, e))
        return false;
    if (node->value != node->end - node->start + 1)
        return json_err(&at, e, "value %lld, start %lld, end %lld (expected value = end - start + 1)",
                        (long long)node->value, (long long)node->start, (long long)node->end);
    if (i == 0 && node->end != 0)
        return json_err(&at, e, "the root ends at %lld (expected 0)", (long long)node->end);
    return true;
}

/* The children of node i learn their parent. */
static bool read_children(const struct place *p, int32_t i, struct reasoning *r, struct err *e)
{
    char label[LABEL_BYTES], key[16];
    struct json_at at = at_node(p->doc, p->item, i, key, label);
    json_t *children = json_member(json_object_get(p->data, key), "children", JSON_ARRAY, &at, e), *value;
    if (!children)
        return false;
    if (json_array_size(children) > 0 && r->node[i].value == 0)
        return json_err(&at, e, "value 0 and children (expected at least one token)");
    size_t k;
    json_array_foreach(children, k, value)
    {
        int64_t c;
        if (!json_int(value, 0, r->n_nodes - 1, &c, &at, "a child", e))
            return false;
        if (c <= i)
            return json_err(&at, e, "child %d (expected ids larger than the parent's)", (int)c);
        if (r->node[c].parent >= 0)
            return json_err(&at, e, "child %d is also a child of node %d (expected one parent)", (int)c,
                            r->node[c].parent);
        if (r->node[c].start != r->node[i].end + 1)
            return json_err(&at, e, "child %d starts at %lld (expected %lld, after its parent's end)", (int)c,
                            (long long)r->node[c].start, (long long)r->node[i].end + 1);
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

static struct reasoning *read_template(const struct place *p, struct err *e)
{
    char label[LABEL_BYTES], key[16];
    size_t n = json_object_size(p->data);
    if (n < 1 || n > TREE_MAX_NODES) {
        struct json_at at = at_item(p->doc, p->item, label);
        json_err(&at, e, "%zu nodes (expected 1 to %d)", n, TREE_MAX_NODES);
        return NULL;
    }
    struct reasoning *r = reasoning_new((int32_t)n);
    bool good = true;
    for (int32_t i = 0; i < r->n_nodes && good; i++)
        good = read_node(p, i, &r->node[i], e);
    for (int32_t i = 0; i < r->n_nodes && good; i++)
        good = read_children(p, i, r, e);
    for (int32_t i = 1; i < r->n_nodes && good; i++)
        if (r->node[i].parent < 0) {
            struct json_at at = at_node(p->doc, p->item, i, key, label);
            good = json_err(&at, e, "no parent (expected to be some node's child)");
        }
    if (!good) {
        reasoning_free(r);
        return NULL;
    }
    return r;
}

/* The data of item k, into *data; *usable says whether it counts. */
static bool check_item(const struct json_doc *doc, size_t k, json_t *item, json_t **data, bool *usable,
                       struct err *e)
{
    char label[LABEL_BYTES];
    struct json_at at = at_item(doc, k, label);
    if (!json_is_object(item))
        return json_err(&at, e, "no object (expected {\"incompleted\", \"prompt\", \"data\"})");
    const json_t *incompleted = json_object_get(item, "incompleted");
    if (!json_is_boolean(incompleted))
        return json_err(&at, e, "\"incompleted\" is %s (expected true or false)",
                        incompleted ? "no boolean" : "missing");
    *usable = !json_is_true(incompleted);
    if (!json_member(item, "prompt", JSON_STRING, &at, e))
        return false;
    *data = json_member(item, "data", JSON_OBJECT, &at, e);
    return *data != NULL;
}

/* Find the tree_index-th item that is not incomplete. All items are checked, so that a damaged file does not
 * pass for as long as nobody asks for its end. */
static bool find_item(struct place *p, int32_t tree_index, int64_t *n_usable, struct err *e)
{
    *n_usable = 0;
    json_t *item, *data = NULL;
    size_t k;
    json_array_foreach(p->doc->root, k, item)
    {
        bool usable = false;
        if (!check_item(p->doc, k, item, &data, &usable, e))
            return false;
        if (usable && (*n_usable)++ == tree_index) {
            p->data = data;
            p->item = k;
        }
    }
    const struct json_at at = {.doc = p->doc, .label = ""};
    return p->data ||
           json_err(&at, e, "no tree %d (expected an index below %lld, the number of complete items)",
                    tree_index, (long long)*n_usable);
}

struct trace *deft_reasoning(const struct json_doc *doc, const char *source, const struct trace_opts *o,
                             struct err *e)
{
    struct place p = {.doc = doc};
    int64_t n_items;
    struct reasoning *r = find_item(&p, o->tree_index, &n_items, e) ? read_template(&p, e) : NULL;
    if (!r)
        return NULL;
    char *remark = drop_empty(r);
    struct trace *tr = replay_reasoning(r, source, o, e);
    if (tr) {
        tr->n_items = n_items;
        free(tr->remark);
        tr->remark = xstrdup(remark ? remark : "");
    }
    free(remark);
    return tr;
}

bool deft_write_reasoning(FILE *f, const struct reasoning *const *item, int32_t n_items, const char *prompt)
{
    char *quoted = json_quote(prompt);
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
