/* cmd_bench_plan.c - `treeattn bench-plan`: how long planning takes, and how it grows. */
#include "verify/bench/bench_cpu.h"
#include "verify/cli/cmd.h"
#include "verify/io/text.h"

#include <stdlib.h>

struct bench_plan_args {
    struct cmd_output out;
    struct heads heads; /* their counts alone */
    const char *strategies;
    int64_t reps;
};

static bool read_options(struct bench_plan_args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Times the planning of every strategy on one core, by the thread's own clock.",
        .examples = "bench-plan --reps 5 --strategy pat,treeattn",
        .details =
            "Planned are: a decode step of the embedded reasoning trace (the mean of 20); the level tree "
            "1,4,16,64,256,1024; and, of 10,000 and 100,000 nodes, random trees, shallow trees and single "
            "chains. In random trees each node hangs on any earlier one, in order of creation. Shallow trees "
            "are the same in ten levels, numbered level by level as tree files are.\n"
            "Strategies and sizes take turns: ten plans of the small tree and one of the large. Printed are "
            "the shortest times of --reps turns, and as growth the median of the turns' ratios (10 is "
            "linear). Strategies with dense masks or an exact search are timed on the first two trees only."};
    const struct opt own[] = {
        HEADING("What is timed:"),
        heads_option(&a->heads, "32/8", NULL),
        TEXT("strategy", "LIST", &a->strategies, NULL, "only these: NAME[:K=V,..],.. (default: all)"),
        I64("reps", "N", &a->reps, 1, BENCH_MAX_REPS, "21", "turns"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "every row is a result (expected none)");
    return options_parse(&o, argc, argv, e);
}

int cmd_bench_plan(int argc, char **argv)
{
    struct err e = {0};
    struct bench_plan_args a = {.reps = 0};
    struct strategy_use *use = NULL;
    int32_t n_use;
    struct outfile out;
    if (!read_options(&a, argc, argv, &e) || !case_strategies(a.strategies, &use, &n_use, &e) ||
        !outfile_open(&out, a.out.path, &e)) {
        free(use);
        return cmd_error(&e);
    }
    char *notes = cmd_notes(false, argc, argv);
    struct printer t = cmd_table(&out, &a.out, bench_plan_columns, bench_plan_width);
    t.notes = notes;
    bool good = bench_plan(&t, use, n_use, a.heads.h_q, a.heads.h_kv, a.reps, &e);
    table_end(&t);
    free(notes);
    free(use);
    return outfile_close(&out, good, &e) && good ? EXIT_GOOD : cmd_error(&e);
}
