/*
 * layout.c - a plan as the device wants it: items, runs, pieces, queries, mask words and merge steps in one block
 * of device memory.
 *
 * A group of nq * g rows becomes ceil(nq * g / tile_m) items. Items of a launch that have one tile shape are one
 * kernel, or two where many are short and others are not; the longest come first, or of short ones about the longest
 * (tiling.h), so that none is left over at the end (longest processing time first), and CTAs of short ones have fewer
 * and fewer heads (guided self-scheduling).
 */
#include "kernels/cuda/host/plan.h"
#include "kernels/cuda/host/pairs.h"

#include <stdlib.h>
#include <string.h>

enum {
    FREE_TILE = 64,    /* a side that the plan leaves to a library, in a fused group */
    WARP_ROWS = 16,    /* of a tile, that a warp of the group kernel owns */
    SOME_INPUTS = 4,   /* of a merge step, from which four warps, or two, share a row, if all fit at once */
    ONE_ROUND = 16,    /* that four warps load at once; from more on eight share a row, if all fit at once */
    MANY_INPUTS = 32,  /* from which four warps do even if they do not */
    WARPS_WANTED = 32, /* of merges, per SM, that fit; from as many rows on a warp takes two */
    PAIR_WAVES = 3,    /* of CTAs of pairs, from which they take several heads */
    CTA_SMEM = 1024,   /* bytes of shared memory that a CTA costs besides its own, as in sim/time/tiles.h */
    ALIGN = 256        /* bytes */
};

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
    const struct cuda_caps *card;
    int32_t gqa;
    int64_t *reads;  /* [nodes] tokens of the node that items read, counted as often */
    int64_t *beside; /* [launches] tokens of all items that run side by side */
    int64_t *behind; /* [launches] and of all launches after them */
    int64_t tokens;  /* of all items */
    int32_t longest[CUDA_TILE_MAX / 16 + 1]; /* [side / 16] item of so many rows, in tokens */
    int32_t n_before;                        /* see tiling.h */
    struct pairs pairs;
    int64_t n_wide; /* of the groups in wide tiles, those that are in the list of items */
    int64_t wide0;  /* the first item of the launch in wide tiles, which are two a CTA */
    int64_t *kept;  /* of a group's runs those that a CTA reads, n_kept of them */
    bool *seen;     /* does it, of each run */
    int64_t n_kept, cap_kept, cap_seen;
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

/* The group's runs that are kept, as tokens of an item. */
static void add_runs(struct builder *b, const struct group *g, struct cuda_item *it)
{
    const struct nform *nf = b->plan->nf;
    int64_t n = b->n_kept, at = 0, size = b->p->page_size;
    it->n_runs = (int32_t)n;
    it->run0 = (int32_t)b->run.n;
    it->piece0 = (int32_t)b->piece.n;
    int64_t pieces = 0;
    for (int64_t r = 0; r < n; r++) {
        const struct run *x = &b->plan->run[g->run0 + b->kept[r]];
        struct cuda_kv_run to = {.base = b->p->page_off[nf->src[x->node]] * size + nf->off[x->node] +
                                         x->begin - at,
                                 .run = (int32_t)r};
        at += x->end - x->begin;
        to.end = (int32_t)at;
        it->n_kv = to.end;
        if (r == 0)
            it->base = to.base;
        if (n == 1)
            return;
        *(struct cuda_kv_run *)list_add(&b->run, 1, sizeof to) = to;
        int64_t begin = ceil_div(at, CUDA_PIECE) - pieces; /* that begin in this run */
        struct cuda_kv_run *piece = list_add(&b->piece, begin, sizeof to);
        for (int64_t k = 0; k < begin; k++)
            piece[k] = to;
        pieces += begin;
    }
}

static bool is_wide(const struct builder *b, const struct group *g)
{
    return b->pairs.ctas[g - b->plan->group] >= 0;
}

static int64_t rows_of(const struct builder *b, const struct group *g)
{
    return (int64_t)g->nq * b->gqa;
}

/* Rows of an item of the group, at most. */
static int64_t rows_per_item(const struct builder *b, const struct group *g)
{
    if (is_wide(b, g))
        return pairs_rows(g);
    return b->plan->unfused ? rows_of(b, g) : g->tile_m ? g->tile_m : FREE_TILE;
}

/* How often the group's tokens are read. */
static int64_t reads_of(const struct builder *b, const struct group *g)
{
    return is_wide(b, g) ? b->pairs.ctas[g - b->plan->group] : ceil_div(rows_of(b, g), rows_per_item(b, g));
}

static void count_tokens(struct builder *b, const struct cuda_plan *cp)
{
    const struct plan *plan = b->plan;
    b->reads = xcalloc((size_t)plan->nf->n_nodes, sizeof *b->reads);
    b->beside = xcalloc((size_t)plan->n_launches, sizeof *b->beside);
    b->behind = xcalloc((size_t)plan->n_launches, sizeof *b->behind);
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i];
        int64_t items = reads_of(b, g);
        for (int64_t r = g->run0; r < g->run1; r++)
            b->reads[plan->run[r].node] += items * (plan->run[r].end - plan->run[r].begin);
        b->beside[g->launch] += items * g->n_kv;
        b->tokens += items * g->n_kv;
        if (is_wide(b, g))
            continue;
        int32_t *longest = &b->longest[side_of(g->tile_m, CUDA_TILE_MAX) / 16];
        *longest = (int32_t)max_i64(*longest, min_i64(g->n_kv, INT32_MAX));
    }
    int64_t before = 0;
    for (int32_t l = 0, end; l < plan->n_launches; l = end) {
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

/* Does no item but this group's one read its tokens? */
static bool reads_alone(const struct builder *b, const struct group *g)
{
    bool alone = true;
    for (int64_t r = g->run0; r < g->run1 && alone; r++)
        alone = b->reads[b->plan->run[r].node] <= b->plan->nf->len[b->plan->run[r].node];
    return alone;
}

/* Of the group's runs those that any of the queries k0 .. k1 sees, the first if none does: tokens that no row of a CTA sees are
 * not its own. No queries: all of them. */
static void keep_runs(struct builder *b, const struct group *g, int32_t k0, int32_t k1)
{
    int64_t runs = g->run1 - g->run0;
    b->kept = xgrow(b->kept, &b->cap_kept, runs, sizeof *b->kept);
    b->seen = xgrow(b->seen, &b->cap_seen, runs, sizeof *b->seen);
    memset(b->seen, g->mask == MASK_NONE || k0 == k1, (size_t)runs);
    for (int32_t k = k0; k < k1 && g->mask != MASK_NONE; k++)
        for (int64_t r = 0; r < runs; r++)
            b->seen[r] |= b->plan->mask[g->mask0 + k * runs + r];
    b->n_kept = 0;
    for (int64_t r = 0; r < runs; r++)
        if (b->seen[r])
            b->kept[b->n_kept++] = r;
    if (b->n_kept == 0 && runs > 0)
        b->kept[b->n_kept++] = 0;
}

/* Is the next item in wide tiles the second of its CTA? */
static bool is_second(const struct builder *b)
{
    return (b->item.n - b->wide0) % 2 == 1;
}

/* Is the group that is being added the last over its tokens, so that no tile of another one shares a CTA with its last? */
static bool is_last_alike(const struct builder *b)
{
    return b->n_wide + 1 == b->pairs.n_groups || pairs_first(&b->pairs, b->n_wide + 1);
}

/* The queries k0 .. k1 of a CTA whose first item of the group has row0; none, for all,
 * where it is a pair with a tile of another group. */
static void queries_of_cta(const struct builder *b, const struct group *g, int64_t row0, int32_t *k0,
                           int32_t *k1)
{
    int64_t rows = rows_of(b, g), end = row0 + rows_per_item(b, g);
    bool wide = is_wide(b, g), second = wide && is_second(b),
         before_other = wide && end >= rows && !is_last_alike(b);
    if (wide && !second)
        end += rows_per_item(b, g);
    *k0 = (int32_t)(row0 / b->gqa);
    *k1 = second || before_other ? *k0 : (int32_t)((min_i64(end, rows) - 1) / b->gqa + 1);
}

/* Mask words of the queries k0 .. k1 of a group, or none if all of them see all runs that are kept. */
static void add_mask(struct builder *b, const struct group *g, int32_t k0, int32_t k1, struct cuda_item *it)
{
    int64_t runs = g->run1 - g->run0, words = ceil_div(k1 - k0, 32);
    bool all = true;
    for (int32_t k = k0; k < k1 && all && g->mask != MASK_NONE; k++)
        for (int64_t r = 0; r < b->n_kept && all; r++)
            all = b->plan->mask[g->mask0 + k * runs + b->kept[r]];
    it->mask0 = -1;
    it->mask_words = (int32_t)words;
    if (all)
        return;
    it->mask0 = (int32_t)b->mask.n;
    uint32_t *to = list_add(&b->mask, b->n_kept * words, sizeof *to);
    memset(to, 0, (size_t)(b->n_kept * words) * sizeof *to);
    for (int32_t k = k0; k < k1; k++)
        for (int64_t r = 0; r < b->n_kept; r++)
            if (b->plan->mask[g->mask0 + k * runs + b->kept[r]])
                to[r * words + (k - k0) / 32] |= UINT32_C(1) << (k - k0) % 32;
}

/* Mask words of all items of the group, at most. */
static int64_t mask_words(const struct builder *b, const struct group *g)
{
    int64_t rows = rows_of(b, g), per_tile = rows_per_item(b, g);
    int64_t queries = min_i64(g->nq, per_tile / b->gqa + 2); /* of a tile */
    return g->mask == MASK_NONE ? 0 : (g->run1 - g->run0) * ceil_div(rows, per_tile) * ceil_div(queries, 32);
}

/* What the CTA with row0 reads, for its items; whole: what those have that read all of the group. */
static void add_tokens(struct builder *b, const struct group *g, int64_t row0, struct cuda_item *whole,
                       struct cuda_item *it)
{
    int32_t k0, k1;
    queries_of_cta(b, g, row0, &k0, &k1);
    keep_runs(b, g, k0, k1);
    bool all = b->n_kept == g->run1 - g->run0;
    if (!all || whole->n_runs == 0)
        add_runs(b, g, all ? whole : it);
    if (all)
        *it = *whole;
}

static bool add_group(struct builder *b, const struct group *g, struct err *e)
{
    const struct nform *nf = b->plan->nf;
    int64_t rows = rows_of(b, g);
    int64_t per_tile = rows_per_item(b, g);
    int64_t ctas =
        g->mask == MASK_NONE ? 1 : ceil_div(rows, per_tile); /* at most, that have runs of their own */
    if (rows > INT32_MAX || g->n_kv > INT32_MAX - CUDA_TILE_MAX ||
        b->run.n + ctas * (g->run1 - g->run0) > INT32_MAX || b->query.n + g->nq > INT32_MAX ||
        b->piece.n + ctas * (g->n_kv / CUDA_PIECE + 1) > INT32_MAX ||
        b->mask.n + mask_words(b, g) > INT32_MAX)
        return err_missing(
            e,
            "the plan is too large for the CUDA kernels (2^31 rows, runs, mask words, or tokens of a group)");
    struct cuda_item common = {.kv_once = reads_alone(b, g)}, whole = common;
    int32_t *query = list_add(&b->query, g->nq, sizeof *query);
    int64_t query0 = b->query.n - g->nq;
    plan_queries(b->plan, g, query);
    for (int32_t k = 0; k < g->nq; k++)
        query[k] = nf->orig[query[k]];
    for (int64_t row0 = 0; row0 < rows; row0 += per_tile) {
        bool begins_cta = !is_wide(b, g) || !is_second(b);
        if (row0 == 0 || (g->mask != MASK_NONE && begins_cta))
            add_tokens(b, g, row0, &whole, &common);
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

/* On a card whose CTAs have less shared memory than those that tiles were made for, steps of fewer tokens. */
static int32_t step_of_card(const struct builder *b, const struct cuda_plan *cp, const struct cuda_call *c)
{
    struct cuda_shape s = shape_of_call(cp, c);
    while (s.n > 16 && cuda_group_smem(&s, c->masked, true, WARP_ROWS) > b->card->smem_per_cta)
        s.n /= 2;
    return s.n;
}

/* CTAs of a call that the card holds at once: those that fit, if shared memory holds as many. */
static int64_t ctas_at_once(const struct builder *b, const struct cuda_plan *cp, const struct cuda_call *c,
                            bool q_shared)
{
    struct cuda_shape s = shape_of_call(cp, c);
    int64_t smem = cuda_group_smem(&s, c->masked, q_shared, c->q_rows) + CTA_SMEM;
    return min_i64(c->ctas.slots, b->card->sms * max_i64(1, b->card->smem_per_sm / smem));
}

static void add_call(struct cuda_plan *cp, const struct cuda_call *c)
{
    cp->call = xrealloc(cp->call, (size_t)cp->n_calls + 1, sizeof *cp->call);
    cp->call[cp->n_calls++] = *c;
}

static bool fits_grid(const struct builder *b, int64_t n, struct err *e)
{
    return n * b->p->h_kv <= INT32_MAX ||
           err_missing(e, "a launch of %lld CTAs is too large for a grid", (long long)(n * b->p->h_kv));
}

/* The kernel of items item0 .. n of the list, sorted; two where many of them are short and others are not. */
static bool add_calls(struct builder *b, struct cuda_plan *cp, struct cuda_call call, struct err *e)
{
    struct cuda_item *item = b->item.p;
    int64_t end = b->item.n, n = end - call.item0;
    if (!fits_grid(b, n, e))
        return false;
    tiling_sort(item + call.item0, n);
    const struct tiling t = {.item = item + call.item0,
                             .n_items = n,
                             .tokens_beside = b->beside[call.launch],
                             .tokens_behind = b->behind[call.launch],
                             .tokens_of_plan = b->tokens,
                             .h_kv = b->p->h_kv,
                             .d = b->p->d,
                             .sms = b->card->sms,
                             .m = call.m,
                             .longest = b->longest[call.m / 16],
                             .n_before = b->n_before,
                             .wgmma = cp->wgmma,
                             .masked = call.masked};
    call.n = tiling_n(&t, call.n);
    call.n = step_of_card(b, cp, &call);
    b->n_before = tiling_n_after(&t, call.n);
    bool shares = cp->wgmma && call.m == CUDA_WIDE_ROWS && (cp->wide || call.n > CUDA_WIDE_STEP);
    call.n = shares ? 2 * CUDA_WIDE_STEP : call.n;
    call.ctas = tiling_ctas(&t, call.n);
    int64_t first_by_head = call.item0 + (cp->wide && shares ? n : tiling_first_by_head(&t, call.n));
    tiling_full_last(item + call.item0, n, call.m, cp->workspace, b->card->l2_bytes);
    for (int part = 0; part < 2; part++) {
        struct cuda_call c = call;
        c.ctas.by_head = part == 1;
        if (part == 0 && shares)
            c.wide = CUDA_WIDE_SHARED;
        c.item0 = part == 0 ? call.item0 : first_by_head;
        c.n_items = (part == 0 ? first_by_head : end) - c.item0;
        if (c.n_items == 0)
            continue;
        for (int64_t i = c.item0; i < c.item0 + c.n_items; i++) {
            c.longest = item[i].n_kv > c.longest ? item[i].n_kv : c.longest;
            c.q_rows = item[i].n_rows > c.q_rows ? item[i].n_rows : c.q_rows;
        }
        c.mean = (int32_t)(tiling_tokens(item + c.item0, c.n_items) / c.n_items);
        c.kv_once = tiling_kv_once(item + c.item0, c.n_items, (int64_t)b->p->h_kv * b->p->d * 4);
        for (int64_t i = c.item0; i < c.item0 + c.n_items && !c.kv_once; i++)
            item[i].kv_once = 0;
        c.q_rows = c.q_rows > WARP_ROWS ? WARP_ROWS : c.q_rows;
        /* Tiles of a warp keep Q for each, and wait for nobody, unless CTAs would be fewer. */
        c.q_shared = !c.ctas.by_head &&
                     (c.m > WARP_ROWS || ctas_at_once(b, cp, &c, true) > ctas_at_once(b, cp, &c, false));
        c.ctas.slots = ctas_at_once(b, cp, &c, c.q_shared);
        to_segments(&c.ctas, item + c.item0, c.n_items);
        add_call(cp, &c);
    }
    return true;
}

/* CTAs of pairs, an SM each: of several heads where there are enough for several waves, so that copies run ahead from head to
 * head; for verification as if there were one SM. */
static void share_out_pairs(const struct builder *b, const struct cuda_plan *cp, struct cuda_call *c)
{
    const struct cuda_item *item = (struct cuda_item *)b->item.p + c->item0;
    int64_t n = c->n_items / 2;
    struct cuda_item *pair = xcalloc((size_t)n, sizeof *pair); /* as one item of all its rows */
    for (int64_t i = 0; i < n; i++) {
        pair[i] = item[2 * i];
        pair[i].n_rows += item[2 * i + 1].n_rows;
    }
    c->ctas = (struct cuda_ctas){.h_kv = b->p->h_kv,
                                 .d = b->p->d,
                                 .teams = 1,
                                 .chunk = CUDA_WIDE_STEP,
                                 .slots = cp->wide ? 1 : b->card->sms,
                                 .by_head = cp->wide || n * b->p->h_kv >= (int64_t)PAIR_WAVES * b->card->sms};
    to_segments(&c->ctas, pair, n);
    free(pair);
}

/* The items of a launch in wide tiles, two by two over the same tokens; none of 0 rows where one is left over. */
static bool add_wide(struct builder *b, struct cuda_plan *cp, int32_t launch, struct err *e)
{
    struct cuda_call c = {
        .launch = launch, .m = 2 * CUDA_WIDE_ROWS, .n = CUDA_WIDE_STEP, .wide = CUDA_WIDE_PAIRS};
    const struct pairs *pairs = &b->pairs;
    int64_t masks = b->mask.n;
    c.item0 = b->wide0 = b->item.n;
    for (; b->n_wide < pairs->n_groups; b->n_wide++) {
        const struct group *g = &b->plan->group[pairs->group[b->n_wide]];
        if (g->launch != launch)
            break;
        if (!add_group(b, g, e))
            return false;
        if (is_second(b) && is_last_alike(b))
            memset(list_add(&b->item, 1, sizeof(struct cuda_item)), 0, sizeof(struct cuda_item));
    }
    c.n_items = b->item.n - c.item0;
    c.masked = b->mask.n > masks;
    if (c.n_items == 0)
        return true;
    if (!fits_grid(b, c.n_items / 2, e))
        return false;
    struct cuda_item *item = (struct cuda_item *)b->item.p + c.item0;
    tiling_sort_pairs(item, c.n_items);
    c.longest = item->n_kv;
    c.mean = (int32_t)(tiling_tokens(item, c.n_items) / c.n_items);
    share_out_pairs(b, cp, &c);
    add_call(cp, &c);
    return true;
}

/* Kernels for each tile shape that the groups of a launch have. */
static bool add_launch(struct builder *b, struct cuda_plan *cp, int32_t launch, const int64_t *group,
                       int64_t n, struct err *e)
{
    if (!add_wide(b, cp, launch, e))
        return false;
    for (int32_t m = 16; m <= CUDA_TILE_MAX; m *= 2)
        for (int32_t kv = 16; kv <= CUDA_TILE_MAX; kv *= 2) {
            struct cuda_call call = {.launch = launch, .m = m, .n = kv, .item0 = b->item.n};
            int64_t masks = b->mask.n;
            for (int64_t i = 0; i < n; i++) {
                const struct group *g = &b->plan->group[group[i]];
                if (!is_wide(b, g) && side_of(g->tile_m, CUDA_TILE_MAX) == m &&
                    side_of(g->tile_n, CUDA_TILE_MAX) == kv && !add_group(b, g, e))
                    return false;
            }
            call.masked = b->mask.n > masks;
            if (b->item.n > call.item0 && !add_calls(b, cp, call, e))
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

static void add_merges(struct builder *b, struct cuda_plan *cp, int32_t launch, const int64_t *merge,
                       int64_t n)
{
    if (n == 0)
        return;
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
    int64_t rows = n * b->p->h_q, at_once = (int64_t)b->card->sms * WARPS_WANTED;
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

/* A second kernel is 40 to 70 KB of instructions more, and its first CTAs wait for them: one runs all calls of a tile. */
static void share_kernels(struct cuda_plan *cp)
{
    bool once[CUDA_TILE_MAX / 16 + 1][CUDA_TILE_MAX / 16 + 1] = {{false}};
    for (int32_t i = 0; i < cp->n_calls; i++)
        once[cp->call[i].m / 16][cp->call[i].n / 16] |= cp->call[i].kv_once;
    for (int32_t i = 0; i < cp->n_calls; i++)
        cp->call[i].kv_once = once[cp->call[i].m / 16][cp->call[i].n / 16];
}

static bool build(struct builder *b, struct cuda_plan *cp, struct err *e)
{
    const struct plan *plan = b->plan;
    int64_t *group_at = xcalloc((size_t)plan->n_launches + 1, sizeof *group_at),
            *merge_at = xcalloc((size_t)plan->n_launches + 1, sizeof *merge_at);
    int64_t *group =
        by_launch(plan->n_groups, plan->n_launches, plan->n_groups > 0 ? &plan->group->launch : NULL,
                  sizeof *plan->group, group_at);
    int64_t *merge =
        by_launch(plan->n_merges, plan->n_launches, plan->n_merges > 0 ? &plan->merge->launch : NULL,
                  sizeof *plan->merge, merge_at);
    bool good = true;
    if (cp->wgmma && !plan->unfused)
        pairs_choose(&b->pairs, plan,
                     &(struct pairs_card){
                         .gqa = b->gqa, .h_kv = b->p->h_kv, .sms = b->card->sms, .everywhere = cp->wide});
    else
        pairs_none(&b->pairs, plan);
    count_tokens(b, cp);
    for (int32_t l = 0; l < plan->n_launches && good; l++) {
        for (int64_t i = group_at[l]; i < group_at[l + 1] && good && plan->unfused; i++)
            good = add_group(b, &plan->group[group[i]], e);
        if (good && !plan->unfused)
            good = add_launch(b, cp, l, group + group_at[l], group_at[l + 1] - group_at[l], e);
        if (good)
            add_merges(b, cp, l, merge + merge_at[l], merge_at[l + 1] - merge_at[l]);
    }
    share_kernels(cp);
    free(group_at);
    free(merge_at);
    free(group);
    free(merge);
    return good;
}

/* ---- upload ----------------------------------------------------------------------------------------- */

int64_t cuda_align(int64_t bytes)
{
    return ceil_div(bytes, ALIGN) * ALIGN;
}

/* All lists into one block: one copy. */
static bool upload(struct builder *b, struct cuda_plan *cp, cudaStream_t stream, struct err *e)
{
    const struct {
        const struct list *l;
        size_t size;
        const void **to;
    } part[] = {
        {&b->item, sizeof(struct cuda_item), (const void **)&cp->item},
        {&b->run, sizeof(struct cuda_kv_run), (const void **)&cp->run},
        {&b->piece, sizeof(struct cuda_kv_run), (const void **)&cp->piece},
        {&b->query, sizeof(int32_t), (const void **)&cp->query},
        {&b->mask, sizeof(uint32_t), (const void **)&cp->mask},
        {&b->step, sizeof(struct cuda_merge_step), (const void **)&cp->step},
        {&b->merge_in, sizeof(int32_t), (const void **)&cp->merge_in},
    };
    enum { PARTS = sizeof part / sizeof part[0] };
    int64_t at[PARTS + 1] = {0};
    for (int i = 0; i < PARTS; i++)
        at[i + 1] = cuda_align(at[i] + part[i].l->n * (int64_t)part[i].size);
    cp->bytes = at[PARTS];
    char *host = upload_begin(&cp->block, cp->bytes, e);
    if (!host)
        return false;
    for (int i = 0; i < PARTS; i++) {
        if (part[i].l->n > 0)
            memcpy(host + at[i], part[i].l->p, (size_t)part[i].l->n * part[i].size);
        *part[i].to = (char *)cp->block.dev + at[i];
    }
    return upload_end(&cp->block, cp->bytes, stream, e);
}

bool lay_out(struct cuda_plan *cp, const struct problem *p, const struct plan *plan,
             const struct cuda_caps *card, cudaStream_t stream, struct err *e)
{
    struct builder b = {.p = p, .plan = plan, .card = card, .gqa = p->h_q / p->h_kv};
    bool good = build(&b, cp, e) && upload(&b, cp, stream, e) &&
                (!plan->unfused || unfused_fill(cp, b.item.p, b.item.n, card->sms, stream, e));
    struct list *lists[] = {&b.item, &b.run, &b.piece, &b.query, &b.mask, &b.step, &b.merge_in};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]->p);
    free(b.reads);
    free(b.beside);
    free(b.behind);
    free(b.kept);
    free(b.seen);
    pairs_free(&b.pairs);
    return good;
}
