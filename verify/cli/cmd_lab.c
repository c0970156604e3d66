/* cmd_lab.c - `treeattn lab`: a student's answer to a lab of the course, judged. */
#include "ref/rng.h"
#include "verify/cli/cmd.h"
#include "verify/io/text.h"
#include "verify/lab/lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct lab_args {
    const char *word[2], *gradescope, *path, *html, *id, *suspect, *text;
    int32_t n_words;
    bool json, asks, seeded; /* asks: the questions of a lab are wanted; seeded: a seed was given */
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
                    "lab 6 --id alice --suspect 1 --case 'tree=nodes:-1.3:0.3'\n"
                    "lab 1 tests/labs/L1/lab.c\n"
                    "lab 1 lab.c --seed 7\n"
                    "lab 1 lab.c --json\n"
                    "lab 1 lab.c --html pages\n"
                    "lab 1 lab.c --seed 90210 --gradescope results.json",
        .details =
            "lab 0 alone asks questions about the tree of that seed; lab 0 answers.txt judges the answers. "
            "lab 6 alone lists faults; lab 6 found.csv judges what was found. A case is a case string of "
            "verify, "
            "of nodes:, levels: or chain:, heads, d, page, fill, seed, scale, scatter and poison.\n"
            "lab.c includes lab.h (tests/labs/include) and headers of the C library, "
            "no more. An object lab.so is "
            "taken, too. $LAB_CC is the compiler (default cc).",
        .needs = "no lab given (expected treeattn lab N lab.c; tests/labs/README.md lists them)",
        .words = "N [lab.c|lab.so|answers.txt|found.csv]",
        .word = a->word,
        .max_words = 2};
    const struct opt own[] = {
        HEADING("What is asked:"),
        U64("seed", "S", &a->job.seed, "1", "of the cases", .given = &a->seeded),
        TEXT("id", "NAME", &a->id, NULL, "a student's name, of which the seed is made"),
        I64("seconds", "S", &a->seconds, 1, 3600, "5", "that one answer may take"),
        TEXT("suspect", "N", &a->suspect, NULL,
             "lab 6: what suspect N answers to a case, or a kernel with the fault of "
             "that name. The exit code is 1 if that is wrong"),
        TEXT("case", "TEXT", &a->text, NULL, "lab 6: that case"),
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

/* Of a name: capitals are not told from small letters. It has 53 bits, so that every reader of JSON keeps them. */
static uint64_t seed_of(const char *id)
{
    uint64_t seed = 0;
    for (const char *c = id; *c; c++)
        seed = rng_mix(seed + (uint64_t)(unsigned char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c) + 1);
    return seed >> 11;
}

static bool settle_suspect(const struct lab_args *a, struct err *e)
{
    if (a->job.lab->number != 6)
        return err_set(e, "--suspect and --case are of lab 6 (this is lab %d)", (int)a->job.lab->number);
    if (!a->suspect || !a->text)
        return err_set(e, "%s is missing (expected --suspect N --case 'tree=..')",
                       a->suspect ? "--case" : "--suspect");
    if (a->json || a->gradescope || a->html || a->path)
        return err_set(
            e, "a suspect's answer is no report (expected no --json, --gradescope, --html or --output)");
    return a->n_words == 1 || err_set(e, "a file and a suspect (expected one of them)");
}

/* Which lab, and which file. */
static bool settle(struct lab_args *a, struct err *e)
{
    int64_t n;
    if (a->n_words == 0)
        return err_set(e, "no lab given (expected treeattn lab N lab.c; tests/labs/README.md lists them)");
    const char *word = a->word[0]; /* "L3", as the folders are called, is 3 */
    word += (*word == 'L' || *word == 'l') && word[1] >= '0' && word[1] <= '9';
    if (!text_i64(word, "the lab", 0, 99, &n, e) || !(a->job.lab = lab_find(n, e)))
        return false;
    if (a->id && a->seeded)
        return err_set(e, "--id and --seed (expected one of them)");
    if (a->id)
        a->job.seed = seed_of(a->id);
    if (a->suspect || a->text)
        return settle_suspect(a, e);
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
    if (!print(a->page, lab_print_html, r, e))
        return false;
    fprintf(stderr, "treeattn: the page is %s\n", a->page);
    return true;
}

static int show_suspect(const struct lab_args *a)
{
    struct err e = {0};
    bool passes = false;
    if (!lab6_show(stdout, a->job.seed, a->suspect, a->text, &passes, &e))
        return cmd_error(&e);
    int code = cmd_printed();
    return code == EXIT_GOOD && !passes ? EXIT_FAILED : code;
}

static int run(struct lab_args *a, int argc, char **argv)
{
    struct err e = {0}, why = {0};
    if (!read_options(a, argc, argv, &e) || !settle(a, &e) || !outputs_check(a, &e))
        return cmd_error(&e);
    if (a->suspect)
        return show_suspect(a);
    if (a->asks) {
        a->job.lab->print(stdout, a->job.seed);
        return cmd_printed();
    }
    forget_seed(a, argc, argv);
    struct lab_report report = {0};
    bool judged = lab_run(&a->job, &report, &why);
    bool told = judged || why.code != EXIT_MISSING; /* there is something to say of the file */
    int code = !judged ? why.code : report.passed == report.gates ? EXIT_GOOD : EXIT_FAILED;
    if (!judged)
        fprintf(stderr, "treeattn: %s\n", report.refused);
    if ((judged && !a->json && !print(a->path, lab_print_text, &report, &e)) ||
        (told && a->json && !print(a->path, lab_print_json, &report, &e)) ||
        (told && a->html && !print_page(a, &report, &e)) ||
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
