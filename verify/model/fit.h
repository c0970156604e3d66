/*
 * fit.h - `treeattn fit`: measured times to the coefficients of a model, and how well they do on rows that the fit
 * has not seen.
 *
 * A row is a plan with its time. It is planned again, and the model says what it depends on. A part is the rows that
 * share coefficients, a configuration all rows of one tree and heads: what a fold keeps back together.
 */
#ifndef TREEATTN_VERIFY_MODEL_FIT_H
#define TREEATTN_VERIFY_MODEL_FIT_H

#include "sim/fit/fit_treeattn_cost.h"
#include "sim/fit/models.h"
#include "sim/fit/regress.h"
#include "verify/io/table.h"
#include "verify/model/coefficient_file.h"
#include "verify/model/timed_rows.h"

BEGIN_C

/* What is asked for. */
struct fit_spec {
    const char *const *file; /* [n_files] of rows */
    int32_t n_files;
    const struct fit_model *model;
    struct machine mc;
    bool machine_given;           /* else it is that of the rows' card */
    bool apart;                   /* one part for each strategy, not for each kernel */
    struct strategy_use *without; /* [n_without] strategies whose rows are left out */
    int32_t n_without;
    const char *coefficients; /* a file, or "built-in": only judged; NULL: to be fitted */
    int64_t
        folds; /* fits that each leave one fold out; 0: none; -1: 5, or as many as there are configurations */
    int64_t points; /* variants of the model's inner coefficients that are tried */
    uint64_t seed;  /* which configurations are in which fold */
};

struct fit_rows {
    int64_t n;
    int32_t p; /* coefficients, the model's */
    int32_t n_variants;
    double *x;              /* [n_variants][n][p] */
    struct tile_bill *bill; /* [n], and no x: of models with tiles */
    struct tile_env *env;
    double *y; /* [n] seconds */
    int32_t *config, *part, *strategy, *file, *line;
    struct names configs, parts, strategies, files;
    double *given;            /* [parts][p + inner]: coefficients read from a file; NULL: to be fitted */
    char (*rest)[COEFS_REST]; /* [parts] what the file does not name */
    int64_t left_out, unwanted, merged;
};
/* All rows, planned again. Zero-initialise *r, and clear it whatever comes back. Sets s->mc to the rows' card, if there
 * is a machine for it. False with *e set, also if no row is left. */
bool fit_load(struct fit_spec *s, struct fit_rows *r, struct err *e);
void fit_rows_clear(struct fit_rows *r);

/* What came out: predictions of the fit to all rows, and of the fits to the others (NULL: there are none). */
struct fitted {
    struct part_fit *fit; /* [parts] */
    double *predicted, *held_out;
};
/* Clear *f whatever comes back. */
bool fit_run(const struct fit_spec *s, const struct fit_rows *r, struct fitted *f, struct err *e);
void fitted_clear(struct fitted *f);
/* Coefficients of a part that are not linear. */
void fit_inner(const struct fit_spec *s, const struct fit_rows *r, int32_t part, int32_t variant,
               double *inner);

/* The coefficients to a file that coefs_read_model reads; `command`: what was called. */
bool fit_save(const struct fit_spec *s, const struct fit_rows *r, const struct fitted *f, const char *path,
              const char *command, struct err *e);
enum fit_show { FIT_SHOW_USUAL, FIT_SHOW_COEFFICIENTS, FIT_SHOW_QUALITY, FIT_SHOW_ROWS, N_FIT_SHOWS };
extern const char *const fit_show_name[N_FIT_SHOWS];
/* Tables; quiet: only how all rows together do. */
void fit_print(const struct fit_spec *s, const struct fit_rows *r, const struct fitted *f, enum fit_show show,
               enum style style, bool quiet, FILE *out);

END_C

#endif
