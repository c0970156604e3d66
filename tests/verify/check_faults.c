/*
 * check_faults.c - the self-test of the verifier: every kind of fault has a place, every planted one is
 * caught, and nothing sound raises an alarm.
 */
#include "tests/shared.h"
#include "tests/suites.h"
#include "verify/faults/kinds.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct strategy_use *all_uses(void)
{
    struct strategy_use *uses = xcalloc((size_t)n_strategies, sizeof *uses);
    for (int32_t i = 0; i < n_strategies; i++)
        uses[i] = strategy_default(strategies[i]);
    return uses;
}

/* The self-test of the first n strategies with one seed; the first remarks are what a reader wants to see. */
static void run_seed(const struct kernel *kernel, uint64_t seed, int32_t n)
{
    struct strategy_use *uses = all_uses();
    struct fault_report *r = faults_run(uses, n, kernel, seed, NULL, NULL);
    struct fault_tally all = fault_sum(r, -1, -1);
    for (int64_t i = 0; i < r->n_remarks && i < 5; i++)
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, r->remark[i]);
    ck_assert_int_eq(r->alarms, 0);
    ck_assert_int_ge(r->cases, 2 * n);
    ck_assert_int_eq(all.caught, all.planted);
    ck_assert_int_eq(all.numbers, all.run);
    for (int32_t i = 0; i < n_faults;
         i++) /* O in half precision cannot be off by as little as o_off_figure wants */
        ck_assert_msg(n < n_strategies || fault_sum(r, i, -1).planted > 0 ||
                          (kernel->ready && strcmp(faults[i].name, "o_off_figure") == 0),
                      "%s has no place in any strategy", faults[i].name);
    for (int32_t u = 0; u < n; u++)
        ck_assert_msg(fault_sum(r, -1, u).planted >= 2 * 40, "%s: hardly any fault was planted",
                      strategies[u]->name);
    fault_report_free(r);
    free(uses);
}

/* `make check-verify` runs `treeattn selftest`, which is the same of another seed. */
TEST(every_fault_is_caught)
{
    if (!in_a_hurry())
        run_seed(kernel_find("cpu"), 1, n_strategies);
}

/* The same where a matrix unit's kernel is judged: f16 and bf16, and the bound of narrow probabilities. */
LOOP_TEST(every_fault_is_caught_on_a_device, (int)fewer(1, 2))
{
    struct kernel device = *kernel_find("cpu");
    device.on_gpu = true;
    device.narrow_p = true;
    run_seed(&device, _i == 0 ? 1 : 20240229, (int32_t)fewer(5, n_strategies));
}

TEST(registry)
{
    int64_t by_where[N_FAULT_WHERES] = {0};
    ck_assert_int_ge(n_faults, 24);
    for (int32_t i = 0; i < n_faults; i++) {
        by_where[faults[i].where]++;
        ck_assert(faults[i].about[0] != 0);
        for (int32_t k = 0; k < i; k++)
            ck_assert_str_ne(faults[i].name, faults[k].name);
    }
    for (int i = 0; i < N_FAULT_WHERES; i++)
        ck_assert_msg(by_where[i] > 0, "no fault in the %s", fault_where_name[i]);
}

/* ---- controls: what is no fault must not be caught --------------------------------------------------- */

static bool plant_copies(const struct fault_case *fc, struct broken *b)
{
    fault_edit_plan(fc, b);
    fault_edit_problem(fc, b);
    return true;
}

static bool plant_nothing_fits(const struct fault_case *fc, struct broken *b)
{
    (void)fc, (void)b;
    return false;
}

static void with_case(void (*body)(const struct fault_case *fc))
{
    struct fault_tree *g = fault_tree_new(0, 7, kernel_find("cpu"));
    struct strategy_use use;
    struct fault_case fc;
    struct result r;
    omp_set_num_threads(1);
    ck_assert(strategy_parse("deft-flatten", &use, NULL));
    ck_assert_msg(fault_case_new(g, &use, kernel_find("cpu"), &fc, &r), "%s", r.why);
    body(&fc);
    fault_case_free(&fc);
    fault_tree_free(g);
}

static void control_body(const struct fault_case *fc)
{
    const struct fault copies = {.name = "copies", .where = FAULT_PLAN, .plant = plant_copies};
    const struct fault none = {.name = "none", .where = FAULT_PLAN, .plant = plant_nothing_fits};
    struct fault_result res = fault_try(&copies, fc, 1);
    ck_assert(res.planted && res.run);
    ck_assert(!res.cover && !res.numbers);
    ck_assert(res.worst <= 1);
    res = fault_try(&none, fc, 1);
    ck_assert(!res.planted && !res.run && !res.cover && !res.numbers);
}

TEST(private_kv_are_no_fault)
{
    with_case(control_body);
}

/* Two detectors, each alone: what cover cannot see, and what must not be run. */
static void detectors_body(const struct fault_case *fc)
{
    for (int32_t i = 0; i < n_faults; i++) {
        struct fault_result res = fault_try(&faults[i], fc, 3);
        if (!res.planted)
            continue;
        if (faults[i].where == FAULT_PLAN)
            ck_assert_msg(res.cover, "%s: cover is blind", faults[i].name);
        else
            ck_assert_msg(!res.cover, "%s: cover sees what is not in the plan", faults[i].name);
        if (res.run)
            ck_assert_msg(res.numbers, "%s: numbers are blind", faults[i].name);
        else
            ck_assert_msg(faults[i].where == FAULT_PLAN, "%s: not run, and nobody else can judge",
                          faults[i].name);
    }
}

TEST(each_detector)
{
    with_case(detectors_body);
}

/* Same seed, same place; another seed, another place at least once. */
static void places_body(const struct fault_case *fc)
{
    bool moved = false;
    for (int32_t i = 0; i < n_faults; i++) {
        struct fault_result a = fault_try(&faults[i], fc, 11), b = fault_try(&faults[i], fc, 11);
        ck_assert_str_eq(a.place, b.place);
        ck_assert(a.planted == b.planted && a.worst == b.worst);
        b = fault_try(&faults[i], fc, 12);
        moved = moved || strcmp(a.place, b.place) != 0;
    }
    ck_assert(moved);
}

TEST(places_come_from_the_seed)
{
    with_case(places_body);
}

/* One node of five tokens, and nobody who sees them: no query at all, or one at the node's beginning. */
LOOP_TEST(no_place_where_nothing_is_seen, 2)
{
    struct fault_tree g = {.name = "nothing seen",
                           .spec.spec = {.heads = {4, 2, 64, DT_F32}, .page_size = 16}};
    struct tree *t = tree_new(1, _i);
    struct err e = {0};
    t->parent[0] = -1;
    t->len[0] = 5;
    for (int32_t q = 0; q < _i; q++)
        t->query[q] = (struct query){.node = 0, .upto = 0};
    g.test = test_case_new(&g.spec, t, &e);
    ck_assert_msg(g.test != NULL, "%s", e.msg);
    for (int32_t u = 0; u < n_strategies; u += (int32_t)fewer(5, 1)) {
        struct strategy_use use = strategy_default(strategies[u]);
        struct fault_case fc;
        struct result sound;
        if (!fault_case_new(&g, &use, kernel_find("cpu"), &fc, &sound))
            continue;
        for (int32_t i = 0; i < n_faults; i++)
            for (uint64_t seed = 0; seed < 4; seed++) {
                struct fault_result r = fault_try(&faults[i], &fc, seed);
                ck_assert_msg(!r.planted || (_i > 0 && (r.numbers || r.cover)), "%s in %s", faults[i].name,
                              strategies[u]->name);
            }
        fault_case_free(&fc);
    }
    test_case_free(g.test);
}
