/*
 * 4_wide.cuh - tiles of 64 rows for sm_90a: two warpgroups, the teams, multiply, while a third copies.
 *
 * Grid     one CTA for two items over the same tokens, a tile for each team, and a KV head, or some one after the other; the
 *          second item may have no rows. Or (SHARED) for one item and head, of which the teams take chunks in turn, and meet
 *          at the end. Heads are neighbours.
 * CTA      12 warps. Those of the third warpgroup look up tokens and bring chunks of 64 of them into a ring of as many chunks
 *          as there is room for, all four of them one, or two each of two at a time (AT_ONCE): 16 tokens at a time, by the copy
 *          engine (TMA) if they lie side by side in the pool, else by cp.async. Teams wait for nobody but the copies: a
 *          barrier for every stage says that a chunk has arrived, another that those have read it that do.
 * Math     as in 3_group.cuh, with products by wgmma, but Q K^T of the next chunk is under way beside P V of this one, and
 *          softmax of the next begins while P V goes on.
 * 8 bits   K and V of 8 bits are copied into a ring of their own, and the warp that copied them makes fp16 numbers of them, once, in
 *          the ring that the teams read: while they multiply what came before.
 * Masks    are the same for all tokens of a run. 16 tokens of one run are hidden from a row, or not, by one bit, asked for a
 *          chunk before; a chunk that no row of a tile sees its team passes over.
 *
 * Outline  1. Find the items and heads of this CTA; one thread makes the barriers.
 *          2. The copying warpgroup, for each chunk of each head:
 *             a. look up the tokens of its next chunk;
 *             b. wait until the stage is empty;
 *             c. copy K, V and mask words, and arrive at the stage's barrier. Then it ends.
 *             Of 8 bits: widen the chunk that has come, copy the next over what is widened, and arrive.
 *          3. Both teams: copy Q of the first head, and define products, masks, softmax and stages.
 *          4. For each head:
 *             a. load Q into registers; begin the copies of the next head's;
 *             b. S = Q K^T of the first chunk that a row sees, and its softmax;
 *             c. for each chunk after it: begin its S = Q K^T and O += P V of the one before, then its softmax;
 *             d. O += P V of the last one;
 *             e. where both teams share a tile, add up their O;
 *             f. write the rows, or merge them with those of the other CTAs of the cluster (wide_store.cuh).
 *          5. Do rows of far scores again.
 *
 * Floor    4 d operations a pair at the rate of the tensor cores: 512 cycles of an SM for 64 x 64 and d = 128, 1,024 for
 *          the two warpgroups.
 * Predicted  a step of 128 x 64, which took 2,350 cycles where all warps copied and met at a barrier, in 1,410: 0.6 of the
 *          time, from a model of the loop alone (kernels/LOG.md).
 * Measured   on an H200: 250 such steps, cascade's plan on 1,64 16000,1 at 64/8, 0.52 of the time, 0.85 us a step with
 *          all that is before and behind; at most 455 TFLOP/s, PAT's released plan on 1,256 4000,1 at 64/8.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_4_WIDE_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_4_WIDE_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/device/dependent.cuh"
#include "kernels/cuda/device/warp_row.cuh"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/device/wide_store.cuh"

namespace treeattn {

enum {
    WIDE_TEAMS = 2,       /* warpgroups that multiply */
    WIDE_WARPGROUP = 128, /* threads */
    WIDE_THREADS = (WIDE_TEAMS + 1) * WIDE_WARPGROUP,
    WIDE_ALL_REGISTERS = 65536 / WIDE_THREADS / 8 * 8, /* of any thread of the one CTA that an SM has, at first */
    WIDE_COPY_REGISTERS = 112,                         /* of one that copies, and of one that multiplies, then */
    WIDE_REGISTERS = 192,
    WIDE_MASK_WORDS = CUDA_WIDE_ROWS / 32, /* of a tile: a query has a row at least */
    WIDE_BOX_ROWS = 16,                    /* tokens that are copied at a time, */
    WIDE_PARTS = CUDA_WIDE_STEP / WIDE_BOX_ROWS, /* of which a chunk has as many parts */
    NO_RUN = -1,                           /* of a part without a token, */
    SEVERAL_RUNS = -2,                     /* and of tokens of several; a run counts from 0 */
    WIDE_SMEM = 227 * 1024                 /* bytes, all that a CTA of sm_90 can have */
};

static_assert(WIDE_COPY_REGISTERS + WIDE_TEAMS * WIDE_REGISTERS <= (WIDE_TEAMS + 1) * WIDE_ALL_REGISTERS,
              "a warpgroup would wait for registers for ever");

/* Shared memory, in bytes; a tile for each team, or one for both; as many stages as there is room for:
 *   ring   [stages] { K, V }, each [D / 64][64][64], as in 3_group.cuh
 *   q      [tiles][4 warps][16][D]
 *   mask   [stages][64][tiles][MASK_WORDS]  of each token, and
 *   run    [stages][PARTS]  of a part, where there are masks
 *   full, empty  [stages] of 8 bytes each
 *   q_full       8 bytes
 * and of K and V in 8 bits, behind q, what was copied and is to be widened:
 *   staged       [4 warps][tokens / those that a warp copies at once] { K, V } of [32 lanes] 16 bytes */
template <int D, bool SHARED, bool MASKED, bool FP8> struct wide_layout {
    static constexpr int tiles = SHARED ? 1 : WIDE_TEAMS;
    static constexpr int row = D * 2;
    static constexpr int chunk = CUDA_WIDE_STEP * row; /* K or V */
    static constexpr int panel = CUDA_WIDE_STEP * 128;
    static constexpr int mask_row = tiles * WIDE_MASK_WORDS; /* words */
    static constexpr int q_bytes = tiles * CUDA_WIDE_ROWS * row;
    static constexpr int mask_bytes = MASKED ? CUDA_WIDE_STEP * mask_row * 4 : 0;
    static constexpr int run_bytes = MASKED ? WIDE_PARTS * 4 : 0;
    static constexpr int stage_bytes = 2 * chunk + mask_bytes + run_bytes + 2 * 8;
    /* Each team has two: of the chunk before, and of this one. */
    static constexpr int most_stages = FP8 ? 2 * WIDE_TEAMS : (WIDE_SMEM - q_bytes - 8) / stage_bytes;
    /* Teams that take chunks in turn have stages of their own: a phase is even or odd to those alone who see all of them end. */
    static constexpr int stages = SHARED ? most_stages / WIDE_TEAMS * WIDE_TEAMS : most_stages;
    static constexpr int staged_bytes = FP8 ? 2 * CUDA_WIDE_STEP * row : 0; /* K and V of two chunks */
    static constexpr int q_at = stages * 2 * chunk;
    static constexpr int staged_at = q_at + q_bytes;
    static constexpr int mask_at = staged_at + staged_bytes;
    static constexpr int run_at = mask_at + stages * mask_bytes;
    static constexpr int full_at = run_at + stages * run_bytes;
    static constexpr int empty_at = full_at + stages * 8;
    static constexpr int q_full_at = empty_at + stages * 8;
    static constexpr int bytes = q_full_at + 8;
    static_assert(bytes <= WIDE_SMEM, "two stages for each team");
    static constexpr int handed_bytes = (D / 8 + 2) * WIDE_WARPGROUP * 16; /* by teams of one tile to each other, over the ring; */
    static constexpr int met_at = SHARED ? handed_bytes : 0; /* by CTAs of a cluster, behind that */
    static_assert(met_at + met_layout<D, SHARED ? 1 : 2>::bytes <= q_at, "what is handed over fits over the ring");
};

/* ---- barriers in shared memory: so many arrivals end a phase; phases are even and odd in turn ---------------- */

__device__ inline void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(barrier) : "memory");
}

/* When all that this thread has copied until now is there. */
__device__ inline void barrier_arrive_copied(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(barrier) : "memory");
}

/* Before this phase is over, so many bytes more are to come by the copy engine. */
__device__ inline void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}

/* WIDE_BOX_ROWS rows of the map from `row` on, 64 columns from col on, to a panel in shared memory by the copy engine: for all
 * lanes by one. The barrier counts their bytes. */
__device__ inline void copy_box(uint32_t to, const CUtensorMap *map, int col, int row, uint32_t barrier, uint32_t keep)
{
    asm volatile("{ .reg .b64 policy; mov.b64 policy, {0, %5}; "
                 "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3}], [%4], policy; }"
                 :
                 : "r"(to), "l"(map), "r"(col), "r"(row), "r"(barrier), "r"(keep)
                 : "memory");
}

/* Until the phase is over: of the first of them, 1 returns at once. */
__device__ inline void barrier_wait(uint32_t barrier, int phase)
{
    asm volatile("{\n\t.reg .pred over;\n\twait_%=:\n\tmbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n\t"
                 "@!over bra wait_%=;\n\t}"
                 :
                 : "r"(barrier), "r"(phase)
                 : "memory");
}

/* Is it over? */
__device__ inline bool barrier_is_over(uint32_t barrier, int phase)
{
    int over;
    asm volatile("{\n\t.reg .pred over;\n\tmbarrier.test_wait.parity.shared.b64 over, [%1], %2;\n\t"
                 "selp.b32 %0, 1, 0, over;\n\t}"
                 : "=r"(over)
                 : "r"(barrier), "r"(phase)
                 : "memory");
    return over;
}

/* Barrier 0, of all threads: the warps that copy come to it from other code than those that multiply, so that it is no __syncthreads(),
 * which must be the same for all (CUDA C++ Programming Guide, section 7.6), but counts them. */
__device__ inline void cta_barrier()
{
    asm volatile("bar.sync 0, %0;" : : "n"((int)WIDE_THREADS) : "memory");
}

/* Barrier 1, of the threads of so many teams, who multiply. */
__device__ inline void team_barrier(int teams)
{
    asm volatile("bar.sync 1, %0;" : : "r"(teams * WIDE_WARPGROUP) : "memory");
}

/* Of a whole warpgroup, each thread from now on; more: as others have fewer. */
template <int n> __device__ inline void have_fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(n));
}

template <int n> __device__ inline void have_more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(n));
}

/* What all lanes have, so that the compiler knows it, too: it keeps it in uniform registers, which wgmma wants. */
__device__ inline int same_in_warp(int x)
{
    return __shfl_sync(~0u, x, 0);
}

/* ---- the kernel ------------------------------------------------------------------------------------------ */

/* k_map, v_map: K and V as a matrix of slots and heads. MASKED: of a launch in which items may have a mask. There is no soft cap.
 * FP8: K and V are of 8 bits, and there are no maps. MEETS: the CTAs of a cluster have parts of the same rows (cuda_shape.meet). */
template <typename T, int D, bool SHARED, bool MASKED, bool FP8, bool MEETS>
__global__ __launch_bounds__(WIDE_THREADS, 1) void wide_kernel(const __grid_constant__ cuda_group_args a,
                                                               const __grid_constant__ CUtensorMap k_map,
                                                               const __grid_constant__ CUtensorMap v_map)
{
    using L = wide_layout<D, SHARED, MASKED, FP8>;
    using M = multiplied<T>;
    constexpr int ROW_COPIES = D / 8;             /* 16-byte pieces of a row */
    constexpr int ROWS_AT_ONCE = 32 / ROW_COPIES; /* that a warp copies with one instruction */
    constexpr int KS = D / 16, OB = D / 8, NB = CUDA_WIDE_STEP / 8;
    /* Chunks that are looked up and copied at a time: two hide what lookups wait for, for teams that want one each or where
     * there are masks to look up, too; where both wait for the same one it had better come soon. */
    constexpr int AT_ONCE = SHARED || MASKED || FP8 ? 2 : 1;
    constexpr int COPIERS = 4 / AT_ONCE, TOKENS = CUDA_WIDE_STEP / COPIERS; /* warps of each, and tokens of each, a lane's */
    constexpr int READERS = MASKED ? 32 : 1; /* of a warp, who let go of a stage: every lane reads its words of a mask */
    extern __shared__ __align__(1024) unsigned char smem[];
    let_next_start();
    prefetch_plan<WIDE_THREADS>(a);

    /* ---- 1. the items */

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, team = same_in_warp(threadIdx.x / WIDE_WARPGROUP);
    const cta_work work = MEETS ? find_work_of_cluster(a) : find_work(a);
    const int head_first = work.head_group, head_step = work.g.head_groups;
    const int my_heads = MEETS ? 1 : same_in_warp(work.g.team_heads + (head_first < work.g.teams_more));
    const cuda_item *items = a.item + (work.g.item0 + work.item) * (SHARED ? 1 : WIDE_TEAMS);
    const cuda_item it = load_item(items + (!SHARED && team == 1)); /* a team's own; the first for copies */
    const int second_rows = SHARED ? 0 : __ldg(&items[WIDE_TEAMS - 1].n_rows);
    const int n_kv = same_in_warp(it.n_kv), n_chunks = (n_kv + CUDA_WIDE_STEP - 1) / CUDA_WIDE_STEP;
    const uint32_t ring = smem_address(smem), full = ring + L::full_at, empty = ring + L::empty_at,
                   q_full = ring + L::q_full_at;
    const int copy_row = lane / ROW_COPIES, copy_piece = lane % ROW_COPIES;
    const bool waits = !a.beside || blockIdx.x == gridDim.x - 1;

    if (threadIdx.x == 0) {
        for (int s = 0; s < L::stages; s++) {
            barrier_init(full + s * 8, COPIERS * (32 + (MASKED && !FP8)));
            barrier_init(empty + s * 8, (second_rows > 0 ? 8 : 4) * READERS); /* warps that multiply */
        }
        barrier_init(q_full, WIDE_TEAMS * WIDE_WARPGROUP);
        publish_to_async(); /* the copy engine counts on them, too */
    }

    if (team == WIDE_TEAMS) {
        /* ---- 2. copies: each lane looks up a token, a chunk before its copies begin */

        const int of_four = same_in_warp(warp % 4), first_chunk = of_four / COPIERS;
        const int copy_first = of_four % COPIERS * TOKENS, my_row = copy_first + lane;
        /* Of this lane's 16 bytes: the panel, and where in its first 1,024 bytes, to which panels are aligned. */
        const uint32_t lane_panel = copy_piece / 8 * L::panel,
                       lane_at = copy_row * 128 + ((copy_piece ^ copy_row) % 8 << 4);
        const uint32_t keep_kv = it.kv_once ? EVICT_FIRST : KEEP_NORMAL;
        const char *k_piece = (const char *)a.k + copy_piece * 16, *v_piece = (const char *)a.v + copy_piece * 16;
        /* Nobody waits for these before there is something to copy. */
        int32_t mask0[L::tiles], mask_words[L::tiles];
#pragma unroll
        for (int t = 0; t < L::tiles && MASKED; t++) {
            mask0[t] = t == 0 ? it.mask0 : __ldg(&items[t].mask0);
            mask_words[t] = t == 0 ? it.mask_words : __ldg(&items[t].mask_words);
        }
        /* Of K and V in 8 bits a warp widens what came before it goes on, so it asks for the run of a token a chunk before, too. */
        int4 far = {};
        auto look_far = [&](int chunk) {
            const int t = chunk * CUDA_WIDE_STEP + my_row;
            if (FP8 && it.n_runs > 1 && lane < TOKENS && t < it.n_kv)
                far = __ldg((const int4 *)a.piece + (it.piece0 + t / CUDA_PIECE));
        };
        const piece begin = {(int32_t)it.base, it.n_runs == 1 ? it.n_kv : 0, 0};
        piece here = begin; /* of the token looked up last: those after it are often of the same run */
        auto look_up = [&](int chunk) {
            token x = {-1, 0, 0}; /* past the end */
            const int t = chunk * CUDA_WIDE_STEP + my_row;
            if (lane < TOKENS && t < it.n_kv) {
                if (FP8) {
                    here = it.n_runs > 1 ? piece{far.x, far.z, far.w} : begin;
                    asm volatile("" : : "r"(far.y)); /* its register is no other's while the load is under way, which would wait for it */
                } else if (t >= here.end) {
                    here = find_piece(a, it, t);
                }
                x = find_in_run(a, it, t, here);
                find_page(a, x);
            }
            int after = chunk + AT_ONCE;
            while (FP8 && after >= n_chunks)
                after -= n_chunks;
            look_far(after);
            return x;
        };
        const int steps = my_heads * n_chunks;
        int chunk = first_chunk, head = head_first, stage = first_chunk, phase = 1;
        auto into_heads = [&] { /* a chunk past a head's last is of the next */
            for (; chunk >= n_chunks; chunk -= n_chunks, head += head_step)
                here = begin;
        };
        token next = {-1, 0, 0};
        if (first_chunk < steps) {
            into_heads();
            look_far(chunk);
            next = look_up(chunk);
        }
        cta_barrier(); /* the barriers are there */
        have_fewer_registers<WIDE_COPY_REGISTERS>();
#pragma unroll
        for (int t = 0; t < L::tiles && MASKED; t++)
            mask_words[t] = mask0[t] >= 0 ? mask_words[t] : 0;
        if constexpr (FP8) {
            /* Of each KV_AT_ONCE-th token 16 bytes are this lane's. Four lanes have a token, or half of one, so that the eight of which
             * stores are made at a time meet all banks. */
            constexpr int KV_COPIES = D / 16, KV_AT_ONCE = 32 / KV_COPIES, COPIES = TOKENS / KV_AT_ONCE;
            constexpr int QUARTER = COPIES / 4; /* of this warp's copies of K, and of V */
            static_assert((KV_COPIES == 4 || KV_COPIES == 8) && QUARTER > 0, "four lanes, or two times four, have a token");
            const int kv_piece = lane % 4 + (KV_COPIES == 8 ? lane / 8 % 2 * 4 : 0);
            const int kv_row = KV_COPIES == 8 ? lane / 4 % 2 + lane / 16 * 2 : lane / 4;
            const char *k_from = (const char *)a.k + kv_piece * 16, *v_from = (const char *)a.v + kv_piece * 16;
            keep(k_from);
            keep(v_from);
            const uint32_t staged = ring + L::staged_at + of_four * COPIES * 1024 + lane * 16;
            const uint32_t to_lane = kv_piece / 4 * L::panel + (copy_first + kv_row) * 128 + ((kv_piece * 2 ^ kv_row) % 8 << 4);
            int rows[COPIES], left = 0, run = NO_RUN; /* of the chunk that is copied: of all rows of K or V; the run of a part */
            uint32_t words[L::mask_row];         /* its mask, of this lane's token */
            auto prepare = [&] { /* of the token looked up; then looks up that of the chunk after it, of which there are so many more */
                const int row = max(slot_of(a, next), 0) * a.h_kv + head;
#pragma unroll
                for (int i = 0; i < COPIES; i++)
                    rows[i] = __shfl_sync(~0u, row, i * KV_AT_ONCE + kv_row);
                left = __popc(__ballot_sync(~0u, next.place >= 0)) - kv_row;
                if (MASKED) {
                    const int first = __shfl_sync(~0u, next.run, lane & 16);
                    const uint32_t same = __ballot_sync(~0u, next.place < 0 || next.run == first);
                    run = next.place < 0 ? NO_RUN : (same >> (lane & 16) & 0xFFFF) == 0xFFFF ? first : SEVERAL_RUNS;
#pragma unroll
                    for (int w = 0; w < L::mask_row; w++) {
                        const int of = mask_words[w / WIDE_MASK_WORDS], i = w % WIDE_MASK_WORDS;
                        words[w] = next.place >= 0 && i < of
                                       ? __ldg(a.mask + mask0[w / WIDE_MASK_WORDS] + (int64_t)next.run * of + i)
                                       : 0;
                    }
                }
            };
            auto look_ahead = [&](int step) {
                if (step + AT_ONCE >= steps)
                    return;
                chunk += AT_ONCE;
                into_heads();
                next = look_up(chunk);
            };
            auto issue = [&](int quarter) {
#pragma unroll
                for (int i = quarter * QUARTER; i < (quarter + 1) * QUARTER; i++) {
                    const int64_t from = (int64_t)rows[i] * D;
                    copy_async<true>(staged + i * 1024, k_from + from, i * KV_AT_ONCE, left, keep_kv);
                    copy_async<true>(staged + i * 1024 + 512, v_from + from, i * KV_AT_ONCE, left, keep_kv);
                }
            };
            uint4 narrow[2][2 * QUARTER]; /* of a quarter that has come, and of the next: K and V of a row in turn */
            auto fetch = [&](int quarter) {
#pragma unroll
                for (int i = 0; i < 2 * QUARTER; i++)
                    narrow[quarter % 2][i] = *(const uint4 *)(smem + (staged - ring) + (quarter * 2 * QUARTER + i) * 512);
            };
            auto widen = [&](auto format, int quarter, unsigned char *to) {
#pragma unroll
                for (int i = 0; i < 2 * QUARTER; i++) {
                    const uint4 x = narrow[quarter % 2][i];
                    const int r = (quarter * QUARTER + i / 2) * KV_AT_ONCE;
                    const uint32_t at = (to_lane ^ (r % 8 << 4)) + r * 128 + i % 2 * L::chunk;
                    uint4 low, high;
                    widen_halves<decltype(format)>(x.x, low.x, low.y);
                    widen_halves<decltype(format)>(x.y, low.z, low.w);
                    widen_halves<decltype(format)>(x.z, high.x, high.y);
                    widen_halves<decltype(format)>(x.w, high.z, high.w);
                    *(uint4 *)(to + at) = low;
                    *(uint4 *)(to + (at ^ 16)) = high;
                }
            };
            /* Widens a chunk, a quarter at a time; over each that is read it copies the same of the next one, if there is one. */
            auto widen_all = [&](auto format, int stage, bool more) {
#pragma unroll
                for (int quarter = 0; quarter < 4; quarter++) {
                    if (quarter < 3) {
                        copy_wait<2>();
                        fetch(quarter + 1);
                    }
                    widen(format, quarter, smem + stage * 2 * L::chunk);
                    if (more)
                        issue(quarter);
                    copy_commit();
                }
            };
            if (first_chunk < steps) {
                prepare();
                look_ahead(first_chunk);
                for (int quarter = 0; quarter < 4; quarter++) {
                    issue(quarter);
                    copy_commit();
                }
            }
            for (int step = first_chunk; step < steps; step += AT_ONCE) {
                const bool more = step + AT_ONCE < steps;
                const int this_run = run;
                uint32_t these[L::mask_row];
#pragma unroll
                for (int w = 0; w < L::mask_row && MASKED; w++)
                    these[w] = words[w];
                if (more) {
                    prepare();
                    look_ahead(step + AT_ONCE);
                }
                copy_wait<3>();
                fetch(0);
                barrier_wait(empty + stage * 8, phase);
                if (a.fp8.e5m2)
                    widen_all(fp8_e5m2(), stage, more);
                else
                    widen_all(fp8_e4m3(), stage, more);
                if (MASKED) {
#pragma unroll
                    for (int w = 0; w < L::mask_row; w += 2)
                        *(uint2 *)(smem + L::mask_at + ((stage * CUDA_WIDE_STEP + my_row) * L::mask_row + w) * 4) =
                            make_uint2(these[w], these[w + 1]);
                    if (lane % 16 == 0)
                        *(int *)(smem + L::run_at + (stage * WIDE_PARTS + my_row / WIDE_BOX_ROWS) * 4) = this_run;
                }
                /* No fence: it would wait for the copies that are on their way. Teams have one when the barrier has let them through. */
                barrier_arrive(full + stage * 8);
                const bool wraps = stage + AT_ONCE >= L::stages;
                stage += AT_ONCE - (wraps ? L::stages : 0);
                phase ^= wraps;
            }
        }
        for (int step = first_chunk; step < steps && !FP8; step += AT_ONCE) {
            const token x = next;
            const int this_head = head;
            /* a. */
            if (step + AT_ONCE < steps) {
                chunk += AT_ONCE;
                into_heads();
                next = look_up(chunk);
            }
            const int slot = slot_of(a, x), half = lane & 16, first_slot = __shfl_sync(~0u, slot, half);
            const uint32_t side_by_side = __ballot_sync(~0u, x.place >= 0 && slot == first_slot + lane % 16);
            const uint32_t arrived = full + stage * 8, to = ring + stage * 2 * L::chunk + copy_first * 128;
            /* Not a sum: with one of its terms in a uniform register, ptxas 13.0 encodes copies that are illegal instructions. */
            const uint32_t to_lane = (to + lane_panel) | lane_at;
            /* b. */
            barrier_wait(empty + stage * 8, phase);
            /* c. */
#pragma unroll
            for (int box = 0; box < TOKENS / WIDE_BOX_ROWS; box++) {
                const uint32_t to_box = to + box * WIDE_BOX_ROWS * 128;
                if (__builtin_expect((side_by_side >> box * 16 & 0xFFFF) == 0xFFFF, 1)) {
                    if (lane == box * 16) {
                        barrier_expect(arrived, 2 * WIDE_BOX_ROWS * L::row);
#pragma unroll
                        for (int i = 0; i < L::chunk / L::panel; i++) {
                            copy_box(to_box + i * L::panel, &k_map, this_head * D + i * 64, slot, arrived, keep_kv);
                            copy_box(to_box + i * L::panel + L::chunk, &v_map, this_head * D + i * 64, slot, arrived,
                                     keep_kv);
                        }
                    }
                } else {
                    const uint32_t there = __ballot_sync(~0u, x.place >= 0);
                    const int left = __popc(there >> box * 16 & 0xFFFF) - copy_row;
                    const int box_row = /* of all rows of K, or V */
                        __shfl_sync(~0u, max(slot, 0), box * 16 + lane % 16) * a.h_kv + this_head;
                    copy_rows<WIDE_BOX_ROWS, ROWS_AT_ONCE, L::row, true>(to_lane + box * WIDE_BOX_ROWS * 128, L::chunk,
                                                                         k_piece, v_piece, box_row, copy_row, left,
                                                                         keep_kv);
                }
            }
            if (MASKED) {
                const int run = __shfl_sync(~0u, x.run, half);
                const uint32_t same = __ballot_sync(~0u, x.place < 0 || x.run == run);
                const bool one_run = (same >> half & 0xFFFF) == 0xFFFF;
                if (lane == half)
                    *(int *)(smem + L::run_at + (stage * WIDE_PARTS + my_row / WIDE_BOX_ROWS) * 4) =
                        x.place < 0 ? NO_RUN : one_run ? run : SEVERAL_RUNS;
                __syncwarp();
                if (lane == 0)
                    barrier_arrive(arrived); /* for what is stored, not copied */
#pragma unroll
                for (int t = 0; t < L::tiles; t++) {
                    const uint32_t *words = a.mask + mask0[t] + (int64_t)x.run * mask_words[t];
                    const uint32_t at =
                        ring + L::mask_at +
                        ((stage * CUDA_WIDE_STEP + my_row) * L::mask_row + t * WIDE_MASK_WORDS) * 4;
                    for (int w = 0; w < mask_words[t] && x.place >= 0; w++)
                        copy_async_word(at + w * 4, words + w, true);
                }
            }
            barrier_arrive_copied(arrived);
            const bool wraps = stage + AT_ONCE >= L::stages;
            stage += AT_ONCE - (wraps ? L::stages : 0);
            phase ^= wraps;
        }
        copy_commit();
        copy_wait<0>();
        if (SHARED) {
            cta_barrier();
            cta_barrier();
        }
        if (waits)
            wait_for_previous();
        return;
    }

    /* ---- 3. products: Q of the first head, of which every warp holds 16 rows */

    const int first_row = warp % 4 * 16, my_rows = min(16, it.n_rows - first_row); /* may be < 0 */
    int q_row = 0, row_k = 0; /* for KV head 0 */
    int64_t out_row = 0;
    if (lane < my_rows)
        place_own_row(a, it, first_row + lane, q_row, row_k, out_row);
    const uint32_t q_mine = ring + L::q_at + warp % (L::tiles * 4) * 16 * L::row;
    /* Of one tile for both teams, each copies half. */
    auto issue_q = [&](int head) {
        const int first = SHARED ? team * 8 : 0;
#pragma unroll
        for (int r = 0; r < (SHARED ? 8 : 16); r += ROWS_AT_ONCE) {
            const int i = first + r;
            const int row = __shfl_sync(~0u, q_row, i + copy_row) + head * a.gqa;
            copy_async(q_mine + (i + copy_row) * L::row + ((copy_piece ^ ((i + copy_row) & 7)) << 4),
                       (const char *)a.q + copy_piece * 16 + (int64_t)row * L::row, i + copy_row, my_rows);
        }
        copy_commit();
    };
    issue_q(head_first);
    cta_barrier(); /* the barriers are there */
    if (SHARED)
        barrier_arrive_copied(q_full);
    have_more_registers<WIDE_REGISTERS>();
    if (same_in_warp(it.n_rows) == 0) {
        copy_wait<0>();
        if (waits)
            wait_for_previous();
        return;
    }
    const uint32_t q_lane = q_mine + (lane & 15) * L::row + ((lane / 16 ^ (lane & 7)) << 4);
    const bool has_rows = same_in_warp(my_rows) > 0, masked = MASKED && same_in_warp(it.mask0 >= 0);
    const int mask_words = same_in_warp(it.mask_words);
    float s[NB][4], o[OB][4], max[2], sum[2], rescale[2] = {1, 1};
    row_scales scales; /* of this head, of K and V in 8 bits */
    uint32_t q[KS][4], p[NB / 2][4];
    auto begin_qk = [&](int stage) {
        const uint64_t k = panel_of_rows(ring + stage * 2 * L::chunk);
#pragma unroll
        for (int kk = 0; kk < KS; kk++)
            wgmma<M, CUDA_WIDE_STEP, false>(s, q[kk], further(k, kk / 4 * L::panel + kk % 4 * 32), kk > 0);
        wgmma_commit();
    };
    auto begin_pv = [&](int stage) {
        const uint64_t v = panels_of_columns<L::panel>(ring + stage * 2 * L::chunk + L::chunk);
#pragma unroll
        for (int ks = 0; ks < CUDA_WIDE_STEP / 16; ks++)
            wgmma<M, D, true>(o, p[ks], further(v, ks * 16 * 128), true);
        wgmma_commit();
    };
    /* Mask words of the tokens of a chunk. */
    auto words_of = [&](int stage) {
        return (const uint32_t *)(smem + L::mask_at) + stage * CUDA_WIDE_STEP * L::mask_row +
               (SHARED ? 0 : team * WIDE_MASK_WORDS);
    };
    /* What a chunk's mask says, asked for before its scores are there, so that they do not wait for it: bit 2 part + h if row h
     * of this lane sees the part, or if it has no token; bit 8 + part if it is of several runs. A part of one run has the words
     * of its first token. */
    const row_queries query = queries_of_rows(row_k, lane);
    enum : uint32_t {
        ALL_PARTS = 0xFF,
        HIDDEN = 1 << 16, /* no row of the tile sees any of the chunk; */
        VISIBLE = 1 << 17 /* the rows of this warp see all of it */
    };
    auto mask_of = [&](int stage) {
        uint32_t seen = 0, any = 0;
        if (!masked)
            return seen;
        const int4 runs = *(const int4 *)(smem + L::run_at + stage * WIDE_PARTS * 4);
        const int run[WIDE_PARTS] = {runs.x, runs.y, runs.z, runs.w};
        /* Bits of the rows in the words of a token, in bits 0 and 1; is any bit set? */
        auto rows_see = [&](int token, bool counts) {
            const uint2 two = *(const uint2 *)(words_of(stage) + token * L::mask_row);
            const uint32_t first = counts ? two.x : 0, second = counts && mask_words > 1 ? two.y : 0;
            any |= first | second;
            return ((query.k[0] < 32 ? first : second) >> query.k[0] % 32 & 1) |
                   ((query.k[1] < 32 ? first : second) >> query.k[1] % 32 & 1) << 1;
        };
        auto like_first = [&](int run) { return run == runs.x || run == NO_RUN; };
        if (runs.x >= 0 && like_first(runs.y) && like_first(runs.z) && like_first(runs.w)) {
            seen = rows_see(0, true) * (ALL_PARTS / 3);
        } else {
#pragma unroll
            for (int part = 0; part < WIDE_PARTS; part++) {
                const bool several = run[part] == SEVERAL_RUNS;
                const uint32_t rows = rows_see(part * WIDE_BOX_ROWS, run[part] >= 0);
                any |= several;
                seen |= (run[part] == NO_RUN ? 3 : rows) << 2 * part | (uint32_t)several << (8 + part);
            }
        }
        const bool visible = __all_sync(~0u, seen == ALL_PARTS);
        return seen | (any == 0 ? HIDDEN : 0) | (visible ? VISIBLE : 0);
    };
    /* -inf for tokens that there are not, and for those that the mask hides. */
    auto hide = [&](int chunk, int stage, uint32_t seen) {
        constexpr int BLOCKS = NB / WIDE_PARTS;
        hide_end<NB>(s, n_kv - chunk * CUDA_WIDE_STEP, lane);
        if (seen & VISIBLE)
            return;
#pragma unroll
        for (int part = 0; part < WIDE_PARTS && masked; part++)
            if (seen >> (8 + part) & 1) {
                hide_masked<BLOCKS, WIDE_MASK_WORDS>(s + part * BLOCKS,
                                                     words_of(stage) + part * WIDE_BOX_ROWS * L::mask_row, L::mask_row,
                                                     query, lane);
            } else {
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if (!(seen >> (2 * part + h) & 1))
#pragma unroll
                        for (int nb = part * BLOCKS; nb < (part + 1) * BLOCKS; nb++)
                            s[nb][2 * h] = s[nb][2 * h + 1] = -INFINITY;
            }
    };
    /* Scores of a chunk to probabilities; what was summed before is too large by `rescale`. */
    auto softmax = [&](int chunk, int stage, uint32_t seen) {
        if (!has_rows)
            return;
        float minus[2];
        hide(chunk, stage, seen);
        if constexpr (FP8) {
            raise_max<T, NB>(s, scales.log2, max, sum, rescale, minus);
            exponentiate<NB>(s, scales.log2, minus, sum);
        } else {
            raise_max<T, NB>(s, a.scale_log2, max, sum, rescale, minus);
            exponentiate<NB>(s, a.scale_log2, minus, sum);
        }
    };
    auto round_all = [&] {
#pragma unroll
        for (int ks = 0; ks < CUDA_WIDE_STEP / 16; ks++)
            round_p<M>(p[ks], s + 2 * ks);
    };
    auto release = [&](int stage) {
        if (lane < READERS)
            barrier_arrive(empty + stage * 8);
    };

    bool far_rows = false;
    /* Teams of one head, over the ring, which nobody reads any more: each hands over half of its rows, and adds to the other half
     * what it gets. A thread of either has the same places of O; what it keeps is in the first row's. Does it store that? Where a
     * row of the warp is far, one team does all of them again. */
    auto meet = [&] {
        constexpr int PIECES = OB / 2 + 1; /* of 16 bytes, that a thread hands over */
        float4 *const mine_at = (float4 *)smem + team * PIECES * WIDE_WARPGROUP + threadIdx.x % WIDE_WARPGROUP;
        const float4 *const its_at = (float4 *)smem + (1 - team) * PIECES * WIDE_WARPGROUP + threadIdx.x % WIDE_WARPGROUP;
        cta_barrier();
        mine_at[OB / 2 * WIDE_WARPGROUP] = make_float4(max[0], max[1], sum[0], sum[1]);
        if (team == 0) {
#pragma unroll
            for (int ob = 0; ob < OB; ob += 2)
                mine_at[ob / 2 * WIDE_WARPGROUP] = make_float4(o[ob][2], o[ob][3], o[ob + 1][2], o[ob + 1][3]);
        } else {
#pragma unroll
            for (int ob = 0; ob < OB; ob += 2) {
                mine_at[ob / 2 * WIDE_WARPGROUP] = make_float4(o[ob][0], o[ob][1], o[ob + 1][0], o[ob + 1][1]);
                o[ob][0] = o[ob][2];
                o[ob][1] = o[ob][3];
                o[ob + 1][0] = o[ob + 1][2];
                o[ob + 1][1] = o[ob + 1][3];
            }
        }
        cta_barrier();
        const float4 other = its_at[OB / 2 * WIDE_WARPGROUP];
        const float top0 = fmaxf(max[0], other.x), top1 = fmaxf(max[1], other.y);
        const bool far = __any_sync(~0u, (lane / 4 < my_rows && is_far(top0)) || (lane / 4 + 8 < my_rows && is_far(top1)));
        const float top = team == 0 ? top0 : top1;
        const float mine = exp2_whole(team == 0 ? max[0] : max[1], top), its = exp2_whole(team == 0 ? other.x : other.y, top);
        sum[0] = mine * (team == 0 ? sum[0] : sum[1]) + its * (team == 0 ? other.z : other.w);
        max[0] = top;
#pragma unroll
        for (int ob = 0; ob < OB; ob += 2) {
            const float4 x = its_at[ob / 2 * WIDE_WARPGROUP];
            o[ob][0] = mine * o[ob][0] + its * x.x;
            o[ob][1] = mine * o[ob][1] + its * x.y;
            o[ob + 1][0] = mine * o[ob + 1][0] + its * x.z;
            o[ob + 1][1] = mine * o[ob + 1][1] + its * x.w;
        }
        far_rows = far && team == 0;
        if (MEETS && far)
            max[0] = NAN; /* what it is nobody wants then */
        return MEETS || !far || team == 0;
    };
    constexpr int STEP = SHARED ? WIDE_TEAMS : 1;
    int ahead = SHARED ? team : 0, phase = 0; /* of the next chunk */
    bool is_there = false;                    /* as seen before it is wanted */
    uint32_t seen_ahead = 0;                  /* of it, if it is there */
    auto look_ahead = [&] {
        is_there = __all_sync(~0u, barrier_is_over(full + ahead * 8, phase));
        if (!is_there)
            return;
        publish_to_async(); /* what others copied: it was there before they arrived */
        seen_ahead = mask_of(ahead);
    };
    auto wait_for_next = [&] {
        if (is_there)
            return;
        barrier_wait(full + ahead * 8, phase);
        publish_to_async();
        is_there = true;
        seen_ahead = mask_of(ahead);
    };
    auto is_hidden = [&] { return MASKED && same_in_warp((seen_ahead & HIDDEN) != 0); };
    auto next_stage = [&] {
        const int stage = same_in_warp(ahead);
        wait_for_next();
        is_there = false;
        const bool wraps = stage + STEP >= L::stages;
        ahead = stage + STEP - (wraps ? L::stages : 0);
        phase ^= wraps;
        return stage;
    };
    /* Lets go of chunks of which no row sees any, up to the next. No other stage may be held meanwhile: copies would wait for it. */
    auto pass_hidden = [&](int &chunk) {
        for (; chunk < n_chunks; chunk += STEP) {
            wait_for_next();
            if (!is_hidden())
                return;
            release(next_stage());
        }
    };

    /* ---- 4. the heads */

    for (int h = 0, head = head_first; h < my_heads; h++, head += head_step) {
        /* a. */
        if (SHARED)
            barrier_wait(q_full, 0);
        else
            copy_wait<0>();
        __syncwarp();
#pragma unroll
        for (int kk = 0; kk < KS; kk++)
            load_matrix(q[kk], q_lane ^ (kk * 32));
        __syncwarp();
        if (!SHARED && h + 1 < my_heads)
            issue_q(head + head_step);
        if constexpr (FP8) {
            float of_q[2];
            narrow_q<KS>(q, a.fp8.bf16, of_q);
            scales = scales_of_rows(a, head, of_q);
        }
        begin_rows<OB>(o, max, sum);
        int chunk = SHARED ? team : 0;
        if (MASKED)
            pass_hidden(chunk);
        while (chunk < n_chunks) {
            /* b. */
            wait_for_next();
            const uint32_t seen_first = seen_ahead;
            int stage = next_stage();
            wgmma_fence<NB>(s);
            begin_qk(stage);
            wgmma_wait<0>();
            pin<NB>(s);
            softmax(chunk, stage, seen_first);
            if (MASKED)
                rescale_o<OB>(o, rescale);
            round_all();
            /* c. */
            for (chunk += STEP; chunk < n_chunks; chunk += STEP) {
                wait_for_next();
                if (is_hidden())
                    break;
                const uint32_t seen = seen_ahead;
                const int next = next_stage();
                pin<OB>(o);
                wgmma_fence<NB>(s);
                begin_qk(next);
                begin_pv(stage);
                look_ahead(); /* barrier and fence take their time: while products are under way, if the chunk is there by then */
                wgmma_wait<1>();
                pin<NB>(s);
                softmax(chunk, next, seen);
                wgmma_wait<0>();
                pin<OB>(o);
                release(stage);
                rescale_o<OB>(o, rescale);
                round_all();
                stage = next;
            }
            /* d. */
            wgmma_fence<OB>(o);
            begin_pv(stage);
            wgmma_wait<0>();
            pin<OB>(o);
            release(stage);
            if (!MASKED)
                break;
            pass_hidden(chunk);
        }
        /* e. */
        if (SHARED && !meet())
            break;
        /* f. */
        if (waits)
            wait_for_previous(); /* what it left behind may be complete only when this is */
        if constexpr (FP8) {
            const float of_v = __ldg(a.fp8.v_scale + head);
#pragma unroll
            for (int ob = 0; ob < OB; ob++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    o[ob][i] *= of_v;
        }
        if constexpr (MEETS) {
            if (!SHARED && __any_sync(~0u, (lane / 4 < my_rows && is_far(max[0])) || (lane / 4 + 8 < my_rows && is_far(max[1]))))
                max[0] = max[1] = NAN;
            if (!SHARED)
                team_barrier(second_rows > 0 ? WIDE_TEAMS : 1); /* the ring is read */
            const bool far = meet_in_cluster<T, D, SHARED ? 1 : 2>(a, smem + L::met_at, o, max, sum, q_row, head, team,
                                                                   my_rows, lane);
            __syncwarp();
            cluster_arrive();
            cluster_wait(); /* nobody reads what is here any more */
            if (far && (!SHARED || team == 0))
                redo_met_rows<T, D>(a, {!SHARED && team == 1, L::tiles, 16, 4, 0, 1});
        } else if constexpr (SHARED) {
            store_eight<T, D, 0>(a, it, o, max, sum, out_row, head, lane / 4 + 8 * team, my_rows, lane);
        } else {
            far_rows |= (lane / 4 < my_rows && is_far(max[0])) || (lane / 4 + 8 < my_rows && is_far(max[1]));
            store_eight<T, D, 0>(a, it, o, max, sum, out_row, head, lane / 4, my_rows, lane);
            store_eight<T, D, 1>(a, it, o, max, sum, out_row, head, lane / 4 + 8, my_rows, lane);
        }
    }
    if (waits)
        wait_for_previous(); /* a team without results, too */
    /* 5. */
    if (!MEETS)
        redo_far_rows<T, D, false, std::conditional_t<FP8, fp8, T>>(a, far_rows, {!SHARED && team == 1, L::tiles, 16, 4, 0, 1});
}

} // namespace treeattn

#endif
