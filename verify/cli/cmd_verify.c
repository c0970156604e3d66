/*
 * cmd_verify.c - `treeattn verify`: every strategy and kernel against exact attention.
 *
 * Random trees and the sharp list, or steps of a trace, or one case. A case's tree, problem and oracle are
 * made once and shared by all strategies; most cases run side by side, a core each, some alone; all report in order.
 */
#include "kernels/cuda/host/guard_gpu.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/judge/properties.h"
#include "verify/judge/random_cases.h"
#include "verify/judge/gpu_matrix.h"
#include "verify/io/progress.h"
#include "verify/judge/shrink.h"
#include "verify/judge/run_parallel.h"
#include "verify/io/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_TREES = 0x400,
    KEY_STRATEGY,
    KEY_KERNEL,
    KEY_CASE,
    KEY_STEPS,
    KEY_NO_SHARP,
    KEY_CASES,
    KEY_NO_SHRINK,
    KEY_PROPERTIES,
    KEY_GPU_CASES,
    KEY_SAMPLE,
    KEY_ARCH
};

struct verify_args {
    struct tree_source_cli tree;
    struct cmd_problem problem;
    struct cmd_output out;
    int64_t trees, steps, sample;
    const char *strategies, *kernel, *text, *list;
    bool no_sharp, no_shrink, gpu_cases, properties;
    struct err *err;
};

/* ---- options ------------------------------------------------------------------------------------------ */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct verify_args *a = state->input;
    bool good = true;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->tree;
        state->child_inputs[1] = &a->problem;
        state->child_inputs[2] = &a->out;
        break;
    case KEY_TREES:
        good = text_i64(arg, "--trees", 1, 1000000, &a->trees, a->err);
        break;
    case KEY_STEPS:
        good = text_i64(arg, "--steps", 1, 1000000, &a->steps, a->err);
        break;
    case KEY_STRATEGY:
        a->strategies = arg;
        break;
    case KEY_KERNEL:
        a->kernel = arg;
        break;
    case KEY_CASE:
        a->text = arg;
        break;
    case KEY_CASES:
        a->list = arg;
        break;
    case KEY_NO_SHARP:
        a->no_sharp = true;
        break;
    case KEY_NO_SHRINK:
        a->no_shrink = true;
        break;
    case KEY_PROPERTIES:
        a->properties = true;
        break;
    case KEY_GPU_CASES:
        a->gpu_cases = true;
        break;
    case KEY_ARCH:
        good = cmd_arch(arg, a->err);
        break;
    case KEY_SAMPLE:
        good = text_i64(arg, "--sample", 1, 1000000, &a->sample, a->err);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is judged:", .group = 3},
            {"trees", KEY_TREES, "N", 0,
             "N random trees from --seed, then the list of sharp cases (default 100)", 3},
            {"steps", KEY_STEPS, "N", 0, "with --trace: N steps spread over it (default: --step alone)", 3},
            {"case", KEY_CASE, "STRING", 0, "one case, as a result line prints it", 3},
            {"cases", KEY_CASES, "FILE", 0, "such cases, one a line; # begins a comment", 3},
            {"gpu-cases", KEY_GPU_CASES, NULL, 0,
             "the design of make gpu-check from --seed: types x heads x head sizes x pages x trees, edges, "
             "traces (what a "
             "GPU's kernel is judged by when nothing else is said)",
             3},
            {"sample", KEY_SAMPLE, "N", 0, "only every N-th tree of that design", 3},
            {"strategy", KEY_STRATEGY, "LIST", 0,
             "only these: NAME[:K=V,..],.. (default: the case's, or all); like --kernel, --heads, --dtype "
             "and "
             "their like in the place of what a case names",
             3},
            {"kernel", KEY_KERNEL, "NAME", 0, "only this one (default: the case's, or all)", 3},
            {"arch", KEY_ARCH, "A", 0, "kernels of a GPU: auto, or 80 for the Ampere path on a newer card",
             3},
            {"properties", KEY_PROPERTIES, NULL, 0,
             "also check laws of attention that need no oracle: the order of keys is irrelevant, V = 1 gives "
             "O = 1, and "
             "six more. A law that is broken is a row of its own. Takes 20 to 40 times as long",
             3},
            {"no-sharp", KEY_NO_SHARP, NULL, 0, "random trees without the sharp list", 3},
            {"no-shrink", KEY_NO_SHRINK, NULL, 0, "print failures as they are, without reducing them", 8},
            {0},
        },
    .parser = parse,
    .doc = "Plan every tree with every strategy, check each plan's coverage, run it, and compare O and LSE "
           "with exact "
           "attention. Errors are in units of a derived bound: over 0.5 is MARGINAL, over 1 is FAIL. Exit "
           "code 1 if "
           "anything failed, 3 if every case was skipped."
           "\vA result line is tab-separated: strategy/kernel/dtype/tile, verdict, numbers, a reason, and "
           "the case "
           "string that `treeattn verify --case` takes. --quiet keeps FAIL and MARGINAL lines.\n\n"
           "Below the first failure of each of up to three strategies stands the command line of a smallest "
           "case that fails likewise, found in at most ten seconds; behind more than "
           "20 cases they are printed again.",
    .children = (const struct argp_child[]){{&tree_source_argp, 0, NULL, 0},
                                            {&cmd_problem_argp, 0, NULL, 0},
                                            {&cmd_output_argp, 0, NULL, 0},
                                            {0}},
};

/* ---- the run ------------------------------------------------------------------------------------------ */

enum {
    MAX_SHRUNK = 3,
    MANY = 20 /* cases, behind which smallest ones are said again */
};

struct verify_run {
    struct strategy_use *use; /* for cases that name none */
    int32_t n_use;
    bool chosen;                 /* by --strategy: for all cases */
    const struct kernel *kernel; /* NULL: a case's, or all */
    bool quiet, shrink, properties;
    int64_t held, broken;                      /* laws */
    const struct strategy *shrunk[MAX_SHRUNK]; /* of these a failure was reduced */
    int32_t n_shrunk;
    struct printer table;
    struct totals totals;
    bool all_kernels;     /* a case named none */
    bool compared;        /* a result was, so that there is a worst error */
    char skipped[RESULT_SENTENCE]; /* the first reason for a SKIP */
    int64_t *refused;     /* [n_kernels] plans that a kernel skipped, */
    char (*refusal)[160]; /* the first because */
    char *smallest;       /* what was printed below failures, NULL: nothing */
    struct progress progress;
    struct census census;
    int64_t *admitted; /* [n_use][N_FAMILIES] drawn cases the strategy planned */
    int64_t drawn[N_FAMILIES];
    struct pairs_met *cover; /* NULL: not the design of gpu-check */
    bool whole;              /* all of the design, for all strategies */
    struct err err;
    bool stop; /* err is set; read without holding up the others */
};

/* Where case i of a batch comes from; the caller frees it. *drawn: it belongs in the census. */
struct batch {
    int64_t n;
    void (*get)(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t);
    bool drawn;
    uint64_t seed;
    const struct problem_given *fixed;
    const struct case_spec *list;
    const char *path;              /* of the file that has the list, or NULL */
    const struct gpu_case *design; /* every stride-th of it */
    int64_t n_design, stride;
    const struct trace *trace;
    const struct tree_source *src;
    struct problem_spec spec;
};

/* Case i of every stride-th: of neighbours, which alternate in kind, each in turn. */
static const struct gpu_case *design_at(const struct batch *b, int64_t i)
{
    return &b->design[min_i64(i * b->stride + i % b->stride, b->n_design - 1)];
}

/* One strategy on one kernel, and the laws if the numbers are right. Returns how many results. */
static int32_t judge_both(const struct verify_run *run, const struct test_case *b,
                          const struct strategy_use *use, const struct kernel *k, struct result *out,
                          int64_t *held)
{
    out[0] = judge_case(b, use, k);
    bool good = out[0].verdict == V_PASS || out[0].verdict == V_MARGINAL;
    return 1 + (run->properties && good ? judge_laws(b, use, k, out + 1, held) : 0);
}

/* The strategies and kernels of one case, in registry order, into *out (the caller frees); returns how many. */
static int32_t judge_all(const struct verify_run *run, const struct test_case *b, struct result **out,
                         int64_t *held)
{
    const struct case_spec *c = b->c;
    const struct strategy_use *use = c->use.s ? &c->use : run->use;
    int32_t n_use = c->use.s ? 1 : run->n_use, n = 0;
    *out = xcalloc((size_t)(n_use * n_kernels * (1 + n_properties)), sizeof **out);
    for (int32_t s = 0; s < n_use; s++)
        if (c->kernel)
            n += judge_both(run, b, &use[s], c->kernel, *out + n, held);
        else
            for (int32_t k = 0; k < n_kernels; k++)
                if (kernel_ready(kernels[k], NULL))
                    n += judge_both(run, b, &use[s], kernels[k], *out + n, held);
    return n;
}

/* A strategy counts as admitted once a case, whatever the number of kernels. */
static void count_admitted(struct verify_run *run, enum family family, const struct result *r, int32_t n)
{
    run->drawn[family]++;
    for (int32_t i = 0; i < n; i++)
        if (r[i].planned && (i == 0 || r[i].use != r[i - 1].use))
            run->admitted[(r[i].use - run->use) * N_FAMILIES + (int32_t)family]++;
}

/* The first failure of each strategy, of a few; below its row, or beside the table where that is for programs. */
static void reduce(struct verify_run *run, const struct case_spec *c, const struct result *r)
{
    for (int32_t i = 0; i < run->n_shrunk; i++)
        if (run->shrunk[i] == c->use.s)
            return;
    if (!run->shrink || run->n_shrunk == MAX_SHRUNK)
        return;
    run->shrunk[run->n_shrunk++] = c->use.s;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    CK(f);
    shrink_print(f, program_invocation_name, c, r);
    fclose(f);
    fputs(text, run->table.style == STYLE_TEXT ? run->table.f : stderr);
    char *all = xasprintf("%s%s", run->smallest ? run->smallest : "", text);
    free(run->smallest);
    free(text);
    run->smallest = all;
}

/* A kernel that skips most of what it is given passes the rest. */
static void note_refusal(struct verify_run *run, const struct result *r)
{
    char why[RESULT_SENTENCE];
    for (int32_t k = 0; k < n_kernels; k++)
        if (r->verdict == V_SKIP && r->planned && strcmp(kernels[k]->name, r->kernel) == 0 &&
            run->refused[k]++ == 0)
            snprintf(run->refusal[k], sizeof run->refusal[k], "%s", result_sentence(r, why));
}

static void emit(struct verify_run *run, const struct test_case *b, const struct result *r, int32_t n,
                 bool drawn, const struct gpu_case *design)
{
    run->all_kernels = run->all_kernels || !b->c->kernel;
    struct case_spec c = *b->c;
    progress_clear(&run->progress);
    if (drawn) {
        census_add(&run->census, &c, b->tree);
        count_admitted(run, c.src.family, r, n);
    }
    for (int32_t i = 0; i < n; i++) {
        run->totals.n[r[i].verdict]++;
        run->broken += r[i].law != NULL;
        run->compared = run->compared || r[i].compared;
        note_refusal(run, &r[i]);
        if (r[i].compared)
            run->totals.worst = fmax(run->totals.worst, r[i].cmp.worst);
        if (run->totals.n[V_SKIP] == 1 && r[i].verdict == V_SKIP)
            result_sentence(&r[i], run->skipped);
        if (design)
            pairs_met_add(run->cover, design, &r[i]);
        if (run->quiet && r[i].verdict != V_FAIL && r[i].verdict != V_MARGINAL)
            continue;
        c.use = *r[i].use;
        c.kernel = kernel_find(r[i].kernel);
        char *text = case_print(&c);
        result_row(&run->table, &r[i], c.spec.heads.dtype, text);
        free(text);
        if (r[i].verdict == V_FAIL) {
            fflush(run->table.f); /* smaller cases may end the program, too */
            reduce(run, &c, &r[i]);
        }
    }
    fflush(run->table.f); /* the next case may end the program */
    progress_step(&run->progress);
}

/* A case that was judged and waits for its turn to be reported. */
struct judged {
    struct case_spec c;
    struct test_case *x; /* without problem and oracle; NULL with e set */
    struct result *r;
    int32_t n;
    int64_t held;
    struct err e;
};

static void judged_free(struct judged *d)
{
    test_case_free(d->x);
    case_clear(&d->c);
    free(d->r);
    free(d);
}

/* What options say in the place of the case's own keys. */
static void replace_keys(const struct verify_run *run, struct case_spec *c)
{
    c->kernel = run->kernel ? run->kernel : c->kernel;
    if (run->chosen)
        c->use.s = NULL;
}

static struct judged *judge_one(const struct verify_run *run, const struct batch *b, int64_t i)
{
    struct judged *d = xcalloc(1, sizeof *d);
    struct tree *t = NULL;
    b->get(b, i, &d->c, &t);
    replace_keys(run, &d->c);
    if (d->c.kernel && !kernel_ready(d->c.kernel, &d->e)) {
        tree_free(t);
        return d;
    }
    d->x = test_case_new(&d->c, t, &d->e);
    if (!d->x)
        return d;
    d->n = judge_all(run, d->x, &d->r, &d->held);
    problem_free(d->x->p); /* nobody asks for them any more, and much may be waiting */
    oracle_free(d->x->orc);
    d->x->p = NULL;
    d->x->orc = NULL;
    return d;
}

/* Report what is ready, in order, from *next on. */
static void report_ready(struct verify_run *run, const struct batch *b, struct judged **ready, int64_t *next)
{
    for (; *next < b->n && ready[*next]; ++*next) {
        struct judged *d = ready[*next];
        ready[*next] = NULL;
        run->held += d->held;
        if (run->err.code == 0 && d->x)
            emit(run, d->x, d->r, d->n, b->drawn, b->design ? design_at(b, *next) : NULL);
        else if (run->err.code == 0 && b->path)
            case_at_line(b->path, d->c.line, &d->e, &run->err);
        else if (run->err.code == 0)
            run->err = d->e;
        judged_free(d);
    }
}

static bool is_stopped(const struct verify_run *run)
{
    bool stop;
#pragma omp atomic read
    stop = run->stop;
    return stop;
}

/* A batch on its way. */
struct under_way {
    struct verify_run *run;
    const struct batch *batch;
    struct judged **ready; /* [batch->n] */
    int64_t next;          /* to be reported */
};

static void run_case(void *context, int64_t i)
{
    struct under_way *x = context;
    if (is_stopped(x->run))
        return;
    struct judged *d = judge_one(x->run, x->batch, i);
#pragma omp critical(treeattn_verify_report)
    {
        x->ready[i] = d;
        report_ready(x->run, x->batch, x->ready, &x->next);
#pragma omp atomic write
        x->run->stop = x->run->err.code != 0;
    }
}

/* Cases of a batch side by side, none waiting for another. Results are printed in order, so a run's output does not
 * depend on the number of cores. A case that cannot be had stops the run at its place. */
static void run_batch(struct verify_run *run, const struct batch *b)
{
    run->progress = progress_start("verify", b->n);
    struct under_way x = {.run = run, .batch = b, .ready = xcalloc((size_t)b->n, sizeof(struct judged *))};
    side_by_side(b->n, run_case, &x);
    for (int64_t i = 0; i < b->n; i++)
        if (x.ready[i]) /* beyond the case at which the run stopped */
            judged_free(x.ready[i]);
    free(x.ready);
    progress_clear(&run->progress);
}

/* ---- batches ------------------------------------------------------------------------------------------ */

static void get_drawn(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    *c = random_case(b->seed, i, b->fixed, t);
}

static void get_listed(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    *c = b->list[i];
    c->src = tree_source_copy(&b->list[i].src);
    *t = NULL;
}

static void get_design(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    *c = design_at(b, i)->c;
    c->src = tree_source_copy(&c->src);
    *t = NULL;
}

/* Steps spread evenly from the first to the last. */
static void get_step(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    int64_t last = trace_steps(b->trace);
    *c = (struct case_spec){.src = tree_source_copy(b->src), .spec = b->spec};
    c->src.step = trace_spread(i, b->n, last);
    *t = trace_tree(b->trace, c->src.step);
}

static void verify_random(struct verify_run *run, const struct verify_args *a)
{
    run_batch(run, &(struct batch){.n = a->trees,
                                   .get = get_drawn,
                                   .drawn = true,
                                   .seed = a->tree.seed,
                                   .fixed = &a->problem.given});
    if (a->no_sharp || run->err.code)
        return;
    struct batch sharp = {.get = get_listed};
    struct case_spec *list = sharp_cases(&sharp.n);
    sharp.list = list;
    run_batch(run, &sharp);
    for (int64_t i = 0; i < sharp.n; i++)
        case_clear(&list[i]);
    free(list);
}

static void verify_design(struct verify_run *run, const struct verify_args *a)
{
    struct gpu_case *list;
    int64_t n;
    bool shared;
    if (!gpu_cases_new(a->tree.seed, &list, &n, &shared, &run->err))
        return;
    if (!shared)
        fprintf(stderr,
                "treeattn: no traces in $TREEATTN_SHARED or ../shared; seeded ones stand in for them\n");
    run->cover = xcalloc(1, sizeof *run->cover);
    pairs_met_init(run->cover, run->use, run->n_use);
    for (int64_t i = 0; i < n; i++)
        problem_given_apply(&a->problem.given, &list[i].c.spec);
    run_batch(run, &(struct batch){.n = ceil_div(n, a->sample),
                                   .get = get_design,
                                   .design = list,
                                   .n_design = n,
                                   .stride = a->sample});
    run->whole = a->sample == 1 && !a->strategies;
    gpu_cases_free(list, n);
}

static void verify_trace(struct verify_run *run, const struct verify_args *a, struct problem_spec spec)
{
    struct trace *tr = trace_open(a->tree.src.text, &a->tree.src.trace, &run->err);
    if (!tr)
        return;
    run_batch(run, &(struct batch){.n = min_i64(a->steps, trace_steps(tr)),
                                   .get = get_step,
                                   .trace = tr,
                                   .src = &a->tree.src,
                                   .spec = spec});
    trace_close(tr);
}

/* One case: the one given as a string, or the tree given by options. */
static void verify_one(struct verify_run *run, const struct verify_args *a, struct problem_spec spec)
{
    struct case_spec c = {.src = tree_source_copy(&a->tree.src), .spec = spec};
    if (a->text) {
        tree_source_clear(&c.src);
        if (!case_parse(a->text, &c, &run->err))
            return;
        problem_given_apply(&a->problem.given, &c.spec);
    }
    run_batch(run, &(struct batch){.n = 1, .get = get_listed, .list = &c});
    case_clear(&c);
}

/* The cases of a file, all of which are read before any is run. */
static void verify_list(struct verify_run *run, const struct verify_args *a)
{
    struct batch b = {.get = get_listed, .path = a->list};
    struct case_spec *list;
    if (!case_read_list(a->list, &list, &b.n, &run->err))
        return;
    for (int64_t i = 0; i < b.n; i++)
        problem_given_apply(&a->problem.given, &list[i].spec);
    b.list = list;
    if (b.n > 0)
        run_batch(run, &b);
    else
        err_set(&run->err, "%s: no case in it (expected one a line)", a->list);
    for (int64_t i = 0; i < b.n; i++)
        case_clear(&list[i]);
    free(list);
}

/* ---- the report --------------------------------------------------------------------------------------- */

/* How often each strategy could be used, over all drawn cases and over the family that suits it best. */
static void print_admission(FILE *f, const struct verify_run *run)
{
    int64_t all = run->census.n;
    fprintf(f, "%-20s %10s  %s\n", "admitted", "all trees", "its best family");
    for (int32_t s = 0; s < run->n_use; s++) {
        const int64_t *n = run->admitted + s * N_FAMILIES;
        int64_t sum = 0;
        int best = 0;
        for (int fam = 0; fam < N_FAMILIES; fam++) {
            sum += n[fam];
            if (n[fam] * max_i64(run->drawn[best], 1) > n[best] * max_i64(run->drawn[fam], 1))
                best = fam;
        }
        fprintf(f, "  %-18s %9.1f%%  %s %.1f%%\n", run->use[s].s->name, 100 * (double)sum / (double)all,
                family_name[best], 100 * (double)n[best] / (double)max_i64(run->drawn[best], 1));
    }
}

/* What a GPU ran, besides the results: nothing where none did. */
static void print_device(FILE *f)
{
    struct guarded_tally t = guarded_tally();
    struct cuda_caps c;
    if (t.runs == 0 || !cuda_caps(&c, NULL))
        return;
    fprintf(f,
            "%s: %" PRId64 " runs, %" PRId64 " KiB of canaries untouched; %" PRId64
            " replays of a CUDA graph with the same bits\n",
            c.name, t.runs, t.guard_bytes >> 10, t.replays);
}

/* A run that skipped every case says nothing of the code under test. */
static bool any_ran(const struct verify_run *run)
{
    return totals_cases(&run->totals) > run->totals.n[V_SKIP];
}

/* Kernels that verify would have run were they ready; without a word a machine that lost its GPU would look the same. */
static void print_absent(void)
{
    for (int32_t k = 0; k < n_kernels; k++) {
        struct err e = {0};
        if (!kernel_ready(kernels[k], &e))
            fprintf(stderr, "not here: %s: %s\n", kernels[k]->name, e.msg);
    }
}

/* Everything after the rows. With CSV or JSON on standard output it goes to stderr. */
static void print_report(FILE *f, const struct verify_run *run)
{
    if (run->census.n > 0) {
        census_print(f, &run->census);
        print_admission(f, run);
    }
    if (run->cover)
        pairs_met_print(f, run->cover, run->whole);
    print_device(f);
    if (run->compared)
        fprintf(f, "worst error %.3g of its bound\n", run->totals.worst);
    if (run->properties)
        fprintf(f, "laws: %" PRId64 " held, %" PRId64 " broken\n", run->held, run->broken);
    for (int32_t k = 0; k < n_kernels; k++)
        if (run->refused[k] > 0)
            fprintf(f, "%s skipped %" PRId64 " plans, the first because %s\n", kernels[k]->name,
                    run->refused[k], run->refusal[k]);
    if (run->smallest && totals_cases(&run->totals) > MANY) /* rows stand between */
        fputs(run->smallest, f);
    if (!any_ran(run))
        fprintf(f, "no case ran: all were skipped, the first because %s\n", run->skipped);
    totals_print(f, "verify", &run->totals);
}

static bool run_all(struct verify_run *run, const struct verify_args *a, FILE *f)
{
    struct problem_spec spec = case_default_spec();
    if (a->problem.given.heads && a->problem.given.spec.heads.h_q >= 32)
        spec.heads.d = 128; /* full-size heads are 128 wide */
    spec.seed = a->tree.seed;
    problem_given_apply(&a->problem.given, &spec);
    if (!problem_spec_check(&spec, &run->err))
        return false;
    run->table = (struct printer){.f = f, .style = a->out.style, .column = result_columns};
    if (a->text)
        verify_one(run, a, spec);
    else if (a->list)
        verify_list(run, a);
    else if (a->tree.src.kind == SRC_TRACE && a->steps > 0)
        verify_trace(run, a, spec);
    else if (a->tree.src.kind != SRC_NONE)
        verify_one(run, a, spec);
    else if (a->gpu_cases)
        verify_design(run, a);
    else
        verify_random(run, a);
    if (!run->err.code || run->table.open)
        table_end(&run->table);
    if (run->err.code && run->totals.n[V_FAIL] == 0)
        return false;
    if (run->all_kernels)
        print_absent();
    print_report(a->out.style == STYLE_TEXT ? f : stderr, run);
    return !run->err.code;
}

/* A pair of the design that nothing ran on is as bad as a failure. */
static bool covered(const struct verify_run *run)
{
    int64_t met = 0;
    return !run->cover || !run->whole || pairs_met_pairs(run->cover, &met, NULL) == met;
}

static bool check_args(struct verify_args *a, struct verify_run *run, struct err *e)
{
    bool given = a->text || a->list || a->tree.src.kind != SRC_NONE, said = a->trees || given;
    if ((a->gpu_cases || a->sample) && said)
        return err_set(e, "--gpu-cases and --sample bring their own trees (expected no other tree option)");
    if (a->trees && given)
        return err_set(e, "--trees draws random ones (expected no other tree option)");
    if (!tree_source_takes_steps(&a->tree, a->steps, e))
        return false;
    if (a->sample == 0)
        a->sample = 1;
    else
        a->gpu_cases = true;
    if (a->trees == 0)
        a->trees = 100;
    if (a->kernel && !case_kernel(a->kernel, &run->kernel, e))
        return false;
    if (run->kernel && !kernel_ready(run->kernel, e))
        return false;
    a->gpu_cases = a->gpu_cases || (run->kernel && run->kernel->ready && !said);
    if ((a->text || a->list) && (a->tree.src.kind != SRC_NONE || (a->text && a->list)))
        return err_set(e, "--case and --cases bring their own trees (expected no other tree option)");
    run->chosen = a->strategies != NULL;
    return tree_source_finish(&a->tree, false, e) && case_strategies(a->strategies, &run->use, &run->n_use, e);
}

int cmd_verify(int argc, char **argv)
{
    struct err e = {0};
    struct verify_args a = {.tree.err = &e, .problem.err = &e, .err = &e};
    struct verify_run run = {.quiet = false};
    struct outfile out = {0};
    int code;
    if (!cmd_parse(&argp, argc, argv, &a, &e) || !check_args(&a, &run, &e) ||
        !outfile_open(&out, a.out.path, &e)) {
        code = cmd_error(&e);
    } else {
        crash_tell();
        run.quiet = a.out.quiet;
        run.shrink = !a.no_shrink;
        run.properties = a.properties;
        run.admitted = xcalloc((size_t)run.n_use * N_FAMILIES, sizeof *run.admitted);
        run.refused = xcalloc((size_t)n_kernels, sizeof *run.refused);
        run.refusal = xcalloc((size_t)n_kernels, sizeof *run.refusal);
        bool done = run_all(&run, &a, out.f), failed = run.totals.n[V_FAIL] > 0;
        if (!done)
            e = run.err;
        code = failed || !covered(&run) ? EXIT_FAILED : any_ran(&run) ? EXIT_GOOD : EXIT_MISSING;
        if (!outfile_close(&out, done || failed, &e) || !done)
            code = cmd_error(&e);
        code = failed && !done ? EXIT_FAILED : code; /* whatever ended the run: that is known */
    }
    free(run.use);
    free(run.admitted);
    free(run.refused);
    free(run.refusal);
    free(run.smallest);
    free(run.cover);
    free(run.census.row);
    tree_source_clear(&a.tree.src);
    return code;
}
