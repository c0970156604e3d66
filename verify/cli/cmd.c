#include "verify/cli/cmd.h"
#include "kernels/cuda/host/cuda.h"
#include "verify/io/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cmd_error(const struct err *e)
{
    CK(e->code);
    fprintf(stderr, "treeattn: %s\n", e->msg);
    return e->code;
}

int cmd_printed(void)
{
    struct err e = {0};
    struct outfile out = {.f = stdout};
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}

/* ---- argp with one-line errors ------------------------------------------------------------------------ */

static bool option_ends(const struct argp_option *o)
{
    return !o || (!o->name && !o->key && !o->doc);
}

static const struct argp_option *find_here(const struct argp *a, const char *name, size_t n, bool exact)
{
    const struct argp_option *found = NULL;
    for (const struct argp_option *o = a->options; !option_ends(o); o++)
        if (o->name && strncmp(o->name, name, n) == 0 && (!exact || strlen(o->name) == n))
            found = o;
    return found;
}

/* Of an argp or else its children. */
static const struct argp_option *find_long(const struct argp *a, const char *name, size_t n, bool exact)
{
    const struct argp_option *found = find_here(a, name, n, exact);
    for (const struct argp_child *c = a->children; c && c->argp && !found; c++)
        found = find_long(c->argp, name, n, exact);
    return found;
}

const struct argp_option *cmd_option(const struct argp *a, int key)
{
    for (const struct argp_option *o = a->options; !option_ends(o); o++)
        if (o->key == key)
            return o;
    for (const struct argp_child *c = a->children; c && c->argp; c++) {
        const struct argp_option *o = cmd_option(c->argp, key);
        if (o)
            return o;
    }
    return NULL;
}

static const struct argp_option *find_option(const struct argp *a, const char *arg, const char **value)
{
    if (arg[1] != '-') {
        *value = arg[2] ? arg + 2 : NULL;
        return cmd_option(a, (unsigned char)arg[1]);
    }
    size_t n = strcspn(arg + 2, "=");
    *value = arg[2 + n] ? arg + 3 + n : NULL;
    const struct argp_option *o = find_long(a, arg + 2, n, true);
    return o ? o : find_long(a, arg + 2, n, false);
}

int cmd_word(const struct argp *a, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *value;
        const struct argp_option *o = find_option(a, argv[i], &value);
        i += o && o->arg && !value;
    }
    return i < argc ? i : 0;
}

/* What a child's help says of options that `top` has taken over is left out. */
static void print_help(const struct argp *top, const char *command)
{
    enum { MOST_CHILDREN = 4 };
    struct argp a = *top, own[MOST_CHILDREN];
    struct argp_child child[MOST_CHILDREN + 1] = {0};
    struct argp_option *kept[MOST_CHILDREN];
    int n = 0;
    for (const struct argp_child *c = top->children; c && c->argp; c++, n++) {
        CK(n < MOST_CHILDREN);
        const struct argp_option *o = c->argp->options;
        size_t n_options = 0, n_kept = 0;
        while (!option_ends(&o[n_options]))
            n_options++;
        kept[n] = xcalloc(n_options + 1, sizeof *kept[n]);
        for (; !option_ends(o); o++)
            if (!o->name || !find_here(top, o->name, strlen(o->name), true))
                kept[n][n_kept++] = *o;
        own[n] = *c->argp;
        own[n].options = kept[n];
        child[n] = *c;
        child[n].argp = &own[n];
    }
    a.children = child;
    char *name = xasprintf("treeattn %s", command);
    argp_help(&a, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, name);
    free(name);
    while (n > 0)
        free(kept[--n]);
}

/* argp and getopt complain in two lines of their own wording; options are looked over first, so that a wrong
 * one gets a single sentence. */
static bool check_options(const struct argp *a, int argc, char **argv, struct err *e)
{
    bool csv = false, json = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' || argv[i][1] == 0)
            continue;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0) {
            print_help(a, argv[0]);
            exit(cmd_printed());
        }
        const char *value;
        const struct argp_option *o = find_option(a, argv[i], &value);
        if (!o)
            return err_set(e, "%s: unknown option '%s' (see treeattn %s --help)", argv[0], argv[i], argv[0]);
        csv = csv || (o->name && strcmp(o->name, "csv") == 0);
        json = json || (o->name && strcmp(o->name, "json") == 0);
        if (csv && json)
            return err_set(e, "%s: --csv and --json exclude each other (expected one)", argv[0]);
        if (o->arg && !value && ++i >= argc)
            return err_set(e, "%s: option '%s' lacks its value %s", argv[0], argv[i - 1], o->arg);
    }
    return true;
}

bool cmd_parse(const struct argp *argp, int argc, char **argv, void *input, struct err *e)
{
    if (!check_options(argp, argc, argv, e))
        return false;
    int rest = argc;
    error_t code = argp_parse(argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, &rest, input);
    if (e->code)
        return false;
    if (code)
        return err_set(e, "%s: options could not be understood (see treeattn %s --help)", argv[0], argv[0]);
    if (rest < argc)
        return err_set(e, "%s: argument '%s' is one too many (see treeattn %s --help)", argv[0], argv[rest],
                       argv[0]);
    return true;
}

bool cmd_arch(const char *arg, struct err *e)
{
    bool ampere = strcmp(arg, "80") == 0;
    if (!ampere && strcmp(arg, "auto") != 0)
        return err_set(e, "--arch '%.40s' (expected auto or 80)", arg);
    cuda_force_arch(ampere ? 80 : 0);
    return true;
}

/* ---- shared options ----------------------------------------------------------------------------------- */

enum { KEY_CSV = 0x200, KEY_JSON, KEY_HEADS, KEY_DTYPE, KEY_DIM, KEY_PAGE, KEY_FILL };

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
    struct cmd_output *out = state->input;
    switch (key) {
    case KEY_CSV:
        out->style = STYLE_CSV;
        return 0;
    case KEY_JSON:
        out->style = STYLE_JSON;
        return 0;
    case 'q':
        out->quiet = true;
        return 0;
    case 'o':
        out->path = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cmd_output_argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is printed:", .group = 8},
            {"csv", KEY_CSV, NULL, 0, "comma-separated values", 8},
            {"json", KEY_JSON, NULL, 0, "a JSON array; what is infinite is the largest number there is", 8},
            {"quiet", 'q', NULL, 0, "only what did not pass, and the totals", 8},
            {"output", 'o', "FILE", 0,
             "into FILE, under a temporary name until it is complete; -: standard output", 8},
            {0},
        },
    .parser = parse_output,
};

static error_t parse_problem(int key, char *arg, struct argp_state *state)
{
    struct cmd_problem *c = state->input;
    struct problem_given *g = &c->given;
    int64_t x = 0;
    bool good = true;
    switch (key) {
    case KEY_HEADS:
        g->heads = good = text_heads(arg, &g->spec.heads.h_q, &g->spec.heads.h_kv, c->err);
        break;
    case KEY_DTYPE:
        g->dtype = good = dtype_parse(arg, &g->spec.heads.dtype) ||
                          err_set(c->err, "--dtype '%s' (expected f64, f32, f16 or bf16)", arg);
        break;
    case KEY_DIM:
        g->d = good = text_i64(arg, "--head-dim", 1, PROBLEM_MAX_D, &x, c->err);
        g->spec.heads.d = (int32_t)x;
        break;
    case KEY_PAGE:
        g->page = good = text_i64(arg, "--page", 1, 65536, &x, c->err);
        g->spec.page_size = (int32_t)x;
        break;
    case KEY_FILL:
        g->fill = good = fill_parse(arg, &g->spec.fill) ||
                         err_set(c->err, "--fill '%s' (expected " FILL_KINDS("") ")", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

const struct argp cmd_problem_argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "Heads and storage (verify: of a tree or trace given; random trees draw their own):",
             .group = 2},
            {"heads", KEY_HEADS, "Q/KV", 0, "query heads / KV heads (default 32/8; verify: 4/2)", 2},
            {"head-dim", KEY_DIM, "D", 0,
             "elements of a head, 1 to 256 (default 128; verify: 64 up to 31 query heads)", 2},
            {"dtype", KEY_DTYPE, "TYPE", 0, "f64, f32, f16 (default) or bf16", 2},
            {"page", KEY_PAGE, "SIZE", 0, "tokens of a page of the KV pool (default 16; bench gpu: 64)", 2},
            {"fill", KEY_FILL, "KIND", 0, FILL_KINDS(" (default)"), 2},
            {0},
        },
    .parser = parse_problem,
};
