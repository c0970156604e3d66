/*
 * tails.h - queries as engines batch them: a request has several when its last tokens are computed at once, as in extending a
 * prompt, in checking drafted tokens, and in multi-token prediction. Each sees the request up to its own token: a causal tail.
 */
#ifndef TREEATTN_REF_TAILS_H
#define TREEATTN_REF_TAILS_H

#include "ref/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The queries of a tree in requests. Those of one see the same path, each a token more than the one before it. Where several queries
 * would go on behind one, the first of them does, and the others begin requests of their own. A query that sees nothing is alone.
 */
struct tails {
    int32_t n;
    int32_t *first; /* [n + 1] request r has the queries order[first[r]] .. order[first[r + 1] - 1], by length */
    int32_t *order; /* [n_queries] queries of the tree */
    int32_t *of;    /* [n_queries] the request of a query */
};
/* Requests stand in the order of their first queries. Windows do not count. Free with tails_free. */
struct tails *tails_of(const struct tree *t);
void tails_free(struct tails *r);
/* Its last query, which sees all of it. */
static inline int32_t tails_last(const struct tails *r, int32_t i)
{
    return r->order[r->first[i + 1] - 1];
}
/* The queries of request i. */
static inline int32_t tails_len(const struct tails *r, int32_t i)
{
    return r->first[i + 1] - r->first[i];
}
/* How many of its own request's queries stand before query q. */
int32_t tails_before(const struct tails *r, int32_t q);

/* Each query becomes n, of the last n tokens that it sees of its node, or as many as these are; one that sees none of it stays. They
 * stand in its place, shortest first. False with *e set where that makes too many queries. The tree must have no windows. */
bool tree_set_tails(struct tree *t, int32_t n, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
