/*
 * treeattn_cost.h - the time that our CUDA kernels take for groups of neighbouring queries, in microseconds: the model by which
 * the strategy treeattn chooses among its plans.
 *
 * A plan is seen as a bill: for each kind of tile, its CTAs, the tokens of all of them, and those of the longest.
 *
 * Time is about the maximum of five: DRAM, L2, SM work, waves of one-per-SM CTAs, the longest CTA. Other kinds of tiles beside
 * it, and the merge behind it, add to that.
 *
 * `treeattn fit --time-model treeattn` finds the coefficients from measured times of such plans on an H200. They refer to its data
 * sheet. On other machines times follow the tensor cores, the bandwidth and the L2.
 */
#ifndef TREEATTN_SIM_TIME_TREEATTN_COST_H
#define TREEATTN_SIM_TIME_TREEATTN_COST_H

#include "sim/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How our kernels run tiles (kernels/cuda/host/tiling.c, pairs.c). Two tiles of 64 rows over the same tokens are a pair, which
 * shares a CTA. A tile of 128 rows is a pair, too. A tile of 64 rows by itself is shared out to two teams of warps if such tiles
 * are few or have a mask. */
#define TILE_KINDS(X)                                                                                        \
    X(ROWS_16, rows_16)                                                                                      \
    X(ROWS_32, rows_32)                                                                                      \
    X(ROWS_64, rows_64)                                                                                      \
    X(PAIRS, pairs)                                                                                          \
    X(TWO_TEAMS, two_teams)

enum tile_kind {
#define X(id, name) id,
    TILE_KINDS(X)
#undef X
        N_TILE_KINDS
};

/*
 * Coefficients of a kind, in microseconds of an H200's SM, for heads of 128 elements. The first five are the part of an SM that a
 * CTA takes, others running beside it. The last four are the time that a CTA takes by itself, waiting included.
 *
 * Heads of 64 elements take a share of each, the same share for all kinds. Other head sizes lie on the straight line through
 * both.
 *
 * X(kind, name, where a fit begins, least, most, where the fit of its share begins, meaning).
 */
#define TILE_KIND_COEFS(X, kind)                                                                             \
    X(kind, begin, 2, 0.01, 12, 0.9, "a CTA begins and ends")                                                \
    X(kind, token, 0.015, 0.003, 0.08, 0.7, "a token, no mask")                                              \
    X(kind, seen, 0.018, 0.003, 0.08, 0.7, "a token that the mask hides from none")                          \
    X(kind, hidden, 0.025, 0.003, 0.12, 0.7, "a token that it hides from some")                              \
    X(kind, run, 0.05, 0.002, 2, 0.9, "a run of such tokens")                                                \
    X(kind, alone, 2, 0.2, 12, 0.9, "the longest CTA, at least")                                             \
    X(kind, waiting, 0.015, 0.002, 0.08, 0.8, "its token that all see")                                      \
    X(kind, waiting_hidden, 0.03, 0.002, 0.12, 0.8, "its token that some do not see")                        \
    X(kind, waiting_run, 0.05, 0.002, 2, 0.9, "a run of such tokens")

/* Bounds of such shares. */
#define TILE_LEAST_SHARE 0.5
#define TILE_MOST_SHARE 1.2

/* Coefficients of no kind: X(name, unit, where a fit begins, least, most, meaning). */
#define TILE_COEFS(X)                                                                                        \
    X(kernel, "us", 2, 0.2, 8, "a kernel")                                                                   \
    X(beside, "", 0.1, 0.005, 1.5, "of what the longest CTA of each kind but one takes by itself")           \
    X(merge, "us", 1.5, 0.3, 6, "a merge")                                                                   \
    X(of_merge, "", 0.5, 0.02, 6, "its time for partial results, over memory's for their bytes")             \
    X(base, "us", 4, 1, 9, "what all plans take; no choice depends on it")                                   \
    X(uneven, "", 0.5, 0.02, 1.5, "of the longest CTA: what is left of a wave of CTAs with an SM each")      \
    X(of_bandwidth, "", 0.95, 0.8, 1, "reached of the data sheet's bandwidth")                               \
    X(of_l2, "", 0.75, 0.3, 1, "reached of the data sheet's L2 bandwidth")                                   \
    X(of_partial, "", 2, 0.5, 6, "memory's time for partial results before that, over that for their bytes")

struct tile_kind_coefs {
#define X(kind, name, from, least, most, share, about) double name;
    TILE_KIND_COEFS(X, )
#undef X
};

struct tile_coefs {
    struct tile_kind_coefs of[N_TILE_KINDS], narrow;
#define X(name, unit, from, least, most, about) double name;
    TILE_COEFS(X)
#undef X
};

/* Coefficients as an array, in the order of the struct. */
enum { N_TILE_COEFS = sizeof(struct tile_coefs) / sizeof(double) };
struct tile_coefs tile_coefs_of(const double *value); /* [N_TILE_COEFS] */

/* The coefficients by which treeattn chooses (treeattn_cost.def). */
extern const struct tile_coefs tile_coefs;

/* What all tiles of a kind have to do for one KV head. */
struct tile_load {
    double ctas;
    double plain;        /* tokens times tiles, of groups without a mask */
    double seen, hidden; /* the same of groups with one: tokens that all rows see, and others */
    double runs;         /* of hidden */
    double longest;      /* tokens of the longest group without a mask */
    double longest_seen, longest_hidden, longest_runs; /* and of the longest with one */
};

struct tile_bill {
    struct tile_load of[N_TILE_KINDS];   /* PAIRS: tiles of 128 rows only; TWO_TEAMS: none yet */
    struct tile_load alike[ROWS_64 + 1]; /* tiles whose neighbours have the same tokens, which may be pairs */
    double reads;                        /* tokens that tiles read, for one KV head */
    double slots, q;                     /* queries of partial results, and of Q, once a group */
    double tokens, queries; /* of the tree: tokens that any query sees, queries that see any token */
};

/* One group. */
struct tile_part {
    int32_t m;        /* rows of its tiles: 16, 32, 64, 128 */
    int64_t nq, n_kv; /* queries that see any of its tokens; tokens */
    int64_t own;      /* tokens that one of these queries does not see */
    int64_t few;      /* of own, those of nodes that no more rows see than a team has */
    int64_t runs;     /* of own */
};

enum { TILE_TEAM_ROWS = 64 }; /* rows of a warpgroup, which passes over what none of its rows sees */

/* Rows of the smallest tile for so many rows: a power of two, TILE_MIN to TILE_MAX. */
int32_t tile_rows(int64_t rows);

/* What the longest CTA takes for a token that some of its rows do not see, and for a run of such tokens, in tokens that all see. */
struct tile_weight {
    double hidden, run;
};
struct tile_weight tile_weight(int32_t m);

/* Which tiles have as many rows as a team instead of fewer: 0: none, 1: those of 32 rows, TILE_TALLEST: those of 16, too. */
enum { TILE_TALLEST = 2 };
int32_t tile_tall_rows(int32_t m, int tall);
struct tile_bill tile_bill_tall(const struct tile_bill *b, int tall);
/* Does `tall` change the bill, compared with one less? */
bool tile_bill_grows(const struct tile_bill *b, int tall);

/* Adds as many such groups. direct: they write no partial results. paired: neighbours have the same tokens. */
void tile_bill_add(struct tile_bill *b, const struct tile_part *part, int32_t gqa, double times, bool direct,
                   bool paired);

/* Parts of one run of tokens, which all of their queries see. Those that may share a CTA are counted apart. */
struct tile_stretch {
    int64_t n, tokens, longest;
};
struct tile_stretches {
    struct tile_stretch alone, paired;
};
enum { TILE_PAIR_TOKENS = 192 }; /* tokens of a pair, at least */
static inline void tile_stretch_add(struct tile_stretches *s, int64_t n_kv, bool paired)
{
    struct tile_stretch *to = paired && n_kv >= TILE_PAIR_TOKENS ? &s->paired : &s->alone;
    to->n++;
    to->tokens += n_kv;
    to->longest = n_kv > to->longest ? n_kv : to->longest;
}
/* Adds them as tile_bill_add would, each with nq queries in tiles of m rows; none is direct. */
void tile_bill_add_stretches(struct tile_bill *b, const struct tile_stretches *s, int32_t m, int64_t nq,
                             int32_t gqa, double times);

/* The machine and the heads, as the model wants them. */
struct tile_env {
    double h_kv, sms;
    double row, token, partial;     /* bytes, of all heads: of a query in Q or O, a token, a partial result */
    double bandwidth, l2_bandwidth; /* bytes a second */
    double narrow;                  /* 1 with heads of 64 elements, 0 with 128 */
    double leaf;                    /* what a token takes in tiles of 16 rows, as a share of that in 16 bits */
    double per_sm;                  /* time of an SM for the same work, over that of an H200's */
};
struct tile_env tile_env_of(const struct plan_env *env);

/* Is there at most one CTA of 64 or more rows per SM? */
bool tile_bill_is_wave(const struct tile_bill *b, const struct tile_env *env);

/* Microseconds of the plan, without `base`, which all plans take. */
double tile_price(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c);

/* The same, and its derivative by each coefficient. At a kink, one of the two. */
double treeattn_cost_slopes(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c,
                            struct tile_coefs *slope);

#ifdef __cplusplus
}
#endif

#endif
