/*
 * softmax.cuh - the online softmax of a warp's 16 rows over a chunk of tokens, between the products: scores as mma.sync
 * accumulates them, s[token / 8][4], of which a lane has two tokens in rows lane / 4 (elements 0, 1) and lane / 4 + 8 (2, 3).
 *
 * A soft cap bends scores first, so that what follows has tanh of them in their place, and scale_log2 is the cap's. Scores that it
 * bends are never far.
 *
 * The running maximum is taken in base 2 and rounded up to an even number: rescaling is then exact, and rare.
 *
 * A fused multiply-add takes the maximum from a score that is not rounded. Of scores beyond millions that leaves more than is
 * between them and the maximum: 2^x of it may be 0 of all, or no 16-bit number. Rows whose maximum ends so far from 0 are wrong
 * here, and whoever stores them has them done again (warp_row.cuh): that costs nothing before it is wanted.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_SOFTMAX_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_SOFTMAX_CUH

#include "kernels/cuda/device/ptx.cuh"

namespace treeattn {

/* Of no token yet. */
template <int OB> __device__ __forceinline__ void begin_rows(float (*o)[4], float max[2], float sum[2])
{
#pragma unroll
    for (int ob = 0; ob < OB; ob++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            o[ob][i] = 0;
    max[0] = max[1] = -INFINITY;
    sum[0] = sum[1] = 0;
}

/* tanh(s * cap_scale), to some units in the last place, as near 0 as at its ends; -inf stays what it is. Near 0 by a polynomial (N.
 * Juffa's of 2013, 1.6 units in the last place), elsewhere by 1 - 2 / (1 + e^2x), of which the second term is no more than a half. */
__device__ __forceinline__ float cap_score(float s, float cap_scale)
{
    constexpr float NEAR = 0.55f, TWICE_LOG2E = 2.88539008177793f;
    const float x = s * cap_scale, x2 = x * x;
    float p = fmaf(0.0157296831f, x2, -0.0523029624f);
    p = fmaf(p, x2, 0.133152977f);
    p = fmaf(p, x2, -0.333327681f);
    const float near = fmaf(p * x2, x, x),
                far = copysignf(fmaf(-2, reciprocal_fast(1 + exp2_fast(fabsf(x) * TWICE_LOG2E)), 1), x);
    return s == -INFINITY ? s : fabsf(x) < NEAR ? near : far;
}

/* Of a scale for all rows, or of one for each of a lane's two rows, row h's. */
__device__ __forceinline__ float of_row(float scale, int)
{
    return scale;
}

__device__ __forceinline__ float of_row(const float (&scale)[2], int h)
{
    return scale[h];
}

template <int NB, typename X> __device__ __forceinline__ void cap_scores(float (*s)[4], const X &cap_scale)
{
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[nb][i] = cap_score(s[nb][i], of_row(cap_scale, i / 2));
}

/* -inf for tokens from `left` on. */
template <int NB> __device__ __forceinline__ void hide_end(float (*s)[4], int left, int lane)
{
    if (left < NB * 8)
#pragma unroll
        for (int nb = 0; nb < NB; nb++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (nb * 8 + (lane & 3) * 2 + (i & 1) >= left)
                    s[nb][i] = -INFINITY;
}

/* Of the two rows of a lane, the queries of the tile; row_k: in lane i that of row i. */
struct row_queries {
    int k[2];
};

__device__ __forceinline__ row_queries queries_of_rows(int row_k, int lane)
{
    row_queries q;
    for (int h = 0; h < 2; h++)
        q.k[h] = __shfl_sync(~0u, row_k, lane / 4 + 8 * h);
    return q;
}

/* -inf where the mask hides the pair: of each token WORDS words, every token_words, bit k of which is query k of the tile. */
template <int NB, int WORDS>
__device__ __forceinline__ void hide_masked(float (*s)[4], const uint32_t *words, int token_words, const row_queries &q,
                                            int lane)
{
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t *of_token = words + (nb * 8 + (lane & 3) * 2 + i) * token_words;
            const uint32_t first = of_token[0];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t word = WORDS == 1 ? first : of_token[q.k[h] / 32];
                if (!(word >> q.k[h] % 32 & 1))
                    s[nb][2 * h + i] = -INFINITY;
            }
        }
}

constexpr float FAR_SCORE = 0x1p22f;

/* In base 2, rounded as raise_max() does; of no token, which is -inf: no. */
__device__ __forceinline__ bool is_far(float max)
{
    return fabsf(max) >= FAR_SCORE && max != -INFINITY;
}

/* The maximum with these scores; what was summed before is too large by `rescale`, and `sum` no more; minus: what to add to
 * scores times scale_log2 before 2^x; where all are lower than -FAR_SCORE, that makes 0 of each. */
template <typename T, int NB, typename X>
__device__ __forceinline__ void raise_max(float (*s)[4], const X &scale_log2, float max[2], float sum[2], float rescale[2],
                                          float minus[2])
{
    static_assert((NB & (NB - 1)) == 0, "pairs of pairs");
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float part[NB];
#pragma unroll
        for (int nb = 0; nb < NB; nb++)
            part[nb] = fmaxf(s[nb][2 * h], s[nb][2 * h + 1]);
        /* A tree: in a chain each would wait for the one before it, and nothing goes on beside them. */
#pragma unroll
        for (int n = NB / 2; n > 0; n /= 2)
#pragma unroll
            for (int i = 0; i < n; i++)
                part[i] = fmaxf(part[i], part[i + n]);
        float top = fmaxf(part[0], __shfl_xor_sync(~0u, part[0], 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        top = fmaxf(max[h], even_above(top * of_row(scale_log2, h)));
        rescale[h] = max[h] == -INFINITY ? 1 : exp2_whole(max[h], top); /* of nothing: nothing to rescale */
        max[h] = top;
        minus[h] = narrow<T>::bias - fmaxf(top, -FAR_SCORE); /* of -inf, so that -inf stays what it is */
        sum[h] *= rescale[h];
    }
}

/* O of the chunks before. */
template <int OB> __device__ __forceinline__ void rescale_o(float (*o)[4], const float rescale[2])
{
    if (__any_sync(~0u, rescale[0] != 1 || rescale[1] != 1))
#pragma unroll
        for (int ob = 0; ob < OB; ob++) {
            o[ob][0] *= rescale[0];
            o[ob][1] *= rescale[0];
            o[ob][2] *= rescale[1];
            o[ob][3] *= rescale[1];
        }
}

/* Scores to probabilities, times 2^bias of the type; each lane sums its own. */
template <int NB, typename X>
__device__ __forceinline__ void exponentiate(float (*s)[4], const X &scale_log2, const float minus[2], float sum[2])
{
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[nb][i] = exp2_fast(fmaf(s[nb][i], of_row(scale_log2, i / 2), minus[i / 2]));
            sum[i / 2] += s[nb][i];
        }
}

/* The sum of a row, of which four lanes side by side have a part each. */
__device__ __forceinline__ void add_up_quad(float &sum)
{
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
}

/* 16 tokens, as an operand of the product with V. */
template <typename T> __device__ __forceinline__ void round_p(uint32_t p[4], float (*s)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = pack<T>(s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
}

} // namespace treeattn

#endif
