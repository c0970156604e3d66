/* cmd_list.c - `treeattn list strategies|kernels|formats|machines|figures`. */
#include "verify/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct list_args {
    struct cmd_output out;
    const char *what;
};

static void list_strategies(struct table *t)
{
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

static void list_kernels(struct table *t)
{
    for (int32_t i = 0; i < n_kernels; i++) {
        table_text(t, kernels[i]->name);
        table_text(t, kernels[i]->about);
    }
}

static void list_formats(struct table *t)
{
    for (int32_t i = 0; i < n_formats; i++) {
        table_text(t, formats[i].name);
        table_text(t, formats[i].spec);
        table_text(t, formats[i].about);
    }
}

static void list_machines(struct table *t)
{
    for (int32_t i = 0; i < n_machines; i++) {
        const struct machine *m = &machines[i];
        table_text(t, m->name);
        table_text(t, m->title);
        table_i64(t, m->sms);
        table_i64(t, m->smem_per_sm / 1024);
        table_f64(t, m->memory / 1e9, 5);
        table_f64(t, m->bandwidth / 1e9, 5);
        table_f64(t, m->l2_bytes / 1e6, 5);
        table_f64(t, m->l2_bandwidth / 1e9, 5);
        table_f64(t, m->tensor_flops / 1e12, 5);
    }
}

/* Every figure of every machine, with its own source. */
static void list_figures(struct table *t)
{
    for (int32_t i = 0; i < n_machines; i++)
        for (int32_t f = 0; f < N_MACHINE_FIGURES; f++) {
            if (!machines[i].source[f])
                continue;
            table_text(t, machines[i].name);
            table_text(t, machine_figures[f].name);
            table_f64(t, machine_get(&machines[i], f), 6);
            table_text(t, machine_figures[f].unit);
            table_text(t, machines[i].source[f]);
            table_text(t, machine_figures[f].about);
        }
}

static const struct list_kind {
    const char *name;
    void (*print)(struct table *t);
    const char *column[10];
    int32_t width[9];
} kinds[] = {
    {"strategies", list_strategies, {"strategy", "about", "options", "source"}, {18, 0, 0, 0}},
    {"kernels", list_kernels, {"kernel", "about"}, {18, 0}},
    {"formats", list_formats, {"format", "written", "about"}, {14, 40, 0}},
    {"machines",
     list_machines,
     {"machine", "name", "SMs", "KiB/SM", "GB", "GB/s", "L2 MB", "L2 GB/s", "TFLOP/s"},
     {10, 26, 5, 8, 6, 7, 7, 9, 0}},
    {"figures",
     list_figures,
     {"machine", "figure", "value", "unit", "source", "about"},
     {10, 17, 14, 8, 50, 0}},
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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "strategies|kernels|formats|machines|figures",
    .doc = "What there is to choose from, one a line, with what it is and where it comes from.",
    .children = (const struct argp_child[]){{&cmd_output_argp, 0, NULL, 0}, {0}},
};

int cmd_list(int argc, char **argv)
{
    struct list_args a = {0};
    struct err e = {0};
    struct outfile out;
    if (!cmd_parse(&argp, argc, argv, &a, &e))
        return cmd_error(&e);
    const struct list_kind *kind = NULL;
    for (int i = 0; i < N_KINDS; i++)
        if (a.what && strcmp(kinds[i].name, a.what) == 0)
            kind = &kinds[i];
    if (!kind) {
        err_set(&e, "list '%.40s' (expected strategies, kernels, formats, machines or figures)",
                a.what ? a.what : "");
        return cmd_error(&e);
    }
    if (!outfile_open(&out, a.out.path, &e))
        return cmd_error(&e);
    struct table t = {
        .f = out.f, .style = a.out.style, .column = kind->column, .aligned = true, .width = kind->width};
    kind->print(&t);
    table_end(&t);
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
