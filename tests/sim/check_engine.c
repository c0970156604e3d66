/*
 * check_engine.c - libtreeattn.so.1 as an engine uses it: tests/engine/replay, which knows nothing but the installed
 * header, goes through the embedded request trace by block tables alone, and its plans are those that `treeattn plan`
 * prints of the trace.
 */
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/trace.h"

#include <inttypes.h>

enum { PAGE = 16, BLOCK = 512 };

/* Pages by what is in them: the same part of the same piece is the same page at every step. */
struct page_ids {
    int64_t *name, *part; /* [cap] */
    int32_t *id, n, cap;
};

static int32_t page_id(struct page_ids *x, int64_t name, int64_t part)
{
    uint64_t at =
        ((uint64_t)name * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)part) * UINT64_C(0x9e3779b97f4a7c15);
    for (at >>= 40;; at++) {
        size_t i = at % (uint64_t)x->cap;
        if (x->id[i] == 0) {
            ck_assert_int_lt(x->n, x->cap / 2);
            x->name[i] = name;
            x->part[i] = part;
            x->id[i] = ++x->n;
        }
        if (x->name[i] == name && x->part[i] == part)
            return x->id[i] - 1;
    }
}

/* The pages of a node: whole blocks of a prompt by their names, and else by who asks there. */
static void write_node(FILE *f, struct page_ids *ids, const struct tree *t, const struct trace_parts *parts,
                       int32_t node, int64_t asker)
{
    int64_t begin = 0;
    for (int32_t k = parts->piece0[node]; k < parts->piece0[node + 1] && parts->piece[k].tokens == BLOCK;
         k++, begin += BLOCK)
        for (int64_t i = 0; i < BLOCK / PAGE; i++)
            fprintf(f, " %" PRId32, page_id(ids, parts->piece[k].name, i));
    ck_assert(begin == t->len[node] || asker >= 0);
    for (int64_t i = 0; begin < t->len[node]; begin += PAGE, i++)
        fprintf(f, " %" PRId32, page_id(ids, -1 - asker, i));
}

/* Requests in the order of the tree, depth first: a stack of nodes, children in reverse. */
static int32_t order_queries(const struct tree *t, int32_t *order)
{
    int32_t *stack = xcalloc((size_t)t->n_nodes, sizeof *stack), n = 0, top = 0;
    for (int32_t i = t->n_nodes - 1; i >= 0; i--)
        if (t->parent[i] < 0)
            stack[top++] = i;
    while (top > 0) {
        int32_t x = stack[--top];
        for (int32_t q = 0; q < t->n_queries; q++)
            if (t->query[q].node == x)
                order[n++] = q;
        for (int32_t i = t->n_nodes - 1; i > x; i--)
            if (t->parent[i] == x)
                stack[top++] = i;
    }
    free(stack);
    return n;
}

static void write_step(FILE *f, struct page_ids *ids, const struct trace *tr, int64_t step)
{
    struct trace_parts parts;
    struct tree *t = trace_step(tr, step, &parts);
    int32_t *order = xcalloc((size_t)t->n_queries, sizeof *order),
            *path = xcalloc((size_t)t->n_nodes, sizeof *path);
    ck_assert_int_eq(order_queries(t, order), t->n_queries);
    fprintf(f, "step %" PRId64 " %d\n", step, PAGE);
    for (int32_t i = 0; i < t->n_queries; i++) {
        int32_t q = order[i], depth = tree_path(t->parent, t->query[q].node, path);
        int64_t tokens = 0;
        for (int32_t k = 0; k < depth; k++)
            tokens += t->len[path[k]];
        fprintf(f, "%" PRId32 " %" PRId64, q, tokens);
        for (int32_t k = 0; k < depth; k++)
            write_node(f, ids, t, &parts, path[k], k == depth - 1 ? parts.query[q] : -1);
        fprintf(f, "\n");
    }
    fprintf(f, "\n");
    free(order);
    free(path);
    trace_parts_free(&parts);
    tree_free(t);
}

/* All steps as replay reads them; the caller frees the path. */
static char *write_steps(void)
{
    struct trace *tr = MUST(trace_open, "embedded:requests", &(struct trace_opts){0});
    struct page_ids ids = {.cap = 1 << 18};
    ids.name = xcalloc((size_t)ids.cap, sizeof *ids.name);
    ids.part = xcalloc((size_t)ids.cap, sizeof *ids.part);
    ids.id = xcalloc((size_t)ids.cap, sizeof *ids.id);
    char *path = scratch_file("", 0);
    FILE *f = fopen(path, "w");
    ck_assert(f);
    for (int64_t step = 1; step <= trace_steps(tr); step++)
        write_step(f, &ids, tr, step);
    ck_assert_int_eq(fclose(f), 0);
    free(ids.name);
    free(ids.part);
    free(ids.id);
    trace_close(tr);
    return path;
}

/* Without its heading and the names of launches, which a packed plan does not have. */
#define GROUPS "--csv | tail -n +2 | sed -E 's/^([^,]*,[^,]*,[^,]*),[^,]*/\\1/'"

TEST(an_engine_gets_the_plans_that_the_program_prints)
{
    static const char *const strategy[] = {"treeattn", "pat", "fasttree", "deft-flatten", "cascade"};
    static const int steps[] = {40, 97, 200};
    enum { SIZE = 1 << 20 };
    if (!program_built())
        return;
    char *in = write_steps(), *tree = scratch_file("", 0), *got = xmalloc(SIZE), *want = xmalloc(SIZE),
         *own = xmalloc(SIZE), q[4 * PATH_MAX + 3];
    char *folder = xstrdup(program_file());
    *strrchr(folder, '/') = 0;
    char *replay = xasprintf("%s/tests/engine/replay", folder);
    for (size_t s = 0; s < sizeof strategy / sizeof strategy[0]; s++)
        for (size_t i = 0; i < (getenv("TREEATTN_QUICK") ? 1 : sizeof steps / sizeof steps[0]); i++) {
            const char *asked = s == 0 && i > 0 ? "auto" : strategy[s];
            ck_assert_int_eq(run_shell(got, SIZE, "%s %s %d %s <%s 2>/dev/null", quote(replay, q), asked,
                                       steps[i], tree, in),
                             0);
            ck_assert_int_eq(run_shell(want, SIZE,
                                       "%s plan --trace embedded:requests --step %d --strategy %s " GROUPS,
                                       program_path(), steps[i], strategy[s]),
                             0);
            ck_assert_int_eq(run_shell(own, SIZE, "%s plan --tree-file %s --strategy %s " GROUPS,
                                       program_path(), tree, strategy[s]),
                             0);
            ck_assert_int_gt(strlen(want), 100);
            ck_assert_str_eq(got, want);
            ck_assert_str_eq(got, own);
        }
    ck_assert_int_eq(run_shell(got, SIZE, "%s auto 0 <%s 2>&1", quote(replay, q), in), 0);
    ck_assert_msg(strstr(got, "replay: 278 steps, "), "%s", got);
    free(in);
    free(tree);
    free(got);
    free(want);
    free(own);
    free(folder);
    free(replay);
}
