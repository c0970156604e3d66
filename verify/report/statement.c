#include "verify/report/statement.h"
#include "verify/io/environment.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *text_or_null(const char *s)
{
    json_t *j = s && s[0] ? json_string(s) : json_null();
    return j ? j : json_string("?"); /* not UTF-8 */
}

static int by_text(const void *a, const void *b)
{
    const struct row_outcome *x = *(const struct row_outcome *const *)a, *y = *(const struct row_outcome *const *)b;
    int order = strcmp(x->string, y->string);
    return order ? order : strcmp(x->label, y->label);
}

/* Those that failed, or are known to, by name. */
static json_t *failures(const struct row_outcome *o, int64_t n, bool known)
{
    json_t *list = json_array();
    const struct row_outcome **some = xcalloc((size_t)n + 1, sizeof(const struct row_outcome *));
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (known ? strcmp(o[i].code, "KNOWN") == 0 : o[i].verdict == V_FAIL)
            some[m++] = &o[i];
    if (m > 1)
        qsort(some, (size_t)m, sizeof *some, by_text);
    for (int64_t i = 0; i < m; i++) {
        json_t *j = json_object();
        json_object_set_new(j, "row", text_or_null(some[i]->label));
        json_object_set_new(j, "case", text_or_null(some[i]->string));
        if (!known)
            json_object_set_new(j, "code", json_string(some[i]->code));
        json_object_set_new(j, "why", text_or_null(some[i]->why));
        json_array_append_new(list, j);
    }
    free(some);
    return list;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *counts(const struct row_outcome *o, int64_t n, bool codes)
{
    json_t *j = json_object();
    for (int v = V_PASS; !codes && v <= V_SKIP; v++) /* all of them, also where there is none */
        json_object_set_new(j, verdict_name[v], json_integer(0));
    const char **name = xcalloc((size_t)n + 1, sizeof *name);
    for (int64_t i = 0; codes && i < n; i++)
        name[i] = o[i].code;
    if (codes && n > 1)
        qsort(name, (size_t)n, sizeof *name, by_name);
    for (int64_t i = 0; codes && i < n; i++) /* in an order of their own */
        json_object_set_new(j, name[i], json_integer(0));
    free(name);
    for (int64_t i = 0; i < n; i++) {
        const char *key = codes ? o[i].code : verdict_name[o[i].verdict];
        json_object_set_new(j, key, json_integer(json_integer_value(json_object_get(j, key)) + 1));
    }
    return j;
}

static double worst_of(const struct row_outcome *o, int64_t n)
{
    double worst = NAN;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(o[i].number[OUTCOME_WORST]))
            worst = isnan(worst) ? o[i].number[OUTCOME_WORST] : fmax(worst, o[i].number[OUTCOME_WORST]);
    return worst;
}

void statement_print(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what, int64_t left,
                     int64_t expired)
{
    json_t *j = json_object(), *suite = json_object(), *kernel = json_object(), *of = counts(o, n, false);
    int64_t failed = json_integer_value(json_object_get(of, verdict_name[V_FAIL])),
            ran = n - json_integer_value(json_object_get(of, verdict_name[V_SKIP]));
    double worst = worst_of(o, n);
    bool whole = left == 0 && what->shards == 1;
    json_object_set_new(j, "format", json_string("treeattn-statement"));
    json_object_set_new(j, "version", json_integer(STATEMENT_VERSION));
    json_object_set_new(suite, "name", text_or_null(what->suite));
    json_object_set_new(suite, "sha256", text_or_null(what->sha256));
    json_object_set_new(suite, "cases", json_integer(what->cases));
    json_object_set_new(j, "suite", suite);
    json_object_set_new(kernel, "name", text_or_null(what->kernel));
    json_object_set_new(kernel, "version", text_or_null(what->version));
    json_object_set_new(kernel, "how", text_or_null(what->how));
    json_object_set_new(j, "kernel", kernel);
    json_object_set_new(j, "options", text_or_null(what->options));
    json_object_set_new(j, "result",
                        json_string(failed > 0 || expired > 0 ? "failed" : !whole ? "incomplete" : ran == 0 ? "nothing ran" : "passed"));
    json_object_set_new(j, "part", json_pack("[I,I]", (json_int_t)what->shard + 1, (json_int_t)what->shards));
    json_object_set_new(j, "cases_left", json_integer(left));
    json_object_set_new(j, "rows", json_integer(n));
    json_object_set_new(j, "verdicts", of);
    json_t *codes = counts(o, n, true);
    json_object_set_new(j, "codes", codes);
    json_object_set_new(j, "worst_error", isnan(worst) ? json_null() : isinf(worst) ? json_string("infinite") : json_real(worst));
    json_object_set_new(j, "failed", failures(o, n, false));
    json_object_set_new(j, "known", failures(o, n, true));
    json_object_set_new(j, "environment", environment_then());
    json_dumpf(j, f, JSON_INDENT(2) | JSON_REAL_PRECISION(4) | JSON_PRESERVE_ORDER);
    fputc('\n', f);
    json_decref(j);
}
