/*
 * cmd_fit.c - `treeattn fit`: measured times to coefficients, and how well they do on rows that the fit has
 * not seen.
 */
#include "verify/judge/case.h"
#include "verify/cli/cmd.h"
#include "verify/io/origin.h"
#include "verify/model/fit.h"
#include "verify/io/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MODEL = 0x700,
    KEY_MACHINE,
    KEY_TOGETHER,
    KEY_COEFFICIENTS,
    KEY_SAVE,
    KEY_APART,
    KEY_WITHOUT,
    KEY_FOLDS,
    KEY_SEED,
    KEY_POINTS,
    KEY_SHOW
};

enum { MAX_FILES = 64 };

struct fit_args {
    struct cmd_output out;
    const char *file[MAX_FILES];
    struct fit_spec fit;
    const char *save;
    enum fit_show show;
    struct err *err;
};

/* ---- options ------------------------------------------------------------------------------------------ */

static bool parse_show(const char *arg, struct fit_args *a)
{
    for (int i = FIT_SHOW_COEFFICIENTS; i < N_FIT_SHOWS; i++)
        if (strcmp(fit_show_name[i], arg) == 0) {
            a->show = (enum fit_show)i;
            return true;
        }
    return err_set(a->err, "--show '%.40s' (expected coefficients, quality or rows)", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct fit_args *a = state->input;
    bool good = true;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->out;
        break;
    case ARGP_KEY_ARG:
        good = a->fit.n_files < MAX_FILES || err_set(a->err, "more than %d files", MAX_FILES);
        if (good)
            a->file[a->fit.n_files++] = arg;
        break;
    case KEY_MODEL:
        a->fit.model = fit_model_find(arg, a->err);
        good = a->fit.model != NULL;
        break;
    case KEY_MACHINE:
        good = machine_parse(arg, &a->fit.mc, a->err);
        a->fit.machine_given = true;
        break;
    case KEY_TOGETHER:
        a->fit.together = true;
        break;
    case KEY_COEFFICIENTS:
        a->fit.coefficients = arg;
        break;
    case KEY_SAVE:
        a->save = arg;
        break;
    case KEY_APART:
        a->fit.apart = true;
        break;
    case KEY_WITHOUT:
        good = !a->fit.without || err_set(a->err, "--without twice (expected one list)");
        good = good && case_strategies(arg, &a->fit.without, &a->fit.n_without, a->err);
        break;
    case KEY_FOLDS:
        good = text_i64(arg, "--folds", 0, 1000, &a->fit.folds, a->err) &&
               (a->fit.folds != 1 || err_set(a->err, "--folds 1 (expected 0 for none, or 2 and more)"));
        break;
    case KEY_SEED:
        good = text_u64(arg, "--seed", &a->fit.seed, a->err);
        break;
    case KEY_POINTS:
        good = text_i64(arg, "--points", 1, MAX_VARIANTS, &a->fit.points, a->err);
        break;
    case KEY_SHOW:
        good = parse_show(arg, a);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

/* Options that contradict each other, and what they leave open. */
static bool settle(struct fit_args *a, struct err *e)
{
    if (a->fit.n_files == 0)
        return err_set(e, "fit: no file (expected FILE.csv, see treeattn fit --help)");
    if (a->fit.model->tiles && (a->fit.together || a->fit.apart))
        return err_set(
            e, "fit: --model treeattn has one set of coefficients (expected no --together or --apart)");
    if (a->fit.together && a->fit.apart)
        return err_set(e, "fit: --together and --apart exclude each other (expected one of them)");
    const char *const out[] = {a->out.path, a->save};
    if (!outfiles_check(out, 2, e))
        return false;
    for (int i = 0; i < 2; i++) {
        for (int32_t k = 0; k < a->fit.n_files; k++)
            if (!outfile_spares(out[i], a->file[k], e))
                return false;
        if (!outfile_spares(out[i], a->fit.coefficients, e))
            return false;
    }
    return true;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is fitted:", .group = 1},
            {"model", KEY_MODEL, "NAME", 0,
             "linear (default), fasttree, clock, or treeattn: what that chooses plans by", 1},
            {"machine", KEY_MACHINE, "NAME", 0,
             "whose data sheet (default: of the card that rows name, or h200); h200:bandwidth=4.5e12 changes "
             "a figure",
             1},
            {"apart", KEY_APART, NULL, 0, "one set of coefficients for each strategy", 1},
            {"together", KEY_TOGETHER, NULL, 0, "one set of coefficients for all kernels, not one each", 1},
            {"coefficients", KEY_COEFFICIENTS, "FILE", 0,
             "take them from FILE and only judge them; built-in: those that treeattn was compiled with", 1},
            {"save", KEY_SAVE, "FILE", 0, "write the coefficients to FILE", 1},
            {"without", KEY_WITHOUT, "A,B,..", 0, "leave out rows of these strategies", 1},
            {.doc = "How:", .group = 3},
            {"folds", KEY_FOLDS, "K", 0,
             "fits that each leave one K-th of the configurations out (default 5; 0: none)", 3},
            {"seed", KEY_SEED, "N", 0, "which configurations are in which fold (default 1)", 3},
            {"points", KEY_POINTS, "N", 0,
             "model clock: try the coefficients inside of the simulation at N points (default 256)", 3},
            {"show", KEY_SHOW, "WHAT", 0, "coefficients, quality or rows (text: the first two)", 3},
            {0},
        },
    .parser = parse,
    .args_doc = "FILE.csv..",
    .doc =
        "Measured times to the coefficients of a model, by least squares, and how well the model does on "
        "configurations that the fit has not seen."
        "\vFiles: measured rows (columns tree, heads, d, dtype, strategy, time_us; perhaps verdict, kernel, "
        "device, as treeattn bench gpu --csv has them), or the released kernels' rows of shared/peers (N, C, "
        "hq, hk, dtype, method, cold_us, ..). Every row is planned again with its strategy, and the model "
        "sees "
        "what the plan moves, multiplies and launches. --quiet prints only how all rows together do.\n\n"
        "  treeattn fit ../shared/peers/h200_*.csv           a set of coefficients per kernel\n"
        "  treeattn fit FILE.csv --save h200.csv             and keep them\n"
        "  treeattn fit OTHER.csv --coefficients h200.csv    how good are they elsewhere?\n"
        "  treeattn fit FILE.csv --model clock --save c.csv  for treeattn sim --coefficients\n"
        "  treeattn fit SWEEP.csv --model treeattn           plans of treeattn, timed with options told",
    .children = (const struct argp_child[]){{&cmd_output_argp, 0, NULL, 0}, {0}},
};

int cmd_fit(int argc, char **argv)
{
    struct err e = {0};
    struct fit_args a = {
        .fit = {.model = &fit_models[0], .mc = *machine_default(), .folds = -1, .points = 256, .seed = 1},
        .err = &e};
    struct outfile out = {0};
    a.fit.file = a.file;
    if (!cmd_parse(&argp, argc, argv, &a, &e) || !settle(&a, &e)) {
        free(a.fit.without);
        return cmd_error(&e);
    }
    struct fit_rows r = {0};
    struct fitted f = {0};
    char *command = origin_command("fit", argc, argv);
    bool good = fit_load(&a.fit, &r, &e) && fit_run(&a.fit, &r, &f, &e) &&
                outfile_open(&out, a.out.path, &e) &&
                (!a.save || fit_save(&a.fit, &r, &f, a.save, command, &e));
    if (good)
        fit_print(&a.fit, &r, &f, a.show, a.out.style, a.out.quiet, out.f);
    good = outfile_close(&out, good, &e) && good;
    fitted_clear(&f);
    fit_rows_clear(&r);
    free(command);
    free(a.fit.without);
    return good ? EXIT_GOOD : cmd_error(&e);
}
