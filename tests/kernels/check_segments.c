/* check_segments.c - how CTAs of the group kernel share items and KV heads out, followed as the kernel does it. */
#include "kernels/cuda/host/segments.h"
#include "ref/base.h"
#include "ref/rng.h"
#include "tests/auto.h"
#include "tests/suites.h"

enum { SEED = 5, MOST_ITEMS = 600 };

static double bytes_of(const struct cuda_ctas *c, const struct cuda_item *it)
{
    return (double)ceil_div(it->n_kv, c->chunk) * c->chunk * c->d * 4 + it->n_rows * (c->d * 6.0 + 8);
}

/* Every CTA in the order of the grid: each (item, head) is some team's once, and CTAs take no more than their share. */
static void follow(const struct cuda_ctas *c, const struct cuda_item *item, int64_t n_items)
{
    FREED uint8_t *seen = xcalloc((size_t)(n_items * c->h_kv), 1);
    double left = 0;
    for (int64_t i = 0; i < n_items; i++)
        left += bytes_of(c, &item[i]) * c->h_kv;
    check_each(c->n_segments >= 1 && c->n_segments <= CUDA_SEGMENTS && c->segment[0].cta0 == 0, "%d segments",
               c->n_segments);
    for (int k = c->n_segments; k < CUDA_SEGMENTS; k++)
        check_each(c->segment[k].cta0 == INT32_MAX, "segment %d is not there", k);
    for (int32_t block = 0; block < c->n; block++) {
        int s = 0;
        for (int k = 1; k < CUDA_SEGMENTS; k++)
            s += block >= c->segment[k].cta0;
        const struct cuda_segment *g = &c->segment[s];
        int32_t cta = block - g->cta0, in = g->head_shift >= 0 ? cta >> g->head_shift : cta / g->head_groups;
        int32_t group = cta - in * g->head_groups, taken = 0;
        int64_t i = g->item0 + in;
        check_each(i < n_items && group >= 0 && group < g->head_groups, "CTA %d: item %ld, group %d", block,
                   (long)i, group);
        for (int32_t team = 0; team < (c->by_head ? c->teams : 1); team++) {
            int32_t head = c->by_head ? group * c->teams + team : group;
            int32_t heads = c->by_head ? g->team_heads + (head < g->teams_more) : 1;
            for (int32_t k = 0; k < heads; k++, head += g->head_groups * c->teams, taken++) {
                check_each(head < c->h_kv, "CTA %d: head %d of %d", block, head, c->h_kv);
                check_each(!seen[i * c->h_kv + head], "item %ld, head %d twice", (long)i, head);
                seen[i * c->h_kv + head] = 1;
            }
        }
        if (group > 0)
            continue;
        double bytes = bytes_of(c, &item[i]);
        check_each(!c->by_head || taken <= c->teams || s == CUDA_SEGMENTS - 1 ||
                       taken * bytes <= left / (double)c->slots + c->teams * bytes,
                   "CTA %d: %d heads of %g bytes are more than its share", block, taken, bytes);
        left -= bytes * c->h_kv;
    }
    for (int64_t i = 0; i < n_items * c->h_kv; i++)
        check_each(seen[i], "item %ld, head %ld is nobody's", (long)(i / c->h_kv), (long)(i % c->h_kv));
}

TEST(every_head_of_every_item_once)
{
    static const int32_t heads[] = {1, 2, 3, 4, 5, 8, 16, 28, 32, 71};
    FREED struct cuda_item *item = xcalloc(MOST_ITEMS, sizeof *item);
    uint64_t at = 0;
    for (int trial = 0; trial < 400; trial++)
        for (int32_t teams = 1; teams <= 4; teams *= 2) {
            int32_t h_kv = heads[trial % 10];
            struct cuda_ctas c = {.h_kv = h_kv, .d = 128, .teams = teams, .chunk = 16};
            int64_t n = 1 + rng_below(SEED, 0, at++, MOST_ITEMS);
            c.slots = 1 + rng_below(SEED, 0, at++, 800);
            int32_t n_kv = 1 + (int32_t)rng_below(SEED, 0, at++, 300);
            c.by_head = h_kv >= teams && rng_below(SEED, 0, at++, 4) > 0;
            for (int64_t i = 0; i < n; i++) { /* longest first */
                n_kv -= rng_below(SEED, 0, at++, 20) == 0 && n_kv > 1 ? n_kv / 3 : 0;
                item[i] =
                    (struct cuda_item){.n_kv = n_kv, .n_rows = 1 + (int32_t)rng_below(SEED, 0, at++, 16)};
            }
            to_segments(&c, item, n);
            follow(&c, item, n);
        }
}

/* 256 leaves of 32 tokens, 32 heads, six CTAs of two teams on each of 132 SMs: 10.3 heads a slot. CTAs of 8 until 6 heads
 * a slot are left, of 4 until 2 are, then of 2. */
TEST(fewer_heads_towards_the_end)
{
    struct cuda_item item[256];
    struct cuda_ctas c = {.h_kv = 32, .d = 128, .teams = 2, .chunk = 16, .slots = 6 * 132, .by_head = true};
    for (int i = 0; i < 256; i++)
        item[i] = (struct cuda_item){.n_kv = 32, .n_rows = 1};
    to_segments(&c, item, 256);
    follow(&c, item, 256);
    ck_assert_int_eq(c.n_segments, 3);
    static const int32_t heads[] = {8, 4, 2}, items[] = {108, 99, 49};
    for (int s = 0, first = 0, cta = 0; s < 3; s++) {
        ck_assert_int_eq(c.segment[s].item0, first);
        ck_assert_int_eq(c.segment[s].cta0, cta);
        ck_assert_int_eq(c.segment[s].head_groups, 32 / heads[s]);
        first += items[s];
        cta += items[s] * 32 / heads[s];
    }
}

/* A few long items, then many short ones: fewer heads for those, more for these. */
TEST(more_heads_where_items_are_shorter)
{
    struct cuda_item item[400];
    struct cuda_ctas c = {.h_kv = 32, .d = 128, .teams = 2, .chunk = 16, .slots = 6 * 132, .by_head = true};
    for (int i = 0; i < 400; i++)
        item[i] = (struct cuda_item){.n_kv = i < 16 ? 256 : 16, .n_rows = 1};
    to_segments(&c, item, 400);
    follow(&c, item, 400);
    ck_assert_int_eq(c.segment[1].item0, 16);
    ck_assert_int_lt(c.segment[1].head_groups, c.segment[0].head_groups);
}
