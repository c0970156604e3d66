#include "verify/replay/decode_job.h"
#include "kernels/cuda/host/cupti.h"
#include "verify/replay/decode_run.h"
#include "verify/replay/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_STEPS = 4, MOST_QUERIES = 64 };

/* What is checked unless told otherwise: branches that come and go, and tokens that are accepted and move. */
struct checked_trace {
    const char *spec;
    struct trace_opts opts;
};
static const struct checked_trace checked_traces[] = {
    {"embedded:reasoning", {.prompt = 40, .max_seq = 200}},
    {"spec:32,1", {.prompt = 50, .max_seq = 120, .topology = true}},
};
static const char *const checked_models[] = {"tiny", "tiny-mha", "tiny-qwen"};

static struct decoder *open_for(const struct decode_job *j, struct err *e)
{
    bool cpu = strcmp(j->type->name, "cpu") == 0;
    struct decoder_spec s = {.model = j->llm,
                             .dtype = j->dtype != N_DTYPES ? j->dtype
                                      : cpu                ? DT_F64
                                                           : DT_BF16,
                             .page_size = (int32_t)j->page,
                             .max_queries = j->time ? 1 : MOST_QUERIES,
                             .seed = j->seed,
                             .arch = j->arch,
                             .graph = j->graph,
                             .n_cards = (int32_t)j->gpus,
                             .parallel = j->parallel};
    struct replay_source steps = {.trace = j->trace, .last = j->last};
    return replay_peak(&steps, s.page_size, INT32_MAX, &s.n_pages, &s.max_queries, e)
               ? decoder_open(j->type, &s, e)
               : NULL;
}

/* ---- checks ----------------------------------------------------------------------------------------- */

const char *const decode_check_columns[] = {"model",     "trace",  "strategy", "steps", "queries", "greedy",
                                            "attention", "logits", "verdict",  "why",   NULL};

static void check_row(struct decode_job *j, const struct strategy_use *u, const struct decode_run *r,
                      int64_t steps, const char *verdict, const char *why)
{
    char *text = strategy_label(u);
    table_text(j->t, j->llm->name);
    table_text(j->t, j->name);
    table_text(j->t, text);
    table_i64(j->t, steps);
    table_i64(j->t, r->sum.queries);
    table_i64(j->t, r->sum.greedy);
    table_f64(j->t, r->attention_worst, 2);
    table_f64(j->t, r->sum.worst, 2);
    table_text(j->t, verdict);
    table_text(j->t, why);
    free(text);
}

/* judge: not only run */
static bool check_step(struct decode_run *r, struct step *x, bool judge, char *skip, struct err *e)
{
    struct problem p = decode_problem(&r->decoder->spec, x->tree, x->page_off, x->page_table);
    struct decode_time time;
    if (!x->plan) {
        snprintf(skip, WHY_MAX, "%s", x->why);
        return true;
    }
    if (r->decoder->type->supports && !r->decoder->type->supports(r->decoder, &p, x->plan, skip))
        return true;
    return decode_run_advance(r, x, e) && decode_run_step(r, x, true, true, e) &&
           decoder_wait(r->decoder, &time, e) && (!judge || decode_run_check(r, x, e));
}

/* The node that holds the piece; -1: none. */
static int32_t node_of(const struct tree *tree, const struct trace_parts *parts, int64_t name)
{
    for (int32_t i = 0; i < tree->n_nodes; i++)
        for (int32_t k = parts->piece0[i]; k < parts->piece0[i + 1]; k++)
            if (parts->piece[k].name == name)
                return i;
    return -1;
}

/* Does each token that a step accepts hang, in the tree of the step before, on what it follows from now on? */
static bool accepts_a_path(const struct trace_parts *parts, const struct tree *before,
                           const struct trace_parts *parts_before)
{
    int32_t above = parts->n_accepts > 0 ? node_of(before, parts_before, parts->accept[0].to) : -1;
    for (int32_t i = 0; i < parts->n_accepts; i++) {
        int32_t node = node_of(before, parts_before, parts->accept[i].from);
        if (node < 0 || before->parent[node] != above)
            return false;
        above = node;
    }
    return true;
}

/* Tokens keep their K and V when they are accepted. Where these have not seen each other, as side by side below a prefix,
 * no sequence decoded alone has the like. */
static bool has_sequences(const struct decode_job *j, struct err *e)
{
    struct trace_parts before_parts, parts;
    struct tree *before = trace_step(j->trace, 1, &before_parts);
    bool good = true;
    for (int64_t t = 2; t <= j->last && good; t++) {
        struct tree *tree = trace_step(j->trace, t, &parts);
        good = accepts_a_path(&parts, before, &before_parts) ||
               err_set(e,
                       "%s: step %" PRId64 " accepts tokens that have not seen each other, which no sequence "
                       "decoded alone has (expected accepted tokens on one path, as --topology hangs "
                       "them, or no step from %" PRId64 " on)",
                       j->name, t, t);
        trace_parts_free(&before_parts);
        tree_free(before);
        before = tree;
        before_parts = parts;
    }
    trace_parts_free(&before_parts);
    tree_free(before);
    return good;
}

/* One strategy; false with *e set only if the device or the pool failed. */
static bool check_use(struct decode_job *j, struct decode_run *r, const struct strategy_use *u, struct err *e)
{
    struct decoder *d = r->decoder;
    struct plan_env env = decode_env(&d->spec);
    struct pool *pool = pool_new(d->spec.page_size, d->spec.n_pages);
    struct err wrong = {0};
    char skip[WHY_MAX] = "";
    int64_t t = 1;
    bool good = true;
    for (; t <= j->last && good && !skip[0]; t++) {
        struct step x;
        good = step_new(&x, j->trace, t, pool, u, &env, &wrong) &&
               check_step(r, &x, t >= j->first, skip, &wrong);
        step_free(&x);
    }
    int64_t leaked = good ? pool_drain(pool) : 0;
    pool_free(pool);
    if (leaked > 0)
        good = err_set(&wrong, "%" PRId64 " pages are still in use after the trace", leaked);
    if (!good && r->inapplicable) {
        good = true;
        snprintf(skip, sizeof skip, "%.255s", wrong.msg);
    }
    if (!good && wrong.code != EXIT_FAILED && leaked == 0) {
        *e = wrong;
        return false;
    }
    j->wrong += !good;
    check_row(j, u, r, max_i64(0, t - j->first),
              !good     ? "FAIL"
              : skip[0] ? "SKIP"
                        : "PASS",
              !good ? wrong.msg : skip);
    return true;
}

static bool check_trace(struct decode_job *j, struct err *e)
{
    struct decoder *d = open_for(j, e);
    bool good = d;
    struct witness *witness = NULL; /* of all strategies: their sequences are the same */
    for (int32_t i = 0; i < j->n_use && good; i++) {
        struct decode_run r;
        good = decode_run_open(&r, d, false, !witness, e);
        if (witness)
            r.witness = witness;
        witness = r.witness;
        good = good && check_use(j, &r, &j->use[i], e);
        r.witness = NULL;
        decode_run_close(&r);
    }
    logits_check_free(witness);
    decoder_close(d);
    return good;
}

static bool check_model(struct decode_job *j, struct err *e)
{
    enum { TRACES = sizeof checked_traces / sizeof checked_traces[0] };
    bool own = j->src.kind != SRC_NONE, good = true;
    for (int i = 0; i < (own ? 1 : TRACES) && good; i++) {
        const struct trace_opts *opts = own ? &j->src.trace : &checked_traces[i].opts;
        j->name = own ? j->src.text : checked_traces[i].spec;
        j->trace = trace_open_at(j->name, opts, j->src.step, e);
        if (!j->trace)
            return false;
        j->first = max_i64(1, j->src.step);
        j->last = min_i64(trace_steps(j->trace), j->first + j->steps - 1);
        good = has_sequences(j, e) && check_trace(j, e);
        trace_close(j->trace);
    }
    return good;
}

bool decode_check(struct decode_job *j, struct err *e)
{
    enum { MODELS = sizeof checked_models / sizeof checked_models[0] };
    bool good = true;
    for (int i = 0; i < (j->model ? 1 : MODELS) && good; i++) {
        j->llm = j->model ? j->model : model_find(checked_models[i], e);
        good = j->llm && check_model(j, e);
    }
    return good;
}

/* ---- times ------------------------------------------------------------------------------------------ */

const char *const decode_time_columns[] = {
    "model",        "trace",   "strategy", "steps",     "queries", "step_us",   "device_us",
    "attention_us", "idle_us", "move_us",  "pool_us",   "plan_us", "layout_us", "enqueue_us",
    "upload_bytes", "kernels", "busy_us",  "outside_%", "why",     NULL};

/* Sums over steps, seconds. */
struct time_sum {
    int64_t steps, queries, waited;
    double wall, pool, plan;
    struct decode_time t;
};

static void add_time(struct time_sum *s, const struct decode_time *t)
{
    s->t.whole_s += t->whole_s;
    s->t.attention_s += t->attention_s;
    s->t.idle_s += s->waited++ > 0 ? t->idle_s : 0; /* before the first, the clock was started */
    s->t.move_s += t->move_s;
    s->t.layout_s += t->layout_s;
    s->t.enqueue_s += t->enqueue_s;
    s->t.upload_bytes += t->upload_bytes;
}

/* busy: of the same steps, traced; NULL: not asked for. */
static void time_row(struct decode_job *j, const char *strategy, const struct time_sum *s,
                     const struct cupti_busy *busy, const char *why)
{
    double n = (double)max_i64(s->steps, 1);
    double figure[] = {s->wall, s->t.whole_s, s->t.attention_s, s->t.idle_s,   s->t.move_s,
                       s->pool, s->plan,      s->t.layout_s,    s->t.enqueue_s};
    table_text(j->t, j->llm->name);
    table_text(j->t, j->name);
    table_text(j->t, strategy);
    table_i64(j->t, s->steps);
    table_measured(j->t, (double)s->queries / n, 4);
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        table_measured(j->t, 1e6 * figure[i] / n, 5);
    table_i64(j->t, s->t.upload_bytes / max_i64(s->steps, 1));
    if (busy && s->steps > 0) {
        double us = busy->busy_us - 1e6 * s->t.move_s;
        table_measured(j->t, (double)busy->kernels / n, 5);
        table_measured(j->t, us / n, 5);
        table_measured(j->t, 100 * (1 - 1e-6 * us / s->wall), 3);
    } else {
        for (int i = 0; i < 3; i++)
            table_none(j->t);
    }
    table_text(j->t, why);
}

/* Steps 1 .. last; those from first on are run, the first few of them not counted. u NULL: no attention; busy not NULL:
 * traced. Not applicable: why[] says why. */
static bool time_steps(struct decode_job *j, struct decode_run *r, const struct strategy_use *u,
                       struct time_sum *sum, struct cupti_busy *busy, char *why, struct err *e)
{
    struct decoder *d = r->decoder;
    struct plan_env env = decode_env(&d->spec);
    struct pool *pool = pool_new(d->spec.page_size, d->spec.n_pages);
    struct decode_time time;
    double begin = 0;
    bool good = true;
    *sum = (struct time_sum){0};
    for (int64_t t = 1; t <= j->last && good && !why[0]; t++) {
        struct step x;
        good = step_new(&x, j->trace, t, pool, t >= j->first ? u : NULL, &env, e);
        if (good && u && t >= j->first && !x.plan)
            snprintf(why, WHY_MAX, "%s", x.why);
        if (good && t >= j->first && !why[0]) {
            bool counted = t - j->first >= WARM_STEPS;
            if (t - j->first == WARM_STEPS) { /* nothing under way: the clock starts */
                for (; d->under_way > 0 && good;)
                    good = decoder_wait(d, &time, e);
                good = good && (!busy || cupti_busy_begin(e));
                begin = now_s();
            }
            r->plan_s = 0;
            good = good && decode_run_advance(r, &x, e) && decode_run_step(r, &x, true, false, e);
            if (!good && r->inapplicable) {
                snprintf(why, WHY_MAX, "%.255s", e->msg);
                *e = (struct err){0};
                good = true;
            }
            sum->steps += counted;
            sum->queries += counted ? x.tree->n_queries : 0;
            sum->pool += counted ? x.pool_s : 0;
            sum->plan += !counted ? 0 : j->gpus > 1 ? r->plan_s : x.plan_s;
            if (good && d->under_way == DECODE_AHEAD) {
                good = decoder_wait(d, &time, e);
                if (counted)
                    add_time(sum, &time);
            }
        }
        step_free(&x);
    }
    while (d->under_way > 0 && good) {
        good = decoder_wait(d, &time, e);
        add_time(sum, &time);
    }
    sum->wall = sum->steps > 0 ? now_s() - begin : 0;
    if (busy && sum->steps > 0)
        good = cupti_busy_end(busy, e) && good;
    pool_free(pool);
    return good;
}

static bool time_use(struct decode_job *j, struct decode_run *r, const struct strategy_use *u, struct err *e)
{
    struct time_sum sum, traced;
    struct cupti_busy busy = {0};
    char why[WHY_MAX] = "";
    bool good =
        time_steps(j, r, u, &sum, NULL, why, e) && (!j->gaps || time_steps(j, r, u, &traced, &busy, why, e));
    char *text = u ? strategy_label(u) : xstrdup("none");
    if (good)
        time_row(j, text, &sum, j->gaps && !why[0] ? &busy : NULL, why);
    free(text);
    return good;
}

bool decode_measure(struct decode_job *j, struct err *e)
{
    j->llm = j->model ? j->model : model_find("llama-3-8b", e);
    if (!j->llm)
        return false;
    const struct tree_source *src = &j->src;
    j->name = src->text;
    j->trace = trace_open_at(j->name, &src->trace, src->step, e);
    if (!j->trace)
        return false;
    j->first = max_i64(1, src->step);
    j->last = min_i64(trace_steps(j->trace), j->first + WARM_STEPS + j->steps - 1);
    int64_t n = j->last - j->first + 1;
    bool good = n > WARM_STEPS || err_set(e,
                                          "%s: %" PRId64 " steps from step %" PRId64
                                          " on (expected over %d, which go before those that are timed)",
                                          j->name, n, j->first, WARM_STEPS);
    struct decoder *d = good ? open_for(j, e) : NULL;
    struct decode_run r;
    good = d && decode_run_open(&r, d, true, false, e);
    for (int32_t i = -1; i < j->n_use && good; i++) /* first without attention */
        good = time_use(j, &r, i < 0 ? NULL : &j->use[i], e);
    if (d)
        decode_run_close(&r);
    decoder_close(d);
    trace_close(j->trace);
    return good;
}
