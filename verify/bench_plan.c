/* bench_plan.c - `treeattn bench plan`: how long planning takes, and how it grows. */
#include "verify/bench.h"
#include "ref/rng.h"
#include "traces/formats.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

const char *const bench_plan_columns[] = {"strategy",       "tree_1365_us",  "random_10k_ms",
                                          "random_100k_ms", "random_growth", "chain_10k_ms",
                                          "chain_100k_ms",  "chain_growth",  NULL};
const int32_t bench_plan_width[] = {18, 12, 13, 14, 13, 12, 13, 0};

/* The tree with that parent of each node, in any order with parents first, renumbered level by level with siblings side
 * by side: a node's place is found once its parent's is known. */
static struct tree *tree_by_level(int32_t n, const int32_t *parent)
{
    int32_t *first = xcalloc((size_t)n + 1, sizeof *first), *child = xcalloc((size_t)n, sizeof *child);
    int32_t *place = xcalloc((size_t)n, sizeof *place), *order = xcalloc((size_t)n, sizeof *order);
    for (int32_t i = 1; i < n; i++)
        first[parent[i] + 1]++;
    for (int32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
    for (int32_t i = 1; i < n; i++)
        child[first[parent[i]] + place[parent[i]]++] = i;
    struct tree *t = tree_new(n, 0);
    t->parent[0] = -1;
    for (int32_t i = 0, end = 1; i < n; i++)
        for (int32_t c = first[order[i]]; c < first[order[i] + 1]; c++) {
            t->parent[end] = i;
            order[end++] = child[c];
        }
    free(first);
    free(child);
    free(place);
    free(order);
    return t;
}

/* Each node hangs on any earlier one that is less than RANDOM_LEVELS deep, 1 to 64 tokens, a query on every leaf;
 * numbered level by level, as tree files are. */
enum { RANDOM_LEVELS = 10 }; /* of DeFT's reasoning trees, the deepest in the papers */

static struct tree *random_tree(int32_t n)
{
    int32_t *parent = xcalloc((size_t)n, sizeof *parent), *depth = xcalloc((size_t)n, sizeof *depth);
    int32_t *inner = xcalloc((size_t)n, sizeof *inner), n_inner = 0; /* what may have children */
    for (int32_t i = 0; i < n; i++) {
        parent[i] = i == 0 ? -1 : inner[rng_below(5, 1, (uint64_t)i, n_inner)];
        depth[i] = i == 0 ? 0 : depth[parent[i]] + 1;
        if (depth[i] + 1 < RANDOM_LEVELS)
            inner[n_inner++] = i;
    }
    struct tree *t = tree_by_level(n, parent);
    for (int32_t i = 0; i < n; i++)
        t->len[i] = 1 + rng_below(5, 2, (uint64_t)i, 64);
    tree_query_leaves(t);
    free(parent);
    free(depth);
    free(inner);
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

/* Planning runs on one thread: its own clock does not see what else the machine does. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
        double t0 = cpu_s();
        struct plan *p = strategy_plan(&use, nf, env, why);
        double t1 = cpu_s();
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
