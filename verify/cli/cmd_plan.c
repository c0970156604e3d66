/* cmd_plan.c - `treeattn plan`: one tree and one strategy to its groups. */
#include "verify/cli/cmd.h"
#include "verify/judge/cover.h"
#include "verify/io/crash.h"
#include "verify/io/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_STRATEGY = 0x300, KEY_FORMAT, KEY_CSV, KEY_JSON, KEY_MACHINE, KEY_STORAGE };
static const struct {
    const char *name;
    void (*print)(FILE *f, const struct plan *p);
} forms[N_PLAN_FORMS] = {
    [PLAN_TEXT] = {"text", plan_print_text},
    [PLAN_CSV] = {"csv", plan_print_csv},
    [PLAN_JSON] = {"json", plan_print_json},
    [PLAN_DOT] = {"dot", plan_print_dot},
};

struct plan_args {
    struct tree_source_cli tree;
    struct cmd_problem problem;
    const char *strategy, *path;
    struct machine machine;
    enum plan_form format;
    struct err *err;
};

static bool set_format(struct plan_args *a, const char *arg)
{
    for (int i = 0; i < N_PLAN_FORMS; i++)
        if (strcmp(arg, forms[i].name) == 0) {
            a->format = (enum plan_form)i;
            return true;
        }
    return err_set(a->err, "--format '%s' (expected text, csv, json or dot)", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct plan_args *a = state->input;
    bool good = true;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->tree;
        state->child_inputs[1] = &a->problem;
        break;
    case KEY_STRATEGY:
        a->strategy = arg;
        break;
    case KEY_FORMAT:
        good = set_format(a, arg);
        break;
    case KEY_CSV:
        good = set_format(a, "csv");
        break;
    case KEY_JSON:
        good = set_format(a, "json");
        break;
    case KEY_MACHINE:
        good = machine_parse(arg, &a->machine, a->err);
        break;
    case 'o':
        a->path = arg;
        break;
    case KEY_STORAGE:
        good =
            err_set(a->err, "plan: plans depend on no pages or values (expected neither --page nor --fill)");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {"strategy", KEY_STRATEGY, "NAME[:K=V]", 0, "see treeattn list strategies", 3},
            {"machine", KEY_MACHINE, "NAME[:K=V]", 0, "the GPU that the plan is made for (default h200)", 3},
            {"format", KEY_FORMAT, "FORMAT", 0, "text (default), csv (the groups), json (everything) or dot",
             3},
            {"csv", KEY_CSV, NULL, 0, "--format csv", 3},
            {"json", KEY_JSON, NULL, 0, "--format json", 3},
            {"output", 'o', "FILE", 0, "into FILE, under a temporary name until it is complete", 3},
            CMD_REFUSED("page", KEY_STORAGE, "SIZE"),
            CMD_REFUSED("fill", KEY_STORAGE, "KIND"),
            {0},
        },
    .parser = parse,
    .doc =
        "Plan one tree with one strategy and print the groups: which queries read which runs of tokens in "
        "which tiles, and how the partial results are merged. A plan that fails the coverage check is "
        "printed, too, "
        "with what is wrong with it on stderr and exit code 1."
        "\vNodes, tokens and queries have the numbers of the tree, as in its file. In text, {..} behind a "
        "run names the queries of the group that see it, where a mask hides it from the others. In JSON, "
        "queries[k] of a "
        "group sees runs[r] where visible[k][r] is 1 (visible null: everywhere) and leaves its partial "
        "result in slots[k] (slots null: in the output); a merge step leaves its inputs, merged, in its slot "
        "(null: in the output of its query; no inputs: it sees nothing); a tile side of 0 is whole, "
        "unpadded.",
    .children =
        (const struct argp_child[]){{&tree_source_argp, 0, NULL, 0}, {&cmd_problem_argp, 0, NULL, 0}, {0}},
};

static bool print_plan(const struct plan_job *j, const struct plan *p, struct err *e)
{
    struct outfile out;
    if (!outfile_open(&out, j->path, e))
        return false;
    forms[j->form].print(out.f, p);
    return outfile_close(&out, true, e);
}

int cmd_plan_job(const struct plan_job *j)
{
    struct nform *nf = nform_new(j->tree);
    char why[WHY_MAX];
    struct err e = {0}, wrong = {0};
    crash_tell();
    crash_planning(j->use->s->name, j->command);
    struct plan *p = strategy_plan(j->use, nf, &j->env, why);
    crash_done();
    int code = EXIT_GOOD;
    if (!p) {
        err_set(&e, "%s does not apply to this tree: %s", j->use->s->name, why);
        code = cmd_error(&e);
    } else {
        bool good = cover_check(p, &wrong);
        if ((good || cover_structure(p, NULL)) && !print_plan(j, p, &e))
            code = cmd_error(&e);
        if (!good) {
            cmd_error(&wrong);
            code = EXIT_FAILED;
        }
    }
    plan_free(p);
    nform_free(nf);
    return code;
}

static int plan_tree(const struct plan_args *a, const struct tree *t, const struct strategy_use *use,
                     const char *command)
{
    struct problem_spec spec = case_default_spec();
    spec.heads.h_q = 32; /* Llama-3-8B */
    spec.heads.h_kv = 8;
    spec.heads.d = 128;
    problem_given_apply(&a->problem.given, &spec);
    struct err e = {0};
    if (!problem_spec_check(&spec, &e))
        return cmd_error(&e);
    struct plan_env env = {.heads = spec.heads, .machine = &a->machine};
    return cmd_plan_job(&(struct plan_job){
        .tree = t, .use = use, .env = env, .form = a->format, .path = a->path, .command = command});
}

int cmd_plan(int argc, char **argv)
{
    struct err e = {0};
    struct plan_args a = {.machine = *machine_default(), .tree.err = &e, .problem.err = &e, .err = &e};
    struct strategy_use use;
    struct tree *t = NULL;
    bool good = cmd_parse(&argp, argc, argv, &a, &e);
    if (good && !a.strategy)
        good = err_set(&e, "no strategy given (expected --strategy NAME; see treeattn list strategies)");
    good = good && outfiles_check(&a.path, 1, &e) && strategy_parse(a.strategy, &use, &e) &&
           tree_source_finish(&a.tree, true, &e);
    if (good)
        t = tree_source_load(&a.tree.src, &e);
    char *command = origin_command(argv[0], argc, argv);
    int code = t ? plan_tree(&a, t, &use, command) : cmd_error(&e);
    free(command);
    tree_free(t);
    tree_source_clear(&a.tree.src);
    return code;
}
