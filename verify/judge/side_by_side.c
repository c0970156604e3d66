#include "verify/judge/side_by_side.h"
#include "verify/io/progress.h"
#include "verify/cases/random_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The strategy on the tree given, and its tally over random trees. */
struct compare_row {
    struct result on_tree;
    int64_t passed, run;
    double worst;
    char *failed;      /* case string of the first failure; NULL: none */
    int64_t failed_at; /* number of the random tree, -1: the tree given */
};

struct beside {
    struct compare_run *run;
    struct compare_row *row; /* [run->n_use] */
    double query_centric;    /* KV bytes of flash-attention on the tree */
    uint64_t seed;           /* of random trees */
    struct progress progress;
    struct err *err; /* the first */
};

/* Random trees are judged in any order. */
static void note_verdict(struct beside *x, int32_t s, const struct case_spec *c, int64_t at,
                         const struct result *r)
{
    struct compare_row *row = &x->row[s];
    totals_add(&x->run->totals, r);
    if (r->verdict != V_FAIL || (row->failed && row->failed_at <= at))
        return;
    struct case_spec failed = *c;
    failed.use = x->run->use[s];
    failed.kernel = x->run->kernel;
    free(row->failed);
    row->failed = case_print(&failed);
    row->failed_at = at;
}

static void judge_tree(struct beside *x, const struct test_case *b)
{
    const struct compare_run *run = x->run;
    struct strategy_use base;
    struct err e = {0};
    CK(strategy_parse("flash-attention", &base, &e));
    x->progress = progress_start("compare", run->n_use);
    for (int32_t s = 0; s < run->n_use; s++) {
        struct result *r = &x->row[s].on_tree;
        *r = judge_case(b, &run->use[s], run->kernel);
        note_verdict(x, s, b->c, -1, r);
        if (run->use[s].s == base.s)
            x->query_centric = (double)r->ledger.kv;
        progress_step(&x->progress);
    }
    progress_clear(&x->progress);
    if (x->query_centric == 0)
        x->query_centric = (double)judge_case(b, &base, run->kernel).ledger.kv;
}

static void tally(struct beside *x, int32_t s, const struct case_spec *c, int64_t at, const struct result *r)
{
    note_verdict(x, s, c, at, r);
    x->row[s].run += r->verdict != V_SKIP;
    x->row[s].passed += r->verdict == V_PASS;
    if (r->compared)
        x->row[s].worst = fmax(x->row[s].worst, r->cmp.worst);
}

static void judge_drawn(void *context, int64_t i)
{
    struct beside *x = context;
    struct tree *t;
    struct err own = {0};
    struct case_spec c = random_case(x->seed, i, NULL, &t);
    struct test_case *b = test_case_new(&c, t, &own);
    for (int32_t s = 0; b && s < x->run->n_use; s++) {
        struct result r = judge_case(b, &x->run->use[s], x->run->kernel);
#pragma omp critical(treeattn_compare)
        tally(x, s, &c, i, &r);
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

static void print_rows(struct printer *t, const struct beside *x)
{
    for (int32_t s = 0; s < x->run->n_use; s++) {
        const struct compare_row *row = &x->row[s];
        char *name = strategy_label(&x->run->use[s]);
        table_text(t, name);
        free(name);
        table_text(t, verdict_name[row->on_tree.verdict]);
        print_numbers(t, &row->on_tree, x->query_centric);
        if (t->style != STYLE_TEXT)
            table_text(t, row->failed ? row->failed : "");
        if (x->run->n_random == 0)
            continue;
        table_i64(t, row->passed);
        table_i64(t, row->run);
        table_f64(t, row->worst, 3);
    }
}

static void print_head(FILE *f, const struct test_case *b)
{
    const struct case_spec *c = b->c;
    char *src = tree_source_print(&c->src);
    fprintf(f, "%s: %" PRId32 " nodes, %" PRId32 " queries, %" PRId64 " tokens\n", src, b->tree->n_nodes,
            b->tree->n_queries, tree_tokens(b->tree));
    fprintf(f, "%" PRId32 " query heads, %" PRId32 " KV heads, d = %" PRId32 ", %s, pages of %" PRId32,
            c->spec.heads.h_q, c->spec.heads.h_kv, c->spec.heads.d, heads_dtype_name(&c->spec.heads),
            c->spec.page_size);
    if (c->spec.window > 0)
        fprintf(f, ", windows of %" PRId64, c->spec.window);
    fputs("\n\n", f);
    free(src);
}

/* Why a strategy has no numbers, or wrong ones. */
static void print_notes(FILE *f, const struct beside *x)
{
    char why[RESULT_SENTENCE];
    fputs("\nworst error: in units of a derived bound; over 1 fails\n"
          "of alone:    KV read, relative to reading each query's context on its own (flash-attention)\n"
          "             (every Q tile of a group reads the group's KV again, and counts again)\n"
          "padded rows: query rows that fill up Q tiles, over all tiles and KV heads\n"
          "partials:    O and LSE of parts, written and read back by the merge\n",
          f);
    bool uncounted = false;
    for (int32_t s = 0; s < x->run->n_use; s++)
        uncounted |= x->row[s].on_tree.verdict != V_SKIP && !result_is_counted(&x->row[s].on_tree);
    if (uncounted)
        fputs("-:           not counted: the kernel counts nothing, or did not run\n", f);
    for (int32_t s = 0; s < x->run->n_use; s++) {
        const struct result *r = &x->row[s].on_tree;
        if (r->verdict == V_SKIP || r->verdict == V_FAIL)
            fprintf(f, "%s: %s: %s\n", r->strategy, verdict_name[r->verdict], result_sentence(r, why));
    }
}

static void print_all(const struct beside *x, const struct test_case *b, FILE *f, enum style style)
{
    bool text = style == STYLE_TEXT;
    const char *shown[sizeof columns / sizeof columns[0]];
    memcpy(shown, text ? text_columns : columns, text ? sizeof text_columns : sizeof columns);
    if (x->run->n_random == 0)
        shown[text ? N_TEXT_FIXED : N_FIXED] = NULL;
    struct printer t = {.f = f, .style = style, .column = shown, .aligned = true, .width = widths};
    if (text)
        print_head(f, b);
    print_rows(&t, x);
    table_end(&t);
    if (text)
        print_notes(f, x);
    totals_print(text ? f : stderr, "compare", &x->run->totals, "");
    for (int32_t s = 0; s < x->run->n_use; s++)
        if (x->row[s].failed) /* what `treeattn verify --case` runs again */
            fprintf(stderr, "compare: %s fails first at %s\n", x->run->use[s].s->name, x->row[s].failed);
}

bool compare_strategies(struct compare_run *run, const struct case_spec *c, FILE *f, enum style style,
                        struct err *e)
{
    struct test_case *b = test_case_new(c, NULL, e);
    if (!b)
        return false;
    struct beside x = {.run = run, .seed = c->spec.seed, .err = e};
    x.row = xcalloc((size_t)run->n_use, sizeof *x.row);
    judge_tree(&x, b);
    x.progress = progress_start("random trees", run->n_random);
    run_parallel(run->n_random, judge_drawn, &x);
    progress_clear(&x.progress);
    bool good = !e->code;
    if (good)
        print_all(&x, b, f, style);
    for (int32_t s = 0; s < run->n_use; s++)
        free(x.row[s].failed);
    free(x.row);
    test_case_free(b);
    return good;
}
