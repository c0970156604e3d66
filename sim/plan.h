/*
 * plan.h - the plan: the only contract between a strategy and whatever runs, prices or checks it.
 *
 * A plan partitions the (query, visible token) pairs of one tree in normal form. It is immutable once built,
 * prints itself, and knows nothing of Q, K, V or of the page table.
 *
 *   group    some queries x some runs of KV tokens, computed together, tile by tile; once per KV head with
 *            nq * g rows (g = h_q / h_kv, a row is one query and one of its g query heads), in
 *            ceil(nq * g / tile_m) Q tiles, each of which reads the group's KV anew
 *   slot     room for one query's partial result over one group: O and LSE of all its heads
 *   merge    some slots -> one slot, or the query's output
 *   launch   a kernel: its groups or merge steps run together; serial after the launch before it, or
 *            concurrent with it
 */
#ifndef TREEATTN_SIM_PLAN_H
#define TREEATTN_SIM_PLAN_H

#include <stdio.h>

#include "ref/nform.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qrange {
    int32_t begin, end; /* queries of the normal form, half open */
};

struct run {
    int32_t node;       /* of the normal form */
    int64_t begin, end; /* tokens of that node, half open, never empty */
};

/* A query and tokens of a node, all of which it sees or none. */
struct plan_pair {
    int32_t query; /* of the normal form; -1: none */
    struct run run;
};

/*
 * Normal form cuts nodes at every query. So a query sees all of a run or nothing of it, and every mask
 * carries the same information: one bit per (query, run). What differs is the form in which a kernel reads
 * it, and so its price. Sizes for a group of nq queries, nr runs, n tokens, read per Q tile:
 */
enum mask_kind {
    MASK_NONE,        /* every query of the group sees every token of the group */
    MASK_RUN_WORDS,   /* ceil(nq / 64) 64-bit words per run, a bit per query: DeFT algorithm 3 */
    MASK_TOKEN_WORDS, /* ceil(nq / 64) 64-bit words per token, a bit per query: DeFT's released code */
    MASK_QUERY_WORDS, /* ceil(n / 64) 64-bit words per query, a bit per token: SpecInfer */
    MASK_DENSE,       /* one 16-bit float per (query, token), 0 or -inf: Medusa */
    N_MASK_KINDS
};
extern const char *const mask_name[N_MASK_KINDS];

#define PLAN_NO_SLOT INT64_C(-1)

struct group {
    int64_t qr0, qr1;   /* its query ranges: plan->qr[qr0 .. qr1) */
    int64_t run0, run1; /* its KV runs, in order: plan->run[run0 .. run1) */
    int64_t n_kv;       /* tokens */
    int32_t nq;         /* queries */
    enum mask_kind mask;
    int64_t mask0; /* bit of (k-th query, r-th run) at plan->mask[mask0 + k * (run1 - run0) + r]; unused for
                      MASK_NONE */
    int32_t tile_m, tile_n; /* rows x tokens; 0: whole, unpadded (a GEMM that the library tiles) */
    int32_t launch;
    int64_t slot0; /* k-th query's partial goes to slot0 + k; PLAN_NO_SLOT: rows go to the output, they are
                      alone */
};

enum launch_order { LAUNCH_SERIAL, LAUNCH_CONCURRENT, N_LAUNCH_ORDERS };
extern const char *const launch_order_name[N_LAUNCH_ORDERS];

struct launch {
    const char *name; /* static string: "attention", "merge", "large tiles" ... */
    enum launch_order order;
};

struct merge_step {
    int64_t in0, in1; /* input slots: plan->merge_in[in0 .. in1); none: the query sees nothing */
    int64_t out;      /* slot, or PLAN_NO_SLOT: the output of the query */
    int32_t query;
    int32_t launch;
    int64_t onchip; /* one input slot that its group hands over in registers, never stored; or PLAN_NO_SLOT */
};

enum slot_o { SLOT_O_F32, SLOT_O_F16, N_SLOT_OS };
enum slot_weight {
    SLOT_LSE,    /* O normalised + natural-log LSE: one float a row */
    SLOT_MAX_SUM, /* O not normalised + maximum + sum: two floats a row (PAT section 7) */
    N_SLOT_WEIGHTS
};
extern const char *const slot_o_name[N_SLOT_OS], *const slot_weight_name[N_SLOT_WEIGHTS];

enum storage {
    STORAGE_SHARED,           /* every token once */
    STORAGE_REPLICATED,       /* every query has a copy of its whole path */
    STORAGE_REPLICATED_SUFFIX, /* the first prefix once, everything below it per query */
    N_STORAGES
};
extern const char *const storage_name[N_STORAGES];

struct plan {
    const struct nform *nf;
    const char *strategy; /* registry name */
    char *params;         /* "rule=paper,..." as used */
    char *note;           /* what is worth knowing about this plan, one line; may be empty */

    int64_t n_groups, n_qr, n_runs, n_mask, n_slots, n_merges, n_merge_in;
    int32_t n_launches;
    struct group *group;
    struct qrange *qr;
    struct run *run;
    uint8_t *mask; /* one byte per (query, run) of the masked groups: 1 = visible */
    struct merge_step *merge;
    int64_t *merge_in;
    struct launch *launch;

    enum slot_o slot_o;
    enum slot_weight slot_weight;
    enum storage storage;
    bool unfused; /* scores are materialised: QK, scale, mask, softmax, PV are kernels of their own */

    int64_t cap_group, cap_qr, cap_run, cap_mask, cap_merge, cap_merge_in; /* used while building */
};

/* ---- building: what strategies use ---------------------------------------------------------------- */

/* An empty plan over nf (kept, not owned). Free with plan_free. */
struct plan *plan_new(const struct nform *nf, const char *strategy);
void plan_free(struct plan *p);
struct plan *plan_copy(const struct plan *p);
/* Do both plans, of one normal form, compute the same in the same way? Names and notes may differ. */
bool plan_same(const struct plan *x, const struct plan *y);
/* Make room for that many groups of one query range each, and runs. Growing later copies; unused room is free. */
void plan_reserve(struct plan *p, int64_t groups, int64_t runs);
void plan_note(struct plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Append a launch; returns its number. */
int32_t plan_launch(struct plan *p, const char *name, enum launch_order order);

/* Lists that a strategy fills before it adds a group. Empty ranges and empty runs are dropped; a range or run
 * that continues the last one is glued to it. Zero-initialise; free with sel_free. */
struct sel {
    struct qrange *qr;
    struct run *run;
    int64_t n_qr, n_runs, cap_qr, cap_run;
    int64_t nq, n_kv; /* totals */
};
void sel_clear(struct sel *s);
void sel_free(struct sel *s);
void sel_queries(struct sel *s, int32_t begin, int32_t end);
void sel_run(struct sel *s, int32_t node, int64_t begin, int64_t end);

/* Where the reading of a selection's tokens goes on: run, and offset into it. */
struct sel_place {
    int64_t run, off;
};
/* Adds the next n tokens of `from`, and moves the place behind them. `from` must have that many left. */
void sel_take(struct sel *to, const struct sel *from, struct sel_place *at, int64_t n);

struct group_spec {
    enum mask_kind mask; /* not MASK_NONE: bits are computed from the tree */
    int32_t tile_m, tile_n;
    int32_t launch;
    int64_t q_begin, q_end;   /* piece of the selected queries, 0, 0: all */
    int64_t kv_begin, kv_end; /* piece of the selected tokens, 0, 0: all */
};
/* Add a group with (a piece of) the selection; adds nothing if the piece has no query or no token. Returns
 * the number of groups added (0 or 1). */
int32_t plan_group(struct plan *p, const struct sel *s, const struct group_spec *g);

/* Wire the partials of all groups. Each query's slots are merged in one step, in group order. The steps form
 * a serial launch `name`, which is appended unless no query needs it. If `direct`, groups all of whose
 * queries occur in no other group write the output themselves. Queries that see nothing get an empty merge
 * step. Ends the building. */
void plan_merge_flat(struct plan *p, const char *name, bool direct);
/* The same, level by level, in order of the groups' launches. After each launch that touches a query, but for
 * the first, a merge launch combines what the query has so far with the new partial (FlashInfer's multi-level
 * cascade). */
void plan_merge_levels(struct plan *p, const char *name);
/* The same in one step per query, carried out by the last launch that touches the query. The partial of that
 * launch never leaves the chip (Relay's fused merge; Hydragen does not). */
void plan_merge_fused(struct plan *p);

/* ---- reading -------------------------------------------------------------------------------------- */

/* Is run r of group g visible to the group's k-th query? */
static inline bool plan_visible(const struct plan *p, const struct group *g, int32_t k, int64_t r)
{
    return g->mask == MASK_NONE || p->mask[g->mask0 + (int64_t)k * (g->run1 - g->run0) + r] != 0;
}
/* Does any of the group's queries q0 .. q1 - 1, by their place in it, see its run r? */
static inline bool plan_any_sees(const struct plan *p, const struct group *g, int64_t q0, int64_t q1,
                                 int64_t r)
{
    for (int64_t k = q0; k < q1; k++)
        if (plan_visible(p, g, (int32_t)k, r))
            return true;
    return false;
}
/* The group's k-th query; O(ranges). */
int32_t plan_query(const struct plan *p, const struct group *g, int32_t k);
/* All of the group's queries into out[g->nq]. */
void plan_queries(const struct plan *p, const struct group *g, int32_t *out);
/* A run as the tree numbers it: node and tokens of the tree, not of a piece in normal form. With nf->orig for queries,
 * all that people and other programs are told of a plan. */
static inline struct run plan_tree_run(const struct plan *p, const struct run *r)
{
    int64_t off = p->nf->off[r->node];
    struct run x = {p->nf->src[r->node], off + r->begin, off + r->end};
    return x;
}
/* Bytes of mask that one Q tile of the group reads, over all of the group's tokens. `rows_q` is the number of
 * distinct queries in the tile; it matters for MASK_QUERY_WORDS and MASK_DENSE. */
int64_t plan_mask_bytes(const struct group *g, int64_t rows_q);

/* KV tokens in storage, replication counted: what decides footprint and out-of-memory. */
int64_t plan_stored_tokens(const struct plan *p);

/* All of them number nodes, tokens and queries as the tree does. Text has a group's queries in ascending order, CSV in
 * the order of its slots. */
void plan_print_text(FILE *f, const struct plan *p);
void plan_print_csv(FILE *f, const struct plan *p);
/*
 * All that a kernel of another program needs. A group's lists go by one index: queries[k] sees runs[r] where
 * visible[k][r] is 1 (visible null: everywhere). Its partial result goes to slots[k] (slots null: to the
 * output). A merge step puts its inputs, merged, into its slot (null: into the output of its query). Without
 * inputs the query sees nothing.
 */
enum { PLAN_JSON_VERSION = 1 }; /* verify/schema/plan.json */
void plan_print_json(FILE *f, const struct plan *p);
void plan_print_dot(FILE *f, const struct plan *p);

#ifdef __cplusplus
}
#endif

#endif
