/*
 * treeattn_plugin.h - attention over a KV cache, for `treeattn verify --plugin ./mine.so`. ABI 1.4.
 *
 * A plug-in is a shared object with one symbol, treeattn_plugin(). It runs in a process of its own (treeattn-host), which
 * knows no right answers: it may crash or hang, and the next case is run all the same.
 *
 *     #include "treeattn_plugin.h"
 *     static int run(const struct ta_case *c, char why[TA_WHY]) { ... c->o ... c->lse ... return TA_OK; }
 *     const struct ta_plugin *treeattn_plugin(uint32_t abi)
 *     {
 *         static const struct ta_plugin me = {.size = sizeof me, .abi = TA_ABI, .name = "mine", .view = "slots", .run = run};
 *         return abi >= me.abi ? &me : NULL;
 *     }
 *
 *     gcc -O2 -shared -fPIC mine.c -o mine.so
 *
 * This header is C11 and C++14 and includes nothing of ours. Every struct begins with its size. Fields are only ever added
 * at the end: what was compiled with this header runs under later ones. What came later than 1.0 says so.
 */
#ifndef TREEATTN_PLUGIN_H
#define TREEATTN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TA_ABI 1
enum { TA_WHY = 256, TA_MAX_DIMS = 4 };

/* What run(), partial() and merge() return. With all but TA_OK it writes a sentence into why. */
enum ta_status {
    TA_OK = 0,
    TA_UNSUPPORTED = 1, /* it does not take this case, which is then skipped */
    TA_ERROR = 2,
    TA_NO_MEMORY = 3,
    TA_DEVICE_FAULT = 4 /* the process is of no more use, and started anew */
};

/* An array, as DLPack's DLTensor lays it out (48 bytes): a DLTensor * may point to one. */
struct ta_tensor {
    void *data;
    int32_t device_type, device_id; /* 1, 0: memory of the CPU */
    int32_t ndim;
    uint8_t code,
        bits; /* DLDataType: 0/32 int32, 0/64 int64, 1/8 bytes, 2/64 f64, 2/32 f32, 2/16 f16, 4/16 bf16; 1.3:
                 10/8 e4m3fn, 12/8 e5m2 */
    uint16_t lanes;           /* 1 */
    int64_t *shape, *strides; /* strides in elements */
    uint64_t byte_offset;     /* 0 */
};

/*
 * A case. All but o and lse is only read: who writes there fails. o and lse are NaN at first.
 * A query that sees nothing has O = 0 and LSE = -inf.
 *
 * 1.2, of plug-ins that name these features: with soft_cap > 0 a logit is soft_cap * tanh(scale * (q . k) / soft_cap). With sinks,
 * ta_find(c, "sinks") is a tensor of n_heads f32, one more logit in each softmax of that query head, whose V is 0. It counts once a
 * row. A query that sees nothing then has O = 0 and LSE = its sink. With a window, a query sees the last tokens of its path alone: views
 * slots, masked and plan say that as they say all else, and view tree has query_since[n] (int64): the first position of the path
 * that it sees.
 *
 * 1.3: views paged, block_table and extend list all of the path, and have window[1] (int64): a query sees the last so many tokens up to
 * its own. What lies in front of all windows are large numbers that must have no weight. View extend: requests of several queries.
 * Request r has queries query_start_loc[r] .. query_start_loc[r + 1] - 1, which are its last tokens: the i-th of n sees the first
 * seq_lens[r] - n + i + 1 tokens of the pages block_table[r]. Prefixes and levels cannot say a window.
 *
 * 1.3, of plug-ins that name e4m3 or e5m2: k and v may be of these, whatever q is. ta_find(c, "k_scale") and (c, "v_scale") are
 * tensors of n_kv_heads f32: K is k times that of its head, V likewise. All heads have the same one, but for plug-ins that name
 * headscales. The products are exact: round them to 16 bits, and you fail.
 *
 * 1.4: o has head_dim_v elements a head. That is head_dim, but for plug-ins that name latent or narrowv. With latent, v may be the first
 * head_dim_v elements of k's rows: it points into k, and its strides are k's. That is multi-head latent attention, absorbed: n_kv_heads
 * is 1 in models, head_dim 576, head_dim_v 512. With narrowv, v may be an array of its own with head_dim_v elements, as 128 beside 192.
 */
struct ta_case {
    uint32_t size;
    int32_t n_queries, n_heads, n_kv_heads, head_dim, page_size;
    double scale; /* logits are scale * (q . k) */
    struct ta_tensor
        q; /* [n_queries][n_heads][head_dim]; query head h reads KV head h / (n_heads / n_kv_heads) */
    struct ta_tensor k,
        v; /* views of slots: [slots][n_kv_heads][head_dim]; of pages: [pages][page_size][n_kv_heads][head_dim] */
    struct ta_tensor o; /* like q; 1.4: [n_queries][n_heads][head_dim_v] */
    struct ta_tensor
        lse; /* f64 for f64, else f32: [n_queries][n_heads], natural logarithm; see ta_plugin for others */
    /* What the view adds, by name: ta_find(c, "kv_indptr"). treeattn-child(7), which is verify/child/README.md, lists them. */
    int32_t n_index;
    const struct ta_tensor *index;
    const char *const *index_name;
    double soft_cap; /* 1.2: 0, none */
    int32_t head_dim_v; /* 1.4: elements of a head of v and o */
};

static inline const struct ta_tensor *ta_find(const struct ta_case *c, const char *name)
{
    int32_t i, k;
    for (i = 0; i < c->n_index; i++) {
        for (k = 0; name[k] && c->index_name[i][k] == name[k]; k++)
            ;
        if (c->index_name[i][k] == name[k])
            return &c->index[i];
    }
    return NULL;
}

/* Numbers of a tensor of int32, as those of views are. */
static inline const int32_t *ta_i32(const struct ta_case *c, const char *name)
{
    const struct ta_tensor *t = ta_find(c, name);
    return t ? (const int32_t *)t->data : NULL;
}

/* 1.1: a partial result, which is attention of some queries over some tokens alone. o and lse are as in ta_case. */
struct ta_partial {
    uint32_t size;
    int32_t n_queries, n_heads, n_kv_heads, head_dim, n_tokens;
    double scale;
    struct ta_tensor q;    /* [n_queries][n_heads][head_dim] */
    struct ta_tensor k, v; /* [slots][n_kv_heads][head_dim] */
    struct ta_tensor o, lse;
    const int32_t *token; /* [n_tokens] their slots */
    const uint8_t
        *sees; /* [n_queries][n_tokens] 1: this query sees it, which may be none of them; NULL: all see all */
    double soft_cap; /* 1.2: as in ta_case. Sinks are no partial result's: who joins them adds the sink */
    const float *k_scale, *v_scale; /* 1.3: [n_kv_heads], of k and v in 8 bits, else NULL */
    int32_t head_dim_v;             /* 1.4: as in ta_case */
};

/* 1.1: a merge: n_inputs partial results of each query become one. An empty one has O = 0, and the LSE of a query that sees
 * nothing. Where all are empty, so is the result. */
struct ta_merge {
    uint32_t size;
    int32_t n_inputs, n_queries, n_heads, head_dim;
    struct ta_tensor o_in;   /* [n_inputs][n_queries][n_heads][head_dim] */
    struct ta_tensor lse_in; /* n_inputs of what lse is */
    struct ta_tensor o, lse; /* as in ta_case */
};

/* What the plug-in is, and what it takes: a case beyond that is skipped. What is 0 or NULL has the default in brackets. */
struct ta_plugin {
    uint32_t size, abi;
    const char *name, *version;
    const char *view; /* of run: slots, paged, block_table, prefix, levels, masked, tree or plan; 1.3: extend */
    const char *
        layout; /* of pages: NHD, or HND for [pages][n_kv_heads][page_size][head_dim]. 1.1: interleaved, or strides: k and v
                           are [pages][page_size][n_kv_heads][head_dim], as their strides say [NHD] */
    int (*run)(const struct ta_case *c, char why[TA_WHY]);
    const char *dtypes;                             /* "f32 f16 bf16" [all four] */
    const int32_t *head_dims, *ratios, *page_sizes; /* ending in 0; ratio: query heads on a KV head [any] */
    int64_t max_context, max_queries, max_pairs; /* pairs: of a query head and a token that it sees [any] */
    const char *lse;                             /* none, e, or 2: base of the logarithm [e] */
    const char *lse_order;                       /* qh, or hq for [n_heads][n_queries] [qh] */
    const char *empty_lse;                       /* -inf or +inf, of a query that sees nothing [-inf] */
    /* The arithmetic, from which the error that is allowed is derived. */
    const char *accumulate;  /* f32 or f64 [f32] */
    const char *probability; /* what p is rounded to before it meets V; "input": the type of Q [accumulate] */
    const char *partial_o;   /* how partial results are stored, likewise [accumulate] */
    int64_t sum_block;       /* longest run of additions in order [the whole context] */
    int64_t merge_chain;     /* longest chain of merges of partial results [0; of merge(): all its inputs] */
    /* 1.1: parts of attention. All is judged that is there, and something must be. */
    int (*partial)(const struct ta_partial *c, char why[TA_WHY]);
    int (*merge)(const struct ta_merge *c, char why[TA_WHY]);
    /* 1.1: of what O is divided by, and LSE made: exact, or "rounded": p is added as it is after rounding [exact] */
    const char *probability_sum;
    const char *mask;     /* 1.1: of view masked: bits, words or bool [bits] */
    const char
        *features; /* 1.2: "softcap sinks window", 1.3: "e4m3 e5m2 headscales", 1.4: "latent narrowv": cases may have
                     these [none] */
};

/* The one symbol. `abi` is that of the host; NULL: not this one. */
const struct ta_plugin *treeattn_plugin(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
