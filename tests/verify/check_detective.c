/*
 * check_detective.c - lab 6: no two faults of its list are alike, and none shows on a tree of fewer tokens than the list says.
 */
#include "verify/lab/detective/suspects.h"

#include "ref/rng.h"

#include "tests/auto.h"
#include "tests/json_read.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>

/* Heads, elements, pages, fills and scales that a student may choose. */
static const char *const with[] = {
    "heads=1/1;d=1;page=1",
    "heads=1/1;d=3;page=2;seed=2",
    "heads=4/2;d=4;page=4",
    "heads=6/3;d=5;page=3;seed=3",
    "heads=6/3;d=8;page=1;scale=1",
    "heads=1/1;d=8;fill=huge",
    "heads=2/2;d=5;fill=sunk;page=2",
    "heads=1/1;d=4;fill=sunk;scale=0.012",
    "heads=1/1;d=4;fill=sunk;scale=0.001",
    "heads=8/4;d=6;fill=identical;seed=4",
    "heads=2/1;d=7;fill=onehot",
    "heads=2/1;d=6;fill=count;page=2",
};

enum { N_WITH = sizeof with / sizeof with[0], MOST_TEXTS = 1 << 14, MOST_NODES = 3 };

static char *texts[MOST_TEXTS];
static int32_t n_texts;

static void add_text(char *text)
{
    ck_assert(n_texts < MOST_TEXTS);
    texts[n_texts++] = text;
}

static void forget_texts(void)
{
    while (n_texts > 0)
        free(texts[--n_texts]);
}

/* All forests of so many tokens in n nodes, of which parent and length of the first `made` stand in `nodes`; two queries stand
 * anywhere in the last two nodes. */
static void add_trees(const char *nodes, int32_t made, int32_t n, const int64_t *len, int64_t left)
{
    if (made >= n) {
        for (int32_t a = 0; left == 0 && a < n; a++)
            for (int64_t upto = 0; upto <= len[a]; upto++)
                add_text(xasprintf("tree=nodes:%s:%" PRId32 ".%" PRId64 ",%" PRId32 ".%" PRId64, nodes, a,
                                   upto, n - 1, len[n - 1]));
        return;
    }
    for (int32_t parent = -1; parent < made; parent++)
        for (int64_t tokens = 0; tokens <= left; tokens++) {
            int64_t more[MOST_NODES + 1] = {0};
            memcpy(more, len, sizeof more);
            more[made] = tokens;
            char *text = xasprintf("%s%s%" PRId32 ".%" PRId64, nodes, made ? "," : "", parent, tokens);
            add_trees(text, made + 1, n, more, left - tokens);
            free(text);
        }
}

static bool fails(const char *tree, const char *how, const struct suspect_fault *f)
{
    struct suspect_case c;
    struct err e = {0};
    char *text = xasprintf("%s;%s", tree, how);
    ck_assert_msg(suspect_case_open(text, &c, &e), "%s: %s", text, e.msg);
    struct output *out = suspect_run(&c, f);
    bool bad = !suspect_passes(&c, out);
    output_free(out);
    suspect_case_close(&c);
    free(text);
    return bad;
}

/* The first of all trees of so many tokens on which the fault shows, or NULL. */
static const char *shows_on(const struct suspect_fault *f, int64_t tokens)
{
    static char found[256];
    for (int32_t n = 1; n <= (tokens > 3 ? 1 : MOST_NODES); n++) {
        int64_t none[MOST_NODES + 1] = {0};
        add_trees("", 0, n, none, tokens);
        for (int32_t i = 0; i < n_texts; i++)
            for (int k = 0; k < N_WITH; k++)
                if (fails(texts[i], with[k], f)) {
                    snprintf(found, sizeof found, "%s;%s", texts[i], with[k]);
                    forget_texts();
                    return found;
                }
        forget_texts();
    }
    return NULL;
}

TEST(the_least_tokens_of_a_fault_are_the_least)
{
    int32_t n;
    const struct suspect_fault *all = suspect_faults(&n);
    for (int32_t i = 0; i < n; i++) {
        for (int64_t tokens = 0; tokens < all[i].least; tokens++) {
            const char *on = shows_on(&all[i], tokens);
            ck_assert_msg(!on, "%s shows on %s", all[i].name, on);
        }
        ck_assert_msg(shows_on(&all[i], all[i].least) != NULL, "%s shows on no tree of %d tokens",
                      all[i].name, (int)all[i].least);
    }
}

static bool differ(const struct suspect_case *c, const struct suspect_fault *a, const struct suspect_fault *b)
{
    struct output *x = suspect_run(c, a), *y = suspect_run(c, b);
    bool other = false;
    for (int64_t i = 0; i < x->n_rows * x->d && !other; i++) {
        double p = ((const double *)x->o)[i], q = ((const double *)y->o)[i];
        other = isnan(p) != isnan(q) || fabs(p - q) > 1e-6 * fmax(1, fabs(p));
    }
    for (int64_t i = 0; i < x->n_rows && !other; i++) {
        double p = output_lse(x, i), q = output_lse(y, i);
        other = isnan(p) != isnan(q) || (p != q && !(fabs(p - q) <= 1e-6 * fmax(1, fabs(p))));
    }
    output_free(x);
    output_free(y);
    return other;
}

TEST(no_two_faults_are_alike)
{
    static const char *const trees[] = {"tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4,0.2",
                                        "tree=nodes:-1.7,0.3,1.2:2.2,0.4", "tree=nodes:-1.1,0.1:1.1"};
    int32_t n;
    const struct suspect_fault *all = suspect_faults(&n);
    bool *apart = xcalloc((size_t)(n * n), 1);
    for (size_t t = 0; t < sizeof trees / sizeof trees[0]; t++)
        for (int k = 0; k < N_WITH; k++) {
            char *text = xasprintf("%s;%s", trees[t], with[k]);
            struct suspect_case c;
            ck_assert(suspect_case_open(text, &c, NULL));
            for (int32_t i = 0; i < n; i++)
                for (int32_t j = 0; j < i; j++)
                    apart[i * n + j] = apart[i * n + j] || differ(&c, &all[i], &all[j]);
            suspect_case_close(&c);
            free(text);
        }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++)
            ck_assert_msg(apart[i * n + j], "%s and %s are alike", all[i].name, all[j].name);
    free(apart);
}

/* A case of up to four nodes, drawn. */
static char *drawn_case(uint64_t seed)
{
    static const char *const heads[] = {"1/1", "2/1", "4/2", "6/3", "8/1", "3/3"}, *const fills[] = {
                                                                                       "random",    "count",
                                                                                       "huge",      "sunk",
                                                                                       "identical", "onehot"};
    static const int64_t lens[] = {0, 1, 1, 2, 3, 5, 9};
    uint64_t at = 0;
    int64_t n = 1 + rng_below(seed, 1, at++, 4), len[4];
    char *tree = xstrdup("tree=nodes:");
    for (int64_t i = 0; i < n; i++) {
        len[i] = lens[rng_below(seed, 1, at++, 7)];
        xappend(&tree, "%s%" PRId64 ".%" PRId64, i ? "," : "", rng_below(seed, 1, at++, i + 1) - 1, len[i]);
    }
    for (int64_t q = 0; q < 2; q++) {
        int64_t node = rng_below(seed, 1, at++, n);
        xappend(&tree, "%s%" PRId64 ".%" PRId64, q ? "," : ":", node,
                rng_below(seed, 1, at++, len[node] + 1));
    }
    xappend(&tree, ";heads=%s;fill=%s;d=%" PRId64 ";page=%" PRId64 ";seed=%" PRIu64,
            heads[rng_below(seed, 1, at, 6)], fills[rng_below(seed, 2, at, 6)], 1 + rng_below(seed, 3, at, 8),
            1 + rng_below(seed, 4, at, 4), seed);
    return tree;
}

/* What a hint says a fault never does, it does on no drawn case either. */
TEST(what_a_fault_never_does_it_never_does)
{
    int32_t n, cases = (int32_t)fewer(100, 4000);
    const struct suspect_fault *all = suspect_faults(&n);
    bool(*has)[N_SUSPECT_TRAITS] = xcalloc((size_t)n, sizeof *has);
    for (int32_t i = 0; i < n; i++)
        suspect_traits(&all[i], has[i]);
    for (int32_t k = 0; k < cases; k++) {
        char *text = drawn_case((uint64_t)k);
        struct suspect_case c;
        struct err e = {0};
        ck_assert_msg(suspect_case_open(text, &c, &e), "%s: %s", text, e.msg);
        for (int32_t i = 0; i < n; i++) {
            bool does[N_SUSPECT_TRAITS] = {false};
            suspect_traits_on(&c, &all[i], does);
            for (int t = 0; t < N_SUSPECT_TRAITS; t++)
                ck_assert_msg(!does[t] || has[i][t], "%s %s: %s", all[i].name, suspect_trait_says[t], text);
        }
        suspect_case_close(&c);
        free(text);
    }
    free(has);
}

/* Each suspect has a fault of a family of its own, and every fault is drawn for somebody. */
TEST(suspects_are_drawn_from_all_faults)
{
    int32_t n;
    const struct suspect_fault *all = suspect_faults(&n), *of[SUSPECTS];
    bool *drawn = xcalloc((size_t)n, 1);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        suspects_draw(seed, of);
        for (int i = 0; i < SUSPECTS; i++) {
            drawn[of[i] - all] = true;
            for (int k = 0; k < i; k++)
                ck_assert(of[i]->family != of[k]->family);
        }
    }
    for (int32_t i = 0; i < n; i++)
        ck_assert_msg(drawn[i], "%s is nobody's", all[i].name);
    free(drawn);
}

/* ---- the program ---------------------------------------------------------------------------------------- */

static char text[1 << 16];

/* What stands behind "# key: " in the head of a file, or NULL; the caller frees. */
static char *said(const char *file, const char *key)
{
    FREED char *all = file_text(file), *mark = xasprintf("# %s: ", key);
    const char *at = strstr(all, mark);
    return at ? xasprintf("%.*s", (int)strcspn(at + strlen(mark), "\n"), at + strlen(mark)) : NULL;
}

/* Gates that were lost, "1 2"; the caller frees. */
static char *lost_gates(const json_t *o)
{
    char *lost = xstrdup("");
    size_t k;
    json_t *gate;
    json_array_foreach(json_object_get(o, "gates"), k,
                       gate) if (strcmp(json_string_value(json_object_get(gate, "code")), "OK") != 0)
        xappend(&lost, "%s%d", *lost ? " " : "", (int)k + 1);
    return lost;
}

FROM_HERE(with_program, .wanted = program_built)

/* The solution uses what a student has. */
TEST(who_compares_finds_all_suspects)
{
    int ids = getenv("TREEATTN_QUICK") ? 2 : 20;
    FREED char *folder = scratch_folder();
    for (int i = 0; i < ids; i++) {
        int code = run_shell(text, sizeof text,
                             "tests/labs-solved/L6.sh %s student-%d %s/answers >%s/found.csv && "
                             "%s lab 6 %s/found.csv --id student-%d 2>&1",
                             program_path(), i, folder, folder, program_path(), folder, i);
        ck_assert_msg(code == 0 && strstr(text, "15 of 15 points"), "student-%d: %s", i, text);
    }
}

TEST(wrong_files_lose_what_they_say)
{
    glob_t found;
    ck_assert(glob("tests/labs-wrong/L6/*.csv", 0, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i];
        FREED char *id = said(file, "id"), *loses = said(file, "loses"), *says = said(file, "says"),
                   *refused = said(file, "refused");
        ck_assert_msg(id && (loses || refused), "%s has no head", file);
        int code = run_shell(text, sizeof text, "%s lab 6 %s --id %s --json 2>&1", program_path(), file, id);
        if (refused) { /* in one line, and in JSON */
            const char *json = strstr(text, "\n{");
            AUTO(json_t) o = json_loads(json ? json + 1 : "", 0, NULL);
            ck_assert_msg(code == 2 && json && strchr(text, '\n') == json && strstr(text, refused) < json,
                          "%s: %s", file, text);
            ck_assert_msg(o && strstr(word_of(o, "refused"), refused), "%s: %s", file, text);
            continue;
        }
        AUTO(json_t) o = json_loads(text, 0, NULL);
        ck_assert_msg(code == 1 && o != NULL, "%s: %s", file, text);
        FREED char *lost = lost_gates(o);
        ck_assert_msg(strcmp(lost, loses) == 0, "%s loses %s, expected %s: %s", file, lost, loses, text);
        ck_assert_msg(!says || strstr(text, says), "%s does not say: %s\n%s", file, says, text);
    }
    globfree(&found);
}

/* A hint is about a suspect and a name: both were run on the same cases. What it says must hold, whatever the case. */
TEST(hints_are_true)
{
    FREED char *folder = scratch_folder();
    int32_t n, told = 0;
    const struct suspect_fault *all = suspect_faults(&n), *of[SUSPECTS];
    suspects_draw(5, of);
    for (int32_t i = 0; i < n; i++) {
        run_shell(text, sizeof text,
                  "printf 'suspect,fault,case\\n1,%s,-\\n' >%s/f.csv; %s lab 6 %s/f.csv --seed 5",
                  all[i].name, folder, program_path(), folder);
        char *why = strstr(text, "why: ");
        if (!why)
            continue;
        told++;
        *strchr(why, '\n') = 0;
        bool of_named = strstr(why, "this one in none") != NULL;
        const struct suspect_fault *never = of_named ? of[0] : &all[i];
        const char *how = strstr(why, "one KV head") ? "heads=4/1;d=5;seed=9"
                          : strstr(why, "one token") ? "heads=4/2;d=5;seed=9"
                                                     : "heads=6/3;d=5;seed=9";
        const char *tree = strstr(why, "one token")  ? "tree=nodes:-1.1:0.1"
                           : strstr(why, "one node") ? "tree=nodes:-1.9:0.9,0.4"
                                                     : "tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4,0.2";
        FREED char *whole = xasprintf("%s;%s", tree, how);
        struct suspect_case c;
        ck_assert(suspect_case_open(whole, &c, NULL));
        struct output *out = suspect_run(&c, never);
        bool lse = strstr(why, "changes LSE") != NULL, o = strstr(why, "changes O") != NULL, bad = false;
        for (int64_t r = 0; r < out->n_rows; r++)
            for (int32_t e = -1; e < out->d; e++)
                bad = bad || ((e < 0 ? !o : !lse) && !suspect_right_at(&c, out, r, e));
        ck_assert_msg(!bad, "%s against %s, on %s: %s", all[i].name, of[0]->name, whole, why);
        output_free(out);
        suspect_case_close(&c);
    }
    ck_assert_int_ge(told, n / 3);
}

TEST(a_suspect_answers_with_numbers_alone)
{
    int32_t n;
    const struct suspect_fault *all = suspect_faults(&n);
    for (int k = 1; k <= SUSPECTS; k++) {
        run_shell(text, sizeof text,
                  "%s lab 6 --id alice --suspect %d --case 'tree=nodes:-1.3,0.2,1.4:2.4,1.2;heads=6/3' 2>&1",
                  program_path(), k);
        for (int32_t i = 0; i < n; i++)
            ck_assert_msg(!strstr(text, all[i].name) && !strstr(text, all[i].says), "%s", text);
    }
    int code =
        run_shell(text, sizeof text, "%s lab 6 --suspect scale_missing --case 'tree=nodes:-1.1:0.1;scale=1'",
                  program_path());
    ck_assert_msg(code == 0 && strstr(text, "fault scale_missing: PASS, 0 of 4 rows are wrong"), "%s", text);
    FREED char *readme = file_text("tests/labs/L6/README.md"), *count = xasprintf("lists %d faults", (int)n);
    ck_assert(strstr(readme, count));
    static const char *const bad[][2] = {
        {"--suspect 7 --case tree=nodes:-1.1:0.1", "--suspect"},
        {"--suspect 1", "--case is missing"},
        {"--case tree=nodes:-1.1:0.1", "--suspect is missing"},
        {"--suspect 1 --case tree=gen:bushy:1", "the tree of the case"},
        {"--id a --seed 3 --suspect 1 --case tree=nodes:-1.1:0.1", "--id and --seed (expected one of them)"},
        {"--json --suspect 1 --case tree=nodes:-1.1:0.1", "a suspect's answer is no report"},
        {"found.csv --suspect 1 --case tree=nodes:-1.1:0.1", "a file and a suspect (expected one of them)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        code = run_shell(text, sizeof text, "%s lab 6 %s 2>&1", program_path(), bad[i][0]);
        const char *line = strchr(text, '\n');
        ck_assert_msg(code == 2 && line && !line[1] && strstr(text, bad[i][1]), "%s: %s", bad[i][0], text);
    }
    code = run_shell(text, sizeof text,
                     "printf 'suspect,fault,case\\n1,a\\0b,-\\n' | %s lab 6 /dev/stdin 2>&1", program_path());
    ck_assert_msg(code == 2, "%s", text);
}
