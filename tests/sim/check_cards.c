/* check_cards.c - attention spread over cards: what each card plans, merged across cards, is the attention of the whole tree. */
#include "sim/cards.h"
#include "kernels/kernel.h"
#include "ref/lse.h"
#include "ref/oracle.h"
#include "verify/cases/random_cases.h"
#include "verify/compare/compare.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <math.h>

AUTO_FREE(placement, placement, placement_free)

static const int32_t card_counts[] = {2, 3, 4, 8};
enum { COUNTS = 4, CONTEXT_WAYS = N_PARALLEL - 1 };

/* Runs p's tree by the strategy where it applies, else by one that always does; O and LSE in double. */
static void run_plan(const struct problem *p, const char *strategy, double *o, double *lse)
{
    char why[WHY_MAX];
    struct strategy_use use = strategy_of(strategy), any = strategy_of("radix-attention");
    struct plan_env env = plan_env_default(p->heads);
    struct nform *nf = nform_new(p->tree);
    struct plan *plan = strategy_plan(&use, nf, &env, why);
    struct ledger counted = {0};
    struct output *out = output_new(p);
    struct err e = {0};
    if (!plan)
        plan = strategy_plan(&any, nf, &env, why);
    ck_assert_msg(kernels[0]->run(p, plan, out, &counted, &e), "%s", e.msg);
    dtype_to_double(p->heads.dtype, out->o, 0, o, out->n_rows * p->heads.d);
    for (int64_t r = 0; r < out->n_rows; r++)
        lse[r] = output_lse(out, r);
    output_free(out);
    plan_free(plan);
    nform_free(nf);
}

static void judge(const struct problem *p, const double *o, const double *lse, const char *what)
{
    struct output *out = output_new(p);
    struct oracle *orc = oracle_new(p);
    struct arithmetic a = {.accumulate = DT_F64, .partial_o = DT_F64, .merges = 64, .in_order = true};
    for (int64_t i = 0; i < out->n_rows * p->heads.d; i++)
        dtype_store(p->heads.dtype, out->o, i, o[i]);
    for (int64_t r = 0; r < out->n_rows; r++)
        output_set_lse(out, r, lse[r]);
    struct comparison c = compare_output(p, orc, out, &a);
    check_each(c.verdict != V_FAIL, "%s: %s", what, c.why);
    output_free(out);
    oracle_free(orc);
}

static struct problem *problem_of(const struct tree *t, struct heads heads, int32_t page)
{
    struct problem_spec s = {.heads = heads, .page_size = page, .scattered = true, .seed = 5};
    struct err e = {0};
    struct problem *p = problem_new(t, &s, &e);
    ck_assert_msg(p, "%s", e.msg);
    return p;
}

/* Small ones of the verifier's families. */
static struct tree *random_tree(int64_t i)
{
    struct tree *t;
    random_case(77, i, NULL, &t);
    for (; tree_tokens(t) > 3000 || t->n_queries > 64; i += 7) {
        tree_free(t);
        random_case(77, i, NULL, &t);
    }
    free(t->since);
    t->since = NULL;
    return t;
}

static const char *const planners[] = {"radix-attention", "deft-flatten", "pat", "fasttree", "cascade"};
enum { PLANNERS = sizeof planners / sizeof planners[0] };

static void check_context(const struct problem *p, enum parallel way, int32_t n, const char *strategy,
                          struct placement *x)
{
    const struct tree *t = p->tree;
    int64_t rows = (int64_t)t->n_queries * p->heads.h_q, d = p->heads.d;
    double *o = xcalloc((size_t)(rows * d), sizeof *o), *lse = xcalloc((size_t)rows, sizeof *lse),
           *part = xcalloc((size_t)(rows * d), sizeof *part), *weight = xcalloc((size_t)rows, sizeof *weight);
    int64_t *seen = xcalloc((size_t)t->n_queries, sizeof *seen),
            *all = xcalloc((size_t)t->n_queries, sizeof *all),
            *here = xcalloc((size_t)t->n_queries, sizeof *here);
    for (int64_t r = 0; r < rows; r++)
        lse[r] = -INFINITY;
    tree_contexts(t, all);
    placement_advance(x, t, p->page_off, p->page_table, p->page_size);
    for (int32_t c = 0; c < n; c++) {
        struct card_view v = placement_view(x, c, t, p->page_off, p->page_table, p->page_size, false);
        struct err e = {0};
        struct problem own = *p;
        check_each(tree_check(v.tree, &e), "%s", e.msg);
        own.tree = v.tree;
        own.page_off = v.page_off;
        own.page_table = v.page_table;
        run_plan(&own, strategy, part, weight);
        for (int64_t r = 0; r < rows; r++)
            lse_merge(o + r * d, &lse[r], part + r * d, weight[r], (int32_t)d);
        tree_contexts(v.tree, here);
        for (int32_t q = 0; q < t->n_queries; q++)
            seen[q] += here[q];
        card_view_clear(&v);
    }
    for (int32_t q = 0; q < t->n_queries; q++)
        check_each(seen[q] == all[q], "%s on %d cards: query %d sees %lld of %lld tokens", parallel_name[way],
                   n, q, (long long)seen[q], (long long)all[q]);
    judge(p, o, lse, parallel_name[way]);
    free(o);
    free(lse);
    free(part);
    free(weight);
    free(seen);
    free(all);
    free(here);
}

/* Each way, each number of cards: what the cards find, merged, is what the oracle finds. */
LOOP_TEST(parts_of_a_tree_merge_to_the_whole, 12)
{
    for (int64_t i = 0; i < fewer(1, 6); i++) {
        enum parallel way = PARALLEL_CONTEXT + _i % CONTEXT_WAYS;
        int32_t n = card_counts[_i / CONTEXT_WAYS], page = (int32_t[]){1, 16, 7}[i % 3];
        struct tree *t = random_tree(i * 13 + _i);
        struct problem *p = problem_of(t, (struct heads){4, 2, 16, DT_F64}, page);
        int64_t room = way == PARALLEL_REPLICATE ? p->n_pages : ceil_div(p->n_pages, n) + 1;
        AUTO(placement) x = placement_new(way, n, p->n_pages, room);
        check_context(p, way, n, planners[i % PLANNERS], x);
        problem_free(p);
        tree_free(t);
    }
}

/* Heads dealt out: each card runs the whole tree for its own. */
LOOP_TEST(heads_on_cards_are_the_whole, 8)
{
    struct heads all = _i < 4 ? (struct heads){24, 24, 16, DT_F64} : (struct heads){24, 4, 16, DT_F64};
    int32_t n = card_counts[_i % 4], d = all.d;
    struct heads_part h;
    struct err e = {0};
    if (_i == 5) { /* 4 KV heads on 3 cards */
        ck_assert(!cards_heads(&all, PARALLEL_TENSOR, n, 0, &h, &e));
        return;
    }
    struct tree *t = random_tree(_i);
    struct problem *p = problem_of(t, all, 16);
    int64_t slots = p->n_pages * p->page_size;
    double *o = xcalloc((size_t)t->n_queries * 24 * 16, sizeof *o),
           *lse = xcalloc((size_t)t->n_queries * 24, sizeof *lse);
    for (int32_t c = 0; c < n; c++) {
        ck_assert(cards_heads(&all, PARALLEL_TENSOR, n, c, &h, &e));
        int64_t rows = (int64_t)t->n_queries * h.n_q;
        double *q = xcalloc((size_t)(rows * d), sizeof *q),
               *k = xcalloc((size_t)(slots * h.n_kv * d), sizeof *k),
               *v = xcalloc((size_t)(slots * h.n_kv * d), sizeof *v),
               *part = xcalloc((size_t)(rows * d), sizeof *part),
               *weight = xcalloc((size_t)rows, sizeof *weight);
        size_t q_row = (size_t)(h.n_q * d) * sizeof *q, kv_row = (size_t)(h.n_kv * d) * sizeof *k;
        for (int64_t i = 0; i < t->n_queries; i++)
            memcpy(q + i * h.n_q * d, (double *)p->q + (i * all.h_q + h.q0) * d, q_row);
        for (int64_t i = 0; i < slots; i++) {
            memcpy(k + i * h.n_kv * d, (double *)p->k + (i * all.h_kv + h.kv0) * d, kv_row);
            memcpy(v + i * h.n_kv * d, (double *)p->v + (i * all.h_kv + h.kv0) * d, kv_row);
        }
        struct problem own = *p;
        own.heads = (struct heads){h.n_q, h.n_kv, d, DT_F64};
        own.q = q;
        own.k = k;
        own.v = v;
        run_plan(&own, planners[_i % PLANNERS], part, weight);
        for (int64_t i = 0; i < t->n_queries; i++) {
            memcpy(o + (i * all.h_q + h.q0) * d, part + i * h.n_q * d, q_row);
            memcpy(lse + i * all.h_q + h.q0, weight + i * h.n_q, (size_t)h.n_q * sizeof *lse);
        }
        free(q);
        free(k);
        free(v);
        free(part);
        free(weight);
    }
    judge(p, o, lse, "tensor");
    free(o);
    free(lse);
    problem_free(p);
    tree_free(t);
}

/* ---- which page goes where ------------------------------------------------------------------------------- */

/* A prompt of 64 pages, four branches of 16 pages each; pages of 10 tokens, numbered in order. */
static struct tree *fork_of(int64_t prompt, int64_t branch, int64_t **page_off, int32_t **page_table)
{
    struct tree *t =
        tree_of(5, (int32_t[]){-1, 0, 0, 0, 0}, (int64_t[]){prompt, branch, branch, branch, branch}, 0, NULL);
    *page_off = xcalloc(6, sizeof **page_off);
    for (int32_t i = 0; i < 5; i++)
        (*page_off)[i + 1] = (*page_off)[i] + ceil_div(t->len[i], 10);
    *page_table = xcalloc((size_t)(*page_off)[5], sizeof **page_table);
    for (int32_t i = 0; i < (*page_off)[5]; i++)
        (*page_table)[i] = i;
    return t;
}

static int64_t tokens_of(const struct placement *x, int32_t card, const struct tree *t, const int64_t *off,
                         const int32_t *table)
{
    struct card_view v = placement_view(x, card, t, off, table, 10, true);
    int64_t n = tree_tokens(v.tree);
    card_view_clear(&v);
    return n;
}

LOOP_TEST(shares_are_what_each_way_promises, CONTEXT_WAYS)
{
    enum parallel way = PARALLEL_CONTEXT + _i;
    /* tokens of both cards: half each; the prompt alone weighs as much as the branches; the prompt on both, two branches each */
    static const int64_t share[N_PARALLEL] = {
        [PARALLEL_CONTEXT] = 640, [PARALLEL_SUBTREE] = 640, [PARALLEL_REPLICATE] = 640 + 320};
    int64_t *off;
    int32_t *table;
    struct tree *t = fork_of(640, 160, &off, &table);
    AUTO(placement) x = placement_new(way, 2, 128, 128);
    placement_advance(x, t, off, table, 10);
    for (int32_t c = 0; c < 2; c++)
        ck_assert_int_eq(tokens_of(x, c, t, off, table), share[way]);
    tree_free(t);
    free(off);
    free(table);
}

/* What has been placed stays while the tree grows; what is gone is given back; room is never exceeded. */
LOOP_TEST(placed_pages_stay, CONTEXT_WAYS)
{
    enum parallel way = PARALLEL_CONTEXT + _i;
    enum { PAGES = 200, CARDS = 4 };
    int64_t *off, room = way == PARALLEL_REPLICATE ? PAGES : PAGES / CARDS + 1;
    int32_t *table, before[CARDS][PAGES];
    AUTO(placement) x = placement_new(way, CARDS, PAGES, room);
    for (int step = 0; step < 6; step++) {
        struct tree *t = fork_of(step < 4 ? 400 : 30, 95 + 10 * step, &off, &table);
        placement_advance(x, t, off, table, 10);
        for (int32_t c = 0; c < CARDS; c++) {
            ck_assert_int_le(placement_used(x, c), room);
            for (int32_t p = 0; p < off[5]; p++) {
                int32_t now = placement_local(x, c, p);
                check_each(step == 0 || step == 4 || p >= off[4] || before[c][p] == now || before[c][p] < 0,
                           "page %d moved", p);
                before[c][p] = now;
            }
        }
        int64_t used = 0;
        for (int32_t c = 0; c < CARDS; c++)
            used += placement_used(x, c);
        if (way != PARALLEL_REPLICATE)
            ck_assert_int_eq(used, off[5]);
        tree_free(t);
        free(off);
        free(table);
    }
}

TEST(a_moved_token_takes_its_page_along)
{
    int64_t *off;
    int32_t *table;
    struct tree *t = fork_of(100, 50, &off, &table);
    AUTO(placement) x = placement_new(PARALLEL_CONTEXT, 2, 64, 33);
    placement_advance(x, t, off, table, 10);
    int32_t last = (int32_t)off[5] - 1, card = placement_local(x, 0, last) >= 0 ? 0 : 1;
    placement_follow(x, last, 60);
    ck_assert_int_ge(placement_local(x, card, 60), 0);
    ck_assert_int_lt(placement_local(x, 1 - card, 60), 0);
    tree_free(t);
    free(off);
    free(table);
}
