/*
 * cmd_gap.c - `treeattn gap`: how far the greedy planners are from the exact optimum of a stated cost.
 */
#include "sim/strategies/optimal.h"
#include "traces/formats/formats.h"
#include "traces/paper_sets.h"
#include "verify/cli/cmd.h"
#include "verify/io/progress.h"
#include "verify/sweep/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct gap_args {
    struct cmd_output out;
    int64_t trees;
    uint64_t seed;
    struct heads heads;
    unsigned cost; /* enum objective, or N_OBJECTIVES for all */
};

/* The planners that search the optimum's space, and the one that does not search: every node apart. */
static const struct planner {
    const char *name;
    enum { BY_PAT, BY_FASTTREE, BY_NODE } by;
    int32_t rule;
} planners[] = {
    {"pat", BY_PAT, RULE_PAPER},
    {"pat:rule=artifact", BY_PAT, RULE_ARTIFACT},
    {"fasttree", BY_FASTTREE, RULE_PAPER},
    {"fasttree:rule=artifact", BY_FASTTREE, RULE_ARTIFACT},
    {"every node apart", BY_NODE, RULE_PAPER},
};
enum { N_PLANNERS = sizeof planners / sizeof planners[0], MAX_ROWS = 64 };

static void plan_edges(const struct planner *p, const struct nform *nf, const struct objective_env *o,
                       uint8_t *joined)
{
    memset(joined, 0, (size_t)nf->n_nodes);
    if (p->by == BY_PAT)
        pat_edges(nf, p->rule, o->pack, joined);
    if (p->by == BY_FASTTREE) {
        struct fasttree_cost c = fasttree_default_cost(p->rule, heads_gqa(&o->env->heads));
        fasttree_edges(nf, &c, joined);
    }
}

/* Excess over the optimum of every planner on one tree, in percent. An optimum of 0 leaves no percent to speak of: an
 * excess of 0 counts as 0, any other as infinite. */
static void gaps_of(const struct nform *nf, const struct objective_env *o, double *gap)
{
    uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
    double best = optimal_edges(nf, o, joined);
    for (int p = 0; p < N_PLANNERS; p++) {
        plan_edges(&planners[p], nf, o, joined);
        double over = objective_cost(nf, o, joined) - best;
        gap[p] = over <= 1e-9 * fabs(best) ? 0 : best > 0 ? 100 * over / best : INFINITY;
    }
    free(joined);
}

/* One row per planner over n trees; gap[n][N_PLANNERS]. */
static void print_rows(struct printer *t, const char *cost, const char *trees, const double *gap, int64_t n)
{
    double *x = xcalloc((size_t)n, sizeof *x);
    for (int p = 0; p < N_PLANNERS && n > 0; p++) {
        double sum = 0;
        int64_t exact = 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = gap[i * N_PLANNERS + p];
            sum += x[i];
            exact += x[i] == 0;
        }
        double median = quantile(x, n, 0.5); /* sorts x */
        table_text(t, cost);
        table_text(t, trees);
        table_i64(t, n);
        table_text(t, planners[p].name);
        table_f64(t, 100 * (double)exact / (double)n, 4);
        table_f64(t, sum / (double)n, 4);
        table_f64(t, median, 4);
        table_f64(t, x[(n * 9 - 1) / 10], 4);
        table_f64(t, x[n - 1], 4);
    }
    free(x);
}

/* All trees under all costs: tree k of cost c is number c * trees + k. */
struct gap_trees {
    const struct gap_args *args;
    int64_t trees;             /* of a cost */
    struct sweep_bytes *found; /* [..] by other processes; NULL: found here */
};

static struct tree *tree_number(const struct gap_args *a, int64_t k)
{
    int64_t i = k - n_paper_trees;
    struct tree *t = i < 0 ? levels_parse(paper_trees[k].levels, NULL)
                           : gen_tree((enum family)(i / a->trees), gen_seed(a->seed, i % a->trees));
    CK(t);
    return t;
}

/* The gaps of one tree for one cost; false if it is beyond the solver's size. */
static bool find_gaps(const struct gap_args *a, enum objective kind, int64_t k, double gap[N_PLANNERS])
{
    struct plan_env env = plan_env_default(a->heads);
    struct objective_env o = objective_of(kind, &env, MAX_ROWS);
    struct tree *t = tree_number(a, k);
    struct nform *nf = nform_new(t);
    char why[WHY_MAX];
    bool solvable = optimal_solvable(nf, why);
    if (solvable)
        gaps_of(nf, &o, gap);
    nform_free(nf);
    tree_free(t);
    return solvable;
}

static enum objective kind_number(const struct gap_args *a, int64_t c)
{
    return a->cost == N_OBJECTIVES ? (enum objective)c : (enum objective)a->cost;
}

static void find_for_others(void *context, int64_t i, FILE *to)
{
    const struct gap_trees *all = context;
    double gap[N_PLANNERS];
    if (find_gaps(all->args, kind_number(all->args, i / all->trees), i % all->trees, gap))
        fwrite(gap, sizeof gap, 1, to);
}

/* The same, appended to *gap, found here or there; trees beyond the solver's size are counted apart. */
static void add_tree(const struct gap_trees *all, int64_t c, int64_t k, double **gap, int64_t *n, int64_t *cap,
                     int64_t *unsolved)
{
    const struct sweep_bytes *found = all->found ? &all->found[c * all->trees + k] : NULL;
    double *to;
    *gap = xgrow(*gap, cap, (*n + 1) * N_PLANNERS, sizeof **gap);
    to = *gap + *n * N_PLANNERS;
    bool solved = found ? found->size == N_PLANNERS * sizeof *to : find_gaps(all->args, kind_number(all->args, c), k, to);
    if (solved && found)
        memcpy(to, found->at, found->size);
    *n += solved;
    *unsolved += !solved;
}

static void gap_cost(const struct gap_trees *all, int64_t c, struct printer *table, struct progress *progress,
                     int64_t *unsolved)
{
    const struct gap_args *a = all->args;
    const char *cost = objective_name[kind_number(a, c)];
    double *gap = NULL;
    int64_t n = 0, cap = 0;
    for (int32_t i = 0; i < n_paper_trees; i++) {
        add_tree(all, c, i, &gap, &n, &cap, unsolved);
        bool last = i + 1 == n_paper_trees || strcmp(paper_trees[i].paper, paper_trees[i + 1].paper) != 0;
        if (last) {
            char *name = xasprintf("%s's", paper_trees[i].paper);
            progress_clear(progress);
            print_rows(table, cost, name, gap, n);
            free(name);
            n = 0;
        }
    }
    for (int f = 0; f < N_FAMILIES; f++) {
        for (int64_t i = 0; i < a->trees; i++) {
            add_tree(all, c, n_paper_trees + f * a->trees + i, &gap, &n, &cap, unsolved);
            progress_step(progress);
        }
        progress_clear(progress);
        print_rows(table, cost, family_name[f], gap, n);
        n = 0;
    }
    free(gap);
}

static bool read_options(struct gap_args *a, int argc, char **argv, struct err *e)
{
    const char *cost[N_OBJECTIVES + 1];
    memcpy(cost, objective_name, sizeof objective_name);
    cost[N_OBJECTIVES] = "all";
    struct options o = {
        .about = "Measures how far the greedy planners are from the exact optimum over all edge assignments, "
                 "on the papers' benchmark trees and on random families.",
        .examples = "gap\n"
                    "gap --cost pat --trees 50 --seed 7",
        .details =
            "Costs: bytes (KV, Q and partial bytes of the ledger, packs of 64 rows), fasttree (padding and "
            "reduction, equations 5-11 of the paper), pat (KV tokens loaded + 4 per partial, section 5.1).\n"
            "A gap is the excess over the optimum in percent. `exact` is the share of trees where there is "
            "none. Splitting of long contexts is left out: it changes no planner's assignment.\n"
            "Under mpirun its processes share the trees (verify/sweep/README.md)."};
    const struct opt own[] = {
        HEADING("What is compared:"),
        I64("trees", "N", &a->trees, 0, 1000000, "200", "random trees of each family"),
        U64("seed", "N", &a->seed, "1", "seed of the random trees"),
        WORD("cost", "COST", &a->cost, cost, N_OBJECTIVES + 1, "all", "what the optimum is of:"),
        heads_option(&a->heads, "32/8", NULL),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "every row is a result (expected none)");
    return options_parse(&o, argc, argv, e);
}

int cmd_gap(int argc, char **argv)
{
    struct err e = {0};
    struct gap_args a = {.heads = {.d = 128, .dtype = DT_F16}};
    struct outfile out;
    if (!read_options(&a, argc, argv, &e))
        return cmd_error(&e);
    int64_t costs = a.cost == N_OBJECTIVES ? N_OBJECTIVES : 1, unsolved = 0;
    struct gap_trees all = {.args = &a, .trees = n_paper_trees + N_FAMILIES * a.trees};
    if (sweep_role() != SWEEP_ALONE)
        all.found = sweep_collect("gap", costs * all.trees, NULL, find_for_others, &all, &e);
    if (sweep_role() == SWEEP_WORKER)
        return EXIT_GOOD;
    if (e.code || !outfile_open(&out, a.out.path, &e))
        return cmd_error(&e);
    static const char *const columns[] = {"cost",   "trees",    "n",     "planner", "exact %",
                                          "mean %", "median %", "p90 %", "max %",   NULL};
    static const int32_t width[] = {9, 13, 4, 23, 8, 8, 9, 8, 0};
    struct printer t = cmd_table(&out, &a.out, columns, width);
    struct progress progress = progress_start("gap", costs * N_FAMILIES * a.trees);
    for (int64_t c = 0; c < costs; c++)
        gap_cost(&all, c, &t, &progress, &unsolved);
    progress_clear(&progress);
    sweep_bytes_free(all.found, costs * all.trees);
    table_end(&t);
    if (unsolved > 0)
        fprintf(stderr, "%" PRId64 " trees are too large for the exact minimum and were left out\n",
                unsolved);
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
