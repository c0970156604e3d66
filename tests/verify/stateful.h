/*
 * stateful.h - kernels that keep something from run to run: right as long as nothing changes, and wrong afterwards.
 *
 * "faulty-keeps_k" and others; faulty.h finds them. What they keep is a thread's own.
 */
#ifndef TREEATTN_TESTS_VERIFY_STATEFUL_H
#define TREEATTN_TESTS_VERIFY_STATEFUL_H

#include "kernels/kernel.h"

extern const struct kernel stateful[];
extern const int32_t n_stateful;
/* Does the first case that it ever runs show it? Else it takes another one before. */
bool stateful_shows_alone(const struct kernel *k);

#endif
