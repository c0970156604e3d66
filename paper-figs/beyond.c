/* beyond.c - figures that no paper has: planners against the optimum, counters against bytes, models against clocks. */
#include "paper-figs/figures.h"
#include "paper-figs/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- greedy planners and the optimum ---------------------------------------------------------------------- */

/* Mean excess of a planner in percent; NAN where one tree's optimum is nothing, of which no percent can be told. */
static double excess(struct figure *f, const struct csv *t, const char *cost, const char *trees,
                     const char *planner)
{
    int64_t row = pick_row(f, t, -1, "cost", cost, "trees", trees, "planner", planner, NULL);
    if (row >= 0 && strcmp(cell_text(f, t, row, "mean %"), "inf") == 0)
        return NAN;
    return pick(f, t, "mean %", "cost", cost, "trees", trees, "planner", planner, NULL);
}

void fig_gap(struct figure *f)
{
    static const char *const planner[][2] = {{"pat", "pat"},
                                             {"pat:rule=artifact", "pat:rule=artifact"},
                                             {"fasttree", "fasttree"},
                                             {"fasttree:rule=artifact", "fasttree:rule=artifact"},
                                             {"every node apart", "every-node-apart"}};
    static const char *const cost[][2] = {
        {"bytes", "bytes moved"}, {"fasttree", "FastTree's cost"}, {"pat", "PAT's cost"}};
    enum { N_PLANNERS = 5, SEARCHING = 4 };
    const struct csv *t = figure_table(f, "data/gap");
    int below = 0, means = 0, no_worse[SEARCHING] = {0}, of[SEARCHING] = {0};
    for (int c = 0; c < 3; c++) {
        add_panel(f, cost[c][1], BARS, LOG_Y, "", "mean excess (%)");
        for (int64_t row = -1;
             (row = pick_row(f, t, row, "cost", cost[c][0], "planner", "pat", NULL)) >= 0;) {
            const char *trees = cell_text(f, t, row, "trees");
            double apart = excess(f, t, cost[c][0], trees, "every node apart");
            for (int p = 0; p < N_PLANNERS; p++) {
                double x = excess(f, t, cost[c][0], trees, planner[p][0]);
                add_point(f, planner[p][1], trees, NAN, x, NAN);
                below += x < 0;
                means += !isnan(x);
                if (p < SEARCHING && !isnan(x) && !isnan(apart)) {
                    no_worse[p] += x <= apart;
                    of[p]++;
                }
            }
        }
    }
    for (int32_t i = 0; i < f->n_points; i += N_PLANNERS) {
        bool none = true;
        for (int p = 0; p < N_PLANNERS; p++)
            none &= !(f->point[i + p].ours > 0);
        if (none)
            add_note(f, "%s, %s: no mark, the excess of all is 0.", f->panel[f->point[i].panel].name,
                     f->point[i].at);
    }
    check_trend(f, below == 0, "no planner is below the optimum: %d of %d means are", below, means);
    for (int p = 0; p < SEARCHING; p++)
        check_trend(f, no_worse[p] * 10 >= of[p] * 9,
                    "%s: nine of ten times its search is no worse than every node apart: %d of %d",
                    series_find(planner[p][1])->label, no_worse[p], of[p]);
}

/* ---- what the published counters count --------------------------------------------------------------------- */

static double counted_tb(struct figure *f, const struct csv *t, const char *source, const char *count,
                         const char *strategy)
{
    static const char *const column[] = {
        "KV_IO_bytes",     "Mask_IO_bytes", "QK_IO_bytes", "QK_scale_IO_bytes", "QK_scale_masked_IO_bytes",
        "SoftMax_IO_bytes"};
    double sum = 0;
    for (int i = 0; i < 6; i++)
        sum += pick(f, t, column[i], "source", source, "count", count, "strategy", strategy, NULL);
    if (strcmp(count, "true") == 0)
        sum += pick(f, t, "partial_IO_bytes", "source", source, "count", count, "strategy", strategy, NULL);
    return sum / 1e12;
}

void fig_counters(struct figure *f)
{
    static const char *const source[][2] = {{"fewshot:50", "few-shot, 50 branches of 400 tokens below 4000"},
                                            {"embedded:reasoning", "reasoning"},
                                            {"spec:64,1", "64 speculated tokens a step"}};
    static const char *const count[][2] = {
        {"paper", "DeFT's tables"}, {"deft", "DeFT's release"}, {"true", "what must move"}};
    static const char *const strategy[] = {"radix-attention", "tree-medusa", "deft-node", "deft-flatten"};
    const struct csv *t = figure_table(f, "data/counters");
    for (int s = 0; s < 3; s++) {
        double ratio[3];
        add_panel(f, source[s][1], BARS, LOG_Y, "", "TB over the run");
        for (int c = 0; c < 3; c++) {
            for (int i = 0; i < 4; i++)
                add_point(f, strategy[i], count[c][1], NAN,
                          counted_tb(f, t, source[s][0], count[c][0], strategy[i]), NAN);
            ratio[c] =
                point_ours(f, "radix-attention", count[c][1]) / point_ours(f, "deft-flatten", count[c][1]);
        }
        check_trend(f, ratio[0] > 1.25 * ratio[2],
                    "%s: the tables' saving of DeFT-Flatten over Radix Attention (%.3gx) is over a quarter "
                    "more than the true one (%.3gx)",
                    source[s][1], ratio[0], ratio[2]);
        double kv[2];
        for (int c = 0; c < 2; c++)
            kv[c] = pick(f, t, "KV_IO_bytes", "source", source[s][0], "count", c ? "true" : "paper",
                         "strategy", "radix-attention", NULL);
        check_trend(
            f, fabs(kv[0] / kv[1] - 4) < 0.04,
            "%s: the tables count each KV head once for each of its four query heads: %.4g times the bytes",
            source[s][1], kv[0] / kv[1]);
    }
}

/* ---- predicted and measured times --------------------------------------------------------------------------- */

/* How many kernels a table has; at most as many as it has rows. */
static int kernels_of(struct figure *f, const struct csv *t)
{
    int n = 0;
    for (int64_t row = -1; (row = pick_row(f, t, row, NULL)) >= 0;) {
        int64_t first = pick_row(f, t, -1, "part", cell_text(f, t, row, "part"), NULL);
        n += first == row;
    }
    return n;
}

/* Points of some kernels, which the panel's name counts; errors of all. `names`: strategy as the file has it, series. Last
 * digits of a fit depend on the processor and its BLAS: none of them is written. */
static void scatter(struct figure *f, const char *data, const char *what, const char *const names[][2])
{
    const struct csv *t = figure_table(f, data);
    int drawn = 0;
    while (names[drawn][0])
        drawn++;
    const char *name = figure_text(f, "%s: %d drawn of %d", what, drawn, kernels_of(f, t));
    add_panel(f, name, SCATTER, LOG_X | LOG_Y, "measured (us)", "predicted (us)");
    double *error = xcalloc((size_t)t->n_rows + 1, sizeof *error);
    int64_t n = 0, near = 0;
    for (int64_t row = -1; (row = pick_row(f, t, row, NULL)) >= 0;) {
        double measured = 1e6 * cell_number(f, t, row, "measured_s"),
               predicted = 1e6 * cell_number(f, t, row, "held_out_s");
        const char *strategy = cell_text(f, t, row, "part");
        for (int i = 0; names[i][0]; i++)
            if (strcmp(strategy, names[i][0]) == 0)
                add_point(f, names[i][1], figure_text(f, "row %d", (int)row), measured,
                          atof(figure_text(f, "%.3g", predicted)), NAN);
        error[n] = 100 * fabs(predicted / measured - 1);
        near += error[n++] <= 25;
    }
    double median = n ? quantile(error, n, 0.5) : NAN;
    check_trend(f, median <= 10,
                "%s: median error on trees that the fit has not seen at most 10 %%: %.2g %% of %d rows", name,
                median, (int)n);
    check_trend(f, near * 10 >= n * 9, "%s: nine of ten within 25 %%: %d of %d", name, (int)near, (int)n);
    free(error);
}

void fig_predicted(struct figure *f)
{
    static const char *const ours[][2] = {{"flash-attention", "flash-attention"},
                                          {"flashinfer", "flashinfer"},
                                          {"deft-flatten", "deft-flatten"},
                                          {"cascade", "cascade"},
                                          {"hydragen", "hydragen"},
                                          {"fasttree", "fasttree"},
                                          {"pat", "pat"},
                                          {NULL}},
                             *const released[][2] = {
                                 {"fi_tc", "flashinfer"}, {"deft", "deft-flatten"}, {"fi_cascade", "cascade"},
                                 {"ft", "fasttree"},      {"pat", "pat"},           {NULL}};
    scatter(f, "data/predicted", "plans on our kernel", ours);
    scatter(f, "data/predicted_released", "released kernels", released);
}

/* ---- whole decode steps, simulated and measured ---------------------------------------------------------------- */

enum { N_REPLAYED = 8 };

/* A part of few-shot steps of these strategies, of which half may be `most` % off. */
static void replayed_panel(struct figure *f, const char *data, const char *const *strategy, const char *name,
                           const char *column, int most)
{
    static const char *const workload[] = {"few-shot-20", "few-shot-30", "few-shot-50"};
    enum { N_WORKLOADS = 3, N = N_REPLAYED * N_WORKLOADS };
    const struct csv *sim = figure_table(f, data), *measured = figure_table(f, "measured/h200_replay");
    double x[N], y[N], error[N];
    int same = 0, pairs = 0;
    add_panel(f, name, SCATTER, LOG_X | LOG_Y, "measured (s)", "simulated (s)");
    for (int i = 0; i < N; i++) {
        const char *w = workload[i / N_REPLAYED], *s = strategy[i % N_REPLAYED];
        y[i] = pick(f, sim, column, "workload", w, "strategy", s, NULL);
        x[i] = pick(f, measured, column, "run", "full", "workload", w, "strategy", s, NULL);
        error[i] = 100 * fabs(y[i] / x[i] - 1);
        add_point(f, s, figure_text(f, "%s, %s", w, s), x[i], y[i], NAN);
        for (int k = i - i % N_REPLAYED; k < i; k++)
            if (fabs(x[k] - x[i]) > 0.1 * fmin(x[k], x[i])) {
                pairs++;
                same += (x[k] < x[i]) == (y[k] < y[i]);
            }
    }
    check_trend(f, same * 10 >= pairs * 9,
                "%s: nine of ten pairs that are over 10 %% apart come in the measured order: %d of %d", name,
                same, pairs);
    double median = quantile(error, N, 0.5);
    check_trend(f, median <= most, "%s: median error at most %d %%: %.3g %%", name, most, median);
}

void fig_replayed(struct figure *f)
{
    static const char *const strategy[N_REPLAYED] = {
        "radix-attention", "flash-decoding", "tree-medusa", "deft-node",
        "deft-node-chunk", "deft-flatten",   "fasttree",    "pat"};
    replayed_panel(f, "data/replayed", strategy, "attention", "attention_s", 25);
    replayed_panel(f, "data/replayed", strategy, "whole steps", "whole_s", 25);
}

void fig_replayed_fitted(struct figure *f)
{
    enum { FITTED_OURS = 2 };
    static const char *const strategy[N_REPLAYED] = {
        "radix-attention", "flash-decoding", "treeattn", "deft-node",
        "deft-node-chunk", "deft-flatten",   "fasttree", "pat"};
    replayed_panel(f, "data/replayed_fitted", strategy, "attention", "attention_s", 10);
    int first = 0;
    for (int32_t i = 0; i < f->n_points; i++) {
        const struct point *a = &f->point[i], *b = &f->point[i - i % N_REPLAYED + FITTED_OURS];
        first += i % N_REPLAYED != FITTED_OURS && b->x < a->x && b->ours < a->ours;
    }
    int others = f->n_points / N_REPLAYED * (N_REPLAYED - 1);
    check_trend(f, first == others,
                "treeattn takes the least time, simulated and measured: less than %d of %d", first, others);
}

/* ---- a step of one of several cards ---------------------------------------------------------------------------- */

/* "card 0 of 2 x NVIDIA H200, tensor, measured" as it is simulated. */
static const char *simulated_machine(struct figure *f, const char *measured)
{
    const char *card = strstr(measured, "NVIDIA H200"), *rest = card ? card + strlen("NVIDIA H200") : "";
    return figure_text(f, "%.*sh200%.*ssimulated", card ? (int)(card - measured) : 0, measured,
                       (int)(strlen(rest) - strlen("measured")), rest);
}

/* By how many percent each of a panel's points is off. */
struct errors {
    double error[128];
    int n;
};

/* The time of a step of the measured row, and of the same one in `data`. column: "other_s" or "whole_s". */
static void add_card(struct figure *f, const struct csv *data, const struct csv *measured, int64_t row,
                     const char *column, const char *series, struct errors *x)
{
    const char *machine = cell_text(f, measured, row, "machine"), *trace = cell_text(f, measured, row, "trace"),
               *model = cell_text(f, measured, row, "model");
    double ms = 1e3 / cell_number(f, measured, row, "iterations"), a = ms * cell_number(f, measured, row, column),
           b = ms * pick(f, data, column, "machine", simulated_machine(f, machine), "trace",
                         trace, "model", model, "strategy", "treeattn", NULL);
    add_point(f, series, figure_text(f, "%s, %s, %s", model, trace, machine), a, b, NAN);
    CK(x->n < (int)(sizeof x->error / sizeof x->error[0]));
    x->error[x->n++] = 100 * fabs(a / b - 1);
}

static void check_errors(struct figure *f, const char *name, struct errors *x, int most, int furthest)
{
    double median = x->n ? quantile(x->error, x->n, 0.5) : NAN, worst = x->n ? quantile(x->error, x->n, 1) : NAN;
    check_trend(f, median <= most, "%s: median error at most %d %%: %.2g %% of %d", name, most, median, x->n);
    check_trend(f, worst <= furthest, "%s: none over %d %%: %.2g %%", name, furthest, worst);
}

void fig_cards(struct figure *f)
{
    static const char *const way[][2] = {{", tensor,", "cards-tensor"},
                                         {", context,", "cards-context"},
                                         {", subtree,", "cards-subtree"},
                                         {", replicate,", "cards-replicate"}};
    const struct csv *t = figure_table(f, "measured/h200_cards"), *batches = figure_table(f, "data/cards"),
                     *ways = figure_table(f, "data/cards_ways");
    struct errors fitted = {0}, unseen = {0}, one = {0}, two = {0};
    int less = 0;
    add_panel(f, "the other kernels of a step, 8 to 256 queries", SCATTER, LOG_X | LOG_Y, "measured (ms)",
              "simulated (ms)");
    for (int64_t row = -1; (row = pick_row(f, t, row, "strategy", "treeattn", "run", "fitted", NULL)) >= 0;)
        add_card(f, batches, t, row, "other_s", "cards-fitted", &fitted);
    for (int64_t row = -1; (row = pick_row(f, t, row, "strategy", "treeattn", "run", "unseen", NULL)) >= 0;)
        add_card(f, batches, t, row, "other_s", "cards-unseen", &unseen);
    check_errors(f, "other kernels, fitted", &fitted, 5, 10);
    check_errors(f, "other kernels, not fitted", &unseen, 5, 10);
    add_panel(f, "whole steps of one of two, few-shot 50 and 400,000 tokens", SCATTER, LOG_X | LOG_Y,
              "measured (ms)", "simulated (ms)");
    for (int64_t row = -1;
         (row = pick_row(f, t, row, "strategy", "treeattn", "run", "workloads", NULL)) >= 0;) {
        const char *machine = cell_text(f, t, row, "machine"), *series = "cards-one";
        if (strcmp(cell_text(f, t, row, "workload"), "sorting") == 0)
            continue;
        for (size_t i = 0; i < sizeof way / sizeof way[0]; i++)
            series = strstr(machine, way[i][0]) ? way[i][1] : series;
        add_card(f, ways, t, row, "whole_s", series, strcmp(series, "cards-one") == 0 ? &one : &two);
        less += cell_number(f, t, row, "whole_s") < pick(f, t, "whole_s", "run", "workloads", "strategy", "treeattn", "trace",
                                                         cell_text(f, t, row, "trace"), "machine",
                                                         "NVIDIA H200, measured", NULL);
    }
    check_trend(f, less == two.n, "each of two takes less time than one GPU: %d of %d", less, two.n);
    check_errors(f, "whole steps of one of two", &two, 10, 20);
    check_errors(f, "whole steps of one GPU", &one, 25, 25);
}

/* ---- which strategy wins where -------------------------------------------------------------------------------- */

enum { N_CROSSING = 8, QUERY_CENTRIC = 2 };
static const char *const crossing[N_CROSSING] = {"flash-attention", "flashinfer", "deft-flatten", "cascade",
                                                 "relay++",         "hydragen",   "fasttree",     "pat"};

/* Times of all in one cell of the map; which is the fastest of the first n. */
static int fastest(struct figure *f, const char *data, const char *at, const char *kv_heads, int n,
                   double ms[N_CROSSING])
{
    int best = 0;
    for (int i = 0; i < N_CROSSING; i++) {
        ms[i] = pick(f, figure_table(f, data), "latency_ms", "at", at, "kv_heads", kv_heads, "strategy",
                     crossing[i], NULL);
        best = i < n && ms[i] < ms[best] ? i : best;
    }
    return best;
}

void fig_crossover(struct figure *f)
{
    static const char *const heads[][2] = {
        {"32", "GQA ratio 1"}, {"8", "GQA ratio 4"}, {"2", "GQA ratio 16"}};
    int apart[3] = {0}, cells = 0, same = 0;
    double small[3], large[3], lost = 0, most_lost = 1;
    for (int h = 0; h < 3; h++) {
        add_panel(f, heads[h][1], MAP, 0, "prefix (2^x tokens)", "batch");
        for (int b = 2; b <= 256; b *= 2)
            for (int p = 7; p <= 14; p++, cells++) {
                const char *at = figure_text(f, "b=%d p=%d", b, 1 << p);
                double ms[N_CROSSING], built_in_ms[N_CROSSING];
                int best = fastest(f, "data/crossover", at, heads[h][0], N_CROSSING, ms),
                    best_apart = fastest(f, "data/crossover", at, heads[h][0], QUERY_CENTRIC, ms),
                    built_in =
                        fastest(f, "data/crossover_built_in", at, heads[h][0], N_CROSSING, built_in_ms);
                double gain = ms[best_apart] / ms[best];
                add_point(f, crossing[best], figure_text(f, "%d", b), p, gain, NAN);
                apart[h] += best < QUERY_CENTRIC;
                same += built_in == best;
                lost += ms[built_in] / ms[best] - 1;
                most_lost = fmax(most_lost, ms[built_in] / ms[best]);
                if (b == 2 && p == 7)
                    small[h] = gain;
                if (b == 256 && p == 14)
                    large[h] = gain;
            }
    }
    for (int i = 0; i < N_CROSSING; i++) {
        int won = 0;
        for (int32_t k = 0; k < f->n_points; k++)
            won += strcmp(f->point[k].series, crossing[i]) == 0;
        if (won == 0)
            add_note(f, "%s is the fastest in no cell.", series_find(crossing[i])->label);
    }
    check_trend(f, small[0] == 1 && small[1] == 1 && small[2] == 1,
                "two queries on 128 tokens need no sharing at any GQA ratio: %.3gx, %.3gx, %.3gx", small[0],
                small[1], small[2]);
    check_trend(
        f, large[0] > large[1] && large[1] > large[2] && large[2] > 1,
        "at 256 queries on 16384 tokens sharing wins, the less the higher the GQA ratio: %.3gx, %.3gx, %.3gx",
        large[0], large[1], large[2]);
    check_trend(f, apart[0] < apart[1] && apart[1] < apart[2],
                "the higher the GQA ratio, the more often one CTA a query is fastest: %d, %d, %d of %d cells",
                apart[0], apart[1], apart[2], cells / 3);
    check_trend(f, same * 10 >= cells * 9,
                "with the coefficients built in the winner is another in at most one of ten cells: in %d of "
                "%d; choosing by them costs %.3g %% on the mean, %.3gx at most",
                cells - same, cells, 100 * lost / cells, most_lost);
}

/* ---- time over floor ------------------------------------------------------------------------------------------ */

enum { N_CLASSES = 3 };
static const char *const class_series[N_CLASSES] = {"floor-under-15", "floor-15-to-50", "floor-over-50"};

static int class_of(double floor_us)
{
    return floor_us < 15 ? 0 : floor_us <= 50 ? 1 : 2;
}

/* Geometric means of time / floor, or of time / (floor + chain). */
struct means {
    double log[N_CLASSES];
    int n[N_CLASSES];
};

static void mean_add(struct means *m, int k, double ratio)
{
    m->log[k] += log(ratio);
    m->n[k]++;
}

static void mean_points(struct figure *f, const struct means *m, const char *at)
{
    for (int k = 0; k < N_CLASSES; k++)
        add_point(f, class_series[k], at, NAN, m->n[k] ? exp(m->log[k] / m->n[k]) : NAN, NAN);
}

enum { N_SETS = 3 };

/* Of a series (NULL: the fastest) on every tree of a set. ratios: x are no times, but times over something already. */
static void mean_set(struct means *m, const struct times *x, const struct times *floors, const char *series,
                     bool ratios)
{
    int32_t i = series ? times_series(x, series) : -1;
    for (int32_t h = 0; h < x->n_heads; h++) {
        int32_t g = times_heads(floors, x->heads[h]);
        for (int32_t t = 0; g >= 0 && t < x->n_trees; t++) {
            double us = i >= 0 ? x->us[i][h][t] : NAN, floor_us = floors->us[0][g][t];
            for (int32_t s = 0; !series && s < x->n_series; s++)
                us = fmin(us, x->us[s][h][t]);
            if (!isnan(us) && !isnan(floor_us))
                mean_add(m, class_of(floor_us), ratios ? us : us / floor_us);
        }
    }
}

/* Clusters of series first .. last - 1 of the sets. */
static void floor_panel(struct figure *f, const char *name, const struct times *x, const struct times *floors,
                        int32_t first, int32_t last, bool limit)
{
    add_panel(f, name, BARS, LOG_Y, "", limit ? "time / (floor + chain)" : "time / floor");
    for (int32_t s = first; s < last; s++) {
        struct means mean = {0};
        for (int k = 0; k < N_SETS; k++)
            mean_set(&mean, &x[k], &floors[k], x->series[s], limit);
        const struct series *known = series_find(x->series[s]);
        mean_points(f, &mean, known ? known->label : x->series[s]);
    }
}

/* One more, of the fastest on each tree. */
static struct means best_cluster(struct figure *f, const struct times *x, const struct times *floors)
{
    struct means best = {0};
    for (int k = 0; k < N_SETS; k++)
        mean_set(&best, &x[k], &floors[k], NULL, false);
    mean_points(f, &best, "best of each tree");
    return best;
}

static const char *const set[N_SETS][2] = {{"fasttree-fig9", "FT"}, {"pat-fig9", "PAT"}, {"speculative", "SPEC"}};

/* Kernels of others that were timed in the same run as treeattn's plan, by turns: a cluster each of their times over its. */
static void live_panel(struct figure *f)
{
    static const char *const file = "measured/h200_live_peers";
    static const char *const child[][2] = {{"flashinfer_cascade", "FlashInfer, cascade"},
                                           {"flashinfer_persistent_nodes", "FlashInfer, persistent"},
                                           {"flashinfer_decode_tc", "FlashInfer, decode"},
                                           {"cudnn_paged", "cuDNN, paged"},
                                           {"fasttree", "FastTree"},
                                           {"fasttree_deft", "DeFT, FastTree's port"},
                                           {"pat", "PAT"}};
    struct times over[N_SETS], floors[N_SETS];
    double nearest = INFINITY;
    int n = 0;
    add_panel(f, "released kernels in one run with ours", BARS, LOG_Y, "", "time / treeattn's");
    for (int k = 0; k < N_SETS; k++) {
        times_measured(f, file, set[k][0], "time_us", &over[k]);
        times_measured(f, file, set[k][0], "floor_us", &floors[k]);
        times_divide(&over[k], "treeattn");
    }
    for (int c = 0; c < (int)(sizeof child / sizeof *child); c++) {
        struct means mean = {0};
        for (int k = 0; k < N_SETS; k++) {
            struct ratio r = times_ratio(&over[k], child[c][0], "treeattn", NULL, 1, over[k].n_trees);
            if (r.n == 0)
                continue;
            nearest = fmin(nearest, r.least);
            n += r.n;
            mean_set(&mean, &over[k], &floors[k], child[c][0], true);
        }
        if (mean.n[0] + mean.n[1] + mean.n[2] > 0)
            mean_points(f, &mean, child[c][1]);
    }
    check_trend(f, nearest > 1, "no released kernel that ran beside treeattn is faster: of %d rows the nearest takes %.4g of its time",
                n, nearest);
}

void fig_floor(struct figure *f)
{
    struct times ours[N_SETS], released[N_SETS], floors[N_SETS], limit[N_SETS], limit_floors[N_SETS];
    for (int k = 0; k < N_SETS; k++) {
        times_measured(f, "measured/h200_bench_write", set[k][0], "time_us", &ours[k]);
        times_measured(f, "measured/h200_bench_write", set[k][0], "floor_us", &floors[k]);
        times_released(f, set[k][1], &released[k]);
        times_measured(f, "measured/h200_bench_gpu", set[k][0], "time_over_limit", &limit[k]);
        times_measured(f, "measured/h200_bench_gpu", set[k][0], "floor_us", &limit_floors[k]);
    }
    int32_t half = ours->n_series / 2;
    floor_panel(f, "our kernel, every plan (1)", ours, floors, 0, half, false);
    floor_panel(f, "our kernel, every plan (2)", ours, floors, half, ours->n_series, false);
    struct means a = best_cluster(f, ours, floors);
    floor_panel(f, "released kernels, recorded", released, floors, 0, released->n_series, false);
    struct means b = best_cluster(f, released, floors);
    floor_panel(f, "our kernel, L2 clean", limit, limit_floors, 0, limit->n_series, true);
    live_panel(f);
    double ratio[2][N_CLASSES];
    for (int k = 0; k < N_CLASSES; k++) {
        ratio[0][k] = exp(a.log[k] / a.n[k]);
        ratio[1][k] = exp(b.log[k] / b.n[k]);
    }
    for (int k = 0; k < 2; k++)
        check_trend(f, ratio[k][0] > ratio[k][1] && ratio[k][1] > ratio[k][2] && ratio[k][2] >= 1,
                    "%s: the larger the floor, the nearer the best comes to it: %.3g, %.3g, %.3g times",
                    k ? "released kernels" : "our kernel", ratio[k][0], ratio[k][1], ratio[k][2]);
    double all[2] = {exp((a.log[0] + a.log[1] + a.log[2]) / (a.n[0] + a.n[1] + a.n[2])),
                     exp((b.log[0] + b.log[1] + b.log[2]) / (b.n[0] + b.n[1] + b.n[2]))};
    check_trend(
        f, all[0] <= 1.1 * all[1],
        "the best of our plans is within 10 %% of the best released kernel: %.4g, %.4g times the floor",
        all[0], all[1]);
    struct means c = {0};
    for (int k = 0; k < N_SETS; k++)
        mean_set(&c, &limit[k], &limit_floors[k], "treeattn", true);
    double near[N_CLASSES];
    for (int k = 0; k < N_CLASSES; k++)
        near[k] = exp(c.log[k] / c.n[k]);
    check_trend(f, near[0] > near[1] && near[1] > near[2] && near[2] >= 1,
                "with a clean L2 treeattn takes %.3g, %.3g, %.3g times floor + least chain; %.4g over all %d",
                near[0], near[1], near[2], exp((c.log[0] + c.log[1] + c.log[2]) / (c.n[0] + c.n[1] + c.n[2])),
                c.n[0] + c.n[1] + c.n[2]);
}
