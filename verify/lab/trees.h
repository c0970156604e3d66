/* trees.h - trees for labs: small ones first, with all that a tree may have. */
#ifndef TREEATTN_VERIFY_LAB_TREES_H
#define TREEATTN_VERIFY_LAB_TREES_H

#include "ref/tree.h"

BEGIN_C

/* What a drawn tree may have; a tree has some of it. */
enum lab_tree_kind {
    LAB_TREE_LEAVES = 0, /* one root, queries at the ends of leaves, no node empty */
    LAB_TREE_INNER = 1,  /* queries on inner nodes, and in the middle of nodes */
    LAB_TREE_FOREST = 2, /* several roots */
    LAB_TREE_EMPTY = 4,  /* nodes without tokens, queries that see nothing */
    LAB_TREE_LONG = 8,   /* nodes of up to 3,000 tokens */
    LAB_TREE_ALL = 15
};
/* Tree i of that seed: it grows with i, from a node or two to some forty. Free with tree_free. */
struct tree *lab_tree(uint64_t seed, int32_t i, int32_t kind);
/* A tree for people: how large it is, and all of it if it is small. The caller frees. */
char *lab_tree_text(const struct tree *t);
/* All of it, as C from which lab.h's struct lab_tree can be filled. The caller frees. */
char *lab_tree_code(const struct tree *t);

END_C

#endif
