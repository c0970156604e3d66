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

void totals_add_outcome(struct totals *t, const struct row_outcome *o)
{
    t->n[o->verdict]++;
    t->refused += o->refused;
    t->known += strcmp(o->code, "KNOWN") == 0;
    if (!isnan(o->number[OUTCOME_WORST]))
        t->worst = fmax(t->worst, o->number[OUTCOME_WORST]);
}

void totals_print(FILE *f, const char *name, const struct totals *t, const char *more)
{
    fprintf(f,
            "%s: %" PRId64 " cases, %" PRId64 " passed, %" PRId64 " marginal, %" PRId64 " failed, %" PRId64
            " skipped",
            name, totals_cases(t), t->n[V_PASS], t->n[V_MARGINAL], t->n[V_FAIL], t->n[V_SKIP]);
    if (t->refused > 0)
        fprintf(f, " (%" PRId64 " by kernels%s", t->refused, t->known > 0 ? "" : ")");
    if (t->known > 0)
        fprintf(f, "%s%" PRId64 " known)", t->refused > 0 ? ", " : " (", t->known);
    fprintf(f, "%s\n", more);
}

struct row_outcome result_outcome(const struct result *r, const struct heads *heads, const char *case_text)
{
    char why[RESULT_SENTENCE];
    bool counted = result_is_counted(r);
    struct row_outcome o = {.verdict = r->verdict, .refused = r->refused, .ended = r->end != RUN_DONE};
    const double number[N_OUTCOME_NUMBERS] = {
        [OUTCOME_WORST] = r->compared ? r->cmp.worst : NAN,
        [OUTCOME_WORST_O] = r->compared ? r->cmp.worst_o : NAN,
        [OUTCOME_WORST_LSE] = r->compared ? r->cmp.worst_lse : NAN,
        [OUTCOME_REL_O] = r->compared ? r->cmp.rel_o : NAN,
        [OUTCOME_REL_LSE] = r->compared ? r->cmp.rel_lse : NAN,
        [OUTCOME_LOGIT] = r->compared ? r->cmp.max_logit : NAN,
        [OUTCOME_GROUPS] = r->planned ? (double)r->n_groups : NAN,
        [OUTCOME_KV_BYTES] = counted ? (double)r->ledger.kv : NAN,
        [OUTCOME_PARTIAL_BYTES] = counted ? (double)ledger_partials(&r->ledger) : NAN,
        [OUTCOME_PAD_ROWS] = counted ? (double)r->ledger.pad_rows : NAN,
        [OUTCOME_LAUNCHES] = r->planned ? (double)r->n_launches : NAN,
        [OUTCOME_PLAN_MS] = r->planned ? 1e3 * r->plan_s : NAN,
        [OUTCOME_RUN_MS] = r->ran ? 1e3 * r->run_s : NAN,
    };
    memcpy(o.number, number, sizeof number);
    snprintf(o.code, sizeof o.code, "%s", result_code(r));
    o.label = xasprintf("%s/%s/%s/%s", r->strategy, r->kernel, heads_dtype_name(heads), r->tile);
    o.kernel = xstrdup(r->kernel);
    o.why = xstrdup(sentence(r, why));
    o.cause = xstrdup(r->cause.text);
    o.string = xstrdup(case_text);
    return o;
}
