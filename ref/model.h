/*
 * model.h - decoder-only transformers as their publishers describe them: shapes, sizes, and random weights.
 *
 * All are of one family, without biases:
 *
 *   first      embedding
 *   a layer    RMSNorm, QKV, (norm of each head of Q and K,) rotary positions, attention, O, residual;
 *              RMSNorm, gated MLP with SiLU, residual
 *   last       RMSNorm, and a head of its own
 *
 * Of models of other families only attention is described: their shapes say what a kernel meets, and no step of them is computed.
 *
 * Weights are random: element i of a tensor is a pure function of (seed, tensor, layer, i), so that a GPU and the host
 * make the same bits without ever exchanging them.
 */
#ifndef TREEATTN_REF_MODEL_H
#define TREEATTN_REF_MODEL_H

#include "ref/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct model {
    const char *name;
    int32_t layers, hidden;
    int32_t h_q, h_kv, d; /* h_q * d need not be hidden */
    int32_t ffn, vocab;
    double rope_theta, norm_eps;
    bool qk_norm;       /* RMSNorm of every head of Q and K before the rotation */
    const char *source; /* where the figures are published */
    /* Of attention, 0 where the model has none: */
    int32_t d_v;                   /* of V, where that is the first elements of K's row, and is not stored again (MLA, absorbed) */
    int32_t window, window_layers; /* a query sees so many tokens at most, in so many of the layers */
    double soft_cap;               /* of logits */
    bool sinks;                    /* a logit more for each query head */
};

/* Is the model of the family above? Else ffn, vocab, rope_theta and norm_eps are 0, and functions of weights may not be called. */
static inline bool model_is_whole(const struct model *m)
{
    return m->ffn > 0;
}
/* False, with *e saying why steps of the model are not computed. */
bool model_needs_whole(const struct model *m, struct err *e);

/* The order of models.def. */
extern const struct model models[];
extern const int32_t n_models;
struct heads model_heads(const struct model *m, enum dtype dtype);
/* By name; NULL with *e listing the names there are. */
const struct model *model_find(const char *name, struct err *e);

/* Matrices are [rows][cols], y = W x; vectors have one row. */
enum weight {
    W_EMBED,     /* [vocab][hidden] */
    W_ATTN_NORM, /* [hidden], per layer as all that follow up to W_DOWN */
    W_QKV,       /* [(h_q + 2 h_kv) d][hidden]: Q's heads, K's, V's */
    W_Q_NORM,    /* [d], with qk_norm only */
    W_K_NORM,
    W_O,          /* [hidden][h_q d] */
    W_MLP_NORM,   /* [hidden] */
    W_GATE_UP,    /* [2 ffn][hidden]: the gate's rows, then up's */
    W_DOWN,       /* [hidden][ffn] */
    W_FINAL_NORM, /* [hidden] */
    W_HEAD,       /* [vocab][hidden] */
    N_WEIGHTS
};

struct weight_spec {
    int64_t rows, cols; /* 0, 0: the model has no such tensor */
    bool per_layer;
    double mean,
        spread; /* element i: mean + spread * rng_bell(seed, series, i), rounded to the storage type */
};
struct weight_spec model_weight(const struct model *m, enum weight w);
/* The series (rng.h) of a tensor; layer 0 for those that are there once. */
uint64_t model_series(enum weight w, int32_t layer);
/* Elements first .. first + n of it, rounded to t. */
void model_weights(const struct model *m, enum weight w, int32_t layer, uint64_t seed, enum dtype t,
                   int64_t first, int64_t n, void *out);

/* All weights; those that every decode step reads (all but the embedding); one token's K and V over all layers, windows or not. */
int64_t model_weight_bytes(const struct model *m, enum dtype t);
int64_t model_step_bytes(const struct model *m, enum dtype t);
int64_t model_kv_bytes(const struct model *m, enum dtype t);
/* Operations of the matrix products for one query, attention left out; attention of one query over ctx tokens. Both
 * over all layers, a multiplication and an addition counted as two. */
double model_flops(const struct model *m);
double model_attention_flops(const struct model *m, int64_t ctx);

#ifdef __cplusplus
}
#endif

#endif
