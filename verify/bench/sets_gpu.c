/* sets_gpu.c - the trees and head counts that a bench is of: sets of the papers, and lists in files. */
#include "ref/csv.h"
#include "traces/paper_sets.h"
#include "verify/bench/bench_gpu.h"
#include "verify/io/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sets {
    struct gpu_config *at;
    int32_t n;
    int64_t cap;
};

/* Takes what the source owns. */
static void add(struct sets *x, const char *set, int32_t number, struct tree_source src, const struct problem_spec *spec)
{
    x->at = xgrow(x->at, &x->cap, x->n + 1, sizeof *x->at);
    struct gpu_config *c = &x->at[x->n++];
    *c = (struct gpu_config){.number = number, .src = src, .spec = *spec};
    snprintf(c->set, sizeof c->set, "%s", set);
}

static bool add_papers(struct sets *x, const char *name, const struct problem_spec *spec, bool heads, struct err *e)
{
    int32_t n;
    struct paper_case *c = paper_sets(name, &spec->heads, heads, &n, e);
    for (int32_t i = 0; i < n; i++) {
        struct problem_spec own = *spec;
        own.heads = c[i].heads;
        add(x, c[i].set, c[i].tree->number, (struct tree_source){.kind = SRC_LEVELS, .text = xstrdup(c[i].tree->levels)},
            &own);
    }
    free(c);
    return c != NULL;
}

/* Have the configurations from `first` on this one? */
static bool is_there(const struct sets *x, int32_t first, const struct gpu_config *c)
{
    char *tree = tree_source_print(&c->src);
    bool there = false;
    for (int32_t i = first; i < x->n && !there; i++) {
        const struct gpu_config *o = &x->at[i];
        if (o->number != c->number || o->spec.heads.h_q != c->spec.heads.h_q || o->spec.heads.h_kv != c->spec.heads.h_kv ||
            strcmp(o->set, c->set) != 0)
            continue;
        char *other = tree_source_print(&o->src);
        there = strcmp(tree, other) == 0;
        free(other);
    }
    free(tree);
    return there;
}

/* Row i of a list; false with *e set if it is none. */
static bool add_row(struct sets *x, int32_t first, const struct csv *list, int64_t i, const struct problem_spec *spec,
                    bool heads, struct err *e)
{
    struct err why = {0};
    struct gpu_config c = {.spec = *spec};
    const char *set = csv_text(list, i, "set");
    int64_t number = 0;
    snprintf(c.set, sizeof c.set, "%s", *set ? set : "-");
    if (*csv_text(list, i, "number") && !csv_i64(list, i, csv_find(list, "number"), 0, INT32_MAX, &number, e))
        return false;
    c.number = (int32_t)number;
    if (!tree_source_parse(csv_text(list, i, "tree"), &c.src, &why) ||
        (!heads && !text_heads(csv_text(list, i, "heads"), &c.spec.heads.h_q, &c.spec.heads.h_kv, &why))) {
        tree_source_clear(&c.src);
        return csv_error(e, list->name, list->line[i], "%s", why.msg);
    }
    if (is_there(x, first, &c))
        tree_source_clear(&c.src);
    else
        add(x, c.set, c.number, c.src, &c.spec);
    return true;
}

/* A table with columns tree and heads, perhaps set and number: one that a bench wrote, too, with its many rows of a tree. */
static bool add_list(struct sets *x, const char *path, const struct problem_spec *spec, bool heads, struct err *e)
{
    struct csv list = {0};
    int32_t first = x->n;
    bool good = csv_read(path, &list, e) && csv_column(&list, "tree", e) >= 0 && csv_column(&list, "heads", e) >= 0;
    for (int64_t i = 0; i < list.n_rows && good; i++)
        if (strcmp(csv_text(&list, i, "tree"), "tree") != 0) /* a heading, where files were joined */
            good = add_row(x, first, &list, i, spec, heads, e);
    csv_clear(&list);
    return good;
}

bool gpu_sets(const char *names, const struct problem_spec *spec, bool heads, struct gpu_config **out, int32_t *n,
              struct err *e)
{
    char *copy = xstrdup(names), *rest = copy;
    struct sets x = {0};
    bool good = true;
    for (char *name; good && (name = strsep(&rest, ","));) {
        size_t size = strlen(name);
        bool is_file = size > 4 && strcmp(name + size - 4, ".csv") == 0;
        good = (is_file ? add_list : add_papers)(&x, name, spec, heads, e);
    }
    free(copy);
    for (int32_t i = 0; i < x.n && !good; i++)
        tree_source_clear(&x.at[i].src);
    if (!good) {
        free(x.at);
        x = (struct sets){0};
    }
    *out = x.at;
    *n = x.n;
    return good;
}
