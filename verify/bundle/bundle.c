#include "verify/bundle/bundle.h"
#include "verify/child/child.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step of more is nobody's; far below what would wrap. */
enum { MOST_REQUESTS = 1 << 20, MOST_Q_LEN = 1 << 20 };
static const int64_t MOST_BYTES = INT64_C(1) << 40, MOST_LISTED = INT64_C(1) << 28;

/* Merges of a kernel that declares nothing: released kernels split a context into no more pieces than that. */
enum { MERGES = 128 };

/* The name of a file, for messages. */
struct reading {
    const char *path;
    struct bundle *b;
    struct err *e;
};

static struct tensor *find(const struct reading *x, const char *name)
{
    return tensors_find(&x->b->file, name);
}

/* By either of two names; NULL: there is none. */
static struct tensor *find_either(const struct reading *x, const char *name, const char *other)
{
    struct tensor *t = find(x, name);
    return t ? t : find(x, other);
}

static bool wrong_shape(const struct reading *x, const struct tensor *t, const char *expected)
{
    return err_set(x->e, "%s: \"%s\" is %s, %s (expected %s)", x->path, t->name, element_name[t->type],
                   t->n_dims ? tensor_shape_text(t, (char[TENSOR_SHAPE_TEXT]){0}) : "a number", expected);
}

static bool missing(const struct reading *x, const char *what)
{
    return err_set(x->e, "%s: no %s (expected a bundle; treeattn judge --help says what is in one)", x->path,
                   what);
}

/* ---- lists ---------------------------------------------------------------------------------------------- */

static bool is_list(const struct tensor *t)
{
    return t->n_dims == 1 && (t->type == EL_I32 || t->type == EL_I64);
}

/* Data of a tensor need not be aligned. */
static int64_t int_at(const struct tensor *t, int64_t i)
{
    int64_t wide;
    int32_t narrow;
    if (t->type == EL_I64) {
        memcpy(&wide, (char *)t->data + i * 8, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (char *)t->data + i * 4, sizeof narrow);
    return narrow;
}

static bool entry_wrong(const struct reading *x, const struct tensor *t, int64_t i, const char *expected)
{
    return err_set(x->e, "%s: \"%s\"[%" PRId64 "] is %" PRId64 " (expected %s)", x->path, t->name, i,
                   int_at(t, i), expected);
}

/* Numbers that begin with 0, do not fall, and end with `most` at most. */
static bool check_ptr(const struct reading *x, const struct tensor *t, int64_t most)
{
    int64_t before = 0;
    for (int64_t i = 0; i < t->shape[0]; i++) {
        int64_t at = int_at(t, i);
        if (i == 0 ? at != 0 : at < before || at > most)
            return entry_wrong(x, t, i,
                               i == 0 ? "0" : "no less than the one before, and no more than there are");
        before = at;
    }
    return true;
}

static void lists_alloc(struct request_pages *l, int64_t n_requests, int64_t pages)
{
    l->n_requests = (int32_t)n_requests;
    l->ptr = xcalloc((size_t)n_requests + 1, sizeof *l->ptr);
    l->len = xcalloc((size_t)n_requests + 1, sizeof *l->len);
    l->q_len = xcalloc((size_t)n_requests + 1, sizeof *l->q_len);
    l->page = xcalloc((size_t)pages + 1, sizeof *l->page);
}

/* Entry i of `from` as the next page; n_pages: of the pool, or 0 where that is not there. */
static bool add_page(const struct reading *x, const struct tensor *from, int64_t i, int64_t n_pages,
                     int64_t at)
{
    int64_t page = int_at(from, i);
    if (page < 0 || page > INT32_MAX || (n_pages > 0 && page >= n_pages))
        return entry_wrong(x, from, i, n_pages > 0 ? "a page of k" : "the number of a page");
    x->b->lists.page[at] = (int32_t)page;
    return true;
}

static bool read_block_table(const struct reading *x, const struct tensor *table, int64_t n_pages)
{
    struct request_pages *l = &x->b->lists;
    const struct tensor *lens = find(x, "seq_lens");
    if (!lens)
        return missing(x, "\"seq_lens\" beside \"block_table\"");
    if (table->n_dims != 2 || (table->type != EL_I32 && table->type != EL_I64) || table->shape[0] < 1 ||
        table->shape[0] > MOST_REQUESTS || tensor_elements(table) > MOST_LISTED)
        return wrong_shape(x, table, "I32, requests x pages");
    if (!is_list(lens) || lens->shape[0] != table->shape[0])
        return wrong_shape(x, lens, "I32, one for each row of \"block_table\"");
    int64_t width = table->shape[1];
    lists_alloc(l, table->shape[0], tensor_elements(table));
    for (int32_t r = 0; r < l->n_requests; r++) {
        l->len[r] = int_at(lens, r);
        if (l->len[r] < 0 || l->len[r] > width * l->page_size)
            return entry_wrong(x, lens, r, "0 to what the row's pages hold");
        int64_t pages = ceil_div(l->len[r], l->page_size);
        for (int64_t i = 0; i < pages; i++)
            if (!add_page(x, table, r * width + i, n_pages, l->ptr[r] + i))
                return false;
        l->ptr[r + 1] = l->ptr[r] + pages;
    }
    return true;
}

static bool read_csr(const struct reading *x, const struct tensor *ptr, int64_t n_pages)
{
    struct request_pages *l = &x->b->lists;
    const struct tensor *index = find(x, "kv_indices"),
                        *last = find_either(x, "kv_last_page_len", "last_page_len");
    if (!index)
        return missing(x, "\"kv_indices\" beside \"kv_indptr\"");
    if (!is_list(ptr) || ptr->shape[0] < 2 || ptr->shape[0] > MOST_REQUESTS)
        return wrong_shape(x, ptr, "I32, one more than there are requests");
    if (!is_list(index) || index->shape[0] > MOST_LISTED)
        return wrong_shape(x, index, "I32, a list of pages");
    if (last && (!is_list(last) || last->shape[0] != ptr->shape[0] - 1))
        return wrong_shape(x, last, "I32, one for each request");
    if (!last && l->page_size > 1)
        return missing(x, "\"kv_last_page_len\", and pages have several tokens");
    if (!check_ptr(x, ptr, index->shape[0]))
        return false;
    lists_alloc(l, ptr->shape[0] - 1, index->shape[0]);
    for (int32_t r = 0; r < l->n_requests; r++) {
        int64_t from = int_at(ptr, r), pages = int_at(ptr, r + 1) - from, tail = last ? int_at(last, r) : 1;
        if (pages > 0 && (tail < 1 || tail > l->page_size))
            return entry_wrong(x, last, r, "1 to the tokens of a page");
        for (int64_t i = 0; i < pages; i++)
            if (!add_page(x, index, from + i, n_pages, l->ptr[r] + i))
                return false;
        l->ptr[r + 1] = l->ptr[r] + pages;
        l->len[r] = pages > 0 ? (pages - 1) * l->page_size + tail : 0;
    }
    return true;
}

static bool read_queries(const struct reading *x)
{
    struct request_pages *l = &x->b->lists;
    const struct tensor *start = find_either(x, "query_start_loc", "qo_indptr");
    if (start && (!is_list(start) || start->shape[0] != l->n_requests + 1))
        return wrong_shape(x, start, "I32, one more than there are requests");
    if (start && !check_ptr(x, start, TREE_MAX_QUERIES))
        return false;
    for (int32_t r = 0; r < l->n_requests; r++) {
        int64_t n = start ? int_at(start, r + 1) - int_at(start, r) : 1;
        if (n > MOST_Q_LEN)
            return entry_wrong(x, start, r + 1, "fewer queries of a request");
        l->q_len[r] = (int32_t)n;
    }
    return true;
}

/* ---- numbers -------------------------------------------------------------------------------------------- */

static bool dtype_of(enum element type, enum dtype *out)
{
    static const struct {
        enum element from;
        enum dtype to;
    } pair[] = {{EL_F64, DT_F64},   {EL_F32, DT_F32},   {EL_F16, DT_F16},
                {EL_BF16, DT_BF16}, {EL_E4M3, DT_E4M3}, {EL_E5M2, DT_E5M2}};
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        if (pair[i].from == type) {
            *out = pair[i].to;
            return true;
        }
    return false;
}

/* A number of one tensor; `otherwise` where there is none. */
static bool read_number(const struct reading *x, const char *name, double otherwise, double *out)
{
    const struct tensor *t = find(x, name);
    *out = otherwise;
    if (!t)
        return true;
    if (tensor_elements(t) != 1 || t->type > EL_I32)
        return wrong_shape(x, t, "one number");
    *out = t->type == EL_F64 || t->type == EL_F32 ? tensor_float(t, 0) : (double)int_at(t, 0);
    return (isfinite(*out) && *out >= 0) ||
           err_set(x->e, "%s: \"%s\" is %g (expected a number of 0 or more)", x->path, name, *out);
}

/* Heads, types and page size off q, k and v, which are all there or all missing. */
static bool read_heads(const struct reading *x, struct problem_spec *s, int64_t *n_pages)
{
    const struct tensor *q = find(x, "q"), *k = find(x, "k"), *v = find(x, "v");
    enum dtype of_k;
    if (!q && !k && !v)
        return true;
    if (!q || !k || !v)
        return missing(x, !q ? "\"q\" beside K and V" : !k ? "\"k\" beside \"q\"" : "\"v\" beside \"k\"");
    if (q->n_dims != 3 || !dtype_of(q->type, &s->heads.dtype) || s->heads.dtype >= N_DTYPES)
        return wrong_shape(x, q, "F16, BF16, F32 or F64, queries x heads x d");
    if (k->n_dims != 4 || !dtype_of(k->type, &of_k) || (of_k < N_DTYPES && of_k != s->heads.dtype) ||
        k->shape[3] != q->shape[2])
        return wrong_shape(x, k, "pages x page x KV heads x d, in the type of \"q\" or in 8 bits");
    if (v->n_dims != 4 || v->type != k->type || memcmp(v->shape, k->shape, sizeof k->shape) != 0)
        return wrong_shape(x, v, "the same as \"k\"");
    for (int i = 0; i < 4; i++)
        if (k->shape[i] > INT32_MAX || (i > 0 && k->shape[i] < 1))
            return wrong_shape(x, k, "pages x page x KV heads x d");
    if (q->shape[0] > TREE_MAX_QUERIES || q->shape[1] > INT32_MAX || q->shape[1] < 1)
        return wrong_shape(x, q, "queries x heads x d");
    *n_pages = k->shape[0];
    s->page_size = (int32_t)k->shape[1];
    s->heads = (struct heads){.h_q = (int32_t)q->shape[1],
                              .h_kv = (int32_t)k->shape[2],
                              .d = (int32_t)k->shape[3],
                              .dtype = s->heads.dtype,
                              .kv_fp8 = of_k};
    return true;
}

/* n floats of a tensor, finite and over `least`; NULL where there is none. */
static bool read_floats(const struct reading *x, const char *name, int32_t n, double least, float **out)
{
    const struct tensor *t = find(x, name);
    if (!t)
        return true;
    if (t->type != EL_F32 || t->n_dims != 1 || t->shape[0] != n)
        return wrong_shape(x, t, "F32, one for each head");
    free(*out);
    *out = xcalloc((size_t)n, sizeof **out);
    memcpy(*out, t->data, (size_t)n * sizeof **out);
    for (int32_t i = 0; i < n; i++)
        if (!isfinite((*out)[i]) || (double)(*out)[i] <= least)
            return err_set(x->e, "%s: \"%s\"[%" PRId32 "] is %g (expected a finite number%s)", x->path, name,
                           i, (double)(*out)[i], least < 0 ? "" : " over 0");
    return true;
}

/* The tree with its numbers, which stay the file's. */
static bool make_problem(const struct reading *x, int32_t *table)
{
    struct bundle *b = x->b;
    const struct tensor *q = find(x, "q");
    if (q->shape[0] != b->tree->n_queries)
        return err_set(x->e, "%s: \"q\" has %" PRId64 " queries, the lists %" PRId32 " (expected as many)",
                       x->path, q->shape[0], b->tree->n_queries);
    for (int i = 0; i < 3; i++) { /* they stay where they are in the file */
        const struct tensor *t = find(x, (const char *[]){"q", "k", "v"}[i]);
        if ((uintptr_t)t->data % (uintptr_t)element_size[t->type] != 0)
            return err_set(x->e, "%s: \"%s\" begins at an odd byte (expected a multiple of %d)", x->path,
                           t->name, element_size[t->type]);
    }
    struct problem *p = b->p = problem_shell(b->tree, &b->spec);
    p->n_pages = find(x, "k")->shape[0];
    p->page_table = xcalloc((size_t)p->page_off[b->tree->n_nodes] + 1, sizeof *p->page_table);
    memcpy(p->page_table, table, (size_t)p->page_off[b->tree->n_nodes] * sizeof *table);
    for (int32_t i = 0; p->k_scale && i < p->heads.h_kv; i++)
        p->k_scale[i] = p->v_scale[i] = 1;
    p->q = q->data;
    p->k = find(x, "k")->data;
    p->v = find(x, "v")->data;
    if ((find(x, "k_scale") || find(x, "v_scale")) && !p->k_scale)
        return err_set(x->e, "%s: scales of K and V that have 16 bits or more (expected 8 bits)", x->path);
    return read_floats(x, "sinks", p->heads.h_q, -INFINITY, &p->sink) &&
           read_floats(x, "k_scale", p->heads.h_kv, 0, &p->k_scale) &&
           read_floats(x, "v_scale", p->heads.h_kv, 0, &p->v_scale);
}

static bool read_declared(const struct reading *x)
{
    const struct tensor *t = find(x, "declares");
    struct kernel_arithmetic *a = &x->b->declared;
    struct err own = {0};
    if (!t) {
        *a = (struct kernel_arithmetic){.accumulate = x->b->spec.heads.dtype == DT_F64 ? DT_F64 : DT_F32,
                                        .partial_o = DT_F32,
                                        .probability = N_DTYPES,
                                        .merge_chain = MERGES};
        a->partial_o = a->accumulate;
    } else if (t->type != EL_U8 || t->n_dims != 1) {
        return wrong_shape(x, t, "U8, the bytes of a JSON object");
    } else if (!child_arithmetic(t->data, (size_t)t->shape[0], a, &own)) {
        return err_set(x->e, "%s: \"declares\": %s", x->path, own.msg);
    }
    a->lse_scaled = true; /* in which base it was written is not known */
    return true;
}

static bool read_output(const struct reading *x)
{
    struct bundle *b = x->b;
    const struct tensor *o = find(x, "o"), *lse = find(x, "lse");
    if (!o)
        return !lse || missing(x, "\"o\" beside \"lse\"");
    if (!b->p)
        return missing(x, "\"q\", \"k\" and \"v\" beside \"o\"");
    b->out = output_new(b->p);
    if (o->type != find(x, "q")->type || o->n_dims != 3 || o->shape[0] * o->shape[1] != b->out->n_rows ||
        o->shape[2] != b->out->d)
        return wrong_shape(x, o, "the same as \"q\"");
    memcpy(b->out->o, o->data, (size_t)tensor_bytes(o));
    if (lse && ((lse->type != EL_F32 && lse->type != EL_F64) || lse->n_dims != 2 ||
                lse->shape[0] != o->shape[0] || lse->shape[1] != o->shape[1]))
        return wrong_shape(x, lse, "F32, queries x heads");
    b->has_lse = lse != NULL;
    for (int64_t row = 0; lse && row < b->out->n_rows; row++)
        output_set_lse(b->out, row, tensor_float(lse, row));
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static bool read_spec(const struct reading *x, int64_t *n_pages)
{
    struct problem_spec *s = &x->b->spec;
    double scale, soft_cap, window;
    if (!read_number(x, "scale", 0, &scale) || !read_number(x, "soft_cap", 0, &soft_cap) ||
        !read_number(x, "window", 0, &window) || !read_heads(x, s, n_pages))
        return false;
    s->scale = scale;
    s->soft_cap = soft_cap;
    s->window = window < (double)TREE_MAX_TOKENS ? (int64_t)window : TREE_MAX_TOKENS;
    s->sinks = find(x, "sinks") != NULL;
    struct err own = {0};
    return problem_spec_check(s, &own) || err_set(x->e, "%s: %s", x->path, own.msg);
}

static bool read_lists(const struct reading *x, int64_t n_pages)
{
    const struct tensor *table = find(x, "block_table"), *ptr = find(x, "kv_indptr");
    x->b->lists.page_size = x->b->spec.page_size;
    if (table  ? !read_block_table(x, table, n_pages)
        : !ptr ? !missing(x, "\"block_table\" or \"kv_indptr\"")
               : !read_csr(x, ptr, n_pages))
        return false;
    return read_queries(x);
}

bool bundle_read(const char *path, const struct problem_spec *given, struct bundle *b, struct err *e)
{
    *b = (struct bundle){.spec = *given};
    struct reading x = {.path = path, .b = b, .e = e};
    int64_t n_pages = 0;
    int32_t *table = NULL;
    struct err own = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* caches of models are folders of links */
    bool good = tensors_read_open(fd, path, MOST_BYTES, &b->file, e) && read_spec(&x, &n_pages) && read_lists(&x, n_pages);
    if (good) {
        b->tree = tree_of_pages(&b->lists, &table);
        tree_set_window(b->tree, b->spec.window);
        good = tree_check(b->tree, &own) || err_set(e, "%s: %s", path, own.msg);
    }
    good = good && (!find(&x, "q") || make_problem(&x, table)) && read_declared(&x) && read_output(&x);
    free(table);
    if (!good)
        bundle_free(b);
    return good;
}

void bundle_free(struct bundle *b)
{
    if (b->p)
        b->p->q = b->p->k = b->p->v = NULL; /* the file's */
    problem_free(b->p);
    output_free(b->out);
    tree_free(b->tree);
    request_pages_free(&b->lists);
    tensors_free(&b->file);
    *b = (struct bundle){.p = NULL};
}

struct bundle_verdict bundle_judge(struct bundle *b)
{
    struct bundle_verdict v = {.cause = {.text = ""}};
    struct kernel recorded = {.name = "recorded",
                              .point = POINT_ATTENTION,
                              .declared = &b->declared,
                              .lse_unit = b->has_lse ? 1 : 0};
    struct arithmetic a = arithmetic_declared(&recorded, NULL, b->p->heads.dtype);
    struct oracle *orc = oracle_new(b->p);
    if (!b->has_lse)
        output_set_all_lse(b->out, orc->lse);
    v.cmp = compare_output(b->p, orc, b->out, &a);
    if (v.cmp.verdict == V_FAIL)
        v.cause = find_cause(b->p, orc, NULL, &recorded, b->out, &a, &v.cmp, true);
    oracle_free(orc);
    return v;
}
