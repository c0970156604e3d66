/*
 * check_gpu.c - what `make gpu-check` and `make gpu-bench` do that needs no GPU: the design of cases and what it
 * covers.
 */
#include "kernels/cuda/guarded.h"
#include "verify/gpu_cases.h"
#include "verify/compare.h"

#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

static struct gpu_case *design(uint64_t seed, int64_t *n)
{
    struct gpu_case *list;
    struct err e = {0};
    bool shared;
    ck_assert_msg(gpu_cases_new(seed, &list, n, &shared, &e), "%s", e.msg);
    return list;
}

/* Every strategy that applies to a case's tree, as if it had been run and passed, into the cover. */
static void pretend(struct gpu_cover *v, const struct gpu_case *x)
{
    struct err e = {0};
    struct tree *t = treesrc_load(&x->c.src, &e);
    ck_assert_msg(t, "%s", e.msg);
    struct nform *nf = nform_new(t);
    struct plan_env env = {.h_q = x->c.spec.h_q,
                           .h_kv = x->c.spec.h_kv,
                           .d = x->c.spec.d,
                           .elt_bytes = dtype_size[x->c.spec.dtype],
                           .machine = machine_default()};
    for (int32_t i = 0; i < n_strategies; i++) {
        struct strategy_use use = strategy_default(strategies[i]);
        char why[WHY_MAX] = "";
        const struct strategy *s = strategies[i];
        bool fits = !s->applicable || s->applicable(nf, &env, s, use.opt, why);
        gpu_cover_add(v, x, s->name, &(struct gpu_outcome){.verdict = fits ? V_PASS : V_SKIP, .why = why});
    }
    nform_free(nf);
    tree_free(t);
}

static struct gpu_cover *cover_new(void)
{
    struct strategy_use *use;
    int32_t n;
    ck_assert(case_strategies(NULL, &use, &n, NULL));
    struct gpu_cover *v = xcalloc(1, sizeof *v);
    gpu_cover_init(v, use, n);
    free(use);
    return v;
}

/* The bar: 6,000 cases that run, every pair of values, and every strategy with every value of types, heads, head sizes
 * and pages: with the traces of TREEATTN_SHARED and without, for several seeds. */
START_TEST(the_design_covers_every_pair)
{
    if (_i % 2)
        setenv("TREEATTN_SHARED", "/nonexistent", 1);
    int64_t n, met, run = 0;
    struct gpu_case *list = design((uint64_t)_i, &n);
    struct gpu_cover *v = cover_new();
    for (int64_t i = 0; i < n; i++)
        pretend(v, &list[i]);
    int64_t pairs = gpu_cover_pairs(v, &met, stdout);
    ck_assert_int_eq(met, pairs);
    for (int32_t i = 0; i < v->n; i++)
        if (v->value[i].axis == AXIS_STRATEGY)
            run += v->value[i].n[V_PASS];
    ck_assert_msg(run >= 6000, "%d cases run", (int)run);
    /* what counts as required: 2 + 7 + 2 + 4 values, 24 strategies and eight kinds of trees */
    ck_assert_int_ge(pairs, 15 * n_strategies + (2 * 7 + 2 * 2 + 2 * 4 + 7 * 2 + 7 * 4 + 2 * 4) + 8 * 15);
    free(v);
    gpu_cases_free(list, n);
}
END_TEST

/* A value that is never run with another one is a hole, and named. */
START_TEST(a_hole_is_seen)
{
    int64_t n, met;
    struct gpu_case *list = design(1, &n);
    struct gpu_cover *v = cover_new();
    for (int64_t i = 0; i < n; i++)
        if (list[i].c.spec.h_q != 71 || list[i].c.spec.page_size != 64)
            pretend(v, &list[i]);
    FILE *f = tmpfile();
    int64_t pairs = gpu_cover_pairs(v, &met, f);
    char line[200] = "";
    rewind(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    ck_assert_int_eq(met, pairs - 1);
    ck_assert_str_eq(line, "not run: heads 71/1 with page 64\n");
    free(v);
    gpu_cases_free(list, n);
}
END_TEST

/* The same seed draws the same, another one something else; every case is a case string. */
START_TEST(the_design_is_its_seed)
{
    int64_t n[3], same = 0;
    struct gpu_case *list[3] = {design(7, &n[0]), design(7, &n[1]), design(8, &n[2])};
    ck_assert(n[0] == n[1] && n[0] == n[2]);
    for (int64_t i = 0; i < n[0]; i++) {
        char *a = case_print(&list[0][i].c), *b = case_print(&list[1][i].c), *c = case_print(&list[2][i].c);
        struct vcase back;
        struct err e = {0};
        ck_assert_str_eq(a, b);
        same += strcmp(a, c) == 0;
        ck_assert_msg(case_parse(a, &back, &e), "%s: %s", a, e.msg);
        char *again = case_print(&back);
        ck_assert_str_eq(a, again);
        case_clear(&back);
        free(again);
        free(a);
        free(b);
        free(c);
    }
    ck_assert_int_eq(same, 0);
    for (int i = 0; i < 3; i++)
        gpu_cases_free(list[i], n[i]);
}
END_TEST

/* Every byte that a run may not write is watched, and no other. */
START_TEST(canaries_see_every_byte)
{
    struct err e = {0};
    struct treesrc src;
    ck_assert(treesrc_parse("levels:1,3_20,5", &src, &e));
    struct tree *t = treesrc_load(&src, &e);
    struct problem_spec spec = case_default_spec();
    spec.page_size = 1 + 15 * _i;
    struct problem *p = problem_new(t, &spec, &e);
    struct guarded_layout l = guarded_layout(p, 1000);
    uint8_t *before = guarded_image(&l, p), *after = guarded_image(&l, p);
    for (int part = 0; part + 1 < N_PARTS; part++) {
        ck_assert(l.at[part] % 256 == 0 && l.at[part] + l.size[part] + 256 <= l.at[part + 1]);
        ck_assert(l.at[0] >= 256 && l.total >= l.at[PART_WORKSPACE] + 1000 + 256);
    }
    ck_assert(memcmp(before + l.at[PART_PAGES], p->page_table, (size_t)l.size[PART_PAGES]) == 0);
    for (int64_t i = 0; i < l.head; i++) {
        bool written = (i >= l.at[PART_O] && i < l.at[PART_O] + l.size[PART_O]) ||
                       (i >= l.at[PART_LSE] && i < l.at[PART_LSE] + l.size[PART_LSE]);
        if (i % 7 && i > 600 && i < l.at[PART_PAGES])
            continue; /* the middle of Q, K, V is all alike */
        after[i] ^= 1;
        struct err mine = {0};
        ck_assert_int_eq(guarded_check(&l, before, after, &mine), written);
        ck_assert(written || strstr(mine.msg, "overwritten"));
        after[i] ^= 1;
    }
    free(before);
    free(after);
    problem_free(p);
    tree_free(t);
    treesrc_clear(&src);
}
END_TEST

Suite *suite_gpu(void)
{
    Suite *s = suite_create("gpu");
    TCase *c = tcase_create("gpu");
    tcase_add_loop_test(c, the_design_covers_every_pair, 0, 4);
    tcase_add_test(c, a_hole_is_seen);
    tcase_add_test(c, the_design_is_its_seed);
    tcase_add_loop_test(c, canaries_see_every_byte, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
