#include "verify/model/fit.h"

#include "sim/strategies/treeattn.h"
#include "verify/io/origin.h"
#include "verify/io/outfile.h"
#include "verify/io/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows --------------------------------------------------------------------------------------------- */

void fit_rows_clear(struct fit_rows *r)
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

/* Rows of those that were timed, but for their x. */
static void take_rows(const struct fit_spec *a, const struct timed_rows *m, struct fit_rows *r)
{
    size_t n = (size_t)m->n;
    r->n = m->n;
    r->y = xcalloc(n, sizeof *r->y);
    r->config = xcalloc(n, sizeof *r->config);
    r->part = xcalloc(n, sizeof *r->part);
    r->strategy = xcalloc(n, sizeof *r->strategy);
    r->file = xcalloc(n, sizeof *r->file);
    r->line = xcalloc(n, sizeof *r->line);
    for (int64_t i = 0; i < m->n; i++) {
        const struct timed_row *row = &m->row[i];
        char *strategy = strategy_label(&row->use[0]);
        const char *own = a->apart ? strategy : m->kernels.name[row->kernel];
        r->y[i] = row->seconds;
        r->config[i] = names_add(&r->configs, m->configs.name[row->config]);
        r->part[i] = names_add(&r->parts, a->model->tiles ? "all" : own);
        r->strategy[i] = names_add(&r->strategies, strategy);
        r->file[i] = names_add(&r->files, row->file);
        r->line[i] = row->line;
        free(strategy);
    }
}

/* ---- rows by plans ------------------------------------------------------------------------------------ */

/* Coefficients of a part that are not linear: as given, or those of a variant. */
void fit_inner(const struct fit_spec *a, const struct fit_rows *r, int32_t part, int32_t variant,
               double *inner)
{
    const struct fit_model *m = a->model;
    if (r->given)
        memcpy(inner, r->given + part * (m->n + m->n_inner) + m->n, (size_t)m->n_inner * sizeof *inner);
    else if (m->point)
        m->point(variant, inner);
}

static bool read_coefficients(const struct fit_spec *a, struct fit_rows *r, struct err *e)
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
static bool plan_row(const struct fit_spec *a, const struct fit_rows *r, const struct timed_row *row,
                     const struct nform *nf, int64_t i, struct err *e)
{
    struct plan *p = timed_row_plan(row, nf, e);
    for (int32_t v = 0; v < r->n_variants && p; v++) {
        double inner[MAX_TRAITS];
        fit_inner(a, r, r->part[i], v, inner);
        a->model->of(p, &row->heads, &a->mc, inner, r->x + (v * r->n + i) * r->p);
    }
    plan_free(p);
    return p != NULL;
}

/* Bill of row i. */
static void bill_row(const struct fit_spec *a, const struct fit_rows *r, const struct timed_row *row,
                     const struct nform *nf, int64_t i)
{
    struct plan_env env = {.heads = row->heads, .machine = &a->mc};
    r->bill[i] = treeattn_bill(nf, &env, row->use[0].opt);
    r->env[i] = tile_env_of(&env);
}

/* Rows row[0 .. n) of one configuration, ascending. Returns the first that cannot be planned, or -1. */
static int64_t plan_config(const struct fit_spec *a, const struct fit_rows *r, const struct timed_rows *m,
                           const int64_t *row, int64_t n, struct err *e)
{
    struct nform *nf = timed_row_nform(&m->row[row[0]], e);
    int64_t bad = nf ? -1 : row[0];
    for (int64_t k = 0; k < n && bad < 0; k++) {
        const struct timed_row *x = &m->row[row[k]];
        if (a->model->tiles)
            bill_row(a, r, x, nf, row[k]);
        else if (!plan_row(a, r, x, nf, row[k], e))
            bad = row[k];
    }
    nform_free_with_tree(nf);
    return bad;
}

/* All rows; of several that cannot be planned, the first is reported. */
static bool plan_rows(const struct fit_spec *a, const struct fit_rows *r, const struct timed_rows *m,
                      struct err *e)
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
static int64_t keep_row(struct timed_rows *m, int64_t i, int64_t kept)
{
    struct timed_row row = m->row[kept];
    m->row[kept] = m->row[i];
    m->row[i] = row;
    return kept + 1;
}

/* Rows of strategies with too few of them for coefficients of their own go behind the others; returns how many stay. */
static int64_t part_rows(struct timed_rows *m, int64_t least)
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
static bool is_unwanted(const struct fit_spec *a, const struct strategy_use *u, bool *found)
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
static bool wanted_rows(const struct fit_spec *a, struct timed_rows *m, int64_t *kept, struct err *e)
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
static int64_t tell_rows(struct timed_rows *m)
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
static void merge_rows(struct fit_rows *r)
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
static bool take_machine(struct fit_spec *a, const struct names *devices, struct err *e)
{
    const struct machine *mc = devices->n > 0 ? machine_of_device(devices->name[0]) : NULL;
    if (mc && a->machine_given && strcmp(mc->name, a->mc.name) != 0)
        return err_set(e, "%s: rows of %.60s, but --machine %s (expected %s, or none)", a->file[0],
                       devices->name[0], a->mc.name, mc->name);
    if (mc && !a->machine_given)
        a->mc = *mc;
    return true;
}

/* Nothing is left to fit: why? */
static bool no_rows(const struct fit_spec *a, const struct fit_rows *r, struct err *e)
{
    if (r->bill)
        return err_set(e, "%s: no row of treeattn with low, high and piece (expected some)", a->file[0]);
    if (a->apart && r->left_out > 0)
        return err_set(e, "%s: no strategy has %d rows (expected so many, for coefficients of its own)",
                       a->file[0], 2 * (int)r->p);
    return err_set(e, "%s: no rows (expected some)", a->file[0]);
}

bool fit_load(struct fit_spec *a, struct fit_rows *r, struct err *e)
{
    struct timed_rows m = {0};
    bool good = true;
    for (int32_t k = 0; k < a->n_files && good; k++)
        good = timed_rows_read(a->file[k], &m, e);
    good = good && take_machine(a, &m.devices, e);
    r->p = a->model->n;
    int64_t all = m.n, wanted = m.n;
    good = good && (!a->without || wanted_rows(a, &m, &wanted, e));
    r->unwanted = m.n - wanted;
    m.n = wanted;
    if (good && a->model->tiles)
        m.n = tell_rows(&m);
    else if (a->apart && good)
        m.n = part_rows(&m, 2 * (int64_t)r->p);
    if (good)
        take_rows(a, &m, r);
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
    timed_rows_clear(&m);
    return good && (r->n > 0 || no_rows(a, r, e));
}

/* ---- fits --------------------------------------------------------------------------------------------- */

void fitted_clear(struct fitted *f)
{
    free(f->fit);
    free(f->predicted);
    free(f->held_out);
}

static void take_given(const struct fit_rows *r, int32_t stride, struct part_fit *fit)
{
    for (int32_t k = 0; k < r->parts.n; k++) {
        fit[k].fit.p = r->p;
        fit[k].fit.r2 = NAN;
        memcpy(fit[k].fit.coef, r->given + k * stride, (size_t)r->p * sizeof *r->given);
    }
}

static int32_t folds_of(const struct fit_spec *a, const struct fit_rows *r)
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
static bool fit_tiles(const struct fit_spec *a, const struct fit_rows *r, struct fitted *f, struct err *e)
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

bool fit_run(const struct fit_spec *a, const struct fit_rows *r, struct fitted *f, struct err *e)
{
    const char *name[FIT_MAX_COEF];
    for (int32_t j = 0; j < r->p; j++)
        name[j] = a->model->trait[j].name;
    /* times span three decades, and nothing takes less than none */
    struct regression reg = {
        .n = r->n,
        .p = r->p,
        .n_variants = r->n_variants,
        .x = r->x,
        .y = r->y,
        .name = name,
        .config = r->config,
        .n_configs = r->configs.n,
        .part = r->part,
        .n_parts = r->parts.n,
        .part_name = (const char *const *)r->parts.name,
        .relative = true,
        .nonneg = true,
        .drop = true,
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

bool fit_save(const struct fit_spec *a, const struct fit_rows *r, const struct fitted *f, const char *path,
              const char *command, struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, path, e))
        return false;
    const struct fit_model *m = a->model;
    char date[ORIGIN_DATE];
    origin_date(date);
    fprintf(out.f, "# %s\n# model %s, %s, %lld rows; commit %s, %s\n", command, m->name, a->mc.name,
            (long long)r->n, origin_commit(), date);
    coefs_write_header(out.f);
    for (int32_t k = 0; k < r->parts.n; k++) {
        const struct part_fit *f_k = &f->fit[k];
        const char *part = r->parts.name[k];
        double inner[MAX_TRAITS];
        for (int32_t j = 0; j < r->p; j++)
            coefs_write(out.f, a->mc.name, m->name, part, m->trait[j].name, f_k->fit.coef[j],
                        f_k->fit.error[j]);
        fit_inner(a, r, k, f_k->variant, inner);
        for (int32_t j = 0; j < m->n_inner; j++)
            coefs_write(out.f, a->mc.name, m->name, part, m->inner[j].name, inner[j], 0);
    }
    return outfile_close(&out, true, e);
}
