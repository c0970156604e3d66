/* report.c - what a figure was drawn from, as CSV; the pages that list all figures with their verdicts. */
#include "paper-figs/figure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
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

struct page {
    FILE *out;
    char *path, *temp;
};

static bool page_open(struct page *p, char *path, struct err *e)
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

static bool page_close(struct page *p, struct err *e)
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
            "# figure: %s, %s\n# ours: %s%s%s\n# rows: %d\nkind,panel,series,at,x,ours,paper,unit,verdict\n",
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
        fputc('\n', out);
    }
    for (int32_t i = 0; i < f->n_checks; i++) {
        const struct check *c = &f->check[i];
        fprintf(out, "%s,,,", c->headline ? "headline" : c->number ? "number" : "trend");
        put_field(out, c->text, ',');
        fputc(',', out);
        put_value(out, c->ours, ',');
        put_value(out, c->paper, ',');
        put_field(out, c->unit ? c->unit : "", ',');
        fprintf(out, "%s\n", verdict_names[c->grade]);
    }
    return page_close(&page, e);
}

/* ---- HTML ------------------------------------------------------------------------------------------- */

static void put_html(FILE *out, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*s, out);
        }
}

static const char *const verdict_classes[] = {"reproduced", "trend", "differs", "impossible", "nodata"};

static void put_badge(FILE *out, enum verdict v)
{
    fprintf(out, "<span class=\"%s\">%s</span>", verdict_classes[v], verdict_names[v]);
}

/* The first number beside the paper's, else the first comparison: what a line of the list shows. NULL if there is none. */
static const struct check *first_number(const struct figure *f)
{
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f->n_checks; i++)
            if (pass ? f->check[i].number : !isnan(f->check[i].paper))
                return &f->check[i];
    return NULL;
}

/* What a line of the list says of that: of a table in panels, all of them together. The caller frees. */
static char *compared(const struct figure *f, const struct check *first)
{
    int held = 0, of = 0, panels = 0;
    const struct check *worst = first;
    for (int32_t i = 0; first && first->of && i < f->n_checks; i++) {
        const struct check *c = &f->check[i];
        held += c->held;
        of += c->of;
        panels += c->of > 0;
        worst = c->of && c->off > worst->off ? c : worst;
    }
    if (panels < 2)
        return xstrdup(first ? first->text : "");
    return xasprintf("numbers within %g %% of the paper's: %d of %d in %d panels (furthest: %s, %.3g %%)",
                     100 * tolerance_of(f->def->source), held, of, panels, worst->off_at, 100 * worst->off);
}

static void numbers_of(const struct check *c, char paper[32], char ours[32])
{
    snprintf(paper, 32, "-");
    snprintf(ours, 32, "-");
    if (c && c->unit) {
        number_text(paper, 32, c->paper, c->unit);
        number_text(ours, 32, c->ours, c->unit);
    }
}

/* What to know of a figure's numbers, whatever its verdict: a number that agrees rests on free choices, too. */
static const char *why_of(const struct figure *f)
{
    return figure_verdict(f) == NO_DATA ? f->err.msg : f->def->why;
}

static void put_source(FILE *out, const struct figure_def *d)
{
    if (!d->make)
        fprintf(out, "-");
    else
        fprintf(out, "%s%s%s", source_names[d->source], *d->machine ? " on " : "", d->machine);
}

struct result {
    const struct check *check;
    const struct figure_def *in;
};

/* All results for a headline, that which decides first, as `several` says; how many. */
static int32_t headlines_of(const struct figure *f, int32_t n, const char *id, struct result *found,
                            int32_t most)
{
    int32_t count = 0;
    for (int pass = 0; pass < 2 * N_SOURCES; pass++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t k = 0; k < f[i].n_checks; k++) {
                const struct check *c = &f[i].check[k];
                if (!c->headline || strcmp(c->headline, id) != 0 || c->whole != (pass < N_SOURCES) ||
                    f[i].def->source != (enum source)(pass % N_SOURCES))
                    continue;
                CK(count < most);
                found[count++] = (struct result){c, f[i].def};
            }
    return count;
}

/* The verdict of the first, and of the others where one of them says otherwise: "TREND (others: DIFFERS 2, TREND 1)". */
static void others_text(char *out, size_t size, const struct result *x, int32_t n)
{
    int counts[N_VERDICTS] = {0};
    for (int32_t i = 1; i < n; i++)
        counts[x[i].check->grade]++;
    *out = 0;
    if (n < 2 || counts[x[0].check->grade] == n - 1)
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

/* Headlines that cannot be had, and why. */
static const struct {
    const char *id, *why;
} no_headline[] = {
#define NOT_POSSIBLE_HEADLINE(id, why) {id, why},
#define CUT_HEADLINE(id)
#include "paper-figs/headlines.def"
#undef NOT_POSSIBLE_HEADLINE
#undef CUT_HEADLINE
    {NULL, NULL}};

const char *headline_not_possible(const char *id)
{
    for (int32_t i = 0; no_headline[i].id; i++)
        if (strcmp(no_headline[i].id, id) == 0)
            return no_headline[i].why;
    return NULL;
}

/* A row of the headlines; claim and paper are empty where the row above has them. x: NULL where there is no result;
 * n: it and those below it. */
static void put_headline(FILE *out, const char *claim, const char *paper, const char *unit,
                         const struct result *x, int32_t n, const char *why, bool html)
{
    char others[80];
    others_text(others, sizeof others, x, n);
    char ours[32];
    number_text(ours, sizeof ours, x ? x->check->ours : NAN, unit);
    enum verdict v = x ? x->check->grade : why ? NOT_POSSIBLE : NO_DATA;
    why = why ? why : "no figure has it";
    if (html) {
        fprintf(out, "<tr><td>");
        put_html(out, claim);
        fprintf(out, "</td><td>%s</td><td>%s</td><td>", paper, ours);
        if (x)
            put_source(out, x->in);
        fprintf(out, "</td><td>");
        put_badge(out, v);
        fprintf(out, "%s</td><td>", others);
        if (x)
            fprintf(out, "<a href=\"#%s\">%s, %s</a>", x->in->id, x->in->paper, x->in->place);
        else
            put_html(out, why);
        fprintf(out, "</td></tr>\n");
    } else {
        fprintf(out, "| %s | %s | %s | ", claim, paper, ours);
        if (x)
            put_source(out, x->in);
        fprintf(out, " | %s%s | ", verdict_names[v], others);
        if (x)
            fprintf(out, "%s, %s |\n", x->in->paper, x->in->place);
        else
            fprintf(out, "%s |\n", why);
    }
}

/* All headlines of the papers as rows of a table; html or Markdown. */
static void put_headlines(FILE *out, const struct figure *f, int32_t n, const struct csv *t, bool html)
{
    enum { MOST = 16 };
    for (int64_t i = 0; i < t->n_rows; i++) {
        const char *id = csv_peek(t, i, 0), *unit = csv_peek(t, i, 5);
        struct result x[MOST];
        int32_t found = headlines_of(f, n, id, x, MOST);
        char value[32], paper[64];
        number_text(value, sizeof value, atof(csv_peek(t, i, 4)), unit);
        snprintf(paper, sizeof paper, "%.20s %s", csv_peek(t, i, 3), value);
        put_headline(out, csv_peek(t, i, 2), paper, unit, found ? &x[0] : NULL, found,
                     headline_not_possible(id), html);
        for (int32_t k = 1; k < found; k++)
            put_headline(out, "", "", unit, &x[k], 1, NULL, html);
    }
}

static void put_section(FILE *out, const struct figure *f)
{
    const struct figure_def *d = f->def;
    enum verdict v = figure_verdict(f);
    fprintf(out, "<section id=\"%s\"><h3>%s, %s: ", d->id, d->paper, d->place);
    put_html(out, d->shows);
    fprintf(out, " ");
    put_badge(out, v);
    fprintf(out, "</h3>\n");
    if (*why_of(f)) {
        fprintf(out, "<p>");
        put_html(out, why_of(f));
        fprintf(out, "</p>\n");
    }
    if (v == NOT_POSSIBLE || v == NO_DATA) {
        fprintf(out, "</section>\n");
        return;
    }
    fprintf(out, "<a href=\"drawn/%s.svg\"><img src=\"drawn/%s.svg\" alt=\"", d->id, d->id);
    put_html(out, d->shows);
    fprintf(out, "\"></a>\n<table><tr><th>what must hold</th><th>paper</th><th>ours</th><th></th></tr>\n");
    for (int32_t i = 0; i < f->n_checks; i++) {
        char paper[32], ours[32];
        numbers_of(&f->check[i], paper, ours);
        fprintf(out, "<tr><td>");
        put_html(out, f->check[i].text);
        fprintf(out, "</td><td>%s</td><td>%s</td><td>", paper, ours);
        put_badge(out, f->check[i].grade);
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</table>\n<p class=\"from\"><a href=\"drawn/%s.csv\">numbers</a>; from ", d->id);
    for (int32_t i = 0; i < f->n_tables; i++) {
        const struct data_def *data =
            strncmp(f->table[i]->name, "data/", 5) == 0 ? data_find(f->table[i]->name + 5) : NULL;
        fprintf(out, "%s", i ? ", " : "");
        if (!data)
            fprintf(out, "<a href=\"%s.csv\">%s</a>", f->table[i]->name, f->table[i]->name);
        for (int32_t k = 0; data && data->command[k]; k++) {
            fprintf(out, "%s<code>treeattn ", k ? ", " : "");
            put_html(out, data->command[k]);
            fprintf(out, "</code>");
        }
    }
    fprintf(out, "</p></section>\n");
}

static const char *const style =
    "<style>body{font:16px/1.45 sans-serif;max-width:1060px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%;margin:.6em 0}td,th{border-bottom:1px solid "
    "#ddd;padding:.25em .5em;"
    "text-align:left;vertical-align:top}img{max-width:100%;height:auto;border:1px solid #eee}"
    "section{border-top:2px solid #ccc;margin-top:2em}code{font-size:.85em}.from{color:#555;font-size:.85em}"
    "span{border-radius:.3em;padding:.1em .45em;font-size:.75em;font-weight:bold;white-space:nowrap}"
    ".reproduced{background:#009E73;color:#fff}.trend{background:#56B4E9;color:#000}.differs{background:#"
    "D55E00;color:#fff}"
    ".impossible{background:#ddd;color:#333}.nodata{background:#000;color:#fff}</style>\n";

static void counts_of(const struct figure *f, int32_t n, int counts[N_VERDICTS])
{
    memset(counts, 0, N_VERDICTS * sizeof counts[0]);
    for (int32_t i = 0; i < n; i++)
        counts[figure_verdict(&f[i])]++;
}

static const char *const rules =
    "REPRODUCED: every trend holds and the numbers agree with the paper's "
    "(counted ones within 2 %, times within 25 %; a share x of the time as x / (1 - x), a cut x by itself "
    "and "
    "as 1 - x, what is left). "
    "TREND: every trend holds, the numbers differ, or the paper prints none. "
    "DIFFERS: a trend does not hold, or a bound (above, below) is missed by more "
    "than these shares. Each verdict "
    "is computed from the numbers; the rules are in paper-figs/figure.h.";

static const char *const several =
    "Where several results of ours stand beside one claim, the first decides, by one rule for all: counted "
    "from plans "
    "(analytic), else recorded (the released kernels, measured by others), else measured (all plans on our "
    "kernel), "
    "else simulated; of two the one by the rules of the paper; none that is over a part of the kernels that "
    "the claim "
    "names, or over another workload. Others are below it, without a claim; where they say otherwise, that "
    "stands beside the verdict. "
    "An average of speedups is the arithmetic mean of the ratios on all trees and head counts of the figure; "
    "PAT's over FastTree at 32/32 and 32/8 only, where the paper has FastTree.";

bool write_index(const struct figure *f, int32_t n, const struct places *places, struct err *e)
{
    struct page page;
    struct csv headlines;
    char *path = xasprintf("%s/paper/headlines.csv", places->root);
    bool good = result_read(path, "paper/headlines", &headlines, e);
    free(path);
    if (!good || !page_open(&page, xasprintf("%s/index.html", places->out), e)) {
        csv_clear(&headlines);
        return false;
    }
    FILE *out = page.out;
    int counts[N_VERDICTS];
    counts_of(f, n, counts);
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta name=\"viewport\" content=\"width=device-width\"><title>treeattn: the papers' "
            "figures</title>\n%s</head><body>\n"
            "<h1>The papers' figures, redrawn and checked</h1>\n<p>%s</p>\n<p>",
            style, rules);
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v] || v < NO_DATA) {
            put_badge(out, (enum verdict)v);
            fprintf(out, " %d &nbsp; ", counts[v]);
        }
    fprintf(out,
            "</p>\n<h2>Headlines</h2>\n<p>%s</p>\n<table><tr><th>claim</th><th>paper</th><th>ours</th>"
            "<th>how ours came about</th><th></th><th>see</th></tr>\n",
            several);
    put_headlines(out, f, n, &headlines, true);
    fprintf(out, "</table>\n<h2>Figures and "
                 "tables</h2>\n<table><tr><th></th><th>shows</th><th>ours</th><th>verdict</th></tr>\n");
    for (int32_t i = 0; i < n; i++) {
        const struct figure_def *d = f[i].def;
        fprintf(out, "<tr><td><a href=\"#%s\">%s, %s</a></td><td>", d->id, d->paper, d->place);
        put_html(out, d->shows);
        fprintf(out, "</td><td>");
        put_source(out, d);
        fprintf(out, "</td><td>");
        put_badge(out, figure_verdict(&f[i]));
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</table>\n");
    for (int32_t i = 0; i < n; i++)
        put_section(out, &f[i]);
    fprintf(out, "</body></html>\n");
    csv_clear(&headlines);
    return page_close(&page, e);
}

bool write_markdown(const struct figure *f, int32_t n, const struct places *places, struct err *e)
{
    struct page page;
    struct csv headlines;
    char *path = xasprintf("%s/paper/headlines.csv", places->root);
    bool good = result_read(path, "paper/headlines", &headlines, e);
    free(path);
    if (!good || !page_open(&page, xasprintf("%s/FIGURES.md", places->out), e)) {
        csv_clear(&headlines);
        return false;
    }
    FILE *out = page.out;
    int counts[N_VERDICTS];
    counts_of(f, n, counts);
    fprintf(out, "# The papers' figures, redrawn and checked\n\nMade by `make figures`. %s\n\n", rules);
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v] || v < NO_DATA)
            fprintf(out, "%s%s %d", v ? ", " : "", verdict_names[v], counts[v]);
    fprintf(out,
            "\n\n## Headlines\n\n%s\n\n| claim | paper | ours | how ours came about | verdict | see |\n"
            "|---|---|---|---|---|---|\n",
            several);
    put_headlines(out, f, n, &headlines, false);
    fprintf(out, "\n## Figures and tables\n\n| | shows | ours | verdict | compared | paper | ours | why it "
                 "differs, what we chose |\n|---|---|---|---|---|---|---|---|\n");
    for (int32_t i = 0; i < n; i++) {
        const struct figure_def *d = f[i].def;
        enum verdict v = figure_verdict(&f[i]);
        const struct check *c = v < NOT_POSSIBLE ? first_number(&f[i]) : NULL;
        char paper[32], ours[32];
        numbers_of(c, paper, ours);
        if (v < NOT_POSSIBLE)
            fprintf(out, "| [%s, %s](drawn/%s.svg) | %s | ", d->paper, d->place, d->id, d->shows);
        else
            fprintf(out, "| %s, %s | %s | ", d->paper, d->place, d->shows);
        put_source(out, d);
        char *text = compared(&f[i], c);
        fprintf(out, " | %s | %s | %s | %s | %s |\n", verdict_names[v], text, paper, ours, why_of(&f[i]));
        free(text);
    }
    csv_clear(&headlines);
    return page_close(&page, e);
}
