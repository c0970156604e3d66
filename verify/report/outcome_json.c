#include "verify/report/outcome_json.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *json_of_text(const char *s)
{
    json_t *j = json_string(s);
    return j ? j : json_string("?"); /* not UTF-8 */
}

/* JSON has no infinity: the largest number, as in tables. */
static json_t *json_of_number(double x, bool whole)
{
    if (isnan(x))
        return json_null();
    if (whole)
        return json_integer((json_int_t)x);
    return json_real(isinf(x) ? copysign(DBL_MAX, x) : x);
}

json_t *outcome_json(const struct row_outcome *o)
{
    json_t *j = json_object();
    json_object_set_new(j, "case", json_of_text(o->label));
    json_object_set_new(j, "verdict", json_string(verdict_name[o->verdict]));
    json_object_set_new(j, "code", json_string(o->code));
    for (int i = 0; i < N_OUTCOME_NUMBERS; i++)
        json_object_set_new(j, outcome_number_columns[i].column, json_of_number(o->number[i], outcome_number_columns[i].digits == 0));
    json_object_set_new(j, "why", json_of_text(o->why));
    json_object_set_new(j, "cause", json_of_text(o->cause));
    json_object_set_new(j, "string", json_of_text(o->string));
    json_object_set_new(j, "kernel", json_of_text(o->kernel));
    json_object_set_new(j, "refused", json_boolean(o->refused));
    return j;
}

static bool read_text(const json_t *object, const char *key, const char **out, struct err *e)
{
    *out = json_string_value(json_object_get(object, key));
    return *out || err_set(e, "no text '%s' (expected a row as --rows writes it)", key);
}

static bool read_verdict(const char *word, enum verdict *out, struct err *e)
{
    for (int v = V_PASS; v <= V_SKIP; v++)
        if (strcmp(word, verdict_name[v]) == 0) {
            *out = (enum verdict)v;
            return true;
        }
    return err_set(e, "verdict '%.40s' (expected PASS, MARGINAL, FAIL or SKIP)", word);
}

bool outcome_read(const json_t *object, struct row_outcome *out, struct err *e)
{
    static const char *const key[] = {"case", "verdict", "code", "why", "cause", "string", "kernel"};
    enum { CASE, VERDICT, CODE, WHY, CAUSE, STRING, KERNEL, N_KEYS };
    const char *text[N_KEYS];
    struct row_outcome o = {.verdict = V_SKIP};
    for (int i = 0; i < N_KEYS; i++)
        if (!read_text(object, key[i], &text[i], e))
            return false;
    if (!read_verdict(text[VERDICT], &o.verdict, e))
        return false;
    if (strlen(text[CODE]) >= sizeof o.code)
        return err_set(e, "code '%.40s' (expected one word)", text[CODE]);
    for (int i = 0; i < N_OUTCOME_NUMBERS; i++) {
        const json_t *j = json_object_get(object, outcome_number_columns[i].column);
        if (!json_is_number(j) && !json_is_null(j))
            return err_set(e, "'%s' is no number (expected one, or null)", outcome_number_columns[i].column);
        double x = json_is_null(j) ? NAN : json_number_value(j);
        o.number[i] = fabs(x) >= DBL_MAX ? copysign(INFINITY, x) : x;
    }
    snprintf(o.code, sizeof o.code, "%s", text[CODE]);
    o.refused = json_is_true(json_object_get(object, "refused"));
    o.label = xstrdup(text[CASE]);
    o.kernel = xstrdup(text[KERNEL]);
    o.why = xstrdup(text[WHY]);
    o.cause = xstrdup(text[CAUSE]);
    o.string = xstrdup(text[STRING]);
    *out = o;
    return true;
}
