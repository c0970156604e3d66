/* check_pairs.c - which groups run as pairs of tiles: what is never wrong, and what was measured. */
#include "kernels/cuda/host/pairs.h"
#include "ref/base.h"
#include "ref/rng.h"
#include "tests/auto.h"
#include "tests/suites.h"

enum { SEED = 12, MOST_GROUPS = 200, LAUNCHES = 3, SMS = 132 };

static bool same_tokens(const struct plan *plan, const struct group *g, const struct group *h)
{
    int64_t n = g->run1 - g->run0;
    bool same = g->launch == h->launch && n == h->run1 - h->run0;
    for (int64_t i = 0; i < n && same; i++)
        same = memcmp(&plan->run[g->run0 + i], &plan->run[h->run0 + i], sizeof(struct run)) == 0;
    return same;
}

/* Groups over few different lists of runs, so that many are over the same tokens; lists of as many tokens in another node, of
 * another run or of two. */
static struct plan random_plan(uint64_t seed, struct group *group, struct run *run, struct launch *launch)
{
    static const int32_t tiles[] = {0, 16, 32, 48, 64, 96, 128};
    uint64_t at = 0;
    struct plan p = {.n_groups = 1 + rng_below(seed, 0, at++, MOST_GROUPS),
                     .n_launches = LAUNCHES,
                     .group = group,
                     .run = run,
                     .launch = launch};
    for (int32_t l = 0; l < LAUNCHES; l++)
        launch[l].order = rng_below(seed, 0, at++, 2) ? LAUNCH_CONCURRENT : LAUNCH_SERIAL;
    for (int64_t i = 0; i < p.n_groups; i++) {
        struct group *g = &group[i];
        int64_t list = rng_below(seed, 0, at++, 16), runs = 1 + list / 2 % 2;
        *g = (struct group){.run0 = p.n_runs,
                            .run1 = p.n_runs + runs,
                            .n_kv = list / 8 ? 240 : 48,
                            .nq = 1 + (int32_t)rng_below(seed, 0, at++, 300),
                            .tile_m = tiles[rng_below(seed, 0, at++, 7)],
                            .launch = (int32_t)rng_below(seed, 0, at++, LAUNCHES)};
        int64_t begin = list / 4 % 2, half = list % 2 ? g->n_kv / 2 : 30;
        for (int64_t r = 0; r < runs; r++) {
            int64_t n = runs == 1 ? g->n_kv : r == 0 ? half : g->n_kv - half;
            run[p.n_runs++] = (struct run){.node = (int32_t)(list % 2 + r), .begin = begin, .end = begin + n};
        }
    }
    return p;
}

static int64_t tiles_of(const struct group *g, int32_t gqa)
{
    return ceil_div((int64_t)g->nq * gqa, pairs_rows(g));
}

/* Of those in the list over the same tokens as its group `first`, which are neighbours: tiles, CTAs. */
static int64_t follow_same(const struct pairs *p, const struct plan *plan, int32_t gqa, int64_t first)
{
    const struct group *g = &plan->group[p->group[first]];
    int64_t tiles = 0, i = first;
    for (; i < p->n_groups && (i == first || !pairs_first(p, i)); i++) {
        const struct group *h = &plan->group[p->group[i]];
        check_each(same_tokens(plan, g, h), "groups %ld and %ld are not over the same tokens",
                   (long)p->group[first], (long)p->group[i]);
        check_each(i == first || p->ctas[p->group[i]] == 0, "CTAs of group %ld twice", (long)p->group[i]);
        tiles += tiles_of(h, gqa);
    }
    check_each(tiles > 1 && p->ctas[p->group[first]] == ceil_div(tiles, 2), "%ld CTAs for %ld tiles",
               (long)p->ctas[p->group[first]], (long)tiles);
    /* those behind are over others, or their tiles are higher or lower than 64 rows */
    const struct group *next = i < p->n_groups ? &plan->group[p->group[i]] : NULL;
    check_each(!next || !same_tokens(plan, g, next) || (g->tile_m > 64) != (next->tile_m > 64),
               "group %ld is over the same tokens", (long)p->group[i]);
    return i;
}

TEST(every_group_once_with_its_like)
{
    FREED struct group *group = xcalloc(MOST_GROUPS, sizeof *group);
    FREED struct run *run = xcalloc(2 * MOST_GROUPS, sizeof *run);
    for (uint64_t trial = 0; trial < 2000; trial++) {
        struct launch launch[LAUNCHES];
        struct plan plan = random_plan(SEED + trial, group, run, launch);
        struct pairs_card c = {.gqa = 1 + (int32_t)(trial % 8),
                               .h_kv = 1 << trial % 6,
                               .sms = SMS,
                               .everywhere = trial % 3 == 0};
        CLEARED(pairs) p;
        uint8_t seen[MOST_GROUPS] = {0};
        pairs_choose(&p, &plan, &c);
        for (int64_t i = 0; i < p.n_groups; i++) {
            const struct group *g = &plan.group[p.group[i]];
            check_each(!seen[p.group[i]]++ && (g->tile_m == 0 || g->tile_m > 32), "group %ld",
                       (long)p.group[i]);
            check_each(i == 0 || g->launch >= plan.group[p.group[i - 1]].launch,
                       "launch %d is behind another", g->launch);
        }
        for (int64_t i = 0; i < p.n_groups;)
            i = follow_same(&p, &plan, c.gqa, i);
        for (int64_t i = 0; i < plan.n_groups; i++) {
            const struct group *g = &plan.group[i];
            check_each(seen[i] == (p.ctas[i] >= 0), "group %ld has %ld CTAs", (long)i, (long)p.ctas[i]);
            bool has_two = (g->tile_m == 0 || g->tile_m > 32) && tiles_of(g, c.gqa) > 1;
            check_each(!c.everywhere || !has_two || seen[i], "group %ld is not there", (long)i);
            check_each(c.everywhere || !has_two || g->tile_m <= 64 || g->n_kv < 64 || seen[i],
                       "high tiles of group %ld", (long)i);
        }
    }
}

/* How many groups run as pairs of n of so many queries over the same tokens, beside a lone one if there is one. */
static int64_t paired_beside(bool lone, int64_t n, int32_t nq, int32_t tile_m, int64_t n_kv, int32_t h_kv)
{
    FREED struct group *group = xcalloc((size_t)n + lone, sizeof *group);
    struct run run[] = {{.end = n_kv}, {.node = 1, .end = n_kv}};
    struct launch launch = {.order = LAUNCH_SERIAL};
    struct plan plan = {.n_groups = n + lone, .n_launches = 1, .group = group, .run = run, .launch = &launch};
    for (int64_t i = 0; i < n + lone; i++)
        group[i] = (struct group){
            .run0 = i == n, .run1 = 1 + (i == n), .nq = i == n ? 8 : nq, .n_kv = n_kv, .tile_m = tile_m};
    CLEARED(pairs) p;
    pairs_choose(&p, &plan, &(struct pairs_card){.gqa = 8, .h_kv = h_kv, .sms = SMS});
    int64_t groups = p.n_groups;
    return groups;
}

static int64_t paired(int64_t n, int32_t nq, int32_t tile_m, int64_t n_kv, int32_t h_kv)
{
    return paired_beside(false, n, nq, tile_m, n_kv, h_kv);
}

TEST(where_it_was_measured_to_be_faster)
{
    /* 17 tiles x 8 heads are more CTAs than SMs, 16 are not */
    ck_assert(paired(17, 8, 64, 192, 8) == 17 && paired(17, 8, 64, 191, 8) == 0);
    ck_assert(paired(1, 17 * 8, 64, 4000, 8) == 1 && paired(1, 17 * 8, 0, 4000, 8) == 1);
    ck_assert(paired(16, 8, 64, 1535, 8) == 16 && paired(16, 8, 64, 1536, 8) == 0);
    ck_assert(paired(12, 8, 64, 1000, 8) == 0);  /* 96 of 132 */
    ck_assert(paired(17, 8, 32, 4000, 8) == 0);  /* low tiles */
    ck_assert(paired(1, 8, 64, 4000, 200) == 0); /* there is no second */
    ck_assert(paired(1, 9, 128, 64, 1) == 1);    /* high ones have an SM in any case */
    ck_assert(paired(1, 9, 128, 63, 1) == 0 && paired(1, 8, 128, 64, 1) == 0);
    /* short ones: 132 pairs x 8 heads are eight CTAs an SM */
    ck_assert(paired(263, 8, 64, 191, 8) == 263 && paired(262, 8, 64, 191, 8) == 0);
    ck_assert(paired(263, 8, 64, 48, 8) == 263 && paired(263, 8, 64, 47, 8) == 0);
    ck_assert(paired_beside(true, 263, 8, 64, 191, 8) == 0 && paired_beside(true, 263, 8, 64, 192, 8) == 263);
}

/* Does a group of 16 tiles for 8 KV heads, fewer CTAs than SMs, run as pairs in launch 1 of three? first, beside, behind: is there
 * a group in launch 0, in launch 1, in launch 2, of one tile (1), or of two pairs over other tokens (2)? */
static bool paired_among(int first, int beside, int behind, enum launch_order of_one,
                         enum launch_order of_two)
{
    const int others[] = {first, beside, behind};
    struct launch launch[] = {{.order = LAUNCH_SERIAL}, {.order = of_one}, {.order = of_two}};
    struct run run[] = {
        {.end = 256}, {.node = 1, .end = 256}, {.node = 2, .end = 256}, {.node = 3, .end = 256}};
    struct group group[4] = {{.run1 = 1, .nq = 16 * 8, .n_kv = 256, .tile_m = 64, .launch = 1}};
    struct plan plan = {.n_groups = 1, .n_launches = 3, .group = group, .run = run, .launch = launch};
    for (int32_t l = 0; l < 3; l++)
        if (others[l])
            group[plan.n_groups++] = (struct group){.run0 = l + 1,
                                                    .run1 = l + 2,
                                                    .nq = others[l] == 1 ? 8 : 4 * 8,
                                                    .n_kv = 256,
                                                    .tile_m = others[l] == 1 ? 64 : 128,
                                                    .launch = l};
    CLEARED(pairs) p;
    pairs_choose(&p, &plan, &(struct pairs_card){.gqa = 8, .h_kv = 8, .sms = SMS});
    bool is_there = p.ctas[0] >= 0;
    return is_there;
}

TEST(few_pairs_hold_up_no_chain)
{
    const enum launch_order serial = LAUNCH_SERIAL, beside = LAUNCH_CONCURRENT;
    ck_assert(paired_among(0, 0, 0, serial, serial) && paired_among(0, 1, 0, serial, serial));
    ck_assert(!paired_among(1, 0, 0, serial, serial) && paired_among(1, 0, 0, beside, serial));
    ck_assert(paired_among(0, 0, 1, serial, serial) && !paired_among(0, 1, 1, serial, serial));
    ck_assert(paired_among(0, 1, 1, serial, beside) && !paired_among(1, 0, 1, beside, serial));
    ck_assert(!paired_among(1, 0, 1, serial, beside));
    /* pairs themselves hold up nobody */
    ck_assert(paired_among(2, 0, 0, serial, serial) && paired_among(0, 2, 1, serial, serial));
}
