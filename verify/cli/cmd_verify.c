/* cmd_verify.c - `treeattn verify`: every strategy and kernel against exact attention. */
#include "kernels/cuda/host/cuda.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/judge/verify_run.h"

#include <stdlib.h>

struct verify_args {
    struct cmd_tree tree;
    struct cmd_output out;
    const char *strategies, *kernel;
    int32_t arch;
    struct verify_job job;
};

static bool read_options(struct verify_args *a, int argc, char **argv, struct err *e)
{
    struct verify_job *j = &a->job;
    struct options o = {
        .about =
            "Plans every tree with every strategy, checks each plan's coverage, runs it, and compares O and "
            "LSE with exact attention. Errors are in units of a derived bound: over 0.5 is MARGINAL, over 1 "
            "is FAIL. The exit code is 1 if anything failed, and 3 if every case was skipped.",
        .examples = "verify\n"
                    "verify --trees 20 --seed 7 --strategy pat -q\n"
                    "verify --trace embedded:reasoning --steps 10 --kernel cpu\n"
                    "verify --case 'tree=gen:bushy:7;strategy=pat'",
        .details = "A result line is tab-separated: strategy/kernel/dtype/tile, verdict, numbers, a reason, "
                   "and the case string that `treeattn verify --case` takes.\n"
                   "A failure is reduced to a smallest case that fails likewise, for at most ten seconds; "
                   "the command line of that case stands below it. Up to three strategies get one. With more "
                   "than 20 cases these lines are printed again at the end.\n"
                   "Random trees and the cases of gpu-check draw their heads and storage; a tree or trace "
                   "that is given has the defaults."};
    tree_options(&o, &a->tree);
    problem_options(&o, &j->given);
    options_default(&o, "heads", NULL, "query heads / KV heads (default of a tree given: 4/2)");
    options_default(&o, "head-dim", NULL,
                    "elements of a head (default of a tree given: 64, and 128 from 32 query heads on)");
    options_default(&o, "dtype", NULL, "of Q, K, V and O (default of a tree given: f16):");
    options_default(&o, "page", NULL, "tokens of a page of the KV pool (default of a tree given: 16)");
    options_default(&o, "fill", NULL, "values of Q, K and V (default of a tree given: random):");
    const struct opt own[] = {
        HEADING("What is judged:"),
        I64("trees", "N", &j->trees, 1, 1000000, NULL,
            "N random trees from --seed, then the list of sharp cases (default 100, where no tree is given)"),
        I64("steps", "N", &j->steps, 1, 1000000, NULL,
            "with --trace: N steps spread over it (default: --step alone)"),
        TEXT("case", "STRING", &j->text, NULL, "one case, as a result line prints it"),
        TEXT("cases", "FILE", &j->list, NULL, "such cases, one a line; # begins a comment"),
        FLAG("gpu-cases", &j->gpu_cases,
             "the design of make gpu-check from --seed: types x heads x head sizes x pages x trees, edges, "
             "traces (the default for --kernel of a GPU)"),
        I64("sample", "N", &j->sample, 1, 1000000, NULL, "only every N-th tree of that design"),
        TEXT("strategy", "LIST", &a->strategies, NULL,
             "only these: NAME[:K=V,..],.. (default: the case's, or all); like --kernel, --heads and --dtype "
             "it replaces what a case names"),
        TEXT("kernel", "NAME", &a->kernel, NULL, "only this one (default: the case's, or all)"),
        arch_option(&a->arch),
        FLAG("properties", &j->properties,
             "also check laws of attention that need no oracle: the order of keys is irrelevant, V = 1 gives "
             "O = 1, and six more. A law that is broken is a row of its own. Takes 20 to 40 times as long"),
        FLAG("no-sharp", &j->no_sharp, "random trees without the sharp list"),
        FLAG("no-shrink", &j->no_shrink, "print failures as they are, without reducing them"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_default(&o, "quiet", NULL, "only FAIL and MARGINAL, and the totals");
    return options_parse(&o, argc, argv, e);
}

/* Options that contradict each other, and what they leave open. */
static bool settle(struct verify_args *a, struct err *e)
{
    struct verify_job *j = &a->job;
    bool given = j->text || j->list || a->tree.src.kind != SRC_NONE, said = j->trees || given;
    if ((j->gpu_cases || j->sample) && said)
        return err_set(e, "--gpu-cases and --sample bring their own trees (expected no other tree option)");
    if (j->trees && given)
        return err_set(e, "--trees draws random ones (expected no other tree option)");
    if ((j->text || j->list) && (a->tree.src.kind != SRC_NONE || (j->text && j->list)))
        return err_set(e, "--case and --cases bring their own trees (expected no other tree option)");
    if (!tree_takes_steps(&a->tree, j->steps, e) || !tree_finish(&a->tree, false, e))
        return false;
    if (a->kernel && (!case_kernel(a->kernel, &j->kernel, e) || !kernel_ready(j->kernel, e)))
        return false;
    j->gpu_cases = j->gpu_cases || j->sample || (j->kernel && j->kernel->ready && !said);
    j->sample = max_i64(j->sample, 1);
    j->trees = j->trees ? j->trees : 100;
    j->chosen = a->strategies != NULL;
    j->src = a->tree.src;
    j->seed = a->tree.seed;
    j->style = a->out.style;
    j->quiet = a->out.quiet;
    return case_strategies(a->strategies, &j->use, &j->n_use, e);
}

int cmd_verify(int argc, char **argv)
{
    struct err e = {0};
    struct verify_args a = {.arch = 0};
    struct outfile out = {0};
    int code;
    if (!read_options(&a, argc, argv, &e) || !settle(&a, &e) || !outfile_open(&out, a.out.path, &e)) {
        code = cmd_error(&e);
    } else {
        crash_tell();
        cuda_force_arch(a.arch);
        bool done = verify_run(&a.job, out.f, &code, &e), failed = code == EXIT_FAILED;
        if (!outfile_close(&out, done || failed, &e) || !done)
            code = cmd_error(&e);
        code = failed && !done ? EXIT_FAILED : code; /* whatever ended the run: that is known */
    }
    free(a.job.use);
    tree_source_clear(&a.tree.src);
    return code;
}
