/* deft.c - the figures and tables of DeFT (ICLR 2025). */
#include "paper-figs/figures.h"

#include <math.h>

/* The columns of Tables 5, 6, 16, 17: what the paper calls them, and the `source` of our rows. */
static const struct {
    const char *at, *source;
    bool few_shot;
} workloads[] = {{"few-shot b=20", "fewshot:20", true},
                 {"few-shot b=30", "fewshot:30", true},
                 {"few-shot b=50", "fewshot:50", true},
                 {"reasoning sorting", "deft:sorting128ToT.json", false},
                 {"reasoning document", "deft:docmergeToT.json", false},
                 {"reasoning keyword", "deft:keywordToT.json", false},
                 {"reasoning set", "deft:set128ToT.json", false},
                 {"speculative t=32", "deft:APPS_tree_size32.json", false},
                 {"speculative t=64", "deft:APPS_tree_size64.json", false},
                 {"speculative t=128", "deft:APPS_tree_size128.json", false},
                 {"speculative t=256", "deft:APPS_tree_size256.json", false}};
enum { N_WORKLOADS = sizeof workloads / sizeof workloads[0] };

/* ---- Table 17: bytes by the paper's count -------------------------------------------------------------- */

/* Mean over the trees of one workload, in TB: K and V, or all that Table 17 calls partial results. */
static double traffic(struct figure *f, int w, const char *strategy, bool kv)
{
    static const char *const kv_io[] = {"KV_IO_bytes", NULL};
    static const char *const partial[] = {"Mask_IO_bytes",     "QK_IO_bytes",
                                          "QK_scale_IO_bytes", "QK_scale_masked_IO_bytes",
                                          "SoftMax_IO_bytes",  NULL};
    const struct table *t =
        figure_table(f, workloads[w].few_shot ? "data/deft_few_shot_io" : "data/deft_trees_io");
    double bytes = 0;
    for (const char *const *c = kv ? kv_io : partial; *c; c++)
        bytes += pick_mean(f, t, *c, "source", workloads[w].source, "strategy", strategy, NULL);
    return bytes / 1e12;
}

void fig_deft_table17(struct figure *f)
{
    static const char *const series[] = {"flash-decoding", "tree-medusa", "radix-attention", "deft-flatten"};
    const struct table *paper = figure_table(f, "paper/deft-table17");
    double least = INFINITY, most = -INFINITY, partial = INFINITY;
    for (int kv = 1; kv >= 0; kv--) {
        add_panel(f, kv ? "K and V" : "scores, masks, softmax", BARS, LOG_Y, "", "traffic (TB)");
        for (int w = 0; w < N_WORKLOADS; w++)
            for (int s = 0; s < 4; s++) {
                double p =
                    paper_number(f, paper, kv ? "kv-io" : "partial-io", series[s], "", workloads[w].at);
                if (kv || s == 1 || s == 3) /* the others have none; DeFT's is printed as 0.00 or 0.01 */
                    add_point(f, series[s], workloads[w].at, NAN, traffic(f, w, series[s], kv),
                              kv || s == 1 ? p : NAN);
            }
        if (kv)
            check_least(f, "deft-flatten", 0);
        check_match(f);
    }
    for (int w = 0; w < N_WORKLOADS; w++) {
        double cut = 100 * (1 - traffic(f, w, "deft-flatten", true) / traffic(f, w, "radix-attention", true));
        least = fmin(least, cut);
        most = fmax(most, cut);
        partial = fmin(
            partial, 100 * (1 - traffic(f, w, "deft-flatten", false) / traffic(f, w, "tree-medusa", false)));
    }
    check_headline(f, "deft-kv-io-reduction-least", least);
    check_headline(f, "deft-kv-io-reduction-most", most);
    check_headline(f, "deft-partial-io-reduction", partial);
}

/* ---- Table 7: longer prompts --------------------------------------------------------------------------- */

void fig_deft_table7(struct figure *f)
{
    static const struct {
        const char *at, *key, *prompt;
        double tokens;
    } prompts[] = {{"1k", "reasoning sorting L=1k", "1000", 1000},
                   {"5k", "reasoning sorting L=5k", "5000", 5000},
                   {"8k", "reasoning sorting L=8k", "8000", 8000},
                   {"10k", "reasoning sorting L=10k", "10000", 10000}};
    const struct table *sim = figure_table(f, "data/deft_prompts"),
                       *paper = figure_table(f, "paper/deft-table7");
    add_panel(f, "", LINES, 0, "prompt (tokens)", "speedup over Radix Attention");
    for (int i = 0; i < 4; i++)
        add_point(f, "deft-flatten", prompts[i].at, prompts[i].tokens,
                  pick_mean(f, sim, "latency_ms", "prompt_len", prompts[i].prompt, "strategy",
                            "radix-attention", NULL) /
                      pick_mean(f, sim, "latency_ms", "prompt_len", prompts[i].prompt, "strategy",
                                "deft-flatten", NULL),
                  paper_number(f, paper, "attention-latency-speedup", "deft-flatten", "radix-attention",
                               prompts[i].key));
    check_grows(f, "deft-flatten", 0);
    check_match(f);
}

/* ---- Table 14: how busy the GPU is ------------------------------------------------------------------- */

void fig_deft_table14(struct figure *f)
{
    static const struct {
        const char *metric, *column, *label, *panel;
        double scale;
    } part[] = {
        {"attention-latency", "latency_ms", "time of one layer (us)", "latency", 1e3},
        {"compute-throughput-ratio", "tensor_use", "share of the peak (%)", "compute", 100},
        {"memory-throughput-ratio", "bandwidth_use", "share of the peak (%)", "memory", 100},
        {"low-utilization-time-ratio", "low_share", "share of the time (%)", "tensor cores under 5 %", 100}};
    static const char *const series[] = {"deft-node", "deft-flatten"};
    static const char *const at = "speculative 64 queries prompt 4k";
    const struct table *sim = figure_table(f, "data/deft_table14"),
                       *paper = figure_table(f, "paper/deft-table14");
    for (int p = 0; p < 4; p++) {
        add_panel(f, part[p].panel, BARS, 0, "", part[p].label);
        for (int s = 0; s < 2; s++)
            add_point(f, series[s], "64 queries, 4k", NAN,
                      part[p].scale * pick(f, sim, part[p].column, "strategy", series[s], NULL),
                      paper_number(f, paper, part[p].metric, series[s], "", at));
        if (p == 0) {
            check_below(f, "deft-flatten", "deft-node");
            check_match(f);
            check_number(f, "speedup of DeFT-Flatten over DeFT-Node", "x",
                         point_ours(f, "deft-node", "64 queries, 4k") /
                             point_ours(f, "deft-flatten", "64 queries, 4k"),
                         961.38 / 226.82);
        } else if (p < 3)
            check_below(f, "deft-node", "deft-flatten");
        else
            check_below(f, "deft-flatten", "deft-node");
    }
}
