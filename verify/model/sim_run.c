/* sim_run.c - the trees or traces of a simulation, its coefficients, and the run itself. */
#include "verify/io/outfile.h"
#include "verify/io/progress.h"
#include "verify/model/sim.h"
#include "verify/sweep/sweep.h"
#include "verify/sweep/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- sources ------------------------------------------------------------------------------------------ */

static bool open_traces(struct sim_run *run, int64_t last, struct err *e)
{
    const struct tree_source *src = run->src;
    struct trace **trace;
    int32_t n;
    bool good = trace_items_open(src->text, &src->trace, last, false, &trace, &n, e);
    run->source = xcalloc((size_t)n, sizeof *run->source);
    for (run->n_sources = 0; run->n_sources < n; run->n_sources++) {
        struct trace *tr = trace[run->n_sources];
        int64_t steps = trace_steps(tr), step = src->step;
        run->source[run->n_sources] = (struct sim_source){
            .src = tree_source_copy(src),
            .spec = run->spec,
            .index = src->trace.tree_index + (int32_t)run->n_sources,
            .trace = tr,
            .steps = {.trace = tr,
                      .first = step ? step : 1,
                      .last = step ? step : steps,
                      .window = run->spec.window,
                      .q_len = src->q_len}};
        if (good && step > steps)
            good = err_set(e, "%s: step %" PRId64 " (expected 1 to %" PRId64 ")", src->text, step, steps);
    }
    free(trace);
    return good;
}

bool sim_open_trees(struct sim_run *run, int32_t last, struct err *e)
{
    if (run->src->kind == SRC_TRACE)
        return open_traces(run, last, e);
    struct tree *t = tree_source_load(run->src, e);
    if (!t)
        return false;
    tree_set_window(t, run->spec.window);
    run->n_sources = 1;
    run->source = xcalloc(1, sizeof *run->source);
    run->source[0] = (struct sim_source){.src = tree_source_copy(run->src),
                                         .spec = run->spec,
                                         .tree = t,
                                         .steps = {.tree = t, .first = 1, .last = 1}};
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------ */

struct simulation sim_of_source(const struct sim_run *run, const struct sim_source *src, int32_t m)
{
    const struct problem_spec *p = &src->spec;
    return (struct simulation){
        .use = run->use,
        .n_use = run->n_use,
        .env = {.heads = p->heads, .machine = &run->machine[m].m},
        .mode = run->mode,
        .timed = run->timed,
        .coefs = run->machine[m].coefs,
        .model = run->model,
        .command = run->command,
        .coef = (const double(*)[2 * MAX_TRAITS]) run->machine[m].fitted,
    };
}

/* A layer, which is like all others. */
static bool simulate_alike(const struct sim_run *run, int64_t k, int32_t m, const struct simulation_source *src,
                           struct simulated_row *row, struct progress *progress, struct err *e)
{
    struct simulation s = sim_of_source(run, &run->source[k], m);
    return simulate_steps(&s, src, run->layers * run->n_sources, row, progress, e);
}

/* The layers of run->llm: those that have windows, and the others. */
static bool simulate_layers(const struct sim_run *run, int64_t k, int32_t m, struct progress *progress, struct err *e)
{
    const struct model *llm = run->llm;
    const int64_t n[2] = {llm->layers - llm->window_layers, llm->window_layers};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        struct simulated_row *row = xcalloc((size_t)run->n_use, sizeof *row);
        struct simulation_source src = run->source[k].steps;
        struct tree *t = src.trace ? NULL : tree_copy(src.tree);
        int64_t window = i > 0 ? llm->window : 0;
        if (t)
            tree_set_window(t, window);
        src.tree = t;
        src.window = window;
        good = n[i] == 0 || simulate_alike(run, k, m, &src, row, progress, e);
        for (int32_t u = 0; u < run->n_use && n[i] > 0; u++)
            simulated_add_layers(&sim_rows(run, k, m)[u], &row[u], n[i]);
        tree_free(t);
        free(row);
    }
    return good;
}

static bool simulate_one(const struct sim_run *run, int64_t k, int32_t m, struct progress *progress, struct err *e)
{
    return run->llm ? simulate_layers(run, k, m, progress, e)
                    : simulate_alike(run, k, m, &run->source[k].steps, sim_rows(run, k, m), progress, e);
}

/* Task i is a source on a machine. */
static void simulate_for_others(void *context, int64_t i, FILE *to)
{
    const struct sim_run *run = context;
    int64_t k = i / run->n_machines;
    int32_t m = (int32_t)(i % run->n_machines);
    struct progress none = {.on = false};
    struct err e = {0};
    simulate_one(run, k, m, &none, &e);
    fwrite(&e, sizeof e, 1, to);
    fwrite(sim_rows(run, k, m), sizeof *run->row, (size_t)run->n_use, to);
}

/* The same with other processes: rows that workers made. */
static bool simulate_shared(struct sim_run *run, struct err *e)
{
    int64_t n = run->n_sources * run->n_machines;
    double *cost = xcalloc((size_t)n, sizeof *cost);
    for (int64_t i = 0; i < n; i++) {
        const struct sim_source *s = &run->source[i / run->n_machines];
        cost[i] = (double)sim_steps(s) * (s->tree ? 1 + s->tree->n_nodes + s->tree->n_queries : 100);
    }
    struct sweep_bytes *all = sweep_collect("sim", n, cost, simulate_for_others, run, e);
    for (int64_t i = 0; i < n && all && !e->code; i++) {
        struct unpack u = {.at = all[i].at, .end = all[i].at + all[i].size};
        unpack(&u, e, sizeof *e);
        unpack(&u, run->row + i * run->n_use, (size_t)run->n_use * sizeof *run->row);
        CK(!u.short_of);
    }
    sweep_bytes_free(all, n);
    free(cost);
    return !e->code;
}

bool sim_simulate(struct sim_run *run, struct err *e)
{
    int64_t steps = 0;
    for (int64_t k = 0; k < run->n_sources; k++)
        steps += sim_steps(&run->source[k]) * run->n_machines *
                 (run->llm && run->llm->window_layers > 0 && run->llm->window_layers < run->llm->layers ? 2 : 1);
    run->row = xcalloc((size_t)(run->n_sources * run->n_machines * run->n_use), sizeof *run->row);
    if (sweep_role() != SWEEP_ALONE)
        return simulate_shared(run, e);
    struct progress progress = progress_start("sim", steps);
    bool good = true;
    for (int64_t k = 0; k < run->n_sources && good; k++)
        for (int32_t m = 0; m < run->n_machines && good; m++)
            good = simulate_one(run, k, m, &progress, e);
    progress_clear(&progress);
    return good;
}

/* ---- fitted times ------------------------------------------------------------------------------------- */

/* Of one machine: the time model's own, or those of a model beside it. */
static bool read_machine(const struct sim_run *run, const char *file, const char *part, struct sim_machine *m,
                         struct err *e)
{
    const struct fit_model *model = run->model;
    if (!model)
        return coefs_read_clock(file, m->m.name, part, &m->coefs, m->rest, e);
    bool own = part && strcmp(part, "each") == 0, good = true;
    m->fitted = xcalloc((size_t)run->n_use, sizeof *m->fitted);
    for (int32_t i = 0; i < run->n_use && good; i++) {
        if (i > 0 && !own) { /* the file was read */
            memcpy(m->fitted[i], m->fitted[0], sizeof m->fitted[i]);
            continue;
        }
        char *label = strategy_label(&run->use[i]);
        good = coefs_read_model(file, m->m.name, model, own ? label : part, m->fitted[i],
                                i == 0 ? m->fitted_rest : NULL, e);
        free(label);
    }
    return good;
}

bool sim_read_coefficients(struct sim_run *run, const char *file, const char *part, struct err *e)
{
    bool good = true;
    for (int32_t m = 0; m < run->n_machines; m++)
        run->machine[m].coefs = time_model_coefs_default();
    run->coefficients = COEFS_BUILT_IN;
    if (file)
        *(run->model ? &run->fitted_from : &run->coefficients) = file;
    for (int32_t m = 0; m < run->n_machines && file && good; m++)
        good = read_machine(run, file, part, &run->machine[m], e);
    return good;
}

void sim_clear(struct sim_run *run)
{
    for (int64_t k = 0; k < run->n_sources; k++) {
        trace_close(run->source[k].trace);
        tree_free(run->source[k].tree);
        tree_source_clear(&run->source[k].src);
        free(run->source[k].at);
    }
    for (int32_t m = 0; m < run->n_machines; m++)
        free(run->machine[m].fitted);
    free(run->source);
    free(run->command);
    free(run->row);
    free(run->use);
}
