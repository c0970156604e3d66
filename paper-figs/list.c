/* list.c - FIGURES.md: headlines and figures with their verdicts, as Markdown. */
#include "paper-figs/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a line of the list says of the first comparison: of a table in panels, all of them together. The caller frees. */
static char *compared(const struct figure *f, const struct check *first)
{
    int held = 0, near = 0, of = 0, panels = 0;
    const struct check *worst = first;
    for (int32_t i = 0; first && first->of && i < f->n_checks; i++) {
        const struct check *c = &f->check[i];
        held += c->held;
        near += c->near;
        of += c->of;
        panels += c->of > 0;
        worst = c->of && c->factor > worst->factor ? c : worst;
    }
    if (panels < 2)
        return xstrdup(first ? first->text : "");
    return xasprintf("numbers within %g %% of the paper's: %d of %d in %d panels, within a factor of 1.5: %d "
                     "(furthest: %s)",
                     100 * tolerance_of(f->def->source), held, of, panels, near, worst->factor_at);
}

static void put_result(FILE *out, const struct headline *h, int32_t i, const char *remark)
{
    const struct result *x = &h->x[i];
    char ours[32], others[80] = "", far[64];
    char *how = report_how(x->in);
    number_text(ours, sizeof ours, x->check->ours, h->unit);
    factor_text(far, sizeof far, x->check->factor);
    if (i == 0)
        headline_others(h, others, sizeof others);
    fprintf(out, "| %s | %s | %s | %s | %s%s | %s | %s, %s%s%s%s%s |\n", i ? "" : h->claim, i ? "" : h->value,
            ours, how, verdict_names[x->check->grade], others, x->check->grade == REPRODUCED ? "" : far,
            x->in->def->paper, x->in->def->place, *remark ? ". " : "", remark, x->check->detail ? ". " : "",
            x->check->detail ? x->check->detail : "");
    free(how);
}

static void put_headlines(FILE *out, const struct figure *f, int32_t n, const struct csv *t)
{
    for (int64_t row = 0; row < t->n_rows; row++) {
        struct headline h;
        headline_of(f, n, t, row, &h);
        char *remark = headline_remark(&h);
        if (!h.n)
            fprintf(out, "| %s | %s | - |  | %s |  | %s |\n", h.claim, h.value,
                    verdict_names[headline_verdict(&h)], remark);
        for (int32_t i = 0; i < h.n; i++)
            put_result(out, &h, i, i ? "" : remark);
        free(remark);
    }
}

static void put_figure(FILE *out, const struct figure *f)
{
    const struct figure_def *d = f->def;
    enum verdict v = figure_verdict(f);
    const struct check *c = v < NOT_POSSIBLE ? report_first(f) : NULL;
    char paper[32], ours[32], far[120];
    report_numbers(c, paper, ours);
    figure_factor_text(f, far, sizeof far);
    char *text = compared(f, c), *how = report_how(f);
    if (v < NOT_POSSIBLE)
        fprintf(out, "| [%s, %s](drawn/%s.svg) | %s | ", d->paper, d->place, d->id, d->shows);
    else
        fprintf(out, "| %s, %s | %s | ", d->paper, d->place, d->shows);
    fprintf(out, "%s | %s | %s | %s | %s | %s | %s |\n", how, verdict_names[v], v == NO_DATA ? "" : far, text,
            paper, ours, report_why(f));
    free(text);
    free(how);
}

static void put_counts(FILE *out, const int counts[N_VERDICTS])
{
    const char *comma = "";
    for (int v = 0; v < N_VERDICTS; v++)
        if (counts[v]) {
            fprintf(out, "%s%s %d", comma, verdict_names[v], counts[v]);
            comma = ", ";
        }
    fprintf(out, "\n\n");
}

bool write_markdown(const struct figure *f, int32_t n, const struct places *places, struct err *e)
{
    struct page page;
    struct csv headlines;
    if (!page_open_headlines(&page, &headlines, places, "FIGURES.md", e))
        return false;
    FILE *out = page.out;
    int counts[N_VERDICTS];
    fprintf(
        out,
        "# The papers' figures, redrawn and checked\n\nMade by `make figures`. %s\n\nFigures and tables: ",
        report_rules);
    report_counts(f, n, counts);
    put_counts(out, counts);
    fprintf(out, "## Headlines\n\n%s\n\nHeadlines: ", report_several);
    headline_counts(f, n, &headlines, counts);
    put_counts(out, counts);
    fprintf(out, "| claim | paper | ours | how ours came about | verdict | how far | see, and why "
                 "|\n|---|---|---|---|---|---|---|\n");
    put_headlines(out, f, n, &headlines);
    fprintf(out, "\n## Figures and tables\n\n| | shows | ours | verdict | how far | compared | paper | ours "
                 "| why it differs, what we "
                 "chose |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int32_t i = 0; i < n; i++)
        put_figure(out, &f[i]);
    csv_clear(&headlines);
    return page_close(&page, e);
}
