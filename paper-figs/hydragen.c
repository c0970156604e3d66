/*
 * hydragen.c - the figures and tables of Hydragen (2024).
 *
 * End to end, ours is the simulated attention of one of the paper's GPUs (tensor parallel: an equal share of the heads
 * each) on top of the paper's own time without attention, b / its "Upper Bound (No Attention)" column. Hydragen's
 * FlashAttention baseline keeps a copy of the prefix for every sequence: our flash-decoding. vLLM is another library. What its step
 * takes for a block of tokens is fitted to the tables of the two other models, never to those of the model that is drawn.
 */
#include "paper-figs/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- attention alone: Figures 4 and 7 -------------------------------------------------------------------- */

static const int prefixes[] = {1024, 2048, 4096, 8192, 16384};
static const int batches[] = {64, 256, 1024, 2048};
static const int suffixes[] = {128, 512, 2048};

static double attention_speedup(struct figure *f, const struct csv *t, const char *machine, int s, int b,
                                int p)
{
    const char *at = figure_text(f, "s=%d b=%d p=%d", s, b, p);
    return pick(f, t, "latency_ms", "machine", machine, "at", at, "strategy", "flash-decoding", NULL) /
           pick(f, t, "latency_ms", "machine", machine, "at", at, "strategy", "hydragen", NULL);
}

/* A panel per suffix, a line per batch size. Returns the largest speedup. */
static double speedup_panels(struct figure *f, const struct csv *t, const char *machine, const char *name)
{
    double most = 0, short_suffix = NAN;
    for (int s = 0; s < 3; s++) {
        add_panel(f, figure_text(f, "%s%d suffix tokens", name, suffixes[s]), LINES, LOG_X, "prefix (tokens)",
                  "speedup of attention (x)");
        for (int b = 0; b < 4; b++)
            for (int p = 0; p < 5; p++) {
                double x = attention_speedup(f, t, machine, suffixes[s], batches[b], prefixes[p]);
                most = fmax(most, x);
                add_point(f, figure_text(f, "batch-%d", batches[b]),
                          figure_text(f, "%dK", prefixes[p] / 1024), prefixes[p], x, NAN);
            }
        check_grows(f, "batch-1024", 0.01);
        check_below(f, "batch-64", "batch-1024");
        double here = point_ours(f, "batch-1024", "16K");
        if (s > 0)
            check_trend(f, here < short_suffix, "%s%d suffix tokens gain less than fewer: %.3gx, %.3gx", name,
                        suffixes[s], here, short_suffix);
        short_suffix = here;
    }
    return most;
}

void fig_hydragen_fig4(struct figure *f)
{
    check_headline(f, "hydragen-attention-speedup",
                   speedup_panels(f, figure_table(f, "data/hydragen_attention"), "a100-40", ""));
}

/* Times of our kernel: the copies are sequences that share nothing, with the faster of two plans. */
static double measured_speedup(struct figure *f, const struct csv *t, int s, int b, int p)
{
    const char *shared = figure_text(f, "levels:1,%d_%d,%d", b, p, s),
               *copies = figure_text(f, "levels:%d_%d", b, p + s);
    return fmin(
               pick(f, t, "time_us", "tree", copies, "strategy", "flash-attention", "verdict", "PASS", NULL),
               pick(f, t, "time_us", "tree", copies, "strategy", "flash-decoding", "verdict", "PASS", NULL)) /
           pick(f, t, "time_us", "tree", shared, "strategy", "hydragen", "verdict", "PASS", NULL);
}

static void measured_speedups(struct figure *f, const struct csv *t)
{
    double most = 0;
    add_panel(f, "128 suffix tokens", LINES, LOG_X, "prefix (tokens)", "speedup of attention (x)");
    for (int b = 0; b < 4; b++)
        for (int p = 0; p < 5; p++) {
            double x = measured_speedup(f, t, suffixes[0], batches[b], prefixes[p]);
            most = fmax(most, x);
            add_point(f, figure_text(f, "batch-%d", batches[b]), figure_text(f, "%dK", prefixes[p] / 1024),
                      prefixes[p], x, NAN);
        }
    check_grows(f, "batch-1024", 0.01);
    check_below(f, "batch-64", "batch-1024");
    add_panel(f, "a prefix of 16K tokens", LINES, LOG_X, "suffix (tokens)", "speedup of attention (x)");
    double gain[3] = {0};
    for (int b = 0; b < 4; b++)
        for (int s = 0; s < 3; s++) {
            double x = measured_speedup(f, t, suffixes[s], batches[b], prefixes[4]);
            gain[s] = fmax(gain[s], x);
            add_point(f, figure_text(f, "batch-%d", batches[b]), figure_text(f, "%d", suffixes[s]),
                      suffixes[s], x, NAN);
        }
    check_trend(f, gain[0] > gain[1] && gain[1] > gain[2],
                "the longer the suffixes, the smaller the largest gain: %.3gx, %.3gx, %.3gx", gain[0],
                gain[1], gain[2]);
    check_headline(f, "hydragen-attention-speedup", most);
}

void fig_hydragen_fig4_measured(struct figure *f)
{
    measured_speedups(f, figure_table(f, "measured/h200_hydragen"));
}

void fig_hydragen_fig4_h100(struct figure *f)
{
    measured_speedups(f, figure_table(f, "measured/h100_hydragen"));
}

void fig_hydragen_fig7(struct figure *f)
{
    const struct csv *t = figure_table(f, "data/hydragen_attention");
    double h100 = speedup_panels(f, t, "h100", "H100, "), l40s = speedup_panels(f, t, "l40s", "L40S, "),
           a100 = 0;
    for (int b = 0; b < 4; b++)
        a100 = fmax(a100, attention_speedup(f, t, "a100-40", suffixes[0], batches[b], prefixes[4]));
    check_trend(f, l40s > h100 && l40s > a100,
                "an L40S, with the most operations a byte, gains most: %.3gx; H100 %.3gx, A100 %.3gx", l40s,
                h100, a100);
}

/* ---- end to end ------------------------------------------------------------------------------------------- */

/* One of tables 1 to 6. */
struct setting {
    int number, generated;
    const char *model;
};
static const struct setting settings[] = {{1, 128, "codellama-7b"},  {2, 256, "codellama-7b"},
                                          {3, 128, "codellama-13b"}, {4, 256, "codellama-13b"},
                                          {5, 128, "codellama-34b"}, {6, 256, "codellama-34b"}};
enum { GPUS = 8, N_PREFIXES = 5 };
static const char *const prefix_name[N_PREFIXES] = {"1K", "2K", "4K", "8K", "16K"};

static int prefix_tokens(const struct setting *s, int p)
{
    return p + 1 < N_PREFIXES ? prefixes[p] : 16384 - s->generated;
}

/* Milliseconds of a step without attention: the paper's. */
static double rest_ms(struct figure *f, int number, int b)
{
    const struct csv *t = figure_table(f, figure_text(f, "paper/hydragen-table%d", number));
    return b / paper_number(f, t, "throughput", "no-attention", "", figure_text(f, "b=%d", b));
}

/* Thousands of tokens a second; attention in the middle of the run. */
static double throughput(struct figure *f, const struct setting *s, const char *strategy, int b, int p)
{
    const struct csv *t = figure_table(f, figure_text(f, "data/hydragen_table%d", s->number));
    const char *at = figure_text(f, "b=%d p=%d", b, prefix_tokens(s, p));
    return b / (rest_ms(f, s->number, b) + pick(f, t, "latency_ms", "at", at, "strategy", strategy, NULL));
}

/* Do weights and a copy of `tokens` for each of b sequences fit GPUs of 40 GB? */
static bool copies_fit(struct figure *f, const char *model, int gpus, int b, int tokens)
{
    const struct csv *t = figure_table(f, "data/models");
    double weights = pick(f, t, "weights_GB", "model", model, NULL),
           token = pick(f, t, "KB/token", "model", model, NULL);
    return (weights + 1e-6 * token * b * tokens) / gpus <= 40;
}

static bool setting_fits(struct figure *f, const struct setting *s, int b, int p)
{
    return copies_fit(f, s->model, GPUS, b, prefix_tokens(s, p) + s->generated);
}

static const char *printed(struct figure *f, const struct csv *t, const char *series, int b, int p)
{
    int64_t row =
        pick_row(f, t, -1, "series", series, "at", figure_text(f, "b=%d p=%s", b, prefix_name[p]), NULL);
    return row < 0 ? "" : cell_text(f, t, row, "value");
}

static double number_of(const char *text)
{
    char *end;
    double x = strtod(text, &end);
    return end == text ? NAN : x;
}

/*
 * vLLM 0.2.7 captures CUDA graphs of batches to 256 and contexts to 8,192 tokens (its defaults), and keeps K and V in blocks of 16 tokens.
 * Without graphs the printed throughput hangs on the number of blocks and not on the model: 1,024 sequences with a prefix of 16K get 0.4
 * thousand tokens a second from 7, 13 and 34 billion weights. So it is no time of attention, presumably the host's, which hands out the
 * blocks' numbers at each step. A step takes what the paper's takes without attention, and a time for every block of every sequence, with
 * and without graphs.
 */
enum { VLLM_BLOCK = 16, VLLM_GRAPH_BATCH = 256, VLLM_GRAPH_TOKENS = 8192 };

static bool vllm_in_graph(const struct setting *s, int b, int p)
{
    return b <= VLLM_GRAPH_BATCH && prefix_tokens(s, p) + s->generated <= VLLM_GRAPH_TOKENS;
}

/* Of all sequences, in thousands; in the middle of the run. */
static double vllm_blocks(const struct setting *s, int b, int p)
{
    return 1e-3 * b * (prefix_tokens(s, p) + s->generated / 2.0) / VLLM_BLOCK;
}

/* us of a block: least squares through 0 over the tables of the other models. */
static double vllm_block_us(struct figure *f, const char *model, bool in_graph)
{
    double xy = 0, xx = 0;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct setting *s = &settings[i];
        if (strcmp(s->model, model) == 0)
            continue;
        const struct csv *t = figure_fitted(f, figure_text(f, "paper/hydragen-table%d", s->number));
        for (int b = 32; b <= 4096; b *= 2)
            for (int p = 0; p < N_PREFIXES; p++) {
                double tokens = number_of(printed(f, t, "vllm-no-detokenization", b, p));
                if (isnan(tokens) || vllm_in_graph(s, b, p) != in_graph)
                    continue;
                double x = vllm_blocks(s, b, p);
                xy += x * (b / tokens - rest_ms(f, s->number, b));
                xx += x * x;
            }
    }
    return xy / xx;
}

/* us of a block, without graphs and with them; fitted once a figure. */
struct vllm {
    double block_us[2];
};

static struct vllm vllm_fit(struct figure *f, const struct setting *s)
{
    return (struct vllm){{vllm_block_us(f, s->model, false), vllm_block_us(f, s->model, true)}};
}

/* Thousands of tokens a second. */
static double vllm_throughput(struct figure *f, const struct vllm *v, const struct setting *s, int b, int p)
{
    return b / (rest_ms(f, s->number, b) + vllm_blocks(s, b, p) * v->block_us[vllm_in_graph(s, b, p)]);
}

static void table_of(struct figure *f, const struct setting *s)
{
    const struct csv *paper = figure_table(f, figure_text(f, "paper/hydragen-table%d", s->number));
    int oom_same = 0, oom_of = 0;
    const struct vllm vllm = vllm_fit(f, s);
    double least = INFINITY, most = 0; /* the paper's part of a step of ours, percent */
    for (int p = 0; p < N_PREFIXES; p++) {
        add_panel(f, figure_text(f, "prefix of %d tokens", prefix_tokens(s, p)), LINES, LOG_X, "batch size",
                  "thousand tokens / s");
        for (int b = 32; b <= 4096; b *= 2) {
            const char *at = b < 1024 ? figure_text(f, "%d", b) : figure_text(f, "%dK", b / 1024),
                       *copies = printed(f, paper, "flash-attention", b, p),
                       *hydragen = printed(f, paper, "hydragen", b, p);
            if (!*hydragen)
                continue;
            bool fits = setting_fits(f, s, b, p);
            oom_same += fits == (strcmp(copies, "oom") != 0);
            oom_of++;
            add_point(f, "flash-attention", at, b, fits ? throughput(f, s, "flash-decoding", b, p) : NAN,
                      number_of(copies));
            add_point(f, "hydragen", at, b, throughput(f, s, "hydragen", b, p), number_of(hydragen));
            add_point(f, "vllm", at, b, vllm_throughput(f, &vllm, s, b, p),
                      number_of(printed(f, paper, "vllm-no-detokenization", b, p)));
            double share = 100 * rest_ms(f, s->number, b) * throughput(f, s, "hydragen", b, p) / b;
            least = fmin(least, share);
            most = fmax(most, share);
            add_point(f, "no-attention", at, b, NAN, b / rest_ms(f, s->number, b));
        }
        if (!isnan(point_ours(f, "flash-attention", "32")))
            check_below(f, "flash-attention", "hydragen");
        check_match(f);
    }
    add_note(f, "Of Hydragen's step %.2g to %.2g %% are the paper's own time without attention.", least,
             most);
    check_trend(f, oom_same * 10 >= oom_of * 9,
                "FlashAttention's copies do not fit where the paper says so: %d of %d cells", oom_same,
                oom_of);
}

void fig_hydragen_table1(struct figure *f)
{
    table_of(f, &settings[0]);
}

void fig_hydragen_table2(struct figure *f)
{
    table_of(f, &settings[1]);
}

void fig_hydragen_table3(struct figure *f)
{
    table_of(f, &settings[2]);
}

void fig_hydragen_table4(struct figure *f)
{
    table_of(f, &settings[3]);
}

void fig_hydragen_table5(struct figure *f)
{
    table_of(f, &settings[4]);
}

void fig_hydragen_table6(struct figure *f)
{
    table_of(f, &settings[5]);
}

/* ---- Figure 3 --------------------------------------------------------------------------------------------- */

static void add_methods(struct figure *f, const struct vllm *vllm, const struct setting *s, const char *at,
                        double x, int b, int p)
{
    const struct csv *paper = figure_table(f, "paper/hydragen-table3");
    bool fits = setting_fits(f, s, b, p);
    add_point(f, "no-attention", at, x, NAN, b / rest_ms(f, 3, b));
    add_point(f, "hydragen", at, x, throughput(f, s, "hydragen", b, p),
              number_of(printed(f, paper, "hydragen", b, p)));
    add_point(f, "flash-attention", at, x, fits ? throughput(f, s, "flash-decoding", b, p) : NAN,
              number_of(printed(f, paper, "flash-attention", b, p)));
    add_point(f, "shared-storage", at, x, throughput(f, s, "flash-attention", b, p), NAN);
    add_point(f, "vllm", at, x, vllm_throughput(f, vllm, s, b, p),
              number_of(printed(f, paper, "vllm-no-detokenization", b, p)));
}

void fig_hydragen_fig3(struct figure *f)
{
    const struct setting *s = &settings[2];
    const struct vllm vllm = vllm_fit(f, s);
    enum { LARGE = 1024, AT_2K = 1, LAST = N_PREFIXES - 1 };
    add_panel(f, "prefix of 2048 tokens", LINES, LOG_X, "batch size", "thousand tokens / s");
    bool half = true;
    for (int b = 32; b <= LARGE; b *= 2) {
        add_methods(f, &vllm, s, figure_text(f, "%d", b), b, b, AT_2K);
        half &= throughput(f, s, "hydragen", b, AT_2K) > 0.5 * b / rest_ms(f, 3, b);
    }
    check_match(f);
    check_trend(f, half, "Hydragen has over half of the throughput without attention at every batch size");
    add_panel(f, "batch of 1024", LINES, LOG_X, "prefix (tokens)", "thousand tokens / s");
    double gain = 0;
    bool most = true;
    for (int p = 0; p < N_PREFIXES; p++) {
        add_methods(f, &vllm, s, prefix_name[p], prefix_tokens(s, p), LARGE, p);
        double hydragen = throughput(f, s, "hydragen", LARGE, p);
        gain = fmax(gain, hydragen / vllm_throughput(f, &vllm, s, LARGE, p));
        most &= hydragen > 0.7 * LARGE / rest_ms(f, 3, LARGE);
    }
    check_match(f);
    check_trend(f, most, "Hydragen has over 70 %% of the throughput without attention at every prefix");
    check_headline(
        f, "hydragen-long-prefix-loss",
        100 * (1 - throughput(f, s, "hydragen", LARGE, LAST) / throughput(f, s, "hydragen", LARGE, 0)));
    check_headline(
        f, "hydragen-long-prefix-loss-baselines",
        100 * (1 - vllm_throughput(f, &vllm, s, LARGE, LAST) / vllm_throughput(f, &vllm, s, LARGE, 0)));
    check_headline(f, "hydragen-throughput", gain);
    add_note(f,
             "A block of 16 tokens takes vLLM %.3g us on the host without a CUDA graph, %.3g us in one: "
             "fitted to CodeLlama-7B and "
             "-34B.",
             vllm.block_us[false], vllm.block_us[true]);
}

/* The largest gain over vLLM, of the smaller models. */
void fig_hydragen_small_models(struct figure *f)
{
    const struct setting *s = &settings[0];
    add_panel(f, "prefix of 16256 tokens", LINES, LOG_X, "batch size", "throughput over vLLM (x)");
    const struct vllm vllm = vllm_fit(f, s);
    double most = 0;
    for (int b = 32; b <= 2048; b *= 2) {
        double x = throughput(f, s, "hydragen", b, 4) / vllm_throughput(f, &vllm, s, b, 4);
        most = fmax(most, x);
        add_point(f, "hydragen", figure_text(f, "%d", b), b, x, NAN);
    }
    check_grows(f, "hydragen", 0.01);
    add_note(f, "A block of 16 tokens takes vLLM %.4g us on the host: fitted to CodeLlama-13B and -34B.",
             vllm.block_us[false]);
    check_headline(f, "hydragen-throughput-small-models", most);
}

/* ---- Figure 5: questions about a long document ------------------------------------------------------------- */

void fig_hydragen_fig5(struct figure *f)
{
    enum {
        STEPS = 32,
        DOCUMENT = 19947,
        GPUS_HERE = 4
    }; /* tokens of an answer are not given; all methods need as many */
    const struct csv *t = figure_table(f, "data/hydragen_fig5"),
                     *paper = figure_table(f, "paper/hydragen-fig5");
    double excess = 0;
    add_panel(f, "", LINES, LOG_X | LOG_Y, "questions", figure_text(f, "time of %d steps (s)", STEPS));
    for (int b = 64; b <= 1024; b *= 2) {
        const char *at = figure_text(f, "%d", b), *key = figure_text(f, "b=%d", b);
        double rest = rest_ms(f, 1, b), scale = STEPS / 1e3,
               hydragen = rest + pick(f, t, "latency_ms", "at", key, "strategy", "hydragen", NULL);
        double copies = rest + pick(f, t, "latency_ms", "at", key, "strategy", "flash-decoding", NULL);
        add_point(f, "flash-attention", at, b,
                  copies_fit(f, "yi-6b", GPUS_HERE, b, DOCUMENT + STEPS) ? scale * copies : NAN, NAN);
        add_point(f, "hydragen", at, b, scale * hydragen, NAN);
        add_point(f, "no-attention", at, b, scale * rest, NAN);
        excess = fmax(excess, 100 * (hydragen / rest - 1));
    }
    check_below(f, "hydragen", "flash-attention");
    check_trend(f, point_ours(f, "hydragen", "256") < point_ours(f, "flash-attention", "64"),
                "Hydragen answers 256 questions in less time than FlashAttention 64");
    double most = paper_number(f, paper, "latency-excess", "hydragen", "no-attention", "all");
    check_trend(f, excess < most, "Hydragen needs at most %g %% more time than without attention: %.3g %%",
                most, excess);
}

/* ---- Figure 6: two levels of sharing ----------------------------------------------------------------------- */

void fig_hydragen_fig6(struct figure *f)
{
    const struct csv *t = figure_table(f, "data/hydragen_fig6"),
                     *paper = figure_table(f, "paper/hydragen-fig6");
    enum { PROBLEMS = 120, CANDIDATES = 128, BATCH = 8, ENLARGED = 16 };
    static const struct {
        const char *series, *strategy;
        int problems;
    } run[] = {{"hydragen", "hydragen", BATCH},
               {"hydragen-tree", "hydragen-tree", BATCH},
               {"hydragen-tree-enlarged", "hydragen-tree", ENLARGED}};
    double prompt = paper_number(f, paper, "prompt-length", "prompt", "", "shared by all"),
           steps = paper_number(f, paper, "completion-length", "completion", "", "each candidate"), time[3];
    add_panel(f, "", BARS, 0, "", "time of all 120 problems (s)");
    for (int i = 0; i < 3; i++) {
        int b = run[i].problems * CANDIDATES;
        const char *at = figure_text(f, "k=%d b=%d p=%g s=%g", run[i].problems, b, prompt, steps / 2);
        double step =
            rest_ms(f, 1, b) + pick(f, t, "latency_ms", "at", at, "strategy", run[i].strategy, NULL);
        time[i] = step / 1e3 * steps * PROBLEMS / run[i].problems;
        add_point(f, run[i].series, "120 problems, 128 solutions each", NAN, time[i], NAN);
    }
    double level[2] = {100 * (1 - time[1] / time[0]),
                       paper_number(f, paper, "latency-reduction", "hydragen-tree", "hydragen",
                                    "equal batch")},
           larger[2] = {100 * (1 - time[2] / time[1]),
                        paper_number(f, paper, "latency-reduction", "hydragen-tree-enlarged", "hydragen-tree",
                                     "larger batch")};
    check_cut(f, "cut of time by a second level, equal batch", level[0], level[1]);
    check_cut(f, "further cut by a larger batch", larger[0], larger[1]);
    check_headline(f, "hydragen-tree-time", 100 * (1 - time[2] / time[0]));
    check_why(f, "hydragen-tree-time",
              "Lengths and batch sizes are not printed: as chosen here the second level saves %.2g %% (paper "
              "%.3g %%), a larger batch "
              "%.2g %% (paper %.3g %%), bounded by the paper's own column without attention.",
              level[0], level[1], larger[0], larger[1]);
}
