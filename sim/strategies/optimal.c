#include "sim/strategies/optimal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const objective_name[N_OBJECTIVES + 1] = {"bytes", "fasttree", "pat", NULL};

struct objective_env objective_of(enum objective kind, const struct plan_env *env, int32_t rows)
{
    return (struct objective_env){
        .kind = kind,
        .env = env,
        .pack = (int32_t)max_i64(1, rows / heads_gqa(&env->heads)),
        .fasttree = fasttree_default_cost(RULE_PAPER, heads_gqa(&env->heads)),
    };
}

/* Price of a virtual node with k queries and len tokens. */
static double node_price(const struct objective_env *o, int64_t k, int64_t len)
{
    if (k == 0 || len == 0)
        return 0;
    const struct plan_env *e = o->env;
    double reads = (double)(ceil_div(k, o->pack) * len);
    switch (o->kind) {
    case OBJECTIVE_BYTES: {
        double row = (double)e->heads.d * heads_elt_bytes(&e->heads),
               kv_row = (double)e->heads.d * heads_kv_bytes(&e->heads);
        double partial =
            2.0 * ((double)e->heads.d * 4 + 8); /* written and read: O, maximum and sum in fp32 */
        return reads * 2 * kv_row * e->heads.h_kv + (double)k * e->heads.h_q * (row + partial);
    }
    case OBJECTIVE_FASTTREE:
        return fasttree_pad_cost(&o->fasttree, (int32_t)k, len);
    default:
        return reads + 4 * (double)k;
    }
}

/* Price of keeping node v apart from its parent. */
static double edge_price(const struct objective_env *o, const struct nform *nf, int32_t v)
{
    if (o->kind != OBJECTIVE_FASTTREE || nf->parent[v] < 0)
        return 0;
    return o->fasttree.gamma * (double)(nf->q1[v] - nf->q0[v]);
}

double objective_cost(const struct nform *nf, const struct objective_env *o, const uint8_t *joined)
{
    double sum = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        sum += node_price(o, vtree_nq(nf, joined, v), vtree_len(nf, joined, v)) +
               (joined[v] ? 0 : edge_price(o, nf, v));
    return sum;
}

/* ---- the tables ------------------------------------------------------------------------------------- */

struct tables {
    const struct nform *nf;
    const struct objective_env *o;
    int64_t *first; /* [n_nodes + 1] f(v, a) is best[first[v] + depth of a], depth 0 .. depth of v */
    double *best;
    double *knap; /* [n_queries + 1] least cost of children, by queries they take out */
    double *knap2;
};

static int32_t queries(const struct nform *nf, int32_t v)
{
    return nf->q1[v] - nf->q0[v];
}

/* Tokens from ancestor at depth `a` down to v; the ancestor's own depth-1 sum is found by walking once per v. */
static void chain_lengths(const struct nform *nf, int32_t v, int64_t *len)
{
    int64_t sum = 0;
    for (int32_t i = v; i >= 0; i = nf->parent[i]) {
        sum += nf->len[i];
        len[nf->depth[i]] = sum;
    }
}

/*
 * Children of v when its virtual node begins at depth a: knap[s] is the least cost below v with s queries
 * taken out of its group. taken, if not NULL, gets a bit per (child, s): joined in the best way to s.
 */
static int64_t fill_knapsack(struct tables *t, int32_t v, int32_t a, uint8_t *taken, int64_t width)
{
    const struct nform *nf = t->nf;
    int64_t reach = 0;
    t->knap[0] = 0;
    for (int32_t i = nf->child_ptr[v]; i < nf->child_ptr[v + 1]; i++) {
        int32_t c = nf->child[i];
        int32_t w = queries(nf, c);
        double apart = t->best[t->first[c] + nf->depth[c]] + edge_price(t->o, nf, c);
        double joined = t->best[t->first[c] + a];
        for (int64_t s = reach + 1; s <= reach + w; s++)
            t->knap[s] = INFINITY;
        for (int64_t s = 0; s <= reach + w; s++) {
            double keep = t->knap[s] + apart;
            double take = s >= w ? t->knap[s - w] + joined : INFINITY;
            bool better = take < keep;
            t->knap2[s] = better ? take : keep;
            if (taken && better) {
                int64_t bit = (int64_t)(i - nf->child_ptr[v]) * width + s;
                taken[bit / 8] |= (uint8_t)(1 << bit % 8);
            }
        }
        double *swap = t->knap;
        t->knap = t->knap2;
        t->knap2 = swap;
        reach += w;
    }
    return reach;
}

/* The best number of queries to take out of v's group, given the filled knapsack; *cost is what it costs. */
static int64_t choose(const struct tables *t, int32_t v, int64_t len, int64_t reach, double *cost)
{
    int64_t at = 0, k = queries(t->nf, v);
    *cost = INFINITY;
    for (int64_t s = 0; s <= reach; s++) {
        double c = t->knap[s] + node_price(t->o, k - s, len);
        if (c < *cost) {
            *cost = c;
            at = s;
        }
    }
    return at;
}

enum { MAX_STATES = 50 * 1000 * 1000, MAX_TAKEN_BITS = 400 * 1000 * 1000 };
static const double MAX_WORK = 2e10;

bool optimal_solvable(const struct nform *nf, char *why)
{
    double states = 0, work = 0, bits = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        double kids = nf->child_ptr[v + 1] - nf->child_ptr[v], k = queries(nf, v) + 1;
        states += nf->depth[v] + 1;
        work += (nf->depth[v] + 1) * kids * k;
        bits = fmax(bits, kids * k);
    }
    if (states > MAX_STATES || work > MAX_WORK || bits > MAX_TAKEN_BITS)
        return why_not(why, "the exact minimum would take %.3g states and %.3g steps (at most %d and %.3g)",
                       states, work, MAX_STATES, MAX_WORK);
    return true;
}

double optimal_edges(const struct nform *nf, const struct objective_env *o, uint8_t *joined)
{
    struct tables t = {.nf = nf, .o = o};
    int32_t n = nf->n_nodes, deepest = 0;
    int64_t widest = 1;
    t.first = xcalloc((size_t)n + 1, sizeof *t.first);
    for (int32_t v = 0; v < n; v++) {
        t.first[v + 1] = t.first[v] + nf->depth[v] + 1;
        deepest = nf->depth[v] > deepest ? nf->depth[v] : deepest;
        widest = max_i64(widest, (int64_t)(nf->child_ptr[v + 1] - nf->child_ptr[v]) * (queries(nf, v) + 1));
    }
    t.best = xcalloc((size_t)t.first[n], sizeof *t.best);
    t.knap = xcalloc((size_t)nf->n_queries + 1, sizeof *t.knap);
    t.knap2 = xcalloc((size_t)nf->n_queries + 1, sizeof *t.knap2);
    int64_t *len = xcalloc((size_t)deepest + 1, sizeof *len);
    uint8_t *taken = xcalloc((size_t)widest / 8 + 1, 1);

    for (int32_t v = n - 1; v >= 0; v--) { /* children have larger numbers, so they are ready */
        chain_lengths(nf, v, len);
        for (int32_t a = 0; a <= nf->depth[v]; a++) {
            int64_t reach = fill_knapsack(&t, v, a, NULL, 0);
            choose(&t, v, len[a], reach, &t.best[t.first[v] + a]);
        }
    }

    double total = 0;
    int32_t *start = xcalloc((size_t)n, sizeof *start); /* depth at which v's virtual node begins */
    for (int32_t v = 0; v < n; v++) {
        if (nf->parent[v] < 0) {
            joined[v] = 0;
            start[v] = 0;
            total += t.best[t.first[v]];
        }
        int32_t kids = nf->child_ptr[v + 1] - nf->child_ptr[v];
        int64_t width = queries(nf, v) + 1;
        memset(taken, 0, (size_t)(kids * width / 8 + 1));
        chain_lengths(nf, v, len);
        double cost;
        int64_t reach = fill_knapsack(&t, v, start[v], taken, width);
        int64_t s = choose(&t, v, len[start[v]], reach, &cost);
        for (int32_t i = kids - 1; i >= 0; i--) {
            int32_t c = nf->child[nf->child_ptr[v] + i];
            int64_t bit = (int64_t)i * width + s;
            joined[c] = taken[bit / 8] >> bit % 8 & 1;
            start[c] = joined[c] ? start[v] : nf->depth[c];
            if (joined[c])
                s -= queries(nf, c);
        }
        CK(s == 0);
    }
    free(start);
    free(taken);
    free(len);
    free(t.knap);
    free(t.knap2);
    free(t.best);
    free(t.first);
    return total;
}

/* ---- the strategy ----------------------------------------------------------------------------------- */

enum { OPT_COST, OPT_MAX_ROWS, OPT_SPLIT, N_OPTS };

static const struct strategy_opt opts[] = {
    [OPT_COST] = {"cost", OBJECTIVE_BYTES, 0, N_OBJECTIVES - 1, "what is minimised, see optimal.h",
                  objective_name},
    [OPT_MAX_ROWS] = {"max_rows", 64, 1, 4096, "rows of the largest pack", NULL},
    [OPT_SPLIT] = {"split", 1, 0, 1, "1: split long packs as PAT does, when the optimum is found", NULL},
    [N_OPTS] = {0},
};

static bool applicable(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                       const double *opt, char *why)
{
    (void)env;
    (void)s;
    (void)opt;
    if (nf->since)
        return why_not(why, "with windows the tokens of a pack depend on which queries stay in it; the exact minimum "
                            "knows only how many");
    return optimal_solvable(nf, why);
}

static struct plan *plan(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt)
{
    struct objective_env o =
        objective_of((enum objective)(int)opt[OPT_COST], env, (int32_t)opt[OPT_MAX_ROWS]);
    struct packing how = {.rule = RULE_PAPER, .pack = o.pack, .split = opt[OPT_SPLIT] != 0};
    uint8_t *joined = xcalloc((size_t)nf->n_nodes, sizeof *joined);
    optimal_edges(nf, &o, joined);
    struct plan *p = packs_plan(nf, env, s->name, &how, joined);
    free(joined);
    return p;
}

const struct strategy strategy_optimal = {
    .name = "optimal",
    .superlinear = true,
    .source = "ours; the space of FastTree section 4.1",
    .about =
        "The exact minimum of a stated cost over all edge assignments, carried out as PAT's paper "
        "carries out its own; long packs are then split (split=1), which that cost leaves out, and "
        "every pack counts as a partial result, so that plans that write some outputs at once may move less.",
    .opts = opts,
    .applicable = applicable,
    .plan = plan,
};
