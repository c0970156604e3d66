/*
 * heads.h - the shape of attention besides the tree: heads, their size, and the storage types.
 */
#ifndef TREEATTN_REF_HEADS_H
#define TREEATTN_REF_HEADS_H

#include "ref/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct heads {
    int32_t h_q, h_kv, d; /* query heads, a multiple of the KV heads; elements of a head */
    enum dtype dtype;     /* of Q, K, V and O in storage */
    enum dtype kv_fp8; /* DT_E4M3 or DT_E5M2: of K and V instead; any other: they are as Q (heads_kv_dtype) */
    /* 0: V is stored apart, and has d elements, as O. Else V and O have d_v. V is then the first d_v elements of K's row, which is
     * stored once: multi-head latent attention, absorbed (DeepSeek V2, section 2.1). */
    int32_t d_v;
    bool v_apart; /* or, with d_v, V is stored apart as well: the same, not absorbed (192 and 128 elements) */
};

/* Query heads per KV head: a group of n queries has n times as many rows. */
static inline int32_t heads_gqa(const struct heads *h)
{
    return h->h_q / h->h_kv;
}

/* Bytes of an element of Q, O, and of a materialised score: 8, 4 or 2. */
static inline int32_t heads_elt_bytes(const struct heads *h)
{
    return dtype_size[h->dtype];
}

static inline bool heads_fp8(const struct heads *h)
{
    return h->kv_fp8 == DT_E4M3 || h->kv_fp8 == DT_E5M2;
}

/* The type of K and V in storage. */
static inline enum dtype heads_kv_dtype(const struct heads *h)
{
    return heads_fp8(h) ? h->kv_fp8 : h->dtype;
}

static inline const char *heads_dtype_name(const struct heads *h)
{
    return dtype_pair_name(h->dtype, heads_kv_dtype(h));
}

/* Bytes of an element of K and V: 8, 4, 2 or 1. */
static inline int32_t heads_kv_bytes(const struct heads *h)
{
    return dtype_size[heads_kv_dtype(h)];
}

/* Bytes of an LSE, a maximum, a sum, and an element of O in an "fp32" slot: 8 for f64, else 4. */
static inline int32_t heads_float_bytes(const struct heads *h)
{
    return h->dtype == DT_F64 ? 8 : 4;
}

/* Is V a part of K's row? */
static inline bool heads_v_in_k(const struct heads *h)
{
    return h->d_v > 0 && !h->v_apart;
}

/* Elements of a head of V and of O. */
static inline int32_t heads_d_v(const struct heads *h)
{
    return h->d_v > 0 ? h->d_v : h->d;
}

/* Elements of K and V together that are stored, and read, for a token and a KV head. */
static inline int32_t heads_kv_elements(const struct heads *h)
{
    return heads_v_in_k(h) ? h->d : h->d + heads_d_v(h);
}

/* Bytes of a token's K and V, of all KV heads. */
static inline int64_t heads_token_bytes(const struct heads *h)
{
    return (int64_t)h->h_kv * heads_kv_elements(h) * heads_kv_bytes(h);
}

static inline bool heads_equal(const struct heads *a, const struct heads *b)
{
    return a->h_q == b->h_q && a->h_kv == b->h_kv && a->d == b->d && a->dtype == b->dtype &&
           heads_kv_dtype(a) == heads_kv_dtype(b) && heads_d_v(a) == heads_d_v(b) &&
           heads_v_in_k(a) == heads_v_in_k(b);
}

#ifdef __cplusplus
}
#endif

#endif
