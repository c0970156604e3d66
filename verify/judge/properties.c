/*
 * properties.c - a problem and a changed one, the same strategy and kernel, one output against the other.
 *
 * Changed problems have pages of their own: scattered, and poisoned where nobody may read. That storage does not matter
 * is thereby part of every property.
 */
#include "verify/judge/properties.h"
#include "ref/lse.h"
#include "ref/rng.h"
#include "verify/io/crash.h"
#include "verify/judge/judge.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What came out of one run, and how far each number may be from the exact answer. */
struct run_of {
    double *o, *bound_o;     /* [n_rows][d] */
    double *lse, *bound_lse; /* [n_rows] */
};

/* One property under way, and what is freed when it ends. */
struct law {
    const struct property_case *c;
    const struct problem *p; /* of c */
    const struct nform *nf;  /* of its tree */
    struct result *r;
    struct problem *made[3];
    struct run_of run[3];
    int32_t n_made, n_runs;
};

/* Streams of what the properties draw. */
enum { DRAW_V, DRAW_KEYS, DRAW_BATCH, DRAW_CUT, DRAW_SPLIT, DRAW_SHIFT, DRAW_TWIN };

static int64_t draw(const struct law *l, uint64_t stream, int64_t index, int64_t n)
{
    return rng_below(l->c->seed, stream, (uint64_t)index, n);
}

/* ---- changed problems ---------------------------------------------------------------------------------- */

/* Walk over the tokens that some query sees: zero-initialise but for nf, then while (walk_next(&w)). */
struct walk {
    const struct nform *nf;
    int32_t piece;
    int64_t next;  /* within the piece: one past the token */
    int32_t node;  /* of the tree */
    int64_t token; /* of the node */
};

/* Normal form cuts nodes at every query, so a piece is seen as a whole or not at all. */
static bool walk_next(struct walk *w)
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

/* The windows of l->p's queries on a tree where they have the same paths; its query q is query[q] of l->p (NULL: the same). */
static void keep_windows(const struct law *l, struct tree *t, const int32_t *query)
{
    const int64_t *since = l->p->tree->since;
    if (!since)
        return;
    t->since = xrealloc(t->since, (size_t)t->n_queries, sizeof *t->since);
    for (int32_t q = 0; q < t->n_queries; q++)
        t->since[q] = since[query ? query[q] : q];
}

/* A problem on tree t, which the caller keeps until the last run. Token j of its node i is token off[i] + j of node[i] of
 * l->p. Its query q is query[q] of l->p. Where an array is NULL, nothing changes. */
static struct problem *changed(struct law *l, const struct tree *t, const int32_t *node, const int64_t *off,
                               const int32_t *query)
{
    const struct problem *p = l->p;
    struct problem_spec spec = {.heads = p->heads,
                                .page_size = p->page_size,
                                .scattered = true,
                                .poison = true,
                                .seed = rng_mix(l->c->seed),
                                .scale = p->scale,
                                .soft_cap = p->soft_cap,
                                .sinks = p->sink != NULL};
    struct problem *x = problem_new(t, &spec, NULL);
    CK(x != NULL); /* the spec of a problem that exists, about as many tokens */
    struct nform *nf = nform_new(t);
    int64_t size = (int64_t)p->heads.h_kv * p->heads.d * heads_kv_bytes(&p->heads);
    for (struct walk w = {.nf = nf}; walk_next(&w);) {
        int64_t to = problem_slot(x, w.node, w.token) * size;
        int64_t from =
            problem_slot(p, node ? node[w.node] : w.node, w.token + (off ? off[w.node] : 0)) * size;
        memcpy((char *)x->k + to, (const char *)p->k + from, (size_t)size);
        memcpy((char *)x->v + to, (const char *)p->v + from, (size_t)size);
    }
    nform_free(nf);
    if (p->sink)
        memcpy(x->sink, p->sink, (size_t)p->heads.h_q * sizeof *x->sink);
    problem_copy_scales(x, p);
    size = (int64_t)p->heads.h_q * p->heads.d * heads_elt_bytes(&p->heads);
    for (int64_t q = 0; q < t->n_queries; q++)
        memcpy((char *)x->q + q * size, (const char *)p->q + (query ? query[q] : q) * size, (size_t)size);
    return l->made[l->n_made++] = x;
}

/* The problem itself, on pages of its own. */
static struct problem *copied(struct law *l)
{
    return changed(l, l->p->tree, NULL, NULL, NULL);
}

/* ---- running ------------------------------------------------------------------------------------------- */

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
                double k = problem_k(p, at + e), v = e < heads_d_v(&p->heads) ? fabs(problem_v(p, at + e)) : 0;
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
 * The bounds of all rows, of which some have a sink and count it as a token of V = 0. The comparator wants a row's largest scale * sum |q_i k_i|, which is at most
 * scale |q| |k|; its |logit|, which is at most that; |lse| <= |logit| + log ctx; and sum_j p_j |v_j| <= the
 * largest |v_j|. All of it is known from the data; from the output itself comes only how it was rounded when
 * it was stored.
 */
static void set_bounds(struct run_of *t, const struct problem *p, const struct plan *plan,
                       const struct kernel *k)
{
    const struct nform *nf = plan->nf;
    int32_t d = p->heads.d, d_v = heads_d_v(&p->heads), g = heads_gqa(&p->heads);
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
            if (p->sink)
                lse = fmax(lse, fabs(p->sink[h])) + M_LN2;
            struct oracle report = {.n_rows = 1,
                                    .d = d_v,
                                    .o = t->o + row * d_v,
                                    .lse = &lse,
                                    .abs_o = abs_o,
                                    .max_v = abs_o,
                                    .logit = &dot,
                                    .abs_dot = &dot,
                                    .ctx = &ctx,
                                    .capped = p->soft_cap > 0,
                                    .sinks = p->sink != NULL};
            t->bound_lse[row] = compare_bound(p, &report, &a, 0, t->bound_o + row * d_v);
        }
    free(norm);
    free(top);
    free(none);
    free(q);
}

/* Plan and run. NULL if the strategy or kernel does not apply, or fails; then the result says why. */
static const struct run_of *run_on(struct law *l, const struct problem *p)
{
    struct result *r = l->r;
    struct nform *nf = nform_new(p->tree);
    struct plan_env env = plan_env_default(p->heads);
    crash_planning(l->c->use.s->name, NULL);
    struct plan *plan = strategy_plan(&l->c->use, nf, &env, r->why);
    struct guarded inputs = guarded_inputs(p);
    r->ledger = (struct ledger){0}; /* of each run */
    struct output *out = plan ? run_plan(p, &inputs, plan, l->c->kernel, r) : NULL;
    struct run_of *t = out ? &l->run[l->n_runs++] : NULL;
    if (!plan)
        r->verdict = V_SKIP;
    if (out) {
        size_t n = (size_t)out->n_rows, n_o = n * (size_t)out->d;
        *t = (struct run_of){.o = xcalloc(n_o, sizeof *t->o),
                             .bound_o = xcalloc(n_o, sizeof *t->bound_o),
                             .lse = xcalloc(n, sizeof *t->lse),
                             .bound_lse = xcalloc(n, sizeof *t->bound_lse)};
        dtype_to_double(out->dtype, out->o, 0, t->o, (int64_t)n_o);
        for (int64_t row = 0; row < out->n_rows; row++)
            t->lse[row] = output_lse(out, row);
        set_bounds(t, p, plan, l->c->kernel);
    }
    output_free(out);
    plan_free(plan);
    nform_free(nf);
    return t;
}

/* ---- holding one output against another ---------------------------------------------------------------- */

static void hold(struct law *l, int64_t row, int32_t col, double got, double want, double bound)
{
    struct result *r = l->r;
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
             row / l->p->heads.h_q, row % l->p->heads.h_q, where, got, want, ratio, bound);
}

/* Row `row` of t is want_o[d_v] and want, which may be off by slack_o[d] (NULL: exact) and slack. */
static void hold_o(struct law *l, const struct run_of *t, int64_t row, const double *want_o,
                   const double *slack_o)
{
    int64_t d = heads_d_v(&l->p->heads);
    for (int64_t e = 0, i = row * d; e < d; e++, i++)
        hold(l, row, (int32_t)e, t->o[i], want_o[e], t->bound_o[i] + (slack_o ? slack_o[e] : 0));
}

static void hold_lse(struct law *l, const struct run_of *t, int64_t row, double want, double slack)
{
    hold(l, row, -1, t->lse[row], want, t->bound_lse[row] + slack);
}

/* Run l->p and x; query q of x must come out as query[q] of l->p (NULL: the same). */
static void hold_changed(struct law *l, const struct problem *x, const int32_t *query)
{
    int64_t h_q = l->p->heads.h_q, d = heads_d_v(&l->p->heads);
    const struct run_of *a = run_on(l, l->p), *b = a ? run_on(l, x) : NULL;
    for (int64_t row = 0; b && row < x->tree->n_queries * h_q; row++) {
        int64_t from = query ? query[row / h_q] * h_q + row % h_q : row;
        hold_o(l, b, row, a->o + from * d, a->bound_o + from * d);
        hold_lse(l, b, row, a->lse[from], a->bound_lse[from]);
    }
}

/* ---- the properties ------------------------------------------------------------------------------------ */

/* V of small integers, so that the combination is exact in every type: |3 * 31 + 5 * 31| < 256, and in 8 bits |1 + 1|. */
static void check_linear(struct law *l)
{
    bool fp8 = heads_fp8(&l->p->heads);
    int range = fp8 ? 1 : 31;
    double a = fp8 ? 1 : 3, b = fp8 ? -1 : -5;
    enum dtype kv = heads_kv_dtype(&l->p->heads);
    struct problem *x[3];
    const struct run_of *t[3];
    for (int i = 0; i < 3; i++)
        x[i] = copied(l);
    int64_t row = (int64_t)l->p->heads.h_kv * l->p->heads.d, n = 0;
    for (struct walk w = {.nf = l->nf}; walk_next(&w);)
        for (int64_t e = 0; e < row; e++, n += 2) {
            int64_t at = problem_slot(x[0], w.node, w.token) * row + e;
            double v0 = (double)draw(l, DRAW_V, n, 2 * range + 1) - range,
                   v1 = (double)draw(l, DRAW_V, n + 1, 2 * range + 1) - range;
            dtype_store(kv, x[0]->v, at, v0);
            dtype_store(kv, x[1]->v, at, v1);
            dtype_store(kv, x[2]->v, at, a * v0 + b * v1);
        }
    for (int i = 0; i < 3; i++)
        if (!(t[i] = run_on(l, x[i])))
            return;
    for (int64_t i = 0; i < (int64_t)l->p->tree->n_queries * l->p->heads.h_q; i++) {
        double want[PROBLEM_MAX_ROW], slack[PROBLEM_MAX_ROW];
        for (int64_t e = 0, d = heads_d_v(&l->p->heads); e < d; e++) {
            int64_t at = i * d + e;
            want[e] = a * t[0]->o[at] + b * t[1]->o[at];
            slack[e] = fabs(a) * t[0]->bound_o[at] + fabs(b) * t[1]->bound_o[at];
        }
        hold_o(l, t[2], i, want, slack);
        hold_lse(l, t[2], i, t[0]->lse[i], t[0]->bound_lse[i]);
    }
}

static void check_ones(struct law *l)
{
    struct problem *x = copied(l);
    int64_t size = (int64_t)l->p->heads.h_kv * l->p->heads.d;
    for (struct walk w = {.nf = l->nf}; walk_next(&w);)
        for (int64_t e = 0; e < size; e++)
            dtype_store(heads_kv_dtype(&l->p->heads), x->v, problem_slot(x, w.node, w.token) * size + e, 1);
    const struct run_of *t = run_on(l, x);
    double want[PROBLEM_MAX_ROW];
    for (int32_t q = 0; t && q < l->nf->n_queries; q++)
        for (int32_t h = 0; h < l->p->heads.h_q; h++) {
            int64_t row = (int64_t)l->nf->orig[q] * l->p->heads.h_q + h;
            double one = problem_v_scale(l->p, h / heads_gqa(&l->p->heads)),
                   of_sink = l->p->sink ? exp(l->p->sink[h] - t->lse[row]) : 0, slack[PROBLEM_MAX_ROW];
            for (int32_t e = 0; e < heads_d_v(&l->p->heads); e++) {
                want[e] = nform_context(l->nf, q) > 0 ? one * (1 - of_sink) : 0;
                slack[e] = one * of_sink * t->bound_lse[row];
            }
            hold_o(l, t, row, want, slack);
        }
}

static void swap_tokens(struct problem *p, int32_t node, int64_t i, int64_t j)
{
    char row[2][PROBLEM_MAX_ROW * sizeof(double)];
    int64_t size = (int64_t)p->heads.d * heads_kv_bytes(&p->heads);
    for (int64_t h = 0; h < p->heads.h_kv; h++)
        for (int v = 0; v < 2; v++) {
            char *base = v ? p->v : p->k;
            char *x = base + (problem_slot(p, node, i) * p->heads.h_kv + h) * size;
            char *y = base + (problem_slot(p, node, j) * p->heads.h_kv + h) * size;
            memcpy(row[0], x, (size_t)size);
            memcpy(row[1], y, (size_t)size);
            memcpy(x, row[1], (size_t)size);
            memcpy(y, row[0], (size_t)size);
        }
}

/* Keys with their values, shuffled within each stretch of a node that the same queries see. */
static void check_keys(struct law *l)
{
    struct problem *x = copied(l);
    int64_t n = 0;
    for (struct walk w = {.nf = l->nf}; walk_next(&w); n++)
        swap_tokens(x, w.node, w.token, l->nf->off[w.piece] + draw(l, DRAW_KEYS, n, w.next));
    hold_changed(l, x, NULL);
}

static void check_batch(struct law *l)
{
    struct tree *t = tree_copy(l->p->tree);
    int32_t *from = xcalloc((size_t)t->n_queries, sizeof *from);
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t other = (int32_t)draw(l, DRAW_BATCH, q, q + 1);
        from[q] = from[other];
        from[other] = q;
    }
    for (int32_t q = 0; q < t->n_queries; q++)
        t->query[q] = l->p->tree->query[from[q]];
    keep_windows(l, t, from);
    hold_changed(l, changed(l, t, NULL, NULL, from), from);
    free(from);
    tree_free(t);
}

/* About half of the nodes, and the first with tokens, are cut in two anywhere, ends included. */
static void check_cut(struct law *l)
{
    const struct tree *t = l->p->tree;
    struct tree *x = tree_new(2 * t->n_nodes, t->n_queries);
    int32_t *from = xcalloc((size_t)x->n_nodes, sizeof *from), n = 0;
    int32_t *last = xcalloc((size_t)t->n_nodes, sizeof *last); /* of the pieces of a node */
    int64_t *off = xcalloc((size_t)x->n_nodes, sizeof *off);
    bool none = true;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        bool cut = draw(l, DRAW_CUT, 2 * i, 2) || (none && t->len[i] > 0);
        int64_t at = cut ? draw(l, DRAW_CUT, 2 * i + 1, t->len[i] + 1) : t->len[i];
        none = none && !cut;
        x->parent[n] = t->parent[i] < 0 ? -1 : last[t->parent[i]];
        x->len[n] = at;
        from[n++] = i;
        if (cut) {
            x->parent[n] = n - 1;
            x->len[n] = t->len[i] - at;
            off[n] = at;
            from[n++] = i;
        }
        last[i] = n - 1;
    }
    x->n_nodes = n;
    for (int32_t q = 0; q < t->n_queries; q++) {
        struct query y = t->query[q];
        int32_t piece = last[y.node];
        if (y.upto <= off[piece] && off[piece] > 0)
            piece--;
        x->query[q] = (struct query){piece, y.upto - off[piece]};
    }
    keep_windows(l, x, NULL);
    hold_changed(l, changed(l, x, from, off, NULL), NULL);
    free(from);
    free(last);
    free(off);
    tree_free(x);
}

/* Two rows over disjoint parts of a context, merged, are the row over the whole; Hydragen equations 4 and 5.
 * An error x of the difference of the LSEs moves a weight by at most x / 4 and O by that times the distance
 * of the two: half of the slack's last term; the other half is for the errors in that distance. */
static void hold_merged(struct law *l, const struct run_of *whole, const struct run_of *a,
                        const struct run_of *b, int64_t row)
{
    int32_t d = heads_d_v(&l->p->heads);
    int64_t at = row * d;
    double o[PROBLEM_MAX_ROW], slack[PROBLEM_MAX_ROW], lse = a->lse[row];
    double slack_lse = fmax(a->bound_lse[row], b->bound_lse[row]);
    memcpy(o, a->o + at, (size_t)d * sizeof *o);
    for (int32_t e = 0; e < d; e++)
        slack[e] = fmax(a->bound_o[at + e], b->bound_o[at + e]) + slack_lse * fabs(o[e] - b->o[at + e]);
    lse_merge(o, &lse, b->o + at, b->lse[row], d);
    hold_o(l, whole, row, o, slack);
    hold_lse(l, whole, row, lse, slack_lse);
}

/* Where the windows of t begin on the paths of what is before (x[0]) and after (x[1]) token off[i] of each node i: behind as many of
 * their tokens as were out of the window. */
static void divide_windows(const struct tree *t, const int64_t *off, struct tree *x[2])
{
    for (int k = 0; k < 2; k++) {
        free(x[k]->since);
        x[k]->since = xcalloc((size_t)t->n_queries, sizeof *x[k]->since);
    }
    int32_t *path = xcalloc((size_t)t->n_nodes, sizeof *path);
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t n = tree_path(t->parent, t->query[q].node, path);
        int64_t left = t->since[q];
        for (int32_t i = 0; i < n && left > 0; i++) {
            int64_t out = min_i64(left, i == n - 1 ? t->query[q].upto : t->len[path[i]]),
                    first = min_i64(out, off[path[i]]);
            x[0]->since[q] += first;
            x[1]->since[q] += out - first;
            left -= out;
        }
    }
    free(path);
}

/* Every node is divided somewhere: one tree keeps what is before, one what is after. A sink goes with one of them. */
static void check_merge(struct law *l)
{
    const struct tree *t = l->p->tree;
    struct tree *x[2] = {tree_copy(t), tree_copy(t)};
    int64_t *off = xcalloc((size_t)t->n_nodes, sizeof *off);
    for (int32_t i = 0; i < t->n_nodes; i++) {
        off[i] = draw(l, DRAW_SPLIT, i, t->len[i] + 1);
        x[0]->len[i] = off[i];
        x[1]->len[i] = t->len[i] - off[i];
    }
    for (int32_t q = 0; q < t->n_queries; q++) {
        int64_t at = off[t->query[q].node], upto = t->query[q].upto;
        x[0]->query[q].upto = min_i64(upto, at);
        x[1]->query[q].upto = max_i64(upto - at, 0);
    }
    if (t->since)
        divide_windows(t, off, x);
    const struct problem *before = changed(l, x[0], NULL, NULL, NULL);
    struct problem *after = changed(l, x[1], NULL, off, NULL);
    free(after->sink);
    after->sink = NULL;
    const struct run_of *whole = run_on(l, l->p), *a = whole ? run_on(l, before) : NULL,
                        *b = a ? run_on(l, after) : NULL;
    for (int64_t row = 0; b && row < (int64_t)t->n_queries * l->p->heads.h_q; row++)
        hold_merged(l, whole, a, b, row);
    free(off);
    tree_free(x[0]);
    tree_free(x[1]);
}

/* The first element of every key is 1, as stored, so that of a query adds the same to all its logits: 0 in one problem,
 * another integer for each row in the other. */
static void check_shift(struct law *l)
{
    if (problem_features(l->p) & (UINT32_C(1) << FEATURE_SOFT_CAP | UINT32_C(1) << FEATURE_SINKS)) {
        l->r->verdict = V_SKIP;
        snprintf(l->r->why, sizeof l->r->why,
                 "a soft cap bends what is added, and a sink is not moved by it");
        return;
    }
    struct problem *a = copied(l), *b = copied(l);
    int64_t d = l->p->heads.d, d_v = heads_d_v(&l->p->heads), h_kv = l->p->heads.h_kv,
            n_rows = (int64_t)l->p->tree->n_queries * l->p->heads.h_q;
    double *by = xcalloc((size_t)n_rows, sizeof *by);
    for (struct walk w = {.nf = l->nf}; walk_next(&w);)
        for (int64_t h = 0; h < h_kv; h++) { /* the two have the same pages */
            int64_t at = (problem_slot(a, w.node, w.token) * h_kv + h) * d;
            dtype_store(heads_kv_dtype(&l->p->heads), a->k, at, 1);
            dtype_store(heads_kv_dtype(&l->p->heads), b->k, at, 1);
            if (heads_v_in_k(&l->p->heads)) {
                dtype_store(heads_kv_dtype(&l->p->heads), a->v, at, 1);
                dtype_store(heads_kv_dtype(&l->p->heads), b->v, at, 1);
            }
        }
    for (int64_t row = 0; row < n_rows; row++) {
        by[row] = (double)draw(l, DRAW_SHIFT, row, 129) - 64;
        dtype_store(l->p->heads.dtype, a->q, row * d, 0);
        dtype_store(l->p->heads.dtype, b->q, row * d, by[row]);
    }
    const struct run_of *x = run_on(l, a), *y = x ? run_on(l, b) : NULL;
    for (int64_t row = 0; y && row < n_rows; row++) {
        hold_o(l, y, row, x->o + row * d_v, x->bound_o + row * d_v);
        double one = problem_k_scale(l->p, (int32_t)(row % l->p->heads.h_q) / heads_gqa(&l->p->heads));
        hold_lse(l, y, row, x->lse[row] + l->p->scale * one * by[row], x->bound_lse[row]);
    }
    free(by);
}

/* A query that does not sit on a root, if there is one: a second root would be no place for the strategies
 * that want a single prefix. */
static int32_t twin_of(const struct law *l, int32_t twin)
{
    const struct tree *t = l->p->tree;
    int32_t q = (int32_t)draw(l, DRAW_TWIN, twin, t->n_queries);
    for (int32_t n = 0; n < t->n_queries; n++) {
        int32_t other = (int32_t)(((int64_t)q + n) % t->n_queries);
        if (t->parent[t->query[other].node] >= 0)
            return other;
    }
    return q;
}

/* Some nodes with a query appear once more below the same parent, as leaves, with the same query on them. */
static void check_twin(struct law *l)
{
    enum { TWINS = 3 };
    const struct tree *t = l->p->tree;
    int32_t n_nodes = t->n_nodes, n_queries = t->n_queries;
    if (n_queries == 0)
        return;
    struct tree *x = tree_new(n_nodes + TWINS, n_queries + TWINS);
    int32_t *node = xcalloc((size_t)x->n_nodes, sizeof *node);
    int32_t *query = xcalloc((size_t)x->n_queries, sizeof *query);
    for (int32_t i = 0; i < x->n_nodes; i++) {
        node[i] = i < n_nodes ? i : t->query[twin_of(l, i - n_nodes)].node;
        x->parent[i] = t->parent[node[i]];
        x->len[i] = t->len[node[i]];
    }
    for (int32_t q = 0; q < x->n_queries; q++) {
        query[q] = q < n_queries ? q : twin_of(l, q - n_queries);
        x->query[q] = t->query[query[q]];
        if (q >= n_queries)
            x->query[q].node = n_nodes + q - n_queries;
    }
    keep_windows(l, x, query);
    hold_changed(l, changed(l, x, node, NULL, query), query);
    free(node);
    free(query);
    tree_free(x);
}

const struct property properties[] = {
    {"linear", "O is linear in V, and the LSE does not depend on it", check_linear},
    {"ones", "V = 1 gives O = 1, or the scale of V, or what a sink leaves of it", check_ones},
    {"keys", "the order of the keys within a node is irrelevant", check_keys},
    {"batch", "the order of the queries in the batch is irrelevant", check_batch},
    {"cut", "a node cut in two anywhere changes nothing", check_cut},
    {"merge", "the context divided anywhere, the parts merged, is the whole", check_merge},
    {"shift", "a constant added to all logits of a row moves only its LSE, by as much", check_shift},
    {"twin", "a leaf and its duplicate have the same output, and nothing else changes", check_twin},
};
const int32_t n_properties = sizeof properties / sizeof properties[0];

struct result property_check(const struct property *which, const struct property_case *c)
{
    struct nform *nf = nform_new(c->p->tree);
    struct result r = {.verdict = V_PASS,
                       .use = &c->use,
                       .strategy = c->use.s->name,
                       .kernel = c->kernel->name,
                       .tile = "-",
                       .law = which};
    struct law l = {.c = c, .p = c->p, .nf = nf, .r = &r};
    if (heads_v_in_k(&c->p->heads) && (which->check == check_linear || which->check == check_ones)) {
        r.verdict = V_SKIP;
        snprintf(r.why, sizeof r.why, "V is in K's row, and the law is of other V with the same K");
    } else {
        which->check(&l);
    }
    nform_free(nf);
    for (int32_t i = 0; i < l.n_made; i++)
        problem_free(l.made[i]);
    for (int32_t i = 0; i < l.n_runs; i++) {
        free(l.run[i].o);
        free(l.run[i].bound_o);
        free(l.run[i].lse);
        free(l.run[i].bound_lse);
    }
    r.ran = false; /* of several runs no time and no bytes are told */
    if (r.verdict == V_FAIL)
        r.cmp.worst = INFINITY;
    if (r.verdict == V_PASS && !(r.cmp.worst <= 1)) {
        r.verdict = V_FAIL;
        r.stage = STAGE_LAW;
    }
    return r;
}
