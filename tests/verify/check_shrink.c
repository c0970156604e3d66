/*
 * check_shrink.c - a failure becomes a small case, and the small case still fails.
 */
#include "tests/verify/faulty.h"
#include "verify/faults/faults.h"
#include "verify/io/rerun.h"
#include "verify/judge/shrink.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

AUTO_FREE(test_case, test_case, test_case_free)

static struct case_spec parse(const char *text)
{
    struct case_spec c;
    struct err e = {0};
    ck_assert_msg(case_parse(text, &c, &e), "%s: %s", text, e.msg);
    return c;
}

static struct result judged(const struct case_spec *c)
{
    struct err e = {0};
    AUTO(test_case) b = test_case_new(c, NULL, &e);
    ck_assert_msg(b != NULL, "%s", e.msg);
    struct result r = judge_case(b, &c->use, c->kernel);
    return r;
}

/* ---- planted faults ------------------------------------------------------------------------------------ */

/* Between them every kind has a place: long and short, glued groups, masks, merges, several heads, a query that
 * sees nothing, features. */
static const char *const ground[] = {
    "tree=gen:bushy:17;strategy=deft-flatten;kernel=cpu",
    "tree=gen:caterpillar:9;heads=8/2;d=128;dtype=bf16;strategy=pat;kernel=cpu",
    "tree=levels:2,6,24_200,60,9;heads=4/4;dtype=f32;page=1;strategy=fasttree;kernel=cpu",
    "tree=nodes:-1.200,0.40,0.0,1.9,1.30:0.0,0.150,1.40,2.0,3.9,4.17;heads=6/"
    "3;strategy=hydragen-tree;kernel=cpu",
    "tree=gen:token:5;heads=2/1;d=80;dtype=f64;strategy=tree-vanilla;kernel=cpu",
    "tree=levels:1,20_900,50;heads=6/2;d=32;dtype=f32;strategy=flash-decoding;kernel=cpu",
    "tree=nodes:-1.120,0.40,0.0,1.9:0.0,1.30,3.9,2.0;heads=8/"
    "4;dtype=f32;softcap=5;sinks=1;window=60;strategy=deft-node;kernel=cpu",
    "tree=nodes:-1.120,0.40,1.9:0.40,1.30,2.9;heads=6/3;dtype=f32;kv=e4m3;headscales=1;fill=span;strategy=deft-node;"
    "kernel=cpu",
    "tree=nodes:-1.90,0.40,1.9:0.40,1.30,2.9;heads=4/1;d=36;dv=32;dtype=f32;strategy=deft-node;kernel=cpu",
    "tree=nodes:-1.90,0.40,1.9:0.40,1.30,2.9;heads=4/2;d=48/32;dtype=f32;strategy=deft-node;kernel=cpu",
};
enum { N_GROUND = sizeof ground / sizeof ground[0] };

/* The first case, from case `from` on and around, in which that fault shows. */
static bool plant(const struct fault *f, int32_t from, struct case_spec *c, struct result *r)
{
    for (int32_t i = 0; i < N_GROUND; i++) {
        *c = parse(ground[(from + i) % N_GROUND]);
        c->kernel = faulty_kernel(f->name);
        *r = judged(c);
        if (r->verdict == V_FAIL)
            return true;
        case_clear(c);
    }
    return false;
}

/* What is printed is read back, and fails again; nothing it says is of the tree it came from. */
static void check_small(const struct fault *f, const struct case_spec *small)
{
    FREED char *text = case_print(small);
    CLEARED_BY(case_clear) struct case_spec again = parse(text);
    ck_assert(again.kernel == faulty_kernel(f->name));
    ck_assert(again.src.kind == SRC_NODES);
    struct result r = judged(&again);
    ck_assert_msg(r.verdict == V_FAIL, "%s: %s does not fail", f->name, text);
    FREED char *twice = case_print(&again);
    ck_assert_str_eq(text, twice);
}

/* Ten seconds are asked of a machine that has nothing else to do: processor time does not see what else there is, and
 * a search of one thread gets as far as it would there. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(every_kind_of_fault_shrinks)
{
    struct shrink_limits limits = {.trials = shrink_default_limits().trials, .seconds = 1000};
    int32_t most_nodes = 0, kinds = 0;
    double most_seconds = 0, sum = 0;
    omp_set_num_threads(1);
    for (int32_t i = 0; i < n_faults; i += (int32_t)fewer(8, 1)) {
        if (!faulty_can(faults[i].name))
            continue;
        CLEARED_BY(case_clear) struct case_spec c;
        struct result r;
        ck_assert_msg(plant(&faults[i], i, &c, &r), "%s shows nowhere", faults[i].name);
        double start = cpu_s();
        struct shrink_report s = shrink_result(&c, &r, &limits);
        double seconds = cpu_s() - start;
        ck_assert_msg(s.failed && s.fixed && s.kept > 0, "%s", faults[i].name);
        ck_assert_msg(s.nodes <= 3, "%s: %d nodes", faults[i].name, s.nodes);
        /* 128 tokens are what strategies cut at; some faults need a cut */
        ck_assert_msg(s.queries <= 3 && s.tokens <= 129, "%s: %d queries, %d tokens", faults[i].name,
                      s.queries, (int)s.tokens);
        ck_assert_msg(seconds < shrink_default_limits().seconds, "%s: %.1f s", faults[i].name, seconds);
        ck_assert(r.verdict == V_FAIL);
        check_small(&faults[i], &c);
        most_nodes = s.nodes > most_nodes ? s.nodes : most_nodes;
        most_seconds = seconds > most_seconds ? seconds : most_seconds;
        sum += seconds;
        kinds++;
    }
    printf("shrink: %d kinds of fault, at most %d nodes left, %.2f s of a core on average, %.2f s at most\n",
           kinds, most_nodes, sum / kinds, most_seconds);
}

/* As long as it is the plan that does not cover the tree, no kernel runs. */
TEST(a_wrong_plan_shrinks)
{
    CLEARED_BY(case_clear)
    struct case_spec c = parse("tree=levels:1,20_900,50;heads=6/2;d=32;dtype=f32;kernel=cpu");
    struct shrink_limits limits = shrink_default_limits();
    c.use = strategy_default(&forgetful);
    struct result r = judged(&c);
    ck_assert_msg(r.verdict == V_FAIL && r.stage == STAGE_COVERAGE, "%s", r.why);
    struct shrink_report s = shrink_result(&c, &r, &limits);
    ck_assert(s.failed && s.steady && s.fixed && s.nodes == 1 && s.queries == 1 && s.tokens == 1);
    ck_assert_msg(r.verdict == V_FAIL && r.stage == STAGE_COVERAGE && !r.ran, "%s", r.why);
}

/* ---- the search itself, on failures made up ------------------------------------------------------------ */

struct made_up {
    int64_t calls;
    bool (*fails)(const struct case_spec *c, const struct tree *t);
};

static bool ask(const struct case_spec *c, void *context)
{
    struct made_up *m = context;
    AUTO(tree) t = tree_source_load(&c->src, NULL);
    ck_assert_ptr_nonnull(t);
    m->calls++;
    bool fails = m->fails(c, t);
    return fails;
}

static bool always(const struct case_spec *c, const struct tree *t)
{
    return c && t;
}

static bool never(const struct case_spec *c, const struct tree *t)
{
    return !c && !t;
}

/* Two queries at one node below a node of at least 37 tokens. */
static bool two_below(const struct case_spec *c, const struct tree *t)
{
    (void)c;
    for (int32_t q = 1; q < t->n_queries; q++) {
        int32_t node = t->query[q].node, up = t->parent[node];
        if (node == t->query[q - 1].node && up >= 0 && t->len[up] >= 37)
            return true;
    }
    return false;
}

static bool query_inside(const struct case_spec *c, const struct tree *t)
{
    (void)c;
    for (int32_t q = 0; q < t->n_queries; q++)
        if (t->query[q].upto > 1 && t->query[q].upto < t->len[t->query[q].node])
            return true;
    return false;
}

static bool node_without_query(const struct case_spec *c, const struct tree *t)
{
    (void)c;
    return t->n_nodes > t->n_queries;
}

static bool half_on_pages(const struct case_spec *c, const struct tree *t)
{
    return t->n_nodes && c->spec.heads.dtype >= DT_F16 && c->spec.page_size >= 5 &&
           c->spec.heads.h_q > c->spec.heads.h_kv && c->spec.scattered && c->spec.fill == FILL_HUGE &&
           c->spec.heads.d > 16;
}

TEST(searches_end_at_the_smallest)
{
    static const struct {
        const char *from, *to;
        bool (*fails)(const struct case_spec *c, const struct tree *t);
    } all[] = {
        {"tree=gen:bushy:17;strategy=pat:rule=artifact",
         "tree=nodes:-1.0:0.0;heads=1/"
         "1;d=16;dtype=f64;page=1;scatter=0;poison=0;fill=count;seed=1;strategy=pat",
         always},
        {"tree=nodes:-1.9,0.50,1.8,1.8,1.8:2.8,3.8,3.8,4.1;seed=77",
         "tree=nodes:-1.37,0.0:1.0,1.0;heads=1/1;d=16;dtype=f64;page=1;scatter=0;poison=0;fill=count;seed=1",
         two_below},
        {"tree=nodes:-1.20,0.9,-1.70:0.20,1.5,2.31,2.70;heads=8/8",
         "tree=nodes:-1.3:0.2;heads=1/1;d=16;dtype=f64;page=1;scatter=0;poison=0;fill=count;seed=1",
         query_inside},
        {"tree=levels:1,3,9_10,20,30;d=3;page=3",
         "tree=nodes:-1.0,0.0:1.0;heads=1/1;d=3;dtype=f64;page=1;scatter=0;poison=0;fill=count;seed=1",
         node_without_query},
        {"tree=levels:1_4;heads=8/2;d=128;dtype=bf16;page=64;fill=huge;seed=3",
         "tree=nodes:-1.0:0.0;heads=2/1;d=32;dtype=f16;page=8;scatter=1;poison=0;fill=huge;seed=1",
         half_on_pages},
    };
    struct shrink_limits limits = shrink_default_limits();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int twice = 0; twice < 2; twice++) { /* the second time from the result: nothing is left to do */
            CLEARED_BY(case_clear) struct case_spec c = parse(twice ? all[i].to : all[i].from);
            struct made_up m = {.fails = all[i].fails};
            struct shrink_report s = shrink_case(&c, ask, &m, &limits);
            FREED char *text = case_print(&c);
            ck_assert_str_eq(text, all[i].to);
            ck_assert(s.failed && s.fixed && s.trials == m.calls && (s.kept == 0) == twice);
        }
}

TEST(what_does_not_fail_is_left_alone)
{
    static const char *const text = "tree=levels:1,3_5,5;heads=4/2;d=64;dtype=f16;page=16;scatter=1;poison=1;"
                                    "fill=random;seed=9;strategy=pat;kernel=cpu";
    CLEARED_BY(case_clear) struct case_spec c = parse(text);
    struct made_up m = {.fails = never};
    struct shrink_limits limits = shrink_default_limits();
    struct shrink_report s = shrink_case(&c, ask, &m, &limits);
    FREED char *after = case_print(&c);
    ck_assert_str_eq(after, text);
    ck_assert(!s.failed && !s.fixed && s.kept == 0 && s.trials == 1);
}

/* Out of trials, or of time: whatever was found by then still fails. */
TEST(limits_stop_the_search)
{
    static const struct shrink_limits limits[] = {{.trials = 6, .seconds = 1000},
                                                  {.trials = 1000, .seconds = 0}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        CLEARED_BY(case_clear)
        struct case_spec c = parse("tree=nodes:-1.9,0.50,1.8,1.8,1.8:2.8,3.8,3.8,4.1;seed=77");
        struct made_up m = {.fails = two_below};
        struct shrink_report s = shrink_case(&c, ask, &m, &limits[i]);
        ck_assert_int_eq(s.trials, limits[i].trials == 6 ? 6 : 0);
        ck_assert(!s.fixed);
        ck_assert(ask(&c, &m));
    }
}

/* ---- the program --------------------------------------------------------------------------------------- */

TEST(the_printed_line_fails_again)
{
    static const char *const kinds[] = {"mask_shown", "lse_base_2", "page_swapped", "kv_head_next"};
    static char text[1 << 20], again[1 << 20];
    if (!program_built())
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i += getenv("TREEATTN_QUICK") ? 2 : 1) {
        int code = run_shell(
            text, sizeof text,
            "%s verify -q --gen forest:3 --heads 4/2 --strategy deft-flatten --kernel faulty-%s 2>/dev/null",
            faulty_path(), kinds[i]);
        ck_assert_int_eq(code, 1);
        char *line = strstr(text, "smallest: ");
        ck_assert_msg(line != NULL, "%s: %s", kinds[i], text);
        line += strlen("smallest: ");
        line[strcspn(line, "\n")] = 0;
        ck_assert_int_eq(run_shell(again, sizeof again, "%s 2>/dev/null", line), 1);
        ck_assert_ptr_nonnull(strstr(again, "\tFAIL\t"));
    }
    int code = run_shell(text, sizeof text,
                         "%s verify -q --levels '1,2 5,5' --kernel faulty-lse_base_2 --no-shrink 2>/dev/null",
                         faulty_path());
    ck_assert_int_eq(code, 1);
    ck_assert(!strstr(text, "smallest"));
}

/* Where a kernel keeps something, what is tried in one process says little: then it is tried in processes of its own. */
TEST(the_printed_line_fails_alone_or_says_so)
{
    static const struct {
        const char *kind, *args, *says; /* NULL: a line that fails */
    } all[] = {
        {"keeps_k", "--levels '1,3,6 70,33,5'", NULL},
        {"cleared_once", "--levels '1,3,6 70,33,5'", NULL},
        {"keeps_lengths", "--levels '1,3,6 70,33,5'", NULL},
        /* of the first case alone, which is too large to run twice */
        {"cleared_once", "--gen forest:3 --heads 32/8", "passes in a process of its own"},
        {"first_scale", "--trees 2 --seed 1", "passes in a process of its own"},
        {"sometimes", "--trees 6 --no-sharp", "not reproducible"},
    };
    static char text[1 << 20], again[1 << 20];
    if (!program_built())
        return;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i += getenv("TREEATTN_QUICK") ? 3 : 1) {
        int code = run_shell(text, sizeof text,
                             "%s verify -q --strategy naive,pat --kernel faulty-%s %s 2>/dev/null",
                             faulty_path(), all[i].kind, all[i].args);
        ck_assert_int_eq(code, 1);
        char *last = strstr(text, "smallest: ");
        for (char *line = last; line; line = strstr(line + 1, "smallest: "))
            last = line;
        ck_assert_msg(last != NULL, "%s: %s", all[i].kind, text);
        last += strlen("smallest: ");
        last[strcspn(last, "\n")] = 0;
        if (all[i].says) {
            ck_assert_msg(strncmp(last, all[i].says, strlen(all[i].says)) == 0, "%s: %s", all[i].kind, last);
            ck_assert_msg(i != 4 || strstr(last, " --trees 2 --seed 1"), "%s", last);
            continue;
        }
        ck_assert_msg(run_shell(again, sizeof again, "%s 2>/dev/null", last) == 1, "%s: %s", all[i].kind,
                      last);
        ck_assert_ptr_nonnull(strstr(again, "\tFAIL\t"));
    }
}

TEST(commands_run_anew)
{
    static const struct {
        const char *line;
        int code;
        const char *says;
    } all[] = {{"echo a; exit 3", 0, "a\n"}, /* `exec echo a`, which is the whole shell */
               {"sh -c 'echo b; echo c >&2; exit 3'", 3, "b\n"},
               {"sh -c 'kill -9 $$'", -1, ""},
               {"sleep 30", -1, ""},
               {"./no-such-program", 127, ""}};
    char text[8];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        double start = now_s();
        ck_assert_int_eq(rerun(all[i].line, i == 3 ? 0.2 : 20, text, sizeof text), all[i].code);
        ck_assert_str_eq(text, all[i].says);
        ck_assert(now_s() - start < 15);
    }
    ck_assert_int_eq(rerun("echo 0123456789", 20, text, sizeof text), 0);
    ck_assert_str_eq(text, "0123456");
}

/* One row or head is wrong where these are planted: no more is said of it than is true. */
TEST(planted_faults_have_causes)
{
    static const struct {
        const char *kind, *says;
    } all[] = {{"lse_base_2", "base 2"},
               {"lse_shifted", "ln 2"},
               {"row_unwritten", "nobody wrote"},
               {"heads_swapped", "answers of other rows"},
               {"output_zero", "all zeros"},
               {"row_emptied", "sees nothing"},
               {"row_not_divided", "not divided by the sum"},
               {"empty_zero", "sees nothing"},
               {"gqa_interleaved", "h mod h_kv"},
               {"kv_exchanged", "K and V are exchanged"},
               {"scale_inverse_d", "divided by sqrt(d) twice"},
               {"scale_off", ""},
               {"v_stale", ""}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CLEARED_BY(case_clear) struct case_spec c = parse(ground[3]);
        c.kernel = faulty_kernel(all[i].kind);
        struct result r = judged(&c);
        const char *cause = r.cause.text;
        ck_assert_msg(r.verdict == V_FAIL &&
                          (all[i].says[0] ? strstr(cause, all[i].says) != NULL : !cause[0]),
                      "%s: %s: %s", all[i].kind, r.why, cause);
    }
}

/* A tree that is smallest already keeps its source, here a file whose name a shell would trip over; what passes
 * when it is run again is said to. */
TEST(lines_for_shells)
{
    static const char *const file = "tree 1 1\nnode 0 -1 1\nquery 0 1\n";
    static const char *const faulty[] = {"group_dropped", NULL};
    char text[4096], *folder = scratch_folder(), *path = xasprintf("%s/treeattn's", folder);
    write_bytes(path, file, strlen(file));
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "tree=file:%s;strategy=naive;kernel=cpu", path);
        CLEARED_BY(case_clear) struct case_spec c = parse(text);
        c.kernel = faulty[i] ? faulty_kernel(faulty[i]) : c.kernel;
        struct result r = judged(&c);
        ck_assert((r.verdict == V_FAIL) == (faulty[i] != NULL));
        memset(text, 0, sizeof text);
        FILE *f = fmemopen(text, sizeof text, "w");
        shrink_print(f, &(struct shrink_program){.name = "treeattn"}, &c, &r);
        fclose(f);
        ck_assert_msg(strstr(text, faulty[i] ? "/treeattn'\\''s;" : "not reproducible, the case"), "%s",
                      text);
    }
    free(path);
    free(folder);
}

/* ---- lists of cases ------------------------------------------------------------------------------------ */

TEST(lists_of_cases)
{
    static const struct {
        const char *text, *says; /* NULL: good, two cases */
    } all[] = {
        {"# said before\n\ntree=chain:3:1;kernel=cpu\r\n  tree=levels:1_5;strategy=pat \n", NULL},
        {"tree=levels:1_5\ntree=levels:1_6", NULL},
        {"tree=levels:1_5\ntree=palm:1\n", ":2: tree source 'palm:1'"},
        {"tree=levels:1_5;kernel=weeds\n", ":1: no kernel 'weeds'"},
        {"\n\nstrategy=pat\n", ":3: case has no tree"},
    };
    FREED char *path = scratch_file("", 0);
    struct case_spec *list;
    int64_t n;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct err e = {0};
        write_bytes(path, all[i].text, strlen(all[i].text));
        bool good = case_read_list(path, &list, &n, &e);
        ck_assert_msg(good == !all[i].says, "%s: %s", all[i].text, e.msg);
        if (all[i].says)
            ck_assert_msg(e.code == EXIT_BAD_INPUT && strstr(e.msg, all[i].says), "%s", e.msg);
        else
            ck_assert_int_eq(n, 2);
        for (int64_t k = 0; k < n; k++)
            case_clear(&list[k]);
        free(list);
    }
    struct err e = {0};
    write_bytes(path, "tree=levels:1_5\0\n", 17);
    ck_assert(!case_read_list(path, &list, &n, &e) && strstr(e.msg, "zero byte"));
    unlink(path);
    e = (struct err){0};
    ck_assert(!case_read_list(path, &list, &n, &e) && e.code == EXIT_BAD_INPUT);
}
