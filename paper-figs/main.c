/*
 * main.c - the program `figures`: makes the data, draws every figure, writes the pages.
 *
 * 0 all good; 1 a figure lacks data (the others are drawn, the pages are not written); 2 bad usage; 3 something the run
 * needs is missing.
 */
#include "paper-figs/figure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ONLY = 64 };
struct args {
    struct places places;
    const char *program, *only[MAX_ONLY];
    int n_only, jobs;
    bool no_data, no_drawing, kept;
};

static const char help[] =
    "usage: figures [OPTION...]\n\n"
    "Draws the papers' figures from result files, checks them, and writes index.html.\n\n"
    "      --root DIR      where paper/, measured/ and data/ are (default paper-figs)\n"
    "      --scratch DIR   where data and scripts go that every run makes anew (default build/figures)\n"
    "  -o, --out DIR       where index.html, FIGURES.md and drawn/ go (default paper-figs)\n"
    "  -p, --program FILE  treeattn (default build/treeattn)\n"
    "  -f, --only ID       this figure, or those that begin so, without the pages; may be given several times\n"
    "      --no-data       draw from the data that is there\n"
    "      --no-drawing    pages and CSV alone, no gnuplot\n"
    "      --kept          make the data that is committed (needs DeFT's traces, TREEATTN_SHARED), draw nothing\n"
    "  -j, --jobs N        processes at a time (default: processors)\n";

/* Read the command line; getopt says what is wrong with an option. */
static bool read_options(struct args *a, int argc, char **argv)
{
    enum { OPT_ROOT = 256, OPT_SCRATCH, OPT_NO_DATA, OPT_NO_DRAWING, OPT_KEPT };
    static const struct option options[] = {{"root", required_argument, NULL, OPT_ROOT},
                                            {"scratch", required_argument, NULL, OPT_SCRATCH},
                                            {"out", required_argument, NULL, 'o'},
                                            {"program", required_argument, NULL, 'p'},
                                            {"only", required_argument, NULL, 'f'},
                                            {"no-data", no_argument, NULL, OPT_NO_DATA},
                                            {"no-drawing", no_argument, NULL, OPT_NO_DRAWING},
                                            {"kept", no_argument, NULL, OPT_KEPT},
                                            {"jobs", required_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int key; (key = getopt_long(argc, argv, "o:p:f:j:h", options, NULL)) >= 0;)
        switch (key) {
        case OPT_ROOT:
            a->places.root = optarg;
            break;
        case OPT_SCRATCH:
            a->places.scratch = optarg;
            break;
        case 'o':
            a->places.out = optarg;
            break;
        case 'p':
            a->program = optarg;
            break;
        case 'f':
            if (a->n_only < MAX_ONLY)
                a->only[a->n_only] = optarg;
            a->n_only++;
            break;
        case OPT_NO_DATA:
            a->no_data = true;
            break;
        case OPT_NO_DRAWING:
            a->no_drawing = true;
            break;
        case OPT_KEPT:
            a->kept = true;
            break;
        case 'j':
            a->jobs = atoi(optarg);
            break;
        case 'h':
            fputs(help, stdout);
            exit(EXIT_GOOD);
        default:
            return false;
        }
    const char *wrong = a->n_only > MAX_ONLY ? "more than 64 --only"
                        : a->jobs < 1        ? "--jobs (expected 1 or more)"
                        : optind < argc      ? "an argument that is no option (see figures --help)"
                                             : NULL;
    if (wrong)
        fprintf(stderr, "figures: %s\n", wrong);
    return !wrong;
}

static bool wanted(const struct args *a, const char *id)
{
    for (int i = 0; i < a->n_only; i++)
        if (strncmp(id, a->only[i], strlen(a->only[i])) == 0)
            return true;
    return a->n_only == 0;
}

/* A name that nothing has is a mistake, not an empty list. */
static bool check_only(const struct args *a)
{
    for (int i = 0; i < a->n_only; i++) {
        const struct args one = {.only = {a->only[i]}, .n_only = 1};
        bool found = false;
        for (int32_t k = 0; k < n_figure_defs && !a->kept; k++)
            found = found || wanted(&one, figure_defs[k].id);
        for (int32_t k = 0; k < n_data_defs; k++)
            found = found || ((data_defs[k].keep == KEPT) == a->kept && wanted(&one, data_defs[k].name));
        if (!found) {
            fprintf(stderr, "figures: --only '%s': nothing begins so (expected %s)\n", a->only[i],
                    a->kept ? "data that data.def says is KEPT"
                            : "an id of figures.def, or data that it says is FRESH");
            return false;
        }
    }
    return true;
}

static bool has_gnuplot(void)
{
    const char *path = getenv("PATH");
    char *copy = xstrdup(path ? path : ""), *rest = copy, *folder;
    bool found = false;
    while (!found && (folder = strsep(&rest, ":"))) {
        char *file = xasprintf("%s/gnuplot", *folder ? folder : ".");
        found = access(file, X_OK) == 0;
        free(file);
    }
    free(copy);
    return found;
}

/* Before anything is made. Returns an exit code. */
static int check_places(const struct args *a)
{
    char *paper = xasprintf("%s/paper", a->places.root);
    bool here = access(paper, X_OK) == 0;
    free(paper);
    if (!here)
        fprintf(stderr, "figures: %s/paper: %s (expected to run at the top of the sources, or --root)\n",
                a->places.root, strerror(errno));
    else if (!a->no_drawing && !a->kept && !has_gnuplot())
        fprintf(stderr, "figures: no gnuplot (expected it to be installed: make deps, or --no-drawing)\n");
    else
        return EXIT_GOOD;
    return EXIT_MISSING;
}

static bool make_folder(const char *a, const char *b)
{
    char *path = xasprintf("%s%s", a, b);
    bool good = mkdir(path, 0777) == 0 || errno == EEXIST;
    if (!good)
        fprintf(stderr, "figures: %s: %s\n", path, strerror(errno));
    free(path);
    return good;
}

static bool make_data(const struct args *a)
{
    const struct data_def **which = xcalloc((size_t)n_data_defs, sizeof *which);
    int32_t n = 0;
    for (int32_t i = 0; i < n_data_defs; i++)
        if ((data_defs[i].keep == KEPT) == a->kept && (a->n_only == 0 || wanted(a, data_defs[i].name)))
            which[n++] = &data_defs[i];
    char *program = realpath(a->program, NULL);
    bool good = program && data_make(which, n, program, &a->places, a->jobs);
    if (!program)
        fprintf(stderr, "figures: %s: %s (expected the program treeattn)\n", a->program, strerror(errno));
    free(program);
    free(which);
    return good;
}

/* A path between gnuplot's single quotes, where an apostrophe is written twice. The caller frees it. */
static char *gnuplot_path(const char *path)
{
    char *quoted = xcalloc(2 * strlen(path) + 1, 1), *to = quoted;
    for (; *path; path++) {
        *to++ = *path;
        if (*path == '\'')
            *to++ = *path;
    }
    return quoted;
}

/* gnuplot on the script of a figure; kind: "svg" or "png". */
_Noreturn static void exec_gnuplot(const struct figure *f, const char *kind)
{
    char *set = xasprintf("kind = '%s'; style = '%s/style.gp'; out = '%s/drawn/%s.%s'", kind,
                          gnuplot_path(f->places->root), gnuplot_path(f->places->out), f->def->id, kind);
    char *script = xasprintf("%s/%s.gp", f->places->scratch, f->def->id);
    setenv("LC_ALL", "C.UTF-8", 1); /* without a locale, gnuplot warns that it lacks a degree sign */
    execlp("gnuplot", "gnuplot", "-e", set, script, (char *)NULL);
    fprintf(stderr, "figures: gnuplot: %s (expected gnuplot to be installed: make deps)\n", strerror(errno));
    _exit(EXIT_MISSING);
}

static bool reap(void)
{
    int status;
    return wait(&status) < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool draw(const struct figure *f, int32_t n, int jobs)
{
    bool good = true;
    int running = 0;
    for (int32_t i = 0; i < 2 * n; i++) {
        if (figure_verdict(&f[i / 2]) >= NOT_POSSIBLE)
            continue;
        if (running == jobs && running--)
            good &= reap();
        fflush(NULL);
        pid_t pid = fork();
        CK(pid >= 0);
        if (pid == 0)
            exec_gnuplot(&f[i / 2], i % 2 ? "png" : "svg");
        running++;
    }
    while (running-- > 0)
        good &= reap();
    if (!good)
        fprintf(stderr, "figures: gnuplot failed\n");
    return good;
}

int main(int argc, char **argv)
{
    struct args a = {.places = {"paper-figs", "build/figures", "paper-figs"},
                     .program = "build/treeattn",
                     .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    if (!read_options(&a, argc, argv))
        return EXIT_BAD_INPUT;
    if (!check_only(&a))
        return EXIT_BAD_INPUT;
    int code = check_places(&a);
    if (code != EXIT_GOOD)
        return code;
    if (!make_folder(a.places.out, "") || !make_folder(a.places.out, "/drawn") ||
        !make_folder(a.places.scratch, "") || !make_folder(a.places.scratch, "/data") ||
        !make_folder(a.places.root, "/data"))
        return EXIT_MISSING;
    bool good = a.no_data || make_data(&a);
    if (a.kept)
        return good ? EXIT_GOOD : EXIT_FAILED;

    struct figure *f = xcalloc((size_t)n_figure_defs, sizeof *f);
    int32_t n = 0;
    struct err e = {0};
    for (int32_t i = 0; i < n_figure_defs; i++) {
        if (!wanted(&a, figure_defs[i].id))
            continue;
        figure_make(&figure_defs[i], &a.places, &f[n]);
        enum verdict v = figure_verdict(&f[n]);
        printf("%-24s %-12s %s\n", f[n].def->id, verdict_names[v], v == NO_DATA ? f[n].err.msg : "");
        for (int32_t k = 0; a.n_only && k < f[n].n_checks; k++) {
            const struct check *c = &f[n].check[k];
            char far[64];
            factor_text(far, sizeof far, c->factor);
            printf("    %-13s %s", grade_name(f[n].def, c), c->text);
            if (c->unit)
                printf(": %.4g, paper %.4g %s, %s", c->ours, c->paper, c->unit, far);
            printf("\n");
        }
        good &= v != NO_DATA;
        if (v < NOT_POSSIBLE && !(figure_write_csv(&f[n], &e) && figure_write_plot(&f[n], &e)))
            break;
        n++;
    }
    if (!good && a.n_only == 0)
        fprintf(stderr, "figures: data is missing (above): index.html and FIGURES.md stay as they were\n");
    else if (!e.code && a.n_only == 0 && write_index(f, n, &a.places, &e))
        write_markdown(f, n, &a.places, &e);
    if (!e.code && !a.no_drawing)
        good &= draw(f, n, a.jobs);
    for (int32_t i = 0; i < n; i++)
        figure_clear(&f[i]);
    free(f);
    if (e.code)
        fprintf(stderr, "figures: %s\n", e.msg);
    return e.code ? e.code : good ? EXIT_GOOD : EXIT_FAILED;
}
