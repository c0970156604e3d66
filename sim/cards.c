#include "sim/cards.h"

#include <stdlib.h>
#include <string.h>

const char *const parallel_name[N_PARALLEL] = {"tensor", "context", "subtree", "replicate"};

bool cards_heads(const struct heads *h, enum parallel way, int32_t n, int32_t rank, struct heads_part *out,
                 struct err *e)
{
    CK(n >= 1 && n <= CARDS_MOST && rank >= 0 && rank < n);
    if (h->h_q % n != 0 || (h->h_kv % n != 0 && n % h->h_kv != 0))
        return err_missing(e,
                           "%d query heads on %d KV heads cannot be dealt out evenly to %d cards (expected a divisor of "
                           "the query heads that divides the KV heads or is a multiple of them)",
                           h->h_q, h->h_kv, n);
    *out = (struct heads_part){.n_q = h->h_q, .n_kv = h->h_kv};
    if (way == PARALLEL_TENSOR)
        *out = (struct heads_part){.q0 = rank * (h->h_q / n),
                                   .n_q = h->h_q / n,
                                   .kv0 = (int32_t)((int64_t)rank * h->h_kv / n),
                                   .n_kv = h->h_kv > n ? h->h_kv / n : 1};
    return true;
}

bool cards_model(const struct model *m, int32_t n, struct err *e)
{
    if (m->h_q % n == 0 && m->ffn % n == 0 && m->vocab % n == 0)
        return true;
    return err_missing(e,
                       "%s: %d query heads, %d columns of the MLP and %d words cannot be dealt out evenly to %d cards "
                       "(expected a divisor of all three)",
                       m->name, m->h_q, m->ffn, m->vocab, n);
}

/* ---- which page is where ------------------------------------------------------------------------------ */

enum { MOST_SPLITS = 64, NOWHERE = -1, EVERYWHERE = CARDS_MOST };

struct placement {
    enum parallel way;
    int32_t n_cards;
    int64_t n_pages, room, step;
    int32_t *card;  /* [n_pages] that holds it, NOWHERE or EVERYWHERE */
    int64_t *seen;  /* [n_pages] the last step with it */
    int32_t *local; /* [n_cards][n_pages] where placed there */
    int32_t *spare; /* [n_cards][room] local pages, of which the first n_spare are free */
    int64_t n_spare[CARDS_MOST];
    int64_t load[CARDS_MOST]; /* tokens, while pages are dealt out */
};

int64_t placement_room(enum parallel way, int32_t n_cards, int64_t most_pages)
{
    switch (way) {
    case PARALLEL_CONTEXT:
        return min_i64(most_pages, ceil_div(most_pages, n_cards) + 1);
    case PARALLEL_SUBTREE:
        return min_i64(most_pages, ceil_div(3 * most_pages, 2 * n_cards) + 1);
    default:
        return most_pages;
    }
}

struct placement *placement_new(enum parallel way, int32_t n_cards, int64_t n_pages, int64_t room)
{
    CK(way != PARALLEL_TENSOR && n_cards >= 1 && n_cards <= CARDS_MOST && room > 0);
    struct placement *x = xcalloc(1, sizeof *x);
    *x = (struct placement){.way = way, .n_cards = n_cards, .n_pages = n_pages, .room = room};
    x->card = xcalloc((size_t)n_pages, sizeof *x->card);
    x->seen = xcalloc((size_t)n_pages, sizeof *x->seen);
    x->local = xcalloc((size_t)(n_cards * n_pages), sizeof *x->local);
    x->spare = xcalloc((size_t)(n_cards * room), sizeof *x->spare);
    for (int64_t i = 0; i < n_pages; i++)
        x->card[i] = NOWHERE;
    for (int32_t c = 0; c < n_cards; c++) {
        x->n_spare[c] = room;
        for (int64_t i = 0; i < room; i++) /* the lowest is taken first */
            x->spare[c * room + i] = (int32_t)(room - 1 - i);
    }
    return x;
}

void placement_free(struct placement *x)
{
    if (!x)
        return;
    free(x->card);
    free(x->seen);
    free(x->local);
    free(x->spare);
    free(x);
}

static bool holds(const struct placement *x, int32_t card, int32_t page)
{
    return x->card[page] == card || x->card[page] == EVERYWHERE;
}

int32_t placement_local(const struct placement *x, int32_t card, int32_t page)
{
    CK(page >= 0 && page < x->n_pages);
    return holds(x, card, page) ? x->local[card * x->n_pages + page] : NOWHERE;
}

int64_t placement_used(const struct placement *x, int32_t card)
{
    return x->room - x->n_spare[card];
}

static void take(struct placement *x, int32_t card, int32_t page)
{
    CK(x->n_spare[card] > 0);
    x->local[card * x->n_pages + page] = x->spare[card * x->room + --x->n_spare[card]];
}

static void give_back(struct placement *x, int32_t page)
{
    for (int32_t c = 0; c < x->n_cards; c++)
        if (holds(x, c, page))
            x->spare[c * x->room + x->n_spare[c]++] = x->local[c * x->n_pages + page];
    x->card[page] = NOWHERE;
}

/* The card with the fewest tokens that has room for a page. */
static int32_t least_loaded(const struct placement *x)
{
    int32_t best = NOWHERE;
    for (int32_t c = 0; c < x->n_cards; c++)
        if (x->n_spare[c] > 0 && (best == NOWHERE || x->load[c] < x->load[best]))
            best = c;
    CK(best != NOWHERE);
    return best;
}

/* card: EVERYWHERE too. Where it is full, another takes the page. */
static void place(struct placement *x, int32_t page, int64_t tokens, int32_t card)
{
    if (card != EVERYWHERE && x->n_spare[card] == 0)
        card = least_loaded(x);
    x->card[page] = card;
    for (int32_t c = 0; c < x->n_cards; c++)
        if (holds(x, c, page)) {
            take(x, c, page);
            x->load[c] += tokens;
        }
}

void placement_follow(struct placement *x, int32_t from, int32_t to)
{
    CK(from >= 0 && from < x->n_pages && to >= 0 && to < x->n_pages);
    if (x->card[to] == NOWHERE && x->card[from] != NOWHERE)
        place(x, to, 0, x->card[from] == EVERYWHERE ? 0 : x->card[from]);
}

/* ---- what is dealt out --------------------------------------------------------------------------------- */

/* A tree's tables, and what is found of its nodes. */
struct deal {
    const struct tree *t;
    const int64_t *page_off;
    const int32_t *page_table;
    int32_t page_size;
    int32_t *order,
        *at; /* [n_nodes] nodes depth first, so that a subtree is a stretch; where each is in it */
    int32_t *next, *head; /* children as lists: [n_nodes], [n_nodes + 1] of which the last is of the roots */
    int64_t *weight;      /* [n_nodes] tokens of the subtree */
    int32_t *unit; /* [n_nodes] root of the subtree that goes to one card, or NOWHERE: above all of these */
};

static int64_t page_tokens(const struct deal *d, int32_t node, int64_t i)
{
    return min_i64(d->page_size, d->t->len[node] - i * d->page_size);
}

static struct deal deal_new(const struct tree *t, const int64_t *page_off, const int32_t *page_table,
                            int32_t page_size)
{
    size_t n = (size_t)t->n_nodes;
    struct deal d = {.t = t, .page_off = page_off, .page_table = page_table, .page_size = page_size};
    d.order = xcalloc(n, sizeof *d.order);
    d.at = xcalloc(n, sizeof *d.at);
    d.next = xcalloc(n, sizeof *d.next);
    d.head = xcalloc(n + 1, sizeof *d.head);
    d.weight = xcalloc(n, sizeof *d.weight);
    d.unit = xcalloc(n, sizeof *d.unit);
    for (int32_t i = 0; i <= t->n_nodes; i++)
        d.head[i] = NOWHERE;
    for (int32_t i = t->n_nodes - 1; i >= 0; i--) { /* children last to first: lists are in their order */
        int32_t above = t->parent[i] < 0 ? t->n_nodes : t->parent[i];
        d.next[i] = d.head[above];
        d.head[above] = i;
        d.weight[i] += t->len[i];
        if (t->parent[i] >= 0)
            d.weight[t->parent[i]] += d.weight[i];
    }
    int32_t at = 0;
    for (int32_t i = d.head[t->n_nodes]; i >= 0;) {
        d.at[i] = at;
        d.order[at++] = i;
        if (d.head[i] >= 0) {
            i = d.head[i];
            continue;
        }
        while (i >= 0 && d.next[i] < 0)
            i = t->parent[i];
        i = i < 0 ? NOWHERE : d.next[i];
    }
    CK(at == t->n_nodes);
    return d;
}

static void deal_clear(struct deal *d)
{
    free(d->order);
    free(d->at);
    free(d->next);
    free(d->head);
    free(d->weight);
    free(d->unit);
}

/* Equal stretches. */
static void place_stretches(struct placement *x, const struct deal *d, int64_t total)
{
    int64_t share = ceil_div(total, x->n_cards);
    int32_t c = 0;
    for (int32_t k = 0; k < d->t->n_nodes; k++) {
        int32_t v = d->order[k];
        for (int64_t i = 0; i < d->page_off[v + 1] - d->page_off[v]; i++) {
            int32_t page = d->page_table[d->page_off[v] + i];
            int64_t tokens = page_tokens(d, v, i);
            if (x->card[page] != NOWHERE)
                continue;
            while (c < x->n_cards - 1 && x->load[c] + tokens / 2 >= share)
                c++;
            place(x, page, tokens, x->load[c] + tokens / 2 < share ? c : least_loaded(x));
        }
    }
}

struct subtree {
    int32_t root;
    int64_t tokens;
};

static int heavier(const void *a, const void *b)
{
    const struct subtree *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens < y->tokens ? 1 : -1)
                                  : (x->root > y->root) - (x->root < y->root);
}

/* Tokens of the card that has most after the subtrees, heaviest first, went each to the card that has least. */
static int64_t slowest(const struct subtree *s, int64_t n, int32_t n_cards)
{
    int64_t load[CARDS_MOST] = {0}, most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t best = 0;
        for (int32_t c = 1; c < n_cards; c++)
            best = load[c] < load[best] ? c : best;
        load[best] += s[i].tokens;
        most = max_i64(most, load[best]);
    }
    return most;
}

/* The subtrees that go to one card each, heaviest first, into s[n_nodes], and into d->unit. Returns how many. */
static int64_t cut_subtrees(const struct placement *x, struct deal *d, int64_t total, struct subtree *s)
{
    const struct tree *t = d->t;
    struct subtree *now = xcalloc((size_t)t->n_nodes, sizeof *now);
    int64_t n = 0, n_now = 0, trunk = 0, best = INT64_MAX, share = ceil_div(total, x->n_cards);
    for (int32_t i = d->head[t->n_nodes]; i >= 0; i = d->next[i])
        now[n_now++] = (struct subtree){i, d->weight[i]};
    for (int split = 0;; split++) {
        qsort(now, (size_t)n_now, sizeof *now, heavier);
        int64_t price = trunk + slowest(now, n_now, x->n_cards);
        if (x->way == PARALLEL_SUBTREE || price < best) {
            best = price;
            n = n_now;
            memcpy(s, now, (size_t)n * sizeof *s);
        }
        if (n_now == 0 || split == MOST_SPLITS || d->head[now[0].root] < 0 ||
            (x->way == PARALLEL_SUBTREE && now[0].tokens <= share))
            break;
        int32_t root = now[0].root;
        trunk += t->len[root];
        now[0] = now[--n_now];
        for (int32_t i = d->head[root]; i >= 0; i = d->next[i])
            now[n_now++] = (struct subtree){i, d->weight[i]};
    }
    for (int32_t v = 0; v < t->n_nodes; v++)
        d->unit[v] = NOWHERE;
    for (int64_t i = 0; i < n; i++)
        d->unit[s[i].root] = s[i].root;
    for (int32_t v = 0; v < t->n_nodes; v++)
        if (d->unit[v] == NOWHERE && t->parent[v] >= 0)
            d->unit[v] = d->unit[t->parent[v]];
    free(now);
    return n;
}

/* Where the node's first placed page is; NOWHERE: none is. */
static int32_t node_card(const struct placement *x, const struct deal *d, int32_t v)
{
    for (int64_t i = d->page_off[v]; i < d->page_off[v + 1]; i++)
        if (x->card[d->page_table[i]] != NOWHERE)
            return x->card[d->page_table[i]];
    return NOWHERE;
}

static void place_node(struct placement *x, const struct deal *d, int32_t v, int32_t card)
{
    int32_t before = node_card(x, d, v);
    for (int64_t i = 0; i < d->page_off[v + 1] - d->page_off[v]; i++)
        if (x->card[d->page_table[d->page_off[v] + i]] == NOWHERE)
            place(x, d->page_table[d->page_off[v] + i], page_tokens(d, v, i),
                  before != NOWHERE ? before : card);
}

static void place_subtrees(struct placement *x, struct deal *d, int64_t total)
{
    const struct tree *t = d->t;
    struct subtree *s = xcalloc((size_t)t->n_nodes, sizeof *s);
    int32_t *card = xcalloc((size_t)t->n_nodes, sizeof *card); /* of a subtree, by its root */
    int64_t n = cut_subtrees(x, d, total, s);
    for (int32_t v = 0; v < t->n_nodes; v++)
        card[v] = NOWHERE;
    for (int32_t v = 0; v < t->n_nodes; v++) { /* where some of it is already */
        int32_t there = node_card(x, d, v);
        if (d->unit[v] != NOWHERE && card[d->unit[v]] == NOWHERE && there != EVERYWHERE)
            card[d->unit[v]] = there;
    }
    for (int32_t v = 0; v < t->n_nodes; v++)
        if (d->unit[v] == NOWHERE && t->len[v] > 0)
            place_node(x, d, v, x->way == PARALLEL_REPLICATE ? EVERYWHERE : least_loaded(x));
    for (int64_t i = 0; i < n; i++) {
        int32_t root = s[i].root;
        if (s[i].tokens == 0)
            continue;
        if (card[root] == NOWHERE)
            card[root] = least_loaded(x);
        for (int32_t k = d->at[root]; k < t->n_nodes && d->unit[d->order[k]] == root; k++)
            if (t->len[d->order[k]] > 0)
                place_node(x, d, d->order[k], card[root]);
    }
    free(card);
    free(s);
}

void placement_advance(struct placement *x, const struct tree *t, const int64_t *page_off,
                       const int32_t *page_table, int32_t page_size)
{
    CK(!t->since);
    struct deal d = deal_new(t, page_off, page_table, page_size);
    int64_t total = tree_tokens(t);
    x->step++;
    for (int64_t i = 0; i < page_off[t->n_nodes]; i++) {
        CK(page_table[i] >= 0 && page_table[i] < x->n_pages);
        x->seen[page_table[i]] = x->step;
    }
    for (int32_t p = 0; p < x->n_pages; p++)
        if (x->card[p] != NOWHERE && x->seen[p] != x->step)
            give_back(x, p);
    memset(x->load, 0, sizeof x->load);
    for (int32_t v = 0; v < t->n_nodes; v++)
        for (int64_t i = 0; i < page_off[v + 1] - page_off[v]; i++)
            for (int32_t c = 0; c < x->n_cards; c++)
                x->load[c] += holds(x, c, page_table[page_off[v] + i]) ? page_tokens(&d, v, i) : 0;
    if (x->way == PARALLEL_CONTEXT)
        place_stretches(x, &d, total);
    else
        place_subtrees(x, &d, total);
    deal_clear(&d);
}

/* ---- views ---------------------------------------------------------------------------------------------- */

/* Where each query reads what is on all cards: on the card of the last page of its path that is on one. */
static int32_t *query_homes(const struct placement *x, const struct tree *t, const int64_t *page_off,
                            const int32_t *page_table)
{
    int32_t *of_node = xcalloc((size_t)t->n_nodes, sizeof *of_node);
    int32_t *home = xcalloc((size_t)t->n_queries, sizeof *home);
    for (int32_t v = 0; v < t->n_nodes; v++) {
        of_node[v] = t->parent[v] < 0 ? NOWHERE : of_node[t->parent[v]];
        for (int64_t i = page_off[v]; i < page_off[v + 1]; i++)
            if (x->card[page_table[i]] != EVERYWHERE)
                of_node[v] = x->card[page_table[i]];
    }
    for (int32_t q = 0; q < t->n_queries; q++)
        home[q] = of_node[t->query[q].node] == NOWHERE ? q % x->n_cards : of_node[t->query[q].node];
    free(of_node);
    return home;
}

/* Of the node's pages on the card (everywhere: those on all of them, too) the first `upto` tokens of the node have so many. */
static int64_t tokens_on(const struct placement *x, int32_t card, bool everywhere, const int32_t *page,
                         int64_t upto, int32_t page_size)
{
    int64_t n = 0;
    for (int64_t i = 0; i * page_size < upto; i++)
        if (x->card[page[i]] == card || (everywhere && x->card[page[i]] == EVERYWHERE))
            n += min_i64(page_size, upto - i * page_size);
    return n;
}

/* With pages on all cards there are two copies of the tree: one for the queries that read these pages here, and one, without
 * them, for the others. Of most nodes one of both is empty. */
struct card_view placement_view(const struct placement *x, int32_t card, const struct tree *t,
                                const int64_t *page_off, const int32_t *page_table, int32_t page_size,
                                bool local)
{
    bool two = x->way == PARALLEL_REPLICATE;
    int32_t *home = query_homes(x, t, page_off, page_table), n = t->n_nodes, copies = two ? 2 : 1;
    bool *read = xcalloc((size_t)(copies * n), sizeof *read); /* copies that a query hangs on or below */
    struct card_view v = {.tree = tree_new(copies * n, t->n_queries)};
    v.page_off = xcalloc((size_t)(copies * n) + 1, sizeof *v.page_off);
    v.page_table = xcalloc((size_t)(copies * page_off[n]), sizeof *v.page_table);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t i = t->query[q].node + (two && home[q] != card ? n : 0); i >= 0 && !read[i];) {
            read[i] = true;
            i = t->parent[i % n] < 0 ? NOWHERE : t->parent[i % n] + i / n * n;
        }
    int64_t at = 0;
    for (int32_t i = 0; i < copies * n; i++) {
        const int32_t *page = page_table + page_off[i % n];
        bool here = i < n; /* and what is on all cards, too */
        v.tree->parent[i] = t->parent[i % n] < 0 ? -1 : t->parent[i % n] + i / n * n;
        v.page_off[i] = at;
        if (two && !read[i])
            continue;
        v.tree->len[i] = tokens_on(x, card, here, page, t->len[i % n], page_size);
        for (int64_t k = 0; k < page_off[i % n + 1] - page_off[i % n]; k++)
            if (x->card[page[k]] == card || (here && x->card[page[k]] == EVERYWHERE))
                v.page_table[at++] = local ? placement_local(x, card, page[k]) : page[k];
    }
    v.page_off[copies * n] = at;
    for (int32_t q = 0; q < t->n_queries; q++) {
        struct query from = t->query[q];
        bool here = !two || home[q] == card;
        v.tree->query[q] = (struct query){
            .node = from.node + (here ? 0 : n),
            .upto = tokens_on(x, card, here, page_table + page_off[from.node], from.upto, page_size)};
    }
    free(read);
    free(home);
    return v;
}

void card_view_clear(struct card_view *v)
{
    tree_free(v->tree);
    free(v->page_off);
    free(v->page_table);
    *v = (struct card_view){0};
}
