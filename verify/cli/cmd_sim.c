/*
 * cmd_sim.c - `treeattn sim`: what strategies move over a whole trace, or on one tree, by three ways of
 * counting, and how long that takes on a machine.
 */
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/io/origin.h"
#include "verify/model/sim.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_STRATEGY = 0xA00,
    KEY_COUNT,
    KEY_LAYERS,
    KEY_MACHINE,
    KEY_TIMELINE,
    KEY_SPANS,
    KEY_COEFFICIENTS,
    KEY_MODEL,
    KEY_PART,
    KEY_SETS,
    KEY_SWEEP,
    KEY_STORAGE
};
static const char each_part[] = "each"; /* --part */
enum { LLAMA3_LAYERS = 32, MAX_LAYERS = 1 << 16, MAX_MACHINES = 64 };

struct sim_args {
    struct tree_source_cli tree;
    struct cmd_problem problem;
    struct cmd_output out;
    const char *sets;
    struct sim_swept swept[SIM_MAX_SWEPT];
    int32_t n_swept;
    char *strategies; /* a comma-separated list; NULL: all */
    enum count_mode mode;
    int64_t layers;
    struct sim_machine machine[MAX_MACHINES];
    int32_t n_machines; /* 0: no times */
    const char *timeline, *spans;
    const char *coefficients, *model, *part; /* of `treeattn fit` */
    struct err *err;
};

/* ---- options ------------------------------------------------------------------------------------------ */

/* One list out of several --strategy. */
static void add_strategies(struct sim_args *a, const char *arg)
{
    char *longer = a->strategies ? xasprintf("%s,%s", a->strategies, arg) : xstrdup(arg);
    free(a->strategies);
    a->strategies = longer;
}

static bool add_machine(struct sim_args *a, const char *text)
{
    struct sim_machine *m = &a->machine[a->n_machines];
    if (a->n_machines == MAX_MACHINES)
        return err_set(a->err, "--machine '%.60s' is one too many (expected at most %d)", text, MAX_MACHINES);
    a->n_machines++;
    m->text = text;
    return machine_parse(text, &m->m, a->err);
}

static bool add_machines(struct sim_args *a, const char *text)
{
    if (strcmp(text, "all") != 0)
        return add_machine(a, text);
    bool good = true;
    for (int32_t i = 0; i < n_machines && good; i++)
        good = add_machine(a, machines[i].name);
    return good;
}

static bool add_swept(struct sim_args *a, const char *arg)
{
    if (a->n_swept == SIM_MAX_SWEPT)
        return err_set(a->err, "--sweep '%.60s' is one too many (expected at most %d)", arg, SIM_MAX_SWEPT);
    return sim_swept_parse(arg, &a->swept[a->n_swept++], a->err);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct sim_args *a = state->input;
    bool good = true;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->tree;
        state->child_inputs[1] = &a->problem;
        state->child_inputs[2] = &a->out;
        break;
    case KEY_STRATEGY:
        add_strategies(a, arg);
        break;
    case KEY_COUNT:
        good = count_mode_parse(arg, &a->mode) ||
               err_set(a->err, "--count '%.60s' (expected true, paper or deft)", arg);
        break;
    case KEY_MACHINE:
        good = add_machines(a, arg);
        break;
    case KEY_TIMELINE:
        a->timeline = arg;
        break;
    case KEY_SPANS:
        a->spans = arg;
        break;
    case KEY_COEFFICIENTS:
        a->coefficients = arg;
        break;
    case KEY_MODEL:
        a->model = arg;
        break;
    case KEY_PART:
        a->part = arg;
        break;
    case KEY_SETS:
        a->sets = arg;
        break;
    case KEY_SWEEP:
        good = add_swept(a, arg);
        break;
    case KEY_LAYERS:
        good = text_i64(arg, "--layers", 1, MAX_LAYERS, &a->layers, a->err);
        break;
    case KEY_STORAGE:
        good =
            err_set(a->err, "sim: counts depend on no pages or values (expected neither --page nor --fill)");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is simulated:", .group = 3},
            {"sets", KEY_SETS, "LIST", 0,
             "the papers' trees with their head counts: fasttree-fig9, pat-fig9, speculative; --heads "
             "replaces the head counts",
             3},
            {"sweep", KEY_SWEEP, "NAME=V,..", 0,
             "a tree for each value, put where --levels say {NAME}; NAME heads: head counts; several: every "
             "combination",
             3},
            {"strategy", KEY_STRATEGY, "LIST", 0,
             "NAME[:K=V,..],.. or all (default all); may be given several times", 3},
            {"count", KEY_COUNT, "MODE", 0,
             "true: what a kernel must move (default); paper: as DeFT's tables count; deft: as DeFT's "
             "release counts",
             3},
            {"layers", KEY_LAYERS, "L", 0, "layers of the model (default 32)", 3},
            {"machine", KEY_MACHINE, "NAME", 0,
             "times on this GPU, simulated; h200:bandwidth=4e12 changes a figure (rates are of the whole "
             "device: list figures); all; may be given several times",
             3},
            {"coefficients", KEY_COEFFICIENTS, "FILE", 0,
             "of the time model, as treeattn fit saves them (our kernels on an H200: "
             "paper-figs/measured/h200_clock.csv)",
             3},
            {"model", KEY_MODEL, "NAME", 0,
             "clock (default): the time model; linear or fasttree: predict a second time, beside it", 3},
            {"part", KEY_PART, "NAME", 0,
             "which part's, where FILE has several; each: of every strategy its own, as fit --apart saves "
             "them",
             3},
            {"timeline", KEY_TIMELINE, "FILE", 0,
             "the CTAs of one plan into FILE, as CSV; -: instead of the table", 3},
            {"spans", KEY_SPANS, "FILE", 0, "what the machine does between two events of it, as CSV", 3},
            CMD_REFUSED("page", KEY_STORAGE, "SIZE"),
            CMD_REFUSED("fill", KEY_STORAGE, "KIND"),
            {0},
        },
    .parser = parse,
    .doc = "Plan every step of a trace, or one tree, with each strategy and add up the bytes that the plans "
           "move in all layers: one row per tree and strategy. Heads default to Llama-3-8B's. With several "
           "trees, text ends with their mean, and --quiet prints only that. With --machine, plans are made "
           "for that machine and timed on it. Nothing is run: bytes are counted, times simulated."
           "\vColumns of --csv and --json are sums over all steps and, but for groups and launches, layers:\n"
           "*_IO_bytes: named as in DeFT's recorded runs\n"
           "mac_useful, mac_masked, mac_padded: multiply-adds of visible pairs, of pairs that a mask "
           "hides, of tile padding\n"
           "pad_rows, pad_tokens: rows that fill up Q tiles, and tokens that fill up the KV tiles of each "
           "Q tile, in all KV heads\n"
           "coefficients: those that the times rest on: a file, or built-in; built_in: of them, those that "
           "it does not name\n"
           "latency_ms: overhead_ms (of every call, the coefficient base: 2.4 us unless --coefficients say "
           "otherwise) + launch_ms + attention_ms + "
           "merge_ms; fitted_ms: what --model predicts\n"
           "ctas: CTAs of attention, of each stage where it is not fused, and of merges; dram_bytes: those "
           "that miss the L2\n"
           "Shares are of the time of attention and merges, without launches:\n"
           "bandwidth_use, l2_use, tensor_use: of the machine's rates, in use\n"
           "sm_use, slot_use: of SMs, and of places for CTAs on them, with a CTA\n"
           "low_share: of the time of attention alone, with under 5 % of the tensor peak in use\n"
           "why: why a strategy does not apply",
    .children = (const struct argp_child[]){{&tree_source_argp, 0, NULL, 0},
                                            {&cmd_problem_argp, 0, NULL, 0},
                                            {&cmd_output_argp, 0, NULL, 0},
                                            {0}},
};

/* ---- sources ------------------------------------------------------------------------------------------ */

static bool open_trace(const struct tree_source *src, int32_t index, struct sim_source *out, struct err *e)
{
    struct trace_opts opts = src->trace;
    opts.tree_index = index;
    struct trace *tr = trace_open(src->text, &opts, e);
    if (!tr)
        return false;
    int64_t n = trace_steps(tr);
    out->index = index;
    out->trace = tr;
    out->steps = (struct sweep_source){
        .trace = tr, .first = src->step ? src->step : 1, .last = src->step ? src->step : n};
    return src->step <= n ||
           err_set(e, "%s: step %" PRId64 " (expected 1 to %" PRId64 ")", src->text, src->step, n);
}

static bool open_traces(const struct sim_args *a, struct sim_run *run, struct err *e)
{
    const struct tree_source *src = run->src;
    int64_t first = src->trace.tree_index, last = a->tree.tree_last;
    for (int64_t k = first; k <= last; k++) {
        run->source = xgrow(run->source, &run->cap_sources, run->n_sources + 1, sizeof *run->source);
        struct sim_source *s = &run->source[run->n_sources++];
        *s = (struct sim_source){.src = tree_source_copy(src), .spec = run->spec};
        if (!open_trace(src, (int32_t)k, s, e))
            return false;
        if (k == first && last > first && trace_items(s->trace) == 0)
            return err_set(e,
                           "%s: several trees, and these are requests (expected --tree K, the first of them)",
                           src->text);
        if (last == TREES_ALL)
            last = trace_items(s->trace) - 1;
    }
    return true;
}

static bool open_sources(const struct sim_args *a, struct sim_run *run, struct err *e)
{
    if (a->sets)
        return sim_open_sets(run, a->sets, a->problem.given.heads, e);
    if (a->n_swept > 0)
        return sim_open_swept(run, a->swept, a->n_swept, e);
    if (run->src->kind == SRC_TRACE)
        return open_traces(a, run, e);
    struct tree *t = tree_source_load(run->src, e);
    if (!t)
        return false;
    run->n_sources = 1;
    run->source = xcalloc(1, sizeof *run->source);
    run->source[0] = (struct sim_source){.src = tree_source_copy(run->src),
                                         .spec = run->spec,
                                         .tree = t,
                                         .steps = {.tree = t, .first = 1, .last = 1}};
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------ */

static struct sweep sweep_for(const struct sim_run *run, const struct sim_source *src, int32_t m)
{
    const struct problem_spec *p = &src->spec;
    return (struct sweep){
        .use = run->use,
        .n_use = run->n_use,
        .env = {.heads = p->heads, .machine = &run->machine[m].m},
        .mode = run->mode,
        .timed = run->timed,
        .coefs = run->machine[m].coefs,
        .model = run->model,
        .command = run->command,
        .coef = (const double(*)[2 * MAX_TRAITS]) run->machine[m].fitted,
    };
}

static bool simulate(struct sim_run *run, struct err *e)
{
    int64_t steps = 0;
    for (int64_t k = 0; k < run->n_sources; k++)
        steps += sim_steps(&run->source[k]) * run->n_machines;
    run->row = xcalloc((size_t)(run->n_sources * run->n_machines * run->n_use), sizeof *run->row);
    struct progress progress = progress_start("sim", steps);
    bool good = true;
    for (int64_t k = 0; k < run->n_sources && good; k++)
        for (int32_t m = 0; m < run->n_machines && good; m++) {
            struct sweep s = sweep_for(run, &run->source[k], m);
            good = sweep_run(&s, &run->source[k].steps, run->layers * run->n_sources, sim_rows(run, k, m),
                             &progress, e);
        }
    progress_clear(&progress);
    return good;
}

/* ---- one plan in time --------------------------------------------------------------------------------- */

/* What --timeline and --spans need besides a plan that exists. */
static bool check_timeline(const struct sim_args *a, const struct sim_run *run, struct err *e)
{
    if (!a->timeline && !a->spans)
        return true;
    if (!run->timed || run->n_machines != 1)
        return err_set(e, "--timeline and --spans are of one machine (expected one --machine)");
    if (run->n_use != 1)
        return err_set(e, "--timeline and --spans are of one plan (expected one --strategy)");
    if (outfile_is_stdout(a->timeline) && outfile_is_stdout(a->spans))
        return err_set(e, "--timeline - and --spans - (expected one of them)");
    if (run->n_sources != 1 || sim_steps(&run->source[0]) != 1)
        return err_set(e, "--timeline and --spans are of one plan (expected a tree, or --step)");
    return true;
}

static bool write_file(const char *path, void (*print)(FILE *f, const struct time_model *c), const struct time_model *c,
                       struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, path, e))
        return false;
    print(out.f, c);
    return outfile_close(&out, true, e);
}

static bool write_timeline(const struct sim_args *a, const struct sim_run *run, struct err *e)
{
    if (!a->timeline && !a->spans)
        return true;
    const struct sim_source *src = &run->source[0];
    struct sweep s = sweep_for(run, src, 0);
    struct tree *own = src->trace ? trace_tree(src->trace, src->steps.first) : NULL;
    struct nform *nf = nform_new(own ? own : src->tree);
    char why[WHY_MAX];
    struct plan *p = sweep_plan(&s, 0, nf, why);
    bool good = p || err_set(e, "%s does not apply to this tree: %s", s.use[0].s->name, why);
    if (good) {
        struct time_model c = time_model_plan(p, &s.env.heads, s.env.machine, &s.coefs, 0, CLOCK_TIMELINE);
        good = (!a->timeline || write_file(a->timeline, time_model_print_ctas, &c, e)) &&
               (!a->spans || write_file(a->spans, time_model_print_spans, &c, e));
        time_model_free(&c);
    }
    plan_free(p);
    nform_free(nf);
    tree_free(own);
    return good;
}

/* ---- fitted times ------------------------------------------------------------------------------------- */

/* Of one machine: the time model's own, or those of a model beside it. */
static bool read_machine(const struct sim_args *a, const struct sim_run *run, struct sim_machine *m,
                         struct err *e)
{
    const struct fit_model *model = run->model;
    if (!model)
        return coefs_read_clock(a->coefficients, m->m.name, a->part, &m->coefs, m->rest, e);
    bool own = a->part && strcmp(a->part, each_part) == 0, good = true;
    m->fitted = xcalloc((size_t)run->n_use, sizeof *m->fitted);
    for (int32_t i = 0; i < run->n_use && good; i++) {
        if (i > 0 && !own) { /* the file was read */
            memcpy(m->fitted[i], m->fitted[0], sizeof m->fitted[i]);
            continue;
        }
        char *label = strategy_label(&run->use[i]);
        good = coefs_read_model(a->coefficients, m->m.name, model, own ? label : a->part, m->fitted[i],
                                i == 0 ? m->fitted_rest : NULL, e);
        free(label);
    }
    return good;
}

static bool read_coefficients(struct sim_args *a, struct sim_run *run, struct err *e)
{
    for (int32_t m = 0; m < run->n_machines; m++)
        a->machine[m].coefs = time_model_coefs_default();
    run->coefficients = COEFS_BUILT_IN;
    if (!a->coefficients)
        return (!a->model && !a->part) ||
               err_set(e, "--model and --part belong to --coefficients (none was given)");
    if (!run->timed)
        return err_set(e, "--coefficients are of a machine (expected --machine)");
    bool good = true;
    if (a->model && strcmp(a->model, "clock") != 0)
        good = (run->model = fit_model_find(a->model, e)) != NULL;
    *(run->model ? &run->fitted_from : &run->coefficients) = a->coefficients;
    for (int32_t m = 0; m < run->n_machines && good; m++)
        good = read_machine(a, run, &a->machine[m], e);
    return good;
}

/* ---- the command -------------------------------------------------------------------------------------- */

static bool check_args(struct sim_args *a, struct sim_run *run, struct err *e)
{
    run->spec = case_default_spec();
    run->spec.heads.h_q = 32; /* Llama-3-8B */
    run->spec.heads.h_kv = 8;
    run->spec.heads.d = 128;
    problem_given_apply(&a->problem.given, &run->spec);
    run->mode = a->mode;
    run->layers = a->layers;
    run->timed = a->n_machines > 0;
    run->n_machines = a->n_machines;
    if (!run->timed) {
        a->machine[0].m = *machine_default();
        run->n_machines = 1;
    }
    const char *list = a->strategies && strcmp(a->strategies, "all") != 0 ? a->strategies : NULL;
    if (a->sets && (a->tree.src.kind != SRC_NONE || a->n_swept > 0))
        return err_set(e, "--sets and another tree (expected one of them)");
    const char *const out[] = {a->out.path, a->timeline, a->spans};
    return outfiles_check(out, 3, e) && problem_spec_check(&run->spec, e) &&
           tree_source_finish(&a->tree, !a->sets, e) && case_strategies(list, &run->use, &run->n_use, e);
}

static bool print_result(const struct sim_args *a, const struct sim_run *run, struct err *e)
{
    struct outfile out;
    if (outfile_is_stdout(a->timeline) || outfile_is_stdout(a->spans))
        return write_timeline(a, run, e);
    if (!outfile_open(&out, a->out.path, e))
        return false;
    bool good = write_timeline(a, run, e);
    if (good && a->out.style == STYLE_TEXT)
        sim_print_text(run, out.f, a->out.quiet);
    else if (good)
        sim_print_rows(run, out.f, a->out.style);
    return outfile_close(&out, good, e) && good;
}

int cmd_sim(int argc, char **argv)
{
    struct err e = {0};
    struct sim_args a = {
        .tree = {.err = &e, .many = true}, .problem.err = &e, .layers = LLAMA3_LAYERS, .err = &e};
    struct sim_run run = {
        .src = &a.tree.src, .machine = a.machine, .command = origin_command(argv[0], argc, argv)};
    crash_tell();
    bool good = cmd_parse(&argp, argc, argv, &a, &e) && check_args(&a, &run, &e) &&
                read_coefficients(&a, &run, &e) && open_sources(&a, &run, &e) &&
                check_timeline(&a, &run, &e) && simulate(&run, &e) && print_result(&a, &run, &e);
    for (int64_t k = 0; k < run.n_sources; k++) {
        trace_close(run.source[k].trace);
        tree_free(run.source[k].tree);
        tree_source_clear(&run.source[k].src);
        free(run.source[k].at);
    }
    for (int32_t m = 0; m < a.n_machines; m++)
        free(a.machine[m].fitted);
    for (int32_t i = 0; i < a.n_swept; i++)
        sim_swept_clear(&a.swept[i]);
    free(run.source);
    free(run.command);
    free(run.row);
    free(run.use);
    free(a.strategies);
    tree_source_clear(&a.tree.src);
    return good ? EXIT_GOOD : cmd_error(&e);
}
