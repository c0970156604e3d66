#include "verify/judge/judge.h"
#include "verify/judge/arithmetic.h"
#include "verify/io/crash.h"
#include "verify/judge/diagnose.h"
#include "verify/judge/properties.h"
#include "verify/judge/run_plan.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Problem and oracle; a kernel needs about as much again for its partials. */
static bool check_memory(const struct tree *t, const struct problem_spec *s, struct err *e)
{
    int64_t have = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t rows = (int64_t)t->n_queries * s->heads.h_q;
    int64_t need = problem_bytes(t, s) + 4 * rows * s->heads.d * (int64_t)sizeof(double);
    if (need <= have / 2)
        return true;
    return err_missing(
        e, "the case needs %" PRId64 " MiB for K, V and the oracle, the machine has %" PRId64 " MiB",
        need >> 20, have >> 20);
}

struct test_case *test_case_new(const struct case_spec *c, struct tree *tree, struct err *e)
{
    struct tree *t = tree ? tree : tree_source_load(&c->src, e);
    if (!t || !problem_spec_check(&c->spec, e) || !check_memory(t, &c->spec, e)) {
        tree_free(t);
        return NULL;
    }
    struct problem *p = problem_new(t, &c->spec, e);
    if (!p) {
        tree_free(t);
        return NULL;
    }
    struct test_case *b = xcalloc(1, sizeof *b);
    *b = (struct test_case){
        .c = c,
        .tree = t,
        .nf = nform_new(t),
        .p = p,
        .inputs = guarded_inputs(p),
        .orc = oracle_new(p),
        .env = plan_env_default(p->heads),
    };
    return b;
}

void test_case_free(struct test_case *b)
{
    if (!b)
        return;
    oracle_free(b->orc);
    problem_free(b->p);
    nform_free(b->nf);
    tree_free(b->tree);
    free(b);
}

/* Partial O of the plan in fp16 from now on; false with the reason where that is not sound, or nothing. */
static bool narrow_partials(struct plan *plan, enum dtype t, char *why)
{
    if (plan->n_slots == 0)
        return why_not(why, "the plan has no partial results");
    if (plan->slot_weight != SLOT_LSE)
        return why_not(why, "a partial O that is not normalised does not fit fp16");
    if (t == DT_F64)
        return why_not(why, "partial results of f64 stay f64");
    plan->slot_o = SLOT_O_F16;
    return true;
}

/* The first tile, and whether there are others. */
static void name_tile(const struct plan *plan, char *out, size_t size)
{
    snprintf(out, size, "-");
    bool mixed = false;
    for (int64_t i = 0; i < plan->n_groups; i++)
        mixed = mixed || plan->group[i].tile_m != plan->group[0].tile_m ||
                plan->group[i].tile_n != plan->group[0].tile_n;
    if (plan->n_groups == 0)
        return;
    if (plan->group[0].tile_m == 0 && plan->group[0].tile_n == 0)
        snprintf(out, size, "whole%s", mixed ? "+" : "");
    else
        snprintf(out, size, "%" PRId32 "x%" PRId32 "%s", plan->group[0].tile_m, plan->group[0].tile_n,
                 mixed ? "+" : "");
}

struct output *judge_plan(const struct problem *p, const struct guarded *inputs, const struct oracle *orc,
                          const struct plan *plan, const struct kernel *k, struct result *r)
{
    struct output *out = run_plan(p, inputs, plan, k, r);
    if (!out)
        return NULL;
    struct arithmetic a = arithmetic_of(p, plan, k);
    r->cmp = compare_output(p, orc, out, &a);
    r->compared = true;
    r->verdict = r->cmp.verdict;
    snprintf(r->why, sizeof r->why, "%s", r->cmp.why);
    if (r->verdict == V_FAIL) {
        r->stage = STAGE_NUMBERS;
        diagnose(p, orc, out, &r->cmp, r->guess, sizeof r->guess);
    }
    return out;
}

/* Whoever wrote to the problem has been told; the next kernel gets it as it was. */
static void make_anew(struct problem *p, const struct tree *t, const struct problem_spec *s)
{
    struct problem *sound = problem_new(t, s, NULL), spoilt = *p;
    CK(sound); /* as it could be made before */
    *p = *sound;
    *sound = spoilt;
    problem_free(sound);
}

/* What runs this again; the caller frees. It is made before the run: a signal handler may not allocate. */
static char *command_of(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                        const struct property *law)
{
    struct case_spec c = *b->c;
    c.use = *use;
    c.kernel = k;
    char *text = case_print(&c), *quoted = text_quote(text),
         *command =
             xasprintf("%s verify %s--case %s", program_invocation_name, law ? "--properties " : "", quoted);
    free(text);
    free(quoted);
    return command;
}

static struct result plan_and_judge(const struct test_case *b, const struct strategy_use *use,
                                    const struct kernel *k)
{
    struct result r = {.use = use, .strategy = use->s->name, .kernel = k->name, .tile = "-"};
    const char *wrote;
    struct plan *plan = guarded_plan(use, b->nf, &b->env, r.why, &r.plan_s, &wrote);
    if (wrote) {
        snprintf(r.why, sizeof r.why, "wrote to %s", wrote);
        r.verdict = V_FAIL;
        r.stage = STAGE_STRATEGY;
        plan_free(plan);
        return r;
    }
    if (!plan) {
        r.verdict = V_SKIP;
        return r;
    }
    r.planned = true;
    r.n_groups = plan->n_groups;
    r.n_launches = plan->n_launches;
    name_tile(plan, r.tile, sizeof r.tile);
    if (b->c->narrow_partials && !narrow_partials(plan, b->p->heads.dtype, r.why)) {
        r.verdict = V_SKIP;
        plan_free(plan);
        return r;
    }
    struct output *out = judge_plan(b->p, &b->inputs, b->orc, plan, k, &r);
    output_free(out);
    plan_free(plan);
    return r;
}

static struct result check_law(const struct test_case *b, const struct strategy_use *use,
                               const struct kernel *k, const struct property *law)
{
    struct property_case c = {.p = b->p, .use = *use, .kernel = k, .seed = b->c->spec.seed};
    struct result r = property_check(law, &c);
    r.use = use;
    return r;
}

struct result judge_law(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                        const struct property *law)
{
    char *command = command_of(b, use, k, law);
    crash_planning(use->s->name, command);
    struct result r = law ? check_law(b, use, k, law) : plan_and_judge(b, use, k);
    if (r.verdict == V_FAIL && guarded_change(&b->inputs, b->p))
        make_anew(b->p, b->tree, &b->c->spec);
    for (char *c = r.why; *c; c++) /* a kernel may say what it likes: lines and tabs are the tables' */
        *c = *c == '\t' || *c == '\n' || *c == '\r' ? ' ' : *c;
    crash_done();
    free(command);
    return r;
}

struct result judge_case(const struct test_case *b, const struct strategy_use *use, const struct kernel *k)
{
    return judge_law(b, use, k, NULL);
}

int32_t judge_laws(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                   struct result *broken, int64_t *held)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_properties && !b->c->narrow_partials; i++) {
        broken[n] = judge_law(b, use, k, &properties[i]);
        *held += broken[n].verdict == V_PASS;
        n += broken[n].verdict == V_FAIL;
    }
    return n;
}
