#include "tests/papers/deft_table12.h"

#include <stdlib.h>

const char *const table12_strategy[N_TABLE12] = {
    [TABLE12_NAIVE] = "naive",
    [TABLE12_FLASH_DECODING] = "flash-decoding",
    [TABLE12_RADIX] = "radix-attention",
    [TABLE12_MEDUSA] = "tree-medusa",
    [TABLE12_SPECINFER] = "tree-specinfer",
    [TABLE12_NODE] = "deft-node",
    [TABLE12_NODE_CHUNK] = "deft-node-chunk",
    [TABLE12_FLATTEN] = "deft-flatten",
};

/* Table 11. */
struct notation {
    int64_t l_n, sum_n, n_tree;
};

static struct notation notation_of(const struct tree *t)
{
    struct notation x = {0};
    int64_t *context = xcalloc((size_t)t->n_queries, sizeof *context);
    int64_t *seen = xcalloc((size_t)t->n_nodes, sizeof *seen); /* tokens of the node that some query sees */
    bool *above = xcalloc((size_t)t->n_nodes, sizeof *above);  /* a query is on the node or below it */
    tree_contexts(t, context);
    for (int32_t q = 0; q < t->n_queries; q++) {
        x.l_n += context[q] > 0;
        x.sum_n += context[q];
        above[t->query[q].node] = true;
        seen[t->query[q].node] = max_i64(seen[t->query[q].node], t->query[q].upto);
    }
    for (int32_t i = t->n_nodes - 1; i >= 0; i--) {
        int32_t p = t->parent[i];
        if (p >= 0 && above[i]) {
            above[p] = true;
            seen[p] = t->len[p];
        }
        x.n_tree += seen[i];
    }
    free(context);
    free(seen);
    free(above);
    return x;
}

struct table12 deft_table12(const struct tree *t, enum table12_method m, int32_t heads, int32_t d,
                            int32_t elt_bytes)
{
    struct notation x = notation_of(t);
    int64_t o = (int64_t)heads * elt_bytes, pairs = x.l_n * x.n_tree;
    switch (m) {
    case TABLE12_NAIVE:
        return (struct table12){.kv = 2 * d * x.sum_n * o,
                                .qk = 2 * x.sum_n * o,
                                .scaled = 2 * x.sum_n * o,
                                .softmax = 2 * x.sum_n * o};
    case TABLE12_FLASH_DECODING:
    case TABLE12_RADIX:
        return (struct table12){.kv = 2 * d * x.sum_n * o};
    case TABLE12_MEDUSA:
        return (struct table12){.kv = 2 * d * x.n_tree * o,
                                .qk = 2 * pairs * o,
                                .scaled = 2 * pairs * o,
                                .mask = 2 * pairs,
                                .masked = 2 * pairs * o,
                                .softmax = 2 * pairs * o};
    case TABLE12_SPECINFER: /* a bit is the 64th part of a word of 8 bytes */
        return (struct table12){.kv = 2 * d * pairs * o, .mask = ceil_div(pairs, 8)};
    case TABLE12_FLATTEN:
        return (struct table12){.kv = 2 * d * x.n_tree * o, .mask = 8 * x.n_tree};
    default:
        return (struct table12){.kv = 2 * d * x.n_tree * o};
    }
}
