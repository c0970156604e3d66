/*
 * treeattn_planner.h - what the files of the strategy treeattn share: the tree as its planner sees it, and blocks of queries.
 *
 *     treeattn.c         options, and the groups of the plan that was chosen
 *     treeattn_choose.c  which plan costs least
 *     treeattn_cuts.c    a block's tokens, and where it is cut in parts
 *     treeattn_blocks.c  which queries are a block
 *
 * Each uses those below it.
 */
#ifndef TREEATTN_SIM_STRATEGIES_TREEATTN_PLANNER_H
#define TREEATTN_SIM_STRATEGIES_TREEATTN_PLANNER_H

#include "sim/strategies/interleave.h"
#include "sim/strategies/tree_parts.h"
#include "sim/strategies/edge_planners.h"
#include "sim/strategies/treeattn.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OPT_LOW, OPT_HIGH, OPT_PIECE, OPT_BUNDLE, OPT_TRUNK, OPT_TALL, OPT_EVEN, OPT_TURNS, OPT_RANK, N_OPTS };

enum {
    TREEATTN_MOST_TOKENS = 1 << 30, /* that an option can say */
    TREEATTN_MOST_RANKS = 32,       /* plans between which measuring may decide */
    TREEATTN_SLIVERS = 4            /* fewer tokens than a piece over this join others */
};

/* ---- blocks (treeattn_blocks.c) ------------------------------------------------------------------------ */

/* Plain ones stand first, then trunks, then bundles. */
enum block_kind { PLAIN, TRUNK, BUNDLE };

/*
 * Neighbouring queries q0 .. q1 and all tokens that one of its groups reads, before they are cut in pieces.
 *
 * Its nodes are `top` and those above it along treeattn_planner.up, and of the live nodes first .. end those that
 * treeattn_belongs names. top is, of a plain block, the innermost node of its own that its first query is below (-1: none); of
 * a trunk its innermost node; of a bundle -1.
 */
struct block {
    enum block_kind kind;
    int32_t q0, q1;
    int32_t top, first, end;
    int64_t shared; /* tokens that all of its queries see */
    int64_t own;    /* other tokens */
    int64_t few;    /* of own, those of nodes with at most TILE_TEAM_ROWS rows */
    int64_t pairs;  /* of a query and a token of own that it sees */
    int32_t runs;   /* nodes */
};

/* Which blocks there are. */
struct cut {
    int64_t low, high; /* rows of a bundle and of a plain block, at most */
    int64_t trunk;     /* tokens of a trunk's node, at least; 0: no trunks */
    int tall;          /* as in tile_bill_tall */
};

/* Tokens of a part, at most: of a plain block or a trunk, and of a bundle. even: parts of plain blocks and trunks take equally long,
 * wherever they end, and have at most `block` tokens on average. */
struct piece {
    int64_t block, bundle;
    bool even;
};

/* A block as a selection, with the queries that see each of its runs. */
struct seen {
    struct sel sel;
    struct qrange *by; /* [sel.n_runs] */
    int64_t cap_by;
    int64_t n_shared; /* runs that all of its queries see; depth first, those come first */
};

/* The parts of a block's tokens, one run after the other: part i is end[i - 1] .. end[i]. */
struct parts {
    int64_t *end;
    int64_t n, cap;
};

struct treeattn_planner {
    const struct nform *nf;
    const struct live *live; /* depth first */
    int32_t n, gqa;
    int64_t tokens;    /* of all live nodes */
    int32_t n_queries; /* that see any token */
    struct cut cut;    /* of what follows: */
    /* [n] Of a node that is not low; -1: there is none. */
    int32_t *over;  /* the node above it */
    int32_t *base;  /* the innermost that plain blocks have, itself or above */
    int32_t *up;    /* the next above of its kind: of plain blocks, or of the same trunk */
    int64_t *above; /* tokens from the last `up` to its end */
    int32_t *depth; /* nodes from there to it */
    struct block *block;
    int64_t n_blocks, cap_block;
    int64_t n_runs; /* of all blocks */
    /* The block that is looked at: */
    struct seen seen;
    struct parts parts;
    struct pieces it; /* over its parts */
    struct sel spare[INTERLEAVE_SORTS];
    uint8_t *sort; /* of a group's runs, as interleave has it */
    int64_t cap_sort;
    struct tile_env price;
};

/* Free with treeattn_planner_free. nf must outlive it. */
struct treeattn_planner treeattn_planner_new(const struct nform *nf, const struct plan_env *env);
void treeattn_planner_free(struct treeattn_planner *p);

/* The blocks of a cut, in the planner, in place of those before. */
void treeattn_find_blocks(struct treeattn_planner *p, struct cut cut);

/* Does a live node between first and end belong to the block? */
bool treeattn_belongs(const struct treeattn_planner *p, const struct block *b, const struct live *v);

/* Queries of the block that see a node of it; with windows from the first that does to the last, or none. */
static inline struct qrange clipped(const struct treeattn_planner *p, const struct block *b, const struct live *v)
{
    struct qrange x = {v->q0 > b->q0 ? v->q0 : b->q0, v->q1 < b->q1 ? v->q1 : b->q1};
    while (p->nf->since && x.begin < x.end && !nform_in_window(p->nf, x.begin, v->node))
        x.begin++;
    while (p->nf->since && x.begin < x.end && !nform_in_window(p->nf, x.end - 1, v->node))
        x.end--;
    return x;
}

/* ---- cuts (treeattn_cuts.c) ---------------------------------------------------------------------------- */

/* The block's nodes into p->seen: those above its first query, root first, then the rest. */
void treeattn_see(struct treeattn_planner *p, const struct block *b);
/* The parts of the block that is seen, into p->parts. */
void treeattn_find_parts(struct treeattn_planner *p, const struct block *b, const struct piece *piece);
/* The next n_kv tokens of the block that is seen, as the cost model wants them; moves *at behind them. */
struct tile_part treeattn_next_part(const struct treeattn_planner *p, const struct block *b,
                                    struct sel_place *at, int64_t n_kv);
/* Rows of the tile of a group of nq of the block's queries, if tiles are not tall. */
int32_t treeattn_tile_rows(const struct treeattn_planner *p, const struct block *b, int64_t nq);
/* The selection's queries become those that see any of it. by: the queries that see each of its runs. */
void treeattn_select_queries(const struct treeattn_planner *p, struct sel *s, const struct block *b,
                             const struct qrange *by);

/* ---- the choice (treeattn_choose.c) -------------------------------------------------------------------- */

struct choice {
    struct cut cut;
    struct piece piece;
    double price; /* microseconds */
};
/* The plan of the rank that the options ask for, cheapest first. The planner has its blocks then. */
struct choice treeattn_choose(struct treeattn_planner *p, const double *opt);
/* The choice as options, chosen[N_OPTS]. */
void treeattn_write_options(const struct choice *x, const double *opt, double *chosen);

#ifdef __cplusplus
}
#endif

#endif
