#include "verify/judge/outside.h"
#include "ref/rng.h"
#include "verify/judge/pieces.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A question, and the shape of what is to be answered. */
struct task {
    struct question ask;
    const struct problem *shape; /* its rows are those of the answer */
    struct plan_pieces pieces;   /* of POINT_PARTIAL and POINT_MERGE */
    struct partials partials;    /* of POINT_MERGE, with a shape of its own: */
    struct problem *merged;
};

/* False with *why if the case says nothing at this point. Free with task_free. */
static bool task_new(const struct test_case *b, const struct plan *plan, const struct kernel *k,
                     struct task *t, struct err *why)
{
    *t = (struct task){.ask = {.p = b->p, .plan = plan}, .shape = b->p};
    if (k->point == POINT_ATTENTION)
        return true;
    if (!plan_pieces_new(b->p, plan, &t->pieces, why))
        return false;
    t->shape = t->pieces.p;
    if (k->point == POINT_PARTIAL)
        return true;
    struct oracle *orc = oracle_new(t->pieces.p);
    bool good = partials_new(&t->pieces, orc, b->tree->n_queries, k->lse_unit > 0 ? k->lse_unit : 1,
                             &t->partials, why);
    oracle_free(orc);
    if (good) {
        t->ask = (struct question){.partials = &t->partials};
        t->shape = t->merged = merge_shape(&t->partials);
    }
    return good;
}

static void task_free(struct task *t)
{
    if (t->merged)
        merge_shape_free(t->merged);
    partials_free(&t->partials);
    plan_pieces_free(&t->pieces);
}

static struct arithmetic arithmetic_of_task(const struct kernel *k, const struct task *t)
{
    struct arithmetic a = arithmetic_declared(k, t->ask.plan, t->shape->heads.dtype);
    if (k->point != POINT_MERGE)
        return a;
    /* its inputs one after the other, if it says nothing of merges; no probability meets them */
    a.merges = (int32_t)(a.merges > 0 ? min_i64(a.merges, t->partials.inputs) : t->partials.inputs);
    a.sum_run = INT64_MAX;
    a.probability = a.accumulate;
    return a;
}

/* Partial results in fp16 hold no more than that: then who says that it has such is not asked for more. */
static bool within_partials(const struct arithmetic *a, const struct oracle *orc)
{
    const double most = 65504; /* of fp16 */
    bool fits = true;
    for (int64_t i = 0; a->partial_o == DT_F16 && i < orc->n_rows * orc->d && fits; i++)
        fits = orc->max_v[i] <= most;
    return fits;
}

static void skip(struct result *r, const char *why)
{
    r->verdict = V_SKIP;
    snprintf(r->why, sizeof r->why, "%s", why);
}

/* An answer to something of that shape; NULL: there is none. */
static struct output *answer_to(const struct kernel *k, const struct question *ask,
                                const struct problem *shape)
{
    struct err e = {0};
    struct output *out = output_new(shape);
    if (k->attend(k, ask, out, &e) == RUN_DONE)
        return out;
    output_free(out);
    return NULL;
}

/* It is asked the same of other K and V. */
struct asked {
    const struct kernel *k;
    const struct task *t;
};

static struct output *kernel_answers(const struct problem *p, void *context)
{
    const struct asked *x = context;
    struct question ask = x->t->ask;
    ask.p = p;
    return answer_to(x->k, &ask, p);
}

#define MOST_EXP 80.0 /* scores beyond it show what becomes of exp without a maximum */

/* Of what is wrong, and of what is right where that tells something. */
static void explain(const struct test_case *b, const struct kernel *k, const struct task *t,
                    const struct oracle *orc, const struct output *out, const struct arithmetic *a,
                    struct result *r)
{
    struct asked x = {k, t};
    if (r->stage == STAGE_NUMBERS && b->map)
        error_map_fill(b->map, t->shape, orc, out, a, &r->cmp);
    if (b->no_cause)
        return;
    if (k->point != POINT_ATTENTION) {
        if (r->stage == STAGE_NUMBERS && k->point == POINT_MERGE)
            r->cause = find_cause_of_merge(t->shape, orc, &t->partials, k, out, a, &r->cmp);
        else if (r->stage == STAGE_NUMBERS)
            r->cause = find_cause(t->shape, orc, NULL, k, out, a, &r->cmp, false);
        return;
    }
    if (r->stage == STAGE_NUMBERS)
        explain_numbers(t->shape, orc, t->ask.plan, k, out, a, kernel_answers, &x, r);
    else if (r->verdict != V_FAIL && r->cmp.max_logit > MOST_EXP)
        r->cause = cause_of_right(t->shape, orc, a);
}

static void judge_answer(const struct test_case *b, const struct kernel *k, const struct task *t,
                         struct output *out, struct result *r)
{
    struct oracle *orc =
        k->point == POINT_MERGE ? merge_oracle(&t->partials, t->shape) : oracle_new(t->shape);
    struct arithmetic a = arithmetic_of_task(k, t);
    if (k->lse_unit == 0)
        output_set_all_lse(out, orc->lse);
    if (within_partials(&a, orc)) {
        judge_written(t->shape, orc, out, &a, r);
        explain(b, k, t, orc, out, &a, r);
    } else {
        skip(r, "V, and with it a partial O, is beyond fp16");
    }
    oracle_free(orc);
}

/* ---- properties --------------------------------------------------------------------------------------- */

static void count(struct outside_tally *t, enum outside_property x, bool held)
{
#pragma omp atomic
    t->asked[x]++;
#pragma omp atomic
    t->held[x] += held;
}

/* Are the rows of one the n from `row` on of the other, bit by bit? */
static bool same_rows(const struct kernel *k, const struct output *a, const struct output *one, int64_t row)
{
    if (!one)
        return false;
    size_t o = (size_t)one->d * (size_t)dtype_size[one->dtype];
    bool same = memcmp(one->o, (char *)a->o + (size_t)row * o, (size_t)one->n_rows * o) == 0;
    for (int64_t i = 0; i < one->n_rows && k->lse_unit > 0; i++)
        same = same && output_lse(one, i) == output_lse(a, row + i);
    return same;
}

static bool same_again(const struct kernel *k, const struct task *t, const struct output *out, bool graph)
{
    struct question ask = t->ask;
    ask.graph = graph;
    struct output *again = answer_to(k, &ask, t->shape);
    bool same = same_rows(k, out, again, 0);
    output_free(again);
    return same;
}

/* How often it asks for memory in a run; -1: nobody counts. */
static int64_t asks_for_memory(const struct kernel *k, const struct task *t)
{
    int64_t n = -1;
    struct question ask = t->ask;
    ask.allocations = &n;
    output_free(answer_to(k, &ask, t->shape));
    return n;
}

/* With NaN in tails there is none in the answer: a right one has none. */
static bool tolerates_nan(const struct kernel *k, const struct task *t, const struct output *out)
{
    struct question ask = t->ask;
    ask.nan_tails = true;
    struct output *again = answer_to(k, &ask, t->shape);
    bool good = again;
    for (int64_t i = 0; good && i < out->n_rows * out->d; i++)
        good = !isnan(dtype_load(out->dtype, again->o, i));
    for (int64_t i = 0; good && i < out->n_rows && k->lse_unit > 0; i++)
        good = !isnan(output_lse(again, i));
    output_free(again);
    return good;
}

/* A query without the others, in the same tree. */
static bool same_alone(const struct kernel *k, const struct task *t, int32_t q, const struct output *out)
{
    struct problem one = *t->ask.p;
    struct tree tree = *one.tree;
    struct query query = tree.query[q];
    tree.n_queries = 1;
    tree.query = &query;
    one.tree = &tree;
    one.q = (char *)one.q + (int64_t)q * one.heads.h_q * one.heads.d * dtype_size[one.heads.dtype];
    struct question ask = {.p = &one};
    struct output *alone = answer_to(k, &ask, &one);
    bool same = same_rows(k, out, alone, (int64_t)q * one.heads.h_q);
    output_free(alone);
    return same;
}

/* Of an answer that was right. */
static void ask_properties(const struct test_case *b, const struct kernel *k, const struct task *t,
                           const struct output *out)
{
    enum { STREAM = 0x0b8 };
    int32_t n = b->tree->n_queries;
    count(b->tally, SAME_BITS, same_again(k, t, out, false) && same_again(k, t, out, false));
    int64_t allocations = asks_for_memory(k, t);
    if (allocations >= 0)
        count(b->tally, ALLOCATES_NOTHING, allocations == 0);
    if (k->graphs)
        count(b->tally, SAME_IN_GRAPH, same_again(k, t, out, true));
    if (t->ask.p && b->p->page_size > 1)
        count(b->tally, TOLERATES_NAN, tolerates_nan(k, t, out));
    if (k->point == POINT_ATTENTION && !t->ask.plan && n > 1)
        count(b->tally, SAME_ALONE, same_alone(k, t, (int32_t)rng_below(b->c->spec.seed, STREAM, 0, n), out));
}

void outside_print(FILE *f, const char *name, const struct outside_tally *t)
{
    static const char *const about[N_OUTSIDE_PROPERTIES] = {[TOLERATES_NAN] =
                                                                "NaN in tails of pages tolerated",
                                                            [SAME_BITS] = "the same bits in three runs",
                                                            [SAME_ALONE] = "a query alone as in its batch",
                                                            [SAME_IN_GRAPH] = "the same bits from a graph",
                                                            [ALLOCATES_NOTHING] = "no memory asked for"};
    fprintf(f, "properties of %s:", name);
    for (int i = 0; i < N_OUTSIDE_PROPERTIES; i++)
        if (i < SAME_IN_GRAPH || t->asked[i] > 0)
            fprintf(f, "%s %s %" PRId64 " of %" PRId64, i ? "," : "", about[i], t->held[i], t->asked[i]);
    fputs("\n", f);
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

void judge_outside(const struct test_case *b, const struct plan *plan, const struct kernel *k,
                   struct result *r)
{
    struct err why = {0};
    struct task t;
    if (!task_new(b, plan, k, &t, &why)) {
        skip(r, why.msg);
        task_free(&t);
        return;
    }
    t.ask.fresh = b->fresh;
    struct output *out = output_new(t.shape);
    double began = now_s();
    r->end = k->attend(k, &t.ask, out, &why);
    r->run_s = now_s() - began;
    r->ran = r->end != RUN_UNSUPPORTED && r->end != RUN_NO_VIEW;
    r->refused = !r->ran;
    if (r->end == RUN_DONE) {
        judge_answer(b, k, &t, out, r);
        if (b->tally && (r->verdict == V_PASS || r->verdict == V_MARGINAL))
            ask_properties(b, k, &t, out);
    } else {
        skip(r, why.msg);
        r->verdict = r->ran ? V_FAIL : V_SKIP;
        r->stage = STAGE_KERNEL;
    }
    output_free(out);
    task_free(&t);
}

int32_t outside_points(const struct test_case *b, const struct kernel *first, const struct strategy_use *use,
                       int32_t n_use, bool draw, struct result *out)
{
    enum { STREAM = 0x0b7 };
    uint64_t shape =
        (uint64_t)b->tree->n_nodes << 32 | (uint32_t)b->tree->n_queries; /* many cases have seed 1 */
    int32_t n = 0, begin = (int32_t)rng_below(b->c->spec.seed, STREAM, shape, n_use);
    for (const struct kernel *k = first; k; k = k->also) {
        bool one = draw && k->point != POINT_ATTENTION, found = false;
        int32_t tries = k->wants_plan ? n_use : 1;
        for (int32_t i = 0; i < tries && !found; i++) {
            out[n] = judge_case(b, &use[one ? (begin + i) % n_use : i], k);
            found = one && (out[n].verdict != V_SKIP || out[n].refused);
            n += !one || found || i == tries - 1;
        }
    }
    return n;
}

const struct kernel *outside_find(const struct kernel *first, const char *name)
{
    while (first->also && strcmp(first->name, name) != 0)
        first = first->also;
    return first;
}
