/*
 * on_machine.c - a decode step on the model of a machine.
 *
 * Attention is the time model's (sim/time/time_model.h), as `treeattn sim` has it. The rest is a list of
 * kernels, fused as serving engines do. Norms include the residual before them, rotation the append to the
 * cache, SiLU the product of gate and up. The O and down products add the residual.
 */
#include "verify/replay/on_machine.h"

#include <math.h>
#include <stdio.h>

/* A product's queries are padded to the tensor cores' tile; a library reaches this share of the tensor peak where
 * bandwidth does not limit it (792 of 989 TFLOP/s measured on an H200, machines.def). */
enum { PRODUCT_ROWS = 16 };
static const double product_share = 0.8;

static double kernel_s(const struct replay_machine *m, double bytes, double ops)
{
    double memory = bytes / (m->mc->bandwidth * m->coefs.bandwidth);
    double compute = ops / (m->mc->tensor_flops * product_share);
    return fmax(memory, compute) + m->coefs.launch * m->mc->launch_ns * 1e-9;
}

/* Weight w of one layer times n queries. */
static double product_s(const struct replay_machine *m, enum weight w, int64_t n)
{
    struct weight_spec s = model_weight(m->model, w);
    double rows = (double)s.rows, cols = (double)s.cols, queries = (double)n;
    double padded = (double)(ceil_div(n, PRODUCT_ROWS) * PRODUCT_ROWS);
    return kernel_s(m, (rows * cols + queries * (rows + cols)) * heads_elt_bytes(&m->heads),
                    2 * rows * cols * padded);
}

/* A kernel that reads and writes so many elements per query. */
static double pass_s(const struct replay_machine *m, double elements, int64_t n)
{
    return kernel_s(m, elements * (double)n * heads_elt_bytes(&m->heads), 0);
}

double replay_other_s(const struct replay_machine *m, int64_t n)
{
    const struct model *x = m->model;
    double hidden = x->hidden, qkv = (double)(x->h_q + 2 * x->h_kv) * x->d;
    double layer = 2 * pass_s(m, 3 * hidden, n)                     /* norms: read, residual, write */
                   + product_s(m, W_QKV, n) + pass_s(m, 2 * qkv, n) /* rotation, append */
                   + product_s(m, W_O, n) + product_s(m, W_GATE_UP, n) +
                   pass_s(m, 3.0 * x->ffn, n) /* SiLU, product */
                   + product_s(m, W_DOWN, n);
    return x->layers * layer + pass_s(m, 2 * hidden, n) /* embedding */
           + pass_s(m, 2 * hidden, n)                   /* last norm */
           + product_s(m, W_HEAD, n) + pass_s(m, x->vocab, n) /* the best token */;
}

/* One kernel moves tokens of all layers: read and written. */
static double moves_s(const struct replay_machine *m, int64_t moves)
{
    double token = (double)model_kv_bytes(m->model, m->heads.dtype);
    return moves > 0 ? kernel_s(m, 2 * token * (double)moves, 0) : 0;
}

static bool run_step(void *self, const struct step *s, struct step_times *out, struct err *e)
{
    (void)e;
    const struct replay_machine *m = self;
    struct time_model c = time_model_plan(s->plan, &m->heads, m->mc, &m->coefs, 0, CLOCK_TOTALS);
    *out = (struct step_times){
        .attention_s = c.latency_s * m->model->layers,
        .other_s = replay_other_s(m, s->tree->n_queries),
        .moves_s = moves_s(m, s->moved.n_moves),
        .idle_s = NAN,
        .host_s = NAN,
        .error = NAN,
    };
    out->step_s = out->attention_s + out->other_s + out->moves_s;
    time_model_free(&c);
    return true;
}

struct executor replay_on_machine(struct replay_machine *m)
{
    snprintf(m->name, sizeof m->name, "%s, simulated", m->mc->name);
    return (struct executor){.name = m->name, .self = m, .run = run_step};
}
