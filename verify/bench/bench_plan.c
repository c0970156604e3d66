/* bench_plan.c - `treeattn bench-plan`: how long planning takes, and how it grows. */
#include "verify/bench/bench_cpu.h"
#include "ref/rng.h"
#include "traces/formats/formats.h"
#include "verify/judge/cover.h"
#include "verify/io/progress.h"
#include "verify/cases/tree_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define OF_FAMILY(name) name "_10k_ms", name "_100k_ms", name "_growth"
const char *const bench_plan_columns[] = {
    "strategy",         "step_us", "tree_1365_us", OF_FAMILY("random"), OF_FAMILY("shallow"),
    OF_FAMILY("chain"), NULL};
const int32_t bench_plan_width[] = {18, 7, 12, 13, 14, 13, 14, 15, 14, 12, 13, 0};

/* The tree with that parent of each node, in any order with parents first, renumbered level by level with siblings side
 * by side: a node's place is found once its parent's is known. */
static struct tree *tree_by_level(int32_t n, const int32_t *parent)
{
    int32_t *first = xcalloc((size_t)n, sizeof *first), *next = xcalloc((size_t)n, sizeof *next);
    int32_t *order = xcalloc((size_t)n, sizeof *order); /* children, siblings: 0 is none, for the root is nobody's */
    for (int32_t i = n - 1; i > 0; i--) {
        next[i] = first[parent[i]];
        first[parent[i]] = i;
    }
    struct tree *t = tree_new(n, 0);
    t->parent[0] = -1;
    for (int32_t i = 0, end = 1; i < n; i++)
        for (int32_t c = first[order[i]]; c > 0; c = next[c]) {
            t->parent[end] = i;
            order[end++] = c;
        }
    free(first);
    free(next);
    free(order);
    return t;
}

/* 1 to 64 tokens a node, a query on every leaf. */
static struct tree *fill_tree(struct tree *t)
{
    for (int32_t i = 0; i < t->n_nodes; i++)
        t->len[i] = 1 + rng_below(5, 2, (uint64_t)i, 64);
    tree_query_leaves(t);
    return t;
}

/* A random recursive tree: each node hangs on any earlier one. Nodes stand in the order in which they came, as in a
 * cache that grew: one after the other has nothing to do with it in the tree. */
static struct tree *random_tree(int32_t n)
{
    struct tree *t = tree_new(n, 0);
    for (int32_t i = 0; i < n; i++)
        t->parent[i] = i == 0 ? -1 : (int32_t)rng_below(5, 1, (uint64_t)i, i);
    return fill_tree(t);
}

/* Each node hangs on any earlier one less than SHALLOW_LEVELS deep; numbered by level, as tree files are. */
enum { SHALLOW_LEVELS = 10 }; /* of DeFT's reasoning trees, the deepest in the papers */

static struct tree *shallow_tree(int32_t n)
{
    int32_t *parent = xcalloc((size_t)n, sizeof *parent), *depth = xcalloc((size_t)n, sizeof *depth);
    int32_t *inner = xcalloc((size_t)n, sizeof *inner), n_inner = 0; /* what may have children */
    for (int32_t i = 0; i < n; i++) {
        parent[i] = i == 0 ? -1 : inner[rng_below(5, 1, (uint64_t)i, n_inner)];
        depth[i] = i == 0 ? 0 : depth[parent[i]] + 1;
        if (depth[i] + 1 < SHALLOW_LEVELS)
            inner[n_inner++] = i;
    }
    struct tree *t = fill_tree(tree_by_level(n, parent));
    free(parent);
    free(depth);
    free(inner);
    return t;
}

static struct tree *chain(int32_t n)
{
    struct tree *t = tree_new(n, 0);
    for (int32_t i = 0; i < n; i++)
        t->parent[i] = i - 1;
    return fill_tree(t);
}

/* Seconds that n plans take on this thread, one after the other, each; NaN if the strategy does not apply. */
static double plan_s(const struct strategy_use *use, const struct nform *nf, const struct plan_env *env,
                     int n)
{
    char why[WHY_MAX];
    double sum = 0;
    for (int k = 0; k < n; k++) {
        double t0 = thread_s();
        struct plan *p = strategy_plan(use, nf, env, why);
        sum += p ? thread_s() - t0 : NAN;
        plan_free(p);
    }
    return sum / n;
}

enum { FAMILIES = 3, SMALL = 10000, LARGE = 100000 /* nodes */, STEPS = 20 };

/* What is known of one strategy, seconds; NaN if it does not apply or is not asked. */
struct timing {
    double step, level;
    struct growth {
        double small, large; /* shortest so far */
        double *ratio;       /* [reps] of each turn */
    } family[FAMILIES];
};

/*
 * One turn: as many nodes of both sizes, so that other work on the machine hits both halves of a ratio. A small plan
 * before those that count brings its memory back into the caches, from which the large plan drove it: ratios would be
 * smaller without it. The turn before the first makes the allocator's memory resident and counts for nothing.
 */
static void turn(struct growth *g, const struct strategy_use *use, struct nform *const nf[2],
                 const struct plan_env *env, int64_t r)
{
    plan_s(use, nf[0], env, 1);
    double small = plan_s(use, nf[0], env, LARGE / SMALL), large = plan_s(use, nf[1], env, 1);
    if (r < 0)
        return;
    g->small = isnan(small) ? NAN : fmin(g->small, small);
    g->large = isnan(large) ? NAN : fmin(g->large, large);
    g->ratio[r] = large / small;
}

/* The normal form of a tree, and the tree itself behind it. */
static struct nform *form(struct tree *t)
{
    CK(t);
    return nform_new(t);
}

/* Steps of the embedded reasoning trace, evenly over it. */
static void reasoning_steps(struct nform *step[STEPS])
{
    struct tree_source src;
    CK(tree_source_parse("trace:0:4000:6000:1:embedded:reasoning", &src, NULL));
    struct trace *tr = trace_open(src.text, &src.trace, NULL);
    CK(tr);
    int64_t last = trace_steps(tr);
    trace_close(tr);
    for (int k = 0; k < STEPS; k++) {
        src.step = trace_spread(k, STEPS, last);
        step[k] = form(tree_source_load(&src, NULL));
    }
    tree_source_clear(&src);
}

/* Each step after another one, as decoding has it. */
static double steps_s(const struct strategy_use *use, struct nform *const step[STEPS],
                      const struct plan_env *env)
{
    double sum = 0;
    for (int k = 0; k < STEPS; k++)
        sum += plan_s(use, step[k], env, 1);
    return sum / STEPS;
}

static void print(struct printer *t, const char *name, const struct timing *x, int64_t reps)
{
    table_text(t, name);
    table_number(t, 1e6 * x->step, 4);
    table_number(t, 1e6 * x->level, 4);
    for (int k = 0; k < FAMILIES; k++) {
        const struct growth *g = &x->family[k];
        table_number(t, 1e3 * g->small, 4);
        table_number(t, 1e3 * g->large, 4);
        table_number(t, isnan(g->small) ? NAN : quantile(g->ratio, reps, 0.5), 4);
    }
}

/* What is planned, in this order. Superlinear strategies plan no families. */
enum { LEVEL, STEP, FAMILY = STEP + STEPS, N_TREES = FAMILY + 2 * FAMILIES };

static void make_trees(struct nform *nf[N_TREES])
{
    static struct tree *(*const family[FAMILIES])(int32_t n) = {random_tree, shallow_tree, chain};
    nf[LEVEL] = form(levels_parse("1,4,16,64,256,1024 256,32,256,64,32,256", NULL));
    reasoning_steps(&nf[STEP]);
    for (int k = 0; k < 2 * FAMILIES; k++)
        nf[FAMILY + k] = form(family[k / 2](k % 2 ? LARGE : SMALL));
}

static bool covers(const struct strategy_use *use, const struct nform *nf, const struct plan_env *env,
                   struct err *e)
{
    char why[WHY_MAX];
    struct plan *p = strategy_plan(use, nf, env, why);
    bool good = !p || cover_check_of(p, use->s->name, e, "a tree of %" PRId32 " nodes", nf->tree->n_nodes);
    plan_free(p);
    return good;
}

/* How long a wrong plan takes is no result. */
static bool all_cover(struct nform *const nf[N_TREES], const struct strategy_use *use, int32_t n,
                      const struct plan_env *env, struct err *e)
{
    bool good = true;
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < (use[i].s->superlinear ? FAMILY : N_TREES) && good; k++)
            good = covers(&use[i], nf[k], env, e);
    return good;
}

/* The strategies take turns, not only the sizes: a machine that is slow for some seconds is so for all of them alike,
 * and the shortest times are of its better ones. */
static void take_turns(struct nform *const nf[N_TREES], const struct strategy_use *use, int32_t n,
                       const struct plan_env *env, int64_t reps, struct timing *x)
{
    struct progress progress = progress_start("bench-plan", (reps + 1) * n);
    for (int64_t r = -1; r < reps; r++)
        for (int32_t i = 0; i < n; i++) {
            double seconds = steps_s(&use[i], &nf[STEP], env);
            x[i].step = isnan(seconds) ? NAN : fmin(x[i].step, seconds);
            plan_s(&use[i], nf[LEVEL], env, 1);
            seconds = plan_s(&use[i], nf[LEVEL], env, 10);
            x[i].level = isnan(seconds) ? NAN : fmin(x[i].level, seconds);
            for (int k = 0; k < FAMILIES && !use[i].s->superlinear; k++)
                turn(&x[i].family[k], &use[i], &nf[FAMILY + 2 * k], env, r);
            progress_step(&progress);
        }
    progress_clear(&progress);
}

bool bench_plan(struct printer *t, const struct strategy_use *use, int32_t n, int32_t h_q, int32_t h_kv,
                int64_t reps, struct err *e)
{
    struct plan_env env = plan_env_default((struct heads){h_q, h_kv, 128, DT_F16});
    struct nform *nf[N_TREES];
    make_trees(nf);
    bool good = all_cover(nf, use, n, &env, e);
    struct timing *x = xcalloc((size_t)n, sizeof *x);
    for (int32_t i = 0; i < n; i++) {
        double shortest = use[i].s->superlinear ? NAN : INFINITY;
        x[i].step = x[i].level = INFINITY;
        for (int k = 0; k < FAMILIES; k++)
            x[i].family[k] = (struct growth){shortest, shortest, xcalloc((size_t)reps, sizeof(double))};
    }
    if (good)
        take_turns(nf, use, n, &env, reps, x);
    for (int32_t i = 0; i < n; i++) {
        char *label = strategy_label(&use[i]);
        if (good)
            print(t, label, &x[i], reps);
        free(label);
        for (int k = 0; k < FAMILIES; k++)
            free(x[i].family[k].ratio);
    }
    free(x);
    for (int k = 0; k < N_TREES; k++)
        nform_free_with_tree(nf[k]);
    return good;
}
