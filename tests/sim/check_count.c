/*
 * check_count.c - the three ways of counting: DeFT's recorded runs to the byte, its Table 17, its Table 12,
 * and small trees by hand; the sweep over a trace that adds them up.
 */
#include "sim/count.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"
#include "verify/bench/bench_cpu.h"
#include "verify/cases/case.h"
#include "verify/model/simulate_steps.h"

#include <math.h>
#include <omp.h>

/* ---- a sweep with its sources ------------------------------------------------------------------------- */

enum { MAX_USES = 8 };

static struct simulation sweep_of(int64_t h_q, int64_t d, enum count_mode mode)
{
    int32_t h_kv = h_q % 8 == 0 ? 8 : (int32_t)h_q;
    return (struct simulation){
        .env = plan_env_default((struct heads){(int32_t)h_q, h_kv, (int32_t)d, DT_F16}),
        .mode = mode,
    };
}

/* Every step of a trace into row[s->n_use]; the trace must open. */
static void sweep_trace(const struct simulation *s, const struct trace *tr, int64_t layers,
                        struct simulated_row *row)
{
    struct simulation_source src = {.trace = tr, .first = 1, .last = trace_steps(tr)};
    MUST(simulate_steps, s, &src, layers, row, NULL);
    for (int32_t i = 0; i < s->n_use; i++)
        ck_assert_msg(row[i].skipped_at == 0, "%s: %s", trace_title(tr), row[i].why);
}

/* ---- what DeFT's release recorded --------------------------------------------------------------------- */

static const struct {
    const char *mode, *strategy;
} release_modes[] = {
    {"seq", "radix-attention"}, {"seq_unpaged", "flash-decoding"}, {"flatten", "deft-flatten:rule=artifact"},
    {"node", "deft-node"},      {"node_chunk", "deft-node-chunk"}, {"tree_index", "deft-node-chunk"},
    {"tree", "tree-medusa"},
};
enum { N_RELEASE_MODES = sizeof release_modes / sizeof release_modes[0] };

/* A row of a table of recorded runs. */
struct recorded {
    int64_t row; /* of the table */
    char file[96];
    struct trace_opts opts;
    int mode; /* of release_modes */
    int64_t layers, heads, dim;
    int64_t iterations, generated, kv, mask, qk, softmax; /* -1: not recorded */
};

static struct recorded recorded_row(const struct csv *c, int64_t i)
{
    struct recorded r = {
        .row = i + 1,
        .opts = {.tree_index = (int32_t)csv_number(c, i, "tree_index", 0),
                 .prompt = csv_number(c, i, "prompt_len", 0),
                 .max_seq = csv_number(c, i, "max_seq_len", 0)},
        .layers = csv_number(c, i, "layers", 32), /* Llama-3-8B where the table does not say */
        .heads = csv_number(c, i, "q_heads", 32),
        .dim = csv_number(c, i, "head_dim", 128),
        .iterations = csv_number(c, i, "iterations", -1),
        .generated = csv_number(c, i, "generated_len", -1),
        .kv = csv_number(c, i, "KV_IO_bytes", -1),
        .mask = csv_number(c, i, "Mask_IO_bytes", -1),
        .qk = csv_number(c, i, "QK_IO_bytes", -1),
        .softmax = csv_number(c, i, "SoftMax_IO_bytes", -1),
    };
    snprintf(r.file, sizeof r.file, "%s", csv_text(c, i, "file"));
    while (r.mode < N_RELEASE_MODES && strcmp(release_modes[r.mode].mode, csv_text(c, i, "mode")) != 0)
        r.mode++;
    ck_assert_msg(r.mode < N_RELEASE_MODES, "row %lld: no mode '%s'", (long long)i + 1,
                  csv_text(c, i, "mode"));
    return r;
}

/* Same trace and heads: one replay answers both. Layers only multiply. */
static int by_run(const void *x, const void *y)
{
    const struct recorded *a = x, *b = y;
    int order = strcmp(a->file, b->file);
    const int64_t key[][2] = {{a->opts.tree_index, b->opts.tree_index},
                              {a->opts.prompt, b->opts.prompt},
                              {a->opts.max_seq, b->opts.max_seq},
                              {a->heads, b->heads},
                              {a->dim, b->dim}};
    for (size_t i = 0; i < sizeof key / sizeof key[0] && order == 0; i++)
        order = (key[i][0] > key[i][1]) - (key[i][0] < key[i][1]);
    return order;
}

static struct trace *open_run(const struct recorded *r)
{
    const char *width = strstr(r->file, "width=");
    FREED char *name = xasprintf("traces/%s", r->file), *path = width ? NULL : shared_path(name);
    FREED char *spec = width ? xasprintf("fewshot:%s", width + strlen("width=")) : xasprintf("deft:%s", path);
    struct err e = {0};
    struct trace *tr = trace_open(spec, &r->opts, &e);
    ck_assert_msg(tr, "row %lld: %s", (long long)r->row, e.msg);
    return tr;
}

static void check_recorded(const char *table, const struct recorded *r, const struct trace *tr,
                           const struct simulated_row *row)
{
    const struct ledger *l = &row->moved;
    const struct {
        const char *name;
        int64_t want, got;
    } x[] = {
        {"iterations", r->iterations, row->steps},
        {"generated_len", r->generated, trace_generated(tr)},
        {"KV_IO_bytes", r->kv, l->kv * r->layers},
        {"Mask_IO_bytes", r->mask, l->mask * r->layers},
        {"QK_IO_bytes", r->qk, (l->qk_write + l->qk_read) * r->layers},
        {"SoftMax_IO_bytes", r->softmax, (l->softmax_write + l->softmax_read) * r->layers},
    };
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        ck_assert_msg(x[i].want < 0 || x[i].want == x[i].got,
                      "%s row %lld (%s, %s): %s is %lld, recorded %lld", table, (long long)r->row,
                      trace_title(tr), release_modes[r->mode].mode, x[i].name, (long long)x[i].got,
                      (long long)x[i].want);
}

/* Rows r[0 .. n) of one run. */
static void check_run(const char *table, const struct recorded *r, int64_t n)
{
    struct strategy_use use[N_RELEASE_MODES];
    struct simulation s = sweep_of(r->heads, r->dim, COUNT_DEFT);
    int at[N_RELEASE_MODES];
    s.use = use;
    for (int m = 0; m < N_RELEASE_MODES; m++)
        for (int64_t i = 0; i < n; i++)
            if (r[i].mode == m) {
                ck_assert(strategy_parse(release_modes[m].strategy, &use[s.n_use], NULL));
                at[m] = s.n_use++;
                break;
            }
    AUTO(trace) tr = open_run(r);
    struct simulated_row row[N_RELEASE_MODES];
    sweep_trace(&s, tr, r->layers, row);
    for (int64_t i = 0; i < n; i++)
        check_recorded(table, &r[i], tr, &row[at[r[i].mode]]);
}

/* Every row of the table, whatever tasks and files it names. */
static void check_table(const char *table)
{
    CLEARED_BY(csv_clear) struct csv c = {0};
    if (!shared_csv(&c, table))
        return;
    FREED struct recorded *r = NULL;
    int64_t n = 0, runs = 0, quick = getenv("TREEATTN_QUICK") ? 8 : 1;
    r = xcalloc((size_t)c.n_rows, sizeof *r);
    for (; n < c.n_rows; n++)
        r[n] = recorded_row(&c, n);
    ck_assert_int_gt(n, 0);
    qsort(r, (size_t)n, sizeof *r, by_run);
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && by_run(&r[i], &r[next]) == 0;)
            next++;
        if (runs++ % quick == 0)
            check_run(table, r + i, next - i);
    }
    if (quick > 1)
        printf("count: only every %lldth run of %s (TREEATTN_QUICK)\n", (long long)quick, table);
}

TEST(recorded_runs)
{
    check_table("traces/golden.csv");
}

TEST(recorded_ablations)
{
    check_table("traces/golden_ablation.csv");
}

/* ---- DeFT Table 17 ------------------------------------------------------------------------------------ */

/* TB of a whole run: KV / QK^T, scaled, mask, masked and softmax together. */
struct cell {
    double kv, partial;
};
enum { N_METHODS = 4, N_COLUMNS = 11, N_FEWSHOT = 3, N_REASONING = 4 };
static const char *const table17_method[N_METHODS] = {"flash-decoding", "tree-medusa", "radix-attention",
                                                      "deft-flatten"};
/* Few-shot: branches of a prompt of 4000. Reasoning: the mean of trees 0 to 9 with their own prompts, to their ends.
 * Speculative: tokens of the token tree. */
static const char *const table17_column[N_COLUMNS] = {
    "fewshot:20", "fewshot:30", "fewshot:50", "sorting128ToT", "docmergeToT", "keywordToT",
    "set128ToT",  "32",         "64",         "128",           "256"};
static const double table17_kv[N_METHODS][N_COLUMNS] = {
    {17.62, 26.43, 44.05, 59.96, 39.74, 4.68, 7.01, 128.72, 255.16}, /* the last two ran out of memory */
    {1.68, 2.10, 2.94, 12.40, 10.57, 0.58, 1.04, 4.02, 4.15, 4.18, 4.32},
    {17.62, 26.43, 44.05, 59.96, 39.74, 4.68, 7.01, 131.45, 256.79, 522.05, 1044.10},
    {1.68, 2.10, 2.94, 12.40, 10.57, 0.58, 1.04, 4.10, 4.11, 4.16, 4.35},
};
static const double table17_partial[N_METHODS][N_COLUMNS] = {
    {0},
    {1.05, 1.98, 4.61, 3.69, 3.24, 0.18, 0.27, 4.03, 8.33, 16.77, 34.70},
    {0},
    {0, 0, 0, 0.01, 0.01, 0, 0, 0, 0, 0, 0},
};

/* Mean over items 0 .. n - 1 of a trace, into got[N_METHODS]. */
static void table17_run(const char *spec, int32_t n, struct trace_opts o, struct cell *got)
{
    struct strategy_use use[N_METHODS];
    struct simulation s = sweep_of(32, 128, COUNT_PAPER); /* Llama-3-8B, 32 layers */
    s.use = use;
    for (; s.n_use < N_METHODS; s.n_use++)
        ck_assert(strategy_parse(table17_method[s.n_use], &use[s.n_use], NULL));
    memset(got, 0, N_METHODS * sizeof *got);
    for (o.tree_index = 0; o.tree_index < n; o.tree_index++) {
        AUTO(trace) tr = MUST(trace_open, spec, &o);
        struct simulated_row row[N_METHODS];
        sweep_trace(&s, tr, 32, row);
        for (int m = 0; m < N_METHODS; m++) {
            const struct ledger *l = &row[m].moved;
            got[m].kv += (double)l->kv * 32 / 1e12 / n;
            got[m].partial += (double)(ledger_scores(l) + l->mask) * 32 / 1e12 / n;
        }
    }
}

/* Within one percent, or what two decimals can tell. */
static bool as_printed(double got, double printed, double percent)
{
    return fabs(got - printed) <= fmax(printed * percent / 100, 0.005 + 1e-9);
}

static void check_column(int column, const struct cell *got, double percent)
{
    for (int m = 0; m < N_METHODS; m++) {
        struct cell want = {table17_kv[m][column], table17_partial[m][column]};
        ck_assert_msg(as_printed(got[m].kv, want.kv, percent) &&
                          as_printed(got[m].partial, want.partial, percent),
                      "%s, %s: %.4f/%.4f TB, Table 17 has %.2f/%.2f", table17_method[m],
                      table17_column[column], got[m].kv, got[m].partial, want.kv, want.partial);
    }
}

/* The release decodes 399 times where S = P + 400; the table's figures are those of 400, to the last digit. */
LOOP_TEST(table_17_few_shot, N_FEWSHOT)
{
    struct cell got[N_METHODS];
    table17_run(table17_column[_i], 1, (struct trace_opts){.prompt = 4000, .max_seq = 4400}, got);
    check_column(_i, got, 1);
    table17_run(table17_column[_i], 1, (struct trace_opts){.prompt = 4000, .max_seq = 4401}, got);
    check_column(_i, got, 0);
}

LOOP_TEST(table_17_reasoning, N_REASONING)
{
    const char *task = table17_column[N_FEWSHOT + _i];
    FREED char *name = xasprintf("traces/%s.json", task), *path = shared_path(name);
    if (getenv("TREEATTN_QUICK") && _i < 2) {
        printf("count: %s skipped (TREEATTN_QUICK)\n", task);
    } else if (path) {
        FREED char *spec = xasprintf("deft:%s", path);
        struct cell got[N_METHODS];
        table17_run(spec, 10, (struct trace_opts){0}, got);
        check_column(N_FEWSHOT + _i, got, 1);
    }
}

/* The speculative cells are not reproduced: every cell of every method has 1.36 to 1.40 times what the published
 * records give, the ratio of iterations that the lost record must have had (2,050 to 2,110; ours are 1,507). */
LOOP_TEST(table_17_speculative, N_COLUMNS - N_FEWSHOT - N_REASONING)
{
    const char *tokens = table17_column[N_FEWSHOT + N_REASONING + _i];
    FREED char *name = xasprintf("traces/APPS_tree_size%s.json", tokens), *path = shared_path(name);
    if (path) {
        FREED char *spec = xasprintf("deft:%s", path);
        struct cell got[N_METHODS];
        table17_run(spec, 1, (struct trace_opts){.prompt = 1016, .max_seq = 6000}, got);
        for (int m = 0; m < N_METHODS; m++) {
            int column = N_FEWSHOT + N_REASONING + _i;
            struct cell want = {table17_kv[m][column], table17_partial[m][column]};
            double ratio = want.kv / got[m].kv;
            ck_assert_msg(want.kv == 0 || (ratio > 1.355 && ratio < 1.405), "%s, t = %s: ratio %.3f",
                          table17_method[m], tokens, ratio);
            ratio = want.partial / got[m].partial;
            ck_assert_msg(want.partial == 0 || (ratio > 1.355 && ratio < 1.405), "%s, t = %s: ratio %.3f",
                          table17_method[m], tokens, ratio);
        }
    }
}

/* ---- the same without reference data ------------------------------------------------------------------ */

/* The formulas of the release's counters (A, B, C, q of a step) on the traces inside the program. */
TEST(release_formulas)
{
    static const struct {
        const char *spec;
        int64_t prompt, max_seq;
    } c[] = {{"embedded:reasoning", 4000, 4300},
             {"embedded:speculative", 1000, 1100},
             {"fewshot:50", 300, 330},
             {"fewshot:100", 77, 90},
             {"spec:200,3", 1000, 1040}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct trace_opts o = {.prompt = c[i].prompt, .max_seq = c[i].max_seq};
        struct trace *tr = trace_open(c[i].spec, &o, NULL);
        int64_t a = 0, b = 0, c32 = 0, qa = 0, q = 0;
        for (int64_t t = 1; t <= trace_steps(tr); t++) {
            AUTO(tree) tree = trace_tree(tr, t);
            struct trace_count x = trace_count_tree(tree);
            a += x.kv_tree;
            b += x.kv_seq;
            c32 += x.kv_node32;
            qa += x.queries * x.kv_tree;
            q += x.queries;
        }
        enum { H = 16, D = 64, KV = 4 * H * D };
        const struct ledger want[N_RELEASE_MODES] = {
            {.kv = KV * b},
            {.kv = KV * b},
            {.kv = KV * a, .mask = 8 * a},
            {.kv = KV * c32},
            {.kv = KV * c32},
            {.kv = KV * c32},
            {.kv = KV * a,
             .mask = 2 * qa,
             .qk_write = 2 * H * qa,
             .qk_read = 2 * H * qa,
             .scaled_write = 2 * H * qa,
             .scaled_read = 2 * H * qa,
             .masked_write = 2 * H * qa,
             .masked_read = 2 * H * qa,
             .softmax_write = 4 * H * qa,
             .softmax_read = 4 * H * qa,
             .q = 2 * H * D * q,
             .out = 2 * H * D * q},
        };
        struct strategy_use use[N_RELEASE_MODES];
        struct simulated_row row[N_RELEASE_MODES];
        struct simulation s = sweep_of(H, D, COUNT_DEFT);
        s.use = use;
        for (; s.n_use < N_RELEASE_MODES; s.n_use++)
            ck_assert(strategy_parse(release_modes[s.n_use].strategy, &use[s.n_use], NULL));
        sweep_trace(&s, tr, 1, row);
        for (int m = 0; m < N_RELEASE_MODES; m++) {
#define X(field, meaning)                                                                                    \
    ck_assert_msg(row[m].moved.field == want[m].field, "%s %s: " #field " %lld, formula %lld", c[i].spec,    \
                  release_modes[m].mode, (long long)row[m].moved.field, (long long)want[m].field);
            LEDGER_FIELDS(X)
#undef X
        }
        trace_close(tr);
    }
}

/* Both rules of deft-flatten count a block once, however many groups its queries fill. */
TEST(blocks_count_once)
{
    AUTO_WITH_TREE nf = nform_new(levels_parse("1,100 300,3", NULL));
    struct simulation s = sweep_of(8, 16, COUNT_DEFT);
    static const char *const rules[] = {"deft-flatten", "deft-flatten:rule=artifact",
                                        "deft-flatten:block=64"};
    for (int i = 0; i < 3; i++)
        for (int mode = COUNT_PAPER; mode <= COUNT_DEFT; mode++) {
            AUTO(plan) p = must_plan(rules[i], nf, &s.env);
            ck_assert_int_gt(p->n_groups, 5);
            struct ledger l = count_plan(p, &s.env.heads, (enum count_mode)mode);
            ck_assert_int_eq(l.kv, 600 * 2 * 16 * 8 * 2);
            ck_assert_int_eq(l.mask, 600 * 8);
            ck_assert_int_eq(count_plan(p, &s.env.heads, COUNT_TRUE).kv, ledger_of_plan(p, &s.env.heads).kv);
        }
}

TEST(names_of_modes)
{
    enum count_mode m;
    for (int i = 0; i < N_COUNT_MODES; i++) {
        ck_assert(count_mode_parse(count_mode_name[i], &m));
        ck_assert_int_eq(m, i);
    }
    ck_assert(!count_mode_parse("", &m) && !count_mode_parse("DeFT", &m));
}

/* ---- the sweep ---------------------------------------------------------------------------------------- */

/* What reads less for being wrong is no result. */
TEST(a_wrong_plan_is_not_counted)
{
    AUTO(trace) tr =
        trace_open("embedded:reasoning", &(struct trace_opts){.prompt = 200, .max_seq = 500}, NULL);
    struct simulation s = sweep_of(8, 16, COUNT_TRUE);
    struct strategy_use use = {.s = &forgetful};
    struct simulated_row row;
    struct err e = {0};
    s.use = &use;
    s.n_use = 1;
    ck_assert(!simulate_steps(&s, &(struct simulation_source){.trace = tr, .first = 7, .last = 9}, 1, &row,
                              NULL, &e));
    ck_assert_int_eq(e.code, EXIT_FAILED);
    ck_assert_msg(strstr(e.msg, "the plan of forgetful for step 7 is wrong: "), "%s", e.msg);
}

TEST(a_wrong_plan_is_not_timed)
{
    FREED char *text = NULL;
    size_t size = 0;
    struct printer t = {.f = open_memstream(&text, &size), .style = STYLE_CSV, .column = bench_plan_columns};
    struct strategy_use use = {.s = &forgetful};
    struct err e = {0};
    ck_assert(!bench_plan(&t, &use, 1, 8, 8, 1, &e));
    ck_assert_int_eq(e.code, EXIT_FAILED);
    ck_assert_msg(strstr(e.msg, "the plan of forgetful for a tree of 1365 nodes is wrong: "), "%s", e.msg);
    fclose(t.f);
    ck_assert_int_eq(size, 0);
}

/* Sums are those of a plain loop, on any number of threads, times to the last bit; what does not apply says where
 * first. */
TEST(sweep_adds_up)
{
    AUTO(trace) tr =
        trace_open("embedded:reasoning", &(struct trace_opts){.prompt = 200, .max_seq = 500}, NULL);
    static const char *const names[] = {"pat", "tree-specinfer", "deft-flatten"};
    struct strategy_use use[3];
    struct simulation s = sweep_of(8, 16, COUNT_TRUE);
    struct simulated_row want[3], row[3];
    memset(want, 0, sizeof want);
    double latency[3] = {0}, kernel[3] = {0};
    s.use = use;
    s.timed = true;
    s.coefs = time_model_coefs_default();
    for (; s.n_use < 3; s.n_use++)
        ck_assert(strategy_parse(names[s.n_use], &use[s.n_use], NULL));
    struct simulation_source src = {.trace = tr, .first = 3, .last = trace_steps(tr) - 5};
    for (int64_t t = src.first; t <= src.last; t++) {
        AUTO_WITH_TREE nf = nform_new(trace_tree(tr, t));
        for (int i = 0; i < 3; i++) {
            AUTO(plan) p = strategy_plan(&use[i], nf, &s.env, want[i].why);
            if (!p && want[i].skipped_at == 0)
                want[i].skipped_at = t;
            if (!p)
                continue;
            struct ledger l = ledger_of_plan(p, &s.env.heads);
            ledger_add(&want[i].moved, &l);
            want[i].steps++;
            want[i].groups += p->n_groups;
            CLEARED(time_model) c =
                time_model_plan(p, &s.env.heads, s.env.machine, &s.coefs, 0, CLOCK_TOTALS);
            latency[i] += c.latency_s;
            kernel[i] += c.kernel_s;
        }
    }
    struct simulated_times first[3];
    for (int threads = 1; threads <= 5; threads += 2) {
        omp_set_num_threads(threads);
        ck_assert(simulate_steps(&s, &src, 1, row, NULL, NULL));
        for (int i = 0; i < 3; i++) {
            const struct simulated_times *x = &row[i].time;
            if (threads == 1)
                first[i] = *x;
            ck_assert(memcmp(&first[i], x, sizeof *x) == 0);
            ck_assert(want[i].skipped_at > 0 || (fabs(x->latency_s - latency[i]) < 1e-9 * latency[i] &&
                                                 fabs(x->kernel_s - kernel[i]) < 1e-9 * kernel[i] &&
                                                 x->sm_use <= x->kernel_s && x->slot_use <= x->sm_use));
            ck_assert_int_eq(row[i].skipped_at, want[i].skipped_at);
            if (want[i].skipped_at == 0)
                ck_assert(memcmp(&row[i].moved, &want[i].moved, sizeof row[i].moved) == 0 &&
                          row[i].steps == want[i].steps && row[i].groups == want[i].groups);
        }
    }
    ck_assert(want[1].skipped_at > 0 && strstr(row[1].why, "not visible"));
}
