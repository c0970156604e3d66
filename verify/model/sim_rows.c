/* sim_rows.c - a row per source, machine and strategy: CSV and JSON of `treeattn sim`. */
#include "verify/model/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes, multiply-adds, padding, times and CTAs are of all layers and steps, groups and launches of one layer; counters
 * are named as in DeFT's recorded runs. Shares are of the time that CTAs run, low_share of
 * that without merges. The last columns only with a machine. */
enum { N_COUNTED = 31 };
static const char *const columns[] = {"source",
                                      "at",
                                      "tree",
                                      "step",
                                      "prompt_len",
                                      "max_seq_len",
                                      "strategy",
                                      "count",
                                      "layers",
                                      "q_heads",
                                      "kv_heads",
                                      "head_dim",
                                      "dtype",
                                      "iterations",
                                      "generated_len",
                                      "KV_IO_bytes",
                                      "Mask_IO_bytes",
                                      "QK_IO_bytes",
                                      "QK_scale_IO_bytes",
                                      "QK_scale_masked_IO_bytes",
                                      "SoftMax_IO_bytes",
                                      "QO_IO_bytes",
                                      "partial_IO_bytes",
                                      "mac_useful",
                                      "mac_masked",
                                      "mac_padded",
                                      "pad_rows",
                                      "pad_tokens",
                                      "groups",
                                      "launches",
                                      "why",
                                      "machine",
                                      "coefficients",
                                      "built_in",
                                      "latency_ms",
                                      "overhead_ms",
                                      "launch_ms",
                                      "attention_ms",
                                      "merge_ms",
                                      "dram_bytes",
                                      "bandwidth_use",
                                      "l2_use",
                                      "tensor_use",
                                      "sm_use",
                                      "slot_use",
                                      "low_share",
                                      "ctas",
                                      "fitted_ms",
                                      NULL};

static void print_source(struct printer *t, const struct sim_run *run, const struct sim_source *s)
{
    int64_t prompt = s->trace ? trace_prompt(s->trace) : 0;
    char *text = s->trace ? xstrdup(s->src.text) : tree_source_print(&s->src);
    table_text(t, text);
    table_text(t, s->at ? s->at : "");
    free(text);
    table_i64_if(t, s->trace, s->index);
    table_i64_if(t, run->src->step > 0, run->src->step);
    table_i64_if(t, prompt > 0, prompt);
    table_i64_if(t, run->src->trace.max_seq > 0, run->src->trace.max_seq);
}

static void print_problem(struct printer *t, const struct sim_run *run, const struct sim_source *s)
{
    const struct problem_spec *p = &s->spec;
    bool whole = s->trace && run->src->step == 0;
    table_text(t, count_mode_name[run->mode]);
    table_i64(t, run->layers);
    table_i64(t, p->heads.h_q);
    table_i64(t, p->heads.h_kv);
    table_i64(t, p->heads.d);
    table_text(t, dtype_name[p->heads.dtype]);
    table_i64(t, sim_steps(s));
    table_i64_if(t, whole, whole ? trace_generated(s->trace) : 0);
}

/* What the way of counting leaves out is not 0. */
static void print_counts(struct printer *t, const struct sim_run *run, const struct simulated_row *r)
{
    const struct ledger *l = &r->moved;
    bool ran = r->skipped_at == 0, all = ran && run->mode == COUNT_TRUE;
    const struct {
        bool counted;
        int64_t x;
    } cell[] = {
        {ran, l->kv},
        {ran, l->mask},
        {ran, l->qk_write + l->qk_read},
        {ran, l->scaled_write + l->scaled_read},
        {ran, l->masked_write + l->masked_read},
        {ran, l->softmax_write + l->softmax_read},
        {ran && run->mode != COUNT_PAPER, l->q + l->out},
        {all, ledger_partials(l)},
        {all, l->mac_useful},
        {all, l->mac_masked},
        {all, l->mac_padded},
        {all, l->pad_rows},
        {all, l->pad_tokens},
    };
    for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++)
        table_i64_if(t, cell[i].counted, cell[i].x * run->layers);
    table_i64_if(t, ran, r->groups);
    table_i64_if(t, all, l->launches);
    table_text(t, r->why);
}

static void print_times(struct printer *t, const struct sim_run *run, int32_t m,
                        const struct simulated_row *r)
{
    const struct simulated_times *x = &r->time;
    bool ran = r->skipped_at == 0;
    double ms = 1e3 * (double)run->layers;
    const double sum[] = {x->latency_s * ms,   x->overhead_s * ms, x->launch_s * ms,
                          x->attention_s * ms, x->merge_s * ms,    x->dram_bytes * (double)run->layers};
    const double share[] = {x->bandwidth_use, x->l2_use, x->tensor_use, x->sm_use, x->slot_use};
    table_text(t, run->machine[m].text);
    table_text(t, run->coefficients);
    table_text(t, strcmp(run->coefficients, COEFS_BUILT_IN) == 0 ? "all" : run->machine[m].rest);
    for (size_t i = 0; i < sizeof sum / sizeof sum[0]; i++)
        table_f64_if(t, ran, sum[i], 6);
    for (size_t i = 0; i < sizeof share / sizeof share[0]; i++)
        table_f64_if(t, ran && x->kernel_s > 0, share[i] / x->kernel_s, 6);
    table_f64_if(t, ran && x->attention_s > 0, x->low_share / x->attention_s, 6);
    table_f64_if(t, ran, x->ctas * (double)run->layers, 6);
    table_f64_if(t, ran && run->model, x->fitted_s * ms, 6);
}

void sim_print_rows(const struct sim_run *run, FILE *f, enum style style)
{
    const char *shown[sizeof columns / sizeof columns[0]];
    memcpy(shown, columns, sizeof shown);
    if (!run->timed)
        shown[N_COUNTED] = NULL;
    struct printer t = {.f = f, .style = style, .column = shown};
    for (int64_t k = 0; k < run->n_sources; k++)
        for (int32_t m = 0; m < run->n_machines; m++)
            for (int32_t i = 0; i < run->n_use; i++) {
                const struct simulated_row *r = &sim_rows(run, k, m)[i];
                char *name = strategy_label(&run->use[i]);
                print_source(&t, run, &run->source[k]);
                table_text(&t, name);
                print_problem(&t, run, &run->source[k]);
                print_counts(&t, run, r);
                if (run->timed)
                    print_times(&t, run, m, r);
                free(name);
            }
    table_end(&t);
}
