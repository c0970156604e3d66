/* cmd_list.c - `treeattn list strategies|options|kernels|formats|machines|figures|tiles|models|workloads`. */
#include "ref/model.h"
#include "sim/time/tiles.h"
#include "kernels/kernel.h"
#include "verify/cli/cmd.h"
#include "verify/io/text.h"
#include "traces/workloads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MACHINE = 0x900, KEY_DIM, KEY_DTYPE };

struct list_args {
    struct cmd_output out;
    const char *what;
    struct machine machine; /* figures, tiles: of this one */
    bool one_machine;
    int64_t d;
    enum dtype dtype;
    struct err *err;
};

static void list_strategies(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_strategies; i++) {
        const struct strategy *s = strategies[i];
        struct strategy_use use = strategy_default(s);
        char *options = strategy_params(&use);
        table_text(t, s->name);
        table_text(t, s->about);
        table_text(t, options[0] ? options : "-");
        table_text(t, s->source);
        free(options);
    }
}

static void list_options(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_strategies; i++)
        for (const struct strategy_opt *o = strategies[i]->opts; o && o->key; o++) {
            const double values[] = {o->def, o->min, o->max};
            table_text(t, strategies[i]->name);
            table_text(t, o->key);
            for (int k = 0; k < 3; k++) {
                char *value = strategy_opt_text(o, values[k]);
                table_text(t, value);
                free(value);
            }
            table_text(t, o->about);
        }
}

static void list_kernels(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_kernels; i++) {
        table_text(t, kernels[i]->name);
        table_text(t, kernels[i]->about);
    }
}

static void list_formats(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_formats; i++) {
        table_text(t, formats[i].name);
        table_text(t, formats[i].spec);
        table_text(t, formats[i].about);
    }
}

static void list_machines(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_machines; i++) {
        const struct machine *m = &machines[i];
        table_text(t, m->name);
        table_text(t, m->title);
        table_i64(t, m->sms);
        table_i64(t, m->smem_per_sm / 1024);
        table_f64(t, m->memory / 1e9, 5);
        table_f64(t, m->bandwidth / 1e9, 5);
        table_f64(t, m->l2_bytes / 1048576, 5);
        table_f64(t, m->l2_bandwidth / 1e9, 5);
        table_f64(t, m->tensor_flops / 1e12, 5);
        table_f64(t, m->latency_ns, 5);
        table_text(t, m->source[MACHINE_latency_ns]);
    }
}

static void list_figures_of(struct printer *t, const struct machine *m)
{
    for (int32_t f = 0; f < N_MACHINE_FIGURES; f++) {
        if (!m->source[f])
            continue;
        table_text(t, m->name);
        table_text(t, machine_figures[f].name);
        table_f64(t, machine_get(m, f), 6);
        table_text(t, machine_figures[f].unit);
        table_text(t, m->source[f]);
        table_text(t, machine_figures[f].about);
    }
}

/* Every figure with its own source. */
static void list_figures(struct printer *t, const struct list_args *a)
{
    if (a->one_machine)
        list_figures_of(t, &a->machine);
    for (int32_t i = 0; i < n_machines && !a->one_machine; i++)
        list_figures_of(t, &machines[i]);
}

static void list_tile(struct printer *t, const struct machine *m, struct tile x, int32_t d, int32_t elt_bytes)
{
    enum tile_fault fault = tile_check(m, x, d, elt_bytes);
    struct tile_code code = tile_code(x, d, elt_bytes);
    enum tile_bound bound;
    tile_fit(m, &code, tile_smem(x, d, elt_bytes), &bound);
    int64_t resident = tile_resident(m, x, d, elt_bytes);
    table_text(t, m->name);
    table_i64(t, d);
    table_i64(t, x.m);
    table_i64(t, x.n);
    table_text(t, fault == TILE_FITS ? "yes" : "no");
    table_text(t, fault == TILE_FITS ? tile_bound_name[bound] : tile_fault_name[fault]);
    table_i64(t, resident);
    table_i64(t, tile_smem(x, d, elt_bytes));
    table_i64(t, code.registers);
    table_f64(t, tile_in_flight(m, x, d, elt_bytes) / 1e3, 5);
    table_f64(t, tile_in_flight_least(m) / 1e3, 5);
    table_text(t, code.source);
}

/* Feasible or not, and what binds: the constraint that a tile breaks, or what bounds its CTAs on an SM. */
static void list_tiles(struct printer *t, const struct list_args *a)
{
    for (int32_t m = TILE_MIN / 2; m <= TILE_MAX; m *= 2)
        for (int32_t n = TILE_MIN / 2; n <= TILE_MAX; n *= 2)
            list_tile(t, &a->machine, (struct tile){m, n}, (int32_t)a->d, dtype_size[a->dtype]);
}

static void list_workloads(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_workloads; i++) {
        const struct workload *w = &workloads[i];
        table_text(t, w->name);
        table_text(t, w->group);
        table_text(t, w->trace);
        table_i64_if(t, w->opts.prompt > 0, w->opts.prompt);
        table_i64_if(t, w->opts.max_seq > 0, w->opts.max_seq);
        table_i64_if(t, w->opts.batch > 0, w->opts.batch);
        table_text(t, w->about);
    }
}

/* Shapes, and what they come to in 16-bit weights: GB of all weights; of those that every decode step reads; KB of a
 * token's K and V; GFLOP of a query's matrix products, attention left out. */
static void list_models(struct printer *t, const struct list_args *a)
{
    (void)a;
    for (int32_t i = 0; i < n_models; i++) {
        const struct model *m = &models[i];
        const int32_t shape[] = {m->layers, m->hidden, m->h_q, m->h_kv, m->d, m->ffn, m->vocab};
        table_text(t, m->name);
        for (size_t k = 0; k < sizeof shape / sizeof shape[0]; k++)
            table_i64(t, shape[k]);
        table_f64(t, (double)model_weight_bytes(m, DT_F16) / 1e9, 5);
        table_f64(t, (double)model_step_bytes(m, DT_F16) / 1e9, 5);
        table_f64(t, (double)model_kv_bytes(m, DT_F16) / 1e3, 5);
        table_f64(t, model_flops(m) / 1e9, 5);
        table_text(t, m->source);
    }
}

static const struct list_kind {
    const char *name;
    void (*print)(struct printer *t, const struct list_args *a);
    const char *column[14];
    int32_t width[13];
} kinds[] = {
    {"strategies", list_strategies, {"strategy", "about", "options", "source"}, {18, 0, 0, 0}},
    {"options",
     list_options,
     {"strategy", "option", "default", "least", "greatest", "about"},
     {18, 9, 10, 10, 10, 0}},
    {"kernels", list_kernels, {"kernel", "about"}, {18, 0}},
    {"formats", list_formats, {"format", "written", "about"}, {14, 40, 0}},
    {"machines",
     list_machines,
     {"machine", "name", "SMs", "KiB/SM", "GB", "GB/s", "L2 MiB", "L2 GB/s", "TFLOP/s", "latency ns",
      "latency from"},
     {10, 26, 5, 8, 6, 7, 7, 9, 8, 10, 0}},
    {"figures",
     list_figures,
     {"machine", "figure", "value", "unit", "source", "about"},
     {10, 17, 14, 8, 50, 0}},
    {"tiles",
     list_tiles,
     {"machine", "dim", "m", "n", "feasible", "binds", "CTAs/SM", "smem B", "regs", "flight kB", "least kB",
      "registers from"},
     {10, 5, 5, 5, 10, 16, 9, 8, 6, 11, 10, 0}},
    {"workloads",
     list_workloads,
     {"workload", "group", "trace", "prompt", "max_seq", "batch", "about"},
     {18, 8, 41, 6, 7, 5, 0}},
    {"models",
     list_models,
     {"model", "layers", "hidden", "q_heads", "kv_heads", "head_dim", "ffn", "vocab", "weights_GB", "step_GB",
      "KB/token", "GFLOP/query", "source"},
     {14, 6, 6, 7, 8, 8, 6, 7, 10, 8, 8, 11, 0}},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct list_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->out;
        return 0;
    case ARGP_KEY_ARG:
        if (a->what)
            return ARGP_ERR_UNKNOWN;
        a->what = arg;
        return 0;
    case KEY_MACHINE:
        a->one_machine = machine_parse(arg, &a->machine, a->err);
        return a->one_machine ? 0 : EINVAL;
    case KEY_DIM:
        return text_i64(arg, "--head-dim", 1, PROBLEM_MAX_D, &a->d, a->err) ? 0 : EINVAL;
    case KEY_DTYPE:
        if (dtype_parse(arg, &a->dtype))
            return 0;
        err_set(a->err, "--dtype '%s' (expected f64, f32, f16 or bf16)", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "For tiles; --machine for figures, too:", .group = 2},
            {"machine", KEY_MACHINE, "NAME[:K=V,..]", 0,
             "a GPU, or one with other figures: h200:bandwidth=4.5e12 (default h200; figures: all)", 2},
            {"head-dim", KEY_DIM, "D", 0, "elements of a head (default 128)", 2},
            {"dtype", KEY_DTYPE, "TYPE", 0, "f64, f32, f16 (default) or bf16", 2},
            {0},
        },
    .parser = parse,
    .args_doc = "strategies|options|kernels|formats|machines|figures|tiles|models|workloads",
    .doc =
        "What there is to choose from, one a line, with what it is and where it comes from. figures: all of "
        "a machine; the models rest on all but those that end in _measured, which are for reference. Rates "
        "(bandwidth, l2_bandwidth, tensor_flops) are of the whole device: more sms alone make each of them "
        "slower. options: what each strategy can be told, as in --strategy pat:rule=artifact. tiles: which "
        "tiles of m query rows x n tokens a machine runs well by "
        "PAT's constraints, and what binds. models: their shapes, and what those cost a decode step. "
        "workloads: "
        "what `treeattn replay` calls by a name.",
    .children = (const struct argp_child[]){{&cmd_output_argp, 0, NULL, 0}, {0}},
};

int cmd_list(int argc, char **argv)
{
    struct err e = {0};
    struct list_args a = {.machine = *machine_default(), .d = 128, .dtype = DT_F16, .err = &e};
    struct outfile out;
    if (!cmd_parse(&argp, argc, argv, &a, &e))
        return cmd_error(&e);
    const struct list_kind *kind = NULL;
    for (int i = 0; i < N_KINDS; i++)
        if (a.what && strcmp(kinds[i].name, a.what) == 0)
            kind = &kinds[i];
    if (!kind) {
        char names[200] = "";
        for (int i = 0; i < N_KINDS; i++)
            listing_add(names, sizeof names, kinds[i].name);
        err_set(&e, "list '%.40s' (expected %s)", a.what ? a.what : "", names);
        return cmd_error(&e);
    }
    if (!outfile_open(&out, a.out.path, &e))
        return cmd_error(&e);
    struct printer t = {
        .f = out.f, .style = a.out.style, .column = kind->column, .aligned = true, .width = kind->width};
    kind->print(&t, &a);
    table_end(&t);
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
