/*
 * features.c - faults in what some models add to attention: the soft cap of logits, sinks, sliding windows, V of fewer elements than
 * K, and K and V in 8 bits with scales.
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

/* The answer without sinks. Free with oracle_free. */
static struct oracle *without_sinks(const struct fault_case *fc)
{
    struct problem plain = *fc->problem;
    plain.sink = NULL;
    return oracle_new(&plain);
}

/* O of a row as it is there. Does that differ? */
static bool take_o(const struct fault_case *fc, struct broken *b, const struct oracle *plain, int64_t row)
{
    double sink = fc->problem->sink[row % fc->problem->heads.h_q];
    struct output *out = fault_edit_output(fc, b);
    for (int64_t c = row * out->d; c < (row + 1) * out->d; c++)
        dtype_store(out->dtype, out->o, c, plain->o[c]);
    return exp(sink - fc->oracle->lse[row]) > 0.01 && isfinite(plain->lse[row]);
}

/* O is divided by the sum without the sink; LSE has it. */
bool plant_sink_not_in_o(const struct fault_case *fc, struct broken *b)
{
    struct oracle *plain = fc->problem->sink ? without_sinks(fc) : NULL;
    bool shows = false;
    for (int64_t row = 0; row < fc->oracle->n_rows && plain; row++)
        shows = take_o(fc, b, plain, row) || shows;
    oracle_free(plain);
    return shows;
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

/* A sink that is added to one of the splits of a context is lost where that split is empty: in rows that have fewer than others. */
bool plant_sink_lost_in_empty_split(const struct fault_case *fc, struct broken *b)
{
    const struct problem *p = fc->problem;
    struct oracle *plain = p->sink ? without_sinks(fc) : NULL;
    int32_t *parts = count_parts(fc->plan), most = 0;
    bool shows = false;
    for (int32_t n = 0; n < fc->nf->n_queries; n++)
        most = parts[n] > most ? parts[n] : most;
    for (int32_t n = 0; n < fc->nf->n_queries && plain; n++)
        for (int32_t h = 0; h < p->heads.h_q && parts[n] > 0 && parts[n] < most; h++) {
            int64_t row = (int64_t)fc->nf->orig[n] * p->heads.h_q + h;
            shows = take_o(fc, b, plain, row) || shows;
            output_set_lse(b->output, row, plain->lse[row]);
        }
    free(parts);
    oracle_free(plain);
    return shows;
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

/* Tokens are counted as the nodes lie one behind the other, with what lies between two nodes of a path: the window holds fewer. */
bool plant_window_by_index(const struct fault_case *fc, struct broken *b)
{
    const struct tree *own = fc->problem->tree;
    int64_t window = 0;
    bool shows = false;
    for (int32_t q = 0; q < own->n_queries && own->since; q++)
        window = own->since[q] > 0 ? max_i64(window, fc->oracle->ctx[q]) : window;
    if (window == 0)
        return false;
    int64_t *first = xcalloc((size_t)own->n_nodes + 1, sizeof *first);
    int32_t *path = xcalloc((size_t)own->n_nodes, sizeof *path);
    for (int32_t i = 0; i < own->n_nodes; i++)
        first[i + 1] = first[i] + own->len[i];
    struct tree *t = tree_copy(own);
    for (int32_t q = 0; q < t->n_queries; q++) {
        const struct query *x = &own->query[q];
        int32_t n = tree_path(own->parent, x->node, path);
        int64_t end = first[x->node] + x->upto - window, out = 0; /* tokens of a lower index are out */
        for (int32_t i = 0; i < n; i++)
            out += max_i64(0, min_i64(end - first[path[i]], path[i] == x->node ? x->upto : own->len[path[i]]));
        t->since[q] = max_i64(0, min_i64(out, path_tokens(fc, q) - 1));
        shows = shows || weighs(fc, q, q, own->since[q], t->since[q]);
    }
    free(first);
    free(path);
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
static void of_last(const struct problem *p, int32_t h, float *k, float *v)
{
    (void)h;
    *k = p->k_scale[p->heads.h_kv - 1];
    *v = p->v_scale[p->heads.h_kv - 1];
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
KIND(kv_scales_of_last_head, change_scales(fc, b, of_last))
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

/* ---- V of fewer elements than K ------------------------------------------------------------------------- */

/* Is the answer to what was planted another one, by more than rounding? */
static bool differs(const struct fault_case *fc, const struct problem *e)
{
    struct oracle *orc = oracle_new(e);
    const struct oracle *own = fc->oracle;
    bool other = false;
    for (int64_t row = 0; row < own->n_rows && !other; row++) {
        double most = 0, off = 0;
        other = own->ctx[row / e->heads.h_q] > 0 && !(fabs(orc->lse[row] - own->lse[row]) < 0.05);
        for (int64_t c = row * own->d; c < (row + 1) * own->d; c++) {
            most = fmax(most, fabs(own->o[c]));
            off = fmax(off, fabs(orc->o[c] - own->o[c]));
            other = other || isnan(orc->o[c]);
        }
        other = other || off > 0.05 * most;
    }
    oracle_free(orc);
    return other;
}

static bool has_few(const struct fault_case *fc)
{
    const struct heads *h = &fc->problem->heads;
    return h->d_v > 0 && h->d_v < h->d && fault_any_seen(fc);
}

/* A copy whose V is an array of its own, which may be broken apart from K. NULL where the kernel has no such V. */
static struct problem *apart(const struct fault_case *fc, struct broken *b)
{
    if (!has_few(fc) || !(fc->kernel->features >> FEATURE_NARROW_V & 1))
        return NULL;
    struct problem *e = fault_edit_problem(fc, b);
    e->heads.v_apart = true;
    return e;
}

/* Element c of row i of a pool, which rows of K's length lie in, becomes number at(i, c) of `from`, whose rows have `width`. */
static void move_elements(const struct problem *e, void *to, int32_t n, const void *from, int32_t width,
                          int64_t (*at)(const struct heads *h, int64_t row, int32_t c))
{
    enum dtype t = heads_kv_dtype(&e->heads);
    int64_t rows = e->n_pages * e->page_size * e->heads.h_kv, d = e->heads.d;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t c = 0; c < n; c++) {
            int64_t x = at(&e->heads, i, c);
            bool inside = x / width < rows;
            dtype_store(t, to, i * d + c, inside ? dtype_load(t, from, x / width * d + x % width) : (double)NAN);
        }
}

static int64_t last_of_k(const struct heads *h, int64_t row, int32_t c)
{
    return row * h->d + h->d - h->d_v + c;
}
static int64_t next_of_v(const struct heads *h, int64_t row, int32_t c)
{
    return (row + h->h_kv) * h->d_v + c;
}
static int64_t in_rows_of_k(const struct heads *h, int64_t row, int32_t c)
{
    return row * h->d + c;
}
static int64_t in_rows_of_v(const struct heads *h, int64_t row, int32_t c)
{
    return row * h->d_v + c;
}

bool plant_v_last_of_k(const struct fault_case *fc, struct broken *b)
{
    struct problem *e = heads_v_in_k(&fc->problem->heads) ? apart(fc, b) : NULL;
    if (e)
        move_elements(e, e->v, e->heads.d_v, fc->problem->k, e->heads.d, last_of_k);
    return e && differs(fc, e);
}

bool plant_v_next_slot(const struct fault_case *fc, struct broken *b)
{
    struct problem *e = apart(fc, b);
    if (e)
        move_elements(e, e->v, e->heads.d_v, fc->problem->v, e->heads.d_v, next_of_v);
    return e && differs(fc, e);
}

bool plant_v_rows_as_k(const struct fault_case *fc, struct broken *b)
{
    struct problem *e = !heads_v_in_k(&fc->problem->heads) ? apart(fc, b) : NULL;
    if (e)
        move_elements(e, e->v, e->heads.d_v, fc->problem->v, e->heads.d_v, in_rows_of_k);
    return e && differs(fc, e);
}

bool plant_k_rows_as_v(const struct fault_case *fc, struct broken *b)
{
    struct problem *e = apart(fc, b);
    if (e)
        move_elements(e, e->k, e->heads.d, fc->problem->k, e->heads.d, in_rows_of_v);
    return e && differs(fc, e);
}

bool plant_scale_of_v(const struct fault_case *fc, struct broken *b)
{
    if (!has_few(fc))
        return false;
    struct problem *e = fault_edit_problem(fc, b);
    e->scale = 1 / sqrt(e->heads.d_v);
    return differs(fc, e);
}

bool plant_k_beyond_v_ignored(const struct fault_case *fc, struct broken *b)
{
    if (!has_few(fc))
        return false;
    struct problem *e = fault_edit_problem(fc, b);
    int64_t n = (int64_t)e->tree->n_queries * e->heads.h_q * e->heads.d;
    for (int64_t i = 0; i < n; i++)
        if (i % e->heads.d >= e->heads.d_v)
            dtype_store(e->heads.dtype, e->q, i, 0);
    return differs(fc, e);
}
