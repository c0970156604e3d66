#include "verify/judge/result.h"
#include "verify/judge/properties.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const stage_name[] = {[STAGE_NONE] = "",
                                         [STAGE_STRATEGY] = "strategy: ",
                                         [STAGE_COVERAGE] = "coverage: ",
                                         [STAGE_KERNEL] = "kernel: ",
                                         [STAGE_NUMBERS] = "",
                                         [STAGE_REPEAT] = "again with ",
                                         [STAGE_LAW] = ""};

#define GROSS 1e-2 /* of a row, whose numbers may be next to nothing, */
#define TINY 1e-4  /* and no less than this */

bool result_is_gross(const struct result *r)
{
    const struct comparison *c = &r->cmp;
    double off = fabs(c->got - c->want);
    bool much = !isfinite(c->worst) || fmax(c->rel_o, c->rel_lse) >= GROSS;
    bool numbers = r->stage == STAGE_NUMBERS || (r->stage == STAGE_REPEAT && r->compared);
    return numbers && (!isfinite(off) || (much && off > TINY));
}

/* Of numbers that are wrong. */
static const char *code_of_numbers(const struct comparison *c)
{
    if (isnan(c->got) && nan_kind(c->got) == NAN_UNWRITTEN)
        return "UNWRITTEN";
    if (isfinite(c->want) && !isfinite(c->got))
        return "NOT_FINITE";
    return c->worst_o <= 1 && c->worst_lse > 1 ? "LSE" : "NUMBERS";
}

/* Of a kernel here, which says what it did in a sentence. */
static const char *code_of_kernel(const char *why)
{
    static const char *const begins[][2] = {
        {"wrote to ", "WROTE_INPUT"}, {"wrote ", "WROTE_OUTSIDE"}, {"counted ", "COUNTS"}};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(why, begins[i][0], strlen(begins[i][0])) == 0)
            return begins[i][1];
    return "ERROR";
}

const char *result_code(const struct result *r)
{
    if (r->end != RUN_DONE)
        return run_end_name[r->end];
    if (r->verdict == V_PASS)
        return "OK";
    if (r->verdict == V_MARGINAL)
        return "CLOSE";
    if (r->verdict == V_SKIP)
        return r->stage == STAGE_KERNEL ? "MISSING" : r->refused ? "UNSUPPORTED" : "NO_PLAN";
    switch (r->stage) {
    case STAGE_STRATEGY:
        return strncmp(r->why, "wrote ", strlen("wrote ")) == 0 ? "WROTE_INPUT" : "BAD_PLAN";
    case STAGE_COVERAGE:
        return "BAD_PLAN";
    case STAGE_KERNEL:
        return code_of_kernel(r->why);
    case STAGE_REPEAT:
        /* what is a little off would be so in a run of its own */
        return r->compared && (r->by_itself || !result_is_gross(r)) ? code_of_numbers(&r->cmp) : "STATE";
    case STAGE_LAW:
        return "LAW";
    case STAGE_NUMBERS:
    case STAGE_NONE:
        break;
    }
    return code_of_numbers(&r->cmp);
}

static const char *sentence(const struct result *r, char text[RESULT_SENTENCE])
{
    snprintf(text, RESULT_SENTENCE, "%s%s%s%s%s", r->law ? "law " : "", r->law ? r->law->name : "",
             r->law ? ": " : "", r->end == RUN_DONE ? stage_name[r->stage] : "", r->why);
    return text;
}

const char *result_sentence(const struct result *r, char text[RESULT_SENTENCE])
{
    if (r->end != RUN_DONE)
        snprintf(text, RESULT_SENTENCE, "%s: %s", run_end_name[r->end], r->why);
    else
        sentence(r, text);
    return text;
}

bool result_is_counted(const struct result *r)
{
    return r->ran && memcmp(&r->ledger, &(struct ledger){0}, sizeof r->ledger) != 0;
}

int64_t totals_cases(const struct totals *t)
{
    return t->n[V_PASS] + t->n[V_MARGINAL] + t->n[V_FAIL] + t->n[V_SKIP];
}

void totals_add(struct totals *t, const struct result *r)
{
    t->n[r->verdict]++;
    t->refused += r->refused;
    if (r->compared)
        t->worst = fmax(t->worst, r->cmp.worst);
}

void totals_print(FILE *f, const char *name, const struct totals *t, const char *more)
{
    fprintf(f,
            "%s: %" PRId64 " cases, %" PRId64 " passed, %" PRId64 " marginal, %" PRId64 " failed, %" PRId64
            " skipped",
            name, totals_cases(t), t->n[V_PASS], t->n[V_MARGINAL], t->n[V_FAIL], t->n[V_SKIP]);
    if (t->refused > 0)
        fprintf(f, " (%" PRId64 " by kernels)", t->refused);
    fprintf(f, "%s\n", more);
}

const char *const result_columns[] = {"case",      "verdict",       "code",     "worst",    "worst_o",
                                      "worst_lse", "rel_o",         "rel_lse",  "logit",    "groups",
                                      "kv_bytes",  "partial_bytes", "pad_rows", "launches", "plan_ms",
                                      "run_ms",    "why",           "cause",    "string",   NULL};

void result_row(struct printer *t, const struct result *r, const struct heads *heads, const char *case_text)
{
    char *name = xasprintf("%s/%s/%s/%s", r->strategy, r->kernel, heads_dtype_name(heads), r->tile);
    table_text(t, name);
    free(name);
    table_text(t, verdict_name[r->verdict]);
    table_text(t, result_code(r));
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
    char why[RESULT_SENTENCE];
    table_text(t, sentence(r, why));
    table_text(t, r->cause.text);
    table_text(t, case_text);
}
