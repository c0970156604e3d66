/*
 * arithmetic.c - a right plug-in in float, in one of several arithmetics, at all points, for tests/verify/check_child.c.
 *
 * ARITH is what it does: order (all tokens are added one by one), blocked (parts of 64), p-bf16 (blocked, with P in bf16),
 * p-bf16-sum (the same, divided by the sum of P in bf16), partial-f16 (blocked, with O of a part in fp16) or sum-f16 (blocked;
 * sums are rounded to fp16 each time: nothing that may be declared) or fused (blocked; a score is scaled exactly and the maximum is
 * not, which goes well until scores are vast). ARITH_MERGE is how it merges parts: order, or tree.
 * ARITH_SAYS and ARITH_MERGE_SAYS are what it declares, where that is something else.
 */
#include "tests/plugin/narrow.h"
#include "verify/child/treeattn_plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_D = 256, BLOCK = 64, MAX_CONTEXT = 150000, MAX_MERGES = 5000 };

static const char *env(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* What it does: asked for once, since it matters at each token. */
static int sums_in_order, p_bf16, sum_bf16, partial_f16, sum_f16, fused, merges_in_order;

static int does(const char *what)
{
    return strcmp(env("ARITH", "blocked"), what) == 0;
}

static void ask_what_to_do(void)
{
    sums_in_order = does("order");
    sum_bf16 = does("p-bf16-sum");
    p_bf16 = sum_bf16 || does("p-bf16");
    partial_f16 = does("partial-f16");
    sum_f16 = does("sum-f16");
    fused = does("fused");
    merges_in_order = strcmp(env("ARITH_MERGE", "order"), "order") == 0;
}

/* ---- elements ----------------------------------------------------------------------------------------- */

static float get(const struct ta_tensor *t, int64_t i)
{
    if (t->bits == 32)
        return ((const float *)t->data)[i];
    uint16_t h = ((const uint16_t *)t->data)[i];
    return t->code == 2 ? from_half(h) : from_bf16(h);
}

static void get_row(const struct ta_tensor *t, int64_t first, int n, float *to)
{
    for (int i = 0; i < n && t->bits == 32; i++)
        to[i] = ((const float *)t->data)[first + i];
    for (int i = 0; i < n && t->bits == 16 && t->code == 2; i++)
        to[i] = from_half(((const uint16_t *)t->data)[first + i]);
    for (int i = 0; i < n && t->bits == 16 && t->code != 2; i++)
        to[i] = from_bf16(((const uint16_t *)t->data)[first + i]);
}

static void put(const struct ta_tensor *t, int64_t i, float x)
{
    uint16_t *to = (uint16_t *)t->data + i;
    uint32_t bits;
    if (t->bits == 32) {
        ((float *)t->data)[i] = x;
        return;
    }
    float y = t->code == 4 ? to_bf16(x) : to_half(x);
    memcpy(&bits, &y, sizeof bits);
    if (t->code == 4) {
        *to = (uint16_t)(bits >> 16);
        return;
    }
    int e;
    float m = frexpf(fabsf(y), &e);
    uint16_t sign = (uint16_t)(signbit(y) ? 0x8000 : 0);
    if (y == 0)
        *to = sign;
    else if (isinf(y))
        *to = sign | 0x7c00;
    else if (e < -13)
        *to = (uint16_t)(sign | (uint16_t)ldexpf(fabsf(y), 24));
    else
        *to = (uint16_t)(sign | (e + 14) << 10 | ((uint16_t)ldexpf(m, 11) & 1023));
}

/* ---- parts, and what comes of two ------------------------------------------------------------------------ */

struct part {
    float lse, o[MAX_D];
    int64_t weight; /* parts in it */
};

static float add(float a, float b)
{
    return sum_f16 ? to_half(a + b) : a + b;
}

/* b into a. */
static void merge_two(struct part *a, const struct part *b, int d)
{
    float max = fmaxf(a->lse, b->lse);
    a->weight += b->weight;
    if (max == -INFINITY)
        return;
    float of_a = expf(a->lse - max), of_b = expf(b->lse - max), sum = of_a + of_b;
    for (int i = 0; i < d; i++)
        a->o[i] = (of_a * a->o[i] + of_b * b->o[i]) / sum;
    a->lse = max + logf(sum);
}

/* Parts on the way: in order there is one. */
struct pile {
    int n, d;
    struct part at[40];
};

static void pile_add(struct pile *s, const struct part *p)
{
    s->at[s->n++] = *p;
    while (s->n > 1 && (merges_in_order || s->at[s->n - 2].weight <= s->at[s->n - 1].weight)) {
        merge_two(&s->at[s->n - 2], &s->at[s->n - 1], s->d);
        s->n--;
    }
}

static const struct part *pile_end(struct pile *s)
{
    static const struct part none = {.lse = -INFINITY};
    for (; s->n > 1; s->n--)
        merge_two(&s->at[s->n - 2], &s->at[s->n - 1], s->d);
    return s->n ? &s->at[0] : &none;
}

/* ---- attention ---------------------------------------------------------------------------------------- */

struct row {
    const struct ta_tensor *q, *k, *v;
    int64_t at;
    int kv_heads, kv_head, d;
    float scale;
};

/* Softmax over n tokens. */
static void attend(const struct row *r, const int32_t *token, int n, struct part *out)
{
    static float logit[MAX_CONTEXT];
    float max = -INFINITY, sum = 0, q[MAX_D];
    get_row(r->q, r->at * r->d, r->d, q);
    memset(out->o, 0, sizeof out->o);
    for (int j = 0; j < n; j++) {
        int64_t at = ((int64_t)token[j] * r->kv_heads + r->kv_head) * r->d;
        float dot = 0, k[MAX_D];
        get_row(r->k, at, r->d, k);
        for (int i = 0; i < r->d; i++)
            dot += q[i] * k[i];
        logit[j] = fused ? dot : dot * r->scale;
        max = fmaxf(max, logit[j]);
    }
    for (int j = 0; j < n; j++) {
        int64_t at = ((int64_t)token[j] * r->kv_heads + r->kv_head) * r->d;
        float below = fused ? fmaf(logit[j], r->scale, -(max * r->scale)) : logit[j] - max,
              exact = expf(below), p = p_bf16 ? to_bf16(exact) : exact;
        sum = add(sum, sum_bf16 ? p : exact);
        float v[MAX_D];
        get_row(r->v, at, r->d, v);
        for (int i = 0; i < r->d; i++)
            out->o[i] = add(out->o[i], p * v[i]);
    }
    for (int i = 0; i < r->d; i++) {
        out->o[i] /= sum;
        if (partial_f16)
            out->o[i] = to_half(out->o[i]);
    }
    out->lse = (fused ? max * r->scale : max) + logf(sum);
    out->weight = 1;
}

static void put_row(const struct ta_tensor *o, const struct ta_tensor *lse, int64_t row, int d,
                    const struct part *p)
{
    for (int i = 0; i < d; i++)
        put(o, row * d + i, p->o[i]);
    if (lse->data)
        put(lse, row, p->lse);
}

/* All tokens that a row sees, in parts. */
static void attend_all(const struct row *r, const int32_t *token, int64_t n, const struct ta_tensor *o,
                       const struct ta_tensor *lse)
{
    static struct pile s;
    int size = sums_in_order ? MAX_CONTEXT : BLOCK;
    s.n = 0;
    s.d = r->d;
    for (int64_t j = 0; j < n; j += size) {
        struct part p;
        attend(r, token + j, n - j < size ? (int)(n - j) : size, &p);
        pile_add(&s, &p);
    }
    put_row(o, lse, r->at, r->d, pile_end(&s));
}

static int run(const struct ta_case *c, char why[TA_WHY])
{
    const int32_t *ptr = ta_i32(c, "kv_indptr"), *index = ta_i32(c, "kv_indices");
    (void)why;
    for (int64_t row = 0; row < (int64_t)c->n_queries * c->n_heads; row++) {
        int64_t q = row / c->n_heads;
        struct row r = {&c->q,       &c->k,          &c->v,
                        row,         c->n_kv_heads,  (int)(row % c->n_heads / (c->n_heads / c->n_kv_heads)),
                        c->head_dim, (float)c->scale};
        attend_all(&r, index + ptr[q], ptr[q + 1] - ptr[q], &c->o, &c->lse);
    }
    return TA_OK;
}

static int partial(const struct ta_partial *c, char why[TA_WHY])
{
    int32_t *seen = malloc((size_t)(c->n_tokens + 1) * sizeof *seen);
    (void)why;
    for (int64_t row = 0; row < (int64_t)c->n_queries * c->n_heads; row++) {
        int64_t q = row / c->n_heads, n = 0;
        for (int64_t j = 0; j < c->n_tokens; j++)
            if (!c->sees || c->sees[q * c->n_tokens + j])
                seen[n++] = c->token[j];
        struct row r = {&c->q,       &c->k,          &c->v,
                        row,         c->n_kv_heads,  (int)(row % c->n_heads / (c->n_heads / c->n_kv_heads)),
                        c->head_dim, (float)c->scale};
        attend_all(&r, seen, n, &c->o, &c->lse);
    }
    free(seen);
    return TA_OK;
}

static int merge(const struct ta_merge *c, char why[TA_WHY])
{
    static struct pile s;
    int64_t rows = (int64_t)c->n_queries * c->n_heads;
    (void)why;
    for (int64_t row = 0; row < rows; row++) {
        s.n = 0;
        s.d = c->head_dim;
        for (int64_t j = 0; j < c->n_inputs; j++) {
            struct part p = {.lse = get(&c->lse_in, j * rows + row), .weight = 1};
            for (int i = 0; i < s.d; i++)
                p.o[i] = get(&c->o_in, (j * rows + row) * s.d + i);
            pile_add(&s, &p);
        }
        put_row(&c->o, &c->lse, row, s.d, pile_end(&s));
    }
    return TA_OK;
}

const struct ta_plugin *treeattn_plugin(uint32_t abi)
{
    static struct ta_plugin me = {.size = sizeof me,
                                  .abi = TA_ABI,
                                  .name = "arithmetic",
                                  .view = "slots",
                                  .dtypes = "f32 f16 bf16",
                                  .run = run,
                                  .partial = partial,
                                  .merge = merge,
                                  .max_context = MAX_CONTEXT};
    const char *says = env("ARITH_SAYS", env("ARITH", "blocked")),
               *merges = env("ARITH_MERGE_SAYS", env("ARITH_MERGE", "order"));
    (void)abi;
    ask_what_to_do();
    me.sum_block = strcmp(says, "order") == 0 ? 0 : BLOCK;
    me.merge_chain = strcmp(merges, "tree") == 0 ? 16 : MAX_MERGES;
    me.probability = strncmp(says, "p-bf16", 6) == 0 ? "bf16" : NULL;
    me.probability_sum = strcmp(says, "p-bf16-sum") == 0 ? "rounded" : NULL;
    me.lse = env("ARITH_LSE", "e");
    me.partial_o = strcmp(says, "partial-f16") == 0 ? "f16" : NULL;
    return &me;
}
