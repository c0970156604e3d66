#include "verify/judge/judge.h"
#include "sim/plan_ledger.h"
#include "verify/io/crash.h"
#include "verify/judge/cover.h"
#include "verify/judge/outside.h"
#include "verify/judge/properties.h"
#include "verify/judge/repeat.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(struct result *r, enum failure_stage stage, const char *why)
{
    r->verdict = V_FAIL;
    r->stage = stage;
    snprintf(r->why, sizeof r->why, "%s", why);
}

/* Problem and oracle; a kernel needs about as much again for its partials. */
static bool check_memory(const struct tree *t, const struct problem_spec *s, struct err *e)
{
    int64_t have = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t rows = (int64_t)t->n_queries * s->heads.h_q;
    int64_t need = problem_bytes(t, s) + 5 * rows * s->heads.d * (int64_t)sizeof(double);
    if (need <= have / 2)
        return true;
    return err_missing(
        e, "the case needs %" PRId64 " MiB for K, V and the oracle, the machine has %" PRId64 " MiB",
        need >> 20, have >> 20);
}

struct test_case *test_case_new(const struct case_spec *c, struct tree *tree, struct err *e)
{
    struct tree *t = tree ? tree : tree_source_load(&c->src, e);
    if (t && c->aligned) {
        struct tree *aligned = tree_aligned(t, c->spec.page_size);
        tree_free(t);
        t = aligned;
    }
    if (t)
        tree_set_window(t, c->spec.window);
    bool good = t && problem_spec_check(&c->spec, e) && check_memory(t, &c->spec, e);
    struct problem *p = good ? problem_new(t, &c->spec, e) : NULL;
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
        /* a kernel outside answers before the right answer is there */
        .orc = c->kernel && c->kernel->attend ? NULL : oracle_new(p),
        .env = plan_env_default(p->heads),
        .repeat = repeat_new(t, p, &c->spec, c->aligned),
    };
    return b;
}

void test_case_free(struct test_case *b)
{
    if (!b)
        return;
    repeat_free(b->repeat);
    oracle_free(b->orc);
    problem_free(b->p);
    nform_free(b->nf);
    tree_free(b->tree);
    free(b);
}

/* Partial O of the plan in fp16 from now on; false with the reason where that is not sound, or nothing. */
static bool narrow_partials(struct plan *plan, enum dtype t, const struct oracle *orc, char *why)
{
    const double most = 65504; /* of fp16 */
    bool fits = true;
    for (int64_t i = 0; i < orc->n_rows * orc->d && fits; i++)
        fits = orc->max_v[i] <= most;
    if (!fits)
        return why_not(why, "V, and with it a partial O, is beyond fp16");
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
    const struct group *g = plan->group;
    bool mixed = false;
    for (int64_t i = 0; i < plan->n_groups; i++)
        mixed = mixed || g[i].tile_m != g->tile_m || g[i].tile_n != g->tile_n;
    if (plan->n_groups > 0 && g->tile_m == 0 && g->tile_n == 0)
        snprintf(out, size, "whole%s", mixed ? "+" : "");
    else if (plan->n_groups > 0)
        snprintf(out, size, "%" PRId32 "x%" PRId32 "%s", g->tile_m, g->tile_n, mixed ? "+" : "");
}

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
        r->refused = true;
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
        r->refused = true;
        r->ran = false;
    }
    return NULL;
}

void judge_written(const struct problem *p, const struct oracle *orc, const struct output *out,
                   const struct arithmetic *a, struct result *r)
{
    r->cmp = compare_output(p, orc, out, a);
    r->compared = true;
    r->verdict = r->cmp.verdict;
    snprintf(r->why, sizeof r->why, "%s", r->cmp.why);
    if (r->verdict == V_FAIL)
        r->stage = STAGE_NUMBERS;
}

void explain_numbers(const struct problem *p, const struct oracle *orc, const struct plan *plan,
                     const struct kernel *k, const struct output *out, const struct arithmetic *a,
                     answers_again *again, void *context, struct result *r)
{
    bool number = isfinite(r->cmp.got);
    if (number)
        r->cause = find_cause(p, orc, plan, k, out, a, &r->cmp, false);
    if (number && r->cause.text[0])
        return;
    /* NaN says little of who read it, and nothing where "sum > 0 ? .. : 0" or a maximum made a number of it. */
    struct problem *finite = problem_without_nan(p);
    struct output *other = finite ? again(finite, context) : NULL;
    struct comparison cmp = {.verdict = V_PASS};
    if (other)
        cmp = compare_output(finite, orc, other, a);
    if (cmp.verdict == V_FAIL)
        r->cause = find_cause(finite, orc, plan, k, other, a, &cmp, true);
    else if (!number)
        r->cause = find_cause(p, orc, plan, k, out, a, &r->cmp, false);
    output_free(other);
    problem_free(finite);
}

struct output *judge_plan(const struct problem *p, const struct guarded *inputs, const struct oracle *orc,
                          const struct plan *plan, const struct kernel *k, struct result *r)
{
    struct output *out = run_plan(p, inputs, plan, k, r);
    if (!out)
        return NULL;
    struct arithmetic a = arithmetic_of(p, plan, k);
    judge_written(p, orc, out, &a, r);
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
             xasprintf("%s verify %s%s%s--case %s", program_invocation_name, law ? "--properties " : "",
                       k->option ? k->option : "", k->option ? " " : "", quoted);
    free(text);
    free(quoted);
    return command;
}

/* ---- once more, on something else ------------------------------------------------------------------------- */

/* What runs: a plan, which the strategy has made, or the kernel alone. */
struct repeated {
    const struct test_case *b;
    const struct strategy_use *use;
    const struct kernel *k;
    const struct plan *plan; /* NULL: of a kernel outside */
};

/* The plan of what is there now; *own is to be freed. NULL: there is none. */
static const struct plan *plan_again(const struct repeated *x, enum repeat_change change, struct plan **own)
{
    char why[WHY_MAX];
    const char *wrote;
    double seconds;
    if (change == REPEAT_CONTENTS)
        return x->plan;
    return *own = guarded_plan(x->use, repeat_nform(x->b->repeat), &x->b->env, why, &seconds, &wrote);
}

/* A kernel that runs plans, and one outside; *r is zero at first. */
static void run_changed(const struct repeated *x, const struct plan *plan, struct result *r)
{
    struct repeat *repeat = x->b->repeat;
    struct output *out = judge_plan(x->b->p, repeat_inputs(repeat), repeat_oracle(repeat), plan, x->k, r);
    if (r->stage == STAGE_NUMBERS)
        repeat_blame(repeat, out, r->cause.text, sizeof r->cause.text);
    output_free(out);
}

static void ask_changed(const struct repeated *x, const struct plan *plan, bool fresh, struct result *r)
{
    struct err e = {0};
    struct test_case changed = *x->b;
    changed.fresh = fresh;
    changed.tally = NULL; /* properties are asked for once a case */
    changed.no_cause = true;
    if (!plan || cover_check(plan, &e))
        judge_outside(&changed, plan, x->k, r);
    else
        fail(r, STAGE_COVERAGE, e.msg);
}

/* Run on what is there now, and judged. A plan or a kernel that does not take it tells nothing: SKIP. */
static struct result run_again(const struct repeated *x, enum repeat_change change)
{
    struct result r = {.verdict = V_PASS};
    struct plan *own = NULL;
    const struct plan *plan = x->plan ? plan_again(x, change, &own) : NULL;
    if (x->plan && !plan)
        r.verdict = V_SKIP;
    else if (x->k->attend)
        ask_changed(x, plan, false, &r);
    else
        run_changed(x, plan, &r);
    if (x->k->attend &&
        r.stage == STAGE_NUMBERS) { /* for want of that its state is to blame, or what it does at any time */
        struct result alone = {.verdict = V_PASS};
        ask_changed(x, plan, true, &alone);
        r.by_itself = alone.stage == STAGE_NUMBERS;
    }
    plan_free(own);
    return r;
}

/* A small case that was right runs again, in place. *r stays, unless that is worse. */
static void judge_repeated(const struct repeated *x, struct result *r)
{
    char why[RESULT_SENTENCE];
    for (enum repeat_change change = REPEAT_CONTENTS; x->b->repeat && change < N_REPEAT_CHANGES; change++) {
        if (r->verdict == V_FAIL || r->verdict == V_SKIP || !repeat_make(x->b->repeat, change))
            continue;
        struct result again = run_again(x, change);
        if (again.verdict == V_SKIP || again.verdict <= r->verdict)
            continue;
        r->verdict = again.verdict;
        r->stage = again.verdict == V_FAIL ? STAGE_REPEAT : STAGE_NONE;
        r->end = again.end;
        r->cmp = again.cmp;
        r->compared = again.compared;
        r->cause = again.cause;
        r->by_itself = again.by_itself;
        if (again.verdict == V_FAIL)
            snprintf(r->why, sizeof r->why, "%s: %.400s", repeat_words(x->b->repeat),
                     again.end == RUN_DONE ? result_sentence(&again, why) : again.why);
    }
    if (x->b->repeat)
        repeat_make(x->b->repeat, REPEAT_AS_WAS);
}

/* ---- NaN -------------------------------------------------------------------------------------------------- */

/* Is the element that came out NaN so again where no memory is poisoned? */
static bool nan_without_poison(const struct test_case *b, const struct plan *plan, const struct kernel *k,
                               const struct comparison *c)
{
    struct problem_spec spec = b->c->spec;
    spec.poison = false;
    struct problem *p = problem_new(b->tree, &spec, NULL);
    CK(p); /* as it could be made before */
    struct guarded inputs = guarded_inputs(p);
    struct result r = {0};
    struct output *out = run_plan(p, &inputs, plan, k, &r);
    bool same = out && isnan(c->col < 0 ? output_lse(out, c->row)
                                        : dtype_load(out->dtype, out->o, c->row * out->d + c->col));
    output_free(out);
    problem_free(p);
    return same;
}

/* NaN that is neither what was there before nor what lies in memory that is nobody's: that of invalid operations. Or of either,
 * after a conversion that did not hand its kind on. */
static void tell_nan(const struct test_case *b, const struct plan *plan, const struct kernel *k,
                     struct result *r)
{
    if (r->stage != STAGE_NUMBERS || !isnan(r->cmp.got) || nan_kind(r->cmp.got) != NAN_COMPUTED)
        return;
    bool computed = !b->c->spec.poison || nan_without_poison(b, plan, k, &r->cmp);
    compare_tell(&r->cmp, b->p->heads.h_q,
                 computed ? "inf - inf, 0 * inf or 0 / 0 in the kernel"
                          : "read from memory that is nobody's");
    snprintf(r->why, sizeof r->why, "%s", r->cmp.why);
}

/* A kernel outside, which makes no use of plans. */
static struct result attend_and_judge(const struct test_case *b, const struct kernel *k)
{
    static const struct strategy_use none = {.s = NULL};
    struct result r = {.use = &none, .strategy = k->view, .kernel = k->name, .tile = "-"};
    judge_outside(b, NULL, k, &r);
    judge_repeated(&(struct repeated){.b = b, .k = k}, &r);
    return r;
}

/* The same plan on another problem of its shape. */
struct planned {
    const struct plan *plan;
    const struct kernel *k;
};

static struct output *plan_answers(const struct problem *p, void *context)
{
    const struct planned *x = context;
    struct result ignored = {.verdict = V_PASS};
    struct guarded inputs = guarded_inputs(p);
    return run_plan(p, &inputs, x->plan, x->k, &ignored);
}

static void judge_and_explain(const struct test_case *b, const struct plan *plan, const struct kernel *k,
                              struct result *r)
{
    struct output *out = judge_plan(b->p, &b->inputs, b->orc, plan, k, r);
    struct arithmetic a = arithmetic_of(b->p, plan, k);
    struct planned x = {plan, k};
    if (r->stage == STAGE_NUMBERS && b->map)
        error_map_fill(b->map, b->p, b->orc, out, &a, &r->cmp);
    if (r->stage == STAGE_NUMBERS && !b->no_cause)
        explain_numbers(b->p, b->orc, plan, k, out, &a, plan_answers, &x, r);
    output_free(out);
}

#define QUICK_PLAN 1e-3 /* seconds: what takes no longer may be planned some times more */

/* Bytes that the planner keeps each time that it plans the tree; 0 where that cannot be told: beside other threads, or under
 * AddressSanitizer, which looks for leaks itself. */
static int64_t kept_by_planner(const struct repeated *x)
{
    enum { ROUNDS = 20, COUNTED = 10 }; /* what is free at first may be in caches, which count as used */
    int64_t least = INT64_MAX;
    for (int i = 0; i < ROUNDS && !omp_in_parallel() && least > 0; i++) {
        char why[WHY_MAX];
        const char *wrote;
        double seconds;
        struct mallinfo2 before = mallinfo2(), after;
        plan_free(guarded_plan(x->use, x->b->nf, &x->b->env, why, &seconds, &wrote));
        after = mallinfo2();
        int64_t kept = (int64_t)(after.uordblks + after.hblkhd) - (int64_t)(before.uordblks + before.hblkhd);
        least = i < ROUNDS - COUNTED ? least : min_i64(least, kept);
    }
    return least == INT64_MAX ? 0 : max_i64(least, 0);
}

/* The planner once more, after it made another plan, with other leavings in memory and another number of threads: the same tree
 * has the same plan. */
static void judge_replanned(const struct repeated *x, struct result *r)
{
    char why[WHY_MAX];
    const char *wrote;
    double seconds;
    if (!x->b->repeat || r->verdict == V_FAIL)
        return;
    int threads = omp_get_max_threads();
    guarded_litter();
    omp_set_num_threads(threads == 1 ? 2 : 1);
    struct plan *again = guarded_plan(x->use, x->b->nf, &x->b->env, why, &seconds, &wrote);
    omp_set_num_threads(threads);
    if (!again || !plan_same(x->plan, again))
        fail(r, STAGE_STRATEGY,
             again ? "made another plan of the same tree when it was asked again"
                   : "made no plan of the same tree when it was asked again");
    plan_free(again);
    int64_t kept = r->verdict == V_FAIL || r->plan_s > QUICK_PLAN ? 0 : kept_by_planner(x);
    if (kept > 0) {
        snprintf(why, sizeof why, "keeps %" PRId64 " bytes each time it plans this tree", kept);
        fail(r, STAGE_STRATEGY, why);
    }
}

/* What follows the plan. */
static void judge_planned(const struct repeated *x, struct plan *plan, struct result *r)
{
    const struct test_case *b = x->b;
    struct err e = {0};
    r->planned = true;
    r->n_groups = plan->n_groups;
    r->n_launches = plan->n_launches;
    name_tile(plan, r->tile, sizeof r->tile);
    if (x->k->attend && !cover_check(plan, &e))
        fail(r, STAGE_COVERAGE, e.msg);
    else if (x->k->attend)
        judge_outside(b, plan, x->k, r);
    else if (b->c->narrow_partials && !narrow_partials(plan, b->p->heads.dtype, b->orc, r->why))
        r->verdict = V_SKIP;
    else
        judge_and_explain(b, plan, x->k, r);
    if (!x->k->attend)
        tell_nan(b, plan, x->k, r);
    if (b->c->narrow_partials) /* which is not the strategy's plan any more */
        return;
    judge_repeated(x, r);
    judge_replanned(x, r);
}

static struct result plan_and_judge(const struct test_case *b, const struct strategy_use *use,
                                    const struct kernel *k)
{
    struct result r = {.use = use, .strategy = use->s->name, .kernel = k->name, .tile = "-"};
    const char *wrote;
    struct plan *plan = guarded_plan(use, b->nf, &b->env, r.why, &r.plan_s, &wrote);
    if (wrote) {
        r.verdict = V_FAIL;
        r.stage = STAGE_STRATEGY;
        snprintf(r.why, sizeof r.why, "wrote to %s", wrote);
    } else if (!plan) {
        r.verdict = V_SKIP;
    } else {
        judge_planned(&(struct repeated){b, use, k, plan}, plan, &r);
    }
    plan_free(plan);
    return r;
}

struct result judge_law(const struct test_case *b, const struct strategy_use *use, const struct kernel *k,
                        const struct property *law)
{
    char *command = command_of(b, use, k, law);
    crash_planning(use->s ? use->s->name : "no strategy", command);
    struct property_case of_law = {.p = b->p, .use = *use, .kernel = k, .seed = b->c->spec.seed};
    struct result r = law                           ? property_check(law, &of_law)
                      : k->attend && !k->wants_plan ? attend_and_judge(b, k)
                                                    : plan_and_judge(b, use, k);
    r.use = k->attend && !k->wants_plan ? r.use : use;
    if (r.verdict == V_FAIL && b->repeat)
        repeat_make(b->repeat, REPEAT_AS_WAS); /* its buffers stay where they are */
    else if (r.verdict == V_FAIL && guarded_change(&b->inputs, b->p))
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

enum {
    LEAST_STRETCH = 16, /* cases of which one runs alone; */
    MOST_ALONE = 24,    /* of all of them */
    MOST_THREADS = 16   /* each holds a case's problem and oracle */
};

void run_parallel(int64_t n, void (*run)(void *context, int64_t i), void *context)
{
    int64_t stretch = max_i64(LEAST_STRETCH, ceil_div(n, MOST_ALONE));
    for (int64_t begin = 0; begin < n; begin += stretch) {
        int64_t alone = min_i64(begin + stretch, n) - 1;
        int threads = (int)min_i64(min_i64(omp_get_max_threads(), MOST_THREADS), max_i64(1, alone - begin));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = begin; i < alone; i++)
            run(context, i);
        run(context, alone);
    }
}
