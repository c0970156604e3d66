/*
 * cmd_bench_gpu.c - `treeattn bench-gpu`: options, the loop over trees, and what is printed.
 */
#include "verify/bench/live_peers.h"
#include "verify/cli/cmd.h"
#include "verify/io/environment.h"
#include "verify/io/origin.h"
#include "verify/io/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct args {
    struct cmd_tree tree;
    struct problem_given problem;
    struct cmd_output out;
    const char *sets, *strategies, *kernel, *peers, *columns;
    int64_t reps, steps;
    enum { FLUSH_WRITE, FLUSH_READ } flush;
    const char *peer[LIVE_MAX];
    int32_t n_peer, arch;
    int64_t seconds;
    bool distinct, fastest;
};

static const char *const flush_name[] = {[FLUSH_WRITE] = "write", [FLUSH_READ] = "read"};

static bool set_columns(void *self, const char *value, struct err *e)
{
    *(const char **)self = value;
    return table_knows(gpu_columns, value, e);
}

static bool add_peer(void *self, const char *value, struct err *e)
{
    struct args *a = self;
    if (a->n_peer == LIVE_MAX)
        return err_set(e, "--peer: at most %d", LIVE_MAX);
    a->peer[a->n_peer++] = value;
    return true;
}

static bool read_options(struct args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Times plans on a GPU. Before each replay of the plan's CUDA graph 256 MB are written and "
                 "read to empty the L2 cache; merges are inside of the timed span. Q, K, V and the page table are "
                 "drawn after all planning. What the last timed replay wrote is compared, every element, "
                 "with exact attention.",
        .examples =
            "bench-gpu --levels \"1,64 4000,32\" --heads 32/8\n"
            "bench-gpu --sets fasttree-fig9,pat-fig9,speculative --peers ../shared/peers --csv -o out.csv",
        .details =
            "time_us is the median, mad_us the median distance from it. plan_bytes, kv_bytes and unique_kv "
            "are counted by the ledger. ctas: of attention, Q tiles x KV heads, without merges. gbps is "
            "plan_bytes over time; percent_read is its share of the read bandwidth measured in the same run; "
            "percent_tensor is the share of an 8192^3 bf16 product's rate. floor_us is max(unique bytes / "
            "read bandwidth, operations / tensor peak). chain_us is the least chain that a kernel cannot do "
            "without, measured by a probe in the same run: launch, item, page, K and V, result, and where the plan "
            "has partial results a merge. time_over_limit is time over floor_us + chain_us. A time under floor_us + "
            "0.8 chain_us is INVALID.\n"
            "Plans are made for an H200, whatever the card. Storage is shared in all runs; a strategy that "
            "replicates KV is a SKIP where its copies would not fit.\n"
            "CSV begins with comment lines (#): command, device, driver, toolkit, commit, date, machine, measured "
            "limits. It ends with the summary that text prints below the table.",
        .needs = "no tree given (expected --levels, --tree-file, --gen, --seed, --trace or --sets)"};
    tree_options(&o, &a->tree);
    problem_options(&o, &a->problem);
    problem_defaults(&o);
    options_default(&o, "page", "64", NULL);
    options_refuse(&o, "fill", "data are always random here (expected none)");
    options_refuse(&o, "window", "its limits are of trees whose queries see all of their paths (expected none)");
    const struct opt own[] = {
        HEADING("What is timed:"),
        TEXT("sets", "LIST", &a->sets, NULL,
             "the papers' trees with their head counts: fasttree-fig9, pat-fig9, speculative; FILE.csv: those of a "
             "table (columns tree, heads); --heads replaces the head counts"),
        I64("steps", "N", &a->steps, 1, 1000, NULL,
            "with --trace: N steps spread over it (default: --step alone)"),
        TEXT("strategy", "LIST", &a->strategies, NULL,
             "only these: NAME[:K=V,..],..; K=V/W/.. stands for each of these values (default: all, and the "
             "rule=artifact of fasttree and pat)"),
        FLAG("distinct", &a->distinct,
             "leave out a strategy whose plan of a tree is that of one before it in the list"),
        FLAG("fastest", &a->fastest,
             "of a strategy listed with several options (treeattn:rank=1/2/3/4) time all plans of a tree, "
             "keep the fastest, and time that once more, so that its time is no lucky minimum"),
        TEXT("kernel", "NAME", &a->kernel, "cuda",
             "what runs the plans: cuda, cuda-wide, cuda-smem or cuda-scalar"),
        arch_option(&a->arch),
        HEADING("How it is timed:"),
        I64("reps", "N", &a->reps, 5, 1001, "21", "replays of each plan; fewer where one takes milliseconds"),
        WORD("flush", "HOW", &a->flush, flush_name, 2, "read",
             "how the L2 is emptied. read: the 256 MB that were written are read once more, so that the L2 "
             "writes them back before the timed span and not in it; write: as the recorded peers were timed"),
        CALL("columns", "LIST", set_columns, &a->columns, NULL, "print only these columns"),
        TEXT("peers", "DIR", &a->peers, NULL,
             "compare with timings recorded in DIR/*.csv, by time over floor"),
        CALL("peer", "CMD", add_peer, a, NULL,
             "a child that times itself (verify/child/README.md), beside ours on each tree; may be given several times"),
        I64("seconds-a-case", "S", &a->seconds, 1, 100000, "120", "of a child: one that takes longer for a tree is a HANG"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    return options_parse(&o, argc, argv, e);
}

/* ---- what to time ---------------------------------------------------------------------------------------- */

struct work {
    struct gpu_config *config;
    int32_t n;
    struct strategy_use *use;
    int32_t n_use;
    struct gpu_peers peers;
};

static bool one_tree(const struct args *a, const struct problem_spec *spec, struct work *w, struct err *e)
{
    const struct tree_source *src = &a->tree.src;
    int64_t n = 1, last = 0;
    if (src->kind == SRC_TRACE && a->steps > 0) {
        struct trace *tr = trace_open(src->text, &src->trace, e);
        if (!tr)
            return false;
        last = trace_steps(tr);
        n = min_i64(a->steps, last);
        trace_close(tr);
    }
    w->config = xcalloc((size_t)n, sizeof *w->config);
    for (w->n = 0; w->n < n; w->n++) {
        w->config[w->n] = (struct gpu_config){.set = "-", .src = tree_source_copy(src), .spec = *spec};
        if (last > 0)
            w->config[w->n].src.step = trace_spread(w->n, n, last);
    }
    return true;
}

/* All, and those plans of released planners that recorded kernels ran. */
static bool choose_strategies(const char *list, struct strategy_use **use, int32_t *n, struct err *e)
{
    static const char *const released[] = {"fasttree:rule=artifact", "pat:rule=artifact"};
    if (!case_strategies(list, use, n, e))
        return false;
    for (int i = 0; !list && i < 2; i++) {
        *use = xrealloc(*use, (size_t)(*n + 1), sizeof **use);
        CK(strategy_parse(released[i], &(*use)[(*n)++], NULL));
    }
    return true;
}

static bool find_work(struct args *a, struct work *w, struct err *e)
{
    const struct problem_spec *spec = &a->problem.spec;
    if (a->peers && a->fastest)
        return err_set(e, "--peers compares with the plan of one rule (expected no --fastest)");
    if (!problem_spec_check(spec, e) || !tree_takes_steps(&a->tree, a->steps, e) ||
        !tree_finish(&a->tree, !a->sets, e) || !choose_strategies(a->strategies, &w->use, &w->n_use, e) ||
        (a->peers && !gpu_peers_read(a->peers, &w->peers, e)))
        return false;
    if (a->sets && a->tree.src.kind != SRC_NONE)
        return err_set(e, "--sets brings its own trees (expected no other tree option)");
    return a->sets ? gpu_sets(a->sets, spec, a->problem.heads, &w->config, &w->n, e)
                   : one_tree(a, spec, w, e);
}

static void work_clear(struct work *w)
{
    for (int32_t i = 0; i < w->n; i++)
        tree_source_clear(&w->config[i].src);
    free(w->config);
    free(w->use);
    gpu_peers_free(&w->peers);
}

/* ---- where and when -------------------------------------------------------------------------------------- */

static void print_head(FILE *f, const char *lead, int argc, char **argv, const struct gpu_bench *b,
                       const struct cuda_caps *c)
{
    char *device = origin_device(c), *what = xasprintf("device %s", device), *notes = environment_notes(lead, what, argc, argv);
    fputs(notes, f);
    free(device);
    free(what);
    free(notes);
    fprintf(f,
            "%smeasured here: read %.0f GB/s, copy %.0f GB/s (read + written), bf16 8192^3 product %.0f "
            "TFLOP/s\n",
            lead, 1e-9 * b->limits.read_bps, 1e-9 * b->limits.copy_bps, 1e-12 * b->limits.tensor_flops);
}

/* ---- the run --------------------------------------------------------------------------------------------- */

/* All columns but the one that only a bench with children has. The caller frees. */
static char *columns_of_ours(void)
{
    char *all = xstrdup("");
    for (int32_t i = 0; gpu_columns[i]; i++) {
        char *more = strcmp(gpu_columns[i], "again_us") == 0 ? xstrdup(all)
                                                             : xasprintf("%s%s%s", all, i ? "," : "", gpu_columns[i]);
        free(all);
        all = more;
    }
    return all;
}

static bool bench_all(const struct args *a, struct gpu_bench *b, const struct work *w, FILE *f, int argc,
                      char **argv, bool *failed, struct err *e)
{
    struct cuda_caps c;
    if (!cuda_caps(&c, e) || !gpu_bench_open(b, e))
        return false;
    char *ours = columns_of_ours();
    struct printer t = {.f = f,
                        .style = a->out.style,
                        .column = gpu_columns,
                        .only = a->columns ? a->columns : b->live ? NULL : ours,
                        .aligned = true,
                        .width = gpu_width};
    const char *lead = a->out.style == STYLE_CSV ? "# " : "";
    FILE *human = a->out.style == STYLE_JSON ? stderr : f;
    struct gpu_row *row = xcalloc((size_t)w->n * (size_t)(w->n_use + live_peers_n(b->live)), sizeof *row);
    struct progress bar = progress_start("bench-gpu", w->n);
    bool good = true;
    int64_t n_rows = 0;
    print_head(human, lead, argc, argv, b, &c);
    for (int32_t i = 0; i < w->n && good; i++) {
        int32_t n = 0;
        good = gpu_bench_config(b, &w->config[i], w->use, w->n_use, &row[n_rows], &n, e);
        progress_clear(&bar);
        for (int32_t k = 0; k < n && good; k++, n_rows++) {
            *failed = *failed || row[n_rows].verdict == GPU_FAIL || row[n_rows].verdict == GPU_INVALID;
            if (!a->out.quiet || row[n_rows].verdict != GPU_PASS)
                gpu_row_print(&t, b, c.name, &row[n_rows]);
        }
        fflush(f); /* who ends the run has all trees before */
        progress_step(&bar);
    }
    progress_clear(&bar);
    if (good) {
        table_end(&t);
        gpu_summary(human, lead, b, row, n_rows, &w->peers);
    }
    free(row);
    free(ours);
    return good;
}

int cmd_bench_gpu(int argc, char **argv)
{
    struct args a = {.problem.spec.scattered = true};
    struct err e = {0};
    struct work w = {0};
    struct gpu_bench b = {0};
    struct outfile out = {0};
    bool failed = false;
    bool good = read_options(&a, argc, argv, &e);
    b.kernel = good ? kernel_find(a.kernel) : NULL;
    const struct cuda_options *opt = b.kernel ? cuda_options_of(b.kernel) : NULL;
    good = good &&
           (opt ||
            err_set(&e, "--kernel '%.40s' (expected cuda, cuda-wide, cuda-smem or cuda-scalar)", a.kernel)) &&
           find_work(&a, &w, &e) && kernel_ready(b.kernel, &e) &&
           (a.n_peer == 0 || (b.live = live_peers_new(a.peer, a.n_peer, (double)a.seconds, &e))) &&
           outfile_open(&out, a.out.path, &e);
    if (good) {
        b.opt = *opt;
        b.opt.arch = a.arch;
        b.reps = a.reps;
        b.flush_reads = a.flush == FLUSH_READ;
        b.distinct = a.distinct;
        b.fastest = a.fastest;
        b.seed = a.tree.seed;
        good = bench_all(&a, &b, &w, out.f, argc, argv, &failed, &e);
        good = outfile_close(&out, good, &e) && good;
        gpu_bench_close(&b);
    }
    live_peers_free(b.live);
    work_clear(&w);
    tree_source_clear(&a.tree.src);
    return !good ? cmd_error(&e) : failed ? EXIT_FAILED : EXIT_GOOD;
}
