/*
 * cpu.c - the CPU kernel: any plan, tile by tile, as a GPU would run it.
 *
 * Launches run in order, concurrent ones too: within a launch all cores take (group, KV head, Q tile) items
 * from a queue, then its merge steps, which thereby find an on-chip slot of the same launch filled. Every
 * item and every step writes places of its own and no float is shared, so the result does not depend on the
 * number of threads. The ledger is counted by each thread where it loads and stores, in integers, and summed
 * at the end.
 */
#include "kernels/cpu/attn.h"
#include "kernels/cpu/blas.h"
#include "kernels/kernel.h"

#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Multiply-adds for which a further thread is worth its start: some tens of microseconds of them. */
#define THREAD_WORTH (INT64_C(1) << 20)

/* All memory of a run is one block, laid out twice by the same code: with base = NULL to learn its size. */
struct arena {
    char *base;
    int64_t used;
};

static void *arena_take(struct arena *m, int64_t n, int64_t size)
{
    int64_t bytes, used = m->used;
    CK(!__builtin_mul_overflow(n, size, &bytes) && !__builtin_add_overflow(m->used, bytes + 63, &m->used));
    m->used = m->used / 64 * 64;
    return m->base ? m->base + used : NULL;
}

/* The largest work item of the plan, in elements of the scratch buffers. */
struct extent {
    int64_t rows, kept_rows, cols, scores, visible; /* kept_rows: whose scores go through memory */
};

struct cpu_run {
    struct attn a;
    const struct attn_ops *ops;
    int32_t n_threads;
    int32_t *launch_of; /* of each group, then of each merge step */
    int64_t *group_at;  /* [n_launches + 1] into group_order */
    int64_t *group_order;
    int64_t *merge_at; /* the same for merge steps */
    int64_t *merge_order;
    int64_t *item_at;        /* [n_groups + 1] first work item of the i-th group in launch order */
    struct scratch *scratch; /* [n_threads] */
};

/* Rows that a work item takes of the group: its Q tile, or a block of whole queries of an open one. */
static int64_t item_rows(const struct attn *a, const struct group *g)
{
    if (g->tile_m > 0)
        return g->tile_m;
    int64_t rows = a->plan->unfused ? min_i64(FREE_TILE_M, FREE_SCORES / max_i64(g->n_kv, 1)) : FREE_TILE_M;
    return max_i64(rows / a->gqa, 1) * a->gqa;
}

static int64_t group_blocks(const struct attn *a, const struct group *g)
{
    return ceil_div((int64_t)g->nq * a->gqa, item_rows(a, g));
}

static struct extent plan_extent(const struct attn *a)
{
    struct extent x = {0};
    for (int64_t i = 0; i < a->plan->n_groups; i++) {
        const struct group *g = &a->plan->group[i];
        int64_t rows = min_i64(item_rows(a, g), (int64_t)g->nq * a->gqa);
        int64_t cols = min_i64(g->tile_n ? g->tile_n : FREE_TILE_N, g->n_kv);
        CK(g->n_kv <= INT_MAX ||
           !a->plan->unfused); /* the library's int is the distance between score rows */
        x.rows = max_i64(x.rows, rows);
        x.kept_rows = a->plan->unfused ? x.rows : 0;
        x.cols = max_i64(x.cols, cols);
        x.scores = max_i64(x.scores, rows * (a->plan->unfused ? g->n_kv : cols));
        if (g->mask != MASK_NONE)
            x.visible = max_i64(x.visible, min_i64(ceil_div(rows, a->gqa) + 1, g->nq) * cols);
    }
    return x;
}

static void lay_out_scratch(struct arena *m, struct scratch *t, const struct extent *x, int64_t d,
                            int64_t real)
{
    t->q = arena_take(m, x->rows * d, real);
    t->acc = arena_take(m, x->rows * d, real);
    t->part = arena_take(m, x->kept_rows * d, real);
    t->lost = arena_take(m, x->kept_rows * d, real);
    t->k = arena_take(m, x->cols * d, real);
    t->v = arena_take(m, x->cols * d, real);
    t->s = arena_take(m, x->scores, real);
    t->max = arena_take(m, x->rows, real);
    t->sum = arena_take(m, x->rows, real);
    t->visible = arena_take(m, x->visible, 1);
    t->seg = arena_take(m, x->cols, sizeof *t->seg);
}

static void lay_out(struct cpu_run *r, struct arena *m, const struct extent *x)
{
    struct attn *a = &r->a;
    const struct plan *plan = a->plan;
    int64_t n_chip = 0, n_query = 0, n_words = 0, rows = plan->n_slots * a->p->heads.h_q;
    for (int64_t i = 0; i < plan->n_merges; i++)
        n_chip += plan->merge[i].onchip != PLAN_NO_SLOT;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        n_query += plan->group[i].nq;
        n_words += mask_words(&plan->group[i]);
    }
    r->launch_of = arena_take(m, max_i64(plan->n_groups, plan->n_merges), sizeof *r->launch_of);
    r->group_at = arena_take(m, plan->n_launches + 1, sizeof *r->group_at);
    r->group_order = arena_take(m, plan->n_groups, sizeof *r->group_order);
    r->merge_at = arena_take(m, plan->n_launches + 1, sizeof *r->merge_at);
    r->merge_order = arena_take(m, plan->n_merges, sizeof *r->merge_order);
    r->item_at = arena_take(m, plan->n_groups + 1, sizeof *r->item_at);
    a->query_at = arena_take(m, plan->n_groups + 1, sizeof *a->query_at);
    a->query = arena_take(m, n_query, sizeof *a->query);
    a->mask_at = arena_take(m, plan->n_groups + 1, sizeof *a->mask_at);
    a->mask = arena_take(m, n_words, sizeof *a->mask);
    a->slot_o = arena_take(m, rows * a->p->heads.d, dtype_size[a->slot_dtype]);
    a->slot_w = arena_take(m, rows, sizeof *a->slot_w);
    a->chip_of = n_chip ? arena_take(m, plan->n_slots, sizeof *a->chip_of) : NULL;
    a->chip_o = arena_take(m, n_chip * a->p->heads.h_q * a->p->heads.d, r->ops->real_bytes);
    a->chip_w = arena_take(m, n_chip * a->p->heads.h_q, sizeof *a->chip_w);
    r->scratch = arena_take(m, r->n_threads, sizeof *r->scratch);
    struct scratch unplaced;
    for (int32_t i = 0; i < r->n_threads; i++)
        lay_out_scratch(m, r->scratch ? &r->scratch[i] : &unplaced, x, a->p->heads.d, r->ops->real_bytes);
}

/* Counting sort by launch, stable: at[l] .. at[l + 1] become launch l's entries of order. */
static void sort_by_launch(int32_t n_launches, const int32_t *launch, int64_t n, int64_t *at, int64_t *order)
{
    memset(at, 0, (size_t)(n_launches + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++)
        at[launch[i]]++;
    for (int32_t l = 0; l < n_launches; l++)
        at[l + 1] += at[l];
    for (int64_t i = n; i-- > 0;)
        order[--at[launch[i]]] = i;
}

/* Everything that a launch finds in memory before it starts: queries and masks of the groups, empty slots. */
static void prepare(struct cpu_run *r)
{
    struct attn *a = &r->a;
    const struct plan *plan = a->plan;
    for (int64_t i = 0; i < plan->n_groups; i++)
        r->launch_of[i] = plan->group[i].launch;
    sort_by_launch(plan->n_launches, r->launch_of, plan->n_groups, r->group_at, r->group_order);
    for (int64_t i = 0; i < plan->n_merges; i++)
        r->launch_of[i] = plan->merge[i].launch;
    sort_by_launch(plan->n_launches, r->launch_of, plan->n_merges, r->merge_at, r->merge_order);
    r->item_at[0] = a->query_at[0] = a->mask_at[0] = 0;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i], *next = &plan->group[r->group_order[i]];
        a->query_at[i + 1] = a->query_at[i] + g->nq;
        a->mask_at[i + 1] = a->mask_at[i] + mask_words(g);
        plan_queries(plan, g, a->query + a->query_at[i]);
        if (g->mask != MASK_NONE)
            mask_fill(plan, g, a->mask + a->mask_at[i]);
        r->item_at[i + 1] = r->item_at[i] + group_blocks(a, next) * a->p->heads.h_kv;
    }
    /* All ones are a NaN: a slot that is merged but was never written shows in the output. */
    memset(a->slot_w, 0xFF, (size_t)(plan->n_slots * a->p->heads.h_q) * sizeof *a->slot_w);
    if (a->chip_of) {
        int64_t n_chip = 0;
        memset(a->chip_of, 0xFF, (size_t)plan->n_slots * sizeof *a->chip_of);
        for (int64_t i = 0; i < plan->n_merges; i++)
            if (plan->merge[i].onchip != PLAN_NO_SLOT)
                a->chip_of[plan->merge[i].onchip] = (int32_t)n_chip++;
        memset(a->chip_w, 0xFF, (size_t)(n_chip * a->p->heads.h_q) * sizeof *a->chip_w);
    }
    for (int32_t i = 0; i < r->n_threads; i++)
        r->scratch[i].ledger = (struct ledger){0};
}

static struct item item_open(const struct cpu_run *r, int64_t number)
{
    const struct attn *a = &r->a;
    int64_t lo = 0, hi = a->plan->n_groups; /* item_at[lo] <= number < item_at[hi] */
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (r->item_at[mid] <= number)
            lo = mid;
        else
            hi = mid;
    }
    const struct group *g = &a->plan->group[r->group_order[lo]];
    int64_t rows = item_rows(a, g), n_blocks = group_blocks(a, g), within = number - r->item_at[lo];
    int64_t block = within % n_blocks;
    return (struct item){.g = g,
                         .group = r->group_order[lo],
                         .kv_head = (int32_t)(within / n_blocks),
                         .row0 = block * rows,
                         .row1 = min_i64((block + 1) * rows, (int64_t)g->nq * a->gqa),
                         .first = g->tile_m > 0 || block == 0};
}

/* Threads for a launch of n pieces of work: as many as the work pays for. Waking one costs microseconds, and
 * much more where other programs want the cores. */
static int team_size(const struct cpu_run *r, int64_t n_pieces, int64_t multiply_adds)
{
    return (int)min_i64(min_i64(r->n_threads, n_pieces), 1 + multiply_adds / THREAD_WORTH);
}

static int64_t items_work(const struct cpu_run *r, int32_t launch)
{
    int64_t pairs = 0;
    for (int64_t i = r->group_at[launch]; i < r->group_at[launch + 1]; i++) {
        const struct group *g = &r->a.plan->group[r->group_order[i]];
        pairs += g->nq * g->n_kv;
    }
    return pairs * r->a.p->heads.h_q * r->a.p->heads.d * 2;
}

static int64_t merges_work(const struct cpu_run *r, int32_t launch)
{
    int64_t inputs = 0;
    for (int64_t i = r->merge_at[launch]; i < r->merge_at[launch + 1]; i++) {
        const struct merge_step *m = &r->a.plan->merge[r->merge_order[i]];
        inputs += 1 + m->in1 - m->in0;
    }
    return inputs * r->a.p->heads.h_q * r->a.p->heads.d;
}

/* All items of a launch. Items are handed out in rising order, so the error that comes back is always that of
 * the lowest item that has one, whoever runs it. */
static bool run_items(struct cpu_run *r, int32_t launch, struct err *e)
{
    int64_t begin = r->item_at[r->group_at[launch]], end = r->item_at[r->group_at[launch + 1]];
    int64_t bad = INT64_MAX;
    struct err first = {0};
    if (begin == end)
        return true;
#pragma omp parallel num_threads(team_size(r, end - begin, items_work(r, launch)))
    {
        omp_set_num_threads(1); /* this thread's products; the library asks OpenMP. Ends with the region. */
        struct scratch *t = &r->scratch[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = begin; i < end; i++) {
            int64_t known_bad;
#pragma omp atomic read
            known_bad = bad;
            if (i > known_bad)
                continue;
            struct item it = item_open(r, i);
            struct err mine = {0};
            if (!r->ops->item(&r->a, &it, t, &mine)) {
#pragma omp critical(treeattn_cpu_error)
                if (i < bad) {
#pragma omp atomic write
                    bad = i;
                    first = mine;
                }
            }
        }
    }
    return bad == INT64_MAX || err_set(e, "%s", first.msg);
}

static void run_merges(struct cpu_run *r, int32_t launch)
{
    int64_t begin = r->merge_at[launch], end = r->merge_at[launch + 1];
    if (begin == end)
        return;
#pragma omp parallel num_threads(team_size(r, end - begin, merges_work(r, launch)))
    {
        struct scratch *t = &r->scratch[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 16)
        for (int64_t i = begin; i < end; i++)
            r->ops->merge(&r->a, &r->a.plan->merge[r->merge_order[i]], t);
    }
}

static bool cpu_supports(const struct problem *p, const struct plan *plan, char *why)
{
    (void)p, (void)plan, (void)why;
    return true;
}

static bool cpu_run(const struct problem *p, const struct plan *plan, struct output *out,
                    struct ledger *counted, struct err *e)
{
    bool wide = p->heads.dtype == DT_F64;
    if (!blas_load(e))
        return false;
    CK(plan->nf->n_queries == p->tree->n_queries && plan->nf->tree->n_nodes == p->tree->n_nodes);
    CK(out->dtype == p->heads.dtype && out->d == heads_d_v(&p->heads) &&
       out->n_rows == (int64_t)p->tree->n_queries * p->heads.h_q);
    struct cpu_run r = {.a = {.p = p,
                              .plan = plan,
                              .out = out,
                              .gqa = heads_gqa(&p->heads),
                              .elt_bytes = heads_elt_bytes(&p->heads),
                              .kv_bytes = heads_kv_bytes(&p->heads),
                              .slot_dtype = wide                         ? DT_F64
                                            : plan->slot_o == SLOT_O_F16 ? DT_F16
                                                                         : DT_F32,
                              .slot_words = plan->slot_weight == SLOT_MAX_SUM ? 2 : 1,
                              .word_bytes = wide ? 8 : 4},
                        .ops = wide ? &attn_f64 : &attn_f32,
                        .n_threads = omp_get_max_threads()};
    struct extent x = plan_extent(&r.a);
    struct arena m = {0};
    lay_out(&r, &m, &x);
    void *block = xaligned((size_t)m.used, 1);
    m = (struct arena){.base = block};
    lay_out(&r, &m, &x);
    prepare(&r);

    bool good = true;
    for (int32_t l = 0; l < plan->n_launches && good; l++) {
        good = run_items(&r, l, e);
        if (good)
            run_merges(&r, l);
    }
    for (int32_t i = 0; i < r.n_threads && good; i++)
        ledger_add(counted, &r.scratch[i].ledger);
    counted->launches += good ? plan->n_launches : 0;
    free(block);
    return good;
}

const struct kernel kernel_cpu = {
    .name = "cpu",
    .about =
        "tile by tile in C and OpenBLAS, all cores; online softmax in fp32 (fp64 for f64); counts its ledger",
    .ready = blas_load,
    .features = 1 << FEATURE_SOFT_CAP | 1 << FEATURE_SINKS | 1 << FEATURE_WINDOW | FEATURES_FP8 |
                1 << FEATURE_LATENT | 1 << FEATURE_NARROW_V,
    .sum_run = 128,
    .merges_at_once = true,
    .supports = cpu_supports,
    .run = cpu_run,
};
