/* jobs.c - the traces of a replay: opened, run through the executor, their rows kept in a file, and closed. */
#include "verify/replay/jobs.h"
#include "kernels/cuda/host/cuda.h"
#include "verify/io/progress.h"
#include "verify/replay/log.h"
#include "verify/sweep/sweep.h"
#include "verify/sweep/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CPU_BYTES 8e9 /* what a tiny model's replay may take in plain C */

/* What was given on the command line goes before what the workload says. */
static struct trace_opts merge_opts(struct trace_opts w, const struct trace_opts *given)
{
    w.tree_index = given->tree_index;
    if (given->prompt)
        w.prompt = given->prompt;
    if (given->max_seq)
        w.max_seq = given->max_seq;
    if (given->batch)
        w.batch = given->batch;
    if (given->step_ms)
        w.step_ms = given->step_ms;
    w.topology = w.topology || given->topology;
    return w;
}

static bool list_jobs(const struct replay_choice *a, struct replay_run *run, struct err *e)
{
    if (!a->workloads) {
        run->n_jobs = 1;
        run->job = xcalloc(1, sizeof *run->job);
        run->job[0] = (struct replay_job){.name = xstrdup("trace"),
                                          .spec = xstrdup(a->src->text),
                                          .opts = a->src->trace,
                                          .tree_last = a->tree_last};
        return true;
    }
    const struct workload **pick;
    bool good = workloads_pick(a->workloads, &pick, &run->n_jobs, e);
    char *data = a->data ? xstrdup(a->data) : trace_folder();
    run->job = xcalloc((size_t)run->n_jobs, sizeof *run->job);
    for (int32_t j = 0; j < run->n_jobs; j++) {
        run->job[j] = (struct replay_job){.name = xstrdup(pick[j]->name),
                                          .spec = workload_spec(pick[j], data),
                                          .lacks = workload_lacks(pick[j], data),
                                          .opts = merge_opts(pick[j]->opts, &a->src->trace),
                                          .tree_last = a->tree_last};
    }
    free(data);
    free(pick);
    return good;
}

/* With several workloads, --tree K-L is for those that have as many; others have the one tree. */
static bool open_items(struct replay_run *run, struct replay_job *job, int64_t max_steps, struct err *e)
{
    struct trace **trace;
    bool some = run->n_jobs > 1;
    bool good = trace_items_open(job->spec, &job->opts, job->tree_last, some, &trace, &job->n_items, e);
    run->item = xrealloc(run->item, (size_t)(run->n_items + job->n_items), sizeof *run->item);
    for (int32_t k = 0; k < job->n_items; k++) {
        int64_t steps = trace_steps(trace[k]);
        int64_t last = max_steps > 0 ? min_i64(max_steps, steps) : steps;
        run->item[run->n_items] =
            (struct replay_item){.job = job,
                                 .index = job->opts.tree_index + k,
                                 .trace = trace[k],
                                 .src = {.number = run->n_items, .trace = trace[k], .last = last}};
        run->n_items++;
    }
    free(trace);
    return good;
}

bool replay_jobs_open(const struct replay_choice *a, struct replay_run *run, struct err *e)
{
    bool good = list_jobs(a, run, e);
    for (int32_t j = 0; j < run->n_jobs && good; j++)
        if (!run->job[j].lacks)
            good = open_items(run, &run->job[j], a->max_steps, e);
    struct replay_item *item = run->item;
    for (int32_t j = 0; j < run->n_jobs && good; j++) {
        run->job[j].item = item;
        item += run->job[j].n_items;
    }
    return good;
}

bool replay_jobs_device(struct replay_run *run, const struct decoder_type *type, uint64_t seed, bool graph,
                        struct replay_device *device, struct err *e)
{
    struct replay *r = &run->replay;
    struct cuda_caps caps;
    bool gpu = strcmp(type->name, "cuda") == 0 && cuda_caps(&caps, NULL), good = true;
    r->memory = (gpu ? (double)caps.mem_total : MOST_CPU_BYTES) *
                decoder_cards(&(struct decoder_spec){.n_cards = r->n_cards});
    struct decoder_spec spec = {.model = r->model,
                                .dtype = r->env.heads.dtype,
                                .page_size = r->page_size,
                                .n_pages = 1,
                                .max_queries = 1,
                                .seed = seed,
                                .graph = graph,
                                .n_cards = r->n_cards,
                                .parallel = r->parallel,
                                .alone = r->alone,
                                .rank = r->rank};
    int64_t most = replay_pages(r, r->memory);
    /* copies are not all that there is to run: they take what others leave of the GPU */
    int64_t room = gpu ? replay_pages(r, (double)caps.mem_free) : most;
    if (most == 0)
        return err_missing(e, "%s does not fit: its weights take %.1f GiB of %.1f GiB", r->model->name,
                           replay_weights(r) / 0x1p30, r->memory / 0x1p30);
    for (int32_t k = 0; k < run->n_items && good; k++)
        good = replay_peak(&run->item[k].src, r->page_size, most, &spec.n_pages, &spec.max_queries, e);
    r->n_pages = spec.n_pages;
    for (int32_t k = 0; k < run->n_items && good; k++)
        r->private_kv_pages =
            max_i64(r->private_kv_pages, replay_copies(r, &run->item[k].src, room - r->n_pages));
    spec.n_pages += r->private_kv_pages;
    return good && replay_device_open(device, type, &spec, r->every == 1, e);
}

char *replay_jobs_describe(const struct replay_run *run, const char *where, bool graph)
{
    const struct replay *r = &run->replay;
    char coefs[64] = "", cards[48] = "", only[24] = "";
    if (r->n_cards > 1 && simulated(r->exec)) /* else `where` says so */
        snprintf(cards, sizeof cards, " x %" PRId32 ", %s", r->n_cards, parallel_name[r->parallel]);
    if (r->alone && simulated(r->exec))
        snprintf(only, sizeof only, ", card %" PRId32 " of them", r->rank);
    if (run->coefs_told)
        snprintf(coefs, sizeof coefs, " with fitted coefficients (sum %08" PRIx32 ")", run->coefs_sum);
    char *text =
        xasprintf("treeattn replay: model %s, %" PRId32 " layers, %s, %s%s%s%s, pages of %" PRId32
                  ", planned %s%s, every %" PRId64 ", check %" PRId64 ";",
                  r->model->name, r->model->layers, dtype_name[r->env.heads.dtype], where, cards, only, coefs,
                  r->page_size, replan_name[r->replan], graph ? ", graphs" : "", r->every, r->check);
    for (int32_t i = 0; i < r->n_use; i++) {
        char *name = strategy_label(&r->use[i]);
        xappend(&text, " %s", name);
        free(name);
    }
    for (int32_t k = 0; k < run->n_items; k++) {
        const struct replay_item *item = &run->item[k];
        xappend(&text, "; %s, %" PRId64 " steps", trace_title(item->trace), item->src.last);
    }
    return text;
}

static bool replay_all(struct replay_run *run, struct replay_log *log, struct err *e)
{
    int64_t work = 0;
    for (int32_t k = 0; k < run->n_items; k++)
        work += replay_work(&run->replay, &run->item[k].src);
    struct progress progress = progress_start("replay", work);
    bool good = true;
    for (int32_t k = 0; k < run->n_items && good; k++) {
        struct replay_item *item = &run->item[k];
        item->total = xcalloc((size_t)run->replay.n_use, sizeof *item->total);
        good = replay_source(&run->replay, &item->src, log, item->total, &item->pool, &progress, e);
    }
    progress_clear(&progress);
    return good;
}

/* Task k is an item of a trace. */
static void replay_for_others(void *context, int64_t k, FILE *to)
{
    const struct replay_run *run = context;
    struct replay_total *total = xcalloc((size_t)run->replay.n_use, sizeof *total);
    struct replay_pool pool = {0};
    struct progress none = {.on = false};
    struct err e = {0};
    replay_source(&run->replay, &run->item[k].src, NULL, total, &pool, &none, &e);
    fwrite(&e, sizeof e, 1, to);
    fwrite(&pool, sizeof pool, 1, to);
    fwrite(total, sizeof *total, (size_t)run->replay.n_use, to);
    free(total);
}

/* The same with other processes. */
static bool replay_shared(struct replay_run *run, struct err *e)
{
    double *cost = xcalloc((size_t)run->n_items, sizeof *cost);
    for (int32_t k = 0; k < run->n_items; k++)
        cost[k] = 1 + (double)replay_work(&run->replay, &run->item[k].src);
    struct sweep_bytes *all = sweep_collect("replay", run->n_items, cost, replay_for_others, run, e);
    for (int32_t k = 0; k < run->n_items && all && !e->code; k++) {
        struct replay_item *item = &run->item[k];
        struct unpack u = {.at = all[k].at, .end = all[k].at + all[k].size};
        item->total = xcalloc((size_t)run->replay.n_use, sizeof *item->total);
        unpack(&u, e, sizeof *e);
        unpack(&u, &item->pool, sizeof item->pool);
        unpack(&u, item->total, (size_t)run->replay.n_use * sizeof *item->total);
        CK(!u.short_of);
    }
    sweep_bytes_free(all, run->n_items);
    free(cost);
    return !e->code;
}

bool replay_jobs_run(struct replay_run *run, const struct replay_rows *rows, struct err *e)
{
    if (!rows->path)
        return sweep_role() == SWEEP_ALONE ? replay_all(run, NULL, e) : replay_shared(run, e);
    struct replay_log_spec spec = {.path = rows->path,
                                   .resume = rows->resume,
                                   .what = rows->what,
                                   .about = rows->about,
                                   .use = run->replay.use,
                                   .n_use = run->replay.n_use};
    int32_t n = spec.n_sources = run->n_items;
    char **name = xcalloc((size_t)n, sizeof *name);
    int64_t *last = xcalloc((size_t)n, sizeof *last);
    for (int32_t k = 0; k < n; k++) {
        name[k] = xasprintf("%s tree %" PRId32, run->item[k].job->name, run->item[k].index);
        last[k] = run->item[k].src.last;
    }
    spec.source = name;
    spec.last = last;
    struct replay_log *log = replay_log_open(&spec, e);
    bool good = log != NULL;
    if (good) {
        good = replay_all(run, log, e);
        good = replay_log_close(log, good, e) && good;
    }
    for (int32_t k = 0; k < n; k++)
        free(name[k]);
    free(name);
    free(last);
    return good;
}

void replay_jobs_close(struct replay_run *run)
{
    for (int32_t k = 0; k < run->n_items; k++) {
        trace_close(run->item[k].trace);
        free(run->item[k].total);
    }
    for (int32_t j = 0; j < run->n_jobs && run->job; j++) {
        free(run->job[j].name);
        free(run->job[j].spec);
        free(run->job[j].lacks);
    }
    free(run->title);
    free(run->item);
    free(run->job);
}

/* Pages that no piece holds any more must all be back. */
static bool check_leaks(const struct replay_run *run, struct err *e)
{
    for (int32_t k = 0; k < run->n_items; k++)
        if (run->item[k].pool.leaked != 0)
            return err_failed(e, "%s: %" PRId64 " pages of the KV pool leaked", run->item[k].job->name,
                              run->item[k].pool.leaked);
    return true;
}

/* A run of which nothing could be had is no success: without a trace, or on a device that lacked something for all, even for
 * steps without attention. */
static bool check_any(const struct replay_run *run, struct err *e)
{
    const char *why = NULL;
    for (int32_t k = 0; k < run->n_items; k++)
        for (int32_t i = 0; i < run->replay.n_use; i++) {
            const struct replay_total *x = &run->item[k].total[i];
            if (x->fate == FATE_RAN || simulated(run->replay.exec))
                return true;
            why = x->why;
        }
    return why ? err_missing(e, "nothing was replayed: %.200s", why)
               : err_missing(e, "nothing was replayed: no %s (expected in --data DIR)", run->job[0].lacks);
}

bool replay_jobs_check(const struct replay_run *run, struct err *e)
{
    return check_leaks(run, e) && check_any(run, e);
}
