/* cmd_lab.c - `treeattn lab`: a student's answer to a lab of the course, judged. */
#include "verify/cli/cmd.h"
#include "verify/io/text.h"
#include "verify/lab/lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct lab_args {
    const char *word[2], *gradescope, *path, *html;
    int32_t n_words;
    bool json, asks; /* asks: the questions of lab 0 are wanted */
    int64_t seconds;
    char *page; /* the file in the folder *html */
    struct lab_job job;
};

static bool read_options(struct lab_args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Judges what you wrote for lab N of the course (tests/labs/README.md). "
                 "lab.c is compiled, and its "
                 "functions are called in a process of their own, which knows no answer. "
                 "Each gate is passed or not. "
                 "Of one that is not, the smallest wrong answer is shown, and why it is "
                 "wrong, if a mistake was found "
                 "that gives your answers. The exit code is 1 if a gate was not passed.",
        .examples = "lab 0 --seed 42\n"
                    "lab 1 tests/labs/L1/lab.c\n"
                    "lab 1 lab.c --seed 7\n"
                    "lab 1 lab.c --json\n"
                    "lab 1 lab.c --html pages\n"
                    "lab 1 lab.c --seed 90210 --gradescope results.json",
        .details =
            "lab 0 alone asks questions about the tree of that seed; lab 0 answers.txt judges the answers.\n"
            "lab.c includes lab.h (tests/labs/include) and headers of the C library, "
            "no more. An object lab.so is "
            "taken, too. $LAB_CC is the compiler (default cc).",
        .needs = "no lab given (expected treeattn lab N lab.c; tests/labs/README.md lists them)",
        .words = "N [lab.c|lab.so|answers.txt]",
        .word = a->word,
        .max_words = 2};
    const struct opt own[] = {
        HEADING("What is asked:"),
        U64("seed", "S", &a->job.seed, "1", "of the cases"),
        I64("seconds", "S", &a->seconds, 1, 3600, "5", "that one answer may take"),
        HEADING("What is printed:"),
        FLAG("json", &a->json, "the report as JSON"),
        TEXT("gradescope", "FILE", &a->gradescope, NULL,
             "also write results.json for Gradescope. The seed is then a secret: a gate must be passed with "
             "seed 1 and "
             "with this one, of which no case is shown. The exit code is 0 once FILE is written. It is not "
             "if this machine lacks something"),
        TEXT("html", "DIR", &a->html, NULL,
             "also write DIR/labN.html: the report with invariants and pictures, for a browser or a printer. "
             "DIR is made if it is "
             "not there"),
        TEXT("output", "FILE", &a->path, NULL, "write the report to FILE", .letter = 'o'),
        {0},
    };
    options_add(&o, own);
    bool good = options_parse(&o, argc, argv, e);
    a->n_words = o.n_words;
    return good;
}

/* Which lab, and which file. */
static bool settle(struct lab_args *a, struct err *e)
{
    int64_t n;
    if (a->n_words == 0)
        return err_set(e, "no lab given (expected treeattn lab N lab.c; tests/labs/README.md lists them)");
    if (!text_i64(a->word[0], "the lab", 0, 99, &n, e) || !(a->job.lab = lab_find(n, e)))
        return false;
    a->job.path = a->word[1];
    a->job.seconds = (double)a->seconds;
    a->job.hides = a->gradescope != NULL;
    a->asks = a->n_words == 1 && a->job.lab->mark;
    return a->asks || a->n_words == 2 ||
           err_set(
               e, "lab %d, %s: no file given (expected treeattn lab %d lab.c; the task is in tests/labs/L%d)",
               (int)n, a->job.lab->title, (int)n, (int)n);
}

/* Before any work: can all outputs be written? */
static bool outputs_check(struct lab_args *a, struct err *e)
{
    struct stat st;
    if (a->html)
        a->page = xasprintf("%s/lab%d.html", a->html, (int)a->job.lab->number);
    bool there = a->html && (stat(a->html, &st) == 0 || errno != ENOENT);
    return outfiles_check((const char *[]){a->path, a->gradescope, there ? a->page : a->html}, 3, e);
}

/* A process of the student's might read it from our command line. */
static void forget_seed(const struct lab_args *a, int argc, char **argv)
{
    for (int i = 1; i < argc && a->job.hides; i++)
        if (strncmp(argv[i], "--seed=", 7) == 0)
            memset(argv[i] + 7, '.', strlen(argv[i] + 7));
        else if (i > 1 && strncmp(argv[i - 1], "--se", 4) == 0)
            memset(argv[i], '.', strlen(argv[i]));
}

static bool print(const char *path, void (*how)(FILE *f, const struct lab_report *r),
                  const struct lab_report *r, struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, path, e))
        return false;
    how(out.f, r);
    return outfile_close(&out, true, e);
}

static bool print_page(const struct lab_args *a, const struct lab_report *r, struct err *e)
{
    if (mkdir(a->html, 0777) != 0 && errno != EEXIST)
        return err_set(e, "%s: cannot be made: %s (expected a folder, or a name for one)", a->html,
                       strerror(errno));
    return print(a->page, lab_print_html, r, e);
}

static int run(struct lab_args *a, int argc, char **argv)
{
    struct err e = {0}, why = {0};
    if (!read_options(a, argc, argv, &e) || !settle(a, &e) || !outputs_check(a, &e))
        return cmd_error(&e);
    if (a->asks) {
        lab0_print(stdout, a->job.seed);
        return cmd_printed();
    }
    forget_seed(a, argc, argv);
    struct lab_report report = {0};
    bool judged = lab_run(&a->job, &report, &why);
    int code = !judged ? cmd_error(&why) : report.passed == report.gates ? EXIT_GOOD : EXIT_FAILED;
    if ((judged && !print(a->path, a->json ? lab_print_json : lab_print_text, &report, &e)) ||
        (judged && a->html && !print_page(a, &report, &e)) ||
        (a->gradescope && code != EXIT_MISSING && !print(a->gradescope, lab_print_gradescope, &report, &e)))
        code = cmd_error(&e);
    else if (a->gradescope && code != EXIT_MISSING)
        code = EXIT_GOOD;
    lab_report_clear(&report);
    return code;
}

int cmd_lab(int argc, char **argv)
{
    struct lab_args a = {.json = false};
    int code = run(&a, argc, argv);
    free(a.page);
    return code;
}
