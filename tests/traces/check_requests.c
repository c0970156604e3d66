/*
 * check_requests.c - Mooncake's request traces: the format, the prefix trie, continuous batching.
 *
 * The replay is held against a simulation that goes step by step and looks at every block, with a bit per
 * request in flight for who is below it.
 */
#include "ref/file.h"
#include "traces/generate/gen_trace.h"
#include "traces/formats/mooncake.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <math.h>
#include <unistd.h>

static struct requests *read_text(const char *text, struct err *e)
{
    return mooncake_read(text, strlen(text), "t.jsonl", NULL, e);
}

/* ---- by hand ------------------------------------------------------------------------------------------- */

/* Blocks 1, 2 are shared by the first two; the third has the first's list; the last has a root of its own. */
static const char small[] =
    "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 3, \"hash_ids\": [1, 2, 3]}\n"
    "\r\n"
    "{\"timestamp\": 10, \"input_length\": 1536, \"output_length\": 1, \"hash_ids\": [1, 2, 4]}\r\n"
    "  {\"hash_ids\": [1, 2, 3], \"timestamp\": 10, \"input_length\": 1100, \"output_length\": 2, \"x\": "
    "{}}\n"
    "{\"timestamp\": 95, \"input_length\": 7, \"output_length\": 2, \"hash_ids\": [0]}";

static struct trace *open_small(struct trace_opts o)
{
    struct requests *r = MUST(read_text, small);
    return MUST(replay_requests, r, "text", &o);
}

static void assert_step(const struct trace *tr, int64_t t, const char *want)
{
    AUTO(tree) tree = trace_tree(tr, t);
    char got[256] = "";
    size_t n = 0;
    ck_assert(tree_check(tree, NULL));
    for (int32_t i = 0; i < tree->n_nodes; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, "%d:%lld ", tree->parent[i], (long long)tree->len[i]);
    for (int32_t q = 0; q < tree->n_queries; q++) {
        ck_assert_int_eq(tree->query[q].upto, tree->len[tree->query[q].node]);
        n += (size_t)snprintf(got + n, sizeof got - n, "q%d ", tree->query[q].node);
    }
    ck_assert_str_eq(got, want);
}

LOOP_TEST(batching_by_hand, 5)
{
    static const struct {
        struct trace_opts o;
        int64_t steps;
        const char *want[7]; /* of a step each; NULL: any */
    } of[] = {
        /* 1024 tokens for three; 76 for two of them; and what each has for itself. */
        {{0},
         3,
         {"-1:8 -1:1024 1:76 1:513 2:1 2:1 q4 q3 q5 q0 ", "-1:9 -1:1100 1:2 1:2 q2 q3 q0 ", "-1:1103 q0 "}},
        /* Two places: the third waits for the second, the fourth for the first or the third. */
        {{.batch = 2},
         5,
         {"-1:1024 0:77 0:513 q1 q2 ", "-1:1100 0:2 0:1 q1 q2 ", "-1:1100 0:3 0:2 q1 q2 ", "-1:8 q0 ",
          "-1:9 q0 "}},
        {{.batch = 1, .tree_index = 2}, 4, {NULL, "-1:1102 q0 ", "-1:8 q0 "}},
        /* Steps begin at 0, 4, 8, 12: the second and the third join at the fourth step, after the first has gone;
         * the clock jumps to 10 at once, and to 95 for the last. */
        {{.step_ms = 4},
         7,
         {NULL, NULL, "-1:1103 q0 ", "-1:1024 0:77 0:513 q2 q1 ", "-1:1102 q0 ", "-1:8 q0 "}},
        /* Steps begin at 0, 10, 20; the last request finds nobody and the clock jumps to 95. */
        {{.step_ms = 10},
         5,
         {"-1:1101 q0 ", "-1:1024 0:76 0:513 1:2 1:1 q3 q2 q4 ", "-1:1100 0:3 0:2 q1 q2 ", NULL, "-1:9 q0 "}},
    };
    AUTO(trace) tr = open_small(of[_i].o);
    ck_assert_int_eq(trace_steps(tr), of[_i].steps);
    for (int64_t t = 0; t < of[_i].steps; t++)
        if (of[_i].want[t])
            assert_step(tr, t + 1, of[_i].want[t]);
    if (_i == 0) {
        ck_assert_int_eq(trace_generated(tr), 8);
        ck_assert_str_eq(trace_title(tr), "requests, text, from request 0, B = 32, no clock, 3 steps");
    }
}

/* ---- against a simulation ------------------------------------------------------------------------------ */

/* Tokens by who shares them: bit k is the k-th request in flight. */
struct share {
    uint64_t who;
    int64_t tokens;
};

static int share_compare(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    return (x->who > y->who) - (x->who < y->who);
}

static int32_t merge_shares(struct share *s, int32_t n)
{
    int32_t m = 0;
    qsort(s, (size_t)n, sizeof *s, share_compare);
    for (int32_t i = 0; i < n; i++)
        if (m > 0 && s[m - 1].who == s[i].who)
            s[m - 1].tokens += s[i].tokens;
        else
            s[m++] = s[i];
    return m;
}

/* Decoding now: which request, and its how-many-eth step this is. */
struct active {
    int32_t request;
    int64_t k;
};

static int block_compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* The step's tree must have one node for each set of requests that shares anything, of the right length. */
static void check_step(const struct requests *r, const struct active *active, int32_t n,
                       const struct tree *tree)
{
    int64_t n_blocks = 0, m = 0;
    for (int32_t i = 0; i < n; i++)
        n_blocks += r->request[active[i].request].n_blocks;
    int64_t(*use)[3] = xmalloc((size_t)n_blocks * sizeof *use); /* id, tokens, who */
    for (int32_t i = 0; i < n; i++) {
        const struct request *q = &r->request[active[i].request];
        for (int32_t k = 0; k < q->n_blocks; k++, m++) {
            use[m][0] = r->block[q->first + k];
            use[m][1] = k + 1 < q->n_blocks ? 512 : q->input - 512 * (int64_t)k;
            use[m][2] = i;
        }
    }
    qsort(use, (size_t)m, sizeof *use, block_compare);
    FREED struct share *want = xcalloc((size_t)(n_blocks + n), sizeof *want), *got;
    int32_t n_want = 0;
    for (int64_t i = 0; i < m; i++) {
        if (i == 0 || use[i][0] != use[i - 1][0])
            want[n_want++].tokens = use[i][1];
        want[n_want - 1].who |= UINT64_C(1) << use[i][2];
    }
    for (int32_t i = 0; i < n; i++)
        want[n_want++] = (struct share){UINT64_C(1) << i, active[i].k};
    n_want = merge_shares(want, n_want);

    MUST(tree_check, tree);
    ck_assert_int_eq(tree->n_queries, n);
    ck_assert_int_eq(tree->n_nodes, n_want);
    got = xcalloc((size_t)n_want, sizeof *got);
    FREED int64_t *context = xcalloc((size_t)n, sizeof *context);
    tree_contexts(tree, context);
    for (int32_t i = 0; i < n; i++) {
        got[tree->query[i].node].who |= UINT64_C(1) << i;
        check_each(context[i] == r->request[active[i].request].input + active[i].k, "query %d sees %lld", i,
                   (long long)context[i]);
    }
    for (int32_t i = n_want - 1; i >= 0; i--) {
        got[i].tokens = tree->len[i];
        if (tree->parent[i] >= 0)
            got[tree->parent[i]].who |= got[i].who;
    }
    ck_assert_int_eq(merge_shares(got, n_want), n_want);
    for (int32_t i = 0; i < n_want; i++)
        check_each(got[i].who == want[i].who && got[i].tokens == want[i].tokens, "node %d", i);
    free(use);
}

/* Step by step: who is done leaves, who has arrived joins while there is a place. Every `every`-th step's
 * tree is checked; returns the number of steps. */
static int64_t simulate(const struct requests *r, const struct trace *tr, struct trace_opts o, int64_t every)
{
    struct active active[64];
    int32_t n = 0, next = 0, places = o.batch > 0 ? o.batch : 32;
    int64_t t = 0, now = r->request[0].arrival;
    ck_assert_int_le(places, 64);
    for (;; now += o.step_ms) {
        int32_t kept = 0;
        for (int32_t i = 0; i < n; i++)
            if (active[i].k < r->request[active[i].request].output)
                active[kept++] = active[i];
        n = kept;
        if (n == 0 && next == r->n)
            return t;
        if (n == 0)
            now = max_i64(now, r->request[next].arrival);
        while (n < places && next < r->n && (o.step_ms == 0 || r->request[next].arrival <= now))
            active[n++] = (struct active){.request = next++};
        for (int32_t i = 0; i < n; i++)
            active[i].k++;
        t++;
        check_each(t <= trace_steps(tr), "step %lld", (long long)t);
        if (t % every == 0 || t == trace_steps(tr)) {
            AUTO(tree) tree = trace_tree(tr, t);
            check_step(r, active, n, tree);
        }
    }
}

static void check_replay(const struct requests *r, const struct trace *tr, struct trace_opts o, int64_t every)
{
    int64_t outputs = 0;
    for (int32_t i = 0; i < r->n; i++)
        outputs += r->request[i].output;
    ck_assert_int_eq(trace_generated(tr), outputs);
    ck_assert_int_eq(simulate(r, tr, o, every), trace_steps(tr));
}

TEST(replays_agree_with_a_simulation)
{
    static const struct trace_opts c[] = {
        {0},
        {.batch = 1},
        {.batch = 7},
        {.batch = 64},
        {.batch = 20, .step_ms = 1},
        {.batch = 5, .step_ms = 40},
        {.step_ms = 300},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            int32_t n = 20 * (int32_t)seed;
            AUTO(requests) r = requests_gen(n, seed);
            AUTO(trace) tr = MUST(replay_requests, requests_gen(n, seed), "gen", &c[i]);
            check_replay(r, tr, c[i], 1);
        }
}

/* ---- the published traces ------------------------------------------------------------------------------ */

static int i64_compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int64_t count_distinct(int64_t *x, int64_t n)
{
    int64_t distinct = 0;
    qsort(x, (size_t)n, sizeof *x, i64_compare);
    for (int64_t i = 0; i < n; i++)
        distinct += i == 0 || x[i] != x[i - 1];
    return distinct;
}

/* A row of the table in ../shared/traces/README.md, section 7. */
struct published {
    const char *file;
    int64_t requests, span, timestamps, input, input_min, input_max, output, output_min, output_max, blocks,
        ids, longest, roots;
};

static void check_published(const struct requests *r, const struct published *p)
{
    FREED int64_t *arrival = xmalloc((size_t)r->n * sizeof *arrival),
                  *root = xmalloc((size_t)r->n * sizeof *root);
    FREED int64_t *id = xmalloc((size_t)r->n_blocks * sizeof *id);
    struct published s = {.input_min = INT64_MAX, .output_min = INT64_MAX};
    for (int32_t i = 0; i < r->n; i++) {
        const struct request *q = &r->request[i];
        arrival[i] = q->arrival;
        root[i] = r->block[q->first];
        s.input += q->input;
        s.output += q->output;
        s.input_min = min_i64(s.input_min, q->input);
        s.input_max = max_i64(s.input_max, q->input);
        s.output_min = min_i64(s.output_min, q->output);
        s.output_max = max_i64(s.output_max, q->output);
        s.longest = max_i64(s.longest, q->n_blocks);
    }
    memcpy(id, r->block, (size_t)r->n_blocks * sizeof *id);
    ck_assert_int_eq(r->n, p->requests);
    ck_assert_int_eq(arrival[r->n - 1] - arrival[0], p->span);
    ck_assert_int_eq(count_distinct(arrival, r->n), p->timestamps);
    ck_assert_int_eq((s.input + r->n / 2) / r->n, p->input);
    ck_assert_int_eq((s.output + r->n / 2) / r->n, p->output);
    ck_assert(s.input_min == p->input_min && s.input_max == p->input_max);
    ck_assert(s.output_min == p->output_min && s.output_max == p->output_max);
    ck_assert_int_eq(r->n_blocks, p->blocks);
    ck_assert_int_eq(count_distinct(id, r->n_blocks), p->ids);
    ck_assert_int_eq(s.longest, p->longest);
    ck_assert_int_eq(count_distinct(root, r->n), p->roots);
}

LOOP_TEST(published_traces, 2)
{
    static const struct published table[] = {
        {"conversation", 12031, 3536999, 1180, 12035, 891, 126195, 343, 1, 2000, 288500, 182790, 247, 1},
        {"synthetic", 3993, 1022025, 3982, 15325, 13, 191378, 149, 1, 893, 121877, 43924, 374, 2211},
    };
    static const struct trace_opts c[] = {{0}, {.batch = 64, .step_ms = 25}};
    const struct published *p = &table[_i];
    FREED char *name = xasprintf("traces/mooncake_%s_trace.jsonl", p->file), *path = shared_path(name);
    if (!path)
        return;
    size_t size;
    FREED char *text = MUST(file_slurp, path, MOONCAKE_MAX_BYTES, &size);
    AUTO(requests) r = MUST(mooncake_read, text, size, path, NULL);
    check_published(r, p);

    FREED char *again, *spec = xasprintf("mooncake:%s", path);
    size_t again_size;
    FILE *f = open_memstream(&again, &again_size);
    ck_assert(mooncake_write(f, r) && fclose(f) == 0);
    ck_assert(again_size <= size); /* theirs may end without a line feed, or hold other blanks */
    AUTO(requests) twin = MUST(mooncake_read, again, again_size, "again", NULL);
    ck_assert_int_eq(twin->n_blocks, r->n_blocks);
    ck_assert_mem_eq(twin->block, r->block, (size_t)r->n_blocks * sizeof *r->block);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        AUTO(trace) tr = MUST(trace_open, spec, &c[i]);
        check_replay(r, tr, c[i], trace_steps(tr) / 150);
    }
}

/* ---- as others write them ------------------------------------------------------------------------------- */

/* Lines as of Alibaba's usage traces: blocks of 16, seconds with fractions, other members. */
TEST(other_blocks_and_units)
{
    static const char text[] =
        "{\"chat_id\": 1, \"timestamp\": 61.1144, \"input_length\": 40, \"output_length\": 2, \"hash_ids\": "
        "[7, 8, 9]}\n"
        "{\"chat_id\": 2, \"timestamp\": 62, \"input_length\": 64, \"output_length\": 3, \"type\": \"text\", "
        "\"hash_ids\": [7, 8, 4, 5]}\n";
    FREED char *file = scratch_file(text, strlen(text)),
               *spec = xasprintf("mooncake:%s,block=16,unit=s", file);
    AUTO(trace) tr = MUST(trace_open, spec, &(struct trace_opts){0});
    const struct requests *r = ((const struct batching *)tr->self)->requests;
    ck_assert(r->request[0].arrival == 61114 && r->request[1].arrival == 62000);
    assert_step(tr, 1, "-1:32 0:33 0:9 q2 q1 ");
    FREED char *ms = xasprintf("mooncake:%s,unit=ms,block=16", file),
               *wrong = xasprintf("mooncake:%s,block=32,unit=s", file),
               *none = xasprintf("mooncake:%s,block=0", file),
               *other = xasprintf("mooncake:%s,size=16", file);
    AUTO(trace) slow = MUST(trace_open, ms, &(struct trace_opts){0});
    ck_assert_int_eq(((const struct batching *)slow->self)->requests->request[0].arrival, 61);
    FAILS("expected 2, one per 32 tokens of the prompt; or is this mooncake:FILE,block=16,unit=s?",
          trace_open, wrong, &(struct trace_opts){0});
    FAILS("'block=0' (expected FILE, block=B from 1 to 4096", trace_open, none, &(struct trace_opts){0});
    FAILS("'size=16' (expected FILE, block=B", trace_open, other, &(struct trace_opts){0});
}

/* ---- round trip ---------------------------------------------------------------------------------------- */

TEST(requests_round_trip)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        AUTO(requests) r = requests_gen(1 + (int32_t)seed * 9, seed);
        FREED char *text, *again;
        size_t size, again_size;
        FILE *f = open_memstream(&text, &size);
        ck_assert(mooncake_write(f, r) && fclose(f) == 0);
        AUTO(requests) twin = MUST(mooncake_read, text, size, "t.jsonl", NULL);
        f = open_memstream(&again, &again_size);
        ck_assert(mooncake_write(f, twin) && fclose(f) == 0);
        ck_assert_str_eq(text, again);
        ck_assert_mem_eq(r->request, twin->request, (size_t)r->n * sizeof *r->request);
    }
}

/* ---- malformed input ----------------------------------------------------------------------------------- */

TEST(damaged_requests_do_no_harm)
{
    FREED char *text = xstrdup(small);
    for (size_t i = 0; i < sizeof small - 1; i++) {
        char kept = text[i];
        struct err e = {0};
        struct requests *r = mooncake_read(small, i, "t.jsonl", NULL, &e);
        ck_assert((r != NULL) == (e.code == 0));
        requests_free(r);
        for (const char *c = "90-\"[}, \n\xff"; *c; c++) {
            text[i] = *c;
            e = (struct err){0};
            r = mooncake_read(text, sizeof small - 1, "t.jsonl", NULL, &e);
            ck_assert((r != NULL) == (e.code == 0));
            AUTO(trace) tr = r ? replay_requests(r, "t", &(struct trace_opts){.batch = 2}, &e) : NULL;
            AUTO(tree) tree = tr ? trace_tree(tr, trace_steps(tr)) : NULL;
            ck_assert(!tree || tree_check(tree, NULL));
        }
        text[i] = kept;
    }
}

/* ---- the papers' serving workloads --------------------------------------------------------------------- */

/* Nodes of the first step by length and by how many queries are below. */
static int32_t count_nodes(const struct tree *t, int64_t len, int32_t queries)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        int32_t below = 0;
        for (int32_t q = 0; q < t->n_queries; q++)
            for (int32_t m = t->query[q].node; m >= 0; m = t->parent[m])
                below += m == i;
        n += t->len[i] == len && (queries == 0 || below == queries);
    }
    return n;
}

static struct tree *first_step(const char *spec, int32_t batch, int64_t steps)
{
    AUTO(trace) tr = MUST(trace_open, spec, &(struct trace_opts){.batch = batch});
    ck_assert(steps == 0 || trace_steps(tr) == steps);
    struct tree *t = trace_tree(tr, 1);
    ck_assert_int_eq(t->n_queries, batch);
    return t;
}

TEST(serving_workloads_share_what_papers_say)
{
    AUTO(tree) t = first_step("fasttree:prompt,1", 128, 256);
    ck_assert_int_eq(count_nodes(t, 459, 128), 1);
    ck_assert_int_eq(count_nodes(t, 38, 0), 4);
    ck_assert_int_eq(count_nodes(t, 584, 0), 8);
    ck_assert_int_eq(count_nodes(t, 2112, 0), 16);
    tree_free(t);
    t = first_step("fasttree:shots,1", 128, 256);
    ck_assert_int_eq(count_nodes(t, 3193, 128), 1);
    ck_assert_int_eq(count_nodes(t, 3000, 16), 8);
    tree_free(t);
    t = first_step("fasttree:chains,1", 128, 256);
    ck_assert_int_eq(count_nodes(t, 3193, 128), 1);
    ck_assert_int_eq(t->n_nodes, 1 + 32 + 128);
    ck_assert_int_eq(count_nodes(t, 17, 1), 128); /* what sets it apart, and the first token */
    tree_free(t);
    t = first_step("fasttree:documents,1", 128, 256);
    /* a choice that one request alone drew is part of its leaf; two without another between them are one node */
    ck_assert_int_eq(t->parent[0] + t->parent[1] + t->parent[2] + t->parent[3], -4);
    ck_assert_int_le(t->n_nodes, 4 + 12 + 24 + 128);
    ck_assert_int_eq(count_nodes(t, 2000, 0) + count_nodes(t, 4000, 0), t->n_nodes - 128);
    ck_assert_int_gt(t->n_nodes, 4 + 12 + 16 + 128);
    tree_free(t);
    t = first_step("conversation:300,1", 200, 0);
    ck_assert_int_eq(count_nodes(t, 46, 200), 1);
    ck_assert_int_eq(count_nodes(t, 348, 0), 8);
    ck_assert_int_gt(count_nodes(t, 2123, 0), 20);
    tree_free(t);
    t = first_step("conversation:300,1,3,2", 200, 0); /* fewer values of its two fields */
    ck_assert_int_eq(count_nodes(t, 348, 0), 3);
    ck_assert_int_eq(count_nodes(t, 2123, 0), 6);
    FAILS("LANGUAGES,COUNTRIES", trace_open, "conversation:300,1,3", &(struct trace_opts){0});
    FAILS("LANGUAGES,COUNTRIES", trace_open, "conversation:300,1,0,2", &(struct trace_opts){0});
    FAILS("prompt, shots, chains or documents", trace_open, "fasttree:chess,1", &(struct trace_opts){0});
    AUTO(trace) talk = MUST(trace_open, "conversation:20000,1", &(struct trace_opts){0});
    const struct requests *r = ((const struct batching *)talk->self)->requests;
    double per_second = 1000.0 * (r->n - 1) / (double)r->request[r->n - 1].arrival;
    ck_assert_msg(fabs(per_second - 5) < 0.2, "%g arrivals a second", per_second);
    ck_assert_ptr_null(trace_open("conversation:0,1", &(struct trace_opts){0}, NULL));
}
