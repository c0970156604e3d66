/*
 * check_labs.c - the labs of the course: solutions pass, also with seeds that are hidden; what is handed out does not; wrong
 * solutions lose their gates, and the cause that is named is theirs; who cheats or crashes has no points, and a verdict in time.
 *
 * Files of tests/labs-wrong say in their first lines what must become of them:
 *
 *     why: the sentence that every gate has which is lost by wrong numbers or a wrong plan; "none": no cause is named; one of
 *         several, where there is " | " between
 *     loses: numbers of gates; "some": it depends on the seed
 *     code: one of these, of all gates; REFUSED: nothing is judged
 *     says: part of the complaint then, or of what is said of what is slow
 *     seed: the secret one with which it is judged
 */
#include "ref/base.h"

#include "tests/json_read.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 18];

/* The program's report on a file of lab n, as JSON. */
static json_t *report(const char *file, int lab, const char *options)
{
    run_shell(text, sizeof text, "%s lab %d %s --json %s 2>&1", program_path(), lab, file, options);
    json_error_t e;
    json_t *o = json_loads(text, 0, &e);
    ck_assert_msg(o != NULL, "%s %s: %s: %.300s", file, options, e.text, text);
    return o;
}

/* What a file says of itself behind "key: ", or NULL; the caller frees. */
static char *said(const char *file, const char *key)
{
    FREED char *all = file_text(file), *mark = xasprintf(" * %s: ", key);
    const char *at = strstr(all, mark), *end = strstr(all, " */");
    if (!at || at > end)
        return NULL;
    at += strlen(mark);
    return xasprintf("%.*s", (int)strcspn(at, "\n"), at);
}

/* "L5-name.c", "cheat-L5-name.c"; 1 where it says nothing. */
static int lab_of(const char *file)
{
    const char *name = strrchr(file, '/') + 1, *at = *name == 'L' ? name : strstr(name, "-L");
    return at ? atoi(at + (*at == 'L' ? 1 : 2)) : 1;
}

/* Files of a pattern, of which there must be some. */
static void files(const char *pattern, glob_t *found)
{
    ck_assert_msg(glob(pattern, 0, NULL, found) == 0, "no %s", pattern);
}

FROM_HERE(with_program, .wanted = program_built)

TEST(solutions_pass_also_with_hidden_seeds)
{
    int seeds = (int)fewer(1, 3);
    glob_t found;
    files("tests/labs-solved/L*.c", &found);
    FREED char *folder = scratch_folder(), *file = xasprintf("%s/results.json", folder);
    for (size_t i = 0; i < found.gl_pathc; i++)
        for (int seed = 2; seed < 2 + seeds; seed++) {
            double began = now_s();
            int code =
                run_shell(text, sizeof text, "%s lab %d %s --seed %d --gradescope %s 2>&1", program_path(),
                          lab_of(found.gl_pathv[i]), found.gl_pathv[i], 1000 * seed, file);
            AUTO(json_t) o = json_load_file(file, 0, NULL);
            ck_assert(code == 0 && o);
            double most = 0;
            size_t k;
            json_t *one;
            json_array_foreach(json_object_get(o, "tests"), k, one) most += number_of(one, "max_score");
            ck_assert_msg(most > 0 && number_of(o, "score") == most, "%s, seed %d: %s", found.gl_pathv[i],
                          seed, text);
            ck_assert_msg(now_s() - began < 60, "%s: %.0f s", found.gl_pathv[i], now_s() - began);
        }
    globfree(&found);
}

/* It has points, so that a student sees some, and few. */
TEST(what_is_handed_out_has_few_points)
{
    glob_t found;
    files("tests/labs/L*/lab.c", &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        for (int seed = 1; seed <= fewer(1, 3); seed++) {
            FREED char *options = xasprintf("--seed %d", seed);
            AUTO(json_t) o = report(found.gl_pathv[i], atoi(strstr(found.gl_pathv[i], "/L") + 2), options);
            double points = number_of(o, "points"), most = number_of(o, "most");
            ck_assert_msg(points > 0 && points < 0.2 * most, "%s: %g of %g", found.gl_pathv[i], points, most);
            /* what stands there is no mistake that has a name */
            const json_t *first = json_array_get(json_object_get(o, "gates"), 0);
            ck_assert_msg(!*word_of(first, "why"), "%s: %s", found.gl_pathv[i], word_of(first, "why"));
        }
    globfree(&found);
}

/* Is that one of the sentences, with or without how much it explains behind it? */
static bool is_cause(const char *is, const char *sentences)
{
    for (const char *at = sentences, *end; at; at = end ? end + 3 : NULL) {
        end = strstr(at, " | ");
        size_t n = end ? (size_t)(end - at) : strlen(at);
        if (n == 4 && strncmp(at, "none", n) == 0
                ? !*is
                : strncmp(is, at, n) == 0 && (!is[n] || strncmp(is + n, " [", 2) == 0))
            return true;
    }
    return false;
}

/* Do the gates that are lost, and what is said of them, agree with the head of the file? */
static void check_wrong(const char *file, const char *options)
{
    FREED char *why = said(file, "why"), *loses = said(file, "loses"), *says = said(file, "says"),
               *lost = xstrdup("");
    ck_assert_msg(why && loses, "%s has no head", file);
    AUTO(json_t) o = report(file, lab_of(file), options);
    size_t k;
    json_t *gate;
    json_array_foreach(json_object_get(o, "gates"), k, gate)
    {
        if (strcmp(word_of(gate, "code"), "OK") == 0)
            continue;
        xappend(&lost, "%s%d", *lost ? " " : "", (int)number_of(gate, "gate"));
        const char *is = word_of(gate, "why"), *code = word_of(gate, "code");
        if (strcmp(code, "WAITS") == 0 || strcmp(code, "PRICE") == 0 || strcmp(code, "LIMIT") == 0)
            continue;
        ck_assert_msg(is_cause(is, why), "%s %s, gate %g: '%s'\nexpected '%s'", file, options,
                      number_of(gate, "gate"), is, why);
    }
    ck_assert_msg(!says || strstr(text, says), "%s %s does not say: %s\n%s", file, options, says, text);
    ck_assert_msg((strcmp(lost, loses) == 0 || strcmp(loses, "some") == 0) && *lost,
                  "%s %s: it loses %s, expected %s", file, options, lost, loses);
}

TEST(wrong_solutions_lose_and_the_cause_is_theirs)
{
    glob_t found;
    files("tests/labs-wrong/L*/L*.c", &found);
    for (size_t i = 0; i < found.gl_pathc; i += (size_t)fewer(12, 1)) {
        check_wrong(found.gl_pathv[i], "--seed 1");
        if (i % 3 == 0)
            check_wrong(found.gl_pathv[i], "--seed 777");
    }
    globfree(&found);
}

/* Is the word in a list with blanks between? */
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

static void check_hostile(const char *file)
{
    FREED char *codes = said(file, "code"), *says = said(file, "says"), *seed = said(file, "seed"),
               *folder = scratch_folder(), *results = xasprintf("%s/results.json", folder);
    ck_assert_msg(codes != NULL, "%s has no head", file);
    double began = now_s();
    int code = run_shell(text, sizeof text, "%s lab %d %s --seconds 1 --json --seed %s --gradescope %s 2>&1",
                         program_path(), lab_of(file), file, seed ? seed : "1", results);
    ck_assert_msg(now_s() - began < 60, "%s: %.0f s", file, now_s() - began);
    AUTO(json_t) graded = json_load_file(results, 0, NULL);
    ck_assert_msg(code == 0 && graded && number_of(graded, "score") == 0, "%s: exit code %d: %.2000s", file,
                  code, text);
    if (strcmp(codes, "REFUSED") == 0) {
        const char *json = strstr(text, "\n{");
        AUTO(json_t) refused = json_loads(json ? json : "", 0, NULL);
        ck_assert_msg(refused && strstr(word_of(refused, "refused"), says), "%s: %s", file, text);
        ck_assert_msg(strncmp(text, "treeattn: ", 10) == 0 && strchr(text, '\n') <= json, "%s: %s", file,
                      text);
        ck_assert(strstr(word_of(graded, "output"), "nothing was judged"));
        return;
    }
    AUTO(json_t) o = json_loads(text, 0, NULL);
    ck_assert_msg(o != NULL, "%s: %s", file, text);
    bool told = false;
    size_t k;
    json_t *gate;
    json_array_foreach(json_object_get(o, "gates"), k, gate)
    {
        ck_assert_msg(number_of(gate, "points") == 0, "%s: %s", file, text);
        told = told || listed(codes, word_of(gate, "code"));
    }
    ck_assert_msg(told, "%s: expected %s: %.2000s", file, codes, text);
}

TEST(who_cheats_or_crashes_has_no_points)
{
    static const char *const patterns[] = {"tests/labs-wrong/cheats/*.c", "tests/labs-wrong/crashes/*.c"};
    for (int p = 0; p < 2; p++) {
        glob_t found;
        files(patterns[p], &found);
        for (size_t i = 0; i < found.gl_pathc; i += (size_t)fewer(3, 1))
            check_hostile(found.gl_pathv[i]);
        globfree(&found);
    }
}

/* The verdict on gate n. */
static const char *code_of(const json_t *report, int gate)
{
    return word_of(json_array_get(json_object_get(report, "gates"), (size_t)gate - 1), "code");
}

/* What loops takes two tries, and other functions are asked all the same; what crashes in one gate is asked in the others. */
TEST(what_is_not_asked_is_called_so)
{
    FREED char *folder = scratch_folder(), *file = xasprintf("%s/lab.c", folder);
    double began = now_s();
    run_shell(text, sizeof text,
              "{ cat tests/labs-solved/L1.c | sed 's/lab_attend/unused/'; "
              "echo 'void lab_attend(const float *q, const float *k, const float *v, int n, "
              "int d, float scale, float *o, float *lse) { for (;;) ; }'; } >%s",
              file);
    AUTO(json_t) o = report(file, 1, "--seconds 1");
    ck_assert_msg(now_s() - began < 10, "%.0f s", now_s() - began);
    for (int gate = 1; gate <= 10; gate++)
        ck_assert_msg(strcmp(code_of(o, gate), gate <= 2                ? "HANG"
                                               : gate >= 7 && gate <= 9 ? "OK"
                                                                        : "UNASKED") == 0,
                      "gate %d: %s", gate, code_of(o, gate));
    const json_t *third = json_array_get(json_object_get(o, "gates"), 2);
    ck_assert_str_eq(word_of(third, "got"), "not asked: lab_attend gave no answer in time before");
    ck_assert(!*word_of(third, "checked") && !*word_of(third, "seen") && !*word_of(third, "question") &&
              number_of(third, "invariant") == 0);
    run_shell(text, sizeof text,
              "sed 's/^    struct block b = /    int roots = 0; for (int i = 0; i < "
              "t->n_nodes; i++) roots += t->parent[i] < 0; if (roots > 1) abort();\\n&/' "
              "tests/labs-solved/L3.c >%s",
              file);
    AUTO(json_t) x = report(file, 3, "");
    ck_assert_str_eq(code_of(x, 3), "OK");
    ck_assert_str_eq(code_of(x, 4), "CRASH");
    ck_assert_str_eq(code_of(x, 6), "OK");
    ck_assert(strncmp(word_of(json_array_get(json_object_get(x, "gates"), 3), "seen"), "2 of ", 5) == 0);
}

/* Where a cause is named, the invariant is the one that it breaks, whatever the gate asks. */
TEST(the_invariant_is_that_of_the_cause)
{
    static const struct {
        const char *file;
        int lab, gate, invariant;
    } of[] = {{"tests/labs-wrong/L2/L2-hand-k-alone.c", 2, 2, 2},
              {"tests/labs-wrong/L3/L3-no-roots.c", 3, 6, 2},
              {"tests/labs-wrong/L3/L3-upto-ignored.c", 3, 3, 1},
              {"tests/labs-wrong/L1-attend/L1-no-scale.c", 1, 5, 1}};
    for (int i = 0; i < 4; i++) {
        AUTO(json_t) o = report(of[i].file, of[i].lab, "");
        const json_t *gate = json_array_get(json_object_get(o, "gates"), (size_t)of[i].gate - 1);
        ck_assert_msg(*word_of(gate, "why") && number_of(gate, "invariant") == of[i].invariant, "%s: %s, %g",
                      of[i].file, word_of(gate, "why"), number_of(gate, "invariant"));
    }
}

/* Three wrong tables must not give the right one, wherever it might be printed. */
TEST(the_table_of_lab_2_is_not_told)
{
    static const char *const table[] = {"7274496",  "3080192",  "41418752", "12058624", "7143424",
                                        "34406400", "50790400", "51576832", "337510400"};
    static const char *const numbers[] = {"0", "1", "900000000000", "-5", "4096"};
    FREED char *folder = scratch_folder(), *file = xasprintf("%s/lab.c", folder);
    for (int i = 0; i < 5; i++) {
        FREED char *list = xasprintf("%s,%s,%s,%s", numbers[i], numbers[i], numbers[i], numbers[i]);
        run_shell(text, sizeof text,
                  "{ sed '/^const int64_t lab_answers/,/^};/d' tests/labs-solved/L2.c; "
                  "echo 'const int64_t lab_answers[3][4] = {{%s},{%s},{%s}};'; } >%s",
                  list, list, list, file);
        run_shell(text, sizeof text,
                  "cd %s && %s lab 2 lab.c --html . --gradescope g.json; %s lab 2 lab.c --seed 3 --json; cat "
                  "lab2.html g.json",
                  folder, program_path(), program_path());
        ck_assert_msg(strstr(text, "tree C: ") && strstr(text, "</html>") && strstr(text, "leaderboard"),
                      "%s", text);
        for (int k = 0; k < 9; k++)
            ck_assert_msg(!strstr(text, table[k]), "%s is told: %s", table[k], strstr(text, table[k]) - 60);
    }
}

/* A question is C, of the structs of lab.h, and it is the one that is shown. */
TEST(questions_can_be_pasted)
{
    static const struct {
        const char *file, *name;
        int lab, gate;
    } of[] = {{"tests/labs-wrong/L3/L3-below-shown.c", "tree", 3, 3},
              {"tests/labs-wrong/L3/L3-node.c", "tree", 3, 8},
              {"tests/labs-wrong/L2/L2-k-alone.c", "plan", 2, 5},
              {"tests/labs-wrong/L2/L2-read-once-a-merge.c", "plan", 2, 9},
              {"tests/labs-wrong/L4/L4-one-pass.c", "shape", 4, 2}};
    FREED char *folder = scratch_folder(), *file = xasprintf("%s/main.c", folder);
    for (int i = 0; i < 5; i++) {
        AUTO(json_t) o = report(of[i].file, of[i].lab, "");
        const json_t *gate = json_array_get(json_object_get(o, "gates"), (size_t)of[i].gate - 1);
        FREED char *code = xasprintf(
            "#include \"lab.h\"\n%sint main(void) { return %s; }\n", word_of(gate, "question"),
            of[i].lab == 4   ? "shape.parent[0] != -1 || price.pack < 1"
            : of[i].lab == 3 ? "tree.len[0] < 1 || tree.query_node[0] >= tree.n_nodes"
                             : "plan.n_groups < 1 || plan.group[0].tile_m < 1 || plan.head_dim < 1");
        write_bytes(file, code, strlen(code));
        int exit_code =
            run_shell(text, sizeof text, "cc -Wall -Werror -I tests/labs/include %s -o %s/a && %s/a 2>&1",
                      file, folder, folder);
        ck_assert_msg(exit_code == 0, "%s", text);
    }
}

/* Beside a student's code that writes wherever it may, another's is judged as if it were alone. Only root can keep them apart. */
TEST(judges_side_by_side_do_not_meet)
{
    if (geteuid() != 0)
        return;
    FREED char *folder = scratch_folder(),
               *solved = xasprintf("%s lab 4 tests/labs-solved/L4.c", program_path());
    int code = run_shell(
        text, sizeof text,
        "(until [ -e %s/done ]; do %s lab 1 tests/labs-wrong/cheats/cheat-file.c >%s/cheat 2>&1; done) & "
        "until [ -s %s/cheat ]; do sleep 0.1; done; "
        "%s && %s && %s; code=$?; touch %s/done; wait; exit $code",
        folder, program_path(), folder, folder, solved, solved, solved, folder);
    ck_assert_msg(code == 0 && strstr(text, "15 of 15 points"), "exit code %d: %s", code, text);
}

/* Of a hidden seed neither it nor a case is told, only code and cause; of the public one everything is. */
TEST(gradescope_tells_nothing_of_the_secret_seed)
{
    FREED char *folder = scratch_folder(), *results = xasprintf("%s/results.json", folder);
    ck_assert_int_eq(
        run_shell(text, sizeof text,
                  "%s lab 1 tests/labs-wrong/cheats/cheat-table.c --seed 918273645 --gradescope %s",
                  program_path(), results),
        0);
    FREED char *all = file_text(results);
    ck_assert(strstr(all, "a hidden one") && strstr(all, "NUMBERS") && strstr(all, "\"status\": \"failed\""));
    ck_assert(!strstr(all, "918273645") && !strstr(all, "checked:") && !strstr(all, "got:"));
    ck_assert(!strstr(text, "918273645"));
    run_shell(text, sizeof text,
              "%s lab 1 tests/labs-wrong/L1-attend/L1-no-scale.c --seed 918273645 --gradescope %s",
              program_path(), results);
    AUTO(json_t) o = json_load_file(results, 0, NULL);
    const json_t *first = json_array_get(json_object_get(o, "tests"), 0);
    const char *output = word_of(first, "output");
    ck_assert_msg(strstr(output, "checked: lab_attend") &&
                      strstr(output, "why: the scores are not multiplied by scale"),
                  "%s", output);
    ck_assert_str_eq(word_of(first, "number"), "1.1");
    ck_assert_str_eq(word_of(first, "visibility"), "visible");
    ck_assert_double_eq(number_of(first, "max_score"), 1.5);
}

/* An object is judged like its source; what it lacks is said. */
TEST(an_object_is_taken_too)
{
    FREED char *folder = scratch_folder();
    int code =
        run_shell(text, sizeof text,
                  "cc -O2 -shared -fPIC -I tests/labs/include tests/labs-solved/L1.c -o %s/lab.so -lm && "
                  "%s lab 1 %s/lab.so",
                  folder, program_path(), folder);
    ck_assert_msg(code == 0 && strstr(text, "15 of 15 points"), "%s", text);
    code = run_shell(text, sizeof text,
                     "echo 'int x;' | cc -x c -shared -fPIC - -o %s/lab.so && %s lab 1 %s/lab.so 2>&1",
                     folder, program_path(), folder);
    ck_assert_msg(code == 2 &&
                      strstr(text, "lab.so does not define lab_attend (expected the functions of lab.h)"),
                  "%s", text);
}

/* The compiler's words name the student's own file, and come whole, to wherever a report goes. */
TEST(what_the_compiler_says_is_told)
{
    FREED char *folder = scratch_folder(), *bad = xasprintf("%s/bad.c", folder),
               *lines = xasprintf("does not compile: %s:2:9: error: ", bad),
               *behind = xasprintf("tests/labs/include %s -lm)\n    2 | int x = y;\n", bad),
               *warned = xasprintf("2 warnings, the first: %s/warm.c:1:5: warning: ", folder);
    write_bytes(bad, "#include \"lab.h\"\nint x = y;\n", 29);
    int code = run_shell(text, sizeof text, "%s lab 1 %s 2>&1", program_path(), bad);
    ck_assert_msg(code == 2 && strstr(text, lines) && strstr(text, behind), "%s", text);
    code =
        run_shell(text, sizeof text, "%s lab 1 %s --json --html %s 2>/dev/null", program_path(), bad, folder);
    AUTO(json_t) o = json_loads(text, 0, NULL);
    ck_assert_msg(code == 2 && o && strstr(word_of(o, "refused"), lines) &&
                      strstr(word_of(o, "refused"), behind),
                  "%s", text);
    FREED char *path = xasprintf("%s/lab1.html", folder), *page = file_text(path);
    ck_assert(strstr(page, "Nothing was judged") && strstr(page, lines) && strstr(page, behind) &&
              !strstr(page, "not passed"));
    code = run_shell(text, sizeof text,
                     "{ echo 'int a(void) { int x; return 0; } int b(void) { int y; return 0; }'; cat "
                     "tests/labs-solved/L1.c; } >%s/warm.c; %s lab 1 %s/warm.c --html %s 2>&1",
                     folder, program_path(), folder, folder);
    warned[strlen(warned) - strlen("1:5: warning: ")] = 0; /* where in the line, compilers may say */
    const char *at = strstr(text, warned);
    ck_assert_msg(code == 0 && at && at < strstr(text, "\n1.1 ") && strstr(text, "lab1.html\n"), "%s", text);
    run_shell(text, sizeof text, "%s lab L4 tests/labs-solved/L4.c | head -2", program_path());
    ck_assert_msg(strncmp(text, "lab 4, pack: ", 13) == 0 && strstr(text, "\n4.1 "), "%s", text);
}

/* What crashes may have printed lines: they stay lines, but for the report that has one. */
TEST(lines_of_a_crash_stay_lines)
{
    FREED char *folder = scratch_folder(), *file = xasprintf("%s/lab.c", folder);
    static const char code[] =
        "#include \"lab.h\"\n#include <stdio.h>\n"
        "void lab_pack(const struct lab_shape *s, const struct lab_price *p, unsigned char "
        "*join)\n{\n    fprintf(stderr, \"n = %d\\nnext\\n\", 7);\n    abort();\n}\n";
    write_bytes(file, code, strlen(code));
    AUTO(json_t) o = report(file, 4, "");
    const json_t *first = json_array_get(json_object_get(o, "gates"), 0);
    ck_assert_msg(strstr(word_of(first, "got"), "; it said: n = 7\nnext"), "%s", word_of(first, "got"));
    run_shell(text, sizeof text, "%s lab 4 %s", program_path(), file);
    ck_assert_msg(strstr(text, "; it said: n = 7 next\n"), "%s", text);
}

/* Lab 0: of each question one answer is right, and every other one is told what is wrong with it. */
TEST(a_quiz_has_one_right_answer)
{
    FREED char *folder = scratch_folder();
    enum { SEEDS = 12, QUESTIONS = 8 };
    for (int seed = 1; seed <= fewer(2, SEEDS); seed++) {
        int right[QUESTIONS + 1] = {0};
        for (char letter = 'a'; letter <= 'd'; letter++) {
            FREED char *file = xasprintf("%s/answers.txt", folder), *options = xasprintf("--seed %d", seed);
            FILE *f = fopen(file, "w");
            ck_assert(f);
            for (int i = 1; i <= QUESTIONS; i++)
                fprintf(f, "%d %c # comment\n", i, letter);
            fclose(f);
            AUTO(json_t) o = report(file, 0, options);
            size_t k;
            json_t *gate;
            json_array_foreach(json_object_get(o, "gates"), k, gate)
            {
                bool good = strcmp(word_of(gate, "code"), "OK") == 0;
                right[k + 1] += good;
                ck_assert(good || *word_of(gate, "why"));
            }
        }
        for (int i = 1; i <= QUESTIONS; i++)
            ck_assert_msg(right[i] == 1, "seed %d, question %d has %d right answers", seed, i, right[i]);
    }
    AUTO(json_t) solved = report("tests/labs-solved/L0.txt", 0, "");
    AUTO(json_t) empty = report("tests/labs/L0/answers.txt", 0, "");
    ck_assert(number_of(solved, "points") == 5 && number_of(empty, "points") == 0);
    run_shell(text, sizeof text, "%s lab 0 README.md 2>&1", program_path());
    ck_assert_msg(strstr(text, "README.md:3: '") &&
                      strstr(text, "(expected a number from 1 to 8 and a letter from a to d, or -)"),
                  "%s", text);
}

/* Lab 7: the rank is that of the secret seed, less is better; the picture has both plans in time. */
TEST(time_is_a_rank)
{
    FREED char *folder = scratch_folder(), *results = xasprintf("%s/results.json", folder);
    double value[2];
    for (int seed = 1; seed <= 2; seed++) {
        FREED char *options = xasprintf("--seed %d", 4000 * seed);
        AUTO(json_t) o = report("tests/labs-solved/L7.c", 7, options);
        value[seed - 1] = number_of(json_array_get(json_object_get(o, "gates"), 7), "value");
        int code = run_shell(text, sizeof text, "%s lab 7 tests/labs-solved/L7.c %s --gradescope %s",
                             program_path(), options, results);
        AUTO(json_t) graded = json_load_file(results, 0, NULL);
        ck_assert(code == 0 && graded);
        const json_t *rank = json_array_get(json_object_get(graded, "leaderboard"), 1);
        ck_assert_str_eq(word_of(rank, "name"), "time / treeattn");
        ck_assert_str_eq(word_of(rank, "order"), "asc");
        ck_assert_double_eq_tol(number_of(rank, "value"), value[seed - 1], 1e-4);
    }
    ck_assert(value[0] != value[1] && value[0] > 0.5 && value[0] < 1);
    run_shell(text, sizeof text, "%s lab 7 tests/labs-solved/L3.c --html %s >/dev/null", program_path(),
              folder);
    FREED char *path = xasprintf("%s/lab7.html", folder), *page = file_text(path);
    const char *caption = strstr(page, "<svg aria-label=\"Your plan of the worst tree in time");
    ck_assert(caption && strstr(caption, "<title>lab_partition in time on h200") &&
              strstr(caption, "<title>treeattn in time on h200"));
}
