/*
 * cmd_sim.c - `treeattn sim`: what strategies move over a whole trace, or on one tree, by three ways of
 * counting, and how long that takes on a machine.
 */
#include "sim/plan_file.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/io/origin.h"
#include "verify/model/sim.h"
#include "verify/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 1 << 16, MAX_MACHINES = 64 };

struct sim_args {
    struct cmd_tree tree;
    struct problem_given problem;
    struct cmd_output out;
    const char *sets;
    struct sim_swept swept[SIM_MAX_SWEPT];
    int32_t n_swept;
    char *strategies; /* a comma-separated list; NULL: all */
    const char *plan;
    struct plan_file *plan_file; /* of plan */
    struct sim_machine machine[MAX_MACHINES];
    int32_t n_machines;                      /* 0: no times */
    bool layers;                             /* --layers was given */
    const char *coefficients, *model, *part; /* of `treeattn fit` */
};

/* ---- options ------------------------------------------------------------------------------------------ */

/* One list out of several --strategy. */
static bool add_strategies(void *self, const char *value, struct err *e)
{
    (void)e;
    struct sim_args *a = self;
    char *longer = a->strategies ? xasprintf("%s,%s", a->strategies, value) : xstrdup(value);
    free(a->strategies);
    a->strategies = longer;
    return true;
}

static bool add_machine(struct sim_args *a, const char *text, struct err *e)
{
    struct sim_machine *m = &a->machine[a->n_machines];
    if (a->n_machines == MAX_MACHINES)
        return err_set(e, "--machine '%.60s' is one too many (expected at most %d)", text, MAX_MACHINES);
    a->n_machines++;
    m->text = text;
    return machine_parse(text, &m->m, e);
}

static bool add_machines(void *self, const char *value, struct err *e)
{
    if (strcmp(value, "all") != 0)
        return add_machine(self, value, e);
    bool good = true;
    for (int32_t i = 0; i < n_machines && good; i++)
        good = add_machine(self, machines[i].name, e);
    return good;
}

static bool set_any_llm(void *self, const char *value, struct err *e)
{
    return (*(const struct model **)self = model_find(value, e)) != NULL;
}

static bool add_swept(void *self, const char *value, struct err *e)
{
    struct sim_args *a = self;
    if (a->n_swept == SIM_MAX_SWEPT)
        return err_set(e, "--sweep '%.60s' is one too many (expected at most %d)", value, SIM_MAX_SWEPT);
    return sim_swept_parse(value, &a->swept[a->n_swept++], e);
}

static const char column_help[] =
    "Columns of --csv and --json are sums over all steps and, but for groups and launches, layers:\n"
    "*_IO_bytes: named as in DeFT's recorded runs\n"
    "mac_useful, mac_masked, mac_padded: multiply-adds of visible pairs, of pairs that a mask hides, of tile "
    "padding\n"
    "pad_rows, pad_tokens: rows that fill up Q tiles, and tokens that fill up the KV tiles of each Q tile, "
    "in all KV heads\n"
    "coefficients: those that the times rest on: a file, or built-in; built_in: of them, those that the file "
    "does not name\n"
    "latency_ms: overhead_ms + launch_ms + attention_ms + merge_ms; fitted_ms: what --time-model predicts\n"
    "overhead_ms: of every call, the coefficient base: 2.4 us unless --coefficients say otherwise\n"
    "ctas: CTAs of attention, of each stage where it is not fused, and of merges\n"
    "dram_bytes: those that miss the L2\n"
    "Shares are of the time of attention and merges, without launches:\n"
    "bandwidth_use, l2_use, tensor_use: of the machine's rates, in use\n"
    "sm_use, slot_use: of SMs, and of places for CTAs on them, with a CTA\n"
    "low_share: of the time of attention alone, with under 5 % of the tensor peak in use\n"
    "why: why a strategy does not apply\n"
    "Under mpirun its processes share the trees (verify/sweep/README.md).";

static bool read_options(struct sim_args *a, struct sim_run *run, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Simulates strategies: plans every step of a trace, or one tree, and adds up the bytes that "
                 "the plans move in all layers, one row per tree and strategy. With --machine, plans are "
                 "made for that GPU and timed on its model. Nothing is run.",
        .examples = "sim --levels \"1,4,16 1024,256,32\"\n"
                    "sim --levels \"1,16 8000,200\" --llm gemma-3-27b --strategy treeattn --machine h200\n"
                    "sim --trace embedded:reasoning --tree all\n"
                    "sim --plan mine.json --strategy pat,flash-decoding --machine h200\n"
                    "sim --trace embedded:reasoning --prompt 4000 --max-seq 4400 --machine h200",
        .details = column_help,
        .needs = "no tree given (expected --levels, --tree-file, --gen, --seed, --trace, --sets or --plan)"};
    tree_options(&o, &a->tree);
    problem_options(&o, &a->problem);
    problem_defaults(&o);
    options_refuse(&o, "page fill",
                   "counts depend on no pages or values (expected neither --page nor --fill)");
    const struct opt own[] = {
        HEADING("What is simulated:"),
        TEXT("sets", "LIST", &a->sets, NULL,
             "the papers' trees with their head counts: fasttree-fig9, pat-fig9, speculative; --heads "
             "replaces the head counts"),
        CALL("sweep", "NAME=V,..", add_swept, a, NULL,
             "a tree for each value, put where --levels say {NAME}; NAME heads: head counts; NAME window: 0 is "
             "none; several: every combination"),
        CALL("strategy", "LIST", add_strategies, a, NULL,
             "NAME[:K=V,..],.. or all (default: all); may be given several times"),
        TEXT("plan", "FILE", &a->plan, NULL,
             "beside these, on its tree, a plan made elsewhere, as treeattn plan --json writes it"),
        WORD("count", "MODE", &run->mode, count_mode_name, N_COUNT_MODES, "true",
             "true: what a kernel must move; paper: as DeFT's tables count; deft: as DeFT's release counts"),
        I64("layers", "L", &run->layers, 1, MAX_LAYERS, "32", "layers of the model, all alike", .given = &a->layers),
        CALL("llm", "NAME", set_any_llm, &run->llm, NULL,
             "a model's heads and all of its layers, those with a sliding window and those without (see treeattn list "
             "models)"),
        HEADING("How it is timed:"),
        CALL("machine", "NAME", add_machines, a, NULL,
             "times on this GPU, simulated; all: on every one; h200:bandwidth=4e12 changes a figure, and "
             "rates are of the whole device (see treeattn list figures); may be given several times"),
        TEXT("coefficients", "FILE", &a->coefficients, NULL,
             "of the time model, as treeattn fit saves them (our kernels on an H200: "
             "paper-figs/measured/h200_clock.csv)"),
        TEXT("time-model", "NAME", &a->model, NULL,
             "clock (default): the time model itself; linear or fasttree: predict a second time, beside it"),
        TEXT("part", "NAME", &a->part, NULL,
             "which part's coefficients, where FILE has several; each: of every strategy its own, as fit "
             "--apart saves them"),
        TEXT("timeline", "FILE", &run->timeline, NULL,
             "the CTAs of one plan into FILE, as CSV; -: instead of the table"),
        TEXT("timeline-svg", "FILE", &run->timeline_svg, NULL,
             "the same as a picture for any browser: which CTA runs on which SM, and what of the machine is "
             "in use"),
        TEXT("spans", "FILE", &run->spans, NULL,
             "what the machine does between two events of the timeline, as CSV"),
        TEXT("bytes-svg", "FILE", &run->bytes_svg, NULL,
             "a picture of the bytes: a bar for each strategy, and the floor that no plan is below; all "
             "trees together"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_default(&o, "quiet", NULL, "of several trees only their mean");
    return options_parse(&o, argc, argv, e);
}

/* ---- the command -------------------------------------------------------------------------------------- */

/* The plan is one strategy more, in front of the others, and its tree the only one. */
static bool read_plan(struct sim_args *a, struct err *e)
{
    if (!a->plan)
        return true;
    if (a->sets || a->n_swept > 0 || a->tree.src.kind != SRC_NONE || a->problem.window)
        return err_set(e, "--plan brings its tree (expected no other, and no --window)");
    if (!(a->plan_file = plan_file_read(a->plan, e)))
        return false;
    a->tree.src = tree_source_from_tree(a->plan_file->tree);
    return true;
}

static void add_plan(const struct sim_args *a, struct sim_run *run)
{
    if (!a->plan_file)
        return;
    run->use = xrealloc(run->use, (size_t)run->n_use + 1, sizeof *run->use);
    memmove(run->use + 1, run->use, (size_t)run->n_use * sizeof *run->use);
    run->use[0] = strategy_default(&a->plan_file->strategy);
    run->n_use++;
}

static bool settle(struct sim_args *a, struct sim_run *run, struct err *e)
{
    if (!read_plan(a, e))
        return false;
    const char *const out[] = {a->out.path, run->timeline, run->timeline_svg, run->spans, run->bytes_svg};
    if (run->llm && (a->layers || a->problem.heads || a->problem.d || a->problem.window || a->sets || a->n_swept > 0))
        return err_set(e, "--llm has heads, layers and windows of its own (expected no --heads, --head-dim, --layers, "
                          "--window, --sweep or --sets)");
    run->spec = a->problem.spec;
    if (run->llm) {
        enum dtype kv = run->spec.heads.kv_fp8;
        run->spec.heads = model_heads(run->llm, run->spec.heads.dtype);
        run->spec.heads.kv_fp8 = kv;
        run->layers = run->llm->layers;
    }
    run->timed = a->n_machines > 0;
    run->n_machines = a->n_machines;
    if (!run->timed) {
        a->machine[0].m = *machine_default();
        run->n_machines = 1;
    }
    if (a->sets && (a->tree.src.kind != SRC_NONE || a->n_swept > 0))
        return err_set(e, "--sets and another tree (expected one of them)");
    if (!a->coefficients && (a->model || a->part))
        return err_set(e, "--time-model and --part belong to --coefficients (none was given)");
    if (a->coefficients && !run->timed)
        return err_set(e, "--coefficients are of a machine (expected --machine)");
    if (a->model && strcmp(a->model, "clock") != 0 && !(run->model = fit_model_find(a->model, e)))
        return false;
    if (!outfiles_check(out, 5, e) || !problem_spec_check(&run->spec, e) || !tree_finish(&a->tree, !a->sets, e) ||
        !case_strategies(a->strategies, &run->use, &run->n_use, e))
        return false;
    add_plan(a, run);
    return sim_read_coefficients(run, a->coefficients, a->part, e);
}

static bool open_sources(const struct sim_args *a, struct sim_run *run, struct err *e)
{
    return a->sets          ? sim_open_sets(run, a->sets, a->problem.heads, e)
           : a->n_swept > 0 ? sim_open_swept(run, a->swept, a->n_swept, e)
                            : sim_open_trees(run, a->tree.last, e);
}

static bool print_result(const struct sim_args *a, const struct sim_run *run, struct err *e)
{
    struct outfile out;
    if (sim_files_printed(run))
        return sim_files_write(run, e);
    if (!outfile_open(&out, a->out.path, e))
        return false;
    bool good = sim_files_write(run, e);
    if (good && a->out.style == STYLE_TEXT)
        sim_print_text(run, out.f, a->out.quiet);
    else if (good)
        sim_print_rows(run, out.f, a->out.style);
    return outfile_close(&out, good, e) && good;
}

int cmd_sim(int argc, char **argv)
{
    struct err e = {0};
    struct sim_args a = {.tree.many = true, .problem.spec = case_default_spec()};
    struct sim_run run = {
        .src = &a.tree.src, .machine = a.machine, .command = origin_command(argv[0], argc, argv)};
    crash_tell();
    bool good = read_options(&a, &run, argc, argv, &e) && settle(&a, &run, &e) &&
                open_sources(&a, &run, &e) && sim_files_check(&run, &e) && sim_simulate(&run, &e) &&
                (sweep_role() == SWEEP_WORKER || print_result(&a, &run, &e));
    sim_clear(&run);
    for (int32_t i = 0; i < a.n_swept; i++)
        sim_swept_clear(&a.swept[i]);
    free(a.strategies);
    plan_file_free(a.plan_file);
    tree_source_clear(&a.tree.src);
    return good ? EXIT_GOOD : cmd_error(&e);
}
