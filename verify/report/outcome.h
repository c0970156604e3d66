/*
 * outcome.h - a row of what `treeattn verify` reports: one case, strategy and kernel. It is what tables print, what files of
 * rows keep, and what reports for other programs are made of.
 */
#ifndef TREEATTN_VERIFY_REPORT_OUTCOME_H
#define TREEATTN_VERIFY_REPORT_OUTCOME_H

#include "verify/compare/compare.h"
#include "verify/io/table.h"

BEGIN_C

/* NUMBER(id, column, digits in text; 0: a whole number) */
#define OUTCOME_NUMBERS(NUMBER)                                                                              \
    NUMBER(WORST, "worst", 3)                                                                                \
    NUMBER(WORST_O, "worst_o", 3)                                                                            \
    NUMBER(WORST_LSE, "worst_lse", 3)                                                                        \
    NUMBER(REL_O, "rel_o", 3)                                                                                \
    NUMBER(REL_LSE, "rel_lse", 3)                                                                            \
    NUMBER(LOGIT, "logit", 3)                                                                                \
    NUMBER(GROUPS, "groups", 0)                                                                              \
    NUMBER(KV_BYTES, "kv_bytes", 0)                                                                          \
    NUMBER(PARTIAL_BYTES, "partial_bytes", 0)                                                                \
    NUMBER(PAD_ROWS, "pad_rows", 0)                                                                          \
    NUMBER(LAUNCHES, "launches", 0)                                                                          \
    NUMBER(PLAN_MS, "plan_ms", 3)                                                                            \
    NUMBER(RUN_MS, "run_ms", 3)
extern const struct outcome_number_column {
    const char *column;
    int digits;
} outcome_number_columns[];
enum outcome_number {
#define NUMBER(id, column, digits) OUTCOME_##id,
    OUTCOME_NUMBERS(NUMBER)
#undef NUMBER
        N_OUTCOME_NUMBERS
};

enum { OUTCOME_CODE = 24 };
struct row_outcome {
    enum verdict verdict;
    char code[OUTCOME_CODE]; /* what happened, in a word */
    char *label;             /* strategy/kernel/dtype/tile */
    char *kernel;
    double number[N_OUTCOME_NUMBERS]; /* NaN: there is none */
    char *why, *cause;                /* "": none */
    char *string;                     /* the case, which runs it again */
    bool refused;                     /* there was something to run, and the kernel did not take it */
    bool ended;                       /* `code` says how a kernel outside ended */
};
/* Frees what it holds. */
void outcome_clear(struct row_outcome *o);
struct row_outcome outcome_copy(const struct row_outcome *o);
/* Seconds of plan and kernel. */
double outcome_seconds(const struct row_outcome *o);

/* Is it the code of a FAIL? */
bool outcome_code_fails(const char *code);
/* "NUMBERS, LSE, ..": for messages. */
void outcome_codes(char *list, size_t size);

/* As a row of a table, and of JSON. */
extern const char *const outcome_columns[];
void outcome_row(struct printer *t, const struct row_outcome *o);

END_C

#endif
