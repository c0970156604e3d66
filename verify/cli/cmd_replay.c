/*
 * cmd_replay.c - `treeattn replay`: traces through whole decode steps, on the model of a machine or on a GPU.
 */
#include "kernels/cuda/host/cuda.h"
#include "verify/cli/cmd.h"
#include "verify/io/environment.h"
#include "verify/io/origin.h"
#include "verify/model/coefficient_file.h"
#include "verify/replay/jobs.h"
#include "verify/replay/on_decoder.h"
#include "verify/replay/on_machine.h"
#include "verify/sweep/sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct replay_args {
    struct cmd_tree tree;
    struct cmd_output out;
    struct replay_choice choice;
    struct replay_rows rows;
    const char *strategies, *machine, *decoder, *coefficients, *part;
    const struct model *llm;
    struct model model; /* the same, with its layers */
    bool graph;
    enum replan replan;
    enum dtype dtype;
    int64_t every, layers, page, check, gpus, card;
    enum parallel parallel;
};

static const char default_strategies[] =
    "radix-attention,flash-decoding,tree-medusa,deft-node,deft-node-chunk,deft-flatten,fasttree,pat";

/* ---- options ------------------------------------------------------------------------------------------- */

static bool set_dtype(void *self, const char *value, struct err *e)
{
    enum dtype *dtype = self;
    return (dtype_parse(value, dtype) && dtype_size[*dtype] == 2) ||
           err_set(e, "--dtype '%.40s' (expected f16 or bf16)", value);
}

static bool read_options(struct replay_args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Takes a trace through whole decode steps: every step's tree goes through a paged KV pool, "
                 "is planned by each strategy, and executed. Says where the time goes: attention, the other "
                 "kernels (matrix products, norms, rotation, head), moved tokens, planning, the cache; and "
                 "what could be gained at most if attention cost nothing. With --machine nothing is run: "
                 "bytes are counted, times simulated.",
        .examples = "replay --machine h100\n"
                    "replay --machine h100 --workload sorting --tree 0-9\n"
                    "replay --machine h100 --trace reasoning:7 --every 10",
        .details = "Without --trace and --workload it is the workloads of DeFT's Tables 16 and 5.\n"
                   "CSV begins with comment lines (#): all that the figures depend on; command, device, commit, "
                   "date; machine.\n"
                   "Under mpirun its processes share the items of traces (verify/sweep/README.md)."};
    tree_options(&o, &a->tree);
    options_refuse(&o, "levels tree-file gen", "a tree alone is no trace (expected --trace or --workload)");
    options_refuse(&o, "q-len", "steps have the queries of their trace (expected none)");
    options_refuse(&o, "step", "a replay has them all (expected --max-steps or --every)");
    options_default(&o, "prompt", NULL, "tokens of the prompt; of a workload instead of its own");
    options_default(&o, "max-seq", NULL,
                    "sequence length at which the run ends; of a workload instead of its own");
    const struct opt own[] = {
        HEADING("What is replayed:"),
        TEXT("workload", "LIST", &a->choice.workloads, NULL,
             "papers' workloads by name or group instead of --trace (default deft; see treeattn list "
             "workloads)"),
        TEXT("data", "DIR", &a->choice.data, NULL,
             "where their files are (default: $TREEATTN_SHARED/traces, else ../shared/traces)"),
        TEXT("strategy", "LIST", &a->strategies, NULL,
             "NAME[:K=V,..],.. or all (default: those of DeFT's tables, its node strategies, fasttree, pat)"),
        CALL("llm", "NAME", set_llm, &a->llm, "llama-3-8b", "the model's shapes (see treeattn list models)"),
        I64("layers", "L", &a->layers, 1, 1 << 16, NULL, "only so many of its layers"),
        CALL("dtype", "TYPE", set_dtype, &a->dtype, "bf16", "of weights and cache: bf16 or f16"),
        I64("page", "SIZE", &a->page, 1, 65536, "16", "tokens of a page of the KV pool"),
        HEADING("On what:"),
        TEXT("machine", "NAME", &a->machine, NULL,
             "simulate this GPU; h200:memory=282e9 changes a figure (default: run on the GPU that is here)"),
        TEXT("decoder", "TYPE", &a->decoder, NULL,
             "run on this: cuda (default), or cpu for tiny models, in plain C"),
        I64("gpus", "N", &a->gpus, 1, CARDS_MOST, "1",
            "spread each step over N such GPUs of one host: by NCCL, or simulated"),
        WORD("parallel", "HOW", &a->parallel, parallel_name, N_PARALLEL, "tensor",
             "what --gpus spreads, as for treeattn decode; HOW is"),
        I64("card", "R", &a->card, 0, CARDS_MOST - 1, NULL,
            "of N GPUs only R, from 0, on the one that is here: the time of its part, without what GPUs tell "
            "each other"),
        TEXT("coefficients", "FILE", &a->coefficients, NULL,
             "of the time model, as treeattn fit saves them (our kernels on an H200: "
             "paper-figs/measured/h200_clock.csv)"),
        TEXT("part", "NAME", &a->part, NULL, "which part's coefficients, where FILE has several"),
        WORD("replan", "WHEN", &a->replan, replan_name, N_REPLANS, "every",
             "every: plan each step; choice: each step, but keep what a strategy (treeattn) chose for up to "
             "8 steps, until nodes or queries come or go; shape-change: only when nodes or queries come or "
             "go, else the old plan with longer nodes; async: each step, while the step before runs"),
        FLAG("graph", &a->graph,
             "on a GPU: a step's kernels as one CUDA graph; pays where the host is ahead (--replan async)"),
        HEADING("How much of it:"),
        I64("every", "K", &a->every, 1, INT32_MAX, "1",
            "look at one step in K, which stands for all of them"),
        I64("max-steps", "N", &a->choice.max_steps, 1, INT64_MAX, NULL, "cut every trace after N steps"),
        I64("check", "K", &a->check, 1, INT32_MAX, NULL,
            "on a GPU: compare the attention of every layer with exact attention, at one in K of these "
            "steps"),
        TEXT("rows", "FILE", &a->rows.path, NULL,
             "a row a step and strategy into FILE, as CSV; FILE.part until complete"),
        FLAG("resume", &a->rows.resume, "go on with FILE.part, or print the tables of a complete FILE"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "every row is a result (expected none)");
    return options_parse(&o, argc, argv, e);
}

/* Options that contradict each other, and what they leave open. */
static bool settle(struct replay_args *a, struct err *e)
{
    struct tree_source *src = &a->tree.src;
    if (src->kind == SRC_TRACE && a->choice.workloads)
        return err_set(e, "--trace and --workload (expected one of them)");
    if (sweep_role() != SWEEP_ALONE && (!a->machine || a->rows.path))
        return err_set(e, "under mpirun replay is simulated, and keeps no rows (expected --machine, and no --rows)");
    if (a->rows.resume && !a->rows.path)
        return err_set(e, "--resume needs a file (expected --rows FILE)");
    if ((a->coefficients || a->part) && !a->machine)
        return err_set(e, "--coefficients and --part are of a machine (expected --machine)");
    if (a->gpus == 1 && a->parallel != PARALLEL_TENSOR)
        return err_set(e, "--parallel says how a step is spread over GPUs (expected --gpus N)");
    if (a->card >= a->gpus || (a->card >= 0 && a->gpus == 1))
        return err_set(e, "--card %" PRId64 ": it is one of several, from 0 (expected --gpus N, and less than N)", a->card);
    if (a->card >= 0 && a->check)
        return err_set(e, "--check wants what all cards computed (expected no --card)");
    if (a->gpus > 1 && a->card < 0 && !a->machine)
        decoder_several_gpus();
    if (a->graph && a->gpus > 1 && a->card < 0)
        return err_set(e, "--graph is of one GPU (expected no --gpus)");
    if ((a->check || a->decoder || a->graph) && a->machine)
        return err_set(e, "--check, --decoder and --graph are for steps that run (expected no --machine)");
    char *part = a->rows.path ? xasprintf("%s.part", a->rows.path) : NULL;
    const char *const out[] = {a->out.path, a->rows.path, part};
    bool good = outfiles_check(out, 3, e);
    free(part);
    a->model = *a->llm;
    if (a->layers > 0)
        a->model.layers = (int32_t)a->layers;
    if (src->kind != SRC_TRACE) { /* the options of a trace apply to workloads as well */
        src->kind = SRC_TRACE;
        src->text = xstrdup("");
        if (!a->choice.workloads)
            a->choice.workloads = "deft";
    }
    a->choice.src = src;
    a->choice.tree_last = a->tree.last;
    return good && tree_finish(&a->tree, true, e);
}

/* ---- what a run stands on ------------------------------------------------------------------------------ */

struct ground {
    struct machine mc;
    struct replay_machine sim;
    struct replay_device device;
    struct executor exec;
    struct strategy_use *use;
    char rest[COEFS_REST]; /* coefficients that the file does not name */
};

/* Can the model be dealt out to so many cards? */
static bool cards_can(const struct replay *r, struct err *e)
{
    struct heads_part part;
    return r->n_cards == 1 ||
           (cards_model(r->model, r->n_cards, e) && cards_heads(&r->env.heads, r->parallel, r->n_cards, 0, &part, e));
}

static bool set_up_machine(const struct replay_args *a, struct replay_run *run, struct ground *g,
                           struct err *e)
{
    struct replay *r = &run->replay;
    const char *file = a->coefficients ? a->coefficients : COEFS_BUILT_IN;
    g->sim = (struct replay_machine){.mc = &g->mc,
                                     .model = r->model,
                                     .heads = r->env.heads,
                                     .coefs = time_model_coefs_default(),
                                     .env = r->env,
                                     .n_cards = r->n_cards,
                                     .parallel = r->parallel,
                                     .alone = r->alone,
                                     .rank = r->rank};
    if (!cards_can(r, e))
        return false;
    if (!coefs_read_clock(file, g->mc.name, a->part, &g->sim.coefs, g->rest, e))
        return false;
    run->coefs_told = a->coefficients != NULL;
    run->coefficients = file;
    run->built_in = strcmp(file, COEFS_BUILT_IN) == 0 ? "all" : g->rest;
    run->title = coefs_title(file, g->mc.name, g->rest);
    run->coefs_sum = coefs_sum(&g->sim.coefs);
    g->exec = replay_on_machine(&g->sim);
    r->memory = g->mc.memory * (double)a->gpus;
    r->n_pages = replay_pages(r, r->memory);
    return r->n_pages > 0 ||
           err_missing(e, "%s does not fit: its weights take %.1f GiB, %s has %.1f GiB", r->model->name,
                       replay_weights(r) / 0x1p30, g->mc.name, g->mc.memory / 0x1p30);
}

static bool set_up_device(const struct replay_args *a, struct replay_run *run, struct ground *g,
                          struct err *e)
{
    const struct decoder_type *type = decoder_type_find(a->decoder ? a->decoder : "cuda", e);
    struct err missing = {0};
    if (type && type->ready && !type->ready(&missing))
        return err_missing(e, "%s (--machine NAME simulates a GPU)", missing.msg);
    if (!type || !replay_jobs_device(run, type, a->tree.seed, a->graph, &g->device, e))
        return false;
    g->exec = replay_on_device(&g->device);
    return true;
}

static bool set_up(const struct replay_args *a, struct replay_run *run, struct ground *g, struct err *e)
{
    const char *list = a->strategies ? a->strategies : default_strategies;
    int32_t n_use = 0;
    if ((a->machine && !machine_parse(a->machine, &g->mc, e)) ||
        !case_strategies(list, &g->use, &n_use, e))
        return false;
    if (!a->machine) { /* steps run once more without attention: the bound of what attention can gain */
        g->use = xrealloc(g->use, (size_t)n_use + 1, sizeof *g->use);
        g->use[n_use++] = strategy_default(&replay_no_attention);
    }
    run->replay = (struct replay){
        .model = &a->model,
        .env = {.heads = model_heads(&a->model, a->dtype), .machine = &g->mc},
        .use = g->use,
        .n_use = n_use,
        .replan = a->replan,
        .every = a->every,
        .check = a->check,
        .page_size = (int32_t)a->page,
        .n_cards = (int32_t)a->gpus,
        .parallel = a->parallel,
        .alone = a->card >= 0,
        .rank = (int32_t)max_i64(0, a->card),
        .exec = &g->exec,
    };
    return a->machine ? set_up_machine(a, run, g, e) : set_up_device(a, run, g, e);
}

static bool run_and_print(struct replay_args *a, struct replay_run *run, const char *command, struct err *e)
{
    const char *name = run->replay.exec->name;
    struct outfile out;
    char date[ORIGIN_DATE], *what = replay_jobs_describe(run, a->machine ? a->machine : name, a->graph);
    origin_date(date);
    char *about = xasprintf("%s; %s, commit %s, %s; host times: processor time of the host that ran it",
                            command, name, origin_commit(), date);
    a->rows.what = what;
    a->rows.about = about;
    bool worker = sweep_role() == SWEEP_WORKER,
         good = replay_jobs_run(run, &a->rows, e) && (worker || outfile_open(&out, a->out.path, e));
    if (good && !worker) {
        if (a->out.style == STYLE_CSV) {
            char *machine = environment_line();
            fprintf(out.f, "# %s\n# %s\n# environment %s\n", what, about, machine);
            free(machine);
        }
        replay_print(run, out.f, a->out.style);
        good = outfile_close(&out, true, e) && replay_jobs_check(run, e);
    }
    free(what);
    free(about);
    return good;
}

int cmd_replay(int argc, char **argv)
{
    struct err e = {0};
    struct replay_args a = {.tree.many = true, .card = -1};
    struct replay_run run = {0};
    struct ground ground = {.mc = *machine_default()};
    char *command = origin_command(argv[0], argc, argv);
    bool good = read_options(&a, argc, argv, &e) && settle(&a, &e) && replay_jobs_open(&a.choice, &run, &e) &&
                set_up(&a, &run, &ground, &e) && run_and_print(&a, &run, command, &e);
    replay_jobs_close(&run);
    replay_device_close(&ground.device);
    free(ground.use);
    free(command);
    tree_source_clear(&a.tree.src);
    return good ? EXIT_GOOD : cmd_error(&e);
}
