/*
 * cmd_compare.c - `treeattn compare`: the strategies side by side on one tree, and their luck on random ones.
 */
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/judge/judge.h"
#include "verify/judge/random_cases.h"
#include "verify/io/progress.h"
#include "verify/judge/run_parallel.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_TREES = 0x500, KEY_STRATEGY, KEY_KERNEL };

struct compare_args {
    struct tree_source_cli tree;
    struct cmd_problem problem;
    struct cmd_output out;
    int64_t trees;
    const char *strategies, *kernel;
    struct err *err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct compare_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->tree;
        state->child_inputs[1] = &a->problem;
        state->child_inputs[2] = &a->out;
        return 0;
    case KEY_TREES:
        return text_i64(arg, "--trees", 0, 1000000, &a->trees, a->err) ? 0 : EINVAL;
    case KEY_STRATEGY:
        a->strategies = arg;
        return 0;
    case KEY_KERNEL:
        a->kernel = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is compared:", .group = 3},
            {"strategy", KEY_STRATEGY, "LIST", 0, "only these: NAME[:K=V,..],.. (default: all)", 3},
            {"kernel", KEY_KERNEL, "NAME", 0, "what runs the plans (default: the first there is)", 3},
            {"trees", KEY_TREES, "N", 0, "also judge every strategy on N random trees (default 0)", 3},
            {0},
        },
    .parser = parse,
    .doc = "One row per strategy on one tree: verdict, worst error in units of its bound, bytes of K and V "
           "read, their "
           "ratio to reading each query's context on its own (flash-attention), groups, padded query rows, "
           "traffic of "
           "partial results; with --trees, how many random trees it passed. The case string of a strategy's "
           "first failure, which treeattn verify --case runs again, goes to standard error and into the "
           "column failed_case of --csv and --json.",
    .children = (const struct argp_child[]){{&tree_source_argp, 0, NULL, 0},
                                            {&cmd_problem_argp, 0, NULL, 0},
                                            {&cmd_output_argp, 0, NULL, 0},
                                            {0}},
};

/* One row: the strategy on the tree given, and its tally over random trees. */
struct compare_row {
    struct result on_tree;
    int64_t passed, run;
    double worst;
    char *failed;      /* case string of the first failure; NULL: none */
    int64_t failed_at; /* number of the random tree, -1: the tree given */
};

struct compare_run {
    struct strategy_use *use;
    int32_t n_use;
    const struct kernel *kernel;
    struct compare_row *row; /* [n_use] */
    struct totals totals;
    double query_centric; /* KV bytes of flash-attention on the tree */
};

/* ---- judging ------------------------------------------------------------------------------------------ */

/* Random trees are judged in any order. */
static void note_failure(struct compare_run *run, int32_t s, const struct case_spec *c, int64_t at)
{
    struct compare_row *row = &run->row[s];
    if (row->failed && row->failed_at <= at)
        return;
    struct case_spec failed = *c;
    failed.use = run->use[s];
    failed.kernel = run->kernel;
    free(row->failed);
    row->failed = case_print(&failed);
    row->failed_at = at;
}

static void judge_tree(struct compare_run *run, const struct test_case *b)
{
    struct progress progress = progress_start("compare", run->n_use);
    for (int32_t s = 0; s < run->n_use; s++) {
        run->row[s].on_tree = judge_case(b, &run->use[s], run->kernel);
        run->totals.n[run->row[s].on_tree.verdict]++;
        if (run->row[s].on_tree.verdict == V_FAIL)
            note_failure(run, s, b->c, -1);
        progress_step(&progress);
    }
    progress_clear(&progress);
    struct strategy_use base;
    struct err e = {0};
    CK(strategy_parse("flash-attention", &base, &e));
    for (int32_t s = 0; s < run->n_use; s++)
        if (run->use[s].s == base.s)
            run->query_centric = (double)run->row[s].on_tree.ledger.kv;
    if (run->query_centric == 0)
        run->query_centric = (double)judge_case(b, &base, run->kernel).ledger.kv;
}

static void tally(struct compare_run *run, int32_t s, const struct case_spec *c, int64_t at,
                  const struct result *r)
{
    run->totals.n[r->verdict]++;
    if (r->verdict == V_SKIP)
        return;
    if (r->verdict == V_FAIL)
        note_failure(run, s, c, at);
    run->row[s].run++;
    run->row[s].passed += r->verdict == V_PASS;
    if (r->compared)
        run->row[s].worst = fmax(run->row[s].worst, r->cmp.worst);
}

/* Random trees on their way. */
struct under_way {
    struct compare_run *run;
    uint64_t seed;
    struct progress progress;
    struct err *err; /* the first */
};

static void judge_drawn(void *context, int64_t i)
{
    struct under_way *x = context;
    struct tree *t;
    struct err own = {0};
    struct case_spec c = random_case(x->seed, i, NULL, &t);
    struct test_case *b = test_case_new(&c, t, &own);
    for (int32_t s = 0; b && s < x->run->n_use; s++) {
        struct result r = judge_case(b, &x->run->use[s], x->run->kernel);
#pragma omp critical(treeattn_compare)
        tally(x->run, s, &c, i, &r);
    }
#pragma omp critical(treeattn_compare)
    {
        if (!b && !x->err->code)
            *x->err = own;
        progress_step(&x->progress);
    }
    test_case_free(b);
    case_clear(&c);
}

static bool judge_random(struct compare_run *run, int64_t n, uint64_t seed, struct err *e)
{
    struct under_way x = {.run = run, .seed = seed, .progress = progress_start("random trees", n), .err = e};
    side_by_side(n, judge_drawn, &x);
    progress_clear(&x.progress);
    return !e->code;
}

/* ---- printing ----------------------------------------------------------------------------------------- */

/* The last three only with --trees. For people, bytes are in MiB, and the cases that fail are on standard error. */
enum { N_FIXED = 9, N_TEXT_FIXED = 8 };
static const char *const columns[] = {
    "strategy",      "verdict",     "worst",         "kv_bytes",   "kv_ratio",     "groups", "padded_rows",
    "partial_bytes", "failed_case", "random_passed", "random_run", "random_worst", NULL};
static const char *const text_columns[] = {"strategy",     "verdict", "worst error", "KV MiB",
                                           "of alone",     "groups",  "padded rows", "partials MiB",
                                           "random: pass", "of",      "worst error", NULL};
static const int32_t widths[] = {18, 8, 11, 8, 8, 6, 11, 12, 12, 4, 11};

/* The numbers of a strategy that did not run, and what nobody counted, are not zeros. */
static void print_numbers(struct printer *t, const struct result *r, double query_centric)
{
    bool counted = result_is_counted(r);
    table_f64_if(t, r->compared, r->cmp.worst, 3);
    table_bytes_if(t, counted, r->ledger.kv);
    table_f64_if(t, counted && query_centric > 0, (double)r->ledger.kv / query_centric, 3);
    table_i64_if(t, r->ran, r->n_groups);
    table_i64_if(t, counted, r->ledger.pad_rows);
    table_bytes_if(t, counted, ledger_partials(&r->ledger));
}

static void print_rows(struct printer *t, const struct compare_run *run, bool random)
{
    for (int32_t s = 0; s < run->n_use; s++) {
        const struct compare_row *row = &run->row[s];
        char *name = strategy_label(&run->use[s]);
        table_text(t, name);
        free(name);
        table_text(t, verdict_name[row->on_tree.verdict]);
        print_numbers(t, &row->on_tree, run->query_centric);
        if (t->style != STYLE_TEXT)
            table_text(t, row->failed ? row->failed : "");
        if (!random)
            continue;
        table_i64(t, row->passed);
        table_i64(t, row->run);
        table_f64(t, row->worst, 3);
    }
}

static void print_head(FILE *f, const struct case_spec *c, const struct test_case *b)
{
    char *src = tree_source_print(&c->src);
    fprintf(f, "%s: %" PRId32 " nodes, %" PRId32 " queries, %" PRId64 " tokens\n", src, b->tree->n_nodes,
            b->tree->n_queries, tree_tokens(b->tree));
    fprintf(f, "%" PRId32 " query heads, %" PRId32 " KV heads, d = %" PRId32 ", %s, pages of %" PRId32 "\n\n",
            c->spec.heads.h_q, c->spec.heads.h_kv, c->spec.heads.d, dtype_name[c->spec.heads.dtype],
            c->spec.page_size);
    free(src);
}

/* Why a strategy has no numbers, or wrong ones. */
static void print_notes(FILE *f, const struct compare_run *run)
{
    fputs("\nworst error: in units of a derived bound; over 1 fails\n"
          "of alone:    KV read, relative to reading each query's context on its own (flash-attention)\n"
          "             (every Q tile of a group reads the group's KV again, and counts again)\n"
          "padded rows: query rows that fill up Q tiles, over all tiles and KV heads\n"
          "partials:    O and LSE of parts, written and read back by the merge\n",
          f);
    bool uncounted = false;
    char why[RESULT_SENTENCE];
    for (int32_t s = 0; s < run->n_use; s++)
        uncounted |= run->row[s].on_tree.verdict != V_SKIP && !result_is_counted(&run->row[s].on_tree);
    if (uncounted)
        fputs("-:           not counted: the kernel counts nothing, or did not run\n", f);
    for (int32_t s = 0; s < run->n_use; s++) {
        const struct result *r = &run->row[s].on_tree;
        if (r->verdict == V_SKIP || r->verdict == V_FAIL)
            fprintf(f, "%s: %s: %s\n", r->strategy, verdict_name[r->verdict], result_sentence(r, why));
    }
}

/* What `treeattn verify --case` runs again. */
static void print_failures(const struct compare_run *run)
{
    for (int32_t s = 0; s < run->n_use; s++)
        if (run->row[s].failed)
            fprintf(stderr, "compare: %s fails first at %s\n", run->use[s].s->name, run->row[s].failed);
}

static bool compare_all(struct compare_run *run, const struct compare_args *a, FILE *f, struct err *e)
{
    struct case_spec c = {.src = a->tree.src, .spec = case_default_spec()};
    c.spec.heads.h_q = 32; /* Llama-3-8B */
    c.spec.heads.h_kv = 8;
    c.spec.heads.d = 128;
    c.spec.seed = a->tree.seed;
    problem_given_apply(&a->problem.given, &c.spec);
    struct test_case *b = test_case_new(&c, NULL, e);
    if (!b)
        return false;
    judge_tree(run, b);
    bool good = judge_random(run, a->trees, a->tree.seed, e);
    if (good) {
        bool text = a->out.style == STYLE_TEXT;
        const char *shown[sizeof columns / sizeof columns[0]];
        memcpy(shown, text ? text_columns : columns, text ? sizeof text_columns : sizeof columns);
        if (a->trees == 0)
            shown[text ? N_TEXT_FIXED : N_FIXED] = NULL;
        struct printer t = {.f = f, .style = a->out.style, .column = shown, .aligned = true, .width = widths};
        if (text)
            print_head(f, &c, b);
        print_rows(&t, run, a->trees > 0);
        table_end(&t);
        if (text)
            print_notes(f, run);
        totals_print(text ? f : stderr, "compare", &run->totals);
        print_failures(run);
    }
    test_case_free(b);
    return good;
}

static bool check_args(struct compare_args *a, struct compare_run *run, struct err *e)
{
    run->kernel = kernels[0];
    if ((a->kernel && !case_kernel(a->kernel, &run->kernel, e)) || !kernel_ready(run->kernel, e))
        return false;
    return tree_source_finish(&a->tree, true, e) && case_strategies(a->strategies, &run->use, &run->n_use, e);
}

int cmd_compare(int argc, char **argv)
{
    struct err e = {0};
    struct compare_args a = {.tree.err = &e, .problem.err = &e, .err = &e};
    struct compare_run run = {.n_use = 0};
    struct outfile out = {0};
    int code;
    if (!cmd_parse(&argp, argc, argv, &a, &e) || !check_args(&a, &run, &e) ||
        !outfile_open(&out, a.out.path, &e)) {
        code = cmd_error(&e);
    } else {
        crash_tell();
        run.row = xcalloc((size_t)run.n_use, sizeof *run.row);
        bool done = compare_all(&run, &a, out.f, &e);
        bool any = totals_cases(&run.totals) > run.totals.n[V_SKIP];
        code = run.totals.n[V_FAIL] ? EXIT_FAILED : any ? EXIT_GOOD : EXIT_MISSING;
        if (!outfile_close(&out, done, &e) || !done)
            code = cmd_error(&e);
    }
    for (int32_t s = 0; run.row && s < run.n_use; s++)
        free(run.row[s].failed);
    free(run.use);
    free(run.row);
    tree_source_clear(&a.tree.src);
    return code;
}
