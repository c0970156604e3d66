/* view_plan.c - plans, and parts of attention, as tensors. */
#include "verify/child/view_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MASK = 1 << 26 /* bytes */ };

static void set_bit(uint8_t *mask, int64_t bit)
{
    mask[bit / 8] |= (uint8_t)(1 << (bit % 8));
}

/* Lists of the groups: their queries as the tree numbers them. */
static void plan_group_queries(const struct plan *plan, int32_t *ptr, int32_t *query)
{
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i];
        ptr[i + 1] = ptr[i] + g->nq;
        plan_queries(plan, g, query + ptr[i]);
        for (int32_t k = ptr[i]; k < ptr[i + 1]; k++)
            query[k] = plan->nf->orig[query[k]];
    }
}

static int64_t sum_of_queries(const struct plan *plan)
{
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_groups; i++)
        n += plan->group[i].nq;
    return n;
}

/* Bits q x run of the groups that have a mask. */
static bool add_run_masks(struct view_data *v, struct err *why)
{
    const struct plan *plan = v->plan;
    int32_t *ptr = add_i32(v, "group_mask_ptr", plan->n_groups + 1);
    int64_t bytes = 0;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i];
        bytes += g->mask == MASK_NONE ? 0 : ceil_div(g->nq * (g->run1 - g->run0), 8);
        if (bytes > MAX_MASK)
            return err_set(why, "masks of more than %d bytes", MAX_MASK);
        ptr[i + 1] = (int32_t)bytes;
    }
    uint8_t *mask = xcalloc((size_t)bytes, 1);
    tensors_add(&v->tensors, "group_mask", EL_U8, mask, true, 1, &bytes);
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i];
        int64_t runs = g->run1 - g->run0;
        for (int64_t bit = 0; g->mask != MASK_NONE && bit < g->nq * runs; bit++)
            if (plan_visible(plan, g, (int32_t)(bit / runs), bit % runs))
                set_bit(mask + ptr[i], bit);
    }
    return true;
}

static void add_groups_of_plan(struct view_data *v, int64_t n_queries)
{
    const struct plan *plan = v->plan;
    int64_t n = plan->n_groups;
    plan_group_queries(plan, add_i32(v, "group_query_ptr", n + 1), add_i32(v, "group_query", n_queries));
    int32_t *ptr = add_i32(v, "group_run_ptr", n + 1), *node = add_i32(v, "run_node", plan->n_runs),
            *slot = add_i32(v, "group_slot", n), *launch = add_i32(v, "group_launch", n),
            *tile = add_i32(v, "group_tile", 2 * n);
    int64_t *begin = add_i64(v, "run_begin", plan->n_runs), *end = add_i64(v, "run_end", plan->n_runs);
    for (int64_t i = 0, at = 0; i < n; i++) {
        const struct group *g = &plan->group[i];
        slot[i] = (int32_t)g->slot0;
        launch[i] = g->launch;
        tile[2 * i] = g->tile_m;
        tile[2 * i + 1] = g->tile_n;
        for (int64_t r = g->run0; r < g->run1; r++, at++) {
            struct run run = plan_tree_run(plan, &plan->run[r]);
            node[at] = run.node;
            begin[at] = run.begin;
            end[at] = run.end;
        }
        ptr[i + 1] = (int32_t)at;
    }
}

static void add_merges(struct view_data *v)
{
    const struct plan *plan = v->plan;
    int64_t n = plan->n_merges;
    int32_t *ptr = add_i32(v, "merge_ptr", n + 1), *in = add_i32(v, "merge_in", plan->n_merge_in),
            *out = add_i32(v, "merge_out", n), *query = add_i32(v, "merge_query", n),
            *launch = add_i32(v, "merge_launch", n);
    for (int64_t i = 0, at = 0; i < n; i++) {
        const struct merge_step *m = &plan->merge[i];
        for (int64_t k = m->in0; k < m->in1; k++)
            in[at++] = (int32_t)plan->merge_in[k];
        ptr[i + 1] = (int32_t)at;
        out[i] = (int32_t)m->out;
        query[i] = plan->nf->orig[m->query];
        launch[i] = m->launch;
    }
    *add_i32(v, "n_slots", 1) = (int32_t)plan->n_slots;
    *add_i32(v, "n_launches", 1) = plan->n_launches;
}

bool view_plan(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    const struct plan *plan = v->plan;
    int64_t n_queries = sum_of_queries(plan);
    if (!fits(n_queries, "queries of groups", why) || !fits(plan->n_runs, "runs", why) ||
        !fits(plan->n_slots, "slots of partial results", why) || !view_tree(p, ctx, v, why))
        return false;
    add_groups_of_plan(v, n_queries);
    add_merges(v);
    return add_run_masks(v, why);
}

/* Slots of a run, into index[]; how many. */
static int64_t run_slots(const struct problem *p, struct run run, int32_t *index)
{
    for (int64_t j = run.begin; j < run.end; j++)
        index[j - run.begin] = (int32_t)problem_slot(p, run.node, j);
    return run.end - run.begin;
}

/* The mask of a group, bits q x token. */
static void token_mask(const struct plan *plan, const struct group *g, uint8_t *mask)
{
    int64_t bit = 0;
    for (int32_t k = 0; k < g->nq; k++)
        for (int64_t r = g->run0; r < g->run1; r++) {
            bool sees = plan_visible(plan, g, k, r - g->run0);
            for (int64_t j = plan->run[r].begin; j < plan->run[r].end; j++, bit++)
                if (sees)
                    set_bit(mask, bit);
        }
}

bool add_groups(const struct problem *p, struct view_data *v, struct err *why)
{
    const struct plan *plan = v->plan;
    int64_t tokens = 0, bytes = 0, n = plan->n_groups;
    v->n_rows = sum_of_queries(plan);
    for (int64_t i = 0; i < n; i++) {
        const struct group *g = &plan->group[i];
        tokens += g->n_kv;
        bytes += g->mask == MASK_NONE ? 0 : ceil_div(g->nq * g->n_kv, 8);
    }
    if (!fits(v->n_rows, "partial results", why) || !fits(tokens, "tokens of groups", why) ||
        !fits(p->n_pages * p->page_size, "slots", why))
        return false;
    if (bytes > MAX_MASK)
        return err_set(why, "masks of %" PRId64 " bytes (at most %d)", bytes, MAX_MASK);
    int32_t *qo = add_i32(v, "qo_indptr", n + 1), *kv = add_i32(v, "kv_indptr", n + 1),
            *index = add_i32(v, "kv_indices", tokens), *at = add_i32(v, "mask_indptr", n + 1);
    uint8_t *mask = xcalloc((size_t)bytes, 1);
    tensors_add(&v->tensors, "mask", EL_U8, mask, true, 1, &bytes);
    v->order = xcalloc((size_t)v->n_rows, sizeof *v->order);
    plan_group_queries(plan, qo, v->order);
    for (int64_t i = 0; i < n; i++) {
        const struct group *g = &plan->group[i];
        kv[i + 1] = kv[i];
        for (int64_t r = g->run0; r < g->run1; r++)
            kv[i + 1] += (int32_t)run_slots(p, plan_tree_run(plan, &plan->run[r]), index + kv[i + 1]);
        at[i + 1] = at[i] + (int32_t)(g->mask == MASK_NONE ? 0 : ceil_div(g->nq * g->n_kv, 8));
        if (g->mask != MASK_NONE)
            token_mask(plan, g, mask + at[i]);
    }
    return true;
}

void view_partials(const struct partials *x, struct merge_form form, struct view_data *out)
{
    int64_t h = x->heads.h_q, d = x->heads.d, n = x->n, s = x->inputs;
    size_t bytes = (size_t)(s * n * h * d * dtype_size[x->heads.dtype]);
    enum element type = x->heads.dtype == DT_F64 ? EL_F64 : EL_F32;
    *out = (struct view_data){.n_rows = n};
    void *o = xmalloc(bytes), *lse = xcalloc((size_t)(s * n * h), (size_t)element_size[type]);
    memcpy(o, x->o, bytes);
    tensors_add(&out->tensors, "o_in", element_of[x->heads.dtype], o, true, 4, (int64_t[]){s, n, h, d});
    tensors_add(&out->tensors, "lse_in", type, lse, true, 3,
                (int64_t[]){s, form.lse_by_head ? h : n, form.lse_by_head ? n : h});
    for (int64_t i = 0; i < s * n * h; i++) {
        int64_t j = i / (n * h), q = i / h % n, k = i % h, to = form.lse_by_head ? (j * h + k) * n + q : i;
        double value =
            x->lse[i] == -INFINITY && form.empty_is_plus_inf ? INFINITY : x->lse[i] / form.lse_unit;
        if (type == EL_F64)
            ((double *)lse)[to] = value;
        else
            ((float *)lse)[to] = (float)value;
    }
}
