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
#include <stdlib.h>

/* A product's queries are padded to the tensor cores' tile. The library's products reach these shares of a data sheet's tensor peak and
 * bandwidth in steps of 8 to 256 queries on an H200: fitted, with machines.def's kernel_ns, to run `fitted` of
 * paper-figs/measured/h200_cards.csv. Kernels between products are short; what share they reach does not matter. */
enum { PRODUCT_ROWS = 16 };
static const double tensor_share = 0.70, bandwidth_share = 0.87;

static double kernel_s(const struct replay_machine *m, double bytes, double ops)
{
    double memory = bytes / (m->mc->bandwidth * bandwidth_share);
    double compute = ops / (m->mc->tensor_flops * tensor_share);
    return fmax(memory, compute) + 1e-9 * (m->mc->launch_ns + m->mc->kernel_ns);
}

/* What one of the cards has of the model. */
static struct decoder_spec card_of(const struct replay_machine *m)
{
    return (struct decoder_spec){.model = m->model,
                                 .dtype = m->heads.dtype,
                                 .n_cards = m->n_cards,
                                 .parallel = m->parallel,
                                 .alone = m->alone,
                                 .rank = m->rank,
                                 .card = m->n_cards > 1};
}

/* Nothing for a card alone, which tells nobody. */
static double hops_s(const struct replay_machine *m, int32_t hops, double bytes)
{
    return m->alone ? 0 : 1e-9 * (m->mc->link_ns + hops * m->mc->hop_ns) + hops * bytes / m->mc->link_bandwidth;
}

double replay_sum_s(const struct replay_machine *m, double bytes)
{
    return hops_s(m, 2 * (m->n_cards - 1), bytes / m->n_cards);
}

double replay_gather_s(const struct replay_machine *m, double bytes)
{
    return hops_s(m, m->n_cards - 1, bytes);
}

/* Weight w of one layer times n queries. */
static double product_s(const struct replay_machine *m, enum weight w, int64_t n)
{
    struct decoder_spec card = card_of(m);
    struct weight_part s = decoder_weight(&card, w);
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
    struct decoder_spec card = card_of(m);
    struct heads_part h = decoder_heads(&card);
    double hidden = x->hidden, qkv = (double)(h.n_q + 2 * h.n_kv) * x->d;
    double layer = 2 * pass_s(m, 3 * hidden, n)                     /* norms: read, residual, write */
                   + product_s(m, W_QKV, n) + pass_s(m, 2 * qkv, n) /* rotation, append */
                   + product_s(m, W_O, n) + product_s(m, W_GATE_UP, n) +
                   pass_s(m, 3.0 * decoder_share(&card, x->ffn), n) /* SiLU, product */
                   + product_s(m, W_DOWN, n);
    if (m->n_cards > 1) /* the residual stream, in fp32, after O and after the MLP */
        layer += 2 * replay_sum_s(m, 4 * hidden * (double)n);
    return x->layers * layer + pass_s(m, 2 * hidden, n) /* embedding */
           + pass_s(m, 2 * hidden, n)                   /* last norm */
           + product_s(m, W_HEAD, n) + pass_s(m, decoder_share(&card, x->vocab), n) /* the best token */;
}

/* One kernel moves tokens of all layers: read and written. */
static double moves_s(const struct replay_machine *m, int64_t moves)
{
    double token = (double)model_kv_bytes(m->model, m->heads.dtype);
    return moves > 0 ? kernel_s(m, 2 * token * (double)moves, 0) : 0;
}

/* One layer's attention on a card that plans such a tree. */
static bool card_s(const struct replay_machine *m, const struct strategy_use *use, const struct tree *t,
                   double *s, struct err *e)
{
    struct decoder_spec card = card_of(m);
    struct plan_env env = m->env;
    char why[WHY_MAX];
    env.heads.h_q = decoder_heads(&card).n_q;
    env.heads.h_kv = decoder_heads(&card).n_kv;
    struct nform *nf = nform_new(t);
    struct plan *plan = strategy_plan(use, nf, &env, why);
    if (plan) {
        struct time_model c = time_model_plan(plan, &env.heads, m->mc, &m->coefs, 0, CLOCK_TOTALS);
        *s = fmax(*s, c.latency_s);
        time_model_free(&c);
    }
    plan_free(plan);
    nform_free(nf);
    return plan ? true : err_missing(e, "a card: %.200s", why);
}

/* The same of the slowest card that is there, with what cards tell each other. */
static bool cards_s(const struct replay_machine *m, const struct step *x, double *s, struct err *e)
{
    const struct tree *t = x->tree;
    *s = 0;
    if (m->parallel == PARALLEL_TENSOR)
        return card_s(m, x->use, t, s, e);
    bool good = true;
    for (int32_t c = m->rank; c < (m->alone ? m->rank + 1 : m->n_cards) && good; c++)
        good = card_s(m, x->use, x->view[c].tree, s, e);
    double row = (double)m->heads.d * heads_elt_bytes(&m->heads) + 4,
           part = (double)t->n_queries * m->heads.h_q * row; /* O and LSE */
    *s += replay_gather_s(m, part) + kernel_s(m, part, 0);
    return good;
}

static bool run_step(void *self, const struct step *s, struct step_times *out, struct err *e)
{
    const struct replay_machine *m = self;
    double attention_s = 0;
    if (m->n_cards > 1) {
        if (!cards_s(m, s, &attention_s, e))
            return false;
    } else {
        struct time_model c = time_model_plan(s->plan, &m->heads, m->mc, &m->coefs, 0, CLOCK_TOTALS);
        attention_s = c.latency_s;
        time_model_free(&c);
    }
    *out = (struct step_times){
        .attention_s = attention_s * m->model->layers,
        .other_s = replay_other_s(m, s->tree->n_queries),
        .moves_s = moves_s(m, s->moved.n_moves),
        .idle_s = NAN,
        .host_s = NAN,
        .error = NAN,
    };
    out->step_s = out->attention_s + out->other_s + out->moves_s;
    return true;
}

struct executor replay_on_machine(struct replay_machine *m)
{
    struct decoder_spec cards = card_of(m);
    char name[DECODER_CARDS_NAME];
    snprintf(m->name, sizeof m->name, "%s, simulated", decoder_cards_name(&cards, m->mc->name, name));
    return (struct executor){.name = m->name, .self = m, .run = run_step};
}
