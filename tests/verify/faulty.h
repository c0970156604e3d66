/*
 * faulty.h - kernels that are wrong in every way that verify/faults/faults.def knows: what fails on purpose.
 * And kernels that do what no kernel should: "faulty-exec" and others, right but for that. And those of
 * stateful.h.
 *
 * "faulty-KIND" runs the plan as `cpu` does, with that fault planted where the case has a place for it. kernel_find
 * knows these kernels in the test runner and in build/tests/treeattn-faulty, both linked with --wrap=kernel_find.
 */
#ifndef TREEATTN_TESTS_VERIFY_FAULTY_H
#define TREEATTN_TESTS_VERIFY_FAULTY_H

#include "kernels/kernel.h"

/* The kernel of a kind of fault; "law": one that passes the oracle, and breaks the law "ones". */
const struct kernel *faulty_kernel(const char *kind);
/* Can a kernel do that? Not what only the comparator's caller can. */
bool faulty_can(const char *kind);

#endif
