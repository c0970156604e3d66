/*
 * plugin.c - a plug-in for tests/verify/check_child.c, which takes every view and every type. It turns whatever a view says
 * into the slots that each query sees, and computes attention in double. The environment says what it is, and what it does
 * wrong: PLUGIN_POINTS, PLUGIN_VIEW, PLUGIN_LAYOUT, PLUGIN_LSE, PLUGIN_ORDER, PLUGIN_EMPTY, PLUGIN_DOES.
 *
 * Compiled with -DPLUGIN_OLD it is of 1.0, with -DPLUGIN_LATER of some 1.x to come; with -DPLUGIN_SMALL or -DPLUGIN_FUTURE its
 * struct is too small, or of another ABI; with -DPLUGIN_NAMELESS the symbol is not there.
 */
#include "tests/plugin/narrow.h"
#include "verify/child/treeattn_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *env(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int is(const char *name, const char *value)
{
    return strcmp(env(name, ""), value) == 0;
}

/* ---- elements ----------------------------------------------------------------------------------------- */

static double get(const struct ta_tensor *t, int64_t i)
{
    if (t->bits == 64)
        return ((const double *)t->data)[i];
    if (t->bits == 32)
        return (double)((const float *)t->data)[i];
    if (t->bits == 8) {
        uint8_t b = ((const uint8_t *)t->data)[i];
        return (double)(t->code == 10 ? from_e4m3(b) : from_half((uint16_t)(b << 8)));
    }
    uint16_t h = ((const uint16_t *)t->data)[i];
    return (double)(t->code == 2 ? from_half(h) : from_bf16(h));
}

/* To nearest even: the neighbour below in size, or the one above. */
static void put(const struct ta_tensor *t, int64_t i, double x)
{
    uint16_t low = 0, high;
    struct ta_tensor one = *t;
    one.data = &low;
    if (t->bits == 64) {
        ((double *)t->data)[i] = x;
    } else if (t->bits == 32) {
        ((float *)t->data)[i] = (float)x;
    } else {
        uint16_t best = 0, top = t->code == 2 ? 0x7c00 : 0x7f80;
        for (int bit = 14; bit >= 0;
             bit--) { /* bits grow with the number: the largest that is not over |x| */
            low = (uint16_t)(best | 1 << bit);
            if (low < top && get(&one, 0) <= fabs(x))
                best = low;
        }
        low = high = best;
        high++;
        double below = get(&one, 0);
        low = high;
        double above = get(&one, 0), middle = (below + above) / 2;
        if (fabs(x) > middle || (fabs(x) == middle && best & 1))
            best = high;
        ((uint16_t *)t->data)[i] = (uint16_t)(best | (x < 0 ? 0x8000 : 0));
    }
}

/* ---- what each view says: the slots of query q, in order, into slot; how many ---------------------------- */

static int64_t of_pages(const struct ta_case *c, const int32_t *page, int64_t tokens, int64_t *slot)
{
    for (int64_t j = 0; j < tokens; j++)
        slot[j] = (int64_t)page[j / c->page_size] * c->page_size + j % c->page_size;
    return tokens;
}

static int64_t of_tree(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *parent = ta_i32(c, "parent"), *page = ta_i32(c, "node_page");
    const int64_t *len = ta_find(c, "len")->data, *upto = ta_find(c, "query_upto")->data,
                  *ptr = ta_find(c, "node_page_ptr")->data;
    int32_t path[4096], depth = 0;
    int64_t n = 0;
    for (int32_t i = ta_i32(c, "query_node")[q]; i >= 0; i = parent[i])
        path[depth++] = i;
    while (depth-- > 0)
        n += of_pages(c, page + ptr[path[depth]], depth ? len[path[depth]] : upto[q], slot + n);
    const struct ta_tensor *since = ta_find(c, "query_since");
    int64_t out = since ? ((const int64_t *)since->data)[q] : 0; /* before the window */
    memmove(slot, slot + out, (size_t)(n - out) * sizeof *slot);
    return n - out;
}

static int64_t of_levels(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *level = ta_i32(c, "level_ptr"), *qo = ta_i32(c, "qo_indptr"), *kv = ta_i32(c, "kv_indptr"),
                  *page = ta_i32(c, "kv_indices"), *last = ta_i32(c, "last_page_len");
    int64_t n = 0, base = 0, levels = ta_find(c, "level_ptr")->shape[0] - 1;
    for (int64_t l = 0; l < levels; l++) {
        for (int64_t s = level[l]; s < level[l + 1]; s++)
            if (qo[s + l] <= q && q < qo[s + l + 1] && kv[s + l + 1] > kv[s + l])
                n += of_pages(c, page + base + kv[s + l],
                              (int64_t)(kv[s + l + 1] - kv[s + l] - 1) * c->page_size + last[s], slot + n);
        base += kv[level[l + 1] + l];
    }
    return n;
}

static int64_t of_mask(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *qo = ta_i32(c, "qo_indptr"), *kv = ta_i32(c, "kv_indptr"),
                  *index = ta_i32(c, "kv_indices"), *at = ta_i32(c, "mask_indptr");
    const uint8_t *mask = ta_find(c, "mask")->data;
    int64_t n = 0;
    int r = 0;
    while (q >= qo[r + 1])
        r++;
    const char *form = env("PLUGIN_MASK", "bits");
    for (int64_t j = 0, tokens = kv[r + 1] - kv[r]; j < tokens; j++) {
        int64_t bit = (q - qo[r]) * tokens + j, word = at[r] + (q - qo[r]) * ((tokens + 31) / 32) + j / 32;
        int sees = strcmp(form, "bool") == 0 ? mask[at[r] + bit]
                   : strcmp(form, "words") == 0
                       ? (int)(((const uint32_t *)(const void *)mask)[word] >> (j % 32) & 1)
                       : mask[at[r] + bit / 8] >> (bit % 8) & 1;
        if (sees)
            slot[n++] = index[kv[r] + j];
    }
    return n;
}

/* The last queries of a request are its last tokens. */
static int64_t of_request(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *start = ta_i32(c, "query_start_loc"), *lens = ta_i32(c, "seq_lens");
    const struct ta_tensor *table = ta_find(c, "block_table");
    int32_t r = 0;
    while (q >= start[r + 1])
        r++;
    return of_pages(c, (const int32_t *)table->data + r * table->shape[1], lens[r] - (start[r + 1] - 1 - q), slot);
}

/* With a window, lists of pages have all of the path. */
static int64_t of_window(const struct ta_case *c, int64_t *slot, int64_t n)
{
    const struct ta_tensor *window = ta_find(c, "window");
    int64_t out = window && n > *(const int64_t *)window->data ? n - *(const int64_t *)window->data : 0;
    memmove(slot, slot + out, (size_t)(n - out) * sizeof *slot);
    return n - out;
}

static int64_t slots_of(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const char *view = env("PLUGIN_VIEW", "slots");
    const int32_t *ptr = ta_i32(c, "kv_indptr"), *index = ta_i32(c, "kv_indices");
    int64_t n = 0;
    if (strcmp(view, "tree") == 0)
        return of_tree(c, q, slot);
    if (strcmp(view, "levels") == 0)
        return of_levels(c, q, slot);
    if (strcmp(view, "masked") == 0)
        return of_mask(c, q, slot);
    if (strcmp(view, "extend") == 0)
        return of_window(c, slot, of_request(c, q, slot));
    if (strcmp(view, "paged") == 0) {
        n = ptr[q + 1] > ptr[q] ? (int64_t)(ptr[q + 1] - ptr[q] - 1) * c->page_size + ta_i32(c, "last_page_len")[q]
                                : 0;
        return of_window(c, slot, of_pages(c, index + ptr[q], n, slot));
    }
    if (strcmp(view, "slots") != 0) { /* block_table, prefix */
        const struct ta_tensor *table = ta_find(c, "block_table"), *common = ta_find(c, "common_prefix_len");
        const int32_t *row = (const int32_t *)table->data + q * table->shape[1];
        int64_t shared = common ? *(const int32_t *)common->data / c->page_size : 0;
        n = of_pages(c, row,
                     is("PLUGIN_DOES", "read padding") ? table->shape[1] * c->page_size
                                                       : ta_i32(c, "seq_lens")[q],
                     slot);
        of_pages(c, table->data, shared * c->page_size, slot); /* of the first query, which has them, too */
        return of_window(c, slot, n);
    }
    for (; n < ptr[q + 1] - ptr[q]; n++)
        slot[n] = index[ptr[q] + n];
    return n;
}

/* ---- attention ---------------------------------------------------------------------------------------- */

static int64_t element(const struct ta_case *c, int64_t slot, int32_t head)
{
    if (is("PLUGIN_DOES", "32 bits"))
        return (int32_t)((uint32_t)(slot * c->n_kv_heads + head) * (uint32_t)c->head_dim);
    if (is("PLUGIN_DOES", "dense"))
        return (slot * c->n_kv_heads + head) * c->head_dim;
    if (is("PLUGIN_LAYOUT", "interleaved") || is("PLUGIN_LAYOUT", "strides"))
        return slot / c->page_size * c->k.strides[0] + slot % c->page_size * c->k.strides[1] +
               head * c->k.strides[2];
    if (is("PLUGIN_LAYOUT", "HND"))
        return ((slot / c->page_size * c->n_kv_heads + head) * c->page_size + slot % c->page_size) *
               c->head_dim;
    return (slot * c->n_kv_heads + head) * c->head_dim;
}

/* Of V's rows, which are a part of K's, or have a length of their own. */
static int64_t element_of_v(const struct ta_case *c, int64_t slot, int32_t head)
{
    struct ta_case own = *c;
    if (c->v.data != c->k.data)
        own.head_dim = c->head_dim_v;
    return element(&own, slot, head);
}

/* What K and V of a head are multiplied by: 1 where they have no scales. */
struct scales {
    const float *k, *v;
};

static struct scales scales_of(const struct ta_case *c)
{
    const struct ta_tensor *k = ta_find(c, "k_scale"), *v = ta_find(c, "v_scale");
    return (struct scales){k ? k->data : NULL, v ? v->data : NULL};
}

static double scaled(const float *scale, int64_t kv_head)
{
    return scale ? (double)scale[kv_head] : 1;
}

/* A score as it is, or through the soft cap. */
static double capped(double soft_cap, double x)
{
    return soft_cap > 0 ? soft_cap * tanh(x / soft_cap) : x;
}

/* The sink of a head, one more score without a V; -inf: there is none. */
static double sink_of(const struct ta_case *c, int64_t head)
{
    const struct ta_tensor *t = ta_find(c, "sinks");
    return t ? (double)((const float *)t->data)[head] : -INFINITY;
}

static int64_t runs; /* calls of run() */

static void row(const struct ta_case *c, int32_t q, int32_t head, const int64_t *slot, int64_t n)
{
    int32_t d = c->head_dim, d_v = c->head_dim_v, kv_head = is("PLUGIN_DOES", "modulo") ? head % c->n_kv_heads
                                                                   : head / (c->n_heads / c->n_kv_heads);
    double max = -INFINITY, sum = 0, o[512] = {0};
    struct scales of = scales_of(c);
    double k_scale = scaled(of.k, kv_head), v_scale = scaled(of.v, kv_head);
    for (int64_t j = 0; j < n; j++) {
        int64_t at = element(c, slot[j], kv_head), at_v = element_of_v(c, slot[j], kv_head);
        double logit = 0;
        for (int32_t i = 0; i < d; i++)
            logit += get(&c->q, ((int64_t)q * c->n_heads + head) * d + i) * get(&c->k, at + i);
        logit = capped(c->soft_cap, c->scale * k_scale * logit);
        double most = logit > max ? logit : max, keep = exp(max - most), add = exp(logit - most);
        for (int32_t i = 0; i < d_v; i++)
            o[i] = keep * o[i] + add * v_scale * get(&c->v, at_v + i);
        sum = keep * sum + add;
        max = most;
    }
    if (is("PLUGIN_DOES", "read tails"))
        for (int64_t j = n ? slot[n - 1] + 1 : 0; j % c->page_size; j++)
            for (int32_t i = 0; i < d_v; i++)
                o[i] += 0 * get(&c->v, element_of_v(c, j, kv_head) + i);
    double sink = sink_of(c, head), with = sink > max ? sink : max;
    if (sink > -INFINITY) {
        for (int32_t i = 0; i < d_v; i++)
            o[i] *= n > 0 ? exp(max - with) : 1;
        sum = (n > 0 ? exp(max - with) * sum : 0) + exp(sink - with);
        max = with;
    }
    double more =
        (is("PLUGIN_DOES", "change") && runs % 2) || (is("PLUGIN_DOES", "batch") && c->n_queries > 1)
            ? 1 + 0x1p-52
        : (is("PLUGIN_DOES", "second run") && runs > 1) || (is("PLUGIN_DOES", "41 alone") && n != 41) ? 2
                                                                                                      : 1;
    for (int32_t i = 0; i < d_v; i++)
        put(&c->o, ((int64_t)q * c->n_heads + head) * d_v + i, sum > 0 ? more * o[i] / sum : 0);
    double lse = sum > 0                      ? (max + log(sum)) / (is("PLUGIN_LSE", "2") ? log(2) : 1)
                 : is("PLUGIN_EMPTY", "+inf") ? INFINITY
                                              : -INFINITY;
    int64_t at = is("PLUGIN_ORDER", "hq") ? (int64_t)head * c->n_queries + q : (int64_t)q * c->n_heads + head;
    if (!is("PLUGIN_DOES", "no LSE"))
        put(&c->lse, at, lse);
}

static double empty_lse(void)
{
    return is("PLUGIN_EMPTY", "+inf") ? INFINITY : -INFINITY;
}

static double lse_unit(void)
{
    return is("PLUGIN_LSE", "2") ? log(2) : 1;
}

/* Softmax of n numbers, in place; their LSE. */
static double softmax(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = x[j] > max ? x[j] : max;
    for (int64_t j = 0; j < n && max > -INFINITY; j++)
        sum += x[j] = exp(x[j] - max);
    for (int64_t j = 0; j < n; j++)
        x[j] = sum > 0 ? x[j] / sum : 0;
    return sum > 0 ? max + log(sum) : -INFINITY;
}

static int64_t lse_place(int64_t q, int64_t head, int64_t n, int64_t heads)
{
    return is("PLUGIN_ORDER", "hq") ? head * n + q : q * heads + head;
}

static int partial(const struct ta_partial *c, char why[TA_WHY])
{
    int64_t d = c->head_dim, d_v = c->head_dim_v, heads = c->n_heads, n = c->n_tokens,
            of_v = c->v.data == c->k.data ? d : d_v; /* elements from row to row */
    double *p = malloc((size_t)(n + 1) * sizeof *p);
    (void)why;
    for (int64_t row = 0; row < c->n_queries * heads; row++) {
        int64_t q = row / heads, kv_head = row % heads / (heads / c->n_kv_heads);
        for (int64_t j = 0; j < n; j++) {
            p[j] = 0;
            for (int64_t i = 0; i < d; i++)
                p[j] += c->scale * scaled(c->k_scale, kv_head) * get(&c->q, row * d + i) *
                        get(&c->k, (c->token[j] * (int64_t)c->n_kv_heads + kv_head) * d + i);
            p[j] = capped(c->soft_cap, p[j]);
            if (c->sees && !c->sees[q * n + j] && !is("PLUGIN_DOES", "no mask"))
                p[j] = -INFINITY;
        }
        double lse = softmax(p, n);
        for (int64_t i = 0; i < d_v; i++) {
            double o = 0;
            for (int64_t j = 0; j < n; j++)
                if (p[j] > 0)
                    o += p[j] * get(&c->v, (c->token[j] * (int64_t)c->n_kv_heads + kv_head) * of_v + i);
            put(&c->o, row * d_v + i, scaled(c->v_scale, kv_head) * o);
        }
        /* by head, the rows of this group are a part of all */
        int64_t at = is("PLUGIN_ORDER", "hq") ? row % heads * c->lse.strides[0] + q : row;
        put(&c->lse, at, lse == -INFINITY ? empty_lse() : lse / lse_unit());
    }
    free(p);
    return TA_OK;
}

static int merge(const struct ta_merge *c, char why[TA_WHY])
{
    int64_t d = c->head_dim, heads = c->n_heads, n = c->n_queries, s = c->n_inputs;
    double *p = malloc((size_t)s * sizeof *p);
    (void)why;
    for (int64_t row = 0; row < n * heads; row++) {
        int64_t at = lse_place(row / heads, row % heads, n, heads);
        for (int64_t j = 0; j < s; j++) {
            p[j] = get(&c->lse_in, j * n * heads + at);
            p[j] = p[j] == empty_lse() ? -INFINITY : p[j] * (is("PLUGIN_DOES", "base e") ? 1 : lse_unit());
        }
        double lse = softmax(p, s);
        for (int64_t i = 0; i < d; i++) {
            double o = 0;
            for (int64_t j = is("PLUGIN_DOES", "lose one"); j < s; j++)
                o += (is("PLUGIN_DOES", "mean") ? 1. / (double)s : p[j]) *
                     get(&c->o_in, (j * n * heads + row) * d + i);
            put(&c->o, row * d + i, o);
        }
        put(&c->lse, at,
            lse > -INFINITY                 ? lse / lse_unit()
            : is("PLUGIN_DOES", "no empty") ? NAN
                                            : empty_lse());
    }
    free(p);
    return TA_OK;
}

/* Softmax over these slots of the pool: O into o[], LSE returned. */
static double attend(const struct ta_case *c, int64_t row, const int64_t *slot, int64_t n, double *o)
{
    int32_t d = c->head_dim, kv_head = (int32_t)(row % c->n_heads / (c->n_heads / c->n_kv_heads));
    double *p = malloc((size_t)(n + 1) * sizeof *p);
    struct scales of = scales_of(c);
    for (int64_t j = 0; j < n; j++) {
        p[j] = 0;
        for (int32_t i = 0; i < d; i++)
            p[j] += c->scale * scaled(of.k, kv_head) * get(&c->q, row * d + i) *
                    get(&c->k, element(c, slot[j], kv_head) + i);
        p[j] = capped(c->soft_cap, p[j]);
    }
    double lse = softmax(p, n);
    for (int32_t i = 0; i < c->head_dim_v; i++) {
        o[i] = 0;
        for (int64_t j = 0; j < n; j++)
            o[i] += p[j] * scaled(of.v, kv_head) * get(&c->v, element_of_v(c, slot[j], kv_head) + i);
    }
    free(p);
    return lse;
}

static void put_row(const struct ta_case *c, int64_t row, const double *o, double lse)
{
    double sink = sink_of(c, row % c->n_heads), with = lse > sink ? lse : sink;
    if (sink > -INFINITY)
        with += log(exp(lse - with) + exp(sink - with));
    for (int32_t i = 0; i < c->head_dim_v; i++)
        put(&c->o, row * c->head_dim_v + i, lse > -INFINITY ? o[i] * exp(lse - with) : 0);
    lse = with;
    put(&c->lse, lse_place(row / c->n_heads, row % c->n_heads, c->n_queries, c->n_heads),
        lse == -INFINITY ? empty_lse() : lse / lse_unit());
}

/* View plan. A slot has a row for each head: O, and LSE behind it. */
static void plan_groups(const struct ta_case *c, int32_t launch, double *room, int64_t *slot)
{
    const int32_t *query_ptr = ta_i32(c, "group_query_ptr"), *query = ta_i32(c, "group_query"),
                  *run_ptr = ta_i32(c, "group_run_ptr"), *node = ta_i32(c, "run_node"),
                  *mask_ptr = ta_i32(c, "group_mask_ptr"), *to = ta_i32(c, "group_slot"),
                  *page = ta_i32(c, "node_page");
    const int64_t *begin = ta_find(c, "run_begin")->data, *end = ta_find(c, "run_end")->data,
                  *ptr = ta_find(c, "node_page_ptr")->data;
    const uint8_t *mask = ta_find(c, "group_mask")->data;
    int64_t d = c->head_dim_v, heads = c->n_heads;
    for (int64_t g = 0; g + 1 < ta_find(c, "group_query_ptr")->shape[0]; g++)
        for (int64_t k = 0; k < query_ptr[g + 1] - query_ptr[g] && ta_i32(c, "group_launch")[g] == launch;
             k++) {
            int64_t runs = run_ptr[g + 1] - run_ptr[g], n = 0;
            for (int64_t r = 0; r < runs; r++) {
                int64_t bit = k * runs + r, at = run_ptr[g] + r;
                if (mask_ptr[g] < mask_ptr[g + 1] && !(mask[mask_ptr[g] + bit / 8] >> (bit % 8) & 1))
                    continue;
                for (int64_t j = begin[at]; j < end[at]; j++)
                    slot[n++] =
                        (int64_t)page[ptr[node[at]] + j / c->page_size] * c->page_size + j % c->page_size;
            }
            for (int64_t h = 0; h < heads; h++) {
                double own[512], *o = to[g] < 0 ? own : room + ((to[g] + k) * heads + h) * (d + 1),
                                 lse = attend(c, query[query_ptr[g] + k] * heads + h, slot, n, o);
                if (to[g] < 0)
                    put_row(c, query[query_ptr[g] + k] * heads + h, o, lse);
                else
                    o[d] = lse;
            }
        }
}

static void plan_merges(const struct ta_case *c, int32_t launch, double *room)
{
    const int32_t *ptr = ta_i32(c, "merge_ptr"), *in = ta_i32(c, "merge_in"), *out = ta_i32(c, "merge_out");
    int64_t d = c->head_dim_v, heads = c->n_heads;
    for (int64_t m = 0; m + 1 < ta_find(c, "merge_ptr")->shape[0]; m++)
        for (int64_t h = 0; h < heads && ta_i32(c, "merge_launch")[m] == launch; h++) {
            int64_t n = ptr[m + 1] - ptr[m];
            double *p = malloc((size_t)(n + 1) * sizeof *p), own[512] = {0};
            for (int64_t j = 0; j < n; j++)
                p[j] = room[(in[ptr[m] + j] * heads + h) * (d + 1) + d];
            double lse = softmax(p, n);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < d; i++)
                    own[i] += p[j] * room[(in[ptr[m] + j] * heads + h) * (d + 1) + i];
            if (out[m] < 0)
                put_row(c, ta_i32(c, "merge_query")[m] * heads + h, own, lse);
            for (int64_t i = 0; i <= d && out[m] >= 0; i++)
                room[(out[m] * heads + h) * (d + 1) + i] = i < d ? own[i] : lse;
            free(p);
        }
}

static void run_plan(const struct ta_case *c, int64_t *slot)
{
    int64_t size = *ta_i32(c, "n_slots") * (int64_t)c->n_heads * (c->head_dim_v + 1);
    double *room = malloc((size_t)(size + 1) * sizeof *room);
    for (int32_t launch = 0; launch < *ta_i32(c, "n_launches"); launch++) {
        plan_groups(c, launch, room, slot);
        plan_merges(c, launch, room);
    }
    free(room);
}

static int run(const struct ta_case *c, char why[TA_WHY])
{
    int64_t *slot = malloc((size_t)(c->k.shape[0] * c->page_size + 1) * sizeof *slot);
    runs++;
    if (is("PLUGIN_DOES", "crash"))
        abort();
    if (is("PLUGIN_DOES", "refuse")) {
        snprintf(why, TA_WHY, "not today");
        return TA_UNSUPPORTED;
    }
    if (is("PLUGIN_VIEW", "plan"))
        run_plan(c, slot);
    for (int32_t q = 0; q < c->n_queries && !is("PLUGIN_VIEW", "plan"); q++) {
        int64_t n = slots_of(c, q, slot);
        for (int32_t head = 0; head < c->n_heads; head++)
            row(c, q, head, slot, n);
    }
    free(slot);
    if (is("PLUGIN_DOES", "write K"))
        ((char *)c->k.data)[3] ^= 1;
    if (is("PLUGIN_DOES", "write K and back")) {
        volatile char *k = c->k.data;
        k[3] ^= 1;
        k[3] ^= 1;
    }
    if (is("PLUGIN_DOES", "write before O"))
        ((char *)c->o.data)[-1] = 0;
    if (is("PLUGIN_DOES", "write behind O"))
        ((char *)c->o.data)[(int64_t)c->n_queries * c->n_heads * c->head_dim * c->o.bits / 8 + 100] = 0;
    return TA_OK;
}

/* What 1.0 had stays where it was. */
enum { SIZE_OF_1_0 = 168 };
_Static_assert(offsetof(struct ta_plugin, partial) == SIZE_OF_1_0 && offsetof(struct ta_plugin, run) == 40 &&
                   offsetof(struct ta_plugin, merge_chain) == 160 && sizeof(struct ta_tensor) == 48 &&
                   offsetof(struct ta_case, index_name) == 288,
               "fields are only added at the end");

/* Is this one of its points? */
static int has(const char *point)
{
    return strstr(env("PLUGIN_POINTS", "attention"), point) != NULL;
}

#ifdef PLUGIN_NAMELESS
#define treeattn_plugin other_plugin
#endif

const struct ta_plugin *treeattn_plugin(uint32_t abi)
{
    static struct ta_plugin me = {
        .size = sizeof me, .abi = TA_ABI, .name = "test", .run = run, .accumulate = "f64", .sum_block = 1};
    (void)abi;
    me.view = env("PLUGIN_VIEW", "slots");
    me.layout = env("PLUGIN_LAYOUT", NULL);
    me.mask = env("PLUGIN_MASK", NULL);
    me.features = env("PLUGIN_FEATURES", NULL);
    me.lse = env("PLUGIN_LSE", NULL);
    me.lse_order = env("PLUGIN_ORDER", NULL);
    me.empty_lse = env("PLUGIN_EMPTY", NULL);
    me.run = has("attention") ? run : NULL;
    me.partial = has("partial") ? partial : NULL;
    me.merge = has("merge") ? merge : NULL;
#ifdef PLUGIN_OLD
    me.size = SIZE_OF_1_0;
    me.partial =
        (int (*)(const struct ta_partial *, char *))(intptr_t)me.size; /* what lies there is not ours */
#endif
#ifdef PLUGIN_LATER
    me.size += 64;
#endif
#ifdef PLUGIN_SMALL
    me.size = 16;
#endif
#ifdef PLUGIN_FUTURE
    me.abi = TA_ABI + 1;
#endif
    return &me;
}
