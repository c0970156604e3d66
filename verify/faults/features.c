/*
 * features.c - faults in what some models add to attention: the soft cap of logits, sinks, sliding windows, and K and V in 8 bits
 * with scales.
 *
 * Problems without the feature offer no place for them.
 */
#include "verify/faults/kinds.h"
#include "ref/tails.h"
#include "sim/strategy.h"

#include <math.h>
#include <stdlib.h>

/* ---- the soft cap ------------------------------------------------------------------------------------- */

static bool recap(const struct fault_case *fc, struct broken *b, double soft_cap)
{
    if (fc->problem->soft_cap == 0 || soft_cap == fc->problem->soft_cap || !fault_any_seen(fc))
        return false;
    fault_edit_problem(fc, b)->soft_cap = soft_cap;
    return true;
}

KIND(softcap_ignored, recap(fc, b, 0))
/* scale * cap * tanh(q.k / cap) is the soft cap scale * cap. */
KIND(softcap_before_scale, recap(fc, b, fc->problem->scale * fc->problem->soft_cap))
KIND(softcap_halved, recap(fc, b, fc->problem->soft_cap / 2))

/* ---- sinks: what the kernel is given ------------------------------------------------------------------- */

/* Every head gets the sink of head of(h). */
static bool resink(const struct fault_case *fc, struct broken *b,
                   int32_t (*of)(int32_t h, const struct heads *heads))
{
    const struct problem *p = fc->problem;
    bool differs = false;
    for (int32_t h = 0; h < p->heads.h_q && p->sink; h++)
        differs = differs || p->sink[of(h, &p->heads)] != p->sink[h];
    if (!differs || p->tree->n_queries == 0)
        return false;
    struct problem *e = fault_edit_problem(fc, b);
    for (int32_t h = 0; h < p->heads.h_q; h++)
        e->sink[h] = p->sink[of(h, &p->heads)];
    return true;
}

static int32_t next_head(int32_t h, const struct heads *heads)
{
    return (h + 1) % heads->h_q;
}

static int32_t its_kv_head(int32_t h, const struct heads *heads)
{
    return h / heads_gqa(heads);
}

KIND(sink_next_head, resink(fc, b, next_head))
KIND(sink_kv_head, resink(fc, b, its_kv_head))

bool plant_sink_ignored(const struct fault_case *fc, struct broken *b)
{
    if (!fc->problem->sink || fc->problem->tree->n_queries == 0)
        return false;
    struct problem *e = fault_edit_problem(fc, b);
    free(e->sink);
    e->sink = NULL;
    return true;
}

/* ---- sinks: what the kernel wrote ---------------------------------------------------------------------- */

/* O of a row times that; its LSE. */
static void rewrite(struct output *out, int64_t row, double times, double lse)
{
    for (int64_t c = row * out->d; c < (row + 1) * out->d; c++)
        dtype_store(out->dtype, out->o, c, times * dtype_load(out->dtype, out->o, c));
    output_set_lse(out, row, lse);
}

/* How many partial results, or outputs, of groups each query of the normal form has; the caller frees. */
static int32_t *count_parts(const struct plan *plan)
{
    int32_t *n = xcalloc((size_t)plan->nf->n_queries, sizeof *n);
    for (int64_t g = 0; g < plan->n_groups; g++)
        for (int32_t k = 0; k < plan->group[g].nq; k++)
            n[plan_query(plan, &plan->group[g], k)]++;
    return n;
}

/* Once in each partial result, as a kernel has it that ends every part as it ends the only one. */
bool plant_sink_per_partial(const struct fault_case *fc, struct broken *b)
{
    const struct problem *p = fc->problem;
    int32_t *parts = p->sink ? count_parts(fc->plan) : NULL;
    for (int32_t n = 0; n < fc->nf->n_queries && parts; n++)
        for (int32_t h = 0; h < p->heads.h_q && parts[n] > 1; h++) {
            int64_t row = (int64_t)fc->nf->orig[n] * p->heads.h_q + h;
            double lse = fc->oracle->lse[row], more = p->sink[h] + log(parts[n] - 1),
                   all = fmax(lse, more) + log1p(exp(-fabs(lse - more)));
            rewrite(fault_edit_output(fc, b), row, exp(lse - all), all);
        }
    free(parts);
    return b->output != NULL;
}

/* O is divided by the sum without the sink; LSE has it. */
bool plant_sink_not_in_o(const struct fault_case *fc, struct broken *b)
{
    const struct problem *p = fc->problem;
    for (int64_t row = 0; row < fc->oracle->n_rows && p->sink; row++) {
        double of_sink = exp(p->sink[row % p->heads.h_q] - fc->oracle->lse[row]);
        if (of_sink > 0.01 && of_sink < 0.99)
            rewrite(fault_edit_output(fc, b), row, 1 / (1 - of_sink), output_lse(fc->good, row));
    }
    return b->output != NULL;
}

/* A query that sees nothing still has its sink. */
bool plant_sink_lost_where_empty(const struct fault_case *fc, struct broken *b)
{
    const struct problem *p = fc->problem;
    for (int64_t row = 0; row < fc->oracle->n_rows && p->sink; row++)
        if (fc->oracle->ctx[row / p->heads.h_q] == 0)
            rewrite(fault_edit_output(fc, b), row, 1, -INFINITY);
    return b->output != NULL;
}

/* ---- other tokens -------------------------------------------------------------------------------------- */

/* Tokens of the path that ends with query q, windows or not. */
static int64_t path_tokens(const struct fault_case *fc, int32_t q)
{
    return fc->oracle->ctx[q] + tree_since(fc->problem->tree, q);
}

/* Does a token between those two positions of the path that ends with query `path` weigh for query q? */
static bool weighs(const struct fault_case *fc, int32_t q, int32_t path, int64_t one, int64_t other)
{
    const struct problem *p = fc->problem;
    int64_t n = path_tokens(fc, path), first = min_i64(one, other), end = max_i64(one, other);
    int64_t *slot = xcalloc((size_t)n + 1, sizeof *slot);
    bool found = false;
    problem_path_slots(p, path, n, slot);
    for (int64_t i = first; i < end && !found; i++)
        for (int32_t h = 0; h < p->heads.h_q && !found; h++)
            found = !(fault_weight(fc, q, h, slot[i]) < 1e-3); /* NaN of poison is seen, too */
    free(slot);
    return found;
}

/* What the kernel writes on that tree of the same nodes. The plan is a simple one: not the plan is wrong. */
static bool run_on(const struct fault_case *fc, struct broken *b, const struct tree *t)
{
    const struct problem *p = fc->problem;
    struct strategy_use plain;
    CK(strategy_parse("flash-attention", &plain, NULL));
    struct nform *nf = nform_new(t);
    struct plan_env env = plan_env_default(p->heads);
    char why[WHY_MAX];
    struct plan *plan = strategy_plan(&plain, nf, &env, why);
    if (plan) {
        struct problem moved = *p;
        struct ledger counted = {0};
        moved.tree = t;
        b->output = output_new(p);
        if (!fc->kernel->run(&moved, plan, b->output, &counted, NULL)) {
            output_free(b->output);
            b->output = NULL;
        }
    }
    plan_free(plan);
    nform_free(nf);
    return b->output != NULL;
}

/* Windows that begin `by` tokens later. */
static bool move_windows(const struct fault_case *fc, struct broken *b, int64_t by)
{
    const struct tree *own = fc->problem->tree;
    bool shows = false;
    if (!own->since)
        return false;
    struct tree *t = tree_copy(own);
    for (int32_t q = 0; q < t->n_queries; q++) {
        t->since[q] =
            max_i64(0, min_i64(t->since[q] + (t->since[q] > 0 || by < 0 ? by : 0), path_tokens(fc, q) - 1));
        shows = shows || weighs(fc, q, q, own->since[q], t->since[q]);
    }
    shows = shows && run_on(fc, b, t);
    tree_free(t);
    return shows;
}

KIND(window_ignored, move_windows(fc, b, -TREE_MAX_TOKENS))
KIND(window_early, move_windows(fc, b, -1))
KIND(window_late, move_windows(fc, b, 1))

/* ---- requests of several queries ------------------------------------------------------------------------ */

enum tail { TAIL_LATE, TAIL_WHOLE, TAIL_FIRST, TAIL_OTHER };

/* How many tokens of its request query q sees by that mistake. */
static int64_t tokens_of_tail(const struct tails *r, enum tail how, int32_t q, int64_t own, int64_t whole)
{
    int32_t mine = r->of[q], before = tails_before(r, q);
    int64_t n = how == TAIL_LATE    ? own + 1
                : how == TAIL_WHOLE ? whole
                : how == TAIL_FIRST ? before + 1
                : mine + 1 < r->n   ? whole - tails_len(r, mine + 1) + before + 1
                                    : own;
    return max_i64(0, min_i64(n, whole));
}

/* The query sees the first n tokens of the path of another; its window moves along. */
static void end_at(const struct fault_case *fc, struct tree *t, int32_t q, int32_t path, int64_t n)
{
    const struct tree *own = fc->problem->tree;
    int32_t node = own->query[path].node;
    int64_t begin = path_tokens(fc, path) - own->query[path].upto;
    while (n <= begin && own->parent[node] >= 0) {
        node = own->parent[node];
        begin -= own->len[node];
    }
    if (t->since)
        t->since[q] = own->since[q] > 0 ? max_i64(0, n - fc->oracle->ctx[q]) : 0;
    t->query[q] = (struct query){node, n - begin};
}

static bool move_tails(const struct fault_case *fc, struct broken *b, enum tail how)
{
    struct tree *t = tree_copy(fc->problem->tree);
    struct tails *r = tails_of(t);
    bool shows = false;
    for (int32_t q = 0; q < t->n_queries && r->n < t->n_queries; q++) {
        int32_t last = tails_last(r, r->of[q]);
        int64_t own = path_tokens(fc, q), whole = path_tokens(fc, last), n = tokens_of_tail(r, how, q, own, whole);
        if (n == own)
            continue;
        end_at(fc, t, q, last, n);
        shows = shows || weighs(fc, q, last, own, n);
    }
    tails_free(r);
    shows = shows && run_on(fc, b, t);
    tree_free(t);
    return shows;
}

KIND(tail_late, move_tails(fc, b, TAIL_LATE))
KIND(tail_whole, move_tails(fc, b, TAIL_WHOLE))
KIND(tail_top_left, move_tails(fc, b, TAIL_FIRST))
KIND(tail_of_next, move_tails(fc, b, TAIL_OTHER))

/* ---- K and V in 8 bits --------------------------------------------------------------------------------- */

/* The scales that the kernel takes for those of K and V of KV head h. */
typedef void rescaled(const struct problem *p, int32_t h, float *k, float *v);

static bool change_scales(const struct fault_case *fc, struct broken *b, rescaled *change)
{
    const struct problem *p = fc->problem;
    bool differs = false;
    if (!heads_fp8(&p->heads) || !fault_any_seen(fc))
        return false;
    struct problem *e = fault_edit_problem(fc, b);
    for (int32_t h = 0; h < p->heads.h_kv; h++) {
        change(p, h, &e->k_scale[h], &e->v_scale[h]);
        differs = differs || e->k_scale[h] != p->k_scale[h] || e->v_scale[h] != p->v_scale[h];
    }
    return differs;
}

static void exchanged(const struct problem *p, int32_t h, float *k, float *v)
{
    *k = p->v_scale[h];
    *v = p->k_scale[h];
}
static void k_ignored(const struct problem *p, int32_t h, float *k, float *v)
{
    (void)p, (void)h, (void)v;
    *k = 1;
}
static void k_twice(const struct problem *p, int32_t h, float *k, float *v)
{
    (void)v;
    *k = p->k_scale[h] * p->k_scale[h];
}
static void v_twice(const struct problem *p, int32_t h, float *k, float *v)
{
    (void)k;
    *v = p->v_scale[h] * p->v_scale[h];
}
static void k_of_next(const struct problem *p, int32_t h, float *k, float *v)
{
    (void)v;
    *k = p->k_scale[(h + 1) % p->heads.h_kv];
}
static void v_of_first(const struct problem *p, int32_t h, float *k, float *v)
{
    (void)h, (void)k;
    *v = p->v_scale[0];
}
/* A bias that is one more makes half of every number. */
static void halved(const struct problem *p, int32_t h, float *k, float *v)
{
    *k = p->k_scale[h] / 2;
    *v = p->v_scale[h] / 2;
}

KIND(kv_scales_exchanged, change_scales(fc, b, exchanged))
KIND(k_scale_ignored, change_scales(fc, b, k_ignored))
KIND(k_scale_twice, change_scales(fc, b, k_twice))
KIND(v_scale_twice, change_scales(fc, b, v_twice))
KIND(k_scale_next_head, change_scales(fc, b, k_of_next))
KIND(v_scale_of_head_0, change_scales(fc, b, v_of_first))
KIND(fp8_bias, change_scales(fc, b, halved))

bool plant_fp8_other_type(const struct fault_case *fc, struct broken *b)
{
    const struct heads *h = &fc->problem->heads;
    if (!heads_fp8(h) || !fault_any_seen(fc))
        return false;
    fault_edit_problem(fc, b)->heads.kv_fp8 = h->kv_fp8 == DT_E4M3 ? DT_E5M2 : DT_E4M3;
    return true;
}

/* An element of V as it is stored. */
static double stored_v(const struct problem *p, int64_t slot, int64_t in_slot)
{
    return dtype_load(heads_kv_dtype(&p->heads), p->v, slot * p->heads.h_kv * p->heads.d + in_slot);
}

/* In a column of V that has no other numbers, for there is no rounding that makes 0 of it. */
bool plant_fp8_flushed(const struct fault_case *fc, struct broken *b)
{
    const struct problem *p = fc->problem;
    const struct nform *nf = fc->nf;
    double least = p->heads.kv_fp8 == DT_E4M3 ? 0x1p-6 : 0x1p-14;
    for (int64_t x = 0; x < (int64_t)p->heads.h_kv * p->heads.d && heads_fp8(&p->heads); x++) {
        double most = 0;
        for (int32_t i = 0; i < nf->n_nodes; i++)
            for (int64_t j = 0; j < nf->len[i] && nf->q1[i] > nf->q0[i]; j++)
                most = fmax(most, fabs(stored_v(p, problem_slot(p, nf->src[i], nf->off[i] + j), x)));
        if (most == 0 || most >= least)
            continue;
        struct problem *e = fault_edit_problem(fc, b);
        for (int32_t i = 0; i < nf->n_nodes; i++)
            for (int64_t j = 0; j < nf->len[i] && nf->q1[i] > nf->q0[i]; j++)
                dtype_store(heads_kv_dtype(&p->heads), e->v,
                            problem_slot(p, nf->src[i], nf->off[i] + j) * p->heads.h_kv * p->heads.d + x, 0);
    }
    return b->problem != NULL;
}
