#include "verify/judge/verify_run.h"
#include "kernels/cuda/host/guard_gpu.h"
#include "verify/cases/gpu_matrix.h"
#include "verify/io/outfile.h"
#include "verify/io/progress.h"
#include "verify/io/sha256.h"
#include "verify/judge/judged.h"
#include "verify/judge/outside.h"
#include "verify/judge/pairs_met.h"
#include "verify/judge/properties.h"
#include "verify/judge/repeat.h"
#include "verify/judge/shrink.h"
#include "verify/sweep/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where case i of a batch comes from; the caller frees it. */
struct batch {
    int64_t n;
    void (*get)(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t);
    bool drawn; /* it belongs in the census */
    bool ours;  /* nobody has chosen these cases: they may be changed to what a kernel outside takes; */
    bool typed; /* of a suite the types alone */
    const struct verify_job *job;
    const struct case_spec *list;
    const char *path;              /* of the file that has the list, or NULL */
    const struct gpu_case *design; /* every stride-th of it */
    int64_t n_design, stride;
    const struct trace *trace;
    struct problem_spec spec;
};

enum {
    MAX_SHRUNK = 3,
    MANY = 20 /* with more cases, the smallest ones are printed again at the end */
};

struct verify_run {
    const struct verify_job *job;
    struct batch batch;                        /* that is under way */
    int64_t n;                                 /* cases of it that are run, */
    int64_t *order, *at;                       /* [n] which, one after the other; at[order[i]] is i, with other processes */
    char **from;                               /* [n] and what they are called in files of rows; NULL: there is none */
    struct judged **ready;                     /* [n] */
    int64_t next;                              /* to be reported */
    double ends;                               /* no case is begun after that; 0: never */
    int64_t left, all;                         /* cases that were not run, of how many */
    int64_t held, broken;                      /* laws */
    struct outside_tally tally;                /* of a kernel outside */
    const struct strategy *shrunk[MAX_SHRUNK]; /* of these a failure was reduced */
    int32_t n_shrunk;
    struct printer table;
    struct totals totals;
    bool all_kernels;              /* a case named none */
    bool not_wide;                 /* the wide cases were not run, where others are chosen for all to see */
    bool compared;                 /* a result was, so that there is a worst error */
    char skipped[RESULT_SENTENCE]; /* the first reason for a SKIP */
    struct {
        int64_t n;              /* plans that a kernel skipped, */
        char why[160];          /* the first because */
    } * refused;                /* [n_kernels + 1], the last of a kernel outside: cases */
    struct cause_tally *causes; /* [n_kernels + N_KERNEL_POINTS]: each point of a kernel outside has its own */
    struct {
        char *text; /* case, */
        const struct kernel *kernel;
        double error;
    } worst;        /* of the wrong answers, where it is to be drawn */
    char *smallest; /* what was printed below failures, NULL: nothing */
    struct progress progress;
    struct census census;
    int64_t *admitted; /* [n_use][N_FAMILIES] drawn cases the strategy planned */
    int64_t drawn[N_FAMILIES];
    struct pairs_met *cover; /* NULL: not the design of gpu-check */
    bool whole;              /* all of the design, for all strategies */
    struct err err;
    bool stop; /* err is set, or enough has failed; read without holding up the others */
};

/* ---- the run ------------------------------------------------------------------------------------------ */

/* Case i of every stride-th: of neighbours, which alternate in kind, each in turn. */
static const struct gpu_case *design_at(const struct batch *b, int64_t i)
{
    return &b->design[min_i64(i * b->stride + i % b->stride, b->n_design - 1)];
}

/* The strategies and kernels of one case, in registry order, and the laws where the numbers are right: into *out (the
 * caller frees). Returns how many. */
static int32_t judge_all(const struct verify_run *run, const struct test_case *b, struct result **out,
                         int64_t *held)
{
    const struct case_spec *c = b->c;
    const struct strategy_use *use = c->use.s ? &c->use : run->job->use;
    const struct kernel *const *on = c->kernel ? &c->kernel : kernels;
    int32_t n_on = c->kernel ? 1 : n_kernels, n_pairs = (c->use.s ? 1 : run->job->n_use) * n_on, n = 0;
    if (c->kernel && c->kernel->attend) {
        *out = xcalloc((size_t)(n_pairs * N_KERNEL_POINTS), sizeof **out);
        return outside_points(b, c->kernel, use, n_pairs, !c->use.s && !run->job->chosen, *out);
    }
    *out = xcalloc((size_t)(n_pairs * (1 + n_properties)), sizeof **out);
    for (int32_t i = 0; i < n_pairs; i++) {
        const struct kernel *k = on[i % n_on];
        if (!c->kernel && !kernel_ready(k, NULL))
            continue;
        struct result *r = *out + n++;
        *r = judge_case(b, &use[i / n_on], k);
        if (run->job->properties && (r->verdict == V_PASS || r->verdict == V_MARGINAL))
            n += judge_laws(b, r->use, k, r + 1, held);
    }
    return n;
}

/* A strategy counts as admitted once a case, whatever the number of kernels. */
static void count_admitted(struct verify_run *run, enum family family, const struct result *r, int32_t n)
{
    run->drawn[family]++;
    for (int32_t i = 0; i < n; i++)
        if (r[i].planned && (i == 0 || r[i].use != r[i - 1].use))
            run->admitted[(r[i].use - run->job->use) * N_FAMILIES + (int32_t)family]++;
}

/* The first failure of each strategy, of a few; below its row, or beside the table where that is for programs. */
static void reduce(struct verify_run *run, const char *case_text, const struct kernel *k, const struct result *r)
{
    struct err e = {0};
    struct case_spec c = {0};
    for (int32_t i = 0; i < run->n_shrunk; i++)
        if (run->shrunk[i] == r->use->s)
            return;
    if (run->job->no_shrink || run->n_shrunk == MAX_SHRUNK)
        return;
    run->shrunk[run->n_shrunk++] = r->use->s;
    CK(case_parse(case_text, &c, &e)); /* it was printed from one */
    c.kernel = k;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    CK(f);
    shrink_print(f, &(struct shrink_program){program_invocation_name, run->job->command}, &c, r);
    fclose(f);
    case_clear(&c);
    fputs(text, run->table.style == STYLE_TEXT ? run->table.f : stderr);
    char *all = xasprintf("%s%s", run->smallest ? run->smallest : "", text);
    free(run->smallest);
    free(text);
    run->smallest = all;
}

/* Is it a kernel outside that is judged? */
static bool counts_apart(const struct verify_run *run)
{
    return run->job->kernel && run->job->kernel->attend;
}

/* Its number; n_kernels if it is none of the program's. */
static int32_t kernel_number(const struct verify_run *run, const char *name)
{
    int32_t k = counts_apart(run) ? n_kernels : 0;
    while (k < n_kernels && strcmp(kernels[k]->name, name) != 0)
        k++;
    return k;
}

/* Of a kernel outside. */
static enum kernel_point point_of(const struct verify_run *run, const struct result *r)
{
    return counts_apart(run) ? outside_find(run->job->kernel, r->kernel)->point : POINT_ATTENTION;
}

/* As people are told. */
static void sentence_of(const struct row_outcome *o, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", o->ended ? o->code : "", o->ended ? ": " : "", o->why);
}

/* A kernel that skips most of what it is given passes the rest. */
static void note_refused(struct verify_run *run, const struct row_outcome *o)
{
    int32_t k = kernel_number(run, o->kernel);
    bool counts = k < n_kernels || counts_apart(run);
    if (o->refused && counts && run->refused[k].n++ == 0)
        sentence_of(o, run->refused[k].why, sizeof run->refused[k].why);
}

static void note_cause(struct verify_run *run, const struct result *r)
{
    int32_t k = kernel_number(run, r->kernel);
    if (r->cause.wrong > 0 || r->cause.right > 0)
        cause_add(&run->causes[k < n_kernels ? k : k + (int32_t)point_of(run, r)], &r->cause);
}

/* The first of the worst. */
static void note_worst(struct verify_run *run, const struct result *r, const struct kernel *k, const char *text)
{
    bool numbers = r->stage == STAGE_NUMBERS || (r->stage == STAGE_REPEAT && r->compared);
    if (!run->job->error_map || !numbers || (run->worst.text && !(r->cmp.worst > run->worst.error)))
        return;
    free(run->worst.text);
    run->worst.text = xstrdup(text);
    run->worst.kernel = k;
    run->worst.error = r->cmp.worst;
}

/* A row: into the totals, the table and what is kept. True if it fails. */
static bool emit_outcome(struct verify_run *run, struct row_outcome *o)
{
    const struct verify_job *job = run->job;
    if (job->known)
        known_apply(job->known, o);
    totals_add_outcome(&run->totals, o);
    run->compared = run->compared || !isnan(o->number[OUTCOME_WORST]);
    note_refused(run, o);
    if (run->totals.n[V_SKIP] == 1 && o->verdict == V_SKIP)
        sentence_of(o, run->skipped, sizeof run->skipped);
    if (job->reports)
        reports_add(job->reports, o);
    if (!job->quiet || o->verdict == V_FAIL || o->verdict == V_MARGINAL)
        outcome_row(&run->table, o);
    return o->verdict == V_FAIL;
}

/* The kernel of a result, as cases name it. */
static const struct kernel *kernel_of(const struct verify_run *run, const struct result *r)
{
    return counts_apart(run) ? outside_find(run->job->kernel, r->kernel) : kernel_find(r->kernel);
}

static void emit(struct verify_run *run, const struct judged *d, const struct gpu_case *design, const char *from)
{
    struct row_outcome *o = xcalloc((size_t)d->n, sizeof *o);
    run->all_kernels = run->all_kernels || !d->names_kernel;
    if (run->batch.drawn) {
        census_add(&run->census, d->census);
        count_admitted(run, d->family, d->result, d->n);
    }
    for (int32_t i = 0; i < d->n; i++)
        o[i] = result_outcome(&d->result[i], &d->heads, d->string[i]);
    if (run->job->rows && d->n > 0) /* as they are, whatever is known of them today */
        rows_add(run->job->rows, from, o, d->n);
    for (int32_t i = 0; i < d->n; i++) {
        const struct result *r = &d->result[i];
        run->broken += r->law != NULL;
        note_cause(run, r);
        if (design)
            pairs_met_add(run->cover, design, r);
        bool fails = emit_outcome(run, &o[i]);
        note_worst(run, r, kernel_of(run, r), d->string[i]);
        if (fails) {
            fflush(run->table.f); /* smaller cases may end the program, too */
            reduce(run, d->string[i], kernel_of(run, r), r);
        }
        outcome_clear(&o[i]);
    }
    free(o);
}

/* The type of Q, unless it was given, is one that the kernel takes: a suite asks for shapes and features. */
static void suit_type(struct case_spec *c, const struct problem_given *given)
{
    struct problem_spec s = c->spec;
    c->kernel->suit(c->kernel, &s);
    if (!given->dtype)
        c->spec.heads.dtype = s.heads.dtype;
}

/* What is to be known of the case once it is over. */
static void note_case(const struct verify_run *run, struct case_spec *c, const struct test_case *x, struct judged *d)
{
    d->own = c->use;
    d->heads = c->spec.heads;
    d->names_kernel = c->kernel != NULL;
    if (run->batch.drawn) {
        d->family = c->src.family;
        census_row(c, x->tree, d->census);
    }
    d->string = xcalloc((size_t)d->n, sizeof *d->string);
    for (int32_t i = 0; i < d->n; i++) {
        struct result *r = &d->result[i];
        c->use = *r->use;
        c->kernel = kernel_of(run, r);
        d->string[i] = case_print(c);
        r->use = r->use == &c->use ? &d->own : r->use;
    }
}

/* Case i of the batch. */
static struct judged *judge_one(struct verify_run *run, int64_t i)
{
    struct judged *d = xcalloc(1, sizeof *d);
    struct case_spec c = {0};
    struct tree *t = NULL;
    struct test_case *x = NULL;
    run->batch.get(&run->batch, i, &c, &t);
    d->line = c.line;
    /* what options say in the place of the case's own keys */
    c.kernel = run->job->kernel ? run->job->kernel : c.kernel;
    if (run->job->chosen)
        c.use.s = NULL;
    if (c.kernel && !kernel_ready(c.kernel, &d->e)) {
        tree_free(t);
    } else if (!run->batch.ours || !c.kernel || !c.kernel->suit || case_suit(&c, &run->job->given, &t, &d->e)) {
        if (run->batch.typed && c.kernel && c.kernel->suit)
            suit_type(&c, &run->job->given);
        x = test_case_new(&c, t, &d->e);
    }
    if (x) {
        x->tally = run->job->properties ? &d->tally : NULL;
        d->n = judge_all(run, x, &d->result, &d->held);
        note_case(run, &c, x, d);
        test_case_free(x);
    }
    case_clear(&c);
    return d;
}

static void emit_kept(struct verify_run *run, const struct row_outcome *kept, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        struct row_outcome o = outcome_copy(&kept[i]);
        emit_outcome(run, &o);
        outcome_clear(&o);
    }
}

/* Report what is ready, in order, from run->next on. */
static void report_ready(struct verify_run *run)
{
    const struct batch *b = &run->batch;
    for (; run->next < run->n && run->ready[run->next]; run->next++) {
        struct judged *d = run->ready[run->next];
        if (run->stop)
            break;
        run->ready[run->next] = NULL;
        run->held += d->held;
        for (int k = 0; k < N_OUTSIDE_PROPERTIES; k++) {
            run->tally.asked[k] += d->tally.asked[k];
            run->tally.held[k] += d->tally.held[k];
        }
        progress_clear(&run->progress);
        if (d->kept)
            emit_kept(run, d->kept, d->n);
        else if (!d->e.code)
            emit(run, d, b->design ? design_at(b, run->order[run->next]) : NULL, run->from ? run->from[run->next] : NULL);
        else if (b->path)
            case_at_line(b->path, d->line, &d->e, &run->err);
        else
            run->err = d->e;
        fflush(run->table.f); /* the next case may end the program */
        progress_step(&run->progress);
        judged_free(d);
#pragma omp atomic write
        run->stop = run->err.code != 0 || (run->job->fail_fast && run->totals.n[V_FAIL] > 0);
    }
}

/* Number i of the order, if an earlier run judged it; else NULL. */
static struct judged *kept(const struct verify_run *run, int64_t i)
{
    int32_t n = 0;
    const struct row_outcome *rows = run->from ? rows_done(run->job->rows, run->from[i], &n) : NULL;
    struct judged *d = rows ? xcalloc(1, sizeof *d) : NULL;
    if (d) {
        d->kept = rows;
        d->n = n;
    }
    return d;
}

static void run_case(void *context, int64_t i)
{
    struct verify_run *run = context;
    bool stop;
#pragma omp atomic read
    stop = run->stop;
    if (stop || (run->ends > 0 && now_s() > run->ends))
        return;
    struct judged *d = kept(run, i);
    d = d ? d : judge_one(run, run->order[i]);
#pragma omp critical(treeattn_verify_report)
    {
        run->ready[i] = d;
        report_ready(run);
    }
}

/* ---- which cases of a batch, and in which order --------------------------------------------------------- */

/* Its string as it came: options, a strategy and a kernel are filled in later. */
static char *name_of(const struct batch *b, int64_t i)
{
    struct case_spec c;
    struct tree *t = NULL;
    b->get(b, i, &c, &t);
    char *text = case_print(&c);
    tree_free(t);
    case_clear(&c);
    return text;
}

/* A case of a list stays in its part when others come and go. */
static bool in_shard(const struct verify_job *j, const struct batch *b, int64_t i, const char *name)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t x = (uint64_t)i;
    if (j->shards == 1)
        return true;
    if (b->list) {
        sha256(name, strlen(name), digest);
        x = 0;
        for (int k = 0; k < 8; k++)
            x = x << 8 | digest[k];
    }
    return x % (uint64_t)j->shards == (uint64_t)j->shard;
}

/* Those of this part; what failed in the run before comes first. */
static void choose(struct verify_run *run)
{
    const struct batch *b = &run->batch;
    const struct verify_job *j = run->job;
    bool named = j->rows || (b->list && j->shards > 1);
    char **name = xcalloc((size_t)b->n, sizeof *name);
    run->order = xcalloc((size_t)b->n, sizeof *run->order);
    run->from = j->rows ? xcalloc((size_t)b->n, sizeof *run->from) : NULL;
    run->n = 0;
    for (int64_t i = 0; i < b->n && named; i++)
        name[i] = name_of(b, i);
    for (int failed = 1; failed >= 0; failed--)
        for (int64_t i = 0; i < b->n; i++) {
            if (!in_shard(j, b, i, name[i]) || (j->rows && rows_failed(j->rows, name[i])) != failed)
                continue;
            run->order[run->n] = i;
            if (run->from)
                run->from[run->n] = name[i];
            run->n++;
        }
    for (int64_t i = 0; i < b->n && named; i++)
        if (!run->from || !in_shard(j, b, i, name[i]))
            free(name[i]);
    free(name);
}

/* ---- with other processes ------------------------------------------------------------------------------- */

/* Operations of the attention of case i, times strategies and kernels, in the time of about so many: what it may take. */
static double price_case(void *context, int64_t i)
{
    static const double AT_LEAST = 1e6; /* planning, and what does not grow with the tree */
    struct verify_run *run = context;
    struct case_spec c = {0};
    struct tree *t = NULL;
    run->batch.get(&run->batch, i, &c, &t);
    t = t ? t : tree_source_load(&c.src, NULL);
    double pairs = t ? (double)visible_pairs(t) : 0, tokens = t ? (double)tree_tokens(t) : 0;
    pairs = pairs * c.spec.heads.h_q * c.spec.heads.d + tokens * c.spec.heads.h_kv * c.spec.heads.d;
    tree_free(t);
    case_clear(&c);
    return AT_LEAST + pairs;
}

static void judge_for_others(void *context, int64_t i, FILE *to)
{
    struct verify_run *run = context;
    struct judged *d = judge_one(run, i);
    judged_pack(d, run->job->use, to);
    judged_free(d);
}

static bool take_judged(void *context, int64_t i, const char *bytes, size_t size)
{
    struct verify_run *run = context;
    struct judged *d = judged_unpack(bytes, size, run->job->use, run->job->n_use);
    if (!d)
        return err_failed(&run->err, "what a worker says of case %" PRId64 " cannot be read", i);
    run->ready[run->at[i]] = d;
    report_ready(run);
    return true;
}

static bool enough(void *context)
{
    const struct verify_run *run = context;
    return run->stop || (run->ends > 0 && now_s() > run->ends);
}

/* What has to be there in all processes. */
static char *kernels_here(const struct verify_run *run)
{
    char *text = xasprintf("kernels of our own%s", run->job->kernel ? " and " : ":");
    for (int32_t k = 0; k < n_kernels && !run->job->kernel; k++)
        if (kernel_ready(kernels[k], NULL))
            xappend(&text, " %s", kernels[k]->name);
    if (run->job->kernel)
        xappend(&text, "%s %s", run->job->kernel->name, run->job->what.version ? run->job->what.version : "");
    return text;
}

/* The cases are judged by workers. */
static void run_shared(struct verify_run *run)
{
    bool front = sweep_role() == SWEEP_FRONT;
    char *alike = kernels_here(run);
    int64_t *chosen = xcalloc((size_t)run->n, sizeof *chosen), n = 0;
    double *cost = sweep_prices(run->batch.n, price_case, run, &run->err);
    run->at = xcalloc((size_t)run->batch.n, sizeof *run->at);
    for (int64_t i = 0; i < run->n && front; i++) {
        run->at[run->order[i]] = i;
        if (!(run->ready[i] = kept(run, i)))
            chosen[n++] = run->order[i];
    }
    if (front)
        report_ready(run);
    if (!run->err.code)
        sweep_run(&(struct sweep_tasks){.alike = alike,
                                        .n = run->batch.n,
                                        .chosen = chosen,
                                        .n_chosen = n,
                                        .cost = cost,
                                        .run = judge_for_others,
                                        .take = take_judged,
                                        .stop = enough,
                                        .context = run},
                  &run->err);
    free(alike);
    free(chosen);
    free(cost);
    free(run->at);
}

/* Cases of a batch side by side, none waiting for another. Results are printed in order, so a run's output does not
 * depend on the number of cores. A case that cannot be had stops the run at its place. */
static void run_batch(struct verify_run *run, struct batch b)
{
    run->batch = b;
    run->batch.job = run->job;
    choose(run);
    run->progress = progress_start("verify", run->n);
    run->ready = xcalloc((size_t)run->n, sizeof *run->ready);
    run->next = 0;
    if (sweep_role() == SWEEP_ALONE)
        run_parallel(run->n, run_case, run);
    else
        run_shared(run);
    for (int64_t i = 0; i < run->n; i++) {
        if (run->ready[i]) /* beyond the case at which the run stopped */
            judged_free(run->ready[i]);
        if (run->from)
            free(run->from[i]);
    }
    run->all += run->n;
    run->left += run->n - run->next;
    free(run->ready);
    free(run->order);
    free(run->from);
    progress_clear(&run->progress);
}

/* ---- batches ------------------------------------------------------------------------------------------ */

static void get_drawn(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    *c = random_case(b->job->seed, i, &b->job->given, t);
}

static void get_listed(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    (void)t; /* the case has a source */
    *c = b->design ? design_at(b, i)->c : b->list[i];
    c->src = tree_source_copy(&c->src);
}

/* Steps spread evenly from the first to the last. */
static void get_step(const struct batch *b, int64_t i, struct case_spec *c, struct tree **t)
{
    *c = (struct case_spec){.src = tree_source_copy(&b->job->src), .spec = b->spec};
    c->src.step = trace_spread(i, b->n, trace_steps(b->trace));
    *t = trace_tree(b->trace, c->src.step);
}

/* Takes the list. ours: nobody has chosen these cases. */
static void run_list(struct verify_run *run, struct case_spec *list, int64_t n, const char *path, bool ours)
{
    run_batch(run, (struct batch){.n = n,
                                  .get = get_listed,
                                  .list = list,
                                  .path = path,
                                  .ours = ours,
                                  .typed = path && path == run->job->suite});
    for (int64_t i = 0; i < n; i++)
        case_clear(&list[i]);
    free(list);
}

static void verify_random(struct verify_run *run)
{
    run_batch(run, (struct batch){.n = run->job->trees, .get = get_drawn, .drawn = true, .ours = true});
    if (run->job->no_sharp || run->err.code)
        return;
    int64_t n;
    struct case_spec *list = sharp_cases(&n);
    run_list(run, list, n, NULL, true);
}

static void verify_wide(struct verify_run *run)
{
    int64_t n;
    struct case_spec *list = wide_cases(&n);
    for (int64_t i = 0; i < n; i++)
        problem_given_apply(&run->job->given, &list[i].spec);
    run_list(run, list, n, NULL, true);
}

static void verify_design(struct verify_run *run)
{
    const struct verify_job *j = run->job;
    struct gpu_case *list;
    int64_t n;
    bool shared;
    if (!gpu_cases_new(j->seed, &list, &n, &shared, &run->err))
        return;
    if (!shared && sweep_role() != SWEEP_WORKER)
        fprintf(stderr,
                "treeattn: no traces in $TREEATTN_SHARED or ../shared; seeded ones stand in for them\n");
    run->cover = xcalloc(1, sizeof *run->cover);
    pairs_met_init(run->cover, j->use, j->n_use);
    for (int64_t i = 0; i < n; i++)
        problem_given_apply(&j->given, &list[i].c.spec);
    run_batch(run, (struct batch){.n = ceil_div(n, j->sample),
                                  .get = get_listed,
                                  .design = list,
                                  .n_design = n,
                                  .stride = j->sample});
    run->whole = j->sample == 1 && !j->chosen && j->shards == 1;
    gpu_cases_free(list, n);
}

static void verify_trace(struct verify_run *run, struct problem_spec spec)
{
    const struct verify_job *j = run->job;
    struct trace *tr = trace_open(j->src.text, &j->src.trace, &run->err);
    if (!tr)
        return;
    run_batch(run, (struct batch){
                       .n = min_i64(j->steps, trace_steps(tr)), .get = get_step, .trace = tr, .spec = spec});
    trace_close(tr);
}

/* One case: the one given as a string, or the tree given by options. */
static void verify_one(struct verify_run *run, struct problem_spec spec)
{
    const struct verify_job *j = run->job;
    struct case_spec *c = xcalloc(1, sizeof *c);
    *c = (struct case_spec){.src = tree_source_copy(&j->src), .spec = spec};
    if (j->text) {
        tree_source_clear(&c->src);
        if (!case_parse(j->text, c, &run->err)) {
            free(c);
            return;
        }
        problem_given_apply(&j->given, &c->spec);
    }
    run_list(run, c, 1, NULL, false);
}

/* The cases of a file, all of which are read before any is run. */
static void verify_list(struct verify_run *run)
{
    const struct verify_job *j = run->job;
    struct case_spec *list;
    int64_t n;
    if (!case_read_list(j->list, &list, &n, &run->err))
        return;
    if (n == 0)
        err_set(&run->err, "%s: no case in it (expected one a line)", j->list);
    for (int64_t i = 0; i < n; i++)
        problem_given_apply(&j->given, &list[i].spec);
    run_list(run, list, n, j->list, false);
}

/* A suite means what it says: but for their type, its cases are not changed to what a kernel takes. */
static void verify_suite(struct verify_run *run)
{
    const struct verify_job *j = run->job;
    struct case_spec *list = xcalloc((size_t)j->n_cases, sizeof *list);
    for (int64_t i = 0; i < j->n_cases; i++) {
        list[i] = j->cases[i];
        list[i].src = tree_source_copy(&j->cases[i].src);
        problem_given_apply(&j->given, &list[i].spec);
    }
    run_list(run, list, j->n_cases, j->suite, false);
}

/* ---- the report --------------------------------------------------------------------------------------- */

/* How often each strategy could be used, over all drawn cases and over the family that suits it best. */
static void print_admission(FILE *f, const struct verify_run *run)
{
    int64_t all = run->census.n;
    fprintf(f, "%-20s %10s  %s\n", "admitted", "all trees", "its best family");
    for (int32_t s = 0; s < run->job->n_use; s++) {
        const int64_t *n = run->admitted + s * N_FAMILIES;
        int64_t sum = 0;
        int best = 0;
        for (int fam = 0; fam < N_FAMILIES; fam++) {
            sum += n[fam];
            if (n[fam] * max_i64(run->drawn[best], 1) > n[best] * max_i64(run->drawn[fam], 1))
                best = fam;
        }
        fprintf(f, "  %-18s %9.1f%%  %s %.1f%%\n", run->job->use[s].s->name, 100 * (double)sum / (double)all,
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

/* A run that skipped every case says nothing of the code under test. A part of a run may have none. */
static bool any_ran(const struct verify_run *run)
{
    if (totals_cases(&run->totals) == 0 && (run->job->shards > 1 || run->left > 0))
        return true;
    return totals_cases(&run->totals) > run->totals.n[V_SKIP] - run->totals.known;
}

/* Kernels that verify would have run were they ready: a machine that lost its GPU must not look like one without. */
static void report_absent(void)
{
    for (int32_t k = 0; k < n_kernels; k++) {
        struct err e = {0};
        if (!kernel_ready(kernels[k], &e))
            fprintf(stderr, "not here: %s: %s\n", kernels[k]->name, e.msg);
    }
}

static const char *tally_name(const struct verify_run *run, int32_t k)
{
    const struct kernel *x = run->job->kernel;
    if (k < n_kernels)
        return kernels[k]->name;
    while (x->also && (int32_t)x->point != k - n_kernels)
        x = x->also;
    return x->name;
}

/* What explains the failures of kernel k, taken together. */
static void print_cause(FILE *f, const struct verify_run *run, int32_t k)
{
    char text[CAUSE_TEXT];
    int64_t n;
    if (cause_of_all(&run->causes[k], text, &n)[0])
        fprintf(f, "cause of %" PRId64 " of %" PRId64 " wrong results of %s: %s\n", n, run->causes[k].n,
                tally_name(run, k), text);
}

/* Everything behind the rows. With CSV or JSON on standard output it goes to stderr. */
static void report(FILE *f, const struct verify_run *run)
{
    bool outside = run->job->kernel && run->job->kernel->attend;
    if (run->census.n > 0)
        census_print(f, &run->census);
    if (run->census.n > 0 && !outside)
        print_admission(f, run);
    if (run->cover)
        pairs_met_print(f, run->cover, run->whole);
    print_device(f);
    if (run->compared)
        fprintf(f, "worst error %.3g of its bound\n", run->totals.worst);
    if (run->job->properties && outside)
        outside_print(f, run->job->kernel->name, &run->tally);
    else if (run->job->properties)
        fprintf(f, "laws: %" PRId64 " held, %" PRId64 " broken\n", run->held, run->broken);
    for (int32_t k = 0; k <= n_kernels; k++)
        if (run->refused[k].n > 0)
            fprintf(f, "%s skipped %" PRId64 " %s, the first because %s\n",
                    k < n_kernels ? kernels[k]->name : run->job->kernel->name, run->refused[k].n,
                    k < n_kernels ? "plans" : "cases", run->refused[k].why);
    if (run->smallest && totals_cases(&run->totals) > MANY) /* rows stand between */
        fputs(run->smallest, f);
    for (int32_t k = 0; k < n_kernels + N_KERNEL_POINTS; k++)
        print_cause(f, run, k);
    if (run->job->known)
        known_print(f, run->job->known, run->left == 0 && run->job->shards == 1);
    if (run->left > 0)
        fprintf(f, "%" PRId64 " of %" PRId64 " cases were not run%s\n", run->left, run->all,
                run->err.code ? "" : run->stop ? " (--fail-fast)" : " (--max-time)");
    if (run->job->require_all && run->totals.refused > 0)
        fprintf(f, "--require-all: kernels did not take %" PRId64 " plans\n", run->totals.refused);
    if (!any_ran(run))
        fprintf(f, "no case ran: all were skipped, the first because %s\n", run->skipped);
    char *more =
        run->not_wide ? xasprintf("; %" PRId32 " wide cases not run (--wide)", n_wide_texts) : xstrdup("");
    totals_print(f, "verify", &run->totals, more);
    free(more);
}

/* ---- a picture ---------------------------------------------------------------------------------------- */

/* The worst answer once more, into *m; false if it is right this time. */
static bool map_worst(const struct verify_run *run, struct error_map *m, char title[100],
                      char why[RESULT_SENTENCE])
{
    struct err e = {0};
    struct case_spec c = {0};
    CK(case_parse(run->worst.text, &c, &e)); /* it was printed from one */
    c.kernel = run->worst.kernel;
    struct test_case *b = test_case_new(&c, NULL, &e);
    if (b) {
        b->no_cause = true;
        b->map = m;
        struct result r = judge_case(b, &c.use, c.kernel);
        result_sentence(&r, why);
        snprintf(title, 100, "%.40s on %.40s", r.strategy, r.kernel);
    }
    test_case_free(b);
    case_clear(&c);
    return m->error;
}

/* Nothing is written where nothing is wrong. */
static bool draw_worst(const struct verify_run *run, struct err *e)
{
    char title[100], why[RESULT_SENTENCE];
    struct error_map m = {0};
    struct outfile out;
    if (!run->job->error_map)
        return true;
    bool wrong = run->worst.text && map_worst(run, &m, title, why),
         good = !wrong || outfile_open(&out, run->job->error_map, e);
    if (wrong && good) {
        error_map_print_svg(out.f, &m, title, why, run->worst.text);
        good = outfile_close(&out, true, e);
    } else if (good) {
        fprintf(stderr, "--error-map: nothing is drawn: %s\n",
                run->worst.text ? "what was wrong is right this time" : "no answer had wrong numbers");
    }
    error_map_clear(&m);
    return good;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static bool run_all(struct verify_run *run, FILE *f)
{
    const struct verify_job *j = run->job;
    struct problem_spec spec = case_default_spec();
    if (j->given.heads && j->given.spec.heads.h_q >= 32)
        spec.heads.d = 128; /* full-size heads are 128 wide */
    spec.seed = j->seed;
    problem_given_apply(&j->given, &spec);
    if (!problem_spec_check(&spec, &run->err))
        return false;
    run->table = (struct printer){.f = f, .style = j->style, .column = outcome_columns, .notes = j->what.notes};
    run->ends = j->max_seconds > 0 ? now_s() + (double)j->max_seconds : 0;
    if (j->text)
        verify_one(run, spec);
    else if (j->suite)
        verify_suite(run);
    else if (j->list)
        verify_list(run);
    else if (j->src.kind == SRC_TRACE && j->steps > 0)
        verify_trace(run, spec);
    else if (j->src.kind != SRC_NONE)
        verify_one(run, spec);
    else if (j->wide)
        verify_wide(run);
    else if (j->gpu_cases)
        verify_design(run);
    else {
        verify_random(run);
        run->not_wide = true;
    }
    if (sweep_role() == SWEEP_WORKER)
        return !run->err.code;
    if (!run->err.code || run->table.open)
        table_end(&run->table);
    if (run->err.code && run->totals.n[V_FAIL] == 0)
        return false;
    if (run->all_kernels)
        report_absent();
    report(j->style == STYLE_TEXT ? f : stderr, run);
    return !run->err.code;
}

bool verify_run(const struct verify_job *job, FILE *f, int *code, struct err *e)
{
    struct verify_run run = {.job = job};
    run.admitted = xcalloc((size_t)job->n_use * N_FAMILIES, sizeof *run.admitted);
    run.refused = xcalloc((size_t)n_kernels + 1, sizeof *run.refused);
    run.causes = xcalloc((size_t)n_kernels + N_KERNEL_POINTS, sizeof *run.causes);
    int64_t met, expired = job->known ? known_expired(job->known) : 0;
    bool done = run_all(&run, f) && draw_worst(&run, &run.err) &&
                (!job->reports || reports_write(job->reports, &job->what, run.left, expired, &run.err)),
         failed = run.totals.n[V_FAIL] > 0 || expired > 0;
    if (!done)
        *e = run.err;
    else if (run.whole) /* a pair of the design that nothing ran on is as bad as a failure */
        failed |= pairs_met_pairs(run.cover, &met, NULL) != met;
    bool all = any_ran(&run) && !(job->require_all && run.totals.refused > 0) && run.left == 0;
    *code = failed ? EXIT_FAILED : all ? EXIT_GOOD : EXIT_MISSING;
    free(run.admitted);
    free(run.refused);
    free(run.causes);
    free(run.smallest);
    free(run.worst.text);
    free(run.cover);
    free(run.census.row);
    return done;
}
