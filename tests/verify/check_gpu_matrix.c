/*
 * check_gpu_matrix.c - what `make gpu-check` and `make gpu-bench` do that needs no GPU: the design of cases and what it
 * covers.
 */
#include "kernels/cuda/host/guard_gpu.h"
#include "verify/bench/bench_gpu.h"
#include "verify/cases/gpu_matrix.h"
#include "verify/judge/pairs_met.h"
#include "verify/judge/judge.h"
#include "verify/compare/compare.h"

#include "tests/auto.h"
#include "tests/verify/fake_gpu.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <jansson.h>

#include <math.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct gpu_case *design(uint64_t seed, int64_t *n)
{
    struct gpu_case *list;
    struct err e = {0};
    bool shared;
    ck_assert_msg(gpu_cases_new(seed, &list, n, &shared, &e), "%s", e.msg);
    return list;
}

/* Every strategy that applies to a case's tree, as if it had been run and passed, into the cover. */
static void pretend(struct pairs_met *v, const struct gpu_case *x)
{
    struct err e = {0};
    AUTO(tree) t = tree_source_load(&x->c.src, &e);
    ck_assert_msg(t, "%s", e.msg);
    AUTO(nform) nf = nform_new(t);
    struct plan_env env = plan_env_default(x->c.spec.heads);
    for (int32_t i = 0; i < n_strategies; i++) {
        struct strategy_use use = strategy_default(strategies[i]);
        const struct strategy *s = strategies[i];
        struct result r = {.strategy = s->name, .verdict = V_PASS};
        if (s->applicable && !s->applicable(nf, &env, s, use.opt, r.why))
            r.verdict = V_SKIP;
        pairs_met_add(v, x, &r);
    }
}

static struct pairs_met *cover_new(void)
{
    struct strategy_use *use;
    int32_t n;
    ck_assert(case_strategies(NULL, &use, &n, NULL));
    struct pairs_met *v = xcalloc(1, sizeof *v);
    pairs_met_init(v, use, n);
    free(use);
    return v;
}

/* The bar: 6,000 cases that run, every pair of values, and every strategy with every value of types, heads, head sizes
 * and pages: with the traces of TREEATTN_SHARED and without, for several seeds. */
LOOP_TEST(the_design_covers_every_pair, 4)
{
    if (_i % 2)
        setenv("TREEATTN_SHARED", "/nonexistent", 1);
    int64_t n, met, run = 0;
    struct gpu_case *list = design((uint64_t)_i, &n);
    FREED struct pairs_met *v = cover_new();
    int64_t kinds[N_GPU_KINDS] = {0};
    for (int64_t i = 0; i < n; i++) {
        pretend(v, &list[i]);
        kinds[list[i].kind]++;
    }
    for (int kind = 0; kind < N_GPU_KINDS; kind++) {
        bool task = kind >= GPU_REASONING && kind < GPU_REASONING + 4; /* DeFT's: only where they are */
        ck_assert_msg(kinds[kind] > 0 || (task && (_i % 2 || kinds[GPU_REASONING] == 0)), "%s",
                      gpu_kind_name(kind));
    }
    int64_t pairs = pairs_met_pairs(v, &met, stdout);
    ck_assert_int_eq(met, pairs);
    for (int32_t i = 0; i < v->n; i++)
        if (v->value[i].axis == AXIS_STRATEGY)
            run += v->value[i].n[V_PASS];
    ck_assert_msg(run >= 6000, "%d cases run", (int)run);
    static const int32_t values[N_GPU_AXES] = {2, 7, 2, 4, N_FAMILIES + 1, 0, 0};
    int32_t required[N_GPU_AXES] = {0};
    for (int32_t i = 0; i < v->n; i++)
        required[v->value[i].axis] += v->value[i].required;
    for (int axis = 0; axis < AXIS_FILL; axis++)
        ck_assert_int_eq(required[axis], values[axis]);
    ck_assert_int_eq(required[AXIS_STRATEGY], n_strategies);
    gpu_cases_free(list, n);
}

/* A value that is never run with another one is a hole, and named. */
TEST(a_hole_is_seen)
{
    int64_t n, met;
    struct gpu_case *list = design(1, &n);
    FREED struct pairs_met *v = cover_new();
    for (int64_t i = 0; i < n; i++)
        if (list[i].c.spec.heads.h_q != 71 || list[i].c.spec.page_size != 64)
            pretend(v, &list[i]);
    FILE *f = tmpfile();
    int64_t pairs = pairs_met_pairs(v, &met, f);
    char line[200] = "";
    rewind(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    ck_assert_int_eq(met, pairs - 1);
    ck_assert_str_eq(line, "not run: heads 71/1 with page 64\n");
    gpu_cases_free(list, n);
}

/* The same seed draws the same, another one something else; every case is a case string. */
TEST(the_design_is_its_seed)
{
    int64_t n[3], same = 0;
    struct gpu_case *list[3] = {design(7, &n[0]), design(7, &n[1]), design(8, &n[2])};
    ck_assert(n[0] == n[1] && n[0] == n[2]);
    for (int64_t i = 0; i < n[0]; i++) {
        FREED char *a = case_print(&list[0][i].c), *b = case_print(&list[1][i].c),
                   *c = case_print(&list[2][i].c);
        CLEARED_BY(case_clear) struct case_spec back;
        struct err e = {0};
        ck_assert_str_eq(a, b);
        same += strcmp(a, c) == 0;
        ck_assert_msg(case_parse(a, &back, &e), "%s: %s", a, e.msg);
        FREED char *again = case_print(&back);
        ck_assert_str_eq(a, again);
    }
    ck_assert_int_eq(same, 0);
    for (int i = 0; i < 3; i++)
        gpu_cases_free(list[i], n[i]);
}

/* Every byte that a run may not write is watched, and no other. */
LOOP_TEST(canaries_see_every_byte, 2)
{
    struct err e = {0};
    CLEARED_BY(tree_source_clear) struct tree_source src;
    ck_assert(tree_source_parse("levels:1,3_20,5", &src, &e));
    AUTO(tree) t = tree_source_load(&src, &e);
    struct problem_spec spec = case_default_spec();
    spec.page_size = 1 + 15 * _i;
    AUTO(problem) p = problem_new(t, &spec, &e);
    struct guarded_layout l = guarded_layout(p);
    FREED uint8_t *before = guarded_image(&l, p), *after = guarded_image(&l, p);
    for (int part = 0; part + 1 < N_PARTS; part++) {
        ck_assert(l.at[part] % 256 == 0 && l.at[part] + l.size[part] + 256 <= l.at[part + 1]);
        ck_assert(l.at[0] >= 256 && l.total >= l.at[PART_LSE] + l.size[PART_LSE] + 256);
    }
    ck_assert(memcmp(before + l.at[PART_PAGES], p->page_table, (size_t)l.size[PART_PAGES]) == 0);
    for (int64_t i = 0; i < l.total; i++) {
        bool written = (i >= l.at[PART_O] && i < l.at[PART_O] + l.size[PART_O]) ||
                       (i >= l.at[PART_LSE] && i < l.at[PART_LSE] + l.size[PART_LSE]);
        if (i % 7 && i > 600 && i < l.at[PART_PAGES])
            continue; /* the middle of Q, K, V is all alike */
        after[i] ^= 1;
        struct err mine = {0};
        ck_assert_int_eq(guarded_check(&l, before, after, 0, &mine), written);
        ck_assert(written || strstr(mine.msg, "overwritten"));
        after[i] ^= 1;
    }
}

/* ---- the bench, as far as it needs no card ----------------------------------------------------------------- */

static struct nform *form(const char *levels)
{
    struct tree *t = levels_parse(levels, NULL);
    ck_assert_ptr_nonnull(t);
    return nform_new(t);
}

static const struct problem_spec heads_32_32 = {.heads = {32, 32, 128, DT_F16}, .page_size = 64};

/* Against what was published for PAT's first tree: 135.27 MB of KV, 29.93 us at 4,525 GB/s. */
TEST(floors_are_the_larger_of_two)
{
    AUTO(nform) nf = form("1,10 4096,416");
    struct gpu_need need = gpu_need(nf, &heads_32_32);
    ck_assert_int_eq(gpu_unique_kv(nf, &heads_32_32), 135266304);
    ck_assert_double_eq(need.bytes, 135266304.0 + 2 * 10 * 32 * 128 * 2);
    ck_assert_double_eq(need.operations, 4.0 * 10 * (4096 + 416) * 32 * 128);
    struct gpu_limits card = {.read_bps = 4525e9, .tensor_flops = 790e12};
    ck_assert_double_eq_tol(gpu_floor_us(&need, &card), 29.93, 0.005);
    card.tensor_flops = need.operations / 100e-6;
    ck_assert_double_eq_tol(gpu_floor_us(&need, &card), 100, 1e-9);
    nform_free_with_tree(nf);

    CLEARED_BY(tree_source_clear)
    struct tree_source src; /* what nobody sees need not be read: a dead subtree, the end of a node */
    ck_assert(tree_source_parse("nodes:-1.40,0.20,0.0,1.9,-1.11,4.6:0.30,1.3", &src, NULL));
    AUTO(tree) t = tree_source_load(&src, NULL);
    nf = nform_new(t);
    ck_assert_int_eq(gpu_unique_kv(nf, &heads_32_32), (40 + 3) * 2 * 32 * 128 * 2);
}

TEST(times_have_a_median_and_a_spread)
{
    double us[] = {9, 1, 5, 3, 100};
    struct gpu_time t = gpu_time_of(us, 5);
    ck_assert(t.median_us == 5 && t.min_us == 1 && t.p90_us == 100 && t.mad_us == 4 && t.reps == 5);
    double two[] = {4, 2};
    t = gpu_time_of(two, 2);
    ck_assert(t.median_us == 3 && t.mad_us == 1 && t.p90_us == 4);
    double ten[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
    ck_assert(gpu_time_of(ten, 10).p90_us == 9);
}

/* Floor 9 us, least chain 5: the limit for a row is 9 + 0.8 x 5. */
TEST(a_time_under_its_limit_is_invalid)
{
    ck_assert_int_eq(gpu_verdict_of(V_PASS, 14, 9, 5), GPU_PASS);
    ck_assert_int_eq(gpu_verdict_of(V_PASS, 13, 9, 5), GPU_PASS);
    ck_assert_int_eq(gpu_verdict_of(V_PASS, 12.99, 9, 5), GPU_INVALID);
    ck_assert_int_eq(gpu_verdict_of(V_MARGINAL, 12.99, 9, 5), GPU_INVALID);
    ck_assert_int_eq(gpu_verdict_of(V_PASS, 8.99, 9, 0), GPU_INVALID);
    ck_assert_int_eq(gpu_verdict_of(V_PASS, NAN, 9, 5), GPU_INVALID);
    ck_assert_int_eq(gpu_verdict_of(V_MARGINAL, 14, 9, 5), GPU_MARGINAL);
    ck_assert_int_eq(gpu_verdict_of(V_FAIL, 8, 9, 5), GPU_FAIL); /* wrong comes before too fast */
}

TEST(the_sets_are_the_papers)
{
    static const struct {
        const char *list;
        int32_t n, with_heads;
    } all[] = {{"fasttree-fig9", 45, 15},
               {"pat-fig9", 80, 20},
               {"speculative", 18, 6},
               {"pat-fig9,speculative", 98, 26}};
    struct gpu_config *c;
    int32_t n;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int heads = 0; heads < 2; heads++) {
            ck_assert(gpu_sets(all[i].list, &heads_32_32, heads, &c, &n, NULL));
            ck_assert_int_eq(n, heads ? all[i].with_heads : all[i].n);
            for (int32_t k = 0; k < n; k++) {
                AUTO(tree) t = tree_source_load(&c[k].src, NULL);
                ck_assert(t && problem_spec_check(&c[k].spec, NULL));
                tree_source_clear(&c[k].src);
            }
            free(c);
        }
    struct err e = {0};
    ck_assert(!gpu_sets("pat-fig9,fig10", &heads_32_32, false, &c, &n, &e));
    ck_assert(strstr(e.msg, "fig10") && c == NULL && n == 0);
}

/* A table that a bench wrote has many rows of a tree; a list has a set and a number. Both are trees and head counts. */
TEST(a_table_is_a_set)
{
    static const char list[] = "# of two sets\nset,number,heads,tree\nspeculative,1,32/8,\"levels:1,2_30,5\"\nseen,2,28/4,gen:bushy:3\n"
                               "speculative,1,32/8,\"levels:1,2_30,5\"\nseen,1,32/8,\"levels:1,2_30,5\"\n",
                      table[] = "strategy,tree,heads,time_us\npat,\"levels:1,2_30,5\",16/8,1\ncascade,\"levels:1,2_30,5\",16/8,2\n"
                                "strategy,tree,heads,time_us\npat,\"levels:1,2_30,5\",32/8,3\n";
    static const struct {
        const char *set;
        int32_t number, h_q, h_kv;
        const char *tree;
    } want[] = {{"speculative", 1, 32, 8, "levels:1,2_30,5"}, {"seen", 2, 28, 4, "gen:bushy:3"}, {"seen", 1, 32, 8, "levels:1,2_30,5"},
                {"-", 0, 16, 8, "levels:1,2_30,5"},           {"-", 0, 32, 8, "levels:1,2_30,5"}};
    enum { OF_LISTS = sizeof want / sizeof *want };
    FREED char *a = scratch_file(list, sizeof list - 1), *b = scratch_file(table, sizeof table - 1);
    FREED char *as = xasprintf("%s.csv", a), *bs = xasprintf("%s.csv", b), *names = xasprintf("%s,%s,speculative", as, bs);
    ck_assert(rename(a, as) == 0 && rename(b, bs) == 0);
    struct gpu_config *c;
    int32_t n;
    ck_assert(gpu_sets(names, &heads_32_32, false, &c, &n, NULL));
    ck_assert_int_eq(n, OF_LISTS + 18);
    for (int32_t i = 0; i < n; i++) {
        FREED char *tree = tree_source_print(&c[i].src);
        if (i < OF_LISTS)
            ck_assert_msg(strcmp(c[i].set, want[i].set) == 0 && c[i].number == want[i].number && c[i].spec.heads.h_q == want[i].h_q &&
                              c[i].spec.heads.h_kv == want[i].h_kv && strcmp(tree, want[i].tree) == 0,
                          "%d is %s %d %s", i, c[i].set, c[i].number, tree);
        tree_source_clear(&c[i].src);
    }
    free(c);
    ck_assert(gpu_sets(bs, &heads_32_32, true, &c, &n, NULL) && n == 1 && c->spec.heads.h_kv == 32);
    tree_source_clear(&c->src);
    free(c);
    static const char *const bad[][2] = {{"tree,heads\nlevels:1_2,32\n", ":2: "}, {"tree,time\nlevels:1_2,3\n", "heads"},
                                         {"tree,heads,number\nlevels:1_2,32/8,-1\n", "number"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        write_bytes(as, bad[i][0], strlen(bad[i][0]));
        ck_assert(!gpu_sets(as, &heads_32_32, false, &c, &n, &e) && c == NULL && n == 0);
        ck_assert_msg(strstr(e.msg, bad[i][1]), "%s", e.msg);
    }
}

/* Two trees, three strategies; times are multiples of the floor. */
struct bench_fixture {
    struct gpu_bench b;
    struct gpu_config *config;
    struct strategy_use use[3];
    struct gpu_row row[6];
    struct gpu_peers peers;
};

static struct bench_fixture bench_fixture(void)
{
    static const double over_floor[6] = {2, 3, 1.5, 4, 1.25, 5};
    struct bench_fixture x = {.b = {.limits = {.read_bps = PEER_READ_BPS, .tensor_flops = PEER_TENSOR_FLOPS},
                                    .kernel = kernel_find("cuda"),
                                    .sms = 132}};
    int32_t n;
    ck_assert(gpu_sets("pat-fig9", &heads_32_32, true, &x.config, &n, NULL));
    for (int i = 0; i < 3; i++)
        ck_assert(strategy_parse((const char *[]){"fasttree", "pat", "cascade"}[i], &x.use[i], NULL));
    for (int i = 0; i < 6; i++) {
        const struct gpu_config *c = &x.config[i / 3 ? 19 : 0]; /* 1,10 4096,416 and 256 4096 */
        AUTO_WITH_TREE nf = nform_new(tree_source_load(&c->src, NULL));
        struct gpu_row *r = &x.row[i];
        *r = (struct gpu_row){.config = c, .verdict = GPU_PASS, .need = gpu_need(nf, &c->spec)};
        r->unique_kv = gpu_unique_kv(nf, &c->spec);
        r->ledger.kv = r->bytes = r->unique_kv;
        r->floor_us = gpu_floor_us(&r->need, &x.b.limits);
        r->time = (struct gpu_time){.median_us = over_floor[i] * r->floor_us, .reps = 21};
        r->chain_us = r->floor_us; /* time / (floor + chain) is half of time / floor */
        r->grid = (struct gpu_grid){.ctas = 600, .longest = 1};
    }
    return x;
}

static void bench_fixture_free(struct bench_fixture *x)
{
    for (int32_t i = 0; i < 20; i++)
        tree_source_clear(&x->config[i].src);
    free(x->config);
    gpu_peers_free(&x->peers);
}

/* Does gpu_summary print this? Links rows and uses. */
static bool summary_has(struct bench_fixture *x, const char *words)
{
    FREED char *text = NULL;
    size_t size;
    for (int i = 0; i < 6; i++)
        x->row[i].use = &x->use[i % 3];
    FILE *f = open_memstream(&text, &size);
    gpu_summary(f, "# ", &x->b, x->row, 6, &x->peers);
    fclose(f);
    bool has = strstr(text, words) != NULL;
    return has;
}

/* A folder with one file of peers' timings. */
static char *peers_folder(const char *csv)
{
    char *dir = scratch_folder();
    FREED char *path = xasprintf("%s/a.csv", dir);
    write_bytes(path, csv, strlen(csv));
    return dir;
}

/* Peers are read with their card's bandwidth, and compared by time over floor; what was not measured is left out. */
TEST(peers_are_compared_by_time_over_floor)
{
    CLEARED(bench_fixture) x = bench_fixture();
    FREED char *csv =
        xasprintf("set,idx,N,C,hq,hk,dtype,B,T,method,cold_us,hot_us,timing,rel_l2,status,lb_us,note\n"
                  "bw,,,,,,,,,copy_GBps=1,,,,,read_GBps=2262.5\n" /* half of ours: floors twice as long */
                  "P,0,\"1,10\",\"4096,416\",32,32,fp16,10,1,ft,%.9g,1,graph,1e-4,ok,1,\"a, b\"\n"
                  "P,0,\"1,10\",\"4096,416\",32,32,fp16,10,1,pat,%.9g,1,graph,1e-4,ok,1,\n"
                  "P,0,\"1,10\",\"4096,416\",32,32,fp16,10,1,sdpa,1,1,graph,1e-4,wrong,1,\n"
                  "P,0,\"1,10\",\"4096,416\",32,8,fp16,10,1,pat,1,1,graph,1e-4,ok,1,\n"
                  "P,19,256,4096,32,32,fp16,10,1,pat,%.9g,1,graph,1e-4,ok,1,\n",
                  4 * 2 * x.row[0].floor_us, 1.5 * 2 * x.row[0].floor_us, 2.5 * 2 * x.row[3].floor_us);
    FREED char *dir = peers_folder(csv);
    ck_assert(gpu_peers_read(dir, &x.peers, NULL));
    ck_assert_int_eq(x.peers.n, 4);
    ck_assert(summary_has(
        &x, "# pat's plan against the released PAT kernel: 2 trees and head counts, time/floor 1.000"));
    ck_assert(summary_has(&x, "# best plan of each tree: time/floor 1.369 (geometric mean of 2)"));
    ck_assert(!summary_has(&x, "void"));
    struct gpu_match m =
        gpu_match(x.row, 6, &x.peers, "fasttree", "ft"); /* 2 against 4; the other tree has no ft */
    ck_assert(m.n == 1 && m.better == 1 && fabs(m.ratio - 0.5) < 1e-6);
    m = gpu_match(x.row, 6, &x.peers, "pat", "pat"); /* 3 against 1.5, 1.25 against 2.5 */
    ck_assert(m.n == 2 && m.better == 1 && fabs(m.ratio - 1) < 1e-6);
    m = gpu_match(x.row, 6, &x.peers, NULL, NULL); /* 1.5 against 1.5, 1.25 against 2.5 */
    ck_assert(m.n == 2 && m.better == 2 && fabs(m.ratio - sqrt(0.5)) < 1e-6);
    x.row[2].verdict = GPU_INVALID; /* does not count: the best of the first tree is now 2 */
    m = gpu_match(x.row, 6, &x.peers, NULL, NULL);
    ck_assert(fabs(m.ratio - sqrt(0.5 * 2 / 1.5)) < 1e-6);
    x.b.limits.read_bps *= 1.031;
    ck_assert(summary_has(&x, "void: read bandwidth +3.1 %"));
    x.b.limits.read_bps /= 1.031;
    x.b.flush_reads = true;
    ck_assert(!summary_has(&x, "void: read bandwidth") && summary_has(&x, "void: they were timed"));
}

TEST(peers_that_are_none_are_refused)
{
    struct gpu_peers p;
    FREED char *dir = peers_folder("a,b,c\nbw,1\n");
    FAILS("no timings", gpu_peers_read, dir, &p);
    ck_assert_int_eq(p.n, 0);
    FAILS("/nonexistent", gpu_peers_read, "/nonexistent", &p);
}

/* Both bars of speed: a forest without sharing, and plans without an excuse. */
TEST(bars_are_in_the_summary)
{
    CLEARED(bench_fixture) x = bench_fixture();
    x.b.flush_reads = true;
    /* 1.25 x the floor; Q and O are a little of the floor's bytes */
    ck_assert(summary_has(&x, "# 256 4096: 80.0 %"));
    ck_assert(summary_has(&x, "pat on 256_4096 at 32/32"));
    ck_assert(!summary_has(&x, "plans are made"));
    ck_assert(summary_has(&x, "6 rows, 1 at 75 % of the read bandwidth or more; least 20.0 %, cascade"));
    ck_assert(summary_has(&x, "over 100 MB, neither serial, unfused nor one row a tile: 6 rows"));
    for (int i = EXCUSE_SERIAL; i <= EXCUSE_ONE_ROW; i++) {
        x.row[4].excuse = (enum gpu_excuse)i;
        ck_assert(summary_has(&x, "5 rows, 0 at 75 %"));
    }
    x.row[4].excuse = EXCUSE_NONE;
    x.b.flush_reads = false; /* what is written back is nobody's kernel */
    ck_assert(!summary_has(&x, "at 75 %"));
    x.b.flush_reads = true;
    x.row[0].grid.ctas = 527;
    x.row[1].grid.longest = 2.1;
    x.row[2].ledger.kv = x.row[2].unique_kv * 12 / 10;
    x.row[3].verdict = GPU_SKIP;
    x.row[4].ledger.kv = 99000000;
    ck_assert(summary_has(&x, "1 rows, 0 at 75 %"));
    ck_assert(summary_has(&x, "rows: 6, 5 PASS, 0 MARGINAL, 0 FAIL, 1 SKIP, 0 INVALID"));
    x.b.sms = 108;
    ck_assert(summary_has(&x, "# plans are made for h200, which has 132 SMs; this card has 108: those"));
}

/* Time over floor + chain, by class of the floor (30 and 120 us here), of the best plan and of ours. */
TEST(distances_to_the_limit_are_in_the_summary)
{
    CLEARED(bench_fixture) x = bench_fixture();
    ck_assert(!summary_has(&x, "least chain"));
    x.b.chain_us[0] = 6.25;
    x.b.chain_us[1] = 7.5;
    x.b.empty_us = 3;
    ck_assert(summary_has(
        &x, "# least chain: 6.25 us, with a merge 7.50 us, an empty kernel 3.00 us; L2 emptied by writing"));
    ck_assert(summary_has(
        &x, "# time/(floor + chain) of the best plan of each tree (geometric mean): all 0.685 of 2; 15 to "
            "50 us 0.750 of 1; over 50 us 0.625 of 1\n"));
    ck_assert(!summary_has(&x, "of treeattn"));
    ck_assert(strategy_parse("treeattn", &x.use[2], NULL));
    x.row[0].floor_us = x.row[0].chain_us = x.row[2].floor_us = x.row[2].chain_us =
        x.row[2].time.median_us / 4;
    strcpy(x.config[0].set, "speculative");
    x.row[5].verdict = GPU_INVALID;
    ck_assert_double_eq_tol(gpu_over_limit(&x.row[2]), 2, 1e-12);
    x.row[2].floor_us = x.row[2].chain_us = 5;
    x.row[2].time.median_us = 30;
    ck_assert(summary_has(
        &x, "# time/(floor + chain) of treeattn (geometric mean): all 3.000 of 1; floor under 15 us 3.000 "
            "of 1; speculative 3.000 of 1\n"));
}

/* What a kernel may plead: the second launch waits, scores go through memory, or tiles hold a row. */
TEST(plans_have_excuses)
{
    AUTO_WITH_TREE nf = form("1,4 100,50");
    for (int second = LAUNCH_SERIAL; second <= LAUNCH_CONCURRENT; second++)
        for (int split = 40; split <= 60; split += 20) {
            AUTO(plan) plan = plan_new(nf, "test");
            struct sel s = {0};
            plan_launch(plan, "first", LAUNCH_SERIAL);
            plan_launch(plan, "second", (enum launch_order)second);
            sel_queries(&s, 0, 4);
            sel_run(&s, 0, 0, 100);
            plan_group(plan, &s,
                       &(struct group_spec){.tile_m = 16, .tile_n = 16, .launch = 0, .kv_end = 100});
            for (int32_t q = 0; q < 4; q++) {
                sel_clear(&s);
                sel_queries(&s, q, q + 1);
                sel_run(&s, 1 + q, 0, 50);
                plan_group(plan, &s,
                           &(struct group_spec){
                               .tile_m = 16, .tile_n = 16, .launch = 1, .kv_end = split == 40 ? 20 : 50});
            }
            plan_merge_flat(plan, "merge", true);
            /* alone: 4 x 20 or 4 x 50 tokens beside 100 */
            enum gpu_excuse should = second == LAUNCH_SERIAL ? EXCUSE_SERIAL
                                     : split == 60           ? EXCUSE_ONE_ROW
                                                             : EXCUSE_NONE;
            ck_assert_int_eq(gpu_excuse_of(plan, 4, 4), should);
            if (second == LAUNCH_CONCURRENT) /* two heads share K and V */
                ck_assert_int_eq(gpu_excuse_of(plan, 8, 4), EXCUSE_NONE);
            plan->unfused = true;
            ck_assert_int_eq(gpu_excuse_of(plan, 4, 4), EXCUSE_UNFUSED);
            plan->unfused = false;
            sel_free(&s);
        }
}

/* As many cells as columns, whatever a row lacks; JSON that parses. */
TEST(rows_are_whole)
{
    CLEARED(bench_fixture) x = bench_fixture();
    x.row[0].use = x.row[1].use = &x.use[0];
    x.row[1].verdict = GPU_SKIP;
    x.row[1].time = (struct gpu_time){0};
    x.row[1].grid = (struct gpu_grid){0};
    snprintf(x.row[1].why, sizeof x.row[1].why, "OOM (needs 1.5 GiB)");
    for (int style = STYLE_TEXT; style <= STYLE_JSON; style++) {
        FREED char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        struct printer t = {
            .f = f, .style = (enum style)style, .column = gpu_columns, .aligned = true, .width = gpu_width};
        gpu_row_print(&t, &x.b, "NVIDIA H200", &x.row[0]);
        gpu_row_print(&t, &x.b, "NVIDIA H200", &x.row[1]);
        ck_assert_int_eq(t.at, 0);
        ck_assert_int_eq(t.rows, 2);
        table_end(&t);
        fclose(f);
        ck_assert(strstr(text, "OOM (needs 1.5 GiB)") && strstr(text, "NVIDIA H200"));
        if (style == STYLE_JSON) {
            json_t *rows = json_loads(text, 0, NULL);
            ck_assert_int_eq(json_array_size(rows), 2);
            ck_assert(json_is_null(json_object_get(json_array_get(rows, 1), "time_us")));
            ck_assert_double_eq_tol(
                json_number_value(json_object_get(json_array_get(rows, 0), "time_over_floor")), 2, 1e-9);
            ck_assert_double_eq_tol(
                json_number_value(json_object_get(json_array_get(rows, 0), "time_over_limit")), 1, 1e-9);
            ck_assert_double_eq_tol(json_number_value(json_object_get(json_array_get(rows, 0), "chain_us")),
                                    json_number_value(json_object_get(json_array_get(rows, 0), "floor_us")),
                                    1e-9);
            ck_assert(json_is_null(json_object_get(json_array_get(rows, 1), "chain_us")));
            json_decref(rows);
        }
    }
}

/* Of three columns, in the table's order, nothing but these. */
TEST(rows_have_the_columns_asked_for)
{
    static const char *const want[] = {
        "strategy  verdict  device", "strategy,verdict,device\npat,PASS,A\n",
        "[\n  {\"strategy\": \"pat\", \"verdict\": \"PASS\", \"device\": \"A\"}"};
    CLEARED(bench_fixture) x = bench_fixture();
    struct err e = {0};
    ck_assert(strategy_parse("pat", &x.use[0], NULL));
    x.row[0].use = &x.use[0];
    for (int style = STYLE_TEXT; style <= STYLE_JSON; style++) {
        FREED char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        struct printer t = {.f = f,
                            .style = (enum style)style,
                            .column = gpu_columns,
                            .only = "device,strategy,verdict",
                            .aligned = true,
                            .width = gpu_width};
        gpu_row_print(&t, &x.b, "A", &x.row[0]);
        table_end(&t);
        fclose(f);
        char *squeezed = text; /* columns are as wide as they are */
        if (style == STYLE_TEXT) {
            char *to = text;
            int blanks = 0;
            for (const char *c = text; *c; c++) {
                blanks = *c == ' ' ? blanks + 1 : 0;
                if (blanks <= 2)
                    *to++ = *c;
            }
            *to = 0;
        }
        ck_assert_msg(strncmp(squeezed, want[style], strlen(want[style])) == 0, "%s", squeezed);
    }
    ck_assert(table_knows(gpu_columns, "device,strategy,verdict", &e));
    ck_assert(!table_knows(gpu_columns, "device,strateg", &e) && strstr(e.msg, "no column 'strateg'"));
    ck_assert(!table_knows(gpu_columns, "", &e) && strstr(e.msg, "expected some of strategy, verdict"));
}

/* Only what differs from the defaults is in the name of a row; a rule's rows match apart. */
TEST(rows_are_named_with_their_options)
{
    static const char *const text[][2] = {
        {"pat", "pat"},
        {"pat:rule=artifact", "pat:rule=artifact"},
        {"fasttree:gamma=0.5,rule=artifact", "fasttree:rule=artifact,gamma=0.5"},
        {"fasttree:gamma=0.123456789", "fasttree:gamma=0.123456789"},
    };
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        struct strategy_use use;
        ck_assert(strategy_parse(text[i][0], &use, NULL));
        FREED char *label = strategy_label(&use);
        ck_assert_str_eq(label, text[i][1]);
    }
    CLEARED(bench_fixture) x = bench_fixture();
    ck_assert(strategy_parse("pat:rule=artifact", &x.use[0], NULL));
    ck_assert(summary_has(&x, "rows: 6")); /* links rows and uses: 2 and 4 times the floor */
    x.peers.at = xcalloc(1, sizeof *x.peers.at);
    x.peers.at[x.peers.n++] = (struct gpu_peer){.tree = xstrdup("1,10_4096,416"),
                                                .h_q = 32,
                                                .h_kv = 32,
                                                .method = "pat",
                                                .us = x.row[0].floor_us,
                                                .read_bps = PEER_READ_BPS};
    struct gpu_match m = gpu_match(x.row, 6, &x.peers, "pat:rule=artifact", "pat");
    ck_assert(m.n == 1 && fabs(m.ratio - 2) < 1e-6);
    m = gpu_match(x.row, 6, &x.peers, "pat", "pat");
    ck_assert(m.n == 1 && fabs(m.ratio - 3) < 1e-6);
}

TEST(grids_count_tiles_and_heads)
{
    AUTO_WITH_TREE nf = form("1,4 100,50");
    AUTO(plan) plan = plan_new(nf, "test");
    struct sel s = {0};
    int32_t launch = plan_launch(plan, "attention", LAUNCH_SERIAL);
    sel_queries(&s, 0, 4);
    sel_run(&s, 0, 0, 100);
    plan_group(plan, &s, &(struct group_spec){.tile_m = 16, .tile_n = 16, .launch = launch});
    for (int32_t q = 0; q < 4; q++) {
        sel_clear(&s);
        sel_queries(&s, q, q + 1);
        sel_run(&s, 1 + q, 0, 50);
        plan_group(plan, &s, &(struct group_spec){.tile_m = 16, .tile_n = 16, .launch = launch});
    }
    plan_merge_flat(plan, "merge", true);
    struct gpu_grid g =
        gpu_grid_of(plan, 64, 8); /* 8 rows a query: two tiles of the first group, one of each other */
    ck_assert_int_eq(g.ctas, 6 * 8);
    ck_assert_double_eq_tol(g.longest, 100 / ((2 * 100 + 4 * 50) / 6.0), 1e-12);
    sel_free(&s);
}

/* ---- on a card that is none -------------------------------------------------------------------------------- */

static struct result judge_on_fake(enum fake_fault fault, const char *text)
{
    CLEARED_BY(case_clear) struct case_spec c;
    struct err e = {0};
    ck_assert_msg(case_parse(text, &c, &e), "%s", e.msg);
    fake_gpu.there = true;
    fake_gpu.fault = fault;
    struct test_case *b = test_case_new(&c, NULL, &e);
    ck_assert_ptr_nonnull(b);
    struct result r = judge_case(b, &c.use, kernel_find("cuda"));
    fake_gpu.there = false;
    test_case_free(b);
    return r;
}

static const char small_case[] = "tree=levels:1,12_100,5;heads=16/4;d=64;dtype=bf16;strategy=pat";

/* Everything that a run may do wrong beside its result, and the result, are seen on the way through the registry. */
LOOP_TEST(runs_on_a_device_are_guarded, FAKE_OLD_OUTPUT + 1)
{
    static const char *const says[] = {
        [FAKE_SOUND] = "",
        [FAKE_WRITES_BEHIND_O] = "canary behind O was overwritten, 0 bytes",
        [FAKE_WRITES_BEFORE_WORKSPACE] = "canary before workspace",
        [FAKE_WRITES_BEHIND_WORKSPACE] = "canary behind workspace was overwritten at its byte 0",
        [FAKE_WRITES_K] = "K was overwritten at byte 0",
        [FAKE_WRITES_COPY] = "the copy of Q, K, V and page table was overwritten",
        [FAKE_GRAPH_WRITES_K] = "K was overwritten at byte 0",
        [FAKE_CHANGES] = "replay of a CUDA graph wrote other bits",
        [FAKE_LEAVES_ROW] = "LSE is nan (never written)",
        [FAKE_OLD_OUTPUT] = "replay of a CUDA graph wrote other bits"};
    struct guarded_tally before = guarded_tally();
    struct result r = judge_on_fake((enum fake_fault)_i, small_case);
    struct guarded_tally after = guarded_tally();
    ck_assert_msg(strstr(r.why, says[_i]), "%s", r.why);
    ck_assert_int_eq(r.verdict, _i == FAKE_SOUND ? V_PASS : V_FAIL);
    bool whole = _i == FAKE_SOUND || _i == FAKE_LEAVES_ROW;
    /* a wrong number is asked for once more, for its cause */
    ck_assert_int_eq(after.replays - before.replays, _i == FAKE_LEAVES_ROW ? 2 : _i == FAKE_SOUND);
    if (whole)
        ck_assert_int_ge(after.guard_bytes - before.guard_bytes, 8 * 256);
}

/* What a card cannot do is a SKIP with its reason; without a card nothing is ready. */
TEST(what_a_device_lacks_is_a_skip)
{
    struct err e = {0};
    ck_assert(!kernel_ready(kernel_find("cuda"), &e) && e.code == EXIT_MISSING);
    struct result r = judge_on_fake(FAKE_SOUND, "tree=levels:1,2_9,5;heads=2/1;d=80;dtype=f16;strategy=pat");
    ck_assert(r.verdict == V_SKIP && strstr(r.why, "head size 80"));
    fake_gpu.memory = 1 << 16;
    r = judge_on_fake(FAKE_SOUND, small_case);
    ck_assert(r.verdict == V_SKIP && strstr(r.why, "out of memory"));
}

/* One tree, some strategies, on the fake. */
struct bench_run {
    struct gpu_bench b;
    struct gpu_row row[3];
    int32_t n_rows;
    bool done;
    struct err e;
};

enum bench_rows { ALL_ROWS, DISTINCT_ROWS, FASTEST_ROWS };
/* `room`: bytes that are free once the bench is open. */
/* before: what the bench knows of memory as it begins. */
static struct bench_run bench_of(const char *const names[3], enum bench_rows rows, enum fake_fault fault,
                                 int64_t room, bool flush_reads, int64_t slow_reads, struct gpu_bench before)
{
    static struct strategy_use use[3];
    static struct gpu_config c;
    struct bench_run x = {.b = {.kernel = kernel_find("cuda"),
                                .reps = 5,
                                .seed = 3,
                                .flush_reads = flush_reads,
                                .distinct = rows == DISTINCT_ROWS,
                                .fastest = rows == FASTEST_ROWS,
                                .probe_us = before.probe_us,
                                .chain_us = {before.chain_us[0], before.chain_us[1]},
                                .disturbed = before.disturbed}};
    for (int i = 0; i < 3; i++)
        ck_assert(strategy_parse(names[i], &use[i], NULL));
    c = (struct gpu_config){.set = "-", .spec = {.heads = {8, 2, 64, DT_F16}, .page_size = 16}};
    ck_assert(tree_source_parse("levels:1,5_90,20", &c.src, NULL));
    fake_gpu.there = true;
    fake_gpu.fault = fault;
    fake_gpu.memory = INT64_C(2) << 30;
    ck_assert_msg(gpu_bench_open(&x.b, &x.e), "%s", x.e.msg);
    fake_gpu.memory = fake_gpu.allocated + room;
    fake_gpu.reads = 0;
    fake_gpu.slow_reads = slow_reads;
    x.done = gpu_bench_config(&x.b, &c, use, 3, x.row, &x.n_rows, &x.e);
    gpu_bench_close(&x.b);
    tree_source_clear(&c.src);
    return x;
}

static const struct gpu_bench settled = {.probe_us = 100};

static struct bench_run bench_on_fake(enum fake_fault fault, int64_t room, bool flush_reads,
                                      int64_t slow_reads)
{
    static const char *const names[] = {"pat", "tree-specinfer", "flash-decoding"};
    return bench_of(names, ALL_ROWS, fault, room, flush_reads, slow_reads, settled);
}

/* pat makes the plan of its default rule twice; what does not apply is a row every time. */
TEST(plans_that_were_there_are_left_out)
{
    static const char *const names[] = {"pat", "tree-specinfer", "pat:rule=paper"};
    struct bench_run x = bench_of(names, DISTINCT_ROWS, FAKE_SOUND, 1 << 28, false, 0, settled);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert_int_eq(x.n_rows, 2);
    ck_assert(x.row[0].verdict == GPU_PASS && x.row[1].verdict == GPU_SKIP);
    ck_assert_int_eq(fake_gpu.live, 0);
    x = bench_of(names, ALL_ROWS, FAKE_SOUND, 1 << 28, false, 0, settled);
    ck_assert(x.done && x.n_rows == 3 && x.row[2].verdict == GPU_PASS);
}

/* Of pat's plans the fastest is a row, timed once more; one that is wrong before all others. */
TEST(the_fastest_of_a_strategy_is_its_row)
{
    static const char *const three[] = {"pat", "pat:max_rows=16", "flash-decoding"};
    static const char *const two[] = {"pat", "tree-specinfer", "pat:rule=paper"};
    struct bench_run x = bench_of(three, FASTEST_ROWS, FAKE_SOUND, 1 << 28, false, 0, settled);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert_int_eq(x.n_rows, 2);
    ck_assert(strcmp(x.row[0].use->s->name, "pat") == 0 &&
              strcmp(x.row[1].use->s->name, "flash-decoding") == 0);
    ck_assert(x.row[0].verdict == GPU_PASS && x.row[1].verdict == GPU_PASS);
    ck_assert_str_eq(x.row[0].why, "the fastest of 2 plans");
    ck_assert_str_eq(x.row[1].why, "");
    ck_assert_int_eq(fake_gpu.replays, (2 + 1 + 1) * (3 + 5));
    ck_assert_int_eq(fake_gpu.live, 0);
    for (int slow = 0; slow < 2; slow++) {
        fake_gpu.replays = 0;
        fake_gpu.slow_from = slow * (3 + 5);
        fake_gpu.slow_to = fake_gpu.slow_from + 3 + 5;
        x = bench_of(three, FASTEST_ROWS, FAKE_SOUND, 1 << 28, false, 0, settled);
        FREED char *label = strategy_label(x.row[0].use);
        ck_assert_str_eq(label, three[1 - slow]);
        ck_assert(x.row[0].time.median_us < 50000);
    }
    fake_gpu.replays = 0; /* the second plan is wrong, and slow */
    x = bench_of(three, FASTEST_ROWS, FAKE_OLD_OUTPUT, 1 << 28, false, 0, settled);
    ck_assert(x.done && x.n_rows == 2 && x.row[0].verdict == GPU_FAIL && x.row[1].verdict == GPU_PASS);
    fake_gpu.slow_to = 0;
    fake_gpu.replays = 0;
    x = bench_of(two, FASTEST_ROWS, FAKE_SOUND, 1 << 28, false, 0, settled);
    ck_assert(x.done && x.n_rows == 2 && x.row[0].why[0] == 0 && x.row[1].verdict == GPU_SKIP);
    ck_assert_int_eq(fake_gpu.replays, 3 + 5);
    fake_gpu.replays = 0;
    x = bench_of(three, FASTEST_ROWS, FAKE_OLD_OUTPUT, 1 << 28, false, 0, settled);
    ck_assert(x.done && x.n_rows == 2 && x.row[0].verdict == GPU_FAIL && x.row[1].verdict == GPU_FAIL);
    ck_assert_int_eq(fake_gpu.replays, 3 * (3 + 5));
}

/* Reads of 256 MB before a row, to see how fast memory is. */
enum { PROBES = 10 };

/* A row waits while memory is slow; what does not end is not waited for again. */
TEST(slow_memory_is_waited_for)
{
    struct bench_run x = bench_on_fake(FAKE_SOUND, 1 << 28, false, 3 * PROBES);
    ck_assert_msg(x.done && x.b.waits == 1 && x.b.disturbed == 0, "%s", x.e.msg);
    ck_assert_msg(x.b.waited_s >= 0.06 && x.b.waited_s < 2, "%g", x.b.waited_s);
    x = bench_on_fake(FAKE_SOUND, 1 << 28, false, INT64_MAX);
    ck_assert_msg(x.done && x.b.waits == 1 && x.b.disturbed == 1, "%s", x.e.msg);
    ck_assert_double_eq_tol(x.b.probe_us, 200, 20);
    ck_assert(x.row[0].verdict == GPU_PASS && x.row[2].verdict == GPU_PASS);
}

/* A run's first row reads on until it knows how fast memory is, and waits for nothing then; nine waits in vain make the tenth a
 * tenth as long. */
TEST(first_rows_read_and_vain_waits_end_sooner)
{
    static const char *const names[] = {"pat", "tree-specinfer", "flash-decoding"};
    struct bench_run x =
        bench_of(names, ALL_ROWS, FAKE_SOUND, 1 << 28, false, 3 * PROBES, (struct gpu_bench){.probe_us = 0});
    ck_assert_msg(x.done && x.b.waits == 0 && x.b.disturbed == 0, "%s", x.e.msg);
    ck_assert_double_eq_tol(x.b.probe_us, 100, 10);
    ck_assert_int_gt(fake_gpu.reads, 3 * PROBES);
    x = bench_of(names, ALL_ROWS, FAKE_SOUND, 1 << 28, false, INT64_MAX,
                 (struct gpu_bench){.probe_us = 100, .disturbed = 9});
    ck_assert_msg(x.done && x.b.waits == 1 && x.b.disturbed == 10, "%s", x.e.msg);
    ck_assert_msg(x.b.waited_s >= 0.3 && x.b.waited_s < 1.5, "%g", x.b.waited_s);
}

/* The limits are measured on matrices of 128 MiB; what does not fit is not multiplied. */
TEST(limits_want_their_memory)
{
    struct gpu_limits x;
    struct err e = {0};
    fake_gpu.there = true;
    fake_gpu.memory = INT64_C(1023) << 20;
    ck_assert(!gpu_limits_measure(&x, &e) && e.code == EXIT_MISSING);
    ck_assert_str_eq(e.msg, "the bench wants 1024 MiB of free GPU memory, there are 1023");
    ck_assert_int_eq(fake_gpu.allocated, 0);
}

/* Poison, flush and replay as often as said; all memory given back; wrong and stale outputs, and a wrong exact answer,
 * are no PASS. */
TEST(the_protocol_is_kept)
{
    struct bench_run x = bench_on_fake(FAKE_SOUND, 1 << 28, false, 0);
    ck_assert_msg(x.done, "%s", x.e.msg);
    for (int i = 0; i < 3; i += 2) {
        ck_assert_msg(x.row[i].verdict == GPU_PASS, "%s", x.row[i].why);
        ck_assert(x.row[i].time.reps >= 5 && x.row[i].worst > 0 && x.row[i].worst < 0.5 &&
                  x.row[i].bytes > 0);
    }
    ck_assert(x.row[1].verdict == GPU_SKIP && strstr(x.row[1].why, "not visible"));
    ck_assert_int_eq(fake_gpu.replays, 2 * (3 + 5));
    ck_assert_int_eq(fake_gpu.chains, N_CHAIN_WAYS * (5 + 51)); /* once a run, and the L2 emptied for each */
    ck_assert_int_eq(fake_gpu.fills, 2 * (3 + 5) + fake_gpu.chains);
    ck_assert_int_eq(fake_gpu.runs, 2 * (3 + 5));
    ck_assert_int_eq(fake_gpu.reads, 2 * PROBES);
    ck_assert_int_eq(fake_gpu.live, 0);
    fake_gpu.chains = 0;
    x = bench_on_fake(FAKE_SOUND, 1 << 28, true, 0);
    ck_assert_msg(x.done && x.row[0].verdict == GPU_PASS, "%s", x.e.msg);
    ck_assert_int_eq(fake_gpu.reads, 2 * (3 + 5 + PROBES) + fake_gpu.chains);
    ck_assert_int_eq(fake_gpu.live, 0);
}

/* What the probe takes is in the rows; of plans with partial results what it takes with a merge. Rows that are faster than floor
 * and chain can be are INVALID; a probe that writes nothing ends the run. */
TEST(the_least_chain_is_measured)
{
    fake_gpu.chain_us = 20;
    struct bench_run x = bench_on_fake(FAKE_SOUND, 1 << 28, true, 0);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert(x.b.chain_us[0] >= 20 && x.b.chain_us[1] >= 20 && x.b.empty_us >= 20);
    x.b.chain_us[0] = 0; /* one run of the fake is as long as another, so here they are told apart by hand */
    static const char *const names[] = {"pat", "tree-specinfer", "flash-attention"};
    struct gpu_bench told = {.probe_us = 100, .chain_us = {2, 3}};
    x = bench_of(names, ALL_ROWS, FAKE_SOUND, 1 << 28, true, 0, told);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert(x.row[0].chain_us == 3 && x.row[1].chain_us == 0 && x.row[2].chain_us == 2);
    fake_gpu.chain_us = 1e7;
    x = bench_on_fake(FAKE_SOUND, 1 << 28, true, 0);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert(x.row[0].verdict == GPU_INVALID && x.row[2].verdict == GPU_INVALID &&
              x.row[1].verdict == GPU_SKIP);
    ck_assert(x.row[0].worst > 0 && x.row[0].worst < 0.5); /* right, but too fast */
    fake_gpu.chain_us = 0;
    x = bench_on_fake(FAKE_NO_CHAIN, 1 << 28, true, 0);
    ck_assert(!x.done && strstr(x.e.msg, "the probe of the least chain wrote a wrong result: 0 of 2"));
    ck_assert_int_eq(fake_gpu.live, 0);
}

TEST(what_is_wrong_does_not_pass)
{
    static const enum fake_fault faults[] = {FAKE_LEAVES_ROW, FAKE_OLD_OUTPUT, FAKE_OLD_PARTIALS};
    for (int i = 0; i < 3; i++) {
        struct bench_run x = bench_on_fake(faults[i], 1 << 28, false, 0);
        ck_assert(x.done && x.row[0].verdict == GPU_FAIL && x.row[2].verdict == GPU_FAIL);
        ck_assert(strstr(x.row[0].why, "nan"));
    }
    struct bench_run x = bench_on_fake(FAKE_WRONG_TRUTH, 1 << 28, false, 0);
    ck_assert(!x.done && strstr(x.e.msg, "not the host's"));
    ck_assert_int_eq(fake_gpu.live, 0);
}

/* Copies that would not fit are said with their size; so is a tree that does not. */
TEST(memory_that_is_not_there_is_a_skip)
{
    /* 190 tokens fit, five times 110 do not: 512 bytes each. */
    struct bench_run x = bench_on_fake(FAKE_SOUND, 285000, false, 0);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert_msg(x.row[0].verdict == GPU_PASS, "%s", x.row[0].why);
    ck_assert(x.row[2].verdict == GPU_SKIP && strncmp(x.row[2].why, "OOM (needs ", 11) == 0);
    fake_gpu.memory = INT64_C(2) << 30;
    x = bench_on_fake(FAKE_SOUND, 60000, false, 0);
    ck_assert_msg(x.done, "%s", x.e.msg);
    ck_assert(x.row[0].verdict == GPU_SKIP && strncmp(x.row[0].why, "OOM (needs ", 11) == 0);
    ck_assert_int_eq(fake_gpu.live, 0);
}

/* ---- what was measured ------------------------------------------------------------------------------------- */

/* written: of a run with --flush write that was made before there was a probe. */
static void check_measured(const char *path, bool written)
{
    static const char *const needs[] = {
        "# treeattn bench", "device ", "driver ", "toolkit ", "commit ", "UTC", "measured here: read "};
    size_t n = 0;
    FREED char *text = file_text(path);
    char *columns = strchr(text, '\n'), head[1024] = "";
    while (columns && columns[1] == '#')
        columns = strchr(columns + 1, '\n');
    ck_assert_msg(columns, "%s has no rows", path);
    *columns++ = 0;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        ck_assert_msg(strstr(text, needs[i]), "%s: its head lacks '%s'", path, needs[i]);
    ck_assert_msg(!strstr(text, "commit unknown") && !strstr(text, "dirty"), "%s: of which commit?", path);
    for (int i = 0; gpu_columns[i]; i++)
        if (strcmp(gpu_columns[i], "again_us") != 0 && /* of benches with children */
            (!written ||
             (strcmp(gpu_columns[i], "chain_us") != 0 && strcmp(gpu_columns[i], "time_over_limit") != 0)))
            n += (size_t)snprintf(head + n, sizeof head - n, "%s%s", i ? "," : "", gpu_columns[i]);
    ck_assert_msg(strncmp(columns, head, n) == 0 && columns[n] == '\n', "%s: columns", path);
    ck_assert_msg(!strstr(columns, ",FAIL,"), "%s has figures that are none", path);
}

/* Committed timings say where they come from, have the columns of today, and no figure beside a wrong answer. */
LOOP_TEST(measured_files_say_where_they_come_from, 2)
{
    glob_t g;
    if (glob(_i ? "paper-figs/measured/*bench_write*.csv" : "paper-figs/measured/*bench_gpu*.csv", 0, NULL,
             &g) != 0) {
        printf("check_gpu: skipped, no measured files here\n");
        return;
    }
    for (size_t i = 0; i < g.gl_pathc; i++)
        check_measured(g.gl_pathv[i], _i == 1);
    globfree(&g);
}
