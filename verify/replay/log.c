/* log.c - the rows of a replay in a file that a later run can go on with. */
#include "ref/csv.h"
#include "ref/decimal.h"
#include "verify/cases/case.h"
#include "verify/replay/log.h"
#include "verify/io/table.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a line. The first one, which names all strategies and traces, is the longest. */
enum { MAX_LINE = 1 << 22 };

struct skip {
    int32_t source, use;
    char why[WHY_MAX];
};

struct replay_log {
    struct replay_log_spec spec;
    char *path, *part; /* where spec.path leads; the same with .part */
    FILE *f;
    bool fresh;    /* there was nothing to go on with */
    bool complete; /* it had its own name */
    bool marked;   /* a portion was added */
    off_t whole;   /* bytes of what is whole */
    char **name;   /* [n_use] strategies */
    struct printer table;
    int64_t *done; /* [n_sources][n_use + 1], the last for all strategies at once: steps that are whole, */
    int64_t *seen; /* and that rows stand for */
    int64_t steps; /* of all sources */
    struct replay_row *row;
    struct skip *skip;
    int64_t n_rows, cap_rows, n_skips, cap_skips;
};

static const char *const columns[] = {"number", "source", "strategy",
#define X(field, how, about) #field,
                                      REPLAY_COUNTS(X) REPLAY_TIMES(X)
#undef X
                                          NULL};
#define X(field, how, about) "," #field
static const char header[] = "number,source,strategy" REPLAY_COUNTS(X) REPLAY_TIMES(X);
#undef X

/* In log->done or log->seen. */
static int64_t *steps_at(const struct replay_log *log, int64_t *steps, int32_t source, int32_t use)
{
    int32_t n = log->spec.n_use;
    return &steps[(int64_t)source * (n + 1) + (use < 0 ? n : use)];
}

int64_t replay_log_done(const struct replay_log *log, int32_t source, int32_t use)
{
    return *steps_at(log, log->done, source, use);
}

const struct replay_row *replay_log_rows(const struct replay_log *log, int64_t *n)
{
    *n = log->n_rows;
    return log->row;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void print_row(struct printer *t, const struct replay_row *row, const char *source,
                      const char *strategy)
{
    table_i64(t, row->source);
    table_text(t, source);
    table_text(t, strategy);
#define X(field, how, about) table_i64(t, row->field);
    REPLAY_COUNTS(X)
#undef X
#define X(field, how, about) table_number(t, row->time.field, 6);
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

void replay_log_mark(struct replay_log *log, int32_t source, int32_t use, int64_t t)
{
    fprintf(log->f, "# done %" PRId32 " %" PRId32 " %" PRId64 "\n", source, use, t);
    fflush(log->f);
    log->marked = true;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static int32_t find_use(const struct replay_log *log, const char *name)
{
    for (int32_t i = 0; i < log->spec.n_use; i++)
        if (strcmp(log->name[i], name) == 0)
            return i;
    return -1;
}

static bool read_count(char **line, int64_t most, int64_t *out, const char *what, struct err *e)
{
    const char *cell = *line ? csv_field(line, e) : "";
    return cell && text_i64(cell, what, 0, most, out, e);
}

static bool read_time(char **line, double *out, const char *what, struct err *e)
{
    const char *cell = *line ? csv_field(line, e) : NULL;
    if (!cell)
        return err_set(e, "the line ends before column %s (expected a number, 0 or more, or nothing)", what);
    *out = NAN;
    return !cell[0] || (decimal_parse(cell, out) && *out >= 0) ||
           err_set(e, "%s '%.40s' (expected a number, 0 or more)", what, cell);
}

/* Rows of a strategy follow each other: each stands for the steps behind those of the row before, and for its own. */
static bool read_place(struct replay_log *log, const struct replay_row *x, struct err *e)
{
    int64_t *seen = steps_at(log, log->seen, x->source, x->use), last = log->spec.last[x->source];
    if (x->weight < 1 || x->weight > last - *seen)
        return err_set(e, "weight %" PRId64 " behind step %" PRId64 " (expected 1 to %" PRId64 ")", x->weight,
                       *seen, last - *seen);
    if (x->step <= *seen || x->step > *seen + x->weight)
        return err_set(e, "step %" PRId64 " for %" PRId64 " steps (expected %" PRId64 " to %" PRId64 ")",
                       x->step, x->weight, *seen + 1, *seen + x->weight);
    *seen += x->weight;
    return true;
}

static bool read_row(struct replay_log *log, char *line, struct err *e)
{
    struct replay_row x = {0};
    int64_t source = 0, most = INT64_MAX / max_i64(1, log->steps); /* the sum of all rows does not overflow */
    bool good = read_count(&line, log->spec.n_sources - 1, &source, "number", e);
    x.source = (int32_t)source;
    const char *name = line ? csv_field(&line, e) : NULL, *strategy = line ? csv_field(&line, e) : NULL;
    if (good && (!name || !strategy || (x.use = find_use(log, strategy)) < 0))
        return err_set(e, "no such strategy (expected one of this run's)");
#define X(field, how, about) good = good && read_count(&line, most, &x.field, #field, e);
    REPLAY_COUNTS(X)
#undef X
#define X(field, how, about) good = good && read_time(&line, &x.time.field, #field, e);
    REPLAY_TIMES(X)
#undef X
    good = good && (!line || err_set(e, "'%.40s' behind the last column (expected nothing)", line)) &&
           read_place(log, &x, e);
    if (good) {
        log->row = xgrow(log->row, &log->cap_rows, log->n_rows + 1, sizeof *log->row);
        log->row[log->n_rows++] = x;
    }
    return good;
}

/* Everything up to step t is there: rows of every strategy that has any and went on. */
static bool read_mark(struct replay_log *log, int32_t source, int32_t use, int64_t t, struct err *e)
{
    int64_t *done = steps_at(log, log->done, source, use);
    if (t <= *done)
        return err_set(e, "step %" PRId64 " is done (expected one behind %" PRId64 ")", t, *done);
    for (int32_t i = 0; i < log->spec.n_use; i++) {
        int64_t seen = *steps_at(log, log->seen, source, i);
        if ((use == i || (use < 0 && seen > 0)) && seen != t && !replay_log_skipped(log, source, i))
            return err_set(e, "rows of %s for %" PRId64 " steps (expected %" PRId64 ")", log->name[i], seen,
                           t);
    }
    *done = t;
    return true;
}

static void add_skip(struct replay_log *log, int32_t source, int32_t use, const char *why)
{
    log->skip = xgrow(log->skip, &log->cap_skips, log->n_skips + 1, sizeof *log->skip);
    struct skip *s = &log->skip[log->n_skips++];
    *s = (struct skip){.source = source, .use = use};
    snprintf(s->why, sizeof s->why, "%s", why);
}

/* "# done S U T" and "# skip S U T WHY"; other remarks say nothing. */
static bool read_remark(struct replay_log *log, char *line, bool *mark, struct err *e)
{
    *mark = strncmp(line, "# done ", 7) == 0;
    if (!*mark && strncmp(line, "# skip ", 7) != 0)
        return true;
    char *rest = line + 7;
    int64_t source, use, t;
    for (int i = 0; i < 3; i++) {
        static const char *const what[] = {"source", "strategy", "step"};
        int64_t least = i == 0 ? 0 : i == 1 ? -1 : 1, *to = i == 0 ? &source : i == 1 ? &use : &t;
        int64_t most = i == 0   ? log->spec.n_sources - 1
                       : i == 1 ? log->spec.n_use - 1
                                : log->spec.last[source];
        const char *word = text_next(&rest, ' ');
        if (!text_i64(word ? word : "", what[i], least, most, to, e))
            return false;
    }
    if (*mark)
        return read_mark(log, (int32_t)source, (int32_t)use, t, e);
    add_skip(log, (int32_t)source, (int32_t)use, rest ? rest : "");
    return true;
}

const char *replay_log_skipped(const struct replay_log *log, int32_t source, int32_t use)
{
    for (int64_t k = 0; k < log->n_skips; k++)
        if (log->skip[k].source == source && log->skip[k].use == use)
            return log->skip[k].why;
    return NULL;
}

/* The lines of a file, one at a time. */
struct lines {
    FILE *f;
    const char *path;
    int64_t number;
    char *text; /* [MAX_LINE], without the end of the line */
    bool cut;   /* the file does not end with a line */
};

/* False at the end, and with *e set if this is no text. */
static bool next_line(struct lines *l, struct err *e)
{
    l->number++;
    if (!fgets(l->text, MAX_LINE, l->f))
        return false;
    size_t n = strlen(l->text);
    l->cut = n == 0 || l->text[n - 1] != '\n';
    if (l->cut)
        return feof(l->f) && n > 0
                   ? false
                   : err_set(e, "%s:%" PRId64 ": a zero byte or over %d bytes (expected text)", l->path,
                             l->number, MAX_LINE);
    l->text[n - 1] = '\0';
    return true;
}

/* A portion is whole when the mark behind it is there; what comes after the last one does not count. */
static bool read_lines(struct replay_log *log, struct lines *l, struct err *e)
{
    int64_t rows = 0, skips = 0;
    bool good = true, in_rows = false;
    while (good && next_line(l, e)) {
        struct err cause = {0};
        bool mark = false;
        if (l->number == 1 && (strncmp(l->text, "# ", 2) != 0 || strcmp(l->text + 2, log->spec.what) != 0))
            good = err_set(&cause, "rows of another run (expected \"# %.200s\")", log->spec.what);
        else if (l->text[0] == '#')
            good = read_remark(log, l->text, &mark, &cause);
        else if (in_rows)
            good = read_row(log, l->text, &cause);
        else
            in_rows = good = strcmp(l->text, header) == 0 ||
                             err_set(&cause, "other columns (expected those that this program writes)");
        if (!good)
            err_set(e, "%s:%" PRId64 ": %s", l->path, l->number, cause.msg);
        if (mark) {
            log->whole = ftello(l->f);
            rows = log->n_rows;
            skips = log->n_skips;
        }
    }
    good = good && e->code == 0;
    if (good && log->complete && (l->cut || log->n_rows > rows))
        good =
            err_set(e, "%s: not complete: rows behind its last \"# done\" (expected the rows of a whole run)",
                    l->path);
    log->n_rows = rows;
    log->n_skips = skips;
    log->table.open = log->whole > 0;
    return good;
}

static bool read_file(struct replay_log *log, FILE *f, const char *path, struct err *e)
{
    struct lines l = {.f = f, .path = path, .text = xmalloc(MAX_LINE)};
    bool good = read_lines(log, &l, e);
    free(l.text);
    return good;
}

/* Rows are read in order and renamed when they are complete: no pipe, no device. What is not there yet is good, too. */
static bool is_file(const char *path, struct err *e)
{
    struct stat st;
    return stat(path, &st) != 0 || S_ISREG(st.st_mode) ||
           err_set(e, "%s: not a regular file (expected one, or a new name)", path);
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static void log_free(struct replay_log *log)
{
    for (int32_t i = 0; i < log->spec.n_use; i++)
        free(log->name[i]);
    free(log->name);
    free(log->path);
    free(log->part);
    free(log->done);
    free(log->seen);
    free(log->row);
    free(log->skip);
    free(log);
}

/* One run at a time; a file system without locks has to do without this check. */
static bool lock(struct replay_log *log, struct err *e)
{
    return flock(fileno(log->f), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK ||
           err_set(e, "%s: another run is writing it (expected another file, or its end)", log->part);
}

static bool begin(struct replay_log *log, struct err *e)
{
    log->fresh = true;
    log->f = fopen(log->part, "wx");
    if (!log->f)
        return err_set(e, "%s: cannot be written: %m", log->part);
    return lock(log, e);
}

/* Nothing is changed before all that is there has been read and found good. */
static bool go_on(struct replay_log *log, struct err *e)
{
    const char *name = log->complete ? log->path : log->part;
    log->f = fopen(name, "r+");
    if (!log->f)
        return err_set(e, "%s: cannot be written: %m", name);
    if (!lock(log, e))
        return false;
    if (!log->spec.resume)
        return err_set(
            e, "%s: left by a run that was stopped (expected --resume, which goes on, or no such file)",
            log->part);
    return read_file(log, log->f, name, e) &&
           ((ftruncate(fileno(log->f), log->whole) == 0 && fseeko(log->f, log->whole, SEEK_SET) == 0 &&
             (!log->complete || rename(log->path, log->part) == 0)) ||
            err_set(e, "%s: cannot be resumed: %m", name));
}

static bool open_part(struct replay_log *log, struct err *e)
{
    if (!is_file(log->path, e) || !is_file(log->part, e))
        return false;
    bool part = access(log->part, F_OK) == 0;
    log->complete = !part && log->spec.resume && access(log->path, F_OK) == 0;
    bool good = part || log->complete ? go_on(log, e) : begin(log, e);
    log->table.f = log->f;
    if (good && !log->table.open)
        fprintf(log->f, "# %s\n# %s\n", log->spec.what, log->spec.about);
    return good;
}

/* A link stays one: what it leads to is written. The caller frees. */
static char *follow(const char *path)
{
    struct stat st;
    char *real = lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
    return real ? real : xstrdup(path);
}

struct replay_log *replay_log_open(const struct replay_log_spec *spec, struct err *e)
{
    struct replay_log *log = xcalloc(1, sizeof *log);
    log->spec = *spec;
    log->path = follow(spec->path);
    log->part = xasprintf("%s.part", log->path);
    log->name = xcalloc((size_t)spec->n_use, sizeof *log->name);
    for (int32_t i = 0; i < spec->n_use; i++)
        log->name[i] = strategy_label(&spec->use[i]);
    log->done = xcalloc((size_t)spec->n_sources * ((size_t)spec->n_use + 1), sizeof *log->done);
    log->seen = xcalloc((size_t)spec->n_sources * ((size_t)spec->n_use + 1), sizeof *log->seen);
    for (int32_t i = 0; i < spec->n_sources; i++)
        log->steps += spec->last[i];
    log->table = (struct printer){.style = STYLE_CSV, .column = columns};
    if (open_part(log, e))
        return log;
    if (log->f)
        fclose(log->f);
    log_free(log);
    return NULL;
}

/* A run that added nothing leaves things as they were. */
static bool leave(struct replay_log *log)
{
    if (log->marked)
        return true;
    if (log->fresh)
        return unlink(log->part) == 0;
    return !log->complete || rename(log->part, log->path) == 0;
}

bool replay_log_close(struct replay_log *log, bool complete, struct err *e)
{
    if (complete)
        table_end(&log->table);
    bool good = fflush(log->f) == 0 && !ferror(log->f);
    good = fclose(log->f) == 0 && good;
    if (good)
        good = complete ? rename(log->part, log->path) == 0 : leave(log);
    if (!good)
        err_set(e, "%s: not all of it could be written: %m", log->path);
    log_free(log);
    return good;
}
