/*
 * 3_group.cuh - the group kernel: fused partial attention of some queries over some runs of paged KV.
 *
 * Grid     one CTA per item (a Q tile of a group) and KV head, or some heads where items are short, fewer towards the
 *          end; heads of an item are neighbours, since their K and V lie side by side in memory.
 * CTA      WM x WN warps; a warp owns 16 of the 16 WM rows. The WM warps of one of the WN teams share K and V.
 *          With one head a CTA, team t takes chunks t, t + WN, t + 2 WN ... of NC tokens, so a step of the CTA is
 *          n = WN NC tokens, and the teams' (O, max, sum) meet once, at the end. With several, team t takes heads
 *          t, t + WN ... whole, and its loads run ahead from one head into the next, so that an item of a few
 *          tokens keeps as many bytes in flight as a long one.
 *          Each team has a ring of STAGES chunks of its own; teams of one warp never wait for each other, unless they
 *          share Q.
 * Loads    16-byte cp.async into swizzled rows. Each lane looks up the page of one token a chunk before the copies of
 *          that chunk begin, and nobody waits for it until then; the warp hands the rows round by shuffle.
 * Math     S = Q K^T and O += P V by mma.sync m16n8k16, or (WG) by wgmma with K and V read from shared memory once for
 *          the four warps of a team, fp32 accumulation. The running maximum is taken in
 *          base 2 and rounded up to an even number: rescaling is then exact, and rare. P is rounded to the
 *          storage type, its sum is not. K and V in 8 bits are made 16-bit numbers between ldmatrix and mma.sync (fp8.cuh).
 *
 * Outline  1. Find the item of this CTA, and the heads and chunks that this team takes, its steps.
 *          2. Define how a token is looked up, and how K, V, mask words and Q are copied.
 *          3. Begin the copies of the first AHEAD steps, and of Q of the first head.
 *          4. For each step:
 *             a. wait for its chunk; begin the copies of the step that is AHEAD further on;
 *             b. with the first chunk of a head, load Q into registers;
 *             c. S = Q K^T; bend it if there is a soft cap; hide what is past the end or masked; maximum, sum, P; O += P V;
 *             d. after a head's last chunk, write its rows, if no other team has a part of them.
 *          5. Where teams share the tokens of one head, add up their O in shared memory and write the rows.
 *          6. Do rows of far scores again.
 *
 * Floor    K and V of the group once per Q tile, at the bandwidth of memory; or 4 d operations a pair at the rate of
 *          the tensor cores, of which, with mma.sync, shared memory leaves half: a warp reads 512 bytes of K or V for two.
 * Predicted  90 % of the bandwidth where rows are few, 40 % of the tensor peak where they are many.
 * Measured   on an H200: 256 4096 at 32/32 all of the bandwidth; 64-row tiles over one prefix of 2,048 tokens 200 TFLOP/s
 *          with mma.sync, 285 with wgmma: a step is a chain of latencies, of which an SM has two at a time (kernels/LOG.md).
 *
 * A token past the end is loaded as zeros and its score is -inf; so is the score of a pair that the mask hides.
 * A row without a visible token ends with sum 0 and leaves as the empty partial. A NaN score never becomes the
 * maximum but makes the sum NaN. Rows of scores beyond millions are done again by one warp each (softmax.cuh, warp_row.cuh).
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_3_GROUP_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_3_GROUP_CUH

#include <cuda_runtime.h>
#include <type_traits>

#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/device/warp_row.cuh"
#include "kernels/cuda/device/wgmma.cuh"

namespace treeattn {

template <int WM_, int WN_, int NC_, int STAGES_, int RESIDENT_> struct team_shape {
    static constexpr int WM = WM_, WN = WN_, NC = NC_, STAGES = STAGES_;
    static constexpr int M = 16 * WM, N = WN * NC, THREADS = 32 * WM * WN;
    static constexpr int AHEAD = STAGES - 1; /* steps that are loaded ahead */
    /* CTAs that shared memory leaves room for on an SM of 228 KB (d = 128, or 256), so that registers do, too. */
    static constexpr int RESIDENT = RESIDENT_;
    static constexpr int MASK_WORDS = (M + 31) / 32; /* a query has a row at least */
};

/* Shared memory, in bytes:
 *   ring   [STAGES][WN] { K, V }, each [D / 64][NC][64]: in panels of 64 columns, as wgmma reads them
 *          of K and V in 8 bits [D / 128][NC][128]; with D = 64 K and V of a token share 128 bytes
 *   zeros  [D]                                   stands in for rows of Q that the tile does not have
 *   mask   [STAGES][WN][NC][MASK_WORDS]          in launches with a mask
 *   q      [warps][q_rows][D]                    of the warps of one team, where teams share it; else of all, and where
 *                                                registers have no room for Q, two of them, as the next head's is copied
 *                                                while this one's is read
 * and at the end, over the ring, O[WN][M][D + 8], max and sum [WN][M] in fp32. A row of a panel is 8 pieces of 16
 * bytes; piece p of row r stands at p ^ (r mod 8), so that neither ldmatrix nor wgmma meets a bank twice. */
template <class S, int D, int KV_BYTES = 2> struct layout {
    static constexpr bool keeps_q = D <= 128; /* in registers, for all tokens of a head */
    static constexpr int row = D * 2;
    static constexpr int line = row > 256 ? row : 256; /* rows of Q are aligned to their size */
    static constexpr int kv_row = D * KV_BYTES;
    static constexpr int chunk = S::NC * kv_row; /* K or V */
    static constexpr int stage = S::WN * 2 * chunk;
    static constexpr int panel = S::NC * 128;
    static constexpr int zeros_at = S::STAGES * stage; /* the ring is at 0: wgmma wants it at a multiple of 1,024 */
    static constexpr int mask_at = zeros_at + line;
    static constexpr int mask = (S::STAGES * S::N * S::MASK_WORDS * 4 + line - 1) / line * line;
    static constexpr int o_row = D + 8; /* floats: rows of a quarter warp start 8 banks apart */
    static constexpr int weight_at = S::WN * S::M * o_row * 4;
    static_assert(S::WN == 1 || weight_at + S::WN * S::M * 8 <= zeros_at, "the last step fits over the ring");
    __host__ __device__ static constexpr int q_at(bool masked)
    {
        return mask_at + (masked ? mask : 0);
    }
    static constexpr int bytes(bool masked, bool q_shared, int q_rows)
    {
        return q_at(masked) + S::WM * (q_shared ? 1 : S::WN * (keeps_q ? 1 : 2)) * q_rows * row;
    }
};

/* CTAs of an SM that registers are to be enough for. Before sm_89 e4m3 takes more of them than a quarter of an SM has for three warps. */
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 890
template <class S, bool FP8> constexpr int resident = S::RESIDENT;
#else
template <class S, bool FP8> constexpr int resident = FP8 && S::RESIDENT > 4 ? 4 : S::RESIDENT;
#endif

/* WG: products by wgmma, for sm_90a; of shapes whose teams are whole warpgroups. ONCE: K and V of items that say so leave the
 * L2 first. CAPPED: there may be a soft cap, which is many instructions more, and so a kernel of its own. KV: the type of K and V, T
 * or one in 8 bits, and then T is beside_fp8. */
template <typename T, int D, class S, bool WG, bool ONCE, bool CAPPED, typename KV = T>
__global__ __launch_bounds__(S::THREADS, resident<S, is_fp8<KV>>) void group_kernel(const __grid_constant__ cuda_group_args a)
{
    constexpr bool FP8 = is_fp8<KV>;
    using L = layout<S, D, FP8 ? 1 : 2>;
    using M = multiplied<T>;
    constexpr int WM = S::WM, WN = S::WN, NC = S::NC, STAGES = S::STAGES, AHEAD = S::AHEAD;
    constexpr int MASK_WORDS = S::MASK_WORDS;
    constexpr int Q_COPIES = D / 8, KV_COPIES = L::kv_row / 16; /* 16-byte pieces of a row */
    /* Rows that a warp copies with one instruction. */
    constexpr int Q_AT_ONCE = 32 / Q_COPIES, KV_AT_ONCE = 32 / KV_COPIES;
    constexpr bool KV_BESIDE = L::kv_row < 128; /* V of a token is in the same 128 bytes as K */
    constexpr int WARP_ROWS = NC / WM;            /* of each chunk, that a warp looks up and copies */
    /* Among several runs a token has two loads, the second of which needs the first. Tiles of 32 rows, which meet many
     * runs, do the first a chunk before the second; elsewhere that costs more than it saves. */
    constexpr bool FAR = WM == 2;
    /* Q of the next head as a group of copies of its own, where registers allow it. */
    constexpr bool Q_APART = (WG || WM < 4) && WM * WN <= 4;
    /* Of what is loaded ahead, K and V before Q, unless Q is waited for apart. */
    constexpr bool KV_FIRST = AHEAD == 1 || !Q_APART;
    constexpr int KS = D / 16, OB = D / 8;
    constexpr bool KEEPS_Q = L::keeps_q;
    static_assert(KEEPS_Q || !(WG || FP8), "wgmma takes Q from registers, and so do products with fp8");
    static_assert(!(WG && FP8), "wgmma takes 16-bit K and V from shared memory");
    /* A chunk that is no more than half full is loaded and multiplied as half a chunk. */
    constexpr bool HALVES = WG && NC == 64;
    constexpr int UNREAD = -2; /* the place of a token whose row nobody reads then */
    static_assert(WARP_ROWS <= 32 && NC % WM == 0, "a lane looks up one token at most");
    extern __shared__ __align__(1024) unsigned char smem[];
    let_next_start();
    prefetch_plan<S::THREADS>(a);

    /* ---- 1. the item */

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % WM, wn = warp / WM;
    const cta_work work = find_work(a);
    const cuda_segment &g = work.g;
    const int head_groups = g.head_groups, head_group = work.head_group;
    const cuda_item it = load_item(a.item + g.item0 + work.item);
    const bool masked = it.mask0 >= 0;
    const uint32_t keep_kv = it.kv_once ? EVICT_FIRST : KEEP_NORMAL;

    /* This team's steps: some heads, and of each its chunks. What runs at a time are neighbours in memory. */

    const bool by_head = a.by_head;
    const int n_chunks = (it.n_kv + NC - 1) / NC, chunk_first = by_head ? 0 : wn, chunk_step = by_head ? 1 : WN;
    const int head_step = by_head ? head_groups * WN : a.h_kv;
    const int head_first = by_head ? head_group * WN + wn : head_group;
    const int my_heads = by_head ? g.team_heads + (head_first < g.teams_more) : 1;
    const int my_chunks = by_head ? n_chunks : (n_chunks - wn + WN - 1) / WN;
    const int steps = my_heads * my_chunks;

    /* ---- 2. looking up and copying */

    /* Lane i < 16 knows row i of this warp. */
    const int my_rows = min(16, it.n_rows - wm * 16); /* may be < 0 */
    const bool has_rows = WM == 1 || my_rows > 0;
    int q_row = 0, row_k = 0; /* for KV head 0 */
    int64_t out_row = 0;

    const uint32_t ring = smem_address(smem);
    /* Team 0 loads Q for all. (Of more warps the same as a.q_shared, which would spill in tiles of 64 x 32.) */
    const bool q_shared = WM > 1 ? !by_head : a.q_shared;
    const uint32_t q_mine = ring + L::q_at(a.masked) + (q_shared ? wm : warp) * a.q_rows * L::row;
    /* The first rows of a chunk, which may be all there are, are copied by the second warp, which may have no rows of Q. */
    const int copy_first = (wm + WM - 1) % WM * WARP_ROWS;
    const int my_row = copy_first + lane; /* of a chunk: the one this lane looks up */
    /* This lane's 16 bytes of the first rows that the warp copies; the others are a constant or an exclusive or away, as
     * instructions of a copy are as long a wait as half a load is. */
    const int copy_row = lane / KV_COPIES, copy_piece = lane % KV_COPIES;
    const int ring_row = copy_first + copy_row;
    const uint32_t ring_at = ring + wn * 2 * L::chunk + copy_piece / 8 * L::panel + ring_row * 128 +
                             ((copy_piece ^ ring_row) % 8 << 4);
    const int q_copy_row = lane / Q_COPIES, q_copy_piece = lane % Q_COPIES; /* the same of Q */
    /* Where Q of this head is not kept in registers: bytes from its place to that of the next head's, and of this one's. */
    const int q_turn = by_head && !KEEPS_Q ? WM * WN * a.q_rows * L::row : 0;
    int q_now = 0;
    const uint32_t q_at = q_mine + q_copy_row * L::row + ((q_copy_piece ^ q_copy_row) << 4);
    const char *k_piece = (const char *)a.k + copy_piece * 16, *v_piece = (const char *)a.v + copy_piece * 16;
    if (WG || WM < 4 || NC == 16) { /* where registers allow it */
        keep(k_piece);
        keep(v_piece);
    }

    /* Of a chunk, this lane looks up one token, if there is one. */
    auto has_token = [&](int chunk) { return lane < WARP_ROWS && chunk * NC + my_row < it.n_kv; };
    piece far = {0, 0, 0};
    auto look_far = [&](int chunk) {
        if (FAR && it.n_runs > 1 && has_token(chunk))
            far = find_piece(a, it, chunk * NC + my_row);
    };
    auto look_up = [&](int chunk) {
        const bool unread = HALVES && copy_first >= NC / 2 && chunk * NC + NC / 2 >= it.n_kv;
        token x = {unread ? UNREAD : -1, 0, 0}; /* past the end */
        if (has_token(chunk)) {
            const int t = chunk * NC + my_row;
            x = FAR && it.n_runs > 1 ? find_in_run(a, it, t, far) : find_place(a, it, t);
            find_page(a, x);
        }
        look_far(chunk + chunk_step < n_chunks ? chunk + chunk_step : chunk_first);
        return x;
    };
    auto issue = [&](int stage, int head, const token &x) {
        if (HALVES && __any_sync(~0u, x.place == UNREAD))
            return;
        const uint32_t to = ring_at + stage * L::stage;
        const int kv_row = max(slot_of(a, x), 0) * a.h_kv + head; /* of all rows of K, or V */
        const int left = __popc(__ballot_sync(~0u, x.place >= 0)) - copy_row;
        copy_rows<WARP_ROWS, KV_AT_ONCE, L::kv_row, ONCE, KV_BESIDE>(to, L::chunk, k_piece, v_piece, kv_row, copy_row,
                                                                     left, keep_kv);
        if (masked && lane < WARP_ROWS) {
            const uint32_t *words = a.mask + it.mask0 + (x.place < 0 ? 0 : (int64_t)x.run * it.mask_words);
            const uint32_t at = ring + L::mask_at + ((stage * WN + wn) * NC + my_row) * MASK_WORDS * 4;
            for (int w = 0; w < it.mask_words; w++)
                copy_async_word(at + w * 4, words + w, x.place >= 0);
        }
    };
    auto issue_q = [&](int head, int turn) {
        auto issue_rows = [&](int first) {
            const int row = __shfl_sync(~0u, q_row, first + q_copy_row) + head * a.gqa;
            if (first + q_copy_row < my_rows)
                copy_async((q_at ^ (first % 8 << 4)) + first * L::row + turn,
                           (const char *)a.q + q_copy_piece * 16 + (int64_t)row * L::row);
        };
        if (WM > 1 && Q_APART && my_rows == 16) { /* no branches: a fifth of what a warp does for 32 tokens */
#pragma unroll
            for (int first = 0; first < 16; first += Q_AT_ONCE)
                issue_rows(first);
        } else {
            for (int first = 0; first < my_rows; first += Q_AT_ONCE)
                issue_rows(first);
        }
    };

    int load_head = head_first, load_chunk = chunk_first; /* the step that is issued next */
    auto load_next = [&] {
        load_chunk += chunk_step;
        if (load_chunk >= n_chunks) {
            load_chunk = chunk_first;
            load_head += head_step;
        }
    };

    /* ---- 3. the first copies */

    look_far(load_chunk);
    token next = look_up(load_chunk);
    for (int i = threadIdx.x; i < L::row / 16; i += S::THREADS)
        ((uint4 *)(smem + L::zeros_at))[i] = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        if (s < steps) {
            const token now = next;
            const int head = load_head;
            load_next();
            if (AHEAD > 1)
                next = look_up(load_chunk);
            issue(s, head, now);
            if (AHEAD == 1)
                next = look_up(load_chunk);
        }
        if (s == 0) {
            if (lane < my_rows)
                place_own_row(a, it, wm * 16 + lane, q_row, row_k, out_row);
            if (my_heads > 0 && !(q_shared && wn > 0))
                issue_q(head_first, 0);
        }
        copy_commit();
    }
    if (WM > 1 || q_shared)
        copy_wait<AHEAD - 1>(); /* Q, where others read it */
    __syncthreads();             /* the zeros, too */

    /* ---- 4. the steps */

    const int swizzle = lane & 7;
    const uint32_t k_lane = FP8 ? lane * 128 + (swizzle << 4)
                                : ((lane & 7) + ((lane >> 4) << 3)) * 128 + (((lane >> 3 & 1) ^ swizzle) << 4);
    const uint32_t v_lane = (lane & 15) * 128 + ((lane / 16 ^ swizzle) << 4);
    const bool zero_row = (lane & 15) >= my_rows;
    auto q_from = [&] {
        const uint32_t q_lane = (lane & 15) * L::row + ((lane / 16 ^ swizzle) << 4);
        return zero_row ? ring + L::zeros_at : q_mine + q_lane + q_now;
    };
    uint32_t q[KEEPS_Q ? KS : 1][4] = {};
    float o[OB][4] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

    /* Q of the head. Of fp8 each 16 columns in the order of K's: a lane has four that lie side by side. */
    auto load_q = [&] {
        if constexpr (FP8) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = lane / 4 + 8 * h;
                const unsigned char *from = smem + (r < my_rows ? q_mine - ring + r * L::row : L::zeros_at) + (lane & 1) * 8;
#pragma unroll
                for (int kk = 0; kk < KS; kk++) {
                    const uint2 x = *(const uint2 *)(from + ((2 * kk + (lane >> 1 & 1)) ^ (r & 7)) * 16);
                    q[kk][h] = x.x;
                    q[kk][2 + h] = x.y;
                }
            }
        } else if constexpr (KEEPS_Q) {
            const uint32_t at = q_from();
#pragma unroll
            for (int kk = 0; kk < KS; kk++)
                load_matrix(q[kk], at ^ (kk * 32));
        }
    };
    row_scales scales; /* of this head */
    auto scale_head = [&](int head) {
        if constexpr (FP8) {
            float of_q[2];
            narrow_q<KS>(q, a.fp8.bf16, of_q);
            scales = scales_of_rows(a, head, of_q);
        }
    };
    auto finish = [&](int head) {
        if constexpr (FP8)
            finish_fp8<OB>(o, __ldg(a.fp8.v_scale + head));
    };

    bool far_rows = false;
    auto store_head = [&](int head) {
        if (!a.beside)
            wait_for_previous(); /* what it left behind may be complete only when this is */
        finish(head);
        far_rows |= store_rows<T, D, KV>(a, it, o, max, sum, out_row, head, my_rows, lane);
    };

    int stage = 0, head = head_first, chunk = chunk_first;
    /* Team 0 has the most steps, and all teams of several warps take as many, so that they can share a barrier. */
    const int barriers = WM == 1 || WN == 1 ? steps
                         : by_head          ? (g.team_heads + (head_group * WN < g.teams_more)) * n_chunks
                                            : (n_chunks + WN - 1) / WN;
    const bool q_late = AHEAD > 1 && by_head && n_chunks < AHEAD; /* Q is loaded a head ahead, K and V may be further */
    for (int step = 0; step < barriers; step++) {
        /* a. */
        if (q_late && Q_APART)
            copy_wait<1>(); /* Q was committed before the K and V that may be pending */
        else if (q_late)
            copy_wait<0>();
        else
            copy_wait<AHEAD - 1>();
        if (WG)
            publish_to_async();
        if (WM == 1)
            __syncwarp();
        else
            __syncthreads();
        if (WM > 1 && WN > 1 && step >= steps)
            continue;
        const bool looks = step + AHEAD < steps;
        auto load_ahead = [&] {
            if (!looks)
                return;
            issue(stage == 0 ? STAGES - 1 : stage - 1, load_head, next); /* the stage that the step before was in */
            load_next();
            next = look_up(load_chunk);
        };
        if (KV_FIRST)
            load_ahead();
        /* b. */
        if (chunk == chunk_first) {
            load_q();
            scale_head(head);
            __syncwarp();
            if (by_head && head + head_step < a.h_kv)
                issue_q(head + head_step, q_turn - q_now);
        }
        if (q_late && Q_APART)
            copy_commit();
        if (!KV_FIRST)
            load_ahead();
        copy_commit();

        /* c. */
        const int left = it.n_kv - chunk * NC;
        const uint32_t k_at = ring + stage * L::stage + wn * 2 * L::chunk, v_at = k_at + (KV_BESIDE ? 0 : L::chunk);
        auto multiply = [&](auto width) { /* tokens of the chunk */
            constexpr int WIDTH = decltype(width)::value, NB = WIDTH / 8;
            float s[NB][4] = {};
            if constexpr (WG) {
                wgmma_fence<NB>(s);
#pragma unroll
                for (int kk = 0; kk < KS; kk++)
                    wgmma<M, WIDTH, false>(s, q[kk], panel_of_rows(k_at + kk / 4 * L::panel + kk % 4 * 32), kk > 0);
                wgmma_end<NB>(s);
            } else if constexpr (FP8) {
                static_assert(NB % 4 == 0 && D / 16 <= 8, "four blocks of tokens at a time, of rows of one panel");
#pragma unroll
                for (int kk = 0; kk < KS; kk++)
#pragma unroll
                    for (int nb = 0; nb < NB; nb += 4) {
                        uint32_t x[4];
                        load_matrix(x, (k_at + k_lane + nb * 8 * 128) ^ (kk * 16));
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            uint32_t b[2];
                            widen_halves<KV>(x[i], b[0], b[1]);
                            mma<M>(s[nb + i], q[kk], b);
                        }
                    }
            } else {
                const uint32_t at = q_from();
#pragma unroll
                for (int kk = 0; kk < KS; kk++) {
                    uint32_t *const q_kk = q[KEEPS_Q ? kk : 0];
                    if (!KEEPS_Q)
                        load_matrix(q_kk, at ^ (kk * 32));
#pragma unroll
                    for (int nb = 0; nb < NB; nb += 2) {
                        uint32_t b[4];
                        load_matrix(b, ((k_at + k_lane + nb * 8 * 128) ^ (kk % 4 * 32)) + kk / 4 * L::panel);
                        mma<M>(s[nb], q_kk, b);
                        mma<M>(s[nb + 1], q_kk, b + 2);
                    }
                }
            }

            if (has_rows) {
                hide_end<NB>(s, left, lane);
                if (CAPPED && a.cap_scale != 0) {
                    if constexpr (FP8)
                        cap_scores<NB>(s, scales.cap);
                    else
                        cap_scores<NB>(s, a.cap_scale);
                }
                if (masked)
                    hide_masked<NB, MASK_WORDS>(
                        s, (const uint32_t *)(smem + L::mask_at) + (stage * WN + wn) * NC * MASK_WORDS, MASK_WORDS,
                        queries_of_rows(row_k, lane), lane);
                float rescale[2], minus[2];
                if constexpr (FP8)
                    raise_max<T, NB>(s, scales.log2, max, sum, rescale, minus);
                else
                    raise_max<T, NB>(s, a.scale_log2, max, sum, rescale, minus);
                rescale_o<OB>(o, rescale);
                if constexpr (FP8)
                    exponentiate<NB>(s, scales.log2, minus, sum);
                else
                    exponentiate<NB>(s, a.scale_log2, minus, sum);
            }

            uint32_t p[WIDTH / 16][4];
            if constexpr (WG) {
#pragma unroll
                for (int ks = 0; ks < WIDTH / 16; ks++)
                    round_p<M>(p[ks], s + 2 * ks);
                wgmma_fence<OB>(o);
#pragma unroll
                for (int ks = 0; ks < WIDTH / 16; ks++)
#pragma unroll
                    for (int half = 0; half < D / 64; half++)
                        wgmma<M, 64, true>(o + half * 8, p[ks], panel_of_rows(v_at + half * L::panel + ks * 16 * 128),
                                           true);
                wgmma_end<OB>(o);
            } else {
#pragma unroll
                for (int ks = 0; ks < WIDTH / 16; ks++) {
                    round_p<M>(p[ks], s + 2 * ks);
                    if constexpr (FP8) {
#pragma unroll
                        for (int ob = 0; ob < OB; ob += 4) {
                            uint32_t x[4];
                            load_matrix_transposed(x, (v_at + v_lane + ks * 16 * 128) ^ ((ob / 2 + (KV_BESIDE ? 4 : 0)) * 16));
#pragma unroll
                            for (int i = 0; i < 4; i += 2) {
                                uint32_t even[2], odd[2];
                                widen_columns<KV>(x[i], even[0], odd[0]);
                                widen_columns<KV>(x[i + 1], even[1], odd[1]);
                                mma<M>(o[ob + i], p[ks], even);
                                mma<M>(o[ob + i + 1], p[ks], odd);
                            }
                        }
                    } else {
#pragma unroll
                        for (int ob = 0; ob < OB; ob += 2) {
                            uint32_t b[4];
                            load_matrix_transposed(b, ((v_at + v_lane + ks * 16 * 128) ^ (ob % 8 * 16)) + ob / 8 * L::panel);
                            mma<M>(o[ob], p[ks], b);
                            mma<M>(o[ob + 1], p[ks], b + 2);
                        }
                    }
                }
            }
        };
        if constexpr (HALVES) {
            if (left <= NC / 2)
                multiply(std::integral_constant<int, NC / 2>());
            else
                multiply(std::integral_constant<int, NC>());
        } else if (WG || has_rows) {
            multiply(std::integral_constant<int, NC>());
        }
        /* d. */
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        chunk += chunk_step;
        if (chunk >= n_chunks && (by_head || WN == 1)) {
            if (has_rows)
                store_head(head);
            head += head_step;
            chunk = chunk_first;
            q_now = q_turn - q_now;
            begin_rows<OB>(o, max, sum);
        }
    }
    const bool waits = !a.beside || blockIdx.x == gridDim.x - 1;
    if (by_head || WN == 1) {
        if (waits)
            wait_for_previous(); /* a team without a head, too */
        /* 6. */
        redo_far_rows<T, D, CAPPED, std::conditional_t<FP8, fp8, KV>>(a, far_rows, {0, 1, 16, WM, by_head ? wn : 0, by_head ? WN : 1});
        return;
    }

    /* ---- 5. the teams of a head meet */

    copy_wait<0>();
    __syncthreads();
    finish(head_first);
    float *o_all = (float *)smem, *weight = (float *)(smem + L::weight_at);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        add_up_quad(sum[h]);
        const int r = wn * S::M + wm * 16 + lane / 4 + 8 * h;
#pragma unroll
        for (int ob = 0; ob < OB; ob++)
            *(float2 *)(o_all + r * L::o_row + (FP8 ? ob / 2 * 16 + (lane & 3) * 4 + ob % 2 * 2 : ob * 8 + (lane & 3) * 2)) =
                make_float2(o[ob][2 * h], o[ob][2 * h + 1]);
        if ((lane & 3) == 0)
            *(float2 *)(weight + r * 2) = make_float2(max[h], sum[h]);
    }
    __syncthreads();
    if (waits)
        wait_for_previous();
    constexpr int COLS = D <= 128 ? 4 : D / 32; /* of a thread: a row is one warp's */
    for (int i = threadIdx.x; i < it.n_rows * (D / COLS); i += S::THREADS) {
        const int r = i / (D / COLS), col = i % (D / COLS) * COLS;
        float top = -INFINITY, all = 0, x[COLS] = {};
#pragma unroll
        for (int w = 0; w < WN; w++)
            top = fmaxf(top, weight[(w * S::M + r) * 2]);
#pragma unroll
        for (int w = 0; w < WN; w++) {
            const float factor = exp2_whole(weight[(w * S::M + r) * 2], top);
            all += factor * weight[(w * S::M + r) * 2 + 1];
#pragma unroll
            for (int c = 0; c < COLS; c += 4) {
                const float4 y = *(const float4 *)(o_all + (w * S::M + r) * L::o_row + col + c);
                x[c] += factor * y.x;
                x[c + 1] += factor * y.y;
                x[c + 2] += factor * y.z;
                x[c + 3] += factor * y.w;
            }
        }
        far_rows |= is_far(top);
        store_row<T, COLS, true>(a, it.slot0 >= 0, place_out(a, it, place_row(a, it, head_first, r)), D, col, x, top, all,
                                 col == 0);
    }
    /* 6. */
    constexpr int AT_ONCE = 32 * COLS / D; /* rows of a warp */
    redo_far_rows<T, D, CAPPED, std::conditional_t<FP8, fp8, KV>>(a, far_rows, {0, 1, AT_ONCE, WM * WN, 0, 1});
}

/* How a shape is compiled: WG, CAPPED, and KV, the type of K and V, or void: as Q. With ONCE, for items that say so, there are those of
 * leaves, and what a Hopper card runs; of K and V in 8 bits there are none without. */
template <class S, bool WG_, bool CAPPED_, typename KV> struct compiled {
    using shape = S;
    static constexpr bool FP8 = is_fp8<KV>;
    static constexpr int KV_BYTES = FP8 ? 1 : 2;
    static constexpr bool WG = WG_, CAPPED = CAPPED_, has_once = WG || S::M <= 32 || FP8, has_other = !FP8;
    template <typename T> using kv = std::conditional_t<FP8, KV, T>;
};

template <typename T, int D, class C, bool ONCE> int prepare_kernel()
{
    using S = typename C::shape;
    int device, most;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (status != cudaSuccess)
        return status;
    return allow_smem(group_kernel<T, D, S, C::WG, ONCE, C::CAPPED, typename C::template kv<T>>,
                      min(most, layout<S, D, C::KV_BYTES>::bytes(true, false, 16)));
}

template <typename T, int D, class C> int prepare_group()
{
    int status = cudaSuccess;
    if constexpr (C::has_other)
        status = prepare_kernel<T, D, C, false>();
    if constexpr (C::has_once)
        if (status == cudaSuccess)
            status = prepare_kernel<T, D, C, true>();
    return status;
}

template <typename T, int D, class C, bool ONCE>
int launch_kernel(const cuda_group_args &a, int early, cudaStream_t stream)
{
    using S = typename C::shape;
    return launch_dependent(group_kernel<T, D, S, C::WG, ONCE, C::CAPPED, typename C::template kv<T>>,
                            dim3((unsigned)a.n_ctas), S::THREADS,
                            layout<S, D, C::KV_BYTES>::bytes(a.masked, a.q_shared, a.q_rows), early, stream, a);
}

template <typename T, int D, class C> int launch_group(const cuda_group_args &a, int early, cudaStream_t stream)
{
    if constexpr (C::has_once)
        if (a.kv_once || !C::has_other)
            return launch_kernel<T, D, C, true>(a, early, stream);
    return launch_kernel<T, D, C, !C::has_other>(a, early, stream);
}

} // namespace treeattn

#endif
