/*
 * shrink.h - reduce a failing case to a smallest one that still fails.
 *
 * Greedy: a simpler case is tried, kept if it still fails, else undone, until no step of any kind can be kept. Simpler is,
 * most important first: fewer nodes, fewer queries, fewer tokens, queries at the ends of their nodes, fewer heads, a smaller
 * d, f64 over f32 over f16, pages of one token in order, no poison, plainer data, options at their defaults, a small seed.
 *
 * Every kept step goes down in that order, so the search ends. The same case, predicate and limits give the same result, if
 * the limits suffice.
 */
#ifndef TREEATTN_VERIFY_JUDGE_SHRINK_H
#define TREEATTN_VERIFY_JUDGE_SHRINK_H

#include "verify/cases/case.h"
#include "verify/judge/judge.h"

#include <stdio.h>

BEGIN_C

/* Does this case fail? Must be a function of the case alone. */
typedef bool shrink_fails(const struct case_spec *c, void *context);

struct shrink_limits {
    int64_t trials; /* calls of the predicate */
    double seconds; /* no trial begins that would end later, judged by how long the last one took */
};
struct shrink_limits shrink_default_limits(void); /* 20,000 trials, 10 seconds */

struct shrink_report {
    bool failed; /* the case given failed when tried again; if not, nothing was done */
    bool steady; /* of shrink_result: the smallest failed each time it was run again */
    bool fixed;  /* nothing simpler fails; false: a limit stopped the search */
    int64_t trials, kept;
    double seconds;
    int32_t nodes, queries; /* of the result */
    int64_t tokens;
};

/* *c (a tree that loads) is replaced by the smallest case found. Where its tree could be made smaller, that
 * is listed in the case (tree=nodes:..), so that the string needs no file. */
struct shrink_report shrink_case(struct case_spec *c, shrink_fails *fails, void *context,
                                 const struct shrink_limits *limits);

/* The same for a case (strategy and kernel set) that judge_case failed with *r. The failure must stay at its
 * stage, and numbers that were wrong by a hundredth or more must stay so. *r becomes the result of the smallest case;
 * its pointer to the strategy is cleared. */
struct shrink_report shrink_result(struct case_spec *c, struct result *r, const struct shrink_limits *limits);

/* Whose command lines are printed. */
struct shrink_program {
    const char *name;
    /* The command line that found the failure: what is printed is first run in processes of its own, and where it passes there,
     * this is. NULL: nothing is run. */
    const char *whole;
};

/* Shrink and print, for people: the command line of the smallest case, its size, what is wrong with it. Or, if it passes when
 * run again, that and what it may come from. A kernel that keeps something from case to case spoils what is tried in this
 * process: then cases are tried in processes of their own. */
void shrink_print(FILE *f, const struct shrink_program *program, const struct case_spec *c,
                  const struct result *r);

END_C

#endif
