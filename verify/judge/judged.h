/*
 * judged.h - what one case came to, as it waits to be reported: in the process that judged it, or as bytes for another process of the
 * same program.
 */
#ifndef TREEATTN_VERIFY_JUDGE_JUDGED_H
#define TREEATTN_VERIFY_JUDGE_JUDGED_H

#include "verify/cases/random_cases.h"
#include "verify/judge/judge.h"

#include <stdio.h>

BEGIN_C

struct judged {
    struct result *result; /* [n]; their `use` is of the job's list, or &own */
    char **string;         /* [n] the cases with strategy and kernel */
    int32_t n;
    struct strategy_use own; /* of a case that names one */
    struct heads heads;
    bool names_kernel;                      /* the case does, or an option */
    enum family family;                     /* of a random tree, */
    int64_t census[CENSUS_COLUMNS];         /* and what the census has of it */
    int64_t held;                           /* laws */
    struct outside_tally tally;
    const struct row_outcome *kept; /* [n] in the place of results: an earlier run judged it */
    int64_t line;                   /* of the file it was read from */
    struct err e;                   /* why there is nothing */
    char *bytes;                    /* that texts lie in; NULL: they do not */
};
void judged_free(struct judged *d);

/* use[n_use]: the job's list. */
void judged_pack(const struct judged *d, const struct strategy_use *use, FILE *to);
/* NULL if these are no such bytes. Free it with judged_free. */
struct judged *judged_unpack(const char *bytes, size_t size, const struct strategy_use *use, int32_t n_use);

END_C

#endif
