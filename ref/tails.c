#include "ref/tails.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where a query ends: behind token `upto` of a node, at least the first; node -1: it sees nothing. */
struct place {
    int32_t node;
    int64_t upto;
    int32_t query;
};

static struct place place_of(const struct tree *t, int32_t node, int64_t upto, int32_t query)
{
    while (node >= 0 && upto == 0) {
        node = t->parent[node];
        upto = node < 0 ? 0 : t->len[node];
    }
    return (struct place){node, upto, query};
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->upto != y->upto)
        return x->upto < y->upto ? -1 : 1;
    return (x->query > y->query) - (x->query < y->query);
}

/* The first of the queries that end there; n: none. */
static int32_t find(const struct place *sorted, int32_t n, struct place x)
{
    int32_t lo = 0, hi = n;
    x.query = -1;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (by_place(&sorted[mid], &x) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* after[q]: the query that goes on behind q, or -1; before[q] likewise. */
static void link_queries(const struct tree *t, int32_t *before, int32_t *after)
{
    int32_t n = t->n_queries;
    struct place *sorted = xcalloc((size_t)n, sizeof *sorted);
    /* Of the queries that end where sorted[i] is the first: how many have one behind. */
    int32_t *taken = xcalloc((size_t)n + 1, sizeof *taken);
    for (int32_t q = 0; q < n; q++) {
        sorted[q] = place_of(t, t->query[q].node, t->query[q].upto, q);
        before[q] = after[q] = -1;
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_place);
    for (int32_t q = 0; q < n; q++) {
        struct place own = place_of(t, t->query[q].node, t->query[q].upto, q), up = own;
        if (own.node >= 0)
            up = place_of(t, own.node, own.upto - 1, q);
        if (up.node < 0)
            continue;
        int32_t i = find(sorted, n, up), at = i + taken[i];
        if (at >= n || sorted[at].node != up.node || sorted[at].upto != up.upto)
            continue;
        taken[i]++;
        before[q] = sorted[at].query;
        after[sorted[at].query] = q;
    }
    free(sorted);
    free(taken);
}

struct tails *tails_of(const struct tree *t)
{
    int32_t n = t->n_queries, at = 0;
    struct tails *r = xcalloc(1, sizeof *r);
    r->first = xcalloc((size_t)n + 1, sizeof *r->first);
    r->order = xcalloc((size_t)n, sizeof *r->order);
    r->of = xcalloc((size_t)n, sizeof *r->of);
    int32_t *before = xcalloc((size_t)n, sizeof *before), *after = xcalloc((size_t)n, sizeof *after);
    link_queries(t, before, after);
    for (int32_t q = 0; q < n; q++) {
        if (before[q] >= 0)
            continue;
        for (int32_t k = q; k >= 0; k = after[k]) {
            r->of[k] = r->n;
            r->order[at++] = k;
        }
        r->first[++r->n] = at;
    }
    CK(at == n);
    free(before);
    free(after);
    return r;
}

int32_t tails_before(const struct tails *r, int32_t q)
{
    int32_t i = r->first[r->of[q]];
    while (r->order[i] != q)
        i++;
    return i - r->first[r->of[q]];
}

void tails_free(struct tails *r)
{
    if (!r)
        return;
    free(r->first);
    free(r->order);
    free(r->of);
    free(r);
}

bool tree_set_tails(struct tree *t, int32_t n, struct err *e)
{
    CK(!t->since && n >= 1);
    int64_t all = 0;
    for (int32_t q = 0; q < t->n_queries; q++)
        all += max_i64(1, min_i64(n, t->query[q].upto));
    if (all > TREE_MAX_QUERIES)
        return err_set(e, "%" PRId64 " queries, %" PRId32 " a request (expected at most %" PRId32 ")", all, n,
                       TREE_MAX_QUERIES);
    struct query *query = xcalloc((size_t)all, sizeof *query);
    int64_t at = 0;
    for (int32_t q = 0; q < t->n_queries; q++) {
        const struct query *x = &t->query[q];
        for (int64_t k = max_i64(1, min_i64(n, x->upto)); k-- > 0;)
            query[at++] = (struct query){x->node, x->upto - k};
    }
    free(t->query);
    t->query = query;
    t->n_queries = (int32_t)all;
    return true;
}
