/*
 * check_suites.c - suites stay what they were when they were released; runs in parts, stopped and gone on with, come to the
 * same; what is written for other programs can be read by them.
 */
#include "traces/formats/formats.h"
#include "verify/report/known.h"
#include "verify/report/rows.h"
#include "verify/suites/suites.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <jansson.h>
#include <unistd.h>

static char text[1 << 18];

/* What verify prints in `text`; its exit code. */
static int verify(const char *env, const char *args)
{
    return run_shell(text, sizeof text, "%s %s verify %s --no-shrink 2>&1", env, program_path(), args);
}

TEST(digests_are_those_of_the_standard)
{
    static const char *const all[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
    char out[SHA256_TEXT];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_str_eq(sha256_text(all[i][0], strlen(all[i][0]), out), all[i][1]);
    FREED char *million = xmalloc(1000000);
    memset(million, 'a', 1000000);
    ck_assert_str_eq(sha256_text(million, 1000000, out),
                     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sha256_text(million, 55, out); /* the last that leaves room for the length, and the first that does not */
    ck_assert_int_eq(strncmp(out, "9f4390f8d30c2dd9", 16), 0);
    sha256_text(million, 56, out);
    ck_assert_int_eq(strncmp(out, "b35439a4ac6f0948", 16), 0);
}

/* What was released: RELEASED(name, cases, digest of the file, digest of the trees that its cases mean). Whoever changes a suite
 * gives it a new name; whoever changes what a generator draws has changed full-1. */
static const struct released {
    const char *name;
    int64_t cases;
    const char *sha256, *trees;
} released[] = {
#define RELEASED(name, cases, sha256, trees) {name, cases, sha256, trees},
#include "tests/verify/released.def"
#undef RELEASED
};
enum { N_RELEASED = sizeof released / sizeof released[0] };

/* All trees of a suite, as lists of nodes. */
static void digest_trees(const struct suite *s, int64_t *n, char out[SHA256_TEXT])
{
    struct case_spec *list;
    struct err e = {0};
    char *all = NULL;
    size_t size;
    ck_assert_msg(suite_cases(s, &list, n, &e), "%s", e.msg);
    FILE *f = open_memstream(&all, &size);
    for (int64_t i = 0; i < *n; i++) {
        AUTO(tree) t = tree_source_load(&list[i].src, &e);
        check_each(t, "%s: %s", s->name, e.msg);
        CLEARED_BY(tree_source_clear) struct tree_source nodes = tree_source_from_tree(t);
        fprintf(f, "%s\n", nodes.text);
        case_clear(&list[i]);
    }
    fclose(f);
    sha256_text(all, size, out);
    free(all);
    free(list);
}

TEST(released_suites_stay_as_they_are)
{
    ck_assert_int_eq(N_RELEASED, n_suites);
    for (int i = 0; i < N_RELEASED; i++) {
        struct err e = {0};
        char file[SHA256_TEXT], trees[SHA256_TEXT];
        int64_t n;
        const struct suite *s = suite_find(released[i].name, &e);
        ck_assert_msg(s, "%s", e.msg);
        FREED char *path = xasprintf("verify/suites/%s.txt", s->name), *there = file_text(path);
        suite_sha256(s, file);
        ck_assert_int_eq(s->end - s->begin, (int64_t)strlen(there));
        ck_assert_msg(memcmp(there, s->begin, strlen(there)) == 0, "%s is not what is in the program", path);
        digest_trees(s, &n, trees);
        ck_assert_msg(n == released[i].cases && strcmp(file, released[i].sha256) == 0 &&
                          strcmp(trees, released[i].trees) == 0,
                      "%s was released; another list of cases is another suite (now RELEASED(\"%s\", %lld, \"%s\", \"%s\"))",
                      s->name, s->name, (long long)n, file, trees);
    }
}

/* A case stands once in a suite, and prints as itself. */
TEST(suites_have_no_case_twice)
{
    for (int32_t i = 0; i < n_suites; i++) {
        struct case_spec *list;
        struct err e = {0};
        int64_t n;
        ck_assert_msg(suite_cases(&suites[i], &list, &n, &e), "%s", e.msg);
        char **print = xcalloc((size_t)n, sizeof *print);
        for (int64_t k = 0; k < n; k++) {
            print[k] = case_print(&list[k]);
            case_clear(&list[k]);
        }
        for (int64_t k = 0; k < n && n < 1000; k++)
            for (int64_t l = 0; l < k; l++)
                check_each(strcmp(print[k], print[l]) != 0, "%s: %s", suites[i].name, print[k]);
        for (int64_t k = 0; k < n; k++)
            free(print[k]);
        free(print);
        free(list);
    }
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

/* The plug-in of a README takes f32: a suite asks it for shapes and features in the type that it has. */
TEST(suites_are_asked_in_types_that_a_kernel_takes)
{
    FREED char *args = xasprintf("--suite smoke-1 --plugin %s --csv", plugin_path("shown")),
               *given = xasprintf("--suite smoke-1 --plugin %s --dtype f16 -q", plugin_path("shown"));
    ck_assert_msg(verify("", args) == 0 && strstr(text, ",PASS,"), "%s", text);
    ck_assert_msg(!strstr(text, "does not take f16") && strstr(text, "it has no sinks"), "%s", text);
    ck_assert_msg(verify("", given) == 3 && strstr(text, "it does not take f16"), "%s", text);
}

#define NO_TIMES "cut -d, -f1-14,17-"
#define NO_DATES "sed 's/\"[a-z]*_ms\":[^,]*//g; s/,\"date\":\"[^\"]*\"//' "
#define NO_NOTES "sed '/^#/d' "

/* Parts by digest: three are the whole, and none has what another has. */
TEST(parts_of_a_suite_make_a_whole)
{
    FREED char *d = scratch_folder();
    int code = run_shell(text, sizeof text,
                         "rows() { %s verify --suite smoke-1 --kernel naive-c --strategy pat,cascade --csv \"$@\" 2>&1 | "
                         "grep -E '^(pat|cascade)' | " NO_TIMES "; }; rows | sort >%s/whole; "
                         "for k in 1 2 3; do rows --shard $k/3 >%s/$k; test -s %s/$k || echo none in $k; done; "
                         "cat %s/[123] | sort | cmp - %s/whole && wc -l <%s/whole",
                         program_path(), d, d, d, d, d, d);
    ck_assert_msg(code == 0 && strcmp(text, "48\n") == 0, "%s", text);
}

/* Cut anywhere, a file of rows is gone on with, and comes to what an uninterrupted run came to. */
TEST(what_was_stopped_goes_on)
{
    FREED char *d = scratch_folder(), *args = NULL, *csv = NULL, *rows = NULL;
    FREED char *run = xasprintf("--suite smoke-1 --kernel naive-c --strategy pat,cascade -q --report %s/c.csv", d);
    args = xasprintf("%s --rows %s/whole", run, d);
    ck_assert_msg(verify("", args) == 0, "%s", text);
    ck_assert_int_eq(run_shell(text, sizeof text, NO_NOTES "%s/c.csv | " NO_TIMES " >%s/whole.csv", d, d), 0);
    csv = xasprintf("%s/whole", d);
    rows = file_text(csv);
    size_t size = strlen(rows);
    const size_t cut[] = {0, strcspn(rows, "\n") + 1, size / 3, size / 2, size - 1, size};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        FREED char *part = xasprintf("%s/part", d), *again = xasprintf("%s --rows %s/part --resume", run, d);
        write_bytes(part, rows, cut[i]);
        ck_assert_msg(verify("", again) == 0, "%zu: %s", cut[i], text);
        ck_assert_msg(run_shell(text, sizeof text,
                                NO_NOTES "%s/c.csv | " NO_TIMES " | cmp - %s/whole.csv && "
                                NO_DATES "%s/whole >%s/w; " NO_DATES "%s/part | cmp - %s/w",
                                d, d, d, d, d, d) == 0,
                      "%zu: %s", cut[i], text);
    }
    /* of another run, or of nothing that we know */
    FREED char *other = xasprintf("--suite smoke-1 --kernel cpu --strategy pat --rows %s/whole --resume", d),
               *bad = xasprintf("--suite smoke-1 --kernel cpu --rows %s/w.c", d), *mine = xasprintf("%s/w.c", d);
    ck_assert_msg(verify("", other) == 2 && strstr(text, "/whole:1: rows of 'naive-c"), "%s", text);
    write_bytes(mine, "int main(void)\n", 15);
    ck_assert_msg(verify("", bad) == 2 && strstr(text, "/w.c:1: no file of rows"), "%s", text);
    FREED char *still = file_text(mine);
    ck_assert_str_eq(still, "int main(void)\n");
}

/* Lines that no run wrote: file, line, and what was expected. */
TEST(broken_files_of_rows_are_told)
{
#define HEAD "{\"format\":\"treeattn-rows\",\"version\":1,\"treeattn\":\"x\",\"judged\":\"y\"}\n"
    static const struct {
        const char *rows, *says;
    } all[] = {{"{\"format\":\"treeattn-rows\",\"version\":2,\"treeattn\":\"x\",\"judged\":\"y\"}\n", ":1: 'version' (expected"},
               {"[]\n", ":1: no file of rows"},
               {HEAD "nonsense\n", ":2: no row: "},
               {HEAD "{\"row\":1,\"rows\":1}\n", ":2: no text 'from'"},
               {HEAD "{\"from\":\"a\",\"row\":2,\"rows\":2}\n", ":2: row 2 of 2 (expected the rows of a case"},
               {HEAD "{\"from\":\"a\",\"row\":1,\"rows\":99999999999}\n", ":2: 'rows' (expected a whole number"},
               {HEAD "{\"from\":\"a\",\"row\":1,\"rows\":1}\n", ":2: no text 'case'"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *path = scratch_file(all[i].rows, strlen(all[i].rows));
        struct err e = {0};
        struct rows *r = rows_open(&(struct rows_spec){.path = path, .failed_first = true, .judged = "z"}, &e);
        ck_assert_msg(!r && strstr(e.msg, all[i].says), "%s: %s", all[i].rows, e.msg);
        FREED char *still = file_text(path);
        ck_assert_str_eq(still, all[i].rows);
    }
}

TEST(what_failed_comes_first)
{
    FREED char *d = scratch_folder(),
               *args = xasprintf("--suite smoke-1 --plugin %s --rows %s/rows --csv", plugin_path("wrong"), d),
               *again = xasprintf("%s --failed-first -o %s/again", args, d), *fast = xasprintf("%s --fail-fast", args);
    const char *wrong = "WRONG=cap_none";
    ck_assert_msg(verify(wrong, args) == 1, "%s", text);
    ck_assert(verify(wrong, again) == 1);
    ck_assert_int_eq(run_shell(text, sizeof text, NO_NOTES "%s/again | cut -d, -f2 | uniq | tr '\\n' ' '", d), 0);
    ck_assert_msg(strncmp(text, "verdict FAIL ", 13) == 0 && !strstr(text + 13, "FAIL"), "%s", text);
    ck_assert_msg(verify(wrong, fast) == 1 && strstr(text, " 1 failed") && strstr(text, "cases were not run (--fail-fast)"),
                  "%s", text);
}

/* A run that did not do all that it was asked for is not good. */
TEST(time_may_run_out)
{
    ck_assert_msg(verify("", "--suite full-1 --kernel naive-c --max-time 1 -q") == 3 &&
                      strstr(text, " of 2084 cases were not run (--max-time)") && !strstr(text, "no case ran"),
                  "%s", text);
}

/* ---- known failures ------------------------------------------------------------------------------------ */

TEST(known_failures_do_not_count)
{
    static const struct {
        const char *line, *says;
        int code;
        bool right; /* another plug-in is judged */
    } all[] = {{"* NUMBERS 9999-12-31 bug 17", " 0 failed, ", 0},
               {"* * 9999-12-31 bug 17", " known)", 0},
               {"* LSE 9999-12-31 bug 17", ":1: 1 rows fail, none with LSE: bug 17", 1},
               {"* LSE 9999-12-31 bug 17", ":1: passes now, 3 rows: bug 17", 0, true},
               {"*window=9;* NUMBERS 9999-12-31 bug 17", ":1: matches no row that ran: *window=9;*", 1},
               {"* NUMBERS 2020-02-29 bug 17", ":1: expired on 2020-02-29", 1},
               {"*window=9;* NUMBERS 2020-02-29 gone\n* NUMBERS 9999-12-31 bug", " 0 failed, ", 1},
               {"* NUMBERS 9999-12-31", ":1: '*' is cut short (expected PATTERN CODE UNTIL REASON)", 2},
               {"# no more\n\n* NUMBER 9999-12-31 x", ":3: code 'NUMBER' (expected *, or one of NUMBERS, LSE", 2},
               {"* NUMBERS 2027-02-29 x", ":1: day '2027-02-29' (expected the last on which it holds", 2},
               {"* NUMBERS 2027-3-1 x", ":1: day '2027-3-1'", 2}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *path = scratch_file(all[i].line, strlen(all[i].line)),
                   *args = xasprintf("--case 'tree=levels:1,1_20,7;dtype=f32' --plugin %s --known %s",
                                 plugin_path(all[i].right ? "arithmetic" : "wrong"), path);
        int code = verify("WRONG=kv_exchanged", args);
        ck_assert_msg(code == all[i].code && strstr(text, all[i].says), "%s: %d: %s", all[i].line, code, text);
    }
}

TEST(days_and_patterns_are_those_of_the_file)
{
    static const char lines[] = "*;page=16;* LSE 2027-03-31 a\npat/cpu/f16/* * 2027-04-01 b\n";
    FREED char *path = scratch_file(lines, strlen(lines));
    static const struct {
        const char *day, *label, *string, *code;
        bool is;
    } all[] = {{"2027-03-31", "x", "tree=a;page=16;seed=1", "LSE", true},
               {"2027-04-01", "x", "tree=a;page=16;seed=1", "LSE", false},
               {"2027-03-31", "x", "tree=a;page=16;seed=1", "NUMBERS", false},
               {"2027-03-31", "x", "tree=a;page=160;seed=1", "LSE", false},
               {"2027-04-01", "pat/cpu/f16/64x128", "tree=a;seed=1", "CRASH", true},
               {"2027-04-02", "pat/cpu/f16/64x128", "tree=a;seed=1", "CRASH", false}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct err e = {0};
        struct known *k = known_read(path, all[i].day, &e);
        struct row_outcome o = {.verdict = V_FAIL, .label = xstrdup(all[i].label), .string = xstrdup(all[i].string), .why = xstrdup("w")};
        snprintf(o.code, sizeof o.code, "%s", all[i].code);
        ck_assert_msg(k && known_apply(k, &o) == all[i].is && (o.verdict == V_SKIP) == all[i].is, "%zu: %s", i, e.msg);
        outcome_clear(&o);
        known_free(k);
    }
}

/* ---- for other programs -------------------------------------------------------------------------------- */

/* One that passes, fails, is skipped, and is known, with what XML and TAP have to escape. */
static int report_all(const char *d)
{
    FREED char *known = xasprintf("%s/known", d), *cases = xasprintf("%s/cases", d);
    static const char line[] = "*window=9;* NUMBERS 9999-12-31 <&\"'#\\> \xff\x01";
    static const char list[] = "tree=levels:1,3_20,7;dtype=f32\ntree=levels:1,3_20,7;dtype=f32;window=9\n"
                               "tree=levels:1,3_20,7;dtype=f64\n";
    write_bytes(known, line, strlen(line));
    write_bytes(cases, list, strlen(list));
    FREED char *args = xasprintf("--cases %s --known %s --plugin %s --report %s/r.xml --report %s/r.tap --report %s/r.csv "
                                 "--report %s/r.json", cases, known, plugin_path("wrong"), d, d, d, d);
    return verify("WRONG=kv_exchanged", args);
}

TEST(reports_can_be_read)
{
    FREED char *d = scratch_folder(), *tap = xasprintf("%s/r.tap", d);
    ck_assert_msg(report_all(d) == 1, "%s", text);
    if (run_shell(text, sizeof text, "command -v xmllint") == 0)
        ck_assert_msg(run_shell(text, sizeof text, "xmllint --noout --schema tests/verify/junit.xsd %s/r.xml 2>&1", d) == 0,
                      "%s", text);
    ck_assert_int_eq(run_shell(text, sizeof text, "sed -n '2p; /<failure/p; /<skipped/p' %s/r.xml", d), 0);
    ck_assert_msg(strstr(text, "tests=\"3\" errors=\"0\" skipped=\"2\" failures=\"1\"") && strstr(text, "type=\"NUMBERS\"") &&
                      strstr(text, "KNOWN: known until 9999-12-31: &lt;&amp;&quot;'#\\&gt; ??"), "%s", text);
    FREED char *all = file_text(tap);
    ck_assert_msg(strncmp(all, "TAP version 14\n1..3\nnot ok 1 - slots/wrong/f32", 42) == 0, "%s", all);
    ck_assert_msg(strstr(all, "\n  ---\n  code: 'NUMBERS'\n  message: '") && strstr(all, "\n  ...\nnot ok 2 - "), "%s", all);
    ck_assert_msg(strstr(all, " # TODO KNOWN: known until 9999-12-31: <&\"'\\#\\\\>") && strstr(all, "\nok 3 - "), "%s", all);
    ck_assert_msg(strstr(all, " # SKIP UNSUPPORTED: "), "%s", all);
    ck_assert_int_eq(run_shell(text, sizeof text, NO_NOTES "%s/r.csv | cut -d, -f2,3 | tr '\\n' ' '", d), 0);
    ck_assert_str_eq(text, "verdict,code FAIL,NUMBERS SKIP,KNOWN SKIP,UNSUPPORTED ");
}

static json_t *statement(const char *env, const char *args)
{
    FREED char *d = scratch_folder(), *path = xasprintf("%s/s.json", d), *all = xasprintf("%s --statement %s -q", args, path);
    json_error_t e;
    verify(env, all);
    json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    ck_assert_msg(j, "%s: %s", e.text, text);
    return j;
}

static const char *digest_of(const char *name)
{
    for (int i = 0; i < N_RELEASED; i++)
        if (strcmp(released[i].name, name) == 0)
            return released[i].sha256;
    return "";
}

static const char *at(const json_t *j, const char *first, const char *second)
{
    const json_t *x = json_object_get(j, first);
    const char *s = json_string_value(second ? json_object_get(x, second) : x);
    return s ? s : "";
}

TEST(statements_say_what_was_judged)
{
    FREED char *args = xasprintf("--suite smoke-1 --plugin %s", plugin_path("wrong")),
               *part = xasprintf("%s --shard 1/2", args);
    json_t *right = statement("", "--suite softcap-1 --kernel naive-c --strategy pat"),
           *wrong = statement("WRONG=cap_none", args), *again = statement("WRONG=cap_none", args),
           *half = statement("WRONG=cap_none", part);
    ck_assert_str_eq(at(right, "result", NULL), "passed");
    ck_assert_str_eq(at(right, "suite", "sha256"), digest_of("softcap-1"));
    ck_assert_str_eq(at(right, "kernel", "name"), "naive-c");
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(right, "codes"), "OK")), 32);
    ck_assert_str_eq(at(wrong, "result", NULL), "failed");
    ck_assert_int_eq(json_array_size(json_object_get(wrong, "failed")), 1);
    ck_assert_str_eq(at(wrong, "kernel", "name"), "wrong");
    const char *part_of = json_array_size(json_object_get(half, "failed")) > 0 ? "failed" : "incomplete";
    ck_assert_str_eq(at(half, "result", NULL), part_of);
    json_object_del(wrong, "environment");
    json_object_del(again, "environment");
    ck_assert(json_equal(wrong, again));
    json_decref(right);
    json_decref(wrong);
    json_decref(again);
    json_decref(half);
}

/* In pytest: all cases of a suite, a kernel of the process that asks, and what is wrong as an assertion. */
TEST(python_collects_a_suite)
{
    if (run_shell(text, sizeof text, "python3 -c 'import numpy' 2>&1") != 0) {
        printf("skip: no python3 with numpy\n");
        return;
    }
    int code = run_shell(text, sizeof text, "TREEATTN=%s python3 tests/plugin/collects.py 2>&1", program_path());
    ck_assert_msg(code == 0 && strcmp(text, "24 cases: 5 pass, 1 skip\nwrong: NUMBERS\nnone: treeattn: list 'smoke-9'\n") == 0, "%s", text);
}
