#include "paper-figs/why.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 40, MOST_NOTES = 4 }; /* that are named */

/* A number of a figure: ours of a point or, behind all points, of a check; where there is none, the paper's. */
static double value_of(const struct figure *f, int32_t i)
{
    int32_t k = i - f->n_points;
    double ours = k < 0 ? f->point[i].ours : k < f->n_checks ? f->check[k].ours : NAN;
    double paper = k < 0 ? f->point[i].paper : k < f->n_checks ? f->check[k].paper : NAN;
    return isnan(ours) ? paper : ours;
}

struct search {
    const struct figure *made;
    int32_t at;            /* which number */
    struct reading *found; /* in order */
    int64_t n_found, cap_found;
    bool more; /* than are named */
};

enum effect {
    NONE,
    MOVES,
    BREAKS
}; /* BREAKS: there are other points or checks, so it is no number but says which row is meant */

/* What becomes of the number when these become others. */
static enum effect effect_of(const struct search *s, const struct reading *r, int64_t n)
{
    struct watch w = {.lender = s->made, .nudged = r, .n_nudged = n};
    struct figure f;
    figure_make_watched(s->made->def, s->made->places, &f, &w);
    double before = value_of(s->made, s->at), now = value_of(&f, s->at);
    bool whole = !f.err.code && f.n_points == s->made->n_points && f.n_checks == s->made->n_checks;
    bool same = now == before || (isnan(now) && isnan(before));
    figure_clear(&f);
    free(w.read);
    return !whole ? BREAKS : same ? NONE : MOVES;
}

/* Takes away all readings of columns that say which row is meant: one of their cells is enough to see that. Returns how many are left. */
static int64_t drop_keys(const struct search *s, struct reading *r, int64_t n)
{
    enum { MOST_COLUMNS = 256 };
    struct reading seen[MOST_COLUMNS];
    bool key[MOST_COLUMNS];
    int n_seen = 0;
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++) {
        int k = 0;
        while (k < n_seen && (seen[k].table != r[i].table || seen[k].column != r[i].column))
            k++;
        if (k == MOST_COLUMNS)
            continue;
        if (k == n_seen) {
            seen[n_seen] = r[i];
            key[n_seen++] = effect_of(s, &r[i], 1) == BREAKS;
        }
        if (!key[k])
            r[left++] = r[i];
    }
    return left;
}

/* Halves what moves the number until it is one cell. */
static void search(struct search *s, const struct reading *r, int64_t n)
{
    if (s->n_found == MOST_ROWS) {
        s->more = true;
        return;
    }
    if (n == 0 || effect_of(s, r, n) == NONE)
        return;
    if (n == 1 && effect_of(s, r, 1) == BREAKS)
        return;
    if (n == 1) {
        s->found = xgrow(s->found, &s->cap_found, s->n_found + 1, sizeof *s->found);
        s->found[s->n_found++] = *r;
        return;
    }
    search(s, r, n / 2);
    search(s, r + n / 2, n - n / 2);
}

/* ---- where files are from ------------------------------------------------------------------------------ */

/* "a1b2c3d, 2026-11-26": the last commit that changed the file. */
static void print_commit(const char *path)
{
    char *command = xasprintf("git log -1 --format='%%h, %%cs' -- '%s' 2>/dev/null", path), line[80] = "";
    FILE *f = strchr(path, '\'') ? NULL : popen(command, "r");
    bool said = f && fgets(line, sizeof line, f);
    if (f)
        pclose(f);
    line[strcspn(line, "\n")] = 0;
    printf("    commit    %s\n",
           said ? line : "none: every run makes this file anew, by the program of the sources that are here");
    free(command);
}

static void print_file(const struct figure *f, const struct csv *t)
{
    const struct data_def *d = strncmp(t->name, "data/", 5) == 0 ? data_find(t->name + 5) : NULL;
    char *path = d ? data_path(d, f->places) : xasprintf("%s/%s.csv", f->places->root, t->name);
    printf("  %s\n", path);
    for (int i = 0; d && d->command[i]; i++)
        printf("    command   treeattn %s --csv\n", d->command[i]);
    for (int64_t i = 0; i < t->n_notes && i < MOST_NOTES && !d;
         i++) /* command, device and commit come first */
        printf("    says      %.150s%s\n", t->note[i], strlen(t->note[i]) > 150 ? " .." : "");
    print_commit(path);
    free(path);
}

static void print_row(const struct csv *t, int64_t row)
{
    printf("    line %-5d", (int)t->line[row]);
    int shown = 0;
    for (int32_t c = 0; c < t->n_columns && shown < 12; c++)
        if (csv_peek(t, row, c)[0])
            printf("%s%s=%.60s", shown++ ? " " : "", t->column[c], csv_peek(t, row, c));
    printf("%s\n", shown == 12 ? " .." : "");
}

static void print_chain(const struct search *s)
{
    const struct reading *before = NULL;
    for (const struct reading *r = s->found; r < s->found + s->n_found; before = r++) {
        const struct csv *t = s->made->table[r->table];
        if (!before || before->table != r->table)
            print_file(s->made, t);
        if (!before || before->table != r->table || before->row != r->row)
            print_row(t, r->row);
        printf("      %s = %s\n", t->column[r->column], csv_peek(t, r->row, r->column));
    }
    if (s->n_found == 0)
        printf("  %s\n", isnan(value_of(s->made, s->at))
                             ? "it is no number: what it says of others is in their rows"
                             : "no cell of any result file: it is a constant");
    if (s->more)
        printf("  and others; the first %d cells are named\n", MOST_ROWS);
}

/* ---- which number -------------------------------------------------------------------------------------- */

/* -1: none is called so. */
static int32_t find_cell(const struct figure *f, const char *cell)
{
    char *end;
    long row = strtol(cell, &end, 10);
    if (end > cell && !*end)
        return row >= 1 && row <= f->n_points + f->n_checks ? (int32_t)row - 1 : -1;
    for (int32_t i = 0; i < f->n_points; i++) {
        char *name = xasprintf("%s@%s", f->point[i].series, f->point[i].at);
        bool same = strcmp(name, cell) == 0;
        free(name);
        if (same)
            return i;
    }
    return -1;
}

static void print_cell(const struct figure *f, int32_t i)
{
    char ours[32], paper[32];
    bool point = i < f->n_points;
    const struct point *p = &f->point[point ? i : 0];
    const struct check *c = &f->check[point ? 0 : i - f->n_points];
    const char *unit = point ? "" : c->unit ? c->unit : "";
    number_text(ours, sizeof ours, point ? p->ours : c->ours, unit);
    number_text(paper, sizeof paper, point ? p->paper : c->paper, unit);
    printf("%s, %s: row %d of drawn/%s.csv\n", f->def->paper, f->def->place, (int)i + 1, f->def->id);
    if (point)
        printf("%s: %s@%s: %s", f->panel[p->panel].name, p->series, p->at, ours);
    else
        printf("%s: %s, %s", c->text, ours, grade_name(f->def, c));
    printf("%s%s (%s%s%s)\n", strcmp(paper, "-") ? ", the paper's " : "", strcmp(paper, "-") ? paper : "",
           source_names[f->def->source], *f->def->machine ? " on " : "", f->def->machine);
}

int why(const char *id, const char *cell, const struct places *places)
{
    const struct figure_def *def = figure_defs;
    while (def < figure_defs + n_figure_defs && strcmp(def->id, id) != 0)
        def++;
    if (def == figure_defs + n_figure_defs) {
        fprintf(stderr, "figures: --why '%s' (expected an id of figures.def)\n", id);
        return EXIT_BAD_INPUT;
    }
    struct watch w = {0};
    struct figure f;
    figure_make_watched(def, places, &f, &w);
    struct search s = {.made = &f, .at = find_cell(&f, cell)};
    int code = EXIT_GOOD;
    if (f.err.code) {
        fprintf(stderr, "figures: %s\n", f.err.msg);
        code = EXIT_FAILED;
    } else if (s.at < 0) {
        fprintf(stderr,
                "figures: %s has no cell '%s' (expected a row of drawn/%s.csv, 1 to %d, or SERIES@AT)\n", id,
                cell, id, (int)(f.n_points + f.n_checks));
        code = EXIT_BAD_INPUT;
    } else {
        int64_t n = 0;
        qsort(w.read, (size_t)w.n_read, sizeof *w.read, reading_compare);
        for (int64_t i = 0; i < w.n_read; i++)
            if (n == 0 || reading_compare(&w.read[i], &w.read[n - 1]) != 0)
                w.read[n++] = w.read[i];
        search(&s, w.read, drop_keys(&s, w.read, n));
        print_cell(&f, s.at);
        print_chain(&s);
    }
    free(s.found);
    free(w.read);
    figure_clear(&f);
    return code;
}
