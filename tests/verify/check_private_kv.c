/*
 * check_private_kv.c - storage in which every query has a copy of its path: after every step each copy holds what its query
 * sees, nothing is copied that was there, and plans of the tree taken apart move the same bytes.
 */
#include "ref/problem.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"
#include "traces/pool.h"
#include "verify/replay/private_kv.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *spec;
    struct trace_opts opts;
    int64_t steps;  /* at most */
    int64_t copied; /* tokens, by hand; -1: not counted here */
} traces[] = {
    /* the prompt to each; after that every branch writes its own tokens */
    {"fewshot:20", {.prompt = 100, .max_seq = 140}, 39, 20 * 100},
    /* the prompt to each, and what is accepted */
    {"spec:32,3", {.prompt = 50, .max_seq = 120}, 100, -1},
    {"spec:32,3", {.prompt = 50, .max_seq = 120, .topology = true}, 100, -1},
    {"embedded:reasoning", {.prompt = 30, .max_seq = 900}, 900, -1},
    {"requests:24,2", {.batch = 8}, 60, -1},
};
enum { N_TRACES = sizeof traces / sizeof traces[0], PAGE = 16, SHARED_PAGES = 8192 };

static int64_t steps_of(const struct trace *tr, int i)
{
    bool counted = traces[i].copied >= 0; /* of all steps */
    return min_i64(trace_steps(tr), traces[i].steps / (counted ? 1 : fewer(4, 1)));
}

/* A token, by the piece that it is of. */
struct token {
    int64_t piece, index;
};

static bool same(struct token a, struct token b)
{
    return a.piece == b.piece && a.index == b.index;
}

/* Tokens of a node, one behind the other, to out. */
static int64_t put_node(const struct trace_parts *parts, int32_t node, int64_t n, struct token *out)
{
    int64_t at = 0;
    for (int32_t k = parts->piece0[node]; k < parts->piece0[node + 1]; k++)
        for (int64_t i = 0; i < parts->piece[k].tokens && at < n; i++)
            out[at++] = (struct token){parts->piece[k].name, i};
    return at;
}

static int64_t put_path(const struct tree *tree, const struct trace_parts *parts, int32_t node, int64_t upto,
                        struct token *out)
{
    int64_t above = tree->parent[node] < 0
                        ? 0
                        : put_path(tree, parts, tree->parent[node], tree->len[tree->parent[node]], out);
    return above + put_node(parts, node, upto, out + above);
}

struct walk {
    struct pool *pool;
    struct private_kv *copies;
    struct token *slot; /* what each holds */
    int64_t *page_off, off_cap, table_cap, slots, copied, kept;
    int32_t *page_table;
};

static void place_shared(struct walk *w, const struct tree *tree, const struct trace_parts *parts)
{
    struct problem p = {
        .tree = tree, .page_size = PAGE, .page_off = w->page_off, .page_table = w->page_table};
    for (int32_t i = 0; i < tree->n_nodes; i++) {
        FREED struct token *token = xcalloc((size_t)tree->len[i], sizeof *token);
        ck_assert_int_eq(put_node(parts, i, tree->len[i], token), tree->len[i]);
        for (int64_t j = 0; j < tree->len[i]; j++)
            w->slot[problem_slot(&p, i, j)] = token[j];
    }
}

static void carry_out(struct walk *w, const struct private_kv_step *copied)
{
    for (int64_t i = 0; i < copied->n; i++) {
        ck_assert_int_lt(copied->from[i], (int64_t)SHARED_PAGES * PAGE);
        ck_assert_int_ge(copied->to[i], (int64_t)SHARED_PAGES * PAGE);
        ck_assert_int_lt(copied->to[i], w->slots);
        w->kept += same(w->slot[copied->to[i]], w->slot[copied->from[i]]);
        w->slot[copied->to[i]] = w->slot[copied->from[i]];
    }
    w->copied += copied->n;
}

/* The step writes each query's own token; then every copy is its query's path. */
static void check_lanes(struct walk *w, const struct tree *tree, const struct trace_parts *parts,
                        const struct tree *apart)
{
    struct problem p = {
        .tree = apart, .page_size = PAGE, .page_off = w->page_off, .page_table = w->page_table};
    ck_assert_int_eq(apart->n_queries, tree->n_queries);
    for (int32_t q = 0; q < tree->n_queries; q++) {
        FREED struct token *path = xcalloc((size_t)apart->len[q], sizeof *path);
        ck_assert_int_eq(put_path(tree, parts, tree->query[q].node, tree->query[q].upto, path),
                         apart->len[q]);
        ck_assert(apart->query[q].node == q && apart->query[q].upto == apart->len[q]);
        w->slot[problem_slot(&p, q, apart->len[q] - 1)] = path[apart->len[q] - 1];
        for (int64_t j = 0; j < apart->len[q]; j++)
            ck_assert_msg(same(w->slot[problem_slot(&p, q, j)], path[j]), "query %d, token %lld", q,
                          (long long)j);
    }
}

static void step(struct walk *w, const struct trace *tr, int64_t t)
{
    struct trace_parts parts;
    struct pool_step moved;
    struct err e = {0};
    struct tree *tree = trace_step(tr, t, &parts), *apart = tree_apart(tree);
    ck_assert_msg(pool_advance(w->pool, tree, &parts, t, &moved, &e), "%s", e.msg);
    w->page_off =
        xgrow(w->page_off, &w->off_cap, max_i64(tree->n_nodes, apart->n_nodes) + 1, sizeof(int64_t));
    pool_table(w->pool, tree, &parts, w->page_off, &w->page_table, &w->table_cap);
    place_shared(w, tree, &parts);
    struct private_kv_step copied = private_kv_advance(w->copies, tree, &parts, w->page_off, w->page_table);
    carry_out(w, &copied);
    private_kv_table(w->copies, apart, w->page_off, &w->page_table, &w->table_cap);
    check_lanes(w, tree, &parts, apart);
    tree_free(tree);
    tree_free(apart);
    trace_parts_free(&parts);
}

LOOP_TEST(private_kv_hold_the_paths, N_TRACES)
{
    struct err e = {0};
    AUTO(trace) tr = trace_open(traces[_i].spec, &traces[_i].opts, &e);
    ck_assert_msg(tr != NULL, "%s", e.msg);
    struct private_kv_spec spec = {.page_size = PAGE, .first_page = SHARED_PAGES};
    int64_t queries = 0;
    for (int64_t t = 1; t <= steps_of(tr, _i); t++) {
        AUTO(tree) tree = trace_tree(tr, t);
        private_kv_fit(&spec, tree);
        queries += tree->n_queries;
    }
    struct walk w = {.pool = pool_new(PAGE, SHARED_PAGES), .copies = private_kv_new(&spec)};
    w.slots = (SHARED_PAGES + spec.lanes * spec.pages) * PAGE;
    w.slot = xcalloc((size_t)w.slots, sizeof *w.slot);
    for (int64_t i = 0; i < w.slots; i++)
        w.slot[i].piece = -1;
    for (int64_t t = 1; t <= steps_of(tr, _i); t++)
        step(&w, tr, t);
    ck_assert_int_gt(w.copied, 0);
    ck_assert_int_eq(w.kept, 0); /* nothing that was there */
    ck_assert(traces[_i].copied < 0 || w.copied == traces[_i].copied);
    ck_assert_int_eq(pool_drain(w.pool), 0);
    pool_free(w.pool);
    private_kv_free(w.copies);
    free(w.slot);
    free(w.page_off);
    free(w.page_table);
}

LOOP_TEST(plans_of_copies_move_the_same_bytes, N_TRACES)
{
    static const char *const names[] = {"flash-decoding", "naive"};
    struct plan_env env = plan_env_default((struct heads){32, 8, 128, DT_F16});
    struct err e = {0};
    AUTO(trace) tr = trace_open(traces[_i].spec, &traces[_i].opts, &e);
    ck_assert_msg(tr != NULL, "%s", e.msg);
    for (int64_t t = 1; t <= steps_of(tr, _i); t += 7)
        for (int k = 0; k < 2; k++) {
            struct tree *tree[2] = {trace_tree(tr, t)};
            struct ledger ledger[2];
            struct strategy_use use;
            ck_assert(strategy_parse(names[k], &use, &e));
            tree[1] = tree_apart(tree[0]);
            for (int i = 0; i < 2; i++) {
                char why[WHY_MAX];
                AUTO(nform) nf = nform_new(tree[i]);
                AUTO(plan) p = strategy_plan(&use, nf, &env, why);
                ck_assert_int_eq(p->storage, STORAGE_REPLICATED);
                ledger[i] = ledger_of_plan(p, &env.heads);
            }
            ck_assert_mem_eq(&ledger[0], &ledger[1], sizeof ledger[0]);
            tree_free(tree[0]);
            tree_free(tree[1]);
        }
}
