/*
 * check_readme.c - the commands that README.md shows: each of them ends well, and those whose output is the same on every
 * machine print what stands there. Totals over all strategies are compared as long as there are as many as the README says;
 * with one more, digits of such a line may be any. And the strategy that sim/README.md shows.
 */
#include "ref/base.h"
#include "sim/strategy.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats.h"
#include "verify/cover.h"

#define strategy_per_node shown_strategy /* whoever tries it has one of that name */
#include "tests/per_node.c"              /* what sim/README.md shows, by the Makefile */
#undef strategy_per_node

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An example is indented; its command begins so. */
static const char indent[] = "    ", prompt[] = "    $ build/treeattn ", demo_prompt[] = "    $ make demo";
enum { MOST_EXAMPLES = 32, MOST_OUTPUT = 1 << 20 };

static struct example {
    char *args;
    char **says; /* lines, NULL at the end */
} examples[MOST_EXAMPLES], demo;
static int n_examples;
static int told_strategies; /* how many there are, by the README */

static void add_line(struct example *x, const char *line)
{
    size_t n = 0;
    while (x->says[n])
        n++;
    x->says = xrealloc(x->says, n + 2, sizeof *x->says);
    x->says[n] = xstrdup(line);
    x->says[n + 1] = NULL;
}

static void read_examples(void)
{
    FILE *f = fopen("README.md", "r");
    char *line = NULL;
    size_t cap = 0;
    struct example *at = NULL; /* the one that lines belong to */
    while (f && getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, prompt, strlen(prompt)) == 0 && n_examples < MOST_EXAMPLES) {
            at = &examples[n_examples++];
            *at = (struct example){.args = xstrdup(line + strlen(prompt)),
                                   .says = xcalloc(1, sizeof *at->says)};
        } else if (strncmp(line, demo_prompt, strlen(demo_prompt)) == 0 && !demo.says) {
            at = &demo;
            demo.says = xcalloc(1, sizeof *demo.says);
        } else if (strncmp(line, indent, strlen(indent)) != 0 && line[0]) {
            at = NULL;
        } else if (at && line[0]) {
            add_line(at, line + strlen(indent));
        }
        const char *told = strstr(line, "names the ");
        if (told)
            sscanf(told, "names the %d strategies", &told_strategies);
    }
    if (f)
        fclose(f);
    free(line);
}

/* Is it one of its lines? Columns may be wider or narrower. */
static bool prints(const char *out, const char *line)
{
    for (const char *at = out; *at;) {
        const char *p = at, *q = line;
        while (*p && *p != '\n' && (*p == *q || (*p == ' ' && !*q))) {
            bool blank = *p == ' ';
            p += blank ? strspn(p, " ") : 1;
            q += blank ? strspn(q, " ") : 1;
        }
        if ((*p == '\n' || !*p) && !*q)
            return true;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return false;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Of decode, replay and verify times and last digits are a machine's own. */
static bool is_the_same_everywhere(const char *args)
{
    static const char *const commands[] = {"plan ", "gap ", "sim ", "fit ", "selftest"};
    bool is = false;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        is = is || begins(args, commands[i]);
    return is;
}

/* Its totals are of all strategies. */
static bool is_of_all(const char *args)
{
    return begins(args, "selftest") && !strstr(args, "--strategy");
}

/* A new strategy is no reason to be red. */
static bool has_new_strategies(const char *what)
{
    if (n_strategies == told_strategies)
        return false;
    printf(
        "skip: README.md was written with %d strategies, now there are %d: totals of %s are not compared\n",
        told_strategies, (int)n_strategies, what);
    return true;
}

/* Every number as #; the caller frees. */
static char *without_numbers(const char *text)
{
    char *out = xstrdup(text), *to = out;
    for (const char *c = text; *c; c++)
        if (*c < '0' || *c > '9')
            *to++ = *c;
        else if (c[1] < '0' || c[1] > '9')
            *to++ = '#';
    *to = 0;
    return out;
}

/* A strategy's row of `compare` without its two errors, whose digits are a machine's own; any other line as it is, with
 * one blank between words. The caller frees. */
static char *without_errors(const char *line)
{
    enum { ERROR = 2, RANDOM_ERROR = 10 }; /* words of a row */
    char *rest = xstrdup(line), *words = rest, *word, *out = xstrdup("");
    struct strategy_use use;
    bool row = false;
    for (int n = 0; (word = strsep(&rest, " "));) {
        if (!*word)
            continue;
        row = n == 0 ? strategy_parse(word, &use, NULL) : row;
        char *longer =
            row && (n == ERROR || n == RANDOM_ERROR) ? xstrdup(out) : xasprintf("%s %s", out, word);
        free(out);
        out = longer;
        n++;
    }
    free(words);
    return out;
}

/* The first thing that anybody runs: what it counts of each strategy's plan. */
START_TEST(demo_prints_what_is_shown)
{
    if (!program_built() || !demo.says)
        return;
    char *out = xmalloc(MOST_OUTPUT), *rest = out, *line, *printed = xstrdup("");
    int status = run_shell(out, MOST_OUTPUT,
                           "unset TREEATTN_SHARED; %s $(sed -n 's/.*$(PROGRAM) compare/compare/p' Makefile)",
                           program_path());
    ck_assert_int_eq(status, 0);
    while ((line = strsep(&rest, "\n"))) {
        char *bare = without_errors(line), *longer = xasprintf("%s%s\n", printed, bare);
        free(bare);
        free(printed);
        printed = longer;
    }
    bool totals = !has_new_strategies("make demo");
    int rows = 0;
    for (int i = 0; demo.says[i]; i++, rows++) {
        char *bare = without_errors(demo.says[i]);
        ck_assert_msg(prints(printed, bare) || (!totals && begins(demo.says[i], "compare: ")),
                      "make demo does not print '%s'", demo.says[i]);
        free(bare);
    }
    ck_assert_int_gt(rows, told_strategies);
    free(printed);
    free(out);
}
END_TEST

START_TEST(commands_do_what_is_shown)
{
    const struct example *x = &examples[_i];
    bool of_papers =
        strstr(x->args, "deft:") || strstr(x->args, "../shared") || strstr(x->args, "--workload");
    if (!program_built())
        return;
    if (of_papers && access("../shared/traces", R_OK) != 0) {
        printf("skip: no ../shared for treeattn %s\n", x->args);
        return;
    }
    if (getenv("TREEATTN_QUICK") &&
        (begins(x->args, "decode ") || begins(x->args, "selftest") || begins(x->args, "verify "))) {
        printf("skip: in a hurry, and `make check` runs the like: treeattn %s\n", x->args);
        return;
    }
    char *out = xmalloc(MOST_OUTPUT), *many = strstr(x->args, "--trees 500");
    if (many)
        memcpy(many, "--trees 5  ", strlen("--trees 500"));
    int status = run_shell(out, MOST_OUTPUT, "unset TREEATTN_SHARED; %s %s", program_path(), x->args);
    ck_assert_msg(status == 0, "treeattn %s: exit code %d", x->args, status);
    bool any_numbers = is_of_all(x->args) && has_new_strategies(x->args);
    char *shape = without_numbers(out);
    for (int i = 0; x->says[i] && is_the_same_everywhere(x->args); i++) {
        char *line = any_numbers ? without_numbers(x->says[i]) : xstrdup(x->says[i]);
        ck_assert_msg(strstr(line, "...") || prints(any_numbers ? shape : out, line),
                      "treeattn %s does not print '%s'", x->args, x->says[i]);
        free(line);
    }
    free(shape);
    free(out);
}
END_TEST

START_TEST(there_are_examples)
{
    int lines = 0;
    for (int i = 0; i < n_examples; i++)
        for (int k = 0; examples[i].says[k]; k++)
            lines++;
    ck_assert_msg(access("README.md", R_OK) != 0 || (n_examples >= 10 && lines >= 50),
                  "%d examples, %d lines", n_examples, lines);
    ck_assert_msg(access("README.md", R_OK) != 0 || (demo.says && told_strategies > 0),
                  "no output of make demo, or no number of strategies");
}
END_TEST

/* In all pieces and trees that somebody who follows the text may try. */
START_TEST(the_strategy_that_is_shown_covers)
{
    struct plan_env env = {.h_q = 8, .h_kv = 2, .d = 64, .elt_bytes = 2, .machine = machine_default()};
    struct strategy_use use = strategy_default(&shown_strategy);
    char why[WHY_MAX];
    int64_t groups = 0, nodes = 0;
    for (int i = 0; i < N_FAMILIES * 6; i++) {
        struct nform *nf = nform_new(gen_tree((enum family)(i % N_FAMILIES), (uint64_t)i));
        use.opt[0] = i < N_FAMILIES ? shown_strategy.opts[0].def : 7 * i;
        struct plan *p = strategy_plan(&use, nf, &env, why);
        struct err e = {0};
        ck_assert_msg(p && cover_check(p, &e), "tree %d: %s", i, p ? e.msg : why);
        groups += p->n_groups;
        nodes += nf->n_nodes;
        plan_free(p);
        nform_free_with_tree(nf);
    }
    ck_assert(groups > nodes / 2);
}
END_TEST

Suite *suite_readme(void)
{
    Suite *s = suite_create("readme");
    TCase *tc = tcase_create("readme");
    read_examples();
    tcase_add_loop_test(tc, commands_do_what_is_shown, 0, n_examples);
    tcase_add_test(tc, demo_prints_what_is_shown);
    tcase_add_test(tc, there_are_examples);
    tcase_add_test(tc, the_strategy_that_is_shown_covers);
    suite_add_tcase(s, tc);
    return s;
}
