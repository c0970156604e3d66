/* cmd_list.c - `treeattn list strategies|options|kernels|formats|machines|figures|tiles|models|workloads|suites`, or the cases of a suite. */
#include "ref/model.h"
#include "sim/time/tiles.h"
#include "kernels/kernel.h"
#include "verify/cli/cmd.h"
#include "verify/io/text.h"
#include "verify/suites/suites.h"
#include "traces/workloads.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct list_args {
    struct printer t;
    struct cmd_output out;
    struct machine machine; /* figures, tiles: of this one */
    bool one_machine;
    int64_t d;
    enum dtype dtype;
    const struct suite *suite; /* cases: of this one */
};

static void list_strategies(struct list_args *a)
{
    struct printer *t = &a->t;
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

static void list_options(struct list_args *a)
{
    struct printer *t = &a->t;
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

static void list_kernels(struct list_args *a)
{
    struct printer *t = &a->t;
    for (int32_t i = 0; i < n_kernels; i++) {
        table_text(t, kernels[i]->name);
        table_text(t, kernels[i]->about);
    }
}

static void list_formats(struct list_args *a)
{
    struct printer *t = &a->t;
    for (int32_t i = 0; i < n_formats; i++) {
        table_text(t, formats[i].name);
        table_text(t, formats[i].spec);
        table_text(t, formats[i].about);
    }
}

static void list_machines(struct list_args *a)
{
    struct printer *t = &a->t;
    for (int32_t i = 0; i < n_machines; i++) {
        const struct machine *m = &machines[i];
        table_text(t, m->name);
        table_text(t, m->title);
        table_i64(t, m->sms);
        table_i64(t, m->smem_per_sm / 1024);
        const double figures[] = {m->memory / 1e9,       m->bandwidth / 1e9,     m->l2_bytes / 1048576,
                                  m->l2_bandwidth / 1e9, m->tensor_flops / 1e12, m->latency_ns};
        for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
            table_f64(t, figures[k], 5);
        table_text(t, m->source[MACHINE_latency_ns]);
    }
}

/* Every figure with its own source. */
static void list_figures(struct list_args *a)
{
    struct printer *t = &a->t;
    for (int32_t i = 0; i < (a->one_machine ? 1 : n_machines); i++)
        for (int32_t f = 0; f < N_MACHINE_FIGURES; f++) {
            const struct machine *m = a->one_machine ? &a->machine : &machines[i];
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

static void list_tile(const struct list_args *a, struct printer *t, struct tile x)
{
    const struct machine *m = &a->machine;
    int32_t d = (int32_t)a->d, elt_bytes = dtype_size[a->dtype];
    enum tile_fault fault = tile_check(m, x, d, elt_bytes);
    struct tile_code code = tile_code(x, d, elt_bytes);
    enum tile_bound bound;
    tile_fit(m, &code, tile_smem(x, d, elt_bytes), &bound);
    table_text(t, m->name);
    table_i64(t, d);
    table_i64(t, x.m);
    table_i64(t, x.n);
    table_text(t, fault == TILE_FITS ? "yes" : "no");
    table_text(t, fault == TILE_FITS ? tile_bound_name[bound] : tile_fault_name[fault]);
    table_i64(t, tile_resident(m, x, d, elt_bytes));
    table_i64(t, tile_smem(x, d, elt_bytes));
    table_i64(t, code.registers);
    table_f64(t, tile_in_flight(m, x, d, elt_bytes) / 1e3, 5);
    table_f64(t, tile_in_flight_least(m) / 1e3, 5);
    table_text(t, code.source);
}

/* Feasible or not, and what binds: the constraint that a tile breaks, or what bounds its CTAs on an SM. */
static void list_tiles(struct list_args *a)
{
    for (int32_t m = TILE_MIN / 2; m <= TILE_MAX; m *= 2)
        for (int32_t n = TILE_MIN / 2; n <= TILE_MAX; n *= 2)
            list_tile(a, &a->t, (struct tile){m, n});
}

static void list_workloads(struct list_args *a)
{
    struct printer *t = &a->t;
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
 * token's K and V; GFLOP of a query's matrix products, attention left out. Of some models attention alone is known. */
static void list_models(struct list_args *a)
{
    struct printer *t = &a->t;
    for (int32_t i = 0; i < n_models; i++) {
        const struct model *m = &models[i];
        const int32_t shape[] = {m->layers, m->hidden, m->h_q, m->h_kv, m->d};
        const int32_t where_any[] = {m->d_v, m->window, m->window_layers, m->ffn, m->vocab};
        bool whole = model_is_whole(m);
        table_text(t, m->name);
        for (size_t k = 0; k < sizeof shape / sizeof shape[0]; k++)
            table_i64(t, shape[k]);
        for (size_t k = 0; k < sizeof where_any / sizeof where_any[0]; k++)
            table_i64_if(t, where_any[k] > 0, where_any[k]);
        table_f64_if(t, m->soft_cap > 0, m->soft_cap, 3);
        table_i64_if(t, m->sinks, m->h_q);
        table_f64(t, (double)model_kv_bytes(m, DT_F16) / 1e3, 5);
        table_f64_if(t, whole, whole ? (double)model_weight_bytes(m, DT_F16) / 1e9 : 0, 5);
        table_f64_if(t, whole, whole ? (double)model_step_bytes(m, DT_F16) / 1e9 : 0, 5);
        table_f64_if(t, whole, whole ? model_flops(m) / 1e9 : 0, 5);
        table_text(t, m->source);
    }
}

static void list_suites(struct list_args *a)
{
    struct printer *t = &a->t;
    for (int32_t i = 0; i < n_suites; i++) {
        struct case_spec *list;
        struct err e = {0};
        char sha[SHA256_TEXT];
        int64_t n;
        CK(suite_cases(&suites[i], &list, &n, &e)); /* a test reads them all */
        for (int64_t k = 0; k < n; k++)
            case_clear(&list[k]);
        free(list);
        table_text(t, suites[i].name);
        table_i64(t, n);
        table_text(t, suites[i].about);
        table_text(t, suite_sha256(&suites[i], sha));
    }
}

static void list_cases(struct list_args *a)
{
    struct case_spec *list;
    struct err e = {0};
    int64_t n;
    CK(suite_cases(a->suite, &list, &n, &e));
    for (int64_t k = 0; k < n; k++) {
        char *text = case_print(&list[k]);
        table_text(&a->t, text);
        free(text);
        case_clear(&list[k]);
    }
    free(list);
}

static const struct list_kind {
    const char *name;
    void (*print)(struct list_args *a);
    const char *column[19];
    int32_t width[18];
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
    {"suites", list_suites, {"suite", "cases", "about", "sha256"}, {10, 5, 0, 0}},
    {"models",
     list_models,
     {"model", "layers", "hidden", "q_heads", "kv_heads", "head_dim", "v_dim", "window", "windowed", "ffn",
      "vocab", "soft_cap", "sinks", "KB/token", "weights_GB", "step_GB", "GFLOP/query", "source"},
     {15, 6, 6, 7, 8, 8, 5, 6, 8, 6, 7, 8, 5, 8, 10, 8, 11}},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
static const struct list_kind cases = {"", list_cases, {"case"}, {0}};

/* The kind asked for. */
static const struct list_kind *read_options(struct list_args *a, int argc, char **argv, struct err *e)
{
    const char *word = "";
    struct options o = {
        .about = "Prints what there is to choose from, one a line, with what it is and where it comes from.",
        .examples = "list strategies\n"
                    "list formats\n"
                    "list suites\n"
                    "list decode-1 --csv\n"
                    "list tiles --machine h100 --head-dim 64",
        .details =
            "strategies: the rules from tree to plan; options: what each can be told, as in --strategy "
            "pat:rule=artifact; kernels: what runs plans; formats: trees and traces that can be read; "
            "workloads: what `treeattn replay --workload` calls by a name; models: their shapes, and what a "
            "decode step of them costs. v_dim: V is the first elements of K's row, which is stored once; window: "
            "tokens that a query sees at most in the layers of `windowed`; a model without ffn and vocab is one of "
            "which attention alone is described, and which replay and decode refuse.\n"
            "machines: the GPUs that can be simulated. figures: all that is known of a machine, with its "
            "source. Figures that end in _measured are for reference; the models use the others. bandwidth, "
            "l2_bandwidth and tensor_flops are of the whole device, so more sms alone make each SM slower.\n"
            "tiles: which tiles of m query rows x n tokens a machine runs well by PAT's constraints, and "
            "what binds.\n"
            "suites: fixed lists of cases for `treeattn verify --suite`, how many each has, and the SHA-256 of its file. The "
            "name of a suite lists its cases.",
        .words = "strategies|options|kernels|formats|machines|figures|tiles|models|workloads|suites|SUITE",
        .needs = "no kind given (expected strategies, options, kernels, formats, machines, figures, tiles, "
                 "models, workloads, suites or the name of a suite)",
        .word = &word,
        .max_words = 1};
    const struct opt own[] = {
        HEADING("For tiles and figures:"),
        CALL("machine", "NAME[:K=V,..]", set_machine, &a->machine, "h200",
             "a GPU, or one with other figures: h200:bandwidth=4.5e12; figures without --machine are of all",
             .given = &a->one_machine),
        HEADING("For tiles:"),
        I64("head-dim", "D", &a->d, 1, PROBLEM_MAX_D, "128", "elements of a head"),
        dtype_option(&a->dtype, "f16", "of K and V:"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "a list has no summary (expected none)");
    if (!options_parse(&o, argc, argv, e))
        return NULL;
    char names[200] = "";
    for (int i = 0; i < N_KINDS; i++) {
        if (strcmp(kinds[i].name, word) == 0)
            return &kinds[i];
        listing_add(names, sizeof names, kinds[i].name);
    }
    if ((a->suite = suite_find(word, NULL)))
        return &cases;
    err_set(e, "list '%.40s' (expected %s, or the name of a suite)", word, names);
    return NULL;
}

int cmd_list(int argc, char **argv)
{
    struct err e = {0};
    struct list_args a = {.one_machine = false};
    struct outfile out;
    const struct list_kind *kind = read_options(&a, argc, argv, &e);
    if (!kind || !outfile_open(&out, a.out.path, &e))
        return cmd_error(&e);
    a.t = cmd_table(&out, &a.out, kind->column, kind->width);
    kind->print(&a);
    table_end(&a.t);
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
