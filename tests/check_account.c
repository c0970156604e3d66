/*
 * check_account.c - what the CPU kernel counted at its load and store sites is what the plan was priced at.
 */
#include "kernels/kernel.h"
#include "ref/rng.h"
#include "sim/price.h"
#include "sim/strategy.h"
#include "tests/suites.h"
#include "traces/formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREES = 24, SMALL_TREES = 6 };

struct setting {
    int32_t h_q, h_kv, d;
    enum dtype dtype;
};
static const struct setting settings[] = {{2, 2, 16, DT_F32}, {8, 2, 32, DT_F16}, {6, 1, 16, DT_F64}};

static void same_ledger(const struct ledger *want, const struct ledger *got, const char *strategy,
                        int64_t tree)
{
#define X(field, meaning)                                                                                    \
    ck_assert_msg(want->field == got->field,                                                                 \
                  "%s on tree %" PRId64 ": " #field " priced %" PRId64 ", counted %" PRId64, strategy, tree, \
                  want->field, got->field);
    LEDGER_FIELDS(X)
#undef X
}

START_TEST(counted_is_priced)
{
    const struct strategy *s = strategies[_i];
    const struct kernel *cpu = kernel_find("cpu");
    int64_t trees = getenv("TREEATTN_QUICK") ? SMALL_TREES : TREES, ran = 0;
    for (int64_t i = 0; i < trees; i++) {
        struct tree *t = gen_tree(gen_family(77, i), rng_u64(77, 1, (uint64_t)i));
        struct nform *nf = nform_new(t);
        const struct setting *h = &settings[i % 3];
        struct plan_env env = {.h_q = h->h_q,
                               .h_kv = h->h_kv,
                               .d = h->d,
                               .elt_bytes = dtype_size[h->dtype],
                               .machine = machine_default()};
        struct strategy_use u = strategy_default(s);
        char why[WHY_MAX];
        struct plan *p = strategy_plan(&u, nf, &env, why);
        if (p) {
            struct problem_spec spec = {.h_q = h->h_q,
                                        .h_kv = h->h_kv,
                                        .d = h->d,
                                        .dtype = h->dtype,
                                        .page_size = 16,
                                        .scattered = true,
                                        .poison = true,
                                        .seed = 1};
            struct problem *prob = problem_new(t, &spec, NULL);
            struct output *out = output_new(prob);
            struct ledger counted = {0};
            struct err e = {0};
            ck_assert_msg(cpu->run(prob, p, out, &counted, &e), "%s: %s", s->name, e.msg);
            struct price_env pe = {.h_q = h->h_q,
                                   .h_kv = h->h_kv,
                                   .d = h->d,
                                   .elt_bytes = dtype_size[h->dtype],
                                   .float_bytes = h->dtype == DT_F64 ? 8 : 4};
            struct ledger priced = price_plan(p, &pe);
            same_ledger(&priced, &counted, s->name, i);
            ran++;
            output_free(out);
            problem_free(prob);
            plan_free(p);
        }
        nform_free(nf);
        tree_free(t);
    }
    ck_assert_msg(ran > 0, "%s ran on none of %" PRId64 " trees", s->name, trees);
}
END_TEST

/* A plan broken by one dropped run must not keep its price: the equality above can fail. */
START_TEST(a_skipped_tile_changes_the_count)
{
    struct tree *t = gen_tree(FAM_BUSHY, 3);
    struct nform *nf = nform_new(t);
    struct plan_env env = {.h_q = 2, .h_kv = 2, .d = 16, .elt_bytes = 4, .machine = machine_default()};
    struct strategy_use u;
    ck_assert(strategy_parse("deft-node-chunk", &u, NULL));
    char why[WHY_MAX];
    struct plan *p = strategy_plan(&u, nf, &env, why), *broken = plan_copy(p);
    broken->run[0].end--;
    broken->group[0].n_kv--;
    struct price_env pe = {.h_q = 2, .h_kv = 2, .d = 16, .elt_bytes = 4, .float_bytes = 4};
    struct ledger a = price_plan(p, &pe), b = price_plan(broken, &pe);
    ck_assert(a.kv > b.kv && a.mac_useful > b.mac_useful);
    plan_free(broken);
    plan_free(p);
    nform_free(nf);
    tree_free(t);
}
END_TEST

Suite *suite_account(void)
{
    Suite *s = suite_create("account");
    TCase *c = tcase_create("account");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, counted_is_priced, 0, n_strategies);
    tcase_add_test(c, a_skipped_tile_changes_the_count);
    suite_add_tcase(s, c);
    return s;
}
