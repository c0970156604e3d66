#include "verify/judge/side_by_side.h"
#include "verify/io/progress.h"
#include "verify/cases/random_cases.h"
#include "verify/judge/result.h"
#include "verify/cases/run_parallel.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    run_parallel(n, judge_drawn, &x);
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
    char why[RESULT_SENTENCE];
    fputs("\nworst error: in units of a derived bound; over 1 fails\n"
          "of alone:    KV read, relative to reading each query's context on its own (flash-attention)\n"
          "             (every Q tile of a group reads the group's KV again, and counts again)\n"
          "padded rows: query rows that fill up Q tiles, over all tiles and KV heads\n"
          "partials:    O and LSE of parts, written and read back by the merge\n",
          f);
    bool uncounted = false;
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

bool compare_strategies(struct compare_run *run, const struct case_spec *c, FILE *f, enum style style,
                        struct err *e)
{
    run->row = xcalloc((size_t)run->n_use, sizeof *run->row);
    struct test_case *b = test_case_new(c, NULL, e);
    if (!b)
        return false;
    judge_tree(run, b);
    bool random = run->n_random > 0, text = style == STYLE_TEXT;
    bool good = judge_random(run, run->n_random, c->spec.seed, e);
    if (good) {
        const char *shown[sizeof columns / sizeof columns[0]];
        memcpy(shown, text ? text_columns : columns, text ? sizeof text_columns : sizeof columns);
        if (!random)
            shown[text ? N_TEXT_FIXED : N_FIXED] = NULL;
        struct printer t = {.f = f, .style = style, .column = shown, .aligned = true, .width = widths};
        if (text)
            print_head(f, c, b);
        print_rows(&t, run, random);
        table_end(&t);
        if (text)
            print_notes(f, run);
        totals_print(text ? f : stderr, "compare", &run->totals);
        print_failures(run);
    }
    test_case_free(b);
    return good;
}

void compare_clear(struct compare_run *run)
{
    for (int32_t s = 0; run->row && s < run->n_use; s++)
        free(run->row[s].failed);
    free(run->use);
    free(run->row);
}
