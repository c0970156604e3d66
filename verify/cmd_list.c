/* cmd_list.c - `treeattn list strategies|kernels|formats|machines`. */
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
        table_text(t, machines[i].name);
        table_text(t, machines[i].title);
        table_i64(t, machines[i].sms);
        table_f64(t, machines[i].bandwidth / 1e9, 5);
        table_text(t, machines[i].source);
    }
}

static const struct list_kind {
    const char *name;
    void (*print)(struct table *t);
    const char *column[6];
    int32_t width[5];
} kinds[] = {
    {"strategies", list_strategies, {"strategy", "about", "options", "source"}, {18, 0, 0, 0}},
    {"kernels", list_kernels, {"kernel", "about"}, {18, 0}},
    {"formats", list_formats, {"format", "written", "about"}, {14, 40, 0}},
    {"machines", list_machines, {"machine", "name", "SMs", "GB/s", "source"}, {10, 26, 5, 7, 0}},
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
    .args_doc = "strategies|kernels|formats|machines",
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
        err_set(&e, "list '%.40s' (expected strategies, kernels, formats or machines)", a.what ? a.what : "");
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
