/* A plan as one array of words: treeattn.h says what they are. */
#include "sim/engine/engine.h"

#include <inttypes.h>
#include <string.h>

/* Words are written front to back; those beyond the limit are counted alone. */
struct packer {
    int32_t *words;
    int64_t n, most;
};

static void put(struct packer *k, int64_t value)
{
    if (value < INT32_MIN || value > INT32_MAX)
        arena_fail(TA_NO_ROOM, "the plan has a number of %" PRId64 " (expected 32 bits)", value);
    if (k->n < k->most)
        k->words[k->n] = (int32_t)value;
    k->n++;
}

static void begin(struct packer *k, enum ta_word at, int64_t n)
{
    k->words[at] = (int32_t)k->n;
    k->words[at + 1] = (int32_t)n;
}

static void put_launches(struct packer *k, const struct plan *p)
{
    begin(k, TA_AT_LAUNCH, p->n_launches);
    for (int32_t l = 0; l < p->n_launches; l++) {
        int64_t groups = 0, merges = 0;
        for (int64_t i = 0; i < p->n_groups; i++)
            groups += p->group[i].launch == l;
        for (int64_t i = 0; i < p->n_merges; i++)
            merges += p->merge[i].launch == l;
        put(k, p->launch[l].order == LAUNCH_CONCURRENT);
        put(k, groups);
        put(k, merges);
    }
}

static int64_t mask_words(const struct group *g)
{
    return g->mask == MASK_NONE ? 0 : ceil_div(g->nq * (g->run1 - g->run0), 32);
}

static void put_groups(struct packer *k, const struct plan *p)
{
    int64_t query = 0, mask = 0;
    begin(k, TA_AT_GROUP, p->n_groups);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++) {
        put(k, g->launch);
        put(k, g->tile_m);
        put(k, g->tile_n);
        put(k, query);
        put(k, g->nq);
        put(k, g->run0);
        put(k, g->run1 - g->run0);
        put(k, g->n_kv);
        put(k, g->mask == MASK_NONE ? -1 : mask);
        put(k, g->slot0 == PLAN_NO_SLOT ? -1 : g->slot0);
        put(k, g->mask);
        put(k, 0);
        query += g->nq;
        mask += mask_words(g);
    }
}

static void put_queries(struct packer *k, const struct plan *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_groups; i++)
        n += p->group[i].nq;
    begin(k, TA_AT_QUERY, n);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        for (int64_t i = g->qr0; i < g->qr1; i++)
            for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
                put(k, p->nf->orig[q]);
}

static void put_runs(struct packer *k, const struct plan *p, const struct ta_ctx *c)
{
    begin(k, TA_AT_RUN, p->n_runs);
    for (int64_t i = 0; i < p->n_runs; i++) {
        struct run r = plan_tree_run(p, &p->run[i]);
        put(k, c->extra[r.node].first_page + r.begin / c->page_size);
        put(k, r.begin % c->page_size);
        put(k, r.end - r.begin);
        put(k, r.node);
        put(k, r.begin);
        put(k, c->first[r.node] + r.begin);
    }
}

static void put_masks(struct packer *k, const struct plan *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_groups; i++)
        n += mask_words(&p->group[i]);
    begin(k, TA_AT_MASK, n);
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++) {
        int64_t bits = g->mask == MASK_NONE ? 0 : g->nq * (g->run1 - g->run0);
        for (int64_t at = 0; at < bits; at += 32) {
            uint32_t word = 0;
            for (int64_t b = at; b < min_i64(bits, at + 32); b++)
                word |= (uint32_t)(p->mask[g->mask0 + b] != 0) << (b - at);
            put(k, (int32_t)word);
        }
    }
}

static void put_merges(struct packer *k, const struct plan *p)
{
    begin(k, TA_AT_MERGE, p->n_merges);
    for (const struct merge_step *m = p->merge; m < p->merge + p->n_merges; m++) {
        put(k, p->nf->orig[m->query]);
        put(k, m->launch);
        put(k, m->in0);
        put(k, m->in1 - m->in0);
        put(k, m->out == PLAN_NO_SLOT ? -1 : m->out);
        put(k, m->onchip == PLAN_NO_SLOT ? -1 : m->onchip);
    }
    begin(k, TA_AT_INPUT, p->n_merge_in);
    for (int64_t i = 0; i < p->n_merge_in; i++)
        put(k, p->merge_in[i]);
}

static void put_pages(struct packer *k, const struct ta_ctx *c)
{
    begin(k, TA_AT_PAGE, c->n_pages);
    for (int32_t i = 0; i < c->tree.n_nodes; i++) {
        const struct node_extra *x = &c->extra[i];
        int32_t n = x->end - x->begin;
        if (n > 0 && k->n + n <= k->most)
            memcpy(k->words + k->n, page_list(&c->trie.lists, x->row) + x->begin,
                   (size_t)n * sizeof *k->words);
        k->n += n;
    }
}

void pack_plan(struct ta_ctx *c, const struct plan *p)
{
    struct packer k = {.words = c->words, .n = TA_HEADER, .most = c->limits.plan_words};
    if (c->limits.slots > 0 && p->n_slots > c->limits.slots)
        arena_fail(TA_NO_ROOM,
                   "the plan has %" PRId64 " partial results (expected %" PRId64
                   " at most, by slots of ta_limits)",
                   p->n_slots, c->limits.slots);
    memset(k.words, 0, TA_HEADER * sizeof *k.words);
    put_launches(&k, p);
    put_groups(&k, p);
    put_queries(&k, p);
    put_runs(&k, p, c);
    put_masks(&k, p);
    put_merges(&k, p);
    put_pages(&k, c);
    if (k.n > k.most)
        arena_fail(TA_NO_ROOM,
                   "the plan has %" PRId64 " words (expected %" PRId64
                   " at most, by plan_words of ta_limits)",
                   k.n, k.most);
    c->words[TA_W_MAGIC] = TA_MAGIC;
    c->words[TA_W_PACKING] = TA_PACKING;
    c->words[TA_W_WORDS] = (int32_t)k.n;
    c->words[TA_W_PAGE_SIZE] = c->page_size;
    c->words[TA_W_QUERIES] = c->tree.n_queries;
    c->words[TA_W_SLOTS] = (int32_t)p->n_slots;
    c->words[TA_W_F16] = p->slot_o == SLOT_O_F16;
    c->words[TA_W_WEIGHT] = p->slot_weight == SLOT_MAX_SUM;
    c->packed.n_words = k.n;
}
