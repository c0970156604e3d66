/*
 * cmd_compare.c - `treeattn compare`: the strategies side by side on one tree, and on random ones.
 */
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/judge/side_by_side.h"

#include <stdlib.h>

struct compare_args {
    struct cmd_tree tree;
    struct problem_given problem;
    struct cmd_output out;
    int64_t trees;
    const char *strategies, *kernel;
    struct supervision watch;
};

static bool read_options(struct compare_args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Compares the strategies on one tree, a row each: verdict, worst error in units of its "
                 "bound, bytes of K and V read, their ratio to reading each query's context on its own "
                 "(flash-attention), groups, padded query rows, traffic of partial results; with --trees, "
                 "how many random trees it passed.",
        .examples = "compare --levels \"1,4,16 1024,256,32\"\n"
                    "compare --gen bushy:7 --strategy pat,fasttree --trees 100",
        .details = "The case string of a strategy's first failure goes to standard error, and into the "
                   "column failed_case of --csv and --json. treeattn verify --case runs it again.",
        .needs = "no tree given (expected --levels, --tree-file, --gen, --seed or --trace)"};
    tree_options(&o, &a->tree);
    problem_options(&o, &a->problem);
    problem_defaults(&o);
    const struct opt own[] = {
        HEADING("What is compared:"),
        TEXT("strategy", "LIST", &a->strategies, NULL, "only these: NAME[:K=V,..],.. (default: all)"),
        TEXT("kernel", "NAME", &a->kernel, kernels[0]->name, "what runs the plans"),
        I64("trees", "N", &a->trees, 0, 1000000, "0", "also judge every strategy on N random trees"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "every strategy has a row (expected none)");
    supervision_options(&o, &a->watch);
    return options_parse(&o, argc, argv, e);
}

/* The exit code. */
static int judge(struct compare_args *a, struct compare_run *run, struct outfile *out)
{
    struct err e = {0};
    int code = EXIT_BAD_INPUT;
    crash_tell();
    bool done = case_kernel(a->kernel, &run->kernel, &e) && kernel_ready(run->kernel, &e) &&
                tree_finish(&a->tree, true, &e) && case_strategies(a->strategies, &run->use, &run->n_use, &e);
    if (done) {
        struct case_spec c = {.src = a->tree.src, .spec = a->problem.spec};
        c.spec.seed = a->tree.seed;
        run->n_random = a->trees;
        done = compare_strategies(run, &c, out->f, a->out.style, &e);
        bool any = totals_cases(&run->totals) > run->totals.n[V_SKIP];
        code = run->totals.n[V_FAIL] ? EXIT_FAILED : any ? EXIT_GOOD : EXIT_MISSING;
    }
    if (!outfile_close(out, done, &e) || !done)
        code = cmd_error(&e);
    supervise_end(done, code);
    return code;
}

int cmd_compare(int argc, char **argv)
{
    struct err e = {0};
    struct compare_args a = {.problem.spec = case_default_spec()};
    struct compare_run run = {.n_use = 0};
    struct outfile out = {0};
    int code;
    if (!read_options(&a, argc, argv, &e) || !outfile_open(&out, a.out.path, &e))
        code = cmd_error(&e);
    else if (supervised(&a.watch, &out, &code))
        code = judge(&a, &run, &out);
    free(run.use);
    tree_source_clear(&a.tree.src);
    return code;
}
