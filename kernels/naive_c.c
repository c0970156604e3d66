/*
 * naive_c.c - the same plans by the shortest road: a query at a time, no tiles, no online softmax, no library.
 *
 * For each (query, head) of a group: all logits, their maximum, the sum, the weighted V; then the slot or the
 * output; then the merge steps. Everything in double whatever the problem's type; O in a slot
 * is rounded to the slot's format. It is what one reads before the tiled kernel, and a second opinion on it:
 * a fault of a plan shows in both, a fault of a kernel in one. Scores of an unfused plan are not stored,
 * nothing is counted.
 */
#include "kernels/kernel.h"

#include <math.h>
#include <stdlib.h>

/* What a slot holds of one row, and what a merge step makes of several: O is o / sum, LSE is max + ln sum. */
struct row {
    double max, sum;
    double o[PROBLEM_MAX_ROW];
};

struct naive {
    const struct problem *p;
    const struct plan *plan;
    struct output *out;
    double *slot; /* [n_slots][h_q][2 + d_v]: maximum, sum, O */
};

static const struct row empty_row = {.max = -INFINITY};

static double *slot_row(const struct naive *n, int64_t slot, int32_t head)
{
    return n->slot + (slot * n->p->heads.h_q + head) * (2 + heads_d_v(&n->p->heads));
}

/* One more token, o += e^(logit - max) v with max known; or a whole partial, weighted by its own maximum. */
static void row_add(struct row *to, double max, double sum, const double *o, int32_t d)
{
    double factor = exp(max - to->max);
    to->sum += factor * sum;
    for (int32_t i = 0; i < d; i++)
        to->o[i] += factor * o[i];
}

static void row_normalise(struct row *x, int32_t d)
{
    if (x->sum == 0)
        return; /* empty: O = 0, LSE = -inf */
    for (int32_t i = 0; i < d; i++)
        x->o[i] /= x->sum;
    x->max += log(x->sum);
    x->sum = 1;
}

/* The sink of a query head: one more token, whose V is 0. */
static void row_add_sink(const struct problem *p, struct row *x, int32_t head)
{
    static const double no_v[PROBLEM_MAX_ROW] = {0};
    double sink = problem_sink(p, head);
    struct row with = {.max = sink > x->max ? sink : x->max};
    if (sink == -INFINITY)
        return;
    if (x->sum != 0)
        row_add(&with, x->max, x->sum, x->o, heads_d_v(&p->heads));
    row_add(&with, sink, 1, no_v, heads_d_v(&p->heads));
    *x = with;
}

/* What the slot's format keeps of a row. */
static double slot_round(const struct naive *n, enum dtype t, double x)
{
    if (n->p->heads.dtype == DT_F64)
        return x;
    return t == DT_F16 ? f16_to_double(f16_from_double(x)) : (double)(float)x;
}

static void row_store(const struct naive *n, struct row *x, int64_t slot, bool onchip, int32_t query,
                      int32_t head)
{
    const struct problem *p = n->p;
    int32_t d_v = heads_d_v(&p->heads);
    if (slot == PLAN_NO_SLOT) {
        int64_t row = (int64_t)n->plan->nf->orig[query] * p->heads.h_q + head;
        row_add_sink(p, x, head);
        row_normalise(x, d_v);
        for (int32_t i = 0; i < d_v; i++)
            dtype_store(p->heads.dtype, n->out->o, row * d_v + i, x->o[i]);
        output_set_lse(n->out, row, x->max);
        return;
    }
    if (n->plan->slot_weight == SLOT_LSE && !onchip)
        row_normalise(x, d_v);
    double *to = slot_row(n, slot, head);
    enum dtype slot_o = n->plan->slot_o == SLOT_O_F16 ? DT_F16 : DT_F32;
    *to++ = x->max; /* a double, as in the tiled kernel: see attn_body.h */
    *to++ = x->sum;
    for (int32_t i = 0; i < d_v; i++)
        *to++ = onchip ? x->o[i] : slot_round(n, slot_o, x->o[i]);
}

/* One token's K or V of one KV head, or false if the page table points outside the pool. */
static bool load_token(const struct problem *p, bool of_k, int32_t node, int64_t j, int32_t kv_head,
                       double *to, struct err *e)
{
    if (problem_page(p, node, j / p->page_size, e) < 0)
        return false;
    (of_k ? problem_k_row : problem_v_row)(p, problem_slot(p, node, j), kv_head, to);
    return true;
}

/* Buffers of a thread: the heads that share a KV head are attended together, as a token is loaded for all. */
struct scratch {
    double *q;     /* [h_q / h_kv][d] */
    double *logit; /* [h_q / h_kv][n_kv] */
    struct row *x; /* [h_q / h_kv] */
};

/* The rows of a group's k-th query that share a KV head: logits, -inf where masked, then their softmax. */
static bool attend(const struct naive *n, const struct group *g, int32_t k, int32_t kv_head,
                   struct scratch *s, struct err *e)
{
    const struct problem *p = n->p;
    int32_t heads = heads_gqa(&p->heads);
    double kv[PROBLEM_MAX_ROW];
    int64_t row0 =
        (int64_t)n->plan->nf->orig[plan_query(n->plan, g, k)] * p->heads.h_q + (int64_t)kv_head * heads;
    dtype_to_double(p->heads.dtype, p->q, row0 * p->heads.d, s->q, (int64_t)heads * p->heads.d);
    for (int32_t h = 0; h < heads; h++)
        s->x[h] = empty_row;
    int64_t t = 0;
    for (int64_t r = g->run0; r < g->run1; r++) {
        struct run run = plan_tree_run(n->plan, &n->plan->run[r]);
        bool visible = plan_visible(n->plan, g, k, r - g->run0);
        for (int64_t j = run.begin; j < run.end; j++, t++) {
            if (!load_token(p, true, run.node, j, kv_head, kv, e))
                return false;
            for (int32_t h = 0; h < heads; h++) {
                double dot = 0, *logit = &s->logit[h * g->n_kv + t], *max = &s->x[h].max;
                const double *q = s->q + (int64_t)h * p->heads.d;
#pragma omp simd reduction(+ : dot)
                for (int32_t i = 0; i < p->heads.d; i++)
                    dot += q[i] * kv[i];
                *logit = visible ? problem_logit(p, dot) : -INFINITY;
                *max = *logit > *max || isnan(*logit) ? *logit : *max;
            }
        }
    }
    t = 0;
    for (int64_t r = g->run0; r < g->run1; r++) {
        struct run run = plan_tree_run(n->plan, &n->plan->run[r]);
        if (!plan_visible(n->plan, g, k, r - g->run0)) {
            t += run.end - run.begin;
            continue;
        }
        for (int64_t j = run.begin; j < run.end; j++, t++) {
            if (!load_token(p, false, run.node, j, kv_head, kv, e))
                return false;
            for (int32_t h = 0; h < heads; h++)
                if (s->logit[h * g->n_kv + t] != -INFINITY)
                    row_add(&s->x[h], s->logit[h * g->n_kv + t], 1, kv, heads_d_v(&p->heads));
        }
    }
    return true;
}

static bool run_group(const struct naive *n, const struct group *g, const uint8_t *onchip, struct err *e)
{
    const struct problem *p = n->p;
    int32_t heads = heads_gqa(&p->heads);
    int64_t n_items = (int64_t)g->nq * p->heads.h_kv;
    bool good = true, worth_it = n_items * heads * g->n_kv * p->heads.d >
                                 1 << 20; /* starting threads costs microseconds */
#pragma omp parallel if (worth_it)
    {
        struct scratch s = {.q = xaligned((size_t)heads * (size_t)p->heads.d, sizeof *s.q),
                            .logit = xaligned((size_t)heads * (size_t)g->n_kv, sizeof *s.logit),
                            .x = xaligned((size_t)heads, sizeof *s.x)};
#pragma omp for
        for (int64_t i = 0; i < n_items; i++) {
            int32_t k = (int32_t)(i / p->heads.h_kv), kv_head = (int32_t)(i % p->heads.h_kv);
            int64_t slot = g->slot0 == PLAN_NO_SLOT ? PLAN_NO_SLOT : g->slot0 + k;
            struct err mine = {0};
            if (attend(n, g, k, kv_head, &s, &mine)) {
                for (int32_t h = 0; h < heads; h++)
                    row_store(n, &s.x[h], slot, slot != PLAN_NO_SLOT && onchip[slot],
                              plan_query(n->plan, g, k), kv_head * heads + h);
                continue;
            }
#pragma omp critical(treeattn_naive_error)
            good = err_set(e, "%s", mine.msg);
        }
        free(s.q);
        free(s.logit);
        free(s.x);
    }
    return good;
}

static void run_merge(const struct naive *n, const struct merge_step *m, const uint8_t *onchip)
{
    for (int32_t head = 0; head < n->p->heads.h_q; head++) {
        struct row x = empty_row;
        for (int64_t i = m->in0; i < m->in1; i++) {
            double max = slot_row(n, n->plan->merge_in[i], head)[0];
            x.max = max > x.max || isnan(max) ? max : x.max;
        }
        for (int64_t i = m->in0; i < m->in1; i++) {
            const double *in = slot_row(n, n->plan->merge_in[i], head);
            if (in[1] != 0)
                row_add(&x, in[0], in[1], in + 2, heads_d_v(&n->p->heads));
        }
        row_store(n, &x, m->out, m->out != PLAN_NO_SLOT && onchip[m->out], m->query, head);
    }
}

static bool naive_run(const struct problem *p, const struct plan *plan, struct output *out,
                      struct ledger *counted, struct err *e)
{
    (void)counted;
    int64_t n_rows = plan->n_slots * p->heads.h_q, words = 2 + heads_d_v(&p->heads);
    struct naive n = {.p = p,
                      .plan = plan,
                      .out = out,
                      .slot = xaligned((size_t)n_rows, (size_t)words * sizeof *n.slot)};
    uint8_t *onchip = xcalloc((size_t)plan->n_slots, 1);
    bool good = true;
    for (int64_t i = 0; i < plan->n_merges; i++)
        if (plan->merge[i].onchip != PLAN_NO_SLOT)
            onchip[plan->merge[i].onchip] = 1;
    for (int64_t i = 0; i < n_rows; i++) /* a slot that is never written shows */
        n.slot[i * words] = n.slot[i * words + 1] = NAN;
    for (int32_t l = 0; l < plan->n_launches && good; l++) {
        for (int64_t i = 0; i < plan->n_groups && good; i++)
            if (plan->group[i].launch == l)
                good = run_group(&n, &plan->group[i], onchip, e);
        for (int64_t i = 0; i < plan->n_merges && good; i++)
            if (plan->merge[i].launch == l)
                run_merge(&n, &plan->merge[i], onchip);
    }
    free(onchip);
    free(n.slot);
    return good;
}

static bool naive_supports(const struct problem *p, const struct plan *plan, char *why)
{
    (void)p, (void)plan, (void)why;
    return true;
}

const struct kernel kernel_naive_c = {
    .name = "naive-c",
    .about = "one query at a time in plain loops and double precision; for reading and for a second opinion; "
             "counts nothing",
    .features = 1 << FEATURE_SOFT_CAP | 1 << FEATURE_SINKS | 1 << FEATURE_WINDOW | FEATURES_FP8 |
                1 << FEATURE_LATENT | 1 << FEATURE_NARROW_V,
    .sum_run = 1, /* in double: as if it added one by one without an error */
    .merges_at_once = true,
    .supports = naive_supports,
    .run = naive_run,
};
