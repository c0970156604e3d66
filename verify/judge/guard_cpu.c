#include "verify/judge/guard_cpu.h"
#include "ref/rng.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* ---- inputs ------------------------------------------------------------------------------------------- */

/* Slots behind a node's last token, and of a page that nobody has, that belong to the sum: more than a tile reaches. A pool may
 * have pages of 65,536 slots, few of which were ever touched. */
enum { TAIL = 256 };

/* Sums side by side: one after the other they would wait for each other's products, and not for memory. */
typedef uint32_t lanes __attribute__((vector_size(32)));
enum { N_LANES = 4, BLOCK = N_LANES * (int)sizeof(lanes) };

/* Turned, for else the top bits of two words would cancel. */
static inline void take_block(lanes *sum, const char *at)
{
    for (int i = 0; i < N_LANES; i++) {
        lanes x;
        memcpy(&x, at + i * (int)sizeof x, sizeof x);
        x = (sum[i] ^ x) * UINT32_C(0x9E3779B1);
        sum[i] = x << 13 | x >> 19;
    }
}

static void add_bytes(lanes *sum, const void *bytes, int64_t n)
{
    lanes x[N_LANES]; /* in registers, for as long as there are whole blocks */
    const char *at = bytes;
    char rest[BLOCK] = {0};
    memcpy(x, sum, sizeof x);
    for (; n >= BLOCK; n -= BLOCK, at += BLOCK)
        take_block(x, at);
    memcpy(rest, at, (size_t)n);
    if (n > 0)
        take_block(x, rest);
    memcpy(sum, x, sizeof x);
}

/* Slots of pages that somebody may read, then of the others: in an engine those are of other requests. */
static void add_pool(lanes *sum, const struct problem *p, const void *pool)
{
    const struct tree *t = p->tree;
    int64_t slot_bytes = (int64_t)p->heads.h_kv * p->heads.d * heads_elt_bytes(&p->heads);
    bool *held = xcalloc((size_t)p->n_pages, sizeof *held);
    for (int32_t node = 0; node < t->n_nodes; node++)
        for (int64_t first = 0; first < t->len[node]; first += p->page_size) {
            int64_t slot = problem_slot(p, node, first);
            if (slot >= p->n_pages * p->page_size)
                continue;
            held[slot / p->page_size] = true;
            add_bytes(sum, (const char *)pool + slot * slot_bytes,
                      min_i64(p->page_size, t->len[node] - first + TAIL) * slot_bytes);
        }
    for (int64_t page = 0; page < p->n_pages; page++)
        if (!held[page])
            add_bytes(sum, (const char *)pool + page * p->page_size * slot_bytes,
                      min_i64(p->page_size, TAIL) * slot_bytes);
    free(held);
}

/* A change of one word changes the sum; of several, all but once in 2^32. */
static uint64_t sum_input(const struct problem *p, enum guarded_input which)
{
    const struct tree *t = p->tree;
    lanes sum[N_LANES] = {0};
    if (which == WATCHED_OFFSETS)
        add_bytes(sum, p->page_off, ((int64_t)t->n_nodes + 1) * (int64_t)sizeof *p->page_off);
    else if (which == WATCHED_PAGES)
        add_bytes(sum, p->page_table, p->page_off[t->n_nodes] * (int64_t)sizeof *p->page_table);
    else if (which == WATCHED_Q)
        add_bytes(sum, p->q, (int64_t)t->n_queries * p->heads.h_q * p->heads.d * heads_elt_bytes(&p->heads));
    else
        add_pool(sum, p, which == WATCHED_K ? p->k : p->v);
    uint64_t all = 0;
    for (int i = 0; i < BLOCK / (int)sizeof(uint32_t); i++)
        all = rng_mix(all ^ sum[i / 8][i % 8]);
    return all;
}

struct guarded guarded_inputs(const struct problem *p)
{
    struct guarded w;
    for (int i = 0; i < N_WATCHED; i++)
        w.sum[i] = sum_input(p, (enum guarded_input)i);
    return w;
}

/* The pages come first, for K and V are found by them. */
const char *guarded_change(const struct guarded *before, const struct problem *p)
{
    static const char *const name[N_WATCHED] = {"the page table", "the page table", "Q", "K", "V"};
    for (int i = 0; i < N_WATCHED; i++)
        if (sum_input(p, (enum guarded_input)i) != before->sum[i])
            return name[i];
    return NULL;
}

/* ---- what is small enough for a copy ------------------------------------------------------------------ */

struct span {
    void *at;
    size_t bytes;
};
enum { N_TREE_SPANS = 3, N_SPANS = N_TREE_SPANS + 12 };

/* All arrays of a tree, then of its normal form. */
static void spans_of(const struct tree *t, const struct nform *nf, struct span span[N_SPANS])
{
    size_t nodes = (size_t)nf->n_nodes, roots = (size_t)nf->n_roots, queries = (size_t)nf->n_queries;
    const struct span all[N_SPANS] = {
        {t->parent, (size_t)t->n_nodes * sizeof *t->parent},
        {t->len, (size_t)t->n_nodes * sizeof *t->len},
        {t->query, (size_t)t->n_queries * sizeof *t->query},
        {nf->parent, nodes * sizeof *nf->parent},
        {nf->len, nodes * sizeof *nf->len},
        {nf->src, nodes * sizeof *nf->src},
        {nf->off, nodes * sizeof *nf->off},
        {nf->depth, nodes * sizeof *nf->depth},
        {nf->q0, nodes * sizeof *nf->q0},
        {nf->q1, nodes * sizeof *nf->q1},
        {nf->child_ptr, (nodes + 1) * sizeof *nf->child_ptr},
        {nf->child, (nodes - roots) * sizeof *nf->child},
        {nf->root, roots * sizeof *nf->root},
        {nf->at, queries * sizeof *nf->at},
        {nf->orig, queries * sizeof *nf->orig},
    };
    memcpy(span, all, sizeof all);
}

/* A tree and its normal form. */
struct kept_tree {
    struct tree *tree; /* where they are; others have them as const */
    struct nform *nf;
    struct tree tree_was; /* where their arrays were, */
    struct nform nf_was;
    char *content; /* and what was in them, one after the other */
};

static struct kept_tree keep_tree(const struct tree *t, const struct nform *nf)
{
    struct kept_tree k = {.tree = (struct tree *)t, .nf = (struct nform *)nf, .tree_was = *t, .nf_was = *nf};
    struct span span[N_SPANS];
    size_t bytes = 0;
    spans_of(t, nf, span);
    for (int i = 0; i < N_SPANS; i++)
        bytes += span[i].bytes;
    char *to = k.content = xmalloc(bytes);
    for (int i = 0; i < N_SPANS; to += span[i++].bytes)
        memcpy(to, span[i].at, span[i].bytes);
    return k;
}

/* The first span that is not as it was (or of a normal form that is of another tree); N_SPANS: all are. */
static int changed_span(const struct kept_tree *k)
{
    struct span was[N_SPANS], is[N_SPANS];
    spans_of(&k->tree_was, &k->nf_was, was);
    spans_of(k->tree, k->nf, is);
    const char *content = k->content;
    for (int i = 0; i < N_SPANS; content += was[i++].bytes)
        if (is[i].at != was[i].at || is[i].bytes != was[i].bytes ||
            memcmp(is[i].at, content, was[i].bytes) != 0)
            return i;
    return k->nf->tree == k->nf_was.tree ? N_SPANS : N_TREE_SPANS;
}

static void restore_spans(const struct kept_tree *k)
{
    struct span was[N_SPANS];
    const char *content = k->content;
    *k->tree = k->tree_was;
    *k->nf = k->nf_was;
    spans_of(&k->tree_was, &k->nf_was, was);
    for (int i = 0; i < N_SPANS; content += was[i++].bytes)
        memcpy(was[i].at, content, was[i].bytes);
}

/* What was not as it was kept, in words; NULL: all was. Now all is. */
static const char *restore_tree(const struct kept_tree *k)
{
    int span = changed_span(k);
    if (span < N_SPANS) {
        restore_spans(k);
        return span < N_TREE_SPANS ? "the tree" : "the normal form";
    }
    return NULL;
}

struct kept {
    struct problem problem;
    struct plan *plan;
    struct kept_tree tree;
};

static struct kept keep(const struct problem *p, const struct plan *plan)
{
    return (struct kept){.problem = *p, .plan = plan_copy(plan), .tree = keep_tree(p->tree, plan->nf)};
}

static void kept_free(struct kept *k)
{
    plan_free(k->plan);
    free(k->tree.content);
}

static bool same_problem(const struct problem *x, const struct problem *y)
{
    return x->tree == y->tree && heads_equal(&x->heads, &y->heads) &&
           memcmp(&x->scale, &y->scale, sizeof x->scale) == 0 && x->page_size == y->page_size &&
           x->n_pages == y->n_pages && x->page_off == y->page_off && x->page_table == y->page_table &&
           x->q == y->q && x->k == y->k && x->v == y->v;
}

/* What is not as it was kept, in words; NULL: all is. Problem, tree and normal form, which others use as well, then are again. */
static const char *restore(const struct kept *k, const struct problem *p, const struct plan *plan)
{
    const char *changed = restore_tree(&k->tree);
    if (plan->nf != k->plan->nf || !plan_same(k->plan, plan))
        changed = changed ? changed : "the plan";
    if (!same_problem(&k->problem, p)) {
        *(struct problem *)p = k->problem;
        changed = changed ? changed : "the problem's numbers or pointers";
    }
    return changed;
}

/* How the calling thread computes: rounding, and whether numbers next to 0 are 0. */
static unsigned arithmetic_mode(void)
{
    unsigned mode = (unsigned)fegetround() << 16;
#ifdef __SSE__
    enum { ROUNDING = 0x6000, FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };
    mode |= _mm_getcsr() & (ROUNDING | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
    return mode;
}

/* ---- planners ------------------------------------------------------------------------------------------- */

struct plan *guarded_plan(const struct strategy_use *use, const struct nform *nf, const struct plan_env *env,
                          char *why, double *plan_s, const char **wrote)
{
    struct kept_tree kept = keep_tree(nf->tree, nf);
    double start = now_s();
    struct plan *plan = strategy_plan(use, nf, env, why);
    *plan_s = now_s() - start;
    *wrote = restore_tree(&kept);
    free(kept.content);
    return plan;
}

/* ---- outputs ------------------------------------------------------------------------------------------ */

/* Bytes before and behind: 32 rows of O and more. No number that a sum would leave as it is. */
enum { GUARD = 1 << 14, CANARY = 0xA5 };

/* A copy between canaries; the caller frees what it gets. */
static uint8_t *guarded_copy(const void *from, size_t size)
{
    uint8_t *room = xaligned(size + 2 * GUARD, 1);
    memset(room, CANARY, GUARD);
    memcpy(room + GUARD, from, size);
    memset(room + GUARD + size, CANARY, GUARD);
    return room;
}

static bool intact(const uint8_t *guard)
{
    return guard[0] == CANARY && memcmp(guard, guard + 1, GUARD - 1) == 0;
}

static bool guards_intact(const uint8_t *room, size_t size, const char *name, struct err *e)
{
    if (!intact(room))
        return err_set(e, "wrote before %s", name);
    return intact(room + GUARD + size) || err_set(e, "wrote behind %s", name);
}

/* ---- the run ------------------------------------------------------------------------------------------ */

bool guarded_supports(const struct kernel *k, const struct problem *p, const struct plan *plan, char *why)
{
    why[0] = 0;
    if (!k->supports || k->supports(p, plan, why))
        return true;
    if (!why[0])
        snprintf(why, WHY_MAX, "not supported, without a reason given");
    return false;
}

bool watched_run(const struct kernel *k, const struct problem *p, const struct guarded *before,
                 const struct plan *plan, struct output *out, struct ledger *counted, double *run_s,
                 struct err *e)
{
    size_t o_size = (size_t)(out->n_rows * out->d * dtype_size[out->dtype]),
           lse_size = (size_t)out->n_rows * (out->dtype == DT_F64 ? sizeof(double) : sizeof(float));
    uint8_t *o = guarded_copy(out->o, o_size), *lse = guarded_copy(out->lse, lse_size);
    struct output inner = *out;
    inner.o = o + GUARD;
    inner.lse = lse + GUARD;
    struct err own = {0};
    struct kept kept = keep(p, plan);
    unsigned mode = arithmetic_mode();
    fenv_t env;
    fegetenv(&env);
    double start = now_s();
    bool ran = k->run(p, plan, &inner, counted, &own);
    if (run_s)
        *run_s = now_s() - start;
    memcpy(out->o, o + GUARD, o_size);
    memcpy(out->lse, lse + GUARD, lse_size);
    bool same_mode = arithmetic_mode() == mode;
    fesetenv(&env);
    const char *changed = restore(&kept, p, plan);
    if (!changed)
        changed = guarded_change(before, p);
    kept_free(&kept);
    bool good = !changed || err_set(e, "wrote to %s", changed);
    good = good && (same_mode || err_set(e, "left another rounding mode, or numbers next to 0 as 0"));
    good = good && guards_intact(o, o_size, "O", e) && guards_intact(lse, lse_size, "LSE", e);
    if (good && !ran && !own.msg[0])
        good = err_set(e, "failed without saying why");
    if (good && ran && own.msg[0])
        good = err_set(e, "returned true, but said: %s", own.msg);
    if (good && !ran && e)
        *e = own;
    free(o);
    free(lse);
    return good && ran;
}
