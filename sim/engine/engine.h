/* engine.h - a context of treeattn.h, inside. */
#ifndef TREEATTN_SIM_ENGINE_ENGINE_H
#define TREEATTN_SIM_ENGINE_ENGINE_H

#include "ref/tree.h"
#include "sim/engine/arena.h"
#include "sim/engine/prefix_tree.h"
#include "sim/plan.h"
#include "sim/strategy.h"

BEGIN_C

/* Of a node of the step's tree, besides what struct tree has. */
struct node_extra {
    int64_t first_page; /* of the packed plan's pages, where its own begin */
    int32_t row;        /* a request that has its pages, */
    int32_t begin, end; /* at these places of its list */
};

struct ta_ctx {
    struct arena arena;
    struct ta_limits limits;
    struct prefix_tree trie;
    struct tree tree;                  /* of the step; its arrays are in this context's memory */
    struct node_extra *extra;          /* [nodes] */
    int64_t *first;                    /* [nodes] as in ta_nodes */
    int32_t *request;                  /* [nodes] */
    int32_t *pages, *length, *queries; /* [requests] of the step */
    int32_t *order, *count;            /* [nodes], [requests + 2] for numbering */
    int64_t n_pages;                   /* of the tree */
    int32_t page_size;
    bool valid; /* there is a tree */
    struct strategy_use
        last; /* what the last plan was made by, with all that it chose; s NULL: there is none */
    struct ta_packed packed;
    int32_t *words; /* [limits.plan_words] */
    void *memory;   /* of all of it, as the system gave it */
};

/* The plan of the context's tree as c->packed, within its limits. */
void pack_plan(struct ta_ctx *c, const struct plan *p);

END_C

#endif
