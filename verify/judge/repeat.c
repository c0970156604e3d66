#include "verify/judge/repeat.h"
#include "ref/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is repeated: pairs of a query head and a token that it sees, and bytes of pools and Q. A default run of verify must not take
 * much longer for it. */
enum { MOST_PAIRS = 6000, MOST_BYTES = 1 << 22 };

enum part_of {
    PART_LEN,
    PART_QUERY,
    PART_SINCE,
    PART_OFFSETS,
    PART_PAGES,
    PART_SINKS,
    PART_K_SCALES,
    PART_V_SCALES,
    PART_Q,
    PART_K,
    PART_V,
    N_PARTS
};
static const char *const part_name[N_PARTS] = {[PART_PAGES] = "the page table",
                                               [PART_SINKS] = "the sinks",
                                               [PART_K_SCALES] = "the scales of K",
                                               [PART_V_SCALES] = "the scales of V",
                                               [PART_Q] = "Q",
                                               [PART_K] = "K",
                                               [PART_V] = "V"};

struct part {
    void *at;
    size_t bytes;
};

/* All that differs between a case and one that is as large. */
struct parts {
    struct part of[N_PARTS];
};

static struct parts parts_of(struct tree *t, struct problem *p)
{
    size_t nodes = (size_t)t->n_nodes, size = (size_t)heads_elt_bytes(&p->heads), d = (size_t)p->heads.d,
           pool = (size_t)(p->n_pages * p->page_size) * (size_t)p->heads.h_kv * d *
                  (size_t)heads_kv_bytes(&p->heads),
           scales = p->k_scale ? (size_t)p->heads.h_kv * sizeof *p->k_scale : 0;
    return (struct parts){
        {[PART_LEN] = {t->len, nodes * sizeof *t->len},
         [PART_QUERY] = {t->query, (size_t)t->n_queries * sizeof *t->query},
         [PART_SINCE] = {t->since, t->since ? (size_t)t->n_queries * sizeof *t->since : 0},
         [PART_OFFSETS] = {p->page_off, (nodes + 1) * sizeof *p->page_off},
         [PART_PAGES] = {p->page_table, (size_t)p->page_off[t->n_nodes] * sizeof *p->page_table},
         [PART_SINKS] = {p->sink, p->sink ? (size_t)p->heads.h_q * sizeof *p->sink : 0},
         [PART_K_SCALES] = {p->k_scale, scales},
         [PART_V_SCALES] = {p->v_scale, scales},
         [PART_Q] = {p->q, (size_t)t->n_queries * (size_t)p->heads.h_q * d * size},
         [PART_K] = {p->k, pool},
         [PART_V] = {p->v, pool}}};
}

/* What lies there, one after the other; the caller frees. */
static char *contents_of(const struct parts *from)
{
    size_t bytes = 0;
    for (int i = 0; i < N_PARTS; i++)
        bytes += from->of[i].bytes;
    char *contents = xmalloc(bytes), *to = contents;
    for (int i = 0; i < N_PARTS; to += from->of[i++].bytes)
        if (from->of[i].bytes > 0)
            memcpy(to, from->of[i].at, from->of[i].bytes);
    return contents;
}

/* One part, or with N_PARTS all. */
static void put(const struct parts *to, const char *contents, enum part_of part)
{
    for (int i = 0; i < N_PARTS; contents += to->of[i++].bytes)
        if ((part == N_PARTS || (int)part == i) && to->of[i].bytes > 0)
            memcpy(to->of[i].at, contents, to->of[i].bytes);
}

struct repeat {
    struct tree *tree;
    struct problem *p;
    struct parts parts;
    enum repeat_change now;
    char *contents[N_REPEAT_CHANGES]; /* NULL: cannot be made */
    struct nform *nf[N_REPEAT_CHANGES];
    struct guarded inputs[N_REPEAT_CHANGES];
    bool summed[N_REPEAT_CHANGES];
    struct oracle *orc[N_REPEAT_CHANGES];
};

/* ---- other lengths --------------------------------------------------------------------------------------- */

/* Node i has that many tokens; queries at its end stay there. */
static void set_len(struct tree *t, int32_t i, int64_t len)
{
    for (int32_t q = 0; q < t->n_queries; q++)
        if (t->query[q].node == i)
            t->query[q].upto = t->query[q].upto == t->len[i] ? len : min_i64(t->query[q].upto, len);
    t->len[i] = len;
}

/* Nodes that are marked, the first with the last, and so on. */
static bool reverse_lengths(struct tree *t, const bool *marked, bool mark)
{
    bool changed = false;
    for (int32_t i = 0, j = t->n_nodes - 1; i < j; i++, j--) {
        while (i < j && marked[i] != mark)
            i++;
        while (i < j && marked[j] != mark)
            j--;
        int64_t a = t->len[i], b = t->len[j];
        if (a == b)
            continue;
        set_len(t, i, b);
        set_len(t, j, a);
        changed = true;
    }
    return changed;
}

/* Where all are as long, some tokens from one node of that kind to another; as many pages are needed. */
static bool move_tokens(struct tree *t, const bool *marked, bool mark, int32_t page)
{
    int32_t a = 0, b = t->n_nodes - 1;
    while (a < b && (marked[a] != mark || t->len[a] < 2))
        a++;
    while (a < b && marked[b] != mark)
        b--;
    if (a >= b)
        return false;
    int64_t la = t->len[a], lb = t->len[b], n = la >= page ? page : 1;
    if (ceil_div(la - n, page) + ceil_div(lb + n, page) != ceil_div(la, page) + ceil_div(lb, page))
        return false;
    set_len(t, a, la - n);
    set_len(t, b, lb + n);
    return true;
}

/* As many nodes, queries, tokens and pages, and an aligned tree stays one; NULL if there is no such tree. The caller frees. */
static struct tree *other_lengths(const struct tree *t, int32_t page, bool aligned)
{
    struct tree *x = tree_copy(t);
    bool *inner = xcalloc((size_t)t->n_nodes, sizeof *inner);
    bool *none = xcalloc((size_t)t->n_nodes, sizeof *none);
    for (int32_t i = 0; i < t->n_nodes; i++)
        if (t->parent[i] >= 0)
            inner[t->parent[i]] = true;
    bool changed = reverse_lengths(x, inner, false);
    changed = reverse_lengths(x, inner, true) || changed;
    changed = changed || (!aligned && reverse_lengths(x, none, false)) ||
              move_tokens(x, inner, false, page) || (!aligned && move_tokens(x, none, false, page));
    free(inner);
    free(none);
    if (!changed) {
        tree_free(x);
        return NULL;
    }
    return x;
}

/* ---- the whole -------------------------------------------------------------------------------------------- */

/* What the parts of a case on t are with another seed; NULL where they are not as large. */
static char *contents_on(const struct repeat *x, struct tree *t, const struct problem_spec *s,
                         uint64_t stream)
{
    struct problem_spec other = *s;
    other.seed = rng_mix(s->seed + stream);
    struct problem *p = problem_new(t, &other, NULL);
    if (!p)
        return NULL;
    struct parts parts = parts_of(t, p);
    bool same = true;
    for (int i = 0; i < N_PARTS; i++)
        same = same && parts.of[i].bytes == x->parts.of[i].bytes;
    char *contents = same ? contents_of(&parts) : NULL;
    problem_free(p);
    return contents;
}

static bool is_small(const struct tree *t, const struct problem *p, const struct problem_spec *s)
{
    int64_t *ctx = xcalloc((size_t)t->n_queries, sizeof *ctx), sum = 0;
    tree_contexts(t, ctx);
    for (int32_t q = 0; q < t->n_queries && sum <= MOST_PAIRS; q++)
        sum += ctx[q];
    free(ctx);
    return sum * p->heads.h_q <= MOST_PAIRS && p->mapped == 0 && problem_bytes(t, s) <= MOST_BYTES;
}

struct repeat *repeat_new(struct tree *t, struct problem *p, const struct problem_spec *s, bool aligned)
{
    if (!is_small(t, p, s))
        return NULL;
    struct repeat *x = xcalloc(1, sizeof *x);
    *x = (struct repeat){.tree = t, .p = p, .parts = parts_of(t, p)};
    x->contents[REPEAT_AS_WAS] = contents_of(&x->parts);
    x->contents[REPEAT_CONTENTS] = contents_on(x, t, s, REPEAT_CONTENTS);
    struct tree *other = other_lengths(t, s->page_size, aligned);
    if (other)
        tree_set_window(other, s->window);
    if (other)
        x->contents[REPEAT_LENGTHS] = contents_on(x, other, s, REPEAT_LENGTHS);
    tree_free(other);
    return x;
}

void repeat_free(struct repeat *x)
{
    if (!x)
        return;
    for (int i = 0; i < N_REPEAT_CHANGES; i++) {
        free(x->contents[i]);
        nform_free(x->nf[i]);
        oracle_free(x->orc[i]);
    }
    free(x);
}

bool repeat_make(struct repeat *x, enum repeat_change change)
{
    if (!x->contents[change])
        return false;
    put(&x->parts, x->contents[change], N_PARTS);
    x->now = change;
    return true;
}

const struct nform *repeat_nform(struct repeat *x)
{
    x->nf[x->now] = x->nf[x->now] ? x->nf[x->now] : nform_new(x->tree);
    return x->nf[x->now];
}

const struct guarded *repeat_inputs(struct repeat *x)
{
    if (!x->summed[x->now])
        x->inputs[x->now] = guarded_inputs(x->p);
    x->summed[x->now] = true;
    return &x->inputs[x->now];
}

const struct oracle *repeat_oracle(struct repeat *x)
{
    x->orc[x->now] = x->orc[x->now] ? x->orc[x->now] : oracle_new(x->p);
    return x->orc[x->now];
}

const char *repeat_words(const struct repeat *x)
{
    return x->now == REPEAT_LENGTHS ? "other lengths, and as many nodes, queries, tokens and pages"
                                    : "the same plan, and other Q, K, V and pages at the same addresses";
}

/* ---- who is to blame --------------------------------------------------------------------------------------- */

/* Is `got` that number, as far as bugs are concerned? */
static bool close_to(double got, double want, double unit)
{
    return isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 1e-2 * unit;
}

/* Is that the answer to what is there? Rows that come out NaN tell nothing: another row must not. */
static bool answers(const struct repeat *x, const struct output *out)
{
    struct oracle *orc = oracle_new(x->p);
    bool same = true, told = false;
    for (int64_t r = 0; r < out->n_rows && same; r++) {
        double got[PROBLEM_MAX_ROW], most = 0;
        const double *want = orc->o + r * orc->d;
        same = close_to(output_lse(out, r), orc->lse[r], 1e-2 * fmax(1, fabs(orc->lse[r])));
        told = told || isfinite(orc->lse[r]);
        dtype_to_double(out->dtype, out->o, r * out->d, got, out->d);
        for (int32_t e = 0; e < orc->d; e++)
            most = fmax(most, fabs(want[e]));
        for (int32_t e = 0; e < orc->d && same; e++)
            same = close_to(got[e], want[e], most);
    }
    oracle_free(orc);
    return same && told;
}

void repeat_blame(struct repeat *x, const struct output *out, char *cause, size_t size)
{
    enum repeat_change now = x->now;
    const char *kept = NULL;
    for (enum repeat_change was = REPEAT_AS_WAS; was < now && out && !kept; was++) {
        if (!repeat_make(x, was))
            continue;
        kept = answers(x, out) ? "the answer" : NULL;
        /* One part as it was among others as they are. With other lengths, pages would not be where tokens are. */
        for (int i = PART_PAGES; i < N_PARTS && now == REPEAT_CONTENTS && !kept; i++) {
            repeat_make(x, now);
            put(&x->parts, x->contents[was], (enum part_of)i);
            kept = answers(x, out) ? part_name[i] : NULL;
        }
    }
    repeat_make(x, now);
    cause[0] =
        0; /* what is wrong only now may be so by itself: another context length shows another mistake */
    if (kept)
        snprintf(cause, size, "%s of an earlier run was kept and used again", kept);
}
