/*
 * problem.h - a tree with heads, storage type, scale, and Q, K, V: all that a kernel is given besides a plan.
 *
 * K and V are in the type of Q, or in 8 bits with a scale for each KV head. They live in a paged pool, layout [slot][h_kv][d]
 * ("NHD"). Token j of tree node i is in slot
 *     page_table[page_off[i] + j / page_size] * page_size + j % page_size
 * so a node owns ceil(len / page_size) pages and the pages need not be contiguous nor in order.
 */
#ifndef TREEATTN_REF_PROBLEM_H
#define TREEATTN_REF_PROBLEM_H

#include "ref/heads.h"
#include "ref/tree.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What Q, K and V are filled with. Every element is a function of (seed, tensor, node or query, index)
 * through rng.h: independent of page size and of slots. */
enum fill {
    FILL_RANDOM, /* bell-shaped; logits within +-32 (asserted by the oracle's report, not assumed) */
    FILL_COUNT,  /* Q = 0: uniform softmax; V carries codes of its token, so the output says who was read */
    FILL_HUGE,   /* logits up to +-1e4, both signs */
    FILL_ONEHOT, /* one key per path dominates: the softmax is one-hot */
    FILL_IDENTICAL, /* all keys identical, all logits equal and not zero */
    FILL_VAST, /* logits to 1e9, of which a float keeps no digit after the point; each query is a key of its path */
    FILL_SUNK, /* all logits far below 0, -1.8e5 for d = 64, and few apart: below what stands for "masked" or "no maximum yet" */
    FILL_SPAN, /* columns of Q, K and V of very different magnitudes, subnormal to near the end of fp16, beyond it in the wider
                  types; logits as in RANDOM */
    FILL_ONESIGN, /* keys as in IDENTICAL; a column of V has one sign, 3e4 to 6e4: two of them are beyond fp16 */
    N_FILLS
};
#define FILL_KINDS(remark)                                                                                   \
    "random" remark                                                                                          \
    ", count, huge, onehot, identical, vast, sunk, span or onesign" /* fill_name, for help and errors */
extern const char *const fill_name[N_FILLS];
bool fill_parse(const char *s, enum fill *out);

/* What some models add to attention. A kernel need not have it. */
enum feature {
    FEATURE_SOFT_CAP, /* logits beyond a bound are bent */
    FEATURE_SINKS,    /* a softmax has a term that is no token's */
    FEATURE_WINDOW,   /* a query sees the last tokens of its path alone */
    FEATURE_E4M3,     /* K and V are stored so, and multiplied by scales */
    FEATURE_E5M2,
    FEATURE_HEAD_SCALES, /* and these scales differ from KV head to KV head */
    FEATURE_LATENT,      /* V is the first elements of K's row (heads.d_v) */
    FEATURE_NARROW_V,    /* V is stored apart, and has fewer elements than K (heads.d_v) */
    N_FEATURES
};
extern const char
    *const feature_name[N_FEATURES]; /* "softcap", "sinks", "window", "e4m3", "e5m2", "headscales", "latent", "narrowv" */
/* Those that say how K and V are stored: a problem has one of the first two at most, and the third with one of them alone. */
#define FEATURES_FP8                                                                                         \
    (UINT32_C(1) << FEATURE_E4M3 | UINT32_C(1) << FEATURE_E5M2 | UINT32_C(1) << FEATURE_HEAD_SCALES)
/* All these names, for messages. */
enum { FEATURES_LISTED = 128 };
void features_list(char out[FEATURES_LISTED]);
/* A comma-separated list of them as bits 1 << feature; "none" is no bit. False with *e set. */
bool features_parse(const char *list, uint32_t *out, struct err *e);

struct problem_spec {
    struct heads heads;
    int32_t page_size;
    bool scattered; /* pages permuted over a pool larger than needed; else node after node from slot 0 */
    bool
        poison; /* NAN_POISON in every slot, and a huge index in every page-table entry, that no query may read */
    enum fill fill;
    uint64_t seed;
    double scale;    /* of the problem; 0: 1 / sqrt(d) */
    double soft_cap; /* of logits; 0: none */
    bool sinks;      /* each query head has one */
    bool
        head_scales; /* of K and V in 8 bits: a scale for each KV head; else one for all of K, one for all of V */
    int64_t
        window; /* tokens that a query sees at most; 0: all. Who makes the tree sets it (tree_set_window) */
    int32_t
        pool; /* pages of the pool where the tree needs fewer, as an engine's: others lie between its own */
};

struct problem {
    const struct tree *tree;
    struct heads heads;
    double scale; /* logits are scale * q.k, */
    double
        soft_cap; /* and then soft_cap * tanh(logit / soft_cap) where this is above 0 (Gemma 2, section 2) */
    /* [h_q] or NULL: a logit more in each softmax of that query head, with a V of 0 (gpt-oss). It counts once a row, whatever parts
     * the row is computed in. A query that sees nothing has O = 0 and LSE = the sink. */
    float *sink;
    int32_t page_size;
    int64_t n_pages;     /* physical pages in the pool */
    int64_t *page_off;   /* [tree->n_nodes + 1] into page_table */
    int32_t *page_table; /* [page_off[n_nodes]] physical page, 0 .. n_pages - 1; PAGE_POISON where poisoned */
    void *q;             /* [n_queries][h_q][d], queries as the tree numbers them */
    /* [n_pages * page_size][h_kv][d] of heads_kv_dtype. With heads.d_v the first d_v elements of v's rows are V, and the others are
     * NaN. Where V is in K's row they are those of k's, for who looks at V alone: who knows the feature reads k once. */
    void *k, *v;
    /* [h_kv], above 0, or NULL where K and V are as Q: K and V are what is stored, times that. The products are exact in double. */
    float *k_scale, *v_scale;
    size_t mapped;       /* bytes of K, and of V, where they are mapped and not allocated; else 0 */
};
#define PAGE_POISON INT32_C(0x7F7F7F7F)
#define PROBLEM_MAX_D 256
#define PROBLEM_MAX_ROW 576 /* d where V is in K's row: 512 that are both and 64 that are K alone, as DeepSeek V2 and V3 have it */
#define PROBLEM_MIN_SCALE 1e-6
#define PROBLEM_MAX_SCALE 1e3
#define PROBLEM_MIN_SOFT_CAP 1e-3
#define PROBLEM_MAX_SOFT_CAP 1e6
#define PROBLEM_MAX_HEADS 4096 /* query heads */

/* Bytes that problem_new would touch, for a check before it does. Without poison, what no token lies in is only addressed. */
int64_t problem_bytes(const struct tree *t, const struct problem_spec *s);
/* NULL with *e set if the spec is not valid (heads, d, page size, scale, more slots than fit). The tree must outlive
 * the result; free with problem_free. */
struct problem *problem_new(const struct tree *t, const struct problem_spec *s, struct err *e);
/* All of it anew, but for the tree, which is p's. Free with problem_free. */
struct problem *problem_copy(const struct problem *p);
/* The same scales of K and V, where there are some; the heads agree. */
void problem_copy_scales(struct problem *to, const struct problem *from);
/* The same with random numbers where K and V are NaN; NULL if the pool is too large to be copied for that. The tree is p's; free
 * with problem_free. */
struct problem *problem_without_nan(const struct problem *p);
/* The shape of the same problem, which is all that a planner may see: no page table, no Q, K, V. The spec has been checked.
 * The tree must outlive the result; free with problem_free. */
struct problem *problem_shell(const struct tree *t, const struct problem_spec *s);
void problem_free(struct problem *p);
/* The numbers 0 .. n - 1 in an order that (seed, series of the generator) says: pages of a scattered pool. The caller frees. */
int32_t *pages_shuffled(int64_t n, uint64_t seed, uint64_t series);
bool problem_spec_check(const struct problem_spec *s, struct err *e);
/* The part of it for commands that plan without a problem. */
bool problem_heads_check(int32_t h_q, int32_t h_kv, struct err *e);

static inline int64_t problem_slot(const struct problem *p, int32_t node, int64_t j)
{
    return (int64_t)p->page_table[p->page_off[node] + j / p->page_size] * p->page_size + j % p->page_size;
}

/* What it has of them, as bits. */
uint32_t problem_features(const struct problem *p);
uint32_t problem_spec_features(const struct problem_spec *s);
/* Takes away all but these; heads longer than PROBLEM_MAX_D, which latent attention alone has, become as long as that. */
void problem_spec_restrict(struct problem_spec *s, uint32_t features);

/* What V has of so many elements of K: 512 of 576 in K's row, 128 of 192 apart, as DeepSeek V2 and V3 have it. */
int32_t problem_usual_d_v(const struct heads *h);

/* The logit of a product q.k. */
static inline double problem_logit(const struct problem *p, double dot)
{
    double x = p->scale * dot;
    return p->soft_cap > 0 ? p->soft_cap * tanh(x / p->soft_cap) : x;
}

/* Of a KV head: what its stored K, or V, is multiplied by. */
static inline double problem_k_scale(const struct problem *p, int32_t kv_head)
{
    return p->k_scale ? (double)p->k_scale[kv_head] : 1;
}
static inline double problem_v_scale(const struct problem *p, int32_t kv_head)
{
    return p->v_scale ? (double)p->v_scale[kv_head] : 1;
}

/* Element number `at` of K's pool, or V's: the number that it stands for. */
double problem_k(const struct problem *p, int64_t at);
double problem_v(const struct problem *p, int64_t at);
/* K or V of a token and a KV head, as numbers, into row[d], or row[heads_d_v]. */
void problem_k_row(const struct problem *p, int64_t slot, int32_t kv_head, double *row);
void problem_v_row(const struct problem *p, int64_t slot, int32_t kv_head, double *row);

/* Of a query head: its sink, -inf where there is none. */
static inline double problem_sink(const struct problem *p, int32_t head)
{
    return p->sink ? (double)p->sink[head] : -INFINITY;
}

/* Physical page of a node's i-th page, as a kernel takes it; -1 with *e set where the table leads out of the pool. */
int32_t problem_page(const struct problem *p, int32_t node, int64_t i, struct err *e);
/* The slots that query q of the tree sees, root first, into slot[n]; n is its context (tree_contexts). */
void problem_path_slots(const struct problem *p, int32_t q, int64_t n, int64_t *slot);

/* What a kernel writes: O in the problem's storage type, LSE (natural log) in double for DT_F64, else in
 * float. A query that sees nothing has O = 0 and LSE = -inf, or its sink. */
struct output {
    enum dtype dtype;
    int64_t n_rows; /* n_queries * h_q */
    int32_t d; /* heads_d_v */
    void *o;   /* [n_queries][h_q][d], queries as the tree numbers them */
    void *lse; /* [n_queries][h_q] */
};
/* Every element NAN_UNWRITTEN: what a kernel does not write stays visible. Free with output_free. */
struct output *output_new(const struct problem *p);
void output_free(struct output *out);
double output_lse(const struct output *out, int64_t row);
void output_set_lse(struct output *out, int64_t row, double x);
/* Those of all rows: lse[n_rows]. Of a kernel that writes none the exact ones, so that they are not judged. */
void output_set_all_lse(struct output *out, const double *lse);

#ifdef __cplusplus
}
#endif

#endif
