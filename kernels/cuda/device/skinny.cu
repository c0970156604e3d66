/*
 * skinny.cu - the two products of a plan whose scores are materialised, for groups of at most SKINNY_ROWS rows a KV head:
 * a matrix of K or V times a few rows, which is reading that matrix.
 *
 * Idea     K and V go from where the page table says straight into the operands of mma.sync: no copy of them is made, and
 *          shared memory is not needed. A product does not care in which order it adds: a lane takes 16 bytes of K, four
 *          pairs of columns, and of Q the same four, whatever columns mma.sync counts them as. Of V it takes 16 bytes of
 *          each of four tokens, and pairs up tokens.
 * Grid     a CTA for a block of a group's tokens and a KV head; its four warps take 16 tokens each in turn. Scores go to
 *          memory, O of a block as a part of its own, which the last kernel adds up: no atomics, the same bits every time.
 * Floor    bytes of K (or V), and for each token, head and row four bytes of a score (two of a probability).
 */
#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/device/items.cuh"
#include "kernels/cuda/device/typed.cuh"

namespace treeattn {

enum { WARPS = 4, SKINNY_THREADS = 32 * WARPS, WARP_TOKENS = SKINNY_STEP / WARPS };
static_assert(WARP_TOKENS == 16, "of one mma.sync");

/* 16 bytes that nobody reads again. */
__device__ inline uint4 load_once(const void *from)
{
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

__device__ inline skinny_block load_block(const skinny_block *from)
{
    static_assert(sizeof(skinny_block) == 32, "read as 2 words");
    union {
        int4 w[2];
        skinny_block b;
    } u;
    u.w[0] = __ldg((const int4 *)from);
    u.w[1] = __ldg((const int4 *)from + 1);
    return u.b;
}

/* Row `slot` of K or V, of one head. */
template <int D> __device__ inline const uint4 *row_of(const cuda_group_args &a, const void *kv, int64_t slot, int head)
{
    return (const uint4 *)kv + (slot * a.h_kv + head) * (D / 8);
}

/* Scores of 16 tokens a warp and step: A is K, B is Q transposed, EIGHTS blocks of eight rows. */
template <typename T, int D, int EIGHTS>
__global__ __launch_bounds__(SKINNY_THREADS) void skinny_qk_kernel(const __grid_constant__ unfused_args u)
{
    constexpr int PIECES = D / 32;
    let_next_start();
    const int head = blockIdx.x % u.a.h_kv, warp = threadIdx.x / 32, lane = threadIdx.x % 32, four = lane % 4;
    const skinny_block b = load_block(u.skinny + blockIdx.x / u.a.h_kv);
    const cuda_item it = load_item(u.a.item + b.item);
    uint4 k[2][PIECES], q[EIGHTS][PIECES];
    auto load_k = [&](int t) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const bool valid = t + lane / 4 + 8 * i < b.end;
            const uint4 *from = nullptr;
            if (valid)
                from = row_of<D>(u.a, u.a.k, slot_of(u.a, find_token(u.a, it, t + lane / 4 + 8 * i)), head);
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                k[i][p] = valid ? load_once(from + four + 4 * p) : make_uint4(0, 0, 0, 0);
        }
    };
    int t = b.token + warp * WARP_TOKENS;
    load_k(t);
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) {
        const int row = 8 * e + lane / 4;
        const uint4 *from = nullptr;
        if (row < it.n_rows) {
            const row_place p = place_row(u.a, it, head, row);
            from = (const uint4 *)u.a.q + (p.query * u.a.h_q + p.head) * (D / 8);
        }
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            q[e][p] = row < it.n_rows ? __ldg(from + four + 4 * p) : make_uint4(0, 0, 0, 0);
    }
    float *score = u.score + b.score + (int64_t)head * it.n_rows * b.ld;
    while (t < b.end) {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
            float s[4] = {0};
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
                const uint32_t low[4] = {k[0][p].x, k[1][p].x, k[0][p].y, k[1][p].y},
                               high[4] = {k[0][p].z, k[1][p].z, k[0][p].w, k[1][p].w},
                               q_low[2] = {q[e][p].x, q[e][p].y}, q_high[2] = {q[e][p].z, q[e][p].w};
                mma<T>(s, low, q_low);
                mma<T>(s, high, q_high);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int token = t + lane / 4 + 8 * (i / 2), row = 8 * e + 2 * four + i % 2;
                if (token < b.end && row < it.n_rows)
                    score[(int64_t)row * b.ld + token] = s[i];
            }
        }
        t += SKINNY_STEP;
        load_k(t);
    }
}

/* O of 16 tokens a warp and step: A is V transposed, B is P transposed. Of every 16 columns that an instruction takes, a lane
 * has two that lie side by side in its 16 bytes: column c of a piece is row (lane / 4) + 8 (c % 2) of instruction c / 2. */
template <typename T, int D, int EIGHTS>
__global__ __launch_bounds__(SKINNY_THREADS) void skinny_pv_kernel(const __grid_constant__ unfused_args u)
{
    constexpr int HALVES = D / 64;
    constexpr int AT_ONCE = D > 128 ? 1 : EIGHTS; /* blocks of rows that warps add up at a time, in 48 KB */
    __shared__ float part[WARPS][8 * AT_ONCE][D + 4];
    let_next_start();
    const int head = blockIdx.x % u.a.h_kv, warp = threadIdx.x / 32, lane = threadIdx.x % 32, four = lane % 4;
    const skinny_block b = load_block(u.skinny + blockIdx.x / u.a.h_kv);
    const cuda_item it = load_item(u.a.item + b.item);
    const uint16_t *probability = (const uint16_t *)u.probability + b.score + (int64_t)head * it.n_rows * b.ld;
    uint4 v[4][HALVES];
    uint2 p[EIGHTS];
    float o[EIGHTS][HALVES][4][4] = {0};
    auto load_v = [&](int t) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int token = t + 4 * four + i;
            const uint4 *from = nullptr;
            if (token < b.end)
                from = row_of<D>(u.a, u.a.v, slot_of(u.a, find_token(u.a, it, token)), head);
#pragma unroll
            for (int h = 0; h < HALVES; h++)
                v[i][h] = token < b.end ? load_once(from + 8 * h + lane / 4) : make_uint4(0, 0, 0, 0);
        }
    };
    auto load_p = [&](int t) {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
            const int row = 8 * e + lane / 4;
            p[e] = t + 4 * four < b.end && row < it.n_rows
                          ? *(const uint2 *)(probability + (int64_t)row * b.ld + t + 4 * four)
                          : make_uint2(0, 0);
        }
    };
    int t = b.token + warp * WARP_TOKENS;
    load_v(t);
    wait_for_previous();
    load_p(t);
    while (t < b.end) {
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const uint32_t word[4][4] = {{v[0][h].x, v[0][h].y, v[0][h].z, v[0][h].w},
                                         {v[1][h].x, v[1][h].y, v[1][h].z, v[1][h].w},
                                         {v[2][h].x, v[2][h].y, v[2][h].z, v[2][h].w},
                                         {v[3][h].x, v[3][h].y, v[3][h].z, v[3][h].w}};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t a[4] = {__byte_perm(word[0][j], word[1][j], 0x5410),
                                       __byte_perm(word[0][j], word[1][j], 0x7632),
                                       __byte_perm(word[2][j], word[3][j], 0x5410),
                                       __byte_perm(word[2][j], word[3][j], 0x7632)};
#pragma unroll
                for (int e = 0; e < EIGHTS; e++) {
                    const uint32_t two[2] = {p[e].x, p[e].y};
                    mma<T>(o[e][h][j], a, two);
                }
            }
        }
        t += SKINNY_STEP;
        load_v(t);
        load_p(t);
    }
    float *to = u.o + (b.o + (int64_t)head * it.n_rows) * D;
#pragma unroll
    for (int e0 = 0; e0 < EIGHTS; e0 += AT_ONCE) {
        if (e0 > 0)
            __syncthreads(); /* what is there has been read */
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
#pragma unroll
            for (int h = 0; h < HALVES; h++)
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int i = 0; i < 2; i++) /* row 2 four + i, two columns side by side */
                        *(float2 *)&part[warp][8 * e + 2 * four + i][64 * h + 8 * (lane / 4) + 2 * j] =
                            make_float2(o[e0 + e][h][j][i], o[e0 + e][h][j][2 + i]);
        __syncthreads();
        const int first = 8 * e0 * D, n = min(it.n_rows * D - first, 8 * AT_ONCE * D);
        for (int i = threadIdx.x; i < n; i += SKINNY_THREADS) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++)
                sum += part[w][i / D][i % D];
            to[first + i] = sum;
        }
    }
}

template <typename T, int D, int EIGHTS> static int launch_skinny(const unfused_args &u, skinny_product product, cudaStream_t st)
{
    const unsigned ctas = (unsigned)(u.n_skinny * u.a.h_kv);
    if (product == SKINNY_QK)
        return launch_dependent(skinny_qk_kernel<T, D, EIGHTS>, ctas, SKINNY_THREADS, 0, false, st, u);
    return launch_dependent(skinny_pv_kernel<T, D, EIGHTS>, ctas, SKINNY_THREADS, 0, u.early, st, u);
}

template <typename T, int D> static int launch_for_rows(const unfused_args &u, skinny_product product, cudaStream_t st)
{
    return u.most_rows <= 8 ? launch_skinny<T, D, 1>(u, product, st) : launch_skinny<T, D, 2>(u, product, st);
}

} // namespace treeattn

extern "C" int cuda_launch_skinny(const cuda_shape *s, const unfused_args *u, skinny_product product, void *stream)
{
    using namespace treeattn;
    return for_type(s->t == CUDA_F16, s->d, [&](auto t, auto d) {
        return launch_for_rows<decltype(t), decltype(d)::value>(*u, product, (cudaStream_t)stream);
    });
}
