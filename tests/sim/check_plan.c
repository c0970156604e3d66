/* check_plan.c - building plans: selections, groups, masks, merges, printing, the registry's parser. */
#include "ref/rng.h"
#include "sim/strategy.h"
#include "sim/vtree.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/model/simulate_steps.h"

#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

/* Root of 8 tokens, children of 5, 0 and 3 tokens, a query on each leaf: a tree that every merge style meets.
 */
static struct tree *sample(void)
{
    return tree_of(4, (int32_t[]){-1, 0, 0, 0}, (int64_t[]){8, 5, 0, 3}, 0, NULL);
}

TEST(selections_glue_and_cut)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    CLEARED(sel) s = {0};
    sel_queries(&s, 0, 2);
    sel_queries(&s, 2, 3);
    sel_queries(&s, 3, 3);
    ck_assert_int_eq(s.n_qr, 1);
    ck_assert_int_eq(s.nq, 3);
    sel_run(&s, 0, 0, 8);
    sel_run(&s, 1, 0, 0);
    sel_run(&s, 1, 0, 5);
    ck_assert_int_eq(s.n_runs, 2);
    AUTO(plan) p = plan_new(nf, "hand");
    plan_launch(p, "attention", LAUNCH_SERIAL);
    struct group_spec g = {.mask = MASK_DENSE, .q_begin = 1, .q_end = 3, .kv_begin = 6, .kv_end = 10};
    ck_assert_int_eq(plan_group(p, &s, &g), 1);
    const struct group *x = &p->group[0];
    ck_assert_int_eq(x->nq, 2);
    ck_assert_int_eq(x->n_kv, 4);
    ck_assert_int_eq(x->run1 - x->run0, 2);
    ck_assert_int_eq(p->run[0].begin, 6);
    ck_assert_int_eq(p->run[1].end, 2);
    ck_assert_int_eq(plan_query(p, x, 1), 2);
    /* queries 1 and 2 are not below node 1: they see the root's run only */
    ck_assert(plan_visible(p, x, 0, 0) && !plan_visible(p, x, 0, 1));
    g = (struct group_spec){.q_begin = 3, .q_end = 3};
    ck_assert_int_eq(plan_group(p, &s, &g), 0);
}

/* One group per node, one launch per depth. */
static struct plan *by_node(const struct nform *nf, int32_t launches)
{
    struct plan *p = plan_new(nf, "by-node");
    CLEARED(sel) s = {0};
    for (int32_t l = 0; l < launches; l++)
        plan_launch(p, "attention", LAUNCH_SERIAL);
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        sel_clear(&s);
        sel_queries(&s, nf->q0[i], nf->q1[i]);
        sel_run(&s, i, 0, nf->len[i]);
        struct group_spec g = {.launch = nf->depth[i] < launches ? nf->depth[i] : launches - 1};
        plan_group(p, &s, &g);
    }
    return p;
}

TEST(flat_merge_feeds_every_query)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    AUTO(plan) p = by_node(nf, 1);
    plan_merge_flat(p, "merge", true);
    ck_assert_int_eq(p->n_groups, 3); /* the empty node makes none */
    ck_assert_int_eq(p->n_slots, 5);
    ck_assert_int_eq(p->n_merges, 3);
    ck_assert_int_eq(p->n_launches, 2);
    ck_assert_int_eq(p->merge[1].in1 - p->merge[1].in0, 1); /* the query on the empty node */
}

TEST(lonely_groups_write_the_output)
{
    AUTO(tree) t = tree_new(2, 0);
    t->len[0] = 3;
    t->len[1] = 4;
    tree_query_leaves(t); /* two roots, a query each */
    AUTO(nform) nf = nform_new(t);
    AUTO(plan) p = by_node(nf, 1);
    plan_merge_flat(p, "merge", true);
    ck_assert_int_eq(p->n_slots, 0);
    ck_assert_int_eq(p->n_launches, 1);
    plan_free(p);
    p = by_node(nf, 1);
    plan_merge_flat(p, "merge", false);
    ck_assert_int_eq(p->n_slots, 2);
    ck_assert_int_eq(p->n_launches, 2);
}

/* Groups of any queries in any order, as no strategy makes them: ranges cross, repeat and enclose each other. */
static struct plan *any_groups(const struct nform *nf, uint64_t seed)
{
    struct plan *p = plan_new(nf, "any");
    CLEARED(sel) s = {0};
    plan_launch(p, "attention", LAUNCH_SERIAL);
    sel_run(&s, 0, 0, nf->len[0]);
    int64_t n = rng_below(seed, 1, 0, 12);
    for (int64_t g = 0; g < n; g++) {
        s.n_qr = s.nq = 0;
        for (int64_t q = rng_below(seed, 2, (uint64_t)g, nf->n_queries), k = 0; q < nf->n_queries; k++) {
            uint64_t draw = (uint64_t)(16 * g + k);
            int64_t end = q + 1 + rng_below(seed, 3, draw, 5);
            sel_queries(&s, (int32_t)q, (int32_t)min_i64(end, nf->n_queries));
            q = rng_below(seed, 4, draw, 2) ? nf->n_queries : end + 1 + rng_below(seed, 5, draw, 3);
        }
        plan_group(p, &s, &(struct group_spec){0});
    }
    return p;
}

/* The slots of query q in group order, into slot; how many, those of groups that have none counted as well. */
static int64_t slots_of(const struct plan *p, int32_t q, int64_t *slot)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_groups; i++)
        for (int32_t k = 0; k < p->group[i].nq; k++)
            if (plan_query(p, &p->group[i], k) == q)
                slot[n++] = p->group[i].slot0 == PLAN_NO_SLOT ? PLAN_NO_SLOT : p->group[i].slot0 + k;
    return n;
}

TEST(merges_take_slots_in_group_order)
{
    for (uint64_t seed = 0; seed < 500; seed++) {
        AUTO(tree) t = tree_new(1, 20);
        t->len[0] = 7;
        for (int32_t q = 0; q < t->n_queries; q++)
            t->query[q].upto = 7;
        AUTO(nform) nf = nform_new(t);
        AUTO(plan) p = any_groups(nf, seed);
        plan_merge_flat(p, "merge", seed % 2);
        int64_t slot[16], slots = 0, m = 0;
        for (int32_t q = 0; q < nf->n_queries; q++) {
            int64_t n = slots_of(p, q, slot);
            if (n == 1 && slot[0] == PLAN_NO_SLOT) {
                ck_assert_int_eq(seed % 2, 1);
                continue;
            }
            ck_assert(m < p->n_merges && p->merge[m].query == q);
            ck_assert_int_eq(p->merge[m].in1 - p->merge[m].in0, n);
            for (int64_t i = 0; i < n; i++)
                ck_assert_int_eq(p->merge_in[p->merge[m].in0 + i], slot[i]);
            slots += n;
            m++;
        }
        ck_assert_int_eq(m, p->n_merges);
        ck_assert_int_eq(slots, p->n_slots);
        for (int64_t i = 0; i < p->n_groups; i++) {
            const struct group *g = &p->group[i];
            bool alone = seed % 2 == 1;
            for (int32_t k = 0; k < g->nq && alone; k++)
                alone = slots_of(p, plan_query(p, g, k), slot) == 1;
            ck_assert(alone == (g->slot0 == PLAN_NO_SLOT));
        }
    }
}

TEST(level_merge_interleaves_launches)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    AUTO(plan) p = by_node(nf, 2);
    plan_merge_levels(p, "merge");
    ck_assert_int_eq(p->n_launches, 3);
    ck_assert_int_eq(p->group[0].launch, 0);
    ck_assert_int_eq(p->group[1].launch, 1);
    for (int64_t m = 0; m < p->n_merges; m++)
        ck_assert_int_eq(p->merge[m].launch, 2);
}

TEST(fused_merge_keeps_the_last_partial_on_chip)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    AUTO(plan) p = by_node(nf, 2);
    plan_merge_fused(p);
    ck_assert_int_eq(p->n_launches, 2);
    ck_assert_int_eq(p->merge[0].launch, 1);
    ck_assert_int_eq(p->merge[0].onchip, p->group[1].slot0);
    ck_assert_int_eq(p->merge[1].launch, 0); /* touched by the first launch only */
}

TEST(queries_that_see_nothing_get_an_output)
{
    AUTO(tree) t = tree_new(1, 2);
    t->len[0] = 4;
    t->query[1].upto = 4; /* query 0 has upto 0 */
    AUTO(nform) nf = nform_new(t);
    for (int style = 0; style < 3; style++) {
        AUTO(plan) p = by_node(nf, 1);
        if (style == 0)
            plan_merge_flat(p, "merge", true);
        else if (style == 1)
            plan_merge_levels(p, "merge");
        else
            plan_merge_fused(p);
        ck_assert_int_eq(p->n_merges, 1);
        ck_assert_int_eq(p->merge[0].query, 1); /* numbered last */
        ck_assert_int_eq(p->merge[0].in0, p->merge[0].in1);
        ck_assert_int_eq(p->n_launches, 2);
    }
}

TEST(virtual_tree_moves_queries_and_tokens)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    uint8_t joined[4] = {0, 0, 1, 1};
    CLEARED(sel) s = {0};
    vtree_select(nf, joined, 0, &s);
    ck_assert_int_eq(s.nq, 1);
    ck_assert_int_eq(s.qr[0].begin, 0);
    ck_assert_int_eq(s.n_kv, 8);
    vtree_select(nf, joined, 3, &s);
    ck_assert_int_eq(s.n_kv, 11);
    ck_assert_int_eq(s.run[0].node, 0);
    ck_assert_int_eq(vtree_len(nf, joined, 3), 11);
    ck_assert_int_eq(vtree_nq(nf, joined, 0), 1);
}

TEST(stored_tokens_count_replicas)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    AUTO(plan) p = by_node(nf, 1);
    plan_merge_flat(p, "merge", true);
    ck_assert_int_eq(plan_stored_tokens(p), 16);
    p->storage = STORAGE_REPLICATED;
    ck_assert_int_eq(plan_stored_tokens(p), 3 * 8 + 5 + 3);
    p->storage = STORAGE_REPLICATED_SUFFIX;
    ck_assert_int_eq(plan_stored_tokens(p), 16);
}

/* A copy is the same, under another name, too; not when anything else differs. */
TEST(private_kv_are_the_same)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    AUTO(plan) p = by_node(nf, 2);
    plan_merge_levels(p, "merge");
    for (int i = 0; i < 13; i++) {
        AUTO(plan) c = plan_copy(p);
        plan_note(c, "another");
        c->strategy = "other";
        ck_assert(plan_same(p, c) && plan_same(c, p));
        switch (i) {
        case 0:
            c->n_groups--;
            break;
        case 1:
            c->group[1].tile_m += 16;
            break;
        case 2:
            c->group[1].mask = MASK_DENSE;
            break;
        case 3:
            c->group[0].slot0++;
            break;
        case 4:
            c->run[c->n_runs - 1].end--;
            break;
        case 5:
            c->qr[0].end++;
            break;
        case 6:
            c->merge[0].out++;
            break;
        case 7:
            c->merge_in[0]++;
            break;
        case 8:
            c->launch[0].order = LAUNCH_CONCURRENT;
            break;
        case 9:
            c->slot_weight = SLOT_MAX_SUM;
            break;
        case 10:
            c->unfused = true;
            break;
        case 11:
            c->group[0].launch++;
            break;
        case 12:
            c->storage = STORAGE_REPLICATED;
            break;
        }
        check_each(!plan_same(p, c) && !plan_same(c, p), "change %d", i);
        c->n_groups = p->n_groups;
    }
}

/* What a printer makes of a plan; the caller frees. */
static char *printed(const struct plan *p, void (*print)(FILE *, const struct plan *))
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    print(f, p);
    fclose(f);
    return text;
}

TEST(private_kv_print_the_same)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    AUTO(plan) p = by_node(nf, 2);
    plan_merge_levels(p, "merge");
    plan_note(p, "by hand, %d levels", 2);
    AUTO(plan) c = plan_copy(p);
    void (*const print[])(FILE *, const struct plan *) = {plan_print_text, plan_print_csv, plan_print_json,
                                                          plan_print_dot};
    for (int i = 0; i < 4; i++) {
        FREED char *a = printed(p, print[i]), *b = printed(c, print[i]);
        ck_assert(strlen(a) > 100);
        ck_assert_str_eq(a, b);
    }
}

/* Two children, the second one's query first, and one inside of the root: the normal form has other numbers for all. */
static struct tree *renumbered(void)
{
    static const struct query query[] = {{2, 50}, {1, 5}, {0, 4}};
    return tree_of(3, (int32_t[]){-1, 0, 0}, (int64_t[]){10, 5, 50}, 3, query);
}

TEST(prints_number_as_the_tree_does)
{
    AUTO_WITH_TREE nf = nform_new(renumbered());
    AUTO(plan) p = by_node(nf, 1);
    plan_merge_flat(p, "merge", true);
    static const struct {
        void (*print)(FILE *, const struct plan *);
        const char *says[5];
    } want[] = {
        {plan_print_text,
         {"3 queries {0-2} x 4 tokens n0[0,4) -> slots 0-2",
          "2 queries {0-1} x 6 tokens n0[4,10) -> slots 3-4",
          "1 queries {0} x 50 tokens n2[0,50) -> slots 6-6", "merge query 2 launch 1: 0 -> output",
          "merge query 0 launch 1: 2 4 6 -> output"}},
        {plan_print_csv,
         {",3,4,\"2,1,0\",\"n0[0,4)\",0", ",2,6,\"1,0\",\"n0[4,10)\",3", "\"0\",\"n2[0,50)\",6"}},
        {plan_print_dot,
         {"n0 [shape=ellipse, label=\"n0\\n10 tokens\\nqueries 0-2\"]",
          "n1 [shape=ellipse, label=\"n1\\n5 tokens\\nquery 1\"]", "n0 -> n2;", "g1 -> n0 [",
          "label=\"[4,10)\"];"}},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        FREED char *text = printed(p, want[i].print);
        for (int k = 0; k < 5 && want[i].says[k]; k++)
            ck_assert_msg(strstr(text, want[i].says[k]), "no '%s' in:\n%s", want[i].says[k], text);
        ck_assert(!strstr(text, "n3[") && !strstr(text, "n3 ["));
    }
}

static json_t *json_of(const struct plan *p)
{
    FREED char *text = printed(p, plan_print_json);
    json_error_t error;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(j, "%s in:\n%s", error.text, text);
    return j;
}

static void same_text(const json_t *j, const char *key, const char *want)
{
    const char *got = json_string_value(json_object_get(j, key));
    ck_assert_msg(got, "no text '%s'", key);
    ck_assert_str_eq(got, want);
}

/* A number, or null where `none` is wanted. */
static void same_number(const json_t *j, int64_t want, int64_t none)
{
    ck_assert(want == none ? json_is_null(j) : json_is_integer(j) && json_integer_value(j) == want);
}

static void same_member(const json_t *j, const char *key, int64_t want)
{
    same_number(json_object_get(j, key), want, INT64_MIN);
}

static void same_group(const json_t *j, const struct plan *p, const struct group *g)
{
    json_t *tile = json_object_get(j, "tile"), *query = json_object_get(j, "queries"),
           *run = json_object_get(j, "runs"), *slot = json_object_get(j, "slots"),
           *row = json_object_get(j, "visible");
    same_member(j, "launch", g->launch);
    same_number(json_array_get(tile, 0), g->tile_m, -1);
    same_number(json_array_get(tile, 1), g->tile_n, -1);
    same_text(j, "mask", mask_name[g->mask]);
    ck_assert_uint_eq(json_array_size(query), (size_t)g->nq);
    ck_assert_uint_eq(json_array_size(run), (size_t)(g->run1 - g->run0));
    ck_assert(json_array_size(row) == (g->mask == MASK_NONE ? 0 : (size_t)g->nq));
    ck_assert(g->slot0 == PLAN_NO_SLOT ? json_is_null(slot) : json_array_size(slot) == (size_t)g->nq);
    for (int32_t k = 0; k < g->nq; k++) {
        same_number(json_array_get(query, (size_t)k), p->nf->orig[plan_query(p, g, k)], -1);
        if (g->slot0 != PLAN_NO_SLOT)
            same_number(json_array_get(slot, (size_t)k), g->slot0 + k, -1);
        for (int64_t r = 0; r < g->run1 - g->run0 && g->mask != MASK_NONE; r++)
            same_number(json_array_get(json_array_get(row, (size_t)k), (size_t)r), plan_visible(p, g, k, r),
                        -1);
    }
    for (int64_t r = 0; r < g->run1 - g->run0; r++) {
        json_t *x = json_array_get(run, (size_t)r);
        const struct run *want = &p->run[g->run0 + r];
        same_member(x, "node", p->nf->src[want->node]);
        same_member(x, "begin", p->nf->off[want->node] + want->begin);
        same_member(x, "end", p->nf->off[want->node] + want->end);
    }
}

static void same_merge(const json_t *j, const struct plan *p, const struct merge_step *m)
{
    json_t *input = json_object_get(j, "inputs");
    same_member(j, "launch", m->launch);
    same_member(j, "query", p->nf->orig[m->query]);
    same_number(json_object_get(j, "on_chip"), m->onchip, PLAN_NO_SLOT);
    same_number(json_object_get(j, "slot"), m->out, PLAN_NO_SLOT);
    ck_assert_uint_eq(json_array_size(input), (size_t)(m->in1 - m->in0));
    for (int64_t i = m->in0; i < m->in1; i++)
        same_number(json_array_get(input, (size_t)(i - m->in0)), p->merge_in[i], -1);
}

/* The tree that the JSON holds; the caller frees. */
static struct tree *tree_of_json(const json_t *j)
{
    json_t *node = json_object_get(j, "nodes"), *query = json_object_get(j, "queries"), *x;
    struct tree *t = tree_new((int32_t)json_array_size(node), (int32_t)json_array_size(query));
    size_t i;
    json_array_foreach(node, i, x)
    {
        t->parent[i] = (int32_t)json_integer_value(json_object_get(x, "parent"));
        t->len[i] = json_integer_value(json_object_get(x, "len"));
    }
    json_array_foreach(query, i, x)
    {
        t->query[i].node = (int32_t)json_integer_value(json_object_get(x, "node"));
        t->query[i].upto = json_integer_value(json_object_get(x, "upto"));
    }
    return t;
}

/* By the JSON alone: how often query q reads token `at` of node i. */
static int64_t times_read(const json_t *groups, int64_t q, int32_t i, int64_t at)
{
    int64_t n = 0;
    size_t g, k, r;
    json_t *group, *query, *run;
    json_array_foreach(groups, g, group) json_array_foreach(json_object_get(group, "queries"), k, query)
        json_array_foreach(json_object_get(group, "runs"), r, run)
    {
        json_t *visible = json_object_get(group, "visible");
        n +=
            json_integer_value(query) == q && json_integer_value(json_object_get(run, "node")) == i &&
            json_integer_value(json_object_get(run, "begin")) <= at &&
            at < json_integer_value(json_object_get(run, "end")) &&
            (json_is_null(visible) || json_integer_value(json_array_get(json_array_get(visible, k), r)) == 1);
    }
    return n;
}

/* The rule of queries, on the tree as it stands in the JSON: what is seen is read once, nothing else is read. */
static void reads_what_it_sees(const json_t *j)
{
    AUTO(tree) t = tree_of_json(json_object_get(j, "tree"));
    MUST(tree_check, t);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t i = 0; i < t->n_nodes; i++)
            for (int64_t at = 0; at < t->len[i]; at++) {
                int32_t up = t->query[q].node;
                bool own = up == i;
                while (up > i)
                    up = t->parent[up];
                bool sees = own ? at < t->query[q].upto : up == i;
                ck_assert_int_eq(times_read(json_object_get(j, "groups"), q, i, at), sees);
            }
}

TEST(text_csv_and_dot_say_what_masks_hide)
{
    AUTO_WITH_TREE nf = nform_new(renumbered());
    AUTO(plan) p = plan_new(nf, "hand");
    CLEARED(sel) s = {0};
    plan_launch(p, "idle", LAUNCH_SERIAL);
    plan_launch(p, "attention", LAUNCH_SERIAL);
    sel_queries(&s, 0, nf->n_queries);
    for (int32_t i = 0; i < nf->n_nodes; i++)
        sel_run(&s, i, 0, nf->len[i]);
    plan_group(p, &s, &(struct group_spec){.mask = MASK_RUN_WORDS, .launch = 1});
    plan_merge_flat(p, "merge", true);
    static const char *const says[] = {"label=\"[0,4)\"];",
                                       "label=\"[4,10)\\nmask: seen by 2 of 3: 0-1\"];",
                                       "label=\"[0,50)\\nmask: seen by 1 of 3: 0\"];",
                                       "color=\"#D55E00\", label=\"launch 1: attention\"];",
                                       "color=\"#D55E00\", label=\"group 0: launch 1\\n3 queries x 65 tokens",
                                       "} x 65 tokens n0[0,4) n0[4,10){0-1} ",
                                       " n1[0,5){1} n2[0,50){0} ->",
                                       "\"n0[0,4) n0[4,10){0-1} n1[0,5){1} n2[0,50){0}\","};
    FREED char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    plan_print_dot(f, p);
    ck_assert(fflush(f) == 0 && !strstr(text, "idle")); /* no group is in that launch */
    plan_print_text(f, p);
    plan_print_csv(f, p);
    fclose(f);
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++)
        ck_assert_msg(strstr(text, says[i]), "no '%s' in:\n%s", says[i], text);
}

/* A box for the merge steps of a launch, a line to it from all that it reads, other merges among them. */
TEST(dot_draws_merges)
{
    AUTO_WITH_TREE nf = nform_new(sample());
    for (int levels = 0; levels < 2; levels++) {
        AUTO(plan) p = by_node(nf, 2);
        levels ? plan_merge_levels(p, "join") : plan_merge_flat(p, "join", true);
        FREED char *text = printed(p, plan_print_dot);
        int64_t partials = 0, steps = 0;
        for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
            char *box = strstr(at, "merge step"), *line = strstr(at, " -> m");
            if (box && box < end)
                steps += atoi(memrchr(at, '\\', (size_t)(box - at)) + 2);
            if (line && line < end)
                partials += atoi(strstr(line, "label=\"") + strlen("label=\""));
        }
        ck_assert_int_gt(p->n_merges, 0);
        ck_assert_int_eq(steps, p->n_merges);
        ck_assert_int_eq(partials, p->n_merge_in);
        ck_assert_msg(strstr(text, ": join\"];"), "%s", text);
    }
}

/* ---- strategies that are wrong -------------------------------------------------------------------------- */

static struct plan *plan_without_merges(const struct nform *nf, const struct plan_env *env,
                                        const struct strategy *s, const double *opt)
{
    (void)env, (void)s, (void)opt;
    return by_node(nf, 1);
}

static struct plan *plan_out_of_range(const struct nform *nf, const struct plan_env *env,
                                      const struct strategy *s, const double *opt)
{
    struct plan *p = plan_without_merges(nf, env, s, opt);
    p->run[0].node = 1 << 20;
    return p;
}

static struct plan *plan_and_exit(const struct nform *nf, const struct plan_env *env,
                                  const struct strategy *s, const double *opt)
{
    (void)nf, (void)env, (void)s, (void)opt;
    exit(0);
}

/* What `treeattn plan` prints and says of a plan of that strategy for sample(). */
static int plan_with(const struct strategy *s, enum plan_form form, char *printed, char *said, size_t size)
{
    struct strategy_use use = {.s = s};
    FREED char *path = scratch_file("", 0), *heard = scratch_file("", 0);
    pid_t child = fork();
    if (child == 0) {
        AUTO(tree) t = sample();
        if (!freopen(heard, "w", stderr) || !freopen(path, "w", stdout))
            _exit(99);
        int code = cmd_plan_job(&(struct plan_job){.tree = t,
                                                   .use = &use,
                                                   .env = plan_env_default((struct heads){8, 2, 64, DT_F16}),
                                                   .form = form,
                                                   .command = "treeattn plan --of tests"});
        fflush(NULL);
        _exit(code);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    run_shell(printed, size, "cat %s", path);
    run_shell(said, size, "cat %s", heard);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(wrong_plans_can_be_looked_at)
{
    static const struct strategy unmerged = {.name = "unmerged", .plan = plan_without_merges},
                                 outside = {.name = "outside", .plan = plan_out_of_range};
    static const char *const form[] = {
        "plan by-node",  "strategy,group,", "{\"format\": \"treeattn-plan\"", "plan by-node, explained", "<svg ", "",
        "digraph plan {"};
    char printed[1 << 14], said[1 << 14];
    for (int i = 0; i < N_PLAN_FORMS; i++) {
        ck_assert_int_eq(plan_with(&unmerged, (enum plan_form)i, printed, said, sizeof said), EXIT_FAILED);
        ck_assert_msg(strncmp(printed, form[i], strlen(form[i])) == 0, "%s", printed);
        ck_assert_str_eq(said,
                         "treeattn: query 0: its output is written twice, and the plan has no merge steps "
                         "(expected a last call of plan_merge_flat or its like)\n");
        ck_assert_int_eq(plan_with(&outside, (enum plan_form)i, printed, said, sizeof said), EXIT_FAILED);
        ck_assert_str_eq(printed, "");
        ck_assert_msg(strstr(said, ": node 1048576 of the normal form") && strchr(said, '\n')[1] == 0, "%s",
                      said);
    }
    ck_assert_int_eq(plan_with(&forgetful, PLAN_TEXT, printed, said, sizeof said), EXIT_FAILED);
    ck_assert_msg(strstr(said, " in no group\n") && strstr(printed, "group 2 "), "%s%s", said, printed);
}

TEST(a_planner_that_exits_is_named)
{
    static const struct strategy leaver = {.name = "leaver", .plan = plan_and_exit};
    char printed[1 << 12], said[1 << 12];
    ck_assert_int_eq(plan_with(&leaver, PLAN_TEXT, printed, said, sizeof said), EXIT_FAILED);
    ck_assert_str_eq(said, "treeattn: strategy leaver ended the program (exit code 0) on: treeattn plan --of "
                           "tests\n");
    /* so is one of `sim`, which plans in a sweep */
    struct strategy_use use = {.s = &leaver};
    AUTO(tree) t = sample();
    struct simulation s = {.use = &use,
                           .n_use = 1,
                           .env = plan_env_default((struct heads){8, 2, 64, DT_F16}),
                           .command = "treeattn sim --of tests"};
    FREED char *heard = scratch_file("", 0);
    pid_t child = fork();
    if (child == 0) {
        struct simulated_row row;
        if (!freopen(heard, "w", stderr))
            _exit(99);
        crash_tell();
        _exit(simulate_steps(&s, &(struct simulation_source){.tree = t, .first = 1, .last = 1}, 1, &row, NULL,
                             NULL));
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    run_shell(said, sizeof said, "cat %s", heard);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED);
    ck_assert_str_eq(
        said, "treeattn: strategy leaver ended the program (exit code 0) on: treeattn sim --of tests\n");
}

TEST(json_is_all_of_the_plan)
{
    static const char *const all[] = {"naive",       "deft-flatten",   "deft-node-chunk:block=8",
                                      "tree-medusa", "tree-specinfer", "cascade",
                                      "relay",       "fasttree",       "pat:rule=artifact"};
    struct plan_env env = plan_env_default((struct heads){8, 2, 64, DT_F16});
    AUTO_WITH_TREE nf = nform_new(renumbered());
    int masked = 0, on_chip = 0, partial = 0;
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        AUTO(plan) p = must_plan(all[s], nf, &env);
        json_t *j = json_of(p), *launch = json_object_get(j, "launches"),
               *partials = json_object_get(j, "partials"), *group = json_object_get(j, "groups"),
               *merge = json_object_get(j, "merges");
        same_text(j, "strategy", p->strategy);
        same_text(j, "parameters", p->params);
        same_text(j, "note", p->note);
        ck_assert(json_is_true(json_object_get(j, "unfused")) == p->unfused);
        same_text(partials, "o", p->slot_o == SLOT_O_F32 ? "fp32" : "fp16");
        same_text(partials, "weight", p->slot_weight == SLOT_LSE ? "LSE" : "maximum and sum");
        same_member(partials, "slots", p->n_slots);
        ck_assert_uint_eq(json_array_size(launch), (size_t)p->n_launches);
        ck_assert_uint_eq(json_array_size(group), (size_t)p->n_groups);
        ck_assert_uint_eq(json_array_size(merge), (size_t)p->n_merges);
        for (int32_t l = 0; l < p->n_launches; l++) {
            json_t *x = json_array_get(launch, (size_t)l);
            same_text(x, "name", p->launch[l].name);
            same_text(x, "order", p->launch[l].order == LAUNCH_SERIAL ? "serial" : "concurrent");
        }
        for (int64_t g = 0; g < p->n_groups; g++) {
            same_group(json_array_get(group, (size_t)g), p, &p->group[g]);
            masked += p->group[g].mask != MASK_NONE;
            partial += p->group[g].slot0 != PLAN_NO_SLOT;
        }
        for (int64_t m = 0; m < p->n_merges; m++) {
            same_merge(json_array_get(merge, (size_t)m), p, &p->merge[m]);
            on_chip += p->merge[m].onchip != PLAN_NO_SLOT;
        }
        reads_what_it_sees(j);
        json_decref(j);
    }
    ck_assert(masked > 0 && on_chip > 0 && partial > 0);
}

TEST(wrong_strategy_names_are_explained)
{
    struct strategy_use u;
    FAILS("no strategy 'no-such' (expected one of ", strategy_parse, "no-such", &u);
    for (int32_t i = 0; i < n_strategies; i++) {
        ck_assert(strategy_parse(strategies[i]->name, &u, NULL));
        ck_assert_ptr_eq(u.s, strategies[i]);
        FREED char *bad = xasprintf("%s:nonsense=1", strategies[i]->name);
        FAILS("has no option 'nonsense'", strategy_parse, bad, &u);
        for (int32_t j = 0; j < i; j++)
            ck_assert_str_ne(strategies[i]->name, strategies[j]->name);
    }
}

TEST(machines_are_plausible)
{
    ck_assert(machine_find("nothing") == NULL);
    for (int32_t i = 0; i < n_machines; i++) {
        ck_assert_ptr_eq(machine_find(machines[i].name), &machines[i]);
        ck_assert(machines[i].smem_per_cta <= machines[i].smem_per_sm);
        ck_assert(machines[i].bandwidth > 1e11 && machines[i].tensor_flops > 1e13);
        ck_assert(machines[i].source[0]);
    }
}
