/*
 * lab.h - what the labs ask you to write. It is the only file that lab.c includes, beside headers of the C library.
 *
 * Do not change it: the judge compiles with its own copy.
 */
#ifndef LAB_H
#define LAB_H

#include <stdint.h>

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
void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse);

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
    int weight_numbers;              /* numbers of 4 bytes beside O in a partial result, a query head: 1, LSE; or 2 */
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

#endif
