#include "verify/io/csv_read.h"

#include "ref/decimal.h"
#include "traces/formats/formats.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------- */

bool sheet_error(struct err *e, const char *name, int32_t line, const char *fmt, ...)
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

/* Cut the next field off *p, unquoted in place. *more: a comma follows. */
static char *next_field(char **p, bool *more, struct err *e, const char *name, int32_t line)
{
    char *field = *p, *from = field, *to = field;
    bool quoted = *from == '"';
    if (quoted)
        for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
    else
        to = from += strcspn(from, ",\"");
    if (quoted && !*from) {
        sheet_error(e, name, line, "a quoted field does not end (expected \" before the end of the line)");
        return NULL;
    }
    from += quoted;
    if (*from && *from != ',') {
        sheet_error(e, name, line, "'%.20s' after %s (expected a comma)", from,
                    quoted ? "a quoted field" : "an unquoted field");
        return NULL;
    }
    *more = *from == ',';
    *p = from + *more;
    *to = 0;
    return field;
}

static bool add_line(struct sheet *c, char *text, int32_t line, struct err *e)
{
    int64_t n = c->start ? c->start[c->n_rows] : 0;
    for (bool more = true; more;) {
        char *field = next_field(&text, &more, e, c->name, line);
        if (!field)
            return false;
        c->cell = xgrow(c->cell, &c->cap_cell, n + 1, sizeof *c->cell);
        c->cell[n++] = field;
    }
    if (!c->column) { /* the header */
        c->n_columns = (int32_t)n;
        c->column = xcalloc((size_t)n, sizeof *c->column);
        memcpy(c->column, c->cell, (size_t)n * sizeof *c->cell);
        for (int32_t i = 0; i < c->n_columns; i++)
            if (sheet_find(c, c->column[i]) != i)
                return sheet_error(e, c->name, line, "column '%.40s' occurs twice (expected different names)",
                                   c->column[i]);
        n = 0;
    } else {
        int64_t cells = n - c->start[c->n_rows];
        if (cells > c->n_columns)
            return sheet_error(e, c->name, line, "%" PRId64 " fields (expected at most %d, as in the header)",
                               cells, (int)c->n_columns);
        c->line = xgrow(c->line, &c->cap_line, c->n_rows + 1, sizeof *c->line);
        c->line[c->n_rows++] = line;
    }
    c->start = xgrow(c->start, &c->cap_start, c->n_rows + 1, sizeof *c->start);
    c->start[c->n_rows] = n;
    return true;
}

bool sheet_parse(const char *text, size_t size, const char *name, struct sheet *out, struct err *e)
{
    *out = (struct sheet){.name = xstrdup(name), .text = xmalloc(size + 1)};
    memcpy(out->text, text, size);
    out->text[size] = 0;
    int32_t line = 0;
    bool good = !memchr(text, 0, size) ||
                sheet_error(e, name, 1, "not text, it has a zero byte (expected comma-separated values)");
    for (char *rest = out->text, *p; good && (p = text_next(&rest, '\n'));) {
        if (!rest && !p[0]) /* after the last line */
            break;
        line++;
        size_t n = strlen(p);
        if (n > 0 && p[n - 1] == '\r')
            p[--n] = 0;
        if (n > 0 && p[0] != '#')
            good = add_line(out, p, line, e);
    }
    if (good && out->n_rows == 0)
        good = sheet_error(e, name, (int32_t)max_i64(line, 1),
                           "no rows (expected a header line and rows of values)");
    if (!good)
        sheet_clear(out);
    return good;
}

bool sheet_read(const char *path, struct sheet *out, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, SHEET_MAX_BYTES, &size, e);
    bool good = text && sheet_parse(text, size, path, out, e);
    free(text);
    return good;
}

void sheet_clear(struct sheet *c)
{
    free(c->name);
    free(c->column);
    free(c->cell);
    free(c->start);
    free(c->line);
    free(c->text);
    *c = (struct sheet){0};
}

/* ---- asking ------------------------------------------------------------------------------------------- */

int32_t sheet_find(const struct sheet *c, const char *column)
{
    for (int32_t i = 0; i < c->n_columns; i++)
        if (strcmp(c->column[i], column) == 0)
            return i;
    return -1;
}

int32_t sheet_column(const struct sheet *c, const char *column, struct err *e)
{
    int32_t at = sheet_find(c, column);
    if (at >= 0)
        return at;
    char list[300] = "";
    for (int32_t i = 0; i < c->n_columns; i++)
        listing_add(list, sizeof list, c->column[i]);
    sheet_error(e, c->name, 1, "no column '%.60s' (expected one of %s)", column, list);
    return -1;
}

const char *sheet_peek(const struct sheet *c, int64_t row, int32_t column)
{
    return column < c->start[row + 1] - c->start[row] ? c->cell[c->start[row] + column] : "";
}

const char *sheet_cell(const struct sheet *c, int64_t row, int32_t column, struct err *e)
{
    int64_t cells = c->start[row + 1] - c->start[row];
    if (cells == c->n_columns)
        return c->cell[c->start[row] + column];
    sheet_error(e, c->name, c->line[row], "%" PRId64 " fields (expected %d, as in the header)", cells,
                (int)c->n_columns);
    return NULL;
}

bool sheet_f64(const struct sheet *c, int64_t row, int32_t column, double *out, struct err *e)
{
    const char *s = sheet_cell(c, row, column, e);
    if (!s)
        return false;
    return decimal_parse(s, out) || sheet_error(e, c->name, c->line[row],
                                                "%.40s is '%.40s' (expected a number)", c->column[column], s);
}

bool sheet_i64(const struct sheet *c, int64_t row, int32_t column, int64_t lo, int64_t hi, int64_t *out,
               struct err *e)
{
    const char *s = sheet_cell(c, row, column, e);
    if (!s)
        return false;
    char *what = xasprintf("%s:%d: %.40s", c->name, c->line[row], c->column[column]);
    bool good = text_i64(s, what, lo, hi, out, e);
    free(what);
    return good;
}
