/*
 * example_outside.c - a harness of one's own around libtreeattn.a: a tree, a problem, a plan, attention by the function
 * run() below, and the verdict on what it wrote. `make check` builds and runs it as a program elsewhere would:
 *
 *     gcc -O2 -fopenmp -I. tests/example_outside.c build/libtreeattn.a -lm -o example && ./example
 *
 * A plan numbers queries and nodes in normal form; Q, K, V, the page table and the output go by the tree's numbers:
 * nf->orig and plan_tree_run() lead from one to the other.
 */
#include "sim/strategy.h"
#include "traces/formats/formats.h"
#include "verify/compare/compare.h"
#include "verify/judge/cover.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A group's k-th query and one of its heads, token by token; row: maximum, sum, O times the sum. */
static void attend(const struct problem *p, const struct plan *plan, const struct group *g, int32_t k,
                   int32_t head, const float *q, float *row)
{
    const float *pool_k = p->k, *pool_v = p->v;
    for (int64_t i = g->run0; i < g->run1; i++) {
        struct run r = plan_tree_run(plan, &plan->run[i]);
        for (int64_t j = r.begin; j < r.end && plan_visible(plan, g, k, i - g->run0); j++) {
            int64_t at =
                (problem_slot(p, r.node, j) * p->heads.h_kv + head / heads_gqa(&p->heads)) * p->heads.d;
            float logit = 0;
            for (int32_t c = 0; c < p->heads.d; c++)
                logit += (float)p->scale * q[c] * pool_k[at + c];
            float max = fmaxf(row[0], logit), keep = expf(row[0] - max), add = expf(logit - max);
            for (int32_t c = 0; c < p->heads.d; c++)
                row[2 + c] = keep * row[2 + c] + add * pool_v[at + c];
            row[1] = keep * row[1] + add;
            row[0] = max;
        }
    }
}

/* Your kernel. This one adds each group to what the query has so far, so that it needs no slots and no merge steps. */
static void run(const struct problem *p, const struct plan *plan, struct output *out)
{
    int32_t width = 2 + p->heads.d;
    float *row = xcalloc((size_t)(out->n_rows * width), sizeof *row);
    for (int64_t i = 0; i < out->n_rows; i++)
        row[i * width] = -INFINITY;
    for (const struct group *g = plan->group; g < plan->group + plan->n_groups; g++)
        for (int32_t k = 0; k < g->nq; k++)
            for (int32_t head = 0; head < p->heads.h_q; head++) {
                int64_t i = (int64_t)plan->nf->orig[plan_query(plan, g, k)] * p->heads.h_q + head;
                attend(p, plan, g, k, head, (const float *)p->q + i * p->heads.d, row + i * width);
            }
    for (int64_t i = 0; i < out->n_rows; i++) {
        float max = row[i * width], sum = row[i * width + 1];
        for (int32_t c = 0; c < p->heads.d; c++) /* a query that sees nothing: O = 0, LSE = -inf */
            dtype_store(p->heads.dtype, out->o, i * p->heads.d + c,
                        sum > 0 ? row[i * width + 2 + c] / sum : 0);
        output_set_lse(out, i, max + logf(sum));
    }
    free(row);
}

int main(void)
{
    struct problem_spec spec = {.heads = {8, 2, 64, DT_F32}, .page_size = 16, .scattered = true};
    struct plan_env env = plan_env_default((struct heads){8, 2, 64, DT_F32});
    struct err e = {0};
    char why[WHY_MAX];
    struct strategy_use use;
    struct tree *t = levels_parse("1,3 256,40", &e);
    CK(t && strategy_parse("deft-flatten:block=64", &use, &e));
    struct problem *p = problem_new(t, &spec, &e);
    struct nform *nf = nform_new(t);
    struct plan *plan = strategy_plan(&use, nf, &env, why);
    CK(p && plan && cover_check(plan, &e));
    struct output *out = output_new(p);
    run(p, plan, out);
    struct oracle *truth = oracle_new(p);
    struct arithmetic how = {.accumulate = DT_F32,
                             .partial_o = DT_F32}; /* what run() does; the bound follows */
    struct comparison c = compare_output(p, truth, out, &how);
    printf("%s: O and LSE of %lld rows, worst error %.3g of its bound%s%s\n", verdict_name[c.verdict],
           (long long)out->n_rows, c.worst, c.why[0] ? ": " : "", c.why);
    oracle_free(truth);
    output_free(out);
    plan_free(plan);
    nform_free(nf);
    problem_free(p);
    tree_free(t);
    return c.verdict == V_PASS ? 0 : 1;
}
