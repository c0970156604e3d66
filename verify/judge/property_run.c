/*
 * property_run.c - problems rebuilt from others, kernels run on them, bounds from the data, outputs held to others.
 */
#include "verify/judge/property_run.h"
#include "ref/rng.h"
#include "verify/io/crash.h"
#include "verify/judge/arithmetic.h"
#include "verify/judge/run_plan.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- changed problems ---------------------------------------------------------------------------------- */

/* One token's K or V, all heads; one query's Q, all heads. */
static int64_t token_bytes(const struct problem *p)
{
    return (int64_t)p->heads.h_kv * p->heads.d * heads_elt_bytes(&p->heads);
}

static int64_t query_bytes(const struct problem *p)
{
    return (int64_t)p->heads.h_q * p->heads.d * heads_elt_bytes(&p->heads);
}

/* Normal form cuts nodes at every query, so a piece is seen as a whole or not at all. */
bool walk_next(struct walk *w)
{
    const struct nform *nf = w->nf;
    while (w->piece < nf->n_nodes && (nf->q0[w->piece] == nf->q1[w->piece] || w->next == nf->len[w->piece])) {
        w->piece++;
        w->next = 0;
    }
    if (w->piece == nf->n_nodes)
        return false;
    w->node = nf->src[w->piece];
    w->token = nf->off[w->piece] + w->next++;
    return true;
}

struct problem *property_problem(const struct property_case *c, const struct tree *t, const int32_t *node,
                                 const int64_t *off, const int32_t *query)
{
    const struct problem *p = c->p;
    struct problem_spec spec = {.heads = p->heads,
                                .page_size = p->page_size,
                                .scattered = true,
                                .poison = true,
                                .seed = rng_mix(c->seed)};
    struct problem *x = problem_new(t, &spec, NULL);
    CK(x != NULL); /* the spec of a problem that exists, about as many tokens */
    struct nform *nf = nform_new(t);
    int64_t size = token_bytes(p);
    for (struct walk w = {.nf = nf}; walk_next(&w);) {
        int64_t to = problem_slot(x, w.node, w.token) * size;
        int64_t from =
            problem_slot(p, node ? node[w.node] : w.node, w.token + (off ? off[w.node] : 0)) * size;
        memcpy((char *)x->k + to, (const char *)p->k + from, (size_t)size);
        memcpy((char *)x->v + to, (const char *)p->v + from, (size_t)size);
    }
    nform_free(nf);
    size = query_bytes(p);
    for (int64_t q = 0; q < t->n_queries; q++)
        memcpy((char *)x->q + q * size, (const char *)p->q + (query ? query[q] : q) * size, (size_t)size);
    return x;
}

/* ---- running ------------------------------------------------------------------------------------------- */

void property_run_free(struct property_run *t)
{
    free(t->o);
    free(t->bound_o);
    free(t->lse);
    free(t->bound_lse);
}

/* Along the path to each piece, per KV head: the largest norm of a key, the largest |v| of each element.
 * norm[n_nodes][h_kv], top[n_nodes][h_kv][d]. */
static void path_extremes(const struct problem *p, const struct nform *nf, double *norm, double *top)
{
    int32_t d = p->heads.d, h_kv = p->heads.h_kv;
    for (struct walk w = {.nf = nf}; walk_next(&w);)
        for (int64_t h = 0; h < h_kv; h++) {
            int64_t at = (problem_slot(p, w.node, w.token) * h_kv + h) * d, piece = w.piece * h_kv + h;
            double sum = 0;
            for (int32_t e = 0; e < d; e++) {
                double k = dtype_load(p->heads.dtype, p->k, at + e),
                       v = fabs(dtype_load(p->heads.dtype, p->v, at + e));
                sum += k * k;
                top[piece * d + e] = fmax(top[piece * d + e], v);
            }
            norm[piece] = fmax(norm[piece], sqrt(sum));
        }
    for (int32_t i = 0; i < nf->n_nodes; i++) { /* parents come first */
        int64_t up = nf->parent[i];
        for (int64_t x = 0; up >= 0 && x < h_kv; x++)
            norm[i * h_kv + x] = fmax(norm[i * h_kv + x], norm[up * h_kv + x]);
        for (int64_t x = 0; up >= 0 && x < h_kv * d; x++)
            top[(int64_t)i * h_kv * d + x] = fmax(top[(int64_t)i * h_kv * d + x], top[up * h_kv * d + x]);
    }
}

/*
 * The bounds of all rows. The comparator wants a row's largest scale * sum |q_i k_i|, which is at most
 * scale |q| |k|; its |logit|, which is at most that; |lse| <= |logit| + log ctx; and sum_j p_j |v_j| <= the
 * largest |v_j|. All of it is known from the data; from the output itself comes only how it was rounded when
 * it was stored.
 */
static void set_bounds(struct property_run *t, const struct problem *p, const struct plan *plan,
                       const struct kernel *k)
{
    const struct nform *nf = plan->nf;
    int32_t d = p->heads.d, g = heads_gqa(&p->heads);
    struct arithmetic a = arithmetic_of(p, plan, k);
    double *norm = xcalloc((size_t)nf->n_nodes * (size_t)p->heads.h_kv, sizeof *norm);
    double *top = xcalloc((size_t)nf->n_nodes * (size_t)p->heads.h_kv * (size_t)d, sizeof *top);
    double *none = xcalloc((size_t)d, sizeof *none), *q = xaligned((size_t)d, sizeof *q);
    path_extremes(p, nf, norm, top);
    for (int32_t n = 0; n < nf->n_queries; n++)
        for (int32_t h = 0; h < p->heads.h_q; h++) {
            int64_t row = (int64_t)nf->orig[n] * p->heads.h_q + h,
                    at = (int64_t)nf->at[n] * p->heads.h_kv + h / g;
            bool blind = nf->at[n] < 0;
            double sum = 0, *abs_o = blind ? none : top + at * d;
            dtype_to_double(p->heads.dtype, p->q, row * d, q, d);
            for (int32_t e = 0; e < d; e++)
                sum += q[e] * q[e];
            int64_t ctx = nform_context(nf, n);
            double dot = blind ? 0 : p->scale * sqrt(sum) * norm[at], lse = dot + log(1 + (double)ctx);
            struct oracle report = {.n_rows = 1,
                                    .d = d,
                                    .o = t->o + row * d,
                                    .lse = &lse,
                                    .abs_o = abs_o,
                                    .logit = &dot,
                                    .abs_dot = &dot,
                                    .ctx = &ctx};
            t->bound_lse[row] = compare_bound(p, &report, &a, 0, t->bound_o + row * d);
        }
    free(norm);
    free(top);
    free(none);
    free(q);
}

static void take_output(struct property_run *t, const struct output *out)
{
    int64_t n = out->n_rows, d = out->d;
    *t = (struct property_run){.d = out->d,
                               .o = xcalloc((size_t)(n * d), sizeof *t->o),
                               .bound_o = xcalloc((size_t)(n * d), sizeof *t->bound_o),
                               .lse = xcalloc((size_t)n, sizeof *t->lse),
                               .bound_lse = xcalloc((size_t)n, sizeof *t->bound_lse)};
    dtype_to_double(out->dtype, out->o, 0, t->o, n * d);
    for (int64_t row = 0; row < n; row++)
        t->lse[row] = output_lse(out, row);
}

bool property_run_make(struct property_run *t, const struct property_case *c, const struct problem *p,
                       struct result *r)
{
    struct nform *nf = nform_new(p->tree);
    struct plan_env env = plan_env_default(p->heads);
    *t = (struct property_run){0};
    crash_planning(c->use.s->name, NULL);
    struct plan *plan = strategy_plan(&c->use, nf, &env, r->why);
    struct guarded inputs = guarded_inputs(p);
    r->ledger = (struct ledger){0}; /* of each run */
    struct output *out = plan ? run_plan(p, &inputs, plan, c->kernel, r) : NULL;
    if (!plan)
        r->verdict = V_SKIP;
    if (out) {
        take_output(t, out);
        set_bounds(t, p, plan, c->kernel);
    }
    bool good = out != NULL;
    output_free(out);
    plan_free(plan);
    nform_free(nf);
    return good;
}

/* ---- holding one output against another ---------------------------------------------------------------- */

static void hold(struct result *r, const struct property_case *c, int64_t row, int32_t col, double got,
                 double want, double bound)
{
    double ratio = got == want ? 0 : fabs(got - want) / bound;
    if (!(ratio <= DBL_MAX) || got == INFINITY || (col >= 0 && isinf(got))) /* NaN fails too */
        ratio = INFINITY;
    if (!(ratio > r->cmp.worst))
        return;
    r->cmp.worst = ratio;
    if (ratio <= 1)
        return;
    char where[32] = "LSE";
    if (col >= 0)
        snprintf(where, sizeof where, "O[%" PRId32 "]", col);
    snprintf(r->why, sizeof r->why,
             "query %" PRId64 " head %" PRId64 " %s is %.9g, expected %.9g: %.3g times the bound of %.3g",
             row / c->p->heads.h_q, row % c->p->heads.h_q, where, got, want, ratio, bound);
}

void property_hold_o(struct result *r, const struct property_case *c, const struct property_run *t,
                     int64_t row, const double *want_o, const double *slack_o)
{
    for (int32_t e = 0; e < t->d; e++)
        hold(r, c, row, e, t->o[row * t->d + e], want_o[e],
             t->bound_o[row * t->d + e] + (slack_o ? slack_o[e] : 0));
}

void property_hold_lse(struct result *r, const struct property_case *c, const struct property_run *t,
                       int64_t row, double want, double slack)
{
    hold(r, c, row, -1, t->lse[row], want, t->bound_lse[row] + slack);
}

void property_hold_query(struct result *r, const struct property_case *c, const struct property_run *t,
                         int64_t q, const struct property_run *want, int64_t q_want)
{
    for (int64_t h = 0; h < c->p->heads.h_q; h++) {
        int64_t row = q * c->p->heads.h_q + h, from = q_want * c->p->heads.h_q + h;
        property_hold_o(r, c, t, row, want->o + from * t->d, want->bound_o + from * t->d);
        property_hold_lse(r, c, t, row, want->lse[from], want->bound_lse[from]);
    }
}
