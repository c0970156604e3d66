/*
 * cmd_sim.c - `treeattn sim`: what strategies move over a whole trace, or on one tree, by three ways of
 * counting.
 */
#include "verify/cmd.h"
#include "verify/sweep.h"
#include "verify/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_STRATEGY = 0x700, KEY_COUNT, KEY_LAYERS };
enum { LLAMA3_LAYERS = 32, MAX_LAYERS = 1 << 16 };

struct sim_args {
    struct treesrc_cli tree;
    struct cmd_problem problem;
    struct cmd_output out;
    char *strategies; /* a comma-separated list; NULL: all */
    enum count_mode mode;
    int64_t layers;
    struct err *err;
};

/* A tree, or a trace from its first to its last step. */
struct sim_source {
    int32_t index; /* --tree */
    struct trace *trace;
    struct tree *tree;
    struct sweep_source steps;
};

struct sim_run {
    struct sim_args *a;
    struct problem_spec spec;
    struct strategy_use *use;
    int32_t n_use;
    struct sim_source *source;
    int64_t n_sources;
    struct sweep_row *row; /* [n_sources][n_use] */
};

/* ---- options ------------------------------------------------------------------------------------------ */

/* One list out of several --strategy. */
static void add_strategies(struct sim_args *a, const char *arg)
{
    char *longer = a->strategies ? xasprintf("%s,%s", a->strategies, arg) : xstrdup(arg);
    free(a->strategies);
    a->strategies = longer;
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
    case KEY_LAYERS:
        good = text_i64(arg, "--layers", 1, MAX_LAYERS, &a->layers, a->err);
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
            {"strategy", KEY_STRATEGY, "LIST", 0,
             "NAME[:K=V,..],.. or all (default all); may be given several times", 3},
            {"count", KEY_COUNT, "MODE", 0,
             "true: what a kernel must move (default); paper: as DeFT's tables count; deft: as DeFT's "
             "release "
             "counts",
             3},
            {"layers", KEY_LAYERS, "L", 0, "layers of the model (default 32)", 3},
            {0},
        },
    .parser = parse,
    .doc =
        "Plan every step of a trace, or one tree, with each strategy and add up the bytes that the plans "
        "move in "
        "all layers: one row per tree and strategy. Heads default to Llama-3-8B's. With several trees, text "
        "ends with their mean, and --quiet prints only that. Nothing is run: figures are counted.",
    .children = (const struct argp_child[]){{&treesrc_argp, 0, NULL, 0},
                                            {&cmd_problem_argp, 0, NULL, 0},
                                            {&cmd_output_argp, 0, NULL, 0},
                                            {0}},
};

/* ---- sources ------------------------------------------------------------------------------------------ */

static bool open_trace(const struct treesrc *src, int32_t index, struct sim_source *out, struct err *e)
{
    struct trace_opts opts = src->trace;
    opts.tree_index = index;
    struct trace *tr = trace_open(src->text, &opts, e);
    if (!tr)
        return false;
    int64_t n = trace_steps(tr);
    *out = (struct sim_source){.index = index, .trace = tr};
    out->steps = (struct sweep_source){
        .trace = tr, .first = src->step ? src->step : 1, .last = src->step ? src->step : n};
    return src->step <= n ||
           err_set(e, "%s: step %" PRId64 " (expected 1 to %" PRId64 ")", src->text, src->step, n);
}

static bool open_traces(struct sim_run *run, struct err *e)
{
    const struct treesrc *src = &run->a->tree.src;
    int64_t first = src->trace.tree_index, last = run->a->tree.tree_last, cap = 0;
    for (int64_t k = first; k <= last; k++) {
        run->source = xgrow(run->source, &cap, run->n_sources + 1, sizeof *run->source);
        struct sim_source *s = &run->source[run->n_sources];
        *s = (struct sim_source){0};
        run->n_sources++;
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

static bool open_sources(struct sim_run *run, struct err *e)
{
    if (run->a->tree.src.kind == SRC_TRACE)
        return open_traces(run, e);
    struct tree *t = treesrc_load(&run->a->tree.src, e);
    if (!t)
        return false;
    run->n_sources = 1;
    run->source = xcalloc(1, sizeof *run->source);
    run->source[0] = (struct sim_source){.tree = t, .steps = {.tree = t, .first = 1, .last = 1}};
    return true;
}

static int64_t steps_of(const struct sim_source *s)
{
    return s->steps.last - s->steps.first + 1;
}

/* ---- running ------------------------------------------------------------------------------------------ */

static bool simulate(struct sim_run *run, struct err *e)
{
    const struct problem_spec *p = &run->spec;
    struct sweep s = {
        .use = run->use,
        .n_use = run->n_use,
        .env = {.h_q = p->h_q,
                .h_kv = p->h_kv,
                .d = p->d,
                .elt_bytes = dtype_size[p->dtype],
                .machine = machine_default()},
        .price = {.h_q = p->h_q,
                  .h_kv = p->h_kv,
                  .d = p->d,
                  .elt_bytes = dtype_size[p->dtype],
                  .float_bytes = p->dtype == DT_F64 ? 8 : 4},
        .mode = run->a->mode,
    };
    int64_t steps = 0;
    for (int64_t i = 0; i < run->n_sources; i++)
        steps += steps_of(&run->source[i]);
    run->row = xcalloc((size_t)(run->n_sources * run->n_use), sizeof *run->row);
    struct progress progress = progress_start("sim", steps);
    bool good = true;
    for (int64_t i = 0; i < run->n_sources && good; i++)
        good = sweep_run(&s, &run->source[i].steps, run->a->layers, run->row + i * run->n_use, &progress, e);
    progress_clear(&progress);
    return good;
}

/* ---- what scripts read -------------------------------------------------------------------------------- */

/* Names of counters as in DeFT's recorded runs. Bytes and multiply-adds are of all layers, groups and launches of
 * one. */
static const char *const columns[] = {"source",
                                      "tree",
                                      "step",
                                      "prompt_len",
                                      "max_seq_len",
                                      "strategy",
                                      "count",
                                      "layers",
                                      "q_heads",
                                      "kv_heads",
                                      "head_dim",
                                      "dtype",
                                      "iterations",
                                      "generated_len",
                                      "KV_IO_bytes",
                                      "Mask_IO_bytes",
                                      "QK_IO_bytes",
                                      "QK_scale_IO_bytes",
                                      "QK_scale_masked_IO_bytes",
                                      "SoftMax_IO_bytes",
                                      "QO_IO_bytes",
                                      "partial_IO_bytes",
                                      "mac_useful",
                                      "mac_masked",
                                      "mac_padded",
                                      "pad_rows",
                                      "pad_tokens",
                                      "groups",
                                      "launches",
                                      "why",
                                      NULL};

static void i64_or_none(struct table *t, bool there, int64_t x)
{
    if (there)
        table_i64(t, x);
    else
        table_none(t);
}

static void print_source(struct table *t, const struct sim_run *run, const struct sim_source *s)
{
    const struct treesrc *src = &run->a->tree.src;
    char *text = s->trace ? xstrdup(src->text) : treesrc_print(src);
    table_text(t, text);
    free(text);
    i64_or_none(t, s->trace, s->index);
    i64_or_none(t, src->step > 0, src->step);
    i64_or_none(t, s->trace && trace_prompt(s->trace) > 0, s->trace ? trace_prompt(s->trace) : 0);
    i64_or_none(t, src->trace.max_seq > 0, src->trace.max_seq);
}

/* A field that the way of counting has, for all layers. */
static void print_counted(struct table *t, const struct sim_run *run, bool counted, int64_t x)
{
    i64_or_none(t, counted, x * run->a->layers);
}

static void print_row(struct table *t, const struct sim_run *run, const struct sim_source *s, int32_t i,
                      const struct sweep_row *r)
{
    const struct problem_spec *p = &run->spec;
    const struct ledger *l = &r->moved;
    bool ran = r->skipped_at == 0, all = run->a->mode == COUNT_TRUE,
         whole = s->trace && !run->a->tree.src.step;
    print_source(t, run, s);
    char *name = case_print_strategy(&run->use[i]);
    table_text(t, name);
    free(name);
    table_text(t, count_mode_name[run->a->mode]);
    table_i64(t, run->a->layers);
    table_i64(t, p->h_q);
    table_i64(t, p->h_kv);
    table_i64(t, p->d);
    table_text(t, dtype_name[p->dtype]);
    table_i64(t, steps_of(s));
    i64_or_none(t, whole, whole ? trace_generated(s->trace) : 0);
    print_counted(t, run, ran, l->kv);
    print_counted(t, run, ran, l->mask);
    print_counted(t, run, ran, l->qk_write + l->qk_read);
    print_counted(t, run, ran, l->scaled_write + l->scaled_read);
    print_counted(t, run, ran, l->masked_write + l->masked_read);
    print_counted(t, run, ran, l->softmax_write + l->softmax_read);
    print_counted(t, run, ran && run->a->mode != COUNT_PAPER, l->q + l->out);
    print_counted(t, run, ran && all, ledger_partials(l));
    print_counted(t, run, ran && all, l->mac_useful);
    print_counted(t, run, ran && all, l->mac_masked);
    print_counted(t, run, ran && all, l->mac_padded);
    print_counted(t, run, ran && all, l->pad_rows);
    print_counted(t, run, ran && all, l->pad_tokens);
    i64_or_none(t, ran, r->groups);
    i64_or_none(t, ran && all, l->launches);
    table_text(t, r->why);
}

static void print_rows(struct sim_run *run, FILE *f)
{
    struct table t = {.f = f, .style = run->a->out.style, .column = columns};
    for (int64_t k = 0; k < run->n_sources; k++)
        for (int32_t i = 0; i < run->n_use; i++)
            print_row(&t, run, &run->source[k], i, &run->row[k * run->n_use + i]);
    table_end(&t);
}

/* ---- what people read --------------------------------------------------------------------------------- */

/* The unit in which no figure needs more than three digits before its point. */
struct unit {
    double bytes;
    const char *name;
};

static double all_bytes(const struct ledger *l)
{
    return (double)l->kv + (double)l->q + (double)l->mask + (double)ledger_scores(l) +
           (double)ledger_partials(l) + (double)l->out;
}

static struct unit choose_unit(const struct sim_run *run)
{
    static const struct unit units[] = {{1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}, {1e15, "PB"}};
    double most = 0;
    for (int64_t k = 0; k < run->n_sources * run->n_use; k++)
        most = fmax(most, all_bytes(&run->row[k].moved) * (double)run->a->layers);
    int u = 0;
    while (u < 4 && most >= 1000 * units[u].bytes)
        u++;
    return units[u];
}

static void print_head(const struct sim_run *run, FILE *f)
{
    const struct sim_source *s = &run->source[0];
    const struct problem_spec *p = &run->spec;
    if (s->trace) {
        fprintf(f, "%s\n", trace_title(s->trace));
        if (run->n_sources > 1)
            fprintf(f, "... to tree %" PRId32 ": %" PRId64 " trees\n", run->source[run->n_sources - 1].index,
                    run->n_sources);
        for (int64_t k = 0; k < run->n_sources; k++)
            if (trace_remark(run->source[k].trace)[0])
                fprintf(f, "remark: tree %" PRId32 ": %s\n", run->source[k].index,
                        trace_remark(run->source[k].trace));
    } else {
        char *text = treesrc_print(&run->a->tree.src);
        fprintf(f, "%s: %" PRId32 " nodes, %" PRId32 " queries, %" PRId64 " tokens\n", text, s->tree->n_nodes,
                s->tree->n_queries, tree_tokens(s->tree));
        free(text);
    }
    fprintf(f,
            "%" PRId64 " layers, %" PRId32 " query heads, %" PRId32 " KV heads, d = %" PRId32
            ", %s; count %s\n\n",
            run->a->layers, p->h_q, p->h_kv, p->d, dtype_name[p->dtype], count_mode_name[run->a->mode]);
}

/* A line of the table: bytes of `over` trees together, shown as their mean. */
static void print_line(struct table *t, const struct sim_run *run, const char *tree, const char *strategy,
                       const struct sweep_row *r, double over, struct unit unit)
{
    const struct ledger *l = &r->moved;
    bool all = run->a->mode == COUNT_TRUE;
    double scale = (double)run->a->layers / over / unit.bytes;
    double pairs = (double)l->mac_useful + (double)l->mac_masked + (double)l->mac_padded;
    const struct {
        bool counted;
        double x;
    } cell[] = {
        {true, (double)l->kv * scale},
        {true, (double)l->mask * scale},
        {true, (double)ledger_scores(l) * scale},
        {run->a->mode != COUNT_PAPER, ((double)l->q + (double)l->out) * scale},
        {all, (double)ledger_partials(l) * scale},
        {true, all_bytes(l) * scale},
        {true, (double)r->groups / (double)max_i64(r->steps, 1)},
        {all && pairs > 0, 100 * (1 - (double)l->mac_useful / pairs)},
    };
    table_text(t, tree);
    table_text(t, strategy);
    for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++)
        if (cell[i].counted && r->skipped_at == 0)
            table_f64(t, cell[i].x, 4);
        else
            table_none(t);
}

/* The mean over the trees, if the strategy applied to all of them. */
static void print_mean(struct table *t, const struct sim_run *run, int32_t i, const char *name,
                       struct unit unit)
{
    struct sweep_row sum = {0};
    for (int64_t k = 0; k < run->n_sources; k++) {
        const struct sweep_row *r = &run->row[k * run->n_use + i];
        ledger_add(&sum.moved, &r->moved);
        sum.steps += r->steps;
        sum.groups += r->groups;
        sum.skipped_at = max_i64(sum.skipped_at, r->skipped_at);
    }
    print_line(t, run, "mean", name, &sum, (double)run->n_sources, unit);
}

static void print_skipped(const struct sim_run *run, FILE *f)
{
    for (int64_t k = 0; k < run->n_sources; k++)
        for (int32_t i = 0; i < run->n_use; i++) {
            const struct sweep_row *r = &run->row[k * run->n_use + i];
            if (r->skipped_at > 0)
                fprintf(f, "%s: SKIP: tree %" PRId32 ", step %" PRId64 ": %s\n", run->use[i].s->name,
                        run->source[k].index, r->skipped_at, r->why);
        }
}

static void print_text(struct sim_run *run, FILE *f)
{
    struct unit unit = choose_unit(run);
    char head[6][24];
    static const char *const what[] = {"KV", "masks", "scores", "Q and O", "partials", "total"};
    const char *column[] = {"tree",  "strategy", head[0],       head[1],    head[2], head[3],
                            head[4], head[5],    "groups/step", "% wasted", NULL};
    static const int32_t widths[] = {5, 18, 9, 9, 9, 10, 11, 9, 11, 8};
    for (int i = 0; i < 6; i++)
        snprintf(head[i], sizeof head[i], "%s %s", what[i], unit.name);
    struct table t = {.f = f, .column = column, .aligned = true, .width = widths};
    bool mean = run->n_sources > 1;
    print_head(run, f);
    for (int64_t k = 0; k < run->n_sources && !(mean && run->a->out.quiet); k++)
        for (int32_t i = 0; i < run->n_use; i++) {
            char tree[16];
            snprintf(tree, sizeof tree, "%" PRId32, run->source[k].index);
            char *name = case_print_strategy(&run->use[i]);
            print_line(&t, run, tree, name, &run->row[k * run->n_use + i], 1, unit);
            free(name);
        }
    for (int32_t i = 0; i < run->n_use && mean; i++) {
        char *name = case_print_strategy(&run->use[i]);
        print_mean(&t, run, i, name, unit);
        free(name);
    }
    table_end(&t);
    fputs("\n% wasted: multiply-adds of tile padding and of pairs that a mask hides; -: this count leaves it "
          "out\n",
          f);
    print_skipped(run, f);
}

/* ---- the command -------------------------------------------------------------------------------------- */

static bool check_args(struct sim_args *a, struct sim_run *run, struct err *e)
{
    run->spec = case_default_spec();
    run->spec.h_q = 32; /* Llama-3-8B */
    run->spec.h_kv = 8;
    run->spec.d = 128;
    cmd_problem_apply(&a->problem, &run->spec);
    const char *list = a->strategies && strcmp(a->strategies, "all") != 0 ? a->strategies : NULL;
    return problem_spec_check(&run->spec, e) && treesrc_finish(&a->tree, true, e) &&
           case_strategies(list, &run->use, &run->n_use, e);
}

static bool print_result(struct sim_run *run, struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, run->a->out.path, e))
        return false;
    if (run->a->out.style == STYLE_TEXT)
        print_text(run, out.f);
    else
        print_rows(run, out.f);
    return outfile_close(&out, true, e);
}

int cmd_sim(int argc, char **argv)
{
    struct err e = {0};
    struct sim_args a = {
        .tree = {.err = &e, .many = true}, .problem.err = &e, .layers = LLAMA3_LAYERS, .err = &e};
    struct sim_run run = {.a = &a};
    bool good = cmd_parse(&argp, argc, argv, &a, &e) && check_args(&a, &run, &e) && open_sources(&run, &e) &&
                simulate(&run, &e) && print_result(&run, &e);
    for (int64_t k = 0; k < run.n_sources; k++) {
        trace_close(run.source[k].trace);
        tree_free(run.source[k].tree);
    }
    free(run.source);
    free(run.row);
    free(run.use);
    free(a.strategies);
    treesrc_clear(&a.tree.src);
    return good ? EXIT_GOOD : cmd_error(&e);
}
