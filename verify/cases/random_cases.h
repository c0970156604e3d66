/*
 * random_cases.h - the cases that `verify` runs: drawn at random from a seed, and a fixed list of sharp ones; and a list of wide ones.
 */
#ifndef TREEATTN_VERIFY_CASES_RANDOM_CASES_H
#define TREEATTN_VERIFY_CASES_RANDOM_CASES_H

#include "verify/cases/case.h"

#include <stdio.h>

BEGIN_C

/* What somebody chose of a problem: a field of spec counts where its flag is set. */
struct problem_given {
    struct problem_spec spec;
    bool heads, dtype, d, page, fill, window, features;
    uint32_t only; /* the features that every case has, */
    bool
        mixed; /* or each in about half of the cases, in all combinations; of e4m3 and e5m2 one in two thirds */
};
/* Overwrite in *s what was given. */
void problem_given_apply(const struct problem_given *g, struct problem_spec *s);

/* Case i of the run with that seed. Family, tree and all that a case says besides are functions of seed and
 * i alone. What `fixed` holds (may be NULL) is not drawn. *tree gets the tree, which the caller owns. */
struct case_spec random_case(uint64_t seed, int64_t i, const struct problem_given *fixed, struct tree **tree);

/* Change a case of ours to what its kernel, one of somebody else's, takes; what was given stands. *tree as for test_case_new; it may be
 * loaded. False with *e set. */
bool case_suit(struct case_spec *c, const struct problem_given *given, struct tree **tree, struct err *e);

/* (query, token) pairs of the tree, the token in the context of the query. */
int64_t visible_pairs(const struct tree *t);

/* Cases that are sharp by themselves (sharp.def), as strings. */
extern const char *const sharp_text[];
extern const int32_t n_sharp_texts;
/* Sharp inputs: those, every fill, edges of tiles and pages, extremes of shape. Returns *n of them: free each with case_clear,
 * then the array. */
struct case_spec *sharp_cases(int64_t *n);

/* Cases of what narrow numbers do not count (wide.def): as sharp_cases. Too dear for each run. */
struct case_spec *wide_cases(int64_t *n);
extern const int32_t n_wide_texts;

/* What was drawn, for the report: a row a case. The caller frees `row`. */
enum { CENSUS_COLUMNS = 9 };
struct census {
    int64_t n, cap;
    int64_t (*row)[CENSUS_COLUMNS];
};
void census_row(const struct case_spec *x, const struct tree *t, int64_t row[CENSUS_COLUMNS]);
void census_add(struct census *c, const int64_t row[CENSUS_COLUMNS]);
/* Minimum, median, 90th percentile, maximum of the sizes; shares of everything else. */
void census_print(FILE *f, const struct census *c);

END_C

#endif
