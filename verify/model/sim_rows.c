/* sim_rows.c - a row per source, machine and strategy: CSV and JSON of `treeattn sim`. */
#include "verify/model/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * X(column, how it is printed of source s and its row r). Bytes, multiply-adds, padding, times and CTAs are of all layers and
 * steps, groups and launches of one layer; counters are named as in DeFT's recorded runs. What the way of counting leaves out
 * is not 0. Shares are of the time that CTAs run, low_share of that without merges.
 */
#define COUNTED(X)                                                                                           \
    X("source", table_text(t, text))                                                                         \
    X("at", table_text(t, s->at ? s->at : ""))                                                               \
    X("tree", table_i64_if(t, s->trace, s->index))                                                           \
    X("step", table_i64_if(t, run->src->step > 0, run->src->step))                                           \
    X("prompt_len", table_i64_if(t, prompt > 0, prompt))                                                     \
    X("max_seq_len", table_i64_if(t, run->src->trace.max_seq > 0, run->src->trace.max_seq))                  \
    X("strategy", table_text(t, name))                                                                       \
    X("count", table_text(t, count_mode_name[run->mode]))                                                    \
    X("layers", table_i64(t, run->layers))                                                                   \
    X("q_heads", table_i64(t, s->spec.heads.h_q))                                                            \
    X("kv_heads", table_i64(t, s->spec.heads.h_kv))                                                          \
    X("head_dim", table_i64(t, s->spec.heads.d))                                                             \
    X("dtype", table_text(t, heads_dtype_name(&s->spec.heads)))                                              \
    X("iterations", table_i64(t, sim_steps(s)))                                                              \
    X("generated_len", table_i64_if(t, whole, whole ? trace_generated(s->trace) : 0))                        \
    X("KV_IO_bytes", table_i64_if(t, ran, l->kv *layers))                                                    \
    X("Mask_IO_bytes", table_i64_if(t, ran, l->mask *layers))                                                \
    X("QK_IO_bytes", table_i64_if(t, ran, (l->qk_write + l->qk_read) * layers))                              \
    X("QK_scale_IO_bytes", table_i64_if(t, ran, (l->scaled_write + l->scaled_read) * layers))                \
    X("QK_scale_masked_IO_bytes", table_i64_if(t, ran, (l->masked_write + l->masked_read) * layers))         \
    X("SoftMax_IO_bytes", table_i64_if(t, ran, (l->softmax_write + l->softmax_read) * layers))               \
    X("QO_IO_bytes", table_i64_if(t, ran && run->mode != COUNT_PAPER, (l->q + l->out) * layers))             \
    X("partial_IO_bytes", table_i64_if(t, all, ledger_partials(l) * layers))                                 \
    X("mac_useful", table_i64_if(t, all, l->mac_useful *layers))                                             \
    X("mac_masked", table_i64_if(t, all, l->mac_masked *layers))                                             \
    X("mac_padded", table_i64_if(t, all, l->mac_padded *layers))                                             \
    X("pad_rows", table_i64_if(t, all, l->pad_rows *layers))                                                 \
    X("pad_tokens", table_i64_if(t, all, l->pad_tokens *layers))                                             \
    X("groups", table_i64_if(t, ran, r->groups))                                                             \
    X("launches", table_i64_if(t, all, l->launches))                                                         \
    X("why", table_text(t, r->why))

/* X(column, how it is printed of machine m). */
#define TIMED(X)                                                                                             \
    X("machine", table_text(t, m->text))                                                                     \
    X("coefficients", table_text(t, run->coefficients))                                                      \
    X("built_in", table_text(t, strcmp(run->coefficients, COEFS_BUILT_IN) == 0 ? "all" : m->rest))           \
    X("latency_ms", table_f64_if(t, ran, x->latency_s *ms, 6))                                               \
    X("overhead_ms", table_f64_if(t, ran, x->overhead_s *ms, 6))                                             \
    X("launch_ms", table_f64_if(t, ran, x->launch_s *ms, 6))                                                 \
    X("attention_ms", table_f64_if(t, ran, x->attention_s *ms, 6))                                           \
    X("merge_ms", table_f64_if(t, ran, x->merge_s *ms, 6))                                                   \
    X("dram_bytes", table_f64_if(t, ran, x->dram_bytes *(double)layers, 6))                                  \
    X("bandwidth_use", table_f64_if(t, busy, x->bandwidth_use / x->kernel_s, 6))                             \
    X("l2_use", table_f64_if(t, busy, x->l2_use / x->kernel_s, 6))                                           \
    X("tensor_use", table_f64_if(t, busy, x->tensor_use / x->kernel_s, 6))                                   \
    X("sm_use", table_f64_if(t, busy, x->sm_use / x->kernel_s, 6))                                           \
    X("slot_use", table_f64_if(t, busy, x->slot_use / x->kernel_s, 6))                                       \
    X("low_share", table_f64_if(t, ran && x->attention_s > 0, x->low_share / x->attention_s, 6))             \
    X("ctas", table_f64_if(t, ran, x->ctas *(double)layers, 6))                                              \
    X("fitted_ms", table_f64_if(t, ran && run->model, x->fitted_s * ms, 6))

#define NAME(column, print) column,
#define PRINT(column, print) print;

static void print_counts(struct printer *t, const struct sim_run *run, const struct sim_source *s,
                         const char *name, const struct simulated_row *r)
{
    const struct ledger *l = &r->moved;
    int64_t layers = sim_multiplier(run), prompt = s->trace ? trace_prompt(s->trace) : 0;
    bool ran = r->skipped_at == 0, all = ran && run->mode == COUNT_TRUE;
    bool whole = s->trace && run->src->step == 0;
    char *text = s->trace ? xstrdup(s->src.text) : tree_source_print(&s->src);
    if (s->spec.window > 0) /* as a case string has it */
        xappend(&text, ";window=%" PRId64, s->spec.window);
    COUNTED(PRINT)
    free(text);
}

static void print_times(struct printer *t, const struct sim_run *run, const struct sim_machine *m,
                        const struct simulated_row *r)
{
    const struct simulated_times *x = &r->time;
    int64_t layers = sim_multiplier(run);
    bool ran = r->skipped_at == 0, busy = ran && x->kernel_s > 0;
    double ms = 1e3 * (double)layers;
    TIMED(PRINT)
}

void sim_print_rows(const struct sim_run *run, FILE *f, enum style style)
{
    static const char *const counted[] = {COUNTED(NAME) NULL}, *const timed[] = {COUNTED(NAME) TIMED(NAME)
                                                                                     NULL};
    struct printer t = {.f = f, .style = style, .column = run->timed ? timed : counted};
    for (int64_t k = 0; k < run->n_sources; k++)
        for (int32_t m = 0; m < run->n_machines; m++)
            for (int32_t i = 0; i < run->n_use; i++) {
                const struct simulated_row *r = &sim_rows(run, k, m)[i];
                char *name = strategy_label(&run->use[i]);
                print_counts(&t, run, &run->source[k], name, r);
                if (run->timed)
                    print_times(&t, run, &run->machine[m], r);
                free(name);
            }
    table_end(&t);
}
