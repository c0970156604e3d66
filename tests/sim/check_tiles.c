/* check_tiles.c - PAT's tile constraints recomputed by hand, the selector's choices, and what is done for
 * want of tiles. */
#include "sim/time/tiles.h"
#include "tests/suites.h"

static const struct machine *a100(void)
{
    const struct machine *mc = machine_find("a100-80");
    ck_assert(mc);
    return mc;
}

TEST(shared_memory_is_q_kv_and_intermediates)
{
    /* 64 x 128 x 2 + 32 x 128 x 2 + 64 x 128 x 4 */
    ck_assert_int_eq(tile_smem((struct tile){64, 32}, 128, 2), 57344);
    struct tile_code odd = tile_code((struct tile){64, 128}, 100, 2); /* no kernel has heads of 100 */
    ck_assert_int_eq(odd.registers, 50 + 64 + 40);
    ck_assert_int_eq(odd.threads, 128);
    ck_assert_str_eq(odd.source, "estimated");
    /* 164 KB hold two CTAs of 56 + 1 KB, not three */
    ck_assert_int_eq(tile_resident(a100(), (struct tile){64, 32}, 128, 2), 2);
}

/* Every tile that is offered keeps every constraint, every tile that is not breaks one. */
TEST(feasible_means_all_constraints)
{
    static const int32_t dims[] = {16, 64, 128, 256};
    for (int32_t i = 0; i < n_machines; i++)
        for (size_t k = 0; k < sizeof dims / sizeof dims[0]; k++)
            for (int32_t bytes = 2; bytes <= 8; bytes *= 2) {
                const struct machine *mc = &machines[i];
                int32_t d = dims[k];
                struct tile out[TILES_MAX];
                int32_t n = tiles_feasible(mc, d, bytes, out), at = 0;
                for (int32_t tm = 16; tm <= 128; tm *= 2)
                    for (int32_t tn = 16; tn <= 128; tn *= 2) {
                        struct tile t = {tm, tn};
                        int64_t smem = (int64_t)d * (tm * bytes + tn * bytes + tm * 4);
                        int64_t resident = tile_resident(mc, t, d, bytes);
                        struct tile_code code = tile_code(t, d, bytes);
                        bool ok = smem <= mc->smem_per_cta && code.registers <= 255 && resident > 0 &&
                                  resident * (smem + 1024) <= mc->smem_per_sm &&
                                  resident * code.threads * code.registers <= mc->regs_per_sm &&
                                  resident * code.threads <= mc->threads_per_sm &&
                                  (double)mc->sms * (double)resident * tn * d * bytes >=
                                      mc->latency_ns * 1e-9 * mc->bandwidth;
                        bool listed = at < n && out[at].m == tm && out[at].n == tn;
                        at += listed;
                        ck_assert_msg(ok == listed, "%s d=%d bytes=%d %dx%d", mc->name, d, bytes, tm, tn);
                        ck_assert_int_eq(tile_check(mc, t, d, bytes) == TILE_FITS, ok);
                    }
                ck_assert_int_eq(at, n);
            }
}

TEST(each_constraint_is_named)
{
    struct machine slow = *a100();
    ck_assert_int_eq(tile_check(&slow, (struct tile){64, 64}, 128, 2), TILE_FITS);
    ck_assert_int_eq(tile_check(&slow, (struct tile){48, 64}, 128, 2), TILE_SHAPE);
    ck_assert_int_eq(tile_check(&slow, (struct tile){64, 8}, 128, 2), TILE_SHAPE);
    ck_assert_int_eq(tile_check(&slow, (struct tile){128, 128}, 128, 4), TILE_SMEM);
    ck_assert_int_eq(tile_check(&slow, (struct tile){128, 128}, 144, 2), TILE_REGISTERS); /* estimated */
    slow.latency_ns = 1e6;
    ck_assert_int_eq(tile_check(&slow, (struct tile){64, 64}, 128, 2), TILE_BANDWIDTH);
}

/* Section 5.2's own examples: 20 queries get 32 rows, 192 tokens get n = 64; long contexts get the largest n.
 */
TEST(selection_follows_the_paper)
{
    struct tile_set set = tiles_for(a100(), 128, 2);
    ck_assert_ptr_null(set.note);
    ck_assert_int_eq(tiles_select(&set, 20, 1024).m, 32);
    ck_assert_int_eq(tiles_select(&set, 16, 1024).m, 16);
    ck_assert_int_eq(tiles_select(&set, 1, 1024).m, 16);
    ck_assert_int_eq(tiles_select(&set, 64, 1024).m, 64);
    ck_assert_int_eq(tiles_select(&set, 1000, 1024).m, 128);
    ck_assert_int_eq(tiles_select(&set, 20, 192).n, 64);
    ck_assert_int_eq(tiles_select(&set, 20, 16).n, 16);
    ck_assert_int_eq(tiles_select(&set, 20, 1).n, 16);
    for (int64_t n_kv = 1024; n_kv < 3000; n_kv++)
        ck_assert_int_eq(tiles_select(&set, 20, n_kv).n, 128);
}

TEST(a_selected_tile_is_feasible)
{
    for (int32_t i = 0; i < n_machines; i++) {
        struct tile_set set = tiles_for(&machines[i], 256, 4);
        for (int64_t rows = 1; rows < 300; rows += 7)
            for (int64_t n_kv = 1; n_kv < 2000; n_kv += 31) {
                struct tile t = tiles_select(&set, rows, n_kv);
                bool found = false;
                for (int32_t k = 0; k < set.n; k++)
                    found |= set.tile[k].m == t.m && set.tile[k].n == t.n;
                ck_assert(found);
            }
    }
}

/*
 * PAT prints its feasible set for A100 as a picture (figure 7b). What its text and its release say of it: query tiles of
 * 16, 32, 64 and 128 are there (section 5.2), the baselines' kernels run (section 8.2), and so does every tile that
 * the released selector picks.
 */
TEST(published_tiles_are_feasible)
{
    static const struct tile published[] = {
        {64, 128}, {16, 128}, {64, 32}, {16, 32}, /* FlashAttention, FlashInfer, FastTree */
        {16, 16},  {16, 32},  {16, 64}, {32, 16}, {32, 32}, {32, 64}, {32, 128}, {64, 64}, /* PAT's release */
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        ck_assert_msg(tile_check(a100(), published[i], 128, 2) == TILE_FITS, "%dx%d", published[i].m,
                      published[i].n);
    int32_t sides = 0;
    struct tile out[TILES_MAX];
    int32_t n = tiles_feasible(a100(), 128, 2, out);
    for (int32_t i = 0; i < n; i++)
        sides |= out[i].m;
    ck_assert_int_eq(sides, 16 | 32 | 64 | 128);
}

/* The table of registers is of the kernels that there are: when their shapes change, it must be made anew. */
TEST(registers_are_of_the_kernels)
{
    static const struct {
        struct tile t;
        int32_t warps;
    } shapes[] = {
#define SHAPE(m, n, wm, wn, nc, stages, resident) {{m, n}, wm * wn},
#include "kernels/cuda/device/shapes.def"
#undef SHAPE
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int32_t d = 64; d <= 128; d += 64) {
            struct tile_code code = tile_code(shapes[i].t, d, 2);
            ck_assert_msg(code.threads == 32 * shapes[i].warps, "%dx%d", shapes[i].t.m, shapes[i].t.n);
            ck_assert_msg(strstr(code.source, "nvcc") != NULL, "%dx%d", shapes[i].t.m, shapes[i].t.n);
            ck_assert(code.registers > 32 && code.registers <= 255);
        }
}

/* One CTA more and what is said to bind is overdrawn. */
TEST(what_binds_binds)
{
    for (int32_t i = 0; i < n_machines; i++)
        for (int32_t m = 16; m <= 128; m *= 2)
            for (int32_t n = 16; n <= 128; n *= 2) {
                const struct machine *mc = &machines[i];
                struct tile_code code = tile_code((struct tile){m, n}, 64, 2);
                int64_t smem = tile_smem((struct tile){m, n}, 64, 2);
                enum tile_bound bound;
                int64_t more = 1 + tile_fit(mc, &code, smem, &bound);
                const bool over[N_TILE_BOUNDS] = {
                    [BOUND_SMEM] = more * (smem + TILE_SMEM_RESERVED) > mc->smem_per_sm,
                    [BOUND_REGISTERS] = more * code.threads * code.registers > mc->regs_per_sm,
                    [BOUND_THREADS] = more * code.threads > mc->threads_per_sm,
                    [BOUND_CTAS] = more > mc->ctas_per_sm,
                };
                ck_assert_msg(over[bound], "%s %dx%d: %s", mc->name, m, n, tile_bound_name[bound]);
            }
}

TEST(there_is_always_a_tile)
{
    struct machine slow = *a100();
    slow.latency_ns = 1e6;
    struct tile_set set = tiles_for(&slow, 128, 2);
    ck_assert_int_gt(set.n, 1);
    ck_assert_ptr_nonnull(strstr(set.note, "bytes in flight"));
    slow.smem_per_cta = 1000;
    set = tiles_for(&slow, 128, 2);
    ck_assert_int_eq(set.n, 1);
    ck_assert_int_eq(set.tile[0].m, 16);
    ck_assert_int_eq(set.tile[0].n, 16);
    ck_assert_ptr_nonnull(strstr(set.note, "fits"));
}
