/*
 * plan.h - finding places in a plan, and editing it: shared by the kinds that break plans.
 */
#ifndef TREEATTN_VERIFY_FAULTS_PLAN_H
#define TREEATTN_VERIFY_FAULTS_PLAN_H

#include "verify/faults/kinds.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The k-th query of group g and its r-th run: one bit of a mask. Iterated from a random start, wrapping
 * around: for (n = place_first(plan, b, &x); n > 0 && !fits(x); n--) place_next(plan, &x); ends with n = 0 if
 * no place fits. */
struct place {
    int64_t g;
    int32_t k;
    int64_t r;
};
int64_t place_first(const struct plan *p, struct broken *b, struct place *x);
void place_next(const struct plan *p, struct place *x);
/* Visible, and its tokens matter to the query. */
bool place_seen(const struct fault_case *fc, const struct place *x);
/* A random place that place_seen; false if there is none. */
bool place_draw(const struct fault_case *fc, struct broken *b, struct place *x);
const struct run *place_run(const struct plan *p, const struct place *x);

/* Who writes a slot and who reads it; -1: nobody. */
struct slot_use {
    int64_t group, writer; /* group, or merge step */
    int32_t k;             /* the group's k-th query */
    int64_t reader, pos;   /* merge step, and which entry of merge_in */
    bool onchip;
};
/* [n_slots] of a sound plan; the caller frees. */
struct slot_use *slots_map(const struct plan *p);
/* Does the partial in this slot matter to its query? (False for slots that merge steps write.) */
bool slot_seen(const struct fault_case *fc, const struct slot_use *use);

/* ---- edits ---- */

int64_t edit_add_slots(struct plan *p, int64_t n);
int64_t edit_add_merge(struct plan *p, const struct merge_step *m);
/* Give merge step m one more input. */
void edit_add_input(struct plan *p, int64_t m, int64_t slot);
void edit_drop_input(struct plan *p, int64_t m, int64_t pos);
/* A group that writes the output goes through slots and a merge launch of its own instead: still sound. */
void edit_through_slots(struct plan *p, int64_t g);
/* A launch after all others. */
int32_t edit_add_launch(struct plan *p, const char *name);

#ifdef __cplusplus
}
#endif

#endif
