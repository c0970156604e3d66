/* trees.c - what faults are planted in: a fixed set of tree shapes, and one sound case per strategy. */
#include "ref/rng.h"
#include "traces/formats/formats.h"
#include "verify/faults/faults.h"
#include "verify/compare/compare.h"

#include <stdlib.h>

/* Two trees of the same nodes, as levels_parse reads them: a node is as long as in one of them, or between. */
struct shape {
    const char *name, *shortest, *longest;
    bool every_node; /* a query at the end of every node, not of leaves only */
    bool empty;      /* and one that sees nothing */
    int32_t q_len;   /* queries of the first leaf, one less of the next, ..; 0: one each */
    struct problem_spec spec;
};

static const struct shape shapes[] = {
    /* one prefix and a suffix per query: what hydragen and relay are made for */
    {.name = "two-level",
     .shortest = "1,12 260,20",
     .longest = "1,12 420,60",
     .empty = true,
     .spec = {.heads = {4, 2, 64, DT_F32}, .page_size = 16, .scattered = true}},
    {.name = "multi-level",
     .shortest = "1,3,12,24 150,40,10,5",
     .longest = "1,3,12,24 300,90,70,30",
     .empty = true,
     .spec = {.heads = {6, 3, 32, DT_F64}, .page_size = 8, .scattered = true}},
    /* 21 private tokens: tree-specinfer takes up to 64 */
    {.name = "token-tree",
     .shortest = "1,3,6,12 150,1,1,1",
     .longest = "1,3,6,12 260,1,1,1",
     .every_node = true,
     .spec = {.heads = {4, 2, 64, DT_F16}, .page_size = 16, .scattered = true}},
    {.name = "forest",
     .shortest = "3,12,24 60,20,5",
     .longest = "3,12,24 200,60,40",
     .every_node = true,
     .empty = true,
     .spec = {.heads = {4, 2, 128, DT_BF16}, .page_size = 32, .scattered = false}},
    /* long enough for every rule that splits long KV */
    {.name = "long",
     .shortest = "1,3 1400,200",
     .longest = "1,3 1800,600",
     .spec = {.heads = {4, 2, 64, DT_F32}, .page_size = 16, .scattered = true}},
    /* more queries than any block limit of 32 or 64 */
    {.name = "wide",
     .shortest = "1,72 100,1",
     .longest = "1,72 180,6",
     .spec = {.heads = {4, 2, 32, DT_F16}, .page_size = 1, .scattered = true}},
    /* all tokens together stay under 64, so a query that sees nothing keeps tree-specinfer applicable */
    {.name = "small",
     .shortest = "1,4,8 8,2,1",
     .longest = "1,4,8 12,5,3",
     .empty = true,
     .spec = {.heads = {4, 2, 64, DT_F32}, .page_size = 4, .scattered = true}},
    /* logits of which many are bent, sinks, windows that end in inner nodes */
    {.name = "features",
     .shortest = "1,3,9 120,40,8",
     .longest = "1,3,9 300,90,30",
     .every_node = true,
     .empty = true,
     .spec = {.heads = {8, 4, 64, DT_F32},
              .page_size = 16,
              .scattered = true,
              .soft_cap = 5,
              .sinks = true,
              .window = 70}},
    /* requests of several queries: chunks that extend a prompt, drafted tokens */
    {.name = "requests",
     .shortest = "1,2,6 90,30,9",
     .longest = "1,2,6 200,70,30",
     .q_len = 5,
     .spec = {.heads = {6, 3, 64, DT_F32}, .page_size = 8, .scattered = true}},
    /* numbers of 8 bits of all sizes; whole columns of subnormal ones */
    {.name = "e4m3",
     .shortest = "1,3,9 90,30,8",
     .longest = "1,3,9 200,70,30",
     .every_node = true,
     .empty = true,
     .spec = {.heads = {6, 3, 64, DT_F32, DT_E4M3},
              .page_size = 16,
              .scattered = true,
              .fill = FILL_SPAN,
              .head_scales = true}},
    {.name = "e5m2",
     .shortest = "2,6 120,40",
     .longest = "2,6 260,90",
     .spec = {.heads = {8, 2, 64, DT_F16, DT_E5M2}, .page_size = 32, .scattered = true, .head_scales = true}},
    /* rows of K of which the beginning is V, as latent attention has them */
    {.name = "latent",
     .shortest = "1,2,6 60,20,8",
     .longest = "1,2,6 120,50,20",
     .every_node = true,
     .empty = true,
     .spec = {.heads = {8, 1, 36, DT_F32, .d_v = 32}, .page_size = 16, .scattered = true}},
    /* V apart, of fewer elements than K */
    {.name = "narrow-v",
     .shortest = "1,6 80,20",
     .longest = "1,6 160,60",
     .spec = {.heads = {6, 3, 48, DT_F32, .d_v = 32, .v_apart = true}, .page_size = 8, .scattered = true}},
};
const int32_t n_fault_trees = sizeof shapes / sizeof shapes[0];

/* From the first leaf to the last, n queries, n - 1, .., one, and n again. */
static void add_tails(struct tree *t, int32_t n)
{
    struct query *query = xcalloc((size_t)t->n_queries * (size_t)n, sizeof *query);
    int32_t at = 0;
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int64_t k = n - q % n; k-- > 0;)
            query[at++] = (struct query){t->query[q].node, t->query[q].upto - k};
    free(t->query);
    t->query = query;
    t->n_queries = at;
}

/* Leaves are the last nodes. */
static struct tree *grow(const struct shape *s, uint64_t seed)
{
    struct tree *lo = levels_parse(s->shortest, NULL), *hi = levels_parse(s->longest, NULL);
    CK(lo && hi);
    int32_t n_queries = s->every_node ? lo->n_nodes : lo->n_queries, first = lo->n_nodes - n_queries;
    struct tree *t = tree_new(lo->n_nodes, n_queries + s->empty);
    for (int32_t i = 0; i < t->n_nodes; i++) {
        t->parent[i] = lo->parent[i];
        t->len[i] = lo->len[i] + rng_below(seed, 1, (uint64_t)i, hi->len[i] - lo->len[i] + 1);
    }
    for (int32_t i = 0; i < n_queries; i++)
        t->query[i] = (struct query){.node = first + i, .upto = t->len[first + i]};
    if (s->empty)
        t->query[n_queries] = (struct query){.node = 0, .upto = 0};
    if (s->q_len > 0)
        add_tails(t, s->q_len);
    tree_free(lo);
    tree_free(hi);
    return t;
}

/* Shapes are constants of this file, so a tree or spec that is not valid is our own error. Poison is on:
 * reading what no query may read is NaN. */
struct fault_tree *fault_tree_new(int32_t i, uint64_t seed, const struct kernel *kernel)
{
    const struct shape *s = &shapes[i];
    struct fault_tree *t = xcalloc(1, sizeof *t);
    struct problem_spec *spec = &t->spec.spec;
    struct err e = {0};
    t->name = s->name;
    *spec = s->spec;
    spec->poison = true;
    spec->seed = rng_u64(seed, 3, (uint64_t)i);
    problem_spec_restrict(spec, kernel->features);
    if (kernel->on_gpu) {
        if (spec->heads.dtype < DT_F16)
            spec->heads.dtype = spec->heads.dtype == DT_F32 ? DT_F16 : DT_BF16;
        spec->heads.d = spec->heads.d <= 64 ? 64 : 128;
    }
    struct tree *grown = grow(s, rng_u64(seed, 2, (uint64_t)i));
    CK(tree_check(grown, &e));
    t->test = test_case_new(&t->spec, grown, &e);
    CK(t->test);
    return t;
}

void fault_tree_free(struct fault_tree *t)
{
    if (t)
        test_case_free(t->test);
    free(t);
}

/* The order is that of any judged case: plan, cover, supports, run, compare. */
bool fault_case_new(const struct fault_tree *t, const struct strategy_use *use, const struct kernel *kernel,
                    struct fault_case *fc, struct result *r)
{
    const struct test_case *x = t->test;
    *r = (struct result){.verdict = V_SKIP};
    *fc = (struct fault_case){
        .tree = t->name, .problem = x->p, .oracle = x->orc, .nf = x->nf, .kernel = kernel};
    struct plan *plan = strategy_plan(use, x->nf, &x->env, r->why);
    if (!plan)
        return false;
    r->planned = true;
    fc->plan = plan;
    fc->good = judge_plan(x->p, &x->inputs, x->orc, plan, kernel, r);
    fc->arith = arithmetic_of(x->p, plan, kernel);
    if (r->verdict == V_PASS || r->verdict == V_MARGINAL)
        return true;
    fault_case_free(fc);
    return false;
}

void fault_case_free(struct fault_case *fc)
{
    plan_free((struct plan *)fc->plan);
    output_free((struct output *)fc->good);
    fc->plan = NULL;
    fc->good = NULL;
}
