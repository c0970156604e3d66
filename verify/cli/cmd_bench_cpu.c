/* cmd_bench_cpu.c - `treeattn bench-cpu`: how near the CPU kernel comes to the machine's matrix products. */
#include "verify/bench/bench_cpu.h"
#include "verify/cli/cmd.h"

#include <omp.h>
#include <stdlib.h>

static bool read_options(struct bench_cpu *a, struct cmd_output *out, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about =
            "Times the CPU kernel against the machine's matrix products: one head, fp32, every query sees "
            "every token, 1,024 of them 2,048. So attention is a product Q K^T, a softmax and a product P V, "
            "tile by tile, in tiles of the published kernels.",
        .examples = "bench-cpu\n"
                    "bench-cpu --threads 2",
        .details = "kernel_gflops counts 4 x queries x tokens x d operations over the kernel's whole time. "
                   "gemm_gflops counts the same over the time of the two products alone, in the same tiles, "
                   "taking turns with the kernel. A ratio of 1 would mean that softmax, masks, merging and "
                   "bookkeeping cost nothing."};
    const struct opt own[] = {
        HEADING("What is computed:"),
        I64("head-dim", "D", &a->d, 1, PROBLEM_MAX_D, "128", "elements of a head"),
        HEADING("How it is timed:"),
        I64("threads", "N", &a->threads, 1, 256, NULL,
            "threads of both the kernel and the products (default: all cores)"),
        I64("reps", "N", &a->reps, 1, BENCH_MAX_REPS, "21", "turns, of which the medians are printed"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, out);
    options_refuse(&o, "quiet", "every row is a result (expected none)");
    return options_parse(&o, argc, argv, e);
}

int cmd_bench_cpu(int argc, char **argv)
{
    struct err e = {0};
    struct bench_cpu a = {.threads = omp_get_max_threads()};
    struct cmd_output output = {.quiet = false};
    struct outfile out;
    if (!read_options(&a, &output, argc, argv, &e) || !outfile_open(&out, output.path, &e))
        return cmd_error(&e);
    char *notes = cmd_notes(false, argc, argv);
    struct printer t = cmd_table(&out, &output, bench_cpu_columns, bench_cpu_width);
    t.notes = notes;
    bool good = bench_cpu(&a, &t, &e);
    table_end(&t);
    free(notes);
    return outfile_close(&out, good, &e) && good ? EXIT_GOOD : cmd_error(&e);
}
