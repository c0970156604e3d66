/*
 * treeattn_cost.h - what our CUDA kernels take for groups of neighbouring queries, in microseconds: the model by which the
 * strategy treeattn chooses among its plans.
 *
 * A plan is seen as a bill: for each kind of tile, CTAs and tokens of all of them and of the longest. Memory, the L2, the SMs,
 * CTAs that take turns as each has an SM and they are more, and the longest CTA each take a time, and together little more than the
 * longest of these; kinds of tiles side by side, and the merge behind them, take more. The coefficients are found by `treeattn fit --model treeattn` from measured times of such plans on
 * an H200, whose data sheet they refer to; on other machines times follow the tensor cores, the bandwidth and the L2.
 */
#ifndef TREEATTN_SIM_TIME_TREEATTN_COST_H
#define TREEATTN_SIM_TIME_TREEATTN_COST_H

#include "sim/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How our kernels run tiles (kernels/cuda/host/tiling.c, pairs.c): two of 64 rows over the same tokens share a CTA, and one of 128 is
 * two such; one of 64 by itself is shared out to two teams of warps where they are few, or have a mask. */
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
 * Coefficients of a kind, in microseconds of an H200's SM: what a CTA takes of it, others beside it, to begin and end, for a
 * token of a group without a mask, and with one that hides it from none or from some of the rows; and what it takes by itself,
 * waiting: at least, for a token that all see, and for others. With heads of 64 elements, not 128, a share of each, the same for
 * all kinds; in between, and beyond, on a straight line. X(kind, name, where a fit begins, least, most, where its share begins,
 * meaning).
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

/* Of such shares. */
#define TILE_LEAST_SHARE 0.5
#define TILE_MOST_SHARE 1.2

/* The others: X(name, unit, where a fit begins, least, most, meaning). */
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

/* By number, in the order of the struct. */
enum { N_TILE_COEFS = sizeof(struct tile_coefs) / sizeof(double) };
struct tile_coefs tile_coefs_of(const double *value); /* [N_TILE_COEFS] */

/* Those that treeattn chooses by (treeattn_cost.def). */
extern const struct tile_coefs tile_coefs;

/* What tiles of a kind have to do, for one KV head: tokens times tiles, of groups without a mask and with one. */
struct tile_load {
    double ctas, plain, seen, hidden, runs;
    double longest, longest_seen, longest_hidden, longest_runs; /* group without a mask, and with one */
};

struct tile_bill {
    struct tile_load of[N_TILE_KINDS];   /* PAIRS, TWO_TEAMS: before it is known which run so */
    struct tile_load alike[ROWS_64 + 1]; /* neighbours of the same tokens; of 64 rows: pairs, or not */
    double reads;                        /* tokens, once a tile, for one KV head */
    double slots, q;                     /* query rows of partial results, and of Q, for all heads */
    double tokens, queries;              /* of the tree, that any query sees, or that see any */
};

/* Of a group. */
struct tile_part {
    int32_t m;        /* rows of its tiles: 16, 32, 64, 128 */
    int64_t nq, n_kv; /* queries that see any of it, tokens; */
    int64_t own;      /* those that one of these queries does not see; */
    int64_t few;      /* and of these, those of nodes that no more than a team sees */
    int64_t runs;     /* of own */
};

enum { TILE_TEAM_ROWS = 64 }; /* of which a warpgroup has as many; what its rows do not see it passes over */

/* Rows of the tile for so many: a power of two, TILE_MIN to TILE_MAX. */
int32_t tile_rows(int64_t rows);

/* Tiles of fewer rows than a team has of so many instead: 0: none, 1: those of 32 rows, TILE_TALLEST: those of 16, too. */
enum { TILE_TALLEST = 2 };
int32_t tile_tall_rows(int32_t m, int tall);
struct tile_bill tile_bill_tall(const struct tile_bill *b, int tall);
/* Is the bill so another than with one less? */
bool tile_bill_grows(const struct tile_bill *b, int tall);

/* As many such groups; direct: what they write is no partial result. paired: neighbours have the same tokens. */
void tile_bill_add(struct tile_bill *b, const struct tile_part *part, int32_t gqa, double times, bool direct,
                   bool paired);

/* Parts of one run of tokens, which all of their queries see; those that may share a CTA apart. */
struct tile_stretch {
    int64_t n, tokens, longest;
};
struct tile_stretches {
    struct tile_stretch alone, paired;
};
enum { TILE_PAIR_TOKENS = 192 }; /* of tiles that are two to a CTA, at least */
static inline void tile_stretch_add(struct tile_stretches *s, int64_t n_kv, bool paired)
{
    struct tile_stretch *to = paired && n_kv >= TILE_PAIR_TOKENS ? &s->paired : &s->alone;
    to->n++;
    to->tokens += n_kv;
    to->longest = n_kv > to->longest ? n_kv : to->longest;
}
/* What tile_bill_add makes of them one after the other, each with nq queries in tiles of m rows; none is direct. */
void tile_bill_add_stretches(struct tile_bill *b, const struct tile_stretches *s, int32_t m, int64_t nq,
                             int32_t gqa, double times);

/* What does not depend on the plan. */
struct tile_env {
    double h_kv, sms;
    double row, token, partial; /* bytes, of all heads: of a query in Q or O, a token, a partial result */
    double bandwidth, l2_bandwidth;
    double narrow; /* heads: 1 of 64 elements, 0 of 128 */
    double per_sm; /* times as long as on an H200 an SM takes */
};
struct tile_env tile_env_of(const struct plan_env *env);

/* Have SMs no more than one CTA each that has 64 rows or more? */
bool tile_bill_is_wave(const struct tile_bill *b, const struct tile_env *env);

/* Microseconds of the plan, less `base`, which all plans take. */
double tile_price(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c);

/* The same, and how it grows with each coefficient; at kinks to one side of them. */
double treeattn_cost_slopes(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c,
                         struct tile_coefs *slope);

#ifdef __cplusplus
}
#endif

#endif
