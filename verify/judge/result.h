/*
 * result.h - what one case, strategy and kernel came to, and the rows and totals of many.
 */
#ifndef TREEATTN_VERIFY_JUDGE_RESULT_H
#define TREEATTN_VERIFY_JUDGE_RESULT_H

#include "kernels/kernel.h"
#include "sim/ledger.h"
#include "sim/strategy.h"
#include "verify/io/table.h"
#include "verify/compare/cause.h"
#include "verify/compare/compare.h"
#include "verify/report/outcome.h"

BEGIN_C

struct property;

/* Where a run failed, or was skipped for what its machine lacks. */
enum failure_stage {
    STAGE_NONE,
    STAGE_STRATEGY, /* the planner wrote to what it was given, or plans one tree in two ways */
    STAGE_COVERAGE, /* the plan breaks the coverage invariant */
    STAGE_KERNEL,   /* the kernel failed, or wrote where it may not, or miscounted */
    STAGE_NUMBERS,  /* O or LSE lie beyond their bound */
    STAGE_REPEAT,   /* it was right, and wrong when it ran again, on what was changed in place */
    STAGE_LAW       /* two runs do not differ as the law says */
};

struct result {
    enum verdict verdict;
    enum failure_stage stage;
    enum run_end end;           /* of a kernel outside: how it ended, if not with an answer */
    const struct property *law; /* that was checked; NULL: the oracle judged */
    const char *strategy, *kernel;
    const struct strategy_use *use; /* the caller's, if it keeps it */
    bool planned;                   /* the strategy applies; a plan was made */
    char tile[32];                  /* "64x128", "+" appended where groups differ, "-" without a plan */
    bool refused;                   /* the kernel did not take it */
    bool ran;                       /* the kernel did, on what the verdict is of; so there is run_s */
    bool by_itself;                 /* STAGE_REPEAT: a process that ran nothing before is as wrong */
    bool compared;                  /* what it wrote was held against the truth; so there is */
    struct comparison cmp;
    struct ledger ledger;
    int64_t n_groups, n_launches;
    double plan_s, run_s;
    char why[600];      /* FAIL, SKIP: one sentence, without the stage */
    struct cause cause; /* of wrong numbers */
};

/* Are its numbers so far off that no rounding explains it? */
bool result_is_gross(const struct result *r);

/* What happened, in a word: verify/README.md lists them. */
const char *result_code(const struct result *r);
/* Why it failed or was skipped, as people are told: law, stage, or how a kernel outside ended, by name, then the sentence. */
enum { RESULT_SENTENCE = 640 };
const char *result_sentence(const struct result *r, char text[RESULT_SENTENCE]);

/* Did it run, on a kernel that counts? Else the ledger's zeros are none. */
bool result_is_counted(const struct result *r);

/* Totals of a verify run. */
struct totals {
    int64_t n[4];    /* by verdict */
    int64_t refused; /* of those skipped: there was a plan, and the kernel did not take it; */
    int64_t known;   /* and those that failed as somebody knew */
    double worst;
};
int64_t totals_cases(const struct totals *t);
void totals_add(struct totals *t, const struct result *r);
void totals_add_outcome(struct totals *t, const struct row_outcome *o);
/* "verify: C cases, P passed, M marginal, F failed, K skipped (R by kernels, N known)"; in brackets only what there is, then `more`. */
void totals_print(FILE *f, const char *name, const struct totals *t, const char *more);

/* A row of the table of `verify`; the caller clears it. What was not planned, run or compared has no numbers. */
struct row_outcome result_outcome(const struct result *r, const struct heads *heads, const char *case_text);

END_C

#endif
