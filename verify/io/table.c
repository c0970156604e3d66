#include "verify/io/table.h"
#include "ref/json_text.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is behind the first name of a list "A,B,..": NULL if nothing is. */
static const char *next_name(const char *list)
{
    const char *comma = strchr(list, ',');
    return comma ? comma + 1 : NULL;
}

/* Is that the first name of a list? */
static bool is_first_name(const char *list, const char *column)
{
    size_t n = strlen(column);
    return strncmp(list, column, n) == 0 && (!list[n] || list[n] == ',');
}

bool table_knows(const char *const *column, const char *list, struct err *e)
{
    for (const char *name = list; name; name = next_name(name)) {
        const char *const *c = column;
        while (*c && !is_first_name(name, *c))
            c++;
        if (*c)
            continue;
        char all[sizeof e->msg] = "";
        for (c = column; *c; c++)
            listing_add(all, sizeof all, *c);
        return err_set(e, "no column '%.*s' (expected some of %s)",
                       (int)min_i64(40, (int64_t)strcspn(name, ",")), name, all);
    }
    return true;
}

static bool is_printed(const struct printer *t)
{
    for (const char *name = t->only; name; name = next_name(name))
        if (is_first_name(name, t->column[t->at]))
            return true;
    return !t->only;
}

static void pad(struct printer *t, const char *s, bool right)
{
    int32_t w = t->width[t->at];
    fprintf(t->f, right ? "%s%*s" : "%s%-*s", t->behind ? "  " : "", (int)w, s);
}

/* What comes before a cell; the key of a JSON member among it. */
static void lead(struct printer *t)
{
    CK(t->column[t->at]);
    if (t->style == STYLE_JSON) {
        fputs(t->behind ? ", " : t->rows ? ",\n  {" : "\n  {", t->f);
        print_json_text(t->f, t->column[t->at]);
        fputs(": ", t->f);
    } else if (t->behind && !(t->style == STYLE_TEXT && t->aligned)) {
        fputc(t->style == STYLE_CSV ? ',' : '\t', t->f);
    }
}

/* The header line, with the first row and not before: input that turns out bad leaves nothing written. */
static void open_table(struct printer *t)
{
    t->open = true;
    if (t->style == STYLE_JSON) {
        fputs("[", t->f);
        return;
    }
    if (t->style == STYLE_CSV && t->notes)
        fputs(t->notes, t->f);
    for (t->at = 0; t->column[t->at]; t->at++) {
        if (!is_printed(t))
            continue;
        lead(t);
        if (t->style == STYLE_TEXT && t->aligned)
            pad(t, t->column[t->at], t->at > 1);
        else
            fputs(t->column[t->at], t->f);
        t->behind = true;
    }
    fputc('\n', t->f);
    t->at = 0;
    t->behind = false;
}

static void print_cell(struct printer *t, const char *s, bool number)
{
    char *csv = t->style == STYLE_CSV ? text_csv(s) : NULL;
    lead(t);
    if (t->style == STYLE_JSON && !number)
        print_json_text(t->f, s);
    else if (t->style == STYLE_TEXT && t->aligned)
        pad(t, s, number);
    else
        fputs(csv ? csv : s, t->f);
    free(csv);
    t->behind = true;
}

static void put(struct printer *t, const char *s, bool number)
{
    if (!t->open)
        open_table(t);
    if (is_printed(t))
        print_cell(t, s, number);
    t->at++;
    if (t->column[t->at]) /* the row goes on */
        return;
    fputs(t->style == STYLE_JSON ? "}" : "\n", t->f);
    t->at = 0;
    t->behind = false;
    t->rows++;
}

void table_text(struct printer *t, const char *s)
{
    put(t, s, false);
}

void table_i64(struct printer *t, int64_t x)
{
    char s[32];
    snprintf(s, sizeof s, "%" PRId64, x);
    put(t, s, true);
}

/* JSON has no infinity: the largest number, for null would pass for what nobody measured. */
void table_measured(struct printer *t, double x, int digits)
{
    char s[64];
    bool json = t->style == STYLE_JSON;
    snprintf(s, sizeof s, "%.*g", digits, x);
    put(t,
        json && isnan(x)   ? "null"
        : json && isinf(x) ? x > 0 ? "1.7976931348623157e308" : "-1.7976931348623157e308"
                           : s,
        true);
}

void table_f64(struct printer *t, double x, int digits)
{
    table_measured(t, x, t->style == STYLE_TEXT ? digits : 17);
}

void table_bytes(struct printer *t, int64_t bytes)
{
    if (t->style != STYLE_TEXT || !t->aligned) {
        table_i64(t, bytes);
        return;
    }
    char s[64];
    snprintf(s, sizeof s, "%.2f", (double)bytes / (1 << 20));
    put(t, s, true);
}

void table_none(struct printer *t)
{
    put(t, t->style == STYLE_TEXT ? "-" : t->style == STYLE_JSON ? "null" : "", true);
}

void table_i64_if(struct printer *t, bool there, int64_t x)
{
    there ? table_i64(t, x) : table_none(t);
}

void table_f64_if(struct printer *t, bool there, double x, int digits)
{
    there ? table_f64(t, x, digits) : table_none(t);
}

void table_number(struct printer *t, double x, int digits)
{
    table_f64_if(t, !isnan(x), x, digits);
}

void table_measured_if(struct printer *t, bool there, double x, int digits)
{
    there ? table_measured(t, x, digits) : table_none(t);
}

void table_bytes_if(struct printer *t, bool there, int64_t bytes)
{
    there ? table_bytes(t, bytes) : table_none(t);
}

void table_end(struct printer *t)
{
    CK(t->at == 0);
    if (!t->open)
        open_table(t);
    if (t->style == STYLE_JSON)
        fputs(t->rows ? "\n]\n" : "]\n", t->f);
}
