#include "paper-figs/figures.h"
#include "ref/file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const source_names[] = {"counted", "recorded", "measured", "simulated"};
const char *const verdict_names[] = {"REPRODUCED", "CLOSE",        "TREND",  "DIFFERS",
                                     "BEYOND",     "NOT POSSIBLE", "NO DATA"};

const struct figure_def figure_defs[] = {
#define FIGURE(function, paper, place, shows, source, machine, why)                                          \
    {#function, paper, place, shows, source, false, machine, why, fig_##function},
#define FIGURE_BY_RELEASE(function, paper, place, shows, source, machine, why)                               \
    {#function, paper, place, shows, source, true, machine, why, fig_##function},
#define NOT_POSSIBLE_FIGURE(id, paper, place, shows, why)                                                    \
    {#id, paper, place, shows, ANALYTIC, false, "", why, NULL},
#include "paper-figs/figures.def"
#undef FIGURE
#undef FIGURE_BY_RELEASE
#undef NOT_POSSIBLE_FIGURE
};
const int32_t n_figure_defs = (int32_t)(sizeof figure_defs / sizeof figure_defs[0]);

const struct series series_defs[] = {
#define SERIES(...) {__VA_ARGS__},
#include "paper-figs/series.def"
#undef SERIES
};
const int32_t n_series_defs = (int32_t)(sizeof series_defs / sizeof series_defs[0]);

const struct series *series_find(const char *name)
{
    for (int32_t i = 0; i < n_series_defs; i++)
        if (strcmp(series_defs[i].name, name) == 0)
            return &series_defs[i];
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------------- */

/* What a paper prints of a figure and no panel shows, as bars of ours: one panel for each unit. */
static void add_printed(struct figure *f)
{
    for (int32_t i = 0; i < f->n_points; i++)
        if (!isnan(f->point[i].paper))
            return;
    for (int32_t i = 0; i < f->n_checks && !f->err.code; i++) {
        const struct check *first = &f->check[i];
        bool seen = isnan(first->paper);
        for (int32_t k = 0; k < i && !seen; k++)
            seen = !isnan(f->check[k].paper) && strcmp(f->check[k].unit, first->unit) == 0;
        if (seen)
            continue;
        add_panel(f, "what the paper prints", BARS, 0, "",
                  strcmp(first->unit, "x") == 0 ? "times" : first->unit);
        for (int32_t k = i; k < f->n_checks; k++)
            if (!isnan(f->check[k].paper) && strcmp(f->check[k].unit, f->check[i].unit) == 0)
                add_point(f, "ours", f->check[k].text, NAN, f->check[k].ours, f->check[k].paper);
    }
}

void figure_make(const struct figure_def *def, const struct places *places, struct figure *f)
{
    figure_make_watched(def, places, f, NULL);
}

void figure_make_watched(const struct figure_def *def, const struct places *places, struct figure *f, struct watch *watch)
{
    *f = (struct figure){.def = def, .places = places, .watch = watch};
    if (def->make) {
        def->make(f);
        if (!f->err.code && !(f->n_points && f->n_checks))
            err_set(&f->err, "figure %s has %d points and %d checks (expected one of each at least)", def->id,
                    (int)f->n_points, (int)f->n_checks);
        add_printed(f);
        if (f->err.code)
            f->n_checks = 0; /* of half of the numbers: "0 of 0" would hold */
    }
}

void figure_clear(struct figure *f)
{
    for (int32_t i = 0; i < f->n_tables && !(f->watch && f->watch->lender); i++) {
        csv_clear(f->table[i]);
        free(f->table[i]);
    }
    for (int32_t i = 0; i < f->n_strings; i++)
        free(f->string[i]);
    free(f->table);
    free(f->panel);
    free(f->point);
    free(f->check);
    free(f->note);
    free(f->factor);
    free(f->string);
    *f = (struct figure){0};
}

static char *keep(struct figure *f, char *s)
{
    f->string = xgrow(f->string, &f->cap_strings, f->n_strings + 1, sizeof *f->string);
    return f->string[f->n_strings++] = s;
}

const char *figure_text(struct figure *f, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return keep(f, xstrdup(text));
}

char *figure_machine(const struct figure *f)
{
    static const char key[] = "NVIDIA ";
    for (int32_t i = 0; f->def->source == MEASURED && i < f->n_tables; i++)
        for (int64_t k = 0; strncmp(f->table[i]->name, "measured/", 9) == 0 && k < f->table[i]->n_notes;
             k++) {
            const char *at = strstr(f->table[i]->note[k], key);
            char card[32] = "";
            if (at && sscanf(at, "NVIDIA %31[A-Z0-9a-z]", card) == 1 && !strstr(f->def->machine, card))
                return xasprintf("%.*s", (int)strcspn(at, ",;"), at);
        }
    return xstrdup(f->def->machine);
}

const char *figure_model_error(const struct figure_def *def)
{
    return def->source != SIMULATED ? ""
           : strstr(def->machine, "DeFT's release")
               ? "Of the 72 runs of DeFT's release that the terms are not fitted to, half of the times of "
                 "attention are within "
                 "2.6 % of measured ones, nine of ten within 14.4 %."
           : strstr(def->machine, "h100_clock")
               ? "The time model is fitted to our kernels on an H100: half of its times are within "
                 "12.8 % of measured ones, nine of ten within 28.4 %."
           : strstr(def->machine, "h200_clock")
               ? "The time model is fitted to our kernels on an H200: half of its times on other "
                 "trees are within 9.1 % of measured ones, nine of ten within 32.5 %."
               : "The time model is fitted to nothing measured on this card: on an H100 half of "
                 "its times are within 18.3 % of measured ones, nine of ten within 48.8 %.";
}

bool figure_is_beyond(const struct figure_def *def)
{
    return strcmp(def->paper, "Beyond the papers") == 0;
}

enum verdict figure_verdict(const struct figure *f)
{
    if (!f->def->make)
        return NOT_POSSIBLE;
    if (f->err.code)
        return NO_DATA;
    if (figure_is_beyond(f->def))
        return BEYOND;
    enum verdict worst = TREND;
    for (int32_t i = 0; i < f->n_checks; i++)
        if (f->check[i].number)
            worst = REPRODUCED;
    for (int32_t i = 0; i < f->n_checks; i++)
        if (f->check[i].grade > worst)
            worst = f->check[i].grade;
    return worst;
}

const char *grade_name(const struct figure_def *def, const struct check *c)
{
    return c->number && !figure_is_beyond(def) ? verdict_names[c->grade]
           : c->grade == REPRODUCED            ? "HOLDS"
                                               : "DOES NOT HOLD";
}

static void times_text(char out[32], double factor)
{
    if (isinf(factor))
        snprintf(out, 32, "no common sign");
    else
        snprintf(out, 32, "%.3gx", factor);
}

void factor_text(char *out, size_t size, double factor)
{
    char times[32];
    times_text(times, factor);
    if (isnan(factor))
        *out = 0;
    else
        snprintf(out, size, "%s%s", times, isinf(factor) ? "" : " apart");
}

void figure_factor_text(const struct figure *f, char *out, size_t size)
{
    if (f->n_factors < 2) {
        factor_text(out, size, f->n_factors ? f->factor[0] : NAN);
        return;
    }
    double *copy = xcalloc((size_t)f->n_factors, sizeof *copy);
    memcpy(copy, f->factor, (size_t)f->n_factors * sizeof *copy);
    char median[32], most[32];
    times_text(median, quantile(copy, f->n_factors, 0.5)); /* sorts */
    times_text(most, copy[f->n_factors - 1]);
    snprintf(out, size, "%d numbers, %s apart at the median, the furthest %s", (int)f->n_factors, median,
             most);
    free(copy);
}

/* ---- result files ------------------------------------------------------------------------------------ */

bool result_read(const char *path, const char *name, struct csv *t, struct err *e)
{
    *t = (struct csv){0};
    if (access(path, R_OK) != 0)
        return err_missing(e, "%s: %s (expected a result file at %s)", name, strerror(errno), path);
    size_t size;
    char *text = file_slurp(path, CSV_MAX_BYTES, &size, e);
    bool good = text && csv_parse(text, size, name, t, e) && csv_whole(t, e);
    free(text);
    return good;
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

const struct csv *figure_table(struct figure *f, const char *name)
{
    for (int32_t i = 0; i < f->n_tables; i++)
        if (strcmp(f->table[i]->name, name) == 0)
            return f->table[i];
    const struct figure *lender = f->watch ? f->watch->lender : NULL;
    for (int32_t i = 0; lender && i < lender->n_tables; i++)
        if (strcmp(lender->table[i]->name, name) == 0) {
            f->table = xgrow(f->table, &f->cap_tables, f->n_tables + 1, sizeof(struct csv *));
            return f->table[f->n_tables++] = lender->table[i];
        }
    CK(!lender); /* a figure asks for the same tables whatever is in them */
    const struct data_def *d = strncmp(name, "data/", 5) == 0 ? data_find(name + 5) : NULL;
    CK(d || strncmp(name, "data/", 5) != 0);
    char *path = d ? data_path(d, f->places) : xasprintf("%s/%s.csv", f->places->root, name);
    struct csv *t = xcalloc(1, sizeof *t);
    bool good = result_read(path, name, t, &f->err) &&
                (strncmp(name, "measured/", 9) != 0 || csv_words(t, "verdict", CSV_VERDICTS, &f->err));
    if (!good) {
        csv_clear(t);
        t->name = xstrdup(name);
    }
    free(path);
    f->table = xgrow(f->table, &f->cap_tables, f->n_tables + 1, sizeof(struct csv *));
    return f->table[f->n_tables++] = t;
}

const struct csv *figure_fitted(struct figure *f, const char *name)
{
    int32_t before = f->n_tables;
    const struct csv *t = figure_table(f, name);
    if (f->n_tables > before) {
        CK(before < 64);
        f->fitted |= UINT64_C(1) << before;
    }
    return t;
}

enum { MAX_KEYS = 8 };
struct where {
    int n;
    const char *name[MAX_KEYS], *text[MAX_KEYS];
    int32_t column[MAX_KEYS];
};

/* The pairs of a variadic list; no columns after an error. */
static bool where_read(struct figure *f, const struct csv *t, struct where *w, va_list args)
{
    w->n = 0;
    for (const char *name; (name = va_arg(args, const char *)); w->n++) {
        CK(w->n < MAX_KEYS);
        w->name[w->n] = name;
        w->text[w->n] = va_arg(args, const char *);
        if (!f->err.code)
            w->column[w->n] = csv_column(t, name, &f->err);
    }
    return !f->err.code;
}

static int64_t where_next(const struct csv *t, const struct where *w, int64_t row)
{
    for (row++; row < t->n_rows; row++) {
        int i = 0;
        while (i < w->n && strcmp(csv_peek(t, row, w->column[i]), w->text[i]) == 0)
            i++;
        if (i == w->n)
            return row;
    }
    return -1;
}

static void where_error(struct figure *f, const struct csv *t, const struct where *w, const char *what)
{
    char keys[400] = "";
    for (int i = 0; i < w->n; i++) {
        size_t n = strlen(keys);
        snprintf(keys + n, sizeof keys - n, "%s%s = '%s'", i ? ", " : "", w->name[i], w->text[i]);
    }
    err_set(&f->err, "%s: %s with %s", t->name, what, keys);
}

int64_t pick_row(struct figure *f, const struct csv *t, int64_t row, ...)
{
    struct where w;
    va_list args;
    va_start(args, row);
    bool good = where_read(f, t, &w, args);
    va_end(args);
    return good ? where_next(t, &w, row) : -1;
}

int reading_compare(const void *a, const void *b)
{
    const struct reading *x = a, *y = b;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

/* What is read where somebody watches. Each number that is nudged is moved by a share of its own, so that no two make up for
 * each other. */
static const char *watched_text(struct figure *f, const struct csv *t, struct reading r)
{
    struct watch *w = f->watch;
    const char *s = csv_peek(t, r.row, r.column);
    while (f->table[r.table] != t)
        r.table++;
    w->read = xgrow(w->read, &w->cap_read, w->n_read + 1, sizeof *w->read);
    w->read[w->n_read++] = r;
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || w->n_nudged == 0 || !bsearch(&r, w->nudged, (size_t)w->n_nudged, sizeof r, reading_compare))
        return s;
    double share = 1e-3 + 1e-6 * (double)((r.row * 7919 + r.column * 104729 + r.table * 1299709) % 9973);
    return figure_text(f, "%.17g", v != 0 ? v * (1 + share) : share);
}

const char *cell_text(struct figure *f, const struct csv *t, int64_t row, const char *column)
{
    int32_t c = f->err.code ? -1 : csv_column(t, column, &f->err);
    if (c < 0 || row < 0)
        return ""; /* of no row no number */
    return f->watch ? watched_text(f, t, (struct reading){0, row, c}) : csv_peek(t, row, c);
}

double cell_number(struct figure *f, const struct csv *t, int64_t row, const char *column)
{
    const char *s = cell_text(f, t, row, column);
    if (f->err.code)
        return NAN;
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || !isfinite(v)) {
        err_set(&f->err, "%s: row %d: %s is '%s' (expected a number)", t->name, (int)row + 1, column, s);
        return NAN;
    }
    return v;
}

/* Sum and number of the rows that fit; NAN after an error. */
static double total(struct figure *f, const struct csv *t, const char *column, const struct where *w,
                    int64_t *n)
{
    double sum = 0;
    *n = 0;
    for (int64_t row = -1; (row = where_next(t, w, row)) >= 0; ++*n)
        sum += cell_number(f, t, row, column);
    if (*n == 0)
        where_error(f, t, w, "no row");
    return f->err.code ? NAN : sum;
}

double pick(struct figure *f, const struct csv *t, const char *column, ...)
{
    struct where w;
    va_list args;
    va_start(args, column);
    bool good = where_read(f, t, &w, args);
    va_end(args);
    if (!good)
        return NAN;
    int64_t n;
    double v = total(f, t, column, &w, &n);
    if (n > 1)
        where_error(f, t, &w, "more than one row");
    return n > 1 ? NAN : v;
}

double pick_mean(struct figure *f, const struct csv *t, const char *column, ...)
{
    struct where w;
    va_list args;
    va_start(args, column);
    bool good = where_read(f, t, &w, args);
    va_end(args);
    int64_t n = 0;
    double v = good ? total(f, t, column, &w, &n) : NAN;
    return n ? v / (double)n : NAN;
}

double paper_number(struct figure *f, const struct csv *t, const char *metric, const char *series,
                    const char *over, const char *at)
{
    int64_t row = pick_row(f, t, -1, "metric", metric, "series", series, "over", over, "at", at, NULL);
    if (row < 0) {
        err_set(&f->err, "%s: no row with metric %s, series %s, over '%s', at '%s'", t->name, metric, series,
                over, at);
        return NAN;
    }
    const char *s = cell_text(f, t, row, "value");
    return strcmp(s, "oom") == 0 || strcmp(s, "none") == 0 ? NAN : cell_number(f, t, row, "value");
}

/* ---- what is drawn ---------------------------------------------------------------------------------- */

void add_panel(struct figure *f, const char *name, enum plot plot, unsigned flags, const char *x_label,
               const char *y_label)
{
    f->panel = xgrow(f->panel, &f->cap_panels, f->n_panels + 1, sizeof *f->panel);
    f->panel[f->n_panels++] = (struct panel){.name = keep(f, xstrdup(name)),
                                             .x_label = keep(f, xstrdup(x_label)),
                                             .y_label = keep(f, xstrdup(y_label)),
                                             .plot = plot,
                                             .flags = flags};
}

void add_point(struct figure *f, const char *series, const char *at, double x, double ours, double paper)
{
    CK(f->n_panels);
    if (!series_find(series))
        err_set(&f->err, "series.def has no line for '%s'", series);
    if (!at)
        err_set(&f->err, "no place for a point of %s", series);
    if (f->err.code)
        return;
    f->point = xgrow(f->point, &f->cap_points, f->n_points + 1, sizeof *f->point);
    f->point[f->n_points++] = (struct point){.series = keep(f, xstrdup(series)),
                                             .at = keep(f, xstrdup(at)),
                                             .x = x,
                                             .ours = ours,
                                             .paper = paper,
                                             .panel = f->n_panels - 1};
}

void add_note(struct figure *f, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    f->note = xgrow(f->note, &f->cap_notes, f->n_notes + 1, sizeof *f->note);
    f->note[f->n_notes++] = keep(f, xstrdup(text));
}

/* The next point of the last panel after i (first: -1), with that series and place where not NULL; or -1. */
static int32_t point_next(const struct figure *f, int32_t i, const char *series, const char *at)
{
    for (i++; i < f->n_points; i++)
        if (f->point[i].panel == f->n_panels - 1 && (!series || strcmp(f->point[i].series, series) == 0) &&
            (!at || strcmp(f->point[i].at, at) == 0))
            return i;
    return -1;
}

double point_ours(const struct figure *f, const char *series, const char *at)
{
    int32_t i = point_next(f, -1, series, at);
    return i < 0 ? NAN : f->point[i].ours;
}

/* ---- what must hold --------------------------------------------------------------------------------- */

double tolerance_of(enum source source)
{
    return source == ANALYTIC ? 0.02 : 0.25;
}

static struct check *add_check(struct figure *f, enum verdict grade, const char *text)
{
    f->check = xgrow(f->check, &f->cap_checks, f->n_checks + 1, sizeof *f->check);
    struct check *c = &f->check[f->n_checks++];
    *c = (struct check){
        .grade = grade, .text = keep(f, xstrdup(text)), .ours = NAN, .paper = NAN, .factor = NAN};
    return c;
}

void check_trend(struct figure *f, bool holds, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_check(f, holds ? REPRODUCED : DIFFERS, text);
}

static const char *label(const char *series)
{
    return series_find(series)->label;
}

static const char *panel_name(const struct figure *f)
{
    return f->n_panels ? f->panel[f->n_panels - 1].name : "";
}

/* A sentence with how often it held, and where it first did not. */
static void check_count(struct figure *f, int held, int of, const char *not_at, const char *sentence)
{
    if (of == 0)
        err_set(&f->err, "%s: nothing to check: %s", panel_name(f), sentence);
    const char *panel = panel_name(f);
    check_trend(f, held == of, "%s%s%s: %d of %d%s%s", panel, *panel ? ": " : "", sentence, held, of,
                held == of ? "" : ", not at ", held == of ? "" : not_at);
    f->check[f->n_checks - 1].holds_at = held;
    f->check[f->n_checks - 1].places = of;
}

void check_least(struct figure *f, const char *series, double slack)
{
    int held = 0, of = 0;
    const char *not_at = "";
    for (int32_t i = -1; (i = point_next(f, i, series, NULL)) >= 0;) {
        const struct point *p = &f->point[i];
        if (isnan(p->ours))
            continue;
        bool holds = true;
        for (int32_t k = -1; (k = point_next(f, k, NULL, p->at)) >= 0;)
            holds &= !(f->point[k].ours < p->ours - slack * fabs(p->ours)); /* NAN is above all */
        not_at = holds || *not_at ? not_at : p->at;
        held += holds;
        of++;
    }
    check_count(f, held, of, not_at, figure_text(f, "%s is lowest everywhere", label(series)));
}

void check_below(struct figure *f, const char *a, const char *b)
{
    int held = 0, of = 0;
    const char *not_at = "";
    for (int32_t i = -1; (i = point_next(f, i, a, NULL)) >= 0;) {
        const struct point *p = &f->point[i];
        double other = point_ours(f, b, p->at);
        if (isnan(p->ours) || isnan(other))
            continue;
        not_at = p->ours < other || *not_at ? not_at : p->at;
        held += p->ours < other;
        of++;
    }
    check_count(f, held, of, not_at, figure_text(f, "%s is below %s", label(a), label(b)));
}

void check_grows(struct figure *f, const char *series, double slack)
{
    int held = 0, of = 0;
    const char *not_at = "";
    double before = NAN;
    for (int32_t i = -1; (i = point_next(f, i, series, NULL)) >= 0;) {
        const struct point *p = &f->point[i];
        if (isnan(p->ours))
            continue;
        if (!isnan(before)) {
            bool holds = p->ours >= before - slack * fabs(before);
            not_at = holds || *not_at ? not_at : p->at;
            held += holds;
            of++;
        }
        before = p->ours;
    }
    check_count(f, held, of, not_at, figure_text(f, "%s grows from point to point", label(series)));
}

static bool within(double ours, double paper, double tolerance)
{
    return fabs(ours - paper) <= tolerance * fabs(paper);
}

/* How many times one is the other, at least 1; INFINITY if they have no common side of 0. */
static double times_apart(double a, double b)
{
    return a == b ? 1 : a * b > 0 ? fmax(a / b, b / a) : INFINITY;
}

static const double close_factor = 1.5;

static void add_factor(struct figure *f, double factor)
{
    f->factor = xgrow(f->factor, &f->cap_factors, f->n_factors + 1, sizeof *f->factor);
    f->factor[f->n_factors++] = factor;
}

void check_match(struct figure *f)
{
    int held = 0, near = 0, of = 0;
    double worst = 1;
    const char *worst_at = "";
    for (int32_t i = -1; (i = point_next(f, i, NULL, NULL)) >= 0;) {
        const struct point *p = &f->point[i];
        if (isnan(p->ours) || isnan(p->paper))
            continue;
        double factor = times_apart(p->ours, p->paper);
        held += within(p->ours, p->paper, tolerance_of(f->def->source));
        near += factor <= close_factor;
        of++;
        add_factor(f, factor);
        if (factor > worst) {
            worst = factor;
            worst_at = figure_text(f, "%s, %s", label(p->series), p->at);
        }
    }
    if (of == 0)
        err_set(&f->err, "%s: the paper has no number to compare with", panel_name(f));
    char times[32];
    times_text(times, worst);
    const char *panel = panel_name(f),
               *furthest = worst > 1 ? figure_text(f, "; furthest: %s, %s", worst_at, times) : "";
    struct check *c = add_check(
        f,
        held * 10 >= of * 9   ? REPRODUCED
        : near * 10 >= of * 9 ? CLOSE
                              : TREND,
        figure_text(f, "%s%snumbers within %g %% of the paper's: %d of %d, within a factor of %g: %d%s",
                    panel, *panel ? ": " : "", 100 * tolerance_of(f->def->source), held, of, close_factor,
                    near, furthest));
    c->number = true;
    c->held = held;
    c->near = near;
    c->of = of;
    c->factor = worst;
    c->factor_at = *panel ? figure_text(f, "%s, %s", panel, worst_at) : worst_at;
}

/* What a percentage is of. 68 % and 83 % of a step are a fifth apart, what stands beside them is more than double. */
enum part { WHOLE, SHARE, CUT };

/* Is the number printed ours, rounded or cut off to as many digits? "99 %" is all that a paper says of 99.58. */
static bool prints_as(double ours, double paper)
{
    double ten = 1;
    while (ten < 1e6 && fabs(paper * ten - round(paper * ten)) > 1e-6)
        ten *= 10;
    double printed = round(paper * ten);
    return round(ours * ten) == printed || trunc(ours * ten) == printed;
}

/* A share as the part over the rest; a cut by itself, which tells small ones apart, and by what it leaves. */
static bool is_near(enum part part, double ours, double paper, double tolerance)
{
    if (part == WHOLE || prints_as(ours, paper))
        return within(ours, paper, tolerance);
    if (part == SHARE)
        return ours < 100 && within(ours / (100 - ours), paper / (100 - paper), tolerance);
    return within(ours, paper, tolerance) && within(100 - ours, 100 - paper, tolerance);
}

/* How far they are apart, by the same rules. */
static double factor_of(enum part part, double ours, double paper)
{
    if (part == WHOLE || prints_as(ours, paper))
        return times_apart(ours, paper);
    if (part == SHARE)
        return ours < 100 ? times_apart(ours / (100 - ours), paper / (100 - paper)) : INFINITY;
    return fmax(times_apart(ours, paper), times_apart(100 - ours, 100 - paper));
}

/* How a number of ours stands to the paper's. A bound missed by over the tolerance does not hold: of "below 15 %"
 * all that miss it, 99 % too, are on the same side of 0. */
static enum verdict grade_of(const struct figure *f, const char *how, const char *unit, enum part part,
                             double ours, double paper, double *factor)
{
    bool above = strcmp(how, "above") == 0, below = strcmp(how, "below") == 0;
    bool near = is_near(part, ours, paper, tolerance_of(f->def->source));
    bool holds = above ? ours > paper : below ? ours < paper : near;
    *factor = holds && (above || below) ? 1 : factor_of(part, ours, paper);
    if (holds)
        return REPRODUCED;
    if ((above || below) && !near)
        return DIFFERS;
    double neutral = strcmp(unit, "x") == 0 ? 1 : strcmp(unit, "%") == 0 ? 0 : NAN;
    if ((ours > neutral) != (paper > neutral) || ours == neutral)
        return DIFFERS;
    return *factor <= close_factor ? CLOSE : TREND;
}

static struct check *add_number(struct figure *f, const char *how, const char *what, const char *unit,
                                enum part part, double ours, double paper)
{
    if (!f->err.code && isnan(ours))
        err_set(&f->err, "no number for: %s", what);
    double factor;
    struct check *c = add_check(f, grade_of(f, how, unit, part, ours, paper, &factor), what);
    c->factor = isnan(paper) ? NAN : factor;
    if (!isnan(c->factor) && !isnan(ours))
        add_factor(f, factor);
    c->number = true;
    c->unit = keep(f, xstrdup(unit));
    c->ours = ours;
    c->paper = paper;
    return c;
}

void check_number(struct figure *f, const char *what, const char *unit, double ours, double paper)
{
    add_number(f, "is", what, unit, WHOLE, ours, paper);
}

void check_share(struct figure *f, const char *what, double ours, double paper)
{
    add_number(f, "is", what, "%", SHARE, ours, paper);
}

void check_cut(struct figure *f, const char *what, double ours, double paper)
{
    add_number(f, "is", what, "%", CUT, ours, paper);
}

bool headline_is_cut(const char *id)
{
    static const char *const cuts[] = {
#define NOT_POSSIBLE_HEADLINE(id, why)
#define CUT_HEADLINE(id) id,
#include "paper-figs/headlines.def"
#undef NOT_POSSIBLE_HEADLINE
#undef CUT_HEADLINE
        NULL};
    int i = 0;
    while (cuts[i] && strcmp(cuts[i], id) != 0)
        i++;
    return cuts[i] != NULL;
}

/* NULL after an error. */
static struct check *add_headline(struct figure *f, const char *id, double ours)
{
    const struct csv *t = figure_table(f, "paper/headlines");
    int64_t row = pick_row(f, t, -1, "id", id, NULL);
    if (row < 0) {
        err_set(&f->err, "%s: no headline '%s'", t->name, id);
        return NULL;
    }
    struct check *c = add_number(f, cell_text(f, t, row, "how"), cell_text(f, t, row, "claim"),
                                 cell_text(f, t, row, "unit"), headline_is_cut(id) ? CUT : WHOLE, ours,
                                 cell_number(f, t, row, "value"));
    c->headline = keep(f, xstrdup(id));
    return c;
}

void check_headline(struct figure *f, const char *id, double ours)
{
    struct check *c = add_headline(f, id, ours);
    if (c)
        c->whole = true;
}

void check_part(struct figure *f, const char *id, double ours)
{
    add_headline(f, id, ours);
}

void check_detail(struct figure *f, const char *text)
{
    if (f->n_checks)
        f->check[f->n_checks - 1].detail = keep(f, xstrdup(text));
}

void check_why(struct figure *f, const char *id, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int32_t i = 0;
    while (i < f->n_checks && !(f->check[i].headline && strcmp(f->check[i].headline, id) == 0))
        i++;
    if (i == f->n_checks)
        err_set(&f->err, "no check of headline '%s' to give a reason for", id);
    else
        f->check[i].why = keep(f, xstrdup(text));
}
