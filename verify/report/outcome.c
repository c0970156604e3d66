#include "verify/report/outcome.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct outcome_number_column outcome_number_columns[] = {
#define NUMBER(id, column, digits) {column, digits},
    OUTCOME_NUMBERS(NUMBER)
#undef NUMBER
};

const char *const outcome_columns[] = {"case", "verdict", "code",
#define NUMBER(id, column, digits) column,
                                       OUTCOME_NUMBERS(NUMBER)
#undef NUMBER
                                           "why", "cause", "string", NULL};

/* verify/README.md and verify/child/README.md say what each means. */
static const char *const fails[] = {"NUMBERS", "LSE",     "NOT_FINITE", "UNWRITTEN",    "WROTE_INPUT", "WROTE_OUTSIDE",
                                    "BAD_PLAN", "COUNTS", "STATE",      "LAW",          "ERROR",       "CRASH",
                                    "EXIT",     "HANG",   "MEMORY",     "DEVICE_FAULT", "PROTOCOL",    "PROCESSES",
                                    "SHAPE",    "DTYPE"};
enum { N_FAILS = sizeof fails / sizeof fails[0] };

bool outcome_code_fails(const char *code)
{
    bool found = false;
    for (int i = 0; i < N_FAILS; i++)
        found = found || strcmp(code, fails[i]) == 0;
    return found;
}

void outcome_codes(char *list, size_t size)
{
    list[0] = 0;
    for (int i = 0; i < N_FAILS; i++)
        listing_add(list, size, fails[i]);
}

void outcome_clear(struct row_outcome *o)
{
    free(o->label);
    free(o->kernel);
    free(o->why);
    free(o->cause);
    free(o->string);
    *o = (struct row_outcome){.verdict = V_SKIP};
}

struct row_outcome outcome_copy(const struct row_outcome *o)
{
    struct row_outcome copy = *o;
    copy.label = xstrdup(o->label);
    copy.kernel = xstrdup(o->kernel);
    copy.why = xstrdup(o->why);
    copy.cause = xstrdup(o->cause);
    copy.string = xstrdup(o->string);
    return copy;
}

double outcome_seconds(const struct row_outcome *o)
{
    double plan = o->number[OUTCOME_PLAN_MS], run = o->number[OUTCOME_RUN_MS];
    return 1e-3 * ((isnan(plan) ? 0 : plan) + (isnan(run) ? 0 : run));
}

void outcome_row(struct printer *t, const struct row_outcome *o)
{
    table_text(t, o->label);
    table_text(t, verdict_name[o->verdict]);
    table_text(t, o->code);
    for (int i = 0; i < N_OUTCOME_NUMBERS; i++)
        if (outcome_number_columns[i].digits > 0)
            table_f64_if(t, !isnan(o->number[i]), o->number[i], outcome_number_columns[i].digits);
        else
            table_i64_if(t, !isnan(o->number[i]), isnan(o->number[i]) ? 0 : (int64_t)o->number[i]);
    table_text(t, o->why);
    table_text(t, o->cause);
    table_text(t, o->string);
}
