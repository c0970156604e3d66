#include "ref/nform.h"

#include <stdlib.h>
#include <string.h>

/* A cut of the tree: after token `upto` of `node`. */
static int by_place(const void *a, const void *b)
{
    const struct query *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->upto > y->upto) - (x->upto < y->upto);
}

/* Where windows begin inside of nodes, into cut[n_queries]; how many. Paths are walked from their ends, for all are as long as their
 * windows. */
static int32_t window_cuts(const struct tree *t, struct query *cut)
{
    int32_t n = 0;
    int64_t *seen = xcalloc((size_t)t->n_queries, sizeof *seen);
    tree_contexts(t, seen);
    for (int32_t q = 0; q < t->n_queries; q++) {
        int64_t left = seen[q], len = t->query[q].upto;
        int32_t node = t->query[q].node;
        while (node >= 0 && left > len) {
            left -= len;
            node = t->parent[node];
            len = node < 0 ? 0 : t->len[node];
        }
        if (node >= 0 && left > 0 && left < len)
            cut[n++] = (struct query){node, len - left};
    }
    free(seen);
    return n;
}

static void alloc_nodes(struct nform *nf, int32_t n)
{
    nf->n_nodes = n;
    nf->parent = xcalloc((size_t)n, sizeof *nf->parent);
    nf->len = xcalloc((size_t)n, sizeof *nf->len);
    nf->src = xcalloc((size_t)n, sizeof *nf->src);
    nf->off = xcalloc((size_t)n, sizeof *nf->off);
    nf->depth = xcalloc((size_t)n, sizeof *nf->depth);
    nf->q0 = xcalloc((size_t)n, sizeof *nf->q0);
    nf->q1 = xcalloc((size_t)n, sizeof *nf->q1);
}

/* Cut the nodes; first[i] becomes the first piece of tree node i (first[n_nodes] = number of pieces). */
static void cut_nodes(struct nform *nf, const struct tree *t, int32_t *first)
{
    struct query *cut = xcalloc((size_t)t->n_queries * 2, sizeof *cut);
    int32_t n_cuts = t->since ? window_cuts(t, cut) : 0;
    for (int32_t q = 0; q < t->n_queries; q++)
        if (t->query[q].upto > 0 && t->query[q].upto < t->len[t->query[q].node])
            cut[n_cuts++] = t->query[q];
    qsort(cut, (size_t)n_cuts, sizeof *cut, by_place);
    int32_t distinct = 0;
    for (int32_t c = 0; c < n_cuts; c++)
        if (distinct == 0 || by_place(&cut[c], &cut[distinct - 1]) != 0)
            cut[distinct++] = cut[c];

    CK(t->n_nodes <= INT32_MAX - distinct);
    alloc_nodes(nf, t->n_nodes + distinct);
    int32_t m = 0, c = 0;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        first[i] = m;
        int64_t begin = 0;
        for (;;) {
            bool more = c < distinct && cut[c].node == i;
            int64_t end = more ? cut[c].upto : t->len[i];
            bool head = m == first[i];
            int32_t up = t->parent[i];
            nf->src[m] = i;
            nf->off[m] = begin;
            nf->len[m] = end - begin;
            nf->parent[m] = head ? (up < 0 ? -1 : first[up + 1] - 1) : m - 1;
            nf->depth[m] = nf->parent[m] < 0 ? 0 : nf->depth[nf->parent[m]] + 1;
            m++;
            begin = end;
            if (!more)
                break;
            c++;
        }
        first[i + 1] = m; /* children come later and hang on the last piece */
    }
    CK(m == nf->n_nodes && c == distinct);
    free(cut);
}

static void link_children(struct nform *nf)
{
    int32_t n = nf->n_nodes;
    nf->child_ptr = xcalloc((size_t)n + 1, sizeof *nf->child_ptr);
    nf->child = xcalloc((size_t)n, sizeof *nf->child);
    nf->root = xcalloc((size_t)n, sizeof *nf->root);
    for (int32_t i = 0; i < n; i++)
        if (nf->parent[i] >= 0)
            nf->child_ptr[nf->parent[i] + 1]++;
        else
            nf->root[nf->n_roots++] = i;
    for (int32_t i = 0; i < n; i++)
        nf->child_ptr[i + 1] += nf->child_ptr[i];
    int32_t *fill = xcalloc((size_t)n, sizeof *fill);
    for (int32_t i = 0; i < n; i++)
        if (nf->parent[i] >= 0) {
            int32_t p = nf->parent[i];
            nf->child[nf->child_ptr[p] + fill[p]++] = i;
        }
    free(fill);
}

/* The piece at whose end a query of the tree hangs; -1: it sees nothing that a node could stand for. */
static int32_t hang(const struct nform *nf, const int32_t *first, const struct query *x)
{
    int32_t lo = first[x->node], hi = first[x->node + 1] - 1;
    if (x->upto == 0 && nf->tree->len[x->node] > 0)
        return nf->parent[lo];
    while (lo < hi) { /* the piece that ends at upto */
        int32_t mid = lo + (hi - lo) / 2;
        if (nf->off[mid] + nf->len[mid] >= x->upto)
            hi = mid;
        else
            lo = mid + 1;
    }
    CK(nf->off[lo] + nf->len[lo] == x->upto);
    return lo;
}

/*
 * Number the queries depth first. Counting replaces recursion: q1 - q0 of a node is its own queries plus its
 * children's; own queries take the first numbers of the range, children follow in id order.
 */
static void number_queries(struct nform *nf, const int32_t *hang_on)
{
    int32_t n = nf->n_nodes, nq = nf->n_queries;
    int32_t *own = xcalloc((size_t)n, sizeof *own), *below = xcalloc((size_t)n, sizeof *below);
    for (int32_t q = 0; q < nq; q++)
        if (hang_on[q] >= 0)
            own[hang_on[q]]++;
    for (int32_t i = n - 1; i >= 0; i--) { /* parents precede children, so children are complete here */
        below[i] += own[i];
        if (nf->parent[i] >= 0)
            below[nf->parent[i]] += below[i];
    }
    int32_t next_root = 0;
    int32_t *next = xcalloc((size_t)n, sizeof *next); /* where the node's next child starts */
    for (int32_t i = 0; i < n; i++) {
        int32_t *at = nf->parent[i] < 0 ? &next_root : &next[nf->parent[i]];
        nf->q0[i] = *at;
        nf->q1[i] = *at + below[i];
        *at += below[i];
        next[i] = nf->q0[i] + own[i];
    }
    for (int32_t i = 0; i < n; i++)
        own[i] = nf->q0[i];
    for (int32_t q = 0; q < nq; q++) { /* ascending, so queries at one place keep their order */
        int32_t pos = hang_on[q] >= 0 ? own[hang_on[q]]++ : next_root++;
        nf->at[pos] = hang_on[q];
        nf->orig[pos] = q;
    }
    CK(next_root == nq);
    free(own);
    free(below);
    free(next);
}

/* Positions, windows, and no tokens in pieces that nobody sees. */
static void set_windows(struct nform *nf)
{
    nf->pos = xcalloc((size_t)nf->n_nodes, sizeof *nf->pos);
    nf->since = xcalloc((size_t)nf->n_queries, sizeof *nf->since);
    for (int32_t i = 0; i < nf->n_nodes; i++)
        nf->pos[i] = nf->parent[i] < 0 ? 0 : nf->pos[nf->parent[i]] + nf->len[nf->parent[i]];
    for (int32_t q = 0; q < nf->n_queries; q++)
        nf->since[q] = nf->tree->since[nf->orig[q]];
    int64_t *first = nf->first = xcalloc((size_t)nf->n_nodes, sizeof *nf->first);
    for (int32_t i = 0; i < nf->n_nodes; i++)
        first[i] = INT64_MAX;
    for (int32_t q = 0; q < nf->n_queries; q++)
        if (nf->at[q] >= 0)
            first[nf->at[q]] = min_i64(first[nf->at[q]], nf->since[q]);
    for (int32_t i = nf->n_nodes - 1; i >= 0; i--) {
        if (nf->parent[i] >= 0)
            first[nf->parent[i]] = min_i64(first[nf->parent[i]], first[i]);
        if (first[i] > nf->pos[i])
            nf->len[i] = 0;
    }
    nf->seeing = xcalloc((size_t)nf->n_nodes, sizeof *nf->seeing);
    nf->above = xcalloc((size_t)nf->n_nodes, sizeof *nf->above);
    for (int32_t q = 0; q < nf->n_queries; q++)
        for (int32_t i = nf->at[q]; i >= 0 && nform_in_window(nf, q, i); i = nf->parent[i]) {
            nf->seeing[i]++;
            nf->above[i] += nf->parent[i] >= 0 && nform_in_window(nf, q, nf->parent[i]);
        }
}

struct nform *nform_new(const struct tree *t)
{
    struct nform *nf = xcalloc(1, sizeof *nf);
    nf->tree = t;
    nf->n_queries = t->n_queries;
    int32_t *first = xcalloc((size_t)t->n_nodes + 1, sizeof *first);
    cut_nodes(nf, t, first);
    link_children(nf);
    nf->at = xcalloc((size_t)t->n_queries, sizeof *nf->at);
    nf->orig = xcalloc((size_t)t->n_queries, sizeof *nf->orig);
    int32_t *hang_on = xcalloc((size_t)t->n_queries, sizeof *hang_on);
    for (int32_t q = 0; q < t->n_queries; q++)
        hang_on[q] = hang(nf, first, &t->query[q]);
    number_queries(nf, hang_on);
    if (t->since)
        set_windows(nf);
    free(hang_on);
    free(first);
    return nf;
}

void nform_free(struct nform *nf)
{
    if (!nf)
        return;
    free(nf->parent);
    free(nf->len);
    free(nf->src);
    free(nf->off);
    free(nf->depth);
    free(nf->q0);
    free(nf->q1);
    free(nf->child_ptr);
    free(nf->child);
    free(nf->root);
    free(nf->at);
    free(nf->orig);
    free(nf->pos);
    free(nf->since);
    free(nf->first);
    free(nf->seeing);
    free(nf->above);
    free(nf);
}

void nform_free_with_tree(struct nform *nf)
{
    struct tree *t = nf ? (struct tree *)nf->tree : NULL;
    nform_free(nf);
    tree_free(t);
}

int32_t nform_own(const struct nform *nf, int32_t i)
{
    int32_t below = 0;
    for (int32_t c = nf->child_ptr[i]; c < nf->child_ptr[i + 1]; c++)
        below += nf->q1[nf->child[c]] - nf->q0[nf->child[c]];
    return nf->q1[i] - nf->q0[i] - below;
}

int64_t nform_seen_tokens(const struct nform *nf)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        tokens += nf->q1[i] > nf->q0[i] ? nf->len[i] : 0;
    return tokens;
}

int64_t nform_context(const struct nform *nf, int32_t q)
{
    int64_t sum = 0;
    for (int32_t i = nf->at[q]; i >= 0 && nform_in_window(nf, q, i); i = nf->parent[i])
        sum += nf->len[i];
    return sum;
}

int32_t nform_live_roots(const struct nform *nf)
{
    /* A root without tokens of its own is not a shared prefix: its live children are first-level then. */
    int32_t n = 0;
    uint8_t *open = xcalloc((size_t)nf->n_nodes, 1); /* nothing to read from the root down to here */
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        bool start = nf->parent[i] < 0 || open[nf->parent[i]];
        if (!start || nf->q1[i] == nf->q0[i])
            continue;
        if (nf->len[i] == 0)
            open[i] = 1;
        else
            n++;
    }
    free(open);
    return n;
}
