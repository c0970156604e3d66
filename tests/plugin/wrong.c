/*
 * wrong.c - a plug-in that computes attention in float with one of the mistakes of wrong.def, which the environment names
 * (WRONG=no_scale), for tests/verify/check_cause.c. It knows nothing of verify/judge: what it does wrong is written here anew.
 */
#include "tests/plugin/narrow.h"
#include "verify/child/treeattn_plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum mistake {
#define MISTAKE(name, view, cause) DOES_##name,
#include "tests/plugin/wrong.def"
#undef MISTAKE
    N_MISTAKES
};
static const char *const mistake_name[] = {
#define MISTAKE(name, view, cause) #name,
#include "tests/plugin/wrong.def"
#undef MISTAKE
};
static const char *const mistake_view[] = {
#define MISTAKE(name, view, cause) #view,
#include "tests/plugin/wrong.def"
#undef MISTAKE
};

enum { TILE = 32, PART = 64, MOST_D = 256 };
static enum mistake does = N_MISTAKES;

#define is(name) (does == DOES_##name)

/* ---- what a query reads ---------------------------------------------------------------------------------- */

static int64_t of_slots(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *ptr = ta_i32(c, "kv_indptr"), *index = ta_i32(c, "kv_indices");
    int32_t from = is(path_next) && q + 1 < c->n_queries ? q + 1
                   : is(path_0)                          ? 0
                                                         : q,
            begin = ptr[from], end = ptr[from + 1];
    int64_t n = 0;
    if (is(last_missing) || (is(two_mistakes) && end > begin))
        end--;
    if (is(first_missing))
        begin++;
    if (is(one_more) && q + 1 < c->n_queries)
        end++;
    if (is(list_shifted) && q + 1 < c->n_queries) {
        begin++;
        end++;
    }
    if (is(rest_missing))
        end = begin + (end - begin) / TILE * TILE;
    if (is(window) && end - begin > 32)
        begin = end - 32;
    for (int32_t i = begin; i < end; i++)
        if (!(is(part_last_missing) && ((i - begin) % PART == PART - 1 || i + 1 == end)) &&
            !(is(token_7) && i - begin == 7))
            slot[n++] = is(table_ignored) ? i - begin : index[i];
    return n;
}

static int64_t of_pages(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *ptr = ta_i32(c, "kv_indptr"), *index = ta_i32(c, "kv_indices"),
                  *last = ta_i32(c, "last_page_len");
    int64_t pages = ptr[q + 1] - ptr[q], size = c->page_size, rest = pages > 0 ? last[q] : 0;
    if (is(tail_read))
        rest = size;
    if ((is(tail_dropped) && rest < size) || (is(full_dropped) && rest == size))
        rest = 0;
    if (is(page_more) && rest == size && q + 1 < c->n_queries)
        rest = 2 * size;
    int64_t n = pages > 0 ? (pages - 1) * size + rest : 0;
    int64_t as = is(page_size_off) && size > 1 ? size / 2 : size;
    for (int64_t j = 0; j < n; j++) {
        int64_t page = is(pages_in_order)
                           ? j / as
                           : index[ptr[q] + j / as < ptr[c->n_queries] ? ptr[q] + j / as : ptr[q]];
        slot[j] = (page - (is(page_off) && page > 0)) * as + j % as;
    }
    return n;
}

/* Tokens of a node, the first of which are out of the window. */
static int64_t add_node(const struct ta_case *c, int32_t node, int64_t out, int64_t n, int64_t *slot)
{
    const int32_t *page = ta_i32(c, "node_page");
    const int64_t *ptr = ta_find(c, "node_page_ptr")->data;
    int64_t m = 0;
    for (int64_t i = out; i < n; i++) {
        int64_t j = is(run_offsets) ? i % PART : i;
        if (!is(run_last_missing) || (i % PART != PART - 1 && i + 1 < n))
            slot[m++] = (int64_t)page[ptr[node] + j / c->page_size] * c->page_size + j % c->page_size;
    }
    return m;
}

/* Tokens of the path of query q, in front of its window, too. */
static int64_t path_tokens(const struct ta_case *c, int32_t q)
{
    const int64_t *len = ta_find(c, "len")->data;
    int64_t n = ((const int64_t *)ta_find(c, "query_upto")->data)[q];
    for (int32_t i = ta_i32(c, "parent")[ta_i32(c, "query_node")[q]]; i >= 0; i = ta_i32(c, "parent")[i])
        n += len[i];
    return n;
}

/* How many of them are out of a window along all nodes, one behind the other. */
static int64_t out_by_index(const struct ta_case *c, int32_t q)
{
    const int64_t *len = ta_find(c, "len")->data, *upto = ta_find(c, "query_upto")->data,
                  *since = ta_find(c, "query_since")->data;
    int32_t own = ta_i32(c, "query_node")[q];
    int64_t window = 0, out = 0, end = upto[q];
    for (int32_t i = 0; i < c->n_queries; i++)
        if (since[i] > 0 && path_tokens(c, i) - since[i] > window)
            window = path_tokens(c, i) - since[i];
    for (int32_t i = 0; i < own; i++)
        end += len[i];
    for (int32_t i = own; i >= 0; i = ta_i32(c, "parent")[i]) {
        int64_t first = 0, tokens = i == own ? upto[q] : len[i];
        for (int32_t k = 0; k < i; k++)
            first += len[k];
        int64_t before = end - window - first;
        out += before < 0 ? 0 : before < tokens ? before : tokens;
    }
    return out;
}

static int64_t of_tree(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *parent = ta_i32(c, "parent");
    const int64_t *len = ta_find(c, "len")->data, *upto = ta_find(c, "query_upto")->data;
    int32_t own = ta_i32(c, "query_node")[q], path[4096], depth = 0,
            nodes = (int32_t)ta_find(c, "parent")->shape[0];
    int64_t n = 0;
    if (is(all_nodes) || is(lower_nodes)) {
        for (int32_t i = 0; i < nodes; i++)
            if (is(all_nodes) || i < own)
                n += add_node(c, i, 0, len[i], slot + n);
        return is(all_nodes) ? n : n + add_node(c, own, 0, upto[q], slot + n);
    }
    for (int32_t i = own; i >= 0; i = parent[i])
        path[depth++] = i;
    const struct ta_tensor *since = ta_find(c, "query_since");
    int64_t left = since && !is(win_ignored) ? ((const int64_t *)since->data)[q] : 0;
    if (is(win_by_index) && since)
        left = out_by_index(c, q);
    left -= is(win_early) && left > 0;
    left += is(win_late) && left > 0;
    for (int32_t i = depth; i-- > 0;) {
        int64_t tokens = i == 0 && !is(upto_ignored) ? upto[q] : len[path[i]];
        int32_t root = i == depth - 1;
        if ((is(leaf_only) && i > 0) || (is(root_only) && !root) || (is(root_missing) && root))
            continue;
        int64_t out = left < tokens ? left : tokens;
        left -= out;
        n += add_node(c, path[i], out, tokens, slot + n);
        if (is(root_twice) && root)
            n += add_node(c, path[i], out, tokens, slot + n);
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
    for (int64_t j = 0, tokens = kv[r + 1] - kv[r]; j < tokens; j++) {
        int64_t bit = (q - qo[r]) * tokens + j;
        int shift = is(mask_msb) ? 7 - (int)(bit % 8) : (int)(bit % 8);
        if (is(mask_ignored) || mask[at[r] + bit / 8] >> shift & 1)
            slot[n++] = index[kv[r] + j];
    }
    return n;
}

/* Query i of n that are the last of `len` tokens sees len - n + i + 1. */
static int64_t of_request(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const int32_t *start = ta_i32(c, "query_start_loc"), *lens = ta_i32(c, "seq_lens");
    const struct ta_tensor *table = ta_find(c, "block_table");
    int32_t r = 0, requests = (int32_t)table->shape[0];
    while (q >= start[r + 1])
        r++;
    int32_t from = is(tail_next) && r + 1 < requests ? r + 1 : is(tail_before) && r > 0 ? r - 1 : r;
    int32_t n = start[from + 1] - start[from], i = q - start[r], len = lens[r], sees = len - n + i + 1;
    sees += is(tail_late) - is(tail_early);
    if (is(tail_top_left))
        sees = i + 1;
    if (is(tail_whole) || sees > len)
        sees = len;
    for (int32_t j = 0; j < sees; j++)
        slot[j] = (int64_t)((const int32_t *)table->data)[r * table->shape[1] + j / c->page_size] * c->page_size +
                  j % c->page_size;
    return sees;
}

static int64_t reads(const struct ta_case *c, int32_t q, int64_t *slot)
{
    const char *view = mistake_view[does];
    return strcmp(view, "paged") == 0    ? of_pages(c, q, slot)
           : strcmp(view, "extend") == 0 ? of_request(c, q, slot)
           : strcmp(view, "tree") == 0   ? of_tree(c, q, slot)
           : strcmp(view, "masked") == 0 ? of_mask(c, q, slot)
                                         : of_slots(c, q, slot);
}

/* ---- a partial result ------------------------------------------------------------------------------------- */

struct part {
    float o[MOST_D], max, sum, lse;
};

static float score(const struct ta_case *c, int32_t q, int32_t head, const float *k)
{
    const float *x = (const float *)c->q.data + ((int64_t)q * c->n_heads + head) * c->head_dim;
    int32_t d = is(half_of_d) ? c->head_dim / 2 : is(d_of_16) && c->head_dim > 16 ? 16 : c->head_dim;
    float dot = 0, scale = (float)c->scale;
    int32_t d_v = c->head_dim_v, turned = is(mla_rope_first) ? d - d_v : 0;
    if (is(mla_rope_out) || is(nv_first_of_k))
        d = d_v;
    for (int32_t i = is(mla_rope_alone) ? d_v : 0; i < d; i++)
        dot += x[(i + turned) % c->head_dim] * k[i];
    if (is(no_scale))
        scale = 1;
    if (is(scale_1_over_d))
        scale = 1 / (float)c->head_dim;
    if (is(mla_scale_of_v) || is(nv_scale_of_v))
        scale = 1 / sqrtf((float)d_v);
    if (is(scale_twice))
        scale *= scale;
    if (is(scale_off))
        scale *= 1.07f;
    if (is(log2e_twice))
        scale *= (float)M_LOG2E;
    float cap = is(cap_none) ? 0 : (float)c->soft_cap;
    if (is(cap_before_scale))
        return scale * cap * tanhf(dot / cap);
    dot *= scale;
    if (cap > 0 && is(cap_clamped))
        return fminf(fmaxf(dot, -cap), cap);
    if (cap > 0)
        dot = (is(cap_not_back) ? 1 : cap) * tanhf(is(cap_undivided) ? dot : dot / cap);
    if (is(cap_twice))
        dot = cap * tanhf(dot / cap);
    return is(soft_cap) ? 30 * tanhf(dot / 30) : is(scores_f16) ? to_half(dot) : dot;
}

static float power(float x)
{
    return is(exp2) ? exp2f(x) : expf(x);
}

static int has_sinks(const struct ta_case *c)
{
    return c->n_index > 0 && ta_find(c, "sinks") != NULL;
}

/* As it is taken for that query head. */
static float sink_of(const struct ta_case *c, int32_t q, int32_t head)
{
    const float *sink = ta_find(c, "sinks")->data;
    int32_t from = is(sinks_head_0)      ? 0
                   : is(sinks_next_head) ? (head + 1) % c->n_heads
                   : is(sinks_of_query)  ? (head + q) % c->n_heads
                   : is(sinks_kv_head)   ? head / (c->n_heads / c->n_kv_heads)
                                         : head;
    float x = sink[from];
    if (is(sinks_scaled))
        x *= (float)c->scale;
    if (is(sinks_capped))
        x = (float)c->soft_cap * tanhf(x / (float)c->soft_cap);
    if (is(sinks_base_2))
        x *= (float)M_LN2;
    if (is(sinks_twice))
        x += (float)M_LN2;
    return x;
}

static void attend(const struct ta_case *c, int32_t q, int32_t head, const int64_t *slot, int64_t n,
                   struct part *p)
{
    int32_t d = c->head_dim_v, g = c->n_heads / c->n_kv_heads, kv = c->n_kv_heads, own = head / g;
    const float *k = c->k.data, *v = c->v.data;
    int64_t k_row = c->head_dim, v_row = k == v ? k_row : d, slots = c->k.shape[0];
    if (is(mla_rows_of_v) || is(mla_k_rows) || is(nv_k_rows))
        k_row = d;
    if (is(mla_rows_of_v))
        v_row = d;
    if (is(nv_v_rows))
        v_row = c->head_dim;
    if (is(mla_v_last))
        v += c->head_dim - d;
    if (is(modulo))
        own = head % kv;
    if (is(head_0))
        own = 0;
    if (is(heads_reversed))
        own = kv - 1 - own;
    if (is(head_next) || is(two_others))
        own = (own + 1) % kv;
    if (is(groups_of_4))
        own = head / 4;
    if (is(by_kv_heads))
        own = head / kv % kv;
    *p = (struct part){.max = is(max_from_0) ? 0 : is(max_from_1e4) ? -1e4f : -INFINITY};
    for (int64_t begin = 0; begin < n; begin += TILE) {
        int64_t end = begin + TILE < n ? begin + TILE : n;
        float s[TILE], max = p->max;
        for (int64_t j = begin; j < end; j++) {
            s[j - begin] = score(c, q, head, (is(kv_exchanged) ? v : k) + (slot[j] * kv + own) * k_row);
            max = fmaxf(max, s[j - begin]);
        }
        if (is(no_max))
            max = 0;
        float keep = power(p->max - max);
        for (int32_t i = 0; i < d && !is(o_not_rescaled) && !is(nothing_rescaled) && !is(mean_of_v); i++)
            p->o[i] *= keep;
        p->sum *= is(sum_not_rescaled) || is(nothing_rescaled) ? 1 : keep;
        for (int64_t j = begin; j < end; j++) {
            float w = power(s[j - begin] - max), narrow = is(p_bf16) ? to_bf16(w) : w;
            int64_t at = slot[j] + (is(mla_v_next) && slot[j] + 1 < slots);
            const float *x = (is(k_for_v) || is(kv_exchanged) ? k : v) + (at * kv + own) * v_row;
            if (is(small_weights) && w < 0.05f)
                narrow = 0;
            p->sum += w;
            for (int32_t i = 0; i < d; i++) {
                float y = is(v_clamped) ? fminf(fmaxf(x[i], -1), 1) : x[i];
                p->o[i] += (is(mean_of_v) ? 1 : narrow) * y;
                if (is(sum_f16))
                    p->o[i] = to_half(p->o[i]);
            }
        }
        p->max = max;
    }
    float sum = is(mean_of_v) ? (float)n : p->sum;
    if (is(sink_in_each) || is(sinks_in_each)) {
        float sink = is(sink_in_each) ? 0 : sink_of(c, q, head), top = fmaxf(p->max, sink),
              keep = expf(p->max - top);
        for (int32_t i = 0; i < d; i++)
            p->o[i] *= keep;
        sum = p->sum = p->sum * keep + expf(sink - top);
        p->max = top;
    }
    for (int32_t i = 0; i < d && !is(not_divided); i++)
        p->o[i] = sum > 0 ? p->o[i] / sum : 0;
    p->lse = is(part_lse_max) ? p->max : p->sum > 0 ? p->max + logf(p->sum) : -INFINITY;
}

/* ---- the merge --------------------------------------------------------------------------------------------- */

/* b into a; `first`: there is nothing in a yet. */
static void merge(struct part *a, const struct part *b, int32_t d, int first, int last)
{
    if (first && !is(merge_from_0)) {
        *a = *b;
        if (is(merge_doubles))
            a->lse += logf(2);
        return;
    }
    if ((is(merge_first) && !first) || (is(merge_drops) && last))
        return;
    if (is(merge_last)) {
        *a = *b;
        return;
    }
    float max = fmaxf(a->lse, b->lse), x = expf(a->lse - max), y = expf(b->lse - max), sum = x + y;
    if (is(merge_mean))
        x = y = sum / 2;
    if (is(merge_sum))
        x = y = sum;
    if (is(not_merged))
        x *= sum, y *= sum;
    if (is(merge_by_lse)) {
        x = sum * a->lse / (a->lse + b->lse);
        y = sum * b->lse / (a->lse + b->lse);
    }
    if (is(merge_squared)) {
        x *= x * sum / (x * x + y * y);
        y = sum - x;
    }
    if (is(merge_swapped) || is(tree_swapped)) {
        float t = x;
        x = y;
        y = t;
    }
    if (is(merge_no_max)) {
        x = a->sum;
        y = b->sum;
        sum = x + y;
    }
    for (int32_t i = 0; i < d; i++)
        a->o[i] = (x * a->o[i] + y * b->o[i]) / sum;
    if (is(merge_lse_added))
        a->lse += b->lse;
    else if (is(merge_log2) || is(tree_log2))
        a->lse = max + log2f(sum);
    else if (is(merge_lse_twice))
        a->lse = max + logf(x + 2 * y);
    else if (is(merge_no_max))
        a->lse = fmaxf(a->max, b->max) + logf(sum);
    else
        a->lse = max + logf(sum);
    a->max = fmaxf(a->max, b->max);
    a->sum = is(merge_no_max) ? sum : a->sum;
}

/* Both halves of the parts, then one of the two. */
static void merge_tree(const struct ta_case *c, int32_t q, int32_t head, const int64_t *slot, int64_t n,
                       struct part *all)
{
    int64_t half = PART;
    while (2 * half < n)
        half *= 2;
    if (n <= PART) {
        attend(c, q, head, slot, n, all);
        return;
    }
    struct part right;
    merge_tree(c, q, head, slot, half, all);
    merge_tree(c, q, head, slot + half, n - half, &right);
    merge(all, &right, c->head_dim_v, 0, 0);
}

/* ---- a row --------------------------------------------------------------------------------------------------- */

static void lse_wrongly(const struct ta_case *c, struct part *p, float max, int64_t n)
{
    float sum = expf(p->lse - max);
    if (n == 0)
        return;
    if (is(lse_base_2))
        p->lse *= (float)M_LOG2E;
    if (is(lse_mixed))
        p->lse = max + log2f(sum);
    if (is(lse_max))
        p->lse = max;
    if (is(lse_no_max))
        p->lse = logf(sum);
    if (is(lse_no_log))
        p->lse = max + sum;
    if (is(lse_sign))
        p->lse = -p->lse;
    if (is(lse_unscaled))
        p->lse = max / (float)c->scale + logf(sum);
    if (is(two_others))
        p->lse *= (float)M_LOG2E;
}

/* One more weight, whose V is 0. max: the largest score. */
static void add_sink(const struct ta_case *c, int32_t q, int32_t head, float max, struct part *all)
{
    float sink = sink_of(c, q, head);
    if (is(sinks_as_weight) && max > -INFINITY)
        sink = max + logf(sink);
    if (is(sinks_not_shifted) && max > -INFINITY)
        sink += max;
    float top = fmaxf(all->lse, sink), lse = top + logf(expf(sink - top) + expf(all->lse - top));
    for (int32_t i = 0; i < c->head_dim_v && !is(sinks_not_in_o); i++)
        all->o[i] *= expf(all->lse - lse);
    if (!is(sinks_not_in_lse))
        all->lse = lse;
    if (is(cap_on_lse) && c->soft_cap > 0)
        all->lse = (float)c->soft_cap * tanhf(all->lse / (float)c->soft_cap);
}

/* Queries of nodes before its own, and those of its own before it. */
static int32_t place_by_node(const struct ta_case *c, int32_t q)
{
    const int32_t *node = ta_i32(c, "query_node");
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_queries; i++)
        n += node[i] < node[q] || (node[i] == node[q] && i < q);
    return n;
}

static int64_t splits(int64_t tokens)
{
    return (tokens + PART - 1) / PART;
}

static int64_t longest(const struct ta_case *c)
{
    const int32_t *ptr = ta_i32(c, "kv_indptr");
    int64_t most = 0;
    for (int32_t q = 0; q < c->n_queries; q++)
        most = ptr[q + 1] - ptr[q] > most ? ptr[q + 1] - ptr[q] : most;
    return most;
}

static void row(const struct ta_case *c, int32_t q, int32_t head, const int64_t *slot, int64_t n)
{
    int32_t d = c->head_dim_v;
    struct part all = {.lse = is(merge_from_0) ? 0 : -INFINITY, .max = -INFINITY}, one;
    float max = -INFINITY;
    /* what is read wrongly is read by a plain loop */
    int64_t part = does < DOES_last_missing || does == DOES_part_last_missing ? PART : n;
    if (is(tree_swapped) || is(tree_log2))
        merge_tree(c, q, head, slot, n, &all);
    for (int64_t begin = 0; begin < n && !is(tree_swapped) && !is(tree_log2); begin += part) {
        int64_t end = begin + part < n ? begin + part : n;
        attend(c, q, head, slot + begin, end - begin, &one);
        max = fmaxf(max, one.max);
        merge(&all, &one, d, begin == 0, end == n);
    }
    if (is(sink) && n > 0) {
        float top = fmaxf(all.lse, 0), lse = top + logf(expf(-top) + expf(all.lse - top));
        for (int32_t i = 0; i < d; i++)
            all.o[i] *= expf(all.lse - lse);
        all.lse = lse;
    }
    int counts = has_sinks(c) && !is(sinks_none) && !is(sinks_in_each) && !(is(sinks_lost) && n == 0) &&
                 !(is(sinks_last_split) && n > 0 && splits(n) < splits(longest(c)));
    if (counts)
        add_sink(c, q, head, max, &all);
    lse_wrongly(c, &all, max, n);
    int64_t at = (int64_t)q * c->n_heads + head, to = at, lse_to = at,
            turned = (int64_t)head * c->n_queries + q;
    if (is(o_turned))
        to = lse_to = turned;
    if (is(lse_turned))
        lse_to = turned;
    if (is(node_order))
        to = lse_to = (int64_t)place_by_node(c, q) * c->n_heads + head;
    if (is(queries_off))
        to = lse_to = (int64_t)((q + 1) % c->n_queries) * c->n_heads + head;
    if (is(heads_off))
        to = lse_to = (int64_t)q * c->n_heads + (head + 1) % c->n_heads;
    uint32_t noise = (uint32_t)at * 2654435761u;
    if ((is(unwritten) && at % 7 == 3) || (is(few_heads) && head >= c->n_kv_heads))
        return;
    float *o = (float *)c->o.data + to * d;
    for (int32_t i = 0; i < d; i++) {
        noise = noise * 1664525u + 1013904223u;
        float random = (float)(noise >> 8) / 16777216.f - 0.5f;
        o[i] = is(zeros) || is(empties) ? 0 : all.o[is(o_halves) ? (i + d / 2) % d : i];
        if ((is(noise) && at % 33 == 5) || is(noise_everywhere))
            o[i] += 0.1f * random;
        if (is(zeros_of_most))
            o[i] = (uint32_t)at * 2654435761u >> 30 ? 0 : o[i] + 0.1f * random;
        if (is(two_mistakes))
            o[i] *= 1.5f;
        if (is(one_column) && i == 7)
            o[i] = o[i] * 1.3f + 0.2f;
    }
    if (!is(lse_unwritten))
        ((float *)c->lse.data)[lse_to] = is(empties) ? -INFINITY : all.lse;
}

/* ---- parts of attention ------------------------------------------------------------------------------------- */

static int partial(const struct ta_partial *x, char why[TA_WHY])
{
    const struct ta_case c = {.size = sizeof c,
                              .n_queries = x->n_queries,
                              .n_heads = x->n_heads,
                              .n_kv_heads = x->n_kv_heads,
                              .head_dim = x->head_dim,
                              .head_dim_v = x->head_dim_v,
                              .page_size = 1,
                              .scale = x->scale,
                              .soft_cap = x->soft_cap,
                              .q = x->q,
                              .k = x->k,
                              .v = x->v,
                              .o = x->o,
                              .lse = x->lse};
    int64_t *slot = malloc(((size_t)x->n_tokens + 1) * sizeof *slot);
    (void)why;
    for (int32_t q = 0; q < x->n_queries; q++) {
        int64_t n = 0;
        for (int32_t j = 0; j < x->n_tokens; j++)
            if (is(mask_unread) || !x->sees || x->sees[(int64_t)q * x->n_tokens + j])
                slot[n++] = x->token[j];
        for (int32_t h = 0; h < x->n_heads; h++)
            row(&c, q, h, slot, n);
    }
    free(slot);
    return TA_OK;
}

static int merge_all(const struct ta_merge *x, char why[TA_WHY])
{
    const float *o_in = x->o_in.data, *lse_in = x->lse_in.data;
    float *o = x->o.data, *lse = x->lse.data;
    int64_t rows = (int64_t)x->n_queries * x->n_heads, d = x->head_dim,
            n = is(two_inputs) && x->n_inputs > 2 ? 2 : x->n_inputs;
    (void)why;
    for (int64_t r = 0; r < rows; r++) {
        float max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++)
            max = fmaxf(max, lse_in[j * rows + r]);
        int none = max == -INFINITY && !is(empty_is_nan);
        for (int64_t i = 0; i < d; i++)
            o[r * d + i] = 0;
        for (int64_t j = 0; j < n && !none; j++) {
            float w =
                is(empty_counts) && lse_in[j * rows + r] == -INFINITY ? 1 : expf(lse_in[j * rows + r] - max);
            sum += w;
            for (int64_t i = 0; i < d; i++)
                o[r * d + i] += w * o_in[(j * rows + r) * d + i];
        }
        for (int64_t i = 0; i < d && !none; i++)
            o[r * d + i] /= sum;
        lse[r] = none ? -INFINITY : max + (is(log2_of_inputs) ? log2f(sum) : logf(sum));
    }
    return TA_OK;
}

/* ---- K and V in 8 bits --------------------------------------------------------------------------------------- */

/* K, or V, as floats times their scales; the caller frees. */
static float *widened(const struct ta_case *c, int v)
{
    const struct ta_tensor *t = v ? &c->v : &c->k;
    const uint8_t *code = t->data;
    int other = is(fp8_scales_exchanged) ? !v : v, e4m3 = (t->code == 10) != is(fp8_other);
    const float *scale = ta_find(c, other ? "v_scale" : "k_scale")->data;
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        int32_t h = (int32_t)(i / c->head_dim % c->n_kv_heads), from = h;
        if ((v && is(fp8_v_scale_of_0)) || is(fp8_scales_of_0))
            from = 0;
        if (!v && is(fp8_k_scale_next))
            from = (h + 1) % c->n_kv_heads;
        float by = scale[from];
        if ((!v && is(fp8_k_unscaled)) || (v && is(fp8_v_unscaled)) || is(fp8_unscaled))
            by = 1;
        if ((!v && is(fp8_k_twice)) || (v && is(fp8_v_twice)))
            by *= by;
        if (v && is(fp8_v_divided))
            by = 1 / by;
        x[i] = e4m3 ? from_e4m3(code[i]) : from_half((uint16_t)(code[i] << 8));
        if (is(fp8_bias))
            x[i] /= 2;
        if (is(fp8_flushed) && (code[i] & (e4m3 ? 0x78 : 0x7C)) == 0)
            x[i] = 0;
        x[i] *= by;
        if (is(fp8_to_bf16))
            x[i] = to_bf16(x[i]);
    }
    return x;
}

static int run(const struct ta_case *given, char why[TA_WHY])
{
    int64_t *slot = malloc(sizeof *slot << 22);
    struct ta_case wide = *given, *c = &wide;
    float *k = given->k.bits == 8 ? widened(given, 0) : NULL, *v = k ? widened(given, 1) : NULL;
    if (k) {
        wide.k.data = k;
        wide.v.data = v;
    }
    (void)why;
    for (int32_t q = 0; q < c->n_queries; q++) {
        int64_t n = reads(c, q, slot);
        for (int32_t h = 0; h < c->n_heads; h++)
            row(c, q, h, slot, n < 0 ? 0 : n);
    }
    free(slot);
    free(k);
    free(v);
    return TA_OK;
}

const struct ta_plugin *treeattn_plugin(uint32_t abi)
{
    static struct ta_plugin me = {.size = sizeof me,
                                  .abi = TA_ABI,
                                  .name = "wrong",
                                  .dtypes = "f32",
                                  .features = "softcap sinks window e4m3 e5m2 headscales latent narrowv",
                                  .run = run};
    const char *name = getenv("WRONG");
    for (int i = 0; i < N_MISTAKES; i++)
        if (name && strcmp(name, mistake_name[i]) == 0)
            does = (enum mistake)i;
    me.view = does < N_MISTAKES ? mistake_view[does] : "slots";
    me.layout = is(strides_ignored) ? "strides" : NULL;
    if (strcmp(me.view, "partial") == 0 || strcmp(me.view, "merge") == 0) {
        me.partial = me.view[0] == 'p' ? partial : NULL;
        me.merge = me.view[0] == 'm' ? merge_all : NULL;
        me.run = NULL;
        me.view = NULL;
    }
    return does < N_MISTAKES && abi >= me.abi ? &me : NULL;
}
