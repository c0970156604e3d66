/*
 * kinds.h - what the kinds of fault are made of: draws, places, what matters to an answer, copies to break.
 */
#ifndef TREEATTN_VERIFY_FAULTS_KINDS_H
#define TREEATTN_VERIFY_FAULTS_KINDS_H

#include "verify/faults/faults.h"

BEGIN_C

#define FAULT(name, where, about) bool plant_##name(const struct fault_case *fc, struct broken *b);
#include "verify/faults/faults.def"
#undef FAULT
/* Defines a kind that is one expression of fc and b. */
#define KIND(name, planted)                                                                                  \
    bool plant_##name(const struct fault_case *fc, struct broken *b)                                         \
    {                                                                                                        \
        return planted;                                                                                      \
    }
/* A kind that is planted at *x, if `drawn` can fill a `type` x: its body, with fc and b, tells whether it is. */
#define KIND_AT(name, type, drawn)                                                                           \
    static bool name(const struct fault_case *fc, struct broken *b, const type *x);                          \
    bool plant_##name(const struct fault_case *fc, struct broken *b)                                         \
    {                                                                                                        \
        type x;                                                                                              \
        return drawn && name(fc, b, &x);                                                                     \
    }                                                                                                        \
    static bool name(const struct fault_case *fc, struct broken *b, const type *x)

/* Uniform in [0, n), n >= 1; the next number of this planting. */
int64_t fault_draw(struct broken *b, int64_t n);
/* i: every number under n once, from a random one on. */
#define EACH_INDEX(b, i, n)                                                                                  \
    for (int64_t rest = (n), i = rest > 0 ? fault_draw(b, n) : 0; rest > 0; rest--, i = (i + 1) % (n))
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
/* The output of *b, copied from the sound one on first use. */
struct output *fault_edit_output(const struct fault_case *fc, struct broken *b);

/* ---- places in a plan, and edits of it (plan.c) ---- */

/* The k-th query of group g and its r-th run: one bit of a mask. */
struct place {
    int64_t g;
    int32_t k;
    int64_t r;
};
/* A random place, into *x; gives how many there are. */
int64_t place_first(const struct plan *p, struct broken *b, struct place *x);

/* Which group writes a slot and which step reads it; -1: none. */
struct slot_use {
    int64_t group;
    int32_t k;           /* the group's k-th query */
    int64_t reader, pos; /* merge step, and which entry of merge_in */
    bool onchip;
};
/* [n_slots] of a sound plan; the caller frees. */
struct slot_use *slots_map(const struct plan *p);
/* Does the partial in this slot matter to its query? (False for slots that merge steps write.) */
bool slot_seen(const struct fault_case *fc, const struct slot_use *use);

int64_t edit_add_slots(struct plan *p, int64_t n);
/* A step without inputs that writes the output of that query; gives its number. */
int64_t edit_add_merge(struct plan *p, int32_t query, int32_t launch);
/* Give merge step m one more input. */
void edit_add_input(struct plan *p, int64_t m, int64_t slot);
void edit_drop_input(struct plan *p, int64_t m, int64_t pos);

END_C

#endif
