/*
 * cards.h - a tree's attention spread over several cards of one host: which card holds which tokens, and which part of the
 * tree each card plans.
 *
 * Tensor parallelism splits heads: every card has the whole tree. Context parallelism splits the tree: a card has some of its
 * pages, plans these, and what cards find for a query is merged by LSE (ref/lse.h). Heads are as in Megatron-LM (Shoeybi et al.,
 * 2019, section 3); where cards outnumber KV heads, a KV head is on several of them.
 *
 * Which page goes where is a partition problem. Its cost is the time of the slowest card, which is about the tokens that it
 * reads. Pages that have been placed stay: they would have to cross a link. Only new ones are given a card.
 *
 *   PARALLEL_CONTEXT    equal stretches of the tree, depth first, cut at pages: each card reads an equal share
 *   PARALLEL_SUBTREE    whole subtrees, the largest first, each to the card that has least (Graham's LPT rule, 1969). A subtree
 *                       above an equal share is taken apart: its root's own tokens go on their own
 *   PARALLEL_REPLICATE  likewise, but what is above the subtrees is on all cards, and a query reads it on the card that has its
 *                       subtree: most queries then need no merge. What is taken apart is what makes the slowest card fastest
 */
#ifndef TREEATTN_SIM_CARDS_H
#define TREEATTN_SIM_CARDS_H

#include "ref/heads.h"
#include "ref/model.h"
#include "ref/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

enum parallel { PARALLEL_TENSOR, PARALLEL_CONTEXT, PARALLEL_SUBTREE, PARALLEL_REPLICATE, N_PARALLEL };
extern const char *const parallel_name[N_PARALLEL]; /* "tensor", "context", "subtree", "replicate" */

enum { CARDS_MOST = 16 };

/* The part of a model's heads that card `rank` of n computes attention for. */
struct heads_part {
    int32_t q0, n_q, kv0, n_kv;
};
/* False with *e set where the heads cannot be dealt out evenly: query heads must be a multiple of n, and KV heads a multiple or
 * a divisor of it. */
bool cards_heads(const struct heads *h, enum parallel way, int32_t n, int32_t rank, struct heads_part *out,
                 struct err *e);

/* False with *e set where query heads, columns of the MLP or words of a model cannot be dealt out evenly to n cards. */
bool cards_model(const struct model *m, int32_t n, struct err *e);

/* ---- pages on cards: every way but PARALLEL_TENSOR ----------------------------------------------------- */

/* Where the pages of a pool are, each on one card or on all of them. */
struct placement;
/* Pages that each card needs room for, where so many are in use at most: its share; half as much again, where whole subtrees are dealt
 * out; all, where a page may be on all cards. */
int64_t placement_room(enum parallel way, int32_t n_cards, int64_t most_pages);
/* n_pages: of the pool. room: pages that a card can hold, at least placement_room of those that are in use at a time. */
struct placement *placement_new(enum parallel way, int32_t n_cards, int64_t n_pages, int64_t room);
void placement_free(struct placement *x);

/* The pages of a tree (page_off, page_table and page_size as in struct problem; all entries are pages; no windows). Those that
 * have a card keep it, the others get one. Pages of the step before that are not in this one are given back. */
void placement_advance(struct placement *x, const struct tree *t, const int64_t *page_off,
                       const int32_t *page_table, int32_t page_size);
/* A token moves from page to page between two steps: `to` gets the card of `from`, unless it has one. */
void placement_follow(struct placement *x, int32_t from, int32_t to);
/* Which of the card's own pages (0 .. room - 1) holds it; -1: none. */
int32_t placement_local(const struct placement *x, int32_t card, int32_t page);
/* Pages that a card holds. */
int64_t placement_used(const struct placement *x, int32_t card);

/* What a card plans: a forest of its tokens. It has all queries in the tree's order; one that sees nothing here has O = 0 and
 * LSE = -inf. Each token that a query sees in the tree it sees on exactly one card. */
struct card_view {
    struct tree *tree;
    int64_t *page_off;
    int32_t *page_table; /* local pages, or the pool's */
};
/* Of the step last advanced to; arguments as given there. local: pages are the card's own. Free with card_view_clear. */
struct card_view placement_view(const struct placement *x, int32_t card, const struct tree *t,
                                const int64_t *page_off, const int32_t *page_table, int32_t page_size,
                                bool local);
void card_view_clear(struct card_view *v);

#ifdef __cplusplus
}
#endif

#endif
