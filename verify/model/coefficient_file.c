#include "verify/model/coefficient_file.h"

#include "sim/time/machine.h"
#include "ref/csv.h"
#include "ref/file.h"
#include "ref/rng.h"
#include "verify/io/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE, MODEL, PART, COEFFICIENT, VALUE, ERROR, N_COLUMNS };
static const char *const column[N_COLUMNS] = {"machine", "model", "part", "coefficient", "value", "error"};

void coefs_write_header(FILE *f)
{
    for (int i = 0; i < N_COLUMNS; i++)
        fprintf(f, "%s%s", i ? "," : "", column[i]);
    fputc('\n', f);
}

void coefs_write(FILE *f, const char *machine, const char *model, const char *part, const char *coefficient,
                 double value, double error)
{
    const char *const text[] = {machine, model, part, coefficient};
    for (int i = 0; i < VALUE; i++) {
        char *cell = text_csv(text[i]);
        fprintf(f, "%s,", cell);
        free(cell);
    }
    fprintf(f, "%.9g,%.3g\n", value, error);
}

static bool complain(const struct csv *c, int64_t i, const char *what, const char *is,
                     const struct coef_want *w, struct err *e)
{
    char list[sizeof e->msg] = ""; /* of the machines or of the coefficients */
    for (int32_t k = 0; k < (w ? w->n : n_machines); k++)
        listing_add(list, sizeof list, w ? w->coef[k].name : machines[k].name);
    csv_error(e, c->name, c->line[i], "no %s '%.40s' (expected one of %s)", what, is, list);
    return false;
}

/* The lines of a file, one at a time: what has been found so far. */
struct found {
    const char *part;             /* NULL: none yet */
    int32_t *line;                /* [n] of each coefficient; 0: not yet */
    const char *other[N_COLUMNS]; /* the first line of another model, part or machine */
};

static bool read_line(const struct csv *c, int64_t i, const int32_t *at, const struct coef_want *w,
                      struct found *f, double *value, struct err *e)
{
    const char *cell[N_COLUMNS];
    for (int k = 0; k < N_COLUMNS; k++)
        if (!(cell[k] = csv_cell(c, i, at[k], e)))
            return false;
    double x;
    const struct machine *mc = machine_find(cell[MACHINE]);
    if (!mc)
        return complain(c, i, "machine", cell[MACHINE], NULL, e);
    if (!csv_f64(c, i, at[VALUE], &x, e))
        return false;
    if (x < 0)
        return csv_error(e, c->name, c->line[i], "%.40s is %.40s (expected no negative coefficient)",
                         cell[COEFFICIENT], cell[VALUE]);
    if (strcmp(mc->name, w->machine) != 0 || strcmp(cell[MODEL], w->model) != 0 ||
        (w->part && strcmp(cell[PART], w->part) != 0)) {
        if (!f->other[MODEL])
            memcpy(f->other, cell, sizeof cell);
        return true;
    }
    if (!f->part)
        f->part = cell[PART];
    if (strcmp(f->part, cell[PART]) != 0)
        return csv_error(e, c->name, c->line[i],
                         "a second part, '%.40s' after '%.40s' (expected a choice of one, --part)",
                         cell[PART], f->part);
    int32_t k = 0;
    while (k < w->n && strcmp(w->coef[k].name, cell[COEFFICIENT]) != 0)
        k++;
    if (k == w->n)
        return complain(c, i, "coefficient", cell[COEFFICIENT], w, e);
    if (f->line[k])
        return csv_error(e, c->name, c->line[i], "%s again (expected once, it was on line %d)",
                         cell[COEFFICIENT], (int)f->line[k]);
    if (x < w->coef[k].least || x > w->coef[k].most)
        return csv_error(e, c->name, c->line[i], "%s is %.40s (expected %g to %g)", cell[COEFFICIENT],
                         cell[VALUE], w->coef[k].least, w->coef[k].most);
    f->line[k] = c->line[i];
    value[k] = x;
    if (w->given)
        w->given[k] = true;
    return true;
}

static bool complain_of_none(const char *name, const struct coef_want *w, const struct found *f,
                             struct err *e)
{
    char *other = f->other[MODEL] ? xasprintf("; it has model %.40s, part %.40s, on %.40s", f->other[MODEL],
                                              f->other[PART], f->other[MACHINE])
                                  : xstrdup("");
    csv_error(e, name, 1, "nothing of model %s%s%s on %s%s (expected such lines)", w->model,
              w->part ? ", part " : "", w->part ? w->part : "", w->machine, other);
    free(other);
    return false;
}

bool coefs_parse(const char *text, size_t size, const char *name, const struct coef_want *w, double *value,
                 struct err *e)
{
    struct csv c;
    int32_t at[N_COLUMNS];
    if (!csv_parse(text, size, name, &c, e))
        return false;
    struct found f = {.line = xcalloc((size_t)w->n, sizeof *f.line)};
    bool good = true;
    for (int k = 0; k < N_COLUMNS && good; k++)
        good = (at[k] = csv_column(&c, column[k], e)) >= 0;
    for (int64_t i = 0; i < c.n_rows && good; i++)
        good = read_line(&c, i, at, w, &f, value, e);
    if (good && !f.part)
        good = complain_of_none(name, w, &f, e);
    free(f.line);
    csv_clear(&c);
    return good;
}

bool coefs_read(const char *path, const struct coef_want *w, double *value, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, CSV_MAX_BYTES, &size, e);
    bool good = text && coefs_parse(text, size, path, w, value, e);
    free(text);
    return good;
}

/* From the file, and into rest what it does not name: no commas, as it goes into CSV. */
static bool read_wanted(const char *path, struct coef_want *w, double *value, char rest[COEFS_REST],
                        struct err *e)
{
    bool given[2 * MAX_TRAITS] = {false};
    size_t at = 0;
    CK(w->n <= 2 * MAX_TRAITS);
    w->given = given;
    if (!coefs_read(path, w, value, e))
        return false;
    for (int32_t k = 0; k < w->n && rest; k++)
        if (!w->given[k] && at + strlen(w->coef[k].name) + 2 <= COEFS_REST)
            at += (size_t)sprintf(rest + at, "%s%s", at > 0 ? " " : "", w->coef[k].name);
    return true;
}

bool coefs_read_model(const char *path, const char *machine, const struct fit_model *m, const char *part,
                      double *value, char rest[COEFS_REST], struct err *e)
{
    struct coef_bound bound[2 * MAX_TRAITS];
    if (rest)
        rest[0] = '\0';
    for (int32_t j = 0; j < m->n + m->n_inner; j++) {
        const struct trait *t = j < m->n ? &m->trait[j] : &m->inner[j - m->n];
        bound[j] = (struct coef_bound){t->name, t->least, t->most > 0 ? t->most : INFINITY};
    }
    struct coef_want want = {
        .machine = machine, .model = m->name, .part = part, .n = m->n + m->n_inner, .coef = bound};
    memset(value, 0, (size_t)(m->n + m->n_inner) * sizeof *value);
    if (m->built_in)
        m->built_in(value);
    if (strcmp(path, COEFS_BUILT_IN) == 0)
        return m->built_in ||
               err_set(e,
                       "--coefficients built-in: model %s has none (expected a file of treeattn fit --save)",
                       m->name);
    return read_wanted(path, &want, value, rest, e);
}

bool coefs_read_clock(const char *path, const char *machine, const char *part, struct time_model_coefs *out,
                      char rest[COEFS_REST], struct err *e)
{
    static const struct coef_bound bound[] = {
#define X(name, value, least, most, about) {#name, least, most},
        CLOCK_COEFS(X)
#undef X
    };
    enum { N = sizeof bound / sizeof bound[0] };
    struct coef_want want = {.machine = machine, .model = "clock", .part = part, .n = N, .coef = bound};
    double value[] = {
#define X(name, value, least, most, about) out->name,
        CLOCK_COEFS(X)
#undef X
    };
    if (rest)
        rest[0] = '\0';
    if (strcmp(path, COEFS_BUILT_IN) == 0)
        return true;
    if (!read_wanted(path, &want, value, rest, e))
        return false;
    int32_t at = 0;
#define X(name, value_, least, most, about) out->name = value[at++];
    CLOCK_COEFS(X)
#undef X
    return true;
}

uint32_t coefs_sum(const struct time_model_coefs *c)
{
    double value[sizeof *c / sizeof(double)];
    uint64_t sum = 0, bits;
    memcpy(value, c, sizeof value);
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        memcpy(&bits, &value[i], sizeof bits);
        sum = rng_mix(sum + bits);
    }
    return (uint32_t)sum;
}

char *coefs_title(const char *path, const char *machine, const char *rest)
{
    static const char *const fitted[] = {"h100", "h200"}; /* paper-figs/measured has a file for each */
    if (path && strcmp(path, COEFS_BUILT_IN) != 0)
        return xasprintf("coefficients of %s%s%s%s", path, rest[0] ? " (built in: " : "", rest,
                         rest[0] ? ")" : "");
    for (size_t i = 0; i < sizeof fitted / sizeof fitted[0]; i++)
        if (strcmp(machine, fitted[i]) == 0)
            return xasprintf("built-in coefficients (fitted to our kernels on this card: --coefficients "
                             "paper-figs/measured/%s_clock.csv)",
                             machine);
    return xstrdup("built-in coefficients");
}
