/*
 * vtree.h - from an edge assignment to groups (FastTree section 4.1: the virtual tree).
 *
 * Every way of packing that FastTree, PAT and the exact optimum consider is a bit per node. 1 means that the
 * node is concatenated with its parent: its queries leave the parent's group, and read the parent's tokens
 * together with the node's own. So they do with everything that the parent inherited in its turn.
 */
#ifndef TREEATTN_SIM_VTREE_H
#define TREEATTN_SIM_VTREE_H

#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queries that remain at node v, and its tokens with what it inherited, root first, into *s (cleared first). With windows: the
 * queries that see v, and of the tokens those that one of them sees. */
void vtree_select(const struct nform *nf, const uint8_t *joined, int32_t v, struct sel *s);
/* Of trees without windows. Tokens of the virtual node v: len[v] plus what it inherited. */
int64_t vtree_len(const struct nform *nf, const uint8_t *joined, int32_t v);
/* Queries that remain at v. */
int32_t vtree_nq(const struct nform *nf, const uint8_t *joined, int32_t v);

#ifdef __cplusplus
}
#endif

#endif
