/* page.c - index.html: contents, a filter in CSS alone, headlines, and every figure with its checks. No scripts. */
#include "paper-figs/report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

static const char *const verdict_classes[] = {"reproduced", "close",      "trend", "differs",
                                              "beyond-all", "impossible", "nodata"};

static void put_badge(FILE *out, const char *class, const char *text)
{
    fprintf(out, "<span class=\"badge %s\">%s</span>", class, text);
}

/* ---- filter ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *class, *name;
} papers[] = {{"deft", "DeFT"},
              {"fasttree", "FastTree"},
              {"pat", "PAT"},
              {"hydragen", "Hydragen"},
              {"beyond", "Beyond the papers"}};
enum { N_PAPERS = sizeof papers / sizeof papers[0] };

/* The class of a paper's rows, by its name or by its id in headlines.csv; "" if there is no such paper. */
static const char *paper_class(const char *name)
{
    for (int i = 0; i < N_PAPERS; i++)
        if (strcmp(papers[i].name, name) == 0 || strcmp(papers[i].class, name) == 0)
            return papers[i].class;
    return "";
}

/* The rules that hide what is not chosen. */
static void put_filter_style(FILE *out)
{
    fprintf(out, "<style>");
    for (int i = 0; i < N_PAPERS; i++)
        fprintf(out, "#paper-%s:checked~main .row:not(.%s){display:none}", papers[i].class, papers[i].class);
    for (int v = 0; v < N_VERDICTS; v++)
        fprintf(out, "#verdict-%s:checked~main .row:not(.is-%s){display:none}", verdict_classes[v],
                verdict_classes[v]);
    fprintf(out, "</style>\n");
}

static void put_choice(FILE *out, const char *group, const char *class, const char *text, bool checked)
{
    fprintf(out, "<input type=\"radio\" name=\"%s\" id=\"%s-%s\"%s><label for=\"%s-%s\">%s</label>\n", group,
            group, class, checked ? " checked" : "", group, class, text);
}

static void put_filter(FILE *out, const int counts[N_VERDICTS])
{
    fprintf(out, "<b>Show</b>\n");
    put_choice(out, "paper", "all", "all papers", true);
    for (int i = 0; i < N_PAPERS; i++)
        put_choice(out, "paper", papers[i].class, papers[i].name, false);
    fprintf(out, "<br><b>with</b>\n");
    put_choice(out, "verdict", "all", "any verdict", true);
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v])
            put_choice(out, "verdict", verdict_classes[v], verdict_names[v], false);
}

/* Opens a tag that the filter knows. */
static void put_row(FILE *out, const char *tag, const char *paper, enum verdict v)
{
    fprintf(out, "<%s class=\"row %s is-%s\"", tag, paper_class(paper), verdict_classes[v]);
}

/* ---- headlines --------------------------------------------------------------------------------------------- */

static void put_result(FILE *out, const struct headline *h, int32_t i, const char *remark)
{
    const struct result *x = &h->x[i];
    char ours[32], others[80] = "", far[64];
    char *how = report_how(x->in);
    number_text(ours, sizeof ours, x->check->ours, h->unit);
    factor_text(far, sizeof far, x->check->factor);
    if (i == 0)
        headline_others(h, others, sizeof others);
    put_row(out, "tr", h->paper, headline_verdict(h));
    fprintf(out, "><td>");
    put_html(out, i ? "" : h->claim);
    fprintf(out, "</td><td>%s%s%s</td><td>%s</td><td>", i ? "" : h->value, i ? "" : "<br><small>",
            i ? "" : h->where, ours);
    put_html(out, how);
    fprintf(out, "</td><td>");
    put_badge(out, verdict_classes[x->check->grade], verdict_names[x->check->grade]);
    fprintf(out, " <small>%s%s</small></td><td><a href=\"#%s\">%s, %s</a>",
            x->check->grade == REPRODUCED ? "" : far, others, x->in->def->id, x->in->def->paper,
            x->in->def->place);
    for (int k = 0; k < 2; k++) {
        const char *more = k ? x->check->detail : remark;
        if (more && *more) {
            fprintf(out, "%s", k ? "<br><small>" : "<br>");
            put_html(out, more);
            fprintf(out, "%s", k ? "</small>" : "");
        }
    }
    fprintf(out, "</td></tr>\n");
    free(how);
}

static void put_headlines(FILE *out, const struct figure *f, int32_t n, const struct csv *t)
{
    int counts[N_VERDICTS];
    headline_counts(f, n, t, counts);
    fprintf(out, "<h2 id=\"headlines\">Headlines</h2>\n<p>");
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v]) {
            put_badge(out, verdict_classes[v], verdict_names[v]);
            fprintf(out, " %d &nbsp; ", counts[v]);
        }
    fprintf(out, "</p>\n<p>");
    put_html(out, report_several);
    fprintf(out, "</p>\n<table class=\"list\"><tr><th>claim</th><th>paper, and "
                 "where</th><th>ours</th><th>how ours came about</th>"
                 "<th>verdict</th><th>see, and why</th></tr>\n");
    for (int64_t row = 0; row < t->n_rows; row++) {
        struct headline h;
        headline_of(f, n, t, row, &h);
        char *remark = headline_remark(&h);
        for (int32_t i = 0; i < h.n; i++)
            put_result(out, &h, i, i ? "" : remark);
        if (!h.n) {
            enum verdict v = headline_verdict(&h);
            put_row(out, "tr", h.paper, v);
            fprintf(out, "><td>");
            put_html(out, h.claim);
            fprintf(out, "</td><td>%s<br><small>%s</small></td><td>-</td><td>-</td><td>", h.value, h.where);
            put_badge(out, verdict_classes[v], verdict_names[v]);
            fprintf(out, "</td><td>");
            put_html(out, remark);
            fprintf(out, "</td></tr>\n");
        }
        free(remark);
    }
    fprintf(out, "</table>\n");
}

/* ---- figures ----------------------------------------------------------------------------------------------- */

static void put_origin(FILE *out, const struct figure *f)
{
    fprintf(out, "<p class=\"from\"><a href=\"drawn/%s.csv\">numbers</a>; from ", f->def->id);
    for (int32_t i = 0; i < f->n_tables; i++) {
        const char *name = f->table[i]->name;
        const struct data_def *data = strncmp(name, "data/", 5) == 0 ? data_find(name + 5) : NULL;
        fprintf(out, "%s", i ? ", " : "");
        if (!data)
            fprintf(out, "<a href=\"%s.csv\">%s</a>", name, name);
        for (int32_t k = 0; data && data->command[k]; k++) {
            fprintf(out, "%s<code>treeattn ", k ? ", " : "");
            put_html(out, data->command[k]);
            fprintf(out, "</code>");
        }
    }
    fprintf(out, "</p>");
}

static void put_checks(FILE *out, const struct figure *f)
{
    char *how = report_how(f);
    const char *theirs = figure_is_beyond(f->def) ? "no paper's" : f->def->paper;
    fprintf(out,
            "<table><tr><th>what must hold</th><th>paper<br><small>%s%s%s</small></th><th>ours<br><small>",
            theirs, figure_is_beyond(f->def) ? "" : ", ", figure_is_beyond(f->def) ? "" : f->def->place);
    put_html(out, how);
    fprintf(out, "</small></th><th>verdict</th></tr>\n");
    free(how);
    for (int32_t i = 0; i < f->n_checks; i++) {
        const struct check *c = &f->check[i];
        char paper[32], ours[32], far[64];
        report_numbers(c, paper, ours);
        factor_text(far, sizeof far, c->factor);
        fprintf(out, "<tr><td>");
        put_html(out, c->text);
        if (c->detail) {
            fprintf(out, "<br><small>");
            put_html(out, c->detail);
            fprintf(out, "</small>");
        }
        fprintf(out, "</td><td>%s</td><td>%s</td><td>", paper, ours);
        put_badge(out, verdict_classes[c->grade], grade_name(f->def, c));
        fprintf(out, " <small>%s%s</small></td></tr>\n", c->of ? "at most " : "",
                c->grade == REPRODUCED && !c->of ? "" : far);
    }
    fprintf(out, "</table>\n");
}

static void put_section(FILE *out, const struct figure *f)
{
    const struct figure_def *d = f->def;
    enum verdict v = figure_verdict(f);
    char far[120];
    figure_factor_text(f, far, sizeof far);
    put_row(out, "section", d->paper, v);
    fprintf(out, " id=\"%s\"><h3>%s, %s: ", d->id, d->paper, d->place);
    put_html(out, d->shows);
    fprintf(out, " ");
    put_badge(out, verdict_classes[v], verdict_names[v]);
    fprintf(out, " <small>%s</small></h3>\n<p>", v == NO_DATA ? "" : far);
    put_html(out, report_why(f));
    fprintf(out, "</p>\n");
    if (v < NOT_POSSIBLE) {
        fprintf(out, "<a href=\"drawn/%s.svg\"><img src=\"drawn/%s.svg\" alt=\"", d->id, d->id);
        put_html(out, d->shows);
        fprintf(out, "\"></a>\n");
        put_checks(out, f);
        put_origin(out, f);
    }
    fprintf(out, "</section>\n");
}

/* A table of all figures, with links. */
static void put_list(FILE *out, const struct figure *f, int32_t n)
{
    fprintf(out, "<h2 id=\"figures\">Figures and tables</h2>\n<table "
                 "class=\"list\"><tr><th></th><th>shows</th><th>how ours came "
                 "about</th><th>verdict</th></tr>\n");
    for (int32_t i = 0; i < n; i++) {
        const struct figure_def *d = f[i].def;
        enum verdict v = figure_verdict(&f[i]);
        char *how = report_how(&f[i]), far[120];
        figure_factor_text(&f[i], far, sizeof far);
        put_row(out, "tr", d->paper, v);
        fprintf(out, "><td><a href=\"#%s\">%s, %s</a></td><td>", d->id, d->paper, d->place);
        put_html(out, d->shows);
        fprintf(out, "</td><td>");
        put_html(out, how);
        fprintf(out, "</td><td>");
        put_badge(out, verdict_classes[v], verdict_names[v]);
        fprintf(out, " <small>%s</small></td></tr>\n", v == NO_DATA ? "" : far);
        free(how);
    }
    fprintf(out, "</table>\n");
}

/* ---- the page ---------------------------------------------------------------------------------------------- */

static const char *const style =
    "<style>body{font:16px/1.45 sans-serif;max-width:1060px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%;margin:.6em 0}td,th{border-bottom:1px solid "
    "#ddd;padding:.25em .5em;"
    "text-align:left;vertical-align:top}.list{font-size:.9em}small{color:#555;font-size:.85em;font-weight:"
    "normal}"
    "img{max-width:100%;height:auto;border:1px solid #eee}section{border-top:2px solid #ccc;margin-top:2em}"
    "code{font-size:.85em;overflow-wrap:anywhere}.from{color:#555;font-size:.85em}"
    ".badge{border-radius:.3em;padding:.1em .45em;font-size:.75em;font-weight:bold;white-space:nowrap}"
    "input{position:absolute;opacity:0}label{display:inline-block;padding:.1em .6em;margin:.15em;border:1px "
    "solid #999;"
    "border-radius:.3em;cursor:pointer;font-size:.9em}input:checked+label{background:#333;color:#fff}"
    "input:focus-visible+label{outline:2px solid #0072B2}nav a{margin-right:.7em;white-space:nowrap}"
    ".reproduced{background:#00704F;color:#fff}.close{background:#56B4E9;color:#000}.trend{background:#"
    "F0E442;color:#000}"
    ".differs{background:#B84A00;color:#fff}.beyond-all{background:#6A3D9A;color:#fff}.impossible{background:"
    "#ddd;color:#333}"
    ".nodata{background:#000;color:#fff}</style>\n";

static void put_contents(FILE *out, const struct figure *f, int32_t n)
{
    fprintf(out, "<nav><b>Contents:</b> <a href=\"#headlines\">Headlines</a> <a href=\"#figures\">List of "
                 "figures</a>\n");
    for (int p = 0; p < N_PAPERS; p++) {
        fprintf(out, "<br><b>%s:</b>", papers[p].name);
        for (int32_t i = 0; i < n; i++)
            if (strcmp(f[i].def->paper, papers[p].name) == 0)
                fprintf(out, " <a href=\"#%s\">%s</a>", f[i].def->id, f[i].def->place);
        fprintf(out, "\n");
    }
    fprintf(out, "</nav>\n");
}

static void put_page(FILE *out, const struct figure *f, int32_t n, const struct csv *headlines)
{
    int counts[N_VERDICTS];
    report_counts(f, n, counts);
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
            "content=\"width=device-width\"><title>treeattn: the papers' figures</title>\n%s",
            style);
    put_filter_style(out);
    fprintf(out, "</head><body>\n<h1>The papers' figures, redrawn and checked</h1>\n<p>");
    put_html(out, report_rules);
    fprintf(out, "</p>\n<p>");
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v]) {
            put_badge(out, verdict_classes[v], verdict_names[v]);
            fprintf(out, " %d &nbsp; ", counts[v]);
        }
    fprintf(out, "</p>\n");
    put_contents(out, f, n);
    put_filter(out, counts);
    fprintf(out, "<main>\n");
    put_headlines(out, f, n, headlines);
    put_list(out, f, n);
    for (int32_t i = 0; i < n; i++)
        put_section(out, &f[i]);
    fprintf(out, "</main></body></html>\n");
}

bool write_index(const struct figure *f, int32_t n, const struct places *places, struct err *e)
{
    struct page page;
    struct csv headlines;
    if (!page_open_headlines(&page, &headlines, places, "index.html", e))
        return false;
    put_page(page.out, f, n, &headlines);
    csv_clear(&headlines);
    return page_close(&page, e);
}
