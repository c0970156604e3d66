/* replay_rows.c - the rows of a replay in a file that a later run can go on with. */
#include "verify/case.h"
#include "verify/replay.h"
#include "verify/report.h"
#include "verify/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct skip {
    int32_t source, use;
    char why[WHY_MAX];
};

struct replay_log {
    struct replay_log_spec spec;
    char *part;
    FILE *f;
    double start;
    char **name; /* [n_use] strategies */
    struct table table;
    int64_t *done; /* [n_sources][n_use + 1], the last for all strategies at once */
    struct replay_row *row;
    struct skip *skip;
    int64_t n_rows, cap_rows, n_skips, cap_skips;
};

static const char *const columns[] = {"number", "source", "strategy",
#define X(field, about) #field,
                                      REPLAY_COUNTS(X) REPLAY_TIMES(X)
#undef X
                                          NULL};

static int64_t *done_at(const struct replay_log *log, int32_t source, int32_t use)
{
    int32_t n = log->spec.n_use;
    return &log->done[(int64_t)source * (n + 1) + (use < 0 ? n : use)];
}

int64_t replay_log_done(const struct replay_log *log, int32_t source, int32_t use)
{
    return *done_at(log, source, use);
}

const struct replay_row *replay_log_rows(const struct replay_log *log, int64_t *n)
{
    *n = log->n_rows;
    return log->row;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void print_row(struct table *t, const struct replay_row *row, const char *source, const char *strategy)
{
    table_i64(t, row->source);
    table_text(t, source);
    table_text(t, strategy);
#define X(field, about) table_i64(t, row->field);
    REPLAY_COUNTS(X)
#undef X
#define X(field, about)                                                                                      \
    if (isnan(row->field))                                                                                   \
        table_none(t);                                                                                       \
    else                                                                                                     \
        table_f64(t, row->field, 6);
    REPLAY_TIMES(X)
#undef X
}

void replay_log_row(struct replay_log *log, const struct replay_row *row)
{
    print_row(&log->table, row, log->spec.source[row->source], log->name[row->use]);
}

void replay_log_skip(struct replay_log *log, int32_t source, int32_t use, int64_t t, const char *why)
{
    fprintf(log->f, "# skip %" PRId32 " %" PRId32 " %" PRId64 " %s\n", source, use, t, why);
}

bool replay_log_mark(struct replay_log *log, int32_t source, int32_t use, int64_t t)
{
    fprintf(log->f, "# done %" PRId32 " %" PRId32 " %" PRId64 "\n", source, use, t);
    fflush(log->f);
    return log->spec.seconds <= 0 || now_s() - log->start < log->spec.seconds;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The next cell of a CSV line, unquoted in place; NULL when nothing is left. */
static char *next_cell(char **line)
{
    char *s = *line;
    if (!s || s[0] != '"')
        return text_next(line, ',');
    char *to = s++, *cell = to;
    for (; *s && (s[0] != '"' || s[1] == '"'); s++) {
        s += s[0] == '"';
        *to++ = *s;
    }
    *line = s[0] && s[1] == ',' ? s + 2 : NULL;
    *to = '\0';
    return cell;
}

static int32_t find_use(const struct replay_log *log, const char *name)
{
    for (int32_t i = 0; i < log->spec.n_use; i++)
        if (strcmp(log->name[i], name) == 0)
            return i;
    return -1;
}

static bool read_count(char **line, int64_t *out, const char *what, struct err *e)
{
    const char *cell = next_cell(line);
    return text_i64(cell ? cell : "", what, INT64_MIN / 2, INT64_MAX, out, e);
}

static bool read_time(char **line, double *out, const char *what, struct err *e)
{
    char *cell = next_cell(line), *end;
    if (!cell)
        return err_set(e, "no %s", what);
    *out = cell[0] ? strtod(cell, &end) : NAN;
    return !cell[0] || (end != cell && *end == '\0') ||
           err_set(e, "%s '%.40s' (expected a number)", what, cell);
}

static bool read_row(struct replay_log *log, char *line, struct err *e)
{
    struct replay_row x = {0};
    int64_t source = 0;
    bool good = read_count(&line, &source, "number", e);
    if (!good || source < 0 || source >= log->spec.n_sources)
        return err_set(e, "no such source (expected a number below %" PRId32 ")", log->spec.n_sources);
    x.source = (int32_t)source;
    const char *name = next_cell(&line), *strategy = next_cell(&line);
    if (!name || !strategy || (x.use = find_use(log, strategy)) < 0)
        return err_set(e, "no such strategy (expected one of this run's)");
#define X(field, about) good = good && read_count(&line, &x.field, #field, e);
    REPLAY_COUNTS(X)
#undef X
#define X(field, about) good = good && read_time(&line, &x.field, #field, e);
    REPLAY_TIMES(X)
#undef X
    if (good) {
        log->row = xgrow(log->row, &log->cap_rows, log->n_rows + 1, sizeof *log->row);
        log->row[log->n_rows++] = x;
    }
    return good;
}

/* "# done S U T" and "# skip S U T WHY"; other remarks say nothing. */
static bool read_remark(struct replay_log *log, const char *line, bool *mark, struct err *e)
{
    int32_t source, use;
    int64_t t;
    int at = 0;
    *mark = sscanf(line, "# done %" SCNd32 " %" SCNd32 " %" SCNd64, &source, &use, &t) == 3;
    bool skip = sscanf(line, "# skip %" SCNd32 " %" SCNd32 " %" SCNd64 " %n", &source, &use, &t, &at) == 3;
    if (!*mark && !skip)
        return true;
    if (source < 0 || source >= log->spec.n_sources || use < -1 || use >= log->spec.n_use || t < 0)
        return err_set(e, "source %" PRId32 ", strategy %" PRId32 " (expected this run's)", source, use);
    if (*mark) {
        *done_at(log, source, use) = t;
        return true;
    }
    log->skip = xgrow(log->skip, &log->cap_skips, log->n_skips + 1, sizeof *log->skip);
    struct skip *s = &log->skip[log->n_skips++];
    *s = (struct skip){.source = source, .use = use};
    snprintf(s->why, sizeof s->why, "%s", line + at);
    return true;
}

const char *replay_log_skipped(const struct replay_log *log, int32_t source, int32_t use)
{
    for (int64_t k = 0; k < log->n_skips; k++)
        if (log->skip[k].source == source && log->skip[k].use == use)
            return log->skip[k].why;
    return NULL;
}

static bool is_header(const char *line)
{
    char *copy = xstrdup(line), *rest = copy;
    bool same = true;
    for (int i = 0; columns[i] && same; i++) {
        const char *name = text_next(&rest, ',');
        same = name && strcmp(name, columns[i]) == 0;
    }
    same = same && !rest;
    free(copy);
    return same;
}

/* What is whole of the part file stays, the rest is cut off. */
static bool read_part(struct replay_log *log, struct err *e)
{
    char *line = NULL;
    size_t cap = 0;
    int64_t number = 0, rows = 0, skips = 0;
    off_t whole = 0;
    bool good = true, header = false, mark = false;
    for (ssize_t n; good && (n = getline(&line, &cap, log->f)) > 0 && line[n - 1] == '\n';) {
        struct err cause = {0};
        line[n - 1] = '\0';
        number++;
        if (number == 1 && (strncmp(line, "# ", 2) != 0 || strcmp(line + 2, log->spec.what) != 0))
            good = err_set(&cause, "rows of another run (expected \"# %.200s\")", log->spec.what);
        else if (line[0] == '#')
            good = read_remark(log, line, &mark, &cause);
        else if (header)
            good = read_row(log, line, &cause);
        else
            header = good =
                is_header(line) || err_set(&cause, "other columns (expected those that this program writes)");
        if (!good)
            err_set(e, "%s:%" PRId64 ": %s", log->part, number, cause.msg);
        if (line[0] == '#' && mark) {
            whole = ftello(log->f);
            rows = log->n_rows;
            skips = log->n_skips;
        }
    }
    free(line);
    log->n_rows = rows;
    log->n_skips = skips;
    log->table.open = whole > 0;
    if (good && (ftruncate(fileno(log->f), whole) != 0 || fseeko(log->f, whole, SEEK_SET) != 0))
        good = err_set(e, "%s: cannot be gone on with: %m", log->part);
    return good;
}

char *replay_log_line(const char *path, int32_t number, struct err *e)
{
    FILE *f = fopen(path, "r");
    if (!f) {
        err_set(e, "%s: cannot be read: %m", path);
        return NULL;
    }
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = 0;
    for (int32_t i = 0; i <= number && n >= 0; i++)
        n = getline(&line, &cap, f);
    fclose(f);
    if (n < 3 || strncmp(line, "# ", 2) != 0 || line[n - 1] != '\n') {
        err_set(e, "%s:%d: no rows of a replay (expected a line that begins with #)", path, number + 1);
        free(line);
        return NULL;
    }
    line[n - 1] = '\0';
    memmove(line, line + 2, (size_t)n - 2);
    return line;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static void log_free(struct replay_log *log)
{
    for (int32_t i = 0; i < log->spec.n_use; i++)
        free(log->name[i]);
    free(log->name);
    free(log->part);
    free(log->done);
    free(log->row);
    free(log->skip);
    free(log);
}

struct replay_log *replay_log_open(const struct replay_log_spec *spec, struct err *e)
{
    struct replay_log *log = xcalloc(1, sizeof *log);
    log->spec = *spec;
    log->start = now_s();
    log->part = xasprintf("%s.part", spec->path);
    log->name = xcalloc((size_t)spec->n_use, sizeof *log->name);
    for (int32_t i = 0; i < spec->n_use; i++)
        log->name[i] = case_print_strategy(&spec->use[i]);
    log->done = xcalloc((size_t)spec->n_sources * ((size_t)spec->n_use + 1), sizeof *log->done);
    /* complete: read again */
    bool whole = spec->resume && access(log->part, F_OK) != 0 && rename(spec->path, log->part) == 0;
    log->f = spec->resume ? fopen(log->part, "r+") : NULL;
    bool good = true, old = log->f != NULL;
    if (!old && !(log->f = fopen(log->part, "w")))
        good = err_set(e, "%s: cannot be written: %m", log->part);
    log->table = (struct table){.f = log->f, .style = STYLE_CSV, .column = columns};
    if (good && old)
        good = read_part(log, e);
    if (good && !log->table.open)
        fprintf(log->f, "# %s\n# %s\n", spec->what, spec->about);
    if (!good) {
        if (log->f)
            fclose(log->f);
        if (whole)
            rename(log->part, spec->path);
        log_free(log);
        return NULL;
    }
    return log;
}

bool replay_log_close(struct replay_log *log, bool complete, struct err *e)
{
    table_end(&log->table);
    bool good = fflush(log->f) == 0 && !ferror(log->f);
    good = fclose(log->f) == 0 && good;
    if (good && complete)
        good = rename(log->part, log->spec.path) == 0;
    if (!good)
        err_set(e, "%s: not all of it could be written: %m", log->spec.path);
    log_free(log);
    return good;
}
