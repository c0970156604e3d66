/*
 * formats.h - single trees from text: level strings, FastTree's tree files, seeded families.
 */
#ifndef TREEATTN_TRACES_FORMATS_FORMATS_H
#define TREEATTN_TRACES_FORMATS_FORMATS_H

#include "ref/tree.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "1,4,16 1024,256,32": nodes per level, tokens per node of each level. Child j of a level of `size` nodes
 * hangs under node j * (size of the level above) / size; ids run level by level; every leaf is one query. The
 * two lists may be separated by a blank, ';' or '_'. Several roots make a forest. */
struct tree *levels_parse(const char *text, struct err *e);
/* Write a tree as such a line; false with *e set if it is not what any level string says (one length a
 * level, ids and parents by the rule above, queries at the ends of the leaves). */
bool levels_write(FILE *f, const struct tree *t, struct err *e);

/* True if the queries are what these two formats imply: one at the end of each leaf, in node order. */
bool tree_has_leaf_queries(const struct tree *t);

/* FastTree's tree file: the node count, then `parent id length children` a line; every leaf is one query. */
struct tree *fasttree_file_read(const char *path, struct err *e);
/* The same from text already in memory; `name` appears in messages. */
struct tree *fasttree_file_parse(const char *text, size_t size, const char *name, struct err *e);
/* Write the nodes of a tree in that format (its queries must be exactly its leaves, else false). */
bool fasttree_file_write(FILE *f, const struct tree *t, struct err *e);

/* The project's own text, which says whatever a tree can (tree_text.c has the grammar): nodes and queries, a
 * line each. `name` appears in messages. */
struct tree *tree_text_parse(const char *text, size_t size, const char *name, struct err *e);
bool tree_text_write(FILE *f, const struct tree *t, struct err *e);

/* A mask as text (mask_text.c has the grammar): which query sees which token. Where that is no tree, *e names two rows that
 * contradict each other. */
struct tree *mask_text_parse(const char *text, size_t size, const char *name, struct err *e);

/* A tree file of any kind: FastTree's begins with a number, ours with the word `tree`, perhaps after
 * comments, a mask with the word `mask`. */
struct tree *tree_file_read(const char *path, struct err *e);
struct tree *tree_file_parse(const char *text, size_t size, const char *name, struct err *e);

/* ---- seeded families ----------------------------------------------------------------------------------- */

enum family {
    FAM_BUSHY,       /* every inner node has 2-6 children, depth 3-6 */
    FAM_DEEP,        /* long paths, few branches */
    FAM_WIDE,        /* one or two levels of very many children */
    FAM_CATERPILLAR, /* reasoning trees: ten children, one of which branches again */
    FAM_FOREST,      /* two to six roots, each a bushy or wide tree; some queries on inner nodes */
    FAM_TOKEN,       /* speculative: a long prefix and a tree of single-token nodes, a query on every token */
    FAM_DEGENERATE,  /* what breaks things: empty nodes, one query, no tokens, chains, queries that see
                        nothing,  several queries at one place, uptos in the middle of nodes, dead subtrees */
    N_FAMILIES
};
extern const char *const family_name[N_FAMILIES];
extern const char *const family_about[N_FAMILIES];
bool family_parse(const char *s, enum family *out);

/* The tree of that family and seed; never fails; passes tree_check. A seed divisible by 8 gives a large tree,
 * with more than 128 queries in most families. */
struct tree *gen_tree(enum family f, uint64_t seed);

/* Tree number `index` of a run of random trees: its family, in fixed shares, and its seed, of which exactly
 * one in eight makes a large tree. */
enum family gen_family(uint64_t seed, int64_t index);
uint64_t gen_seed(uint64_t seed, int64_t index);

#ifdef __cplusplus
}
#endif

#endif
