/*
 * properties.c - a problem and a changed one, the same strategy and kernel, one output against the other.
 */
#include "verify/judge/properties.h"
#include "ref/lse.h"
#include "ref/rng.h"
#include "verify/judge/property_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Streams of what the properties draw. */
enum { DRAW_V, DRAW_KEYS, DRAW_BATCH, DRAW_CUT, DRAW_SPLIT, DRAW_SHIFT, DRAW_TWIN };

static int64_t draw(const struct property_case *c, uint64_t stream, int64_t index, int64_t n)
{
    return rng_below(c->seed, stream, (uint64_t)index, n);
}

/* Run p and x; query q of x must come out as query[q] of p (NULL: the same). Frees x. */
static void hold_changed(struct result *r, const struct property_case *c, struct problem *x,
                         const int32_t *query)
{
    struct property_run a = {0}, b = {0};
    if (property_run_make(&a, c, c->p, r) && property_run_make(&b, c, x, r))
        for (int32_t q = 0; q < x->tree->n_queries; q++)
            property_hold_query(r, c, &b, q, &a, query ? query[q] : q);
    property_run_free(&a);
    property_run_free(&b);
    problem_free(x);
}

/* V of small integers, so that the combination is exact in every type: |3 * 31 + 5 * 31| < 256. */
static void check_linear(const struct property_case *c, struct result *r)
{
    enum { RANGE = 31 };
    static const double a = 3, b = -5;
    struct problem *x[3];
    struct property_run t[3] = {{0}};
    for (int i = 0; i < 3; i++)
        x[i] = property_problem(c, c->p->tree, NULL, NULL, NULL);
    int64_t row = (int64_t)c->p->heads.h_kv * c->p->heads.d, n = 0;
    for (struct walk w = {.nf = c->nf}; walk_next(&w);)
        for (int64_t e = 0; e < row; e++, n += 2) {
            int64_t at = problem_slot(x[0], w.node, w.token) * row + e;
            double v0 = (double)draw(c, DRAW_V, n, 2 * RANGE + 1) - RANGE,
                   v1 = (double)draw(c, DRAW_V, n + 1, 2 * RANGE + 1) - RANGE;
            dtype_store(c->p->heads.dtype, x[0]->v, at, v0);
            dtype_store(c->p->heads.dtype, x[1]->v, at, v1);
            dtype_store(c->p->heads.dtype, x[2]->v, at, a * v0 + b * v1);
        }
    if (property_run_make(&t[0], c, x[0], r) && property_run_make(&t[1], c, x[1], r) &&
        property_run_make(&t[2], c, x[2], r))
        for (int64_t i = 0; i < (int64_t)c->p->tree->n_queries * c->p->heads.h_q; i++) {
            double want[PROBLEM_MAX_D], slack[PROBLEM_MAX_D];
            for (int64_t e = 0; e < c->p->heads.d; e++) {
                int64_t at = i * c->p->heads.d + e;
                want[e] = a * t[0].o[at] + b * t[1].o[at];
                slack[e] = fabs(a) * t[0].bound_o[at] + fabs(b) * t[1].bound_o[at];
            }
            property_hold_o(r, c, &t[2], i, want, slack);
            property_hold_lse(r, c, &t[2], i, t[0].lse[i], t[0].bound_lse[i]);
        }
    for (int i = 0; i < 3; i++) {
        property_run_free(&t[i]);
        problem_free(x[i]);
    }
}

static void check_ones(const struct property_case *c, struct result *r)
{
    struct problem *x = property_problem(c, c->p->tree, NULL, NULL, NULL);
    int64_t row = (int64_t)c->p->heads.h_kv * c->p->heads.d;
    for (struct walk w = {.nf = c->nf}; walk_next(&w);)
        for (int64_t e = 0; e < row; e++)
            dtype_store(c->p->heads.dtype, x->v, problem_slot(x, w.node, w.token) * row + e, 1);
    struct property_run t;
    double want[PROBLEM_MAX_D];
    if (property_run_make(&t, c, x, r))
        for (int32_t q = 0; q < c->nf->n_queries; q++) {
            for (int32_t e = 0; e < c->p->heads.d; e++)
                want[e] = nform_context(c->nf, q) > 0;
            for (int64_t h = 0; h < c->p->heads.h_q; h++)
                property_hold_o(r, c, &t, (int64_t)c->nf->orig[q] * c->p->heads.h_q + h, want, NULL);
        }
    property_run_free(&t);
    problem_free(x);
}

static void swap_tokens(struct problem *p, int32_t node, int64_t i, int64_t j)
{
    char row[2][PROBLEM_MAX_D * sizeof(double)];
    int64_t size = (int64_t)p->heads.d * heads_elt_bytes(&p->heads);
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
static void check_keys(const struct property_case *c, struct result *r)
{
    struct problem *x = property_problem(c, c->p->tree, NULL, NULL, NULL);
    int64_t n = 0;
    for (struct walk w = {.nf = c->nf}; walk_next(&w); n++)
        swap_tokens(x, w.node, w.token, c->nf->off[w.piece] + draw(c, DRAW_KEYS, n, w.next));
    hold_changed(r, c, x, NULL);
}

static void check_batch(const struct property_case *c, struct result *r)
{
    struct tree *t = tree_copy(c->p->tree);
    int32_t *from = xcalloc((size_t)t->n_queries, sizeof *from);
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t other = (int32_t)draw(c, DRAW_BATCH, q, q + 1);
        from[q] = from[other];
        from[other] = q;
    }
    for (int32_t q = 0; q < t->n_queries; q++)
        t->query[q] = c->p->tree->query[from[q]];
    hold_changed(r, c, property_problem(c, t, NULL, NULL, from), from);
    free(from);
    tree_free(t);
}

/* About half of the nodes, and the first with tokens, are cut in two anywhere, ends included. */
static void check_cut(const struct property_case *c, struct result *r)
{
    const struct tree *t = c->p->tree;
    struct tree *x = tree_new(2 * t->n_nodes, t->n_queries);
    int32_t *from = xcalloc((size_t)x->n_nodes, sizeof *from), n = 0;
    int32_t *last = xcalloc((size_t)t->n_nodes, sizeof *last); /* of the pieces of a node */
    int64_t *off = xcalloc((size_t)x->n_nodes, sizeof *off);
    bool none = true;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        bool cut = draw(c, DRAW_CUT, 2 * i, 2) || (none && t->len[i] > 0);
        int64_t at = cut ? draw(c, DRAW_CUT, 2 * i + 1, t->len[i] + 1) : t->len[i];
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
    hold_changed(r, c, property_problem(c, x, from, off, NULL), NULL);
    free(from);
    free(last);
    free(off);
    tree_free(x);
}

/* Two rows over disjoint parts of a context, merged, are the row over the whole; Hydragen equations 4 and 5.
 * An error x of the difference of the LSEs moves a weight by at most x / 4 and O by that times the distance
 * of the two: half of the slack's last term; the other half is for the errors in that distance. */
static void hold_merged(struct result *r, const struct property_case *c, const struct property_run *whole,
                        const struct property_run *a, const struct property_run *b, int64_t row)
{
    double o[PROBLEM_MAX_D], slack[PROBLEM_MAX_D], lse = a->lse[row];
    const double *o_b = b->o + row * b->d;
    double slack_lse = fmax(a->bound_lse[row], b->bound_lse[row]);
    memcpy(o, a->o + row * a->d, (size_t)a->d * sizeof *o);
    for (int32_t e = 0; e < a->d; e++)
        slack[e] =
            fmax(a->bound_o[row * a->d + e], b->bound_o[row * b->d + e]) + slack_lse * fabs(o[e] - o_b[e]);
    lse_merge(o, &lse, o_b, b->lse[row], a->d);
    property_hold_o(r, c, whole, row, o, slack);
    property_hold_lse(r, c, whole, row, lse, slack_lse);
}

/* Every node is divided somewhere: one tree keeps what is before, one what is after. */
static void check_merge(const struct property_case *c, struct result *r)
{
    const struct tree *t = c->p->tree;
    struct tree *x[2] = {tree_copy(t), tree_copy(t)};
    int64_t *off = xcalloc((size_t)t->n_nodes, sizeof *off);
    for (int32_t i = 0; i < t->n_nodes; i++) {
        off[i] = draw(c, DRAW_SPLIT, i, t->len[i] + 1);
        x[0]->len[i] = off[i];
        x[1]->len[i] = t->len[i] - off[i];
    }
    for (int32_t q = 0; q < t->n_queries; q++) {
        int64_t at = off[t->query[q].node], upto = t->query[q].upto;
        x[0]->query[q].upto = min_i64(upto, at);
        x[1]->query[q].upto = max_i64(upto - at, 0);
    }
    struct problem *before = property_problem(c, x[0], NULL, NULL, NULL),
                   *after = property_problem(c, x[1], NULL, off, NULL);
    struct property_run whole = {0}, a = {0}, b = {0};
    if (property_run_make(&whole, c, c->p, r) && property_run_make(&a, c, before, r) &&
        property_run_make(&b, c, after, r))
        for (int64_t row = 0; row < (int64_t)t->n_queries * c->p->heads.h_q; row++)
            hold_merged(r, c, &whole, &a, &b, row);
    property_run_free(&whole);
    property_run_free(&a);
    property_run_free(&b);
    problem_free(before);
    problem_free(after);
    free(off);
    tree_free(x[0]);
    tree_free(x[1]);
}

/* The first element of every key is 1, so that of a query adds the same to all its logits: 0 in one problem,
 * another integer for each row in the other. */
static void check_shift(const struct property_case *c, struct result *r)
{
    struct problem *a = property_problem(c, c->p->tree, NULL, NULL, NULL),
                   *b = property_problem(c, c->p->tree, NULL, NULL, NULL);
    int64_t d = c->p->heads.d, h_kv = c->p->heads.h_kv,
            n_rows = (int64_t)c->p->tree->n_queries * c->p->heads.h_q;
    double *by = xcalloc((size_t)n_rows, sizeof *by);
    for (struct walk w = {.nf = c->nf}; walk_next(&w);)
        for (int64_t h = 0; h < h_kv; h++) { /* the two have the same pages */
            int64_t at = (problem_slot(a, w.node, w.token) * h_kv + h) * d;
            dtype_store(c->p->heads.dtype, a->k, at, 1);
            dtype_store(c->p->heads.dtype, b->k, at, 1);
        }
    for (int64_t row = 0; row < n_rows; row++) {
        by[row] = (double)draw(c, DRAW_SHIFT, row, 129) - 64;
        dtype_store(c->p->heads.dtype, a->q, row * d, 0);
        dtype_store(c->p->heads.dtype, b->q, row * d, by[row]);
    }
    struct property_run x = {0}, y = {0};
    if (property_run_make(&x, c, a, r) && property_run_make(&y, c, b, r))
        for (int64_t row = 0; row < n_rows; row++) {
            property_hold_o(r, c, &y, row, x.o + row * d, x.bound_o + row * d);
            property_hold_lse(r, c, &y, row, x.lse[row] + c->p->scale * by[row], x.bound_lse[row]);
        }
    property_run_free(&x);
    property_run_free(&y);
    problem_free(a);
    problem_free(b);
    free(by);
}

/* A query that does not sit on a root, if there is one: a second root would be no place for the strategies
 * that want a single prefix. */
static int32_t twin_of(const struct property_case *c, int32_t twin)
{
    const struct tree *t = c->p->tree;
    int32_t q = (int32_t)draw(c, DRAW_TWIN, twin, t->n_queries);
    for (int32_t n = 0; n < t->n_queries; n++) {
        int32_t other = (int32_t)(((int64_t)q + n) % t->n_queries);
        if (t->parent[t->query[other].node] >= 0)
            return other;
    }
    return q;
}

/* Some nodes with a query appear once more below the same parent, as leaves, with the same query on them. */
static void check_twin(const struct property_case *c, struct result *r)
{
    enum { TWINS = 3 };
    const struct tree *t = c->p->tree;
    int32_t n_nodes = t->n_nodes, n_queries = t->n_queries;
    if (n_queries == 0)
        return;
    struct tree *x = tree_new(n_nodes + TWINS, n_queries + TWINS);
    int32_t *node = xcalloc((size_t)x->n_nodes, sizeof *node);
    int32_t *query = xcalloc((size_t)x->n_queries, sizeof *query);
    for (int32_t i = 0; i < x->n_nodes; i++) {
        node[i] = i < n_nodes ? i : t->query[twin_of(c, i - n_nodes)].node;
        x->parent[i] = t->parent[node[i]];
        x->len[i] = t->len[node[i]];
    }
    for (int32_t q = 0; q < x->n_queries; q++) {
        query[q] = q < n_queries ? q : twin_of(c, q - n_queries);
        x->query[q] = t->query[query[q]];
        if (q >= n_queries)
            x->query[q].node = n_nodes + q - n_queries;
    }
    hold_changed(r, c, property_problem(c, x, node, NULL, query), query);
    free(node);
    free(query);
    tree_free(x);
}

const struct property properties[] = {
    {"linear", "O is linear in V, and the LSE does not depend on it", check_linear},
    {"ones", "V = 1 gives O = 1", check_ones},
    {"keys", "the order of the keys within a node is irrelevant", check_keys},
    {"batch", "the order of the queries in the batch is irrelevant", check_batch},
    {"cut", "a node cut in two anywhere changes nothing", check_cut},
    {"merge", "the context divided anywhere, the parts merged, is the whole", check_merge},
    {"shift", "a constant added to all logits of a row moves only its LSE, by as much", check_shift},
    {"twin", "a leaf and its duplicate have the same output, and nothing else changes", check_twin},
};
const int32_t n_properties = sizeof properties / sizeof properties[0];

struct result property_check(const struct property *which, const struct property_case *given)
{
    struct nform *nf = nform_new(given->p->tree);
    struct property_case c = *given;
    struct result r = {.verdict = V_PASS,
                       .use = &given->use,
                       .strategy = c.use.s->name,
                       .kernel = c.kernel->name,
                       .tile = "-",
                       .law = which};
    c.nf = nf;
    which->check(&c, &r);
    nform_free(nf);
    r.ran = false; /* of several runs no time and no bytes are told */
    if (r.verdict == V_FAIL)
        r.cmp.worst = INFINITY;
    if (r.verdict == V_PASS && !(r.cmp.worst <= 1)) {
        r.verdict = V_FAIL;
        r.stage = STAGE_LAW;
    }
    return r;
}
