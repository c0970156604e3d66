/* check_properties.c - every property on every strategy; errors planted in the kernel, for each property. */
#include "ref/rng.h"
#include "traces/formats/formats.h"
#include "verify/judge/properties.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TREES = 14, SEED = 5 };

static const struct property *find(const char *name)
{
    for (int32_t i = 0; i < n_properties; i++)
        if (strcmp(properties[i].name, name) == 0)
            return &properties[i];
    ck_abort_msg("no property %s", name);
}

/* A tree of the seeded families, of a size that leaves time for all properties of all strategies. */
static struct tree *tree_no(int32_t i)
{
    enum { TOKENS = 500, QUERIES = 40 };
    struct tree *t = gen_tree(gen_family(SEED, i), gen_seed(SEED, i));
    t->n_queries = (int32_t)min_i64(t->n_queries, QUERIES);
    while (tree_tokens(t) > TOKENS)
        for (int32_t n = 0; n < t->n_nodes; n++)
            t->len[n] -= t->len[n] / 4;
    for (int32_t q = 0; q < t->n_queries; q++)
        t->query[q].upto = min_i64(t->query[q].upto, t->len[t->query[q].node]);
    return t;
}

/* Heads, head size, type and fill change with i. */
static struct problem *problem_no(int32_t i, struct tree **t)
{
    static const int32_t heads[][2] = {{4, 2}, {1, 1}, {3, 3}, {6, 2}, {5, 1}};
    static const int32_t sizes[] = {32, 64, 16, 24, 40, 17}, pages[] = {16, 1, 32};
    const int32_t *h = heads[i % 5];
    struct problem_spec spec = {.heads = {h[0], h[1], sizes[i % 6], (enum dtype)(i % N_DTYPES)},
                                .page_size = pages[i % 3],
                                .scattered = true,
                                .poison = true,
                                .fill = i % 3 ? FILL_RANDOM : (enum fill)(i / 3 % N_FILLS),
                                .seed = (uint64_t)i};
    *t = tree_no(i);
    /* Each alone, and some together: a window, sinks, a soft cap, 8 bits, V of fewer elements, V in K's row. */
    if (i % 3 == 0) {
        spec.window = 1 + 7 * i;
        tree_set_window(*t, spec.window);
    }
    spec.sinks = i % 4 == 0 || i % 4 == 3;
    spec.soft_cap = i % 5 == 4 ? 6 : 0;
    if (i % 6 == 5)
        spec.heads.kv_fp8 = DT_E4M3;
    if (i % 7 == 2 || i % 7 == 6) {
        spec.heads.d_v = spec.heads.d - spec.heads.d / 3;
        spec.heads.v_apart = i % 7 == 2;
    }
    struct problem *p = problem_new(*t, &spec, NULL);
    ck_assert(p != NULL);
    return p;
}

TEST(every_property_holds)
{
    double start = now_s(), *worst = xcalloc((size_t)n_properties, sizeof *worst);
    int32_t n = n_properties * n_strategies, skipped = 0, *held = xcalloc((size_t)n, sizeof *held);
    struct result *r = xcalloc((size_t)n, sizeof *r);
    int32_t trees = (int32_t)fewer(3, N_TREES);
    for (int32_t i = 0; i < trees; i++) {
        struct tree *t;
        AUTO(problem) p = problem_no(i, &t);
#pragma omp parallel for schedule(dynamic, 1) /* small problems: a check a core */
        for (int32_t x = 0; x < n; x++) {
            struct property_case c = {.p = p,
                                      .use = strategy_default(strategies[x % n_strategies]),
                                      .kernel = kernels[0],
                                      .seed = (uint64_t)i};
            r[x] = property_check(&properties[x / n_strategies], &c);
        }
        for (int32_t x = 0; x < n; x++) {
            ck_assert_msg(r[x].verdict == V_PASS || r[x].verdict == V_SKIP, "tree %d, %s, %s: %s", i,
                          strategies[x % n_strategies]->name, properties[x / n_strategies].name, r[x].why);
            worst[x / n_strategies] = fmax(worst[x / n_strategies], r[x].cmp.worst);
            held[x] += r[x].verdict == V_PASS;
            skipped += r[x].verdict == V_SKIP;
        }
        tree_free(t);
    }
    printf("properties: %d trees, %d checks, %d skipped, %.1f s; largest difference in bounds:", trees,
           trees * n, skipped, now_s() - start);
    for (int32_t k = 0; k < n_properties; k++)
        printf(" %s %.3f", properties[k].name, worst[k]);
    printf("\n");
    fflush(stdout);
    for (int32_t x = 0; x < n && trees == N_TREES; x++)
        ck_assert_msg(held[x] >= 2, "%s was held on %d trees only for %s", properties[x / n_strategies].name,
                      held[x], strategies[x % n_strategies]->name);
    free(worst);
    free(held);
    free(r);
}

/* Both kernels, one tree, all properties. */
LOOP_TEST(on_every_kernel, 4)
{
    omp_set_num_threads(1); /* small problems; the test has a process of its own */
    struct tree *t;
    AUTO(problem) p = problem_no(_i, &t);
    for (int32_t k = 0; k < n_kernels; k++)
        for (int32_t s = 0; s < n_strategies && !kernels[k]->ready; s += 5)
            for (int32_t i = 0; i < n_properties; i++) {
                struct property_case c = {
                    .p = p, .use = strategy_default(strategies[s]), .kernel = kernels[k], .seed = 3};
                struct result r = property_check(&properties[i], &c);
                ck_assert_msg(r.verdict == V_PASS || r.verdict == V_SKIP, "%s, %s, %s: %s", kernels[k]->name,
                              strategies[s]->name, properties[i].name, r.why);
            }
    tree_free(t);
}

/* ---- planted errors ------------------------------------------------------------------------------------ */

static bool run(const struct problem *p, const struct plan *plan, struct output *out, struct err *e)
{
    struct ledger ledger = {0};
    return kernels[0]->run(p, plan, out, &ledger, e);
}

/* The first row that is not empty. */
static int64_t some_row(const struct output *out)
{
    int64_t row = 0;
    while (row < out->n_rows - 1 && output_lse(out, row) == -INFINITY)
        row++;
    return row;
}

static void scale_o(struct output *out, int64_t i, double by)
{
    dtype_store(out->dtype, out->o, i, by * dtype_load(out->dtype, out->o, i));
}

/* One element is what it was an hour ago. */
static bool run_stale(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                      struct err *e)
{
    (void)l;
    bool good = run(p, plan, out, e);
    dtype_store(out->dtype, out->o, some_row(out) * out->d, 64);
    return good;
}

/* O is divided by a sum that lacks 2 %. Linear still. */
static bool run_sum(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                    struct err *e)
{
    (void)l;
    bool good = run(p, plan, out, e);
    for (int64_t i = 0; i < out->n_rows * out->d; i++)
        scale_o(out, i, 1.02);
    return good;
}

/* Every run that is long enough lacks its last token. */
static bool run_short(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                      struct err *e)
{
    (void)l;
    AUTO(plan) bad = plan_copy(plan);
    for (int64_t i = 0; i < bad->n_groups; i++)
        for (int64_t r = bad->group[i].run0; r < bad->group[i].run1; r++)
            if (bad->run[r].end - bad->run[r].begin > 1) {
                bad->run[r].end--;
                bad->group[i].n_kv--;
            }
    bool good = run(p, bad, out, e);
    return good;
}

/* The first query answers with the LSE of the second. */
static bool run_mixed(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                      struct err *e)
{
    (void)l;
    bool good = run(p, plan, out, e);
    if (p->tree->n_queries > 1)
        for (int64_t h = 0; h < p->heads.h_q; h++)
            output_set_lse(out, h, output_lse(out, p->heads.h_q + h));
    return good;
}

static bool run_base_2(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                       struct err *e)
{
    (void)l;
    bool good = run(p, plan, out, e);
    for (int64_t row = 0; row < out->n_rows; row++)
        output_set_lse(out, row, output_lse(out, row) / log(2));
    return good;
}

/* Logits are 1 % too large. */
static bool run_scale(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                      struct err *e)
{
    (void)l;
    struct problem bad = *p;
    bad.scale *= 1.01;
    return run(&bad, plan, out, e);
}

/* The last query of the batch gets the row of the one before it. */
static bool run_last(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                     struct err *e)
{
    (void)l;
    bool good = run(p, plan, out, e);
    int64_t q = p->tree->n_queries - 1;
    for (int64_t row = q * p->heads.h_q; q > 0 && row < out->n_rows; row++)
        output_set_lse(out, row, output_lse(out, row - p->heads.h_q));
    return good;
}

static bool run_nan(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                    struct err *e)
{
    (void)l;
    bool good = run(p, plan, out, e);
    dtype_store(out->dtype, out->o, some_row(out) * out->d, NAN);
    return good;
}

static bool run_refuse(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                       struct err *e)
{
    (void)p, (void)plan, (void)out, (void)l;
    return err_set(e, "no kernel is as lazy as this");
}

/* What each must be caught by; most are caught by others as well. */
static const struct {
    const char *property;
    struct kernel kernel;
} planted[] = {
    {"linear", {.name = "stale", .run = run_stale}},  {"ones", {.name = "sum", .run = run_sum}},
    {"keys", {.name = "short", .run = run_short}},    {"batch", {.name = "mixed", .run = run_mixed}},
    {"cut", {.name = "short", .run = run_short}},     {"merge", {.name = "base-2", .run = run_base_2}},
    {"shift", {.name = "scale", .run = run_scale}},   {"twin", {.name = "last", .run = run_last}},
    {"ones", {.name = "nan", .run = run_nan}},        {"keys", {.name = "nan", .run = run_nan}},
    {"merge", {.name = "refuse", .run = run_refuse}},
};
enum { N_PLANTED = sizeof planted / sizeof planted[0] };

/* A prefix and branches of odd lengths, all queries different. */
static struct tree *planting_ground(void)
{
    static const int32_t parent[] = {-1, 0, 0, 1, 1, 2, 2};
    static const int64_t len[] = {90, 8, 5, 7, 3, 4, 9};
    struct tree *t = tree_new(7, 0);
    memcpy(t->parent, parent, sizeof parent);
    memcpy(t->len, len, sizeof len);
    tree_query_leaves(t);
    return t;
}

LOOP_TEST(planted_errors_are_found, N_PLANTED)
{
    omp_set_num_threads(1);
    AUTO(tree) t = planting_ground();
    for (int32_t type = 0; type < N_DTYPES; type++) {
        struct problem_spec spec = {.heads = {4, 2, 32, (enum dtype)type},
                                    .page_size = 16,
                                    .scattered = true,
                                    .poison = true,
                                    .seed = (uint64_t)type};
        AUTO(problem) p = problem_new(t, &spec, NULL);
        for (int32_t s = 0; s < n_strategies; s++) {
            struct property_case c = {.p = p, .use = strategy_default(strategies[s]), .seed = 1};
            c.kernel = kernels[0];
            const struct property *property = find(planted[_i].property);
            struct result sound = property_check(property, &c);
            ck_assert_msg(sound.verdict == V_PASS, "%s, %s: %s", strategies[s]->name, property->name,
                          sound.why);
            c.kernel = &planted[_i].kernel;
            struct result r = property_check(property, &c);
            ck_assert_msg(r.verdict == V_FAIL && r.cmp.worst > 1 && r.why[0],
                          "%s, %s %s: not found by %s (%.3g)", planted[_i].kernel.name, dtype_name[type],
                          strategies[s]->name, property->name, r.cmp.worst);
        }
    }
}

/* Nothing to hold: no queries, no tokens. */
TEST(nothing_at_all)
{
    AUTO(tree) t = tree_new(3, 0);
    t->parent[1] = t->parent[2] = 0;
    for (int32_t queries = 0; queries < 2; queries++) {
        if (queries)
            tree_query_leaves(t);
        struct problem_spec spec = {.heads = {2, 1, 16, DT_F32}, .page_size = 16};
        AUTO(problem) p = problem_new(t, &spec, NULL);
        for (int32_t i = 0; i < n_properties; i++) {
            struct property_case c = {.p = p, .use = strategy_default(strategies[1]), .kernel = kernels[0]};
            struct result r = property_check(&properties[i], &c);
            ck_assert_msg(r.verdict == V_PASS && r.cmp.worst == 0, "%s: %s", properties[i].name, r.why);
        }
    }
}

/* ---- the program ---------------------------------------------------------------------------------------- */

/* A broken law is a row of its own, and the smallest case breaks it again; the oracle alone sees nothing. */
TEST(verify_checks_laws)
{
    static char text[1 << 14], again[1 << 14];
    static const char *const args = "verify -q --kernel faulty-law --levels '1,3 40,9' --strategy pat,relay";
    if (!program_built())
        return;
    ck_assert_int_eq(run_shell(text, sizeof text, "%s %s", faulty_path(), args), 0);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s %s --properties", faulty_path(), args), 1);
    ck_assert_msg(strstr(text, "pat/faulty-law/f16/-\tFAIL\t") && strstr(text, "\tlaw ones: query "), "%s",
                  text);
    ck_assert_msg(strstr(text, "\nlaws: 14 held, 2 broken\n") &&
                      strstr(text, " 2 passed, 0 marginal, 2 failed"),
                  "%s", text);
    char *line = strstr(text, "smallest: ");
    ck_assert_msg(line && strstr(line, " verify --properties --case "), "%s", text);
    line += strlen("smallest: ");
    line[strcspn(line, "\n")] = 0;
    ck_assert_int_eq(run_shell(again, sizeof again, "%s", line), 1);
    ck_assert_msg(strstr(again, "\tlaw ones: query "), "%s", again);
    ck_assert_int_eq(run_shell(text, sizeof text,
                               "%s verify --properties --kernel cpu --levels '1,3 40,9' | tail -2",
                               program_path()),
                     0);
    ck_assert_msg(strstr(text, " held, 0 broken\n"), "%s", text);
}
