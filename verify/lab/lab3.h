/*
 * lab3.h - a tree of lab 3 and what a student said of it.
 */
#ifndef TREEATTN_VERIFY_LAB_LAB3_H
#define TREEATTN_VERIFY_LAB_LAB3_H

#include "ref/tree.h"
#include "verify/lab/partition.h"

BEGIN_C

enum {
    GATE_ONE = 1,
    GATE_LEAVES,
    GATE_INNER,
    GATE_FOREST,
    GATE_EMPTY,
    GATE_LONG,
    GATE_SHARED,
    GATE_FULL,
    TILE_M = 32,
    TILE_N = 128,
    MOST_TOKENS = 512,
    RATIO = 4,
    MOST_PADDING = 11 /* tenths of deft-flatten's */
};

struct lab3_asked {
    int32_t gate;
    struct tree *t;
    struct partition p;
    int64_t kv, padded; /* of one KV head: bytes, tokens */
    int64_t node_kv, flat_padded;
};

/* The sentence, or NULL; the caller frees. Of all trees, or of the wrong ones of a gate and of all right ones. */
char *lab3_cause(const struct lab3_asked *all, int32_t n, int32_t gate);
/* The invariant of tests/labs/L3/README.md that the first mistake of such a sentence breaks; 0: there is none. */
int32_t lab3_invariant(const char *cause);
/* Why the padding of right groups is too much, or NULL; the caller frees. */
char *lab3_padding_cause(const struct lab3_asked *all, int32_t n);
/* Somebody may say a million groups: these are neither searched for a cause nor drawn. */
bool lab3_too_large(const struct lab3_asked *a);

END_C

#endif
