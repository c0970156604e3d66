#include "verify/child/view_plan.h"
#include "ref/nform.h"
#include "ref/tails.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const view_name[N_VIEWS] = {
#define VIEW(id, about) #id,
#include "verify/child/views.def"
#undef VIEW
};
const char *const view_about[N_VIEWS] = {
#define VIEW(id, about) about,
#include "verify/child/views.def"
#undef VIEW
};

const enum element element_of[N_STORED] = {[DT_F64] = EL_F64,   [DT_F32] = EL_F32,   [DT_F16] = EL_F16,
                                           [DT_BF16] = EL_BF16, [DT_E4M3] = EL_E4M3, [DT_E5M2] = EL_E5M2};

/* ---- arrays ------------------------------------------------------------------------------------------- */

int32_t *add_i32(struct view_data *v, const char *name, int64_t n)
{
    int32_t *x = xcalloc((size_t)n, sizeof *x);
    tensors_add(&v->tensors, name, EL_I32, x, true, 1, &n);
    return x;
}

int64_t *add_i64(struct view_data *v, const char *name, int64_t n)
{
    int64_t *x = xcalloc((size_t)n, sizeof *x);
    tensors_add(&v->tensors, name, EL_I64, x, true, 1, &n);
    return x;
}

bool fits(int64_t n, const char *what, struct err *why)
{
    return n <= INT32_MAX || err_set(why, "%" PRId64 " %s (indices of this view are 32 bits wide)", n, what);
}

/* ---- K and V ------------------------------------------------------------------------------------------ */

/* Tokens of each node that some query sees: the first seen[i]. The caller frees. */
static int64_t *tokens_seen(const struct tree *t)
{
    int64_t *seen = xcalloc((size_t)t->n_nodes, sizeof *seen);
    bool *used = xcalloc((size_t)t->n_nodes, sizeof *used); /* by a query there or below */
    for (int32_t q = 0; q < t->n_queries; q++) {
        const struct query *x = &t->query[q];
        seen[x->node] = max_i64(seen[x->node], x->upto);
        used[x->node] = true;
    }
    for (int32_t i = t->n_nodes; i-- > 0;)
        if (used[i] && t->parent[i] >= 0) {
            used[t->parent[i]] = true;
            seen[t->parent[i]] = t->len[t->parent[i]];
        }
    free(used);
    return seen;
}

/* Large numbers of both signs, in a type that may end at 65504, or before that. */
static void fill_junk(const struct problem *p, void *kv, int64_t begin, int64_t end)
{
    const double junk = 6e4;
    for (int64_t k = begin; k < end; k++)
        dtype_store(heads_kv_dtype(&p->heads), kv, k, k & 1 ? junk : -junk);
}

/* Behind the last token that is read in a page. */
static void fill_tails(const struct problem *p, const int64_t *seen, void *kv)
{
    int64_t slot_elements = (int64_t)p->heads.h_kv * p->heads.d;
    for (int32_t i = 0; i < p->tree->n_nodes; i++) {
        if (seen[i] % p->page_size == 0)
            continue;
        int64_t slot = problem_slot(p, i, seen[i] - 1) + 1, left = p->page_size - seen[i] % p->page_size;
        fill_junk(p, kv, slot * slot_elements, (slot + left) * slot_elements);
    }
}

/* The same in front of all windows: a list of pages has these tokens, and a kernel that masks them reads them. */
static void fill_left_behind(const struct problem *p, const int64_t *seen, void *kv)
{
    int64_t n = (int64_t)p->heads.h_kv * p->heads.d;
    for (int32_t i = 0; i < p->tree->n_nodes; i++)
        for (int64_t j = 0; j < seen[i]; j++) {
            int64_t at = problem_slot(p, i, j) * n;
            if (isnan(dtype_load(heads_kv_dtype(&p->heads), kv, at)))
                fill_junk(p, kv, at, at + n);
        }
}

const char *const mask_form_name[N_MASK_FORMS] = {"bits", "words", "bool"};
const char *const kv_layout_name[N_KV_LAYOUTS] = {"NHD", "HND", "interleaved", "strides"};

/* Where K and V lie, in elements, in arrays of `size`. */
struct kv_place {
    int64_t offset[2], page, token, head, size;
};

/* Rows of K, and of V where they are in one array, have `row` elements. */
static struct kv_place place_of(const struct problem *p, enum kv_layout layout, int64_t row)
{
    int64_t heads = p->heads.h_kv, tokens = p->page_size, all = tokens * heads * row;
    struct kv_place x = {{0, 0}, all, heads * row, row, p->n_pages * all};
    if (layout == KV_HND) {
        x.token = row;
        x.head = tokens * row;
    } else if (layout == KV_INTERLEAVED) {
        x = (struct kv_place){{0, all}, 2 * all, heads * row, row, p->n_pages * 2 * all};
    } else if (layout == KV_STRIDES) {
        int64_t draw = p->n_pages + p->tree->n_queries + tokens,
                room = draw / 4 % 3 * (heads_fp8(&p->heads) ? 16 : 8); /* of 16 bytes at least */
        x = place_of(p, (enum kv_layout)(draw % KV_STRIDES), row);
        if (draw % 4 == KV_STRIDES)
            x = (struct kv_place){{0, heads * row}, 2 * all, 2 * heads * row, row, 0};
        x.page += room;
        if (x.offset[1] == 0) /* behind K, or beside it */
            x.offset[1] = p->n_pages * x.page;
        x.offset[0] += room;
        x.offset[1] += room;
        if (heads_v_in_k(&p->heads))
            x.offset[1] = x.offset[0];
        x.size = x.offset[1] + p->n_pages * x.page;
    }
    return x;
}

/* [page][token][head][row] to its place in `to`. */
static void put_kv(const struct problem *p, const struct kv_place *x, int64_t offset, int64_t row, const char *kv,
                   char *to)
{
    int64_t size = heads_kv_bytes(&p->heads);
    for (int64_t page = 0; page < p->n_pages; page++)
        for (int64_t j = 0; j < p->page_size; j++)
            for (int64_t k = 0; k < p->heads.h_kv; k++, kv += row * size)
                memcpy(to + (offset + page * x->page + j * x->token + k * x->head) * size, kv,
                       (size_t)(row * size));
}

/* V in rows of its own length, without what follows in those of K's length. Takes v. */
static void *shortened(const struct problem *p, char *v)
{
    int64_t rows = p->n_pages * p->page_size * p->heads.h_kv, size = heads_kv_bytes(&p->heads),
            d_v = heads_d_v(&p->heads);
    for (int64_t i = 0; i < rows && d_v < p->heads.d; i++)
        memmove(v + i * d_v * size, v + i * p->heads.d * size, (size_t)(d_v * size));
    return v;
}

/* All NaN of memory that is nobody's; the caller frees. */
static void *unset(const struct problem *p, int64_t elements)
{
    void *x = xmalloc((size_t)elements * (size_t)heads_kv_bytes(&p->heads));
    dtype_fill(heads_kv_dtype(&p->heads), x, elements, nan_of(NAN_POISON));
    return x;
}

/* K and V in one array. */
static void add_kv_together(struct view_data *v, const struct problem *p, void *const kv[2],
                            enum kv_layout layout)
{
    struct kv_place x = place_of(p, layout, p->heads.d);
    enum element type = element_of[heads_kv_dtype(&p->heads)];
    char *both = unset(p, x.size);
    for (int i = 0; i < (heads_v_in_k(&p->heads) ? 1 : 2); i++)
        put_kv(p, &x, x.offset[i], p->heads.d, kv[i], both);
    if (layout == KV_INTERLEAVED) {
        /* five dimensions; the first two are those of K and V in turn */
        tensors_add(&v->tensors, "kv", type, both, true, 5,
                    (int64_t[]){p->n_pages, 2, p->page_size, p->heads.h_kv, p->heads.d});
        return;
    }
    tensors_add(&v->tensors, "kv", type, both, true, 1, &x.size);
    int64_t *shape = add_i64(v, "kv_shape", 4), *strides = xcalloc(10, sizeof *strides);
    memcpy(shape, (int64_t[]){p->n_pages, p->page_size, p->heads.h_kv, p->heads.d}, 4 * sizeof *shape);
    for (int i = 0; i < 2; i++)
        memcpy(strides + 5 * i, (int64_t[]){x.offset[i], x.page, x.token, x.head, 1}, 5 * sizeof *strides);
    tensors_add(&v->tensors, "kv_strides", EL_I64, strides, true, 2, (int64_t[]){2, 5});
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

enum { SPARSE_FROM = 1 << 30 };

/* K and V where memory is what is touched: as they lie, without what they have in tails, and the pages that a file has. */
static void add_mapped(struct view_data *v, const struct problem *p, int32_t n_dims, const int64_t *shape)
{
    int64_t n = p->page_off[p->tree->n_nodes],
            bytes = (int64_t)p->page_size * p->heads.h_kv * p->heads.d * heads_kv_bytes(&p->heads);
    int32_t *page = xcalloc((size_t)n + 1, sizeof *page);
    memcpy(page, p->page_table, (size_t)n * sizeof *page);
    qsort(page, (size_t)n, sizeof *page, by_number);
    struct tensors *t = &v->tensors;
    t->part = xcalloc((size_t)n + 1, sizeof *t->part);
    for (int64_t i = 0; i < n; i++) {
        t->part[i][0] = page[i] * bytes;
        t->part[i][1] = t->part[i][0] + bytes;
    }
    t->n_parts = n;
    free(page);
    t->sparse[t->n] = t->sparse[t->n + 1] = true;
    enum element type = element_of[heads_kv_dtype(&p->heads)];
    tensors_add(t, "k", type, p->k, false, n_dims, shape);
    tensors_add(t, "v", type, p->v, false, n_dims, shape);
}

static void add_kv(struct view_data *v, const struct problem *p, const int64_t *seen, bool pages,
                   enum kv_layout layout)
{
    static const char *const name[] = {"k", "v"};
    const void *from[] = {p->k, p->v};
    int64_t h = p->heads.h_kv, d = p->heads.d, slots = p->n_pages * p->page_size;
    size_t bytes = (size_t)(slots * h * d * heads_kv_bytes(&p->heads));
    if (bytes >= SPARSE_FROM && p->mapped > 0 && layout == KV_NHD && p->heads.d_v == 0) {
        int64_t of_slots[] = {slots, h, d}, of_pages[] = {p->n_pages, p->page_size, h, d};
        add_mapped(v, p, pages ? 4 : 3, pages ? of_pages : of_slots);
        return;
    }
    void *kv[2];
    for (int i = 0; i < 2; i++) {
        kv[i] = xmalloc(bytes);
        memcpy(kv[i], from[i], bytes);
        if (seen)
            fill_tails(p, seen, kv[i]);
        if (seen && tensors_find(&v->tensors, "window"))
            fill_left_behind(p, seen, kv[i]);
    }
    if (pages && (layout == KV_INTERLEAVED || layout == KV_STRIDES)) {
        add_kv_together(v, p, kv, layout);
        free(kv[0]);
        free(kv[1]);
        return;
    }
    bool by_head = pages && layout == KV_HND;
    for (int i = 0; i < 2; i++) {
        int64_t row = i ? heads_d_v(&p->heads) : d, of_slots[] = {slots, h, row},
                of_pages[] = {p->n_pages, by_head ? h : p->page_size, by_head ? p->page_size : h, row};
        if (i && heads_v_in_k(&p->heads)) { /* who takes this knows where V is */
            free(kv[i]);
            continue;
        }
        if (i)
            kv[i] = shortened(p, kv[i]);
        if (by_head) {
            struct kv_place x = place_of(p, layout, row);
            void *moved = unset(p, x.size);
            put_kv(p, &x, 0, row, kv[i], moved);
            free(kv[i]);
            kv[i] = moved;
        }
        tensors_add(&v->tensors, name[i], element_of[heads_kv_dtype(&p->heads)], kv[i], true, pages ? 4 : 3,
                    pages ? of_pages : of_slots);
    }
}

static void add_q(struct view_data *v, const struct problem *p)
{
    int64_t n = v->n_rows, row = (int64_t)p->heads.h_q * p->heads.d * dtype_size[p->heads.dtype];
    char *q = xmalloc((size_t)(n * row));
    for (int64_t i = 0; i < n; i++)
        memcpy(q + i * row, (const char *)p->q + (v->order ? v->order[i] : i) * row, (size_t)row);
    tensors_add(&v->tensors, "q", element_of[p->heads.dtype], q, true, 3,
                (int64_t[]){n, p->heads.h_q, p->heads.d});
}

/* n numbers of the heads, where there are any. */
static void add_of_heads(struct view_data *v, const char *name, const float *x, int64_t n)
{
    if (!x)
        return;
    float *copy = xcalloc((size_t)n, sizeof *copy);
    memcpy(copy, x, (size_t)n * sizeof *copy);
    tensors_add(&v->tensors, name, EL_F32, copy, true, 1, &n);
}

/* ---- the views ---------------------------------------------------------------------------------------- */

static int64_t total(const int64_t *x, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static bool view_slots(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    int32_t n = p->tree->n_queries;
    int64_t nnz = total(ctx, n);
    if (!fits(p->n_pages * p->page_size, "slots", why) || !fits(nnz, "tokens that queries see", why))
        return false;
    int32_t *ptr = add_i32(v, "kv_indptr", (int64_t)n + 1), *index = add_i32(v, "kv_indices", nnz);
    for (int32_t q = 0; q < n; q++) {
        int64_t *slot = xmalloc((size_t)ctx[q] * sizeof *slot);
        problem_path_slots(p, q, ctx[q], slot);
        for (int64_t j = 0; j < ctx[q]; j++)
            index[ptr[q] + j] = (int32_t)slot[j];
        ptr[q + 1] = (int32_t)(ptr[q] + ctx[q]);
        free(slot);
    }
    return true;
}

/* The pages that query q reads, in order, into page[] if it is not NULL; how many, or -1 where one but the last is only
 * partly read: then a list of pages cannot say what the query sees. */
static int64_t path_pages(const struct problem *p, int32_t q, int32_t *path, int32_t *page, struct err *why)
{
    const struct tree *t = p->tree;
    int32_t depth = tree_path(t->parent, t->query[q].node, path);
    int64_t n = 0;
    int32_t partial = -1;
    for (int32_t i = 0; i < depth; i++) {
        int64_t tokens = i + 1 < depth ? t->len[path[i]] : t->query[q].upto;
        if (tokens == 0)
            continue;
        if (partial >= 0) {
            err_set(why,
                    "node %" PRId32 " ends inside a page, and query %" PRId32
                    " goes on below it: a list of pages cannot say that",
                    partial, q);
            return -1;
        }
        partial = tokens % p->page_size ? path[i] : -1;
        for (int64_t k = 0; k < ceil_div(tokens, p->page_size); k++, n++)
            if (page)
                page[n] = p->page_table[p->page_off[path[i]] + k];
    }
    return n;
}

/* Lists of pages of n queries (query NULL: all) as one array: page[ptr[i]] .. of the i-th. False with *why, or memory to be freed. */
static bool page_lists(const struct problem *p, const int32_t *query, int32_t n, int64_t **ptr_out,
                       int32_t **page_out, struct err *why)
{
    int32_t *path = xcalloc((size_t)tree_depth(p->tree) + 1, sizeof *path), *page = NULL;
    int64_t *ptr = xcalloc((size_t)n + 1, sizeof *ptr);
    bool good = true;
    for (int32_t i = 0; i < n && good; i++) {
        int64_t k = path_pages(p, query ? query[i] : i, path, NULL, why);
        good = k >= 0;
        ptr[i + 1] = ptr[i] + k;
    }
    good = good && fits(ptr[n], "pages that queries see", why);
    if (good) {
        page = xcalloc((size_t)ptr[n], sizeof *page);
        for (int32_t i = 0; i < n; i++)
            path_pages(p, query ? query[i] : i, path, page + ptr[i], why);
        *ptr_out = ptr;
        *page_out = page;
    } else {
        free(ptr);
    }
    free(path);
    return good;
}

/* Tokens of a query's path, of which with a window it sees the last. */
static int64_t path_tokens(const struct tree *t, const int64_t *ctx, int32_t q)
{
    return ctx[q] + tree_since(t, q);
}

/* The one window of all queries as "window"; a list of pages has all of the path, and no list says where it begins. */
static bool add_window(struct view_data *v, const struct tree *t, const int64_t *ctx, struct err *why)
{
    int64_t window = 0, most = 1;
    for (int32_t q = 0; q < t->n_queries && t->since; q++) {
        if (t->since[q] > 0 && window > 0 && ctx[q] != window)
            return err_set(why, "windows of several lengths, %" PRId64 " and %" PRId64 ": lists of pages have one",
                           window, ctx[q]);
        window = t->since[q] > 0 ? ctx[q] : window;
        most = max_i64(most, ctx[q]);
    }
    window = window > 0 ? window : most;
    if (most > window)
        return err_set(why, "a window of %" PRId64 ", and a query that sees %" PRId64 ": lists of pages have one window",
                       window, most);
    if (t->since)
        *add_i64(v, "window", 1) = window;
    return true;
}

static int32_t last_page(int64_t tokens, int32_t page_size)
{
    return tokens == 0 ? 0 : (int32_t)((tokens - 1) % page_size + 1);
}

static bool view_paged(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    int32_t n = p->tree->n_queries;
    int64_t *ptr;
    int32_t *page;
    if (!add_window(v, p->tree, ctx, why) || !page_lists(p, NULL, n, &ptr, &page, why))
        return false;
    int32_t *indptr = add_i32(v, "kv_indptr", (int64_t)n + 1);
    for (int32_t q = 0; q <= n; q++)
        indptr[q] = (int32_t)ptr[q];
    tensors_add(&v->tensors, "kv_indices", EL_I32, page, true, 1, &ptr[n]);
    int32_t *last = add_i32(v, "last_page_len", n);
    for (int32_t q = 0; q < n; q++)
        last[q] = last_page(path_tokens(p->tree, ctx, q), p->page_size);
    free(ptr);
    return true;
}

/* What engines leave behind the pages of a query, in entry i of a block table: nothing, junk, a page of another query, or any. */
static int32_t padding_of(const struct problem *p, const int32_t *page, int64_t n, int64_t i)
{
    enum { STREAM = 0x9ad };
    uint64_t draw = rng_u64((uint64_t)n, STREAM, (uint64_t)i), which = draw >> 8;
    switch (draw % 4) {
    case 0:
        return -1;
    case 1:
        return PAGE_POISON;
    case 2:
        return n > 0 ? page[which % (uint64_t)n] : 0;
    default:
        return (int32_t)(which % (uint64_t)p->n_pages);
    }
}

/* "block_table" and "seq_lens" of n queries (query NULL: all). */
static bool add_block_table(const struct problem *p, const int64_t *ctx, const int32_t *query, int32_t n,
                            struct view_data *v, struct err *why)
{
    int64_t *ptr, most = 1;
    int32_t *page;
    if (!page_lists(p, query, n, &ptr, &page, why))
        return false;
    for (int32_t i = 0; i < n; i++)
        most = max_i64(most, ptr[i + 1] - ptr[i]);
    bool good = fits(n * most, "entries of the block table", why);
    if (good) {
        int32_t *table = xcalloc((size_t)(n * most), sizeof *table);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < most; k++)
                table[i * most + k] =
                    k < ptr[i + 1] - ptr[i] ? page[ptr[i] + k] : padding_of(p, page, ptr[n], i * most + k);
        tensors_add(&v->tensors, "block_table", EL_I32, table, true, 2, (int64_t[]){n, most});
        int32_t *lens = add_i32(v, "seq_lens", n);
        for (int32_t i = 0; i < n; i++)
            lens[i] = (int32_t)path_tokens(p->tree, ctx, query ? query[i] : i);
    }
    free(ptr);
    free(page);
    return good;
}

static bool view_block_table(const struct problem *p, const int64_t *ctx, struct view_data *v,
                             struct err *why)
{
    return add_window(v, p->tree, ctx, why) && add_block_table(p, ctx, NULL, p->tree->n_queries, v, why);
}

static bool view_extend(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    struct tails *r = tails_of(p->tree);
    int32_t *last = xcalloc((size_t)r->n + 1, sizeof *last);
    for (int32_t i = 0; i < r->n; i++)
        last[i] = tails_last(r, i);
    bool good = add_window(v, p->tree, ctx, why) && add_block_table(p, ctx, last, r->n, v, why);
    if (good) {
        memcpy(add_i32(v, "query_start_loc", (int64_t)r->n + 1), r->first, ((size_t)r->n + 1) * sizeof *r->first);
        v->order = xcalloc((size_t)p->tree->n_queries, sizeof *v->order);
        if (p->tree->n_queries > 0)
            memcpy(v->order, r->order, (size_t)p->tree->n_queries * sizeof *v->order);
    }
    free(last);
    tails_free(r);
    return good;
}

/* Whole pages that all queries begin with, in tokens. */
static int64_t common_prefix(const struct problem *p, const int64_t *ctx)
{
    int64_t *ptr, common = 0;
    int32_t *page;
    if (p->tree->n_queries == 0 || !page_lists(p, NULL, p->tree->n_queries, &ptr, &page, NULL))
        return 0;
    for (bool same = true; same; common += same) {
        for (int32_t q = 0; q < p->tree->n_queries && same; q++)
            same = (common + 1) * p->page_size <= ctx[q] && page[ptr[q] + common] == page[common];
    }
    free(ptr);
    free(page);
    return common * p->page_size;
}

static bool view_prefix(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    if (!add_block_table(p, ctx, NULL, p->tree->n_queries, v, why))
        return false;
    *add_i32(v, "common_prefix_len", 1) = (int32_t)common_prefix(p, ctx);
    return true;
}

/* Level l has the nodes of depth l, and all queries in depth-first order: those below a node are a segment, each other
 * query is one without pages. */
static bool view_levels(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    (void)ctx;
    struct nform *nf = nform_new(p->tree);
    int32_t n = nf->n_queries, depth = 0;
    int64_t n_pages = 0;
    bool good = true;
    for (int32_t i = 0; i < nf->n_nodes && good; i++) {
        depth = nf->depth[i] + 1 > depth ? nf->depth[i] + 1 : depth;
        n_pages += nf->q1[i] > nf->q0[i] ? ceil_div(nf->len[i], p->page_size) : 0;
        if (nf->off[i] % p->page_size != 0)
            good = err_set(why, "a query ends inside a page of node %" PRId32 ", and others go on there",
                           nf->src[i]);
    }
    good = good && fits((int64_t)depth * (n + 1), "segments", why) && fits(n_pages, "pages", why);
    if (!good) {
        nform_free(nf);
        return false;
    }
    v->order = xcalloc((size_t)n, sizeof *v->order);
    memcpy(v->order, nf->orig, (size_t)n * sizeof *v->order);
    int64_t most = (int64_t)depth * n;
    int32_t *level = add_i32(v, "level_ptr", (int64_t)depth + 1), *qo = add_i32(v, "qo_indptr", most + depth),
            *kv = add_i32(v, "kv_indptr", most + depth), *index = add_i32(v, "kv_indices", n_pages),
            *last = add_i32(v, "last_page_len", most);
    struct tensor *of_qo = tensors_find(&v->tensors, "qo_indptr"),
                  *of_kv = tensors_find(&v->tensors, "kv_indptr"),
                  *of_last = tensors_find(&v->tensors, "last_page_len");
    int32_t *node_at =
        xcalloc((size_t)n + 1, sizeof *node_at); /* the node of this level that begins at a query */
    int64_t s = 0, page = 0;                     /* segment, page */
    for (int32_t l = 0; l < depth; l++) {
        memset(node_at, -1, ((size_t)n + 1) * sizeof *node_at);
        for (int32_t i = 0; i < nf->n_nodes; i++)
            if (nf->depth[i] == l && nf->q1[i] > nf->q0[i])
                node_at[nf->q0[i]] = i;
        level[l] = (int32_t)s;
        int64_t first_page = page;
        for (int32_t q = 0; q < n; s++) {
            int32_t i = node_at[q];
            int64_t tokens = i >= 0 ? nf->len[i] : 0;
            qo[s + l] = q;
            kv[s + l] = (int32_t)(page - first_page);
            for (int64_t k = 0; k < ceil_div(tokens, p->page_size); k++)
                index[page++] = p->page_table[p->page_off[nf->src[i]] + nf->off[i] / p->page_size + k];
            last[s] = last_page(tokens, p->page_size);
            q = i >= 0 ? nf->q1[i] : q + 1;
        }
        qo[s + l] = n;
        kv[s + l] = (int32_t)(page - first_page);
    }
    level[depth] = (int32_t)s;
    of_qo->shape[0] = of_kv->shape[0] = s + depth;
    of_last->shape[0] = s;
    free(node_at);
    nform_free(nf);
    return true;
}

/* A segment of view_masked: a tree of the forest with the queries on it; the last, without tokens, has those that see
 * nothing. */
struct forest_part {
    int32_t q0, q1;
    int64_t tokens;
};

/* Parts of the forest, and part_of[i] of its nodes: -1 for those that no query reads. The caller frees both. */
static struct forest_part *forest_parts(const struct nform *nf, int32_t *n_parts, int32_t **part_of)
{
    struct forest_part *part = xcalloc((size_t)nf->n_roots + 1, sizeof *part);
    int32_t *of = xcalloc((size_t)nf->n_nodes + 1, sizeof *of), n = 0, q = 0;
    for (int32_t r = 0; r < nf->n_roots; r++) {
        part[n] = (struct forest_part){nf->q0[nf->root[r]], nf->q1[nf->root[r]], 0};
        of[nf->root[r]] = n++;
        q = part[n - 1].q1 > q ? part[n - 1].q1 : q;
    }
    if (q < nf->n_queries)
        part[n++] = (struct forest_part){q, nf->n_queries, 0};
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        if (nf->parent[i] >= 0)
            of[i] = of[nf->parent[i]];
        if (nf->q1[i] > nf->q0[i])
            part[of[i]].tokens += nf->len[i];
    }
    *n_parts = n;
    *part_of = of;
    return part;
}

enum { MAX_MASK = 1 << 26 /* bytes */ };

/* The mask of view_masked, which is of bits, in another form; mask_indptr counts its elements. */
static bool change_mask(struct view_data *v, enum mask_form form, struct err *why)
{
    struct tensor *mask = tensors_find(&v->tensors, "mask"), *ptr = tensors_find(&v->tensors, "mask_indptr");
    const int32_t *qo = tensors_find(&v->tensors, "qo_indptr")->data,
                  *kv = tensors_find(&v->tensors, "kv_indptr")->data;
    int32_t *at = ptr->data;
    int64_t n = 0, parts = ptr->shape[0] - 1, each = form == MASK_WORDS ? 32 : 1,
            size = form == MASK_WORDS ? 4 : 1;
    for (int64_t r = 0; r < parts; r++)
        n += (qo[r + 1] - qo[r]) * ceil_div(kv[r + 1] - kv[r], each);
    if (n * size > MAX_MASK)
        return err_set(why, "a mask of %" PRId64 " bytes (at most %d)", n * size, MAX_MASK);
    const uint8_t *bits = mask->data;
    uint8_t *to = xcalloc((size_t)n, (size_t)size), *own = mask->data;
    int64_t from = 0;
    n = 0;
    for (int64_t r = 0; r < parts; r++) {
        int64_t tokens = kv[r + 1] - kv[r], queries = qo[r + 1] - qo[r], row = ceil_div(tokens, each);
        for (int64_t bit = 0; bit < queries * tokens; bit++) {
            int64_t q = bit / tokens, j = bit % tokens, element = n + q * row + j / each;
            if (bits[from + bit / 8] >> (bit % 8) & 1) /* an int32 is stored least byte first */
                to[element * size + j % each / 8] |= (uint8_t)(1 << (j % each % 8));
        }
        from += ceil_div(queries * tokens, 8);
        n += queries * row;
        at[r + 1] = (int32_t)n;
    }
    free(own);
    mask->data = to;
    mask->shape[0] = n;
    mask->type = form == MASK_WORDS ? EL_I32 : EL_U8;
    return true;
}

static bool view_masked(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    (void)ctx;
    struct nform *nf = nform_new(p->tree);
    int32_t n_parts, *part_of;
    struct forest_part *part = forest_parts(nf, &n_parts, &part_of);
    int64_t mask_bytes = 0, nnz = 0;
    for (int32_t r = 0; r < n_parts; r++) {
        nnz += part[r].tokens;
        mask_bytes += ceil_div(part[r].tokens * (part[r].q1 - part[r].q0), 8);
    }
    bool good = fits(nnz, "tokens", why) && fits(p->n_pages * p->page_size, "slots", why) &&
                (mask_bytes <= MAX_MASK ||
                 err_set(why, "a mask of %" PRId64 " bytes (at most %d)", mask_bytes, MAX_MASK));
    if (good) {
        v->order = xcalloc((size_t)nf->n_queries, sizeof *v->order);
        memcpy(v->order, nf->orig, (size_t)nf->n_queries * sizeof *v->order);
        int32_t *qo = add_i32(v, "qo_indptr", (int64_t)n_parts + 1),
                *kv = add_i32(v, "kv_indptr", (int64_t)n_parts + 1), *index = add_i32(v, "kv_indices", nnz),
                *at = add_i32(v, "mask_indptr", (int64_t)n_parts + 1);
        uint8_t *mask = xcalloc((size_t)mask_bytes, 1);
        tensors_add(&v->tensors, "mask", EL_U8, mask, true, 1, &mask_bytes);
        for (int32_t r = 0; r < n_parts; r++) {
            qo[r + 1] = part[r].q1;
            kv[r + 1] = (int32_t)(kv[r] + part[r].tokens);
            at[r + 1] = (int32_t)(at[r] + ceil_div(part[r].tokens * (part[r].q1 - part[r].q0), 8));
        }
        int64_t *column = xcalloc((size_t)n_parts + 1, sizeof *column); /* next of each part */
        for (int32_t i = 0; i < nf->n_nodes; i++) {
            int32_t r = part_of[i];
            for (int64_t j = 0; nf->q1[i] > nf->q0[i] && j < nf->len[i]; j++, column[r]++) {
                index[kv[r] + column[r]] = (int32_t)problem_slot(p, nf->src[i], nf->off[i] + j);
                for (int64_t q = nf->q0[i]; q < nf->q1[i]; q++) {
                    if (!nform_in_window(nf, (int32_t)q, i))
                        continue;
                    int64_t bit = (q - part[r].q0) * part[r].tokens + column[r];
                    mask[at[r] + bit / 8] |= (uint8_t)(1 << (bit % 8));
                }
            }
        }
        free(column);
    }
    free(part);
    free(part_of);
    nform_free(nf);
    return good;
}

bool view_tree(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why)
{
    (void)ctx, (void)why;
    const struct tree *t = p->tree;
    int32_t *parent = add_i32(v, "parent", t->n_nodes), *node = add_i32(v, "query_node", t->n_queries);
    int64_t *len = add_i64(v, "len", t->n_nodes), *upto = add_i64(v, "query_upto", t->n_queries),
            *ptr = add_i64(v, "node_page_ptr", (int64_t)t->n_nodes + 1);
    int32_t *page = add_i32(v, "node_page", p->page_off[t->n_nodes]);
    memcpy(parent, t->parent, (size_t)t->n_nodes * sizeof *parent);
    memcpy(len, t->len, (size_t)t->n_nodes * sizeof *len);
    memcpy(ptr, p->page_off, ((size_t)t->n_nodes + 1) * sizeof *ptr);
    memcpy(page, p->page_table, (size_t)p->page_off[t->n_nodes] * sizeof *page);
    for (int32_t q = 0; q < t->n_queries; q++) {
        node[q] = t->query[q].node;
        upto[q] = t->query[q].upto;
    }
    if (t->since)
        memcpy(add_i64(v, "query_since", t->n_queries), t->since, (size_t)t->n_queries * sizeof *t->since);
    return true;
}

/* Q, K and V behind what a view says. */
static void add_inputs(struct view_data *v, const struct problem *p, enum tail tail, bool pages,
                       enum kv_layout layout)
{
    int64_t *seen = tail == TAIL_FINITE ? tokens_seen(p->tree) : NULL;
    add_q(v, p);
    add_kv(v, p, seen, pages, layout);
    add_of_heads(v, "k_scale", p->k_scale, p->heads.h_kv);
    add_of_heads(v, "v_scale", p->v_scale, p->heads.h_kv);
    free(seen);
}

bool view_make(enum view view, const struct view_form *form, const struct problem *p, const struct plan *plan,
               struct view_data *out, struct err *why)
{
    static bool (*const make[N_VIEWS])(const struct problem *, const int64_t *, struct view_data *,
                                       struct err *) = {
#define VIEW(id, about) view_##id,
#include "verify/child/views.def"
#undef VIEW
    };
    *out = (struct view_data){.n_rows = p->tree->n_queries, .plan = plan};
    if (p->tree->since && (view == VIEW_prefix || view == VIEW_levels))
        return err_set(why, "a window: what queries share of a path is not what they see of it");
    bool pages = view != VIEW_slots && view != VIEW_masked,
         together = pages && (form->layout == KV_INTERLEAVED || form->layout == KV_STRIDES);
    if (together && p->heads.d_v > 0 && !(heads_v_in_k(&p->heads) && form->layout == KV_STRIDES))
        return err_set(why, "K of %" PRId32 " elements and V of %" PRId32 ": layout %s has them alike", p->heads.d,
                       p->heads.d_v, kv_layout_name[form->layout]);
    int64_t *ctx = xcalloc((size_t)p->tree->n_queries, sizeof *ctx);
    tree_contexts(p->tree, ctx);
    bool good = make[view](p, ctx, out, why);
    free(ctx);
    if (good && view == VIEW_masked && form->mask != MASK_BITS)
        good = change_mask(out, form->mask, why);
    if (!good) {
        view_free(out);
        return false;
    }
    if (form->no_kv)
        add_q(out, p);
    else
        add_inputs(out, p, form->tail, pages, form->layout);
    add_of_heads(out, "sinks", p->sink, p->heads.h_q);
    return true;
}

bool view_groups(const struct view_form *form, const struct problem *p, const struct plan *plan,
                 struct view_data *out, struct err *why)
{
    *out = (struct view_data){.plan = plan};
    bool good = add_groups(p, out, why);
    if (good)
        add_inputs(out, p, form->tail, false, KV_NHD);
    else
        view_free(out);
    return good;
}

void view_free(struct view_data *v)
{
    tensors_free(&v->tensors);
    free(v->order);
    *v = (struct view_data){.order = NULL};
}
