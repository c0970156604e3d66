/* cmd_trace.c - `treeattn trace SPEC`: what a trace asks of attention, step by step and in all. */
#include "verify/cli/cmd.h"
#include "verify/io/progress.h"

#include <inttypes.h>
#include <stdlib.h>

struct trace_args {
    struct cmd_tree tree;
    struct cmd_output out;
};

static const char *const columns[] = {"iteration", "queries", "nodes", "kv_tree", "kv_seq", NULL};

struct trace_sum {
    struct trace_count all, most;
};

static void add(struct trace_sum *s, const struct trace_count *c)
{
    s->all.queries += c->queries;
    s->all.kv_tree += c->kv_tree;
    s->all.kv_seq += c->kv_seq;
    s->all.kv_node32 += c->kv_node32;
    s->most.queries = max_i64(s->most.queries, c->queries);
    s->most.nodes = max_i64(s->most.nodes, c->nodes);
    s->most.kv_tree = max_i64(s->most.kv_tree, c->kv_tree);
    s->most.kv_seq = max_i64(s->most.kv_seq, c->kv_seq);
}

/* Count every step; rows go to *t unless it is NULL. */
static struct trace_sum replay(struct trace *tr, struct printer *t)
{
    struct trace_sum sum = {0};
    struct progress progress = progress_start("replay", trace_steps(tr));
    for (int64_t step = 1; step <= trace_steps(tr); step++) {
        struct tree *tree = trace_tree(tr, step);
        struct trace_count c = trace_count_tree(tree);
        tree_free(tree);
        add(&sum, &c);
        if (t) {
            table_i64(t, step);
            table_i64(t, c.queries);
            table_i64(t, c.nodes);
            table_i64(t, c.kv_tree);
            table_i64(t, c.kv_seq);
        }
        progress_step(&progress);
    }
    progress_clear(&progress);
    return sum;
}

static void print_summary(FILE *f, const struct trace *tr, const struct trace_sum *s)
{
    fprintf(f, "%s\n", trace_title(tr));
    if (trace_remark(tr)[0])
        fprintf(f, "remark: %s\n", trace_remark(tr));
    fprintf(f, "iterations   %" PRId64 ", tokens generated %" PRId64 "\n", trace_steps(tr),
            trace_generated(tr));
    fprintf(f,
            "most at once %" PRId64 " queries, %" PRId64 " nodes, %" PRId64 " tokens stored, %" PRId64
            " tokens of context\n",
            s->most.queries, s->most.nodes, s->most.kv_tree, s->most.kv_seq);
    fprintf(f,
            "KV tokens    %" PRId64 " with each node read once, %" PRId64
            " with each query on its own: %.2f times\n",
            s->all.kv_tree, s->all.kv_seq, (double)s->all.kv_seq / (double)max_i64(s->all.kv_tree, 1));
}

/* The last line, the columns of a per-trace table. It keeps out of the way of CSV and JSON. */
static void print_totals(FILE *f, const struct trace *tr, const struct trace_sum *s)
{
    fprintf(f,
            "trace: %" PRId64 " iterations, %" PRId64 " generated, %" PRId64 " queries, %" PRId64
            " at most, kv_tree %" PRId64 ", kv_seq %" PRId64 ", kv_node32 %" PRId64 "\n",
            trace_steps(tr), trace_generated(tr), s->all.queries, s->most.queries, s->all.kv_tree,
            s->all.kv_seq, s->all.kv_node32);
}

static int show(const struct trace_args *a, struct trace *tr)
{
    struct err e = {0};
    struct outfile out;
    if (!outfile_open(&out, a->out.path, &e))
        return cmd_error(&e);
    bool rows = a->out.style != STYLE_TEXT;
    struct printer t = {.f = out.f, .style = a->out.style, .column = columns};
    struct trace_sum sum = replay(tr, rows ? &t : NULL);
    if (rows)
        table_end(&t);
    else if (!a->out.quiet)
        print_summary(out.f, tr, &sum);
    print_totals(rows ? stderr : out.f, tr, &sum);
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}

static bool read_options(struct trace_args *a, int argc, char **argv, struct err *e)
{
    const char *spec = NULL;
    struct options o = {.about = "Replays a trace and counts, per decode step: queries, nodes, KV tokens "
                                 "with each node once (kv_tree) and with each query's context on its own "
                                 "(kv_seq). With --csv or --json, a row per step.",
                        .examples = "trace embedded:reasoning\n"
                                    "trace fewshot:20 --prompt 4000 --max-seq 4400 --csv\n"
                                    "trace deft:FILE --prompt 4000 --max-seq 6000",
                        .words = "SPEC",
                        .needs = "no trace given (expected treeattn trace SPEC; see treeattn list formats)",
                        .word = &spec,
                        .max_words = 1};
    tree_options(&o, &a->tree);
    options_refuse(&o, "levels tree-file gen", "a tree alone is no trace (expected treeattn trace SPEC)");
    options_refuse(&o, "q-len", "steps have the queries of their trace (expected none)");
    options_refuse(&o, "step", "all of them are counted (expected none)");
    options_refuse(&o, "seed", "nothing is drawn (expected none)");
    output_options(&o, &a->out);
    if (!options_parse(&o, argc, argv, e))
        return false;
    if (spec && a->tree.src.kind != SRC_NONE)
        return err_set(e, "trace: SPEC and --trace (expected one of them)");
    if (spec) {
        a->tree.src.kind = SRC_TRACE;
        a->tree.src.text = xstrdup(spec);
    }
    return a->tree.src.kind == SRC_TRACE ||
           err_set(e, "trace: no trace given (expected treeattn trace SPEC)");
}

int cmd_trace(int argc, char **argv)
{
    struct err e = {0};
    struct trace_args a = {.out.quiet = false};
    struct trace *tr = NULL;
    if (read_options(&a, argc, argv, &e) && outfiles_check(&a.out.path, 1, &e) &&
        tree_finish(&a.tree, true, &e))
        tr = trace_open(a.tree.src.text, &a.tree.src.trace, &e);
    int code = tr ? show(&a, tr) : cmd_error(&e);
    trace_close(tr);
    tree_source_clear(&a.tree.src);
    return code;
}
