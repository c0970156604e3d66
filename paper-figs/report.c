/* report.c - what a figure was drawn from, as CSV; what the pages say of figures and of headlines. */
#include "paper-figs/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A number of a figure's CSV. Pages round what stands there, not what it was rounded from: 1.7654996 is 1.7655, then 1.766. */
#define CSV_NUMBER "%.6g"

void number_text(char *out, size_t size, double value, const char *unit)
{
    char written[32];
    if (isnan(value)) {
        snprintf(out, size, "-");
        return;
    }
    snprintf(written, sizeof written, CSV_NUMBER, value);
    snprintf(out, size, "%.4g%s%s", atof(written), strcmp(unit, "x") == 0 || !*unit ? "" : " ", unit);
}

/* ---- files under a temporary name until they are whole ------------------------------------------------- */

bool page_open(struct page *p, char *path, struct err *e)
{
    *p = (struct page){.path = path, .temp = xasprintf("%s.%d", path, (int)getpid())};
    p->out = fopen(p->temp, "w");
    if (p->out)
        return true;
    err_missing(e, "%s: %s", p->temp, strerror(errno));
    free(p->path);
    free(p->temp);
    return false;
}

bool page_open_headlines(struct page *p, struct csv *headlines, const struct places *places, const char *name,
                         struct err *e)
{
    char *path = xasprintf("%s/paper/headlines.csv", places->root);
    bool good = result_read(path, "paper/headlines", headlines, e) &&
                page_open(p, xasprintf("%s/%s", places->out, name), e);
    free(path);
    if (!good)
        csv_clear(headlines);
    return good;
}

bool page_close(struct page *p, struct err *e)
{
    bool bad = ferror(p->out);
    if (fclose(p->out) != 0 || bad || rename(p->temp, p->path) != 0) {
        err_missing(e, "%s: cannot be written: %s", p->path, strerror(errno));
        remove(p->temp);
    }
    free(p->path);
    free(p->temp);
    return !e->code;
}

/* ---- CSV -------------------------------------------------------------------------------------------- */

static void put_field(FILE *out, const char *s, char end)
{
    if (s[strcspn(s, ",\"\n")]) {
        fputc('"', out);
        for (; *s; s++)
            fprintf(out, *s == '"' ? "\"\"" : "%c", *s);
        fputc('"', out);
    } else
        fputs(s, out);
    fputc(end, out);
}

static void put_value(FILE *out, double v, char end)
{
    if (!isnan(v))
        fprintf(out, CSV_NUMBER, v);
    fputc(end, out);
}

bool figure_write_csv(const struct figure *f, struct err *e)
{
    struct page page;
    if (!page_open(&page, xasprintf("%s/drawn/%s.csv", f->places->out, f->def->id), e))
        return false;
    FILE *out = page.out;
    fprintf(out,
            "# figure: %s, %s\n# ours: %s%s%s\n# rows: "
            "%d\nkind,panel,series,at,x,ours,paper,unit,verdict,factor\n",
            f->def->paper, f->def->place, source_names[f->def->source], *f->def->machine ? " on " : "",
            f->def->machine, f->n_points + f->n_checks);
    for (int32_t i = 0; i < f->n_points; i++) {
        const struct point *p = &f->point[i];
        fprintf(out, "point,");
        put_field(out, f->panel[p->panel].name, ',');
        put_field(out, p->series, ',');
        put_field(out, p->at, ',');
        put_value(out, p->x, ',');
        put_value(out, p->ours, ',');
        put_value(out, p->paper, ',');
        put_field(out, f->panel[p->panel].y_label, ',');
        fprintf(out, ",\n");
    }
    for (int32_t i = 0; i < f->n_checks; i++) {
        const struct check *c = &f->check[i];
        fprintf(out, "%s,,,", c->headline ? "headline" : c->number ? "number" : "trend");
        put_field(out, c->text, ',');
        fputc(',', out);
        put_value(out, c->ours, ',');
        put_value(out, c->paper, ',');
        put_field(out, c->unit ? c->unit : "", ',');
        put_field(out, grade_name(f->def, c), ',');
        put_value(out, isinf(c->factor) ? NAN : c->factor, '\n');
    }
    return page_close(&page, e);
}

/* ---- figures ------------------------------------------------------------------------------------------ */

const char *const report_rules =
    "REPRODUCED: every trend holds and the numbers agree with the paper's (counted ones within 2 %, times "
    "within 25 %; a share x "
    "of the time as x / (1 - x), a cut x by itself and as 1 - x, what is left). "
    "CLOSE: every trend holds, the numbers are within a factor of 1.5. "
    "TREND: every trend holds, the numbers are further apart, or the paper prints none. "
    "DIFFERS: a trend does not hold, or a bound (above, below) is missed by more than REPRODUCED allows. "
    "BEYOND: no paper has it. "
    "Of a table nine of ten numbers count. \"Apart\" is the larger of ours / paper and paper / ours, of a "
    "share of x / (1 - x), of a "
    "cut the larger of that of x and that of 1 - x. Verdicts and factors are computed; the rules are in "
    "paper-figs/figure.h.";

const char *const report_several = "Where several results of ours stand beside one claim, the first decides, "
                                   "by one rule for all: counted from plans, else "
                                   "recorded (the released kernels, measured by others), else measured (all "
                                   "plans on our kernel), else simulated. Of two of one "
                                   "kind the plans of the released planner decide, which is what the authors "
                                   "ran, not those by the paper's text; of two cards the one whose "
                                   "operations for a byte read are nearest to "
                                   "the paper's (an H200 for an A100, an H100 for an H100). A result over a "
                                   "part of the kernels that the claim names, or over another workload, "
                                   "never decides. Others are below it, without a claim; "
                                   "where they say otherwise, that stands beside the verdict. An average of "
                                   "speedups is the arithmetic mean of the ratios on all "
                                   "trees and head counts of the figure, as the papers take it; the "
                                   "geometric mean and those by head count stand beside it. PAT's "
                                   "over FastTree is at 32/32 and 32/8 only, where the paper has FastTree. "
                                   "Where each number comes from: counted, recorded, "
                                   "measured or simulated stands beside ours, with kernel, card and rule; "
                                   "the place in the paper beside the paper's.";

void report_counts(const struct figure *f, int32_t n, int counts[N_VERDICTS])
{
    memset(counts, 0, N_VERDICTS * sizeof counts[0]);
    for (int32_t i = 0; i < n; i++)
        counts[figure_verdict(&f[i])]++;
}

char *report_how(const struct figure *f)
{
    const struct figure_def *d = f->def;
    static const char *const kernel[] = {"no kernel", "the released kernels and planners", "our kernel",
                                         "no kernel, the time model"};
    if (!d->make)
        return xstrdup("-");
    const char *by = strstr(d->machine, "terms fitted") ? "no kernel" : kernel[d->source];
    bool own = d->source == RECORDED || figure_is_beyond(d);
    char *machine = figure_machine(f), *how = xasprintf("%s%s%s: %s%s", source_names[d->source],
                                                        !*machine               ? ""
                                                        : d->source == ANALYTIC ? ", "
                                                                                : " on ",
                                                        machine, by,
                                                        own             ? ""
                                                        : d->by_release ? ", plans of the released planner"
                                                                        : ", plans by the paper's text");
    free(machine);
    return how;
}

const char *report_why(const struct figure *f)
{
    return figure_verdict(f) == NO_DATA ? f->err.msg : f->def->why;
}

void report_numbers(const struct check *c, char paper[32], char ours[32])
{
    snprintf(paper, 32, "-");
    snprintf(ours, 32, "-");
    if (c && c->unit) {
        number_text(paper, 32, c->paper, c->unit);
        number_text(ours, 32, c->ours, c->unit);
    } else if (c && (c->of || c->places))
        snprintf(ours, 32, "%d of %d", c->of ? c->held : c->holds_at, c->of ? c->of : c->places);
}

const struct check *report_first(const struct figure *f)
{
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f->n_checks; i++)
            if (pass ? f->check[i].number : !isnan(f->check[i].paper))
                return &f->check[i];
    return NULL;
}

/* ---- headlines ---------------------------------------------------------------------------------------- */

/* Whether a check is a result for a headline that comes in this pass: first those that may decide, by source, the released
 * planner's before those of the paper's text. */
static bool in_pass(const struct figure_def *d, const struct check *c, const char *id, int pass)
{
    return c->headline && strcmp(c->headline, id) == 0 && c->whole == (pass < 2 * N_SOURCES) &&
           d->source == (enum source)(pass / 2 % N_SOURCES) && d->by_release == (pass % 2 == 0);
}

void headline_of(const struct figure *f, int32_t n, const struct csv *t, int64_t row, struct headline *h)
{
    char value[32];
    *h = (struct headline){.id = csv_peek(t, row, 0),
                           .paper = csv_peek(t, row, 1),
                           .claim = csv_peek(t, row, 2),
                           .unit = csv_peek(t, row, 5),
                           .where = csv_peek(t, row, 6)};
    number_text(value, sizeof value, atof(csv_peek(t, row, 4)), h->unit);
    snprintf(h->value, sizeof h->value, "%.20s %s", csv_peek(t, row, 3), value);
    for (int pass = 0; pass < 4 * N_SOURCES; pass++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t k = 0; k < f[i].n_checks; k++)
                if (in_pass(f[i].def, &f[i].check[k], h->id, pass)) {
                    CK(h->n < MOST_RESULTS);
                    h->x[h->n++] = (struct result){&f[i].check[k], &f[i]};
                }
}

enum verdict headline_verdict(const struct headline *h)
{
    return h->n ? h->x[0].check->grade : headline_not_possible(h->id) ? NOT_POSSIBLE : NO_DATA;
}

void headline_others(const struct headline *h, char *out, size_t size)
{
    int counts[N_VERDICTS] = {0};
    for (int32_t i = 1; i < h->n; i++)
        counts[h->x[i].check->grade]++;
    *out = 0;
    if (h->n < 2 || counts[h->x[0].check->grade] == h->n - 1)
        return;
    snprintf(out, size, " (others:");
    const char *comma = "";
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v]) {
            size_t at = strlen(out);
            snprintf(out + at, size - at, "%s %s %d", comma, verdict_names[v], counts[v]);
            comma = ",";
        }
    size_t at = strlen(out);
    snprintf(out + at, size - at, ")");
}

const char *headline_not_possible(const char *id)
{
    static const struct {
        const char *id, *why;
    } reasons[] = {
#define NOT_POSSIBLE_HEADLINE(id, why) {id, why},
#define CUT_HEADLINE(id)
#include "paper-figs/headlines.def"
#undef NOT_POSSIBLE_HEADLINE
#undef CUT_HEADLINE
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strcmp(reasons[i].id, id) == 0)
            return reasons[i].why;
    return NULL;
}

char *headline_remark(const struct headline *h)
{
    enum verdict v = headline_verdict(h);
    if (v == NOT_POSSIBLE)
        return xstrdup(headline_not_possible(h->id));
    if (v == NO_DATA)
        return xstrdup("no figure has it");
    return xstrdup(v > CLOSE && h->x[0].check->why ? h->x[0].check->why : "");
}

void headline_counts(const struct figure *f, int32_t n, const struct csv *t, int counts[N_VERDICTS])
{
    memset(counts, 0, N_VERDICTS * sizeof counts[0]);
    for (int64_t i = 0; i < t->n_rows; i++) {
        struct headline h;
        headline_of(f, n, t, i, &h);
        counts[headline_verdict(&h)]++;
    }
}
