/*
 * calls.c - kernels of a plan: the tile, the step and the order of their items, and how CTAs share them out.
 *
 * The longest items come first, so that none is left over at the end (longest processing time first). Of short items, those
 * of about the same length are one class (tiling.h). CTAs of short items take fewer and fewer heads towards the end (guided
 * self-scheduling).
 */
#include "kernels/cuda/host/calls.h"
#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/meets.h"
#include "kernels/cuda/host/tiling.h"

#include <stdlib.h>

enum {
    WARP_ROWS = 16, /* of a tile, that a warp of the group kernel owns */
    CTA_SMEM = 1024 /* bytes of shared memory that a CTA costs besides its own, as in sim/time/tiles.h */
};

/* What decides besides the items themselves. */
struct builder {
    struct items *items;
    const struct problem *p;
    const struct plan *plan;
    const struct cuda_caps *card;
    int64_t *beside; /* [launches] tokens of all items that run side by side */
    int64_t *behind; /* [launches] and of all launches after them */
    int64_t tokens;  /* of all items */
    int32_t longest[CUDA_TILE_MAX / 16 +
                    1]; /* [side / 16] tokens of the longest item of so many rows, pairs apart */
    int32_t n_before;   /* see tiling.h */
    struct meets meets;
};

/* Turns tokens of each launch into tokens of all launches that run side by side, and of all behind. */
static void sum_sets(struct builder *b, const struct cuda_plan *cp)
{
    int64_t before = 0;
    for (int32_t l = 0, end; l < b->plan->n_launches; l = end) {
        int64_t tokens = 0;
        end = end_of_set(cp, l);
        for (int32_t i = l; i < end; i++)
            tokens += b->beside[i];
        for (int32_t i = l; i < end; i++) {
            b->beside[i] = tokens;
            b->behind[i] = b->tokens - before;
        }
        before += tokens;
    }
}

static void count_tokens(struct builder *b, const struct cuda_plan *cp)
{
    const struct plan *plan = b->plan;
    b->beside = xcalloc((size_t)plan->n_launches, sizeof *b->beside);
    b->behind = xcalloc((size_t)plan->n_launches, sizeof *b->behind);
    for (const struct group *g = plan->group; g < plan->group + plan->n_groups; g++) {
        int64_t tokens = reads_of_group(b->items, g) * g->n_kv;
        b->beside[g->launch] += tokens;
        b->tokens += tokens;
        if (is_wide(b->items, g))
            continue;
        int32_t *longest = &b->longest[side_of_tile(g->tile_m) / 16];
        *longest = (int32_t)max_i64(*longest, min_i64(g->n_kv, INT32_MAX));
    }
    sum_sets(b, cp);
}

/* Are wide tiles wanted wherever they can run, not only where that is faster? */
static bool everywhere(const struct cuda_plan *cp)
{
    return cp->kernel == CUDA_WIDE;
}

/* The call's step, made shorter until it fits a CTA. Tiles were made for cards with more shared memory than some have. */
static int32_t step_of_card(const struct builder *b, const struct cuda_plan *cp, const struct cuda_call *c)
{
    struct cuda_shape s = shape_of_call(cp, c);
    while (s.n > 16 &&
           cuda_launcher_of(c->kernel)->smem(&s, c->masked, true, WARP_ROWS) > b->card->smem_per_cta)
        s.n /= 2;
    return s.n;
}

/* Do its CTAs fit the card if each team has heads of its own, and so a copy of Q? */
static bool fits_by_head(const struct builder *b, const struct cuda_plan *cp, const struct cuda_call *c)
{
    struct cuda_shape s = shape_of_call(cp, c);
    return cuda_launcher_of(c->kernel)->smem(&s, c->masked, false, WARP_ROWS) <= b->card->smem_per_cta;
}

/* CTAs of a call that the card holds at once, as registers and shared memory allow. */
static int64_t ctas_at_once(const struct builder *b, const struct cuda_plan *cp, const struct cuda_call *c,
                            bool q_shared)
{
    struct cuda_shape s = shape_of_call(cp, c);
    int64_t smem = cuda_launcher_of(c->kernel)->smem(&s, c->masked, q_shared, c->q_rows) + CTA_SMEM;
    return min_i64(c->ctas.slots, b->card->sms * max_i64(1, b->card->smem_per_sm / smem));
}

/* Makes clusters of a kernel of wide tiles, `tiles` of which are a CTA's, if its CTAs can merge what they have themselves. With sinks
 * there is a merge in any case. */
static void make_clusters(struct builder *b, const struct cuda_plan *cp, struct cuda_call *c, int32_t tiles)
{
    if (cp->wgmma && b->plan->n_merges > 0 && !b->p->sink && !heads_fp8(&b->p->heads))
        c->meet = meets_sort(&b->meets, (struct cuda_item *)b->items->item.p + c->item0, c->n_items, tiles,
                             cuda_clusters());
}

static void add_call(struct cuda_plan *cp, const struct cuda_call *c)
{
    cp->call = xrealloc(cp->call, (size_t)cp->n_calls + 1, sizeof *cp->call);
    cp->call[cp->n_calls++] = *c;
}

static bool fits_grid(const struct builder *b, int64_t n, struct err *e)
{
    return n * b->p->heads.h_kv <= INT32_MAX ||
           err_missing(e, "a launch of %lld CTAs is too large for a grid", (long long)(n * b->p->heads.h_kv));
}

/* Sorts the items from call.item0 on and adds their kernel, or two: CTAs of one head, then CTAs of several. */
static bool add_calls(struct builder *b, struct cuda_plan *cp, struct cuda_call call, struct err *e)
{
    struct cuda_item *item = b->items->item.p;
    int64_t end = b->items->item.n, n = end - call.item0;
    if (!fits_grid(b, n, e))
        return false;
    tiling_sort(item + call.item0, n);
    const struct tiling t = {.item = item + call.item0,
                             .n_items = n,
                             .tokens_beside = b->beside[call.launch],
                             .tokens_behind = b->behind[call.launch],
                             .tokens_of_plan = b->tokens,
                             .h_kv = b->p->heads.h_kv,
                             .d = b->p->heads.d,
                             .capped = b->p->soft_cap > 0,
                             .fp8 = heads_fp8(&b->p->heads),
                             .sms = b->card->sms,
                             .m = call.m,
                             .longest = b->longest[call.m / 16],
                             .n_before = b->n_before,
                             .wgmma = cp->wgmma,
                             .masked = call.masked};
    call.n = tiling_n(&t, call.n);
    if (!t.fp8 || call.n <= CUDA_WIDE_STEP) /* longer ones are of wide tiles alone, which fit */
        call.n = step_of_card(b, cp, &call);
    b->n_before = tiling_n_after(&t, call.n);
    bool shares = cp->wgmma && call.m == CUDA_WIDE_ROWS && (everywhere(cp) || call.n > CUDA_WIDE_STEP);
    call.n = shares ? 2 * CUDA_WIDE_STEP : call.n;
    call.ctas = tiling_ctas(&t, shares && t.fp8 ? CUDA_WIDE_STEP : call.n);
    bool by_head = !((everywhere(cp) || t.fp8) && shares) && fits_by_head(b, cp, &call);
    int64_t first_by_head = call.item0 + (by_head ? tiling_first_by_head(&t, call.n) : n);
    tiling_full_last(item + call.item0, n, call.m, cp->workspace, b->card->l2_bytes);
    for (int part = 0; part < 2; part++) {
        struct cuda_call c = call;
        c.ctas.by_head = part == 1;
        if (part == 0 && shares) {
            c.kernel = CUDA_WIDE;
            c.wide = CUDA_WIDE_SHARED;
        }
        c.item0 = part == 0 ? call.item0 : first_by_head;
        c.n_items = (part == 0 ? first_by_head : end) - c.item0;
        if (c.n_items == 0)
            continue;
        for (int64_t i = c.item0; i < c.item0 + c.n_items; i++) {
            c.longest = item[i].n_kv > c.longest ? item[i].n_kv : c.longest;
            c.q_rows = item[i].n_rows > c.q_rows ? item[i].n_rows : c.q_rows;
        }
        c.mean = (int32_t)(tiling_tokens(item + c.item0, c.n_items) / c.n_items);
        c.kv_once =
            tiling_kv_once(item + c.item0, c.n_items,
                           (int64_t)b->p->heads.h_kv * b->p->heads.d * 2 * heads_kv_bytes(&b->p->heads));
        for (int64_t i = c.item0; i < c.item0 + c.n_items && !c.kv_once; i++)
            item[i].kv_once = 0;
        c.q_rows = c.q_rows > WARP_ROWS ? WARP_ROWS : c.q_rows;
        /* Teams of one warp have a copy of Q each and wait for nobody, unless fewer CTAs would fit. */
        c.q_shared = !c.ctas.by_head &&
                     (c.m > WARP_ROWS || ctas_at_once(b, cp, &c, true) > ctas_at_once(b, cp, &c, false));
        c.ctas.slots = ctas_at_once(b, cp, &c, c.q_shared);
        if (c.wide == CUDA_WIDE_SHARED)
            make_clusters(b, cp, &c, 1);
        to_segments(&c.ctas, item + c.item0, c.n_items);
        add_call(cp, &c);
    }
    return true;
}

/* Shares out CTAs of pairs, an SM each. If they are several waves they take several heads, so that copies run ahead from head to
 * head. For verification it is as if there were one SM. */
static void share_out_pairs(const struct builder *b, const struct cuda_plan *cp, struct cuda_call *c)
{
    const struct cuda_item *item = (struct cuda_item *)b->items->item.p + c->item0;
    int64_t n = c->n_items / 2;
    struct cuda_item *pair = xcalloc((size_t)n, sizeof *pair); /* each as one item of all its rows */
    for (int64_t i = 0; i < n; i++) {
        pair[i] = item[2 * i];
        pair[i].n_rows += item[2 * i + 1].n_rows;
    }
    c->ctas = (struct cuda_ctas){
        .h_kv = b->p->heads.h_kv,
        .d = b->p->heads.d,
        .teams = 1,
        .chunk = CUDA_WIDE_STEP,
        .slots = everywhere(cp) ? 1 : b->card->sms,
        .by_head =
            c->meet == 0 && (everywhere(cp) || n * b->p->heads.h_kv >= (int64_t)PAIR_WAVES * b->card->sms)};
    to_segments(&c->ctas, pair, n);
    free(pair);
}

/* Adds the launch's groups that run as pairs, and their kernel. */
static bool add_pairs(struct builder *b, struct cuda_plan *cp, int32_t launch, struct err *e)
{
    struct items *items = b->items;
    struct cuda_call c = {.launch = launch,
                          .m = 2 * CUDA_WIDE_ROWS,
                          .n = CUDA_WIDE_STEP,
                          .kernel = CUDA_WIDE,
                          .wide = CUDA_WIDE_PAIRS,
                          .item0 = items->item.n};
    int64_t masks = items->mask.n;
    if (!items_add_pairs(items, launch, e))
        return false;
    c.n_items = items->item.n - c.item0;
    c.masked = items->mask.n > masks;
    if (c.n_items == 0)
        return true;
    if (!fits_grid(b, c.n_items / 2, e))
        return false;
    struct cuda_item *item = (struct cuda_item *)items->item.p + c.item0;
    tiling_sort_pairs(item, c.n_items);
    c.longest = item->n_kv;
    c.mean = (int32_t)(tiling_tokens(item, c.n_items) / c.n_items);
    make_clusters(b, cp, &c, 2);
    share_out_pairs(b, cp, &c);
    add_call(cp, &c);
    return true;
}

/* The side of the tile that runs a group. Of K and V in 8 bits each warp of a tile that is not wide widens all of them for itself, so
 * there are no more warps than the rows want. */
static int32_t side_of_group(const struct builder *b, const struct group *g)
{
    int64_t rows = (int64_t)g->nq * b->items->gqa;
    int32_t side = side_of_tile(g->tile_m);
    return heads_fp8(&b->p->heads) && rows < side ? side_of_tile((int32_t)rows) : side;
}

/* Adds the launch's groups, and kernels for each tile shape that they have. */
static bool add_launch(struct builder *b, struct cuda_plan *cp, int32_t launch, const int64_t *group,
                       int64_t n, struct err *e)
{
    if (!add_pairs(b, cp, launch, e))
        return false;
    for (int32_t m = 16; m <= CUDA_TILE_MAX; m *= 2)
        for (int32_t kv = 16; kv <= CUDA_TILE_MAX; kv *= 2) {
            struct cuda_call call = {.launch = launch, .m = m, .n = kv, .item0 = b->items->item.n};
            int64_t masks = b->items->mask.n;
            for (int64_t i = 0; i < n; i++) {
                const struct group *g = &b->plan->group[group[i]];
                if (!is_wide(b->items, g) && side_of_group(b, g) == m && side_of_tile(g->tile_n) == kv &&
                    !items_add_group(b->items, g, e))
                    return false;
            }
            call.masked = b->items->mask.n > masks;
            if (b->items->item.n > call.item0 && !add_calls(b, cp, call, e))
                return false;
        }
    return true;
}

/* Warps that share a row of a merge whose steps have so many inputs on average. */
static int32_t warps_of_row(int64_t inputs, int64_t rows, int64_t warps_at_once)
{
    if (inputs > ONE_ROUND && 8 * rows <= warps_at_once)
        return 8;
    if (inputs >= MANY_INPUTS)
        return 4;
    for (int32_t warps = 4; warps > 1 && inputs >= SOME_INPUTS; warps /= 2)
        if (warps * rows <= warps_at_once)
            return warps;
    return 1;
}

/* Adds the launch's merge steps, and with sinks those of its groups, and their kernel. */
static void add_merges(struct builder *b, struct cuda_plan *cp, int32_t launch, const int64_t *merge,
                       int64_t n_merges, const int64_t *group, int64_t n_groups)
{
    struct cuda_merge m = {.launch = launch, .step0 = b->items->step.n};
    int64_t inputs = 0, n;
    for (int64_t i = 0; i < n_merges; i++)
        if (!meets_step(&b->meets, merge[i]))
            inputs += items_add_merge(b->items, &b->plan->merge[merge[i]]);
    for (int64_t i = 0; i < n_groups; i++)
        inputs += 2 * items_add_own_merges(b->items, &b->plan->group[group[i]]);
    n = m.n_steps = b->items->step.n - m.step0;
    if (n == 0)
        return;
    int64_t rows = n * b->p->heads.h_q, at_once = (int64_t)b->card->sms * WARPS_WANTED;
    m.many_rows = rows >= at_once;
    m.warps = warps_of_row(inputs / n, rows, at_once);
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

/* One kernel runs all calls of a tile, with kv_once or without. A second one would be 40 to 70 KB of instructions more, for which
 * its first CTAs wait. */
static void share_kernels(struct cuda_plan *cp)
{
    bool once[CUDA_TILE_MAX / 16 + 1][CUDA_TILE_MAX / 16 + 1] = {{false}};
    for (int32_t i = 0; i < cp->n_calls; i++)
        once[cp->call[i].m / 16][cp->call[i].n / 16] |= cp->call[i].kv_once;
    for (int32_t i = 0; i < cp->n_calls; i++)
        cp->call[i].kv_once = once[cp->call[i].m / 16][cp->call[i].n / 16];
}

bool calls_make(struct cuda_plan *cp, struct items *items, const struct cuda_caps *card, struct err *e)
{
    const struct plan *plan = items->plan;
    struct builder b = {.items = items, .p = items->p, .plan = plan, .card = card};
    b.meets = meets_new(plan, &(struct meets_card){.gqa = items->gqa,
                                                   .h_kv = items->p->heads.h_kv,
                                                   .sms = card->sms,
                                                   .everywhere = everywhere(cp)});
    int64_t *group_at = xcalloc((size_t)plan->n_launches + 1, sizeof *group_at),
            *merge_at = xcalloc((size_t)plan->n_launches + 1, sizeof *merge_at);
    int64_t *group =
        by_launch(plan->n_groups, plan->n_launches, plan->n_groups > 0 ? &plan->group->launch : NULL,
                  sizeof *plan->group, group_at);
    int64_t *merge =
        by_launch(plan->n_merges, plan->n_launches, plan->n_merges > 0 ? &plan->merge->launch : NULL,
                  sizeof *plan->merge, merge_at);
    bool good = true;
    count_tokens(&b, cp);
    for (int32_t l = 0; l < plan->n_launches && good; l++) {
        for (int64_t i = group_at[l]; i < group_at[l + 1] && good && plan->unfused; i++)
            good = items_add_group(items, &plan->group[group[i]], e);
        if (good && !plan->unfused)
            good = add_launch(&b, cp, l, group + group_at[l], group_at[l + 1] - group_at[l], e);
        if (good)
            add_merges(&b, cp, l, merge + merge_at[l], merge_at[l + 1] - merge_at[l], group + group_at[l],
                       group_at[l + 1] - group_at[l]);
    }
    share_kernels(cp);
    free(group_at);
    free(merge_at);
    free(group);
    free(merge);
    free(b.beside);
    free(b.behind);
    meets_free(&b.meets);
    return good;
}
