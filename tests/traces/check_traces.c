/*
 * check_traces.c - replays against every recorded and derived figure we hold, and what malformed files do.
 *
 * Tests that read ../shared (or $TREEATTN_SHARED) say so and pass where it is absent.
 */
#include "traces/formats/deft.h"
#include "traces/generate/gen_trace.h"
#include "traces/formats/medusa.h"
#include "traces/formats/mooncake.h"
#include "traces/generate/pyrandom.h"
#include "traces/trace.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- helpers ------------------------------------------------------------------------------------------- */

static struct trace *open_or_fail(const char *spec, struct trace_opts o)
{
    struct err e = {0};
    struct trace *tr = trace_open(spec, &o, &e);
    ck_assert_msg(tr != NULL, "%s: %s", spec, e.msg);
    return tr;
}

/* Sums over all steps of a run. */
struct sums {
    int64_t steps, generated, queries, max_queries, kv_tree, kv_seq, kv_node32;
};

static struct sums replay_sums(const struct trace *tr)
{
    struct sums s = {.steps = trace_steps(tr), .generated = trace_generated(tr)};
    for (int64_t t = 1; t <= s.steps; t++) {
        AUTO(tree) tree = trace_tree(tr, t);
        struct trace_count c = trace_count_tree(tree);
        s.queries += c.queries;
        s.max_queries = max_i64(s.max_queries, c.queries);
        s.kv_tree += c.kv_tree;
        s.kv_seq += c.kv_seq;
        s.kv_node32 += c.kv_node32;
    }
    return s;
}

/* ---- CPython's generator ------------------------------------------------------------------------------- */

TEST(python_draws)
{
    static const int64_t to5[] = {4, 4, 1, 3, 5, 4, 4, 3, 4, 3, 5, 2};
    static const int64_t negative[] = {0, 2, -3, 3, 3, 3, -1, 3};
    struct pyrandom r;
    pyrandom_seed(&r, 0);
    ck_assert_int_eq(pyrandom_randint(&r, 0, UINT32_MAX - 1), INT64_C(3626764237));
    pyrandom_seed(&r, 0);
    for (size_t i = 0; i < sizeof to5 / sizeof to5[0]; i++)
        ck_assert_int_eq(pyrandom_randint(&r, 1, 5), to5[i]);
    pyrandom_seed(&r, 12345);
    for (size_t i = 0; i < sizeof negative / sizeof negative[0]; i++)
        ck_assert_int_eq(pyrandom_randint(&r, -3, 3), negative[i]);
    ck_assert_int_eq(pyrandom_randint(&r, 7, 7), 7);
}

/* G = 1000 and 4984 both come from record 0 of the APPS files. */
TEST(accepted_lengths_expand_exactly)
{
    FREED char *expanded = shared_path("traces/spec_accept_expanded.json"), *records = NULL;
    if (expanded)
        records = shared_path("traces/APPS_tree_size64.json");
    if (!records)
        return;
    json_t *want = json_load_file(expanded, 0, NULL), *file = json_load_file(records, 0, NULL), *list;
    json_t *record = json_array_get(json_object_get(file, "Records"), 0);
    json_t *accept = json_object_get(record, "Accept_length");
    int64_t n_list = (int64_t)json_array_size(accept), *in = xcalloc((size_t)n_list, sizeof *in);
    ck_assert_int_eq(n_list, 401);
    for (int64_t i = 0; i < n_list; i++)
        in[i] = json_integer_value(json_array_get(accept, (size_t)i));
    const char *key;
    int checked = 0;
    json_object_foreach(want, key, list)
    {
        int64_t n, *out = accept_expand(in, n_list, atoll(key), &n, NULL);
        ck_assert_int_eq(n, json_array_size(list));
        for (int64_t i = 0; i < n; i++)
            ck_assert_int_eq(out[i], json_integer_value(json_array_get(list, (size_t)i)));
        free(out);
        checked++;
    }
    ck_assert_int_eq(checked, 2);
    json_decref(want);
    json_decref(file);
    free(in);
}

TEST(expansion_by_hand)
{
    int64_t n, list[] = {2, 3, 4}, zero[] = {0, 0};
    FREED int64_t *out = accept_expand(list, 3, 9, &n, NULL); /* the list fills G exactly: nothing is drawn */
    ck_assert_int_eq(n, 3);
    free(out);
    out = accept_expand(list, 3, 1, &n, NULL); /* the first entry does not fit: one draw, clipped */
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(out[0], 1);
    struct err e = {0};
    ck_assert_ptr_null(accept_expand(zero, 2, 5, &n, &e));
    ck_assert_int_eq(e.code, EXIT_BAD_INPUT);
    ck_assert_ptr_null(accept_expand(zero, 0, 5, &n, NULL));
}

/* ---- replays against derived and recorded figures ------------------------------------------------------ */

TEST(sorting_replays_every_row)
{
    static const char *const column[] = {"iterations",  "generated_len", "sum_queries",  "max_queries",
                                         "sum_kv_tree", "sum_kv_seq",    "sum_kv_node32"};
    CLEARED_BY(csv_clear) struct csv c = {0};
    if (!shared_csv(&c, "traces/replay_sorting.csv"))
        return;
    FREED char *file = shared_path("traces/sorting128ToT.json"), *spec = xasprintf("deft:%s", file);
    for (int64_t i = 0; i < c.n_rows; i++) {
        struct trace_opts o = {.tree_index = (int32_t)csv_number(&c, i, "tree_index", 0),
                               .prompt = csv_number(&c, i, "prompt_len", 0),
                               .max_seq = csv_number(&c, i, "max_seq_len", 0)};
        AUTO(trace) tr = open_or_fail(spec, o);
        struct sums s = replay_sums(tr);
        int64_t got[] = {s.steps, s.generated, s.queries, s.max_queries, s.kv_tree, s.kv_seq, s.kv_node32};
        for (int k = 0; k < 7; k++)
            ck_assert_msg(got[k] == csv_number(&c, i, column[k], -1), "%s: %s is %lld (expected %s)",
                          trace_title(tr), column[k], (long long)got[k], csv_text(&c, i, column[k]));
    }
    ck_assert_int_eq(c.n_rows, 3 * 77);
}

TEST(sorting_replays_every_iteration)
{
    CLEARED_BY(csv_clear) struct csv x = {0};
    if (!shared_csv(&x, "traces/replay_sorting_tree0_p4000_s6000.csv"))
        return;
    FREED char *file = shared_path("traces/sorting128ToT.json"), *spec = xasprintf("deft:%s", file);
    AUTO(trace) tr = open_or_fail(spec, (struct trace_opts){.prompt = 4000, .max_seq = 6000});
    for (int64_t i = 0; i < x.n_rows; i++) {
        ck_assert_int_eq(csv_number(&x, i, "iteration", 0), i + 1);
        AUTO(tree) tree = trace_tree(tr, i + 1);
        ck_assert(tree_check(tree, NULL));
        struct trace_count c = trace_count_tree(tree);
        ck_assert_int_eq(c.queries, csv_number(&x, i, "queries", -1));
        ck_assert_int_eq(c.nodes, csv_number(&x, i, "nodes", -1));
        ck_assert_int_eq(c.kv_tree, csv_number(&x, i, "kv_tree", -1));
        ck_assert_int_eq(c.kv_seq, csv_number(&x, i, "kv_seq", -1));
    }
    ck_assert_int_eq(x.n_rows, trace_steps(tr));
}

TEST(every_shared_template_opens)
{
    static const struct {
        const char *name;
        int trees, nodes;
    } file[] = {
        {"sorting128ToT", 77, 101}, {"docmergeToT", 50, 31}, {"keywordToT", 98, 61}, {"set128ToT", 100, 91}};
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++) {
        FREED char *name = xasprintf("traces/%s.json", file[i].name), *path = shared_path(name);
        if (!path)
            return;
        FREED char *spec = xasprintf("deft:%s", path);
        for (int k = 1; k < file[i].trees; k += 5) { /* 16 and 31 among them */
            AUTO(trace) tr = open_or_fail(spec, (struct trace_opts){.tree_index = k});
            bool anomaly = strcmp(file[i].name, "docmergeToT") == 0 && (k == 16 || k == 31);
            ck_assert_str_eq(trace_remark(tr), !anomaly  ? ""
                                               : k == 16 ? "dropped nodes of value 0: 13"
                                                         : "dropped nodes of value 0: 1");
            ck_assert_int_eq(((const struct reasoning *)tr->self)->n_nodes, file[i].nodes - anomaly);
        }
        FAILS("the number of complete items", trace_open, spec,
              &(struct trace_opts){.tree_index = file[i].trees});
    }
}

TEST(shared_speculative_files_open)
{
    static const int size[] = {32, 64, 128, 256};
    for (int i = 0; i < 4; i++)
        for (int apps = 0; apps < 2; apps++) {
            FREED char *name = xasprintf("traces/%stree_size%d.json", apps ? "APPS_" : "", size[i]),
                       *path = shared_path(name);
            if (!path)
                return;
            FREED char *spec = xasprintf("deft:%s", path);
            struct trace_opts o = {.tree_index = apps ? 19 : 79, .prompt = 1000, .topology = true};
            AUTO(trace) tr = open_or_fail(spec, o);
            ck_assert_int_eq(trace_steps(tr), apps ? 401 : 700);
            AUTO(tree) tree = trace_tree(tr, trace_steps(tr));
            ck_assert_int_eq(tree->n_queries, size[i]);
            ck_assert_int_eq(tree_depth(tree), 6); /* prefix, last accepted token, four candidates */
        }
}

/* ---- small traces by hand ------------------------------------------------------------------------------ */

static struct trace *from_text(const char *text, struct trace_opts o, struct err *e)
{
    return deft_open(text, strlen(text), "t.json", "text", &o, e);
}

/* Prompt of 3; children of 2 and 1 tokens; the first goes on with children of 1 and 2, and one of value 0. */
static const char small_tree[] =
    "[{\"incompleted\": true, \"prompt\": \"\", \"data\": {}},\r\n"
    " {\"incompleted\": false, \"prompt\": \"a \\\"{[\\u00e9\", \"data\": {\r\n"
    "  \"0\": {\"id\": 0, \"value\": 3, \"start\": -2, \"end\": 0, \"children\": [1, 2]},\n"
    "  \"1\": {\"id\": 1, \"value\": 2, \"start\": 1, \"end\": 2, \"children\": [4, 3, 5]},\n"
    "  \"2\": {\"id\": 2, \"value\": 1, \"start\": 1, \"end\": 1, \"children\": []},\n"
    "  \"3\": {\"id\": 3, \"value\": 0, \"start\": 3, \"end\": 2, \"children\": []},\n"
    "  \"4\": {\"id\": 4, \"value\": 1, \"start\": 3, \"end\": 3, \"children\": []},\n"
    "  \"5\": {\"id\": 5, \"value\": 2, \"start\": 3, \"end\": 4, \"children\": []}}}]\n";

static void assert_step(const struct trace *tr, int64_t t, const char *want)
{
    AUTO(tree) tree = trace_tree(tr, t);
    char got[256] = "";
    size_t n = 0;
    for (int32_t i = 0; i < tree->n_nodes; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, "%d:%lld ", tree->parent[i], (long long)tree->len[i]);
    for (int32_t q = 0; q < tree->n_queries; q++)
        n += (size_t)snprintf(got + n, sizeof got - n, "q%d@%lld ", tree->query[q].node,
                              (long long)tree->query[q].upto);
    ck_assert_str_eq(got, want);
}

TEST(reasoning_by_hand)
{
    struct err e = {0};
    AUTO(trace) tr = MUST(from_text, small_tree, (struct trace_opts){0});
    ck_assert_str_eq(trace_remark(tr), "dropped nodes of value 0: 3");
    ck_assert_int_eq(trace_steps(tr), 4);
    ck_assert_int_eq(trace_generated(tr), 6);
    assert_step(tr, 1, "-1:3 0:1 0:1 q1@1 q2@1 ");
    assert_step(tr, 2, "-1:3 0:2 q1@2 ");
    assert_step(tr, 3, "-1:3 0:2 1:1 1:1 q2@1 q3@1 ");
    assert_step(tr, 4, "-1:3 0:2 1:2 q2@2 ");
    trace_close(tr);

    /* Cut after three iterations: one leaf holds a token whose KV is not written. */
    tr = from_text(small_tree, (struct trace_opts){.prompt = 10, .max_seq = 14}, &e);
    ck_assert_int_eq(trace_steps(tr), 3);
    ck_assert_int_eq(trace_generated(tr), 6);
    assert_step(tr, 2, "-1:10 0:2 q1@2 ");
}

static const char small_spec[] = "{\"Tree_ID\": 0, \"Token_Tree_size\": 5,"
                                 " \"Tree_Structure\": [[1, 0], [0], [1], [1, 0, 2]],"
                                 " \"Records\": [{\"prompt\": \"\", \"Accept_length\": [1, 2, 3]}]}";

TEST(speculative_by_hand)
{
    struct err e = {0};
    AUTO(trace) tr = MUST(from_text, small_spec, (struct trace_opts){.prompt = 7});
    ck_assert_int_eq(trace_steps(tr), 3);
    ck_assert_int_eq(trace_generated(tr), 5 + 2 + 3);
    assert_step(tr, 1, "-1:7 0:1 0:1 0:1 0:1 0:1 q1@1 q2@1 q3@1 q4@1 q5@1 ");
    assert_step(tr, 2, "-1:9 0:1 0:1 0:1 0:1 0:1 q1@1 q2@1 q3@1 q4@1 q5@1 ");
    assert_step(tr, 3, "-1:12 0:1 0:1 0:1 0:1 0:1 q1@1 q2@1 q3@1 q4@1 q5@1 ");
    trace_close(tr);
    tr = from_text(small_spec, (struct trace_opts){.prompt = 7, .topology = true}, &e);
    assert_step(tr, 2, "-1:9 0:1 1:1 1:1 3:1 4:1 q1@1 q2@1 q3@1 q4@1 q5@1 ");
    FAILS("expected a prompt length", from_text, small_spec, (struct trace_opts){0});
}

TEST(fewshot_by_hand)
{
    AUTO(trace) tr = open_or_fail("fewshot:2", (struct trace_opts){.prompt = 5, .max_seq = 8});
    ck_assert_int_eq(trace_steps(tr), 2);
    ck_assert_int_eq(trace_generated(tr), 4);
    assert_step(tr, 2, "-1:5 0:2 0:2 q1@2 q2@2 ");
}

/* ---- our own traces ------------------------------------------------------------------------------------ */

static const char reasoning_prompt[] =
    "Below is a list of one hundred and twenty small numbers. Propose ten ways to put it in order, keep the "
    "best one, say "
    "what is still wrong in it, and propose ten corrections; repeat until nothing is wrong.";
static const char speculative_prompt[] =
    "Write a short program that reads a list of intervals and prints how many of them overlap at each point.";
enum {
    N_REASONING = 3,
    SPEC_TOKENS = 64,
    SPEC_SEED = 1,
    N_TOPOLOGIES = 3,
    N_REQUESTS = 48,
    REQUESTS_SEED = 1
};
static const char *const topology_name[N_TOPOLOGIES] = {"seeded-8", "seeded-24", "seeded-64"};
static const int32_t topology_tokens[N_TOPOLOGIES] = {8, 24, 64};

/* A data file must be what the generators write; TREEATTN_UPDATE=1 writes it anew. */
static void check_data(const char *path, const char *text, size_t size)
{
    if (getenv("TREEATTN_UPDATE"))
        write_bytes(path, text, size);
    FREED char *have = file_text(path);
    ck_assert_msg(strcmp(have, text) == 0, "%s is not what its generator writes", path);
}

TEST(data_files_are_what_their_generators_write)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    struct reasoning *r[N_REASONING];
    for (int i = 0; i < N_REASONING; i++)
        r[i] = reasoning_gen((uint64_t)i + 1);
    ck_assert(deft_write_reasoning(f, (const struct reasoning *const *)r, N_REASONING, reasoning_prompt));
    fclose(f);
    for (int i = 0; i < N_REASONING; i++)
        reasoning_free(r[i]);
    check_data("traces/data/reasoning.json", text, size);
    free(text);

    f = open_memstream(&text, &size);
    AUTO(speculative) s = speculative_gen(SPEC_TOKENS, SPEC_SEED);
    ck_assert(deft_write_speculative(f, s, speculative_prompt));
    fclose(f);
    check_data("traces/data/speculative.json", text, size);
    free(text);

    f = open_memstream(&text, &size);
    struct speculative *tree[N_TOPOLOGIES];
    for (int i = 0; i < N_TOPOLOGIES; i++)
        tree[i] = speculative_gen(topology_tokens[i], (uint64_t)i + 1);
    ck_assert(medusa_write(f, topology_name, (const struct speculative *const *)tree, N_TOPOLOGIES));
    fclose(f);
    for (int i = 0; i < N_TOPOLOGIES; i++)
        speculative_free(tree[i]);
    check_data("traces/data/medusa.json", text, size);
    free(text);

    f = open_memstream(&text, &size);
    struct requests *requests = requests_gen(N_REQUESTS, REQUESTS_SEED);
    ck_assert(mooncake_write(f, requests));
    fclose(f);
    requests_free(requests);
    check_data("traces/data/requests.jsonl", text, size);
    free(text);
}

static void assert_same_trace(const struct trace *a, const struct trace *b)
{
    ck_assert_int_eq(trace_steps(a), trace_steps(b));
    ck_assert_int_eq(trace_generated(a), trace_generated(b));
    for (int64_t t = 1; t <= trace_steps(a); t += 1 + trace_steps(a) / 50) {
        AUTO(tree) x = trace_tree(a, t), *y = trace_tree(b, t);
        assert_same_tree(x, y);
    }
}

TEST(embedded_traces_are_the_seeded_ones)
{
    for (int i = 0; i < N_REASONING; i++) {
        FREED char *spec = xasprintf("reasoning:%d", i + 1);
        AUTO(trace) a = open_or_fail("embedded:reasoning", (struct trace_opts){.tree_index = i});
        AUTO(trace) b = open_or_fail(spec, (struct trace_opts){0});
        assert_same_trace(a, b);
    }
    for (int topology = 0; topology < 2; topology++) {
        struct trace_opts o = {.max_seq = 3000, .topology = topology};
        AUTO(trace) a = open_or_fail("embedded:speculative", o), *b = open_or_fail("spec:64,1", o);
        assert_same_trace(a, b);
    }
    for (int i = 0; i < N_TOPOLOGIES; i++) {
        FREED char *named = xasprintf("embedded:medusa,%s", topology_name[i]),
                   *spec = xasprintf("spec:%d,%d", topology_tokens[i], i + 1);
        AUTO(trace) a = open_or_fail(named, (struct trace_opts){.prompt = 70});
        AUTO(trace) b = open_or_fail("embedded:medusa", (struct trace_opts){.prompt = 70, .tree_index = i});
        AUTO(trace) c = open_or_fail(spec, (struct trace_opts){.prompt = 70, .topology = true});
        AUTO(tree) last = trace_tree(a, 1), *seeded = trace_tree(c, 1);
        assert_same_trace(a, b);
        ck_assert_int_eq(trace_steps(a), 1);
        ck_assert_int_eq(last->n_nodes, seeded->n_nodes);
        ck_assert_mem_eq(last->parent, seeded->parent, (size_t)last->n_nodes * sizeof *last->parent);
    }
    AUTO(trace) a = open_or_fail("embedded:requests", (struct trace_opts){.batch = 9, .step_ms = 20});
    AUTO(trace) b = open_or_fail("requests:48,1", (struct trace_opts){.batch = 9, .step_ms = 20});
    assert_same_trace(a, b);
    int n = 0;
    for (; trace_embedded[n]; n++) {
        FREED char *spec = xasprintf("embedded:%s", trace_embedded[n]);
        bool own = strcmp(trace_embedded[n], "requests") == 0; /* they have prompts of their own */
        trace_close(open_or_fail(spec, (struct trace_opts){.prompt = own ? 0 : 500}));
    }
    ck_assert_int_ge(n, 4);
}

TEST(seeded_reasoning_has_the_shape_of_sorting)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        AUTO(reasoning) r = reasoning_gen(seed);
        ck_assert_int_eq(r->n_nodes, 101);
        FREED char *spec = xasprintf("reasoning:%d", (int)seed);
        AUTO(trace) tr = open_or_fail(spec, (struct trace_opts){.prompt = 4000});
        AUTO(tree) late = trace_tree(tr, r->node[100].start);
        ck_assert_int_eq(tree_depth(late), 11);
        struct sums s = replay_sums(tr);
        ck_assert(s.steps > 3000 && s.steps < 7000);
        ck_assert(s.max_queries >= 11 && s.max_queries <= 30);
        ck_assert(s.queries > 5 * s.steps);
    }
}

/* What every trace promises: each step is a valid tree, one query per live leaf, and generated_len is the sum
 * of the queries (plus what a cut run leaves). */
TEST(every_kind_keeps_its_promises)
{
    static const struct {
        const char *spec;
        struct trace_opts o;
    } c[] = {
        {"embedded:reasoning", {0}},
        {"embedded:reasoning", {.tree_index = 2, .prompt = 4000, .max_seq = 6000}},
        {"embedded:speculative", {0}},
        {"embedded:speculative", {.prompt = 1016, .max_seq = 6000}},
        {"embedded:speculative", {.topology = true}},
        {"reasoning:77", {.prompt = 1}},
        {"fewshot:50", {.prompt = 1000, .max_seq = 1400}},
        {"spec:1,3", {.topology = true}},
        {"spec:2,4", {.topology = true}},
        {"spec:500,9", {.topology = true, .max_seq = 1600}},
        {"embedded:medusa,seeded-24", {.prompt = 100}},
        {"embedded:requests", {0}},
        {"embedded:requests", {.tree_index = 40, .batch = 3}},
        {"requests:200,6", {.batch = 16, .step_ms = 30}},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        AUTO(trace) tr = open_or_fail(c[i].spec, c[i].o);
        ck_assert_int_ge(trace_steps(tr), 1);
        ck_assert_str_eq(trace_remark(tr), "");
        ck_assert_ptr_nonnull(strstr(trace_title(tr), c[i].spec));
        int64_t queries = 0;
        for (int64_t t = 1; t <= trace_steps(tr); t++) {
            AUTO(tree) tree = trace_tree(tr, t);
            struct err e = {0};
            ck_assert_msg(tree_check(tree, &e), "%s step %lld: %s", c[i].spec, (long long)t, e.msg);
            ck_assert_int_ge(tree->n_queries, 1);
            queries += tree->n_queries;
        }
        if (tr->kind == &reasoning_kind && c[i].o.max_seq == 0)
            ck_assert_int_eq(queries, trace_generated(tr));
    }
}

/* The number of items is where the index stops being good. */
TEST(items_are_counted)
{
    static const struct {
        const char *spec;
        int64_t items;
    } c[] = {{"embedded:reasoning", 3}, {"embedded:speculative", 1},      {"embedded:medusa", 3},
             {"reasoning:7", 1},        {"embedded:medusa,seeded-24", 1}, {"spec:4,2", 1},
             {"fewshot:3", 1},          {"embedded:requests", 0}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        bool medusa = strncmp(c[i].spec, "embedded:medusa", 15) == 0, requests = c[i].items == 0;
        struct trace_opts o = {.prompt = requests ? 0 : 50, .max_seq = medusa || requests ? 0 : 80};
        for (o.tree_index = 0; o.tree_index < max_i64(c[i].items, 1); o.tree_index++) {
            AUTO(trace) tr = open_or_fail(c[i].spec, o);
            ck_assert_int_eq(trace_items(tr), c[i].items);
            ck_assert_int_eq(trace_prompt(tr), o.prompt);
        }
        if (!requests)
            ck_assert_ptr_null(trace_open(c[i].spec, &o, NULL));
    }
}

/* Known sums: a root of 10 with 40 queries below is read twice, a path of 4 + 2 once more. */
TEST(counters_by_hand)
{
    AUTO(tree) t = tree_new(42, 41);
    t->len[0] = 10;
    for (int32_t i = 1; i < 42; i++) {
        t->parent[i] = i == 41 ? 40 : 0;
        t->len[i] = i == 41 ? 2 : 4;
    }
    for (int32_t q = 0; q < 41; q++)
        t->query[q] = (struct query){.node = q + 1, .upto = t->len[q + 1]};
    struct trace_count c = trace_count_tree(t);
    ck_assert_int_eq(c.queries, 41);
    ck_assert_int_eq(c.nodes, 42);
    ck_assert_int_eq(c.kv_tree, 10 + 40 * 4 + 2);
    ck_assert_int_eq(c.kv_seq, 40 * 14 + 16);
    ck_assert_int_eq(c.kv_node32, 2 * 10 + 40 * 4 + 2);
}

/* ---- malformed input ----------------------------------------------------------------------------------- */

/* On which line a value stands is found again for the message. */
TEST(messages_name_the_line)
{
    static const struct {
        const char *text, *says;
    } c[] = {
        {"[{\"incompleted\": false, \"prompt\": \"\\\"]}\", \"data\": {\n"
         "\"0\": {\"id\": 0, \"value\": 1, \"start\": 0, \"end\": 0, \"children\": [1]},\n"
         "\"1\": {\"id\": 1, \"value\": 2, \"start\": 1, \"end\": 1, \"children\": []}}}]",
         "t.json:3: item 0, node 1: value 2"},
        {"[{\"incompleted\": true, \"prompt\": \"\", \"data\": {}}, {\"incompleted\": false, \"prompt\": "
         "\"\",\n"
         "\"x\": [[{}, \"]\"], {\"data\": {}}],\n\"data\": {\n\"0\": 7}}]",
         "t.json:4: item 1, node 0: \"0\" is no object"},
        {"[\n{\"incompleted\": true, \"prompt\": \"\", \"data\": {}},\n\n{\"incompleted\": 1}]",
         "t.json:4: item 1: \"incompleted\" is no boolean"},
        {"[{\"incompleted\": false, \"prompt\": \"\",\n\"data\": {\n\"0\": {\"id\": 0, \"value\": 1, "
         "\"start\": 0, "
         "\"end\": 0, \"children\": [1]}}}]",
         "t.json:3: item 0, node 0: a child is 1 (expected 0 to 0)"},
        {"{\"Token_Tree_size\": 3, \"Tree_Structure\": [\n[0],\n[2, 1]], \"Records\": []}",
         "t.json:3: path 1 of \"Tree_Structure\" hangs"},
        {"{\"Token_Tree_size\": 1, \"Tree_Structure\": [],\n\"Records\": [\n{\"Accept_length\": [1,\n1, "
         "-2]}]}",
         "t.json:4: record 0: entry 2 of"},
        {"\n{\"Token_Tree_size\": 0}", "t.json:2: \"Token_Tree_size\" is 0"},
        /* A key spelt with escapes is not found again; the line of what holds it is named. */
        {"[{\"incompleted\": false, \"prompt\": \"\",\n\"d\\u0061ta\": {\n\"0\": 7}}]",
         "t.json:1: item 0, node 0: "},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct err e = {0};
        ck_assert_ptr_null(from_text(c[i].text, (struct trace_opts){.prompt = 10}, &e));
        ck_assert_msg(strncmp(e.msg, c[i].says, strlen(c[i].says)) == 0,
                      "case %zu says \"%s\" (expected \"%s\")", i, e.msg, c[i].says);
    }
}

/* ---- Medusa's topologies ------------------------------------------------------------------------------- */

static struct trace *from_medusa(const char *text, const char *pick, struct trace_opts o, struct err *e)
{
    return medusa_open(text, strlen(text), "m.json", pick, "text", &o, e);
}

TEST(topologies_by_hand)
{
    static const char text[] = "{\"one\": [[4]], \"two\": [[1, 0, 3], [0],\n [2], [1], [1, 0], [0, 7]]}";
    struct err e = {0};
    AUTO(trace) tr = MUST(from_medusa, text, "two", (struct trace_opts){.prompt = 9});
    ck_assert_int_eq(trace_steps(tr), 1);
    assert_step(tr, 1, "-1:9 0:1 1:1 1:1 1:1 2:1 3:1 6:1 q1@1 q2@1 q3@1 q4@1 q5@1 q6@1 q7@1 ");
    trace_close(tr);
    tr = from_medusa(text, "", (struct trace_opts){.prompt = 2}, &e);
    assert_step(tr, 1, "-1:2 0:1 1:1 q1@1 q2@1 ");
}

/* The same two trees as the files of Medusa and EAGLE, of TensorRT-LLM and of vLLM have them. */
TEST(paths_as_others_write_them)
{
    static const struct {
        const char *text, *pick;
    } wide[] = {
        {"[[0], [1], [0, 0], [0, 1]]", ""},
        {"\n [[0], [0, 0],\n [1], [0, 1],\n]\n", "paths"},
        {"[(0,), (1,), (0, 0), (0, 1)]", ""},
        {"\"[(0,), (0,0), (0,1), (1,)]\"\n", ""},
        {"((0,), (1,), [0, 0], (0, 1,),)", ""},
        {"deep = [[0], [0, 0], [0, 0, 0]]\nwide = [[0], [1], [0, 0], [0, 1]]  # two\n", "wide"},
        {"\"\"\"Choices.\n\nx = [[7]]\n\"\"\"\nimport os\nfrom a import b\nTOP = 10\nwide: List[List[int]] = "
         "[  # four\n"
         "    [0], [1],\n    # none\n    [0, 0],\n    [0, 1],\n]\nname = 'wide'\n",
         ""},
        {"wide=[(0,),(1,),(0,0),(0,1)];\r\nother=[(0,)]\r\n", "wide"},
        {"decoding:\n  type: Eagle\n  wide: [[0], [1], [0, 0], [0, 1]]\n", "wide"},
        {"{\"method\": \"eagle\", \"k\": 3, \"wide\": \"[(0,), (1,), (0,0), (0,1)]\"}", "wide"},
        {"{\"speculative_config\": {\"k\": null, \"wide\": [[0], [1], [0, 0], [0, 1]]}}", "wide"},
        {"{\"a\": {\"b\": {\"wide\": \" [(0,), (1,), (0,0), (0,1)] \"}}}", "wide"},
    };
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        struct err e = {0};
        AUTO(trace) tr = from_medusa(wide[i].text, wide[i].pick, (struct trace_opts){.prompt = 9}, &e);
        ck_assert_msg(tr != NULL, "%s: %s", wide[i].text, e.msg);
        assert_step(tr, 1, "-1:9 0:1 1:1 1:1 2:1 2:1 q1@1 q2@1 q3@1 q4@1 q5@1 ");
    }
    AUTO(trace) deep = MUST(from_medusa, wide[5].text, "deep", (struct trace_opts){.prompt = 9});
    assert_step(deep, 1, "-1:9 0:1 1:1 2:1 3:1 q1@1 q2@1 q3@1 q4@1 ");
}

TEST(many_names_and_long_paths)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (int i = 0; i < 100; i++)
        fprintf(f, "%s\"topology-%d\": []", i > 0 ? ", " : "{", i);
    fprintf(f, "}");
    fclose(f);
    FAILS_WITH(
        "m.json:1: no topology \"a\" (expected one of: topology-0, topology-1, topology-2, topology-3, "
        "topology-4, topology-5, topology-6, topology-7, topology-8, topology-9, topology-10, topology-11, "
        "topology-12, topology-13, topology-14, topology-15, topology-16, topology-17, topology-18, "
        "topology-19, ...)",
        from_medusa, text, "a", (struct trace_opts){.prompt = 9});
    free(text);

    f = open_memstream(&text, &size);
    fprintf(f, "{\"a\": [[0]");
    for (int depth = 2; depth <= 65; depth++) {
        fprintf(f, ", [0");
        for (int i = 1; i < depth; i++)
            fprintf(f, ", 0");
        fprintf(f, "]");
    }
    fprintf(f, "]}");
    fclose(f);
    FAILS("path 64 of \"a\" is no path (expected an array of 1 to 64", from_medusa, text, "a",
          (struct trace_opts){.prompt = 9});
    free(text);
}

/* Table of ../shared/traces/README.md, section 4: nine trees of 63 paths; the first is the 64-token tree of
 * the speculative records. */
TEST(published_topologies)
{
    FREED char *path = shared_path("traces/medusa_topologies.json"),
               *records = shared_path("traces/tree_size64.json");
    for (int i = 0; path && records && i < 9; i++) {
        FREED char *spec = xasprintf("medusa:%s", path), *known = xasprintf("deft:%s", records);
        AUTO(trace) tr = open_or_fail(spec, (struct trace_opts){.prompt = 100, .tree_index = i});
        AUTO(tree) tree = trace_tree(tr, 1);
        int32_t leaves = tree->n_nodes,
                depth = tree_depth(tree) - 2; /* below prefix and last accepted token */
        FREED bool *inner = xcalloc((size_t)tree->n_nodes, sizeof *inner);
        for (int32_t k = 1; k < tree->n_nodes; k++)
            inner[tree->parent[k]] = true;
        for (int32_t k = 0; k < tree->n_nodes; k++)
            leaves -= inner[k];
        ck_assert_int_eq(tree->n_queries, 64);
        ck_assert(leaves >= 42 && leaves <= 46);
        ck_assert(depth == 4 || depth == 3);
        if (i == 0) {
            FREED char *named = xasprintf("medusa:%s,mc_sim_7b_63", path);
            AUTO(trace) first = open_or_fail(named, (struct trace_opts){.prompt = 100});
            AUTO(trace) same = open_or_fail(known, (struct trace_opts){.prompt = 100, .topology = true});
            AUTO(tree) a = trace_tree(first, 1), *b = trace_tree(same, 1);
            ck_assert_mem_eq(a->parent, tree->parent, 65 * sizeof *a->parent);
            ck_assert_mem_eq(a->parent, b->parent, 65 * sizeof *a->parent);
        }
    }
}

TEST(topologies_round_trip)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        int32_t n = 2 + (int32_t)seed * 5;
        AUTO(speculative) s = speculative_gen(n, seed);
        const char *name = seed % 2 ? "plain" : "a \"quoted\", name";
        FREED char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        ck_assert(medusa_write(f, &name, (const struct speculative *const *)&s, 1));
        fclose(f);
        AUTO(trace) tr = MUST(from_medusa, text, name, (struct trace_opts){.prompt = 3});
        const struct speculative *read = tr->self;
        ck_assert_int_eq(read->n_tokens, n);
        ck_assert_mem_eq(read->parent, s->parent, (size_t)n * sizeof *s->parent);
    }
}

TEST(deep_nesting_is_an_error)
{
    enum { DEPTH = 1000000 };
    FREED char *text = xmalloc(DEPTH + 1);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    FAILS("t.json:1: ", from_text, text, (struct trace_opts){0});
}

/* Cut a good file anywhere, or spoil any byte: an error or a trace, never a crash. */
TEST(damaged_files_do_no_harm)
{
    static const char topologies[] = "{\"a\": [[0], [1], [1, 0],\n[0, 0], [1, 0, 2]], \"b\": [[3]]}";
    const char *const good[] = {small_tree, small_spec, topologies};
    for (int k = 0; k < 3; k++) {
        size_t n = strlen(good[k]);
        FREED char *text = xstrdup(good[k]);
        for (size_t i = 0; i < n; i++) {
            struct trace_opts o = {.prompt = 9, .max_seq = k < 2 ? 20 : 0, .topology = k == 1};
            struct err e = {0};
            char kept = text[i];
            text[i] = '\0';
            struct trace *tr = k < 2 ? from_text(text, o, &e) : from_medusa(text, "", o, &e);
            ck_assert(tr || e.code == EXIT_BAD_INPUT || i + 2 >= n);
            trace_close(tr);
            for (const char *c = "9-\"[}, \xff"; *c; c++) {
                text[i] = *c;
                e = (struct err){0};
                tr = k < 2 ? from_text(text, o, &e) : from_medusa(text, "", o, &e);
                ck_assert((tr != NULL) == (e.code == 0));
                trace_close(tr);
            }
            text[i] = kept;
        }
    }
}

/* A name without a folder is here, or where published traces are; with one it is nowhere else. */
TEST(names_are_looked_for)
{
    static const char request[] =
        "{\"timestamp\": 0, \"input_length\": 7, \"output_length\": 2, \"hash_ids\": [0]}\n";
    FREED char *shared = scratch_folder(), *folder = xasprintf("%s/traces", shared),
               *there = xasprintf("%s/some", folder);
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    write_bytes(there, request, strlen(request));
    setenv("TREEATTN_SHARED", shared, 1);
    struct err e = {0};
    AUTO(trace) tr = MUST(trace_open, "mooncake:some", &(struct trace_opts){0});
    ck_assert_ptr_null(trace_open("mooncake:./some", &(struct trace_opts){0}, &e));
    ck_assert_int_eq(unlink(there), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(rmdir(shared), 0);
}

TEST(bad_specs_get_a_sentence)
{
    static const struct {
        const char *spec;
        struct trace_opts o;
        const char *says;
    } c[] = {
        {"", {0}, "unknown kind"},
        {"sorting", {0}, "unknown kind"},
        {"deft:", {0}, "cannot be opened"},
        {"deft:no/such/file", {0}, "cannot be opened"},
        {"deft:no-such-file", {0}, "no-such-file: cannot be opened: neither here nor in /nonexistent/traces"},
        {"deft:traces", {0}, "is a directory"},
        {"deft:Makefile", {0}, "Makefile:1: "},
        {"deft:/dev/zero", {0}, "larger than"},
        {"embedded:sorting", {0}, "expected one of: reasoning, speculative, medusa, requests"},
        {"embedded:requests,x", {0}, "no such trace in the program"},
        {"embedded:requests", {.prompt = 5}, "expected neither"},
        {"embedded:requests", {.max_seq = 5}, "expected neither"},
        {"embedded:requests", {.tree_index = 48}, "no request 48"},
        {"embedded:requests", {.topology = true}, "no token tree"},
        {"embedded:requests", {.batch = -1}, "batch -1"},
        {"embedded:requests", {.batch = 65537}, "batch 65537"},
        {"embedded:requests", {.step_ms = -1}, "step_ms -1"},
        {"embedded:reasoning", {.batch = 4}, "no requests"},
        {"embedded:reasoning", {.step_ms = 4}, "no requests"},
        {"embedded:medusa", {0}, "expected a prompt length"},
        {"embedded:medusa", {.prompt = 9, .max_seq = 20}, "max_seq 20"},
        {"embedded:medusa", {.prompt = 9, .tree_index = 3}, "no topology 3 (expected an index below 3"},
        {"embedded:medusa,seeded-8", {.prompt = 9, .tree_index = 1}, "a name and tree index 1"},
        {"embedded:medusa,nix", {.prompt = 9}, "no topology \"nix\" (expected one of: seeded-8, seeded-24"},
        {"medusa:no/such/file,x", {.prompt = 9}, "no/such/file: cannot be opened"},
        {"mooncake:no/such/file", {0}, "cannot be opened"},
        {"mooncake:Makefile", {0}, "Makefile:1: "},
        {"requests:5", {0}, "not a count and a seed"},
        {"requests:0,1", {0}, "not a count and a seed"},
        {"fewshot:", {.prompt = 5, .max_seq = 9}, "not a width"},
        {"fewshot:0", {.prompt = 5, .max_seq = 9}, "not a width"},
        {"fewshot:-3", {.prompt = 5, .max_seq = 9}, "not a width"},
        {"fewshot:99999999999999999999", {.prompt = 5, .max_seq = 9}, "not a width"},
        {"fewshot:4", {0}, "leave no step"},
        {"fewshot:4", {.prompt = 5}, "leave no step"},
        {"fewshot:4", {.prompt = 5, .max_seq = 6}, "leave no step"},
        {"fewshot:4", {.tree_index = 1, .prompt = 5, .max_seq = 9}, "no tree 1"},
        {"fewshot:4", {.prompt = 5, .max_seq = 9, .topology = true}, "no token tree"},
        {"fewshot:16000000", {.prompt = 5, .max_seq = INT64_C(1) << 40}, "in one tree"},
        {"reasoning:", {0}, "not a seed"},
        {"reasoning:x", {0}, "not a seed"},
        {"reasoning:1", {.prompt = 4000, .max_seq = 4000}, "leaves no step"},
        {"reasoning:1", {.prompt = 4000, .max_seq = 4001}, "leaves no step"},
        {"reasoning:1", {.prompt = -1}, "prompt -1"},
        {"reasoning:1", {.prompt = INT64_MAX}, "expected each from"},
        {"reasoning:1", {.prompt = INT64_C(1) << 40}, "in one tree"},
        {"reasoning:1", {.tree_index = -1}, "tree index -1"},
        {"reasoning:1", {.topology = true}, "no token tree"},
        {"spec:64", {0}, "not a token count"},
        {"spec:0,1", {0}, "not a token count"},
        {"spec:64,", {0}, "not a token count"},
        {"spec:64,1", {.prompt = 100, .max_seq = 100}, "expected a difference"},
        {"spec:64,1", {.prompt = 100, .max_seq = INT64_C(1) << 40}, "expected a difference"},
        {"embedded:speculative", {.tree_index = 9}, "no record 9"},
        {"embedded:reasoning", {.tree_index = 9}, "no tree 9"},
    };
    setenv("TREEATTN_SHARED", "/nonexistent", 1);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct err e = {0};
        ck_assert_ptr_null(trace_open(c[i].spec, &c[i].o, &e));
        ck_assert_int_eq(e.code, EXIT_BAD_INPUT);
        ck_assert_msg(strstr(e.msg, c[i].says) != NULL, "%s says \"%s\" (expected \"%s\")", c[i].spec, e.msg,
                      c[i].says);
    }
}
