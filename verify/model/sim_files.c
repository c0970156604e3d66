/* sim_files.c - what `treeattn sim` writes beside its table: one plan in time, and pictures. */
#include "sim/draw/bytes_svg.h"
#include "sim/draw/timeline_svg.h"
#include "verify/io/outfile.h"
#include "verify/model/sim.h"

#include <inttypes.h>
#include <stdlib.h>

enum { FILES = 4 };

static int files_printed(const struct sim_run *run)
{
    const char *const path[FILES] = {run->timeline, run->timeline_svg, run->spans, run->bytes_svg};
    int n = 0;
    for (int i = 0; i < FILES; i++)
        n += outfile_is_stdout(path[i]);
    return n;
}

bool sim_files_printed(const struct sim_run *run)
{
    return files_printed(run) > 0;
}

static bool wants_timeline(const struct sim_run *run)
{
    return run->timeline || run->timeline_svg || run->spans;
}

bool sim_files_check(const struct sim_run *run, struct err *e)
{
    if (files_printed(run) > 1)
        return err_set(e,
                       "--timeline -, --timeline-svg -, --spans - and --bytes-svg - (expected one of them)");
    if (run->bytes_svg && run->mode != COUNT_TRUE)
        return err_set(e, "--bytes-svg shows what a kernel must move (expected --count true)");
    if (run->bytes_svg && run->n_machines != 1)
        return err_set(e, "--bytes-svg is of one machine's plans (expected one --machine, or none)");
    if (!wants_timeline(run))
        return true;
    if (!run->timed || run->n_machines != 1)
        return err_set(e,
                       "--timeline, --timeline-svg and --spans are of one machine (expected one --machine)");
    if (run->n_use != 1)
        return err_set(e, "--timeline, --timeline-svg and --spans are of one plan (expected one --strategy)");
    if (run->n_sources != 1 || sim_steps(&run->source[0]) != 1)
        return err_set(e,
                       "--timeline, --timeline-svg and --spans are of one plan (expected a tree, or --step)");
    return true;
}

/* ---- one plan in time ----------------------------------------------------------------------------------- */

static bool write_file(const char *path, void (*print)(FILE *f, const struct time_model *c),
                       const struct time_model *c, struct err *e)
{
    struct outfile out;
    if (!path)
        return true;
    if (!outfile_open(&out, path, e))
        return false;
    print(out.f, c);
    return outfile_close(&out, true, e);
}

static bool write_timeline_svg(const char *path, const struct time_model *c, const struct plan *p,
                               const struct machine *mc, struct err *e)
{
    struct outfile out;
    if (!path)
        return true;
    if (!outfile_open(&out, path, e))
        return false;
    time_model_print_svg(out.f, c, p, mc);
    return outfile_close(&out, true, e);
}

static bool write_timelines(const struct sim_run *run, struct err *e)
{
    if (!wants_timeline(run))
        return true;
    const struct sim_source *src = &run->source[0];
    struct simulation s = sim_of_source(run, src, 0);
    struct tree *t = simulation_tree(&src->steps, src->steps.first, e);
    if (!t)
        return false;
    struct nform *nf = nform_new(t);
    char why[WHY_MAX];
    struct plan *p = simulation_plan(&s, 0, nf, why);
    bool good = p || err_set(e, "%s does not apply to this tree: %s", s.use[0].s->name, why);
    if (good) {
        struct time_model c = time_model_plan(p, &s.env.heads, s.env.machine, &s.coefs, 0, CLOCK_TIMELINE);
        good = write_file(run->timeline, time_model_print_ctas, &c, e) &&
               write_timeline_svg(run->timeline_svg, &c, p, s.env.machine, e) &&
               write_file(run->spans, time_model_print_spans, &c, e);
        time_model_free(&c);
    }
    plan_free(p);
    nform_free(nf);
    tree_free(t);
    return good;
}

/* ---- bytes ------------------------------------------------------------------------------------------------ */

/* All sources together. */
static struct simulated_row sum_of(const struct sim_run *run, int32_t i)
{
    struct simulated_row sum = sim_rows(run, 0, 0)[i];
    for (int64_t k = 1; k < run->n_sources; k++)
        simulated_add(&sum, &sim_rows(run, k, 0)[i]);
    return sum;
}

static char *what_is_drawn(const struct sim_run *run, int64_t steps)
{
    const struct sim_source *s = &run->source[0];
    char *text = run->n_sources > 1 ? xasprintf("%" PRId64 " trees or traces together", run->n_sources)
                 : s->trace         ? xstrdup(s->src.text)
                                    : tree_source_print(&s->src);
    xappend(&text, ": all that plans of %" PRId64 " step%s read and write in %" PRId64 " layer%s.", steps,
            steps == 1 ? "" : "s", run->layers, run->layers == 1 ? "" : "s");
    if (run->n_sources == 1)
        xappend(&text, " %" PRId32 " query heads on %" PRId32 " KV heads.", s->spec.heads.h_q,
                s->spec.heads.h_kv);
    return text;
}

static void print_bytes(FILE *f, const struct sim_run *run)
{
    struct simulated_row *row = xcalloc((size_t)run->n_use, sizeof *row);
    struct bytes_bar *bar = xcalloc((size_t)run->n_use, sizeof *bar);
    char **name = xcalloc((size_t)run->n_use, sizeof *name);
    double floor = 0;
    int64_t steps = 0;
    for (int32_t i = 0; i < run->n_use; i++) {
        row[i] = sum_of(run, i);
        name[i] = strategy_label(&run->use[i]);
        bar[i] = bytes_bar_of(name[i], &row[i].moved, (double)sim_multiplier(run));
        if (row[i].skipped_at > 0)
            bar[i].why = row[i].why;
        else
            floor = row[i].floor * (double)sim_multiplier(run);
    }
    for (int64_t k = 0; k < run->n_sources; k++)
        steps += sim_steps(&run->source[k]);
    char *what = what_is_drawn(run, steps);
    bytes_print_svg(f, what, bar, run->n_use, floor);
    for (int32_t i = 0; i < run->n_use; i++)
        free(name[i]);
    free(name);
    free(what);
    free(bar);
    free(row);
}

static bool write_bytes(const struct sim_run *run, struct err *e)
{
    struct outfile out;
    if (!run->bytes_svg)
        return true;
    if (!outfile_open(&out, run->bytes_svg, e))
        return false;
    print_bytes(out.f, run);
    return outfile_close(&out, true, e);
}

bool sim_files_write(const struct sim_run *run, struct err *e)
{
    return write_timelines(run, e) && write_bytes(run, e);
}
