/* check_cover.c - the coverage check: every strategy's plans pass, plans broken in any place do not. */
#include "ref/rng.h"
#include "sim/strategy.h"
#include "verify/judge/cover.h"

#include "tests/auto.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

/* Two roots; inner queries; an empty node; a node cut by uptos; a dead subtree; a query that sees nothing. */
static struct tree *sample(void)
{
    static const int32_t parent[] = {-1, 0, 0, 1, 1, -1, 5, 2};
    static const int64_t len[] = {200, 40, 0, 7, 33, 64, 9, 12};
    static const struct query query[] = {{3, 7}, {4, 33},  {4, 10}, {2, 0}, {6, 9},
                                         {6, 9}, {0, 150}, {0, 0},  {1, 40}};
    int32_t n = sizeof parent / sizeof parent[0], n_q = sizeof query / sizeof query[0];
    struct tree *t = tree_new(n, n_q);
    memcpy(t->parent, parent, sizeof parent);
    memcpy(t->len, len, sizeof len);
    memcpy(t->query, query, sizeof query);
    return t;
}

static struct plan_env environment(void)
{
    return plan_env_default((struct heads){8, 2, 64, DT_F16});
}

/* One group per node; with one bit-masked group over everything instead if `masked`. */
static struct plan *by_hand(const struct nform *nf, bool masked)
{
    struct plan *p = plan_new(nf, "hand");
    struct sel s = {0};
    plan_launch(p, "attention", LAUNCH_SERIAL);
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        sel_queries(&s, masked && i > 0 ? 0 : nf->q0[i],
                    masked && i > 0 ? 0
                    : masked        ? nf->n_queries
                                    : nf->q1[i]);
        sel_run(&s, i, 0, nf->len[i]);
        if (masked)
            continue;
        plan_group(p, &s, &(struct group_spec){.tile_m = 16, .tile_n = 32});
        sel_clear(&s);
    }
    if (masked)
        plan_group(p, &s, &(struct group_spec){.mask = MASK_RUN_WORDS, .tile_m = 16, .tile_n = 32});
    sel_free(&s);
    plan_merge_flat(p, "merge", false);
    return p;
}

struct fixture {
    struct tree *t;
    struct nform *nf;
};
static struct fixture fixture_new(void)
{
    struct fixture f = {.t = sample()};
    f.nf = nform_new(f.t);
    return f;
}
static void fixture_free(struct fixture *f)
{
    nform_free(f->nf);
    tree_free(f->t);
}

/* The plan is refused with a sentence that holds `word`; the plan is freed. */
static void refuse(struct plan *p, const char *word)
{
    struct err e = {0};
    ck_assert_msg(!cover_check(p, &e), "accepted, expected a complaint with '%s'", word);
    ck_assert_msg(strstr(e.msg, word), "'%s' does not say '%s'", e.msg, word);
    plan_free(p);
}

TEST(hand_made_plans_pass)
{
    struct fixture f = fixture_new();
    for (int masked = 0; masked < 2; masked++) {
        AUTO(plan) p = by_hand(f.nf, masked);
        struct err e = {0};
        ck_assert_msg(cover_check(p, &e), "%s", e.msg);
    }
    fixture_free(&f);
}

TEST(every_strategy_passes)
{
    struct fixture f = fixture_new();
    struct plan_env env = environment();
    char why[WHY_MAX];
    for (int32_t i = 0; i < n_strategies; i++) {
        struct strategy_use use = strategy_default(strategies[i]);
        AUTO(plan) p = strategy_plan(&use, f.nf, &env, why);
        struct err e = {0};
        if (p)
            ck_assert_msg(cover_check(p, &e), "%s: %s", strategies[i]->name, e.msg);
    }
    fixture_free(&f);
}

TEST(an_empty_tree_passes)
{
    AUTO_WITH_TREE nf = nform_new(tree_new(0, 0));
    AUTO(plan) p = by_hand(nf, false);
    ck_assert(cover_check(p, NULL));
}

TEST(tokens_must_be_covered_once)
{
    struct fixture f = fixture_new();
    struct plan *p = by_hand(f.nf, false);
    p->run[0].end--;
    p->group[0].n_kv--;
    refuse(p, "in no group");
    p = by_hand(f.nf, false);
    p->run[0].begin++;
    p->group[0].n_kv--;
    refuse(p, "in no group");
    p = by_hand(f.nf, false);
    p->run[1] = p->run[0];
    p->group[1].n_kv = p->group[0].n_kv;
    refuse(p, "");
    p = by_hand(f.nf, false); /* the last group reads what the one before it reads */
    int64_t last = p->n_groups - 1;
    p->run[p->group[last].run0] = p->run[p->group[last - 1].run0];
    p->group[last].n_kv = p->group[last - 1].n_kv;
    refuse(p, "");
    fixture_free(&f);
}

TEST(queries_must_see_what_they_read)
{
    struct fixture f = fixture_new();
    struct plan *p = by_hand(f.nf, false);
    p->qr[p->group[0].qr0].end++; /* the root's group: one query more than are below it */
    p->group[0].nq++;
    refuse(p, "");
    p = by_hand(f.nf, false);
    for (int64_t i = 0; i < p->n_groups; i++)
        if (p->group[i].nq == 1) {
            struct qrange *r = &p->qr[p->group[i].qr0];
            r->begin = (r->begin + 1) % f.nf->n_queries;
            r->end = r->begin + 1;
            break;
        }
    refuse(p, "does not see");
    fixture_free(&f);
}

TEST(every_mask_bit_matters)
{
    struct fixture f = fixture_new();
    AUTO(plan) p = by_hand(f.nf, true);
    for (int64_t i = 0; i < p->n_mask; i++) {
        p->mask[i] ^= 1;
        ck_assert(!cover_check(p, NULL));
        p->mask[i] ^= 1;
    }
    ck_assert(p->n_mask > 50 && cover_check(p, NULL));
    fixture_free(&f);
}

/* Two children, the second one's query first, and one inside of the root: the normal form has other numbers for all. */
TEST(complaints_name_what_the_tree_names)
{
    static const struct query query[] = {{2, 50}, {1, 5}, {0, 4}};
    AUTO(tree) t = tree_new(3, 3);
    memcpy(t->len, (int64_t[]){10, 5, 50}, 3 * sizeof *t->len);
    t->parent[1] = t->parent[2] = 0;
    memcpy(t->query, query, sizeof query);
    AUTO(nform) nf = nform_new(t);
    struct plan *p = by_hand(nf, false);
    p->run[3].end -= 7;
    p->group[3].n_kv -= 7;
    refuse(p, "query 0: tokens 43 to 50 of node 2 are in no group");
    p = by_hand(nf, false);
    p->run[1].begin++; /* tokens 4 to 10 of the root */
    p->group[1].n_kv--;
    refuse(p, "query 1: tokens 4 to 5 of node 0 are in no group");
    p = by_hand(nf, false);
    p->run[1] = (struct run){0, 1, 3};
    p->group[1].n_kv = 2;
    refuse(p, "query 1 reads tokens 1 to 3 of node 0 twice: in groups 0 and 1");
    p = by_hand(nf, false);
    p->qr[1].begin--;
    p->group[1].nq++;
    refuse(p, "group 1: query 2 reads tokens 4 to 10 of node 0, which it does not see");
    p = by_hand(nf, false);
    p->merge_in[p->merge[1].in0] = p->merge_in[p->merge[2].in0];
    refuse(p, "of query 1: reads slot 2, which belongs to query 0");
    p = by_hand(nf, false);
    p->group[3].slot0 = p->group[2].slot0;
    refuse(p, "is written twice: for queries 1 and 0");
    p = by_hand(nf, false);
    p->merge[1].query = 0;
    refuse(p, "query 2: its output is written twice");
    p = by_hand(nf, false);
    p->run[1].end++;
    refuse(p, "tokens 0 to 7 of node 1 of the normal form");
}

TEST(slots_must_flow)
{
    struct fixture f = fixture_new();
    struct plan *p = by_hand(f.nf, false);
    p->merge_in[0] = p->merge_in[1];
    refuse(p, "");
    p = by_hand(f.nf, false);
    p->group[1].slot0 = p->group[0].slot0;
    refuse(p, "written twice");
    p = by_hand(f.nf, false);
    p->merge[0].in1--;
    refuse(p, "never read");
    p = by_hand(f.nf, false);
    p->merge[0].query = p->merge[1].query;
    refuse(p, "output is written twice");
    p = by_hand(f.nf, false);
    p->n_merges--;
    refuse(p, "");
    p = by_hand(f.nf, false);
    p->group[0].slot0 = PLAN_NO_SLOT;
    refuse(p, "");
    p = by_hand(f.nf, false);
    p->n_slots = INT64_MAX;
    refuse(p, "slots but only");
    p = by_hand(f.nf, false); /* a slot that its own step writes */
    p->merge[0].out = p->merge_in[p->merge[0].in0];
    refuse(p, "written twice");
    fixture_free(&f);
}

TEST(merges_must_wait)
{
    struct fixture f = fixture_new();
    struct plan *p = by_hand(f.nf, false);
    p->launch[1].order = LAUNCH_CONCURRENT;
    refuse(p, "does not wait");
    p = by_hand(f.nf, false);
    p->merge[0].launch = 0;
    refuse(p, "does not wait");
    p = by_hand(f.nf, false);
    p->merge[0].onchip = p->merge_in[p->merge[0].in0];
    refuse(p, "stay on the chip");
    p = by_hand(f.nf, false);
    int64_t i = 0;
    while (p->merge[i].in1 - p->merge[i].in0 < 2)
        i++;
    p->merge[i].launch = 0; /* the last input may stay on the chip; the others were not complete */
    p->merge[i].onchip = p->merge_in[p->merge[i].in1 - 1];
    refuse(p, "does not wait");
    fixture_free(&f);
}

/* Nothing of it crashes: what a broken plan is printed by. */
static void print_all(const struct plan *p)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    plan_print_text(f, p);
    plan_print_csv(f, p);
    plan_print_json(f, p);
    plan_print_dot(f, p);
    fclose(f);
    free(text);
}

/* Any field of any record set to any of some nasty values: never a crash; accepted only if nothing changed.
 */
TEST(hostile_numbers_are_harmless)
{
    static const int64_t nasty[] = {-1, -2, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 20};
    struct fixture f = fixture_new();
    for (int masked = 0; masked < 2; masked++)
        for (uint64_t round = 0; round < 4000; round++) {
            AUTO(plan) p = by_hand(f.nf, masked);
            int64_t x = nasty[rng_below(round, 1, 0, 7)];
            int64_t g = rng_below(round, 2, 0, p->n_groups), m = rng_below(round, 3, 0, p->n_merges);
            int64_t old = 0;
            switch (rng_below(round, 4, 0, 16)) {
#define HIT(n, field)                                                                                        \
    case n:                                                                                                  \
        old = (int64_t)(field);                                                                              \
        (field) = (__typeof__(field))x;                                                                      \
        x = (int64_t)(field);                                                                                \
        break
                HIT(0, p->group[g].qr0);
                HIT(1, p->group[g].qr1);
                HIT(2, p->group[g].run0);
                HIT(3, p->group[g].run1);
                HIT(4, p->group[g].nq);
                HIT(5, p->group[g].n_kv);
                HIT(6, p->group[g].mask);
                HIT(7, p->group[g].launch);
                HIT(8, p->group[g].slot0);
                HIT(9, p->merge[m].in0);
                HIT(10, p->merge[m].in1);
                HIT(11, p->merge[m].out);
                HIT(12, p->merge[m].query);
                HIT(13, p->merge[m].launch);
                HIT(14, p->merge[m].onchip);
                HIT(15, p->merge_in[rng_below(round, 5, 0, p->n_merge_in)]);
#undef HIT
            }
            bool harmless =
                x == old || p->merge[m].in0 == p->merge[m].in1; /* no inputs: nothing to wait for */
            ck_assert(!cover_check(p, NULL) || harmless);
            if (cover_structure(p, NULL))
                print_all(p);
        }
    fixture_free(&f);
}

/* A window is part of what a query sees: each bit of a mask that is flipped is a token too much or too little. */
TEST(windows_are_covered_exactly)
{
    AUTO(tree) t = sample();
    tree_set_window(t, 60);
    AUTO(nform) nf = nform_new(t);
    struct plan_env env = environment();
    char why[WHY_MAX];
    struct err e = {0};
    int64_t hidden = 0;
    for (int32_t i = 0; i < n_strategies; i++) {
        struct strategy_use use = strategy_default(strategies[i]);
        AUTO(plan) p = strategy_plan(&use, nf, &env, why);
        ck_assert_msg(!p || cover_check(p, &e), "%s: %s", strategies[i]->name, e.msg);
        for (int64_t bit = 0; p && bit < p->n_mask; bit++) {
            hidden += !p->mask[bit];
            p->mask[bit] ^= 1;
            ck_assert_msg(!cover_check(p, NULL), "%s: bit %d says otherwise", strategies[i]->name, (int)bit);
            p->mask[bit] ^= 1;
        }
    }
    ck_assert_int_gt(hidden, 0);
}
