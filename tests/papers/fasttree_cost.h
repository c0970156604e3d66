/*
 * fasttree_cost.h - FastTree's cost model (section 4.2, equations 3 to 11), as printed.
 *
 * An independent evaluation of an edge assignment: virtual nodes are found by walking up from every query,
 * not as sim/vtree.h finds them, and costs keep the factor d. The planner's own (rule=paper and artifact,
 * without d) is in sim/strategies/fasttree.c.
 */
#ifndef TREEATTN_TESTS_PAPERS_FASTTREE_COST_H
#define TREEATTN_TESTS_PAPERS_FASTTREE_COST_H

#include "ref/nform.h"

BEGIN_C

struct fasttree_model {
    int64_t tile_q[2]; /* TS_q: of nodes of more than tile_q[1] queries, and of the others */
    int64_t tile_kv;   /* TS_c */
    int64_t d;
    double alpha, beta, gamma;
};

/* Equation 3; n >= 1. */
int64_t fasttree_pad(int64_t tile, int64_t n);
/* Equation 7, from 5 and 6: padding of a virtual node. Nothing to read or nobody to read it costs nothing. */
double fasttree_padding(const struct fasttree_model *m, int64_t nq, int64_t len);
/* Equations 8, 10 and 11: a child of nq_l queries and len_l tokens apart from its parent, which has nq_v
 * queries left (the child's among them) and len_v tokens. */
double fasttree_split_kv(const struct fasttree_model *m, int64_t nq_v, int64_t len_v, int64_t nq_l,
                         int64_t len_l);
/* Equation 9: the same child joined to its parent. */
double fasttree_split_q(const struct fasttree_model *m, int64_t nq_v, int64_t len_v, int64_t nq_l,
                        int64_t len_l);

/* A whole assignment, joined[n_nodes] (1: concatenated with the parent): equation 7 over its virtual nodes and
 * equation 10 over the edges that are kept. */
double fasttree_plan_cost(const struct fasttree_model *m, const struct nform *nf, const uint8_t *joined);

END_C

#endif
