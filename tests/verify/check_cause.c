/*
 * check_cause.c - why numbers are wrong: each mistake of tests/plugin/wrong.def is named, by the run and by no row otherwise;
 * what no hypothesis describes is not named at all.
 */
#include "ref/base.h"
#include "verify/compare/cause.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <string.h>

static const struct {
    const char *name, *cause;
} mistakes[] = {
#define MISTAKE(name, view, cause) {#name, cause},
#include "tests/plugin/wrong.def"
#undef MISTAKE
};
enum { N_MISTAKES = sizeof mistakes / sizeof mistakes[0], COLUMN_VERDICT = 1, COLUMN_CAUSE = 17 };

static char text[1 << 16];

/* Cell `column` of a line of cells between tabs, "" if there is none; ended in place in a copy that is static. */
static const char *cell(const char *line, int column)
{
    static char copy[1024];
    for (; column > 0 && line; column--) {
        line = strpbrk(line, "\t\n");
        line = line && *line == '\t' ? line + 1 : NULL;
    }
    if (!line)
        return "";
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\t\n"), line);
    return copy;
}

/* What explains one failure of eight, and says nothing of the others, is not why a kernel is wrong. */
TEST(one_of_many_is_no_cause)
{
    char why[CAUSE_TEXT];
    int64_t n;
    struct cause_tally few = {.n = 8, .fits = {1}}, half = {.n = 8, .fits = {4}}, all = {.n = 1, .fits = {1}};
    ck_assert_str_eq(cause_of_all(&few, why, &n), "");
    ck_assert_str_ne(cause_of_all(&half, why, &n), "");
    ck_assert_int_eq(n, 4);
    ck_assert_str_ne(cause_of_all(&all, why, &n), "");
}

/* Logits of a million: much could have gone wrong, but NaN is what became of this. */
TEST(a_maximum_from_0_is_named_where_logits_are_vast)
{
    int code =
        run_shell(text, sizeof text,
                  "WRONG=max_from_0 %s verify --plugin %s --case 'tree=levels:1,2,5_40,31,9;heads=4/2;d=64;"
                  "dtype=f32;fill=sunk;scale=1' --no-shrink 2>&1",
                  program_path(), plugin_path("wrong"));
    ck_assert_msg(code == 1 && strstr(text, "the running maximum begins at a number"), "%s", text);
}

/* "Not written" is known: nothing that computes NaN, or reads it, explains that. On one KV head, and of scores beyond fp16. */
LOOP_TEST(what_nobody_wrote_was_not_computed, 2)
{
    static const char *const cases[] = {
        "tree=levels:2,6_45,18;heads=4/1;d=64;dtype=f32;page=4;poison=1;seed=5",
        "tree=levels:2,6_45,18;heads=4/1;d=64;dtype=f32;page=4;poison=1;fill=huge;scale=1;seed=5"};
    int code =
        run_shell(text, sizeof text, "WRONG=few_heads %s verify --plugin %s --case '%s' --no-shrink 2>&1",
                  program_path(), plugin_path("wrong"), cases[_i]);
    ck_assert_msg(code == 1, "exit %d, %s", code, text);
    ck_assert_msg(strstr(text, "\ncause of 1 of 1 wrong results of wrong: nobody wrote these rows: O and LSE "
                               "are as they were before\n") != NULL,
                  "%s", text);
}

static bool is_of_features(const char *mistake)
{
    return strncmp(mistake, "cap_", 4) == 0 || strncmp(mistake, "sinks_", 6) == 0 ||
           strncmp(mistake, "win_", 4) == 0;
}

/* The file in tests/plugin on whose cases it shows. */
static const char *cases_of(const char *mistake)
{
    return strcmp(mistake, "sinks_last_split") == 0 ? "splits"
           : is_of_features(mistake)            ? "features"
           : strncmp(mistake, "mla_", 4) == 0 ? "latent"
           : strncmp(mistake, "nv_", 3) == 0  ? "narrowv"
           : strncmp(mistake, "fp8_", 4) == 0 ? "fp8"
           : strncmp(mistake, "tail_", 5) == 0 && strcmp(mistake, "tail_read") != 0 &&
                   strcmp(mistake, "tail_dropped") != 0
               ? "requests"
               : "wrong";
}

LOOP_TEST(mistakes_are_named, N_MISTAKES)
{
    if (_i % fewer(12, 1) != 0)
        return;
    const char *want = mistakes[_i].cause, *line;
    int code = run_shell(text, sizeof text,
                         "WRONG=%s %s verify --plugin %s --cases tests/plugin/%s.cases --no-shrink 2>&1",
                         mistakes[_i].name, program_path(), plugin_path("wrong"), cases_of(mistakes[_i].name));
    ck_assert_msg(code == 1, "%s: exit %d, %s", mistakes[_i].name, code, text);
    int rows = 0;
    for (line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        FREED char *cause = xstrdup(cell(line + 1, COLUMN_CAUSE));
        if (strcmp(cell(line + 1, COLUMN_VERDICT), "FAIL") != 0)
            continue;
        rows++;
        ck_assert_msg(!cause[0] || (want[0] && strstr(cause, want)), "%s: a row says %s", mistakes[_i].name,
                      cause);
    }
    ck_assert_msg(rows > 0, "%s: %s", mistakes[_i].name, text);
    line = strstr(text, "\ncause of ");
    ck_assert_msg(want[0] ? line != NULL && strstr(line, want) != NULL : line == NULL, "%s: %s",
                  mistakes[_i].name, line ? line : text);
}
