/* bench_plan.c - `treeattn bench plan`: how long planning takes, and how it grows. */
#include "verify/bench.h"
#include "ref/rng.h"
#include "traces/formats.h"

#include <math.h>
#include <stdlib.h>

const char *const bench_plan_columns[] = {"strategy",       "tree_1365_us",  "random_10k_ms",
                                          "random_100k_ms", "random_growth", "chain_10k_ms",
                                          "chain_100k_ms",  "chain_growth",  NULL};
const int32_t bench_plan_width[] = {18, 12, 13, 14, 13, 12, 13, 0};

/* Each node hangs on any earlier one, 1 to 64 tokens, a query on every leaf: depth grows with log n. */
static struct tree *random_tree(int32_t n)
{
    struct tree *t = tree_new(n, 0);
    for (int32_t i = 0; i < n; i++) {
        t->parent[i] = i == 0 ? -1 : (int32_t)rng_below(5, 1, (uint64_t)i, i);
        t->len[i] = 1 + rng_below(5, 2, (uint64_t)i, 64);
    }
    tree_query_leaves(t);
    return t;
}

static struct tree *chain(int32_t n)
{
    struct tree *t = tree_new(n, 0);
    for (int32_t i = 0; i < n; i++) {
        t->parent[i] = i - 1;
        t->len[i] = 1 + i % 64;
    }
    tree_query_leaves(t);
    return t;
}

/* Seconds of the fastest of reps plans; NaN if the strategy does not apply. The first plan, which is not counted, also
 * makes the allocator's memory resident. */
static double plan_s(const struct strategy *s, const struct nform *nf, const struct plan_env *env,
                     int64_t reps)
{
    struct strategy_use use = strategy_default(s);
    double best = INFINITY;
    char why[WHY_MAX];
    for (int64_t r = -1; r < reps; r++) {
        double t0 = now_s();
        struct plan *p = strategy_plan(&use, nf, env, why);
        double t1 = now_s();
        if (!p)
            return NAN;
        plan_free(p);
        if (r >= 0)
            best = fmin(best, t1 - t0);
    }
    return best;
}

/* The normal form of a tree, and the tree itself behind it. */
static struct nform *form(struct tree *t)
{
    CK(t);
    return nform_new(t);
}

static void form_free(struct nform *nf)
{
    struct tree *t = (struct tree *)nf->tree;
    nform_free(nf);
    tree_free(t);
}

static void number(struct table *t, double x)
{
    if (isnan(x))
        table_none(t);
    else
        table_f64(t, x, 4);
}

void bench_plan(struct table *t, int32_t h_q, int32_t h_kv, int64_t reps)
{
    struct plan_env env = {.h_q = h_q, .h_kv = h_kv, .d = 128, .elt_bytes = 2, .machine = machine_default()};
    struct nform *level = form(levels_parse("1,4,16,64,256,1024 256,32,256,64,32,256", NULL));
    struct nform *grown[4] = {form(random_tree(10000)), form(random_tree(100000)), form(chain(10000)),
                              form(chain(100000))};
    for (int32_t i = 0; i < n_strategies; i++) {
        const struct strategy *s = strategies[i];
        table_text(t, s->name);
        number(t, 1e6 * plan_s(s, level, &env, 10 * reps));
        double ms[4] = {NAN, NAN, NAN, NAN};
        for (int k = 0; k < 4 && !s->superlinear; k++)
            ms[k] = 1e3 * plan_s(s, grown[k], &env, reps);
        for (int k = 0; k < 4; k += 2) {
            number(t, ms[k]);
            number(t, ms[k + 1]);
            number(t, ms[k + 1] / ms[k]);
        }
        fflush(t->f);
    }
    form_free(level);
    for (int k = 0; k < 4; k++)
        form_free(grown[k]);
}
