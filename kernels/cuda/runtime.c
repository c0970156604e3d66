/*
 * runtime.c - a plan as the device wants it: items, runs, pieces, queries, mask words and merge steps in one
 * block of device memory; and the order in which kernels are enqueued.
 *
 * A group of nq * g rows becomes ceil(nq * g / tile_m) items. Items of a launch that have one tile shape are
 * one kernel; the longest come first, so that none is left over at the end (longest processing time first).
 * Launches that the plan calls concurrent, and kernels of one launch that differ in shape, go to side streams
 * between two events. Every kernel that follows another in the main stream may start while that one ends, and
 * waits for it before it writes (programmatic dependent launch; not on the Ampere path).
 *
 * DEVIATION: a partial that a plan hands over on chip (relay's fused merge) goes through its slot in memory,
 * and the merge is a kernel after the groups of that launch. price_plan does not count that traffic.
 * DEVIATION: masks are one bit per (query, run) for every mask_kind.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/internal.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TILE_M_MAX = 128,
    TILE_N_MAX = 128,
    STEP = 64,         /* shapes.def: what n = 128 runs in */
    FREE_TILE = 64,    /* a side that the plan leaves to a library, in a fused group */
    HOPPER = 90,       /* compute capability from which kernels may start early */
    SOME_INPUTS = 4,   /* of a merge step, on average, from which four warps share a row if rows are few */
    MANY_INPUTS = 32,  /* the same, if they are many */
    WARPS_WANTED = 32, /* per SM, from which rows are many */
    WARP_ROWS = 16,    /* of a tile, that a warp of the group kernel owns */
    SHORT_STEPS = 4,   /* an item of so many steps of its kernel is short */
    CTAS_WANTED = 3,   /* per SM, before CTAs of short items take several heads */
    SLOT_ALIGN = 256   /* bytes */
};

/* ---- what is supported ------------------------------------------------------------------------------ */

static bool no(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool no(char *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, 256, fmt, ap);
    va_end(ap);
    return false;
}

bool cuda_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                   char *why)
{
    struct cuda_caps caps;
    struct err e = {0};
    if (!cuda_caps(&caps, &e))
        return no(why, "%.250s", e.msg);
    if (opt && opt->arch != 0 && opt->arch != 80 && opt->arch != caps.arch)
        return no(why, "there is no path for compute capability %d.%d (8.0, or that of the card)",
                  opt->arch / 10, opt->arch % 10);
    if (p->dtype != DT_F16 && p->dtype != DT_BF16)
        return no(why, "the CUDA kernels take f16 and bf16, not %s", dtype_name[p->dtype]);
    if (p->d != 64 && p->d != 128)
        return no(why, "the CUDA kernels take heads of 64 and 128 elements, not %d", p->d);
    if (!(p->scale > 0))
        return no(why, "the CUDA kernels take a positive scale, not %g", p->scale);
    if (plan->unfused)
        return unfused_supports(p, plan, opt, why);
    if (plan->slot_o == SLOT_O_F16 && plan->slot_weight == SLOT_MAX_SUM)
        return no(why, "a partial O that is not normalised does not fit fp16");
    for (int64_t i = 0; i < plan->n_groups; i++)
        if (plan->group[i].tile_m > TILE_M_MAX)
            return no(why, "a tile of %d rows (the CUDA kernels have up to %d)", plan->group[i].tile_m,
                      TILE_M_MAX);
    return true;
}

/* ---- a plan as arrays ------------------------------------------------------------------------------- */

/* A growing array of elements of one size. */
struct list {
    void *p;
    int64_t n, cap;
};

static void *list_add(struct list *l, int64_t n, size_t size)
{
    l->p = xgrow(l->p, &l->cap, l->n + n, size);
    l->n += n;
    return (char *)l->p + (size_t)(l->n - n) * size;
}

struct builder {
    const struct problem *p;
    const struct plan *plan;
    int32_t gqa, sms;
    struct list item, run, piece, query, mask, step, merge_in;
};

/* The compiled side for a side that the plan asks for: the next one up, the largest for more. */
static int32_t side_of(int32_t asked, int32_t largest)
{
    int32_t side = 16;
    if (asked == 0)
        return FREE_TILE;
    while (side < asked && side < largest)
        side *= 2;
    return side;
}

static void add_runs(struct builder *b, const struct group *g, struct cuda_item *it)
{
    const struct nform *nf = b->plan->nf;
    int64_t n = g->run1 - g->run0, at = 0, size = b->p->page_size;
    it->n_runs = (int32_t)n;
    it->run0 = (int32_t)b->run.n;
    it->piece0 = (int32_t)b->piece.n;
    int64_t piece = 0;
    for (int64_t r = 0; r < n; r++) {
        const struct run *x = &b->plan->run[g->run0 + r];
        int64_t base = b->p->page_off[nf->src[x->node]] * size + nf->off[x->node] + x->begin - at;
        at += x->end - x->begin;
        if (r == 0)
            it->base = base;
        if (n == 1)
            return;
        *(struct cuda_kv_run *)list_add(&b->run, 1, sizeof(struct cuda_kv_run)) =
            (struct cuda_kv_run){.base = base, .end = (int32_t)at};
        for (; piece * CUDA_PIECE < at; piece++)
            *(int32_t *)list_add(&b->piece, 1, sizeof(int32_t)) = (int32_t)r;
    }
}

/* Mask words of the queries k0 .. k1 of a group, or none if all of them see everything. */
static void add_mask(struct builder *b, const struct group *g, int32_t k0, int32_t k1, struct cuda_item *it)
{
    int64_t runs = g->run1 - g->run0, words = ceil_div(k1 - k0, 32);
    bool all = true;
    for (int32_t k = k0; k < k1 && all && g->mask != MASK_NONE; k++)
        all = memchr(b->plan->mask + g->mask0 + k * runs, 0, (size_t)runs) == NULL;
    it->mask0 = -1;
    it->mask_words = (int32_t)words;
    if (g->mask == MASK_NONE || all)
        return;
    it->mask0 = (int32_t)b->mask.n;
    uint32_t *to = list_add(&b->mask, runs * words, sizeof *to);
    memset(to, 0, (size_t)(runs * words) * sizeof *to);
    for (int32_t k = k0; k < k1; k++)
        for (int64_t r = 0; r < runs; r++)
            if (b->plan->mask[g->mask0 + k * runs + r])
                to[r * words + (k - k0) / 32] |= UINT32_C(1) << (k - k0) % 32;
}

static bool add_group(struct builder *b, const struct group *g, struct err *e)
{
    const struct nform *nf = b->plan->nf;
    int64_t rows = (int64_t)g->nq * b->gqa;
    int64_t per_tile = b->plan->unfused ? rows : g->tile_m ? g->tile_m : FREE_TILE;
    if (rows > INT32_MAX || g->n_kv > INT32_MAX - TILE_M_MAX || b->run.n + g->run1 - g->run0 > INT32_MAX ||
        b->query.n + g->nq > INT32_MAX || b->piece.n + g->n_kv / CUDA_PIECE + 1 > INT32_MAX ||
        b->mask.n + (g->run1 - g->run0) * ceil_div(g->nq, 32) * 2 > INT32_MAX)
        return err_missing(
            e, "the plan is too large for the CUDA kernels (2^31 rows, runs, or tokens of a group)");
    struct cuda_item common = {.n_kv = (int32_t)g->n_kv};
    add_runs(b, g, &common);
    int32_t *query = list_add(&b->query, g->nq, sizeof *query);
    int64_t query0 = b->query.n - g->nq;
    plan_queries(b->plan, g, query);
    for (int32_t k = 0; k < g->nq; k++)
        query[k] = nf->orig[query[k]];
    for (int64_t row0 = 0; row0 < rows; row0 += per_tile) {
        struct cuda_item it = common;
        it.row0 = (int32_t)row0;
        it.n_rows = (int32_t)min_i64(per_tile, rows - row0);
        int32_t k0 = it.row0 / b->gqa, k1 = (it.row0 + it.n_rows - 1) / b->gqa + 1;
        bool consecutive = true;
        for (int32_t k = k0 + 1; k < k1; k++)
            consecutive = consecutive && query[k] == query[k - 1] + 1;
        it.query0 = (int32_t)(query0 + k0);
        it.query_one = consecutive ? query[k0] : -1;
        it.slot0 = g->slot0 == PLAN_NO_SLOT ? -1 : (int32_t)(g->slot0 + k0);
        add_mask(b, g, k0, k1, &it);
        *(struct cuda_item *)list_add(&b->item, 1, sizeof it) = it;
    }
    return true;
}

/* Longest first; among equals the order of the plan. */
static int by_length(const void *x, const void *y)
{
    const struct cuda_item *a = x, *b = y;
    if (a->n_kv != b->n_kv)
        return a->n_kv > b->n_kv ? -1 : 1;
    if (a->query0 != b->query0)
        return a->query0 < b->query0 ? -1 : 1;
    if (a->row0 != b->row0)
        return a->row0 < b->row0 ? -1 : 1;
    return (a->base > b->base) - (a->base < b->base);
}

/* Heads that a CTA takes one after the other: many where there are CTAs to spare, so that loads run ahead from
 * one short item into the next. */
static int32_t heads_of(const struct builder *b, int64_t n_items, int32_t teams)
{
    int64_t most = n_items * b->p->h_kv / ((int64_t)b->sms * CTAS_WANTED);
    int32_t heads = 1;
    while (2 * heads <= most && 2 * heads <= b->p->h_kv)
        heads *= 2;
    return heads < teams ? 1 : heads;
}

/* The kernel of items item0 .. n of the list, sorted; two where many of them are short and others are not. */
static bool add_calls(struct builder *b, struct cuda_plan *cp, struct cuda_call call, struct err *e)
{
    struct cuda_item *item = b->item.p;
    int32_t teams, ahead;
    int64_t end = b->item.n, first_short = call.item0;
    bool wide = (call.m == 32 || call.m == 64) && (end - call.item0) * b->p->h_kv < b->sms;
    call.n = call.n > STEP && !wide ? STEP : call.n;
    if ((end - call.item0) * b->p->h_kv > INT32_MAX)
        return err_missing(e, "a launch of %lld CTAs is too large for a grid",
                           (long long)((end - call.item0) * b->p->h_kv));
    qsort(item + call.item0, (size_t)(end - call.item0), sizeof *item, by_length);
    cuda_group_teams(call.m, call.n, &teams, &ahead);
    while (first_short < end && item[first_short].n_kv > SHORT_STEPS * call.n)
        first_short++;
    int32_t heads = heads_of(b, end - first_short, teams);
    for (int part = 0; part < 2; part++) {
        struct cuda_call c = call;
        c.item0 = part == 0 ? call.item0 : first_short;
        c.n_items = (part == 0 && heads > 1 ? first_short : end) - c.item0;
        c.heads = part == 0 ? 1 : heads;
        c.q_buffers = c.heads > 1 ? ahead : 1;
        for (int64_t i = c.item0; i < c.item0 + c.n_items; i++)
            c.q_rows = item[i].n_rows > c.q_rows ? item[i].n_rows : c.q_rows;
        c.q_rows = c.q_rows > WARP_ROWS ? WARP_ROWS : c.q_rows;
        if (c.n_items == 0 || (part == 1 && heads == 1))
            continue;
        cp->call = xrealloc(cp->call, (size_t)cp->n_calls + 1, sizeof *cp->call);
        cp->call[cp->n_calls++] = c;
    }
    return true;
}

/* Kernels for each tile shape that the groups of a launch have. */
static bool add_launch(struct builder *b, struct cuda_plan *cp, int32_t launch, const int64_t *group,
                       int64_t n, struct err *e)
{
    for (int32_t m = 16; m <= TILE_M_MAX; m *= 2)
        for (int32_t kv = 16; kv <= TILE_N_MAX; kv *= 2) {
            struct cuda_call call = {.launch = launch, .m = m, .n = kv, .item0 = b->item.n};
            int64_t masks = b->mask.n;
            for (int64_t i = 0; i < n; i++) {
                const struct group *g = &b->plan->group[group[i]];
                if (side_of(g->tile_m, TILE_M_MAX) == m && side_of(g->tile_n, TILE_N_MAX) == kv &&
                    !add_group(b, g, e))
                    return false;
            }
            call.masked = b->mask.n > masks;
            if (b->item.n > call.item0 && !add_calls(b, cp, call, e))
                return false;
        }
    return true;
}

static void add_merges(struct builder *b, struct cuda_plan *cp, int32_t launch, const int64_t *merge,
                       int64_t n)
{
    const struct plan *plan = b->plan;
    struct cuda_merge m = {.launch = launch, .step0 = b->step.n, .n_steps = n};
    int64_t inputs = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct merge_step *s = &plan->merge[merge[i]];
        *(struct cuda_merge_step *)list_add(&b->step, 1, sizeof(struct cuda_merge_step)) =
            (struct cuda_merge_step){.in0 = (int32_t)b->merge_in.n,
                                     .n_in = (int32_t)(s->in1 - s->in0),
                                     .out = s->out == PLAN_NO_SLOT ? -1 : (int32_t)s->out,
                                     .query = plan->nf->orig[s->query]};
        int32_t *in = list_add(&b->merge_in, s->in1 - s->in0, sizeof *in);
        for (int64_t k = s->in0; k < s->in1; k++)
            *in++ = (int32_t)plan->merge_in[k];
        inputs += s->in1 - s->in0;
    }
    bool few_rows = n * b->p->h_q < (int64_t)b->sms * WARPS_WANTED;
    m.warps = n > 0 && inputs / n >= (few_rows ? SOME_INPUTS : MANY_INPUTS) ? 4 : 1;
    if (n == 0)
        return;
    cp->merge = xrealloc(cp->merge, (size_t)cp->n_merges + 1, sizeof *cp->merge);
    cp->merge[cp->n_merges++] = m;
}

/* Numbers 0 .. n sorted by launch: those of launch l are order[at[l]] .. order[at[l + 1]]. */
static int64_t *by_launch(int64_t n, int32_t launches, const int32_t *launch_of, size_t stride, int64_t *at)
{
    int64_t *order = xcalloc((size_t)n, sizeof *order);
    for (int64_t i = 0; i < n; i++)
        at[*(const int32_t *)((const char *)launch_of + (size_t)i * stride) + 1]++;
    for (int32_t l = 0; l < launches; l++)
        at[l + 1] += at[l];
    int64_t *fill = xcalloc((size_t)launches + 1, sizeof *fill);
    for (int64_t i = 0; i < n; i++) {
        int32_t l = *(const int32_t *)((const char *)launch_of + (size_t)i * stride);
        order[at[l] + fill[l]++] = i;
    }
    free(fill);
    return order;
}

static bool build(struct builder *b, struct cuda_plan *cp, struct err *e)
{
    const struct plan *plan = b->plan;
    int64_t *group_at = xcalloc((size_t)plan->n_launches + 1, sizeof *group_at),
            *merge_at = xcalloc((size_t)plan->n_launches + 1, sizeof *merge_at);
    int64_t *group =
        by_launch(plan->n_groups, plan->n_launches, &plan->group->launch, sizeof *plan->group, group_at);
    int64_t *merge =
        by_launch(plan->n_merges, plan->n_launches, &plan->merge->launch, sizeof *plan->merge, merge_at);
    bool good = true;
    for (int32_t l = 0; l < plan->n_launches && good; l++) {
        for (int64_t i = group_at[l]; i < group_at[l + 1] && good && plan->unfused; i++)
            good = add_group(b, &plan->group[group[i]], e);
        if (good && !plan->unfused)
            good = add_launch(b, cp, l, group + group_at[l], group_at[l + 1] - group_at[l], e);
        if (good)
            add_merges(b, cp, l, merge + merge_at[l], merge_at[l + 1] - merge_at[l]);
    }
    free(group_at);
    free(merge_at);
    free(group);
    free(merge);
    return good;
}

/* ---- upload ----------------------------------------------------------------------------------------- */

static int64_t align(int64_t bytes)
{
    return ceil_div(bytes, SLOT_ALIGN) * SLOT_ALIGN;
}

/* All lists into one block: one allocation, one copy. */
static bool upload(struct builder *b, struct cuda_plan *cp, struct err *e)
{
    const struct {
        const struct list *l;
        size_t size;
        const void **to;
    } part[] = {
        {&b->item, sizeof(struct cuda_item), (const void **)&cp->item},
        {&b->run, sizeof(struct cuda_kv_run), (const void **)&cp->run},
        {&b->piece, sizeof(int32_t), (const void **)&cp->piece},
        {&b->query, sizeof(int32_t), (const void **)&cp->query},
        {&b->mask, sizeof(uint32_t), (const void **)&cp->mask},
        {&b->step, sizeof(struct cuda_merge_step), (const void **)&cp->step},
        {&b->merge_in, sizeof(int32_t), (const void **)&cp->merge_in},
    };
    enum { PARTS = sizeof part / sizeof part[0] };
    int64_t at[PARTS + 1] = {0};
    for (int i = 0; i < PARTS; i++)
        at[i + 1] = align(at[i] + part[i].l->n * (int64_t)part[i].size);
    cp->bytes = at[PARTS];
    cp->block = gpu_alloc(cp->bytes, e);
    if (!cp->block)
        return false;
    char *host = xcalloc((size_t)cp->bytes, 1);
    for (int i = 0; i < PARTS; i++) {
        if (part[i].l->n > 0)
            memcpy(host + at[i], part[i].l->p, (size_t)part[i].l->n * part[i].size);
        *part[i].to = (char *)cp->block + at[i];
    }
    bool good = gpu_upload(cp->block, host, cp->bytes, e);
    free(host);
    return good;
}

/* Side streams and events for the widest set of kernels that run side by side. */
static bool make_streams(struct cuda_plan *cp, struct err *e)
{
    int32_t widest = 1;
    for (int32_t l = 0, end; l < cp->n_launches; l = end) {
        int32_t calls = 0;
        for (end = l + 1; end < cp->n_launches && cp->concurrent[end]; end++)
            ;
        for (int32_t i = 0; i < cp->n_calls; i++)
            calls += cp->call[i].launch >= l && cp->call[i].launch < end;
        widest = calls > widest ? calls : widest;
    }
    if (widest == 1)
        return true;
    cp->side = xcalloc((size_t)widest - 1, sizeof *cp->side);
    cp->joined = xcalloc((size_t)widest - 1, sizeof *cp->joined);
    if (!cuda_ok(cudaEventCreateWithFlags(&cp->forked, cudaEventDisableTiming), "event", e))
        return false;
    for (int32_t i = 0; i < widest - 1; i++) {
        if (!cuda_ok(cudaStreamCreateWithFlags(&cp->side[i], cudaStreamNonBlocking), "stream", e))
            return false;
        cp->n_side++;
        if (!cuda_ok(cudaEventCreateWithFlags(&cp->joined[i], cudaEventDisableTiming), "event", e))
            return false;
    }
    return true;
}

static bool prepare(struct cuda_plan *cp, struct err *e)
{
    for (int32_t i = 0; i < cp->n_calls && cp->rung == CUDA_MMA; i++) {
        struct cuda_shape s = {cp->call[i].m, cp->call[i].n, cp->d, cp->t};
        if (!cuda_ok(cuda_group_prepare(&s), "shared memory of a kernel", e))
            return false;
    }
    return true;
}

struct cuda_plan *cuda_plan_new(const struct problem *p, const struct plan *plan,
                                const struct cuda_options *opt, struct err *e)
{
    char why[256];
    if (!cuda_supports(p, plan, opt, why)) {
        err_missing(e, "%s", why);
        return NULL;
    }
    struct cuda_caps caps;
    if (!cuda_caps(&caps, e))
        return NULL;
    if (p->n_pages * p->page_size > INT32_MAX || plan->n_slots > INT32_MAX || plan->n_merge_in > INT32_MAX) {
        err_missing(e, "more than 2^31 KV slots or partial results are too many for the CUDA kernels");
        return NULL;
    }
    struct cuda_plan *cp = xcalloc(1, sizeof *cp);
    int32_t shift = 0;
    while (1 << shift < p->page_size)
        shift++;
    int64_t slot_rows = plan->n_slots * p->h_q, weights = plan->slot_weight == SLOT_MAX_SUM ? 2 : 1;
    *cp = (struct cuda_plan){
        .rung = opt ? opt->rung : CUDA_MMA,
        .early = caps.arch >= HOPPER && !(opt && opt->arch != 0 && opt->arch < HOPPER),
        .t = p->dtype == DT_F16 ? CUDA_F16 : CUDA_BF16,
        .d = p->d,
        .h_q = p->h_q,
        .h_kv = p->h_kv,
        .page_size = p->page_size,
        .page_shift = 1 << shift == p->page_size ? shift : -1,
        .scale_log2 = (float)(p->scale * M_LOG2E),
        .slot_f16 = plan->slot_o == SLOT_O_F16,
        .slot_max_sum = plan->slot_weight == SLOT_MAX_SUM,
        .n_launches = plan->n_launches,
        .concurrent = xcalloc((size_t)plan->n_launches, 1),
        .slot_w_at = align(slot_rows * p->d * (plan->slot_o == SLOT_O_F16 ? 2 : 4)),
    };
    cp->workspace = cp->slot_w_at + align(slot_rows * weights * 4);
    for (int32_t l = 0; l < plan->n_launches; l++)
        cp->concurrent[l] = plan->launch[l].order == LAUNCH_CONCURRENT;
    struct builder b = {.p = p, .plan = plan, .gqa = p->h_q / p->h_kv, .sms = caps.sms};
    bool good = build(&b, cp, e) && upload(&b, cp, e) && make_streams(cp, e) && prepare(cp, e) &&
                (!plan->unfused || unfused_new(cp, b.item.p, b.item.n, e));
    struct list *lists[] = {&b.item, &b.run, &b.piece, &b.query, &b.mask, &b.step, &b.merge_in};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]->p);
    if (good)
        return cp;
    cuda_plan_free(cp);
    return NULL;
}

void cuda_plan_free(struct cuda_plan *cp)
{
    if (!cp)
        return;
    unfused_free(cp->unfused);
    for (int32_t i = 0; i < cp->n_side; i++) {
        cudaStreamDestroy(cp->side[i]);
        if (cp->joined[i])
            cudaEventDestroy(cp->joined[i]);
    }
    if (cp->forked)
        cudaEventDestroy(cp->forked);
    gpu_free(cp->block);
    free(cp->side);
    free(cp->joined);
    free(cp->call);
    free(cp->merge);
    free(cp->concurrent);
    free(cp);
}

int64_t cuda_workspace(const struct cuda_plan *cp)
{
    return cp->workspace;
}

int64_t cuda_plan_bytes(const struct cuda_plan *cp)
{
    return cp->bytes;
}

/* ---- running ---------------------------------------------------------------------------------------- */

static bool run_call(const struct cuda_plan *cp, const struct cuda_args *x, const struct cuda_call *c,
                     bool early, cudaStream_t stream, struct err *e)
{
    struct cuda_shape s = {c->m, c->n, cp->d, cp->t};
    struct cuda_group_args a = {
        .q = x->q,
        .k = x->k,
        .v = x->v,
        .page_table = x->page_table,
        .o = x->o,
        .lse = x->lse,
        .slot_o = x->workspace,
        .slot_w = (float *)((char *)x->workspace + cp->slot_w_at),
        .item = cp->item + c->item0,
        .run = cp->run,
        .piece = cp->piece,
        .query = cp->query,
        .mask = cp->mask,
        .n_items = (int32_t)c->n_items,
        .h_q = cp->h_q,
        .h_kv = cp->h_kv,
        .gqa = cp->h_q / cp->h_kv,
        .page_size = cp->page_size,
        .page_shift = cp->page_shift,
        .scale_log2 = cp->scale_log2,
        .slot_f16 = cp->slot_f16,
        .slot_max_sum = cp->slot_max_sum,
        .masked = c->masked,
        .heads = c->heads,
        .q_rows = c->q_rows,
        .q_buffers = c->q_buffers,
    };
    int status = cp->rung == CUDA_SCALAR ? cuda_launch_scalar(&s, &a, stream)
                 : cp->rung == CUDA_SMEM ? cuda_launch_smem(&s, &a, stream)
                                         : cuda_launch_group(&s, &a, early, stream);
    return cuda_ok(status, "launch of a group kernel", e);
}

static bool run_merge(const struct cuda_plan *cp, const struct cuda_args *x, const struct cuda_merge *m,
                      bool early, cudaStream_t stream, struct err *e)
{
    struct cuda_shape s = {.d = cp->d, .t = cp->t};
    struct cuda_merge_args a = {
        .o = x->o,
        .lse = x->lse,
        .slot_o = x->workspace,
        .slot_w = (float *)((char *)x->workspace + cp->slot_w_at),
        .step = cp->step + m->step0,
        .merge_in = cp->merge_in,
        .n_steps = m->n_steps,
        .h_q = cp->h_q,
        .warps = m->warps,
        .slot_f16 = cp->slot_f16,
        .slot_max_sum = cp->slot_max_sum,
    };
    return cuda_ok(cuda_launch_merge(&s, &a, early, stream), "launch of the merge kernel", e);
}

/* Kernels that run side by side: the first in the main stream, the others between two events. */
static bool run_side_by_side(const struct cuda_plan *cp, const struct cuda_args *x, int32_t call0,
                             int32_t call1, cudaStream_t stream, struct err *e)
{
    if (!cuda_ok(cudaEventRecord(cp->forked, stream), "event", e))
        return false;
    for (int32_t i = call0 + 1; i < call1; i++) {
        cudaStream_t side = cp->side[i - call0 - 1];
        cudaEvent_t joined = cp->joined[i - call0 - 1];
        if (!cuda_ok(cudaStreamWaitEvent(side, cp->forked, 0), "event", e) ||
            !run_call(cp, x, &cp->call[i], false, side, e) ||
            !cuda_ok(cudaEventRecord(joined, side), "event", e))
            return false;
    }
    if (!run_call(cp, x, &cp->call[call0], false, stream, e))
        return false;
    for (int32_t i = call0 + 1; i < call1; i++)
        if (!cuda_ok(cudaStreamWaitEvent(stream, cp->joined[i - call0 - 1], 0), "event", e))
            return false;
    return true;
}

bool cuda_run(struct cuda_plan *cp, const struct cuda_args *x, void *stream_, struct err *e)
{
    cudaStream_t stream = stream_;
    if (cp->unfused && !unfused_run(cp, x, stream, e))
        return false;
    int32_t call = 0, merge = 0;
    bool follows = false; /* the last thing in the stream is a kernel of this run */
    for (int32_t l = 0, end; l < cp->n_launches; l = end) {
        int32_t call0 = call, n;
        for (end = l + 1; end < cp->n_launches && cp->concurrent[end]; end++)
            ;
        while (call < cp->n_calls && cp->call[call].launch < end)
            call++;
        n = call - call0;
        if (n == 1 && !run_call(cp, x, &cp->call[call0], cp->early && follows, stream, e))
            return false;
        if (n > 1 && !run_side_by_side(cp, x, call0, call, stream, e))
            return false;
        follows = n == 1 || (n == 0 && follows);
        for (; merge < cp->n_merges && cp->merge[merge].launch < end; merge++) {
            if (!run_merge(cp, x, &cp->merge[merge], cp->early && follows, stream, e))
                return false;
            follows = true;
        }
    }
    return true;
}
