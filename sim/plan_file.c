#include "sim/plan_file.h"
#include "ref/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 28, MAX_SLOTS = 1 << 28 };

/* What is read, and where in the file: "groups[3].runs[1]". */
struct reader {
    struct plan_file *x;
    char at[80];
    struct err *e;
    int32_t *query; /* [n_queries] of the tree -> of the normal form */
    int32_t *piece; /* [n_nodes + 1] the first piece of a node */
};

/* ---- members of objects -------------------------------------------------------------------------------- */

static bool wrong(struct reader *r, const char *what, const char *expected)
{
    return err_set(r->e, "%s: %s%s%s (expected %s)", r->x->path, r->at, r->at[0] ? "." : "", what, expected);
}

static bool get_int(struct reader *r, const json_t *j, const char *key, int64_t least, int64_t most, int64_t *out)
{
    if (json_is_integer(j) && json_integer_value(j) >= least && json_integer_value(j) <= most) {
        *out = json_integer_value(j);
        return true;
    }
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, least, most);
    return wrong(r, key, expected);
}

static bool member_int(struct reader *r, const json_t *object, const char *key, int64_t least, int64_t most, int64_t *out)
{
    return get_int(r, json_object_get(object, key), key, least, most, out);
}

static const json_t *member_list(struct reader *r, const json_t *object, const char *key)
{
    const json_t *j = json_object_get(object, key);
    if (!json_is_array(j))
        wrong(r, key, "a list");
    return json_is_array(j) ? j : NULL;
}

static bool member_word(struct reader *r, const json_t *object, const char *key, const char *const *word, int n, int *out)
{
    const char *s = json_string_value(json_object_get(object, key));
    char expected[200] = "";
    for (int i = 0; i < n; i++) {
        if (s && strcmp(s, word[i]) == 0) {
            *out = i;
            return true;
        }
        listing_add(expected, sizeof expected, word[i]);
    }
    return wrong(r, key, expected);
}

/* ---- the tree ------------------------------------------------------------------------------------------ */

static bool read_tree(struct reader *r, const json_t *root)
{
    struct plan_file *x = r->x;
    const json_t *tree = json_object_get(root, "tree");
    snprintf(r->at, sizeof r->at, "tree");
    const json_t *nodes = member_list(r, tree, "nodes"), *queries = nodes ? member_list(r, tree, "queries") : NULL;
    if (!queries)
        return false;
    if (json_array_size(nodes) < 1 || json_array_size(nodes) > TREE_MAX_NODES || json_array_size(queries) > TREE_MAX_QUERIES)
        return wrong(r, "nodes", "1 node and more");
    x->tree = tree_new((int32_t)json_array_size(nodes), (int32_t)json_array_size(queries));
    for (int32_t i = 0; i < x->tree->n_nodes; i++) {
        int64_t parent = 0, len = 0;
        const json_t *j = json_array_get(nodes, (size_t)i);
        snprintf(r->at, sizeof r->at, "tree.nodes[%" PRId32 "]", i);
        if (!member_int(r, j, "parent", -1, i - 1, &parent) || !member_int(r, j, "len", 0, TREE_MAX_TOKENS, &len))
            return false;
        x->tree->parent[i] = (int32_t)parent;
        x->tree->len[i] = len;
    }
    for (int32_t q = 0; q < x->tree->n_queries; q++) {
        int64_t node = 0, upto = 0;
        const json_t *j = json_array_get(queries, (size_t)q);
        snprintf(r->at, sizeof r->at, "tree.queries[%" PRId32 "]", q);
        if (!member_int(r, j, "node", 0, x->tree->n_nodes - 1, &node) ||
            !member_int(r, j, "upto", 0, x->tree->len[node], &upto))
            return false;
        x->tree->query[q] = (struct query){.node = (int32_t)node, .upto = upto};
    }
    struct err own = {0};
    if (!tree_check(x->tree, &own))
        return err_set(r->e, "%s: tree: %.300s", x->path, own.msg);
    x->nf = nform_new(x->tree);
    r->query = xcalloc((size_t)x->nf->n_queries, sizeof *r->query);
    for (int32_t i = 0; i < x->nf->n_queries; i++)
        r->query[x->nf->orig[i]] = i;
    r->piece = xcalloc((size_t)x->tree->n_nodes + 1, sizeof *r->piece);
    for (int32_t i = 0, node = 0; node <= x->tree->n_nodes; node++) { /* pieces of a node stand in a row, in node order */
        while (i < x->nf->n_nodes && x->nf->src[i] < node)
            i++;
        r->piece[node] = i;
    }
    return true;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

static bool read_queries(struct reader *r, const json_t *group, struct group *g)
{
    struct plan *p = r->x->plan;
    const json_t *list = member_list(r, group, "queries");
    if (!list)
        return false;
    if (json_array_size(list) == 0)
        return wrong(r, "queries", "one query and more");
    g->qr0 = p->n_qr;
    g->nq = (int32_t)json_array_size(list);
    for (size_t k = 0; k < json_array_size(list); k++) {
        int64_t q = 0;
        if (!get_int(r, json_array_get(list, k), "queries", 0, r->x->tree->n_queries - 1, &q))
            return false;
        int32_t i = r->query[q];
        if (p->n_qr > g->qr0 && p->qr[p->n_qr - 1].end == i) {
            p->qr[p->n_qr - 1].end++;
            continue;
        }
        p->qr = xgrow(p->qr, &p->cap_qr, p->n_qr + 1, sizeof *p->qr);
        p->qr[p->n_qr++] = (struct qrange){i, i + 1};
    }
    g->qr1 = p->n_qr;
    return true;
}

/* A run of a node of the tree is one in each piece that it touches; *from gets which run of the file each came from. */
static bool read_runs(struct reader *r, const json_t *list, int64_t number, struct group *g, int64_t **from, int64_t *cap)
{
    struct plan *p = r->x->plan;
    const struct nform *nf = r->x->nf;
    g->run0 = p->n_runs;
    for (size_t k = 0; k < json_array_size(list); k++) {
        int64_t node = 0, begin = 0, end = 0;
        const json_t *j = json_array_get(list, k);
        snprintf(r->at, sizeof r->at, "groups[%" PRId64 "].runs[%zu]", number, k);
        if (!member_int(r, j, "node", 0, r->x->tree->n_nodes - 1, &node) ||
            !member_int(r, j, "end", 1, r->x->tree->len[node], &end) || !member_int(r, j, "begin", 0, end - 1, &begin))
            return false;
        for (int32_t i = r->piece[node]; i < r->piece[node + 1]; i++) {
            int64_t b = max_i64(begin, nf->off[i]), n = min_i64(end, nf->off[i] + nf->len[i]);
            if (b >= n)
                continue;
            p->run = xgrow(p->run, &p->cap_run, p->n_runs + 1, sizeof *p->run);
            *from = xgrow(*from, cap, p->n_runs - g->run0 + 1, sizeof **from);
            (*from)[p->n_runs - g->run0] = (int64_t)k;
            p->run[p->n_runs++] = (struct run){.node = i, .begin = b - nf->off[i], .end = n - nf->off[i]};
            g->n_kv += n - b;
        }
    }
    g->run1 = p->n_runs;
    return true;
}

static bool read_visible(struct reader *r, const json_t *group, size_t n_runs, const int64_t *from, struct group *g)
{
    struct plan *p = r->x->plan;
    const json_t *rows = json_object_get(group, "visible");
    if (g->mask == MASK_NONE)
        return json_is_null(rows) || !rows || wrong(r, "visible", "null where the mask is none");
    if (!json_is_array(rows) || json_array_size(rows) != (size_t)g->nq)
        return wrong(r, "visible", "a list for each query, of 0 and 1 for each run");
    int64_t nr = g->run1 - g->run0;
    g->mask0 = p->n_mask;
    p->mask = xgrow(p->mask, &p->cap_mask, p->n_mask + g->nq * nr, sizeof *p->mask);
    for (int32_t k = 0; k < g->nq; k++) {
        const json_t *row = json_array_get(rows, (size_t)k);
        if (!json_is_array(row) || json_array_size(row) != n_runs)
            return wrong(r, "visible", "a list for each query, of 0 and 1 for each run");
        for (int64_t i = 0; i < nr; i++) {
            int64_t bit = 0;
            if (!get_int(r, json_array_get(row, (size_t)from[i]), "visible", 0, 1, &bit))
                return false;
            p->mask[p->n_mask++] = (uint8_t)bit;
        }
    }
    return true;
}

/* Null: rows go to the output. Else one for each query, one behind the other. */
static bool read_slots(struct reader *r, const json_t *group, struct group *g)
{
    const json_t *slots = json_object_get(group, "slots");
    g->slot0 = PLAN_NO_SLOT;
    if (json_is_null(slots) || !slots)
        return true;
    if (!json_is_array(slots) || json_array_size(slots) != (size_t)g->nq)
        return wrong(r, "slots", "null, or a slot for each query");
    for (size_t k = 0; k < json_array_size(slots); k++) {
        int64_t slot = 0;
        if (!get_int(r, json_array_get(slots, k), "slots", 0, r->x->plan->n_slots - 1, &slot))
            return false;
        g->slot0 = k == 0 ? slot : g->slot0;
        if (slot != g->slot0 + (int64_t)k)
            return wrong(r, "slots", "numbers that ascend by one");
    }
    return true;
}

static bool read_group(struct reader *r, const json_t *j, int64_t number)
{
    struct plan *p = r->x->plan;
    struct group g = {0};
    int64_t launch = 0, m = 0, n = 0, *from = NULL, cap = 0;
    int mask = 0;
    snprintf(r->at, sizeof r->at, "groups[%" PRId64 "]", number);
    const json_t *tile = member_list(r, j, "tile"), *runs = tile ? member_list(r, j, "runs") : NULL;
    if (!runs)
        return false;
    bool good = (json_array_size(tile) == 2 || wrong(r, "tile", "rows and tokens")) &&
                get_int(r, json_array_get(tile, 0), "tile", 0, 1 << 20, &m) &&
                get_int(r, json_array_get(tile, 1), "tile", 0, 1 << 20, &n) &&
                member_int(r, j, "launch", 0, p->n_launches - 1, &launch) &&
                member_word(r, j, "mask", mask_name, N_MASK_KINDS, &mask) && read_queries(r, j, &g) &&
                read_runs(r, runs, number, &g, &from, &cap);
    g.mask = (enum mask_kind)mask;
    g.tile_m = (int32_t)m;
    g.tile_n = (int32_t)n;
    g.launch = (int32_t)launch;
    snprintf(r->at, sizeof r->at, "groups[%" PRId64 "]", number);
    good = good && read_visible(r, j, json_array_size(runs), from, &g) && read_slots(r, j, &g);
    free(from);
    if (!good)
        return false;
    p->group = xgrow(p->group, &p->cap_group, p->n_groups + 1, sizeof *p->group);
    p->group[p->n_groups++] = g;
    return true;
}

/* ---- merges, and the rest ------------------------------------------------------------------------------ */

/* A slot, or null. */
static bool read_slot(struct reader *r, const json_t *object, const char *key, int64_t *out)
{
    const json_t *j = json_object_get(object, key);
    *out = PLAN_NO_SLOT;
    return json_is_null(j) || !j || get_int(r, j, key, 0, r->x->plan->n_slots - 1, out);
}

static bool read_merge(struct reader *r, const json_t *j, int64_t number)
{
    struct plan *p = r->x->plan;
    struct merge_step m = {.in0 = p->n_merge_in};
    int64_t launch = 0, query = 0;
    snprintf(r->at, sizeof r->at, "merges[%" PRId64 "]", number);
    const json_t *inputs = member_list(r, j, "inputs");
    if (!inputs || !member_int(r, j, "launch", 0, p->n_launches - 1, &launch) ||
        !member_int(r, j, "query", 0, r->x->tree->n_queries - 1, &query) || !read_slot(r, j, "on_chip", &m.onchip) ||
        !read_slot(r, j, "slot", &m.out))
        return false;
    for (size_t k = 0; k < json_array_size(inputs); k++) {
        int64_t slot = 0;
        if (!get_int(r, json_array_get(inputs, k), "inputs", 0, p->n_slots - 1, &slot))
            return false;
        p->merge_in = xgrow(p->merge_in, &p->cap_merge_in, p->n_merge_in + 1, sizeof *p->merge_in);
        p->merge_in[p->n_merge_in++] = slot;
    }
    m.in1 = p->n_merge_in;
    m.launch = (int32_t)launch;
    m.query = r->query[query];
    p->merge = xgrow(p->merge, &p->cap_merge, p->n_merges + 1, sizeof *p->merge);
    p->merge[p->n_merges++] = m;
    return true;
}

static bool read_launches(struct reader *r, const json_t *root)
{
    struct plan_file *x = r->x;
    const json_t *list = member_list(r, root, "launches");
    if (!list)
        return false;
    x->launch_name = xcalloc(json_array_size(list) + 1, sizeof *x->launch_name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(j, "name"));
        int order = 0;
        snprintf(r->at, sizeof r->at, "launches[%zu]", i);
        if (!member_word(r, j, "order", launch_order_name, N_LAUNCH_ORDERS, &order))
            return false;
        x->launch_name[i] = xstrdup(name ? name : "attention");
        plan_launch(x->plan, x->launch_name[i], (enum launch_order)order);
    }
    r->at[0] = 0;
    return true;
}

static bool read_head(struct reader *r, const json_t *root)
{
    struct plan_file *x = r->x;
    const char *format = json_string_value(json_object_get(root, "format")),
               *strategy = json_string_value(json_object_get(root, "strategy")),
               *params = json_string_value(json_object_get(root, "parameters")),
               *note = json_string_value(json_object_get(root, "note"));
    const json_t *partials = json_object_get(root, "partials");
    int64_t version = 0;
    int storage = 0, o = 0, weight = 0;
    if (!format || strcmp(format, "treeattn-plan") != 0)
        return wrong(r, "format", "treeattn-plan, as treeattn plan --json writes it");
    if (!member_int(r, root, "version", PLAN_JSON_VERSION, PLAN_JSON_VERSION, &version) || !read_tree(r, root))
        return false;
    x->name = xasprintf("file:%.60s", strategy && strategy[0] ? strategy : "plan");
    for (char *c = x->name; *c; c++) /* it is part of rows and case strings */
        if (strchr(" ;/\t\n\r,", *c) || (unsigned char)*c < ' ')
            *c = '_';
    x->plan = plan_new(x->nf, x->name);
    free(x->plan->params);
    free(x->plan->note);
    x->plan->params = xstrdup(params ? params : "");
    x->plan->note = xstrdup(note ? note : "");
    r->at[0] = 0;
    if (!member_word(r, root, "storage", storage_name, N_STORAGES, &storage))
        return false;
    snprintf(r->at, sizeof r->at, "partials");
    if (!member_int(r, partials, "slots", 0, MAX_SLOTS, &x->plan->n_slots) ||
        !member_word(r, partials, "o", slot_o_name, N_SLOT_OS, &o) ||
        !member_word(r, partials, "weight", slot_weight_name, N_SLOT_WEIGHTS, &weight))
        return false;
    r->at[0] = 0;
    x->plan->storage = (enum storage)storage;
    x->plan->slot_o = (enum slot_o)o;
    x->plan->slot_weight = (enum slot_weight)weight;
    x->plan->unfused = json_is_true(json_object_get(root, "unfused"));
    return true;
}

static bool read_all(struct reader *r, const json_t *root)
{
    const json_t *groups, *merges;
    if (!read_head(r, root) || !read_launches(r, root) || !(groups = member_list(r, root, "groups")) ||
        !(merges = member_list(r, root, "merges")))
        return false;
    for (size_t i = 0; i < json_array_size(groups); i++)
        if (!read_group(r, json_array_get(groups, i), (int64_t)i))
            return false;
    for (size_t i = 0; i < json_array_size(merges); i++)
        if (!read_merge(r, json_array_get(merges, i), (int64_t)i))
            return false;
    return true;
}

/* ---- as a strategy ------------------------------------------------------------------------------------- */

static bool of_that_tree(const struct nform *nf, const struct plan_env *env, const struct strategy *s, const double *opt,
                         char *why)
{
    (void)env;
    (void)opt;
    const struct plan_file *x = s->config;
    bool same = nf->n_nodes == x->nf->n_nodes && nf->n_queries == x->nf->n_queries && !nf->since;
    for (int32_t i = 0; i < nf->n_nodes && same; i++)
        same = nf->parent[i] == x->nf->parent[i] && nf->len[i] == x->nf->len[i];
    for (int32_t q = 0; q < nf->n_queries && same; q++)
        same = nf->at[q] == x->nf->at[q];
    return same || why_not(why, "the plan of the file is of another tree");
}

static struct plan *plan_there(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                               const double *opt)
{
    (void)env;
    (void)opt;
    struct plan *p = plan_copy(((const struct plan_file *)s->config)->plan);
    p->nf = nf;
    return p;
}

struct plan_file *plan_file_parse(const char *text, size_t size, const char *path, struct err *e)
{
    json_error_t why;
    struct reader r = {.x = xcalloc(1, sizeof *r.x), .e = e};
    r.x->path = xstrdup(path);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    bool good = root ? read_all(&r, root)
                     : err_set(e, "%s:%d: %.200s (expected a plan, as treeattn plan --json writes it)", path, why.line, why.text);
    json_decref(root);
    free(r.query);
    free(r.piece);
    if (!good) {
        plan_file_free(r.x);
        return NULL;
    }
    r.x->strategy = (struct strategy){.name = r.x->name,
                                      .source = "a file",
                                      .about = "the plan of a file",
                                      .superlinear = true, /* whoever made it */
                                      .config = r.x,
                                      .applicable = of_that_tree,
                                      .plan = plan_there};
    return r.x;
}

struct plan_file *plan_file_read(const char *path, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, MAX_BYTES, &size, e);
    struct plan_file *x = text ? plan_file_parse(text, size, path, e) : NULL;
    free(text);
    return x;
}

void plan_file_free(struct plan_file *x)
{
    if (!x)
        return;
    for (int32_t i = 0; x->launch_name && x->launch_name[i]; i++)
        free(x->launch_name[i]);
    free(x->launch_name);
    plan_free(x->plan);
    nform_free(x->nf);
    tree_free(x->tree);
    free(x->path);
    free(x->name);
    free(x);
}
