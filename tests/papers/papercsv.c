#include "tests/papers/papercsv.h"
#include "ref/file.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct paper papers[] = {
    {"deft", "DeFT (ICLR 2025)", "003_6c41e22613c6bc83.txt", false},
    {"fasttree", "FastTree (MLSys 2025)", "000_8d7cbf6ff34e27b7.txt", true},
    {"pat", "PAT (ASPLOS 2026)", "002_f91ccb154cad2fde.txt", true},
    {"hydragen", "Hydragen (2024)", "001_af695fe64bc51025.txt", true},
};
const int32_t n_papers = sizeof papers / sizeof papers[0];

const struct paper *paper_of(const char *stem)
{
    for (int32_t i = 0; i < n_papers; i++) {
        size_t n = strlen(papers[i].stem);
        if (strncmp(stem, papers[i].stem, n) == 0 && stem[n] == '-')
            return &papers[i];
    }
    return NULL;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static bool field_ok(const char *s)
{
    if (*s == ' ' || (*s && s[strlen(s) - 1] == ' '))
        return false;
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == '"' || *s == 127)
            return false;
    return true;
}

/* Whether note i is "KEY: VALUE" where KEY is the next of *keys, which moves on. */
static bool next_key(struct papercsv *s, int64_t i, const char **keys)
{
    size_t n = strcspn(*keys, ",");
    char *note = i < s->csv.n_notes ? s->csv.note[i] : "";
    if (strncmp(note, *keys, n) != 0 || strncmp(note + n, ": ", 2) != 0)
        return false;
    s->key = xgrow(s->key, &s->cap_key, i + 1, sizeof *s->key);
    s->key[i] = note + n + 2;
    *keys += n + ((*keys)[n] == ',');
    return *s->key[i] && field_ok(s->key[i]);
}

/* The columns as a heading says them. */
static bool same_columns(const struct csv *c, const char *columns)
{
    char *copy = xstrdup(columns), *rest = copy;
    bool same = true;
    for (int32_t i = 0; i < c->n_columns && same; i++)
        same = rest && strcmp(strsep(&rest, ","), c->column[i]) == 0;
    free(copy);
    return same && !rest;
}

bool papercsv_read(struct papercsv *s, const char *path, const char *keys, const char *columns, struct err *e)
{
    *s = (struct papercsv){0};
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    s->stem = xstrdup(base);
    if (strrchr(s->stem, '.'))
        *strrchr(s->stem, '.') = 0;
    size_t size;
    char *text = file_slurp(path, 1 << 20, &size, e);
    bool good = text &&
                (!strpbrk(text, "\"\r") ||
                 err_set(e, "%s: quotes or carriage returns (expected printable text)", path)) &&
                csv_parse(text, size, path, &s->csv, e) && csv_whole(&s->csv, e);
    free(text);
    const struct csv *c = &s->csv;
    s->n = c->n_rows;
    s->n_columns = c->n_columns;
    for (int64_t i = 0; good && (*keys || i < c->n_notes); i++)
        good = (*keys && next_key(s, i, &keys)) ||
               err_set(e, "%s: '# %s' (expected '# KEY: ..' with the next key of %s)", path,
                       i < c->n_notes ? c->note[i] : "", keys);
    if (good && !(same_columns(c, columns) && c->line[0] == c->n_notes + 2))
        good = err_set(e, "%s: another heading behind the notes (expected %s, then rows)", path, columns);
    for (int64_t k = 0; good && k < c->n_rows * c->n_columns; k++)
        good = field_ok(c->cell[k]) ||
               err_set(e, "%s:%d: '%s' (expected printable text without blanks at its ends)", path,
                       (int)c->line[k / c->n_columns], c->cell[k]);
    return good;
}

void papercsv_free(struct papercsv *s)
{
    free(s->stem);
    free(s->key);
    csv_clear(&s->csv);
}

static bool one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(s, *list) == 0)
            return true;
    return false;
}

/* ---- rules ------------------------------------------------------------------------------------------ */

/* Units, and what they measure: a metric of a file keeps to one dimension. */
static const struct {
    const char *name, *dimension;
} units[] = {
    {"x", "times"},
    {"%", "share"},
    {"s", "time"},
    {"us", "time"},
    {"ns", "time"},
    {"TB", "bytes"},
    {"GB", "bytes"},
    {"MB", "bytes"},
    {"KB", "bytes"},
    {"KB/SM", "bytes"},
    {"TB/s", "bandwidth"},
    {"tok/s", "throughput"},
    {"Ktok/s", "throughput"},
    {"tokens", "tokens"},
    {"registers", "registers"},
    {"ratio", "ratio"},
    {"ppl", "perplexity"},
    {"1", "number"},
    {"sum(N_i)", "number"},
    {"N_tree", "number"},
    {"l_n*N_tree", "number"},
    {"l_n*N_tree/64", "number"},
    {"d_head*sum(N_i)", "number"},
    {"d_head*N_tree", "number"},
    {"d_head*N_tree*l_n", "number"},
};

static const char *dimension(const char *unit)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].dimension;
    return NULL;
}

static const char *const hows[] = {"is", "about", "below", "above", "from", "up-to", "average", NULL};
static const char *const markers[] = {"oom", "none", NULL};

char mark_of(const char *unit)
{
    return strcmp(unit, "x") == 0        ? 'x'
           : strcmp(unit, "%") == 0      ? '%'
           : strcmp(unit, "Ktok/s") == 0 ? 'k'
                                         : 0;
}

bool is_marker(const char *value)
{
    return one_of(value, markers);
}

const char *past_number(const char *s)
{
    const char *p = s + strspn(s, "0123456789");
    if (p > s && *p == '.' && isdigit((unsigned char)p[1]))
        p += 1 + strspn(p + 1, "0123456789");
    return p;
}

/* A decimal number, perhaps with an exponent (eN, e-N), that a double can hold. */
static bool number_ok(const char *s)
{
    const char *p = past_number(s);
    if (p > s && *p == 'e') {
        p += p[1] == '-' ? 2 : 1;
        size_t n = strspn(p, "0123456789");
        p = n ? p + n : "?";
    }
    return p > s && *p == 0 && strlen(s) < 20 && isfinite(strtod(s, NULL));
}

static bool words_ok(const char *s, const char *allowed)
{
    return *s && s[strspn(s, allowed)] == 0;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789-"

static bool claim_check(const char *whose, const char *how, const char *value, const char *unit,
                        struct err *e)
{
    if (!number_ok(value) && !is_marker(value))
        return err_set(e, "%s: value '%s' (expected a number, oom or none)", whose, value);
    if (!one_of(how, hows))
        return err_set(e, "%s: how '%s' is not in the list", whose, how);
    return dimension(unit) || err_set(e, "%s: unit '%s' is not in the list", whose, unit);
}

static bool table_row_check(const struct papercsv *s, int64_t i, const char *whose, struct err *e)
{
    char **f = papercsv_row(s, i);
    if (strcmp(f[T_TABLE], s->stem) != 0)
        return err_set(e, "%s: table is '%s'", whose, f[T_TABLE]);
    if (!words_ok(f[T_METRIC], LOWER) || !words_ok(f[T_SERIES], LOWER "+") ||
        (*f[T_OVER] && !words_ok(f[T_OVER], LOWER "+")))
        return err_set(e, "%s: metric, series and over are words of small letters", whose);
    if (!*f[T_AT] || !*f[T_WHERE])
        return err_set(e, "%s: at or where is empty", whose);
    if (!claim_check(whose, f[T_HOW], f[T_VALUE], f[T_UNIT], e))
        return false;
    if (*f[T_SPREAD] && (!number_ok(f[T_SPREAD]) || is_marker(f[T_VALUE])))
        return err_set(e, "%s: spread '%s' (expected a number, beside a number)", whose, f[T_SPREAD]);
    if (is_marker(f[T_VALUE]) && !*f[T_NOTE])
        return err_set(e, "%s: a marker without a note", whose);
    if (strcmp(f[T_SERIES], f[T_OVER]) == 0)
        return err_set(e, "%s: %s compared with itself", whose, f[T_SERIES]);
    for (int64_t j = 0; j < i; j++) {
        char **g = papercsv_row(s, j);
        bool equal = true;
        for (int c = T_METRIC; c <= T_HOW; c++)
            equal &= strcmp(f[c], g[c]) == 0;
        if (equal)
            return err_set(e, "%s: the key of row %" PRId64 " again", whose, j + 1);
        if (strcmp(f[T_METRIC], g[T_METRIC]) == 0 && strcmp(dimension(f[T_UNIT]), dimension(g[T_UNIT])) != 0)
            return err_set(e, "%s: %s in %s, in row %" PRId64 " in %s", whose, f[T_METRIC], f[T_UNIT], j + 1,
                           g[T_UNIT]);
    }
    return true;
}

/* Whether the units of the rows, each once, in order, are what `# unit:` says. */
static bool units_check(const struct papercsv *s, struct err *e)
{
    const char *said = s->key[K_UNIT];
    for (int64_t i = 0; i < s->n; i++) {
        bool seen = false;
        for (int64_t j = 0; j < i; j++)
            seen |= strcmp(papercsv_row(s, j)[T_UNIT], papercsv_row(s, i)[T_UNIT]) == 0;
        if (seen)
            continue;
        size_t n = strlen(papercsv_row(s, i)[T_UNIT]);
        if (strncmp(said, papercsv_row(s, i)[T_UNIT], n) != 0 || (said[n] && strncmp(said + n, "; ", 2) != 0))
            return err_set(e, "%s: %s is not the next unit of '%s'", s->stem, papercsv_row(s, i)[T_UNIT],
                           s->key[K_UNIT]);
        said += n + (said[n] ? 2 : 0);
    }
    return !*said || err_set(e, "%s: no row in '%s'", s->stem, said);
}

bool table_check(const struct papercsv *s, struct err *e)
{
    const struct paper *p = paper_of(s->stem);
    if (!p || strcmp(p->title, s->key[K_PAPER]) != 0)
        return err_set(e, "%s: no paper begins its files so, or its title is not '%s'", s->stem,
                       s->key[K_PAPER]);
    char *stem = xasprintf("%s-%s%s", p->stem, s->key[K_PLACE][0] == 'T' ? "table" : "fig",
                           strrchr(s->key[K_PLACE], ' ') ? strrchr(s->key[K_PLACE], ' ') + 1 : "");
    bool same = strcmp(stem, s->stem) == 0;
    free(stem);
    if (!same)
        return err_set(e, "%s: its place is %s", s->stem, s->key[K_PLACE]);
    for (int64_t i = 0; i < s->n; i++) {
        char *whose = xasprintf("%s row %" PRId64, s->stem, i + 1);
        bool good = table_row_check(s, i, whose, e);
        free(whose);
        if (!good)
            return false;
    }
    return units_check(s, e);
}

bool headlines_check(const struct papercsv *s, struct err *e)
{
    for (int64_t i = 0; i < s->n; i++) {
        char **f = papercsv_row(s, i);
        if (!words_ok(f[H_ID], LOWER "+") || !paper_of(f[H_ID]) ||
            strcmp(paper_of(f[H_ID])->stem, f[H_PAPER]) != 0)
            return err_set(e, "headline '%s' is not one of paper '%s'", f[H_ID], f[H_PAPER]);
        if (!*f[H_CLAIM] || !*f[H_WHERE] || is_marker(f[H_VALUE]) ||
            !claim_check(f[H_ID], f[H_HOW], f[H_VALUE], f[H_UNIT], e))
            return err_set(e, "headline '%s' lacks a claim, a number or a place", f[H_ID]);
        for (int64_t j = 0; j < i; j++)
            if (strcmp(f[H_ID], papercsv_row(s, j)[H_ID]) == 0)
                return err_set(e, "headline '%s' stands twice", f[H_ID]);
    }
    return true;
}
