#include "verify/judge/guard_cpu.h"
#include "ref/rng.h"
#include "verify/io/supervise.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* ---- inputs ------------------------------------------------------------------------------------------- */

/* Slots behind a node's last token, and of a page that nobody has, that belong to the sum: more than a tile reaches. A pool may
 * have pages of 65,536 slots, few of which were ever touched. */
enum { TAIL = 256 };
/* Bytes of pages that nobody has. */
#define MOST_OTHERS (INT64_C(1) << 23)

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
    if (n > 0) {
        memcpy(rest, at, (size_t)n);
        take_block(x, rest);
    }
    memcpy(sum, x, sizeof x);
}

/* Slots of pages that somebody may read, then of the others: in an engine those are of other requests. */
static void add_pool(lanes *sum, const struct problem *p, const void *pool)
{
    const struct tree *t = p->tree;
    int64_t slot_bytes = (int64_t)p->heads.h_kv * p->heads.d * heads_kv_bytes(&p->heads);
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
    int64_t others_bytes = p->n_pages * min_i64(p->page_size, TAIL) * slot_bytes,
            stride =
                ceil_div(others_bytes, MOST_OTHERS); /* of a pool that is far larger than the tree, some */
    for (int64_t page = 0; page < p->n_pages; page += stride)
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
    if (which == GUARDED_OFFSETS)
        add_bytes(sum, p->page_off, ((int64_t)t->n_nodes + 1) * (int64_t)sizeof *p->page_off);
    else if (which == GUARDED_PAGES)
        add_bytes(sum, p->page_table, p->page_off[t->n_nodes] * (int64_t)sizeof *p->page_table);
    else if (which == GUARDED_SINKS)
        add_bytes(sum, p->sink, p->sink ? p->heads.h_q * (int64_t)sizeof *p->sink : 0);
    else if (which == GUARDED_SCALES && p->k_scale) {
        add_bytes(sum, p->k_scale, p->heads.h_kv * (int64_t)sizeof *p->k_scale);
        add_bytes(sum, p->v_scale, p->heads.h_kv * (int64_t)sizeof *p->v_scale);
    } else if (which == GUARDED_Q)
        add_bytes(sum, p->q, (int64_t)t->n_queries * p->heads.h_q * p->heads.d * heads_elt_bytes(&p->heads));
    else if (which == GUARDED_K || which == GUARDED_V)
        add_pool(sum, p, which == GUARDED_K ? p->k : p->v);
    uint64_t all = 0;
    for (int i = 0; i < BLOCK / (int)sizeof(uint32_t); i++)
        all = rng_mix(all ^ sum[i / 8][i % 8]);
    return all;
}

struct guarded guarded_inputs(const struct problem *p)
{
    struct guarded w;
    for (int i = 0; i < N_GUARDED; i++)
        w.sum[i] = sum_input(p, (enum guarded_input)i);
    return w;
}

/* The pages come first, for K and V are found by them. */
const char *guarded_change(const struct guarded *before, const struct problem *p)
{
    static const char *const name[N_GUARDED] = {
        "the page table", "the page table", "the sinks", "the scales of K and V", "Q", "K", "V"};
    for (int i = 0; i < N_GUARDED; i++)
        if (sum_input(p, (enum guarded_input)i) != before->sum[i])
            return name[i];
    return NULL;
}

/* ---- what is small enough for a copy ------------------------------------------------------------------ */

/* Bytes that others use as well, where they are, and whose they are. */
struct span {
    const void *at;
    size_t bytes;
    const char *name;
};
enum { N_TREE_SPANS = 17, N_SPANS = N_TREE_SPANS + 1 };

struct copies {
    struct span span[N_SPANS];
    int n;
    char *content; /* what was in them, one after the other */
};

/* A tree with its arrays, then its normal form, then a problem's numbers and pointers (p: or NULL). The caller frees
 * the content. */
static struct copies copies_of(const struct tree *t, const struct nform *nf, const struct problem *p)
{
    static const char *const tree = "the tree", *const form = "the normal form";
    size_t nodes = (size_t)nf->n_nodes, roots = (size_t)nf->n_roots, queries = (size_t)nf->n_queries;
    struct copies c = {.n = p ? N_SPANS : N_TREE_SPANS,
                       .span = {
                           {t, sizeof *t, tree},
                           {t->parent, (size_t)t->n_nodes * sizeof *t->parent, tree},
                           {t->len, (size_t)t->n_nodes * sizeof *t->len, tree},
                           {t->query, (size_t)t->n_queries * sizeof *t->query, tree},
                           {nf, sizeof *nf, form},
                           {nf->parent, nodes * sizeof *nf->parent, form},
                           {nf->len, nodes * sizeof *nf->len, form},
                           {nf->src, nodes * sizeof *nf->src, form},
                           {nf->off, nodes * sizeof *nf->off, form},
                           {nf->depth, nodes * sizeof *nf->depth, form},
                           {nf->q0, nodes * sizeof *nf->q0, form},
                           {nf->q1, nodes * sizeof *nf->q1, form},
                           {nf->child_ptr, (nodes + 1) * sizeof *nf->child_ptr, form},
                           {nf->child, (nodes - roots) * sizeof *nf->child, form},
                           {nf->root, roots * sizeof *nf->root, form},
                           {nf->at, queries * sizeof *nf->at, form},
                           {nf->orig, queries * sizeof *nf->orig, form},
                           {p, sizeof *p, "the problem's numbers or pointers"},
                       }};
    size_t bytes = 0;
    for (int i = 0; i < c.n; i++)
        bytes += c.span[i].bytes;
    char *to = c.content = xmalloc(bytes);
    for (int i = 0; i < c.n; to += c.span[i++].bytes)
        memcpy(to, c.span[i].at, c.span[i].bytes);
    return c;
}

/* The first that is not as it was, in words; NULL: all are. Now all are again. */
static const char *restore(const struct copies *c)
{
    const char *changed = NULL, *was = c->content;
    for (int i = 0; i < c->n; was += c->span[i++].bytes)
        if (memcmp(c->span[i].at, was, c->span[i].bytes) != 0) {
            changed = changed ? changed : c->span[i].name;
            memcpy((void *)c->span[i].at, was, c->span[i].bytes);
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
    struct copies copies = copies_of(nf->tree, nf, NULL);
    pid_t self = getpid();
    double start = now_s();
    struct plan *plan = strategy_plan(use, nf, env, why);
    *plan_s = now_s() - start;
    supervise_back(self);
    *wrote = restore(&copies);
    free(copies.content);
    return plan;
}

void guarded_litter(void)
{
    enum { MOST = 1 << 13, EACH = 4 };
    static _Thread_local uint8_t with = 1;
    void *at[64];
    int n = 0;
    with = (uint8_t)(with + 2);
    for (size_t size = 16; size <= MOST; size *= 2)
        for (int i = 0; i < EACH; i++)
            memset(at[n++] = xmalloc(size), with, size);
    while (n > 0)
        free(at[--n]);
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
    struct err lacks = {0};
    why[0] = 0;
    if (!kernel_has_features(k, p, &lacks)) {
        snprintf(why, WHY_MAX, "%.200s", lacks.msg);
        return false;
    }
    if (!k->supports || k->supports(p, plan, why))
        return true;
    if (!why[0])
        snprintf(why, WHY_MAX, "not supported, without a reason given");
    return false;
}

bool guarded_kernel(const struct kernel *k, const struct problem *p, const struct guarded *before,
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
    struct copies copies = copies_of(p->tree, plan->nf, p);
    struct plan *same = plan_copy(plan);
    unsigned mode = arithmetic_mode();
    fenv_t env;
    fegetenv(&env);
    pid_t self = getpid();
    double start = now_s();
    bool ran = k->run(p, plan, &inner, counted, &own);
    if (run_s)
        *run_s = now_s() - start;
    supervise_back(self);
    memcpy(out->o, o + GUARD, o_size);
    memcpy(out->lse, lse + GUARD, lse_size);
    bool same_mode = arithmetic_mode() == mode;
    fesetenv(&env);
    const char *changed = restore(&copies);
    if (!changed && (plan->nf != same->nf || !plan_same(same, plan)))
        changed = "the plan";
    if (!changed)
        changed = guarded_change(before, p);
    plan_free(same);
    free(copies.content);
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
