/*
 * check_count.c - the three ways of counting: DeFT's recorded runs to the byte, its Table 17, its Table 12,
 * and small trees by hand; the sweep over a trace that adds them up.
 */
#include "sim/count.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats.h"
#include "verify/case.h"
#include "verify/sweep.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- a sweep with its sources ------------------------------------------------------------------------- */

enum { MAX_USES = 8 };

static struct sweep sweep_of(int64_t h_q, int64_t d, enum count_mode mode)
{
    int32_t h_kv = h_q % 8 == 0 ? 8 : (int32_t)h_q;
    return (struct sweep){
        .env = {.h_q = (int32_t)h_q,
                .h_kv = h_kv,
                .d = (int32_t)d,
                .elt_bytes = 2,
                .machine = machine_default()},
        .price = {.h_q = (int32_t)h_q, .h_kv = h_kv, .d = (int32_t)d, .elt_bytes = 2, .float_bytes = 4},
        .mode = mode,
    };
}

/* Every step of a trace into row[s->n_use]; the trace must open. */
static void sweep_trace(const struct sweep *s, const struct trace *tr, int64_t layers, struct sweep_row *row)
{
    struct sweep_source src = {.trace = tr, .first = 1, .last = trace_steps(tr)};
    struct err e = {0};
    ck_assert_msg(sweep_run(s, &src, layers, row, NULL, &e), "%s", e.msg);
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

static struct recorded recorded_row(const struct csv *c)
{
    struct recorded r = {
        .row = c->row,
        .opts = {.tree_index = (int32_t)csv_i64(c, "tree_index", 0),
                 .prompt = csv_i64(c, "prompt_len", 0),
                 .max_seq = csv_i64(c, "max_seq_len", 0)},
        .layers = csv_i64(c, "layers", 32), /* Llama-3-8B where the table does not say */
        .heads = csv_i64(c, "q_heads", 32),
        .dim = csv_i64(c, "head_dim", 128),
        .iterations = csv_i64(c, "iterations", -1),
        .generated = csv_i64(c, "generated_len", -1),
        .kv = csv_i64(c, "KV_IO_bytes", -1),
        .mask = csv_i64(c, "Mask_IO_bytes", -1),
        .qk = csv_i64(c, "QK_IO_bytes", -1),
        .softmax = csv_i64(c, "SoftMax_IO_bytes", -1),
    };
    snprintf(r.file, sizeof r.file, "%s", csv_text(c, "file"));
    while (r.mode < N_RELEASE_MODES && strcmp(release_modes[r.mode].mode, csv_text(c, "mode")) != 0)
        r.mode++;
    ck_assert_msg(r.mode < N_RELEASE_MODES, "row %lld: no mode '%s'", (long long)c->row, csv_text(c, "mode"));
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
    char *name = xasprintf("traces/%s", r->file), *path = width ? NULL : shared_path(name);
    char *spec = width ? xasprintf("fewshot:%s", width + strlen("width=")) : xasprintf("deft:%s", path);
    struct err e = {0};
    struct trace *tr = trace_open(spec, &r->opts, &e);
    ck_assert_msg(tr, "row %lld: %s", (long long)r->row, e.msg);
    free(name);
    free(path);
    free(spec);
    return tr;
}

static void check_recorded(const char *table, const struct recorded *r, const struct trace *tr,
                           const struct sweep_row *row)
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
    struct sweep s = sweep_of(r->heads, r->dim, COUNT_DEFT);
    int at[N_RELEASE_MODES];
    s.use = use;
    for (int m = 0; m < N_RELEASE_MODES; m++)
        for (int64_t i = 0; i < n; i++)
            if (r[i].mode == m) {
                ck_assert(strategy_parse(release_modes[m].strategy, &use[s.n_use], NULL));
                at[m] = s.n_use++;
                break;
            }
    struct trace *tr = open_run(r);
    struct sweep_row row[N_RELEASE_MODES];
    sweep_trace(&s, tr, r->layers, row);
    for (int64_t i = 0; i < n; i++)
        check_recorded(table, &r[i], tr, &row[at[r[i].mode]]);
    trace_close(tr);
}

/* Every row of the table, whatever tasks and files it names. */
static void check_table(const char *table)
{
    struct csv c;
    if (!csv_open(&c, table))
        return;
    struct recorded *r = NULL;
    int64_t n = 0, cap = 0, runs = 0, quick = getenv("TREEATTN_QUICK") ? 8 : 1;
    while (csv_next(&c)) {
        r = xgrow(r, &cap, n + 1, sizeof *r);
        r[n++] = recorded_row(&c);
    }
    csv_close(&c);
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
    free(r);
}

START_TEST(recorded_runs)
{
    check_table("traces/golden.csv");
}
END_TEST

START_TEST(recorded_ablations)
{
    check_table("traces/golden_ablation.csv");
}
END_TEST

Suite *suite_count(void)
{
    Suite *s = suite_create("count");
    TCase *c = tcase_create("count");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, recorded_runs);
    tcase_add_test(c, recorded_ablations);
    suite_add_tcase(s, c);
    return s;
}
