#include "verify/report/known.h"
#include "ref/file.h"
#include "verify/io/text.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BYTES = 1 << 22, DAY = 11 };

struct line {
    char *pattern, *reason;
    char code[OUTCOME_CODE], until[DAY];
    int64_t number; /* in the file, from 1 */
    bool expired;
    int64_t failed, other, passed; /* rows that it matches: those that fail with its code, with another, not at all */
};

struct known {
    char *path;
    struct line *line;
    int64_t n, cap;
};

/* ---- reading ------------------------------------------------------------------------------------------- */

/* A day of the calendar, as 2027-03-31. */
static bool is_day(const char *s)
{
    static const char form[] = "dddd-dd-dd";
    for (int i = 0; i < DAY - 1; i++)
        if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != '-')
            return false;
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = atoi(s), month = atoi(s + 5), day = atoi(s + 8);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return !s[DAY - 1] && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (leap && month == 2);
}

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t");
    size_t n = strcspn(word, " \t");
    *rest = word + n + (word[n] != 0);
    word[n] = 0;
    return word;
}

static bool read_line(char *text, const char *today, struct line *out, struct err *e)
{
    char *pattern = next_word(&text), *code = next_word(&text), *until = next_word(&text);
    text += strspn(text, " \t");
    if (!*text)
        return err_set(e, "'%.60s' is cut short (expected PATTERN CODE UNTIL REASON)", pattern);
    if (strcmp(code, "*") != 0 && !outcome_code_fails(code)) {
        char list[300];
        outcome_codes(list, sizeof list);
        return err_set(e, "code '%.40s' (expected *, or one of %s)", code, list);
    }
    if (!is_day(until))
        return err_set(e, "day '%.40s' (expected the last on which it holds, as 2027-03-31)", until);
    *out = (struct line){.expired = strcmp(until, today) < 0};
    snprintf(out->code, sizeof out->code, "%s", code);
    snprintf(out->until, sizeof out->until, "%s", until);
    out->pattern = xstrdup(pattern);
    out->reason = xstrdup(text);
    return true;
}

static void utc_day(char out[DAY])
{
    time_t now = time(NULL);
    struct tm utc;
    strftime(out, DAY, "%Y-%m-%d", gmtime_r(&now, &utc));
}

struct known *known_read(const char *path, const char *today, struct err *e)
{
    size_t size;
    char day[DAY], *text = file_slurp(path, MAX_BYTES, &size, e), *rest = text;
    if (!text)
        return NULL;
    utc_day(day);
    struct known *k = xcalloc(1, sizeof *k);
    k->path = xstrdup(path);
    bool good = true;
    int64_t number = 0;
    for (char *line; good && (line = text_entry(&rest, &number));) {
        struct err own = {0};
        k->line = xgrow(k->line, &k->cap, k->n + 1, sizeof *k->line);
        good = read_line(line, today ? today : day, &k->line[k->n], &own) ||
               err_set(e, "%s:%" PRId64 ": %.400s", path, number, own.msg);
        if (good)
            k->line[k->n++].number = number;
    }
    free(text);
    if (good)
        return k;
    known_free(k);
    return NULL;
}

void known_free(struct known *k)
{
    for (int64_t i = 0; k && i < k->n; i++) {
        free(k->line[i].pattern);
        free(k->line[i].reason);
    }
    if (k) {
        free(k->line);
        free(k->path);
    }
    free(k);
}

/* ---- using --------------------------------------------------------------------------------------------- */

bool known_apply(struct known *k, struct row_outcome *o)
{
    struct line *by = NULL;
    if (o->verdict == V_SKIP)
        return false;
    char *ended = xasprintf("%s;", o->string);
    for (int64_t i = 0; i < k->n; i++) {
        struct line *x = &k->line[i];
        if (fnmatch(x->pattern, o->string, 0) != 0 && fnmatch(x->pattern, ended, 0) != 0 &&
            fnmatch(x->pattern, o->label, 0) != 0)
            continue;
        bool fails = o->verdict == V_FAIL;
        x->passed += !fails;
        bool coded = strcmp(x->code, "*") == 0 || strcmp(x->code, o->code) == 0;
        x->other += fails && !coded;
        if (!fails || !coded)
            continue;
        x->failed++;
        by = by || x->expired ? by : x;
    }
    free(ended);
    if (!by)
        return false;
    char *why = xasprintf("known until %s: %s (%s: %s)", by->until, by->reason, o->code, o->why);
    free(o->why);
    o->why = why;
    o->verdict = V_SKIP;
    snprintf(o->code, sizeof o->code, "KNOWN");
    return true;
}

int64_t known_expired(const struct known *k)
{
    int64_t n = 0;
    for (int64_t i = 0; i < k->n; i++)
        n += k->line[i].expired;
    return n;
}

void known_print(FILE *f, const struct known *k, bool whole)
{
    for (int64_t i = 0; i < k->n; i++) {
        const struct line *x = &k->line[i];
        if (x->expired)
            fprintf(f, "%s:%" PRId64 ": expired on %s, which fails the run (expected a later day, or no such line): %s\n",
                    k->path, x->number, x->until, x->reason);
        else if (whole && x->failed == 0 && x->other > 0)
            fprintf(f, "%s:%" PRId64 ": %" PRId64 " rows fail, none with %s: %s\n", k->path, x->number, x->other, x->code,
                    x->reason);
        else if (whole && x->failed == 0 && x->passed > 0)
            fprintf(f, "%s:%" PRId64 ": passes now, %" PRId64 " rows: %s\n", k->path, x->number, x->passed, x->reason);
        else if (whole && x->failed == 0)
            fprintf(f, "%s:%" PRId64 ": matches no row that ran: %.100s\n", k->path, x->number, x->pattern);
    }
}
