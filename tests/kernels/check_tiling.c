/* check_tiling.c - which compiled tile runs items, and which items share CTAs: what is never wrong, and what was measured. */
#include "kernels/cuda/host/tiling.h"
#include "ref/base.h"
#include "ref/rng.h"
#include "tests/auto.h"
#include "tests/suites.h"

enum { SEED = 6, MOST_ITEMS = 2000, SMS = 132 };

static const struct {
    int32_t m, n;
} compiled[] = {
#define SHAPE(m, n, ...) {m, n},
#include "kernels/cuda/device/shapes.def"
#undef SHAPE
};

static const struct {
    int32_t m, n;
} compiled_few[3][8] = {
#define SHAPE(m, n, ...) {m, n},
    {
#include "kernels/cuda/device/shapes_256.def"
    },
    {
#include "kernels/cuda/device/shapes_cap.def"
    },
    {
#include "kernels/cuda/device/shapes_fp8.def"
    },
#undef SHAPE
};

static bool is_compiled(int32_t m, int32_t n)
{
    bool found = false;
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        found = found || (compiled[i].m == m && compiled[i].n == n);
    return found;
}

TEST(any_items_have_a_compiled_tile)
{
    static const int32_t heads[] = {1, 2, 4, 5, 8, 16, 32, 71}, longest[] = {1, 16, 33, 128, 1000, 20000};
    FREED struct cuda_item *item = xcalloc(MOST_ITEMS, sizeof *item);
    uint64_t at = 0;
    for (int trial = 0; trial < 300; trial++)
        for (int32_t m = 16; m <= 128; m *= 2)
            for (int32_t n = 16; n <= 128; n *= 2) {
                int64_t tokens = 0;
                struct tiling t = {.item = item, .h_kv = heads[trial % 8], .d = 128, .sms = SMS, .m = m};
                t.n_items = 1 + rng_below(SEED, 0, at++, trial % 3 ? 40 : MOST_ITEMS);
                int32_t n_kv = longest[rng_below(SEED, 0, at++, 6)];
                for (int64_t i = 0; i < t.n_items; i++) { /* longest first */
                    n_kv -= rng_below(SEED, 0, at++, 20) == 0 && n_kv > 1 ? n_kv / 3 : 0;
                    item[i] = (struct cuda_item){.n_kv = n_kv,
                                                 .n_runs = 1 + (int32_t)rng_below(SEED, 0, at++, 4),
                                                 .n_rows = 1 + (int32_t)rng_below(SEED, 0, at++, m)};
                    tokens += n_kv;
                }
                t.tokens_beside = tokens + (trial % 2 ? rng_below(SEED, 0, at++, 100000) : 0);
                t.tokens_of_plan = t.tokens_beside + (trial % 4 > 1 ? rng_below(SEED, 0, at++, 100000) : 0);
                t.tokens_behind = t.tokens_of_plan;
                t.longest = item[0].n_kv + (trial % 3 ? 0 : (int32_t)rng_below(SEED, 0, at++, 1000));
                t.n_before = m == 64 && trial % 7 < 2 ? 16 << rng_below(SEED, 0, at++, 3) : 0;
                t.wgmma = trial % 5 > 0;
                t.masked = trial % 3 == 1;
                int32_t ours = tiling_n(&t, n);
                check_each(is_compiled(m, ours), "%d x %d runs as %d x %d", m, n, m, ours);
                check_each(ours <= n || ours == t.n_before ||
                               (m <= 64 && (n == 64 || ours <= 64 || item[0].n_kv > 512)) ||
                               (m == 64 && t.wgmma && (t.masked || item[0].n_kv >= 256)),
                           "%d x %d as %d x %d", m, n, m, ours);
                struct cuda_ctas c = tiling_ctas(&t, ours);
                check_each(c.teams >= 1 && c.chunk * c.teams == ours && c.slots >= SMS && c.h_kv == t.h_kv,
                           "CTAs of %d x %d", m, ours);
                int64_t first = tiling_first_by_head(&t, ours);
                check_each(first >= 0 && first <= t.n_items, "item %ld of %ld", (long)first, (long)t.n_items);
                check_each(first == t.n_items || (t.h_kv >= c.teams && t.h_kv > 1), "%d heads for %d teams",
                           t.h_kv, c.teams);
                check_each(first == t.n_items || item[first].n_kv <= max_i64(4 * ours, 256),
                           "%d tokens are not short", item[first < t.n_items ? first : 0].n_kv);
            }
}

/* Heads of 256 elements, soft caps, and K and V in 8 bits have few tiles, one for each m that is enough for all n. */
LOOP_TEST(few_tiles_are_enough, 3)
{
    const struct cuda_item item = {.n_kv = 1000, .n_runs = 1, .n_rows = 5};
    for (int32_t m = 16; m <= 128; m *= 2)
        for (int32_t n = 16; n <= 128; n *= 2) {
            struct tiling t = {
                .item = &item, .n_items = 1, .h_kv = 8, .d = 256, .sms = SMS, .m = m, .longest = 1000};
            if (_i > 0) {
                t.d = 128;
                t.capped = _i == 1;
                t.fp8 = _i == 2;
            }
            int32_t ours = tiling_n(&t, n), found = 0;
            for (int i = 0; i < 8; i++)
                found += compiled_few[_i][i].m == m && compiled_few[_i][i].n == ours;
            check_each(found == 1, "%d x %d runs as %d x %d", m, n, m, ours);
            struct cuda_ctas c = tiling_ctas(&t, ours);
            check_each(c.teams >= 1 && c.chunk * c.teams == ours && c.slots >= SMS && c.d == t.d,
                       "CTAs of %d x %d", m, ours);
        }
}

/* In 8 bits wide tiles of a team each are as in 16: n is two steps, for tiles of 64 rows that have a mask, on Hopper. */
TEST(fp8_shares_tiles_as_16_bits_do)
{
    const struct cuda_item item = {.n_kv = 200, .n_runs = 1, .n_rows = 50};
    for (int32_t m = 16; m <= 128; m *= 2)
        for (int of = 0; of < 4; of++) {
            struct tiling t = {.item = &item,
                               .n_items = 1,
                               .h_kv = 8,
                               .d = 128,
                               .sms = SMS,
                               .m = m,
                               .longest = 200,
                               .fp8 = true,
                               .wgmma = of % 2 == 1,
                               .masked = of / 2 == 1};
            int32_t expected = m == 64 && t.wgmma && t.masked ? 128 : 64;
            check_each(tiling_n(&t, 64) == expected, "%d rows, case %d: %d tokens", m, of, tiling_n(&t, 64));
        }
}

/* n of m x n for items of one length with as many rows, and how many of them are not by head. */
struct chosen {
    int32_t n;
    int64_t first;
};

/* What else the plan has: as many more items, of one token each, in the same kernel; tokens beside these items, in the same
 * set of launches, and behind, in later ones; the longest item of as many rows; n of a kernel before them, of full tiles of
 * as many rows. */
struct around {
    int64_t ones, beside, behind;
    int32_t longest, n_before;
    bool ampere, masked;
};

static struct chosen choose_of(int32_t m, int32_t n, int32_t h_kv, int64_t n_items, int32_t n_kv,
                               int32_t n_rows, struct around x)
{
    int64_t n_all = n_items + x.ones, tokens = n_items * n_kv + x.ones;
    FREED struct cuda_item *item = xcalloc((size_t)n_all, sizeof *item);
    for (int64_t i = 0; i < n_all; i++)
        item[i] = (struct cuda_item){.n_kv = i < n_items ? n_kv : 1, .n_runs = 1, .n_rows = n_rows};
    struct tiling t = {.item = item,
                       .n_items = n_all,
                       .tokens_beside = tokens + x.beside,
                       .tokens_behind = tokens + x.beside + x.behind,
                       .tokens_of_plan = tokens + x.beside + x.behind,
                       .h_kv = h_kv,
                       .d = 128,
                       .sms = SMS,
                       .m = m,
                       .longest = x.longest > n_kv ? x.longest : n_kv,
                       .n_before = x.n_before,
                       .wgmma = !x.ampere,
                       .masked = x.masked};
    struct chosen c = {.n = tiling_n(&t, n)};
    c.first = tiling_first_by_head(&t, c.n);
    return c;
}

static struct chosen choose(int32_t m, int32_t n, int32_t h_kv, int64_t n_items, int32_t n_kv, int32_t n_rows,
                            int64_t beside)
{
    return choose_of(m, n, h_kv, n_items, n_kv, n_rows, (struct around){.beside = beside});
}

/* Of kernels/LOG.md, one row each. */
TEST(as_measured)
{
    /* 64 queries of 1,536 tokens, 8 KV heads: 512 CTAs, of which 396 of 16 x 64 fit, 792 of 16 x 32; not beside others. */
    ck_assert_int_eq(choose(16, 64, 8, 64, 1536, 4, 0).n, 32);
    ck_assert_int_eq(choose(16, 64, 8, 64, 1536, 4, 1000).n, 64);
    ck_assert_int_eq(choose(16, 64, 8, 48, 1536, 4, 0).n, 64); /* fit as they are */
    /* Long ones with many heads, in waves. */
    ck_assert_int_eq(choose(16, 64, 32, 64, 1024, 1, 0).n, 32);
    ck_assert_int_eq(choose(16, 64, 8, 256, 1024, 1, 0).n, 64);
    /* 64 rows: steps no longer than the items, where CTAs are many. */
    ck_assert_int_eq(choose(64, 128, 32, 1024, 16, 1, 0).n, 16);
    ck_assert_int_eq(choose(64, 128, 32, 256, 32, 1, 0).n, 32);
    ck_assert_int_eq(choose(64, 128, 32, 256, 64, 1, 0).n, 64);
    ck_assert_int_eq(choose(64, 64, 8, 32, 32, 64, 0).n, 64); /* 256 CTAs fit */
    /* 65 chunks of 247 tokens and 64 leaves of one: a twelfth less. Of chunks of 320 it is not; without leaves, or with fewer
     * than half as many as chunks, it is not enough. */
    ck_assert_int_eq(choose_of(64, 64, 32, 65, 247, 64, (struct around){.ones = 64}).n, 32);
    ck_assert_int_eq(choose_of(64, 64, 32, 65, 320, 64, (struct around){.ones = 64}).n, 64);
    ck_assert_int_eq(choose_of(64, 64, 32, 65, 150, 64, (struct around){.ones = 33}).n, 32);
    ck_assert_int_eq(choose_of(64, 64, 32, 65, 150, 64, (struct around){.ones = 32}).n, 64);
    ck_assert_int_eq(choose(64, 64, 32, 65, 150, 64, 0).n, 64);
    /* Few long tiles of many rows: twice the warps, unless they would wait for what runs beside. */
    ck_assert_int_eq(choose(64, 128, 8, 4, 1000, 64, 0).n, 128);
    ck_assert_int_eq(choose(64, 128, 8, 4, 1000, 64, 1000000).n, 64);
    /* Nor where leaves are behind that would begin beside them: 128 CTAs of 256 tokens before 256 leaves of 32. */
    ck_assert_int_eq(choose(64, 128, 8, 16, 256, 64, 0).n, 128);
    ck_assert_int_eq(choose_of(64, 128, 8, 16, 256, 64, (struct around){.behind = 256 * 32}).n, 64);
    /* Few short ones are as the long ones that come after them, before 64 leaves of 32. */
    ck_assert_int_eq(choose_of(64, 128, 8, 4, 8, 64, (struct around){.behind = 3072}).n, 64);
    ck_assert_int_eq(choose_of(64, 128, 8, 4, 8, 64, (struct around){.behind = 3072, .longest = 256}).n, 128);
    /* The same for a plan's n = 64 where they have four steps or more, and more than eight without a warpgroup that copies; not
     * beside more than four times what the longest takes. */
    ck_assert_int_eq(choose(64, 64, 8, 1, 4096, 64, 0).n, 128);
    ck_assert_int_eq(choose(64, 64, 8, 8, 256, 64, 0).n, 128);
    ck_assert_int_eq(choose(64, 64, 8, 8, 255, 64, 0).n, 64);
    ck_assert_int_eq(choose(64, 64, 8, 8, 256, 64, 16896).n, 128);
    ck_assert_int_eq(choose(64, 64, 8, 8, 256, 64, 16897).n, 64);
    ck_assert_int_eq(choose_of(64, 64, 8, 8, 512, 64, (struct around){.ampere = true}).n, 64);
    ck_assert_int_eq(choose_of(64, 64, 8, 8, 513, 64, (struct around){.ampere = true}).n, 128);
    /* And for any with a mask and more than a step, however many they are, none of them by head. */
    struct around mask = {.beside = 1000000, .masked = true}, mask_ampere = {.masked = true, .ampere = true};
    ck_assert_int_eq(choose_of(64, 64, 32, 1000, 65, 64, mask).n, 128);
    ck_assert_int_eq(choose_of(64, 64, 32, 1000, 65, 64, mask).first, 1000);
    ck_assert_int_eq(choose_of(64, 32, 32, 1000, 65, 1, mask).n, 128);
    ck_assert_int_eq(choose_of(64, 64, 32, 1000, 64, 64, mask).n, 64);
    ck_assert_int_eq(choose_of(64, 64, 32, 1000, 65, 64, mask_ampere).n, 32);
    ck_assert_int_eq(choose_of(32, 64, 32, 1000, 65, 32, mask).n, 64);
    /* One kernel for all full tiles of 64 rows, if these all fit at once in it. */
    ck_assert_int_eq(choose(64, 32, 8, 8, 112, 64, 0).n, 32);
    ck_assert_int_eq(choose_of(64, 32, 8, 8, 112, 64, (struct around){.n_before = 64}).n, 64);
    ck_assert_int_eq(choose_of(64, 32, 8, 34, 112, 64, (struct around){.n_before = 64}).n, 32);
    ck_assert_int_eq(choose_of(64, 32, 8, 8, 112, 32, (struct around){.n_before = 64}).n, 32);
    ck_assert_int_eq(choose_of(64, 32, 8, 8, 112, 64, (struct around){.n_before = 64, .ampere = true}).n, 32);
    ck_assert_int_eq(choose_of(64, 128, 1, 32, 128, 64, (struct around){.n_before = 32}).n, 32);
    /* wgmma has no step of 16 tokens; items of no more do not want it, and the Ampere path has it. */
    ck_assert_int_eq(choose(64, 16, 32, 32, 33, 64, 1000).n, 32);
    ck_assert_int_eq(choose(64, 16, 32, 32, 16, 64, 1000).n, 16);
    ck_assert_int_eq(choose_of(64, 16, 32, 32, 33, 64, (struct around){.beside = 1000, .ampere = true}).n,
                     16);
    /* Steps of 64 tokens for a plan's 32: for more than 256 tokens, or 128 where CTAs, two an SM, all fit at once. */
    ck_assert_int_eq(choose(64, 32, 8, 40, 257, 64, 1000).n, 64);
    ck_assert_int_eq(choose(64, 32, 8, 40, 256, 64, 1000).n, 32);
    ck_assert_int_eq(choose(64, 32, 8, 33, 129, 64, 1000).n, 64);
    ck_assert_int_eq(choose(64, 32, 8, 33, 128, 64, 1000).n, 32);
    ck_assert_int_eq(choose_of(64, 32, 8, 40, 257, 64, (struct around){.ampere = true}).n, 32);
    ck_assert_int_eq(choose(64, 32, 8, 4, 4000, 64, 0).n, 128); /* and as for any 64, with twice the warps */
    /* And in tiles of 32 rows, where the longest takes three times as long as all side by side: 792 CTAs of 32 x 16 fit. */
    ck_assert_int_eq(choose_of(32, 16, 8, 10, 256, 32, (struct around){.ones = 5888}).n, 64);
    ck_assert_int_eq(choose_of(32, 16, 8, 10, 256, 32, (struct around){.ones = 5889}).n, 16);
    ck_assert_int_eq(choose_of(32, 16, 8, 10, 255, 32, (struct around){.ones = 100}).n, 16);
    /* Or where CTAs of a head, of more than 64 tokens, are no more than a wave in either step, or from four to ten in the longer. */
    ck_assert_int_eq(choose(32, 16, 8, 33, 65, 32, 0).n, 64);
    ck_assert_int_eq(choose(32, 16, 8, 33, 64, 32, 0).n, 16);
    ck_assert_int_eq(choose(32, 16, 8, 34, 128, 32, 0).n, 16);
    ck_assert_int_eq(choose(32, 16, 8, 131, 128, 32, 0).n, 16);
    ck_assert_int_eq(choose(32, 16, 8, 132, 128, 32, 0).n, 64);
    ck_assert_int_eq(choose(32, 16, 8, 330, 128, 32, 0).n, 64);
    ck_assert_int_eq(choose(32, 16, 8, 331, 128, 32, 0).n, 16);
    ck_assert_int_eq(choose(32, 32, 8, 132, 129, 32, 0).n, 32);
    ck_assert_int_eq(choose_of(32, 16, 32, 40, 128, 32, (struct around){.ones = 1}).n, 64);
    /* One KV head, 32 rows of 128 tokens: as many CTAs at once as there are, or may be. */
    ck_assert_int_eq(choose(32, 128, 1, 264, 128, 32, 0).n, 64);
    ck_assert_int_eq(choose(32, 128, 1, 384, 128, 32, 0).n, 32);
    ck_assert_int_eq(choose(32, 128, 1, 664, 128, 32, 0).n, 16);
    ck_assert_int_eq(choose(32, 128, 1, 664, 1000, 32, 0).n, 64); /* not short */
    ck_assert_int_eq(choose(32, 128, 8, 128, 128, 32, 0).n, 64);  /* CTAs of several heads */
    /* 256 CTAs of 16 x 32 that are all there is, with four warps each; not beside or behind others. */
    ck_assert_int_eq(choose(16, 32, 1, 256, 128, 16, 0).n, 64);
    ck_assert_int_eq(choose(16, 32, 1, 400, 128, 16, 0).n, 32);
    ck_assert_int_eq(choose_of(16, 32, 8, 40, 128, 8, (struct around){.behind = 4096}).n, 32);
    /* 5.8 CTAs an SM of two teams are enough for a head a team, 3.6 are not; more than four steps are not short. */
    ck_assert_int_eq(choose(32, 32, 8, 96, 85, 32, 1000).first, 0);
    ck_assert_int_eq(choose(32, 32, 8, 60, 85, 32, 1000).first, 60);
    ck_assert_int_eq(choose(32, 16, 8, 360, 128, 32, 0).first, 360);
    ck_assert_int_eq(choose(32, 16, 8, 360, 64, 32, 0).first, 0);
    ck_assert_int_eq(choose(32, 16, 32, 72, 128, 10, 0).first, 0); /* the steps are of 64 tokens */
    /* Leaves: short ones by head, long ones not. */
    ck_assert_int_eq(choose(16, 32, 32, 256, 32, 1, 0).first, 0);
    ck_assert_int_eq(choose(16, 32, 32, 64, 1024, 1, 0).first, 64);
    ck_assert_int_eq(choose(16, 32, 1, 256, 32, 16, 0).first, 256); /* one head has nothing to share */
}

/* The first kernel with full tiles of 64 rows that is not wide, whatever comes after it. */
TEST(later_kernels_know_the_first_of_full_tiles)
{
    struct cuda_item full = {.n_kv = 100, .n_rows = 33}, half = {.n_kv = 100, .n_rows = 32};
    struct tiling t = {.item = &full, .n_items = 1, .m = 64};
    ck_assert(tiling_n_after(&t, 32) == 32 && tiling_n_after(&t, 64) == 64 && tiling_n_after(&t, 128) == 0);
    t.n_before = 64;
    ck_assert_int_eq(tiling_n_after(&t, 32), 64);
    ck_assert_int_eq(tiling_n_after(&(struct tiling){.item = &half, .n_items = 1, .m = 64}, 32), 0);
    ck_assert_int_eq(tiling_n_after(&(struct tiling){.item = &full, .n_items = 1, .m = 32}, 32), 0);
}

/* Pairs of a masked group have as many tokens as their rows see; the last of 40 is alone. */
TEST(pairs_begin_longest_first)
{
    enum { N = 8 };
    static const struct cuda_item plan[N] = {
        {.n_kv = 40, .n_rows = 64},
        {.n_kv = 40, .n_rows = 64, .query0 = 16},
        {.n_kv = 80, .n_rows = 64, .query0 = 32},
        {.n_kv = 80, .n_rows = 64, .query0 = 48},
        {.n_kv = 40, .n_rows = 64, .query0 = 64},
        {.n_rows = 0},
        {.n_kv = 80, .n_rows = 64, .query0 = 32, .row0 = 128},
        {.n_kv = 80, .n_rows = 1, .query0 = 32, .row0 = 192},
    };
    static const int order[N] = {2, 3, 6, 7, 0, 1, 4, 5};
    struct cuda_item item[N];
    memcpy(item, plan, sizeof plan);
    tiling_sort_pairs(item, N);
    for (int i = 0; i < N; i++)
        check_each(memcmp(&item[i], &plan[order[i]], sizeof item[i]) == 0, "place %d", i);
}

/* A prefix of 33 tokens in two tiles of 64 rows, before leaves of 32 tokens and a root of 20; 64 tokens are a step. */
TEST(full_tiles_are_last_where_the_l2_keeps_what_they_leave)
{
    enum { N = 7 };
    static const struct cuda_item plan[N] = {{.n_kv = 32, .n_rows = 1, .query0 = 2},
                                             {.n_kv = 20, .n_rows = 2},
                                             {.n_kv = 33, .n_rows = 64, .query0 = 1},
                                             {.n_kv = 64, .n_rows = 64},
                                             {.n_kv = 33, .n_rows = 64},
                                             {.n_kv = 32, .n_rows = 1, .query0 = 1},
                                             {.n_kv = 64, .n_rows = 1}};
    static const struct {
        int32_t m, order[N];
        int64_t partial, l2;
    } t[] = {{64, {3, 6, 5, 0, 4, 2, 1}, 75, 50},
             {128, {3, 6, 5, 0, 4, 2, 1}, 0, 1},
             {64, {3, 6, 4, 2, 5, 0, 1}, 76, 50},
             {32, {3, 6, 4, 2, 5, 0, 1}, 75, 50}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        struct cuda_item item[N];
        memcpy(item, plan, sizeof plan);
        tiling_sort(item, N);
        tiling_full_last(item, N, t[k].m, t[k].partial, t[k].l2);
        for (int i = 0; i < N; i++)
            check_each(memcmp(&item[i], &plan[t[k].order[i]], sizeof item[i]) == 0, "case %zu, place %d", k,
                       i);
    }
}

/* Any item that is the only one to read its tokens, in a kernel of no more than 512 MB of K and V. */
TEST(the_l2_lets_go_of_what_is_read_once)
{
    struct cuda_item item[] = {{.n_kv = 40}, {.n_kv = 15, .kv_once = 1}, {.n_kv = 5}};
    ck_assert(tiling_kv_once(item, 3, 1 << 14) && tiling_kv_once(item, 2, 1 << 14));
    ck_assert(!tiling_kv_once(item, 1, 1 << 14) && !tiling_kv_once(item + 2, 1, 1 << 14));
    ck_assert(tiling_kv_once(item, 3, (512 << 20) / 60) && !tiling_kv_once(item, 3, (512 << 20) / 60 + 1));
}

/* Beside 72 CTAs that want an SM each, so many of which three share one? */
static bool large_first(int32_t small)
{
    struct tiling_set s = {.sms = SMS};
    tiling_add(&s, &(struct cuda_ctas){.n = small, .slots = 3 * SMS});
    tiling_add(&s, &(struct cuda_ctas){.n = 72, .slots = SMS});
    return tiling_share_sms(&s);
}

TEST(products_of_few_rows_have_ctas_enough)
{
    static const int64_t tokens[] = {1, 63, 64, 4400, 44000, 262144, 1048576, INT32_MAX};
    int32_t before = 0;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (int32_t h_kv = 1; h_kv <= 64; h_kv *= 2) {
            int32_t n = tiling_skinny_tokens(tokens[i], h_kv, SMS);
            ck_assert_int_ge(n, SKINNY_STEP);
            ck_assert_int_eq(n & (n - 1), 0);
            ck_assert(n == SKINNY_STEP || tokens[i] / n * h_kv >= 3 * SMS);
            ck_assert(h_kv == 1 || n >= before);
            before = n;
        }
    /* As measured: few tokens of one head in many small CTAs, 256 queries of 1,024 with 8 heads in large ones. */
    ck_assert_int_eq(tiling_skinny_tokens(44000, 1, SMS), SKINNY_STEP);
    ck_assert_int_eq(tiling_skinny_tokens(262144, 8, SMS), 512);
}

/* As measured: 1,040 CTAs of 16 rows over 330 tokens, and one over 3,193, before eight of 32 rows over as many 160 us, behind them
 * 121; but 176 that all fit at once 77, and behind others 95. */
TEST(many_short_items_do_not_hold_up_long_ones)
{
    struct cuda_ctas c = {.n = 1040, .slots = 3 * SMS};
    ck_assert(tiling_holds_up(&c, 3193, 371));
    ck_assert(!tiling_holds_up(&c, 86, 54));
    ck_assert(!tiling_holds_up(&c, 0, 1));
    ck_assert(tiling_holds_up(&c, INT32_MAX, INT32_MAX / 4));
    ck_assert(!tiling_holds_up(&c, INT32_MAX - 1, INT32_MAX / 2));
    c.n = 176;
    ck_assert(!tiling_holds_up(&c, 1192, 174));
}

/* 144 of them: 120 SMs. */
TEST(large_ctas_are_first_where_all_run_at_once)
{
    ck_assert(large_first(144));
    ck_assert(!large_first(181)); /* one too many */
    ck_assert(!large_first(60));  /* an SM each */
}

/* As measured: 40 CTAs that want an SM each behind 360 of which three share one, over 2,600 tokens each, 170 us, before them 132;
 * beside few others it does not matter, and of less than a chunk they are soon done. */
TEST(what_wants_an_sm_begins_before_its_equals)
{
    struct tiling_set s = {.sms = SMS};
    struct cuda_ctas small = {.n = 360, .slots = 3 * SMS}, large = {.n = 40, .slots = SMS};
    tiling_add(&s, &large);
    ck_assert(!tiling_goes_first(&s, &large, 2888));
    tiling_add(&s, &small);
    ck_assert(tiling_goes_first(&s, &large, 2888) && tiling_goes_first(&s, &large, 64));
    ck_assert(!tiling_goes_first(&s, &large, 63));
    ck_assert(!tiling_goes_first(&s, &small, 2888));
    for (int n = 197; n <= 198; n++) { /* half the card */
        s = (struct tiling_set){.sms = SMS};
        small.n = n;
        tiling_add(&s, &large);
        tiling_add(&s, &small);
        ck_assert_int_eq(tiling_goes_first(&s, &large, 2888), n == 198);
    }
}
