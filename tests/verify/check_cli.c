/*
 * check_cli.c - the program as a user meets it: case strings, lists of strategies, one-line errors, JSON. What commands
 * print is in tests/transcripts.
 *
 * Runs $TREEATTN_BIN (default build/treeattn) and says so and skips where it is not built.
 */
#include "verify/judge/judge.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

AUTO_FREE(test_case, test_case, test_case_free)

/* What it prints to standard output, or standard error if `err`; the exit code. */
static int run(const char *args, bool err, char *out, size_t size)
{
    return run_shell(out, size, "%s %s %s", program_path(), args, err ? "2>&1 >/dev/null" : "2>/dev/null");
}

#define FORTY_VALUES "0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9"

/* Strings only, no program: what a case prints is read back as the same case. */
TEST(case_strings_round_trip)
{
    static const char *const all[] = {
        "tree=gen:bushy:17",
        "tree=levels:1,4_10,0;heads=8/2;d=128;dtype=bf16;page=1;scatter=0;poison=0;fill=onehot;seed=99",
        "tree=file:/tmp/a%3Bb%25c;strategy=pat",
        "tree=trace:2:100:400:7:deft:/a/b.json;strategy=deft-flatten:rule=artifact",
        "tree=topology:0:0:0:1:spec:64,3",
        "tree=batched:3:0:0:9:16:20:requests:40,1",
        "tree=chain:512:1;kernel=cpu",
        "tree=nodes:-1.5,0.3:0.5,1.2;seed=18446744073709551615",
        "tree=gen:bushy:17;strategy=deft-flatten:block=1234567",
        "tree=gen:bushy:17;strategy=fasttree:alpha=0.1234567890123456",
        "tree=gen:bushy:17;partials=f16",
        "tree=gen:bushy:17;scale=0.1;pool=70000;aligned=1;fill=span",
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CLEARED_BY(case_clear) struct case_spec a, b;
        struct err e = {0};
        ck_assert_msg(case_parse(all[i], &a, &e), "%s: %s", all[i], e.msg);
        FREED char *once = case_print(&a);
        ck_assert_msg(case_parse(once, &b, &e), "%s: %s", once, e.msg);
        FREED char *twice = case_print(&b);
        ck_assert_str_eq(once, twice);
        ck_assert(strncmp(once, all[i], strcspn(all[i], ";")) == 0);
        ck_assert(memcmp(a.use.opt, b.use.opt, sizeof a.use.opt) == 0);
        ck_assert_int_eq(a.narrow_partials, b.narrow_partials);
        ck_assert(a.spec.scale == b.spec.scale && a.spec.pool == b.spec.pool && a.aligned == b.aligned);
    }
}

/* Partial results in fp16 move half the bytes, err more, and stay within the bound that knows of them; a SKIP says why a plan
 * has none. */
TEST(partials_may_be_narrow)
{
    static const char *const text[] = {
        "tree=levels:1,3,6_70,17,5;strategy=fasttree",
        "tree=levels:1,3,6_70,17,5;strategy=fasttree;partials=f16",
        "tree=levels:1,3,6_70,17,5;strategy=pat;partials=f16",
        "tree=levels:1,3,6_70,17,5;strategy=flash-attention;partials=f16",
        "tree=levels:1,3,6_70,17,5;dtype=f64;strategy=fasttree;partials=f16",
        "tree=levels:1,3,6_70,17,5;dtype=bf16;fill=span;strategy=fasttree;partials=f16",
        "tree=levels:1,3,6_70,17,5;dtype=f16;fill=span;strategy=fasttree;partials=f16",
    };
    struct result r[7];
    for (int i = 0; i < 7; i++) {
        CLEARED_BY(case_clear) struct case_spec c;
        struct err e = {0};
        ck_assert_msg(case_parse(text[i], &c, &e), "%s", e.msg);
        AUTO(test_case) b = test_case_new(&c, NULL, &e);
        r[i] = judge_case(b, &c.use, kernel_find("cpu"));
    }
    ck_assert(r[0].verdict == V_PASS && r[1].verdict == V_PASS);
    ck_assert(r[1].ledger.partial_o_write * 2 == r[0].ledger.partial_o_write);
    ck_assert_double_gt(r[1].cmp.rel_o, r[0].cmp.rel_o);
    ck_assert(r[5].verdict == V_SKIP && strstr(r[5].why, "beyond fp16") && r[6].verdict == V_PASS);
    ck_assert(r[2].verdict == V_SKIP && strstr(r[2].why, "not normalised"));
    ck_assert(r[3].verdict == V_SKIP && strstr(r[3].why, "no partial results"));
    ck_assert(r[4].verdict == V_SKIP && strstr(r[4].why, "f64"));
}

TEST(strategy_lists_keep_their_options)
{
    struct strategy_use *use;
    int32_t n;
    struct err e = {0};
    ck_assert(case_strategies(NULL, &use, &n, &e) && n == n_strategies);
    free(use);
    ck_assert(case_strategies("all", &use, &n, &e) && n == n_strategies);
    free(use);
    ck_assert(case_strategies("naive,pat:rule=artifact,max_rows=32,deft-node", &use, &n, &e));
    ck_assert_int_eq(n, 3);
    char *text = strategy_label(&use[1]);
    ck_assert_str_eq(text, "pat:rule=artifact,max_rows=32");
    free(text);
    free(use);
    ck_assert(!case_strategies("naive,,pat", &use, &n, &e) && use == NULL);

    /* several values: each with each, the first key's the slowest */
    static const char *const want[] = {"naive",
                                       "treeattn:low=16,high=64",
                                       "treeattn:low=16,high=128",
                                       "treeattn:low=32,high=64",
                                       "treeattn:low=32,high=128",
                                       "fasttree:rule=artifact",
                                       "fasttree"};
    ck_assert(
        case_strategies("naive,treeattn:low=16/32,high=64/128,fasttree:rule=artifact/paper", &use, &n, &e));
    ck_assert_int_eq(n, 7);
    for (int32_t i = 0; i < n; i++) {
        text = strategy_label(&use[i]);
        ck_assert_str_eq(text, want[i]);
        free(text);
    }
    free(use);
    static const char *const bad[] = {"pat:max_rows=32/", "pat:max_rows=/32", "pat/naive",
                                      "treeattn:low=0/999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!case_strategies(bad[i], &use, &n, &e) && use == NULL, "%s", bad[i]);
    char *many = xstrdup("treeattn:piece=1");
    for (int k = 0; k < 3 * 16; k++) { /* 16 or 17 values of each of three keys */
        char *longer = xasprintf("%s%s/16", many, k == 16 ? ",low=16" : k == 32 ? ",high=16" : "");
        free(many);
        many = longer;
    }
    e = (struct err){0};
    ck_assert(!case_strategies(many, &use, &n, &e) && use == NULL);
    ck_assert_msg(strstr(e.msg, "more than 4096 strategies"), "%s", e.msg);
    free(many);
}

FROM_HERE(program, .wanted = program_built)

TEST(bad_input_gets_one_line_and_exit_2)
{
    static const struct {
        const char *args, *says;
    } bad[] = {
#define BAD(args, says) {args, says},
#include "tests/verify/bad_input.def"
#undef BAD
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[4096];
        int code = run(bad[i].args, true, text, sizeof text);
        ck_assert_msg(code == 2, "'%s' exits with %d: %s", bad[i].args, code, text);
        ck_assert_msg(strncmp(text, "treeattn: ", 10) == 0, "'%s' says %s", bad[i].args, text);
        char *newline = strchr(text, '\n');
        ck_assert_msg(newline && newline[1] == 0, "'%s' says more than one line: %s", bad[i].args, text);
        ck_assert_msg(strstr(text, bad[i].says), "'%s' says %s", bad[i].args, text);
    }
}

/* Nor a time, where the plan kept the kernel from running. */
TEST(what_did_not_run_has_no_time)
{
    char text[4096] = "";
    CLEARED_BY(case_clear) struct case_spec c;
    struct err e = {0};
    ck_assert(case_parse("tree=levels:1,4_256,40", &c, &e));
    AUTO(test_case) b = test_case_new(&c, NULL, &e);
    struct strategy_use use = strategy_default(&forgetful);
    struct result r = judge_case(b, &use, kernels[0]);
    FILE *f = fmemopen(text, sizeof text, "w");
    struct printer t = {.f = f, .column = outcome_columns};
    struct row_outcome o = result_outcome(&r, &c.spec.heads, "-");
    outcome_row(&t, &o);
    outcome_clear(&o);
    fclose(f);
    ck_assert_msg(strstr(text, "\tFAIL\tBAD_PLAN\t-\t-\t-\t-\t-\t-\t") && strstr(text, "\t-\tcoverage: "), "%s", text);
}

TEST(json_and_csv_parse)
{
    static char text[1 << 20];
    json_error_t error;
    static const char *const all[] = {"verify --levels '1,3 20,7' --strategy pat,relay --kernel cpu --json",
                                      "compare --levels '1,3 20,7' --heads 2/1 --json",
                                      "list strategies --json",
                                      "list options --json",
                                      "list models --json",
                                      "list machines --json",
                                      "list figures --machine l40s:sms=10 --json",
                                      "list tiles --machine a100-80 --head-dim 64 --json",
                                      "trace reasoning:3 --prompt 50 --max-seq 80 --json",
                                      "sim --trace reasoning:3 --prompt 50 --max-seq 80 --json",
                                      "sim --levels '1,3 20,7' --count paper --json",
                                      "sim --levels '1,3 20,700' --machine all --json"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ck_assert_int_eq(run(all[i], false, text, sizeof text), 0);
        json_t *j = json_loads(text, 0, &error);
        ck_assert_msg(j && json_is_array(j) && json_array_size(j) > 0, "%s: %s", all[i], error.text);
        json_decref(j);
    }
    ck_assert_int_eq(run("plan --levels '1,3 20,7' --strategy pat --format json", false, text, sizeof text),
                     0);
    json_t *plan = json_loads(text, 0, &error);
    ck_assert_msg(json_is_object(plan), "%s", error.text);
    json_decref(plan);
    ck_assert_int_eq(run("trace reasoning:3 --prompt 50 --max-seq 80 --csv", false, text, sizeof text), 0);
    ck_assert(strncmp(text, "iteration,queries,nodes,kv_tree,kv_seq\n1,", 40) == 0);
}
