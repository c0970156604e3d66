#include "verify/report/rows.h"
#include "ref/file.h"
#include "verify/io/environment.h"
#include "verify/io/origin.h"
#include "verify/report/outcome_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t MAX_BYTES = (size_t)1 << 31;
static const char FORMAT[] = "treeattn-rows";

/* The rows of one case. */
struct of_case {
    char *from;
    struct row_outcome *o;
    int32_t n, rows; /* that were read, and that there are */
    bool failed;
};

struct rows {
    char *path;
    FILE *f;
    struct of_case *read; /* [n] by name once all are */
    int64_t n, cap;
    bool resume; /* they need not be run */
    int why;     /* errno of the first write that failed */
};

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool read_int(const json_t *object, const char *key, int64_t least, int64_t most, int32_t *out, struct err *e)
{
    const json_t *j = json_object_get(object, key);
    if (!json_is_integer(j) || json_integer_value(j) < least || json_integer_value(j) > most)
        return err_set(e, "'%s' (expected a whole number from %" PRId64 " to %" PRId64 ")", key, least, most);
    *out = (int32_t)json_integer_value(j);
    return true;
}

/* The first line, which has to be of the same run where that goes on. */
static bool read_head(const json_t *object, const struct rows_spec *spec, struct err *e)
{
    int32_t version = 0;
    const char *format = json_string_value(json_object_get(object, "format")),
               *judged = json_string_value(json_object_get(object, "judged")),
               *commit = json_string_value(json_object_get(object, "treeattn"));
    if (!format || strcmp(format, FORMAT) != 0 || !judged || !commit)
        return err_set(e, "no file of rows (expected one that --rows wrote, or a new one)");
    if (!read_int(object, "version", ROWS_VERSION, ROWS_VERSION, &version, e))
        return false;
    if (spec->resume && strcmp(judged, spec->judged) != 0)
        return err_set(e, "rows of '%.120s' (expected those of '%.120s', or a run without --resume)", judged, spec->judged);
    return !spec->resume || strcmp(commit, origin_commit()) == 0 ||
           err_set(e, "rows by treeattn of commit %.60s (expected %s, or a run without --resume)", commit,
                   origin_commit());
}

/* Row k of n of a case follows row k - 1 of it. */
static bool read_row(struct rows *r, const json_t *object, struct err *e)
{
    int32_t row = 0, n = 0;
    const char *from = json_string_value(json_object_get(object, "from"));
    if (!from)
        return err_set(e, "no text 'from' (expected a row as --rows writes it)");
    if (!read_int(object, "rows", 1, INT32_MAX - 1, &n, e) || !read_int(object, "row", 1, n, &row, e))
        return false;
    struct of_case *last = r->n > 0 ? &r->read[r->n - 1] : NULL;
    bool goes_on = last && last->n < last->rows;
    if (goes_on ? row != last->n + 1 || n != last->rows || strcmp(from, last->from) != 0 : row != 1)
        return err_set(e, "row %" PRId32 " of %" PRId32 " (expected the rows of a case one below the other)", row, n);
    struct row_outcome o;
    if (!outcome_read(object, &o, e))
        return false;
    if (!goes_on) {
        r->read = xgrow(r->read, &r->cap, r->n + 1, sizeof *r->read);
        last = &r->read[r->n++];
        *last = (struct of_case){.from = xstrdup(from), .rows = n};
    }
    last->o = xrealloc(last->o, (size_t)last->n + 1, sizeof *last->o); /* not n: a line may say anything */
    last->o[last->n++] = o;
    last->failed = last->failed || o.verdict == V_FAIL;
    return true;
}

static void of_case_clear(struct of_case *x)
{
    for (int32_t i = 0; i < x->n; i++)
        outcome_clear(&x->o[i]);
    free(x->o);
    free(x->from);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct of_case *)a)->from, ((const struct of_case *)b)->from);
}

/* All whole lines of text[size]. *whole: bytes up to the end of the last whole case. */
static bool read_lines(struct rows *r, const struct rows_spec *spec, const char *text, size_t size, size_t *whole,
                       struct err *e)
{
    int64_t number = 0;
    *whole = 0;
    for (const char *at = text; at < text + size;) {
        const char *end = memchr(at, '\n', size - (size_t)(at - text));
        number++;
        if (!end && number > 1) /* a run was stopped while it wrote */
            break;
        end = end ? end : text + size;
        json_error_t why;
        json_t *object = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, &why);
        struct err own = {0};
        bool good = number == 1 ? read_head(object, spec, &own)
                    : object    ? read_row(r, object, &own)
                                : err_set(&own, "no row: %s (expected a JSON object a line, as --rows writes them)", why.text);
        json_decref(object);
        if (!good)
            return err_set(e, "%s:%" PRId64 ": %.440s", r->path, number, own.msg);
        if (end == text + size) /* a head alone, without its end */
            break;
        at = end + 1;
        if (r->n == 0 || r->read[r->n - 1].n == r->read[r->n - 1].rows)
            *whole = (size_t)(at - text);
    }
    if (r->n > 0 && r->read[r->n - 1].n < r->read[r->n - 1].rows)
        of_case_clear(&r->read[--r->n]);
    if (*whole < size && spec->resume)
        fprintf(stderr, "%s: cut short in line %" PRId64 ": the case there is run again\n", r->path, number);
    if (r->n > 1)
        qsort(r->read, (size_t)r->n, sizeof *r->read, by_name);
    return true;
}

/* What is there; *whole bytes of it are kept. */
static bool read_old(struct rows *r, const struct rows_spec *spec, size_t *whole, struct err *e)
{
    size_t size;
    struct stat st;
    *whole = 0;
    if (stat(spec->path, &st) != 0 && errno == ENOENT)
        return true;
    if (stat(spec->path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(e, "%s: is no file (expected one that is read back)", spec->path);
    char *text = file_slurp(spec->path, MAX_BYTES, &size, e);
    bool good = text != NULL;
    if (good && !spec->resume && !spec->failed_first) { /* the head alone: is it ours to overwrite? */
        const char *end = memchr(text, '\n', size);
        size = end ? (size_t)(end - text) + 1 : size;
    }
    good = good && read_lines(r, spec, text, size, whole, e);
    free(text);
    return good;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* Whole lines at once. */
static void write_lines(struct rows *r, const char *text, size_t size)
{
    errno = 0;
    if (r->why == 0 && (fwrite(text, 1, size, r->f) != size || fflush(r->f) != 0))
        r->why = errno ? errno : EIO;
}

static void write_object(struct rows *r, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT), *line = xasprintf("%s\n", text ? text : "{}");
    write_lines(r, line, strlen(line));
    free(line);
    free(text);
    json_decref(j);
}

static json_t *text_or_mark(const char *s)
{
    json_t *j = json_string(s);
    return j ? j : json_string("?"); /* not UTF-8 */
}

struct rows *rows_open(const struct rows_spec *spec, struct err *e)
{
    struct rows *r = xcalloc(1, sizeof *r);
    size_t whole;
    r->path = xstrdup(spec->path);
    bool good = read_old(r, spec, &whole, e);
    r->resume = spec->resume;
    if (good && (!spec->resume || whole == 0)) {
        r->f = fopen(spec->path, "w");
    } else if (good) {
        r->f = fopen(spec->path, "a");
        if (r->f && ftruncate(fileno(r->f), (off_t)whole) != 0) {
            fclose(r->f);
            r->f = NULL;
        }
    }
    if (good && !r->f)
        good = err_set(e, "%s: cannot be written: %m", spec->path);
    if (good && (!spec->resume || whole == 0)) {
        json_t *head = json_object();
        json_object_set_new(head, "format", json_string(FORMAT));
        json_object_set_new(head, "version", json_integer(ROWS_VERSION));
        json_object_set_new(head, "treeattn", json_string(origin_commit()));
        json_object_set_new(head, "judged", text_or_mark(spec->judged));
        json_object_set_new(head, "environment", environment_then());
        write_object(r, head);
    }
    if (good)
        return r;
    struct err more = {0};
    rows_close(r, &more);
    return NULL;
}

void rows_add(struct rows *r, const char *from, const struct row_outcome *o, int32_t n)
{
    char *text = xstrdup("");
    for (int32_t i = 0; i < n; i++) {
        json_t *j = outcome_json(&o[i]);
        json_object_set_new(j, "from", text_or_mark(from));
        json_object_set_new(j, "row", json_integer(i + 1));
        json_object_set_new(j, "rows", json_integer(n));
        char *line = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17));
        CK(line);
        xappend(&text, "%s\n", line);
        free(line);
        json_decref(j);
    }
    write_lines(r, text, strlen(text));
    free(text);
}

/* ---- asking -------------------------------------------------------------------------------------------- */

static const struct of_case *find(const struct rows *r, const char *from)
{
    struct of_case key = {.from = (char *)from};
    return r->n > 0 ? bsearch(&key, r->read, (size_t)r->n, sizeof *r->read, by_name) : NULL;
}

bool rows_failed(const struct rows *r, const char *from)
{
    const struct of_case *x = find(r, from);
    return x && x->failed;
}

const struct row_outcome *rows_done(const struct rows *r, const char *from, int32_t *n)
{
    const struct of_case *x = r->resume ? find(r, from) : NULL;
    *n = x ? x->n : 0;
    return x ? x->o : NULL;
}

bool rows_close(struct rows *r, struct err *e)
{
    bool good = true;
    if (!r)
        return true;
    if (r->f && fclose(r->f) != 0 && r->why == 0)
        r->why = errno ? errno : EIO;
    if (r->f && r->why != 0)
        good = err_set(e, "%s: not all of it could be written: %s", r->path, strerror(r->why));
    for (int64_t i = 0; i < r->n; i++)
        of_case_clear(&r->read[i]);
    free(r->read);
    free(r->path);
    free(r);
    return good;
}
