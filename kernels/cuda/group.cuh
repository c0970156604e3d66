/*
 * group.cuh - the group kernel: fused partial attention of some queries over some runs of paged KV.
 *
 * Grid     one CTA per item (a Q tile of a group) and KV head; heads of an item are neighbours, since their
 *          K and V lie side by side in memory.
 * CTA      WM x WN warps; a warp owns 16 of the 16 WM rows. The WM warps of one of the WN teams share K and V;
 *          team t takes chunks t, t + WN, t + 2 WN ... of NC tokens, so a step of the CTA is n = WN NC tokens.
 *          Teams never wait for each other: each has its own ring of STAGES chunks and its own barrier (none
 *          for a team of one warp), and their (O, max, sum) meet once, at the end.
 * Loads    16-byte cp.async into swizzled rows. Each lane looks up the slot of one token (run, page table) a
 *          chunk ahead; the warp hands the slots round by shuffle.
 * Math     S = Q K^T and O += P V by mma.sync m16n8k16, fp32 accumulation. The running maximum is taken in
 *          base 2 and rounded up to a whole number: rescaling is then exact, and rare. P is rounded to the
 *          storage type, its sum is not.
 *
 * A token past the end is loaded as zeros and its score is -inf; so is the score of a pair that the mask hides.
 * A row without a visible token ends with sum 0 and leaves as the empty partial. A NaN score never becomes the
 * maximum but makes the sum NaN.
 */
#ifndef TREEATTN_KERNELS_CUDA_GROUP_CUH
#define TREEATTN_KERNELS_CUDA_GROUP_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/item.cuh"

namespace treeattn {

template <int WM_, int WN_, int NC_, int STAGES_> struct team_shape {
    static constexpr int WM = WM_, WN = WN_, NC = NC_, STAGES = STAGES_;
    static constexpr int M = 16 * WM, N = WN * NC, THREADS = 32 * WM * WN;
};

enum { MASK_WORDS = 4 }; /* a tile has at most 128 queries */

/* Shared memory, in bytes:
 *   ring   [STAGES][WN] { K[NC][D], V[NC][D] }   the last stage holds Q first, where it is large enough
 *   q      [M][D]                                where it is not
 *   mask   [STAGES][WN][NC][MASK_WORDS]          in launches with a mask
 * and at the end, over the ring, O[WN][M][D + 8], max and sum [WN][M] in fp32. */
template <class S, int D> struct layout {
    static constexpr int chunk = S::NC * D * 2; /* K or V */
    static constexpr int stage = S::WN * 2 * chunk;
    static constexpr int ring = S::STAGES * stage;
    static constexpr int q = S::M * D * 2;
    static constexpr bool q_in_ring = q <= stage;
    static constexpr int q_at = q_in_ring ? ring - stage : ring;
    static constexpr int mask_at = q_in_ring ? ring : ring + q;
    static constexpr int mask = S::STAGES * S::N * MASK_WORDS * 4;
    static constexpr int o_row = D + 8; /* floats: rows of a quarter warp start 8 banks apart */
    static constexpr int weight_at = S::WN * S::M * o_row * 4;
    static_assert(S::WN == 1 || weight_at + S::WN * S::M * 8 <= mask_at, "the last step fits over the ring");
    static constexpr int bytes(bool masked)
    {
        return mask_at + (masked ? mask : 0);
    }
};

template <typename T, int D, class S>
__global__ __launch_bounds__(S::THREADS, 1) void group_kernel(const __grid_constant__ cuda_group_args a)
{
    using L = layout<S, D>;
    constexpr int WM = S::WM, WN = S::WN, NC = S::NC, STAGES = S::STAGES;
    constexpr int ROW_COPIES = D / 8;            /* 16-byte pieces of a row */
    constexpr int ROWS_AT_ONCE = 32 / ROW_COPIES; /* that a warp copies with one instruction */
    constexpr int WARP_ROWS = NC / WM;           /* of each chunk, that a warp looks up and copies */
    constexpr int KS = D / 16, NB = NC / 8, OB = D / 8;
    static_assert(WARP_ROWS <= 32 && NC % WM == 0, "a lane looks up one token at most");
    extern __shared__ __align__(1024) unsigned char smem[];

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % WM, wn = warp / WM;
    const int item = blockIdx.x / a.h_kv, kv_head = blockIdx.x - item * a.h_kv;
    const cuda_item it = load_item(a.item + item);
    const int n_chunks = (it.n_kv + NC - 1) / NC;
    const uint32_t ring = smem_address(smem);
    const bool masked = it.mask0 >= 0;

    /* ---- loading */

    const int my_row = wm * WARP_ROWS + lane; /* of a chunk: the one this lane looks up */
    const int copy_row = lane / ROW_COPIES, copy_piece = lane % ROW_COPIES;
    const int64_t token_bytes = (int64_t)a.h_kv * D * 2;
    const char *k_head = (const char *)a.k + (kv_head * D + copy_piece * 8) * 2;
    const char *v_head = (const char *)a.v + (kv_head * D + copy_piece * 8) * 2;

    /* slot -1: past the end */
    auto look_up = [&](int chunk) {
        int t = chunk * NC + my_row;
        token x = {-1, 0};
        if (lane < WARP_ROWS && t < it.n_kv)
            x = find_token(a, it, t);
        return x;
    };
    auto issue = [&](int stage, token x) {
        uint32_t to = ring + stage * L::stage + wn * 2 * L::chunk;
#pragma unroll
        for (int i = 0; i < (WARP_ROWS + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE; i++) {
            int r = i * ROWS_AT_ONCE + copy_row;
            int slot = __shfl_sync(~0u, x.slot, r);
            if (WARP_ROWS % ROWS_AT_ONCE != 0 && r >= WARP_ROWS)
                continue;
            int row = wm * WARP_ROWS + r;
            int64_t from = slot < 0 ? 0 : slot * token_bytes;
            uint32_t at = to + row * D * 2 + ((copy_piece ^ (row & 7)) << 4);
            copy_async(at, k_head + from, slot >= 0);
            copy_async(at + L::chunk, v_head + from, slot >= 0);
        }
        if (masked && lane < WARP_ROWS) {
            uint32_t *words = (uint32_t *)(smem + L::mask_at) + ((stage * WN + wn) * NC + my_row) * MASK_WORDS;
            for (int w = 0; w < it.mask_words; w++)
                words[w] = x.slot < 0 ? 0 : __ldg(a.mask + it.mask0 + (int64_t)x.run * it.mask_words + w);
        }
        copy_commit();
    };
    auto team_barrier = [&] {
        if (WM == 1)
            __syncwarp();
        else if (WN == 1)
            __syncthreads();
        else
            asm volatile("bar.sync %0, %1;" : : "r"(wn + 1), "n"(32 * WM) : "memory");
    };

    token ahead[STAGES - 1];
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        ahead[s] = look_up(wn + s * WN);
    for (int i = threadIdx.x; i < S::M * ROW_COPIES; i += S::THREADS) {
        int r = i / ROW_COPIES, piece = i % ROW_COPIES;
        bool valid = r < it.n_rows;
        int64_t from = 0;
        if (valid) {
            row_place p = place_row(a, it, kv_head, r);
            from = (p.query * a.h_q + p.head) * D + piece * 8;
        }
        copy_async(ring + L::q_at + r * D * 2 + ((piece ^ (r & 7)) << 4), (const T *)a.q + from, valid);
    }
    copy_commit();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        issue(s, ahead[s]);
    token next = look_up(wn + (STAGES - 1) * WN);

    /* ---- Q to registers; the stage it may share is written only after this */

    const int swizzle = lane & 7;
    uint32_t q[KS][4];
    copy_wait<STAGES - 1>();
    __syncthreads();
    {
        int r = wm * 16 + (lane & 15);
        uint32_t at = ring + L::q_at + r * D * 2 + ((lane / 16 ^ swizzle) << 4);
#pragma unroll
        for (int kk = 0; kk < KS; kk++)
            load_matrix(q[kk], at ^ (kk * 32));
    }
    if (L::q_in_ring)
        __syncthreads();

    /* ---- the loop */

    float o[OB][4] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    const uint32_t k_lane = ((lane & 7) + ((lane >> 4) << 3)) * D * 2 + (((lane >> 3 & 1) ^ swizzle) << 4);
    const uint32_t v_lane = (lane & 15) * D * 2 + ((lane / 16 ^ swizzle) << 4);
    int mask_word[2], mask_bit[2];
    if (masked)
        for (int i = 0; i < 2; i++) {
            int r = min(wm * 16 + lane / 4 + 8 * i, it.n_rows - 1);
            int k = (it.row0 + r) / a.gqa - it.row0 / a.gqa;
            mask_word[i] = k / 32;
            mask_bit[i] = k % 32;
        }

    int stage = 0;
    for (int chunk = wn; chunk < n_chunks; chunk += WN) {
        copy_wait<STAGES - 2>();
        team_barrier();
        issue(stage == 0 ? STAGES - 1 : stage - 1, next); /* the stage that the chunk before this one was in */
        next = look_up(chunk + STAGES * WN);

        const uint32_t k_at = ring + stage * L::stage + wn * 2 * L::chunk + k_lane;
        float s[NB][4] = {};
#pragma unroll
        for (int kk = 0; kk < KS; kk++)
#pragma unroll
            for (int nb = 0; nb < NB; nb += 2) {
                uint32_t b[4];
                load_matrix(b, (k_at + nb * 8 * D * 2) ^ (kk * 32));
                mma<T>(s[nb], q[kk], b);
                mma<T>(s[nb + 1], q[kk], b + 2);
            }

        const int left = it.n_kv - chunk * NC;
        if (left < NC)
#pragma unroll
            for (int nb = 0; nb < NB; nb++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (nb * 8 + (lane & 3) * 2 + (i & 1) >= left)
                        s[nb][i] = -INFINITY;
        if (masked) {
            const uint32_t *words = (const uint32_t *)(smem + L::mask_at) + (stage * WN + wn) * NC * MASK_WORDS;
#pragma unroll
            for (int nb = 0; nb < NB; nb++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int col = nb * 8 + (lane & 3) * 2 + (i & 1);
                    if (!(words[col * MASK_WORDS + mask_word[i / 2]] >> mask_bit[i / 2] & 1))
                        s[nb][i] = -INFINITY;
                }
        }

        float rescale[2], minus[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = -INFINITY;
#pragma unroll
            for (int nb = 0; nb < NB; nb++)
                top = fmaxf(top, fmaxf(s[nb][2 * h], s[nb][2 * h + 1]));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            top = fmaxf(max[h], ceilf(top * a.scale_log2));
            rescale[h] = exp2_whole(max[h], top);
            max[h] = top;
            minus[h] = narrow<T>::bias - (top == -INFINITY ? 0 : top);
            sum[h] *= rescale[h];
        }
        if (__any_sync(~0u, rescale[0] != 1 || rescale[1] != 1))
#pragma unroll
            for (int ob = 0; ob < OB; ob++) {
                o[ob][0] *= rescale[0];
                o[ob][1] *= rescale[0];
                o[ob][2] *= rescale[1];
                o[ob][3] *= rescale[1];
            }
#pragma unroll
        for (int nb = 0; nb < NB; nb++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[nb][i] = exp2_fast(fmaf(s[nb][i], a.scale_log2, minus[i / 2]));
                sum[i / 2] += s[nb][i];
            }

        const uint32_t v_at = ring + stage * L::stage + wn * 2 * L::chunk + L::chunk + v_lane;
#pragma unroll
        for (int ks = 0; ks < NC / 16; ks++) {
            uint32_t p[4] = {pack<T>(s[2 * ks][0], s[2 * ks][1]), pack<T>(s[2 * ks][2], s[2 * ks][3]),
                             pack<T>(s[2 * ks + 1][0], s[2 * ks + 1][1]),
                             pack<T>(s[2 * ks + 1][2], s[2 * ks + 1][3])};
#pragma unroll
            for (int ob = 0; ob < OB; ob += 2) {
                uint32_t b[4];
                load_matrix_transposed(b, (v_at + ks * 16 * D * 2) ^ (ob * 16));
                mma<T>(o[ob], p, b);
                mma<T>(o[ob + 1], p, b + 2);
            }
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    let_next_start();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
        sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    }

    /* ---- what leaves */

    wait_for_previous(); /* what it left behind may be complete only when this is */
    if (WN == 1) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = wm * 16 + lane / 4 + 8 * h;
            if (r >= it.n_rows)
                continue;
            row_place p = place_row(a, it, kv_head, r);
#pragma unroll
            for (int ob = 0; ob < OB; ob++)
                store_row<T, 2, true>(a, it, p, D, ob * 8 + (lane & 3) * 2, &o[ob][2 * h], max[h], sum[h],
                                ob == 0 && (lane & 3) == 0);
        }
        return;
    }
    copy_wait<0>();
    __syncthreads();
    float *o_all = (float *)smem, *weight = (float *)(smem + L::weight_at);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int r = wn * S::M + wm * 16 + lane / 4 + 8 * h;
#pragma unroll
        for (int ob = 0; ob < OB; ob++)
            *(float2 *)(o_all + r * L::o_row + ob * 8 + (lane & 3) * 2) =
                make_float2(o[ob][2 * h], o[ob][2 * h + 1]);
        if ((lane & 3) == 0)
            *(float2 *)(weight + r * 2) = make_float2(max[h], sum[h]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < it.n_rows * (D / 4); i += S::THREADS) {
        int r = i / (D / 4), col = i % (D / 4) * 4;
        float top = -INFINITY, all = 0, x[4] = {};
#pragma unroll
        for (int w = 0; w < WN; w++)
            top = fmaxf(top, weight[(w * S::M + r) * 2]);
#pragma unroll
        for (int w = 0; w < WN; w++) {
            float factor = exp2_whole(weight[(w * S::M + r) * 2], top);
            float4 y = *(const float4 *)(o_all + (w * S::M + r) * L::o_row + col);
            all += factor * weight[(w * S::M + r) * 2 + 1];
            x[0] += factor * y.x;
            x[1] += factor * y.y;
            x[2] += factor * y.z;
            x[3] += factor * y.w;
        }
        row_place p = place_row(a, it, kv_head, r);
        store_row<T, 4, true>(a, it, p, D, col, x, top, all, col == 0);
    }
}

template <typename T, int D, class S> int prepare_group()
{
    return cudaFuncSetAttribute(group_kernel<T, D, S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                layout<S, D>::bytes(true));
}

template <typename T, int D, class S> int launch_group(const cuda_group_args &a, int early, cudaStream_t stream)
{
    cudaLaunchAttribute programmatic = {};
    programmatic.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    programmatic.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)((int64_t)a.n_items * a.h_kv));
    c.blockDim = dim3(S::THREADS);
    c.dynamicSmemBytes = layout<S, D>::bytes(a.masked);
    c.stream = stream;
    c.attrs = &programmatic;
    c.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&c, group_kernel<T, D, S>, a);
}

} // namespace treeattn

#endif
