/*
 * compare.h - the comparator: a kernel's output against the oracle, row by row, in units of a derived bound.
 *
 * Order: shapes; positions of NaN, +inf and -inf; error per (query, head) row; the whole array. LSE is an
 * output of its own. NaN never passes. Reports, never exits.
 */
#ifndef TREEATTN_VERIFY_COMPARE_COMPARE_H
#define TREEATTN_VERIFY_COMPARE_COMPARE_H

#include "ref/oracle.h"

BEGIN_C

enum verdict { V_PASS, V_MARGINAL, V_FAIL, V_SKIP };
extern const char *const verdict_name[]; /* "PASS" "MARGINAL" "FAIL" "SKIP" */

/* How the output under test was computed: it decides which error bound applies. */
struct arithmetic {
    enum dtype accumulate; /* DT_F64 or DT_F32: dot products, softmax, sums */
    enum dtype partial_o;  /* how partial O is stored between group and merge */
    bool scores_stored;    /* unfused: scores pass through storage (in the accumulation type) */
    enum dtype
        probability; /* how probabilities enter the product with V; 0 (f64) where they are not narrowed */
    bool sum_narrow; /* their sum, too, is of narrowed ones; else of those before */
    int64_t
        sum_run; /* tokens that are added one after the other, if these are more than a tile's (SUM_TILE) */
    bool lse_scaled; /* LSE was stored in another base, and brought to base e afterwards */
    bool in_order;   /* merges, too, may be one after the other */
    int32_t merges;  /* longest chain of merges behind an output; 0: none */
};

struct plan;
struct kernel;
/* Of kernel k that ran a plan: in f64 for problems in f64, else in f32. The rest the plan says, and what k says of itself. */
struct arithmetic arithmetic_of(const struct problem *p, const struct plan *plan, const struct kernel *k);
/* Of a kernel outside: what it declares, and the merges of the plan that it is given; NULL: none. inputs: the type of Q, K, V. */
struct arithmetic arithmetic_declared(const struct kernel *k, const struct plan *plan, enum dtype inputs);

struct comparison {
    enum verdict verdict;
    double worst; /* largest error / bound over O and LSE; 1.0 is the limit; +inf for a wrong shape or NaN */
    double worst_o, worst_lse;
    double rel_o;   /* largest |error| of a row's O / largest |O| of the row */
    double rel_lse; /* largest |LSE error| / max(1, |LSE|) */
    double rel_l2;  /* whole array: |O - ref|_2 / |ref|_2 */
    double
        max_logit; /* largest |logit| of the case; where a soft cap makes them small, of the sums before it */
    int64_t row;   /* where worst is: row = query * h_q + head */
    int32_t col;   /* element of O, or -1 for LSE */
    double got, want, bound; /* there; got may be NaN of some kind (ref/dtype.h) */
    char why[256];           /* one sentence for V_FAIL */
};

struct comparison compare_output(const struct problem *p, const struct oracle *orc, const struct output *out,
                                 const struct arithmetic *a);

/* The sentence of a V_FAIL anew, with what is known of a `got` that is NaN, or "". */
void compare_tell(struct comparison *c, int32_t h_q, const char *of_nan);

/* How far what is stored for a row may lie from the exact answer, storage rounding included and the absolute
 * figures aside: every element of O into bound_o[d], LSE returned. Of orc only this row is read. rms_o may be
 * NULL: the bound of narrowed probabilities is then that of errors of one sign. gap and range_o may be NULL:
 * weights that are wrong by any factor then have a bound that is far too large. */
double compare_bound(const struct problem *p, const struct oracle *orc, const struct arithmetic *a,
                     int64_t row, double *bound_o);

/* How far the weights of a row of orc may be off, in exponents of e. From some on its arithmetic says nothing about them. */
double compare_weights(const struct problem *p, const struct oracle *orc, int64_t row, int64_t ctx, const struct arithmetic *a);

/* The larger error of row r's O and LSE in units of its bound, as *c of the whole was made; +inf where NaN or infinities are
 * not where they should be. */
double compare_row_error(const struct problem *p, const struct oracle *orc, const struct output *out,
                         const struct arithmetic *a, const struct comparison *c, int64_t r);

END_C

#endif
