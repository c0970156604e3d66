#include "sim/engine/prefix_tree.h"

#include <string.h>

enum { TOP = 0, NONE = -1 }; /* what roots hang below; no request */

/* Behind each array, so that each begins on a line of the cache. */
static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int32_t buckets_for(int32_t rows)
{
    int32_t n = 64;
    while (n < 4 * rows)
        n *= 2;
    return n;
}

size_t prefix_tree_bytes(int32_t rows)
{
    size_t nodes = 2 * (size_t)rows + 1;
    return lines(nodes * sizeof(struct prefix_node)) + lines((size_t)rows * sizeof(struct prefix_row)) +
           lines((size_t)buckets_for(rows) * sizeof(int32_t)) + lines(nodes * sizeof(int32_t));
}

void prefix_tree_init(struct prefix_tree *t, int32_t rows, void *memory)
{
    char *at = memory;
    int32_t buckets = buckets_for(rows);
    *t = (struct prefix_tree){.most_nodes = 2 * rows + 1, .mask = buckets - 1};
    t->node = (struct prefix_node *)(void *)at;
    at += lines((size_t)t->most_nodes * sizeof *t->node);
    t->row = (struct prefix_row *)(void *)at;
    at += lines((size_t)rows * sizeof *t->row);
    t->bucket = (int32_t *)(void *)at;
    t->spare = (int32_t *)(void *)(at + lines((size_t)buckets * sizeof *t->bucket));
    prefix_tree_clear(t);
}

void prefix_tree_clear(struct prefix_tree *t)
{
    t->node[TOP] = (struct prefix_node){.rep = NONE, .first_row = NONE, .depth = -1};
    t->n_rows = t->n_spare = 0;
    t->n_nodes = 1;
    memset(t->bucket, 0, ((size_t)t->mask + 1) * sizeof *t->bucket);
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static int32_t *bucket_of(const struct prefix_tree *t, int32_t parent, int32_t page)
{
    uint64_t key = ((uint64_t)(uint32_t)parent << 32 | (uint32_t)page) * UINT64_C(0x9e3779b97f4a7c15);
    return &t->bucket[(int32_t)(key >> 40) & t->mask];
}

static int32_t find_child(const struct prefix_tree *t, int32_t parent, int32_t page)
{
    int32_t x = *bucket_of(t, parent, page);
    while (x != 0 && (t->node[x].parent != parent || t->node[x].first_page != page))
        x = t->node[x].hash_next;
    return x;
}

/* x hangs below its parent from now on. */
static void hang(struct prefix_tree *t, int32_t x)
{
    struct prefix_node *n = &t->node[x], *up = &t->node[n->parent];
    int32_t *bucket = bucket_of(t, n->parent, n->first_page);
    n->hash_next = *bucket;
    *bucket = x;
    n->prev = 0;
    n->next = up->first_child;
    if (n->next != 0)
        t->node[n->next].prev = x;
    up->first_child = x;
}

static void unhang(struct prefix_tree *t, int32_t x)
{
    struct prefix_node *n = &t->node[x];
    int32_t *at = bucket_of(t, n->parent, n->first_page);
    while (*at != x)
        at = &t->node[*at].hash_next;
    *at = n->hash_next;
    if (n->prev != 0)
        t->node[n->prev].next = n->next;
    else
        t->node[n->parent].first_child = n->next;
    if (n->next != 0)
        t->node[n->next].prev = n->prev;
}

/* A node that hangs nowhere yet. There is always one: n requests have 2n - 1 nodes at most. */
static int32_t new_node(struct prefix_tree *t, int32_t parent, int32_t begin, int32_t end, int32_t rep)
{
    int32_t x = t->n_spare > 0 ? t->spare[--t->n_spare] : t->n_nodes++;
    CK(x < t->most_nodes);
    t->node[x] = (struct prefix_node){.parent = parent,
                                      .begin = begin,
                                      .end = end,
                                      .rep = rep,
                                      .first_row = NONE,
                                      .first_page = page_list(&t->lists, rep)[begin]};
    return x;
}

/* ---- requests in nodes --------------------------------------------------------------------------------- */

static void put_row(struct prefix_tree *t, int32_t r, int32_t x)
{
    struct prefix_row *row = &t->row[r];
    row->node = x;
    row->prev = NONE;
    row->next = t->node[x].first_row;
    if (row->next != NONE)
        t->row[row->next].prev = r;
    t->node[x].first_row = r;
}

static void take_row(struct prefix_tree *t, int32_t r)
{
    const struct prefix_row *row = &t->row[r];
    if (row->prev != NONE)
        t->row[row->prev].next = row->next;
    else
        t->node[row->node].first_row = row->next;
    if (row->next != NONE)
        t->row[row->next].prev = row->prev;
}

/* Requests of x that end at place `most` or before it go to y. */
static void move_rows(struct prefix_tree *t, int32_t x, int32_t y, int32_t most)
{
    for (int32_t r = t->node[x].first_row, next; r != NONE; r = next) {
        next = t->row[r].next;
        if (t->row[r].pages > most)
            continue;
        take_row(t, r);
        put_row(t, r, y);
    }
}

/* The first place from `at` on where a and b differ, or `end`. */
static int32_t first_difference(const int32_t *a, const int32_t *b, int32_t at, int32_t end)
{
    enum { STEP = 32 }; /* pages that are compared at a time, by vector instructions */
    for (; at + STEP <= end; at += STEP) {
        int32_t differs = 0;
        for (int i = 0; i < STEP; i++)
            differs |= a[at + i] ^ b[at + i];
        if (differs)
            break;
    }
    while (at < end && a[at] == b[at])
        at++;
    return at;
}

/* x ends at place m; a new node takes its place, and x with what is below it goes on from there. Returns the new one. */
static int32_t split(struct prefix_tree *t, int32_t x, int32_t m)
{
    struct prefix_node *n = &t->node[x];
    unhang(t, x);
    int32_t upper = new_node(t, n->parent, n->begin, m, n->rep);
    t->node[upper].first_page = n->first_page;
    hang(t, upper);
    n->parent = upper;
    n->begin = m;
    n->first_page = page_list(&t->lists, n->rep)[m];
    hang(t, x);
    move_rows(t, x, upper, m);
    return upper;
}

/* A leaf of request r from place `at` on. */
static void add_leaf(struct prefix_tree *t, int32_t r, int32_t parent, int32_t at)
{
    int32_t x = new_node(t, parent, at, t->row[r].pages, r);
    hang(t, x);
    put_row(t, r, x);
}

/* Puts a request, whose pages agree with node x up to place `at`, where it ends. */
static void descend(struct prefix_tree *t, int32_t r, int32_t x, int32_t at)
{
    const int32_t *mine = page_list(&t->lists, r);
    int32_t n = t->row[r].pages;
    for (;;) {
        struct prefix_node *node = &t->node[x];
        if (x != TOP) {
            int32_t both = (int32_t)min_i64(node->end, n);
            at = first_difference(mine, page_list(&t->lists, node->rep), at, both);
            if (at < both) {
                add_leaf(t, r, split(t, x, at), at);
                return;
            }
        }
        if (x != TOP && at == n) {
            put_row(t, r, x);
            return;
        }
        if (x != TOP && node->first_child == 0) { /* all others end here */
            node->end = n;
            node->rep = r;
            put_row(t, r, x);
            return;
        }
        int32_t child = find_child(t, x, mine[at]);
        if (child == 0) {
            add_leaf(t, r, x, at);
            return;
        }
        x = child;
    }
}

/* x has one child, which takes its place. */
static void join_child(struct prefix_tree *t, int32_t x)
{
    struct prefix_node *n = &t->node[x];
    int32_t kid = n->first_child;
    unhang(t, kid);
    unhang(t, x);
    t->node[kid].parent = n->parent;
    t->node[kid].begin = n->begin;
    t->node[kid].first_page = n->first_page;
    hang(t, kid);
    move_rows(t, x, kid, INT32_MAX);
    t->spare[t->n_spare++] = x;
}

/* The longest request that ends in a leaf says where it ends. */
static void shorten(struct prefix_tree *t, int32_t x)
{
    struct prefix_node *n = &t->node[x];
    n->rep = n->first_row;
    for (int32_t r = n->first_row; r != NONE; r = t->row[r].next)
        if (t->row[r].pages > t->row[n->rep].pages)
            n->rep = r;
    n->end = t->row[n->rep].pages;
}

static void remove_row(struct prefix_tree *t, int32_t r)
{
    int32_t x = t->row[r].node;
    if (x == TOP)
        return;
    take_row(t, r);
    int32_t up = t->node[x].parent;
    if (t->node[x].first_child == 0 && t->node[x].first_row != NONE) {
        shorten(t, x);
    } else if (t->node[x].first_child == 0) {
        unhang(t, x);
        t->spare[t->n_spare++] = x;
        int32_t kid = t->node[up].first_child;
        if (up != TOP && t->node[kid].next == 0) {
            join_child(t, up);
            up = t->node[kid].parent;
        }
    } else {
        up = x;
    }
    for (; up != TOP; up = t->node[up].parent)
        if (t->node[up].rep == r)
            t->node[up].rep = t->node[t->node[up].first_child].rep;
    t->row[r].node = TOP;
}

void prefix_tree_step(struct prefix_tree *t, const struct page_lists *lists, int32_t n, const int32_t *pages,
                      const int32_t *kept)
{
    enum { GONE = -1 };
    t->lists = *lists;
    if (!kept)
        prefix_tree_clear(t);
    /* What is no more goes first: its pages cannot be read again. */
    for (int32_t r = 0; r < t->n_rows; r++)
        if (r >= n || kept[r] < t->row[r].pages || pages[r] < t->row[r].pages) {
            remove_row(t, r);
            t->row[r].pages = GONE;
        }
    for (int32_t r = 0; r < n; r++) {
        struct prefix_row *row = &t->row[r];
        int32_t from = r < t->n_rows ? row->pages : GONE, x = row->node;
        if (from == pages[r])
            continue;
        row->pages = pages[r];
        if (from <= 0) {
            row->node = TOP;
            if (pages[r] > 0)
                descend(t, r, TOP, 0);
            continue;
        }
        take_row(t, r);
        descend(t, r, x, from);
    }
    t->n_rows = n;
}
