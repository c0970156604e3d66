/* wrong_read.h - what wrong.c and wrong_read.c share: the state of a case and of a row, and the tokens that a row reads. */
#ifndef TREEATTN_VERIFY_COMPARE_WRONG_READ_H
#define TREEATTN_VERIFY_COMPARE_WRONG_READ_H

#include "ref/tails.h"
#include "verify/compare/wrong.h"

BEGIN_C

enum { WRONG_MAX_CUTS = 32 };

/* A token that is read: where it lies, which of the row's own it is (-1: none), how often it counts. */
struct item {
    int64_t slot, at;
    double times;
};

/* Tokens, and where pieces of them end; outer: the pieces of the plan, which the others never cross. */
struct items {
    struct item *item;
    int64_t n, cap;
    int64_t *end, n_pieces, cap_pieces;
    int32_t *outer;
    int64_t cap_outer;
    bool outside; /* one of them is no slot of the pool */
};

/* Tokens of a node, first to last - 1, one after the other in a path. */
struct stretch {
    int32_t node;
    int64_t n, at; /* the first one's place in the path */
};

struct wrong_case {
    const struct problem *p;
    const struct oracle *orc;
    const struct plan *plan;
    const struct partials *merged; /* NULL: attention */
    struct arithmetic a;
    bool tails, strides, from_gaps;
    struct nform *nf;
    struct tails *requests;
    int32_t *form_of; /* [n_queries] number in the normal form */
    int32_t *by_node,
        *node_of;       /* [n_queries] the queries in the order of their nodes; a query's place there */
    int32_t *page_seen; /* [n_pages] tokens that somebody sees in that page; only with tails */
    int64_t *node_seen; /* [n_nodes] */
    struct wrong_way way[WRONG_MAX_CUTS]; /* without tiles and chains */
    int32_t n_ways;
    int64_t most_groups; /* of the plan, that a query is in */
};

struct wrong_parts {
    int64_t n, n_empty;                /* n_empty: of a merge, which are in none of the arrays */
    double *max, *sum, *lse, *o, *abs; /* o, abs: [n][columns], divided by the sum */
    double *count;
    int32_t *outer;
};

struct kept {
    struct wrong_way way;
    struct wrong_parts parts;
};

struct wrong_row {
    struct wrong_case *c;
    int64_t row, n;
    int32_t q, h, n_columns, column[WRONG_MAX_COLUMNS];
    struct stretch *path;
    int32_t n_path;
    int64_t *slot;   /* [n] of its own tokens */
    double *dot, *v; /* [n], [n][n_columns]: of its own tokens, with its own KV head */
    double *query;   /* [d] */
    double *k;       /* [d] scratch */
    double *logit;   /* of the items that are read */
    int64_t cap_logit;
    struct items items;
    struct kept *kept; /* [n_kept] of its own tokens */
    int64_t n_kept, cap_kept, n_items_kept;
    double seen_o[WRONG_MAX_COLUMNS], seen_lse;
};

/* The query head that is taken for the row's. */
int32_t wrong_head(const struct wrong_row *r, enum of_head how);
/* log(e^a + e^b) */
double wrong_log_sum(double a, double b);
/* The score of a product q.k, by that way of making the soft cap, where the problem has one. */
double wrong_capped(const struct problem *p, enum wrong_cap cap, double dot, double scale);
/* What a row's sink is taken for, as a logit beside its LSE so far; -inf where it has none. max is the largest score, n_parts how
 * many partial results there are, cut that way. */
double wrong_sink_of(const struct wrong_row *r, const struct wrong *w, const struct wrong_way *way, int64_t n_parts,
                     double max);

/* d numbers of K or V in 8 bits, read so, times their scale; `instead`: what is stored there in truth, or NULL. It may be `out`. */
void wrong_fp8_row(const struct heads *h, const uint8_t *stored, const double *instead, enum wrong_bits bits,
                   double scale, double *out);

/* A query's number after `which`; -1: there is none. */
int32_t wrong_query(const struct wrong_case *c, int32_t q, enum of_query which);
/* Fill r->items with what the mistake reads, in pieces as `way` says. False where it reads as it should. */
bool wrong_read(struct wrong_row *r, const struct wrong *w, const struct wrong_way *way);
/* The nodes of a query's path that have tokens, root first; the caller frees. */
struct stretch *wrong_path(const struct wrong_case *c, int32_t q, int32_t *n);

END_C

#endif
