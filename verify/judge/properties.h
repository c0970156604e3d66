/*
 * properties.h - what holds of attention whatever the right answer is: no oracle needed.
 *
 * A property changes a problem in a way whose effect on the output is known: V twice as large makes O twice as large. The
 * same strategy and kernel run on both. The outputs may differ by the sum of their bounds (verify/compare/compare.h), which
 * come from the norms of Q, K and V along the paths.
 */
#ifndef TREEATTN_VERIFY_JUDGE_PROPERTIES_H
#define TREEATTN_VERIFY_JUDGE_PROPERTIES_H

#include "kernels/kernel.h"
#include "verify/judge/result.h"

BEGIN_C

struct property_case {
    const struct problem *p;
    struct strategy_use use;
    const struct kernel *kernel;
    uint64_t seed; /* of what a property draws: orders, cuts, values of V */
};

struct law; /* a property under way */
struct property {
    const char *name;
    const char *about; /* what holds, one sentence */
    void (*check)(struct law *l);
};

extern const struct property properties[];
extern const int32_t n_properties;

/* Check one. Every plan made on the way is checked for coverage too. Verdict, stage and sentence of the result
 * count; V_SKIP: strategy or kernel do not apply, to the problem or to the changed one. cmp.worst is the largest
 * difference / sum of the two bounds, +inf for NaN, a wrong infinity or a run that failed; nothing else of cmp is set. */
struct result property_check(const struct property *which, const struct property_case *c);

END_C

#endif
