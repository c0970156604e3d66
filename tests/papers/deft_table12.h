/*
 * deft_table12.h - what DeFT's Table 12 says that methods read and write, from the tree alone.
 *
 * Its letters (Table 11): l_n queries, N_i tokens that query i sees, N_tree tokens of the tree, d head size;
 * O(x) stands for x elements of every query head. Nothing of plans is used here: the tests hold these closed
 * forms against plans counted as COUNT_PAPER.
 *
 *                    KV              QK^T, /s_c      mask             + mask       softmax
 *   naive            2 d sum N_i     2 sum N_i       -                -            2 sum N_i
 *   flash-decoding, radix-attention
 *                    2 d sum N_i     -               -                -            -
 *   tree-medusa      2 d N_tree      2 l_n N_tree    l_n N_tree       2 l_n N_tree 2 l_n N_tree
 *   tree-specinfer   2 d l_n N_tree  -               l_n N_tree / 64  -            -
 *   deft-node, deft-node-chunk
 *                    2 d N_tree      -               -                -            -
 *   deft-flatten     2 d N_tree      -               N_tree           -            -
 *
 * DEVIATION: masks once for all heads, with elements of 2 bytes (dense) and words of 8: so does Table 17.
 * Queries that see nothing, and tokens that no query sees, are not in the trees that DeFT speaks of.
 */
#ifndef TREEATTN_TESTS_PAPERS_DEFT_TABLE12_H
#define TREEATTN_TESTS_PAPERS_DEFT_TABLE12_H

#include "ref/tree.h"

BEGIN_C

enum table12_method {
    TABLE12_NAIVE,
    TABLE12_FLASH_DECODING,
    TABLE12_RADIX,
    TABLE12_MEDUSA,
    TABLE12_SPECINFER,
    TABLE12_NODE,
    TABLE12_NODE_CHUNK,
    TABLE12_FLATTEN,
    N_TABLE12
};
/* The strategy that plans as the method does. */
extern const char *const table12_strategy[N_TABLE12];

/* Bytes of one layer, in Table 12's columns. */
struct table12 {
    int64_t kv, qk, scaled, mask, masked, softmax;
};

/* heads query heads of d elements of elt_bytes. */
struct table12 deft_table12(const struct tree *t, enum table12_method m, int32_t heads, int32_t d,
                            int32_t elt_bytes);

END_C

#endif
