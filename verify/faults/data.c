/*
 * data.c - faults in what the kernel is given: page table, K, V, Q, scale, the map from query heads to
 * KV heads. The oracle keeps the truth; cover cannot see any of these.
 */
#include "verify/faults/kinds.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens that matter ------------------------------------------------------------------------------ */

/* A token that a query sees: query and node as the tree numbers them. */
struct token {
    int32_t query, node;
    int64_t j;
};

/* Draw a visible token in which adding or removing one key changes its query's answer by more than rounding;
 * `last_page`: among those in the last page of a node. */
static bool draw_token(const struct fault_case *fc, struct broken *b, bool last_page, struct token *out)
{
    const struct nform *nf = fc->nf;
    const struct problem *p = fc->problem;
    if (!fault_any_seen(fc))
        return false;
    for (int attempt = 0; attempt < 4000; attempt++) {
        int32_t q = (int32_t)fault_draw(b, nf->n_queries);
        int64_t ctx = nform_context(nf, q);
        if (ctx == 0)
            continue;
        int64_t at = fault_draw(b, ctx); /* counted from the end of the path */
        int32_t node = nf->at[q];
        for (; at >= nf->len[node]; node = nf->parent[node])
            at -= nf->len[node];
        int64_t j = nf->off[node] + at, pages = ceil_div(p->tree->len[nf->src[node]], p->page_size);
        if ((last_page && j / p->page_size != pages - 1) || !fault_seen(fc, q, node, at, at + 1))
            continue;
        *out = (struct token){.query = nf->orig[q], .node = nf->src[node], .j = j};
        fault_place(b, "node %" PRId32 " token %" PRId64, out->node, j);
        return true;
    }
    return false;
}

/* The page-table entry through which that token is found. */
static int32_t *page_of(const struct problem *p, const struct token *t)
{
    return &p->page_table[p->page_off[t->node] + t->j / p->page_size];
}

/* Does the query see any of that node? Parents come before children. */
static bool on_path(const struct tree *t, int32_t query, int32_t node)
{
    int32_t i = t->query[query].node;
    while (i > node)
        i = t->parent[i];
    return i == node;
}

/* ---- page table -------------------------------------------------------------------------------------- */

/* With a page of a node that the query does not see: exchanging pages it sees all of would change nothing. */
KIND_AT(page_swapped, struct token, draw_token(fc, b, false, &x))
{
    const struct problem *p = fc->problem;
    EACH_INDEX (b, node, p->tree->n_nodes) {
        int64_t pages = p->page_off[node + 1] - p->page_off[node];
        if (pages == 0 || on_path(p->tree, x->query, (int32_t)node))
            continue;
        int64_t at = p->page_off[node] + fault_draw(b, pages);
        if (p->page_table[at] == PAGE_POISON)
            continue;
        struct problem *e = fault_edit_problem(fc, b);
        int32_t *one = page_of(e, x), page = *one;
        *one = e->page_table[at];
        e->page_table[at] = page;
        return true;
    }
    return false;
}

/* The kernel must refuse, or give NaN; it must not crash. */
KIND_AT(page_poisoned, struct token, draw_token(fc, b, false, &x))
{
    *page_of(fault_edit_problem(fc, b), x) = PAGE_POISON;
    return true;
}

/* The neighbour in the pool is another node's page, or a spare one full of poison. */
KIND_AT(page_off_by_one, struct token, draw_token(fc, b, true, &x))
{
    int32_t *page = page_of(fault_edit_problem(fc, b), x);
    *page += *page + 1 < fc->problem->n_pages ? 1 : -1;
    return true;
}

/* Poison alone would not tell then. */
KIND_AT(fp8_nan_is_number, struct token, heads_fp8(&fc->problem->heads) && draw_token(fc, b, true, &x))
{
    struct problem *e = fault_edit_problem(fc, b);
    enum dtype t = heads_kv_dtype(&e->heads);
    int64_t n = e->n_pages * e->page_size * e->heads.h_kv * e->heads.d;
    for (int64_t i = 0; i < 2 * n; i++) {
        void *pool = i < n ? e->k : e->v;
        if (isnan(dtype_load(t, pool, i % n)))
            dtype_store(t, pool, i % n, INFINITY); /* which saturates */
    }
    int32_t *page = page_of(e, x);
    *page += *page + 1 < fc->problem->n_pages ? 1 : -1;
    return true;
}

/* Not the first page of a node: the entry before it is the node's own. */
bool plant_page_repeated(const struct fault_case *fc, struct broken *b)
{
    const struct problem *p = fc->problem;
    struct token t;
    for (int attempt = 0; attempt < 50; attempt++)
        if (draw_token(fc, b, false, &t) && t.j >= p->page_size) {
            int32_t *page = page_of(fault_edit_problem(fc, b), &t);
            page[0] = page[-1];
            return true;
        }
    return false;
}

/* ---- K, V, Q ----------------------------------------------------------------------------------------- */

/* Overwrite n elements of an array of that type by n others of the same array. */
static void copy_elements(enum dtype t, void *array, int64_t to, int64_t from, int64_t n)
{
    size_t size = (size_t)dtype_size[t];
    memmove((char *)array + (size_t)to * size, (char *)array + (size_t)from * size, (size_t)n * size);
}

/* The head of the token's query that gives a pool slot the largest weight. */
static int32_t keenest_head(const struct fault_case *fc, int32_t query, int64_t slot)
{
    int32_t best = 0;
    for (int32_t h = 1; h < fc->problem->heads.h_q; h++)
        if (fault_weight(fc, query, h, slot) > fault_weight(fc, query, best, slot))
            best = h;
    return best;
}

/* In one KV head, the row of one token becomes that of another. */
static bool break_row(const struct fault_case *fc, struct broken *b, bool of_v)
{
    const struct problem *p = fc->problem;
    struct token t, other;
    if (of_v && heads_v_in_k(&p->heads)) /* who reads it with K does not see a copy */
        return false;
    for (int attempt = 0; attempt < 100; attempt++) {
        if (!draw_token(fc, b, false, &other) || !draw_token(fc, b, false, &t))
            return false;
        int64_t slot = problem_slot(p, t.node, t.j), stale = problem_slot(p, other.node, other.j);
        int32_t head = keenest_head(fc, t.query, slot);
        double before = fault_weight(fc, t.query, head, slot), after = fault_weight(fc, t.query, head, stale);
        if (fabs(after - before) < 1e-3) /* the wrong key would count as much as the right one */
            continue;
        struct problem *e = fault_edit_problem(fc, b);
        int32_t kv_head = head / heads_gqa(&p->heads);
        copy_elements(heads_kv_dtype(&p->heads), of_v ? e->v : e->k,
                      (slot * p->heads.h_kv + kv_head) * p->heads.d,
                      (stale * p->heads.h_kv + kv_head) * p->heads.d, p->heads.d);
        return true;
    }
    return false;
}

/* The logit of one token is wrong, for all g query heads of the KV head and all queries below. */
KIND(k_stale, break_row(fc, b, false))

/* LSE stays right: only O can tell. */
KIND(v_stale, break_row(fc, b, true))

/* One row of one head; the other heads of the query stay right. */
KIND_AT(q_stale, struct token, fc->problem->tree->n_queries > 1 && draw_token(fc, b, false, &x))
{
    const struct tree *t = fc->problem->tree;
    int32_t other = (int32_t)fault_draw(b, t->n_queries - 1);
    other += other >= x->query;
    struct problem *p = fault_edit_problem(fc, b);
    int64_t head = fault_draw(b, p->heads.h_q);
    copy_elements(p->heads.dtype, p->q, ((int64_t)x->query * p->heads.h_q + head) * p->heads.d,
                  ((int64_t)other * p->heads.h_q + head) * p->heads.d, p->heads.d);
    fault_place(b, "query %" PRId32 " head %" PRId64 " from query %" PRId32, x->query, head, other);
    return true;
}

/* Same shapes, so nothing but the numbers can tell. */
bool plant_kv_exchanged(const struct fault_case *fc, struct broken *b)
{
    if (!fault_any_seen(fc))
        return false;
    struct problem *p = fault_edit_problem(fc, b);
    void *k = p->k;
    p->k = p->v;
    p->v = k;
    return true;
}

/* ---- scale and heads --------------------------------------------------------------------------------- */

static bool rescale(const struct fault_case *fc, struct broken *b, double scale)
{
    if (!fault_any_seen(fc))
        return false;
    fault_edit_problem(fc, b)->scale = scale;
    return true;
}

KIND(scale_inverse_d, fc->problem->heads.d > 1 && rescale(fc, b, 1.0 / fc->problem->heads.d))
KIND(scale_off, rescale(fc, b, 1.01 * fc->problem->scale))

/*
 * A kernel that reads KV head kv_of(h) for query head h, said through the sound one: hand it the query rows
 * in an order in which head at[h] belongs to that KV head, and put its rows back. Sets b->output.
 */
static bool run_with_heads(const struct fault_case *fc, struct broken *b,
                           int32_t (*kv_of)(int32_t h, const struct heads *heads))
{
    const struct problem *p = fc->problem;
    int32_t h_q = p->heads.h_q, g = heads_gqa(&p->heads);
    if (!fault_any_seen(fc))
        return false;
    int32_t *at = xcalloc((size_t)h_q, sizeof *at), *used = xcalloc((size_t)p->heads.h_kv, sizeof *used);
    for (int32_t h = 0; h < h_q; h++) {
        int32_t kv = kv_of(h, &p->heads);
        at[h] = kv * g + used[kv]++;
    }
    struct problem *e = fault_edit_problem(fc, b);
    size_t row = (size_t)p->heads.d * (size_t)heads_elt_bytes(&p->heads);
    for (int32_t q = 0; q < p->tree->n_queries; q++)
        for (int32_t h = 0; h < h_q; h++)
            memcpy((char *)e->q + (size_t)(q * h_q + at[h]) * row, (char *)p->q + (size_t)(q * h_q + h) * row,
                   row);

    struct output *moved = output_new(p);
    size_t o_row = (size_t)moved->d * (size_t)heads_elt_bytes(&p->heads);
    struct ledger counted = {0};
    bool good = fc->kernel->run(e, fc->plan, moved, &counted, NULL);
    b->output = output_new(p);
    for (int32_t q = 0; q < p->tree->n_queries; q++)
        for (int32_t h = 0; h < h_q; h++) {
            int64_t to = (int64_t)q * h_q + h, from = (int64_t)q * h_q + at[h];
            memcpy((char *)b->output->o + (size_t)to * o_row, (char *)moved->o + (size_t)from * o_row, o_row);
            output_set_lse(b->output, to, output_lse(moved, from));
        }
    output_free(moved);
    free(at);
    free(used);
    return good;
}

static int32_t round_robin(int32_t h, const struct heads *heads)
{
    return h % heads->h_kv;
}

/* The two conventions in use: blocks of g heads per KV head (ours), or round robin. */
KIND(gqa_interleaved,
     fc->problem->heads.h_kv > 1 && heads_gqa(&fc->problem->heads) > 1 && run_with_heads(fc, b, round_robin))

static int32_t next_head(int32_t h, const struct heads *heads)
{
    return (h / heads_gqa(heads) + 1) % heads->h_kv;
}

/* An off-by-one in the head index. */
KIND(kv_head_next, fc->problem->heads.h_kv > 1 && run_with_heads(fc, b, next_head))
