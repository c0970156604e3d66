/* pat.c - the figures and the table of PAT (ASPLOS 2026). */
#include "paper-figs/figures.h"
#include "paper-figs/serving.h"
#include "paper-figs/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Table 1: the memory of an A100 --------------------------------------------------------------------- */

void fig_pat_table1(struct figure *f)
{
    static const struct {
        const char *figure, *metric, *level, *unit, *label;
        double scale;
    } row[] = {
        {"regs_per_sm", "size", "register", "KB/SM", "registers (KB/SM)", 4.0 / 1024},
        {"smem_per_sm", "size", "shared-memory", "KB/SM", "shared memory (KB/SM)", 1.0 / 1024},
        {"smem_per_cta", "size-per-cta", "shared-memory", "KB", "shared memory (KB/CTA)", 1.0 / 1024},
        {"l2_bytes", "size", "l2", "MB", "L2 (MB)", 1.0 / 1048576},
        {"memory", "size", "global-memory", "GB", "memory (GB)", 1e-9},
        {"latency_ns", "latency", "global-memory", "ns", "latency (ns)", 1},
        {"bandwidth", "bandwidth", "global-memory", "TB/s", "memory (TB/s)", 1e-12},
    };
    const struct csv *ours = figure_table(f, "data/pat_table1"), *paper = figure_table(f, "paper/pat-table1");
    add_panel(f, "", BARS, LOG_Y, "", "figure, unit below");
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        double x = row[i].scale * pick(f, ours, "value", "figure", row[i].figure, NULL),
               p = paper_number(f, paper, row[i].metric, row[i].level, "", "A100-SXM4-80GB");
        add_point(f, "machine-model", row[i].label, NAN, x, p);
        check_number(f, row[i].label, row[i].unit, x, p);
    }
    double l2 = pick(f, ours, "value", "figure", "l2_bytes", NULL),
           l2_rate = pick(f, ours, "value", "figure", "l2_bandwidth", NULL),
           memory = pick(f, ours, "value", "figure", "memory", NULL),
           rate = pick(f, ours, "value", "figure", "bandwidth", NULL);
    check_trend(f, l2 < memory && l2_rate > rate, "the L2 is smaller than the memory, and faster: %.3g times",
                l2_rate / rate);
}

/* ---- Figure 1: how much of a step is attention ------------------------------------------------------------ */

void fig_pat_fig1(struct figure *f)
{
    static const char *const model[][2] = {{"llama-3-8b", "32"}, {"qwen3-8b", "36"}};
    const struct csv *t = figure_table(f, "data/pat_fig1"), *rest = figure_table(f, "data/rest"),
                     *paper = figure_table(f, "paper/pat-fig1");
    double most = 0;
    add_panel(f, "64 sequences that share nothing", LINES, LOG_X, "context (tokens)",
              "attention, share of a step (%)");
    for (int m = 0; m < 2; m++) {
        double other =
            1e3 * pick(f, rest, "other_s", "machine", "a100-80, simulated", "model", model[m][0], NULL);
        for (int length = 512; length <= 8192; length *= 2) {
            double attention = pick(f, t, "latency_ms", "at", figure_text(f, "L=%d", length), "layers",
                                    model[m][1], NULL),
                   share = 100 * attention / (attention + other);
            most = fmax(most, share);
            add_point(f, model[m][0], figure_text(f, "%d", length), length, share, NAN);
        }
        check_grows(f, model[m][0], 0);
    }
    check_share(f, "largest share of attention", most,
                paper_number(f, paper, "attention-share", "vllm", "", "b=64"));
}

/* ---- Figure 5: bytes a step -------------------------------------------------------------------------------- */

void fig_pat_fig5(struct figure *f)
{
    static const char *const trace[][2] = {{"conversations", "conversations"},
                                           {"requests", "requests on three prompts"}},
                             *const batch[] = {"16", "128"};
    /* tree-medusa's matrix products read every token of the tree once */
    static const char *const series[][2] = {
        {"flash-attention", "flash-attention"}, {"pat", "pat"}, {"floor", "tree-medusa"}};
    const struct csv *paper = figure_table(f, "paper/pat-fig5");
    double least[2] = {INFINITY, INFINITY}, most[2] = {0};
    add_panel(f, "", BARS, 0, "", "K and V read a step (GB)");
    for (int i = 0; i < 4; i++) {
        const struct csv *t =
            figure_table(f, figure_text(f, "data/pat_fig5_%s_%s", trace[i / 2][0], batch[i % 2]));
        double gb[3];
        for (int s = 0; s < 3; s++) {
            gb[s] = pick(f, t, "KV_IO_bytes", "strategy", series[s][1], NULL) / 1e9 /
                    pick(f, t, "iterations", "strategy", series[s][1], NULL);
            add_point(f, series[s][0], figure_text(f, "%s, %s at a time", trace[i / 2][1], batch[i % 2]), NAN,
                      gb[s], NAN);
        }
        for (int s = 0; s < 2; s++) {
            double ratio = gb[0] / gb[s ? 1 : 2];
            least[s] = fmin(least[s], ratio);
            most[s] = fmax(most[s], ratio);
        }
    }
    check_below(f, "pat", "flash-attention");
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 2; k++)
            check_number(
                f,
                figure_text(f, "%s ratio of FlashAttention's bytes to %s", k ? "largest" : "least",
                            s ? "PAT's" : "every token once"),
                "x", k ? most[s] : least[s],
                pick(f, paper, "value", "over", s ? "pat" : "floor", "how", k ? "up-to" : "from", NULL));
}

/* ---- Figure 7: tiles ------------------------------------------------------------------------------------ */

/* An option as the name of a strategy has it: not, at its default. */
static const char *option(struct figure *f, const char *key, int value, int by_default)
{
    return value == by_default ? "" : figure_text(f, "%s=%d,", key, value);
}

/* As `treeattn sim` prints FastTree's plan with one tile and nothing split. */
static const char *tile_strategy(struct figure *f, int m, int n)
{
    return figure_text(f, "fasttree-no-greedy:%s%s%ssplit=1e+12,split_short=1e+12", option(f, "large", m, 64),
                       option(f, "small", m, 16), option(f, "kv", n, 32));
}

void fig_pat_fig7(struct figure *f)
{
    enum { MOST_ROWS = 64 }; /* the largest tile that the released code has */
    static const struct {
        const char *column, *name, *unit;
        double scale;
    } part[] = {{"bandwidth_use", "bandwidth in use", "share of the data sheet's (%)", 100},
                {"latency_ms", "time of one layer", "ms", 1}};
    const struct csv *tiles = figure_table(f, "data/pat_fig7_tiles"), *sim = figure_table(f, "data/pat_fig7"),
                     *paper = figure_table(f, "paper/pat-fig7");
    double x[2][16], least[2], most[2];
    bool counts[16];
    for (int p = 0; p < 2; p++) {
        add_panel(f, part[p].name, BARS, 0, "tile: query rows x KV tokens", part[p].unit);
        least[p] = INFINITY;
        most[p] = -INFINITY;
        for (int i = 0; i < 16; i++) {
            int m = 16 << i / 4, n = 16 << i % 4;
            int64_t row =
                pick_row(f, tiles, -1, "m", figure_text(f, "%d", m), "n", figure_text(f, "%d", n), NULL);
            bool fits = row >= 0 && strcmp(cell_text(f, tiles, row, "feasible"), "yes") == 0;
            x[p][i] = part[p].scale * pick(f, sim, part[p].column, "strategy", tile_strategy(f, m, n), NULL);
            add_point(f, fits ? "feasible" : "not-feasible", figure_text(f, "%dx%d", m, n), NAN, x[p][i],
                      NAN);
            counts[i] = fits && m <= MOST_ROWS;
            if (counts[i]) {
                least[p] = fmin(least[p], x[p][i]);
                most[p] = fmax(most[p], x[p][i]);
            }
        }
    }
    int near = 0, of = 0;
    for (int i = 0; i < 16; i++) {
        of += counts[i];
        near += counts[i] && x[1][i] < 1.02 * least[1];
    }
    check_trend(
        f, near * 10 >= of * 9,
        "nine of ten feasible tiles of at most %d rows are within 2 %% of the fastest: %d of %d (slowest: "
        "%.3g times its time)",
        MOST_ROWS, near, of, most[1] / least[1]);
    check_share(f, "least bandwidth in use by such a tile", least[0],
                pick(f, paper, "value", "metric", "bandwidth-utilization", "how", "from", NULL));
    check_share(f, "most bandwidth in use by such a tile", most[0],
                pick(f, paper, "value", "metric", "bandwidth-utilization", "how", "up-to", NULL));
}

/* ---- Figure 9: attention kernels ------------------------------------------------------------------------ */

enum { SHARED = 18, ALL = 20 }; /* the last two trees share nothing */

/* There is no FastTree at 16/8 and 64/8 (Figure 9). */
static const struct mean_claim baselines[] = {{"flash-attention", "pat-over-flash-attention", NULL},
                                              {"flashinfer", "pat-over-flashinfer", NULL},
                                              {"fasttree", "pat-over-fasttree", "32/32 32/8"},
                                              {"relay", "pat-over-relay", NULL},
                                              {"relay++", "pat-over-relay++", NULL}};
enum { N_BASELINES = sizeof baselines / sizeof baselines[0] };

/* Mean cut of the baselines' latencies by `pat`, percent; *of: how many baselines there are. */
static double mean_cut(const struct times *x, const char *pat, int *of)
{
    double sum = 0;
    int n = 0;
    *of = 0;
    for (int i = 0; i < N_BASELINES; i++) {
        struct ratio r = times_ratio(x, pat, baselines[i].series, baselines[i].heads, 1, SHARED);
        sum += r.n ? r.n * (1 - r.mean) : 0;
        n += r.n;
        *of += r.n > 0;
    }
    return n ? 100 * sum / n : NAN;
}

static void check_kernels(struct figure *f, const struct times *x, const char *pat)
{
    times_means(f, x, pat, baselines, N_BASELINES, 1, SHARED);
    int of;
    double cut = mean_cut(x, pat, &of);
    (of == N_BASELINES ? check_headline : check_part)(f, "pat-attention-latency-reduction", cut);
    struct ratio apart = times_ratio(x, "flashinfer", pat, NULL, SHARED + 1, ALL),
                 together = times_ratio(x, "flashinfer", pat, NULL, 1, SHARED);
    check_trend(f, together.mean > apart.mean,
                "prefixes are what %s gains from: over FlashInfer %.3gx with, %.3gx without",
                series_find(pat)->label, together.mean, apart.mean);
}

static double claimed(struct figure *f, const char *headline)
{
    return pick(f, figure_table(f, "paper/headlines"), "value", "id", headline, NULL);
}

/* Mean of two quantities' ratio over the trees and heads where both are. */
static double mean_ratio(const struct times *a, const struct times *b, const char *series)
{
    int32_t s = times_series(a, series), o = times_series(b, series), n = 0;
    double sum = 0;
    for (int32_t h = 0; s >= 0 && o >= 0 && h < a->n_heads; h++)
        for (int32_t t = 0; t < SHARED; t++) {
            double v = a->us[s][h][t] / b->us[o][h][t];
            sum += isnan(v) ? 0 : v;
            n += !isnan(v);
        }
    return n ? sum / n : NAN;
}

void fig_pat_fig9(struct figure *f)
{
    static const char *const series[] = {"flash-attention", "flashinfer", "fasttree",          "relay",
                                         "relay++",         "pat",        "pat:rule=artifact", NULL};
    struct times x;
    times_simulated(f, figure_table(f, "data/pat_fig9"), "pat-fig9", "latency_ms", &x);
    times_draw(f, &x, "pat", series, "configuration of Figure 9");
    check_kernels(f, &x, "pat");
}

void fig_pat_fig9_artifact(struct figure *f)
{
    static const char *const series[] = {"flash-attention", "flashinfer", "fasttree",          "relay",
                                         "relay++",         "pat",        "pat:rule=artifact", NULL};
    struct times x;
    times_simulated(f, figure_table(f, "data/pat_fig9"), "pat-fig9", "latency_ms", &x);
    times_draw(f, &x, "pat:rule=artifact", series, "configuration of Figure 9");
    check_kernels(f, &x, "pat:rule=artifact");
    check_why(f, "pat-over-relay",
              "RelayAttention is simulated, with the tile loop that PAT has: its copies below the prefix "
              "cost %.2g times PAT's "
              "time, not %.3g.",
              times_ratio(&x, "relay", "pat:rule=artifact", NULL, 1, SHARED).mean,
              claimed(f, "pat-over-relay"));
}

void fig_pat_fig9_released(struct figure *f)
{
    static const char *const series[] = {"sdpa", "flashinfer", "deft-flatten", "cascade", "fasttree",
                                         "pat",  NULL};
    struct times x;
    times_released(f, "PAT", &x);
    times_draw(f, &x, "pat", series, "configuration of Figure 9");
    check_kernels(f, &x, "pat");
    struct times cuda_core;
    times_cuda_core(f, "PAT", &cuda_core);
    check_why(f, "pat-over-flashinfer",
              "FlashInfer 0.2.5 on an A100 there, a newer one on an H200 here, and the faster of its two "
              "decoding kernels on "
              "each batch; over the CUDA-core kernel alone it is %.3gx.",
              times_ratio(&cuda_core, "flashinfer", "pat", NULL, 1, SHARED).mean);
    check_why(f, "pat-over-fasttree",
              "Both released kernels, but on an H200: at neither head count is PAT more than %.3gx faster, "
              "where the paper's A100 "
              "has %.3gx.",
              fmax(times_ratio(&x, "fasttree", "pat", "32/32", 1, SHARED).mean,
                   times_ratio(&x, "fasttree", "pat", "32/8", 1, SHARED).mean),
              claimed(f, "pat-over-fasttree"));
}

void fig_pat_fig9_ours(struct figure *f)
{
    static const char *const series[] = {"flash-attention",   "flashinfer", "fasttree", "relay++", "pat",
                                         "pat:rule=artifact", NULL};
    struct times x;
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "time_us", &x);
    times_drop(&x, "relay"); /* the kernel makes no copies below the prefix: what ran is relay++ */
    times_draw(f, &x, "pat", series, "configuration of Figure 9");
    check_kernels(f, &x, "pat");
}

void fig_pat_fig9_ours_artifact(struct figure *f)
{
    static const char *const series[] = {"flash-attention",   "flashinfer", "fasttree", "relay++", "pat",
                                         "pat:rule=artifact", NULL};
    struct times x;
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "time_us", &x);
    times_drop(&x, "relay"); /* as above */
    times_draw(f, &x, "pat:rule=artifact", series, "configuration of Figure 9");
    check_kernels(f, &x, "pat:rule=artifact");
    struct times read, once, recorded;
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "kv_bytes", &read);
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "unique_kv", &once);
    times_released(f, "PAT", &recorded);
    check_why(f, "pat-over-flash-attention",
              "FlashAttention's plan reads %.2g times the K and V that are there, on the mean of these "
              "batches, so %.3gx is more than traffic "
              "explains; PAT's released kernel is %.3gx faster than torch's SDPA on an H200.",
              mean_ratio(&read, &once, "flash-attention"), claimed(f, "pat-over-flash-attention"),
              times_ratio(&recorded, "sdpa", "pat", NULL, 1, SHARED).mean);
    check_why(f, "pat-over-relay++",
              "Both plans run on our kernel: what one level of sharing costs over PAT's is %.2gx; the rest "
              "of %.3gx is between the "
              "kernels of two code bases.",
              times_ratio(&x, "relay++", "pat:rule=artifact", NULL, 1, SHARED).mean,
              claimed(f, "pat-over-relay++"));
}

/* ---- Figure 10: serving ------------------------------------------------------------------------------------ */

/* Requests decoded at a time, at most, in the runs that a step's time is known from. */
static const int places_of_runs[] = {16, 32, 64, 128, 256};
enum { N_RUNS = sizeof places_of_runs / sizeof places_of_runs[0] };

/* A column of such a run: simulated, or measured. */
static double run_column(struct figure *f, bool is_measured, int places, const char *model,
                         const char *strategy, const char *column)
{
    if (is_measured)
        return pick(f, figure_table(f, "measured/h200_serving"), column, "run",
                    figure_text(f, "batch-%d", places), "model", model, "strategy", strategy, NULL);
    return pick(f, figure_table(f, figure_text(f, "data/pat_fig10_%d", places)), column, "model", model,
                "strategy", strategy, NULL);
}

/* From the runs that there are. */
static struct load load_of(struct figure *f, bool is_measured, const char *model, const char *strategy)
{
    struct load l = {0};
    for (int i = 0; i < N_RUNS; i++) {
        if (is_measured && pick_row(f, figure_table(f, "measured/h200_serving"), -1, "run",
                                    figure_text(f, "batch-%d", places_of_runs[i]), "model", model, NULL) < 0)
            continue;
        l.in_flight[l.n] = run_column(f, is_measured, places_of_runs[i], model, strategy, "queries") /
                           run_column(f, is_measured, places_of_runs[i], model, strategy, "iterations");
        l.step_ms[l.n++] = run_column(f, is_measured, places_of_runs[i], model, strategy, "tpot_ms");
    }
    if (l.n < 2)
        err_set(&f->err, "%d runs of %s, too few to know a step's time from", (int)l.n, strategy);
    return l;
}

/*
 * At equal request rates, as the paper compares: a slower step keeps more requests in flight, which makes it slower again. The paper
 * prints one rate of this trace, 5 a second (appendix B); another card gets as many more as it reads faster. Ours are multiples of it,
 * to the last at which nobody waits for PAT longer than a second on the mean. vLLM 0.9 has 256 places on an A100.
 */
static void serving(struct figure *f, bool is_measured, const char *pat)
{
    enum { N_OTHERS = 3, MOST_RATES = 16, PLACES = 256 };
    static const double printed_rate = 5, patience_ms = 1e3, product_share = 0.8;
    const char *const strategy[] = {"flash-attention", "flashinfer", "relay++", pat};
    static const char *const model[][2] = {{"llama-3-8b", "Llama-3-8B"}, {"qwen3-8b", "Qwen3-8B"}};
    const struct csv *paper = figure_table(f, "paper/pat-fig10"), *a100 = figure_table(f, "data/pat_table1"),
                     *card = is_measured ? figure_table(f, "data/h200") : a100;
    double least[N_OTHERS] = {INFINITY, INFINITY, INFINITY},
           most[N_OTHERS] = {-INFINITY, -INFINITY, -INFINITY}, first[2][N_OTHERS] = {{100, 100, 100}, {0}},
           few = 0, share = 0, last = 0,
           rate = printed_rate * pick(f, card, "value", "figure", "bandwidth", NULL) /
                  pick(f, a100, "value", "figure", "bandwidth", NULL);
    for (int m = 0; m < 2 && !f->err.code; m++) {
        double flops =
                   1e9 * pick(f, figure_table(f, "data/models"), "GFLOP/query", "model", model[m][0], NULL),
               peak = product_share * pick(f, card, "value", "figure", "tensor_flops", NULL);
        struct load load[N_OTHERS + 1];
        for (int s = 0; s <= N_OTHERS; s++)
            load[s] = load_of(f, is_measured, model[m][0], strategy[s]);
        add_panel(f, model[m][1], LINES, LOG_Y, "requests a second", "time per output token (ms)");
        for (int k = 1; k <= MOST_RATES && !f->err.code; k++) {
            struct served x[N_OTHERS + 1];
            const struct arrivals a = {.rate = k * rate,
                                       .prompt = 250,
                                       .most_prompt = 4000,
                                       .answer = 200,
                                       .most_answer = 1000,
                                       .prefill_ms = 1e3 * flops / peak,
                                       .places = PLACES};
            for (int s = 0; s <= N_OTHERS; s++)
                x[s] = serve(&load[s], &a);
            if (!(x[N_OTHERS].wait_ms < patience_ms))
                break;
            for (int s = 0; s <= N_OTHERS; s++)
                add_point(f, strategy[s], figure_text(f, "%.3g / s", a.rate), a.rate, x[s].tpot_ms, NAN);
            for (int s = 0; s < N_OTHERS; s++) {
                double cut = 100 * (1 - x[N_OTHERS].tpot_ms / x[s].tpot_ms);
                least[s] = fmin(least[s], cut);
                most[s] = fmax(most[s], cut);
                double sooner = 100 * (1 - x[N_OTHERS].ttft_ms / x[s].ttft_ms);
                first[0][s] = fmin(first[0][s], sooner);
                first[1][s] = fmax(first[1][s], sooner);
            }
            few = k == 1 ? fmax(few, x[0].in_flight) : few;
            last = fmax(last, a.rate);
        }
        check_below(f, pat, "flash-attention");
        check_below(f, pat, "relay++");
        share = fmax(
            share,
            100 * run_column(f, is_measured, places_of_runs[0], model[m][0], strategy[0], "attention_s") /
                run_column(f, is_measured, places_of_runs[0], model[m][0], strategy[0], "whole_s"));
    }
    add_note(f,
             "With queueing: Poisson arrivals, prompts computed between steps, %d places; steps take what "
             "runs of up to %d requests at a "
             "time took. The highest rate is the last multiple of the lowest that PAT serves without a "
             "second's wait.",
             PLACES, places_of_runs[N_RUNS - 1]);
    static const char *const what[][2] = {{"time per output token", "tpot-reduction"},
                                          {"time to the first token", "ttft-reduction"}};
    for (int q = 0; q < 2; q++) {
        add_panel(f, figure_text(f, "cut of the %s", what[q][0]), BARS, 0, "", "%");
        for (int s = 0; s < N_OTHERS; s++)
            for (int k = 0; k < 2; k++) {
                const char *over = series_find(strategy[s])->label, *size = k ? "largest" : "least";
                double ours = q   ? first[k][s]
                              : k ? most[s]
                                  : least[s],
                       theirs = pick(f, paper, "value", "metric", what[q][1], "over", strategy[s], "how",
                                     k ? "up-to" : "from", NULL);
                add_point(f, "ours", figure_text(f, "%s over %s", size, over), NAN, ours, theirs);
                check_cut(f, figure_text(f, "%s cut of the %s over %s", size, what[q][0], over), ours,
                          theirs);
            }
    }
    double lowest = fmin(fmin(least[0], least[1]), least[2]), highest = fmax(fmax(most[0], most[1]), most[2]);
    check_headline(f, "pat-tpot-reduction-least", lowest);
    check_headline(f, "pat-tpot-reduction-most", highest);
    check_why(f, "pat-tpot-reduction-least",
              "At the lowest rate, %.3g requests a second, %.2g are in flight with FlashAttention, and "
              "attention is at most %.2g %% of a step "
              "of %d: that bounds the cut, %.2g %% over FlashAttention and %.2g %% over FlashInfer.",
              rate, few, share, places_of_runs[0], least[0], least[1]);
    check_why(
        f, "pat-tpot-reduction-most",
        "Over FlashAttention it is %.3g %% (paper %.3g %%), at up to %.3g requests a second; the paper's "
        "%.3g %% is over FlashInfer, whose "
        "scheduling on the host is not simulated: %.2g %% here.",
        most[0],
        pick(f, paper, "value", "metric", "tpot-reduction", "over", "flash-attention", "how", "up-to", NULL),
        last, claimed(f, "pat-tpot-reduction-most"), most[1]);
}

void fig_pat_fig10(struct figure *f)
{
    serving(f, false, "pat");
}

void fig_pat_fig10_measured(struct figure *f)
{
    serving(f, true, "pat:rule=artifact");
}

/* ---- Figure 11: ablations ------------------------------------------------------------------------------- */

/* Percent over the full method, on the mean of the batches or on the worst. */
static double excess(struct figure *f, const struct times *x, const char *ablation, const char *suffix,
                     bool worst)
{
    struct ratio r = times_ratio(x, figure_text(f, "%s%s", ablation, suffix), figure_text(f, "pat%s", suffix),
                                 "32/8", 1, ALL);
    return 100 * ((worst ? r.most : r.mean) - 1);
}

/* Percent over the full method; `suffix`: ":rule=artifact" or "". */
static void excess_panel(struct figure *f, const struct times *x, const char *name, const char *metric,
                         const char *suffix, int n)
{
    static const char *const ablation[] = {"pat-compute", "pat-naive", "pat-fixed", "pat-serial"};
    static const char *const headline[2][4] = {
        {"pat-compute-latency", "pat-naive-latency", "pat-fixed-latency", "pat-serial-latency"},
        {"pat-compute-io", "pat-naive-io"}};
    bool io = strcmp(metric, "memory-io-excess") == 0;
    const struct csv *paper = figure_table(f, "paper/pat-fig11");
    add_panel(f, name, BARS, 0, "", "more than PAT (%)");
    for (int i = 0; i < n; i++) {
        double ours = excess(f, x, ablation[i], suffix, false);
        add_point(f, ablation[i], "mean of 20 configurations", NAN, ours,
                  paper_number(f, paper, metric, ablation[i], "pat", "all"));
        check_headline(f, headline[io][i], ours);
    }
}

static void ablations(struct figure *f, const char *suffix)
{
    struct times us, bytes;
    const struct csv *t = figure_table(f, "data/pat_fig11");
    times_simulated(f, t, "pat-fig9", "latency_ms", &us);
    times_simulated(f, t, "pat-fig9", "dram_bytes", &bytes);
    excess_panel(f, &us, "attention latency", "attention-latency-excess", suffix, 4);
    excess_panel(f, &bytes, "global memory traffic", "memory-io-excess", suffix, 2);
    check_why(f, "pat-compute-io",
              "On these %d batches FastTree's cost model takes the same plans as the released test: %.2g %% "
              "more traffic.",
              ALL, excess(f, &bytes, "pat-compute", suffix, false));
}

void fig_pat_fig11(struct figure *f)
{
    ablations(f, "");
}

void fig_pat_fig11_artifact(struct figure *f)
{
    ablations(f, ":rule=artifact");
}

void fig_pat_fig11_measured(struct figure *f)
{
    struct times x;
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "time_us", &x);
    excess_panel(f, &x, "attention latency, our kernel", "attention-latency-excess", "", 4);
}

void fig_pat_fig11_artifact_measured(struct figure *f)
{
    struct times x;
    static const char *const released = ":rule=artifact";
    times_measured(f, "measured/h200_ablations", "pat-fig9", "time_us", &x);
    excess_panel(f, &x, "attention latency, our kernel", "attention-latency-excess", released, 4);
    struct times simulated;
    times_simulated(f, figure_table(f, "data/pat_fig11"), "pat-fig9", "latency_ms", &simulated);
    check_why(f, "pat-compute-latency",
              "On these %d batches FastTree's cost model takes the same plans as the released test, so that "
              "%.2g %% is what two runs "
              "differ by.",
              ALL, excess(f, &x, "pat-compute", released, false));
    check_why(f, "pat-fixed-latency",
              "One tile size costs our kernel %.2g %% on the worst of %d batches, and %.2g %% on the mean; "
              "the time model of an A100 says "
              "%.2g %%.",
              excess(f, &x, "pat-fixed", released, true), ALL, excess(f, &x, "pat-fixed", released, false),
              excess(f, &simulated, "pat-fixed", released, false));
    check_why(
        f, "pat-serial-latency",
        "All launches are in one CUDA graph here: %.2g %% on the worst of %d batches, %.2g %% on the mean.",
        excess(f, &x, "pat-serial", released, true), ALL, excess(f, &x, "pat-serial", released, false));
}

/* ---- Figure 12: kernels side by side or one after the other ---------------------------------------------- */

void fig_pat_fig12(struct figure *f)
{
    static const char *const series[] = {"pat", "pat-serial"};
    double end[2] = {0}, use[2];
    const struct csv *all = figure_table(f, "data/pat_fig11");
    add_panel(f, "configuration 6, heads 32/8", LINES, 0, "time since the first CTA (us)", "SMs with a CTA");
    for (int s = 0; s < 2; s++) {
        const struct csv *t = figure_table(f, s ? "data/pat_fig12_serial" : "data/pat_fig12");
        for (int64_t row = -1; (row = pick_row(f, t, row, NULL)) >= 0;) {
            double from = cell_number(f, t, row, "start_us"), sms = cell_number(f, t, row, "sms");
            end[s] = cell_number(f, t, row, "end_us");
            add_point(f, series[s], figure_text(f, "%s %.6g us", series[s], from), from, sms, NAN);
            add_point(f, series[s], figure_text(f, "%s until %.6g us", series[s], end[s]), end[s], sms, NAN);
        }
        use[s] = 100 * pick(f, all, "slot_use", "at", "pat-fig9 6", "strategy", series[s], NULL);
    }
    check_trend(f, end[0] < end[1], "concurrent launches end before serial ones: %.4g us, %.4g us", end[0],
                end[1]);
    check_trend(f, use[0] > use[1], "and fill more of the places for CTAs: %.4g %%, %.4g %%", use[0], use[1]);
}

/* ---- Figure 14: planning ----------------------------------------------------------------------------------- */

void fig_pat_fig14(struct figure *f)
{
    enum { LAYERS = 32 };
    struct times plan, attention;
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "plan_ms", &plan);
    times_measured(f, "measured/h200_bench_write", "pat-fig9", "time_us", &attention);
    int32_t p = times_series(&plan, "pat"), a = times_series(&attention, "pat"),
            h = times_heads(&plan, "32/8"), g = times_heads(&attention, "32/8");
    int hidden = 0, of = 0;
    add_panel(f, "heads 32/8", LINES, LOG_Y, "configuration of Figure 9", "time (us)");
    for (int32_t t = 0; t < ALL && p >= 0 && a >= 0 && h >= 0 && g >= 0; t++) {
        double planning = 1e3 * plan.us[p][h][t], layers = LAYERS * attention.us[a][g][t];
        if (isnan(planning) || isnan(layers))
            continue;
        add_point(f, "part-planning", figure_text(f, "configuration %d", (int)t + 1), t + 1, planning, NAN);
        add_point(f, "part-attention", figure_text(f, "configuration %d", (int)t + 1), t + 1, layers, NAN);
        hidden += planning < layers;
        of++;
    }
    check_trend(f, hidden == of, "planning once takes less than the attention of %d layers: %d of %d", LAYERS,
                hidden, of);
}
