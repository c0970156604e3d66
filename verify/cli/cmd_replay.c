/*
 * cmd_replay.c - `treeattn replay`: traces through whole decode steps, on the model of a machine or on a GPU.
 */
#include "kernels/cuda/host/cuda.h"
#include "ref/rng.h"
#include "verify/cli/cmd.h"
#include "verify/model/coefficient_file.h"
#include "verify/io/origin.h"
#include "verify/replay/on_decoder.h"
#include "verify/replay/log.h"
#include "verify/replay/on_machine.h"
#include "verify/replay/report.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_STRATEGY = 0xC00,
    KEY_MODEL,
    KEY_MACHINE,
    KEY_DECODER,
    KEY_WORKLOAD,
    KEY_DATA,
    KEY_EVERY,
    KEY_MAX_STEPS,
    KEY_REPLAN,
    KEY_LAYERS,
    KEY_PAGE,
    KEY_DTYPE,
    KEY_ROWS,
    KEY_RESUME,
    KEY_SECONDS,
    KEY_READ,
    KEY_PREFILL,
    KEY_CHECK,
    KEY_GRAPH,
    KEY_COEFFICIENTS,
    KEY_PART,
    KEY_A_TREE,
    KEY_A_STEP
};

struct args {
    struct tree_source_cli tree;
    struct cmd_output out;
    const char *strategies, *machine, *decoder, *workloads, *data, *rows, *coefficients, *part;
    struct model model;
    bool resume, read, graph;
    enum replan replan;
    enum dtype dtype;
    int64_t every, max_steps, layers, page, seconds, prefill_rate, check;
    int argc;
    char **argv;
    struct err *err;
};

#define MOST_CPU_BYTES 8e9 /* what a tiny model's replay may take in plain C */

static const char default_strategies[] =
    "radix-attention,flash-decoding,tree-medusa,deft-node,deft-node-chunk,deft-flatten,fasttree,pat";

/* ---- options ------------------------------------------------------------------------------------------- */

static bool set_model(struct args *a, const char *name)
{
    const struct model *m = model_find(name, a->err);
    if (m)
        a->model = *m;
    return m != NULL;
}

static bool set_replan(struct args *a, const char *arg)
{
    for (int i = 0; i < N_REPLANS; i++)
        if (strcmp(arg, replan_name[i]) == 0) {
            a->replan = (enum replan)i;
            return true;
        }
    char names[80] = "";
    for (int i = 0; i < N_REPLANS; i++)
        listing_add(names, sizeof names, replan_name[i]);
    return err_set(a->err, "--replan '%.40s' (expected one of %s)", arg, names);
}

static bool set_dtype(struct args *a, const char *arg)
{
    return (dtype_parse(arg, &a->dtype) && dtype_size[a->dtype] == 2) ||
           err_set(a->err, "--dtype '%.40s' (expected f16 or bf16)", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    bool good = true;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->tree;
        state->child_inputs[1] = &a->out;
        break;
    case KEY_STRATEGY:
        a->strategies = arg;
        break;
    case KEY_MODEL:
        good = set_model(a, arg);
        break;
    case KEY_MACHINE:
        a->machine = arg;
        break;
    case KEY_DECODER:
        a->decoder = arg;
        break;
    case KEY_WORKLOAD:
        a->workloads = arg;
        break;
    case KEY_DATA:
        a->data = arg;
        break;
    case KEY_EVERY:
        good = text_i64(arg, "--every", 1, INT32_MAX, &a->every, a->err);
        break;
    case KEY_MAX_STEPS:
        good = text_i64(arg, "--max-steps", 1, INT64_MAX, &a->max_steps, a->err);
        break;
    case KEY_REPLAN:
        good = set_replan(a, arg);
        break;
    case KEY_LAYERS:
        good = text_i64(arg, "--layers", 1, 1 << 16, &a->layers, a->err);
        break;
    case KEY_PAGE:
        good = text_i64(arg, "--page", 1, 65536, &a->page, a->err);
        break;
    case KEY_DTYPE:
        good = set_dtype(a, arg);
        break;
    case KEY_ROWS:
        a->rows = arg;
        break;
    case KEY_RESUME:
        a->resume = true;
        break;
    case KEY_READ:
        a->read = true;
        break;
    case KEY_SECONDS:
        good = text_i64(arg, "--seconds", 1, INT32_MAX, &a->seconds, a->err);
        break;
    case KEY_PREFILL:
        good = text_i64(arg, "--prefill-rate", 1, INT64_MAX, &a->prefill_rate, a->err);
        break;
    case KEY_CHECK:
        good = text_i64(arg, "--check", 1, INT32_MAX, &a->check, a->err);
        break;
    case KEY_GRAPH:
        a->graph = true;
        break;
    case KEY_COEFFICIENTS:
        a->coefficients = arg;
        break;
    case KEY_PART:
        a->part = arg;
        break;
    case KEY_A_TREE:
        good = err_set(a->err, "replay: a tree alone is no trace (expected --trace or --workload)");
        break;
    case KEY_A_STEP:
        good = err_set(a->err, "--step: a replay has them all (expected --max-steps or --every)");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is replayed:", .group = 2},
            {"workload", KEY_WORKLOAD, "LIST", 0,
             "papers' workloads by name or group instead of --trace (see treeattn list workloads; default "
             "deft)",
             2},
            {"data", KEY_DATA, "DIR", 0,
             "where their files are (default $TREEATTN_SHARED/traces, else ../shared/traces)", 2},
            {"strategy", KEY_STRATEGY, "LIST", 0,
             "NAME[:K=V,..],.. or all (default: those of DeFT's tables, its node strategies, fasttree, pat)",
             2},
            {"model", KEY_MODEL, "NAME", 0,
             "shapes of a published model (default llama-3-8b; see treeattn list models)", 2},
            {"layers", KEY_LAYERS, "L", 0, "only so many of its layers", 2},
            {"dtype", KEY_DTYPE, "TYPE", 0, "of weights and cache: bf16 (default) or f16", 2},
            {"page", KEY_PAGE, "SIZE", 0, "tokens of a page of the KV pool (default 16)", 2},
            {"machine", KEY_MACHINE, "NAME", 0,
             "simulate this GPU; h200:memory=282e9 changes a figure. Without: run on the GPU that is here",
             2},
            {"decoder", KEY_DECODER, "TYPE", 0,
             "run on this: cuda (default), or cpu for tiny models, in plain C", 2},
            {"coefficients", KEY_COEFFICIENTS, "FILE", 0,
             "of the time model, as treeattn fit saves them (our kernels on an H200: "
             "paper-figs/measured/h200_clock.csv)",
             2},
            {"part", KEY_PART, "NAME", 0, "which part's, where FILE has several", 2},
            {"replan", KEY_REPLAN, "WHEN", 0,
             "every: plan each step (default); choice: each step, but with what a strategy (treeattn) chose "
             "for up to 8 of them, until nodes or queries come or go; shape-change: only when nodes or "
             "queries come or go, else the old plan with longer nodes; async: each step, while the step "
             "before runs",
             2},
            {"prefill-rate", KEY_PREFILL, "N", 0,
             "charge prompts, at N tokens a second, on top of every strategy's whole; they delay no step, so "
             "that all "
             "strategies have the same ones (default: free)",
             2},
            {"graph", KEY_GRAPH, NULL, 0,
             "on a GPU: a step's kernels as one CUDA graph; pays where the host is ahead (--replan async)",
             2},
            {.doc = "How much of it:", .group = 3},
            {"every", KEY_EVERY, "K", 0, "look at one step in K, which stands for all of them (default 1)",
             3},
            {"max-steps", KEY_MAX_STEPS, "N", 0, "cut every trace after N steps", 3},
            {"check", KEY_CHECK, "K", 0,
             "on a GPU: compare the attention of every layer with exact attention, at one in K of these "
             "steps",
             3},
            {"rows", KEY_ROWS, "FILE", 0,
             "a row a step and strategy into FILE, as CSV; FILE.part until complete", 3},
            {"seconds", KEY_SECONDS, "S", 0, "stop after S seconds, with what there is in FILE.part", 3},
            {"read", KEY_READ, NULL, 0, "run nothing: FILE has all rows of this run; print its tables", 3},
            {"resume", KEY_RESUME, NULL, 0, "go on with FILE.part", 3},
            CMD_REFUSED("levels", KEY_A_TREE, "TEXT"),
            CMD_REFUSED("tree-file", KEY_A_TREE, "FILE"),
            CMD_REFUSED("gen", KEY_A_TREE, "FAMILY"),
            CMD_REFUSED("step", KEY_A_STEP, "T"),
            {0},
        },
    .parser = parse,
    .doc = "Take a trace through whole decode steps: every step's tree goes through a paged KV pool, is "
           "planned by each "
           "strategy, and executed. Says where the time goes: attention, the other kernels (matrix products, "
           "norms, "
           "rotation, head), moved tokens, planning, the cache; and what could be gained at most if "
           "attention cost "
           "nothing. With --machine nothing is run: bytes are counted, times simulated.\n\n"
           "CSV begins with two comment lines (#): all that the figures depend on; command, device, commit, "
           "date.\n\n"
           "  treeattn replay --machine h100              DeFT's Tables 16 and 5\n"
           "  treeattn replay --machine h100 --workload sorting --tree 0-9\n"
           "  treeattn replay --machine h100 --trace reasoning:7 --every 10",
    .children = (const struct argp_child[]){{&tree_source_argp, 0, NULL, 0}, {&cmd_output_argp, 0, NULL, 0}, {0}},
};

/* ---- what is asked for --------------------------------------------------------------------------------- */

/* FILE.part is written, too, but where FILE is only read. */
static bool check_outputs(const struct args *a, struct err *e)
{
    bool rows = a->rows && !a->read;
    char *part = rows ? xasprintf("%s.part", a->rows) : NULL;
    const char *const out[] = {a->out.path, rows ? a->rows : NULL, part};
    bool good = outfiles_check(out, 3, e) && outfile_spares(a->out.path, a->read ? a->rows : NULL, e);
    free(part);
    return good;
}

static bool check_args(struct args *a, struct err *e)
{
    struct tree_source *src = &a->tree.src;
    if (src->kind == SRC_TRACE && a->workloads)
        return err_set(e, "--trace and --workload (expected one of them)");
    if ((a->read || a->resume || a->seconds) && !a->rows)
        return err_set(e, "--resume, --read and --seconds need a file (expected --rows FILE)");
    if ((a->coefficients || a->part) && !a->machine)
        return err_set(e, "--coefficients and --part are of a machine (expected --machine)");
    if (a->read && (a->machine || a->decoder || a->seconds))
        return err_set(e, "--read runs nothing (expected no --machine, --decoder or --seconds)");
    if ((a->check || a->decoder || a->graph) && a->machine)
        return err_set(e, "--check, --decoder and --graph are for steps that run (expected no --machine)");
    if (!check_outputs(a, e))
        return false;
    if (a->layers > 0)
        a->model.layers = (int32_t)a->layers;
    bool trace = src->kind == SRC_TRACE;
    if (!trace) { /* the options of a trace apply to workloads as well */
        src->kind = SRC_TRACE;
        src->text = xstrdup("");
        if (!a->workloads)
            a->workloads = "deft";
    }
    return tree_source_finish(&a->tree, true, e);
}

/* What was given on the command line goes before what the workload says. */
static struct trace_opts merge_opts(struct trace_opts w, const struct trace_opts *given)
{
    w.tree_index = given->tree_index;
    if (given->prompt)
        w.prompt = given->prompt;
    if (given->max_seq)
        w.max_seq = given->max_seq;
    if (given->batch)
        w.batch = given->batch;
    if (given->step_ms)
        w.step_ms = given->step_ms;
    w.topology = w.topology || given->topology;
    return w;
}

static bool same_opts(const struct trace_opts *a, const struct trace_opts *b)
{
    return a->prompt == b->prompt && a->max_seq == b->max_seq && a->topology == b->topology &&
           a->batch == b->batch && a->step_ms == b->step_ms;
}

static bool list_jobs(const struct args *a, struct replay_run *run, struct err *e)
{
    if (!a->workloads) {
        run->n_jobs = 1;
        run->job = xcalloc(1, sizeof *run->job);
        run->job[0] = (struct replay_job){.name = xstrdup("trace"),
                                          .spec = xstrdup(a->tree.src.text),
                                          .opts = a->tree.src.trace,
                                          .tree_last = a->tree.tree_last};
        return true;
    }
    const struct workload **pick;
    bool good = workloads_pick(a->workloads, &pick, &run->n_jobs, e);
    char *data = a->data ? xstrdup(a->data) : trace_folder();
    run->job = xcalloc((size_t)run->n_jobs, sizeof *run->job);
    for (int32_t j = 0; j < run->n_jobs; j++) {
        struct trace_opts opts = merge_opts(pick[j]->opts, &a->tree.src.trace);
        run->job[j] = (struct replay_job){.name = xstrdup(pick[j]->name),
                                          .spec = workload_spec(pick[j], data),
                                          .lacks = workload_lacks(pick[j], data),
                                          .opts = opts,
                                          .changed = !same_opts(&opts, &pick[j]->opts),
                                          .tree_last = a->tree.tree_last};
    }
    char *golden = xasprintf("%s/golden.csv", data);
    if (good && access(golden, R_OK) == 0)
        good = csv_read(golden, &run->golden, e);
    free(golden);
    free(data);
    free(pick);
    return good;
}

/* With several workloads, --tree K-L is for those that have as many; others have the one tree. */
static bool open_items(struct replay_job *job, bool alone, int64_t max_steps, int32_t *number, struct err *e)
{
    int64_t cap = 0, last = max_i64(job->opts.tree_index, job->tree_last);
    for (int64_t k = job->opts.tree_index; k <= last; k++) {
        struct trace_opts opts = job->opts;
        opts.tree_index = (int32_t)k;
        if (!alone && k > 0 && job->n_items > 0 && trace_items(job->item[0].trace) <= 1)
            break;
        job->item = xgrow(job->item, &cap, job->n_items + 1, sizeof *job->item);
        struct replay_item *item = &job->item[job->n_items];
        *item = (struct replay_item){.index = (int32_t)k, .trace = trace_open(job->spec, &opts, e)};
        if (!item->trace)
            return false;
        job->n_items++;
        if (k == job->opts.tree_index && last > k && trace_items(item->trace) == 0)
            return err_set(e,
                           "%s: several trees, and these are requests (expected --tree K, the first of them)",
                           job->spec);
        if (last == TREES_ALL)
            last = trace_items(item->trace) - 1;
        int64_t steps = trace_steps(item->trace);
        item->src = (struct replay_source){.number = (*number)++,
                                           .trace = item->trace,
                                           .last = max_steps > 0 ? min_i64(max_steps, steps) : steps};
    }
    return true;
}

static bool open_jobs(const struct args *a, struct replay_run *run, struct err *e)
{
    int32_t number = 0;
    bool good = list_jobs(a, run, e);
    for (int32_t j = 0; j < run->n_jobs && good; j++)
        if (!run->job[j].lacks)
            good = open_items(&run->job[j], run->n_jobs == 1, a->max_steps, &number, e);
    return good;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* All that a run stands on. */
struct ground {
    struct machine mc;
    struct replay_machine sim;
    struct replay_device device;
    struct executor exec;
    struct strategy_use *use;
    char *reader;                  /* name of the executor whose rows are read */
    char rest[COEFS_REST], *title; /* of the time model's coefficients */
};

static uint32_t sum_of(const struct time_model_coefs *c)
{
    double value[sizeof *c / sizeof(double)];
    uint64_t sum = 0, bits;
    memcpy(value, c, sizeof value);
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        memcpy(&bits, &value[i], sizeof bits);
        sum = rng_mix(sum + bits);
    }
    return (uint32_t)sum;
}

static bool set_up_machine(const struct args *a, struct replay_run *run, struct ground *g, struct err *e)
{
    struct replay *r = &run->replay;
    bool fitted = a->coefficients && strcmp(a->coefficients, COEFS_BUILT_IN) != 0;
    g->sim = (struct replay_machine){
        .mc = &g->mc, .model = r->model, .heads = r->env.heads, .coefs = time_model_coefs_default()};
    if (a->coefficients && !coefs_read_clock(a->coefficients, g->mc.name, a->part, &g->sim.coefs, g->rest, e))
        return false;
    run->coefficients = fitted ? a->coefficients : COEFS_BUILT_IN;
    run->built_in = fitted ? g->rest : "all";
    run->title = g->title = coefs_title(a->coefficients, g->mc.name, g->rest);
    run->coefs_sum = sum_of(&g->sim.coefs);
    g->exec = replay_on_machine(&g->sim);
    r->memory = g->mc.memory;
    r->n_pages = replay_pages(r, r->memory);
    return r->n_pages > 0 ||
           err_missing(e, "%s does not fit: its weights take %.1f GiB, %s has %.1f GiB", r->model->name,
                       replay_weights(r) / 0x1p30, g->mc.name, g->mc.memory / 0x1p30);
}

/* Something is missing: say what else there is. */
static bool suggest_machine(struct err *e)
{
    struct err cause = *e;
    *e = (struct err){0};
    return err_missing(e, "%s (--machine NAME simulates a GPU)", cause.msg);
}

/* With a pool as large as the traces need. */
static bool set_up_device(const struct args *a, struct replay_run *run, struct ground *g, struct err *e)
{
    struct replay *r = &run->replay;
    const struct decoder_type *type = decoder_type_find(a->decoder ? a->decoder : "cuda", e);
    if (!type)
        return false;
    if (type->ready && !type->ready(e))
        return suggest_machine(e);
    struct cuda_caps caps;
    bool gpu = strcmp(type->name, "cuda") == 0 && cuda_caps(&caps, NULL), good = true;
    r->memory = gpu ? (double)caps.mem_total : MOST_CPU_BYTES;
    struct decoder_spec spec = {.model = r->model,
                                .dtype = a->dtype,
                                .page_size = r->page_size,
                                .n_pages = 1,
                                .max_queries = 1,
                                .seed = a->tree.seed,
                                .graph = a->graph};
    int64_t most = replay_pages(r, r->memory);
    /* copies are not all that there is to run: they take what others leave of the GPU */
    int64_t room = gpu ? replay_pages(r, (double)caps.mem_free) : most;
    if (most == 0)
        return err_missing(e, "%s does not fit: its weights take %.1f GiB of %.1f GiB", r->model->name,
                           replay_weights(r) / 0x1p30, r->memory / 0x1p30);
    for (int32_t j = 0; j < run->n_jobs && good; j++)
        for (int32_t k = 0; k < run->job[j].n_items && good; k++)
            good = replay_peak(&run->job[j].item[k].src, r->page_size, most, &spec.n_pages, &spec.max_queries,
                               e);
    r->n_pages = spec.n_pages;
    for (int32_t j = 0; j < run->n_jobs && good; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++)
            r->private_kv_pages =
                max_i64(r->private_kv_pages, replay_copies(r, &run->job[j].item[k].src, room - r->n_pages));
    spec.n_pages += r->private_kv_pages;
    if (!good || !replay_device_open(&g->device, type, &spec, r->every == 1, e))
        return false;
    g->exec = replay_on_device(&g->device);
    return true;
}

/* ---- rows that somebody else measured: nothing is executed ---- */

static bool read_begin(void *self, struct err *e)
{
    (void)self, (void)e;
    return true;
}

static bool read_advance(void *self, const struct step *s, struct err *e)
{
    (void)self, (void)s, (void)e;
    return true;
}

static bool read_start(void *self, const struct step *s, struct err *e)
{
    (void)self;
    return err_set(e, "step %" PRId64 " is not in the rows (--read expects all of them)", s->t);
}

/* "...., bf16, NAME, pages of 16, ..": who executed what a file of rows holds; the caller frees. */
static char *executor_of(const struct args *a, struct err *e)
{
    char *line = replay_log_line(a->rows, 0, e), *name = NULL;
    char *mark = xasprintf(" layers, %s, ", dtype_name[a->dtype]);
    char *from = line ? strstr(line, mark) : NULL, *to = from ? strstr(from, ", pages of ") : NULL;
    if (to) {
        from += strlen(mark);
        name = xasprintf("%.*s", (int)(to - from), from);
    } else if (line) {
        err_set(e, "%s:1: rows of another run (expected --dtype %s)", a->rows, dtype_name[a->dtype]);
    }
    free(mark);
    free(line);
    return name;
}

static bool set_up_reader(const struct args *a, struct replay_run *run, struct ground *g, struct err *e)
{
    struct replay *r = &run->replay;
    int32_t queries = 0;
    g->reader = executor_of(a, e);
    if (!g->reader)
        return false;
    g->exec = (struct executor){
        .name = g->reader, .begin = read_begin, .advance = read_advance, .start = read_start};
    r->memory = INFINITY;
    for (int32_t i = 0; i < n_machines; i++) /* "NVIDIA H200, measured" is "NVIDIA H200 SXM 141GB" */
        if (strncmp(machines[i].title, g->reader, strcspn(g->reader, ",")) == 0)
            r->memory = machines[i].memory;
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++)
            if (!replay_peak(&run->job[j].item[k].src, r->page_size, INT32_MAX, &r->n_pages, &queries, e))
                return false;
    return true;
}

/* Steps that run do so once more without attention: the bound of what attention can gain. */
static void add_no_attention(struct ground *g, struct replay *r)
{
    g->use = xrealloc(g->use, (size_t)r->n_use + 1, sizeof *g->use);
    g->use[r->n_use++] = strategy_default(&replay_no_attention);
}

static bool set_up(const struct args *a, struct replay_run *run, struct ground *g, struct err *e)
{
    struct replay *r = &run->replay;
    const struct model *m = &a->model;
    const char *list = a->strategies ? a->strategies : default_strategies;
    g->mc = *machine_default();
    if ((a->machine && !machine_parse(a->machine, &g->mc, e)) ||
        !case_strategies(strcmp(list, "all") == 0 ? NULL : list, &g->use, &r->n_use, e))
        return false;
    if (!a->machine)
        add_no_attention(g, r);
    *r = (struct replay){
        .model = m,
        .env = {.heads = model_heads(m, a->dtype), .machine = &g->mc},
        .use = g->use,
        .n_use = r->n_use,
        .replan = a->replan,
        .every = a->every,
        .check = a->check,
        .page_size = (int32_t)a->page,
        .exec = &g->exec,
    };
    run->prefill_rate = (double)a->prefill_rate;
    if (a->read)
        return set_up_reader(a, run, g, e);
    return a->machine ? set_up_machine(a, run, g, e) : set_up_device(a, run, g, e);
}

/* All that rows depend on, in one line. */
static char *describe(const struct args *a, const struct replay_run *run)
{
    const struct replay *r = &run->replay;
    char coefs[64] = "";
    if (a->coefficients)
        snprintf(coefs, sizeof coefs, " with fitted coefficients (sum %08" PRIx32 ")", run->coefs_sum);
    char *text = xasprintf("treeattn replay: model %s, %" PRId32 " layers, %s, %s%s, pages of %" PRId32
                           ", planned %s%s, every %" PRId64 ", check %" PRId64 ";",
                           r->model->name, r->model->layers, dtype_name[a->dtype],
                           a->machine ? a->machine : r->exec->name, coefs, r->page_size,
                           replan_name[r->replan], a->graph ? ", graphs" : "", r->every, r->check);
    for (int32_t i = 0; i < r->n_use; i++) {
        char *name = strategy_label(&r->use[i]), *longer = xasprintf("%s %s", text, name);
        free(name);
        free(text);
        text = longer;
    }
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++) {
            const struct replay_item *item = &run->job[j].item[k];
            char *longer =
                xasprintf("%s; %s, %" PRId64 " steps", text, trace_title(item->trace), item->src.last);
            free(text);
            text = longer;
        }
    return text;
}

/* Names and steps of all items, by number. */
static char **name_sources(const struct replay_run *run, int32_t *n, int64_t **last)
{
    char **name = NULL;
    int64_t cap = 0, cap_last = 0;
    *n = 0;
    *last = NULL;
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++) {
            name = xgrow(name, &cap, *n + 1, sizeof *name);
            *last = xgrow(*last, &cap_last, *n + 1, sizeof **last);
            (*last)[*n] = run->job[j].item[k].src.last;
            name[(*n)++] = xasprintf("%s tree %" PRId32, run->job[j].name, run->job[j].item[k].index);
        }
    return name;
}

/* False without a message in *e if the time is up. */
static bool replay_all(struct replay_run *run, struct replay_log *log, struct err *e)
{
    int64_t work = 0;
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++)
            work += replay_work(&run->replay, &run->job[j].item[k].src);
    struct progress progress = progress_start("replay", work);
    bool good = true;
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items && good; k++) {
            struct replay_item *item = &run->job[j].item[k];
            item->total = xcalloc((size_t)run->replay.n_use, sizeof *item->total);
            good = replay_source(&run->replay, &item->src, log, item->total, &item->pool, &progress, e);
        }
    progress_clear(&progress);
    return good;
}

/* Where, when and by which command. */
static char *origin(const struct args *a, const struct replay_run *run)
{
    char date[ORIGIN_DATE], *text = origin_command(a->argv[0], a->argc, a->argv);
    origin_date(date);
    char *all = xasprintf("%s; %s, commit %s, %s; host times: processor time of the host that ran it", text,
                          run->replay.exec->name, origin_commit(), date);
    free(text);
    return all;
}

/* Everything into *run; *stopped if --seconds ended it. */
static bool replay_logged(const struct args *a, struct replay_run *run, bool *stopped, struct err *e)
{
    if (!a->rows)
        return replay_all(run, NULL, e);
    char *what = describe(a, run);
    char *about = origin(a, run);
    struct replay_log_spec spec = {.path = a->rows,
                                   .read = a->read,
                                   .resume = a->resume,
                                   .seconds = (double)a->seconds,
                                   .what = what,
                                   .about = about,
                                   .use = run->replay.use,
                                   .n_use = run->replay.n_use};
    int64_t *last;
    char **name = name_sources(run, &spec.n_sources, &last);
    spec.source = name;
    spec.last = last;
    struct replay_log *log = replay_log_open(&spec, e);
    bool good = log != NULL;
    if (good) {
        good = replay_all(run, log, e);
        *stopped = !good && !e->code;
        good = replay_log_close(log, good, e) && good;
    }
    for (int32_t i = 0; i < spec.n_sources; i++)
        free(name[i]);
    free(name);
    free(last);
    free(what);
    free(about);
    return good;
}

static bool print_result(const struct args *a, const struct replay_run *run, struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, a->out.path, e))
        return false;
    if (a->out.style == STYLE_CSV) {
        char *what = describe(a, run), *about = a->read ? replay_log_line(a->rows, 1, e) : origin(a, run);
        if (!about)
            about = origin(a, run);
        fprintf(out.f, "# %s\n# %s\n", what, about);
        free(what);
        free(about);
    }
    if (a->out.style == STYLE_TEXT)
        replay_print_text(run, out.f, a->out.quiet);
    else
        replay_print_rows(run, out.f, a->out.style);
    return outfile_close(&out, true, e);
}

static void close_jobs(struct replay_run *run)
{
    for (int32_t j = 0; j < run->n_jobs && run->job; j++) {
        struct replay_job *job = &run->job[j];
        for (int32_t k = 0; k < job->n_items; k++) {
            trace_close(job->item[k].trace);
            free(job->item[k].total);
        }
        free(job->item);
        free(job->name);
        free(job->spec);
        free(job->lacks);
    }
    free(run->job);
}

/* Pages that no piece holds any more must all be back. */
static bool check_leaks(const struct replay_run *run, struct err *e)
{
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++)
            if (run->job[j].item[k].pool.leaked != 0) {
                err_set(e, "%s: %" PRId64 " pages of the KV pool leaked", run->job[j].name,
                        run->job[j].item[k].pool.leaked);
                e->code = EXIT_FAILED;
                return false;
            }
    return true;
}

/* A run of which nothing could be had is no success: without a trace, or on a device that lacked something for all, even for
 * steps without attention. */
static bool check_any(const struct replay_run *run, struct err *e)
{
    const char *why = NULL;
    for (int32_t j = 0; j < run->n_jobs; j++)
        for (int32_t k = 0; k < run->job[j].n_items; k++)
            for (int32_t i = 0; i < run->replay.n_use; i++) {
                const struct replay_total *x = &run->job[j].item[k].total[i];
                if (x->fate == FATE_RAN || simulated(run->replay.exec))
                    return true;
                why = x->why;
            }
    return why ? err_missing(e, "nothing was replayed: %.200s", why)
               : err_missing(e, "nothing was replayed: no %s (expected in --data DIR)", run->job[0].lacks);
}

int cmd_replay(int argc, char **argv)
{
    struct err e = {0};
    struct args a = {.tree = {.err = &e, .many = true},
                     .model = *model_find("llama-3-8b", &e),
                     .dtype = DT_BF16,
                     .every = 1,
                     .page = 16,
                     .argc = argc,
                     .argv = argv,
                     .err = &e};
    struct replay_run run = {0};
    struct ground ground = {.use = NULL};
    bool stopped = false;
    bool good = cmd_parse(&argp, argc, argv, &a, &e) && check_args(&a, &e) && open_jobs(&a, &run, &e) &&
                set_up(&a, &run, &ground, &e) && replay_logged(&a, &run, &stopped, &e) &&
                print_result(&a, &run, &e) && check_leaks(&run, &e) && check_any(&run, &e);
    if (stopped)
        fprintf(stderr, "treeattn: stopped after %" PRId64 " s; go on with --resume\n", a.seconds);
    close_jobs(&run);
    csv_clear(&run.golden);
    replay_device_close(&ground.device);
    free(ground.use);
    free(ground.reader);
    free(ground.title);
    tree_source_clear(&a.tree.src);
    return good || stopped ? EXIT_GOOD : cmd_error(&e);
}
