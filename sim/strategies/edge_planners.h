/*
 * edge_planners.h - what FastTree and PAT share, and what tests compare with the published planners.
 *
 * Both decide a bit per node (sim/vtree.h). From the bits follow the virtual nodes, and these are cut into
 * pieces: some of their queries x some of their tokens.
 */
#ifndef TREEATTN_SIM_STRATEGIES_EDGE_PLANNERS_H
#define TREEATTN_SIM_STRATEGIES_EDGE_PLANNERS_H

#include "sim/strategy.h"
#include "sim/time/tiles.h"
#include "sim/vtree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* nq[n_nodes], len[n_nodes]: queries that remain at every virtual node, and its tokens with what it
 * inherited. In one pass, where vtree_nq and vtree_len would walk for each node anew; with windows node by node. */
void vnode_sizes(const struct nform *nf, const uint8_t *joined, int32_t *nq, int64_t *len);

/*
 * Walks the pieces of a selection, queries outermost. A piece has q_step queries, the last one fewer. Its
 * tokens are kv_step, the last one fewer; or (equal) the fewest parts that are at most kv_step long and
 * differ by at most one token. The work is that of writing the pieces down, however many there are.
 *
 *     struct pieces it = pieces_of(&sel, q_step, kv_step, false);
 *     while (pieces_next(&it))
 *         ... it.piece ...
 *     pieces_free(&it);
 */
struct pieces {
    const struct sel *whole;
    struct sel piece;
    int64_t q_step, kv_step, kv_parts;
    bool equal;
    const int64_t *end;     /* of each KV part, in tokens of the selection; NULL: as kv_step says */
    int64_t q_at, part;     /* first query of the piece, number of its KV part */
    int64_t q_range, q_off; /* where reading goes on: range and offset into it, */
    struct sel_place token; /* and tokens */
};
struct pieces pieces_of(const struct sel *s, int64_t q_step, int64_t kv_step, bool equal);
/* Start over with another selection, keeping the memory. */
void pieces_reset(struct pieces *it, const struct sel *s, int64_t q_step, int64_t kv_step, bool equal);
/* The same for parts of all its queries that end where the caller says: end[n], ascending. The last one ends
 * with the selection. `end` is kept, not copied. */
void pieces_reset_at(struct pieces *it, const struct sel *s, const int64_t *end, int64_t n);
bool pieces_next(struct pieces *it);
void pieces_free(struct pieces *it);

/* ---- FastTree --------------------------------------------------------------------------------------- */

struct fasttree_cost {
    int32_t rule;      /* RULE_PAPER, RULE_ARTIFACT */
    int32_t gqa;       /* query heads per KV head */
    int32_t tile_q[2]; /* large, small; in queries */
    int32_t tile_kv;
    double alpha, beta, gamma;
};
/* Equations 5-7: padding of a virtual node of nq queries and len tokens, without the factor d. */
double fasttree_pad_cost(const struct fasttree_cost *c, int32_t nq, int64_t len);
/* Algorithm 1: joined[n_nodes] for all trees of the forest. */
void fasttree_edges(const struct nform *nf, const struct fasttree_cost *c, uint8_t *joined);

/* Everything FastTree decides before it writes the groups down. Index 0 is the large phase, 1 the small. */
struct fasttree_prep {
    uint8_t *joined;           /* [n_nodes] */
    int32_t *nq;               /* [n_nodes] */
    int64_t *len;              /* [n_nodes] */
    struct fasttree_cost cost; /* with the final tiles in queries */
    int32_t tile_rows[2];
    int64_t split[2];
    int64_t parallelism[2];
};
/* `s` is fasttree or an ablation of it. Free with fasttree_prep_free. */
struct fasttree_prep fasttree_prepare(const struct nform *nf, const struct plan_env *env,
                                      const struct strategy *s, const double *opt);
void fasttree_prep_free(struct fasttree_prep *f);
/* The cost model at its defaults, for those who borrow it. */
struct fasttree_cost fasttree_default_cost(int32_t rule, int32_t gqa);

/* ---- PAT -------------------------------------------------------------------------------------------- */

/* TreeHeuristic (PAT algorithm 1, or as released) for all trees; `pack` is the number of queries a pack
 * holds, which only the released rule looks at. */
void pat_edges(const struct nform *nf, int32_t rule, int32_t pack, uint8_t *joined);

/* How packs become a plan. */
struct packing {
    int32_t rule;      /* RULE_PAPER, RULE_ARTIFACT: splits, tiles and slots */
    int32_t pack;      /* queries of the largest pack */
    bool split;        /* cut long packs */
    int64_t block;     /* tokens of a KV block, in which RULE_ARTIFACT counts when it cuts */
    struct tile fixed; /* of every pack; m = 0: selected */
    bool serial;       /* one launch after the other */
};
/* The plan of an edge assignment, whoever made it, carried out as PAT does (sections 5.2-7). */
struct plan *packs_plan(const struct nform *nf, const struct plan_env *env, const char *name,
                        const struct packing *how, const uint8_t *joined);

#ifdef __cplusplus
}
#endif

#endif
