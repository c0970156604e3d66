#include "verify/report/reports.h"
#include "verify/io/outfile.h"
#include "verify/report/statement.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct kind {
    const char *end;
    void (*print)(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what);
};

struct reports {
    const char *path[REPORTS_MOST], *statement;
    const struct kind *kind[REPORTS_MOST];
    int32_t n_paths;
    struct row_outcome *o;
    int64_t n, cap;
};

/* ---- JUnit --------------------------------------------------------------------------------------------- */

/* XML 1.0 has no control characters, and wants UTF-8; of what is neither, "?" is left. */
static void print_xml(FILE *f, const char *s)
{
    while (*s) {
        unsigned char c = (unsigned char)*s;
        int more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : -1;
        bool good = more >= 0 && (c >= ' ' || c == '\t' || c == '\n') && c != 0x7f;
        for (int i = 1; i <= more && good; i++)
            good = ((unsigned char)s[i] & 0xc0) == 0x80;
        unsigned char second = good && more > 0 ? (unsigned char)s[1] : 0;
        good = good && !(c == 0xe0 && second < 0xa0) && !(c == 0xed && second >= 0xa0) && /* overlong, surrogates */
               !(c == 0xf0 && second < 0x90) && !(c == 0xf4 && second >= 0x90) &&
               !(more == 2 && c == 0xef && second == 0xbf && ((unsigned char)s[2] & 0xfe) == 0xbe); /* no characters */
        if (!good)
            fputc('?', f);
        else if (c == '&' || c == '<' || c == '>' || c == '"')
            fputs(c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&quot;", f);
        else if (c == '\t' || c == '\n') /* in an attribute they would become blanks */
            fprintf(f, "&#%d;", c);
        else
            fwrite(s, 1, (size_t)more + 1, f);
        s += good ? more + 1 : 1;
    }
}

static void print_attribute(FILE *f, const char *name, const char *value)
{
    fprintf(f, " %s=\"", name);
    print_xml(f, value);
    fputc('"', f);
}

/* What a reader of a report needs to go on. */
static void print_body(FILE *f, const struct row_outcome *o, const char *how)
{
    print_xml(f, o->label);
    fputc('\n', f);
    print_xml(f, o->why);
    if (o->cause[0]) {
        fputs("\ncause: ", f);
        print_xml(f, o->cause);
    }
    fputs("\ntreeattn verify ", f);
    if (how && how[0] == '-')
        print_xml(f, how);
    fputs(" --case '", f);
    print_xml(f, o->string);
    fputs("'\n", f);
}

static int64_t count(const struct row_outcome *o, int64_t n, enum verdict v)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += o[i].verdict == v;
    return sum;
}

static void print_junit(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what)
{
    double seconds = 0;
    for (int64_t i = 0; i < n; i++)
        seconds += outcome_seconds(&o[i]);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite", f);
    print_attribute(f, "name", what->suite ? what->suite : "treeattn");
    fprintf(f, " time=\"%.6f\" tests=\"%" PRId64 "\" errors=\"0\" skipped=\"%" PRId64 "\" failures=\"%" PRId64 "\">\n",
            seconds, n, count(o, n, V_SKIP), count(o, n, V_FAIL));
    const char *const property[][2] = {{"kernel", what->kernel}, {"version", what->version}, {"how", what->how},
                                       {"options", what->options}, {"sha256", what->sha256}};
    fputs("  <properties>\n", f);
    for (size_t i = 0; i < sizeof property / sizeof property[0]; i++)
        if (property[i][1] && property[i][1][0]) {
            fputs("    <property", f);
            print_attribute(f, "name", property[i][0]);
            print_attribute(f, "value", property[i][1]);
            fputs("/>\n", f);
        }
    fputs("  </properties>\n", f);
    for (int64_t i = 0; i < n; i++) {
        char *class = xasprintf("treeattn.%s", o[i].kernel);
        fputs("  <testcase", f);
        print_attribute(f, "name", o[i].string);
        print_attribute(f, "classname", class);
        fprintf(f, " time=\"%.6f\"", outcome_seconds(&o[i]));
        free(class);
        if (o[i].verdict == V_FAIL) {
            fputs(">\n    <failure", f);
            print_attribute(f, "message", o[i].why);
            print_attribute(f, "type", o[i].code);
            fputc('>', f);
            print_body(f, &o[i], what->how);
            fputs("</failure>\n  </testcase>\n", f);
        } else if (o[i].verdict == V_SKIP) {
            char *why = xasprintf("%s: %s", o[i].code, o[i].why);
            fputs(">\n    <skipped", f);
            print_attribute(f, "message", why);
            fputs("/>\n  </testcase>\n", f);
            free(why);
        } else {
            fputs("/>\n", f);
        }
    }
    fputs("</testsuite>\n", f);
}

/* ---- TAP 14 -------------------------------------------------------------------------------------------- */

/* A description or reason: one line, in which # and \ are escaped. */
static void print_tap_text(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '#' || *s == '\\')
            fputc('\\', f);
        fputc((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s, f);
    }
}

/* A scalar of YAML in single quotes. */
static void print_yaml(FILE *f, const char *key, const char *value)
{
    fprintf(f, "  %s: '", key);
    for (; *value; value++)
        if (*value == '\'')
            fputs("''", f);
        else
            fputc((unsigned char)*value < ' ' || *value == 0x7f ? '?' : *value, f);
    fputs("'\n", f);
}

static void print_tap(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what)
{
    (void)what;
    fprintf(f, "TAP version 14\n1..%" PRId64 "\n", n);
    for (int64_t i = 0; i < n; i++) {
        bool known = strcmp(o[i].code, "KNOWN") == 0, skip = o[i].verdict == V_SKIP && !known;
        fprintf(f, "%sok %" PRId64 " - ", o[i].verdict == V_FAIL || known ? "not " : "", i + 1);
        print_tap_text(f, o[i].label);
        fputc(' ', f);
        print_tap_text(f, o[i].string);
        if (known || skip) {
            fprintf(f, " # %s %s: ", known ? "TODO" : "SKIP", o[i].code);
            print_tap_text(f, o[i].why);
        }
        fputc('\n', f);
        if (o[i].verdict == V_FAIL) {
            fputs("  ---\n", f);
            print_yaml(f, "code", o[i].code);
            print_yaml(f, "message", o[i].why);
            if (o[i].cause[0])
                print_yaml(f, "cause", o[i].cause);
            print_yaml(f, "case", o[i].string);
            fputs("  ...\n", f);
        }
    }
}

/* ---- tables -------------------------------------------------------------------------------------------- */

static void print_table(FILE *f, enum style style, const struct row_outcome *o, int64_t n, const struct judged_what *what)
{
    struct printer t = {.f = f, .style = style, .column = outcome_columns, .notes = what->notes};
    for (int64_t i = 0; i < n; i++)
        outcome_row(&t, &o[i]);
    table_end(&t);
}

static void print_csv(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what)
{
    print_table(f, STYLE_CSV, o, n, what);
}

static void print_json(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what)
{
    print_table(f, STYLE_JSON, o, n, what);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static const struct kind kinds[] = {{".xml", print_junit}, {".tap", print_tap}, {".csv", print_csv}, {".json", print_json}};

struct reports *reports_new(void)
{
    return xcalloc(1, sizeof(struct reports));
}

void reports_free(struct reports *r)
{
    for (int64_t i = 0; r && i < r->n; i++)
        outcome_clear(&r->o[i]);
    if (r)
        free(r->o);
    free(r);
}

bool reports_add_file(struct reports *r, const char *path, struct err *e)
{
    const struct kind *kind = NULL;
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t end = strlen(kinds[i].end);
        if (n > end && strcmp(path + n - end, kinds[i].end) == 0)
            kind = &kinds[i];
    }
    if (!kind)
        return err_set(e, "--report '%.200s' (expected a name that ends in .xml for JUnit, .tap, .csv or .json)", path);
    if (r->n_paths == REPORTS_MOST)
        return err_set(e, "more than %d reports (expected fewer)", REPORTS_MOST);
    r->kind[r->n_paths] = kind;
    r->path[r->n_paths++] = path;
    return true;
}

void reports_add_statement(struct reports *r, const char *path)
{
    r->statement = path;
}

int32_t reports_paths(const struct reports *r, const char *path[REPORTS_MOST + 1])
{
    int32_t n = 0;
    for (; n < r->n_paths; n++)
        path[n] = r->path[n];
    if (r->statement)
        path[n++] = r->statement;
    return n;
}

void reports_add(struct reports *r, const struct row_outcome *o)
{
    if (r->n_paths == 0 && !r->statement)
        return;
    r->o = xgrow(r->o, &r->cap, r->n + 1, sizeof *r->o);
    r->o[r->n++] = outcome_copy(o);
}

bool reports_write(const struct reports *r, const struct judged_what *what, int64_t left, int64_t expired, struct err *e)
{
    const char *path[REPORTS_MOST + 1];
    int32_t n = reports_paths(r, path);
    bool good = true;
    for (int32_t i = 0; i < n && good; i++) {
        struct outfile out;
        if (!outfile_open(&out, path[i], e))
            return false;
        if (i < r->n_paths)
            r->kind[i]->print(out.f, r->o, r->n, what);
        else
            statement_print(out.f, r->o, r->n, what, left, expired);
        good = outfile_close(&out, true, e);
    }
    return good;
}
