#include "verify/judge/pieces.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 26 /* of an array of one request */ };

/* ---- groups as trees ---------------------------------------------------------------------------------- */

/* A tree that grows; twin[i] is an older node of the same run, and -1 if there is none. */
struct growing {
    int32_t *parent, *twin;
    struct run *run; /* of the tree that is cut; of a root: no tokens */
    int64_t n, cap_parent, cap_twin, cap_run;
};

static int32_t grow(struct growing *t, int32_t parent, int32_t twin, struct run run)
{
    t->parent = xgrow(t->parent, &t->cap_parent, t->n + 1, sizeof *t->parent);
    t->twin = xgrow(t->twin, &t->cap_twin, t->n + 1, sizeof *t->twin);
    t->run = xgrow(t->run, &t->cap_run, t->n + 1, sizeof *t->run);
    t->parent[t->n] = parent;
    t->twin[t->n] = twin;
    t->run[t->n] = run;
    return (int32_t)t->n++;
}

/* The node below `above` for this run, of which *last is the newest. */
static int32_t step_down(struct growing *t, int32_t above, int32_t *last, struct run run)
{
    int32_t i = *last;
    while (i >= 0 && t->parent[i] != above)
        i = t->twin[i];
    return i >= 0 ? i : (*last = grow(t, above, *last, run));
}

/* The nodes of a group, and the one each of its queries ends in, into end[]. */
static void grow_group(struct growing *t, const struct plan *plan, const struct group *g, int32_t *end)
{
    int64_t n = g->run1 - g->run0;
    int32_t *last = xcalloc((size_t)n, sizeof *last), root = grow(t, -1, -1, (struct run){0, 0, 0});
    memset(last, -1, (size_t)n * sizeof *last);
    for (int32_t k = 0; k < g->nq; k++) {
        end[k] = root;
        if (k > 0 && g->mask == MASK_NONE) {
            end[k] = end[0];
            continue;
        }
        for (int64_t r = 0; r < n; r++)
            if (plan_visible(plan, g, k, r))
                end[k] = step_down(t, end[k], &last[r], plan_tree_run(plan, &plan->run[g->run0 + r]));
    }
    free(last);
}

static struct problem *piece_problem(const struct problem *p, const struct growing *t, struct plan_pieces *x)
{
    struct tree *tree = x->tree;
    struct problem *own = problem_shell(
        tree, &(struct problem_spec){
                  .heads = p->heads, .page_size = 1, .scale = p->scale, .soft_cap = p->soft_cap});
    own->scale = p->scale;
    own->n_pages = p->n_pages * p->page_size;
    own->k = p->k;
    own->v = p->v;
    problem_copy_scales(own, p);
    own->page_table = xcalloc((size_t)own->page_off[tree->n_nodes], sizeof *own->page_table);
    for (int32_t i = 0; i < tree->n_nodes; i++)
        for (int64_t j = 0; j < tree->len[i]; j++)
            own->page_table[own->page_off[i] + j] =
                (int32_t)problem_slot(p, t->run[i].node, t->run[i].begin + j);
    size_t row = (size_t)p->heads.h_q * (size_t)p->heads.d * (size_t)dtype_size[p->heads.dtype];
    own->q = xcalloc((size_t)tree->n_queries, row);
    for (int32_t q = 0; q < tree->n_queries; q++)
        memcpy((char *)own->q + (size_t)q * row, (const char *)p->q + (size_t)x->query[q] * row, row);
    return own;
}

bool plan_pieces_new(const struct problem *p, const struct plan *plan, struct plan_pieces *out,
                     struct err *why)
{
    int64_t rows = 0, tokens = 0, row = (int64_t)p->heads.h_q * p->heads.d;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        rows += plan->group[i].nq;
        tokens += plan->group[i].n_kv;
    }
    *out = (struct plan_pieces){.tree = NULL};
    if (rows * row > MOST_ELEMENTS || tokens > MOST_ELEMENTS)
        return err_set(why, "%" PRId64 " partial results over %" PRId64 " tokens are too many", rows, tokens);
    if (p->n_pages * p->page_size > INT32_MAX)
        return err_set(why, "%" PRId64 " slots (their numbers are 32 bits wide)", p->n_pages * p->page_size);
    struct growing t = {.n = 0};
    int32_t *end = xcalloc((size_t)rows, sizeof *end);
    out->query = xcalloc((size_t)rows, sizeof *out->query);
    rows = 0;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i];
        grow_group(&t, plan, g, end + rows);
        plan_queries(plan, g, out->query + rows);
        rows += g->nq;
    }
    out->tree = tree_new((int32_t)t.n, (int32_t)rows);
    for (int64_t i = 0; i < t.n; i++) {
        out->tree->parent[i] = t.parent[i];
        out->tree->len[i] = t.run[i].end - t.run[i].begin;
    }
    for (int64_t i = 0; i < rows; i++) {
        out->query[i] = plan->nf->orig[out->query[i]];
        out->tree->query[i] = (struct query){end[i], out->tree->len[end[i]]};
    }
    out->p = piece_problem(p, &t, out);
    free(end);
    free(t.parent);
    free(t.twin);
    free(t.run);
    return true;
}

void plan_pieces_free(struct plan_pieces *x)
{
    if (x->p)
        x->p->k = x->p->v = NULL; /* another's */
    problem_free(x->p);
    tree_free(x->tree);
    free(x->query);
}

/* ---- merges ------------------------------------------------------------------------------------------- */

/* Input j of query q becomes row r of the oracle. */
static void set_partial(struct partials *x, const struct oracle *orc, int64_t r, int64_t j, int64_t q,
                        double unit)
{
    int64_t h = x->heads.h_q, d = x->heads.d, to = (j * x->n + q) * h;
    for (int64_t i = 0; i < h * d; i++)
        dtype_store(x->heads.dtype, x->o, to * d + i, orc->o[r * h * d + i]);
    for (int64_t i = 0; i < h; i++) {
        double lse = orc->lse[r * h + i] / unit;
        x->lse[to + i] = (x->heads.dtype == DT_F64 ? lse : (double)(float)lse) * unit;
    }
}

bool partials_new(const struct plan_pieces *x, const struct oracle *orc, int32_t n_queries, double unit,
                  struct partials *out, struct err *why)
{
    enum { ALONE = 3 };
    const struct heads *h = &x->p->heads;
    int64_t *count = xcalloc((size_t)n_queries + 1, sizeof *count), most = 0;
    int32_t longest = 0;
    for (int32_t r = 0; r < x->tree->n_queries; r++)
        if (++count[x->query[r]] > most) {
            most = count[x->query[r]];
            longest = x->query[r];
        }
    *out = (struct partials){.heads = *h, .n = n_queries + ALONE, .inputs = most};
    out->heads.kv_fp8 = DT_F64; /* partial results are of no K and V, and as long as O */
    out->heads.d = heads_d_v(h);
    out->heads.d_v = 0;
    out->heads.v_apart = false;
    int64_t rows = most * out->n * h->h_q, d = out->heads.d;
    if (most < 2 || rows * d > MOST_ELEMENTS) {
        free(count);
        return most < 2 ? err_set(why, "no query has two partial results")
                        : err_set(why, "%" PRId64 " partial results are too many", most * out->n);
    }
    out->o = xcalloc((size_t)(rows * d), (size_t)dtype_size[h->dtype]);
    out->lse = xcalloc((size_t)rows, sizeof *out->lse);
    for (int64_t i = 0; i < rows; i++)
        out->lse[i] = -INFINITY;
    int64_t *next = xcalloc((size_t)n_queries + 1, sizeof *next), nth = 0;
    for (int32_t q = 0; q < n_queries; q++)
        next[q] = q % 2 ? most - count[q] : 0;
    for (int32_t r = 0; r < x->tree->n_queries; r++) {
        set_partial(out, orc, r, next[x->query[r]]++, x->query[r], unit);
        if (x->query[r] != longest)
            continue;
        if (nth == most - 1)
            set_partial(out, orc, r, nth, n_queries + 1, unit);
        if (nth % 2 == 1)
            set_partial(out, orc, r, nth, n_queries + 2, unit);
        nth++;
    }
    free(next);
    free(count);
    return true;
}

void partials_free(struct partials *x)
{
    free(x->o);
    free(x->lse);
}

struct problem *merge_shape(const struct partials *x)
{
    struct tree *t = tree_new(x->n, x->n);
    for (int32_t q = 0; q < x->n; q++) {
        for (int64_t j = 0; j < x->inputs; j++)
            t->len[q] += x->lse[(j * x->n + q) * x->heads.h_q] > -INFINITY;
        t->query[q] = (struct query){q, t->len[q]};
    }
    return problem_shell(t, &(struct problem_spec){.heads = x->heads, .page_size = 1});
}

void merge_shape_free(struct problem *shape)
{
    struct tree *t = (struct tree *)shape->tree;
    problem_free(shape);
    tree_free(t);
}

/* Head k of query q. */
static void merge_row(const struct partials *x, struct oracle *orc, int64_t q, int64_t k)
{
    int64_t h = x->heads.h_q, d = x->heads.d, row = q * h + k, step = x->n * h, n = x->inputs * step;
    double top = -INFINITY, second = -INFINITY, sum = 0, v[PROBLEM_MAX_ROW], low[PROBLEM_MAX_ROW],
           high[PROBLEM_MAX_ROW];
    for (int64_t j = row; j < n; j += step)
        if (x->lse[j] > -INFINITY) {
            second = max_f64(second, min_f64(top, x->lse[j]));
            top = max_f64(top, x->lse[j]);
            orc->logit[row] = max_f64(orc->logit[row], fabs(x->lse[j]));
        }
    orc->lse[row] = top;
    if (top == -INFINITY)
        return;
    for (int64_t j = row; j < n; j += step)
        sum += exp(x->lse[j] - top);
    orc->lse[row] += log(sum);
    orc->gap[row] = top - second;
    for (int64_t i = 0; i < d; i++)
        low[i] = -(high[i] = -INFINITY);
    for (int64_t j = row; j < n; j += step) {
        double weight = exp(x->lse[j] - top) / sum;
        if (x->lse[j] == -INFINITY)
            continue;
        dtype_to_double(x->heads.dtype, x->o, j * d, v, d);
        for (int64_t i = 0; i < d; i++) {
            double part = weight * v[i];
            orc->o[row * d + i] += part;
            orc->abs_o[row * d + i] += fabs(part);
            orc->rms_o[row * d + i] += part * part;
            low[i] = min_f64(low[i], v[i]);
            high[i] = max_f64(high[i], v[i]);
        }
    }
    for (int64_t i = 0; i < d; i++) {
        orc->rms_o[row * d + i] = sqrt(orc->rms_o[row * d + i]);
        orc->range_o[row * d + i] = high[i] - low[i];
        orc->max_v[row * d + i] = max_f64(-low[i], high[i]);
    }
}

struct oracle *merge_oracle(const struct partials *x, const struct problem *shape)
{
    struct oracle *orc = oracle_alloc(shape, true);
    for (int64_t q = 0; q < x->n; q++)
        for (int64_t k = 0; k < x->heads.h_q; k++)
            merge_row(x, orc, q, k);
    return orc;
}
