/*
 * tree_builder.h - what the seeded families are grown with: draws, nodes, queries; internal to traces/.
 */
#ifndef TREEATTN_TRACES_GENERATE_TREE_BUILDER_H
#define TREEATTN_TRACES_GENERATE_TREE_BUILDER_H

#include "ref/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tree under construction and the stream of draws that makes it. */
struct grower {
    uint64_t seed, stream, draw;
    bool large, fine;
    int64_t fine_left; /* tokens that children may still have, in a fine tree */
    struct tree *t;
    int64_t node_cap, query_cap; /* of the tree's arrays */
};

/* Uniform in lo .. hi, both included. */
int32_t grow_draw(struct grower *g, int32_t lo, int32_t hi);
bool grow_chance(struct grower *g, int32_t percent);
/* A length in lo .. hi: half of them at the edges of tiles and pages, if the range has such. */
int64_t grow_draw_len(struct grower *g, int32_t lo, int32_t hi);

/* Add a node, and return its number. A child is short, and now and then empty; in a fine tree it has 0 to 2
 * tokens. A prefix is the root of a tree whose queries all share it, of at most hi tokens unless the tree is
 * fine. */
int32_t grow_node(struct grower *g, int32_t parent, int64_t len);
int32_t grow_child(struct grower *g, int32_t parent, int32_t lo, int32_t hi);
int32_t grow_prefix(struct grower *g, int32_t hi);

/* Below `root`, which is the newest node: two to six children a node, `levels` levels (the root's
 * included), at most `nodes` nodes. Or `leaves` children in one or two levels. lo and hi bound the
 * lengths. */
void grow_bushy(struct grower *g, int32_t root, int32_t levels, int32_t nodes, int32_t lo, int32_t hi);
void grow_wide(struct grower *g, int32_t root, int32_t leaves, int32_t lo, int32_t hi);

void grow_query(struct grower *g, int32_t node, int64_t upto);
/* One query at the end of most leaves and of inner_percent of the inner nodes; some have several, or
 * causal chains, or one in their middle; one tree in four loses all queries below some node. At least one
 * is made. */
void grow_queries(struct grower *g, int32_t inner_percent);
/* More queries on nodes that have some, until there are more than 128. */
void grow_more_queries(struct grower *g);

#ifdef __cplusplus
}
#endif

#endif
