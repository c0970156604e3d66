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

double deft_latency(int table, const char *strategy, const char *workload)
{
    static const struct {
        int table;
        const char *strategy, *workload;
        double seconds;
    } cell[] = {
#define DEFT(t, s, w, x) {t, s, w, x},
#include "verify/replay/deft_latency.def"
#undef DEFT
    };
    for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++)
        if (cell[i].table == table && strcmp(cell[i].strategy, strategy) == 0 &&
            strcmp(cell[i].workload, workload) == 0)
            return cell[i].seconds;
    return -1;
}
