/*
 * check_figures.c - the papers' figures: verdicts follow from numbers, numbers from files, and broken files are named.
 *
 * Data that treeattn computes anew is made once, by $TREEATTN_BIN; the program that draws is $FIGURES_BIN. With
 * TREEATTN_QUICK, or where they are not built, figures that need them are left out, and a line says so.
 */
#include "paper-figs/deft_terms.h"
#include "paper-figs/figure.h"
#include "paper-figs/report.h"
#include "paper-figs/times.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/papers/drawings.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "ref/csv.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a copy of paper-figs whose files can be broken -------------------------------------------------------- */

static char *root, *out;
static struct places places;
static bool fresh; /* data that treeattn computes is there */

static const char *drawer(void)
{
    const char *p = getenv("FIGURES_BIN");
    return p && *p ? p : "build/paper-figs/figures";
}

static const char *drawer_quoted(void)
{
    static char path[PATH_MAX], quoted[4 * PATH_MAX + 3];
    ck_assert_msg(realpath(drawer(), path), "%s is not there", drawer());
    return quote(path, quoted);
}

static void make_folder(const char *path)
{
    ck_assert_msg(mkdir(path, 0777) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
}

/* Symbolic links to all files of paper-figs/FOLDER. */
static void link_folder(const char *folder)
{
    FREED char *to = xasprintf("%s/%s", root, folder), *from = xasprintf("paper-figs/%s", folder);
    make_folder(to);
    DIR *d = opendir(from);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        FREED char *name = xasprintf("%s/%s", from, entry->d_name), *path = realpath(name, NULL);
        FREED char *link = xasprintf("%s/%s", to, entry->d_name);
        if (entry->d_name[0] != '.')
            ck_assert_int_eq(symlink(path, link), 0);
    }
    closedir(d);
}

static void setup_files(void)
{
    root = scratch_folder();
    out = xasprintf("%s/out", root);
    places = (struct places){root, root, out, NULL};
    static const char *const folders[] = {"paper", "measured", "recorded", "data"};
    for (int i = 0; i < 4; i++)
        link_folder(folders[i]);
    FREED char *style = realpath("paper-figs/style.gp", NULL), *link = xasprintf("%s/style.gp", root);
    ck_assert_int_eq(symlink(style, link), 0);
    FREED char *drawn = xasprintf("%s/drawn", out);
    make_folder(out);
    make_folder(drawn);
}

static void setup(void)
{
    setup_files();
    bool quick = getenv("TREEATTN_QUICK") != NULL;
    if (!quick && program_built()) {
        const struct data_def **which = xcalloc((size_t)n_data_defs, sizeof *which);
        int32_t n = 0;
        for (int32_t i = 0; i < n_data_defs; i++)
            if (data_defs[i].keep == FRESH)
                which[n++] = &data_defs[i];
        fresh = data_make(which, n, program_file(), &places, (int)sysconf(_SC_NPROCESSORS_ONLN));
        ck_assert(fresh);
        free(which);
    } else
        printf("figures: those that need data computed anew are left out%s\n",
               quick ? " (TREEATTN_QUICK)" : "");
}

static void teardown(void)
{
    free(root);
    free(out);
}

static char *path_of(const char *table)
{
    const struct data_def *d = strncmp(table, "data/", 5) == 0 ? data_find(table + 5) : NULL;
    return d ? data_path(d, &places) : xasprintf("%s/%s.csv", root, table);
}

/* A table of the copy; figure files have the same form. The caller clears it. */
static struct csv read_table(const char *name)
{
    struct csv t;
    FREED char *path = path_of(name);
    MUST(result_read, path, name, &t);
    return t;
}

/* The caller clears it. */
static struct figure made(const struct figure_def *d)
{
    struct figure f;
    figure_make(d, &places, &f);
    return f;
}

/* Replace what stands there, and what it links to not. */
static void write_file(const char *path, const char *text)
{
    remove(path);
    write_bytes(path, text, strlen(text));
}

/* Whether a figure lacks nothing but data that is computed anew, and none of that was. */
static bool left_out(const struct figure *f)
{
    if (fresh || figure_verdict(f) != NO_DATA)
        return false;
    for (int32_t i = 0; i < f->n_tables; i++) {
        const struct data_def *d =
            strncmp(f->table[i]->name, "data/", 5) == 0 ? data_find(f->table[i]->name + 5) : NULL;
        if (d && d->keep == FRESH && strncmp(f->err.msg, f->table[i]->name, strlen(f->table[i]->name)) == 0)
            return true;
    }
    return false;
}

/* ---- the registries ----------------------------------------------------------------------------------------- */

/* Whether a strategy is in what the figures of our own kernel are drawn from. */
static bool was_measured(const char *strategy)
{
    FREED char *text = file_text("paper-figs/measured/h200_bench_write.csv"),
               *row = xasprintf("\n%s,", strategy);
    bool found = strstr(text, row) != NULL;
    return found;
}

FROM_HERE(figures, .setup = setup, .teardown = teardown, .once = true)

/* A strategy of one's own is a file and a line of strategies.def: it needs no look before it is drawn. */
TEST(every_name_has_one_look)
{
    for (int32_t i = 0; i < n_strategies; i++)
        if (!series_find(strategies[i]->name)) {
            ck_assert_msg(!was_measured(strategies[i]->name), "series.def has no line for %s",
                          strategies[i]->name);
            printf("skip: series.def has no line for %s, which no figure draws yet\n", strategies[i]->name);
        }
    for (int32_t i = 0; i < n_series_defs; i++)
        for (int32_t k = 0; k < i; k++) {
            const struct series *a = &series_defs[i], *b = &series_defs[k];
            ck_assert_str_ne(a->name, b->name);
            ck_assert_msg(strcmp(a->colour, b->colour) != 0 || a->marker != b->marker || a->dash != b->dash,
                          "%s and %s look alike", a->name, b->name);
        }
}

TEST(every_line_is_whole)
{
    for (int32_t i = 0; i < n_figure_defs; i++) {
        const struct figure_def *d = &figure_defs[i];
        ck_assert_msg(*d->why, "%s: no reason, no choice is told", d->id);
        ck_assert_msg(!d->make || d->source == ANALYTIC || *d->machine, "%s: no machine", d->id);
        for (int32_t k = 0; k < i; k++)
            ck_assert_str_ne(d->id, figure_defs[k].id);
    }
    for (int32_t i = 0; i < n_data_defs; i++)
        for (int32_t k = 0; k < i; k++)
            ck_assert_str_ne(data_defs[i].name, data_defs[k].name);
}

/* Of what a paper prints in percent, all is a cut but what an ablation costs more; a new headline needs a decision. */
TEST(every_cut_is_compared_as_one)
{
    CLEARED_BY(csv_clear) struct csv t = read_table("paper/headlines");
    for (int64_t i = 0; i < t.n_rows; i++) {
        const char *id = csv_peek(&t, i, 0), *claim = csv_peek(&t, i, 2);
        bool cut = strcmp(csv_peek(&t, i, 5), "%") == 0 && strncmp(claim, "extra ", 6) != 0 &&
                   !headline_not_possible(id);
        ck_assert_msg(cut == headline_is_cut(id), "%s: %s", id, claim);
    }
}

/* ---- figures, verdicts, pages --------------------------------------------------------------------------------- */

/* In a panel of bars nobody can be told from another by the marker or the dash. */
static void bars_differ(const struct figure *f)
{
    for (int32_t i = 0; i < f->n_points; i++)
        for (int32_t k = 0; k < i; k++) {
            const struct point *p = &f->point[i], *q = &f->point[k];
            if (p->panel != q->panel || f->panel[p->panel].plot != BARS || strcmp(p->series, q->series) == 0)
                continue;
            const struct series *a = series_find(p->series), *b = series_find(q->series);
            ck_assert_msg(strcmp(a->colour, b->colour) != 0 || a->fill != b->fill,
                          "%s: bars of %s and %s look alike", f->def->id, a->name, b->name);
        }
}

/* Every number of the page that stands beside a check is in the figure's CSV. */
static void page_follows_from_csv(const struct figure *f, const char *page)
{
    struct err e = {0};
    CLEARED_BY(csv_clear) struct csv t;
    FREED char *path = xasprintf("%s/drawn/%s.csv", out, f->def->id);
    ck_assert_msg(figure_write_csv(f, &e) && result_read(path, f->def->id, &t, &e), "%s", e.msg);
    ck_assert_int_eq(t.n_rows, f->n_points + f->n_checks);
    FREED char *id = xasprintf(" id=\"%s\"><h3>", f->def->id);
    const char *section = strstr(page, id), *end = section ? strstr(section, "</section>") : NULL;
    ck_assert_msg(section && end, "no section for %s", f->def->id);
    int32_t found = 0;
    for (int64_t i = 0; i < t.n_rows; i++) {
        const char *kind = csv_peek(&t, i, 0), *unit = csv_peek(&t, i, 7);
        if (strcmp(kind, "point") == 0 || strcmp(kind, "trend") == 0)
            continue;
        for (int k = 5; k < 7; k++) {
            char text[64], cell[80];
            const char *value = csv_peek(&t, i, k);
            if (!*value)
                continue;
            number_text(text, sizeof text, atof(value), unit);
            snprintf(cell, sizeof cell, "<td>%s</td>", text);
            const char *at = strstr(section, cell);
            ck_assert_msg(at && at < end, "%s: the page lacks %s", f->def->id, cell);
            found++;
        }
    }
    for (const char *at = section; (at = strstr(at, "<td>")) && at < end; at += 4)
        found -= at[-2] == 'd' &&
                 strchr("0123456789", at[4 + (at[4] == '-')]) && /* a number, not in the first cell, */
                 strncmp(at + 4 + strspn(at + 4, "0123456789"), " of ", 4) !=
                     0 /* and no count */; /* a number, not in the first cell */
    ck_assert_msg(found == 0, "%s: %d numbers of the page are not in the CSV", f->def->id, -found);
}

/* In the list of FIGURES.md a claim's results come in the order in which they decide, but for some that never do: PAT's cut,
 * which neither the recorded kernels nor ours have over RelayAttention, and sorting, which ran with a longer prompt. */
static void nearest_results_decide(void)
{
    FREED char *path = xasprintf("%s/FIGURES.md", out), *text = file_text(path);
    char *rest = text, *line;
    int rank = 0, parts = 0, several = 0;
    while ((line = strsep(&rest, "\n")) && strncmp(line, "## Figures", 10) != 0)
        for (int s = 0; s < N_SOURCES; s++) {
            FREED char *how = xasprintf("| %s", source_names[s]);
            if (strncmp(line, "| ", 2) == 0 && strstr(line, how)) {
                bool below = strncmp(line, "|  |", 4) == 0;
                several += below;
                parts += below && s < rank;
                rank = below && s < rank ? rank : s;
            }
        }
    ck_assert_msg(several > 20 && parts == 4, "%d results below another, %d of them nearer", several, parts);
}

/* The list as it is committed, which paper-figs/README.md quotes, is that of today's numbers. */
static void list_is_the_committed_one(void)
{
    FREED char *path = xasprintf("%s/FIGURES.md", out), *now = file_text(path),
               *was = file_text("paper-figs/FIGURES.md");
    char *a = now, *b = was, *x, *y;
    while ((x = strsep(&a, "\n")) && (y = strsep(&b, "\n")))
        ck_assert_msg(strcmp(x, y) == 0, "paper-figs/FIGURES.md says (make figures)\n%s\nand now it is\n%s",
                      y, x);
}

/* Of a table in panels FIGURES.md counts the numbers of all of them, not of the one that agrees best. */
static void list_counts_all_panels(const struct figure *f)
{
    int held = 0, of = 0, panels = 0, numbers = 0;
    for (int32_t i = 0; i < f->n_checks; i++) {
        held += f->check[i].held;
        of += f->check[i].of;
        panels += f->check[i].of > 0;
        numbers += !isnan(f->check[i].paper);
    }
    if (panels < 2 || numbers)
        return;
    FREED char *path = xasprintf("%s/FIGURES.md", out), *text = file_text(path);
    FREED char *row = xasprintf("(drawn/%s.svg)", f->def->id),
               *says = xasprintf(": %d of %d in %d panels", held, of, panels);
    const char *at = strstr(text, row), *found = at ? strstr(at, says) : NULL;
    ck_assert_msg(found && found < strchr(at, '\n'), "%s: FIGURES.md does not say '%s'", f->def->id, says);
}

/* A headline whose deciding number is neither reproduced nor close says why, in a sentence with a number, which the figure's function
 * computed; no other does. Of two results of one kind the released planner's decides. */
static void far_headlines_say_why(const struct figure *f, const struct csv *headlines)
{
    for (int64_t i = 0; i < headlines->n_rows; i++) {
        struct headline h;
        headline_of(f, n_figure_defs, headlines, i, &h);
        enum verdict v = headline_verdict(&h);
        const char *why = h.n ? h.x[0].check->why : NULL;
        bool far = v > CLOSE && v != NOT_POSSIBLE;
        ck_assert_msg(far == (why != NULL), "%s is %s, and %s", h.id, verdict_names[v],
                      why ? "says why it is not close" : "does not say why");
        ck_assert_msg(!why || why[strcspn(why, "0123456789")], "%s: no number in '%s'", h.id, why);
        for (int32_t k = 1; k < h.n; k++)
            ck_assert_msg(!(h.x[k].check->whole && !h.x[0].in->def->by_release &&
                            h.x[k].in->def->by_release && h.x[k].in->def->source == h.x[0].in->def->source),
                          "%s: %s decides before %s", h.id, h.x[0].in->def->id, h.x[k].in->def->id);
    }
}

/* Every row and section of the page can be chosen by its paper and by its verdict, every figure is in the contents, and nothing
 * is a script. */
static void page_filters(const char *page)
{
    int rows = 0;
    for (const char *at = page; (at = strstr(at, " class=\"row ")); at++, rows++) {
        char paper[32], verdict[32];
        ck_assert_msg(sscanf(at, " class=\"row %31[a-z] is-%31[a-z-]\"", paper, verdict) == 2, "%.60s", at);
        FREED char *by_paper = xasprintf("#paper-%s:checked~main .row:not(.%s)", paper, paper),
                   *by_verdict = xasprintf("#verdict-%s:checked~main .row:not(.is-%s)", verdict, verdict),
                   *choice = xasprintf("id=\"paper-%s\"", paper);
        ck_assert_msg(strstr(page, by_paper) && strstr(page, by_verdict) && strstr(page, choice),
                      "%s, %s: no filter", paper, verdict);
    }
    ck_assert_int_gt(rows, 2 * n_figure_defs);
    for (int32_t i = 0; i < n_figure_defs; i++) {
        FREED char *link = xasprintf(" <a href=\"#%s\">", figure_defs[i].id),
                   *section = xasprintf(" id=\"%s\">", figure_defs[i].id);
        const char *nav = strstr(page, link);
        ck_assert_msg(nav && nav < strstr(page, "</nav>") && strstr(page, section),
                      "%s is not in the contents", figure_defs[i].id);
    }
    ck_assert(!strstr(page, "<script"));
}

TEST(all_figures_and_headlines_have_verdicts)
{
    struct err e = {0};
    FREED struct figure *f = xcalloc((size_t)n_figure_defs, sizeof *f);
    int counts[N_VERDICTS] = {0}, without = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        figure_make(&figure_defs[i], &places, &f[i]);
        enum verdict v = figure_verdict(&f[i]);
        without += left_out(&f[i]);
        ck_assert_msg(v != NO_DATA || left_out(&f[i]), "%s: %s", f[i].def->id, f[i].err.msg);
        bars_differ(&f[i]);
        counts[v]++;
    }
    ck_assert_msg(write_index(f, n_figure_defs, &places, &e) && write_markdown(f, n_figure_defs, &places, &e),
                  "%s", e.msg);
    FREED char *path = xasprintf("%s/index.html", out), *page = file_text(path);
    page_filters(page);
    for (int32_t i = 0; i < n_figure_defs; i++)
        if (figure_verdict(&f[i]) < NOT_POSSIBLE) {
            page_follows_from_csv(&f[i], page);
            list_counts_all_panels(&f[i]);
        }
    CLEARED_BY(csv_clear) struct csv headlines = read_table("paper/headlines");
    for (int64_t h = 0; h < headlines.n_rows && without == 0; h++) {
        const char *id = csv_peek(&headlines, h, 0);
        int in = 0;
        for (int32_t i = 0; i < n_figure_defs; i++)
            for (int32_t k = 0; k < f[i].n_checks; k++)
                in += f[i].check[k].whole && strcmp(f[i].check[k].headline, id) == 0;
        ck_assert_msg((in == 0) == (headline_not_possible(id) != NULL), "headline %s: in %d figures, %s", id,
                      in, headline_not_possible(id) ? "and not possible" : "and possible");
    }
    if (without == 0) {
        far_headlines_say_why(f, &headlines);
        nearest_results_decide();
        list_is_the_committed_one();
    }
    printf("figures: %d reproduced, %d close, %d trend, %d differ, %d beyond, %d not possible; %d left out "
           "here\n",
           counts[REPRODUCED], counts[CLOSE], counts[TREND], counts[DIFFERS], counts[BEYOND],
           counts[NOT_POSSIBLE], without);
    for (int32_t i = 0; i < n_figure_defs; i++)
        figure_clear(&f[i]);
}

/* A simulated figure says how near the time model comes, with numbers that sim/ACCURACY.md has side by side. */
TEST(simulated_figures_say_their_error)
{
    FREED char *accuracy = file_text("sim/ACCURACY.md");
    int said = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        const char *error = figure_model_error(&figure_defs[i]);
        double half, most;
        ck_assert_int_eq(*error != 0, figure_defs[i].make && figure_defs[i].source == SIMULATED);
        if (!*error)
            continue;
        const char *within = strstr(error, "are within ");
        ck_assert(within && sscanf(within, "are within %lf %% of measured ones, nine of ten within %lf",
                                   &half, &most) == 2);
        FREED char *cell = xasprintf("| %.1f %%, %.1f %% |", half, most),
                   *path = xasprintf("paper-figs/drawn/%s.svg", figure_defs[i].id), *svg = file_text(path);
        ck_assert_msg(strstr(accuracy, cell), "sim/ACCURACY.md has no '%s'", cell);
        for (int k = 0; k < 2; k++) { /* words alone: where a line ends is the drawing's */
            FREED char *number = xasprintf("%g", k ? most : half);
            ck_assert_msg(strstr(svg, "nine") && strstr(svg, number), "%s does not say %s %%", path, number);
        }
        said++;
    }
    ck_assert_int_gt(said, 30);
}

static const struct figure_def *def_of(const char *id)
{
    for (int32_t i = 0; i < n_figure_defs; i++)
        if (strcmp(figure_defs[i].id, id) == 0)
            return &figure_defs[i];
    return NULL;
}

/* DeFT's terms: fitted to what they may see alone, none negative, and as near to the release's other runs as the page says. */
TEST(terms_predict_runs_that_they_have_not_seen)
{
    enum { MOST = 200 };
    static const struct figure_def none = {.id = "none", .source = SIMULATED};
    CLEARED_BY(figure_clear) struct figure f = {.def = &none, .places = &places};
    const struct deft_terms t = deft_fit(&f, true);
    double error[MOST], half, most;
    int32_t n = deft_held_out(&f, &t, error, MOST), seen = 0, all = 0;
    if (f.err.code && !fresh)
        return; /* the simulated step is made anew */
    ck_assert_msg(!f.err.code, "%s", f.err.msg);
    CLEARED_BY(csv_clear) struct csv r = read_table("recorded/deft_release");
    for (int64_t i = 0; i < r.n_rows; i++) {
        bool paged = strncmp(csv_text(&r, i, "mode"), "tree", 4) != 0;
        all += paged;
        seen += paged && strcmp(csv_text(&r, i, "task"), "few-shot") == 0 &&
                atoi(csv_text(&r, i, "prompt_len")) != 4000;
    }
    ck_assert_int_eq(t.rows, seen);
    ck_assert_int_eq(n, all - seen);
    for (int k = 0; k < N_DEFT_KERNELS; k++)
        ck_assert_msg(t.of[k].launch > 0 && t.of[k].walk >= 0 && t.of[k].read >= 0 && t.of[k].step > 0, "%s",
                      deft_kernel_series[k]);
    FREED char *accuracy = file_text("sim/ACCURACY.md");
    for (int k = 0; k < N_DEFT_KERNELS; k++) {
        FREED char *row =
            xasprintf("| `%s` | %.3f ms, %.2f ms | %.*f us, %.2f us |", deft_kernel_series[k], t.of[k].launch,
                      t.of[k].step, t.of[k].walk > 0, 1e3 * t.of[k].walk, 1e3 * t.of[k].read);
        ck_assert_msg(strstr(accuracy, row), "sim/ACCURACY.md has no '%s'", row);
    }
    double median = 100 * quantile(error, n, 0.5), p90 = 100 * quantile(error, n, 0.9);
    ck_assert_int_eq(sscanf(figure_model_error(def_of("deft_table5")),
                            "%*[^0-9]%*d%*[^0-9]%lf %% of measured ones, nine of ten within %lf", &half,
                            &most),
                     2);
    ck_assert_msg(fabs(median - half) < 0.051 && fabs(p90 - most) < 0.051,
                  "half within %.4g %%, nine of ten within %.4g %%", median, p90);
}

/* Numbers that stand in the paper's place and are not the paper's, but its release's, say so. */
TEST(what_no_paper_prints_is_not_called_so)
{
    int others = 0, left = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        CLEARED_BY(figure_clear) struct figure f = made(&figure_defs[i]);
        bool printed = false, compared = false;
        left += left_out(&f);
        for (int32_t k = 0; k < f.n_tables; k++)
            printed |= strncmp(f.table[k]->name, "paper/", 6) == 0;
        for (int32_t k = 0; k < f.n_points; k++)
            compared |= !isnan(f.point[k].paper);
        for (int32_t k = 0; k < f.n_checks && !printed; k++)
            ck_assert_msg(isnan(f.check[k].paper) || strstr(f.check[k].text, "release"),
                          "%s: whose number is beside '%s'?", f.def->id, f.check[k].text);
        if (compared && !printed) {
            others++;
            ck_assert_msg(strstr(f.def->why, "The paper prints no number"), "%s: %s", f.def->id, f.def->why);
            FREED char *path = xasprintf("paper-figs/drawn/%s.svg", f.def->id), *svg = file_text(path);
            ck_assert_msg(strstr(svg, "the release's") && !strstr(svg, "the paper's"), "%s", path);
        }
    }
    ck_assert_msg(left > 0 ? others <= 3 : others == 3, "%d, and %d left out", others, left);
}

/* PAT's Figure 9 has no FastTree at 16/8 and 64/8; our kernel makes none of RelayAttention's copies. */
TEST(pat_is_compared_with_what_ran)
{
    static const char *const id[] = {"pat_fig9_released", "pat_fig9_ours"};
    for (int i = 0; i < 2; i++) {
        CLEARED_BY(figure_clear) struct figure f = made(def_of(id[i]));
        struct times x;
        if (i == 0)
            times_released(&f, "PAT", &x);
        else
            times_measured(&f, "measured/h200_bench_write", "pat-fig9", "time_us", &x);
        ck_assert_msg(!f.err.code, "%s", f.err.msg);
        double mean = 0.5 * (times_ratio(&x, "fasttree", "pat", "32/32", 1, 18).mean +
                             times_ratio(&x, "fasttree", "pat", "32/8", 1, 18).mean);
        int found = 0;
        for (int32_t k = 0; k < f.n_checks; k++) {
            const char *headline = f.check[k].headline ? f.check[k].headline : "";
            ck_assert_msg(strcmp(headline, "pat-over-relay") != 0, "%s has RelayAttention", id[i]);
            ck_assert_msg(strcmp(headline, "pat-attention-latency-reduction") != 0 || !f.check[k].whole,
                          "%s has all baselines", id[i]);
            if (strcmp(headline, "pat-over-fasttree") == 0) {
                ck_assert_msg(fabs(f.check[k].ours - mean) < 1e-12, "%s: %g, at the paper's heads %g", id[i],
                              f.check[k].ours, mean);
                found++;
            }
        }
        ck_assert_int_eq(found, 1);
    }
}

/* "pat" and "pat:split=0" name PAT. */
static bool names(const char *cell, const char *series)
{
    size_t n = strlen(series);
    return strncmp(cell, series, n) == 0 && (!cell[n] || cell[n] == ':');
}

/* A table with a factor on one column, in rows that name `series` (NULL: all rows); heading: that column is called
 * something else instead. */
static char *changed(const struct csv *t, int32_t column, const char *series, double factor, bool heading)
{
    char *text = NULL;
    size_t size;
    FILE *m = open_memstream(&text, &size);
    for (int64_t c = 0; c < t->n_notes; c++)
        fprintf(m, "# %s\n", t->note[c]);
    for (int64_t r = -1; r < t->n_rows; r++) {
        bool here = !series && r >= 0;
        for (int32_t c = 0; series && r >= 0 && c < t->n_columns; c++)
            here |= names(csv_peek(t, r, c), series);
        for (int32_t c = 0; c < t->n_columns; c++) {
            const char *cell = r < 0 ? t->column[c] : csv_peek(t, r, c);
            char *end;
            double v = strtod(cell, &end);
            if (here && !heading && c == column && end != cell && !*end)
                fprintf(m, "%.17g", v * factor);
            else
                fprintf(m, cell[strcspn(cell, ",")] ? "\"%s\"" : "%s",
                        r < 0 && heading && c == column ? "renamed" : cell);
            fputc(c + 1 < t->n_columns ? ',' : '\n', m);
        }
    }
    fclose(m);
    return text;
}

/* The figure after that change of the file `only`, or where that is NULL of every file that has the column; afterwards they are
 * what they were. */
static void make_changed(const struct figure *before, const struct csv *only, const char *column,
                         const char *series, double factor, bool heading, struct figure *f)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < before->n_tables; i++) {
            int32_t c = only && only != before->table[i] ? -1 : csv_find(before->table[i], column);
            FREED char *path = path_of(before->table[i]->name), *kept = xasprintf("%s.kept", path);
            if (c >= 0 && pass == 0) {
                FREED char *text = changed(before->table[i], c, series, factor, heading);
                ck_assert_int_eq(rename(path, kept), 0);
                write_file(path, text);
            } else if (c >= 0) {
                ck_assert_int_eq(rename(kept, path), 0);
            }
        }
        if (pass == 0)
            *f = made(before->def);
    }
}

/* Another verdict; where several things may differ from the paper's already, another grade of one of them. */
static bool other_verdict(const struct figure *a, const struct figure *b)
{
    bool other = figure_verdict(a) != figure_verdict(b);
    for (int32_t i = 0; figure_verdict(a) != REPRODUCED && a->n_checks == b->n_checks && i < a->n_checks; i++)
        other |= a->check[i].grade != b->check[i].grade;
    return other && figure_verdict(b) != NO_DATA;
}

/* Whether anything that a check or a sentence below the picture says is another, or a number of the paper's that is drawn. */
static bool moved(const struct figure *a, const struct figure *b)
{
    bool other = a->n_checks != b->n_checks || figure_verdict(a) != figure_verdict(b);
    for (int32_t i = 0; !other && i < a->n_checks; i++) {
        const struct check *x = &a->check[i], *y = &b->check[i];
        other = x->grade != y->grade || strcmp(x->text, y->text) != 0 ||
                (x->why && y->why && strcmp(x->why, y->why) != 0) ||
                (x->factor != y->factor && !(isnan(x->factor) && isnan(y->factor)));
    }
    for (int32_t i = 0; !other && i < a->n_notes && i < b->n_notes; i++)
        other = strcmp(a->note[i], b->note[i]) != 0;
    for (int32_t i = 0; !other && i < a->n_points && i < b->n_points; i++)
        other = a->point[i].paper != b->point[i].paper && !isnan(a->point[i].paper);
    return other && figure_verdict(b) != NO_DATA;
}

/* Whether a column is of numbers, and the figure needs it. */
static bool is_used(const struct figure *before, const struct csv *t, int32_t column, const struct csv *only)
{
    bool is_number = false;
    for (int64_t row = 0; row < t->n_rows && !is_number; row++) {
        char *end;
        strtod(csv_peek(t, row, column), &end);
        is_number = end != csv_peek(t, row, column) && !*end;
    }
    if (!is_number)
        return false;
    CLEARED_BY(figure_clear) struct figure f;
    make_changed(before, only, t->column[column], NULL, 1, true, &f);
    bool used = f.err.code != 0;
    return used;
}

/* Whether a factor on a column, in all rows or in those of one series, makes another figure of it. only: as above. */
static bool flips_at(const struct figure *before, const struct csv *t, int32_t column, const struct csv *only,
                     bool (*other)(const struct figure *a, const struct figure *b))
{
    static const double factors[] = {10, 0.1, -1};
    if (!is_used(before, t, column, only))
        return false;
    const char **series = xcalloc((size_t)n_series_defs + 1, sizeof *series); /* the first: NULL, all rows */
    int n = 1;
    for (int32_t s = 0; s < n_series_defs; s++)
        for (int64_t i = 0; i < t->n_rows * t->n_columns && series[n - 1] != series_defs[s].name; i++)
            if (names(t->cell[i], series_defs[s].name))
                series[n++] = series_defs[s].name;
    bool is_other = false;
    for (int k = 0; !is_other && k < 3 * n; k++) {
        CLEARED_BY(figure_clear) struct figure f;
        make_changed(before, only, t->column[column], series[k / 3], factors[k % 3], false, &f);
        is_other = other(before, &f);
    }
    free(series);
    return is_other;
}

static bool flips(const struct figure *before)
{
    for (int32_t i = 0; i < before->n_tables; i++)
        for (int32_t c = 0; c < before->table[i]->n_columns; c++)
            if (flips_at(before, before->table[i], c, NULL, other_verdict))
                return true;
    return false;
}

/* Whether a change of this file alone moves what the figure says. */
static bool moves(const struct figure *before, const struct csv *t)
{
    for (int32_t c = 0; c < t->n_columns; c++)
        if (flips_at(before, t, c, t, moved))
            return true;
    return false;
}

/* ---- broken files --------------------------------------------------------------------------------------------- */

static const char *const good_text = "# rows: 2\nseries,at,v\npat,a,2\n\"pat\",b,3\n";

static void fig_small(struct figure *f)
{
    const struct csv *t = figure_table(f, "data/deft_chunks");
    add_panel(f, "", BARS, 0, "", "s");
    add_point(f, "pat", "a", NAN, pick(f, t, "v", "series", "pat", "at", "a", NULL), 2);
    add_point(f, "pat", "b", NAN, pick(f, t, "v", "series", "pat", "at", "b", NULL), 3);
    add_point(f, "optimal", "b", NAN, pick_mean(f, t, "v", "series", "pat", NULL), NAN);
    check_below(f, "optimal", "pat");
    check_match(f);
}

static const struct figure_def small = {"small", "PAT",  "Figure 0", "two numbers", SIMULATED,
                                        false,   "A100", "because",  fig_small};

/* The verdict that a file with this text gives; the error must have `says` in it. */
static enum verdict small_verdict(const char *text, const char *says)
{
    FREED char *path = path_of("data/deft_chunks");
    if (text)
        write_file(path, text);
    else
        remove(path);
    CLEARED_BY(figure_clear) struct figure f = made(&small);
    enum verdict v = figure_verdict(&f);
    ck_assert_msg(strstr(f.err.msg, says), "'%s' lacks '%s'", f.err.msg, says);
    ck_assert_msg(v != NO_DATA || strstr(f.err.msg, "data/deft_chunks"), "'%s' does not name the file",
                  f.err.msg);
    return v;
}

static void fig_unchecked(struct figure *f)
{
    add_panel(f, "", BARS, 0, "", "s");
    add_point(f, "pat", "a", NAN, 1, 2);
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

/* Grade of the last check of a figure with two lines over three places. */
static enum verdict grade(void (*check)(struct figure *f, double x), const double a[3], const double b[3],
                          double x)
{
    static const char *const at[] = {"1", "2", "3"};
    struct figure_def def = small;
    def.make = NULL;
    CLEARED_BY(figure_clear) struct figure f = made(&def);
    add_panel(&f, "panel", LINES, 0, "x", "y");
    for (int i = 0; i < 3; i++) {
        add_point(&f, "pat", at[i], i, a[i], b[i]);
        add_point(&f, "optimal", at[i], i, b[i], a[i]);
    }
    check(&f, x);
    ck_assert_int_eq(f.err.code, 0);
    enum verdict v = f.check[f.n_checks - 1].grade;
    return v;
}

static void do_least(struct figure *f, double x)
{
    check_least(f, "pat", x);
}
static void do_below(struct figure *f, double x)
{
    (void)x;
    check_below(f, "pat", "optimal");
}
static void do_grows(struct figure *f, double x)
{
    check_grows(f, "pat", x);
}
static void do_match(struct figure *f, double x)
{
    (void)x;
    check_match(f);
}
static void do_times(struct figure *f, double x)
{
    check_number(f, "times", "x", x, 2);
}
static void do_percent(struct figure *f, double x)
{
    check_number(f, "share", "%", x, 20);
}
static void do_seconds(struct figure *f, double x)
{
    check_number(f, "time", "s", x, 20);
}
static void do_share(struct figure *f, double x)
{
    check_share(f, "share", x, 68);
}
static void do_cut(struct figure *f, double x)
{
    check_cut(f, "cut", x, 67.4);
}
static void do_small_cut(struct figure *f, double x)
{
    check_cut(f, "cut", x, 13.6);
}
static void do_counted_cut(struct figure *f, double x)
{
    check_headline(f, "deft-kv-io-reduction-most", x); /* 99 % */
}
static void do_above(struct figure *f, double x)
{
    check_headline(f, "hydragen-attention-speedup", x); /* above 16 x */
}
static void do_less(struct figure *f, double x)
{
    check_headline(f, "hydragen-long-prefix-loss", x); /* below 15 % */
}

/* How far a number is, as a factor: the larger ratio, of a share that of the part to the rest, of a cut the larger of two. */
TEST(factors_say_how_far)
{
    static const struct {
        void (*check)(struct figure *f, double x);
        double x, factor;
    } all[] = {{do_times, 4, 2},        {do_times, 1, 2},
               {do_times, 0, INFINITY}, {do_percent, -1, INFINITY},
               {do_share, 50, 2.125},   {do_cut, 51, 49 / 32.6},
               {do_cut, 80, 32.6 / 20}, {do_counted_cut, 99.58, 99.58 / 99},
               {do_above, 20, 1},       {do_above, 8, 2},
               {do_less, 3, 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct figure_def def = small;
        def.make = NULL;
        CLEARED_BY(figure_clear) struct figure f = made(&def);
        all[i].check(&f, all[i].x);
        double is = f.check[0].factor;
        ck_assert_msg(is == all[i].factor || fabs(is - all[i].factor) < 1e-12, "%zu: %g apart, not %g", i, is,
                      all[i].factor);
        ck_assert_int_eq(f.n_factors, 1);
    }
    struct figure_def def = small;
    CLEARED_BY(figure_clear) struct figure f = {.def = &def, .places = &places};
    char text[120];
    add_panel(&f, "", LINES, 0, "x", "y");
    for (int i = 1; i <= 4; i++)
        add_point(&f, "pat", "a", i, i * i, 4);
    check_match(&f);
    figure_factor_text(&f, text, sizeof text);
    ck_assert_str_eq(text, "4 numbers, 3.12x apart at the median, the furthest 4x"); /* 4, 1, 2.25, 4 */
}

/* The median of an even number of errors, as the check says it, is half way between the middle two. */
TEST(medians_are_of_all_points)
{
    CLEARED_BY(figure_clear) struct figure f = made(def_of("replayed"));
    double error[100];
    ck_assert_msg(!f.err.code || left_out(&f), "%s", f.err.msg);
    for (int32_t p = 0; p < f.n_panels && !f.err.code; p++) {
        int n = 0, said = 0;
        for (int32_t k = 0; k < f.n_points; k++)
            if (f.point[k].panel == p && n < 100)
                error[n++] = 100 * fabs(f.point[k].ours / f.point[k].x - 1);
        ck_assert(n > 0 && n % 2 == 0);
        sort_f64(error, n);
        FREED char *says = xasprintf("%s: median error at most 25 %%: %.3g %%", f.panel[p].name,
                                     (error[n / 2 - 1] + error[n / 2]) / 2);
        for (int32_t k = 0; k < f.n_checks; k++)
            said += strcmp(f.check[k].text, says) == 0;
        ck_assert_msg(said == 1, "no check says '%s'", says);
    }
}

/* How far the map of winners hangs on coefficients is told beside it as well, in a line that is written by hand. */
TEST(cells_that_change_are_counted)
{
    CLEARED_BY(figure_clear) struct figure f = made(def_of("crossover"));
    int32_t cells = 0, of = 0;
    ck_assert_msg(!f.err.code || left_out(&f), "%s", f.err.msg);
    for (int32_t k = 0; k < f.n_checks; k++) {
        const char *in = strstr(f.check[k].text, "in at most one of ten cells: in ");
        if (in)
            ck_assert_int_eq(sscanf(in, "in at most one of ten cells: in %d of %d", &cells, &of), 2);
    }
    FREED char *says = xasprintf("another in %d of %d cells", (int)cells, (int)of);
    ck_assert_msg(f.err.code || strstr(f.def->why, says), "figures.def does not say '%s'", says);
}

/* ---- the program --------------------------------------------------------------------------------------------- */

static bool cannot_draw(void)
{
    if (access(drawer(), X_OK) == 0 && system("gnuplot --version >/dev/null 2>&1") == 0)
        return false;
    printf("figures: nothing is drawn here: no gnuplot, or the program is not built\n");
    return true;
}

/* The program on the copy, into `into`, where no locale is set; its exit code, what it prints in *text. */
static int draw(const char *into, const char *args, char **text)
{
    enum { SIZE = 1 << 20 };
    *text = xmalloc(SIZE);
    return run_shell(*text, SIZE, "LC_ALL=C %s --root %s --scratch %s --out %s --no-data %s 2>&1",
                     drawer_quoted(), root, root, into, args);
}

TEST(what_cannot_be_drawn_is_said_in_a_line)
{
    static const struct {
        const char *how;
        int code;
        const char *says;
    } all[] = {
        {"%s --only nosuch", EXIT_BAD_INPUT, "'nosuch'"},
        {"%s --only fasttre_fig9", EXIT_BAD_INPUT, "near: fasttree_fig9, "},
        {"%s --only deft_fig13,fig_9", EXIT_BAD_INPUT, "'fig_9'"},
        {"%s --only deft_fig13,", EXIT_BAD_INPUT, "''"},
        {"%s --kept --traces /nonexistent", EXIT_MISSING, "/nonexistent/sorting128ToT.json"},
        {"%s --no-data --only deft_fig13 --only nosuch", EXIT_BAD_INPUT, "'nosuch'"},
        {"%s --kept --only deft_fig13", EXIT_BAD_INPUT, "'deft_fig13'"}, /* a figure, and no data */
        {"PATH=/nonexistent %s", EXIT_MISSING, "no gnuplot"},
        {"cd / && %s", EXIT_MISSING, "paper-figs/paper"},
    };
    char text[4096];
    if (access(drawer(), X_OK) != 0)
        return;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *command = xasprintf(all[i].how, drawer_quoted());
        int code = run_shell(text, sizeof text, "(%s) 2>&1", command);
        ck_assert_msg(code == all[i].code, "'%s' exits with %d: %s", command, code, text);
        ck_assert_msg(strncmp(text, "figures: ", 9) == 0 && strstr(text, all[i].says), "%s", text);
        ck_assert_msg(strchr(text, '\n')[1] == 0, "more than one line: %s", text);
    }
}

/* An id chooses itself alone, what is none all that have it; what is in a list is chosen once. */
TEST(a_list_chooses_by_id_and_by_part)
{
    static const struct {
        const char *only;
        int figures;
    } all[] = {{"deft_table1", 1},         {"deft_table1,deft_table12", 2}, {"fig9", 8},
               {"deft_table1,table1", 12}, {"fig9_rel,_released", 3},       {"hydragen_fig4_", 2}};
    if (access(drawer(), X_OK) != 0)
        return;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *args = xasprintf("--no-drawing --only %s | grep -c '^[a-z]'", all[i].only), *text = NULL;
        draw(out, args, &text);
        ck_assert_msg(atoi(text) == all[i].figures, "--only %s: %s figures", all[i].only, text);
    }
}

TEST(two_runs_draw_the_same)
{
    if (cannot_draw() || !fresh)
        return;
    char *a = xasprintf("%s/a", root), *b = xasprintf("%s/b", root), *text;
    for (int i = 0; i < 2; i++) {
        int code = draw(i ? b : a, "", &text);
        ck_assert_msg(code == EXIT_GOOD, "exit code %d: %.4000s", code, text);
        ck_assert_msg(!strstr(text, "arning"), "%.4000s", text);
        free(text);
    }
    FREED char *command = xasprintf("diff -r -q %s %s", a, b);
    ck_assert_int_eq(system(command), 0);
    int drawn = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        FREED char *svg = xasprintf("%s/drawn/%s.svg", a, figure_defs[i].id);
        drawn += access(svg, R_OK) == 0;
        ck_assert_msg(!figure_defs[i].make || access(svg, R_OK) == 0, "%s is not there", svg);
        if (figure_defs[i].make) {
            char fault[500];
            int32_t n;
            FREED char *drawing = file_text(svg);
            drawing_fault(drawing, fault, sizeof fault, &n);
            ck_assert_msg(!*fault, "%s: %s", figure_defs[i].id, fault);
        }
    }
    printf("figures: %d drawn twice, SVG and PNG equal to the byte\n", drawn);
    free(a);
    free(b);
}

/* ---- what is kept ---------------------------------------------------------------------------------------------- */

/* The first command of every kept data set gives the first rows of the file again, to the letter. */
TEST(kept_data_is_what_its_commands_give)
{
    FREED char *again_root = xasprintf("%s/again", root), *again_data = xasprintf("%s/data", again_root);
    const struct places elsewhere = {again_root, again_root, again_root, NULL};
    make_folder(again_root);
    make_folder(again_data);
    FREED char *traces = shared_path("traces/sorting128ToT.json");
    bool possible = traces && !getenv("TREEATTN_QUICK") && program_built();
    for (int32_t i = 0; possible && i < n_data_defs; i++) {
        if (data_defs[i].keep != KEPT)
            continue;
        struct err e = {0};
        CLEARED_BY(csv_clear) struct csv kept, again;
        char *path = data_path(&data_defs[i], &places);
        ck_assert_msg(result_read(path, data_defs[i].name, &kept, &e), "%s", e.msg);
        const char *first[] = {data_defs[i].command[0], NULL};
        const struct data_def one = {data_defs[i].name, KEPT, first}, *which = &one;
        ck_assert(data_make(&which, 1, program_file(), &elsewhere, 1));
        free(path);
        path = data_path(&one, &elsewhere);
        ck_assert_msg(result_read(path, data_defs[i].name, &again, &e), "%s", e.msg);
        ck_assert_int_le(again.n_rows, kept.n_rows);
        for (int64_t c = 0; data_defs[i].command[c]; c++) {
            FREED char *line = xasprintf("treeattn %s --csv", data_defs[i].command[c]);
            ck_assert_msg(c < kept.n_notes && strcmp(kept.note[c], line) == 0,
                          "%s: made by other commands (make figures-data)", data_defs[i].name);
        }
        ck_assert_int_eq(again.n_columns, kept.n_columns);
        for (int32_t c = 0; c < kept.n_columns; c++)
            ck_assert_str_eq(again.column[c], kept.column[c]);
        for (int64_t k = 0; k < again.n_rows * kept.n_columns; k++)
            ck_assert_msg(strcmp(kept.cell[k], again.cell[k]) == 0,
                          "%s: %s is %s now, was %s (make figures-data)", data_defs[i].name,
                          kept.column[k % kept.n_columns], again.cell[k], kept.cell[k]);
        free(path);
    }
}

/* recorded/deft_release.csv against the file that it is an extract of. */
TEST(recorded_latencies_are_the_releases)
{
    CLEARED_BY(csv_clear) struct csv c = {0};
    if (!shared_csv(&c, "traces/golden.csv"))
        return;
    CLEARED_BY(csv_clear) struct csv t = read_table("recorded/deft_release");
    int64_t row = 0;
    for (int64_t i = 0; i < c.n_rows; i++) {
        if (strcmp(csv_text(&c, i, "task"), "sorting") == 0)
            continue;
        ck_assert_int_lt(row, t.n_rows);
        static const char *const same[] = {
            "task",       "mode",          "prompt_len",           "max_seq_len",
            "iterations", "generated_len", "attention_latency_ms", "decode_latency_ms"};
        for (int k = 0; k < 8; k++)
            ck_assert_str_eq(csv_text(&t, row, same[k]), csv_text(&c, i, same[k]));
        ck_assert_ptr_nonnull(strstr(csv_text(&c, i, "source_file"), csv_text(&t, row, "model")));
        row++;
    }
    ck_assert_int_eq(row, t.n_rows);
}

/* recorded/h200_peers.csv against the files that it is made of: every row that was measured. */
TEST(recorded_times_are_the_peers)
{
    static const char *const files[] = {"peers/h200_fasttree_fig9.csv", "peers/h200_pat_fig9_a.csv",
                                        "peers/h200_pat_fig9_b.csv", "peers/h200_speculative.csv"};
    static const char *const same[] = {"set", "idx", "N", "C", "hq", "hk", "method", "cold_us", "lb_us"};
    CLEARED_BY(csv_clear) struct csv t = read_table("recorded/h200_peers");
    int64_t row = 0;
    for (int i = 0; i < 4; i++) {
        FREED char *file = shared_path(files[i]);
        if (!file)
            break;
        CLEARED_BY(csv_clear) struct csv c;
        MUST(csv_read, file, &c);
        for (int64_t r = 0; r < c.n_rows; r++) {
            if (strcmp(csv_text(&c, r, "status"), "ok") != 0)
                continue;
            ck_assert_int_lt(row, t.n_rows);
            for (int k = 0; k < 9; k++)
                ck_assert_str_eq(csv_text(&t, row, same[k]), csv_text(&c, r, same[k]));
            row++;
        }
    }
    ck_assert_msg(row == 0 || row == t.n_rows, "%d rows, of %d recorded", (int)t.n_rows, (int)row);
}

/* Every file that a figure is drawn from bears on a verdict, a factor or a sentence of it. */
TEST(every_input_moves_what_is_said)
{
    int inputs = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        CLEARED_BY(figure_clear) struct figure f = made(&figure_defs[i]);
        for (int32_t t = 0; figure_verdict(&f) < NOT_POSSIBLE && t < f.n_tables; t++, inputs++)
            ck_assert_msg(moves(&f, f.table[t]), "%s says the same whatever %s says", f.def->id,
                          f.table[t]->name);
    }
    printf("figures: %d inputs, each of which moves what its figure says\n", inputs);
    ck_assert_int_gt(inputs, 0);
}

/* The last on these files: where it crashes, they stay changed. */
TEST(a_planted_change_flips_the_verdict)
{
    int flipped = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        CLEARED_BY(figure_clear) struct figure f = made(&figure_defs[i]);
        ck_assert_msg(figure_verdict(&f) != NO_DATA || left_out(&f), "%s: %s", f.def->id, f.err.msg);
        if (figure_verdict(&f) < NOT_POSSIBLE) {
            ck_assert_msg(flips(&f), "%s stays %s, whatever its files say", f.def->id,
                          verdict_names[figure_verdict(&f)]);
            flipped++;
        }
    }
    printf("figures: %d verdicts flipped by a planted change\n", flipped);
    ck_assert_int_gt(flipped, 0);
}

/* ---- broken files ---------------------------------------------------------------------------------- */

FROM_HERE(broken, .setup = setup_files, .teardown = teardown)

TEST(checks_say_what_they_mean)
{
    static const double up[] = {1, 2, 3}, more[] = {2, 3, 4}, mixed[] = {2, 1, 4}, close[] = {1.1, 2.2, 3.3};
    ck_assert_int_eq(grade(do_least, up, more, 0), REPRODUCED);
    ck_assert_int_eq(grade(do_least, up, mixed, 0), DIFFERS);
    ck_assert_int_eq(grade(do_least, close, up, 0), DIFFERS);
    ck_assert_int_eq(grade(do_least, close, up, 0.1), REPRODUCED);
    ck_assert_int_eq(grade(do_below, up, more, 0), REPRODUCED);
    ck_assert_int_eq(grade(do_below, up, up, 0), DIFFERS);
    ck_assert_int_eq(grade(do_grows, up, more, 0), REPRODUCED);
    ck_assert_int_eq(grade(do_grows, mixed, more, 0), DIFFERS);
    ck_assert_int_eq(grade(do_grows, mixed, more, 0.6), REPRODUCED);
    ck_assert_int_eq(grade(do_match, close, up, 0), REPRODUCED);
    ck_assert_int_eq(grade(do_match, up, more, 0), TREND);
    ck_assert_int_eq(grade(do_times, up, up, 2.4), REPRODUCED);
    ck_assert_int_eq(grade(do_times, up, up, 2.9), CLOSE);
    ck_assert_int_eq(grade(do_times, up, up, 1.35), CLOSE);
    ck_assert_int_eq(grade(do_times, up, up, 3.1), TREND);
    ck_assert_int_eq(grade(do_times, up, up, 4), TREND);
    ck_assert_int_eq(grade(do_times, up, up, 0.9), DIFFERS);
    ck_assert_int_eq(grade(do_percent, up, up, 16), REPRODUCED);
    ck_assert_int_eq(grade(do_percent, up, up, 29), CLOSE);
    ck_assert_int_eq(grade(do_percent, up, up, 31), TREND);
    ck_assert_int_eq(grade(do_percent, up, up, 1), TREND);
    ck_assert_int_eq(grade(do_percent, up, up, -1), DIFFERS);
    ck_assert_int_eq(grade(do_share, up, up, 72.6), REPRODUCED); /* 2.65 times the rest; the paper 2.125 */
    ck_assert_int_eq(grade(do_share, up, up, 72.8), CLOSE);
    ck_assert_int_eq(grade(do_share, up, up, 76), CLOSE); /* 3.17 times the rest */
    ck_assert_int_eq(grade(do_share, up, up, 77), TREND);
    ck_assert_int_eq(grade(do_share, up, up, 100), TREND);
    ck_assert_int_eq(grade(do_share, up, up, -1), DIFFERS);
    ck_assert_int_eq(grade(do_cut, up, up, 59.3), REPRODUCED); /* 40.7 % are left; the paper leaves 32.6 % */
    ck_assert_int_eq(grade(do_cut, up, up, 59.2), CLOSE);
    ck_assert_int_eq(grade(do_cut, up, up, 51.2), CLOSE); /* 1.497 times as much is left */
    ck_assert_int_eq(grade(do_cut, up, up, 51), TREND);
    ck_assert_int_eq(grade(do_small_cut, up, up, 10.3), REPRODUCED);
    ck_assert_int_eq(grade(do_small_cut, up, up, 10.1), CLOSE); /* though as much is left */
    ck_assert_int_eq(grade(do_small_cut, up, up, 9), TREND);
    ck_assert_int_eq(grade(do_small_cut, up, up, -1), DIFFERS);
    ck_assert_int_eq(grade(do_counted_cut, up, up, 99.58), REPRODUCED); /* printed as 99 */
    ck_assert_int_eq(grade(do_counted_cut, up, up, 98.4), TREND);       /* 1.6 % are left, not 1 */
    ck_assert_int_eq(grade(do_seconds, up, up, 1), TREND);
    ck_assert_int_eq(grade(do_above, up, up, 17), REPRODUCED);
    ck_assert_int_eq(grade(do_above, up, up, 12.1), CLOSE);
    ck_assert_int_eq(grade(do_above, up, up, 11.9), DIFFERS);
    ck_assert_int_eq(grade(do_above, up, up, 0.5), DIFFERS);
    ck_assert_int_eq(grade(do_less, up, up, 3), REPRODUCED);
    ck_assert_int_eq(grade(do_less, up, up, 18.7), CLOSE);
    ck_assert_int_eq(grade(do_less, up, up, 18.8), DIFFERS);
    ck_assert_int_eq(grade(do_less, up, up, 99), DIFFERS);
}

TEST(what_is_broken_is_named)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {NULL, "No such file"},
        {"", "no rows"},
        {"# rows: 2\nseries,at,v\npat,a,2\npat,b,", "inside of a line"},
        {"# rows: 2\nseries,at,v\npat,a,2\npat,b\n", "2 fields (expected 3"},
        {"# rows: 2\nseries,at,v\npat,a,2\n", "1 rows (expected 2"},
        {"series,at,v\npat,a,2\n\"pat,b,3\n", "does not end"},
        {"series,at,value\npat,a,2\npat,b,3\n", "no column 'v'"},
        {"series,at,v\npat,a,2\npat,c,3\n", "no row with series = 'pat', at = 'b'"},
        {"series,at,v\npat,a,2\npat,b,3\npat,b,4\n", "more than one row"},
        {"series,at,v\npat,a,2\npat,b,\n", "expected a number"},
        {"series,at,v\npat,a,2\npat,b,inf\n", "expected a number"},
        {"# nothing\n", "expected a heading"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(small_verdict(bad[i].text, bad[i].says) == NO_DATA, "%s: drawn", bad[i].says);
    ck_assert_int_eq(small_verdict(good_text, ""), REPRODUCED);
    ck_assert_int_eq(small_verdict("series,at,v\npat,a,2\npat,b,4.4\n", ""), CLOSE);
    ck_assert_int_eq(small_verdict("series,at,v\npat,a,2\npat,b,5\n", ""), TREND);
    ck_assert_int_eq(small_verdict("series,at,v\npat,a,2\npat,b,1\n", ""), DIFFERS);
}

TEST(a_figure_without_checks_is_named)
{
    struct figure_def def = small;
    def.make = fig_unchecked;
    CLEARED_BY(figure_clear) struct figure f = made(&def);
    ck_assert_int_eq(figure_verdict(&f), NO_DATA);
    ck_assert_str_eq(f.err.msg, "figure small has 1 points and 0 checks (expected one of each at least)");
}

/* "0 of 0" holds, and no number is near none: a figure without its data says neither. */
TEST(a_figure_without_data_checks_nothing)
{
    int without = 0;
    for (int32_t i = 0; i < n_figure_defs; i++) {
        CLEARED_BY(figure_clear) struct figure f = made(&figure_defs[i]); /* no data of its own */
        if (figure_verdict(&f) == NO_DATA) {
            ck_assert_msg(f.n_checks == 0, "%s: %s", f.def->id, f.n_checks ? f.check[0].text : "");
            without++;
        }
    }
    ck_assert_int_gt(without, 0);
    if (access(drawer(), X_OK) != 0)
        return;
    char text[4096];
    int code = run_shell(text, sizeof text,
                         "%s --root %s --scratch %s --out %s --no-data --no-drawing --only gap "
                         "--only predicted --only fasttree_fig2 2>&1",
                         drawer_quoted(), root, root, out);
    ck_assert_int_eq(code, EXIT_FAILED);
    for (int v = 0; v < NOT_POSSIBLE; v++)
        ck_assert_msg(!strstr(text, verdict_names[v]) && !strstr(text, "nan"), "%s", text);
}

TEST(a_broken_file_stops_only_its_figure)
{
    if (cannot_draw())
        return;
    char *path = path_of("data/deft_chunks"), *text;
    write_file(path, "# rows: 3\nhalf,a\nrow,");
    int code = draw(out, "--only deft_fig15 --only deft_fig13", &text);
    ck_assert_msg(code == EXIT_FAILED, "exit code %d: %s", code, text);
    ck_assert_msg(strstr(text, "deft_fig15 ") && strstr(text, "data/deft_chunks:3: ends inside of a line"),
                  "%s", text);
    FREED char *drawn = xasprintf("%s/drawn/deft_fig13.svg", out),
               *not_drawn = xasprintf("%s/drawn/deft_fig15.svg", out);
    ck_assert_msg(access(drawn, R_OK) == 0, "deft_fig13 is not drawn: %s", text);
    ck_assert(access(not_drawn, R_OK) != 0);
    free(path);
    free(text);
}
