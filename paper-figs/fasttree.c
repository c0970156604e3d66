/* fasttree.c - the figures of FastTree (MLSys 2025). */
#include "paper-figs/figures.h"
#include "paper-figs/times.h"

#include <math.h>

enum { TREES = 15 };

/* ---- Figure 2: how much of a step is attention ------------------------------------------------------------ */

void fig_fasttree_fig2(struct figure *f)
{
    const struct csv *t = figure_table(f, "data/fasttree_fig2"),
                     *paper = figure_table(f, "paper/fasttree-fig2");
    double rest = 1e3 * pick(f, figure_table(f, "data/rest"), "other_s", "machine", "h100, simulated", NULL),
           at_2048 = NAN;
    add_panel(f, "32 sequences that share nothing", LINES, LOG_X, "sequence length (tokens)",
              "attention, share of a step (%)");
    for (int length = 128; length <= 4096; length *= 2) {
        double attention = pick(f, t, "latency_ms", "at", figure_text(f, "L=%d", length), NULL),
               share = 100 * attention / (attention + rest);
        bool printed = length == 2048;
        at_2048 = printed ? share : at_2048;
        add_point(f, "flash-attention", figure_text(f, "%d", length), length, share,
                  printed ? paper_number(f, paper, "attention-share", "not-named", "", "b=32 L=2048") : NAN);
    }
    check_grows(f, "flash-attention", 0);
    check_share(f, "share of attention at 2048 tokens", at_2048,
                paper_number(f, paper, "attention-share", "not-named", "", "b=32 L=2048"));
}

/* ---- Figures 10 to 12: end to end ------------------------------------------------------------------------- */

static const char *const workload[][2] = {{"fasttree-prompt", "A: system prompt"},
                                          {"fasttree-shots", "B: few-shot"},
                                          {"fasttree-chains", "C: chains"},
                                          {"fasttree-documents", "D: documents"}},
                         *const strategy[] = {"flashinfer", "fasttree"};
enum { N_WORKLOADS = 4, REQUESTS = 128, GENERATED = 256 };
/* Products reach this share of the tensor peak, as in the step that replay simulates. */
static const double product_share = 0.8;

struct run {
    double attention, rest; /* seconds of decoding */
};

static double replayed(struct figure *f, const char *from, int w, const char *model, int s,
                       const char *column)
{
    return pick(f, figure_table(f, from), column, "workload", workload[w][0], "model", model, "strategy",
                strategy[s], NULL);
}

/* From rows of `treeattn replay`, simulated or measured. */
static struct run run_of(struct figure *f, const char *from, int w, const char *model, int s)
{
    return (struct run){replayed(f, from, w, model, s, "attention_s"),
                        replayed(f, from, w, model, s, "other_s")};
}

/* Seconds of the products of all prompts. */
static double prefill(struct figure *f, const char *from, int w, const char *model, int s)
{
    double flops = 1e9 * pick(f, figure_table(f, "data/models"), "GFLOP/query", "model", model, NULL),
           peak =
               product_share * pick(f, figure_table(f, "data/h100"), "value", "figure", "tensor_flops", NULL);
    return replayed(f, from, w, model, s, "prefill_len") * flops / peak;
}

static void throughputs(struct figure *f, const char *from)
{
    static const char *const model[][2] = {{"llama-2-7b", "Llama-2-7B"}, {"mistral-7b", "Mistral-7B"}};
    const struct csv *paper = figure_table(f, "paper/fasttree-fig10");
    double most = 0, least_share[2] = {100, 100}, most_share[2] = {0}, mean[2];
    for (int m = 0; m < 2; m++) {
        double sum = 0;
        add_panel(f, model[m][1], BARS, 0, "", "generated tokens / s");
        for (int w = 0; w < N_WORKLOADS; w++) {
            double rate[2];
            for (int s = 0; s < 2; s++) {
                struct run r = run_of(f, from, w, model[m][0], s);
                rate[s] = REQUESTS * GENERATED / (prefill(f, from, w, model[m][0], s) + r.attention + r.rest);
                add_point(f, strategy[s], workload[w][1], NAN, rate[s], NAN);
                double share = 100 * r.attention / (r.attention + r.rest);
                least_share[m] = s == 0 ? fmin(least_share[m], share) : least_share[m];
                most_share[m] = s == 0 ? fmax(most_share[m], share) : most_share[m];
            }
            sum += rate[1] / rate[0];
            most = fmax(most, rate[1] / rate[0]);
        }
        check_below(f, "flashinfer", "fasttree");
        mean[m] = sum / N_WORKLOADS;
        check_number(
            f, figure_text(f, "throughput of FastTree over FlashInfer, %s", model[m][1]), "x", mean[m],
            paper_number(f, paper, "throughput-speedup", "fasttree", "sglang-flashinfer", model[m][1]));
    }
    check_headline(f, "fasttree-throughput", most);
    check_why(f, "fasttree-throughput",
              "Kernels alone, no serving system: attention is up to %.2g %% of a step with FlashInfer's plan "
              "on our kernel, "
              "which reads each shared prefix for every request; %s, where it is %.2g to %.2g %%, gains "
              "%.3gx (paper %.3gx).",
              fmax(most_share[0], most_share[1]), model[1][1], least_share[1], most_share[1], mean[1],
              paper_number(f, paper, "throughput-speedup", "fasttree", "sglang-flashinfer", model[1][1]));
}

void fig_fasttree_fig10(struct figure *f)
{
    throughputs(f, "data/fasttree_fig10");
}

void fig_fasttree_fig10_measured(struct figure *f)
{
    throughputs(f, "measured/h100_serving");
}

void fig_fasttree_fig11(struct figure *f)
{
    const struct csv *paper = figure_table(f, "paper/fasttree-fig11");
    double sum = 0;
    add_panel(f, "", BARS, 0, "", "time of the run (s)");
    for (int w = 0; w < N_WORKLOADS; w++) {
        double decoding[2];
        for (int s = 0; s < 2; s++) {
            struct run r = run_of(f, "data/fasttree_fig10", w, "llama-2-7b", s);
            const char *at = figure_text(f, "%c %s", workload[w][1][0], series_find(strategy[s])->label);
            decoding[s] = r.attention + r.rest;
            add_point(f, "part-prefill", at, NAN, prefill(f, "data/fasttree_fig10", w, "llama-2-7b", s), NAN);
            add_point(f, "part-decoding", at, NAN, decoding[s], NAN);
        }
        sum += decoding[0] / decoding[1];
    }
    check_below(f, "part-prefill", "part-decoding");
    check_number(
        f, "decoding with FastTree over FlashInfer, mean", "x", sum / N_WORKLOADS,
        paper_number(f, paper, "decoding-latency-speedup", "fasttree", "sglang-flashinfer", "Llama-2-7B"));
}

void fig_fasttree_fig12(struct figure *f)
{
    double least = INFINITY;
    bool smaller = true;
    add_panel(f, "", BARS, 0, "", "time of decoding (s)");
    for (int w = 0; w < N_WORKLOADS; w++) {
        double share[2];
        for (int s = 0; s < 2; s++) {
            struct run r = run_of(f, "data/fasttree_fig10", w, "llama-2-7b", s);
            const char *at = figure_text(f, "%c %s", workload[w][1][0], series_find(strategy[s])->label);
            add_point(f, "part-attention", at, NAN, r.attention, NAN);
            add_point(f, "part-rest", at, NAN, r.rest, NAN);
            share[s] = 100 * r.attention / (r.attention + r.rest);
        }
        least = fmin(least, share[0]);
        smaller &= share[1] < share[0];
    }
    check_trend(f, least > 50,
                "attention is over half of the kernels' time with FlashInfer: at least %.3g %%", least);
    check_trend(f, smaller, "with FastTree its share is smaller in every workload");
}

/* ---- Figure 9: attention kernels ------------------------------------------------------------------------ */

static const struct mean_claim baselines[] = {{"flash-attention", "fasttree-over-flash-attention", NULL},
                                              {"flashinfer", "fasttree-over-flashinfer", NULL},
                                              {"deft-flatten", "fasttree-over-deft", NULL},
                                              {"cascade", "fasttree-over-cascade", NULL}};
enum { N_BASELINES = sizeof baselines / sizeof baselines[0] };

static void check_kernels(struct figure *f, const struct times *x, const char *query_centric)
{
    times_means(f, x, "fasttree", baselines, N_BASELINES, 1, TREES);
    struct ratio all = times_ratio(x, query_centric, "fasttree", NULL, 1, TREES);
    check_trend(f, all.above * 10 >= all.n * 9, "FastTree beats %s on nine of ten trees: %d of %d",
                series_find(query_centric)->label, all.above, all.n);
    double low = times_ratio(x, query_centric, "fasttree", "32/32", 1, TREES).mean,
           middle = times_ratio(x, query_centric, "fasttree", "32/8", 1, TREES).mean,
           high = times_ratio(x, query_centric, "fasttree", "16/1", 1, TREES).mean;
    check_trend(f, low > high,
                "the speedup over %s is larger at a low GQA ratio than at a high one: %.3gx at 1, %.3gx at "
                "4, %.3gx at 16",
                series_find(query_centric)->label, low, middle, high);
}

void fig_fasttree_fig9(struct figure *f)
{
    static const char *const series[] = {
        "flash-attention", "flashinfer", "deft-flatten", "cascade", "fasttree-no-greedy", "fasttree", NULL};
    struct times x;
    times_simulated(f, figure_table(f, "data/fasttree_fig9"), "fasttree-fig9", "latency_ms", &x);
    times_draw(f, &x, "fasttree", series, "tree of Figure 9");
    check_kernels(f, &x, "flash-attention");
}

void fig_fasttree_fig9_released(struct figure *f)
{
    static const char *const series[] = {
        "sdpa", "flashinfer", "deft-flatten", "cascade", "fasttree-no-greedy", "fasttree", NULL};
    struct times x;
    times_released(f, "FT", &x);
    times_draw(f, &x, "fasttree", series, "tree of Figure 9");
    check_kernels(f, &x, "flashinfer");
    struct times cuda_core;
    times_cuda_core(f, "FT", &cuda_core);
    struct ratio r = times_ratio(&cuda_core, "flashinfer", "fasttree", NULL, 1, TREES);
    check_why(f, "fasttree-over-flashinfer",
              "A newer FlashInfer on an H200, of whose two decoding kernels the faster counts on each tree; "
              "with the CUDA-core "
              "kernel alone it is %.3gx, on the %d trees and head counts that it can.",
              r.mean, (int)r.n);
}

void fig_fasttree_fig9_ours(struct figure *f)
{
    static const char *const series[] = {
        "flash-attention", "flashinfer", "deft-flatten", "cascade", "fasttree-no-greedy", "fasttree", NULL};
    struct times x;
    times_measured(f, "measured/h100_bench_write", "fasttree-fig9", "time_us", &x);
    times_draw(f, &x, "fasttree", series, "tree of Figure 9");
    check_kernels(f, &x, "flash-attention");
}

/* ---- its two ablations ---------------------------------------------------------------------------------- */

/* The trees of seven levels and more. */
enum { DEEP_FROM = 10, DEEP_TO = 13 };

static void greedy_panel(struct figure *f, const struct times *x, const char *name)
{
    struct ratio all = times_ratio(x, "fasttree-no-greedy", "fasttree", NULL, 1, TREES),
                 deep = times_ratio(x, "fasttree-no-greedy", "fasttree", NULL, DEEP_FROM, DEEP_TO),
                 flat = times_ratio(x, "fasttree-no-greedy", "fasttree", NULL, 1, 6);
    static const char *const at[] = {"GQA 1", "GQA 4", "GQA 16"};
    add_panel(f, name, LINES, 0, "tree of Figure 9", "time without greedy / with");
    int32_t a = times_series(x, "fasttree-no-greedy"), b = times_series(x, "fasttree");
    static const char *const series[] = {"gqa-1", "gqa-4", "gqa-16"};
    for (int32_t h = 0; h < x->n_heads && h < 3; h++)
        for (int32_t t = 0; t < TREES && a >= 0 && b >= 0; t++)
            add_point(f, series[h], figure_text(f, "%s, tree %d", at[h], (int)t + 1), t + 1,
                      x->us[a][h][t] / x->us[b][h][t], NAN);
    check_headline(f, "fasttree-greedy", all.most);
    check_trend(
        f, deep.mean > flat.mean,
        "%s: the greedy assignment gains more on trees of seven levels and more (%.3gx) than on the six "
        "shallow ones (%.3gx)",
        name, deep.mean, flat.mean);
}

void fig_fasttree_greedy(struct figure *f)
{
    struct times x;
    times_simulated(f, figure_table(f, "data/fasttree_fig9"), "fasttree-fig9", "latency_ms", &x);
    greedy_panel(f, &x, "simulated");
}

void fig_fasttree_greedy_released(struct figure *f)
{
    struct times x;
    times_released(f, "FT", &x);
    greedy_panel(f, &x, "FastTree's released kernel");
}

void fig_fasttree_greedy_measured(struct figure *f)
{
    struct times x;
    times_measured(f, "measured/h100_bench_write", "fasttree-fig9", "time_us", &x);
    greedy_panel(f, &x, "our kernel, FastTree's plans");
}

static void splitting_panel(struct figure *f, const struct times *x)
{
    enum { TREE = 9 }; /* 1,10 4000,400 */
    int32_t a = times_series(x, "fasttree-no-split"), b = times_series(x, "fasttree");
    add_panel(f, "levels 1,10 4000,400", BARS, 0, "", "time (us)");
    for (int32_t h = 0; h < x->n_heads && h < 3 && a >= 0 && b >= 0; h++) {
        add_point(f, "fasttree-no-split", x->heads[h], NAN, x->us[a][h][TREE - 1], NAN);
        add_point(f, "fasttree", x->heads[h], NAN, x->us[b][h][TREE - 1], NAN);
    }
    check_below(f, "fasttree", "fasttree-no-split");
    check_headline(f, "fasttree-splitting",
                   times_ratio(x, "fasttree-no-split", "fasttree", NULL, TREE, TREE).most);
    double gain[3];
    static const char *const heads[] = {"32/32", "32/8", "16/1"};
    for (int h = 0; h < 3; h++)
        gain[h] = times_ratio(x, "fasttree-no-split", "fasttree", heads[h], TREE, TREE).mean;
    check_why(f, "fasttree-splitting",
              "It hangs on the heads, which the paper does not name: %.3gx at %s, %.3gx at %s, %.3gx at %s, "
              "where an unsplit "
              "prefix has the fewest CTAs.",
              gain[0], heads[0], gain[1], heads[1], gain[2], heads[2]);
    struct ratio all = times_ratio(x, "fasttree-no-split", "fasttree", NULL, 1, TREES);
    check_trend(f, all.most_tree == TREE, "of all trees, splitting gains most on number %d: number %d, %.3gx",
                TREE, (int)all.most_tree, all.most);
}

void fig_fasttree_splitting(struct figure *f)
{
    struct times x;
    times_simulated(f, figure_table(f, "data/fasttree_fig9"), "fasttree-fig9", "latency_ms", &x);
    splitting_panel(f, &x);
}

void fig_fasttree_splitting_measured(struct figure *f)
{
    struct times x;
    times_measured(f, "measured/h100_splitting", "fasttree-fig9", "time_us", &x);
    splitting_panel(f, &x);
}
