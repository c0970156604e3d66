/*
 * lab.h - what the labs ask you to write. It is the only file that lab.c includes, beside headers of the C library.
 *
 * Do not change it: the judge compiles with its own copy.
 */
#ifndef LAB_H
#define LAB_H

#include <stdint.h>
#include <stdlib.h>

/* ---- lab 1: attention in parts -------------------------------------------------------------------------- */

/*
 * Exact attention of one query over n tokens.
 *
 *   score of token i   s_i = scale * (q . k_i)
 *   LSE                log(e^s_0 + .. + e^s_(n-1)); -INFINITY where n is 0
 *   O                  the sum of e^(s_i - LSE) * v_i;  0 where n is 0
 *
 * q[d]; k[n * d] and v[n * d], token after token: element x of token i is k[i * d + x]. n from 0, d from 1.
 * Write o[d] and *lse. They hold NaN before.
 */
void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o,
                float *lse);

/*
 * Two results of one query over different tokens become the result over all of these tokens: (o, *lse) and (o2, lse2) into
 * (o, *lse). o[d], o2[d].
 */
void lab_merge(float *o, float *lse, const float *o2, float lse2, int d);

/* ---- lab 2: count before you run ------------------------------------------------------------------------- */

/* Part 1: bytes of K and V that are read: [tree A, B, C][flash-attention, hydragen, deft-node, deft-flatten]. */
extern const int64_t lab_answers[3][4];

/* A group of a plan: some queries x some tokens, computed in tiles. */
struct lab_plan_group {
    int queries, runs; /* runs: pieces of nodes that its tokens come from */
    int64_t tokens;
    int tile_m, tile_n; /* rows and tokens of a tile */
    int masked;         /* 1: a mask says which query sees which run */
    int partial;        /* 1: each of its queries leaves a partial result; 0: its output */
};
/* A merge of partial results of one query. */
struct lab_plan_merge {
    int inputs;
    int to_output; /* 1: into the output of the query; 0: it leaves a partial result again, which is written, too */
};
struct lab_plan {
    int q_heads, kv_heads, head_dim; /* q_heads is a multiple of kv_heads */
    int element_bytes;               /* of a number of Q, K, V, and of O in the output */
    int weight_numbers; /* numbers of 4 bytes beside O in a partial result, a query head: 1, LSE; or 2 */
    int n_groups, n_merges;
    const struct lab_plan_group *group;
    const struct lab_plan_merge *merge;
};
struct lab_bytes {
    int64_t kv, q, mask, partials_written, partials_read, output; /* bytes */
    int64_t padded_rows, padded_tokens;                           /* numbers */
};

/* Part 2: what running a plan reads and writes. All of *bytes is 0 before. */
void lab_count(const struct lab_plan *plan, struct lab_bytes *bytes);

/* ---- lab 3: cut a tree ----------------------------------------------------------------------------------- */

/* A forest: node i holds len[i] tokens and hangs below parent[i] < i, or is a root: -1. Query j sees all tokens of the nodes above
 * query_node[j], and the first query_upto[j] of that node itself. */
struct lab_tree {
    int n_nodes, n_queries;
    const int *parent;
    const int64_t *len;
    const int *query_node;
    const int64_t *query_upto;
};
struct lab_env {
    int ratio;           /* query heads on a KV head: rows of a query */
    int tile_m, tile_n;  /* rows and tokens of a tile, in all groups */
    int64_t most_tokens; /* that a group may have */

    /* The rest is of lab 7: heads, and a machine. A GPU has processors (SMs). A block of threads (CTA) runs on one of them and
     * computes one Q tile of a group, for one KV head. Bytes and operations a second are those of the whole machine. */
    int kv_heads, head_dim, element_bytes; /* a query has ratio * kv_heads heads of head_dim numbers */
    int sms, per_sm;                       /* processors; CTAs of such tiles that one holds at a time */
    double bandwidth, l2_bandwidth;        /* bytes a second: memory, L2 cache */
    double flops;                          /* operations a second, two for a multiply-add */
    double latency, l2_latency;            /* seconds from asking for a tile of K or V to having it */
    double start;                          /* seconds that a CTA takes besides */
    double base, launch;                   /* seconds of a call, and of each of its launches */
};
/* Tokens begin to end - 1 of a node, at least one. */
struct lab_run {
    int node;
    int64_t begin, end;
};

/* What you say; it is filled by the functions below. */
struct lab_list {
    int64_t *x, n, cap;
};
struct lab_out {
    struct lab_list groups, hidden;
    int n_groups;
};

static inline void lab_put(struct lab_list *l, int64_t x)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->x = (int64_t *)realloc(l->x, (size_t)l->cap * sizeof *l->x);
        if (!l->x)
            abort();
    }
    l->x[l->n++] = x;
}

/* A group: these queries x these runs. Gives its number. */
static inline int lab_group(struct lab_out *out, const int *query, int n_queries, const struct lab_run *run,
                            int n_runs)
{
    lab_put(&out->groups, n_queries);
    lab_put(&out->groups, n_runs);
    for (int i = 0; i < n_queries; i++)
        lab_put(&out->groups, query[i]);
    for (int i = 0; i < n_runs; i++) {
        lab_put(&out->groups, run[i].node);
        lab_put(&out->groups, run[i].begin);
        lab_put(&out->groups, run[i].end);
    }
    return out->n_groups++;
}

/* In that group, the query at this place of its list does not see the run at this place of its list. */
static inline void lab_hide(struct lab_out *out, int group, int query_at, int run_at)
{
    lab_put(&out->hidden, group);
    lab_put(&out->hidden, query_at);
    lab_put(&out->hidden, run_at);
}

/* Divides all (query, token that it sees) pairs among groups, each pair into one. */
void lab_partition(const struct lab_tree *tree, const struct lab_env *env, struct lab_out *out);

/* ---- lab 4: pack ----------------------------------------------------------------------------------------- */

/* A forest: node i has len[i] tokens, parent[i] < i or -1, and queries[i] queries at it or below it. All of them see all of it. */
struct lab_shape {
    int n_nodes;
    const int *parent;
    const int64_t *len;
    const int *queries;
};
/* What a group of some queries and tokens costs: a tile holds `pack` queries, and each tile reads all tokens; each query leaves a
 * partial result, which costs as much as `partial` tokens. */
struct lab_price {
    int pack;
    double partial;
};
static inline double lab_price_of(const struct lab_price *p, int64_t queries, int64_t tokens)
{
    if (queries == 0 || tokens == 0)
        return 0;
    return (double)((queries + p->pack - 1) / p->pack * tokens) + p->partial * (double)queries;
}

/*
 * join[n_nodes], all 0 before. 1: the node is joined to its parent. Its queries then leave the parent's group, and read the parent's
 * tokens together with the node's own, and with all that the parent itself got by joining. 0 at a root.
 */
void lab_pack(const struct lab_shape *shape, const struct lab_price *price, unsigned char *join);

/* ---- lab 5: one tile ------------------------------------------------------------------------------------- */

/* Arrays of the device. lab_get and lab_set alone reach what is in them. */
struct lab_floats;  /* numbers that are read */
struct lab_ints;    /* whole numbers that are read */
struct lab_outputs; /* numbers that are written, each once */
struct lab_shared;  /* shared memory: numbers that all threads of the CTA read and write */

/* What a thread knows. `threads` of them run lab_kernel on one group, for one KV head. Element (a, b, c) of an array [A][B][C] has
 * the index (a * B + b) * C + c. */
struct lab_cta {
    int thread, threads;  /* this one, from 0, of 32 or 64 */
    int queries, ratio;   /* rows: queries * ratio, at most 16; ratio: query heads on a KV head */
    int kv_heads, kv_head; /* of all, this CTA's */
    int head_dim;         /* at most 64; rows * head_dim is at most 512 */
    int tokens, runs;     /* of the group; both may be 0 */
    int page_size;        /* tokens on a page */
    int tile_n;           /* tokens of a tile, at most 64 */
    float scale;
    const struct lab_floats *q;        /* [queries][kv_heads * ratio][head_dim] */
    const struct lab_floats *k, *v;    /* [pages][page_size][kv_heads][head_dim] */
    const struct lab_ints *page_table; /* of each page_size tokens of the group, the last ones may be fewer: their page */
    const struct lab_ints *run_end;    /* [runs] run r has the tokens from run_end[r - 1], or 0, to run_end[r] - 1 */
    const struct lab_ints *mask;       /* [runs] bit i is 1: query i sees the run */
    struct lab_outputs *o;             /* [queries][kv_heads * ratio][head_dim] */
    struct lab_outputs *lse;           /* [queries][kv_heads * ratio] */
};

/*
 *   LAB_SHARED(name, n);     n floats of shared memory, the same for all threads: __shared__ float name[n]
 *   x = lab_get(array, i);   x = array[i]
 *   lab_set(array, i, x);    array[i] = x, of shared memory and of outputs
 *   lab_barrier();           waits for all threads: __syncthreads()
 */
#define LAB_SHARED(name, n) struct lab_shared *name = lab_calls->shared(#name, (n), __LINE__)
#define lab_get(array, i)                                                                                    \
    _Generic((array),                                                                                        \
        const struct lab_floats *: lab_get_float,                                                            \
        const struct lab_ints *: lab_get_int,                                                                \
        struct lab_shared *: lab_get_shared)((array), (i), __LINE__)
#define lab_set(array, i, x)                                                                                 \
    _Generic((array), struct lab_shared *: lab_set_shared, struct lab_outputs *: lab_set_output)(            \
        (array), (i), (x), __LINE__)
#define lab_barrier() lab_calls->barrier(__LINE__)

/* The device behind them. The judge sets it. */
struct lab_device {
    struct lab_shared *(*shared)(const char *name, int64_t n, int line);
    float (*get_float)(const struct lab_floats *a, int64_t i, int line);
    int64_t (*get_int)(const struct lab_ints *a, int64_t i, int line);
    float (*get_shared)(struct lab_shared *a, int64_t i, int line);
    void (*set_shared)(struct lab_shared *a, int64_t i, float x, int line);
    void (*set_output)(struct lab_outputs *a, int64_t i, float x, int line);
    void (*barrier)(int line);
};
__attribute__((weak)) const struct lab_device *lab_calls;

static inline float lab_get_float(const struct lab_floats *a, int64_t i, int line)
{
    return lab_calls->get_float(a, i, line);
}
static inline int64_t lab_get_int(const struct lab_ints *a, int64_t i, int line)
{
    return lab_calls->get_int(a, i, line);
}
static inline float lab_get_shared(struct lab_shared *a, int64_t i, int line)
{
    return lab_calls->get_shared(a, i, line);
}
static inline void lab_set_shared(struct lab_shared *a, int64_t i, float x, int line)
{
    lab_calls->set_shared(a, i, x, line);
}
static inline void lab_set_output(struct lab_outputs *a, int64_t i, float x, int line)
{
    lab_calls->set_output(a, i, x, line);
}

/*
 * What each thread runs: O and LSE of the rows of this CTA, over the tokens that each of them sees. Row r is query r / ratio and
 * query head kv_head * ratio + r % ratio. Token t stands on page page_table[t / page_size], at t % page_size.
 */
void lab_kernel(const struct lab_cta *c);

#endif
