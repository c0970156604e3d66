/* faults.c - the registry of faults, one planting, and the kill table. */
#include "verify/faults/kinds.h"

#include "ref/rng.h"
#include "verify/judge/cover.h"
#include "verify/io/crash.h"
#include "verify/sweep/sweep.h"
#include "verify/sweep/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fault_where_name[N_FAULT_WHERES] = {"plan", "data", "output", "judge"};

const struct fault faults[] = {
#define FAULT(id, in, text) {.name = #id, .where = FAULT_##in, .about = text, .plant = plant_##id},
#include "verify/faults/faults.def"
#undef FAULT
};
const int32_t n_faults = sizeof faults / sizeof faults[0];

const struct fault *fault_find(const char *name)
{
    for (int32_t i = 0; i < n_faults; i++)
        if (strcmp(faults[i].name, name) == 0)
            return &faults[i];
    return NULL;
}

/* ---- for the kinds ----------------------------------------------------------------------------------- */

/* A stream per planting: the n-th draw of a kind does not depend on what other kinds drew. */
int64_t fault_draw(struct broken *b, int64_t n)
{
    return rng_below(b->seed, 0, b->draws++, n);
}

void fault_place(struct broken *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->place, sizeof b->place, fmt, ap);
    va_end(ap);
}

double fault_weight(const struct fault_case *fc, int32_t q, int32_t head, int64_t slot)
{
    const struct problem *p = fc->problem;
    double qrow[PROBLEM_MAX_ROW], krow[PROBLEM_MAX_ROW], dot = 0;
    int64_t row = (int64_t)q * p->heads.h_q + head;
    dtype_to_double(p->heads.dtype, p->q, row * p->heads.d, qrow, p->heads.d);
    problem_k_row(p, slot, head / heads_gqa(&p->heads), krow);
    for (int32_t c = 0; c < p->heads.d; c++)
        dot += qrow[c] * krow[c];
    return exp(problem_logit(p, dot) - fc->oracle->lse[row]);
}

/* The change of LSE that counts: 20 times what any bound of the comparator allows for |LSE| <= 10. A fault
 * below it may pass for rounding, so it would be no fault. */
#define SEEN_WEIGHT 1e-3

bool fault_seen(const struct fault_case *fc, int32_t q, int32_t node, int64_t begin, int64_t end)
{
    const struct problem *p = fc->problem;
    const struct nform *nf = fc->nf;
    for (int32_t head = 0; head < p->heads.h_q; head++) {
        double sum = 0;
        for (int64_t j = begin; j < end; j++) {
            int64_t slot = problem_slot(p, nf->src[node], nf->off[node] + j);
            if (slot >= p->n_pages * p->page_size)
                return true;
            sum += fault_weight(fc, nf->orig[q], head, slot);
            if (!(sum < SEEN_WEIGHT))
                return true;
        }
    }
    return false;
}

bool fault_any_seen(const struct fault_case *fc)
{
    for (int32_t q = 0; q < fc->nf->n_queries; q++)
        if (nform_context(fc->nf, q) > 0)
            return true;
    return false;
}

struct plan *fault_edit_plan(const struct fault_case *fc, struct broken *b)
{
    if (!b->plan)
        b->plan = plan_copy(fc->plan);
    return b->plan;
}

struct problem *fault_edit_problem(const struct fault_case *fc, struct broken *b)
{
    if (!b->problem)
        b->problem = problem_copy(fc->problem);
    return b->problem;
}

struct output *fault_edit_output(const struct fault_case *fc, struct broken *b)
{
    if (b->output)
        return b->output;
    const struct output *good = fc->good;
    b->output = output_new(fc->problem);
    memcpy(b->output->o, good->o, (size_t)(good->n_rows * good->d) * (size_t)dtype_size[good->dtype]);
    memcpy(b->output->lse, good->lse,
           (size_t)good->n_rows * (good->dtype == DT_F64 ? sizeof(double) : sizeof(float)));
    return b->output;
}

/* ---- one planting ------------------------------------------------------------------------------------ */

/* What the numbers say of a broken case: true if they notice. */
static bool ask_numbers(const struct fault_case *fc, const struct broken *b, struct fault_result *res)
{
    struct output *out = b->output;
    struct err e = {0};
    if (!out) {
        struct ledger counted = {0};
        out = output_new(fc->problem);
        if (!fc->kernel->run(b->problem ? b->problem : fc->problem, b->plan ? b->plan : fc->plan, out,
                             &counted, &e)) {
            output_free(out);
            res->worst = INFINITY;
            snprintf(res->why, sizeof res->why, "%.200s", e.msg);
            return true;
        }
    }
    struct comparison c = compare_output(fc->problem, b->oracle ? b->oracle : fc->oracle, out, &fc->arith);
    if (out != b->output)
        output_free(out);
    res->worst = c.worst;
    snprintf(res->why, sizeof res->why, "%.200s", c.why);
    return c.verdict == V_FAIL;
}

void broken_clear(struct broken *b)
{
    plan_free(b->plan);
    problem_free(b->problem);
    output_free(b->output);
    oracle_free(b->oracle);
}

/* Whatever the kind replaced is asked about and freed here; the case itself stays sound for the next kind. */
struct fault_result fault_try(const struct fault *f, const struct fault_case *fc, uint64_t seed)
{
    struct broken b = {.seed = seed};
    struct fault_result res = {0};
    crash_planted(f->name);
    res.planted = f->plant(fc, &b);
    if (res.planted) {
        struct err e = {0};
        res.run = !b.no_run;
        res.numbers = res.run && ask_numbers(fc, &b, &res);
        res.cover = b.plan && !cover_check(b.plan, &e);
        if (!res.numbers && res.cover)
            snprintf(res.why, sizeof res.why, "%.200s", e.msg);
        memcpy(res.place, b.place, sizeof res.place);
    }
    crash_planted(NULL);
    broken_clear(&b);
    return res;
}

/* ---- the whole self-test ----------------------------------------------------------------------------- */

static void remark(struct fault_report *r, char *line)
{
    r->remark = xgrow(r->remark, &r->cap_remarks, r->n_remarks + 1, sizeof *r->remark);
    r->remark[r->n_remarks++] = line;
}

/* Counts add; the weakest is the smallest. */
static void add(struct fault_tally *sum, const struct fault_tally *t)
{
    sum->planted += t->planted;
    sum->run += t->run;
    sum->cover += t->cover;
    sum->numbers += t->numbers;
    sum->caught += t->caught;
    sum->weakest = fmin(sum->weakest, t->weakest);
}

/* Every kind once in one case. Worth a line: what nobody noticed, and what ran without numbers noticing (the
 * tolerance may be too loose, or the place was no fault). */
static void plant_all(struct fault_report *r, const struct fault_case *fc, int32_t u, uint64_t seed)
{
    for (int32_t f = 0; f < n_faults; f++) {
        struct fault_result res = fault_try(&faults[f], fc, rng_u64(seed, 4, (uint64_t)f));
        if (!res.planted)
            continue;
        add(&r->cell[f * r->n_uses + u], &(struct fault_tally){.planted = 1,
                                                               .run = res.run,
                                                               .cover = res.cover,
                                                               .numbers = res.numbers,
                                                               .caught = res.cover || res.numbers,
                                                               .weakest = res.run ? res.worst : INFINITY});
        if (res.numbers || (res.cover && !res.run))
            continue;
        remark(r, xasprintf("%s: %s in %s on %s (%s): error %.3g bounds", res.cover ? "cover only" : "MISSED",
                            faults[f].name, r->uses[u].s->name, fc->tree, res.place, res.worst));
    }
}

/* One use on one tree; `seed` is what the user said, `places` where faults are drawn from. */
static void plant_in(struct fault_report *r, const struct fault_tree *t, int32_t u,
                     const struct kernel *kernel, uint64_t seed, uint64_t places)
{
    const char *strategy = r->uses[u].s->name;
    struct fault_case fc;
    struct result sound;
    char why[RESULT_SENTENCE];
    char *command = xasprintf("%s selftest --kernel %s --strategy %s --seed %" PRIu64,
                              program_invocation_name, kernel->name, strategy, seed);
    crash_planning(strategy, command);
    if (fault_case_new(t, &r->uses[u], kernel, &fc, &sound)) {
        r->cases++;
        plant_all(r, &fc, u, places);
        fault_case_free(&fc);
    } else if (sound.verdict == V_FAIL) {
        r->alarms++;
        remark(r, xasprintf("FALSE ALARM: %s on %s, nothing planted: %s; again: %s", strategy, t->name,
                            result_sentence(&sound, why), command));
    } else if (sound.planned && r->refused++ == 0) {
        result_sentence(&sound, r->why);
    }
    crash_done();
    free(command);
}

static struct fault_report *report_new(const struct strategy_use *uses, int32_t n_uses)
{
    struct fault_report *r = xcalloc(1, sizeof *r);
    r->n_uses = n_uses;
    r->uses = uses;
    r->cell = xcalloc((size_t)n_faults * (size_t)n_uses, sizeof *r->cell);
    for (int32_t i = 0; i < n_faults * n_uses; i++)
        r->cell[i].weakest = INFINITY;
    return r;
}

struct fault_report *faults_run(const struct strategy_use *uses, int32_t n_uses, const struct kernel *kernel,
                                uint64_t seed, void (*tick)(void *context), void *context)
{
    struct fault_report *r = report_new(uses, n_uses);
    /* Thousands of cases of a millisecond each: waking threads for them costs far more than it gains. */
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    for (int32_t i = 0; i < n_fault_trees; i++) {
        struct fault_tree *t = fault_tree_new(i, seed, kernel);
        for (int32_t u = 0; u < n_uses; u++) {
            plant_in(r, t, u, kernel, seed, rng_u64(seed, 5, (uint64_t)(i * n_uses + u)));
            if (tick)
                tick(context);
        }
        fault_tree_free(t);
    }
    omp_set_num_threads(threads);
    return r;
}

/* ---- the same with other processes ----------------------------------------------------------------------- */

struct planting {
    const struct strategy_use *uses;
    int32_t n_uses;
    const struct kernel *kernel;
    uint64_t seed;
    struct fault_tree *tree; /* of the task before, */
    int64_t number;          /* which is that one */
};

/* Task i: a tree and a use. One at a time, neighbours share the tree. */
static void plant_for_others(void *context, int64_t i, FILE *to)
{
    struct planting *x = context;
    int64_t t = i / x->n_uses, u = i % x->n_uses;
    if (!x->tree || x->number != t) {
        fault_tree_free(x->tree);
        x->tree = fault_tree_new((int32_t)t, x->seed, x->kernel);
        x->number = t;
    }
    struct fault_report *r = report_new(&x->uses[u], 1);
    plant_in(r, x->tree, 0, x->kernel, x->seed, rng_u64(x->seed, 5, (uint64_t)i));
    const int64_t n[4] = {r->cases, r->alarms, r->refused, r->n_remarks};
    fwrite(n, sizeof n, 1, to);
    fwrite(r->cell, sizeof *r->cell, (size_t)n_faults, to);
    fwrite(r->why, strlen(r->why) + 1, 1, to);
    for (int64_t k = 0; k < r->n_remarks; k++)
        fwrite(r->remark[k], strlen(r->remark[k]) + 1, 1, to);
    fault_report_free(r);
}

static void add_planted(struct fault_report *r, int32_t u, const struct sweep_bytes *bytes)
{
    struct unpack x = {.at = bytes->at, .end = bytes->at + bytes->size};
    int64_t n[4];
    unpack(&x, n, sizeof n);
    for (int32_t f = 0; f < n_faults; f++) {
        struct fault_tally t;
        unpack(&x, &t, sizeof t);
        add(&r->cell[f * r->n_uses + u], &t);
    }
    const char *why = unpack_text(&x);
    r->cases += n[0];
    r->alarms += n[1];
    if (n[2] > 0 && r->refused == 0)
        snprintf(r->why, sizeof r->why, "%s", why);
    r->refused += n[2];
    for (int64_t k = 0; k < n[3] && !x.short_of; k++)
        remark(r, xstrdup(unpack_text(&x)));
    CK(!x.short_of);
}

struct fault_report *faults_run_shared(const struct strategy_use *uses, int32_t n_uses, const struct kernel *kernel, uint64_t seed,
                                       struct err *e)
{
    struct planting x = {uses, n_uses, kernel, seed, NULL, 0};
    int64_t n = (int64_t)n_fault_trees * n_uses;
    omp_set_num_threads(1); /* as above; and there is one tree at a time */
    struct sweep_bytes *all = sweep_collect("selftest", n, NULL, plant_for_others, &x, e);
    struct fault_report *r = all ? report_new(uses, n_uses) : NULL;
    for (int64_t i = 0; i < n && all; i++)
        add_planted(r, (int32_t)(i % n_uses), &all[i]);
    fault_tree_free(x.tree);
    sweep_bytes_free(all, n);
    return r;
}

void fault_report_free(struct fault_report *r)
{
    if (!r)
        return;
    for (int64_t i = 0; i < r->n_remarks; i++)
        free(r->remark[i]);
    free(r->remark);
    free(r->cell);
    free(r);
}

struct fault_tally fault_sum(const struct fault_report *r, int32_t f, int32_t u)
{
    struct fault_tally sum = {.weakest = INFINITY};
    for (int32_t i = 0; i < n_faults; i++)
        for (int32_t k = 0; k < r->n_uses; k++)
            if ((f < 0 || i == f) && (u < 0 || k == u))
                add(&sum, &r->cell[i * r->n_uses + k]);
    return sum;
}
