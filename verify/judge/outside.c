#include "verify/judge/outside.h"
#include "ref/rng.h"
#include "verify/judge/pieces.h"

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
    struct arithmetic a = arithmetic_declared(k, t->ask.plan);
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

static void judge_answer(const struct kernel *k, const struct task *t, struct output *out, struct result *r)
{
    struct oracle *orc =
        k->point == POINT_MERGE ? merge_oracle(&t->partials, t->shape) : oracle_new(t->shape);
    struct arithmetic a = arithmetic_of_task(k, t);
    for (int64_t row = 0; row < out->n_rows && k->lse_unit == 0; row++)
        output_set_lse(out, row, orc->lse[row]); /* what is not written is not judged */
    if (within_partials(&a, orc))
        judge_written(t->shape, orc, out, &a, r);
    else
        skip(r, "V, and with it a partial O, is beyond fp16");
    oracle_free(orc);
}

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
    struct output *out = output_new(t.shape);
    double began = now_s();
    r->end = k->attend(k, &t.ask, out, &why);
    r->run_s = now_s() - began;
    r->ran = r->end != RUN_UNSUPPORTED && r->end != RUN_NO_VIEW;
    r->refused = !r->ran;
    if (r->end == RUN_DONE) {
        judge_answer(k, &t, out, r);
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
    uint64_t shape = (uint64_t)b->tree->n_nodes << 32 | (uint32_t)b->tree->n_queries; /* many cases have seed 1 */
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
