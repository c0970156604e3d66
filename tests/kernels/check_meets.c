/* check_meets.c - CTAs that merge their rows as clusters: all of a merge's inputs are there, or nothing is a cluster. */
#include "kernels/cuda/host/meets.h"
#include "ref/base.h"
#include "ref/rng.h"
#include "tests/auto.h"
#include "tests/suites.h"

enum { SEED = 54, MOST_ITEMS = 4000, MOST_QUERIES = 600, ROWS = CUDA_WIDE_ROWS };

/* Blocks of queries, whose tokens are in so many parts each, and what their groups become: items, slots, merges. */
struct blocks {
    int32_t parts, gqa, tiles; /* tiles: of a CTA */
    struct plan plan;
    struct merge_step step[MOST_QUERIES];
    int64_t in[MOST_QUERIES * (CUDA_MEET_MOST + 2)];
    struct cuda_item item[MOST_ITEMS], before[MOST_ITEMS];
    int64_t n_items;
};

static void add_block(struct blocks *b, int32_t nq)
{
    int32_t rows = nq * b->gqa;
    int64_t slot0 = b->plan.n_slots;
    for (int32_t part = 0; part < b->parts; part++)
        for (int32_t row0 = 0; row0 < rows || (row0 / ROWS) % b->tiles != 0; row0 += ROWS) {
            struct cuda_item *it = &b->item[b->n_items++];
            *it = (struct cuda_item){.n_kv = 100 + part, .slot0 = -1};
            if (row0 >= rows)
                continue;
            it->row0 = row0;
            it->n_rows = (int32_t)min_i64(ROWS, rows - row0);
            it->slot0 = (int32_t)slot0 + part * nq + row0 / b->gqa;
        }
    for (int32_t k = 0; k < nq; k++) {
        struct merge_step *s = &b->step[b->plan.n_merges++];
        *s = (struct merge_step){.in0 = b->plan.n_merge_in, .out = PLAN_NO_SLOT, .query = k};
        for (int32_t part = 0; part < b->parts; part++)
            b->in[b->plan.n_merge_in++] = slot0 + part * nq + k;
        s->in1 = b->plan.n_merge_in;
    }
    b->plan.n_slots += nq * b->parts;
}

/* Exchanges CTAs at random. */
static void shuffle(struct blocks *b, uint64_t seed)
{
    int64_t n = b->n_items / b->tiles;
    for (int64_t i = n - 1; i > 0; i--)
        for (int32_t t = 0, j = (int32_t)rng_below(seed, 1, (uint64_t)i, (uint32_t)i + 1); t < b->tiles;
             t++) {
            struct cuda_item x = b->item[i * b->tiles + t];
            b->item[i * b->tiles + t] = b->item[j * b->tiles + t];
            b->item[j * b->tiles + t] = x;
        }
    memcpy(b->before, b->item, sizeof b->before);
}

static void draw(struct blocks *b, uint64_t seed)
{
    static const int32_t gqa[] = {1, 2, 4, 7, 8, 24, 64, 71};
    uint64_t at = 0;
    memset(b, 0, sizeof *b);
    b->parts = 2 + (int32_t)rng_below(seed, 0, at++, CUDA_MEET_MOST - 1);
    b->gqa = gqa[rng_below(seed, 0, at++, 8)];
    b->tiles = 1 + (int32_t)rng_below(seed, 0, at++, 2);
    b->plan = (struct plan){.merge = b->step, .merge_in = b->in};
    for (int64_t n = 1 + rng_below(seed, 0, at++, 5); n > 0; n--)
        add_block(b, 1 + (int32_t)rng_below(seed, 0, at++, 20));
    shuffle(b, seed);
}

/* The step that has the slot as its input number `place`, or NULL. */
static const struct merge_step *step_with(const struct blocks *b, int64_t slot, int32_t place)
{
    for (const struct merge_step *s = b->step; s < b->step + b->plan.n_merges; s++)
        if (s->in0 + place < s->in1 && b->in[s->in0 + place] == slot)
            return s;
    return NULL;
}

/* On a card that has so many CTAs of any cluster. */
static int32_t sort_with(struct blocks *b, int32_t h_kv, int32_t fit, bool everywhere, bool *met)
{
    int32_t clusters[CUDA_MEET_MOST + 1] = {0};
    for (int32_t i = 2; i <= CUDA_MEET_MOST; i++)
        clusters[i] = fit / i;
    CLEARED(meets) m = meets_new(
        &b->plan, &(struct meets_card){.gqa = b->gqa, .h_kv = h_kv, .sms = fit, .everywhere = everywhere});
    int32_t ctas = meets_sort(&m, b->item, b->n_items, b->tiles, clusters);
    for (int64_t s = 0; met && s < b->plan.n_merges; s++)
        met[s] = meets_step(&m, s);
    return ctas;
}

/* Each tile of a cluster has the same rows in each of its CTAs, and their merges are of these tiles in this order. */
static void check_clusters(const struct blocks *b, uint64_t seed)
{
    for (int64_t i = 0; i < b->n_items; i++) {
        int32_t place = (int32_t)(i / b->tiles % b->parts);
        const struct cuda_item *it = &b->item[i], *first = it - place * b->tiles;
        check_each(it->row0 == first->row0 && it->n_rows == first->n_rows,
                   "seed %lu: item %ld has other rows", (long)seed, (long)i);
        for (int32_t r = it->row0; r < it->row0 + it->n_rows; r++) {
            int32_t k = r / b->gqa - it->row0 / b->gqa;
            const struct merge_step *s = step_with(b, it->slot0 + k, place);
            check_each(s && b->in[s->in0] == first->slot0 + k,
                       "seed %lu: item %ld, row %d is merged elsewhere", (long)seed, (long)i, r);
        }
    }
}

/* The CTAs are the same, in another order. */
static void check_same(const struct blocks *b, uint64_t seed)
{
    size_t size = (size_t)b->tiles * sizeof *b->item;
    for (int64_t i = 0; i < b->n_items; i += b->tiles) {
        int found = 0;
        for (int64_t j = 0; j < b->n_items; j += b->tiles)
            found += memcmp(&b->item[i], &b->before[j], size) == 0;
        check_each(found == 1, "seed %lu: CTA %ld is there %d times", (long)seed, (long)i, found);
    }
}

TEST(parts_of_blocks_are_clusters)
{
    FREED struct blocks *b = xcalloc(1, sizeof *b);
    for (uint64_t seed = SEED; seed < SEED + 300; seed++) {
        bool met[MOST_QUERIES];
        draw(b, seed);
        int32_t h_kv = 1 + (int32_t)(seed % 8), ctas = (int32_t)(b->n_items / b->tiles) * h_kv;
        check_each(sort_with(b, h_kv, ctas - 1, false, NULL) == 0, "seed %lu: more clusters than fit",
                   (long)seed);
        check_each(memcmp(b->item, b->before, sizeof b->item) == 0,
                   "seed %lu: items were sorted all the same", (long)seed);
        int32_t found = sort_with(b, h_kv, ctas, false, met);
        check_each(found == b->parts, "seed %lu: clusters of %d for %d parts", (long)seed, found, b->parts);
        check_clusters(b, seed);
        check_same(b, seed);
        for (int64_t s = 0; s < b->plan.n_merges; s++)
            check_each(met[s], "seed %lu: merge %ld is nobody's", (long)seed, (long)s);
        check_each(sort_with(b, 1000, CUDA_MEET_MOST, true, NULL) == b->parts, "seed %lu: not everywhere",
                   (long)seed);
        check_each(sort_with(b, 1, 1, true, NULL) == 0, "seed %lu: on a card without clusters", (long)seed);
    }
}

/* GPCs have 16 or 18 SMs, or fewer: of some sizes fewer clusters fit than SMs are there for. */
TEST(clusters_fit_the_card)
{
    static const int32_t h200[CUDA_MEET_MOST + 1] = {0, 0, 66, 39, 30, 22, 17, 15, 15};
    static const struct {
        int32_t parts, met; /* so many parts meet so often */
        bool fit;
    } want[] = {{2, 66, true}, {2, 67, false}, {4, 30, true}, {4, 31, false},
                {6, 17, true}, {6, 18, false}, {8, 15, true}, {8, 16, false}};
    FREED struct blocks *b = xcalloc(1, sizeof *b);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        *b = (struct blocks){.parts = want[i].parts, .gqa = 4, .tiles = 1};
        b->plan = (struct plan){.merge = b->step, .merge_in = b->in};
        add_block(b, 16);
        CLEARED(meets) m =
            meets_new(&b->plan, &(struct meets_card){.gqa = 4, .h_kv = want[i].met, .sms = 132});
        int32_t ctas = meets_sort(&m, b->item, b->n_items, 1, h200);
        check_each(ctas == (want[i].fit ? want[i].parts : 0), "%d parts %d times: clusters of %d",
                   want[i].parts, want[i].met, ctas);
    }
}

/* One thing of the first query of a tile that makes clusters impossible. */
static const char *spoil(struct blocks *b, int what, uint64_t seed)
{
    struct cuda_item *it = &b->item[rng_below(seed, 2, 0, (uint32_t)b->n_items)];
    struct merge_step *s = &b->step[rng_below(seed, 2, 1, (uint32_t)b->plan.n_merges)];
    switch (what) {
    case 0:
        s->out = 0;
        return "a merge to a slot";
    case 1:
        s->in1--;
        return "a part that is not merged";
    case 2: {
        int64_t x = b->in[s->in0];
        b->in[s->in0] = b->in[s->in1 - 1];
        b->in[s->in1 - 1] = x;
        /* of a tile that has another query, too: otherwise the order of parts is all that changes */
        bool first_of_two = s->query == 0 && s + 1 < b->step + b->plan.n_merges && s[1].query == 1;
        return first_of_two && b->gqa <= ROWS / 2 ? "parts in another order for one query" : NULL;
    }
    case 3:
        b->n_items -= b->tiles;
        return "a CTA that is not there";
    case 4:
        if (it->n_rows == 0)
            return NULL;
        it->n_rows--;
        return "a tile with a row less";
    case 5:
        it->slot0 = -1;
        return it->n_rows == 0 ? NULL : "rows that go to the output";
    case 6: /* all tiles whose rows begin within a query: it is merged in part */
        for (int64_t i = 0; i < b->n_items; i++)
            if (b->tiles == 1 && b->item[i].row0 % b->gqa != 0)
                b->item[i--] = b->item[--b->n_items];
        return b->tiles == 2 || memcmp(b->item, b->before, sizeof b->item) == 0
                   ? NULL
                   : "rows that another kernel has";
    }
    return NULL;
}

TEST(no_cluster_where_a_merge_is_not_whole)
{
    enum { SPOILS = 7 };
    FREED struct blocks *b = xcalloc(1, sizeof *b);
    int seen[SPOILS] = {0};
    for (uint64_t seed = SEED; seed < SEED + 7000; seed++) {
        draw(b, seed);
        const char *what = spoil(b, (int)(seed % SPOILS), seed);
        if (!what)
            continue;
        seen[seed % SPOILS]++;
        memcpy(b->before, b->item, sizeof b->before);
        int32_t ctas = sort_with(b, 1, MOST_ITEMS, seed % 2, NULL);
        check_each(ctas == 0, "seed %lu: clusters of %d in spite of %s", (long)seed, ctas, what);
        check_each(memcmp(b->item, b->before, sizeof b->item) == 0,
                   "seed %lu: items were sorted all the same", (long)seed);
    }
    for (int i = 0; i < SPOILS; i++)
        check_each(seen[i] > 20, "spoil %d was drawn %d times", i, seen[i]);
}

TEST(parts_that_are_too_many_or_one)
{
    FREED struct blocks *b = xcalloc(1, sizeof *b);
    for (int32_t parts = 1; parts <= CUDA_MEET_MOST + 1; parts += CUDA_MEET_MOST) {
        *b = (struct blocks){.parts = parts, .gqa = 4, .tiles = 1};
        b->plan = (struct plan){.merge = b->step, .merge_in = b->in};
        add_block(b, 32);
        ck_assert_int_eq(sort_with(b, 1, MOST_ITEMS, true, NULL), 0);
    }
}
