/* decode_launch.h - between decode_cuda.c and decode.cu. Launchers return a cudaError_t as int. */
#ifndef TREEATTN_KERNELS_DECODE_DECODE_LAUNCH_H
#define TREEATTN_KERNELS_DECODE_DECODE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels between the products of a step. `early`: all but the first may start when the one before ends. */
struct decode_args {
    int32_t n, hidden, h_q, h_kv, d, ffn;
    float eps;
    bool bf16, early;
    const int32_t *token, *position;
    const int64_t *slot;
    const double *frequency; /* [d / 2] half turns a position */
    float *x;                /* [n][hidden] the residual stream */
    float *turn;             /* [n][d / 2][2] cosine and sine of each pair's angle */
    void *h;                 /* [n][hidden] */
    const void *qkv;         /* [n][(h_q + 2 h_kv) d] */
    void *q;                 /* [n][h_q][d] */
    const void *wide;        /* [n][2 ffn] */
    void *mlp;               /* [n][ffn] */
};
/* x and turn from the embedding and the positions. */
int decode_launch_begin(const struct decode_args *a, const void *embedding, void *stream);
/* h = norm(x) */
int decode_launch_norm(const struct decode_args *a, const void *weight, void *stream);
/* Heads of qkv: norms if there are weights, rotation; Q to its place, K and V to their slots of the pool. */
int decode_launch_heads(const struct decode_args *a, const void *q_norm, const void *k_norm, void *k, void *v,
                        void *stream);
/* mlp = silu(gate) * up */
int decode_launch_gate(const struct decode_args *a, void *stream);

/* Element i of n at dev becomes mean + spread * rng_bell(seed, series, first + i / cols * stride + i % cols). */
struct decode_random {
    uint64_t seed, series;
    int64_t first, cols, stride;
    double mean, spread;
};
int decode_launch_random(bool bf16, void *dev, int64_t n, const struct decode_random *r, void *stream);
/* What cards found for the heads h0 .. h0 + n_h of h_q, merged: a card's part, `bytes` behind that of the one before, is O
 * [n][h_q][d], then LSE [n][h_q]. o: [n][n_h][d], lse: [n][n_h]. */
struct decode_merge_args {
    int32_t cards, n, h_q, h0, n_h, d;
    bool bf16;
    int64_t bytes;
    const void *parts;
    void *o;
    float *lse;
};
int decode_launch_merge(const struct decode_merge_args *a, void *stream);
/* In each of n_pools pools, stride bytes apart: token i of `held` (n of them, pool after pool) becomes that of slot[i],
 * or, if `back`, slot[i] becomes it. Tokens of `bytes` bytes, a multiple of 16. */
int decode_launch_move(void *pool, int64_t stride, int32_t n_pools, int64_t bytes, int64_t n,
                       const int64_t *slot, void *held, bool back, void *stream);
/* In each pool, token slot[n + i] becomes slot[i], for i < n; none is in both halves. */
int decode_launch_copy(void *pool, int64_t stride, int32_t n_pools, int64_t bytes, int64_t n,
                       const int64_t *slot, void *stream);

#ifdef __cplusplus
}
#endif

#endif
