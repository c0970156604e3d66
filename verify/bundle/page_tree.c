/*
 * page_tree.c - pages of requests to the tree of what they share, in the simplest way: lists are sorted, and a list shares with the one
 * before it what both begin with. The library for engines has its own, which is incremental (sim/engine/prefix_tree.h).
 */
#include "verify/bundle/bundle.h"

#include <stdlib.h>
#include <string.h>

void request_pages_free(struct request_pages *x)
{
    free(x->ptr);
    free(x->page);
    free(x->len);
    free(x->q_len);
    *x = (struct request_pages){0};
}

/* A page in the trie of all lists; they are numbered in the order of the sorted lists, so that a chain stands in a row. */
struct trie_page {
    int32_t parent; /* -1: the first of its list */
    int32_t page;
    int32_t children;
    int64_t tokens; /* the most that a request sees of it */
};

struct trie {
    const struct request_pages *x;
    struct trie_page *at;
    int64_t n;
    int64_t *path, depth; /* pages of the list before */
    int64_t *of_query;    /* [queries] the page that a query's last token is in, -1: it sees nothing; */
    int64_t *upto;        /* [queries] tokens of that page */
    int64_t *first_query; /* [n_requests + 1] */
};

static int64_t list_length(const struct request_pages *x, int32_t r)
{
    return x->ptr[r + 1] - x->ptr[r];
}

/* By their pages; of two that are the same the one that comes first. */
static int by_pages(const void *a, const void *b, void *context)
{
    const struct request_pages *x = context;
    int32_t r = *(const int32_t *)a, s = *(const int32_t *)b;
    int64_t n = min_i64(list_length(x, r), list_length(x, s));
    for (int64_t i = 0; i < n; i++) {
        int32_t p = x->page[x->ptr[r] + i], q = x->page[x->ptr[s] + i];
        if (p != q)
            return p < q ? -1 : 1;
    }
    if (list_length(x, r) != list_length(x, s))
        return list_length(x, r) < list_length(x, s) ? -1 : 1;
    return r < s ? -1 : r > s;
}

static void add_request(struct trie *t, int32_t r)
{
    const struct request_pages *x = t->x;
    const int32_t *page = x->page + x->ptr[r];
    int64_t n = list_length(x, r), shared = 0;
    while (shared < n && shared < t->depth && t->at[t->path[shared]].page == page[shared])
        shared++;
    for (int64_t i = shared; i < n; i++) {
        int32_t parent = i ? (int32_t)t->path[i - 1] : -1;
        if (parent >= 0)
            t->at[parent].children++;
        t->at[t->n] = (struct trie_page){.parent = parent, .page = page[i]};
        t->path[i] = t->n++;
    }
    t->depth = n;
    for (int64_t i = 0; i < n; i++) {
        int64_t seen = min_i64(x->page_size, x->len[r] - i * x->page_size);
        t->at[t->path[i]].tokens = max_i64(t->at[t->path[i]].tokens, seen);
    }
    for (int32_t j = 0; j < x->q_len[r]; j++) {
        int64_t q = t->first_query[r] + j, sees = x->len[r] - x->q_len[r] + j + 1;
        t->of_query[q] = sees > 0 ? t->path[(sees - 1) / x->page_size] : -1;
        t->upto[q] = sees > 0 ? (sees - 1) % x->page_size + 1 : 0;
    }
}

/* Pages become nodes: a page that is its parent's only child goes on with the parent's node. */
static struct tree *tree_of_trie(const struct trie *t, int32_t n_queries, int32_t **table)
{
    int32_t *node = xcalloc((size_t)t->n + 1, sizeof *node), n = 0;
    int64_t *before = xcalloc((size_t)t->n + 1, sizeof *before); /* tokens of the node in front of the page */
    *table = xcalloc((size_t)t->n + 1, sizeof **table);
    for (int64_t i = 0; i < t->n; i++) {
        int32_t up = t->at[i].parent;
        bool goes_on = up >= 0 && t->at[up].children == 1;
        node[i] = goes_on ? node[up] : n++;
        before[i] = goes_on ? before[up] + t->at[up].tokens : 0;
        (*table)[i] = t->at[i].page;
    }
    struct tree *tree = tree_new(n > 0 ? n : 1, n_queries); /* queries that see nothing are on a node, too */
    for (int64_t i = 0; i < t->n; i++) {
        int32_t up = t->at[i].parent;
        if (before[i] == 0)
            tree->parent[node[i]] = up >= 0 ? node[up] : -1;
        tree->len[node[i]] = before[i] + t->at[i].tokens;
    }
    for (int32_t q = 0; q < n_queries; q++)
        if (t->of_query[q] >= 0)
            tree->query[q] = (struct query){node[t->of_query[q]], before[t->of_query[q]] + t->upto[q]};
    free(node);
    free(before);
    return tree;
}

struct tree *tree_of_pages(const struct request_pages *x, int32_t **table)
{
    size_t requests = (size_t)x->n_requests, pages = (size_t)x->ptr[x->n_requests];
    int32_t *order = xcalloc(requests + 1, sizeof *order);
    struct trie t = {.x = x, .first_query = xcalloc(requests + 1, sizeof *t.first_query)};
    for (int32_t r = 0; r < x->n_requests; r++) {
        order[r] = r;
        t.first_query[r + 1] = t.first_query[r] + x->q_len[r];
    }
    size_t queries = (size_t)t.first_query[requests];
    t.at = xcalloc(pages + 1, sizeof *t.at);
    t.path = xcalloc(pages + 1, sizeof *t.path);
    t.of_query = xcalloc(queries + 1, sizeof *t.of_query);
    t.upto = xcalloc(queries + 1, sizeof *t.upto);
    qsort_r(order, requests, sizeof *order, by_pages, (void *)x);
    for (int32_t i = 0; i < x->n_requests; i++)
        add_request(&t, order[i]);
    struct tree *tree = tree_of_trie(&t, (int32_t)queries, table);
    free(order);
    free(t.at);
    free(t.path);
    free(t.of_query);
    free(t.upto);
    free(t.first_query);
    return tree;
}
