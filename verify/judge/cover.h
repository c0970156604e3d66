/*
 * cover.h - the coverage invariant, without floats.
 *
 * Every (query, visible token) pair is in exactly one group, unmasked; no invisible pair is unmasked. Every
 * slot is written once and read once, by a merge of the same query in a later launch (or handed over on
 * chip); every query's output is written exactly once. All indices are in range.
 */
#ifndef TREEATTN_VERIFY_JUDGE_COVER_H
#define TREEATTN_VERIFY_JUDGE_COVER_H

#include "sim/plan.h"

BEGIN_C

/* True if the plan keeps the invariant. Else *e says which rule broke, where: a sentence naming group, query,
 * node and tokens as the tree numbers them. Reads only the plan and its normal form; safe on plans broken in any
 * way (no index is trusted before it was checked). */
bool cover_check(const struct plan *p, struct err *e);
/* The same. *pair: what the sentence is about, if it is a query that reads tokens never, twice, or without seeing them; else
 * its query is -1. */
bool cover_check_pair(const struct plan *p, struct plan_pair *pair, struct err *e);
/* Is the plan safe to walk and to print? That is a part of cover_check: no index of its groups, masks and merge steps is
 * out of range. merge_in may still name no slot. */
bool cover_structure(const struct plan *p, struct err *e);
/* cover_check of a plan that a strategy made for what fmt says ("step 7"). *e names both, and its code is EXIT_FAILED.
 * A caller that only counts or times the plans of a trace checks the first and then one in COVER_EVERY. All of them
 * would take half as long again. */
enum { COVER_EVERY = 64 };
bool cover_check_of(const struct plan *p, const char *strategy, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

END_C

#endif
