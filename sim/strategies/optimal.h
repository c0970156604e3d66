/*
 * optimal.h - the exact minimum of an additive cost over all edge assignments of a tree.
 *
 * FastTree and PAT search the same space, a bit per node (sim/vtree.h), greedily. Some costs can be minimised
 * exactly: a sum over virtual nodes of a function of (queries left, tokens with what is inherited), plus a
 * price per edge kept apart. Let f(v, a) be the least cost of everything below v when v's virtual node begins
 * at its ancestor a. At v each child c is either joined, f(c, a), and takes its queries out of v's group, or
 * apart, f(c, c). As the group's price depends on how many queries stay and not on which, a knapsack over the
 * children, by queries taken out, gives f(v, a). The work is the sum over nodes of depth x children x queries
 * below: polynomial in nodes and queries, with no assumption on the price.
 */
#ifndef TREEATTN_SIM_STRATEGIES_OPTIMAL_H
#define TREEATTN_SIM_STRATEGIES_OPTIMAL_H

#include "sim/strategies/edge_planners.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is minimised. */
enum objective {
    /* KV, Q and partial bytes of the ledger; every `pack` queries read the KV anew. Every pack leaves a
     * partial result of O, maximum and sum, as PAT's paper has it. Whether a query has another pack cannot be
     * said in a sum over packs. PAT's released rules leave O and LSE, or none where there is one pack, so
     * their plans may move fewer bytes. */
    OBJECTIVE_BYTES,
    OBJECTIVE_FASTTREE, /* padding and reduction, equations 5-11 */
    OBJECTIVE_PAT, /* what PAT's profit saves against: KV tokens loaded + 4 per partial result, section 5.1 */
    N_OBJECTIVES
};
extern const char *const objective_name[N_OBJECTIVES + 1]; /* NULL-terminated */

struct objective_env {
    enum objective kind;
    const struct plan_env *env;
    int32_t pack; /* queries that share one reading of the KV, >= 1 */
    struct fasttree_cost fasttree;
};
/* Tiles of `rows` rows; FastTree's coefficients at their defaults. `env` is kept. */
struct objective_env objective_of(enum objective kind, const struct plan_env *env, int32_t rows);

/* Cost of an assignment, summed over its virtual nodes and kept edges. */
double objective_cost(const struct nform *nf, const struct objective_env *o, const uint8_t *joined);

/* Is the tree small enough to solve? If not, why[WHY_MAX] says what it would take. */
bool optimal_solvable(const struct nform *nf, char *why);
/* joined[n_nodes] becomes an assignment of least cost; returns the cost. The tree must be solvable. */
double optimal_edges(const struct nform *nf, const struct objective_env *o, uint8_t *joined);

#ifdef __cplusplus
}
#endif

#endif
