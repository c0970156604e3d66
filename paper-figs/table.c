#include "paper-figs/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool slurp(const char *path, const char *name, char **text, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_missing(e, "%s: %s (expected a result file at %s)", name, strerror(errno), path);
    size_t n = 0, cap = 1 << 16;
    *text = xmalloc(cap);
    for (size_t got; (got = fread(*text + n, 1, cap - n - 1, f)) > 0;) {
        n += got;
        if (cap - n < 2)
            *text = xrealloc(*text, cap *= 2, 1);
    }
    bool good = !ferror(f);
    fclose(f);
    (*text)[n] = 0;
    if (!good || strlen(*text) != n)
        return err_set(e, "%s: cannot be read, or has a zero byte (expected text)", name);
    if (n == 0 || (*text)[n - 1] != '\n')
        return err_set(e, "%s: ends inside of a line (expected a whole file)", name);
    return true;
}

/* Cut the next field off *p, unquoted in place; false where quotes do not match. *more: a comma follows. */
static bool next_field(char **p, char **field, bool *more)
{
    char *from = *p, *to;
    *field = to = from;
    if (*from == '"') {
        for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
        if (!*from++)
            return false;
    } else
        to = from += strcspn(from, ",\"");
    if (*from && *from != ',')
        return false;
    *more = *from == ',';
    *p = from + *more;
    *to = 0;
    return true;
}

static bool add_line(struct table *t, char *text, int line, struct err *e)
{
    int64_t at = t->column ? t->n * t->n_columns : 0, n = 0;
    for (bool more = true; more; n++) {
        t->cell = xgrow(t->cell, &t->cap, at + n + 1, sizeof *t->cell);
        if (!next_field(&text, &t->cell[at + n], &more))
            return err_set(e, "%s:%d: a field is cut off (expected quotes in pairs)", t->name, line);
    }
    if (!t->column) {
        t->n_columns = n;
        t->column = xcalloc((size_t)n, sizeof *t->column);
        memcpy(t->column, t->cell, (size_t)n * sizeof *t->column);
    } else if (n != t->n_columns)
        return err_set(e, "%s:%d: %" PRId64 " fields (expected %" PRId64 ", as in the heading)", t->name,
                       line, n, t->n_columns);
    else
        t->n++;
    return true;
}

bool table_read(const char *path, const char *name, struct table *t, struct err *e)
{
    *t = (struct table){.name = xstrdup(name)};
    if (!slurp(path, name, &t->text, e))
        return false;
    int64_t promised = -1;
    int line = 1;
    for (char *p = t->text, *end; (end = strchr(p, '\n')); p = end + 1, line++) {
        *end = 0;
        if (*p == '#') {
            if (strncmp(p, "# rows: ", 8) == 0)
                promised = strtoll(p + 8, NULL, 10);
            t->comment = xgrow(t->comment, &t->cap_comments, t->n_comments + 1, sizeof *t->comment);
            t->comment[t->n_comments++] = p + strspn(p, "# ");
        } else if (!add_line(t, p, line, e))
            return false;
    }
    if (!t->column)
        return err_set(e, "%s: no heading (expected the names of columns)", name);
    if (promised >= 0 && t->n != promised)
        return err_set(e, "%s: %" PRId64 " rows (expected %" PRId64 ", as its `# rows:` says)", name, t->n,
                       promised);
    return true;
}

void table_clear(struct table *t)
{
    free(t->name);
    free(t->text);
    free(t->column);
    free(t->cell);
    free(t->comment);
    *t = (struct table){0};
}

int64_t table_column(const struct table *t, const char *column, struct err *e)
{
    for (int64_t i = 0; i < t->n_columns; i++)
        if (strcmp(t->column[i], column) == 0)
            return i;
    err_set(e, "%s: no column '%s' (the heading has %s, ..)", t->name, column, t->column[0]);
    return -1;
}

const char *table_comment(const struct table *t, const char *key)
{
    size_t n = strlen(key);
    for (int64_t i = 0; i < t->n_comments; i++)
        if (strncmp(t->comment[i], key, n) == 0 && strncmp(t->comment[i] + n, ": ", 2) == 0)
            return t->comment[i] + n + 2;
    return NULL;
}
