/*
 * check_grading.c - what teachers use: results.json is what Gradescope publishes of its format, and the secret seed is told of at its
 * time; the lines of tests/labs-teaching/README.md grade a folder, and what it says of mistakes is what is printed.
 */
#include "ref/base.h"

#include "tests/json_read.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 16];

/* ---- results.json ---------------------------------------------------------------------------------------- */

/* key:type, of which n is a number, s a text, o an object, a a list; a text may be one of some words. */
static const char *const top_keys[] = {"score:n",
                                       "execution_time:n",
                                       "output:s",
                                       "output_format:s text html simple_format md ansi",
                                       "visibility:s hidden after_due_date after_published visible",
                                       "stdout_visibility:s hidden after_due_date after_published visible",
                                       "extra_data:o",
                                       "tests:a",
                                       "leaderboard:a",
                                       NULL},
                         *const test_keys[] = {"score:n",
                                               "max_score:n",
                                               "status:s passed failed",
                                               "name:s",
                                               "number:s",
                                               "output:s",
                                               "output_format:s text html simple_format md ansi",
                                               "tags:a",
                                               "visibility:s hidden after_due_date after_published visible",
                                               "extra_data:o",
                                               NULL},
                         *const board_keys[] = {"name:s", "value:n", "order:s asc desc", NULL};

static void check_keys(json_t *o, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach(o, key, value)
    {
        size_t n = strlen(key), i = 0;
        while (keys[i] && !(strncmp(keys[i], key, n) == 0 && keys[i][n] == ':'))
            i++;
        ck_assert_msg(keys[i], "Gradescope knows no '%s'", key);
        char type = keys[i][n + 1];
        ck_assert_msg(type == 'n'   ? json_is_number(value) && isfinite(json_number_value(value))
                      : type == 's' ? json_is_string(value)
                      : type == 'o' ? json_is_object(value)
                                    : json_is_array(value),
                      "'%s' is of another type", key);
        const char *words = keys[i] + n + 2;
        if (*words) {
            FREED char *word = xasprintf(" %s ", json_string_value(value)), *list = xasprintf("%s ", words);
            ck_assert_msg(strstr(list, word), "'%s' is%s", key, word);
        }
    }
}

/* What the published format says; and that the sum of all tests is the score, which would override it. */
static void check_results(json_t *o)
{
    double sum = 0;
    size_t i;
    json_t *one;
    check_keys(o, top_keys);
    ck_assert(json_array_size(json_object_get(o, "tests")) > 0);
    json_array_foreach(json_object_get(o, "tests"), i, one)
    {
        check_keys(one, test_keys);
        double score = number_of(one, "score"), most = number_of(one, "max_score");
        bool passed = strcmp(word_of(one, "status"), "passed") == 0;
        ck_assert(json_object_get(one, "score") && *word_of(one, "number") && *word_of(one, "name"));
        ck_assert(score >= 0 && score <= most && (most == 0 || passed == (score == most)));
        sum += score;
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(word_of(one, "number"),
                             word_of(json_array_get(json_object_get(o, "tests"), k), "number"));
    }
    ck_assert(fabs(sum - number_of(o, "score")) < 1e-9);
    json_array_foreach(json_object_get(o, "leaderboard"), i, one) check_keys(one, board_keys);
}

FROM_HERE(with_program, .wanted = program_built)

static json_t *graded(const char *file, int lab)
{
    FREED char *folder = scratch_folder(), *results = xasprintf("%s/results.json", folder);
    int code = run_shell(text, sizeof text, "%s lab %d %s --seed 918273645 --gradescope %s 2>&1",
                         program_path(), lab, file, results);
    json_error_t e;
    json_t *o = json_load_file(results, JSON_REJECT_DUPLICATES, &e);
    ck_assert_msg(code == 0 && o, "%s: %s: %s", file, e.text, text);
    return o;
}

TEST(results_are_as_gradescope_publishes_them)
{
    glob_t found;
    ck_assert(glob("tests/labs/L*/*", 0, NULL, &found) == 0);
    ck_assert(glob("tests/labs-solved/L*.c", GLOB_APPEND, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i], *name = strrchr(file, '/') + 1;
        if (strcmp(name, "README.md") == 0 || strcmp(name, "hints") == 0)
            continue;
        AUTO(json_t) o = graded(file, atoi(strstr(file, "/L") + 2));
        check_results(o);
    }
    globfree(&found);
    FREED char *bad = scratch_file("int x = \"\\\x80<b>\";\n", 16), *named = xasprintf("%s.c", bad);
    ck_assert(rename(bad, named) == 0);
    AUTO(json_t) refused = graded(named, 1);
    check_results(refused);
    ck_assert(number_of(refused, "score") == 0 && strstr(word_of(refused, "output"), "nothing was judged"));
}

/* At once: that a gate is lost by the secret seed. When the time is over: the code and the cause, in a test that has no points. */
TEST(the_secret_seed_is_told_of_when_time_is_over)
{
    AUTO(json_t) o = graded("tests/labs-wrong/cheats/cheat-table.c", 1);
    check_results(o);
    size_t n = json_array_size(json_object_get(o, "tests")), i;
    const json_t *last = json_array_get(json_object_get(o, "tests"), n - 1);
    json_t *one;
    json_array_foreach(json_object_get(o, "tests"), i, one) if (i + 1 < n)
    {
        ck_assert_str_eq(word_of(one, "visibility"), "visible");
        ck_assert_str_eq(word_of(one, "output"), "it passes the public seed, and fails on a hidden one\n");
    }
    ck_assert_str_eq(word_of(last, "number"), "1.10h");
    ck_assert_str_eq(word_of(last, "visibility"), "after_due_date");
    ck_assert_str_eq(word_of(last, "status"), "failed");
    ck_assert(strstr(word_of(last, "output"), "1.1 random scores: NUMBERS\n") &&
              number_of(last, "max_score") == 0);
    AUTO(json_t) good = graded("tests/labs-solved/L1.c", 1);
    last = json_array_get(json_object_get(good, "tests"), n - 1);
    ck_assert_str_eq(word_of(last, "status"), "passed");
    AUTO(json_t) quiz = graded("tests/labs-solved/L0.txt", 0);
    ck_assert_int_eq(json_array_size(json_object_get(quiz, "tests")), 8);
}

/* ---- the teacher's README ---------------------------------------------------------------------------------- */

/* Its lines on a folder of a solution, a wrong one, and one that does not compile. */
TEST(a_folder_is_graded_by_the_lines_of_the_readme)
{
    FREED char *folder = scratch_folder();
    int code = run_shell(
        text, sizeof text,
        "set -e; top=$PWD; cd %s; mkdir handed-in build; cp $top/tests/labs-solved/L1.c 'handed-in/a b.c'; "
        "cp $top/tests/labs-wrong/L1-merge/L1-mean.c handed-in/mean.c; echo 'int x = y;' >handed-in/none.c; "
        "ln -s %s build/treeattn; set +e; "
        "sed -n '/^    mkdir -p graded/,/^    awk/s/^    //p' $top/tests/labs-teaching/README.md >lines; "
        "bash lines && cat lab1.csv && ls graded graded/mean",
        folder, program_path());
    ck_assert_msg(code == 0 && strncmp(text, "SIS Login ID,Lab 1\na b,15\nmean,10.5\nnone,0\n", 43) == 0 &&
                      strstr(text, "\nlab1.html"),
                  "exit code %d: %s", code, text);
}

/* A teacher's machine has more to do than one file: none loses points by that. */
TEST(many_are_graded_at_once)
{
    int code =
        run_shell(text, sizeof text,
                  "seq 1 60 | xargs -P 20 -I{} sh -c '%s lab 1 tests/labs-solved/L1.c 2>&1 | tail -1' | "
                  "grep -c '15 of 15 points'",
                  program_path());
    ck_assert_msg(code == 0 && atoi(text) == 60, "of 60 at a time, all points have %s", text);
}

/* What it says is printed stands in a list of mistakes, or at the head of a wrong solution, where suite labs looks at it. */
TEST(the_readme_quotes_what_is_printed)
{
    FREED char *readme = file_text("tests/labs-teaching/README.md"), *all = xstrdup("");
    glob_t found;
    ck_assert(glob("verify/lab/*_wrong.def", 0, NULL, &found) == 0);
    ck_assert(glob("verify/lab/*/*_wrong.def", GLOB_APPEND, NULL, &found) == 0);
    ck_assert(glob("tests/labs-wrong/L*/L*.c", GLOB_APPEND, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FREED char *one = file_text(found.gl_pathv[i]);
        for (char *at = one; (at = strstr(at, "\"\n")); at++) { /* a sentence on two lines */
            char *next = at + 2 + strspn(at + 2, " ");
            if (*next == '"')
                memmove(at, next + 1, strlen(next));
        }
        xappend(&all, "%s", one);
    }
    globfree(&found);
    char *at = strstr(readme, "printed as `why`"), *line;
    int n = 0;
    for (at = at ? strchr(at, '\n') + 1 : at; at && *at == '|'; at = line + 1) {
        line = strchr(at, '\n');
        char *end = line;
        while (*end != '`' && end > at)
            end--;
        char *begin = end - 1;
        while (*begin != '`' && begin > at)
            begin--;
        if (end == at)
            continue; /* the line below the heading */
        FREED char *says = xasprintf("%.*s", (int)(end - begin - 1), begin + 1);
        char *more = strstr(says, " ..");
        if (more)
            *more = 0; /* it goes on */
        ck_assert_msg(strlen(says) > 20 && strstr(all, says), "'%s' is never printed", says);
        n++;
    }
    ck_assert_int_ge(n, 12);
}
