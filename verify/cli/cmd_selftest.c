/*
 * cmd_selftest.c - treeattn selftest: verify the verifier. Plants every kind of fault in every strategy it
 * applies to and prints who noticed.
 */
#include "kernels/cuda/host/cuda.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/faults/faults.h"
#include "verify/io/progress.h"
#include "verify/io/text.h"
#include "verify/sweep/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct selftest_args {
    struct cmd_output out;
    uint64_t seed;
    const char *strategies; /* NULL: all */
    const char *kernel;
    int32_t arch;
    bool kinds;
    struct supervision watch;
};

/* One blind spot of the comparator shows in every strategy. */
#define MAX_REMARKS INT64_C(40)

/* ---- printing ---------------------------------------------------------------------------------------- */

static void print_kinds(FILE *f, enum style style)
{
    static const char *const columns[] = {"fault", "where", "about", NULL};
    static const int32_t width[] = {18, 6, 0};
    struct printer t = {.f = f, .style = style, .column = columns, .aligned = true, .width = width};
    for (int32_t i = 0; i < n_faults; i++) {
        table_text(&t, faults[i].name);
        table_text(&t, fault_where_name[faults[i].where]);
        table_text(&t, faults[i].about);
    }
    table_end(&t);
}

/* Error in bounds; what is not finite cannot be weak. */
static const char *print_weakest(char *s, size_t size, const struct fault_tally *t)
{
    snprintf(s, size, t->run == 0 ? "n/a" : t->weakest < 1e3 ? "%.3g" : "%.1e", t->weakest);
    return s;
}

static void print_tally(FILE *f, const char *name, const char *where, bool plan, const struct fault_tally *t)
{
    char weakest[32], cover[32] = "-", numbers[48] = "n/a";
    if (plan)
        snprintf(cover, sizeof cover, "%" PRId64, t->cover);
    if (t->run > 0)
        snprintf(numbers, sizeof numbers, "%" PRId64 "/%" PRId64, t->numbers, t->run);
    if (t->planted == 0)
        fprintf(f, "%-18s %-6s %8s\n", name, where, "-");
    else
        fprintf(f, "%-18s %-6s %8" PRId64 " %8s %11s %8" PRId64 " %9s%s\n", name, where, t->planted, cover,
                numbers, t->caught, print_weakest(weakest, sizeof weakest, t),
                t->caught < t->planted ? "  MISSED" : "");
}

static void print_text(FILE *f, const struct fault_report *r, bool quiet)
{
    fprintf(f, "%-18s %-6s %8s %8s %11s %8s %9s\n", "fault", "where", "planted", "cover", "numbers", "caught",
            "weakest");
    for (int32_t i = 0; i < n_faults; i++) {
        struct fault_tally t = fault_sum(r, i, -1);
        if (!quiet || t.caught < t.planted)
            print_tally(f, faults[i].name, fault_where_name[faults[i].where], faults[i].where == FAULT_PLAN,
                        &t);
    }
    struct fault_tally all = fault_sum(r, -1, -1);
    print_tally(f, "all", "", true, &all);
}

/* One row per kind. */
static void print_rows(FILE *f, const struct fault_report *r, enum style style)
{
    static const char *const columns[] = {"fault",   "where",  "planned", "cover", "run",
                                          "numbers", "caught", "weakest", NULL};
    struct printer t = {.f = f, .style = style, .column = columns};
    for (int32_t i = 0; i < n_faults; i++) {
        struct fault_tally sum = fault_sum(r, i, -1);
        table_text(&t, faults[i].name);
        table_text(&t, fault_where_name[faults[i].where]);
        table_i64(&t, sum.planted);
        table_i64(&t, sum.cover);
        table_i64(&t, sum.run);
        table_i64(&t, sum.numbers);
        table_i64(&t, sum.caught);
        table_f64_if(&t, sum.run > 0, sum.weakest, 3);
    }
    table_end(&t);
}

/* The table, then what deserves a line of its own, then the totals; the last two to stderr where the table is
 * for programs. */
static void print_report(FILE *f, const struct fault_report *r, const struct selftest_args *o)
{
    FILE *human = o->out.style == STYLE_TEXT ? f : stderr;
    if (o->out.style == STYLE_TEXT)
        print_text(f, r, o->out.quiet);
    else
        print_rows(f, r, o->out.style);
    for (int64_t i = 0; i < min_i64(r->n_remarks, MAX_REMARKS); i++)
        fprintf(human, "%s\n", r->remark[i]);
    if (r->n_remarks > MAX_REMARKS)
        fprintf(human, "... and %" PRId64 " more\n", r->n_remarks - MAX_REMARKS);
    struct fault_tally all = fault_sum(r, -1, -1);
    fprintf(human,
            "%" PRId64 " sound cases, %" PRId64 " false alarms; numbers alone caught %" PRId64 " of %" PRId64
            " run\n",
            r->cases + r->alarms, r->alarms, all.numbers, all.run);
    if (r->refused > 0)
        fprintf(human, "%" PRId64 " cases skipped by the kernel, the first because %s\n", r->refused, r->why);
    fprintf(human, "selftest: %" PRId64 " planted, %" PRId64 " caught", all.planted, all.caught);
    if (all.caught < all.planted)
        fprintf(human, ", %" PRId64 " missed", all.planted - all.caught);
    if (r->alarms > 0)
        fprintf(human, ", %" PRId64 " false alarm%s", r->alarms, r->alarms == 1 ? "" : "s");
    fputc('\n', human);
}

/* ---- the command ------------------------------------------------------------------------------------- */

static bool read_options(struct selftest_args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about = "Verifies the verifier: plants faults in plans, data, outputs and in the comparator's "
                 "inputs, and shows which are caught. The exit code is 1 if a fault was caught by no "
                 "detector, or if a sound plan raised an alarm.",
        .examples = "selftest\n"
                    "selftest --kinds\n"
                    "selftest --strategy pat,fasttree",
        .details = "Two detectors are judged. `cover` is the float-free check of the plan. `numbers` is the "
                   "kernel, run on what is broken and compared with exact attention. Faults that cannot be "
                   "run safely are for cover alone (n/a under numbers). A kind that a strategy has no place "
                   "for shows as -. `weakest` is the smallest error seen by the comparator, in units of its "
                   "bound: above 1 it is caught.\n"
                   "Under mpirun its processes share the work (verify/sweep/README.md)."};
    const struct opt own[] = {
        HEADING("Where faults are planted:"),
        U64("seed", "N", &a->seed, "1", "lengths of the trees, data and places of the faults"),
        TEXT("strategy", "LIST", &a->strategies, NULL,
             "only these strategies, comma-separated (default: all)"),
        TEXT("kernel", "NAME", &a->kernel, "cpu", "the kernel that runs broken plans"),
        arch_option(&a->arch),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    const struct opt more[] = {
        FLAG("kinds", &a->kinds, "say what each kind of fault is, and plant nothing"),
        {0},
    };
    options_add(&o, more);
    supervision_options(&o, &a->watch);
    return options_parse(&o, argc, argv, e);
}

static void tick(void *bar)
{
    progress_step(bar);
}

/* Everything after the options; *failed is set if the verifier failed its test. */
static bool selftest(const struct selftest_args *o, FILE *f, bool *failed, struct err *e)
{
    const struct kernel *kernel;
    if (!case_kernel(o->kernel, &kernel, e) || !kernel_ready(kernel, e))
        return false;
    struct strategy_use *uses;
    int32_t n_uses;
    if (!case_strategies(o->strategies, &uses, &n_uses, e))
        return false;
    crash_tell();
    struct progress bar = progress_start("selftest", (int64_t)n_fault_trees * n_uses);
    struct fault_report *r = sweep_role() == SWEEP_ALONE ? faults_run(uses, n_uses, kernel, o->seed, tick, &bar)
                                                         : faults_run_shared(uses, n_uses, kernel, o->seed, e);
    progress_clear(&bar);
    if (!r) {
        free(uses);
        return !e->code;
    }
    print_report(f, r, o);
    struct fault_tally all = fault_sum(r, -1, -1);
    *failed = r->alarms > 0 || all.caught < all.planted;
    bool any = all.planted > 0 || *failed;
    if (!any)
        err_missing(e, "no fault was planted: %s",
                    r->refused > 0 ? "the kernel skips every case" : "no strategy has a plan");
    fault_report_free(r);
    free(uses);
    return any;
}

/* The exit code. */
static int judge(const struct selftest_args *o, struct outfile *out)
{
    struct err e = {0};
    cuda_force_arch(o->arch);
    bool failed = false, good = true;
    if (o->kinds)
        print_kinds(out->f, o->out.style);
    else
        good = selftest(o, out->f, &failed, &e);
    if (!outfile_close(out, good, &e))
        good = false;
    int code = !good ? cmd_error(&e) : failed ? EXIT_FAILED : EXIT_GOOD;
    supervise_end(good, code);
    return code;
}

int cmd_selftest(int argc, char **argv)
{
    struct selftest_args o = {.kinds = false};
    struct err e = {0};
    struct outfile out;
    int code;
    bool good = read_options(&o, argc, argv, &e);
    if (sweep_role() == SWEEP_WORKER)
        o.out.path = NULL; /* what there is to write is the front's */
    if (!good || !outfile_open(&out, o.out.path, &e))
        return cmd_error(&e);
    return supervised(&o.watch, &out, &code) ? judge(&o, &out) : code;
}
