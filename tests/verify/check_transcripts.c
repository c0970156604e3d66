/*
 * check_transcripts.c - commands and what they print: tests/transcripts/NAME.txt, and the examples in every README.md and in
 * sim/ACCURACY.md, which is a README as well.
 *
 *     $ build/treeattn plan --heads 3     a command, run by sh at the top of the tree; a \ at the end continues it
 *     group 0 launch 0 *: ...             a line that it prints: words are compared, blanks are not.
 *                                         * is any part of a word, ... in a line is any text
 *     ...                                 any lines, also none
 *     2> treeattn: --heads 3: expected *  a line on stderr, in the order of these
 *     # exit 2                            its exit code, where that is not 0
 *     # needs shared                      skipped where the data of $TREEATTN_SHARED are not here
 *     # slow                              skipped with TREEATTN_QUICK, which sanitizers set
 *
 * All of this is indented by four spaces; other text is prose, and an empty line is nothing. A transcript shows all that
 * its commands print, on both streams. Its commands run one after the other; $T is a folder for their files.
 * A README may leave lines out, and nothing need be marked there: only `$ build/treeattn` and `$ make demo` are run, side
 * by side; what reads DeFT's traces needs shared; decode, selftest and verify are slow. Numbers of commands that depend on
 * the CPU or on the time are any numbers there, and so are totals over all strategies once there is a new strategy.
 */
#include "ref/base.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INDENT = 4, MOST_FILES = 64 };

struct lines {
    char **line;
    int n;
};

struct example {
    int at; /* line of its file */
    char *command;
    struct lines out, err; /* as shown */
    int code;
    bool shared, slow, demo;
    FILE *running; /* its stdout */
};

struct script {
    const char *path;
    bool readme;
    struct example *x;
    int n;
};

/* All of them; found once. */
static glob_t *files(void)
{
    static const char *const where[] = {"tests/transcripts/*.txt", "README.md", "*/README.md",
                                        "*/*/README.md", "sim/ACCURACY.md"};
    static glob_t found;
    static bool looked;
    for (size_t i = 0; !looked && i < sizeof where / sizeof where[0]; i++)
        glob(where[i], i ? GLOB_APPEND : 0, NULL, &found);
    looked = true;
    return &found;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

/* One blank between words, none at the ends. */
static void squeeze(char *line)
{
    char *to = line;
    for (const char *c = line; *c; c++) {
        bool blank = strchr(" \t\r\n", *c) != NULL;
        if (!blank)
            *to++ = *c;
        else if (to > line && to[-1] != ' ')
            *to++ = ' ';
    }
    to -= to > line && to[-1] == ' ';
    *to = 0;
}

static void add_line(struct lines *to, const char *text)
{
    to->line = xrealloc(to->line, (size_t)to->n + 1, sizeof *to->line);
    to->line[to->n] = xstrdup(text);
    squeeze(to->line[to->n]);
    if (to->line[to->n][0])
        to->n++;
    else
        free(to->line[to->n]);
}

static struct lines read_lines(FILE *f)
{
    struct lines x = {0};
    FREED char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, f) > 0)
        add_line(&x, line);
    return x;
}

static void free_lines(struct lines *x)
{
    for (int i = 0; i < x->n; i++)
        free(x->line[i]);
    free(x->line);
}

static bool fits(const char *shown, const char *is)
{
    bool any = begins(shown, "..."), part = *shown == '*';
    if (!any && !part)
        return *shown == *is && (!*shown || fits(shown + 1, is + 1));
    for (;; is++) {
        if (fits(shown + (any ? 3 : 1), is))
            return true;
        if (!*is || (part && *is == ' '))
            return false;
    }
}

/* NULL, or what is wrong; the caller frees. With `some`, lines between those that are shown may be left out. */
static char *lines_differ(const struct lines *shown, const struct lines *is, bool some)
{
    int i = 0, k = 0, gap = some ? 0 : -1, from = 0, best = 0;
    const char *instead = NULL;
    for (; k < is->n || i < shown->n;) {
        if (i < shown->n && strcmp(shown->line[i], "...") == 0) {
            gap = ++i;
            from = k;
        } else if (i < shown->n && k < is->n && fits(shown->line[i], is->line[k])) {
            i++, k++;
            gap = some ? i : gap;
            from = some ? k : from;
        } else {
            if (i >= best) {
                best = i;
                instead = !some && k < is->n ? is->line[k] : NULL;
            }
            if (gap < 0 || from >= is->n)
                break;
            i = gap;
            k = ++from;
        }
    }
    if (i == shown->n && (k == is->n || gap == i))
        return NULL;
    return xasprintf(" shown: %s\nprints: %s", best < shown->n ? shown->line[best] : "(no more)",
                     instead ? instead
                     : some  ? "(no such line after those before it)"
                             : "(no more)");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A line of an example after its command. */
static void add_to(struct example *x, const char *line, bool marked)
{
    char *end;
    if (marked && begins(line, "# exit ")) {
        x->code = (int)strtol(line + strlen("# exit "), &end, 10);
        ck_assert_msg(*end == 0, "%s", line);
    } else if (marked && strcmp(line, "# needs shared") == 0) {
        x->shared = true;
    } else if (marked && strcmp(line, "# slow") == 0) {
        x->slow = true;
    } else if (begins(line, "2> ")) {
        add_line(&x->err, line + strlen("2> "));
    } else {
        add_line(&x->out, line);
    }
}

/* What a README need not mark. */
static void mark(struct example *x)
{
    static const char program[] = "build/treeattn ";
    const char *args = x->command + (begins(x->command, program) ? strlen(program) : 0);
    x->demo = begins(x->command, "make demo");
    x->shared = x->shared || strstr(args, "deft:") || strstr(args, "../shared") || strstr(args, "--workload");
    x->slow = x->slow || begins(args, "decode ") || begins(args, "selftest") || begins(args, "verify ");
}

static struct script read_script(const char *path)
{
    struct script s = {.path = path, .readme = strstr(path, ".md") != NULL};
    FILE *f = fopen(path, "r");
    ck_assert_msg(f, "%s", path);
    FREED char *line = NULL;
    size_t cap = 0;
    struct example *at = NULL; /* the one that lines belong to */
    bool more = false;         /* its command goes on */
    for (int number = 1; getline(&line, &cap, f) > 0; number++) {
        char *text = line + INDENT;
        line[strcspn(line, "\n")] = 0;
        if (line[strspn(line, " ")] == 0)
            continue;
        if (!begins(line, "    ")) {
            at = NULL;
            continue;
        }
        if (more) {
            char *longer = xasprintf("%s %s", at->command, text);
            free(at->command);
            at->command = longer;
        } else if (begins(text, "$ ")) {
            text += strlen("$ ");
            at = NULL;
            if (s.readme && !begins(text, "build/treeattn ") && !begins(text, "make demo"))
                continue;
            s.x = xrealloc(s.x, (size_t)s.n + 1, sizeof *s.x);
            at = &s.x[s.n++];
            *at = (struct example){.at = number, .command = xstrdup(text)};
        } else if (at) {
            add_to(at, text, true);
            continue;
        } else {
            continue;
        }
        size_t length = strlen(at->command);
        more = length > 0 && at->command[length - 1] == '\\';
        if (more)
            at->command[length - 1] = 0;
        else if (s.readme)
            mark(at);
    }
    fclose(f);
    return s;
}

static void free_script(struct script *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->x[i].command);
        free_lines(&s->x[i].out);
        free_lines(&s->x[i].err);
    }
    free(s->x);
}

/* ---- a README's numbers -------------------------------------------------------------------------------------------- */

/* Words that `any` says are *, in place: a word only gets shorter. */
static void hide(char *line, bool (*any)(const char *word, int n))
{
    char *rest = xstrdup(line), *words = rest, *word, *to = line;
    for (int n = 0; (word = strsep(&rest, " ")); n++)
        to += sprintf(to, "%s%s", n ? " " : "", any(word, n) ? "*" : word);
    free(words);
}

static bool is_number(const char *word, int n)
{
    (void)n;
    return strpbrk(word, "0123456789") != NULL;
}

/* The two errors of a strategy's row of `compare`. */
static bool is_error(const char *word, int n)
{
    (void)word;
    return n == 2 || n == 10;
}

static bool is_strategy_row(const char *line)
{
    struct strategy_use use;
    FREED char *word = xstrdup(line);
    word[strcspn(word, " ")] = 0;
    bool is = strategy_parse(word, &use, NULL);
    return is;
}

/* How many strategies the READMEs were written with: "names the N strategies", or "names all N"; 0 where none says so. */
static int told_strategies(void)
{
    static const char *const phrase[] = {"`treeattn list strategies` names the ",
                                         "`treeattn list strategies` names all "};
    int n = 0;
    for (int i = 0; i < 2 && n == 0; i++) {
        FREED char *told = told_from(phrase[i]);
        n = told ? atoi(told + strlen(phrase[i])) : 0;
    }
    return n;
}

/* A new strategy is no reason to be red. */
static bool has_new_strategies(const struct example *x)
{
    int told = told_strategies();
    if (n_strategies == told || told == 0)
        return false;
    printf(
        "skip: the README was written with %d strategies, now there are %d: totals of %s are not compared\n",
        told, (int)n_strategies, x->command);
    return true;
}

static void hide_numbers(struct example *x)
{
    static const char *const the_same[] = {"plan ", "gap ", "sim ", "fit ", "selftest"};
    bool same = x->demo,
         of_all = x->demo || (strstr(x->command, "selftest") && !strstr(x->command, "--strategy"));
    for (size_t i = 0; i < sizeof the_same / sizeof the_same[0]; i++)
        same = same || begins(x->command + strlen("build/treeattn "), the_same[i]);
    bool totals = of_all && has_new_strategies(x);
    for (int i = 0; i < x->out.n; i++) {
        char *line = x->out.line[i];
        if (x->demo && is_strategy_row(line))
            hide(line, is_error);
        else if (!same || (totals && (!x->demo || begins(line, "compare: "))))
            hide(line, is_number);
    }
}

/* ---- running --------------------------------------------------------------------------------------------------------- */

static char *replaced(char *text, const char *what, const char *with)
{
    for (char *at = text; (at = strstr(at, what));) {
        size_t done = (size_t)(at - text) + strlen(with);
        char *longer = xasprintf("%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
        free(text);
        text = longer;
        at = text + done;
    }
    return text;
}

/* Does it run here and now? */
static bool is_wanted(const struct example *x)
{
    FREED char *data = x->shared ? shared_path("traces") : NULL;
    bool here = !x->shared || data, wanted = here && !(x->slow && getenv("TREEATTN_QUICK"));
    if (!wanted)
        printf("skip: %s: %s\n", here ? "in a hurry, and `make check` runs the like" : "no data", x->command);
    return wanted;
}

static void start(struct example *x, const char *folder)
{
    static const char faulty[] = "build/tests/treeattn-faulty";
    static const char all_cases[] =
        "verify -q --seed 7"; /* its totals are not compared, and `make check` runs the like */
    char *command = xstrdup(x->command);
    if (strstr(command, all_cases))
        command = replaced(command, all_cases, "verify -q --seed 7 --trees 5 --no-sharp");
    if (x->demo) {
        free(command);
        command = xstrdup("build/treeattn $(sed -n 's/.*$(PROGRAM) compare/compare/p' Makefile)");
    }
    command = replaced(command, "build/treeattn", program_path());
    if (strstr(command, faulty))
        command = replaced(command, faulty, faulty_path());
    FREED char *all = xasprintf("T='%s'; { %s\n} 2>'%s/%d'", folder, command, folder, x->at);
    x->running = popen(all, "r");
    ck_assert_msg(x->running, "%s", all);
    free(command);
}

/* NULL, or what is not as shown; the caller frees. */
static char *finish(const struct script *s, struct example *x, const char *folder)
{
    struct lines out = read_lines(x->running);
    int status = pclose(x->running), code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    char *path = xasprintf("%s/%d", folder, x->at), *wrong = NULL;
    FILE *f = fopen(path, "r");
    ck_assert_msg(f, "%s", path);
    struct lines err = read_lines(f);
    fclose(f);
    free(path);
    if (s->readme)
        hide_numbers(x);
    FREED char *in_out = lines_differ(&x->out, &out, s->readme),
               *in_err = lines_differ(&x->err, &err, s->readme);
    if (code != x->code || in_out || in_err)
        wrong =
            xasprintf("%s:%d: $ %s\nexit code: %d, expected %d\n%s%s%s%s%s", s->path, x->at, x->command, code,
                      x->code, in_out ? in_out : "", in_out ? "\n" : "", in_err ? "on stderr\n" : "",
                      in_err      ? in_err
                      : err.n > 0 ? err.line[0]
                                  : "",
                      in_err || err.n > 0 ? "\n" : "");
    free_lines(&out);
    free_lines(&err);
    return wrong;
}

FROM_HERE(transcripts, .seconds = 3600)

LOOP_TEST(commands_print_what_is_shown, (int)files()->gl_pathc)
{
    if (!program_built() || _i % fewer(4, 1) != 0)
        return;
    struct script s = read_script(files()->gl_pathv[_i]);
    FREED char *folder = scratch_folder();
    const char *told = getenv("TREEATTN_JOBS");
    int jobs = !s.readme ? 1 : told ? (int)max_i64(atol(told), 1) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    char *first = NULL;
    int bad = 0, next = 0;
    for (int i = 0; i < s.n; i++) {
        for (; next < s.n && next < i + jobs; next++)
            if (is_wanted(&s.x[next]))
                start(&s.x[next], folder);
        char *wrong = s.x[i].running ? finish(&s, &s.x[i], folder) : NULL;
        if (wrong && bad++ > 0)
            printf("%s", wrong);
        if (first)
            free(wrong);
        else
            first = wrong;
    }
    fflush(stdout);
    ck_assert_msg(bad == 0, "%d of %d commands do not do what is shown:\n%s", bad, s.n, first);
    ck_assert_msg(s.readme || s.n > 0, "%s has no command", s.path);
    free_script(&s);
}

TEST(readmes_have_examples)
{
    int examples = 0, lines = 0, demos = 0;
    if (access("README.md", R_OK) != 0)
        return;
    for (size_t i = 0; i < files()->gl_pathc; i++) {
        struct script s = read_script(files()->gl_pathv[i]);
        for (int k = 0; s.readme && k < s.n; k++) {
            examples++;
            lines += s.x[k].out.n;
            demos += s.x[k].demo && s.x[k].out.n > 5;
        }
        free_script(&s);
    }
    ck_assert_msg(examples >= 10 && lines >= 50, "%d examples, %d lines", examples, lines);
    ck_assert_msg(demos == 1 && told_strategies() > 0, "no output of make demo, or no number of strategies");
}

/* Of all that a line, and lines, can be. */
TEST(what_is_not_shown_is_seen)
{
    static const struct {
        const char *shown, *is;
        bool all, some;
    } t[] = {
        {"a  b", " a b ", true, true},
        {"a * c", "a b c", true, true},
        {"a * c", "a b b c", false, false},
        {"a ... c", "a b b c", true, true},
        {"*=1 x", "ab=1 x", true, true},
        {"a", "a\nb", false, true},
        {"b", "a\nb", false, true},
        {"a\n...", "a\nb\nc", true, true},
        {"...\nc", "a\nb\nc", true, true},
        {"b\na", "a\nb", false, false},
        {"a\n...\nb\nc", "a\nb\nd\nb\nc", true, true},
        {"a\n...", "a", true, true},
        {"a\na", "a", false, false},
        {"", "a", false, true},
        {"...\nb", "a", false, false},
        {"a\n...\nb", "a\nb\nc", false, true},
        {"", "", true, true},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct lines of[2] = {0};
        for (int k = 0; k < 2; k++) {
            char *text = xstrdup(k ? t[i].is : t[i].shown), *rest = text;
            for (char *line; (line = strsep(&rest, "\n"));)
                add_line(&of[k], line);
            free(text);
        }
        for (int some = 0; some < 2; some++) {
            FREED char *why = lines_differ(&of[0], &of[1], some);
            ck_assert_msg((why == NULL) == (some ? t[i].some : t[i].all), "'%s' for '%s': %s", t[i].shown,
                          t[i].is, why ? why : "fits");
        }
        free_lines(&of[0]);
        free_lines(&of[1]);
    }
}
