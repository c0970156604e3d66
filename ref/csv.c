#include "ref/csv.h"

#include "ref/decimal.h"
#include "ref/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------- */

bool csv_error(struct err *e, const char *name, int32_t line, const char *fmt, ...)
{
    char msg[2048]; /* err_set shortens in the middle, where no sentence ends */
    va_list args;
    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    for (char *p = msg; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    return err_set(e, "%s:%d: %s", name, (int)line, msg);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

char *csv_field(char **rest, struct err *e)
{
    char *field = *rest, *from = field, *to = field;
    bool quoted = *from == '"';
    if (quoted)
        for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
    else
        to = from += strcspn(from, ",\"");
    if (quoted && !*from) {
        err_set(e, "a quoted field does not end (expected \" before the end of the line)");
        return NULL;
    }
    from += quoted;
    if (*from && *from != ',') {
        err_set(e, "'%.20s' after %s (expected a comma)", from,
                quoted ? "a quoted field" : "an unquoted field");
        return NULL;
    }
    *rest = *from ? from + 1 : NULL;
    *to = 0;
    return field;
}

/* What git leaves where two versions of a line meet. */
static bool is_conflict(const char *text)
{
    static const char *const marker[] = {"<<<<<<<", "|||||||", "=======", ">>>>>>>"};
    for (size_t i = 0; i < sizeof marker / sizeof marker[0]; i++)
        if (strncmp(text, marker[i], 7) == 0 && (!text[7] || text[7] == ' '))
            return true;
    return false;
}

static bool add_line(struct csv *c, char *text, int32_t line, struct err *e)
{
    struct err why = {0};
    if (is_conflict(text))
        return csv_error(e, c->name, line, "'%.30s' marks a conflict (expected rows of one version)", text);
    int64_t n = c->start ? c->start[c->n_rows] : 0;
    while (text) {
        char *field = csv_field(&text, &why);
        if (!field)
            return csv_error(e, c->name, line, "%s", why.msg);
        c->cell = xgrow(c->cell, &c->cap_cell, n + 1, sizeof *c->cell);
        c->cell[n++] = field;
    }
    if (!c->column) { /* the heading */
        c->n_columns = (int32_t)n;
        c->column = xcalloc((size_t)n, sizeof *c->column);
        memcpy(c->column, c->cell, (size_t)n * sizeof *c->cell);
        for (int32_t i = 0; i < c->n_columns; i++)
            if (csv_find(c, c->column[i]) != i)
                return csv_error(e, c->name, line, "column '%.40s' occurs twice (expected different names)",
                                 c->column[i]);
        n = 0;
    } else {
        int64_t cells = n - c->start[c->n_rows];
        if (cells > c->n_columns)
            return csv_error(e, c->name, line, "%" PRId64 " fields (expected at most %d, as in the heading)",
                             cells, (int)c->n_columns);
        c->line = xgrow(c->line, &c->cap_line, c->n_rows + 1, sizeof *c->line);
        c->line[c->n_rows++] = line;
    }
    c->start = xgrow(c->start, &c->cap_start, c->n_rows + 1, sizeof *c->start);
    c->start[c->n_rows] = n;
    return true;
}

static void add_note(struct csv *c, char *text)
{
    c->note = xgrow(c->note, &c->cap_note, c->n_notes + 1, sizeof *c->note);
    c->note[c->n_notes++] = text + strspn(text, "# ");
}

bool csv_parse(const char *text, size_t size, const char *name, struct csv *out, struct err *e)
{
    *out = (struct csv){.name = xstrdup(name), .text = xmalloc(size + 1)};
    memcpy(out->text, text, size);
    out->text[size] = 0;
    out->cut = size == 0 || text[size - 1] != '\n';
    int32_t line = 0;
    bool good = !memchr(text, 0, size) ||
                csv_error(e, name, 1, "not text, it has a zero byte (expected comma-separated values)");
    for (char *rest = out->text, *p; good && (p = strsep(&rest, "\n"));) {
        if (!rest && !p[0]) /* after the last line */
            break;
        line++;
        size_t n = strlen(p);
        if (n > 0 && p[n - 1] == '\r')
            p[--n] = 0;
        if (n == 0)
            out->empty_line = out->empty_line ? out->empty_line : line;
        else if (p[0] == '#')
            add_note(out, p);
        else
            good = add_line(out, p, line, e);
    }
    if (good && out->n_rows == 0)
        good =
            csv_error(e, name, (int32_t)max_i64(line, 1), "no rows (expected a heading and rows of values)");
    out->n_lines = line;
    if (!good)
        csv_clear(out);
    return good;
}

bool csv_read(const char *path, struct csv *out, struct err *e)
{
    *out = (struct csv){0};
    size_t size;
    char *text = file_slurp(path, CSV_MAX_BYTES, &size, e);
    bool good = text && csv_parse(text, size, path, out, e);
    free(text);
    return good;
}

void csv_clear(struct csv *c)
{
    free(c->name);
    free(c->column);
    free(c->cell);
    free(c->start);
    free(c->line);
    free(c->note);
    free(c->text);
    *c = (struct csv){0};
}

/* The row has as many fields as the heading. */
static bool check_row(const struct csv *c, int64_t row, struct err *e)
{
    int64_t cells = c->start[row + 1] - c->start[row];
    return cells == c->n_columns ||
           csv_error(e, c->name, c->line[row], "%" PRId64 " fields (expected %d, as in the heading)", cells,
                     (int)c->n_columns);
}

bool csv_whole(const struct csv *c, struct err *e)
{
    if (c->cut)
        return csv_error(e, c->name, c->n_lines, "ends inside of a line (expected a whole file)");
    if (c->empty_line)
        return csv_error(e, c->name, c->empty_line, "empty (expected a row)");
    for (int64_t i = 0; i < c->n_rows; i++)
        if (!check_row(c, i, e))
            return false;
    const char *rows = csv_note(c, "rows");
    int64_t promised = rows ? strtoll(rows, NULL, 10) : -1;
    if (promised >= 0 && c->n_rows != promised)
        return csv_error(e, c->name, c->n_lines,
                         "%" PRId64 " rows (expected %" PRId64 ", as its `# rows:` says)", c->n_rows,
                         promised);
    return true;
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; n > 0 && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

bool csv_words(const struct csv *c, const char *column, const char *words, struct err *e)
{
    int32_t at = csv_find(c, column);
    for (int64_t i = 0; i < c->n_rows && at >= 0; i++) {
        const char *cell = csv_cell(c, i, at, e);
        if (!cell)
            return false;
        if (!has_word(words, cell) && strcmp(cell, column) != 0)
            return csv_error(e, c->name, c->line[i], "%s is '%.40s' (expected one of %s)", column, cell,
                             words);
    }
    return true;
}

/* ---- asking ------------------------------------------------------------------------------------------- */

int32_t csv_find(const struct csv *c, const char *column)
{
    for (int32_t i = 0; i < c->n_columns; i++)
        if (strcmp(c->column[i], column) == 0)
            return i;
    return -1;
}

int32_t csv_column(const struct csv *c, const char *column, struct err *e)
{
    int32_t at = csv_find(c, column);
    if (at >= 0)
        return at;
    char list[300] = "";
    for (int32_t i = 0; i < c->n_columns; i++)
        listing_add(list, sizeof list, c->column[i]);
    csv_error(e, c->name, 1, "no column '%.60s' (expected one of %s)", column, list);
    return -1;
}

const char *csv_note(const struct csv *c, const char *key)
{
    size_t n = strlen(key);
    for (int64_t i = 0; i < c->n_notes; i++)
        if (strncmp(c->note[i], key, n) == 0 && strncmp(c->note[i] + n, ": ", 2) == 0)
            return c->note[i] + n + 2;
    return NULL;
}

const char *csv_peek(const struct csv *c, int64_t row, int32_t column)
{
    return column < c->start[row + 1] - c->start[row] ? c->cell[c->start[row] + column] : "";
}

const char *csv_text(const struct csv *c, int64_t row, const char *column)
{
    int32_t at = csv_find(c, column);
    return at < 0 ? "" : csv_peek(c, row, at);
}

const char *csv_cell(const struct csv *c, int64_t row, int32_t column, struct err *e)
{
    return check_row(c, row, e) ? c->cell[c->start[row] + column] : NULL;
}

bool csv_f64(const struct csv *c, int64_t row, int32_t column, double *out, struct err *e)
{
    const char *s = csv_cell(c, row, column, e);
    if (!s)
        return false;
    return decimal_parse(s, out) ||
           csv_error(e, c->name, c->line[row], "%.40s is '%.40s' (expected a number)", c->column[column], s);
}

bool csv_i64(const struct csv *c, int64_t row, int32_t column, int64_t lo, int64_t hi, int64_t *out,
             struct err *e)
{
    const char *s = csv_cell(c, row, column, e);
    if (!s)
        return false;
    int64_t x;
    if (!decimal_i64(s, &x) || x < lo || x > hi)
        return csv_error(e, c->name, c->line[row],
                         "%.40s '%.60s' (expected a whole number from %" PRId64 " to %" PRId64 ")",
                         c->column[column], s, lo, hi);
    *out = x;
    return true;
}
