#include "traces/pool.h"

#include "ref/rng.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NONE = -1, MIN_BUCKETS = 64 };

struct piece {
    int64_t name, tokens;
    int64_t seen;  /* the last step that named it */
    int32_t *page; /* [n_pages]; its first token is token `phase` of the first */
    int32_t phase;
    int32_t next; /* of its bucket, or of the free ones */
    int64_t n_pages, cap;
    bool live, source; /* source: one of this step's moves reads its pages */
};

struct list {
    int64_t n, cap;
    int32_t *page;
};

struct pool {
    int32_t page_size;
    int64_t n_pages, untouched; /* pages from `untouched` on have never been in use */
    int32_t *ref;               /* [untouched] pieces that have tokens in the page */
    int64_t ref_cap;
    struct list free, limbo; /* limbo: free after this step, because its moves read them */

    struct piece *piece;
    int32_t n_pieces, free_piece; /* highest ever; chain of those not live */
    int64_t piece_cap;
    int32_t *bucket; /* [n_buckets] chains of live pieces */
    int32_t n_buckets, n_live;

    int32_t *found; /* [found_cap] the step's pieces, NONE for new ones */
    int64_t found_cap, move_cap, fresh_cap;
    struct pool_step step;
    struct pool_stats stats;
};

struct pool *pool_new(int32_t page_size, int64_t n_pages)
{
    CK(page_size >= 1 && n_pages >= 0 && n_pages <= INT32_MAX);
    struct pool *p = xcalloc(1, sizeof *p);
    p->page_size = page_size;
    p->n_pages = p->stats.pages = n_pages;
    p->free_piece = NONE;
    p->n_buckets = MIN_BUCKETS;
    p->bucket = xmalloc(MIN_BUCKETS * sizeof *p->bucket);
    for (int32_t i = 0; i < p->n_buckets; i++)
        p->bucket[i] = NONE;
    return p;
}

void pool_free(struct pool *p)
{
    if (p) {
        for (int32_t i = 0; i < p->n_pieces; i++)
            free(p->piece[i].page);
        free(p->piece);
        free(p->bucket);
        free(p->ref);
        free(p->free.page);
        free(p->limbo.page);
        free(p->found);
        free(p->step.move);
        free(p->step.fresh);
    }
    free(p);
}

struct pool_stats pool_stats(const struct pool *p)
{
    return p->stats;
}

/* ---- pages --------------------------------------------------------------------------------------------- */

static void list_push(struct list *l, int32_t page)
{
    l->page = xgrow(l->page, &l->cap, l->n + 1, sizeof *l->page);
    l->page[l->n++] = page;
}

/* NONE if there is none left. */
static int32_t page_take(struct pool *p)
{
    if (p->free.n == 0 && p->untouched == p->n_pages)
        return NONE;
    if (p->free.n == 0) {
        p->ref = xgrow(p->ref, &p->ref_cap, p->untouched + 1, sizeof *p->ref);
        list_push(&p->free, (int32_t)p->untouched++);
    }
    int32_t page = p->free.page[--p->free.n];
    p->ref[page] = 1;
    p->stats.in_use++;
    return page;
}

static void page_drop(struct pool *p, int32_t page, struct list *to)
{
    CK(p->ref[page] > 0);
    if (--p->ref[page] == 0) {
        list_push(to, page);
        p->stats.in_use--;
    }
}

/* ---- pieces by name ------------------------------------------------------------------------------------ */

static int32_t *bucket_of(const struct pool *p, int64_t name)
{
    return &p->bucket[rng_mix((uint64_t)name) & (uint64_t)(p->n_buckets - 1)];
}

static int32_t piece_find(const struct pool *p, int64_t name)
{
    int32_t i = *bucket_of(p, name);
    while (i != NONE && p->piece[i].name != name)
        i = p->piece[i].next;
    return i;
}

static void link_piece(struct pool *p, int32_t i)
{
    int32_t *head = bucket_of(p, p->piece[i].name);
    p->piece[i].next = *head;
    *head = i;
}

static void more_buckets(struct pool *p)
{
    p->n_buckets *= 2;
    p->bucket = xrealloc(p->bucket, (size_t)p->n_buckets, sizeof *p->bucket);
    for (int32_t i = 0; i < p->n_buckets; i++)
        p->bucket[i] = NONE;
    for (int32_t i = 0; i < p->n_pieces; i++)
        if (p->piece[i].live)
            link_piece(p, i);
}

static int32_t piece_open(struct pool *p, int64_t name)
{
    int32_t i = p->free_piece;
    if (i == NONE) {
        p->piece = xgrow(p->piece, &p->piece_cap, p->n_pieces + 1, sizeof *p->piece);
        i = p->n_pieces++;
        p->piece[i] = (struct piece){0};
    } else {
        p->free_piece = p->piece[i].next;
    }
    struct piece *x = &p->piece[i];
    *x = (struct piece){.name = name, .page = x->page, .cap = x->cap, .live = true};
    if (++p->n_live > p->n_buckets)
        more_buckets(p);
    else
        link_piece(p, i);
    p->step.opened++;
    return i;
}

static void piece_close(struct pool *p, int32_t i)
{
    struct piece *x = &p->piece[i];
    for (int64_t k = 0; k < x->n_pages; k++)
        page_drop(p, x->page[k], x->source ? &p->limbo : &p->free);
    p->stats.tokens -= x->tokens;
    int32_t *at = bucket_of(p, x->name);
    while (*at != i)
        at = &p->piece[*at].next;
    *at = x->next;
    x->live = false;
    x->next = p->free_piece;
    p->free_piece = i;
    p->n_live--;
    p->step.closed++;
}

/* ---- tokens -------------------------------------------------------------------------------------------- */

static int64_t slot_of(const struct pool *p, const struct piece *x, int64_t token)
{
    int64_t at = x->phase + token;
    return (int64_t)x->page[at / p->page_size] * p->page_size + at % p->page_size;
}

static bool piece_grow(struct pool *p, struct piece *x, int64_t tokens)
{
    int64_t need = ceil_div(x->phase + tokens, p->page_size);
    if (need > x->n_pages)
        x->page = xgrow(x->page, &x->cap, need, sizeof *x->page);
    while (x->n_pages < need) {
        int32_t page = page_take(p);
        if (page == NONE)
            return false;
        x->page[x->n_pages++] = page;
    }
    p->stats.tokens += tokens - x->tokens;
    x->tokens = tokens;
    return true;
}

static void add_move(struct pool *p, int64_t from, int64_t to)
{
    p->step.move = xgrow(p->step.move, &p->move_cap, p->step.n_moves + 1, sizeof *p->step.move);
    p->step.move[p->step.n_moves++] = (struct pool_move){from, to};
}

static void add_fresh(struct pool *p, int32_t node, int64_t begin, int64_t end)
{
    p->step.fresh = xgrow(p->step.fresh, &p->fresh_cap, p->step.n_fresh + 1, sizeof *p->step.fresh);
    p->step.fresh[p->step.n_fresh++] = (struct pool_fresh){node, begin, end};
    p->step.fresh_tokens += end - begin;
}

/* Let the piece begin at token `phase` of a page: of `page`, where the piece before it ends, unless phase is 0. */
static bool piece_settle(struct pool *p, struct piece *x, int32_t phase, int32_t page)
{
    struct piece old = *x;
    *x = (struct piece){.name = old.name, .seen = old.seen, .next = old.next, .live = true, .phase = phase};
    p->stats.tokens -= old.tokens;
    if (phase > 0) {
        x->page = xgrow(x->page, &x->cap, 1, sizeof *x->page);
        x->page[x->n_pages++] = page;
        p->ref[page]++;
    }
    bool room = piece_grow(p, x, old.tokens);
    for (int64_t j = 0; j < old.tokens && room; j++)
        add_move(p, slot_of(p, &old, j), slot_of(p, x, j));
    for (int64_t k = 0; k < old.n_pages; k++)
        page_drop(p, old.page[k], &p->limbo);
    free(old.page);
    return room;
}

/* ---- a step -------------------------------------------------------------------------------------------- */

static bool take_accepted(struct pool *p, const struct trace_parts *parts)
{
    for (int32_t k = 0; k < parts->n_accepts; k++) {
        int32_t from = piece_find(p, parts->accept[k].from), to = piece_find(p, parts->accept[k].to);
        CK(from != NONE && to != NONE && from != to && p->piece[from].tokens == 1);
        struct piece *x = &p->piece[to];
        if (!piece_grow(p, x, x->tokens + 1))
            return false;
        p->piece[from].source = true;
        add_move(p, slot_of(p, &p->piece[from], 0), slot_of(p, x, x->tokens - 1));
    }
    return true;
}

/* Find the step's pieces, close the others. */
static void close_others(struct pool *p, const struct trace_parts *parts, int32_t n_pieces, int64_t t)
{
    p->found = xgrow(p->found, &p->found_cap, n_pieces, sizeof *p->found);
    for (int32_t k = 0; k < n_pieces; k++) {
        int32_t i = p->found[k] = piece_find(p, parts->piece[k].name);
        if (i != NONE)
            p->piece[i].seen = t;
    }
    for (int32_t i = 0; i < p->n_pieces; i++)
        if (p->piece[i].live && p->piece[i].seen != t)
            piece_close(p, i);
}

/* The pieces of a node, one behind the other. */
static bool place_node(struct pool *p, const struct trace_parts *parts, int32_t node, int64_t t)
{
    int64_t at = 0; /* tokens of the node so far, the last of them in page `last` */
    int32_t last = NONE;
    for (int32_t k = parts->piece0[node]; k < parts->piece0[node + 1]; k++) {
        const struct trace_piece *want = &parts->piece[k];
        int32_t i = p->found[k] != NONE ? p->found[k] : piece_open(p, want->name);
        struct piece *x = &p->piece[i];
        int32_t phase = (int32_t)(at % p->page_size);
        p->found[k] = i;
        x->seen = t;
        CK(want->tokens >= x->tokens);
        CK(x->tokens == 0 || want->tokens == x->tokens || k + 1 == parts->piece0[node + 1]);
        bool stays = x->n_pages > 0 && x->phase == phase && (phase == 0 || x->page[0] == last);
        if (!stays && !piece_settle(p, x, phase, last))
            return false;
        if (want->tokens > x->tokens)
            add_fresh(p, node, at + x->tokens, at + want->tokens);
        if (!piece_grow(p, x, want->tokens))
            return false;
        at += want->tokens;
        if (x->n_pages > 0)
            last = x->page[x->n_pages - 1];
    }
    return true;
}

static bool full(const struct pool *p, const struct tree *tree, int64_t t, struct err *e)
{
    return err_missing(
        e,
        "step %" PRId64 ": the KV pool is full: all of its %" PRId64 " pages of %" PRId32
        " tokens are in use, and the step's tree has %" PRId64 " tokens in %" PRId32
        " nodes (expected a model with less KV a token, fewer requests at a time, or a shorter run)",
        t, p->n_pages, p->page_size, tree_tokens(tree), tree->n_nodes);
}

bool pool_advance(struct pool *p, const struct tree *tree, const struct trace_parts *parts, int64_t t,
                  struct pool_step *step, struct err *e)
{
    struct pool_stats *s = &p->stats;
    p->step = (struct pool_step){.move = p->step.move, .fresh = p->step.fresh};
    if (!take_accepted(p, parts))
        return full(p, tree, t, e);
    close_others(p, parts, parts->piece0[tree->n_nodes], t);
    for (int32_t i = 0; i < tree->n_nodes; i++)
        if (!place_node(p, parts, i, t))
            return full(p, tree, t, e);
    int64_t most = s->in_use + p->limbo.n;
    while (p->limbo.n > 0)
        list_push(&p->free, p->limbo.page[--p->limbo.n]);
    if (most > s->peak) {
        s->peak = most;
        s->peak_step = t;
    }
    s->fresh += p->step.fresh_tokens;
    s->moved += p->step.n_moves;
    *step = p->step;
    return true;
}

void pool_table(const struct pool *p, const struct tree *tree, const struct trace_parts *parts,
                int64_t *page_off, int32_t **page_table, int64_t *cap)
{
    int64_t n = 0;
    page_off[0] = 0;
    for (int32_t i = 0; i < tree->n_nodes; i++) {
        for (int32_t k = parts->piece0[i]; k < parts->piece0[i + 1]; k++) {
            const struct piece *x = &p->piece[piece_find(p, parts->piece[k].name)];
            *page_table = xgrow(*page_table, cap, n + x->n_pages, sizeof **page_table);
            /* the page that the piece before it ends in is there already */
            for (int64_t j = x->phase > 0; j < x->n_pages; j++)
                (*page_table)[n++] = x->page[j];
        }
        page_off[i + 1] = n;
    }
}

int64_t pool_drain(struct pool *p)
{
    for (int32_t i = 0; i < p->n_pieces; i++)
        if (p->piece[i].live)
            piece_close(p, i);
    return p->stats.in_use;
}
