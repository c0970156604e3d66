/* fit_tables.c - the tables of `treeattn fit`. */
#include "verify/model/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const fit_show_name[N_FIT_SHOWS] = {"usual", "coefficients", "quality", "rows"};

static void coefficient_row(struct printer *t, const char *part, const struct trait *c, double value,
                            double error, const char *note)
{
    table_text(t, part);
    table_text(t, c->name);
    table_number(t, value, 4);
    table_number(t, error, 2);
    table_text(t, c->unit);
    char *about = xasprintf("%s%s", c->about, note);
    table_text(t, about);
    free(about);
}

/* Of a coefficient that was not fitted. */
static const char *where_from(const struct fit_spec *a, const struct fit_rows *r, int32_t part,
                              const char *name)
{
    const char *at = r->rest[part];
    size_t n = strlen(name);
    while ((at = strstr(at, name)) && !((at == r->rest[part] || at[-1] == ' ') && (at[n] == ' ' || !at[n])))
        at += n;
    return !at ? "" : a->model->built_in ? " (not in the file: built in)" : " (not in the file)";
}

static void show_coefficients(const struct fit_spec *a, const struct fit_rows *r, const struct fitted *f,
                              enum style style, FILE *out)
{
    static const char *const columns[] = {"part", "coefficient", "value", "error", "unit", "of", NULL};
    static const int32_t width[] = {10, 12, 11, 9, 4, 0};
    struct printer t = {.f = out, .style = style, .column = columns, .aligned = true, .width = width};
    for (int32_t k = 0; k < r->parts.n; k++) {
        const struct part_fit *f_k = &f->fit[k];
        double inner[MAX_TRAITS];
        for (int32_t j = 0; j < r->p; j++) {
            bool dropped = f_k->dropped[j], held = f_k->fit.held[j];
            const struct trait *c = &a->model->trait[j];
            coefficient_row(&t, r->parts.name[k], c, dropped ? NAN : f_k->fit.coef[j],
                            dropped || held || r->given || r->bill ? NAN : f_k->fit.error[j],
                            dropped    ? " (left out: depends on those above)"
                            : r->given ? where_from(a, r, k, c->name)
                            : held     ? " (held at 0)"
                                       : "");
        }
        if (!a->model->point)
            continue;
        fit_inner(a, r, k, f_k->variant, inner);
        for (int32_t j = 0; j < a->model->n_inner; j++)
            coefficient_row(&t, r->parts.name[k], &a->model->inner[j], inner[j], NAN,
                            r->given ? where_from(a, r, k, a->model->inner[j].name) : " (best point)");
    }
    table_end(&t);
}

/* The rows of one part, or of all of them (part -1). */
static void quality_row(struct printer *t, const struct fit_rows *r, const double *predicted, int32_t part,
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
    struct score s = score_of(n, y, p, config, r->configs.n);
    if (!ranked) { /* one strategy, perhaps timed twice */
        s.contested = 0;
        s.tau = s.regret = NAN;
    }
    table_text(t, part < 0 ? "all" : r->parts.name[part]);
    table_text(t, kind);
    table_i64(t, n);
    table_number(t, r2, 4);
    table_number(t, 100 * s.median, 3);
    table_number(t, 100 * s.p90, 3);
    table_number(t, s.tau, 3);
    table_i64(t, s.contested);
    table_number(t, s.contested ? 100 * (double)s.right / (double)s.contested : NAN, 3);
    table_number(t, 100 * s.regret, 3);
    free(y);
    free(p);
    free(config);
}

static void show_quality(const struct fit_spec *a, const struct fit_rows *r, const struct fitted *f,
                         enum style style, bool quiet, FILE *out)
{
    static const char *const columns[] = {"part", "rows",      "n",         "R^2",      "median %", "p90 %",
                                          "tau",  "contested", "fastest %", "regret %", NULL};
    static const int32_t width[] = {10, 8, 6, 8, 8, 7, 7, 9, 9, 8};
    struct printer t = {.f = out, .style = style, .column = columns, .aligned = true, .width = width};
    for (int32_t k = r->parts.n > 1 && !quiet ? 0 : r->parts.n; k <= r->parts.n; k++) {
        bool one = k < r->parts.n;
        double r2 = one ? f->fit[k].fit.r2 : r->parts.n == 1 ? f->fit[0].fit.r2 : NAN;
        quality_row(&t, r, f->predicted, one ? k : -1, r2, a->coefficients ? "given" : "fitted");
        if (f->held_out)
            quality_row(&t, r, f->held_out, one ? k : -1, NAN, "held out");
    }
    table_end(&t);
}

static void show_rows(const struct fit_rows *r, const struct fitted *f, enum style style, FILE *out)
{
    static const char *const columns[] = {"file",       "line",        "configuration", "part", "strategy",
                                          "measured_s", "predicted_s", "held_out_s",    NULL};
    struct printer t = {.f = out, .style = style, .column = columns};
    for (int64_t i = 0; i < r->n; i++) {
        table_text(&t, r->files.name[r->file[i]]);
        table_i64(&t, r->line[i]);
        table_text(&t, r->configs.name[r->config[i]]);
        table_text(&t, r->parts.name[r->part[i]]);
        table_text(&t, r->strategies.name[r->strategy[i]]);
        table_f64(&t, r->y[i], 6);
        table_f64(&t, f->predicted[i], 6);
        table_number(&t, f->held_out ? f->held_out[i] : NAN, 6);
    }
    table_end(&t);
}

static void show_legend(const struct fit_rows *r, const struct fitted *f, FILE *out)
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
                r->bill ? "not of treeattn, or not with all of its options said"
                        : "not ok, not timed in a graph, of a method that no strategy stands for, or too few "
                          "of a strategy");
    if (r->unwanted > 0)
        fprintf(out, "%lld rows left out: of strategies not wanted\n", (long long)r->unwanted);
    if (r->merged > 0)
        fprintf(out, "%lld rows are plans of which there is a row: its time is the mean\n",
                (long long)r->merged);
}

void fit_print(const struct fit_spec *a, const struct fit_rows *r, const struct fitted *f, enum fit_show show,
               enum style style, bool quiet, FILE *out)
{
    if (quiet) {
        show_quality(a, r, f, style, true, out);
        return;
    }
    bool text = style == STYLE_TEXT, all = show == FIT_SHOW_USUAL;
    if (all || show == FIT_SHOW_COEFFICIENTS)
        show_coefficients(a, r, f, style, out);
    if (all && text)
        fputc('\n', out);
    if ((all && text) || show == FIT_SHOW_QUALITY)
        show_quality(a, r, f, style, false, out);
    if (show == FIT_SHOW_ROWS)
        show_rows(r, f, style, out);
    if (all && text)
        show_legend(r, f, out);
}
