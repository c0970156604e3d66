/*
 * cmd_bench_gpu.c - `treeattn bench gpu`: options, the loop over trees, and what is printed.
 */
#include "verify/bench/bench_gpu.h"
#include "verify/cli/cmd.h"
#include "verify/io/origin.h"
#include "verify/io/progress.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_SETS = 0x400,
    KEY_CONFIG,
    KEY_STRATEGY,
    KEY_KERNEL,
    KEY_ARCH,
    KEY_REPS,
    KEY_PEERS,
    KEY_STEPS,
    KEY_FLUSH,
    KEY_DISTINCT,
    KEY_FASTEST,
    KEY_COLUMNS,
    KEY_FILL
};

struct args {
    struct tree_source_cli tree;
    struct cmd_problem problem;
    struct cmd_output out;
    const char *sets, *strategies, *kernel, *peers, *columns;
    int64_t config, reps, steps;
    int32_t arch;
    bool flush_reads, distinct, fastest;
    struct err err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    bool good = true;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->tree;
        state->child_inputs[1] = &a->problem;
        state->child_inputs[2] = &a->out;
        break;
    case KEY_SETS:
        a->sets = arg;
        break;
    case KEY_CONFIG:
        good = text_i64(arg, "--config", 1, 1000, &a->config, &a->err);
        break;
    case KEY_STRATEGY:
        a->strategies = arg;
        break;
    case KEY_KERNEL:
        a->kernel = arg;
        break;
    case KEY_ARCH:
        good = cmd_arch(arg, &a->err);
        a->arch = strcmp(arg, "80") == 0 ? 80 : 0;
        break;
    case KEY_REPS:
        good = text_i64(arg, "--reps", 5, 1001, &a->reps, &a->err);
        break;
    case KEY_PEERS:
        a->peers = arg;
        break;
    case KEY_STEPS:
        good = text_i64(arg, "--steps", 1, 1000, &a->steps, &a->err);
        break;
    case KEY_COLUMNS:
        a->columns = arg;
        good = table_knows(gpu_columns, arg, &a->err);
        break;
    case KEY_DISTINCT:
        a->distinct = true;
        break;
    case KEY_FASTEST:
        a->fastest = true;
        break;
    case KEY_FLUSH:
        a->flush_reads = strcmp(arg, "read") == 0;
        good = a->flush_reads || strcmp(arg, "write") == 0 ||
               err_set(&a->err, "--flush '%s' (expected write or read)", arg);
        break;
    case KEY_FILL:
        good = err_set(&a->err, "--fill: data are always random here (expected no --fill)");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is timed:", .group = 3},
            {"sets", KEY_SETS, "LIST", 0,
             "the papers' trees with their head counts: fasttree-fig9, pat-fig9, speculative; --heads "
             "replaces the head "
             "counts",
             3},
            {"config", KEY_CONFIG, "N", 0, "only tree N of the sets", 3},
            {"steps", KEY_STEPS, "N", 0, "with --trace: N steps spread over it (default: --step alone)", 3},
            {"strategy", KEY_STRATEGY, "LIST", 0,
             "only these: NAME[:K=V,..],.., K=V/W/..: with each of these values (default: all, and the "
             "rule=artifact of fasttree and pat)",
             3},
            {"distinct", KEY_DISTINCT, NULL, 0,
             "leave out a strategy whose plan of a tree is that of one before it in the list", 3},
            {"fastest", KEY_FASTEST, NULL, 0,
             "of a strategy that the list has with several options (treeattn:rank=1/2/3/4) only the fastest "
             "plan "
             "of each tree is a row; that it is timed for once more, as the least of several times is too "
             "little",
             3},
            {"kernel", KEY_KERNEL, "NAME", 0, "cuda (default), cuda-wide, cuda-smem or cuda-scalar", 3},
            {"arch", KEY_ARCH, "A", 0, "auto, or 80 for the Ampere path on a newer card", 3},
            {"reps", KEY_REPS, "N", 0, "replays of each plan, fewer where one takes milliseconds (21)", 3},
            {"flush", KEY_FLUSH, "HOW", 0,
             "write (default, as the recorded peers were timed), or read: the 256 MB are read once more, so "
             "that what the L2 has of them is written back before the timed span and not in it",
             3},
            {"columns", KEY_COLUMNS, "LIST", 0, "print only these columns", 3},
            {"peers", KEY_PEERS, "DIR", 0, "compare with timings recorded in DIR/*.csv, by time over floor",
             3},
            CMD_REFUSED("fill", KEY_FILL, "KIND"),
            {0},
        },
    .parser = parse,
    .doc =
        "Time plans on a GPU. Before each replay of the plan's CUDA graph 256 MB are written to empty the L2 "
        "cache; "
        "merges are inside of the timed span. Q, K, V and the page table are drawn after all "
        "planning, and "
        "what the last timed replay wrote is compared, every element, with exact attention."
        "\vtime_us is the median, mad_us the median distance from it. plan_bytes, kv_bytes and unique_kv are "
        "counted, "
        "by the ledger; ctas: of attention, Q tiles x KV heads, merges not among them; gbps is plan_bytes "
        "over time, percent_read its share of the read bandwidth measured "
        "in the "
        "same run, percent_tensor that of an 8192^3 bf16 product. floor_us is max(unique bytes / read "
        "bandwidth, "
        "operations / tensor peak); a time under it is INVALID. Plans are made for an H200, whatever the "
        "card. "
        "Storage is shared in all runs; a strategy "
        "that "
        "replicates KV is a SKIP where its copies would not fit.\n"
        "CSV begins with comment lines (#): command, device, driver, toolkit, commit, date, measured limits; "
        "it ends "
        "with the summary that text prints below the table.\n"
        "  treeattn bench gpu --levels \"1,64 4000,32\" --heads 32/8\n"
        "  treeattn bench gpu --sets fasttree-fig9,pat-fig9,speculative --peers ../shared/peers --csv -o "
        "out.csv",
    .children = (const struct argp_child[]){{&tree_source_argp, 0, NULL, 0},
                                            {&cmd_problem_argp, 0, NULL, 0},
                                            {&cmd_output_argp, 0, NULL, 0},
                                            {0}},
};

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
    struct problem_spec spec = {.heads = {32, 8, 128, DT_F16}, .page_size = 64, .scattered = true};
    problem_given_apply(&a->problem.given, &spec);
    if (a->peers && a->fastest)
        return err_set(e, "--peers compares with the plan of one rule (expected no --fastest)");
    if (!problem_spec_check(&spec, e) || !tree_source_takes_steps(&a->tree, a->steps, e) ||
        !tree_source_finish(&a->tree, !a->sets, e) || !choose_strategies(a->strategies, &w->use, &w->n_use, e) ||
        (a->peers && !gpu_peers_read(a->peers, &w->peers, e)))
        return false;
    if (a->sets && a->tree.src.kind != SRC_NONE)
        return err_set(e, "--sets brings its own trees (expected no other tree option)");
    if (a->config && !a->sets)
        return err_set(e, "--config belongs to --sets (none was given)");
    return a->sets ? gpu_sets(a->sets, &spec, a->problem.given.heads, a->config, &w->config, &w->n, e)
                   : one_tree(a, &spec, w, e);
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
    char date[ORIGIN_DATE], *command = origin_command("bench gpu", argc, argv), *device = origin_device(c);
    origin_date(date);
    fprintf(f, "%s%s\n%sdevice %s, commit %s, %s\n", lead, command, lead, device, origin_commit(), date);
    free(command);
    free(device);
    fprintf(f,
            "%smeasured here: read %.0f GB/s, copy %.0f GB/s (read + written), bf16 8192^3 product %.0f "
            "TFLOP/s\n",
            lead, 1e-9 * b->limits.read_bps, 1e-9 * b->limits.copy_bps, 1e-12 * b->limits.tensor_flops);
}

/* ---- the run --------------------------------------------------------------------------------------------- */

static bool bench_all(const struct args *a, struct gpu_bench *b, const struct work *w, FILE *f, int argc,
                      char **argv, bool *failed, struct err *e)
{
    struct cuda_caps c;
    if (!cuda_caps(&c, e) || !gpu_bench_open(b, e))
        return false;
    struct printer t = {.f = f,
                        .style = a->out.style,
                        .column = gpu_columns,
                        .only = a->columns,
                        .aligned = true,
                        .width = gpu_width};
    const char *lead = a->out.style == STYLE_CSV ? "# " : "";
    FILE *human = a->out.style == STYLE_JSON ? stderr : f;
    struct gpu_row *row = xcalloc((size_t)w->n * (size_t)w->n_use, sizeof *row);
    struct progress bar = progress_start("bench gpu", w->n);
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
        progress_step(&bar);
    }
    progress_clear(&bar);
    if (good) {
        table_end(&t);
        gpu_summary(human, lead, b, row, n_rows, &w->peers);
    }
    free(row);
    return good;
}

int bench_gpu_word(int argc, char **argv)
{
    int i = cmd_word(&argp, argc, argv);
    return i > 0 && strcmp(argv[i], "gpu") == 0 ? i : 0;
}

/* argv[0] is "bench gpu". */
int cmd_bench_gpu(int argc, char **argv)
{
    struct args a = {.kernel = "cuda", .reps = 21};
    struct err *e = &a.err;
    struct work w = {0};
    struct gpu_bench b = {0};
    struct outfile out = {0};
    bool failed = false, good;
    a.tree.err = a.problem.err = e;
    good = cmd_parse(&argp, argc, argv, &a, e);
    b.kernel = good ? kernel_find(a.kernel) : NULL;
    const struct cuda_options *opt = b.kernel ? cuda_options_of(b.kernel) : NULL;
    if (opt)
        b.opt = *opt;
    good = good &&
           (opt || err_set(e, "--kernel '%.40s' (expected cuda, cuda-wide, cuda-smem or cuda-scalar)", a.kernel)) &&
           find_work(&a, &w, e) && kernel_ready(b.kernel, e) && outfile_open(&out, a.out.path, e);
    if (good) {
        b.opt.arch = a.arch;
        b.reps = a.reps;
        b.flush_reads = a.flush_reads;
        b.distinct = a.distinct;
        b.fastest = a.fastest;
        b.seed = a.tree.seed;
        good = bench_all(&a, &b, &w, out.f, argc, argv, &failed, e);
        good = outfile_close(&out, good, e) && good;
        gpu_bench_close(&b);
    }
    work_clear(&w);
    tree_source_clear(&a.tree.src);
    return !good ? cmd_error(e) : failed ? EXIT_FAILED : EXIT_GOOD;
}
