/* cmd_plan.c - `treeattn plan`: one tree and one strategy to its groups. */
#include "verify/cli/cmd.h"
#include "verify/judge/cover.h"
#include "verify/io/crash.h"
#include "verify/io/origin.h"
#include "sim/draw/merges_svg.h"
#include "sim/draw/plan_svg.h"
#include "sim/plan_explain.h"
#include "sim/plan_ledger.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const form_name[N_PLAN_FORMS] = {"text", "csv", "json", "explain", "svg", "merges", "dot"};

struct plan_args {
    struct cmd_tree tree;
    struct problem_given problem;
    const char *strategy, *path;
    struct machine machine;
    enum plan_form form;
    int32_t query, head;
    bool of_merges; /* one of them was given */
};

static bool read_options(struct plan_args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about =
            "Plans one tree with one strategy and prints the groups: which queries read which runs of tokens "
            "in which tiles, and how the partial results are merged. A plan that fails the coverage check is "
            "printed as well; standard error then says what is wrong with it, and the exit code is 1.",
        .examples = "plan --levels \"1,4 512,64\" --strategy pat\n"
                    "plan --levels \"1,2,6 100,40,10\" --strategy deft-flatten --format svg -o plan.svg\n"
                    "plan --levels \"1,2,6 100,40,10\" --heads 8/2 --strategy deft-node --explain\n"
                    "plan --levels \"1,2,6 100,40,10\" --strategy cascade --format merges --query 5 -o merges.svg\n"
                    "plan --trace embedded:reasoning --step 40 --strategy fasttree --json",
        .details =
            "Nodes, tokens and queries have the numbers of the tree, as in its file.\n"
            "Text: {..} behind a run names the queries of the group that see it, where a mask hides it from "
            "the others.\n"
            "JSON: queries[k] of a group sees runs[r] where visible[k][r] is 1; visible null means "
            "everywhere. It leaves its partial result in slots[k]; slots null means in the output. A merge "
            "step leaves its inputs, merged, in its slot; null means in the output of its query. A step "
            "without inputs belongs to a query that sees nothing. A tile side of 0 is whole, unpadded.\n"
            "Explain: the product that each number is, group by group; a group runs once per KV head. The totals "
            "are what treeattn sim --layers 1 --csv counts.\n"
            "SVG: a picture for any browser. Above, a row is a query and a column a token of its path; nodes are "
            "framed, groups have colours. Below, the tiles of each group: used, hidden by a mask, padding. What is "
            "wrong with a plan is red.\n"
            "Merges: a picture of one query and head on drawn values: the partial results that its output is merged "
            "from, and the weight of each.",
        .needs = "no tree and no strategy given (expected --levels TEXT --strategy NAME, or another tree)"};
    tree_options(&o, &a->tree);
    problem_options(&o, &a->problem);
    problem_defaults(&o);
    options_refuse(&o, "page", "plans depend on no pages (expected no --page)");
    options_default(&o, "fill", "random", "of --format merges: values of Q and K:");
    const struct opt own[] = {
        HEADING("How it is planned:"),
        TEXT("strategy", "NAME[:K=V]", &a->strategy, NULL,
             "the rule from tree to plan (see treeattn list strategies)"),
        CALL("machine", "NAME[:K=V]", set_machine, &a->machine, "h200", "the GPU that the plan is made for"),
        HEADING("What is printed:"),
        WORD("format", "FORMAT", &a->form, form_name, N_PLAN_FORMS, "text",
             "text; csv: the groups; json: everything; explain: the arithmetic of each byte, "
             "multiply-add and padded row; svg: a picture; merges: a picture of one query's merges; dot: the tree and its groups, for "
             "Graphviz"),
        I32("query", "Q", &a->query, 0, TREE_MAX_QUERIES - 1, "0", "of --format merges: which query", .given = &a->of_merges),
        I32("head", "H", &a->head, 0, PROBLEM_MAX_HEADS - 1, "0", "of --format merges: which query head",
            .given = &a->of_merges),
        SET("csv", &a->form, PLAN_CSV, "--format csv"),
        SET("json", &a->form, PLAN_JSON, "--format json"),
        SET("explain", &a->form, PLAN_EXPLAIN, "--format explain"),
        TEXT("output", "FILE", &a->path, NULL,
             "write to FILE, which appears once it is complete; -: standard output", .letter = 'o'),
        {0},
    };
    options_add(&o, own);
    if (!options_parse(&o, argc, argv, e))
        return false;
    if ((a->of_merges || a->problem.fill) && a->form != PLAN_MERGES)
        return err_set(e, "--query, --head and --fill are of one query's merges (expected --format merges)");
    return a->strategy ||
           err_set(e, "no strategy given (expected --strategy NAME; see treeattn list strategies)");
}

static void print_form(FILE *f, const struct plan_job *j, const struct plan *p, const struct plan_flaw *flaw,
                       const struct problem *values)
{
    switch (j->form) {
    case PLAN_TEXT:
        plan_print_text(f, p);
        break;
    case PLAN_CSV:
        plan_print_csv(f, p);
        break;
    case PLAN_JSON:
        plan_print_json(f, p);
        break;
    case PLAN_EXPLAIN:
        plan_print_explain(f, p, &j->env.heads);
        break;
    case PLAN_SVG:
        plan_print_svg(f, p, &j->env.heads, flaw);
        break;
    case PLAN_MERGES:
        plan_print_merges_svg(f, p, values, j->query, j->head);
        break;
    case PLAN_DOT:
        plan_print_dot(f, p);
        break;
    case N_PLAN_FORMS:
        CK_FOUND("a form of that number");
    }
}

static bool print_plan(const struct plan_job *j, const struct plan *p, const struct plan_flaw *flaw,
                       struct err *e)
{
    struct outfile out;
    if (j->form == PLAN_EXPLAIN && price_most(p, &j->env.heads) >= 0x1p62)
        return err_set(e, "the plan may move more bytes than 63 bits count (expected a smaller tree)");
    if (j->form == PLAN_MERGES && (j->query >= j->tree->n_queries || j->head >= j->env.heads.h_q))
        return err_set(e, "--query %" PRId32 " --head %" PRId32 " (expected below %" PRId32 " and %" PRId32 ")",
                       j->query, j->head, j->tree->n_queries, j->env.heads.h_q);
    struct problem *values = j->form == PLAN_MERGES ? problem_new(j->tree, j->values, e) : NULL;
    bool good = (values || j->form != PLAN_MERGES) && outfile_open(&out, j->path, e);
    if (good) {
        print_form(out.f, j, p, flaw, values);
        good = outfile_close(&out, true, e);
    }
    problem_free(values);
    return good;
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
        struct plan_flaw flaw = {.why = wrong.msg};
        bool good = cover_check_pair(p, &flaw.pair, &wrong);
        bool shown = good || (j->form != PLAN_MERGES && cover_structure(p, NULL));
        if (shown && !print_plan(j, p, good ? NULL : &flaw, &e))
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

int cmd_plan(int argc, char **argv)
{
    struct err e = {0};
    struct plan_args a = {.problem.spec = case_default_spec()};
    struct strategy_use use;
    struct tree *t = NULL;
    const struct problem_spec *spec = &a.problem.spec;
    bool good = read_options(&a, argc, argv, &e) && outfiles_check(&a.path, 1, &e) &&
                strategy_parse(a.strategy, &use, &e) && tree_finish(&a.tree, true, &e) &&
                problem_spec_check(spec, &e);
    if (good)
        t = tree_source_load(&a.tree.src, &e);
    if (t)
        tree_set_window(t, spec->window);
    a.problem.spec.seed = a.tree.seed;
    char *command = origin_command(argv[0], argc, argv);
    struct plan_job job = {.tree = t,
                           .use = &use,
                           .env = {.heads = spec->heads, .machine = &a.machine},
                           .form = a.form,
                           .query = a.query,
                           .head = a.head,
                           .values = spec,
                           .path = a.path,
                           .command = command};
    int code = t ? cmd_plan_job(&job) : cmd_error(&e);
    free(command);
    tree_free(t);
    tree_source_clear(&a.tree.src);
    return code;
}
