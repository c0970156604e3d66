#include "ref/problem.h"
#include "ref/nform.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Pools of more bytes than this are mapped, so that memory is what is touched and not what is addressed. */
#define MAPPED_FROM (INT64_C(1) << 28)
enum { MACHINE_PAGE = 4096 };

const char *const fill_name[N_FILLS] = {"random", "count", "huge", "onehot", "identical",
                                        "vast",   "sunk",  "span", "onesign"};

const char *const feature_name[N_FEATURES] = {
    [FEATURE_SOFT_CAP] = "softcap", [FEATURE_SINKS] = "sinks", [FEATURE_WINDOW] = "window",
    [FEATURE_E4M3] = "e4m3",        [FEATURE_E5M2] = "e5m2",   [FEATURE_HEAD_SCALES] = "headscales",
    [FEATURE_LATENT] = "latent",   [FEATURE_NARROW_V] = "narrowv"};

void features_list(char out[FEATURES_LISTED])
{
    out[0] = 0;
    for (int i = 0; i < N_FEATURES; i++)
        listing_add(out, FEATURES_LISTED, feature_name[i]);
}

bool features_parse(const char *list, uint32_t *out, struct err *e)
{
    *out = 0;
    if (strcmp(list, "none") == 0)
        return true;
    for (;; list++) {
        size_t n = strcspn(list, ",");
        int i = 0;
        while (i < N_FEATURES && (strlen(feature_name[i]) != n || strncmp(feature_name[i], list, n) != 0))
            i++;
        if (i == N_FEATURES) {
            char known[FEATURES_LISTED];
            features_list(known);
            return err_set(e, "feature '%.*s' (expected none, or some of: %s)", (int)(n < 60 ? n : 60), list,
                           known);
        }
        *out |= UINT32_C(1) << i;
        list += n;
        if (!*list)
            return true;
    }
}

static uint32_t features_of(bool soft_cap, bool sinks, bool window, const struct heads *h, bool head_scales)
{
    enum dtype kv = heads_kv_dtype(h);
    return (uint32_t)soft_cap << FEATURE_SOFT_CAP | (uint32_t)sinks << FEATURE_SINKS |
           (uint32_t)window << FEATURE_WINDOW | (uint32_t)(kv == DT_E4M3) << FEATURE_E4M3 |
           (uint32_t)(kv == DT_E5M2) << FEATURE_E5M2 | (uint32_t)head_scales << FEATURE_HEAD_SCALES |
           (uint32_t)heads_v_in_k(h) << FEATURE_LATENT | (uint32_t)(h->d_v > 0 && h->v_apart) << FEATURE_NARROW_V;
}

uint32_t problem_features(const struct problem *p)
{
    bool differ = false;
    for (int32_t h = 1; h < p->heads.h_kv; h++)
        differ = differ || problem_k_scale(p, h) != problem_k_scale(p, 0) ||
                 problem_v_scale(p, h) != problem_v_scale(p, 0);
    return features_of(p->soft_cap > 0, p->sink != NULL, p->tree->since != NULL, &p->heads, differ);
}

uint32_t problem_spec_features(const struct problem_spec *s)
{
    return features_of(s->soft_cap > 0, s->sinks, s->window > 0, &s->heads, s->head_scales);
}

void problem_spec_restrict(struct problem_spec *s, uint32_t features)
{
    if (!(features >> FEATURE_SOFT_CAP & 1))
        s->soft_cap = 0;
    s->sinks = s->sinks && (features >> FEATURE_SINKS & 1);
    if (!(features >> FEATURE_WINDOW & 1))
        s->window = 0;
    if (!(features >> (s->heads.v_apart ? FEATURE_NARROW_V : FEATURE_LATENT) & 1)) {
        s->heads.d_v = 0;
        s->heads.v_apart = false;
        s->heads.d = (int32_t)min_i64(s->heads.d, PROBLEM_MAX_D);
    }
    enum dtype kv = heads_kv_dtype(&s->heads);
    if ((kv == DT_E4M3 && !(features >> FEATURE_E4M3 & 1)) ||
        (kv == DT_E5M2 && !(features >> FEATURE_E5M2 & 1)))
        s->heads.kv_fp8 = DT_F64;
    s->head_scales = s->head_scales && heads_fp8(&s->heads) && (features >> FEATURE_HEAD_SCALES & 1);
}

int32_t problem_usual_d_v(const struct heads *h)
{
    return h->d - h->d / (h->v_apart ? 3 : 9);
}

/* Streams of the generator: what an element belongs to, times the node or query it sits on. */
enum { TENSOR_K, TENSOR_V, TENSOR_Q, TENSOR_PAGES, TENSOR_TARGET, TENSOR_HEAT, N_TENSORS };

/* Of no node and no query; one more tensor would change all numbers of all seeds. */
#define STREAM_SINKS UINT64_MAX
#define STREAM_SCALES (UINT64_MAX - 1)

static uint64_t stream(int tensor, int64_t owner)
{
    return (uint64_t)owner * N_TENSORS + (uint64_t)tensor;
}

bool fill_parse(const char *s, enum fill *out)
{
    for (int i = 0; i < N_FILLS; i++)
        if (strcmp(s, fill_name[i]) == 0) {
            *out = (enum fill)i;
            return true;
        }
    return false;
}

bool problem_heads_check(int32_t h_q, int32_t h_kv, struct err *e)
{
    if (h_kv < 1 || h_q < h_kv || h_q % h_kv != 0 || h_q > PROBLEM_MAX_HEADS)
        return err_set(
            e, "heads %" PRId32 "/%" PRId32 " (expected query heads a multiple of KV heads, both 1 to %d)",
            h_q, h_kv, PROBLEM_MAX_HEADS);
    return true;
}

bool problem_spec_check(const struct problem_spec *s, struct err *e)
{
    if (!problem_heads_check(s->heads.h_q, s->heads.h_kv, e))
        return false;
    int32_t most = heads_v_in_k(&s->heads) ? PROBLEM_MAX_ROW : PROBLEM_MAX_D;
    if (s->heads.d < 1 || s->heads.d > most)
        return err_set(e, "head size %" PRId32 " (expected 1 to %" PRId32 ")", s->heads.d, most);
    if (s->heads.v_apart && (s->heads.d_v < 1 || s->heads.d_v > s->heads.d))
        return err_set(e, "V of %" PRId32 " elements (expected 1 to %" PRId32 ", as K has)", s->heads.d_v, s->heads.d);
    if (s->heads.d_v < 0 || s->heads.d_v > s->heads.d)
        return err_set(e, "V of %" PRId32 " elements in K's row (expected 1 to %" PRId32 ", or 0 for a V of its own)",
                       s->heads.d_v, s->heads.d);
    if (s->page_size < 1 || s->page_size > 65536)
        return err_set(e, "page size %" PRId32 " (expected 1 to 65536)", s->page_size);
    if (s->scale != 0 && !(s->scale >= PROBLEM_MIN_SCALE && s->scale <= PROBLEM_MAX_SCALE))
        return err_set(e, "scale %g (expected %g to %g)", s->scale, PROBLEM_MIN_SCALE, PROBLEM_MAX_SCALE);
    if (s->soft_cap != 0 && !(s->soft_cap >= PROBLEM_MIN_SOFT_CAP && s->soft_cap <= PROBLEM_MAX_SOFT_CAP))
        return err_set(e, "soft cap %g (expected %g to %g, or 0 for none)", s->soft_cap, PROBLEM_MIN_SOFT_CAP,
                       PROBLEM_MAX_SOFT_CAP);
    if (s->window < 0 || s->window > TREE_MAX_TOKENS)
        return err_set(e, "window %" PRId64 " (expected 1 to %" PRId64 ", or 0 for none)", s->window,
                       TREE_MAX_TOKENS);
    if (s->head_scales && !heads_fp8(&s->heads))
        return err_set(e, "scales of each KV head, but K and V are in %s (expected e4m3 or e5m2)",
                       dtype_name[s->heads.dtype]);
    return true;
}

static int64_t pages_needed(const struct tree *t, int32_t page_size)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        n += ceil_div(t->len[i], page_size);
    return n;
}

/* A scattered pool has spare pages, so that a wrong page number is likely to hit poison. */
static int64_t pool_pages(const struct tree *t, const struct problem_spec *s)
{
    int64_t n = pages_needed(t, s->page_size);
    return max_i64(s->scattered ? n + n / 4 + 3 : n + 1, s->pool);
}

static int64_t token_bytes(const struct heads *h)
{
    return (int64_t)h->h_kv * h->d * heads_kv_bytes(h);
}

/* Of K, or of V. */
static int64_t pool_bytes(const struct tree *t, const struct problem_spec *s)
{
    return pool_pages(t, s) * s->page_size * token_bytes(&s->heads);
}

int64_t problem_bytes(const struct tree *t, const struct problem_spec *s)
{
    int64_t pool = pool_bytes(t, s), pages = pages_needed(t, s->page_size);
    if (!s->poison) /* each page may end within a page of the machine's memory */
        pool = min_i64(pool, tree_tokens(t) * token_bytes(&s->heads) + 2 * MACHINE_PAGE * pages);
    return 2 * pool + (int64_t)t->n_queries * s->heads.h_q * s->heads.d * heads_elt_bytes(&s->heads) +
           pages * 4;
}

/* How many leading tokens of each node all windows have left behind: pieces that have no tokens in normal form. The caller frees. */
static int64_t *dead_tokens(const struct tree *t)
{
    int64_t *dead = xcalloc((size_t)t->n_nodes, sizeof *dead);
    struct nform *nf = t->since ? nform_new(t) : NULL;
    for (int32_t i = 0; nf && i < nf->n_nodes; i++) {
        bool last = i + 1 == nf->n_nodes || nf->src[i + 1] != nf->src[i];
        if (nf->len[i] == 0 &&
            dead[nf->src[i]] == nf->off[i]) /* what lies behind the last query is not meant */
            dead[nf->src[i]] = last ? t->len[nf->src[i]] : nf->off[i + 1];
    }
    nform_free(nf);
    return dead;
}

/* live[i]: how many leading tokens of node i some query sees, or has behind its window. */
static int64_t *live_tokens(const struct tree *t)
{
    int64_t *live = xcalloc((size_t)t->n_nodes, sizeof *live);
    uint8_t *below = xcalloc((size_t)t->n_nodes, 1); /* a query strictly below: the whole node is seen */
    for (int32_t q = 0; q < t->n_queries; q++) {
        const struct query *x = &t->query[q];
        live[x->node] = max_i64(live[x->node], x->upto);
        if (t->parent[x->node] >= 0)
            below[t->parent[x->node]] = 1;
    }
    for (int32_t i = t->n_nodes - 1; i >= 0; i--)
        if (below[i]) {
            live[i] = t->len[i];
            if (t->parent[i] >= 0)
                below[t->parent[i]] = 1;
        }
    free(below);
    return live;
}

int32_t *pages_shuffled(int64_t n, uint64_t seed, uint64_t series)
{
    int32_t *page = xcalloc((size_t)n, sizeof *page);
    for (int64_t i = 0; i < n; i++)
        page[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = rng_below(seed, series, (uint64_t)i, i + 1);
        int32_t x = page[i];
        page[i] = page[j];
        page[j] = x;
    }
    return page;
}

static void assign_pages(struct problem *p, const struct problem_spec *s, const int64_t *live)
{
    const struct tree *t = p->tree;
    int32_t *phys = s->scattered ? pages_shuffled(p->n_pages, s->seed, stream(TENSOR_PAGES, 0)) : NULL;
    int64_t n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        for (int64_t first = 0; first < t->len[i]; first += p->page_size, n++)
            p->page_table[n] = s->poison && first >= live[i] ? PAGE_POISON : phys ? phys[n] : (int32_t)n;
    free(phys);
}

int32_t problem_page(const struct problem *p, int32_t node, int64_t i, struct err *e)
{
    int32_t page = p->page_table[p->page_off[node] + i];
    if (page >= 0 && page < p->n_pages)
        return page;
    err_set(e, "page table: page %" PRId64 " of node %" PRId32 " is %" PRId32 " (expected 0 .. %" PRId64 ")",
            i, node, page, p->n_pages - 1);
    return -1;
}

void problem_path_slots(const struct problem *p, int32_t q, int64_t n, int64_t *slot)
{
    const struct query *x = &p->tree->query[q];
    int64_t end = n;
    for (int32_t node = x->node; node >= 0; node = p->tree->parent[node]) {
        int64_t len = node == x->node ? x->upto : p->tree->len[node], take = min_i64(len, end);
        end -= take;
        for (int64_t j = 0; j < take; j++) /* of a window's first node the last tokens */
            slot[end + j] = problem_slot(p, node, len - take + j);
    }
    CK(end == 0);
}

/* A path is walked once to find its token number `want`, root first. */
static void path_token(const struct tree *t, const struct query *x, int64_t want, int32_t *node, int64_t *j)
{
    int64_t after = 0; /* tokens between here and the end of the path */
    int64_t ctx = x->upto;
    for (int32_t i = t->parent[x->node]; i >= 0; i = t->parent[i])
        ctx += t->len[i];
    *node = x->node;
    int64_t len = x->upto;
    while (want < ctx - after - len) {
        after += len;
        *node = t->parent[*node];
        len = t->len[*node];
    }
    *j = want - (ctx - after - len);
}

static double element(const struct problem *p, const void *pool, const float *scale, int64_t at)
{
    double x = dtype_load(heads_kv_dtype(&p->heads), pool, at);
    return scale ? x * (double)scale[at / p->heads.d % p->heads.h_kv] : x;
}

double problem_k(const struct problem *p, int64_t at)
{
    return element(p, p->k, p->k_scale, at);
}

double problem_v(const struct problem *p, int64_t at)
{
    return element(p, p->v, p->v_scale, at);
}

static void load_row(const struct problem *p, const void *pool, const float *scale, int64_t slot,
                     int32_t kv_head, double *row)
{
    int32_t n = pool == p->k ? p->heads.d : heads_d_v(&p->heads);
    dtype_to_double(heads_kv_dtype(&p->heads), pool, (slot * p->heads.h_kv + kv_head) * p->heads.d, row, n);
    for (int32_t c = 0; c < n && scale; c++)
        row[c] *= (double)scale[kv_head];
}

void problem_k_row(const struct problem *p, int64_t slot, int32_t kv_head, double *row)
{
    load_row(p, p->k, p->k_scale, slot, kv_head, row);
}

void problem_v_row(const struct problem *p, int64_t slot, int32_t kv_head, double *row)
{
    load_row(p, p->v, p->v_scale, slot, kv_head, row);
}

/* Of K, and of Q with the other sign: a dot product is -d SUNK^2. */
enum { SUNK = 150 };

/*
 * SPAN: exponents of columns c, c + 8, .. Those of K and Q cancel, so that each product counts in the logit; where they do not,
 * K or Q is subnormal and its partner as large as the type has it. A column of V is all that a column of O depends on.
 * The bell ends at 3.5, and Q has up to four times that. fp16 has numbers from 2^-24 to 2^16, normal from 2^-14 on; e4m3 from 2^-9
 * to 448, normal from 2^-6 on; e5m2 from 2^-16 to 57344, normal from 2^-14 on.
 */
enum { SPAN = 8 };
#define BELL_END 3.5
/* Numbers below the normal ones of float, in one column alone since CPUs are slow at them; in f64 below those of double. */
enum { SPAN_TINY = -130, SPAN_TINY_F64 = -1030, SPAN_ELSE = -100 };
static const struct exponents {
    int16_t k, q, v;
} span_f16[SPAN] = {{14, -14, 14}, {-12, 12, -10}, {0, 0, 0},    {14, -17, -17},
                    {-16, 12, 10}, {5, -5, -14},   {-14, 12, 5}, {0, 0, -20}},
  span_e4m3[SPAN] = {{7, -7, 7}, {-5, 5, -4}, {0, 0, 0},  {7, -9, -8},
                     {-8, 5, 4}, {3, -3, -6}, {-6, 5, 3}, {0, 0, -9}},
  span_e5m2[SPAN] = {{14, -14, 14}, {-12, 12, -10}, {0, 0, 0},    {14, -17, -15},
                     {-16, 12, 10}, {5, -5, -13},   {-14, 12, 5}, {0, 0, -16}},
  span_wide[SPAN] = {{17, -17, 17}, {-27, 27, -27}, {0, 0, 0},    {60, -60, 60},
                     {-17, 17, 10}, {27, -27, -60}, {-60, 60, 5}, {SPAN_TINY, 60, SPAN_TINY}};

static const struct exponents *span_of(const struct heads *h)
{
    enum dtype kv = heads_kv_dtype(h);
    return kv == DT_E4M3 ? span_e4m3 : kv == DT_E5M2 ? span_e5m2 : kv == DT_F16 ? span_f16 : span_wide;
}

enum span_tensor { SPAN_Q, SPAN_K, SPAN_V };

static double span(const struct problem_spec *s, enum span_tensor which, int64_t in_row)
{
    int64_t c = in_row % s->heads.d % SPAN;
    int e = which == SPAN_Q   ? span_of(&s->heads)[c].q
            : which == SPAN_K ? span_of(&s->heads)[c].k
                              : span_of(&s->heads)[c].v;
    if (e == SPAN_TINY)
        e = in_row % s->heads.d != c ? SPAN_ELSE : s->heads.dtype == DT_F64 ? SPAN_TINY_F64 : SPAN_TINY;
    return ldexp(1, e);
}

/* Of every other stretch of columns in SPAN, and of all in ONESIGN: the sign that column c of V has. */
static double column_sign(int64_t c)
{
    return c & 1 ? -1 : 1;
}

/* Is that element of K's row V's alone, as Q is 0 there? Where keys are alike, V in their rows is not: a sum of one number, again and
 * again, is rounded to one side, which no bound of independent roundings allows for. */
static bool is_v_alone(const struct problem_spec *s, int64_t in_row)
{
    return heads_v_in_k(&s->heads) && in_row % s->heads.d < s->heads.d_v &&
           (s->fill == FILL_COUNT || s->fill == FILL_IDENTICAL || s->fill == FILL_SUNK || s->fill == FILL_ONESIGN);
}

/* The first column of K that a score has, which tells tokens apart in SUNK. */
static int64_t first_of_scores(const struct heads *h)
{
    return heads_v_in_k(h) ? h->d_v : 0;
}

static double k_value(const struct problem_spec *s, int32_t node, uint64_t index, int64_t in_row)
{
    switch (s->fill) {
    case FILL_IDENTICAL:
    case FILL_ONESIGN:
        return rng_bell(s->seed, stream(TENSOR_K, 0), (uint64_t)in_row);
    case FILL_HUGE:
        return 50 * rng_bell(s->seed, stream(TENSOR_K, node), index);
    case FILL_VAST: /* the bell ends at 3.5: f16 can hold all of it */
        return 12000 * rng_bell(s->seed, stream(TENSOR_K, node), index);
    case FILL_SUNK: /* whole numbers that all types hold; one of them tells tokens apart */
        if (heads_fp8(&s->heads)) /* where SUNK is one number of many, the next ones are far away */
            return in_row % s->heads.d == first_of_scores(&s->heads)
                       ? rint(rng_bell(s->seed, stream(TENSOR_K, node), index))
                       : SUNK;
        return SUNK + (in_row % s->heads.d == first_of_scores(&s->heads) ? rint(rng_bell(s->seed, stream(TENSOR_K, node), index)) : 0);
    case FILL_SPAN:
        return span(s, SPAN_K, in_row) * rng_bell(s->seed, stream(TENSOR_K, node), index);
    default:
        return rng_bell(s->seed, stream(TENSOR_K, node), index);
    }
}

/* Numbers of V that are all of one sign, from this to twice it. In 8 bits they may be stored as an eighth more, and are to stay within
 * fp16. */
static double onesign_least(const struct problem_spec *s)
{
    return heads_fp8(&s->heads) ? 2.625e4 : 3e4;
}

static double v_value(const struct problem_spec *s, int32_t node, uint64_t index, int64_t in_row)
{
    uint64_t key = stream(TENSOR_V, node);
    int64_t c = in_row % s->heads.d;
    switch (s->fill) {
    case FILL_COUNT: /* a code of 0s and 1s per token: n * O is the sum of the codes that were read */
        return (double)(rng_u64(s->seed, key, index) >> 63);
    case FILL_SPAN: {
        double x = span(s, SPAN_V, in_row) * rng_bell(s->seed, key, index);
        return c / SPAN % 2 ? column_sign(c) * fabs(x) : x;
    }
    case FILL_ONESIGN:
        return column_sign(c) * onesign_least(s) * (1 + rng_unit(s->seed, key, index));
    default:
        return rng_bell(s->seed, key, index);
    }
}

static void fill_kv(struct problem *p, const struct problem_spec *s, const int64_t *live, const int64_t *dead)
{
    const struct tree *t = p->tree;
    int64_t row = (int64_t)p->heads.h_kv * p->heads.d, n = p->n_pages * p->page_size * row;
    enum dtype kv = heads_kv_dtype(&p->heads);
    if (s->poison) {
        dtype_fill(kv, p->k, n, nan_of(NAN_POISON));
        dtype_fill(kv, p->v, n, nan_of(NAN_POISON));
    }
    for (int32_t node = 0; node < t->n_nodes; node++) {
        int64_t begin = s->poison ? dead[node] : 0, end = s->poison ? live[node] : t->len[node];
#pragma omp parallel for schedule(static) if (end > 256)
        for (int64_t j = begin; j < end; j++) {
            int64_t to = problem_slot(p, node, j) * row;
            for (int64_t x = 0; x < row; x++) {
                uint64_t index = (uint64_t)(j * row + x);
                int32_t h = (int32_t)(x / p->heads.d);
                bool in_v = x % p->heads.d < heads_d_v(&p->heads), latent = heads_v_in_k(&p->heads);
                double k = is_v_alone(s, x) ? v_value(s, node, index, x) : k_value(s, node, index, x),
                       v = latent ? k : v_value(s, node, index, x);
                dtype_store(kv, p->k, to + x, k / problem_k_scale(p, h));
                dtype_store(kv, p->v, to + x, in_v ? v / problem_v_scale(p, h) : nan_of(NAN_POISON));
            }
        }
    }
}

/* Rows of Q. RANDOM draws a temperature per row, so that flat and peaked softmaxes both occur; ONEHOT points
 * the query at one key of its own path, and in VAST it is that key. */
static void fill_q(struct problem *p, const struct problem_spec *s)
{
    const struct tree *t = p->tree;
    int32_t g = heads_gqa(&p->heads);
    int64_t *ctx = xcalloc((size_t)t->n_queries, sizeof *ctx);
    tree_contexts(t, ctx);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t h = 0; h < p->heads.h_q; h++) {
            static const double heat[] = {0.5, 1, 2, 4};
            double scale = s->fill == FILL_COUNT ? 0
                           : s->fill == FILL_HUGE
                               ? 50
                               : heat[rng_below(s->seed, stream(TENSOR_HEAT, q), (uint64_t)h, 4)];
            bool aim = (s->fill == FILL_ONEHOT || s->fill == FILL_VAST) && ctx[q] > 0;
            int64_t key = 0;
            if (aim) {
                int32_t node;
                int64_t j, want = rng_below(s->seed, stream(TENSOR_TARGET, q), (uint64_t)h, ctx[q]) +
                                  tree_since(t, q);
                path_token(t, &t->query[q], want, &node, &j);
                key = (problem_slot(p, node, j) * p->heads.h_kv + h / g) * p->heads.d;
            }
            for (int32_t x = 0; x < p->heads.d; x++) {
                int64_t to = ((int64_t)q * p->heads.h_q + h) * p->heads.d + x;
                double value =
                    aim ? (s->fill == FILL_VAST ? 1 : 12) * problem_k(p, key + x)
                    : is_v_alone(s, x) ? 0
                    : s->fill == FILL_SUNK
                        ? (x == first_of_scores(&p->heads) ? -8 * scale : -SUNK)
                        : scale * (s->fill == FILL_SPAN ? span(s, SPAN_Q, x) : 1) *
                              rng_bell(s->seed, stream(TENSOR_Q, q), (uint64_t)(h * p->heads.d + x));
                dtype_store(p->heads.dtype, p->q, to, value);
            }
        }
    free(ctx);
}

/* Near what most logits are, so that neither the sinks nor the tokens are all that counts: a sink far above them would make O 0,
 * whatever a kernel does. */
static void draw_sinks(struct problem *p, const struct problem_spec *s)
{
    /* In 8 bits one column of K is not SUNK. */
    double columns = fmax(0, (double)(p->heads.d - first_of_scores(&p->heads) - heads_fp8(&p->heads)));
    double most = s->fill == FILL_SUNK ? problem_logit(p, -columns * SUNK * SUNK) : 0;
    p->sink = xcalloc((size_t)p->heads.h_q, sizeof *p->sink);
    for (int32_t h = 0; h < p->heads.h_q; h++)
        p->sink[h] = (float)(most + 2 + 3 * rng_bell(s->seed, STREAM_SINKS, (uint64_t)h));
}

/* No |k|, or |v|, is more. */
static double most_of_k(enum fill fill)
{
    return fill == FILL_HUGE   ? 50 * BELL_END
           : fill == FILL_VAST ? 12000 * BELL_END
           : fill == FILL_SUNK ? SUNK
                               : BELL_END;
}
static double most_of_v(const struct problem_spec *s)
{
    return s->fill == FILL_COUNT ? 1 : s->fill == FILL_ONESIGN ? 2 * onesign_least(s) : BELL_END;
}

/*
 * What K, or V, is divided by before it is stored: [h_kv]. The largest number stored is between the type's largest and a small one, so
 * that none saturates and some of most cases are subnormal. A head's scale and the next one's differ by a fifth at least, and so do
 * those of K and V where both are as large: a wrong one shows.
 */
static float *draw_scales(const struct problem *p, const struct problem_spec *s, enum span_tensor which)
{
    enum dtype t = heads_kv_dtype(&p->heads);
    bool of_k = which == SPAN_K;
    double end = t == DT_E4M3 ? 448 : 57344;
    uint64_t at = of_k ? 0 : 1;
    /* Powers of two that the range leaves unused. */
    int64_t spare = s->fill == FILL_SPAN ? 0 : rng_below(s->seed, STREAM_SCALES, at, t == DT_E4M3 ? 6 : 14);
    double most = of_k ? most_of_k(s->fill) : most_of_v(s);
    if (is_v_alone(s, 0)) /* V's are in K's row */
        most = fmax(most, most_of_v(s));
    double least =
        s->fill == FILL_SPAN ? 1 : ldexp(most, (int)spare) / end;
    double turn = rng_unit(s->seed, STREAM_SCALES, 2) + (of_k ? 0 : 0.37);
    float *scale = xcalloc((size_t)p->heads.h_kv, sizeof *scale);
    for (int32_t h = 0; h < p->heads.h_kv; h++) {
        double x = turn + (s->head_scales ? h * 0.6180339887498949 : 0);
        double want = least * (1 + x - floor(x));
        if (s->fill == FILL_SUNK && of_k) /* SUNK is one of the numbers */ {
            uint8_t code;
            dtype_store(t, &code, 0, SUNK / want);
            want = SUNK / dtype_load(t, &code, 0);
        }
        scale[h] = (float)want;
    }
    return scale;
}

struct problem *problem_shell(const struct tree *t, const struct problem_spec *s)
{
    struct problem *p = xcalloc(1, sizeof *p);
    *p = (struct problem){.tree = t,
                          .heads = s->heads,
                          .scale = s->scale > 0 ? s->scale : 1 / sqrt(s->heads.d),
                          .soft_cap = s->soft_cap,
                          .page_size = s->page_size,
                          .n_pages = pool_pages(t, s),
                          .page_off = xcalloc((size_t)t->n_nodes + 1, sizeof *p->page_off)};
    for (int32_t i = 0; i < t->n_nodes; i++)
        p->page_off[i + 1] = p->page_off[i] + ceil_div(t->len[i], s->page_size);
    if (s->sinks)
        draw_sinks(p, s);
    if (heads_fp8(&s->heads)) {
        p->k_scale = draw_scales(p, s, SPAN_K);
        p->v_scale = draw_scales(p, s, heads_v_in_k(&s->heads) ? SPAN_K : SPAN_V);
    }
    return p;
}

/* K and V, of that many bytes each, all 0. */
static bool pool_new(struct problem *p, int64_t bytes, struct err *e)
{
    if (bytes < MAPPED_FROM) {
        p->k = xcalloc((size_t)bytes, 1);
        p->v = xcalloc((size_t)bytes, 1);
        return true;
    }
    void **const pool[] = {&p->k, &p->v};
    p->mapped = (size_t)bytes;
    for (int i = 0; i < 2; i++) {
        void *at =
            mmap(NULL, p->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return err_missing(e, "the system gives no addresses for a KV pool of %" PRId64 " GiB",
                               2 * bytes >> 30);
        madvise(at, p->mapped, MADV_NOHUGEPAGE); /* a page of which one token is touched would take 2 MiB */
        *pool[i] = at;
    }
    return true;
}

/* n elements anew, n may be 0; NULL of NULL. */
static void *copy_of(const void *x, int64_t n, size_t size)
{
    if (!x)
        return NULL;
    void *copy = xcalloc((size_t)n, size);
    memcpy(copy, x, (size_t)n * size);
    return copy;
}

static int64_t pool_elements(const struct problem *p)
{
    return p->n_pages * p->page_size * p->heads.h_kv * p->heads.d;
}

struct problem *problem_copy(const struct problem *p)
{
    size_t q = (size_t)heads_elt_bytes(&p->heads), kv = (size_t)heads_kv_bytes(&p->heads);
    struct problem *x = xmalloc(sizeof *x);
    *x = *p;
    x->page_off = copy_of(p->page_off, p->tree->n_nodes + 1, sizeof *p->page_off);
    x->page_table = copy_of(p->page_table, p->page_off[p->tree->n_nodes], sizeof *p->page_table);
    x->q = copy_of(p->q, (int64_t)p->tree->n_queries * p->heads.h_q * p->heads.d, q);
    x->sink = copy_of(p->sink, p->heads.h_q, sizeof *p->sink);
    x->k_scale = copy_of(p->k_scale, p->heads.h_kv, sizeof *p->k_scale);
    x->v_scale = copy_of(p->v_scale, p->heads.h_kv, sizeof *p->v_scale);
    x->k = copy_of(p->k, pool_elements(p), kv);
    x->v = copy_of(p->v, pool_elements(p), kv);
    x->mapped = 0;
    return x;
}

/* Bell-shaped numbers where the n elements at x are NaN. */
static void replace_nan(enum dtype t, void *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(dtype_load(t, x, i)))
            dtype_store(t, x, i, rng_bell(seed, 0, (uint64_t)i));
}

struct problem *problem_without_nan(const struct problem *p)
{
    if (p->mapped > 0)
        return NULL;
    struct problem *x = problem_copy(p);
    replace_nan(heads_kv_dtype(&x->heads), x->k, pool_elements(x), 1);
    replace_nan(heads_kv_dtype(&x->heads), x->v, pool_elements(x), 2);
    if (heads_v_in_k(&x->heads))
        memcpy(x->v, x->k, (size_t)pool_elements(x) * (size_t)heads_kv_bytes(&x->heads));
    return x;
}

void problem_copy_scales(struct problem *to, const struct problem *from)
{
    for (int32_t h = 0; h < from->heads.h_kv && from->k_scale; h++) {
        to->k_scale[h] = from->k_scale[h];
        to->v_scale[h] = from->v_scale[h];
    }
}

static void pool_free(const struct problem *p, void *pool)
{
    if (pool && p->mapped > 0)
        munmap(pool, p->mapped);
    else
        free(pool);
}

struct problem *problem_new(const struct tree *t, const struct problem_spec *s, struct err *e)
{
    if (!problem_spec_check(s, e))
        return NULL;
    int64_t n_pages = pool_pages(t, s), pool = pool_bytes(t, s);
    if (n_pages > INT32_MAX - 1 || pool > (INT64_C(1) << 37)) {
        err_missing(e,
                    "the KV pool would take %" PRId64 " GiB in %" PRId64 " pages (expected at most 256 GiB)",
                    2 * pool >> 30, n_pages);
        return NULL;
    }
    struct problem *p = problem_shell(t, s);
    if (!pool_new(p, pool, e)) {
        problem_free(p);
        return NULL;
    }
    p->page_table = xcalloc((size_t)p->page_off[t->n_nodes], sizeof *p->page_table);
    p->q = xcalloc((size_t)t->n_queries * (size_t)p->heads.h_q * (size_t)p->heads.d,
                   (size_t)heads_elt_bytes(&p->heads));
    int64_t *live = live_tokens(t), *dead = dead_tokens(t);
    assign_pages(p, s, live);
    fill_kv(p, s, live, dead);
    fill_q(p, s);
    free(live);
    free(dead);
    return p;
}

void problem_free(struct problem *p)
{
    if (!p)
        return;
    free(p->sink);
    free(p->k_scale);
    free(p->v_scale);
    free(p->page_off);
    free(p->page_table);
    free(p->q);
    pool_free(p, p->k);
    pool_free(p, p->v);
    free(p);
}

struct output *output_new(const struct problem *p)
{
    struct output *out = xcalloc(1, sizeof *out);
    out->dtype = p->heads.dtype;
    out->n_rows = (int64_t)p->tree->n_queries * p->heads.h_q;
    out->d = heads_d_v(&p->heads);
    out->o = xcalloc((size_t)out->n_rows * (size_t)out->d, (size_t)dtype_size[out->dtype]);
    out->lse = xcalloc((size_t)out->n_rows, out->dtype == DT_F64 ? sizeof(double) : sizeof(float));
    dtype_fill(out->dtype, out->o, out->n_rows * out->d, nan_of(NAN_UNWRITTEN));
    for (int64_t i = 0; i < out->n_rows; i++)
        output_set_lse(out, i, nan_of(NAN_UNWRITTEN));
    return out;
}

void output_free(struct output *out)
{
    if (!out)
        return;
    free(out->o);
    free(out->lse);
    free(out);
}

double output_lse(const struct output *out, int64_t row)
{
    return out->dtype == DT_F64 ? ((const double *)out->lse)[row] : (double)((const float *)out->lse)[row];
}

void output_set_lse(struct output *out, int64_t row, double x)
{
    if (out->dtype == DT_F64)
        ((double *)out->lse)[row] = x;
    else
        ((float *)out->lse)[row] = (float)x;
}

void output_set_all_lse(struct output *out, const double *lse)
{
    for (int64_t row = 0; row < out->n_rows; row++)
        output_set_lse(out, row, lse[row]);
}
