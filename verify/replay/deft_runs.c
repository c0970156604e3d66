#include "verify/replay/deft_runs.h"

#include <stdlib.h>
#include <string.h>

/* What the release calls our strategies. */
static const char *mode_of(const char *strategy)
{
    static const char *const modes[][2] = {{"radix-attention", "seq"},
                                           {"tree-medusa", "tree"},
                                           {"deft-node", "node"},
                                           {"deft-node-chunk", "node_chunk"},
                                           {"deft-flatten", "flatten"}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i][0], strategy) == 0)
            return modes[i][1];
    return NULL;
}

static bool is(const struct csv *s, int64_t row, const char *column, const char *text)
{
    int32_t c = csv_find(s, column);
    return c >= 0 && strcmp(csv_peek(s, row, c), text) == 0;
}

static bool is_number(const struct csv *s, int64_t row, const char *column, int64_t x)
{
    int32_t c = csv_find(s, column);
    return c >= 0 && csv_peek(s, row, c)[0] && strtoll(csv_peek(s, row, c), NULL, 10) == x;
}

double deft_run_latency(const struct csv *golden, const struct deft_run *run, const char *strategy,
                        bool attention)
{
    const char *mode = mode_of(strategy);
    int32_t ms = csv_find(golden, attention ? "attention_latency_ms" : "decode_latency_ms");
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; mode && ms >= 0 && i < golden->n_rows; i++) {
        double x;
        if (is(golden, i, "mode", mode) && is(golden, i, "file", run->file) &&
            is_number(golden, i, "tree_index", run->tree) &&
            is_number(golden, i, "prompt_len", run->prompt) &&
            is_number(golden, i, "max_seq_len", run->max_seq) && csv_f64(golden, i, ms, &x, NULL)) {
            sum += 1e-3 * x;
            n++;
        }
    }
    return n > 0 ? sum / (double)n : -1;
}

/* DeFT's Tables 16 (attention) and 5 (decoding): mean seconds of Llama-3-8B on one NVIDIA A100 80GB; 0: out of memory.
 * tests/verify/check_replay.c holds them against paper-figs/paper. */
double deft_latency(int table, const char *strategy, const char *workload)
{
    static const char *const workloads[] = {"few-shot-20", "few-shot-30", "few-shot-50", "sorting",
                                            "document",    "keyword",     "set",         "spec-32",
                                            "spec-64",     "spec-128",    "spec-256"};
    enum { N = sizeof workloads / sizeof workloads[0] };
    static const struct {
        int table;
        const char *strategy;
        double seconds[N];
    } row[] = {
        {16, "flash-decoding", {43.49, 66.10, 110.09, 160.67, 105.80, 12.14, 19.96, 340.09, 692.88, 0, 0}},
        {16, "tree-medusa", {3.93, 7.51, 9.57, 38.64, 29.10, 2.62, 3.96, 22.40, 26.31, 41.10, 68.28}},
        {16, "radix-attention", {5.99, 7.30, 9.96, 39.37, 24.69, 3.11, 5.13, 25.73, 40.47, 76.10, 145.43}},
        {16, "deft-flatten", {3.47, 4.07, 5.87, 28.41, 21.45, 2.57, 3.83, 13.15, 16.79, 24.46, 40.56}},
        {5, "flash-decoding", {78.96, 131.19, 191.09, 429.65, 241.20, 32.75, 51.76, 574.50, 1128.45, 0, 0}},
        {5,
         "tree-medusa",
         {52.58, 103.90, 144.07, 380.87, 236.86, 33.52, 50.10, 263.40, 483.35, 924.97, 1881.51}},
        {5,
         "radix-attention",
         {12.37, 14.08, 16.54, 104.79, 69.61, 11.25, 17.03, 54.66, 69.75, 108.56, 188.66}},
        {5, "deft-flatten", {9.98, 10.99, 12.48, 94.67, 66.95, 10.90, 16.10, 42.23, 46.60, 56.96, 84.27}},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        for (int w = 0; w < N; w++)
            if (row[i].table == table && strcmp(row[i].strategy, strategy) == 0 &&
                strcmp(workloads[w], workload) == 0)
                return row[i].seconds[w];
    return -1;
}
