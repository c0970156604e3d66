/* sim_text.c - the tables of `treeattn sim` for people: bytes, then times, then who did not apply. */
#include "verify/model/sim.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes -------------------------------------------------------------------------------------------- */

/* The unit in which no figure needs more than three digits before its point. */
struct unit {
    double bytes;
    const char *name;
};

static double all_bytes(const struct ledger *l)
{
    return (double)l->kv + (double)l->q + (double)l->mask + (double)ledger_scores(l) +
           (double)ledger_partials(l) + (double)l->out;
}

static struct unit choose_unit(const struct sim_run *run)
{
    static const struct unit units[] = {{1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}, {1e15, "PB"}};
    double most = 0;
    for (int64_t k = 0; k < run->n_sources * run->n_machines * run->n_use; k++)
        most = fmax(most, all_bytes(&run->row[k].moved) * (double)sim_multiplier(run));
    int u = 0;
    while (u < 4 && most >= 1000 * units[u].bytes)
        u++;
    return units[u];
}

static void cell(struct printer *t, bool there, double x)
{
    table_f64_if(t, there, x, 5);
}

/* Bytes of `over` trees together, as their mean. */
static void print_bytes(struct printer *t, const struct sim_run *run, const struct simulated_row *r,
                        double over, struct unit unit)
{
    const struct ledger *l = &r->moved;
    bool ran = r->skipped_at == 0, all = ran && run->mode == COUNT_TRUE;
    double scale = (double)sim_multiplier(run) / over / unit.bytes;
    double pairs = (double)l->mac_useful + (double)l->mac_masked + (double)l->mac_padded;
    cell(t, ran, (double)l->kv * scale);
    cell(t, ran, (double)l->mask * scale);
    cell(t, ran, (double)ledger_scores(l) * scale);
    cell(t, ran && run->mode != COUNT_PAPER, ((double)l->q + (double)l->out) * scale);
    cell(t, all, (double)ledger_partials(l) * scale);
    cell(t, ran, all_bytes(l) * scale);
    cell(t, ran, (double)r->groups / (double)max_i64(r->steps, 1));
    cell(t, all && pairs > 0, 100 * (1 - (double)l->mac_useful / pairs));
}

/* ---- times -------------------------------------------------------------------------------------------- */

/* What a share of `all` leaves, in percent; what rounding leaves of it is nothing. */
static double rest_of(double share, double all)
{
    double rest = 1 - share / all;
    return fabs(rest) < 1e-9 ? 0 : 100 * rest;
}

static void print_times(struct printer *t, const struct sim_run *run, const struct simulated_row *r,
                        double over)
{
    const struct simulated_times *x = &r->time;
    bool ran = r->skipped_at == 0, busy = ran && x->kernel_s > 0;
    double steps = (double)max_i64(r->steps, 1) * (run->llm ? (double)run->layers : 1); /* of one layer each */
    cell(t, ran, 1e3 * x->latency_s * (double)sim_multiplier(run) / over);
    cell(t, ran, 1e6 * x->latency_s / steps);
    cell(t, ran && x->latency_s > 0, 100 * (x->overhead_s + x->launch_s) / x->latency_s);
    cell(t, ran && x->latency_s > 0, 100 * x->merge_s / x->latency_s);
    cell(t, ran, x->ctas / steps);
    cell(t, busy, 100 * x->bandwidth_use / x->kernel_s);
    cell(t, busy, 100 * x->tensor_use / x->kernel_s);
    cell(t, busy, rest_of(x->sm_use, x->kernel_s));
    cell(t, busy, rest_of(x->slot_use, x->kernel_s));
    cell(t, ran && x->attention_s > 0, 100 * x->low_share / x->attention_s);
    if (run->model)
        cell(t, ran, 1e6 * x->fitted_s / steps);
}

/* ---- both --------------------------------------------------------------------------------------------- */

static void print_head(const struct sim_run *run, FILE *f)
{
    const struct sim_source *s = &run->source[0];
    const struct problem_spec *p = &s->spec;
    if (s->trace) {
        fprintf(f, "%s\n", trace_title(s->trace));
        if (run->src->step > 0)
            fprintf(f, "step %" PRId64 " alone\n", run->src->step);
        if (run->n_sources > 1)
            fprintf(f, "... to tree %" PRId32 ": %" PRId64 " trees\n", run->source[run->n_sources - 1].index,
                    run->n_sources);
        for (int64_t k = 0; k < run->n_sources; k++)
            if (trace_remark(run->source[k].trace)[0])
                fprintf(f, "remark: tree %" PRId32 ": %s\n", run->source[k].index,
                        trace_remark(run->source[k].trace));
    } else if (s->at) {
        fprintf(f, "%" PRId64 " trees\n", run->n_sources);
    } else {
        char *text = tree_source_print(&s->src);
        fprintf(f, "%s: %" PRId32 " nodes, %" PRId32 " queries, %" PRId64 " tokens\n", text, s->tree->n_nodes,
                s->tree->n_queries, tree_tokens(s->tree));
        free(text);
    }
    if (run->llm)
        fprintf(f, "%s: ", run->llm->name);
    fprintf(f, "%" PRId64 " layer%s", run->layers, run->layers == 1 ? "" : "s");
    if (run->llm && run->llm->window_layers > 0)
        fprintf(f, " (%" PRId32 " with windows of %" PRId32 ")", run->llm->window_layers, run->llm->window);
    fputs(", ", f);
    if (!s->at)
        fprintf(f, "%" PRId32 " query heads, %" PRId32 " KV heads, ", p->heads.h_q, p->heads.h_kv);
    fprintf(f, "d = %" PRId32, p->heads.d);
    if (heads_v_in_k(&p->heads))
        fprintf(f, " (V: the first %" PRId32 ")", p->heads.d_v);
    fprintf(f, ", %s", heads_dtype_name(&p->heads));
    if (run->spec.window > 0)
        fprintf(f, ", windows of %" PRId64, run->spec.window);
    fputc('\n', f);
}

/* The sum of a strategy's rows; skipped where it did not apply to one of them. */
static struct simulated_row sum_rows(const struct sim_run *run, int32_t m, int32_t i)
{
    struct simulated_row sum = sim_rows(run, 0, m)[i];
    for (int64_t k = 1; k < run->n_sources; k++)
        simulated_add(&sum, &sim_rows(run, k, m)[i]);
    return sum;
}

/* What the first column calls a source. */
static char *label_of(const struct sim_source *s)
{
    if (s->at)
        return xasprintf("%s %" PRId32 "/%" PRId32, s->at, s->spec.heads.h_q, s->spec.heads.h_kv);
    return s->trace ? xasprintf("%" PRId32, s->index) : xstrdup("-");
}

/* Columns are wide enough for the longest name. Frees it. */
static void widen(int32_t *width, char *name)
{
    *width = (int32_t)max_i64(*width, (int64_t)strlen(name));
    free(name);
}

static int32_t label_width(const struct sim_run *run)
{
    int32_t width = 5;
    for (int64_t k = 0; k < run->n_sources; k++)
        widen(&width, label_of(&run->source[k]));
    return width;
}

static int32_t name_width(const struct sim_run *run)
{
    int32_t width = 8;
    for (int32_t i = 0; i < run->n_use; i++)
        widen(&width, strategy_label(&run->use[i]));
    return width;
}

/* A line per source and strategy on machine m, then one per strategy for the mean. */
static void print_table(const struct sim_run *run, struct printer *t, int32_t m, bool times, bool quiet,
                        struct unit unit)
{
    bool mean = run->n_sources > 1;
    for (int64_t k = mean && quiet ? run->n_sources : 0; k < run->n_sources + mean; k++)
        for (int32_t i = 0; i < run->n_use; i++) {
            bool last = k == run->n_sources;
            struct simulated_row r = last ? sum_rows(run, m, i) : sim_rows(run, k, m)[i];
            char *tree = last ? xstrdup("mean") : label_of(&run->source[k]);
            char *name = strategy_label(&run->use[i]);
            table_text(t, tree);
            table_text(t, name);
            if (times)
                print_times(t, run, &r, last ? (double)run->n_sources : 1);
            else
                print_bytes(t, run, &r, last ? (double)run->n_sources : 1, unit);
            free(tree);
            free(name);
        }
    table_end(t);
}

static void print_byte_table(const struct sim_run *run, FILE *f, int32_t m, bool quiet)
{
    static const char *const what[] = {"KV", "masks", "scores", "Q and O", "partials", "total"};
    const int32_t widths[] = {label_width(run), name_width(run), 9, 10, 9, 10, 11, 9, 11, 8};
    struct unit unit = choose_unit(run);
    char head[6][24];
    const char *column[] = {"tree",  "strategy", head[0],       head[1],    head[2], head[3],
                            head[4], head[5],    "groups/step", "% wasted", NULL};
    for (int i = 0; i < 6; i++)
        snprintf(head[i], sizeof head[i], "%s %s", what[i], unit.name);
    struct printer t = {.f = f, .column = column, .aligned = true, .width = widths};
    fprintf(f, "\nbytes moved%s%s, count %s\n", run->timed ? " by plans for " : "",
            run->timed ? run->machine[m].text : "", count_mode_name[run->mode]);
    print_table(run, &t, m, false, quiet, unit);
}

static void print_time_table(const struct sim_run *run, FILE *f, int32_t m, bool quiet)
{
    const char *column[] = {"tree",        "strategy",    "ms",        "us/layer",   "% launches",
                            "% merge",     "CTAs",        "% of GB/s", "% of FLOPS", "% SM idle",
                            "% slot idle", "% under 5 %", "fitted us", NULL};
    const int32_t widths[] = {label_width(run), name_width(run), 9, 8, 10, 7, 6, 9, 10, 9, 11, 11, 9};
    const char *rest = run->machine[m].fitted_rest;
    if (!run->model)
        column[sizeof column / sizeof column[0] - 2] = NULL;
    struct printer t = {.f = f, .column = column, .aligned = true, .width = widths};
    bool left_out = run->machine[m].coefs.unseen < 1;
    char *title = coefs_title(run->coefficients, run->machine[m].m.name, run->machine[m].rest);
    fprintf(f, "\ntime on %s, simulated with %s%s\n", run->machine[m].text, title,
            left_out ? "; what no row of a Q tile sees is left out here" : "");
    if (run->model) /* what the last column rests on */
        fprintf(f, "fitted us: model %s, coefficients %s%s%s%s\n", run->model->name, run->fitted_from,
                rest[0] ? " (not in it: " : "", rest, rest[0] ? ")" : "");
    free(title);
    print_table(run, &t, m, true, quiet, (struct unit){0});
}

/* Strategies of which a share of the bytes that no row sees, or of round trips' time, is worth a note: "pat 12 %, cascade 40 %",
 * of all sources; empty: none. */
static char *list_of(const struct sim_run *run, int32_t m, bool trips)
{
    char *list = xstrdup("");
    for (int32_t i = 0; i < run->n_use; i++) {
        struct simulated_row row = sum_rows(run, m, i);
        double share = trips ? row.time.trip_s / row.time.latency_s : row.time.unseen / row.time.kv;
        if (row.skipped_at > 0 || !(share > (trips ? 0.5 : 0.1)))
            continue;
        char *name = strategy_label(&run->use[i]);
        xappend(&list, "%s%s %.0f %%", list[0] ? ", " : "", name, floor(100 * share));
        free(name);
    }
    return list;
}

/* Does the file of coefficients name `latency`? "l2_latency" is another. */
static bool has_own_latency(const struct sim_run *run, const struct sim_machine *m)
{
    char *rest = xasprintf(" %s ", m->rest);
    bool has = strcmp(run->coefficients, COEFS_BUILT_IN) != 0 && !strstr(rest, " latency ");
    free(rest);
    return has;
}

/* What times rest on that is not the card's, or not every kernel's. */
static void print_remarks(const struct sim_run *run, FILE *f, int32_t m)
{
    const struct sim_machine *x = &run->machine[m];
    char *blind = list_of(run, m, false), *bound = list_of(run, m, true);
    if (blind[0])
        fprintf(f,
                "note: share of the KV bytes that no row of a Q tile sees: %s; read in these times (unseen = "
                "%g), left out with the coefficient unseen = 0, as in our kernels\n",
                blind, x->coefs.unseen);
    if (bound[0] && !has_own_latency(run, x) && machine_borrows(&x->m, MACHINE_latency_ns))
        fprintf(
            f,
            "note: share of the time that round trips to memory take: %s; latency_ns = %g is not %s's own "
            "figure (%s), so such times hardly differ from another machine's\n",
            bound, x->m.latency_ns, x->m.name, x->m.source[MACHINE_latency_ns]);
    free(blind);
    free(bound);
}

static void print_skipped(const struct sim_run *run, FILE *f)
{
    for (int64_t k = 0; k < run->n_sources; k++)
        for (int32_t i = 0; i < run->n_use; i++) {
            const struct simulated_row *r = &sim_rows(run, k, 0)[i];
            if (r->skipped_at == 0)
                continue;
            fprintf(f, "%s: SKIP: ", run->use[i].s->name);
            if (run->source[k].at)
                fprintf(f, "%s: ", run->source[k].at);
            if (run->source[k].trace)
                fprintf(f, "tree %" PRId32 ", step %" PRId64 ": ", run->source[k].index, r->skipped_at);
            fprintf(f, "%s\n", r->why);
        }
}

void sim_print_text(const struct sim_run *run, FILE *f, bool quiet)
{
    print_head(run, f);
    for (int32_t m = 0; m < run->n_machines; m++) {
        print_byte_table(run, f, m, quiet);
        if (run->timed) {
            print_time_table(run, f, m, quiet);
            print_remarks(run, f, m);
        }
    }
    fputs("\n% wasted:    multiply-adds of tile padding and of pairs that a mask hides; -: the count leaves "
          "it out\n",
          f);
    if (run->timed)
        fputs("us/layer:    of one step; % launches, with what every call costs, and % merge: of the time\n"
              "CTAs:        of one step; of attention, of each stage where it is not fused, and of merges\n"
              "% of GB/s:   of the bandwidth, by L2 misses, over attention and merges without launches\n"
              "% of FLOPS:  of the tensor peak, with padding, over the same time\n"
              "% idle:      SMs, or places for CTAs on them, without a CTA while the kernels run (bubbles)\n"
              "% under 5 %: of the time without merges, with less than 5 % of the tensor peak in use\n",
              f);
    if (run->model)
        fprintf(f, "fitted us:   of one layer and step, by the %s model fitted to measured times\n",
                run->model->name);
    print_skipped(run, f);
}
