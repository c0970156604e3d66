/*
 * cause.h - why a kernel's numbers are wrong: mistakes that were tried on the case as it failed, not guessed.
 *
 * Each mistake of hypotheses.def is evaluated on wrong rows and on right ones. It is a cause if it gives what the kernel wrote
 * on 95 % of the wrong rows and more, within the bound of an honest kernel with that mistake, far better than the right answer
 * does, and if it leaves the right rows right. Where too many mistakes fit alike, none is named.
 */
#ifndef TREEATTN_VERIFY_COMPARE_CAUSE_H
#define TREEATTN_VERIFY_COMPARE_CAUSE_H

#include "kernels/kernel.h"
#include "sim/plan.h"
#include "verify/compare/compare.h"

BEGIN_C

enum { CAUSE_WORDS = 10, CAUSE_TEXT = 640, CAUSE_MOST = 4 /* that are named together */ };

/* Which causes fit, and which do not; a bit each. What cannot be told is neither. */
struct cause_set {
    uint64_t fits[CAUSE_WORDS], fails[CAUSE_WORDS];
};

struct cause {
    struct cause_set set;
    char text[CAUSE_TEXT]; /* the sentence; several with "; or " between them, or "" */
    int32_t wrong, right;  /* rows that were tried */
};

/* After compare_output found *out wrong. plan: NULL where the kernel was given none. nan_free: no page has NaN. */
struct cause find_cause(const struct problem *p, const struct oracle *orc, const struct plan *plan,
                        const struct kernel *k, const struct output *out, const struct arithmetic *a,
                        const struct comparison *cmp, bool nan_free);

/* The same of a merge that is judged alone: its inputs, and the shape of what it writes. */
struct cause find_cause_of_merge(const struct problem *shape, const struct oracle *orc,
                                 const struct partials *merged, const struct kernel *k,
                                 const struct output *out, const struct arithmetic *a,
                                 const struct comparison *cmp);

/* Of an answer that is right: mistakes that would have made NaN of it fail. */
struct cause cause_of_right(const struct problem *p, const struct oracle *orc, const struct arithmetic *a);

/* Over the failures of a run, and what passed. */
struct cause_tally {
    int64_t n; /* failures */
    int64_t fits[CAUSE_WORDS * 64], fails[CAUSE_WORDS * 64];
};
void cause_add(struct cause_tally *t, const struct cause *c);
/* What fits 95 % of the failures and more; "" if nothing does, or too much. *n: how many failures it explains. */
const char *cause_of_all(const struct cause_tally *t, char text[CAUSE_TEXT], int64_t *n);

END_C

#endif
