/* items.c - groups to items, with their runs, pieces, queries and mask words; merge steps. */
#include "kernels/cuda/host/items.h"
#include "ref/base.h"

#include <stdlib.h>
#include <string.h>

enum { FREE_TILE = 64 }; /* the side of a tile in a fused group, where the plan leaves it to a library */

void *list_add(struct list *l, int64_t n, size_t size)
{
    l->p = xgrow(l->p, &l->cap, l->n + n, size);
    l->n += n;
    return (char *)l->p + (size_t)(l->n - n) * size;
}

int32_t side_of_tile(int32_t asked)
{
    int32_t side = 16;
    if (asked == 0)
        return FREE_TILE;
    while (side < asked && side < CUDA_TILE_MAX)
        side *= 2;
    return side;
}

/* ---- the tokens of a group ---------------------------------------------------------------------------- */

/* Gives the item the group's kept runs as its tokens. */
static void add_runs(struct items *b, const struct group *g, struct cuda_item *it)
{
    int64_t n = b->n_kept, at = 0, size = b->p->page_size;
    it->n_runs = (int32_t)n;
    it->run0 = (int32_t)b->run.n;
    it->piece0 = (int32_t)b->piece.n;
    int64_t pieces = 0;
    for (int64_t r = 0; r < n; r++) {
        struct run x = plan_tree_run(b->plan, &b->plan->run[g->run0 + b->kept[r]]);
        struct cuda_kv_run to = {.base = b->p->page_off[x.node] * size + x.begin - at, .run = (int32_t)r};
        at += x.end - x.begin;
        to.end = (int32_t)at;
        it->n_kv = to.end;
        if (r == 0)
            it->base = to.base;
        if (n == 1)
            return;
        *(struct cuda_kv_run *)list_add(&b->run, 1, sizeof to) = to;
        int64_t begin = ceil_div(at, CUDA_PIECE) - pieces; /* pieces that begin in this run */
        struct cuda_kv_run *piece = list_add(&b->piece, begin, sizeof to);
        for (int64_t k = 0; k < begin; k++)
            piece[k] = to;
        pieces += begin;
    }
}

bool is_wide(const struct items *b, const struct group *g)
{
    return b->pairs.ctas[g - b->plan->group] >= 0;
}

static int64_t rows_of(const struct items *b, const struct group *g)
{
    return (int64_t)g->nq * b->gqa;
}

/* Rows of an item of the group, at most. */
static int64_t rows_per_item(const struct items *b, const struct group *g)
{
    if (is_wide(b, g))
        return pairs_rows(g);
    return b->plan->unfused ? rows_of(b, g) : g->tile_m ? g->tile_m : FREE_TILE;
}

int64_t reads_of_group(const struct items *b, const struct group *g)
{
    return is_wide(b, g) ? b->pairs.ctas[g - b->plan->group] : ceil_div(rows_of(b, g), rows_per_item(b, g));
}

/* Does only one item read the group's tokens? */
static bool reads_alone(const struct items *b, const struct group *g)
{
    bool alone = true;
    for (int64_t r = g->run0; r < g->run1 && alone; r++)
        alone = b->reads[b->plan->run[r].node] <= b->plan->nf->len[b->plan->run[r].node];
    return alone;
}

/* Keeps those of the group's runs that any of the queries k0 .. k1 sees, so that a CTA reads no token that none of its rows sees.
 * If none is seen it keeps the first. If k0 = k1 it keeps all. */
static void keep_runs(struct items *b, const struct group *g, int32_t k0, int32_t k1)
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
static bool is_second(const struct items *b)
{
    return (b->item.n - b->wide0) % 2 == 1;
}

/* Is the group that is being added the last over its tokens? Then its last tile shares a CTA with no other group's. */
static bool is_last_alike(const struct items *b)
{
    return b->n_wide + 1 == b->pairs.n_groups || pairs_first(&b->pairs, b->n_wide + 1);
}

/* The queries k0 .. k1 of a CTA whose first item of the group begins with row0. k0 = k1 if a tile of another group is in the
 * CTA: then it reads all runs. */
static void queries_of_cta(const struct items *b, const struct group *g, int64_t row0, int32_t *k0,
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

/* Adds the item's mask words for the queries k0 .. k1, or none if these see all runs that are kept. */
static void add_mask(struct items *b, const struct group *g, int32_t k0, int32_t k1, struct cuda_item *it)
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
static int64_t mask_words(const struct items *b, const struct group *g)
{
    int64_t rows = rows_of(b, g), per_tile = rows_per_item(b, g);
    int64_t queries = min_i64(g->nq, per_tile / b->gqa + 2); /* of a tile, at most */
    return g->mask == MASK_NONE ? 0 : (g->run1 - g->run0) * ceil_div(rows, per_tile) * ceil_div(queries, 32);
}

/* Gives the item what the CTA with row0 reads. whole: an item that reads all of the group, to be used again. */
static void add_tokens(struct items *b, const struct group *g, int64_t row0, struct cuda_item *whole,
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

bool items_add_group(struct items *b, const struct group *g, struct err *e)
{
    const struct nform *nf = b->plan->nf;
    int64_t rows = rows_of(b, g);
    int64_t per_tile = rows_per_item(b, g);
    int64_t ctas =
        g->mask == MASK_NONE ? 1 : ceil_div(rows, per_tile); /* that have runs of their own, at most */
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
        int64_t slot0 = g->slot0 == PLAN_NO_SLOT && b->own_slot ? b->own_slot[g - b->plan->group] : g->slot0;
        it.slot0 = slot0 == PLAN_NO_SLOT ? -1 : (int32_t)(slot0 + k0);
        add_mask(b, g, k0, k1, &it);
        *(struct cuda_item *)list_add(&b->item, 1, sizeof it) = it;
    }
    return true;
}

bool items_add_pairs(struct items *b, int32_t launch, struct err *e)
{
    const struct pairs *pairs = &b->pairs;
    b->wide0 = b->item.n;
    for (; b->n_wide < pairs->n_groups; b->n_wide++) {
        const struct group *g = &b->plan->group[pairs->group[b->n_wide]];
        if (g->launch != launch)
            break;
        if (!items_add_group(b, g, e))
            return false;
        if (is_second(b) && is_last_alike(b))
            memset(list_add(&b->item, 1, sizeof(struct cuda_item)), 0, sizeof(struct cuda_item));
    }
    return true;
}

int64_t items_add_merge(struct items *b, const struct merge_step *s)
{
    const struct plan *plan = b->plan;
    bool sinks = b->sink_slot != PLAN_NO_SLOT && s->out == PLAN_NO_SLOT;
    int64_t n = s->in1 - s->in0 + sinks;
    *(struct cuda_merge_step *)list_add(&b->step, 1, sizeof(struct cuda_merge_step)) =
        (struct cuda_merge_step){.in0 = (int32_t)b->merge_in.n,
                                 .n_in = (int32_t)n,
                                 .out = s->out == PLAN_NO_SLOT ? -1 : (int32_t)s->out,
                                 .query = plan->nf->orig[s->query]};
    int32_t *in = list_add(&b->merge_in, n, sizeof *in);
    for (int64_t k = s->in0; k < s->in1; k++)
        *in++ = (int32_t)plan->merge_in[k];
    if (sinks)
        *in = (int32_t)b->sink_slot;
    return n;
}

int64_t items_add_own_merges(struct items *b, const struct group *g)
{
    int64_t first = b->own_slot && g->slot0 == PLAN_NO_SLOT ? b->own_slot[g - b->plan->group] : PLAN_NO_SLOT;
    if (first == PLAN_NO_SLOT)
        return 0;
    int32_t *query = xcalloc((size_t)g->nq, sizeof *query);
    plan_queries(b->plan, g, query);
    for (int32_t k = 0; k < g->nq; k++) {
        int32_t *in = list_add(&b->merge_in, 2, sizeof *in);
        in[0] = (int32_t)first + k;
        in[1] = (int32_t)b->sink_slot;
        *(struct cuda_merge_step *)list_add(&b->step, 1,
                                            sizeof(struct cuda_merge_step)) = (struct cuda_merge_step){
            .in0 = (int32_t)b->merge_in.n - 2, .n_in = 2, .out = -1, .query = b->plan->nf->orig[query[k]]};
    }
    free(query);
    return g->nq;
}

/* Slots of the queries of groups whose rows the plan sends to the output; of each group the first, behind the plan's own, into
 * *own_slot unless that is NULL. */
static int64_t count_own_slots(const struct plan *plan, int64_t *own_slot)
{
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_groups; i++)
        if (plan->group[i].slot0 == PLAN_NO_SLOT) {
            if (own_slot)
                own_slot[i] = plan->n_slots + n;
            n += plan->group[i].nq;
        }
    return n;
}

int64_t items_slots(const struct problem *p, const struct plan *plan)
{
    return plan->n_slots + (p->sink ? count_own_slots(plan, NULL) + 1 : 0);
}

/* ---- all of them -------------------------------------------------------------------------------------- */

static void count_reads(struct items *b)
{
    b->reads = xcalloc((size_t)b->plan->nf->n_nodes, sizeof *b->reads);
    for (const struct group *g = b->plan->group; g < b->plan->group + b->plan->n_groups; g++)
        for (int64_t r = g->run0; r < g->run1; r++) {
            const struct run *run = &b->plan->run[r];
            b->reads[run->node] += reads_of_group(b, g) * (run->end - run->begin);
        }
}

struct items items_new(const struct problem *p, const struct plan *plan, bool wgmma, bool everywhere,
                       int32_t sms)
{
    struct items b = {.p = p, .plan = plan, .gqa = heads_gqa(&p->heads), .sink_slot = PLAN_NO_SLOT};
    const struct pairs_card card = {
        .gqa = b.gqa, .h_kv = p->heads.h_kv, .sms = sms, .everywhere = everywhere};
    if (wgmma && !plan->unfused)
        pairs_choose(&b.pairs, plan, &card);
    else
        pairs_none(&b.pairs, plan);
    count_reads(&b);
    if (p->sink) {
        b.own_slot = xcalloc((size_t)plan->n_groups, sizeof *b.own_slot);
        b.sink_slot = plan->n_slots + count_own_slots(plan, b.own_slot);
    }
    return b;
}

void items_free(struct items *b)
{
    struct list *lists[] = {&b->item, &b->run, &b->piece, &b->query, &b->mask, &b->step, &b->merge_in};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]->p);
    free(b->own_slot);
    free(b->reads);
    free(b->kept);
    free(b->seen);
    pairs_free(&b->pairs);
}
