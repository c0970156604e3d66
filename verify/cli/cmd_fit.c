/*
 * cmd_fit.c - `treeattn fit`: measured times to coefficients, and how well they do on rows that the fit has
 * not seen.
 */
#include "verify/cli/cmd.h"
#include "verify/io/origin.h"
#include "verify/cases/case.h"
#include "verify/model/fit.h"
#include "verify/io/text.h"

#include <stdlib.h>

enum { MAX_FILES = 64 };

struct fit_args {
    struct cmd_output out;
    const char *file[MAX_FILES];
    struct fit_spec fit;
    const char *save;
    enum fit_show show;
};

/* ---- options ------------------------------------------------------------------------------------------ */

static bool set_model(void *self, const char *value, struct err *e)
{
    const struct fit_model **model = self;
    return (*model = fit_model_find(value, e)) != NULL;
}

static bool set_without(void *self, const char *value, struct err *e)
{
    struct fit_spec *f = self;
    return (!f->without || err_set(e, "--without twice (expected one list)")) &&
           case_strategies(value, &f->without, &f->n_without, e);
}

static bool set_folds(void *self, const char *value, struct err *e)
{
    int64_t *folds = self;
    return text_i64(value, "--folds", 0, 1000, folds, e) &&
           (*folds != 1 || err_set(e, "--folds 1 (expected 0 for none, or 2 and more)"));
}

static bool read_options(struct fit_args *a, int argc, char **argv, struct err *e)
{
    struct fit_spec *f = &a->fit;
    struct options o = {.about = "Fits the coefficients of a model to measured times, by least squares, and "
                                 "shows how well the model does on configurations that the fit has not seen.",
                        .examples = "fit ../shared/peers/h200_*.csv\n"
                                    "fit FILE.csv --save h200.csv\n"
                                    "fit OTHER.csv --coefficients h200.csv\n"
                                    "fit FILE.csv --time-model clock --save c.csv\n"
                                    "fit SWEEP.csv --time-model treeattn",
                        .details =
                            "Files: measured rows as treeattn bench-gpu --csv has them (columns tree, heads, "
                            "d, dtype, strategy, time_us; perhaps verdict, kernel, device), or the released "
                            "kernels' rows of shared/peers (N, C, hq, hk, dtype, method, cold_us, ..).\n"
                            "Every row is planned again with its strategy. The model sees what the plan "
                            "moves, multiplies and launches.\n"
                            "treeattn sim --coefficients reads what --time-model clock --save has written. "
                            "--time-model treeattn fits rows of treeattn whose options were told.",
                        .words = "FILE.csv..",
                        .needs = "no file given (expected FILE.csv)",
                        .word = a->file,
                        .max_words = MAX_FILES};
    const struct opt own[] = {
        HEADING("What is fitted:"),
        CALL("time-model", "NAME", set_model, &f->model, "linear",
             "linear, fasttree, clock, or treeattn: what that chooses plans by"),
        CALL("machine", "NAME", set_machine, &f->mc, NULL,
             "whose data sheet (default: of the card that rows name, or h200); h200:bandwidth=4.5e12 changes "
             "a figure",
             .given = &f->machine_given),
        FLAG("apart", &f->apart, "one set of coefficients for each strategy"),
        TEXT("coefficients", "FILE", &f->coefficients, NULL,
             "take them from FILE and only judge them; built-in: those that treeattn was compiled with"),
        TEXT("save", "FILE", &a->save, NULL, "write the coefficients to FILE"),
        CALL("without", "A,B,..", set_without, f, NULL, "leave out rows of these strategies"),
        HEADING("How:"),
        CALL("folds", "K", set_folds, &f->folds, NULL,
             "fits that each leave one K-th of the configurations out (default 5; 0: none)"),
        U64("seed", "N", &f->seed, "1", "which configurations are in which fold"),
        I64("points", "N", &f->points, 1, MAX_VARIANTS, "256",
            "model clock: try the coefficients inside of the simulation at N points"),
        WORD("show", "WHAT", &a->show, fit_show_name, N_FIT_SHOWS, "usual",
             "coefficients, quality or rows; usual: the first two, and of --csv and --json the first"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_default(&o, "quiet", NULL, "only how all rows together do");
    if (!options_parse(&o, argc, argv, e))
        return false;
    f->file = a->file;
    f->n_files = o.n_words;
    return f->n_files > 0 || err_set(e, "fit: no file (expected FILE.csv, see treeattn fit --help)");
}

/* Options that contradict each other, and what they leave open. */
static bool settle(struct fit_args *a, struct err *e)
{
    if (a->fit.model->tiles && a->fit.apart)
        return err_set(e, "fit: --time-model treeattn has one set of coefficients (expected no --apart)");
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

int cmd_fit(int argc, char **argv)
{
    struct err e = {0};
    struct fit_args a = {.fit = {.mc = *machine_default(), .folds = -1}};
    struct outfile out = {0};
    if (!read_options(&a, argc, argv, &e) || !settle(&a, &e)) {
        free(a.fit.without);
        return cmd_error(&e);
    }
    struct fit_rows r = {0};
    struct fitted f = {0};
    char *command = origin_command(argv[0], argc, argv);
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
