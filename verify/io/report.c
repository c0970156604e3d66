#include "verify/io/report.h"
#include "verify/io/crash.h"
#include "verify/io/text.h"
#include "ref/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files -------------------------------------------------------------------------------------------- */

/* Can a file be made there, under another name at first? */
static bool find_folder(const char *path, char **real, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xasprintf("%.*s", (int)(slash - path + 1), path) : xstrdup(".");
    *real = realpath(folder, NULL);
    bool good = *real && access(*real, W_OK | X_OK) == 0;
    if (!good)
        err_set(e, "%s: cannot be written: %m", path);
    free(folder);
    return good;
}

/* What a path leads to, links followed: the file that is to be replaced or made, or (*direct) a device or pipe that is
 * there and stays. The caller frees; NULL with *e set. */
static char *find_target(const char *path, bool *direct, struct err *e)
{
    struct stat st;
    char *folder = NULL, *target = NULL;
    bool there = stat(path, &st) == 0;
    *direct = there && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode));
    if (*direct)
        return xstrdup(path);
    if (there && !S_ISREG(st.st_mode))
        err_set(e, "%s: cannot be written: %s", path,
                S_ISDIR(st.st_mode) ? "it is a folder" : "it is no file");
    else if (there)
        target = realpath(path, NULL);
    else if (!path[0])
        err_set(e, "an output without a name (expected a file)");
    else if (lstat(path, &st) == 0)
        err_set(e, "%s: cannot be written: a link that leads nowhere", path);
    else if (find_folder(path, &folder, e))
        target = xasprintf("%s/%s", folder, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    if (!target)
        err_set(e, "%s: cannot be written: %m", path);
    free(folder);
    return target;
}

bool outfile_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

bool outfiles_check(const char *const *path, int32_t n, struct err *e)
{
    char **target = xcalloc((size_t)n, sizeof *target);
    bool good = true;
    for (int32_t i = 0; i < n && good; i++) {
        bool direct = false;
        char *folder = NULL;
        if (path[i] && !outfile_is_stdout(path[i]))
            good = (target[i] = find_target(path[i], &direct, e)) &&
                   (direct || find_folder(target[i], &folder, e));
        free(folder);
        for (int32_t k = 0; k < i && good && target[i] && !direct; k++)
            if (target[k] && strcmp(target[i], target[k]) == 0)
                good = err_set(e, "%s and %s: one file for two outputs (expected two)", path[k], path[i]);
    }
    for (int32_t i = 0; i < n; i++)
        free(target[i]);
    free(target);
    return good;
}

bool outfile_spares(const char *path, const char *read, struct err *e)
{
    struct stat a, b;
    if (!path || !read || stat(path, &a) != 0 || stat(read, &b) != 0 || !S_ISREG(a.st_mode) ||
        a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return true;
    return err_set(e, "%s: would be written over, and is read (expected another file)", path);
}

bool outfile_open(struct outfile *o, const char *path, struct err *e)
{
    *o = (struct outfile){.f = stdout};
    if (!path || outfile_is_stdout(path))
        return true;
    bool direct;
    *o = (struct outfile){.path = find_target(path, &direct, e)};
    if (o->path && direct) {
        o->f = fopen(o->path, "w");
    } else if (o->path) {
        o->tmp = xasprintf("%s.tmp.%ld", o->path, (long)getpid());
        o->f = fopen(o->tmp, "wx");
        if (o->f)
            crash_removes(o->tmp);
    }
    if (o->f)
        return true;
    err_set(e, "%s: cannot be written: %m", path);
    free(o->path);
    free(o->tmp);
    *o = (struct outfile){0};
    return false;
}

bool outfile_close(struct outfile *o, bool keep, struct err *e)
{
    if (!o->f)
        return true;
    bool good = fflush(o->f) == 0 && !ferror(o->f);
    if (o->path)
        good = fclose(o->f) == 0 && good;
    if (o->tmp && good && keep)
        good = rename(o->tmp, o->path) == 0;
    if (o->tmp && (!good || !keep))
        unlink(o->tmp);
    if (o->tmp)
        crash_spares(o->tmp);
    if (!good)
        err_set(e, "%s: not all of it could be written: %m", o->path ? o->path : "standard output");
    free(o->path);
    free(o->tmp);
    *o = (struct outfile){0};
    return good;
}

/* ---- tables ------------------------------------------------------------------------------------------- */

static void print_csv_text(FILE *f, const char *s)
{
    char *cell = text_csv(s);
    fputs(cell, f);
    free(cell);
}

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

static bool is_printed(const struct table *t)
{
    for (const char *name = t->only; name; name = next_name(name))
        if (is_first_name(name, t->column[t->at]))
            return true;
    return !t->only;
}

static void pad(struct table *t, const char *s, bool right)
{
    int32_t w = t->width[t->at];
    fprintf(t->f, right ? "%s%*s" : "%s%-*s", t->behind ? "  " : "", (int)w, s);
}

/* What comes before a cell; the key of a JSON member among it. */
static void lead(struct table *t)
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
static void open_table(struct table *t)
{
    t->open = true;
    if (t->style == STYLE_JSON) {
        fputs("[", t->f);
        return;
    }
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

/* After the last cell of a row. */
static void next_cell(struct table *t)
{
    t->at++;
    if (t->column[t->at])
        return;
    fputs(t->style == STYLE_JSON ? "}" : "\n", t->f);
    t->at = 0;
    t->behind = false;
    t->rows++;
}

static void print_cell(struct table *t, const char *s, bool number)
{
    lead(t);
    if (t->style == STYLE_JSON && !number)
        print_json_text(t->f, s);
    else if (t->style == STYLE_CSV)
        print_csv_text(t->f, s);
    else if (t->style == STYLE_TEXT && t->aligned)
        pad(t, s, number);
    else
        fputs(s, t->f);
    t->behind = true;
}

static void put(struct table *t, const char *s, bool number)
{
    if (!t->open)
        open_table(t);
    if (is_printed(t))
        print_cell(t, s, number);
    next_cell(t);
}

void table_text(struct table *t, const char *s)
{
    put(t, s, false);
}

void table_i64(struct table *t, int64_t x)
{
    char s[32];
    snprintf(s, sizeof s, "%" PRId64, x);
    put(t, s, true);
}

/* x as it was printed into s. JSON has no infinity: the largest number, for null would pass for what nobody measured. */
static void put_number(struct table *t, double x, const char *s)
{
    bool json = t->style == STYLE_JSON;
    put(t,
        json && isnan(x)   ? "null"
        : json && isinf(x) ? x > 0 ? "1.7976931348623157e308" : "-1.7976931348623157e308"
                           : s,
        true);
}

void table_f64(struct table *t, double x, int digits)
{
    char s[64];
    snprintf(s, sizeof s, "%.*g", t->style == STYLE_TEXT ? digits : 17, x);
    put_number(t, x, s);
}

void table_measured(struct table *t, double x, int digits)
{
    char s[64];
    snprintf(s, sizeof s, "%.*g", digits, x);
    put_number(t, x, s);
}

void table_bytes(struct table *t, int64_t bytes)
{
    if (t->style != STYLE_TEXT || !t->aligned) {
        table_i64(t, bytes);
        return;
    }
    char s[64];
    snprintf(s, sizeof s, "%.2f", (double)bytes / (1 << 20));
    put(t, s, true);
}

void table_none(struct table *t)
{
    put(t, t->style == STYLE_TEXT ? "-" : t->style == STYLE_JSON ? "null" : "", true);
}

void table_i64_if(struct table *t, bool there, int64_t x)
{
    if (there)
        table_i64(t, x);
    else
        table_none(t);
}

void table_f64_if(struct table *t, bool there, double x, int digits)
{
    if (there)
        table_f64(t, x, digits);
    else
        table_none(t);
}

void table_measured_if(struct table *t, bool there, double x, int digits)
{
    if (there)
        table_measured(t, x, digits);
    else
        table_none(t);
}

void table_bytes_if(struct table *t, bool there, int64_t bytes)
{
    if (there)
        table_bytes(t, bytes);
    else
        table_none(t);
}

void table_end(struct table *t)
{
    CK(t->at == 0);
    if (!t->open)
        open_table(t);
    if (t->style == STYLE_JSON)
        fputs(t->rows ? "\n]\n" : "]\n", t->f);
}

/* ---- results ------------------------------------------------------------------------------------------ */

int64_t totals_cases(const struct totals *t)
{
    return t->n[V_PASS] + t->n[V_MARGINAL] + t->n[V_FAIL] + t->n[V_SKIP];
}

void totals_print(FILE *f, const char *name, const struct totals *t)
{
    fprintf(f,
            "%s: %" PRId64 " cases, %" PRId64 " passed, %" PRId64 " marginal, %" PRId64 " failed, %" PRId64
            " skipped\n",
            name, totals_cases(t), t->n[V_PASS], t->n[V_MARGINAL], t->n[V_FAIL], t->n[V_SKIP]);
}

const char *const result_columns[] = {
    "case",     "verdict",       "worst",    "worst_o",  "worst_lse", "rel_o",  "rel_lse", "logit",  "groups",
    "kv_bytes", "partial_bytes", "pad_rows", "launches", "plan_ms",   "run_ms", "why",     "string", NULL};

void result_row(struct table *t, const struct result *r, enum dtype dtype, const char *case_text)
{
    char *name = xasprintf("%s/%s/%s/%s", r->strategy, r->kernel, dtype_name[dtype], r->tile);
    table_text(t, name);
    free(name);
    table_text(t, verdict_name[r->verdict]);
    const double errors[] = {r->cmp.worst, r->cmp.worst_o, r->cmp.worst_lse,
                             r->cmp.rel_o, r->cmp.rel_lse, r->cmp.max_logit};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        table_f64_if(t, r->compared, errors[i], 3);
    bool counted = result_is_counted(r);
    table_i64_if(t, r->planned, r->n_groups);
    table_i64_if(t, counted, r->ledger.kv);
    table_i64_if(t, counted, ledger_partials(&r->ledger));
    table_i64_if(t, counted, r->ledger.pad_rows);
    table_i64_if(t, r->planned, r->n_launches);
    table_f64_if(t, r->planned, 1e3 * r->plan_s, 3);
    table_f64_if(t, r->ran, 1e3 * r->run_s, 3);
    table_text(t, r->why);
    table_text(t, case_text);
}
