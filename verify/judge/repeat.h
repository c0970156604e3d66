/*
 * repeat.h - a case changed where it lies: what a kernel keeps from run to run then shows.
 *
 * The changed case is in the buffers of the first one, so that all pointers are the same, and has as many nodes, queries, tokens
 * and pages. A kernel that takes either for a sign that nothing changed gives an answer of the case before.
 */
#ifndef TREEATTN_VERIFY_JUDGE_REPEAT_H
#define TREEATTN_VERIFY_JUDGE_REPEAT_H

#include "ref/nform.h"
#include "ref/oracle.h"
#include "verify/judge/guard_cpu.h"

BEGIN_C

enum repeat_change {
    REPEAT_AS_WAS,
    REPEAT_CONTENTS, /* other Q, K, V and page table: the same plan runs again */
    REPEAT_LENGTHS,  /* other lengths of nodes, too: another plan */
    N_REPEAT_CHANGES
};

struct repeat;
/* Of t and p, which was made of it and the spec; both must outlive it. Without `aligned`, an inner node may get any length.
 * NULL where the case is too large for that: it would cost too much. Free with repeat_free. */
struct repeat *repeat_new(struct tree *t, struct problem *p, const struct problem_spec *s, bool aligned);
void repeat_free(struct repeat *x);

/* The tree and the problem, in place, are so from now on, whatever was written to them. False where that cannot be, and nothing
 * is done: of a tree of one node there are no other lengths. */
bool repeat_make(struct repeat *x, enum repeat_change change);
/* Of what is there now. The normal form, sums and oracle are kept until the end. */
const struct nform *repeat_nform(struct repeat *x);
const struct guarded *repeat_inputs(struct repeat *x);
const struct oracle *repeat_oracle(struct repeat *x);
/* How it differs from the first run, for "again with ..". */
const char *repeat_words(const struct repeat *x);

/* `out` is a wrong answer to what is there now. What was kept, in words, or ""; what is there is put back. */
void repeat_blame(struct repeat *x, const struct output *out, char *cause, size_t size);

END_C

#endif
