/* report.c - the tables of `treeattn replay`. */
#include "verify/replay/report.h"

#include "verify/cases/case.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums over items ----------------------------------------------------------------------------------- */

/* Figures that a table shows of one strategy; times in seconds, NaN where there are none. */
struct figures {
    double attention, other, moves, idle, whole, tpot;
    double kv, all; /* bytes */
    double cache, plan, exposed;
    int64_t plans;
};

/* The steps without attention, if the run has them. */
static bool is_bound(const struct replay_run *run, int32_t use)
{
    return run->replay.use[use].s == &replay_no_attention;
}

/* The mean over n items. */
static struct figures figures_of(const struct replay_run *run, const struct replay_item *item, int32_t n,
                                 int32_t use)
{
    struct replay_total sum = {.time.error = NAN};
    double path = 0;
    for (int32_t k = 0; k < n; k++) {
        replay_add(&sum, &item[k].total[use]);
        path += (double)trace_path_tokens(item[k].trace, item[k].src.last);
    }
    double over = sum.fate == FATE_RAN ? (double)n : (double)NAN;
    return (struct figures){
        .attention = is_bound(run, use) ? NAN : sum.time.attention_s / over,
        .other = sum.time.other_s / over,
        .moves = sum.time.moves_s / over,
        .idle = sum.time.idle_s / over,
        .whole = sum.time.step_s / over,
        .tpot = sum.time.step_s / path * (over / over),
        .kv = (double)sum.kv / over,
        .all = (double)(sum.kv + sum.q + sum.mask + sum.scores + sum.partials + sum.out) / over,
        .cache = (sum.time.cache_s + sum.time.extend_s) / over,
        .plan = sum.time.plan_s / over,
        .exposed = sum.time.exposed_s / over,
        .plans = sum.planned / n,
    };
}

static int32_t find_use(const struct replay_run *run, const char *name)
{
    for (int32_t i = 0; i < run->replay.n_use; i++)
        if (strcmp(run->replay.use[i].s->name, name) == 0)
            return i;
    return -1;
}

/* NaN where the run has no such strategy. */
static struct figures baseline(const struct replay_run *run, const struct replay_job *job, const char *name)
{
    int32_t i = find_use(run, name);
    return i >= 0 ? figures_of(run, job->item, job->n_items, i)
                  : (struct figures){.attention = NAN, .whole = NAN};
}

/* ---- for scripts --------------------------------------------------------------------------------------- */

/* X(column, how it is printed of an item's total x). */
#define COLUMNS(X)                                                                                           \
    X("workload", table_text(t, job->name))                                                                  \
    X("trace", table_text(t, job->spec))                                                                     \
    X("tree", table_i64(t, item->index))                                                                     \
    X("strategy", table_text(t, strategy))                                                                   \
    X("machine", table_text(t, r->exec->name))                                                               \
    X("model", table_text(t, r->model->name))                                                                \
    X("iterations", table_i64_if(t, ran, x->weight))                                                         \
    X("looked_at", table_i64_if(t, ran, x->looked_at))                                                       \
    X("queries", table_i64_if(t, ran, x->queries))                                                           \
    X("generated_len", table_i64_if(t, ran &&whole, trace_generated(item->trace)))                           \
    X("KV_IO_bytes", table_number(t, one *(double)x->kv, 5))                                                 \
    X("Q_IO_bytes", table_number(t, one *(double)x->q, 5))                                                   \
    X("Mask_IO_bytes", table_number(t, one *(double)x->mask, 5))                                             \
    X("score_IO_bytes", table_number(t, one *(double)x->scores, 5))                                          \
    X("partial_IO_bytes", table_number(t, one *(double)x->partials, 5))                                      \
    X("out_IO_bytes", table_number(t, one *(double)x->out, 5))                                               \
    X("attention_s", table_number(t, f.attention, 5))                                                        \
    X("other_s", table_number(t, f.other, 5))                                                                \
    X("moves_s", table_number(t, f.moves, 5))                                                                \
    X("idle_s", table_number(t, f.idle, 5))                                                                  \
    X("whole_s", table_number(t, f.whole, 5))                                                                \
    X("tpot_ms", table_number(t, 1e3 * f.tpot, 5))                                                           \
    X("host_step_s", table_number(t, one * x->time.host_s, 5))                                               \
    X("host_cache_s", table_number(t, one * x->time.cache_s, 5))                                             \
    X("host_extend_s", table_number(t, one * x->time.extend_s, 5))                                           \
    X("host_plan_s", table_number(t, one * x->time.plan_s, 5))                                               \
    X("exposed_s", table_number(t, one * x->time.exposed_s, 5))                                              \
    X("plans", table_i64_if(t, ran, x->planned))                                                             \
    X("prefill_len", table_i64_if(t, ran, x->prefill))                                                       \
    X("moved_len", table_i64_if(t, ran, x->moves))                                                           \
    X("copied_len", table_i64_if(t, ran, x->copied))                                                         \
    X("peak_pages", table_i64_if(t, ran, item->pool.peak))                                                   \
    X("leaked_pages", table_i64_if(t, ran, item->pool.leaked))                                               \
    X("worst_error", table_number(t, one * x->time.error, 5))                                                \
    X("why", table_text(t, x->why))                                                                          \
    X("coefficients", table_text(t, run->coefficients ? run->coefficients : ""))                             \
    X("built_in", table_text(t, run->built_in ? run->built_in : ""))

static void print_item(struct printer *t, const struct replay_run *run, const struct replay_item *item,
                       int32_t use)
{
    const struct replay *r = &run->replay;
    const struct replay_job *job = item->job;
    const struct replay_total *x = &item->total[use];
    struct figures f = figures_of(run, item, 1, use);
    bool ran = x->fate == FATE_RAN, whole = item->src.last == trace_steps(item->trace);
    double one = ran ? 1 : NAN; /* makes a figure that is not there NaN */
    char *strategy = strategy_label(&r->use[use]);
#define X(column, print) print;
    COLUMNS(X)
#undef X
    free(strategy);
}

static void print_rows(const struct replay_run *run, FILE *f, enum style style)
{
#define X(column, print) column,
    static const char *const columns[] = {COLUMNS(X) NULL};
#undef X
    struct printer t = {.f = f, .style = style, .column = columns};
    for (int32_t k = 0; k < run->n_items; k++)
        for (int32_t i = 0; i < run->replay.n_use; i++)
            print_item(&t, run, &run->item[k], i);
    table_end(&t);
}

/* ---- a job --------------------------------------------------------------------------------------------- */

/* "llama-3-8b on h100, simulated with built-in coefficients". */
static void print_where(FILE *f, const struct replay_run *run)
{
    fprintf(f, "%s on %s%s%s", run->replay.model->name, run->replay.exec->name, run->title ? " with " : "",
            run->title ? run->title : "");
}

static void print_head(FILE *f, const struct replay_run *run, const struct replay_job *job)
{
    const struct replay *r = &run->replay;
    const struct replay_item *first = &job->item[0];
    fprintf(f, "%s: %s\n", job->name, trace_title(first->trace));
    if (job->n_items > 1)
        fprintf(f, "... to tree %" PRId32 ": %" PRId32 " trees, their mean\n",
                job->item[job->n_items - 1].index, job->n_items);
    for (int32_t k = 0; k < job->n_items; k++) {
        const struct replay_item *item = &job->item[k];
        if (trace_remark(item->trace)[0])
            fprintf(f, "remark: tree %" PRId32 ": %s\n", item->index, trace_remark(item->trace));
        if (item->src.last < trace_steps(item->trace))
            fprintf(f, "cut: tree %" PRId32 ": after %" PRId64 " of %" PRId64 " steps\n", item->index,
                    item->src.last, trace_steps(item->trace));
    }
    print_where(f, run);
    fprintf(f, "; KV pool of %" PRId32 " tokens a page", r->page_size);
    if (r->every > 1)
        fprintf(f, "; one step in %" PRId64 " looked at, sums estimated", r->every);
    static const char *const planned[] = {[REPLAN_EVERY] = "every step",
                                          [REPLAN_CHOICE] = "every step, choices kept",
                                          [REPLAN_SHAPE] = "when the shape changes",
                                          [REPLAN_ASYNC] = "every step, while the one before runs"};
    fprintf(f, "; planned %s\n\n", planned[r->replan]);
}

static void print_copies(FILE *f, const char *name, int64_t copied)
{
    if (copied > 0)
        fprintf(f, "%s: every query reads a copy of its own; %" PRId64 " tokens were copied\n", name, copied);
    else
        fprintf(f, "%s: reads the one pool that all share: its copies are counted, not made\n", name);
}

static void print_why(FILE *f, const struct replay_run *run, const struct replay_job *job)
{
    for (int32_t i = 0; i < run->replay.n_use; i++)
        for (int32_t k = 0; k < job->n_items; k++) {
            const struct replay_total *x = &job->item[k].total[i];
            if (x->fate == FATE_RAN && x->copies && !simulated(run->replay.exec) && k == 0)
                print_copies(f, run->replay.use[i].s->name, x->copied);
            if (x->fate == FATE_RAN)
                continue;
            fprintf(f, "%s: %s%s", run->replay.use[i].s->name, x->fate == FATE_SKIPPED ? "SKIP: " : "",
                    x->why);
            if (job->n_items > 1)
                fprintf(f, " (tree %" PRId32 ")", job->item[k].index);
            fputc('\n', f);
            break;
        }
}

static void print_pool(FILE *f, const struct replay_run *run, const struct replay_job *job)
{
    const struct replay *r = &run->replay;
    int64_t peak = 0, leaked = 0, prefill = 0, moves = 0;
    double worst = NAN;
    for (int32_t k = 0; k < job->n_items; k++) {
        peak = max_i64(peak, job->item[k].pool.peak);
        leaked += job->item[k].pool.leaked;
        for (int32_t i = 0; i < r->n_use; i++)
            worst = fmax(worst, job->item[k].total[i].time.error);
        for (int32_t i = 0; i < r->n_use; i++)
            if (job->item[k].total[i].fate == FATE_RAN) {
                prefill += job->item[k].total[i].prefill;
                moves += job->item[k].total[i].moves;
                break;
            }
    }
    fprintf(f,
            "pool: %" PRId64 " of %" PRId64 " pages in use at most, %" PRId64 " leaked; %" PRId64
            " tokens of prompts written, %" PRId64 " tokens moved\n",
            peak, r->n_pages, leaked, prefill, moves);
    if (!isnan(worst))
        fprintf(f,
                "attention of all layers checked at one in %" PRId64
                " of these steps: worst error %.3g of its bound\n",
                r->check, worst);
}

/* What is left of a simulated step without attention. */
static void print_bound(struct printer *t, double other, double moves, double radix, double flash)
{
    double least = other + moves;
    const double cell[] = {NAN, other, moves, NAN, least, NAN, NAN, NAN, radix / least};
    table_text(t, "no attention");
    table_text(t, "");
    for (size_t k = 0; k < sizeof cell / sizeof cell[0]; k++)
        table_number(t, cell[k], 5);
    table_none(t);
    table_number(t, flash / least, 5);
    while (t->at > 0)
        table_none(t);
}

static void print_job(FILE *f, const struct replay_run *run, const struct replay_job *job)
{
    static const char *const head[] = {"strategy", "",           "attention s", "other s",  "moves s",
                                       "idle s",   "whole s",    "TPOT ms",     "attn %",   "radix/attn",
                                       "/whole",   "flash/attn", "/whole",      "KV TB",    "total TB",
                                       "plans",    "plan ms",    "exposed ms",  "cache ms", NULL};
    static const int32_t width[] = {18, 0, 11, 8, 8, 8, 8, 8, 6, 10, 7, 10, 7, 8, 8, 7, 8, 10, 8};
    struct figures radix = baseline(run, job, "radix-attention");
    struct figures flash = baseline(run, job, "flash-decoding");
    struct printer t = {.f = f, .column = head, .aligned = true, .width = width};
    print_head(f, run, job);
    double other = NAN, moves = 0;
    for (int32_t i = 0; i < run->replay.n_use; i++) {
        struct figures x = figures_of(run, job->item, job->n_items, i);
        char *name = strategy_label(&run->replay.use[i]);
        const double cell[] = {x.attention,
                               x.other,
                               x.moves,
                               x.idle,
                               x.whole,
                               1e3 * x.tpot,
                               100 * x.attention / x.whole,
                               radix.attention / x.attention,
                               radix.whole / x.whole,
                               flash.attention / x.attention,
                               flash.whole / x.whole,
                               1e-12 * x.kv,
                               1e-12 * x.all};
        table_text(&t, name);
        table_text(&t, "");
        for (size_t k = 0; k < sizeof cell / sizeof cell[0]; k++)
            table_number(&t, cell[k], 5);
        table_i64_if(&t, !isnan(x.whole), x.plans);
        table_number(&t, 1e3 * x.plan, 5);
        table_number(&t, 1e3 * x.exposed, 5);
        table_number(&t, 1e3 * x.cache, 5);
        free(name);
        if (!isnan(x.other) && !(x.other + x.moves >= other + moves)) {
            other = x.other;
            moves = x.moves;
        }
    }
    if (run->replay.n_use > 0 && !is_bound(run, run->replay.n_use - 1))
        print_bound(&t, other, moves, radix.whole, flash.whole);
    table_end(&t);
    print_why(f, run, job);
    print_pool(f, run, job);
    fputc('\n', f);
}

static void print_text(const struct replay_run *run, FILE *f)
{
    bool any = false;
    for (int32_t j = 0; j < run->n_jobs; j++) {
        const struct replay_job *job = &run->job[j];
        any = any || job->n_items > 0;
        if (job->lacks)
            fprintf(f, "%s: SKIP: no %s (expected in --data DIR)\n", job->name, job->lacks);
        else
            print_job(f, run, job);
    }
    if (any)
        fprintf(
            f,
            "radix/attn, flash/attn: attention of radix-attention, of flash-decoding over this one's; "
            "/whole: the whole step's\n"
            "TPOT:                   whole / tokens by which a sequence that lives through the run grows\n"
            "plans .. cache ms:      %s; no part of `whole`%s\n\n",
            "processor time of this host: calls of the planner, their time, the part a device waits "
            "for, KV pool and page tables",
            simulated(run->replay.exec) ? ", which is simulated" : "");
}

void replay_print(const struct replay_run *run, FILE *f, enum style style)
{
    if (style == STYLE_TEXT)
        print_text(run, f);
    else
        print_rows(run, f, style);
}
