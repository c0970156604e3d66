#include "verify/judge/run_plan.h"
#include "sim/plan_ledger.h"
#include "verify/io/crash.h"
#include "verify/judge/cover.h"

#include <stdio.h>
#include <string.h>

/* Who counts, counts all of it, as sim/ledger.h says: a field that was forgotten would be printed as 0. */
static bool check_counts(const struct problem *p, const struct plan *plan, const struct ledger *counted,
                         struct err *e)
{
    if (memcmp(counted, &(struct ledger){0}, sizeof *counted) == 0)
        return true;
    struct ledger want = ledger_of_plan(plan, &p->heads);
#define X(field, meaning)                                                                                    \
    if (counted->field != want.field)                                                                        \
        return err_set(e, "counted %lld for \"" meaning "\", the plan has %lld", (long long)counted->field,  \
                       (long long)want.field);
    LEDGER_FIELDS(X)
#undef X
    return true;
}

static void fail(struct result *r, enum failure_stage stage, const char *why)
{
    r->verdict = V_FAIL;
    r->stage = stage;
    snprintf(r->why, sizeof r->why, "%s", why);
}

struct output *run_plan(const struct problem *p, const struct guarded *inputs, const struct plan *plan,
                        const struct kernel *k, struct result *r)
{
    struct err e = {0};
    crash_running(k->name);
    if (!cover_check(plan, &e)) {
        fail(r, STAGE_COVERAGE, e.msg);
        return NULL;
    }
    if (!guarded_supports(k, p, plan, r->why)) {
        r->verdict = V_SKIP;
        return NULL;
    }
    struct output *out = output_new(p);
    r->ran = true;
    if (guarded_kernel(k, p, inputs, plan, out, &r->ledger, &r->run_s, &e) &&
        check_counts(p, plan, &r->ledger, &e))
        return out;
    output_free(out);
    fail(r, STAGE_KERNEL, e.msg);
    if (e.code == EXIT_MISSING) { /* memory, say */
        r->verdict = V_SKIP;
        r->ran = false;
    }
    return NULL;
}
