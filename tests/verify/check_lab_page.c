/*
 * check_lab_page.c - the report of a lab as a page: what it has, that it is whole and stands alone, and that nothing of a student's file
 * or of a secret seed's case gets into it.
 */
#include "verify/lab/lab.h"
#include "verify/lab/lab4_draw.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 16];

/* The page of lab n on a file; the caller frees. */
static char *page(const char *file, int lab, const char *options)
{
    FREED char *folder = scratch_folder(), *name = xasprintf("%s/lab%d.html", folder, lab);
    run_shell(text, sizeof text, "%s lab %d %s --html %s %s 2>&1", program_path(), lab, file, folder,
              options);
    ck_assert_msg(access(name, R_OK) == 0, "%s: no page: %.300s", file, text);
    return file_text(name);
}

static int times(const char *all, const char *what)
{
    int n = 0;
    for (const char *at = all; (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* Every element ends where it should, but those that have no end. No attribute is there twice, and no id. */
static void check_markup(const char *all)
{
    char *open[64], *ids = xstrdup(" ");
    int depth = 0;
    for (const char *at = strchr(all, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>'), *id = strstr(at, " id=\"");
        check_each(end, "no end: %.60s", at);
        size_t n = strcspn(at + 1, " >\n");
        if (id && id < end) {
            FREED char *one = xasprintf(" %.*s ", (int)strcspn(id + 5, "\""), id + 5);
            check_each(!strstr(ids, one), "the id '%s' is there twice", one);
            xappend(&ids, "%s", one + 1);
        }
        if (at[1] == '/') {
            check_each(depth > 0 && strlen(open[depth - 1]) == n - 1 &&
                           strncmp(open[depth - 1], at + 2, n - 1) == 0,
                       "%.40s ends %s", at, depth > 0 ? open[depth - 1] : "nothing");
            free(open[--depth]);
        } else if (at[1] != '!' && strncmp(at, "<meta", 5) != 0 && end[-1] != '/') {
            check_each(depth < 64, "too deep: %.60s", at);
            open[depth++] = xasprintf("%.*s", (int)n, at + 1);
        }
        at = end;
    }
    check_each(depth == 0, "%s has no end", open[0]);
    free(ids);
}

/* It opens from a disk, without anything else. */
static void check_alone(const char *all)
{
    static const char *const never[] = {"<script", "<link",      "<img",       "<iframe", "<object", " src=",
                                        "@import", "xlink:href", "javascript", " on",     "url(h"};
    ck_assert(strlen(all) < 1000000);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        for (const char *at = all; (at = strstr(at, never[i])); at++) {
            const char *open = at, *behind = at + 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz");
            while (open > all && *open != '<' && *open != '>')
                open--;
            bool tag = never[i][0] == '<' || (*open == '<' && (never[i][0] != ' ' || *behind == '='));
            check_each(!tag, "%s: %.80s", never[i], at);
        }
    for (const char *at = all; (at = strstr(at, "://")); at++)
        check_each(strncmp(at, "://www.w3.org/2000/svg\"", 23) == 0, "a reference: %.60s", at);
    for (const char *at = all; (at = strstr(at, "href=\"")); at++)
        check_each(at[6] == '#', "a reference: %.60s", at);
    for (const char *at = all; (at = strstr(at, "url(")); at++) {
        FREED char *id = xasprintf(" id=\"%.*s\"", (int)strcspn(at + 5, ")"), at + 5);
        check_each(at[4] == '#' && strstr(all, id), "a reference to nothing: %.60s", at);
    }
    ck_assert(strncmp(all, "<!DOCTYPE html>\n<html lang=\"en\">", 32) == 0 && strstr(all, "@media print"));
    for (const char *at = all; (at = strstr(at, "<svg ")); at++) {
        const char *end = strchr(at, '>');
        check_each(strncmp(at + 5, "aria-label=\"", 12) == 0 && at[17] != '"' &&
                       strstr(at, "role=\"img\"") < end,
                   "a picture without words: %.80s", at);
    }
}

TEST(every_gate_has_an_invariant_with_a_text)
{
    int labs = 0;
    for (int32_t lab = 0; lab < 100; lab++) {
        struct err e = {0};
        if (!lab_find(lab, &e))
            continue;
        int32_t n, count = 0;
        const struct lab_gate *g = lab_gates(lab, &n);
        FREED char *name = xasprintf("tests/labs/L%d/README.md", lab), *readme = file_text(name);
        labs++;
        for (int32_t i = 0; i < n; i++) {
            FREED char *says = lab_invariant(lab, g[i].invariant);
            ck_assert_msg(strlen(g[i].name) <= 42, "too wide: %s", g[i].name);
            ck_assert_msg(says && strlen(says) > 10 && !strchr(says, '\n') && !strstr(says, "  "),
                          "lab %d, gate %d: '%s'", lab, g[i].number, says ? says : "no text");
            FREED char *begin = xasprintf("\n%d. %.20s", g[i].invariant, says);
            ck_assert_msg(strstr(readme, begin), "%s has not '%s'", name, begin);
        }
        for (char *says; (says = lab_invariant(lab, count + 1)); count++)
            free(says);
        FREED char *behind = lab_invariant(lab, count + 1);
        ck_assert(count >= 2 && !behind);
    }
    ck_assert_int_ge(labs, 5);
}

/* A tree that is as wide as they come: its edges are drawn twice, those that differ are marked, and nothing is lost. */
TEST(assignments_are_drawn_side_by_side)
{
    enum { NODES = 80 };
    int parent[NODES], queries[NODES];
    int64_t len[NODES];
    unsigned char yours[NODES] = {0}, least[NODES] = {0};
    for (int i = 0; i < NODES; i++) {
        parent[i] = i == 0 || i == 40 ? -1 : i < 8 ? i - 1 : i % 8;
        queries[i] = 1 + i % 3;
        len[i] = 10 + i;
        yours[i] = i % 5 == 1 && parent[i] >= 0;
        least[i] = i % 5 == 1 && parent[i] >= 0 && i < 60;
    }
    const struct lab_shape shape = {NODES, parent, len, queries};
    char *all = NULL;
    size_t size;
    FILE *f = open_memstream(&all, &size);
    lab4_draw(f, &shape, (const unsigned char *const[]){yours, least}, (const double[]){12, 11});
    ck_assert_int_eq(fclose(f), 0);
    check_markup(all);
    ck_assert_int_eq(times(all, " differs\""), 2 * 4);
    ck_assert_int_eq(times(all, "class=\"joined") + times(all, "class=\"apart"), 2 * (NODES - 2));
    ck_assert_int_eq(times(all, "class=\"joined"), 16 + 12);
    ck_assert(strstr(all, ">Yours: 12<") && strstr(all, ">The least: 11<") &&
              strstr(all, "join[61] should be 0"));
    free(all);
}

FROM_HERE(with_program, .wanted = program_built)

/* Of what is handed out: gates, words, invariants, and what to do. The solution's says that all is well. */
TEST(pages_are_whole_and_stand_alone)
{
    glob_t found;
    ck_assert(glob("tests/labs/L*/lab.c", 0, NULL, &found) == 0);
    ck_assert(glob("tests/labs/L*/answers.txt", GLOB_APPEND, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i];
        int lab = atoi(strstr(file, "/L") + 2);
        FREED char *all = page(file, lab, "--seed 5"), *again = page(file, lab, "--seed 5"),
                   *command = xasprintf("treeattn lab %d %s --seed 5</pre>", lab, file);
        ck_assert_msg(strcmp(all, again) == 0, "%s: two runs, two pages", file);
        check_markup(all);
        check_alone(all);
        int32_t n;
        const struct lab_gate *g = lab_gates(lab, &n);
        ck_assert_int_eq(
            times(all, "<tr><th scope=\"row\">") + times(all, "<tr class=\"lost\"><th scope=\"row\">"), n);
        ck_assert_int_eq(times(all, "<section id=\"gate-"), times(all, "<tr class=\"lost\">"));
        ck_assert_msg(times(all, "<section id=\"gate-") > 0 && strstr(all, "<dt>got</dt>"), "%s", all);
        ck_assert_msg(strstr(all, command), "%s has not %s", all, command);
        for (int32_t k = 0; k < n; k++) {
            FREED char *invariant = xasprintf("<li id=\"invariant-%d\">", g[k].invariant);
            ck_assert(strstr(all, g[k].name) && strstr(all, invariant));
        }
    }
    globfree(&found);
    FREED char *timed = page("tests/labs-wrong/L7/L7-uncut.c", 7, "");
    ck_assert_msg(strstr(timed, "<p>time / treeattn: <b>1."), "%.1200s", strstr(timed, "<h1>"));
    FREED char *good = page("tests/labs-solved/L1.c", 1, "");
    check_markup(good);
    ck_assert(strstr(good, "15 of 15 points") && !strstr(good, "<section") && !strstr(good, "lost\""));
}

/* Of a name, of what is printed before a crash, and of what a compiler says. */
TEST(what_a_student_writes_is_no_markup)
{
    FREED char *folder = scratch_folder(), *file = xasprintf("%s/<b onclick=x>'\"&`$(x)\n.c", folder),
               *quoted = xasprintf("\"$(printf '%%b' '%s/<b onclick=x>\\0047\"&`$(x)\\n.c')\"", folder);
    static const char code[] =
        "#include \"lab.h\"\n#include <stdio.h>\n"
        "static void leave(void)\n{\n    fprintf(stderr, \"</dd><script>alert(1)</script>\\\"&\");\n"
        "    abort();\n}\n"
        "void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, "
        "float *o, float *lse)\n{\n    leave();\n}\n"
        "void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)\n{\n    leave();\n}\n";
    write_bytes(file, code, strlen(code));
    FREED char *all = page(quoted, 1, "");
    check_markup(all);
    check_alone(all);
    ck_assert_msg(strstr(all, "&lt;/dd&gt;&lt;script&gt;alert(1)"), "%s", all);
    ck_assert_msg(strstr(all, "/&lt;b onclick=x&gt;'&quot;&amp;`$(x)?.c</code>, seed 1"), "%s", all);
    ck_assert(!strstr(all, "<b onclick") && !strstr(all, "<script"));
}

/* A page is written whole or not at all. */
TEST(a_page_is_written_or_not)
{
    FREED char *folder = scratch_folder();
    int code;
    code =
        run_shell(text, sizeof text, "%s lab 1 tests/labs-solved/L1.c --html README.md 2>&1", program_path());
    ck_assert_msg(code == 2 && strstr(text, "README.md") && strchr(text, '\n')[1] == 0, "%s", text);
    code = run_shell(text, sizeof text, "%s lab 1 tests/labs-solved/L1.c --html %s/no/folder 2>&1",
                     program_path(), folder);
    ck_assert_msg(code == 2 && strchr(text, '\n')[1] == 0, "%s", text);
    code = run_shell(text, sizeof text, "%s lab 1 tests/labs-solved/L1.c --html %s/new && ls %s/new %s",
                     program_path(), folder, folder, folder);
    ck_assert_msg(code == 0 && strstr(text, "lab1.html") && !strstr(text, ".tmp"), "%s", text);
}

/* Of a case that nobody may see there is neither a word nor a picture. */
TEST(a_page_tells_nothing_of_the_secret_seed)
{
    FREED char *folder = scratch_folder(),
               *options = xasprintf("--seed 918273645 --gradescope %s/results.json", folder),
               *all = page("tests/labs-wrong/cheats/cheat-table.c", 1, options);
    check_markup(all);
    ck_assert(strstr(all, "fails on a hidden one") && strstr(all, "NUMBERS") &&
              strstr(all, "one that is not told"));
    ck_assert(!strstr(all, "918273645") && !strstr(all, "<dt>checked</dt>") && !strstr(all, "<dt>got</dt>"));
    ck_assert(!strstr(all, "<svg"));
}

/* The page of a wrong solution, and the part of it that is about a gate: from its heading to the next one; the caller frees. */
static char *part_of(const char *file, int lab, int gate)
{
    FREED char *all = page(file, lab, ""), *mark = xasprintf("<section id=\"gate-%d\">", gate);
    check_markup(all);
    check_alone(all);
    const char *at = strstr(all, mark);
    ck_assert_msg(at, "%s passes gate %d", file, gate);
    return xasprintf("%.*s", (int)(strstr(at, "</section>") - at), at);
}

/* What is said to be wrong is drawn. */
TEST(pictures_show_what_is_wrong)
{
    FREED char *scores = part_of("tests/labs-wrong/L1-attend/L1-max-from-minus-10000.c", 1, 4),
               *random = part_of("tests/labs-wrong/L1-attend/L1-log2.c", 1, 1),
               *mean = part_of("tests/labs-wrong/L1-merge/L1-mean.c", 1, 7),
               *bits = part_of("tests/labs-wrong/L1-merge/L1-not-the-bits.c", 1, 9),
               *bytes = part_of("tests/labs-wrong/L2/L2-k-alone.c", 2, 5),
               *hand = part_of("tests/labs-wrong/L2/L2-hand-k-alone.c", 2, 3),
               *rows = part_of("tests/labs-wrong/L2/L2-rows-of-queries.c", 2, 11),
               *leak = part_of("tests/labs-wrong/L3/L3-below-shown.c", 3, 3),
               *padded = part_of("tests/labs-wrong/L3/L3-node.c", 3, 8),
               *edges = part_of("tests/labs-wrong/L4/L4-one-pass.c", 4, 2),
               *masks = part_of("tests/labs-wrong/L5-numbers/L5-mask-of-the-tile.c", 5, 6),
               *race = part_of("tests/labs-wrong/L5-threads/L5-no-barrier-after-tile.c", 5, 3),
               *room = part_of("tests/labs-wrong/L5-threads/L5-all-tokens-in-shared.c", 5, 8),
               *quiz = part_of("tests/labs/L0/answers.txt", 0, 4);
    ck_assert_int_eq(times(scores, "class=\"score\""), 2);
    ck_assert_int_eq(times(scores, "class=\"wrong\""), 2);
    ck_assert(strstr(scores, ">-inf<") && strstr(scores, ">nan<") && !strstr(scores, "-nan"));
    ck_assert_int_eq(times(random, "class=\"wrong\""), 1); /* LSE alone */
    ck_assert_int_eq(times(mean, ">0.5 in your O<"), 2);
    ck_assert(strstr(bits, "not the bits"));
    long long got, should;
    const char *numbers = strstr(bytes, "<dt>got</dt><dd>");
    ck_assert(numbers && sscanf(numbers, "<dt>got</dt><dd>%lld, should be %lld", &got, &should) == 2);
    FREED char *yours = xasprintf("data-bytes=\"%lld\"", got),
               *right = xasprintf("data-bytes=\"%lld\"", should);
    ck_assert_msg(2 * got == should && strstr(bytes, yours) && strstr(bytes, right) &&
                      strstr(bytes, "class=\"floor\""),
                  "%s", bytes);
    ck_assert_msg(!strstr(hand, "<svg") && strstr(hand, "tree C: too small, half of what it should be"), "%s",
                  hand);
    ck_assert(strstr(rows, "class=\"padding\"") && strstr(leak, "class=\"wrong\"") &&
              strstr(leak, "This plan is wrong"));
    ck_assert(strstr(padded, "class=\"padding\"") && !strstr(padded, "is wrong"));
    ck_assert(strstr(edges, ">Yours: 342<") && strstr(edges, ">The least: 316<") &&
              times(edges, " differs\"") == 4);
    ck_assert_int_eq(times(masks, "class=\"wrong\""), 1); /* row 1 of 2 */
    ck_assert(times(masks, "class=\"hidden\"") == 1 && times(masks, "class=\"tile\"") == 4 &&
              strstr(masks, "class=\"padding\""));
    /* both orders: two threads, two steps, two barriers each */
    ck_assert(times(race, "class=\"wrong\"") == 4 && times(race, "class=\"barrier\"") == 4 &&
              strstr(race, "against invariant 7"));
    ck_assert(strstr(room, "class=\"tile\"") && !strstr(room, "class=\"wrong\""));
    ck_assert(strstr(quiz, "groups of deft-flatten") && strstr(quiz, "class=\"pairs\""));
}
