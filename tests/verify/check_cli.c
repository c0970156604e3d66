/*
 * check_cli.c - the program as a user meets it: exit codes, one-line errors, output that scripts can read.
 *
 * Runs $TREEATTN_BIN (default build/treeattn) and says so and skips where it is not built.
 */
#include "verify/model/coefficient_file.h"
#include "verify/judge/judge.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <jansson.h>
#include <math.h>
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
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct case_spec a, b;
        struct err e = {0};
        ck_assert_msg(case_parse(all[i], &a, &e), "%s: %s", all[i], e.msg);
        char *once = case_print(&a);
        ck_assert_msg(case_parse(once, &b, &e), "%s: %s", once, e.msg);
        char *twice = case_print(&b);
        ck_assert_str_eq(once, twice);
        ck_assert(strncmp(once, all[i], strcspn(all[i], ";")) == 0);
        ck_assert(memcmp(a.use.opt, b.use.opt, sizeof a.use.opt) == 0);
        ck_assert_int_eq(a.narrow_partials, b.narrow_partials);
        free(once);
        free(twice);
        case_clear(&a);
        case_clear(&b);
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
    };
    struct result r[5];
    for (int i = 0; i < 5; i++) {
        struct case_spec c;
        struct err e = {0};
        ck_assert_msg(case_parse(text[i], &c, &e), "%s", e.msg);
        AUTO(test_case) b = test_case_new(&c, NULL, &e);
        r[i] = judge_case(b, &c.use, kernel_find("cpu"));
        case_clear(&c);
    }
    ck_assert(r[0].verdict == V_PASS && r[1].verdict == V_PASS);
    ck_assert(r[1].ledger.partial_o_write * 2 == r[0].ledger.partial_o_write);
    ck_assert_double_gt(r[1].cmp.rel_o, r[0].cmp.rel_o);
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
    struct case_spec c;
    struct err e = {0};
    ck_assert(case_parse("tree=levels:1,4_256,40", &c, &e));
    AUTO(test_case) b = test_case_new(&c, NULL, &e);
    struct strategy_use use = strategy_default(&forgetful);
    struct result r = judge_case(b, &use, kernels[0]);
    FILE *f = fmemopen(text, sizeof text, "w");
    struct printer t = {.f = f, .column = result_columns};
    result_row(&t, &r, c.spec.heads.dtype, "-");
    fclose(f);
    ck_assert_msg(strstr(text, "\tFAIL\t-\t-\t-\t-\t-\t-\t") && strstr(text, "\t-\tcoverage: "), "%s", text);
    case_clear(&c);
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

/* The command of issue 4: a header and one row, whose counters follow from the tree by hand: one step of a prompt
 * of 10 with three branches of a token each, 2 layers, 4 heads of 8. */
TEST(sim_counts_as_the_release_does)
{
    static const struct {
        const char *strategy, *counters;
    } x[] = {{"deft-flatten", ",1,3,3328,208,0,0,0,0,0,"},
             {"radix-attention", ",1,3,8448,0,0,0,0,0,0,"},
             {"tree-medusa", ",1,3,3328,156,1248,1248,1248,2496,768,"}};
    char text[4096];
    for (int i = 0; i < 3; i++) {
        char *args =
            xasprintf("sim --trace fewshot:3 --prompt 10 --max-seq 12 --strategy %s --count deft --csv "
                      "--layers 2 --heads 4/2 --head-dim 8",
                      x[i].strategy);
        ck_assert_int_eq(run(args, false, text, sizeof text), 0);
        ck_assert(strstr(text, "iterations,generated_len,KV_IO_bytes,Mask_IO_bytes,QK_IO_bytes"));
        ck_assert_msg(strstr(text, x[i].counters), "%s: %s", args, text);
        char *newline = strchr(text, '\n');
        ck_assert(newline && strchr(newline + 1, '\n') && strchr(newline + 1, '\n')[1] == 0);
        free(args);
    }
}

/* Several items, in text: a line each and their mean, or the mean alone. */
TEST(sim_prints_the_mean_of_trees)
{
    static char text[1 << 16], quiet[1 << 16];
    const char *args =
        "sim --trace embedded:reasoning --tree all --prompt 100 --max-seq 200 --strategy pat,relay";
    char *shorter = xasprintf("%s -q", args);
    ck_assert_int_eq(run(args, false, text, sizeof text), 0);
    ck_assert_int_eq(run(shorter, false, quiet, sizeof quiet), 0);
    const char *mean = strstr(text, "\nmean   pat"), *same = strstr(quiet, "\nmean   pat");
    ck_assert(strstr(text, "\n2      pat") && mean && same);
    ck_assert(!strstr(quiet, "\n2      pat"));
    ck_assert_str_eq(mean, same);
    free(shorter);
}

/* Every combination of swept values is a row like that of a run by itself, the last name's values fastest. */
TEST(sim_sweeps)
{
    static char all[1 << 16], one[1 << 14], want[1 << 16];
    static const char *const heads[] = {"8/2", "4/4"};
    ck_assert_int_eq(run("sim --csv --strategy pat,relay --machine h200 --levels '1,{b} {p},7' --sweep b=2,3 "
                         "--sweep heads=8/2,4/4 --sweep p=100,2000",
                         false, all, sizeof all),
                     0);
    for (int i = 0; i < 8; i++) {
        int b = 2 + i / 4, p = i % 2 ? 2000 : 100;
        char *args =
                 xasprintf("sim --csv --strategy pat,relay --machine h200 --levels '1,%d %d,7' --heads %s", b,
                           p, heads[i / 2 % 2]),
             *at = xasprintf(",b=%d p=%d,", b, p);
        ck_assert_int_eq(run(args, false, one, sizeof one), 0);
        strcat(want, i == 0 ? one : strchr(one, '\n') + 1);
        for (int k = 0; k < 2; k++) { /* the rows of this combination: the first that still say so */
            char *found = strstr(all, at);
            ck_assert_msg(found, "no row at%s", at);
            memmove(found + 1, found + strlen(at) - 1, strlen(found + strlen(at) - 1) + 1);
        }
        free(args);
        free(at);
    }
    ck_assert_msg(strcmp(all, want) == 0, "%.1500s, not %.1500s", all, want);
}

/* What is always busy is not idle by what rounding leaves. */
TEST(sim_prints_no_rounding)
{
    static char text[1 << 16];
    ck_assert_int_eq(run("sim --levels '1,{b} {p},128' --sweep b=8,64 --sweep p=512,8192 --machine h200 "
                         "--layers 1 --strategy naive,flashinfer,tree-medusa",
                         false, text, sizeof text),
                     0);
    ck_assert_msg(strstr(text, "% SM idle") && !strstr(text, "e-1"), "%s", text);
}

/* Parts that a merge takes from registers are told apart, and --csv is a format. */
TEST(plan_counts_partials)
{
    static char text[1 << 14], csv[1 << 14];
    ck_assert_int_eq(run("plan --levels '1,3 256,40' --strategy relay", false, text, sizeof text), 0);
    ck_assert_msg(strstr(text, ", 6 partials (3 through memory, 3 on chip), 3 merges\n"), "%s", text);
    ck_assert_int_eq(run("plan --levels '1,3 256,40' --strategy cascade", false, text, sizeof text), 0);
    ck_assert_msg(strstr(text, ", 6 partials, 3 merges\n"), "%s", text);
    ck_assert_int_eq(run("plan --levels '1,3 256,40' --strategy relay --csv", false, text, sizeof text), 0);
    ck_assert_int_eq(run("plan --levels '1,3 256,40' --strategy relay --format csv", false, csv, sizeof csv),
                     0);
    ck_assert_str_eq(text, csv);
}

/* A tree of a set, as of its levels. */
TEST(sim_knows_the_papers_sets)
{
    static char set[1 << 18], one[1 << 14];
    ck_assert_int_eq(run("sim --csv --strategy pat --sets fasttree-fig9,speculative", false, set, sizeof set),
                     0);
    ck_assert_int_eq(
        run("sim --csv --strategy pat --levels '1,10 4000,400' --heads 16/1", false, one, sizeof one), 0);
    const char *row = strchr(one, '\n') + 1, *tail = strstr(row, ",,"), *found = set;
    int rows = -1;
    for (const char *line = set; *line; line = strchr(line, '\n') + 1)
        rows++;
    ck_assert_int_eq(rows, 15 * 3 + 6 * 3);
    for (int i = 0; i < 3; i++)
        ck_assert((found = strstr(found + 1, ",fasttree-fig9 9,")));
    ck_assert_msg(strncmp(strstr(found, ",,"), tail + 1, strlen(tail + 1)) == 0, "%.800s, not %.800s", found,
                  row);
}

/* As many columns in every row as in the header, and a timeline of as many CTAs as the row says. */
TEST(sim_times_plans)
{
    static char text[1 << 16], lines[256];
    char *dir = scratch_folder();
    char *args = xasprintf("sim --levels '1,3 2000,70' --machine h200 --strategy pat --layers 1 --csv "
                           "--timeline %s/ctas --spans %s/spans",
                           dir, dir);
    ck_assert_int_eq(run(args, false, text, sizeof text), 0);
    ck_assert(strstr(text, ",machine,coefficients,built_in,latency_ms,") && strstr(text, ",h200,"));
    ck_assert_int_eq(run_shell(lines, sizeof lines, "wc -l < %s/ctas; head -2 %s/spans | tail -1", dir, dir),
                     0);
    const char *fitted = strrchr(text, ','), *last = memrchr(text, ',', (size_t)(fitted - text)); /* ctas */
    int ctas = atoi(last + 1);
    ck_assert_msg(atoi(lines) == ctas + 1, "%s lines, %s", lines, last);
    ck_assert_msg(strstr(lines, "\n0.000000,"), "%s", lines);
    ck_assert_int_eq(
        run("sim --levels '1,3 2000,70' --machine h200 --strategy pat --layers 1 --csv --timeline -", false,
            text, sizeof text),
        0);
    ck_assert_msg(strncmp(text, "launch,sm,slot,", 15) == 0 && !strstr(text, "latency_ms"), "%s", text);
    free(dir);
    free(args);
}

/* The column of the one row that `args` prints, as a number. */
static double sim_number(const char *args, const char *column)
{
    char text[1 << 14];
    ck_assert_int_eq(run(args, false, text, sizeof text), 0);
    char *head = text, *row = strchr(text, '\n') + 1, *name, *field;
    row[-1] = 0;
    while ((name = strsep(&head, ",")) && strcmp(name, column) != 0)
        strsep(&row, ",");
    ck_assert_msg(name && row, "no column %s", column);
    field = strsep(&row, ",\n");
    return atof(field);
}

/* Three layers of a plan with one launch. The linear model: 1 ms a call and 2 ms a launch. The time model: 1 s a call
 * more, all else as it is. */
TEST(sim_predicts_from_fitted_coefficients)
{
    static const char coefs[] = "machine,model,part,coefficient,value,error\n"
                                "h200,linear,a,base,0.001,0\nh200,linear,a,serial,0.002,0\n"
                                "h200,linear,b,base,-1,0\nh200,clock,c,base,1,0\n";
    char text[1 << 14];
    char *path = scratch_file(coefs, strlen(coefs));
    const char *args = "sim --trace fewshot:3 --prompt 20 --step 7 --max-seq 40 --machine h200 --strategy "
                       "flash-attention --layers 3 --csv";
    char *linear = xasprintf("%s --coefficients %s --time-model linear --part a", args, path),
         *clock = xasprintf("%s --coefficients %s", args, path), *mend = xasprintf("sed -i s/-1/7/ %s", path);
    ck_assert_int_eq(run(linear, true, text, sizeof text), 2); /* every line is checked, other parts' too */
    ck_assert_msg(strstr(text, ":4: ") && strchr(text, '\n')[1] == 0, "%s", text);
    ck_assert_int_eq(system(mend), 0);
    ck_assert(fabs(sim_number(linear, "fitted_ms") - 9) < 1e-9);
    double before = sim_number(args, "latency_ms") - sim_number(args, "overhead_ms");
    ck_assert(fabs(sim_number(clock, "latency_ms") - before - 3000) < 1e-6);
    free(path);
    free(linear);
    free(clock);
    free(mend);
}

/* Text, CSV and JSON say on which coefficients a time rests, and which of them a file does not have. */
TEST(times_say_what_they_rest_on)
{
    static const char
        bare[] = "machine,model,part,coefficient,value,error\nh200,clock,c,base,1e-6,0\n",
        rest[] = "launch concurrent kernel latency l2_latency start tensor bandwidth l2 stages unseen";
    static const char *const one[] = {"sim --levels '1,8 400,30' --strategy pat",
                                      "replay --trace fewshot:3 --prompt 20 --max-seq 40 --strategy pat"};
    static char text[1 << 14];
    char *path = scratch_file(bare, strlen(bare));
    for (int i = 0; i < 2; i++) {
        char *h200 = xasprintf("%s --machine h200", one[i]),
             *a100 = xasprintf("%s --machine a100-80", one[i]),
             *file = xasprintf("%s --coefficients %s", h200, path),
             *shipped = xasprintf("%s --coefficients paper-figs/measured/h200_clock.csv", h200),
             *csv = xasprintf("%s --csv", file), *json = xasprintf("%s --json", h200),
             *title = xasprintf("simulated with coefficients of %s (built in: %s)", path, rest),
             *cells = xasprintf(",%s,%s%s", path, rest, i ? "\n" : ",");
        const struct {
            const char *args, *says;
        } all[] = {
            {h200, "simulated with built-in coefficients (fitted to our kernels on this card: --coefficients "
                   "paper-figs/measured/h200_clock.csv)"},
            {a100,
             i ? "simulated with built-in coefficients; KV pool" : "simulated with built-in coefficients\n"},
            {shipped,
             "simulated with coefficients of paper-figs/measured/h200_clock.csv (built in: bandwidth)"},
            {file, title},
            {csv, cells},
            {json, "\"coefficients\": \"built-in\", \"built_in\": \"all\""},
        };
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
            ck_assert_int_eq(run(all[k].args, false, text, sizeof text), 0);
            ck_assert_msg(strstr(text, all[k].says), "treeattn %s: no '%s' in %s", all[k].args, all[k].says,
                          text);
        }
        char *const used[] = {h200, a100, file, shipped, csv, json, title, cells};
        for (size_t k = 0; k < sizeof used / sizeof used[0]; k++)
            free(used[k]);
    }
    /* a model beside the time model has a file of its own */
    char *linear = xasprintf("%s --machine h200 --time-model linear --coefficients %s", one[0], path),
         *edit = xasprintf("sed -i s/clock/linear/ %s", path);
    ck_assert_int_eq(system(edit), 0);
    ck_assert_int_eq(run(linear, false, text, sizeof text), 0);
    ck_assert_msg(strstr(text, "simulated with built-in coefficients (") &&
                      strstr(text, "\nfitted us: model linear, coefficients ") &&
                      strstr(text, " (not in it: serial "),
                  "%s", text);
    /* the files that headings name */
    for (int i = 0; i < 2; i++) {
        struct time_model_coefs c = time_model_coefs_default();
        const char *machine = i ? "h100" : "h200";
        char left[COEFS_REST], *name = xasprintf("paper-figs/measured/%s_clock.csv", machine);
        struct err e = {0};
        ck_assert_msg(coefs_read_clock(name, machine, NULL, &c, left, &e), "%s", e.msg);
        ck_assert_str_eq(left, "bandwidth");
        char *heading = coefs_title(NULL, machine, "");
        ck_assert_msg(strstr(heading, name), "%s", heading);
        free(heading);
        free(name);
    }
    free(linear);
    free(edit);
    free(path);
}

/* What is behind a time that is not the card's own, or not every kernel's; and nothing where it is. */
TEST(times_come_with_notes)
{
#define DEEP                                                                                                 \
    "sim --levels '1,4,16,64,256,1024 256,8,256,64,32,256' --heads 16/1 --layers 1 --strategy tree-vanilla"
#define LONG "sim --levels '1,64 4000,1' --strategy deft-node"
    static const char unseen[] =
        "\nnote: share of the KV bytes that no row of a Q tile sees: tree-vanilla 99 %;",
                      trips[] = "\nnote: share of the time that round trips to memory take: deft-node 9";
    static const struct {
        const char *args, *says;
        bool is;
    } all[] = {
        {DEEP " --machine h200", unseen, true},
        {DEEP " --machine h200 --count paper", unseen, true},
        {DEEP " --machine h200 --coefficients paper-figs/measured/h200_clock.csv", "\nnote: share of the KV",
         false},
        {"sim --levels '1,64 4000,1' --strategy pat --machine h200", "\nnote: share of the KV", false},
        {LONG " --machine l40s", trips, true},
        {LONG " --machine l40s", "latency_ns = 200 is not l40s's own figure (PAT table 1, of A100)", true},
        {LONG " --machine a100-80", "\nnote:", false},
        {LONG " --machine h200:latency_ns=350", "\nnote:", false},
        {LONG " --machine h200 --coefficients paper-figs/measured/h200_clock.csv", "\nnote:", false},
        {"sim --levels '1,64 4000,1' --strategy pat --machine a100-80", "\nnote:", false},
        {"list machines", "latency ns  latency from\n", true},
        {"list machines --csv", ",989,200,\"PAT table 1, of A100\"\n", true},
    };
#undef DEEP
#undef LONG
    static char text[1 << 14];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ck_assert_int_eq(run(all[i].args, false, text, sizeof text), 0);
        ck_assert_msg((strstr(text, all[i].says) != NULL) == all[i].is, "treeattn %s: '%s' in %s",
                      all[i].args, all[i].says, text);
    }
}

/* What 64 bits hold is counted, however many queries and tokens there are. */
TEST(sim_takes_large_trees)
{
    double kv = sim_number("sim --levels '200000 1' --heads 32/8 --layers 1 --strategy deft-node --csv",
                           "KV_IO_bytes");
    ck_assert_double_eq(kv, 200000 * 2 * 8 * 128 * 2.0);
}

/* Steps before --step are taken, but not judged. */
TEST(decode_judges_the_steps_that_are_asked_for)
{
    char text[4096];
    static const char *const steps[] = {"--step 1 --steps 1", "--step 2 --steps 1", "--step 2 --steps 9"};
    static const char *const says[] = {",pat,1,2,", ",pat,1,1,", ",pat,3,4,"}; /* 2, 1, 2, 1 queries */
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char *args = xasprintf("decode --decoder cpu --llm tiny --strategy pat --csv %s --trace "
                               "deft:tests/fuzz/corpus/deft/reasoning",
                               steps[i]);
        ck_assert_int_eq(run(args, false, text, sizeof text), EXIT_GOOD);
        ck_assert_msg(strstr(text, says[i]), "%s: %s", args, text);
        free(args);
    }
}

/* Of two trees of a family the median is the mean. */
/* A row for each strategy asked for, under its own name; every figure is there, or none where a tree is too large. */
TEST(bench_plan_times_what_is_asked_for)
{
    static char text[1 << 14];
    ck_assert_int_eq(
        run("bench plan --reps 1 --csv --strategy pat:rule=artifact,tree-medusa", false, text, sizeof text),
        0);
    char *rest = text;
    ck_assert_msg(strncmp(strsep(&rest, "\n"), "strategy,step_us,tree_1365_us,", 30) == 0, "%s", text);
    double step, level, small;
    ck_assert_int_eq(sscanf(strsep(&rest, "\n"), "pat:rule=artifact,%lf,%lf,%lf,", &step, &level, &small), 3);
    ck_assert_msg(step > 0 && step < level && level < 1e3 * small, "%g us, %g us, %g ms", step, level, small);
    ck_assert_int_eq(sscanf(strsep(&rest, "\n"), "tree-medusa,%lf,%lf,%lf,", &step, &level, &small), 2);
    ck_assert_str_eq(rest, "");
}

TEST(gap_prints_medians)
{
    char text[1 << 14];
    ck_assert_int_eq(run("gap --trees 2 --cost bytes --csv", false, text, sizeof text), 0);
    int twos = 0, apart = 0;
    for (char *rest = text, *row; (row = strsep(&rest, "\n"));) {
        int n;
        double mean, median, most;
        if (sscanf(row, "bytes,%*[^,],%d,%*[^,],%*f,%lf,%lf,%*f,%lf", &n, &mean, &median, &most) != 4 ||
            n != 2)
            continue;
        ck_assert_msg(fabs(mean - median) <= 1e-3 * mean, "%s", row);
        twos++;
        apart += most > mean;
    }
    ck_assert(twos > 20 && apart > 0);
}
