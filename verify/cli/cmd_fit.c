/*
 * cmd_fit.c - `treeattn fit`: measured times to coefficients, and how well they do on rows that the fit has
 * not seen.
 */
#include "sim/fit/regress.h"
#include "sim/strategies/treeattn.h"
#include "sim/fit/fit_treeattn_cost.h"
#include "sim/fit/models.h"
#include "verify/judge/case.h"
#include "verify/cli/cmd.h"
#include "verify/model/coefficient_file.h"
#include "verify/model/timed_rows.h"
#include "verify/io/origin.h"
#include "verify/io/progress.h"
#include "verify/io/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MODEL = 0x700,
    KEY_MACHINE,
    KEY_TOGETHER,
    KEY_COEFFICIENTS,
    KEY_SAVE,
    KEY_TARGET,
    KEY_FEATURES,
    KEY_GROUP,
    KEY_STRATEGY,
    KEY_BY,
    KEY_APART,
    KEY_WITHOUT,
    KEY_WHERE,
    KEY_INTERCEPT,
    KEY_RELATIVE,
    KEY_NONNEG,
    KEY_FOLDS,
    KEY_SEED,
    KEY_POINTS,
    KEY_SHOW
};

enum show { SHOW_USUAL, SHOW_COEFFICIENTS, SHOW_QUALITY, SHOW_ROWS };
static const char *const show_name[] = {"usual", "coefficients", "quality", "rows"};

enum { MAX_FILES = 64 };

struct fit_args {
    struct cmd_output out;
    const char *file[MAX_FILES];
    int32_t n_files;
    const struct fit_model *model;
    struct machine mc;
    bool machine_given; /* else it is that of the rows' card */
    bool together, apart;
    struct strategy_use *without; /* [n_without] */
    int32_t n_without;
    const char *coefficients, *save;
    const char *target, *features, *group, *strategy, *by, *where;
    bool intercept, relative, nonneg;
    int64_t folds; /* -1: not said */
    int64_t points;
    uint64_t seed;
    enum show show;
    int argc; /* as called */
    char **argv;
    struct err *err;
};

/* ---- rows --------------------------------------------------------------------------------------------- */

/* Rows to fit, of either mode. */
struct rows {
    int64_t n, cap_x, cap_y, cap_config, cap_part, cap_strategy, cap_file, cap_line;
    int32_t p;
    const char *name[FIT_MAX_COEF], *unit[FIT_MAX_COEF], *about[FIT_MAX_COEF];
    int32_t n_variants;
    double *x;              /* [n_variants][n][p] */
    struct tile_bill *bill; /* [n], and no x: of models with tiles */
    struct tile_env *env;
    double *y;
    int32_t *config, *part, *strategy, *file, *line;
    struct names configs, parts, strategies, files;
    bool positive;            /* all of y */
    double *given;            /* [parts][p + inner]: coefficients read from a file; NULL: to be fitted */
    char (*rest)[COEFS_REST]; /* [parts] what the file does not name */
    int64_t left_out, unwanted, merged, unmeasured; /* unmeasured: their target is empty */
};

static void rows_clear(struct rows *r)
{
    free(r->x);
    free(r->bill);
    free(r->env);
    free(r->y);
    free(r->given);
    free(r->rest);
    free(r->config);
    free(r->part);
    free(r->strategy);
    free(r->file);
    free(r->line);
    names_clear(&r->configs);
    names_clear(&r->parts);
    names_clear(&r->strategies);
    names_clear(&r->files);
}

/* One more row but for its x. */
static void rows_add(struct rows *r, double y, const char *config, const char *part, const char *strategy,
                     const char *file, int32_t line)
{
    int64_t i = r->n++;
    r->y = xgrow(r->y, &r->cap_y, r->n, sizeof *r->y);
    r->config = xgrow(r->config, &r->cap_config, r->n, sizeof *r->config);
    r->part = xgrow(r->part, &r->cap_part, r->n, sizeof *r->part);
    r->strategy = xgrow(r->strategy, &r->cap_strategy, r->n, sizeof *r->strategy);
    r->file = xgrow(r->file, &r->cap_file, r->n, sizeof *r->file);
    r->line = xgrow(r->line, &r->cap_line, r->n, sizeof *r->line);
    r->y[i] = y;
    r->config[i] = names_add(&r->configs, config);
    r->part[i] = names_add(&r->parts, part);
    r->strategy[i] = names_add(&r->strategies, strategy);
    r->file[i] = names_add(&r->files, file);
    r->line[i] = line;
    r->positive = (i == 0 || r->positive) && y > 0;
}

/* ---- rows by columns ---------------------------------------------------------------------------------- */

/* Columns of one file that the options name. */
struct columns {
    int32_t target, x[FIT_MAX_COEF], n_x, group, strategy, by, where;
    const char *value; /* of `where` */
};

static bool optional_column(const struct csv *c, const char *name, int32_t *at, struct err *e)
{
    *at = name ? csv_column(c, name, e) : -1;
    return !name || *at >= 0;
}

static bool find_columns(const struct fit_args *a, const struct rows *r, const struct csv *c,
                         struct columns *at, struct err *e)
{
    at->n_x = r->p - a->intercept;
    if ((at->target = csv_column(c, a->target, e)) < 0)
        return false;
    for (int32_t j = 0; j < at->n_x; j++)
        if ((at->x[j] = csv_column(c, r->name[j], e)) < 0)
            return false;
    at->where = -1;
    if (a->where) {
        char *copy = xstrdup(a->where), *rest = copy;
        text_next(&rest, '=');
        at->where = csv_column(c, copy, e);
        at->value = strchr(a->where, '=') + 1;
        free(copy);
        if (at->where < 0)
            return false;
    }
    return optional_column(c, a->group, &at->group, e) && optional_column(c, a->strategy, &at->strategy, e) &&
           optional_column(c, a->by, &at->by, e);
}

static bool add_columns(const struct fit_args *a, struct rows *r, const struct csv *c,
                        const struct columns *at, int64_t i, struct err *e)
{
    double y;
    if (at->where >= 0 && strcmp(csv_peek(c, i, at->where), at->value) != 0) {
        r->left_out++;
        return true;
    }
    if (!*csv_peek(c, i, at->target)) {
        r->unmeasured++;
        return true;
    }
    if (!csv_f64(c, i, at->target, &y, e))
        return false;
    if (a->relative && y <= 0)
        return err_set(e, "%s:%d: %s is %g (expected more than 0 for --relative)", c->name, (int)c->line[i],
                       a->target, y);
    char *alone = xasprintf("%s:%d", c->name, (int)c->line[i]);
    rows_add(r, y, at->group >= 0 ? csv_peek(c, i, at->group) : alone,
             at->by >= 0 ? csv_peek(c, i, at->by) : "all",
             at->strategy >= 0 ? csv_peek(c, i, at->strategy) : "", c->name, c->line[i]);
    free(alone);
    r->x = xgrow(r->x, &r->cap_x, r->n * r->p, sizeof *r->x);
    double *x = r->x + (r->n - 1) * r->p;
    for (int32_t j = 0; j < at->n_x; j++)
        if (!csv_f64(c, i, at->x[j], &x[j], e))
            return false;
    if (a->intercept)
        x[at->n_x] = 1;
    return true;
}

/* The names of the features, cut in place out of `list`. */
static bool split_features(const struct fit_args *a, char *list, struct rows *r, struct err *e)
{
    for (char *name; (name = text_next(&list, ','));) {
        if (r->p == FIT_MAX_COEF - 1)
            return err_set(e, "more than %d features (expected fewer)", FIT_MAX_COEF - 1);
        for (int32_t j = 0; j < r->p; j++)
            if (strcmp(r->name[j], name) == 0)
                return err_set(e, "--features has '%.40s' twice (expected different columns)", name);
        r->about[r->p] = r->unit[r->p] = "";
        r->name[r->p++] = name;
    }
    if (a->intercept) {
        r->unit[r->p] = "";
        r->about[r->p] = "1 in every row";
        r->name[r->p++] = "(intercept)";
    }
    return true;
}

static bool load_columns(const struct fit_args *a, struct rows *r, struct err *e)
{
    bool good = true;
    r->n_variants = 1;
    for (int32_t k = 0; k < a->n_files && good; k++) {
        struct csv c;
        struct columns at;
        if (!csv_read(a->file[k], &c, e))
            return false;
        good = find_columns(a, r, &c, &at, e);
        for (int64_t i = 0; i < c.n_rows && good; i++)
            good = add_columns(a, r, &c, &at, i, e);
        csv_clear(&c);
    }
    return good;
}

/* ---- rows by plans ------------------------------------------------------------------------------------ */

/* Coefficients of a part that are not linear: as given, or those of a variant. */
static void inner_of(const struct fit_args *a, const struct rows *r, int32_t part, int32_t variant,
                     double *inner)
{
    const struct fit_model *m = a->model;
    if (r->given)
        memcpy(inner, r->given + part * (m->n + m->n_inner) + m->n, (size_t)m->n_inner * sizeof *inner);
    else if (m->point)
        m->point(variant, inner);
}

static bool read_coefficients(const struct fit_args *a, struct rows *r, struct err *e)
{
    int32_t n = a->model->n + a->model->n_inner;
    bool good = true;
    r->given = xcalloc((size_t)(r->parts.n * n), sizeof *r->given);
    r->rest = xcalloc((size_t)r->parts.n, sizeof *r->rest);
    for (int32_t k = 0; k < r->parts.n && good; k++)
        good = coefs_read_model(a->coefficients, a->mc.name, a->model, r->parts.name[k], r->given + k * n,
                                r->rest[k], e);
    return good;
}

/* x of row i, for all variants. */
static bool plan_row(const struct fit_args *a, const struct rows *r, const struct measured_row *row,
                     const struct nform *nf, int64_t i, struct err *e)
{
    struct plan *p = measured_plan(row, nf, e);
    for (int32_t v = 0; v < r->n_variants && p; v++) {
        double inner[MAX_TRAITS];
        inner_of(a, r, r->part[i], v, inner);
        a->model->of(p, &row->heads, &a->mc, inner, r->x + (v * r->n + i) * r->p);
    }
    plan_free(p);
    return p != NULL;
}

/* Bill of row i. */
static void bill_row(const struct fit_args *a, const struct rows *r, const struct measured_row *row,
                     const struct nform *nf, int64_t i)
{
    struct plan_env env = {.heads = row->heads, .machine = &a->mc};
    r->bill[i] = treeattn_bill(nf, &env, row->use[0].opt);
    r->env[i] = tile_env_of(&env);
}

/* Rows row[0 .. n) of one configuration, ascending. Returns the first that cannot be planned, or -1. */
static int64_t plan_config(const struct fit_args *a, const struct rows *r, const struct measured *m,
                           const int64_t *row, int64_t n, struct err *e)
{
    struct tree *t;
    struct nform *nf = measured_nform(&m->row[row[0]], &t, e);
    int64_t bad = nf ? -1 : row[0];
    for (int64_t k = 0; k < n && bad < 0; k++) {
        const struct measured_row *x = &m->row[row[k]];
        if (a->model->tiles)
            bill_row(a, r, x, nf, row[k]);
        else if (!plan_row(a, r, x, nf, row[k], e))
            bad = row[k];
    }
    nform_free(nf);
    tree_free(t);
    return bad;
}

/* All rows; of several that cannot be planned, the first is reported. */
static bool plan_rows(const struct fit_args *a, const struct rows *r, const struct measured *m, struct err *e)
{
    int64_t first_bad = m->n, *row = xcalloc((size_t)m->n, sizeof *row);
    int64_t *start = rows_by_config(m->n, r->config, r->configs.n, row);
    struct progress progress = progress_start("plan", r->configs.n);
#pragma omp parallel for schedule(dynamic, 1)
    for (int32_t k = 0; k < r->configs.n; k++) {
        struct err why = {0};
        int64_t bad = plan_config(a, r, m, row + start[k], start[k + 1] - start[k], &why);
#pragma omp critical
        {
            progress_step(&progress);
            if (bad >= 0 && bad < first_bad) {
                first_bad = bad;
                *e = why;
            }
        }
    }
    progress_clear(&progress);
    free(start);
    free(row);
    return first_bad == m->n;
}

/* Row i to those that stay, `kept` so far; that which was in its place goes behind. */
static int64_t keep_row(struct measured *m, int64_t i, int64_t kept)
{
    struct measured_row row = m->row[kept];
    m->row[kept] = m->row[i];
    m->row[i] = row;
    return kept + 1;
}

/* Rows of strategies with too few of them for coefficients of their own go behind the others; returns how many stay. */
static int64_t part_rows(struct measured *m, int64_t least)
{
    struct names seen = {0};
    int32_t *of = xcalloc((size_t)m->n, sizeof *of);
    int64_t *rows = xcalloc((size_t)m->n, sizeof *rows), kept = 0;
    for (int64_t i = 0; i < m->n; i++) {
        char *name = strategy_label(&m->row[i].use[0]);
        of[i] = names_add(&seen, name);
        rows[of[i]]++;
        free(name);
    }
    for (int64_t i = 0; i < m->n; i++)
        if (rows[of[i]] >= least)
            kept = keep_row(m, i, kept);
    names_clear(&seen);
    free(of);
    free(rows);
    return kept;
}

/* Is it one of those that are not wanted? A name without options stands for all of that strategy. */
static bool is_unwanted(const struct fit_args *a, const struct strategy_use *u, bool *found)
{
    bool unwanted = false;
    char *name = strategy_label(u);
    for (int32_t k = 0; k < a->n_without; k++) {
        char *other = strategy_label(&a->without[k]);
        if (a->without[k].s == u->s && (strcmp(other, u->s->name) == 0 || strcmp(other, name) == 0))
            unwanted = found[k] = true;
        free(other);
    }
    free(name);
    return unwanted;
}

/* Rows of strategies that are not wanted go behind the others, whose number is *kept. */
static bool wanted_rows(const struct fit_args *a, struct measured *m, int64_t *kept, struct err *e)
{
    bool *found = xcalloc((size_t)a->n_without + 1, sizeof *found), good = true;
    *kept = 0;
    for (int64_t i = 0; i < m->n; i++)
        if (!is_unwanted(a, &m->row[i].use[0], found))
            *kept = keep_row(m, i, *kept);
    for (int32_t k = 0; k < a->n_without && good; k++)
        good = found[k] || err_set(e, "--without %s: no row is of it (expected strategies that rows name)",
                                   a->without[k].s->name);
    if (good && *kept == 0)
        good = err_set(e, "%s: no row is left (expected one of a strategy that --without does not name)",
                       a->file[0]);
    free(found);
    return good;
}

/* Rows of plans that treeattn was told go before the others; returns how many there are. */
static int64_t tell_rows(struct measured *m)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < m->n; i++) {
        const struct strategy_use *u = &m->row[i].use[0];
        if (u->s == &strategy_treeattn && !treeattn_chooses(u->opt))
            kept = keep_row(m, i, kept);
    }
    return kept;
}

/* Rows with the bill of another of their configuration become one with that, which gets the mean of their times. */
static void merge_rows(struct rows *r)
{
    struct tile_rows tiles = {r->n, r->bill, r->env, r->y, r->config, r->configs.n};
    int64_t *same = xcalloc((size_t)r->n, sizeof *same), *times = xcalloc((size_t)r->n, sizeof *times);
    int64_t kept = 0;
    tile_rows_same(&tiles, same);
    for (int64_t i = 0; i < r->n; i++) {
        times[same[i]]++;
        r->y[same[i]] += (r->y[i] - r->y[same[i]]) / (double)times[same[i]];
    }
    for (int64_t i = 0; i < r->n; i++)
        if (same[i] == i) {
            r->bill[kept] = r->bill[i];
            r->env[kept] = r->env[i];
            r->y[kept] = r->y[i];
            r->config[kept] = r->config[i];
            r->part[kept] = r->part[i];
            r->strategy[kept] = r->strategy[i];
            r->file[kept] = r->file[i];
            r->line[kept++] = r->line[i];
        }
    r->merged = r->n - kept;
    r->n = kept;
    free(same);
    free(times);
}

/* The machine of the card that rows were measured on, where there is one of it. */
static bool take_machine(struct fit_args *a, const struct names *devices, struct err *e)
{
    const struct machine *mc = devices->n > 0 ? machine_of_device(devices->name[0]) : NULL;
    if (mc && a->machine_given && strcmp(mc->name, a->mc.name) != 0)
        return err_set(e, "%s: rows of %.60s, but --machine %s (expected %s, or none)", a->file[0],
                       devices->name[0], a->mc.name, mc->name);
    if (mc && !a->machine_given)
        a->mc = *mc;
    return true;
}

static bool load_plans(struct fit_args *a, struct rows *r, struct err *e)
{
    struct measured m = {0};
    bool good = true;
    for (int32_t k = 0; k < a->n_files && good; k++)
        good = measured_read(a->file[k], &m, e);
    good = good && take_machine(a, &m.devices, e);
    for (r->p = 0; r->p < a->model->n; r->p++) {
        r->name[r->p] = a->model->trait[r->p].name;
        r->unit[r->p] = a->model->trait[r->p].unit;
        r->about[r->p] = a->model->trait[r->p].about;
    }
    int64_t all = m.n, wanted = m.n;
    good = good && (!a->without || wanted_rows(a, &m, &wanted, e));
    r->unwanted = m.n - wanted;
    m.n = wanted;
    if (good && a->model->tiles)
        m.n = tell_rows(&m);
    else if (a->apart && good)
        m.n = part_rows(&m, 2 * (int64_t)r->p);
    for (int64_t i = 0; i < m.n && good; i++) {
        const struct measured_row *row = &m.row[i];
        char *strategy = strategy_label(&row->use[0]);
        rows_add(r, row->seconds, m.configs.name[row->config],
                 a->together || a->model->tiles ? "all"
                 : a->apart                     ? strategy
                                                : m.kernels.name[row->kernel],
                 strategy, row->file, row->line);
        free(strategy);
    }
    good = good && (!a->coefficients || read_coefficients(a, r, e));
    r->n_variants = a->model->point && !r->given ? (int32_t)a->points : 1;
    if (a->model->tiles) {
        r->bill = xcalloc((size_t)m.n, sizeof *r->bill);
        r->env = xcalloc((size_t)m.n, sizeof *r->env);
    } else
        r->x = xcalloc((size_t)(r->n_variants * m.n * r->p), sizeof *r->x);
    good = good && plan_rows(a, r, &m, e);
    if (good && a->model->tiles)
        merge_rows(r);
    r->left_out = m.left_out + wanted - m.n;
    m.n = all;
    measured_clear(&m);
    return good;
}

/* ---- fits --------------------------------------------------------------------------------------------- */

/* What came out: predictions of the fit to all rows, and of the fits to the others (NULL: there are none). */
struct fitted {
    struct part_fit *fit; /* [parts] */
    double *predicted, *held_out;
};

static void fitted_clear(struct fitted *f)
{
    free(f->fit);
    free(f->predicted);
    free(f->held_out);
}

static void take_given(const struct rows *r, int32_t stride, struct part_fit *fit)
{
    for (int32_t k = 0; k < r->parts.n; k++) {
        fit[k].fit.p = r->p;
        fit[k].fit.r2 = NAN;
        memcpy(fit[k].fit.coef, r->given + k * stride, (size_t)r->p * sizeof *r->given);
    }
}

static int32_t folds_of(const struct fit_args *a, const struct rows *r)
{
    if (a->coefficients || (a->folds < 0 && r->configs.n < 2))
        return 0;
    return (int32_t)(a->folds >= 0 ? a->folds : min_i64(5, r->configs.n));
}

static void one_more(void *progress)
{
    progress_step(progress);
}

/* A model with tiles. */
static bool fit_tiles(const struct fit_args *a, const struct rows *r, struct fitted *f, struct err *e)
{
    struct tile_rows tiles = {r->n, r->bill, r->env, r->y, r->config, r->configs.n};
    int32_t folds = folds_of(a, r);
    struct progress progress = progress_start("fit", 1 + folds);
    bool good = true;
    if (r->given)
        take_given(r, a->model->n, f->fit);
    else {
        treeattn_cost_fit(&tiles, NULL, f->fit[0].fit.coef);
        f->fit[0].fit.p = r->p;
    }
    one_more(&progress);
    f->fit[0].fit.r2 = NAN;
    treeattn_cost_predict(&tiles, f->fit[0].fit.coef, f->predicted);
    if (folds > 0) {
        f->held_out = xcalloc((size_t)r->n, sizeof *f->held_out);
        good = treeattn_cost_held_out(&tiles, folds, a->seed, f->held_out, one_more, &progress, e);
    }
    progress_clear(&progress);
    return good;
}

static bool fit_rows(const struct fit_args *a, const struct rows *r, struct fitted *f, struct err *e)
{
    struct regression reg = {
        .n = r->n,
        .p = r->p,
        .n_variants = r->n_variants,
        .x = r->x,
        .y = r->y,
        .name = r->name,
        .config = r->config,
        .n_configs = r->configs.n,
        .part = r->part,
        .n_parts = r->parts.n,
        .part_name = (const char *const *)r->parts.name,
        .relative = a->relative,
        .nonneg = a->nonneg,
        .drop = a->model != NULL,
    };
    *f = (struct fitted){.fit = xcalloc((size_t)r->parts.n, sizeof *f->fit),
                         .predicted = xcalloc((size_t)r->n, sizeof *f->predicted)};
    if (r->bill)
        return fit_tiles(a, r, f, e);
    if (r->given)
        take_given(r, a->model->n + a->model->n_inner, f->fit);
    else if (!regress(&reg, NULL, f->fit, e))
        return false;
    regress_predict(&reg, f->fit, f->predicted);
    int32_t folds = folds_of(a, r);
    if (folds == 0)
        return true;
    f->held_out = xcalloc((size_t)r->n, sizeof *f->held_out);
    return regress_held_out(&reg, folds, a->seed, f->held_out, e);
}

/* ---- what is printed ---------------------------------------------------------------------------------- */

static void number_or_none(struct printer *t, double x, int digits)
{
    table_f64_if(t, !isnan(x), x, digits);
}

static void coefficient_row(struct printer *t, const char *part, const struct trait *c, double value,
                            double error, const char *note)
{
    table_text(t, part);
    table_text(t, c->name);
    number_or_none(t, value, 4);
    number_or_none(t, error, 2);
    table_text(t, c->unit);
    char *about = xasprintf("%s%s", c->about, note);
    table_text(t, about);
    free(about);
}

/* Of a coefficient that was not fitted. */
static const char *where_from(const struct fit_args *a, const struct rows *r, int32_t part, const char *name)
{
    const char *at = r->rest[part];
    size_t n = strlen(name);
    while ((at = strstr(at, name)) && !((at == r->rest[part] || at[-1] == ' ') && (at[n] == ' ' || !at[n])))
        at += n;
    return !at ? "" : a->model->built_in ? " (not in the file: built in)" : " (not in the file)";
}

static void show_coefficients(const struct fit_args *a, const struct rows *r, const struct fitted *f,
                              FILE *out)
{
    static const char *const columns[] = {"part", "coefficient", "value", "error", "unit", "of", NULL};
    static const int32_t width[] = {10, 12, 11, 9, 4, 0};
    struct printer t = {.f = out, .style = a->out.style, .column = columns, .aligned = true, .width = width};
    for (int32_t k = 0; k < r->parts.n; k++) {
        const struct part_fit *f_k = &f->fit[k];
        double inner[MAX_TRAITS];
        for (int32_t j = 0; j < r->p; j++) {
            bool dropped = f_k->dropped[j], held = f_k->fit.held[j];
            struct trait c = {.name = r->name[j], .unit = r->unit[j], .about = r->about[j]};
            coefficient_row(&t, r->parts.name[k], &c, dropped ? NAN : f_k->fit.coef[j],
                            dropped || held || r->given || r->bill ? NAN : f_k->fit.error[j],
                            dropped    ? " (left out: depends on those above)"
                            : r->given ? where_from(a, r, k, r->name[j])
                            : held     ? " (held at 0)"
                                       : "");
        }
        if (!a->model || !a->model->point)
            continue;
        inner_of(a, r, k, f_k->variant, inner);
        for (int32_t j = 0; j < a->model->n_inner; j++)
            coefficient_row(&t, r->parts.name[k], &a->model->inner[j], inner[j], NAN,
                            r->given ? where_from(a, r, k, a->model->inner[j].name) : " (best point)");
    }
    table_end(&t);
}

/* The rows of one part, or of all of them (part -1). */
static void quality_row(struct printer *t, const struct rows *r, const double *predicted, int32_t part,
                        double r2, const char *kind)
{
    int64_t first = 0;
    while (part >= 0 && r->part[first] != part)
        first++;
    double *y = xcalloc((size_t)r->n, sizeof *y), *p = xcalloc((size_t)r->n, sizeof *p);
    int32_t *config = xcalloc((size_t)r->n, sizeof *config);
    int64_t n = 0;
    bool ranked = part < 0;
    for (int64_t i = 0; i < r->n; i++)
        if (part < 0 || r->part[i] == part) {
            ranked = ranked || r->strategy[i] != r->strategy[first];
            y[n] = r->y[i];
            p[n] = predicted[i];
            config[n++] = r->config[i];
        }
    struct score s = {.n = n, .median = NAN, .p90 = NAN, .tau = NAN, .regret = NAN};
    if (r->positive)
        s = score_of(n, y, p, config, r->configs.n);
    if (!ranked) { /* one strategy, perhaps timed twice */
        s.contested = 0;
        s.tau = s.regret = NAN;
    }
    table_text(t, part < 0 ? "all" : r->parts.name[part]);
    table_text(t, kind);
    table_i64(t, n);
    number_or_none(t, r2, 4);
    number_or_none(t, 100 * s.median, 3);
    number_or_none(t, 100 * s.p90, 3);
    number_or_none(t, s.tau, 3);
    table_i64(t, s.contested);
    number_or_none(t, s.contested ? 100 * (double)s.right / (double)s.contested : NAN, 3);
    number_or_none(t, 100 * s.regret, 3);
    free(y);
    free(p);
    free(config);
}

static void show_quality(const struct fit_args *a, const struct rows *r, const struct fitted *f, FILE *out)
{
    static const char *const columns[] = {"part", "rows",      "n",         "R^2",      "median %", "p90 %",
                                          "tau",  "contested", "fastest %", "regret %", NULL};
    static const int32_t width[] = {10, 8, 6, 8, 8, 7, 7, 9, 9, 8};
    struct printer t = {.f = out, .style = a->out.style, .column = columns, .aligned = true, .width = width};
    for (int32_t k = r->parts.n > 1 && !a->out.quiet ? 0 : r->parts.n; k <= r->parts.n; k++) {
        bool one = k < r->parts.n;
        double r2 = one ? f->fit[k].fit.r2 : r->parts.n == 1 ? f->fit[0].fit.r2 : NAN;
        quality_row(&t, r, f->predicted, one ? k : -1, r2, a->coefficients ? "given" : "fitted");
        if (f->held_out)
            quality_row(&t, r, f->held_out, one ? k : -1, NAN, "held out");
    }
    table_end(&t);
}

static void show_rows(const struct fit_args *a, const struct rows *r, const struct fitted *f, FILE *out)
{
    static const char *const of_times[] = {"file",       "line",        "configuration", "part", "strategy",
                                           "measured_s", "predicted_s", "held_out_s",    NULL};
    static const char *const of_columns[] = {"file",     "line",      "configuration", "part", "strategy",
                                             "measured", "predicted", "held_out",      NULL};
    struct printer t = {.f = out, .style = a->out.style, .column = a->target ? of_columns : of_times};
    for (int64_t i = 0; i < r->n; i++) {
        table_text(&t, r->files.name[r->file[i]]);
        table_i64(&t, r->line[i]);
        table_text(&t, r->configs.name[r->config[i]]);
        table_text(&t, r->parts.name[r->part[i]]);
        table_text(&t, r->strategies.name[r->strategy[i]]);
        table_f64(&t, r->y[i], 6);
        table_f64(&t, f->predicted[i], 6);
        number_or_none(&t, f->held_out ? f->held_out[i] : NAN, 6);
    }
    table_end(&t);
}

static void show_legend(const struct fit_args *a, const struct rows *r, const struct fitted *f, FILE *out)
{
    fprintf(out, "\nmedian, p90: of |predicted - measured| / measured; tau: Kendall's, of the rows of one "
                 "configuration\n"
                 "contested:   configurations with at least two rows; fastest: the share of them where what "
                 "is predicted fastest is\n"
                 "             measured fastest, within 1 %%; regret: how much slower the choice is than the "
                 "fastest, mean\n");
    if (f->held_out)
        fprintf(out, "held out:    predicted by fits that did not see the configuration\n");
    if (r->left_out > 0)
        fprintf(out, "%lld rows left out: %s\n", (long long)r->left_out,
                r->bill    ? "not of treeattn, or not with all of its options said"
                : a->model ? "not ok, not timed in a graph, of a method that no strategy stands for, or too "
                             "few of a strategy"
                           : a->where);
    if (r->unwanted > 0)
        fprintf(out, "%lld rows left out: of strategies not wanted\n", (long long)r->unwanted);
    if (r->unmeasured > 0)
        fprintf(out, "%lld rows left out: no %s\n", (long long)r->unmeasured, a->target);
    if (r->merged > 0)
        fprintf(out, "%lld rows are plans of which there is a row: its time is the mean\n",
                (long long)r->merged);
}

static void show(const struct fit_args *a, const struct rows *r, const struct fitted *f, FILE *out)
{
    if (a->out.quiet) {
        show_quality(a, r, f, out);
        return;
    }
    bool text = a->out.style == STYLE_TEXT, all = a->show == SHOW_USUAL;
    if (all || a->show == SHOW_COEFFICIENTS)
        show_coefficients(a, r, f, out);
    if (all && text)
        fputc('\n', out);
    if ((all && text) || a->show == SHOW_QUALITY)
        show_quality(a, r, f, out);
    if (a->show == SHOW_ROWS)
        show_rows(a, r, f, out);
    if (all && text)
        show_legend(a, r, f, out);
}

static bool save(const struct fit_args *a, const struct rows *r, const struct fitted *f, struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, a->save, e))
        return false;
    const struct fit_model *m = a->model;
    char date[ORIGIN_DATE], *command = origin_command("fit", a->argc, a->argv);
    origin_date(date);
    fprintf(out.f, "# %s\n# model %s, %s, %lld rows; commit %s, %s\n", command, m->name, a->mc.name,
            (long long)r->n, origin_commit(), date);
    free(command);
    coefs_write_header(out.f);
    for (int32_t k = 0; k < r->parts.n; k++) {
        const struct part_fit *f_k = &f->fit[k];
        const char *part = r->parts.name[k];
        double inner[MAX_TRAITS];
        for (int32_t j = 0; j < r->p; j++)
            coefs_write(out.f, a->mc.name, m->name, part, r->name[j], f_k->fit.coef[j], f_k->fit.error[j]);
        inner_of(a, r, k, f_k->variant, inner);
        for (int32_t j = 0; j < m->n_inner; j++)
            coefs_write(out.f, a->mc.name, m->name, part, m->inner[j].name, inner[j], 0);
    }
    return outfile_close(&out, true, e);
}

/* ---- options ------------------------------------------------------------------------------------------ */

static bool parse_show(const char *arg, struct fit_args *a)
{
    for (int i = SHOW_COEFFICIENTS; i <= SHOW_ROWS; i++)
        if (strcmp(show_name[i], arg) == 0) {
            a->show = (enum show)i;
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
        good = a->n_files < MAX_FILES || err_set(a->err, "more than %d files", MAX_FILES);
        if (good)
            a->file[a->n_files++] = arg;
        break;
    case KEY_MODEL:
        a->model = fit_model_find(arg, a->err);
        good = a->model != NULL;
        break;
    case KEY_MACHINE:
        good = machine_parse(arg, &a->mc, a->err);
        a->machine_given = true;
        break;
    case KEY_TOGETHER:
        a->together = true;
        break;
    case KEY_COEFFICIENTS:
        a->coefficients = arg;
        break;
    case KEY_SAVE:
        a->save = arg;
        break;
    case KEY_TARGET:
        a->target = arg;
        break;
    case KEY_FEATURES:
        a->features = arg;
        break;
    case KEY_GROUP:
        a->group = arg;
        break;
    case KEY_STRATEGY:
        a->strategy = arg;
        break;
    case KEY_APART:
        a->apart = true;
        break;
    case KEY_BY:
        a->by = arg;
        break;
    case KEY_WHERE:
        a->where = arg;
        good = strchr(arg, '=') || err_set(a->err, "--where '%.40s' (expected COLUMN=TEXT)", arg);
        break;
    case KEY_WITHOUT:
        good = !a->without || err_set(a->err, "--without twice (expected one list)");
        good = good && case_strategies(arg, &a->without, &a->n_without, a->err);
        break;
    case KEY_INTERCEPT:
        a->intercept = true;
        break;
    case KEY_RELATIVE:
        a->relative = true;
        break;
    case KEY_NONNEG:
        a->nonneg = true;
        break;
    case KEY_FOLDS:
        good = text_i64(arg, "--folds", 0, 1000, &a->folds, a->err) &&
               (a->folds != 1 || err_set(a->err, "--folds 1 (expected 0 for none, or 2 and more)"));
        break;
    case KEY_SEED:
        good = text_u64(arg, "--seed", &a->seed, a->err);
        break;
    case KEY_POINTS:
        good = text_i64(arg, "--points", 1, MAX_VARIANTS, &a->points, a->err);
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
    bool columns = a->target || a->features;
    if (a->n_files == 0)
        return err_set(e, "fit: no file (expected FILE.csv, see treeattn fit --help)");
    if (columns && !(a->target && a->features))
        return err_set(e, "fit: --target and --features belong together (expected both)");
    if (columns && (a->model || a->coefficients || a->save || a->together || a->apart || a->without))
        return err_set(
            e, "fit: --model, --together, --apart, --without, --coefficients and --save belong to models "
               "of plans (expected no --target)");
    if (a->model && a->model->tiles && (a->together || a->apart))
        return err_set(
            e, "fit: --model treeattn has one set of coefficients (expected no --together or --apart)");
    if (a->together && a->apart)
        return err_set(e, "fit: --together and --apart exclude each other (expected one of them)");
    if (!columns && (a->group || a->strategy || a->by || a->where || a->intercept))
        return err_set(e, "fit: --group, --strategy-col, --by, --where and --intercept belong to columns "
                          "(expected --target and "
                          "--features)");
    const char *const out[] = {a->out.path, a->save};
    if (!outfiles_check(out, 2, e))
        return false;
    for (int i = 0; i < 2; i++) {
        for (int32_t k = 0; k < a->n_files; k++)
            if (!outfile_spares(out[i], a->file[k], e))
                return false;
        if (!outfile_spares(out[i], a->coefficients, e))
            return false;
    }
    if (columns)
        return true;
    if (!a->model)
        a->model = &fit_models[0];
    a->relative = a->nonneg = true; /* times span three decades, and nothing takes less than none */
    return true;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "A model of plans (rows name a tree, heads, a strategy and a time):", .group = 1},
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
            {.doc = "Or any columns:", .group = 2},
            {"target", KEY_TARGET, "COL", 0, "what is to be predicted", 2},
            {"features", KEY_FEATURES, "A,B,..", 0, "from what", 2},
            {"group", KEY_GROUP, "COL", 0,
             "names the configuration: rows that are ranked, and kept back, together", 2},
            {"strategy-col", KEY_STRATEGY, "COL", 0, "names the strategy, for --show rows", 2},
            {"by", KEY_BY, "COL", 0, "coefficients of their own for every value of COL", 2},
            {"where", KEY_WHERE, "COL=TEXT", 0, "only rows with this text in COL", 2},
            {"intercept", KEY_INTERCEPT, NULL, 0, "and a constant", 2},
            {.doc = "How:", .group = 3},
            {"relative", KEY_RELATIVE, NULL, 0, "least relative errors (models always)", 3},
            {"nonneg", KEY_NONNEG, NULL, 0, "no coefficient below 0 (models always)", 3},
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
        "  treeattn fit SWEEP.csv --model treeattn           plans of treeattn, timed with options told\n"
        "  treeattn fit FILE.csv --target us --features bytes,flops --intercept",
    .children = (const struct argp_child[]){{&cmd_output_argp, 0, NULL, 0}, {0}},
};

/* Nothing is left to fit: why? */
static bool no_rows(const struct fit_args *a, const struct rows *r, struct err *e)
{
    if (a->where)
        return err_set(e, "%s: no row has %s (expected some)", a->file[0], a->where);
    if (r->bill)
        return err_set(e, "%s: no row of treeattn with low, high and piece (expected some)", a->file[0]);
    if (a->apart && r->left_out > 0)
        return err_set(e, "%s: no strategy has %d rows (expected so many, for coefficients of its own)",
                       a->file[0], 2 * (int)r->p);
    if (r->unmeasured > 0)
        return err_set(e, "%s: no row has a number for %s (expected some)", a->file[0], a->target);
    return err_set(e, "%s: no rows (expected some)", a->file[0]);
}

int cmd_fit(int argc, char **argv)
{
    struct err e = {0};
    struct fit_args a = {.mc = *machine_default(),
                         .folds = -1,
                         .points = 256,
                         .seed = 1,
                         .argc = argc,
                         .argv = argv,
                         .err = &e};
    struct outfile out = {0};
    if (!cmd_parse(&argp, argc, argv, &a, &e) || !settle(&a, &e)) {
        free(a.without);
        return cmd_error(&e);
    }
    struct rows r = {0};
    struct fitted f = {0};
    char *features = a.features ? xstrdup(a.features) : NULL;
    bool good = a.features ? split_features(&a, features, &r, &e) && load_columns(&a, &r, &e)
                           : load_plans(&a, &r, &e);
    good = good && (r.n > 0 || no_rows(&a, &r, &e)) && fit_rows(&a, &r, &f, &e) &&
           outfile_open(&out, a.out.path, &e) && (!a.save || save(&a, &r, &f, &e));
    if (good)
        show(&a, &r, &f, out.f);
    good = outfile_close(&out, good, &e) && good;
    fitted_clear(&f);
    rows_clear(&r);
    free(features);
    free(a.without);
    return good ? EXIT_GOOD : cmd_error(&e);
}
