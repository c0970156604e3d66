/*
 * main.c - the program `figures`: makes the data, draws every figure, writes the pages.
 *
 * 0 all good; 1 a figure lacks data (the others are drawn, the pages are not written); 2 bad usage; 3 something the run
 * needs is missing.
 */
#include "paper-figs/figure.h"
#include "paper-figs/why.h"

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
    const char *program, *only[MAX_ONLY], *why, *cell; /* why: a figure, of which one cell is to be explained */
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
    "  -f, --only LIST     this figure, or those that have this in their id, without the pages: ID,PART,..\n"
    "  -w, --why ID CELL   what a number of this figure rests on: rows, commands, commits; CELL: a row of its CSV, from 1, or SERIES@AT\n"
    "      --no-data       draw from the data that is there\n"
    "      --no-drawing    pages and CSV alone, no gnuplot\n"
    "      --kept          make the data that is committed, which needs DeFT's traces, and draw nothing\n"
    "      --traces DIR    where DeFT's traces are (default $TREEATTN_SHARED/traces, else ../shared/traces)\n"
    "  -j, --jobs N        processes at a time (default: processors)\n";

/* Read the command line; getopt says what is wrong with an option. */
static bool read_options(struct args *a, int argc, char **argv)
{
    enum { OPT_ROOT = 256, OPT_SCRATCH, OPT_NO_DATA, OPT_NO_DRAWING, OPT_KEPT, OPT_TRACES };
    static const struct option options[] = {{"root", required_argument, NULL, OPT_ROOT},
                                            {"scratch", required_argument, NULL, OPT_SCRATCH},
                                            {"out", required_argument, NULL, 'o'},
                                            {"program", required_argument, NULL, 'p'},
                                            {"only", required_argument, NULL, 'f'},
                                            {"no-data", no_argument, NULL, OPT_NO_DATA},
                                            {"no-drawing", no_argument, NULL, OPT_NO_DRAWING},
                                            {"kept", no_argument, NULL, OPT_KEPT},
                                            {"traces", required_argument, NULL, OPT_TRACES},
                                            {"jobs", required_argument, NULL, 'j'},
                                            {"why", required_argument, NULL, 'w'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int key; (key = getopt_long(argc, argv, "o:p:f:j:w:h", options, NULL)) >= 0;)
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
            for (char *one; (one = strsep(&optarg, ","));) {
                if (a->n_only < MAX_ONLY)
                    a->only[a->n_only] = one;
                a->n_only++;
            }
            break;
        case OPT_TRACES:
            a->places.traces = optarg;
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
        case 'w':
            a->why = a->only[0] = optarg;
            a->n_only = 1;
            break;
        case 'h':
            fputs(help, stdout);
            exit(EXIT_GOOD);
        default:
            return false;
        }
    if (a->why && optind < argc)
        a->cell = argv[optind++];
    const char *wrong = a->why && !a->cell ? "--why without a cell (expected a row of the figure's CSV, from 1, or SERIES@AT)"
                        : a->n_only > MAX_ONLY ? "more than 64 names in --only"
                        : a->jobs < 1        ? "--jobs (expected 1 or more)"
                        : optind < argc      ? "an argument that is no option (see figures --help)"
                                             : NULL;
    if (wrong)
        fprintf(stderr, "figures: %s\n", wrong);
    return !wrong;
}

/* The id of a figure or the name of data, counted on; NULL behind the last. With --kept there are only the data that are kept,
 * else all figures and the data that are not. */
static const char *name_at(const struct args *a, int32_t i)
{
    if (!a->kept && i < n_figure_defs)
        return figure_defs[i].id;
    for (int32_t k = 0, n = a->kept ? 0 : n_figure_defs; k < n_data_defs; k++)
        if ((data_defs[k].keep == KEPT) == a->kept && n++ == i)
            return data_defs[k].name;
    return NULL;
}

/* Whether `only` chooses the name: it is that, or is no name and is a part of it. */
static bool chooses(const struct args *a, const char *only, const char *name)
{
    if (strcmp(only, name) == 0)
        return true;
    for (int32_t i = 0; name_at(a, i); i++)
        if (strcmp(name_at(a, i), only) == 0)
            return false;
    return *only && strstr(name, only);
}

static bool wanted(const struct args *a, const char *name)
{
    for (int i = 0; i < a->n_only; i++)
        if (chooses(a, a->only[i], name))
            return true;
    return a->n_only == 0;
}

static bool figure_named(const char *id)
{
    int32_t i = 0;
    while (i < n_figure_defs && strcmp(figure_defs[i].id, id) != 0)
        i++;
    return i < n_figure_defs;
}

/* How many letters must be put in, left out or changed to make one of the other. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 64 };
    int row[MOST + 1], n = (int)strlen(b);
    n = n > MOST ? MOST : n;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0]++;
        for (int j = 1; j <= n; j++) {
            int same = corner + (a[i - 1] != b[j - 1]), less = row[j] < row[j - 1] ? row[j] : row[j - 1];
            corner = row[j];
            row[j] = same < less + 1 ? same : less + 1;
        }
    }
    return row[n];
}

/* A name that nothing has is a mistake, not an empty list. Says which are near it. */
static bool check_only(const struct args *a)
{
    enum { NEAR = 3 };
    for (int i = 0; i < a->n_only; i++) {
        bool found = false;
        const char *near[NEAR] = {NULL};
        for (int32_t k = 0; name_at(a, k); k++) {
            const char *name = name_at(a, k);
            found |= chooses(a, a->only[i], name);
            int n = 0;
            if (k >= n_figure_defs && !a->kept && figure_named(name)) /* data that is called like a figure */
                continue;
            while (n < NEAR && near[n] && distance(a->only[i], name) >= distance(a->only[i], near[n]))
                n++;
            for (int m = NEAR - 1; m > n; m--)
                near[m] = near[m - 1];
            if (n < NEAR)
                near[n] = name;
        }
        if (!found) {
            fprintf(
                stderr, "figures: --only '%s': no id has that (expected %s; near: %s, %s, %s)\n", a->only[i],
                a->kept ? "data that data.def says is KEPT" : "a part of an id of figures.def or data.def",
                near[0], near[1], near[2]);
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
    else if (!a->no_drawing && !a->kept && !a->why && !has_gnuplot())
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

/* Marks the data that the chosen figures are drawn from. */
static void mark_used(const struct args *a, bool *used)
{
    for (int32_t i = 0; i < n_figure_defs; i++) {
        if (!wanted(a, figure_defs[i].id))
            continue;
        struct figure f;
        figure_make(&figure_defs[i], &a->places, &f);
        for (int32_t t = 0; t < f.n_tables; t++)
            for (int32_t k = 0; k < n_data_defs; k++)
                used[k] |= strncmp(f.table[t]->name, "data/", 5) == 0 &&
                           strcmp(f.table[t]->name + 5, data_defs[k].name) == 0;
        figure_clear(&f);
    }
}

/* Returns an exit code. */
static int make_data(const struct args *a)
{
    const struct data_def **which = xcalloc((size_t)n_data_defs, sizeof *which);
    bool *used = xcalloc((size_t)n_data_defs, sizeof *used);
    int32_t n = 0;
    if (a->n_only > 0 && !a->kept)
        mark_used(a, used);
    for (int32_t i = 0; i < n_data_defs; i++)
        if ((data_defs[i].keep == KEPT) == a->kept && (used[i] || wanted(a, data_defs[i].name)))
            which[n++] = &data_defs[i];
    char *program = realpath(a->program, NULL),
         *missing = a->kept ? data_missing_trace(which, n, &a->places) : NULL;
    int code = EXIT_MISSING;
    if (missing)
        fprintf(stderr,
                "figures: %s: not there (expected DeFT's traces; paper-figs/README.md says where they are "
                "from)\n",
                missing);
    else if (!program)
        fprintf(stderr, "figures: %s: %s (expected the program treeattn)\n", a->program, strerror(errno));
    else
        code = data_make(which, n, program, &a->places, a->jobs) ? EXIT_GOOD : EXIT_FAILED;
    free(program);
    free(missing);
    free(used);
    free(which);
    return code;
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
    code = a.no_data ? EXIT_GOOD : make_data(&a);
    if (a.kept || code == EXIT_MISSING)
        return code;
    if (a.why)
        return why(a.why, a.cell, &a.places);
    bool good = code == EXIT_GOOD;

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
