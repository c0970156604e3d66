/*
 * kinds.h - what the kinds of fault are made of: draws, places, what matters to an answer, copies to break.
 */
#ifndef TREEATTN_VERIFY_FAULTS_KINDS_H
#define TREEATTN_VERIFY_FAULTS_KINDS_H

#include "verify/faults/faults.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FAULT(name, where, about) bool plant_##name(const struct fault_case *fc, struct broken *b);
#include "verify/faults/faults.def"
#undef FAULT

/* Uniform in [0, n), n >= 1; the next number of this planting. */
int64_t fault_draw(struct broken *b, int64_t n);
void fault_place(struct broken *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* exp(logit - LSE): the softmax weight of the token in a pool slot, in the true answer of query q (as the tree numbers
 * it). For a token that q does not see: the weight that it would get. */
double fault_weight(const struct fault_case *fc, int32_t q, int32_t head, int64_t slot);
/* Does adding or removing these tokens of a node (both of the normal form, as q) change the LSE of q in some
 * head by more than rounding? True as well if a token is poisoned. */
bool fault_seen(const struct fault_case *fc, int32_t q, int32_t node, int64_t begin, int64_t end);

/* Does any query see any token? Without, the answer has nothing to get wrong but that there is none. */
bool fault_any_seen(const struct fault_case *fc);

/* The plan or problem of *b, copied from the case on first use. */
struct plan *fault_edit_plan(const struct fault_case *fc, struct broken *b);
struct problem *fault_edit_problem(const struct fault_case *fc, struct broken *b);

#ifdef __cplusplus
}
#endif

#endif
